//! What this machine has.

/// Bytes of its memory.
pub(crate) fn memory() -> u64 {
    // SAFETY: plain questions.
    let (pages, page) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    (pages.max(0) as u64).saturating_mul(page.max(0) as u64)
}
