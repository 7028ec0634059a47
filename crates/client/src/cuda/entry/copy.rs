//! Copies, as programs ask for them.

use super::prelude::*;
use crate::cuda::engine::{across, copy, peer};
use crate::cuda::life::{enter, guard};
use crate::cuda::state::rows::{DEVICE, End, HOST, Rows, at, from_3d};

pub unsafe fn cuMemcpyDtoDAsync_v2(
    cx: Cx,
    dst: CUdeviceptr,
    src: CUdeviceptr,
    len: usize,
    s: u32,
) -> Result<()> {
    // SAFETY: memory of devices, which is looked up.
    if let Some(done) = unsafe { across::bytes(cx, dst, src, len, s, true, copy::any) } {
        return done;
    }
    // Page-locked memory of the host is an address of the device's, too; other memory is not.
    let mapped = |p| cx.state().ranges.is_pinned(p, len);
    if !mapped(dst) && len > 0 {
        cx.state().must_be_on_device(dst, len)?;
    }
    if !mapped(src) && len > 0 {
        cx.state().must_be_on_device(src, len)?;
    }
    // SAFETY: memory that CUDA knows, checked above.
    unsafe { copy::by_address(cx, dst, src, len, s, true) }
}

/// A copy between contexts, in a stream or with the default ones.
unsafe fn between(
    (dst, dst_context): (CUdeviceptr, CUcontext),
    (src, src_context): (CUdeviceptr, CUcontext),
    byte_count: usize,
    stream: CUstream,
    (per_thread, later): (bool, bool),
) -> Result<()> {
    let cx = enter()?;
    let h_stream = cx.stream(stream, per_thread)?;
    let cx = cx.at_stream(h_stream);
    cx.need_context()?;
    // SAFETY: memory of devices, which is looked up.
    let across = unsafe { across::bytes(cx, dst, src, byte_count, h_stream, later, copy::any) };
    if let Some(done) = across {
        return done;
    }
    let m = msg::CuMemcpyPeerAsync {
        dst_device: dst,
        dst_context: cx.handle_opt(Kind::Context, dst_context as u64)?,
        src_device: src,
        src_context: cx.handle_opt(Kind::Context, src_context as u64)?,
        byte_count: byte_count as u64,
        h_stream,
    };
    peer::may_copy(cx, m.dst_context, dst)?;
    peer::may_copy(cx, m.src_context, src)?;
    let there = |p| cx.state().must_be_on_device(p, byte_count).is_ok();
    let usual = m.dst_context != 0 && m.src_context != 0 && there(dst) && there(src);
    cx.send_if(usual, &m, Touch::All)?;
    cx.has_begun(h_stream)
}

pub unsafe fn cuMemcpyPeerAsync(
    dst: CUdeviceptr,
    dst_context: CUcontext,
    src: CUdeviceptr,
    src_context: CUcontext,
    len: usize,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    let (dst, src) = ((dst, dst_context), (src, src_context));
    // SAFETY: passed on to the caller.
    guard(|| unsafe { between(dst, src, len, stream, (per_thread, true)) })
}

pub unsafe fn cuMemcpyPeer(
    dst: CUdeviceptr,
    dst_context: CUcontext,
    src: CUdeviceptr,
    src_context: CUcontext,
    len: usize,
    per_thread: bool,
) -> CUresult {
    let (dst, src) = ((dst, dst_context), (src, src_context));
    // SAFETY: passed on to the caller.
    guard(|| unsafe { between(dst, src, len, std::ptr::null_mut(), (per_thread, false)) })
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
