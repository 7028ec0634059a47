//! Copies of memory that is not shared with a worker on this host: piece by piece through memory
//! that is ([`crate::ring`]).

use super::prelude::*;
use crate::cuda::call::Arriving;
use crate::cuda::engine::{shared, transfer};
use crate::ring::{self, LEAST, Part, Ring, SIZE, Way};

/// The ring for a copy of `len` bytes, made for the first that is long enough; `None` for a shorter
/// one, and when nothing can be shared.
fn ring_for(cx: Cx, len: usize) -> Option<&'static Ring> {
    if len < LEAST {
        return None;
    }
    cx.client.session.neighbour.as_ref()?;
    let make = || {
        let base = shared::alloc(cx, SIZE as u64)?;
        // SAFETY: all of the memory, which is never freed.
        Some(unsafe { Ring::new(base as *mut u8) })
    };
    cx.client.ring.get_or_init(make).as_ref()
}

/// A copy between memory of the program's and the device.
struct Copy {
    cx: Cx,
    host: u64,
    device: u64,
    to_device: bool,
    stream: u32,
    /// Records that were queued for it.
    queued: AtomicU64,
}

impl Copy {
    fn new(cx: Cx, (host, device): (u64, u64), to_device: bool, stream: u32) -> Self {
        Self {
            cx,
            host,
            device,
            to_device,
            stream,
            queued: AtomicU64::new(0),
        }
    }
}

impl Way for Copy {
    type Error = CUresult;

    fn send(
        &self,
        piece: *mut u8,
        offset: usize,
        len: usize,
        then: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        let (here, there) = (piece as u64, self.device + offset as u64);
        let (dst, src) = match self.to_device {
            true => (there, here),
            false => (here, there),
        };
        let m = msg::CopyShared {
            dst,
            src,
            len: len as u64,
            stream: self.stream,
        };
        self.queued.fetch_add(1, Ordering::Relaxed);
        let (session, lost) = (&self.cx.client.session, CUDA_ERROR_DEVICE_UNAVAILABLE);
        ring::queue(session, self.cx.scope, &m, len, lost, then)
    }

    fn detour(&self, offset: usize, len: usize) -> Result<()> {
        let (here, there) = (self.host + offset as u64, self.device + offset as u64);
        if self.to_device {
            // SAFETY: within the program's bytes.
            let bytes = unsafe { std::slice::from_raw_parts(here as *const u8, len) };
            return transfer::queue(self.cx, there, bytes, self.stream);
        }
        self.queued.fetch_add(1, Ordering::Relaxed);
        // SAFETY: within the program's bytes.
        unsafe { transfer::fetch(self.cx, here as *mut u8, there, len, self.stream) }
    }

    fn expect(&self) -> impl Sized {
        self.cx.client.session.expect()
    }
}

/// Copies memory of the program's to the device, and is done reading it on return. Says whether it
/// did.
///
/// # Safety
/// `len` bytes at `src` are readable.
pub unsafe fn to_device(cx: Cx, dst: u64, src: *const u8, len: usize, stream: u32) -> Result<bool> {
    let Some(ring) = ring_for(cx, len) else {
        return Ok(false);
    };
    let copy = Copy::new(cx, (src as u64, dst), true, stream);
    let failed = move |e| cx.state().contexts.defer(cx.scope, e);
    // SAFETY: passed on to the caller.
    unsafe { ring.send(src, len, &copy, failed)? };
    Ok(true)
}

/// Copies from the device to memory of the program's, and is done on return. Says whether it did.
///
/// # Safety
/// `len` bytes at `dst` are writable.
pub unsafe fn to_host(cx: Cx, dst: *mut u8, src: u64, len: usize, stream: u32) -> Result<bool> {
    let Some(ring) = ring_for(cx, len) else {
        return Ok(false);
    };
    let since = cx.queued();
    let copy = Copy::new(cx, (dst as u64, src), false, stream);
    // SAFETY: passed on to the caller.
    unsafe { ring.fetch(dst, len, &copy)? };
    cx.state().contexts.deferred(cx.scope)?;
    let queued = copy.queued.into_inner();
    if queued > 0 {
        cx.now_idle(stream, since + queued - 1);
    }
    Ok(true)
}

/// Queues copies from the device to page-locked memory of the program's that is not shared; the
/// bytes arrive by themselves. Says how many of the first bytes it did so with.
///
/// # Safety
/// `len` bytes at `dst` stay writable until the copies have arrived.
pub unsafe fn to_host_later(
    cx: Cx,
    dst: *mut u8,
    src: u64,
    len: usize,
    stream: u32,
) -> Result<usize> {
    let Some(ring) = ring_for(cx, len) else {
        return Ok(0);
    };
    let copy = Copy::new(cx, (dst as u64, src), false, stream);
    let arriving = Arc::new(Arriving::new(cx, dst as u64, len));
    let arrived = move |part: Result<Part>| match part {
        Ok(part) => arriving.land(part),
        Err(e) => cx.state().contexts.defer(cx.scope, e),
    };
    // SAFETY: passed on to the caller.
    unsafe { ring.fetch_later(dst, len, &copy, arrived) }
}
