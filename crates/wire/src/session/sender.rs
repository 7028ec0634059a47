//! The half that numbers, sends, keeps and sends again; it also knows which connection is present.

use super::board::Board;
use super::rules::{Aside, Bounds, Stop, broken};
use crate::frame::{self, Header, Kind};
use std::collections::VecDeque;
use std::sync::Arc;

/// A frame that is kept until the peer has it.
#[derive(Debug)]
struct Kept<T> {
    frame: T,
    len: usize,
    may_split: bool,
}

/// A side connection of the present connection.
#[derive(Debug)]
struct Pair {
    /// What the end that did not open it calls it.
    number: u64,
    /// The peer has been told that this end listens to it.
    named: bool,
    /// The peer listens to it.
    heard: bool,
    /// A part of a frame has gone over it, or should have.
    used: bool,
    over: bool,
}

/// What to do when the peer names a side connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Named {
    /// Nothing: it is known, or has gone.
    Nothing,
    /// Take the one that was offered under this number into use; if that cannot be done,
    /// [`Sender::side_lost`] says so.
    Take,
}

/// What goes out next.
#[derive(Debug, PartialEq, Eq)]
pub struct Transmit<'a, T> {
    /// Its header.
    pub header: Header,
    /// Its body, if it has one.
    pub frame: Option<&'a T>,
    /// What of the body takes side connections.
    pub aside: Aside,
}

/// See [`super`].
#[derive(Debug)]
pub struct Sender<T> {
    board: Arc<Board>,
    window: usize,
    /// Number of the front of `kept`.
    first: u64,
    kept: VecDeque<Kept<T>>,
    /// How many of `kept` the present connection has been given.
    given: usize,
    bytes: usize,
    epoch: u64,
    attached: bool,
    /// The last epoch that was proposed to the peer.
    proposed: u64,
    /// Somebody waits until the peer has this frame.
    wanted: u64,
    /// The peer was asked, on the present connection, when it had been given this frame.
    asked: u64,
    /// Side connections that the peer has opened, and the last of them until it is named.
    offers: u64,
    offered: Option<u64>,
    /// Those that are in use, in an order that both ends have: the next one comes once the last one
    /// is.
    sides: Vec<Pair>,
}

impl<T> Sender<T> {
    pub(super) fn new(bounds: Bounds, board: Arc<Board>) -> Self {
        Self {
            board,
            window: bounds.window,
            first: 1,
            kept: VecDeque::new(),
            given: 0,
            bytes: 0,
            epoch: 0,
            attached: true,
            proposed: 0,
            wanted: 0,
            asked: 0,
            offers: 0,
            offered: None,
            sides: Vec::new(),
        }
    }

    /// What both halves know.
    pub fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// Takes a frame of `len` bytes and numbers it. Its last bytes may take side connections if
    /// `may_split`.
    pub fn push(&mut self, frame: T, len: usize, may_split: bool) {
        self.kept.push_back(Kept {
            frame,
            len,
            may_split,
        });
        self.bytes += len;
        self.board.set_numbered(self.last());
    }

    /// The last frame that was numbered.
    pub fn last(&self) -> u64 {
        self.first + self.kept.len() as u64 - 1
    }

    /// The last frame of those that the peer has not acknowledged and that `which` accepts.
    pub fn last_of(&self, which: impl Fn(&T) -> bool) -> Option<u64> {
        let i = self.kept.iter().rposition(|k| which(&k.frame))?;
        Some(self.first + i as u64)
    }

    /// The last frame that the present connection has been given.
    fn last_given(&self) -> u64 {
        self.first + self.given as u64 - 1
    }

    /// Bytes that the peer has not acknowledged.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether more is to be taken, `more` bytes being about to be.
    pub fn has_room(&self, more: usize) -> bool {
        self.bytes + more <= self.window
    }

    /// Somebody waits until the peer has acknowledged frame `seq`: it is asked as soon as it has
    /// been given it, on each connection.
    pub fn want(&mut self, seq: u64) {
        self.wanted = self.wanted.max(seq.min(self.last()));
    }

    /// Whether the peer was asked, on the present connection, for all up to frame `seq`.
    pub fn has_asked(&self, seq: u64) -> bool {
        self.attached && self.asked >= seq
    }

    /// The next frame to send on the present connection. What it returns is sent: a frame that the
    /// connection did not take is taken by the next one.
    pub fn poll(&mut self) -> Option<Transmit<'_, T>> {
        if !self.attached {
            return None;
        }
        if let Some(pair) = self.sides.iter_mut().find(|p| !p.named && !p.over) {
            pair.named = true;
            let number = pair.number;
            return Some(self.bare(Kind::Ping, frame::SIDE, number));
        }
        let given = self.last_given();
        let wants = self.wanted > self.asked && self.wanted <= given;
        if wants && self.wanted > self.first - 1 {
            self.asked = given;
            return Some(self.bare(Kind::Ping, 0, 0));
        }
        if self.board.take_ping() {
            return Some(self.bare(Kind::Ping, 0, 0));
        }
        if self.given < self.kept.len() {
            return Some(self.data());
        }
        self.board.ack_is_due().then(|| self.bare(Kind::Ack, 0, 0))
    }

    fn bare(&self, kind: Kind, flags: u8, seq: u64) -> Transmit<'_, T> {
        let (ack, behind) = self.board.word();
        let header = Header {
            len: 0,
            kind,
            flags,
            behind,
            seq,
            ack,
        };
        Transmit {
            header,
            frame: None,
            aside: Aside::default(),
        }
    }

    fn data(&mut self) -> Transmit<'_, T> {
        self.given += 1;
        let kept = &self.kept[self.given - 1];
        let most = if kept.may_split {
            Aside::most(kept.len)
        } else {
            0
        };
        let ready = self.sides.iter_mut().take_while(|p| p.heard && !p.over);
        let used = ready.take(most).map(|pair| pair.used = true).count();
        let aside = Aside::of(kept.len, used).unwrap_or_default();
        let (ack, behind) = self.board.word();
        let header = Header {
            len: kept.len as u32,
            kind: Kind::Data,
            flags: aside.sides as u8,
            behind,
            seq: self.first + self.given as u64 - 1,
            ack,
        };
        Transmit {
            header,
            frame: Some(&kept.frame),
            aside,
        }
    }

    fn fence(&self, epoch: u64) -> Result<(), Stop> {
        if self.attached && epoch == self.epoch {
            Ok(())
        } else {
            Err(Stop::Stale)
        }
    }

    /// The peer has everything up to `seq`. What is kept no longer goes to `done`: each frame, its
    /// length, and whether it might have been split.
    pub fn acknowledged(
        &mut self,
        epoch: u64,
        seq: u64,
        done: impl FnMut(T, usize, bool),
    ) -> Result<(), Stop> {
        // Of a connection that this half has found broken, the other may still read the rest.
        if epoch != self.epoch {
            return Err(Stop::Stale);
        }
        if seq > self.last_given() {
            return Err(broken("acknowledgement: it names a frame never sent"));
        }
        self.release(seq, done);
        Ok(())
    }

    fn release(&mut self, seq: u64, mut done: impl FnMut(T, usize, bool)) {
        while self.first <= seq
            && let Some(kept) = self.kept.pop_front()
        {
            self.bytes -= kept.len;
            self.first += 1;
            self.given = self.given.saturating_sub(1);
            done(kept.frame, kept.len, kept.may_split);
        }
        self.board.set_acked(self.first - 1);
    }

    /// Which connection this is, or was before it was lost.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The epoch of an attempt to resume, for a hello.
    pub fn propose(&mut self) -> u64 {
        self.proposed = self.proposed.max(self.epoch).saturating_add(1);
        self.proposed
    }

    /// The connection of this epoch is gone. Nothing is sent until there is another.
    pub fn detach(&mut self, epoch: u64) {
        if self.fence(epoch).is_ok() {
            self.attached = false;
            self.sides.clear();
        }
    }

    /// The session goes on over another connection. The peer has everything up to `seq`, and gets
    /// the rest again: what an older connection was given may have arrived or not, the peer's word
    /// counts.
    pub fn attach(
        &mut self,
        epoch: u64,
        seq: u64,
        done: impl FnMut(T, usize, bool),
    ) -> Result<(), Stop> {
        if epoch <= self.epoch {
            return Err(Stop::Stale);
        }
        if seq < self.first - 1 {
            return Err(broken("resume point: those frames are gone"));
        }
        if seq > self.last() {
            return Err(broken("resume point: it names a frame never sent"));
        }
        (self.epoch, self.attached) = (epoch, true);
        self.asked = 0;
        self.sides.clear();
        self.given = 0;
        self.release(seq, done);
        Ok(())
    }

    /// The peer has opened a side connection. Its number, by which the peer names it; until then
    /// it waits, and a later one takes its place.
    pub fn offer_side(&mut self) -> u64 {
        self.offers += 1;
        self.offered = Some(self.offers);
        self.offers
    }

    /// This end has opened a side connection for connection `epoch`, and the peer calls it
    /// `number`. Stale if that connection is not the present one, or may have no more.
    pub fn open_side(&mut self, epoch: u64, number: u64) -> Result<(), Stop> {
        self.fence(epoch)?;
        self.sides().ok_or(Stop::Stale)?;
        self.sides.push(Pair::new(number, false));
        Ok(())
    }

    /// The peer names a side connection: one that this end has opened, or one that was offered to
    /// it. Of anything else nothing is to be said: it has gone, and will not be used.
    pub fn side_named(&mut self, epoch: u64, number: u64) -> Result<Named, Stop> {
        self.fence(epoch)?;
        if let Some(pair) = self.sides.iter_mut().find(|p| p.number == number) {
            pair.heard = true;
        } else if self.sides().is_some() && self.offered.take_if(|n| *n == number).is_some() {
            self.sides.push(Pair::new(number, true));
            return Ok(Named::Take);
        }
        Ok(Named::Nothing)
    }

    /// A frame on connection `epoch` has parts on so many side connections.
    pub fn sides_expected(&mut self, epoch: u64, sides: usize) -> Result<(), Stop> {
        self.fence(epoch)?;
        let none = broken("frame in parts: no connection for one of them");
        let all = self.sides.get_mut(..sides).ok_or(none)?;
        all.iter_mut().for_each(|p| p.used = true);
        Ok(())
    }

    /// The side connection of this number, of connection `epoch`, is gone. Whether that one is lost
    /// with it.
    pub fn side_lost(&mut self, epoch: u64, number: u64) -> bool {
        let present = self.fence(epoch).is_ok();
        let mut sides = self
            .sides
            .iter_mut()
            .filter(|p| present && p.number == number);
        let Some(pair) = sides.next() else {
            return false;
        };
        pair.over = true;
        pair.used
    }

    /// How many side connections the present connection has, if it may have another one: both ends
    /// use all that it has, and there is room.
    pub fn sides(&self) -> Option<usize> {
        let all = self.sides.iter().all(|p| p.heard && !p.over);
        let most = self.sides.len() == usize::from(frame::SIDES);
        (self.attached && all && !most).then_some(self.sides.len())
    }
}

impl Pair {
    fn new(number: u64, heard: bool) -> Self {
        Self {
            number,
            named: false,
            heard,
            used: false,
            over: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{self, SPLIT_FROM};

    fn pushed(frames: usize) -> Sender<usize> {
        let (mut tx, _) = session::new(Bounds::default(), Arc::default());
        (0..frames).for_each(|i| tx.push(i, SPLIT_FROM, true));
        tx
    }

    /// The numbers of the frames that go out now, and whether any is split.
    fn sent(tx: &mut Sender<usize>) -> (Vec<u64>, bool) {
        let (mut numbers, mut split) = (Vec::new(), false);
        while let Some(t) = tx.poll() {
            split |= t.aside.sides > 0;
            numbers.extend(t.frame.map(|_| t.header.seq));
        }
        (numbers, split)
    }

    fn nothing(_: usize, _: usize, _: bool) {}

    #[test]
    fn a_new_connection_gets_what_the_peer_lacks() {
        let mut tx = pushed(5);
        assert_eq!(sent(&mut tx).0, [1, 2, 3, 4, 5]);
        tx.acknowledged(0, 1, nothing).unwrap();
        tx.detach(0);
        assert!(sent(&mut tx).0.is_empty());
        let mut freed = Vec::new();
        tx.attach(2, 2, |f, _, _| freed.push(f)).unwrap();
        assert_eq!(freed, [1]);
        assert_eq!(tx.last_of(|f| *f < 4), Some(4));
        assert_eq!(tx.last_of(|f| *f < 2), None, "the peer has those");
        assert_eq!(sent(&mut tx).0, [3, 4, 5]);
        assert_eq!(tx.bytes(), 3 * SPLIT_FROM);
        assert_eq!(tx.acknowledged(0, 3, nothing), Err(Stop::Stale));
        assert_eq!(tx.attach(2, 3, nothing), Err(Stop::Stale));
        assert_eq!(tx.attach(1, 3, nothing), Err(Stop::Stale));
        assert!(matches!(tx.attach(3, 1, nothing), Err(Stop::Broken(_))));
        assert!(matches!(tx.attach(3, 6, nothing), Err(Stop::Broken(_))));
        tx.attach(3, 5, nothing).unwrap();
        assert_eq!((sent(&mut tx).0, tx.bytes()), (vec![], 0));
    }

    #[test]
    fn an_epoch_may_be_any_number() {
        let mut tx = pushed(0);
        assert_eq!((tx.propose(), tx.propose()), (1, 2));
        tx.attach(u64::MAX, 0, nothing).unwrap();
        assert_eq!(tx.propose(), u64::MAX);
        assert_eq!(tx.attach(u64::MAX, 0, nothing), Err(Stop::Stale));
    }

    #[test]
    fn nothing_is_split_before_the_peer_has_named_this_side_connection() {
        let mut tx = pushed(1);
        assert_eq!(tx.open_side(7, 3), Err(Stop::Stale));
        tx.open_side(0, 3).unwrap();
        assert_eq!(tx.open_side(0, 4), Err(Stop::Stale), "one is on its way");
        assert_eq!(tx.side_named(0, 2), Ok(Named::Nothing));
        assert!(!sent(&mut tx).1);
        tx.push(1, SPLIT_FROM, true);
        assert_eq!(tx.side_named(0, 3), Ok(Named::Nothing));
        tx.push(2, SPLIT_FROM - 1, true);
        tx.push(3, SPLIT_FROM, false);
        assert_eq!(sent(&mut tx), (vec![2, 3, 4], true));
        assert!(!tx.side_lost(0, 2));
        assert!(tx.side_lost(0, 3), "half of frame 2 was on it");
        tx.push(4, SPLIT_FROM, true);
        assert_eq!(sent(&mut tx), (vec![5], false));
        assert_eq!(tx.open_side(0, 5), Err(Stop::Stale), "one is lost");
    }

    #[test]
    fn a_frame_takes_the_side_connections_that_both_ends_use_and_no_more_than_it_fills() {
        let mut tx = pushed(0);
        for number in 1..=3 {
            assert_eq!(tx.sides(), Some(number as usize - 1));
            tx.open_side(0, number).unwrap();
            assert_eq!(tx.sides(), None, "the peer may not have it");
            let named = tx.poll().expect("a ping").header;
            assert_eq!((named.flags, named.seq), (frame::SIDE, number));
            tx.side_named(0, number).unwrap();
        }
        assert_eq!(tx.sides(), None, "there are enough");
        let mut parts = |len| {
            tx.push(0, len, true);
            let t = tx.poll().expect("a frame");
            assert_eq!(usize::from(t.header.flags), t.aside.sides);
            (t.aside.sides, t.aside.each)
        };
        assert_eq!(parts(SPLIT_FROM - 1), (0, 0));
        assert_eq!(parts(SPLIT_FROM), (1, SPLIT_FROM / 2));
        assert_eq!(parts((1 << 20) + 100), (3, 1 << 18));
        // Behind one that is lost there is none: the ends would count differently.
        assert!(tx.side_lost(0, 2));
        tx.push(0, 1 << 20, true);
        assert_eq!(tx.poll().expect("a frame").aside.sides, 1);
        // Another connection has none.
        tx.detach(0);
        tx.attach(1, 4, nothing).unwrap();
        assert_eq!(tx.sides(), Some(0));
    }

    #[test]
    fn an_offer_is_taken_once_and_the_last_one_only() {
        let mut tx = pushed(0);
        let (first, second) = (tx.offer_side(), tx.offer_side());
        assert_eq!(tx.side_named(0, first), Ok(Named::Nothing));
        assert!(matches!(tx.sides_expected(0, 1), Err(Stop::Broken(_))));
        assert_eq!(tx.side_named(0, second), Ok(Named::Take));
        assert_eq!(tx.side_named(0, second), Ok(Named::Nothing));
        assert_eq!(tx.sides_expected(0, 1), Ok(()));
        assert!(matches!(tx.sides_expected(0, 2), Err(Stop::Broken(_))));
        assert!(
            tx.side_lost(0, second),
            "half of a frame was to come over it"
        );
        assert!(!tx.side_lost(1, second));
        let third = tx.offer_side();
        assert_eq!(tx.side_named(0, third), Ok(Named::Nothing), "one is lost");
    }
}
