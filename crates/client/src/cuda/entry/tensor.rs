//! Tensor maps, which only the driver can read.

use super::prelude::*;

pub unsafe fn cuTensorMapReplaceAddress(
    cx: Cx,
    map: *mut CUtensorMap,
    address: *mut c_void,
) -> Result<()> {
    refuse_if(map.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let mut bytes = [0u8; size_of::<CUtensorMap>()];
    // SAFETY: the program's structure of that many bytes.
    unsafe { std::ptr::copy_nonoverlapping(map.cast(), bytes.as_mut_ptr(), bytes.len()) };
    let reply = cx.call(&msg::TensorMapAddress {
        map: &bytes,
        // Whether it lies well enough, the driver says.
        offset: (map as usize % align_of::<CUtensorMap>()) as u32,
        address: address as u64,
    })?;
    let changed = decode::<msg::TensorMapAddressReply<'_>>(&reply)?.changed;
    refuse_if(changed.len() != bytes.len(), CUDA_ERROR_UNKNOWN)?;
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(changed.as_ptr(), map.cast(), bytes.len()) };
    Ok(())
}
