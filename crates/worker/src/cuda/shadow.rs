//! Device memory that the program has pages of, too.

use super::Cuda;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda as msg;

pub(super) fn memory_fence(w: &mut Cuda, _m: msg::MemoryFence) -> Result {
    w.ahead.settle();
    Ok(())
}
