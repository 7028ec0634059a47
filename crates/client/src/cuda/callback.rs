//! Functions of the program that run in stream order.
//!
//! They run one after the other on a thread of their own, as the driver's do, so that they may take
//! long and the session goes on meanwhile. The stream waits at the server until the function has
//! returned here.

use super::runtime::{Cx, decode, enter_local};
use super::{fault, logs, settled, shadow, stream};
use crate::session::CHUNK;
use busbar_abi::cuda::*;
use busbar_channel::Bulk;
use busbar_wire::generated::cuda::contract::MOST_READ;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::record::OP_CALLBACK_BYTES;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

const HOST_FUNCTION: u32 = 0;
const STREAM_CALLBACK: u32 = 1;
/// The destructor of a user object, whose id comes in the stream's place.
const DESTRUCTOR: u32 = 2;
/// No function: a mirror, whose id comes in the stream's place, is gone.
const MIRROR_GONE: u32 = 3;
/// No function: bytes of the program's are wanted, under the number in its place.
const READ: u32 = 4;
/// The status that comes with a host node's function.
const GRAPH_HOST: i32 = 1;
/// The status that comes with a line of the driver's log.
const LOG_LINE: i32 = 2;

enum Job {
    Function {
        call: u32,
        kind: u32,
        function: u64,
        data: u64,
        status: i32,
    },
    Read {
        call: u32,
        number: u64,
    },
    Node {
        call: u32,
        m: msg::GraphHostFunction,
    },
    Destructor {
        function: u64,
        data: u64,
    },
}

/// A stream callback with what it is to be called with: lives until it has run.
struct StreamCallback {
    f: unsafe extern "C" fn(CUstream, CUresult, *mut c_void),
    stream: u64,
    data: u64,
}

static JOBS: Mutex<Option<Sender<Job>>> = Mutex::new(None);

/// Functions that are queued and have not returned.
static DUE: AtomicUsize = AtomicUsize::new(0);
/// Graphs hold functions, too: how often those run is not known here.
static IN_GRAPHS: AtomicBool = AtomicBool::new(false);

/// Reads that are to come: where, and how many bytes.
static READS: Mutex<BTreeMap<u64, (u64, usize)>> = Mutex::new(BTreeMap::new());
static NUMBER: AtomicU64 = AtomicU64::new(0);

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The way to the thread that runs them. It is there before the first is queued: a stream must not
/// wait for a function that nobody can run.
fn jobs() -> Result<Sender<Job>, CUresult> {
    let mut jobs = lock(&JOBS);
    if let Some(tx) = &*jobs {
        return Ok(tx.clone());
    }
    let (tx, rx) = channel::<Job>();
    let run = move || {
        for job in rx {
            work(job);
        }
    };
    let named = std::thread::Builder::new().name("busbar-callback".into());
    let started = fault::quietly(|| named.spawn(run));
    if let Err(e) = started {
        crate::log!(Error, "cannot start the thread of callbacks: {e}");
        return Err(CUDA_ERROR_OPERATING_SYSTEM);
    }
    Ok(jobs.insert(tx).clone())
}

fn submit(job: Job) {
    if let Ok(tx) = jobs() {
        let _ = tx.send(job);
    }
}

/// A function is about to be queued.
fn is_due(cx: Cx) -> Result<(), CUresult> {
    settled::program_will_see();
    jobs()?;
    cx.need_context()?;
    if stream::capturing() {
        IN_GRAPHS.store(true, Ordering::Release);
    } else {
        DUE.fetch_add(1, Ordering::AcqRel);
    }
    Ok(())
}

/// A graph gets a node with a function.
pub fn in_graphs() -> Result<(), CUresult> {
    settled::program_will_see();
    IN_GRAPHS.store(true, Ordering::Release);
    jobs().map(drop)
}

/// Whether functions of the program may still run before what is queued next.
pub fn any_due() -> bool {
    DUE.load(Ordering::Acquire) > 0 || IN_GRAPHS.load(Ordering::Acquire)
}

fn has_run() {
    let less = |n: usize| n.checked_sub(1);
    let _ = DUE.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
}

/// Queues a copy to the device from page-locked memory which work before it may write: its bytes
/// are read when that is over.
pub fn read_in_order(cx: Cx, dst: u64, src: u64, len: usize, stream: u32) -> Result<(), CUresult> {
    jobs()?;
    let mut done = 0;
    while done < len {
        let n = (MOST_READ as usize).min(len - done);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        lock(&READS).insert(number, (src + done as u64, n));
        let m = msg::CopyInLater {
            dst: dst + done as u64,
            len: n as u64,
            stream,
            number,
        };
        cx.send(&m)
            .inspect_err(|_| _ = lock(&READS).remove(&number))?;
        done += n;
    }
    Ok(())
}

/// Sends what the worker asks for.
fn read(call: u32, number: u64) {
    let (Some((p, len)), Ok(cx)) = (lock(&READS).get(&number).copied(), enter_local()) else {
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
    lock(&READS).remove(&number);
}

/// Whether page-locked memory of the program's is to be read yet.
pub fn reads() -> bool {
    !lock(&READS).is_empty()
}

/// Runs a function of the program's that a stream waits for.
fn in_stream_order(f: impl FnOnce()) {
    let _ = fault::in_function(|| catch_unwind(AssertUnwindSafe(f)));
    if let Ok(cx) = enter_local() {
        shadow::function_ran(cx);
    }
}

fn work(job: Job) {
    match job {
        Job::Function {
            call,
            kind,
            function,
            data,
            status,
        } => {
            let run = || {
                if kind == STREAM_CALLBACK {
                    // SAFETY: made by `queue_stream_callback` for this one run.
                    let c = unsafe { Box::from_raw(data as *mut StreamCallback) };
                    // SAFETY: the program's function and data.
                    unsafe { (c.f)(c.stream as CUstream, status, c.data as *mut c_void) };
                } else if status == CUDA_SUCCESS {
                    program(function, data);
                }
            };
            in_stream_order(run);
            has_run();
            done(call);
        }
        Job::Read { call, number } => {
            read(call, number);
            done(call);
        }
        Job::Node { call, m } => {
            if let Ok(cx) = enter_local() {
                super::graph_host::fetch(cx, &m.before);
                in_stream_order(|| program(m.function, m.data));
                super::graph_host::give(cx, &m.after);
            }
            done(call);
        }
        Job::Destructor { function, data } => {
            let _ = catch_unwind(|| program(function, data));
        }
    }
}

/// Calls a function of the program's.
fn program(function: u64, data: u64) {
    // SAFETY: the address came from the program as a CUhostFn.
    let f: unsafe extern "C" fn(*mut c_void) =
        unsafe { std::mem::transmute(function as *const ()) };
    // SAFETY: the program's function and data.
    unsafe { f(data as *mut c_void) };
}

/// Tells the worker that a function has returned.
fn done(call: u32) {
    if let Ok(cx) = enter_local() {
        let done = |out: &mut Vec<u8>| out.extend_from_slice(&call.to_le_bytes());
        let _ = cx
            .rt
            .session
            .queue_raw(busbar_wire::record::OP_CALLBACK_DONE, 0, done);
        cx.rt.session.flush();
    }
}

/// The worker asks for a function to be run. Called on the receiving thread.
pub fn run(status: i32, call: u32, body: &[u8]) {
    if status == GRAPH_HOST {
        if let Ok(m) = decode::<msg::GraphHostFunction>(body) {
            submit(Job::Node { call, m });
        }
        return;
    }
    if status == LOG_LINE {
        if let Ok(m) = decode::<msg::LogLine<'_>>(body) {
            logs::arrived(&m);
        }
        return;
    }
    let Ok(m) = decode::<msg::HostFunction>(body) else {
        return;
    };
    // The field that names the stream on the way out carries the stream's error on the way back.
    let status = m.stream as i32;
    match m.kind {
        MIRROR_GONE => return super::graph_host::gone(m.stream),
        READ => {
            let number = m.function;
            return submit(Job::Read { call, number });
        }
        DESTRUCTOR => {
            super::handles::destroy(Kind::UserObject, m.stream);
            return submit(Job::Destructor {
                function: m.function,
                data: m.data,
            });
        }
        _ => {}
    }
    submit(Job::Function {
        call,
        kind: m.kind,
        function: m.function,
        data: m.data,
        status,
    });
}

/// `cuLaunchHostFunc`.
pub fn queue_host_function(
    cx: Cx,
    stream: u32,
    f: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> Result<(), CUresult> {
    is_due(cx)?;
    let function = f as *const () as u64;
    let m = msg::HostFunction {
        stream,
        kind: HOST_FUNCTION,
        function,
        data: data as u64,
    };
    cx.send(&m).inspect_err(|_| has_run())
}

/// `cuStreamAddCallback`.
pub fn queue_stream_callback(
    cx: Cx,
    stream: u32,
    handle: CUstream,
    f: unsafe extern "C" fn(CUstream, CUresult, *mut c_void),
    data: *mut c_void,
) -> Result<(), CUresult> {
    is_due(cx)?;
    let c = Box::new(StreamCallback {
        f,
        stream: handle as u64,
        data: data as u64,
    });
    let data = Box::into_raw(c) as u64;
    let m = msg::HostFunction {
        stream,
        kind: STREAM_CALLBACK,
        function: 0,
        data,
    };
    cx.send(&m).inspect_err(|_| has_run())
}
