//! What CUDA's events are to the completion engine, which calls wait on threads, and memory that is
//! unmapped once the work of its context is done.

use super::blame::Blame;
use super::driver::relax;
use super::prelude::*;
use super::times::Times;
use crate::done::{self, Bereft, Done, Pace, Probe};
use crate::memory::Charge;
use crate::outbox::Outbox;
use crate::printed::Printed;
use crate::staging::Lent;
use crate::turn::Turn;
use busbar_channel::{is_crowded, nap};
use std::any::Any;

/// An event of the driver's, in a context. Handles are numbers here: they pass between threads.
#[derive(Clone, Copy)]
pub struct Event {
    event: u64,
    context: u64,
}

/// What keeps page-locked memory: a slab, or something in its place.
pub type Lodging = Result<Lent, Arc<dyn Any + Send + Sync>>;

/// Bytes in page-locked memory.
pub struct Staged {
    /// Where they are.
    pub at: u64,
    /// What keeps them there.
    pub kept: Lodging,
    pub len: usize,
}

/// What is kept until work that uses it is done: only dropped then.
pub enum Kept {
    /// Staging memory.
    Slab(#[allow(dead_code, reason = "held, not read")] Lent),
    /// What others may have, too.
    Shared(#[allow(dead_code, reason = "held, not read")] Arc<dyn Any + Send + Sync>),
}

/// What to wait for on a thread.
#[derive(Clone, Copy)]
pub enum Job {
    /// All work of a context; the call that is answered then.
    Context(u64, u32),
    /// All work of a context's stream.
    Stream(u64, u64, u32),
    /// An event, in a context.
    Event(u64, u64, u32),
    /// Memory that is to be unmapped.
    Frees,
}

/// A mapping to undo, unless its size is 0, and the call that is answered then.
pub struct Free {
    /// The context whose work may still use it.
    pub context: u64,
    /// Where it begins.
    pub va: u64,
    /// Its length.
    pub size: u64,
    /// The call.
    pub call: u32,
    /// What it takes until then.
    pub charge: Option<Charge>,
}

/// What threads wait for, and what the program has destroyed meanwhile. A program may not do that
/// to a stream that it waits for itself; but its client waits for streams, too, and does not keep
/// the program from anything.
#[derive(Default)]
struct Awaited {
    /// How many waits there are for streams.
    streams: HashMap<u64, usize>,
    /// How many there are in contexts.
    contexts: HashMap<u64, usize>,
    /// Streams to be destroyed when the last wait is over.
    doomed: HashSet<u64>,
}

/// One more that waits.
fn more(waits: &mut HashMap<u64, usize>, what: u64) {
    *waits.entry(what).or_default() += 1;
}

/// One less; whether it was the last.
fn less(waits: &mut HashMap<u64, usize>, what: u64) -> bool {
    let last = waits.get_mut(&what).is_some_and(|n| {
        *n -= 1;
        *n == 0
    });
    if last {
        waits.remove(&what);
    }
    last
}

#[derive(Default)]
struct Frees {
    list: Vec<Free>,
    /// Those of the list, and those that the thread has taken from it.
    left: usize,
    /// A thread is at it.
    running: bool,
}

/// The most entries.
const MOST: usize = 1 << 13;
/// How long the end of a session waits for memory to be unmapped; the end of its process frees all.
const CLOSING: Duration = Duration::from_millis(100);
/// The most memory that waits to be unmapped; beyond that the executor waits itself.
const MOST_FREES: usize = 1 << 14;

/// CUDA's side of the engine.
pub struct Events {
    driver: &'static Driver,
    outbox: Outbox,
    blame: Blame,
    printed: Printed,
    turn: Turn,
    /// A call has waited for work: pools may have given back what nobody uses.
    waited: AtomicBool,
    /// Has the client told what devices have changed of the program's memory.
    tell: Box<dyn Fn() + Send + Sync>,
    /// Events that are free, by context.
    free: Mutex<HashMap<u64, Vec<u64>>>,
    frees: Mutex<Frees>,
    freed: Condvar,
    awaited: Mutex<Awaited>,
    left: Condvar,
    /// Times between events that the client wants to hear of.
    pub times: Times,
}

/// The engine of a session.
pub type Completer = Done<Events>;
/// What happens when an entry's time has come.
pub type Then = done::Then<Events>;

/// A call is answered, without fields.
pub fn reply(call: u32) -> Then {
    Then::Answer { call, answer: () }
}

impl Events {
    pub fn new(
        driver: &'static Driver,
        outbox: Outbox,
        blame: Blame,
        printed: Printed,
        turn: Turn,
        tell: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            times: Times::new(driver, outbox.clone()),
            driver,
            outbox,
            blame,
            printed,
            turn,
            waited: AtomicBool::new(false),
            tell: Box::new(tell),
            free: Mutex::default(),
            frees: Mutex::default(),
            freed: Condvar::new(),
            awaited: Mutex::default(),
            left: Condvar::new(),
        }
    }

    /// A call has waited for work: passes on what it has had the driver say.
    pub fn waited(&self) {
        self.waited.store(true, Ordering::Release);
        self.printed.flush();
    }

    /// Whether a call has waited for work since this was last asked.
    pub fn has_waited(&self) -> bool {
        self.waited.load(Ordering::Relaxed) && self.waited.swap(false, Ordering::AcqRel)
    }

    fn give_back(&self, e: Event) {
        soon_free(self).entry(e.context).or_default().push(e.event);
    }

    fn record(&self, stream: CUstream, context: u64) -> Result<Event> {
        let free = soon_free(self).get_mut(&context).and_then(Vec::pop);
        let event = match free {
            Some(e) => e,
            None => {
                let mut e: CUevent = std::ptr::null_mut();
                const DISABLE_TIMING: u32 = 2;
                // SAFETY: a pointer to a live handle.
                match unsafe { self.driver.cuEventCreate(&mut e, DISABLE_TIMING) } {
                    CUDA_SUCCESS => e as u64,
                    rc => return Err(rc),
                }
            }
        };
        let e = Event { event, context };
        // SAFETY: a live event and stream of the current context.
        match unsafe { self.driver.cuEventRecord(event as CUevent, stream) } {
            CUDA_SUCCESS => Ok(e),
            rc => {
                self.give_back(e);
                Err(rc)
            }
        }
    }

    /// A wait begins, on the executor's thread.
    fn begins(&self, job: Job) {
        let mut awaited = lock(&self.awaited);
        if let Job::Context(context, _) | Job::Stream(context, ..) = job {
            more(&mut awaited.contexts, context);
        }
        if let Job::Stream(_, stream, _) = job {
            more(&mut awaited.streams, stream);
        }
    }

    /// It is over.
    fn ends(&self, job: Job) {
        let mut awaited = lock(&self.awaited);
        if let Job::Stream(_, stream, _) = job
            && less(&mut awaited.streams, stream)
            && awaited.doomed.remove(&stream)
        {
            // SAFETY: a stream that nobody names any more.
            unsafe { self.driver.cuStreamDestroy_v2(stream as CUstream) };
        }
        if let Job::Context(context, _) | Job::Stream(context, ..) = job
            && less(&mut awaited.contexts, context)
        {
            self.left.notify_all();
        }
    }

    /// Destroys a stream, at the latest when nobody waits for it any more.
    pub fn destroy_stream(&self, stream: u64) -> Result {
        let mut awaited = lock(&self.awaited);
        if awaited.streams.contains_key(&stream) {
            awaited.doomed.insert(stream);
            return Ok(());
        }
        // SAFETY: a live stream, which the client names no more.
        check(unsafe { self.driver.cuStreamDestroy_v2(stream as CUstream) })
    }

    /// Unmaps all memory that waits for that. One wait serves all that has come before it.
    fn unmap(&self, done: &Completer) {
        loop {
            let mut frees = lock(&self.frees);
            if frees.list.is_empty() {
                frees.running = false;
                return;
            }
            let list = std::mem::take(&mut frees.list);
            drop(frees);
            let mut contexts: Vec<u64> = list.iter().map(|f| f.context).collect();
            contexts.sort_unstable();
            contexts.dedup();
            for c in contexts {
                // A context that is lost or gone uses nothing any more.
                // SAFETY: a context that was live when the client asked; the driver says if not.
                unsafe {
                    if self.driver.cuCtxSetCurrent(c as CUcontext) == CUDA_SUCCESS {
                        self.driver.cuCtxSynchronize();
                    }
                }
            }
            let n = list.len();
            for f in list {
                let unmap = || match f.size {
                    0 => CUDA_SUCCESS,
                    // SAFETY: a mapping of ours that nobody names any more.
                    n => unsafe { self.driver.cuMemUnmap(f.va, n as usize) },
                };
                let rc = match f.charge {
                    None => unmap(),
                    Some(charge) => charge.give_back(unmap),
                };
                done.now(rc, reply(f.call));
            }
            lock(&self.frees).left -= n;
            self.freed.notify_all();
        }
    }
}

fn soon_free(e: &Events) -> std::sync::MutexGuard<'_, HashMap<u64, Vec<u64>>> {
    busbar_channel::soon(&e.free)
}

impl Probe for Events {
    type Event = Event;
    type Bytes = Staged;
    type Kept = Kept;
    type Answer = ();
    type Job = Job;

    fn is_told(&self) -> bool {
        false
    }

    fn begin(&self) {
        relax(self.driver);
    }

    fn ask(&self, e: &Event) -> Option<CUresult> {
        // SAFETY: a live event.
        match unsafe { self.driver.cuEventQuery(e.event as CUevent) } {
            CUDA_ERROR_NOT_READY => None,
            rc => Some(rc),
        }
    }

    fn over(&self, e: Event, _theirs: bool) {
        self.give_back(e);
    }

    fn failed(&self, rc: CUresult, e: Option<&Event>) {
        // Whatever it was that failed, it failed in what was queued before: a copy itself does not.
        self.blame.failed(rc, 0, e.map_or(0, |e| e.context));
    }

    fn is_little(&self, _e: &Event, _then: &Then) -> bool {
        false
    }

    fn send(&self, call: u32, offset: u64, Staged { at, kept, len }: Staged) {
        let bytes = (at as *const u8, len);
        // SAFETY: the memory holds `len` bytes, which nobody writes until it is dropped.
        unsafe { self.outbox.put_owned(call, offset, bytes, kept) };
    }

    fn answer(&self, call: u32, rc: CUresult, (): ()) {
        self.outbox.put_reply(call, rc, |_| {});
    }

    fn before_word(&self) {
        (self.tell)();
    }

    fn flush(&self) {
        self.outbox.flush();
    }

    fn serve(&self, done: &Completer, job: Job) {
        let d = self.driver;
        let enter = |context: u64| {
            // SAFETY: the context and handles were live when the client asked; that it does not
            // destroy them meanwhile is the API's own demand.
            unsafe { d.cuCtxSetCurrent(context as CUcontext) };
        };
        // A driver that waits looks for the end all the time. In a crowd that is left to the end.
        let calm = |ready: &dyn Fn() -> CUresult| {
            let from = Instant::now();
            while is_crowded() && ready() == CUDA_ERROR_NOT_READY {
                std::thread::sleep(nap(from.elapsed()));
            }
        };
        // SAFETY: as above.
        let (rc, call) = unsafe {
            match job {
                Job::Context(context, call) => {
                    enter(context);
                    (d.cuCtxSynchronize(), call)
                }
                Job::Stream(context, stream, call) => {
                    enter(context);
                    calm(&|| d.cuStreamQuery(stream as CUstream));
                    (d.cuStreamSynchronize(stream as CUstream), call)
                }
                Job::Event(context, event, call) => {
                    enter(context);
                    calm(&|| d.cuEventQuery(event as CUevent));
                    let rc = d.cuEventSynchronize(event as CUevent);
                    self.times.at(event);
                    (rc, call)
                }
                Job::Frees => return self.unmap(done),
            }
        };
        self.ends(job);
        self.waited();
        done.now(rc, reply(call));
    }

    fn pace(&self, since: Duration) -> Pace {
        Pace::of_a_device(since, self.turn.ends())
    }
}

impl Done<Events> {
    /// Does `then` once everything queued so far on `stream`, of the current context, is done.
    pub(super) fn after(&self, stream: CUstream, context: u64, then: Then) {
        // More is to come than any program has under way. Whoever calls has nothing that the
        // entries wait for: as with the driver's own queues, its client waits, too.
        while self.waiting() >= MOST && !self.probe().outbox.closed() {
            self.sweep();
            std::thread::sleep(Duration::from_micros(50));
        }
        let event = self.probe().record(stream, context);
        let event = event.map_err(|rc| match rc {
            // There is no memory for an event, but one can wait without.
            // SAFETY: a live stream of the current context.
            CUDA_ERROR_OUT_OF_MEMORY => unsafe { self.probe().driver.cuStreamSynchronize(stream) },
            rc => rc,
        });
        self.push(event, then);
    }

    /// Answers a call once what it waits for is over.
    pub fn answer_after(&self, job: Job) {
        self.probe().begins(job);
        if self.wait(job).is_ok() {
            return;
        }
        self.probe().ends(job);
        if let Job::Context(_, call) | Job::Stream(_, _, call) | Job::Event(_, _, call) = job {
            self.now(CUDA_ERROR_OUT_OF_MEMORY, reply(call));
        }
    }

    /// A context is about to go, and its events with it: what waits for them is to be given to
    /// [`Done::abandon`] when it has gone. Whoever waits for its work comes first.
    pub fn leave_context(&self, context: u64) -> Bereft<Events> {
        let waited = |a: &mut Awaited| a.contexts.contains_key(&context);
        drop(
            self.probe()
                .left
                .wait_while(lock(&self.probe().awaited), waited),
        );
        let left = self.leave(|e| e.context == context);
        soon_free(self.probe()).remove(&context);
        left
    }

    /// Takes on memory to unmap; it comes back when there is no thread for it, or too much to do
    /// for that.
    pub fn unmap_later(&self, f: Free) -> Option<Free> {
        let mut frees = lock(&self.probe().frees);
        if frees.left >= MOST_FREES {
            return Some(f);
        }
        frees.list.push(f);
        frees.left += 1;
        if std::mem::replace(&mut frees.running, true) {
            return None;
        }
        drop(frees);
        if self.wait_first(Job::Frees).is_ok() {
            return None;
        }
        let mut frees = lock(&self.probe().frees);
        frees.running = false;
        frees.left -= 1;
        frees.list.pop()
    }

    /// Waits until all such memory is unmapped. A wait for a context would void a capture that
    /// begins meanwhile; and to free memory is to wait for the device, so a program expects no
    /// less.
    pub fn wait_for_frees(&self) {
        let mut frees = lock(&self.probe().frees);
        while frees.left > 0 {
            frees = wait(&self.probe().freed, frees);
        }
    }

    /// The session is over: what its program has freed is no longer counted, unless the device is
    /// still at work, and what has been printed is passed on.
    pub fn close(&self) {
        let frees = lock(&self.probe().frees);
        let left = |f: &mut Frees| f.left > 0;
        drop(self.probe().freed.wait_timeout_while(frees, CLOSING, left));
        self.probe().printed.close();
    }
}
