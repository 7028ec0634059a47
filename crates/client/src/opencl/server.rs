//! One server: its session, the ids of its objects, and what it says unasked.

use super::callbacks::{self, Due, Listeners};
use super::entry::Result;
use super::given::Given;
use super::object::Object;
use super::platform::{self, Platform};
use crate::session::CHUNK;
use crate::tokens::Tokens;
use crate::{Handler, Session, config::Config};
use busbar_abi::opencl::*;
use busbar_channel::Bulk;
use busbar_channel::switches::Switch;
use busbar_wire::WireError;
use busbar_wire::codec::{Message, Reader, Request};
use busbar_wire::generated::opencl as wire;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Any failure that comes from a session that is over.
pub const LOST: i32 = CL_DEVICE_NOT_AVAILABLE;
/// Data of at most this size travels among other records.
const SMALL: usize = 16 << 10;

/// Locks, whatever a panicking thread left behind.
pub fn lock<T: ?Sized>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the receiving thread shares with the callers.
#[derive(Default)]
pub struct Hub {
    /// Failures of queued calls, by queue, until a call on that queue waits.
    errors: Mutex<HashMap<u32, i32>>,
    failed: AtomicUsize,
    /// Callbacks that the worker will ask for.
    pub waiting: Mutex<Tokens<Due>>,
    /// Contexts that want to hear of errors.
    pub listeners: Mutex<Listeners>,
    lost: AtomicBool,
}

impl Handler for Hub {
    fn error(&self, status: i32, body: &[u8]) {
        let mut r = Reader::new(body);
        let (Ok(op), Ok(queue)) = (r.u16(), r.u32()) else {
            return;
        };
        let name = wire::name(op).unwrap_or("a call");
        let text = format!("{name} failed at the server with error {status}");
        crate::log!(Warn, "{text}");
        lock(&self.listeners).tell_of_queue(queue, &text);
        lock(&self.errors).entry(queue).or_insert(status);
        self.failed.fetch_add(1, Ordering::Release);
    }

    fn callback(&self, status: i32, call: u32, body: &[u8]) -> std::result::Result<(), String> {
        let mut r = Reader::new(body);
        let damaged = |e: WireError| format!("a callback makes no sense: {e}");
        if call != 0 {
            let (text, info) = (r.str().map_err(damaged)?, r.bytes().map_err(damaged)?);
            lock(&self.listeners).tell(call, text, info);
            return Ok(());
        }
        let token = r.u64().map_err(damaged)?;
        let (due, _) = lock(&self.waiting).take(token)?;
        callbacks::run(Box::new(move || due(status)));
        Ok(())
    }

    fn output(&self, text: &[u8]) {
        callbacks::print(text);
    }

    fn closed(&self, why: &str) {
        self.lost.store(true, Ordering::Release);
        lock(&self.listeners).tell_all(&format!("the session is over: {why}"));
        for due in lock(&self.waiting).drain() {
            callbacks::run(Box::new(move || due(LOST)));
        }
    }
}

#[derive(Default)]
struct Ids {
    next: u32,
    free: Vec<u32>,
}

/// A server in use. It lives as long as the process.
pub struct Server {
    /// The session.
    pub session: Session,
    /// What arrives unasked.
    pub hub: Arc<Hub>,
    /// Its address, for people.
    pub address: String,
    /// Whether the program uses other servers too.
    pub one_of_many: bool,
    ids: Mutex<Ids>,
    blobs: AtomicU32,
    /// Binaries that it has given out.
    pub given: Mutex<Given>,
    platforms: OnceLock<Vec<Arc<Object<Platform>>>>,
    /// Whether memory of the program's is being sent from where it lies.
    pub borrowed: AtomicBool,
    /// Whether the program has asked for the times of an event.
    pub profiles: AtomicBool,
}

/// The servers that could be reached when the program first asked.
pub fn servers() -> &'static [&'static Server] {
    static SERVERS: OnceLock<Vec<&'static Server>> = OnceLock::new();
    SERVERS.get_or_init(|| {
        // A worker that finds this driver among its own would be its own client.
        if std::env::var_os("BUSBAR_IN_WORKER").is_some() {
            return Vec::new();
        }
        let config = Config::from_env();
        if config.servers.is_empty() {
            crate::log!(Info, "BUSBAR_SERVER is not set: no OpenCL platforms");
        }
        let open: Vec<_> = config
            .servers
            .iter()
            .filter_map(|address| match Server::open(&config, address) {
                Ok(s) => Some(s),
                Err(why) => {
                    crate::log!(Error, "no OpenCL platforms from {address}: {why}");
                    None
                }
            })
            .collect();
        if !open.is_empty() {
            watch_process();
        }
        open
    })
}

extern "C" fn at_exit() {
    if super::entry::is_forked() {
        return;
    }
    for s in servers() {
        s.session.close();
    }
}

extern "C" fn in_child() {
    super::entry::forked();
    crate::socket::abandon();
}

fn watch_process() {
    // SAFETY: both functions stay loaded: the library is never unloaded.
    unsafe {
        libc::atexit(at_exit);
        libc::pthread_atfork(None, None, Some(in_child));
    }
}

impl Server {
    fn open(config: &Config, address: &str) -> std::result::Result<&'static Self, String> {
        let hub = Arc::new(Hub::default());
        let name = |op| wire::name(op).unwrap_or("?");
        let session = Session::open(config, address, "opencl", name, hub.clone())
            .map_err(|e| e.to_string())?;
        let server: &'static Self = Box::leak(Box::new(Self {
            session,
            hub,
            address: address.into(),
            one_of_many: config.servers.len() > 1,
            ids: Mutex::default(),
            blobs: AtomicU32::new(1),
            given: Mutex::default(),
            platforms: OnceLock::new(),
            borrowed: AtomicBool::new(false),
            profiles: AtomicBool::new(false),
        }));
        let body = server
            .call(&wire::Describe {})
            .map_err(|e| format!("the server does not describe its devices (error {e})"))?;
        let reply: wire::DescribeReply = decode(&body)
            .map_err(|e| format!("the server's description is damaged (error {e})"))?;
        let list = platform::parse(server, reply.platforms)
            .map_err(|e| format!("the server's description is damaged: {e}"))?;
        let _ = server.platforms.set(list);
        Ok(server)
    }

    /// The server's platforms.
    pub fn platforms(&self) -> &[Arc<Object<Platform>>] {
        self.platforms.get().map_or(&[], Vec::as_slice)
    }

    /// Keeps ids up to `last` from being given out.
    pub fn reserve(&self, last: u32) {
        let mut ids = lock(&self.ids);
        ids.next = ids.next.max(last);
    }

    /// An id for a new object.
    pub fn id(&self) -> u32 {
        let mut ids = lock(&self.ids);
        ids.free.pop().unwrap_or_else(|| {
            ids.next += 1;
            ids.next
        })
    }

    /// `n` ids in a row.
    pub fn id_range(&self, n: u32) -> u32 {
        let mut ids = lock(&self.ids);
        let first = ids.next + 1;
        ids.next += n;
        first
    }

    /// Tells the worker that an object is gone, and takes its id back.
    pub fn release(&self, id: u32) {
        // After the session nobody is left to tell.
        if !super::entry::is_forked()
            && self.session.queue(0, &wire::Release { object: id }).is_ok()
        {
            lock(&self.ids).free.push(id);
        }
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

    /// Sends a message and waits for its reply.
    pub fn call<'a, R: Request<'a>>(&self, msg: &R) -> Result<Vec<u8>> {
        self.call_into(msg, None)
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
        let blob = self.blobs.fetch_add(1, Ordering::Relaxed) | 1 << 31;
        for (i, piece) in data.chunks(CHUNK).enumerate() {
            let msg = wire::Blob {
                blob,
                total: data.len() as u64,
                offset: (i * CHUNK) as u64,
                data: &[],
            };
            self.session
                .queue_bulk(0, &msg, Bulk::Copy(piece))
                .map_err(|_| LOST)?;
        }
        Ok(blob)
    }

    /// The failure of an earlier call on `queue`, if there was one; asked by calls that wait.
    pub fn deferred(&self, queue: u32) -> Result<()> {
        if self.hub.failed.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        match lock(&self.hub.errors).remove(&queue) {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }

    /// Waits until borrowed memory is the program's again.
    pub fn settle(&self) -> Result<()> {
        if self.borrowed.swap(false, Ordering::AcqRel) {
            self.session.drain().map_err(|_| LOST)?;
        }
        Ok(())
    }

    /// Whether the session is over.
    pub fn lost(&self) -> bool {
        self.hub.lost.load(Ordering::Acquire)
    }
}

/// Reads a reply.
pub fn decode<'a, M: Message<'a>>(body: &'a [u8]) -> Result<M> {
    let mut r = Reader::new(body);
    M::decode(&mut r).map_err(|_| LOST)
}
