//! CUDA: executing driver calls.
//!
//! [`Cuda`] is the executor's state: the loaded driver, the tables from the client's ids to the
//! driver's handles, and which context is current. `generated/` decodes each record and makes the
//! call; what needs thought is in a file per family, as on the client's side. Nothing here waits
//! for the device on the executor's thread if it can be helped: copies to the host and questions go
//! to the [`completer`], calls that wait to [`waiters`].

// Functions of the driver API keep their C names in calls.
#![allow(non_snake_case)]

mod address;
mod blame;
mod compile;
mod completer;
mod context;
mod copy;
mod copy_rows;
mod device;
mod event;
mod frees;
mod generated;
mod graph;
mod graph_exec;
mod graph_host;
mod graph_node;
mod green;
mod handles;
mod image;
mod ipc;
mod launch;
mod library;
mod link;
mod logs;
mod memory;
mod module;
mod occupancy;
mod peer;
mod pool;
mod printed;
mod promised;
mod relaxed;
mod settled;
mod shadow;
mod shared;
mod stream;
mod tensor;
mod texture;
mod user_object;
mod vmm;
mod waiters;

use crate::ahead::Ahead;
use crate::content::Content;
use crate::objects::{Dead, Key};
use crate::outbox::Outbox;
use crate::staging::{Arena, Hold, Lent};
use crate::{Api, Setup};
use busbar_abi::cuda::*;
use busbar_control::hello::Refusal;
use busbar_wire::generated::cuda::Kind;
use busbar_wire::record::Header;
use busbar_wire::{WireError, Writer};
use completer::Completer;
use handles::{Body, Handles};
use std::collections::{BTreeMap, HashSet};
use std::ffi::c_void;

pub use device::probe;

/// The driver, loaded once per process.
pub(crate) fn load(path: Option<&str>) -> Result<&'static Driver, String> {
    static LOADED: std::sync::OnceLock<Result<Driver, String>> = std::sync::OnceLock::new();
    LOADED
        .get_or_init(|| {
            let name = path.unwrap_or("libcuda.so.1");
            // SAFETY: loading the driver runs its initializers, as any CUDA program does.
            let lib = unsafe { libloading::Library::new(name) }
                .map_err(|e| format!("no NVIDIA driver here ({e})"))?;
            // The driver has threads of its own: it must never be unloaded.
            let lib = std::mem::ManuallyDrop::new(lib);
            let find = |symbol: &std::ffi::CStr| {
                // SAFETY: the symbol's type is the table's business, taken from the API.
                unsafe { lib.get::<*mut std::ffi::c_void>(symbol.to_bytes_with_nul()) }
                    .map_or(std::ptr::null_mut(), |s| *s)
            };
            // SAFETY: the names are the driver's own, with the signatures of its API.
            let driver = unsafe { Driver::load(find) };
            // SAFETY: the first call of the API.
            match unsafe { driver.cuInit(0) } {
                CUDA_SUCCESS => Ok(driver),
                rc => Err(format!("the NVIDIA driver does not start: {}", name_of(rc))),
            }
        })
        .as_ref()
        .map_err(Clone::clone)
}

/// A result code's name, for people.
pub(crate) fn name_of(rc: CUresult) -> String {
    error_name(rc).map_or_else(
        || format!("error {rc}"),
        |n| n.to_string_lossy().into_owned(),
    )
}

/// A session's CUDA side.
pub struct Cuda {
    /// The driver.
    pub(crate) driver: &'static Driver,
    outbox: Outbox,
    blame: blame::Blame,
    content: Content,
    promises: promised::Promises,
    /// Records that are executed ahead of the queue, and the contexts that they find.
    ahead: Ahead,
    places: shadow::Places,
    /// Physical ordinals of the devices the session may use.
    allowed: Vec<i32>,
    /// Of those, the ones the program sees, in its order.
    devices: Vec<i32>,
    handles: Handles,
    /// Pointers to the parameters of the launch in progress.
    pointers: Vec<*mut c_void>,
    current: u32,
    /// The memory that the record being executed came in.
    slab: Option<Lent>,
    /// Memory that bulk records land in.
    incoming: Arena,
    /// Memory for what goes to the client.
    outgoing: Arena,
    completer: Completer,
    waiters: waiters::Waiters,
    /// Memory that was mapped where the client said, by address.
    mapped: BTreeMap<u64, memory::Mapped>,
    /// Memory that the program and we both have mapped.
    shared: shared::Shared,
    /// What other processes may import, and the thread that hands it out.
    exports: ipc::Exports,
    /// Addresses and objects that the driver gave.
    given: address::Given,
    /// Ranges of addresses that are reserved, by number.
    reserved: HashSet<u32>,
    graphs: graph_exec::Graphs,
    frees: frees::Frees,
    /// Streams on which captures have begun and not ended, by id.
    captures: HashSet<u32>,
    /// Which device, by physical ordinal, may use memory of which other.
    peers: HashSet<(i32, i32)>,
    /// Whether the executor's thread has been made harmless to captures.
    relaxed: bool,
    settled: settled::Settled,
    /// Lines that may still go to the server's log.
    complaints: u32,
    /// Who listens to the driver's log.
    logs: logs::Logs,
}

/// Lines that one session may put into the server's log: a client must not be able to fill it.
const COMPLAINTS: u32 = 16;

/// Opens a session's CUDA side.
pub fn open(setup: Setup) -> Result<Box<dyn Api>, Refusal> {
    let driver = load(setup.library.as_deref()).map_err(|why| Refusal::new("no_device", why))?;
    let mut n = 0;
    // SAFETY: a pointer to a live integer.
    unsafe { driver.cuDeviceGetCount(&mut n) };
    let allowed: Vec<i32> = (0..n)
        .filter(|d| {
            setup
                .devices
                .as_ref()
                .is_none_or(|s| s.contains(&(*d as u32)))
        })
        .collect();
    if allowed.is_empty() {
        return Err(Refusal::new(
            "no_device",
            "the server has no GPU for this session",
        ));
    }
    let blame = blame::Blame::new(driver, setup.outbox.clone());
    let completer = Completer::start(driver, setup.outbox.clone(), blame.clone())
        .map_err(|e| Refusal::new("internal", format!("cannot start a thread: {e}")))?;
    let places = shadow::Places::default();
    let graphs = graph_exec::Graphs::default();
    let mirrors = graphs.mirrors.by_id();
    let mover = shadow::Mover::new(driver, places.clone(), mirrors, blame.clone(), &setup);
    setup.ahead.serve(Box::new(mover));
    let printed = printed::Printed::capture(setup.outbox.clone());
    let promises =
        promised::Promises::new(setup.callbacks, completer.clone(), setup.outbox.clone());
    Ok(Box::new(Cuda {
        driver,
        waiters: waiters::Waiters::new(driver, completer.clone(), printed),
        outbox: setup.outbox,
        blame,
        frees: frees::Frees::new(driver, completer.clone()),
        content: setup.content,
        promises,
        ahead: setup.ahead,
        places,
        devices: allowed.clone(),
        allowed,
        handles: Handles::default(),
        pointers: Vec::new(),
        current: 0,
        slab: None,
        incoming: setup.incoming,
        outgoing: setup.outgoing,
        completer,
        mapped: BTreeMap::new(),
        shared: shared::Shared::new(setup.shared),
        exports: ipc::Exports::default(),
        given: address::Given::default(),
        reserved: HashSet::new(),
        graphs,
        captures: HashSet::new(),
        peers: HashSet::new(),
        relaxed: false,
        settled: settled::Settled::default(),
        complaints: COMPLAINTS,
        logs: logs::Logs::new(driver),
    }))
}

impl Cuda {
    /// Whether one more line may go to the server's log.
    fn may_complain(&mut self) -> bool {
        let yes = self.complaints > 0;
        self.complaints = self.complaints.saturating_sub(1);
        yes
    }

    /// The handle of an id. What is not there, or not any more, does not get to the driver.
    #[inline]
    pub(crate) fn handle(&mut self, kind: Kind, id: u32) -> Result<u64, CUresult> {
        match kind {
            Kind::Function => self.function_here(id),
            _ => self.handles.get(kind, id),
        }
    }

    /// The handle of a stream that is about to be used; 0 is the legacy default stream.
    #[inline]
    pub(crate) fn stream(&mut self, id: u32) -> Result<u64, CUresult> {
        let raw = match id {
            0 => 0,
            _ => self.handle(Kind::Stream, id)?,
        };
        settled::before_use(self, id, raw);
        Ok(raw)
    }

    /// The physical ordinal of one of the program's devices.
    #[inline]
    pub(crate) fn device(&self, dev: i32) -> Result<i32, CUresult> {
        usize::try_from(dev)
            .ok()
            .and_then(|i| self.devices.get(i).copied())
            .ok_or(CUDA_ERROR_INVALID_DEVICE)
    }

    /// Puts a handle under an id, as a child of what it dies with.
    pub(crate) fn store(&mut self, kind: Kind, id: u32, raw: u64, parents: &[Key<Kind>]) {
        match kind {
            Kind::Context => {
                self.blame.add(raw, id);
                self.places.know(id, raw);
                self.current = u32::MAX;
            }
            // The id may have been another's.
            Kind::Stream => self.settled.forget_stream(id),
            _ => {}
        }
        self.put(kind, id, Body::Handle(raw), parents);
    }

    /// Puts what was made under an id.
    fn put(&mut self, kind: Kind, id: u32, body: Body, parents: &[Key<Kind>]) {
        let dead = self.handles.put((kind, id), body, parents);
        self.bury(dead);
    }

    /// Ends an object and all that dies with it.
    pub(crate) fn remove(&mut self, kind: Kind, id: u32) {
        let dead = self.handles.retire((kind, id));
        self.bury(dead);
    }

    /// Forgets what else is known of objects that are dead.
    fn bury(&mut self, dead: Dead<Kind, Body>) {
        for ((kind, id), body) in dead {
            match (kind, body) {
                (Kind::Context, Body::Handle(raw)) => {
                    self.blame.remove(raw);
                    self.places.forget(id);
                    self.settled.forget(raw);
                    if self.current == id {
                        self.current = u32::MAX;
                    }
                }
                (Kind::Stream, _) => {
                    self.settled.forget_stream(id);
                    self.captures.remove(&id);
                }
                (Kind::GraphNode, Body::Handle(raw)) => _ = self.graphs.bodies.remove(&raw),
                _ => {}
            }
        }
    }

    /// The id of a handle; 0 if it has none.
    fn known(&self, kind: Kind, raw: u64) -> u32 {
        self.handles.known(kind, raw)
    }

    /// The id of a handle that came into being here, as a child of what it dies with.
    fn adopt(&mut self, kind: Kind, raw: u64, parents: &[Key<Kind>]) -> u32 {
        self.handles.adopt(kind, raw, parents)
    }

    /// The function of an id in the current context: of a kernel, the driver makes one per context.
    fn function_here(&mut self, id: u32) -> Result<u64, CUresult> {
        let f = self.handles.function(id)?;
        if !f.kernel {
            return Ok(f.raw);
        }
        if let Some(raw) = self.handles.in_context(id, self.current) {
            return Ok(raw);
        }
        let mut out: CUfunction = std::ptr::null_mut();
        // SAFETY: a live kernel and a pointer to a live handle.
        check(unsafe { self.driver.cuKernelGetFunction(&mut out, f.raw as CUkernel) })?;
        self.handles.told(id, self.current, out as u64);
        Ok(out as u64)
    }

    /// A queued call is done. Its failure is told, since mostly nobody waits for it.
    pub(crate) fn done(&mut self, h: &Header, rc: CUresult) {
        if h.call != 0 {
            return self.reply(h, rc, |_| {});
        }
        if rc != CUDA_SUCCESS && !self.failed(h, rc) {
            self.outbox.error(rc, |w| {
                w.u16(h.op);
                w.u32(h.aux);
                w.u8(0);
            });
        }
    }

    /// A call has failed. If that means that a context is lost, the client is told.
    #[cold]
    fn failed(&mut self, h: &Header, rc: CUresult) -> bool {
        let near = self.handle(Kind::Context, h.aux).unwrap_or(0);
        self.blame.failed(rc, h.op, near)
    }

    /// A waiting call is done: its result and, on success, its reply.
    pub(crate) fn reply(&mut self, h: &Header, rc: CUresult, fields: impl FnOnce(&mut Writer<'_>)) {
        if rc != CUDA_SUCCESS {
            self.failed(h, rc);
        }
        self.outbox.reply(h.call, rc, |w| {
            if rc == CUDA_SUCCESS {
                fields(w);
            }
        });
    }

    /// A waiting call is done whose reply counts even when it failed.
    fn reply_always(&mut self, h: &Header, rc: CUresult, fields: impl FnOnce(&mut Writer<'_>)) {
        if rc != CUDA_SUCCESS {
            self.failed(h, rc);
        }
        self.outbox.reply(h.call, rc, fields);
    }

    /// Makes the context of a record current.
    #[inline]
    fn enter(&mut self, scope: u32) {
        if scope == self.current {
            return;
        }
        let ctx = if scope == 0 {
            0
        } else {
            self.handle(Kind::Context, scope).unwrap_or(0)
        };
        // SAFETY: a live context or none.
        unsafe { self.driver.cuCtxSetCurrent(ctx as CUcontext) };
        self.current = scope;
    }
}

impl Api for Cuda {
    fn execute(
        &mut self,
        h: &Header,
        payload: &[u8],
        hold: &mut Hold<'_>,
    ) -> Result<(), WireError> {
        if !self.relaxed {
            self.relaxed = true;
            relaxed::relax(self.driver);
        }
        self.enter(h.aux);
        self.slab = hold.take();
        let done = generated::dispatch(self, h, payload);
        // Still there when no copy out of it is under way.
        self.slab = None;
        done
    }

    fn poll(&mut self) -> bool {
        self.completer.glance()
    }

    fn wake(&mut self) {
        self.waiters.rouse();
    }

    fn close(&mut self) {
        self.waiters.close();
        self.logs.close();
        // The process ends with the session, and the driver frees with it all that it held.
    }
}

/// Runs fallible steps and gives their result code.
fn attempt(f: impl FnOnce() -> Result<(), CUresult>) -> CUresult {
    f().err().unwrap_or(CUDA_SUCCESS)
}

/// A result code as a `Result`.
fn check(rc: CUresult) -> Result<(), CUresult> {
    if rc == CUDA_SUCCESS { Ok(()) } else { Err(rc) }
}
