//! Graphs that copy out and in again through the program's own memory, of each kind.

use super::api::{Api, at};
use std::ffi::c_void;
use std::sync::Mutex;
use std::time::Duration;

const WORDS: usize = 6000;
const BYTES: u64 = 4 * WORDS as u64;
const HOST: u64 = 1;
const DEVICE: u64 = 2;

/// What host nodes do, and where.
struct Turn {
    at: u64,
    words: usize,
    wait: Duration,
}

/// Adds one to each word.
unsafe extern "C" fn add(data: *mut c_void) {
    // SAFETY: the programs below keep it, and its memory, until the graph has run.
    let (turn, words) = unsafe {
        let turn = &*data.cast::<Turn>();
        (
            turn,
            std::slice::from_raw_parts_mut(turn.at as *mut u32, turn.words),
        )
    };
    std::thread::sleep(turn.wait);
    words.iter_mut().for_each(|w| *w += 1);
}

/// What each program has: device memory, the program's, streams, kernels.
struct Place<'a> {
    api: &'a Api,
    /// The program's memory: two pieces of one allocation.
    host: u64,
    other: u64,
    a: u64,
    b: u64,
    stream: u64,
    second: u64,
    fill: u64,
    copy: u64,
}

impl Place<'_> {
    /// The program's memory, as words.
    fn words<'w>(&self, p: u64) -> &'w mut [u32] {
        // SAFETY: memory of so many words, which no work uses now.
        unsafe { std::slice::from_raw_parts_mut(p as *mut u32, WORDS) }
    }

    fn fill(&self, p: u64, value: u64) {
        let rc = self
            .api
            .launch(self.fill, self.stream, &[p, value, WORDS as u64]);
        assert_eq!(rc, 0);
    }

    fn out(&self, host: u64, device: u64, n: u64, stream: u64) {
        let args = [host, device, n, stream];
        assert_eq!(self.api.call("cuMemcpyDtoHAsync_v2", &args), 0);
    }

    fn back(&self, device: u64, host: u64, n: u64, stream: u64) {
        let args = [device, host, n, stream];
        assert_eq!(self.api.call("cuMemcpyHtoDAsync_v2", &args), 0);
    }

    fn calls(&self, turn: &Turn, stream: u64) {
        let f: unsafe extern "C" fn(_) = add;
        let data = std::ptr::from_ref(turn) as u64;
        let args = [stream, f as *const () as u64, data];
        assert_eq!(self.api.call("cuLaunchHostFunc", &args), 0);
    }

    /// What is captured: the graph, and what is made of it.
    fn captured(&self, f: impl FnOnce(u64)) -> (u64, u64) {
        const RELAXED: u64 = 2;
        let begin = [self.stream, RELAXED];
        assert_eq!(self.api.call("cuStreamBeginCapture_v2", &begin), 0);
        f(self.stream);
        let mut graph = 0u64;
        let end = [self.stream, at(&mut graph)];
        assert_eq!(self.api.call("cuStreamEndCapture", &end), 0);
        (graph, self.ready(graph))
    }

    fn ready(&self, graph: u64) -> u64 {
        self.api.made("cuGraphInstantiateWithFlags", &[graph, 0])
    }

    fn run(&self, exec: u64) {
        assert_eq!(self.api.call("cuGraphLaunch", &[exec, self.stream]), 0);
    }

    fn wait(&self) {
        assert_eq!(self.api.call("cuStreamSynchronize", &[self.stream]), 0);
    }

    fn end(&self, (graph, exec): (u64, u64)) {
        assert_eq!(self.api.call("cuGraphExecDestroy", &[exec]), 0);
        assert_eq!(self.api.call("cuGraphDestroy", &[graph]), 0);
    }

    /// Some words of device memory.
    fn there(&self, p: u64) -> Vec<u32> {
        let mut all = vec![0u32; WORDS];
        let args = [at(&mut all[0]), p, BYTES];
        assert_eq!(self.api.call("cuMemcpyDtoH_v2", &args), 0);
        some(&all)
    }

    fn show(&self, what: &str) {
        self.wait();
        let (host, b) = (some(self.words(self.host)), self.there(self.b));
        println!("{what}: {host:?} {b:?}");
    }
}

fn some(all: &[u32]) -> Vec<u32> {
    [0, 1, 2999, 3000, 3001, 4500, 5999].map(|i| all[i]).into()
}

fn out_and_in(p: &Place<'_>) {
    let g = p.captured(|s| {
        p.out(p.host, p.a, BYTES, s);
        p.back(p.b, p.host, BYTES, s);
    });
    for round in 1..4 {
        p.words(p.host).fill(90 + round);
        p.fill(p.a, u64::from(round));
        p.run(g.1);
        p.show("out and in");
    }
    // Nobody waits in between.
    for round in 4..8 {
        p.fill(p.a, round);
        p.run(g.1);
    }
    p.show("again and again");
    p.end(g);
}

fn with_functions(p: &Place<'_>) {
    let turn = Turn {
        at: p.host,
        words: WORDS,
        wait: Duration::ZERO,
    };
    let g = p.captured(|s| {
        p.out(p.host, p.a, BYTES, s);
        p.calls(&turn, s);
        p.back(p.a, p.host, BYTES, s);
        p.out(p.host, p.a, BYTES / 2, s);
        p.calls(&turn, s);
        p.back(p.b, p.host, BYTES, s);
    });
    p.fill(p.a, 10);
    for _ in 0..3 {
        p.run(g.1);
        p.show("functions between");
    }
    p.run(g.1);
    p.run(g.1);
    p.show("twice");
    p.end(g);
}

/// What a copy writes beside a function is not what the program has.
fn beside(p: &Place<'_>) {
    let turn = Turn {
        at: p.other,
        words: 1,
        wait: Duration::from_millis(50),
    };
    let [fork, join] = [0, 1].map(|_| p.api.made("cuEventCreate", &[2]));
    p.words(p.host).fill(1);
    p.fill(p.a, 77);
    let g = p.captured(|s| {
        p.api.call("cuEventRecord", &[fork, s]);
        p.api.call("cuStreamWaitEvent", &[p.second, fork, 0]);
        p.out(p.host, p.a, BYTES / 2, p.second);
        p.api.call("cuEventRecord", &[join, p.second]);
        p.calls(&turn, s);
        p.api.call("cuStreamWaitEvent", &[s, join, 0]);
        p.back(p.b, p.host, BYTES, s);
    });
    p.run(g.1);
    p.show("beside a function");
    p.end(g);
    for e in [fork, join] {
        p.api.call("cuEventDestroy_v2", &[e]);
    }
}

/// A box of rows between the program's memory and the device's, as `CUDA_MEMCPY2D` has it.
fn rows(host: (u64, u64, u64), device: u64, out: bool) -> [u64; 16] {
    let (p, x, pitch) = host;
    let (width, height) = (400, 20);
    let here = [x, 1, HOST, p, 0, 0, pitch];
    let there = [0, 0, DEVICE, 0, device, 0, width];
    let mut all = [0; 16];
    let (src, dst) = if out { (there, here) } else { (here, there) };
    all[..7].copy_from_slice(&src);
    all[7..14].copy_from_slice(&dst);
    (all[14], all[15]) = (width, height);
    all
}

fn of_rows(p: &Place<'_>) {
    // The second box lies across the first one's rows.
    for (start, x, pitch) in [(0, 0, 800), (0, 200, 800), (0, 0, 1200), (400, 0, 400)] {
        let g = p.captured(|s| {
            let mut all = rows((p.host, 0, 800), p.a, true);
            assert_eq!(p.api.call("cuMemcpy2DAsync_v2", &[at(&mut all), s]), 0);
            let mut all = rows((p.host + start, x, pitch), p.b, false);
            assert_eq!(p.api.call("cuMemcpy2DAsync_v2", &[at(&mut all), s]), 0);
        });
        for round in 1..3 {
            p.words(p.host).fill(50 + round);
            p.fill(p.a, u64::from(round));
            p.fill(p.b, 0);
            p.run(g.1);
            p.wait();
            let mut back = vec![0u32; 2000];
            p.api
                .call("cuMemcpyDtoH_v2", &[at(&mut back[0]), p.b, 8000]);
            let [sum, here] = [&back, &*p.words(p.host)].map(|w| w.iter().sum::<u32>());
            println!(
                "rows {start} {x} {pitch}: {sum} {here} {:?}",
                [back[0], back[1999]]
            );
        }
        p.end(g);
    }
}

fn in_parts(p: &Place<'_>) {
    let half = BYTES / 2;
    let g = p.captured(|s| {
        p.out(p.host, p.a, half + 400, s);
        p.back(p.b, p.host + half, half, s);
        p.back(p.b + half, p.host + 4, half, s);
    });
    for round in 1..4 {
        p.words(p.host).fill(70 + round);
        p.fill(p.a, u64::from(round));
        p.run(g.1);
        p.show("parts");
    }
    p.end(g);
    // One graph writes what the next one reads; nobody waits.
    let (first, next) = (
        p.captured(|s| p.out(p.host, p.a, half, s)),
        p.captured(|s| p.back(p.b, p.host, BYTES, s)),
    );
    p.words(p.host).fill(33);
    p.fill(p.a, 44);
    p.run(first.1);
    p.run(next.1);
    p.show("one after the other");
    // And behind a copy that is no graph's.
    p.fill(p.a, 45);
    p.out(p.host, p.a, half, p.stream);
    p.run(next.1);
    p.show("behind a copy");
    p.end(first);
    p.end(next);
}

fn with_children(p: &Place<'_>) {
    let (child, own) = p.captured(|s| p.out(p.host, p.a, BYTES, s));
    let graph = p.api.made("cuGraphCreate", &[0]);
    let mut first = p
        .api
        .made("cuGraphAddChildGraphNode", &[graph, 0, 0, child]);
    let mut back = memcpy(HOST, p.host, DEVICE, p.b, BYTES);
    let after = at(&mut first);
    let node = p.api.made(
        "cuGraphAddMemcpyNode",
        &[graph, after, 1, at(&mut back), context(p.api)],
    );
    let exec = p.ready(graph);
    p.words(p.host).fill(5);
    p.fill(p.a, 6);
    p.run(exec);
    p.show("a child");
    // Other memory takes its place, in what is made alone.
    p.words(p.other).fill(8);
    let mut other = memcpy(HOST, p.other, DEVICE, p.b, BYTES);
    let args = [exec, node, at(&mut other), context(p.api)];
    p.api.tell("cuGraphExecMemcpyNodeSetParams", &args);
    p.run(exec);
    p.show("another place");
    p.words(p.other).fill(9);
    p.run(exec);
    p.show("another place");
    p.end((graph, exec));
    p.end((child, own));
}

/// What a function has seen.
struct Seen {
    at: u64,
    words: Mutex<Vec<u32>>,
}

unsafe extern "C" fn see(data: *mut c_void) {
    // SAFETY: the program below keeps it, and its memory, until the graph has run.
    let (seen, word) = unsafe {
        let seen = &*data.cast::<Seen>();
        (seen, *(seen.at as *const u32))
    };
    seen.words.lock().expect("no panic").push(word);
}

/// A graph that is inside another twice, and inside a third: each time its function finds what was
/// before it there.
fn several_times_within(p: &Place<'_>) {
    let seen = Seen {
        at: p.host,
        words: Mutex::default(),
    };
    let f: unsafe extern "C" fn(_) = see;
    let data = std::ptr::from_ref(&seen) as u64;
    let (child, own) = p.captured(|s| {
        let args = [s, f as *const () as u64, data];
        assert_eq!(p.api.call("cuLaunchHostFunc", &args), 0);
        p.out(p.host, p.a, BYTES, s);
    });
    let twice = p.api.made("cuGraphCreate", &[0]);
    let add = |graph, after: &mut u64, child| {
        let n = u64::from(*after != 0);
        p.api
            .made("cuGraphAddChildGraphNode", &[graph, at(after), n, child])
    };
    let mut first = add(twice, &mut 0, child);
    add(twice, &mut first, child);
    let more = p.api.made("cuGraphCreate", &[0]);
    let mut first = add(more, &mut 0, twice);
    add(more, &mut first, child);
    let [two, three] = [twice, more].map(|g| p.ready(g));
    for round in 1..4u32 {
        for exec in [two, three, own, two] {
            p.words(p.host).fill(10 * round);
            p.fill(p.a, u64::from(round));
            p.run(exec);
            p.show("several times within");
        }
        // What it has does not change.
        let mut result = [0u64; 4];
        p.api
            .tell("cuGraphExecUpdate_v2", &[two, twice, at(&mut result)]);
    }
    println!("seen: {:?}", seen.words.lock().expect("no panic"));
    for g in [(twice, two), (more, three), (child, own)] {
        p.end(g);
    }
}

fn context(api: &Api) -> u64 {
    api.made("cuCtxGetCurrent", &[])
}

/// One row, as `CUDA_MEMCPY3D` has it.
fn memcpy(from: u64, src: u64, to: u64, dst: u64, n: u64) -> [u64; 25] {
    let end = |kind, p| match kind {
        HOST => [0, 0, 0, 0, kind, p, 0, 0, 0, n, 1],
        _ => [0, 0, 0, 0, kind, 0, p, 0, 0, n, 1],
    };
    let mut all = [0; 25];
    all[..11].copy_from_slice(&end(from, src));
    all[11..22].copy_from_slice(&end(to, dst));
    (all[22], all[23], all[24]) = (n, 1, 1);
    all
}

fn destroyed(p: &Place<'_>) {
    let turn = Turn {
        at: p.host,
        words: WORDS,
        wait: Duration::from_millis(100),
    };
    p.fill(p.a, 20);
    for _ in 0..2 {
        let g = p.captured(|s| {
            p.out(p.host, p.a, BYTES, s);
            p.calls(&turn, s);
            p.back(p.b, p.host, BYTES, s);
            p.back(p.a, p.host, BYTES, s);
        });
        p.run(g.1);
        p.end(g);
        p.show("destroyed while it runs");
    }
}

/// A kernel of the graph uses the memory in place.
fn with_kernels(p: &Place<'_>) {
    let g = p.captured(|s| {
        p.out(p.host, p.a, BYTES, s);
        let rc = p.api.launch(p.copy, s, &[p.b, p.host, BYTES]);
        assert_eq!(rc, 0);
        let rc = p.api.launch(p.fill, s, &[p.host + BYTES / 2, 3, 10]);
        assert_eq!(rc, 0);
        p.back(p.b, p.host + BYTES / 2, BYTES / 4, s);
    });
    for round in 1..4 {
        p.words(p.host).fill(60);
        p.fill(p.a, round);
        p.run(g.1);
        p.show("kernels");
    }
    p.end(g);
}

pub(super) fn host_graphs(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let streams = [0, 1].map(|_| api.made("cuStreamCreate", &[1]));
    let [a, b] = [0, 1].map(|_| api.made("cuMemAlloc_v2", &[BYTES]));
    let [fill, copy] = ["fill", "copy"].map(|k| api.kernel(k));
    let mut own = vec![0u32; 2 * WORDS + 3000];
    for kind in ["page-locked", "registered", "pageable"] {
        println!("{kind}");
        let size = 2 * BYTES + 64;
        let host = match kind {
            "page-locked" => api.made("cuMemHostAlloc", &[size, 0]),
            _ => at(&mut own[0]) + 36,
        };
        if kind == "registered" {
            assert_eq!(api.call("cuMemHostRegister_v2", &[host, size, 0]), 0);
        }
        let p = Place {
            api,
            host,
            other: host + BYTES + 12,
            a,
            b,
            stream: streams[0],
            second: streams[1],
            fill,
            copy,
        };
        let all: [fn(&Place<'_>); 8] = [
            out_and_in,
            with_functions,
            beside,
            of_rows,
            in_parts,
            with_children,
            several_times_within,
            destroyed,
        ];
        all.iter().for_each(|f| f(&p));
        if kind != "pageable" {
            with_kernels(&p);
            // Kernels see it now.
            all.iter().for_each(|f| f(&p));
        }
        match kind {
            "page-locked" => assert_eq!(api.call("cuMemFreeHost", &[host]), 0),
            "registered" => assert_eq!(api.call("cuMemHostUnregister", &[host]), 0),
            _ => {}
        }
    }
    println!("done");
}
