//! Memory objects: creation, queries and the end of buffers; what images share with them.

use super::context::{Context, Goodbye, Goodbyes};
use super::entry::{self, Plain, Result};
use super::image::Image;
use super::map::Maps;
use super::object::{self, Body, Object, get};
use super::server::Server;
use super::svm;
use busbar_abi::opencl::*;
use busbar_wire::generated::opencl as wire;
use std::sync::Arc;

/// A buffer or an image.
pub struct Memory {
    /// Its context.
    pub context: Arc<Object<Context>>,
    /// `CL_MEM_OBJECT_*`.
    pub kind: u32,
    /// As created, with what holds by default.
    pub flags: u64,
    /// Bytes.
    pub size: usize,
    /// The program's own memory behind the object, or null.
    pub host: usize,
    /// What it is a part of, and where it begins there.
    pub parent: Option<(Arc<Object<Memory>>, usize)>,
    properties: Vec<u64>,
    /// Regions that the program has mapped.
    pub maps: Maps,
    /// What images have in addition.
    pub image: Option<Image>,
    svm: bool,
    goodbyes: Goodbyes,
}

impl Body for Memory {
    const MAGIC: u32 = 0x6273_7006;
    const INVALID: i32 = CL_INVALID_MEM_OBJECT;
    const LISTED: bool = true;

    fn retire(&mut self, handle: Handle) {
        self.goodbyes.say(handle);
    }
}

const ACCESS: u64 = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
const HOST_ACCESS: u64 = CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;
const POINTER: u64 = CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;
/// Flags that the worker's object has. Host pointers are the client's affair, and the worker reads
/// and writes on behalf of maps even where the program may not.
const SENT: u64 = ACCESS | CL_MEM_COPY_HOST_PTR | CL_MEM_KERNEL_READ_AND_WRITE;
/// From this size on, whether there is memory for a buffer is asked at once.
const ASK_FROM: usize = 4 << 20;

/// Checks flags against each other and against the host pointer.
pub fn check_flags(flags: u64, host: Handle) -> Result<()> {
    let known = ACCESS | HOST_ACCESS | POINTER | CL_MEM_KERNEL_READ_AND_WRITE;
    if flags & !known != 0
        || (flags & ACCESS).count_ones() > 1
        || (flags & HOST_ACCESS).count_ones() > 1
    {
        return Err(CL_INVALID_VALUE);
    }
    let uses = flags & CL_MEM_USE_HOST_PTR != 0;
    if uses && flags & (CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR) != 0 {
        return Err(CL_INVALID_VALUE);
    }
    let wants = flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR) != 0;
    if wants == host.is_null() {
        return Err(CL_INVALID_HOST_PTR);
    }
    Ok(())
}

/// The flags to send, given the program's: contents travel in either case that has them.
pub fn sent_flags(flags: u64) -> u64 {
    let copies = match flags & CL_MEM_USE_HOST_PTR {
        0 => 0,
        _ => CL_MEM_COPY_HOST_PTR,
    };
    (flags | copies) & SENT
}

/// Flags as queries give them: access is read-write where the program said nothing.
pub fn with_default(flags: u64) -> u64 {
    match flags & ACCESS {
        0 => flags | CL_MEM_READ_WRITE,
        _ => flags,
    }
}

impl Memory {
    /// A memory object that nothing is mapped of.
    pub fn new(
        context: &Object<Context>,
        kind: u32,
        flags: u64,
        size: usize,
        host: Handle,
        properties: Vec<u64>,
    ) -> Self {
        Self {
            context: context.keep(),
            kind,
            flags: with_default(flags),
            size,
            host: match flags & CL_MEM_USE_HOST_PTR {
                0 => 0,
                _ => host as usize,
            },
            parent: None,
            properties,
            maps: Maps::default(),
            image: None,
            svm: false,
            goodbyes: Goodbyes::default(),
        }
    }

    /// Fails when the host may not read (or write) the object.
    pub fn host_may(&self, write: bool) -> Result<()> {
        let denied = match write {
            true => CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_READ_ONLY,
            false => CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_WRITE_ONLY,
        };
        match self.flags & denied {
            0 => Ok(()),
            _ => Err(CL_INVALID_OPERATION),
        }
    }

    /// Fails when a range does not lie in the object.
    pub fn check_range(&self, offset: usize, size: usize) -> Result<()> {
        match offset.checked_add(size) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(CL_INVALID_VALUE),
        }
    }
}

/// A buffer among the program's handles, in the same context as what it is used with.
///
/// # Safety
/// The program's handle.
pub unsafe fn buffer<'a>(context: &Object<Context>, h: Handle) -> Result<&'a Object<Memory>> {
    // SAFETY: passed on to the caller.
    let m = unsafe { get::<Memory>(h)? };
    if m.kind != CL_MEM_OBJECT_BUFFER {
        return Err(CL_INVALID_MEM_OBJECT);
    }
    if !std::ptr::eq(&*m.context, context) {
        return Err(CL_INVALID_CONTEXT);
    }
    Ok(m)
}

/// Asks whether an object came to be.
pub fn check(server: &Server, id: u32) -> Result<()> {
    server.call(&wire::Check { object: id }).map(drop)
}

fn create(
    context: Handle,
    properties: Vec<u64>,
    flags: u64,
    size: usize,
    host: Handle,
) -> Result<Handle> {
    // SAFETY: the program's handle.
    let c = unsafe { get::<Context>(context)? };
    if properties.first().is_some_and(|p| *p != 0) {
        return Err(CL_INVALID_PROPERTY);
    }
    check_flags(flags, host)?;
    if size == 0 || size as u64 > c.most(CL_DEVICE_MAX_MEM_ALLOC_SIZE) {
        return Err(CL_INVALID_BUFFER_SIZE);
    }
    let in_svm = flags & CL_MEM_USE_HOST_PTR != 0 && svm::holds(host as usize, size);
    if flags & CL_MEM_USE_HOST_PTR != 0 && !in_svm && svm::holds(host as usize, 1) {
        return Err(CL_INVALID_BUFFER_SIZE);
    }
    let contents: &[u8] = match host.is_null() || in_svm {
        true => &[],
        // SAFETY: the program says that there are `size` bytes.
        false => unsafe { std::slice::from_raw_parts(host.cast(), size) },
    };
    let id = c.server.id();
    let sent = match in_svm {
        true => flags & ACCESS | CL_MEM_USE_HOST_PTR,
        false => sent_flags(flags),
    };
    c.server.send(contents, |blob, data| wire::CreateBuffer {
        buffer: id,
        context: c.id,
        flags: sent,
        size: size as u64,
        svm: if in_svm { host as u64 } else { 0 },
        blob,
        data,
    })?;
    let mut body = Memory::new(c, CL_MEM_OBJECT_BUFFER, flags, size, host, properties);
    body.svm = in_svm;
    let memory = Object::new(c.server, id, body);
    if size >= ASK_FROM {
        check(c.server, id)?;
    }
    Ok(memory.give())
}

/// `clCreateBuffer`.
pub unsafe extern "C" fn create_buffer(
    context: Handle,
    flags: u64,
    size: usize,
    host: Handle,
    code: *mut i32,
) -> Handle {
    // SAFETY: null or the program's.
    unsafe { entry::object(code, || create(context, Vec::new(), flags, size, host)) }
}

/// `clCreateBufferWithProperties`.
pub unsafe extern "C" fn create_buffer_with_properties(
    context: Handle,
    properties: *const u64,
    flags: u64,
    size: usize,
    host: Handle,
    code: *mut i32,
) -> Handle {
    let make = || {
        // SAFETY: the program's list.
        let list = unsafe { entry::properties(properties)? };
        create(context, list, flags, size, host)
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clCreateSubBuffer`.
pub unsafe extern "C" fn create_sub_buffer(
    parent: Handle,
    flags: u64,
    kind: u32,
    region: *const BufferRegion,
    code: *mut i32,
) -> Handle {
    let make = || {
        // SAFETY: the program's handle.
        let p = unsafe { get::<Memory>(parent)? };
        if p.kind != CL_MEM_OBJECT_BUFFER || p.parent.is_some() {
            return Err(CL_INVALID_MEM_OBJECT);
        }
        if kind != CL_BUFFER_CREATE_TYPE_REGION || region.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: checked for null; the program's structure.
        let BufferRegion { origin, size } = unsafe { region.read() };
        if flags & POINTER != 0
            || flags & !(ACCESS | HOST_ACCESS) != 0
            || (flags & ACCESS).count_ones() > 1
            || (flags & HOST_ACCESS).count_ones() > 1
        {
            return Err(CL_INVALID_VALUE);
        }
        let clash = |parent: u64, child: u64| p.flags & parent != 0 && flags & child != 0;
        if clash(CL_MEM_WRITE_ONLY, CL_MEM_READ_WRITE | CL_MEM_READ_ONLY)
            || clash(CL_MEM_READ_ONLY, CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY)
            || clash(CL_MEM_HOST_WRITE_ONLY, CL_MEM_HOST_READ_ONLY)
            || clash(CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY)
            || clash(
                CL_MEM_HOST_NO_ACCESS,
                CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY,
            )
        {
            return Err(CL_INVALID_VALUE);
        }
        p.check_range(origin, size)?;
        if size == 0 {
            return Err(CL_INVALID_BUFFER_SIZE);
        }
        let bits = p.context.devices.iter();
        let bits = bits
            .map(|d| d.number(CL_DEVICE_MEM_BASE_ADDR_ALIGN))
            .min()
            .unwrap_or(8);
        if !(origin as u64).is_multiple_of((bits / 8).max(1)) {
            return Err(CL_MISALIGNED_SUB_BUFFER_OFFSET);
        }
        let id = p.server.id();
        let sent = flags & ACCESS;
        p.server.queue(&wire::CreateSubBuffer {
            buffer: id,
            parent: p.id,
            flags: sent,
            origin: origin as u64,
            size: size as u64,
        })?;
        // What the flags leave open is as with the parent.
        let mut all = flags | p.flags & POINTER;
        for group in [ACCESS, HOST_ACCESS] {
            if all & group == 0 {
                all |= p.flags & group;
            }
        }
        let mut body = Memory::new(
            &p.context,
            CL_MEM_OBJECT_BUFFER,
            all,
            size,
            parent,
            Vec::new(),
        );
        body.host = if p.host == 0 { 0 } else { p.host + origin };
        body.svm = p.svm;
        body.parent = Some((p.keep(), origin));
        Ok(Object::new(p.server, id, body).give())
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clRetainMemObject`.
pub unsafe extern "C" fn retain_mem_object(memory: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe { object::retain::<Memory>(memory) })
}

/// `clReleaseMemObject`.
pub unsafe extern "C" fn release_mem_object(memory: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe { object::release::<Memory>(memory) })
}

/// `clSetMemObjectDestructorCallback`.
pub unsafe extern "C" fn set_mem_object_destructor_callback(
    memory: Handle,
    f: Option<Goodbye>,
    user: Handle,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let m = unsafe { get::<Memory>(memory)? };
        m.goodbyes.add(f.ok_or(CL_INVALID_VALUE)?, user);
        Ok(())
    })
}

/// `clGetMemObjectInfo`.
pub unsafe extern "C" fn get_mem_object_info(
    memory: Handle,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let m = unsafe { get::<Memory>(memory)? };
        let bytes = match param {
            CL_MEM_TYPE => m.kind.plain(),
            CL_MEM_FLAGS => m.flags.plain(),
            CL_MEM_SIZE => m.size.plain(),
            CL_MEM_HOST_PTR => m.host.plain(),
            CL_MEM_MAP_COUNT => (m.maps.count() as u32).plain(),
            CL_MEM_REFERENCE_COUNT => m.count().plain(),
            CL_MEM_CONTEXT => m.context.handle().plain(),
            CL_MEM_ASSOCIATED_MEMOBJECT => m
                .parent
                .as_ref()
                .map_or(std::ptr::null_mut(), |p| p.0.handle())
                .plain(),
            CL_MEM_OFFSET => m.parent.as_ref().map_or(0, |p| p.1).plain(),
            CL_MEM_USES_SVM_POINTER => m.svm.plain(),
            CL_MEM_PROPERTIES => m.properties.plain(),
            _ => return Err(CL_INVALID_VALUE),
        };
        // SAFETY: the program's memory, as it says.
        unsafe { entry::answer(&bytes, size, value, ret) }
    })
}
