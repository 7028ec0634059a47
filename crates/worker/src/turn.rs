//! The turn: work for a device passes [`Turn::pass`], which waits until it is this session's.
//!
//! The server says on a board whose turn it is ([`busbar_transport::baton`]). A session that has a
//! device to itself is asked for one load of a word. Otherwise it submits in its turn alone, and
//! has little under way: then the turn can pass to another soon. What is under way is known by
//! **marks**, which an API drops once the device has come so far ([`crate::done`]).

#![forbid(unsafe_code)]

mod costs;
mod unmarked;

use crate::prelude::*;
use busbar_channel::look_for_a_moment;
use busbar_transport::baton::{self, BUSY, Board, FREE, HASTE, IDLE, NONE, SOON, STOP, Slot};
use costs::{Costs, Pieces};
pub use costs::{WorkKind, kind};
use std::os::fd::OwnedFd;
pub use unmarked::Unmarked;

/// Device time from one mark to the next.
const MARK: u64 = 500_000;
/// What is under way at most: so many times that, or so many pieces.
const MARKS: u32 = 2;
/// Of so many who have a turn together, at most, each has the more under way.
const TOGETHER: u32 = 16;
/// Submissions from one mark to the next, at most.
const MOST: u32 = 1 << 12;
/// How long room for more work is waited for. Work that does not end by then may wait for what is
/// to be submitted next.
const ROOM: Duration = Duration::from_millis(20);
/// A mark that takes longer than this finds the device behind. Less is what it takes to see that
/// work is done.
const LAG: u64 = 200_000;
/// What a turn that ends leaves under way is not waited for where it is this short, which is what
/// the hand-over takes. Of more the driver would make slices, and each change of context costs.
const TAIL: u64 = 150_000;
/// How often somebody who waits looks whether the session is over.
const LOOK: Duration = Duration::from_millis(10);

/// Work for one device.
#[derive(Default)]
struct Work {
    /// Submissions that are not known to be done.
    under_way: u32,
    /// What they are thought to take.
    ahead: u64,
    /// Of those, the ones behind the last mark.
    unmarked: Pieces,
    /// What work takes.
    costs: Costs,
    /// When the last mark was done.
    done: u64,
    /// Since when each mark has been under way, the oldest first.
    marks: VecDeque<u64>,
    /// Work that does not end was waited for in vain: more goes through, until some is done.
    stuck: bool,
}

struct Shared {
    board: Board,
    bell: OwnedFd,
    work: Vec<Mutex<Work>>,
    /// Some work is done.
    room: Condvar,
    /// What was submitted while the device was free is marked.
    marked: AtomicBool,
}

/// A session's turns. Cheap to clone; the default has every device to itself.
#[derive(Clone, Default)]
pub struct Turn {
    shared: Arc<OnceLock<Shared>>,
    /// What ends a session whose work has no end.
    end: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
}

/// Work up to here is under way until this is dropped.
pub struct Mark {
    turn: Turn,
    device: usize,
    of: Pieces,
}

impl Turn {
    /// From now on the server says whose turn it is of so many devices.
    pub fn obey(&self, board: Board, bell: OwnedFd, devices: usize) {
        let _ = self.shared.set(Shared {
            board,
            bell,
            work: (0..devices).map(|_| Mutex::default()).collect(),
            room: Condvar::new(),
            marked: AtomicBool::new(false),
        });
    }

    /// How many sessions the server has.
    pub fn sessions(&self) -> u32 {
        let slot = self.shared.get().and_then(|s| s.board.slot(0));
        slot.map_or(0, |slot| slot.sessions.load(Ordering::Relaxed))
    }

    fn slot(&self, device: usize) -> Option<(&Shared, &Slot, &Mutex<Work>)> {
        let s = self.shared.get()?;
        Some((s, s.board.slot(device)?, s.work.get(device)?))
    }

    /// The session begins to use a device: from now on it is among those who share that.
    pub fn come(&self, device: usize) {
        if let Some((s, slot, _)) = self.slot(device)
            && slot.present.swap(1, Ordering::AcqRel) == 0
        {
            baton::ring(&s.bell);
        }
    }

    /// Nothing is under way, and nothing will be until the session comes again: its devices, which
    /// are what comes back, are others'.
    pub fn leave(&self) -> Vec<usize> {
        let devices = self.shared.get().map_or(0, |s| s.work.len());
        let gone = |device: &usize| {
            let Some((s, slot, work)) = self.slot(*device) else {
                return false;
            };
            let mut w = lock(work);
            (w.under_way, w.ahead) = (0, 0);
            slot.under_way.store(0, Ordering::Release);
            let was = slot.present.swap(0, Ordering::AcqRel) > 0;
            rest(slot, &s.bell, baton::now());
            was
        };
        (0..devices).filter(gone).collect()
    }

    /// Whether nothing has to be asked for any device.
    #[inline]
    pub fn is_free(&self) -> bool {
        let Some(s) = self.shared.get() else {
            return true;
        };
        let mut slots = (0..s.work.len()).filter_map(|i| s.board.slot(i));
        slots.all(Slot::is_free)
    }

    /// Whether a turn ends, and is handed over once what is under way is done.
    pub fn ends(&self) -> bool {
        let Some(s) = self.shared.get() else {
            return false;
        };
        let mut slots = (0..s.work.len()).filter_map(|i| s.board.slot(i));
        slots.any(|slot| slot.word() == STOP)
    }

    /// Whether a device is no longer free, and what was submitted until now has no mark: whoever
    /// asks makes [`Turn::found`] ones for it.
    pub fn begins(&self) -> bool {
        let Some(s) = self.shared.get() else {
            return false;
        };
        let free = self.is_free();
        if free != s.marked.load(Ordering::Relaxed) {
            return false;
        }
        s.marked.store(!free, Ordering::Relaxed);
        !free
    }

    /// Waits until a piece of work of some kind may be submitted to a device, or the session is
    /// over. The work needs a [`Turn::mark`] then. Before it waits for a turn, `marks` is to mark
    /// what was submitted in an earlier one: without a mark that would be under way all the while,
    /// and the end of the turn would wait for it.
    pub fn pass(
        &self,
        (device, kind): (usize, WorkKind),
        over: impl Fn() -> bool,
        marks: impl FnOnce(),
    ) {
        let Some((s, slot, work)) = self.slot(device) else {
            return;
        };
        let mut asks = None;
        let mut marks = Some(marks);
        let mut w = lock(work);
        let full = Instant::now();
        loop {
            match slot.word() {
                FREE => return,
                IDLE => {
                    slot.since.store(baton::now(), Ordering::Relaxed);
                    if slot.change(IDLE, BUSY) {
                        break;
                    }
                }
                BUSY if w.has_room(slot) => break,
                BUSY => {
                    w.stuck = full.elapsed() >= ROOM;
                    // The device has half a millisecond of work left when there is room again.
                    let done = slot.done.load(Ordering::Acquire);
                    let changed =
                        || slot.done.load(Ordering::Acquire) != done || slot.word() != BUSY;
                    drop(w);
                    look_for_a_moment(HASTE, changed);
                    w = lock(work);
                    if !changed() {
                        let waited = s.room.wait_timeout(w, ROOM);
                        w = waited.unwrap_or_else(PoisonError::into_inner).0;
                    }
                }
                word => {
                    drop(w);
                    if let Some(marks) = marks.take() {
                        marks();
                    }
                    asks.get_or_insert_with(|| Wants::new(slot, &s.bell));
                    let other = || slot.word() != word;
                    if word != SOON || !look_for_a_moment(HASTE, other) {
                        slot.wait(word, LOOK);
                    }
                    w = lock(work);
                }
            }
            if over() {
                return;
            }
        }
        let time = w.costs.of(kind);
        w.submit(slot, 1, time);
        if w.unmarked.count == 0 {
            w.unmarked.since = baton::now();
        }
        w.unmarked.add(kind, time);
    }

    /// Whether it is time for a mark: much was submitted since the last one.
    pub fn is_due(&self, device: usize) -> bool {
        let Some((_, _, work)) = self.slot(device) else {
            return false;
        };
        let Pieces { count, time, .. } = lock(work).unmarked;
        time >= MARK || count >= MOST
    }

    /// A mark for what was submitted since the last one.
    pub fn mark(&self, device: usize) -> Option<Mark> {
        let (_, slot, work) = self.slot(device)?;
        let mut w = lock(work);
        let of = std::mem::take(&mut w.unmarked);
        Some(self.mark_of(device, of, (slot, &mut w)))
    }

    /// A mark for what was submitted while nobody asked.
    pub fn found(&self, device: usize) -> Option<Mark> {
        let (_, slot, work) = self.slot(device)?;
        let mut w = lock(work);
        let of = Pieces::unknown();
        w.submit(slot, of.count, of.time);
        Some(self.mark_of(device, of, (slot, &mut w)))
    }

    fn mark_of(&self, device: usize, of: Pieces, (slot, w): (&Slot, &mut Work)) -> Mark {
        w.marks.push_back(baton::now());
        w.show_behind(slot);
        Mark {
            turn: self.clone(),
            device,
            of,
        }
    }

    /// What is done if the session's work has no end.
    pub fn on_end(&self, f: impl Fn() + Send + Sync + 'static) {
        let _ = self.end.set(Box::new(f));
    }

    /// The session's work has no end, and others have waited for long enough.
    pub(crate) fn end(&self) {
        if let Some(f) = self.end.get() {
            f();
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let Some((s, slot, work)) = self.turn.slot(self.device) else {
            return;
        };
        let now = baton::now();
        let mut w = lock(work);
        let long = now.saturating_sub(self.of.since.max(w.done));
        let holders = slot.holders.load(Ordering::Relaxed);
        w.costs.learn(&self.of, long, holders);
        w.caught_up(slot, now);
        w.under_way = w.under_way.saturating_sub(self.of.count);
        w.ahead = w.ahead.saturating_sub(self.of.time);
        w.stuck = false;
        slot.under_way.store(w.under_way, Ordering::Release);
        slot.done.fetch_add(1, Ordering::AcqRel);
        if w.under_way == 0 || w.ahead <= TAIL && slot.word() == STOP {
            rest(slot, &s.bell, now);
        }
        drop(w);
        s.room.notify_all();
    }
}

impl Work {
    fn submit(&mut self, slot: &Slot, count: u32, time: u64) {
        self.under_way += count;
        self.ahead += time;
        slot.under_way.store(self.under_way, Ordering::Release);
    }

    /// Whether more may be submitted. Of those who have the turn together each waits for others'
    /// work, too: by its own pieces it seems that they take longer.
    fn has_room(&self, slot: &Slot) -> bool {
        let holders = slot.holders.load(Ordering::Relaxed).clamp(1, TOGETHER);
        let most = MARK * u64::from(MARKS * holders);
        // Of long pieces the next one is there when one is done.
        self.ahead < most || self.under_way < MARKS || self.stuck
    }

    /// From when on the device is behind: what is done by then has kept up with what is submitted.
    fn behind_from(&self) -> Option<u64> {
        Some((self.marks.front()? + LAG).max(self.done))
    }

    fn show_behind(&self, slot: &Slot) {
        let from = self.behind_from().unwrap_or(0);
        slot.behind_from.store(from, Ordering::Release);
    }

    /// A mark is done: they are done in the order in which they were made, or nearly so.
    fn caught_up(&mut self, slot: &Slot, now: u64) {
        let past = now.saturating_sub(self.behind_from().unwrap_or(now));
        self.marks.pop_front();
        self.done = now;
        self.show_behind(slot);
        slot.behind.fetch_add(past, Ordering::AcqRel);
    }
}

/// Nothing is under way any more, or next to nothing. Whoever calls has the lock of the work.
fn rest(slot: &Slot, bell: &OwnedFd, now: u64) {
    let word = slot.word();
    if matches!(word, BUSY | STOP) {
        let past = now.saturating_sub(slot.since.swap(now, Ordering::AcqRel));
        slot.busy.fetch_add(past, Ordering::AcqRel);
    }
    if word == BUSY && slot.change(BUSY, IDLE) {
        return;
    }
    // The turn is handed over; or work of an earlier one is over.
    slot.change(STOP, NONE);
    baton::ring(bell);
}

/// Somebody wants the turn, until this is dropped.
struct Wants<'a>(&'a Slot);

impl<'a> Wants<'a> {
    fn new(slot: &'a Slot, bell: &OwnedFd) -> Self {
        slot.wants.fetch_add(1, Ordering::AcqRel);
        baton::ring(bell);
        Self(slot)
    }
}

impl Drop for Wants<'_> {
    fn drop(&mut self) {
        self.0.wants.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_transport::baton::Bell;

    /// A session's turns on so many devices, and the server's side of them.
    pub(super) fn obeying(devices: usize) -> (Turn, Board, Bell) {
        let (board, memory) = Board::new().expect("a board");
        let bell = Bell::new().expect("a bell");
        let rope = bell.rope().try_clone().expect("a rope");
        let turn = Turn::default();
        turn.obey(Board::adopt(memory).expect("a board"), rope, devices);
        (turn, board, bell)
    }

    #[test]
    fn whoever_waits_for_a_turn_has_nothing_under_way_without_a_mark() {
        let (turn, board, _bell) = obeying(1);
        let slot = board.slot(0).expect("a slot");
        slot.set(IDLE);
        turn.pass((0, 1), || false, || panic!("it has the turn"));
        assert_eq!(lock(turn.slot(0).expect("it").2).unmarked.count, 1);
        slot.set(STOP);
        let mut marked = false;
        let over = || slot.word() == NONE;
        turn.pass((0, 1), over, || {
            // Its work is done at once, and with it the turn.
            drop(turn.mark(0));
            marked = true;
        });
        assert!(marked && slot.word() == NONE);
        assert_eq!(slot.under_way.load(Ordering::Acquire), 0);
    }

    #[test]
    fn a_turn_ends_from_the_word_until_it_is_handed_over() {
        assert!(!Turn::default().ends(), "it has no board");
        let (turn, board, _bell) = obeying(2);
        let slot = board.slot(1).expect("a slot");
        slot.set(IDLE);
        turn.pass((1, 1), || false, || ());
        let mark = turn.mark(1);
        assert!(!turn.ends());
        slot.set(STOP);
        assert!(turn.ends());
        drop(mark);
        assert!(!turn.ends() && slot.word() == NONE);
        // Another one has it, and this one's comes next, and then is there.
        slot.set(SOON);
        std::thread::scope(|s| {
            let passes = s.spawn(|| turn.pass((1, 1), || false, || ()));
            while slot.wants.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            slot.set(IDLE);
            assert!(passes.join().is_ok());
        });
        assert_eq!(slot.word(), BUSY);
    }

    #[test]
    fn what_takes_long_is_known_however_late_it_is_marked() {
        let (turn, board, _bell) = obeying(1);
        board.slot(0).expect("a slot").set(IDLE);
        let step = || {
            for _ in 0..10 {
                turn.pass((0, 1), || false, || ());
            }
            // All of it is done by the time of the mark.
            std::thread::sleep(Duration::from_millis(2));
            drop(turn.mark(0));
        };
        (0..20).for_each(|_| step());
        let (_, _, work) = turn.slot(0).expect("the same");
        assert!(lock(work).costs.of(1) >= 200_000);
    }

    /// Work whose marks were made at these times, the last of them done at `done`.
    fn work(marks: &[u64], done: u64) -> Work {
        Work {
            done,
            marks: marks.iter().copied().collect(),
            ..Work::default()
        }
    }

    #[test]
    fn a_turn_that_ends_waits_for_all_but_its_last_few_short_pieces() {
        let (turn, board, _bell) = obeying(1);
        let slot = board.slot(0).expect("a slot");
        let (_, _, work) = turn.slot(0).expect("the same");
        // Pieces of some time each, as it is known of them; one mark for those that are done first.
        let ends_with = |left: u32, takes: u64| {
            *lock(work) = Work::default();
            let mut seen = Pieces::default();
            (0..20).for_each(|_| seen.add(1, takes));
            lock(work).costs.learn(&seen, 20 * takes, 1);
            slot.set(IDLE);
            turn.pass((0, 1), || false, || ());
            let first = turn.mark(0);
            for _ in 0..left {
                turn.pass((0, 1), || false, || ());
            }
            let last = turn.mark(0);
            slot.set(STOP);
            drop(first);
            let handed_over = slot.word() == NONE;
            drop(last);
            assert_eq!((slot.word(), lock(work).ahead), (NONE, 0));
            handed_over
        };
        assert!(ends_with(7, 20_000) && !ends_with(8, 20_000));
        assert!(!ends_with(1, 200_000));
    }

    #[test]
    fn what_is_under_way_is_bounded_by_what_it_takes_or_by_how_many_pieces_it_is() {
        let (board, _memory) = Board::new().expect("a board");
        let slot = board.slot(0).expect("a slot");
        let room = |pieces, each, holders| {
            slot.holders.store(holders, Ordering::Relaxed);
            let mut w = work(&[], 0);
            (0..pieces).for_each(|_| w.submit(slot, 1, each));
            w.has_room(slot)
        };
        assert!(room(99, 10_000, 1) && !room(100, 10_000, 1));
        // Of long ones there are two, so that the device has the next one when one is done.
        assert!(room(1, 50_000_000, 1) && !room(2, 50_000_000, 1));
        assert!(room(399, 10_000, 4) && !room(400, 10_000, 4));
        assert!(!room(100, 10_000, 0), "nobody has said how many");
    }

    #[test]
    fn the_device_is_behind_while_a_mark_takes_longer_than_it_takes_to_see_it() {
        let (board, _memory) = Board::new().expect("a board");
        let slot = board.slot(0).expect("a slot");
        let behind = || slot.behind.load(Ordering::Acquire);
        let from = || slot.behind_from.load(Ordering::Acquire);
        // Each is done soon: the device waits for the program.
        let mut w = work(&[1_000_000, 1_100_000], 0);
        w.caught_up(slot, 1_000_000 + LAG);
        assert_eq!((behind(), from()), (0, 1_100_000 + LAG));
        w.caught_up(slot, 1_100_000 + LAG);
        assert_eq!((behind(), from()), (0, 0));
        // The second of two waits for the first: no time is counted twice.
        let mut w = work(&[2_000_000, 2_100_000], 0);
        w.caught_up(slot, 3_000_000);
        assert_eq!((behind(), from()), (1_000_000 - LAG, 3_000_000));
        w.caught_up(slot, 4_000_000);
        assert_eq!((behind(), from()), (2_000_000 - LAG, 0));
    }
}
