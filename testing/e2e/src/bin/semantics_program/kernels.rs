//! Kernels of libraries, and their functions in contexts; and what NVML says of a program.

use super::api::{Api, at};

/// A function is its context's: streams of another are none for it. A kernel runs wherever its
/// stream is.
pub fn contexts(api: &Api) {
    let first = api.made("cuCtxCreate_v2", &[0, 0]);
    let image = super::api::IMAGE.as_ptr() as u64;
    let library = api.made("cuLibraryLoadData", &[image, 0, 0, 0, 0, 0, 0]);
    let kernel = api.made("cuLibraryGetKernel", &[library, c"fill".as_ptr() as u64]);
    let function = api.made("cuKernelGetFunction", &[kernel]);
    let again = api.made("cuKernelGetFunction", &[kernel]);
    println!("the same each time: {}", function == again);
    let p = api.made("cuMemAlloc_v2", &[4096]);
    let own = api.made("cuStreamCreate", &[1]);
    let second = api.made("cuCtxCreate_v2", &[0, 0]);
    let there = api.made("cuStreamCreate", &[1]);
    let other = api.made("cuKernelGetFunction", &[kernel]);
    println!("another in another context: {}", function != other);
    api.tell("cuKernelGetFunction", &[at(&mut 0u64), function]);
    const MAX_DYNAMIC_SHARED: u64 = 8;
    api.tell(
        "cuFuncSetAttribute",
        &[function, MAX_DYNAMIC_SHARED, 1 << 15],
    );
    for (name, current) in [("first", first), ("second", second)] {
        api.tell("cuCtxSetCurrent", &[current]);
        for (of, f) in [("kernel", kernel), ("first", function), ("second", other)] {
            let launches = [own, there, 0].map(|s| api.launch(f, s, &[p, 7, 16]));
            println!("{name} is current, {of}: {launches:?}");
        }
    }
    for stream in [own, there] {
        api.tell("cuStreamSynchronize", &[stream]);
    }
    api.tell("cuCtxSynchronize", &[]);
    api.tell("cuCtxDestroy_v2", &[second]);
    println!("of no context: {}", api.launch(other, own, &[p, 7, 16]));
    let third = api.made("cuCtxCreate_v2", &[0, 0]);
    let new = api.made("cuKernelGetFunction", &[kernel]);
    println!("in the third: {}", api.launch(new, 0, &[p, 9, 16]));
    let mut v = [0u32; 2];
    api.tell("cuMemcpyDtoH_v2", &[at(&mut v), p, 8]);
    println!("{v:?}");
    api.tell("cuCtxDestroy_v2", &[third]);
    api.tell("cuCtxSetCurrent", &[0]);
    api.tell("cuKernelGetFunction", &[at(&mut 0u64), kernel]);
    api.tell("cuCtxSetCurrent", &[first]);
    api.tell("cuLibraryUnload", &[library]);
    println!("unloaded: {}", api.launch(function, own, &[p, 7, 16]));
}

/// What NVML says of this process on the first device: its memory.
pub fn processes(api: &Api) {
    // SAFETY: loading NVML runs its initializers, as in any program that monitors.
    let library = unsafe { libloading::Library::new("libnvidia-ml.so.1") };
    let nvml = Api {
        library: library.expect("libnvidia-ml.so.1 can be loaded"),
    };
    nvml.tell("nvmlInit_v2", &[]);
    let mut device = 0u64;
    nvml.tell("nvmlDeviceGetHandleByIndex_v2", &[0, at(&mut device)]);
    let own = u64::from(std::process::id());
    let say = || {
        let (mut n, mut rows) = (9u32, [[0u64; 3]; 9]);
        let args = [device, at(&mut n), at(&mut rows)];
        nvml.tell("nvmlDeviceGetComputeRunningProcesses_v3", &args);
        let own = rows[..n as usize].iter().find(|r| r[0] == own);
        own.map_or(0, |r| r[1])
    };
    api.made("cuCtxCreate_v2", &[0, 0]);
    let before = say();
    let p = api.made("cuMemAlloc_v2", &[64 << 20]);
    api.tell("cuCtxSynchronize", &[]);
    println!("{} bytes more", say() - before);
    let (mut none, mut count) = ([0u64; 3], 0u32);
    let args = [device, at(&mut count), at(&mut none)];
    nvml.tell("nvmlDeviceGetComputeRunningProcesses_v3", &args);
    println!("{count} and {none:?}");
    api.tell("cuMemFree_v2", &[p]);
}
