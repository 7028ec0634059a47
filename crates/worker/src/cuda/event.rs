//! Events.

use super::done::{Job, Then, reply};
use super::prelude::*;
use super::times::Asked;
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
        rc => {
            let event = w.handle(Kind::Event, m.h_event).unwrap_or(0);
            if rc == CUDA_SUCCESS {
                // What kernels have printed the driver only says at a call that waits.
                // SAFETY: a live event, which has happened.
                unsafe { w.cuEventSynchronize(event as CUevent) };
            }
            let probe = w.completer.probe();
            probe.waited();
            probe.times.at(event);
            w.completer.now(rc, reply(call));
        }
    }
    Ok(Answered)
}

pub fn cu_event_destroy_v2(w: &mut Cuda, m: msg::CuEventDestroyV2) -> Result {
    let event = w.handle(Kind::Event, m.h_event)?;
    w.completer.probe().times.forget(event);
    // SAFETY: a live event, which nothing here asks any more.
    check(unsafe { w.cuEventDestroy_v2(event as CUevent) })
}

pub fn time_between(w: &mut Cuda, m: msg::TimeBetween) -> Result<Answered, Behind> {
    let start = w.handle(Kind::Event, m.start)?;
    let stop = w.handle(Kind::Event, m.stop)?;
    w.stream(m.stream)?;
    let (stream, context) = w.here(m.stream);
    let call = w.record.call;
    let asked = Asked {
        start,
        stop,
        context,
    };
    let times = w.completer.probe().times.clone();
    times.ask(call, asked);
    let then = move |rc| times.over(call, rc);
    w.completer
        .after(stream, context, Then::Run(Box::new(then)));
    Ok(Answered)
}

pub fn reached(w: &mut Cuda, m: msg::Reached) -> Result<Answered, Behind> {
    w.stream(m.stream)?;
    let (stream, ctx) = w.here(m.stream);
    w.completer.after(stream, ctx, reply(w.record.call));
    Ok(Answered)
}
