//! What MPS does, as far as a client sees it: a part of the processors. The daemon is a test's
//! (`testing/e2e/programs/mps_control.py`).

use crate::config;
use std::path::Path;

/// So many of a device's processors are for this process.
pub fn part(processors: i32) -> i32 {
    let folder = config::get("CUDA_MPS_PIPE_DIRECTORY").unwrap_or_default();
    let part = config::number("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").unwrap_or(100);
    match Path::new(&folder).join("control").exists() {
        true => (processors * part as i32 / 100).max(1),
        false => processors,
    }
}
