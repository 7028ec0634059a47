//! Streams: each is a queue and, while it has work, a thread. Where the process has no threads but
//! the program's ([`alone`]), whoever calls does what can be done.
//!
//! The legacy default stream waits for what blocking streams were given before, and they for it.
//! Those waits are fixed when work is handed in, under the context's order lock, so they only ever
//! point to earlier work and cannot form a ring.

use super::handle::{self, Table};
use crate::config;
use crate::ffi::*;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Which default stream the null stream handle means in a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// The context's legacy default stream.
    Legacy,
    /// The calling thread's default stream.
    PerThread,
}

/// A piece of work; it gets the handle of its stream.
pub type Job = Box<dyn FnOnce(CUstream) + Send>;
/// Whether a piece of work would not wait for anything; told that it has waited for too long, it
/// sees to it that it does not any more.
pub type Ready = Box<dyn Fn(bool) -> bool + Send>;

static THREADS: LazyLock<bool> = LazyLock::new(|| config::number("FAKEDEV_THREADS") != Some(0));
/// Streams with work that could not be done yet, where there are no threads.
static HELD_UP: Mutex<Vec<Arc<Stream>>> = Mutex::new(Vec::new());

/// Whether streams have no threads.
pub fn alone() -> bool {
    !*THREADS
}

/// Does what can be done, where streams have no threads. Whether there was anything.
pub fn work_on() -> bool {
    let all = std::mem::take(&mut *HELD_UP.lock().unwrap());
    let mut any = false;
    for stream in all {
        any |= stream.work_on();
    }
    any
}

/// Nothing goes on, and somebody waits: as a device ends what takes too long, so is lost what
/// stands still.
fn time_out() {
    let all = HELD_UP.lock().unwrap().clone();
    for stream in all {
        if let Some(first) = stream.queue.lock().unwrap().waiting.front() {
            (first.ready)(true);
        }
    }
}

/// Forgets all streams and their work.
pub fn reset() {
    HELD_UP.lock().unwrap().clear();
    STREAMS.clear();
    NEXT_ID.store(1, Ordering::Relaxed);
}

/// A stream that never waits for the legacy default stream.
pub const NON_BLOCKING: u32 = 1;

/// The greatest priority; 0 is the least.
pub const GREATEST_PRIORITY: i32 = -5;

/// How long a stream's thread waits for more work before it ends.
const IDLE: Duration = Duration::from_secs(2);

/// The streams that programs made. Default streams are found through their context.
pub static STREAMS: Table<Stream> = Table::new();

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A context's streams.
#[derive(Default)]
pub struct Order {
    /// The legacy default stream, once used.
    pub legacy: Option<Arc<Stream>>,
    /// The default streams of threads.
    pub per_thread: HashMap<ThreadId, Arc<Stream>>,
    /// All of them, and destroyed ones that still have work.
    pub all: Vec<Arc<Stream>>,
}

/// A queue of work that runs in order.
pub struct Stream {
    /// Its handle.
    pub handle: usize,
    /// The number that `cuStreamGetId` gives.
    pub id: u64,
    /// The flags of its creation.
    pub flags: u32,
    /// Its priority, 0 to -5.
    pub priority: i32,
    /// Attributes set on the stream, by id.
    pub attributes: Mutex<HashMap<u32, [u32; 16]>>,
    /// The handle of its context.
    pub context: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Calls that wait for it.
    awaited: AtomicUsize,
}

/// A call that waits for a stream.
pub struct Awaits<'a>(&'a Stream);

impl Drop for Awaits<'_> {
    fn drop(&mut self) {
        self.0.awaited.fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Item>,
    submitted: u64,
    done: u64,
    /// Or whoever called is at work.
    has_thread: bool,
    destroyed: bool,
}

struct Item {
    after: Vec<(Arc<Stream>, u64)>,
    ready: Ready,
    job: Job,
}

impl Item {
    fn is_ready(&self) -> bool {
        let before = self.after.iter();
        before.clone().all(|(stream, mark)| stream.done() >= *mark) && (self.ready)(false)
    }
}

impl Stream {
    /// A stream of a context.
    pub fn new(context: usize, handle: usize, flags: u32, priority: i32) -> Arc<Stream> {
        Arc::new(Stream {
            handle,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            flags,
            priority: priority.clamp(GREATEST_PRIORITY, 0),
            attributes: Mutex::default(),
            context,
            queue: Mutex::default(),
            changed: Condvar::new(),
            awaited: AtomicUsize::new(0),
        })
    }

    /// A call waits for it until what this gives is dropped.
    pub fn awaits(&self) -> Awaits<'_> {
        self.awaited.fetch_add(1, Ordering::AcqRel);
        Awaits(self)
    }

    /// A stream that a program makes.
    pub fn create(context: usize, flags: u32, priority: i32) -> Arc<Stream> {
        let stream = Stream::new(context, handle::fresh(), flags, priority);
        STREAMS.insert(stream.handle, stream.clone());
        stream
    }

    /// Whether this is a legacy default stream.
    pub fn is_legacy(&self) -> bool {
        self.handle == STREAM_LEGACY
    }

    /// Whether the stream and the legacy default stream wait for each other.
    pub fn blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    /// How many pieces of work the stream was given.
    pub fn submitted(&self) -> u64 {
        self.queue.lock().unwrap().submitted
    }

    /// Whether all work is done.
    pub fn idle(&self) -> bool {
        let queue = self.queue.lock().unwrap();
        queue.submitted == queue.done
    }

    fn done(&self) -> u64 {
        self.queue.lock().unwrap().done
    }

    /// Waits until the first `mark` pieces of work are done.
    pub fn wait_done(&self, mark: u64) {
        if alone() {
            return wait_alone(|| self.done() >= mark);
        }
        let queue = self.queue.lock().unwrap();
        drop(
            self.changed
                .wait_while(queue, |queue| queue.done < mark)
                .unwrap(),
        );
    }

    /// How many pieces of work must be done until the stream is idle; None if it is.
    fn unfinished(&self) -> Option<u64> {
        let queue = self.queue.lock().unwrap();
        (queue.done < queue.submitted).then_some(queue.submitted)
    }

    /// Whether the stream still takes work.
    pub fn live(&self) -> bool {
        !self.queue.lock().unwrap().destroyed
    }

    /// Hands work to the stream, which comes after what other streams have been given.
    ///
    /// Where streams have no threads, [`work_on`] does it.
    pub fn push(self: &Arc<Self>, after: Vec<(Arc<Stream>, u64)>, ready: Ready, job: Job) {
        let item = Item { after, ready, job };
        let mut queue = self.queue.lock().unwrap();
        queue.submitted += 1;
        queue.waiting.push_back(item);
        if alone() {
            drop(queue);
            return self.hold_up();
        }
        if !queue.has_thread {
            queue.has_thread = true;
            let stream = self.clone();
            thread::Builder::new()
                .name(format!("fakedev-{}", self.id))
                .spawn(move || stream.work_off())
                .expect("the system can start a thread for a stream");
        }
        self.changed.notify_all();
    }

    /// Marks the stream destroyed: it ends when its work is done. A call that waits for it would
    /// look at what is gone, by which drivers crash.
    pub fn destroy(&self) {
        if self.awaited.load(Ordering::Acquire) > 0 {
            eprintln!("fakedev: a stream is destroyed that a call waits for");
            std::process::abort();
        }
        self.queue.lock().unwrap().destroyed = true;
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Item> {
        let queue = self.queue.lock().unwrap();
        let (mut queue, _) = self
            .changed
            .wait_timeout_while(queue, IDLE, |queue| {
                queue.waiting.is_empty() && !queue.destroyed
            })
            .unwrap();
        let item = queue.waiting.pop_front();
        queue.has_thread = item.is_some();
        item
    }

    /// Has [`work_on`] look at this stream.
    fn hold_up(self: &Arc<Self>) {
        let mut all = HELD_UP.lock().unwrap();
        if !all.iter().any(|other| Arc::ptr_eq(other, self)) {
            all.push(self.clone());
        }
    }

    /// Does the work up to the first that would have to wait. Whether there was any.
    fn work_on(self: &Arc<Self>) -> bool {
        let mut any = false;
        loop {
            let mut queue = self.queue.lock().unwrap();
            if queue.has_thread || queue.waiting.is_empty() {
                return any;
            }
            // Nobody else takes from the queue, but whether the work is ready may depend on it.
            queue.has_thread = true;
            let Some(item) = queue.waiting.pop_front() else {
                return any;
            };
            drop(queue);
            let ready = item.is_ready();
            let left = match ready {
                true => {
                    (item.job)(self.handle);
                    None
                }
                false => Some(item),
            };
            let mut queue = self.queue.lock().unwrap();
            queue.has_thread = false;
            if let Some(item) = left {
                queue.waiting.push_front(item);
                drop(queue);
                self.hold_up();
                return any;
            }
            queue.done += 1;
            any = true;
        }
    }

    fn work_off(self: Arc<Self>) {
        while let Some(item) = self.next() {
            for (stream, mark) in item.after {
                stream.wait_done(mark);
            }
            (item.job)(self.handle);
            self.queue.lock().unwrap().done += 1;
            self.changed.notify_all();
        }
    }
}

/// Waits for something, where streams have no threads. What never comes ends as on a device that
/// takes too long.
pub fn wait_alone(is: impl Fn() -> bool) {
    while !is() {
        if !work_on() && !is() {
            time_out();
            // What is under way on a stack below this one does not go on meanwhile.
            if !work_on() {
                return;
            }
        }
    }
}

impl Order {
    /// What work waits for that is handed to a stream now.
    pub fn before(&mut self, stream: &Stream) -> Vec<(Arc<Stream>, u64)> {
        let mark = |stream: &Arc<Stream>| Some((stream.clone(), stream.unfinished()?));
        if !stream.is_legacy() {
            let legacy = self.legacy.iter().filter(|_| stream.blocking());
            return legacy.filter_map(mark).collect();
        }
        self.all
            .retain(|stream| stream.live() || stream.unfinished().is_some());
        let others = self.all.iter();
        let others = others.filter(|other| other.blocking() && !other.is_legacy());
        others.filter_map(mark).collect()
    }
}
