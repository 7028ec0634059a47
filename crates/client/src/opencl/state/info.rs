//! What a server's description says, made to hold through Busbar: versions, extensions, names.
#![forbid(unsafe_code)]

use super::values::{Plain, Table};
use busbar_abi::opencl::ext::*;
use busbar_abi::opencl::*;

/// The version in `OpenCL MAJOR.MINOR ...`.
pub fn version(text: &str) -> (u32, u32) {
    let number = text.split_whitespace().nth(1).unwrap_or("1.0");
    let mut parts = number.split('.').map(|p| p.parse().unwrap_or(0));
    (parts.next().unwrap_or(1), parts.next().unwrap_or(0))
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
pub fn lists(list: &str, extension: &str) -> bool {
    list.split_whitespace().any(|w| w == extension)
}

/// Drops extensions that are not forwarded from a list, as text and with versions.
fn filter_extensions(t: &mut Table, text: u32, versions: u32) {
    let list = t.text(text);
    // Drivers pad their lists oddly; a list that nothing is taken from stays as it is.
    if !list.split_whitespace().all(forwarded) {
        let kept: Vec<_> = list.split_whitespace().filter(|e| forwarded(e)).collect();
        t.set(text, kept.join(" ").as_str().plain());
    }
    if let Some(v) = t.get(versions) {
        let kept = v.chunks_exact(size_of::<NameVersion>()).filter(|c| {
            let name = c[4..].split(|b| *b == 0).next().unwrap_or_default();
            forwarded(&String::from_utf8_lossy(name))
        });
        let kept = kept.flatten().copied().collect();
        t.set(versions, kept);
    }
}

/// Adds a server's address to a name. At the end: programs tell vendors and models by how a name
/// begins.
fn say_where(t: &mut Table, param: u32, address: Option<&str>) {
    if let (Some(address), Some(_)) = (address, t.get(param)) {
        let name = format!("{} @ {address}", t.text(param));
        t.set(param, name.as_str().plain());
    }
}

/// Makes the answers of a platform hold; `address` is to be a part of its name, if given.
pub fn adjust_platform(t: &mut Table, address: Option<&str>) {
    let (text, versions) = (CL_PLATFORM_EXTENSIONS, CL_PLATFORM_EXTENSIONS_WITH_VERSION);
    filter_extensions(t, text, versions);
    // The loader takes no platform that does not say `cl_khr_icd`.
    let list = t.text(text);
    if !lists(&list, "cl_khr_icd") {
        t.set(text, format!("cl_khr_icd {list}").trim_end().plain());
    }
    if t.get(CL_PLATFORM_ICD_SUFFIX_KHR).is_none() {
        t.set(CL_PLATFORM_ICD_SUFFIX_KHR, "BUSBAR".plain());
    }
    say_where(t, CL_PLATFORM_NAME, address);
}

/// Makes the answers of a device hold; `address` is to be a part of its name, if given.
pub fn adjust_device(t: &mut Table, address: Option<&str>) {
    filter_extensions(t, CL_DEVICE_EXTENSIONS, CL_DEVICE_EXTENSIONS_WITH_VERSION);
    let mut mask = |param: u32, keep: u64| {
        if t.get(param).is_some_and(|v| v.len() >= 8) {
            t.set(param, (t.number(param) & keep).plain());
        }
    };
    // Memory that host and device share at any moment cannot span two machines, nor can a host
    // function run on another.
    mask(
        CL_DEVICE_SVM_CAPABILITIES,
        CL_DEVICE_SVM_COARSE_GRAIN_BUFFER,
    );
    mask(CL_DEVICE_EXECUTION_CAPABILITIES, CL_EXEC_KERNEL);
    // Pipes are not forwarded.
    if t.get(CL_DEVICE_PIPE_SUPPORT).is_some() {
        t.set(CL_DEVICE_PIPE_SUPPORT, false.plain());
    }
    say_where(t, CL_DEVICE_NAME, address);
}

/// The extension that a function came with, for those that are no part of OpenCL itself.
pub fn extension_of(function: &str) -> Option<&'static str> {
    Some(match function {
        "clCreateCommandQueueWithPropertiesKHR" => "cl_khr_create_command_queue",
        "clCreateProgramWithILKHR" => "cl_khr_il_program",
        "clGetKernelSubGroupInfoKHR" => "cl_khr_subgroups",
        "clGetKernelSuggestedLocalWorkSizeKHR" => "cl_khr_suggested_local_work_size",
        _ => return None,
    })
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
        let mut t = Table::default();
        t.set(text, all.join(" ").as_str().plain());
        t.set(versions, all.iter().flat_map(|n| named(n)).collect());
        adjust_device(&mut t, None);
        assert_eq!(t.text(text), "cl_khr_fp64 cl_ext_float_atomics");
        let kept = [named(all[0]), named(all[2])].concat();
        assert_eq!(t.get(versions), Some(&kept[..]));
        assert!(lists(&t.text(text), "cl_khr_fp64"));
        assert!(!lists(&t.text(text), "cl_khr_fp") && !lists("", "cl_khr_fp64"));
    }

    #[test]
    fn a_device_says_where_it_is_and_promises_only_what_holds() {
        let mut t = Table::default();
        t.set(CL_DEVICE_NAME, "GPU".plain());
        t.set(CL_DEVICE_SVM_CAPABILITIES, 15u64.plain());
        t.set(CL_DEVICE_PIPE_SUPPORT, true.plain());
        adjust_device(&mut t, Some("a:1"));
        assert_eq!(t.text(CL_DEVICE_NAME), "GPU @ a:1");
        assert_eq!(
            t.number(CL_DEVICE_SVM_CAPABILITIES),
            CL_DEVICE_SVM_COARSE_GRAIN_BUFFER
        );
        assert_eq!(t.number(CL_DEVICE_PIPE_SUPPORT), 0);
        assert!(t.get(CL_DEVICE_EXECUTION_CAPABILITIES).is_none());
    }

    #[test]
    fn a_platform_is_one_that_loaders_take() {
        let mut t = Table::default();
        t.set(CL_PLATFORM_EXTENSIONS, "cl_khr_fp64 ".plain());
        t.set(CL_PLATFORM_NAME, "P".plain());
        adjust_platform(&mut t, None);
        assert!(lists(&t.text(CL_PLATFORM_EXTENSIONS), "cl_khr_icd"));
        assert_eq!(t.text(CL_PLATFORM_ICD_SUFFIX_KHR), "BUSBAR");
        assert_eq!(t.text(CL_PLATFORM_NAME), "P");
        assert_eq!(version("OpenCL 3.0 PoCL"), (3, 0));
        assert_eq!(version(""), (1, 0));
    }
}
