//! Command queues: creation, queries, markers, barriers, flush and finish.

use super::prelude::*;
use crate::opencl::engine::command::{self, marker, unwatched};

/// Properties and size of a queue in a list, checked against the device; and whether the driver is
/// to judge: there is a property that nobody knows here, or one of them twice.
fn check(d: &Device, list: &[u64]) -> Result<((u64, u32), bool)> {
    let (mut properties, mut size, mut doubt) = (0, 0, false);
    for (i, pair) in list.chunks_exact(2).enumerate() {
        doubt |= list.chunks_exact(2).take(i).any(|p| p[0] == pair[0]);
        match pair[0] as u32 {
            CL_QUEUE_PROPERTIES => properties = pair[1],
            CL_QUEUE_SIZE => size = pair[1] as u32,
            // Hints of extensions: priorities and throttling.
            0x1096 | 0x1097 => {}
            _ => doubt = true,
        }
    }
    let known = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE
        | CL_QUEUE_PROFILING_ENABLE
        | CL_QUEUE_ON_DEVICE
        | CL_QUEUE_ON_DEVICE_DEFAULT;
    let on_device = properties & CL_QUEUE_ON_DEVICE != 0;
    let both = CL_QUEUE_ON_DEVICE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    if properties & !known != 0
        || on_device && properties & both != both
        || !on_device && (properties & CL_QUEUE_ON_DEVICE_DEFAULT != 0 || size != 0)
    {
        return Err(CL_INVALID_VALUE);
    }
    let able = match on_device {
        true => d.table.number(CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES),
        false => d.table.number(CL_DEVICE_QUEUE_ON_HOST_PROPERTIES),
    };
    let asked = properties & (CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE);
    match asked & !able {
        0 => Ok(((properties, size), doubt)),
        _ => Err(CL_INVALID_QUEUE_PROPERTIES),
    }
}

fn create(c: &Object<Context>, d: &Object<Device>, list: Vec<u64>) -> Result<Handle> {
    let d = c.device(d)?;
    let (checked, doubt) = check(d, &list)?;
    let id = c.server.id();
    c.server.queue(&wire::CreateQueue {
        queue: id,
        context: c.id,
        device: d.id,
        properties: if list.len() > 1 {
            list.clone()
        } else {
            Vec::new()
        },
    })?;
    lock(&c.server.hub.listeners).add_queue(c.id, id);
    let queue = Queue::new(c.keep(), d.clone(), checked, list);
    let queue = Object::new(c.server, id, queue);
    if doubt {
        c.server.check(id)?;
    }
    if let Some(first) = queue.joins()
        && first.order.is_early()
        && first.order.quiet()
    {
        command::wait(&first)?;
    }
    Ok(queue.give())
}

/// `clCreateCommandQueue`.
pub fn clCreateCommandQueue(
    c: &Object<Context>,
    d: &Object<Device>,
    properties: u64,
) -> Result<Handle> {
    let host = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
    refuse_if(properties & !host != 0, CL_INVALID_VALUE)?;
    // The list is empty where there is none to tell: the program gave none.
    let list = match properties {
        0 => Vec::new(),
        p => vec![u64::from(CL_QUEUE_PROPERTIES), p, 0],
    };
    create(c, d, list)
}

/// `clCreateCommandQueueWithProperties`.
pub fn clCreateCommandQueueWithProperties(
    c: &Object<Context>,
    d: &Object<Device>,
    properties: Properties,
) -> Result<Handle> {
    create(c, d, properties.0)
}

/// `clGetCommandQueueInfo`.
pub fn clGetCommandQueueInfo(q: &Object<Queue>, param: u32, to: Answer) -> Result<()> {
    to.give(&match param {
        CL_QUEUE_CONTEXT => q.context.handle().plain(),
        CL_QUEUE_DEVICE => q.device.handle().plain(),
        CL_QUEUE_REFERENCE_COUNT => q.count().plain(),
        CL_QUEUE_PROPERTIES => q.properties.plain(),
        CL_QUEUE_PROPERTIES_ARRAY => q.list.plain(),
        CL_QUEUE_DEVICE_DEFAULT => 0usize.plain(),
        CL_QUEUE_SIZE if q.size != 0 => q.size.plain(),
        CL_QUEUE_SIZE => return Err(CL_INVALID_COMMAND_QUEUE),
        _ => return Err(CL_INVALID_VALUE),
    })
}

/// `clSetDefaultDeviceCommandQueue`.
pub fn clSetDefaultDeviceCommandQueue(
    c: &Object<Context>,
    d: &Object<Device>,
    q: Option<&Object<Queue>>,
) -> Result<()> {
    let d = c.device(d)?;
    if d.table.number(CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES) == 0 {
        return Err(CL_INVALID_OPERATION);
    }
    let msg = wire::SetDefaultQueue {
        context: c.id,
        device: d.id,
        queue: q.ok_or(CL_INVALID_COMMAND_QUEUE)?.id,
    };
    c.server.call(&msg).map(drop)
}

/// `clFlush`.
pub fn clFlush(q: &Object<Queue>) -> Result<()> {
    q.server.queue_now(&wire::Flush { queue: q.id })
}

/// `clFinish`.
pub fn clFinish(q: &Object<Queue>) -> Result<()> {
    if !unwatched(q) {
        return command::wait(q);
    }
    q.server.wait_for_borrowed()?;
    q.server.session.flush();
    q.server.deferred(q.id)
}

fn mark(q: &Object<Queue>, events: Events<'_>, barrier: bool) -> Result<()> {
    let command = match barrier {
        true => CL_COMMAND_BARRIER,
        false => CL_COMMAND_MARKER,
    };
    command::enqueue(q, command, events, |e, waits| marker(q, e, waits, barrier))
}

/// `clEnqueueMarkerWithWaitList`.
pub fn clEnqueueMarkerWithWaitList(q: &Object<Queue>, events: Events<'_>) -> Result<()> {
    mark(q, events, false)
}

/// `clEnqueueBarrierWithWaitList`.
pub fn clEnqueueBarrierWithWaitList(q: &Object<Queue>, events: Events<'_>) -> Result<()> {
    mark(q, events, true)
}

/// `clEnqueueMarker`.
pub fn clEnqueueMarker(q: &Object<Queue>, place: Slot<Handle>) -> Result<()> {
    let waits = Handles::none();
    refuse_if(place.is_none(), CL_INVALID_VALUE)?;
    mark(q, Events { waits, place }, false)
}

/// `clEnqueueBarrier`.
pub fn clEnqueueBarrier(q: &Object<Queue>) -> Result<()> {
    clEnqueueBarrierWithWaitList(q, Events::after(Handles::none()))
}

/// `clEnqueueWaitForEvents`.
pub fn clEnqueueWaitForEvents(q: &Object<Queue>, waits: Handles<'_>) -> Result<()> {
    waits.check()?;
    mark(q, Events::after(waits), true)
}
