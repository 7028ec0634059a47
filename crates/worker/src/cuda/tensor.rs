//! Tensor maps.

use super::prelude::*;

const SIZE: usize = size_of::<CUtensorMap>();

/// Room for a tensor map that lies as the program's does.
#[repr(align(128))]
struct Room([u8; 2 * SIZE]);

pub fn tensor_map_address(w: &mut Cuda, m: msg::TensorMapAddress<'_>) -> Result<Encoded, Fail> {
    let at = m.offset as usize;
    if m.map.len() != SIZE || at >= SIZE {
        return Err(WireError::BadValue("structure").into());
    }
    let mut room = Room([0; 2 * SIZE]);
    room.0[at..at + SIZE].copy_from_slice(m.map);
    let map = room.0[at..].as_mut_ptr().cast();
    // SAFETY: a live structure; the address is not followed.
    check(unsafe { w.cuTensorMapReplaceAddress(map, m.address as *mut _) })?;
    let changed = &room.0[at..at + SIZE];
    Ok(Encoded::of(&msg::TensorMapAddressReply { changed }))
}
