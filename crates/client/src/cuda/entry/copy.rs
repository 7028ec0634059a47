//! Copies, as programs ask for them.

use crate::cuda::call::Cx;
use crate::cuda::engine::copy;
use busbar_abi::cuda::*;

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

// The family's functions on rows, and on batches, have files of their own.
pub use super::copy_batch::*;
pub use super::copy_rows::*;
