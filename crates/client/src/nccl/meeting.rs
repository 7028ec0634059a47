//! The first messages between ranks of one process.
//!
//! The library connects two ranks with the first message between them, and each end waits there
//! until the other has come. At the worker both ends are calls in the queue of one session, where
//! the first would wait for the second, which is behind it. So they go as one group: as natively, a
//! thread waits in its call until those of the other ranks have come, and the last takes all along.

use super::comms::Comm;
use super::life::{comms, lost};
use super::parts::{self, Part};
use crate::config::var;
use crate::lock::lock;
use busbar_abi::nccl::*;
use busbar_wire::generated::collectives::contract::*;
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often who waits looks whether a communicator has ended.
const LOOK: Duration = Duration::from_millis(20);

/// One side of a message between two ranks.
#[derive(Clone)]
pub struct End {
    /// The communicator of the rank whose side it is.
    comm: Arc<Comm>,
    from: i32,
    to: i32,
}

/// Two ranks of one process at one server, and which of them sends: the server, what their
/// communicator is called, the sender and the receiver.
type Pair = (u32, u64, i32, i32);

impl End {
    fn pair(&self) -> Pair {
        (self.comm.at.server, self.comm.clique, self.from, self.to)
    }

    /// Whether it is the sender's side.
    fn sends(&self) -> bool {
        self.comm.place().1 == self.from
    }

    /// Why nobody has to wait for it any more.
    fn ended(&self) -> Option<ncclResult_t> {
        if comms().by_id(self.comm.id).is_none() {
            return Some(ncclInternalError);
        }
        let code = self.comm.code();
        (code != ncclSuccess && code != ncclInProgress).then_some(code)
    }
}

/// The sides that a call has of messages with other ranks of this process which are the first
/// between the two. `peer` is the other rank, or the root.
pub fn ends(kind: u32, comm: &Arc<Comm>, peer: i32) -> Vec<End> {
    let (ranks, me) = comm.place();
    let (to, from) = match kind {
        SEND => (peer..peer + 1, 0..0),
        RECV => (0..0, peer..peer + 1),
        ALL_TO_ALL => (0..ranks, 0..ranks),
        GATHER if me == peer => (0..0, 0..ranks),
        GATHER => (peer..peer + 1, 0..0),
        SCATTER if me == peer => (0..ranks, 0..0),
        SCATTER => (0..0, peer..peer + 1),
        _ => return Vec::new(),
    };
    let company = comms().company(comm);
    if company.is_empty() {
        return Vec::new();
    }
    let sides = to.map(|r| (r, me, r)).chain(from.map(|r| (r, r, me)));
    let here = sides.filter(|(other, ..)| company.contains(other));
    let new = here.filter(|(_, from, to)| !comm.has_met(*from, *to));
    let end = |(_, from, to)| End {
        comm: comm.clone(),
        from,
        to,
    };
    new.map(end).collect()
}

/// Calls that wait for those of other ranks.
struct Waiting {
    parts: Vec<Part>,
    ends: Vec<End>,
    done: Arc<OnceLock<Result>>,
}

/// All that wait, and the word that some of them have gone.
static WAITING: (Mutex<Vec<Waiting>>, Condvar) = (Mutex::new(Vec::new()), Condvar::new());

/// Which of some calls have all others that they wait for among those that can go. Each is told by
/// the sides that it has: which pair's, and whether the sender's.
fn can_go(calls: &[Vec<(Pair, bool)>]) -> Vec<bool> {
    let mut can = vec![true; calls.len()];
    loop {
        let going = calls.iter().zip(&can).filter(|(_, can)| **can);
        let there: HashSet<_> = going.flat_map(|(sides, _)| sides.iter().copied()).collect();
        let lacks = |(pair, sends): &(Pair, bool)| !there.contains(&(*pair, !sends));
        let mut changed = false;
        for (sides, can) in calls.iter().zip(&mut can) {
            if *can && sides.iter().any(lacks) {
                (*can, changed) = (false, true);
            }
        }
        if !changed {
            return can;
        }
    }
}

/// Sends those of the calls that can go, as one group.
fn send_those_that_can(all: &mut Vec<Waiting>) {
    // Nobody comes for what has ended.
    all.retain(|w| w.ends.iter().all(|e| e.ended().is_none()));
    let sides = |w: &Waiting| w.ends.iter().map(|e| (e.pair(), e.sends())).collect();
    let mut can = can_go(&all.iter().map(sides).collect::<Vec<_>>()).into_iter();
    let going: Vec<_> = all.extract_if(.., |_| can.next() == Some(true)).collect();
    if going.is_empty() {
        return;
    }
    for end in going.iter().flat_map(|w| &w.ends) {
        end.comm.meets(end.from, end.to);
        if end.comm.code() == ncclInProgress {
            end.comm.tell(ncclSuccess, "");
        }
    }
    let mut merged = Vec::new();
    for (cx, records) in going.iter().flat_map(|w| &w.parts) {
        parts::add(&mut merged, *cx, records);
    }
    let sent = parts::send_queued(&merged);
    for w in going {
        let _ = w.done.set(sent);
    }
    WAITING.1.notify_all();
}

/// Queues calls that have these sides. Where the program waits for nothing, they are in progress
/// until the others have come.
pub fn send(parts: Vec<Part>, ends: Vec<End>) -> Result {
    let done = Arc::new(OnceLock::new());
    let mut all = lock(&WAITING.0);
    all.push(Waiting {
        parts,
        ends: ends.clone(),
        done: done.clone(),
    });
    send_those_that_can(&mut all);
    if let Some(sent) = done.get() {
        return *sent;
    }
    if ends.iter().any(|e| !e.comm.blocking) {
        for end in &ends {
            end.comm.tell(ncclInProgress, "");
        }
        return Err(ncclInProgress);
    }
    let since = Instant::now();
    let mut stall = var("BUSBAR_STALL").and_then(|s: String| s.parse().ok());
    loop {
        if let Some(sent) = done.get() {
            return *sent;
        }
        if let Some(rc) = ends.iter().find_map(End::ended) {
            all.retain(|w| !Arc::ptr_eq(&w.done, &done));
            return Err(rc);
        }
        let long = |s: &f64| *s > 0.0 && since.elapsed().as_secs_f64() > *s;
        if let Some(seconds) = stall.take_if(|s| long(s)) {
            say(&all, &ends, seconds);
        }
        let woken = WAITING.1.wait_timeout(all, LOOK);
        all = woken.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Says which ranks have not come that these sides wait for.
fn say(all: &[Waiting], ends: &[End], seconds: f64) {
    let lacks = |e: &&End| {
        let mut others = all.iter().flat_map(|w| &w.ends);
        !others.any(|o| o.pair() == e.pair() && o.sends() != e.sends())
    };
    let other = |e: &End| if e.sends() { e.to } else { e.from };
    let missing: BTreeSet<_> = ends.iter().filter(lacks).map(other).collect();
    // Those that have come say for whom they wait.
    if missing.is_empty() {
        return;
    }
    let missing: Vec<_> = missing.iter().map(i32::to_string).collect();
    let me = ends.first().map_or(0, |e| e.comm.place().1);
    let why = format!(
        "rank {me} has waited for {seconds:.0} s in its first message with rank {} of the same \
         process, which has not called its part",
        missing.join(", ")
    );
    lost(ncclInProgress, &why);
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn side(from: i32, to: i32, sends: bool) -> (Pair, bool) {
        ((0, 7, from, to), sends)
    }

    #[test]
    fn a_message_goes_once_both_ends_have_come() {
        let (send, recv) = (vec![side(0, 1, true)], vec![side(0, 1, false)]);
        assert_eq!(can_go(std::slice::from_ref(&send)), [false]);
        assert_eq!(can_go(&[send.clone(), send.clone()]), [false, false]);
        assert_eq!(can_go(&[send.clone(), recv.clone()]), [true, true]);
        let other = vec![((0, 8, 0, 1), false)];
        assert_eq!(
            can_go(&[send, other]),
            [false, false],
            "another communicator"
        );
    }

    #[test]
    fn a_ring_goes_as_a_whole_and_who_waits_for_more_stays() {
        let ring = |n: i32| {
            (0..n).map(move |r| vec![side(r, (r + 1) % n, true), side((r + n - 1) % n, r, false)])
        };
        let all: Vec<_> = ring(4).collect();
        assert_eq!(can_go(&all), [true; 4]);
        assert_eq!(can_go(&all[..3]), [false; 3]);
        // Two exchange, and a third waits for one that is not there.
        let pair = ring(2).collect::<Vec<_>>();
        let third = vec![side(2, 3, true), side(0, 2, false)];
        let calls = [pair[0].clone(), third, pair[1].clone()];
        assert_eq!(can_go(&calls), [true, false, true]);
        // One of the two is needed by the third, and needs it.
        let mut more = pair[0].clone();
        more.push(side(0, 2, true));
        let calls = [more, pair[1].clone()];
        assert_eq!(can_go(&calls), [false, false]);
    }
}
