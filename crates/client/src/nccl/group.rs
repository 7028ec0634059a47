//! What lies between the start and the end of a group, thread by thread: it goes to the worker as
//! one record.

use super::comms::Comm;
use super::life::{Cx, comms, fail, fields};
use busbar_abi::nccl::*;
use busbar_wire::codec::Request;
use busbar_wire::generated::collectives::op;
use busbar_wire::limits::MAX_BYTES;
use busbar_wire::record::{HEADER, Header};
use std::cell::RefCell;
use std::sync::Arc;

/// A communicator that a call makes, and where the program wants its handle.
pub struct New {
    /// The communicator; none where this rank is to be of none.
    pub comm: Option<Arc<Comm>>,
    /// The program's place.
    pub to: *mut ncclComm_t,
}

impl New {
    /// What the program sees while it is being made.
    ///
    /// # Safety
    /// `to` is a place for a handle.
    unsafe fn show(&self) {
        let handle = self.comm.as_ref().map(|c| c.handle());
        // SAFETY: passed on to the caller.
        unsafe { self.to.write(handle.unwrap_or(std::ptr::null_mut())) };
    }

    /// It has not come to be.
    ///
    /// # Safety
    /// As for [`New::show`].
    unsafe fn withdraw(&self) {
        if let Some(comm) = &self.comm {
            comms().forget(comm.id);
        }
        // SAFETY: passed on to the caller.
        unsafe { self.to.write(std::ptr::null_mut()) };
    }
}

#[derive(Default)]
struct Group {
    depth: u32,
    /// What went wrong first in it.
    error: ncclResult_t,
    /// The records for each server, and the call that was the first for that one.
    records: Vec<(Cx, Vec<u8>)>,
    /// All their bytes.
    len: usize,
    /// What it makes.
    new: Vec<New>,
    /// Whether something in it waits for other ranks, and whether the program waits for that.
    slow: bool,
    blocking: bool,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// How long a call may take.
pub enum Pace {
    /// No longer than it takes to queue it.
    Queued,
    /// Until other ranks have done their part; what has this flag waits for them.
    Slow(bool),
}

/// A group begins, in another or not.
pub fn start() {
    GROUP.with_borrow_mut(|g| g.depth += 1);
}

/// A call in a group has failed.
pub fn spoil(code: ncclResult_t) {
    GROUP.with_borrow_mut(|g| {
        if g.depth > 0 && g.error == ncclSuccess {
            g.error = code;
        }
    });
}

/// Makes a call, or adds it to the group that has begun.
///
/// # Safety
/// The places of `new` are the program's, for handles, and stay until the group ends.
pub unsafe fn submit<'a, R: Request<'a>>(cx: Cx, m: &R, pace: Pace, new: Vec<New>) -> Result {
    let body = fields(m);
    for n in &new {
        // SAFETY: passed on to the caller.
        unsafe { n.show() };
    }
    let (slow, blocking) = match pace {
        Pace::Queued => (false, false),
        Pace::Slow(blocking) => (true, blocking),
    };
    let gathered = GROUP.with_borrow_mut(|g| {
        if g.depth == 0 {
            return Ok(false);
        }
        if g.len + body.len() + HEADER > MAX_BYTES {
            return Err(());
        }
        g.len += body.len() + HEADER;
        let header = Header {
            len: (body.len() + HEADER) as u32,
            op: R::OP,
            api: 0,
            call: 0,
            aux: cx.scope(),
        };
        let of = g.records.iter().position(|r| r.0.at.server == cx.at.server);
        let of = of.unwrap_or_else(|| {
            g.records.push((cx, Vec::new()));
            g.records.len() - 1
        });
        let records = &mut g.records[of].1;
        records.extend_from_slice(&header.to_bytes());
        records.extend_from_slice(&body);
        g.slow |= slow;
        g.blocking |= blocking;
        Ok(true)
    });
    let sent = match gathered {
        Ok(true) => {
            GROUP.with_borrow_mut(|g| g.new.extend(new));
            return Ok(());
        }
        Ok(false) => send(cx, R::OP, &body, (slow, blocking)),
        Err(()) => Err(fail(
            ncclInvalidUsage,
            "a group of more than 8 MiB of calls",
        )),
    };
    // SAFETY: passed on to the caller.
    unsafe { forget_unless_made(sent, &new) }
}

fn send(cx: Cx, op: u16, body: &[u8], (slow, blocking): (bool, bool)) -> Result {
    if blocking {
        return cx.call(op, body);
    }
    cx.queue(op, body)?;
    refuse_if(slow, ncclInProgress)
}

/// What was to be made has not come to be if the call has failed.
///
/// # Safety
/// As for [`submit`].
unsafe fn forget_unless_made(sent: Result, new: &[New]) -> Result {
    if sent.is_err_and(|rc| rc != ncclInProgress) {
        for n in new {
            // SAFETY: passed on to the caller.
            unsafe { n.withdraw() };
        }
    }
    sent
}

/// Leaves a group; what was in it, if it is the outermost one.
fn leave() -> Result<Option<Group>> {
    let ended = GROUP.with_borrow_mut(|g| match g.depth {
        0 => Err(ncclInvalidUsage),
        1 => Ok(Some(std::mem::take(g))),
        _ => {
            g.depth -= 1;
            Ok(None)
        }
    });
    ended.map_err(|rc| fail(rc, "ncclGroupEnd without ncclGroupStart"))
}

/// A group ends, and what was in it is not done.
///
/// # Safety
/// The places of what was to be made in it are there still.
pub unsafe fn discard() -> Result {
    if let Some(group) = leave()? {
        for n in &group.new {
            // SAFETY: passed on to the caller.
            unsafe { n.withdraw() };
        }
    }
    Ok(())
}

/// A group ends: the outermost one is sent, to each server what is its part.
///
/// # Safety
/// The places of what was made in it are there still.
pub unsafe fn end() -> Result {
    let Some(group) = leave()? else {
        return Ok(());
    };
    let flags = (group.slow, group.blocking);
    let sent = match group.error {
        ncclSuccess => send_all(&group.records, flags),
        rc => Err(rc),
    };
    // SAFETY: passed on to the caller.
    unsafe { forget_unless_made(sent, &group.new) }
}

/// Sends the parts of a group. Those that wait for each other wait at once.
fn send_all(parts: &[(Cx, Vec<u8>)], flags: (bool, bool)) -> Result {
    let send = |(cx, records): &(Cx, Vec<u8>)| send(*cx, op::GROUP, records, flags);
    let (_, blocking) = flags;
    match parts {
        [] => Ok(()),
        [one] => send(one),
        all if !blocking => {
            let sent: Vec<_> = all.iter().map(send).collect();
            worst(sent)
        }
        [one, others @ ..] => std::thread::scope(|s| {
            let begun: Vec<_> = others.iter().map(|part| s.spawn(|| send(part))).collect();
            let mut sent = vec![send(one)];
            sent.extend(
                begun
                    .into_iter()
                    .map(|t| t.join().unwrap_or(Err(ncclInternalError))),
            );
            worst(sent)
        }),
    }
}

/// What has become of all: the first failure, or that one is in progress.
fn worst(all: Vec<Result>) -> Result {
    let failed = |r: &&Result| r.is_err_and(|rc| rc != ncclInProgress);
    let found = all.iter().find(failed);
    let found = found.or_else(|| all.iter().find(|r| r.is_err()));
    found.copied().unwrap_or(Ok(()))
}
