//! A worker in this process, all of it but its life with a server, and a client of it that sends
//! what it is told to.

use crate::alone::{self, Line, Peer, Trace};
use crate::sequence::{self, Record, settle_content, write};
use crate::wire::{receive, send};
use busbar_channel::{Keeper, Lost, Verdict};
use busbar_transport::{Connection, mem};
use busbar_wire::frame::Kind;
use busbar_wire::generated::cuda::op;
use busbar_wire::record::{Notice, OP_CALLBACK_DONE, OP_CONTENT, OP_GOODBYE, RESERVED, Records};
use busbar_worker::across::{Counters, Links};
use busbar_worker::ahead::Ahead;
use busbar_worker::apis::{self, APIS};
use busbar_worker::at_once::AtOnce;
use busbar_worker::callback::Callbacks;
use busbar_worker::content::Content;
use busbar_worker::inventory::Inventory;
use busbar_worker::outbox::Outbox;
use busbar_worker::run::{Ends, Options, serve, serve_alone};
use busbar_worker::staging::Arena;
use busbar_worker::turn::Turn;
use busbar_worker::{Api, Beside, Setup};
use std::ffi::{CString, c_void};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::time::Duration;

/// Ends the session when its connection ends.
struct Once;

impl Keeper for Once {
    fn detached(&mut self, _: &Lost) -> Verdict {
        Verdict::End("over".into())
    }
}

/// A session of an API, and what it shares with its connection.
fn open(api: &str, slabs: usize) -> (Vec<Box<dyn Api>>, Ends) {
    let outbox = Outbox::default();
    let links = Links::new(Counters::default()).expect("a descriptor");
    let ends = Ends {
        links: links.clone(),
        outbox: outbox.clone(),
        content: Content::new(None, false, outbox.clone()),
        callbacks: Callbacks::default(),
        ahead: Ahead::default(),
        incoming: Arena::new(slabs).expect("memory"),
        outgoing: Arena::new(slabs).expect("memory"),
        at_once: AtOnce::default(),
        tally: Arc::default(),
        checkpoints: Default::default(),
    };
    let offered = APIS.iter().find(|a| a.name == api).expect("an API");
    let own = (offered.open)(Setup {
        links,
        shared: None,
        outbox: outbox.clone(),
        content: ends.content.clone(),
        callbacks: ends.callbacks.clone(),
        ahead: ends.ahead.clone(),
        incoming: ends.incoming.clone(),
        outgoing: ends.outgoing.clone(),
        inventory: Inventory::default(),
        turn: Turn::default(),
        submitters: Some(0),
        peers: Default::default(),
        checkpoints: Default::default(),
        neighbours: Default::default(),
        dense: false,
        devices: None,
        library: library(api),
        nvml: None,
        cupti: None,
        confined: false,
    });
    let mut apis = vec![own.map_err(|r| r.message).expect("a device")];
    apis.extend((offered.beside)(Beside {
        outbox,
        at_once: ends.at_once.clone(),
        peers: Default::default(),
        library: None,
    }));
    (apis, ends)
}

/// Serves a session of an API over a connection until it is over.
///
/// # Panics
/// When there is no device.
pub fn attend(api: &str, conn: Arc<dyn Connection>) {
    let (mut apis, ends) = open(api, 16);
    let mut apis: Vec<&mut dyn Api> = apis.iter_mut().map(|a| &mut **a).collect();
    let why = serve(conn, Box::new(Once), (ends, None), &mut apis, |_| Ok(()));
    why.expect("threads start");
}

/// A client that answers at once.
struct Prompt(Vec<Record>);

impl Peer for Prompt {
    fn hear(&mut self, (h, payload): &Record) -> Vec<Record> {
        match Notice::from_u16(h.op) {
            Ok(Notice::NeedContent) => vec![content(&self.0, payload)],
            Ok(Notice::Callback) if h.call != 0 => vec![returned(h.call)],
            _ => Vec::new(),
        }
    }
}

/// Has a worker in this thread execute these records, and on a driver that has been reset.
///
/// # Panics
/// When there is no device.
pub fn execute(mut records: Vec<Record>) -> Trace {
    // What a clock says is another thing each time.
    records.retain(|r| r.0.op != op::ACTIVITY_CLOCK);
    let contents = prepare(&mut records);
    let line = Line::new(Prompt(contents));
    let (mut own, ends) = open("cuda", 2);
    let mut apis: Vec<&mut dyn Api> = own.iter_mut().map(|a| &mut **a).collect();
    let goodbye = [sequence::record(OP_GOODBYE, 0, 0, &[])];
    let mut frames = records.chunks(EACH).chain([&goodbye[..]]);
    let next = || {
        (driver().work_on)();
        let Some(frame) = frames.next() else {
            return false;
        };
        line.say(frame);
        line.take();
        true
    };
    serve_alone(line.clone(), Box::new(Once), ends, &mut apis, next).expect("a descriptor");
    drop(own);
    alone::over();
    (driver().reset)();
    line.trace()
}

/// The simulated driver's own functions.
struct Driver {
    work_on: extern "C" fn(),
    reset: extern "C" fn(),
}

fn driver() -> &'static Driver {
    static DRIVER: LazyLock<Driver> = LazyLock::new(|| {
        let path = CString::new(library("cuda").unwrap_or_default()).expect("a path");
        // SAFETY: the driver is loaded for good.
        let driver = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        let find = |name: &std::ffi::CStr| {
            // SAFETY: as above.
            let found = unsafe { libc::dlsym(driver, name.as_ptr()) };
            assert!(!found.is_null(), "the driver lacks {name:?}");
            found
        };
        // SAFETY: these are the types of these functions.
        unsafe {
            Driver {
                work_on: transmute(find(c"fakedev_work_on")),
                reset: transmute(find(c"fakedev_reset")),
            }
        }
    });
    &DRIVER
}

/// What the client sends of its own accord, and what it has to say when it is asked.
struct Client {
    conn: mem::Mem,
    seq: Mutex<u64>,
    contents: Vec<Record>,
    /// How many calls have no answer yet.
    calls: Mutex<usize>,
    answered: Condvar,
}

impl Client {
    fn say(&self, records: &[Record]) -> bool {
        let mut seq = self.seq.lock().expect("no client panics");
        *seq += 1;
        send(&self.conn, Kind::Data, *seq, 0, &write(records)).is_ok()
    }

    /// Acknowledges, has content for who asks, and says that its functions have returned.
    fn listen(&self) {
        while let Some((h, body)) = receive(&self.conn) {
            if h.kind != Kind::Data {
                continue;
            }
            let _ = send(&self.conn, Kind::Ack, 0, h.seq, &[]);
            for (n, payload) in Records::new(&body).flatten() {
                let answer = match Notice::from_u16(n.op) {
                    Ok(Notice::NeedContent) => content(&self.contents, payload),
                    Ok(Notice::Reply) => {
                        let mut calls = self.calls.lock().expect("no client panics");
                        *calls = calls.checked_sub(1).expect("an answer to no call");
                        self.answered.notify_one();
                        continue;
                    }
                    Ok(Notice::Callback) if n.call != 0 => returned(n.call),
                    _ => continue,
                };
                self.say(&[answer]);
            }
        }
    }

    /// Waits for the answers to all calls, as programs do: who has said goodbye has no content.
    fn wait(&self) {
        let calls = self.calls.lock().expect("no client panics");
        let wait = self
            .answered
            .wait_timeout_while(calls, PATIENCE, |n| *n > 0);
        drop(wait.expect("no client panics"));
    }
}

/// A function of the program's has returned.
fn returned(call: u32) -> Record {
    sequence::record(OP_CALLBACK_DONE, 0, 0, &call.to_le_bytes())
}

/// The content of a hash, if there is any.
fn content(of: &[Record], hash: &[u8]) -> Record {
    let known = of.iter().find(|c| c.1.starts_with(hash));
    known.cloned().unwrap_or_else(|| {
        // There is none: a piece that is no content says so.
        let mut none = hash.to_vec();
        none.resize(32 + 16, 0);
        none[32] = 1;
        none.push(0);
        sequence::record(OP_CONTENT, 0, 0, &none)
    })
}

/// How long a client waits for an answer. Some are withheld for ever, and rightly so.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many records go into a frame.
const EACH: usize = 8;

/// The variable that says where the simulated driver is.
const DRIVER: &str = "FUZZ_DRIVER";

fn library(api: &str) -> Option<String> {
    (api == "cuda").then(|| std::env::var(DRIVER).expect("FUZZ_DRIVER says what to load"))
}

/// Loads what an API's workers work with, before there is any.
pub fn warm(api: &str) {
    let options = Options {
        cuda_library: library(api),
        ..Options::default()
    };
    apis::warm(&[api.to_string()], &options);
}

/// Has the simulated driver load an image, whose bytes are all that there are.
///
/// # Panics
/// When there is no driver.
pub fn load(image: &[u8]) {
    static SYMBOLS: LazyLock<[usize; 4]> = LazyLock::new(|| {
        let path = CString::new(library("cuda").unwrap_or_default()).expect("a path");
        // SAFETY: the driver is loaded for good.
        let driver = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        let names = [
            c"cuDevicePrimaryCtxRetain",
            c"cuCtxSetCurrent",
            c"cuModuleLoadData",
            c"cuModuleUnload",
        ];
        // SAFETY: as above.
        let all = names.map(|n| unsafe { libc::dlsym(driver, n.as_ptr()) } as usize);
        assert!(all.iter().all(|s| *s != 0), "the driver is not whole");
        // SAFETY: these are the types of these functions.
        unsafe {
            let retain: extern "C" fn(*mut *mut c_void, i32) -> i32 = transmute(all[0]);
            let current: extern "C" fn(*mut c_void) -> i32 = transmute(all[1]);
            let mut context = null_mut();
            assert_eq!(retain(&mut context, 0), 0);
            assert_eq!(current(context), 0);
        }
        all
    });
    let [.., load, unload] = *SYMBOLS;
    let whole = image.to_vec().into_boxed_slice();
    // SAFETY: these are the types of these functions; the image is good, which is what is tested.
    unsafe {
        let load: extern "C" fn(*mut *mut c_void, *const c_void) -> i32 = transmute(load);
        let unload: extern "C" fn(*mut c_void) -> i32 = transmute(unload);
        let mut module = null_mut();
        if load(&mut module, whole.as_ptr().cast()) == 0 {
            unload(module);
        }
    }
}

/// Makes records those of a client; gives the content, which is sent when it is asked for.
fn prepare(records: &mut Vec<Record>) -> Vec<Record> {
    settle_content(records);
    let contents = records.iter().filter(|r| r.0.op == OP_CONTENT).cloned();
    let contents = contents.collect();
    // Those that answer a question are sent when it comes; of a goodbye there is one.
    records.retain(|r| r.0.op < RESERVED || r.0.op > OP_CALLBACK_DONE);
    for (i, r) in records.iter_mut().enumerate() {
        r.0.call = if r.0.call == 0 { 0 } else { i as u32 + 1 };
    }
    contents
}

/// Has a worker execute these records.
pub fn feed(api: &str, mut records: Vec<Record>) {
    let contents = prepare(&mut records);
    let (ours, theirs) = mem::pair();
    let client = Arc::new(Client {
        conn: theirs,
        seq: Mutex::new(0),
        calls: Mutex::new(records.iter().filter(|r| r.0.call != 0).count()),
        answered: Condvar::new(),
        contents,
    });
    let ear = client.clone();
    std::thread::spawn(move || ear.listen());
    std::thread::spawn(move || {
        let all = records.chunks(EACH).all(|some| client.say(some));
        if all {
            client.wait();
            client.say(&[sequence::record(OP_GOODBYE, 0, 0, &[])]);
        }
    });
    attend(api, Arc::new(ours));
}
