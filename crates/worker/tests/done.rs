//! The completion engine, with events that the test makes come.

use busbar_worker::done::{Done, Pace, Probe, Then};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Counts what each thread allocates.
struct Counting;

thread_local! {
    static MADE: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 {
        let _ = MADE.try_with(|m| m.set(m.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(l) }
    }

    unsafe fn dealloc(&self, p: *mut u8, l: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(p, l) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Long enough for anything that ends at all.
const LONG: Duration = Duration::from_secs(20);
const NOT_YET: i32 = i32::MIN;

struct Flag {
    result: AtomicI32,
    /// Comes as soon as this one is asked.
    before: Option<Event>,
}

type Event = Arc<Flag>;

fn event() -> Event {
    Arc::new(Flag {
        result: AtomicI32::new(NOT_YET),
        before: None,
    })
}

fn come(e: &Event, rc: i32) {
    e.result.store(rc, Ordering::SeqCst);
}

/// Memory that does something when it is dropped.
struct Memory(Option<Box<dyn FnOnce() + Send>>);

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    Bytes(u32, u64),
    Answer(u32, i32),
    Failed(i32, bool),
    Flush,
}

/// An API whose library may say when something has come.
#[derive(Default)]
struct Toy<const TOLD: bool> {
    said: Mutex<Vec<(Said, Option<ThreadId>)>>,
    changed: Condvar,
    quiet: AtomicBool,
    jobs: AtomicUsize,
    most_jobs: AtomicUsize,
    theirs: AtomicUsize,
    begun: AtomicBool,
}

impl<const TOLD: bool> Toy<TOLD> {
    fn say(&self, s: Said) {
        if !self.quiet.load(Ordering::SeqCst) {
            let me = std::thread::current().id();
            self.said.lock().unwrap().push((s, Some(me)));
            self.changed.notify_all();
        }
    }

    fn said(&self) -> Vec<Said> {
        let said = self.said.lock().unwrap();
        said.iter().map(|s| s.0.clone()).collect()
    }

    /// Waits until so much has been said.
    fn wait_for(&self, n: usize) -> Vec<Said> {
        let said = self.said.lock().unwrap();
        let (said, late) = self
            .changed
            .wait_timeout_while(said, LONG, |s| s.len() < n)
            .unwrap();
        assert!(!late.timed_out(), "only {said:?}");
        drop(said);
        self.said()
    }
}

/// A job of the toy's: waits until the gate is open.
type Gate = Arc<(Mutex<bool>, Condvar)>;

impl<const TOLD: bool> Probe for Toy<TOLD> {
    type Event = Event;
    type Bytes = Memory;
    type Kept = Memory;
    type Answer = ();
    type Job = (Gate, u32);

    fn is_told(&self) -> bool {
        TOLD
    }

    fn begin(&self) {
        self.begun.store(true, Ordering::SeqCst);
    }

    fn ask(&self, e: &Event) -> Option<i32> {
        if let Some(before) = &e.before {
            come(before, 0);
        }
        Some(e.result.load(Ordering::SeqCst)).filter(|rc| *rc != NOT_YET)
    }

    fn failed(&self, rc: i32, e: Option<&Event>) {
        self.say(Said::Failed(rc, e.is_some()));
    }

    fn over(&self, _e: Event, theirs: bool) {
        self.theirs.fetch_add(usize::from(theirs), Ordering::SeqCst);
    }

    fn is_little(&self, _e: &Event, then: &Then<Self>) -> bool {
        matches!(then, Then::Answer { .. })
    }

    fn send(&self, call: u32, offset: u64, _bytes: Memory) {
        self.say(Said::Bytes(call, offset));
    }

    fn answer(&self, call: u32, rc: i32, (): ()) {
        self.say(Said::Answer(call, rc));
    }

    fn flush(&self) {
        self.say(Said::Flush);
    }

    fn serve(&self, done: &Done<Self>, (gate, call): Self::Job) {
        let now = self.jobs.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_jobs.fetch_max(now, Ordering::SeqCst);
        let open = gate.0.lock().unwrap();
        drop(gate.1.wait_while(open, |open| !*open).unwrap());
        self.jobs.fetch_sub(1, Ordering::SeqCst);
        done.now(0, answer(call));
    }

    fn pace(&self, _since: Duration) -> Pace {
        Pace::Nap(Duration::from_millis(1))
    }
}

fn answer<P: Probe<Answer = ()>>(call: u32) -> Then<P> {
    Then::Answer { call, answer: () }
}

fn bytes<P: Probe<Bytes = Memory, Answer = ()>>(call: u32, offset: u64, last: bool) -> Then<P> {
    Then::Send {
        call,
        offset,
        bytes: Memory(None),
        last: last.then_some(()),
    }
}

/// An engine whose own thread sleeps until it is told to look.
fn told() -> Done<Toy<true>> {
    let d = Done::<Toy<true>>::start(Toy::default()).unwrap();
    let start = Instant::now();
    while !d.probe().begun.load(Ordering::SeqCst) {
        assert!(start.elapsed() < LONG);
        std::thread::yield_now();
    }
    // A few steps from there to where it sleeps.
    std::thread::sleep(Duration::from_millis(20));
    d
}

use Said::{Answer, Bytes, Failed, Flush};

#[test]
fn an_answer_comes_after_everything_that_was_complete_before_it() {
    let d = told();
    {
        let copy = event();
        // Whoever finds the second event come knows that the first has come, too; but who asked for
        // the first one before has not seen that.
        let later = Arc::new(Flag {
            result: AtomicI32::new(0),
            before: Some(copy.clone()),
        });
        d.push(Ok(copy), bytes(1, 0, false));
        d.push(Ok(later), answer(1));
        d.sweep();
        assert_eq!(d.probe().wait_for(3), [Bytes(1, 0), Answer(1, 0), Flush]);
    }
}

#[test]
fn what_is_answered_now_comes_after_what_has_come_and_not_after_the_rest() {
    let d = told();
    let (a, b, c) = (event(), event(), event());
    d.push(Ok(a), answer(1));
    d.push(Ok(b.clone()), bytes(2, 0, false));
    d.push(Ok(c.clone()), bytes(2, 7, true));
    come(&b, 0);
    come(&c, 0);
    d.now(5, answer(3));
    let said = [
        Bytes(2, 0),
        Bytes(2, 7),
        Answer(2, 0),
        Failed(5, false),
        Answer(3, 5),
        Flush,
    ];
    assert_eq!(d.probe().wait_for(6), said, "in one system call");
    assert_eq!(d.waiting(), 1);
}

#[test]
fn no_lock_is_held_while_memory_is_dropped_or_bytes_are_sent() {
    let d = told();
    let dropped = Arc::new(AtomicUsize::new(0));
    // What is dropped goes to another thread that adds to the list, and waits for it.
    let memory = || {
        let (d, dropped) = (d.clone(), dropped.clone());
        Memory(Some(Box::new(move || {
            let other = std::thread::spawn(move || d.push(Ok(event()), answer(9)));
            other.join().unwrap();
            dropped.fetch_add(1, Ordering::SeqCst);
        })))
    };
    let (e, f) = (event(), event());
    d.push(Ok(e.clone()), Then::Release(memory()));
    let send = Then::Send {
        call: 1,
        offset: 0,
        bytes: memory(),
        last: None,
    };
    d.push(Ok(e.clone()), send);
    d.keep(f.clone(), memory());
    d.push(
        Ok(e.clone()),
        Then::Run({
            let d = d.clone();
            Box::new(move |_| d.now(0, answer(2)))
        }),
    );
    come(&e, 0);
    come(&f, 0);
    let (said, all) = (d.clone(), dropped.clone());
    let work = std::thread::spawn(move || {
        said.sweep();
        assert_eq!(said.held(), 0);
    });
    let start = Instant::now();
    while !work.is_finished() || all.load(Ordering::SeqCst) < 3 {
        assert!(start.elapsed() < LONG, "a lock is held");
        std::thread::yield_now();
    }
    assert!(d.probe().said().contains(&Answer(2, 0)));
}

#[test]
fn pieces_of_an_answer_that_has_failed_are_not_sent() {
    let d = told();
    let (a, b) = (event(), event());
    d.push(Ok(a.clone()), bytes(1, 0, false));
    d.push(Ok(b.clone()), bytes(2, 0, false));
    d.now(700, answer(1));
    come(&a, 0);
    come(&b, 0);
    d.sweep();
    let said = d.probe().wait_for(5);
    assert_eq!(
        said,
        [
            Failed(700, false),
            Answer(1, 700),
            Flush,
            Bytes(2, 0),
            Flush
        ]
    );
}

/// An API looks then what else is lost.
#[test]
fn bytes_of_a_copy_that_failed_are_not_sent_but_its_call_is_answered() {
    let d = told();
    let e = event();
    d.push(Ok(e.clone()), bytes(4, 0, true));
    come(&e, -5);
    d.sweep();
    assert_eq!(
        d.probe().wait_for(3),
        [Failed(-5, true), Answer(4, -5), Flush]
    );
}

#[test]
fn what_waits_for_events_that_are_gone_ends_with_an_error() {
    let d = told();
    let (mine, others, due) = (event(), event(), event());
    d.push(Ok(mine.clone()), answer(1));
    d.push(Ok(others.clone()), answer(2));
    d.push(Ok(due.clone()), answer(3));
    come(&due, 0);
    let left = d.leave(|e| Arc::ptr_eq(e, &mine));
    assert_eq!(d.probe().wait_for(2), [Answer(3, 0), Flush]);
    d.abandon(left, 709);
    assert_eq!(d.probe().said()[2..], [Answer(1, 709), Flush]);
    assert_eq!(d.waiting(), 1);
}

#[test]
fn memory_is_kept_until_its_command_has_run() {
    let d = told();
    let dropped = Arc::new(AtomicUsize::new(0));
    let all: Vec<_> = (0..5).map(|_| event()).collect();
    for e in &all {
        let dropped = dropped.clone();
        let count = move || _ = dropped.fetch_add(1, Ordering::SeqCst);
        d.keep(e.clone(), Memory(Some(Box::new(count))));
    }
    come(&all[0], 0);
    come(&all[1], -1);
    come(&all[3], 0);
    assert_eq!((d.held(), dropped.load(Ordering::SeqCst)), (3, 2));
    come(&all[2], 0);
    assert_eq!((d.held(), dropped.load(Ordering::SeqCst)), (1, 4));
}

#[test]
fn a_thread_of_the_library_does_what_is_little_and_nothing_else() {
    let d = told();
    let me = std::thread::current().id();
    let e = event();
    let n = d.push(Ok(e), answer(1));
    // The event itself does not show it yet.
    d.told(n, 3);
    assert_eq!(d.probe().said(), [Failed(3, true), Answer(1, 3), Flush]);
    assert_eq!(d.probe().said.lock().unwrap()[0].1, Some(me));
    assert_eq!(d.probe().theirs.load(Ordering::SeqCst), 1);
    // Bytes are not little: the engine's own thread sends them.
    let e = event();
    let n = d.push(Ok(e.clone()), bytes(2, 0, true));
    come(&e, 0);
    d.told(n, 0);
    let said = d.probe().wait_for(6);
    assert_eq!(said[3..], [Bytes(2, 0), Answer(2, 0), Flush]);
    assert_ne!(d.probe().said.lock().unwrap()[3].1, Some(me));
    // Nor is one of two: the other may have come before.
    let (a, b) = (event(), event());
    d.push(Ok(a.clone()), answer(3));
    let n = d.push(Ok(b.clone()), answer(4));
    come(&a, 0);
    come(&b, 0);
    d.told(n, 0);
    assert_eq!(
        d.probe().wait_for(9)[6..],
        [Answer(3, 0), Answer(4, 0), Flush]
    );
    assert_eq!(d.probe().theirs.load(Ordering::SeqCst), 1);
}

#[test]
fn the_engine_s_thread_looks_when_nobody_else_does() {
    let d: Done<Toy<false>> = Done::start(Toy::default()).unwrap();
    let e = event();
    d.push(Ok(e.clone()), answer(1));
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(d.probe().said(), []);
    come(&e, 0);
    assert_eq!(d.probe().wait_for(2), [Answer(1, 0), Flush]);
}

#[test]
fn many_threads_add_and_sweep_and_each_entry_is_done_once_in_its_order() {
    const EACH: u32 = 2000;
    let d: Done<Toy<false>> = Done::start(Toy::default()).unwrap();
    std::thread::scope(|s| {
        for t in 0..4u32 {
            let d = &d;
            s.spawn(move || {
                for i in 0..EACH {
                    let e = event();
                    d.push(Ok(e.clone()), bytes(t * EACH + i + 1, 0, false));
                    come(&e, 0);
                    d.now(0, answer(t * EACH + i + 1));
                }
            });
        }
    });
    let start = Instant::now();
    while d.waiting() > 0 || d.probe().said().iter().filter(|s| **s != Flush).count() < 16_000 {
        assert!(start.elapsed() < LONG);
    }
    for t in 0..4 {
        let of = |c: u32| (t * EACH + 1..=(t + 1) * EACH).contains(&c);
        let said = d.probe().said();
        let own = said.iter().filter_map(|s| match s {
            Bytes(c, _) if of(*c) => Some((*c, false)),
            Answer(c, _) if of(*c) => Some((*c, true)),
            _ => None,
        });
        let all = (t * EACH + 1..=(t + 1) * EACH).flat_map(|c| [(c, false), (c, true)]);
        assert!(own.eq(all), "thread {t}");
    }
}

#[test]
fn calls_that_wait_have_a_bounded_number_of_threads() {
    const MOST: usize = 128;
    let d = told();
    let gate = Gate::default();
    let at_work = |n| {
        let start = Instant::now();
        while d.probe().jobs.load(Ordering::SeqCst) != n {
            assert!(start.elapsed() < LONG, "{n} jobs");
            std::thread::yield_now();
        }
    };
    for call in 0..MOST as u32 + 100 {
        d.wait((gate.clone(), call)).ok().unwrap();
    }
    at_work(MOST);
    // What others may wait for has a thread in any case.
    d.wait_first((gate.clone(), 1000)).ok().unwrap();
    at_work(MOST + 1);
    for call in 0..4096 - 100 {
        d.wait((gate.clone(), 2000 + call)).ok().unwrap();
    }
    let full = d.wait((gate.clone(), 1));
    assert!(matches!(full, Err((_, 1))), "there is no room");
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    let start = Instant::now();
    let answers = || d.probe().said().iter().filter(|s| **s != Flush).count();
    while answers() < MOST + 1 + 4096 {
        assert!(start.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(1));
    }
    at_work(0);
    assert_eq!(d.probe().most_jobs.load(Ordering::SeqCst), MOST + 1);
    // Threads are kept, but not the one beyond.
    let again = Gate::default();
    for call in 0..MOST as u32 + 10 {
        d.wait((again.clone(), call)).ok().unwrap();
    }
    at_work(MOST);
    *again.0.lock().unwrap() = true;
    again.1.notify_all();
}

#[test]
fn an_entry_allocates_nothing_once_there_is_room() {
    let d = told();
    d.probe().quiet.store(true, Ordering::SeqCst);
    let all: Vec<_> = (0..64).map(|_| event()).collect();
    let round = || {
        for (i, e) in all.iter().enumerate() {
            e.result.store(NOT_YET, Ordering::SeqCst);
            let call = i as u32 + 1;
            match i % 4 {
                0 => d.keep(e.clone(), Memory(None)),
                1 => _ = d.push(Ok(e.clone()), Then::Release(Memory(None))),
                2 => _ = d.push(Ok(e.clone()), bytes(call, 0, true)),
                _ => _ = d.push(Ok(e.clone()), answer(call)),
            }
        }
        for e in &all {
            come(e, 0);
        }
        d.sweep();
        assert_eq!((d.waiting(), d.held()), (0, 0));
    };
    // The engine's thread sleeps: nobody has told it anything.
    (0..10).for_each(|_| round());
    let before = MADE.get();
    (0..100).for_each(|_| round());
    assert_eq!(MADE.get() - before, 0);
}
