//! What random programs do with memory of their own: rows, page-locked memory between two pieces of
//! work, functions that write it, managed memory, graphs.

use super::program::{Pending, Program};
use std::ffi::c_void;

/// Bytes that a host function writes, and where. Such memory lives to the program's end.
struct Write {
    to: u64,
    n: usize,
    value: u8,
}

unsafe extern "C" fn write(data: *mut c_void) {
    // SAFETY: the program below leaks one for each call.
    let w = unsafe { &*data.cast::<Write>() };
    // SAFETY: page-locked memory of that length, which nobody else uses.
    unsafe { std::slice::from_raw_parts_mut(w.to as *mut u8, w.n) }.fill(w.value);
}

const HOST: u64 = 1;
const DEVICE: u64 = 2;

/// One end of a box: kind, address, pitch.
type End = (u64, u64, u64);

fn words((kind, p, pitch): End) -> [u64; 7] {
    let of = |k| if kind == k { p } else { 0 };
    [0, 0, kind, of(HOST), of(DEVICE), 0, pitch]
}

/// A `CUDA_MEMCPY2D`.
fn rows(src: End, dst: End, width: u64, height: u64) -> [u64; 16] {
    let mut all = [0; 16];
    all[..7].copy_from_slice(&words(src));
    all[7..14].copy_from_slice(&words(dst));
    (all[14], all[15]) = (width, height);
    all
}

impl Program<'_> {
    pub(super) fn with_the_host(&mut self, stream: usize) {
        match self.rng.below(8) {
            0 | 1 => self.rows(stream),
            2 | 3 => self.bounce(stream),
            4 => self.function(stream),
            5 => self.hurry(stream),
            6 => self.managed(stream),
            _ => self.graph(stream),
        }
    }

    fn pinned(&mut self, n: usize) -> u64 {
        let mut host = 0;
        let rc = self.d.cuMemHostAlloc(&mut host, n, 0);
        self.good("cuMemHostAlloc", rc);
        host
    }

    /// Rows to the device and back, pageable or page-locked, waited for or not.
    fn rows(&mut self, stream: usize) {
        let raw = self.streams[stream];
        let i = self.buffer(stream);
        let (p, len) = (self.buffers[i].address, self.buffers[i].len);
        let height = 1 + self.rng.below(6) as usize;
        let pitch = len / height;
        let width = 1 + self.rng.below(pitch as u64) as usize;
        let packed = width + self.rng.below(40) as usize;
        let (height_, width_) = (height as u64, width as u64);
        let there = (DEVICE, p, pitch as u64);
        let mut bytes = self.rng.bytes(packed * height);
        let here = |p: *mut u8| (HOST, p as u64, packed as u64);
        self.good("cuStreamSynchronize", self.d.cuStreamSynchronize(raw));
        let to = rows(here(bytes.as_mut_ptr()), there, width_, height_);
        let rc = match self.rng.one_in(2) {
            true => self.d.cuMemcpy2D_v2(&to),
            false => self.d.cuMemcpy2DAsync_v2(&to, raw),
        };
        self.good("cuMemcpy2D", rc);
        bytes.fill(0);
        if self.rng.one_in(2) {
            let back = rows(there, here(bytes.as_mut_ptr()), width_, height_);
            let rc = self.d.cuMemcpy2DAsync_v2(&back, raw);
            self.good("cuMemcpy2DAsync", rc);
            self.good("cuStreamSynchronize", self.d.cuStreamSynchronize(raw));
            self.note_bytes(&bytes);
            return;
        }
        let host = self.pinned(packed * height);
        // SAFETY: page-locked memory of that size; the gaps between rows are compared, too.
        unsafe { std::ptr::write_bytes(host as *mut u8, 0, packed * height) };
        let back = rows(there, here(host as *mut u8), width_, height_);
        let rc = self.d.cuMemcpy2DAsync_v2(&back, raw);
        self.good("cuMemcpy2DAsync", rc);
        self.pending.push(Pending {
            host,
            len: packed * height,
            stream,
        });
    }

    /// From one buffer to another, by way of page-locked memory, without waiting in between.
    fn bounce(&mut self, stream: usize) {
        let raw = self.streams[stream];
        let (a, b) = (self.buffer(stream), self.buffer(stream));
        let n = self.buffers[a].len.min(self.buffers[b].len);
        let (from, to) = (self.buffers[a].address, self.buffers[b].address);
        let host = self.pinned(n);
        let place = host as *mut c_void;
        let rc = self.d.cuMemcpyDtoHAsync_v2(place, from, n, raw);
        self.good("cuMemcpyDtoHAsync", rc);
        let rc = self.d.cuMemcpyHtoDAsync_v2(to, place, n, raw);
        self.good("cuMemcpyHtoDAsync", rc);
        // To free it is to wait for what uses it.
        self.good("cuMemFreeHost", self.d.cuMemFreeHost(host));
    }

    /// What a function writes is copied behind it.
    fn function(&mut self, stream: usize) {
        let raw = self.streams[stream];
        let i = self.buffer(stream);
        let (at, n) = self.stretch(i, 1);
        let host = self.pinned(n);
        let value = self.rng.below(256) as u8;
        let w = Box::leak(Box::new(Write { to: host, n, value }));
        let rc = self
            .d
            .cuLaunchHostFunc(raw, write, std::ptr::from_mut(w).cast());
        self.good("cuLaunchHostFunc", rc);
        let to = self.buffers[i].address + at as u64;
        let rc = self
            .d
            .cuMemcpyHtoDAsync_v2(to, host as *const c_void, n, raw);
        self.good("cuMemcpyHtoDAsync", rc);
        self.pending.push(Pending {
            host,
            len: n,
            stream,
        });
    }

    /// Page-locked memory is freed, and had again, under a copy out of it.
    fn hurry(&mut self, stream: usize) {
        let raw = self.streams[stream];
        let i = self.buffer(stream);
        let (at, n) = self.stretch(i, 1);
        let to = self.buffers[i].address + at as u64;
        let bytes = self.rng.bytes(n);
        let host = self.pinned(n);
        // SAFETY: page-locked memory of that size.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), host as *mut u8, n) };
        let rc = self
            .d
            .cuMemcpyHtoDAsync_v2(to, host as *const c_void, n, raw);
        self.good("cuMemcpyHtoDAsync", rc);
        self.good("cuMemFreeHost", self.d.cuMemFreeHost(host));
        let next = self.pinned(n);
        // SAFETY: as above.
        unsafe { std::ptr::write_bytes(next as *mut u8, 0xee, n) };
        self.good("cuMemFreeHost", self.d.cuMemFreeHost(next));
    }

    /// Memory that the program and kernels write in turn.
    fn managed(&mut self, stream: usize) {
        let raw = self.streams[stream];
        let n = 1 + self.rng.magnitude(100_000) as usize;
        let mut p = 0;
        let rc = self.d.cuMemAllocManaged(&mut p, n * 4, 1);
        self.good("cuMemAllocManaged", rc);
        let word = |i: usize| (p as usize + 4 * i) as *mut u32;
        for turn in 0..2 {
            let (i, v) = (
                self.rng.below(n as u64) as usize,
                self.rng.next_u64() as u32,
            );
            let first = u64::from(v & 0xffff) + turn;
            let rc = self.d.launch(self.kernels.iota, raw, &[p, first, n as u64]);
            self.good("cuLaunchKernel", rc);
            self.good("cuStreamSynchronize", self.d.cuStreamSynchronize(raw));
            // SAFETY: managed memory, and no kernel uses it.
            let seen = unsafe {
                word(i).write_volatile(v);
                [0, i, n - 1].map(|i| u64::from(word(i).read_volatile()))
            };
            seen.into_iter().for_each(|v| self.note(v));
            let b = self.buffer(stream);
            let some = (n * 4).min(self.buffers[b].len);
            let to = self.buffers[b].address;
            let rc = self.d.cuMemcpyDtoDAsync_v2(to, p, some, raw);
            self.good("cuMemcpyDtoDAsync", rc);
        }
        self.good("cuStreamSynchronize", self.d.cuStreamSynchronize(raw));
        self.good("cuMemFree", self.d.cuMemFree_v2(p));
    }

    /// Work that is captured once and launched twice, with copies from and to page-locked memory.
    fn graph(&mut self, stream: usize) {
        // The legacy stream cannot capture, nor be used while a stream does that waits for it.
        if stream == 0 || !self.alone {
            return;
        }
        let d = self.d;
        let raw = self.streams[stream];
        let i = self.buffer(stream);
        let (at, n) = self.stretch(i, 8);
        let p = self.buffers[i].address + at as u64;
        let (from, to) = (self.pinned(n), self.pinned(n));
        let seed = self.rng.next_u64();
        let (mut graph, mut exec) = (0, 0);
        self.good("cuStreamBeginCapture", d.cuStreamBeginCapture_v2(raw, 2));
        let rc = d.cuMemcpyHtoDAsync_v2(p, from as *const c_void, n, raw);
        self.good("cuMemcpyHtoDAsync", rc);
        let rc = d.launch(self.kernels.scramble, raw, &[p, seed, n as u64 / 8]);
        self.good("cuLaunchKernel", rc);
        let rc = d.cuMemcpyDtoHAsync_v2(to as *mut c_void, p, n, raw);
        self.good("cuMemcpyDtoHAsync", rc);
        self.good("cuStreamEndCapture", d.cuStreamEndCapture(raw, &mut graph));
        let rc = d.cuGraphInstantiateWithFlags(&mut exec, graph, 0);
        self.good("cuGraphInstantiate", rc);
        for _ in 0..2 {
            let bytes = self.rng.bytes(n);
            // SAFETY: page-locked memory of that size, which no work uses.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), from as *mut u8, n) };
            self.good("cuGraphLaunch", d.cuGraphLaunch(exec, raw));
            self.good("cuStreamSynchronize", d.cuStreamSynchronize(raw));
            // SAFETY: as above.
            let seen = unsafe { std::slice::from_raw_parts(to as *const u8, n) }.to_vec();
            self.note_bytes(&seen);
        }
        self.good("cuGraphExecDestroy", d.cuGraphExecDestroy(exec));
        self.good("cuGraphDestroy", d.cuGraphDestroy(graph));
        for host in [from, to] {
            self.good("cuMemFreeHost", d.cuMemFreeHost(host));
        }
    }
}
