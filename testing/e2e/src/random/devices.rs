//! Random programs that use several devices at once: copies between them, events that streams of
//! one record and streams of another wait for, page-locked memory that all of them copy.

use crate::driver::{Driver, IMAGE};
use busbar_harness::rng::Rng;
use std::ffi::c_void;

/// A device's context and streams.
struct Place {
    context: usize,
    streams: Vec<usize>,
    /// Kernels of a module of its own.
    fill: usize,
}

/// Memory of a device.
struct Buffer {
    device: usize,
    address: u64,
    len: usize,
    /// Who used it last: a device, and the index of a stream of its.
    last: (usize, usize),
}

/// Page-locked memory on its way from device to device.
struct Parcel {
    host: u64,
    len: usize,
    last: (usize, usize),
}

struct Program<'d> {
    d: &'d Driver,
    rng: Rng,
    places: Vec<Place>,
    /// A kernel of a library, which is no device's.
    scramble: usize,
    buffers: Vec<Buffer>,
    parcels: Vec<Parcel>,
    digest: u64,
    steps: u64,
}

const STREAMS: usize = 3;
const MOST_BUFFERS: usize = 16;

/// Runs `steps` random calls on all devices, and prints a trace and a digest.
pub fn run(d: &Driver, seed: u64, steps: u64, most: u64) {
    assert_eq!(d.cuInit(0), 0, "cuInit");
    let mut n = 0;
    assert_eq!(d.cuDeviceGetCount(&mut n), 0);
    println!("devices {n}");
    let (mut library, mut scramble) = (0, 0);
    let none = std::ptr::null_mut::<c_void>;
    let image = IMAGE.as_ptr().cast();
    let rc = d.cuLibraryLoadData(&mut library, image, none(), none(), 0, none(), none(), 0);
    assert_eq!(rc, 0, "cuLibraryLoadData");
    let place = |device| {
        let (mut context, mut module, mut fill) = (0, 0, 0);
        assert_eq!(d.cuDevicePrimaryCtxRetain(&mut context, device), 0);
        assert_eq!(d.cuCtxSetCurrent(context), 0);
        assert_eq!(d.cuModuleLoadData(&mut module, image), 0);
        let name = c"fill_u32".as_ptr();
        assert_eq!(d.cuModuleGetFunction(&mut fill, module, name), 0);
        let stream = |_| {
            let mut s = 0;
            assert_eq!(d.cuStreamCreate(&mut s, 1), 0);
            s
        };
        Place {
            context,
            streams: (0..STREAMS).map(stream).collect(),
            fill,
        }
    };
    let places: Vec<_> = (0..n).map(place).collect();
    let name = c"scramble".as_ptr();
    assert_eq!(d.cuLibraryGetKernel(&mut scramble, library, name), 0);
    let mut p = Program {
        d,
        rng: Rng::new(seed),
        places,
        scramble,
        buffers: Vec::new(),
        parcels: Vec::new(),
        digest: 0,
        steps: 0,
    };
    for _ in 0..steps {
        p.step(most);
        p.steps += 1;
        if p.steps.is_multiple_of(16) {
            println!("{} {:016x}", p.steps, p.digest);
        }
    }
    p.finish();
    println!("end {:016x}", p.digest);
}

impl Program<'_> {
    fn good(&self, what: &str, rc: i32) {
        assert_eq!(rc, 0, "step {}: {what}", self.steps);
    }

    fn note(&mut self, bytes: &[u8]) {
        for c in bytes.chunks(8) {
            let mut w = [0; 8];
            w[..c.len()].copy_from_slice(c);
            self.digest = (self.digest.rotate_left(7) ^ u64::from_le_bytes(w))
                .wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn pick(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    fn stream(&self, (device, stream): (usize, usize)) -> usize {
        self.places[device].streams[stream]
    }

    /// Makes a device's context current.
    fn on(&self, device: usize) {
        let rc = self.d.cuCtxSetCurrent(self.places[device].context);
        self.good("cuCtxSetCurrent", rc);
    }

    /// What a stream did is before what another does from here on.
    fn order(&mut self, from: (usize, usize), to: (usize, usize)) {
        if from == to {
            return;
        }
        let (d, mut event) = (self.d, 0);
        self.on(from.0);
        self.good("cuEventCreate", d.cuEventCreate(&mut event, 2));
        self.good("cuEventRecord", d.cuEventRecord(event, self.stream(from)));
        match self.rng.below(8) {
            0 => {
                // Whatever is current.
                self.on(to.0);
                self.good("cuEventSynchronize", d.cuEventSynchronize(event));
            }
            1 => {
                let rc = d.cuEventQuery(event);
                assert!(rc == 0 || rc == 600, "cuEventQuery: {rc}");
                let rc = d.cuStreamWaitEvent(self.stream(to), event, 0);
                self.good("cuStreamWaitEvent", rc);
            }
            _ => {
                self.on(to.0);
                let rc = d.cuStreamWaitEvent(self.stream(to), event, 0);
                self.good("cuStreamWaitEvent", rc);
            }
        }
        self.good("cuEventDestroy", d.cuEventDestroy_v2(event));
    }

    fn alloc(&mut self, most: u64) {
        let device = self.pick(self.places.len());
        let len = 64 + self.rng.magnitude(most) as usize;
        let last = (device, self.pick(STREAMS));
        self.on(device);
        let address = self.d.alloc(len);
        let rc = self.d.cuMemsetD8Async(address, 3, len, self.stream(last));
        self.good("cuMemsetD8Async", rc);
        self.buffers.push(Buffer {
            device,
            address,
            len,
            last,
        });
    }

    /// A random buffer, usable in a stream from here on.
    fn buffer(&mut self, stream: (usize, usize)) -> usize {
        let i = self.pick(self.buffers.len());
        self.use_in(i, stream);
        i
    }

    fn use_in(&mut self, i: usize, stream: (usize, usize)) {
        self.order(self.buffers[i].last, stream);
        self.buffers[i].last = stream;
    }

    /// A random buffer, and a stream of its device's in which it is usable.
    fn buffer_at_home(&mut self) -> (usize, (usize, usize)) {
        let i = self.pick(self.buffers.len());
        let stream = (self.buffers[i].device, self.pick(STREAMS));
        self.use_in(i, stream);
        self.on(stream.0);
        (i, stream)
    }

    fn step(&mut self, most: u64) {
        if self.buffers.len() < 4 {
            return self.alloc(most);
        }
        let d = self.d;
        match self.rng.below(16) {
            0 if self.buffers.len() < MOST_BUFFERS => self.alloc(most),
            1 => {
                let (i, stream) = self.buffer_at_home();
                let b = self.buffers.swap_remove(i);
                let rc = d.cuStreamSynchronize(self.stream(stream));
                self.good("cuStreamSynchronize", rc);
                // Memory is freed wherever one is.
                self.on(0);
                self.good("cuMemFree", d.cuMemFree_v2(b.address));
            }
            2 | 3 => {
                let (i, stream) = self.buffer_at_home();
                let (to, len) = (self.buffers[i].address, self.buffers[i].len);
                let bytes = self.rng.bytes(len);
                let rc =
                    d.cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), len, self.stream(stream));
                self.good("cuMemcpyHtoDAsync", rc);
            }
            4 | 5 => {
                let (i, stream) = self.buffer_at_home();
                let (from, len) = (self.buffers[i].address, self.buffers[i].len);
                let rc = d.cuStreamSynchronize(self.stream(stream));
                self.good("cuStreamSynchronize", rc);
                if self.rng.one_in(2) {
                    // From wherever one is, too.
                    let device = self.pick(self.places.len());
                    self.on(device);
                }
                let mut out = vec![0u8; len];
                let rc = d.cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), from, len);
                self.good("cuMemcpyDtoH", rc);
                self.note(&out);
            }
            6 => {
                // A parcel is sent, and taken out elsewhere.
                let (i, stream) = self.buffer_at_home();
                let (from, len) = (self.buffers[i].address, self.buffers[i].len);
                let mut host = 0;
                self.good("cuMemHostAlloc", d.cuMemHostAlloc(&mut host, len, 1));
                let to = host as *mut c_void;
                let rc = d.cuMemcpyDtoHAsync_v2(to, from, len, self.stream(stream));
                self.good("cuMemcpyDtoHAsync", rc);
                self.parcels.push(Parcel {
                    host,
                    len,
                    last: stream,
                });
            }
            7 if !self.parcels.is_empty() => {
                let p = self.pick(self.parcels.len());
                let (i, stream) = self.buffer_at_home();
                self.order(self.parcels[p].last, stream);
                self.on(stream.0);
                self.parcels[p].last = stream;
                let (host, n) = (self.parcels[p].host, self.parcels[p].len);
                let (to, len) = (self.buffers[i].address, self.buffers[i].len.min(n));
                let from = host as *const c_void;
                let rc = d.cuMemcpyHtoDAsync_v2(to, from, len, self.stream(stream));
                self.good("cuMemcpyHtoDAsync", rc);
            }
            8 if self.parcels.len() > 4 => self.open_parcel(),
            9 | 10 => {
                let (i, stream) = self.buffer_at_home();
                let (at, len) = (self.buffers[i].address, self.buffers[i].len as u64);
                let seed = self.rng.next_u64();
                let raw = self.stream(stream);
                let rc = match self.rng.below(2) {
                    0 => d.launch(self.scramble, raw, &[at, seed, len / 8]),
                    _ => {
                        let fill = self.places[stream.0].fill;
                        d.launch(fill, raw, &[at, seed & 0xffff_ffff, len / 4])
                    }
                };
                self.good("cuLaunchKernel", rc);
            }
            _ => self.copy(),
        }
    }

    /// A copy from a buffer to another, of whatever devices.
    fn copy(&mut self) {
        let d = self.d;
        let i = self.pick(self.buffers.len());
        let stream = (self.buffers[i].device, self.pick(STREAMS));
        // In a stream of one of the two devices.
        let j = self.buffer(stream);
        self.use_in(i, stream);
        if i == j {
            return;
        }
        let (to, from) = if self.rng.one_in(2) { (i, j) } else { (j, i) };
        let (to, from) = (&self.buffers[to], &self.buffers[from]);
        let n = to.len.min(from.len);
        let contexts = (
            self.places[to.device].context,
            self.places[from.device].context,
        );
        let (to, from) = (to.address, from.address);
        let raw = self.stream(stream);
        self.on(stream.0);
        match self.rng.below(8) {
            0 | 1 => {
                let rc = d.cuMemcpyPeerAsync(to, contexts.0, from, contexts.1, n, raw);
                self.good("cuMemcpyPeerAsync", rc);
            }
            2 => self.good("cuMemcpyAsync", d.cuMemcpyAsync(to, from, n, raw)),
            3 => {
                let rc = d.cuMemcpyDtoDAsync_v2(to, from, n, raw);
                self.good("cuMemcpyDtoDAsync", rc);
            }
            6 | 7 => self.copy_rows((to, from), contexts, n, raw),
            way => {
                self.good("cuStreamSynchronize", d.cuStreamSynchronize(raw));
                let rc = match way {
                    4 => d.cuMemcpyPeer(to, contexts.0, from, contexts.1, n),
                    _ => d.cuMemcpy(to, from, n),
                };
                self.good("cuMemcpyPeer", rc);
                self.good("cuCtxSynchronize", d.cuCtxSynchronize());
            }
        }
    }

    /// A copy of some rows, or of a box of them, of `n` bytes from the first to the last.
    fn copy_rows(
        &mut self,
        (to, from): (u64, u64),
        contexts: (usize, usize),
        n: usize,
        raw: usize,
    ) {
        /// Memory of a device; whatever the address says.
        const KINDS: [u64; 2] = [2, 4];
        let n = n as u64;
        // Not too many.
        let width = n / 200 + 1 + self.rng.below(n / 4);
        let pitch = width + self.rng.below(40);
        let rows = (n - width) / pitch + 1;
        let (one, other) = (self.rng.below(2) as usize, self.rng.below(2) as usize);
        let mut shape = [0; 25];
        let rc = if self.rng.one_in(2) {
            shape[2] = KINDS[one];
            (shape[4], shape[6]) = (from, pitch);
            shape[9] = KINDS[other];
            (shape[11], shape[13]) = (to, pitch);
            (shape[14], shape[15]) = (width, rows);
            let mut flat = [0; 16];
            flat.copy_from_slice(&shape[..16]);
            self.d.cuMemcpy2DAsync_v2(&flat, raw)
        } else {
            let height = 1 + self.rng.below(rows);
            shape[4] = KINDS[one];
            (shape[6], shape[8], shape[9], shape[10]) = (from, contexts.1 as u64, pitch, height);
            shape[15] = KINDS[other];
            (shape[17], shape[19], shape[20], shape[21]) = (to, contexts.0 as u64, pitch, height);
            (shape[22], shape[23], shape[24]) = (width, height, rows / height);
            self.d.cuMemcpy3DPeerAsync(&shape, raw)
        };
        self.good("a copy of rows", rc);
    }

    fn open_parcel(&mut self) {
        let p = self.pick(self.parcels.len());
        let p = self.parcels.swap_remove(p);
        let rc = self.d.cuStreamSynchronize(self.stream(p.last));
        self.good("cuStreamSynchronize", rc);
        // SAFETY: page-locked memory of that length, whose copies have been waited for.
        let bytes = unsafe { std::slice::from_raw_parts(p.host as *const u8, p.len) }.to_vec();
        self.note(&bytes);
        self.on(0);
        self.good("cuMemFreeHost", self.d.cuMemFreeHost(p.host));
    }

    fn finish(&mut self) {
        while !self.parcels.is_empty() {
            self.open_parcel();
        }
        for i in 0..self.buffers.len() {
            let stream = (self.buffers[i].device, 0);
            self.use_in(i, stream);
            self.on(stream.0);
            self.good("cuCtxSynchronize", self.d.cuCtxSynchronize());
            let mut out = vec![0u8; self.buffers[i].len];
            let from = self.buffers[i].address;
            let rc = self
                .d
                .cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), from, out.len());
            self.good("cuMemcpyDtoH", rc);
            self.note(&out);
        }
    }
}
