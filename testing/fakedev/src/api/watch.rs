//! The way in for a simulated profiler's library.

use crate::state::watch::{self, Called, Told};

/// From now on `called` is asked for the number of each call that hands work in, and `told` hears
/// of the copies, fills and kernels that have come of it.
#[unsafe(no_mangle)]
pub extern "C" fn fakedev_watch(called: Called, told: Told) {
    watch::watch(called, told);
}
