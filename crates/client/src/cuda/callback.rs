//! What of the program's the server asks for: functions that run in stream order, destructors,
//! bytes of memory that work before may still write.
//!
//! The server has a token for each, never an address. They run one after the other on a thread of
//! their own, as the driver's do, so that they may take long and the session goes on meanwhile. The
//! stream waits at the server until the function has returned here.

use super::runtime::{Cx, decode, enter_local};
use super::{fault, graph_host, handles, logs, settled, shadow, stream};
use crate::session::CHUNK;
use crate::tokens::Tokens;
use busbar_abi::cuda::*;
use busbar_channel::Bulk;
use busbar_wire::Reader;
use busbar_wire::generated::cuda::contract::MOST_READ;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::promise::{HOST_FUNCTION, MAYBE_CAPTURED, STREAM_CALLBACK, Word};
use busbar_wire::record::{OP_CALLBACK_BYTES, OP_CALLBACK_DONE};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A function of the program's and its argument.
#[derive(Clone, Copy)]
pub(super) struct Function {
    pub(super) f: unsafe extern "C" fn(*mut c_void),
    /// An address that only the program understands.
    pub(super) data: u64,
}

/// What a token stands for.
#[derive(Clone, Copy)]
enum Promised {
    /// A function that a stream waits for.
    Function(Function),
    /// A stream's callback.
    Callback {
        f: unsafe extern "C" fn(CUstream, CUresult, *mut c_void),
        stream: u64,
        data: u64,
    },
    /// The destructor of a user object.
    Destructor { object: u32, run: Function },
    /// Bytes of page-locked memory.
    Read { at: u64, len: usize },
}

/// Something that the server has asked for.
struct Job {
    /// The server's number for it.
    call: u32,
    what: Promised,
    /// It will not be asked for again.
    last: bool,
    error: CUresult,
    /// Mirrors to fetch before, and to give after.
    before: Vec<u32>,
    after: Vec<u32>,
}

static PROMISED: Mutex<Tokens<Promised>> = Mutex::new(Tokens::new());
static JOBS: Mutex<Option<Jobs>> = Mutex::new(None);

/// Functions that are queued and have not returned.
static DUE: AtomicUsize = AtomicUsize::new(0);
/// Graphs hold functions, too: how often those run is not known here.
static IN_GRAPHS: AtomicBool = AtomicBool::new(false);
/// Reads that are to come.
static READS: AtomicUsize = AtomicUsize::new(0);

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The way to the thread that runs them, and how many have come and are not done: a server cannot
/// fill the program's memory with them.
#[derive(Clone)]
struct Jobs {
    to: Sender<Job>,
    waiting: Arc<AtomicUsize>,
}

const MOST_WAITING: usize = 1 << 16;

impl Jobs {
    fn submit(&self, job: Job) -> Result<(), String> {
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= MOST_WAITING {
            return Err(format!(
                "more than {MOST_WAITING} functions of the program to run"
            ));
        }
        let _ = self.to.send(job);
        Ok(())
    }
}

/// The thread is there before the first of them is queued: a stream must not wait for a function
/// that nobody can run.
fn jobs() -> Result<Jobs, CUresult> {
    let mut jobs = lock(&JOBS);
    if let Some(jobs) = &*jobs {
        return Ok(jobs.clone());
    }
    let (to, rx) = channel::<Job>();
    let waiting = Arc::new(AtomicUsize::new(0));
    let left = waiting.clone();
    let run = move || {
        for job in rx {
            work(&job);
            left.fetch_sub(1, Ordering::AcqRel);
        }
    };
    let named = std::thread::Builder::new().name("busbar-callback".into());
    let started = fault::quietly(|| named.spawn(run));
    if let Err(e) = started {
        crate::log!(Error, "cannot start the thread of callbacks: {e}");
        return Err(CUDA_ERROR_OPERATING_SYSTEM);
    }
    Ok(jobs.insert(Jobs { to, waiting }).clone())
}

/// A graph gets a node with this function: its token.
pub(super) fn in_graphs(run: Function) -> Result<u64, CUresult> {
    settled::program_will_see();
    IN_GRAPHS.store(true, Ordering::Release);
    jobs()?;
    Ok(lock(&PROMISED).often(Promised::Function(run)))
}

/// The function of a graph's node.
pub(super) fn of_node(token: u64) -> Option<Function> {
    match lock(&PROMISED).get(token) {
        Some(Promised::Function(run)) => Some(*run),
        _ => None,
    }
}

/// A user object's destructor: its token.
pub(super) fn destructor(object: u32, run: Function) -> Result<u64, CUresult> {
    jobs()?;
    Ok(lock(&PROMISED).once(Promised::Destructor { object, run }))
}

/// Whether functions of the program may still run before what is queued next.
pub fn any_due() -> bool {
    DUE.load(Ordering::Acquire) > 0 || IN_GRAPHS.load(Ordering::Acquire)
}

/// Whether page-locked memory of the program's is to be read yet.
pub fn reads() -> bool {
    READS.load(Ordering::Acquire) > 0
}

fn one_less(n: &AtomicUsize) {
    let less = |n: usize| n.checked_sub(1);
    let _ = n.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
}

/// What a token stood for that is used up will not come again, and is over.
fn is_over(what: &Promised) {
    match what {
        Promised::Function(_) | Promised::Callback { .. } => one_less(&DUE),
        Promised::Read { .. } => one_less(&READS),
        Promised::Destructor { .. } => {}
    }
}

/// It never came to be known to the worker.
fn take_back(token: u64) {
    if let Ok((what, true)) = lock(&PROMISED).take(token) {
        is_over(&what);
    }
}

/// Queues a copy to the device from page-locked memory which work before it may write: its bytes
/// are read when that is over.
pub fn read_in_order(cx: Cx, dst: u64, src: u64, len: usize, stream: u32) -> Result<(), CUresult> {
    jobs()?;
    let mut done = 0;
    while done < len {
        let n = (MOST_READ as usize).min(len - done);
        READS.fetch_add(1, Ordering::AcqRel);
        let token = lock(&PROMISED).once(Promised::Read {
            at: src + done as u64,
            len: n,
        });
        let m = msg::CopyInLater {
            dst: dst + done as u64,
            len: n as u64,
            stream,
            token,
        };
        cx.send(&m).inspect_err(|_| take_back(token))?;
        done += n;
    }
    Ok(())
}

/// Sends what the worker asks for.
fn read(call: u32, p: u64, len: usize) {
    let Ok(cx) = enter_local() else {
        return;
    };
    let send = || {
        for at in (0..len).step_by(CHUNK) {
            let n = CHUNK.min(len - at);
            let head = |out: &mut Vec<u8>| {
                out.extend_from_slice(&call.to_le_bytes());
                out.extend_from_slice(&(at as u64).to_le_bytes());
            };
            // SAFETY: page-locked memory, which its owner keeps until the copy is done.
            let bytes = unsafe { std::slice::from_raw_parts((p as *const u8).add(at), n) };
            let channel = cx.rt.session.channel();
            let _ = channel.push_bulk(OP_CALLBACK_BYTES, 0, 0, head, Bulk::Copy(bytes));
        }
    };
    // It may be closed to the program by now.
    fault::in_function(send);
}

/// Runs a function of the program's that a stream waits for.
fn in_stream_order(f: impl FnOnce()) {
    let _ = fault::in_function(|| catch_unwind(AssertUnwindSafe(f)));
    if let Ok(cx) = enter_local() {
        shadow::function_ran(cx);
    }
}

impl Function {
    fn call(self) {
        // SAFETY: the program's function and data.
        unsafe { (self.f)(self.data as *mut c_void) };
    }
}

/// With the session, if there is anything to do.
fn with_mirrors(ids: &[u32], f: impl FnOnce(Cx, &[u32])) {
    if !ids.is_empty()
        && let Ok(cx) = enter_local()
    {
        f(cx, ids);
    }
}

fn work(job: &Job) {
    match job.what {
        Promised::Function(run) => {
            with_mirrors(&job.before, graph_host::fetch);
            in_stream_order(|| {
                if job.error == CUDA_SUCCESS {
                    run.call();
                }
            });
            with_mirrors(&job.after, graph_host::give);
        }
        Promised::Callback { f, stream, data } => {
            // SAFETY: the program's function and data.
            let call = || unsafe { f(stream as CUstream, job.error, data as *mut c_void) };
            in_stream_order(call);
        }
        Promised::Read { at, len } => read(job.call, at, len),
        Promised::Destructor { run, .. } => {
            let _ = catch_unwind(|| run.call());
        }
    }
    if job.last {
        is_over(&job.what);
    }
    if job.call != 0 {
        done(job.call);
    }
}

/// Tells the worker that a function has returned.
fn done(call: u32) {
    if let Ok(cx) = enter_local() {
        let done = |out: &mut Vec<u8>| out.extend_from_slice(&call.to_le_bytes());
        let _ = cx.rt.session.queue_raw(OP_CALLBACK_DONE, 0, done);
        cx.rt.session.flush();
    }
}

/// The worker asks for something. Called on the receiving thread. An error says what is wrong with
/// the worker, and ends the session.
pub fn asked(status: i32, call: u32, body: &[u8]) -> Result<(), String> {
    let word = Word::from_status(status).map_err(|e| e.to_string())?;
    let damaged = || format!("the server's word makes no sense ({word:?})");
    match word {
        Word::Run => {
            let m = decode::<msg::RunPromised>(body).map_err(|_| damaged())?;
            let (what, last) = lock(&PROMISED).redeem(m.token)?;
            if let Promised::Destructor { object, .. } = what {
                handles::destroy(Kind::UserObject, object);
            }
            let job = Job {
                call,
                what,
                last,
                error: m.error as CUresult,
                before: m.before,
                after: m.after,
            };
            // It was there before the token was given.
            if let Ok(jobs) = jobs() {
                jobs.submit(job)?;
            }
        }
        Word::Gone => {
            let token = Reader::new(body).u64().map_err(|_| damaged())?;
            let (what, once) = lock(&PROMISED).take(token)?;
            if once {
                is_over(&what);
            }
        }
        Word::LogLine => {
            let m = decode::<msg::LogLine<'_>>(body).map_err(|_| damaged())?;
            logs::arrived(&m)?;
        }
        Word::MirrorGone => {
            let id = Reader::new(body).u32().map_err(|_| damaged())?;
            graph_host::gone(id);
        }
    }
    Ok(())
}

/// Queues what runs in stream order.
fn queue(cx: Cx, stream: u32, kind: u32, what: Promised) -> Result<(), CUresult> {
    settled::program_will_see();
    jobs()?;
    cx.need_context()?;
    let token = if kind == MAYBE_CAPTURED {
        IN_GRAPHS.store(true, Ordering::Release);
        lock(&PROMISED).often(what)
    } else {
        DUE.fetch_add(1, Ordering::AcqRel);
        lock(&PROMISED).once(what)
    };
    let m = msg::HostFunction {
        stream,
        kind,
        token,
    };
    cx.send(&m).inspect_err(|_| take_back(token))
}

/// `cuLaunchHostFunc`.
pub fn queue_host_function(
    cx: Cx,
    stream: u32,
    f: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> Result<(), CUresult> {
    let kind = match stream::capturing() {
        true => MAYBE_CAPTURED,
        false => HOST_FUNCTION,
    };
    let data = data as u64;
    queue(cx, stream, kind, Promised::Function(Function { f, data }))
}

/// `cuStreamAddCallback`.
pub fn queue_stream_callback(
    cx: Cx,
    stream: u32,
    handle: CUstream,
    f: unsafe extern "C" fn(CUstream, CUresult, *mut c_void),
    data: *mut c_void,
) -> Result<(), CUresult> {
    let what = Promised::Callback {
        f,
        stream: handle as u64,
        data: data as u64,
    };
    queue(cx, stream, STREAM_CALLBACK, what)
}
