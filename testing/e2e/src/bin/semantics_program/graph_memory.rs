//! Memory that graphs allocate: it is there from a launch until it is freed, once.

use super::api::{Api, at};

const FREE_ON_LAUNCH: u64 = 1;

/// What a node that allocates is made with, and tells, as the C API lays it out.
#[repr(C)]
struct Allocate {
    /// A type, handles, a place, and what stays 0.
    pool: [i32; 22],
    access: u64,
    access_count: u64,
    size: u64,
    address: u64,
}

/// What a node that fills is made with.
#[repr(C)]
struct Fill {
    to: u64,
    pitch: u64,
    value: u32,
    element: u32,
    width: u64,
    height: u64,
}

/// A graph that allocates and fills: it and the address.
fn graph(api: &Api, value: u32) -> (u64, u64) {
    let graph = api.made("cuGraphCreate", &[0]);
    let mut pool = [0; 22];
    // Pinned memory of device 0.
    (pool[0], pool[2]) = (1, 1);
    let mut p = Allocate {
        pool,
        access: 0,
        access_count: 0,
        size: 4096,
        address: 0,
    };
    let mut node = [0u64; 2];
    let args = [at(&mut node[0]), graph, 0, 0, at(&mut p)];
    api.tell("cuGraphAddMemAllocNode", &args);
    println!("address given: {}", p.address != 0);
    let mut fill = Fill {
        to: p.address,
        pitch: 0,
        value,
        element: 4,
        width: 16,
        height: 1,
    };
    let context = api.made("cuCtxGetCurrent", &[]);
    let [first, second] = &mut node;
    let args = [at(second), graph, at(first), 1, at(&mut fill), context];
    api.tell("cuGraphAddMemsetNode", &args);
    (graph, p.address)
}

fn executable(api: &Api, graph: u64, flags: u64) -> u64 {
    let mut exec = 0u64;
    let args = [at(&mut exec), graph, flags];
    api.tell("cuGraphInstantiateWithFlags", &args);
    exec
}

fn read(api: &Api, from: u64) {
    let mut v = [0u32; 2];
    api.tell("cuMemcpyDtoH_v2", &[at(&mut v), from, 8]);
    println!("{v:?}");
}

/// Memory that outlives a launch is freed by the next one or by the program, and by nobody twice;
/// what is captured is a graph's memory, too.
pub fn graph_memory(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let s = api.made("cuStreamCreate", &[1]);
    let free = |p| {
        api.tell("cuMemFreeAsync", &[p, s]);
        api.tell("cuStreamSynchronize", &[s]);
    };
    let launch = |exec| {
        api.tell("cuGraphLaunch", &[exec, s]);
        api.tell("cuStreamSynchronize", &[s]);
    };
    println!("-- freed by the next launch");
    let (g, p) = graph(api, 31);
    let x = executable(api, g, FREE_ON_LAUNCH);
    free(p);
    for _ in 0..2 {
        launch(x);
    }
    read(api, p);
    for _ in 0..2 {
        free(p);
    }
    // Nothing of a refusal is left for later.
    api.tell("cuCtxSynchronize", &[]);
    launch(x);
    read(api, p);
    println!("-- freed by the program");
    let (h, q) = graph(api, 32);
    let y = executable(api, h, 0);
    for _ in 0..2 {
        launch(y);
        read(api, q);
        api.tell("cuMemFree_v2", &[q]);
        api.tell("cuMemFree_v2", &[q]);
    }
    println!("-- copied to before it is there");
    // Whatever the kind of either end is.
    const UNIFIED: u64 = 4;
    let (copies, r) = graph(api, 35);
    let device = api.made("cuMemAlloc_v2", &[64]);
    api.tell("cuMemsetD32_v2", &[device, 36, 16]);
    // The stream does not wait for the default one.
    api.tell("cuCtxSynchronize", &[]);
    let mut rows = [0u64; 25];
    (rows[4], rows[6], rows[15], rows[17]) = (UNIFIED, device, UNIFIED, r + 64);
    (rows[22], rows[23], rows[24]) = (64, 1, 1);
    let (mut last, mut copy, mut count) = ([0u64; 2], 0u64, 2u64);
    api.tell("cuGraphGetNodes", &[copies, at(&mut last), at(&mut count)]);
    let context = api.made("cuCtxGetCurrent", &[]);
    let args = [
        at(&mut copy),
        copies,
        at(&mut last),
        2,
        at(&mut rows),
        context,
    ];
    api.tell("cuGraphAddMemcpyNode", &args);
    let w = executable(api, copies, FREE_ON_LAUNCH);
    launch(w);
    read(api, r + 60);
    free(r);
    println!("-- captured");
    let (mut a, mut b) = (0u64, 0u64);
    api.tell("cuStreamBeginCapture_v2", &[s, 2]);
    for (p, value) in [(&mut a, 33), (&mut b, 34)] {
        api.tell("cuMemAllocAsync", &[at(p), 4096, s]);
        api.tell("cuMemsetD32Async", &[*p, value, 16, s]);
    }
    // Whatever the kind of either end is, and of rows, too.
    api.tell("cuMemcpyAsync", &[b + 4, device, 4, s]);
    rows = [0u64; 25];
    (rows[4], rows[6], rows[15], rows[17]) = (UNIFIED, a, UNIFIED, device);
    (rows[9], rows[20], rows[22], rows[23], rows[24]) = (8, 8, 4, 2, 1);
    api.tell("cuMemcpy3DAsync_v2", &[at(&mut rows), s]);
    api.tell("cuMemFreeAsync", &[a, s]);
    let (mut captured, mut nodes) = (0u64, 0u64);
    api.tell("cuStreamEndCapture", &[s, at(&mut captured)]);
    api.tell("cuGraphGetNodes", &[captured, 0, at(&mut nodes)]);
    println!("{nodes} nodes");
    let z = executable(api, captured, FREE_ON_LAUNCH);
    for _ in 0..2 {
        launch(z);
    }
    read(api, b);
    free(a);
    for _ in 0..2 {
        free(b);
    }
    api.tell("cuCtxSynchronize", &[]);
}
