//! Events.

use super::done::{Job, reply};
use super::prelude::*;
use crate::answer::Behind;

fn query(w: &mut Cuda, event: u32) -> CUresult {
    match w.handle(Kind::Event, event) {
        // SAFETY: a live event.
        Ok(e) => unsafe { w.cuEventQuery(e as CUevent) },
        Err(e) => e,
    }
}

pub fn cu_event_query(w: &mut Cuda, m: msg::CuEventQuery) -> Result<Answered> {
    let rc = query(w, m.h_event);
    w.completer.now(rc, reply(w.record.call));
    Ok(Answered)
}

pub fn cu_event_synchronize(w: &mut Cuda, m: msg::CuEventSynchronize) -> Result<Answered> {
    let call = w.record.call;
    // Most events that are waited for have happened: no need to trouble a thread.
    match query(w, m.h_event) {
        CUDA_ERROR_NOT_READY => {
            let event = w.handle(Kind::Event, m.h_event).unwrap_or(0);
            let ctx = w.scope();
            w.completer.answer_after(Job::Event(ctx, event, call));
        }
        rc => w.completer.now(rc, reply(call)),
    }
    Ok(Answered)
}

pub fn reached(w: &mut Cuda, m: msg::Reached) -> Result<Answered, Behind> {
    w.stream(m.stream)?;
    let (stream, ctx) = w.here(m.stream);
    w.completer.after(stream, ctx, reply(w.record.call));
    Ok(Answered)
}
