//! What is to happen once the device has come so far: copies that arrive, answers that wait, memory
//! that commands use. One engine for every API; an API says with a [`Probe`] what its events are.
//!
//! Whoever has time looks: the executor between records, a thread of the engine's own, and a thread
//! of the library's that says that something has come. An answer is sent only after everything that
//! was complete before it: a client that hears that a stream is idle has the bytes that were copied
//! on it. So events are asked backwards: whatever a later one comes after is found complete, too.
//!
//! One thread at a time has the role of doing what is due. It does that without the lock of the
//! list: others add to the list meanwhile, and leave theirs to it. What is due at once is sent at
//! once: the bytes of a copy and the word that its stream is idle are one system call. ADR 0018 has
//! the reasons.

mod waiters;

use crate::prelude::*;
use busbar_channel::{alone, core_for_a_moment, is_crowded, nap, patience, soon, spare_core};
use busbar_transport::baton::HASTE;
use std::sync::TryLockError;
use std::sync::atomic::fence;
use waiters::Waiters;

/// What an API's events are, and what is done when they have come. A result of 0 is a success.
pub trait Probe: Send + Sync + Sized + 'static {
    /// What is waited for.
    type Event: Send;
    /// Memory whose bytes go to the client.
    type Bytes: Send;
    /// Memory that is kept until nobody uses it any more.
    type Kept: Send;
    /// What an answer has beside its result.
    type Answer: Send;
    /// A call that waits, for a thread that has nothing else to do.
    type Job: Send;

    /// How often [`Probe::tidy`] is called.
    const TIDY: Duration = Duration::from_secs(3600);

    /// Whether the library says when something has come, with [`Done::told`]. The engine's thread
    /// then only looks in case that it forgets to.
    fn is_told(&self) -> bool;
    /// An engine's thread begins.
    fn begin(&self) {}
    /// The event's result, if it has come.
    fn ask(&self, e: &Self::Event) -> Option<i32>;
    /// The event is waited for no more. `theirs`: on a thread of the library's, which may still be
    /// at work on it.
    fn over(&self, e: Self::Event, theirs: bool);
    /// Something has failed; the event shows where, if there was one.
    fn failed(&self, _rc: i32, _e: Option<&Self::Event>) {}
    /// Whether a thread of the library's may do this itself.
    fn is_little(&self, e: &Self::Event, then: &Then<Self>) -> bool;
    /// Has bytes sent by the next [`Probe::flush`].
    fn send(&self, call: u32, offset: u64, bytes: Self::Bytes);
    /// Has an answer sent by the next [`Probe::flush`].
    fn answer(&self, call: u32, rc: i32, answer: Self::Answer);
    /// Somebody is about to hear that something has come: has sent what must be there before.
    fn before_word(&self) {}
    /// Sends.
    fn flush(&self);
    /// Makes a call that waits, and says what has come of it.
    fn serve(&self, done: &Done<Self>, job: Self::Job);
    /// How the engine's thread goes on when nothing has come for so long.
    fn pace(&self, since: Duration) -> Pace;
    /// Gives back what has not been used for a while.
    fn tidy(&self) {}
}

/// How to wait for what is to come.
pub enum Pace {
    /// By looking again at once.
    Spin,
    /// By sleeping.
    Nap(Duration),
}

impl Pace {
    /// Looks for what a device does when nothing has come for so long: somebody is likely to wait
    /// for that. `hands_over`: others wait for the device, which is idle from the end of what is
    /// under way until that is seen.
    pub fn of_a_device(since: Duration, hands_over: bool) -> Self {
        match since {
            s if hands_over && s < HASTE && core_for_a_moment() => Self::Spin,
            s if s < patience().waiting && spare_core() => Self::Spin,
            s if is_crowded() => Self::Nap(nap(s)),
            s if s > Duration::from_millis(5) => Self::Nap(Duration::from_micros(50)),
            _ => Self::Nap(Duration::from_micros(10)),
        }
    }
}

/// What happens when an entry's time has come.
pub enum Then<P: Probe> {
    /// Memory is free again.
    Release(P::Kept),
    /// Bytes go to the client.
    Send {
        /// The call that they answer; 0 when nobody wants them any more.
        call: u32,
        /// Where they belong in its answer.
        offset: u64,
        /// Where they are.
        bytes: P::Bytes,
        /// They are the last ones, and the call is answered.
        last: Option<P::Answer>,
    },
    /// A call is answered.
    Answer {
        /// The call.
        call: u32,
        /// What beside the result.
        answer: P::Answer,
    },
    /// Something else; it must not block.
    Run(Box<dyn FnOnce(i32) + Send>),
}

struct Entry<P: Probe> {
    number: u64,
    /// The event to wait for; none when the time has come already, with a result.
    event: Result<P::Event, i32>,
    then: Then<P>,
}

/// An entry whose time has come, and its result.
type Due<P> = (Entry<P>, i32);

/// What waited for events that never come.
#[must_use]
pub struct Bereft<P: Probe>(Vec<Entry<P>>);

struct State<P: Probe> {
    entries: VecDeque<Entry<P>>,
    /// Memory that nobody waits for, in the order of its commands.
    kept: VecDeque<(P::Event, P::Kept)>,
    /// The number of the last entry.
    last: u64,
    /// The engine's thread is to look.
    kicked: bool,
}

impl<P: Probe> State<P> {
    fn idle(&self) -> bool {
        self.entries.is_empty() && self.kept.is_empty()
    }
}

struct Shared<P: Probe> {
    probe: P,
    /// Locked after `role` by who needs both.
    state: Mutex<State<P>>,
    came: Condvar,
    /// Held by whoever does what is due, with room for that.
    role: Mutex<Vec<Due<P>>>,
    /// Somebody has come while another held the role.
    missed: AtomicBool,
    waiters: Waiters<P::Job>,
}

/// The engine. Cheap to clone.
pub struct Done<P: Probe>(Arc<Shared<P>>);

impl<P: Probe> Clone for Done<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Memory may be held by this many commands before anybody looks whether they have run.
const HELD: usize = 8;

impl<P: Probe> Done<P> {
    /// An engine and its thread; without threads the executor's looks are all that there are.
    pub fn start(probe: P) -> std::io::Result<Self> {
        let me = Self(Arc::new(Shared {
            probe,
            state: Mutex::new(State {
                entries: VecDeque::new(),
                kept: VecDeque::new(),
                last: 0,
                kicked: false,
            }),
            came: Condvar::new(),
            role: Mutex::default(),
            missed: AtomicBool::new(false),
            waiters: Waiters::default(),
        }));
        if alone::is_set() {
            return Ok(me);
        }
        let thread = me.clone();
        std::thread::Builder::new()
            .name("completer".into())
            .spawn(move || thread.run())?;
        Ok(me)
    }

    /// The API's side.
    pub fn probe(&self) -> &P {
        &self.0.probe
    }

    fn state(&self) -> MutexGuard<'_, State<P>> {
        soon(&self.0.state)
    }

    /// Does `then` once the event has come. Returns the entry's number.
    pub fn push(&self, event: Result<P::Event, i32>, then: Then<P>) -> u64 {
        let mut s = self.state();
        s.last += 1;
        let number = s.last;
        s.entries.push_back(Entry {
            number,
            event,
            then,
        });
        if s.entries.len() == 1 && !self.0.probe.is_told() {
            self.0.came.notify_one();
        }
        number
    }

    /// Does `then` now, but after everything whose time has come before.
    pub fn now(&self, rc: i32, then: Then<P>) {
        self.push(Err(rc), then);
        self.sweep();
    }

    /// Keeps memory until an event has come, for which nobody waits.
    pub fn keep(&self, event: P::Event, kept: P::Kept) {
        let mut s = self.state();
        s.kept.push_back((event, kept));
        let many = s.kept.len() > HELD;
        drop(s);
        if many {
            self.let_go();
        }
    }

    /// How many events keep memory.
    pub fn held(&self) -> usize {
        self.let_go();
        self.state().kept.len()
    }

    /// How many entries there are.
    pub fn waiting(&self) -> usize {
        self.state().entries.len()
    }

    /// Frees what is no longer used. Looks no further than the first event that has not come, for
    /// most come in the order of their calls.
    fn let_go(&self) {
        loop {
            let mut s = self.state();
            let first = s.kept.front();
            if first.and_then(|(e, _)| self.0.probe.ask(e)).is_none() {
                return;
            }
            let gone = s.kept.pop_front();
            drop(s);
            if let Some((e, kept)) = gone {
                self.0.probe.over(e, false);
                drop(kept);
            }
        }
    }

    /// Takes out what waits for some events that never come, after doing what is due: whoever gets
    /// it gives it to [`Done::abandon`].
    pub fn leave(&self, of: impl Fn(&P::Event) -> bool) -> Bereft<P> {
        let mut due = lock(&self.0.role);
        let mut s = self.state();
        self.take_due(&mut s, &mut due);
        let gone = |e: &Entry<P>| e.event.as_ref().is_ok_and(&of);
        let (left, rest): (Vec<_>, Vec<_>) = s.entries.drain(..).partition(gone);
        s.entries = rest.into();
        drop(s);
        self.finish(&mut due, false);
        drop(due);
        // For who has come meanwhile.
        self.sweep();
        Bereft(left)
    }

    /// Ends what waited for events that are gone, with a result.
    pub fn abandon(&self, left: Bereft<P>, rc: i32) {
        for e in left.0 {
            self.act(e.then, rc);
        }
        self.0.probe.flush();
    }

    /// Does everything whose time has come, or has the thread do it that is at it. Returns whether
    /// anything may be left.
    pub fn sweep(&self) -> bool {
        self.0.missed.store(true, Ordering::Relaxed);
        // Either we get the role, or whoever has it sees that.
        fence(Ordering::SeqCst);
        self.glance()
    }

    fn try_role(&self) -> Option<MutexGuard<'_, Vec<Due<P>>>> {
        match self.0.role.try_lock() {
            Ok(role) => Some(role),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// As [`Done::sweep`], for nothing in particular.
    pub fn glance(&self) -> bool {
        loop {
            let Some(mut due) = self.try_role() else {
                return true;
            };
            self.0.missed.store(false, Ordering::Relaxed);
            let left = loop {
                let mut s = self.state();
                self.take_due(&mut s, &mut due);
                let left = !s.entries.is_empty();
                drop(s);
                if due.is_empty() {
                    break left;
                }
                self.finish(&mut due, false);
            };
            drop(due);
            fence(Ordering::SeqCst);
            if !self.0.missed.load(Ordering::Relaxed) {
                return left;
            }
        }
    }

    /// The library says, on a thread of its own, that the event of an entry has come, or one of
    /// several. If that is all there is, and it is little, it is done at once.
    pub fn told(&self, number: u64, rc: i32) {
        if let Some(mut due) = self.try_role() {
            let mut s = self.state();
            let little = |e: &Entry<P>| {
                let event = e.event.as_ref();
                e.number == number && event.is_ok_and(|v| self.0.probe.is_little(v, &e.then))
            };
            if s.entries.len() == 1 && little(&s.entries[0]) {
                due.extend(s.entries.pop_front().map(|e| (e, rc)));
                drop(s);
                self.finish(&mut due, true);
            }
        }
        fence(Ordering::SeqCst);
        let mut s = self.state();
        if !s.entries.is_empty() || self.0.missed.load(Ordering::Relaxed) {
            s.kicked = true;
            drop(s);
            self.0.came.notify_one();
        }
    }

    /// Takes out what is due, in the order in which it is to be done.
    fn take_due(&self, s: &mut State<P>, due: &mut Vec<Due<P>>) {
        for i in (0..s.entries.len()).rev() {
            let rc = match &s.entries[i].event {
                Err(rc) => Some(*rc),
                Ok(e) => self.0.probe.ask(e),
            };
            if let Some(rc) = rc
                && let Some(e) = s.entries.remove(i)
            {
                due.push((e, rc));
            }
        }
        due.reverse();
        for (e, rc) in due.iter() {
            let (Then::Answer { call, .. } | Then::Send { call, .. }) = &e.then else {
                continue;
            };
            if *rc != 0 && *call != 0 {
                nobody_wants(s, *call);
            }
        }
    }

    /// Does what is due. The caller has the role.
    fn finish(&self, due: &mut Vec<Due<P>>, theirs: bool) {
        let heard = due.iter().any(|(e, _)| !matches!(e.then, Then::Release(_)));
        if heard {
            self.0.probe.before_word();
        }
        for (e, rc) in due.drain(..) {
            if rc != 0 {
                self.0.probe.failed(rc, e.event.as_ref().ok());
            }
            if let Ok(event) = e.event {
                self.0.probe.over(event, theirs);
            }
            self.act(e.then, rc);
        }
        if heard {
            self.0.probe.flush();
        }
    }

    /// Does what an entry is for.
    fn act(&self, then: Then<P>, rc: i32) {
        let probe = &self.0.probe;
        match then {
            Then::Release(kept) => drop(kept),
            Then::Run(f) => f(rc),
            Then::Answer { call, answer } => probe.answer(call, rc, answer),
            Then::Send { call: 0, .. } => {}
            Then::Send {
                call,
                offset,
                bytes,
                last,
            } => {
                if rc == 0 {
                    probe.send(call, offset, bytes);
                }
                if let Some(answer) = last {
                    probe.answer(call, rc, answer);
                }
            }
        }
    }

    /// Gives a call that waits to a thread. It comes back when there is none for it.
    pub fn wait(&self, job: P::Job) -> Result<(), P::Job> {
        self.give(job, true)
    }

    /// As [`Done::wait`], for what others may wait for: it does not queue behind their waits. Who
    /// calls this has one such job under way at most.
    pub fn wait_first(&self, job: P::Job) -> Result<(), P::Job> {
        self.give(job, false)
    }

    fn give(&self, job: P::Job, queue: bool) -> Result<(), P::Job> {
        if alone::is_set() {
            self.0.probe.serve(self, job);
            return Ok(());
        }
        let server = || {
            let (me, mut begun) = (self.clone(), false);
            move |job| {
                if !std::mem::replace(&mut begun, true) {
                    me.0.probe.begin();
                }
                me.0.probe.serve(&me, job);
            }
        };
        self.0.waiters.take(job, queue, server)
    }

    /// A call that waits may come soon: the thread that will get it looks out for it.
    pub fn rouse(&self) {
        self.0.waiters.rouse();
    }

    /// The thread that looks when the executor is busy.
    fn run(&self) {
        // SAFETY: plain prctl; naps of some microseconds need the finest timer slack.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        self.0.probe.begin();
        let (mut came, mut tidied) = (Instant::now(), Instant::now());
        loop {
            if tidied.elapsed() >= P::TIDY {
                self.0.probe.tidy();
                tidied = Instant::now();
            }
            let mut s = self.state();
            if s.idle() && !s.kicked {
                s = self.sleep(s, P::TIDY.saturating_sub(tidied.elapsed()));
                came = Instant::now();
            }
            s.kicked = false;
            let before = s.entries.len();
            drop(s);
            self.glance();
            self.let_go();
            let s = self.state();
            if s.entries.len() < before {
                came = Instant::now();
            }
            if s.idle() {
                continue;
            }
            match self.0.probe.pace(came.elapsed()) {
                Pace::Spin => {
                    drop(s);
                    // Somebody may wait for what is on its way: the device's own calls would spin,
                    // too.
                    for _ in 0..64 {
                        std::hint::spin_loop();
                    }
                    std::thread::yield_now();
                }
                Pace::Nap(long) if self.0.probe.is_told() => drop(self.sleep(s, long)),
                Pace::Nap(long) => {
                    drop(s);
                    std::thread::sleep(long);
                }
            }
        }
    }

    fn sleep<'a>(
        &'a self,
        s: MutexGuard<'a, State<P>>,
        long: Duration,
    ) -> MutexGuard<'a, State<P>> {
        if s.kicked {
            return s;
        }
        let waited = self.0.came.wait_timeout(s, long);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Pieces of an answer that are still under way are not sent once the call has failed.
fn nobody_wants<P: Probe>(s: &mut State<P>, failed: u32) {
    for e in &mut s.entries {
        if let Then::Send { call, last, .. } = &mut e.then
            && *call == failed
            && last.is_none()
        {
            *call = 0;
        }
    }
}
