//! Coarse-grained shared virtual memory: the client has pages of its own at the addresses that the
//! worker's memory has, so that a pointer means the same on both sides. Contents move at maps and
//! copies.

use super::command::{self, Links, Out, marker, nothing};
use super::prelude::*;
use super::transfer;
use crate::opencl::arguments::Events;
use crate::opencl::call::Context;
use crate::opencl::state::svm::Allocation;

const PAGE: usize = 4096;
/// How often to ask for another address when one is taken here.
const TRIES: usize = 16;
/// The server says where memory lies; the first pages of a process stay empty.
const LOWEST: usize = 1 << 16;

/// Takes pages at an address, if they are free here.
fn take_pages(at: usize, size: usize) -> bool {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping that replaces nothing.
    let p = unsafe { libc::mmap(at as *mut _, size, prot, flags, -1, 0) };
    if p == libc::MAP_FAILED {
        return false;
    }
    if p as usize != at {
        // An old kernel took the address as a hint.
        // SAFETY: mapped just now.
        unsafe { libc::munmap(p, size) };
        return false;
    }
    true
}

/// Allocates memory at an address that is free on both sides.
pub fn alloc(c: &Object<Context>, flags: u64, size: usize) -> Result<Handle> {
    let pages = size.next_multiple_of(PAGE);
    // Addresses that are taken here are kept until a good one has come, lest they come again.
    let mut taken = Vec::new();
    let mut found = Err(CL_MEM_OBJECT_ALLOCATION_FAILURE);
    for _ in 0..TRIES {
        let theirs = c
            .server
            .reply_to(&wire::SvmAlloc {
                context: c.id,
                flags,
                size: (pages + PAGE) as u64,
                align: 0,
            })?
            .pointer;
        let at = (theirs as usize).checked_next_multiple_of(PAGE);
        if let Some(at) = at.filter(|at| *at >= LOWEST && take_pages(*at, pages)) {
            let a = Allocation {
                size,
                pages,
                theirs,
                context: c.keep(),
                maps: Vec::new(),
            };
            c.server.svm.add(at, a);
            found = Ok(at as Handle);
            break;
        }
        taken.push(theirs);
    }
    for pointer in taken {
        let context = c.id;
        c.server.queue(&wire::SvmFree { context, pointer })?;
    }
    found
}

/// Frees memory that [`alloc`] gave.
pub fn free(server: &Server, at: usize) {
    let Some(a) = server.svm.remove(at) else {
        return;
    };
    // SAFETY: mapped by `alloc`, and the program has given it up.
    unsafe { libc::munmap(at as *mut _, a.pages) };
    let msg = wire::SvmFree {
        context: a.context.id,
        pointer: a.theirs,
    };
    // After the session nobody is left to tell.
    let _ = server.queue(&msg);
}

/// The message of bytes for shared memory.
fn write(q: &Object<Queue>, at: usize, data: &[u8], (event, waits): Links) -> Result<()> {
    q.server.send(data, |blob, data| wire::SvmWrite {
        queue: q.id,
        event,
        waits,
        pointer: at as u64,
        command: 0,
        blob,
        data,
    })
}

fn read(q: &Object<Queue>, at: usize, size: usize, (event, waits): Links) -> wire::SvmRead {
    wire::SvmRead {
        queue: q.id,
        event,
        waits,
        pointer: at as u64,
        size: size as u64,
    }
}

/// Copies between shared memory and any other.
///
/// # Safety
/// Where a side is not shared memory, it is memory of the program's that stays there until the
/// command has run.
pub unsafe fn copy(
    q: &Object<Queue>,
    blocking: bool,
    (to, from, size): (Handle, Handle, usize),
    links: Links,
    mut out: Out<'_>,
) -> Result<()> {
    let (a, b, (event, waits)) = (to as usize, from as usize, links);
    let svm = &q.server.svm;
    match (svm.holds(a, size), svm.holds(b, size)) {
        _ if size == 0 => q.server.queue(&marker(q, event, waits, false))?,
        (true, true) => q.server.queue(&wire::SvmCopy {
            queue: q.id,
            event,
            waits,
            to: a as u64,
            from: b as u64,
            size: size as u64,
        })?,
        (true, false) => {
            // SAFETY: passed on to the caller.
            let data = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size) };
            write(q, a, data, (event, waits))?;
        }
        (false, true) => {
            let msg = read(q, b, size, (event, waits));
            // SAFETY: passed on to the caller.
            return unsafe { transfer::fetch(q, blocking, &msg, (to.cast(), size), out, || ()) };
        }
        (false, false) => {
            // Both sides are the program's own: only what the copy waits for is remote.
            q.server.queue(&marker(q, event, waits, false))?;
            command::wait(q)?;
            // SAFETY: passed on to the caller, who says that the sides do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), size) };
            out.complete();
        }
    }
    transfer::written(q, blocking, false, out)
}

/// Brings ranges to where the program sees them, though it maps none. The event is that of the
/// last, behind which all have come.
pub fn to_host(
    q: &Object<Queue>,
    ranges: &[(usize, usize)],
    (event, waits): Links,
    out: Out<'_>,
) -> Result<()> {
    let Some((&(at, size), others)) = ranges.split_last() else {
        return nothing(q, false, (event, waits), out);
    };
    for &(at, size) in others {
        let msg = read(q, at, size, (0, waits.clone()));
        // SAFETY: no list and no place.
        let no_event = unsafe { Events::new(0, std::ptr::null(), std::ptr::null_mut()) };
        let (none, _) = command::begin(q, CL_COMMAND_SVM_MIGRATE_MEM, no_event)?;
        // SAFETY: the range lies in pages of ours, which the program may not free meanwhile.
        unsafe { transfer::fetch(q, !q.in_order(), &msg, (at as *mut u8, size), none, || ())? };
    }
    let msg = read(q, at, size, (event, waits));
    // SAFETY: as above.
    unsafe { transfer::fetch(q, false, &msg, (at as *mut u8, size), out, || ()) }
}

/// Maps a range.
pub fn map(
    q: &Object<Queue>,
    blocking: bool,
    (flags, fetches): (u64, bool),
    (at, size): (usize, usize),
    links: Links,
    out: Out<'_>,
) -> Result<()> {
    refuse_if(!q.server.svm.map(at, size, flags), CL_INVALID_VALUE)?;
    if !fetches {
        return nothing(q, blocking, links, out);
    }
    let msg = read(q, at, size, links);
    // SAFETY: the range lies in pages of ours, which the program may not free while it is mapped.
    unsafe { transfer::fetch(q, blocking, &msg, (at as *mut u8, size), out, || ()) }
}

/// Unmaps the range that was mapped last at `at`, and sends it if the program may have written it.
pub fn unmap(q: &Object<Queue>, at: usize, links: Links, out: Out<'_>) -> Result<()> {
    match q.server.svm.unmap(at) {
        Some((size, flags)) if flags != CL_MAP_READ => {
            // SAFETY: the range lies in pages of ours.
            let data = unsafe { std::slice::from_raw_parts(at as *const u8, size) };
            write(q, at, data, links)?;
            out.give();
            Ok(())
        }
        _ => nothing(q, false, links, out),
    }
}
