//! Events.

use super::Cuda;
use super::done::{Job, reply};
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::record::Header;

fn query(w: &mut Cuda, event: u32) -> CUresult {
    match w.handle(Kind::Event, event) {
        // SAFETY: a live event.
        Ok(e) => unsafe { w.driver.cuEventQuery(e as CUevent) },
        Err(e) => e,
    }
}

pub(super) fn cu_event_query(
    w: &mut Cuda,
    h: &Header,
    m: msg::CuEventQuery,
) -> Result<(), WireError> {
    let rc = query(w, m.h_event);
    w.completer.now(rc, reply(h.call));
    Ok(())
}

pub(super) fn cu_event_synchronize(
    w: &mut Cuda,
    h: &Header,
    m: msg::CuEventSynchronize,
) -> Result<(), WireError> {
    // Most events that are waited for have happened: no need to trouble a thread.
    match query(w, m.h_event) {
        CUDA_ERROR_NOT_READY => {
            let event = w.handle(Kind::Event, m.h_event).unwrap_or(0);
            let ctx = w.handle(Kind::Context, h.aux).unwrap_or(0);
            w.completer.answer_after(Job::Event(ctx, event, h.call));
        }
        rc => w.completer.now(rc, reply(h.call)),
    }
    Ok(())
}

pub(super) fn reached(w: &mut Cuda, h: &Header, m: msg::Reached) -> Result<(), WireError> {
    let then = reply(h.call);
    match w.stream(m.stream) {
        Ok(_) => {
            let (stream, ctx) = w.here(h, m.stream);
            w.completer.after(stream, ctx, then);
        }
        Err(e) => w.completer.now(e, then),
    }
    Ok(())
}
