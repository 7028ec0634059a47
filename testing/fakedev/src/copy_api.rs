//! Copies and fills, in all their forms.

use crate::array;
use crate::capture;
use crate::context;
use crate::entry::{Flavour, api};
use crate::ffi::*;
use crate::memory;
use crate::stream;
use crate::work::{Copy, Fill, Plane, Work};
use std::sync::Arc;

/// Host memory that the driver does not know: page-locked memory is in its map.
fn pageable(address: u64) -> bool {
    memory::find(address).is_none()
}

/// Checks a copy and hands it to its stream.
///
/// As with the real driver, a copy from pageable host memory has read it when the call returns, and
/// a copy to pageable host memory is done by then.
pub fn copy(mut copy: Copy, stream: CUstream, flavour: Flavour, wait: bool) -> Res {
    let (stream, context) = stream::resolve(stream, flavour)?;
    if copy.is_empty() {
        return Ok(());
    }
    if (!copy.src.device && copy.src.addr == 0) || (!copy.dst.device && copy.dst.addr == 0) {
        return Err(INVALID_VALUE);
    }
    if !copy.check(memory::usable) {
        return Err(INVALID_VALUE);
    }
    if wait {
        capture::refuse_wait(&stream)?;
    }
    let capturing = stream.capture.lock().unwrap().is_some();
    let to_pageable = !copy.dst.device && pageable(copy.dst.addr);
    if !capturing && !wait && !copy.src.device && pageable(copy.src.addr) {
        copy.stage();
    }
    stream::submit_to(&stream, &context, Work::Copy(Arc::new(copy)))?;
    if wait || (to_pageable && !capturing) {
        stream.wait_done(stream.submitted());
        context.status()?;
    }
    Ok(())
}

/// Whether an address is the driver's, so that a copy must stay inside what is live there.
fn known(address: u64) -> bool {
    memory::find(address).is_some_and(|range| !range.is_host())
}

fn any(dst: CUdeviceptr, src: CUdeviceptr, n: usize) -> Copy {
    Copy::flat(dst, known(dst), src, known(src), n)
}

fn plane(kind: u32, host: usize, device: u64, pitch: usize, slice: usize) -> R<Plane> {
    let (addr, device) = match kind {
        MEMORYTYPE_HOST => (host as u64, false),
        MEMORYTYPE_DEVICE => (device, true),
        MEMORYTYPE_UNIFIED => (device, known(device)),
        _ => return Err(NOT_SUPPORTED),
    };
    Ok(Plane {
        addr,
        pitch,
        slice,
        device,
    })
}

/// Turns a three-dimensional description into a copy.
pub fn from_3d(p: &Memcpy3D) -> R<Copy> {
    let inside = |at: (usize, usize, usize), array: usize| {
        let (addr, row, height, depth) = array::bytes(array)?;
        let fits = |at: usize, n: usize, size: usize| at.checked_add(n).is_some_and(|e| e <= size);
        if !fits(at.0, p.width, row) || !fits(at.1, p.height, height) || !fits(at.2, p.depth, depth)
        {
            return Err(INVALID_VALUE);
        }
        let (pitch, slice) = (row, row * height);
        Ok(Plane {
            addr: addr + (at.2 * slice + at.1 * pitch + at.0) as u64,
            pitch,
            slice,
            device: true,
        })
    };
    let end = |kind, host, device, at: (usize, usize, usize), pitch: usize, height: usize| {
        let pitch = if pitch == 0 { p.width } else { pitch };
        let height = if height == 0 { p.height } else { height };
        let slice = pitch.checked_mul(height).ok_or(INVALID_VALUE)?;
        if p.height > 1 && pitch < p.width {
            return Err(INVALID_VALUE);
        }
        let mut plane = plane(kind, host, device, pitch, slice)?;
        let (x, y, z) = at;
        let rows = y.checked_mul(pitch).and_then(|y| y.checked_add(x));
        let offset = z
            .checked_mul(slice)
            .and_then(|z| z.checked_add(rows?))
            .ok_or(INVALID_VALUE)?;
        plane.addr = plane.addr.checked_add(offset as u64).ok_or(INVALID_VALUE)?;
        Ok(plane)
    };
    let src_at = (p.src_x, p.src_y, p.src_z);
    let dst_at = (p.dst_x, p.dst_y, p.dst_z);
    Ok(Copy {
        src: match p.src_type {
            MEMORYTYPE_ARRAY => inside(src_at, p.src_array)?,
            kind => end(
                kind,
                p.src_host,
                p.src_device,
                src_at,
                p.src_pitch,
                p.src_height,
            )?,
        },
        dst: match p.dst_type {
            MEMORYTYPE_ARRAY => inside(dst_at, p.dst_array)?,
            kind => end(
                kind,
                p.dst_host,
                p.dst_device,
                dst_at,
                p.dst_pitch,
                p.dst_height,
            )?,
        },
        width: p.width,
        height: p.height,
        depth: p.depth,
        staged: None,
        params: Some(*p),
    })
}

fn from_2d(p: &Memcpy2D) -> R<Copy> {
    from_3d(&Memcpy3D {
        src_x: p.src_x,
        src_y: p.src_y,
        src_type: p.src_type,
        src_host: p.src_host,
        src_device: p.src_device,
        src_array: p.src_array,
        src_pitch: p.src_pitch,
        dst_x: p.dst_x,
        dst_y: p.dst_y,
        dst_type: p.dst_type,
        dst_host: p.dst_host,
        dst_device: p.dst_device,
        dst_array: p.dst_array,
        dst_pitch: p.dst_pitch,
        width: p.width,
        height: p.height,
        depth: 1,
        ..Memcpy3D::default()
    })
}

/// Checks a fill.
pub fn checked_fill(fill: Fill) -> R<Fill> {
    let span = fill.span().ok_or(INVALID_VALUE)?;
    let narrow = fill.height > 1 && fill.pitch < fill.width * fill.element;
    let element = fill.element as u64;
    let odd = !fill.dst.is_multiple_of(element)
        || (fill.height > 1 && !(fill.pitch as u64).is_multiple_of(element));
    if narrow || odd || (span != 0 && !memory::usable(fill.dst, span)) {
        return Err(INVALID_VALUE);
    }
    Ok(fill)
}

fn fill(
    dst: u64,
    pitch: usize,
    (value, element): (u32, usize),
    (width, height): (usize, usize),
    (stream, flavour): (CUstream, Flavour),
) -> Res {
    let (stream, context) = stream::resolve(stream, flavour)?;
    if width == 0 || height == 0 {
        return Ok(());
    }
    let fill = checked_fill(Fill {
        dst,
        pitch,
        value,
        element,
        width,
        height,
    })?;
    stream::submit_to(&stream, &context, Work::Fill(fill))
}

fn both(dst: CUcontext, src: CUcontext) -> Res {
    context::by_handle(dst)?;
    context::by_handle(src).map(drop)
}

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
            let done = copy(any(dsts[i], srcs[i], n), stream, flavour, false);
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
        both(dst_context, src_context)?;
        copy(Copy::flat(dst, true, src, true, n), 0, FLAVOUR, true)
    }

    fn [cuMemcpyPeerAsync; cuMemcpyPeerAsync_ptsz] (
        dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext,
        n: usize, stream: CUstream,
    ) {
        both(dst_context, src_context)?;
        copy(Copy::flat(dst, true, src, true, n), stream, FLAVOUR, false)
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
        copy(from_3d(&get(params)?)?, 0, FLAVOUR, true)
    }

    fn [cuMemcpy3DAsync_v2; cuMemcpy3DAsync_v2_ptsz] (params: *const Memcpy3D, stream: CUstream) {
        copy(from_3d(&get(params)?)?, stream, FLAVOUR, false)
    }

    fn [cuMemcpy3DPeer; cuMemcpy3DPeer_ptds] (params: *const Memcpy3D) {
        let params = get(params)?;
        both(params.dst_reserved, params.src_reserved)?;
        copy(from_3d(&params)?, 0, FLAVOUR, true)
    }

    fn [cuMemcpy3DPeerAsync; cuMemcpy3DPeerAsync_ptsz] (params: *const Memcpy3D, stream: CUstream) {
        let params = get(params)?;
        both(params.dst_reserved, params.src_reserved)?;
        copy(from_3d(&params)?, stream, FLAVOUR, false)
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
