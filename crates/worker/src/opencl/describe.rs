//! What the client needs to know of platforms, devices, programs, kernels and images, put together
//! so that it asks once.

use super::cl::{ask, info};
use super::prelude::*;
use crate::memory::Gate;
use busbar_abi::opencl::ext::*;
use std::ops::RangeInclusive;

/// The longest single answer.
const MOST: usize = 256 << 10;

/// Device parameters: the core's, and where vendors have theirs.
const DEVICE: &[RangeInclusive<u32>] = &[
    0x1000..=0x10ff,
    0x4000..=0x4010,
    0x4030..=0x404f,
    0x4100..=0x4110,
];
/// Parameters whose answers are handles or counts of this process.
const OWN: &[u32] = &[
    CL_DEVICE_PLATFORM,
    CL_DEVICE_PARENT_DEVICE,
    CL_DEVICE_REFERENCE_COUNT,
];

/// The answers to those questions that have one.
fn answers(
    params: impl IntoIterator<Item = u32>,
    ask: impl Fn(u32) -> Result<Vec<u8>, i32>,
) -> Vec<(u32, Vec<u8>)> {
    let known = |param| Some((param, ask(param).ok()?));
    params.into_iter().filter_map(known).collect()
}

/// Writes a table: count, then parameter and answer.
fn table(w: &mut Writer<'_>, answers: &[(u32, Vec<u8>)]) {
    w.u32(answers.len() as u32);
    for (param, value) in answers {
        w.u32(*param);
        w.bytes(value);
    }
}

/// Handles from a call that takes room for them and says how many there are.
pub fn list(room: u32, f: impl Fn(u32, *mut Handle, *mut u32) -> i32) -> Vec<Handle> {
    let mut n = 0;
    let mut list = vec![std::ptr::null_mut(); room as usize];
    let code = f(room, list.as_mut_ptr(), &raw mut n);
    list.truncate(if code == CL_SUCCESS { n as usize } else { 0 });
    list
}

/// The platforms that a loader knows.
pub fn ask_loader(cl: &Cl) -> Vec<Handle> {
    // SAFETY: the list has room for as many as it says.
    list(64, |room, out, n| unsafe {
        (cl.clGetPlatformIDs)(room, out, n)
    })
}

/// All devices of a platform.
pub fn devices(cl: &Cl, platform: Handle) -> Vec<Handle> {
    // SAFETY: the list has room for as many as it says.
    list(256, |room, out, n| unsafe {
        (cl.clGetDeviceIDs)(platform, CL_DEVICE_TYPE_ALL, room, out, n)
    })
}

/// An answer of a platform.
pub fn platform_info(cl: &Cl, p: Handle, param: u32) -> Result<Vec<u8>, i32> {
    info(cl.clGetPlatformInfo, p, param, MOST)
}

/// An answer of a device.
pub fn device_info(cl: &Cl, d: Handle, param: u32) -> Result<Vec<u8>, i32> {
    refuse_if(OWN.contains(&param), CL_INVALID_VALUE)?;
    info(cl.clGetDeviceInfo, d, param, MOST)
}

/// Whether a device's kernels are machine code of the process that runs them.
pub fn is_processor(cl: &Cl, d: Handle) -> bool {
    let kind = device_info(cl, d, CL_DEVICE_TYPE).unwrap_or_default();
    let kind = kind.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
    kind & CL_DEVICE_TYPE_GPU == 0
}

/// Writes what there is to know of a platform.
pub fn platform(cl: &Cl, p: Handle, w: &mut Writer<'_>) {
    let params = CL_PLATFORM_PROFILE..=CL_PLATFORM_PROFILE + 0xf;
    let params = params.chain([CL_PLATFORM_ICD_SUFFIX_KHR]);
    table(w, &answers(params, |param| platform_info(cl, p, param)));
}

/// Writes what there is to know of a device.
pub fn device(cl: &Cl, id: u32, d: Handle, gate: &Gate, w: &mut Writer<'_>) {
    w.u32(id);
    let params = DEVICE.iter().cloned().flatten();
    let mut all = answers(params, |param| device_info(cl, d, param));
    // Of a session that may have a part, that is all there is.
    let memory = [CL_DEVICE_GLOBAL_MEM_SIZE, CL_DEVICE_MAX_MEM_ALLOC_SIZE];
    for (_, value) in all.iter_mut().filter(|(param, _)| memory.contains(param)) {
        if let Some(bytes) = value.first_chunk_mut() {
            *bytes = gate.part(u64::from_ne_bytes(*bytes)).to_ne_bytes();
        }
    }
    table(w, &all);
}

/// Writes what there is to know of an image.
pub fn image(cl: &Cl, m: Handle, w: &mut Writer<'_>) {
    let params = (CL_IMAGE_FORMAT..=CL_IMAGE_NUM_SAMPLES).filter(|p| *p != CL_IMAGE_BUFFER);
    let answers = answers(params.chain([CL_MEM_SIZE]), |param| match param {
        CL_MEM_SIZE => info(cl.clGetMemObjectInfo, m, param, 8),
        _ => info(cl.clGetImageInfo, m, param, MOST),
    });
    table(w, &answers);
}

fn number(v: Result<Vec<u8>, i32>) -> u64 {
    let v = v.unwrap_or_default();
    v.iter()
        .take(8)
        .rev()
        .fold(0, |n, b| n << 8 | u64::from(*b))
}

fn string(v: Vec<u8>) -> String {
    String::from_utf8_lossy(&v)
        .trim_end_matches('\0')
        .to_string()
}

/// An answer about a program's last build for a device.
pub fn build_info(cl: &Cl, p: Handle, d: Handle, param: u32) -> Result<Vec<u8>, i32> {
    // SAFETY: program and device are ours; `ask` gives matching sizes.
    ask(4 << 20, |n, v, r| unsafe {
        (cl.clGetProgramBuildInfo)(p, d, param, n, v, r)
    })
}

/// Writes what there is to know of a program on its devices; `log` may still change logs.
pub fn program(
    cl: &Cl,
    p: Handle,
    devices: &[(u32, Handle)],
    log: impl Fn(Vec<u8>) -> Vec<u8>,
    w: &mut Writer<'_>,
) {
    w.u32(devices.len() as u32);
    for (id, d) in devices {
        let info = |param| build_info(cl, p, *d, param);
        w.u32(*id);
        w.i32(number(info(CL_PROGRAM_BUILD_STATUS)) as i32);
        w.u32(number(info(CL_PROGRAM_BINARY_TYPE)) as u32);
        w.u64(number(info(CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE)));
        w.bytes(&log(info(CL_PROGRAM_BUILD_LOG).unwrap_or_default()));
    }
    let mut n = 0;
    // SAFETY: a program of ours; first the count, then a list of that length.
    let kernels = unsafe {
        let count = (cl.clCreateKernelsInProgram)(p, 0, std::ptr::null_mut(), &raw mut n);
        let mut list = vec![std::ptr::null_mut(); n as usize];
        if count == CL_SUCCESS && n > 0 {
            let code = (cl.clCreateKernelsInProgram)(p, n, list.as_mut_ptr(), std::ptr::null_mut());
            (code == CL_SUCCESS).then_some(list)
        } else {
            (count == CL_SUCCESS).then_some(list)
        }
    };
    let Some(kernels) = kernels else {
        w.u8(0);
        return;
    };
    w.u8(1);
    let names = info(cl.clGetProgramInfo, p, CL_PROGRAM_KERNEL_NAMES, MOST);
    w.str(&string(names.unwrap_or_default()));
    w.u32(kernels.len() as u32);
    for k in kernels {
        kernel(cl, k, devices, w);
        // SAFETY: made above.
        unsafe { (cl.clReleaseKernel)(k) };
    }
}

/// Writes what there is to know of a kernel.
pub fn kernel(cl: &Cl, k: Handle, devices: &[(u32, Handle)], w: &mut Writer<'_>) {
    let info = |param| info(cl.clGetKernelInfo, k, param, MOST);
    w.str(&string(info(CL_KERNEL_FUNCTION_NAME).unwrap_or_default()));
    let n_args = number(info(CL_KERNEL_NUM_ARGS)) as u32;
    w.u32(n_args);
    w.str(&string(info(CL_KERNEL_ATTRIBUTES).unwrap_or_default()));
    let about = |(id, d): &(u32, Handle)| {
        let f = cl.clGetKernelWorkGroupInfo;
        let all = answers(
            CL_KERNEL_WORK_GROUP_SIZE..=CL_KERNEL_WORK_GROUP_SIZE + 7,
            |param| {
                // SAFETY: a kernel and a device of ours; `ask` gives matching sizes.
                ask(MOST, |n, v, r| unsafe { f(k, *d, param, n, v, r) })
            },
        );
        (!all.is_empty()).then_some((*id, all))
    };
    let tables: Vec<_> = devices.iter().filter_map(about).collect();
    w.u32(tables.len() as u32);
    for (id, answers) in tables {
        w.u32(id);
        table(w, &answers);
    }
    let arg = |i, param| {
        // SAFETY: a kernel of ours; `ask` gives matching sizes.
        ask(MOST, |n, v, r| unsafe {
            (cl.clGetKernelArgInfo)(k, i, param, n, v, r)
        })
    };
    let known = n_args == 0 || arg(0, CL_KERNEL_ARG_ADDRESS_QUALIFIER).is_ok();
    let named = n_args == 0 || arg(0, CL_KERNEL_ARG_NAME).is_ok();
    w.u8(u8::from(known) + u8::from(known && named));
    for i in 0..if known { n_args } else { 0 } {
        w.u32(number(arg(i, CL_KERNEL_ARG_ADDRESS_QUALIFIER)) as u32);
        w.u32(number(arg(i, CL_KERNEL_ARG_ACCESS_QUALIFIER)) as u32);
        w.u64(number(arg(i, CL_KERNEL_ARG_TYPE_QUALIFIER)));
        w.str(&string(arg(i, CL_KERNEL_ARG_TYPE_NAME).unwrap_or_default()));
        w.str(&string(arg(i, CL_KERNEL_ARG_NAME).unwrap_or_default()));
    }
    for i in 0..if known { 0 } else { n_args } {
        probe(cl, k, i, w);
    }
}

/// A size that no argument has.
const NO_SIZE: usize = 4093;

/// Writes what the library takes for an argument that it tells nothing of, by trying; the kernel
/// must be one that nobody uses. 0: anything, 1: local memory, 2: a buffer, 3: bytes of these
/// sizes.
fn probe(cl: &Cl, k: Handle, i: u32, w: &mut Writer<'_>) {
    let zeros = [0u64; NO_SIZE / 8 + 1];
    let takes = |n: usize, value: bool| {
        let p = match value {
            true => zeros.as_ptr().cast(),
            false => std::ptr::null(),
        };
        // SAFETY: a kernel of ours, and as many zeros as we say, or none.
        unsafe { (cl.clSetKernelArg)(k, i, n, p) == CL_SUCCESS }
    };
    let null = size_of::<Handle>();
    match (takes(3 * null, false), takes(null, false)) {
        // Some libraries take anything; then nothing follows from it.
        _ if takes(NO_SIZE, true) => w.u8(0),
        // NVIDIA's takes null of any size for a buffer as well, but no value for local memory.
        (true, _) if takes(null, true) => w.u8(0),
        (true, _) => w.u8(1),
        (false, true) => w.u8(2),
        (false, false) => {
            let small = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];
            let mut sizes: Vec<_> = small.into_iter().filter(|n| takes(*n, true)).collect();
            if sizes.is_empty() {
                // A structure of the program's own.
                sizes.extend((1..1024).filter(|n| takes(*n, true)).take(4));
            }
            w.u8(if sizes.is_empty() { 0 } else { 3 });
            if !sizes.is_empty() {
                w.u32(sizes.len() as u32);
                sizes.iter().for_each(|n| w.u32(*n as u32));
            }
        }
    }
}
