//! What a program can ask of its programs: their sources, binaries, kernels and builds.

use super::entry::{self, Plain, Result};
use super::object::{Object, get};
use super::program::Program;
use super::server::{LOST, decode, lock};
use busbar_abi::opencl::*;
use busbar_wire::generated::opencl as wire;

/// The most bytes of a program's binaries, whatever the server says.
const MOST_BINARIES: u64 = 1 << 30;

fn binary_sizes(p: &Object<Program>) -> Result<Vec<u64>> {
    if let Some(s) = &lock(&p.state).sizes {
        return Ok(s.clone());
    }
    let body = p.server.call(&wire::ProgramBinaries {
        program: p.id,
        bytes: 0,
    })?;
    let reply = decode::<wire::ProgramBinariesReply>(&body)?;
    let sizes = reply.sizes;
    let total = sizes.iter().try_fold(0u64, |all, n| all.checked_add(*n));
    let total = total.filter(|n| *n <= MOST_BINARIES).ok_or(LOST)?;
    if sizes.len() != p.devices.len() {
        return Err(LOST);
    }
    let mut s = lock(&p.state);
    if total == reply.data.len() as u64 {
        s.binaries = reply.data.to_vec();
    }
    s.sizes = Some(sizes.clone());
    Ok(sizes)
}

/// Stores the binaries where the program's pointers say.
///
/// # Safety
/// `to` has a pointer for each device, null or with room for that device's binary.
unsafe fn binaries(p: &Object<Program>, to: *const *mut u8) -> Result<()> {
    let sizes = binary_sizes(p)?;
    let total: u64 = sizes.iter().sum();
    let mut all = std::mem::take(&mut lock(&p.state).binaries);
    if all.len() as u64 != total {
        all = vec![0u8; total as usize];
        let msg = wire::ProgramBinaries {
            program: p.id,
            bytes: total,
        };
        p.server
            .call_into(&msg, Some((all.as_mut_ptr(), all.len())))?;
    }
    if let Some(outcome) = p.outcome() {
        lock(&p.server.given).add(&sizes, &all, outcome);
    }
    let mut at = 0;
    for (i, n) in sizes.iter().enumerate() {
        let n = *n as usize;
        // SAFETY: passed on to the caller.
        unsafe {
            let place = *to.add(i);
            if !place.is_null() {
                std::ptr::copy_nonoverlapping(all[at..at + n].as_ptr(), place, n);
            }
        }
        at += n;
    }
    Ok(())
}

/// `clGetProgramInfo`.
pub unsafe extern "C" fn get_program_info(
    program: Handle,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    // SAFETY: the program's handle and memory, here and below.
    entry::status(|| unsafe {
        let p = get::<Program>(program)?;
        let bytes = match param {
            CL_PROGRAM_REFERENCE_COUNT => p.count().plain(),
            CL_PROGRAM_CONTEXT => p.context.handle().plain(),
            CL_PROGRAM_NUM_DEVICES => (p.devices.len() as u32).plain(),
            CL_PROGRAM_DEVICES => p.devices.iter().flat_map(|d| d.handle().plain()).collect(),
            CL_PROGRAM_SOURCE => match p.source.last() {
                None if p.il.is_empty() => vec![0],
                None => vec![0],
                Some(0) => p.source.clone(),
                Some(_) => [&p.source[..], &[0]].concat(),
            },
            CL_PROGRAM_IL => p.il.clone(),
            CL_PROGRAM_BINARY_SIZES => binary_sizes(p)?.plain(),
            CL_PROGRAM_BINARIES => {
                let bytes = p.devices.len() * size_of::<usize>();
                if !value.is_null() {
                    if size < bytes {
                        return Err(CL_INVALID_VALUE);
                    }
                    binaries(p, value.cast())?;
                }
                entry::put(ret, bytes);
                return Ok(());
            }
            CL_PROGRAM_NUM_KERNELS => p.all_kernels()?.len().plain(),
            CL_PROGRAM_KERNEL_NAMES => {
                p.all_kernels()?;
                lock(&p.state).names.as_str().plain()
            }
            CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT | CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT => {
                false.plain()
            }
            _ => return Err(CL_INVALID_VALUE),
        };
        entry::answer(&bytes, size, value, ret)
    })
}

/// `clGetProgramBuildInfo`.
pub unsafe extern "C" fn get_program_build_info(
    program: Handle,
    device: Handle,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let p = unsafe { get::<Program>(program)? };
        let i = p
            .devices
            .iter()
            .position(|d| d.handle() == device)
            .ok_or(CL_INVALID_DEVICE)?;
        let b = lock(&p.state).builds[i].clone();
        let bytes = match param {
            CL_PROGRAM_BUILD_STATUS => b.status.plain(),
            CL_PROGRAM_BUILD_OPTIONS => b.options.as_str().plain(),
            CL_PROGRAM_BUILD_LOG if b.log.is_empty() => vec![0],
            CL_PROGRAM_BUILD_LOG => b.log,
            CL_PROGRAM_BINARY_TYPE => b.kind.plain(),
            CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE => (b.globals as usize).plain(),
            _ => return Err(CL_INVALID_VALUE),
        };
        // SAFETY: the program's memory, as it says.
        unsafe { entry::answer(&bytes, size, value, ret) }
    })
}
