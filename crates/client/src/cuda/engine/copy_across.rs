//! Copies that the current context's device has no part in, or only half a part.
//!
//! CUDA finds out from an address which device it belongs to. The worker's memory is visible to its
//! own device alone until peers are let in, so until then the copy is made where the memory is.

use super::prelude::*;
use crate::cuda::engine::peer;
use crate::cuda::engine::stream::captures;
use crate::cuda::state::ranges::{Range, Sort};

/// Where a copy between the host and what lies at `p`, or is an array, must run, if not in the
/// stream's own context.
fn elsewhere(cx: Cx, p: Option<u64>, home: Option<(u32, CUdevice)>, stream: u32) -> Option<Cx> {
    let there = cx.in_context(home?.0);
    let owner = there.current_device().ok()?;
    let here = cx.in_context(cx.context_of(stream)).current_device().ok()?;
    let reaches = here == owner || p.is_some_and(|p| may_use(cx, here, owner, p));
    (!reaches).then_some(there)
}

/// Whether a device reaches the memory at `p` of another one's: managed memory is for all that can.
fn may_use(cx: Cx, user: CUdevice, owner: CUdevice, p: u64) -> bool {
    let managed = |r: Range| r.sort == Sort::Managed;
    match cx.state().ranges.find(p).is_some_and(managed) {
        true => peer::can_access(cx, user, owner).unwrap_or(false),
        false => cx.state().contexts.may_use(user, owner),
    }
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
    in_context_of(cx, (Some(p), cx.state().ranges.home(p)), stream, copy)
}

/// As [`in_its_context`], with the home of the memory found already.
pub fn in_context_of(
    cx: Cx,
    (p, home): (Option<u64>, Option<(u32, CUdevice)>),
    stream: u32,
    copy: impl FnOnce(Cx) -> Result<(), CUresult>,
) -> Option<Result<(), CUresult>> {
    let there = elsewhere(cx, p, home, stream)?;
    // A capture waits for nothing: the driver makes a node of it, or says what is in the way.
    match cx.state().captures.any().then(|| captures(cx, stream)) {
        Some(Ok(true)) => return None,
        Some(Err(e)) => return Some(Err(e)),
        _ => {}
    }
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
