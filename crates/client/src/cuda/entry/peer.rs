//! Access between devices. Between those of two servers there is none.

use super::prelude::*;
use crate::cuda::engine::peer;

/// The device of the current context, and that of a peer's.
fn pair(cx: Cx, peer: u32) -> Result<(CUdevice, CUdevice)> {
    Ok((cx.current_device()?, cx.in_context(peer).current_device()?))
}

pub fn cuCtxEnablePeerAccess(cx: Cx, peer_context: u32, flags: u32) -> Result<()> {
    cx.call(&msg::CuCtxEnablePeerAccess {
        peer_context,
        flags,
    })?;
    cx.state().contexts.let_in(pair(cx, peer_context)?, true);
    Ok(())
}

pub fn cuCtxDisablePeerAccess(cx: Cx, peer_context: u32) -> Result<()> {
    let pair = pair(cx, peer_context);
    cx.call(&msg::CuCtxDisablePeerAccess { peer_context })?;
    cx.state().contexts.let_in(pair?, false);
    Ok(())
}

pub fn cuDeviceCanAccessPeer(cx: Cx, dev: CUdevice, peer_dev: CUdevice) -> Result<i32> {
    Ok(peer::can_access(cx, dev, peer_dev)?.into())
}

pub fn cuDeviceGetP2PAttribute(
    cx: Cx,
    attrib: CUdevice_P2PAttribute,
    src_device: CUdevice,
    dst_device: CUdevice,
) -> Result<i32> {
    let Some(cx) = peer::together(cx, src_device, dst_device)? else {
        return Ok(0);
    };
    let m = msg::CuDeviceGetP2PAttribute {
        attrib,
        src_device,
        dst_device,
    };
    Ok(decode::<msg::CuDeviceGetP2PAttributeReply>(&cx.cached(&m)?)?.value)
}
