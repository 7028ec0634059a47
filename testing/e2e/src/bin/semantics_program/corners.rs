//! Corners of the API that programs seldom see, where drivers are exact all the same.

use super::api::{Api, at};
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

/// An address as text, or its absence.
fn text(p: u64) -> String {
    if p == 0 {
        return "none".to_owned();
    }
    // SAFETY: the driver gave a C string that lives as long as the process.
    let text = unsafe { CStr::from_ptr(p as *const c_char) };
    text.to_string_lossy().into_owned()
}

/// Names of errors, look-ups with odd arguments, words written without a barrier, and the rights of
/// what is not mapped.
pub fn corners(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    for error in [0u64, 1, 800, 917, 990, 990, 999, 1000, u64::from(u32::MAX)] {
        let (mut name, mut said) = (7u64, 7u64);
        let a = api.call("cuGetErrorName", &[error, at(&mut name)]);
        let b = api.call("cuGetErrorString", &[error, at(&mut said)]);
        println!("{error}: {a} {} {b} {}", text(name), said != 0);
    }
    functions(api);
    writes(api);
    rights(api);
    maps(api);
    refused(api);
    no_code(api);
}

/// What is no code: a driver says so of a module when that is loaded, and of a library when that is
/// used.
fn no_code(api: &Api) {
    let fat = |rest: &[u8]| [&0xba55_ed50u32.to_le_bytes(), &[1, 0][..], rest].concat();
    let cases = [
        ("zeros", vec![]),
        ("short", b"abc".to_vec()),
        ("text", b"hello, this is no code at all".to_vec()),
        ("numbers", vec![1, 2, 3, 4]),
        ("nothing in it", fat(&[16, 0])),
        ("no head", fat(&[])),
        (
            "too long",
            fat(&[16, 0, 64, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255]),
        ),
    ];
    for (what, mut code) in cases {
        code.resize(4096, 0);
        let (mut library, mut out, mut count) = (0u64, 0u64, 9u32);
        let code = code.as_ptr() as u64;
        println!("{what}:");
        api.tell("cuLibraryLoadData", &[at(&mut library), code]);
        api.tell("cuLibraryGetKernelCount", &[at(&mut count), library]);
        println!("{count}");
        let name = c"f".as_ptr() as u64;
        api.tell("cuLibraryGetKernel", &[at(&mut out), library, name]);
        let (mut size, mut p) = (0u64, 0u64);
        let args = [at(&mut p), at(&mut size), library, name];
        api.tell("cuLibraryGetGlobal", &args);
        api.tell("cuLibraryGetModule", &[at(&mut out), library]);
        api.tell("cuLibraryUnload", &[library]);
        api.tell("cuModuleLoadData", &[at(&mut out), code]);
    }
}

/// Loads code that the driver compiles, and says what the driver says of that.
pub fn compiles(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    for i in 0..2 {
        let text = format!("// {i}\n.version 8.0\n.target sm_90\n\0");
        let mut log = [0u8; 64];
        let (keys, mut values) = ([3i32, 4], [log.as_mut_ptr() as u64, log.len() as u64]);
        let mut module = 0u64;
        let image = text.as_ptr() as u64;
        let all = [
            at(&mut module),
            image,
            2,
            keys.as_ptr() as u64,
            values.as_mut_ptr() as u64,
        ];
        assert_eq!(api.call("cuModuleLoadDataEx", &all), 0);
        let said = CStr::from_bytes_until_nul(&log).unwrap_or_default();
        println!("{}", said.to_string_lossy());
    }
}

/// Loads modules, asks for their functions and runs them, as compilers of a library do.
pub fn loads(api: &Api) {
    let rounds: u64 = std::env::args()
        .nth(2)
        .and_then(|n| n.parse().ok())
        .unwrap_or(1);
    api.made("cuCtxCreate_v2", &[0, 0]);
    for _ in 0..rounds {
        let code = super::api::IMAGE.as_ptr() as u64;
        let module = api.made("cuModuleLoadData", &[code]);
        for name in [c"nop", c"fill", c"some"] {
            let f = api.made("cuModuleGetFunction", &[module, name.as_ptr() as u64]);
            let mut registers = 0u32;
            assert_eq!(
                api.call("cuFuncGetAttribute", &[at(&mut registers), 4, f]),
                0
            );
            assert_eq!(api.call("cuFuncSetAttribute", &[f, 8, 4096]), 0);
            assert_eq!(api.call("cuFuncSetCacheConfig", &[f, 1]), 0);
            if name == c"nop" {
                assert_eq!(api.launch(f, 0, &[]), 0);
            }
        }
        let (mut none, absent) = (0u64, c"absent".as_ptr() as u64);
        let rc = api.call("cuModuleGetFunction", &[at(&mut none), module, absent]);
        assert_eq!(rc, 500);
        assert_eq!(api.call("cuModuleUnload", &[module]), 0);
    }
    println!("loaded: {rounds}");
}

/// What a function that a stream waits for is told when it calls the driver.
struct Calls<'a> {
    api: &'a Api,
    context: u64,
    memory: u64,
    stream: u64,
    other: u64,
    event: u64,
    said: [AtomicI32; 34],
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

unsafe extern "C" fn calls(data: *mut c_void) {
    // SAFETY: the program's own, which waits for this function.
    let c = unsafe { &*data.cast_const().cast::<Calls<'_>>() };
    let (memory, stream, event) = (c.memory, c.stream, c.event);
    let (mut p, mut size, mut ms, mut n) = (0u64, 0u64, 0f32, 0u32);
    let mut value = [0u64; 8];
    // Also what a client knows without asking anybody, and with a context that was made current.
    let calls: [(_, &[u64]); 34] = [
        ("cuDriverGetVersion", &[at(&mut n)]),
        ("cuDeviceGetCount", &[at(&mut n)]),
        ("cuDeviceGetAttribute", &[at(&mut n), 10, 0]),
        ("cuCtxSetCurrent", &[c.context]),
        ("cuCtxGetCurrent", &[at(&mut p)]),
        ("cuMemAlloc_v2", &[at(&mut p), 64]),
        ("cuCtxSynchronize", &[]),
        (
            "cuMemGetAddressRange_v2",
            &[at(&mut p), at(&mut size), memory],
        ),
        ("cuPointerGetAttribute", &[at(&mut p), 3, memory]),
        ("cuMemFree_v2", &[memory]),
        ("cuMemFreeHost", &[0]),
        ("cuStreamQuery", &[0]),
        ("cuEventRecord", &[event, 0]),
        ("cuMemcpyAsync", &[memory, memory, 64, c.other]),
        ("cuStreamGetFlags", &[stream, at(&mut n)]),
        ("cuStreamGetPriority", &[stream, at(&mut n)]),
        ("cuStreamGetCtx", &[stream, at(&mut p)]),
        ("cuStreamIsCapturing", &[stream, at(&mut n)]),
        ("cuStreamQuery", &[stream]),
        ("cuEventQuery", &[event]),
        ("cuEventElapsedTime", &[at(&mut ms), event, event]),
        // What names its stream needs no context, but for launches, copies and memory.
        ("cuMemAllocAsync", &[at(&mut p), 64, c.other]),
        ("cuMemsetD8Async", &[memory, 1, 64, c.other]),
        (
            "cuStreamGetCaptureInfo_v2",
            &[c.other, at(&mut n), 0, 0, 0, 0],
        ),
        ("cuStreamGetAttribute", &[c.other, 3, at(&mut value[0])]),
        ("cuStreamSetAttribute", &[c.other, 3, at(&mut value[0])]),
        ("cuEventRecord", &[event, c.other]),
        ("cuStreamWaitEvent", &[c.other, event, 0]),
        ("cuEventSynchronize", &[event]),
        ("cuStreamSynchronize", &[c.other]),
        ("cuEventRecord", &[event, stream]),
        ("cuStreamBeginCapture_v2", &[c.other, 2]),
        ("cuStreamEndCapture", &[c.other, at(&mut p)]),
        (
            "cuLaunchHostFunc",
            &[c.other, nothing as *const () as u64, 0],
        ),
    ];
    for ((name, args), said) in calls.iter().zip(&c.said) {
        said.store(c.api.call(name, args), Ordering::Release);
    }
}

/// What is refused, or taken, at the call.
fn refused(api: &Api) {
    let stream = api.made("cuStreamCreate", &[1]);
    let inside = Calls {
        api,
        context: api.made("cuCtxGetCurrent", &[]),
        memory: api.made("cuMemAlloc_v2", &[64]),
        stream,
        other: api.made("cuStreamCreate", &[1]),
        event: api.made("cuEventCreate", &[0]),
        said: [const { AtomicI32::new(-1) }; 34],
    };
    let data = std::ptr::from_ref(&inside) as u64;
    api.tell(
        "cuLaunchHostFunc",
        &[stream, calls as *const () as u64, data],
    );
    api.tell("cuStreamSynchronize", &[stream]);
    println!("in a function: {:?}", inside.said);
    api.made("cuMemAlloc_v2", &[64]);
    let event = api.made("cuEventCreate", &[0]);
    let nop = api.kernel("nop");
    api.made("cuCtxCreate_v2", &[0, 0]);
    let other = api.made("cuStreamCreate", &[1]);
    let launch = |stream| api.tell("cuLaunchKernel", &[nop, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0]);
    launch(other);
    launch(stream);
    // An event, and code, of one context in a stream of another.
    api.tell("cuEventRecord", &[event, other]);
    api.tell("cuEventRecord", &[event, stream]);
    api.tell("cuEventRecord", &[event, 0]);
    api.tell("cuMemFreeHost", &[0]);
    api.tell("cuCtxPushCurrent_v2", &[0]);
    let mut module = 0u64;
    api.tell("cuModuleLoadData", &[at(&mut module), 0]);
    // Code for link-time optimisation says no length.
    let mut code = 0x7f4e_43edu32.to_le_bytes().to_vec();
    code.resize(44, 1);
    code.extend_from_slice(b"fakedev-module 1\nkernel late nop\n\0");
    let mut function = 0u64;
    api.tell("cuModuleLoadData", &[at(&mut module), at(&mut code[0])]);
    let name = c"late".as_ptr() as u64;
    api.tell("cuModuleGetFunction", &[at(&mut function), module, name]);
    println!("late: {}", api.launch(function, 0, &[]));
    for flags in [0u64, 1, 2, 4] {
        let mut got = 77u32;
        let p = api.made("cuMemHostAlloc", &[4096, flags]);
        api.tell("cuMemHostGetFlags", &[at(&mut got), p]);
        println!("flags {flags}: {got}");
    }
}

fn functions(api: &Api) {
    let known = [c"cuMemAlloc", c"cuNothing", c"cuGraphInstantiate"];
    for name in known {
        for (version, flags) in [
            (13000u64, 0u64),
            (12000, 2),
            (11000, 1),
            (13000, 0x80),
            (0, 0),
            (13001, 0),
            (99000, 0),
        ] {
            let symbol = name.as_ptr() as u64;
            let (mut f, mut status) = (7u64, 7u32);
            let args = [symbol, at(&mut f), version, flags, at(&mut status)];
            let rc = api.call("cuGetProcAddress_v2", &args);
            println!("{name:?} {version} {flags}: {rc} {status} {}", f > 7);
            let rc = api.call(
                "cuGetProcAddress_v2",
                &[symbol, at(&mut f), version, flags, 0],
            );
            let old = api.call("cuGetProcAddress", &[symbol, at(&mut f), version, flags]);
            println!("{name:?} {version} {flags}: {rc}, {old}");
        }
    }
    // It has had one shape since 11.0: the one with flags has a name of its own.
    let [mut a, mut b] = [0u64; 2];
    for (f, version) in [(&mut a, 11000u64), (&mut b, 13000)] {
        let name = c"cuGraphInstantiate".as_ptr() as u64;
        api.call("cuGetProcAddress_v2", &[name, at(f), version, 0, 0]);
    }
    println!("the same function: {}", a == b);
}

fn writes(api: &Api) {
    let d = api.made("cuMemAlloc_v2", &[4096]);
    let stream = api.made("cuStreamCreate", &[1]);
    // The stream does not wait for a fill, which is still under way when its call returns.
    let clear = || {
        api.call("cuMemsetD8_v2", &[d, 0, 4096]);
        api.call("cuCtxSynchronize", &[]);
    };
    clear();
    for (i, name) in [
        "cuStreamWriteValue32",
        "cuStreamWriteValue32_v2",
        "cuStreamWriteValue64",
        "cuStreamWriteValue64_v2",
    ]
    .into_iter()
    .enumerate()
    {
        for flags in [0u64, 1, 2] {
            let to = d + 32 * i as u64 + 8 * flags;
            api.tell(name, &[stream, to, 21 + flags, flags]);
        }
    }
    // Two writes, the second without a barrier.
    let ops = [2u64, d + 256, 31, 0, 0, 0, 2, d + 264, 32, 1, 0, 0];
    for name in ["cuStreamBatchMemOp", "cuStreamBatchMemOp_v2"] {
        api.tell(name, &[stream, 2, ops.as_ptr() as u64, 0]);
        api.tell("cuStreamSynchronize", &[stream]);
        let mut words = [0u64; 34];
        api.call(
            "cuMemcpyDtoH_v2",
            &[at(&mut words), d, size_of_val(&words) as u64],
        );
        println!("{words:?}");
        clear();
    }
}

fn rights(api: &Api) {
    const GRANULE: u64 = 2 << 20;
    let va = api.made("cuMemAddressReserve", &[2 * GRANULE, 0, 0, 0]);
    let location = 1u64; // A device, the first.
    let mut flags = 77u64;
    api.tell(
        "cuMemGetAccess",
        &[at(&mut flags), std::ptr::from_ref(&location) as u64, va],
    );
    println!("rights {flags}");
}

/// A tensor map gets another address wherever it lies.
fn maps(api: &Api) {
    let mut words: Vec<u64> = (0..40).collect();
    for at_word in [0usize, 1, 2, 8, 9] {
        let map = at(&mut words[at_word]);
        api.tell("cuTensorMapReplaceAddress", &[map, 0x7000 + at_word as u64]);
    }
    api.tell("cuTensorMapReplaceAddress", &[0, 0x7000]);
    println!("{words:?}");
}
