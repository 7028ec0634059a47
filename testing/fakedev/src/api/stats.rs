//! What is live and what was done, for tests.

use crate::state::launch::{LAUNCHED, RAN};
use crate::state::{checkpoint, context, device, live};
use std::sync::atomic::Ordering;

/// How many bytes of a device this process has, as NVML counts them: the driver's own tables, for
/// all contexts together, are 512 MiB. NVML waits where the driver does.
#[unsafe(no_mangle)]
pub extern "C" fn fakedev_taken(ordinal: u32) -> u64 {
    const OWN: usize = 512 << 20;
    checkpoint::enter("");
    let Ok(number) = device::by_ordinal(ordinal as i32) else {
        return 0;
    };
    let used = device::get(number).used();
    let own = if context::live() > 0 { OWN } else { 0 };
    (own + used) as u64
}

/// A number by its place: 0 launches accepted, 1 kernels run, and from 2 on what [`live::counts`]
/// counts. Any other place is `u64::MAX`.
#[unsafe(no_mangle)]
pub extern "C" fn fakedev_stat(place: u32) -> u64 {
    match place {
        0 => LAUNCHED.load(Ordering::Relaxed),
        1 => RAN.load(Ordering::Relaxed),
        _ => live::counts()
            .get(place as usize - 2)
            .map_or(u64::MAX, |(_, n)| *n as u64),
    }
}
