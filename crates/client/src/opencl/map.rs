//! Mapped memory. A map is a place in the client's memory, filled when the program may read it and
//! sent back when the program may have written it: only what the flags ask for moves.

use super::callbacks;
use super::entry::{self, Result};
use super::event::{self, Out};
use super::image;
use super::memory::{Memory, buffer};
use super::object::{Object, get};
use super::queue::{self, Queue};
use super::server::{LOST, lock};
use super::transfer;
use busbar_abi::opencl::*;
use busbar_wire::codec::Request;
use busbar_wire::generated::opencl as wire;
use std::sync::{Mutex, OnceLock};

/// One mapped region.
#[derive(Clone, Copy)]
pub struct Mapping {
    /// What the program got.
    pub at: usize,
    /// Flags.
    pub flags: u64,
    /// Bytes (buffers): offset and size.
    pub range: (usize, usize),
    /// Pixels (images): origin and region.
    pub area: ([u64; 3], [u64; 3]),
}

/// Page-aligned memory that stands for a whole object; pages never touched cost nothing.
struct Shadow {
    at: usize,
    size: usize,
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // SAFETY: mapped in `Maps::shadow` with this size, and the object is gone.
        unsafe { libc::munmap(self.at as *mut _, self.size) };
    }
}

/// The mapped regions of an object.
#[derive(Default)]
pub struct Maps {
    shadow: OnceLock<Option<Shadow>>,
    list: Mutex<Vec<Mapping>>,
}

impl Maps {
    /// How many regions are mapped.
    pub fn count(&self) -> usize {
        lock(&self.list).len()
    }

    /// Memory of `size` bytes for the object, the same each time.
    pub fn shadow(&self, size: usize) -> Result<usize> {
        let make = || {
            let size = size.max(1).next_multiple_of(4096);
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a new mapping, wherever the kernel likes.
            let p = unsafe { libc::mmap(std::ptr::null_mut(), size, prot, flags, -1, 0) };
            (p != libc::MAP_FAILED).then_some(Shadow {
                at: p as usize,
                size,
            })
        };
        match self.shadow.get_or_init(make) {
            Some(s) => Ok(s.at),
            None => Err(CL_MAP_FAILURE),
        }
    }

    /// Notes a mapped region.
    pub fn add(&self, m: Mapping) {
        lock(&self.list).push(m);
    }

    fn take(&self, at: usize) -> Option<Mapping> {
        let mut list = lock(&self.list);
        let i = list.iter().rposition(|m| m.at == at)?;
        Some(list.remove(i))
    }
}

/// Where the program finds the byte at `offset`.
fn place(m: &Object<Memory>, offset: usize) -> Result<usize> {
    if m.host != 0 {
        return Ok(m.host + offset);
    }
    match &m.parent {
        Some((p, origin)) if p.kind == CL_MEM_OBJECT_BUFFER => place(p, origin + offset),
        _ => Ok(m.maps.shadow(m.size)? + offset),
    }
}

/// Checks map flags; returns whether contents must come.
pub fn check_flags(m: &Memory, flags: u64) -> Result<bool> {
    let known = CL_MAP_READ | CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;
    let drops = flags & CL_MAP_WRITE_INVALIDATE_REGION != 0;
    if flags & !known != 0 || drops && flags & (CL_MAP_READ | CL_MAP_WRITE) != 0 {
        return Err(CL_INVALID_VALUE);
    }
    if flags & CL_MAP_READ != 0 {
        m.host_may(false)?;
    }
    if flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) != 0 {
        m.host_may(true)?;
    }
    Ok(!drops)
}

/// Queues the fetch of a map, or waits for it. The object stays until the bytes are there.
///
/// # Safety
/// `place` belongs to `m`.
pub unsafe fn fetch<'a, R: Request<'a>>(
    q: &Object<Queue>,
    m: &Object<Memory>,
    blocking: bool,
    msg: &R,
    place: (*mut u8, usize),
    then: impl FnOnce() + Send + 'static,
) -> Result<()> {
    if blocking {
        let here = q.here();
        q.server.call_into(msg, Some(place))?;
        if q.in_order() {
            q.reached(here);
        }
        then();
        return q.server.deferred(q.id);
    }
    let kept = m.keep();
    let arrived = move |_| {
        then();
        // Dropping may send a message, which this thread must not wait for.
        callbacks::run(Box::new(move || drop(kept)));
    };
    // SAFETY: `kept` keeps the object's shadow; the program keeps memory of its own.
    unsafe { q.server.session.call_async(0, msg, Some(place), arrived) }.map_err(|_| LOST)
}

/// Queues what makes the event of a command that moves nothing.
pub fn nothing(
    q: &Object<Queue>,
    blocking: bool,
    waits: Vec<u32>,
    out: &mut Out<'_>,
) -> Result<()> {
    let (event, unseen) = (out.id(), waits.is_empty() && q.unwatched());
    if event != 0 || !waits.is_empty() || blocking && !unseen {
        q.server.queue(&wire::Marker {
            queue: q.id,
            event,
            waits,
            barrier: 0,
        })?;
    }
    match blocking {
        _ if unseen => {
            out.unseen(blocking);
            match blocking {
                true => q.server.settle(),
                false => Ok(()),
            }
        }
        true => queue::wait(q),
        false => Ok(()),
    }
}

/// `clEnqueueMapBuffer`.
pub unsafe extern "C" fn enqueue_map_buffer(
    queue: Handle,
    memory: Handle,
    blocking: u32,
    flags: u64,
    offset: usize,
    size: usize,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
    code: *mut i32,
) -> Handle {
    // SAFETY: the program's handles and lists, here and below.
    let make = || unsafe {
        let q = get::<Queue>(queue)?;
        let m = buffer(&q.context, memory)?;
        m.check_range(offset, size)?;
        if size == 0 {
            return Err(CL_INVALID_VALUE);
        }
        let fetches = check_flags(m, flags)?;
        let waits = event::waits(&q.context, n, list)?;
        let at = place(m, offset)?;
        let mut out = Out::new(q, CL_COMMAND_MAP_BUFFER, out);
        if fetches {
            let msg = wire::ReadBuffer {
                queue: q.id,
                buffer: m.id,
                event: out.id(),
                waits,
                offset: offset as u64,
                size: size as u64,
            };
            fetch(q, m, blocking != 0, &msg, (at as *mut u8, size), || {})?;
        } else {
            nothing(q, blocking != 0, waits, &mut out)?;
        }
        if blocking != 0 {
            out.complete();
        }
        m.maps.add(Mapping {
            at,
            flags,
            range: (offset, size),
            area: Default::default(),
        });
        out.give();
        Ok(at as Handle)
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clEnqueueUnmapMemObject`.
pub unsafe extern "C" fn enqueue_unmap_mem_object(
    queue: Handle,
    memory: Handle,
    at: Handle,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles and lists, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let m = get::<Memory>(memory)?;
        if !std::ptr::eq(&*m.context, &*q.context) {
            return Err(CL_INVALID_CONTEXT);
        }
        let waits = event::waits(&q.context, n, list)?;
        let map = m.maps.take(at as usize).ok_or(CL_INVALID_VALUE)?;
        let mut out = Out::new(q, CL_COMMAND_UNMAP_MEM_OBJECT, out);
        let wrote = map.flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) != 0;
        if !wrote {
            nothing(q, false, waits, &mut out)?;
        } else if m.image.is_some() {
            image::unmap(q, m, &map, out.id(), waits)?;
        } else {
            // Copied, since the program may map and write the same place again at once.
            let data = std::slice::from_raw_parts(at.cast::<u8>(), map.range.1);
            let unseen = waits.is_empty() && q.unwatched();
            transfer::put(q, m, map.range.0, data, true, out.id(), waits)?;
            if unseen {
                out.unseen(false);
            }
        }
        out.give();
        Ok(())
    })
}
