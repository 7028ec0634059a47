//! Copies, through staging memory that the driver knows as page-locked.

use super::done::{Kept, Staged, Then, reply};
use super::graph_host::room_for;
use super::promised::Promised;
use super::state::mirrors::Mirror;
use super::{Cuda, attempt, check};
use busbar_abi::cuda::*;
use busbar_channel::switches::Switch;
use busbar_wire::WireError;
use busbar_wire::generated::cuda::contract::MOST_READ;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::limits::BULK_CHUNK;
use busbar_wire::record::Header;
use std::ffi::c_void;
use std::sync::Arc;

/// Makes the staging memory known to the driver, on a thread of its own: it takes some milliseconds
/// that a program need not wait for. Until it is done copies are slower and nothing else.
pub(super) fn register(w: &Cuda, context: u64) {
    if !Switch::Staging.on() {
        return;
    }
    let driver = w.driver;
    for arena in [w.incoming.clone(), w.outgoing.clone()] {
        let run = move || {
            let Some((p, len)) = arena.to_register() else {
                return;
            };
            const PORTABLE: u32 = 1;
            // SAFETY: a live context; memory that lives as long as the arena, of which the session
            // keeps a clone to its end.
            unsafe {
                driver.cuCtxSetCurrent(context as CUcontext);
                driver.cuMemHostRegister_v2(p.cast(), len, PORTABLE);
            }
        };
        let _ = std::thread::Builder::new()
            .name("register".into())
            .spawn(run);
    }
}

pub(super) fn copy_in(w: &mut Cuda, h: &Header, m: msg::CopyIn<'_>) -> Result<(), WireError> {
    let slab = w.slab.take();
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        let dst = w.address(m.dst)?;
        let (p, n) = (m.data.as_ptr().cast(), m.data.len());
        // SAFETY: the record's bytes, which live through the call; from a slab, which is
        // page-locked, the driver may go on reading, so the slab is kept until the copy is done.
        check(unsafe { w.driver.cuMemcpyHtoDAsync_v2(dst, p, n, stream) })
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

/// What the driver's callback needs to ask for bytes.
struct Read {
    promised: Promised,
    room: Arc<Mirror>,
    len: usize,
}

unsafe extern "C" fn read_here(data: *mut c_void) {
    // SAFETY: made by `copy_in_later` for this one run.
    let r = unsafe { Box::from_raw(data.cast::<Read>()) };
    // SAFETY: `r` keeps the memory until it is dropped, after the wait.
    unsafe { r.promised.read(r.room.ptr, r.len) };
}

pub(super) fn copy_in_later(
    w: &mut Cuda,
    h: &Header,
    m: msg::CopyInLater,
) -> Result<(), WireError> {
    let promised = w.promises.take(m.token, true);
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        let dst = w.address(m.dst)?;
        if m.len == 0 || m.len > MOST_READ {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let len = m.len as usize;
        let room = room_for(w, len)?;
        let read = Box::into_raw(Box::new(Read {
            promised,
            room: room.clone(),
            len,
        }));
        // SAFETY: a live stream; the data is what the function expects.
        check(unsafe {
            w.driver
                .cuLaunchHostFunc(stream, Some(read_here), read.cast())
        })
        // SAFETY: it was not taken, so nobody else has it.
        .inspect_err(|_| drop(unsafe { Box::from_raw(read) }))?;
        // SAFETY: page-locked memory of that size, which is kept until the copy is done.
        check(unsafe {
            w.driver
                .cuMemcpyHtoDAsync_v2(dst, room.ptr as *const c_void, len, stream)
        })?;
        let (stream, ctx) = w.here(h, m.stream);
        let done = Then::Release(Kept::Shared(room));
        w.completer.after(stream, ctx, done);
        Ok(())
    });
    w.done(h, rc);
    Ok(())
}

pub(super) fn copy_out(w: &mut Cuda, h: &Header, m: msg::CopyOut) -> Result<(), WireError> {
    let (stream, ctx) = w.here(h, m.stream);
    let rc = attempt(|| {
        w.stream(m.stream)?;
        w.address(m.src)?;
        m.src.checked_add(m.len).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let mut done = 0;
        while done < m.len {
            let len = (m.len - done).min(BULK_CHUNK as u64) as usize;
            let slab = w.slab_out()?;
            // SAFETY: a slab holds that many bytes, and is kept until they are sent.
            check(unsafe {
                w.driver
                    .cuMemcpyDtoHAsync_v2(slab.ptr().cast(), m.src + done, len, stream)
            })?;
            let end = done + len as u64;
            let then = Then::Send {
                call: h.call,
                offset: done,
                bytes: Staged { slab, len },
                last: (end == m.len).then_some(()),
            };
            w.completer.after(stream, ctx, then);
            done = end;
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

pub(super) fn settle(w: &mut Cuda, h: &Header, m: msg::Settle) -> Result<(), WireError> {
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        let context = w.handle(Kind::Context, h.aux)?;
        let here = (w.current, context);
        match w.settled.mark(w.driver, here, (m.stream, stream)) {
            // There is no memory for an event, but what is over needs no mark.
            // SAFETY: a live stream of the current context.
            Err(CUDA_ERROR_OUT_OF_MEMORY) => check(unsafe { w.driver.cuStreamSynchronize(stream) }),
            marked => marked,
        }
    });
    w.done(h, rc);
    Ok(())
}

pub(super) use super::copy_rows::*;
