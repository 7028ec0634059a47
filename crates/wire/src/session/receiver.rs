//! The half that receives: what is new, what was seen, when to acknowledge, and whether the peer
//! still lives.

use super::board::Board;
use super::rules::{Aside, Bounds, Stop, broken};
use crate::frame::{self, HEADER, Header, Kind};
use std::sync::Arc;
use std::time::Duration;

/// What a header announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arriving {
    /// A data frame. One that is not `new` was received before, on an earlier connection: its bytes
    /// are to be read and dropped.
    Data {
        /// Whether it is the next one.
        new: bool,
        /// What of it comes over side connections.
        aside: Aside,
    },
    /// No body.
    Bare,
    /// No body; the peer listens to the side connection of this number.
    NamesSide(u64),
}

/// The peer owes something, was asked whether it lives, and has said nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silent;

/// Waits are cut into so many parts of the time that a peer may be silent.
const TICKS: u32 = 4;

/// See [`super`].
#[derive(Debug)]
pub struct Receiver {
    board: Arc<Board>,
    ack_every: usize,
    silence: Option<Duration>,
    epoch: Option<u64>,
    last: u64,
    /// Bytes received since the peer was last told.
    untold: usize,
    /// For how long the peer has been silent, and when that was last added to.
    silent: Duration,
    added: Option<Duration>,
    asked: bool,
}

impl Receiver {
    pub(super) fn new(bounds: Bounds, board: Arc<Board>) -> Self {
        Self {
            board,
            ack_every: bounds.ack_every,
            silence: bounds.silence,
            epoch: Some(0),
            last: 0,
            untold: 0,
            silent: Duration::ZERO,
            added: None,
            asked: false,
        }
    }

    /// The connection is gone: nothing that it may still bring is taken. The last frame received,
    /// which is what a new connection is told.
    pub fn detach(&mut self) -> u64 {
        self.epoch = None;
        self.last
    }

    /// The session goes on over another connection, on which the peer has said nothing yet.
    pub fn attach(&mut self, epoch: u64) {
        self.epoch = Some(epoch);
        self.heard();
    }

    fn fence(&self, epoch: u64) -> Result<(), Stop> {
        if self.epoch == Some(epoch) {
            Ok(())
        } else {
            Err(Stop::Stale)
        }
    }

    /// A header has come. A frame counts as received only when all of it is here, which
    /// [`Receiver::complete`] says: until then another connection brings it from its first byte.
    #[inline]
    pub fn header(&self, epoch: u64, h: &Header) -> Result<Arriving, Stop> {
        self.fence(epoch)?;
        match h.kind {
            Kind::Data => {
                let len = h.len as usize;
                let new = self.is_new(h.seq)?;
                let aside = Aside::of(len, h.flags.into());
                let aside = aside.ok_or(broken("short frame in so many parts"))?;
                Ok(Arriving::Data { new, aside })
            }
            Kind::Ack | Kind::Ping if h.len > 0 => Err(broken("frame that should have no body")),
            Kind::Ping if h.flags == frame::SIDE => Ok(Arriving::NamesSide(h.seq)),
            Kind::Ack | Kind::Ping => Ok(Arriving::Bare),
            Kind::Hello | Kind::Welcome => Err(broken(
                "kind of frame: a hello or welcome does not belong here",
            )),
        }
    }

    fn is_new(&self, seq: u64) -> Result<bool, Stop> {
        match seq {
            0 => Err(broken("sequence number: they count from 1")),
            _ if seq <= self.last => Ok(false),
            _ if seq == self.last + 1 => Ok(true),
            _ => Err(broken("sequence number: frames are missing before it")),
        }
    }

    /// All of a frame is here. Whether it is a new data frame, and so to be delivered now.
    #[inline]
    pub fn complete(&mut self, epoch: u64, h: &Header) -> Result<bool, Stop> {
        self.fence(epoch)?;
        let new = h.kind == Kind::Data && self.is_new(h.seq)?;
        if new {
            self.last = h.seq;
            self.board.set_received(h.seq);
        }
        Ok(new)
    }

    /// A frame is dealt with; a new one is delivered. Whether the sender has something to say to
    /// the peer.
    #[inline]
    pub fn done(&mut self, h: &Header) -> bool {
        let executed = h.executed();
        if executed > self.board.peer_executed() {
            self.board.set_peer_executed(executed);
        }
        match h.kind {
            Kind::Data => {
                self.board.set_delivered(self.last);
                self.untold += HEADER + h.len as usize;
                if self.untold < self.ack_every {
                    return false;
                }
            }
            Kind::Ping => {}
            _ => return false,
        }
        self.untold = 0;
        self.board.acknowledge();
        true
    }

    /// Whether [`Receiver::waits`] has anything to say.
    pub fn is_patient(&self) -> bool {
        self.silence.is_none()
    }

    /// Something was received.
    #[inline]
    pub fn heard(&mut self) {
        (self.silent, self.added, self.asked) = (Duration::ZERO, None, false);
    }

    /// Nothing is there to be received `now`; `owed` says whether the peer owes anything. For how
    /// long to wait before this is asked again, and whether the sender has something to say.
    ///
    /// A peer that owes something and has been silent for half of its time is asked: one that
    /// lives answers at once, whatever it is busy with. Time is added up from short waits, so that
    /// time in which this end stood still itself does not count.
    pub fn waits(&mut self, now: Duration, owed: bool) -> Result<(Option<Duration>, bool), Silent> {
        let Some(limit) = self.silence else {
            return Ok((None, false));
        };
        let tick = limit / TICKS;
        if let Some(before) = self.added.replace(now) {
            self.silent += now.saturating_sub(before).min(tick);
        }
        let mut asks = false;
        if !owed {
            (self.silent, self.asked) = (Duration::ZERO, false);
        } else if !self.asked && self.silent >= limit / 2 {
            // The sender asks, not this: the connection may take nothing.
            (self.silent, self.asked) = (limit / 2, true);
            self.board.ask();
            asks = true;
        } else if self.asked && self.silent >= limit {
            return Err(Silent);
        }
        Ok((Some(tick), asks))
    }

    /// The parts in which to wait for what must come soon, such as the rest of a frame; after
    /// [`Receiver::ticks`] of them without a byte the peer counts as silent.
    pub fn tick(&self) -> Option<Duration> {
        self.silence.map(|d| d / TICKS)
    }

    /// See [`Receiver::tick`].
    pub fn ticks(&self) -> u32 {
        TICKS
    }
}
