//! Recording events so that the worker tells when they have happened.
//!
//! That word travels with the answers, in the order in which things came to pass: whoever has
//! waited for an event, or for work behind it, finds that it has happened.

use super::prelude::*;
use crate::cuda::engine::stream;
use crate::cuda::state::events::{Behind, Known};
use busbar_channel::switches::Switch;
use busbar_wire::generated::cuda::op;

/// Records an event, by `send`. The worker tells of all that is before it: whoever has waited for
/// the event itself, with another stream perhaps, has that word.
pub fn record(cx: Cx, id: u32, on: u32, send: impl FnOnce() -> Result<()>) -> Result<()> {
    let state = cx.state();
    state.events.leaves(id);
    let mark = state.shadows.mark();
    queue(cx, id, on, send)?;
    if state.events.times_are_asked() && is_watchable(cx) {
        measure(cx, id, on)?;
    }
    state.events.queued(id, || cx.queued());
    // A capture makes nodes of records, which happen when its graph runs.
    if state.shadows.active() && !state.captures.any() {
        let (scope, stream) = (stream::context_of(cx, on)?, on);
        let what = Behind {
            scope,
            stream,
            mark,
        };
        state.events.comes_behind(id, what);
    }
    Ok(())
}

/// An event has happened that was known to be behind this before it was asked about.
pub fn happened(cx: Cx, id: u32, before: Option<Behind>) {
    match before.filter(|_| cx.state().events.is_behind(id) == before) {
        Some(b) => cx.waited(b.scope, Some(b.stream), b.mark),
        // Whose work that was is not known here.
        None => cx.waited(0, None, 0),
    }
}

/// Whether the worker can tell of a record that is made now.
fn is_watchable(cx: Cx) -> bool {
    Switch::Idle.on() && !cx.state().captures.any()
}

/// Has the worker tell the time since the event that was recorded in this stream before: who has
/// waited for both will ask.
fn measure(cx: Cx, stop: u32, on: u32) -> Result<()> {
    let events = &cx.state().events;
    let of = (stream::context_of(cx, on)?, on);
    let Some((start, record)) = events.measures(stop, of) else {
        return Ok(());
    };
    let told = move |a: Option<crate::calls::Answer>| {
        let a = a.filter(|a| a.status == CUDA_SUCCESS);
        let time = a.and_then(|a| decode::<msg::TimeBetweenReply>(&a.body).ok());
        events.measured(stop, record, time.map(|t| t.ms));
    };
    let m = msg::TimeBetween {
        start,
        stop,
        stream: on,
    };
    // SAFETY: no bytes come with that answer.
    let asked = unsafe { cx.client.session.call_async(cx.scope, &m, None, told) };
    asked.map_err(|_| {
        events.measured(stop, record, None);
        CUDA_ERROR_DEVICE_UNAVAILABLE
    })
}

/// The time between two events, if the worker has told it, or tells it at once.
pub fn time_between(cx: Cx, start: u32, stop: u32) -> Option<f32> {
    let state = cx.state();
    let time = || state.events.time(start, stop);
    if time().is_none() && state.events.have_happened([start, stop]) {
        let hearing = state.events.hearing(|| time().is_some());
        cx.await_word(op::CU_EVENT_ELAPSED_TIME, hearing);
    }
    let time = time().flatten();
    // A failure is for the worker to tell.
    time.filter(|_| is_watchable(cx) && !state.contexts.has_deferred(cx.scope))
}

fn queue(cx: Cx, id: u32, on: u32, send: impl FnOnce() -> Result<()>) -> Result<()> {
    let state = cx.state();
    let watchable = || is_watchable(cx);
    let Some(number) = state.events.recording(id, watchable) else {
        let sent = send();
        state.events.recorded(id);
        return sent;
    };
    // What went wrong the worker tells when it is asked.
    let told = move |a: Option<crate::calls::Answer>| {
        let happened = a.is_some_and(|a| a.status == CUDA_SUCCESS);
        let known = if happened {
            Known::Happened
        } else {
            Known::Unknown
        };
        state.events.told(id, number, known);
    };
    let m = msg::Reached { stream: on };
    // SAFETY: no bytes come with that answer.
    let asked = unsafe { cx.client.session.call_async(cx.scope, &m, None, told) };
    let recorded = match asked {
        Ok(()) => send(),
        Err(_) => Err(CUDA_ERROR_DEVICE_UNAVAILABLE),
    };
    recorded.inspect_err(|_| state.events.told(id, number, Known::Unknown))
}

/// What is known here of an event's latest record, which the program wants to know.
pub fn known(cx: Cx, id: u32) -> (Known, u64) {
    let state = cx.state();
    let (known, record) = state.events.asked(id);
    // A failure is for the worker to tell, and what a capture forbids.
    let told = state.contexts.has_deferred(cx.scope) || state.captures.any();
    let sends = state.shadows.active() && state.shadows.streams_wait();
    let ask = told || sends || !Switch::Idle.on();
    (if ask { Known::Unknown } else { known }, record)
}

/// Waits for an event of which the worker tells by itself, and not behind what has been queued
/// since its record. False where the worker must be asked.
pub fn wait(cx: Cx, id: u32) -> bool {
    let state = cx.state();
    // What kernels have printed comes with a call that waits.
    if state.output.expected() || !state.events.is_waited_for(id, cx.queued()) {
        return false;
    }
    let before = state.events.is_behind(id);
    let happened = match known(cx, id) {
        (Known::Unknown, _) => false,
        (Known::Happened, _) => true,
        (Known::Awaited, record) => {
            let happened = || state.events.has_happened(id, record);
            let hearing = state.events.hearing(|| happened().is_some());
            cx.await_word(op::CU_EVENT_SYNCHRONIZE, hearing);
            happened() == Some(true)
        }
    };
    // What went wrong meanwhile is for the worker to tell.
    let happened = happened && !state.contexts.has_deferred(cx.scope);
    if happened {
        self::happened(cx, id, before);
    }
    happened
}
