//! Streams: each is a queue and, while it has work, a thread.
//!
//! The legacy default stream waits for what blocking streams were given before, and they for it.
//! Those waits are fixed when work is handed in, under the context's order lock, so they only ever
//! point to earlier work and cannot form a ring.

use crate::capture::{self, Capture};
use crate::context::{self, Context};
use crate::entry::Flavour;
use crate::ffi::*;
use crate::handle::{self, Table};
use crate::work::Work;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

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
    /// The capture that the stream is part of.
    pub capture: Mutex<Option<Arc<Capture>>>,
    /// Attributes set on the stream, by id.
    pub attributes: Mutex<HashMap<u32, [u32; 16]>>,
    context: Weak<Context>,
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
    work: Work,
}

impl Stream {
    fn new(context: &Arc<Context>, handle: usize, flags: u32, priority: i32) -> Arc<Stream> {
        Arc::new(Stream {
            handle,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            flags,
            priority: priority.clamp(GREATEST_PRIORITY, 0),
            capture: Mutex::default(),
            attributes: Mutex::default(),
            context: Arc::downgrade(context),
            queue: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// The context that the stream belongs to.
    pub fn context(&self) -> R<Arc<Context>> {
        self.context.upgrade().ok_or(INVALID_HANDLE)
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

    /// Waits for the work handed in so far, then tells whether the context still works.
    pub fn synchronize(&self) -> Res {
        let context = self.context()?;
        if self.is_legacy() {
            // What the legacy stream waits for counts as its own work.
            let blocking: Vec<_> = {
                let order = context.order.lock().unwrap();
                order
                    .all
                    .iter()
                    .filter(|stream| stream.blocking())
                    .cloned()
                    .collect()
            };
            for stream in blocking {
                stream.wait_done(stream.submitted());
            }
        } else {
            self.wait_done(self.submitted());
        }
        context.status()
    }

    fn push(self: &Arc<Self>, item: Item) {
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
            match self.context.upgrade() {
                Some(context) => item.work.run_or_skip(&context, self.handle),
                None => item.work.give_up(),
            }
            self.queue.lock().unwrap().done += 1;
            self.changed.notify_all();
        }
    }
}

impl Context {
    /// The stream that a handle means to a call of this flavour.
    fn default_stream(self: &Arc<Self>, legacy: bool) -> Arc<Stream> {
        let mut guard = self.order.lock().unwrap();
        let order = &mut *guard;
        if legacy {
            if let Some(stream) = &order.legacy {
                return stream.clone();
            }
            let stream = Stream::new(self, STREAM_LEGACY, 0, 0);
            order.legacy = Some(stream.clone());
            order.all.push(stream.clone());
            return stream;
        }
        let id = thread::current().id();
        if let Some(stream) = order.per_thread.get(&id) {
            return stream.clone();
        }
        let stream = Stream::new(self, STREAM_PER_THREAD, 0, 0);
        order.per_thread.insert(id, stream.clone());
        order.all.push(stream.clone());
        stream
    }

    /// The legacy default stream.
    pub fn legacy(self: &Arc<Self>) -> Arc<Stream> {
        self.default_stream(true)
    }

    /// All streams that still take work.
    pub fn streams(&self) -> Vec<Arc<Stream>> {
        let order = self.order.lock().unwrap();
        let live = |stream: &&Arc<Stream>| !stream.queue.lock().unwrap().destroyed;
        order.all.iter().filter(live).cloned().collect()
    }

    /// Makes a stream.
    pub fn create_stream(self: &Arc<Self>, flags: u32, priority: i32) -> Arc<Stream> {
        let stream = Stream::new(self, handle::fresh(), flags, priority);
        STREAMS.insert(stream.handle, stream.clone());
        self.order.lock().unwrap().all.push(stream.clone());
        stream
    }
}

/// The stream that a handle means, and its context in working order.
pub fn resolve(handle: CUstream, flavour: Flavour) -> R<(Arc<Stream>, Arc<Context>)> {
    let (stream, context) = resolve_even_broken(handle, flavour)?;
    context.status()?;
    Ok((stream, context))
}

/// As [`resolve`], but a broken context will do.
pub fn resolve_even_broken(handle: CUstream, flavour: Flavour) -> R<(Arc<Stream>, Arc<Context>)> {
    let legacy = match handle {
        0 => flavour == Flavour::Legacy,
        STREAM_LEGACY => true,
        STREAM_PER_THREAD => false,
        _ => {
            crate::device::initialized()?;
            let stream = STREAMS.get(handle)?;
            let context = stream.context()?;
            return Ok((stream, context));
        }
    };
    let context = context::current_even_broken()?;
    Ok((context.default_stream(legacy), context))
}

/// Hands work to a stream, or to the graph that the stream is being captured into.
pub fn submit(handle: CUstream, flavour: Flavour, work: Work) -> Res {
    let (stream, context) = resolve(handle, flavour)?;
    submit_to(&stream, &context, work)
}

/// As [`submit`], with the stream at hand.
pub fn submit_to(stream: &Arc<Stream>, context: &Arc<Context>, work: Work) -> Res {
    if let Some(capture) = capture::of(stream)? {
        return capture.add(stream, work);
    }
    let mut order = context.order.lock().unwrap();
    let mut after = Vec::new();
    if stream.is_legacy() {
        capture::refuse_implicit(&order)?;
        order.all.retain(|stream| {
            let queue = stream.queue.lock().unwrap();
            !queue.destroyed || queue.done < queue.submitted
        });
        for other in order
            .all
            .iter()
            .filter(|other| other.blocking() && !other.is_legacy())
        {
            let queue = other.queue.lock().unwrap();
            if queue.done < queue.submitted {
                after.push((other.clone(), queue.submitted));
            }
        }
    } else if let Some(legacy) = order.legacy.as_ref().filter(|_| stream.blocking()) {
        let queue = legacy.queue.lock().unwrap();
        if queue.done < queue.submitted {
            after.push((legacy.clone(), queue.submitted));
        }
    }
    stream.push(Item { after, work });
    Ok(())
}

/// Ends a context's streams.
pub fn drop_context(context: &Context) {
    let order = std::mem::take(&mut *context.order.lock().unwrap());
    for stream in order.all {
        stream.destroy();
        let _ = STREAMS.remove(stream.handle);
    }
}
