//! Handles: what a program holds is a pointer to an [`Object`], whose first word is the dispatch
//! table that the loader calls through.

use super::dispatch;
use super::server::{Server, lock};
use busbar_abi::opencl::*;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// The kind of an object: a body type and the error for a handle that is not one.
pub trait Body {
    /// Tells objects of this kind from all others and from stray memory.
    const MAGIC: u32;
    /// What an invalid handle is answered with.
    const INVALID: i32;
    /// Whether [`find`] knows objects of this kind.
    const LISTED: bool = false;
    /// The last reference is gone: what the object still has to do.
    fn retire(&mut self, _handle: Handle) {}
}

/// One object of the API.
#[repr(C)]
pub struct Object<T: Body> {
    dispatch: *const c_void,
    /// The loader's own word, as `cl_khr_icd` 2.0 places it.
    loader_data: AtomicPtr<c_void>,
    magic: AtomicU32,
    refs: AtomicU32,
    /// The name of the worker's counterpart; 0 when there is none.
    pub id: u32,
    /// Where it lives.
    pub server: &'static Server,
    /// The rest.
    pub body: T,
}

// SAFETY: the dispatch pointer leads to a constant table, and bodies are Send.
unsafe impl<T: Body + Send> Send for Object<T> {}
// SAFETY: as above, with bodies that are Sync.
unsafe impl<T: Body + Sync> Sync for Object<T> {}

impl<T: Body> std::ops::Deref for Object<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.body
    }
}

impl<T: Body> Object<T> {
    /// An object with one reference of the program's.
    pub fn new(server: &'static Server, id: u32, body: T) -> Arc<Self> {
        let object = Arc::new(Self {
            dispatch: dispatch::table(),
            loader_data: AtomicPtr::new(std::ptr::null_mut()),
            magic: AtomicU32::new(T::MAGIC),
            refs: AtomicU32::new(1),
            id,
            server,
            body,
        });
        if T::LISTED {
            lock(&LIST).insert(object.handle() as usize, (T::MAGIC, id));
        }
        object
    }

    /// The handle of an object that the program holds anyway.
    #[inline]
    pub fn handle(&self) -> Handle {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Gives the program's first reference away as a handle.
    pub fn give(self: Arc<Self>) -> Handle {
        Arc::into_raw(self).cast_mut().cast()
    }

    /// A reference of our own.
    pub fn keep(&self) -> Arc<Self> {
        // SAFETY: every object is made by `new` inside an Arc, and `self` proves that it lives.
        unsafe {
            Arc::increment_strong_count(std::ptr::from_ref(self));
            Arc::from_raw(std::ptr::from_ref(self))
        }
    }

    /// The program's references.
    pub fn count(&self) -> u32 {
        self.refs.load(Ordering::Relaxed)
    }
}

impl<T: Body> Drop for Object<T> {
    fn drop(&mut self) {
        self.magic.store(0, Ordering::Relaxed);
        let handle = self.handle();
        if T::LISTED {
            lock(&LIST).remove(&(handle as usize));
        }
        self.body.retire(handle);
        if self.id != 0 {
            self.server.release(self.id);
        }
    }
}

static LIST: Mutex<BTreeMap<usize, (u32, u32)>> = Mutex::new(BTreeMap::new());

/// The magic and the id of a listed object, when `value` is the handle of one. Nothing is read
/// through it, so it may be any number.
pub fn find(value: usize) -> Option<(u32, u32)> {
    lock(&LIST).get(&value).copied()
}

/// The object behind a handle.
///
/// # Safety
/// `handle` is null or points to readable memory of at least an object's head; if it is an object,
/// it outlives `'a` (the program holds a reference during the call).
#[inline]
pub unsafe fn get<'a, T: Body>(handle: Handle) -> Result<&'a Object<T>, i32> {
    if handle.is_null() || !(handle as usize).is_multiple_of(align_of::<Object<T>>()) {
        return Err(T::INVALID);
    }
    let object = handle.cast::<Object<T>>();
    // SAFETY: the caller vouches for a readable head; the magic is an atomic at a fixed place.
    if unsafe { (*object).magic.load(Ordering::Relaxed) } != T::MAGIC {
        return Err(T::INVALID);
    }
    // SAFETY: the magic says that this is a live object of this kind.
    Ok(unsafe { &*object })
}

/// The object behind a handle that may be null.
///
/// # Safety
/// As [`get`].
pub unsafe fn get_opt<'a, T: Body>(handle: Handle) -> Result<Option<&'a Object<T>>, i32> {
    if handle.is_null() {
        return Ok(None);
    }
    // SAFETY: passed on to the caller.
    unsafe { get(handle) }.map(Some)
}

/// `clRetain*`.
///
/// # Safety
/// As [`get`].
pub unsafe fn retain<T: Body>(handle: Handle) -> Result<(), i32> {
    // SAFETY: passed on to the caller.
    let object = unsafe { get::<T>(handle)? };
    object.refs.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// `clRelease*`.
///
/// # Safety
/// As [`get`]; the program gives one of its references up.
pub unsafe fn release<T: Body>(handle: Handle) -> Result<(), i32> {
    // SAFETY: passed on to the caller.
    let object = unsafe { get::<T>(handle)? };
    let before = object
        .refs
        .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |n| n.checked_sub(1));
    match before {
        Err(_) => Err(T::INVALID),
        Ok(1) => {
            // SAFETY: `give` made this reference, and the program has just given up its last one.
            drop(unsafe { Arc::from_raw(std::ptr::from_ref(object)) });
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}
