//! Copies that the current context's device has no part in, or only half a part.
//!
//! CUDA finds out from an address which device it belongs to. The worker's memory is visible to its
//! own device alone until peers are let in, so until then the copy is made where the memory is.

use super::prelude::*;
use crate::cuda::engine::peer;
use crate::cuda::engine::stream::captures;

/// An address, if it is none of an array, and the context and device that have what lies there.
pub type Place = (Option<u64>, Option<(u32, CUdevice)>);

/// Where a copy between the host and what lies at `p`, or is an array, must run, if not in the
/// stream's own context.
fn elsewhere(cx: Cx, p: Option<u64>, home: Option<(u32, CUdevice)>, stream: u32) -> Option<Cx> {
    let there = cx.in_context(home?.0);
    let owner = there.current_device().ok()?;
    let here = cx.at_stream(stream).current_device().ok()?;
    let at = || p.and_then(|p| Some((p, cx.state().ranges.find(p)?)));
    let reaches = here == owner || at().is_some_and(|(p, r)| peer::reaches(cx, here, &r, p));
    (!reaches).then_some(there)
}

/// Whether a copy in a stream has an end that the stream's device does not reach.
pub fn is_far(cx: Cx, (p, home): Place, stream: u32) -> bool {
    cx.client.devices.len() > 1 && elsewhere(cx, p, home, stream).is_some()
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
    (p, home): Place,
    stream: u32,
    copy: impl FnOnce(Cx) -> Result<(), CUresult>,
) -> Option<Result<(), CUresult>> {
    if let Some(Err(e)) = p.map(|p| peer::check(cx, stream, p)) {
        return Some(Err(e));
    }
    let there = elsewhere(cx, p, home, stream)?;
    // A capture waits for nothing: the driver makes a node of it, or says what is in the way.
    match captures_now(cx, stream) {
        Ok(true) => None,
        Ok(false) => Some(run_there(cx, stream, there, copy)),
        Err(e) => Some(Err(e)),
    }
}

fn captures_now(cx: Cx, stream: u32) -> Result<bool> {
    Ok(cx.state().captures.any() && captures(cx, stream)?)
}

/// Runs a copy in another context, in the order of a stream here. Rare, so it may wait: neither
/// device's streams know of the other's.
pub fn run_there(
    cx: Cx,
    stream: u32,
    there: Cx,
    copy: impl FnOnce(Cx) -> Result<(), CUresult>,
) -> Result<()> {
    cx.synchronize(stream)?;
    copy(there)?;
    there.synchronize(0)
}

/// How a copy between two places on devices is made, of which a stream's device may not reach both.
#[derive(Clone, Copy)]
pub enum Way {
    /// As any other.
    Plain,
    /// The driver is told whose the destination and the source are, by their contexts.
    Peers(u32, u32),
    /// In the context of the one end. The other is the host's memory, as devices see it.
    There(Cx),
}

/// How a copy from the second of two places to the first is made.
pub fn way(cx: Cx, ends: [Place; 2], stream: u32) -> Result<Way> {
    if cx.client.devices.len() < 2 {
        return Ok(Way::Plain);
    }
    for p in ends.iter().filter_map(|(p, _)| *p) {
        peer::check(cx, stream, p)?;
    }
    let mut far = ends
        .iter()
        .filter_map(|(p, home)| elsewhere(cx, *p, *home, stream));
    let Some(far) = far.next() else {
        return Ok(Way::Plain);
    };
    match ends {
        [(_, Some((dst, _))), (_, Some((src, _)))] => Ok(Way::Peers(dst, src)),
        _ if captures_now(cx, stream)? => Ok(Way::Plain),
        _ => Ok(Way::There(far)),
    }
}

/// Device to device; the two may be different devices.
pub fn between(cx: Cx, dst: u64, src: u64, len: usize, stream: u32) -> Result<(), CUresult> {
    let byte_count = len as u64;
    let ends = [dst, src].map(|p| (Some(p), cx.state().ranges.home(p)));
    match way(cx, ends, stream)? {
        Way::Plain => {
            let m = msg::CuMemcpyDtoDAsyncV2 {
                dst_device: dst,
                src_device: src,
                byte_count,
                h_stream: stream,
            };
            cx.send_to(&m, Touch::At(&[dst]))
        }
        Way::Peers(dst_context, src_context) => cx.send(&msg::CuMemcpyPeerAsync {
            dst_device: dst,
            dst_context,
            src_device: src,
            src_context,
            byte_count,
            h_stream: stream,
        }),
        Way::There(far) => run_there(cx, stream, far, |there| between(there, dst, src, len, 0)),
    }
}
