//! Whose turn each device is: what [`busbar_pool::timeshare`] decides is said to workers on their
//! boards, and what they do is seen there.
//!
//! To it dense sessions that share a device are one: they have their turns together, and what they
//! have had is counted of all of them.
//!
//! One thread looks. It sleeps until a worker rings its bell, and while somebody waits for a turn
//! it looks all the time. A worker is believed nothing: time is counted by the server's clock, a
//! turn that is not handed over passes on all the same, and a bell that rings without end is left
//! alone for a while.

use super::workers::Worker;
use busbar_channel::core_for_a_moment;
use busbar_control::attach::Order;
use busbar_control::status::Time;
use busbar_pool::timeshare::{Part, Seen, Timeshare, Use, WHOLE, Word};
use busbar_transport::baton::{
    self, BUSY, Bell, Board, FREE, HASTE, IDLE, NONE, Patience, SOON, STOP, Slot,
};
use busbar_transport::handover;
use busbar_transport::lock::lock;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A device in time: its number in the pool, and whether it is a processor.
pub(crate) type Place = (usize, bool);

/// How long a worker may take to say that its session's work has no end.
const LAST_WORD: Duration = Duration::from_secs(2);

struct Session {
    board: Board,
    worker: Arc<Worker>,
    part: Part,
    /// What it is to the time of its devices: itself, or those that it shares them with.
    party: u64,
    /// The devices, in the order of its slots.
    places: Vec<usize>,
    /// Whether each was said to be free: what the worker shows is not asked.
    free: Vec<Cell<bool>>,
}

#[derive(Default)]
struct State {
    devices: BTreeMap<usize, Timeshare>,
    sessions: BTreeMap<u64, Session>,
    numbers: HashMap<String, u64>,
    last: u64,
    bells: BTreeMap<u64, Ringer>,
    /// Whose work went on beside another one's turn when a device was last written down.
    beside: BTreeMap<usize, Vec<u64>>,
}

/// A worker's bell, and how often it is heard.
struct Ringer {
    bell: Arc<Bell>,
    patience: Patience,
}

/// The time of all devices.
pub(crate) struct Timekeeper {
    state: Mutex<State>,
    /// Somebody has come, gone, or changed.
    bell: Arc<Bell>,
    limit: Option<Duration>,
    /// Devices are had in turns even if nobody has asked for that.
    always: bool,
}

fn now() -> Duration {
    Duration::from_nanos(baton::now())
}

/// What a party's sessions show together.
fn together(all: impl Iterator<Item = Seen>) -> Seen {
    let turn = |a: Use, b: Use| match (a, b) {
        (Use::Busy, _) | (_, Use::Busy) => Use::Busy,
        (Use::Idle(a), Use::Idle(b)) => Use::Idle(a.max(b)),
        (Use::None, other) | (other, Use::None) => other,
    };
    let both = |a: Seen, b: Seen| Seen {
        turn: turn(a.turn, b.turn),
        present: a.present || b.present,
        wants: a.wants || b.wants,
        under_way: a.under_way || b.under_way,
        busy: a.busy + b.busy,
        behind: a.behind + b.behind,
        done: a.done.wrapping_add(b.done),
    };
    all.reduce(both).unwrap_or_default()
}

/// What a slot shows.
fn seen(slot: &Slot) -> Seen {
    let since = Duration::from_nanos(slot.since.load(Ordering::Acquire));
    let mut busy = Duration::from_nanos(slot.busy.load(Ordering::Acquire));
    let mut behind = Duration::from_nanos(slot.behind.load(Ordering::Acquire));
    match Duration::from_nanos(slot.behind_from.load(Ordering::Acquire)) {
        Duration::ZERO => {}
        from => behind += now().saturating_sub(from),
    }
    let turn = match slot.word() {
        IDLE => Use::Idle(since),
        BUSY | STOP => {
            busy += now().saturating_sub(since);
            Use::Busy
        }
        _ => Use::None,
    };
    Seen {
        turn,
        present: slot.present.load(Ordering::Acquire) > 0,
        wants: slot.wants.load(Ordering::Acquire) > 0,
        under_way: slot.under_way.load(Ordering::Acquire) > 0,
        busy,
        behind,
        done: slot.done.load(Ordering::Acquire),
    }
}

/// Says a word; whether what the worker shows is another thing already.
fn say(s: &Session, (i, slot): (usize, &Slot), word: Word) -> bool {
    match word {
        Word::Free => {
            s.free[i].set(true);
            slot.set(FREE);
        }
        Word::Wait => {
            slot.set(NONE);
            if s.free[i].take() {
                s.worker.tell(&Order::Shared);
            }
        }
        // It waits: nothing else changes the word of one that has no turn.
        Word::Soon => slot.set(SOON),
        Word::Go => {
            slot.since.store(baton::now(), Ordering::Release);
            slot.set(IDLE);
        }
        // It is idle, busy, or has just become the other.
        Word::Stop => {
            while !slot.change(BUSY, STOP) {
                if slot.change(IDLE, NONE) || !matches!(slot.word(), IDLE | BUSY) {
                    return true;
                }
            }
        }
        Word::End => end(s.worker.clone()),
    }
    false
}

/// Ends a session whose work has no end.
fn end(worker: Arc<Worker>) {
    let why = "its work on the device had no end, and others waited for the device".to_string();
    tracing::warn!(
        session = worker.session.get(),
        worker = worker.pid,
        why,
        "session is ended"
    );
    worker.tell(&Order::Endless { why });
    let cut = move || {
        std::thread::sleep(LAST_WORD);
        worker.cut();
    };
    let _ = std::thread::Builder::new().stack_size(256 << 10).spawn(cut);
}

impl Session {
    /// Its slot for a device.
    fn slot(&self, place: usize) -> Option<(usize, &Slot)> {
        let slot = self.places.iter().position(|p| *p == place)?;
        Some((slot, self.board.slot(slot)?))
    }
}

/// Those who have some use for a device, party by party, each with its slot.
struct Here<'a>(Vec<(&'a Session, (usize, &'a Slot))>);

impl<'a> Here<'a> {
    fn new(sessions: &'a BTreeMap<u64, Session>, place: usize) -> Self {
        let slot = |s: &'a Session| Some((s, s.slot(place)?));
        let mut all: Vec<_> = sessions.values().filter_map(slot).collect();
        all.sort_by_key(|(s, _)| s.party);
        Self(all)
    }

    /// A party's sessions.
    fn of(&self, party: u64) -> &[(&'a Session, (usize, &'a Slot))] {
        let begin = self.0.partition_point(|(s, _)| s.party < party);
        let len = self.0[begin..].partition_point(|(s, _)| s.party == party);
        &self.0[begin..][..len]
    }
}

impl State {
    /// What a party is to have of a device: all that its sessions are.
    fn part(&self, party: u64, place: usize) -> Option<Part> {
        let theirs = self.sessions.values().filter(|s| s.party == party);
        let theirs = theirs.filter(|s| s.places.contains(&place)).map(|s| s.part);
        theirs.reduce(|a, b| Part {
            share: match (a.share, b.share) {
                (Some(a), Some(b)) => Some((a + b).min(WHOLE)),
                (a, b) => a.or(b),
            },
            priority: a.priority.max(b.priority),
        })
    }

    /// The sessions of a party have come, gone, or changed.
    fn settle(&mut self, party: u64) {
        let places: Vec<_> = self.devices.keys().copied().collect();
        for place in places {
            let part = self.part(party, place);
            let Some(share) = self.devices.get_mut(&place) else {
                continue;
            };
            match part {
                Some(part) if share.has_joined(party) => share.set(party, part),
                Some(part) => share.join(party, part),
                None => share.leave(party),
            }
        }
        self.devices.retain(|_, share| !share.is_empty());
    }

    /// Tells each worker how many sessions there are: how long its threads may look for work.
    fn count(&self) {
        let count = self.sessions.len() as u32;
        for slot in self.sessions.values().filter_map(|s| s.board.slot(0)) {
            slot.sessions.store(count, Ordering::Relaxed);
        }
    }

    /// Looks at all devices; when to look again.
    fn look(&mut self) -> Option<Duration> {
        let mut again: Option<Duration> = None;
        for (place, share) in &mut self.devices {
            let here = Here::new(&self.sessions, *place);
            // What is taken from one is given to another at once.
            for _ in 0..4 {
                let see = |party| together(here.of(party).iter().map(|(_, slot)| seen(slot.1)));
                let (words, next) = share.look(now(), see);
                if tracing::enabled!(tracing::Level::TRACE) {
                    let beside: Vec<_> = share.beside().collect();
                    if !words.is_empty() || self.beside.get(place) != Some(&beside) {
                        let us = now().as_micros();
                        tracing::trace!(device = *place, us, "{}", share.line());
                        self.beside.insert(*place, beside);
                    }
                }
                for (s, (_, slot)) in &here.0 {
                    let holders = share.holders(s.party) as u32;
                    slot.holders.store(holders, Ordering::Relaxed);
                }
                let said = words
                    .into_iter()
                    .flat_map(|(n, word)| here.of(n).iter().map(move |to| (to, word)));
                let changed = said.fold(false, |any, ((s, slot), word)| say(s, *slot, word) | any);
                if !changed {
                    again = again.into_iter().chain(next).min();
                    break;
                }
                again = Some(Duration::ZERO);
            }
        }
        again
    }

    /// Whether a turn of any device is being handed over, and has not been for long.
    fn hastens(&self) -> bool {
        let mut all = self.devices.values().filter_map(Timeshare::hands_over);
        all.any(|since| since < HASTE)
    }

    /// The bells of those who have not rung too often, and whether these are all.
    fn audible(&mut self, now: Duration) -> (Vec<(u64, Arc<Bell>)>, bool) {
        let all = self.bells.len();
        let listens = |(k, r): (&u64, &mut Ringer)| {
            let listens = r.patience.listens(now);
            listens.then(|| (*k, r.bell.clone()))
        };
        let bells: Vec<_> = self.bells.iter_mut().filter_map(listens).collect();
        let whole = bells.len() == all;
        (bells, whole)
    }

    /// These were rung.
    fn heard<'a>(&mut self, rung: impl Iterator<Item = &'a (u64, Arc<Bell>)>) {
        for (of, _) in rung {
            if let Some(r) = self.bells.get_mut(of) {
                r.patience.heard();
            }
        }
    }
}

impl Timekeeper {
    /// Begins to keep time. Who has kept others waiting for `limit` by one piece of work is ended.
    /// There are turns while somebody has a share or a priority, or `always`.
    pub fn start(limit: Option<Duration>, always: bool) -> io::Result<Arc<Self>> {
        let me = Arc::new(Self {
            state: Mutex::default(),
            bell: Arc::new(Bell::new()?),
            limit,
            always,
        });
        let thread = me.clone();
        let run = move || {
            // SAFETY: plain prctl; naps of some microseconds need the finest timer slack.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
            loop {
                let mut state = lock(&thread.state);
                let mut again = state.look();
                if state.hastens() && core_for_a_moment() {
                    again = Some(Duration::ZERO);
                }
                let (bells, all) = state.audible(now());
                drop(state);
                if !all {
                    again = Some(again.map_or(Patience::EACH, |d| d.min(Patience::EACH)));
                }
                let own = std::iter::once(&*thread.bell);
                match baton::await_rings(bells.iter().map(|b| &*b.1).chain(own), again) {
                    Ok(rung) => {
                        lock(&thread.state).heard(rung.iter().filter_map(|i| bells.get(*i)))
                    }
                    Err(e) => {
                        tracing::warn!(error = %e, "cannot wait for workers");
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
        };
        std::thread::Builder::new()
            .name("time".into())
            .stack_size(256 << 10)
            .spawn(run)?;
        Ok(me)
    }

    /// A session comes to devices. Its worker is told where its turns are said.
    pub fn join(
        &self,
        session: &str,
        part: Part,
        places: &[Place],
        worker: &Arc<Worker>,
    ) -> io::Result<()> {
        let (board, memory) = Board::new()?;
        let bell = Arc::new(Bell::new()?);
        let control = &worker.control;
        handover::send(control, &Order::Board.to_json(), Some(&memory))?;
        handover::send(control, &Order::Bell.to_json(), Some(bell.rope()))?;
        let mut state = lock(&self.state);
        state.last += 1;
        let number = state.last;
        for (place, processor) in places {
            // A processor its system divides.
            let new = || Timeshare::new(self.limit, self.always && !processor);
            state.devices.entry(*place).or_insert_with(new);
        }
        let shares = |s: &&Session| match (&s.worker.dense, &worker.dense) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        let with = state.sessions.values().find(shares).map(|s| s.party);
        let party = with.unwrap_or(number);
        let s = Session {
            board,
            worker: worker.clone(),
            part,
            party,
            places: places.iter().map(|p| p.0).collect(),
            free: places.iter().map(|_| Cell::new(true)).collect(),
        };
        // Its slots are free, which is told to those with whom it may have to wait now.
        for (place, _) in places {
            let word = state.devices.get(place).and_then(|d| d.said(party));
            if let (Some(word), Some(slot)) = (word, s.slot(*place)) {
                say(&s, slot, word);
            }
        }
        state.sessions.insert(number, s);
        state.count();
        state.settle(party);
        state.numbers.insert(session.into(), number);
        let patience = Patience::new(now());
        state.bells.insert(number, Ringer { bell, patience });
        drop(state);
        self.bell.ring();
        Ok(())
    }

    /// A session is over: its turns are others'.
    pub fn leave(&self, session: &str) {
        let mut state = lock(&self.state);
        let Some(number) = state.numbers.remove(session) else {
            return;
        };
        let gone = state.sessions.remove(&number);
        state.count();
        state.bells.remove(&number);
        if let Some(gone) = gone {
            state.settle(gone.party);
        }
        drop(state);
        self.bell.ring();
    }

    /// A session's part is another from now on.
    pub fn set(&self, session: &str, part: Part) {
        let mut state = lock(&self.state);
        let number = state.numbers.get(session).copied();
        let found = number.and_then(|n| state.sessions.get_mut(&n));
        let party = found.map(|s| {
            s.part = part;
            s.party
        });
        if let Some(party) = party {
            state.settle(party);
        }
        drop(state);
        self.bell.ring();
    }

    /// Whether a session has work under way on any of its devices, or waits for its turn, as far as
    /// it shows: it does where there are turns.
    pub fn is_busy(&self, session: &str) -> bool {
        let state = lock(&self.state);
        let number = state.numbers.get(session);
        let Some(s) = number.and_then(|n| state.sessions.get(n)) else {
            return false;
        };
        let busy = |i| {
            s.board.slot(i).is_some_and(|slot| {
                let seen = seen(slot);
                seen.wants || seen.under_way
            })
        };
        (0..s.places.len()).any(busy)
    }

    /// What a session has had of its devices; `None` for those without turns.
    pub fn had(&self, session: &str) -> Vec<Option<Time>> {
        let state = lock(&self.state);
        let number = state.numbers.get(session);
        let found = number.and_then(|n| state.sessions.get(n));
        let Some(s) = found else {
            return Vec::new();
        };
        let places = s.places.iter().enumerate();
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        let waits = |slot: &Slot| {
            matches!(slot.word(), NONE | SOON) && slot.wants.load(Ordering::Acquire) > 0
        };
        let of = |(i, place): (usize, &usize)| {
            let had = state.devices.get(place)?.had(s.party)?;
            Some(Time {
                second: had.second,
                minute: had.minute,
                used_ms: ms(had.used),
                waited_ms: ms(had.waited),
                waits: s.board.slot(i).is_some_and(waits),
            })
        };
        places.map(of).collect()
    }
}
