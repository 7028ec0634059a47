//! Functions and kernels: what is known of them, and what can be set.

use super::handle::Table;
use super::image::{Kernel, Params};
use crate::ffi::*;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

/// All functions, by handle.
pub static FUNCTIONS: Table<Function> = Table::new();
/// All kernels of libraries, by handle.
pub static KERNELS: Table<KernelHandle> = Table::new();

const MAX_DYNAMIC_SHARED: i32 = 8;
const DEFAULT_DYNAMIC_SHARED: i32 = 48 << 10;
/// The most shared memory of a block.
pub const MAX_SHARED: i32 = 232_448;
const REGISTERS: i32 = 32;

/// Attributes that were set.
#[derive(Default)]
pub struct Attributes(Mutex<HashMap<i32, i32>>);

impl Attributes {
    /// An attribute's value, of a kernel.
    pub fn get(&self, which: i32, kernel: &Kernel) -> R<i32> {
        if let Some(value) = self.0.lock().unwrap().get(&which) {
            return Ok(*value);
        }
        match which {
            0 => Ok(1024),
            1 | 2 => Ok(0),
            3 => Ok(kernel.local as i32),
            4 => Ok(REGISTERS),
            5 | 6 => Ok(90),
            7 => Ok(0),
            MAX_DYNAMIC_SHARED => Ok(DEFAULT_DYNAMIC_SHARED),
            9 => Ok(-1),
            10..=15 => Ok(0),
            _ => Err(INVALID_VALUE),
        }
    }

    /// Sets an attribute.
    pub fn set(&self, which: i32, value: i32) -> Res {
        let fits = match which {
            MAX_DYNAMIC_SHARED => (0..=MAX_SHARED).contains(&value),
            9 => (-1..=100).contains(&value),
            11..=15 => value >= 0,
            _ => false,
        };
        if !fits {
            return Err(INVALID_VALUE);
        }
        self.0.lock().unwrap().insert(which, value);
        Ok(())
    }

    /// Sets what is set in others.
    pub fn extend(&self, others: &Attributes) {
        let set = others.0.lock().unwrap().clone();
        self.0.lock().unwrap().extend(set);
    }
}

/// Attributes that were set for each device.
#[derive(Default)]
pub struct ByDevice(Mutex<HashMap<CUdevice, Arc<Attributes>>>);

impl ByDevice {
    /// A device's.
    pub fn of(&self, device: CUdevice) -> Arc<Attributes> {
        self.0.lock().unwrap().entry(device).or_default().clone()
    }
}

/// A function of a module.
pub struct Function {
    /// Its handle.
    pub handle: usize,
    /// Its name.
    pub name: CString,
    /// Its module's handle.
    pub module: usize,
    /// Its context's handle.
    pub context: usize,
    /// What it does.
    pub kernel: Kernel,
    /// What was set on it.
    pub attributes: Attributes,
    /// The handle of the library's kernel that it is.
    pub of: OnceLock<usize>,
}

/// A kernel of a library.
pub struct KernelHandle {
    /// Its handle.
    pub handle: usize,
    /// Its name.
    pub name: CString,
    /// Its library's handle.
    pub library: usize,
    /// What it does.
    pub kernel: Kernel,
    /// What was set on it.
    pub attributes: ByDevice,
    /// Somebody has asked what it is like: its code is loaded.
    pub asked: AtomicBool,
}

/// Where each parameter lies in the packed buffer.
pub fn layout(params: &Params) -> Vec<(usize, usize)> {
    let mut at: usize = 0;
    let place = |(size, align): &(usize, usize)| {
        let offset = at.next_multiple_of(*align);
        at = offset + size;
        (offset, *size)
    };
    params.iter().map(place).collect()
}
