//! Memory objects: creation, queries and the end of buffers, and what images share with them.

use super::prelude::*;
use crate::opencl::state::memory::{ACCESS, check_flags, part_flags, sent_flags};

/// From this size on, whether there is memory for a buffer is asked at once.
const ASK_FROM: usize = 4 << 20;

/// `clCreateBuffer`.
pub unsafe fn clCreateBuffer(
    c: &Object<Context>,
    flags: u64,
    size: usize,
    host: Handle,
) -> Result<Handle> {
    // SAFETY: passed on to the caller.
    unsafe { clCreateBufferWithProperties(c, Properties(Vec::new()), flags, size, host) }
}

/// `clCreateBufferWithProperties`.
pub unsafe fn clCreateBufferWithProperties(
    c: &Object<Context>,
    properties: Properties,
    flags: u64,
    size: usize,
    host: Handle,
) -> Result<Handle> {
    if properties.0.first().is_some_and(|p| *p != 0) {
        return Err(CL_INVALID_PROPERTY);
    }
    check_flags(flags, !host.is_null())?;
    if size == 0 || size as u64 > c.most(CL_DEVICE_MAX_MEM_ALLOC_SIZE) {
        return Err(CL_INVALID_BUFFER_SIZE);
    }
    let svm = &c.server.svm;
    let uses = flags & CL_MEM_USE_HOST_PTR != 0;
    let in_svm = uses && svm.holds(host as usize, size);
    if uses && !in_svm && svm.holds(host as usize, 1) {
        return Err(CL_INVALID_BUFFER_SIZE);
    }
    let contents: &[u8] = match host.is_null() || in_svm {
        true => &[],
        // SAFETY: the program says that there are `size` bytes.
        false => unsafe { std::slice::from_raw_parts(host.cast(), size) },
    };
    let id = c.server.id();
    c.server.send(contents, |blob, data| wire::CreateBuffer {
        buffer: id,
        context: c.id,
        flags: match in_svm {
            true => flags & ACCESS | CL_MEM_USE_HOST_PTR,
            false => sent_flags(flags),
        },
        size: size as u64,
        svm: if in_svm { host as u64 } else { 0 },
        blob,
        data,
    })?;
    let (context, kind) = (c.keep(), CL_MEM_OBJECT_BUFFER);
    let mut body = Memory::new(context, kind, flags, size, host, properties.0);
    body.svm = in_svm;
    let memory = Object::new(c.server, id, body);
    if size >= ASK_FROM || c.server.session.welcome.memory > 0 {
        c.server.check(id)?;
    }
    Ok(memory.give())
}

/// `clCreateSubBuffer`.
pub unsafe fn clCreateSubBuffer(
    p: &Object<Memory>,
    flags: u64,
    kind: u32,
    region: *const std::ffi::c_void,
) -> Result<Handle> {
    refuse_if(p.kind != CL_MEM_OBJECT_BUFFER, CL_INVALID_MEM_OBJECT)?;
    refuse_if(p.parent.is_some(), CL_INVALID_MEM_OBJECT)?;
    refuse_if(kind != CL_BUFFER_CREATE_TYPE_REGION, CL_INVALID_VALUE)?;
    refuse_if(region.is_null(), CL_INVALID_VALUE)?;
    // SAFETY: checked for null; the program's structure.
    let BufferRegion { origin, size } = unsafe { region.cast::<BufferRegion>().read() };
    let all = part_flags(p.flags, flags)?;
    p.check_range(origin, size)?;
    refuse_if(size == 0, CL_INVALID_BUFFER_SIZE)?;
    let devices = p.context.devices.iter();
    let bits = devices.map(|d| d.table.number(CL_DEVICE_MEM_BASE_ADDR_ALIGN));
    let align = bits.min().unwrap_or(8) / 8;
    let astray = !(origin as u64).is_multiple_of(align.max(1));
    let id = p.server.id();
    p.server.queue(&wire::CreateSubBuffer {
        buffer: id,
        parent: p.id,
        flags: flags & ACCESS,
        origin: origin as u64,
        size: size as u64,
    })?;
    let (context, null) = (p.context.clone(), std::ptr::null_mut());
    let mut body = Memory::new(context, p.kind, all, size, null, Vec::new());
    body.host = if p.host == 0 { 0 } else { p.host + origin };
    body.svm = p.svm;
    body.parent = Some((p.keep(), origin));
    let part = Object::new(p.server, id, body);
    if astray {
        p.server.check(id)?;
    }
    Ok(part.give())
}

/// `clSetMemObjectDestructorCallback`.
pub fn clSetMemObjectDestructorCallback(
    m: &Object<Memory>,
    f: Option<OfObject>,
    user: User,
) -> Result<()> {
    m.goodbyes.add(farewell(f, user)?);
    Ok(())
}

/// `clGetMemObjectInfo`.
pub fn clGetMemObjectInfo(m: &Object<Memory>, param: u32, to: Answer) -> Result<()> {
    to.give(&match param {
        CL_MEM_TYPE => m.kind.plain(),
        CL_MEM_FLAGS => m.flags.plain(),
        CL_MEM_SIZE => m.size.plain(),
        CL_MEM_HOST_PTR => m.host.plain(),
        CL_MEM_MAP_COUNT => (m.maps.count() as u32).plain(),
        CL_MEM_REFERENCE_COUNT => m.count().plain(),
        CL_MEM_CONTEXT => m.context.handle().plain(),
        CL_MEM_ASSOCIATED_MEMOBJECT => {
            let parent = m.parent.as_ref().map(|p| p.0.handle());
            parent.unwrap_or(std::ptr::null_mut()).plain()
        }
        CL_MEM_OFFSET => m.parent.as_ref().map_or(0, |p| p.1).plain(),
        CL_MEM_USES_SVM_POINTER => m.svm.plain(),
        CL_MEM_PROPERTIES => m.properties.plain(),
        _ => return Err(CL_INVALID_VALUE),
    })
}

/// `clGetPipeInfo`: no object is a pipe.
pub fn clGetPipeInfo(_: Handle, _param: u32, _to: Answer) -> Result<()> {
    Err(CL_INVALID_MEM_OBJECT)
}
