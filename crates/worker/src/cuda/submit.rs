//! Launches, and the threads that submit those of several streams side by side.
//!
//! [`Abreast`] decides which. A lane's launches are handed over in one piece, so that it costs the
//! executor little: what is full goes to the thread, which gives back what is empty.

use super::driver::{check, name_of, relax};
use super::prelude::*;
use super::state::abreast::{Abreast, Way};
use super::state::handles::pointers;
use busbar_channel::gate::{Gate, Wait};
use busbar_channel::{look, patience};
use busbar_wire::generated::cuda::op;
use busbar_wire::record::Header;

/// Launches in a lane at most: more is under way than a driver lets a stream have.
const MOST: u64 = 1024;
/// The longest parameters that are handed over, and the most attributes.
const PARAMETERS: usize = 4096;
const ATTRIBUTES: usize = 32;
/// Cores for each thread, and the most threads of a session.
const CORES: usize = 4;
const LANES: usize = 4;

/// Whether a record is a launch that nobody waits for: lanes are for these.
#[inline]
pub fn is_queued(h: &Header) -> bool {
    use op::{LAUNCH_AGAIN, LAUNCH_CHANGED, LAUNCH_KEPT, LAUNCH_KERNEL};
    matches!(
        h.op,
        LAUNCH_KERNEL | LAUNCH_KEPT | LAUNCH_AGAIN | LAUNCH_CHANGED
    ) && h.call == 0
}

/// What a launch is, for the driver.
pub struct Launch<'a> {
    pub function: CUfunction,
    /// Where its parameters are.
    pub layout: &'a [u32],
    pub stream: CUstream,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    /// As the driver leaves them.
    pub attrs: &'a mut [CUlaunchAttribute],
    /// Packed.
    pub params: &'a [u8],
}

pub const EXTRA_END: usize = 0;
pub const EXTRA_POINTER: usize = 1;
pub const EXTRA_SIZE: usize = 2;

/// Parameters in one piece, as the driver takes them. Both must live as long as what this is for.
pub fn in_one_piece(packed: &[u8], size: &mut usize) -> [*mut c_void; 5] {
    *size = packed.len();
    [
        std::ptr::without_provenance_mut(EXTRA_POINTER),
        packed.as_ptr().cast_mut().cast(),
        std::ptr::without_provenance_mut(EXTRA_SIZE),
        std::ptr::from_mut(size).cast(),
        std::ptr::without_provenance_mut(EXTRA_END),
    ]
}

/// A launch's configuration, which leads to the attributes.
pub fn config(
    [gx, gy, gz]: [u32; 3],
    [bx, by, bz]: [u32; 3],
    shared: u32,
    stream: CUstream,
    attrs: &mut [CUlaunchAttribute],
) -> CUlaunchConfig {
    CUlaunchConfig {
        gridDimX: gx,
        gridDimY: gy,
        gridDimZ: gz,
        blockDimX: bx,
        blockDimY: by,
        blockDimZ: bz,
        sharedMemBytes: shared,
        hStream: stream,
        attrs: attrs.as_mut_ptr(),
        numAttrs: attrs.len() as u32,
    }
}

impl Launch<'_> {
    /// Submits it to a stream of the current context. `list` is room for pointers to parameters.
    #[inline]
    fn submit(self, d: &Driver, list: &mut Vec<*mut c_void>) -> Result {
        let known = pointers(self.layout, self.params, list);
        let function = self.function;
        let mut size = 0;
        let mut extra = in_one_piece(self.params, &mut size);
        let none = std::ptr::null_mut::<*mut c_void>();
        let (params, extra) = match known {
            _ if self.params.is_empty() => (none, none),
            true => (list.as_mut_ptr(), none),
            false => (none, (&raw mut extra).cast::<*mut c_void>()),
        };
        let ([gx, gy, gz], [bx, by, bz]) = (self.grid, self.block);
        let stream = self.stream;
        // SAFETY: a live function and stream; the packed parameters and the attributes live through
        // the call. The parameters' length is the driver's to check.
        check(unsafe {
            if self.attrs.is_empty() {
                d.cuLaunchKernel(
                    function,
                    gx,
                    gy,
                    gz,
                    bx,
                    by,
                    bz,
                    self.shared,
                    stream,
                    params,
                    extra,
                )
            } else {
                let config = config(self.grid, self.block, self.shared, stream, self.attrs);
                d.cuLaunchKernelEx(&config, function, params, extra)
            }
        })
    }

    /// Submits it to a stream of the current context. `list` is room for pointers to parameters.
    #[inline]
    pub fn tried(self, d: &Driver, list: &mut Vec<*mut c_void>) -> Result<(), Refusal> {
        let Self {
            grid,
            block,
            shared,
            ..
        } = self;
        let (attrs, params) = (self.attrs.len(), self.params.len());
        self.submit(d, list).map_err(|rc| Refusal {
            rc,
            grid,
            block,
            shared,
            attrs,
            params,
        })
    }
}

/// A launch that the driver refused, as the log tells of it.
pub struct Refusal {
    pub rc: CUresult,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    attrs: usize,
    params: usize,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            grid,
            block,
            shared,
            attrs,
            params,
            ..
        } = self;
        write!(
            f,
            "a launch was refused: {} (grid {grid:?}, block {block:?}, shared {shared}, {attrs} \
             attributes, {params} bytes of parameters)",
            name_of(self.rc)
        )
    }
}

/// A launch in a lane.
struct Job {
    record: Header,
    context: u64,
    function: u64,
    stream: u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    /// How many of the batch's.
    layout: usize,
    attrs: usize,
    params: usize,
}

/// Launches that are handed over together.
#[derive(Default)]
struct Batch {
    jobs: Vec<Job>,
    layouts: Vec<u32>,
    attrs: Vec<CUlaunchAttribute>,
    params: Vec<u8>,
}

impl Batch {
    fn clear(&mut self) {
        self.jobs.clear();
        self.layouts.clear();
        self.attrs.clear();
        self.params.clear();
    }
}

/// The record of a launch that was refused in a lane.
pub type Refused = (Header, Refusal);

/// Far enough from what other threads write for the caches of both.
#[repr(align(128))]
struct Apart<T>(T);

/// What a lane's thread and the executor share.
struct Lane {
    batch: Apart<Mutex<Batch>>,
    /// Launches that were put in, which the executor says, and those that the driver has been told
    /// of, which the thread does.
    put: Apart<AtomicU64>,
    done: Apart<AtomicU64>,
    came: Gate,
    over: AtomicBool,
}

/// A lane as the executor has it.
struct Filled {
    lane: Arc<Lane>,
    put: u64,
    /// Those that were done when it was last asked.
    done: u64,
}

impl Filled {
    /// Launches that are in it at most, without a look.
    fn at_most(&self) -> u64 {
        self.put - self.done
    }

    /// Launches that are in it now.
    fn length(&self) -> u64 {
        self.put - self.lane.done.0.load(Ordering::Acquire)
    }
}

/// What lanes tell the executor.
struct Told {
    any: AtomicBool,
    refused: Mutex<Vec<Refused>>,
    /// Opened when a lane has become shorter.
    less: Gate,
}

/// The lanes of a session.
pub struct Submitters {
    driver: &'static Driver,
    abreast: Abreast,
    lanes: Vec<Filled>,
    told: Arc<Told>,
    /// Whether lanes may hold launches.
    busy: bool,
}

impl Submitters {
    /// With so many lanes, or as many as suit this machine.
    pub fn new(driver: &'static Driver, lanes: Option<usize>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            driver,
            abreast: Abreast::new(lanes.unwrap_or((cores / CORES).min(LANES))),
            lanes: Vec::new(),
            told: Arc::new(Told {
                any: AtomicBool::new(false),
                refused: Mutex::default(),
                less: Gate::new("lanes of launches"),
            }),
            busy: false,
        }
    }

    /// Whether a record that is no launch has anything to do with them.
    #[inline]
    pub fn concerns(&self) -> bool {
        self.busy || self.abreast.in_row()
    }

    /// Whether lanes hold launches, or may.
    #[inline]
    pub fn are_busy(&self) -> bool {
        self.busy
    }

    /// Whether a launch was refused in a lane.
    #[inline]
    pub fn have_failed(&self) -> bool {
        self.told.any.load(Ordering::Acquire)
    }

    /// What was refused since this was last asked.
    #[cold]
    pub fn refused(&mut self) -> Vec<Refused> {
        self.told.any.store(false, Ordering::Release);
        std::mem::take(&mut *lock(&self.told.refused))
    }

    /// Which lane a launch goes to; none if the executor submits it. `may` says whether it could go
    /// to one. The context and the stream are ids.
    #[inline]
    pub fn lane(&mut self, context: u32, stream: u32, may: bool) -> Option<usize> {
        match self.abreast.launch((context, stream), may) {
            Way::Here if !self.busy => None,
            Way::Here => {
                self.empty();
                None
            }
            Way::Lane(n) => Some(n),
            Way::Anew(n) => {
                self.empty();
                Some(n)
            }
        }
    }

    /// Puts a launch into a lane. Whether it is there: what it takes may not be to be had.
    pub fn put(&mut self, n: usize, record: Header, context: u64, m: &Launch<'_>) -> bool {
        let fits = m.params.len() <= PARAMETERS && m.attrs.len() <= ATTRIBUTES;
        if !fits || !self.has(n) {
            self.empty();
            return false;
        }
        self.busy = true;
        let own = &mut self.lanes[n];
        if own.at_most() >= MOST {
            self.told.wait(|| own.length() < MOST);
            own.done = own.put - own.length();
        }
        let mut batch = lock(&own.lane.batch.0);
        batch.layouts.extend_from_slice(m.layout);
        batch.params.extend_from_slice(m.params);
        batch.attrs.extend_from_slice(m.attrs);
        batch.jobs.push(Job {
            record,
            context,
            function: m.function as u64,
            stream: m.stream as u64,
            grid: m.grid,
            block: m.block,
            shared: m.shared,
            layout: m.layout.len(),
            attrs: m.attrs.len(),
            params: m.params.len(),
        });
        // Before the thread can have it: what is done was put in.
        own.put += 1;
        own.lane.put.0.store(own.put, Ordering::Release);
        drop(batch);
        own.lane.came.open();
        true
    }

    /// Whether there is such a lane, with a thread; those before it are there, too.
    fn has(&mut self, n: usize) -> bool {
        while self.lanes.len() <= n {
            let lane = Arc::new(Lane {
                batch: Apart(Mutex::default()),
                put: Apart(AtomicU64::new(0)),
                done: Apart(AtomicU64::new(0)),
                came: Gate::new("a lane of launches"),
                over: AtomicBool::new(false),
            });
            let (driver, told, of) = (self.driver, self.told.clone(), lane.clone());
            let name = format!("submit-{}", self.lanes.len());
            let run = move || of.serve(driver, &told);
            if std::thread::Builder::new().name(name).spawn(run).is_err() {
                return false;
            }
            let (put, done) = (0, 0);
            self.lanes.push(Filled { lane, put, done });
        }
        true
    }

    /// Waits until all lanes are empty.
    fn empty(&mut self) {
        for own in &mut self.lanes {
            if own.length() > 0 {
                self.told.wait(|| own.length() == 0);
            }
            own.done = own.put;
        }
        self.busy = false;
    }

    /// Another kind of record is next: it comes after all launches before it.
    pub fn settle(&mut self) {
        if self.busy {
            self.empty();
        }
        self.abreast.end_row();
    }

    /// Nobody has anything to do: whether all lanes are empty by now.
    pub fn rest(&mut self) -> bool {
        self.busy = self.lanes.iter().any(|own| own.length() > 0);
        !self.busy
    }
}

impl Drop for Submitters {
    fn drop(&mut self) {
        for Filled { lane, .. } in &self.lanes {
            lane.over.store(true, Ordering::Release);
            lane.came.open();
        }
    }
}

impl Told {
    /// Waits for lanes. They take as long as the driver does, which is while a stream is full.
    #[cold]
    fn wait(&self, shorter: impl Fn() -> bool) {
        if !look(patience().waiting, &shorter) {
            self.less.wait(&Wait::due("executor"), &shorter);
        }
    }
}

impl Lane {
    /// The thread of a lane.
    fn serve(&self, d: &'static Driver, told: &Told) {
        relax(d);
        let over = || self.over.load(Ordering::Acquire);
        let (mut batch, mut list, mut done) = (Batch::default(), Vec::new(), 0);
        loop {
            let came = || self.put.0.load(Ordering::Acquire) != done || over();
            look(patience().after, came);
            self.came.wait(&Wait::idle("submitter"), came);
            if over() {
                return;
            }
            std::mem::swap(&mut *lock(&self.batch.0), &mut batch);
            let Batch {
                jobs,
                layouts,
                attrs,
                params,
            } = &mut batch;
            let (mut layouts, mut params) = (&layouts[..], &params[..]);
            let mut attrs = &mut attrs[..];
            // Since the last batch another may have come to be under the same handle.
            let mut current = None;
            for job in &*jobs {
                if current.replace(job.context) != Some(job.context) {
                    // SAFETY: a live context: it ends behind all launches in it.
                    unsafe { d.cuCtxSetCurrent(job.context as CUcontext) };
                }
                let (its, rest) = std::mem::take(&mut attrs).split_at_mut(job.attrs);
                attrs = rest;
                let (layout, rest) = layouts.split_at(job.layout);
                layouts = rest;
                let (packed, rest) = params.split_at(job.params);
                params = rest;
                let launch = Launch {
                    function: job.function as CUfunction,
                    layout,
                    stream: job.stream as CUstream,
                    grid: job.grid,
                    block: job.block,
                    shared: job.shared,
                    attrs: its,
                    params: packed,
                };
                if let Err(why) = launch.tried(d, &mut list) {
                    lock(&told.refused).push((job.record, why));
                    told.any.store(true, Ordering::Release);
                }
                done += 1;
                self.done.0.store(done, Ordering::Release);
            }
            batch.clear();
            told.less.open();
        }
    }
}
