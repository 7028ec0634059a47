//! Access between devices. Between those of two servers there is none.

use super::prelude::*;

/// The call at the server that has both devices, if one has.
fn together(cx: Cx, a: CUdevice, b: CUdevice) -> Result<Option<Cx>> {
    let cx = cx.of_device(a);
    cx.device(a)?;
    let same = cx.own_device(b).is_some();
    if !same {
        cx.of_device(b).device(b)?;
    }
    Ok(same.then_some(cx))
}

pub fn cuDeviceCanAccessPeer(cx: Cx, dev: CUdevice, peer_dev: CUdevice) -> Result<i32> {
    let Some(cx) = together(cx, dev, peer_dev)? else {
        return Ok(0);
    };
    let reply = cx.cached(&msg::CuDeviceCanAccessPeer { dev, peer_dev })?;
    Ok(decode::<msg::CuDeviceCanAccessPeerReply>(&reply)?.can_access_peer)
}

pub fn cuDeviceGetP2PAttribute(
    cx: Cx,
    attrib: CUdevice_P2PAttribute,
    src_device: CUdevice,
    dst_device: CUdevice,
) -> Result<i32> {
    let Some(cx) = together(cx, src_device, dst_device)? else {
        return Ok(0);
    };
    let m = msg::CuDeviceGetP2PAttribute {
        attrib,
        src_device,
        dst_device,
    };
    Ok(decode::<msg::CuDeviceGetP2PAttributeReply>(&cx.cached(&m)?)?.value)
}
