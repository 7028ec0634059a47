//! The process's CUDA session, and what every call goes through.

use super::{addresses, context, device, event, handles, logs, output, retire, shadow, stream};
use crate::calls::Answer;
use crate::config::Config;
use crate::hello::Failure;
use crate::session::{Handler, Session};
use busbar_abi::cuda::*;
use busbar_channel::switches::Switch;
use busbar_channel::{Bulk, Closed};
use busbar_wire::codec::{Message, Reader, Request};
use busbar_wire::generated::cuda::{self as msg, Kind, op};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// The process's session and what the client knows without asking.
pub struct Runtime {
    /// The session with the worker.
    pub session: Session,
    /// The devices the program sees, in its order.
    pub devices: Vec<device::Device>,
    /// What `cuDriverGetVersion` answers: the server's.
    pub driver_version: i32,
    cache: [RwLock<Cache>; 16],
    /// How often something was taken from the cache: an answer from before that is not kept.
    forgotten: AtomicU64,
    hasher: RandomState,
}

const NEW: u32 = 0;
const READY: u32 = 1;
const FORKED: u32 = 2;
const ENDED: u32 = 3;
const OPEN: u32 = 4;

static STATE: AtomicU32 = AtomicU32::new(NEW);
static RUNTIME: OnceLock<Runtime> = OnceLock::new();
static OPENING: Mutex<()> = Mutex::new(());
/// The error of every call once the session is over before its time; 0 until then.
static LOST: AtomicI32 = AtomicI32::new(0);
/// Whether the session is lost, or any context is: only then a call looks closer.
static TROUBLE: AtomicBool = AtomicBool::new(false);

/// The stream that a waiting call has last seen idle, and how many records had been queued then.
/// While none is queued after it, the stream is idle still, and waiting for it again needs no round
/// trip.
/// One pair, under one lock: half of one thread's and half of another's would be a lie.
static IDLE: Mutex<(u64, u64)> = Mutex::new((u64::MAX, 0));

fn idle_pair() -> MutexGuard<'static, (u64, u64)> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A reply message's bytes.
#[derive(Clone, Debug)]
pub struct ReplyBytes(Arc<[u8]>);

impl Deref for ReplyBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// A call in progress: the session, and the context that is current to the calling thread.
#[derive(Clone, Copy)]
pub struct Cx {
    /// The process's runtime.
    pub rt: &'static Runtime,
    /// The id of the current context; 0 for none.
    pub scope: u32,
}

/// Begins a call. Fails when the driver is not initialized, was forked away, has ended, or when an
/// error has lost the session or the current context.
#[inline]
pub fn enter() -> Result<Cx, CUresult> {
    let cx = present()?;
    if TROUBLE.load(Ordering::Acquire) {
        session_lives()?;
        context::works()?;
    }
    Ok(cx)
}

/// Begins a call that does not concern the current context.
pub fn enter_anywhere() -> Result<Cx, CUresult> {
    let cx = present()?;
    session_lives()?;
    Ok(cx)
}

fn session_lives() -> Result<(), CUresult> {
    match LOST.load(Ordering::Acquire) {
        0 => Ok(()),
        e => Err(e),
    }
}

/// Begins a call that needs only the client's own knowledge, and so works whatever has failed.
#[inline]
pub fn enter_local() -> Result<Cx, CUresult> {
    let cx = present()?;
    if !Switch::Local.on() {
        cx.ask()?;
    }
    Ok(cx)
}

/// The session of this process, if it has one.
#[inline]
fn present() -> Result<Cx, CUresult> {
    match STATE.load(Ordering::Acquire) {
        READY => {}
        ENDED => return Err(CUDA_ERROR_DEINITIALIZED),
        _ => return Err(CUDA_ERROR_NOT_INITIALIZED),
    }
    match RUNTIME.get() {
        Some(rt) => Ok(Cx {
            rt,
            scope: context::current(),
        }),
        None => Err(CUDA_ERROR_NOT_INITIALIZED),
    }
}

/// Runs a call's body: its result becomes the C result, and no panic passes into the program.
#[inline]
pub fn guard(f: impl FnOnce() -> Result<(), CUresult>) -> CUresult {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(())) => CUDA_SUCCESS,
        Ok(Err(e)) => {
            if logs::used() {
                log_is_told();
            }
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
    if present().is_ok() {
        logs::tell();
    }
}

/// The answer of a call that is not forwarded; logged once each.
#[cold]
pub fn unsupported(name: &'static str, reason: &'static str) -> CUresult {
    static TOLD: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.get_or_insert_default().insert(name) {
        crate::log!(Warn, "{name} is not supported: {reason}");
    }
    CUDA_ERROR_NOT_SUPPORTED
}

/// `cuInit`: opens the session, once.
pub fn init() -> Result<(), CUresult> {
    let settled = || match STATE.load(Ordering::Acquire) {
        READY => Some(Ok(())),
        FORKED => Some(Err(CUDA_ERROR_NOT_INITIALIZED)),
        ENDED => Some(Err(CUDA_ERROR_DEINITIALIZED)),
        _ => None,
    };
    // Before the lock: in the child of a fork its holder may not exist.
    if let Some(r) = settled() {
        return r;
    }
    let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(r) = settled() {
        return r;
    }
    static HANDLERS: std::sync::Once = std::sync::Once::new();
    // SAFETY: both handlers are plain functions that live as long as the library, which is linked
    // never to be unloaded.
    HANDLERS.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(forked));
        libc::atexit(ended);
    });
    STATE.store(OPEN, Ordering::Release);
    let r = open();
    let state = if r.is_ok() { READY } else { NEW };
    // A process that exits meanwhile has ended the session for good.
    let _ = STATE.compare_exchange(OPEN, state, Ordering::AcqRel, Ordering::Acquire);
    r
}

fn open() -> Result<(), CUresult> {
    let config = Config::from_env();
    if config.all_pointers {
        addresses::believe_all();
    }
    let Some(server) = config.servers.first() else {
        crate::log!(
            Error,
            "BUSBAR_SERVER is not set: start the program with `busbar run`"
        );
        return Err(CUDA_ERROR_NO_DEVICE);
    };
    let opened = Session::open(&config, server, "cuda", name_of, Arc::new(Events));
    let session = match opened {
        Ok(s) => s,
        Err(e) => {
            crate::log!(Error, "{e}");
            return Err(match e {
                Failure::Refused(r) if r.code == "no_device" => CUDA_ERROR_NO_DEVICE,
                Failure::Refused(r) if r.code == "taken" => CUDA_ERROR_DEVICE_UNAVAILABLE,
                _ => CUDA_ERROR_SYSTEM_NOT_READY,
            });
        }
    };
    let (devices, driver_version) = match introduce(&session) {
        Ok(x) => x,
        Err(e) => {
            // A session that nobody will use must not hold anything at the server.
            session.close();
            return Err(e);
        }
    };
    let rt = Runtime {
        session,
        devices,
        driver_version,
        cache: Default::default(),
        forgotten: AtomicU64::new(0),
        hasher: RandomState::new(),
    };
    if RUNTIME.set(rt).is_err() {
        return Err(CUDA_ERROR_UNKNOWN);
    }
    let seen = RUNTIME
        .get()
        .map(|rt| rt.devices.iter().map(|d| d.position).collect());
    let select = msg::SelectDevices {
        devices: seen.unwrap_or_default(),
    };
    if let Some(rt) = RUNTIME.get() {
        rt.session
            .queue(0, &select)
            .map_err(|_| CUDA_ERROR_SYSTEM_NOT_READY)?;
    }
    Ok(())
}

/// Asks the worker for its devices, and which driver it has.
fn introduce(session: &Session) -> Result<(Vec<device::Device>, i32), CUresult> {
    let answer = session.call(0, &msg::OpenCuda {}, None).map_err(|e| {
        crate::log!(Error, "{e}");
        CUDA_ERROR_SYSTEM_NOT_READY
    })?;
    if answer.status != CUDA_SUCCESS {
        return Err(answer.status);
    }
    let reply = decode::<msg::OpenCudaReply<'_>>(&answer.body)?;
    let devices = device::parse(reply.devices).map_err(|_| CUDA_ERROR_UNKNOWN)?;
    let devices = device::visible(devices)?;
    if devices.is_empty() {
        return Err(CUDA_ERROR_NO_DEVICE);
    }
    Ok((devices, reply.driver as i32))
}

/// In the child of a fork: the session is the parent's, whose threads and socket are not ours.
extern "C" fn forked() {
    if matches!(STATE.load(Ordering::Acquire), READY | OPEN) {
        STATE.store(FORKED, Ordering::Release);
        crate::socket::abandon();
    }
}

/// At exit: the session ends in good order, and the counters are shown to who asked for them.
extern "C" fn ended() {
    if STATE
        .compare_exchange(READY, ENDED, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
        && let Some(rt) = RUNTIME.get()
    {
        rt.session.close();
    }
}

fn name_of(op: u16) -> &'static str {
    msg::name(op).unwrap_or("?")
}

/// From now on calls look whether their context still works.
pub fn look_closer() {
    TROUBLE.store(true, Ordering::Release);
}

/// The session is over: the error of everything from now on.
fn session_lost() -> CUresult {
    LOST.store(CUDA_ERROR_DEVICE_UNAVAILABLE, Ordering::Release);
    look_closer();
    CUDA_ERROR_DEVICE_UNAVAILABLE
}

/// Decodes a message that must be there to its last byte.
pub fn decode<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<M, CUresult> {
    let mut r = Reader::new(bytes);
    let m = M::decode(&mut r).and_then(|m| r.finish().map(|()| m));
    m.map_err(|e| {
        crate::log!(Error, "the worker's answer makes no sense: {e}");
        CUDA_ERROR_UNKNOWN
    })
}

/// What the worker says unasked.
struct Events;

impl Handler for Events {
    fn error(&self, status: i32, body: &[u8]) {
        let mut r = Reader::new(body);
        let op = r.u16().unwrap_or(0);
        let context = r.u32().unwrap_or(0);
        let lost = r.u8().unwrap_or(0) != 0;
        let what = if op == 0 { "work" } else { name_of(op) };
        crate::log!(Warn, "{what} failed at the server with error {status}");
        if lost {
            context::lose(context, status);
        } else if !stream::spoils(status) {
            context::defer(context, status);
        }
    }

    fn callback(&self, status: i32, call: u32, body: &[u8]) -> Result<(), String> {
        super::callback::asked(status, call, body)
    }

    fn output(&self, text: &[u8]) {
        super::output::print(text);
    }

    fn complaint(&self, text: &[u8]) {
        super::output::complain(text);
    }

    fn closed(&self, why: &str) {
        // A program that ends has asked for it.
        if STATE.load(Ordering::Acquire) != ENDED {
            crate::log!(Error, "the session is over: {why}");
        }
        session_lost();
    }
}

/// Whether a queued call makes something in the current context, which must be there.
const fn needs_context(op: u16) -> bool {
    matches!(
        op,
        op::CU_STREAM_CREATE | op::CU_STREAM_CREATE_WITH_PRIORITY | op::CU_EVENT_CREATE
    )
}

/// Whether a call reports what went wrong before it. Any other must not: what it has made would be
/// lost with its own result.
fn reports(op: u16) -> bool {
    matches!(
        op,
        op::CU_STREAM_SYNCHRONIZE
            | op::CU_STREAM_QUERY
            | op::CU_EVENT_SYNCHRONIZE
            | op::CU_EVENT_QUERY
            | op::CONTEXT_SYNCHRONIZE
            | op::COPY_OUT
            | op::COPY_OUT_ROWS
    )
}

impl Cx {
    fn lost<T>(self) -> Result<T, CUresult> {
        Err(session_lost())
    }

    /// The id of a handle.
    #[inline]
    pub fn handle(self, kind: Kind, raw: u64) -> Result<u32, CUresult> {
        handles::id(kind, raw).ok_or(match kind {
            Kind::Context => CUDA_ERROR_INVALID_CONTEXT,
            _ => CUDA_ERROR_INVALID_HANDLE,
        })
    }

    /// The id of a handle that may be null; 0 then.
    #[inline]
    pub fn handle_opt(self, kind: Kind, raw: u64) -> Result<u32, CUresult> {
        if raw == 0 {
            Ok(0)
        } else {
            self.handle(kind, raw)
        }
    }

    /// The id of a stream, with CUDA's special values; 0 is the legacy default stream.
    #[inline]
    pub fn stream(self, raw: CUstream, per_thread: bool) -> Result<u32, CUresult> {
        stream::id(self, raw, per_thread)
    }

    /// Chooses the id of an object that the next call creates.
    pub fn create(self, kind: Kind) -> u32 {
        if handles::used_up(kind) {
            self.use_again(kind);
        }
        handles::create(kind, self.scope)
    }

    /// Ids that were kept from use are needed: what is cached under them is forgotten.
    #[cold]
    fn use_again(self, kind: Kind) {
        self.rt.forgotten.fetch_add(1, Ordering::AcqRel);
        for shard in &self.rt.cache {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            shard.clear();
        }
        handles::use_again(kind);
    }

    /// The handle of an id.
    pub fn raw(self, kind: Kind, id: u32) -> u64 {
        handles::raw(kind, id)
    }

    /// Ends a handle.
    pub fn destroy(self, kind: Kind, id: u32) {
        if kind == Kind::Event {
            event::forget(id);
        }
        handles::destroy(kind, id);
    }

    /// The current context's id; an error when there is none.
    #[inline]
    pub fn need_context(self) -> Result<u32, CUresult> {
        if self.scope == 0 {
            Err(CUDA_ERROR_INVALID_CONTEXT)
        } else {
            Ok(self.scope)
        }
    }

    /// Whether nothing has been queued since a waiting call has seen this stream idle.
    #[inline]
    pub fn idle(self, stream: u32) -> bool {
        let (seen, since) = *idle_pair();
        let covers = || {
            // Without any other stream the default one has all of the context's work.
            let alone = stream == ALL_STREAMS && handles::at_most(Kind::Stream, 0);
            seen == key(self.scope, ALL_STREAMS) || (alone && seen == key(self.scope, 0))
        };
        (seen == key(self.scope, stream) || covers())
            && since == self.queued()
            && !context::has_deferred(self.scope)
            && Switch::Idle.on()
    }

    /// A waiting call has seen this stream idle. `since` is [`Cx::queued`] from before that call.
    pub fn now_idle(self, stream: u32, since: u64) {
        // The waiting call itself was one more.
        *idle_pair() = (key(self.scope, stream), since + 1);
    }

    /// How many records have been queued so far.
    pub fn queued(self) -> u64 {
        self.rt.session.records()
    }

    /// Makes a call as its line of the spec says. It is queued, and its failure, if any, shows at a
    /// later call, as CUDA's asynchronous errors do; or, where the driver may well refuse it, its
    /// result is waited for.
    #[inline]
    pub fn send<'a, R: Request<'a>>(self, r: &R) -> Result<(), CUresult> {
        if shadow::is_work(R::OP) && shadow::active() {
            shadow::work(self, shadow::ANY, false)?;
        }
        if !r.queued() {
            return self.call(r).map(drop);
        }
        if self.scope == 0 && needs_context(R::OP) {
            return Err(CUDA_ERROR_INVALID_CONTEXT);
        }
        let sent = self.rt.session.queue(self.scope, r);
        match sent.and_then(|()| self.queued_one()) {
            Ok(()) => Ok(()),
            Err(_) => self.lost(),
        }
    }

    /// Asks the worker something harmless and waits for the answer: what a call costs that the
    /// client could have answered.
    #[cold]
    fn ask(self) -> Result<(), CUresult> {
        let attrib = CU_DEVICE_ATTRIBUTE_WARP_SIZE;
        let question = msg::CuDeviceGetAttribute { attrib, dev: 0 };
        match self.rt.session.call(0, &question, None) {
            Ok(_) => Ok(()),
            Err(_) => self.lost(),
        }
    }

    /// A call was queued. With queueing switched off it waits here until the worker has it.
    #[inline]
    pub fn queued_one(self) -> Result<(), Closed> {
        if Switch::Queue.on() {
            return Ok(());
        }
        self.rt.session.drain()
    }

    /// Queues a call that ends in bulk bytes.
    pub fn send_bulk<'a, R: Request<'a>>(self, r: &R, bulk: Bulk<'_>) -> Result<(), CUresult> {
        if shadow::is_work(R::OP) && shadow::active() {
            shadow::work(self, shadow::ANY, false)?;
        }
        let sent = self.rt.session.queue_bulk(self.scope, r, bulk);
        match sent.and_then(|()| self.queued_one()) {
            Ok(()) => Ok(()),
            Err(_) => self.lost(),
        }
    }

    /// Makes a call and waits for its answer.
    pub fn call<'a, R: Request<'a>>(self, r: &R) -> Result<ReplyBytes, CUresult> {
        self.call_into(r, None)
    }

    /// Makes a call whose bulk answer goes to `place`, and waits for it.
    pub fn call_into<'a, R: Request<'a>>(
        self,
        r: &R,
        place: Option<(*mut u8, usize)>,
    ) -> Result<ReplyBytes, CUresult> {
        if R::OP == op::CU_MEM_GET_INFO_V2 {
            retire::settle(self);
        }
        let answer = self.answer(r, place)?;
        if reports(R::OP) {
            output::settle();
        }
        if answer.status != CUDA_SUCCESS {
            stream::spoils(answer.status);
            return Err(answer.status);
        }
        if reports(R::OP) {
            context::deferred(self.scope)?;
        }
        Ok(ReplyBytes(answer.body.into()))
    }

    /// Makes a call whose reply counts whatever its result: result and reply.
    pub fn call_any<'a, R: Request<'a>>(self, r: &R) -> Result<(CUresult, Vec<u8>), CUresult> {
        self.answer(r, None).map(|a| (a.status, a.body))
    }

    /// The worker's answer to a call, whatever its result.
    fn answer<'a, R: Request<'a>>(
        self,
        r: &R,
        place: Option<(*mut u8, usize)>,
    ) -> Result<Answer, CUresult> {
        let call = || match self.rt.session.call(self.scope, r, place) {
            Ok(a) => Ok(a),
            Err(_) => self.lost(),
        };
        let answer = call()?;
        // Memory that is being freed may be what is missing.
        if answer.status == CUDA_ERROR_OUT_OF_MEMORY && retire::settle(self) {
            return call();
        }
        Ok(answer)
    }

    /// Makes a call whose answer is always the same, once; later the client answers.
    pub fn cached<'a, R: Request<'a>>(self, r: &R) -> Result<ReplyBytes, CUresult> {
        let (key, shard) = self.cache_entry(r);
        let known = shard
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key[..])
            .cloned();
        if let Some(k) = known
            && Switch::Local.on()
        {
            return Ok(k);
        }
        let before = self.rt.forgotten.load(Ordering::Acquire);
        let answer = self.call(r)?;
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        if self.rt.forgotten.load(Ordering::Acquire) != before {
            return Ok(answer);
        }
        if shard.len() >= CACHE_SHARD {
            shard.clear();
        }
        shard.insert(key.into(), answer.clone());
        Ok(answer)
    }

    fn cache_entry<'a, R: Request<'a>>(self, r: &R) -> (Vec<u8>, &'static RwLock<Cache>) {
        let mut key = Vec::with_capacity(64);
        key.extend_from_slice(&self.scope.to_le_bytes());
        key.extend_from_slice(&R::OP.to_le_bytes());
        r.encode(&mut busbar_wire::Writer::new(&mut key));
        let shard = self.rt.hasher.hash_one(&key) as usize % self.rt.cache.len();
        (key, &self.rt.cache[shard])
    }

    /// Forgets a cached answer: something has changed it.
    pub fn forget<'a, R: Request<'a>>(self, r: &R) {
        self.rt.forgotten.fetch_add(1, Ordering::AcqRel);
        let (key, shard) = self.cache_entry(r);
        shard
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&key[..]);
    }

    /// Forgets every answer about a context that is gone.
    pub fn forget_context(self, context: u32) {
        self.rt.forgotten.fetch_add(1, Ordering::AcqRel);
        for shard in &self.rt.cache {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            shard.retain(|key, _| !key.starts_with(&context.to_le_bytes()));
        }
    }
}

/// Answers by what was asked: the context, the call, its arguments.
type Cache = HashMap<Box<[u8]>, ReplyBytes>;

/// The most answers that a part of the cache holds: a program that asks about ever new addresses
/// must not fill its memory with the answers.
const CACHE_SHARD: usize = 4096;

/// In the place of a stream: every stream of the context.
pub const ALL_STREAMS: u32 = u32::MAX;

fn key(scope: u32, stream: u32) -> u64 {
    u64::from(scope) << 32 | u64::from(stream)
}

/// Writes through a program's pointer.
///
/// # Safety
/// `p` is null or valid for a write of `T`.
pub unsafe fn put<T>(p: *mut T, v: T) -> Result<(), CUresult> {
    if p.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: passed on to the caller.
    unsafe { p.write_unaligned(v) };
    Ok(())
}

/// Writes through a program's pointer, if it gave one.
///
/// # Safety
/// `p` is null or valid for a write of `T`.
pub unsafe fn put_opt<T>(p: *mut T, v: T) {
    if !p.is_null() {
        // SAFETY: passed on to the caller.
        unsafe { p.write_unaligned(v) };
    }
}
