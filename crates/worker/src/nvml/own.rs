//! How much device memory this process has, as the driver counts it.
//!
//! CUDA says what there is of a device, which neighbours change; NVML says what each process has.
//! Who has a part of a device asks here what its driver has taken beyond what it was asked for. An
//! answer takes some 20 us. NVML may hang where a device is broken, but then so does CUDA.

use super::library::{Handle, Nvml};
use std::ffi::{CStr, c_char};

/// `nvmlProcessInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Process {
    pid: u32,
    bytes: u64,
    parts: [u32; 2],
}

/// Where a driver does not say how much it is.
const UNKNOWN: u64 = u64::MAX;
/// The most processes of a device that are looked at.
const MOST: usize = 1024;

type Processes = unsafe extern "C" fn(Handle, *mut u32, *mut Process) -> u32;
type ByPlace = unsafe extern "C" fn(*const c_char, *mut Handle) -> u32;

/// NVML, for this process's own memory.
pub struct Own {
    /// Keeps the library.
    _nvml: Nvml,
    /// What lists processes, and what lists those that share a device densely (MPS).
    lists: [Option<Processes>; 2],
    by_place: ByPlace,
}

// SAFETY: functions of a library that any thread may call.
unsafe impl Send for Own {}
// SAFETY: as above.
unsafe impl Sync for Own {}

/// A device, as NVML knows it.
#[derive(Clone, Copy)]
pub struct Device(Handle);

// SAFETY: a name that any thread may use.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Own {
    /// Loads NVML, if there is one; `path` is that of another than the system's.
    pub fn load(path: Option<&str>) -> Option<Self> {
        let nvml = Nvml::load(path).ok()?;
        Some(Self {
            lists: [
                nvml.find(c"nvmlDeviceGetComputeRunningProcesses_v3"),
                nvml.find(c"nvmlDeviceGetMPSComputeRunningProcesses_v3"),
            ],
            by_place: nvml.find(c"nvmlDeviceGetHandleByPciBusId_v2")?,
            _nvml: nvml,
        })
    }

    /// The device at a place of the PCI bus.
    pub fn device(&self, place: &CStr) -> Option<Device> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: a C string, and a pointer to a handle.
        let rc = unsafe { (self.by_place)(place.as_ptr(), &raw mut handle) };
        (rc == 0).then_some(Device(handle))
    }

    /// How many bytes of a device this process has; `None` where the driver does not say.
    pub fn bytes(&self, device: Device) -> Option<u64> {
        let mut lists = self.lists.iter().flatten();
        lists.find_map(|list| listed(*list, device))
    }
}

/// How many bytes a list says that this process has.
fn listed(list: Processes, device: Device) -> Option<u64> {
    let mut all = [Process::default(); MOST];
    let mut n = MOST as u32;
    // SAFETY: a device of NVML's, and room for as many as said.
    let rc = unsafe { list(device.0, &raw mut n, all.as_mut_ptr()) };
    let found = all.get(..n as usize).filter(|_| rc == 0)?;
    let own = found.iter().find(|p| p.pid == std::process::id())?;
    (own.bytes != UNKNOWN).then_some(own.bytes)
}
