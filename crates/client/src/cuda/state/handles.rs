//! Handles: what the program holds, and the small ids that stand for them on the wire.
//!
//! A handle is an address-like number that never points at anything:
//!
//! | bits | meaning |
//! |---|---|
//! | 0..4 | zero |
//! | 4..26 | the id: an index into the table of its kind |
//! | 26..34 | generation, so that a handle kept after its object died is noticed |
//! | 34..39 | kind + 1 |
//! | 39..43 | the server that has the object, of several |
//! | 43..46 | a constant |
//!
//! Where a kernel is to know an object by its handle (a graph that it launches), the program holds
//! the driver's own instead: an alias of the id.
//!
//! Ids are chosen here, so making an object needs no answer from the worker. Ids with the top bit
//! set are the worker's to choose, for objects that come into being there (nodes of a captured
//! graph).

use super::prelude::*;
use crate::chunks::{Chunks, ID_BITS};
use crate::lock::{read, write};
use crate::servers::MOST_SERVERS;
use busbar_abi::cuda::{CUDA_ERROR_UNKNOWN, CUresult};
use busbar_wire::generated::cuda::Kind;
use std::sync::RwLock;

const TAG: u64 = 5 << 43;
/// Where the server's number is in a handle.
const SERVER: u32 = 39;
const _: () = assert!(MOST_SERVERS == 1 << (43 - SERVER));
const ID_MASK: u64 = (1 << ID_BITS) - 1;
/// What all handles of a kind have in common.
const FIXED: u64 = u64::MAX << 34 | 0xf;
/// Ids from here on are chosen by the worker.
pub use busbar_wire::generated::cuda::contract::WORKER_IDS;
const _: () = assert!(WORKER_IDS == 1 << (ID_BITS - 1));

/// One entry: bit 0 alive, bits 8..16 generation, bits 32..64 the context it was made in.
type Slot = AtomicU64;

/// The handles of one kind.
struct Table {
    slots: Chunks<Slot>,
    next: AtomicU32,
    free: Mutex<Vec<u32>>,
    /// Ids that are not to be used again yet.
    kept: Mutex<Vec<u32>>,
}

impl Table {
    fn new() -> Self {
        Self {
            slots: Chunks::default(),
            // Id 0 means "none" on the wire.
            next: AtomicU32::new(1),
            free: Mutex::new(Vec::new()),
            kept: Mutex::new(Vec::new()),
        }
    }

    #[inline]
    fn slot(&self, id: u32) -> Option<&Slot> {
        self.slots.get(id)
    }

    fn slot_or_make(&self, id: u32) -> &Slot {
        self.slots.get_or_make(id, || AtomicU64::new(0))
    }

    fn create(&self, context: u32) -> u32 {
        let free = lock(&self.free).pop();
        let next = |n: u32| (n < WORKER_IDS).then_some(n + 1);
        let id = free.or_else(|| {
            let next = self
                .next
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, next);
            next.ok()
        });
        let id = id.expect("out of handles");
        self.revive(id, context);
        id
    }

    /// Has an id live. It stays as it is if it does: threads may hear of the same object at once.
    fn revive(&self, id: u32, context: u32) {
        let new = |old: u64| {
            let generation = (old >> 8).wrapping_add(1) & 0xff;
            (old & 1 == 0).then_some(u64::from(context) << 32 | generation << 8 | 1)
        };
        let slot = self.slot_or_make(id);
        let _ = slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, new);
    }
}

/// The handles of a client.
pub struct Handles {
    /// What all of them have in common.
    tag: u64,
    tables: Box<[Table; Kind::COUNT]>,
    /// Handles of the driver's, and the ids that they stand for.
    aliases: RwLock<BTreeMap<(usize, u64), u32>>,
    /// Whether there has been any.
    aliased: AtomicBool,
}

impl Default for Handles {
    fn default() -> Self {
        Self::of(0)
    }
}

impl Handles {
    /// None, of so manieth a server.
    pub fn of(server: usize) -> Self {
        let tables: Box<[_]> = Kind::ALL.iter().map(|_| Table::new()).collect();
        Self {
            tag: TAG | (server as u64) << SERVER,
            tables: tables.try_into().ok().expect("one of each kind"),
            aliases: RwLock::default(),
            aliased: AtomicBool::new(false),
        }
    }

    #[inline]
    fn table(&self, kind: Kind) -> &Table {
        &self.tables[kind as usize]
    }

    #[inline]
    fn fixed(&self, kind: Kind) -> u64 {
        self.tag | (kind as u64 + 1) << 34
    }

    /// From now on the program knows a living object by another's handle, the driver's or that of
    /// another server's object, which this gives back; `None` if that number could be taken for one
    /// of ours.
    pub fn alias(&self, kind: Kind, own: u64, id: u32) -> Option<u64> {
        if own == 0 || own >> SERVER == self.tag >> SERVER {
            return None;
        }
        let mut aliases = write(&self.aliases);
        aliases.insert((kind as usize, own), id);
        self.aliased.store(true, Ordering::Release);
        Some(own)
    }

    /// The id that a handle of the driver's stands for.
    #[cold]
    fn by_alias(&self, kind: Kind, own: u64) -> Option<u32> {
        if !self.aliased.load(Ordering::Acquire) {
            return None;
        }
        let aliases = read(&self.aliases);
        aliases.get(&(kind as usize, own)).copied()
    }

    /// Makes a handle's id; the object belongs to `context`.
    pub fn create(&self, kind: Kind, context: u32) -> u32 {
        self.table(kind).create(context)
    }

    /// Takes in an object that the worker made, under the id that it chose. The same id gives the
    /// same handle until it is destroyed. An error when the id is not the worker's to choose.
    pub fn adopt(&self, kind: Kind, id: u32, context: u32) -> Result<u64, CUresult> {
        let t = self.table(kind);
        let lives = |s: &Slot| s.load(Ordering::Acquire) & 1 == 1;
        if !t.slot(id).is_some_and(lives) && !(WORKER_IDS..1 << ID_BITS).contains(&id) {
            return Err(CUDA_ERROR_UNKNOWN);
        }
        t.revive(id, context);
        Ok(self.raw(kind, id))
    }

    /// The handle of an id that is alive.
    pub fn raw(&self, kind: Kind, id: u32) -> u64 {
        let s = self.table(kind).slot(id);
        let generation = s.map_or(0, |s| s.load(Ordering::Acquire)) >> 8 & 0xff;
        self.fixed(kind) | generation << 26 | u64::from(id) << 4
    }

    /// The id of a handle; `None` when it is not a living handle of this kind.
    #[inline]
    pub fn id(&self, kind: Kind, raw: u64) -> Option<u32> {
        if raw & FIXED != self.fixed(kind) {
            return self.by_alias(kind, raw);
        }
        let id = (raw >> 4 & ID_MASK) as u32;
        let s = self.table(kind).slot(id)?.load(Ordering::Acquire);
        (s & 1 == 1 && s >> 8 & 0xff == raw >> 26 & 0xff).then_some(id)
    }

    /// Whether a number is a handle of this kind that lives or once did.
    pub fn ever(&self, kind: Kind, raw: u64) -> bool {
        if raw & FIXED != self.fixed(kind) {
            return false;
        }
        let slot = self.table(kind).slot(id_in(raw));
        let generation = slot.map_or(0, |s| s.load(Ordering::Acquire) >> 8 & 0xff);
        (1..=generation).contains(&(raw >> 26 & 0xff))
    }

    /// The context that a living object was made in; 0 when there was none.
    #[inline]
    pub fn context(&self, kind: Kind, id: u32) -> u32 {
        self.table(kind)
            .slot(id)
            .map_or(0, |s| (s.load(Ordering::Acquire) >> 32) as u32)
    }

    /// Ends a handle; its id may be used again. What else is known of the object ends with
    /// [`super::State::retire`], which calls this.
    pub fn destroy(&self, kind: Kind, id: u32) {
        let t = self.table(kind);
        if self.aliased.load(Ordering::Acquire) {
            let mut aliases = write(&self.aliases);
            aliases.retain(|(k, _), of| (*k, *of) != (kind as usize, id));
        }
        if let Some(s) = t.slot(id)
            && s.fetch_and(!1, Ordering::AcqRel) & 1 == 1
            && id < WORKER_IDS
        {
            // What is cached of a function or stream is keyed by its id, so those are not used
            // again: functions never, streams when there is no other id.
            let list = match kind {
                Kind::Function => return,
                Kind::Stream => &t.kept,
                _ => &t.free,
            };
            lock(list).push(id);
        }
    }

    /// Whether there is no id left of a kind, but for those that [`Handles::use_again`] gives.
    #[inline]
    pub fn used_up(&self, kind: Kind) -> bool {
        let t = self.table(kind);
        t.next.load(Ordering::Relaxed) >= WORKER_IDS && lock(&t.free).is_empty()
    }

    /// Lets ids be used again that were kept from it: nothing is known under them any more.
    pub fn use_again(&self, kind: Kind) {
        let t = self.table(kind);
        let kept = std::mem::take(&mut *lock(&t.kept));
        lock(&t.free).extend(kept);
    }

    /// Whether no more than `n` objects of a kind have ever lived at a time.
    pub fn at_most(&self, kind: Kind, n: u32) -> bool {
        self.table(kind).next.load(Ordering::Acquire) <= n + 1
    }

    /// Every living id of a kind that was chosen here and belongs to `context`.
    pub fn living(&self, kind: Kind, context: u32) -> Vec<u32> {
        let t = self.table(kind);
        let end = t.next.load(Ordering::Acquire);
        let of_it = |id: &u32| {
            let s = t.slot(*id).map_or(0, |s| s.load(Ordering::Acquire));
            s & 1 == 1 && (s >> 32) as u32 == context
        };
        (1..end).filter(of_it).collect()
    }
}

/// Which server's object a number would be the handle of.
pub fn server_in(raw: u64) -> Option<usize> {
    (raw >> 43 == TAG >> 43).then_some((raw >> SERVER) as usize % MOST_SERVERS)
}

/// The id in a handle that was alive once; 0 of null.
#[inline]
pub fn id_in(raw: u64) -> u32 {
    (raw >> 4 & ID_MASK) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_known_until_it_is_destroyed() {
        let h = Handles::of(0);
        let kind = Kind::Event;
        let id1 = h.create(kind, 3);
        let handle = h.raw(kind, id1);
        assert_eq!(h.id(kind, handle), Some(id1));
        assert_eq!(h.id(Kind::Stream, handle), None);
        assert_eq!(h.id(kind, handle + 1), None);
        assert_eq!(h.context(kind, id1), 3);
        h.destroy(kind, id1);
        assert_eq!(h.id(kind, handle), None);
        let id2 = h.create(kind, 0);
        assert_eq!(id2, id1, "ids are used again");
        assert_eq!(h.id(kind, handle), None, "but an old handle stays dead");
        assert!(h.ever(kind, handle) && h.ever(kind, h.raw(kind, id2)));
        assert!(!h.ever(kind, handle + (2 << 26)), "one that is yet to come");
        assert!(!h.ever(Kind::Stream, handle));
        assert!(handle < 1 << 47, "a user-space address");
    }

    #[test]
    fn threads_that_hear_of_an_object_at_once_have_the_same_handle() {
        let kind = Kind::MemoryPool;
        for round in 0..200 {
            let (h, id) = (Handles::of(0), WORKER_IDS + round);
            let ready = std::sync::Barrier::new(4);
            let adopt = || {
                ready.wait();
                h.adopt(kind, id, 0).unwrap()
            };
            let all = std::thread::scope(|s| {
                let threads = [(); 4].map(|()| s.spawn(adopt));
                threads.map(|t| t.join().unwrap())
            });
            assert!(
                all.iter().all(|raw| h.id(kind, *raw) == Some(id)),
                "{all:x?}"
            );
        }
    }

    #[test]
    fn a_handle_of_the_drivers_stands_for_an_object_while_that_lives() {
        let h = Handles::of(0);
        let kind = Kind::GraphExec;
        let own = 0x7f12_3456_7890;
        let of = h.create(kind, 0);
        assert_eq!(h.alias(kind, own, of), Some(own));
        assert_eq!(h.id(kind, own), Some(of));
        assert_eq!(h.id(Kind::Graph, own), None, "not of another kind");
        let other = h.create(kind, 0);
        h.destroy(kind, other);
        assert_eq!(h.id(kind, own), Some(of), "another's end is not its own");
        h.destroy(kind, of);
        assert_eq!(h.id(kind, own), None);
        // The driver may use the number again.
        let next = h.create(kind, 0);
        assert_eq!(h.alias(kind, own, next), Some(own));
        assert_eq!(h.id(kind, own), Some(next));
        assert_eq!(
            h.alias(kind, h.raw(kind, next), next),
            None,
            "it could be ours"
        );
    }

    #[test]
    fn ids_of_streams_are_used_again_when_there_is_no_other() {
        let h = Handles::of(0);
        let kind = Kind::Stream;
        let (first, old) = (h.create(kind, 0), h.create(kind, 0));
        let handle = h.raw(kind, old);
        h.destroy(kind, old);
        while !h.used_up(kind) {
            h.destroy(kind, h.create(kind, 0));
        }
        h.use_again(kind);
        assert!(!h.used_up(kind));
        let all: Vec<u32> = (0..1000).map(|_| h.create(kind, 0)).collect();
        assert!(!all.contains(&first), "it lives");
        assert!(all.iter().all(|id| *id < WORKER_IDS));
        assert_eq!(h.id(kind, handle), None);
    }

    #[test]
    fn wild_numbers_are_no_handles() {
        let h = Handles::of(0);
        for raw in [0, 1, 2, u64::MAX, TAG, 0x7fff_ffff_f000] {
            assert_eq!(h.id(Kind::Stream, raw), None);
            assert!(!h.ever(Kind::Stream, raw));
        }
    }
}
