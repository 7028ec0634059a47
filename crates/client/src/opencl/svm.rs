//! Coarse-grained shared virtual memory: the client has pages of its own at the addresses that the
//! worker's memory has, so that a pointer means the same on both sides. Contents move at maps and
//! copies.

use super::callbacks::User;
use super::context::Context;
use super::entry::{self, Result};
use super::event::{self, Out};
use super::map;
use super::object::{Object, get};
use super::queue::{self, Queue};
use super::server::{decode, lock};
use super::transfer;
use busbar_abi::opencl::*;
use busbar_wire::generated::opencl as wire;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const PAGE: usize = 4096;
/// How often to ask for another address when one is taken here.
const TRIES: usize = 16;

/// The server says where memory lies; the first pages of a process stay empty.
const LOWEST: usize = 1 << 16;

/// One allocation.
struct Allocation {
    size: usize,
    /// Whole pages.
    pages: usize,
    /// The worker's own pointer, from which the program's is rounded up.
    theirs: u64,
    context: Arc<Object<Context>>,
    maps: Vec<(usize, usize, u64)>,
}

static ALL: Mutex<BTreeMap<usize, Allocation>> = Mutex::new(BTreeMap::new());

/// Calls `f` on the allocation that holds a range.
fn with<T>(at: usize, size: usize, f: impl FnOnce(&mut Allocation) -> T) -> Option<T> {
    let mut all = lock(&ALL);
    let (start, a) = all.range_mut(..=at).next_back()?;
    let inside = size <= a.size && at - start <= a.size - size;
    inside.then(|| f(a))
}

/// Whether a range lies in shared virtual memory of ours.
pub fn holds(at: usize, size: usize) -> bool {
    with(at, size, |_| ()).is_some()
}

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

/// `clSVMAlloc`.
pub unsafe extern "C" fn svm_alloc(context: Handle, flags: u64, size: usize, align: u32) -> Handle {
    let make = || {
        // SAFETY: the program's handle.
        let c = unsafe { get::<Context>(context)? };
        let known = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
        let able = c.most(CL_DEVICE_SVM_CAPABILITIES) != 0;
        let most = c.most(CL_DEVICE_MAX_MEM_ALLOC_SIZE);
        if !able
            || flags & !known != 0
            || flags.count_ones() > 1
            || size == 0
            || size as u64 > most
            || align != 0 && !align.is_power_of_two()
            || align > 128
        {
            return Err(CL_INVALID_VALUE);
        }
        let pages = size.next_multiple_of(PAGE);
        // Addresses that are taken here are kept until a good one has come, lest they come again.
        let mut taken = Vec::new();
        let mut found = Err(CL_MEM_OBJECT_ALLOCATION_FAILURE);
        for _ in 0..TRIES {
            let body = c.server.call(&wire::SvmAlloc {
                context: c.id,
                flags,
                size: (pages + PAGE) as u64,
                align: 0,
            })?;
            let theirs = decode::<wire::SvmAllocReply>(&body)?.pointer;
            let at = (theirs as usize).checked_next_multiple_of(PAGE);
            if let Some(at) = at.filter(|at| *at >= LOWEST && take_pages(*at, pages)) {
                let context = c.keep();
                let a = Allocation {
                    size,
                    pages,
                    theirs,
                    context,
                    maps: Vec::new(),
                };
                lock(&ALL).insert(at, a);
                found = Ok(at as Handle);
                break;
            }
            taken.push(theirs);
        }
        for pointer in taken {
            c.server.queue(&wire::SvmFree {
                context: c.id,
                pointer,
            })?;
        }
        found
    };
    // SAFETY: no place for a code.
    unsafe { entry::object(std::ptr::null_mut(), make) }
}

fn free(at: usize) {
    let Some(a) = lock(&ALL).remove(&at) else {
        return;
    };
    // SAFETY: mapped by `svm_alloc`, and the program has given it up.
    unsafe { libc::munmap(at as *mut _, a.pages) };
    let msg = wire::SvmFree {
        context: a.context.id,
        pointer: a.theirs,
    };
    // After the session nobody is left to tell.
    let _ = a.context.server.queue(&msg);
}

/// `clSVMFree`.
pub unsafe extern "C" fn svm_free(_context: Handle, p: Handle) {
    if !entry::is_forked() {
        free(p as usize);
    }
}

type Freed = unsafe extern "C" fn(Handle, u32, *mut Handle, Handle);

/// `clEnqueueSVMFree`.
pub unsafe extern "C" fn enqueue_svm_free(
    queue: Handle,
    count: u32,
    pointers: *const Handle,
    f: Option<Freed>,
    user: Handle,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles and lists, here and below.
    entry::status(|| unsafe {
        let q = able(queue)?;
        if (count == 0) != pointers.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let waits = event::waits(&q.context, n, list)?;
        let mut place = std::ptr::null_mut();
        let wanted = !out.is_null();
        let event = Out::new(q, CL_COMMAND_SVM_FREE, &raw mut place);
        let id = event.id();
        q.server.queue(&wire::Marker {
            queue: q.id,
            event: id,
            waits,
            barrier: 0,
        })?;
        let pointers: Vec<usize> = entry::list(count, pointers)
            .iter()
            .map(|p| *p as usize)
            .collect();
        let (kept, user) = (q.keep(), User(user));
        let due = Box::new(move |_| match f {
            Some(f) => {
                let mut list: Vec<Handle> = pointers.iter().map(|p| *p as Handle).collect();
                // The program's function with what it asked for.
                f(
                    kept.handle(),
                    list.len() as u32,
                    list.as_mut_ptr(),
                    user.get(),
                );
            }
            None => pointers.iter().for_each(|p| free(*p)),
        });
        let token = lock(&q.server.hub.waiting).once(due);
        q.server.queue(&wire::EventCallback {
            event: id,
            trigger: CL_COMPLETE,
            token,
        })?;
        event.give();
        if wanted {
            out.write(place);
        } else {
            event::release_event(place);
        }
        Ok(())
    })
}

/// A queue whose device has shared virtual memory.
///
/// # Safety
/// The program's handle.
unsafe fn able<'a>(queue: Handle) -> Result<&'a Object<Queue>> {
    // SAFETY: passed on to the caller.
    let q = unsafe { get::<Queue>(queue)? };
    match q.device.number(CL_DEVICE_SVM_CAPABILITIES) {
        0 => Err(CL_INVALID_OPERATION),
        _ => Ok(q),
    }
}

/// Queues bytes for shared memory.
fn write(q: &Object<Queue>, at: usize, data: &[u8], event: u32, waits: Vec<u32>) -> Result<()> {
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

/// `clEnqueueSVMMemcpy`.
pub unsafe extern "C" fn enqueue_svm_memcpy(
    queue: Handle,
    blocking: u32,
    to: Handle,
    from: Handle,
    size: usize,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles, lists and memory, here and below.
    entry::status(|| unsafe {
        let q = able(queue)?;
        if to.is_null() || from.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let (a, b) = (to as usize, from as usize);
        if size > 0 && a < b + size && b < a + size {
            return Err(CL_MEM_COPY_OVERLAP);
        }
        let waits = event::waits(&q.context, n, list)?;
        let mut out = Out::new(q, CL_COMMAND_SVM_MEMCPY, out);
        let event = out.id();
        match (holds(a, size), holds(b, size)) {
            _ if size == 0 => {
                q.server.queue(&wire::Marker {
                    queue: q.id,
                    event,
                    waits,
                    barrier: 0,
                })?;
            }
            (true, true) => q.server.queue(&wire::SvmCopy {
                queue: q.id,
                event,
                waits,
                to: a as u64,
                from: b as u64,
                size: size as u64,
            })?,
            (true, false) => {
                let data = std::slice::from_raw_parts(from.cast::<u8>(), size);
                write(q, a, data, event, waits)?;
            }
            (false, true) => {
                let msg = read(q, b, size, event, waits);
                return transfer::fetch(q, blocking != 0, &msg, (to.cast(), size), out);
            }
            (false, false) => {
                // Both sides are the program's own: what the copy waits for is all that is remote.
                q.server.queue(&wire::Marker {
                    queue: q.id,
                    event,
                    waits,
                    barrier: 0,
                })?;
                queue::wait(q)?;
                std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), size);
                out.complete();
            }
        }
        transfer::written(q, blocking != 0, false, out)
    })
}

fn read(q: &Object<Queue>, at: usize, size: usize, event: u32, waits: Vec<u32>) -> wire::SvmRead {
    wire::SvmRead {
        queue: q.id,
        event,
        waits,
        pointer: at as u64,
        size: size as u64,
    }
}

/// `clEnqueueSVMMemFill`.
pub unsafe extern "C" fn enqueue_svm_mem_fill(
    queue: Handle,
    to: Handle,
    pattern: Handle,
    pattern_size: usize,
    size: usize,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles, lists and memory, here and below.
    entry::status(|| unsafe {
        let q = able(queue)?;
        if pattern.is_null()
            || !pattern_size.is_power_of_two()
            || pattern_size > 128
            || !size.is_multiple_of(pattern_size)
            || !(to as usize).is_multiple_of(pattern_size)
            || !holds(to as usize, size)
        {
            return Err(CL_INVALID_VALUE);
        }
        let waits = event::waits(&q.context, n, list)?;
        let out = Out::new(q, CL_COMMAND_SVM_MEMFILL, out);
        q.server.queue(&wire::SvmFill {
            queue: q.id,
            event: out.id(),
            waits,
            pointer: to as u64,
            pattern: std::slice::from_raw_parts(pattern.cast(), pattern_size),
            size: size as u64,
        })?;
        out.give();
        Ok(())
    })
}

/// `clEnqueueSVMMap`.
pub unsafe extern "C" fn enqueue_svm_map(
    queue: Handle,
    blocking: u32,
    flags: u64,
    at: Handle,
    size: usize,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles and lists, here and below.
    entry::status(|| unsafe {
        let q = able(queue)?;
        let known = CL_MAP_READ | CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;
        let drops = flags & CL_MAP_WRITE_INVALIDATE_REGION != 0;
        let mixed = drops && flags & (CL_MAP_READ | CL_MAP_WRITE) != 0;
        if at.is_null() || size == 0 || flags & !known != 0 || mixed {
            return Err(CL_INVALID_VALUE);
        }
        let waits = event::waits(&q.context, n, list)?;
        let place = at as usize;
        with(place, size, |a| a.maps.push((place, size, flags))).ok_or(CL_INVALID_VALUE)?;
        let mut out = Out::new(q, CL_COMMAND_SVM_MAP, out);
        if !drops {
            let msg = read(q, place, size, out.id(), waits);
            return transfer::fetch(q, blocking != 0, &msg, (at.cast(), size), out);
        }
        map::nothing(q, blocking != 0, waits, &mut out)?;
        if blocking != 0 {
            out.complete();
        }
        out.give();
        Ok(())
    })
}

/// `clEnqueueSVMUnmap`.
pub unsafe extern "C" fn enqueue_svm_unmap(
    queue: Handle,
    at: Handle,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles and lists, here and below.
    entry::status(|| unsafe {
        let q = able(queue)?;
        if at.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let waits = event::waits(&q.context, n, list)?;
        let place = at as usize;
        let taken = with(place, 1, |a| {
            let i = a.maps.iter().rposition(|m| m.0 == place)?;
            Some(a.maps.remove(i))
        });
        let mut out = Out::new(q, CL_COMMAND_SVM_UNMAP, out);
        match taken.flatten() {
            Some((_, size, flags)) if flags != CL_MAP_READ => {
                let data = std::slice::from_raw_parts(at.cast::<u8>(), size);
                write(q, place, data, out.id(), waits)?;
            }
            _ => map::nothing(q, false, waits, &mut out)?,
        }
        out.give();
        Ok(())
    })
}

/// `clEnqueueSVMMigrateMem`.
pub unsafe extern "C" fn enqueue_svm_migrate_mem(
    queue: Handle,
    count: u32,
    pointers: *const Handle,
    sizes: *const usize,
    flags: u64,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles and lists, here and below.
    entry::status(|| unsafe {
        let q = able(queue)?;
        let known = CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
        if count == 0 || pointers.is_null() || flags & !known != 0 {
            return Err(CL_INVALID_VALUE);
        }
        let list_of = entry::list(count, pointers);
        let mut lengths = vec![0; count as usize];
        for (i, n) in entry::list(count, sizes)
            .iter()
            .take(lengths.len())
            .enumerate()
        {
            lengths[i] = *n as u64;
        }
        if list_of
            .iter()
            .zip(&lengths)
            .any(|(p, n)| !holds(*p as usize, *n as usize))
        {
            return Err(CL_INVALID_VALUE);
        }
        let waits = event::waits(&q.context, n, list)?;
        let out = Out::new(q, CL_COMMAND_SVM_MIGRATE_MEM, out);
        q.server.queue(&wire::SvmMigrate {
            queue: q.id,
            event: out.id(),
            waits,
            pointers: list_of.iter().map(|p| *p as u64).collect(),
            sizes: lengths,
            flags,
        })?;
        out.give();
        Ok(())
    })
}
