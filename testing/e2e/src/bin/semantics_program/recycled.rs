//! Memory that is allocated and freed in stream order again and again, and copies that wait.

use super::api::{Api, at};

const THRESHOLD: u64 = 4;
const RESERVED_HIGH: u64 = 6;
const USED_NOW: u64 = 7;
const USED_HIGH: u64 = 8;
const LEGACY: u64 = 0;

fn default_pool(api: &Api) -> u64 {
    api.made("cuDeviceGetDefaultMemPool", &[0])
}

fn number(api: &Api, pool: u64, attribute: u64) -> u64 {
    let mut value = 0u64;
    let args = [pool, attribute, at(&mut value)];
    assert_eq!(api.call("cuMemPoolGetAttribute", &args), 0);
    value
}

fn set(api: &Api, pool: u64, attribute: u64, mut value: u64) {
    api.tell("cuMemPoolSetAttribute", &[pool, attribute, at(&mut value)]);
}

fn word(api: &Api, p: u64) -> u32 {
    let mut w = 0u32;
    assert_eq!(api.call("cuMemcpyDtoH_v2", &[at(&mut w), p, 4]), 0);
    w
}

/// Rounds of what a step of a program does whose memory comes in stream order: what it allocates it
/// writes, reads, and frees, and it waits at the end.
pub fn steps(api: &Api, rounds: u32) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    set(api, default_pool(api), THRESHOLD, u64::MAX);
    let right = (1..=rounds).filter(|round| {
        let all: Vec<u64> = [512, 1024, 512, 4096]
            .iter()
            .map(|size| api.made("cuMemAllocAsync", &[*size, stream]))
            .collect();
        for (i, p) in all.iter().enumerate() {
            let value = u64::from(*round) + i as u64;
            assert_eq!(api.call("cuMemsetD32Async", &[*p, value, 64, stream]), 0);
        }
        let mut words = [0u32; 4];
        for (w, p) in words.iter_mut().zip(&all) {
            let from = [at(w), *p, 4, stream];
            assert_eq!(api.call("cuMemcpyDtoHAsync_v2", &from), 0);
        }
        for p in &all {
            assert_eq!(api.call("cuMemFreeAsync", &[*p, stream]), 0);
            assert_ne!(api.call("cuMemFreeAsync", &[*p, stream]), 0);
        }
        assert_eq!(api.call("cuStreamSynchronize", &[stream]), 0);
        words == [0, 1, 2, 3].map(|i| round + i)
    });
    println!("right: {}", right.count());
}

/// What the pool counts, whatever became of memory that was freed.
pub fn counts(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let (one, two) = (
        api.made("cuStreamCreate", &[1]),
        api.made("cuStreamCreate", &[1]),
    );
    let pool = default_pool(api);
    for threshold in [0, u64::MAX] {
        set(api, pool, THRESHOLD, threshold);
        set(api, pool, USED_HIGH, 0);
        let told = |what: &str| {
            let [used, high] = [USED_NOW, USED_HIGH].map(|a| number(api, pool, a));
            println!("{what}: {used} {high}");
        };
        let alloc = |size: u64, stream: u64| api.made("cuMemAllocAsync", &[size, stream]);
        let free = |p: u64, stream: u64| println!("{}", api.call("cuMemFreeAsync", &[p, stream]));
        // Of one size, then of another: the highest is the larger, not their sum.
        for size in [1 << 20, 3 << 20, 2 << 20, 2 << 20] {
            let p = alloc(size, one);
            api.call("cuMemsetD32Async", &[p, size, 16, one]);
            free(p, one);
        }
        told("in turn");
        let many: Vec<u64> = (0..4).map(|_| alloc(1 << 20, one)).collect();
        told("four");
        many.iter().for_each(|p| free(*p, one));
        told("none");
        // What one stream gave back and another asks for.
        let p = alloc(1 << 20, two);
        free(p, two);
        let q = alloc(1 << 20, one);
        told("of another stream");
        free(q, LEGACY);
        free(q, LEGACY);
        free(q + 512, one);
        // Its address, and its place on the device, are its own until the stream comes to it.
        let wait = || assert_eq!(api.call("cuCtxSynchronize", &[]), 0);
        wait();
        let mut kind = 0u64;
        println!(
            "{}",
            api.call("cuPointerGetAttribute", &[at(&mut kind), 2, q])
        );
        let q = alloc(1 << 20, LEGACY);
        println!(
            "{}",
            api.call("cuPointerGetAttribute", &[at(&mut kind), 2, q])
        );
        free(q, LEGACY);
        println!("trim: {}", api.call("cuMemPoolTrimTo", &[pool, 0]));
        told("trimmed");
        wait();
        println!("trim: {}", api.call("cuMemPoolTrimTo", &[pool, 0]));
        let (mut left, mut before, mut all) = (0u64, 0u64, 0u64);
        api.call("cuMemGetInfo_v2", &[at(&mut before), at(&mut all)]);
        let p = alloc(64 << 20, one);
        free(p, one);
        println!("{}", api.call("cuStreamSynchronize", &[one]));
        println!("trim: {}", api.call("cuMemPoolTrimTo", &[pool, 0]));
        api.call("cuMemGetInfo_v2", &[at(&mut left), at(&mut all)]);
        println!("all is back: {}", left == before);
        if left != before {
            eprintln!("free before and now: {before}, {left}");
        }
        println!("reserved: {}", number(api, pool, RESERVED_HIGH) >= 64 << 20);
    }
}

/// What ends or begins between a free and the next allocation.
pub fn ends(api: &Api) {
    let context = api.made("cuCtxCreate_v2", &[0, 0]);
    let default = default_pool(api);
    set(api, default, THRESHOLD, u64::MAX);
    let mut wanted = [0u64; 11];
    (wanted[0], wanted[1]) = (1, 1);
    let pool = api.made("cuMemPoolCreate", &[at(&mut wanted)]);
    set(api, pool, THRESHOLD, u64::MAX);
    let used = |what: &str, pool: u64| println!("{what}: {}", number(api, pool, USED_NOW));
    let stream = api.made("cuStreamCreate", &[0]);
    let freed = |stream: u64| {
        let p = api.made("cuMemAllocAsync", &[1 << 20, stream]);
        assert_eq!(api.call("cuMemFreeAsync", &[p, stream]), 0);
        let p = api.made("cuMemAllocFromPoolAsync", &[1 << 20, pool, stream]);
        assert_eq!(api.call("cuMemFreeAsync", &[p, stream]), 0);
    };
    freed(stream);
    api.tell("cuStreamDestroy_v2", &[stream]);
    used("a stream", default);
    used("a stream, the other pool", pool);
    // Nothing of it is part of what is captured.
    let stream = api.made("cuStreamCreate", &[0]);
    freed(stream);
    api.tell("cuStreamBeginCapture_v2", &[stream, 0]);
    let kept = api.made("cuMemAllocAsync", &[1 << 20, stream]);
    api.tell("cuMemsetD32Async", &[kept, 7, 64, stream]);
    let mut graph = 0u64;
    api.tell("cuStreamEndCapture", &[stream, at(&mut graph)]);
    let mut nodes = 0u64;
    api.tell("cuGraphGetNodes", &[graph, 0, at(&mut nodes)]);
    println!("{nodes} nodes");
    let exec = api.made("cuGraphInstantiateWithFlags", &[graph, 0]);
    api.tell("cuGraphLaunch", &[exec, stream]);
    println!("{}", word(api, kept));
    api.tell("cuMemFreeAsync", &[kept, stream]);
    used("a capture", default);
    // The pool that a device allocates from changes, and changes back.
    freed(stream);
    api.tell("cuDeviceSetMemPool", &[0, pool]);
    let p = api.made("cuMemAllocAsync", &[1 << 20, stream]);
    used("set", default);
    used("set, the other pool", pool);
    api.tell("cuMemFreeAsync", &[p, stream]);
    api.tell("cuDeviceSetMemPool", &[0, default]);
    let p = api.made("cuMemAllocAsync", &[1 << 20, stream]);
    used("set back", default);
    used("set back, the other pool", pool);
    // A program may free it without a stream, too.
    api.tell("cuMemFree_v2", &[p]);
    api.tell("cuMemFreeAsync", &[p, stream]);
    freed(stream);
    api.tell("cuMemPoolDestroy", &[pool]);
    freed_last(api, stream);
    api.tell("cuCtxDestroy_v2", &[context]);
    api.made("cuCtxCreate_v2", &[0, 0]);
    used("a context", default);
}

fn freed_last(api: &Api, stream: u64) {
    for _ in 0..3 {
        let p = api.made("cuMemAllocAsync", &[2 << 20, stream]);
        assert_eq!(api.call("cuMemsetD32Async", &[p, 3, 64, stream]), 0);
        assert_eq!(word(api, p), 3);
        assert_eq!(api.call("cuMemFreeAsync", &[p, stream]), 0);
    }
}

/// Copies to the device that wait, by a program with work that it can see.
pub fn copies(api: &Api, rounds: u32) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[0]);
    let there = api.made("cuMemAlloc_v2", &[4096]);
    let locked = api.made("cuMemHostAlloc", &[64, 0]);
    let right = (1..=rounds).filter(|round| {
        let mut out = [0u32; 2];
        for i in 0..3 {
            let mut value = round + i;
            let args = [there + 4 * u64::from(i & 1), at(&mut value), 4];
            assert_eq!(api.call("cuMemcpyHtoD_v2", &args), 0);
        }
        // Behind all of them, in page-locked memory and in other.
        let args = [locked, there, 4, stream];
        assert_eq!(api.call("cuMemcpyDtoHAsync_v2", &args), 0);
        assert_eq!(api.call("cuMemcpyDtoH_v2", &[at(&mut out), there, 8]), 0);
        // SAFETY: page-locked memory of this program, which a copy has filled: the one after it in
        // the legacy stream has been waited for.
        let seen = unsafe { (locked as *const u32).read_volatile() };
        out == [round + 2, round + 1] && seen == round + 2
    });
    println!("right: {}", right.count());
}
