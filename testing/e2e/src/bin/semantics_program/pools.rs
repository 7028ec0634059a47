//! Pools that processes share, and pools of the host's memory and of managed memory.

use super::api::{Api, at};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

const DESCRIPTOR: u64 = 1;
const ON_DEVICE: u64 = 1;
const ON_HOST: u64 = 2;
const ON_NODE: u64 = 3;
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
    other_device(api, pool, p);
    api.tell("cuMemsetD32Async", &[p, 88, N, stream]);
    api.tell("cuStreamSynchronize", &[stream]);
    api.tell("cuMemFreeAsync", &[p, stream]);
    api.tell("cuMemFreeAsync", &[p, stream]);
    api.tell("cuStreamSynchronize", &[stream]);
    api.tell("cuMemPoolDestroy", &[pool]);
}

/// Another device copies memory of a pool as long as it is let in.
fn other_device(api: &Api, pool: u64, p: u64) {
    const DEVICE: u32 = 1;
    const READ_WRITE: u32 = 3;
    api.made("cuCtxCreate_v2", &[0, 1]);
    let mut back = [0u32; 2];
    let mut copy = || api.tell("cuMemcpyDtoH_v2", &[at(&mut back[0]), p, 8]);
    copy();
    for flags in [READ_WRITE, 0] {
        let mut access = [DEVICE, 1, flags];
        api.tell("cuMemPoolSetAccess", &[pool, at(&mut access[0]), 1]);
        copy();
    }
    let mut gone = 0u64;
    api.tell("cuCtxPopCurrent_v2", &[at(&mut gone)]);
    api.tell("cuCtxDestroy_v2", &[gone]);
}

/// Two processes take turns.
struct Turns(UnixStream);

impl Turns {
    fn hand_over(&mut self) {
        self.0.write_all(&[1]).expect("the other listens");
    }

    fn wait(&mut self) {
        self.0.read_exact(&mut [0]).expect("the other goes on");
    }
}

/// Memory of the host that another process may have, too: all of it has a value, and then another.
struct Common<'a> {
    api: &'a Api,
    at: u64,
    n: u64,
}

impl Common<'_> {
    fn is(&self, who: &str, value: u32) {
        // SAFETY: memory of as many words, which nobody writes at this moment.
        let all = unsafe { std::slice::from_raw_parts(self.at as *const u32, self.n as usize) };
        let same = all.iter().filter(|w| **w == value).count();
        println!("{who} sees {value} in {same} of {}", self.n);
    }

    fn written(&self, value: u32) {
        // SAFETY: as above.
        let all = unsafe { std::slice::from_raw_parts_mut(self.at as *mut u32, self.n as usize) };
        all.fill(value);
    }

    fn filled(&self, value: u32) {
        let fill = self.api.kernel("fill");
        let rc = self
            .api
            .launch(fill, 0, &[self.at, u64::from(value), self.n]);
        println!("launch: {rc}, {}", self.api.call("cuCtxSynchronize", &[]));
    }

    /// A kernel copies it elsewhere: what it read.
    fn read(&self, who: &str) {
        let there = self.api.made("cuMemAlloc_v2", &[4 * self.n]);
        let copy = self.api.kernel("copy");
        self.api.launch(copy, 0, &[there, self.at, 4 * self.n]);
        let mut back = vec![0u32; self.n as usize];
        self.api
            .tell("cuMemcpyDtoH_v2", &[at(&mut back[0]), there, 4 * self.n]);
        let same = back.iter().all(|w| *w == back[0]);
        println!("{who}'s kernel read {} {same}", back[0]);
        self.api.tell("cuMemFree_v2", &[there]);
    }

    /// One of several turns of each process.
    fn turn(&self, turns: &mut Turns, who: &str, value: u32) {
        self.read(who);
        self.filled(value);
        self.is(who, value);
        self.written(value + 1);
        turns.hand_over();
    }
}

/// `CUmemAllocationProp`: host memory with these handles.
fn of_node(handles: u32) -> [u32; 8] {
    [1, handles, ON_NODE as u32, 0, 0, 0, 0, 0]
}

const GRANULE: u64 = 2 << 20;

/// Host memory is mapped for the program and for kernels.
fn mapped(api: &Api, memory: u64) -> Common<'_> {
    let va = api.made("cuMemAddressReserve", &[GRANULE, 0, 0, 0]);
    api.tell("cuMemMap", &[va, GRANULE, 0, memory, 0]);
    let mut both = [[ON_DEVICE as u32, 0, 3], [ON_NODE as u32, 0, 3]];
    api.tell("cuMemSetAccess", &[va, GRANULE, at(&mut both), 2]);
    let n = GRANULE / 4;
    Common { api, at: va, n }
}

/// Host memory of a pool, and of `cuMemCreate`, which another process has, too.
pub fn host_shared(api: &Api) {
    if std::env::args().nth(2).is_some() {
        return host_child(api);
    }
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let mut wanted = props(DESCRIPTOR, ON_NODE, 0);
    let pool = api.made("cuMemPoolCreate", &[at(&mut wanted)]);
    let mut own = props(0, ON_NODE, 0);
    let private = api.made("cuMemPoolCreate", &[at(&mut own)]);
    let mut fds: [RawFd; 2] = [-1; 2];
    let export = "cuMemPoolExportToShareableHandle";
    api.tell(export, &[at(&mut fds[0]), private, DESCRIPTOR, 0]);
    api.tell(export, &[at(&mut fds[0]), pool, 8, 0]);
    api.tell(export, &[at(&mut fds[0]), pool, DESCRIPTOR, 0]);
    let [small, large] =
        [16, N].map(|n| api.made("cuMemAllocFromPoolAsync", &[4 * n, pool, stream]));
    let secret = api.made("cuMemAllocFromPoolAsync", &[64, private, stream]);
    let mut shares = [[0u64; 8]; 3];
    for (share, p) in shares.iter_mut().zip([small, large, secret]) {
        api.tell("cuMemPoolExportPointer", &[at(share), p]);
    }
    let all = [(small, 16), (large, N)].map(|(at, n)| Common { api, at, n });
    all[0].written(5);
    all[1].filled(6);
    let mut handles = of_node(DESCRIPTOR as u32);
    let memory = api.made("cuMemCreate", &[GRANULE, at(&mut handles), 0]);
    let created = mapped(api, memory);
    created.written(7);
    let args = [at(&mut fds[1]), memory, DESCRIPTOR, 0];
    api.tell("cuMemExportToShareableHandle", &args);
    let (mine, other) = UnixStream::pair().expect("a pair");
    let shared = [fds[0], fds[1], other.as_raw_fd()];
    for fd in shared {
        // SAFETY: the descriptor is ours; the child is to have it.
        unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
    }
    let hex = |w: &u64| format!("{w:x}");
    let words: Vec<String> = shares[..2].iter().flatten().map(hex).collect();
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["host_pools_shared", &words.join(",")]);
    child.args(shared.map(|fd| fd.to_string()));
    let mut child = child.spawn().expect("the other");
    // One that ends before its time leaves nobody to wait for.
    drop(other);
    let mut turns = Turns(mine);
    for round in 0..2 {
        for c in all.iter().chain([&created]) {
            turns.wait();
            c.turn(&mut turns, "the first", 100 * round + 20);
        }
    }
    println!("the other: {:?}", child.wait().map(|s| s.code()));
    created.is("the first", 131);
    api.tell("cuMemUnmap", &[created.at, GRANULE]);
    api.tell("cuMemRelease", &[memory]);
    for p in [small, large, secret] {
        api.tell("cuMemFreeAsync", &[p, stream]);
    }
    api.tell("cuStreamSynchronize", &[stream]);
    api.tell("cuMemPoolDestroy", &[pool]);
    println!("done");
}

/// The other process.
fn host_child(api: &Api) {
    let mut args = std::env::args().skip(2);
    let words = args.next().expect("what was exported");
    let words = words.split(',').map(|w| u64::from_str_radix(w, 16));
    let shares: Vec<u64> = words.collect::<Result<_, _>>().expect("numbers");
    let fds: Vec<RawFd> = args.map(|a| a.parse().expect("a descriptor")).collect();
    // SAFETY: it is for us.
    let mut turns = Turns(unsafe { UnixStream::from_raw_fd(fds[2]) });
    api.made("cuCtxCreate_v2", &[0, 0]);
    let import = "cuMemPoolImportFromShareableHandle";
    let pool = api.made(import, &[fds[0] as u64, DESCRIPTOR, 0]);
    let mut wrong = 0u64;
    api.tell("cuMemAllocFromPoolAsync", &[at(&mut wrong), 64, pool, 0]);
    let mut fd = 0i32;
    let export = "cuMemPoolExportToShareableHandle";
    api.tell(export, &[at(&mut fd), pool, DESCRIPTOR, 0]);
    api.tell("cuMemPoolGetAttribute", &[pool, 7, at(&mut wrong)]);
    let (small, large) = shares.split_at(8);
    let (mut small, mut large) = (small.to_vec(), large.to_vec());
    let all = [(&mut small, 16), (&mut large, N)].map(|(share, n)| {
        let p = api.made("cuMemPoolImportPointer", &[pool, at(&mut share[0])]);
        let mut on = [0u64; 8];
        api.tell("cuMemPoolExportPointer", &[at(&mut on), p]);
        Common { api, at: p, n }
    });
    let args = [fds[1] as u64, DESCRIPTOR];
    let memory = api.made("cuMemImportFromShareableHandle", &args);
    let created = mapped(api, memory);
    for (c, value) in all.iter().chain([&created]).zip(5..) {
        c.is("the other", value);
    }
    for round in 0..2 {
        for c in all.iter().chain([&created]) {
            c.turn(&mut turns, "the other", 100 * round + 10);
            turns.wait();
        }
    }
    // Mapped once more it is the same memory.
    let second = mapped(api, memory);
    second.read("the other");
    second.filled(130);
    created.is("the other", 130);
    created.written(131);
    second.is("the other", 131);
    for place in [created.at, second.at] {
        api.tell("cuMemUnmap", &[place, GRANULE]);
    }
    api.tell("cuMemRelease", &[memory]);
    let [small, large] = all.map(|c| c.at);
    api.tell("cuMemFreeAsync", &[small, 0]);
    api.tell("cuMemFreeAsync", &[small, 0]);
    api.tell("cuMemFree_v2", &[large]);
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
