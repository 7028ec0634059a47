//! What of the program's the server asks for: functions that run in stream order, destructors,
//! bytes of memory that work before may still write.
//!
//! They run one after the other on a thread of their own, as the driver's do, so that they may take
//! long and the session goes on meanwhile. The stream waits at the server until the function has
//! returned here. Bytes are read on another thread: a function may wait for what other streams do.

use super::prelude::*;
use crate::cuda::call::{Client, Does, fault, jobs, thread};
use crate::cuda::engine::{graph_host, logs, transfer};
use crate::cuda::state::promised::{Function, Promised};
use crate::cuda::state::rows::{HostBox, Rows, shape};
use busbar_channel::Bulk;
use busbar_wire::Reader;
use busbar_wire::generated::cuda::contract::MOST_READ;
use busbar_wire::promise::{HOST_FUNCTION, MAYBE_CAPTURED, STREAM_CALLBACK, Word};
use busbar_wire::record::OP_CALLBACK_BYTES;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Something that the server has asked for.
struct Asked {
    /// The server's number for it.
    call: u32,
    what: Promised,
    /// It will not be asked for again.
    last: bool,
    error: CUresult,
    /// Mirrors to fetch before, to give after, and those that copies write meanwhile.
    before: Vec<u32>,
    after: Vec<u32>,
    beside: Vec<u32>,
}

/// The most of them that wait: a server cannot fill the program's memory with them.
const MOST_WAITING: usize = 1 << 16;

/// A graph gets a node with this function: its token.
pub fn in_graphs(cx: Cx, run: Function) -> Result<u64> {
    let state = cx.state();
    state.order.program_will_see();
    state.order.functions_in_graphs();
    jobs(cx.client, Does::Functions)?;
    Ok(state.promises.often(Promised::Function(run)))
}

/// The function of a graph's node.
pub fn of_node(cx: Cx, token: u64) -> Option<Function> {
    match cx.state().promises.get(token) {
        Some(Promised::Function(run)) => Some(run),
        _ => None,
    }
}

/// A user object's destructor: its token.
pub fn destructor(cx: Cx, object: u32, run: Function) -> Result<u64> {
    jobs(cx.client, Does::Functions)?;
    let state = cx.state();
    let what = Promised::Destructor { object, run };
    Ok(state.promises.once(&state.order, what))
}

/// It never came to be known to the worker.
fn take_back(cx: Cx, token: u64) {
    let state = cx.state();
    let _ = state.promises.take(&state.order, token);
}

/// Queues a copy to the device, or to an array there, from page-locked memory which work before it
/// may write: its bytes are read when that is over.
pub fn read_in_order(cx: Cx, r: &Rows, array: u32, stream: u32) -> Result<()> {
    jobs(cx.client, Does::Reads)?;
    let state = cx.state();
    let stripes = r.stripes(MOST_READ as usize);
    for r in stripes.flat_map(|r| r.boxes_of(MOST_READ as usize)) {
        let from = r.host(r.src);
        let token = state.promises.once(&state.order, Promised::Read(from));
        let s = shape(&r);
        let m = msg::CopyInLater {
            shape: busbar_abi::bytes_of(&s),
            array,
            stream,
            token,
        };
        cx.send(&m).inspect_err(|_| take_back(cx, token))?;
    }
    Ok(())
}

/// Sends what the worker asks for.
fn read(cx: Cx, call: u32, from: &HostBox) {
    let send_piece = |at: usize, piece: &[u8]| {
        let head = |out: &mut Vec<u8>| {
            out.extend_from_slice(&call.to_le_bytes());
            out.extend_from_slice(&(at as u64).to_le_bytes());
        };
        let channel = cx.client.session.channel();
        let _ = channel.push_bulk(OP_CALLBACK_BYTES, 0, 0, head, Bulk::Copy(piece));
    };
    // SAFETY: page-locked memory, which its owner keeps until the copy is done.
    let send = || unsafe {
        transfer::pieces(from, &[], |at, piece| {
            send_piece(at, piece);
            Ok(())
        })
    };
    // It may be closed to the program by now.
    let _ = fault::in_function(send);
}

/// Runs a function of the program's that a stream waits for.
fn in_stream_order(cx: Cx, f: impl FnOnce()) {
    cx.hears();
    thread::set_in_function(true);
    let f = || fault::in_function(|| catch_unwind(AssertUnwindSafe(f)));
    let _ = cx.state().contexts.without_calls(f);
    thread::set_in_function(false);
    cx.function_ran();
}

fn run(f: Function) {
    // SAFETY: the program's function and data.
    unsafe { (f.f)(f.data as *mut c_void) };
}

fn work(cx: Cx, job: &Asked) {
    match job.what {
        Promised::Function(f) => {
            let fetched = graph_host::fetch(cx, &job.before);
            in_stream_order(cx, || {
                if job.error == CUDA_SUCCESS {
                    run(f);
                }
            });
            graph_host::give(cx, &job.after, &job.beside, &fetched);
        }
        Promised::Callback { f, stream, data } => {
            // SAFETY: the program's function and data.
            let call = || unsafe { f(stream as CUstream, job.error, data as *mut c_void) };
            in_stream_order(cx, call);
        }
        Promised::Read(from) => read(cx, job.call, &from),
        Promised::Gate(gate) => {
            let gate = lock(&cx.client.gates.ahead).remove(&gate);
            return gate.into_iter().for_each(|open| open(job.call));
        }
        Promised::Destructor { run: f, .. } => {
            let _ = catch_unwind(|| run(f));
        }
    }
    if job.last {
        job.what.is_over(&cx.state().order);
    }
    if job.call != 0 {
        cx.tell_done(job.call);
    }
}

/// The worker asks for something. Called on the receiving thread. An error says what is wrong with
/// the worker, and ends the session.
pub fn asked(client: &'static Client, status: i32, call: u32, body: &[u8]) -> Result<(), String> {
    let word = Word::from_status(status).map_err(|e| e.to_string())?;
    let damaged = || format!("the server's word makes no sense ({word:?})");
    let state = client.state;
    match word {
        Word::Run => {
            let m = decode::<msg::RunPromised>(body).map_err(|_| damaged())?;
            let (what, last) = state.promises.redeem(m.token)?;
            if let Promised::Destructor { object, .. } = what {
                state.retire(Kind::UserObject, object);
            }
            if client.waiting.fetch_add(1, Ordering::AcqRel) >= MOST_WAITING {
                return Err(format!(
                    "the server wants more than {MOST_WAITING} functions run"
                ));
            }
            let job = Asked {
                call,
                what,
                last,
                error: m.error as CUresult,
                before: m.before,
                after: m.after,
                beside: m.beside,
            };
            let does = match what {
                Promised::Read(_) | Promised::Gate(_) => Does::Reads,
                _ => Does::Functions,
            };
            // It was there before the token was given.
            if let Ok(tx) = jobs(client, does) {
                let _ = tx.send(Box::new(move || work(Cx::of(client), &job)));
            }
        }
        Word::Gone => {
            let token = Reader::new(body).u64().map_err(|_| damaged())?;
            if let Promised::Gate(gate) = state.promises.take(&state.order, token)? {
                lock(&client.gates.ahead).remove(&gate);
            }
        }
        Word::LogLine => {
            let m = decode::<msg::LogLine<'_>>(body).map_err(|_| damaged())?;
            logs::arrived(state, &m)?;
        }
        Word::MemoryTold => {
            let m = decode::<msg::MemoryTold<'_>>(body).map_err(|_| damaged())?;
            state.shadows.told(&m)?;
        }
        Word::MirrorGone => {
            let id = Reader::new(body).u32().map_err(|_| damaged())?;
            state.graphs.mirror_gone(id);
        }
    }
    Ok(())
}

/// Queues what runs in stream order.
fn queue(cx: Cx, stream: u32, kind: u32, what: Promised) -> Result<()> {
    let state = cx.state();
    state.order.program_will_see();
    jobs(cx.client, Does::Functions)?;
    cx.need_context()?;
    let token = if kind == MAYBE_CAPTURED {
        state.order.functions_in_graphs();
        state.promises.often(what)
    } else {
        state.promises.once(&state.order, what)
    };
    let m = msg::HostFunction {
        stream,
        kind,
        token,
    };
    let sent = match kind == STREAM_CALLBACK && state.captures.any() {
        // A capture takes none.
        true => cx.call(&m).map(drop),
        false => cx.send(&m),
    };
    sent.inspect_err(|_| take_back(cx, token))
}

/// `cuLaunchHostFunc`.
pub fn queue_host_function(cx: Cx, stream: u32, f: Function) -> Result<()> {
    let kind = match cx.state().captures.any() {
        true => MAYBE_CAPTURED,
        false => HOST_FUNCTION,
    };
    queue(cx, stream, kind, Promised::Function(f))
}

/// `cuStreamAddCallback`.
pub fn queue_stream_callback(
    cx: Cx,
    stream: u32,
    handle: CUstream,
    f: unsafe extern "C" fn(CUstream, CUresult, *mut c_void),
    data: *mut c_void,
) -> Result<()> {
    let what = Promised::Callback {
        f,
        stream: handle as u64,
        data: data as u64,
    };
    queue(cx, stream, STREAM_CALLBACK, what)
}
