//! Graphs, built by hand and captured.

mod common;

use common::{Driver, End3D, HostNode, KernelNode, Memcpy3D, MemsetNode, Params};
use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;

static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());

unsafe extern "C" fn note(user: *mut c_void) {
    ORDER.lock().unwrap().push(user.addr());
}

fn kernel(function: usize, params: &mut Params) -> KernelNode {
    let (params, extra) = (params.list(), ptr::null_mut());
    let (grid, block) = ([1; 3], [1; 3]);
    KernelNode {
        func: function,
        grid,
        block,
        shared: 0,
        params,
        extra,
        kern: 0,
        ctx: 0,
    }
}

fn graph(driver: &Driver) -> usize {
    let mut graph = 0;
    assert_eq!(driver.cuGraphCreate(&mut graph, 0), 0);
    graph
}

fn instantiate(driver: &Driver, graph: usize) -> usize {
    let mut exec = 0;
    assert_eq!(driver.cuGraphInstantiateWithFlags(&mut exec, graph, 0), 0);
    exec
}

fn node_count(driver: &Driver, graph: usize) -> usize {
    let mut n = 0;
    assert_eq!(driver.cuGraphGetNodes(graph, ptr::null_mut(), &mut n), 0);
    n
}

#[test]
fn a_built_graph_runs_in_its_order_and_again() {
    let driver = Driver::new();
    let live = driver.live();
    let module = driver.module();
    let (fill, reduce) = (
        driver.function(module, "fill_u32\0"),
        driver.function(module, "reduce\0"),
    );
    let (data, sum) = (driver.alloc(64), driver.alloc(8));
    let graph = graph(&driver);
    let (mut zero, mut first, mut last, mut child_node) = (0, 0, 0, 0);
    // The last is made first: only the edges say the order.
    let mut params = Params::new(&[sum, data, 16]);
    let node = kernel(reduce, &mut params);
    assert_eq!(
        driver.cuGraphAddKernelNode_v2(&mut last, graph, ptr::null(), 0, &node),
        0
    );
    let mut params = Params::new(&[data, 3, 8]);
    let node = kernel(fill, &mut params);
    assert_eq!(
        driver.cuGraphAddKernelNode_v2(&mut first, graph, ptr::null(), 0, &node),
        0
    );
    let set = MemsetNode {
        dst: data,
        pitch: 0,
        value: 1,
        element: 4,
        width: 16,
        height: 1,
    };
    assert_eq!(
        driver.cuGraphAddMemsetNode(&mut zero, graph, ptr::null(), 0, &set, 0),
        0
    );
    let child = self::graph(&driver);
    let set = MemsetNode {
        dst: data + 60,
        pitch: 0,
        value: 100,
        element: 4,
        width: 1,
        height: 1,
    };
    assert_eq!(
        driver.cuGraphAddMemsetNode(&mut 0, child, ptr::null(), 0, &set, 0),
        0
    );
    let code = driver.cuGraphAddChildGraphNode(&mut child_node, graph, &first, 1, child);
    assert_eq!(code, 0);
    let (from, to) = ([zero, child_node], [first, last]);
    assert_eq!(
        driver.cuGraphAddDependencies(graph, from.as_ptr(), to.as_ptr(), 2),
        0
    );
    assert_eq!(
        driver.cuGraphAddDependencies(graph, from.as_ptr(), to.as_ptr(), 1),
        1,
        "again"
    );
    assert_eq!(node_count(&driver, graph), 4);
    let mut kind = 9;
    assert_eq!(
        (driver.cuGraphNodeGetType(child_node, &mut kind), kind),
        (0, 4)
    );

    let exec = instantiate(&driver, graph);
    let stream = driver.stream(1);
    for _ in 0..3 {
        assert_eq!(driver.cuGraphLaunch(exec, stream), 0);
    }
    assert_eq!(driver.cuStreamSynchronize(stream), 0);
    assert_eq!(driver.read(sum, 1), [8 * 3 + 7 + 100]);

    let mut params = Params::new(&[data, 5, 8]);
    let node = kernel(fill, &mut params);
    assert_eq!(
        driver.cuGraphExecKernelNodeSetParams_v2(exec, first, &node),
        0
    );
    assert_eq!(
        driver.cuGraphExecKernelNodeSetParams_v2(exec, zero, &node),
        1,
        "a memset node"
    );
    assert_eq!(driver.cuGraphLaunch(exec, stream), 0);
    assert_eq!(driver.cuStreamSynchronize(stream), 0);
    assert_eq!(driver.read(sum, 1), [8 * 5 + 7 + 100]);
    let mut info = [7; 3];
    assert_eq!(driver.cuGraphExecUpdate_v2(exec, graph, &mut info), 0);
    assert_eq!(driver.cuGraphLaunch(exec, stream), 0);
    assert_eq!(driver.cuStreamSynchronize(stream), 0);
    assert_eq!(
        driver.read(sum, 1),
        [8 * 3 + 7 + 100],
        "back to the graph's own"
    );
    assert_eq!(driver.cuGraphExecUpdate_v2(exec, child, &mut info), 910);

    assert_eq!(driver.cuGraphDestroy(graph), 0);
    assert_eq!(driver.cuGraphDestroy(graph), 1);
    assert_eq!(driver.cuGraphDestroy(child), 0);
    assert_eq!(
        driver.cuGraphLaunch(exec, stream),
        0,
        "what was instantiated lives on"
    );
    assert_eq!(driver.cuGraphExecDestroy(exec), 0);
    assert_eq!(driver.cuGraphLaunch(exec, stream), 1);
    assert_eq!(driver.cuStreamDestroy_v2(stream), 0);
    assert_eq!(driver.cuModuleUnload(module), 0);
    assert_eq!(
        (driver.cuMemFree_v2(data), driver.cuMemFree_v2(sum)),
        (0, 0)
    );
    assert_eq!(driver.live(), live);
}

#[test]
fn a_ring_cannot_be_instantiated() {
    let driver = Driver::new();
    let graph = graph(&driver);
    let (mut a, mut b) = (0, 0);
    assert_eq!(driver.cuGraphAddEmptyNode(&mut a, graph, ptr::null(), 0), 0);
    assert_eq!(driver.cuGraphAddEmptyNode(&mut b, graph, &a, 1), 0);
    assert_eq!(driver.cuGraphAddDependencies(graph, &b, &a, 1), 0);
    assert_eq!(driver.cuGraphInstantiateWithFlags(&mut 0, graph, 0), 1);
    assert_eq!(
        driver.cuGraphAddEmptyNode(&mut b, graph, &77, 1),
        1,
        "no such node"
    );
}

#[test]
fn host_nodes_run_after_what_they_depend_on() {
    let driver = Driver::new();
    let graph = graph(&driver);
    let host = |tag| HostNode {
        f: note,
        user: ptr::without_provenance_mut(tag),
    };
    let (mut a, mut b) = (0, 0);
    assert_eq!(
        driver.cuGraphAddHostNode(&mut b, graph, ptr::null(), 0, &host(2)),
        0
    );
    assert_eq!(
        driver.cuGraphAddHostNode(&mut a, graph, ptr::null(), 0, &host(1)),
        0
    );
    assert_eq!(driver.cuGraphAddDependencies(graph, &a, &b, 1), 0);
    let exec = instantiate(&driver, graph);
    assert_eq!(driver.cuGraphLaunch(exec, 0), 0);
    assert_eq!(driver.cuCtxSynchronize(), 0);
    assert_eq!(*ORDER.lock().unwrap(), [1, 2]);
}

#[test]
fn a_capture_forks_and_joins() {
    let driver = Driver::new();
    let module = driver.module();
    let (fill, reduce) = (
        driver.function(module, "fill_u32\0"),
        driver.function(module, "reduce\0"),
    );
    let (data, sum) = (driver.alloc(64), driver.alloc(8));
    let (main, side) = (driver.stream(1), driver.stream(1));
    let (fork, join) = (driver.event(), driver.event());
    assert_eq!(driver.cuStreamBeginCapture_v2(main, 0), 0);
    assert_eq!(driver.cuMemsetD32Async(data, 1, 16, main), 0);
    assert_eq!(driver.cuEventRecord(fork, main), 0);
    assert_eq!(driver.cuStreamWaitEvent(side, fork, 0), 0);
    let mut status = 0;
    assert_eq!(
        (driver.cuStreamIsCapturing(side, &mut status), status),
        (0, 1)
    );
    assert_eq!(driver.launch(fill, side, &[data, 2, 8]), 0);
    assert_eq!(driver.launch(fill, main, &[data + 32, 3, 4]), 0);
    assert_eq!(driver.cuEventRecord(join, side), 0);
    assert_eq!(driver.cuStreamWaitEvent(main, join, 0), 0);
    assert_eq!(driver.launch(reduce, main, &[sum, data, 16]), 0);
    let mut graph = 0;
    assert_eq!(
        driver.cuStreamEndCapture(side, &mut graph),
        903,
        "not where it began"
    );

    // The wrong end spoiled that capture; do it again, rightly.
    assert_eq!(driver.cuStreamEndCapture(main, &mut graph), 901);
    assert_eq!(graph, 0);
    assert_eq!(driver.cuStreamBeginCapture_v2(main, 0), 0);
    assert_eq!(driver.cuMemsetD32Async(data, 1, 16, main), 0);
    assert_eq!(driver.cuEventRecord(fork, main), 0);
    assert_eq!(driver.cuStreamWaitEvent(side, fork, 0), 0);
    assert_eq!(driver.launch(fill, side, &[data, 2, 8]), 0);
    assert_eq!(driver.launch(fill, main, &[data + 32, 3, 4]), 0);
    assert_eq!(driver.cuEventRecord(join, side), 0);
    assert_eq!(driver.cuStreamWaitEvent(main, join, 0), 0);
    assert_eq!(driver.launch(reduce, main, &[sum, data, 16]), 0);
    assert_eq!(driver.cuStreamEndCapture(main, &mut graph), 0);
    assert_eq!(driver.stat(1), 0, "a capture runs nothing");
    assert_eq!(node_count(&driver, graph), 4);
    assert_eq!(
        (driver.cuStreamIsCapturing(side, &mut status), status),
        (0, 0)
    );
    let exec = instantiate(&driver, graph);
    assert_eq!(driver.cuGraphLaunch(exec, main), 0);
    assert_eq!(driver.cuStreamSynchronize(main), 0);
    assert_eq!(driver.read(sum, 1), [8 * 2 + 4 * 3 + 4]);
}

#[test]
fn a_capture_that_goes_wrong_says_so() {
    let driver = Driver::new();
    let (a, b, event, out) = (
        driver.stream(1),
        driver.stream(0),
        driver.event(),
        driver.alloc(4),
    );
    let graphs = driver.stat(8);
    let mut graph = 0;
    assert_eq!(
        driver.cuStreamBeginCapture_v2(0, 0),
        900,
        "the legacy stream"
    );
    assert_eq!(driver.cuStreamEndCapture(a, &mut graph), 401, "not begun");

    let begin = |stream| assert_eq!(driver.cuStreamBeginCapture_v2(stream, 0), 0);
    begin(a);
    assert_eq!(driver.cuStreamBeginCapture_v2(a, 0), 401, "begun already");
    assert_eq!(driver.cuStreamSynchronize(a), 900);
    assert_eq!(driver.cuMemsetD32Async(out, 1, 1, a), 901);
    assert_eq!(driver.cuStreamEndCapture(a, &mut graph), 901);

    begin(a);
    assert_eq!(driver.cuMemAlloc_v2(&mut 0, 16), 900, "an unsafe call");
    assert_eq!(driver.cuStreamEndCapture(a, &mut graph), 901);

    begin(b);
    assert_eq!(
        driver.cuMemsetD32Async(out, 1, 1, 0),
        906,
        "the legacy stream would wait for it"
    );
    assert_eq!(driver.cuStreamEndCapture(b, &mut graph), 901);

    begin(a);
    assert_eq!(driver.cuEventRecord(event, a), 0);
    assert_eq!(driver.cuStreamWaitEvent(b, event, 0), 0);
    assert_eq!(driver.cuMemsetD32Async(out, 1, 1, b), 0);
    assert_eq!(driver.cuStreamEndCapture(a, &mut graph), 904, "not joined");
    assert_eq!(driver.cuMemsetD32Async(out, 1, 1, b), 0);
    assert_eq!(
        driver.cuStreamSynchronize(b),
        0,
        "the stream is a stream again"
    );

    begin(a);
    assert_eq!(driver.cuEventRecord(event, a), 0);
    assert_eq!(driver.cuEventQuery(event), 907);
    assert_eq!(driver.cuStreamEndCapture(a, &mut graph), 901);
    assert_eq!(driver.stat(8), graphs, "failed captures leave no graph");
}

#[test]
fn a_capture_ends_with_the_stream_that_it_began_in() {
    let driver = Driver::new();
    let (graphs, event, other) = (driver.stat(8), driver.event(), driver.stream(1));
    let begun = |driver: &Driver, event| {
        let stream = driver.stream(1);
        assert_eq!(driver.cuStreamBeginCapture_v2(stream, 0), 0);
        assert_eq!(driver.cuEventRecord(event, stream), 0);
        assert_eq!(driver.cuStreamWaitEvent(other, event, 0), 0);
        stream
    };
    // A captured stream is destroyed, and then a context with captured streams.
    let stream = begun(&driver, event);
    assert_eq!(driver.cuStreamDestroy_v2(stream), 0);
    let out = driver.alloc(4);
    assert_eq!(driver.cuMemsetD32Async(out, 1, 1, other), 0);
    assert_eq!(driver.cuStreamSynchronize(other), 0);
    // The event stands for nothing that other work could wait for.
    assert_eq!(driver.cuStreamWaitEvent(other, event, 0), 907);
    assert_eq!(driver.cuMemsetD32Async(out, 2, 1, other), 0, "not captured");

    let (mut context, mut status) = (0, 0);
    assert_eq!(driver.cuCtxCreate_v2(&mut context, 0, 0), 0);
    let event = driver.event();
    begun(&driver, event);
    assert_eq!(driver.cuStreamIsCapturing(other, &mut status), 0);
    assert_eq!(status, 1);
    assert_eq!(driver.cuCtxDestroy_v2(context), 0);
    assert_eq!(driver.cuMemAlloc_v2(&mut 0, 16), 0);
    assert_eq!(driver.cuStreamSynchronize(other), 0);
    assert_eq!(
        driver.stat(8),
        graphs,
        "captures that ended so leave no graph"
    );
}

#[test]
fn a_failed_kernel_in_a_graph_breaks_the_context() {
    let driver = Driver::new();
    let trap = driver.function(driver.module(), "trap\0");
    let stream = driver.stream(1);
    let mut graph = 0;
    assert_eq!(driver.cuStreamBeginCapture_v2(stream, 2), 0);
    assert_eq!(driver.launch(trap, stream, &[]), 0);
    assert_eq!(driver.cuStreamEndCapture(stream, &mut graph), 0);
    let exec = instantiate(&driver, graph);
    assert_eq!(driver.cuGraphLaunch(exec, stream), 0);
    assert_eq!(driver.cuStreamSynchronize(stream), 719);
}

#[test]
fn questions_do_not_spoil_a_capture() {
    let driver = Driver::new();
    let stream = driver.stream(0);
    let (mut status, mut graph) = (0, 0);
    assert_eq!(driver.cuStreamBeginCapture_v2(stream, 0), 0);
    assert_eq!(
        driver.cuStreamIsCapturing(0, &mut status),
        906,
        "of the legacy stream"
    );
    assert_eq!(
        (driver.cuStreamIsCapturing(stream, &mut status), status),
        (0, 1)
    );
    assert_eq!(driver.cuStreamEndCapture(stream, &mut graph), 0);
    assert_eq!(node_count(&driver, graph), 0);
}

#[test]
fn a_node_can_be_left_out() {
    let driver = Driver::new();
    let (graph, out) = (graph(&driver), driver.alloc(4));
    let (mut first, mut second) = (0, 0);
    let set = |value| MemsetNode {
        dst: out,
        pitch: 0,
        value,
        element: 4,
        width: 1,
        height: 1,
    };
    assert_eq!(
        driver.cuGraphAddMemsetNode(&mut first, graph, ptr::null(), 0, &set(1), 0),
        0
    );
    assert_eq!(
        driver.cuGraphAddMemsetNode(&mut second, graph, &first, 1, &set(2), 0),
        0
    );
    let exec = instantiate(&driver, graph);
    for (enabled, value) in [(0, 1), (1, 2)] {
        assert_eq!(driver.cuGraphNodeSetEnabled(exec, second, enabled), 0);
        assert_eq!(driver.cuGraphLaunch(exec, 0), 0);
        assert_eq!(driver.read(out, 1), [value]);
    }
    assert_eq!(driver.cuGraphNodeSetEnabled(exec, graph, 0), 1, "no node");
}

#[test]
fn copies_are_nodes_too() {
    let driver = Driver::new();
    let (graph, a, b) = (graph(&driver), driver.alloc(64), driver.alloc(64));
    driver.write(a, &[9; 16]);
    let end = |device| End3D {
        kind: 2,
        device,
        ..End3D::default()
    };
    let mut copy = Memcpy3D {
        src: end(a),
        dst: end(b),
        width: 64,
        height: 1,
        depth: 1,
    };
    assert_eq!(
        driver.cuGraphAddMemcpyNode(&mut 0, graph, ptr::null(), 0, &copy, 0),
        0
    );
    copy.width = 65;
    assert_eq!(
        driver.cuGraphAddMemcpyNode(&mut 0, graph, ptr::null(), 0, &copy, 0),
        1
    );
    let exec = instantiate(&driver, graph);
    assert_eq!(driver.cuGraphLaunch(exec, 0), 0);
    assert_eq!(driver.read(b, 16), [9; 16]);

    // A captured copy reads its source when the graph runs.
    let (stream, mut captured, source) = (driver.stream(1), 0, Box::leak(Box::new([1_u32])));
    let from = source.as_ptr().cast();
    assert_eq!(driver.cuStreamBeginCapture_v2(stream, 0), 0);
    assert_eq!(driver.cuMemcpyHtoDAsync_v2(b, from, 4, stream), 0);
    assert_eq!(
        driver.cuMemcpyHtoD_v2(b, from, 4),
        0,
        "the legacy stream is not in it"
    );
    assert_eq!(driver.cuStreamEndCapture(stream, &mut captured), 0);
    source[0] = 2;
    let exec = instantiate(&driver, captured);
    assert_eq!(driver.cuGraphLaunch(exec, stream), 0);
    assert_eq!(driver.cuStreamSynchronize(stream), 0);
    assert_eq!(driver.read(b, 1), [2]);
}

static ENDED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

unsafe extern "C" fn ended(user: *mut c_void) {
    ENDED.lock().unwrap().push(user.addr());
}

#[test]
fn a_user_object_lives_as_long_as_the_graphs_that_hold_it() {
    let driver = Driver::new();
    let (graph, mut object) = (graph(&driver), 0);
    let value = ptr::without_provenance_mut(5);
    assert_eq!(
        driver.cuUserObjectCreate(&mut object, value, ended, 1, 1),
        0
    );
    assert_eq!(driver.cuGraphRetainUserObject(graph, object, 1, 1), 0);
    let exec = instantiate(&driver, graph);
    assert_eq!(driver.cuGraphDestroy(graph), 0);
    assert!(
        ENDED.lock().unwrap().is_empty(),
        "the executable graph holds it"
    );
    assert_eq!(driver.cuGraphExecDestroy(exec), 0);
    assert_eq!(*ENDED.lock().unwrap(), [5]);
}
