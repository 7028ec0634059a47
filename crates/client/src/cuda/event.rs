//! Events: recording them, and asking whether they have happened.
//!
//! Frameworks ask about events all the time (is this memory free again?), and must not wait for the
//! answer: a question in the one queue would stand behind megabytes of what another thread has
//! queued. So once a program asks at all, the worker tells by itself when a recorded event has
//! happened, and until then the answer is known here.
//!
//! That word travels with the answers, in the order in which things came to pass: whoever has
//! waited for an event, or for work behind it, finds that it has happened.

use super::runtime::{Cx, enter, guard, put};
use super::{context, shadow, stream};
use busbar_abi::cuda::*;
use busbar_channel::switches::Switch;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// What is known of an event's latest record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing: the worker must be asked.
    Unknown,
    /// The worker will tell when it has happened.
    Awaited,
    /// It has happened.
    Happened,
}

struct Event {
    /// Which record of it is the latest.
    record: u64,
    state: State,
    /// Records for which the worker's word is worth having: many events are never asked about.
    worth: u8,
}

/// Records after which a program that asks about events has not asked about this one.
const WORTH: u8 = 16;

/// The events that only the program's own calls record: not those between processes.
static EVENTS: LazyLock<Mutex<HashMap<u32, Event>>> = LazyLock::new(Mutex::default);
/// Whether the program asks about events.
static ASKS: AtomicBool = AtomicBool::new(false);
/// How often it has asked too early.
static ASKED: AtomicU32 = AtomicU32::new(0);
const OFTEN: u32 = 64;
/// Whether something else records events unseen: a graph, a launch.
static UNSEEN: AtomicBool = AtomicBool::new(false);

fn events() -> MutexGuard<'static, HashMap<u32, Event>> {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on events may be recorded by other calls than those to record them.
pub fn recorded_unseen() {
    if !UNSEEN.swap(true, Ordering::AcqRel) {
        for e in events().values_mut() {
            e.state = State::Unknown;
        }
    }
}

/// An event is gone.
pub fn forget(id: u32) {
    events().remove(&id);
}

/// Begins a record. Gives its number if the worker is to tell when it has happened.
fn recording(id: u32) -> Option<u64> {
    if !ASKS.load(Ordering::Acquire) {
        return None;
    }
    let mut events = events();
    let e = events.get_mut(&id)?;
    e.record += 1;
    let watched =
        e.worth > 0 && Switch::Idle.on() && !stream::capturing() && !UNSEEN.load(Ordering::Acquire);
    if !watched {
        e.state = State::Unknown;
        return None;
    }
    e.worth -= 1;
    e.state = State::Awaited;
    Some(e.record)
}

/// A record is sent of which the worker does not tell.
fn recorded(id: u32) {
    if ASKS.load(Ordering::Acquire)
        && let Some(e) = events().get_mut(&id)
    {
        e.record += 1;
        e.state = State::Unknown;
    }
}

/// Something was heard of a record, which may not be the latest any more.
fn heard(id: u32, record: u64, state: State) {
    if let Some(e) = events().get_mut(&id)
        && e.record == record
        && !UNSEEN.load(Ordering::Acquire)
    {
        e.state = state;
    }
}

/// Records an event, by `send`. The worker tells of all that is before it: whoever has waited for
/// the event itself, with another stream perhaps, has that word.
fn record(
    cx: Cx,
    id: u32,
    on: u32,
    send: impl FnOnce() -> Result<(), CUresult>,
) -> Result<(), CUresult> {
    let Some(number) = recording(id) else {
        let sent = send();
        // An answer to who has asked meanwhile may be of the record before this one.
        recorded(id);
        return sent;
    };
    // What went wrong the worker tells when it is asked.
    let told = move |a: Option<crate::calls::Answer>| {
        let happened = a.is_some_and(|a| a.status == CUDA_SUCCESS);
        let state = if happened {
            State::Happened
        } else {
            State::Unknown
        };
        heard(id, number, state);
    };
    let m = msg::Reached { stream: on };
    // SAFETY: no bytes come with that answer.
    let asked = unsafe { cx.rt.session.call_async(cx.scope, &m, None, told) };
    let recorded = match asked {
        Ok(()) => send(),
        Err(_) => Err(CUDA_ERROR_DEVICE_UNAVAILABLE),
    };
    recorded.inspect_err(|_| heard(id, number, State::Unknown))
}

pub(super) unsafe fn cuEventRecord(event: CUevent, stream: CUstream, per_thread: bool) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_event = cx.handle(Kind::Event, event as u64)?;
        let h_stream = cx.stream(stream, per_thread)?;
        record(cx, h_event, h_stream, || {
            cx.send(&msg::CuEventRecord { h_event, h_stream })
        })
    })
}

pub(super) unsafe fn cuEventRecordWithFlags(
    event: CUevent,
    stream: CUstream,
    flags: u32,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_event = cx.handle(Kind::Event, event as u64)?;
        let h_stream = cx.stream(stream, per_thread)?;
        if flags != CU_EVENT_RECORD_DEFAULT {
            // It becomes a node of a graph.
            recorded_unseen();
        }
        record(cx, h_event, h_stream, || {
            cx.send(&msg::CuEventRecordWithFlags {
                h_event,
                h_stream,
                flags,
            })
        })
    })
}

/// What is known here of an event's latest record, which the program wants to know.
fn known(cx: Cx, id: u32) -> (State, u64) {
    ASKS.store(true, Ordering::Release);
    let mut events = events();
    let Some(e) = events.get_mut(&id) else {
        return (State::Unknown, 0);
    };
    e.worth = WORTH;
    // A failure is for the worker to tell, and what a capture forbids.
    let told = context::has_deferred(cx.scope) || stream::capturing();
    let ask = told || shadow::needs_to_hear() || !Switch::Idle.on();
    (if ask { State::Unknown } else { e.state }, e.record)
}

pub(super) unsafe fn cuEventQuery(event: CUevent) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_event = cx.handle(Kind::Event, event as u64)?;
        let (state, record) = known(cx, h_event);
        match state {
            State::Happened => return Ok(()),
            State::Awaited => {
                cx.rt.session.flush();
                // Who asks in a loop must not keep the word from being received; but a processor
                // that is given up may be away for long.
                if ASKED.fetch_add(1, Ordering::Relaxed) % OFTEN == OFTEN - 1 {
                    std::thread::yield_now();
                }
                return Err(CUDA_ERROR_NOT_READY);
            }
            State::Unknown => {}
        }
        shadow::about_to_wait(cx)?;
        cx.call(&msg::CuEventQuery { h_event })?;
        heard(h_event, record, State::Happened);
        shadow::waited(cx, 0, None, 0);
        Ok(())
    })
}

pub(super) unsafe fn cuEventSynchronize(event: CUevent) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_event = cx.handle(Kind::Event, event as u64)?;
        shadow::about_to_wait(cx)?;
        cx.call(&msg::CuEventSynchronize { h_event })?;
        // Whose work that was is not known here.
        shadow::waited(cx, 0, None, 0);
        Ok(())
    })
}

/// Blocking synchronization, no timing, between processes.
const FLAGS: u32 = 7;
const NO_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

pub(super) unsafe fn cuEventCreate(out: *mut CUevent, flags: u32) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let timed_abroad = flags & (INTERPROCESS | NO_TIMING) == INTERPROCESS;
        if out.is_null() || flags & !FLAGS != 0 || timed_abroad {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let id = cx.create(Kind::Event);
        cx.send(&msg::CuEventCreate {
            ph_event: id,
            flags,
        })
        .inspect_err(|_| cx.destroy(Kind::Event, id))?;
        if flags & INTERPROCESS == 0 {
            let new = Event {
                record: 0,
                state: State::Unknown,
                worth: WORTH,
            };
            events().insert(id, new);
        }
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::Event, id) as CUevent) }
    })
}
