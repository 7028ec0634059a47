//! Wrong arguments of calls that return before their work is done. The driver refuses each at the
//! call, and nothing comes late: one line for a call, with what a wait behind it says.

use super::api::{Api, at};

const SIZE: u64 = 4096;
/// Neither a device's nor the program's.
const UNKNOWN: u64 = 0x1234_5000;

/// A call by name, and its arguments.
type Row = (&'static str, Vec<u64>);

struct Things {
    stream: u64,
    device: u64,
    /// A byte behind its end.
    end: u64,
    event: u64,
    kernel: u64,
    other: u64,
    array: u64,
    host: u64,
    context: u64,
}

/// Calls, and then waits.
fn try_all(api: &Api, what: &str, rows: Vec<Row>) {
    println!("== {what}");
    for (i, (name, args)) in rows.into_iter().enumerate() {
        let rc = api.call(name, &args);
        let late = api.call("cuCtxSynchronize", &[]);
        println!("{i} {name}: {rc} {late}");
    }
}

fn fills(t: &Things) -> Vec<Row> {
    let s = t.stream;
    let mut all = Vec::new();
    for to in [0, UNKNOWN, t.end, t.end - 3, t.device + 1, t.host] {
        all.push(("cuMemsetD32Async", vec![to, 1, 1, s]));
    }
    all.push(("cuMemsetD8Async", vec![t.device, 1, SIZE + 1, s]));
    all.push(("cuMemsetD16Async", vec![t.device + 1, 1, 2, s]));
    all.push(("cuMemsetD8Async", vec![t.device, 1, u64::MAX, s]));
    for (pitch, width, height) in [(8, 9, 2), (64, 8, 100), (64, 0, 2), (7, 4, 2), (8, 9, 1)] {
        let args = vec![t.device, pitch, 1, width, height, s];
        all.push(("cuMemsetD2D8Async", args));
        let args = vec![t.device, pitch, 1, width / 4, height, s];
        all.push(("cuMemsetD2D32Async", args));
    }
    all.push(("cuMemsetD8Async", vec![t.device, 1, 4, 0x7777]));
    all
}

/// A box as `CUDA_MEMCPY3D` has it: kind, address and pitch of both ends; width, height.
fn box_of(src: (u64, u64, u64), dst: (u64, u64, u64), width: u64, height: u64) -> [u64; 25] {
    let mut b = [0; 25];
    for (from, (kind, p, pitch)) in [(0, src), (11, dst)] {
        b[from + 4] = kind;
        // The host's, the device's, or an array.
        if (1..=3).contains(&kind) {
            b[from + 4 + kind as usize] = p;
        }
        b[from + 9] = pitch;
        b[from + 10] = height;
    }
    (b[22], b[23], b[24]) = (width, height, 1);
    b
}

fn copies(t: &Things) -> Vec<Row> {
    let (s, d, c) = (t.stream, t.device, t.context);
    let mut all = Vec::new();
    for wrong in [0, UNKNOWN, t.end, t.end - 3] {
        all.push(("cuMemcpyDtoDAsync_v2", vec![wrong, d, 4, s]));
        all.push(("cuMemcpyDtoDAsync_v2", vec![d, wrong, 4, s]));
        all.push(("cuMemcpyHtoDAsync_v2", vec![wrong, t.host, 4, s]));
        all.push(("cuMemcpyDtoHAsync_v2", vec![t.host, wrong, 4, s]));
        all.push(("cuMemcpyPeerAsync", vec![wrong, c, d, c, 4, s]));
    }
    all.push(("cuMemcpyHtoDAsync_v2", vec![d, t.host, SIZE + 1, s]));
    all.push(("cuMemcpyDtoHAsync_v2", vec![0, d, 4, s]));
    all.push(("cuMemcpyHtoDAsync_v2", vec![d, 0, 4, s]));
    all.push(("cuMemcpyPeerAsync", vec![d, 0x7777, d + 64, c, 4, s]));
    all.push(("cuMemcpyPeerAsync", vec![d, 0, d + 64, c, 4, s]));
    all.push(("cuMemcpyDtoDAsync_v2", vec![d, d + 64, 4, 0x7777]));
    let device = |p, pitch| (2, p, pitch);
    let boxes = [
        box_of(device(d, 8), device(d + 512, 64), 9, 2),
        box_of(device(d, 64), device(d + 512, 8), 9, 2),
        box_of(device(d, 64), device(d + 512, 64), 9, 100),
        box_of(device(UNKNOWN, 64), device(d, 64), 9, 2),
        box_of((9, d, 64), device(d + 512, 64), 9, 2),
        box_of((0, d, 64), device(d + 512, 64), 9, 2),
        box_of((3, t.array, 0), device(d, 64), 65, 2),
        box_of((3, t.array, 0), device(d, 64), 64, 5),
        box_of((3, 0x7777, 0), device(d, 64), 64, 2),
        box_of((1, t.host, 8), device(d, 64), 9, 2),
    ];
    for b in boxes {
        let p = Box::leak(Box::new(b));
        all.push(("cuMemcpy3DAsync_v2", vec![at(p), s]));
    }
    all.push(("cuMemcpy3DAsync_v2", vec![0, s]));
    all
}

/// Boxes that begin within a row, and end within it or outside.
fn rows(api: &Api) -> Vec<Row> {
    let device = api.made("cuMemAlloc_v2", &[1 << 12]);
    let begins = |x: [u64; 2], pitches: [u64; 2], height| {
        // `CUDA_MEMCPY2D`: where it begins, kind, addresses and pitch of both ends; width, height.
        let end = |i: usize, place| [x[i], 0, 2, 0, device + place, 0, pitches[i]];
        let ends = [end(0, 0), end(1, 2048)].concat();
        let plane = [ends, vec![9, height]].concat().leak();
        ("cuMemcpy2D_v2", vec![at(&mut plane[0])])
    };
    vec![
        begins([0, 0], [9, 9], 2),
        begins([1, 0], [9, 9], 2),
        begins([0, 1], [9, 9], 2),
        begins([1, 1], [10, 10], 2),
        begins([1, 0], [9, 9], 1),
        begins([1, 1], [0, 0], 1),
        begins([u64::MAX, 0], [64, 64], 1),
    ]
}

/// The pitch is told of what cannot be had, too.
fn pitches(api: &Api) {
    for width in [0, 100, 1 << 50, u64::MAX] {
        for height in [0, 4, 1 << 40] {
            for element in [0, 3, 4, 16, 32] {
                let (mut p, mut pitch) = (0u64, 7u64);
                let args = [at(&mut p), at(&mut pitch), width, height, element];
                let rc = api.call("cuMemAllocPitch_v2", &args);
                println!("{width} x {height}, {element}: {rc} {pitch}");
                assert_eq!(api.call("cuMemFree_v2", &[p]), 0);
            }
        }
    }
}

/// All parameters at once, and how many bytes those are.
fn packed(api: &Api) -> Vec<Row> {
    let (stream, device) = (
        api.made("cuStreamCreate", &[1]),
        api.made("cuMemAlloc_v2", &[64]),
    );
    let bytes = at(Box::leak(Box::new([device, 0, 0, 0, 0, 0, 0, 0])));
    let kernels = ["fill", "nop"].map(|name| api.kernel(name));
    let mut all = Vec::new();
    for n in [0u64, 1, 19, 20, 21, 24, 64] {
        let n = at(Box::leak(Box::new(n)));
        let extra = at(Box::leak(Box::new([1, bytes, 2, n, 0])));
        for kernel in kernels {
            let args = vec![kernel, 1, 1, 1, 1, 1, 1, 0, stream, 0, extra];
            all.push(("cuLaunchKernel", args));
        }
    }
    all
}

fn launches(t: &Things) -> Vec<Row> {
    let (f, s) = (t.kernel, t.stream);
    let mut all = Vec::new();
    let shapes = [
        ([0, 1, 1], [1, 1, 1], 0),
        ([1, 65536, 1], [1, 1, 1], 0),
        ([1 << 31, 1, 1], [1, 1, 1], 0),
        ([1, 1, 1], [0, 1, 1], 0),
        ([1, 1, 1], [1025, 1, 1], 0),
        ([1, 1, 1], [1, 1, 65], 0),
        ([1, 1, 1], [1, 1, 1], 1 << 20),
    ];
    for (g, b, shared) in shapes {
        let args = vec![f, g[0], g[1], g[2], b[0], b[1], b[2], shared, s, 0, 0];
        all.push(("cuLaunchKernel", args.clone()));
        all.push(("cuLaunchCooperativeKernel", args[..10].to_vec()));
    }
    all.push(("cuLaunchKernel", vec![0, 1, 1, 1, 1, 1, 1, 0, s, 0, 0]));
    let lost = vec![f, 1, 1, 1, 1, 1, 1, 0, 0x7777, 0, 0];
    all.push(("cuLaunchKernel", lost));
    // No parameters for a kernel that has some.
    let none = vec![t.other, 1, 1, 1, 1, 1, 1, 0, s, 0, 0];
    all.push(("cuLaunchKernel", none));
    let many = vec![f, 1 << 20, 1, 1, 32, 1, 1, 0, s, 0];
    all.push(("cuLaunchCooperativeKernel", many));
    all.push(("cuLaunchHostFunc", vec![s, 0, 0]));
    all.push(("cuStreamAddCallback", vec![s, 0, 0, 0]));
    for (attribute, value) in [
        (8, u64::MAX),
        (8, 64 << 20),
        (9, 101),
        (9, (-2i32) as u32 as u64),
        (99, 0),
        (0, 1),
    ] {
        all.push(("cuFuncSetAttribute", vec![f, attribute, value]));
    }
    all.push(("cuFuncSetCacheConfig", vec![f, 4]));
    all.push(("cuFuncSetCacheConfig", vec![0, 1]));
    all
}

fn words(t: &Things) -> Vec<Row> {
    let (s, d) = (t.stream, t.device);
    let mut all = Vec::new();
    for p in [0, d + 1, d + 2, UNKNOWN, t.end, t.end - 2] {
        all.push(("cuStreamWriteValue32_v2", vec![s, p, 1, 0]));
        all.push(("cuStreamWriteValue64_v2", vec![s, p, 1, 0]));
        // At least nothing: what is refused is not waited for.
        all.push(("cuStreamWaitValue32_v2", vec![s, p, 0, 0]));
        all.push(("cuStreamWaitValue64_v2", vec![s, p, 0, 0]));
    }
    for flags in [2, 16, 1 << 31] {
        all.push(("cuStreamWriteValue32_v2", vec![s, d, 1, flags]));
    }
    for flags in [4, 16, 1 << 31] {
        all.push(("cuStreamWaitValue32_v2", vec![s, d, 0, flags]));
    }
    let list = |op: [u64; 6]| at(Box::leak(Box::new(op)));
    for (count, ops, flags) in [
        (1, 0, 0),
        (0, list([2, d, 1, 0, 0, 0]), 0),
        (300, list([2, d, 1, 0, 0, 0]), 0),
        (1, list([2, d, 1, 0, 0, 0]), 1),
        (1, list([77, d, 1, 0, 0, 0]), 0),
        (1, list([2, UNKNOWN, 1, 0, 0, 0]), 0),
        (1, list([2, d + 1, 1, 0, 0, 0]), 0),
    ] {
        if count <= 1 {
            all.push(("cuStreamBatchMemOp_v2", vec![s, count, ops, flags]));
        }
    }
    all
}

fn events_and_streams(t: &Things) -> Vec<Row> {
    let out = at(Box::leak(Box::new(0u64)));
    let (s, e) = (t.stream, t.event);
    let mut all: Vec<Row> = Vec::new();
    for flags in [8, 0x10, 4] {
        all.push(("cuEventCreate", vec![out, flags]));
    }
    all.push(("cuEventRecord", vec![e, 0x7777]));
    all.push(("cuEventRecord", vec![0x7777, s]));
    all.push(("cuEventRecordWithFlags", vec![e, s, 2]));
    all.push(("cuStreamWaitEvent", vec![s, e, 2]));
    all.push(("cuStreamWaitEvent", vec![s, 0x7777, 0]));
    all.push(("cuStreamWaitEvent", vec![0x7777, e, 0]));
    for flags in [2, 3, 0x10] {
        all.push(("cuStreamCreate", vec![out, flags]));
        all.push(("cuStreamCreateWithPriority", vec![out, flags, 0]));
    }
    all.push(("cuStreamDestroy_v2", vec![0]));
    all.push(("cuStreamDestroy_v2", vec![0x7777]));
    all.push(("cuStreamDestroy_v2", vec![1]));
    all.push(("cuStreamDestroy_v2", vec![2]));
    all.push(("cuEventDestroy_v2", vec![0x7777]));
    // Affinities, how many those are, graphics.
    for params in [[0, 1, 0], [out, 1, 0], [out, 1, out], [0, 0, out]] {
        let params = at(Box::leak(Box::new(params)));
        all.push(("cuCtxCreate_v4", vec![out, params, 0, 0]));
    }
    all.push(("cuCtxCreate_v3", vec![out, 0, 1, 0, 0]));
    all.push(("cuCtxCreate_v3", vec![out, out, 1, 0, 0]));
    all.push(("cuCtxDestroy_v2", vec![0]));
    all.push(("cuCtxDestroy_v2", vec![0x7777]));
    all.push(("cuDevicePrimaryCtxRelease_v2", vec![0]));
    all.push(("cuDevicePrimaryCtxRelease_v2", vec![99]));
    all.push(("cuDevicePrimaryCtxReset_v2", vec![99]));
    all.push(("cuTexObjectDestroy", vec![777]));
    all.push(("cuSurfObjectDestroy", vec![777]));
    all.push(("cuModuleUnload", vec![0x7777]));
    all.push(("cuLibraryUnload", vec![0x7777]));
    all.push(("cuArrayDestroy", vec![0x7777]));
    all.push(("cuMipmappedArrayDestroy", vec![0x7777]));
    all.push(("cuGraphCreate", vec![out, 1]));
    all
}

fn pools(api: &Api, t: &Things) -> Vec<Row> {
    let s = t.stream;
    let out = at(Box::leak(Box::new(0u64)));
    let twice = api.made("cuMemAllocAsync", &[64, s]);
    api.call("cuMemFreeAsync", &[twice, s]);
    let default = api.made("cuDeviceGetDefaultMemPool", &[0]);
    vec![
        ("cuMemFreeAsync", vec![twice, s]),
        ("cuMemFreeAsync", vec![UNKNOWN, s]),
        ("cuMemFreeAsync", vec![t.host, s]),
        ("cuMemFreeAsync", vec![t.device + 1, s]),
        ("cuMemFreeAsync", vec![0, s]),
        ("cuMemFreeAsync", vec![0, 0x7777]),
        ("cuMemAllocAsync", vec![0, 64, s]),
        ("cuMemAllocAsync", vec![out, 64, 0x7777]),
        ("cuMemPoolDestroy", vec![default]),
        ("cuMemPrefetchAsync", vec![t.device, 64, 0, s]),
        ("cuMemPrefetchAsync", vec![UNKNOWN, 64, 0, s]),
        ("cuStreamAttachMemAsync", vec![s, t.device, 0, 1]),
    ]
}

/// Parameters of nodes, in words.
struct Nodes {
    kernel: [u64; 9],
    fill: [u64; 5],
    copy: [u64; 25],
}

/// Parameters of nodes with one mistake each, and the node's kind.
fn wrong_nodes(t: &Things, right: &Nodes) -> Vec<(&'static str, Vec<u64>)> {
    let d = t.device;
    let mut all = Vec::new();
    // Function, grid and block as pairs of numbers, shared memory, parameters, more.
    for (i, v) in [
        (0, 0),
        (0, 0x7777),
        (1, 0),
        (1, 1 | 65536 << 32),
        (2, 1),
        (2, 1 | 1025 << 32),
        (3, 1),
        (4, 1 << 20),
    ] {
        let mut p = right.kernel;
        p[i] = v;
        all.push(("Kernel", p.to_vec()));
    }
    // A kernel with parameters, of which there are none.
    let mut p = right.kernel;
    p[0] = t.other;
    all.push(("Kernel", p.to_vec()));
    // Address, pitch, value and size of an element, width, height; then with rows.
    for (i, v) in [
        (0, 0),
        (0, UNKNOWN),
        (0, t.end - 3),
        (2, 7 | 3 << 32),
        (2, 7),
        (3, 0),
        (4, 0),
        (4, 1000),
    ] {
        let mut p = right.fill;
        p[i] = v;
        all.push(("Memset", p.to_vec()));
    }
    // An element at an odd address, and rows closer than they are long.
    all.push(("Memset", vec![d + 1, 64, 7 | 4 << 32, 4, 1]));
    all.push(("Memset", vec![d, 8, 7 | 1 << 32, 9, 2]));
    all.push(("Memset", vec![d, 63, 7 | 4 << 32, 4, 2]));
    let device = |p| (2, p, 64);
    for b in [
        box_of(device(UNKNOWN), device(d + 512), 9, 2),
        box_of(device(d), device(UNKNOWN), 9, 2),
        box_of(device(d), device(d + 512), 9, 100),
        box_of((2, d, 8), device(d + 512), 9, 2),
        box_of((9, d, 64), device(d + 512), 9, 2),
        box_of((3, t.array, 0), device(d), 65, 2),
        box_of((3, 0x7777, 0), device(d), 64, 2),
    ] {
        all.push(("Memcpy", b.to_vec()));
    }
    all.push(("Host", vec![0, 0]));
    all
}

fn graphs(api: &Api, t: &Things) {
    println!("== graphs");
    let graph = api.made("cuGraphCreate", &[0]);
    let other = api.made("cuGraphCreate", &[0]);
    let right = Nodes {
        kernel: [
            t.kernel,
            1 | 1 << 32,
            1 | 1 << 32,
            1 | 1 << 32,
            0,
            0,
            0,
            0,
            0,
        ],
        fill: [t.device, 64, 7 | 1 << 32, 16, 1],
        copy: box_of((2, t.device, 64), (2, t.device + 512, 64), 16, 2),
    };
    // What stands at the end of the arguments of each kind.
    let last = |kind: &str| match kind {
        "Memset" | "Memcpy" => vec![t.context],
        _ => vec![],
    };
    let add = |graph: u64, kind: &str, mut p: Vec<u64>, after: &mut [u64]| {
        let (suffix, mut node) = (if kind == "Kernel" { "_v2" } else { "" }, 0u64);
        p.push(0);
        let list = if after.is_empty() {
            0
        } else {
            at(&mut after[0])
        };
        let mut args = vec![at(&mut node), graph, list, after.len() as u64];
        args.push(at(&mut p[0]));
        args.extend(last(kind));
        let rc = api.call(&format!("cuGraphAdd{kind}Node{suffix}"), &args);
        (rc, node)
    };
    let (_, kernel) = add(graph, "Kernel", right.kernel.to_vec(), &mut []);
    let (_, fill) = add(graph, "Memset", right.fill.to_vec(), &mut [kernel]);
    let (_, copy) = add(graph, "Memcpy", right.copy.to_vec(), &mut [fill]);
    let (_, elsewhere) = add(other, "Kernel", right.kernel.to_vec(), &mut []);
    println!("{}", [kernel, fill, copy, elsewhere].contains(&0));
    for (what, mut after) in [
        ("a node of another graph", vec![elsewhere]),
        ("the same twice", vec![kernel, kernel]),
        ("no node", vec![0]),
        ("a handle of nothing", vec![0x7777]),
    ] {
        let (rc, _) = add(graph, "Memset", right.fill.to_vec(), &mut after);
        println!("after {what}: {rc}");
    }
    let exec = api.made("cuGraphInstantiateWithFlags", &[graph, 0]);
    for (i, (kind, mut p)) in wrong_nodes(t, &right).into_iter().enumerate() {
        let (added, _) = add(graph, kind, p.clone(), &mut []);
        let node = match kind {
            "Kernel" => kernel,
            "Memset" => fill,
            _ => copy,
        };
        let suffix = if kind == "Kernel" { "_v2" } else { "" };
        let name = format!("cuGraph{kind}NodeSetParams{suffix}");
        let set = api.call(&name, &[node, at(&mut p[0])]);
        let name = format!("cuGraphExec{kind}NodeSetParams{suffix}");
        let mut args = vec![exec, node, at(&mut p[0])];
        args.extend(last(kind));
        let exec_set = api.call(&name, &args);
        let late = api.call("cuCtxSynchronize", &[]);
        println!("{i} {kind}: {added} {set} {exec_set} {late}");
    }
    // Right parameters for a node of another kind, and of another graph.
    let mut p = right.fill;
    for node in [kernel, elsewhere] {
        let args = [exec, node, at(&mut p), t.context];
        api.tell("cuGraphExecMemsetNodeSetParams", &args);
        api.tell("cuGraphMemsetNodeSetParams", &[node, at(&mut p)]);
    }
    api.tell(
        "cuGraphExecMemsetNodeSetParams",
        &[exec, fill, 0, t.context],
    );
    // What was refused changed nothing.
    api.tell("cuGraphLaunch", &[exec, t.stream]);
    api.tell("cuStreamSynchronize", &[t.stream]);
    let mut seen = [0u8; 4];
    api.tell("cuMemcpyDtoH_v2", &[at(&mut seen), t.device + 512, 4]);
    println!("{seen:?}");
}

/// Mistakes beside calls that are none, which leave memory where the program's others want none.
pub fn beside_calls(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    pitches(api);
    try_all(api, "rows", rows(api));
    try_all(api, "packed parameters", packed(api));
}

/// The program.
pub fn mistakes(api: &Api) {
    let context = api.made("cuCtxCreate_v2", &[0, 0]);
    // Width, height, format (bytes) and channels.
    let mut shape = [64u64, 4, 0x1 | 1 << 32];
    // Between pieces of memory that nobody has, so that what is behind its end is nobody's.
    let device = api.made("cuMemAlloc_v2", &[2 << 20]) + (2 << 20) - SIZE;
    let t = Things {
        stream: api.made("cuStreamCreate", &[1]),
        device,
        end: device + SIZE,
        event: api.made("cuEventCreate", &[2]),
        kernel: api.kernel("nop"),
        other: api.kernel("fill"),
        array: api.made("cuArrayCreate_v2", &[at(&mut shape)]),
        host: api.made("cuMemHostAlloc", &[SIZE, 0]),
        context,
    };
    try_all(api, "fills", fills(&t));
    try_all(api, "copies", copies(&t));
    try_all(api, "launches", launches(&t));
    try_all(api, "words", words(&t));
    try_all(api, "events and streams", events_and_streams(&t));
    try_all(api, "pools", pools(api, &t));
    graphs(api, &t);
    println!("done");
}
