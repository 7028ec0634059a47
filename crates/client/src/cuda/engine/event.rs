//! Recording events so that the worker tells when they have happened.
//!
//! That word travels with the answers, in the order in which things came to pass: whoever has
//! waited for an event, or for work behind it, finds that it has happened.

use super::prelude::*;
use crate::cuda::engine::stream;
use crate::cuda::state::events::{Behind, Known};
use busbar_channel::switches::Switch;

/// Records an event, by `send`. The worker tells of all that is before it: whoever has waited for
/// the event itself, with another stream perhaps, has that word.
pub fn record(cx: Cx, id: u32, on: u32, send: impl FnOnce() -> Result<()>) -> Result<()> {
    let state = cx.state();
    state.events.leaves(id);
    let mark = state.shadows.mark();
    queue(cx, id, on, send)?;
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

fn queue(cx: Cx, id: u32, on: u32, send: impl FnOnce() -> Result<()>) -> Result<()> {
    let state = cx.state();
    let watchable = || Switch::Idle.on() && !state.captures.any();
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
        state.events.heard(id, number, known);
    };
    let m = msg::Reached { stream: on };
    // SAFETY: no bytes come with that answer.
    let asked = unsafe { cx.client.session.call_async(cx.scope, &m, None, told) };
    let recorded = match asked {
        Ok(()) => send(),
        Err(_) => Err(CUDA_ERROR_DEVICE_UNAVAILABLE),
    };
    recorded.inspect_err(|_| state.events.heard(id, number, Known::Unknown))
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
