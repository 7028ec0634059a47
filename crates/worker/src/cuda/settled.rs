//! Order between streams where the program has waited and we have not.
//!
//! Some calls of CUDA return only when their work is done, a copy from the program's memory above
//! all. Ours return when it is queued, which on the same stream makes no difference. But a program
//! may go on with any other stream, one that does not wait for the default stream for instance, and
//! rely on what it has waited for. So after such a call the client sends a mark, and each stream
//! that is used from then on waits, on the device, for what the mark stands for.

use super::{Cuda, attempt, check};
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::record::Header;
use std::collections::{HashMap, HashSet};

/// The latest mark, for as long as its work may be under way.
struct Mark {
    /// Recorded behind the work. Marks before this one are behind it, too.
    event: u64,
    context: u64,
    /// Streams that are in order: by context and id.
    passed: HashSet<(u32, u32)>,
}

/// What streams have to wait for before they are used.
#[derive(Default)]
pub(super) struct Settled {
    mark: Option<Mark>,
    /// An event of each context.
    events: HashMap<u64, u64>,
}

impl Settled {
    /// A stream has come to be under this id.
    pub(super) fn forget_stream(&mut self, id: u32) {
        if let Some(m) = &mut self.mark {
            m.passed.remove(&(0, id));
        }
    }

    /// A context is gone, and its events.
    pub(super) fn forget(&mut self, context: u64) {
        self.events.remove(&context);
        if self.mark.as_ref().is_some_and(|m| m.context == context) {
            self.mark = None;
        }
    }
}

/// A default stream is another in each context; the others are known by their id.
fn key(w: &Cuda, stream: u32) -> (u32, u32) {
    (if stream == 0 { w.current } else { 0 }, stream)
}

/// The context's event, recorded behind what is queued on a stream.
fn record(w: &mut Cuda, context: u64, stream: CUstream) -> Result<u64, CUresult> {
    let event = match w.settled.events.get(&context) {
        Some(e) => *e,
        None => {
            const DISABLE_TIMING: u32 = 2;
            let mut e: CUevent = std::ptr::null_mut();
            // SAFETY: a pointer to a live handle.
            check(unsafe { w.driver.cuEventCreate(&mut e, DISABLE_TIMING) })?;
            w.settled.events.insert(context, e as u64);
            e as u64
        }
    };
    // Streams that wait for an earlier mark wait for the event as it was then.
    // SAFETY: a live event and stream of the current context.
    check(unsafe { w.driver.cuEventRecord(event as CUevent, stream) })?;
    Ok(event)
}

pub(super) fn settle(w: &mut Cuda, h: &Header, m: msg::Settle) -> Result<(), WireError> {
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        let context = w.handle(Kind::Context, h.aux)?;
        let event = match record(w, context, stream) {
            Ok(e) => e,
            // There is no memory for an event, but what is over needs no mark.
            Err(CUDA_ERROR_OUT_OF_MEMORY) => {
                // SAFETY: a live stream of the current context.
                return check(unsafe { w.driver.cuStreamSynchronize(stream) });
            }
            Err(e) => return Err(e),
        };
        w.settled.mark = Some(Mark {
            event,
            context,
            passed: HashSet::from([key(w, m.stream)]),
        });
        Ok(())
    });
    w.done(h, rc);
    Ok(())
}

/// A stream is about to be used: it comes after the latest mark.
#[inline]
pub(super) fn before_use(w: &mut Cuda, id: u32, raw: u64) {
    if w.settled.mark.is_some() {
        wait(w, id, raw as CUstream);
    }
}

fn wait(w: &mut Cuda, id: u32, stream: CUstream) {
    let key = key(w, id);
    let Some(mark) = w.settled.mark.as_mut() else {
        return;
    };
    if mark.passed.contains(&key) {
        return;
    }
    let event = mark.event as CUevent;
    // SAFETY: a live event.
    if unsafe { w.driver.cuEventQuery(event) } != CUDA_ERROR_NOT_READY {
        w.settled.mark = None;
        return;
    }
    // What a capture records runs when its graph is launched, and an event from outside would void
    // it.
    let mut status = CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: a live stream and a pointer to a live value.
    let rc = unsafe { w.driver.cuStreamIsCapturing(stream, &mut status) };
    if rc != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE {
        return;
    }
    mark.passed.insert(key);
    // If it fails, so does the use of the stream that this is for.
    // SAFETY: a live stream and event.
    unsafe { w.driver.cuStreamWaitEvent(stream, event, 0) };
}
