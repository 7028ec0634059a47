//! Addresses that are kept free for the program's.
//!
//! What stands for memory that the program has registered lies here at the program's own address:
//! then a pointer to it is good wherever a kernel finds it. Linux puts what a process maps below
//! the end of its addresses, within a terabyte, at random, the program's memory there as well as
//! what is mapped here. The vendor's driver maps so much that it would often be in the way. So
//! before it is loaded all of that region is taken but for a little, and what the driver maps comes
//! below.

use crate::prelude::*;
use std::ops::Range;

/// The region begins here: a program has to map terabytes to come so far down.
const FROM: u64 = 0x7c00_0000_0000;
/// So much is left below what is mapped already, for stacks and the like.
const LITTLE: u64 = 1 << 30;
const PAGE: u64 = 4096;

/// What is kept, and what of it is in use.
struct Kept {
    whole: Range<u64>,
    used: Mutex<Vec<Range<u64>>>,
}

static KEPT: OnceLock<Option<Kept>> = OnceLock::new();

/// Takes addresses, on which nothing is.
fn take(r: &Range<u64>) -> bool {
    let (at, len) = (r.start as *mut libc::c_void, (r.end - r.start) as usize);
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let how = how | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping that replaces nothing and that nobody may touch.
    let p = unsafe { libc::mmap(at, len, libc::PROT_NONE, how, -1, 0) };
    if p != libc::MAP_FAILED && p != at {
        // A kernel that does not know the last flag.
        // SAFETY: the mapping just made.
        unsafe { libc::munmap(p, len) };
    }
    p == at
}

/// Where the first of this process's mappings from an address on begins.
fn first_from(from: u64) -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let begin = |l: &str| u64::from_str_radix(l.split('-').next()?, 16).ok();
    maps.lines().filter_map(begin).find(|at| *at >= from)
}

/// Keeps the region free, from now on. Where that cannot be, a program may find its memory
/// elsewhere by its parameters alone.
pub fn keep() {
    KEPT.get_or_init(|| {
        if cfg!(not(target_arch = "x86_64")) {
            return None;
        }
        let end = first_from(FROM)?.checked_sub(LITTLE)? & !(PAGE - 1);
        let whole = FROM..end;
        let kept = !whole.is_empty() && take(&whole);
        kept.then(|| Kept {
            whole,
            used: Mutex::default(),
        })
    });
}

/// What of the region is in use, locked.
type Used = MutexGuard<'static, Vec<Range<u64>>>;

/// What of some addresses is kept, if any is.
fn part(at: u64, len: u64) -> Option<(Used, Range<u64>)> {
    let kept = KEPT.get()?.as_ref()?;
    let r = at.max(kept.whole.start)..at.saturating_add(len).min(kept.whole.end);
    (!r.is_empty()).then(|| (lock(&kept.used), r))
}

/// The program's memory is about to be mapped at some addresses, if nothing else of it is there.
pub fn open(at: u64, len: u64) {
    let Some((mut used, r)) = part(at, len) else {
        return;
    };
    if used.iter().any(|u| u.start < r.end && r.start < u.end) {
        return;
    }
    // SAFETY: nothing is there but what keeps it free.
    unsafe { libc::munmap(r.start as *mut _, (r.end - r.start) as usize) };
    used.push(r);
}

/// It is there no longer.
pub fn close(at: u64, len: u64) {
    let Some((mut used, r)) = part(at, len) else {
        return;
    };
    if let Some(i) = used.iter().position(|u| *u == r) {
        used.swap_remove(i);
        take(&r);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_programs_addresses_are_kept_and_given_to_it_alone() {
        keep();
        keep();
        let kept = KEPT.get().and_then(Option::as_ref).expect("room");
        let (at, len) = (kept.whole.end - 64 * PAGE, 4 * PAGE);
        let here = at..at + len;
        assert!(!take(&here), "it is kept");
        open(at, len);
        assert!(take(&here), "now it is free");
        // Another piece over it changes nothing, nor does its end.
        open(at + PAGE, len);
        close(at + PAGE, len);
        assert!(!take(&here), "what is there stays");
        // SAFETY: mapped above, and nobody's.
        unsafe { libc::munmap(at as *mut _, len as usize) };
        close(at, len);
        assert!(!take(&here), "kept again");
        // What reaches out of the region.
        let out = kept.whole.end - PAGE;
        open(out, 3 * PAGE);
        assert!(take(&(out..out + 3 * PAGE)));
        // SAFETY: as above.
        unsafe { libc::munmap(out as *mut _, 3 * PAGE as usize) };
        close(out, 3 * PAGE);
        assert!(!take(&(out..out + PAGE)));
    }
}
