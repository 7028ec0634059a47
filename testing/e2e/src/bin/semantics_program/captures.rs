//! What becomes of calls, and of a capture, when they are made while a stream captures: by a thread
//! that was asked for less care or not, or by another one, in streams that wait for the captured
//! one or do not.

use super::api::{Api, at};

const RELAXED: u64 = 2;
const OF_THREAD: u64 = 1;
const GLOBAL: u64 = 0;
const NON_BLOCKING: u64 = 1;

/// What calls are made with.
struct Things {
    context: u64,
    /// The stream that captures, and one that does not.
    captures: u64,
    other: u64,
    memory: u64,
    managed: u64,
    /// A stream's, which has come to pass; one of a capture; one that was never recorded.
    recorded: u64,
    captured: u64,
    fresh: u64,
    pool: u64,
    graph: u64,
    exec: u64,
}

fn destroyed(api: &Api, rc: i32, name: &str, made: u64) -> i32 {
    if rc == 0 {
        api.call(name, &[made]);
    }
    rc
}

/// Makes something and ends it; what making it returned.
fn made(api: &Api, make: &str, rest: &[u64], end: &str) -> i32 {
    let mut new = 0u64;
    let args: Vec<u64> = [at(&mut new)]
        .into_iter()
        .chain(rest.iter().copied())
        .collect();
    let rc = api.call(make, &args);
    destroyed(api, rc, end, new)
}

unsafe extern "C" fn nothing(_: u64) {}

unsafe extern "C" fn nothing_told(_: u64, _: i32, _: u64) {}

type Call = fn(&Api, &Things) -> i32;

const CALLS: &[(&str, Call)] = &[
    ("synchronize the one", |a, t| {
        a.call("cuStreamSynchronize", &[t.captures])
    }),
    ("synchronize another", |a, t| {
        a.call("cuStreamSynchronize", &[t.other])
    }),
    ("synchronize the legacy one", |a, _| {
        a.call("cuStreamSynchronize", &[1])
    }),
    ("query the one", |a, t| {
        a.call("cuStreamQuery", &[t.captures])
    }),
    ("query another", |a, t| a.call("cuStreamQuery", &[t.other])),
    ("query an event", |a, t| {
        a.call("cuEventQuery", &[t.recorded])
    }),
    ("query a fresh event", |a, t| {
        a.call("cuEventQuery", &[t.fresh])
    }),
    ("wait for an event", |a, t| {
        a.call("cuEventSynchronize", &[t.recorded])
    }),
    ("query an event of the capture", |a, t| {
        a.call("cuEventRecord", &[t.captured, t.captures]);
        a.call("cuEventQuery", &[t.captured])
    }),
    ("wait for an event of the capture", |a, t| {
        a.call("cuEventRecord", &[t.captured, t.captures]);
        a.call("cuEventSynchronize", &[t.captured])
    }),
    ("record in the legacy one", |a, t| {
        a.call("cuEventRecord", &[t.fresh, 1])
    }),
    ("wait for what was recorded outside", |a, t| {
        a.call("cuStreamWaitEvent", &[t.captures, t.recorded, 0])
    }),
    ("fill in the one", |a, t| {
        a.call("cuMemsetD8Async", &[t.memory, 1, 4, t.captures])
    }),
    ("fill in the one what there is not", |a, t| {
        a.call("cuMemsetD8Async", &[4096, 1, 4, t.captures])
    }),
    ("fill in the one more than there is", |a, t| {
        a.call("cuMemsetD32Async", &[t.memory, 1, 1 << 30, t.captures])
    }),
    ("fill rows in the one what there is not", |a, t| {
        a.call("cuMemsetD2D8Async", &[4096, 64, 1, 8, 8, t.captures])
    }),
    ("fill in another what there is not", |a, t| {
        a.call("cuMemsetD8Async", &[4096, 1, 4, t.other])
    }),
    ("fill in the legacy one", |a, t| {
        a.call("cuMemsetD8Async", &[t.memory, 1, 4, 1])
    }),
    ("launch in the legacy one", |a, t| {
        a.launch(a.kernel("fill"), 1, &[t.memory, 40, 1])
    }),
    ("copy in the legacy one", |a, t| {
        a.call("cuMemcpyDtoDAsync_v2", &[t.memory + 64, t.memory, 4, 1])
    }),
    ("allocate", |a, _| {
        made(a, "cuMemAlloc_v2", &[4096], "cuMemFree_v2")
    }),
    ("free nothing", |a, _| a.call("cuMemFree_v2", &[0])),
    ("allocate page-locked", |a, _| {
        made(a, "cuMemHostAlloc", &[64, 0], "cuMemFreeHost")
    }),
    ("allocate managed", |a, _| {
        made(a, "cuMemAllocManaged", &[64, 1], "cuMemFree_v2")
    }),
    ("register", |a, _| {
        let mut place = vec![0u8; 12288];
        let p = at(&mut place[0]).next_multiple_of(4096);
        let rc = a.call("cuMemHostRegister_v2", &[p, 4096, 0]);
        destroyed(a, rc, "cuMemHostUnregister", p)
    }),
    ("allocate in another stream's order", |a, t| {
        let mut p = 0u64;
        let rc = a.call("cuMemAllocAsync", &[at(&mut p), 64, t.other]);
        if rc == 0 {
            a.call("cuMemFreeAsync", &[p, t.other]);
        }
        rc
    }),
    ("allocate in the legacy one's order", |a, _| {
        let mut p = 0u64;
        let rc = a.call("cuMemAllocAsync", &[at(&mut p), 64, 1]);
        if rc == 0 {
            a.call("cuMemFreeAsync", &[p, 1]);
        }
        rc
    }),
    ("make a stream", |a, _| {
        made(a, "cuStreamCreate", &[1], "cuStreamDestroy_v2")
    }),
    ("make an event", |a, _| {
        made(a, "cuEventCreate", &[0], "cuEventDestroy_v2")
    }),
    ("instantiate", |a, t| {
        made(
            a,
            "cuGraphInstantiateWithFlags",
            &[t.graph, 0],
            "cuGraphExecDestroy",
        )
    }),
    ("launch a graph in the one", |a, t| {
        a.call("cuGraphLaunch", &[t.exec, t.captures])
    }),
    ("launch a graph in another", |a, t| {
        a.call("cuGraphLaunch", &[t.exec, t.other])
    }),
    ("launch a graph in the legacy one", |a, t| {
        a.call("cuGraphLaunch", &[t.exec, 1])
    }),
    ("a function in the one", |a, t| {
        a.call(
            "cuLaunchHostFunc",
            &[t.captures, nothing as *const () as u64, 0],
        )
    }),
    ("a callback in the one", |a, t| {
        let f = nothing_told as *const () as u64;
        a.call("cuStreamAddCallback", &[t.captures, f, 0, 0])
    }),
    ("attach", |a, t| {
        a.call("cuStreamAttachMemAsync", &[t.captures, t.managed, 0, 1])
    }),
    ("prefetch", |a, t| {
        a.call("cuMemPrefetchAsync", &[t.managed, 4096, 0, t.captures])
    }),
    ("set a limit", |a, _| a.call("cuCtxSetLimit", &[1, 1 << 20])),
    ("set what caches prefer", |a, _| {
        a.call("cuCtxSetCacheConfig", &[0])
    }),
    ("advise", |a, t| {
        a.call("cuMemAdvise", &[t.managed, 4096, 1, 0])
    }),
    ("end an executable graph", |a, t| {
        let mut mode = RELAXED as u32;
        a.call("cuThreadExchangeStreamCaptureMode", &[at(&mut mode)]);
        let exec = a.made("cuGraphInstantiateWithFlags", &[t.graph, 0]);
        a.call("cuThreadExchangeStreamCaptureMode", &[at(&mut mode)]);
        a.call("cuGraphExecDestroy", &[exec])
    }),
    ("free in another stream's order", |a, t| {
        let (mut mode, mut p) = (RELAXED as u32, 0u64);
        a.call("cuThreadExchangeStreamCaptureMode", &[at(&mut mode)]);
        a.call("cuMemAllocAsync", &[at(&mut p), 64, t.other]);
        a.call("cuThreadExchangeStreamCaptureMode", &[at(&mut mode)]);
        a.call("cuMemFreeAsync", &[p, t.other])
    }),
    ("trim a pool", |a, t| {
        a.call("cuMemPoolTrimTo", &[t.pool, 0])
    }),
    ("begin another capture", |a, t| {
        let rc = a.call("cuStreamBeginCapture_v2", &[t.other, RELAXED]);
        let mut g = 0u64;
        if rc == 0 {
            let end = a.call("cuStreamEndCapture", &[t.other, at(&mut g)]);
            destroyed(a, end, "cuGraphDestroy", g);
        }
        rc
    }),
];

/// One call during a capture of `t.captures`.
fn one(api: &Api, t: &Things, call: Call, mode: u64, elsewhere: bool) {
    let began = api.call("cuStreamBeginCapture_v2", &[t.captures, mode]);
    let rc = match elsewhere {
        false => call(api, t),
        true => std::thread::scope(|s| {
            let there = s.spawn(|| {
                api.call("cuCtxSetCurrent", &[t.context]);
                call(api, t)
            });
            there.join().expect("the call returns")
        }),
    };
    let mut status = -1i32;
    api.call("cuStreamIsCapturing", &[t.captures, at(&mut status)]);
    let (mut graph, mut nodes) = (0u64, 0u64);
    let end = api.call("cuStreamEndCapture", &[t.captures, at(&mut graph)]);
    if graph != 0 {
        api.call("cuGraphGetNodes", &[graph, 0, at(&mut nodes)]);
        api.call("cuGraphDestroy", &[graph]);
    }
    print!(" | {began} {rc} {status} {end} {nodes}");
}

pub fn calls(api: &Api) {
    let context = api.made("cuCtxCreate_v2", &[0, 0]);
    let [one_, other] = [1, 1].map(|_| api.made("cuStreamCreate", &[NON_BLOCKING]));
    let blocking = api.made("cuStreamCreate", &[0]);
    let [recorded, captured, fresh] = [1; 3].map(|_| api.made("cuEventCreate", &[2]));
    api.tell("cuEventRecord", &[recorded, other]);
    let mut managed = 0u64;
    api.tell("cuMemAllocManaged", &[at(&mut managed), 4096, 1]);
    let memory = api.made("cuMemAlloc_v2", &[4096]);
    let pool = api.made("cuDeviceGetDefaultMemPool", &[0]);
    let mut graph = 0u64;
    api.tell("cuStreamBeginCapture_v2", &[one_, RELAXED]);
    api.tell("cuMemsetD8Async", &[memory, 1, 4, one_]);
    api.tell("cuStreamEndCapture", &[one_, at(&mut graph)]);
    let exec = api.made("cuGraphInstantiateWithFlags", &[graph, 0]);
    api.tell("cuCtxSynchronize", &[]);
    let t = Things {
        context,
        captures: one_,
        other,
        memory,
        managed,
        recorded,
        captured,
        fresh,
        pool,
        graph,
        exec,
    };
    let of_blocking = Things {
        captures: blocking,
        ..t
    };
    for (what, call) in CALLS {
        print!("{what}");
        for (mode, elsewhere) in [
            (RELAXED, false),
            (OF_THREAD, false),
            (GLOBAL, false),
            (GLOBAL, true),
        ] {
            one(api, &t, *call, mode, elsewhere);
        }
        one(api, &of_blocking, *call, RELAXED, false);
        println!();
    }
    two(api, &t);
    outlived(api);
    api.tell("cuCtxSynchronize", &[]);
}

/// What two captures at once are told, each of its own; and what would merge them.
fn two(api: &Api, t: &Things) {
    for s in [t.captures, t.other] {
        api.tell("cuStreamBeginCapture_v2", &[s, RELAXED]);
    }
    api.tell("cuMemsetD8Async", &[t.memory, 1, 4, t.captures]);
    api.tell("cuEventRecord", &[t.captured, t.captures]);
    let mut told = [0u64; 2];
    for (s, last) in [t.captures, t.other].into_iter().zip(&mut told) {
        let (mut status, mut id, mut graph, mut n) = (-1i32, 0u64, 0u64, 9u64);
        let args = [
            s,
            at(&mut status),
            at(&mut id),
            at(&mut graph),
            at(last),
            0,
            at(&mut n),
        ];
        api.tell("cuStreamGetCaptureInfo_v3", &args);
        println!("status {status}, {n} nodes");
    }
    // SAFETY: the list of one node is good until the stream's next such call.
    let node = unsafe { *(told[0] as *const u64) };
    let mut kind = -1i32;
    api.tell("cuGraphNodeGetType", &[node, at(&mut kind)]);
    println!("a node of type {kind}");
    api.tell("cuStreamWaitEvent", &[t.other, t.captured, 0]);
    for s in [t.captures, t.other] {
        let mut graph = 0u64;
        api.tell("cuStreamEndCapture", &[s, at(&mut graph)]);
        println!("a graph: {}", graph != 0);
    }
}

/// Streams that are asked what they capture at each launch, as libraries do: one that captures, one
/// that joins it half-way, one that looks on.
pub fn asked(api: &Api, rounds: u32) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let [origin, joins, other] = [1; 3].map(|_| api.made("cuStreamCreate", &[NON_BLOCKING]));
    let event = api.made("cuEventCreate", &[2]);
    let memory = api.made("cuMemAlloc_v2", &[4096]);
    let ask = |stream: u64| {
        let (mut is, mut status, mut id, mut graph) = (-1i32, -1i32, 0u64, 0u64);
        api.tell("cuStreamIsCapturing", &[stream, at(&mut is)]);
        let [status_at, id_at, graph_at] = [at(&mut status), at(&mut id), at(&mut graph)];
        let args = [stream, status_at, id_at, graph_at, 0, 0, 0];
        api.tell("cuStreamGetCaptureInfo_v3", &args);
        assert_eq!(is, status);
        (status, id, graph)
    };
    let (mut right, mut ids) = (0, Vec::new());
    for _ in 0..rounds {
        api.tell("cuStreamBeginCapture_v2", &[origin, RELAXED]);
        let (active, id, graph) = ask(origin);
        let mut same = active == 1 && graph != 0;
        for n in 0..16 {
            if n == 8 {
                api.tell("cuEventRecord", &[event, origin]);
                api.tell("cuStreamWaitEvent", &[joins, event, 0]);
            }
            for stream in [origin, joins] {
                if stream == origin || n >= 8 {
                    api.tell("cuMemsetD8Async", &[memory, n, 4, stream]);
                    same &= ask(stream) == (1, id, graph);
                } else {
                    same &= ask(stream) == (0, 0, 0);
                }
            }
            same &= ask(other) == (0, 0, 0);
        }
        api.tell("cuEventRecord", &[event, joins]);
        api.tell("cuStreamWaitEvent", &[origin, event, 0]);
        let (mut captured, mut nodes) = (0u64, 0u64);
        api.tell("cuStreamEndCapture", &[origin, at(&mut captured)]);
        api.tell("cuGraphGetNodes", &[captured, 0, at(&mut nodes)]);
        same &= captured == graph && nodes == 24;
        same &= [origin, joins, other].map(ask) == [(0, 0, 0); 3];
        api.tell("cuGraphDestroy", &[captured]);
        same &= !ids.contains(&id);
        ids.push(id);
        right += u32::from(same);
    }
    println!("right: {right}");
}

/// An executable graph with a function, whose stream is gone before it.
fn outlived(api: &Api) {
    let s = api.made("cuStreamCreate", &[NON_BLOCKING]);
    let mut graph = 0u64;
    api.tell("cuStreamBeginCapture_v2", &[s, RELAXED]);
    api.tell("cuLaunchHostFunc", &[s, nothing as *const () as u64, 0]);
    api.tell("cuStreamEndCapture", &[s, at(&mut graph)]);
    let exec = api.made("cuGraphInstantiateWithFlags", &[graph, 0]);
    api.tell("cuGraphLaunch", &[exec, s]);
    api.tell("cuStreamSynchronize", &[s]);
    api.tell("cuStreamDestroy_v2", &[s]);
    api.tell("cuGraphExecDestroy", &[exec]);
    api.tell("cuCtxSynchronize", &[]);
}

/// Frees and waits beside a capture leave it alone; what it may not do voids it.
pub fn beside(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let (fill, spin) = (api.kernel("fill"), api.kernel("spin"));
    let [other, stream] = [1, 1].map(|flags| api.made("cuStreamCreate", &[flags]));
    let p = api.made("cuMemAlloc_v2", &[4096]);
    for (mode, size) in [(2u64, 512u64), (2, 4 << 20), (1, 512), (0, 4 << 20)] {
        let q = api.made("cuMemAlloc_v2", &[size]);
        println!("busy: {}", api.launch(spin, other, &[20_000]));
        println!("mode {mode}");
        api.tell("cuStreamBeginCapture_v2", &[stream, mode]);
        println!(
            "launch: {}",
            api.launch(fill, stream, &[p, mode + 40, 1024])
        );
        let mut old = 2i32;
        if mode != 2 {
            api.tell("cuThreadExchangeStreamCaptureMode", &[at(&mut old)]);
        }
        println!("busy: {}", api.launch(spin, other, &[20_000]));
        api.tell("cuMemFree_v2", &[q]);
        let mut r = 0u64;
        api.tell("cuMemAlloc_v2", &[at(&mut r), size]);
        if mode != 2 {
            api.tell("cuThreadExchangeStreamCaptureMode", &[at(&mut old)]);
        }
        let mut status = -1i32;
        api.tell("cuStreamIsCapturing", &[stream, at(&mut status)]);
        println!("status {status}");
        api.run_captured(stream);
        let mut v = [0u32; 1];
        api.call("cuMemcpyDtoH_v2", &[at(&mut v), p, 4]);
        println!("{v:?}");
        api.tell("cuMemFree_v2", &[r]);
    }
    // Without leave, what may disturb a capture is refused and ends it.
    for (mode, name) in [
        (0u64, "cuMemAlloc_v2"),
        (1, "cuMemAlloc_v2"),
        (0, "cuMemHostAlloc"),
    ] {
        api.tell("cuStreamBeginCapture_v2", &[stream, mode]);
        let mut r = 0u64;
        api.tell(name, &[at(&mut r), 4096, 0]);
        let mut graph = 0u64;
        api.tell("cuStreamEndCapture", &[stream, at(&mut graph)]);
        api.tell("cuStreamSynchronize", &[stream]);
    }
    // Another thread's.
    api.tell("cuStreamBeginCapture_v2", &[stream, 1]);
    let mut ctx = 0u64;
    api.call("cuCtxGetCurrent", &[at(&mut ctx)]);
    std::thread::scope(|s| {
        s.spawn(|| {
            api.call("cuCtxSetCurrent", &[ctx]);
            let mut r = 0u64;
            api.tell("cuMemAlloc_v2", &[at(&mut r), 4096]);
        });
    });
    let mut graph = 0u64;
    api.tell("cuStreamEndCapture", &[stream, at(&mut graph)]);
}
