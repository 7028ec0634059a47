//! Copies of rows: pitched memory, arrays, boxes. What goes to or comes from the client is packed.

use super::address::{check_destination, check_source};
use super::done::{Kept, Staged, Then, reply};
use super::prelude::*;
use super::reach;
use super::room::{kept, staging_out};
use busbar_wire::limits::BULK_CHUNK;

/// What a client says of a box, and how many bytes it has.
pub fn shape(bytes: &[u8]) -> Result<(CUDA_MEMCPY3D, usize), WireError> {
    let c: CUDA_MEMCPY3D = plain(bytes)?;
    let bytes = c.WidthInBytes.checked_mul(c.Height);
    let bytes = bytes.and_then(|n| n.checked_mul(c.Depth));
    Ok((c, bytes.ok_or(WireError::BadValue("number of bytes"))?))
}

pub fn array(w: &mut Cuda, id: u32) -> Result<CUarray> {
    if id == 0 {
        Ok(std::ptr::null_mut())
    } else {
        Ok(w.handle(Kind::Array, id)? as CUarray)
    }
}

const HOST: CUmemorytype = CU_MEMORYTYPE_HOST as _;

/// Has a copy put the bytes of its box into the host's memory, packed.
pub fn packed(c: &mut CUDA_MEMCPY3D, at: u64) {
    c.dstMemoryType = HOST;
    c.dstHost = at as *mut _;
    (c.dstXInBytes, c.dstY, c.dstZ, c.dstLOD) = (0, 0, 0, 0);
    (c.dstPitch, c.dstHeight) = (c.WidthInBytes, c.Height);
}

/// Copies packed bytes to where a box goes.
///
/// # Safety
/// As many bytes as the box has are readable at `packed` for as long as the driver reads them.
pub unsafe fn from_packed(
    w: &mut Cuda,
    c: &mut CUDA_MEMCPY3D,
    packed: u64,
    stream: CUstream,
) -> Result {
    c.srcMemoryType = HOST;
    c.srcHost = packed as *const _;
    (c.srcXInBytes, c.srcY, c.srcZ, c.srcLOD) = (0, 0, 0, 0);
    (c.srcPitch, c.srcHeight) = (c.WidthInBytes, c.Height);
    // SAFETY: passed on to the caller; the destination is checked.
    unsafe { reach::rows(w, stream, c) }
}

/// The end of a copy from the memory that its record came in, if that was kept: it stays until the
/// copy is done.
pub fn has_read(w: &mut Cuda, kept: Option<Kept>, stream: u32, rc: CUresult) -> Result {
    if let Some(kept) = kept
        && rc == CUDA_SUCCESS
    {
        let (stream, ctx) = w.here(stream);
        w.completer.after(stream, ctx, Then::Release(kept));
    }
    check(rc)
}

/// Sends a piece of a copy's bytes from `offset` on once it has come. Returns where the next one
/// begins.
pub fn send(
    w: &Cuda,
    (stream, ctx): (CUstream, u64),
    (offset, all): (u64, u64),
    bytes: Staged,
) -> u64 {
    let end = offset + bytes.len as u64;
    let then = Then::Send {
        call: w.record.call,
        offset,
        bytes,
        last: (end == all).then_some(()),
    };
    w.completer.after(stream, ctx, then);
    end
}

/// The answer to a copy of `len` bytes, of which the last piece brings it along.
pub fn answered(w: &Cuda, (stream, ctx): (CUstream, u64), len: u64, rc: CUresult) -> Answered {
    match rc {
        CUDA_SUCCESS if len > 0 => {}
        CUDA_SUCCESS => w.completer.after(stream, ctx, reply(w.record.call)),
        rc => w.completer.now(rc, reply(w.record.call)),
    }
    Answered
}

pub fn copy_in_rows(w: &mut Cuda, m: msg::CopyInRows<'_>) -> Result<(), Fail> {
    let (mut c, bytes) = shape(m.shape)?;
    if bytes != m.data.len() {
        return Err(WireError::BadValue("number of bytes").into());
    }
    let (kept, p) = kept(w, m.data);
    let rc = attempt(|| {
        let stream = w.running_stream(m.stream)? as CUstream;
        c.dstArray = array(w, m.array)?;
        check_destination(w, &c)?;
        // SAFETY: the record's bytes are as many as the box has; page-locked ones the driver may go
        // on reading, so they are kept until the copy is done; others it has read on return.
        unsafe { from_packed(w, &mut c, p as u64, stream) }
    });
    Ok(has_read(w, kept, m.stream, rc)?)
}

pub fn copy_out_rows(w: &mut Cuda, m: msg::CopyOutRows<'_>) -> Result<Answered, WireError> {
    let (whole, bytes) = shape(m.shape)?;
    let (stream, ctx) = w.here(m.stream);
    let rc = attempt(|| {
        w.running_stream(m.stream)?;
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
        let rows = whole.srcY.checked_add(whole.Height);
        let slices = whole.srcZ.checked_add(whole.Depth);
        refuse_if(bytes as u64 != m.len, CUDA_ERROR_INVALID_VALUE)?;
        refuse_if(rows.is_none() || slices.is_none(), CUDA_ERROR_INVALID_VALUE)?;
        let width = whole.WidthInBytes;
        refuse_if(width == 0 || width > BULK_CHUNK, CUDA_ERROR_INVALID_VALUE)?;
        let at_once = BULK_CHUNK / width;
        let mut offset = 0;
        for z in 0..whole.Depth {
            let mut y = 0;
            while y < whole.Height {
                let rows = at_once.min(whole.Height - y);
                let (at, kept) = staging_out(w)?;
                let mut c = whole;
                c.srcArray = src;
                c.srcY += y;
                c.srcZ += z;
                (c.Height, c.Depth) = (rows, 1);
                packed(&mut c, at);
                // SAFETY: it holds that many rows, and is kept until they are sent.
                unsafe { reach::rows(w, stream, &c)? };
                let len = rows * width;
                let piece = Staged { at, kept, len };
                offset = send(w, (stream, ctx), (offset, m.len), piece);
                y += rows;
            }
        }
        Ok(())
    });
    Ok(answered(w, (stream, ctx), m.len, rc))
}

pub fn copy_rows_on_device(w: &mut Cuda, m: msg::CopyRowsOnDevice<'_>) -> Result<(), Fail> {
    let (mut c, _) = shape(m.shape)?;
    let stream = w.stream(m.stream)? as CUstream;
    c.srcArray = array(w, m.src_array)?;
    c.dstArray = array(w, m.dst_array)?;
    check_source(w, &c)?;
    check_destination(w, &c)?;
    if m.peer == 0 {
        // SAFETY: live arrays, or addresses that the driver checks.
        return unsafe { reach::rows(w, stream, &c) }.map_err(Fail::from);
    }
    // The same but for the contexts; no end is on the host.
    let mut p: CUDA_MEMCPY3D_PEER = busbar_abi::member(&c);
    (p.srcHost, p.dstHost) = (std::ptr::null(), std::ptr::null_mut());
    let mut context = |id, p| {
        let context = w.handle(Kind::Context, id)?;
        Ok::<_, CUresult>(reach::peer(w, context, p) as CUcontext)
    };
    p.srcContext = context(m.src_context, c.srcDevice)?;
    p.dstContext = context(m.dst_context, c.dstDevice)?;
    // SAFETY: as above, and live contexts.
    Ok(check(unsafe { w.cuMemcpy3DPeerAsync(&p, stream) })?)
}
