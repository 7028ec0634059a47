//! A server in use: its session, and what is known of its objects. Everything above says what it
//! wants sent here.

use super::state::builds::Given;
use super::state::event::Told;
use super::state::ids::Ids;
use super::state::object::{Body, Death, Owner};
use super::state::svm::Allocations;
use super::state::told::{Due, Failures, Listeners};
use super::state::{Job, Result, bodies};
use crate::prelude::*;
use crate::ring::Ring;
use crate::session::CHUNK;
use crate::tokens::Tokens;
use crate::{Handler, Session, threads};
use busbar_abi::opencl::*;
use busbar_channel::Bulk;
use busbar_channel::switches::Switch;
use busbar_wire::WireError;
use busbar_wire::codec::{Asks, Message, Reader, Request};
use busbar_wire::generated::opencl as wire;
use std::ffi::c_void;
use std::sync::mpsc::{Sender, channel};

pub use super::state::object::{Object, Ref};

/// A platform of a server.
pub type Platform = bodies::Platform<Server>;
/// A device of a server.
pub type Device = bodies::Device<Server>;
/// A context at a server.
pub type Context = bodies::Context<Server>;
/// A queue at a server.
pub type Queue = bodies::Queue<Server>;
/// An event at a server.
pub type Event = bodies::Event<Server>;
/// A buffer or an image at a server.
pub type Memory = bodies::Memory<Server>;
/// A program at a server.
pub type Program = bodies::Program<Server>;
/// A kernel at a server.
pub type Kernel = bodies::Kernel<Server>;
/// A sampler at a server.
pub type Sampler = bodies::Sampler<Server>;

/// Any failure that comes from a session that is over.
pub const LOST: i32 = CL_DEVICE_NOT_AVAILABLE;
/// Data of at most this size travels among other records.
const SMALL: usize = 16 << 10;

/// Runs functions of the program on one thread, in the order in which they came due. They may call
/// the API, so no lock is held.
#[derive(Default)]
pub struct Runner(OnceLock<Option<Mutex<Sender<Job>>>>);

impl Runner {
    /// Runs `job` on the callback thread.
    pub fn run(&self, job: Job) {
        let start = || {
            let (to, from) = channel::<Job>();
            let work = move || from.into_iter().for_each(|job| job());
            let started = threads::start("busbar-callback", work);
            started.ok().map(|()| Mutex::new(to))
        };
        if let Some(queue) = self.0.get_or_init(start) {
            let _ = lock(queue).send(job);
        }
    }

    fn run_all(&self, jobs: Vec<Job>) {
        jobs.into_iter().for_each(|job| self.run(job));
    }
}

/// What the receiving thread shares with the callers.
#[derive(Default)]
pub struct Hub {
    failures: Mutex<Failures>,
    any_failed: AtomicUsize,
    /// Callbacks that the worker will ask for.
    waiting: Mutex<Tokens<Due>>,
    /// Contexts that want to hear of errors.
    pub listeners: Mutex<Listeners>,
    lost: AtomicBool,
    /// The program's functions.
    pub runner: Runner,
}

impl Hub {
    /// A call that nobody waits for has failed, on a queue or (0) on none.
    pub fn failed(&self, op: u16, queue: u32, status: i32) {
        let name = wire::name(op).unwrap_or("a call");
        let text = format!("{name} failed at the server with error {status}");
        crate::log!(Warn, "{text}");
        let told = lock(&self.listeners).tell_of_queue(queue, &text);
        self.runner.run_all(told);
        lock(&self.failures).add(queue, status);
        self.any_failed.fetch_add(1, Ordering::Release);
    }
}

impl Handler for Hub {
    fn error(&self, status: i32, body: &[u8]) {
        let mut r = Reader::new(body);
        if let (Ok(op), Ok(queue)) = (r.u16(), r.u32()) {
            self.failed(op, queue, status);
        }
    }

    fn callback(&self, status: i32, call: u32, body: &[u8]) -> std::result::Result<(), String> {
        let mut r = Reader::new(body);
        let damaged = |e: WireError| format!("a callback makes no sense: {e}");
        if call != 0 {
            let (text, info) = (r.str().map_err(damaged)?, r.bytes().map_err(damaged)?);
            let told = lock(&self.listeners).tell(call, text, info);
            self.runner.run_all(told);
            return Ok(());
        }
        let token = r.u64().map_err(damaged)?;
        let (due, _) = lock(&self.waiting).take(token)?;
        self.runner.run(Box::new(move || due(status)));
        Ok(())
    }

    fn output(&self, text: &[u8]) {
        crate::stdio::print(text);
    }

    fn closed(&self, why: &str) {
        self.lost.store(true, Ordering::Release);
        let text = format!("the session is over: {why}");
        let told = lock(&self.listeners).tell_all(&text);
        self.runner.run_all(told);
        // No word will come any more.
        for due in lock(&self.waiting).drain() {
            self.runner.run(Box::new(move || due(LOST)));
        }
    }
}

/// A ring in memory that a worker knows by a number.
pub struct Numbered {
    /// The pieces.
    pub ring: Ring,
    /// The worker's name for the memory.
    pub number: u64,
    /// Where it begins.
    pub base: usize,
}

/// A server in use. It lives as long as the process.
pub struct Server {
    /// The session.
    pub session: Session,
    /// What arrives unasked.
    pub hub: Arc<Hub>,
    /// Its address, if names of devices are to say it.
    pub address: Option<String>,
    ids: Ids,
    /// Binaries that it has given out.
    pub given: Mutex<Given>,
    /// Its platforms.
    pub platforms: OnceLock<Vec<Ref<Platform>>>,
    /// Shared virtual memory.
    pub svm: Allocations<Ref<Context>>,
    /// Pieces of memory that is shared with a worker on this host.
    pub ring: OnceLock<Option<Numbered>>,
    /// Whether memory of the program's is being sent from where it lies.
    pub borrowed: AtomicBool,
    /// Whether the program has asked for the times of an event.
    pub profiles: AtomicBool,
    /// Of which events the worker tells by itself.
    pub told: Told,
    /// Whether this process is the child of a fork: the session stayed with the parent.
    forked: &'static AtomicBool,
    table: &'static [Function],
}

/// A function of the API.
#[derive(Clone, Copy)]
pub struct Function(pub *const c_void);

// SAFETY: a function is there for every thread.
unsafe impl Sync for Function {}

impl Owner for Server {
    fn table(&self) -> *const c_void {
        self.table.as_ptr().cast()
    }

    fn ids(&self) -> &Ids {
        &self.ids
    }

    fn gone(&self, death: Death) {
        // After a fork or the session nobody is left to tell.
        if self.forked.load(Ordering::Relaxed) {
            return;
        }
        if death.kind == Context::MAGIC {
            lock(&self.hub.listeners).remove(death.id);
        }
        self.hub.runner.run_all(death.last);
        let object = death.id;
        if object != 0 && self.session.queue(0, &wire::Release { object }).is_ok() {
            self.ids.give_back(object);
        }
    }

    fn flush(&self) {
        self.session.flush();
    }
}

impl Server {
    /// A server with this session, which `hub` handles.
    pub fn new(
        session: Session,
        hub: Arc<Hub>,
        address: Option<String>,
        forked: &'static AtomicBool,
        table: &'static [Function],
    ) -> Self {
        Self {
            session,
            hub,
            address,
            ids: Ids::default(),
            given: Mutex::default(),
            platforms: OnceLock::new(),
            svm: Allocations::default(),
            ring: OnceLock::new(),
            borrowed: AtomicBool::new(false),
            profiles: AtomicBool::new(false),
            told: Told::default(),
            forked,
            table,
        }
    }

    /// An id for a new object.
    pub fn id(&self) -> u32 {
        self.ids.take()
    }

    /// Queues a message.
    #[inline]
    pub fn queue<'a, R: Request<'a>>(&self, msg: &R) -> Result<()> {
        self.session.queue(0, msg).map_err(|_| LOST)?;
        match Switch::Queue.on() {
            true => Ok(()),
            false => self.session.drain().map_err(|_| LOST),
        }
    }

    /// Queues a message. In `doubt` whether the driver takes what it asks for, waits for its word:
    /// drivers take more than the standard says that they must, and programs rely on it.
    pub fn queue_or_ask<'a, R: Request<'a>>(&self, doubt: bool, msg: &R) -> Result<()> {
        match doubt {
            true => self.call(msg).map(drop),
            false => self.queue(msg),
        }
    }

    /// What became of an object that the worker was asked to make. Whoever has doubts whether the
    /// driver makes it asks so.
    pub fn check(&self, object: u32) -> Result<()> {
        self.call(&wire::Check { object }).map(drop)
    }

    /// Queues a message, and sends what is queued.
    pub fn queue_now<'a, R: Request<'a>>(&self, msg: &R) -> Result<()> {
        self.queue(msg)?;
        self.session.flush();
        Ok(())
    }

    /// Sends a message and waits for its reply.
    pub fn call<'a, R: Request<'a>>(&self, msg: &R) -> Result<Vec<u8>> {
        self.call_into(msg, None)
    }

    /// Makes a call and reads its reply.
    pub fn reply_to<'a, R: Asks<'a>>(&self, msg: &R) -> Result<R::Reply> {
        decode(&self.call(msg)?)
    }

    /// As [`Server::call`], with a place for bulk bytes.
    pub fn call_into<'a, R: Request<'a>>(
        &self,
        msg: &R,
        place: Option<(*mut u8, usize)>,
    ) -> Result<Vec<u8>> {
        let answer = self.session.call(0, msg, place).map_err(|_| LOST)?;
        match answer.status {
            CL_SUCCESS => Ok(answer.body),
            e => Err(e),
        }
    }

    /// Queues a message whose data may be large: `make` gets the blob that holds it, or the data.
    pub fn send<'d, R: Request<'d>>(
        &self,
        data: &'d [u8],
        make: impl FnOnce(u32, &'d [u8]) -> R,
    ) -> Result<()> {
        let sent = if data.len() <= SMALL {
            self.session.queue(0, &make(0, data))
        } else if data.len() <= CHUNK {
            self.session.queue_bulk(0, &make(0, &[]), Bulk::Copy(data))
        } else {
            let blob = self.blob(data)?;
            self.session.queue(0, &make(blob, &[]))
        };
        sent.map_err(|_| LOST)
    }

    /// Sends data ahead of the message that uses it; 0 when there is none.
    pub fn blob(&self, data: &[u8]) -> Result<u32> {
        if data.is_empty() {
            return Ok(0);
        }
        let blob = self.ids.blob();
        for (i, piece) in data.chunks(CHUNK).enumerate() {
            let msg = wire::Blob {
                blob,
                total: data.len() as u64,
                offset: (i * CHUNK) as u64,
                data: &[],
            };
            let sent = self.session.queue_bulk(0, &msg, Bulk::Copy(piece));
            sent.map_err(|_| LOST)?;
        }
        Ok(blob)
    }

    /// The failure of an earlier call on `queue`, if there was one; asked by calls that wait.
    pub fn deferred(&self, queue: u32) -> Result<()> {
        match self.hub.any_failed.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => lock(&self.hub.failures).take(queue),
        }
    }

    /// Has `due` called once the worker says that an event has come to the state `trigger`.
    pub fn when(&self, event: u32, trigger: i32, due: Due) -> Result<()> {
        let token = {
            let mut waiting = lock(&self.hub.waiting);
            refuse_if(self.lost(), LOST)?;
            waiting.once(due)
        };
        self.queue(&wire::EventCallback {
            event,
            trigger,
            token,
        })
    }

    /// Waits until borrowed memory is the program's again.
    pub fn wait_for_borrowed(&self) -> Result<()> {
        if self.borrowed.swap(false, Ordering::AcqRel) {
            self.session.drain().map_err(|_| LOST)?;
        }
        Ok(())
    }

    /// Whether the session is over.
    pub fn lost(&self) -> bool {
        self.hub.lost.load(Ordering::Acquire)
    }

    /// The server's platforms.
    pub fn platforms(&self) -> &[Ref<Platform>] {
        self.platforms.get().map_or(&[], Vec::as_slice)
    }
}

/// Reads a reply.
pub fn decode<'a, M: Message<'a>>(body: &'a [u8]) -> Result<M> {
    let mut r = Reader::new(body);
    M::decode(&mut r).map_err(|_| LOST)
}

/// A program's use of OpenCL: the servers that could be reached when it first asked.
pub struct Client {
    /// The servers.
    pub servers: Vec<&'static Server>,
    /// Every function, by its name.
    pub functions: &'static [(&'static str, Function)],
}

impl Client {
    /// The platforms of all servers.
    pub fn platforms(&self) -> impl Iterator<Item = &Ref<Platform>> {
        self.servers.iter().flat_map(|s| s.platforms())
    }

    /// The platform of a handle; the first one for none.
    pub fn platform<'a>(
        &'a self,
        given: Option<&'a Object<Platform>>,
    ) -> Result<&'a Object<Platform>> {
        let first = || self.platforms().next().map(|p| &**p);
        given.or_else(first).ok_or(CL_INVALID_PLATFORM)
    }
}
