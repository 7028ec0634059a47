//! What every call goes through: it finds the session of CUDA, begins, and its outcome becomes a
//! code; how a call gets to the worker, and its answer back.

use super::comms::{Comm, Comms};
use crate::guest::{Place, Table, UUID};
use crate::lock::lock;
use busbar_abi::cuda::{CUDA_ERROR_INVALID_DEVICE, CUDA_SUCCESS, CUresult, CUuuid, error_name};
use busbar_abi::nccl::*;
use busbar_wire::codec::{Message, Reader, Writer};
use busbar_wire::generated::collectives as msg;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

/// Bytes of what went wrong last, its NUL included.
const SAID: usize = 1024;

/// After how many seconds a call that does not end is spoken of.
const STALL: &str = "BUSBAR_STALL";

/// What a process has once.
struct Process {
    table: OnceLock<Option<&'static Table>>,
    comms: Comms,
    /// What went wrong last. Programs are given its address.
    said: Mutex<[u8; SAID]>,
    /// The version of the library at the worker of the server that was the first to start one.
    version: AtomicU32,
    /// By server: the version there, once it has started.
    started: Mutex<BTreeMap<u32, u32>>,
    /// The servers below 32 that have one.
    ready: AtomicU32,
}

static PROCESS: Process = Process {
    table: OnceLock::new(),
    comms: Comms::new(),
    said: Mutex::new([0; SAID]),
    version: AtomicU32::new(0),
    started: Mutex::new(BTreeMap::new()),
    ready: AtomicU32::new(0),
};

/// A call in progress: the context and the device that are current to the calling thread, or that
/// it is about.
#[derive(Clone, Copy)]
pub struct Cx {
    table: &'static Table,
    /// Where it is made.
    pub at: Place,
    /// The program's number of the device.
    pub device: i32,
}

/// All communicators of the process.
pub fn comms() -> &'static Comms {
    &PROCESS.comms
}

/// Runs a call's body.
pub fn guard(f: impl FnOnce() -> Result) -> ncclResult_t {
    crate::stats::runs(&f);
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(done) => done.err().unwrap_or(ncclSuccess),
        Err(_) => {
            crate::log!(Error, "a bug in Busbar: a call of NCCL panicked");
            ncclInternalError
        }
    }
}

/// Notes what went wrong, for `ncclGetLastError`, and gives the code back.
pub fn fail(code: ncclResult_t, why: &str) -> ncclResult_t {
    crate::log!(Warn, "{why}");
    note(why);
    code
}

/// As [`fail`], of what no program can go on without: said where nobody asks for the log, too.
pub fn lost(code: ncclResult_t, why: &str) -> ncclResult_t {
    crate::log!(Lost, "{why}");
    note(why);
    code
}

fn note(why: &str) {
    let mut said = lock(&PROCESS.said);
    let end = (0..=why.len().min(SAID - 1)).rfind(|i| why.is_char_boundary(*i));
    let end = end.unwrap_or(0);
    said[..end].copy_from_slice(&why.as_bytes()[..end]);
    said[end] = 0;
}

/// What went wrong last.
pub fn last_error() -> *const c_char {
    lock(&PROCESS.said).as_ptr().cast()
}

/// The version of the library: the one at the worker, or, before that is known, the one whose
/// functions this is.
pub fn version() -> i32 {
    match PROCESS.version.load(Ordering::Acquire) {
        0 => NCCL_VERSION_CODE,
        version => version as i32,
    }
}

/// The answer of a call that is not forwarded.
pub fn unsupported(name: &'static str, reason: &'static str) -> ncclResult_t {
    fail(ncclInvalidUsage, &format!("{name}: {reason}"))
}

/// The functions of Busbar's CUDA library, in which there is the session.
fn table() -> Option<&'static Table> {
    type Get = unsafe extern "C" fn(*mut *const c_void, *const CUuuid) -> CUresult;
    *PROCESS.table.get_or_init(|| {
        let mut table = std::ptr::null();
        // SAFETY: a library that is never unloaded, and its function with the type that the driver
        // API gives it; our own library knows the UUID, and no other does.
        unsafe {
            let lib = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
            if lib.is_null() {
                return None;
            }
            let get = libc::dlsym(lib, c"cuGetExportTable".as_ptr());
            if get.is_null() {
                return None;
            }
            let get = std::mem::transmute::<*mut c_void, Get>(get);
            match get(&mut table, UUID.as_ptr().cast()) {
                CUDA_SUCCESS => table.cast::<Table>().as_ref(),
                _ => None,
            }
        }
    })
}

/// A code of CUDA's as one of NCCL's.
fn cuda(rc: CUresult) -> Result {
    if rc == CUDA_SUCCESS {
        return Ok(());
    }
    let name = error_name(rc).map_or("?".into(), CStr::to_string_lossy);
    Err(fail(
        ncclUnhandledCudaError,
        &format!("CUDA failed with {name}"),
    ))
}

/// Begins a call: the library at the worker is started with the first.
pub fn enter() -> Result<Cx> {
    let Some(table) = table() else {
        let why = "the CUDA library of this process is not Busbar's: start the program with \
                   `busbar run`";
        return Err(fail(ncclSystemError, why));
    };
    let mut cx = Cx {
        table,
        at: Place::default(),
        device: 0,
    };
    // SAFETY: pointers to live numbers.
    cuda(unsafe { (table.enter)(&mut cx.at, &mut cx.device) })?;
    cx.started()
}

/// Begins a call that is about a communicator, whichever context is current.
pub fn enter_for(comm: &Comm) -> Result<Cx> {
    let cx = enter()?;
    match cx.at.server == comm.at.server {
        true => Ok(cx),
        false => cx.at(comm.at),
    }
}

#[cold]
fn start(cx: Cx) -> Result {
    let mut started = lock(&PROCESS.started);
    if started.contains_key(&cx.at.server) {
        return Ok(());
    }
    // SAFETY: a function that lives as long as the library, which is never unloaded.
    cuda(unsafe { (cx.table.listen)(cx.at.server, hear) })?;
    let mut variables = Vec::new();
    for (name, value) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"NCCL_") || name == STALL {
            variables.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
        }
    }
    let m = msg::Start {
        variables: &variables,
    };
    let answer = cx.ask(msg::op::START, &fields(&m))?;
    let reply: msg::StartReply<'_> = reply(&answer)?;
    told(answer.0, reply.said)?;
    let version = reply.version.max(1);
    started.insert(cx.at.server, version);
    let first = PROCESS
        .version
        .compare_exchange(0, version, Ordering::AcqRel, Ordering::Acquire);
    if let Err(other) = first
        && other != version
    {
        let why = format!(
            "the servers of this program have NCCL of versions {other} and {version}: ranks of \
             one job need the same"
        );
        return Err(fail(ncclInvalidUsage, &why));
    }
    PROCESS
        .ready
        .fetch_or(1 << cx.at.server.min(31), Ordering::AcqRel);
    Ok(())
}

/// The worker's result, and its words.
pub fn told(status: i32, said: &str) -> Result {
    if status == ncclSuccess || status == ncclInProgress {
        return refuse_if(status != ncclSuccess, status);
    }
    Err(fail(status, said))
}

/// What has become of a communicator; null when the session with that server is over.
unsafe extern "C" fn hear(server: u32, body: *const u8, len: usize) {
    let _ = catch_unwind(|| {
        if body.is_null() {
            let why = "the session with the server is over";
            // Not for the log: if it is not the process's own end, CUDA's part says more of it.
            note(why);
            comms().tell_all(server, ncclRemoteError, why);
            return;
        }
        // SAFETY: the caller's bytes.
        let body = unsafe { std::slice::from_raw_parts(body, len) };
        let mut r = Reader::new(body);
        let Ok(m) = msg::State::decode(&mut r) else {
            return;
        };
        if let Some(comm) = comms().by_id(m.comm) {
            if m.ranks > 0 {
                comm.found(m.ranks, m.rank);
            }
            if !m.said.is_empty() {
                fail(m.code as i32, m.said);
            }
            comm.tell(m.code as i32, m.said);
        }
    });
}

/// An answer: its status, and its bytes.
type Answer = (i32, Vec<u8>);

unsafe extern "C" fn answered(to: *mut c_void, status: i32, body: *const u8, len: usize) {
    // SAFETY: the answer that `Cx::ask` has lent for the length of its call, and the caller's
    // bytes.
    unsafe { *to.cast::<Answer>() = (status, std::slice::from_raw_parts(body, len).to_vec()) };
}

/// A message's bytes.
pub fn fields<'a>(m: &impl Message<'a>) -> Vec<u8> {
    let mut bytes = Vec::new();
    m.encode(&mut Writer::new(&mut bytes));
    bytes
}

/// Reads the reply of an answer.
pub fn reply<'a, M: Message<'a>>(answer: &'a Answer) -> Result<M> {
    M::decode(&mut Reader::new(&answer.1)).map_err(|e| {
        let why = format!("the worker's answer makes no sense: {e}");
        fail(ncclInternalError, &why)
    })
}

impl Cx {
    /// The same call elsewhere.
    pub fn at(self, at: Place) -> Result<Self> {
        Self { at, ..self }.started()
    }

    /// The same call in the primary context of a device of the program's, wherever that is.
    pub fn on(self, device: i32) -> Result<Self> {
        let mut at = Place::default();
        // SAFETY: a pointer to a live place.
        match unsafe { (self.table.home)(device, &mut at) } {
            CUDA_ERROR_INVALID_DEVICE => {
                let why = format!("there is no device {device}");
                return Err(fail(ncclInvalidArgument, &why));
            }
            rc => cuda(rc)?,
        }
        let cx = self.at(at)?;
        Ok(Self { device, ..cx })
    }

    /// The library at the server is started with the first call there.
    fn started(self) -> Result<Self> {
        if PROCESS.ready.load(Ordering::Acquire) >> self.at.server.min(31) & 1 == 0 {
            start(self)?;
        }
        Ok(self)
    }

    /// The context that this call's record is executed in.
    pub fn scope(self) -> u32 {
        self.at.scope
    }

    /// The id of a stream of CUDA's.
    pub fn stream(self, raw: cudaStream_t) -> Result<u32> {
        let mut id = 0;
        // SAFETY: a pointer to a live number; the stream is looked up.
        cuda(unsafe { (self.table.stream)(self.at, raw.cast(), &mut id) })?;
        Ok(id)
    }

    /// Queues a record.
    pub fn queue(self, op: u16, body: &[u8]) -> Result {
        // SAFETY: as many bytes as said.
        cuda(unsafe { (self.table.queue)(self.at, op, body.as_ptr(), body.len()) })
    }

    /// Sends a record and waits for its answer.
    pub fn ask(self, op: u16, body: &[u8]) -> Result<Answer> {
        let mut answer: Answer = (ncclSystemError, Vec::new());
        let to = (&raw mut answer).cast();
        // SAFETY: as many bytes as said, and an answer that lives as long as the call.
        cuda(unsafe { (self.table.call)(self.at, op, body.as_ptr(), body.len(), answered, to) })?;
        Ok(answer)
    }

    /// As [`Cx::ask`], of what only succeeds or fails: every such reply says the same.
    pub fn call(self, op: u16, body: &[u8]) -> Result {
        let answer = self.ask(op, body)?;
        told(answer.0, reply::<msg::GroupReply<'_>>(&answer)?.said)
    }

    /// Device memory.
    pub fn allocate(self, size: usize) -> Result<u64> {
        let mut at = 0;
        // SAFETY: a pointer to a live address.
        cuda(unsafe { (self.table.allocate)(&mut at, size) })?;
        Ok(at)
    }

    /// Gives that back.
    pub fn free(self, at: u64) -> Result {
        // SAFETY: an address, which is looked up.
        cuda(unsafe { (self.table.free)(at) })
    }
}
