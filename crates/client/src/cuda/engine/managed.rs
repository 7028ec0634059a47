//! Managed memory: allocation, hints, prefetch, attachment. How both sides see it is the business
//! of [`super::shadow`].

use crate::cuda::state::ranges::{Range, pages};
use std::ffi::c_void;

/// Takes the pages of managed memory from the program.
pub fn close(r: &Range) {
    let len = pages(r.size) as usize;
    let p = r.base as *mut c_void;
    // Closed while it is nobody's, so that its neighbours in the granule do not hide a mistake;
    // then as the next allocation expects it.
    // SAFETY: pages of ours that nobody uses any more.
    unsafe {
        libc::madvise(p, len, libc::MADV_DONTNEED);
        libc::mprotect(p, len, libc::PROT_READ);
    }
}
