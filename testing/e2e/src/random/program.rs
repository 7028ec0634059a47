//! A random program's state, and what all its steps are made of.

use crate::driver::Driver;
use busbar_harness::rng::Rng;
use std::sync::atomic::AtomicU64;

/// A piece of device memory.
pub struct Buffer {
    pub address: u64,
    pub len: usize,
    /// Index of the stream that last used it.
    pub stream: usize,
    /// Whether it came from a memory pool.
    pub pooled: bool,
}

/// A copy to the host that has not been waited for.
pub struct Pending {
    pub host: u64,
    pub len: usize,
    pub stream: usize,
}

pub struct Program<'d> {
    pub d: &'d Driver,
    pub rng: Rng,
    pub buffers: Vec<Buffer>,
    /// Stream 0 is the legacy default stream.
    pub streams: Vec<usize>,
    pub pending: Vec<Pending>,
    pub kernels: Kernels,
    pub counter: u64,
    /// Counts what host functions do.
    pub called: &'static AtomicU64,
    pub digest: u64,
    pub steps: u64,
    /// The largest buffer.
    pub most: u64,
    /// No other thread uses the driver: a capture is disturbed by nobody.
    pub alone: bool,
    pub trace: Vec<String>,
}

#[derive(Clone, Copy)]
pub struct Kernels {
    pub fill: usize,
    pub iota: usize,
    pub add: usize,
    pub copy: usize,
    pub reduce: usize,
    pub scramble: usize,
}

impl Program<'_> {
    pub fn note(&mut self, v: u64) {
        self.digest = (self.digest.rotate_left(7) ^ v).wrapping_mul(0x0000_0100_0000_01b3);
    }

    pub fn note_bytes(&mut self, bytes: &[u8]) {
        for c in bytes.chunks(8) {
            let mut w = [0; 8];
            w[..c.len()].copy_from_slice(c);
            self.note(u64::from_le_bytes(w));
        }
    }

    /// A call that must succeed.
    pub fn good(&self, what: &str, rc: i32) {
        assert_eq!(rc, 0, "step {}: {what}", self.steps);
    }

    pub fn alloc(&mut self) -> usize {
        let len = 64 + self.rng.magnitude(self.most) as usize;
        let stream = self.rng.below(self.streams.len() as u64) as usize;
        let pooled = self.rng.one_in(3);
        let mut address = 0;
        let raw = self.streams[stream];
        if pooled {
            self.good(
                "cuMemAllocAsync",
                self.d.cuMemAllocAsync(&mut address, len, raw),
            );
        } else {
            self.good("cuMemAlloc", self.d.cuMemAlloc_v2(&mut address, len));
        }
        self.good(
            "cuMemsetD8Async",
            self.d.cuMemsetD8Async(address, 1, len, raw),
        );
        self.buffers.push(Buffer {
            address,
            len,
            stream,
            pooled,
        });
        self.buffers.len() - 1
    }

    /// A random buffer, usable on `stream` from here on.
    pub fn buffer(&mut self, stream: usize) -> usize {
        if self.buffers.len() < 3 {
            self.alloc();
        }
        let i = self.rng.below(self.buffers.len() as u64) as usize;
        self.hand_over(i, stream);
        i
    }

    pub fn hand_over(&mut self, i: usize, stream: usize) {
        let from = self.buffers[i].stream;
        if from != stream {
            let mut event = 0;
            self.good("cuEventCreate", self.d.cuEventCreate(&mut event, 2));
            self.good(
                "cuEventRecord",
                self.d.cuEventRecord(event, self.streams[from]),
            );
            let rc = self.d.cuStreamWaitEvent(self.streams[stream], event, 0);
            self.good("cuStreamWaitEvent", rc);
            self.good("cuEventDestroy", self.d.cuEventDestroy_v2(event));
            self.buffers[i].stream = stream;
        }
    }

    /// An aligned stretch of a buffer: offset and length in bytes.
    pub fn stretch(&mut self, i: usize, align: usize) -> (usize, usize) {
        let units = (self.buffers[i].len / align) as u64;
        let n = 1 + self.rng.magnitude(units);
        let at = self.rng.below(units - n + 1);
        (at as usize * align, n as usize * align)
    }

    pub fn collect(&mut self, stream: Option<usize>) {
        let all = std::mem::take(&mut self.pending);
        for p in all {
            if stream.is_none_or(|s| s == p.stream) {
                // SAFETY: pinned memory of that length, whose copy has been waited for.
                let bytes = unsafe { std::slice::from_raw_parts(p.host as *const u8, p.len) };
                let bytes = bytes.to_vec();
                self.note_bytes(&bytes);
                self.good("cuMemFreeHost", self.d.cuMemFreeHost(p.host));
            } else {
                self.pending.push(p);
            }
        }
    }
}
