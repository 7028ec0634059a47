//! What CUDA's driver says where programs make mistakes, and what then still works: each word is a
//! small program whose every call's result is a line, so that a native and a remote run can be
//! compared. Functions are called by name, with arguments as the C ABI passes them.

#[path = "semantics_program/api.rs"]
mod api;
#[path = "semantics_program/blocking.rs"]
mod blocking;
#[path = "semantics_program/calls.rs"]
mod calls;
#[path = "semantics_program/captures.rs"]
mod captures;
#[path = "semantics_program/changes.rs"]
mod changes;
#[path = "semantics_program/compiled.rs"]
mod compiled;
#[path = "semantics_program/copies.rs"]
mod copies;
#[path = "semantics_program/corners.rs"]
mod corners;
#[path = "semantics_program/created.rs"]
mod created;
#[path = "semantics_program/deaths.rs"]
mod deaths;
#[path = "semantics_program/device_graphs.rs"]
mod device_graphs;
#[path = "semantics_program/events.rs"]
mod events;
#[path = "semantics_program/full.rs"]
mod full;
#[path = "semantics_program/functions.rs"]
mod functions;
#[path = "semantics_program/graph_memory.rs"]
mod graph_memory;
#[path = "semantics_program/hears.rs"]
mod hears;
#[path = "semantics_program/held.rs"]
mod held;
#[path = "semantics_program/host_graphs.rs"]
mod host_graphs;
#[path = "semantics_program/host_memory.rs"]
mod host_memory;
#[path = "semantics_program/kernels.rs"]
mod kernels;
#[path = "semantics_program/logs.rs"]
mod logs;
#[path = "semantics_program/managed.rs"]
mod managed;
#[path = "semantics_program/mistakes.rs"]
mod mistakes;
#[path = "semantics_program/neighbours.rs"]
mod neighbours;
#[path = "semantics_program/pools.rs"]
mod pools;
#[path = "semantics_program/recycled.rs"]
mod recycled;
#[path = "semantics_program/registered.rs"]
mod registered;
#[path = "semantics_program/talks.rs"]
mod talks;
#[path = "semantics_program/threads.rs"]
mod threads;
#[path = "semantics_program/tuning.rs"]
mod tuning;
#[path = "semantics_program/whose.rs"]
mod whose;

use api::{Api, at};

/// How many rounds a program is to do.
fn rounds() -> u32 {
    let rounds = std::env::args().nth(2).and_then(|n| n.parse().ok());
    rounds.expect("a number of rounds")
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
        "peers" => peers(&api),
        "visible" => visible(&api),
        "devices" => full::devices(&api),
        "capture" => captures::beside(&api),
        "calls_in_captures" => captures::calls(&api),
        "prints" => prints(&api),
        "prints_last" => prints_last(&api),
        "refused" => refused(&api),
        "descriptors" => descriptors(&api),
        "words" => words(&api),
        "host_pools_shared" => pools::host_shared(&api),
        "created" => created::created(&api),
        "mistakes" => mistakes::mistakes(&api),
        "mistakes_beside_calls" => mistakes::beside_calls(&api),
        "asked" => captures::asked(&api, rounds()),
        "loads" => corners::loads(&api),
        "compiles" => corners::compiles(&api),
        "corners" => corners::corners(&api),
        "blocking" => blocking::blocking(&api),
        "full" => full::full(&api),
        "copies" => full::copies(&api),
        "primary" => full::primary(&api),
        "library" => full::library(&api),
        "events" => events::events(&api),
        "times" => events::times(&api),
        "ahead" | "ahead_timed" => events::ahead(&api, rounds(), word == "ahead_timed"),
        "rows" => copies::rows(&api),
        "rows_behind" => whose::rows_behind(&api),
        "function_in_graph" => whose::function_in_graph(&api),
        "after_a_reset" => whose::after_a_reset(&api),
        "named" => whose::named(&api),
        "own_streams" => threads::own_streams(&api),
        "leaves" => threads::leaves(&api),
        "small_stacks" => threads::small_stacks(&api),
        "with_itself" => kernels::with_itself(&api),
        "event_ids" => held::event_ids(&api),
        "repeats" => threads::repeats(&api),
        "files" => threads::files(&api),
        "copies_again" => threads::copies_again(&api),
        "hole_in" | "hole_out" => threads::holes(&api, word == "hole_out"),
        "atomics" => talks::atomics(&api),
        "left" => copies::left(&api),
        "at_once" => copies::at_once(&api),
        "ordered" => copies::ordered(&api),
        "freed" => copies::freed(&api),
        "globals" => copies::globals(&api),
        "functions" => functions::functions(&api),
        "processes" => kernels::processes(&api),
        "kernels" => kernels::contexts(&api),
        "kernels_of_devices" => kernels::devices(&api),
        "tables" => copies::tables(&api),
        "first" => copies::first(&api),
        "graph_memory" => graph_memory::graph_memory(&api),
        "host_graphs" => host_graphs::host_graphs(&api),
        "host_memory" => host_memory::host_memory(&api),
        "logs" => logs::logs(&api),
        "log_of_queued" => logs::of_queued(&api),
        "dead_captures" => deaths::captures(&api),
        "dead_ids" => deaths::ids(&api),
        "dead_others" => deaths::others(&api),
        "compiled" => compiled::compiled(&api),
        "talks" => talks::talks(&api),
        "talks_beside" => talks::beside(&api),
        "hears" => hears::hears(&api),
        "steady" => hears::steady(&api, rounds()),
        "timed" => hears::timed(&api, rounds()),
        "tuned" => tuning::tuned(&api, rounds(), false),
        "tuned_registered" => tuning::tuned(&api, rounds(), true),
        "conditions" => hears::conditions(&api, rounds()),
        "calls" => calls::calls(&api, &std::env::args().nth(3).expect("a call"), rounds()),
        "changes" => changes::changes(&api, rounds().into()),
        "registered" => registered::registered(&api),
        "held" => held::held(&api),
        "in_the_way" => held::in_the_way(&api),
        "advice" => managed::advice(&api),
        "attached" => managed::attached(&api),
        "neighbours" => neighbours::neighbours(&api),
        "pools" => pools::shared(&api),
        "pools_child" => pools::child(&api),
        "host_pools" => pools::of_host(&api),
        "managed_pools" => pools::of_managed(&api),
        "recycled" => recycled::steps(&api, rounds()),
        "recycled_counts" => recycled::counts(&api),
        "recycled_ends" => recycled::ends(&api),
        "waiting_copies" => recycled::copies(&api, rounds()),
        "device_graphs" => device_graphs::device_graphs(&api),
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
    println!(
        "destroy: {}",
        i32::from(api.call("cuCtxDestroy_v2", &[a]) == 201)
    );
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
    assert_eq!(api.call("cuCtxSetCurrent", &[a]), 0);
    std::thread::scope(|s| {
        let t = s.spawn(|| {
            assert_eq!(api.call("cuCtxSetCurrent", &[b]), 0);
            assert_eq!(api.call("cuCtxDestroy_v2", &[a]), 0);
        });
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
    // The driver takes one that is gone, but no number that never was one.
    api.tell("cuCtxSetCurrent", &[a]);
    api.tell("cuMemAlloc_v2", &[at(&mut p), 4096]);
    api.tell("cuCtxSetCurrent", &[b]);
    api.tell("cuCtxSetCurrent", &[0x1234_5670]);
    api.tell("cuMemAlloc_v2", &[at(&mut p), 4096]);
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
        let host = api.made("cuMemHostAlloc", &[4096, 0]);
        println!("round {round} launch: {}", api.launch(f, 0, words));
        api.tell("cuCtxSynchronize", &[]);
        api.tell("cuMemFree_v2", &[p]);
        api.tell("cuMemFreeHost", &[host]);
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
    api.tell("cuMemHostAlloc", &[at(&mut p), 0, 0]);
    println!("{p}");
    api.tell("cuMemFreeHost", &[at(&mut host)]);
}

/// Memory that is given away as a descriptor and comes back by it is the same memory.
fn descriptors(api: &Api) {
    const SIZE: u64 = 2 << 20;
    const DESCRIPTOR: u64 = 1;
    api.made("cuCtxCreate_v2", &[0, 0]);
    // Type, handle types, location, and nothing else: pinned memory of device 0.
    let mut props = [1u32, DESCRIPTOR as u32, 1, 0, 0, 0, 0, 0];
    let mine = api.made("cuMemCreate", &[SIZE, at(&mut props), 0]);
    let mut fd = -1i32;
    api.tell(
        "cuMemExportToShareableHandle",
        &[at(&mut fd), mine, DESCRIPTOR, 0],
    );
    println!("a descriptor: {}", fd >= 0);
    let mut theirs = 0u64;
    api.tell(
        "cuMemImportFromShareableHandle",
        &[at(&mut theirs), fd as u64, DESCRIPTOR],
    );
    // The descriptor is needed no longer.
    // SAFETY: it is ours, and nobody uses it any more.
    unsafe { libc::close(fd) };
    let map = |memory: u64| {
        let va = api.made("cuMemAddressReserve", &[SIZE, 0, 0, 0]);
        api.tell("cuMemMap", &[va, SIZE, 0, memory, 0]);
        let mut access = [1u32, 0, 3];
        api.tell("cuMemSetAccess", &[va, SIZE, at(&mut access), 1]);
        va
    };
    let (a, b) = (map(mine), map(theirs));
    api.tell("cuMemsetD8_v2", &[a, 77, 4]);
    let mut back = [0u8; 4];
    api.tell("cuMemcpyDtoH_v2", &[at(&mut back), b, 4]);
    println!("{back:?}");
    let mut told = [9u32; 8];
    api.tell(
        "cuMemGetAllocationPropertiesFromHandle",
        &[at(&mut told), theirs],
    );
    println!("{:?}", &told[..4]);
    // What is no such descriptor, and memory that nobody said would be shared.
    api.tell(
        "cuMemImportFromShareableHandle",
        &[at(&mut theirs), 0xffff_ffff, DESCRIPTOR],
    );
    props[1] = 0;
    let private = api.made("cuMemCreate", &[SIZE, at(&mut props), 0]);
    api.tell(
        "cuMemExportToShareableHandle",
        &[at(&mut fd), private, DESCRIPTOR, 0],
    );
    for va in [a, b] {
        api.tell("cuMemUnmap", &[va, SIZE]);
        api.tell("cuMemAddressFree", &[va, SIZE]);
    }
    for memory in [mine, theirs, private] {
        api.tell("cuMemRelease", &[memory]);
    }
}

/// Streams write words of the program's memory, and wait for words that it writes only then.
fn words(api: &Api) {
    const EQUAL: u64 = 1;
    const DEVICE_MAP: u64 = 2;
    api.made("cuCtxCreate_v2", &[0, 0]);
    let s = api.made("cuStreamCreate", &[1]);
    let host = api.made("cuMemHostAlloc", &[4096, DEVICE_MAP]);
    let word = |i: usize| std::ptr::with_exposed_provenance_mut::<u32>(host as usize + 4 * i);
    let get = |i: usize| {
        // SAFETY: a word of the allocation.
        unsafe { word(i).read_volatile() }
    };
    let set = |i: usize, v: u32| {
        // SAFETY: as above.
        unsafe { word(i).write_volatile(v) }
    };
    (0..8).for_each(|i| set(i, 0));
    // Its own address serves as the device's.
    let mut at_device = 0u64;
    api.tell(
        "cuMemHostGetDevicePointer_v2",
        &[at(&mut at_device), host, 0],
    );
    println!("the same: {}", at_device == host);
    api.tell("cuStreamWriteValue32_v2", &[s, host, 17, 0]);
    api.tell("cuStreamSynchronize", &[s]);
    println!("{}", get(0));
    set(1, 3);
    api.tell("cuStreamWaitValue32_v2", &[s, host + 4, 3, EQUAL]);
    api.tell("cuStreamWriteValue32_v2", &[s, host + 8, 18, 0]);
    api.tell("cuStreamSynchronize", &[s]);
    println!("{} {}", get(1), get(2));
    // Set after the stream has begun to wait: by now it may be that the device has the page.
    for round in 0..3u64 {
        api.tell("cuStreamWaitValue32_v2", &[s, host + 12, 4 + round, EQUAL]);
        api.tell("cuStreamWriteValue32_v2", &[s, host + 16, 19 + round, 0]);
        api.tell("cuStreamQuery", &[s]);
        set(3, 4 + round as u32);
        api.tell("cuStreamSynchronize", &[s]);
        println!("{} {}", get(3), get(4));
    }
    // A list of them.
    let mut list = [
        [1u64, host + 20, 5, EQUAL, 0, 0],
        [2, host + 24, 20, 0, 0, 0],
    ];
    api.tell("cuStreamBatchMemOp_v2", &[s, 2, at(&mut list), 0]);
    set(5, 5);
    api.tell("cuCtxSynchronize", &[]);
    println!("{} {}", get(5), get(6));
    // Mistakes are said at once.
    for (p, flags) in [(host + 2, 0), (0, 0), (host, 0xff00)] {
        api.tell("cuStreamWriteValue32_v2", &[s, p, 1, flags]);
    }
    api.tell("cuStreamWriteValue64_v2", &[s, host + 4, 1, 0]);
    for (count, flags) in [(0, 0), (1, 5), (257, 0)] {
        let mut many = [[2u64, host + 24, 21, 0, 0, 0]; 257];
        api.tell("cuStreamBatchMemOp_v2", &[s, count, at(&mut many), flags]);
    }
    api.tell("cuStreamSynchronize", &[s]);
    println!("{}", get(6));
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
            println!(
                "read: {} {back:?}",
                api.call("cuMemcpyDtoH_v2", &[at(&mut back), end, 2])
            );
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

/// Which devices there are, by the last byte of each UUID.
fn visible(api: &Api) {
    api.tell("cuInit", &[0]);
    let mut n = 0i32;
    api.tell("cuDeviceGetCount", &[at(&mut n)]);
    for device in 0..n {
        let mut uuid = [0u8; 16];
        api.call("cuDeviceGetUuid_v2", &[at(&mut uuid), device as u64]);
        println!("device {}", uuid[15]);
    }
}

/// Several devices in one process: contexts by thread, copies and access between devices.
fn peers(api: &Api) {
    const N: u64 = 3 << 20;
    let contexts = [0, 1].map(|device| api.made("cuDevicePrimaryCtxRetain", &[device]));
    let buffers = contexts.map(|ctx| {
        assert_eq!(api.call("cuCtxSetCurrent", &[ctx]), 0);
        api.made("cuMemAlloc_v2", &[N])
    });
    let mut can = 0i32;
    api.tell("cuDeviceCanAccessPeer", &[at(&mut can), 0, 1]);
    println!("can: {can}");
    for (ctx, peer) in [(contexts[0], contexts[1]), (contexts[1], contexts[0])] {
        assert_eq!(api.call("cuCtxSetCurrent", &[ctx]), 0);
        api.tell("cuCtxEnablePeerAccess", &[ctx, 0]);
        api.tell("cuCtxEnablePeerAccess", &[peer, 1]);
        api.tell("cuCtxDisablePeerAccess", &[peer]);
        api.tell("cuCtxEnablePeerAccess", &[peer, 0]);
        api.tell("cuCtxEnablePeerAccess", &[peer, 0]);
        api.tell("cuCtxEnablePeerAccess", &[0, 0]);
    }
    for (round, p) in buffers.iter().enumerate() {
        let mut ordinal = -1i32;
        api.tell("cuPointerGetAttribute", &[at(&mut ordinal), 9, *p]);
        println!("buffer {round} is on device {ordinal}");
    }
    // Each thread has a context of its own, and streams of one device take copies for the other.
    std::thread::scope(|s| {
        for (i, ctx) in contexts.iter().enumerate() {
            let (api, p) = (&api, buffers[i]);
            s.spawn(move || {
                assert_eq!(api.call("cuCtxSetCurrent", &[*ctx]), 0);
                let f = api.kernel("fill");
                for round in 0..20u64 {
                    assert_eq!(api.launch(f, 0, &[p, i as u64 * 100 + round, N / 4]), 0);
                }
                assert_eq!(api.call("cuCtxSynchronize", &[]), 0);
            });
        }
    });
    let first = |p: u64| {
        let mut v = [0u32; 2];
        let rc = api.call("cuMemcpyDtoH_v2", &[at(&mut v), p + N - 8, 8]);
        println!("{rc} {v:?}");
    };
    buffers.iter().for_each(|p| first(*p));
    let [a, b] = buffers;
    let [ca, cb] = contexts;
    assert_eq!(api.call("cuCtxSetCurrent", &[ca]), 0);
    let stream = api.made("cuStreamCreate", &[1]);
    println!(
        "peer: {}",
        api.call("cuMemcpyPeerAsync", &[b, cb, a, ca, N, stream])
    );
    api.tell("cuStreamSynchronize", &[stream]);
    first(b);
    assert_eq!(api.call("cuCtxSetCurrent", &[cb]), 0);
    println!("fill: {}", api.call("cuMemsetD32_v2", &[b, 9, N / 4]));
    println!("peer: {}", api.call("cuMemcpyPeer", &[a, ca, b, cb, N]));
    api.tell("cuCtxSynchronize", &[]);
    first(a);
    println!("bad: {}", api.call("cuMemcpyPeer", &[a, 0x1234, b, cb, N]));
    println!("copy: {}", api.call("cuMemcpyDtoD_v2", &[b, a, N]));
    // A copy on the device does not wait, and the other stream does not wait for it.
    api.tell("cuCtxSynchronize", &[]);
    // A stream of the other device, whichever context is current.
    println!(
        "fill: {}",
        api.call("cuMemsetD32Async", &[a, 5, N / 4, stream])
    );
    api.tell("cuStreamSynchronize", &[stream]);
    first(a);
    api.tell("cuCtxDisablePeerAccess", &[ca]);
    api.tell("cuCtxDisablePeerAccess", &[ca]);
    // A reset of one device leaves the other.
    api.tell("cuDevicePrimaryCtxReset_v2", &[0]);
    first(b);
    api.tell("cuMemFree_v2", &[b]);
}

/// Kernels print more than a pipe holds, and then an assertion fails.
fn prints(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let (say, assert) = (api.kernel("say"), api.kernel("assert"));
    for n in [1u64, 60_000, 3] {
        assert_eq!(api.launch(say, stream, &[n]), 0);
        assert_eq!(api.call("cuStreamSynchronize", &[stream]), 0);
    }
    assert_eq!(api.launch(assert, stream, &[1]), 0);
    assert_eq!(api.call("cuStreamSynchronize", &[stream]), 0);
    assert_eq!(api.launch(assert, stream, &[0]), 0);
    assert_eq!(api.call("cuStreamSynchronize", &[stream]), 710);
    eprintln!("after the error");
}

/// What kernels print is there when an event behind them is waited for, though more is queued
/// behind that: the program ends at once then.
fn prints_last(api: &Api) -> ! {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let (event, p) = (
        api.made("cuEventCreate", &[2]),
        api.made("cuMemAlloc_v2", &[64]),
    );
    let say = api.kernel("say");
    for _ in 0..5 {
        assert_eq!(api.launch(say, stream, &[3]), 0);
        assert_eq!(api.call("cuEventRecord", &[event, stream]), 0);
        assert_eq!(api.call("cuMemsetD8Async", &[p, 0, 64, stream]), 0);
        assert_eq!(api.call("cuEventSynchronize", &[event]), 0);
    }
    // SAFETY: plain calls.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(0)
    }
}

/// What the driver refuses, it refuses at the call, and nothing is wrong later.
fn refused(api: &Api) {
    const GRANULE: u64 = 2 << 20;
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let timed = api.made("cuEventCreate", &[0]);
    let plain = api.made("cuEventCreate", &[2]);
    let f = api.kernel("nop");
    let sync = || assert_eq!(api.call("cuStreamSynchronize", &[stream]), 0);
    // Launches of six blocks with one attribute: its number and its first two words.
    let launches = [
        (0, 0, 0),
        (4, 2 | 1 << 32, 1),
        (4, 4 | 1 << 32, 1),
        (4, 1 << 32, 1),
        (4, 16 | 1 << 32, 1),
        (7, plain, 0),
        (7, timed, 0),
        (12, plain, 0),
        (12, timed, 0),
        (77, 0, 0),
        (8, 0, 0),
    ];
    for (id, first, second) in launches {
        let mut attribute = [id, first, second, 0, 0, 0, 0, 0, 0u64];
        let one = 1 | 1u64 << 32;
        let mut config = [6 | 1 << 32, one, one, 0, stream, at(&mut attribute), 1u64];
        print!("{id} ");
        api.tell("cuLaunchKernelEx", &[at(&mut config), f, 0, 0]);
        sync();
    }
    let (mut list, mut extra) = ([0u64; 2], [0u64; 2]);
    let (params, more) = (at(&mut list), at(&mut extra));
    api.tell(
        "cuLaunchKernel",
        &[f, 1, 1, 1, 1, 1, 1, 0, stream, params, more],
    );
    for flags in [0, 1, 9] {
        api.tell("cuEventRecordWithFlags", &[plain, stream, flags]);
    }
    api.tell("cuStreamWaitEvent", &[stream, plain, 9]);
    let mut value = [0u64; 8];
    for attribute in [2, 3, 99] {
        api.tell("cuStreamSetAttribute", &[stream, attribute, at(&mut value)]);
    }
    for config in [0, 2, 9] {
        api.tell("cuFuncSetCacheConfig", &[f, config]);
    }
    for config in [1, 9] {
        api.tell("cuCtxSetCacheConfig", &[config]);
        api.tell("cuFuncSetSharedMemConfig", &[f, config]);
    }
    for (attribute, value) in [(9, 50), (9, 1000), (14, 1), (14, 7), (4, 1)] {
        let mut got = 0u32;
        api.tell("cuFuncSetAttribute", &[f, attribute, value]);
        api.tell("cuFuncGetAttribute", &[at(&mut got), attribute, f]);
        println!("{attribute}: {got}");
    }
    let graph = api.made("cuGraphCreate", &[0]);
    let mut node = 0u64;
    api.tell(
        "cuGraphAddChildGraphNode",
        &[at(&mut node), graph, 0, 0, graph],
    );
    let inner = api.made("cuGraphCreate", &[0]);
    api.tell(
        "cuGraphAddChildGraphNode",
        &[at(&mut node), graph, 0, 0, inner],
    );
    api.tell("cuGraphDestroyNode", &[node]);
    let mut name = [7u8; 8];
    for room in [0, 1, 5] {
        api.tell("cuDeviceGetName", &[at(&mut name), room, 0]);
        println!("{name:?}");
    }
    api.tell("cuTexObjectDestroy", &[0]);
    sync();
    // Nothing is copied of a batch one of whose copies is empty.
    let (mut d, mut host, mut sizes) = ([0u64; 2], [5u32, 6], [4u64, 0]);
    d[0] = api.made("cuMemAlloc_v2", &[4096]);
    d[1] = d[0] + 4;
    let mut from = [at(&mut host), at(&mut host) + 4];
    // An attribute that lets the source be read in the stream's order, for all from the first on.
    let (mut how, mut first) = ([1u32, 0, 0, 0, 0, 0, 0, 0], 0u64);
    for second in [0, 4] {
        sizes[1] = second;
        let lists = [at(&mut d), at(&mut from), at(&mut sizes)];
        let (how, first) = (at(&mut how), at(&mut first));
        let args = [lists[0], lists[1], lists[2], 2, how, first, 1, stream];
        api.tell("cuMemcpyBatchAsync_v2", &args);
        sync();
    }
    // Memory is mapped as a whole.
    let mut props = [1u32, 0, 1, 0, 0, 0, 0, 0];
    let memory = api.made("cuMemCreate", &[2 * GRANULE, at(&mut props), 0]);
    let va = api.made("cuMemAddressReserve", &[4 * GRANULE, 0, 0, 0]);
    for (size, offset) in [(GRANULE, 0), (GRANULE, GRANULE), (2 * GRANULE, 0)] {
        api.tell("cuMemMap", &[va, size, offset, memory, 0]);
    }
    api.tell("cuMemMap", &[va, 2 * GRANULE, 0, memory, 0]);
    api.tell("cuMemUnmap", &[va, 2 * GRANULE]);
    api.tell("cuCtxSynchronize", &[]);
}
