//! Events. What happens to a device the server tells; of the machine's own, devices that come and
//! go, there are none while a program runs.

use crate::nvml::ask::{self, Arg};
use crate::nvml::life::{Cx, versioned};
use crate::nvml::machine::{self, Facts, Gpu};
use crate::nvml::sets::{Device, Told};
use busbar_abi::nvml::*;
use busbar_control::gpu::Event;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often is looked while somebody waits.
const PAUSE: Duration = Duration::from_millis(250);
/// The same where a server did not answer.
const PAUSE_AFTER_LOSS: Duration = Duration::from_secs(1);
/// The types of the machine's events: a device is unbound, and bound.
const OF_MACHINE: u64 = 1 | 2;

/// A set's name, as the program has it.
fn handle(set: u64) -> nvmlEventSet_t {
    set as usize as nvmlEventSet_t
}

fn name(set: nvmlEventSet_t) -> u64 {
    set as usize as u64
}

/// Makes a set of events of devices.
pub fn nvmlEventSetCreate(_cx: Cx) -> Result<nvmlEventSet_t> {
    Ok(handle(machine::own(|o| o.sets.create())))
}

/// Ends one.
pub fn nvmlEventSetFree(_cx: Cx, set: nvmlEventSet_t) -> Result {
    let there = machine::own(|o| o.sets.free(name(set)));
    refuse_if(!there, NVML_ERROR_INVALID_ARGUMENT)
}

/// Has a set tell what happens to a device from now on, of these types.
pub fn nvmlDeviceRegisterEvents(_cx: Cx, g: &Gpu, types: u64, set: nvmlEventSet_t) -> Result {
    let there = machine::own(|o| o.sets.servers(name(set)).is_some());
    refuse_if(!there, NVML_ERROR_INVALID_ARGUMENT)?;
    if types == 0 {
        return Ok(());
    }
    let mut supported = 0u64;
    // SAFETY: a number of ours.
    unsafe {
        let args = [Arg::Device, ask::out(&raw mut supported)?];
        ask::ask(Some(g), "nvmlDeviceGetSupportedEventTypes", &args)?;
    }
    refuse_if(types & !supported != 0, NVML_ERROR_NOT_SUPPORTED)?;
    let Facts { server, uuid, .. } = &g.facts;
    let before = machine::events(*server)?;
    let newest = before.get(uuid).and_then(|all| all.last());
    let device = Device {
        server: *server,
        uuid: uuid.clone(),
        handle: g.handle() as usize,
    };
    let newest = newest.map_or(0, |e| e.number);
    let there = machine::own(|o| o.sets.register(name(set), device, types, newest));
    refuse_if(!there, NVML_ERROR_INVALID_ARGUMENT)
}

/// What a look at the servers brings.
enum Look {
    Found(usize, Event),
    Nothing,
    /// Nothing, and a server did not answer.
    Lost,
}

/// Looks once whether a set has something to tell. The servers are asked while nothing is locked.
fn look(set: u64) -> Result<Look> {
    let servers = machine::own(|o| o.sets.servers(set)).ok_or(NVML_ERROR_INVALID_ARGUMENT)?;
    let mut told = Told::new();
    let mut lost = false;
    for server in servers {
        match machine::events(server) {
            Ok(events) => drop(told.insert(server, events)),
            Err(_) => lost = true,
        }
    }
    let found = machine::own(|o| o.sets.take(set, &told)).ok_or(NVML_ERROR_INVALID_ARGUMENT)?;
    Ok(match found {
        Some((device, event)) => Look::Found(device, event),
        None if lost => Look::Lost,
        None => Look::Nothing,
    })
}

/// Waits for what a set tells. A server that does not answer is asked again while there is time:
/// it may be back, or another.
pub fn nvmlEventSetWait_v2(
    _cx: Cx,
    set: nvmlEventSet_t,
    timeoutms: u32,
) -> Result<nvmlEventData_t> {
    let end = Instant::now() + Duration::from_millis(timeoutms.into());
    loop {
        let (pause, nothing) = match look(name(set))? {
            Look::Found(device, event) => {
                return Ok(nvmlEventData_t {
                    device: device as nvmlDevice_t,
                    eventType: event.kind,
                    eventData: event.data,
                    gpuInstanceId: event.gpu_instance,
                    computeInstanceId: event.compute_instance,
                });
            }
            Look::Nothing => (PAUSE, NVML_ERROR_TIMEOUT),
            Look::Lost => (PAUSE_AFTER_LOSS, NVML_ERROR_GPU_IS_LOST),
        };
        let left = end.saturating_duration_since(Instant::now());
        refuse_if(left.is_zero(), nothing)?;
        sleep(left.min(pause));
    }
}

/// The same, in the first form of the structure.
pub fn nvmlEventSetWait(cx: Cx, set: nvmlEventSet_t, timeoutms: u32) -> Result<nvmlEventDataOld_t> {
    let data = nvmlEventSetWait_v2(cx, set, timeoutms)?;
    Ok(nvmlEventDataOld_t {
        device: data.device,
        eventType: data.eventType,
        eventData: data.eventData,
    })
}

/// Makes a set of the machine's events.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlSystemEventSetCreate(
    _cx: Cx,
    request: *mut nvmlSystemEventSetCreateRequest_t,
) -> Result {
    // SAFETY: passed on to the caller.
    let request = unsafe { versioned(request, 1)? };
    request.set = handle(machine::own(|o| o.sets.create_of_machine()));
    Ok(())
}

/// Ends one.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlSystemEventSetFree(
    _cx: Cx,
    request: *mut nvmlSystemEventSetFreeRequest_t,
) -> Result {
    // SAFETY: passed on to the caller.
    let set = name(unsafe { versioned(request, 1)? }.set);
    let there = machine::own(|o| o.sets.free_of_machine(set));
    refuse_if(!there, NVML_ERROR_INVALID_ARGUMENT)
}

/// Whether there is such a set of the machine's events.
fn of_machine(set: nvmlSystemEventSet_t) -> Result {
    let there = machine::own(|o| o.sets.is_of_machine(name(set)));
    refuse_if(!there, NVML_ERROR_INVALID_ARGUMENT)
}

/// Has a set tell the machine's events of these types.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlSystemRegisterEvents(
    _cx: Cx,
    request: *mut nvmlSystemRegisterEventRequest_t,
) -> Result {
    // SAFETY: passed on to the caller.
    let request = unsafe { versioned(request, 1)? };
    of_machine(request.set)?;
    let other = request.eventTypes & !OF_MACHINE != 0;
    refuse_if(other, NVML_ERROR_INVALID_ARGUMENT)
}

/// Waits for the machine's events: until the time is over.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlSystemEventSetWait(
    _cx: Cx,
    request: *mut nvmlSystemEventSetWaitRequest_t,
) -> Result {
    // SAFETY: passed on to the caller.
    let request = unsafe { versioned(request, 1)? };
    of_machine(request.set)?;
    let no_room = request.data.is_null() || request.dataSize == 0;
    refuse_if(no_room, NVML_ERROR_INVALID_ARGUMENT)?;
    request.numEvent = 0;
    sleep(Duration::from_millis(request.timeoutms.into()));
    Err(NVML_ERROR_TIMEOUT)
}
