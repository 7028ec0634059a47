//! Events: waiting, states, times and callbacks.

use super::callbacks::User;
use super::context::Context;
use super::entry::{self, Plain, Result};
use super::object::{self, Body, Object, get};
use super::queue::Queue;
use super::server::{decode, lock};
use busbar_abi::opencl::*;
use busbar_wire::generated::opencl as wire;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

/// An event of a command or of the program's own.
pub struct Event {
    context: Arc<Object<Context>>,
    queue: Option<Arc<Object<Queue>>>,
    command: u32,
    /// The last state that we know; final at `CL_COMPLETE` and below.
    state: AtomicI32,
    times: OnceLock<[u64; 5]>,
    set: AtomicBool,
}

impl Body for Event {
    const MAGIC: u32 = 0x6273_7005;
    const INVALID: i32 = CL_INVALID_EVENT;
}

/// The event that a command gives back, if the program wants it.
pub struct Out {
    event: Option<Arc<Object<Event>>>,
    place: *mut Handle,
}

impl Out {
    /// An event for a command of `q`, when `place` is not null.
    #[inline]
    pub fn new(q: &Object<Queue>, command: u32, place: *mut Handle) -> Self {
        let event = (!place.is_null()).then(|| {
            let event = Event {
                context: q.context.clone(),
                queue: Some(q.keep()),
                command,
                state: AtomicI32::new(CL_QUEUED),
                times: OnceLock::new(),
                set: AtomicBool::new(false),
            };
            Object::new(q.server, q.server.id(), event)
        });
        Self { event, place }
    }

    /// Its id; 0 for none.
    #[inline]
    pub fn id(&self) -> u32 {
        self.event.as_ref().map_or(0, |e| e.id)
    }

    /// The command is known to have run.
    pub fn complete(&self) {
        if let Some(e) = &self.event {
            e.state.store(CL_COMPLETE, Ordering::Release);
        }
    }

    /// The command is queued: the program gets its event.
    #[inline]
    pub fn give(self) {
        if let Some(e) = self.event {
            // SAFETY: the program's place for one handle.
            unsafe { self.place.write(e.give()) };
        }
    }
}

/// The ids of a wait list. Events that are known to be complete are left out.
///
/// # Safety
/// The program's list.
#[inline]
pub unsafe fn waits(context: &Object<Context>, n: u32, list: *const Handle) -> Result<Vec<u32>> {
    if (n == 0) != list.is_null() {
        return Err(CL_INVALID_EVENT_WAIT_LIST);
    }
    if n == 0 {
        return Ok(Vec::new());
    }
    let mut ids = Vec::with_capacity(n as usize);
    // SAFETY: passed on to the caller.
    for h in unsafe { entry::list(n, list) } {
        // SAFETY: the program's handle.
        let e = unsafe { get::<Event>(*h) }.map_err(|_| CL_INVALID_EVENT_WAIT_LIST)?;
        if !std::ptr::eq(&*e.context, context) {
            return Err(CL_INVALID_CONTEXT);
        }
        if e.state.load(Ordering::Acquire) != CL_COMPLETE {
            ids.push(e.id);
        }
    }
    Ok(ids)
}

fn refresh(e: &Object<Event>) -> Result<i32> {
    let known = e.state.load(Ordering::Acquire);
    if known <= CL_COMPLETE || e.queue.is_none() {
        return Ok(known);
    }
    let body = e.server.call(&wire::EventStatus { event: e.id })?;
    let status = decode::<wire::EventStatusReply>(&body)?.status;
    e.state.store(status, Ordering::Release);
    Ok(status)
}

/// `clWaitForEvents`.
pub unsafe extern "C" fn wait_for_events(n: u32, list: *const Handle) -> i32 {
    entry::status(|| {
        if n == 0 || list.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: the program's list.
        let list = unsafe { entry::list(n, list) };
        let events = list
            .iter()
            // SAFETY: the program's handles.
            .map(|h| unsafe { get::<Event>(*h) })
            .collect::<Result<Vec<_>>>()?;
        let first = events[0];
        if events
            .iter()
            .any(|e| !Arc::ptr_eq(&e.context, &first.context))
        {
            return Err(CL_INVALID_CONTEXT);
        }
        let state = |e: &Object<Event>| e.state.load(Ordering::Acquire);
        let mut open = Vec::new();
        for e in events.iter().filter(|e| state(e) > CL_COMPLETE) {
            open.push(e.id);
        }
        if !open.is_empty() {
            let done = first.server.call(&wire::WaitForEvents { events: open });
            match done {
                // Complete user events too: they were set, or the wait would go on.
                Ok(_) => events
                    .iter()
                    .filter(|e| state(e) > CL_COMPLETE)
                    .for_each(|e| e.state.store(CL_COMPLETE, Ordering::Release)),
                Err(e) => return Err(e),
            }
        }
        match events.iter().any(|e| state(e) < 0) {
            true => Err(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
            false => Ok(()),
        }
    })
}

/// `clGetEventInfo`.
pub unsafe extern "C" fn get_event_info(
    event: Handle,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let e = unsafe { get::<Event>(event)? };
        let bytes = match param {
            CL_EVENT_COMMAND_QUEUE => e
                .queue
                .as_ref()
                .map_or(std::ptr::null_mut(), |q| q.handle())
                .plain(),
            CL_EVENT_CONTEXT => e.context.handle().plain(),
            CL_EVENT_COMMAND_TYPE => e.command.plain(),
            CL_EVENT_REFERENCE_COUNT => e.count().plain(),
            CL_EVENT_COMMAND_EXECUTION_STATUS => refresh(e)?.plain(),
            _ => return Err(CL_INVALID_VALUE),
        };
        // SAFETY: the program's memory, as it says.
        unsafe { entry::answer(&bytes, size, value, ret) }
    })
}

/// `clGetEventProfilingInfo`.
pub unsafe extern "C" fn get_event_profiling_info(
    event: Handle,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let e = unsafe { get::<Event>(event)? };
        let profiled = e.queue.as_ref().is_some_and(|q| q.profiling());
        if !profiled {
            return Err(CL_PROFILING_INFO_NOT_AVAILABLE);
        }
        let which = match param {
            CL_PROFILING_COMMAND_QUEUED => 0,
            CL_PROFILING_COMMAND_SUBMIT => 1,
            CL_PROFILING_COMMAND_START => 2,
            CL_PROFILING_COMMAND_END => 3,
            CL_PROFILING_COMMAND_COMPLETE => 4,
            _ => return Err(CL_INVALID_VALUE),
        };
        let times = match e.times.get() {
            Some(t) => t,
            None => {
                let body = e.server.call(&wire::EventProfile { event: e.id })?;
                let reply: wire::EventProfileReply = decode(&body)?;
                e.state.store(reply.status, Ordering::Release);
                if reply.status != CL_COMPLETE {
                    return Err(CL_PROFILING_INFO_NOT_AVAILABLE);
                }
                e.times.get_or_init(|| reply.times)
            }
        };
        // SAFETY: the program's memory, as it says.
        unsafe { entry::answer(&times[which].plain(), size, value, ret) }
    })
}

/// `clRetainEvent`.
pub unsafe extern "C" fn retain_event(event: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe { object::retain::<Event>(event) })
}

/// `clReleaseEvent`.
pub unsafe extern "C" fn release_event(event: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe { object::release::<Event>(event) })
}

/// `clCreateUserEvent`.
pub unsafe extern "C" fn create_user_event(context: Handle, code: *mut i32) -> Handle {
    let make = || {
        // SAFETY: the program's handle.
        let c = unsafe { get::<Context>(context)? };
        let id = c.server.id();
        c.server.queue(&wire::CreateUserEvent {
            event: id,
            context: c.id,
        })?;
        let event = Event {
            context: c.keep(),
            queue: None,
            command: CL_COMMAND_USER,
            state: AtomicI32::new(CL_SUBMITTED),
            times: OnceLock::new(),
            set: AtomicBool::new(false),
        };
        Ok(Object::new(c.server, id, event).give())
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clSetUserEventStatus`.
pub unsafe extern "C" fn set_user_event_status(event: Handle, status: i32) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let e = unsafe { get::<Event>(event)? };
        if e.queue.is_some() {
            return Err(CL_INVALID_EVENT);
        }
        if status > CL_COMPLETE {
            return Err(CL_INVALID_VALUE);
        }
        if e.set.swap(true, Ordering::AcqRel) {
            return Err(CL_INVALID_OPERATION);
        }
        e.state.store(status, Ordering::Release);
        e.server.queue(&wire::SetUserEventStatus {
            event: e.id,
            status,
        })?;
        e.server.session.flush();
        Ok(())
    })
}

type Callback = unsafe extern "C" fn(Handle, i32, Handle);

/// `clSetEventCallback`.
pub unsafe extern "C" fn set_event_callback(
    event: Handle,
    trigger: i32,
    f: Option<Callback>,
    user: Handle,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let e = unsafe { get::<Event>(event)? };
        let f = f.ok_or(CL_INVALID_VALUE)?;
        if !(CL_COMPLETE..=CL_SUBMITTED).contains(&trigger) {
            return Err(CL_INVALID_VALUE);
        }
        let kept = e.keep();
        let user = User(user);
        let due = Box::new(move |status: i32| {
            if status <= CL_COMPLETE {
                kept.state.store(status, Ordering::Release);
            }
            // A callback for an earlier state gets that state, unless the command failed.
            let told = if status < 0 { status } else { trigger };
            // SAFETY: the program's function with what it asked for; the event is kept alive.
            unsafe { f(kept.handle(), told, user.get()) };
        });
        let token = lock(&e.server.hub.waiting).add(due);
        e.server.queue(&wire::EventCallback {
            event: e.id,
            trigger,
            token,
        })?;
        e.server.session.flush();
        Ok(())
    })
}
