//! Handles: a program holds a pointer to an [`Object`], whose first word is the dispatch table that
//! the loader calls through.

use super::Job;
use super::ids::Ids;
use super::prelude::*;
use busbar_abi::opencl::Handle;
use std::ffi::c_void;
use std::sync::atomic::AtomicPtr;

/// Where objects live: a server.
pub trait Owner: Send + Sync + 'static {
    /// The dispatch table that its objects begin with.
    fn table(&self) -> *const c_void;
    /// The names of its objects.
    fn ids(&self) -> &Ids;
    /// An object is gone.
    fn gone(&self, death: Death);
    /// What is queued is to be sent.
    fn flush(&self);
}

/// An object that is gone, and what its end asks for.
pub struct Death {
    /// The kind's [`Body::MAGIC`].
    pub kind: u32,
    /// The name of the worker's counterpart; 0 when there is none.
    pub id: u32,
    /// Functions of the program that are due.
    pub last: Vec<Job>,
}

/// The kind of an object: a body type and the error for a handle that is not one.
pub trait Body: Sized {
    /// Where objects of this kind live.
    type Home: Owner;
    /// Tells objects of this kind from all others and from stray memory.
    const MAGIC: u32;
    /// What an invalid handle is answered with.
    const INVALID: i32;
    /// Whether [`Ids::find`] knows objects of this kind.
    const LISTED: bool = false;
    /// Whether the program's references count: they do not for what the API never frees.
    fn counts(&self) -> bool {
        true
    }
    /// The program has given up its last reference; others may still use the object.
    fn left(&self, _home: &Self::Home) {}
    /// Nobody uses the object any more; what of the program's is to be run now.
    fn retire(&mut self, _handle: Handle) -> Vec<Job> {
        Vec::new()
    }
}

/// A reference to an object.
pub type Ref<T> = Arc<Object<T>>;

/// One object of the API. Its body holds references to the objects that it is a part of: they live
/// on until the last of their children is gone.
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
    pub server: &'static T::Home,
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
    pub fn new(server: &'static T::Home, id: u32, body: T) -> Ref<T> {
        let object = Arc::new(Self {
            dispatch: server.table(),
            loader_data: AtomicPtr::new(std::ptr::null_mut()),
            magic: AtomicU32::new(T::MAGIC),
            refs: AtomicU32::new(1),
            id,
            server,
            body,
        });
        if T::LISTED {
            server.ids().list(object.handle() as usize, T::MAGIC, id);
        }
        object
    }

    /// The handle of an object that the program holds anyway.
    #[inline]
    pub fn handle(&self) -> Handle {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Gives the program's first reference away as a handle.
    pub fn give(self: Ref<T>) -> Handle {
        Arc::into_raw(self).cast_mut().cast()
    }

    /// A reference of our own.
    pub fn keep(&self) -> Ref<T> {
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

    /// Whether this is the same object.
    pub fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl<T: Body> Drop for Object<T> {
    fn drop(&mut self) {
        self.magic.store(0, Ordering::Relaxed);
        let handle = self.handle();
        if T::LISTED {
            self.server.ids().unlist(handle as usize);
        }
        self.server.gone(Death {
            kind: T::MAGIC,
            id: self.id,
            last: self.body.retire(handle),
        });
    }
}

/// The object behind a handle.
///
/// # Safety
/// `handle` is null or points to readable memory of at least an object's head; if it is an object,
/// it outlives `'a` (the program holds a reference during the call).
#[inline]
pub unsafe fn get<'a, T: Body>(handle: Handle) -> Result<&'a Object<T>> {
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

/// `clRetain*`.
pub fn retain<T: Body>(object: &Object<T>) -> Result<()> {
    if object.counts() {
        object.refs.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// `clRelease*`.
///
/// # Safety
/// The program gives one of its references up.
pub unsafe fn release<T: Body>(object: &Object<T>) -> Result<()> {
    if !object.counts() {
        return Ok(());
    }
    let before = object
        .refs
        .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |n| n.checked_sub(1));
    match before {
        Err(_) => Err(T::INVALID),
        Ok(1) => {
            object.left(object.server);
            // SAFETY: `give` made this reference, and the program has just given up its last one.
            drop(unsafe { Arc::from_raw(std::ptr::from_ref(object)) });
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}
