//! What happens to the GPUs, told when it happens, from a thread that waits for it: a question to
//! NVML is never held up.

use super::library::{Handle, Nvml};
use busbar_abi::nvml::nvmlEventData_t;
use busbar_control::gpu::{Event, HAPPENING, Happening};
use std::ffi::c_void;
use std::io::Write;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Set = *mut c_void;
type Create = unsafe extern "C" fn(*mut Set) -> u32;
type Supported = unsafe extern "C" fn(Handle, *mut u64) -> u32;
type Register = unsafe extern "C" fn(Handle, u64, Set) -> u32;
type Wait = unsafe extern "C" fn(Set, *mut nvmlEventData_t, u32) -> u32;

/// How long NVML waits at a time.
const LONG: Duration = Duration::from_secs(5);
/// What NVML says of a part where there are no parts.
const NO_INSTANCE: u32 = u32::MAX;
/// The type of events that bring an Xid.
const XID: u64 = 8;
/// The Xids that a program brings about by itself: faults of its kernels and of its decoding, and
/// its end. Others of the GPU are not told of them.
const OF_PROGRAMS: [u64; 6] = [13, 31, 43, 45, 68, 109];

/// Tells what happens to these devices, which are named by their UUIDs, from now on, a line on
/// stdout each. An NVML without such functions tells nothing.
pub(super) fn watch(nvml: &Arc<Nvml>, devices: impl Iterator<Item = (String, Handle)>) {
    // A handle is a number to all but NVML.
    let devices: Vec<_> = devices.map(|(uuid, h)| (uuid, h as usize)).collect();
    let nvml = nvml.clone();
    let thread = std::thread::Builder::new().name("events".into());
    // Without the thread there are no events, and all else goes on.
    let _ = thread.spawn(move || tell_all(&nvml, &devices));
}

fn tell_all(nvml: &Nvml, devices: &[(String, usize)]) -> Option<()> {
    let create: Create = nvml.find(c"nvmlEventSetCreate")?;
    let supported: Supported = nvml.find(c"nvmlDeviceGetSupportedEventTypes")?;
    let register: Register = nvml.find(c"nvmlDeviceRegisterEvents")?;
    // The first form fills less.
    let names = [c"nvmlEventSetWait_v2", c"nvmlEventSetWait"];
    let wait: Wait = names.iter().find_map(|name| nvml.find(name))?;
    let mut set = null_mut();
    // SAFETY: a pointer to a live handle.
    (unsafe { create(&mut set) } == 0).then_some(())?;
    let registers = |(_, device): &(String, usize)| {
        let mut types = 0;
        // SAFETY: NVML's own handles, and a pointer to a live number.
        unsafe {
            supported(*device as Handle, &mut types) == 0
                && types != 0
                && register(*device as Handle, types, set) == 0
        }
    };
    let any = devices.iter().filter(|d| registers(d)).count();
    (any > 0).then_some(())?;
    loop {
        let mut data = nvmlEventData_t {
            device: null_mut(),
            eventType: 0,
            eventData: 0,
            gpuInstanceId: NO_INSTANCE,
            computeInstanceId: NO_INSTANCE,
        };
        let began = Instant::now();
        // SAFETY: NVML's own set, and a pointer to a live structure of the longest form.
        if unsafe { wait(set, &mut data, LONG.as_millis() as u32) } != 0 {
            // Nothing so far; or NVML cannot, and is asked again after as long.
            std::thread::sleep(LONG.saturating_sub(began.elapsed()));
            continue;
        }
        let of = devices.iter().find(|d| d.1 == data.device as usize);
        if let Some((uuid, _)) = of.filter(|_| !is_of_a_program(&data)) {
            tell(uuid, &data)?;
        }
    }
}

/// Whether a program has brought that about, and no fault of the device.
fn is_of_a_program(data: &nvmlEventData_t) -> bool {
    data.eventType == XID && OF_PROGRAMS.contains(&data.eventData)
}

/// Writes a line; nothing once nobody reads them.
fn tell(uuid: &str, data: &nvmlEventData_t) -> Option<()> {
    let happening = Happening {
        gpu: uuid.into(),
        event: Event {
            number: 0,
            kind: data.eventType,
            data: data.eventData,
            gpu_instance: data.gpuInstanceId,
            compute_instance: data.computeInstanceId,
        },
    };
    let text = serde_json::to_string(&happening).ok()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{HAPPENING}{text}").ok()?;
    out.flush().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: u64, value: u64) -> nvmlEventData_t {
        nvmlEventData_t {
            device: null_mut(),
            eventType: kind,
            eventData: value,
            gpuInstanceId: NO_INSTANCE,
            computeInstanceId: NO_INSTANCE,
        }
    }

    #[test]
    fn what_a_program_brings_about_is_no_fault_of_the_device() {
        for xid in OF_PROGRAMS {
            assert!(is_of_a_program(&of(XID, xid)), "{xid}");
            // The number means something else where it is no Xid.
            assert!(!is_of_a_program(&of(1, xid)), "{xid}");
        }
        for xid in [48, 63, 74, 79, 94, 119] {
            assert!(!is_of_a_program(&of(XID, xid)), "{xid}");
        }
    }
}
