//! A simulated `libnccl.so.2` for the devices of `libfakedev.so`: what a worker loads in tests
//! (`--nccl-library PATH`), and what the same program uses natively. Ranks meet over TCP, as those
//! of the real one do, and what they compute is right, in the order of the ranks: a native and a
//! remote run can be compared.
//!
//! A rank that dies is seen by the others at their next step. `FAKENCCL_FAULTS` is a list of
//! failures on command: `ncclAllReduce@3=1` fails the third such call with error 1. Each rank tries
//! to reach the address that `FAKENCCL_STRANGER` says, and prints how.

// Functions of the API keep their C names.
#![allow(
    missing_docs,
    non_snake_case,
    non_upper_case_globals,
    clippy::missing_safety_doc
)]

mod comm;
mod connect;
mod cuda;
mod hub;
mod math;
mod said;
mod stranger;

use busbar_abi::nccl::*;
use comm::{Comm, Scalar, here, lock};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// How often each function was called.
static CALLS: Mutex<Option<HashMap<&'static str, u32>>> = Mutex::new(None);

/// Whether this call is to fail, by what the environment says.
fn fault(name: &'static str) -> Result {
    let Ok(rules) = std::env::var("FAKENCCL_FAULTS") else {
        return Ok(());
    };
    let mut calls = lock(&CALLS);
    let n = calls.get_or_insert_default().entry(name).or_default();
    *n += 1;
    for rule in rules.split(',') {
        if let Some((which, code)) = rule.split_once('=')
            && which == format!("{name}@{n}")
        {
            said::say("a failure on command");
            return Err(code.parse().unwrap_or(ncclInternalError));
        }
    }
    Ok(())
}

/// What is made at the end of a group.
struct Making(&'static Comm, *mut ncclComm_t);

#[derive(Default)]
struct Group {
    depth: u32,
    error: ncclResult_t,
    making: Vec<Making>,
    blocking: bool,
    /// Its messages, for each communicator.
    messages: Vec<(&'static Comm, Vec<connect::Side>)>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

fn code(r: Result) -> ncclResult_t {
    r.err().unwrap_or(ncclSuccess)
}

/// The communicator behind a handle.
fn comm(c: ncclComm_t) -> Result<&'static Comm> {
    // SAFETY: a handle that this library gave, which is never freed.
    unsafe { c.cast::<Comm>().as_ref() }.ok_or(ncclInvalidArgument)
}

/// Has communicators meet their others: each on a thread of its own.
fn meet(making: Vec<Making>, blocking: bool) -> Result {
    let mut threads = Vec::new();
    for Making(comm, to) in making {
        comm.tell();
        // SAFETY: the program's place.
        unsafe { to.write(std::ptr::from_ref(comm).cast_mut().cast()) };
        threads.push((std::thread::spawn(move || comm.join()), to as usize));
    }
    if !blocking {
        return Err(ncclInProgress);
    }
    let mut all = Ok(());
    for (thread, to) in threads {
        if let Err(rc) = thread.join().unwrap_or(Err(ncclInternalError)) {
            // SAFETY: as above.
            unsafe { (to as *mut ncclComm_t).write(std::ptr::null_mut()) };
            all = Err(rc);
        }
    }
    all
}

fn make(comm: Comm, to: *mut ncclComm_t) -> Result {
    let comm: &'static Comm = Box::leak(Box::new(comm));
    let now = GROUP.with_borrow_mut(|g| {
        g.blocking |= comm.blocking;
        g.making.push(Making(comm, to));
        (g.depth == 0).then(|| std::mem::take(g))
    });
    now.map_or(Ok(()), |g| meet(g.making, g.blocking))
}

/// What is refused of a configuration, as far as that is simulated.
fn check(config: *const ncclConfig_t) -> Result {
    // SAFETY: null, or a configuration of the program's.
    let Some(c) = (unsafe { config.as_ref() }) else {
        return Ok(());
    };
    let flag = |n: i32| matches!(n, 0 | 1 | NCCL_CONFIG_UNDEF_INT);
    let some = |n: i32| n > 0 || n == NCCL_CONFIG_UNDEF_INT;
    let good = c.magic == NCCL_CONFIG_MAGIC
        && [c.blocking, c.splitShare, c.collnetEnable]
            .into_iter()
            .all(flag)
        && [c.shrinkShare, c.nvlinkCentricSched].into_iter().all(flag)
        && [c.minCTAs, c.maxCTAs, c.nvlsCTAs].into_iter().all(some);
    refuse_if(!good, ncclInvalidArgument)
}

fn blocks(config: *const ncclConfig_t) -> bool {
    // SAFETY: null, or a configuration of the program's.
    unsafe { config.as_ref() }.is_none_or(|c| c.blocking != 0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version: *mut i32) -> ncclResult_t {
    // SAFETY: the program's place.
    unsafe { version.write(NCCL_VERSION_CODE) };
    ncclSuccess
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetErrorString(rc: ncclResult_t) -> *const c_char {
    error_description(rc).map_or(c"unknown result code".as_ptr(), CStr::as_ptr)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetLastError(_comm: ncclComm_t) -> *const c_char {
    said::last()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetUniqueId(to: *mut ncclUniqueId) -> ncclResult_t {
    let Ok(name) = hub::start() else {
        return ncclSystemError;
    };
    let mut internal = [0; 128];
    internal[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the program's place.
    unsafe { to.write(ncclUniqueId { internal }) };
    ncclSuccess
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRankConfig(
    to: *mut ncclComm_t,
    ranks: i32,
    id: ncclUniqueId,
    rank: i32,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    code(fault("ncclCommInitRank").and_then(|()| {
        check(config)?;
        let bad = to.is_null() || ranks < 1 || !(0..ranks).contains(&rank);
        refuse_if(bad, ncclInvalidArgument)?;
        let comm = Comm::new(&id.internal, (rank, ranks), here()?, blocks(config));
        make(comm, to)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRank(
    to: *mut ncclComm_t,
    ranks: i32,
    id: ncclUniqueId,
    rank: i32,
) -> ncclResult_t {
    // SAFETY: as the caller says.
    unsafe { ncclCommInitRankConfig(to, ranks, id, rank, std::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRankScalable(
    to: *mut ncclComm_t,
    ranks: i32,
    rank: i32,
    n: i32,
    ids: *mut ncclUniqueId,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    if n <= 0 || n > ranks {
        return ncclInvalidArgument;
    }
    // SAFETY: as the caller says: there is one at least.
    unsafe { ncclCommInitRankConfig(to, ranks, ids.read(), rank, config) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitAll(
    to: *mut ncclComm_t,
    n: i32,
    devices: *const i32,
) -> ncclResult_t {
    let mut id: ncclUniqueId = busbar_abi::zeroed();
    if n <= 0 {
        return match n {
            0 => ncclSuccess,
            _ => ncclInvalidArgument,
        };
    }
    // SAFETY: the program's places and list, as long as it says.
    unsafe {
        let rc = ncclGetUniqueId(&mut id);
        let device = |i: i32| match devices.is_null() {
            true => i,
            false => devices.add(i as usize).read(),
        };
        ncclGroupStart();
        for i in 0..n {
            let comm = Comm::new(&id.internal, (i, n), device(i), true);
            let _ = make(comm, to.add(i as usize));
        }
        match rc {
            ncclSuccess => ncclGroupEnd(),
            rc => rc,
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommSplit(
    parent: ncclComm_t,
    color: i32,
    key: i32,
    to: *mut ncclComm_t,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    code(fault("ncclCommSplit").and_then(|()| {
        let parent = comm(parent)?;
        parent.ready()?;
        check(config)?;
        let blocking = match config.is_null() {
            true => parent.blocking,
            false => blocks(config),
        };
        match parent.split(color, key, blocking)? {
            Some(child) => make(child, to),
            None => {
                // SAFETY: the program's place.
                unsafe { to.write(std::ptr::null_mut()) };
                Ok(())
            }
        }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommShrink(
    parent: ncclComm_t,
    without: *mut i32,
    n: i32,
    to: *mut ncclComm_t,
    config: *mut ncclConfig_t,
    _flags: i32,
) -> ncclResult_t {
    code(comm(parent).and_then(|parent| {
        refuse_if(
            to.is_null() || without.is_null() || n <= 0,
            ncclInvalidArgument,
        )?;
        // SAFETY: the program's list, as long as it says.
        let without = unsafe { std::slice::from_raw_parts(without, n as usize) };
        refuse_if(without.contains(&(parent.rank as i32)), ncclInvalidArgument)?;
        parent.ready()?;
        check(config)?;
        let blocking = match config.is_null() {
            true => parent.blocking,
            false => blocks(config),
        };
        make(parent.shrink(without, blocking), to)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommFinalize(c: ncclComm_t) -> ncclResult_t {
    if c.is_null() {
        return ncclSuccess;
    }
    code(comm(c).and_then(|c| {
        c.ready()?;
        let again = c.finalized.swap(true, Ordering::AcqRel);
        refuse_if(again, ncclInvalidArgument)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommRevoke(c: ncclComm_t, flags: i32) -> ncclResult_t {
    if c.is_null() {
        return ncclSuccess;
    }
    code(comm(c).and_then(|c| {
        refuse_if(flags != 0, ncclInvalidArgument)?;
        let again = c.finalized.swap(true, Ordering::AcqRel);
        refuse_if(again, ncclInvalidArgument)?;
        c.revoked.store(true, Ordering::Release);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommDestroy(c: ncclComm_t) -> ncclResult_t {
    if c.is_null() {
        return ncclSuccess;
    }
    code(comm(c).map(Comm::leave))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommAbort(c: ncclComm_t) -> ncclResult_t {
    if c.is_null() {
        return ncclSuccess;
    }
    code(comm(c).map(Comm::abort))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommGetAsyncError(
    c: ncclComm_t,
    to: *mut ncclResult_t,
) -> ncclResult_t {
    // SAFETY: the program's place.
    code(comm(c).map(|c| unsafe { to.write(c.code.load(Ordering::Acquire)) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommCount(c: ncclComm_t, to: *mut i32) -> ncclResult_t {
    code(comm(c).and_then(|c| {
        refuse_if(to.is_null(), ncclInvalidArgument)?;
        c.ready()?;
        // SAFETY: the program's place.
        unsafe { to.write(c.ranks as i32) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommCuDevice(c: ncclComm_t, to: *mut i32) -> ncclResult_t {
    code(comm(c).and_then(|c| {
        refuse_if(to.is_null(), ncclInvalidArgument)?;
        c.ready()?;
        // SAFETY: the program's place.
        unsafe { to.write(c.device) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommUserRank(c: ncclComm_t, to: *mut i32) -> ncclResult_t {
    code(comm(c).and_then(|c| {
        refuse_if(to.is_null(), ncclInvalidArgument)?;
        c.ready()?;
        // SAFETY: the program's place.
        unsafe { to.write(c.rank as i32) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommRegister(
    c: ncclComm_t,
    at: *mut c_void,
    _size: usize,
    to: *mut *mut c_void,
) -> ncclResult_t {
    code(comm(c).and_then(|c| {
        refuse_if(at.is_null() || to.is_null(), ncclInvalidArgument)?;
        lock(&c.registered).push(at as usize);
        // SAFETY: the program's place.
        unsafe { to.write(at) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommDeregister(c: ncclComm_t, handle: *mut c_void) -> ncclResult_t {
    code(comm(c).and_then(|c| {
        if handle.is_null() {
            return Ok(());
        }
        let mut all = lock(&c.registered);
        let at = all.iter().position(|r| *r == handle as usize);
        all.remove(at.ok_or(ncclInvalidUsage)?);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclMemAlloc(to: *mut *mut c_void, size: usize) -> ncclResult_t {
    let at = cuda::allocate(size).ok_or(ncclUnhandledCudaError);
    // SAFETY: the program's place.
    code(at.map(|at| unsafe { to.write(at as *mut c_void) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclMemFree(at: *mut c_void) -> ncclResult_t {
    code(cuda::free(at as u64).ok_or(ncclUnhandledCudaError))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclRedOpCreatePreMulSum(
    op: *mut ncclRedOp_t,
    scalar: *mut c_void,
    datatype: ncclDataType_t,
    residence: ncclScalarResidence_t,
    c: ncclComm_t,
) -> ncclResult_t {
    let failed = fault("ncclRedOpCreatePreMulSum");
    code(failed.and_then(|()| comm(c)).and_then(|c| {
        let size = math::size(datatype).ok_or(ncclInvalidArgument)?;
        let scalar = match residence {
            ncclScalarDevice => Scalar::At(scalar as usize),
            // SAFETY: the program's value of that type.
            _ => Scalar::Value(unsafe { bytes(scalar as u64, size) }.to_vec()),
        };
        let mut ops = lock(&c.ops);
        ops.push(Some(scalar));
        // SAFETY: the program's place.
        unsafe { op.write(ncclNumOps + ops.len() as i32 - 1) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclRedOpDestroy(op: ncclRedOp_t, c: ncclComm_t) -> ncclResult_t {
    code(
        refuse_if(op < ncclNumOps, ncclInvalidArgument).and_then(|()| {
            let mut ops = lock(&comm(c)?.ops);
            let own = ops.get_mut((op - ncclNumOps) as usize);
            let ended = own.and_then(Option::take);
            refuse_if(ended.is_none(), ncclInvalidArgument)
        }),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGroupStart() -> ncclResult_t {
    GROUP.with_borrow_mut(|g| g.depth += 1);
    ncclSuccess
}

/// A call in a group has failed.
fn spoil(rc: ncclResult_t) -> ncclResult_t {
    GROUP.with_borrow_mut(|g| {
        if g.depth > 0 && g.error == ncclSuccess && rc != ncclInProgress {
            g.error = rc;
        }
    });
    rc
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGroupEnd() -> ncclResult_t {
    let ended = GROUP.with_borrow_mut(|g| {
        let depth = g.depth.checked_sub(1)?;
        g.depth = depth;
        Some((depth == 0).then(|| std::mem::take(g)))
    });
    let Some(ended) = ended else {
        return ncclInvalidUsage;
    };
    if let Some(g) = &ended
        && g.error != ncclSuccess
    {
        return g.error;
    }
    let Some(g) = ended else {
        return ncclSuccess;
    };
    let connected = connect_all(g.messages);
    code(connected.and_then(|()| match g.making.is_empty() {
        true => Ok(()),
        false => meet(g.making, g.blocking),
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGroupSimulateEnd(_info: *mut c_void) -> ncclResult_t {
    // SAFETY: a call without arguments. (What is queued in a group is done at once here.)
    unsafe { ncclGroupEnd() }
}

/// Connects ranks: all communicators of a group at once.
fn connect_all(messages: Vec<(&'static Comm, Vec<connect::Side>)>) -> Result {
    std::thread::scope(|s| {
        let each = messages.into_iter();
        let begun: Vec<_> = each
            .map(|(c, sides)| s.spawn(|| connect::connect(&c.aborted, sides)))
            .collect();
        let mut each = begun.into_iter();
        each.try_for_each(|t| t.join().unwrap_or(Err(ncclInternalError)))
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    AllReduce,
    Broadcast,
    Reduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Gather,
    Scatter,
    Send,
    Recv,
}

/// What a stream runs. It is never freed: a graph may run it again.
struct Step {
    kind: Kind,
    comm: &'static Comm,
    send: u64,
    recv: u64,
    count: usize,
    datatype: ncclDataType_t,
    op: ncclRedOp_t,
    scalar: Option<Scalar>,
    peer: usize,
}

/// Memory of a simulated device, or the program's.
unsafe fn bytes<'a>(at: u64, n: usize) -> &'a mut [u8] {
    match n {
        0 => &mut [],
        // SAFETY: the caller vouches for it.
        _ => unsafe { std::slice::from_raw_parts_mut(at as *mut u8, n) },
    }
}

impl Step {
    /// The sides that it has of messages between ranks. A collective of nothing has none.
    fn sides(&self) -> Vec<connect::Side> {
        if self.count == 0 && !matches!(self.kind, Kind::Send | Kind::Recv) {
            return Vec::new();
        }
        let (all, peer): (Vec<u64>, _) = ((0..self.comm.ranks).collect(), [self.peer as u64]);
        let root = self.comm.rank == peer[0];
        let (to, from): (&[u64], &[u64]) = match self.kind {
            Kind::AllToAll => (&all, &all),
            Kind::Gather if root => (&[], &all),
            Kind::Gather | Kind::Send => (&peer, &[]),
            Kind::Scatter if root => (&all, &[]),
            Kind::Scatter | Kind::Recv => (&[], &peer),
            _ => (&[], &[]),
        };
        connect::sides((&self.comm.name, self.comm.rank), to, from)
    }

    fn run(&self) -> Result {
        let size = math::size(self.datatype).ok_or(ncclInvalidArgument)?;
        let (n, c) = (self.count * size, self.comm);
        let (me, ranks) = (c.rank as usize, c.ranks as usize);
        let root = me == self.peer;
        let brings = match self.kind {
            Kind::ReduceScatter | Kind::AllToAll => n * ranks,
            Kind::Broadcast if !root => 0,
            Kind::Scatter => {
                if root {
                    n * ranks
                } else {
                    0
                }
            }
            Kind::Recv => 0,
            _ => n,
        };
        // SAFETY: as much of the device's memory as the API has it.
        let mut mine = unsafe { bytes(self.send, brings) }.to_vec();
        if let Some(scalar) = &self.scalar {
            let by = match scalar {
                Scalar::Value(v) => v.clone(),
                // SAFETY: as above.
                Scalar::At(at) => unsafe { bytes(*at as u64, size) }.to_vec(),
            };
            math::scale(self.datatype, &mut mine, &by);
        }
        match self.kind {
            Kind::Send => return c.exchange(self.peer, Some(&mine)).map(drop),
            Kind::Recv => {
                let got = c.exchange(self.peer, None)?;
                refuse_if(got.len() != n, ncclInvalidArgument)?;
                // SAFETY: as above.
                unsafe { bytes(self.recv, n) }.copy_from_slice(&got);
                return Ok(());
            }
            _ => {}
        }
        let all = c.all(&mine)?;
        let parts: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        let piece = |i: usize| i * n..(i + 1) * n;
        let result = match self.kind {
            Kind::AllReduce => math::reduce(self.datatype, self.op, &parts),
            Kind::Reduce if root => math::reduce(self.datatype, self.op, &parts),
            Kind::Broadcast => parts[self.peer].to_vec(),
            Kind::AllGather => parts.concat(),
            Kind::Gather if root => parts.concat(),
            Kind::ReduceScatter => {
                let mine: Vec<_> = parts.iter().map(|p| &p[piece(me)]).collect();
                math::reduce(self.datatype, self.op, &mine)
            }
            Kind::AllToAll => {
                let mine: Vec<_> = parts.iter().map(|p| &p[piece(me)]).collect();
                mine.concat()
            }
            Kind::Scatter => parts[self.peer][piece(me)].to_vec(),
            _ => Vec::new(),
        };
        // SAFETY: as above.
        unsafe { bytes(self.recv, result.len()) }.copy_from_slice(&result);
        Ok(())
    }
}

unsafe extern "C" fn run(step: *mut c_void) {
    // SAFETY: what `queue` has leaked.
    let step = unsafe { &*step.cast::<Step>() };
    if let Err(rc) = step.run() {
        step.comm.code.store(rc, Ordering::Release);
    }
}

fn queue(
    name: &'static str,
    kind: Kind,
    (send, recv): (*const c_void, *mut c_void),
    count: usize,
    (datatype, op, peer): (ncclDataType_t, ncclRedOp_t, i32),
    (c, stream): (ncclComm_t, cudaStream_t),
) -> ncclResult_t {
    let done = fault(name).and_then(|()| {
        let comm = comm(c)?;
        refuse_if(comm.revoked.load(Ordering::Acquire), ncclInvalidUsage)?;
        comm.ready()?;
        let peers = 0..comm.ranks as i32;
        let bad = math::size(datatype).is_none() || !peers.contains(&peer) || op < 0;
        refuse_if(bad, ncclInvalidArgument)?;
        let scalar = match op - ncclNumOps {
            i if i >= 0 => {
                let own = lock(&comm.ops).get(i as usize).cloned().flatten();
                Some(own.ok_or(ncclInvalidArgument)?)
            }
            _ => None,
        };
        let step = Box::leak(Box::new(Step {
            kind,
            comm,
            send: send as u64,
            recv: recv as u64,
            count,
            datatype,
            op: if scalar.is_some() { 0 } else { op },
            scalar,
            peer: peer as usize,
        }));
        let sides = step.sides();
        let data = std::ptr::from_mut(step).cast();
        cuda::launch(stream, run, data).ok_or(ncclUnhandledCudaError)?;
        let grouped = GROUP.with_borrow_mut(|g| {
            if g.depth > 0 {
                g.messages.push((comm, sides.clone()));
            }
            g.depth > 0
        });
        match grouped {
            true => Ok(()),
            false => connect::connect(&comm.aborted, sides),
        }
    });
    spoil(code(done))
}

macro_rules! collectives {
    ($($name:ident $kind:ident ($send:ident, $recv:ident $(, $op:ident)?)
        $([$root:ident])?;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $send: *const c_void,
            $recv: *mut c_void,
            count: usize,
            datatype: ncclDataType_t,
            $($op: ncclRedOp_t,)?
            $($root: i32,)?
            comm: ncclComm_t,
            stream: cudaStream_t,
        ) -> ncclResult_t {
            let (what, on) = ((datatype, 0 $(+ $op)?, 0 $(+ $root)?), (comm, stream));
            queue(stringify!($name), Kind::$kind, ($send, $recv), count, what, on)
        }
    )*};
}

collectives! {
    ncclAllReduce AllReduce (send, recv, op);
    ncclBroadcast Broadcast (send, recv) [root];
    ncclReduce Reduce (send, recv, op) [root];
    ncclAllGather AllGather (send, recv);
    ncclReduceScatter ReduceScatter (send, recv, op);
    ncclAlltoAll AllToAll (send, recv);
    ncclGather Gather (send, recv) [root];
    ncclScatter Scatter (send, recv) [root];
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pncclBroadcast(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    root: i32,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    // SAFETY: as the caller says.
    unsafe { ncclBroadcast(send, recv, count, datatype, root, comm, stream) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclBcast(
    buff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    root: i32,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    // SAFETY: as the caller says.
    unsafe { ncclBroadcast(buff, buff, count, datatype, root, comm, stream) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclSend(
    buff: *const c_void,
    count: usize,
    datatype: ncclDataType_t,
    peer: i32,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    let buffers = (buff, std::ptr::null_mut());
    queue(
        "ncclSend",
        Kind::Send,
        buffers,
        count,
        (datatype, 0, peer),
        (comm, stream),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclRecv(
    buff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    peer: i32,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    let buffers = (std::ptr::null(), buff);
    queue(
        "ncclRecv",
        Kind::Recv,
        buffers,
        count,
        (datatype, 0, peer),
        (comm, stream),
    )
}
