//! Platforms, from the server's description.

use super::device::{self, Device};
use super::entry::{self, Plain, Result};
use super::object::{Body, Object, get};
use super::server::{Server, lock, servers};
use busbar_abi::opencl::ext::*;
use busbar_abi::opencl::*;
use busbar_wire::{Reader, WireError};
use std::collections::HashMap;
use std::sync::Arc;

/// Answers to queries, by parameter.
pub type Table = HashMap<u32, Vec<u8>>;

/// A platform of a server.
pub struct Platform {
    table: Table,
    /// Its devices; sub-devices are not among them.
    pub devices: Vec<Arc<Object<Device>>>,
}

impl Body for Platform {
    const MAGIC: u32 = 0x6273_7001;
    const INVALID: i32 = CL_INVALID_PLATFORM;
}

impl Platform {
    /// Whether it or any of its devices has an extension that Busbar forwards.
    pub fn offers(&self, extension: &str) -> bool {
        lists(self.table.get(&CL_PLATFORM_EXTENSIONS), extension)
            || self.devices.iter().any(|d| d.offers(extension))
    }

    /// A number among the answers; 0 when there is none.
    pub fn number(&self, param: u32) -> u64 {
        let bytes = self.table.get(&param).map_or(&[][..], Vec::as_slice);
        bytes
            .iter()
            .take(8)
            .rev()
            .fold(0, |n, b| n << 8 | u64::from(*b))
    }
}

/// The version in `OpenCL MAJOR.MINOR ...`.
pub fn version(text: Option<&Vec<u8>>) -> (u32, u32) {
    let text = text.map(|t| String::from_utf8_lossy(t)).unwrap_or_default();
    let number = text.split_whitespace().nth(1).unwrap_or("1.0");
    let mut parts = number.split('.').map(|p| p.parse().unwrap_or(0));
    (parts.next().unwrap_or(1), parts.next().unwrap_or(0))
}

/// Reads a table of answers.
pub fn table(r: &mut Reader<'_>) -> std::result::Result<Table, WireError> {
    let n = r.count(4096, 8)?;
    (0..n)
        .map(|_| Ok((r.u32()?, r.bytes()?.to_vec())))
        .collect()
}

/// Extensions whose host functions Busbar does not forward: a program must not see them.
const NOT_FORWARDED: &[&str] = &[
    "cl_khr_command_buffer",
    "cl_khr_gl_",
    "cl_khr_egl_",
    "cl_khr_d3d",
    "cl_khr_dx9",
    "cl_khr_external_",
    "cl_khr_semaphore",
    "cl_khr_initialize_memory",
    "cl_khr_terminate_context",
    "cl_khr_mipmap_image",
    "cl_khr_unified_svm",
    "cl_ext_",
    "cl_pocl_",
    "cl_amd_bus_addressable_memory",
    "cl_amd_copy_buffer_p2p",
    "cl_amd_svm",
    "cl_nv_d3d",
    "cl_nv_create_buffer",
    "cl_intel_unified_shared_memory",
    "cl_intel_accelerator",
    "cl_intel_va_api",
    "cl_intel_dx9",
    "cl_intel_d3d",
    "cl_intel_command_queue_families",
    "cl_intel_create_buffer",
    "cl_intel_mem_alloc",
    "cl_intel_mem_force_host_memory",
    "cl_intel_program_scope_host_pipe",
    "cl_intel_sharing_format_query",
    "cl_intel_simultaneous_sharing",
    "cl_arm_",
    "cl_qcom_",
    "cl_img_",
];

/// Extensions with such names that are of the kernels' language alone.
const OF_THE_LANGUAGE: &[&str] = &["cl_ext_cxx_for_opencl", "cl_ext_float_atomics"];

fn forwarded(name: &str) -> bool {
    OF_THE_LANGUAGE.contains(&name) || !NOT_FORWARDED.iter().any(|n| name.starts_with(n))
}

/// Whether a list of extensions has this one.
pub fn lists(text: Option<&Vec<u8>>, extension: &str) -> bool {
    let text = text.map(|t| String::from_utf8_lossy(t)).unwrap_or_default();
    let mut words = text.trim_end_matches('\0').split_whitespace();
    words.any(|w| w == extension)
}

/// Drops what is not forwarded from a list of extensions, as text and with versions.
pub fn filter_extensions(t: &mut Table, text: u32, versions: u32) {
    if let Some(v) = t.get_mut(&text) {
        let list = String::from_utf8_lossy(v).into_owned();
        let list = list.trim_end_matches('\0');
        // Drivers pad their lists oddly; what nothing is taken from stays as it is.
        if !list.split_whitespace().all(forwarded) {
            let kept: Vec<_> = list.split_whitespace().filter(|e| forwarded(e)).collect();
            *v = kept.join(" ").as_str().plain();
        }
    }
    if let Some(v) = t.get_mut(&versions) {
        let kept = v.chunks_exact(size_of::<NameVersion>()).filter(|c| {
            let name = c[4..].split(|b| *b == 0).next().unwrap_or_default();
            forwarded(&String::from_utf8_lossy(name))
        });
        *v = kept.flatten().copied().collect();
    }
}

/// Reads a server's description.
pub fn parse(
    server: &'static Server,
    bytes: &[u8],
) -> std::result::Result<Vec<Arc<Object<Platform>>>, WireError> {
    let mut r = Reader::new(bytes);
    let n = r.count(256, 8)?;
    let mut list = Vec::new();
    for _ in 0..n {
        let mut t = table(&mut r)?;
        filter_extensions(
            &mut t,
            CL_PLATFORM_EXTENSIONS,
            CL_PLATFORM_EXTENSIONS_WITH_VERSION,
        );
        add_icd(&mut t);
        // Programs compare the names of platforms whole, so one server's are left as they are; its
        // devices say where they are in any case.
        if server.one_of_many {
            say_where(&mut t, CL_PLATFORM_NAME, &server.address);
        }
        let devices = r.count(4096, 8)?;
        let devices = (0..devices)
            .map(|_| device::parse(server, &mut r, None))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let platform = Object::new(server, 0, Platform { table: t, devices });
        for d in &platform.devices {
            d.set_platform(&platform);
        }
        list.push(platform);
    }
    r.finish()?;
    Ok(list)
}

/// Adds a server's address to a name. At the end: programs tell vendors and models by how a name
/// begins.
pub fn say_where(t: &mut Table, param: u32, address: &str) {
    if crate::config::var("BUSBAR_DEVICE_NAMES").is_some_and(|v| v == "plain") {
        return;
    }
    if let Some(v) = t.get_mut(&param) {
        let name = String::from_utf8_lossy(v).into_owned();
        let name = name.trim_end_matches('\0');
        *v = format!("{name} @ {address}").as_str().plain();
    }
}

/// The loader takes no platform that does not say `cl_khr_icd`.
fn add_icd(t: &mut Table) {
    let text = t.entry(CL_PLATFORM_EXTENSIONS).or_default();
    let list = String::from_utf8_lossy(text).into_owned();
    let list = list.trim_end_matches('\0');
    if !list.split_whitespace().any(|e| e == "cl_khr_icd") {
        *text = format!("cl_khr_icd {list}").trim_end().plain();
    }
    t.entry(CL_PLATFORM_ICD_SUFFIX_KHR)
        .or_insert_with(|| "BUSBAR".plain());
}

/// `clGetPlatformIDs`.
pub unsafe extern "C" fn get_platform_ids(room: u32, out: *mut Handle, count: *mut u32) -> i32 {
    entry::status(|| {
        if out.is_null() && count.is_null() || room == 0 && !out.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let all: Vec<_> = servers().iter().flat_map(|s| s.platforms()).collect();
        if all.is_empty() {
            // SAFETY: null or the program's.
            unsafe { entry::put(count, 0) };
            return Err(CL_PLATFORM_NOT_FOUND_KHR);
        }
        if !out.is_null() {
            for (i, p) in all.iter().take(room as usize).enumerate() {
                // SAFETY: the program gives room for `room` handles.
                unsafe { out.add(i).write(p.handle()) };
            }
        }
        // SAFETY: null or the program's.
        unsafe { entry::put(count, all.len() as u32) };
        Ok(())
    })
}

/// `clGetPlatformInfo`.
pub unsafe extern "C" fn get_platform_info(
    platform: Handle,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle; null means the first platform.
        let p = unsafe { default(platform)? };
        let bytes = p.table.get(&param).ok_or(CL_INVALID_VALUE)?;
        // SAFETY: the program's memory, as it says.
        unsafe { entry::answer(bytes, size, value, ret) }
    })
}

/// The platform of a handle; the first one for null.
///
/// # Safety
/// As [`get`].
pub unsafe fn default<'a>(platform: Handle) -> Result<&'a Object<Platform>> {
    if platform.is_null() {
        return servers()
            .iter()
            .flat_map(|s| s.platforms())
            .next()
            .map(|p| &**p)
            .ok_or(CL_INVALID_PLATFORM);
    }
    // SAFETY: passed on to the caller.
    unsafe { get(platform) }
}

/// `clUnloadPlatformCompiler`.
pub unsafe extern "C" fn unload_platform_compiler(platform: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe { get::<Platform>(platform) }.map(drop))
}

/// `clUnloadCompiler`.
pub unsafe extern "C" fn unload_compiler() -> i32 {
    CL_SUCCESS
}

/// What a table lacks is asked for once.
pub fn ask(
    cache: &std::sync::Mutex<HashMap<u32, Result<Vec<u8>>>>,
    param: u32,
    f: impl FnOnce() -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    if let Some(v) = lock(cache).get(&param) {
        return v.clone();
    }
    let v = f();
    if v != Err(super::server::LOST) {
        lock(cache).insert(param, v.clone());
    }
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_with_functions_that_are_not_forwarded_are_hidden_in_both_lists() {
        let named = |name: &str| {
            let mut entry = vec![0; size_of::<NameVersion>()];
            entry[4..4 + name.len()].copy_from_slice(name.as_bytes());
            entry
        };
        let all = [
            "cl_khr_fp64",
            "cl_khr_command_buffer",
            "cl_ext_float_atomics",
            "cl_khr_gl_event",
        ];
        let (text, versions) = (CL_DEVICE_EXTENSIONS, CL_DEVICE_EXTENSIONS_WITH_VERSION);
        let mut t = Table::new();
        t.insert(text, all.join(" ").as_str().plain());
        t.insert(versions, all.iter().flat_map(|n| named(n)).collect());
        filter_extensions(&mut t, text, versions);
        assert_eq!(t[&text], "cl_khr_fp64 cl_ext_float_atomics".plain());
        assert_eq!(t[&versions], [named(all[0]), named(all[2])].concat());
        assert!(lists(t.get(&text), "cl_khr_fp64"));
        assert!(!lists(t.get(&text), "cl_khr_fp") && !lists(None, "cl_khr_fp64"));
    }
}
