//! Copies and fills, in all their forms.

use crate::engine::copies::{Who, any, copy, copy_by, fill, from_2d, within_rows};
use crate::entry::api;
use crate::ffi::*;
use crate::state::stream::Flavour;
use crate::state::work::Copy;

unsafe fn copy_batch(
    dsts: *const CUdeviceptr,
    srcs: *const CUdeviceptr,
    sizes: *const usize,
    count: usize,
    failed: *mut usize,
    (stream, flavour): (CUstream, Flavour),
) -> Res {
    // SAFETY: by the caller's contract each list has `count` items, and `failed` is null or valid.
    unsafe {
        // A batch is for streams that are not the legacy one.
        let legacy = stream == STREAM_LEGACY || (stream == 0 && flavour == Flavour::Legacy);
        if count == 0 || legacy {
            return Err(INVALID_VALUE);
        }
        put_opt(failed, usize::MAX);
        let (dsts, srcs) = (list(dsts, count)?, list(srcs, count)?);
        let sizes = list(sizes, count)?;
        if sizes.contains(&0) {
            return Err(INVALID_VALUE);
        }
        for (i, n) in sizes.into_iter().enumerate() {
            let one = any(dsts[i], srcs[i], n);
            let done = copy_by(Who::Stream, one, stream, flavour, false);
            if done.is_err() {
                put_opt(failed, i);
                return done;
            }
        }
        Ok(())
    }
}

api! {
    fn [cuMemcpyBatchAsync; cuMemcpyBatchAsync_ptsz] (
        dsts: *const CUdeviceptr, srcs: *const CUdeviceptr, sizes: *const usize, count: usize,
        _attributes: *const u8, _indices: *const usize, _n: usize, failed: *mut usize,
        stream: CUstream,
    ) {
        copy_batch(dsts, srcs, sizes, count, failed, (stream, FLAVOUR))
    }

    fn [cuMemcpyBatchAsync_v2; cuMemcpyBatchAsync_v2_ptsz] (
        dsts: *const CUdeviceptr, srcs: *const CUdeviceptr, sizes: *const usize, count: usize,
        _attributes: *const u8, _indices: *const usize, _n: usize, stream: CUstream,
    ) {
        copy_batch(dsts, srcs, sizes, count, std::ptr::null_mut(), (stream, FLAVOUR))
    }

    fn [cuMemcpy; cuMemcpy_ptds] (dst: CUdeviceptr, src: CUdeviceptr, n: usize) {
        copy(any(dst, src, n), 0, FLAVOUR, true)
    }

    fn [cuMemcpyAsync; cuMemcpyAsync_ptsz] (
        dst: CUdeviceptr, src: CUdeviceptr, n: usize, stream: CUstream,
    ) {
        copy(any(dst, src, n), stream, FLAVOUR, false)
    }

    fn [cuMemcpyHtoD_v2; cuMemcpyHtoD_v2_ptds] (dst: CUdeviceptr, src: u64, n: usize) {
        copy(Copy::flat(dst, true, src, false, n), 0, FLAVOUR, true)
    }

    fn [cuMemcpyDtoH_v2; cuMemcpyDtoH_v2_ptds] (dst: u64, src: CUdeviceptr, n: usize) {
        copy(Copy::flat(dst, false, src, true, n), 0, FLAVOUR, true)
    }

    fn [cuMemcpyDtoD_v2; cuMemcpyDtoD_v2_ptds] (dst: CUdeviceptr, src: CUdeviceptr, n: usize) {
        copy(Copy::flat(dst, true, src, true, n), 0, FLAVOUR, false)
    }

    fn [cuMemcpyHtoDAsync_v2; cuMemcpyHtoDAsync_v2_ptsz] (
        dst: CUdeviceptr, src: u64, n: usize, stream: CUstream,
    ) {
        copy(Copy::flat(dst, true, src, false, n), stream, FLAVOUR, false)
    }

    fn [cuMemcpyDtoHAsync_v2; cuMemcpyDtoHAsync_v2_ptsz] (
        dst: u64, src: CUdeviceptr, n: usize, stream: CUstream,
    ) {
        copy(Copy::flat(dst, false, src, true, n), stream, FLAVOUR, false)
    }

    fn [cuMemcpyDtoDAsync_v2; cuMemcpyDtoDAsync_v2_ptsz] (
        dst: CUdeviceptr, src: CUdeviceptr, n: usize, stream: CUstream,
    ) {
        copy(Copy::flat(dst, true, src, true, n), stream, FLAVOUR, false)
    }

    fn [cuMemcpyPeer; cuMemcpyPeer_ptds] (
        dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext,
        n: usize,
    ) {
        let who = Who::Each(dst_context, src_context);
        copy_by(who, Copy::flat(dst, true, src, true, n), 0, FLAVOUR, true)
    }

    fn [cuMemcpyPeerAsync; cuMemcpyPeerAsync_ptsz] (
        dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext,
        n: usize, stream: CUstream,
    ) {
        let who = Who::Each(dst_context, src_context);
        copy_by(who, Copy::flat(dst, true, src, true, n), stream, FLAVOUR, false)
    }

    fn [cuMemcpy2D_v2 cuMemcpy2DUnaligned_v2; cuMemcpy2D_v2_ptds cuMemcpy2DUnaligned_v2_ptds] (
        params: *const Memcpy2D,
    ) {
        copy(from_2d(&get(params)?)?, 0, FLAVOUR, true)
    }

    fn [cuMemcpy2DAsync_v2; cuMemcpy2DAsync_v2_ptsz] (params: *const Memcpy2D, stream: CUstream) {
        copy(from_2d(&get(params)?)?, stream, FLAVOUR, false)
    }

    fn [cuMemcpy3D_v2; cuMemcpy3D_v2_ptds] (params: *const Memcpy3D) {
        copy(within_rows(&get(params)?)?, 0, FLAVOUR, true)
    }

    fn [cuMemcpy3DAsync_v2; cuMemcpy3DAsync_v2_ptsz] (params: *const Memcpy3D, stream: CUstream) {
        copy(within_rows(&get(params)?)?, stream, FLAVOUR, false)
    }

    fn [cuMemcpy3DPeer; cuMemcpy3DPeer_ptds] (params: *const Memcpy3D) {
        let params = get(params)?;
        let who = Who::Each(params.dst_reserved, params.src_reserved);
        copy_by(who, within_rows(&params)?, 0, FLAVOUR, true)
    }

    fn [cuMemcpy3DPeerAsync; cuMemcpy3DPeerAsync_ptsz] (params: *const Memcpy3D, stream: CUstream) {
        let params = get(params)?;
        let who = Who::Each(params.dst_reserved, params.src_reserved);
        copy_by(who, within_rows(&params)?, stream, FLAVOUR, false)
    }

    fn [cuMemsetD8_v2; cuMemsetD8_v2_ptds] (dst: CUdeviceptr, value: u8, n: usize) {
        fill(dst, 0, (value.into(), 1), (n, 1), (0, FLAVOUR))
    }

    fn [cuMemsetD16_v2; cuMemsetD16_v2_ptds] (dst: CUdeviceptr, value: u16, n: usize) {
        fill(dst, 0, (value.into(), 2), (n, 1), (0, FLAVOUR))
    }

    fn [cuMemsetD32_v2; cuMemsetD32_v2_ptds] (dst: CUdeviceptr, value: u32, n: usize) {
        fill(dst, 0, (value, 4), (n, 1), (0, FLAVOUR))
    }

    fn [cuMemsetD8Async; cuMemsetD8Async_ptsz] (
        dst: CUdeviceptr, value: u8, n: usize, stream: CUstream,
    ) {
        fill(dst, 0, (value.into(), 1), (n, 1), (stream, FLAVOUR))
    }

    fn [cuMemsetD16Async; cuMemsetD16Async_ptsz] (
        dst: CUdeviceptr, value: u16, n: usize, stream: CUstream,
    ) {
        fill(dst, 0, (value.into(), 2), (n, 1), (stream, FLAVOUR))
    }

    fn [cuMemsetD32Async; cuMemsetD32Async_ptsz] (
        dst: CUdeviceptr, value: u32, n: usize, stream: CUstream,
    ) {
        fill(dst, 0, (value, 4), (n, 1), (stream, FLAVOUR))
    }

    fn [cuMemsetD2D8_v2; cuMemsetD2D8_v2_ptds] (
        dst: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize,
    ) {
        fill(dst, pitch, (value.into(), 1), (width, height), (0, FLAVOUR))
    }

    fn [cuMemsetD2D16_v2; cuMemsetD2D16_v2_ptds] (
        dst: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize,
    ) {
        fill(dst, pitch, (value.into(), 2), (width, height), (0, FLAVOUR))
    }

    fn [cuMemsetD2D32_v2; cuMemsetD2D32_v2_ptds] (
        dst: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize,
    ) {
        fill(dst, pitch, (value, 4), (width, height), (0, FLAVOUR))
    }

    fn [cuMemsetD2D8Async; cuMemsetD2D8Async_ptsz] (
        dst: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize, stream: CUstream,
    ) {
        fill(dst, pitch, (value.into(), 1), (width, height), (stream, FLAVOUR))
    }

    fn [cuMemsetD2D16Async; cuMemsetD2D16Async_ptsz] (
        dst: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize, stream: CUstream,
    ) {
        fill(dst, pitch, (value.into(), 2), (width, height), (stream, FLAVOUR))
    }

    fn [cuMemsetD2D32Async; cuMemsetD2D32Async_ptsz] (
        dst: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize, stream: CUstream,
    ) {
        fill(dst, pitch, (value, 4), (width, height), (stream, FLAVOUR))
    }
}
