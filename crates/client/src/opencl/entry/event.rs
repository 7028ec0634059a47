//! Events: waiting, states, times and callbacks.

use super::prelude::*;
use crate::opencl::engine::command::{hear_of, wait_for};
use crate::opencl::state::event::Mark;

/// `clWaitForEvents`.
pub fn clWaitForEvents(_: &Client, list: Handles<'_>) -> Result<()> {
    let events = list.some::<Event>()?;
    let first = events[0];
    if events.iter().any(|e| !e.context.is(&first.context)) {
        return Err(CL_INVALID_CONTEXT);
    }
    let open = |e: &&&Object<Event>| !e.mark.ended() && !e.mark.is_believed();
    let mut open: Vec<_> = events.iter().filter(open).map(|e| e.keep()).collect();
    if !open.iter().all(|e| e.mark.is_unseen()) {
        hear_of(first.server, &open);
        open.retain(|e| !e.mark.ended());
        if !open.is_empty() {
            wait_for(first.server, &open)?;
        }
    } else if !open.is_empty() {
        first.server.wait_for_borrowed()?;
        first.server.session.flush();
        open.iter().for_each(|e| e.mark.believe());
    }
    match events.iter().any(|e| e.mark.state() < 0) {
        true => Err(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
        false => Ok(()),
    }
}

/// How far an event has come, as far as the program may know.
fn status(e: &Object<Event>) -> Result<i32> {
    if e.mark.ended() || e.queue.is_none() {
        return Ok(e.mark.state());
    }
    if e.mark.is_believed() {
        return Ok(CL_COMPLETE);
    }
    let reply = e.server.reply_to(&wire::EventStatus { event: e.id })?;
    e.mark.told(reply.status);
    Ok(e.mark.state())
}

/// `clGetEventInfo`.
pub fn clGetEventInfo(e: &Object<Event>, param: u32, to: Answer) -> Result<()> {
    to.give(&match param {
        CL_EVENT_COMMAND_QUEUE => {
            let queue = e.queue.as_ref().map(|q| q.handle());
            queue.unwrap_or(std::ptr::null_mut()).plain()
        }
        CL_EVENT_CONTEXT => e.context.handle().plain(),
        CL_EVENT_COMMAND_TYPE => e.command.plain(),
        CL_EVENT_REFERENCE_COUNT => e.count().plain(),
        CL_EVENT_COMMAND_EXECUTION_STATUS => status(e)?.plain(),
        _ => return Err(CL_INVALID_VALUE),
    })
}

/// The times of an event's command.
fn times(e: &Object<Event>) -> Result<&[u64; 5]> {
    if let Some(t) = e.mark.times() {
        return Ok(t);
    }
    if e.mark.is_believed() {
        wait_for(e.server, &[e.keep()])?;
    }
    // From now on, waits bring times along.
    e.server.profiles.store(true, Ordering::Relaxed);
    let reply = e.server.reply_to(&wire::EventProfile { event: e.id })?;
    e.mark.told(reply.status);
    match reply.status {
        CL_COMPLETE => Ok(e.mark.timed(reply.times)),
        _ => Err(CL_PROFILING_INFO_NOT_AVAILABLE),
    }
}

/// `clGetEventProfilingInfo`.
pub fn clGetEventProfilingInfo(e: &Object<Event>, param: u32, to: Answer) -> Result<()> {
    refuse_if(!e.profiled(), CL_PROFILING_INFO_NOT_AVAILABLE)?;
    let which = match param {
        CL_PROFILING_COMMAND_QUEUED => 0,
        CL_PROFILING_COMMAND_SUBMIT => 1,
        CL_PROFILING_COMMAND_START => 2,
        CL_PROFILING_COMMAND_END => 3,
        CL_PROFILING_COMMAND_COMPLETE => 4,
        _ => return Err(CL_INVALID_VALUE),
    };
    to.give(&times(e)?[which].plain())
}

/// `clCreateUserEvent`.
pub fn clCreateUserEvent(c: &Object<Context>) -> Result<Handle> {
    let id = c.server.id();
    c.server.queue(&wire::CreateUserEvent {
        event: id,
        context: c.id,
    })?;
    let event = Event {
        context: c.keep(),
        queue: None,
        command: CL_COMMAND_USER,
        mark: Arc::new(Mark::new(CL_SUBMITTED)),
    };
    Ok(Object::new(c.server, id, event).give())
}

/// `clSetUserEventStatus`.
pub fn clSetUserEventStatus(e: &Object<Event>, status: i32) -> Result<()> {
    refuse_if(e.queue.is_some(), CL_INVALID_EVENT)?;
    refuse_if(status > CL_COMPLETE, CL_INVALID_VALUE)?;
    refuse_if(!e.mark.set(status), CL_INVALID_OPERATION)?;
    let event = e.id;
    e.server
        .queue_now(&wire::SetUserEventStatus { event, status })
}

/// `clSetEventCallback`.
pub fn clSetEventCallback(
    e: &Object<Event>,
    trigger: i32,
    f: Option<OfEvent>,
    user: User,
) -> Result<()> {
    let f = f.ok_or(CL_INVALID_VALUE)?;
    if !(CL_COMPLETE..=CL_SUBMITTED).contains(&trigger) {
        return Err(CL_INVALID_VALUE);
    }
    let kept = e.keep();
    let due = Box::new(move |status: i32| {
        if status <= CL_COMPLETE {
            kept.mark.told(status);
        }
        // A callback for an earlier state gets that state, unless the command failed.
        let told = if status < 0 { status } else { trigger };
        // SAFETY: the program's function with what it asked for; the event is kept alive.
        unsafe { f(kept.handle(), told, user.get()) };
    });
    e.server.when(e.id, trigger, due)?;
    e.server.session.flush();
    Ok(())
}
