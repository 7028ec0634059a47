//! Communicators, and who looks after them: calls that wait for other ranks, aborts, and the state
//! that is told to the client.

use super::library::Library;
use super::steps::{self, Steps};
use crate::lock::lock;
use crate::outbox::Outbox;
use crate::peers::Peers;
use busbar_abi::nccl::*;
use busbar_control::attach::Report;
use busbar_control::talk::{Loss, Talk, Waits};
use busbar_wire::codec::Message as _;
use busbar_wire::generated::collectives::{GroupReply, State};
use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// How often the library is asked how communicators are.
const WATCH: Duration = Duration::from_millis(100);

/// How long a program has to end its communicators once a rank is gone, before its session is
/// ended: what its devices wait for does not come, and may never return.
const GRACE: Duration = Duration::from_secs(15);

/// How long those who are asked what keeps a call may take to answer.
const ANSWERS: Duration = Duration::from_secs(5);

/// How often it is asked while a call is in progress.
const STEP: Duration = Duration::from_micros(50);

/// A communicator.
pub struct Comm {
    /// The client's name for it.
    pub id: u32,
    /// What all its ranks call it; 0 where they are all of this process.
    key: u64,
    /// What else there was, and had not failed, when it was begun: a rank that is lost with one of
    /// those may be what this one waits for.
    beside: Vec<u64>,
    /// The library's; null before there is one, and once somebody has taken it to end it.
    raw: AtomicPtr<c_void>,
    /// Whether it can be used.
    ready: AtomicBool,
    /// Whether it is aborted. Whoever takes the handle to end it has this locked: who holds it
    /// may use the handle beside the call that the communicator is busy with.
    aborted: Mutex<bool>,
    /// Whether the call that makes it returns when it is made, and not before.
    blocking: bool,
    /// Held by whoever uses the library's handle: the library takes one call at a time.
    busy: Mutex<()>,
    /// What the client was told last.
    told: AtomicI32,
    /// Operators and registrations, by the client's ids.
    pub ops: Mutex<HashMap<u32, ncclRedOp_t>>,
    pub registered: Mutex<HashMap<u32, usize>>,
    /// How far it has come.
    pub steps: Mutex<Steps>,
}

impl Comm {
    /// The library's handle.
    pub fn raw(&self) -> ncclComm_t {
        self.raw.load(Ordering::Acquire)
    }

    /// Where the library puts the handle.
    pub fn place(&self) -> *mut ncclComm_t {
        self.raw.as_ptr()
    }

    /// The library has put it elsewhere.
    pub fn set(&self, raw: ncclComm_t) {
        self.raw.store(raw, Ordering::Release);
    }

    /// Whether it is aborted.
    pub fn is_aborted(&self) -> bool {
        *lock(&self.aborted)
    }

    /// Whether the client was told that it has failed.
    fn has_failed(&self) -> bool {
        let told = self.told.load(Ordering::Acquire);
        told != ncclSuccess && told != ncclInProgress
    }

    /// Whether it has a rank for a member, or waits for one, that was a member of these, of which
    /// none stand for all. One that a program begins after those have failed, or have ended, goes
    /// on without that rank: how late the loss is told, or how often, is nothing to it.
    fn has_lost(&self, comms: &[u64]) -> bool {
        let hit = |key: &u64| comms.contains(key);
        comms.is_empty()
            || hit(&self.key)
            || !self.ready.load(Ordering::Acquire) && self.beside.iter().any(hit)
    }

    /// Takes the library's handle to end it: of all who want to, one gets it, and nobody uses it
    /// any more who has not begun to.
    fn take(&self) -> ncclComm_t {
        self.raw.swap(std::ptr::null_mut(), Ordering::AcqRel)
    }

    /// Ends it in good order.
    pub fn destroy(&self, library: &Library) -> ncclResult_t {
        let raw = {
            let _nobody_asks = lock(&self.aborted);
            self.take()
        };
        match raw.is_null() {
            true => ncclSuccess,
            // SAFETY: a live communicator, which is this call's alone.
            false => unsafe { library.ncclCommDestroy(raw) },
        }
    }

    /// Ends it whatever it does. One that a call is about to make ends as soon as it is there: that
    /// is left to the call.
    fn abort(&self, library: &Library) -> ncclResult_t {
        let raw = {
            let mut aborted = lock(&self.aborted);
            *aborted = true;
            match self.blocking && !self.ready.load(Ordering::Acquire) {
                true => std::ptr::null_mut(),
                false => self.take(),
            }
        };
        match raw.is_null() {
            true => ncclSuccess,
            // SAFETY: a live communicator, which nobody else ends; one call may be in progress,
            // which this ends, as the API has it.
            false => unsafe { library.ncclCommAbort(raw) },
        }
    }

    /// What the library says of it; `None` once it has ended.
    fn ask(&self, library: &Library) -> Option<ncclResult_t> {
        let aborted = lock(&self.aborted);
        let mut code = ncclSuccess;
        if *aborted || self.raw().is_null() {
            return None;
        }
        // SAFETY: a live communicator: whoever ends one takes it first, with the lock.
        match unsafe { library.ncclCommGetAsyncError(self.raw(), &mut code) } {
            ncclSuccess => Some(code),
            rc => Some(rc),
        }
    }

    /// What the client hears next of it is news.
    pub fn begins(&self) {
        self.told.store(ncclInProgress, Ordering::Release);
    }

    /// Waits for a call in progress to be done.
    pub fn settle(&self, library: &Library, rc: ncclResult_t) -> ncclResult_t {
        let mut rc = rc;
        while rc == ncclInProgress {
            std::thread::sleep(STEP);
            rc = self.ask(library).unwrap_or(ncclInternalError);
        }
        rc
    }
}

/// Communicators that are one caller's alone until this is dropped.
pub type Held<'a> = Vec<MutexGuard<'a, ()>>;

/// Each of them once, in the order in which all take them.
pub fn in_order<'a>(comms: impl Iterator<Item = &'a Arc<Comm>>) -> Vec<Arc<Comm>> {
    let mut all: Vec<_> = comms.cloned().collect();
    all.sort_by_key(Arc::as_ptr);
    all.dedup_by(|a, b| Arc::ptr_eq(a, b));
    all
}

/// Waits until no other call uses these, which are in order.
pub fn hold(comms: &[Arc<Comm>]) -> Held<'_> {
    comms.iter().map(|c| lock(&c.busy)).collect()
}

/// The same, but for no longer than this; `None` when one is in use still.
pub fn hold_soon(comms: &[Arc<Comm>], most: Duration) -> Option<Held<'_>> {
    let end = Instant::now() + most;
    let mut held = Vec::with_capacity(comms.len());
    for c in comms {
        loop {
            match c.busy.try_lock() {
                Ok(guard) => break held.push(guard),
                Err(TryLockError::Poisoned(e)) => break held.push(e.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= end => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(STEP),
            }
        }
    }
    Some(held)
}

/// The most threads of a crew: more than a program has that waits for each of its calls.
const MOST_AT_WORK: usize = 512;

/// Threads for calls that wait, one for each.
#[derive(Default)]
pub struct Crew(AtomicUsize);

impl Crew {
    /// Has a thread do something; whether there is one for it.
    pub fn begin(self: &Arc<Self>, name: &str, work: impl FnOnce() + Send + 'static) -> bool {
        struct Place(Arc<Crew>);
        impl Drop for Place {
            fn drop(&mut self) {
                self.0.0.fetch_sub(1, Ordering::AcqRel);
            }
        }
        let place = Place(self.clone());
        if self.0.fetch_add(1, Ordering::AcqRel) >= MOST_AT_WORK {
            return false;
        }
        let thread = std::thread::Builder::new().name(name.into());
        let work = move || {
            work();
            drop(place);
        };
        thread.spawn(work).is_ok()
    }
}

/// A session's communicators.
pub struct Comms {
    /// Who waits for other ranks, and who ends that: there is a thread for these whatever the
    /// others wait for.
    pub waiting: Arc<Crew>,
    ending: Arc<Crew>,
    pub outbox: Outbox,
    all: Mutex<All>,
    watched: AtomicBool,
    peers: Peers,
    /// After how many ms a call that does not end is spoken of; 0 for never.
    limit: AtomicU64,
    /// What others were asked for, until somebody has said what keeps it.
    asked: Mutex<Option<(Instant, Waits)>>,
}

#[derive(Default)]
struct All {
    comms: HashMap<u32, Arc<Comm>>,
    /// Those that were aborted before the record that makes them had its turn.
    too_soon: HashSet<u32>,
}

impl All {
    /// Those that have not failed.
    fn whole(&self) -> Vec<u64> {
        let whole = self.comms.values().filter(|c| !c.has_failed());
        whole.map(|c| c.key).collect()
    }

    /// Whether this process has a rank of it.
    fn has(&self, key: u64) -> bool {
        self.comms.values().any(|c| c.key == key)
    }
}

/// The most communicators that are aborted before they are made.
const MOST_TOO_SOON: usize = 4096;

impl Comms {
    pub fn new(outbox: Outbox, peers: Peers) -> Arc<Self> {
        Arc::new(Self {
            waiting: Arc::default(),
            ending: Arc::default(),
            outbox,
            all: Mutex::default(),
            watched: AtomicBool::new(false),
            peers,
            limit: AtomicU64::new(0),
            asked: Mutex::default(),
        })
    }

    /// From now on calls that do not end for so long are spoken of.
    pub fn speak_after(&self, time: Duration) {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.limit.store(ms, Ordering::Release);
    }

    /// Whether they are.
    pub fn speaks(&self) -> bool {
        self.limit.load(Ordering::Acquire) > 0
    }

    /// One that is being made. It may be aborted already.
    pub fn make(
        self: &Arc<Self>,
        library: &'static Library,
        (id, blocking): (u32, bool),
        steps: Steps,
    ) -> Arc<Comm> {
        let mut all = lock(&self.all);
        let key = steps.key();
        let comm = Arc::new(Comm {
            id,
            key,
            beside: all.whole(),
            raw: AtomicPtr::default(),
            ready: AtomicBool::new(false),
            aborted: Mutex::new(all.too_soon.remove(&id)),
            blocking,
            busy: Mutex::default(),
            told: AtomicI32::new(ncclInProgress),
            ops: Mutex::default(),
            registered: Mutex::default(),
            steps: Mutex::new(steps),
        });
        if key != 0 && !all.has(key) {
            self.peers.say(Report::Member {
                comm: key,
                yes: true,
            });
        }
        all.comms.insert(id, comm.clone());
        drop(all);
        if !self.watched.swap(true, Ordering::AcqRel) {
            let comms = self.clone();
            let watch = move || comms.watch(library);
            let thread = std::thread::Builder::new().name("collectives".into());
            // Without it only calls that fail are heard of.
            let _ = thread.spawn(watch);
        }
        comm
    }

    /// The one with an id.
    pub fn get(&self, id: u32) -> Option<Arc<Comm>> {
        lock(&self.all).comms.get(&id).cloned()
    }

    /// The one with an id, which nobody is to find any more: whoever asks ends it.
    pub fn forget(&self, id: u32) -> Option<Arc<Comm>> {
        self.remove(&mut lock(&self.all), id)
    }

    /// It is gone, and perhaps it was the last one.
    fn remove(&self, all: &mut All, id: u32) -> Option<Arc<Comm>> {
        let gone = all.comms.remove(&id)?;
        let comm = gone.key;
        if comm != 0 && !all.has(comm) {
            self.peers.say(Report::Member { comm, yes: false });
        }
        Some(gone)
    }

    /// A rank of the job is gone: communicators that have it fail, each with these words. A program
    /// that does not end them then, for it may wait for its device, has its session ended.
    pub fn lost(self: &Arc<Self>, loss: &Loss) {
        let text = loss.text.as_str();
        let all = lock(&self.all);
        let hit = all.comms.values().filter(|c| c.has_lost(&loss.comms));
        let hit: Vec<_> = hit.cloned().collect();
        drop(all);
        if hit.is_empty() {
            return;
        }
        for comm in &hit {
            self.say(comm, ncclRemoteError, (0, 0), text);
        }
        let (comms, text) = (self.clone(), text.to_string());
        let wait = move || {
            let until = Instant::now() + GRACE;
            let there = |c: &Arc<Comm>| comms.get(c.id).is_some_and(|o| Arc::ptr_eq(&o, c));
            while hit.iter().any(there) {
                if Instant::now() > until {
                    comms.peers.ends(&text);
                    comms.outbox.leave(&text);
                }
                std::thread::sleep(WATCH);
            }
        };
        let _ = std::thread::Builder::new().name("lost".into()).spawn(wait);
    }

    /// Tells the client of one, whatever it was told before.
    fn say(&self, comm: &Comm, code: ncclResult_t, (ranks, rank): (i32, i32), said: &str) {
        comm.told.store(code, Ordering::Release);
        let state = State {
            comm: comm.id,
            code: code as u32,
            ranks: ranks as u32,
            rank: rank as u32,
            said,
        };
        self.outbox.word(|w| state.encode(w));
    }

    /// Tells the client what has become of one, if that is news.
    pub fn tell(&self, library: &Library, comm: &Comm, code: ncclResult_t) {
        let (mut ranks, mut rank) = (0, 0);
        let first = {
            let aborted = lock(&comm.aborted);
            if *aborted {
                let raw = comm.take();
                drop(aborted);
                if !raw.is_null() {
                    // SAFETY: a communicator that has come to be after its abort, which has left it
                    // to whoever makes it, and that nobody has used.
                    unsafe { library.ncclCommAbort(raw) };
                }
                return;
            }
            let first = code == ncclSuccess && !comm.ready.load(Ordering::Acquire);
            if first {
                // SAFETY: a communicator that has just come to be, or none, which the library
                // refuses, and pointers to live numbers.
                unsafe {
                    library.ncclCommCount(comm.raw(), &mut ranks);
                    library.ncclCommUserRank(comm.raw(), &mut rank);
                }
                lock(&comm.steps).found(rank as u32, ranks as u32);
                comm.ready.store(true, Ordering::Release);
            }
            first
        };
        let before = comm.told.swap(code, Ordering::AcqRel);
        if before == code && !first {
            return;
        }
        // What the first call has failed with stays: the library says it only once, and what fails
        // later may have failed by it.
        if !first && before != ncclSuccess && before != ncclInProgress {
            comm.told.store(before, Ordering::Release);
            return;
        }
        let said = library.said(code);
        self.say(comm, code, (ranks, rank), &said);
        if let ncclSystemError | ncclRemoteError = code {
            let why = format!("its communicator has failed: {said}");
            let comm = comm.key;
            self.peers.say(Report::Failed { comm, why });
        }
    }

    /// Looks how far all have come: of a call that does not end the other ranks are asked.
    fn look(&self, all: &[Arc<Comm>]) {
        let limit = Duration::from_millis(self.limit.load(Ordering::Acquire));
        if limit.is_zero() {
            return;
        }
        let now = Instant::now();
        let mut moved = false;
        for comm in all {
            let mut steps = lock(&comm.steps);
            moved |= steps.look(now);
            if let Some(waits) = steps.waits(limit, now) {
                drop(steps);
                let of_it = |c: &&Arc<Comm>| lock(&c.steps).is_of(&waits);
                if waits.number == 0 && all.iter().filter(of_it).count() == waits.ranks as usize {
                    // All have come: what makes it takes long.
                    continue;
                }
                // Ranks of this process need no server to be asked.
                let mut here = waits.clone();
                here.who = format!("rank {} of the same process", waits.rank);
                if !self.say_what_is_lacked(&here) {
                    *lock(&self.asked) = (waits.number > 0).then(|| (now, waits.clone()));
                    self.peers.say(Report::Waits(waits));
                }
            }
        }
        let mut asked = lock(&self.asked);
        if moved {
            *asked = None;
            self.peers.say(Report::Moved);
        }
        let unanswered = asked.take_if(|(since, _)| now.duration_since(*since) > ANSWERS);
        if let Some((_, w)) = unanswered {
            let seconds = w.seconds + ANSWERS.as_secs();
            let what = format!(
                "has waited for {seconds} s in {}, and no rank says that it lacks that",
                steps::named(&w)
            );
            self.peers.say(Report::Late { what });
        }
    }

    /// Says what ranks of this process lack of what another waits for, if they lack anything.
    fn say_what_is_lacked(&self, w: &Waits) -> bool {
        let all: Vec<_> = lock(&self.all).comms.values().cloned().collect();
        let lacks = |c: &Arc<Comm>| lock(&c.steps).lacks(w, Instant::now());
        let lacking: Vec<_> = all.iter().filter_map(lacks).collect();
        for lack in &lacking {
            let (who, seconds) = (&w.who, w.seconds);
            let call = steps::named(w);
            let what = format!("keeps {who}, who has waited for {seconds} s in {call}: it {lack}");
            self.peers.say(Report::Late { what });
        }
        !lacking.is_empty()
    }

    /// What other ranks say.
    pub fn hear(&self, talk: &Talk) {
        match talk {
            Talk::Waits(w) => {
                self.say_what_is_lacked(w);
            }
            Talk::Late { text } => {
                *lock(&self.asked) = None;
                self.outbox
                    .complaint(format!("busbar: {text}\n").as_bytes());
            }
        }
    }

    /// Asks how they are, for as long as the process lives.
    fn watch(&self, library: &Library) {
        loop {
            std::thread::sleep(WATCH);
            // The client may be slow to read what it is told, and others look for theirs meanwhile.
            let all: Vec<_> = lock(&self.all).comms.values().cloned().collect();
            self.look(&all);
            for comm in all.iter().filter(|c| c.ready.load(Ordering::Acquire)) {
                match comm.ask(library) {
                    None | Some(ncclInProgress) => {}
                    Some(code) => self.tell(library, comm, code),
                }
            }
        }
    }

    /// Ends one, or only what it does, and answers; on a thread of its own.
    pub fn abort(
        self: &Arc<Self>,
        library: &'static Library,
        (id, revoke, call): (u32, Option<i32>, u32),
    ) -> Result<(), String> {
        let comm = {
            let mut all = lock(&self.all);
            let comm = match revoke {
                Some(_) => all.comms.get(&id).cloned(),
                None => self.remove(&mut all, id),
            };
            if comm.is_none() && revoke.is_none() && all.too_soon.len() < MOST_TOO_SOON {
                all.too_soon.insert(id);
            }
            comm
        };
        let comms = self.clone();
        let run = move || {
            let rc = match (comm, revoke) {
                (Some(comm), Some(flags)) => {
                    let aborted = lock(&comm.aborted);
                    match *aborted {
                        true => ncclInvalidArgument,
                        // SAFETY: a live communicator, or none, which the library refuses: whoever
                        // ends one takes it first, with the lock.
                        false => unsafe { library.ncclCommRevoke(comm.raw(), flags) },
                    }
                }
                (Some(comm), None) => comm.abort(library),
                (None, Some(_)) => ncclInvalidArgument,
                // It will be made, and is aborted then.
                (None, None) => ncclSuccess,
            };
            comms.answer(library, call, rc);
        };
        match self.ending.begin("abort", run) {
            true => Ok(()),
            false => Err("there is no thread for an abort".into()),
        }
    }

    /// Answers a call that only succeeds or fails.
    pub fn answer(&self, library: &Library, call: u32, rc: ncclResult_t) {
        if call != 0 {
            let said = library.said(rc);
            let reply = GroupReply { said: &said };
            self.outbox.reply(call, rc, |w| reply.encode(w));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comm(id: u32) -> Arc<Comm> {
        Arc::new(Comm {
            id,
            key: id.into(),
            beside: Vec::new(),
            raw: AtomicPtr::default(),
            ready: AtomicBool::new(true),
            aborted: Mutex::default(),
            blocking: true,
            busy: Mutex::default(),
            told: AtomicI32::new(ncclSuccess),
            ops: Mutex::default(),
            registered: Mutex::default(),
            steps: Mutex::new(Steps::new(0, (0, 0))),
        })
    }

    #[test]
    fn a_loss_hits_who_has_the_rank_and_who_waits_for_it() {
        let made = comm(1);
        assert!(made.has_lost(&[2, 1]) && made.has_lost(&[]));
        assert!(!made.has_lost(&[2]));
        let being_made = |beside: &[u64]| {
            let mut c = comm(3);
            let of = Arc::get_mut(&mut c).unwrap();
            (of.beside, of.ready) = (beside.into(), AtomicBool::new(false));
            c
        };
        let (with, without) = (being_made(&[1]), being_made(&[]));
        assert!(with.has_lost(&[1]), "what it waits for may not come");
        assert!(!without.has_lost(&[1]), "it was begun without that rank");
        assert!(without.has_lost(&[3]));
        with.ready.store(true, Ordering::Release);
        assert!(!with.has_lost(&[1]), "all have come");
    }

    #[test]
    fn what_is_begun_after_a_failure_is_not_beside_it() {
        let (outbox, peers) = (Outbox::default(), Peers::default());
        let comms = Comms::new(outbox, peers);
        let whole = comm(1);
        lock(&comms.all).comms.insert(1, whole.clone());
        let beside = || {
            let all = lock(&comms.all);
            all.whole()
        };
        assert_eq!(beside(), [1]);
        whole.told.store(ncclRemoteError, Ordering::Release);
        assert!(beside().is_empty());
    }

    #[test]
    fn calls_that_wait_have_so_many_threads_and_no_more() {
        let crew = Arc::<Crew>::default();
        let gate = Arc::new(Mutex::new(()));
        let held = lock(&gate);
        let mut begun = 0;
        let one = || {
            let gate = gate.clone();
            crew.begin("waits", move || drop(lock(&gate)))
        };
        while begun <= MOST_AT_WORK && one() {
            begun += 1;
        }
        assert_eq!(begun, MOST_AT_WORK);
        drop(held);
        while !one() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_communicator_is_one_callers_at_a_time() {
        let (a, b) = (comm(1), comm(2));
        // As a group names them.
        let all = in_order([&a, &b, &a, &b].into_iter());
        assert_eq!(all.len(), 2);
        let held = hold(&all);
        let one = in_order(std::iter::once(&b));
        assert!(hold_soon(&one, Duration::ZERO).is_none(), "it is in use");
        std::thread::scope(|s| {
            let waits = s.spawn(|| hold_soon(&one, Duration::from_secs(3600)).is_some());
            drop(held);
            assert!(waits.join().unwrap(), "and then it is not");
        });
        assert!(hold_soon(&all, Duration::ZERO).is_some());
    }
}
