//! The turn: work for a device passes [`Turn::pass`], which waits until it is this session's.
//!
//! The server says on a board whose turn it is ([`busbar_transport::baton`]). A session that has a
//! device to itself is asked for one load of a word. Otherwise it submits in its turn alone, and
//! has little under way: then the turn can pass to another soon. What is under way is known by
//! **marks**, which an API drops once the device has come so far ([`crate::done`]).

#![forbid(unsafe_code)]

use crate::prelude::*;
use busbar_transport::baton::{self, BUSY, Board, FREE, IDLE, NONE, STOP, Slot};
use std::os::fd::OwnedFd;

/// Device time from one mark to the next.
const MARK: u64 = 500_000;
/// Marks under way at most.
const MARKS: u32 = 2;
/// The part of a mark that the device has left to do when a session runs dry, one in so many.
const LITTLE: u32 = 4;
/// Submissions from one mark to the next, at most.
const MOST: u32 = 1 << 12;
/// How long room for more work is waited for. Work that does not end by then may wait for what is
/// to be submitted next.
const ROOM: Duration = Duration::from_millis(20);
/// How often somebody who waits looks whether the session is over.
const LOOK: Duration = Duration::from_millis(10);

/// Work for one device.
struct Work {
    /// Submissions that are not known to be done.
    under_way: u32,
    /// Of those, the ones behind the last mark.
    unmarked: u32,
    /// Submissions from one mark to the next.
    every: u32,
    /// When the first piece without a mark was submitted.
    begun: u64,
    /// When the last mark was done.
    done: u64,
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
    submitted: u32,
    /// When the first piece of it was submitted.
    since: u64,
}

impl Turn {
    /// From now on the server says whose turn it is of so many devices.
    pub fn obey(&self, board: Board, bell: OwnedFd, devices: usize) {
        let work = || Work {
            under_way: 0,
            unmarked: 0,
            every: 1,
            begun: 0,
            done: 0,
            stuck: false,
        };
        let _ = self.shared.set(Shared {
            board,
            bell,
            work: (0..devices).map(|_| Mutex::new(work())).collect(),
            room: Condvar::new(),
            marked: AtomicBool::new(false),
        });
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

    /// Whether nothing has to be asked for any device.
    #[inline]
    pub fn is_free(&self) -> bool {
        let Some(s) = self.shared.get() else {
            return true;
        };
        let mut slots = (0..s.work.len()).filter_map(|i| s.board.slot(i));
        slots.all(Slot::is_free)
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

    /// Waits until something may be submitted for a device, or the session is over. What is
    /// submitted then needs a [`Turn::mark`]. Before it waits, `marks` is to mark what was
    /// submitted earlier: without a mark that would be under way all the while, no room would come
    /// of it, and the end of the turn would wait for it.
    pub fn pass(&self, device: usize, over: impl Fn() -> bool, marks: impl FnOnce()) {
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
                BUSY if w.under_way < MARKS * w.every || w.stuck => break,
                _ if w.unmarked > 0 && marks.is_some() => {
                    drop(w);
                    if let Some(marks) = marks.take() {
                        marks();
                    }
                    w = lock(work);
                    continue;
                }
                BUSY => {
                    // The device is behind, and not the session.
                    slot.dry.store(0, Ordering::Relaxed);
                    w.stuck = full.elapsed() >= ROOM;
                    let waited = s.room.wait_timeout(w, ROOM);
                    w = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                word => {
                    drop(w);
                    asks.get_or_insert_with(|| Wants::new(slot, &s.bell));
                    slot.wait(word, LOOK);
                    w = lock(work);
                }
            }
            if over() {
                return;
            }
        }
        if w.unmarked == 0 {
            w.begun = baton::now();
        }
        w.under_way += 1;
        w.unmarked += 1;
        slot.under_way.store(w.under_way, Ordering::Release);
    }

    /// The session has nothing more to submit. Where the device has little left to do for it, too,
    /// it has run dry: the server hears of that once a turn.
    pub fn rest(&self) {
        let Some(s) = self.shared.get() else { return };
        for (i, work) in s.work.iter().enumerate() {
            let Some(slot) = s.board.slot(i) else {
                continue;
            };
            let has_turn = matches!(slot.word(), IDLE | BUSY);
            if !has_turn || slot.dry.load(Ordering::Relaxed) != 0 {
                continue;
            }
            let w = lock(work);
            if w.under_way <= w.every / LITTLE {
                slot.dry.store(1, Ordering::Release);
                baton::ring(&s.bell);
            }
        }
    }

    /// Whether it is time for a mark: somebody has `leisure`, or much was submitted.
    pub fn is_due(&self, device: usize, leisure: bool) -> bool {
        let Some((_, _, work)) = self.slot(device) else {
            return false;
        };
        let w = lock(work);
        w.unmarked > 0 && (leisure || w.unmarked >= w.every)
    }

    /// A mark for what was submitted since the last one.
    pub fn mark(&self, device: usize) -> Option<Mark> {
        let (_, _, work) = self.slot(device)?;
        let mut w = lock(work);
        let (submitted, begun) = (std::mem::take(&mut w.unmarked), w.begun);
        drop(w);
        Some(self.mark_of(device, submitted, begun))
    }

    /// A mark for what was submitted while nobody asked.
    pub fn found(&self, device: usize) -> Option<Mark> {
        let (_, slot, work) = self.slot(device)?;
        let mut w = lock(work);
        w.under_way += 1;
        slot.under_way.store(w.under_way, Ordering::Release);
        drop(w);
        Some(self.mark_of(device, 1, baton::now()))
    }

    fn mark_of(&self, device: usize, submitted: u32, since: u64) -> Mark {
        Mark {
            turn: self.clone(),
            device,
            submitted,
            since,
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
        if self.submitted > 0 {
            let long = now.saturating_sub(self.since.max(w.done)).max(1);
            let fit = (u64::from(self.submitted) * MARK / long).clamp(1, MOST.into()) as u32;
            w.every = (w.every + fit).div_ceil(2);
        }
        w.done = now;
        w.under_way = w.under_way.saturating_sub(self.submitted);
        w.stuck = false;
        slot.under_way.store(w.under_way, Ordering::Release);
        slot.done.fetch_add(1, Ordering::AcqRel);
        // The last mark's work is done beside the next one's first, or the device would wait for
        // both sides to hear of each other.
        let nearly = w.under_way <= w.every && w.every > 1;
        if w.under_way == 0 || nearly && slot.word() == STOP {
            settle(slot, &s.bell, now);
        }
        drop(w);
        s.room.notify_all();
    }
}

/// Nothing is under way any more, or little that the turn's end waits for. Whoever calls has the
/// lock of the work.
fn settle(slot: &Slot, bell: &OwnedFd, now: u64) {
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

    /// A worker's turns of one device, and the server's side of them.
    fn one_device() -> (Turn, Board, Bell) {
        let (board, memory) = Board::new().expect("a board");
        let bell = Bell::new().expect("a bell");
        let rope = bell.rope().try_clone().expect("a rope");
        let turn = Turn::default();
        turn.obey(Board::adopt(memory).expect("a board"), rope, 1);
        (turn, board, bell)
    }

    #[test]
    fn whoever_waits_for_room_has_a_mark_under_way_that_makes_some() {
        let (turn, board, _bell) = one_device();
        let slot = board.slot(0).expect("a slot");
        slot.set(IDLE);
        // Its work has become shorter to submit than to do: fewer pieces fit between two marks.
        let fewer = |every| lock(turn.slot(0).expect("a slot").2).every = every;
        fewer(8);
        let full = || slot.word() == BUSY && slot.under_way.load(Ordering::Acquire) == 4;
        for _ in 0..4 {
            turn.pass(0, || false, || panic!("there is room"));
        }
        assert!(full() && !turn.is_due(0, false), "nothing is marked");
        fewer(2);
        turn.pass(0, || false, || drop(turn.mark(0)));
        assert_eq!(slot.under_way.load(Ordering::Acquire), 1);
        assert!(!lock(turn.slot(0).expect("a slot").2).stuck);
    }

    #[test]
    fn a_turn_is_handed_over_while_the_last_mark_is_under_way() {
        let (turn, board, _bell) = one_device();
        let slot = board.slot(0).expect("a slot");
        slot.set(IDLE);
        lock(turn.slot(0).expect("a slot").2).every = 2;
        let mut marks = Vec::new();
        for _ in 0..2 {
            for _ in 0..2 {
                turn.pass(0, || false, || panic!("there is room"));
            }
            marks.push(turn.mark(0));
        }
        slot.set(STOP);
        lock(turn.slot(0).expect("a slot").2).every = 2;
        drop(marks.remove(0));
        let left = slot.under_way.load(Ordering::Acquire);
        assert_eq!((slot.word(), left), (NONE, 2));
        // The rest is another's turn's neighbour, and changes no word.
        slot.set(IDLE);
        drop(marks);
        assert_eq!(slot.word(), IDLE);
    }

    #[test]
    fn a_session_runs_dry_when_both_it_and_the_device_have_nothing_to_do() {
        let (turn, board, _bell) = one_device();
        let slot = board.slot(0).expect("a slot");
        let dry = || slot.dry.load(Ordering::Acquire) != 0;
        turn.rest();
        assert!(!dry(), "nobody asks");
        slot.set(IDLE);
        turn.pass(0, || false, || panic!("it has the turn"));
        turn.rest();
        assert!(!dry(), "the device has work");
        drop(turn.mark(0));
        turn.rest();
        assert!(dry());
        // It is behind again when it has to wait for room.
        lock(turn.slot(0).expect("a slot").2).every = 1;
        for _ in 0..2 {
            turn.pass(0, || false, || panic!("there is room"));
        }
        let mark = turn.mark(0);
        std::thread::scope(|s| {
            s.spawn(|| turn.pass(0, || false, || ()));
            while dry() {
                std::thread::yield_now();
            }
            drop(mark);
        });
        assert!(!dry());
    }

    #[test]
    fn whoever_waits_for_a_turn_has_nothing_under_way_without_a_mark() {
        let (turn, board, _bell) = one_device();
        let slot = board.slot(0).expect("a slot");
        slot.set(IDLE);
        turn.pass(0, || false, || panic!("it has the turn"));
        assert!(turn.is_due(0, true), "it is submitted and has no mark");
        slot.set(STOP);
        let mut marked = false;
        let over = || slot.word() == NONE;
        turn.pass(0, over, || {
            // Its work is done at once, and with it the turn.
            drop(turn.mark(0));
            marked = true;
        });
        assert!(marked && slot.word() == NONE);
        assert_eq!(slot.under_way.load(Ordering::Acquire), 0);
    }
}
