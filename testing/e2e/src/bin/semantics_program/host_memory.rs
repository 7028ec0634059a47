//! Page-locked memory whose address reaches kernels in any way: in structures on the device, in
//! long parameters, in nodes of graphs, as numbers.

use super::api::{Api, at};

const WORDS: usize = 5000;
const BYTES: u64 = 4 * WORDS as u64;
const MANAGED: u64 = 1;

struct Place<'a> {
    api: &'a Api,
    fill: u64,
    follow: u64,
    mark: u64,
    cell: u64,
    back: u64,
    own: Vec<u32>,
}

impl Place<'_> {
    /// New page-locked memory, of one sort or another.
    fn taken(&mut self, registered: bool) -> u64 {
        if registered {
            self.own = vec![0; WORDS + 2000];
            let p = at(&mut self.own[0]) + 20;
            assert_eq!(self.api.call("cuMemHostRegister_v2", &[p, BYTES, 0]), 0);
            p
        } else {
            self.api.made("cuMemHostAlloc", &[BYTES, 0])
        }
    }

    fn given(&self, p: u64, registered: bool) {
        let free = match registered {
            true => "cuMemHostUnregister",
            false => "cuMemFreeHost",
        };
        assert_eq!(self.api.call(free, &[p]), 0, "{free}");
    }

    /// A kernel reads through the cell, and one writes through it.
    fn used(&self, what: &str, p: u64, value: u32) {
        // SAFETY: memory of so many words, which no work uses now.
        let words = unsafe { std::slice::from_raw_parts_mut(p as *mut u32, WORDS) };
        words.fill(value);
        let read = self
            .api
            .launch(self.follow, 0, &[self.back, self.cell, BYTES]);
        let mark = self
            .api
            .launch(self.mark, 0, &[self.cell, 1000 + u64::from(value)]);
        let done = self.api.call("cuCtxSynchronize", &[]);
        let mut seen = vec![0u32; WORDS];
        self.api
            .call("cuMemcpyDtoH_v2", &[at(&mut seen[0]), self.back, BYTES]);
        let ends = [seen[0], seen[WORDS - 1]];
        println!("{what}: {read} {mark} {done} {ends:?} {:?}", &words[..2]);
    }
}

/// Addresses in memory of the device's that kernels follow.
fn in_structures(p: &mut Place<'_>) {
    let api = p.api;
    for registered in [false, true] {
        println!("registered: {registered}");
        let mut value = 0;
        let mut round = |p: &mut Place<'_>, what: &str, put: &dyn Fn(u64)| {
            let host = p.taken(registered);
            put(host);
            value += 10;
            p.used(what, host, value);
            p.used(what, host, value + 1);
            p.given(host, registered);
        };
        let cell = p.cell;
        round(p, "copied", &|host| {
            let mut word = host;
            assert_eq!(api.call("cuMemcpyHtoD_v2", &[cell, at(&mut word), 8]), 0);
        });
        round(p, "in a structure", &|host| {
            let mut s = [1, 2, host, 3];
            let args = [cell - 16, at(&mut s), 32, 0];
            assert_eq!(api.call("cuMemcpyHtoDAsync_v2", &args), 0);
        });
        round(p, "from page-locked memory", &|host| {
            let from = api.made("cuMemHostAlloc", &[8, 0]);
            // SAFETY: just made.
            unsafe { (from as *mut u64).write_volatile(host) };
            assert_eq!(api.call("cuMemcpyHtoDAsync_v2", &[cell, from, 8, 0]), 0);
            assert_eq!(api.call("cuStreamSynchronize", &[0]), 0);
            assert_eq!(api.call("cuMemFreeHost", &[from]), 0);
        });
        round(p, "as rows", &|host| {
            let mut word = [host, 0];
            let mut all = [0u64; 16];
            (all[2], all[3], all[6]) = (1, at(&mut word), 16);
            (all[9], all[11], all[13]) = (2, cell, 16);
            (all[14], all[15]) = (8, 1);
            assert_eq!(api.call("cuMemcpy2D_v2", &[at(&mut all)]), 0);
        });
    }
}

/// Addresses that the program stores in memory that moves by itself, or is the device's as well.
fn stored(p: &mut Place<'_>) {
    let api = p.api;
    for small in [64, 40_000] {
        let device = std::mem::replace(
            &mut p.cell,
            api.made("cuMemAllocManaged", &[small, MANAGED]),
        );
        let host = p.taken(false);
        // SAFETY: memory of the program's, which no work uses now.
        unsafe { (p.cell as *mut u64).write_volatile(host) };
        p.used("managed", host, 3);
        let next = p.taken(false);
        // SAFETY: as above.
        unsafe { (p.cell as *mut u64).write_volatile(next) };
        p.used("another", next, 4);
        assert_eq!(api.call("cuMemFree_v2", &[p.cell]), 0);
        // From one page-locked place to the next.
        p.cell = api.made("cuMemHostAlloc", &[small, 0]);
        // SAFETY: as above.
        unsafe { (p.cell as *mut u64).write_volatile(host) };
        p.used("page-locked", host, 5);
        for q in [p.cell, host, next] {
            assert_eq!(api.call("cuMemFreeHost", &[q]), 0);
        }
        p.cell = device;
    }
}

/// A parameter beyond a structure of many bytes.
fn in_parameters(p: &mut Place<'_>) {
    let api = p.api;
    for name in ["many", "late"] {
        let f = api.kernel(name);
        let other = api.made("cuMemAlloc_v2", &[64]);
        let mut table = vec![0u64; 300];
        let host = p.taken(false);
        for round in 0..7 {
            let target = if round < 5 { other } else { host };
            table[100] = target;
            // The structure holds the address, and the kernel's own parameter another's.
            let (mut first, mut value, mut n) = (other, 9u64, 1u64);
            let mut list = [
                at(&mut first),
                at(&mut value),
                at(&mut n),
                at(&mut table[0]),
            ];
            let rc = api.call(
                "cuLaunchKernel",
                &[f, 1, 1, 1, 1, 1, 1, 0, 0, at(&mut list), 0],
            );
            assert_eq!(rc, 0);
        }
        // Where kernels see it, they find it by its address in memory of the device's that no copy
        // has brought there.
        assert_eq!(
            api.call("cuMemsetD32_v2", &[p.cell, host & 0xffff_ffff, 1]),
            0
        );
        assert_eq!(api.call("cuMemsetD32_v2", &[p.cell + 4, host >> 32, 1]), 0);
        p.used(name, host, 50);
        p.given(host, false);
        assert_eq!(api.call("cuMemFree_v2", &[other]), 0);
    }
}

/// A kernel's node, a fill's.
fn in_nodes(p: &mut Place<'_>) {
    let api = p.api;
    let host = p.taken(false);
    let graph = api.made("cuGraphCreate", &[0]);
    let (mut first, mut value, mut n) = ([host + 8], 77u64, 2u64);
    let mut list = [at(&mut first), at(&mut value), at(&mut n)];
    // Function, grid, block and shared memory, parameters.
    let mut k = [
        p.fill,
        1 | 1 << 32,
        1 | 1 << 32,
        1 | 1 << 32,
        0,
        at(&mut list),
        0,
        0,
        0,
    ];
    let node = api.made("cuGraphAddKernelNode_v2", &[graph, 0, 0, at(&mut k)]);
    assert_ne!(node, 0);
    let exec = api.made("cuGraphInstantiateWithFlags", &[graph, 0]);
    // SAFETY: page-locked memory of so many words.
    let words = unsafe { std::slice::from_raw_parts_mut(host as *mut u32, WORDS) };
    for round in 0..2 {
        words.fill(round);
        api.tell("cuGraphLaunch", &[exec, 0]);
        api.tell("cuCtxSynchronize", &[]);
        println!("node: {:?}", &words[..5]);
    }
    let other = p.taken(false);
    let mut second = other;
    list[0] = at(&mut second);
    std::hint::black_box(&list);
    let args = [exec, node, at(&mut k)];
    api.tell("cuGraphExecKernelNodeSetParams_v2", &args);
    api.tell("cuGraphLaunch", &[exec, 0]);
    api.tell("cuCtxSynchronize", &[]);
    // SAFETY: as above.
    let words = unsafe { std::slice::from_raw_parts(other as *const u32, 3) };
    println!("node: {:?}", &words[..2]);
    api.call("cuGraphExecDestroy", &[exec]);
    api.call("cuGraphDestroy", &[graph]);
    p.given(host, false);
    p.given(other, false);
}

/// Calls on memory of the device's take page-locked memory that no kernel has seen.
fn as_the_devices(p: &mut Place<'_>) {
    let api = p.api;
    let stream = api.made("cuStreamCreate", &[1]);
    let device = api.made("cuMemAlloc_v2", &[BYTES]);
    api.tell("cuMemsetD32_v2", &[device, 6, WORDS as u64]);
    type Arguments<'a> = &'a dyn Fn(u64) -> Vec<u64>;
    let calls: [(&str, Arguments<'_>); 9] = [
        ("cuMemsetD8_v2", &|q| vec![q + 4, 1, 8]),
        ("cuMemsetD16Async", &|q| vec![q + 4, 2, 4, stream]),
        ("cuMemsetD32Async", &|q| vec![q + 4, 3, 2, stream]),
        ("cuMemsetD2D8_v2", &|q| vec![q + 4, 8, 4, 4, 2]),
        ("cuMemsetD2D32Async", &|q| vec![q + 4, 8, 5, 1, 2, stream]),
        ("cuMemcpyDtoD_v2", &|q| vec![q + 4, device, 8]),
        ("cuMemcpyDtoDAsync_v2", &|q| vec![q + 4, device, 8, stream]),
        ("cuMemcpyDtoDAsync_v2", &|q| vec![device + 64, q, 8, stream]),
        ("cuMemcpyAsync", &|q| vec![q + 4, device + 64, 8, stream]),
    ];
    for (registered, captured) in [(false, false), (true, false), (false, true), (true, true)] {
        println!("registered {registered}, captured {captured}");
        for (name, args) in &calls {
            let q = p.taken(registered);
            // SAFETY: page-locked memory of so many words, which no work uses now.
            let words = unsafe { std::slice::from_raw_parts_mut(q as *mut u32, WORDS) };
            words.fill(9);
            // A call without a stream is not for captures.
            let captures = captured && args(q).last() == Some(&stream);
            if captures {
                api.call("cuStreamBeginCapture_v2", &[stream, 2]);
            }
            api.tell(name, &args(q));
            if captures {
                api.run_captured(stream);
            }
            api.tell("cuCtxSynchronize", &[]);
            println!("{:?} {}", &words[..6], words[WORDS - 1]);
            p.given(q, registered);
        }
    }
    api.tell("cuMemFree_v2", &[device]);
    api.tell("cuStreamDestroy_v2", &[stream]);
}

pub(super) fn host_memory(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let [fill, follow, mark] = ["fill", "follow", "mark"].map(|k| api.kernel(k));
    let mut p = Place {
        api,
        fill,
        follow,
        mark,
        cell: api.made("cuMemAlloc_v2", &[4096]) + 1024,
        back: api.made("cuMemAlloc_v2", &[BYTES]),
        own: vec![],
    };
    as_the_devices(&mut p);
    in_structures(&mut p);
    stored(&mut p);
    in_parameters(&mut p);
    in_nodes(&mut p);
    println!("done");
}
