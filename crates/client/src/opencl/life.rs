//! The beginning and the end: a client is opened when the program first asks for one, is closed
//! when the program ends, and stays behind in a fork. Every C function enters here.

use super::arguments::Made;
use super::call::{Client, Function, Hub, Server};
use super::engine::describe;
use super::state::Result;
use crate::prelude::*;
use crate::{Session, config::Config};
use busbar_abi::opencl::{CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES, CL_SUCCESS, Handle};
use busbar_wire::generated::opencl as wire;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a process has one of.
struct Life {
    /// Its own client.
    client: OnceLock<Client>,
    /// The servers of all clients.
    servers: Mutex<Vec<&'static Server>>,
    /// Whether this process is the child of a fork.
    forked: AtomicBool,
    /// What calls wait for is counted.
    counts: AtomicBool,
}

static LIFE: Life = Life {
    client: OnceLock::new(),
    servers: Mutex::new(Vec::new()),
    forked: AtomicBool::new(false),
    counts: AtomicBool::new(false),
};

thread_local! {
    static BOUND: Cell<Option<&'static Client>> = const { Cell::new(None) };
}

/// The functions of the API: the loader's table, and all by their names.
#[derive(Clone, Copy)]
pub struct Functions {
    /// The loader's dispatch table.
    pub table: &'static [Function],
    /// By name.
    pub by_name: &'static [(&'static str, Function)],
}

/// The client of this thread: the one that it is bound to, or else the process's own, which is
/// opened now if it is not yet.
pub fn client(functions: Functions) -> &'static Client {
    if let Some(bound) = BOUND.get() {
        return bound;
    }
    LIFE.client.get_or_init(|| {
        // A worker that finds this driver among its own would be its own client.
        if std::env::var_os("BUSBAR_IN_WORKER").is_some() {
            return Client {
                servers: Vec::new(),
                functions: functions.by_name,
            };
        }
        open(&Config::from_env(), functions)
    })
}

/// Makes another client than the process's own that of this thread, or no other.
pub fn bind(client: Option<&'static Client>) {
    BOUND.set(client);
}

/// Opens a client. Servers that cannot be reached are left out, and the log says why.
pub fn open(config: &Config, functions: Functions) -> Client {
    if config.servers.is_empty() {
        crate::log!(Info, "BUSBAR_SERVER is not set: no OpenCL platforms");
    }
    let open = |address: &String| {
        connect(config, address, functions)
            .inspect_err(|why| crate::log!(Error, "no OpenCL platforms from {address}: {why}"))
            .ok()
    };
    Client {
        servers: config.servers.iter().filter_map(open).collect(),
        functions: functions.by_name,
    }
}

fn connect(
    config: &Config,
    address: &str,
    functions: Functions,
) -> std::result::Result<&'static Server, String> {
    let hub = Arc::new(Hub::default());
    let name = |op| wire::name(op).unwrap_or("?");
    let session = Session::open(config, address, "opencl", name, hub.clone());
    let session = session.map_err(|e| e.to_string())?;
    let plain = crate::config::var("BUSBAR_DEVICE_NAMES").is_some_and(|v| v == "plain");
    let shown = (!plain).then(|| address.to_string());
    let server = Server::new(session, hub, shown, &LIFE.forked, functions.table);
    let server: &'static Server = Box::leak(Box::new(server));
    describe::describe(server, config.servers.len() > 1)?;
    let mut all = lock(&LIFE.servers);
    if all.is_empty() {
        LIFE.counts.store(crate::stats::asked(), Ordering::Relaxed);
        // SAFETY: the function stays loaded: the library is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        crate::exits::at_exit(at_exit);
    }
    all.push(server);
    Ok(server)
}

extern "C" fn at_exit() {
    if !LIFE.forked.load(Ordering::Relaxed) {
        let all = std::mem::take(&mut *lock(&LIFE.servers));
        all.iter().for_each(|s| s.session.close());
    }
}

extern "C" fn in_child() {
    LIFE.forked.store(true, Ordering::Relaxed);
    crate::socket::abandon();
}

fn guarded<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    if LIFE.forked.load(Ordering::Relaxed) {
        return Err(CL_OUT_OF_RESOURCES);
    }
    if LIFE.counts.load(Ordering::Relaxed) {
        crate::stats::runs(&f);
    }
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| {
        crate::log!(Error, "a call failed inside the client; this is a bug");
        Err(CL_OUT_OF_HOST_MEMORY)
    })
}

/// Runs a call that returns a code.
#[inline]
pub fn status(f: impl FnOnce() -> Result<()>) -> i32 {
    guarded(f).err().unwrap_or(CL_SUCCESS)
}

/// Runs a call that returns a pointer and stores its code.
///
/// # Safety
/// `code` is null or writable.
pub unsafe fn object<T: Made>(code: *mut i32, f: impl FnOnce() -> Result<T>) -> Handle {
    let (handle, result) = match guarded(f) {
        Ok(made) => made.made(),
        Err(e) => (std::ptr::null_mut(), e),
    };
    if !code.is_null() {
        // SAFETY: passed on to the caller.
        unsafe { code.write_unaligned(result) };
    }
    handle
}
