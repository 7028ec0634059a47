//! What is live and what was done, for tests: leaks show as numbers that do not return.

use crate::state::event::EVENTS;
use crate::state::exec::EXECS;
use crate::state::function::KERNELS;
use crate::state::graph::GRAPHS;
use crate::state::launch::{LAUNCHED, RAN};
use crate::state::module::{LIBRARIES, MODULES};
use crate::state::stream::STREAMS;
use crate::state::vmm::{CREATED, RESERVED};
use crate::state::{context, memory, pool};
use std::sync::atomic::Ordering;

/// A number by its place: 0 launches accepted, 1 kernels run, 2 contexts, 3 streams, 4 events, 5
/// modules, 6 libraries, 7 kernels of libraries, 8 graphs, 9 executable graphs, 10 memory ranges,
/// 11 pools that programs made, 12 reserved address ranges, 13 created allocations. Any other place
/// is `u64::MAX`.
#[unsafe(no_mangle)]
pub extern "C" fn fakedev_stat(place: u32) -> u64 {
    let n = match place {
        0 => return LAUNCHED.load(Ordering::Relaxed),
        1 => return RAN.load(Ordering::Relaxed),
        2 => context::live(),
        3 => STREAMS.len(),
        4 => EVENTS.len(),
        5 => MODULES.len(),
        6 => LIBRARIES.len(),
        7 => KERNELS.len(),
        8 => GRAPHS.len(),
        9 => EXECS.len(),
        10 => memory::all().len(),
        11 => pool::live(),
        12 => RESERVED.lock().unwrap().len(),
        13 => CREATED.len(),
        _ => return u64::MAX,
    };
    n as u64
}
