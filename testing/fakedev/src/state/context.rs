//! Contexts, and which one is current on each thread.

use super::device;
use super::handle::{self, Table};
use super::stream::{Order, STREAMS, Stream};
use crate::ffi::*;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread;

const CONTEXT_IS_DESTROYED: CUresult = 709;

/// The limits that `cuCtxSetLimit` knows, with their first values.
const LIMITS: [usize; 8] = [1024, 7 << 20, 8 << 20, 2, 2048, 128, 0, 0];

/// The place of that of the stack of each thread.
const STACK_SIZE: usize = 0;

/// All contexts, by handle. A destroyed one leaves the table; a primary one never does.
pub static CONTEXTS: Table<Context> = Table::new();
/// Handles of contexts that the program has destroyed.
pub static ENDED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

thread_local! {
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    /// Whether the thread is in a function of the program's that a stream waits for.
    static IN_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// What a context-storage entry runs when its context ends: (context, key, value).
pub type StorageDestructor = unsafe extern "C" fn(usize, usize, usize);

/// A context: the owner of streams, memory and modules on one device.
pub struct Context {
    /// Its handle.
    pub handle: usize,
    /// Its device.
    pub device: usize,
    /// Whether it is its device's primary context.
    pub primary: bool,
    /// The flags of its creation.
    pub flags: AtomicU32,
    /// How often the primary context is retained; 1 for another.
    pub retained: AtomicUsize,
    /// The streams and the order in which work is handed to them.
    pub order: Mutex<Order>,
    /// Held while a function of the program's runs: the driver has one thread for those of all
    /// streams.
    pub functions: Mutex<()>,
    /// Whoever hands work in reads it: a call that keeps others out while it waits writes it.
    pub entered: RwLock<()>,
    /// The values of `cuCtxSetLimit`.
    pub limits: Mutex<[usize; 8]>,
    /// The cache preference.
    pub cache_config: AtomicI32,
    /// The shared memory bank size.
    pub bank_config: AtomicI32,
    /// Devices whose contexts this one may read directly.
    pub peers: Mutex<BTreeSet<usize>>,
    /// What libraries keep with the context: key to (value, destructor).
    pub storage: Mutex<HashMap<usize, (usize, Option<StorageDestructor>)>>,
    alive: AtomicBool,
    broken: AtomicI32,
}

impl Context {
    /// A context under a fresh handle; live once it is in [`CONTEXTS`].
    pub fn new(device: usize, flags: u32, primary: bool) -> Arc<Context> {
        let handle = handle::fresh();
        let context = Arc::new(Context {
            handle,
            device,
            primary,
            flags: AtomicU32::new(flags),
            retained: AtomicUsize::new(usize::from(!primary)),
            order: Mutex::default(),
            functions: Mutex::default(),
            entered: RwLock::default(),
            limits: Mutex::new(LIMITS),
            cache_config: AtomicI32::new(0),
            bank_config: AtomicI32::new(0),
            peers: Mutex::default(),
            storage: Mutex::default(),
            alive: AtomicBool::new(!primary),
            broken: AtomicI32::new(0),
        });
        CONTEXTS.insert(handle, context.clone());
        context
    }

    /// The error of a failed kernel, which every later call repeats.
    pub fn status(&self) -> Res {
        match self.broken.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(code),
        }
    }

    /// Breaks the context; the first error stays.
    pub fn poison(&self, code: CUresult) {
        let _ = self
            .broken
            .compare_exchange(0, code, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether the context exists: a primary one that nobody retains does not.
    pub fn alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// Brings a primary context to life.
    pub fn revive(&self) {
        self.broken.store(0, Ordering::Release);
        self.alive.store(true, Ordering::Release);
    }

    /// As [`Context::synchronize`]; nobody hands work in meanwhile. The real driver waits so where
    /// it takes from the device what work may still use.
    pub fn drain(&self) -> Res {
        let _alone = self.entered.write().unwrap();
        self.synchronize()
    }

    /// Waits for all work handed in so far, then tells whether the context still works.
    pub fn synchronize(&self) -> Res {
        for (stream, mark) in self.marks() {
            stream.wait_done(mark);
        }
        self.status()
    }

    /// Whether all work is done.
    pub fn idle(&self) -> bool {
        let order = self.order.lock().unwrap();
        order.all.iter().all(|stream| stream.idle())
    }

    fn marks(&self) -> Vec<(Arc<Stream>, u64)> {
        let order = self.order.lock().unwrap();
        order
            .all
            .iter()
            .map(|stream| (stream.clone(), stream.submitted()))
            .collect()
    }

    /// Waits for the work that a stream was given so far, then tells whether the context still
    /// works.
    pub fn synchronize_stream(&self, stream: &Stream) -> Res {
        if stream.is_legacy() {
            // What the legacy stream waits for counts as its own work.
            for (stream, mark) in self.marks() {
                if stream.blocking() {
                    stream.wait_done(mark);
                }
            }
        } else {
            stream.wait_done(stream.submitted());
        }
        self.status()
    }

    /// Gives each thread that may run so many bytes, which the device has to have.
    pub fn set_stack(&self, bytes: usize) -> Res {
        let mut limits = self.limits.lock().unwrap();
        let after = bytes.checked_next_multiple_of(16).ok_or(INVALID_VALUE)?;
        // What each has from the beginning is in the context's own memory, and stays.
        let beyond = |n: usize| n.saturating_sub(LIMITS[STACK_SIZE]);
        let (had, has) = (beyond(limits[STACK_SIZE]), beyond(after));
        let more = has.saturating_sub(had).checked_mul(device::THREADS);
        let device = device::get(self.device);
        device.charge(more.ok_or(OUT_OF_MEMORY)?)?;
        device.refund(had.saturating_sub(has) * device::THREADS);
        limits[STACK_SIZE] = after;
        Ok(())
    }

    /// A kernel with so much local memory is launched.
    pub fn deepen(&self, local: usize) -> Res {
        let has = self.limits.lock().unwrap()[STACK_SIZE];
        if local > has {
            self.set_stack(local)
        } else {
            Ok(())
        }
    }

    /// Ends the context: no call finds it alive, and its work and its streams come to their ends.
    pub fn end(&self) {
        self.alive.store(false, Ordering::Release);
        let entries = std::mem::take(&mut *self.storage.lock().unwrap());
        for (key, (value, destructor)) in entries {
            if let Some(destructor) = destructor {
                // SAFETY: the library that stored the value gave this function for its end.
                unsafe { destructor(self.handle, key, value) };
            }
        }
        for (stream, mark) in self.marks() {
            stream.wait_done(mark);
        }
        let order = std::mem::take(&mut *self.order.lock().unwrap());
        for stream in order.all {
            stream.destroy();
            let _ = STREAMS.remove(stream.handle);
        }
        self.peers.lock().unwrap().clear();
        let _ = self.set_stack(LIMITS[STACK_SIZE]);
        *self.limits.lock().unwrap() = LIMITS;
    }

    /// The legacy default stream, or that of the calling thread.
    pub fn default_stream(&self, legacy: bool) -> Arc<Stream> {
        let mut guard = self.order.lock().unwrap();
        let order = &mut *guard;
        if legacy {
            if let Some(stream) = &order.legacy {
                return stream.clone();
            }
            let stream = Stream::new(self.handle, STREAM_LEGACY, 0, 0);
            order.legacy = Some(stream.clone());
            order.all.push(stream.clone());
            return stream;
        }
        let id = thread::current().id();
        if let Some(stream) = order.per_thread.get(&id) {
            return stream.clone();
        }
        let stream = Stream::new(self.handle, STREAM_PER_THREAD, 0, 0);
        order.per_thread.insert(id, stream.clone());
        order.all.push(stream.clone());
        stream
    }

    /// The legacy default stream.
    pub fn legacy(&self) -> Arc<Stream> {
        self.default_stream(true)
    }

    /// All streams that still take work.
    pub fn streams(&self) -> Vec<Arc<Stream>> {
        let order = self.order.lock().unwrap();
        order
            .all
            .iter()
            .filter(|stream| stream.live())
            .cloned()
            .collect()
    }

    /// Makes a stream.
    pub fn create_stream(&self, flags: u32, priority: i32) -> Arc<Stream> {
        let stream = Stream::create(self.handle, flags, priority);
        self.order.lock().unwrap().all.push(stream.clone());
        stream
    }
}

/// Forgets all contexts, and what this thread has of them.
pub fn reset() {
    STACK.with_borrow_mut(Vec::clear);
    IN_FUNCTION.set(false);
    ENDED.lock().unwrap().clear();
    CONTEXTS.clear();
}

/// The calling thread's current context, even a broken one.
pub fn current_even_broken() -> R<Arc<Context>> {
    device::initialized()?;
    let handle = current_handle();
    if handle == 0 {
        return Err(INVALID_CONTEXT);
    }
    let context = CONTEXTS.get(handle).map_err(|_| CONTEXT_IS_DESTROYED)?;
    if context.alive() {
        Ok(context)
    } else {
        Err(CONTEXT_IS_DESTROYED)
    }
}

/// The calling thread's current context, in working order.
pub fn current() -> R<Arc<Context>> {
    let context = current_even_broken()?;
    context.status()?;
    Ok(context)
}

/// The context of a handle.
pub fn by_handle(handle: CUcontext) -> R<Arc<Context>> {
    let context = CONTEXTS.get(handle).map_err(|_| INVALID_CONTEXT)?;
    if context.alive() {
        Ok(context)
    } else {
        Err(INVALID_CONTEXT)
    }
}

/// A device's primary context, retained or not.
pub fn primary(device: usize) -> Arc<Context> {
    let fresh = || Context::new(device, 0, true).handle;
    let handle = device::get(device).primary.get(fresh);
    CONTEXTS
        .get(handle)
        .expect("a primary context stays in the table")
}

/// How many contexts are live.
pub fn live() -> usize {
    let all = CONTEXTS.all();
    all.iter().filter(|context| context.alive()).count()
}

/// The handle of the calling thread's current context, 0 for none.
pub fn current_handle() -> usize {
    STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0))
}

/// Whether the calling thread is in a function that a stream waits for.
pub fn in_function() -> bool {
    IN_FUNCTION.get()
}

/// Runs a function of the program's, in which hardly any calls are permitted.
pub fn without_calls(f: impl FnOnce()) {
    IN_FUNCTION.set(true);
    f();
    IN_FUNCTION.set(false);
}

/// Breaks the current context, for a failure on command.
pub fn poison_current(code: CUresult) {
    if let Ok(context) = current_even_broken() {
        context.poison(code);
    }
}

/// Makes a context current above the present one.
pub fn push(handle: usize) {
    STACK.with_borrow_mut(|stack| stack.push(handle));
}

/// Takes the current context off the thread's stack.
pub fn pop() -> R<usize> {
    STACK.with_borrow_mut(Vec::pop).ok_or(INVALID_CONTEXT)
}

/// Replaces the current context; 0 takes it off.
pub fn set(handle: usize) {
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        if handle != 0 {
            stack.push(handle);
        }
    });
}

/// The current context's device, or the first.
pub fn device_of_current() -> i32 {
    current_even_broken().map_or(0, |context| context.device as i32)
}
