//! Processors and memory near a device: over a network, all of this machine's are as near.

use crate::nvml::life::Cx;
use crate::nvml::machine::Gpu;
use busbar_abi::nvml::*;

/// The numbers in a list of the kernel's: `0-3,8`.
fn numbers(list: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        all.extend(first..=last);
    }
    Some(all)
}

/// What there is of a kind on this machine: `cpu`, `node`.
fn online(kind: &str) -> Vec<usize> {
    let list = std::fs::read_to_string(format!("/sys/devices/system/{kind}/online"));
    list.ok()
        .and_then(|l| numbers(&l))
        .unwrap_or_else(|| vec![0])
}

/// Processors or memory near a device, as bits.
///
/// # Safety
/// As the API says.
pub unsafe fn affinity(
    _cx: Cx,
    _g: &Gpu,
    kind: &str,
    (set, words): (*mut u64, u32),
    scope: nvmlAffinityScope_t,
) -> Result {
    let none = set.is_null() || words == 0 || scope > 1;
    refuse_if(none, NVML_ERROR_INVALID_ARGUMENT)?;
    // SAFETY: the caller's promise: so many words.
    let set = unsafe { std::slice::from_raw_parts_mut(set, words as usize) };
    set.fill(0);
    for n in online(kind) {
        if let Some(word) = set.get_mut(n / 64) {
            *word |= 1 << (n % 64);
        }
    }
    Ok(())
}

/// Lets the calling thread run on each processor that is near a device.
pub fn anywhere(_cx: Cx, _g: &Gpu) -> Result {
    // SAFETY: zero bits are a set without processors; the calls get a pointer to it.
    let rc = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for n in online("cpu") {
            if n < libc::CPU_SETSIZE as usize {
                libc::CPU_SET(n, &mut set);
            }
        }
        libc::sched_setaffinity(0, size_of_val(&set), &set)
    };
    refuse_if(rc != 0, NVML_ERROR_UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel() {
        assert_eq!(numbers("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(numbers("0"), Some(vec![0]));
        assert_eq!(numbers("x"), None);
    }
}
