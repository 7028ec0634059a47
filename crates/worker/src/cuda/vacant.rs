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

/// Maps addresses that nobody may touch, without memory: those on which nothing is, or, with
/// `MAP_FIXED`, in the place of what is there.
fn map(r: &Range<u64>, fixed: libc::c_int) -> bool {
    let (at, len) = (r.start as *mut libc::c_void, (r.end - r.start) as usize);
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: a new mapping that replaces nothing, or what the caller says may go.
    let p = unsafe { libc::mmap(at, len, libc::PROT_NONE, how, -1, 0) };
    if p != libc::MAP_FAILED && p != at {
        // A kernel that does not know of mappings that replace nothing.
        // SAFETY: the mapping just made.
        unsafe { libc::munmap(p, len) };
    }
    p == at
}

/// Takes addresses, on which nothing is.
fn take(r: &Range<u64>) -> bool {
    map(r, libc::MAP_FIXED_NOREPLACE)
}

/// Gives addresses back.
///
/// # Safety
/// What is there is the caller's, and nobody uses it.
unsafe fn give(r: &Range<u64>) {
    // SAFETY: passed on to the caller.
    unsafe { libc::munmap(r.start as *mut _, (r.end - r.start) as usize) };
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

/// The region, and what of it some addresses are.
type Inside = (&'static Kept, Range<u64>);

/// What of some addresses lies in the region, and what around it.
fn parts(at: u64, len: u64) -> (Option<Inside>, Vec<Range<u64>>) {
    let all = at..at.saturating_add(len);
    let Some(kept) = KEPT.get().and_then(Option::as_ref) else {
        return (None, vec![all]);
    };
    let Range { start, end } = kept.whole;
    let inside = all.start.max(start)..all.end.min(end);
    let around = [all.start..all.end.min(start), all.start.max(end)..all.end];
    let around = around.into_iter().filter(|r| !r.is_empty()).collect();
    ((!inside.is_empty()).then_some((kept, inside)), around)
}

/// Takes addresses on which nothing is for the program's memory, which is to be mapped in the place
/// of what keeps them. There is no moment at which somebody else could map something there: then
/// that would be in the way, or be unmapped with what is taken for ours. Whether nothing was there.
pub fn claim(at: u64, len: u64) -> bool {
    let (inside, around) = parts(at, len);
    let used = inside.as_ref().map(|(kept, r)| (lock(&kept.used), r));
    if let Some((used, r)) = &used
        && used.iter().any(|u| u.start < r.end && r.start < u.end)
    {
        return false;
    }
    for (i, r) in around.iter().enumerate() {
        if !take(r) {
            // SAFETY: just taken.
            around[..i].iter().for_each(|r| unsafe { give(r) });
            return false;
        }
    }
    if let Some((mut used, r)) = used {
        used.push(r.clone());
    }
    true
}

/// What is mapped at claimed addresses, or anywhere else, goes, and what was kept is kept again.
///
/// # Safety
/// Nobody uses what is there any more.
pub unsafe fn leave(at: u64, len: u64) {
    let (inside, around) = parts(at, len);
    // SAFETY: passed on to the caller.
    around.iter().for_each(|r| unsafe { give(r) });
    let Some((kept, r)) = inside else {
        return;
    };
    let mut used = lock(&kept.used);
    match used.iter().position(|u| *u == r) {
        Some(i) if map(&r, libc::MAP_FIXED) => _ = used.swap_remove(i),
        // What cannot be kept is nobody's to claim.
        // SAFETY: passed on to the caller.
        _ => unsafe { give(&r) },
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
        assert!(claim(at, len) && !take(&here), "nobody else's");
        assert!(!claim(at + PAGE, len) && !claim(at - PAGE, 2 * PAGE));
        // SAFETY: claimed, and used by nobody.
        unsafe { leave(at, len) };
        assert!(!take(&here), "kept again");
        // What reaches out of the region.
        let out = kept.whole.end - PAGE;
        let beyond = kept.whole.end..out + 3 * PAGE;
        assert!(take(&beyond));
        assert!(!claim(out, 3 * PAGE), "there is something");
        // SAFETY: just taken.
        unsafe { give(&beyond) };
        assert!(claim(out, 3 * PAGE));
        assert!(!take(&beyond));
        // SAFETY: claimed, and used by nobody.
        unsafe { leave(out, 3 * PAGE) };
        assert!(take(&beyond) && !take(&(out..out + PAGE)));
        // SAFETY: just taken.
        unsafe { give(&beyond) };
    }
}
