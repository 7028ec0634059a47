//! Mapped buffers, and the end of maps.

use super::prelude::*;
use crate::opencl::engine::map;

/// `clEnqueueMapBuffer`.
pub fn clEnqueueMapBuffer(
    q: &Object<Queue>,
    m: &Object<Memory>,
    blocking: bool,
    flags: u64,
    offset: usize,
    size: usize,
    events: Events<'_>,
) -> Result<Handle> {
    m.check_buffer(&q.context)?;
    m.check_range(offset, size)?;
    refuse_if(size == 0, CL_INVALID_VALUE)?;
    let fetches = map::check(m, flags)?;
    let (out, links) = begin(q, CL_COMMAND_MAP_BUFFER, events)?;
    map::map_buffer(q, m, blocking, (flags, fetches), (offset, size), links, out)
}

/// `clEnqueueUnmapMemObject`.
pub fn clEnqueueUnmapMemObject(
    q: &Object<Queue>,
    m: &Object<Memory>,
    at: Handle,
    events: Events<'_>,
) -> Result<()> {
    m.check_context(&q.context)?;
    let (out, links) = begin(q, CL_COMMAND_UNMAP_MEM_OBJECT, events)?;
    map::unmap(q, m, at as usize, links, out)
}
