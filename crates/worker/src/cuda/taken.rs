//! What a driver takes of a device beyond what it is asked for: variables of modules, local memory
//! of kernels, queues of streams, what executable graphs are made of. A session that has a part of
//! a device has all of that out of its part.
//!
//! What can be said before is said before: local memory is so many bytes for each thread that may
//! run (`locals`). The rest is measured: NVML says what this process has, and what that is more
//! than what is counted, counts too. Where that is more than the part, the call that took it is
//! undone. A session without a part asks nothing of this.

use super::prelude::*;
use crate::nvml::own::{Device, Own};
use std::ffi::CStr;
use std::time::{Duration, Instant};

/// How old a measurement may be when memory is given.
const FRESH: Duration = Duration::from_millis(50);
/// What a driver takes of a device at a time.
pub const BLOCK: u64 = 2 << 20;

/// What was measured.
#[derive(Default)]
pub struct Taken {
    /// NVML's library, if it is another than the system's.
    library: Option<String>,
    /// NVML, once it was asked for; none where there is none.
    own: Option<Option<Own>>,
    /// The devices, by physical ordinal, as NVML has them; none where it has not.
    devices: HashMap<i32, Option<Device>>,
    last: Option<Instant>,
}

impl Taken {
    /// `library` is NVML's, if it is another than the system's.
    pub fn new(library: Option<String>) -> Self {
        Self {
            library,
            ..Self::default()
        }
    }

    /// What is left of a device for what the driver takes in passing; nothing where that is not
    /// measured.
    pub fn tables(&self) -> u64 {
        let any = self.devices.values().any(Option::is_some);
        if any { BLOCK } else { 0 }
    }

    /// What NVML says that this process has of these devices, as far as it says.
    pub fn read(&mut self, d: &Driver, devices: &[i32]) -> Vec<(i32, u64)> {
        self.last = Some(Instant::now());
        let library = self.library.as_deref();
        let own = self.own.get_or_insert_with(|| Own::load(library));
        let Some(own) = own else { return Vec::new() };
        let mut said = |dev: i32| {
            let known = self.devices.entry(dev);
            let device = (*known.or_insert_with(|| named(d, own, dev)))?;
            Some((dev, own.bytes(device)?))
        };
        let physical = devices.iter().copied().filter(|dev| *dev >= 0);
        physical.filter_map(&mut said).collect()
    }

    /// What was measured is no longer so.
    pub fn expire(&mut self) {
        self.last = None;
    }

    /// Whether what was measured is too old to rely on.
    pub fn is_old(&self) -> bool {
        self.last.is_none_or(|at| at.elapsed() >= FRESH)
    }
}

/// A device, by its physical ordinal, as NVML has it.
pub fn named(d: &Driver, own: &Own, dev: i32) -> Option<Device> {
    let mut place = [0; 32];
    // SAFETY: room for as many bytes as said.
    let rc = unsafe { d.cuDeviceGetPCIBusId(place.as_mut_ptr(), 32, dev) };
    // SAFETY: the driver ends what it writes.
    let place = (rc == CUDA_SUCCESS).then(|| unsafe { CStr::from_ptr(place.as_ptr()) })?;
    own.device(place)
}
