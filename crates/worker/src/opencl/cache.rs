//! Built programs, kept between sessions under the hash of source, headers, options and devices.
//!
//! An entry holds each device's binary and what the first build's answer said of the program, so
//! that a hit is answered without a compiler, logs and argument names included. Whatever is wrong
//! with an entry, the program is built from its source as if there were none.

use super::built::Program;
use super::cl::{info, make};
use super::describe;
use super::prelude::*;
use crate::content::{Content, Hash};

/// Part of every key: another layout of entries, or another way to build, gets another number.
const LAYOUT: &str = concat!("busbar opencl program 1 ", env!("CARGO_PKG_VERSION"));
/// The longest list of binary sizes, in bytes.
const MOST_SIZES: usize = 1 << 16;

/// The name of a build: everything that its result depends on.
pub fn key(cl: &Cl, source: &Hash, files: &[u8], options: &str, devices: &[(u32, Handle)]) -> Hash {
    let mut h = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        h.update(&(bytes.len() as u64).to_le_bytes());
        h.update(bytes);
    };
    add(LAYOUT.as_bytes());
    add(source);
    add(files);
    add(options.as_bytes());
    for (id, d) in devices {
        // The answer that is kept names devices by their ids.
        add(&id.to_le_bytes());
        for param in [
            CL_DEVICE_NAME,
            CL_DEVICE_VENDOR,
            CL_DEVICE_VERSION,
            CL_DRIVER_VERSION,
            CL_DEVICE_OPENCL_C_VERSION,
        ] {
            add(&describe::device_info(cl, *d, param).unwrap_or_default());
        }
    }
    *h.finalize().as_bytes()
}

/// Whether a platform gives binaries away for nothing. PoCL compiles kernels as they are launched,
/// for the sizes of the launch, and has to compile every one of them first to give a binary; it
/// also has a store of its own. Its binaries are kept only when a program asks for them anyway.
pub fn is_cheap(cl: &Cl, device: Handle) -> bool {
    let version = describe::device_info(cl, device, CL_DEVICE_VERSION).unwrap_or_default();
    !String::from_utf8_lossy(&version).contains("PoCL")
}

/// How long a program's binaries are, one for each device.
pub fn binary_sizes(cl: &Cl, p: Handle) -> Result<Vec<u64>, i32> {
    let sizes = info(cl.clGetProgramInfo, p, CL_PROGRAM_BINARY_SIZES, MOST_SIZES)?;
    let number = |c: &[u8]| c.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
    Ok(sizes.chunks_exact(8).map(number).collect())
}

/// A program's binaries, one for each device.
pub fn binaries(cl: &Cl, p: Handle) -> Result<Vec<Vec<u8>>, i32> {
    let sizes = binary_sizes(cl, p)?;
    let mut all: Vec<_> = sizes.iter().map(|n| vec![0u8; *n as usize]).collect();
    let mut places: Vec<_> = all.iter_mut().map(|b| b.as_mut_ptr()).collect();
    let bytes = size_of_val(&places[..]);
    let list = places.as_mut_ptr().cast();
    // SAFETY: a program of ours; each place has as many bytes as the library said.
    ok(unsafe { (cl.clGetProgramInfo)(p, CL_PROGRAM_BINARIES, bytes, list, null_mut()) })?;
    Ok(all)
}

/// Keeps a build: its binaries and its answer.
pub fn store(content: &Content, key: &Hash, binaries: &[Vec<u8>], info: &[u8]) {
    if binaries.is_empty() || binaries.iter().any(Vec::is_empty) {
        return;
    }
    let mut entry = Vec::new();
    let mut w = Writer::new(&mut entry);
    w.u32(binaries.len() as u32);
    for b in binaries {
        w.bytes(b);
    }
    w.bytes(info);
    content.keep(key, &entry);
}

/// A program made of binaries, one for each device, and what the library says of each of them.
pub fn from_binaries(
    cl: &Cl,
    context: Handle,
    devices: &[Handle],
    binaries: &[&[u8]],
) -> (Result<Handle, i32>, Vec<i32>) {
    let lengths: Vec<_> = binaries.iter().map(|b| b.len()).collect();
    let mut places: Vec<_> = binaries.iter().map(|b| b.as_ptr()).collect();
    let mut statuses = vec![CL_INVALID_VALUE; binaries.len()];
    let (f, n, list) = (
        cl.clCreateProgramWithBinary,
        devices.len() as u32,
        devices.as_ptr(),
    );
    let (sizes, at, told) = (lengths.as_ptr(), places.as_mut_ptr(), statuses.as_mut_ptr());
    // SAFETY: objects of ours; the lists are of one length, and each binary has its own.
    let made = make(|code| unsafe { f(context, n, list, sizes, at, told, code) });
    (made, statuses)
}

/// A program made from what is kept under `key`, with the answer of its first build.
pub fn load(
    content: &Content,
    key: &Hash,
    p: &Program,
    options: &CStr,
) -> Option<(Handle, Vec<u8>)> {
    let entry = content.kept(key)?;
    let mut r = Reader::new(&entry);
    let n = r.count(p.devices.len(), 4).ok()?;
    let binaries: Vec<_> = (0..n).map(|_| r.bytes()).collect::<Result<_, _>>().ok()?;
    let info = r.bytes().ok()?.to_vec();
    r.finish().ok()?;
    if n != p.devices.len() {
        return None;
    }
    let devices: Vec<_> = p.devices.iter().map(|d| d.1).collect();
    let cl = p.cl();
    // The program keeps its context.
    let (made, statuses) = from_binaries(cl, p.context(), &devices, &binaries);
    let made = made.ok()?;
    // SAFETY: objects of ours and a C string.
    let built = unsafe {
        let (count, list) = (n as u32, devices.as_ptr());
        (cl.clBuildProgram)(made, count, list, options.as_ptr(), null(), null_mut())
    };
    if built != CL_SUCCESS || statuses.iter().any(|s| *s != CL_SUCCESS) {
        // SAFETY: made above.
        unsafe { (cl.clReleaseProgram)(made) };
        return None;
    }
    Some((made, info))
}
