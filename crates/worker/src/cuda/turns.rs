//! Work that is submitted to streams, in the session's turns: which records wait for one, and marks
//! behind what they have submitted.

use super::done::{Completer, Then};
use super::driver::has_no_capture;
use super::prelude::*;
use crate::turn::{Mark, Turn, Unmarked, WorkKind, kind};
use busbar_wire::generated::cuda::op;
use std::hash::Hash;

/// A stream of a context.
type Place = (u64, u64);

/// The session's turns.
pub struct Turns {
    turn: Turn,
    /// Physical ordinals of the session's devices, in the server's order.
    devices: Vec<i32>,
    /// Streams that work was submitted to since the last mark.
    unmarked: Unmarked<Place>,
    /// The stream that the record in progress has a turn for.
    passed: Option<Place>,
    /// What its work is, where the record's name says too little.
    kind: Option<WorkKind>,
}

/// Whether a record leaves nothing to do for the device: it may name a stream at any time.
fn asks(op: u16) -> bool {
    matches!(
        op,
        op::CAPTURE_COPY
            | op::CAPTURE_END
            | op::CAPTURE_INFO
            | op::CAPTURE_TO_GRAPH
            | op::CAPTURE_UPDATE
            | op::CU_EVENT_RECORD
            | op::CU_EVENT_RECORD_WITH_FLAGS
            | op::CU_STREAM_BEGIN_CAPTURE_V2
            | op::CU_STREAM_COPY_ATTRIBUTES
            | op::CU_STREAM_GET_ATTRIBUTE
            | op::CU_STREAM_GET_FLAGS
            | op::CU_STREAM_GET_ID
            | op::CU_STREAM_GET_PRIORITY
            | op::CU_STREAM_QUERY
            | op::CU_STREAM_SET_ATTRIBUTE
            | op::CU_STREAM_SYNCHRONIZE
            | op::CU_STREAM_WAIT_EVENT
            | op::GREEN_OF_STREAM
            | op::HOST_FUNCTION
            | op::REACHED
            | op::SETTLE
    )
}

/// Whether streams may end by a record.
fn ends(op: u16) -> bool {
    matches!(
        op,
        op::CONTEXT_DESTROY
            | op::CONTEXT_DESTROY_NOW
            | op::CU_GREEN_CTX_DESTROY
            | op::CU_STREAM_DESTROY_V2
            | op::PRIMARY_RELEASE
            | op::PRIMARY_RELEASE_NOW
    )
}

/// The context that is current on this thread.
fn current(d: &Driver) -> u64 {
    let mut ctx: CUcontext = std::ptr::null_mut();
    // SAFETY: a pointer to a live handle.
    unsafe { d.cuCtxGetCurrent(&mut ctx) };
    ctx as u64
}

impl Turns {
    pub fn new(turn: Turn, devices: Vec<i32>) -> Self {
        Self {
            turn,
            devices,
            unmarked: Unmarked::default(),
            passed: None,
            kind: None,
        }
    }

    /// What the record in progress has the device do: work that is alike takes about as long.
    #[inline]
    pub fn about(&mut self, work: impl Hash) {
        if !self.are_free() {
            self.kind = Some(kind(work));
        }
    }

    /// Whether every device is the session's alone.
    #[inline]
    pub fn are_free(&self) -> bool {
        self.turn.is_free()
    }

    /// The place of the current context's device.
    fn device(&self, d: &Driver) -> Option<usize> {
        let mut dev = -1;
        // SAFETY: a pointer to a live number.
        unsafe { d.cuCtxGetDevice(&mut dev) };
        self.devices.iter().position(|known| *known == dev)
    }

    /// The session has a context, and uses its device.
    pub(super) fn come(&self, d: &Driver, context: u64) {
        // SAFETY: a live context, which is popped again at once.
        unsafe {
            if d.cuCtxPushCurrent_v2(context as CUcontext) == CUDA_SUCCESS {
                if let Some(device) = self.device(d) {
                    self.turn.come(device);
                }
                d.cuCtxPopCurrent_v2(&mut std::ptr::null_mut());
            }
        }
    }

    /// A record is about to use a stream of the current context: if that is work, it waits for the
    /// session's turn, or until the session is `over`. What a capture takes in is none.
    pub fn take(
        &mut self,
        d: &Driver,
        completer: &Completer,
        (op, stream): (u16, u64),
        over: impl Fn() -> bool,
    ) {
        if asks(op) || !has_no_capture(d, stream as CUstream) {
            return;
        }
        let place = (current(d), stream);
        if self.passed == Some(place) {
            return;
        }
        let Some(device) = self.device(d) else { return };
        let (turn, unmarked) = (&self.turn, &mut self.unmarked);
        let kind = self.kind.unwrap_or(op.into());
        turn.pass((device, kind), over, || {
            if !unmarked.is_empty() {
                mark(turn, unmarked, d, completer);
                // SAFETY: the context that was current, whose stream is about to be used.
                unsafe { d.cuCtxSetCurrent(place.0 as CUcontext) };
            }
        });
        self.passed = Some(place);
        self.unmarked.add(device, place);
    }

    /// Whether [`Turns::mark`] has anything to do, before a record.
    #[inline]
    pub fn before(&mut self, op: u16) -> bool {
        (self.passed, self.kind) = (None, None);
        !self.unmarked.is_empty() && ends(op)
    }

    /// As [`Turns::before`], behind a record, or with `leisure`.
    #[inline]
    pub fn after(&self, leisure: bool) -> bool {
        self.unmarked.is_due(&self.turn, leisure)
    }

    /// Whether anything that was submitted has no mark yet.
    #[inline]
    pub fn are_unmarked(&self) -> bool {
        !self.unmarked.is_empty()
    }

    /// Has the completion engine say when what was submitted is done. Another context may be
    /// current then.
    pub fn mark(&mut self, d: &Driver, completer: &Completer) {
        mark(&self.turn, &mut self.unmarked, d, completer);
    }

    /// Whether what was submitted until now, while nobody asked, is to be marked.
    #[inline]
    pub fn begin(&self) -> bool {
        self.turn.begins()
    }

    /// Marks all work of these contexts and streams.
    pub fn mark_all(
        &mut self,
        d: &Driver,
        completer: &Completer,
        (contexts, streams): (Vec<u64>, Vec<u64>),
    ) {
        let of = |stream: &u64| {
            let mut ctx: CUcontext = std::ptr::null_mut();
            // SAFETY: a live stream and a pointer to a live handle.
            unsafe { d.cuStreamGetCtx(*stream as CUstream, &mut ctx) };
            (ctx as u64, *stream)
        };
        let streams: Vec<_> = streams.iter().map(of).collect();
        for context in contexts {
            // SAFETY: a live context.
            unsafe { d.cuCtxSetCurrent(context as CUcontext) };
            let Some(device) = self.device(d) else {
                continue;
            };
            let own = streams.iter().filter(|(c, _)| *c == context).copied();
            let all = std::iter::once((context, 0)).chain(own);
            put(d, completer, all.collect(), self.turn.found(device));
        }
    }

    /// A context is gone, with its streams.
    pub fn forget(&mut self, context: u64) {
        self.unmarked.retain(|(c, _)| *c != context);
    }
}

/// Marks what was submitted.
fn mark(turn: &Turn, unmarked: &mut Unmarked<Place>, d: &Driver, completer: &Completer) {
    unmarked.mark(turn, |places, mark| put(d, completer, places, mark));
}

/// Has a mark live until all of these streams have come so far.
fn put(d: &Driver, completer: &Completer, places: Vec<Place>, mark: Option<Mark>) {
    let Some(mark) = mark.map(Arc::new) else {
        return;
    };
    for (context, stream) in places {
        // SAFETY: a context that was live when its stream was used, and has not gone since.
        unsafe { d.cuCtxSetCurrent(context as CUcontext) };
        // A capture has begun since: what was submitted before it is marked by the next one.
        if has_no_capture(d, stream as CUstream) {
            let mark = mark.clone();
            let then = Then::Run(Box::new(move |_| drop(mark)));
            completer.after(stream as CUstream, context, then);
        }
    }
}
