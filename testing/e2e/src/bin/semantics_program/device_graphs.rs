//! Graphs that kernels launch, and kernels in graphs that other kernels change: both are known to a
//! device by names of the driver's.

use super::api::{Api, at};

const DEVICE_LAUNCH: u64 = 4;
const UPDATABLE: u64 = 13;

/// A launch with attributes, as the C API lays it out.
#[repr(C)]
struct Config {
    shape: [u32; 6],
    shared: u32,
    stream: u64,
    attributes: u64,
    count: u32,
}

#[repr(C)]
struct Attribute {
    id: u64,
    value: [u64; 8],
}

/// What making a graph executable is told, and tells.
#[repr(C)]
struct Instantiate {
    flags: u64,
    upload: u64,
    node: u64,
    result: i32,
}

struct Stage<'a> {
    api: &'a Api,
    stream: u64,
    memory: u64,
}

impl Stage<'_> {
    /// What is captured of some work.
    fn graph(&self, work: impl FnOnce()) -> u64 {
        let s = self.stream;
        assert_eq!(self.api.call("cuStreamBeginCapture_v2", &[s, 2]), 0);
        work();
        let mut graph = 0u64;
        assert_eq!(self.api.call("cuStreamEndCapture", &[s, at(&mut graph)]), 0);
        graph
    }

    fn executable(&self, graph: u64, flags: u64) -> u64 {
        let mut exec = 0u64;
        let args = [at(&mut exec), graph, flags];
        self.api.tell("cuGraphInstantiateWithFlags", &args);
        exec
    }

    fn run(&self, exec: u64) {
        self.api.tell("cuGraphLaunch", &[exec, self.stream]);
        self.api.tell("cuStreamSynchronize", &[self.stream]);
        let mut word = 0u32;
        self.api
            .call("cuMemcpyDtoH_v2", &[at(&mut word), self.memory, 4]);
        println!("then {word}");
    }

    /// A launch that asks for a node that kernels may change; gives the name that these know.
    fn updatable(&self, f: u64, words: &[u64]) -> u64 {
        let mut attribute = Attribute {
            id: UPDATABLE,
            value: [1, 0, 0, 0, 0, 0, 0, 0],
        };
        let config = Config {
            shape: [1; 6],
            shared: 0,
            stream: self.stream,
            attributes: at(&mut attribute),
            count: 1,
        };
        let list: Vec<*const u64> = words.iter().map(std::ptr::from_ref).collect();
        let config = std::ptr::from_ref(&config) as u64;
        self.api
            .tell("cuLaunchKernelEx", &[config, f, list.as_ptr() as u64, 0]);
        attribute.value[1]
    }
}

unsafe extern "C" fn nothing(_: *mut std::ffi::c_void) {}

/// Everything, on one stream.
pub fn device_graphs(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let [fill, start, change] = ["fill", "start", "change"].map(|name| api.kernel(name));
    let stage = Stage {
        api,
        stream: api.made("cuStreamCreate", &[1]),
        memory: api.made("cuMemAlloc_v2", &[4096]),
    };
    let (s, d) = (stage.stream, stage.memory);
    let filled = |v: u64| stage.graph(|| assert_eq!(api.launch(fill, s, &[d, v, 4]), 0));

    // By the host, and then by a kernel.
    let first = filled(41);
    let exec = stage.executable(first, DEVICE_LAUNCH);
    let mut flags = 0u64;
    api.tell("cuGraphExecGetFlags", &[exec, at(&mut flags)]);
    println!("flags {flags}");
    stage.run(exec);
    let starter = stage.graph(|| assert_eq!(api.launch(start, s, &[exec]), 0));
    let starter = stage.executable(starter, 0);
    api.call("cuMemsetD8_v2", &[d, 0, 4096]);
    api.call("cuCtxSynchronize", &[]);
    stage.run(starter);
    // Changed by its own name, it is what the kernel launches from then on.
    let mut info = [0u64; 3];
    api.tell("cuGraphExecUpdate_v2", &[exec, filled(42), at(&mut info)]);
    api.tell("cuGraphUpload", &[exec, s]);
    stage.run(starter);
    api.tell("cuGraphExecDestroy", &[exec]);
    // Others, some of which may get the same name.
    for v in 50..53 {
        let exec = stage.executable(filled(v), DEVICE_LAUNCH);
        stage.run(exec);
        api.tell("cuGraphExecDestroy", &[exec]);
    }

    // What a device cannot do is refused, and the node named.
    let mut node = 0u64;
    let host = stage.graph(|| {
        api.tell("cuLaunchHostFunc", &[s, nothing as *const () as u64, 0]);
    });
    let mut count = 1u64;
    api.tell("cuGraphGetNodes", &[host, at(&mut node), at(&mut count)]);
    let mut how = Instantiate {
        flags: DEVICE_LAUNCH,
        upload: 0,
        node: 0,
        result: 7,
    };
    let mut exec = 0u64;
    let args = [at(&mut exec), host, at(&mut how)];
    api.tell("cuGraphInstantiateWithParams", &args);
    println!("result {}, that node: {}", how.result, how.node == node);

    // A kernel that another changes: as a launch, and as a node that is there already.
    println!("outside: {}", stage.updatable(fill, &[d, 60, 4]) != 0);
    let mut name = 0;
    let graph = stage.graph(|| name = stage.updatable(fill, &[d, 60, 4]));
    println!("named: {}", name != 0);
    let exec = stage.executable(graph, 0);
    stage.run(exec);
    println!("change: {}", api.launch(change, s, &[name, 8, 61]));
    stage.run(exec);
    let graph = filled(70);
    api.tell("cuGraphGetNodes", &[graph, at(&mut node), at(&mut count)]);
    let [mut set, mut told] = [[1u64, 0, 0, 0, 0, 0, 0, 0], [0u64; 8]];
    api.tell(
        "cuGraphKernelNodeSetAttribute",
        &[node, UPDATABLE, at(&mut set)],
    );
    api.tell(
        "cuGraphKernelNodeGetAttribute",
        &[node, UPDATABLE, at(&mut told)],
    );
    println!("named: {}, alike: {}", set[1] != 0, set == told);
    let exec = stage.executable(graph, 0);
    println!("change: {}", api.launch(change, s, &[set[1], 8, 71]));
    stage.run(exec);

    // Last, as it is the end of the context: a graph that is not for devices.
    let exec = stage.executable(filled(1), 0);
    println!("launch: {}", api.launch(start, s, &[exec]));
    api.tell("cuStreamSynchronize", &[s]);
}
