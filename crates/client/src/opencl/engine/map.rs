//! Mapped memory. A map is a place in the client's memory, filled when the program may read it and
//! sent back when the program may have written it: only what the flags ask for moves.

use super::command::{Links, Out, nothing, unwatched};
use super::prelude::*;
use super::shared::{self, Shared};
use super::transfer;
use crate::opencl::call::Memory;
use crate::opencl::state::maps::{Mapping, Shadow, access};
use crate::ring::LEAST;

/// Page-aligned memory; pages never touched cost nothing.
struct Pages {
    at: usize,
    size: usize,
}

impl Pages {
    fn new(size: usize) -> Option<Self> {
        let size = size.max(1).next_multiple_of(4096);
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, wherever the kernel likes.
        let p = unsafe { libc::mmap(std::ptr::null_mut(), size, prot, flags, -1, 0) };
        let at = p as usize;
        (p != libc::MAP_FAILED).then_some(Self { at, size })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size, and the object that it stands for is gone.
        unsafe { libc::munmap(self.at as *mut _, self.size) };
    }
}

/// Memory of `size` bytes for an object, the same each time. That of a buffer is shared with a
/// worker on this host.
fn shadow(m: &Object<Memory>, size: usize) -> Result<&Shadow> {
    m.maps.shadow(|| {
        let shared = match m.kind {
            CL_MEM_OBJECT_BUFFER => Shared::new(m.server, size),
            _ => None,
        };
        if let Some(s) = shared {
            return Some(Shadow {
                at: s.at,
                number: s.number,
                keep: Box::new(s),
            });
        }
        let pages = Pages::new(size)?;
        Some(Shadow {
            at: pages.at,
            number: 0,
            keep: Box::new(pages),
        })
    })
}

/// Where the program finds the byte at `offset` of a buffer, and the same place in memory that is
/// shared with the worker, if it is.
fn place(m: &Object<Memory>, offset: usize) -> Result<(usize, Option<(u64, usize)>)> {
    if m.host != 0 {
        return Ok((m.host + offset, None));
    }
    match &m.parent {
        Some((p, origin)) if p.kind == CL_MEM_OBJECT_BUFFER => place(p, origin + offset),
        _ => {
            let s = shadow(m, m.size)?;
            let shared = (s.number != 0).then_some((s.number, offset));
            Ok((s.at + offset, shared))
        }
    }
}

/// Checks map flags; returns whether contents must come.
pub fn check(m: &Memory, flags: u64) -> Result<bool> {
    let a = access(flags)?;
    if a.reads {
        m.host_may(false)?;
    }
    if a.writes {
        m.host_may(true)?;
    }
    Ok(a.fetches)
}

/// Keeps an object until bytes have come. Dropping it may send a message, which the receiving
/// thread must not wait for.
fn keep(m: &Object<Memory>) -> impl FnOnce() + Send + Sync + 'static {
    let (kept, hub) = (m.keep(), &m.server.hub);
    move || hub.runner.run(Box::new(move || drop(kept)))
}

/// Maps a range of a buffer.
pub fn map_buffer(
    q: &Object<Queue>,
    m: &Object<Memory>,
    blocking: bool,
    (flags, fetches): (u64, bool),
    range: (usize, usize),
    links: Links,
    out: Out<'_>,
) -> Result<Handle> {
    let (at, shared) = place(m, range.0)?;
    match shared {
        _ if !fetches => nothing(q, blocking, links, out)?,
        Some(there) if range.1 >= LEAST => {
            shared::read(q, m, blocking, range, there, links, out, keep(m))?;
        }
        // SAFETY: the range of the object's own memory; the object stays until the bytes are there.
        _ => unsafe {
            shared::get(q, m, blocking, range, at as *mut u8, links, out, keep(m))?;
        },
    }
    m.maps.add(Mapping {
        at,
        flags,
        range,
        area: Default::default(),
    });
    Ok(at as Handle)
}

/// Maps a region of an image; the pitches of the mapped image come with the place.
pub fn map_image(
    q: &Object<Queue>,
    m: &Object<Memory>,
    blocking: bool,
    (flags, fetches): (u64, bool),
    area: ([u64; 3], [u64; 3]),
    links: Links,
    out: Out<'_>,
) -> Result<(Handle, [usize; 2])> {
    let i = m.image(&q.context)?;
    let (layout, offset) = i.mapped_area(m.host != 0, &area)?;
    let all = i.mapped(m.host != 0);
    let base = match m.host {
        0 => shadow(m, all.slice_pitch * all.slices)?.at,
        host => host,
    };
    let at = base + offset;
    if fetches {
        let msg = transfer::read_image(q, m, area, layout.packed(), links);
        let to = (layout, at as *mut u8);
        // SAFETY: the region of the object's own memory; the object stays until the bytes are
        // there.
        unsafe { transfer::fetch_box(q, blocking, &msg, to, out, keep(m))? };
    } else {
        nothing(q, blocking, links, out)?;
    }
    m.maps.add(Mapping {
        at,
        flags,
        range: (0, 0),
        area,
    });
    Ok((at as Handle, [all.row_pitch, all.slice_pitch]))
}

/// Unmaps a region, and sends it back if the program may have written it.
pub fn unmap(
    q: &Object<Queue>,
    m: &Object<Memory>,
    at: usize,
    links: Links,
    mut out: Out<'_>,
) -> Result<()> {
    let map = m.maps.take(at)?;
    if !map.writes() {
        return nothing(q, false, links, out);
    }
    // In both cases copied, since the program may map and write the same place again at once.
    if let Some(i) = &m.image {
        let (layout, _) = i.mapped_area(m.host != 0, &map.area)?;
        let from = (layout, at as *const u8);
        // SAFETY: the region was mapped at this place.
        unsafe { transfer::put_pixels(q, m, from, true, map.area, links)? };
    } else {
        let unseen = links.1.is_empty() && unwatched(q);
        // SAFETY: the range was mapped at this place.
        unsafe {
            let data = std::slice::from_raw_parts(at as *const u8, map.range.1);
            shared::put(q, m, map.range.0, (data, true), links)?;
        }
        if unseen {
            out.unseen(false);
        }
    }
    out.give();
    Ok(())
}
