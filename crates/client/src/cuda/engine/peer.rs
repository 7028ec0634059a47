//! Which devices reach each other's memory. Between those of two servers none do.

use super::prelude::*;

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

/// Whether a device may be let in to another one's memory.
pub fn can_access(cx: Cx, dev: CUdevice, peer_dev: CUdevice) -> Result<bool> {
    let Some(cx) = together(cx, dev, peer_dev)? else {
        return Ok(false);
    };
    let reply = cx.cached(&msg::CuDeviceCanAccessPeer { dev, peer_dev })?;
    Ok(decode::<msg::CuDeviceCanAccessPeerReply>(&reply)?.can_access_peer != 0)
}
