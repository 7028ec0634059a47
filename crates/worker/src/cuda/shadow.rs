//! Device memory that the program has pages of, too.

use super::Cuda;
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::generated::cuda as msg;
use busbar_wire::record::Header;

pub(super) fn memory_fence(
    w: &mut Cuda,
    h: &Header,
    _m: msg::MemoryFence,
) -> Result<(), WireError> {
    w.ahead.settle();
    w.done(h, CUDA_SUCCESS);
    Ok(())
}
