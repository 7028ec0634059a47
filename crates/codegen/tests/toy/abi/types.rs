//! The toy's types.

pub type ToyResult = i32;
/// all is well
pub const TOY_OK: ToyResult = 0;
/// bad argument
pub const TOY_INVALID: ToyResult = 1;
/// not forwarded
pub const TOY_NOT_SUPPORTED: ToyResult = 2;
/// something else
pub const TOY_UNKNOWN: ToyResult = 3;
pub type ToyStream = *mut c_void;
pub type ToyCup = *mut c_void;
#[layout(size = 16, align = 8, offsets = [0, 8])]
#[repr(C)]
pub struct ToySize {
    pub width: u64,
    pub height: u32,
}
#[layout(size = 8, align = 8, offsets = [0])]
#[repr(C)]
pub struct ToyPointing {
    pub at: *mut c_void,
}
