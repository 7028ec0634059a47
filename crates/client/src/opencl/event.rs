//! Events: waiting, states, times and callbacks.

use super::callbacks::User;
use super::context::Context;
use super::entry::{self, Plain, Result};
use super::object::{self, Body, Object, get};
use super::queue::Queue;
use super::server::{Server, decode, lock};
use busbar_abi::opencl::*;
use busbar_wire::generated::opencl as wire;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
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
    /// What its queue numbered its command.
    number: AtomicU64,
    /// It is of a write whose end nothing can tell of but the event, in a queue that was idle.
    unseen: AtomicBool,
    /// The program was told that it is complete, which is not known.
    believed: AtomicBool,
}

impl Body for Event {
    const MAGIC: u32 = 0x6273_7005;
    const INVALID: i32 = CL_INVALID_EVENT;
}

impl Event {
    fn new(context: Arc<Object<Context>>, command: u32, state: i32) -> Self {
        Self {
            context,
            queue: None,
            command,
            state: AtomicI32::new(state),
            times: OnceLock::new(),
            set: AtomicBool::new(false),
            number: AtomicU64::new(0),
            unseen: AtomicBool::new(false),
            believed: AtomicBool::new(false),
        }
    }
}

/// A command that is being queued, and the event that it gives back if the program wants it.
pub struct Out<'q> {
    queue: &'q Object<Queue>,
    event: Option<Arc<Object<Event>>>,
    place: *mut Handle,
    /// Nothing will be able to tell when it ends, or it has ended.
    unseen: bool,
}

impl<'q> Out<'q> {
    /// A command of `q`, with an event when `place` is not null.
    #[inline]
    pub fn new(q: &'q Object<Queue>, command: u32, place: *mut Handle) -> Self {
        let event = (!place.is_null()).then(|| {
            let mut event = Event::new(q.context.clone(), command, CL_QUEUED);
            event.queue = Some(q.keep());
            Object::new(q.server, q.server.id(), event)
        });
        Self {
            queue: q,
            event,
            place,
            unseen: false,
        }
    }

    /// Its event's id; 0 for none.
    #[inline]
    pub fn id(&self) -> u32 {
        self.event.as_ref().map_or(0, |e| e.id)
    }

    /// The command is known to have run.
    pub fn complete(&mut self) {
        if std::mem::replace(&mut self.unseen, true) {
            return;
        }
        if let Some(e) = &self.event {
            e.state.store(CL_COMPLETE, Ordering::Release);
        }
    }

    /// Nothing but the event can tell when the command runs; the program may have waited for it.
    pub fn unseen(&mut self, waited: bool) {
        self.unseen = true;
        self.queue.called_early();
        if let Some(e) = &self.event {
            e.unseen.store(true, Ordering::Release);
            e.believed.store(waited, Ordering::Release);
        }
    }

    /// The command is queued: the program gets its event.
    #[inline]
    pub fn give(mut self) {
        if let Some(e) = self.event.take() {
            if !std::mem::replace(&mut self.unseen, true) {
                e.number.store(self.queue.note(), Ordering::Release);
            }
            let server = self.queue.server;
            if self.queue.profiling() && server.profiles.load(Ordering::Relaxed) {
                self.queue.expect_times(&e);
            }
            // SAFETY: the program's place for one handle.
            unsafe { self.place.write(e.give()) };
        }
    }
}

impl Drop for Out<'_> {
    /// After the command was queued, or could not be: who asks whether the queue is quiet must not
    /// think of it as ended because of a wait that it came too late for.
    #[inline]
    fn drop(&mut self) {
        if !self.unseen {
            self.queue.note();
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
    if e.believed.load(Ordering::Acquire) {
        return Ok(CL_COMPLETE);
    }
    let body = e.server.call(&wire::EventStatus { event: e.id })?;
    let status = decode::<wire::EventStatusReply>(&body)?.status;
    e.state.store(status, Ordering::Release);
    Ok(status)
}

/// Waits until events have come to their end.
fn wait(server: &Server, open: &[Arc<Object<Event>>]) -> Result<()> {
    let timed = |e: &&Arc<Object<Event>>| e.queue.as_ref().is_some_and(|q| q.profiling());
    let profile = match server.profiles.load(Ordering::Relaxed) {
        true => open.iter().filter(timed).map(|e| e.id).collect(),
        false => Vec::new(),
    };
    let body = server.call(&wire::WaitForEvents {
        events: open.iter().map(|e| e.id).collect(),
        profile,
    })?;
    for e in open {
        // Complete user events too: they were set, or the wait would go on.
        if e.state.load(Ordering::Acquire) > CL_COMPLETE {
            e.state.store(CL_COMPLETE, Ordering::Release);
        }
        if let Some(q) = e.queue.as_ref().filter(|q| q.in_order()) {
            q.reached(e.number.load(Ordering::Acquire));
        }
    }
    take_times(open, &body)
}

/// Keeps the times that came with an answer.
pub fn take_times(events: &[Arc<Object<Event>>], body: &[u8]) -> Result<()> {
    if body.is_empty() {
        return Ok(());
    }
    let reply: wire::FinishReply = decode(body)?;
    for (id, times) in reply.timed.iter().zip(reply.times.chunks_exact(5)) {
        let (Some(e), Some(times)) = (events.iter().find(|e| e.id == *id), times.first_chunk())
        else {
            continue;
        };
        e.times.get_or_init(|| *times);
        e.state.store(CL_COMPLETE, Ordering::Release);
    }
    Ok(())
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
        let told = |e: &Object<Event>| e.believed.load(Ordering::Acquire);
        for e in events.iter().filter(|e| state(e) > CL_COMPLETE && !told(e)) {
            open.push(e.keep());
        }
        if open.iter().all(|e| e.unseen.load(Ordering::Acquire)) {
            if !open.is_empty() {
                first.server.settle()?;
                first.server.session.flush();
            }
            open.iter()
                .for_each(|e| e.believed.store(true, Ordering::Release));
        } else {
            wait(first.server, &open)?;
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
                if e.believed.load(Ordering::Acquire) {
                    wait(e.server, &[e.keep()])?;
                }
                // From now on, waits bring times along.
                e.server.profiles.store(true, Ordering::Relaxed);
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
        let event = Event::new(c.keep(), CL_COMMAND_USER, CL_SUBMITTED);
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
        let token = lock(&e.server.hub.waiting).once(due);
        e.server.queue(&wire::EventCallback {
            event: e.id,
            trigger,
            token,
        })?;
        e.server.session.flush();
        Ok(())
    })
}
