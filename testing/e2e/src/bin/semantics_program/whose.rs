//! Whose memory is: what programs call it, what contexts leave behind, and which of two pieces of
//! work had it last.

use super::api::{Api, at};

const HOST: u64 = 1;
const DEVICE: u64 = 2;
const UNIFIED: u64 = 4;

fn bytes<'a>(p: u64, n: u64) -> &'a mut [u8] {
    // SAFETY: page-locked, managed or pageable memory of that size, of the program below.
    unsafe { std::slice::from_raw_parts_mut(p as *mut u8, n as usize) }
}

/// The first and last of some bytes that a copy brings from anywhere.
fn ends(api: &Api, p: u64, n: u64) -> [u8; 2] {
    let mut back = [0u8; 2];
    let [first, last] = &mut back;
    api.call("cuMemcpy", &[at(first), p, 1]);
    api.call("cuMemcpy", &[at(last), p + n - 1, 1]);
    back
}

/// A box of `height` rows of 40 bytes, 64 bytes apart.
fn rows((from, src): (u64, u64), (to, dst): (u64, u64), height: u64) -> [u64; 16] {
    let end = |kind, p| match kind {
        HOST => [0, 0, HOST, p, 0, 0, 64],
        kind => [0, 0, kind, 0, p, 0, 64],
    };
    let mut all = [0; 16];
    all[..7].copy_from_slice(&end(from, src));
    all[7..14].copy_from_slice(&end(to, dst));
    (all[14], all[15]) = (40, height);
    all
}

/// Rows that come to page-locked memory or leave it, and what is behind them in their stream.
pub fn rows_behind(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    for (count, kind) in [(300, UNIFIED), (300, HOST), (20, UNIFIED), (20, HOST)] {
        let n = 64 * count;
        let d = api.made("cuMemAlloc_v2", &[n]);
        let host = api.made("cuMemHostAlloc", &[n, 0]);
        for round in 0..5u8 {
            bytes(host, n).fill(100);
            api.call("cuMemsetD8_v2", &[d, u64::from(round), n]);
            api.call("cuCtxSynchronize", &[]);
            let mut out = rows((DEVICE, d), (HOST, host), count);
            api.tell("cuMemcpy2DAsync_v2", &[at(&mut out), stream]);
            api.tell("cuMemsetD8Async", &[host, 50, n / 2, stream]);
            let mut back = rows((kind, host), (UNIFIED, d), count);
            api.tell("cuMemcpy2DAsync_v2", &[at(&mut back), stream]);
            api.tell("cuMemsetD8Async", &[host, 60, 64, stream]);
            api.tell("cuStreamSynchronize", &[stream]);
            let of = |at: u64| bytes(host, n)[at as usize];
            println!("{:?}", [of(0), of(64), of(n / 2), of(n / 2 + 50)]);
            println!("{:?}", ends(api, d, n / 2 + 40));
        }
    }
}

/// Adds one to each of some bytes.
unsafe extern "C" fn add_one(range: *mut std::ffi::c_void) {
    // SAFETY: the program below passes one that outlives the stream's work.
    let [p, n] = unsafe { *range.cast::<[u64; 2]>() };
    bytes(p, n).iter_mut().for_each(|b| *b += 1);
}

/// A function of a graph that changes what a copy before it has brought: that stays, and a copy
/// behind it takes it along.
pub fn function_in_graph(api: &Api) {
    const N: u64 = 3000;
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let [d, e] = [0; 2].map(|_| api.made("cuMemAlloc_v2", &[N]));
    let mut pageable = vec![0u8; 2 * N as usize];
    let host = at(&mut pageable[0]);
    // Half of what the copy brings, and half of what it does not.
    let mut range = [host + N / 2, N];
    let f = add_one as *const () as u64;
    for behind in [false, true] {
        api.tell("cuStreamBeginCapture_v2", &[stream, 2]);
        api.tell("cuMemcpyDtoHAsync_v2", &[host, d, N, stream]);
        api.tell("cuLaunchHostFunc", &[stream, f, at(&mut range)]);
        if behind {
            api.tell("cuMemcpyHtoDAsync_v2", &[e, host, N, stream]);
        }
        let (mut graph, mut exec) = (0u64, 0u64);
        api.tell("cuStreamEndCapture", &[stream, at(&mut graph)]);
        api.tell("cuGraphInstantiateWithFlags", &[at(&mut exec), graph, 0]);
        for value in [10u64, 20] {
            api.tell("cuMemsetD8Async", &[d, value, N, stream]);
            api.tell("cuGraphLaunch", &[exec, stream]);
            api.tell("cuStreamSynchronize", &[stream]);
            let of = |at: u64| bytes(host, 2 * N)[at as usize];
            println!("{:?}", [of(0), of(N / 2), of(N - 1), of(N), of(N + N / 2)]);
            println!("{:?}", ends(api, e, N));
        }
    }
}

/// Page-locked memory of a context that ends, and of the next ones, which devices use in place.
pub fn after_a_reset(api: &Api) {
    const N: u64 = 70_000;
    let fill = |text: &str, host: u64| {
        let stream = api.made("cuStreamCreate", &[1]);
        bytes(host, N).fill(1);
        println!(
            "{text}: {}",
            api.call("cuMemsetD8Async", &[host, 2, N, stream])
        );
        println!("waited: {}", api.call("cuStreamSynchronize", &[stream]));
        let all = bytes(host, N);
        println!("{:?}", [all[0], all[N as usize - 1]]);
    };
    let other = api.made("cuCtxCreate_v2", &[0, 0]);
    api.call("cuCtxSetCurrent", &[0]);
    let mut kept = 0;
    for round in 0..4 {
        let primary = api.made("cuDevicePrimaryCtxRetain", &[0]);
        api.call("cuCtxSetCurrent", &[primary]);
        let host = api.made("cuMemHostAlloc", &[N, 0]);
        fill("in the primary context", host);
        api.call("cuCtxSetCurrent", &[other]);
        if round == 0 {
            kept = api.made("cuMemHostAlloc", &[N, 0]);
        }
        fill("in another", kept);
        let way = ["cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxRelease_v2"][round % 2];
        api.tell(way, &[0]);
        api.call("cuMemFreeHost", &[host]);
        fill("in the one that is left", kept);
    }
}

/// What a program calls memory need not be what it is; and what a node tells of a copy is what the
/// program called it.
pub fn named(api: &Api) {
    const N: u64 = 4096;
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let device = api.made("cuMemAlloc_v2", &[N]);
    let managed = api.made("cuMemAllocManaged", &[N, 1]);
    let locked = api.made("cuMemHostAlloc", &[N, 0]);
    let mut plain = vec![0u8; N as usize];
    let plain = at(&mut plain[0]);
    let places = [
        ("device", device),
        ("managed", managed),
        ("locked", locked),
        ("plain", plain),
    ];
    for ((a, src), (b, dst)) in places.iter().flat_map(|a| places.map(|b| (*a, b))) {
        if src == dst {
            continue;
        }
        for (i, name) in ["cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpy"]
            .iter()
            .enumerate()
        {
            api.call("cuMemcpy", &[src, dst, N]);
            let value = [3 + i as u8; N as usize];
            api.call("cuMemcpy", &[src, value.as_ptr() as u64, N]);
            let rc = api.call(name, &[dst, src, N]);
            api.call("cuCtxSynchronize", &[]);
            println!("{name} from {a} to {b}: {rc} {:?}", ends(api, dst, N));
        }
        for (from, to) in [(HOST, DEVICE), (DEVICE, HOST), (UNIFIED, UNIFIED)] {
            let mut box_ = rows((from, src), (to, dst), 3);
            let rc = api.call("cuMemcpy2DAsync_v2", &[at(&mut box_), stream]);
            api.call("cuStreamSynchronize", &[stream]);
            println!("rows from {a} as {from} to {b} as {to}: {rc}");
        }
        api.call("cuStreamBeginCapture_v2", &[stream, 2]);
        api.call("cuMemcpyAsync", &[dst, src, N, stream]);
        let mut graph = 0u64;
        api.call("cuStreamEndCapture", &[stream, at(&mut graph)]);
        let (mut node, mut count, mut params) = (0u64, 1u64, [0u64; 25]);
        api.call("cuGraphGetNodes", &[graph, at(&mut node), at(&mut count)]);
        api.tell("cuGraphMemcpyNodeGetParams", &[node, at(&mut params)]);
        // The kinds are the fifth of the source's words and of the destination's.
        println!("kinds {} {}", params[4] as u32, params[15] as u32);
    }
    // Streams use no words of memory that moves, nor of a pool.
    let mut pooled = 0u64;
    api.tell("cuMemAllocAsync", &[at(&mut pooled), N, stream]);
    for p in [device, managed, locked, pooled] {
        api.tell("cuStreamWriteValue32_v2", &[stream, p, 7, 0]);
        api.tell("cuStreamWaitValue32_v2", &[stream, p, 0, 0]);
        let mut list = [2u64, p, 7, 0, 0, 0];
        api.tell("cuStreamBatchMemOp_v2", &[stream, 1, at(&mut list), 0]);
        api.tell("cuStreamSynchronize", &[stream]);
    }
    // How page-locked memory was asked for.
    let mut own = vec![0u8; 3 * N as usize];
    for flags in [0u64, 1, 2, 3] {
        api.tell("cuMemHostRegister_v2", &[at(&mut own[100]), N, flags]);
        let mut told = 9u32;
        api.tell("cuMemHostGetFlags", &[at(&mut told), at(&mut own[700])]);
        println!("{told}");
        api.tell("cuMemHostUnregister", &[at(&mut own[100])]);
    }
}
