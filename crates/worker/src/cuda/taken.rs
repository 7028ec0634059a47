//! What a driver takes of a device beyond what it is asked for: variables of modules, local memory
//! of kernels, queues of streams, what executable graphs are made of. A session that has a part of
//! a device has all of that out of its part.
//!
//! What can be said before is said before: local memory is so many bytes for each thread that may
//! run. The rest is measured: NVML says what this process has, and what that is more than what is
//! counted, counts too. Where that is more than the part, the call that took it is
//! undone. A session without a part asks nothing of this.

use super::prelude::*;
use super::state::handles::Function;
use crate::memory::Charge;
use crate::nvml::own::{Device, Own, of_this_process};
use busbar_wire::generated::cuda::op;
use std::ffi::CStr;
use std::time::{Duration, Instant};

/// What each thread that may run has of a context from the beginning.
const STACK: u64 = 1024;
/// Drivers round that up to so many bytes.
const STEP: u64 = 16;
/// How old a measurement may be when memory is given; and of what was left then, as a divisor, how
/// much may have been given since: what is given may take more than is counted for it.
const FRESH: Duration = Duration::from_millis(50);
const GIVEN: u64 = 4;
/// What a driver takes at a time for its own purposes.
const ROOM: u64 = 2 << 20;

/// What was measured.
#[derive(Default)]
pub struct Taken {
    /// The library, if it is another than the system's.
    library: Option<String>,
    /// The devices, by physical ordinal, as NVML has them; none where it has not.
    devices: HashMap<i32, Option<Device>>,
    last: Option<Instant>,
    /// How much there was left then, and how much has been given since.
    left: u64,
    given: u64,
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
        if any { ROOM } else { 0 }
    }

    fn device(&mut self, d: &Driver, own: &Own, dev: i32) -> Option<Device> {
        let look = || {
            let mut place = [0; 32];
            // SAFETY: room for as many bytes as said.
            let rc = unsafe { d.cuDeviceGetPCIBusId(place.as_mut_ptr(), 32, dev) };
            // SAFETY: the driver ends what it writes.
            let place = (rc == CUDA_SUCCESS).then(|| unsafe { CStr::from_ptr(place.as_ptr()) })?;
            own.device(place)
        };
        *self.devices.entry(dev).or_insert_with(look)
    }
}

/// The most threads that run at a time on a device.
fn threads(d: &Driver, dev: i32) -> Result<u64> {
    let (mut each, mut processors) = (0, 0);
    let most = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;
    let number = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    // SAFETY: pointers to live numbers.
    unsafe {
        check(d.cuDeviceGetAttribute(&mut each, most, dev))?;
        check(d.cuDeviceGetAttribute(&mut processors, number, dev))?;
    }
    Ok(each.max(0) as u64 * processors.max(0) as u64)
}

/// Bytes of local memory of a kernel, for each thread.
fn local(d: &Driver, f: &Function, dev: i32) -> u64 {
    let mut bytes = 0;
    let which = CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;
    // SAFETY: a live function or kernel, and a pointer to a live number.
    let rc = unsafe {
        match f.kernel {
            true => d.cuKernelGetAttribute(&mut bytes, which, f.raw as CUkernel, dev),
            false => d.cuFuncGetAttribute(&mut bytes, which, f.raw as CUfunction),
        }
    };
    if rc == CUDA_SUCCESS {
        bytes.max(0) as u64
    } else {
        0
    }
}

impl Cuda {
    /// Measures what the driver has taken; whether the session has more than its part of a device.
    /// Pools and graphs give back what nobody uses first.
    pub fn measure(&mut self) -> bool {
        if !self.gate.is_limited() {
            return false;
        }
        let mut over = self.look();
        if over {
            self.trim_all();
            over = self.look();
        }
        over
    }

    fn look(&mut self) -> bool {
        let taken = &mut self.taken;
        (taken.last, taken.given) = (Some(Instant::now()), 0);
        let own = of_this_process(taken.library.as_deref());
        for dev in self.devices.iter().copied().filter(|dev| *dev >= 0) {
            let Some(own) = own else { break };
            let device = taken.device(self.driver, own, dev);
            let Some(bytes) = device.and_then(|d| own.bytes(d)) else {
                continue;
            };
            let promised = self.gate.of(Use::Graph).saturating_sub(self.graphs.there);
            self.gate.measured(dev, bytes.saturating_add(promised));
        }
        let left = self.devices.iter().map(|dev| self.gate.left(Some(*dev)));
        self.taken.left = left.flatten().min().unwrap_or(0);
        self.devices.iter().any(|dev| self.gate.is_over(Some(*dev)))
    }

    /// Measures again before memory is given, if that was long ago.
    #[inline]
    pub fn be_current(&mut self, bytes: u64) {
        if self.gate.is_limited() {
            let taken = &mut self.taken;
            taken.given = taken.given.saturating_add(bytes);
            let fresh = taken.last.is_some_and(|at| at.elapsed() < FRESH);
            if !fresh || taken.given > taken.left / GIVEN {
                self.look();
            }
        }
    }

    /// What the driver has just done has a price: `undo` takes it back if that is too much.
    pub fn afford(&mut self, undo: impl FnOnce(&Driver)) -> Result {
        if !self.measure() {
            return Ok(());
        }
        undo(self.driver);
        self.look();
        Err(CUDA_ERROR_OUT_OF_MEMORY)
    }

    /// Whether a record would have the driver take memory of which there is none left.
    pub fn has_no_room_for(&mut self, op: u16) -> bool {
        use op::{CU_GREEN_CTX_STREAM_CREATE, CU_STREAM_CREATE, CU_STREAM_CREATE_WITH_PRIORITY};
        let takes = matches!(
            op,
            CU_STREAM_CREATE | CU_STREAM_CREATE_WITH_PRIORITY | CU_GREEN_CTX_STREAM_CREATE
        );
        let on = self.current_device();
        let full = |w: &Self| w.gate.left(on).is_some_and(|left| left < ROOM);
        takes && self.gate.is_limited() && (self.measure() || full(self))
    }

    /// Takes what each thread of the current context is to have from now on; it goes with the
    /// context.
    pub fn charge_stacks(&mut self, each: u64) -> Result<Option<Arc<Charge>>> {
        let on = self.current_device();
        let more = each.next_multiple_of(STEP).saturating_sub(STACK);
        let bytes = more.saturating_mul(threads(self.driver, on.unwrap_or(0))?);
        // In the place of what it had, which is given back if there is enough.
        let key = ((Kind::Context, self.record.aux), 1 + CU_LIMIT_STACK_SIZE);
        let had = self.handles.uncharge(key.0, key.1);
        let charge = self.charge(Use::Heap, on, bytes);
        if let (Err(_), Some(had)) = (&charge, had) {
            self.handles.charge(key.0, key.1, had);
        }
        Ok(Some(charge?).filter(|_| bytes > 0).map(Arc::new))
    }

    /// A kernel is to be launched, or gets into a graph: its local memory is there with the first
    /// that needs as much.
    pub fn charge_locals(&mut self, function: u32) -> Result {
        let f = self.handles.function(function)?;
        let dev = self.current_device().unwrap_or(0);
        let (mut has, wants) = (0usize, local(self.driver, f, dev));
        // SAFETY: a pointer to a live number.
        check(unsafe { self.cuCtxGetLimit(&mut has, CU_LIMIT_STACK_SIZE) })?;
        if wants <= has as u64 {
            return Ok(());
        }
        let charge = self.charge_stacks(wants)?;
        if let Some(charge) = charge {
            let key = (Kind::Context, self.record.aux);
            self.handles.charge(key, 1 + CU_LIMIT_STACK_SIZE, charge);
        }
        Ok(())
    }
}
