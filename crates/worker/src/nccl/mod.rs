//! NCCL: collectives of the session's devices, in the queue of its CUDA calls.
//!
//! [`library`] finds and loads the library, [`comm`] has the communicators. Here records become
//! calls: what is only queued runs on the executor's thread, so that its place on the stream is
//! that of its record; what waits for other ranks has a thread of its own, and answers when it is
//! done.

// Result codes keep their C names.
#![allow(non_upper_case_globals)]

mod comm;
mod library;
mod parts;
mod steps;

use crate::cuda::{Cuda, Visit};
use crate::lock::lock;
use crate::peers::Heard;
use crate::staging::Hold;
use crate::{Api, Beside};
use busbar_abi::nccl::*;
use busbar_control::talk::Side;
use busbar_wire::WireError;
use busbar_wire::codec::{Message, Reader};
use busbar_wire::generated::collectives::{self as msg, contract::*, op};
use busbar_wire::record::{Header, Records};
use comm::{Comm, Comms, Held};
use library::Library;
pub use library::installed;
use parts::{Part, Parts, part};
use std::any::Any;
use std::ffi::{CString, c_void};
use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use steps::{HOST, Steps};

/// How long what is only queued waits for a communicator that another call uses: the client may
/// have heard a moment before the other thread has let go.
const PATIENCE: Duration = Duration::from_secs(2);

/// A session's side of NCCL.
pub struct Nccl {
    path: Option<String>,
    library: Arc<OnceLock<&'static Library>>,
    comms: Arc<Comms>,
}

/// A call of the library's.
type Run = Box<dyn FnMut(&'static Library) -> ncclResult_t + Send>;

/// One call of a group, ready to be made on any thread.
struct Ready {
    visit: Visit,
    /// Kept until the group has ended: what the call was given is in it.
    run: Run,
    /// What is done once the group has ended.
    after: Option<Box<dyn FnOnce() + Send>>,
    /// The communicators that it is about: their state is told.
    of: Vec<Arc<Comm>>,
    /// The communicator that it takes ranks of, which is in progress meanwhile.
    parent: Option<Arc<Comm>>,
    /// The communicator that it ends.
    ends: Option<Arc<Comm>>,
    /// It waits for other ranks.
    slow: bool,
    /// What it is to other ranks, if they have to make it, too.
    part: Option<Part>,
}

impl Ready {
    /// Other ranks have a part in it.
    fn with(self, comm: Arc<Comm>, name: &'static str, side: Option<Side>, stream: u64) -> Self {
        let part = Some(Part {
            comm,
            name,
            side,
            stream,
        });
        Self { part, ..self }
    }

    /// It takes ranks of another communicator.
    fn taking(self, parent: Arc<Comm>) -> Self {
        let parent = Some(parent);
        Self { parent, ..self }
    }

    /// It ends a communicator.
    fn ending(self, comm: Arc<Comm>) -> Self {
        let ends = Some(comm);
        Self { ends, ..self }
    }

    /// The communicators that are busy with it.
    fn busy(&self) -> impl Iterator<Item = &Arc<Comm>> {
        self.of.iter().chain(&self.parent).chain(&self.ends)
    }
}

/// Why a record is not executed.
enum Fail {
    Wire(WireError),
    /// The library would say this.
    Code(ncclResult_t),
}

impl From<WireError> for Fail {
    fn from(e: WireError) -> Self {
        Self::Wire(e)
    }
}

/// Reads a whole message.
fn read<'a, M: Message<'a>>(body: &'a [u8]) -> Result<M, WireError> {
    let mut r = Reader::new(body);
    let m = M::decode(&mut r)?;
    r.finish()?;
    Ok(m)
}

/// A configuration, as the program's of whatever version, with texts of our own.
struct Config {
    /// Words, since the structure begins with one.
    words: Vec<u64>,
    _names: [CString; 2],
}

// SAFETY: its addresses are of its own texts, which go where it goes.
unsafe impl Send for Config {}

impl Config {
    fn new(bytes: &[u8], names: &[u8]) -> Result<Option<Self>, WireError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let least = offset_of!(ncclConfig_t, cgaClusterSize);
        let size = bytes.first_chunk().map(|b| u64::from_ne_bytes(*b));
        if size != Some(bytes.len() as u64) || bytes.len() < least {
            return Err(WireError::BadValue("configuration"));
        }
        // What is behind what is known here might be addresses.
        let known = bytes.len().min(size_of::<ncclConfig_t>());
        let bytes = &bytes[..known];
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut all = [0; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(all);
        }
        words[0] = known as u64;
        let mut texts = names.split(|b| *b == 0);
        let mut text = || {
            let text = CString::new(texts.next().unwrap_or_default());
            text.map_err(|_| WireError::BadText)
        };
        let names = [text()?, text()?];
        let places = [
            offset_of!(ncclConfig_t, netName),
            offset_of!(ncclConfig_t, commName),
        ];
        for (at, name) in places.iter().zip(&names) {
            if let Some(word) = words.get_mut(at / 8) {
                *word = match name.is_empty() {
                    true => 0,
                    false => name.as_ptr() as u64,
                };
            }
        }
        Ok(Some(Self {
            words,
            _names: names,
        }))
    }

    /// What the library is given.
    fn pointer(this: &mut Option<Self>) -> *mut ncclConfig_t {
        let words = this.as_mut().map(|c| c.words.as_mut_ptr());
        words.unwrap_or(std::ptr::null_mut()).cast()
    }

    /// Whether a communicator of it is there when the call that makes it returns.
    fn blocks(this: &Option<Self>) -> bool {
        let at = offset_of!(ncclConfig_t, blocking) / 8;
        this.as_ref().is_none_or(|c| c.words[at] as u32 != 0)
    }
}

impl Api for Nccl {
    fn execute(&mut self, _: &Header, _: &[u8], _: &mut Hold<'_>) -> Result<(), WireError> {
        Err(WireError::BadValue("API of a session"))
    }

    fn execute_beside(
        &mut self,
        host: &mut dyn Api,
        h: &Header,
        payload: &[u8],
    ) -> Result<(), WireError> {
        let host: &mut dyn Any = host;
        let Some(cuda) = host.downcast_mut::<Cuda>() else {
            return Err(WireError::BadValue("API of a session"));
        };
        match h.op {
            op::START => {
                let started = self.start(&read(payload)?);
                let (rc, version, said) = match &started {
                    Ok(version) => (ncclSuccess, *version, ""),
                    Err(why) => (ncclSystemError, 0, why.as_str()),
                };
                let reply = msg::StartReply { version, said };
                self.comms.outbox.reply(h.call, rc, |w| reply.encode(w));
                Ok(())
            }
            op::MAKE_UNIQUE_ID => {
                let msg::MakeUniqueId {} = read(payload)?;
                let library = self.library()?;
                let mut id: ncclUniqueId = busbar_abi::zeroed();
                // SAFETY: a pointer to a live structure.
                let rc = unsafe { library.ncclGetUniqueId(&mut id) };
                let said = library.said(rc);
                let reply = msg::MakeUniqueIdReply {
                    id: &id.internal,
                    said: &said,
                };
                self.comms.outbox.reply(h.call, rc, |w| reply.encode(w));
                cuda.visited();
                Ok(())
            }
            op::GROUP => self.run(cuda, h.call, Records::new(payload)),
            _ => self.run(cuda, h.call, std::iter::once(Ok((*h, payload)))),
        }
    }

    fn close(&mut self) {
        // The process ends with the session, and other ranks see that.
    }
}

impl Nccl {
    /// Loads nothing before somebody asks.
    pub fn new(with: Beside) -> Self {
        let (comms, library) = (
            Comms::new(with.outbox, with.peers.clone()),
            Arc::<OnceLock<&'static Library>>::default(),
        );
        let (all, loaded) = (comms.clone(), library.clone());
        with.at_once.serve(move |call, body| {
            let m: msg::Abort = read(body).map_err(|e| e.to_string())?;
            let library = loaded
                .get()
                .ok_or("the client broke the protocol: no library yet")?;
            let revoke = (m.revoke != 0).then_some(m.flags as i32);
            all.abort(library, (m.comm, revoke, call))
        });
        // Who has the peers does not keep what has them.
        let all = Arc::downgrade(&comms);
        with.peers.on_word(move |what| {
            let Some(all) = all.upgrade() else { return };
            match what {
                Heard::Lost(loss) => all.lost(loss),
                Heard::Says(talk) => all.hear(talk),
            }
        });
        Self {
            path: with.library,
            library,
            comms,
        }
    }

    fn start(&mut self, m: &msg::Start<'_>) -> Result<u32, String> {
        let library = library::load(self.path.as_deref(), m.variables)?;
        let _ = self.library.set(library);
        let after = m.variables.split(|b| *b == 0);
        let after = after.filter_map(|v| v.strip_prefix(b"BUSBAR_STALL="));
        let after = after.filter_map(|v| std::str::from_utf8(v).ok()?.parse().ok());
        let after = after.filter_map(|s| Duration::try_from_secs_f64(s).ok());
        after.for_each(|time| self.comms.speak_after(time));
        Ok(library.version as u32)
    }

    fn library(&self) -> Result<&'static Library, WireError> {
        let library = self.library.get().copied();
        library.ok_or(WireError::BadValue("call before the library is started"))
    }

    /// Makes the calls of a group, or one alone.
    fn run<'a>(
        &mut self,
        cuda: &mut Cuda,
        call: u32,
        records: impl Iterator<Item = Result<(Header, &'a [u8]), WireError>>,
    ) -> Result<(), WireError> {
        let library = self.library()?;
        let mut ready = Vec::new();
        let mut failed = None;
        for r in records {
            let (h, body) = r?;
            match self.prepare(cuda, &h, body) {
                Ok(one) => ready.extend(one),
                Err(Fail::Wire(e)) => return Err(e),
                Err(Fail::Code(rc)) => failed = failed.or(Some(rc)),
            }
        }
        let comms = self.comms.clone();
        let busy = comm::in_order(ready.iter().flat_map(Ready::busy));
        if failed.is_none() && ready.iter().any(|r| r.slow) {
            let relaxed = cuda.visit(0);
            let of: Vec<_> = ready.iter().flat_map(|r| r.of.clone()).collect();
            let work = move || {
                relaxed.relax();
                perform(library, &comms, ready, comm::hold(&busy), call);
            };
            if !self.comms.waiting.begin("ranks", work) {
                for comm in &of {
                    self.comms.tell(library, comm, ncclSystemError);
                }
                self.comms.answer(library, call, ncclSystemError);
            }
            return Ok(());
        }
        // A program uses none that is in progress still, and hears what the library would say.
        let held = match failed {
            None => comm::hold_soon(&busy, PATIENCE).ok_or(ncclInvalidArgument),
            Some(rc) => Err(rc),
        };
        match held {
            Ok(held) => perform(library, &comms, ready, held, call),
            Err(rc) => {
                for comm in ready.iter().flat_map(|r| &r.of) {
                    comms.tell(library, comm, rc);
                }
                comms.answer(library, call, rc);
            }
        }
        cuda.visited();
        Ok(())
    }

    /// What a record's communicator is, unless it is aborted: then nothing is done for it.
    fn comm(&self, id: u32) -> Result<Option<Arc<Comm>>, Fail> {
        Ok(self.comms.get(id).filter(|c| !c.is_aborted()))
    }

    /// What a child of a communicator is called by all its ranks.
    fn child_key(&self, parent: u32, color: i32) -> u64 {
        let parent = self.comms.get(parent);
        parent.map_or(0, |p| lock(&p.steps).child(color))
    }

    /// The communicator that a child is made of; without one the child is told that it has failed.
    fn parent(
        &self,
        library: &'static Library,
        id: u32,
        child: Option<&Arc<Comm>>,
    ) -> Result<Arc<Comm>, Fail> {
        let parent = self.comm(id)?;
        parent.ok_or_else(|| {
            if let Some(child) = child {
                self.comms.tell(library, child, ncclInvalidArgument);
            }
            Fail::Code(ncclInvalidArgument)
        })
    }

    /// A call that is to be made; none for a communicator that has ended.
    fn prepare(&mut self, cuda: &mut Cuda, h: &Header, body: &[u8]) -> Result<Option<Ready>, Fail> {
        let library = self.library()?;
        let visit = cuda.visit(h.aux);
        let one = |run: Run, of, slow| {
            Ok(Some(Ready {
                visit,
                run,
                after: None,
                of,
                parent: None,
                ends: None,
                slow,
                part: None,
            }))
        };
        match h.op {
            op::COLLECTIVE => {
                let m: msg::Collective = read(body)?;
                let Some(comm) = self.comm(m.comm)? else {
                    return Ok(None);
                };
                visit.enter();
                cuda.visited();
                let buffers = cuda.address(m.send).and_then(|_| cuda.address(m.recv));
                let stream = buffers.and_then(|_| cuda.stream(m.stream));
                let of = vec![comm.clone()];
                let (again, part) = (comm.clone(), part(&m));
                let run = move |l: &'static Library| match stream {
                    Ok(stream) => collective(l, &comm, &m, stream),
                    Err(_) => ncclInvalidArgument,
                };
                let ready = one(Box::new(run), of, false)?;
                Ok(match (part, stream) {
                    (Some((name, side)), Ok(stream)) => {
                        ready.map(|r| r.with(again, name, Some(side), stream))
                    }
                    _ => ready,
                })
            }
            op::INIT_RANK => {
                let m: msg::InitRank<'_> = read(body)?;
                let ids: Vec<ncclUniqueId> = m
                    .ids
                    .as_chunks()
                    .0
                    .iter()
                    .map(|internal| ncclUniqueId {
                        internal: *internal,
                    })
                    .collect();
                let Some(&first) = ids.first() else {
                    return Err(WireError::BadValue("unique id").into());
                };
                let mut config = Config::new(m.config, m.names)?;
                let steps = Steps::new(steps::key(m.ids), (m.rank, m.ranks));
                let blocks = Config::blocks(&config);
                let comm = self.comms.make(library, (m.comm, blocks), steps);
                if comm.is_aborted() {
                    return Ok(None);
                }
                let (of, ranks, rank) = (vec![comm.clone()], m.ranks as i32, m.rank as i32);
                let (mut ids, again) = (ids, comm.clone());
                // SAFETY: a place that lives as long as the communicator, and what the library
                // reads before the group has ended, which keeps all of this.
                let run = move |l: &'static Library| unsafe {
                    let (to, config) = (comm.place(), Config::pointer(&mut config));
                    match ids.len() {
                        1 => l.ncclCommInitRankConfig(to, ranks, first, rank, config),
                        n => {
                            let ids = ids.as_mut_ptr();
                            l.ncclCommInitRankScalable(to, ranks, rank, n as i32, ids, config)
                        }
                    }
                };
                let ready = one(Box::new(run), of, true)?;
                Ok(ready.map(|r| r.with(again, "ncclCommInitRank", None, HOST)))
            }
            op::INIT_ALL => {
                let m: msg::InitAll = read(body)?;
                let devices: Result<Vec<_>, _> =
                    m.devices.iter().map(|d| cuda.device(*d as i32)).collect();
                let devices = devices.map_err(|_| Fail::Code(ncclInvalidArgument))?;
                let steps = || Steps::new(0, (0, 0));
                let make = |id: &u32| self.comms.make(library, (*id, true), steps());
                let made: Vec<_> = m.comms.iter().map(make).collect();
                if made.len() != devices.len() {
                    return Err(WireError::BadValue("count of a list").into());
                }
                let places: Arc<Vec<AtomicPtr<c_void>>> =
                    Arc::new(made.iter().map(|_| AtomicPtr::default()).collect());
                let (filled, of) = (places.clone(), made.clone());
                let run = move |l: &'static Library| {
                    let to = places.as_ptr().cast_mut().cast::<ncclComm_t>();
                    // SAFETY: as many places as devices, which live until the group has ended.
                    unsafe { l.ncclCommInitAll(to, devices.len() as i32, devices.as_ptr()) }
                };
                Ok(Some(Ready {
                    visit,
                    run: Box::new(run),
                    after: Some(Box::new(move || {
                        for (comm, place) in made.iter().zip(filled.iter()) {
                            comm.set(place.load(Ordering::Acquire));
                        }
                    })),
                    of,
                    parent: None,
                    ends: None,
                    slow: true,
                    part: None,
                }))
            }
            op::SPLIT => {
                let m: msg::Split<'_> = read(body)?;
                let mut config = Config::new(m.config, m.names)?;
                // A rank without a colour gets none.
                let key = self.child_key(m.parent, m.color as i32);
                let child = (m.comm != 0).then(|| {
                    let blocking = Config::blocks(&config);
                    let steps = Steps::new(key, (0, 0));
                    self.comms.make(library, (m.comm, blocking), steps)
                });
                let parent = self.parent(library, m.parent, child.as_ref())?;
                parent.begins();
                let again = parent.clone();
                let of = child.iter().cloned().collect();
                let (color, key) = (m.color as i32, m.key as i32);
                let none = Box::new(AtomicPtr::default());
                let run = move |l: &'static Library| {
                    let to = child.as_ref().map_or(none.as_ptr(), |c| c.place());
                    let config = Config::pointer(&mut config);
                    // SAFETY: a live communicator, and places as above.
                    unsafe { l.ncclCommSplit(parent.raw(), color, key, to, config) }
                };
                let ready = one(Box::new(run), of, true)?.map(|r| r.taking(again.clone()));
                Ok(ready.map(|r| r.with(again, "ncclCommSplit", Some(Side::All), HOST)))
            }
            op::SHRINK => {
                let m: msg::Shrink<'_> = read(body)?;
                let mut config = Config::new(m.config, m.names)?;
                let steps = Steps::new(self.child_key(m.parent, -1), (0, 0));
                let blocks = Config::blocks(&config);
                let child = self.comms.make(library, (m.comm, blocks), steps);
                let parent = self.parent(library, m.parent, Some(&child))?;
                parent.begins();
                let again = parent.clone();
                let of = vec![child.clone()];
                let mut without: Vec<_> = m.without.iter().map(|r| *r as i32).collect();
                let flags = m.flags as i32;
                let run = move |l: &'static Library| {
                    let (list, n) = (without.as_mut_ptr(), without.len() as i32);
                    let (to, config) = (child.place(), Config::pointer(&mut config));
                    // SAFETY: as above.
                    unsafe { l.ncclCommShrink(parent.raw(), list, n, to, config, flags) }
                };
                Ok(one(Box::new(run), of, true)?.map(|r| r.taking(again)))
            }
            op::FINALIZE => {
                let m: msg::Finalize = read(body)?;
                let Some(comm) = self.comm(m.comm)? else {
                    return Ok(None);
                };
                comm.begins();
                let (of, again) = (vec![comm.clone()], comm.clone());
                // SAFETY: a live communicator.
                let run = move |l: &'static Library| unsafe { l.ncclCommFinalize(comm.raw()) };
                let ready = one(Box::new(run), of, true)?;
                Ok(ready.map(|r| r.with(again, "ncclCommFinalize", Some(Side::All), HOST)))
            }
            op::DESTROY => {
                let m: msg::Destroy = read(body)?;
                // No record behind this one finds it.
                let Some(comm) = self.comms.forget(m.comm) else {
                    return Ok(None);
                };
                let ended = comm.clone();
                let run = move |l: &'static Library| comm.destroy(l);
                Ok(one(Box::new(run), Vec::new(), true)?.map(|r| r.ending(ended)))
            }
            op::PRE_MUL_SUM => {
                let m: msg::PreMulSum<'_> = read(body)?;
                let Some(comm) = self.comm(m.comm)? else {
                    return Ok(None);
                };
                let mut bytes = [0u64; 2];
                let len = m.scalar.len().min(8);
                let mut first = [0; 8];
                first[..len].copy_from_slice(&m.scalar[..len]);
                bytes[0] = u64::from_ne_bytes(first);
                let (id, datatype) = (m.op, m.datatype as i32);
                let on_device = m.residence as i32 == ncclScalarDevice;
                let allowed = !on_device || cuda.address(bytes[0]).is_ok();
                let (residence, of) = (m.residence as i32, vec![comm.clone()]);
                let run = move |l: &'static Library| {
                    let mut made = 0;
                    if !allowed {
                        return ncclInvalidArgument;
                    }
                    let scalar = match residence {
                        ncclScalarDevice => bytes[0] as *mut c_void,
                        _ => bytes.as_ptr().cast_mut().cast(),
                    };
                    // SAFETY: a live communicator, and a value of at most eight bytes.
                    let rc = unsafe {
                        let (to, comm) = (&raw mut made, comm.raw());
                        l.ncclRedOpCreatePreMulSum(to, scalar, datatype, residence, comm)
                    };
                    // Without one, what names it fails: it must not be another.
                    if rc == ncclSuccess {
                        lock(&comm.ops).insert(id, made);
                    }
                    rc
                };
                one(Box::new(run), of, false)
            }
            op::DESTROY_OP => {
                let m: msg::DestroyOp = read(body)?;
                let Some(comm) = self.comm(m.comm)? else {
                    return Ok(None);
                };
                let (of, id) = (vec![comm.clone()], m.op);
                let run = move |l: &'static Library| match lock(&comm.ops).remove(&id) {
                    // SAFETY: a live communicator.
                    Some(made) => unsafe { l.ncclRedOpDestroy(made, comm.raw()) },
                    None => ncclInvalidArgument,
                };
                one(Box::new(run), of, false)
            }
            op::REGISTER => {
                let m: msg::Register = read(body)?;
                let Some(comm) = self.comm(m.comm)? else {
                    return Ok(None);
                };
                let of = vec![comm.clone()];
                let allowed = cuda.address(m.at).is_ok();
                let run = move |l: &'static Library| {
                    let mut made = std::ptr::null_mut();
                    if !allowed {
                        return ncclInvalidArgument;
                    }
                    let (at, size) = (m.at as *mut c_void, m.size as usize);
                    // SAFETY: a live communicator; the library checks the memory.
                    let rc = unsafe { l.ncclCommRegister(comm.raw(), at, size, &mut made) };
                    if rc == ncclSuccess {
                        lock(&comm.registered).insert(m.handle, made as usize);
                    }
                    rc
                };
                one(Box::new(run), of, false)
            }
            op::DEREGISTER => {
                let m: msg::Deregister = read(body)?;
                let Some(comm) = self.comm(m.comm)? else {
                    return Ok(None);
                };
                let of = vec![comm.clone()];
                let run = move |l: &'static Library| {
                    match lock(&comm.registered).remove(&m.handle) {
                        // SAFETY: a live communicator, and what it gave.
                        Some(made) => unsafe {
                            l.ncclCommDeregister(comm.raw(), made as *mut c_void)
                        },
                        None => ncclInvalidArgument,
                    }
                };
                one(Box::new(run), of, false)
            }
            other => Err(WireError::UnknownOp(other).into()),
        }
    }
}

/// A collective, or one side of a message between two ranks.
fn collective(l: &Library, comm: &Comm, m: &msg::Collective, stream: u64) -> ncclResult_t {
    let (send, recv) = (m.send as *const c_void, m.recv as *mut c_void);
    let (n, datatype) = (m.count as usize, m.datatype as i32);
    let (peer, c, s) = (m.peer as i32, comm.raw(), stream as cudaStream_t);
    let op = match m.op < ncclNumOps as u32 {
        true => m.op as i32,
        false => match lock(&comm.ops).get(&m.op) {
            Some(made) => *made,
            None => return ncclInvalidArgument,
        },
    };
    // SAFETY: a live communicator, or none, which the library refuses, and a live stream; addresses
    // are ones that may go to the driver.
    unsafe {
        match m.kind {
            ALL_REDUCE => l.ncclAllReduce(send, recv, n, datatype, op, c, s),
            BROADCAST => l.ncclBroadcast(send, recv, n, datatype, peer, c, s),
            REDUCE => l.ncclReduce(send, recv, n, datatype, op, peer, c, s),
            ALL_GATHER => l.ncclAllGather(send, recv, n, datatype, c, s),
            REDUCE_SCATTER => l.ncclReduceScatter(send, recv, n, datatype, op, c, s),
            ALL_TO_ALL => l.ncclAlltoAll(send, recv, n, datatype, c, s),
            GATHER => l.ncclGather(send, recv, n, datatype, peer, c, s),
            SCATTER => l.ncclScatter(send, recv, n, datatype, peer, c, s),
            SEND => l.ncclSend(send, n, datatype, peer, c, s),
            RECV => l.ncclRecv(recv, n, datatype, peer, c, s),
            _ => ncclInvalidArgument,
        }
    }
}

/// Makes the calls, lets go of the communicators, tells of them, and answers.
fn perform(
    library: &'static Library,
    comms: &Comms,
    mut ready: Vec<Ready>,
    held: Held<'_>,
    call: u32,
) {
    let parts = match comms.speaks() {
        true => {
            let of = |r: &mut Ready| Some((r.part.take()?, r.visit));
            Parts::of(ready.iter_mut().filter_map(of))
        }
        false => Vec::new(),
    };
    let group = ready.len() > 1;
    parts.iter().for_each(Parts::begin);
    let (mut of, mut after, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    let mut parents = Vec::new();
    let mut rc = ncclSuccess;
    if group {
        // SAFETY: a call without arguments; the same thread ends the group.
        unsafe { library.ncclGroupStart() };
    }
    for mut one in ready {
        one.visit.enter();
        let done = (one.run)(library);
        kept.push(one.run);
        if rc == ncclSuccess || rc == ncclInProgress {
            rc = done;
        }
        of.extend(one.of);
        parents.extend(one.parent);
        after.extend(one.after);
    }
    if group {
        // SAFETY: as above.
        let ended = unsafe { library.ncclGroupEnd() };
        if rc == ncclSuccess || rc == ncclInProgress {
            rc = ended;
        }
    }
    let (waited, queued): (Vec<_>, Vec<_>) = parts.into_iter().partition(Parts::are_waited_for);
    queued.iter().for_each(Parts::end);
    after.into_iter().for_each(|f| f());
    let of = of.into_iter().map(|comm| (comm, rc));
    let parents = parents.into_iter().map(|comm| (comm, ncclInProgress));
    let settle = |(comm, rc): (Arc<Comm>, _)| (comm.settle(library, rc), comm);
    let settled: Vec<_> = of.chain(parents).map(settle).collect();
    waited.iter().for_each(Parts::end);
    // Whoever hears that a call is done may make the next one.
    drop(held);
    for (own, comm) in settled {
        comms.tell(library, &comm, own);
    }
    if rc == ncclInProgress {
        rc = ncclSuccess;
    }
    drop(kept);
    comms.answer(library, call, rc);
}
