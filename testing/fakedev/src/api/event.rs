//! The functions on events.

use crate::engine::submit::{resolve, submit_to};
use crate::entry::api;
use crate::ffi::*;
use crate::state::event::{EVENTS, Event, Record};
use crate::state::stream::Flavour;
use crate::state::work::Work;
use crate::state::{capture, context};
use std::sync::Arc;

const KNOWN_FLAGS: u32 = 7;
const EXTERNAL: u32 = 1;

/// The recording to wait for; None if nothing was recorded yet.
fn pending(event: &Event) -> R<Option<Arc<Record>>> {
    if let Some((id, _)) = event.captured() {
        capture::invalidate(id);
        return Err(CAPTURED_EVENT);
    }
    Ok(event.recorded())
}

fn record(event: CUevent, stream: CUstream, flags: u32, flavour: Flavour) -> Res {
    let event = EVENTS.get(event)?;
    let (stream, context) = resolve(stream, flavour)?;
    if flags & !EXTERNAL != 0 {
        return Err(INVALID_VALUE);
    }
    if event.context != context.handle {
        return Err(INVALID_HANDLE);
    }
    if let Some(capture) = capture::of(&stream)? {
        if flags & EXTERNAL != 0 {
            return capture.add(&stream, Work::RecordNode(event));
        }
        let nodes = capture.frontier(&stream);
        event.capture(capture.id, nodes);
        return Ok(());
    }
    if flags & EXTERNAL != 0 {
        return Err(ILLEGAL_STATE);
    }
    let record = event.arm();
    submit_to(&stream, &context, Work::Record(record.clone()))
        // Nobody may wait for what will not come.
        .inspect_err(|_| record.complete())
}

/// `CUipcEventHandle`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcEventHandle {
    bytes: [u8; 64],
}

const OF_EVENT: &[u8] = b"fakedev-event";
const DISABLE_TIMING: u32 = 2;

fn elapsed(out: *mut f32, start: CUevent, end: CUevent) -> Res {
    let time = |event: CUevent| {
        let event = EVENTS.get(event)?;
        if !event.keeps_time() {
            return Err(INVALID_HANDLE);
        }
        pending(&event)?
            .ok_or(INVALID_HANDLE)?
            .time()
            .ok_or(NOT_READY)
    };
    let (start, end) = (time(start)?, time(end)?);
    let ms = if end >= start {
        (end - start).as_secs_f32() * 1e3
    } else {
        (start - end).as_secs_f32() * -1e3
    };
    // SAFETY: the caller's pointer is null or valid, as its header says.
    unsafe { put(out, ms) }
}

api! {
    fn [cuEventCreate] (out: *mut CUevent, flags: u32) {
        let context = context::current()?;
        // An event for other processes must not keep time; those are not simulated at all.
        if out.is_null() || flags & !KNOWN_FLAGS != 0 || flags & 6 == 4 {
            return Err(INVALID_VALUE);
        }
        put(out, Event::create(flags, context.handle).handle)
    }

    fn [cuIpcGetEventHandle] (out: *mut IpcEventHandle, event: CUevent) {
        let event = EVENTS.get(event)?;
        let mut handle = IpcEventHandle { bytes: [0; 64] };
        handle.bytes[..OF_EVENT.len()].copy_from_slice(OF_EVENT);
        handle.bytes[56..].copy_from_slice(&event.handle.to_le_bytes());
        put(out, handle)
    }

    // Nothing is known of the other process's event: this one is recorded by nobody else.
    fn [cuIpcOpenEventHandle] (out: *mut CUevent, handle: IpcEventHandle) {
        let context = context::current()?;
        if out.is_null() || !handle.bytes.starts_with(OF_EVENT) {
            return Err(INVALID_VALUE);
        }
        put(out, Event::create(DISABLE_TIMING, context.handle).handle)
    }

    fn [cuEventDestroy_v2 cuEventDestroy] (event: CUevent) {
        EVENTS.remove(event).map(drop)
    }

    fn [cuEventRecord; cuEventRecord_ptsz] (event: CUevent, stream: CUstream) {
        record(event, stream, 0, FLAVOUR)
    }

    fn [cuEventRecordWithFlags; cuEventRecordWithFlags_ptsz] (
        event: CUevent, stream: CUstream, flags: u32,
    ) {
        record(event, stream, flags, FLAVOUR)
    }

    fn [cuEventQuery] (event: CUevent) {
        let event = EVENTS.get(event)?;
        context::by_handle(event.context)?.status()?;
        let record = pending(&event)?;
        capture::check_unsafe()?;
        match record {
            Some(record) if record.time().is_none() => Err(NOT_READY),
            _ => Ok(()),
        }
    }

    fn [cuEventSynchronize] (event: CUevent) {
        let event = EVENTS.get(event)?;
        let record = pending(&event)?;
        capture::check_unsafe()?;
        if let Some(record) = record {
            record.wait();
        }
        context::by_handle(event.context)?.status()
    }

    fn [cuEventElapsedTime cuEventElapsedTime_v2] (out: *mut f32, start: CUevent, end: CUevent) {
        elapsed(out, start, end)
    }

    fn [cuStreamWaitEvent; cuStreamWaitEvent_ptsz] (stream: CUstream, event: CUevent, flags: u32) {
        let (stream, context) = resolve(stream, FLAVOUR)?;
        let event = EVENTS.get(event)?;
        if flags & !EXTERNAL != 0 {
            return Err(INVALID_VALUE);
        }
        if let Some((id, nodes)) = event.captured().filter(|_| flags & EXTERNAL == 0) {
            return capture::by_id(id).ok_or(CAPTURED_EVENT)?.join(&stream, &nodes);
        }
        if let Some(capture) = capture::of(&stream)? {
            if flags & EXTERNAL != 0 {
                return capture.add(&stream, Work::WaitNode(event));
            }
            capture.invalidate();
            return Err(STREAM_CAPTURE_ISOLATION);
        }
        match pending(&event)? {
            Some(record) => submit_to(&stream, &context, Work::Wait(record)),
            None => Ok(()),
        }
    }

    fn [cuCtxRecordEvent] (context: CUcontext, event: CUevent) {
        let context = context::by_handle(context)?;
        let event = EVENTS.get(event)?;
        // All of the context's work so far: the legacy stream waits for most of it by itself.
        let (record, stream) = (event.arm(), context.legacy());
        for other in context.streams().into_iter().filter(|other| !other.blocking()) {
            let part = Arc::new(Record::default());
            submit_to(&other, &context, Work::Record(part.clone()))?;
            submit_to(&stream, &context, Work::Wait(part))?;
        }
        submit_to(&stream, &context, Work::Record(record))
    }

    fn [cuCtxWaitEvent] (context: CUcontext, event: CUevent) {
        let context = context::by_handle(context)?;
        let Some(record) = pending(&*EVENTS.get(event)?)? else { return Ok(()) };
        for stream in context.streams() {
            submit_to(&stream, &context, Work::Wait(record.clone()))?;
        }
        Ok(())
    }
}
