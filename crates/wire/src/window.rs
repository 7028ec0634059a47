//! Sequence numbers, acknowledgement and replay: how a session outlives its connections.
//!
//! Each direction of a session is one [`SendWindow`] and, at the other end, one [`RecvCursor`].
//! Data frames count from 1. A sender keeps every frame until it is acknowledged; when a connection
//! is replaced, the peers tell each other the last frame they have, and the sender goes on behind
//! it. A frame seen twice is dropped, a gap is an error: TCP gives neither within one connection.

use crate::codec::WireError;
use std::collections::VecDeque;

/// Frames sent and not yet acknowledged, in order, each with the payload type of the caller.
#[derive(Debug)]
pub struct SendWindow<T> {
    /// Sequence number of the front of `frames`.
    first: u64,
    frames: VecDeque<(T, usize)>,
    /// Index into `frames` of the next one to put on the wire.
    next: usize,
    bytes: usize,
}

impl<T> Default for SendWindow<T> {
    fn default() -> Self {
        Self {
            first: 1,
            frames: VecDeque::new(),
            next: 0,
            bytes: 0,
        }
    }
}

impl<T> SendWindow<T> {
    /// Adds a frame that weighs `bytes` of memory and returns its number.
    pub fn push(&mut self, frame: T, bytes: usize) -> u64 {
        self.frames.push_back((frame, bytes));
        self.bytes += bytes;
        self.first + self.frames.len() as u64 - 1
    }

    /// The next frame to send on the present connection.
    pub fn take_next(&mut self) -> Option<(u64, &T)> {
        let i = self.next;
        let (frame, _) = self.frames.get(i)?;
        self.next += 1;
        Some((self.first + i as u64, frame))
    }

    /// Whether a frame waits to be sent.
    pub fn has_next(&self) -> bool {
        self.next < self.frames.len()
    }

    /// The peer has everything up to `seq`; the frames it frees are handed to `drop_frame`, each
    /// with its weight.
    pub fn acked(
        &mut self,
        seq: u64,
        mut drop_frame: impl FnMut(T, usize),
    ) -> Result<(), WireError> {
        let sent = self.first + self.next as u64 - 1;
        if seq > sent {
            return Err(WireError::BadValue(
                "acknowledgement: it names a frame never sent",
            ));
        }
        while self.first <= seq {
            if let Some((frame, bytes)) = self.frames.pop_front() {
                self.bytes -= bytes;
                drop_frame(frame, bytes);
            }
            self.first += 1;
            self.next -= 1;
        }
        Ok(())
    }

    /// A new connection: the peer has everything up to `seq`, the rest goes out again.
    pub fn resume(&mut self, seq: u64, drop_frame: impl FnMut(T, usize)) -> Result<(), WireError> {
        let Some(new) = seq.checked_sub(self.first - 1) else {
            return Err(WireError::BadValue("resume point: those frames are gone"));
        };
        if new > self.frames.len() as u64 {
            return Err(WireError::BadValue(
                "resume point: it names a frame never sent",
            ));
        }
        // Whatever was handed to the old connection may or may not have arrived; the peer's word
        // counts.
        self.next = new as usize;
        self.acked(seq, drop_frame)
    }

    /// Bytes held for replay or still to be sent.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of the last frame that was pushed; 0 when none was.
    pub fn last(&self) -> u64 {
        self.first + self.frames.len() as u64 - 1
    }

    /// The number of the last frame that the peer acknowledged; 0 when none was.
    pub fn last_acked(&self) -> u64 {
        self.first - 1
    }
}

/// What a receiver has seen of the other direction.
#[derive(Debug, Default, Clone, Copy)]
pub struct RecvCursor {
    last: u64,
}

/// What to do with a data frame that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next one.
    Next,
    /// It was seen before, on an earlier connection.
    Seen,
}

impl RecvCursor {
    /// Judges frame `seq`; a new one becomes the last received.
    pub fn arrive(&mut self, seq: u64) -> Result<Arrival, WireError> {
        if seq == self.last + 1 {
            self.last = seq;
            Ok(Arrival::Next)
        } else if seq <= self.last && seq > 0 {
            Ok(Arrival::Seen)
        } else {
            Err(WireError::BadValue(
                "sequence number: frames are missing before it",
            ))
        }
    }

    /// Last frame received; 0 when none was.
    pub fn last(&self) -> u64 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_connection_resends_what_the_peer_lacks() {
        let mut w = SendWindow::default();
        for i in 0..5u32 {
            w.push(i, 10);
        }
        assert_eq!(
            (0..4)
                .map(|_| *w.take_next().unwrap().1)
                .collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
        w.acked(1, |_, _| {}).unwrap();
        w.resume(2, |_, _| {}).unwrap();
        assert_eq!(w.take_next(), Some((3, &2)));
        assert_eq!(w.bytes(), 30);
        w.resume(5, |_, _| {}).unwrap();
        assert!(w.take_next().is_none());
        assert_eq!((w.bytes(), w.last()), (0, 5));
    }

    #[test]
    fn a_peer_cannot_acknowledge_what_was_not_sent() {
        let mut w = SendWindow::default();
        w.push((), 1);
        assert!(w.acked(1, |_, _| {}).is_err());
        w.take_next();
        assert!(w.acked(2, |_, _| {}).is_err());
        assert!(w.resume(7, |_, _| {}).is_err());
        assert!(w.resume(u64::MAX, |_, _| {}).is_err());
        w.acked(1, |_, _| {}).unwrap();
        w.push((), 1);
        assert!(w.resume(0, |_, _| {}).is_err(), "frame 1 is gone");
    }

    #[test]
    fn a_gap_is_an_error_and_a_repeat_is_dropped() {
        let mut c = RecvCursor::default();
        assert_eq!(c.arrive(1), Ok(Arrival::Next));
        assert_eq!(c.arrive(1), Ok(Arrival::Seen));
        assert!(c.arrive(3).is_err());
        assert!(c.arrive(0).is_err());
        assert_eq!(c.last(), 1);
    }
}
