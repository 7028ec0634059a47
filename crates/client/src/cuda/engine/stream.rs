//! Streams: their special values, and captures.

use super::prelude::*;
use crate::cuda::call::{ReplyBytes, thread};
use crate::cuda::engine::settled;
use crate::cuda::state::order::{ALL_STREAMS, Capturing};
use busbar_channel::switches::Switch;
use busbar_wire::capture::WANTS_GRAPH;

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`, as handles.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

impl Cx {
    /// The id of a stream, with CUDA's special values; 0 is the legacy default stream.
    #[inline(always)]
    pub fn stream(self, raw: CUstream, per_thread: bool) -> Result<u32> {
        match raw as u64 {
            0 if per_thread => own(self),
            0 | LEGACY => Ok(0),
            PER_THREAD => own(self),
            raw => self.handle(Kind::Stream, raw),
        }
    }

    /// The call in a named stream's context, whichever is current: what is queued in a stream, and
    /// what is known of that, is its context's. Launches alone need the context to be current.
    #[inline]
    pub fn at_stream(self, stream: u32) -> Self {
        self.in_context(self.context_of(stream))
    }
}

/// The calling thread's own default stream in the current context: an ordinary blocking stream,
/// made when it is first needed.
#[cold]
fn own(cx: Cx) -> Result<u32> {
    let scope = cx.need_context()?;
    let handles = &cx.state().handles;
    if let Some(raw) = thread::own_stream(cx.context_key())
        && let Some(id) = handles.id(Kind::Stream, raw)
        && handles.context(Kind::Stream, id) == scope
    {
        return Ok(id);
    }
    let id = cx.create(Kind::Stream);
    let flags = 0;
    settled::not_alone(cx)?;
    cx.send(&msg::CuStreamCreate {
        ph_stream: id,
        flags,
    })?;
    thread::set_own_stream(cx.context_key(), cx.raw(Kind::Stream, id));
    Ok(id)
}

/// The context that a stream is of: the default stream, of the current one.
pub fn context_of(cx: Cx, stream: u32) -> Result<u32> {
    match stream {
        0 => cx.need_context(),
        id => Ok(cx.context_of(id)),
    }
}

/// What the worker says of a stream's capture, and of what `detail` asks for (see
/// `busbar_wire::capture`).
pub fn ask(cx: Cx, stream: u32, detail: u32) -> Result<ReplyBytes> {
    cx.call(&msg::CaptureInfo { stream, detail })
}

/// What an answer says, but for nodes.
pub fn says(answer: &msg::CaptureInfoReply<'_>) -> Capturing {
    Capturing {
        status: answer.status as CUstreamCaptureStatus,
        id: answer.id,
        graph: answer.graph,
    }
}

/// Whether a stream captures, under which id, and if `graph` is wanted into which one. The worker
/// says so once for each stream of a capture: libraries ask at each launch. What the legacy stream
/// may do depends on all others, so of that it is asked each time.
#[inline]
pub fn capturing(cx: Cx, stream: u32, graph: bool) -> Result<Capturing> {
    let captures = &cx.state().captures;
    if !captures.any() {
        return Ok(Capturing::NONE);
    }
    let lasts = stream != 0 && Switch::Local.on();
    let suffices = |k: &Capturing| !graph || k.graph != 0 || *k == Capturing::NONE;
    if lasts && let Some(known) = captures.recall(stream).filter(suffices) {
        return Ok(known);
    }
    let age = captures.age();
    let answer = ask(cx, stream, u32::from(graph) * WANTS_GRAPH)?;
    let says = says(&decode(&answer)?);
    if lasts {
        captures.learn(stream, says, age);
    }
    Ok(says)
}

/// Whether this stream captures. A capture that is void is an error, and so is work in the legacy
/// stream that would wait for one that captures: that voids the capture.
pub fn captures(cx: Cx, stream: u32) -> Result<bool> {
    let known = capturing(cx, stream, false);
    if let Err(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) = known {
        refuse_wait(cx, stream)?;
    }
    match known?.status {
        CU_STREAM_CAPTURE_STATUS_NONE => Ok(false),
        CU_STREAM_CAPTURE_STATUS_ACTIVE => Ok(true),
        _ => Err(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
    }
}

/// A call is about to wait for a stream. If that captures, CUDA says what is wrong with that, and
/// the capture is void.
#[cold]
pub fn refuse_wait(cx: Cx, stream: u32) -> Result<()> {
    cx.call(&msg::CuStreamSynchronize { h_stream: stream })
        .map(drop)
}

/// What no capture can hold: refused where the stream captures, and the capture void.
pub fn not_captured(cx: Cx, stream: u32) -> Result<()> {
    if cx.state().captures.any() && captures(cx, stream)? {
        refuse_wait(cx, stream)?;
        return Err(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    Ok(())
}

impl Cx {
    /// Work on a device has begun: kernels, graphs, fills, copies that the host sees nothing of.
    /// With `CUDA_LAUNCH_BLOCKING=1` all work of the context is over when such a call returns, and
    /// what is wrong with it is that call's error; what a stream captures has not begun.
    #[inline]
    pub fn has_begun(self, stream: u32) -> Result<()> {
        match self.state().contexts.are_blocking() {
            true => self.wait_for_what_has_begun(stream),
            false => Ok(()),
        }
    }

    #[cold]
    fn wait_for_what_has_begun(self, stream: u32) -> Result<()> {
        let cx = self.at_stream(stream);
        if cx.state().captures.any() {
            // To wait for a whole context would void a capture in it.
            return match captures(cx, stream)? {
                true => Ok(()),
                false => cx.synchronize(stream),
            };
        }
        cx.synchronize(ALL_STREAMS)
    }

    /// A call that could disturb a capture, as an allocation may, is refused and the capture void,
    /// unless the capture or the calling thread asked for less care. Calls with `#[disturbs]` in
    /// the spec begin so.
    #[inline]
    pub fn must_be_safe(self) -> Result<()> {
        if self.state().captures.any() {
            disturb(self)
        } else {
            Ok(())
        }
    }
}

#[cold]
fn disturb(cx: Cx) -> Result<()> {
    let hit = cx.state().captures.minding(thread::capture_mode());
    for stream in &hit {
        let scope = context_of(cx, *stream).unwrap_or(cx.scope);
        // That voids the capture; what is wrong is said below.
        let _ = refuse_wait(cx.in_context(scope), *stream);
    }
    refuse_if(!hit.is_empty(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
}
