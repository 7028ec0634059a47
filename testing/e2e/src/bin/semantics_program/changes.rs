//! Nodes of an executable graph that are changed before each launch, as libraries do that keep
//! graphs and get other memory each time.

use super::api::{Api, at};

const DEVICE: u64 = 2;
/// A grid and a block of one, without shared memory.
const ONE: [u64; 4] = [1 | 1 << 32, 1 | 1 << 32, 1 | 1 << 32, 0];

struct Stage<'a> {
    api: &'a Api,
    context: u64,
    fill: u64,
    exec: u64,
    /// A fill's, a kernel's and a copy's.
    nodes: [u64; 3],
    out: u64,
}

impl Stage<'_> {
    /// `CUDA_MEMSET_NODE_PARAMS`: so many words.
    fn filled(&self, dst: u64, value: u64, words: u64) -> [u64; 5] {
        [dst, 0, value | 4 << 32, words, 1]
    }

    /// `CUDA_MEMCPY3D`: bytes of the device's.
    fn copied(&self, src: u64, len: u64) -> [u64; 25] {
        let mut c = [0; 25];
        (c[4], c[6], c[15], c[17]) = (DEVICE, src, DEVICE, self.out);
        (c[22], c[23], c[24]) = (len, 1, 1);
        c
    }

    /// Has `f` called with the kernel's parameters: it fills four words behind those of the fill.
    fn with_kernel<T>(&self, at_: u64, value: u64, grid: u64, f: impl FnOnce(u64) -> T) -> T {
        let (mut dst, mut value, mut n) = (at_ + 16, value, 4u64);
        let mut list = [at(&mut dst), at(&mut value), at(&mut n)];
        let [_, b, c, d] = ONE;
        let mut k = [self.fill, grid | 1 << 32, b, c, d, at(&mut list), 0, 0, 0];
        let r = f(at(&mut k));
        std::hint::black_box((&dst, &value, &n, &list, &k));
        r
    }

    /// Changes all three; what each says.
    fn change(&self, memory: u64, value: u64, words: u64) -> [i32; 3] {
        let [fill, kernel, copy] = self.nodes;
        let mut m = self.filled(memory, value, words);
        let args = [self.exec, fill, at(&mut m), self.context];
        let first = self.api.call("cuGraphExecMemsetNodeSetParams", &args);
        let second = self.with_kernel(memory, value + 1, 1, |k| {
            let args = [self.exec, kernel, k];
            self.api.call("cuGraphExecKernelNodeSetParams_v2", &args)
        });
        let mut c = self.copied(memory, 32);
        let args = [self.exec, copy, at(&mut c), self.context];
        let third = self.api.call("cuGraphExecMemcpyNodeSetParams", &args);
        [first, second, third]
    }

    /// What a launch brings.
    fn run(&self) -> [u32; 8] {
        assert_eq!(self.api.call("cuGraphLaunch", &[self.exec, 0]), 0);
        assert_eq!(self.api.call("cuCtxSynchronize", &[]), 0);
        let mut seen = [0; 8];
        let args = [at(&mut seen), self.out, 32];
        assert_eq!(self.api.call("cuMemcpyDtoH_v2", &args), 0);
        seen
    }
}

/// So many rounds, in one memory and the other in turn; then changes of other kinds, and mistakes.
pub fn changes(api: &Api, rounds: u64) {
    let context = api.made("cuCtxCreate_v2", &[0, 0]);
    let [a, b, out] = [(); 3].map(|()| api.made("cuMemAlloc_v2", &[4096]));
    let mut s = Stage {
        api,
        context,
        fill: api.kernel("fill"),
        exec: 0,
        nodes: [0; 3],
        out,
    };
    let graph = api.made("cuGraphCreate", &[0]);
    let mut m = s.filled(a, 1, 4);
    let args = [graph, 0, 0, at(&mut m), context];
    s.nodes[0] = api.made("cuGraphAddMemsetNode", &args);
    s.nodes[1] = s.with_kernel(a, 2, 1, |k| {
        let mut after = s.nodes[0];
        api.made("cuGraphAddKernelNode_v2", &[graph, at(&mut after), 1, k])
    });
    let (mut c, mut after) = (s.copied(a, 32), s.nodes[1]);
    let args = [graph, at(&mut after), 1, at(&mut c), context];
    s.nodes[2] = api.made("cuGraphAddMemcpyNode", &args);
    s.exec = api.made("cuGraphInstantiateWithFlags", &[graph, 0]);

    let right = (1..=rounds).filter(|round| {
        let memory = if round % 2 == 0 { a } else { b };
        let value = 10 * round;
        assert_eq!(s.change(memory, value, 4), [0; 3]);
        let (x, y) = (value as u32, value as u32 + 1);
        s.run() == [x, x, x, x, y, y, y, y]
    });
    println!("right: {}", right.count());

    // Less of it, and then of one that the graph has become again.
    println!("{:?} {:?}", s.change(a, 7, 2), s.run());
    let mut info = [0u64; 3];
    api.tell("cuGraphExecUpdate_v2", &[s.exec, graph, at(&mut info)]);
    println!("{:?}", s.run());
    println!("{:?} {:?}", s.change(b, 9, 4), s.run());
    // What is refused is refused at the call, and changes nothing.
    println!("{:?} {:?}", s.change(b, 11, 0), s.run());
    s.with_kernel(b, 12, 0, |k| {
        let args = [s.exec, s.nodes[1], k];
        api.tell("cuGraphExecKernelNodeSetParams_v2", &args);
    });
    println!("{:?}", s.run());
    api.tell("cuGraphExecDestroy", &[s.exec]);
}
