//! Messages of graphs.
//!
//! Parameters of a node travel as a `CUgraphNodeParams` with ids in place of handles. `extra` is what
//! its pointers point to: packed kernel parameters, access descriptions, memory operations. A
//! *mirror* is page-locked memory at the worker that stands for a box of the program's memory in a
//! copy node; `mirrors` names those of the source and the destination, 0 for none.

/// Adds a node of a kind to a graph. Some kinds tell something: an address, or the graphs inside.
// What graphs are made of, a thousand at a time. Of the rest not all is taken: not every graph can be
// part of another, nor every memory be freed.
#[id(0x8100)] #[message] #[family(graph)]
#[queued_if(matches!(kind, CU_GRAPH_NODE_TYPE_KERNEL | CU_GRAPH_NODE_TYPE_MEMCPY
    | CU_GRAPH_NODE_TYPE_MEMSET | CU_GRAPH_NODE_TYPE_HOST | CU_GRAPH_NODE_TYPE_EMPTY))]
#[creates(GraphNode, node)] #[names(Graph, graphs)] #[child_of(GraphNode, node)]
fn GraphAddNode(node: u32, graph: u32, kind: u32, after: U32s, edges: Bytes, params: Bytes, extra: Bytes, mirrors: [u32; 2]) -> (va: u64, graphs: U32s);

// 0x8102 let the client say whose node it is.
/// Changes a node of a graph.
#[id(0x811b)] #[message] #[waits] #[family(graph)]
#[changes(GraphNode, node, "parameters")]
fn GraphSetNode(node: u32, params: Bytes, extra: Bytes, mirrors: [u32; 2]);

// 0x8103 always waited.
/// Changes a node of an executable graph, and says which mirrors it now reads and writes; nothing if
/// it differs from an `earlier` change of the node in nothing that a driver looks at. Libraries
/// that keep graphs change each node before each launch.
#[id(0x811c)] #[message] #[family(graph)]
#[queued_if(earlier != 0)]
#[changes(GraphExec, exec, "parameters of a node")]
fn GraphExecSetNode(exec: u32, node: u32, earlier: u32, params: Bytes, extra: Bytes, mirrors: [u32; 2]) -> (sources: U32s, destinations: U32s);

/// The parameters of a node.
#[id(0x8104)] #[message] #[waits] #[family(graph)]
fn GraphGetNode(node: u32, kind: u32) -> (params: Bytes, extra: Bytes, mirrors: [u32; 2]);

/// The nodes of a graph, or its root nodes.
#[id(0x8105)] #[message] #[waits] #[family(graph)]
#[names(GraphNode, nodes)]
fn GraphNodes(graph: u32, roots: u32) -> (nodes: U32s);

/// The edges of a graph.
#[id(0x8106)] #[message] #[waits] #[family(graph)]
#[names(GraphNode, from)] #[names(GraphNode, to)]
fn GraphEdges(graph: u32) -> (from: U32s, to: U32s, edges: Bytes);

/// The nodes before a node, or those behind it.
#[id(0x8107)] #[message] #[waits] #[family(graph)]
#[names(GraphNode, nodes)]
fn GraphNeighbours(node: u32, dependents: u32) -> (nodes: U32s, edges: Bytes);

/// A node's likeness in a clone of its graph.
#[id(0x8108)] #[message] #[waits] #[family(graph)]
#[names(GraphNode, found)]
fn GraphFind(node: u32, graph: u32) -> (found: u32);

/// Makes an executable graph. `handle` is the driver's own, for one that kernels may launch; else 0.
/// One that `keeps` memory which it allocates cannot be launched again before that is freed.
#[id(0x8109)] #[message] #[waits] #[family(graph)]
#[creates(GraphExec, exec)] #[names(GraphNode, node)]
fn GraphInstantiate(exec: u32, graph: u32, flags: u64, stream: u32) -> (result: u32, node: u32, handle: u64, keeps: u32, sources: U32s, destinations: U32s);

/// Changes an executable graph to what a graph now says.
#[id(0x810a)] #[message] #[waits] #[family(graph)]
#[changes(GraphExec, exec, "all of it")] #[names(GraphNode, node)] #[names(GraphNode, from)]
fn GraphExecUpdate(exec: u32, graph: u32) -> (result: u32, node: u32, from: u32, sources: U32s, destinations: U32s);

/// A graph as text for graphviz.
#[id(0x810b)] #[message] #[waits] #[family(graph)]
fn GraphDot(graph: u32, flags: u32) -> (text: Bytes);

/// Reads or sets an attribute of a device's memory for graphs.
#[id(0x810c)] #[message] #[waits] #[family(graph)]
#[changes(Device, "attribute of memory for graphs")]
fn GraphMemAttribute(device: i32, attribute: u32, set: u32, value: u64) -> (present: u64);

/// Ends a capture. The graph may have an id already; else it gets `graph`.
#[id(0x810d)] #[message] #[waits] #[family(stream)]
#[creates(Graph, graph)] #[names(Graph, actual)] #[changes(Stream, "capture")]
fn CaptureEnd(stream: u32, graph: u32) -> (actual: u32);

/// Begins a capture into a graph that is there.
#[id(0x810e)] #[message] #[waits] #[family(stream)]
#[changes(Stream, "capture")]
fn CaptureToGraph(stream: u32, graph: u32, after: U32s, edges: Bytes, mode: u32);

/// Changes what a capturing stream's next node depends on.
#[id(0x810f)] #[message] #[waits] #[family(stream)]
#[changes(Stream, "capture")]
fn CaptureUpdate(stream: u32, after: U32s, edges: Bytes, flags: u32);

/// A copy with host memory on a stream that may be capturing; `captured` says whether it was.
#[id(0x8110)] #[message] #[waits] #[family(graph)]
fn CaptureCopy(shape: Bytes, arrays: [u32; 2], mirrors: [u32; 2], stream: u32) -> (captured: u32);

/// Bytes for a mirror, in stream order.
#[id(0x8111)] #[message] #[queued] #[family(graph)]
fn MirrorIn(mirror: u32, stream: u32, offset: u64, data: Rest);

/// The bytes of a mirror once the stream has come so far, unless the last launch of `exec` failed.
#[id(0x8112)] #[message] #[waits] #[family(graph)]
fn MirrorOut(exec: u32, mirror: u32, stream: u32);

// 0x8113 to 0x8115 were what `OP_MIRROR_IN` and `OP_MIRROR_OUT` are now.

// 0x8116 and 0x8117 carried addresses of the program's own.

/// Makes a user object, whose destructor is a function of the program's that has this token.
#[id(0x8119)] #[message] #[queued] #[family(user_object)]
#[creates(UserObject, object)]
fn UserObjectCreate(object: u32, token: u64, count: u32);

/// From the worker: what has this token is to run, after an `error` of its stream; a host node's
/// after fetching the mirrors `before` and before sending the mirrors `after`, but for bytes of the
/// mirrors `beside`, which copies write at that time.
#[id(0x811a)] #[message] #[queued] #[family(graph)]
fn RunPromised(token: u64, error: u32, before: U32s, after: U32s, beside: U32s);

/// The mirrors that an executable graph now reads and writes.
#[id(0x8118)] #[message] #[waits] #[family(graph)]
fn GraphExecLists(exec: u32) -> (sources: U32s, destinations: U32s);
