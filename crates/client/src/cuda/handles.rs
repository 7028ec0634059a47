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
//! | 39..46 | a constant |
//!
//! Where a kernel is to know an object by its handle (a graph that it launches), the program holds
//! the driver's own instead: an alias of the id.
//!
//! Ids are chosen here, so making an object needs no answer from the worker. Ids with the top bit
//! set are the worker's to choose, for objects that come into being there (nodes of a captured
//! graph).

use busbar_abi::cuda::{CUDA_ERROR_UNKNOWN, CUresult};
use busbar_wire::generated::cuda::Kind;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

const TAG: u64 = 0x5b << 39;
const ID_BITS: u32 = 22;
const ID_MASK: u64 = (1 << ID_BITS) - 1;
const CHUNK: usize = 4096;
const CHUNKS: usize = (1 << ID_BITS) / CHUNK;
/// Ids from here on are chosen by the worker.
pub use busbar_wire::generated::cuda::contract::WORKER_IDS;
const _: () = assert!(WORKER_IDS == 1 << (ID_BITS - 1));

/// One entry: bit 0 alive, bits 8..16 generation, bits 32..64 the context it was made in.
type Slot = AtomicU64;

/// An entry for every id, in pieces that are made when they are first needed. A piece, once
/// published, is never freed: a look-up is two loads and no lock.
struct Chunks<T>([AtomicPtr<[T; CHUNK]>; CHUNKS]);

/// A new piece, made where it stays: a thread of the program may have little stack.
fn chunk<T>(empty: fn() -> T) -> Box<[T; CHUNK]> {
    let all: Box<[T]> = std::iter::repeat_with(empty).take(CHUNK).collect();
    all.try_into().ok().expect("as many as were taken")
}

impl<T> Chunks<T> {
    const fn new() -> Self {
        Self([const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS])
    }

    #[inline]
    fn get(&self, id: u32) -> Option<&T> {
        let chunk = self.0.get(id as usize / CHUNK)?.load(Ordering::Acquire);
        // SAFETY: a chunk, once published, is never freed.
        unsafe { chunk.as_ref() }.map(|c| &c[id as usize % CHUNK])
    }

    /// The entry of `id`; those of a new piece are `empty`.
    fn get_or_make(&self, id: u32, empty: fn() -> T) -> &T {
        let at = &self.0[id as usize / CHUNK];
        if at.load(Ordering::Acquire).is_null() {
            let fresh = Box::into_raw(chunk(empty));
            let won = at.compare_exchange(
                std::ptr::null_mut(),
                fresh,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if won.is_err() {
                // SAFETY: another thread's chunk won; ours was never shared.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
        self.get(id).expect("the chunk was just made")
    }
}

/// The handles of one kind.
pub struct Table {
    slots: Chunks<Slot>,
    next: AtomicU32,
    free: Mutex<Vec<u32>>,
    /// Ids that are not to be used again yet.
    kept: Mutex<Vec<u32>>,
}

impl Table {
    const fn new() -> Self {
        Self {
            slots: Chunks::new(),
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
        let free = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
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

    fn revive(&self, id: u32, context: u32) {
        let slot = self.slot_or_make(id);
        let old = slot.load(Ordering::Relaxed);
        let generation = (old >> 8).wrapping_add(1) & 0xff;
        slot.store(
            u64::from(context) << 32 | generation << 8 | 1,
            Ordering::Release,
        );
    }
}

/// Handles of the driver's, and the ids that they stand for.
static ALIASES: RwLock<BTreeMap<(usize, u64), u32>> = RwLock::new(BTreeMap::new());
/// Whether there has been any.
static ALIASED: AtomicBool = AtomicBool::new(false);

/// From now on the program knows a living object by the driver's handle, which this gives back;
/// `None` if that number could be taken for one of ours.
pub fn alias(kind: Kind, own: u64, id: u32) -> Option<u64> {
    if own == 0 || own >> 39 == TAG >> 39 {
        crate::log!(
            Warn,
            "the driver's handle {own:#x} cannot be told from Busbar's own"
        );
        return None;
    }
    let mut aliases = ALIASES.write().unwrap_or_else(PoisonError::into_inner);
    aliases.insert((kind as usize, own), id);
    ALIASED.store(true, Ordering::Release);
    Some(own)
}

/// The id that a handle of the driver's stands for.
#[cold]
fn aliased(kind: Kind, own: u64) -> Option<u32> {
    if !ALIASED.load(Ordering::Acquire) {
        return None;
    }
    let aliases = ALIASES.read().unwrap_or_else(PoisonError::into_inner);
    aliases.get(&(kind as usize, own)).copied()
}

static TABLES: [Table; Kind::COUNT] = [const { Table::new() }; Kind::COUNT];

/// Makes a handle's id; the object belongs to `context`.
pub fn create(kind: Kind, context: u32) -> u32 {
    TABLES[kind as usize].create(context)
}

/// Takes in an object that the worker made, under the id that it chose. The same id gives the same
/// handle until it is destroyed. An error when the id is not the worker's to choose.
pub fn adopt(kind: Kind, id: u32, context: u32) -> Result<u64, CUresult> {
    let t = &TABLES[kind as usize];
    let lives = |s: &Slot| s.load(Ordering::Acquire) & 1 == 1;
    if !t.slot(id).is_some_and(lives) {
        if !(WORKER_IDS..1 << ID_BITS).contains(&id) {
            crate::log!(Error, "the worker chose an id that it may not: {id:#x}");
            return Err(CUDA_ERROR_UNKNOWN);
        }
        t.revive(id, context);
    }
    Ok(raw(kind, id))
}

/// The handle of an id that is alive.
pub fn raw(kind: Kind, id: u32) -> u64 {
    let s = TABLES[kind as usize]
        .slot(id)
        .map_or(0, |s| s.load(Ordering::Acquire));
    let generation = s >> 8 & 0xff;
    TAG | (kind as u64 + 1) << 34 | generation << 26 | u64::from(id) << 4
}

/// The id of a handle; `None` when it is not a living handle of this kind.
#[inline]
pub fn id(kind: Kind, raw: u64) -> Option<u32> {
    if raw >> 34 != (TAG >> 34 | (kind as u64 + 1)) || raw & 0xf != 0 {
        return aliased(kind, raw);
    }
    let id = (raw >> 4 & ID_MASK) as u32;
    let s = TABLES[kind as usize].slot(id)?.load(Ordering::Acquire);
    (s & 1 == 1 && s >> 8 & 0xff == raw >> 26 & 0xff).then_some(id)
}

/// Whether a number is a handle of this kind that lives or once did.
pub fn ever(kind: Kind, raw: u64) -> bool {
    if raw >> 34 != (TAG >> 34 | (kind as u64 + 1)) || raw & 0xf != 0 {
        return false;
    }
    let slot = TABLES[kind as usize].slot(id_in(raw));
    let generation = slot.map_or(0, |s| s.load(Ordering::Acquire) >> 8 & 0xff);
    (1..=generation).contains(&(raw >> 26 & 0xff))
}

/// The id in a handle that was alive once; 0 of null.
#[inline]
pub fn id_in(raw: u64) -> u32 {
    (raw >> 4 & ID_MASK) as u32
}

/// The context that a living object was made in; 0 when there was none.
#[inline]
pub fn context(kind: Kind, id: u32) -> u32 {
    TABLES[kind as usize]
        .slot(id)
        .map_or(0, |s| (s.load(Ordering::Acquire) >> 32) as u32)
}

/// Ends a handle; its id may be used again.
pub fn destroy(kind: Kind, id: u32) {
    let t = &TABLES[kind as usize];
    if ALIASED.load(Ordering::Acquire) {
        let mut aliases = ALIASES.write().unwrap_or_else(PoisonError::into_inner);
        aliases.retain(|(k, _), of| (*k, *of) != (kind as usize, id));
    }
    if let Some(s) = t.slot(id)
        && s.fetch_and(!1, Ordering::AcqRel) & 1 == 1
        && id < WORKER_IDS
    {
        // What is cached of a function or stream is keyed by its id, so those are not used again:
        // functions never, streams when there is no other id.
        let list = match kind {
            Kind::Function => return,
            Kind::Stream => &t.kept,
            _ => &t.free,
        };
        list.lock().unwrap_or_else(PoisonError::into_inner).push(id);
    }
}

/// Whether there is no id left of a kind, but for those that [`use_again`] gives.
#[inline]
pub fn used_up(kind: Kind) -> bool {
    let t = &TABLES[kind as usize];
    t.next.load(Ordering::Relaxed) >= WORKER_IDS
        && t.free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
}

/// Lets ids be used again that were kept from it: nothing is known under them any more.
pub fn use_again(kind: Kind) {
    let t = &TABLES[kind as usize];
    let kept = std::mem::take(&mut *t.kept.lock().unwrap_or_else(PoisonError::into_inner));
    t.free
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .extend(kept);
}

/// Whether no more than `n` objects of a kind have ever lived at a time.
pub fn at_most(kind: Kind, n: u32) -> bool {
    TABLES[kind as usize].next.load(Ordering::Acquire) <= n + 1
}

/// Every living id of a kind that belongs to `context`.
pub fn living(kind: Kind, context: u32) -> Vec<u32> {
    let t = &TABLES[kind as usize];
    let end = t.next.load(Ordering::Acquire);
    (1..end)
        .filter(|id| {
            let s = t.slot(*id).map_or(0, |s| s.load(Ordering::Acquire));
            s & 1 == 1 && (s >> 32) as u32 == context
        })
        .collect()
}

/// What the client knows of objects of one kind, by id. Entries are set once and live as long as
/// the process; ids of such kinds are not used again.
pub struct Side<T: 'static>(Chunks<AtomicPtr<T>>);

impl<T> Side<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Self(Chunks::new())
    }

    /// What is known of `id`.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&'static T> {
        let entry = self.0.get(id)?.load(Ordering::Acquire);
        // SAFETY: an entry, once published, is never freed.
        unsafe { entry.as_ref() }
    }

    /// Sets what is known of `id`.
    pub fn set(&self, id: u32, v: T) -> &'static T {
        let v = Box::leak(Box::new(v));
        self.0
            .get_or_make(id, || AtomicPtr::new(std::ptr::null_mut()))
            .store(v, Ordering::Release);
        v
    }
}

impl<T> Default for Side<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_known_until_it_is_destroyed() {
        let kind = Kind::Event;
        let id1 = create(kind, 3);
        let h = raw(kind, id1);
        assert_eq!(id(kind, h), Some(id1));
        assert_eq!(id(Kind::Stream, h), None);
        assert_eq!(id(kind, h + 1), None);
        assert_eq!(context(kind, id1), 3);
        destroy(kind, id1);
        assert_eq!(id(kind, h), None);
        let id2 = create(kind, 0);
        assert_eq!(id2, id1, "ids are used again");
        assert_eq!(id(kind, h), None, "but an old handle stays dead");
        assert!(ever(kind, h) && ever(kind, raw(kind, id2)));
        assert!(!ever(kind, h + (2 << 26)), "one that is yet to come");
        assert!(!ever(Kind::Stream, h));
        assert!(h < 1 << 47, "a user-space address");
    }

    #[test]
    fn a_handle_of_the_drivers_stands_for_an_object_while_that_lives() {
        let kind = Kind::GraphExec;
        let own = 0x7f12_3456_7890;
        let of = create(kind, 0);
        assert_eq!(alias(kind, own, of), Some(own));
        assert_eq!(id(kind, own), Some(of));
        assert_eq!(id(Kind::Graph, own), None, "not of another kind");
        let other = create(kind, 0);
        destroy(kind, other);
        assert_eq!(id(kind, own), Some(of), "another's end is not its own");
        destroy(kind, of);
        assert_eq!(id(kind, own), None);
        // The driver may use the number again.
        let next = create(kind, 0);
        assert_eq!(alias(kind, own, next), Some(own));
        assert_eq!(id(kind, own), Some(next));
        assert_eq!(alias(kind, raw(kind, next), next), None, "it could be ours");
    }

    #[test]
    fn ids_of_streams_are_used_again_when_there_is_no_other() {
        let kind = Kind::Stream;
        let (first, old) = (create(kind, 0), create(kind, 0));
        let h = raw(kind, old);
        destroy(kind, old);
        while !used_up(kind) {
            destroy(kind, create(kind, 0));
        }
        use_again(kind);
        assert!(!used_up(kind));
        let all: Vec<u32> = (0..1000).map(|_| create(kind, 0)).collect();
        assert!(!all.contains(&first), "it lives");
        assert!(all.iter().all(|id| *id < WORKER_IDS));
        assert_eq!(id(kind, h), None);
    }

    #[test]
    fn wild_numbers_are_no_handles() {
        for raw in [0, 1, 2, u64::MAX, TAG, 0x7fff_ffff_f000] {
            assert_eq!(id(Kind::Stream, raw), None);
            assert!(!ever(Kind::Stream, raw));
        }
    }
}
