//! Streams: each is a queue and, while it has work, a thread.
//!
//! The legacy default stream waits for what blocking streams were given before, and they for it.
//! Those waits are fixed when work is handed in, under the context's order lock, so they only ever
//! point to earlier work and cannot form a ring.

use super::handle::{self, Table};
use crate::ffi::*;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
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
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Item>,
    submitted: u64,
    done: u64,
    has_thread: bool,
    destroyed: bool,
}

struct Item {
    after: Vec<(Arc<Stream>, u64)>,
    job: Job,
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
        })
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

    /// Waits until the first `mark` pieces of work are done.
    pub fn wait_done(&self, mark: u64) {
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
    pub fn push(self: &Arc<Self>, after: Vec<(Arc<Stream>, u64)>, job: Job) {
        let item = Item { after, job };
        let mut queue = self.queue.lock().unwrap();
        queue.submitted += 1;
        queue.waiting.push_back(item);
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

    /// Marks the stream destroyed: it ends when its work is done.
    pub fn destroy(&self) {
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
