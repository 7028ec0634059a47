//! What lies between the start and the end of a group, thread by thread: it goes to the worker as
//! one record.

use super::comms::Comm;
use super::life::{Cx, comms, fail, fields};
use super::meeting::{self, End};
use super::parts::{Part, add, record, send, send_all, too_long};
use busbar_abi::nccl::*;
use busbar_wire::codec::Request;
use busbar_wire::limits::MAX_BYTES;
use busbar_wire::record::HEADER;
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
    /// The records for each server.
    records: Vec<Part>,
    /// Its sides of first messages between ranks of this process.
    ends: Vec<End>,
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
    /// No longer than it takes to queue it, where these sides of messages have their others.
    Queued(Vec<End>),
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
    let (ends, slow, blocking) = match pace {
        Pace::Queued(ends) => (ends, false, false),
        Pace::Slow(blocking) => (Vec::new(), true, blocking),
    };
    let gathered = GROUP.with_borrow_mut(|g| {
        if g.depth == 0 {
            return Ok(false);
        }
        if g.len + body.len() + HEADER > MAX_BYTES {
            return Err(());
        }
        g.len += body.len() + HEADER;
        add(&mut g.records, cx, &record(cx, R::OP, &body));
        g.ends.extend(ends.iter().cloned());
        g.slow |= slow;
        g.blocking |= blocking;
        Ok(true)
    });
    let sent = match gathered {
        Ok(true) => {
            GROUP.with_borrow_mut(|g| g.new.extend(new));
            return Ok(());
        }
        Ok(false) if !ends.is_empty() => meeting::send(vec![(cx, record(cx, R::OP, &body))], ends),
        Ok(false) => send(cx, R::OP, &body, (slow, blocking)),
        Err(()) => Err(too_long()),
    };
    // SAFETY: passed on to the caller.
    unsafe { forget_unless_made(sent, &new) }
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
        // What is made in the same group is not there to be waited for.
        ncclSuccess if !group.slow && !group.ends.is_empty() => {
            meeting::send(group.records, group.ends)
        }
        ncclSuccess => send_all(&group.records, flags),
        rc => Err(rc),
    };
    // SAFETY: passed on to the caller.
    unsafe { forget_unless_made(sent, &group.new) }
}
