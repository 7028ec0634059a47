//! Page-locked memory for bytes on their way: slabs, mirrors, and what takes a slab's place.

use super::done::{Kept, Lodging};
use super::prelude::*;
use super::state::mirrors::{Mirror, Named, Room, Rows};
use crate::aside;
use busbar_wire::limits::BULK_CHUNK;
use std::any::Any;

/// Page-locked memory for bytes of the program's that have no other place.
pub fn room_for(w: &mut Cuda, len: usize) -> Result<Arc<Room>> {
    let d = w.driver;
    w.graphs.mirrors.room(len, |size| {
        let mut p = std::ptr::null_mut();
        // SAFETY: a pointer to a live pointer.
        check(unsafe { d.cuMemHostAlloc(&mut p, size, CU_MEMHOSTALLOC_PORTABLE) })?;
        Ok(p as u64)
    })
}

/// Makes the mirror `id` of the program's memory, or has the one that is there already.
pub fn make(w: &mut Cuda, id: u32, of: (u64, Rows), named: Named) -> Result<Arc<Mirror>> {
    forget_ended(w);
    let d = w.driver;
    w.graphs.mirrors.make(id, of, named, &w.outbox, |view| {
        let (p, len) = (view.at as *mut c_void, view.len as usize);
        // SAFETY: memory that stays mapped until it is unregistered.
        check(unsafe { d.cuMemHostRegister_v2(p, len, CU_MEMHOSTREGISTER_PORTABLE) })
    })
}

/// Has the driver forget the mirrors that are gone, on a thread of its own: it may wait for work.
fn forget_ended(w: &mut Cuda) {
    let ended = w.graphs.mirrors.take_ended();
    if ended.is_empty() {
        return;
    }
    let (d, image) = (w.driver, w.graphs.mirrors.image.clone());
    let context = w.handle(Kind::Context, w.current).unwrap_or(0);
    let run = move || {
        // SAFETY: memory that was registered, of mirrors that nobody has any more. With its
        // context the registration may be gone already.
        unsafe {
            d.cuCtxSetCurrent(context as CUcontext);
            for v in ended {
                d.cuMemHostUnregister(v.at as *mut c_void);
                image.hide(v);
            }
        }
    };
    let _ = aside::run("unregister", run);
}

/// How long to wait for a slab to come back, which it does many times in this while if what it
/// holds is on its way over a network.
const PATIENCE: Duration = Duration::from_millis(100);

/// The most memory that takes the place of slabs, in chunks.
const MOST_DETOURS: usize = 512;

/// Page-locked memory in the place of a slab, counted while it lives: where it is.
fn detour(w: &mut Cuda) -> Option<(u64, Arc<dyn Any + Send + Sync>)> {
    if Arc::strong_count(&w.detours) > MOST_DETOURS {
        return None;
    }
    let room = room_for(w, BULK_CHUNK).ok()?;
    Some((room.ptr, Arc::new((room, w.detours.clone()))))
}

/// Memory for a chunk on its way out: a slab, once the client has taken others. When none comes
/// back for a while, streams that stand still have them, and others must not wait for those.
pub fn staging_out(w: &mut Cuda) -> Result<(u64, Lodging)> {
    let since = Instant::now();
    loop {
        if let Some(s) = w.outgoing.take(Duration::ZERO) {
            w.hurried = false;
            return Ok((s.ptr() as u64, Ok(s)));
        }
        w.completer.sweep();
        refuse_if(w.outbox.closed(), CUDA_ERROR_UNKNOWN)?;
        if (w.hurried || since.elapsed() > PATIENCE)
            && let Some((at, detour)) = detour(w)
        {
            w.hurried = true;
            return Ok((at, Err(detour)));
        }
        if let Some(s) = w.outgoing.take(Duration::from_micros(50)) {
            return Ok((s.ptr() as u64, Ok(s)));
        }
    }
}

/// What a copy of a record's bytes keeps until it is done, and where the driver is to read them.
/// Bytes in a slab stay where they are. Many that came elsewhere get page-locked memory, if there
/// is some: the driver might wait for the stream before it had read them.
pub fn kept(w: &mut Cuda, bytes: &[u8]) -> (Option<Kept>, *const u8) {
    if let Some(slab) = w.slab.take() {
        return (Some(Kept::Slab(slab)), bytes.as_ptr());
    }
    if !(READ_AT_ONCE..=BULK_CHUNK).contains(&bytes.len()) {
        return (None, bytes.as_ptr());
    }
    let Some((at, detour)) = detour(w) else {
        return (None, bytes.as_ptr());
    };
    // SAFETY: fresh memory of that size.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
    (Some(Kept::Shared(detour)), at as *const u8)
}

/// From this size on a driver may wait for the stream before it reads ordinary memory.
const READ_AT_ONCE: usize = 32 << 10;
