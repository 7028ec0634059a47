//! Events: recording them, and asking whether they have happened.

use super::prelude::*;
use crate::cuda::engine::{event, stream};
use crate::cuda::state::events::Known;
use busbar_wire::codec::Request;

/// Blocking synchronization, no timing, between processes.
const FLAGS: u32 = 7;
const NO_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

/// Sends the record of an event. In a stream of another context the driver may refuse it, and a
/// process that is told of it next may ask at once.
fn send<'a, R: Request<'a>>(cx: Cx, event: u32, stream: u32, record: &R) -> Result<()> {
    let of = cx.state().handles.context(Kind::Event, event);
    if of == stream::context_of(cx, stream)? && !cx.state().events.is_abroad(event) {
        cx.send(record)
    } else {
        cx.call(record).map(drop)
    }
}

pub fn cuEventRecord(cx: Cx, h_event: u32, h_stream: u32) -> Result<()> {
    event::record(cx, h_event, h_stream, || {
        let m = msg::CuEventRecord { h_event, h_stream };
        send(cx, h_event, h_stream, &m)
    })
}

pub fn cuEventRecordWithFlags(cx: Cx, h_event: u32, h_stream: u32, flags: u32) -> Result<()> {
    if flags != CU_EVENT_RECORD_DEFAULT {
        // It becomes a node of a graph.
        cx.state().events.recorded_unseen();
    }
    event::record(cx, h_event, h_stream, || {
        let m = msg::CuEventRecordWithFlags {
            h_event,
            h_stream,
            flags,
        };
        send(cx, h_event, h_stream, &m)
    })
}

pub fn cuEventQuery(cx: Cx, h_event: u32) -> Result<()> {
    let (known, record) = event::known(cx, h_event);
    match known {
        Known::Happened => {
            cx.hears();
            return Ok(());
        }
        Known::Awaited => {
            cx.client.session.flush();
            // Who asks in a loop must not keep the word from being received; but a processor
            // that is given up may be away for long.
            if cx.state().events.too_early() {
                std::thread::yield_now();
            }
            return Err(CUDA_ERROR_NOT_READY);
        }
        Known::Unknown => {}
    }
    cx.about_to_wait()?;
    let before = cx.state().events.is_behind(h_event);
    let asked = cx.call(&msg::CuEventQuery { h_event });
    if let Ok(_) | Err(CUDA_ERROR_NOT_READY) = asked {
        cx.must_be_safe()?;
    }
    asked?;
    let events = &cx.state().events;
    events.heard(h_event, record, Known::Happened);
    event::happened(cx, h_event, before);
    Ok(())
}

pub fn cuEventSynchronize(cx: Cx, h_event: u32) -> Result<()> {
    cx.about_to_wait()?;
    if cx.state().captures.any()
        && let Err(e) = cuEventQuery(cx, h_event)
        && e != CUDA_ERROR_NOT_READY
    {
        return Err(e);
    }
    if event::wait(cx, h_event) {
        return Ok(());
    }
    let before = cx.state().events.is_behind(h_event);
    // Where no context is current, the driver waits in the event's.
    let there = match cx.scope {
        0 => cx.in_context(cx.state().handles.context(Kind::Event, h_event)),
        _ => cx,
    };
    there.call(&msg::CuEventSynchronize { h_event })?;
    event::happened(cx, h_event, before);
    Ok(())
}

pub fn cuEventElapsedTime(cx: Cx, h_start: u32, h_end: u32) -> Result<f32> {
    if let Some(ms) = event::time_between(cx, h_start, h_end) {
        return Ok(ms);
    }
    let question = msg::CuEventElapsedTime { h_start, h_end };
    let mut time = cx.reply_to(&question);
    if let Err(CUDA_ERROR_NOT_READY) = time
        && cx.state().events.have_happened([h_start, h_end])
    {
        // The program knows of both. The worker tells of what is before a record: that itself
        // follows within microseconds.
        for h_event in [h_start, h_end] {
            cx.call(&msg::CuEventSynchronize { h_event })?;
        }
        time = cx.reply_to(&question);
    }
    Ok(time?.p_milliseconds)
}

pub fn cuEventCreate(cx: Cx, flags: u32) -> Result<u32> {
    let timed_abroad = flags & (INTERPROCESS | NO_TIMING) == INTERPROCESS;
    refuse_if(flags & !FLAGS != 0, CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(timed_abroad, CUDA_ERROR_INVALID_VALUE)?;
    let id = cx.create(Kind::Event);
    cx.send(&msg::CuEventCreate {
        ph_event: id,
        flags,
    })
    .inspect_err(|_| cx.destroy(Kind::Event, id))?;
    if flags & INTERPROCESS == 0 {
        cx.state().events.add(id, flags & NO_TIMING == 0);
    }
    Ok(id)
}
