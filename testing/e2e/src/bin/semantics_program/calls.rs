//! One call, made again and again, for whoever counts what calls cost.

use super::api::{Api, at};

const IMAGE: &str = "fakedev-module 1\nkernel three fill_u32 ptr u32 u64\n\
    kernel twelve fill_u32 ptr u32 u64 u64 u64 u64 u64 u64 u64 u64 u64 u64\n\0";

/// Makes the call of this name so often. `NAME/12` is a launch of twelve parameters, `NAME/0` a
/// call in the default stream.
pub fn calls(api: &Api, call: &str, times: u32) {
    let context = api.made("cuDevicePrimaryCtxRetain", &[0]);
    assert_eq!(api.call("cuCtxSetCurrent", &[context]), 0);
    let (name, how) = call.split_once('/').unwrap_or((call, ""));
    let own = api.made("cuStreamCreate", &[1]);
    let stream = if how == "0" { 0 } else { own };
    let event = api.made("cuEventCreate", &[2]);
    let (p, q) = (
        api.made("cuMemAlloc_v2", &[8192]),
        api.made("cuMemAlloc_v2", &[8192]),
    );
    let library = api.made(
        "cuLibraryLoadData",
        &[IMAGE.as_ptr() as u64, 0, 0, 0, 0, 0, 0],
    );
    let word = if how == "12" { c"twelve" } else { c"three" };
    let kernel = api.made("cuLibraryGetKernel", &[library, word.as_ptr() as u64]);
    let f = api.made("cuKernelGetFunction", &[kernel]);
    let words = [p, 7, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    let list = words.each_ref().map(std::ptr::from_ref);
    let params = list.as_ptr() as u64;
    let (mut out, mut more) = ([0u64; 2], 0u32);
    let (place, other) = (at(&mut out), at(&mut more));
    let one = 1 | 1u64 << 32;
    let mut config = [one, one, one, 0, stream, 0, 0];
    let config = at(&mut config);
    let host = [1u8; 64].as_ptr() as u64;
    let args: &[u64] = match name {
        "cuLaunchKernel" => &[f, 1, 1, 1, 1, 1, 1, 0, stream, params, 0],
        "cuLaunchKernelEx" => &[config, f, params, 0],
        "cuCtxGetDevice" | "cuCtxGetCurrent" => &[place],
        "cuKernelGetAttribute" => &[place, 0, kernel, 0],
        "cuFuncGetAttribute" => &[place, 0, f],
        "cuDevicePrimaryCtxGetState" => &[0, place, other],
        "cuKernelGetFunction" => &[place, kernel],
        "cuMemsetD8Async" => &[p, 7, 64, stream],
        "cuEventRecord" => &[event, stream],
        "cuStreamWaitEvent" => &[stream, event, 0],
        "cuEventQuery" => &[event],
        "cuMemcpyDtoDAsync_v2" => &[p, q, 64, stream],
        "cuMemcpyHtoDAsync_v2" => &[p, host, 64, stream],
        "cuStreamIsCapturing" => &[stream, place],
        _ => panic!("{name} is not among the calls that are counted"),
    };
    let right = |rc: i32| rc == 0 || (name, rc) == ("cuEventQuery", 600);
    for _ in 0..times {
        let rc = api.call(name, args);
        assert!(right(rc), "{name}: {rc}");
    }
    assert_eq!(api.call("cuCtxSynchronize", &[]), 0);
}
