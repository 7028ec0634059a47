//! Copies of rows, as programs ask for them.

use crate::cuda::engine::copy_rows;
use crate::cuda::life::{enter, guard};
use crate::cuda::state::rows::{DEVICE, End, HOST, Rows, at, from_2d, from_3d, in_array};
use busbar_abi::cuda::*;
use std::ffi::c_void;

unsafe fn run<T>(
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

const NONE: CUstream = std::ptr::null_mut();

fn line(src: End, dst: End, width: usize, stream: Option<CUstream>, per_thread: bool) -> CUresult {
    let (later, stream) = (stream.is_some(), stream.unwrap_or(NONE));
    let r = Rows {
        src,
        dst,
        width,
        height: 1,
        depth: 1,
    };
    // SAFETY: the box is one row, whose bytes are the program's.
    unsafe { run(&raw const r, stream, per_thread, false, later, |r| *r) }
}

pub unsafe fn cuMemcpy2D_v2(p: *const CUDA_MEMCPY2D, per_thread: bool) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { run(p, NONE, per_thread, false, false, from_2d) }
}

pub unsafe fn cuMemcpy2DUnaligned_v2(p: *const CUDA_MEMCPY2D, per_thread: bool) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { run(p, NONE, per_thread, false, false, from_2d) }
}

pub unsafe fn cuMemcpy2DAsync_v2(
    p: *const CUDA_MEMCPY2D,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { run(p, stream, per_thread, false, true, from_2d) }
}

pub unsafe fn cuMemcpy3D_v2(p: *const CUDA_MEMCPY3D, per_thread: bool) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { run(p, NONE, per_thread, false, false, |c| from_3d!(c, 0, 0)) }
}

pub unsafe fn cuMemcpy3DAsync_v2(
    p: *const CUDA_MEMCPY3D,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { run(p, stream, per_thread, false, true, |c| from_3d!(c, 0, 0)) }
}

pub unsafe fn cuMemcpy3DPeer(p: *const CUDA_MEMCPY3D_PEER, per_thread: bool) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe {
        run(p, NONE, per_thread, true, false, |c| {
            from_3d!(c, c.srcContext as u64, c.dstContext as u64)
        })
    }
}

pub unsafe fn cuMemcpy3DPeerAsync(
    p: *const CUDA_MEMCPY3D_PEER,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe {
        run(p, stream, per_thread, true, true, |c| {
            from_3d!(c, c.srcContext as u64, c.dstContext as u64)
        })
    }
}

pub unsafe fn cuMemcpyAtoA_v2(
    dst: CUarray,
    dst_at: usize,
    src: CUarray,
    src_at: usize,
    n: usize,
    per_thread: bool,
) -> CUresult {
    line(
        in_array(src, src_at),
        in_array(dst, dst_at),
        n,
        None,
        per_thread,
    )
}

pub unsafe fn cuMemcpyAtoD_v2(
    dst: CUdeviceptr,
    src: CUarray,
    src_at: usize,
    n: usize,
    per_thread: bool,
) -> CUresult {
    line(in_array(src, src_at), at(DEVICE, dst), n, None, per_thread)
}

pub unsafe fn cuMemcpyDtoA_v2(
    dst: CUarray,
    dst_at: usize,
    src: CUdeviceptr,
    n: usize,
    per_thread: bool,
) -> CUresult {
    line(at(DEVICE, src), in_array(dst, dst_at), n, None, per_thread)
}

pub unsafe fn cuMemcpyAtoH_v2(
    dst: *mut c_void,
    src: CUarray,
    src_at: usize,
    n: usize,
    per_thread: bool,
) -> CUresult {
    line(
        in_array(src, src_at),
        at(HOST, dst as u64),
        n,
        None,
        per_thread,
    )
}

pub unsafe fn cuMemcpyAtoHAsync_v2(
    dst: *mut c_void,
    src: CUarray,
    src_at: usize,
    n: usize,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    line(
        in_array(src, src_at),
        at(HOST, dst as u64),
        n,
        Some(stream),
        per_thread,
    )
}

pub unsafe fn cuMemcpyHtoA_v2(
    dst: CUarray,
    dst_at: usize,
    src: *const c_void,
    n: usize,
    per_thread: bool,
) -> CUresult {
    line(
        at(HOST, src as u64),
        in_array(dst, dst_at),
        n,
        None,
        per_thread,
    )
}

pub unsafe fn cuMemcpyHtoAAsync_v2(
    dst: CUarray,
    dst_at: usize,
    src: *const c_void,
    n: usize,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    line(
        at(HOST, src as u64),
        in_array(dst, dst_at),
        n,
        Some(stream),
        per_thread,
    )
}
