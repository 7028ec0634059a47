//! Records that are executed ahead of the queue, in their own order, on a thread of their own.
//!
//! A function of the program's that a stream waits for needs memory of the device's while it runs,
//! and when it has run. The executor may sit in a call that waits for that very stream, so nothing
//! here waits for the executor, nor for what a stream does; the executor may wait for this.

use crate::prelude::*;
use crate::staging::Lent;
use busbar_channel::alone;
use busbar_wire::record::Header;
use busbar_wire::session::Execution;

/// The stages of a worker's execution: the queue, and what is executed ahead of it.
pub(crate) const QUEUE: usize = 0;
pub(crate) const AHEAD: usize = 1;

/// A record's payload, where it has landed.
pub enum Payload {
    /// In memory of its own.
    Bytes(Vec<u8>),
    /// Behind the header in a slab; so many bytes, header included.
    Slab(Lent, usize),
}

impl Payload {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(b) => b,
            Self::Slab(slab, len) => {
                // SAFETY: the intake has filled `len` bytes of the slab, and nobody else has it.
                let all = unsafe { std::slice::from_raw_parts(slab.ptr(), *len) };
                &all[busbar_wire::record::HEADER..]
            }
        }
    }
}

/// What an API does with such records; called on their thread.
pub trait Urgent: Send {
    /// Begins to execute a record. Its payload stays until [`Urgent::finish`] has returned.
    fn begin(&mut self, h: &Header, payload: &[u8]);

    /// Waits until all that was begun is done.
    fn finish(&mut self);

    /// Whether it matters if the executor stands still.
    fn minds(&self) -> bool {
        false
    }

    /// Whether it does, while the records that come are executed.
    fn stands_still(&mut self, _still: bool) {}
}

/// The executor stands still if it has been at the same frame for so long.
const STILL: Duration = Duration::from_millis(100);
/// How often that is looked at, but for the first moment: most frames take no longer.
const GLANCE: Duration = Duration::from_micros(100);

enum Job {
    Record(Header, Payload),
    Then(Box<dyn FnOnce() + Send>),
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Jobs that were ever pushed, and those of them that are done.
    pushed: u64,
    done: u64,
    /// Frames with jobs that are not done, each with how many were pushed up to its end.
    frames: VecDeque<(u64, u64)>,
    /// Who is told how far this is, and what that calls it.
    told: Option<(Arc<Execution>, usize)>,
    /// Bytes of payload that wait.
    bytes: usize,
    /// How many wait until something here is done.
    awaited: usize,
    /// Until the first record comes.
    idle: Option<Box<dyn Urgent>>,
    running: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The way to that thread. Cheap to clone.
#[derive(Clone, Default)]
pub struct Ahead {
    shared: Arc<Shared>,
}

/// Bytes that may wait before the intake does.
const MOST_BYTES: usize = 64 << 20;

impl Ahead {
    /// `urgent` is to execute the records. The thread starts with the first of them.
    pub fn serve(&self, urgent: Box<dyn Urgent>) {
        self.shared.lock().idle = Some(urgent);
    }

    /// Hands a record over. Waits while many bytes do; an error when nobody executes such records.
    pub(crate) fn push(&self, h: Header, payload: Payload) -> Result<(), String> {
        let mut s = self.shared.lock();
        if !s.running {
            let urgent = s.idle.take();
            let mut urgent =
                urgent.ok_or("the client broke the protocol: a record of another API")?;
            if alone::is_set() {
                drop(s);
                urgent.begin(&h, payload.bytes());
                urgent.finish();
                self.serve(urgent);
                return Ok(());
            }
            let shared = self.shared.clone();
            std::thread::Builder::new()
                .name("ahead".into())
                .spawn(move || shared.run(urgent))
                .map_err(|e| format!("cannot start a thread: {e}"))?;
            s.running = true;
        }
        while s.bytes > MOST_BYTES {
            s = self.shared.wait(s);
        }
        s.bytes += payload.bytes().len();
        self.shared.put(s, Job::Record(h, payload));
        Ok(())
    }

    /// Does `f` once everything before it is done; at once where that is so.
    pub(crate) fn then(&self, f: impl FnOnce() + Send + 'static) {
        let s = self.shared.lock();
        if s.pushed == s.done {
            drop(s);
            return f();
        }
        self.shared.put(s, Job::Then(Box::new(f)));
    }

    /// `execution` is told, as its stage of this number, how far this is.
    pub(crate) fn tell(&self, execution: Arc<Execution>, stage: usize) {
        self.shared.lock().told = Some((execution, stage));
    }

    /// Frame `seq` had something for this, and it has all been pushed.
    pub(crate) fn end_of(&self, seq: u64) {
        let mut s = self.shared.lock();
        let upto = s.pushed;
        s.frames.push_back((upto, seq));
        if let Some((execution, stage)) = &s.told {
            execution.stages[*stage].enter(seq);
        }
        s.leave();
    }

    /// Waits until all that has been pushed so far is done.
    pub fn wait_until_done(&self) {
        let mut s = self.shared.lock();
        let upto = s.pushed;
        s.awaited += 1;
        while s.done < upto {
            s = self.shared.wait(s);
        }
        s.awaited -= 1;
    }
}

impl State {
    /// Tells of the frames that are done.
    fn leave(&mut self) {
        while let Some((_, seq)) = self.frames.pop_front_if(|(upto, _)| *upto <= self.done) {
            if let Some((execution, stage)) = &self.told {
                execution.stages[*stage].leave(seq);
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn wait<'a>(&self, s: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        wait(&self.changed, s)
    }

    fn put(&self, mut s: MutexGuard<'_, State>, job: Job) {
        s.jobs.push_back(job);
        s.pushed += 1;
        drop(s);
        self.changed.notify_all();
    }

    /// Whether the executor has been in one call for long. `known` is the frame before which that
    /// was found last.
    fn executor_stands_still(&self, known: &mut Option<u64>) -> bool {
        let (from, mut first) = (Instant::now(), None);
        loop {
            let s = self.lock();
            let execution = s.told.as_ref().map(|(e, _)| e);
            let at = execution.and_then(|e| e.stages[QUEUE].holds_from());
            let (idle, here) = (at.is_none(), s.awaited > 0);
            drop(s);
            if idle || here || first.is_some_and(|first| first != at) {
                *known = None;
                return false;
            }
            if at == *known || from.elapsed() > STILL {
                *known = at;
                return true;
            }
            first = Some(at);
            match from.elapsed() < GLANCE {
                true => std::thread::yield_now(),
                false => std::thread::sleep(GLANCE),
            }
        }
    }

    fn run(&self, mut urgent: Box<dyn Urgent>) {
        let mut still = None;
        loop {
            let mut s = self.lock();
            while s.jobs.is_empty() {
                s = self.wait(s);
            }
            let jobs = std::mem::take(&mut s.jobs);
            drop(s);
            if urgent.minds() {
                urgent.stands_still(self.executor_stands_still(&mut still));
            }
            let (n, mut bytes) = (jobs.len() as u64, 0);
            let mut begun = Vec::new();
            for job in jobs {
                match job {
                    Job::Record(h, payload) => {
                        bytes += payload.bytes().len();
                        urgent.begin(&h, payload.bytes());
                        begun.push(payload);
                    }
                    Job::Then(f) => {
                        urgent.finish();
                        begun.clear();
                        f();
                    }
                }
            }
            urgent.finish();
            drop(begun);
            let mut s = self.lock();
            s.done += n;
            s.bytes -= bytes;
            s.leave();
            drop(s);
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    struct Log(std::sync::mpsc::Sender<String>);

    /// Says whether the executor stands still.
    struct Minds(std::sync::mpsc::Sender<bool>);

    impl Urgent for Minds {
        fn begin(&mut self, _: &Header, _: &[u8]) {}

        fn finish(&mut self) {}

        fn minds(&self) -> bool {
            true
        }

        fn stands_still(&mut self, still: bool) {
            let _ = self.0.send(still);
        }
    }

    #[test]
    fn an_executor_that_is_at_one_frame_for_long_stands_still_unless_it_waits_here() {
        let ((tx, rx), ahead) = (channel(), Ahead::default());
        let execution = Arc::new(Execution::default());
        ahead.serve(Box::new(Minds(tx)));
        ahead.tell(execution.clone(), AHEAD);
        let queue = &execution.stages[QUEUE];
        let asked = || {
            ahead.push(header(0), Payload::Bytes(vec![])).unwrap();
            rx.recv().unwrap()
        };
        assert!(!asked(), "it has nothing to do");
        queue.enter(1);
        assert!(asked() && asked());
        queue.enter(2);
        queue.leave(1);
        assert!(asked(), "it is at the next for as long");
        ahead.shared.lock().awaited = 1;
        assert!(!asked());
        queue.leave(2);
        ahead.shared.lock().awaited = 0;
        assert!(!asked());
    }

    impl Urgent for Log {
        fn begin(&mut self, h: &Header, payload: &[u8]) {
            let _ = self.0.send(format!("{} {payload:?}", h.call));
        }

        fn finish(&mut self) {
            let _ = self.0.send("finish".into());
        }
    }

    fn header(call: u32) -> Header {
        let (op, api, len, aux) = (0xff05, 0, 16, 0);
        Header {
            len,
            op,
            api,
            call,
            aux,
        }
    }

    #[test]
    fn what_comes_then_comes_behind_what_was_begun() {
        let (tx, rx) = channel();
        let ahead = Ahead::default();
        assert!(
            ahead.push(header(0), Payload::Bytes(vec![])).is_err(),
            "nobody executes it"
        );
        ahead.serve(Box::new(Log(tx.clone())));
        let now = tx.clone();
        ahead.then(move || _ = now.send("at once".into()));
        assert_eq!(rx.try_recv().unwrap(), "at once");
        ahead.push(header(1), Payload::Bytes(vec![7])).unwrap();
        ahead.then(move || _ = tx.send("then".into()));
        ahead.wait_until_done();
        let told: Vec<_> = rx.try_iter().collect();
        let place = |what: &str| told.iter().position(|t| t == what).unwrap();
        assert_eq!(place("1 [7]"), 0);
        assert!(place("finish") < place("then"), "{told:?}");
    }
}
