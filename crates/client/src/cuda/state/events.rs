//! Events: what is known of an event's latest record.
//!
//! Frameworks ask about events all the time (is this memory free again?), and must not wait for the
//! answer: a question in the one queue would stand behind megabytes of what another thread has
//! queued. So once a program asks at all, the worker tells by itself when a recorded event has
//! happened, and until then the answer is known here. The same where a program waits for an event
//! behind which it has queued more: that may stand still until its session has a turn of the
//! device.

use super::prelude::*;
use busbar_channel::gate::Gate;
use std::cell::Cell;

/// What is known of an event's latest record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// Nothing: the worker must be asked.
    Unknown,
    /// The worker will tell when it has happened.
    Awaited,
    /// It has happened.
    Happened,
}

struct Event {
    /// Which record of it is the latest. No two records of any events have one number: an id comes
    /// back when its event has died, and a word about that one may still be on its way.
    record: u64,
    known: Known,
    /// How much had been queued when it was recorded, if somebody counted.
    queued: Option<u64>,
    /// The records of which the worker is yet to tell, and the first one that it says has failed.
    awaited: Vec<u64>,
    failed: u64,
    /// Records for which the worker's word is worth having: many events are never asked about.
    worth: u8,
    /// It can say when it happened.
    timed: bool,
    /// The time since the record of another event.
    since: Option<Since>,
}

/// The time between the records of two events.
struct Since {
    /// The other event, and which record of it.
    start: (u32, u64),
    /// Which record of this one.
    stop: u64,
    /// What the worker has told: none where it could not.
    told: Option<Option<f32>>,
}

/// Work that is over once an event has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// The context of the stream that the event was recorded in.
    pub scope: u32,
    /// That stream.
    pub stream: u32,
    /// How much work there had been by then: a number that no later record of work has.
    pub mark: u64,
}

/// Records after which a program that asks about events has not asked about this one.
const WORTH: u8 = 16;
/// So many times the worker tells since the program has last asked for one.
const TIMES_WORTH: u32 = 256;
/// The most streams of which it is known what was recorded there last.
const MOST_STREAMS: usize = 256;

/// The events that only the program's own calls record: not those between processes.
pub struct Events {
    all: Mutex<HashMap<u32, Event>>,
    /// The number of the last record.
    records: AtomicU64,
    /// What is over once an event has happened, by event, while something depends on it.
    behind: Mutex<HashMap<u32, Behind>>,
    /// Whether anything has depended on an event: as a rule no record need look.
    depended: AtomicBool,
    /// Whether the program asks about events.
    asks: AtomicBool,
    /// Whether the program waits for events.
    waits: AtomicBool,
    /// Opened when the worker has told of a record, and how often it was.
    told: Gate,
    words: AtomicU64,
    /// How often it has asked too early.
    asked: AtomicU32,
    /// Whether something else records events unseen: a graph, a launch.
    unseen: AtomicBool,
    /// Whether the program asks for times.
    times: AtomicBool,
    /// How many more the worker is to tell.
    times_worth: AtomicU32,
    /// The timed event that was recorded last in a stream of a context, and which record that was.
    last: Mutex<HashMap<(u32, u32), (u32, u64)>>,
    /// The events that other processes know, or have made, and whether there was ever one.
    abroad: Mutex<HashSet<u32>>,
    any_abroad: AtomicBool,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            all: Mutex::default(),
            records: AtomicU64::default(),
            behind: Mutex::default(),
            depended: AtomicBool::default(),
            asks: AtomicBool::default(),
            waits: AtomicBool::default(),
            told: Gate::new("an event"),
            words: AtomicU64::default(),
            asked: AtomicU32::default(),
            unseen: AtomicBool::default(),
            times: AtomicBool::default(),
            times_worth: AtomicU32::default(),
            last: Mutex::default(),
            abroad: Mutex::default(),
            any_abroad: AtomicBool::default(),
        }
    }
}

impl Events {
    /// An event was made, which is `timed` or says only that it has happened.
    pub fn add(&self, id: u32, timed: bool) {
        let new = Event {
            record: self.number(),
            known: Known::Unknown,
            queued: None,
            awaited: Vec::new(),
            failed: u64::MAX,
            worth: WORTH,
            timed,
            since: None,
        };
        lock(&self.all).insert(id, new);
    }

    /// Another process has the event's handle, or this one has another's. What is done to it must
    /// have reached the driver when the call returns: the program may tell the other process so,
    /// whose own calls take another way.
    pub fn goes_abroad(&self, id: u32) {
        lock(&self.abroad).insert(id);
        self.any_abroad.store(true, Ordering::Release);
    }

    /// Whether another process may look at the event.
    #[inline]
    pub fn is_abroad(&self, id: u32) -> bool {
        self.any_abroad.load(Ordering::Acquire) && self.is_among_those_abroad(id)
    }

    #[cold]
    fn is_among_those_abroad(&self, id: u32) -> bool {
        lock(&self.abroad).contains(&id)
    }

    fn number(&self) -> u64 {
        self.records.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// An event is gone.
    pub fn forget(&self, id: u32) {
        lock(&self.all).remove(&id);
        lock(&self.abroad).remove(&id);
        self.has_told();
        self.leaves(id);
    }

    /// An event is about to be recorded: what was before its last record says nothing any more.
    #[inline]
    pub fn leaves(&self, id: u32) {
        if self.depended.load(Ordering::Acquire) {
            self.leave_behind(id);
        }
    }

    #[cold]
    fn leave_behind(&self, id: u32) {
        lock(&self.behind).remove(&id);
    }

    /// The record is queued, behind this.
    pub fn comes_behind(&self, id: u32, what: Behind) {
        if !self.is_unseen() && lock(&self.all).contains_key(&id) {
            self.depended.store(true, Ordering::Release);
            lock(&self.behind).insert(id, what);
        }
    }

    /// What is over once the event has happened, as far as is known. Whoever waits for the event
    /// asks before and after: a record that came in between may have been what was waited for.
    pub fn is_behind(&self, id: u32) -> Option<Behind> {
        let known = lock(&self.behind).get(&id).copied();
        known.filter(|_| !self.is_unseen())
    }

    /// From now on events may be recorded by other calls than those to record them.
    pub fn recorded_unseen(&self) {
        if !self.unseen.swap(true, Ordering::AcqRel) {
            for e in lock(&self.all).values_mut() {
                e.known = Known::Unknown;
            }
            self.has_told();
        }
    }

    fn is_unseen(&self) -> bool {
        self.unseen.load(Ordering::Acquire)
    }

    /// Whether it matters which record of an event is the latest.
    fn counts(&self) -> bool {
        let asked = self.asks.load(Ordering::Acquire) || self.times_are_asked();
        asked || self.waits.load(Ordering::Acquire)
    }

    /// Begins a record. Gives its number if the worker is to tell when it has happened, which it
    /// can only where it is `watchable`.
    pub fn recording(&self, id: u32, watchable: impl Fn() -> bool) -> Option<u64> {
        if !self.counts() {
            return None;
        }
        let mut all = lock(&self.all);
        let e = all.get_mut(&id)?;
        e.record = self.number();
        e.queued = None;
        if !self.asks.load(Ordering::Acquire) || e.worth == 0 || self.is_unseen() || !watchable() {
            e.known = Known::Unknown;
            return None;
        }
        e.worth -= 1;
        e.known = Known::Awaited;
        e.awaited.push(e.record);
        Some(e.record)
    }

    /// So much has been queued up to an event's record.
    pub fn queued(&self, id: u32, queued: impl FnOnce() -> u64) {
        if self.waits.load(Ordering::Acquire)
            && let Some(e) = lock(&self.all).get_mut(&id)
        {
            e.queued = Some(queued());
        }
    }

    /// A record is sent of which the worker does not tell. An answer to who has asked meanwhile may
    /// be of the record before this one.
    pub fn recorded(&self, id: u32) {
        if self.counts()
            && let Some(e) = lock(&self.all).get_mut(&id)
        {
            e.record = self.number();
            e.known = Known::Unknown;
            e.queued = None;
        }
    }

    /// Something was heard of a record, which may not be the latest any more.
    pub fn heard(&self, id: u32, record: u64, known: Known) {
        if let Some(e) = lock(&self.all).get_mut(&id) {
            self.learn(e, record, known);
        }
    }

    fn learn(&self, e: &mut Event, record: u64, known: Known) {
        if e.record == record && !self.is_unseen() {
            e.known = known;
        }
    }

    /// The worker has told of a record, or will not.
    pub fn told(&self, id: u32, record: u64, known: Known) {
        if let Some(e) = lock(&self.all).get_mut(&id) {
            e.awaited.retain(|r| *r != record);
            if known != Known::Happened {
                e.failed = e.failed.min(record);
            }
            self.learn(e, record, known);
        }
        self.has_told();
    }

    /// The program waits for an event, having queued so much: whether there was more after the
    /// event's record. A question would stand behind that.
    pub fn is_waited_for(&self, id: u32, queued: u64) -> bool {
        self.waits.store(true, Ordering::Release);
        let all = lock(&self.all);
        let then = all.get(&id).and_then(|e| e.queued);
        then.is_some_and(|then| then < queued)
    }

    /// What whoever waits for a word waits for has changed.
    fn has_told(&self) {
        self.words.fetch_add(1, Ordering::Release);
        self.told.open();
    }

    /// Where it is heard that the worker has told of a record, and whether `heard` what was waited
    /// for: who looks at that all the time does not keep others from recording events.
    pub fn hearing<'a>(&'a self, heard: impl Fn() -> bool + 'a) -> (&'a Gate, impl Fn() -> bool) {
        let (last, done) = (Cell::new(u64::MAX), Cell::new(false));
        let look = move || {
            let words = self.words.load(Ordering::Acquire);
            if last.replace(words) != words {
                done.set(heard());
            }
            done.get()
        };
        (&self.told, look)
    }

    /// Whether a record of an event has happened; `None` while the worker is yet to tell. Behind
    /// one that has failed the worker must be asked.
    pub fn has_happened(&self, id: u32, record: u64) -> Option<bool> {
        let all = lock(&self.all);
        let Some(e) = all.get(&id).filter(|_| !self.is_unseen()) else {
            return Some(false);
        };
        (!e.awaited.contains(&record)).then_some(record < e.failed)
    }

    /// What is known of an event's latest record, which the program wants to know; and which record
    /// that is.
    pub fn asked(&self, id: u32) -> (Known, u64) {
        self.asks.store(true, Ordering::Release);
        let mut all = lock(&self.all);
        let Some(e) = all.get_mut(&id) else {
            return (Known::Unknown, 0);
        };
        e.worth = WORTH;
        (e.known, e.record)
    }

    /// Whether all of these are known to have happened.
    pub fn have_happened(&self, ids: [u32; 2]) -> bool {
        let all = lock(&self.all);
        let happened = |id| all.get(id).is_some_and(|e| e.known == Known::Happened);
        ids.iter().all(happened)
    }

    /// Whether the program asks for times between events.
    #[inline]
    pub fn times_are_asked(&self) -> bool {
        self.times.load(Ordering::Acquire)
    }

    /// An event was recorded, in a stream of a context. The event that was recorded there before,
    /// if the time since then is worth having, and the number of this record.
    pub fn measures(&self, id: u32, of: (u32, u32)) -> Option<(u32, u64)> {
        let mut all = lock(&self.all);
        let record = all.get(&id).filter(|e| e.timed)?.record;
        let mut last = lock(&self.last);
        if last.len() >= MOST_STREAMS {
            last.clear();
        }
        let (start, before) = last.insert(of, (id, record))?;
        drop(last);
        let is_latest = all.get(&start).is_some_and(|e| e.record == before);
        let one_less = |n: u32| n.checked_sub(1);
        let worth = &self.times_worth;
        if start == id
            || !is_latest
            || self.is_unseen()
            || worth
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_less)
                .is_err()
        {
            return None;
        }
        let since = Since {
            start: (start, before),
            stop: record,
            told: None,
        };
        all.get_mut(&id)?.since = Some(since);
        Some((start, record))
    }

    /// The worker has told the time up to a record, which may not be the latest any more.
    pub fn measured(&self, id: u32, record: u64, ms: Option<f32>) {
        if let Some(e) = lock(&self.all).get_mut(&id)
            && let Some(since) = e.since.as_mut().filter(|s| s.stop == record)
        {
            since.told = Some(ms);
        }
        self.has_told();
    }

    /// The time between the latest records of two events, for a program that asks: none while the
    /// worker is yet to tell, and a time that is not known where it does not tell, or could not.
    pub fn time(&self, start: u32, stop: u32) -> Option<Option<f32>> {
        self.times.store(true, Ordering::Release);
        self.times_worth.store(TIMES_WORTH, Ordering::Release);
        let all = lock(&self.all);
        let (from, to) = (all.get(&start), all.get(&stop));
        let (Some(from), Some(to)) = (from, to.filter(|_| !self.is_unseen())) else {
            return Some(None);
        };
        let same = |s: &&Since| (s.start, s.stop) == ((start, from.record), to.record);
        to.since
            .as_ref()
            .filter(same)
            .map_or(Some(None), |s| s.told)
    }

    /// The program was told that an event has not happened yet. True once in a while: then it asks
    /// in a loop, which must not keep the word from being received.
    pub fn too_early(&self) -> bool {
        const OFTEN: u32 = 64;
        self.asked.fetch_add(1, Ordering::Relaxed) % OFTEN == OFTEN - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Events {
        /// How many there are.
        pub fn len(&self) -> usize {
            lock(&self.all).len()
        }
    }

    #[test]
    fn nothing_is_watched_until_the_program_asks() {
        let e = Events::default();
        e.add(1, false);
        assert_eq!(e.recording(1, || true), None);
        assert_eq!(e.asked(1).0, Known::Unknown);
        let n = e.recording(1, || true).unwrap();
        assert_eq!(e.asked(1), (Known::Awaited, n));
        e.heard(1, n, Known::Happened);
        assert_eq!(e.asked(1), (Known::Happened, n));
    }

    #[test]
    fn a_word_about_an_earlier_record_says_nothing_of_the_latest() {
        let e = Events::default();
        e.add(1, false);
        e.asked(1);
        let first = e.recording(1, || true).unwrap();
        let next = e.recording(1, || true).unwrap();
        e.heard(1, first, Known::Happened);
        assert_eq!(e.asked(1), (Known::Awaited, next));
        e.recorded(1);
        e.heard(1, next, Known::Happened);
        assert_eq!(e.asked(1).0, Known::Unknown);
    }

    #[test]
    fn an_event_that_others_record_is_always_asked_about() {
        let e = Events::default();
        e.add(1, false);
        e.asked(1);
        let n = e.recording(1, || true).unwrap();
        e.heard(1, n, Known::Happened);
        e.recorded_unseen();
        assert_eq!(e.asked(1).0, Known::Unknown);
        assert_eq!(e.recording(1, || true), None);
    }

    #[test]
    fn what_is_over_with_an_event_is_what_was_before_its_latest_record() {
        let e = Events::default();
        let what = Behind {
            scope: 1,
            stream: 2,
            mark: 3,
        };
        e.comes_behind(1, what);
        assert_eq!(e.is_behind(1), None, "others may record it");
        e.add(1, false);
        e.comes_behind(1, what);
        assert_eq!(e.is_behind(1), Some(what));
        e.leaves(1);
        assert_eq!(e.is_behind(1), None, "recorded again");
        e.comes_behind(1, what);
        e.recorded_unseen();
        assert_eq!(e.is_behind(1), None);
    }

    #[test]
    fn whoever_waits_for_a_record_does_not_wait_for_a_later_one_of_that_event() {
        let e = Events::default();
        e.add(1, false);
        e.asked(1);
        let [first, next] = [0; 2].map(|_| e.recording(1, || true).unwrap());
        assert_eq!(e.has_happened(1, first), None);
        // Of two streams the later one may come first.
        e.told(1, next, Known::Happened);
        assert_eq!(
            (e.has_happened(1, first), e.has_happened(1, next)),
            (None, Some(true))
        );
        e.told(1, first, Known::Unknown);
        assert_eq!(
            (e.has_happened(1, first), e.asked(1).0),
            (Some(false), Known::Happened)
        );
        let last = e.recording(1, || true).unwrap();
        e.forget(1);
        assert_eq!(e.has_happened(1, last), Some(false), "gone");
    }

    #[test]
    fn whoever_waits_looks_once_for_each_word() {
        let (e, looks) = (Events::default(), Cell::new(0));
        e.add(1, false);
        e.asked(1);
        let record = e.recording(1, || true).unwrap();
        let (_, heard) = e.hearing(|| {
            looks.set(looks.get() + 1);
            e.has_happened(1, record).is_some()
        });
        assert!(!heard() && !heard() && !heard());
        e.told(1, record + 1, Known::Happened);
        assert!(!heard() && !heard());
        assert_eq!(looks.get(), 2);
        e.told(1, record, Known::Happened);
        assert!(heard() && heard(), "it stays so");
        assert_eq!(looks.get(), 3);
    }

    #[test]
    fn a_wait_is_worth_a_word_where_more_was_queued_behind_the_record() {
        let e = Events::default();
        e.add(1, false);
        let record = |queued| {
            let told = e.recording(1, || true).is_some();
            e.recorded(1);
            e.queued(1, || queued);
            told
        };
        record(5);
        assert!(!e.is_waited_for(1, 9), "nobody counted");
        assert!(
            !record(10) && !e.is_waited_for(1, 10),
            "nothing is behind it"
        );
        assert!(!record(11) && e.is_waited_for(1, 12));
        e.recording(1, || true);
        assert!(!e.is_waited_for(1, 12), "it is being recorded again");
    }

    #[test]
    fn one_that_nobody_asks_about_is_soon_watched_no_more() {
        let e = Events::default();
        e.add(1, false);
        e.asked(1);
        let watched = (0..100).filter(|_| e.recording(1, || true).is_some());
        assert_eq!(watched.count(), usize::from(WORTH));
        e.asked(1);
        assert!(e.recording(1, || true).is_some());
    }

    #[test]
    fn an_event_that_is_gone_is_not_known_under_its_id() {
        let e = Events::default();
        e.add(1, false);
        e.asked(1);
        let n = e.recording(1, || true).unwrap();
        e.forget(1);
        e.add(1, false);
        e.heard(1, n, Known::Happened);
        let (known, first) = e.asked(1);
        assert_eq!(known, Known::Unknown);
        // Nor is an answer about this one, or its records, one about the next of that id.
        let next = e.recording(1, || true).unwrap();
        for old in [n, first] {
            e.heard(1, old, Known::Happened);
            assert_eq!(e.asked(1), (Known::Awaited, next));
        }
        e.measured(1, n, Some(1.0));
        e.heard(1, next, Known::Happened);
        assert_eq!(e.asked(1), (Known::Happened, next));
    }

    #[test]
    fn the_time_between_two_records_is_known_until_one_is_recorded_again() {
        let (e, stream) = (Events::default(), (1, 5));
        for (id, timed) in [(1, true), (2, true), (3, false)] {
            e.add(id, timed);
        }
        let record = |id, of| {
            assert_eq!(e.recording(id, || true), None);
            e.recorded(id);
            e.measures(id, of)
        };
        assert_eq!((e.times_are_asked(), e.time(1, 2)), (false, Some(None)));
        assert!(e.times_are_asked());
        assert_eq!(record(1, stream), None, "nothing was there before");
        assert_eq!(record(3, stream), None, "it has no time");
        let (start, number) = record(2, stream).unwrap();
        assert_eq!((start, e.time(1, 2)), (1, None));
        e.measured(2, number - 1, Some(9.0));
        assert_eq!(e.time(1, 2), None, "what was told was of an earlier record");
        e.measured(2, number, Some(0.5));
        assert_eq!((e.time(1, 2), e.time(2, 1)), (Some(Some(0.5)), Some(None)));
        assert_eq!(record(1, (1, 6)), None, "elsewhere");
        assert_eq!(e.time(1, 2), Some(None), "recorded again");
        let (start, number) = record(1, stream).unwrap();
        assert_eq!(start, 2);
        e.measured(1, number, Some(0.25));
        assert_eq!((e.time(2, 1), e.time(1, 2)), (Some(Some(0.25)), Some(None)));
        e.recorded(1);
        assert_eq!(e.time(2, 1), Some(None), "recorded again, unmeasured");
        let (_, number) = record(2, (1, 6)).unwrap_or((0, 0));
        assert_eq!(number, 0, "what was there last has another record");
    }

    #[test]
    fn times_that_nobody_asks_for_are_told_so_often_and_no_more() {
        let e = Events::default();
        (1..=2).for_each(|id| e.add(id, true));
        e.time(1, 2);
        let told = || {
            (0..1000)
                .filter(|i| {
                    let id = 1 + i % 2;
                    e.recorded(id);
                    e.measures(id, (1, 1)).is_some()
                })
                .count()
        };
        assert_eq!(told(), TIMES_WORTH as usize);
        assert_eq!(told(), 0);
        e.time(1, 2);
        assert_eq!(told(), TIMES_WORTH as usize);
    }
}
