//! Module images by hash: asked of the store, and else of the client, once; then the store keeps
//! them for every later session. What was made here, such as built programs, is kept beside them
//! under the hash of all that it was made from.

use crate::outbox::Outbox;
use crate::prelude::*;
use busbar_control::store::Name;
use busbar_store::{LONGEST, Link};
use std::os::fd::OwnedFd;

/// The name of a piece of content.
pub type Hash = [u8; 32];

#[derive(Default)]
struct State {
    wanted: Option<Hash>,
    arriving: HashMap<Hash, Vec<u8>>,
    here: HashMap<Hash, Option<Vec<u8>>>,
}

struct Inner {
    store: Link,
    /// The store is not yet to be told whose code runs here.
    trusted: AtomicBool,
    state: Mutex<State>,
    came: Condvar,
    wanting: AtomicBool,
    /// Bytes that have come of all that was wanted.
    came_so_far: AtomicUsize,
    outbox: Outbox,
    /// The log has heard that the store cannot be written to.
    complained: AtomicBool,
}

/// A session's view of the content store.
#[derive(Clone)]
pub struct Content {
    inner: Arc<Inner>,
}

impl Content {
    /// With the store at the other end of `store` (none: nothing outlives the session). `guarded`:
    /// it is told when a client's code begins to run here.
    pub fn new(store: Option<OwnedFd>, guarded: bool, outbox: Outbox) -> Self {
        Self {
            inner: Arc::new(Inner {
                store: Link::new(store),
                trusted: AtomicBool::new(guarded),
                state: Mutex::default(),
                came: Condvar::new(),
                wanting: AtomicBool::new(false),
                came_so_far: AtomicUsize::new(0),
                outbox,
                complained: AtomicBool::new(false),
            }),
        }
    }

    /// The bytes with this hash, from disk or from the client; `None` when the client does not have
    /// them or is gone.
    pub fn get(&self, hash: &Hash) -> Option<Vec<u8>> {
        let i = &*self.inner;
        let name = Name {
            hash: *hash,
            made: false,
        };
        if let Some(bytes) = i.store.get(name) {
            return Some(bytes);
        }
        lock(&i.state).wanted = Some(*hash);
        i.wanting.store(true, Ordering::Release);
        i.outbox.need_content(hash);
        let mut s = lock(&i.state);
        let got = loop {
            if let Some(got) = s.here.remove(hash) {
                break got;
            }
            if i.outbox.closed() {
                break None;
            }
            let wait = Duration::from_millis(100);
            s = i
                .came
                .wait_timeout(s, wait)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        };
        i.wanting.store(false, Ordering::Release);
        s.wanted = None;
        s.arriving.clear();
        drop(s);
        if let Some(bytes) = &got {
            self.put(name, bytes);
        }
        got
    }

    /// Whether the executor waits for content at this moment: the intake must then go on reading
    /// whatever happens.
    pub fn wanting(&self) -> bool {
        self.inner.wanting.load(Ordering::Acquire)
    }

    /// Bytes of wanted content that the session has sent, up to the most that one piece has.
    pub fn arrived_bytes(&self) -> usize {
        let n = self.inner.came_so_far.load(Ordering::Relaxed);
        n.min(LONGEST as usize)
    }

    /// A piece has arrived: hash, u64 total, u64 offset, bytes.
    pub fn arrived(&self, payload: &[u8]) -> Result<(), String> {
        let Some((head, bytes)) = payload.split_at_checked(48) else {
            return Err("a piece of content is cut short".into());
        };
        let u64_at = |i: usize| {
            let mut b = [0; 8];
            b.copy_from_slice(&head[i..i + 8]);
            u64::from_le_bytes(b)
        };
        let mut hash = [0; 32];
        hash.copy_from_slice(&head[..32]);
        let (total, offset) = (u64_at(32), u64_at(40));
        if total > LONGEST {
            return Err(format!(
                "content of {total} bytes is above the limit of {LONGEST}"
            ));
        }
        // What nobody waits for is dropped: a client cannot fill memory with content unasked.
        let mut s = lock(&self.inner.state);
        if s.wanted != Some(hash) {
            return Ok(());
        }
        let have = s.arriving.get(&hash).map_or(0, |v| v.len() as u64);
        if offset != have || offset + bytes.len() as u64 > total {
            return Err("a piece of content is out of place".into());
        }
        let v = s.arriving.entry(hash).or_default();
        v.extend_from_slice(bytes);
        self.inner
            .came_so_far
            .fetch_add(bytes.len(), Ordering::Relaxed);
        if v.len() as u64 == total {
            let v = s.arriving.remove(&hash).unwrap_or_default();
            let good = total > 0 && *blake3::hash(&v).as_bytes() == hash;
            s.here.insert(hash, good.then_some(v));
            drop(s);
            self.inner.came.notify_all();
        }
        Ok(())
    }

    /// What an earlier session has put under `key`, which names how it was made instead of what it
    /// is.
    pub fn kept(&self, key: &Hash) -> Option<Vec<u8>> {
        let (hash, made) = (*key, true);
        self.inner.store.get(Name { hash, made })
    }

    /// Puts something that was made here under `key`, for later sessions.
    pub fn keep(&self, key: &Hash, made: &[u8]) {
        let (hash, bytes) = (*key, made);
        self.put(Name { hash, made: true }, bytes);
    }

    /// Code of the client's is about to run in this process.
    pub fn clients_code_runs(&self) {
        if self.inner.trusted.load(Ordering::Relaxed) {
            self.inner.trusted.store(false, Ordering::Relaxed);
            self.inner.store.distrust();
        }
    }

    fn put(&self, name: Name, bytes: &[u8]) {
        let i = &*self.inner;
        // A full disk is full for whatever comes next, too.
        if let Err(e) = i.store.put(name, bytes)
            && !i.complained.swap(true, Ordering::Relaxed)
        {
            crate::complain!("cannot write to the cache {e}; what this session loads is not kept");
        }
    }
}
