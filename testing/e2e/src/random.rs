//! Random programs of driver calls, whose trace is the same on every correct driver.
//!
//! Each buffer belongs to one stream at a time, and moves to another only behind an event, so that
//! what the calls compute does not depend on how streams overlap.

pub mod apart;
pub mod devices;
mod host;
mod program;
pub mod rows;

use crate::driver::{Driver, IMAGE};
use busbar_harness::rng::Rng;
use program::{Kernels, Pending, Program};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts how often the host function ran.
unsafe extern "C" fn count(user: *mut c_void) {
    // SAFETY: the program passes a counter that outlives the stream.
    unsafe { (*user.cast::<AtomicU64>()).fetch_add(1, ORDER) };
}
const ORDER: Ordering = Ordering::SeqCst;

/// The largest buffer of a program, unless it is to be small.
pub const MOST_BYTES: u64 = 3 << 20;
const MOST_BUFFERS: usize = 24;

/// Runs `steps` random calls, and prints a trace and a digest.
pub fn run(d: &Driver, seed: u64, steps: u64) {
    d.begin();
    let kernels = Kernels::of(d);
    for line in one(d, kernels, seed, steps, MOST_BYTES, true) {
        println!("{line}");
    }
}

/// As [`run`], with buffers of up to `most` bytes; gives the last line of the trace. All that the
/// program makes ends with it, but for the primary context that it retains.
pub fn whole(d: &Driver, seed: u64, steps: u64, most: u64) -> String {
    d.begin();
    let mut trace = one(d, Kernels::of(d), seed, steps, most, true);
    d.unload();
    // What is queued when a program ends may be left undone.
    assert_eq!(d.cuCtxSynchronize(), 0);
    trace.pop().unwrap_or_default()
}

/// Takes so much memory more, and once it is told to, runs so many programs one after the other.
pub fn large(d: &Driver, more: usize, programs: u64) {
    const STEPS: u64 = 100;
    d.begin();
    d.alloc(more);
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("a line");
    for seed in 0..programs {
        println!("{seed} {}", whole(d, seed, STEPS, MOST_BYTES));
    }
}

/// As [`run`], in several threads that share a context and nothing else.
pub fn threads(d: &Driver, seed: u64, steps: u64) {
    const THREADS: u64 = 4;
    d.begin();
    let kernels = Kernels::of(d);
    let traces: Vec<_> = std::thread::scope(|s| {
        let start = |i| {
            s.spawn(move || {
                d.make_current();
                one(d, kernels, seed * THREADS + i, steps, MOST_BYTES, false)
            })
        };
        let all: Vec<_> = (0..THREADS).map(start).collect();
        let trace = |t: std::thread::ScopedJoinHandle<'_, _>| t.join().expect("it ends well");
        all.into_iter().map(trace).collect()
    });
    for (i, trace) in traces.iter().enumerate() {
        println!("thread {i}\n{}", trace.join("\n"));
    }
}

impl Kernels {
    fn of(d: &Driver) -> Self {
        Self {
            fill: d.function("fill_u32\0"),
            iota: d.function("iota\0"),
            add: d.function("add\0"),
            copy: d.function("copy\0"),
            reduce: d.function("reduce\0"),
            scramble: d.function("scramble\0"),
        }
    }
}

/// One thread's calls; gives their trace.
fn one(d: &Driver, kernels: Kernels, seed: u64, steps: u64, most: u64, alone: bool) -> Vec<String> {
    let mut p = Program {
        d,
        rng: Rng::new(seed),
        buffers: Vec::new(),
        streams: vec![0],
        pending: Vec::new(),
        kernels,
        counter: 0,
        called: Box::leak(Box::default()),
        digest: 0,
        steps: 0,
        most,
        alone,
        trace: Vec::new(),
    };
    for _ in 0..steps {
        p.step();
        p.steps += 1;
        if p.steps.is_multiple_of(16) {
            p.trace.push(format!("{} {:016x}", p.steps, p.digest));
        }
    }
    p.finish();
    p.trace.push(format!("end {:016x}", p.digest));
    p.trace
}

impl Program<'_> {
    fn step(&mut self) {
        let d = self.d;
        let stream = self.rng.below(self.streams.len() as u64) as usize;
        let raw = self.streams[stream];
        match self.rng.below(27) {
            0 | 1 if self.buffers.len() < MOST_BUFFERS => {
                self.alloc();
            }
            2 if self.buffers.len() > 3 => {
                let i = self.rng.below(self.buffers.len() as u64) as usize;
                let b = self.buffers.swap_remove(i);
                if b.pooled {
                    let rc = d.cuMemFreeAsync(b.address, self.streams[b.stream]);
                    self.good("cuMemFreeAsync", rc);
                } else {
                    self.good("cuMemFree", d.cuMemFree_v2(b.address));
                }
            }
            3 if self.streams.len() < 6 => {
                let mut s = 0;
                let flags = self.rng.below(2) as u32;
                self.good("cuStreamCreate", d.cuStreamCreate(&mut s, flags));
                self.streams.push(s);
            }
            4 if self.streams.len() > 2 => {
                let last = self.streams.len() - 1;
                let s = self.streams[last];
                self.good("cuStreamSynchronize", d.cuStreamSynchronize(s));
                self.collect(Some(last));
                for b in &mut self.buffers {
                    if b.stream == last {
                        b.stream = 0;
                    }
                }
                self.streams.pop();
                self.good("cuStreamDestroy", d.cuStreamDestroy_v2(s));
            }
            5 | 6 => {
                let i = self.buffer(stream);
                let (at, n) = self.stretch(i, 1);
                let bytes = self.rng.bytes(n);
                // The copy of the default stream does not wait for streams that do not block.
                let rc = d.cuStreamSynchronize(raw);
                self.good("cuStreamSynchronize", rc);
                let to = self.buffers[i].address + at as u64;
                self.good(
                    "cuMemcpyHtoD",
                    d.cuMemcpyHtoD_v2(to, bytes.as_ptr().cast(), n),
                );
            }
            7 | 8 => {
                let i = self.buffer(stream);
                let (at, n) = self.stretch(i, 1);
                let bytes = self.rng.bytes(n);
                let to = self.buffers[i].address + at as u64;
                let rc = d.cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), n, raw);
                self.good("cuMemcpyHtoDAsync", rc);
                // Pageable memory may change as soon as the call has returned.
                drop(bytes);
            }
            9 | 10 => {
                let i = self.buffer(stream);
                let (at, n) = self.stretch(i, 1);
                self.good("cuStreamSynchronize", d.cuStreamSynchronize(raw));
                let mut out = vec![0u8; n];
                let from = self.buffers[i].address + at as u64;
                self.good(
                    "cuMemcpyDtoH",
                    d.cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), from, n),
                );
                self.note_bytes(&out);
            }
            11 => {
                let i = self.buffer(stream);
                let (at, n) = self.stretch(i, 1);
                let mut host = 0;
                self.good("cuMemHostAlloc", d.cuMemHostAlloc(&mut host, n, 0));
                let from = self.buffers[i].address + at as u64;
                let rc = d.cuMemcpyDtoHAsync_v2(host as *mut c_void, from, n, raw);
                self.good("cuMemcpyDtoHAsync", rc);
                self.pending.push(Pending {
                    host,
                    len: n,
                    stream,
                });
            }
            12 => {
                let i = self.buffer(stream);
                let (at, n) = self.stretch(i, 4);
                let v = self.rng.next_u64() as u32;
                let to = self.buffers[i].address + at as u64;
                let rc = d.cuMemsetD32Async(to, v, n / 4, raw);
                self.good("cuMemsetD32Async", rc);
            }
            13..=16 => self.launch(stream),
            17 => {
                let (a, b) = (self.buffer(stream), self.buffer(stream));
                if a != b {
                    let n = self.buffers[a].len.min(self.buffers[b].len);
                    let (to, from) = (self.buffers[a].address, self.buffers[b].address);
                    self.good(
                        "cuMemcpyDtoDAsync",
                        d.cuMemcpyDtoDAsync_v2(to, from, n, raw),
                    );
                }
            }
            18 => {
                let rc = d.cuStreamQuery(raw);
                assert!(rc == 0 || rc == 600, "cuStreamQuery: {rc}");
                self.good("cuStreamSynchronize", d.cuStreamSynchronize(raw));
                self.collect(Some(stream));
            }
            19 => {
                let user = std::ptr::from_ref(self.called).cast_mut().cast();
                self.good("cuLaunchHostFunc", d.cuLaunchHostFunc(raw, count, user));
                self.counter += 1;
                self.good("cuStreamSynchronize", d.cuStreamSynchronize(raw));
                self.note(self.called.load(ORDER));
                assert_eq!(self.called.load(ORDER), self.counter, "host functions");
                self.collect(Some(stream));
            }
            20 => self.module(),
            22..=26 => self.with_the_host(stream),
            _ => self.mistakes(),
        }
    }

    fn launch(&mut self, stream: usize) {
        let raw = self.streams[stream];
        let k = &self.kernels;
        let (fill, iota, add) = (k.fill, k.iota, k.add);
        let (copy, reduce, scramble) = (k.copy, k.reduce, k.scramble);
        let a = self.buffer(stream);
        let b = self.buffer(stream);
        let (pa, pb) = (self.buffers[a].address, self.buffers[b].address);
        let n = self.buffers[a].len.min(self.buffers[b].len) as u64;
        let seed = self.rng.next_u64();
        let rc = match self.rng.below(6) {
            0 => self.d.launch(fill, raw, &[pa, seed & 0xffff_ffff, n / 4]),
            1 => self.d.launch(iota, raw, &[pa, seed & 0xffff_ffff, n / 4]),
            2 => self.d.launch(scramble, raw, &[pa, seed, n / 8]),
            3 if a != b => self.d.launch(copy, raw, &[pa, pb, n]),
            4 if a != b => self.d.launch(reduce, raw, &[pa, pb, n / 4]),
            5 if a != b => {
                // Numbers that are exact in single precision, so that no order of adding matters.
                let words = [pb, seed & 0xff, n / 4];
                self.good("cuLaunchKernel", self.d.launch(fill, raw, &words));
                self.d.launch(add, raw, &[pa, pb, pb, n / 4])
            }
            _ => 0,
        };
        self.good("cuLaunchKernel", rc);
    }

    /// Loads a module, uses its global, and unloads it.
    fn module(&mut self) {
        let d = self.d;
        let (mut m, mut p, mut n) = (0, 0, 0);
        self.good(
            "cuModuleLoadData",
            d.cuModuleLoadData(&mut m, IMAGE.as_ptr().cast()),
        );
        let rc = d.cuModuleGetGlobal_v2(&mut p, &mut n, m, c"counter".as_ptr());
        self.good("cuModuleGetGlobal", rc);
        self.note(n as u64);
        let bytes = self.rng.bytes(n);
        self.good(
            "cuMemcpyHtoD",
            d.cuMemcpyHtoD_v2(p, bytes.as_ptr().cast(), n),
        );
        let mut out = vec![0u8; n];
        self.good(
            "cuMemcpyDtoH",
            d.cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), p, n),
        );
        self.note_bytes(&out);
        let mut f = 0;
        let rc = d.cuModuleGetFunction(&mut f, m, c"no such kernel".as_ptr());
        self.note(rc as u64);
        self.good("cuModuleUnload", d.cuModuleUnload(m));
    }

    /// Calls that fail: the same error everywhere, and no harm done.
    fn mistakes(&mut self) {
        let d = self.d;
        let mut x = 0;
        let rc = match self.rng.below(5) {
            0 => d.cuMemFree_v2(0x1234_5000),
            1 => d.cuMemAlloc_v2(&mut x, 0),
            2 => d.cuMemAlloc_v2(&mut x, 1 << 50),
            3 => d.cuMemcpyHtoD_v2(0x10, [1u8; 8].as_ptr().cast(), 8),
            _ => {
                let mut dev = 0;
                d.cuDeviceGet(&mut dev, 99)
            }
        };
        assert_ne!(rc, 0, "a mistake was not noticed");
        self.note(rc as u64);
    }

    fn finish(&mut self) {
        self.good("cuCtxSynchronize", self.d.cuCtxSynchronize());
        self.collect(None);
        for i in 0..self.buffers.len() {
            let (p, n) = (self.buffers[i].address, self.buffers[i].len);
            let mut out = vec![0u8; n];
            self.good(
                "cuMemcpyDtoH",
                self.d.cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), p, n),
            );
            self.note_bytes(&out);
        }
        for b in std::mem::take(&mut self.buffers) {
            self.good("cuMemFree", self.d.cuMemFree_v2(b.address));
        }
        for stream in self.streams.split_off(1) {
            self.good("cuStreamDestroy", self.d.cuStreamDestroy_v2(stream));
        }
    }
}
