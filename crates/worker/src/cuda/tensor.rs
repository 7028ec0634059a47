//! Tensor maps.

use super::{Cuda, check};
use crate::answer::{Encoded, Fail, plain};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda as msg;

pub(super) fn tensor_map_address(
    w: &mut Cuda,
    m: msg::TensorMapAddress<'_>,
) -> Result<Encoded, Fail> {
    let mut map: CUtensorMap = plain(m.map)?;
    // SAFETY: a live structure; the address is not followed.
    check(unsafe {
        w.driver
            .cuTensorMapReplaceAddress(&mut map, m.address as *mut _)
    })?;
    let changed = busbar_abi::bytes_of(&map);
    Ok(Encoded::of(&msg::TensorMapAddressReply { changed }))
}
