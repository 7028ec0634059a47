//! Counters that the program has cleared: at the server they count on, for whoever else reads them.

use busbar_abi::nvml::*;
use std::collections::BTreeMap;

/// Which of the program's servers has the GPU, its UUID, the field, and what of it.
pub type Key = (usize, String, u32, u32);

/// The field of [`PCIE_REPLAYS`]' number alone.
pub const PCIE_REPLAYS: u32 = 94;

/// Where this process has cleared counters.
#[derive(Default)]
pub struct Counters(BTreeMap<Key, u64>);

/// Whether a field counts what can be cleared: errors of NVLinks and of PCIe, and bytes.
pub fn is_counter(field: u32) -> bool {
    matches!(
        field,
        // Of an NVLink: CRC of flits and of data, replays and recoveries, each by link and in all.
        32..=59 | 96..=119
        // PCIe replays, and rollovers of their number.
        | 94 | 95
        // ECC of an NVLink's data, and what its link layer has met.
        | 148..=160 | 161..=163
        // PCIe recoveries, errors by kind, bytes sent and received.
        | 169 | 173..=183 | 197 | 198
        // Of a later NVLink: errors by kind, recoveries, effective errors and symbols.
        | 206..=215 | 219 | 221
    )
}

/// The bits of a value that are a whole number, and the greatest that it can be.
fn bits(value: &nvmlFieldValue_t) -> Option<(u64, u64)> {
    let (unsigned, signed) = (|m: u64| Some((m, m)), |m: u64| Some((m, m >> 1)));
    match value.valueType {
        1 => unsigned(u32::MAX.into()),
        2 | 3 => unsigned(u64::MAX),
        4 => signed(u64::MAX),
        5 => signed(u32::MAX.into()),
        6 => unsigned(u16::MAX.into()),
        _ => None,
    }
}

/// A value that is a whole number, and not negative.
fn number(value: &nvmlFieldValue_t) -> Option<u64> {
    let (mask, most) = bits(value)?;
    Some(value.value & mask).filter(|n| *n <= most)
}

impl Counters {
    /// What a counter that the server says is at `now` shows the program.
    pub fn shown(&self, key: &Key, now: u64) -> u64 {
        now.saturating_sub(self.0.get(key).copied().unwrap_or(0))
    }

    /// Makes a value that the server said that which the program sees.
    pub fn show(&self, key: &Key, value: &mut nvmlFieldValue_t) {
        let known = value.nvmlReturn == NVML_SUCCESS && self.0.contains_key(key);
        let Some(now) = number(value).filter(|_| known) else {
            return;
        };
        let (mask, _) = bits(value).unwrap_or_default();
        value.value = value.value & !mask | self.shown(key, now);
    }

    /// From now on a counter begins at a value that the server said.
    pub fn clear(&mut self, key: Key, value: &nvmlFieldValue_t) -> Result {
        refuse_if(value.nvmlReturn != NVML_SUCCESS, value.nvmlReturn)?;
        self.0
            .insert(key, number(value).ok_or(NVML_ERROR_NOT_SUPPORTED)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(r#type: u32, bits: u64) -> nvmlFieldValue_t {
        nvmlFieldValue_t {
            valueType: r#type,
            value: bits,
            ..busbar_abi::zeroed()
        }
    }

    fn key(scope: u32) -> Key {
        (0, "a".into(), 94, scope)
    }

    #[test]
    fn what_was_before_is_not_shown() {
        for (kind, above) in [
            (1, 0xabcd << 32),
            (2, 0),
            (3, 0),
            (4, 0),
            (5, 0xabcd << 32),
            (6, 0xabcd << 16),
        ] {
            let mut counters = Counters::default();
            let see = |counters: &Counters, scope, n: u64| {
                let mut v = value(kind, n | above);
                counters.show(&key(scope), &mut v);
                v.value
            };
            assert_eq!(see(&counters, 0, 7), 7 | above);
            counters.clear(key(0), &value(kind, 7 | above)).unwrap();
            assert_eq!(see(&counters, 0, 7), above, "{kind}");
            assert_eq!(see(&counters, 0, 10), 3 | above, "{kind}");
            // Another link's, and one that somebody has set back.
            assert_eq!(see(&counters, 1, 10), 10 | above);
            assert_eq!(see(&counters, 0, 5), above);
            counters.clear(key(0), &value(kind, 10 | above)).unwrap();
            assert_eq!(see(&counters, 0, 12), 2 | above, "{kind}");
        }
    }

    #[test]
    fn what_is_no_number_stays() {
        let mut counters = Counters::default();
        let double = value(0, 1.5_f64.to_bits());
        let refused = counters.clear(key(0), &double);
        assert_eq!(refused, Err(NVML_ERROR_NOT_SUPPORTED));
        let minus = value(5, 0xffff_ffff);
        assert_eq!(counters.clear(key(0), &minus), refused);
        let mut missing = value(3, 7);
        missing.nvmlReturn = NVML_ERROR_NO_PERMISSION;
        let refused = counters.clear(key(0), &missing);
        assert_eq!(refused, Err(NVML_ERROR_NO_PERMISSION));
        counters.clear(key(0), &value(3, 7)).unwrap();
        for mut v in [double, missing, minus] {
            let before = v.value;
            counters.show(&key(0), &mut v);
            assert_eq!(v.value, before);
        }
    }

    #[test]
    fn readings_are_no_counters() {
        // ECC mode, NVLinks' speed and number, energy, power, a link's power state.
        for field in [1, 2, 83, 84, 90, 91, 164, 165, 170, 185, 186, 196, 200, 234] {
            assert!(!is_counter(field), "{field}");
        }
        for field in [32, 59, PCIE_REPLAYS, 95, 119, 160, 173, 183, 198] {
            assert!(is_counter(field), "{field}");
        }
    }
}
