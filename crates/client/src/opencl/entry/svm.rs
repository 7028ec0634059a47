//! Coarse-grained shared virtual memory.

use super::prelude::*;
use crate::opencl::engine::command::{begin_with_event, marker};
use crate::opencl::engine::svm;
use crate::opencl::state::maps::access;
use crate::opencl::state::memory::check_pattern;

/// `clSVMAlloc`.
pub fn clSVMAlloc(c: &Object<Context>, flags: u64, size: usize, align: u32) -> Result<Handle> {
    let known = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
    if !c.has(CL_DEVICE_SVM_CAPABILITIES)
        || flags & !known != 0
        || flags.count_ones() > 1
        || size == 0
        || size as u64 > c.most(CL_DEVICE_MAX_MEM_ALLOC_SIZE)
        || align != 0 && !align.is_power_of_two()
        || align > 128
    {
        return Err(CL_INVALID_VALUE);
    }
    svm::alloc(c, flags, size)
}

/// `clSVMFree`.
pub fn clSVMFree(c: &Object<Context>, p: Handle) -> Result<()> {
    svm::free(c.server, p as usize);
    Ok(())
}

/// Fails where a queue's device has no shared virtual memory.
fn check(q: &Queue) -> Result<()> {
    match q.device.table.number(CL_DEVICE_SVM_CAPABILITIES) {
        0 => Err(CL_INVALID_OPERATION),
        _ => Ok(()),
    }
}

/// `clEnqueueSVMFree`.
pub unsafe fn clEnqueueSVMFree(
    q: &Object<Queue>,
    n: u32,
    pointers: *mut Handle,
    f: Option<OfPointers>,
    user: User,
    events: Events<'_>,
) -> Result<()> {
    check(q)?;
    refuse_if((n == 0) != pointers.is_null(), CL_INVALID_VALUE)?;
    let (out, (event, waits)) = begin_with_event(q, CL_COMMAND_SVM_FREE, events)?;
    q.server.queue(&marker(q, event, waits, false))?;
    let mut all = Vec::new();
    for i in 0..n as usize {
        // SAFETY: the program gives as many pointers.
        all.push(User(unsafe { pointers.add(i).read() }));
    }
    let kept = q.keep();
    let due = Box::new(move |_| match f {
        Some(f) => {
            let mut list: Vec<Handle> = all.iter().map(|p| p.get()).collect();
            let (n, at) = (list.len() as u32, list.as_mut_ptr());
            // SAFETY: the program's function with what it asked for.
            unsafe { f(kept.handle(), n, at, user.get()) };
        }
        None => all
            .iter()
            .for_each(|p| svm::free(kept.server, p.get() as usize)),
    });
    q.server.when(event, CL_COMPLETE, due)?;
    out.give();
    Ok(())
}

/// `clEnqueueSVMMemcpy`.
pub unsafe fn clEnqueueSVMMemcpy(
    q: &Object<Queue>,
    blocking: bool,
    to: Handle,
    from: *const c_void,
    size: usize,
    events: Events<'_>,
) -> Result<()> {
    check(q)?;
    refuse_if(to.is_null() || from.is_null(), CL_INVALID_VALUE)?;
    if (to as usize).abs_diff(from as usize) < size {
        return Err(CL_MEM_COPY_OVERLAP);
    }
    let (out, links) = begin(q, CL_COMMAND_SVM_MEMCPY, events)?;
    let copy = (to, from.cast_mut(), size);
    // SAFETY: the program's memory, which it leaves alone until the command has run.
    unsafe { svm::copy(q, blocking, copy, links, out) }
}

/// `clEnqueueSVMMemFill`.
pub unsafe fn clEnqueueSVMMemFill(
    q: &Object<Queue>,
    to: Handle,
    pattern: *const c_void,
    pattern_size: usize,
    size: usize,
    events: Events<'_>,
) -> Result<()> {
    check(q)?;
    refuse_if(pattern.is_null(), CL_INVALID_VALUE)?;
    refuse_if(!q.server.svm.holds(to as usize, size), CL_INVALID_VALUE)?;
    check_pattern(pattern_size, to as usize, size)?;
    // SAFETY: the program's bytes.
    let pattern = unsafe { std::slice::from_raw_parts(pattern.cast(), pattern_size) };
    command!(q, events, CL_COMMAND_SVM_MEMFILL => SvmFill {
        pointer: to as u64,
        pattern,
        size: size as u64,
    })
}

/// `clEnqueueSVMMap`.
pub fn clEnqueueSVMMap(
    q: &Object<Queue>,
    blocking: bool,
    flags: u64,
    at: Handle,
    size: usize,
    events: Events<'_>,
) -> Result<()> {
    check(q)?;
    let fetches = access(flags)?.fetches;
    refuse_if(at.is_null() || size == 0, CL_INVALID_VALUE)?;
    let (out, links) = begin(q, CL_COMMAND_SVM_MAP, events)?;
    let range = (at as usize, size);
    svm::map(q, blocking, (flags, fetches), range, links, out)
}

/// `clEnqueueSVMUnmap`.
pub fn clEnqueueSVMUnmap(q: &Object<Queue>, at: Handle, events: Events<'_>) -> Result<()> {
    check(q)?;
    refuse_if(at.is_null(), CL_INVALID_VALUE)?;
    let (out, links) = begin(q, CL_COMMAND_SVM_UNMAP, events)?;
    svm::unmap(q, at as usize, links, out)
}

/// `clEnqueueSVMMigrateMem`.
pub unsafe fn clEnqueueSVMMigrateMem(
    q: &Object<Queue>,
    n: u32,
    pointers: *mut *const c_void,
    sizes: *const usize,
    flags: u64,
    events: Events<'_>,
) -> Result<()> {
    check(q)?;
    let known = CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
    refuse_if(n == 0, CL_INVALID_VALUE)?;
    refuse_if(pointers.is_null() || flags & !known != 0, CL_INVALID_VALUE)?;
    let (mut places, mut lengths, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..n as usize {
        // SAFETY: the program gives as many of both, or no sizes at all.
        let (at, size) = unsafe {
            let size = (!sizes.is_null()).then(|| sizes.add(i).read());
            (pointers.add(i).read() as usize, size.unwrap_or(0))
        };
        ranges.push(q.server.svm.whole(at, size).ok_or(CL_INVALID_VALUE)?);
        places.push(at as u64);
        lengths.push(size as u64);
    }
    let contents = flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED == 0;
    if flags & CL_MIGRATE_MEM_OBJECT_HOST != 0 && contents {
        // The host that it is to come to is the program's. Where a driver has one memory for host
        // and device, programs look at it then without a map.
        let (out, links) = begin(q, CL_COMMAND_SVM_MIGRATE_MEM, events)?;
        return svm::to_host(q, &ranges, links, out);
    }
    command!(q, events, CL_COMMAND_SVM_MIGRATE_MEM => SvmMigrate {
        pointers: places,
        sizes: lengths,
        flags,
    })
}
