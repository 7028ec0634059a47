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

/// Each device has a kernel for itself: what is set for one says nothing of another, and the same
/// value is to be set for each.
pub fn devices(api: &Api) {
    const MAX_DYNAMIC_SHARED: u64 = 8;
    const SHARED: u64 = 100 << 10;
    let contexts = [0, 1].map(|device| api.made("cuDevicePrimaryCtxRetain", &[device]));
    let image = super::api::IMAGE.as_ptr() as u64;
    let library = api.made("cuLibraryLoadData", &[image, 0, 0, 0, 0, 0, 0]);
    let kernel = api.made("cuLibraryGetKernel", &[library, c"nop".as_ptr() as u64]);
    let launches = || {
        contexts.map(|context| {
            assert_eq!(api.call("cuCtxSetCurrent", &[context]), 0);
            let args = [kernel, 1, 1, 1, 1, 1, 1, SHARED, 0, 0, 0];
            let launched = api.call("cuLaunchKernel", &args);
            (launched, api.call("cuCtxSynchronize", &[]))
        })
    };
    let values = || {
        [0, 1].map(|device| {
            let mut value = 0i32;
            let args = [at(&mut value), MAX_DYNAMIC_SHARED, kernel, device];
            assert_eq!(api.call("cuKernelGetAttribute", &args), 0);
            value
        })
    };
    println!("of none: {:?} {:?}", values(), launches());
    for device in [1, 0] {
        let args = [MAX_DYNAMIC_SHARED, SHARED, kernel, device];
        api.tell("cuKernelSetAttribute", &args);
        println!("of {device}: {:?} {:?}", values(), launches());
    }
    // By a function of a context, for that context's device.
    assert_eq!(api.call("cuCtxSetCurrent", &[contexts[1]]), 0);
    let function = api.made("cuKernelGetFunction", &[kernel]);
    let args = [function, MAX_DYNAMIC_SHARED, SHARED + 1024];
    api.tell("cuFuncSetAttribute", &args);
    println!("by a function: {:?}", launches());
}

/// NVML, and its first device.
fn nvml() -> (Api, u64) {
    // SAFETY: loading NVML runs its initializers, as in any program that monitors.
    let library = unsafe { libloading::Library::new("libnvidia-ml.so.1") };
    let nvml = Api {
        library: library.expect("libnvidia-ml.so.1 can be loaded"),
    };
    nvml.tell("nvmlInit_v2", &[]);
    let mut device = 0u64;
    nvml.tell("nvmlDeviceGetHandleByIndex_v2", &[0, at(&mut device)]);
    (nvml, device)
}

/// What NVML says of one device and itself, as NCCL asks.
pub fn with_itself(_: &Api) {
    let (nvml, device) = nvml();
    for kind in 0..2 {
        let mut status = 9u32;
        nvml.tell(
            "nvmlDeviceGetP2PStatus",
            &[device, device, kind, at(&mut status)],
        );
        println!("{status}");
    }
}

/// What NVML says of this process on the first device: its memory.
pub fn processes(api: &Api) {
    let (nvml, device) = nvml();
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
