//! Contexts.

use super::callbacks::{self, Notify, User};
use super::device::Device;
use super::entry::{self, Plain, Result};
use super::object::{self, Body, Object, get};
use super::platform::{self, Platform};
use super::queue::Queue;
use super::server::{Server, decode, lock};
use busbar_abi::opencl::*;
use busbar_wire::generated::opencl as wire;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Called when an object goes: the object and the program's own pointer.
pub type Goodbye = unsafe extern "C" fn(Handle, Handle);

/// Functions to call when an object goes, last added first.
#[derive(Default)]
pub struct Goodbyes(Mutex<Vec<(Goodbye, User)>>);

impl Goodbyes {
    /// Adds one.
    pub fn add(&self, f: Goodbye, user: Handle) {
        lock(&self.0).push((f, User(user)));
    }

    /// The object is gone.
    pub fn say(&self, handle: Handle) {
        let object = User(handle);
        for (f, user) in lock(&self.0).drain(..).rev() {
            // SAFETY: the program's function with what it asked for.
            callbacks::run(Box::new(move || unsafe { f(object.get(), user.get()) }));
        }
    }
}

/// A context over devices of one platform.
pub struct Context {
    /// Its devices.
    pub devices: Vec<Arc<Object<Device>>>,
    properties: Vec<u64>,
    formats: Mutex<HashMap<(u64, u32), Vec<u8>>>,
    goodbyes: Goodbyes,
    /// Queues made so far: with only one, in-order, a blocking write need not wait.
    pub queues: AtomicU32,
    /// The first of them.
    pub first_queue: OnceLock<Weak<Object<Queue>>>,
    /// Under which name it hears of errors; 0 when it does not want to.
    listener: (&'static Server, u32),
}

impl Body for Context {
    const MAGIC: u32 = 0x6273_7003;
    const INVALID: i32 = CL_INVALID_CONTEXT;

    fn retire(&mut self, handle: Handle) {
        let (server, id) = self.listener;
        if id != 0 {
            lock(&server.hub.listeners).remove(id);
        }
        self.goodbyes.say(handle);
    }
}

impl Context {
    /// The context's own reference to a device of it.
    pub fn device(&self, handle: Handle) -> Option<&Arc<Object<Device>>> {
        self.devices.iter().find(|d| d.handle() == handle)
    }

    /// Whether any device of the context is as `f` says.
    pub fn any(&self, f: impl Fn(&Device) -> bool) -> bool {
        self.devices.iter().any(|d| f(d))
    }

    /// The greatest answer of any device.
    pub fn most(&self, param: u32) -> u64 {
        self.devices
            .iter()
            .map(|d| d.number(param))
            .max()
            .unwrap_or(0)
    }
}

/// Checks a list of context properties; returns the platform that it names.
fn check_properties(list: &[u64]) -> Result<Option<Handle>> {
    let mut platform = None;
    let mut seen = Vec::new();
    for pair in list.chunks_exact(2) {
        if seen.contains(&pair[0]) {
            return Err(CL_INVALID_PROPERTY);
        }
        seen.push(pair[0]);
        match pair[0] as u32 {
            CL_CONTEXT_PLATFORM => platform = Some(pair[1] as Handle),
            CL_CONTEXT_INTEROP_USER_SYNC if pair[1] <= 1 => {}
            _ => return Err(CL_INVALID_PROPERTY),
        }
    }
    Ok(platform)
}

fn create(
    devices: Vec<Arc<Object<Device>>>,
    properties: Vec<u64>,
    notify: Option<Notify>,
    user: Handle,
) -> Result<Handle> {
    let server = devices[0].server;
    if server.lost() {
        return Err(CL_DEVICE_NOT_AVAILABLE);
    }
    let id = server.id();
    server.queue(&wire::CreateContext {
        context: id,
        devices: devices.iter().map(|d| d.id).collect(),
        notify: notify.is_some().into(),
    })?;
    if let Some(f) = notify {
        lock(&server.hub.listeners).add(id, f, User(user));
    }
    let context = Context {
        devices,
        properties,
        formats: Mutex::default(),
        goodbyes: Goodbyes::default(),
        queues: AtomicU32::new(0),
        first_queue: OnceLock::new(),
        listener: (server, if notify.is_some() { id } else { 0 }),
    };
    Ok(Object::new(server, id, context).give())
}

/// `clCreateContext`.
pub unsafe extern "C" fn create_context(
    properties: *const u64,
    n: u32,
    devices: *const Handle,
    notify: Option<Notify>,
    user: Handle,
    code: *mut i32,
) -> Handle {
    let make = || {
        if n == 0 || devices.is_null() || notify.is_none() && !user.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: the program's list.
        let properties = unsafe { entry::properties(properties)? };
        let platform = check_properties(&properties)?;
        if let Some(p) = platform {
            // SAFETY: the program's handle.
            unsafe { get::<Platform>(p)? };
        }
        let mut list = Vec::new();
        // SAFETY: the program's list of `n` handles.
        for h in unsafe { entry::list(n, devices) } {
            // SAFETY: the program's handle.
            let d = unsafe { get::<Device>(*h)? };
            if platform.is_some_and(|p| p != d.platform()) {
                return Err(CL_INVALID_DEVICE);
            }
            if !list.iter().any(|o: &Arc<Object<Device>>| o.handle() == *h) {
                list.push(d.keep());
            }
        }
        if list.iter().any(|d| d.platform() != list[0].platform()) {
            return Err(CL_INVALID_DEVICE);
        }
        create(list, properties, notify, user)
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clCreateContextFromType`.
pub unsafe extern "C" fn create_context_from_type(
    properties: *const u64,
    kind: u64,
    notify: Option<Notify>,
    user: Handle,
    code: *mut i32,
) -> Handle {
    let make = || {
        if notify.is_none() && !user.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: the program's list.
        let properties = unsafe { entry::properties(properties)? };
        let platform = check_properties(&properties)?.unwrap_or(std::ptr::null_mut());
        // SAFETY: the program's handle.
        let p = unsafe { platform::default(platform)? };
        let known = CL_DEVICE_TYPE_ALL;
        if kind == 0 || kind & !known != 0 {
            return Err(CL_INVALID_DEVICE_TYPE);
        }
        let default = kind == CL_DEVICE_TYPE_DEFAULT;
        let list: Vec<_> = p
            .devices
            .iter()
            .filter(|d| {
                default || kind == CL_DEVICE_TYPE_ALL || d.number(CL_DEVICE_TYPE) & kind != 0
            })
            .take(if default { 1 } else { usize::MAX })
            .cloned()
            .collect();
        if list.is_empty() {
            return Err(CL_DEVICE_NOT_FOUND);
        }
        create(list, properties, notify, user)
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clRetainContext`.
pub unsafe extern "C" fn retain_context(context: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe { object::retain::<Context>(context) })
}

/// `clReleaseContext`.
pub unsafe extern "C" fn release_context(context: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe { object::release::<Context>(context) })
}

/// `clGetContextInfo`.
pub unsafe extern "C" fn get_context_info(
    context: Handle,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let c = unsafe { get::<Context>(context)? };
        let bytes = match param {
            CL_CONTEXT_REFERENCE_COUNT => c.count().plain(),
            CL_CONTEXT_NUM_DEVICES => (c.devices.len() as u32).plain(),
            CL_CONTEXT_DEVICES => c.devices.iter().flat_map(|d| d.handle().plain()).collect(),
            CL_CONTEXT_PROPERTIES => c.properties.plain(),
            _ => return Err(CL_INVALID_VALUE),
        };
        // SAFETY: the program's memory, as it says.
        unsafe { entry::answer(&bytes, size, value, ret) }
    })
}

/// `clSetContextDestructorCallback`.
pub unsafe extern "C" fn set_context_destructor_callback(
    context: Handle,
    f: Option<Goodbye>,
    user: Handle,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let c = unsafe { get::<Context>(context)? };
        c.goodbyes.add(f.ok_or(CL_INVALID_VALUE)?, user);
        Ok(())
    })
}

/// `clGetSupportedImageFormats`.
pub unsafe extern "C" fn get_supported_image_formats(
    context: Handle,
    flags: u64,
    kind: u32,
    room: u32,
    out: *mut ImageFormat,
    count: *mut u32,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let c = unsafe { get::<Context>(context)? };
        if room == 0 && !out.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let known = lock(&c.formats).get(&(flags, kind)).cloned();
        let bytes = match known {
            Some(b) => b,
            None => {
                let ask = wire::ImageFormats {
                    context: c.id,
                    flags,
                    kind,
                };
                let body = c.server.call(&ask)?;
                let b = decode::<wire::ImageFormatsReply>(&body)?.formats.to_vec();
                lock(&c.formats).insert((flags, kind), b.clone());
                b
            }
        };
        let n = bytes.len() / size_of::<ImageFormat>();
        if !out.is_null() {
            let n = n.min(room as usize) * size_of::<ImageFormat>();
            // SAFETY: the program gives room for `room` formats.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), n) };
        }
        // SAFETY: null or the program's.
        unsafe { entry::put(count, n as u32) };
        Ok(())
    })
}

/// Notes that the context has one more queue.
pub fn count_queue(c: &Context, queue: u32) {
    c.queues.fetch_add(1, Ordering::Relaxed);
    let (server, id) = c.listener;
    if id != 0 {
        lock(&server.hub.listeners).add_queue(id, queue);
    }
}
