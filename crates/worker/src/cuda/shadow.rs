//! Device memory that the program has pages of, too.

use super::prelude::*;

pub(super) fn memory_fence(w: &mut Cuda, _m: msg::MemoryFence) -> Result {
    w.ahead.settle();
    Ok(())
}
