//! Rows of launches on several streams, in which nothing but the order of each stream says what is
//! computed, and what comes between them: events, the legacy stream, captures, copies.

use super::program::Kernels;
use crate::driver::Driver;
use busbar_harness::rng::Rng;

/// Words of a buffer.
const WORDS: usize = 64;
const BYTES: usize = WORDS * 8;
const THREADS: u64 = 3;
const RELAXED: i32 = 2;

struct Rows<'d> {
    d: &'d Driver,
    rng: Rng,
    kernels: Kernels,
    /// The first is the legacy default stream, the second waits for it, the others do not.
    streams: Vec<usize>,
    /// A buffer of each stream.
    buffers: Vec<u64>,
    event: usize,
    digest: u64,
}

/// Several threads of them; each prints what its buffers were.
pub fn run(d: &Driver, seed: u64, steps: u64) {
    d.begin();
    let kernels = Kernels::of(d);
    let digests: Vec<u64> = std::thread::scope(|s| {
        let start = |i| {
            s.spawn(move || {
                d.make_current();
                Rows::new(d, kernels, seed * THREADS + i).all(steps)
            })
        };
        let all: Vec<_> = (0..THREADS).map(start).collect();
        let end = |t: std::thread::ScopedJoinHandle<'_, _>| t.join().expect("it ends well");
        all.into_iter().map(end).collect()
    });
    for digest in digests {
        println!("{digest:016x}");
    }
}

/// One thread launches in rows until a call fails, then says with what, and waits.
pub fn until_refused(d: &Driver) {
    d.begin();
    let kernels = Kernels::of(d);
    let rows = Rows::new(d, kernels, 1);
    for i in 0..1_000_000u64 {
        let at = 2 + i as usize % 3;
        let words = [rows.buffers[at], i, WORDS as u64];
        let mut rc = d.launch(kernels.scramble, rows.streams[at], &words);
        if rc == 0 && i % 500 == 499 {
            rc = d.cuStreamSynchronize(rows.streams[2]);
        }
        if rc != 0 {
            println!("refused {rc}");
            let _ = std::io::stdin().lines().next();
            return;
        }
    }
    println!("nothing was refused");
}

impl<'d> Rows<'d> {
    fn new(d: &'d Driver, kernels: Kernels, seed: u64) -> Self {
        let mut streams = vec![0; 6];
        for (i, stream) in streams.iter_mut().enumerate().skip(1) {
            assert_eq!(d.cuStreamCreate(stream, u32::from(i > 1)), 0);
        }
        let fresh = |_| {
            let p = d.alloc(BYTES);
            assert_eq!(d.cuMemsetD8_v2(p, 1, BYTES), 0);
            p
        };
        let mut event = 0;
        assert_eq!(d.cuEventCreate(&mut event, 2), 0);
        let buffers = (0..streams.len()).map(fresh).collect();
        // The memory is filled in the default stream, for which not all wait.
        assert_eq!(d.cuStreamSynchronize(0), 0);
        Self {
            d,
            rng: Rng::new(seed),
            kernels,
            streams,
            buffers,
            event,
            digest: 0,
        }
    }

    /// One of two kernels, which give something else the other way round.
    fn change(&mut self, buffer: usize, stream: usize) {
        let (p, half) = (self.buffers[buffer], BYTES as u64 / 2);
        let (kernel, words) = match self.rng.below(2) {
            0 => (
                self.kernels.scramble,
                [p, self.rng.below(1 << 30), WORDS as u64],
            ),
            _ => (self.kernels.copy, [p + half, p, half]),
        };
        assert_eq!(self.d.launch(kernel, self.streams[stream], &words), 0);
    }

    fn all(mut self, steps: u64) -> u64 {
        for _ in 0..steps {
            self.row();
            self.between();
        }
        for i in 0..self.buffers.len() {
            self.read(i);
        }
        for (stream, buffer) in self.streams.iter().zip(&self.buffers) {
            assert_eq!(self.d.cuMemFree_v2(*buffer), 0);
            if *stream != 0 {
                assert_eq!(self.d.cuStreamDestroy_v2(*stream), 0);
            }
        }
        assert_eq!(self.d.cuEventDestroy_v2(self.event), 0);
        self.digest
    }

    /// Launches in a row.
    fn row(&mut self) {
        let first = self.rng.below(3) as usize;
        let count = 1 + self.rng.below(self.streams.len() as u64 - first as u64);
        for _ in 0..1 + self.rng.below(200) {
            let at = first + self.rng.below(count) as usize;
            // What the legacy stream waits for, and what waits for it, may share a buffer.
            let buffer = if at == 1 {
                self.rng.below(2) as usize
            } else {
                at
            };
            self.change(buffer, at);
        }
    }

    /// Something else.
    fn between(&mut self) {
        let any = |rows: &mut Self, least| {
            least + rows.rng.below((rows.streams.len() - least) as u64) as usize
        };
        let at = any(self, 0);
        match self.rng.below(6) {
            // A buffer is used by another stream, behind an event.
            0 | 1 => {
                let other = any(self, 2);
                let (from, to) = (self.streams[at], self.streams[other]);
                assert_eq!(self.d.cuEventRecord(self.event, from), 0);
                assert_eq!(self.d.cuStreamWaitEvent(to, self.event, 0), 0);
                self.change(at, other);
                assert_eq!(self.d.cuEventRecord(self.event, to), 0);
                assert_eq!(self.d.cuStreamWaitEvent(from, self.event, 0), 0);
            }
            2 => self.read(at),
            3 => {
                let (p, stream) = (self.buffers[at], self.streams[at]);
                assert_eq!(self.d.cuMemsetD8Async(p, at as u8, BYTES / 2, stream), 0);
            }
            4 => assert_eq!(self.d.cuStreamSynchronize(self.streams[at]), 0),
            _ => self.capture(),
        }
    }

    /// A row that is captured, and launched.
    fn capture(&mut self) {
        let at = 2 + self.rng.below(2) as usize;
        let (stream, mut graph, mut exec) = (self.streams[at], 0, 0);
        assert_eq!(self.d.cuStreamBeginCapture_v2(stream, RELAXED), 0);
        for _ in 0..self.rng.below(30) {
            self.change(at, at);
            // Another stream goes on meanwhile.
            self.change(4, 4);
        }
        assert_eq!(self.d.cuStreamEndCapture(stream, &mut graph), 0);
        assert_eq!(self.d.cuGraphInstantiateWithFlags(&mut exec, graph, 0), 0);
        assert_eq!(self.d.cuGraphLaunch(exec, stream), 0);
        assert_eq!(self.d.cuGraphExecDestroy(exec), 0);
        assert_eq!(self.d.cuGraphDestroy(graph), 0);
    }

    fn read(&mut self, at: usize) {
        let mut words = [0u64; WORDS];
        let (to, stream) = (words.as_mut_ptr().cast(), self.streams[at]);
        let rc = self
            .d
            .cuMemcpyDtoHAsync_v2(to, self.buffers[at], BYTES, stream);
        assert_eq!((rc, self.d.cuStreamSynchronize(stream)), (0, 0));
        for word in words {
            self.digest = (self.digest.rotate_left(7) ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
