//! Which devices reach each other's memory. Between those of two servers none do.

use super::prelude::*;
use crate::cuda::engine::pool;
use crate::cuda::engine::stream::captures;
use crate::cuda::state::ranges::{Range, Sort};

/// The call at the server that has both devices, if one has.
pub fn together(cx: Cx, a: CUdevice, b: CUdevice) -> Result<Option<Cx>> {
    let cx = cx.of_device(a);
    cx.device(a)?;
    let same = cx.own_device(b).is_some();
    if !same {
        cx.of_device(b).device(b)?;
    }
    Ok(same.then_some(cx))
}

/// Whether a device reaches what lies at `p`, in memory of another one's or its own.
pub fn reaches(cx: Cx, user: CUdevice, r: &Range, p: u64) -> bool {
    if r.sort.is_page_locked() {
        return true;
    }
    // What the program maps itself is out of its own device's reach, too, until that is let in.
    let mapped = lock(&cx.state().vmm).access_by(p, user);
    if let Some(flags) = mapped {
        return flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    }
    match r.sort {
        _ if r.device == user => true,
        // For all that can.
        Sort::Managed => can_access(cx, user, r.device).unwrap_or(false),
        Sort::Foreign if pool::is_pooled(r) => pool::may_use(cx, r, user),
        // A module's variable: nobody is let in to that.
        Sort::Foreign if !pool::is_graphs(r) => false,
        _ => cx.state().contexts.may_use(user, r.device),
    }
}

/// Whether the program itself says which devices may use what lies at `p`: it is a pool's, or the
/// program has mapped it.
fn has_own_users(cx: Cx, r: &Range, p: u64) -> bool {
    let mapped = || lock(&cx.state().vmm).access(p).is_some();
    r.sort == Sort::Foreign && (pool::is_pooled(r) || mapped())
}

/// The memory at an address, where that could be out of some device's reach.
fn found(cx: Cx, p: u64) -> Option<Range> {
    let several = cx.client.devices.len() > 1;
    several.then(|| cx.state().ranges.find(p)).flatten()
}

/// The context whose device counts where the driver asks who copies: the current one, whichever
/// stream the copy is put into.
pub fn asks(cx: Cx) -> u32 {
    match cx.current {
        0 => cx.scope,
        current => current,
    }
}

/// Refuses an end of a copy that the device of a context does not reach, if the program says itself
/// which devices do. All other memory is copied, wherever it is.
pub fn may_copy(cx: Cx, context: u32, p: u64) -> Result<()> {
    let Some(r) = found(cx, p).filter(|r| context != 0 && has_own_users(cx, r, p)) else {
        return Ok(());
    };
    let user = cx.in_context(context).current_device()?;
    refuse_if(!reaches(cx, user, &r, p), CUDA_ERROR_INVALID_VALUE)
}

/// What a call in a stream says whose memory was looked at: of a void capture drivers tell first.
pub fn in_stream(cx: Cx, stream: u32, checked: Result<()>) -> Result<()> {
    if checked.is_err() && cx.state().captures.any() {
        captures(cx, stream)?;
    }
    checked
}

/// Refuses memory that a stream fills or writes to, and its device does not reach.
pub fn must_reach(cx: Cx, p: u64) -> Result<()> {
    // A node that allocates says who may use its memory: that the driver knows.
    let Some(r) = found(cx, p).filter(|r| !pool::is_graphs(r)) else {
        return Ok(());
    };
    let user = cx.current_device()?;
    refuse_if(!reaches(cx, user, &r, p), CUDA_ERROR_INVALID_VALUE)
}

/// The context of a node that fills what lies at `p`: the one that is asked for, where the program
/// says itself which devices use the memory, and otherwise the memory's own.
pub fn fills_in(cx: Cx, context: u32, p: u64) -> u32 {
    let home = |r: Range| (!has_own_users(cx, &r, p)).then_some(r.context);
    found(cx, p).and_then(home).unwrap_or(context)
}

/// Whether a device may be let in to another one's memory.
pub fn can_access(cx: Cx, dev: CUdevice, peer_dev: CUdevice) -> Result<bool> {
    let Some(cx) = together(cx, dev, peer_dev)? else {
        return Ok(false);
    };
    let reply = cx.cached(&msg::CuDeviceCanAccessPeer { dev, peer_dev })?;
    Ok(decode::<msg::CuDeviceCanAccessPeerReply>(&reply)?.can_access_peer != 0)
}
