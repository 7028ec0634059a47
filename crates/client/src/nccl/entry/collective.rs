//! Collectives, what goes from one rank to another, operators and groups.

use crate::nccl::comms::Comm;
use crate::nccl::group::{self, Pace};
use crate::nccl::life::{Cx, comms, enter_for, fail, guard};
use crate::nccl::meeting::{self, End};
use busbar_abi::nccl::*;
use busbar_wire::codec::Request;
use busbar_wire::generated::collectives::{self as msg, contract::*};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of each type's values, by its number.
const SIZES: [usize; ncclNumTypes as usize] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];

/// The communicator of a handle, whatever it does.
pub fn known(comm: ncclComm_t) -> Result<Arc<Comm>> {
    let found = comms().of(comm);
    found.ok_or_else(|| fail(ncclInvalidArgument, "no communicator has this handle"))
}

/// The communicator of a handle, if it can be used.
pub fn ready(comm: ncclComm_t) -> Result<Arc<Comm>> {
    let comm = known(comm)?;
    match comm.code() {
        ncclSuccess => Ok(comm),
        ncclInProgress => Err(fail(
            ncclInvalidArgument,
            "a communicator is used before ncclCommGetAsyncError says that it is ready",
        )),
        rc => Err(fail(rc, &comm.said())),
    }
}

/// Runs a call's body: in a group, a failure is the group's, too.
pub fn grouped(f: impl FnOnce() -> Result) -> ncclResult_t {
    let rc = guard(f);
    if rc != ncclSuccess && rc != ncclInProgress {
        group::spoil(rc);
    }
    rc
}

/// Queues what makes no communicator.
fn queue<'a, R: Request<'a>>(cx: Cx, m: &R, ends: Vec<End>) -> Result {
    // SAFETY: it has no places of the program's.
    unsafe { group::submit(cx, m, Pace::Queued(ends), Vec::new()) }
}

/// What a collective is of.
struct Of {
    datatype: ncclDataType_t,
    op: ncclRedOp_t,
    /// A root, or the other rank.
    peer: i32,
}

impl Of {
    fn values(datatype: ncclDataType_t) -> Self {
        let (op, peer) = (0, 0);
        Self { datatype, op, peer }
    }

    fn sum(self, op: ncclRedOp_t) -> Self {
        Self { op, ..self }
    }

    fn with(self, peer: i32) -> Self {
        Self { peer, ..self }
    }
}

fn queued(
    kind: u32,
    buffers: (*const c_void, *mut c_void),
    count: usize,
    of: Of,
    (comm, stream): (ncclComm_t, cudaStream_t),
) -> Result {
    let comm = ready(comm)?;
    let no = |what: &str| Err(fail(ncclInvalidArgument, &format!("an invalid {what}")));
    if !(0..ncclNumTypes).contains(&of.datatype) {
        return no("type");
    }
    if !(0..comm.place().0).contains(&of.peer) {
        return no("rank");
    }
    // One of NCCL's own, or one of this communicator.
    if of.op < 0 || (of.op >= ncclNumOps && !comm.has(of.op as u32)) {
        return no("operator");
    }
    if comm.revoked.load(Ordering::Acquire) {
        return Err(fail(ncclInvalidUsage, "the communicator was revoked"));
    }
    let cx = enter_for(&comm)?;
    let m = msg::Collective {
        kind,
        comm: comm.id,
        send: buffers.0 as u64,
        recv: buffers.1 as u64,
        count: count as u64,
        datatype: of.datatype as u32,
        op: of.op as u32,
        peer: of.peer as u32,
        stream: cx.stream(stream)?,
    };
    // The library discards a collective of nothing; a message of nothing is one.
    let ends = match count {
        0 if !matches!(kind, SEND | RECV) => Vec::new(),
        _ => meeting::ends(kind, &comm, of.peer),
    };
    queue(cx, &m, ends)
}

/// As [`queued`], with the code that the program gets.
fn collective(
    kind: u32,
    buffers: (*const c_void, *mut c_void),
    count: usize,
    of: Of,
    on: (ncclComm_t, cudaStream_t),
) -> ncclResult_t {
    grouped(|| queued(kind, buffers, count, of, on))
}

/// Whether a collective may be done without its configuration, which a library at a server may be
/// too old for: how many multiprocessors it is to take is advice.
///
/// # Safety
/// `config` is null, or a configuration is there.
unsafe fn can_do_without(config: *const ncclCollConfig_t) -> Result {
    if config.is_null() {
        return Ok(());
    }
    // SAFETY: every version begins with its size and a number that tells what it is.
    let (size, magic) = unsafe { ((*config).size, (&raw const (*config).magic).read()) };
    if magic != NCCL_CONFIG_MAGIC || size < size_of::<ncclCollConfig_t>() {
        let why = "the ncclCollConfig_t was not set to NCCL_COLLCONFIG_INITIALIZER";
        return Err(fail(ncclInvalidArgument, why));
    }
    // SAFETY: it is as long as that.
    let c = unsafe { &*config };
    // SAFETY: a C string of the program's, as the API asks.
    let named = !c.algSelection.is_null() && unsafe { c.algSelection.read() } != 0;
    for (set, what) in [
        (named, "algSelection"),
        (!c.launchCompletionEvent.is_null(), "launchCompletionEvent"),
    ] {
        if set {
            let why = format!("ncclCollConfig_t: {what} is not forwarded: leave it out");
            return Err(fail(ncclInvalidUsage, &why));
        }
    }
    Ok(())
}

/// A collective, with its parameters as the API has them.
macro_rules! collectives {
    ($($name:ident $configured:ident $kind:ident ($send:ident, $recv:ident $(, $op:ident)?)
        $([$root:ident])?;)*) => {$(
        pub unsafe fn $name(
            $send: *const c_void,
            $recv: *mut c_void,
            count: usize,
            datatype: ncclDataType_t,
            $($op: ncclRedOp_t,)?
            $($root: i32,)?
            comm: ncclComm_t,
            stream: cudaStream_t,
        ) -> ncclResult_t {
            let of = Of::values(datatype)$(.sum($op))?$(.with($root))?;
            collective($kind, ($send, $recv), count, of, (comm, stream))
        }

        pub unsafe fn $configured(
            $send: *const c_void,
            $recv: *mut c_void,
            count: usize,
            datatype: ncclDataType_t,
            $($op: ncclRedOp_t,)?
            $($root: i32,)?
            comm: ncclComm_t,
            stream: cudaStream_t,
            config: *const ncclCollConfig_t,
        ) -> ncclResult_t {
            let of = Of::values(datatype)$(.sum($op))?$(.with($root))?;
            grouped(|| {
                // SAFETY: the program's configuration.
                unsafe { can_do_without(config) }?;
                queued($kind, ($send, $recv), count, of, (comm, stream))
            })
        }
    )*};
}

collectives! {
    ncclAllReduce ncclAllReduceConfig ALL_REDUCE (send, recv, op);
    ncclBroadcast ncclBroadcastConfig BROADCAST (send, recv) [root];
    ncclReduce ncclReduceConfig REDUCE (send, recv, op) [root];
    ncclAllGather ncclAllGatherConfig ALL_GATHER (send, recv);
    ncclReduceScatter ncclReduceScatterConfig REDUCE_SCATTER (send, recv, op);
    ncclAlltoAll ncclAlltoAllConfig ALL_TO_ALL (send, recv);
    ncclGather ncclGatherConfig GATHER (send, recv) [root];
    ncclScatter ncclScatterConfig SCATTER (send, recv) [root];
}

pub unsafe fn ncclBcast(
    buff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    root: i32,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    let of = Of::values(datatype).with(root);
    collective(BROADCAST, (buff, buff), count, of, (comm, stream))
}

pub unsafe fn ncclSend(
    buff: *const c_void,
    count: usize,
    datatype: ncclDataType_t,
    peer: i32,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    let of = Of::values(datatype).with(peer);
    collective(
        SEND,
        (buff, std::ptr::null_mut()),
        count,
        of,
        (comm, stream),
    )
}

pub unsafe fn ncclRecv(
    buff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    peer: i32,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    let of = Of::values(datatype).with(peer);
    collective(RECV, (std::ptr::null(), buff), count, of, (comm, stream))
}

pub unsafe fn ncclRedOpCreatePreMulSum(
    op: *mut ncclRedOp_t,
    scalar: *mut c_void,
    datatype: ncclDataType_t,
    residence: ncclScalarResidence_t,
    comm: ncclComm_t,
) -> ncclResult_t {
    guard(|| {
        let comm = ready(comm)?;
        let size = usize::try_from(datatype).ok().and_then(|i| SIZES.get(i));
        let Some(&size) = size.filter(|_| !op.is_null() && !scalar.is_null()) else {
            return Err(fail(ncclInvalidArgument, "an invalid operator"));
        };
        let address = (scalar as u64).to_le_bytes();
        let bytes = match residence {
            ncclScalarDevice => &address[..],
            // SAFETY: the program's scalar, of that type.
            _ => unsafe { std::slice::from_raw_parts(scalar.cast(), size) },
        };
        let id = comm.number();
        let m = msg::PreMulSum {
            comm: comm.id,
            op: id,
            datatype: datatype as u32,
            residence: residence as u32,
            scalar: bytes,
        };
        queue(enter_for(&comm)?, &m, Vec::new())?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { op.write(id as i32) };
        Ok(())
    })
}

pub unsafe fn ncclRedOpDestroy(op: ncclRedOp_t, comm: ncclComm_t) -> ncclResult_t {
    guard(|| {
        refuse_if(op < ncclNumOps, ncclInvalidArgument)?;
        let comm = known(comm)?;
        refuse_if(!comm.end(op as u32), ncclInvalidArgument)?;
        let m = msg::DestroyOp {
            comm: comm.id,
            op: op as u32,
        };
        queue(enter_for(&comm)?, &m, Vec::new())
    })
}

pub unsafe fn ncclGroupStart() -> ncclResult_t {
    guard(|| {
        group::start();
        Ok(())
    })
}

pub unsafe fn ncclGroupEnd() -> ncclResult_t {
    // SAFETY: the program keeps the places of handles that a group makes until it has ended.
    guard(|| unsafe { group::end() })
}

/// A group ends of which nothing is done. What it would take is not known here.
pub unsafe fn ncclGroupSimulateEnd(_info: *mut ncclSimInfo_t) -> ncclResult_t {
    guard(|| {
        // SAFETY: as for its other end.
        unsafe { group::discard() }?;
        let why = "ncclGroupSimulateEnd: what a group would take is estimated of the GPUs that it \
                   runs on";
        Err(fail(ncclInvalidUsage, why))
    })
}
