//! Coarse-grained shared virtual memory.

/// Whether a range lies in shared virtual memory of ours.
pub fn holds(_at: usize, _size: usize) -> bool {
    false
}
