//! The life of the process's client: opened by the first `cuInit`, abandoned by a fork, closed at
//! exit. Every call of the program's begins here.

use super::call::{Client, Cx, decode, thread};
use super::engine::{callback, logs, output};
use super::state::{State, devices};
use crate::config::Config;
use crate::hello::Failure;
use crate::lock::lock;
use crate::session::{Handler, Session};
use busbar_abi::cuda::*;
use busbar_channel::switches::Switch;
use busbar_wire::codec::Reader;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::record::{OP_MEMORY_IN, OP_MEMORY_OUT, OP_MIRROR_IN, OP_MIRROR_OUT};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock};

const NEW: u32 = 0;
const READY: u32 = 1;
const FORKED: u32 = 2;
const ENDED: u32 = 3;
const OPEN: u32 = 4;

/// What a process has once.
struct Process {
    stage: AtomicU32,
    /// The client, while the process is `READY`.
    client: AtomicPtr<Client>,
    opening: Mutex<()>,
    handlers: Once,
    /// Functions of which the log has heard that they are not supported.
    told: Mutex<BTreeSet<&'static str>>,
}

static PROCESS: Process = Process {
    stage: AtomicU32::new(NEW),
    client: AtomicPtr::new(std::ptr::null_mut()),
    opening: Mutex::new(()),
    handlers: Once::new(),
    told: Mutex::new(BTreeSet::new()),
};

/// The client that calls of this thread are for.
#[inline]
fn client() -> Result<&'static Client> {
    if let Some(c) = thread::bound() {
        return Ok(c);
    }
    // SAFETY: null, or a client, which lives as long as the process.
    match unsafe { PROCESS.client.load(Ordering::Acquire).as_ref() } {
        Some(c) => Ok(c),
        None => Err(absent()),
    }
}

#[cold]
fn absent() -> CUresult {
    match PROCESS.stage.load(Ordering::Acquire) {
        ENDED => CUDA_ERROR_DEINITIALIZED,
        _ => CUDA_ERROR_NOT_INITIALIZED,
    }
}

#[inline]
fn present() -> Result<Cx> {
    Ok(Cx {
        client: client()?,
        scope: thread::current(),
    })
}

/// Begins a call. Fails when the driver is not initialized, was forked away, has ended, or when an
/// error has lost the session or the current context.
#[inline]
pub fn enter() -> Result<Cx> {
    let cx = present()?;
    if cx.state().contexts.in_trouble() {
        look_closer(cx)?;
    }
    Ok(cx)
}

#[cold]
fn look_closer(cx: Cx) -> Result<()> {
    let state = cx.state();
    state.contexts.session_lives()?;
    refuse_if(thread::in_function(), CUDA_ERROR_NOT_PERMITTED)?;
    let raw = thread::current_raw();
    if raw != 0 && state.handles.id(Kind::Context, raw).is_none() {
        return Err(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    state.contexts.works(cx.scope)
}

/// Begins a call that does not concern the current context.
pub fn enter_anywhere() -> Result<Cx> {
    let cx = present()?;
    cx.state().contexts.session_lives()?;
    Ok(cx)
}

/// Begins a call that needs only the client's own knowledge, and so works whatever has failed.
#[inline]
pub fn enter_local() -> Result<Cx> {
    let cx = present()?;
    if !Switch::Local.on() {
        cx.ask()?;
    }
    Ok(cx)
}

/// Runs a call's body: its result becomes the C result, and no panic passes into the program.
#[inline]
pub fn guard(f: impl FnOnce() -> Result<()>) -> CUresult {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(())) => CUDA_SUCCESS,
        Ok(Err(e)) => {
            log_is_told();
            e
        }
        Err(_) => {
            crate::log!(Error, "a bug in Busbar: a call panicked");
            CUDA_ERROR_UNKNOWN
        }
    }
}

/// A call fails: who listens to the driver's log hears of it before the program does.
#[cold]
fn log_is_told() {
    // In the child of a fork there may be no one left to let go of the lock.
    if let Ok(c) = client()
        && c.state.logs.used()
    {
        logs::tell(c.state);
    }
}

/// The answer of a call that is not forwarded; logged once each.
#[cold]
pub fn unsupported(name: &'static str, reason: &'static str) -> CUresult {
    if lock(&PROCESS.told).insert(name) {
        crate::log!(Warn, "{name} is not supported: {reason}");
    }
    CUDA_ERROR_NOT_SUPPORTED
}

/// `cuInit`: opens the session, once.
pub fn init() -> Result<()> {
    let settled = || match PROCESS.stage.load(Ordering::Acquire) {
        READY => Some(Ok(())),
        FORKED => Some(Err(CUDA_ERROR_NOT_INITIALIZED)),
        ENDED => Some(Err(CUDA_ERROR_DEINITIALIZED)),
        _ => None,
    };
    if thread::bound().is_some() {
        return Ok(());
    }
    // Before the lock: in the child of a fork its holder may not exist.
    if let Some(r) = settled() {
        return r;
    }
    let _one = lock(&PROCESS.opening);
    if let Some(r) = settled() {
        return r;
    }
    // SAFETY: both handlers are plain functions that live as long as the library, which is linked
    // never to be unloaded.
    PROCESS.handlers.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(forked));
        libc::atexit(ended);
    });
    PROCESS.stage.store(OPEN, Ordering::Release);
    let opened = open(&Config::from_env());
    let (stage, client) = match opened {
        Ok(c) => (READY, std::ptr::from_ref(c).cast_mut()),
        Err(_) => (NEW, std::ptr::null_mut()),
    };
    PROCESS.client.store(client, Ordering::Release);
    // A process that exits meanwhile has ended the session for good.
    let set = PROCESS
        .stage
        .compare_exchange(OPEN, stage, Ordering::AcqRel, Ordering::Acquire);
    if set.is_err() {
        PROCESS
            .client
            .store(std::ptr::null_mut(), Ordering::Release);
    }
    opened.map(drop)
}

/// Makes another client than the process's own that of this thread, or no other. What the thread
/// had with the one before is forgotten.
pub fn bind(client: Option<&'static Client>) {
    thread::bind(client);
}

/// Opens a session with the first server of a configuration. The client lives as long as the
/// process.
pub fn open(config: &Config) -> Result<&'static Client> {
    let Some(server) = config.servers.first() else {
        crate::log!(
            Error,
            "BUSBAR_SERVER is not set: start the program with `busbar run`"
        );
        return Err(CUDA_ERROR_NO_DEVICE);
    };
    let state: &'static State = Box::leak(Box::new(State {
        all_pointers: config.all_pointers,
        ..State::default()
    }));
    let events = Arc::new(Events {
        state,
        client: OnceLock::new(),
    });
    let opened = Session::open(config, server, "cuda", name_of, events.clone());
    let session = opened.map_err(|e| {
        crate::log!(Error, "{e}");
        match e {
            Failure::Refused(r) if r.code == "no_device" => CUDA_ERROR_NO_DEVICE,
            Failure::Refused(r) if r.code == "taken" => CUDA_ERROR_DEVICE_UNAVAILABLE,
            _ => CUDA_ERROR_SYSTEM_NOT_READY,
        }
    })?;
    let (devices, driver_version) = match introduce(&session, state) {
        Ok(x) => x,
        Err(e) => {
            // A session that nobody will use must not hold anything at the server.
            session.close();
            return Err(e);
        }
    };
    let select = msg::SelectDevices {
        devices: devices.iter().map(|d| d.position).collect(),
    };
    let selected = session.queue(0, &select);
    let client: &'static Client = Box::leak(Box::new(Client {
        session,
        devices,
        driver_version,
        state,
        answers: Default::default(),
        ring: OnceLock::new(),
        jobs: Mutex::default(),
        reads: Mutex::default(),
        waiting: AtomicUsize::new(0),
    }));
    let _ = events.client.set(client);
    selected.map_err(|_| CUDA_ERROR_SYSTEM_NOT_READY)?;
    Ok(client)
}

/// Asks the worker for its devices, and which driver it has.
fn introduce(session: &Session, state: &State) -> Result<(Vec<devices::Device>, i32)> {
    let answer = session.call(0, &msg::OpenCuda {}, None).map_err(|e| {
        crate::log!(Error, "{e}");
        CUDA_ERROR_SYSTEM_NOT_READY
    })?;
    if answer.status != CUDA_SUCCESS {
        return Err(answer.status);
    }
    let reply = decode::<msg::OpenCudaReply<'_>>(&answer.body)?;
    let all = devices::parse(reply.devices).map_err(|_| CUDA_ERROR_UNKNOWN)?;
    let devices = devices::visible(all, || state.handles.create(Kind::Context, 0))?;
    refuse_if(devices.is_empty(), CUDA_ERROR_NO_DEVICE)?;
    Ok((devices, reply.driver as i32))
}

/// In the child of a fork: the session is the parent's, whose threads and socket are not ours.
extern "C" fn forked() {
    if matches!(PROCESS.stage.load(Ordering::Acquire), READY | OPEN) {
        PROCESS
            .client
            .store(std::ptr::null_mut(), Ordering::Release);
        PROCESS.stage.store(FORKED, Ordering::Release);
        crate::socket::abandon();
    }
}

/// At exit: the session ends in good order, and the counters are shown to who asked for them.
extern "C" fn ended() {
    PROCESS.stage.store(ENDED, Ordering::Release);
    let client = PROCESS.client.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: as in `client`.
    if let Some(c) = unsafe { client.as_ref() } {
        c.session.close();
    }
}

fn name_of(op: u16) -> &'static str {
    match op {
        OP_MEMORY_IN => "(shadowed memory, sent)",
        OP_MEMORY_OUT => "(shadowed memory, asked for)",
        OP_MIRROR_IN => "(memory of a graph, sent)",
        OP_MIRROR_OUT => "(memory of a graph, asked for)",
        _ => msg::name(op).unwrap_or("?"),
    }
}

/// What the worker says unasked.
struct Events {
    state: &'static State,
    /// Nothing is asked of the program before it has queued anything.
    client: OnceLock<&'static Client>,
}

impl Handler for Events {
    fn error(&self, status: i32, body: &[u8]) {
        let mut r = Reader::new(body);
        let op = r.u16().unwrap_or(0);
        let context = r.u32().unwrap_or(0);
        let lost = r.u8().unwrap_or(0) != 0;
        let what = if op == 0 { "work" } else { name_of(op) };
        crate::log!(Warn, "{what} failed at the server with error {status}");
        if lost {
            self.state.contexts.lose(context, status);
        } else if !self.state.captures.spoils(status) {
            self.state.contexts.defer(context, status);
        }
    }

    fn callback(&self, status: i32, call: u32, body: &[u8]) -> Result<(), String> {
        match self.client.get() {
            Some(c) => callback::asked(c, status, call, body),
            None => Err("the server asks for something before it was given anything".into()),
        }
    }

    fn output(&self, text: &[u8]) {
        output::print(self.state, text);
    }

    fn complaint(&self, text: &[u8]) {
        output::complain(self.state, text);
    }

    fn closed(&self, why: &str) {
        // A program that ends has asked for it.
        if PROCESS.stage.load(Ordering::Acquire) != ENDED {
            crate::log!(Error, "the session is over: {why}");
        }
        self.state.contexts.lose_session();
    }
}
