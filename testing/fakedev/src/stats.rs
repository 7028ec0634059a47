//! What is live and what was done, for tests: leaks show as numbers that do not return.

use crate::event::EVENTS;
use crate::function::KERNELS;
use crate::graph::{EXECS, GRAPHS};
use crate::memory;
use crate::module::{LIBRARIES, MODULES};
use crate::stream::STREAMS;
use crate::{device, pool, vmm};
use std::sync::atomic::{AtomicU64, Ordering};

static LAUNCHED: AtomicU64 = AtomicU64::new(0);
static RAN: AtomicU64 = AtomicU64::new(0);

/// Counts a launch that was accepted outside of a graph, or captured.
pub fn launched() {
    LAUNCHED.fetch_add(1, Ordering::Relaxed);
}

/// Counts a kernel that ran.
pub fn ran() {
    RAN.fetch_add(1, Ordering::Relaxed);
}

/// A number by its place: 0 launches accepted, 1 kernels run, 2 contexts, 3 streams, 4 events, 5
/// modules, 6 libraries, 7 kernels of libraries, 8 graphs, 9 executable graphs, 10 memory ranges,
/// 11 pools, 12 reserved address ranges, 13 created allocations. Any other place is `u64::MAX`.
#[unsafe(no_mangle)]
pub extern "C" fn fakedev_stat(place: u32) -> u64 {
    let n = match place {
        0 => return LAUNCHED.load(Ordering::Relaxed),
        1 => return RAN.load(Ordering::Relaxed),
        2 => device::live_contexts(),
        3 => STREAMS.len(),
        4 => EVENTS.len(),
        5 => MODULES.len(),
        6 => LIBRARIES.len(),
        7 => KERNELS.len(),
        8 => GRAPHS.len(),
        9 => EXECS.len(),
        10 => memory::all().len(),
        11 => pool::live(),
        12 => vmm::reserved(),
        13 => vmm::created(),
        _ => return u64::MAX,
    };
    n as u64
}
