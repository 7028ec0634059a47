//! Device memory that the program has pages of, too.

use super::prelude::*;

pub fn memory_fence(w: &mut Cuda, _m: msg::MemoryFence) -> Result {
    w.ahead.wait_until_done();
    Ok(())
}

pub fn memory_told(_w: &mut Cuda, _m: msg::MemoryTold<'_>) -> Result<(), WireError> {
    // It goes the other way only.
    Err(WireError::BadValue("direction"))
}
