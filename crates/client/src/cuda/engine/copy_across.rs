//! Copies that the current context's device has no part in, or only half a part.
//!
//! CUDA finds out from an address which device it belongs to. The worker's memory is visible to its
//! own device alone until peers are let in, so here the copy is made where the memory is.

use super::prelude::*;

/// Where a copy between the host and memory with this home must run, if not in the current context.
fn elsewhere(cx: Cx, home: Option<(u32, CUdevice)>) -> Option<Cx> {
    let (scope, device) = home?;
    let here = cx.current_device().ok()?;
    (scope != 0 && device != here).then_some(Cx { scope, ..cx })
}

/// Runs a copy between the host and the memory at `p` in the context of that memory, in the order
/// of the program's stream. `None` when the current context will do.
pub fn in_its_context(
    cx: Cx,
    p: u64,
    stream: u32,
    copy: impl FnOnce(Cx) -> Result<(), CUresult>,
) -> Option<Result<(), CUresult>> {
    if cx.client.devices.len() < 2 {
        return None;
    }
    in_context_of(cx, cx.state().ranges.home(p), stream, copy)
}

/// As [`in_its_context`], with the home of the memory found already.
pub fn in_context_of(
    cx: Cx,
    home: Option<(u32, CUdevice)>,
    stream: u32,
    copy: impl FnOnce(Cx) -> Result<(), CUresult>,
) -> Option<Result<(), CUresult>> {
    let there = elsewhere(cx, home)?;
    // Rare, so it may wait: neither device's streams know of the other's.
    let run = || {
        cx.synchronize(stream)?;
        copy(there)?;
        there.synchronize(0)
    };
    Some(run())
}

/// Device to device; the two may be different devices.
pub fn between(cx: Cx, dst: u64, src: u64, len: usize, stream: u32) -> Result<(), CUresult> {
    let byte_count = len as u64;
    if cx.client.devices.len() > 1
        && let (Some((dst_context, d)), Some((src_context, s))) =
            (cx.state().ranges.home(dst), cx.state().ranges.home(src))
        && (d != s || cx.current_device()? != d)
    {
        return cx.send(&msg::CuMemcpyPeerAsync {
            dst_device: dst,
            dst_context,
            src_device: src,
            src_context,
            byte_count,
            h_stream: stream,
        });
    }
    let m = msg::CuMemcpyDtoDAsyncV2 {
        dst_device: dst,
        src_device: src,
        byte_count,
        h_stream: stream,
    };
    cx.send_to(&m, Touch::At(&[dst]))
}
