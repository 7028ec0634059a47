//! Copies of rows: pitched memory, arrays, boxes. What goes to or comes from the client is packed.

use super::address::{check_destination, check_source};
use super::done::{Kept, Staged, Then, reply};
use super::{Cuda, attempt, check};
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::limits::BULK_CHUNK;
use busbar_wire::record::Header;

fn shape(bytes: &[u8]) -> Result<CUDA_MEMCPY3D, WireError> {
    busbar_abi::from_bytes(bytes).ok_or(WireError::BadValue("structure"))
}

fn array(w: &mut Cuda, id: u32) -> Result<CUarray, CUresult> {
    if id == 0 {
        Ok(std::ptr::null_mut())
    } else {
        Ok(w.handle(Kind::Array, id)? as CUarray)
    }
}

const HOST: CUmemorytype = CU_MEMORYTYPE_HOST as _;

pub(super) fn copy_in_rows(
    w: &mut Cuda,
    h: &Header,
    m: msg::CopyInRows<'_>,
) -> Result<(), WireError> {
    let mut c = shape(m.shape)?;
    let bytes = c
        .WidthInBytes
        .checked_mul(c.Height)
        .and_then(|n| n.checked_mul(c.Depth));
    if bytes != Some(m.data.len()) {
        return Err(WireError::BadValue("number of bytes"));
    }
    let slab = w.slab.take();
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        c.dstArray = array(w, m.array)?;
        check_destination(w, &c)?;
        c.srcMemoryType = HOST;
        c.srcHost = m.data.as_ptr().cast();
        (c.srcXInBytes, c.srcY, c.srcZ, c.srcLOD) = (0, 0, 0, 0);
        (c.srcPitch, c.srcHeight) = (c.WidthInBytes, c.Height);
        // SAFETY: the record's bytes are as many as the box has; from a slab, the driver may go on
        // reading, so it is kept until the copy is done; from elsewhere it has read them on return.
        check(unsafe { w.driver.cuMemcpy3DAsync_v2(&c, stream) })
    });
    if let Some(s) = slab
        && rc == CUDA_SUCCESS
    {
        let (stream, ctx) = w.here(h, m.stream);
        w.completer.after(stream, ctx, Then::Release(Kept::Slab(s)));
    }
    w.done(h, rc);
    Ok(())
}

pub(super) fn copy_out_rows(
    w: &mut Cuda,
    h: &Header,
    m: msg::CopyOutRows<'_>,
) -> Result<(), WireError> {
    let whole = shape(m.shape)?;
    let (stream, ctx) = w.here(h, m.stream);
    let rc = attempt(|| {
        w.stream(m.stream)?;
        let src = array(w, m.array)?;
        check_source(
            w,
            &CUDA_MEMCPY3D {
                srcArray: src,
                ..whole
            },
        )?;
        // As many bytes as the client waits for, and no box so far out that its rows cannot be
        // named.
        let bytes = whole
            .WidthInBytes
            .checked_mul(whole.Height)
            .and_then(|n| n.checked_mul(whole.Depth));
        let rows = whole.srcY.checked_add(whole.Height);
        let slices = whole.srcZ.checked_add(whole.Depth);
        if bytes.map(|n| n as u64) != Some(m.len) || rows.is_none() || slices.is_none() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let width = whole.WidthInBytes;
        if width == 0 || width > BULK_CHUNK {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let at_once = BULK_CHUNK / width;
        let mut offset = 0;
        for z in 0..whole.Depth {
            let mut y = 0;
            while y < whole.Height {
                let rows = at_once.min(whole.Height - y);
                let slab = w.slab_out()?;
                let mut c = whole;
                c.srcArray = src;
                c.srcY += y;
                c.srcZ += z;
                c.dstMemoryType = HOST;
                c.dstHost = slab.ptr().cast();
                (c.dstXInBytes, c.dstY, c.dstZ, c.dstLOD) = (0, 0, 0, 0);
                (c.dstPitch, c.dstHeight) = (width, rows);
                (c.Height, c.Depth) = (rows, 1);
                // SAFETY: a slab holds that many rows, and is kept until they are sent.
                check(unsafe { w.driver.cuMemcpy3DAsync_v2(&c, stream) })?;
                let len = rows * width;
                let end = offset + len as u64;
                let then = Then::Send {
                    call: h.call,
                    offset,
                    bytes: Staged { slab, len },
                    last: (end == m.len).then_some(()),
                };
                w.completer.after(stream, ctx, then);
                offset = end;
                y += rows;
            }
        }
        Ok(())
    });
    match rc {
        // The last piece brings the answer along.
        CUDA_SUCCESS if m.len > 0 => {}
        CUDA_SUCCESS => w.completer.after(stream, ctx, reply(h.call)),
        rc => w.completer.now(rc, reply(h.call)),
    }
    Ok(())
}

pub(super) fn copy_rows_on_device(
    w: &mut Cuda,
    h: &Header,
    m: msg::CopyRowsOnDevice<'_>,
) -> Result<(), WireError> {
    let mut c = shape(m.shape)?;
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        c.srcArray = array(w, m.src_array)?;
        c.dstArray = array(w, m.dst_array)?;
        check_source(w, &c)?;
        check_destination(w, &c)?;
        if m.peer == 0 {
            // SAFETY: live arrays, or addresses that the driver checks.
            return check(unsafe { w.driver.cuMemcpy3DAsync_v2(&c, stream) });
        }
        let mut p: CUDA_MEMCPY3D_PEER = busbar_abi::zeroed();
        (p.srcXInBytes, p.srcY, p.srcZ, p.srcLOD) = (c.srcXInBytes, c.srcY, c.srcZ, c.srcLOD);
        (p.srcMemoryType, p.srcDevice, p.srcArray) = (c.srcMemoryType, c.srcDevice, c.srcArray);
        (p.srcPitch, p.srcHeight) = (c.srcPitch, c.srcHeight);
        p.srcContext = w.handle(Kind::Context, m.src_context)? as CUcontext;
        (p.dstXInBytes, p.dstY, p.dstZ, p.dstLOD) = (c.dstXInBytes, c.dstY, c.dstZ, c.dstLOD);
        (p.dstMemoryType, p.dstDevice, p.dstArray) = (c.dstMemoryType, c.dstDevice, c.dstArray);
        (p.dstPitch, p.dstHeight) = (c.dstPitch, c.dstHeight);
        p.dstContext = w.handle(Kind::Context, m.dst_context)? as CUcontext;
        (p.WidthInBytes, p.Height, p.Depth) = (c.WidthInBytes, c.Height, c.Depth);
        // SAFETY: as above, and live contexts.
        check(unsafe { w.driver.cuMemcpy3DPeerAsync(&p, stream) })
    });
    w.done(h, rc);
    Ok(())
}
