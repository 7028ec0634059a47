//! The GPUs that a program has, in its order and with its part of their memory: what Busbar's NVML
//! tells it. It says of them what servers do, and of no others.

use crate::launch;
use crate::library::Library;
use anyhow::{Result, bail};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// One of them.
pub struct Own {
    /// `GPU-` and five groups.
    pub uuid: String,
    /// None where the server has no NVML to ask.
    pub memory: Option<Memory>,
}

/// Bytes, as NVML tells of them in its second version.
#[repr(C)]
#[derive(Default)]
pub struct Memory {
    version: u32,
    pub total: u64,
    pub reserved: u64,
    pub free: u64,
    pub used: u64,
}

/// What NVML says where no server has an NVIDIA GPU.
const NO_DRIVER: c_int = 9;

/// A device of NVML's.
type Handle = *mut c_void;

/// Asks NVML as a program does.
pub fn own() -> Result<Vec<Own>> {
    let nvml = Library::open(&launch::shims()?.cuda.join("libnvidia-ml.so.1"))?;
    // SAFETY: NVML's functions have these signatures.
    let (init, count, by_index, uuid, memory) = unsafe {
        (
            nvml.function::<unsafe extern "C" fn() -> c_int>(c"nvmlInit_v2")?,
            nvml.function::<unsafe extern "C" fn(*mut c_uint) -> c_int>(c"nvmlDeviceGetCount_v2")?,
            nvml.function::<unsafe extern "C" fn(c_uint, *mut Handle) -> c_int>(
                c"nvmlDeviceGetHandleByIndex_v2",
            )?,
            nvml.function::<unsafe extern "C" fn(Handle, *mut c_char, c_uint) -> c_int>(
                c"nvmlDeviceGetUUID",
            )?,
            nvml.function::<unsafe extern "C" fn(Handle, *mut Memory) -> c_int>(
                c"nvmlDeviceGetMemoryInfo_v2",
            )?,
        )
    };
    let done = |what: &str, rc: c_int| match rc {
        0 => Ok(()),
        rc => bail!("NVML's {what} fails with {rc}: `busbar doctor` finds out why"),
    };
    let mut all = Vec::new();
    let mut n = 0;
    // SAFETY: pointers to live places, of the lengths that are said.
    unsafe {
        match init() {
            NO_DRIVER => return Ok(all),
            rc => done("nvmlInit", rc)?,
        }
        done("nvmlDeviceGetCount", count(&mut n))?;
        for i in 0..n {
            let (mut device, mut text) = (std::ptr::null_mut(), [0; 96]);
            let mut bytes = Memory {
                version: size_of::<Memory>() as u32 | 2 << 24,
                ..Memory::default()
            };
            done("nvmlDeviceGetHandleByIndex", by_index(i, &mut device))?;
            let len = text.len() as c_uint - 1;
            done("nvmlDeviceGetUUID", uuid(device, text.as_mut_ptr(), len))?;
            let known = memory(device, &mut bytes) == 0;
            all.push(Own {
                uuid: CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned(),
                memory: known.then_some(bytes),
            });
        }
    }
    Ok(all)
}
