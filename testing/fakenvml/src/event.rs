//! Events.

use crate::state::{Device, Event, INVALID_ARGUMENT, NOT_SUPPORTED, PROCESS, SUCCESS, put, valid};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

const TIMEOUT: u32 = 10;

/// The fields that make events happen.
pub const FIRST_FIELD: u64 = 60_000;
pub const LAST_FIELD: u64 = 60_063;

/// Single and double bit errors, Xids, clocks.
const SUPPORTED: u64 = 1 | 2 | 8 | 0x10;

/// What is told of a device, and from which event on.
type Registered = (Device, u64, usize);

/// What a set's handle points to.
type Set = Mutex<Vec<Registered>>;

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes an event happen.
pub fn happen(d: Device, kind: u64, data: u64) {
    lock(&PROCESS.events).push((d, kind, data));
}

/// The next event of a set.
fn next(set: &Set) -> Option<Event> {
    let events = lock(&PROCESS.events);
    let mut set = lock(set);
    let fits = |n: usize| {
        let (device, kind, _) = events[n];
        let is_told = |r: &Registered| r.0 == device && r.1 & kind != 0 && n >= r.2;
        set.iter().any(is_told)
    };
    let n = (0..events.len()).find(|n| fits(*n))?;
    for r in set.iter_mut() {
        r.2 = r.2.max(n + 1);
    }
    Some(events[n])
}

#[repr(C)]
pub struct Data {
    device: Device,
    kind: u64,
    data: u64,
    instances: [u32; 2],
}

/// As the API says.
///
/// # Safety
/// As the API says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetCreate(out: *mut *const Set) -> u32 {
    let set = Box::into_raw(Box::new(Set::default()));
    // SAFETY: passed on to the caller.
    unsafe { put(out, set) }
}

/// As the API says.
///
/// # Safety
/// As the API says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetFree(set: *mut Set) -> u32 {
    if set.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: the caller's promise: it was made above.
    drop(unsafe { Box::from_raw(set) });
    SUCCESS
}

/// As the API says.
///
/// # Safety
/// As the API says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetSupportedEventTypes(d: Device, out: *mut u64) -> u32 {
    if !valid(d) {
        return INVALID_ARGUMENT;
    }
    // SAFETY: passed on to the caller.
    unsafe { put(out, SUPPORTED) }
}

/// As the API says.
///
/// # Safety
/// As the API says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceRegisterEvents(d: Device, types: u64, set: *const Set) -> u32 {
    if !valid(d) || set.is_null() {
        return INVALID_ARGUMENT;
    }
    if types & !SUPPORTED != 0 {
        return NOT_SUPPORTED;
    }
    let newest = lock(&PROCESS.events).len();
    // SAFETY: the caller's promise: a set that was made above.
    lock(unsafe { &*set }).push((d, types, newest));
    SUCCESS
}

/// As the API says.
///
/// # Safety
/// As the API says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetWait_v2(set: *const Set, out: *mut Data, ms: u32) -> u32 {
    if set.is_null() {
        return INVALID_ARGUMENT;
    }
    let end = Instant::now() + Duration::from_millis(ms.into());
    loop {
        // SAFETY: the caller's promise: a set that was made above.
        if let Some((device, kind, data)) = next(unsafe { &*set }) {
            let data = Data {
                device,
                kind,
                data,
                instances: [u32::MAX; 2],
            };
            // SAFETY: passed on to the caller.
            return unsafe { put(out, data) };
        }
        if Instant::now() >= end {
            return TIMEOUT;
        }
        sleep(Duration::from_millis(5));
    }
}
