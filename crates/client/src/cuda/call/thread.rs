//! What each thread of the program has for itself: the current context, its own streams, how it
//! captures, and, where a process has several clients, which one its calls are for.

use super::client::Client;
use crate::cuda::state::handles::{id_in, server_in};
use crate::cuda::state::repeats::{Places, Repeats, Sent};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Entries of a thread's cache of stored values.
const CACHED: usize = 16;

thread_local! {
    /// The client that calls of this thread are for; the process's if there is none.
    static BOUND: Cell<Option<&'static Client>> = const { Cell::new(None) };
    /// The current context's handle: by that it is noticed when another thread has destroyed it.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
    /// The handles of the contexts below the current one.
    static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// The handles of the thread's own default streams, by context. Another thread may end a
    /// context, and its id be another's then.
    static OWN: RefCell<HashMap<u32, u64>> = RefCell::new(HashMap::new());
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
    /// The runtime looks its state up in the storage at every call of its own, some ten thousand
    /// times in a training step: change, context, key, value.
    static STORED: RefCell<[(u64, u32, u64, u64); CACHED]> =
        const { RefCell::new([(0, 0, 0, 0); CACHED]) };
    /// The client, and the context, that the call in progress turned out to be for.
    static ELSEWHERE: Cell<Option<(&'static Client, u64)>> = const { Cell::new(None) };
    /// Whether that one was begun again there.
    static AGAIN: Cell<bool> = const { Cell::new(false) };
    /// Memory in which parameters are put together, and changes of them.
    static SCRATCH: Cell<Scratch> = const { Cell::new((Vec::new(), Vec::new())) };
    /// By client: what its worker keeps of this thread's, and of which kind; none where others have
    /// all places.
    static REPEATS: RefCell<Vec<(*const Places, Option<Repeats>)>> =
        const { RefCell::new(Vec::new()) };
    /// Whether this thread is in a listener, whose own errors must not make it wait for itself.
    static LISTENING: Cell<bool> = const { Cell::new(false) };
    /// The last error that the server's driver has answered a call of this thread's with.
    static ANSWERED: Cell<i32> = const { Cell::new(0) };
    /// Whether this thread is in a function that a stream waits for, which may make few calls.
    static IN_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// The client that this thread's calls are for, if it is not the process's.
#[inline]
pub fn bound() -> Option<&'static Client> {
    BOUND.try_with(Cell::get).unwrap_or(None)
}

/// This thread's calls are for `client` from now on. What the thread had with another is forgotten.
pub fn bind(client: Option<&'static Client>) {
    BOUND.set(client);
    CURRENT.set(0);
    CAPTURE_MODE.set(0);
    STACK.with_borrow_mut(Vec::clear);
    OWN.with_borrow_mut(HashMap::clear);
    STORED.with_borrow_mut(|s| *s = [(0, 0, 0, 0); CACHED]);
}

/// The handle of the current context; 0 for none.
#[inline]
pub fn current_raw() -> u64 {
    CURRENT.try_with(Cell::get).unwrap_or(0)
}

/// The id of the current context; 0 for none.
#[inline]
pub fn current() -> u32 {
    id_in(current_raw())
}

/// Sets the current context. Where a process has several clients, calls are for the context's.
pub fn set_current(client: &'static Client, raw: u64) {
    if client.many {
        let server = server_in(raw).filter(|_| raw != 0);
        let of = server.map_or(client.all().first().copied(), |s| client.of_server(s));
        let _ = BOUND.try_with(|b| b.set(of));
    }
    let _ = CURRENT.try_with(|c| c.set(raw));
}

/// Memory for parameters, and for changes of them.
type Scratch = (Vec<u8>, Vec<u8>);

/// Empty memory for both, to be put back.
pub fn take_scratch() -> Scratch {
    SCRATCH.try_with(Cell::take).unwrap_or_default()
}

/// Puts that back.
pub fn put_scratch(mut scratch: Scratch) {
    scratch.0.clear();
    scratch.1.clear();
    let _ = SCRATCH.try_with(|s| s.set(scratch));
}

/// How bytes of this thread's are sent to where such are kept; see [`Repeats::look`].
pub fn look(of: &'static Places, number: u32, bytes: &[u8], changes: Option<&mut Vec<u8>>) -> Sent {
    let look = |all: &RefCell<Vec<(*const Places, Option<Repeats>)>>| {
        let mut all = all.borrow_mut();
        let known = all.iter().position(|r| std::ptr::eq(r.0, of));
        let known = known.unwrap_or_else(|| {
            all.push((of, Repeats::new(of)));
            all.len() - 1
        });
        let repeats = all[known].1.as_mut();
        repeats.map_or(Sent::Plain, |r| r.look(number, bytes, changes))
    };
    // A thread that ends may launch still.
    REPEATS.try_with(look).unwrap_or(Sent::Plain)
}

/// The call in progress is for another client, in one of its contexts or in none.
pub fn note_elsewhere(client: &'static Client, context: u64) {
    let _ = ELSEWHERE.try_with(|e| e.set(Some((client, context))));
}

/// Where the call that has failed is to be begun again.
pub fn take_elsewhere() -> Option<(&'static Client, u64)> {
    ELSEWHERE.try_with(Cell::take).ok().flatten()
}

/// Runs a call that is begun again as if that context were current.
pub fn elsewhere<T>((client, context): (&'static Client, u64), f: impl FnOnce() -> T) -> T {
    let before = (BOUND.replace(Some(client)), CURRENT.replace(context));
    AGAIN.set(true);
    let t = f();
    AGAIN.set(false);
    BOUND.set(before.0);
    CURRENT.set(before.1);
    t
}

/// Whether the call in progress was begun again.
pub fn is_elsewhere() -> bool {
    AGAIN.get()
}

/// In the child of a fork: the thread has nothing any more.
pub fn leave() {
    let _ = BOUND.try_with(|b| b.set(None));
}

/// A context becomes current; the one before lies below.
pub fn push(client: &'static Client, raw: u64) {
    let old = current_raw();
    if old != 0 {
        STACK.with_borrow_mut(|s| s.push(old));
    }
    set_current(client, raw);
}

/// What lies below the current context on the thread's stack becomes current.
pub fn pop(client: &'static Client) {
    let below = STACK.with_borrow_mut(Vec::pop);
    set_current(client, below.unwrap_or(0));
}

/// The handle of the thread's own default stream in a context, if it was made.
pub fn own_stream(context: u32) -> Option<u64> {
    OWN.with_borrow(|o| o.get(&context).copied())
}

/// Sets it.
pub fn set_own_stream(context: u32, raw: u64) {
    OWN.with_borrow_mut(|o| o.insert(context, raw));
}

/// How calls of this thread that could disturb a capture are taken.
pub fn capture_mode() -> u32 {
    CAPTURE_MODE.get()
}

/// Sets that; gives what it was.
pub fn set_capture_mode(mode: u32) -> u32 {
    CAPTURE_MODE.replace(mode)
}

fn slot(context: u32, key: u64) -> usize {
    (key >> 4 ^ key >> 12 ^ u64::from(context)) as usize % CACHED
}

/// The value of a key of a context, if nothing was stored or deleted since it was looked up.
#[inline]
pub fn stored(change: u64, context: u32, key: u64) -> Option<u64> {
    let known = STORED.try_with(|s| {
        let e = s.borrow()[slot(context, key)];
        (e.0 == change && e.1 == context && e.2 == key).then_some(e.3)
    });
    known.ok().flatten()
}

/// Keeps a value that was looked up.
pub fn keep_stored(change: u64, context: u32, key: u64, value: u64) {
    let _ = STORED.try_with(|s| s.borrow_mut()[slot(context, key)] = (change, context, key, value));
}

/// Whether this thread is in a function that a stream waits for.
pub fn in_function() -> bool {
    IN_FUNCTION.get()
}

/// Sets that.
pub fn set_in_function(on: bool) {
    IN_FUNCTION.set(on);
}

/// The server's driver has answered a call with an error.
pub fn set_answered(error: i32) {
    ANSWERED.set(error);
}

/// The last such error since somebody has asked; 0 for none.
pub fn take_answered() -> i32 {
    ANSWERED.take()
}

/// Whether this thread is in a listener of the driver's log.
pub fn is_listening() -> bool {
    LISTENING.get()
}

/// Runs a listener.
pub fn listen<T>(f: impl FnOnce() -> T) -> T {
    LISTENING.set(true);
    let t = f();
    LISTENING.set(false);
    t
}
