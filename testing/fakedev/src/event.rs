//! Events.

use crate::capture::{self, Capture};
use crate::context;
use crate::entry::{Flavour, api};
use crate::ffi::*;
use crate::handle::{self, Table};
use crate::stream;
use crate::work::Work;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

/// All events, by handle.
pub static EVENTS: Table<Event> = Table::new();

const DISABLE_TIMING: u32 = 2;
const KNOWN_FLAGS: u32 = 7;
const EXTERNAL: u32 = 1;

/// One recording of an event: a point in a stream's work.
#[derive(Default)]
pub struct Record {
    done: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Record {
    /// The stream has come to this point.
    pub fn complete(&self) {
        *self.done.lock().unwrap() = Some(Instant::now());
        self.changed.notify_all();
    }

    /// Waits until the stream has come to this point.
    pub fn wait(&self) {
        let done = self.done.lock().unwrap();
        drop(
            self.changed
                .wait_while(done, |done| done.is_none())
                .unwrap(),
        );
    }

    fn time(&self) -> Option<Instant> {
        *self.done.lock().unwrap()
    }
}

/// An event.
pub struct Event {
    /// Its handle.
    pub handle: usize,
    flags: u32,
    context: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    recorded: bool,
    latest: Arc<Record>,
    /// The capture, and the nodes that the event stands for in it.
    captured: Option<(Arc<Capture>, Vec<CUgraphNode>)>,
}

impl Event {
    /// What was recorded last.
    pub fn latest(&self) -> Arc<Record> {
        self.state.lock().unwrap().latest.clone()
    }

    /// Waits for what was recorded last, if anything was.
    pub fn wait(&self) {
        let recorded = {
            let state = self.state.lock().unwrap();
            state.recorded.then(|| state.latest.clone())
        };
        if let Some(record) = recorded {
            record.wait();
        }
    }

    /// Whether it tells when it happened.
    pub fn keeps_time(&self) -> bool {
        self.flags & DISABLE_TIMING == 0
    }

    /// Begins a new recording.
    pub fn arm(&self) -> Arc<Record> {
        let record = Arc::new(Record::default());
        let mut state = self.state.lock().unwrap();
        *state = State {
            recorded: true,
            latest: record.clone(),
            captured: None,
        };
        record
    }

    /// The recording to wait for; None if nothing was recorded yet.
    fn pending(&self) -> R<Option<Arc<Record>>> {
        let state = self.state.lock().unwrap();
        if let Some((capture, _)) = &state.captured {
            capture.invalidate();
            return Err(CAPTURED_EVENT);
        }
        Ok(state.recorded.then(|| state.latest.clone()))
    }
}

fn record(event: CUevent, stream: CUstream, flags: u32, flavour: Flavour) -> Res {
    let event = EVENTS.get(event)?;
    let (stream, context) = stream::resolve(stream, flavour)?;
    if flags & !EXTERNAL != 0 {
        return Err(INVALID_VALUE);
    }
    if let Some(capture) = capture::of(&stream)? {
        if flags & EXTERNAL != 0 {
            return capture.add(&stream, Work::RecordNode(event));
        }
        let nodes = capture.frontier(&stream);
        event.state.lock().unwrap().captured = Some((capture, nodes));
        return Ok(());
    }
    if flags & EXTERNAL != 0 {
        return Err(ILLEGAL_STATE);
    }
    let record = event.arm();
    stream::submit_to(&stream, &context, Work::Record(record.clone()))
        // Nobody may wait for what will not come.
        .inspect_err(|_| record.complete())
}

fn elapsed(out: *mut f32, start: CUevent, end: CUevent) -> Res {
    let time = |event: CUevent| {
        let event = EVENTS.get(event)?;
        if event.flags & DISABLE_TIMING != 0 {
            return Err(INVALID_HANDLE);
        }
        event
            .pending()?
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
        let handle = handle::fresh();
        let state = Mutex::default();
        EVENTS.insert(handle, Arc::new(Event { handle, flags, context: context.handle, state }));
        put(out, handle)
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
        match event.pending()? {
            Some(record) if record.time().is_none() => Err(NOT_READY),
            _ => Ok(()),
        }
    }

    fn [cuEventSynchronize] (event: CUevent) {
        let event = EVENTS.get(event)?;
        if let Some(record) = event.pending()? {
            record.wait();
        }
        context::by_handle(event.context)?.status()
    }

    fn [cuEventElapsedTime cuEventElapsedTime_v2] (out: *mut f32, start: CUevent, end: CUevent) {
        elapsed(out, start, end)
    }

    fn [cuStreamWaitEvent; cuStreamWaitEvent_ptsz] (stream: CUstream, event: CUevent, flags: u32) {
        let (stream, context) = stream::resolve(stream, FLAVOUR)?;
        let event = EVENTS.get(event)?;
        if flags & !EXTERNAL != 0 {
            return Err(INVALID_VALUE);
        }
        let captured = event.state.lock().unwrap().captured.clone();
        if let Some((capture, nodes)) = captured.filter(|_| flags & EXTERNAL == 0) {
            return capture.join(&stream, &nodes);
        }
        if let Some(capture) = capture::of(&stream)? {
            if flags & EXTERNAL != 0 {
                return capture.add(&stream, Work::WaitNode(event));
            }
            capture.invalidate();
            return Err(STREAM_CAPTURE_ISOLATION);
        }
        match event.pending()? {
            Some(record) => stream::submit_to(&stream, &context, Work::Wait(record)),
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
            stream::submit_to(&other, &context, Work::Record(part.clone()))?;
            stream::submit_to(&stream, &context, Work::Wait(part))?;
        }
        stream::submit_to(&stream, &context, Work::Record(record))
    }

    fn [cuCtxWaitEvent] (context: CUcontext, event: CUevent) {
        let context = context::by_handle(context)?;
        let Some(record) = EVENTS.get(event)?.pending()? else { return Ok(()) };
        for stream in context.streams() {
            stream::submit_to(&stream, &context, Work::Wait(record.clone()))?;
        }
        Ok(())
    }
}
