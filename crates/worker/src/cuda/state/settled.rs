//! Order between streams where the program has waited and we have not.
//!
//! Some calls of CUDA return only when their work is done, a copy from the program's memory above
//! all. Ours return when it is queued, which on the same stream makes no difference. But a program
//! may go on with any other stream, one that does not wait for the default stream for instance, and
//! rely on what it has waited for. So after such a call the client sends a mark, and each stream
//! that is used from then on waits, on the device, for what the mark stands for.

use super::prelude::*;
use crate::cuda::driver::check;

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
pub struct Settled {
    mark: Option<Mark>,
    /// An event of each context.
    events: HashMap<u64, u64>,
}

impl Settled {
    /// A stream has come to be under this id.
    pub fn forget_stream(&mut self, id: u32) {
        if let Some(m) = &mut self.mark {
            m.passed.remove(&(0, id));
        }
    }

    /// A context is gone, and its events.
    pub fn forget(&mut self, context: u64) {
        self.events.remove(&context);
        if self.mark.as_ref().is_some_and(|m| m.context == context) {
            self.mark = None;
        }
    }

    /// What is queued on a stream of the current context comes before whatever is used from now on.
    pub fn mark(
        &mut self,
        d: &Driver,
        (context, raw): (u32, u64),
        (id, stream): (u32, CUstream),
    ) -> Result {
        let event = self.record(d, raw, stream)?;
        self.mark = Some(Mark {
            event,
            context: raw,
            passed: HashSet::from([key(context, id)]),
        });
        Ok(())
    }

    /// The context's event, recorded behind what is queued on a stream.
    fn record(&mut self, d: &Driver, context: u64, stream: CUstream) -> Result<u64> {
        let event = match self.events.get(&context) {
            Some(e) => *e,
            None => {
                const DISABLE_TIMING: u32 = 2;
                let mut e: CUevent = std::ptr::null_mut();
                // SAFETY: a pointer to a live handle.
                check(unsafe { d.cuEventCreate(&mut e, DISABLE_TIMING) })?;
                self.events.insert(context, e as u64);
                e as u64
            }
        };
        // Streams that wait for an earlier mark wait for the event as it was then.
        // SAFETY: a live event and stream of the current context.
        check(unsafe { d.cuEventRecord(event as CUevent, stream) })?;
        Ok(event)
    }

    /// A stream is about to be used in a context: it comes after the latest mark.
    #[inline]
    pub fn before_use(&mut self, d: &Driver, context: u32, id: u32, raw: u64) {
        if self.mark.is_some() {
            self.wait(d, key(context, id), raw as CUstream);
        }
    }

    fn wait(&mut self, d: &Driver, key: (u32, u32), stream: CUstream) {
        let Some(mark) = self.mark.as_mut() else {
            return;
        };
        if mark.passed.contains(&key) {
            return;
        }
        let event = mark.event as CUevent;
        // SAFETY: a live event.
        if unsafe { d.cuEventQuery(event) } != CUDA_ERROR_NOT_READY {
            self.mark = None;
            return;
        }
        // What a capture records runs when its graph is launched, and an event from outside would
        // void it.
        let mut status = CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: a live stream and a pointer to a live value.
        let rc = unsafe { d.cuStreamIsCapturing(stream, &mut status) };
        if rc != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE {
            return;
        }
        mark.passed.insert(key);
        // If it fails, so does the use of the stream that this is for.
        // SAFETY: a live stream and event.
        unsafe { d.cuStreamWaitEvent(stream, event, 0) };
    }
}

/// A default stream is another in each context; the others are known by their id.
fn key(context: u32, stream: u32) -> (u32, u32) {
    (if stream == 0 { context } else { 0 }, stream)
}
