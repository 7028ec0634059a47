//! Access between devices.
//!
//! The driver's own peer access does not reach memory that is mapped where the client says, so who
//! may use whose memory is kept here and set on each mapping.

use super::memory;
use super::prelude::*;

/// The device of a context.
fn device_of(w: &mut Cuda, ctx: CUcontext) -> Result<i32> {
    let mut dev = 0;
    // SAFETY: a pointer to a live number.
    check(w.within(ctx as u64, |w| unsafe { w.cuCtxGetDevice(&mut dev) })?)?;
    Ok(dev)
}

/// The current context's device, and that of its peer.
fn pair(w: &mut Cuda, peer: CUcontext) -> Result<(i32, i32)> {
    let mut dev = 0;
    // SAFETY: a pointer to a live number.
    check(unsafe { w.cuCtxGetDevice(&mut dev) })?;
    Ok((dev, device_of(w, peer)?))
}

pub fn cu_ctx_enable_peer_access(w: &mut Cuda, m: msg::CuCtxEnablePeerAccess) -> Result {
    let peer = w.handle(Kind::Context, m.peer_context)? as CUcontext;
    let (user, owner) = pair(w, peer)?;
    // SAFETY: a live context. What the driver allocates by itself becomes visible so.
    check(unsafe { w.cuCtxEnablePeerAccess(peer, m.flags) })?;
    w.peers.insert((user, owner));
    memory::allow(w, user, owner, true)
}

pub fn cu_ctx_disable_peer_access(w: &mut Cuda, m: msg::CuCtxDisablePeerAccess) -> Result {
    let peer = w.handle(Kind::Context, m.peer_context)? as CUcontext;
    let (user, owner) = pair(w, peer)?;
    // SAFETY: a live context.
    check(unsafe { w.cuCtxDisablePeerAccess(peer) })?;
    w.peers.remove(&(user, owner));
    memory::allow(w, user, owner, false)
}
