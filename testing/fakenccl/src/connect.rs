//! The first message between two ranks connects them: each end waits in its call until the other
//! has come. That is so here between ranks of one process.

use busbar_abi::nccl::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One side of a message: the communicator's name, who sends, who receives, and whether it is the
/// sender's.
pub type Side = (String, u64, u64, bool);

struct Seen {
    /// The ranks of this process, by their communicator's name.
    ranks: BTreeSet<(String, u64)>,
    /// The sides that have come.
    sides: BTreeSet<Side>,
}

static SEEN: (Mutex<Seen>, Condvar) = (
    Mutex::new(Seen {
        ranks: BTreeSet::new(),
        sides: BTreeSet::new(),
    }),
    Condvar::new(),
);

fn seen() -> MutexGuard<'static, Seen> {
    SEEN.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A rank of the communicator of this name is of this process.
pub fn is_here(name: &str, rank: u64) {
    seen().ranks.insert((name.into(), rank));
}

/// The sides that a rank has of messages that go `to` others, and come `from` them.
pub fn sides((name, rank): (&str, u64), to: &[u64], from: &[u64]) -> Vec<Side> {
    let other = |r: &&u64| **r != rank;
    let to = to
        .iter()
        .filter(other)
        .map(|r| (name.into(), rank, *r, true));
    let from = from
        .iter()
        .filter(other)
        .map(|r| (name.into(), *r, rank, false));
    to.chain(from).collect()
}

/// Waits until the other sides have come, of ranks of this process.
pub fn connect(aborted: &AtomicBool, sides: Vec<Side>) -> Result {
    let mut seen = seen();
    seen.sides.extend(sides.iter().cloned());
    SEEN.1.notify_all();
    for (name, from, to, sends) in sides {
        let other = (name.clone(), if sends { to } else { from });
        let wanted = (name, from, to, !sends);
        while seen.ranks.contains(&other) && !seen.sides.contains(&wanted) {
            if aborted.load(Ordering::Acquire) {
                return Err(ncclInternalError);
            }
            let woken = SEEN.1.wait_timeout(seen, Duration::from_millis(20));
            seen = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
    Ok(())
}
