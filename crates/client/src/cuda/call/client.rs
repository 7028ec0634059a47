//! A client: a session with a worker, and all that is known about it.

use super::gates::Gates;
use super::links::Links;
use crate::cuda::state::State;
use crate::cuda::state::devices::Device;
use crate::guest::Listener;
use crate::prelude::*;
use crate::ring::Ring;
use crate::session::Session;
use busbar_abi::cuda::CUdevice;
use std::hash::{BuildHasher, RandomState};
use std::sync::RwLock;
use std::sync::mpsc::Sender;

/// A client. It lives as long as the process.
pub struct Client {
    /// The session with the worker.
    pub session: Session,
    /// The server's number among those of the process.
    pub server: usize,
    /// Whether the process has others.
    pub many: bool,
    /// All of them, once each is there.
    pub all: OnceLock<&'static [&'static Client]>,
    /// Libraries are at all servers: finds what stands here for a kernel of another client's.
    pub twin: Twin,
    /// Where streams stand still.
    pub gates: Gates,
    /// Streams of our own that nothing is in, by handle.
    pub helpers: Mutex<Vec<u64>>,
    /// Links from the server to others.
    pub links: Links,
    /// The server's devices that the program sees, in its order.
    pub devices: Vec<Device>,
    /// What `cuDriverGetVersion` answers: the oldest of the servers'.
    pub driver_version: i32,
    /// What is known without asking.
    pub state: &'static State,
    /// Answers that stay the same.
    pub answers: Answers,
    /// Memory shared with a worker on this host, for copies of memory that is not; `None` inside
    /// when none can be had.
    pub ring: OnceLock<Option<Ring>>,
    /// The way to the thread that runs the program's functions.
    pub jobs: Mutex<Option<Sender<Job>>>,
    /// The way to the thread that reads the program's memory in stream order.
    pub reads: Mutex<Option<Sender<Job>>>,
    /// How many jobs have come and are not done.
    pub waiting: AtomicUsize,
    /// Another library that makes calls in this session, if one does.
    pub guest: OnceLock<Listener>,
}

/// Finds, for a client and its current context, the id of its kernel that is another client's
/// function of that id.
pub type Twin = fn((&'static Client, u32), &'static Client, u32) -> Option<u32>;

impl Client {
    /// The clients of the process, in the order of its servers.
    pub fn all(&self) -> &'static [&'static Client] {
        self.all.get().copied().unwrap_or_default()
    }

    /// The client of the server with this number.
    pub fn of_server(&self, server: usize) -> Option<&'static Client> {
        self.all().iter().find(|c| c.server == server).copied()
    }

    /// The client of the process's that has a device.
    pub fn with_device(&self, dev: CUdevice) -> Option<&'static Client> {
        let has = |c: &&Client| c.devices.iter().any(|d| d.ordinal == dev);
        self.all().iter().copied().find(has)
    }

    /// Every device that the program sees, in its order.
    pub fn every_device(&self) -> Vec<&'static Device> {
        let mut all: Vec<_> = self.all().iter().flat_map(|c| &c.devices).collect();
        all.sort_by_key(|d| d.ordinal);
        all
    }
}

/// Something for one of those threads.
pub type Job = Box<dyn FnOnce() + Send>;

/// The most answers that a part of the cache holds: a program that asks about ever new addresses
/// must not fill its memory with the answers.
const SHARD: usize = 4096;

type Shard = RwLock<HashMap<Box<[u8]>, Arc<[u8]>>>;

/// Answers by what was asked: the context, the call, its arguments.
#[derive(Default)]
pub struct Answers {
    shards: [Shard; 16],
    /// How often something was forgotten: an answer from before that is not kept.
    forgotten: AtomicU64,
    hasher: RandomState,
}

impl Answers {
    fn shard(&self, key: &[u8]) -> &Shard {
        &self.shards[self.hasher.hash_one(key) as usize % self.shards.len()]
    }

    /// A known answer.
    pub fn get(&self, key: &[u8]) -> Option<Arc<[u8]>> {
        let shard = self.shard(key).read();
        shard
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
    }

    /// To be noted before a question is asked whose answer will be kept.
    pub fn mark(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Keeps an answer, unless something was forgotten since the mark.
    pub fn keep(&self, key: Vec<u8>, answer: Arc<[u8]>, mark: u64) {
        let mut shard = self
            .shard(&key)
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if self.mark() != mark {
            return;
        }
        if shard.len() >= SHARD {
            shard.clear();
        }
        shard.insert(key.into(), answer);
    }

    /// Forgets an answer: something has changed it.
    pub fn forget(&self, key: &[u8]) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        self.shard(key)
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }

    /// Forgets every answer whose key begins so.
    pub fn forget_all(&self, begin: &[u8]) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        for shard in &self.shards {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            shard.retain(|key, _| !key.starts_with(begin));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_from_before_something_was_forgotten_is_not_kept() {
        let a = Answers::default();
        let key = || vec![1, 2, 3];
        let mark = a.mark();
        a.keep(key(), Arc::from([9u8]), mark);
        assert_eq!(a.get(&key()).as_deref(), Some(&[9u8][..]));
        let mark = a.mark();
        a.forget(&key());
        a.keep(key(), Arc::from([9u8]), mark);
        assert_eq!(a.get(&key()), None);
        a.keep(key(), Arc::from([9u8]), a.mark());
        a.keep(vec![1, 3], Arc::from([8u8]), a.mark());
        a.forget_all(&[1, 2]);
        assert_eq!((a.get(&key()), a.get(&[1, 3]).is_some()), (None, true));
    }
}
