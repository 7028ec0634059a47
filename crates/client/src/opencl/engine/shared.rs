//! Memory that is shared with a worker on this host: bytes of buffers take it instead of the
//! connection.

use super::command::{Links, Out, marker};
use super::prelude::*;
use super::transfer::{self, fetch};
use crate::opencl::call::{Memory, Numbered};
use crate::ring::{self, Part, Ring, Way};
use busbar_transport::shared::Segment;

/// Memory that the worker has, too.
pub struct Shared {
    server: &'static Server,
    /// The worker's name for it.
    pub number: u64,
    /// Where it is here.
    pub at: usize,
    size: u64,
}

impl Shared {
    /// Memory of at least `size` bytes; none for few, and where nothing can be shared.
    pub fn new(server: &'static Server, size: usize) -> Option<Self> {
        let neighbour = server.session.neighbour.as_ref()?;
        if size < ring::LEAST {
            return None;
        }
        let size = (size as u64).next_multiple_of(4096);
        let give = || {
            let segment = Segment::new(size)?;
            let at = segment.map_anywhere(size)?;
            let number = neighbour.give(&segment, size);
            let shared = |number| Self {
                server,
                number,
                at: at as usize,
                size,
            };
            // SAFETY: mapped just now.
            number
                .map(shared)
                .inspect_err(|_| unsafe { Segment::unmap(at, size) })
        };
        let failed = |e: std::io::Error| crate::log!(Info, "memory cannot be shared: {e}");
        let shared = give().map_err(failed).ok()?;
        let number = shared.number;
        server.call(&wire::ShareMemory { number, size }).ok()?;
        Some(shared)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let number = self.number;
        // After the session nobody is left to tell.
        let _ = self.server.queue(&wire::UnshareMemory { number });
        // SAFETY: mapped in `new`, and its owner is gone.
        unsafe { Segment::unmap(self.at as u64, self.size) };
    }
}

/// The ring for a copy of `len` bytes of a command with this event, if it goes that way: not where
/// commands could overtake each other, nor where the program can ask how long all of it took.
fn ring(q: &Object<Queue>, len: usize, event: u32) -> Option<&'static Numbered> {
    let whole = !q.in_order() || q.profiling() && event != 0;
    if len < ring::LEAST || whole || q.server.session.neighbour.is_none() {
        return None;
    }
    let make = || {
        let memory = Shared::new(q.server, ring::SIZE)?;
        let (number, base) = (memory.number, memory.at);
        // It stays for as long as the server.
        std::mem::forget(memory);
        // SAFETY: all of the memory, which nobody else uses.
        let ring = unsafe { Ring::new(base as *mut u8) };
        Some(Numbered { ring, number, base })
    };
    q.server.ring.get_or_init(make).as_ref()
}

/// The bytes at the end of a copy that take the connection, and with them the command's event.
const TAIL: usize = 4096;

/// One copy between a buffer and memory of the program's.
struct Copy<'q> {
    q: &'q Object<Queue>,
    m: &'q Object<Memory>,
    offset: usize,
    host: usize,
    write: bool,
    memory: &'static Numbered,
}

impl Way for Copy<'_> {
    type Error = i32;

    fn send(
        &self,
        piece: *mut u8,
        offset: usize,
        len: usize,
        then: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        let msg = wire::CopyShared {
            queue: self.q.id,
            buffer: self.m.id,
            event: 0,
            waits: Vec::new(),
            offset: (self.offset + offset) as u64,
            memory: self.memory.number,
            at: piece as u64 - self.memory.base as u64,
            size: len as u64,
            to_buffer: self.write.into(),
        };
        ring::queue(&self.q.server.session, 0, &msg, len, LOST, then)
    }

    fn detour(&self, offset: usize, len: usize) -> Result<()> {
        let (here, there) = ((self.host + offset) as *mut u8, self.offset + offset);
        let links = (0, Vec::new());
        if self.write {
            // SAFETY: the program's bytes, which are copied.
            let data = unsafe { std::slice::from_raw_parts(here, len) };
            // SAFETY: as above.
            return unsafe { transfer::put_bytes(self.q, self.m, there, (data, true), links) };
        }
        let msg = transfer::read_buffer(self.q, self.m, (there, len), links);
        let done = self.q.server.call_into(&msg, Some((here, len)));
        done.map(drop)
    }

    fn expect(&self) -> impl Sized {
        self.q.server.session.expect()
    }
}

/// Where a command waits for others, has all of its parts wait for them.
fn wait_first(q: &Object<Queue>, waits: Vec<u32>) -> Result<()> {
    match waits.is_empty() {
        true => Ok(()),
        false => q.server.queue(&marker(q, 0, waits, false)),
    }
}

/// Queues a write to a buffer.
///
/// # Safety
/// The bytes stay as they are until the command has run, unless `copy`.
pub unsafe fn put(
    q: &Object<Queue>,
    m: &Object<Memory>,
    offset: usize,
    (data, copy): (&[u8], bool),
    links: Links,
) -> Result<()> {
    let Some(memory) = ring(q, data.len(), links.0) else {
        // SAFETY: passed on to the caller.
        return unsafe { transfer::put_bytes(q, m, offset, (data, copy), links) };
    };
    let (event, waits) = links;
    wait_first(q, waits)?;
    let copy = Copy {
        q,
        m,
        offset,
        host: data.as_ptr() as usize,
        write: true,
        memory,
    };
    let tail = if event == 0 { 0 } else { TAIL };
    let (body, tail) = data.split_at(data.len() - tail);
    let (hub, queue) = (q.server.hub.clone(), q.id);
    let failed = move |e| hub.failed(wire::op::COPY_SHARED, queue, e);
    // SAFETY: readable bytes; the ring has read them on return.
    unsafe { memory.ring.send(body.as_ptr(), body.len(), &copy, failed)? };
    match tail {
        [] => Ok(()),
        // SAFETY: the bytes are copied.
        _ => unsafe {
            let links = (event, Vec::new());
            transfer::put_bytes(q, m, offset + body.len(), (tail, true), links)
        },
    }
}

/// Calls a function when its last owner goes.
struct AtEnd<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

/// Reads a buffer to `to`, waits if the program does, and gives the event. `then` is called once
/// the bytes are there.
///
/// # Safety
/// The place stays writable until the command has run.
pub unsafe fn get(
    q: &Object<Queue>,
    m: &Object<Memory>,
    blocking: bool,
    (offset, size): (usize, usize),
    to: *mut u8,
    links: Links,
    mut out: Out<'_>,
    then: impl FnOnce() + Send + Sync + 'static,
) -> Result<()> {
    let Some(memory) = ring(q, size, links.0) else {
        let msg = transfer::read_buffer(q, m, (offset, size), links);
        // SAFETY: passed on to the caller.
        return unsafe { fetch(q, blocking, &msg, (to, size), out, then) };
    };
    let (event, waits) = links;
    wait_first(q, waits)?;
    let copy = Copy {
        q,
        m,
        offset,
        host: to as usize,
        write: false,
        memory,
    };
    let body = if event == 0 { size } else { size - TAIL };
    let then = AtEnd(Some(then));
    let (done, then): (usize, Box<dyn FnOnce() + Send>) = if blocking {
        let here = q.order.here();
        // SAFETY: passed on to the caller.
        unsafe { memory.ring.fetch(to, body, &copy)? };
        q.order.reached(here);
        (body, Box::new(move || drop(then)))
    } else {
        let (hub, queue, then) = (q.server.hub.clone(), q.id, Arc::new(then));
        let kept = then.clone();
        let arrived = move |part: Result<Part>| {
            let _ = &kept;
            match part {
                Ok(part) => part.put(),
                Err(e) => hub.failed(wire::op::COPY_SHARED, queue, e),
            }
        };
        // SAFETY: passed on to the caller.
        let done = unsafe { memory.ring.fetch_later(to, body, &copy, arrived)? };
        (done, Box::new(move || drop(then)))
    };
    if done < size {
        let rest = (offset + done, size - done);
        let msg = transfer::read_buffer(q, m, rest, (event, Vec::new()));
        // SAFETY: passed on to the caller.
        return unsafe {
            let place = (to.add(done), rest.1);
            fetch(q, blocking, &msg, place, out, then)
        };
    }
    then();
    if blocking {
        q.server.borrowed.store(false, Ordering::Release);
        q.server.deferred(q.id)?;
        out.complete();
    }
    out.give();
    Ok(())
}

/// Reads a buffer into memory that the worker has, too. `then` is called once the bytes are there.
pub fn read(
    q: &Object<Queue>,
    m: &Object<Memory>,
    blocking: bool,
    (offset, size): (usize, usize),
    (memory, at): (u64, usize),
    (event, waits): Links,
    out: Out<'_>,
    then: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let msg = wire::CopyShared {
        queue: q.id,
        buffer: m.id,
        event,
        waits,
        offset: offset as u64,
        memory,
        at: at as u64,
        size: size as u64,
        to_buffer: 0,
    };
    q.server.session.note_shared(size);
    let nothing = (std::ptr::null_mut(), 0);
    // SAFETY: the answer has no bulk bytes.
    unsafe { fetch(q, blocking, &msg, nothing, out, then) }
}
