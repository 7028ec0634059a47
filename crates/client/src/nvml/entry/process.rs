//! Programs that use a device.

use crate::nvml::life::{Cx, put_list, put_text};
use crate::nvml::machine::{self, Gpu};
use busbar_abi::nvml::*;
use std::ffi::c_char;

/// What NVML says of memory that it does not know.
const NOT_AVAILABLE: u64 = u64::MAX;
/// The instances of a device that is not cut into parts.
const NO_INSTANCES: u64 = u64::MAX;

/// The processes of this machine that use the device: of others an id would mean another process.
/// The first form has an id and bytes, the later ones have instances, too.
///
/// # Safety
/// As the API says.
pub unsafe fn running<const WORDS: usize>(
    _cx: Cx,
    g: &Gpu,
    count: *mut u32,
    out: *mut [u64; WORDS],
) -> Result {
    let mut all = machine::sessions(g.facts.server)?;
    all.retain(|s| s.here && s.api == "cuda" && s.devices.contains(&g.facts.ordinal));
    let row = |s: &busbar_control::status::Session| {
        let bytes = match s.devices[..] {
            [_] => s.holding.bytes(),
            _ => NOT_AVAILABLE,
        };
        let row = [s.pid as u64, bytes, NO_INSTANCES];
        std::array::from_fn(|i| row[i])
    };
    let list: Vec<[u64; WORDS]> = all.iter().map(row).collect();
    // SAFETY: passed on to the caller.
    unsafe { put_list(&list, count, out) }
}

/// The name of a process of this machine.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlSystemGetProcessName(_cx: Cx, pid: u32, out: *mut c_char, room: u32) -> Result {
    refuse_if(room == 0, NVML_ERROR_INVALID_ARGUMENT)?;
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).map_err(|_| NVML_ERROR_NOT_FOUND)?;
    let name = line.split(|b| *b == 0).next().unwrap_or_default();
    let name: String = String::from_utf8_lossy(name).into_owned();
    let fits = name.char_indices().map(|(i, c)| i + c.len_utf8());
    let end = fits.take_while(|n| *n < room as usize).last();
    // SAFETY: passed on to the caller.
    unsafe { put_text(out, room, &name[..end.unwrap_or(0)]) }
}
