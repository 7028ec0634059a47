//! Which devices reach each other's memory. Between those of two servers none do.

use super::prelude::*;
use crate::cuda::engine::pool;
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
        _ => cx.state().contexts.may_use(user, r.device),
    }
}

/// Refuses an end of a copy or a fill in a stream: memory that a program lets devices use itself is
/// out of reach for the streams of those that it did not let in. All other memory is copied.
pub fn check(cx: Cx, stream: u32, p: u64) -> Result<()> {
    if cx.client.devices.len() < 2 {
        return Ok(());
    }
    let Some(r) = cx
        .state()
        .ranges
        .find(p)
        .filter(|r| r.sort == Sort::Foreign)
    else {
        return Ok(());
    };
    let user = cx.at_stream(stream).current_device()?;
    let own = pool::is_pooled(&r) || lock(&cx.state().vmm).access(p).is_some();
    refuse_if(own && !reaches(cx, user, &r, p), CUDA_ERROR_INVALID_VALUE)
}

/// Whether a device may be let in to another one's memory.
pub fn can_access(cx: Cx, dev: CUdevice, peer_dev: CUdevice) -> Result<bool> {
    let Some(cx) = together(cx, dev, peer_dev)? else {
        return Ok(false);
    };
    let reply = cx.cached(&msg::CuDeviceCanAccessPeer { dev, peer_dev })?;
    Ok(decode::<msg::CuDeviceCanAccessPeerReply>(&reply)?.can_access_peer != 0)
}
