//! Settings of a device, as far as they are this process's own.

use super::device::read_fields;
use crate::nvml::counters::is_counter;
use crate::nvml::life::Cx;
use crate::nvml::machine::{self, Gpu};
use busbar_abi::nvml::*;

/// Has counters begin anew, for this process: others read them, too. Each field says whether it
/// is one.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceClearFieldValues(
    _cx: Cx,
    g: &Gpu,
    count: i32,
    values: *mut nvmlFieldValue_t,
) -> Result {
    let count = usize::try_from(count).map_err(|_| NVML_ERROR_INVALID_ARGUMENT)?;
    refuse_if(values.is_null(), NVML_ERROR_INVALID_ARGUMENT)?;
    // SAFETY: the caller's promise: so many values.
    let values = unsafe { std::slice::from_raw_parts_mut(values, count) };
    let counters = values.iter().filter(|v| is_counter(v.fieldId));
    let mut now: Vec<_> = counters
        .map(|v| nvmlFieldValue_t {
            fieldId: v.fieldId,
            scopeId: v.scopeId,
            ..busbar_abi::zeroed()
        })
        .collect();
    if !now.is_empty() {
        // SAFETY: values of ours.
        unsafe { read_fields(g, now.len() as i32, now.as_mut_ptr())? };
    }
    let mut now = now.iter();
    for v in values {
        let cleared = match is_counter(v.fieldId) {
            false => Err(NVML_ERROR_NOT_SUPPORTED),
            true => now.next().map_or(Err(NVML_ERROR_UNKNOWN), |now| {
                machine::own(|o| o.counters.clear(g.counter(v.fieldId, v.scopeId), now))
            }),
        };
        v.nvmlReturn = cleared.err().unwrap_or(NVML_SUCCESS);
    }
    Ok(())
}
