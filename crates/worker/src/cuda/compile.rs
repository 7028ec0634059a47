//! What the compiler and the linker of the driver are told, and what they say.

use super::prelude::*;
use busbar_channel::alone;
use std::ffi::CStr;

/// Room for each of the compiler's logs.
const LOG: usize = 64 << 10;

/// More options than there are.
const MOST_OPTIONS: usize = 256;

/// Options of the compiler, with our own buffers for its logs.
#[derive(Default)]
pub struct Compile {
    keys: Vec<CUjit_option>,
    values: Vec<*mut c_void>,
    info: Vec<u8>,
    errors: Vec<u8>,
    started: Option<Instant>,
}

impl Compile {
    /// From the client's options: u32 key and u32 value, each.
    pub fn new(options: &[u8]) -> Result<Self> {
        let mut c = Self::without_logs(options)?;
        if options.is_empty() {
            return Ok(c);
        }
        c.info = vec![0; LOG];
        c.errors = vec![0; LOG];
        let (info, errors) = (c.info.as_mut_ptr() as usize, c.errors.as_mut_ptr() as usize);
        for (k, v) in [(3, info), (4, LOG), (5, errors), (6, LOG)] {
            c.keys.push(k as CUjit_option);
            c.values.push(std::ptr::without_provenance_mut(v));
        }
        Ok(c)
    }

    /// The same, where the logs are another's.
    pub fn without_logs(options: &[u8]) -> Result<Self> {
        let mut c = Self::default();
        let (pairs, []) = options.as_chunks::<8>() else {
            return Err(CUDA_ERROR_INVALID_VALUE);
        };
        let mut add = |k: u32, v: usize| {
            c.keys.push(k as CUjit_option);
            c.values.push(std::ptr::without_provenance_mut(v));
        };
        let number = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        // Only options whose value is a number: with the others the driver would follow what the
        // client sends as an address, and of unknown ones nobody can say what they are.
        let is_number = |k: &u32| matches!(k, 0 | 1 | 7..=16 | 20..=24 | 29..=35);
        for p in pairs.iter().take(MOST_OPTIONS) {
            let (k, v) = (number(&p[..4]), number(&p[4..]));
            if is_number(&k) {
                add(k, v as usize);
            }
        }
        Ok(c)
    }

    /// The arrays that the driver wants; compiling begins now.
    pub fn arrays(&mut self) -> (&mut Vec<CUjit_option>, &mut Vec<*mut c_void>) {
        self.started = Some(Instant::now());
        (&mut self.keys, &mut self.values)
    }

    /// What the compiler had to say.
    pub fn info(&self) -> &[u8] {
        CStr::from_bytes_until_nul(&self.info).map_or(&[], CStr::to_bytes)
    }

    /// What the compiler found wrong.
    pub fn errors(&self) -> &[u8] {
        CStr::from_bytes_until_nul(&self.errors).map_or(&[], CStr::to_bytes)
    }

    /// How long it has taken; nothing where everything is to be the same each time.
    pub fn wall_ms(&self) -> f32 {
        self.started
            .filter(|_| !alone::is_set())
            .map_or(0.0, |t| t.elapsed().as_secs_f32() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(options: &[(u32, u32)]) -> Vec<(CUjit_option, usize)> {
        let bytes: Vec<u8> = options
            .iter()
            .flat_map(|(k, v)| [k.to_le_bytes(), v.to_le_bytes()].concat())
            .collect();
        let c = Compile::without_logs(&bytes).unwrap();
        let values = c.values.iter().map(|v| v.addr());
        c.keys.iter().copied().zip(values).collect()
    }

    #[test]
    fn no_option_is_passed_on_whose_value_the_driver_would_take_for_an_address() {
        const ADDRESS: u32 = 0x4141_4141;
        for k in [
            CU_JIT_WALL_TIME,
            CU_JIT_INFO_LOG_BUFFER,
            CU_JIT_ERROR_LOG_BUFFER,
            CU_JIT_GLOBAL_SYMBOL_NAMES,
            CU_JIT_GLOBAL_SYMBOL_ADDRESSES,
            CU_JIT_REFERENCED_KERNEL_NAMES,
            CU_JIT_REFERENCED_VARIABLE_NAMES,
            1000,
            u32::MAX,
        ] {
            assert_eq!(told(&[(k, ADDRESS)]), [], "option {k}");
        }
        let numbers = [(CU_JIT_MAX_REGISTERS, 32), (CU_JIT_OPTIMIZATION_LEVEL, 4)];
        let passed = numbers.map(|(k, v)| (k, v as usize));
        assert_eq!(told(&numbers), passed);
        assert!(Compile::new(&[0; 7]).is_err(), "half an option");
    }

    #[test]
    fn logs_are_written_to_buffers_of_the_workers_own() {
        let own = [3u32.to_le_bytes(), 1u32.to_le_bytes()].concat();
        let mut c = Compile::new(&own).unwrap();
        let info = c.info.as_mut_ptr().addr();
        let (keys, values) = c.arrays();
        let at = keys.iter().position(|k| *k == CU_JIT_INFO_LOG_BUFFER);
        assert_eq!(values[at.unwrap()].addr(), info);
        assert_eq!(
            keys.iter()
                .filter(|k| **k == CU_JIT_INFO_LOG_BUFFER)
                .count(),
            1
        );
    }
}
