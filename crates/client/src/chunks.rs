//! Tables by small ids that are looked up without a lock.

use std::sync::atomic::{AtomicPtr, Ordering};

/// How many bits an id has.
pub const ID_BITS: u32 = 22;
const CHUNK: usize = 4096;
const CHUNKS: usize = (1 << ID_BITS) / CHUNK;

/// An entry for every id, in pieces that are made when they are first needed. A piece, once
/// published, is never freed: a look-up is two loads and no lock.
pub struct Chunks<T>([AtomicPtr<[T; CHUNK]>; CHUNKS]);

/// A new piece, made where it stays: a thread of the program may have little stack.
fn chunk<T>(empty: fn() -> T) -> Box<[T; CHUNK]> {
    let all: Box<[T]> = std::iter::repeat_with(empty).take(CHUNK).collect();
    all.try_into().ok().expect("as many as were taken")
}

impl<T> Default for Chunks<T> {
    /// A table without pieces.
    fn default() -> Self {
        Self([const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS])
    }
}

impl<T> Chunks<T> {
    /// The entry of `id`, if its piece was made.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&T> {
        let chunk = self.0.get(id as usize / CHUNK)?.load(Ordering::Acquire);
        // SAFETY: a chunk, once published, is never freed.
        unsafe { chunk.as_ref() }.map(|c| &c[id as usize % CHUNK])
    }

    /// The entry of `id`; those of a new piece are `empty`.
    pub fn get_or_make(&self, id: u32, empty: fn() -> T) -> &T {
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

/// What the client knows of objects of one kind, by id. Entries are set once and live as long as
/// the process: ids of such kinds are not used again.
pub struct Side<T: 'static>(Chunks<AtomicPtr<T>>);

impl<T> Side<T> {
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
        Self(Chunks::default())
    }
}
