//! What is known of communicators: plain structures, which ask nobody.

use crate::guest::Place;
use crate::lock::lock;
use busbar_abi::nccl::*;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// What stands above the id in a handle: no address, so that nobody can follow it.
const MARK: u64 = 0x6e63_636c << 32;

/// For how long it may be unknown which ranks a communicator's others are, once it can be used
/// itself: the worker says so at about the same time.
const SOON: Duration = Duration::from_secs(2);

/// A number for what all ranks of a communicator in this process have alike.
pub fn clique(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// A communicator.
pub struct Comm {
    /// Its id, at the worker too.
    pub id: u32,
    /// The device that was current when it was made, by the program's number; that of a child is
    /// its parent's.
    pub device: i32,
    /// That device's context, at its server, to which all calls of the communicator go.
    pub at: Place,
    /// Whether calls wait for what others have to do.
    pub blocking: bool,
    /// What all its ranks in this process have alike.
    pub clique: u64,
    /// How many communicators have come of this one.
    children: AtomicU32,
    /// The other ranks of it that this process has at the same server.
    company: OnceLock<Vec<i32>>,
    /// The pairs of ranks, sender and receiver, that have begun to talk.
    met: Mutex<BTreeSet<(i32, i32)>>,
    code: AtomicI32,
    ranks: AtomicI32,
    rank: AtomicI32,
    /// The next operator, or registration, and those that there are.
    next: AtomicU32,
    made: Mutex<BTreeSet<u32>>,
    /// Nothing may be finalized twice, or revoked once it is.
    pub finalized: AtomicBool,
    /// Nothing more is done with it.
    pub revoked: AtomicBool,
    said: Mutex<String>,
}

impl Comm {
    /// What the program knows it by.
    pub fn handle(&self) -> ncclComm_t {
        (MARK | u64::from(self.id)) as ncclComm_t
    }

    /// How it is.
    pub fn code(&self) -> ncclResult_t {
        self.code.load(Ordering::Acquire)
    }

    /// How many ranks it has, and which of them it is.
    pub fn place(&self) -> (i32, i32) {
        (
            self.ranks.load(Ordering::Acquire),
            self.rank.load(Ordering::Acquire),
        )
    }

    /// What went wrong, in words.
    pub fn said(&self) -> String {
        lock(&self.said).clone()
    }

    /// Something has become of it.
    pub fn tell(&self, code: ncclResult_t, said: &str) {
        if !said.is_empty() {
            *lock(&self.said) = said.into();
        }
        self.code.store(code, Ordering::Release);
    }

    /// It is known which rank it is.
    pub fn found(&self, ranks: u32, rank: u32) {
        self.ranks.store(ranks as i32, Ordering::Release);
        self.rank.store(rank as i32, Ordering::Release);
    }

    /// What the next communicator has alike at all its ranks that comes of this one.
    pub fn child(&self, color: i32) -> u64 {
        let child = self.children.fetch_add(1, Ordering::Relaxed);
        clique((self.clique, child, color))
    }

    /// Whether two ranks have begun to talk.
    pub fn has_met(&self, from: i32, to: i32) -> bool {
        lock(&self.met).contains(&(from, to))
    }

    /// They begin to.
    pub fn meets(&self, from: i32, to: i32) {
        lock(&self.met).insert((from, to));
    }

    /// A number that no other operator or registration of it has had.
    pub fn number(&self) -> u32 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.made).insert(number);
        number
    }

    /// Whether an operator or a registration has this number.
    pub fn has(&self, number: u32) -> bool {
        lock(&self.made).contains(&number)
    }

    /// It has ended; whether there was one.
    pub fn end(&self, number: u32) -> bool {
        lock(&self.made).remove(&number)
    }
}

/// All that there are.
#[derive(Default)]
pub struct Comms {
    all: Mutex<BTreeMap<u32, Arc<Comm>>>,
    next: AtomicU32,
}

impl Comms {
    /// None yet.
    pub const fn new() -> Self {
        Self {
            all: Mutex::new(BTreeMap::new()),
            next: AtomicU32::new(1),
        }
    }

    /// A number that no call of this has had.
    pub fn next(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A communicator that is being made.
    pub fn make(&self, (at, device): (Place, i32), blocking: bool, clique: u64) -> Arc<Comm> {
        let comm = Arc::new(Comm {
            id: self.next(),
            device,
            at,
            blocking,
            clique,
            children: AtomicU32::new(0),
            company: OnceLock::new(),
            met: Mutex::default(),
            code: AtomicI32::new(ncclInProgress),
            ranks: AtomicI32::new(0),
            rank: AtomicI32::new(0),
            next: AtomicU32::new(ncclNumOps as u32),
            made: Mutex::default(),
            finalized: AtomicBool::new(false),
            revoked: AtomicBool::new(false),
            said: Mutex::default(),
        });
        lock(&self.all).insert(comm.id, comm.clone());
        comm
    }

    /// The communicator of a handle.
    pub fn of(&self, handle: ncclComm_t) -> Option<Arc<Comm>> {
        let raw = handle as u64;
        self.by_id(raw as u32).filter(|c| c.handle() as u64 == raw)
    }

    /// The communicator with an id.
    pub fn by_id(&self, id: u32) -> Option<Arc<Comm>> {
        lock(&self.all).get(&id).cloned()
    }

    /// The other ranks of a communicator that this process has at the same server. All of them are
    /// being made before it can be used.
    pub fn company<'a>(&self, comm: &'a Comm) -> &'a [i32] {
        let others = || {
            let all = lock(&self.all);
            let alike = |c: &&Arc<Comm>| {
                c.id != comm.id && c.clique == comm.clique && c.at.server == comm.at.server
            };
            all.values().filter(alike).cloned().collect::<Vec<_>>()
        };
        comm.company.get_or_init(|| {
            let since = Instant::now();
            loop {
                let others = others();
                let open = |c: &Arc<Comm>| c.place().0 == 0 && c.code() == ncclInProgress;
                if !others.iter().any(open) || since.elapsed() > SOON {
                    return others.iter().map(|c| c.place().1).collect();
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    }

    /// It is gone.
    pub fn forget(&self, id: u32) {
        lock(&self.all).remove(&id);
    }

    /// The same has become of all of a server's.
    pub fn tell_all(&self, server: u32, code: ncclResult_t, said: &str) {
        let all = lock(&self.all);
        for comm in all.values().filter(|c| c.at.server == server) {
            comm.tell(code, said);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_that_was_never_given_names_nothing() {
        let comms = Comms::new();
        let comm = comms.make((Place::default(), 0), true, 0);
        assert_eq!(comms.of(comm.handle()).map(|c| c.id), Some(comm.id));
        for wrong in [0, u64::from(comm.id), comm.handle() as u64 + 1] {
            assert!(comms.of(wrong as ncclComm_t).is_none());
        }
        comms.forget(comm.id);
        assert!(comms.of(comm.handle()).is_none());
    }

    #[test]
    fn the_end_of_a_session_is_that_of_every_communicator_at_its_server() {
        let comms = Comms::new();
        let at = |server| Place { server, scope: 1 };
        let [one, other, third] =
            [(at(0), 0), (at(0), 1), (at(1), 2)].map(|p| comms.make(p, true, 0));
        third.tell(ncclSuccess, "");
        one.tell(ncclSuccess, "");
        comms.tell_all(0, ncclRemoteError, "gone");
        for c in [one, other] {
            assert_eq!((c.code(), c.said().as_str()), (ncclRemoteError, "gone"));
        }
        assert_eq!(third.code(), ncclSuccess);
    }
}
