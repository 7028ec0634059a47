//! Two devices: what the one may do with the other's memory before it is let in, and after.

use super::api::{Api, at};
use super::held::Hold;

const N: u64 = 1 << 16;
const GRANULE: u64 = 2 << 20;
const READ_WRITE: u32 = 3;
const DEVICE_POINTER: u64 = 3;

/// What a device may do, as `CUmemAccessDesc` has it.
fn access(device: u32) -> [u32; 3] {
    [1, device, READ_WRITE]
}

struct Two<'a> {
    api: &'a Api,
    contexts: [u64; 2],
    streams: [u64; 2],
    /// Page-locked memory.
    host: u64,
}

impl Two<'_> {
    fn on(&self, device: usize) {
        self.api.call("cuCtxSetCurrent", &[self.contexts[device]]);
    }

    /// What copies go from, and where they come back.
    fn halves(&mut self) -> (&mut [u8], &mut [u8]) {
        // SAFETY: page-locked memory of twice that size, which nobody else looks at here.
        let all = unsafe { std::slice::from_raw_parts_mut(self.host as *mut u8, 2 * N as usize) };
        all.split_at_mut(N as usize)
    }

    /// Copies to memory and from it in the second device's stream.
    fn there_and_back(&mut self, p: u64, value: u8) {
        let (api, stream) = (self.api, self.streams[1]);
        self.on(1);
        let (from, to) = self.halves();
        from.fill(value);
        to.fill(0);
        let there = api.call("cuMemcpyHtoDAsync_v2", &[p, self.host, N, stream]);
        let back = api.call("cuMemcpyDtoHAsync_v2", &[self.host + N, p, N, stream]);
        let over = api.call("cuStreamSynchronize", &[stream]);
        println!("{there} {back} {over}: {}", self.halves().1[N as usize - 1]);
    }

    /// What a device is told of memory.
    fn asked(&self, p: u64, device: usize) {
        self.on(device);
        let (mut pointer, mut base, mut size) = (0u64, 0u64, 0u64);
        let args = [at(&mut pointer), DEVICE_POINTER, p];
        let rc = self.api.call("cuPointerGetAttribute", &args);
        let args = [at(&mut base), at(&mut size), p];
        let range = self.api.call("cuMemGetAddressRange_v2", &args);
        println!("its pointer: {rc} {}, its range: {range}", pointer == p);
    }

    /// Memory of the first device's that the program maps itself.
    fn mapped(&self) -> u64 {
        let api = self.api;
        let mut props = [1u64, 1, 0, 0];
        let memory = api.made("cuMemCreate", &[GRANULE, at(&mut props), 0]);
        let p = api.made("cuMemAddressReserve", &[GRANULE, 0, 0, 0]);
        api.tell("cuMemMap", &[p, GRANULE, 0, memory, 0]);
        println!("out of reach:");
        (0..2).rev().for_each(|device| self.asked(p, device));
        api.tell("cuMemSetAccess", &[p, GRANULE, at(&mut access(0)), 1]);
        p
    }

    /// A pool of the first device's.
    fn pool(&self) -> u64 {
        let mut props = [0u64; 11];
        (props[0], props[1]) = (1, 1);
        self.api.made("cuMemPoolCreate", &[at(&mut props)])
    }
}

pub fn neighbours(api: &Api) {
    let contexts = [0, 1].map(|d| api.made("cuDevicePrimaryCtxRetain", &[d]));
    let streams = contexts.map(|c| {
        api.call("cuCtxSetCurrent", &[c]);
        api.made("cuStreamCreate", &[1])
    });
    let host = api.made("cuMemHostAlloc", &[2 * N, 0]);
    let mut two = Two {
        api,
        contexts,
        streams,
        host,
    };
    two.on(0);
    let p = api.made("cuMemAlloc_v2", &[N]);
    let (mapped, pool) = (two.mapped(), two.pool());
    let pooled = api.made("cuMemAllocFromPoolAsync", &[N, pool, streams[0]]);
    api.tell("cuStreamSynchronize", &[streams[0]]);
    println!("not let in");
    for (value, p) in [(1, p), (2, mapped), (3, pooled)] {
        two.there_and_back(p, value);
        two.asked(p, 1);
    }
    println!("let in where the program says so");
    api.tell("cuMemSetAccess", &[mapped, GRANULE, at(&mut access(1)), 1]);
    api.tell("cuMemPoolSetAccess", &[pool, at(&mut access(1)), 1]);
    // The pool's memory is its device's, in whatever stream it is asked for.
    two.on(1);
    let far = api.made("cuMemAllocFromPoolAsync", &[N, pool, streams[1]]);
    for (value, p) in [(4, mapped), (5, pooled), (6, far)] {
        two.there_and_back(p, value);
        two.asked(p, 1);
    }
    println!("page-locked memory that kernels see");
    let mut seen = 0u64;
    api.tell("cuMemHostGetDevicePointer_v2", &[at(&mut seen), host, 0]);
    two.there_and_back(p, 7);
    println!("peers");
    two.on(1);
    api.tell("cuCtxEnablePeerAccess", &[contexts[0], 0]);
    two.asked(p, 1);
    held(&two, p);
    captured(&two);
    registered(&two);
    elsewhere(&mut two);
    rows(&mut two);
    two.on(1);
    api.tell("cuCtxDisablePeerAccess", &[contexts[0]]);
    two.asked(p, 1);
    two.there_and_back(p, 8);
}

/// Copies with a peer's memory return at once.
fn held(two: &Two<'_>, p: u64) {
    let (api, stream) = (two.api, two.streams[1]);
    two.on(1);
    let host = api.made("cuMemHostAlloc", &[2 * N, 0]);
    let hold = Hold::of(api, stream);
    api.tell("cuMemcpyHtoDAsync_v2", &[p, host, N, stream]);
    api.tell("cuMemcpyDtoHAsync_v2", &[host + N, p, N, stream]);
    println!("meanwhile it stood still: {}", hold.let_go());
    api.tell("cuStreamSynchronize", &[stream]);
    api.tell("cuMemFreeHost", &[host]);
}

/// A node is made of what a stream's device does to managed memory of the other's.
fn captured(two: &Two<'_>) {
    let (api, stream) = (two.api, two.streams[1]);
    two.on(0);
    let managed = api.made("cuMemAllocManaged", &[N, 1]);
    let own = api.made("cuMemAlloc_v2", &[N]);
    two.on(1);
    api.tell("cuStreamBeginCapture_v2", &[stream, 0]);
    api.tell("cuMemsetD8Async", &[managed, 5, N, stream]);
    api.tell("cuMemcpyDtoDAsync_v2", &[own, managed, N, stream]);
    api.run_captured(stream);
    let mut byte = [0u8; 1];
    api.tell("cuMemcpyDtoH_v2", &[at(&mut byte), own + N - 1, 1]);
    println!("{byte:?}");
}

/// Small memory that kernels saw is registered in the other device's context, while a stream of the
/// first stands still.
fn registered(two: &Two<'_>) {
    let api = two.api;
    let memory = vec![0u64; 64].leak();
    let p = memory.as_mut_ptr() as u64;
    for device in [0, 1] {
        two.on(device);
        let fill = api.kernel("fill");
        let hold = (device == 1).then(|| Hold::of(api, two.streams[0]));
        api.tell("cuMemHostRegister_v2", &[p, 512, 0]);
        let launched = api.launch(fill, two.streams[device], &[p, 7 + device as u64, 4]);
        if let Some(hold) = hold {
            println!("meanwhile it stood still: {}", hold.let_go());
        }
        let over = api.call("cuStreamSynchronize", &[two.streams[device]]);
        println!("{launched} {over}: {}", memory[0] as u32);
        api.tell("cuMemHostUnregister", &[p]);
    }
}

/// Whatever device is current, what is put into a stream is its own device's.
fn elsewhere(two: &mut Two<'_>) {
    let (api, stream) = (two.api, two.streams[1]);
    two.on(1);
    // Page-locked memory that no kernel has seen.
    two.host = api.made("cuMemHostAlloc", &[2 * N, 0]);
    let (own, host) = (api.made("cuMemAlloc_v2", &[N]), two.host);
    let seen = api.made("cuMemAllocManaged", &[N, 1]);
    let fill = api.kernel("fill");
    api.tell("cuStreamBeginCapture_v2", &[stream, 0]);
    api.tell("cuMemcpyHtoDAsync_v2", &[own, host, N, stream]);
    two.on(0);
    api.tell("cuMemcpyDtoHAsync_v2", &[host + N, own, N, stream]);
    let (mut graph, mut exec) = (0u64, 0u64);
    api.tell("cuStreamEndCapture", &[stream, at(&mut graph)]);
    api.tell("cuGraphInstantiateWithFlags", &[at(&mut exec), graph, 0]);
    for value in [21, 22] {
        let (from, to) = two.halves();
        from.fill(value);
        to.fill(0);
        api.tell("cuGraphUpload", &[exec, stream]);
        api.tell("cuGraphLaunch", &[exec, stream]);
        api.tell("cuStreamSynchronize", &[stream]);
        println!("by a graph: {}", two.halves().1[N as usize - 1]);
        // A kernel needs its context; the copy behind it and the wait do not.
        two.on(1);
        let launched = api.launch(fill, stream, &[seen, u64::from(value), N / 4]);
        two.on(0);
        let copied = api.call("cuMemcpyDtoDAsync_v2", &[own, seen, N, stream]);
        let there = api.call("cuMemcpyDtoHAsync_v2", &[host + N, own, N, stream]);
        let over = api.call("cuStreamSynchronize", &[stream]);
        // SAFETY: managed memory of that size, which nothing uses any more.
        let word = unsafe { (seen as *const u32).add(N as usize / 4 - 1).read() };
        let came = two.halves().1[N as usize - 4];
        println!("{launched} {copied} {there} {over}: {word} {came}");
    }
}

/// Rows of the other device's memory come to the host before a copy behind them reads them there.
fn rows(two: &mut Two<'_>) {
    const ROUNDS: u8 = 40;
    const BEFORE: u64 = 8 << 20;
    let (api, stream) = (two.api, two.streams[1]);
    two.on(0);
    let theirs = api.made("cuMemAlloc_v2", &[N]);
    let managed = api.made("cuMemAllocManaged", &[N, 1]);
    two.on(1);
    let (own, before) = (
        api.made("cuMemAlloc_v2", &[N]),
        api.made("cuMemAlloc_v2", &[BEFORE]),
    );
    two.host = api.made("cuMemHostAlloc", &[2 * N, 0]);
    let host = two.host;
    for from in [theirs, managed] {
        let mut right = 0;
        for value in 1..=ROUNDS {
            two.on(0);
            api.call("cuMemsetD8_v2", &[from, u64::from(value), N]);
            api.call("cuCtxSynchronize", &[]);
            two.on(1);
            two.halves().0.fill(0);
            // `CUDA_MEMCPY2D`, of device memory to the host's.
            let (device, width) = (2u64, 256u64);
            let mut copy = [
                0,
                0,
                device,
                0,
                from,
                0,
                width,
                0,
                0,
                1,
                host,
                0,
                0,
                width,
                width,
                N / width,
            ];
            let value = u64::from(value);
            api.call("cuMemsetD8Async", &[before, value, BEFORE, stream]);
            api.call("cuMemcpy2DAsync_v2", &[at(&mut copy), stream]);
            api.call("cuMemcpyHtoDAsync_v2", &[own, host, N, stream]);
            api.call("cuStreamSynchronize", &[stream]);
            let mut byte = [0u8; 1];
            api.call("cuMemcpyDtoH_v2", &[at(&mut byte), own + N - 1, 1]);
            right += i32::from(u64::from(byte[0]) == value);
        }
        println!("rows in order: {right}");
    }
}
