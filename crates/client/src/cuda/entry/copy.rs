//! Copies, as programs ask for them.

use super::prelude::*;
use crate::cuda::engine::copy;
use crate::cuda::state::rows::{DEVICE, End, HOST, Rows, at, from_3d};

pub unsafe fn cuMemcpyDtoDAsync_v2(
    cx: Cx,
    dst: CUdeviceptr,
    src: CUdeviceptr,
    len: usize,
    s: u32,
) -> Result<()> {
    // Page-locked memory of the host is an address of the device's, too; other memory is not.
    let mapped = |p| cx.state().ranges.is_pinned(p, len);
    if !mapped(dst) && len > 0 {
        cx.state().must_be_on_device(dst, len)?;
    }
    if !mapped(src) && len > 0 {
        cx.state().must_be_on_device(src, len)?;
    }
    // SAFETY: memory that CUDA knows, checked above.
    unsafe { copy::any(cx, dst, src, len, s, true) }
}

// What lines of the spec say of rows, and the functions on batches, which have a file of their own.
pub use super::copy_batch::*;
pub use crate::cuda::state::rows::{from_2d, in_array, rows_of};

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

/// A copy of one row.
pub fn line(src: End, dst: End, width: usize) -> Rows {
    Rows {
        src,
        dst,
        width,
        height: 1,
        depth: 1,
    }
}
