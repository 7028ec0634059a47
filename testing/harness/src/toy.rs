//! An API of one memory and seven calls: enough to show whether every record was executed once, in
//! order and whole.

use busbar_channel::Keeper;
use busbar_client::session::{Handler, Session};
use busbar_control::hello::Welcome;
use busbar_transport::Connection;
use busbar_wire::codec::{Message, Reader, Request, WireError, Writer};
use busbar_wire::record::{Header, OP_CALLBACK_DONE};
use busbar_worker::Api;
use busbar_worker::callback::Callbacks;
use busbar_worker::content::Content;
use busbar_worker::outbox::Outbox;
use busbar_worker::run::{Ends, serve};
use busbar_worker::staging::{Arena, Hold};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;

/// Bytes of the memory.
pub const MEMORY: usize = 4 << 20;

macro_rules! messages {
    ($($(#[$doc:meta])* $op:literal $name:ident { $($field:ident),* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $(#[allow(missing_docs)] pub $field: u64,)*
        }

        impl<'a> Message<'a> for $name {
            fn encode(&self, w: &mut Writer<'_>) {
                let _ = &w;
                $(w.u64(self.$field);)*
            }
            fn decode(r: &mut Reader<'a>) -> Result<Self, WireError> {
                let _ = &r;
                Ok(Self { $($field: r.u64()?,)* })
            }
        }

        impl<'a> Request<'a> for $name {
            const OP: u16 = $op;
            const NAME: &'static str = stringify!($name);
        }
    )*};
}

messages! {
    /// Writes the bulk bytes that follow at `offset`.
    1 Write { offset }
    /// Xors a stretch of memory with a sequence.
    2 Mix { offset, len, seed }
    /// Answers with a stretch of memory as bulk bytes, and the digest of all memory.
    3 Read { offset, len }
    /// Answers with the digest.
    4 Sum { nonce }
    /// Fails with a status, which comes as an error notice.
    5 Fail { status }
    /// Writes content, named by the 32 bytes that follow, at `offset`.
    6 Load { offset }
    /// Runs a function of the client's and waits for it.
    7 Call { number }
}

/// The memory, at the worker and in the client's model of it.
pub struct Model {
    memory: Vec<u8>,
    /// A digest of every change so far and of nothing else.
    history: u64,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            memory: vec![0; MEMORY],
            history: 0,
        }
    }
}

impl Model {
    fn note(&mut self, what: &[u8]) {
        let mut h = blake3::Hasher::new();
        h.update(&self.history.to_le_bytes());
        h.update(what);
        let mut b = [0; 8];
        b.copy_from_slice(&h.finalize().as_bytes()[..8]);
        self.history = u64::from_le_bytes(b);
    }

    /// Executes a [`Write`] or a [`Load`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let at = offset as usize;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
        self.note(bytes);
    }

    /// Executes a [`Mix`].
    pub fn mix(&mut self, m: &Mix) {
        let mut x = m.seed;
        for b in &mut self.memory[m.offset as usize..(m.offset + m.len) as usize] {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            *b ^= (x >> 56) as u8;
        }
        self.note(&m.seed.to_le_bytes());
    }

    /// Notes a call that changes no memory.
    pub fn event(&mut self, n: u64) {
        self.note(&n.to_le_bytes());
    }

    /// A stretch of memory.
    pub fn read(&self, offset: u64, len: u64) -> &[u8] {
        &self.memory[offset as usize..(offset + len) as usize]
    }

    /// The digest of all that happened so far.
    pub fn digest(&self) -> u64 {
        self.history
    }
}

/// The worker's side.
struct Toy {
    model: Model,
    outbox: Outbox,
    content: Content,
    callbacks: Callbacks,
}

fn inside(offset: u64, len: usize) -> Result<(), WireError> {
    let end = usize::try_from(offset)
        .ok()
        .and_then(|o| o.checked_add(len));
    if end.is_some_and(|e| e <= MEMORY) {
        Ok(())
    } else {
        Err(WireError::BadValue("stretch of memory"))
    }
}

impl Api for Toy {
    fn execute(&mut self, h: &Header, payload: &[u8], _: &mut Hold<'_>) -> Result<(), WireError> {
        let mut r = Reader::new(payload);
        match h.op {
            Write::OP => {
                let m = Write::decode(&mut r)?;
                let bytes = r.rest();
                inside(m.offset, bytes.len())?;
                self.model.write(m.offset, bytes);
            }
            Mix::OP => {
                let m = Mix::decode(&mut r)?;
                inside(m.offset, m.len as usize)?;
                self.model.mix(&m);
            }
            Read::OP => {
                let m = Read::decode(&mut r)?;
                inside(m.offset, m.len as usize)?;
                self.outbox
                    .chunk(h.call, 0, self.model.read(m.offset, m.len));
                let digest = self.model.digest();
                self.outbox.reply(h.call, 0, |w| w.u64(digest));
            }
            Sum::OP => {
                let m = Sum::decode(&mut r)?;
                self.model.event(m.nonce);
                let digest = self.model.digest();
                self.outbox.reply(h.call, 0, |w| w.u64(digest));
            }
            Fail::OP => {
                let m = Fail::decode(&mut r)?;
                self.model.event(m.status);
                self.outbox.error(m.status as i32, |w| w.u16(h.op));
            }
            Load::OP => {
                let m = Load::decode(&mut r)?;
                let hash = r.array()?;
                match self.content.get(&hash) {
                    Some(bytes) => {
                        inside(m.offset, bytes.len())?;
                        self.model.write(m.offset, &bytes);
                    }
                    None => self.outbox.error(1, |w| w.u16(h.op)),
                }
            }
            Call::OP => {
                let m = Call::decode(&mut r)?;
                let n = self.callbacks.begin();
                self.outbox.callback(n, 0, |w| w.u64(m.number));
                self.callbacks.wait(n, &self.outbox);
                self.model.event(m.number);
            }
            op => return Err(WireError::UnknownOp(op)),
        }
        r.finish()
    }

    fn close(&mut self) {}
}

/// What the worker told the client unasked.
#[derive(Debug, Default)]
pub struct Told {
    /// The statuses of failed calls.
    pub errors: Vec<i32>,
    /// The numbers of the functions that ran.
    pub called: Vec<u64>,
    /// Why the session is over.
    pub closed: Option<String>,
}

struct Ear {
    told: Arc<Mutex<Told>>,
    jobs: Sender<u32>,
}

impl Handler for Ear {
    fn error(&self, status: i32, _: &[u8]) {
        self.told.lock().unwrap().errors.push(status);
    }

    fn callback(&self, _: i32, call: u32, body: &[u8]) -> Result<(), String> {
        let number = Reader::new(body).u64().unwrap_or(u64::MAX);
        self.told.lock().unwrap().called.push(number);
        let _ = self.jobs.send(call);
        Ok(())
    }

    fn output(&self, _: &[u8]) {}

    fn closed(&self, why: &str) {
        self.told.lock().unwrap().closed = Some(why.into());
    }
}

/// A session whose two ends are in this process.
pub struct Pair {
    /// The client's end.
    pub session: Arc<Session>,
    /// What the worker told it.
    pub told: Arc<Mutex<Told>>,
    /// The worker's counters and state, for what a test wants to know of it.
    pub worker_channel: Arc<OnceLock<busbar_channel::Channel>>,
    worker: JoinHandle<String>,
}

fn name_of(_: u16) -> &'static str {
    "toy"
}

impl Pair {
    /// Starts both ends; content goes to `cache` when one is given.
    pub fn start(
        client: (Arc<dyn Connection>, impl Keeper + 'static),
        worker: (Arc<dyn Connection>, impl Keeper + 'static),
        cache: Option<PathBuf>,
    ) -> Self {
        let worker_channel = Arc::new(OnceLock::new());
        let opened = worker_channel.clone();
        let worker = std::thread::spawn(move || {
            let outbox = Outbox::default();
            let content = Content::new(cache.map(store), false, outbox.clone());
            let callbacks = Callbacks::default();
            let mut toy = Toy {
                model: Model::default(),
                outbox: outbox.clone(),
                content: content.clone(),
                callbacks: callbacks.clone(),
            };
            let ends = Ends {
                outbox,
                content,
                callbacks,
                ahead: busbar_worker::ahead::Ahead::default(),
                incoming: Arena::new(8).expect("memory for staging"),
                outgoing: Arena::new(1).expect("memory for staging"),
                at_once: busbar_worker::at_once::AtOnce::default(),
                links: busbar_worker::across::Links::new(Default::default())
                    .expect("memory for links"),
                tally: Arc::default(),
                checkpoints: Default::default(),
            };
            let open = |c: &busbar_channel::Channel| {
                let _ = opened.set(c.clone());
                Ok(())
            };
            serve(
                worker.0,
                Box::new(worker.1),
                (ends, None),
                &mut [&mut toy],
                open,
            )
            .expect("threads start")
        });
        let told: Arc<Mutex<Told>> = Arc::default();
        let (tx, rx) = channel();
        let ear = Ear {
            told: told.clone(),
            jobs: tx,
        };
        let welcome = Welcome::default();
        let session = Session::over(
            client.0,
            "toy",
            welcome,
            Box::new(client.1),
            name_of,
            Arc::new(ear),
        )
        .expect("threads start");
        let session = Arc::new(session);
        let weak = Arc::downgrade(&session);
        std::thread::spawn(move || run_callbacks(&rx, &weak));
        Self {
            session,
            told,
            worker_channel,
            worker,
        }
    }

    /// Ends the session in good order and returns why the worker says it ended.
    pub fn finish(self) -> String {
        self.session.close();
        self.worker.join().expect("the worker does not panic")
    }

    /// Waits for the worker's end, which something else has brought about.
    pub fn worker_ended(self) -> String {
        self.worker.join().expect("the worker does not panic")
    }
}

/// A store in a folder, kept by a thread.
fn store(folder: PathBuf) -> std::os::fd::OwnedFd {
    let (ours, theirs) = busbar_transport::handover::pair().expect("a socket");
    let store = busbar_store::Store::open(&folder, 64 << 20).expect("a store");
    std::thread::spawn(move || store.attend(&theirs, ""));
    ours
}

fn run_callbacks(jobs: &Receiver<u32>, session: &std::sync::Weak<Session>) {
    for call in jobs {
        let Some(s) = session.upgrade() else { return };
        let done = |out: &mut Vec<u8>| out.extend_from_slice(&call.to_le_bytes());
        let _ = s.queue_raw(OP_CALLBACK_DONE, 0, done);
        s.flush();
    }
}
