//! Copies that few programs make: rows longer than what travels in one piece, memory that is freed
//! under a copy, mistakes beside which everything goes on.

use super::api::{Api, at};

const HOST: u64 = 1;
const DEVICE: u64 = 2;
const ARRAY: u64 = 3;

/// One end of a box of rows.
#[derive(Clone, Copy)]
struct End {
    kind: u64,
    p: u64,
    x: u64,
    y: u64,
    pitch: u64,
}

impl End {
    /// As `CUDA_MEMCPY2D` has it.
    fn words(self) -> [u64; 7] {
        let of = |kind| if self.kind == kind { self.p } else { 0 };
        let (host, device, array) = (of(HOST), of(DEVICE), of(ARRAY));
        [self.x, self.y, self.kind, host, device, array, self.pitch]
    }
}

fn box_of(src: End, dst: End, width: u64, height: u64) -> [u64; 16] {
    let mut all = [0; 16];
    all[..7].copy_from_slice(&src.words());
    all[7..14].copy_from_slice(&dst.words());
    (all[14], all[15]) = (width, height);
    all
}

fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |h: u64, b| {
        (h.rotate_left(5) ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn pattern(n: usize, seed: u64) -> Vec<u8> {
    let next = |s: &mut u64| {
        *s = s.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Some((*s >> 40) as u8)
    };
    std::iter::successors(Some(seed), |s| Some(*s))
        .scan(seed, |s, _| next(s))
        .take(n)
        .collect()
}

/// Rows of any length, to and from memory and arrays.
pub fn rows(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    for (width, height) in [
        (1000u64, 30u64),
        ((1 << 20) + 5, 3),
        (5 << 20, 2),
        (3 << 20, 1),
    ] {
        let (pitch, row) = (width + 100, width + 24);
        let room = (pitch * (height + 2)) as usize;
        let d = api.made("cuMemAlloc_v2", &[room as u64]);
        api.call("cuMemsetD8_v2", &[d, 9, room as u64]);
        let pinned = api.made("cuMemHostAlloc", &[room as u64, 0]);
        let mut back = vec![3u8; room];
        let mut source = pattern(room, width);
        for later in [false, true] {
            let run = |all: &mut [u64; 16]| match later {
                true => api.call("cuMemcpy2DAsync_v2", &[at(all), stream]),
                false => api.call("cuMemcpy2D_v2", &[at(all)]),
            };
            let end = |kind, p: u64, x, y, pitch| End {
                kind,
                p,
                x,
                y,
                pitch,
            };
            let there = end(DEVICE, d, 8, 1, pitch);
            let mut all = box_of(
                end(HOST, at(&mut source[0]), 3, 1, row),
                there,
                width,
                height,
            );
            println!("{width}x{height} in: {}", run(&mut all));
            // Pageable memory is the program's again.
            source.fill(0);
            for (what, host) in [("pageable", at(&mut back[0])), ("pinned", pinned)] {
                let mut all = box_of(there, end(HOST, host, 5, 0, row), width, height);
                println!("{what} out: {}", run(&mut all));
                api.call("cuStreamSynchronize", &[stream]);
            }
            // SAFETY: page-locked memory of that size, whose copies are done.
            let seen = unsafe { std::slice::from_raw_parts(pinned as *const u8, room) };
            let used = 5 + ((height - 1) * row + width) as usize;
            println!("{:x} {:x}", digest(&back), digest(&seen[5..used]));
            source = pattern(room, width + 1);
        }
        let mut whole = vec![0u8; room];
        api.call("cuMemcpyDtoH_v2", &[at(&mut whole[0]), d, room as u64]);
        println!("all {:x}", digest(&whole));
        api.tell("cuMemFreeHost", &[pinned]);
        api.tell("cuMemFree_v2", &[d]);
    }
    // An array of 100,000 elements of 16 bytes: width, height, format (32-bit numbers), channels.
    let mut shape = [100_000u64, 2, 0x3 | 4 << 32];
    let array = api.made("cuArrayCreate_v2", &[at(&mut shape)]);
    let n = 16 * 100_000;
    let mut source = pattern(n, 5);
    let line = |kind, p, y| End {
        kind,
        p,
        x: 0,
        y,
        pitch: n as u64,
    };
    let (host, there) = (line(HOST, at(&mut source[0]), 0), line(ARRAY, array, 1));
    let mut all = box_of(host, there, n as u64, 1);
    api.tell("cuMemcpy2D_v2", &[at(&mut all)]);
    let mut back = vec![0u8; n];
    let mut all = box_of(there, line(HOST, at(&mut back[0]), 0), n as u64, 1);
    api.tell("cuMemcpy2D_v2", &[at(&mut all)]);
    println!("the same: {}", back == source);
    mistaken(api, stream);
}

/// Boxes that are nowhere, or whose memory is not there.
fn mistaken(api: &Api, stream: u64) {
    let d = api.made("cuMemAlloc_v2", &[1 << 20]);
    let mut host = [1u8; 256];
    let end = |kind, p| End {
        kind,
        p,
        x: 0,
        y: 0,
        pitch: 64,
    };
    let (good, none) = (end(DEVICE, d), end(HOST, 0));
    let (here, wild) = (end(HOST, at(&mut host)), end(DEVICE, 0x10));
    for (src, dst) in [
        (none, good),
        (good, none),
        (here, wild),
        (wild, here),
        (wild, good),
        (good, wild),
        (here, good),
    ] {
        let mut all = box_of(src, dst, 64, 4);
        api.tell("cuMemcpy2D_v2", &[at(&mut all)]);
        api.tell("cuMemcpy2DAsync_v2", &[at(&mut all), stream]);
        api.tell("cuStreamSynchronize", &[stream]);
    }
    let most = u64::MAX;
    let p = api.made("cuMemAllocManaged", &[4096, 1]);
    for n in [most, most - 8, 1 << 63] {
        for (dst, src) in [
            (d + 8, at(&mut host)),
            (p + 8, at(&mut host)),
            (at(&mut host), d + 8),
        ] {
            api.tell("cuMemcpy", &[dst, src, n]);
        }
        api.tell("cuMemcpyDtoDAsync_v2", &[d + 8, p + 8, n, stream]);
        api.tell("cuMemsetD8_v2", &[d + 8, 0, n]);
    }
    for (dst, src) in [(0, at(&mut host)), (at(&mut host), 0), (d, 0), (0, d)] {
        api.tell("cuMemcpy", &[dst, src, 16]);
        api.tell("cuMemcpyAsync", &[dst, src, 16, stream]);
    }
    api.tell("cuMemHostRegister_v2", &[at(&mut host), most, 0]);
    api.tell("cuCtxSynchronize", &[]);
}

/// Page-locked memory that is freed under copies, and had again at once.
pub fn freed(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let spin = api.kernel("spin");
    // It keeps the mapping that small pieces lie in.
    let _keeper = api.made("cuMemHostAlloc", &[4096, 0]);
    for size in [4096u64, 300 << 10, 3 << 20] {
        let d = api.made("cuMemAlloc_v2", &[size]);
        let set = |p: u64, v: u8| {
            // SAFETY: page-locked memory of that size.
            unsafe { std::slice::from_raw_parts_mut(p as *mut u8, size as usize) }.fill(v)
        };
        let first = api.made("cuMemHostAlloc", &[size, 0]);
        set(first, 1);
        println!("busy: {}", api.launch(spin, stream, &[30_000]));
        api.tell("cuMemcpyHtoDAsync_v2", &[d, first, size, stream]);
        api.tell("cuMemFreeHost", &[first]);
        let second = api.made("cuMemHostAlloc", &[size, 0]);
        set(second, 2);
        api.tell("cuStreamSynchronize", &[stream]);
        let mut back = [0u8; 4];
        api.call("cuMemcpyDtoH_v2", &[at(&mut back), d, 4]);
        println!("to the device: {back:?}");
        // The other way: what is freed must not be written to any more.
        println!("busy: {}", api.launch(spin, stream, &[30_000]));
        api.tell("cuMemcpyDtoHAsync_v2", &[second, d, size, stream]);
        api.tell("cuMemFreeHost", &[second]);
        let third = api.made("cuMemHostAlloc", &[size, 0]);
        set(third, 3);
        api.tell("cuStreamSynchronize", &[stream]);
        // SAFETY: page-locked memory.
        println!("from it: {}", unsafe {
            (third as *const u8).read_volatile()
        });
        api.tell("cuMemFreeHost", &[third]);
        api.tell("cuMemFree_v2", &[d]);
    }
    captured(api, stream);
}

/// To free page-locked memory beside a capture leaves that alone.
fn captured(api: &Api, stream: u64) {
    let fill = api.kernel("fill");
    let p = api.made("cuMemAlloc_v2", &[4096]);
    for size in [4096u64, 3 << 20] {
        let pinned = api.made("cuMemHostAlloc", &[size, 0]);
        api.tell("cuStreamBeginCapture_v2", &[stream, 2]);
        println!("launch: {}", api.launch(fill, stream, &[p, size, 16]));
        api.tell("cuMemFreeHost", &[pinned]);
        api.run_captured(stream);
        let mut v = [0u32; 1];
        api.call("cuMemcpyDtoH_v2", &[at(&mut v), p, 4]);
        println!("{v:?}");
    }
}

/// What is not the program's to free stays what it is.
pub fn globals(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let image = c"fakedev-module 1\nkernel nop nop\nglobal counter 64\n";
    let module = api.made("cuModuleLoadData", &[image.as_ptr() as u64]);
    let (mut p, mut n) = (0u64, 0u64);
    let name = c"counter".as_ptr() as u64;
    api.tell(
        "cuModuleGetGlobal_v2",
        &[at(&mut p), at(&mut n), module, name],
    );
    let mut size = 0u64;
    let use_it = |api: &Api| {
        let mut back = [0u8; 4];
        api.tell("cuMemsetD8_v2", &[p, 5, 64]);
        api.tell("cuMemcpyDtoH_v2", &[at(&mut back), p, 4]);
        println!("{back:?}");
    };
    use_it(api);
    api.tell("cuMemFree_v2", &[p]);
    use_it(api);
    let stream = api.made("cuStreamCreate", &[1]);
    println!("refused: {}", api.call("cuMemFreeAsync", &[p, stream]) != 0);
    use_it(api);
    api.tell("cuMemGetAddressRange_v2", &[0, at(&mut size), p]);
    println!("{size}");
    // No bytes are no error.
    let mut none = 1u64;
    api.tell("cuMemAllocAsync", &[at(&mut none), 0, stream]);
    println!("no bytes at {none}");
    api.tell("cuMemFreeAsync", &[0, stream]);
    // Half of what came from a pool is not what came from a pool.
    let q = api.made("cuMemAllocAsync", &[4096, stream]);
    println!(
        "refused: {}",
        api.call("cuMemFreeAsync", &[q + 512, stream]) != 0
    );
    api.tell("cuMemFree_v2", &[q + 512]);
    api.tell("cuMemFreeAsync", &[q, stream]);
    api.tell("cuStreamSynchronize", &[stream]);
    println!("refused: {}", api.call("cuMemFreeAsync", &[q, stream]) != 0);
}

/// What a host function writes, and where.
struct Write {
    to: u64,
    value: u8,
    n: usize,
}

/// A function of the program's that takes its time, and then writes.
unsafe extern "C" fn write(data: *mut std::ffi::c_void) {
    std::thread::sleep(std::time::Duration::from_millis(30));
    // SAFETY: the programs below pass one that outlives the stream's work.
    let w = unsafe { &*data.cast::<Write>() };
    // SAFETY: memory of that size.
    unsafe { std::slice::from_raw_parts_mut(w.to as *mut u8, w.n) }.fill(w.value);
}

/// Queues that function. What it is told must live until it has run.
#[must_use]
fn write_later(api: &Api, stream: u64, to: u64, value: u8, n: usize) -> Box<Write> {
    let mut w = Box::new(Write { to, value, n });
    let f = write as *const () as u64;
    api.tell("cuLaunchHostFunc", &[stream, f, at(&mut *w)]);
    w
}

/// Page-locked memory between two pieces of work on a stream: the second finds there what the first
/// has left.
pub fn ordered(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let spin = api.kernel("spin");
    for (flags, size) in [(1u64, 100u64), (1, 5 << 20), (0, 70 << 10), (1, 20 << 20)] {
        let stream = api.made("cuStreamCreate", &[flags]);
        let [a, b] = [0; 2].map(|_| api.made("cuMemAlloc_v2", &[size]));
        let host = api.made("cuMemHostAlloc", &[size, 0]);
        let set = |v: u8| {
            // SAFETY: page-locked memory of that size.
            unsafe { std::slice::from_raw_parts_mut(host as *mut u8, size as usize) }.fill(v)
        };
        let ends = || {
            let mut back = [0u8; 2];
            let [first, last] = &mut back;
            api.call("cuMemcpyDtoH_v2", &[at(first), b, 1]);
            api.call("cuMemcpyDtoH_v2", &[at(last), b + size - 1, 1]);
            println!("{back:?}");
        };
        let busy = || println!("busy: {}", api.launch(spin, stream, &[30_000]));
        // From the device and to it again.
        set(1);
        busy();
        api.tell("cuMemsetD8Async", &[a, 2, size, stream]);
        api.tell("cuMemcpyDtoHAsync_v2", &[host, a, size, stream]);
        api.tell("cuMemcpyHtoDAsync_v2", &[b, host, size, stream]);
        api.tell("cuStreamSynchronize", &[stream]);
        ends();
        // The same with rows.
        busy();
        api.tell("cuMemsetD8Async", &[a, 3, size, stream]);
        let end = |kind, p| End {
            kind,
            p,
            x: 0,
            y: 0,
            pitch: size,
        };
        let mut out = box_of(end(DEVICE, a), end(HOST, host), size, 1);
        let mut back = box_of(end(HOST, host), end(DEVICE, b), size, 1);
        api.tell("cuMemcpy2DAsync_v2", &[at(&mut out), stream]);
        api.tell("cuMemcpy2DAsync_v2", &[at(&mut back), stream]);
        api.tell("cuStreamSynchronize", &[stream]);
        ends();
        // Written by a function, and read behind an event on another stream.
        let other = api.made("cuStreamCreate", &[1]);
        let event = api.made("cuEventCreate", &[2]);
        let _w = write_later(api, stream, host, 4, size as usize);
        api.tell("cuEventRecord", &[event, stream]);
        api.tell("cuStreamWaitEvent", &[other, event, 0]);
        api.tell("cuMemcpyHtoDAsync_v2", &[b, host, size, other]);
        api.tell("cuStreamSynchronize", &[other]);
        ends();
        // Read by a copy that waits, on the default stream.
        let _w = write_later(api, 0, host, 5, size as usize);
        api.tell("cuMemcpyHtoD_v2", &[b, host, size]);
        ends();
        // Pageable memory, too, is read behind what is before.
        let mut plain = vec![1u8; size as usize];
        let _w = write_later(api, 0, at(&mut plain[0]), 6, size as usize);
        api.tell("cuMemcpyHtoD_v2", &[b, at(&mut plain[0]), size]);
        ends();
        let _w = write_later(api, 0, at(&mut plain[0]), 7, size as usize);
        let mut rows = box_of(end(HOST, at(&mut plain[0])), end(DEVICE, b), size, 1);
        api.tell("cuMemcpy2D_v2", &[at(&mut rows)]);
        ends();
        // By a graph that is launched behind the function.
        let (mut graph, mut exec) = (0u64, 0u64);
        api.tell("cuStreamBeginCapture_v2", &[stream, 2]);
        api.tell("cuMemcpyHtoDAsync_v2", &[b, host, size, stream]);
        api.tell("cuStreamEndCapture", &[stream, at(&mut graph)]);
        api.tell("cuGraphInstantiateWithFlags", &[at(&mut exec), graph, 0]);
        let _w = write_later(api, stream, host, 8, size as usize);
        api.tell("cuGraphLaunch", &[exec, stream]);
        api.tell("cuStreamSynchronize", &[stream]);
        ends();
        api.tell("cuMemFreeHost", &[host]);
        for p in [a, b] {
            api.tell("cuMemFree_v2", &[p]);
        }
    }
    unheld(api);
    behind(api);
}

/// More copies behind a function than the server has room for until it has returned.
fn behind(api: &Api) {
    const N: u64 = 4 << 20;
    let stream = api.made("cuStreamCreate", &[1]);
    let d = api.made("cuMemAlloc_v2", &[N]);
    let host = api.made("cuMemHostAlloc", &[N, 0]);
    let mut plain = vec![9u8; N as usize];
    let _w = write_later(api, stream, host, 4, 1);
    for i in 0..48 {
        // The last one leaves what the function has not touched.
        let from = if i % 2 == 0 { host } else { at(&mut plain[0]) };
        assert_eq!(api.call("cuMemcpyHtoDAsync_v2", &[d, from, N, stream]), 0);
    }
    api.tell("cuStreamSynchronize", &[stream]);
    let mut back = [0u8; 2];
    api.call("cuMemcpyDtoH_v2", &[at(&mut back), d, 2]);
    println!("{back:?}");
}

/// Waits for the program's leave.
unsafe extern "C" fn wait(leave: *mut std::ffi::c_void) {
    // SAFETY: the program below passes one that outlives the stream's work.
    let leave = unsafe { &*leave.cast::<std::sync::atomic::AtomicBool>() };
    while !leave.load(std::sync::atomic::Ordering::Acquire) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Copies between page-locked memory and the device wait for nothing: the stream is held until the
/// program, which makes them first, gives leave.
fn unheld(api: &Api) {
    let stream = api.made("cuStreamCreate", &[1]);
    let d = api.made("cuMemAlloc_v2", &[3 << 20]);
    let host = api.made("cuMemHostAlloc", &[3 << 20, 0]);
    let leave = std::sync::atomic::AtomicBool::new(false);
    let f = wait as *const () as u64;
    let p = std::ptr::from_ref(&leave) as u64;
    api.tell("cuLaunchHostFunc", &[stream, f, p]);
    api.tell("cuMemcpyHtoDAsync_v2", &[d, host, 2 << 20, stream]);
    api.tell("cuMemcpyDtoHAsync_v2", &[host, d, 2 << 20, stream]);
    let end = |kind, p| End {
        kind,
        p,
        x: 0,
        y: 0,
        pitch: 1 << 10,
    };
    let mut rows = box_of(end(DEVICE, d), end(HOST, host), 1000, 20);
    api.tell("cuMemcpy2DAsync_v2", &[at(&mut rows), stream]);
    api.tell("cuStreamQuery", &[stream]);
    leave.store(true, std::sync::atomic::Ordering::Release);
    api.tell("cuStreamSynchronize", &[stream]);
}

/// A context goes while copies in it are under way; others go on.
pub fn left(api: &Api) {
    let keep = api.made("cuCtxCreate_v2", &[0, 0]);
    let host = api.made("cuMemHostAlloc", &[1 << 20, 1]);
    for _ in 0..4 {
        let ctx = api.made("cuCtxCreate_v2", &[0, 0]);
        let spin = api.kernel("spin");
        let stream = api.made("cuStreamCreate", &[1]);
        let d = api.made("cuMemAlloc_v2", &[8 << 20]);
        let plain = vec![1u8; 2 << 20];
        println!("busy: {}", api.launch(spin, stream, &[20_000]));
        for _ in 0..3 {
            let from = plain.as_ptr() as u64;
            api.tell("cuMemcpyHtoDAsync_v2", &[d, from, 2 << 20, stream]);
            api.tell("cuMemcpyDtoHAsync_v2", &[host, d, 1 << 20, stream]);
        }
        api.tell("cuCtxDestroy_v2", &[ctx]);
        api.tell("cuCtxSetCurrent", &[keep]);
        let p = api.made("cuMemAlloc_v2", &[4096]);
        let mut bytes = [3u8; 4];
        api.tell("cuMemcpyHtoD_v2", &[p, at(&mut bytes), 4]);
        bytes = [0; 4];
        api.tell("cuMemcpyDtoH_v2", &[at(&mut bytes), p, 4]);
        println!("{bytes:?}");
        api.tell("cuCtxSynchronize", &[]);
        api.tell("cuMemFree_v2", &[p]);
    }
}

/// A batch that may read its sources only while it is called, though they are page-locked.
pub fn at_once(api: &Api) {
    const DURING_CALL: u32 = 2;
    api.made("cuCtxCreate_v2", &[0, 0]);
    let (stream, spin) = (api.made("cuStreamCreate", &[1]), api.kernel("spin"));
    let n = 1u64 << 20;
    let mut d = [api.made("cuMemAlloc_v2", &[n])];
    let from = [api.made("cuMemHostAlloc", &[n, 0])];
    let fill = |v: u8| {
        // SAFETY: page-locked memory of that size.
        unsafe { std::slice::from_raw_parts_mut(from[0] as *mut u8, n as usize) }.fill(v)
    };
    fill(1);
    println!("busy: {}", api.launch(spin, stream, &[30_000]));
    let (mut sizes, mut first) = ([n], 0u64);
    let mut how = [DURING_CALL, 0, 0, 0, 0, 0, 0, 0];
    let lists = [at(&mut d), from.as_ptr() as u64, at(&mut sizes)];
    let (how, first) = (at(&mut how), at(&mut first));
    let args = [lists[0], lists[1], lists[2], 1, how, first, 1, stream];
    api.tell("cuMemcpyBatchAsync_v2", &args);
    fill(2);
    api.tell("cuStreamSynchronize", &[stream]);
    let mut back = [0u8; 2];
    let [a, b] = &mut back;
    api.call("cuMemcpyDtoH_v2", &[at(a), d[0], 1]);
    api.call("cuMemcpyDtoH_v2", &[at(b), d[0] + n - 1, 1]);
    println!("{back:?}");
}

/// Kernels get structures whose places hold addresses of page-locked memory: those of a long one,
/// and of another that has had none before, may be what was on the stack. Copies use the memory on
/// and on, and a launch has its address once more.
pub fn tables(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let (n, d) = (1u64 << 20, api.made("cuMemAlloc_v2", &[4096]));
    for (name, before) in [("many", 0), ("late", 9), ("some", 0)] {
        let f = api.kernel(name);
        let host = api.made("cuMemHostAlloc", &[n, 0]);
        // SAFETY: page-locked memory of that size.
        let bytes = unsafe { std::slice::from_raw_parts_mut(host as *mut u8, n as usize) };
        bytes.fill(7);
        // The address of what is copied is left on the stack.
        api.tell("cuMemcpyHtoDAsync_v2", &[d + 64, host, 64, stream]);
        api.tell("cuStreamSynchronize", &[stream]);
        let launch = |first: u64| {
            let (value, words) = (9u32, 16u64);
            let table = [first; 256];
            let list = [
                std::ptr::from_ref(&d) as u64,
                std::ptr::from_ref(&value) as u64,
                std::ptr::from_ref(&words) as u64,
                table.as_ptr() as u64,
            ];
            let args = [f, 1, 1, 1, 1, 1, 1, 0, stream, list.as_ptr() as u64, 0];
            api.tell("cuLaunchKernel", &args);
        };
        (0..before).for_each(|_| launch(d));
        launch(host);
        api.tell("cuMemcpyHtoDAsync_v2", &[d + 64, host, 64, stream]);
        api.tell("cuStreamSynchronize", &[stream]);
        let mut back = [0u8; 128];
        api.tell("cuMemcpyDtoH_v2", &[at(&mut back), d, 128]);
        println!("{} {} {}", back[63], back[64], bytes[4096]);
        let mut came = Vec::new();
        for round in 0..9u8 {
            bytes[..4096].fill(round);
            api.tell("cuMemcpyHtoDAsync_v2", &[d, host, 4096, stream]);
            api.tell(
                "cuMemcpyDtoHAsync_v2",
                &[host + (512 << 10), d, 4096, stream],
            );
            api.tell("cuStreamSynchronize", &[stream]);
            came.push(bytes[(512 << 10) + 4095]);
        }
        launch(host);
        api.tell("cuMemcpyHtoDAsync_v2", &[d, host, 4096, stream]);
        api.tell("cuStreamSynchronize", &[stream]);
        api.tell("cuMemcpyDtoH_v2", &[at(&mut back), d, 128]);
        println!("{came:?} {} {}", back[1], back[127]);
        api.tell("cuMemFreeHost", &[host]);
    }
}

/// A copy that has returned is done, also for the first stream of all, which is made only then and
/// waits for no other.
pub fn first(api: &Api) {
    const N: u64 = 1 << 20;
    let ctx = api.made("cuDevicePrimaryCtxRetain", &[0]);
    api.tell("cuCtxSetCurrent", &[ctx]);
    let spin = api.kernel("spin");
    let [a, b] = [0; 2].map(|_| api.made("cuMemAlloc_v2", &[N]));
    api.tell("cuMemsetD8_v2", &[a, 1, N]);
    println!("busy: {}", api.launch(spin, 0, &[100_000]));
    let mut bytes = vec![2u8; N as usize];
    api.tell("cuMemcpyHtoD_v2", &[a, at(&mut bytes[0]), N]);
    let stream = api.made("cuStreamCreate", &[1]);
    api.tell("cuMemcpyDtoDAsync_v2", &[b, a, N, stream]);
    api.tell("cuStreamSynchronize", &[stream]);
    bytes.fill(0);
    api.tell("cuMemcpyDtoHAsync_v2", &[at(&mut bytes[0]), b, N, stream]);
    println!("{} {}", bytes[0], bytes[N as usize - 1]);
}
