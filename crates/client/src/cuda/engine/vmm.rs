//! Virtual memory management: addresses are reserved here, memory is made and mapped at the worker.

use super::prelude::*;
use crate::cuda::state::vmm::Allocation;

/// Makes memory known that the worker has under this id.
pub fn add(cx: Cx, id: u32, size: u64, props: &CUmemAllocationProp) {
    let made = Allocation {
        size,
        props: busbar_abi::bytes_of(props).to_vec(),
        device: location_id(&props.location),
        held: 1,
    };
    lock(&cx.state().vmm).allocations.insert(id, made);
}

/// The length of memory, and what it was asked for.
pub fn known(cx: Cx, id: u32) -> Result<(u64, CUmemAllocationProp)> {
    let s = lock(&cx.state().vmm);
    let a = s.allocations.get(&id);
    let a = a.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let props = busbar_abi::from_bytes(&a.props).ok_or(CUDA_ERROR_UNKNOWN)?;
    Ok((a.size, props))
}

/// Checks what a program asks of new memory: it must be a device's own. That another machine may
/// have it too is a wish that only the attempt to export it turns down.
pub fn check(cx: Cx, p: &CUmemAllocationProp) -> Result<()> {
    if p.r#type != CU_MEM_ALLOCATION_TYPE_PINNED {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if p.location.r#type != CU_MEM_LOCATION_TYPE_DEVICE {
        return Err(CUDA_ERROR_NOT_SUPPORTED);
    }
    cx.device(location_id(&p.location)).map(drop)
}

/// The device that a location names.
pub fn location_id(l: &CUmemLocation) -> CUdevice {
    busbar_abi::member::<[i32; 2], _>(l)[1]
}

/// Lets go of memory that is neither held nor mapped. Its handle stays known while it is mapped:
/// the program may ask for it back.
pub fn forget_unused(cx: Cx, id: u32) -> Result<()> {
    if !lock(&cx.state().vmm).take_unused(id) {
        return Ok(());
    }
    let sent = cx.send(&msg::VmmRelease { allocation: id });
    cx.destroy(Kind::Allocation, id);
    sent
}
