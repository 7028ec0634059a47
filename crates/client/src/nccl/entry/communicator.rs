//! Communicators: how they come to be and end, and what the program asks of them.

use super::collective::{grouped, known, ready};
use crate::config::var;
use crate::nccl::comms::{Comm, clique};
use crate::nccl::group::{self, New, Pace, submit};
use crate::nccl::life::{Cx, comms, enter, enter_for, fail, fields, guard, lost, reply, told};
use busbar_abi::nccl::*;
use busbar_wire::codec::Request as _;
use busbar_wire::generated::collectives as msg;
use busbar_wire::record::OP_AT_ONCE;
use std::ffi::{CStr, c_char, c_void};
use std::mem::{offset_of, size_of};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The longest configuration, of whatever version.
const LONGEST: usize = 4096;

/// A configuration as it travels.
#[derive(Default)]
struct Config {
    /// The program's bytes, without addresses.
    bytes: Vec<u8>,
    /// The texts at those, each with its NUL.
    names: Vec<u8>,
    /// What it says of waiting.
    blocking: Option<bool>,
}

impl Config {
    /// Reads the program's.
    ///
    /// # Safety
    /// `p` is null, or a configuration is there.
    unsafe fn read(p: *const ncclConfig_t) -> Result<Self> {
        if p.is_null() {
            return Ok(Self::default());
        }
        // SAFETY: every version begins with its size and a number that tells what it is.
        let (size, magic) = unsafe { ((*p).size, (&raw const (*p).magic).read()) };
        let least = offset_of!(ncclConfig_t, cgaClusterSize);
        if magic != NCCL_CONFIG_MAGIC || !(least..=LONGEST).contains(&size) {
            let why = "the ncclConfig_t was not set to NCCL_CONFIG_INITIALIZER";
            return Err(fail(ncclInvalidArgument, why));
        }
        // SAFETY: as long as it says.
        let bytes = unsafe { std::slice::from_raw_parts(p.cast::<u8>(), size) };
        let mut c = Self {
            bytes: bytes.into(),
            ..Self::default()
        };
        for at in [
            offset_of!(ncclConfig_t, netName),
            offset_of!(ncclConfig_t, commName),
        ] {
            let Some(place) = c.bytes.get_mut(at..at + size_of::<u64>()) else {
                continue;
            };
            let text = u64::from_ne_bytes(place.try_into().unwrap_or_default());
            place.fill(0);
            if text != 0 {
                // SAFETY: a C string of the program's, as the API asks.
                let text = unsafe { CStr::from_ptr(text as *const c_char) };
                c.names.extend_from_slice(text.to_bytes());
            }
            c.names.push(0);
        }
        let at = offset_of!(ncclConfig_t, blocking);
        c.blocking = c.number(at).map(|n| n != 0);
        c.check()?;
        Ok(c)
    }

    /// The number at a place; none where the program leaves it to the library.
    fn number(&self, at: usize) -> Option<i32> {
        let bytes = self.bytes.get(at..at + 4)?.try_into().ok()?;
        Some(i32::from_ne_bytes(bytes)).filter(|n| *n != NCCL_CONFIG_UNDEF_INT)
    }

    /// Refuses what the library would, before anybody waits for it.
    fn check(&self) -> Result {
        macro_rules! good {
            ($($field:ident $range:expr;)*) => {
                [$((stringify!($field), offset_of!(ncclConfig_t, $field), $range)),*]
            };
        }
        let flag = 0..=1;
        let good = good! {
            blocking flag.clone();
            cgaClusterSize 0..=i32::MAX;
            minCTAs 1..=i32::MAX;
            maxCTAs 1..=i32::MAX;
            splitShare flag.clone();
            collnetEnable flag.clone();
            shrinkShare flag.clone();
            nvlsCTAs 1..=i32::MAX;
            nvlinkCentricSched flag;
        };
        for (name, at, range) in good {
            if let Some(n) = self.number(at).filter(|n| !range.contains(n)) {
                let why = format!("ncclConfig_t: {name} cannot be {n}");
                return Err(fail(ncclInvalidArgument, &why));
            }
        }
        Ok(())
    }
}

/// A communicator's place of the program's.
fn new(comm: Option<Arc<Comm>>, to: *mut ncclComm_t) -> Vec<New> {
    vec![New { comm, to }]
}

/// Has the worker of a server make an id, and listen for ranks.
fn unique_id(cx: Cx) -> Result<[u8; 128]> {
    let answer = cx.ask(msg::op::MAKE_UNIQUE_ID, &fields(&msg::MakeUniqueId {}))?;
    let r: msg::MakeUniqueIdReply<'_> = reply(&answer)?;
    told(answer.0, r.said)?;
    r.id.try_into().map_err(|_| ncclInternalError)
}

pub unsafe fn ncclGetUniqueId(to: *mut ncclUniqueId) -> ncclResult_t {
    guard(|| {
        refuse_if(to.is_null(), ncclInvalidArgument)?;
        let internal = unique_id(enter()?)?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { to.write(ncclUniqueId { internal }) };
        Ok(())
    })
}

/// Refuses ranks of this program that could not find each other. Servers know those of several
/// servers by the lease of their GPUs; without one they would look for each other for minutes.
fn can_meet() -> Result {
    let said = |name| var(name).filter(|v: &String| !v.is_empty());
    let several = said("BUSBAR_SERVER").is_some_and(|s| s.contains(','));
    if !several || said("BUSBAR_LEASE").is_some() {
        return Ok(());
    }
    let why = "ranks at several servers reach each other only with GPUs that are reserved: tell \
               `busbar run` how many with -n";
    Err(lost(ncclInvalidUsage, why))
}

/// Makes a communicator of ranks that have the same ids.
///
/// # Safety
/// The program's pointers, as the API has them.
unsafe fn init(
    to: *mut ncclComm_t,
    (ranks, rank): (i32, i32),
    ids: &[u8],
    config: *const ncclConfig_t,
) -> Result {
    refuse_if(to.is_null(), ncclInvalidArgument)?;
    if ranks < 1 || !(0..ranks).contains(&rank) {
        let why = format!("rank {rank} of {ranks}: there is none");
        return Err(fail(ncclInvalidArgument, &why));
    }
    if ranks > 1 {
        can_meet()?;
    }
    // SAFETY: passed on to the caller.
    let config = unsafe { Config::read(config) }?;
    let cx = enter()?;
    let blocking = config.blocking.unwrap_or(true);
    let comm = comms().make((cx.at, cx.device), blocking, clique(ids));
    comm.found(ranks as u32, rank as u32);
    let m = msg::InitRank {
        comm: comm.id,
        ranks: ranks as u32,
        rank: rank as u32,
        ids,
        config: &config.bytes,
        names: &config.names,
    };
    let pace = Pace::Slow(comm.blocking);
    // SAFETY: passed on to the caller.
    unsafe { submit(cx, &m, pace, new(Some(comm), to)) }
}

pub unsafe fn ncclCommInitRank(
    comm: *mut ncclComm_t,
    ranks: i32,
    id: ncclUniqueId,
    rank: i32,
) -> ncclResult_t {
    // SAFETY: the program's arguments.
    grouped(|| unsafe { init(comm, (ranks, rank), &id.internal, std::ptr::null()) })
}

pub unsafe fn ncclCommInitRankConfig(
    comm: *mut ncclComm_t,
    ranks: i32,
    id: ncclUniqueId,
    rank: i32,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    // SAFETY: the program's arguments.
    grouped(|| unsafe { init(comm, (ranks, rank), &id.internal, config) })
}

pub unsafe fn ncclCommInitRankScalable(
    comm: *mut ncclComm_t,
    ranks: i32,
    rank: i32,
    n: i32,
    ids: *mut ncclUniqueId,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    grouped(|| {
        let n = usize::try_from(n).unwrap_or(0);
        let most = usize::try_from(ranks).unwrap_or(0);
        refuse_if(ids.is_null() || n == 0 || n > most, ncclInvalidArgument)?;
        // SAFETY: the program's arguments.
        unsafe {
            let ids = std::slice::from_raw_parts(ids.cast(), n * size_of::<ncclUniqueId>());
            init(comm, (ranks, rank), ids, config)
        }
    })
}

pub unsafe fn ncclCommInitAll(to: *mut ncclComm_t, n: i32, devices: *const i32) -> ncclResult_t {
    grouped(|| {
        let n = usize::try_from(n).map_err(|_| ncclInvalidArgument)?;
        refuse_if(to.is_null() || n > 1024, ncclInvalidArgument)?;
        if n == 0 {
            return Ok(());
        }
        let device = |i: usize| match devices.is_null() {
            true => i as i32,
            // SAFETY: the program's list, as long as it says.
            false => unsafe { devices.add(i).read() },
        };
        let cx = enter()?;
        let places: Result<Vec<_>> = (0..n).map(|i| cx.on(device(i))).collect();
        let places = places?;
        // No others are called that.
        let all = clique(comms().next());
        let make = |(rank, cx): (usize, &Cx)| {
            let comm = comms().make((cx.at, cx.device), true, all);
            comm.found(n as u32, rank as u32);
            comm
        };
        let made: Vec<_> = places.iter().enumerate().map(make).collect();
        let new = |i: usize| New {
            comm: Some(made[i].clone()),
            to: to.wrapping_add(i),
        };
        let first = places[0];
        if places.iter().all(|cx| cx.at.server == first.at.server) {
            let m = msg::InitAll {
                comms: made.iter().map(|c| c.id).collect(),
                devices: made.iter().map(|c| c.device as u32).collect(),
            };
            // SAFETY: the program's places.
            return unsafe { submit(first, &m, Pace::Slow(true), (0..n).map(new).collect()) };
        }
        // No server has all of them: as ranks of several servers, which this one thread all is.
        can_meet()?;
        let id = unique_id(first)?;
        group::start();
        for (i, cx) in places.iter().enumerate() {
            let m = msg::InitRank {
                comm: made[i].id,
                ranks: n as u32,
                rank: i as u32,
                ids: &id,
                config: &[],
                names: &[],
            };
            // SAFETY: the program's place.
            let sent = unsafe { submit(*cx, &m, Pace::Slow(true), vec![new(i)]) };
            if let Err(rc) = sent {
                group::spoil(rc);
            }
        }
        // SAFETY: as above.
        unsafe { group::end() }
    })
}

pub unsafe fn ncclCommSplit(
    parent: ncclComm_t,
    color: i32,
    key: i32,
    to: *mut ncclComm_t,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    grouped(|| {
        refuse_if(to.is_null(), ncclInvalidArgument)?;
        let parent = ready(parent)?;
        // SAFETY: the program's configuration.
        let config = unsafe { Config::read(config) }?;
        let blocking = config.blocking.unwrap_or(parent.blocking);
        let (cx, of) = (enter_for(&parent)?, (parent.at, parent.device));
        let clique = parent.child(color);
        let child = (color != NCCL_SPLIT_NOCOLOR).then(|| comms().make(of, blocking, clique));
        let m = msg::Split {
            comm: child.as_ref().map_or(0, |c| c.id),
            parent: parent.id,
            color: color as u32,
            key: key as u32,
            config: &config.bytes,
            names: &config.names,
        };
        if !blocking {
            parent.tell(ncclInProgress, "");
        }
        // SAFETY: the program's place.
        unsafe { submit(cx, &m, Pace::Slow(blocking), new(child, to)) }
    })
}

pub unsafe fn ncclCommShrink(
    parent: ncclComm_t,
    without: *mut i32,
    n: i32,
    to: *mut ncclComm_t,
    config: *mut ncclConfig_t,
    flags: i32,
) -> ncclResult_t {
    grouped(|| {
        let n = usize::try_from(n).unwrap_or(0);
        refuse_if(
            without.is_null() || to.is_null() || n == 0,
            ncclInvalidArgument,
        )?;
        // One of whose ranks some are gone, too.
        let parent = known(parent)?;
        // SAFETY: the program's list and configuration.
        let (config, without) = unsafe {
            let without = std::slice::from_raw_parts(without, n);
            (Config::read(config)?, without)
        };
        // Who is left out does not call this.
        refuse_if(without.contains(&parent.place().1), ncclInvalidArgument)?;
        let blocking = config.blocking.unwrap_or(parent.blocking);
        let cx = enter_for(&parent)?;
        let child = comms().make((parent.at, parent.device), blocking, parent.child(-1));
        let m = msg::Shrink {
            comm: child.id,
            parent: parent.id,
            without: without.iter().map(|r| *r as u32).collect(),
            flags: flags as u32,
            config: &config.bytes,
            names: &config.names,
        };
        if !blocking {
            parent.tell(ncclInProgress, "");
        }
        // SAFETY: the program's place.
        unsafe { submit(cx, &m, Pace::Slow(blocking), new(Some(child), to)) }
    })
}

pub unsafe fn ncclCommFinalize(comm: ncclComm_t) -> ncclResult_t {
    grouped(|| {
        // As the API has it, of none at all.
        if comm.is_null() {
            return Ok(());
        }
        let comm = ready(comm)?;
        let again = comm.finalized.swap(true, Ordering::AcqRel);
        refuse_if(again, ncclInvalidArgument)?;
        if !comm.blocking {
            comm.tell(ncclInProgress, "");
        }
        let pace = Pace::Slow(comm.blocking);
        // SAFETY: it has no places of the program's.
        unsafe {
            submit(
                enter_for(&comm)?,
                &msg::Finalize { comm: comm.id },
                pace,
                Vec::new(),
            )
        }
    })
}

pub unsafe fn ncclCommDestroy(comm: ncclComm_t) -> ncclResult_t {
    grouped(|| {
        // As the API has it, of none at all.
        if comm.is_null() {
            return Ok(());
        }
        let comm = known(comm)?;
        comms().forget(comm.id);
        // Nobody could ask how far it is.
        let pace = Pace::Slow(true);
        // SAFETY: it has no places of the program's.
        unsafe {
            submit(
                enter_for(&comm)?,
                &msg::Destroy { comm: comm.id },
                pace,
                Vec::new(),
            )
        }
    })
}

/// Ends what a communicator does, whatever waits for it in the queue.
fn abort(comm: &Comm, revoke: u32, flags: i32) -> Result {
    let m = msg::Abort {
        comm: comm.id,
        revoke,
        flags: flags as u32,
    };
    debug_assert!(!m.queued());
    enter_for(comm)?.call(OP_AT_ONCE, &fields(&m))
}

pub unsafe fn ncclCommAbort(comm: ncclComm_t) -> ncclResult_t {
    guard(|| {
        if comm.is_null() {
            return Ok(());
        }
        let comm = known(comm)?;
        comms().forget(comm.id);
        abort(&comm, 0, 0)
    })
}

pub unsafe fn ncclCommRevoke(comm: ncclComm_t, flags: i32) -> ncclResult_t {
    guard(|| {
        if comm.is_null() {
            return Ok(());
        }
        let comm = known(comm)?;
        refuse_if(flags != 0, ncclInvalidArgument)?;
        // What is revoked is final, too.
        let again = comm.finalized.swap(true, Ordering::AcqRel);
        refuse_if(again, ncclInvalidArgument)?;
        abort(&comm, 1, flags)?;
        comm.revoked.store(true, Ordering::Release);
        Ok(())
    })
}

/// Hands the program a number of a communicator's, which `find` finds.
fn tell(
    comm: ncclComm_t,
    to: *mut i32,
    find: fn(ncclComm_t) -> Result<Arc<Comm>>,
    what: impl FnOnce(&Comm) -> i32,
) -> ncclResult_t {
    guard(|| {
        refuse_if(to.is_null(), ncclInvalidArgument)?;
        let number = what(&*find(comm)?);
        // SAFETY: checked for null above; the program's pointer.
        unsafe { to.write(number) };
        Ok(())
    })
}

pub unsafe fn ncclCommGetAsyncError(comm: ncclComm_t, to: *mut ncclResult_t) -> ncclResult_t {
    tell(comm, to, known, Comm::code)
}

pub unsafe fn ncclCommCount(comm: ncclComm_t, to: *mut i32) -> ncclResult_t {
    tell(comm, to, ready, |c| c.place().0)
}

pub unsafe fn ncclCommCuDevice(comm: ncclComm_t, to: *mut i32) -> ncclResult_t {
    tell(comm, to, ready, |c| c.device)
}

pub unsafe fn ncclCommUserRank(comm: ncclComm_t, to: *mut i32) -> ncclResult_t {
    tell(comm, to, ready, |c| c.place().1)
}

pub unsafe fn ncclCommRegister(
    comm: ncclComm_t,
    at: *mut c_void,
    size: usize,
    handle: *mut *mut c_void,
) -> ncclResult_t {
    guard(|| {
        refuse_if(handle.is_null() || at.is_null(), ncclInvalidArgument)?;
        let comm = ready(comm)?;
        let id = comm.number();
        let m = msg::Register {
            comm: comm.id,
            handle: id,
            at: at as u64,
            size: size as u64,
        };
        enter_for(&comm)?.queue(msg::op::REGISTER, &fields(&m))?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { handle.write(std::ptr::without_provenance_mut(id as usize)) };
        Ok(())
    })
}

pub unsafe fn ncclCommDeregister(comm: ncclComm_t, handle: *mut c_void) -> ncclResult_t {
    guard(|| {
        let comm = known(comm)?;
        if handle.is_null() {
            return Ok(());
        }
        let given = u32::try_from(handle as usize).ok();
        let Some(handle) = given.filter(|h| comm.end(*h)) else {
            return Err(fail(ncclInvalidUsage, "no registration has this handle"));
        };
        let m = msg::Deregister {
            comm: comm.id,
            handle,
        };
        enter_for(&comm)?.queue(msg::op::DEREGISTER, &fields(&m))
    })
}

pub unsafe fn ncclMemAlloc(to: *mut *mut c_void, size: usize) -> ncclResult_t {
    guard(|| {
        refuse_if(to.is_null(), ncclInvalidArgument)?;
        let at = match size {
            0 => 0,
            _ => enter()?.allocate(size)?,
        };
        // SAFETY: checked for null above; the program's pointer.
        unsafe { to.write(at as *mut c_void) };
        Ok(())
    })
}

pub unsafe fn ncclMemFree(at: *mut c_void) -> ncclResult_t {
    guard(|| match at.is_null() {
        true => Ok(()),
        false => enter()?.free(at as u64),
    })
}
