//! Tensor maps.

use super::{Cuda, attempt, check};
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::codec::Message;
use busbar_wire::generated::cuda as msg;
use busbar_wire::record::Header;

pub(super) fn tensor_map_address(
    w: &mut Cuda,
    h: &Header,
    m: msg::TensorMapAddress<'_>,
) -> Result<(), WireError> {
    let mut map: CUtensorMap =
        busbar_abi::from_bytes(m.map).ok_or(WireError::BadValue("structure"))?;
    let rc = attempt(|| {
        // SAFETY: a live structure; the address is not followed.
        check(unsafe {
            w.driver
                .cuTensorMapReplaceAddress(&mut map, m.address as *mut _)
        })
    });
    let changed = busbar_abi::bytes_of(&map).to_vec();
    let reply = msg::TensorMapAddressReply { changed: &changed };
    w.reply(h, rc, |wr| reply.encode(wr));
    Ok(())
}
