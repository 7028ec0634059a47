//! Lives of objects at a worker: what a client says is dead, and what dies with it, no record
//! reaches any more; what lives, no record ends from aside.

use busbar_e2e::driver::IMAGE;
use busbar_e2e::hostile::Raw;
use busbar_e2e::proc;
use busbar_e2e::server::{Options, Server};
use busbar_e2e::until;
use busbar_wire::codec::{Message, Reader};
use busbar_wire::generated::cuda::*;
use busbar_wire::promise::Word;

const INVALID_HANDLE: i32 = 400;
const HOST: u32 = 3;
const GRAPH: u32 = 4;

/// A `CUgraphNodeParams` of a kind, with this first word.
fn params(kind: u32, word: u64) -> Vec<u8> {
    let mut p = vec![0; 256];
    p[..4].copy_from_slice(&kind.to_le_bytes());
    p[16..24].copy_from_slice(&word.to_le_bytes());
    p
}

fn word(params: &[u8]) -> u64 {
    u64::from_le_bytes(params[16..24].try_into().expect("eight bytes"))
}

fn add(w: &mut Raw, graph: u32, node: u32, params: &[u8]) {
    let m = GraphAddNode {
        node,
        graph,
        kind: u32::from_le_bytes(params[..4].try_into().expect("four bytes")),
        after: vec![],
        edges: &[],
        params,
        extra: &[],
        mirrors: [0; 2],
    };
    assert_eq!(w.call(1, &m).0, 0);
}

/// The first word of a node's parameters, or the error.
fn get(w: &mut Raw, node: u32, kind: u32) -> Result<u64, i32> {
    let (rc, reply) = w.call(1, &GraphGetNode { node, kind });
    if rc != 0 {
        return Err(rc);
    }
    let r = GraphGetNodeReply::decode(&mut Reader::new(&reply)).expect("a reply");
    Ok(word(r.params))
}

fn graph(w: &mut Raw, ph_graph: u32) {
    assert_eq!(w.call(1, &CuGraphCreate { ph_graph, flags: 0 }).0, 0);
}

fn nodes(w: &mut Raw, graph: u32) -> Result<Vec<u32>, i32> {
    let (rc, reply) = w.call(1, &GraphNodes { graph, roots: 0 });
    if rc != 0 {
        return Err(rc);
    }
    let r = GraphNodesReply::decode(&mut Reader::new(&reply)).expect("a reply");
    Ok(r.nodes)
}

/// The tokens that the worker says are gone.
fn gone(w: &Raw) -> Vec<u64> {
    let words = w.callbacks.iter().filter(|c| c.0 == Word::Gone as i32);
    let mut all: Vec<_> = words
        .map(|(_, p)| u64::from_le_bytes(p[..8].try_into().expect("a token")))
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn what_a_node_needs_lives_as_long_as_the_graph_that_it_is_in() {
    let server = Server::start();
    let mut w = Raw::open(&server.address);
    graph(&mut w, 1);
    graph(&mut w, 2);
    add(&mut w, 1, 1, &params(HOST, 7));
    let set = GraphSetNode {
        node: 1,
        params: &params(HOST, 8),
        extra: &[],
        mirrors: [0; 2],
    };
    assert_eq!(w.call(1, &set).0, 0);
    // The record that named a graph for it is not there any more: any other graph may go.
    assert_eq!(w.call(1, &CuGraphDestroy { h_graph: 2 }).0, 0);
    assert_eq!(get(&mut w, 1, HOST), Ok(8));
    assert!(gone(&w).is_empty());
    assert_eq!(w.call(1, &CuGraphDestroy { h_graph: 1 }).0, 0);
    assert_eq!(get(&mut w, 1, HOST), Err(INVALID_HANDLE));
    assert_eq!(gone(&w), [7, 8], "the client hears of every token");
}

/// Where a `CUDA_MEMCPY3D` has the kind of its source, and of its destination.
const FROM: usize = 32;
const TO: usize = 120;

/// A copy of 8 by 1 by 1 bytes from or to device memory at an address.
fn shape(end: usize, address: u64) -> [u8; 200] {
    let mut shape = [0u8; 200];
    for (at, value) in [(end, 2), (176, 8), (184, 1), (192, 1)] {
        shape[at] = value;
    }
    shape[end + 16..end + 24].copy_from_slice(&address.to_le_bytes());
    shape
}

#[test]
fn a_token_that_is_not_taken_is_gone_at_once() {
    let server = Server::start();
    let mut w = Raw::open(&server.address);
    for (token, kind) in [(1, 0), (2, 1), (3, 2)] {
        // No such stream.
        let m = HostFunction {
            stream: 99,
            kind,
            token,
        };
        w.queue(1, &m);
    }
    // No such place.
    let shape = shape(TO, 1);
    let later = CopyInLater {
        shape: &shape,
        array: 0,
        stream: 0,
        token: 4,
    };
    w.queue(1, &later);
    let set = GraphSetNode {
        node: 99,
        params: &params(HOST, 5),
        extra: &[],
        mirrors: [0; 2],
    };
    assert_eq!(w.call(1, &set).0, INVALID_HANDLE);
    assert_eq!(gone(&w), [1, 2, 3, 4, 5]);
}

/// A graph that copies from or to memory of the worker's would find it gone, or another's, when it
/// is launched.
#[test]
fn a_capture_takes_in_nothing_that_uses_memory_of_the_workers() {
    const UNSUPPORTED: i32 = 900;
    let server = Server::start();
    let mut w = Raw::open(&server.address);
    let va = contract::span(0).start;
    let map = MemMapAt {
        va,
        size: 2 << 20,
        device: 0,
    };
    assert_eq!(w.call(1, &map).0, 0);
    let create = CuStreamCreate {
        ph_stream: 1,
        flags: 1,
    };
    assert_eq!(w.call(1, &create).0, 0);
    let data = &[7; 4096][..];
    let (from, to) = (shape(FROM, va), shape(TO, va));
    let (dst, stream, array) = (va, 1, 0);
    let (place, pad, token, len) = (1, 0, 4, 8);
    let all = |w: &mut Raw| {
        let shape = &to;
        let mut said = vec![
            w.call(
                1,
                &CopyIn {
                    dst,
                    stream,
                    pad,
                    data,
                },
            )
            .0,
            w.call(
                1,
                &CopyInKept {
                    dst,
                    stream,
                    place,
                    data,
                },
            )
            .0,
            w.call(1, &CopyInAgain { dst, stream, place }).0,
            w.call(
                1,
                &CopyOut {
                    src: va,
                    len,
                    stream,
                },
            )
            .0,
        ];
        let rows = CopyInRows {
            shape,
            array,
            stream,
            data: &data[..8],
        };
        said.push(w.call(1, &rows).0);
        let rows = CopyOutRows {
            shape: &from,
            array,
            len,
            stream,
        };
        said.push(w.call(1, &rows).0);
        said
    };
    let begin = CuStreamBeginCaptureV2 {
        h_stream: 1,
        mode: 2,
    };
    assert_eq!(all(&mut w), [0; 6]);
    assert_eq!(w.call(1, &begin).0, 0);
    assert_eq!(all(&mut w), [UNSUPPORTED; 6]);
    let shape = &to;
    let later = CopyInLater {
        shape,
        array,
        stream,
        token,
    };
    assert_eq!(w.call(1, &later).0, UNSUPPORTED);
    assert_eq!(w.call(1, &StreamGate { stream, token: 5 }).0, UNSUPPORTED);
    assert_eq!(gone(&w), [4, 5]);
    assert_eq!(w.call(1, &CaptureEnd { stream, graph: 1 }).0, 0);
    assert_eq!(nodes(&mut w, 1), Ok(vec![]), "nothing was captured");
    assert_eq!(all(&mut w), [0; 6]);
}

#[test]
fn a_graph_inside_a_node_dies_with_it() {
    let server = Server::start();
    let mut w = Raw::open(&server.address);
    graph(&mut w, 1);
    graph(&mut w, 2);
    add(&mut w, 2, 1, &params(HOST, 7));
    add(&mut w, 1, 2, &params(GRAPH, 2));
    let inner = get(&mut w, 2, GRAPH).expect("a graph") as u32;
    let inside = nodes(&mut w, inner).expect("its nodes");
    assert_eq!(get(&mut w, inside[0], HOST), Ok(7));
    assert_eq!(w.call(1, &CuGraphDestroyNode { h_node: 2 }).0, 0);
    assert_eq!(get(&mut w, inside[0], HOST), Err(INVALID_HANDLE));
    assert_eq!(nodes(&mut w, inner), Err(INVALID_HANDLE));
    // The graph that it was a copy of lives.
    assert_eq!(get(&mut w, 1, HOST), Ok(7));
}

/// Loads a module, and finds a function of it.
fn module(w: &mut Raw, context: u32, module: u32, function: u32) {
    let hash = w.content(IMAGE.as_bytes());
    let load = ModuleLoad {
        module,
        hash,
        options: &[],
    };
    assert_eq!(w.call(context, &load).0, 0);
    let find = ModuleFunction {
        module,
        name: "nop",
        function,
    };
    assert_eq!(w.call(context, &find).0, 0);
}

fn launched(function: u32, stream: u32) -> LaunchNow<'static> {
    LaunchNow {
        function,
        stream,
        grid: [1; 3],
        block: [1; 3],
        shared: 0,
        flags: 0,
        attrs: &[],
        params: &[],
    }
}

fn launch(w: &mut Raw, context: u32, function: u32, stream: u32) -> i32 {
    w.call(context, &launched(function, stream)).0
}

#[test]
fn a_module_takes_its_functions_along() {
    let server = Server::start();
    let mut w = Raw::open(&server.address);
    module(&mut w, 1, 1, 1);
    module(&mut w, 1, 2, 2);
    assert_eq!(launch(&mut w, 1, 1, 0), 0);
    w.queue(1, &ModuleUnload { module: 1 });
    assert_eq!(launch(&mut w, 1, 1, 0), INVALID_HANDLE);
    assert_eq!(launch(&mut w, 1, 2, 0), 0, "another module's lives");
}

#[test]
fn a_context_takes_along_what_was_made_in_it() {
    let server = Server::start();
    let mut w = Raw::open(&server.address);
    let create = ContextCreate {
        context: 5,
        device: 0,
        flags: 0,
    };
    assert_eq!(w.call(0, &create).0, 0);
    for (context, id) in [(1, 1), (5, 2)] {
        let (ph_stream, ph_event, flags) = (id, id, 0);
        assert_eq!(w.call(context, &CuStreamCreate { ph_stream, flags }).0, 0);
        assert_eq!(w.call(context, &CuEventCreate { ph_event, flags }).0, 0);
        module(&mut w, context, id, id);
        assert_eq!(launch(&mut w, context, id, id), 0);
    }
    w.queue(5, &ContextDestroy { context: 5 });
    // Whatever context is current: the dead one, another, none.
    for context in [5, 1, 0] {
        let query = CuStreamQuery { h_stream: 2 };
        assert_eq!(w.call(context, &query).0, INVALID_HANDLE);
        let query = CuEventQuery { h_event: 2 };
        assert_eq!(w.call(context, &query).0, INVALID_HANDLE);
        assert_eq!(launch(&mut w, context, 2, 0), INVALID_HANDLE);
    }
    assert_eq!(launch(&mut w, 1, 1, 1), 0, "the other context's live");
    assert_eq!(w.call(1, &CuEventQuery { h_event: 1 }).0, 0);
    // An id that comes again is another object.
    assert_eq!(w.call(0, &create).0, 0);
    assert_eq!(w.call(5, &CuEventQuery { h_event: 2 }).0, INVALID_HANDLE);
}

#[test]
fn waits_without_number_make_no_threads_without_number() {
    const WAITS: usize = 600;
    let server = Server::start();
    let mut w = Raw::open(&server.address);
    w.obliging = false;
    let blocked = HostFunction {
        stream: 0,
        kind: 0,
        token: 1,
    };
    w.queue(1, &blocked);
    for _ in 0..WAITS {
        w.ask(1, &CuStreamSynchronize { h_stream: 0 });
    }
    // What is executed behind them shows that they have been.
    assert_eq!(
        w.call(
            1,
            &CuGraphCreate {
                ph_graph: 1,
                flags: 0
            }
        )
        .0,
        0
    );
    let workers = proc::children(server.pid());
    let most = workers.iter().map(|p| proc::threads(*p)).max();
    assert!(most.is_some_and(|n| n < 200), "{most:?} threads");
    // The function returns, and all of them are over.
    let asked = w.callbacks.iter().filter(|c| c.0 == Word::Run as i32);
    assert_eq!(asked.count(), 1);
    w.returns();
    w.answers(WAITS);
}

#[test]
fn what_was_queued_before_a_goodbye_is_done_however_long_it_takes() {
    let live = tempfile::tempdir().expect("a folder");
    let server = Options::default()
        .writes("FAKEDEV_LIVE", live.path())
        .env("FAKEDEV_LAUNCH_NS", "20000000")
        .start();
    let mut w = Raw::open(&server.address);
    let worker = &server.wait_for_sessions(1)[0]["worker_pid"];
    let counts = live.path().join(worker.to_string());
    let left = |kind: &str| {
        let text = std::fs::read_to_string(&counts).expect("a file of counts");
        let all: serde_json::Value = serde_json::from_str(&text).expect("counts");
        all[kind].as_u64().unwrap_or(0)
    };
    module(&mut w, 1, 1, 1);
    let before = left("modules");
    for _ in 0..100 {
        w.queue(1, &launched(1, 0));
    }
    w.queue(1, &ModuleUnload { module: 1 });
    w.goodbye();
    until("the session's end", || {
        server.log().contains("session ended").then_some(())
    });
    assert_eq!((before, left("modules")), (1, 0));
    assert!(!server.log().contains("left undone"));
}
