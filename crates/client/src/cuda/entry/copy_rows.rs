//! Copies of rows, as programs ask for them.

use crate::cuda::engine::copy_rows;
use crate::cuda::life::{enter, guard};
use crate::cuda::state::rows::{DEVICE, End, HOST, Rows, at, from_3d};
use busbar_abi::cuda::*;

pub use crate::cuda::state::rows::{from_2d, in_array, rows_of};

/// Copies the box that `rows` makes of the program's description.
///
/// # Safety
/// The description is the program's, null or as the API asks.
pub unsafe fn copy_of_rows<T>(
    p: *const T,
    stream: CUstream,
    per_thread: bool,
    peer: bool,
    later: bool,
    rows: impl FnOnce(&T) -> Rows,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.need_context()?;
        // SAFETY: the program's pointer.
        let c = unsafe { p.as_ref() }.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let stream = cx.stream(stream, per_thread)?;
        // SAFETY: the program's box.
        unsafe { copy_rows::copy_box(cx, rows(c), stream, peer, later) }
    })
}

/// The copy between contexts that a program describes.
pub fn from_peer(c: &CUDA_MEMCPY3D_PEER) -> Rows {
    from_3d!(c, c.srcContext as u64, c.dstContext as u64)
}

/// Bytes of a device.
pub fn device_bytes(p: CUdeviceptr) -> End {
    at(DEVICE, p)
}

/// Bytes of the program's.
pub fn host_bytes<T>(p: *const T) -> End {
    at(HOST, p as u64)
}

/// Copies one row; on a stream, it may be done later.
///
/// # Safety
/// The program's bytes are as the API asks.
pub unsafe fn copy_of_line(
    src: End,
    dst: End,
    width: usize,
    stream: Option<CUstream>,
    per_thread: bool,
) -> CUresult {
    let later = stream.is_some();
    let stream = stream.unwrap_or(std::ptr::null_mut());
    let r = Rows {
        src,
        dst,
        width,
        height: 1,
        depth: 1,
    };
    // SAFETY: the box is one row, whose bytes are the program's.
    unsafe { copy_of_rows(&raw const r, stream, per_thread, false, later, |r| *r) }
}
