//! What CUDA's driver says where programs make mistakes, and what then still works: each word is a
//! small program whose every call's result is a line, so that a native and a remote run can be
//! compared. Functions are called by name, with arguments as the C ABI passes them.

use libloading::Library;

const IMAGE: &str = "fakedev-module 1\n\
    kernel nop nop\nkernel trap trap\nkernel assert assert u32\nkernel fill fill_u32\n\
    kernel spin spin\nkernel probe probe\n\0";

struct Api {
    library: Library,
}

impl Api {
    fn load() -> Self {
        // SAFETY: loading the driver runs its initializers, as in any CUDA program.
        let library = unsafe { Library::new("libcuda.so.1") }.expect("libcuda.so.1 can be loaded");
        Self { library }
    }

    /// Calls a function; those here take whole numbers and pointers only, twelve at most.
    fn call(&self, name: &str, args: &[u64]) -> i32 {
        type F = unsafe extern "C" fn(
            u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64,
        ) -> i32;
        let mut a = [0u64; 12];
        a[..args.len()].copy_from_slice(args);
        // SAFETY: the driver exports the function, and ignores arguments beyond its own; pointers
        // among them are valid, as each program below sees to.
        unsafe {
            let f = self
                .library
                .get::<F>(name.as_bytes())
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            f(
                a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
            )
        }
    }

    /// Calls a function and prints its result.
    fn tell(&self, name: &str, args: &[u64]) -> i32 {
        let rc = self.call(name, args);
        println!("{name}: {rc}");
        rc
    }

    /// Calls a function that must succeed and gives what it writes through its first argument.
    fn made(&self, name: &str, rest: &[u64]) -> u64 {
        let mut out = 0u64;
        let mut args = vec![at(&mut out)];
        args.extend_from_slice(rest);
        assert_eq!(self.call(name, &args), 0, "{name}");
        out
    }

    fn kernel(&self, name: &str) -> u64 {
        let module = self.made("cuModuleLoadData", &[IMAGE.as_ptr() as u64]);
        let name = format!("{name}\0");
        self.made("cuModuleGetFunction", &[module, name.as_ptr() as u64])
    }

    fn launch(&self, f: u64, stream: u64, words: &[u64]) -> i32 {
        let mut list: Vec<*const u64> = words.iter().map(std::ptr::from_ref).collect();
        list.push(std::ptr::null());
        let p = list.as_ptr() as u64;
        self.call("cuLaunchKernel", &[f, 1, 1, 1, 1, 1, 1, 0, stream, p, 0])
    }
}

fn at<T>(v: &mut T) -> u64 {
    std::ptr::from_mut(v) as u64
}

fn main() {
    let word = std::env::args().nth(1).unwrap_or_default();
    let api = Api::load();
    if word != "visible" {
        assert_eq!(api.call("cuInit", &[0]), 0);
    }
    match word.as_str() {
        "contexts" => contexts(&api),
        "destroyed" => destroyed(&api),
        "reset" => reset(&api),
        "nothing" => nothing(&api),
        "lives" => lives(&api),
        _ => {
            eprintln!("usage: semantics_program contexts | destroyed | reset | nothing | ...");
            std::process::exit(2);
        }
    }
}

/// An error in one context leaves the others alone, whichever is current when it shows.
fn contexts(api: &Api) {
    let [a, b, c] = [0, 1, 0].map(|device| api.made("cuCtxCreate_v2", &[0, device]));
    let say = |who: &str, ctx: u64| {
        assert_eq!(api.call("cuCtxSetCurrent", &[ctx]), 0);
        print!("{who} ");
        let mut p = 0u64;
        api.tell("cuMemAlloc_v2", &[at(&mut p), 4096]);
        print!("{who} ");
        api.tell("cuCtxSynchronize", &[]);
    };
    assert_eq!(api.call("cuCtxSetCurrent", &[a]), 0);
    let (trap, stream) = (api.kernel("trap"), api.made("cuStreamCreate", &[1]));
    let event = api.made("cuEventCreate", &[0]);
    say("before", a);
    println!("launch: {}", api.launch(trap, stream, &[]));
    api.call("cuEventRecord", &[event, stream]);
    // Seen from another context, whose own work goes on.
    assert_eq!(api.call("cuCtxSetCurrent", &[b]), 0);
    api.tell("cuStreamSynchronize", &[stream]);
    api.tell("cuStreamSynchronize", &[stream]);
    say("b", b);
    say("c", c);
    say("a", a);
    println!("launch: {}", api.launch(trap, stream, &[]));
    api.tell("cuStreamQuery", &[stream]);
    let mut current = 0u64;
    api.tell("cuCtxGetCurrent", &[at(&mut current)]);
    println!("current is a: {}", current == a);
    let mut flags = 0u64;
    api.tell("cuCtxGetDevice", &[at(&mut flags)]);
    assert_eq!(api.call("cuCtxSetCurrent", &[b]), 0);
    println!("destroy: {}", i32::from(api.call("cuCtxDestroy_v2", &[a]) == 201));
    say("b", b);
    let d = api.made("cuCtxCreate_v2", &[0, 0]);
    say("d", d);
    let nop = api.kernel("nop");
    println!("launch: {}", api.launch(nop, 0, &[]));
    say("d", d);
    for ctx in [b, c, d] {
        api.tell("cuCtxDestroy_v2", &[ctx]);
    }
}

/// A context that another thread has destroyed.
fn destroyed(api: &Api) {
    let a = api.made("cuCtxCreate_v2", &[0, 0]);
    let b = api.made("cuCtxCreate_v2", &[0, 0]);
    std::thread::scope(|s| {
        let t = s.spawn(|| {
            assert_eq!(api.call("cuCtxSetCurrent", &[b]), 0);
            assert_eq!(api.call("cuCtxDestroy_v2", &[a]), 0);
        });
        assert_eq!(api.call("cuCtxSetCurrent", &[a]), 0);
        t.join().expect("the thread ends well");
    });
    let mut p = 0u64;
    api.tell("cuMemAlloc_v2", &[at(&mut p), 4096]);
    api.tell("cuCtxSynchronize", &[]);
    // A new context must not be taken for the old one.
    let c = api.made("cuCtxCreate_v2", &[0, 0]);
    api.tell("cuMemAlloc_v2", &[at(&mut p), 4096]);
    api.tell("cuCtxDestroy_v2", &[c]);
    api.tell("cuMemAlloc_v2", &[at(&mut p), 4096]);
    api.tell("cuCtxSetCurrent", &[b]);
    api.tell("cuMemAlloc_v2", &[at(&mut p), 4096]);
    api.tell("cuCtxSetCurrent", &[a]);
    api.tell("cuCtxPushCurrent_v2", &[a]);
    api.tell("cuCtxDestroy_v2", &[a]);
    api.tell("cuCtxDestroy_v2", &[b]);
    api.tell("cuMemAlloc_v2", &[at(&mut p), 4096]);
}

/// A primary context that an error has lost begins anew after a reset, again and again.
fn reset(api: &Api) {
    for (round, (kernel, words)) in [
        ("trap", vec![]),
        ("assert", vec![0]),
        ("probe", vec![64, 1]),
        ("fill", vec![2, 0, 1]),
    ]
    .iter()
    .enumerate()
    {
        let ctx = api.made("cuDevicePrimaryCtxRetain", &[0]);
        assert_eq!(api.call("cuCtxSetCurrent", &[ctx]), 0);
        let f = api.kernel(kernel);
        let p = api.made("cuMemAlloc_v2", &[4096]);
        println!("round {round} launch: {}", api.launch(f, 0, words));
        api.tell("cuCtxSynchronize", &[]);
        api.tell("cuMemFree_v2", &[p]);
        println!("launch: {}", api.launch(f, 0, words));
        let mut back = [0u8; 4];
        api.tell("cuMemcpyDtoH_v2", &[at(&mut back), p, 4]);
        let mut q = 0u64;
        api.tell("cuMemAllocAsync", &[at(&mut q), 4096, 0]);
        api.tell("cuStreamCreate", &[at(&mut q), 0]);
        api.tell("cuDevicePrimaryCtxReset_v2", &[0]);
        let mut active = [0i32; 2];
        let [flags, on] = active.each_mut().map(at);
        api.tell("cuDevicePrimaryCtxRetain", &[at(&mut q), 0]);
        api.tell("cuDevicePrimaryCtxGetState", &[0, flags, on]);
        println!("active {}", active[1]);
        assert_eq!(api.call("cuCtxSetCurrent", &[q]), 0);
        let p = api.made("cuMemAlloc_v2", &[4096]);
        api.tell("cuMemsetD8_v2", &[p, 7, 4]);
        api.tell("cuMemcpyDtoH_v2", &[at(&mut back), p, 4]);
        println!("{back:?}");
        api.tell("cuDevicePrimaryCtxReset_v2", &[0]);
    }
}

/// Nothing to do, nowhere to put it.
fn nothing(api: &Api) {
    let mut p = 0u64;
    api.tell("cuMemAlloc_v2", &[at(&mut p), 4096]);
    api.tell("cuMemFree_v2", &[0]);
    api.tell("cuCtxSynchronize", &[]);
    api.tell("cuStreamCreate", &[at(&mut p), 0]);
    api.made("cuCtxCreate_v2", &[0, 0]);
    api.tell("cuMemAlloc_v2", &[0, 4096]);
    api.tell("cuMemAlloc_v2", &[at(&mut p), 0]);
    api.tell("cuMemFree_v2", &[0]);
    let device = api.made("cuMemAlloc_v2", &[4096]);
    let mut host = [1u8; 64];
    for n in [0, 16] {
        println!("{n} bytes");
        api.tell("cuMemcpyHtoD_v2", &[device, at(&mut host), n]);
        api.tell("cuMemcpyDtoH_v2", &[at(&mut host), device, n]);
        api.tell("cuMemcpyDtoD_v2", &[device, device + 64, n]);
        api.tell("cuMemcpyHtoDAsync_v2", &[device, at(&mut host), n, 0]);
        api.tell("cuMemcpyDtoHAsync_v2", &[at(&mut host), device, n, 0]);
        api.tell("cuMemsetD8_v2", &[device, 0, n]);
        api.tell("cuMemsetD32_v2", &[device, 0, n]);
        api.tell("cuMemsetD8Async", &[device, 0, n, 0]);
    }
    api.tell("cuCtxSynchronize", &[]);
    api.tell("cuStreamCreate", &[0, 0]);
    api.tell("cuEventCreate", &[0, 0]);
    api.tell("cuStreamSynchronize", &[0x1234_5678]);
    api.tell("cuEventRecord", &[0, 0]);
    api.tell("cuEventQuery", &[0]);
    api.tell("cuStreamDestroy_v2", &[0]);
    api.tell("cuEventDestroy_v2", &[0]);
    api.tell("cuModuleUnload", &[0]);
    api.tell("cuCtxDestroy_v2", &[0]);
    api.tell("cuDeviceGet", &[0, 0]);
    api.tell("cuDeviceGetCount", &[0]);
    api.tell("cuMemHostAlloc", &[0, 64, 0]);
    api.tell("cuMemHostAlloc", &[at(&mut p), 64, 0x1000]);
    api.tell("cuMemFreeHost", &[at(&mut host)]);
}


/// Memory ends with its context, and so can be had again, any number of times.
fn lives(api: &Api) {
    let free = |api: &Api| {
        let (mut free, mut total) = (0u64, 0u64);
        api.call("cuMemGetInfo_v2", &[at(&mut free), at(&mut total)]);
        free
    };
    let keep = api.made("cuCtxCreate_v2", &[0, 0]);
    let before = free(api);
    for round in 0..4u8 {
        let ctx = match round {
            3 => api.made("cuDevicePrimaryCtxRetain", &[0]),
            _ => api.made("cuCtxCreate_v2", &[0, 0]),
        };
        assert_eq!(api.call("cuCtxSetCurrent", &[ctx]), 0);
        for n in [512u64, 4096, 3 << 20, 16 << 20] {
            let p = api.made("cuMemAlloc_v2", &[n]);
            let mut back = [0u8; 2];
            let v = u64::from(round);
            println!("fill: {}", api.call("cuMemsetD8_v2", &[p, v, n]));
            let end = p + n - 2;
            println!("read: {} {back:?}", api.call("cuMemcpyDtoH_v2", &[at(&mut back), end, 2]));
        }
        let m = api.made("cuMemAllocManaged", &[4096, 1]);
        println!("managed: {}", api.call("cuMemsetD8_v2", &[m, 7, 4096]));
        api.tell("cuCtxSynchronize", &[]);
        match round {
            3 => api.tell("cuDevicePrimaryCtxRelease_v2", &[0]),
            _ => api.tell("cuCtxDestroy_v2", &[ctx]),
        };
        assert_eq!(api.call("cuCtxSetCurrent", &[keep]), 0);
        println!("all of it is free again: {}", free(api) == before);
    }
}
