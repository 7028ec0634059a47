//! `CUDA_LAUNCH_BLOCKING=1`: which calls have waited for what they began, and what they say of it.

use super::api::{Api, at};
use std::ffi::c_void;
use std::time::Duration;

unsafe extern "C" fn sleeps(_: *mut c_void) {
    std::thread::sleep(busbar_e2e::patient(Duration::from_millis(200)));
}

/// Prints a call's result and whether what it began is over.
fn after(api: &Api, what: &str, rc: i32, stream: u64) {
    println!(
        "{what}: {rc}, then {}",
        api.call("cuStreamQuery", &[stream])
    );
    assert_eq!(api.call("cuStreamSynchronize", &[stream]), 0);
}

pub fn blocking(api: &Api) {
    // SAFETY: no other thread looks at the environment; the driver has begun by now, and heeds it
    // all the same.
    unsafe { std::env::set_var("CUDA_LAUNCH_BLOCKING", std::env::args().nth(2).unwrap()) };
    let context = api.made("cuCtxCreate_v2", &[0, 0]);
    let [stream, other] = [1, 1].map(|flags| api.made("cuStreamCreate", &[flags]));
    let (spin, trap) = (api.kernel("spin"), api.kernel("trap"));
    let long = busbar_e2e::patient(Duration::from_millis(200)).as_micros() as u64;
    let kernel = |stream| api.launch(spin, stream, &[long]);
    after(api, "kernel", kernel(stream), stream);
    after(api, "in the default stream", kernel(0), 0);
    assert_eq!(api.call("cuStreamBeginCapture_v2", &[stream, 2]), 0);
    println!("captured: {}", kernel(stream));
    // Elsewhere it runs, and the capture goes on.
    after(api, "beside a capture", kernel(other), other);
    let (mut graph, mut exec) = (0u64, 0u64);
    api.tell("cuStreamEndCapture", &[stream, at(&mut graph)]);
    api.tell("cuGraphInstantiateWithFlags", &[at(&mut exec), graph, 0]);
    let rc = api.call("cuGraphLaunch", &[exec, stream]);
    after(api, "graph", rc, stream);
    let [a, b] = [64, 64].map(|size| api.made("cuMemAlloc_v2", &[size]));
    let host = api.made("cuMemAllocHost_v2", &[64]);
    let function = sleeps as unsafe extern "C" fn(*mut c_void) as usize as u64;
    let held = || assert_eq!(api.call("cuLaunchHostFunc", &[stream, function, 0]), 0);
    held();
    after(api, "function", 0, stream);
    for (what, name, args) in [
        ("fill", "cuMemsetD8Async", &[a, 1, 64, stream][..]),
        (
            "fill of rows",
            "cuMemsetD2D8Async",
            &[a, 8, 1, 4, 2, stream],
        ),
        ("copy", "cuMemcpyDtoDAsync_v2", &[a, b, 64, stream]),
        ("copy of either", "cuMemcpyAsync", &[a, b, 64, stream]),
        ("copy in", "cuMemcpyHtoDAsync_v2", &[a, host, 64, stream]),
        ("copy out", "cuMemcpyDtoHAsync_v2", &[host, a, 64, stream]),
    ] {
        held();
        after(api, what, api.call(name, args), stream);
    }
    // All of the context has come to its end.
    held();
    let rc = kernel(other);
    println!(
        "beside a function: {rc}, then {}",
        api.call("cuStreamQuery", &[stream])
    );
    println!("a fault: {}", api.launch(trap, stream, &[]));
    api.tell("cuStreamSynchronize", &[stream]);
    api.tell("cuCtxDestroy_v2", &[context]);
}
