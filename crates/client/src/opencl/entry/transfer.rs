//! Reads, writes, copies and fills of buffers.

use super::prelude::*;
use crate::opencl::engine::command::nothing;
use crate::opencl::engine::{shared, transfer};
use crate::opencl::state::memory::check_pattern;

/// Checks a range of a buffer that is read or written.
fn check(
    q: &Queue,
    m: &Memory,
    (offset, size): (usize, usize),
    here: *const c_void,
    write: bool,
) -> Result<()> {
    m.check_buffer(&q.context)?;
    m.check_range(offset, size)?;
    refuse_if(here.is_null() || !may_be(q, size), CL_INVALID_VALUE)?;
    m.host_may(write)
}

/// Whether so many bytes are read or written: since 3.0 also none.
fn may_be(q: &Queue, size: usize) -> bool {
    size > 0 || q.device.version() >= (3, 0)
}

/// `clEnqueueReadBuffer`.
pub unsafe fn clEnqueueReadBuffer(
    q: &Object<Queue>,
    m: &Object<Memory>,
    blocking: bool,
    offset: usize,
    size: usize,
    to: Handle,
    events: Events<'_>,
) -> Result<()> {
    check(q, m, (offset, size), to, false)?;
    let (out, links) = begin(q, CL_COMMAND_READ_BUFFER, events)?;
    if size == 0 {
        return nothing(q, blocking, links, out);
    }
    let range = (offset, size);
    // SAFETY: the program's memory, which it leaves alone until the command has run.
    unsafe { shared::get(q, m, blocking, range, to.cast(), links, out, || ()) }
}

/// `clEnqueueWriteBuffer`.
pub unsafe fn clEnqueueWriteBuffer(
    q: &Object<Queue>,
    m: &Object<Memory>,
    blocking: bool,
    offset: usize,
    size: usize,
    from: *const c_void,
    events: Events<'_>,
) -> Result<()> {
    check(q, m, (offset, size), from, true)?;
    let (out, links) = begin(q, CL_COMMAND_WRITE_BUFFER, events)?;
    if size == 0 {
        return nothing(q, blocking, links, out);
    }
    let free = links.1.is_empty();
    // SAFETY: the program's memory, which it leaves as it is until the command has run.
    unsafe {
        let data = std::slice::from_raw_parts(from.cast::<u8>(), size);
        shared::put(q, m, offset, (data, false), links)?;
    }
    transfer::written(q, blocking, free, out)
}

/// `clEnqueueCopyBuffer`.
pub fn clEnqueueCopyBuffer(
    q: &Object<Queue>,
    from: &Object<Memory>,
    to: &Object<Memory>,
    from_offset: usize,
    to_offset: usize,
    size: usize,
    events: Events<'_>,
) -> Result<()> {
    from.check_buffer(&q.context)?;
    to.check_buffer(&q.context)?;
    from.check_range(from_offset, size)?;
    to.check_range(to_offset, size)?;
    let ((a, at), (b, end)) = (from.root(from_offset), to.root(to_offset));
    refuse_if(a.is(b) && at.abs_diff(end) < size, CL_MEM_COPY_OVERLAP)?;
    command!(q, events, CL_COMMAND_COPY_BUFFER, size == 0 => CopyBuffer {
        from: from.id,
        to: to.id,
        from_offset: from_offset as u64,
        to_offset: to_offset as u64,
        size: size as u64,
    })
}

/// `clEnqueueFillBuffer`.
pub unsafe fn clEnqueueFillBuffer(
    q: &Object<Queue>,
    m: &Object<Memory>,
    pattern: *const c_void,
    pattern_size: usize,
    offset: usize,
    size: usize,
    events: Events<'_>,
) -> Result<()> {
    m.check_buffer(&q.context)?;
    m.check_range(offset, size)?;
    refuse_if(pattern.is_null(), CL_INVALID_VALUE)?;
    // Drivers divide by it.
    refuse_if(pattern_size == 0, CL_INVALID_VALUE)?;
    let doubt = check_pattern(pattern_size, offset, size).is_err();
    // SAFETY: the program's bytes.
    let pattern = unsafe { std::slice::from_raw_parts(pattern.cast(), pattern_size) };
    command!(q, events, CL_COMMAND_FILL_BUFFER, doubt => FillBuffer {
        buffer: m.id,
        pattern,
        offset: offset as u64,
        size: size as u64,
    })
}

/// `clEnqueueMigrateMemObjects`.
pub fn clEnqueueMigrateMemObjects(
    q: &Object<Queue>,
    objects: Handles<'_>,
    flags: u64,
    events: Events<'_>,
) -> Result<()> {
    let known = CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
    objects.check()?;
    refuse_if(flags & !known != 0, CL_INVALID_VALUE)?;
    let mut ids = Vec::new();
    for m in objects.some::<Memory>()? {
        m.check_context(&q.context)?;
        ids.push(m.id);
    }
    command!(q, events, CL_COMMAND_MIGRATE_MEM_OBJECTS => Migrate {
        objects: ids,
        flags,
    })
}
