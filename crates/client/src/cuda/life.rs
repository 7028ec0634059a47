//! The life of the process's client: opened by the first `cuInit`, abandoned by a fork, closed at
//! exit. Every call of the program's begins here.

use super::call::{Client, Cx, decode, thread};
use super::engine::{activity, callback, load, logs, output};
use super::state::space::Share;
use super::state::{State, devices};
use crate::config::Config;
use crate::env::var;
use crate::exits;
use crate::hello::Failure;
use crate::plan::Plan;
use crate::prelude::*;
use crate::servers::MOST_SERVERS;
use crate::session::{Handler, Session};
use crate::stats;
use busbar_abi::cuda::*;
use busbar_channel::switches::Switch;
use busbar_wire::codec::Reader;
use busbar_wire::generated::collectives;
use busbar_wire::generated::cuda::contract::OTHERS_DEVICE;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::record::{
    OP_CALLBACK_DONE, OP_MEMORY_APART, OP_MEMORY_ATOMIC, OP_MEMORY_CLOSE, OP_MEMORY_IN,
    OP_MEMORY_LOOK, OP_MEMORY_OPEN, OP_MEMORY_OUT, OP_MEMORY_PARTS, OP_MEMORY_WATCH, OP_MIRROR_IN,
    OP_MIRROR_OUT,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::AtomicPtr;

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
    /// The same while no thread's calls can be for another.
    alone: AtomicPtr<Client>,
    opening: Mutex<()>,
    handlers: Once,
    /// What calls wait for is counted.
    counts: AtomicBool,
    /// Functions of which the log has heard that they are not supported.
    told: Mutex<BTreeSet<&'static str>>,
}

static PROCESS: Process = Process {
    stage: AtomicU32::new(NEW),
    client: AtomicPtr::new(std::ptr::null_mut()),
    alone: AtomicPtr::new(std::ptr::null_mut()),
    opening: Mutex::new(()),
    handlers: Once::new(),
    counts: AtomicBool::new(false),
    told: Mutex::new(BTreeSet::new()),
};

impl Process {
    /// Sets the process's client; gives the one before.
    fn has(&self, client: *mut Client) -> Option<&'static Client> {
        // SAFETY: null, or a client, which lives as long as the process.
        let alone = unsafe { client.as_ref() }.is_some_and(|c| !c.many);
        let alone = if alone { client } else { std::ptr::null_mut() };
        self.alone.store(alone, Ordering::Release);
        // SAFETY: as above.
        unsafe { self.client.swap(client, Ordering::AcqRel).as_ref() }
    }
}

/// The client that calls of this thread are for.
#[inline]
fn client() -> Result<&'static Client> {
    // SAFETY: null, or a client, which lives as long as the process.
    match unsafe { PROCESS.alone.load(Ordering::Acquire).as_ref() } {
        Some(c) => Ok(c),
        None => of_several(),
    }
}

/// The same where there may be several, or none.
fn of_several() -> Result<&'static Client> {
    // SAFETY: as above.
    let own = || unsafe { PROCESS.client.load(Ordering::Acquire).as_ref() };
    match thread::bound() {
        Some(c) if c.many && is_over() => Err(absent()),
        Some(c) => Ok(c),
        None => own().ok_or_else(absent),
    }
}

/// Whether the process has ended its sessions, or left them to its parent.
fn is_over() -> bool {
    matches!(PROCESS.stage.load(Ordering::Acquire), FORKED | ENDED)
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
    let scope = thread::current();
    Ok(Cx {
        client: client()?,
        scope,
        current: scope,
    })
}

/// Begins a call. Fails when the driver is not initialized, was forked away, has ended, or when an
/// error has lost the session or the current context.
#[inline]
pub fn enter() -> Result<Cx> {
    let cx = present()?;
    if cx.state().contexts.in_trouble() {
        look_closer(cx, false)?;
    }
    Ok(cx)
}

/// As [`enter`], for a call that a driver permits in a function that a stream waits for, too.
#[inline]
pub fn enter_in_functions() -> Result<Cx> {
    let cx = present()?;
    if cx.state().contexts.in_trouble() {
        look_closer(cx, true)?;
    }
    Ok(cx)
}

/// Refuses what is called in such a function.
#[inline]
fn not_in_function(cx: Cx) -> Result<()> {
    let refused = || cx.state().contexts.in_trouble() && thread::in_function();
    refuse_if(refused(), CUDA_ERROR_NOT_PERMITTED)
}

#[cold]
fn look_closer(cx: Cx, in_functions: bool) -> Result<()> {
    cx.state().contexts.session_lives()?;
    refuse_if(
        !in_functions && thread::in_function(),
        CUDA_ERROR_NOT_PERMITTED,
    )?;
    let state = cx.state();
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
    not_in_function(cx)?;
    Ok(cx)
}

/// Begins a call that needs only the client's own knowledge, and so works whatever has failed.
#[inline]
pub fn enter_local() -> Result<Cx> {
    let cx = enter_local_in_functions()?;
    not_in_function(cx)?;
    Ok(cx)
}

/// As [`enter_local`], for a call that a driver permits in a function that a stream waits for, too.
#[inline]
pub fn enter_local_in_functions() -> Result<Cx> {
    let cx = present()?;
    if !Switch::Local.on() {
        cx.ask()?;
    }
    Ok(cx)
}

/// Runs a call's body: its result becomes the C result, and no panic passes into the program. A
/// call that turns out to be for another client is begun again with that one.
#[inline]
pub fn guard(f: impl Fn() -> Result<()>) -> CUresult {
    counted(&f);
    caught(&f, || run(&f))
}

#[cold]
fn run(f: &dyn Fn() -> Result<()>) -> CUresult {
    caught(f, || run(f))
}

/// As [`guard`], where `again` makes the whole call. The body is in one place then, into which the
/// compiler puts it: a call that only asks what the client knows costs an eighth less.
#[inline]
pub fn call(again: impl Fn() -> CUresult, f: impl FnOnce() -> Result<()>) -> CUresult {
    counted(&f);
    caught(f, again)
}

#[inline]
fn counted<F>(f: &F) {
    if PROCESS.counts.load(Ordering::Relaxed) {
        stats::runs(f);
    }
}

#[inline]
fn caught(f: impl FnOnce() -> Result<()>, again: impl Fn() -> CUresult) -> CUresult {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(())) => CUDA_SUCCESS,
        Ok(Err(e)) => failed(e, &again),
        Err(_) => panicked(),
    }
}

#[cold]
fn failed(e: CUresult, again: &dyn Fn() -> CUresult) -> CUresult {
    match thread::take_elsewhere() {
        // A second time, no client has all of its objects.
        Some(there) if !thread::is_elsewhere() => thread::elsewhere(there, again),
        _ => {
            let e = match e {
                // No context is current in a function that a stream waits for, whatever is asked.
                CUDA_ERROR_INVALID_CONTEXT if thread::in_function() => CUDA_ERROR_NOT_PERMITTED,
                e => e,
            };
            log_is_told(e);
            e
        }
    }
}

#[cold]
fn panicked() -> CUresult {
    crate::log!(Error, "a bug in Busbar: a call panicked");
    CUDA_ERROR_UNKNOWN
}

/// A call fails: who listens to the driver's log hears of it before the program does.
#[cold]
fn log_is_told(e: CUresult) {
    // In the child of a fork there may be no one left to let go of the lock.
    if let Ok(c) = client()
        && c.state.logs.used()
    {
        logs::failed(c.state, e);
    }
}

/// Somebody listens to the driver's log: from now on it is known which function fails.
pub fn log_is_used() {
    PROCESS.counts.store(true, Ordering::Relaxed);
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
    if thread::bound().is_some_and(|c| !c.many) {
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
    PROCESS.handlers.call_once(|| {
        // SAFETY: a plain function that lives as long as the library, which is linked never to be
        // unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        exits::at_exit(ended);
    });
    PROCESS.counts.store(stats::asked(), Ordering::Relaxed);
    PROCESS.stage.store(OPEN, Ordering::Release);
    let opened = open(&Config::from_env());
    let (stage, client) = match opened {
        Ok(c) => (READY, std::ptr::from_ref(c).cast_mut()),
        Err(_) => (NEW, std::ptr::null_mut()),
    };
    PROCESS.has(client);
    // A process that exits meanwhile has ended the session for good.
    let set = PROCESS
        .stage
        .compare_exchange(OPEN, stage, Ordering::AcqRel, Ordering::Acquire);
    if set.is_err() {
        PROCESS.has(std::ptr::null_mut());
    }
    for client in opened?.all() {
        let cx = Cx::of(client);
        log_to_file(cx);
        activity::opened(cx);
    }
    Ok(())
}

/// All clients of the process, for a question that concerns no context; none before `cuInit`.
pub fn everyone() -> Vec<Cx> {
    let first = present().ok().filter(|_| !is_over());
    let all = first.map_or(&[][..], |cx| cx.client.all());
    all.iter().map(|client| Cx::of(client)).collect()
}

/// The log goes to a file, if the environment says by now that it is to, and does not yet.
pub fn log_to_file(cx: Cx) {
    if let Some(path) = var("CUDA_LOG_FILE").filter(|p| !p.is_empty())
        && cx.state().logs.goes_to_file()
    {
        log_is_used();
        logs::to_file(cx, &path);
    }
}

/// Makes another client than the process's own that of this thread, or no other. What the thread
/// had with the one before is forgotten.
pub fn bind(client: Option<&'static Client>) {
    PROCESS.alone.store(std::ptr::null_mut(), Ordering::Release);
    thread::bind(client);
}

/// Opens a session with each server of a configuration, and says which the first is. The clients
/// live as long as the process. Servers that cannot be used are left out, and the log says why.
pub fn open(config: &Config) -> Result<&'static Client> {
    let plan = Plan::new(config, var);
    let config = &plan.config;
    let of = config.servers.len();
    refuse_if(of > MOST_SERVERS, CUDA_ERROR_NO_DEVICE).inspect_err(|_| {
        crate::log!(
            Error,
            "a program has devices of {MOST_SERVERS} servers at most"
        );
    })?;
    if var("CUDA_ENABLE_COREDUMP_ON_EXCEPTION").is_some_and(|v| !v.is_empty() && v != "0") {
        crate::log!(
            Warn,
            "CUDA_ENABLE_COREDUMP_ON_EXCEPTION is set: core dumps are written on the machine of \
             the device alone, so there will be none"
        );
    }
    let (mut found, mut why) = (Vec::new(), CUDA_ERROR_NO_DEVICE);
    for server in 0..of {
        match connect(config, Share { server, of }, plan.at[server]) {
            Ok(one) => found.push(one),
            Err(e) if found.is_empty() => why = e,
            Err(_) => {}
        }
    }
    if of == 0 {
        crate::log!(
            Error,
            "BUSBAR_SERVER is not set: start the program with `busbar run`"
        );
    }
    refuse_if(found.is_empty(), why)?;
    let all = found
        .iter_mut()
        .flat_map(|f| std::mem::take(&mut f.devices));
    let all = devices::in_order(all.collect(), &plan.seen);
    let primary = |server| {
        let mut all = found.iter();
        let one = all.find(|f| f.events.state.spaces.share.server == server);
        one.map_or(0, |f| f.events.state.handles.create(Kind::Context, 0))
    };
    let visible = devices::visible(all, primary);
    let visible = visible.and_then(|v| match v.is_empty() {
        true => Err(CUDA_ERROR_NO_DEVICE),
        false => Ok(v),
    });
    let visible = visible.inspect_err(|_| {
        // A session that nobody will use must not hold anything at the server.
        found.iter().for_each(|f| f.session.close());
    })?;
    let driver_version = found.iter().map(|f| f.driver_version).min().unwrap_or(0);
    let (mut clients, mut selected) = (Vec::new(), Ok(()));
    for f in found {
        let server = f.events.state.spaces.share.server;
        let devices = visible.iter().filter(|d| d.server == server).cloned();
        let client: &'static Client = Box::leak(Box::new(Client {
            session: f.session,
            server,
            many: of > 1,
            twin: load::twin,
            gates: Default::default(),
            helpers: Mutex::default(),
            links: Default::default(),
            all: OnceLock::new(),
            devices: devices.collect(),
            driver_version,
            state: f.events.state,
            answers: Default::default(),
            ring: OnceLock::new(),
            jobs: Mutex::default(),
            reads: Mutex::default(),
            waiting: AtomicUsize::new(0),
            guest: OnceLock::new(),
        }));
        // The program's ordinals are the same at each server, whose own devices some of them are.
        let last = client.devices.last().map_or(0, |d| d.ordinal + 1);
        let position = |dev| {
            let mut all = client.devices.iter();
            let found = all.find(|d| d.ordinal == dev);
            found.map_or(OTHERS_DEVICE, |d| d.position)
        };
        let devices = (0..last).map(position).collect();
        let m = msg::SelectDevices { devices };
        selected = selected.and(client.session.queue(0, &m));
        let _ = f.events.client.set(client);
        clients.push(client);
    }
    let all: &'static [&'static Client] = Box::leak(clients.into_boxed_slice());
    for c in all {
        let _ = c.all.set(all);
    }
    selected.map_err(|_| CUDA_ERROR_SYSTEM_NOT_READY)?;
    Ok(all[0])
}

/// A session that was opened.
struct Found {
    session: Session,
    events: Arc<Events>,
    devices: Vec<devices::Device>,
    driver_version: i32,
}

/// Opens a session with one server, which is so manieth of the program's, for so many parts.
fn connect(config: &Config, share: Share, (number, parts): (usize, u32)) -> Result<Found> {
    let config = &Config {
        parts,
        ..config.clone()
    };
    let state: &'static State = Box::leak(Box::new(State {
        eager: config.eager,
        ..State::of(share)
    }));
    let events = Arc::new(Events {
        state,
        client: OnceLock::new(),
    });
    let server = &config.servers[share.server];
    let opened = Session::open(config, server, "cuda", name_of, events.clone());
    let session = opened.map_err(|e| {
        match share.of {
            1 => crate::log!(Lost, "{e}"),
            _ => crate::log!(Error, "no CUDA devices from {server}: {e}"),
        }
        match e {
            Failure::Refused(r) if r.code == "no_device" => CUDA_ERROR_NO_DEVICE,
            Failure::Refused(r) if r.code == "taken" => CUDA_ERROR_DEVICE_UNAVAILABLE,
            _ => CUDA_ERROR_SYSTEM_NOT_READY,
        }
    })?;
    match introduce(&session, share.server, number) {
        Ok((devices, driver_version)) => Ok(Found {
            session,
            events,
            devices,
            driver_version,
        }),
        Err(e) => {
            session.close();
            Err(e)
        }
    }
}

/// Asks the worker for its devices, and which driver it has.
fn introduce(
    session: &Session,
    server: usize,
    number: usize,
) -> Result<(Vec<devices::Device>, i32)> {
    let answer = session.call(0, &msg::OpenCuda {}, None).map_err(|e| {
        crate::log!(Error, "{e}");
        CUDA_ERROR_SYSTEM_NOT_READY
    })?;
    if answer.status != CUDA_SUCCESS {
        return Err(answer.status);
    }
    let reply = decode::<msg::OpenCudaReply<'_>>(&answer.body)?;
    let all = devices::parse(reply.devices, server, number).map_err(|_| CUDA_ERROR_UNKNOWN)?;
    Ok((all, reply.driver as i32))
}

/// In the child of a fork: the session is the parent's, whose threads and socket are not ours.
extern "C" fn forked() {
    if matches!(PROCESS.stage.load(Ordering::Acquire), READY | OPEN) {
        PROCESS.has(std::ptr::null_mut());
        PROCESS.stage.store(FORKED, Ordering::Release);
        thread::leave();
        crate::socket::abandon();
    }
}

/// At exit: the session ends in good order, and the counters are shown to who asked for them.
extern "C" fn ended() {
    PROCESS.stage.store(ENDED, Ordering::Release);
    if let Some(c) = PROCESS.has(std::ptr::null_mut()) {
        c.all().iter().for_each(|c| c.session.close());
    }
}

fn name_of(op: u16) -> &'static str {
    match op {
        OP_CALLBACK_DONE => "(a function has returned)",
        OP_MEMORY_IN => "(shadowed memory, sent)",
        OP_MEMORY_PARTS => "(shadowed memory, sent in parts)",
        OP_MEMORY_APART => "(shadowed memory, apart)",
        OP_MEMORY_ATOMIC => "(shadowed memory, an atomic operation)",
        OP_MEMORY_OUT => "(shadowed memory, asked for)",
        OP_MEMORY_OPEN => "(shadowed memory, opened)",
        OP_MEMORY_CLOSE => "(shadowed memory, closed)",
        OP_MEMORY_WATCH => "(shadowed memory, watched)",
        OP_MEMORY_LOOK => "(shadowed memory, looked at)",
        OP_MIRROR_IN => "(memory of a graph, sent)",
        OP_MIRROR_OUT => "(memory of a graph, asked for)",
        _ => msg::name(op)
            .or_else(|| collectives::name(op))
            .unwrap_or("?"),
    }
}

/// What the worker says unasked.
struct Events {
    state: &'static State,
    /// Nothing is asked of the program before it has queued anything.
    client: OnceLock<&'static Client>,
}

impl Events {
    /// Tells the guest, if there is one; null is the end of the session.
    fn tells(&self, bytes: *const u8, len: usize) {
        if let Some(c) = self.client.get()
            && let Some(listener) = c.guest.get()
        {
            // SAFETY: the guest's function; the bytes are there while it runs.
            unsafe { listener(c.server as u32, bytes, len) };
        }
    }
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

    fn word(&self, body: &[u8]) {
        self.tells(body.as_ptr(), body.len());
    }

    fn closed(&self, _: &str) {
        self.state.contexts.lose_session();
        self.tells(std::ptr::null(), 0);
    }
}
