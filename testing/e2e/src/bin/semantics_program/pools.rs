//! Pools that processes share, and pools of the host's memory and of managed memory.

use super::api::{Api, at};
use std::os::fd::RawFd;
use std::process::Command;

const DESCRIPTOR: u64 = 1;
const ON_DEVICE: u64 = 1;
const ON_HOST: u64 = 2;
const N: u64 = 300_000;

/// `CUmemPoolProps`: pinned memory of a place, with these handles, at most so much.
fn props(handles: u64, place: u64, most: u64) -> [u64; 11] {
    let mut all = [0; 11];
    (all[0], all[1], all[3]) = (1 | handles << 32, place, most);
    all
}

/// Another process imports a pool and memory of it, and both see what is there.
pub fn shared(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let mut wanted = props(DESCRIPTOR, ON_DEVICE, 0);
    let pool = api.made("cuMemPoolCreate", &[at(&mut wanted)]);
    let mut own = props(0, ON_DEVICE, 0);
    let private = api.made("cuMemPoolCreate", &[at(&mut own)]);
    let mut fd: RawFd = -1;
    api.tell(
        "cuMemPoolExportToShareableHandle",
        &[at(&mut fd), private, DESCRIPTOR, 0],
    );
    api.tell(
        "cuMemPoolExportToShareableHandle",
        &[at(&mut fd), pool, 8, 0],
    );
    api.tell(
        "cuMemPoolExportToShareableHandle",
        &[at(&mut fd), pool, DESCRIPTOR, 1],
    );
    api.tell(
        "cuMemPoolExportToShareableHandle",
        &[at(&mut fd), pool, DESCRIPTOR, 0],
    );
    println!("a descriptor: {}", fd > 0);
    let first = api.made("cuMemAllocFromPoolAsync", &[4 * N, pool, stream]);
    let p = api.made("cuMemAllocFromPoolAsync", &[4 * N, pool, stream]);
    api.tell("cuMemsetD32Async", &[first, 1, N, stream]);
    api.tell("cuMemsetD32Async", &[p, 77, N, stream]);
    let mut share = [0u64; 8];
    api.tell("cuMemPoolExportPointer", &[at(&mut share), p]);
    api.tell("cuMemPoolExportPointer", &[at(&mut share), 64]);
    api.tell("cuMemPoolExportPointer", &[at(&mut share), p]);
    api.tell("cuStreamSynchronize", &[stream]);
    // SAFETY: the descriptor is ours; the child is to have it.
    unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
    let hex: Vec<String> = share.iter().map(|w| format!("{w:x}")).collect();
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program);
    child.args(["pools_child", &fd.to_string(), &hex.join(",")]);
    println!("the other: {:?}", child.status().map(|s| s.code()));
    let mut back = vec![0u32; N as usize];
    api.tell("cuMemcpyDtoH_v2", &[at(&mut back[0]), p, 4 * N]);
    println!("{} {}", back[0], back.iter().all(|w| *w == 88));
    api.tell("cuMemcpyDtoH_v2", &[at(&mut back[0]), first, 4 * N]);
    println!("{} {}", back[0], back.iter().all(|w| *w == 1));
    api.tell("cuMemFreeAsync", &[p, stream]);
    api.tell("cuMemFreeAsync", &[first, stream]);
    api.tell("cuMemPoolDestroy", &[pool]);
    // SAFETY: the descriptor is ours, and nobody uses it any more.
    unsafe { libc::close(fd) };
}

/// The other process.
pub fn child(api: &Api) {
    let mut args = std::env::args().skip(2);
    let fd: u64 = args
        .next()
        .and_then(|a| a.parse().ok())
        .expect("a descriptor");
    let words = args.next().expect("what was exported");
    let words = words.split(',').map(|w| u64::from_str_radix(w, 16));
    let mut share: Vec<u64> = words.collect::<Result<_, _>>().expect("numbers");
    let mut pool = 0u64;
    let import = "cuMemPoolImportFromShareableHandle";
    api.tell(import, &[at(&mut pool), fd, 8, 0]);
    api.tell(import, &[at(&mut pool), 0, DESCRIPTOR, 0]);
    api.tell(import, &[at(&mut pool), fd, DESCRIPTOR, 0]);
    // Before there is a context: a pool belongs to none.
    let p = api.made("cuMemPoolImportPointer", &[pool, at(&mut share[0])]);
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let (mut base, mut size) = (0u64, 0u64);
    api.tell(
        "cuMemGetAddressRange_v2",
        &[at(&mut base), at(&mut size), p + 8],
    );
    println!("all of it: {}", base == p && size >= 4 * N);
    let mut back = vec![0u32; N as usize];
    api.tell("cuMemcpyDtoH_v2", &[at(&mut back[0]), p, 4 * N]);
    println!("{} {}", back[0], back.iter().all(|w| *w == 77));
    api.tell("cuMemsetD32Async", &[p, 88, N, stream]);
    api.tell("cuStreamSynchronize", &[stream]);
    api.tell("cuMemFreeAsync", &[p, stream]);
    api.tell("cuMemFreeAsync", &[p, stream]);
    api.tell("cuStreamSynchronize", &[stream]);
    api.tell("cuMemPoolDestroy", &[pool]);
}

/// Whether memory of a pool has a value everywhere, which something else takes the place of.
fn sees(p: u64, value: u64) -> bool {
    // SAFETY: memory of the pool, whose copies are done.
    let all = unsafe { std::slice::from_raw_parts_mut(p as *mut u32, N as usize) };
    let same = all.iter().all(|w| u64::from(*w) == value);
    all.fill(50);
    same
}

/// Memory of the host in stream order: the program and kernels see it.
pub fn of_host(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let [stream, other] = [(); 2].map(|()| api.made("cuStreamCreate", &[1]));
    let mut wanted = props(0, ON_HOST, 10 * N);
    let pool = api.made("cuMemPoolCreate", &[at(&mut wanted)]);
    let number = |which: u64| {
        let mut v = 0u64;
        api.tell("cuMemPoolGetAttribute", &[pool, which, at(&mut v)]);
        println!("attribute {which}: {v}");
    };
    let mut place = [ON_DEVICE as u32, 0];
    let mut access = [ON_DEVICE as u32, 0, 3];
    let mut flags = 9u32;
    api.tell(
        "cuMemPoolGetAccess",
        &[at(&mut flags), pool, at(&mut place)],
    );
    println!("rights {flags}");
    api.tell("cuMemPoolSetAccess", &[pool, at(&mut access), 1]);
    api.tell(
        "cuMemPoolGetAccess",
        &[at(&mut flags), pool, at(&mut place)],
    );
    println!("rights {flags}");
    let mut threshold = 1u64 << 30;
    api.tell("cuMemPoolSetAttribute", &[pool, 4, at(&mut threshold)]);
    (1..=4).for_each(number);
    let fill = api.kernel("fill");
    for round in 0..3u64 {
        let p = api.made("cuMemAllocFromPoolAsync", &[4 * N, pool, stream]);
        let q = api.made("cuMemAllocFromPoolAsync", &[4 * N, pool, stream]);
        let mut none = 0u64;
        api.tell(
            "cuMemAllocFromPoolAsync",
            &[at(&mut none), 4 * N, pool, stream],
        );
        number(7);
        println!("launch: {}", api.launch(fill, stream, &[p, round, N]));
        api.tell("cuMemcpyDtoDAsync_v2", &[q, p, 4 * N, stream]);
        api.tell("cuStreamSynchronize", &[stream]);
        println!("the program sees it: {} {}", sees(p, round), sees(q, round));
        let mut of = 0u64;
        api.tell("cuPointerGetAttribute", &[at(&mut of), 17, p]);
        println!("of the pool: {}", of == pool);
        api.tell("cuMemFreeHost", &[p]);
        api.tell("cuMemFreeAsync", &[p, stream]);
        api.tell("cuMemFreeAsync", &[p, other]);
        api.tell("cuMemFree_v2", &[q]);
        api.tell("cuStreamSynchronize", &[stream]);
        number(7);
        number(8);
    }
    api.tell("cuMemPoolTrimTo", &[pool, 0]);
    api.tell("cuDeviceSetMemPool", &[0, pool]);
    let left = api.made("cuMemAllocFromPoolAsync", &[64, pool, stream]);
    api.tell("cuMemPoolDestroy", &[pool]);
    api.tell("cuMemFreeAsync", &[left, stream]);
    api.tell("cuStreamSynchronize", &[stream]);
    let mut place = [ON_HOST as u32, 0];
    let mut default = 0u64;
    api.tell(
        "cuMemGetDefaultMemPool",
        &[at(&mut default), at(&mut place), 1],
    );
    let p = api.made("cuMemAllocFromPoolAsync", &[64, default, stream]);
    api.tell("cuMemFreeAsync", &[p, stream]);
    api.tell("cuMemPoolDestroy", &[default]);
}

/// Managed memory in stream order.
pub fn of_managed(api: &Api) {
    const MANAGED: u64 = 2;
    const NOWHERE: u64 = 0;
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let fill = api.kernel("fill");
    let of = |what: &str, place: u64, kind: u64| {
        let (mut location, mut pool) = ([place as u32, 0], 0u64);
        let rc = api.call(what, &[at(&mut pool), at(&mut location), kind]);
        (rc, pool)
    };
    let pool = of("cuMemGetDefaultMemPool", ON_DEVICE, MANAGED);
    println!("default: {}", pool.0);
    println!(
        "again: {}",
        of("cuMemGetMemPool", ON_DEVICE, MANAGED) == pool
    );
    let others = [(ON_HOST, MANAGED), (NOWHERE, MANAGED), (ON_DEVICE, 1)];
    for (place, kind) in others {
        let other = of("cuMemGetDefaultMemPool", place, kind);
        println!("another: {} {}", other.0, other.1 != pool.1);
    }
    println!("none: {}", of("cuMemGetDefaultMemPool", NOWHERE, 1).0);
    let pool = pool.1;
    for round in 0..3u64 {
        let p = api.made("cuMemAllocFromPoolAsync", &[4 * N, pool, stream]);
        let q = api.made("cuMemAllocFromPoolAsync", &[4 * N, pool, stream]);
        assert_eq!(api.launch(fill, stream, &[p, round, N]), 0);
        api.tell("cuMemcpyDtoDAsync_v2", &[q, p, 4 * N, stream]);
        api.tell("cuStreamSynchronize", &[stream]);
        println!("the program sees it: {} {}", sees(p, round), sees(q, round));
        let (mut mine, mut managed, mut preferred) = (0u64, 0u32, 9i32);
        api.tell("cuPointerGetAttribute", &[at(&mut mine), 17, p]);
        api.tell("cuPointerGetAttribute", &[at(&mut managed), 8, p]);
        api.tell(
            "cuMemRangeGetAttribute",
            &[at(&mut preferred), 4, 2, p, 4096],
        );
        println!("of the pool: {}, {managed}, {preferred}", mine == pool);
        api.tell("cuMemAdvise", &[p, 4096, 1, 0]);
        api.tell("cuMemPrefetchAsync", &[p, 4096, 0, stream]);
        for p in [p, p] {
            api.tell("cuMemFreeAsync", &[p, stream]);
        }
        api.tell("cuMemFree_v2", &[q]);
        api.tell("cuStreamSynchronize", &[stream]);
        let mut used = 9u64;
        api.tell("cuMemPoolGetAttribute", &[pool, 7, at(&mut used)]);
        println!("used: {used}");
    }
    // What a context had that is destroyed is no memory for the next one.
    let second = api.made("cuCtxCreate_v2", &[0, 0]);
    let there = api.made("cuStreamCreate", &[1]);
    for _ in 0..2 {
        let p = api.made("cuMemAllocFromPoolAsync", &[64, pool, there]);
        api.tell("cuMemFreeAsync", &[p, there]);
        api.tell("cuStreamSynchronize", &[there]);
    }
    api.tell("cuCtxDestroy_v2", &[second]);
    let p = api.made("cuMemAllocFromPoolAsync", &[64, pool, stream]);
    assert_eq!(api.launch(fill, stream, &[p, 9, 16]), 0);
    api.tell("cuStreamSynchronize", &[stream]);
    // SAFETY: memory of the pool, which nothing uses.
    println!("the next one: {}", unsafe { *(p as *const u32) });
    api.tell("cuMemFreeAsync", &[p, stream]);
    api.tell("cuMemPoolDestroy", &[pool]);
    let wanted = |handles: u64, place, most| {
        let mut all = props(handles, place, most);
        all[0] = MANAGED | handles << 32;
        all
    };
    for (handles, most) in [(DESCRIPTOR, 0), (0, 1 << 20)] {
        let mut bad = wanted(handles, ON_DEVICE, most);
        let mut pool = 0u64;
        api.tell("cuMemPoolCreate", &[at(&mut pool), at(&mut bad)]);
    }
    let mut nowhere = wanted(0, NOWHERE, 0);
    let own = api.made("cuMemPoolCreate", &[at(&mut nowhere)]);
    let mut place = [ON_HOST as u32, 0];
    api.tell("cuMemSetMemPool", &[at(&mut place), MANAGED, own]);
    println!(
        "mine: {}",
        of("cuMemGetMemPool", ON_HOST, MANAGED) == (0, own)
    );
    let left = api.made("cuMemAllocFromPoolAsync", &[64, own, stream]);
    api.tell("cuMemPoolDestroy", &[own]);
    println!(
        "mine: {}",
        of("cuMemGetMemPool", ON_HOST, MANAGED) == (0, own)
    );
    api.tell("cuMemFreeAsync", &[left, stream]);
    api.tell("cuStreamSynchronize", &[stream]);
}
