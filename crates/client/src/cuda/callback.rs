//! Functions of the program that run in stream order.
//!
//! They run one after the other on a thread of their own, as the driver's do, so that they may take
//! long and the session goes on meanwhile. The stream waits at the server until the function has
//! returned here.

use super::runtime::{Cx, decode, enter_local};
use super::{fault, settled, shadow};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

const HOST_FUNCTION: u32 = 0;
const STREAM_CALLBACK: u32 = 1;
/// The destructor of a user object, whose id comes in the stream's place.
const DESTRUCTOR: u32 = 2;
/// No function: a mirror, whose id comes in the stream's place, is gone.
const MIRROR_GONE: u32 = 3;
/// The status that comes with a host node's function.
const GRAPH_HOST: i32 = 1;

enum Job {
    Function {
        call: u32,
        kind: u32,
        function: u64,
        data: u64,
        status: i32,
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

fn submit(job: Job) {
    let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
    let tx = jobs.get_or_insert_with(|| {
        let (tx, rx) = channel::<Job>();
        let run = move || {
            for job in rx {
                work(job);
            }
        };
        if let Err(e) = std::thread::Builder::new()
            .name("busbar-callback".into())
            .spawn(run)
        {
            crate::log!(Error, "cannot start the thread of callbacks: {e}");
        }
        tx
    });
    let _ = tx.send(job);
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
    let Ok(m) = decode::<msg::HostFunction>(body) else {
        return;
    };
    // The field that names the stream on the way out carries the stream's error on the way back.
    let status = m.stream as i32;
    match m.kind {
        MIRROR_GONE => return super::graph_host::gone(m.stream),
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
    settled::program_will_see();
    let function = f as *const () as u64;
    cx.send(&msg::HostFunction {
        stream,
        kind: HOST_FUNCTION,
        function,
        data: data as u64,
    })
}

/// `cuStreamAddCallback`.
pub fn queue_stream_callback(
    cx: Cx,
    stream: u32,
    handle: CUstream,
    f: unsafe extern "C" fn(CUstream, CUresult, *mut c_void),
    data: *mut c_void,
) -> Result<(), CUresult> {
    settled::program_will_see();
    let c = Box::new(StreamCallback {
        f,
        stream: handle as u64,
        data: data as u64,
    });
    let data = Box::into_raw(c) as u64;
    cx.send(&msg::HostFunction {
        stream,
        kind: STREAM_CALLBACK,
        function: 0,
        data,
    })
}
