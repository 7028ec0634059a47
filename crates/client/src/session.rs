//! A session: the one ordered stream of calls from this process to its worker.

mod apart;
mod memory;

pub use apart::Closes;
use apart::Fields;

use crate::calls::{Answer, Calls};
use crate::config::Config;
use crate::content::{Hash, Offers};
use crate::hello::{self, Failure};
use crate::landing::Landing;
use crate::link::Linker;
use crate::marks;
use crate::prelude::*;
use crate::rdma;
use crate::shared::{Neighbour, Sharing};
use crate::side;
use crate::socket;
use crate::stats::{ARRIVAL, Stats};
use busbar_channel::gate::{Gate, LongWait, Wait};
use busbar_channel::switches::Switch;
use busbar_channel::{Bulk, Channel, Closed, Counters, Keeper, Lost, Mark, PEEK, Sink, Verdict};
use busbar_channel::{look, patience};
use busbar_control::hello::{
    ACTIVITY, BUSY, CHANGED_PARAMETERS, Hello, Intent, KEPT_PARAMETERS, MEMORY_ATOMICS,
    MEMORY_PARTS, SHARED_MEMORY, SIDE_CONNECTION, SIDE_CONNECTIONS, Welcome,
};
use busbar_transport::Memory;
use busbar_transport::{Connection, Dialer};
use busbar_wire::codec::Request;
use busbar_wire::record::{Header, Notice, OP_GOODBYE, Records};
use busbar_wire::{limits, record};
use std::io::Write;

/// What an API does with what its worker says unasked. Called on the receiving thread: it must not
/// block and must not make a waiting call.
pub trait Handler: Send + Sync {
    /// A queued call failed, or the device did.
    fn error(&self, status: i32, body: &[u8]);
    /// The worker wants a function of the program run. An error ends the session: the worker asks
    /// for what it was not given.
    fn callback(&self, status: i32, call: u32, body: &[u8]) -> Result<(), String>;
    /// The device printed something.
    fn output(&self, text: &[u8]);
    /// The driver has something to say on stderr.
    fn complaint(&self, _text: &[u8]) {}
    /// Word for an API beside the session's own.
    fn word(&self, _body: &[u8]) {}
    /// The session is over, and why.
    fn closed(&self, why: &str);
}

struct Shared {
    calls: Calls,
    offers: Offers,
    handler: Arc<dyn Handler>,
    closed: OnceLock<Closed>,
    channel: OnceLock<Channel>,
    /// Where the worker is, for people to read.
    server: String,
    /// The program ends the session itself.
    leaving: AtomicBool,
}

fn log_wait(w: &LongWait) {
    let seconds = w.since.as_secs();
    crate::log!(Info, "{} has waited {seconds} s for {}", w.who, w.gate);
}

/// A session with one worker.
pub struct Session {
    channel: Channel,
    shared: Arc<Shared>,
    stats: Option<Stats>,
    op_name: fn(u16) -> &'static str,
    /// Waiting calls made so far; see [`Offers`].
    stamp: AtomicU64,
    /// Bytes that were copied through shared memory.
    shared_bytes: AtomicU64,
    /// The server's answer to our hello.
    pub welcome: Welcome,
    /// The worker, if it is on this host and takes memory to share.
    pub neighbour: Option<Neighbour>,
    /// What links the session to one at another server.
    pub linker: Option<Linker>,
    /// Whether the worker keeps parameters of launches.
    pub keeps: bool,
    /// Whether it changes words of those.
    pub changes: bool,
    /// Whether it takes records with marks, and can tell what devices do.
    pub tells: bool,
    /// The worker takes bytes that lie among others.
    pub takes_parts: bool,
    /// The worker does atomic operations on memory.
    pub takes_atomics: bool,
    /// Set where memory of the program's may be closed to it.
    pub closes: OnceLock<Closes>,
}

/// Content that a record is about to name.
pub struct Offered<'a> {
    session: &'a Session,
    /// The name.
    pub hash: Hash,
}

impl Drop for Offered<'_> {
    fn drop(&mut self) {
        let stamp = self.session.stamp.load(Ordering::Acquire);
        self.session.shared.offers.named(&self.hash, stamp);
    }
}

impl Session {
    /// Opens a session for `api` with `server`.
    pub fn open(
        config: &Config,
        server: &str,
        api: &str,
        op_name: fn(u16) -> &'static str,
        handler: Arc<dyn Handler>,
    ) -> Result<Self, Failure> {
        busbar_channel::switches::set_off(&config.off);
        if crate::log::enabled(crate::log::Level::Info) {
            busbar_channel::gate::tell_of_long_waits(log_wait);
        }
        let mut hello = Hello::new(Intent::Open);
        hello.api = api.into();
        if config.sharing != Sharing::Never {
            hello.features.push(SHARED_MEMORY.into());
        }
        if Switch::Side.on() {
            let both = [SIDE_CONNECTION, SIDE_CONNECTIONS];
            hello.features.extend(both.map(Into::into));
        }
        if Switch::Repeat.on() {
            let both = [KEPT_PARAMETERS, CHANGED_PARAMETERS];
            hello.features.extend(both.map(Into::into));
        }
        hello.features.push(MEMORY_PARTS.into());
        hello.features.push(MEMORY_ATOMICS.into());
        let mut hello = hello::introduce(config, server, hello).map_err(Failure::Unreachable)?;
        hello.features.push(ACTIVITY.into());
        let way = rdma::Way::ask(&config.rdma, &mut hello);
        let mut way = way.map_err(Failure::Unreachable)?;
        let route = config.route(socket::address(server));
        let route = route.map_err(Failure::Unreachable)?;
        let encrypted = route.is_encrypted();
        let dialer: Arc<dyn Dialer> = Arc::new(route);
        let (conn, welcome) = hello::connect(&*dialer, &hello, config.connect_timeout)?;
        let conn = way.first(conn, &welcome).map_err(Failure::Unreachable)?;
        let rdma = rdma::is_on(&*conn);
        let sides_at_once = if rdma { 0 } else { config.sides_at_once };
        let neighbour = Neighbour::find(config.sharing, &*conn, &welcome);
        let linker = Some(Linker::new(dialer.clone(), &hello, &welcome, encrypted));
        let aside = side::Opener::new(dialer.clone(), &hello, &welcome);
        let of = way.of();
        let keeper = Reconnect {
            way,
            dialer,
            hello,
            welcome: welcome.clone(),
            timeout: config.resume_timeout,
            silence: config.silence_timeout,
            pause: Duration::from_millis(5),
            connected: true,
        };
        let session = Self::over(conn, server, welcome, Box::new(keeper), op_name, handler)
            .map(|s| Self {
                neighbour,
                linker,
                ..s
            })
            .map_err(|e| Failure::Unreachable(format!("cannot start a session's threads: {e}")))?;
        let _ = of.set(session.channel.clone());
        if let Some(aside) = aside {
            aside.serve(&session.channel, sides_at_once);
        }
        Ok(session)
    }

    /// A session over a connection to a server whose hello is done.
    pub fn over(
        conn: Arc<dyn Connection>,
        server: &str,
        welcome: Welcome,
        keeper: Box<dyn Keeper>,
        op_name: fn(u16) -> &'static str,
        handler: Arc<dyn Handler>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            calls: Calls::default(),
            offers: Offers::default(),
            handler,
            closed: OnceLock::new(),
            channel: OnceLock::new(),
            server: server.into(),
            leaving: AtomicBool::new(false),
        });
        let sink = Box::new(Receiver {
            shared: shared.clone(),
        });
        let channel = Channel::start("busbar", conn, sink, keeper)?;
        let _ = shared.channel.set(channel.clone());
        let calls = Arc::downgrade(&shared);
        channel.ask_if_owed(move || calls.upgrade().is_some_and(|s| s.calls.live() > 0));
        let stats = Stats::if_asked(op_name);
        let able = |what| welcome.features.iter().any(|f| f == what);
        Ok(Self {
            op_name,
            channel,
            shared,
            stats,
            stamp: AtomicU64::new(0),
            shared_bytes: AtomicU64::new(0),
            keeps: able(KEPT_PARAMETERS),
            changes: able(CHANGED_PARAMETERS),
            tells: able(ACTIVITY),
            takes_parts: able(MEMORY_PARTS),
            takes_atomics: able(MEMORY_ATOMICS),
            closes: OnceLock::new(),
            welcome,
            neighbour: None,
            linker: None,
        })
    }

    /// Somebody waits for an answer to a call that was made without waiting, until the guard is
    /// dropped.
    pub fn expect(&self) -> busbar_channel::Expecting {
        self.channel.expect()
    }

    /// Why the session is over, if it is.
    pub fn closed(&self) -> Option<&Closed> {
        self.shared.closed.get()
    }

    /// A record's op, and its mark, if the worker takes such: see [`marks::marked`].
    #[inline]
    fn marked(&self, op: u32) -> (u32, Option<u64>) {
        if marks::is_on() && self.tells {
            marks::marked(op)
        } else {
            (op, None)
        }
    }

    /// Queues a message that nobody waits for.
    #[inline]
    pub fn queue<'a, R: Request<'a>>(&self, scope: u32, msg: &R) -> Result<(), Closed> {
        let fields = Fields::of(msg, self.closes.get());
        self.queue_raw(R::OP, scope, |out| fields.write(out))
    }

    /// Memory of the program's stays: page-locked, whose bytes may be moved in place.
    ///
    /// # Safety
    /// As with [`Kept::keep`].
    pub unsafe fn keep(&self, memory: Memory) {
        // SAFETY: passed on to the caller.
        unsafe { self.channel.kept().keep(memory) };
    }

    /// Whether bytes have gone over RDMA, where long ones are moved from where they lie.
    pub fn has_used_rdma(&self) -> bool {
        self.channel.counters().rdma_sent.load(Ordering::Relaxed) > 0
    }

    /// Such memory goes, or its pages may be others from now on.
    pub fn forget(&self, start: u64) {
        self.channel.kept().forget(start as usize);
    }

    /// Queues a record whose payload `fields` writes. An `op` of more than 16 bits has the number
    /// of its API above them.
    #[inline]
    pub fn queue_raw(
        &self,
        op: impl Into<u32>,
        scope: u32,
        fields: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Closed> {
        let (op, mark) = self.marked(op.into());
        let mut len = 0;
        let n = &mut len;
        self.channel.push(op, 0, scope, move |out| {
            let start = out.len();
            marks::write(mark, out);
            fields(out);
            *n = out.len() - start;
        })?;
        if let Some(s) = &self.stats {
            s.queued(op as u16, len + record::HEADER);
        }
        Ok(())
    }

    /// Queues a message that ends in bulk bytes: the message's own fields, then the bytes, which
    /// the receiver reads as the rest of the record.
    pub fn queue_bulk<'a, R: Request<'a>>(
        &self,
        scope: u32,
        msg: &R,
        bulk: Bulk<'_>,
    ) -> Result<(), Closed> {
        if let Some(s) = &self.stats {
            let n = match bulk {
                Bulk::Copy(b) => b.len(),
                Bulk::Borrow(_, n) | Bulk::Shared(_, n, _) => n,
            };
            s.queued(R::OP, n + record::HEADER);
        }
        let own = apart::read(&bulk, self.closes.get());
        let bulk = own.as_deref().map_or(bulk, Bulk::Copy);
        let (op, mark) = self.marked(R::OP.into());
        let message = Fields::of(msg, self.closes.get());
        let fields = |out: &mut Vec<u8>| {
            marks::write(mark, out);
            message.write(out);
        };
        self.channel.push_bulk(op, 0, scope, fields, bulk)
    }

    /// Sends a message and waits for its answer. Bulk bytes of the answer go to `place`, which must
    /// stay valid for the length of the call.
    pub fn call<'a, R: Request<'a>>(
        &self,
        scope: u32,
        msg: &R,
        place: Option<(*mut u8, usize)>,
    ) -> Result<Answer, Closed> {
        let fields = Fields::of(msg, self.closes.get());
        self.call_raw(R::OP, scope, place, |out| fields.write(out))
    }

    /// As [`Session::call`], for a record whose payload `fields` writes.
    pub fn call_raw(
        &self,
        op: impl Into<u32>,
        scope: u32,
        place: Option<(*mut u8, usize)>,
        fields: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Answer, Closed> {
        let stamp = self.stamp.fetch_add(1, Ordering::AcqRel);
        let answer = self.ask(op, scope, place, fields)?;
        self.shared.offers.answered(stamp);
        Ok(answer)
    }

    /// Makes a call and waits for its answer, which may come ahead of what was queued before it: it
    /// says nothing about that.
    fn ask(
        &self,
        op: impl Into<u32>,
        scope: u32,
        place: Option<(*mut u8, usize)>,
        fields: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Answer, Closed> {
        let (start, (op, mark)) = (Instant::now(), self.marked(op.into()));
        let name = (self.op_name)(op as u16);
        let (id, waiter) = self
            .shared
            .calls
            .open(place)
            .ok_or_else(|| self.over_why())?;
        let mut len = 0;
        let pushed = self.channel.put(op, id, scope, |out| {
            let begin = out.len();
            marks::write(mark, out);
            fields(out);
            len = out.len() - begin;
        });
        if let Err(e) = pushed {
            // The receiver may be ending the call at this moment: take the answer either way.
            self.shared.calls.answer(id, Answer::default());
            waiter.wait(name);
            return Err(e);
        }
        self.channel.flush();
        let expecting = self.channel.expect();
        let answer = waiter.wait(name);
        drop(expecting);
        Calls::recycle(waiter);
        if let Some(s) = &self.stats {
            s.queued(op as u16, len + record::HEADER);
            s.waited(op as u16, start.elapsed());
        }
        answer.ok_or_else(|| self.over_why())
    }

    /// Waits at a gate for what the worker tells by itself, having sent what is queued: no question
    /// of an `op` is asked.
    pub fn await_word(&self, op: u16, gate: &Gate, told: impl Fn() -> bool) {
        let start = Instant::now();
        self.channel.flush();
        let expecting = self.channel.expect();
        look(patience().waiting, &told);
        gate.wait(&Wait::due((self.op_name)(op)), &told);
        drop(expecting);
        if let Some(s) = &self.stats {
            s.heard(op, start.elapsed());
        }
    }

    /// Sends a message whose answer (with bulk bytes for `place`) comes later: `then` runs on the
    /// receiving thread, with `None` if the session ends first.
    ///
    /// # Safety
    /// `place` stays writable until `then` has run.
    pub unsafe fn call_async<'a, R: Request<'a>>(
        &self,
        scope: u32,
        msg: &R,
        place: Option<(*mut u8, usize)>,
        then: impl FnOnce(Option<Answer>) + Send + 'static,
    ) -> Result<(), Closed> {
        self.asked_async(scope, msg, self.shared.calls.open_async(place, then))
    }

    /// As [`Session::call_async`], for bytes that go where they land.
    ///
    /// # Safety
    /// The landing's place stays writable until `then` has run, or until it is told to put aside
    /// what comes.
    pub unsafe fn call_landing<'a, R: Request<'a>>(
        &self,
        scope: u32,
        msg: &R,
        landing: Arc<Landing>,
        then: impl FnOnce(Option<Answer>) + Send + 'static,
    ) -> Result<(), Closed> {
        self.asked_async(scope, msg, self.shared.calls.open_landing(landing, then))
    }

    fn asked_async<'a, R: Request<'a>>(
        &self,
        scope: u32,
        msg: &R,
        id: Option<u32>,
    ) -> Result<(), Closed> {
        let id = id.ok_or_else(|| self.over_why())?;
        if let Some(s) = &self.stats {
            s.queued(R::OP, record::HEADER);
        }
        let (op, mark) = self.marked(R::OP.into());
        let fields = Fields::of(msg, self.closes.get());
        self.channel.push(op, id, scope, |out| {
            marks::write(mark, out);
            fields.write(out);
        })
    }

    /// Sends what is queued without waiting for anything.
    pub fn flush(&self) {
        self.channel.flush();
    }

    /// Offers content by hash, for a record that is queued while the offer lives; see [`Offers`].
    pub fn offer(&self, bytes: Arc<[u8]>) -> Offered<'_> {
        let hash = self.shared.offers.offer(bytes);
        Offered {
            session: self,
            hash,
        }
    }

    /// Waits until the worker has received everything queued so far.
    pub fn drain(&self) -> Result<(), Closed> {
        self.received(self.mark())
    }

    /// Waits until nothing of `len` bytes of the program's at `p` is sent from where it lies.
    pub fn has_back(&self, p: u64, len: u64) -> Result<(), Closed> {
        self.channel
            .lent(p, len)
            .map_or(Ok(()), |mark| self.received(mark))
    }

    /// The session's pipe.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// What has been queued so far, for [`Session::received`].
    pub fn mark(&self) -> Mark {
        self.channel.mark()
    }

    /// Waits until the worker has everything up to a mark.
    pub fn received(&self, mark: Mark) -> Result<(), Closed> {
        if self.channel.has_received(mark) {
            return Ok(());
        }
        let start = Instant::now();
        let received = self.channel.received(mark);
        if let Some(s) = &self.stats {
            s.waited(ARRIVAL, start.elapsed());
        }
        received
    }

    /// Counters of the session's bytes and connections.
    pub fn counters(&self) -> &Counters {
        self.channel.counters()
    }

    /// Counts bytes that are copied through shared memory instead of the connection.
    pub fn note_shared(&self, bytes: usize) {
        self.shared_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that are queued and that the worker is not known to have.
    pub fn unacknowledged(&self) -> usize {
        self.channel.unacknowledged()
    }

    /// How many records have been queued so far that the worker executes in their turn.
    pub fn records(&self) -> u64 {
        self.channel.records()
    }

    /// How many answers are still awaited.
    pub fn open_calls(&self) -> usize {
        self.shared.calls.live()
    }

    /// Ends the session in good order: what is queued still runs.
    pub fn close(&self) {
        if self.channel.closed().is_none() {
            self.shared.leaving.store(true, Ordering::Release);
            self.channel.leave();
            let _ = self.channel.push(OP_GOODBYE, 0, 0, |_| {});
            self.channel
                .close("the program ended", Duration::from_secs(2));
        } else {
            // A call fails before the reason is told: a program that ends by that is told, too.
            let until = Instant::now() + Duration::from_secs(1);
            while self.closed().is_none() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        if let Some(s) = &self.stats {
            let c = self.channel.counters();
            let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
            let text = s.report(
                &self.shared.server,
                [get(&c.sent), get(&c.received)],
                get(&self.shared_bytes),
                get(&c.resumed),
                [get(&c.rdma_sent), get(&c.rdma_received)],
                self.channel.kept().moved(),
            );
            // A program may have closed its stderr; that is no reason to fail.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }

    fn over_why(&self) -> Closed {
        self.shared
            .closed
            .get()
            .cloned()
            .or_else(|| self.channel.closed())
            .unwrap_or_else(|| Closed("the session is over".into()))
    }
}

/// Gets a lost link back.
struct Reconnect {
    way: rdma::Way,
    dialer: Arc<dyn Dialer>,
    hello: Hello,
    welcome: Welcome,
    timeout: Duration,
    silence: Option<Duration>,
    pause: Duration,
    connected: bool,
}

impl Keeper for Reconnect {
    fn silence(&self) -> Option<Duration> {
        self.silence
    }

    fn detached(&mut self, lost: &Lost) -> Verdict {
        let since = lost.since;
        if std::mem::take(&mut self.connected) {
            self.pause = Duration::from_millis(5);
            crate::log!(
                Warn,
                "the link to {} was lost ({:?}); trying to resume",
                self.dialer.peer(),
                lost.how
            );
        }
        let mut hello = self.hello.clone();
        hello.intent = Intent::Resume;
        hello.session = self.welcome.session.clone();
        hello.secret = self.welcome.secret.clone();
        hello.last_received = lost.last_received;
        hello.epoch = lost.epoch;
        self.way.ask_again(&mut hello);
        match hello::connect(&*self.dialer, &hello, Duration::from_secs(2)) {
            Ok((conn, w)) => {
                let conn = self.way.next(conn, &w, (&self.dialer, &hello));
                crate::log!(
                    Info,
                    "the session goes on after {:.1} s",
                    since.as_secs_f64()
                );
                self.connected = true;
                Verdict::Resume {
                    conn,
                    epoch: lost.epoch,
                    peer_last: w.last_received,
                }
            }
            Err(Failure::Refused(r)) if r.code != BUSY => {
                // Whoever tells of the end says this much already.
                let why = r.message.strip_prefix("the session is over: ");
                Verdict::End(why.unwrap_or(&r.message).into())
            }
            Err(e) if since > self.timeout => Verdict::End(format!(
                "the link to the server was lost and did not come back within {} s: {e}",
                self.timeout.as_secs()
            )),
            Err(_) => {
                self.pause = (self.pause * 2).min(Duration::from_millis(500));
                Verdict::Wait(self.pause)
            }
        }
    }
}

/// Takes what the worker sends.
struct Receiver {
    shared: Arc<Shared>,
}

impl Sink for Receiver {
    fn place(&mut self, len: usize, head: &[u8]) -> Option<(*mut u8, usize)> {
        let h = Header::parse(head).ok()?;
        // Small pieces are cheaper to copy than to look up twice.
        if h.op != Notice::Chunk as u16 || h.len as usize != len || len < PEEK + 4096 {
            return None;
        }
        let offset = u64::from_le_bytes(head.get(record::HEADER..PEEK)?.try_into().ok()?);
        let n = len - PEEK;
        Some((self.shared.calls.place(h.call, offset, n)?, n))
    }

    fn deliver(&mut self, _: u64, body: &mut Vec<u8>) -> Result<(), String> {
        // A placed chunk comes as its head alone; there is nothing left to do.
        if body.len() == PEEK
            && let Ok(h) = Header::parse(body)
            && h.len as usize > PEEK
        {
            self.shared.calls.placed(h.call);
            return Ok(());
        }
        for r in Records::new(body) {
            let (h, payload) = r.map_err(|e| e.to_string())?;
            self.record(&h, payload)?;
        }
        Ok(())
    }

    fn closed(&mut self, why: &Closed) {
        match self.shared.leaving.load(Ordering::Acquire) {
            true => crate::log!(Info, "session closed: {why}"),
            false => {
                let server = &self.shared.server;
                crate::log!(Lost, "the session with {server} is over: {why}");
            }
        }
        let _ = self.shared.closed.set(why.clone());
        self.shared.handler.closed(&why.0);
        self.shared.calls.end();
    }
}

impl Receiver {
    fn record(&self, h: &Header, payload: &[u8]) -> Result<(), String> {
        let status = h.aux as i32;
        match Notice::from_u16(h.op).map_err(|e| e.to_string())? {
            Notice::Reply => {
                let answer = Answer {
                    status,
                    body: payload.to_vec(),
                };
                if !self.shared.calls.answer(h.call, answer) {
                    return Err(format!(
                        "an answer to call {:#x}, which is not open",
                        h.call
                    ));
                }
            }
            Notice::Chunk => {
                let Some((offset, bytes)) = payload.split_first_chunk::<8>() else {
                    return Err("a chunk without its offset".into());
                };
                let offset = u64::from_le_bytes(*offset);
                let Some(to) = self.shared.calls.place(h.call, offset, bytes.len()) else {
                    return Err("a chunk that does not fit its call".into());
                };
                // SAFETY: `place` has checked that the bytes fit the memory that the caller lent
                // for as long as its call is open, and only this thread ends calls.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
                self.shared.calls.placed(h.call);
            }
            Notice::Error => self.shared.handler.error(status, payload),
            Notice::Callback => self.shared.handler.callback(status, h.call, payload)?,
            Notice::Output if h.call == 0 => self.shared.handler.output(payload),
            Notice::Output => self.shared.handler.complaint(payload),
            Notice::NeedContent => {
                let hash: Hash = payload
                    .try_into()
                    .map_err(|_| "a hash of the wrong length")?;
                self.send_content(hash);
            }
            Notice::News => {
                let text = busbar_control::text::one_line(&String::from_utf8_lossy(payload), 300);
                match status {
                    0 => crate::log!(Warn, "{text}"),
                    _ => crate::log!(Lost, "{text}"),
                }
            }
            Notice::Word => self.shared.handler.word(payload),
            Notice::Goodbye => return Err(String::from_utf8_lossy(payload).into_owned()),
        }
        Ok(())
    }

    /// Content can be long and the window full, so it is sent from a thread of its own: this one
    /// must go on receiving acknowledgements.
    fn send_content(&self, hash: Hash) {
        let shared = self.shared.clone();
        let run = move || {
            while shared.channel.get().is_none() {
                std::thread::yield_now();
            }
            if let Some(channel) = shared.channel.get()
                && let Ok(false) = shared.offers.send(channel, &hash)
            {
                // Told with an empty piece: the worker fails the load instead of waiting.
                let _ = channel.push(record::OP_CONTENT, 0, 0, |out| {
                    out.extend_from_slice(&hash);
                    out.extend_from_slice(&[0; 16]);
                });
            }
        };
        let _ = crate::threads::start("busbar-content", run);
    }
}

/// The most bytes of a program's memory that one bulk record carries.
pub const CHUNK: usize = limits::BULK_CHUNK;
