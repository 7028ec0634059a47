//! Command queues: creation, queries, markers, barriers, flush and finish.

use super::context::{self, Context};
use super::device::Device;
use super::entry::{self, Plain, Result};
use super::event::{self, Event, Out};
use super::object::{self, Body, Object, get, get_opt};
use super::server::lock;
use busbar_abi::opencl::*;
use busbar_wire::generated::opencl as wire;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// A queue.
pub struct Queue {
    /// Its context.
    pub context: Arc<Object<Context>>,
    /// Its device.
    pub device: Arc<Object<Device>>,
    properties: AtomicU64,
    list: Vec<u64>,
    size: u32,
    /// Commands whose end a program could tell, noted once they are queued.
    noted: AtomicU64,
    /// How many of them are known to have ended.
    ended: AtomicU64,
    /// Whether a write was called done that may not have run.
    early: AtomicBool,
    /// Events whose times the program may ask for next.
    recent: Mutex<VecDeque<Weak<Object<Event>>>>,
}

/// The most events that one answer brings the times of.
const MOST_TIMES: usize = 64;

impl Body for Queue {
    const MAGIC: u32 = 0x6273_7004;
    const INVALID: i32 = CL_INVALID_COMMAND_QUEUE;
}

impl Queue {
    /// Whether commands run in the order of their calls.
    pub fn in_order(&self) -> bool {
        self.properties.load(Ordering::Relaxed) & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0
    }

    /// Whether events keep times.
    pub fn profiling(&self) -> bool {
        self.properties.load(Ordering::Relaxed) & CL_QUEUE_PROFILING_ENABLE != 0
    }

    /// Whether a write may return before it has run: nothing could tell the difference.
    pub fn alone(&self) -> bool {
        self.in_order() && self.context.queues.load(Ordering::Relaxed) == 1
    }

    /// Notes a command, and says its number.
    pub fn note(&self) -> u64 {
        self.noted.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The number of the last command that was noted.
    pub fn here(&self) -> u64 {
        self.noted.load(Ordering::Acquire)
    }

    /// Commands up to this one have ended.
    pub fn reached(&self, number: u64) {
        self.ended.fetch_max(number, Ordering::AcqRel);
    }

    /// Whether every command is known to have ended, but for writes that nothing could tell of.
    pub fn quiet(&self) -> bool {
        self.ended.load(Ordering::Acquire) >= self.here()
    }

    /// Whether nothing could tell when a write runs that is queued now and waits for nothing: no
    /// other queue is there, and no earlier command is still to end.
    pub fn unwatched(&self) -> bool {
        self.alone() && self.quiet()
    }

    /// A write was called done early.
    pub fn called_early(&self) {
        self.early.store(true, Ordering::Release);
    }

    /// Its answers are to bring this event's times.
    pub fn expect_times(&self, event: &Arc<Object<Event>>) {
        let mut recent = lock(&self.recent);
        recent.push_back(Arc::downgrade(event));
        if recent.len() > MOST_TIMES {
            recent.pop_front();
        }
    }
}

fn create(context: Handle, device: Handle, list: Vec<u64>) -> Result<Handle> {
    // SAFETY: the program's handle.
    let c = unsafe { get::<Context>(context)? };
    // SAFETY: the program's handle.
    unsafe { get::<Device>(device)? };
    let d = c.device(device).ok_or(CL_INVALID_DEVICE)?.clone();
    let (mut properties, mut size) = (0, 0);
    let mut wanted = Vec::new();
    for pair in list.chunks_exact(2) {
        match pair[0] as u32 {
            CL_QUEUE_PROPERTIES => properties = pair[1],
            CL_QUEUE_SIZE => size = pair[1] as u32,
            // Hints of extensions: priorities and throttling.
            0x1096 | 0x1097 => {}
            _ => return Err(CL_INVALID_VALUE),
        }
        wanted.extend_from_slice(pair);
    }
    let known = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE
        | CL_QUEUE_PROFILING_ENABLE
        | CL_QUEUE_ON_DEVICE
        | CL_QUEUE_ON_DEVICE_DEFAULT;
    if properties & !known != 0 {
        return Err(CL_INVALID_VALUE);
    }
    let on_device = properties & CL_QUEUE_ON_DEVICE != 0;
    let both = CL_QUEUE_ON_DEVICE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    if on_device && properties & both != both
        || !on_device && (properties & CL_QUEUE_ON_DEVICE_DEFAULT != 0 || size != 0)
    {
        return Err(CL_INVALID_VALUE);
    }
    let able = match on_device {
        true => d.number(CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES),
        false => d.number(CL_DEVICE_QUEUE_ON_HOST_PROPERTIES),
    };
    let asked = properties & (CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE);
    if asked & !able != 0 {
        return Err(CL_INVALID_QUEUE_PROPERTIES);
    }
    if !wanted.is_empty() {
        wanted.push(0);
    }
    let id = c.server.id();
    c.server.queue(&wire::CreateQueue {
        queue: id,
        context: c.id,
        device: d.id,
        properties: wanted,
    })?;
    context::count_queue(c, id);
    let queue = Queue {
        context: c.keep(),
        device: d,
        properties: AtomicU64::new(properties),
        list,
        size,
        noted: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        early: AtomicBool::new(false),
        recent: Mutex::default(),
    };
    let queue = Object::new(c.server, id, queue);
    // While the context has one queue, nothing can tell whether a write has run. From now on
    // something could.
    if let Some(first) = c
        .first_queue
        .get_or_init(|| Arc::downgrade(&queue))
        .upgrade()
        && first.early.load(Ordering::Acquire)
        && first.quiet()
    {
        wait(&first)?;
    }
    Ok(queue.give())
}

/// `clCreateCommandQueue`.
pub unsafe extern "C" fn create_command_queue(
    context: Handle,
    device: Handle,
    properties: u64,
    code: *mut i32,
) -> Handle {
    let make = || {
        let host = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
        if properties & !host != 0 {
            return Err(CL_INVALID_VALUE);
        }
        // The list is empty where there is none to tell: the program gave none.
        let list = match properties {
            0 => Vec::new(),
            p => vec![u64::from(CL_QUEUE_PROPERTIES), p, 0],
        };
        create(context, device, list)
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clCreateCommandQueueWithProperties`.
pub unsafe extern "C" fn create_command_queue_with_properties(
    context: Handle,
    device: Handle,
    properties: *const u64,
    code: *mut i32,
) -> Handle {
    // SAFETY: the program's list.
    let make = || create(context, device, unsafe { entry::properties(properties)? });
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clRetainCommandQueue`.
pub unsafe extern "C" fn retain_command_queue(queue: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe { object::retain::<Queue>(queue) })
}

/// `clReleaseCommandQueue`.
pub unsafe extern "C" fn release_command_queue(queue: Handle) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let q = unsafe { get::<Queue>(queue)? };
        // Releasing a queue flushes it.
        if q.count() == 1 {
            q.server.session.flush();
            // Events keep the queue itself; what the count of queues is for is over.
            q.context.queues.fetch_sub(1, Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { object::release::<Queue>(queue) }
    })
}

/// `clGetCommandQueueInfo`.
pub unsafe extern "C" fn get_command_queue_info(
    queue: Handle,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let q = unsafe { get::<Queue>(queue)? };
        let bytes = match param {
            CL_QUEUE_CONTEXT => q.context.handle().plain(),
            CL_QUEUE_DEVICE => q.device.handle().plain(),
            CL_QUEUE_REFERENCE_COUNT => q.count().plain(),
            CL_QUEUE_PROPERTIES => q.properties.load(Ordering::Relaxed).plain(),
            CL_QUEUE_PROPERTIES_ARRAY => q.list.plain(),
            CL_QUEUE_DEVICE_DEFAULT => std::ptr::null_mut::<std::ffi::c_void>().plain(),
            CL_QUEUE_SIZE => match q.size {
                0 => return Err(CL_INVALID_COMMAND_QUEUE),
                n => n.plain(),
            },
            _ => return Err(CL_INVALID_VALUE),
        };
        // SAFETY: the program's memory, as it says.
        unsafe { entry::answer(&bytes, size, value, ret) }
    })
}

/// `clSetCommandQueueProperty`.
pub unsafe extern "C" fn set_command_queue_property(
    queue: Handle,
    properties: u64,
    _enable: u32,
    old: *mut u64,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let q = unsafe { get::<Queue>(queue)? };
        // SAFETY: null or the program's.
        unsafe { entry::put(old, q.properties.load(Ordering::Relaxed)) };
        // Deprecated since 1.1, and refused by drivers ever since.
        let _ = properties;
        Err(CL_INVALID_OPERATION)
    })
}

/// `clSetDefaultDeviceCommandQueue`.
pub unsafe extern "C" fn set_default_device_command_queue(
    context: Handle,
    device: Handle,
    queue: Handle,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handles.
        let (c, q) = unsafe { (get::<Context>(context)?, get_opt::<Queue>(queue)?) };
        let d = c.device(device).ok_or(CL_INVALID_DEVICE)?;
        if d.number(CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES) == 0 {
            return Err(CL_INVALID_OPERATION);
        }
        let q = q.ok_or(CL_INVALID_COMMAND_QUEUE)?;
        c.server
            .call(&wire::SetDefaultQueue {
                context: c.id,
                device: d.id,
                queue: q.id,
            })
            .map(drop)
    })
}

/// `clFlush`.
pub unsafe extern "C" fn flush(queue: Handle) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let q = unsafe { get::<Queue>(queue)? };
        q.server.queue(&wire::Flush { queue: q.id })?;
        q.server.session.flush();
        Ok(())
    })
}

/// Waits for everything in a queue.
pub fn wait(q: &Object<Queue>) -> Result<()> {
    let here = q.here();
    let recent = std::mem::take(&mut *lock(&q.recent));
    let events: Vec<_> = recent.iter().filter_map(Weak::upgrade).collect();
    let done = q.server.call(&wire::Finish {
        queue: q.id,
        profile: events.iter().map(|e| e.id).collect(),
    });
    // What came with the answer has also released all borrowed memory.
    q.server.borrowed.store(false, Ordering::Release);
    q.server.deferred(q.id)?;
    event::take_times(&events, &done?)?;
    q.reached(here);
    q.early.store(false, Ordering::Release);
    Ok(())
}

/// `clFinish`.
pub unsafe extern "C" fn finish(queue: Handle) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let q = unsafe { get::<Queue>(queue)? };
        if !q.unwatched() {
            return wait(q);
        }
        q.server.settle()?;
        q.server.session.flush();
        q.server.deferred(q.id)
    })
}

fn marker(
    queue: Handle,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
    barrier: bool,
) -> Result<()> {
    // SAFETY: the program's handle.
    let q = unsafe { get::<Queue>(queue)? };
    // SAFETY: the program's list and place.
    let waits = unsafe { event::waits(&q.context, n, list)? };
    let command = if barrier {
        CL_COMMAND_BARRIER
    } else {
        CL_COMMAND_MARKER
    };
    let event = Out::new(q, command, out);
    q.server.queue(&wire::Marker {
        queue: q.id,
        event: event.id(),
        waits,
        barrier: barrier.into(),
    })?;
    event.give();
    Ok(())
}

/// `clEnqueueMarkerWithWaitList`.
pub unsafe extern "C" fn enqueue_marker_with_wait_list(
    queue: Handle,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    entry::status(|| marker(queue, n, list, out, false))
}

/// `clEnqueueBarrierWithWaitList`.
pub unsafe extern "C" fn enqueue_barrier_with_wait_list(
    queue: Handle,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    entry::status(|| marker(queue, n, list, out, true))
}

/// `clEnqueueMarker`.
pub unsafe extern "C" fn enqueue_marker(queue: Handle, out: *mut Handle) -> i32 {
    entry::status(|| match out.is_null() {
        true => Err(CL_INVALID_VALUE),
        false => marker(queue, 0, std::ptr::null(), out, false),
    })
}

/// `clEnqueueBarrier`.
pub unsafe extern "C" fn enqueue_barrier(queue: Handle) -> i32 {
    entry::status(|| marker(queue, 0, std::ptr::null(), std::ptr::null_mut(), true))
}

/// `clEnqueueWaitForEvents`.
pub unsafe extern "C" fn enqueue_wait_for_events(
    queue: Handle,
    n: u32,
    list: *const Handle,
) -> i32 {
    entry::status(|| match n == 0 || list.is_null() {
        true => Err(CL_INVALID_VALUE),
        false => marker(queue, n, list, std::ptr::null_mut(), true),
    })
}
