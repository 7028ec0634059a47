//! What a program sees of devices that lie apart: 0 and 1 at one server, 2 and 3 at another.

use crate::driver::{Driver, IMAGE};
use std::io::Read;

/// Retains the contexts of all devices, and prints how many there are.
pub fn contexts(d: &Driver) -> Vec<usize> {
    assert_eq!(d.cuInit(0), 0, "cuInit");
    let mut n = 0;
    assert_eq!(d.cuDeviceGetCount(&mut n), 0);
    println!("devices {n}");
    let retained = |device| {
        let mut c = 0;
        assert_eq!(d.cuDevicePrimaryCtxRetain(&mut c, device), 0);
        c
    };
    (0..n).map(retained).collect()
}

/// How many devices NVML counts, which is how PyTorch does it.
pub fn counted_by_nvml() -> u32 {
    let mut n = 0;
    // SAFETY: the library's own functions, with their own types.
    unsafe {
        let nvml = libloading::Library::new("libnvidia-ml.so.1").expect("NVML");
        let init = nvml.get::<unsafe extern "C" fn() -> i32>(b"nvmlInit_v2");
        assert_eq!(init.expect("a function")(), 0);
        let count = nvml.get::<unsafe extern "C" fn(&mut u32) -> i32>(b"nvmlDeviceGetCount_v2");
        assert_eq!(count.expect("a function")(&mut n), 0);
    }
    n
}

/// Prints what holds between devices.
pub fn run(d: &Driver) {
    /// A structure with pointers inside.
    #[repr(align(8))]
    struct Aligned([u32; 8]);

    let contexts = contexts(d);
    println!("NVML: {}", counted_by_nvml());
    let places: Vec<_> = (0..4)
        .map(|device| {
            let mut text = [0u8; 16];
            assert_eq!(d.cuDeviceGetPCIBusId(&mut text, 16, device), 0);
            text
        })
        .collect();
    let mut different = places.clone();
    different.sort_unstable();
    different.dedup();
    println!("places differ: {}", different.len() == 4);
    let found = (0..4).all(|device| {
        let mut out = -1;
        let place = places[device as usize].as_ptr().cast();
        assert_eq!(d.cuDeviceGetByPCIBusId(&mut out, place), 0);
        out == device
    });
    println!("found by place: {found}");
    let peers = [(0, 1), (0, 2), (2, 3), (3, 1)].map(|(a, b)| {
        let mut can = -1;
        assert_eq!(d.cuDeviceCanAccessPeer(&mut can, a, b), 0);
        format!(" {a}-{b} {can}")
    });
    println!("peers:{}", peers.concat());
    assert_eq!(d.cuCtxSetCurrent(contexts[0]), 0);
    println!("enable: {}", d.cuCtxEnablePeerAccess(contexts[2], 0));

    let (mut here, mut there, mut stream, mut ms) = (0, 0, 0, 0.0);
    assert_eq!(d.cuEventCreate(&mut here, 0), 0);
    assert_eq!(d.cuEventRecord(here, 0), 0);
    assert_eq!(d.cuCtxSetCurrent(contexts[3]), 0);
    assert_eq!(d.cuEventCreate(&mut there, 0), 0);
    assert_eq!(d.cuEventRecord(there, 0), 0);
    assert_eq!(d.cuStreamCreate(&mut stream, 0), 0);
    println!("elapsed: {}", d.cuEventElapsedTime(&mut ms, here, there));
    println!("record: {}", d.cuEventRecord(here, stream));

    let p = d.alloc(100);
    assert_eq!(d.cuCtxSetCurrent(contexts[0]), 0);
    let (mut memory, mut device) = (0, 9);
    assert_eq!(d.cuPointerGetAttribute(&mut memory, 2, p), 0);
    assert_eq!(d.cuPointerGetAttribute(&mut device, 9, p), 0);
    println!("pointer: {memory} {device}");

    // Structures name devices, too.
    let (mut memory, mut pool) = (0, 0);
    let (pinned, of_device, device) = (1, 1, 3);
    let m = Aligned([pinned, 0, of_device, device, 0, 0, 0, 0]);
    let created = d.cuMemCreate(&mut memory, 2 << 20, &m.0, 0);
    let mut p = [0; 11];
    p[..2].copy_from_slice(&[1, 1 | 3 << 32]);
    let with_pool = d.cuMemPoolCreate(&mut pool, &p);
    println!("named: {created} {with_pool} {}", d.cuMemRelease(memory));

    let current = |push: Option<usize>| {
        let (mut device, mut old) = (-1, 0);
        match push {
            Some(context) => assert_eq!(d.cuCtxPushCurrent_v2(context), 0),
            None => assert_eq!(d.cuCtxPopCurrent_v2(&mut old), 0),
        }
        assert_eq!(d.cuCtxGetDevice(&mut device), 0);
        device
    };
    let top = current(Some(contexts[3]));
    let below = current(None);
    println!("stack: {top} {below} {}", current(Some(contexts[2])));
}

/// Uses memory of both servers when the first has died.
pub fn one_dies(d: &Driver) {
    let contexts = contexts(d);
    let place = |i: usize, value: u8| {
        assert_eq!(d.cuCtxSetCurrent(contexts[i]), 0);
        let p = d.alloc(4096);
        assert_eq!(d.cuMemsetD8_v2(p, value, 4096), 0);
        assert_eq!(d.cuCtxSynchronize(), 0);
        p
    };
    let (p, q) = (place(0, 1), place(2, 2));
    println!("ready");
    let mut all = Vec::new();
    std::io::stdin().read_to_end(&mut all).expect("an end");
    let read = |i: usize, p| {
        let mut out = [0u8; 4096];
        assert_eq!(d.cuCtxSetCurrent(contexts[i]), 0);
        (d.cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), p, 4096), out)
    };
    println!("first: {}", read(0, p).0);
    println!("later: {}", d.cuCtxSynchronize());
    let (rc, out) = read(2, q);
    println!("other: {rc} {}", out == [2; 4096]);
}

/// Memory of a device with a stream and a kernel that changes all of it.
struct Stop {
    context: usize,
    memory: u64,
    stream: usize,
    scramble: usize,
}

impl Stop {
    fn new(d: &Driver, context: usize, len: usize) -> Self {
        assert_eq!(d.cuCtxSetCurrent(context), 0);
        let memory = d.alloc(len);
        assert_eq!(d.cuMemsetD8_v2(memory, 7, len), 0);
        let (mut stream, mut module, mut scramble) = (0, 0, 0);
        assert_eq!(d.cuStreamCreate(&mut stream, 1), 0);
        assert_eq!(d.cuCtxSynchronize(), 0);
        assert_eq!(d.cuModuleLoadData(&mut module, IMAGE.as_ptr().cast()), 0);
        let name = c"scramble".as_ptr();
        assert_eq!(d.cuModuleGetFunction(&mut scramble, module, name), 0);
        Self {
            context,
            memory,
            stream,
            scramble,
        }
    }
}

/// Sends `len` bytes around the devices, from one server to the other each time. Nothing waits but
/// streams for each other, and a driver for streams where it loads a module.
pub fn around(d: &Driver, len: usize, rounds: u64) {
    let contexts = contexts(d);
    let stops: Vec<_> = contexts.iter().map(|c| Stop::new(d, *c, len)).collect();
    for round in 0..rounds {
        let way = [(0, 2), (2, 1), (1, 3), (3, 0)][round as usize % 4];
        let (from, to) = (&stops[way.0], &stops[way.1]);
        assert_eq!(d.cuCtxSetCurrent(from.context), 0);
        let words = [from.memory, round + 1, len as u64 / 8];
        assert_eq!(d.launch(from.scramble, from.stream, &words), 0);
        // By the stream of either.
        let by = if round % 3 == 0 { to } else { from };
        let mut event = 0;
        assert_eq!(d.cuEventCreate(&mut event, 2), 0);
        if round % 3 == 0 {
            assert_eq!(d.cuEventRecord(event, from.stream), 0);
            assert_eq!(d.cuStreamWaitEvent(to.stream, event, 0), 0);
        }
        assert_eq!(d.cuCtxSetCurrent(by.context), 0);
        let (dst, src) = (to.memory, from.memory);
        let copy = d.cuMemcpyPeerAsync(dst, to.context, src, from.context, len, by.stream);
        assert_eq!(copy, 0);
        if round % 3 != 0 {
            assert_eq!(d.cuCtxSetCurrent(from.context), 0);
            assert_eq!(d.cuEventRecord(event, from.stream), 0);
            assert_eq!(d.cuStreamWaitEvent(to.stream, event, 0), 0);
        }
        assert_eq!(d.cuEventDestroy_v2(event), 0);
        if round % 2 == 0 {
            d.load_again();
        }
    }
    let last = &stops[[2, 1, 3, 0][(rounds as usize + 3) % 4]];
    assert_eq!(d.cuCtxSetCurrent(last.context), 0);
    assert_eq!(d.cuStreamSynchronize(last.stream), 0);
    // Each piece of it has been everywhere: some of each is enough to know.
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    for at in (0..len).step_by(1 << 20) {
        let mut some = [0u8; 512];
        for at in [at, (at + (1 << 20)).min(len) - some.len()] {
            let to = some.as_mut_ptr().cast();
            assert_eq!(d.cuMemcpyDtoH_v2(to, last.memory + at as u64, 512), 0);
            let mix = |sum: u64, b: &u8| (sum ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
            sum = some.iter().fold(sum, mix);
        }
    }
    println!("carried {} {sum:016x}", rounds * len as u64);
}

/// Copies from one server to the other before that one dies, and afterwards.
pub fn one_is_cut_off(d: &Driver) {
    const LEN: usize = 3 << 20;
    let contexts = contexts(d);
    let stops: Vec<_> = contexts.iter().map(|c| Stop::new(d, *c, LEN)).collect();
    let copy = |to: usize, from: usize| {
        let (to, from) = (&stops[to], &stops[from]);
        assert_eq!(d.cuCtxSetCurrent(from.context), 0);
        let (dst, src, stream) = (to.memory, from.memory, from.stream);
        let rc = d.cuMemcpyPeerAsync(dst, to.context, src, from.context, LEN, stream);
        (rc != 0) || d.cuStreamSynchronize(stream) != 0 || d.cuCtxSynchronize() != 0
    };
    println!("across: {}", copy(2, 0));
    println!("ready");
    let mut all = Vec::new();
    std::io::stdin().read_to_end(&mut all).expect("an end");
    println!("to the dead: {}", copy(2, 0));
    println!("from the dead: {}", copy(0, 3));
    assert_eq!(d.cuCtxSetCurrent(contexts[0]), 0);
    let mut out = [0u8; 16];
    let rc = d.cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), stops[0].memory, 16);
    println!("the other: {rc} {}", out == [7; 16]);
}
