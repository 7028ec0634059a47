//! Bytes on their way in: many records from one system call, decrypted where they lie.

use super::schedule::{Half, TAG};
use super::words::{self, HEAD, LONGEST_TEXT, TYPE_ALERT, TYPE_DATA, TYPE_HANDSHAKE, bad};
use std::io;
use std::ops::Range;

/// Room for what has come and is not decrypted yet.
const ROOM: usize = 256 << 10;
/// The longest body of a record that a peer may send: it may fill up what it has to say.
const LONGEST_BODY: usize = LONGEST_TEXT + 256;
/// The most records in a row that say nothing to whoever receives.
const MOST_IDLE: u32 = 32;
/// From so many bytes on they are received where they belong.
const DIRECT: usize = 4 * LONGEST_TEXT;

/// What a record says.
enum Said {
    /// So many bytes at the start of the memory that it was opened in.
    Data(usize),
    /// The peer sends no more.
    End,
    /// Nothing for whoever receives; the peer asks for a new key or does not.
    Idle { asks: bool },
}

/// What is being received.
pub(super) struct Input {
    half: Half,
    room: Box<[u8]>,
    /// Of `room`: what has been decrypted and not been taken.
    plain: Range<usize>,
    /// Of `room`: what has come behind it.
    raw: Range<usize>,
    idle: u32,
    /// The peer has sent its last.
    ended: bool,
    /// What was wrong; nothing more is taken then.
    failed: Option<(io::ErrorKind, String)>,
    /// The peer asks for a new key.
    pub(super) asks: bool,
}

impl Input {
    /// What goes on with `plain` and `raw`, which have come already.
    pub(super) fn new(half: Half, plain: &[u8], raw: &[u8]) -> Self {
        let mut room = vec![0; ROOM].into_boxed_slice();
        let (p, r) = (plain.len(), plain.len() + raw.len());
        room[..p].copy_from_slice(plain);
        room[p..r].copy_from_slice(raw);
        Self {
            half,
            room,
            plain: 0..p,
            raw: p..r,
            idle: 0,
            ended: false,
            failed: None,
            asks: false,
        }
    }

    /// The most bytes that can come along.
    pub(super) const MOST: usize = ROOM;

    pub(super) fn half(&self) -> &Half {
        &self.half
    }

    /// What has been decrypted and what has not.
    pub(super) fn left(&self) -> [&[u8]; 2] {
        [&self.room[self.plain.clone()], &self.room[self.raw.clone()]]
    }

    /// Whether there is something to receive without asking the system: bytes, the end, an error.
    pub(super) fn ready(&self) -> bool {
        let whole = |n: usize| self.raw.len() >= n;
        !self.plain.is_empty()
            || self.ended
            || self.failed.is_some()
            || self.next().is_some_and(whole)
    }

    /// How long the record at the start of `raw` is, head and all, as it says itself.
    fn next(&self) -> Option<usize> {
        let len = self.room[self.raw.clone()].get(3..HEAD)?;
        Some(HEAD + usize::from(u16::from_be_bytes([len[0], len[1]])))
    }

    /// Receives at least one byte; 0 at the end. `more` reads from the system; `None` of it is
    /// `None` here.
    pub(super) fn recv(
        &mut self,
        out: &mut [u8],
        mut more: impl FnMut(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Option<usize>> {
        if let Some((kind, why)) = &self.failed {
            return Err(io::Error::new(*kind, why.clone()));
        }
        let mut got = 0;
        while got < out.len() {
            if !self.plain.is_empty() {
                let n = self.plain.len().min(out.len() - got);
                let from = self.plain.start;
                out[got..got + n].copy_from_slice(&self.room[from..from + n]);
                self.plain.start += n;
                got += n;
                continue;
            }
            match self.decrypt() {
                Ok(true) => continue,
                Ok(false) => {}
                // What came before it counts.
                Err(_) if got > 0 => break,
                Err(e) => return Err(e),
            }
            if got > 0 || self.ended {
                break;
            }
            // Into the place itself, if not even one record has come whole.
            if out.len() >= DIRECT && self.raw.len() < out.len() {
                match self.directly(out, &mut more)? {
                    Some(0) if !self.ended => continue,
                    n => return Ok(n),
                }
            }
            self.tidy();
            let missing = self.next().map_or(0, |n| n - self.raw.len());
            let heads = (out.len() / LONGEST_TEXT + 1) * (HEAD + 1 + TAG);
            let most = (self.raw.end + missing.max(out.len() + heads)).min(ROOM);
            match more(&mut self.room[self.raw.end..most])? {
                None => return Ok(None),
                // A stream that just ends is one that was cut, as far as anybody can tell.
                Some(0) => return Ok(Some(0)),
                Some(n) => self.raw.end += n,
            }
        }
        Ok(Some(got))
    }

    /// Moves what is left to the start of the room when a record may not fit behind it.
    fn tidy(&mut self) {
        if self.raw.is_empty() {
            self.raw = 0..0;
        } else if ROOM - self.raw.start < HEAD + LONGEST_BODY {
            self.room.copy_within(self.raw.clone(), 0);
            self.raw = 0..self.raw.len();
        }
        self.plain = 0..0;
    }

    /// Receives into `out`, and decrypts there what has come whole. How many bytes; 0 also when
    /// that was not one.
    fn directly(
        &mut self,
        out: &mut [u8],
        more: &mut impl FnMut(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Option<usize>> {
        let begun = self.raw.len();
        out[..begun].copy_from_slice(&self.room[self.raw.clone()]);
        let end = match more(&mut out[begun..])? {
            None => return Ok(None),
            Some(0) => {
                self.ended = true;
                return Ok(Some(0));
            }
            Some(n) => begun + n,
        };
        let (mut at, mut got) = (0, 0);
        let mut failed = None;
        while let Some(head) = out[at..end].first_chunk::<HEAD>().copied() {
            let body = match self.length(&head) {
                Ok(n) => n,
                Err(e) => {
                    failed = Some(e);
                    break;
                }
            };
            let next = at + HEAD + body;
            if next > end {
                break;
            }
            let said = self.open(|half| {
                let from = at + HEAD - got;
                let memory = &mut out[got..next];
                half.open(&head, memory, from).map(|n| (&*memory, n))
            });
            at = next;
            match said {
                Ok(Said::Data(n)) => got += n,
                Ok(Said::Idle { asks }) => self.asks |= asks,
                Ok(Said::End) => self.ended = true,
                Err(e) => failed = Some(e),
            }
            if self.ended || failed.is_some() {
                break;
            }
        }
        let left = if failed.is_some() { 0 } else { end - at };
        self.room[..left].copy_from_slice(&out[at..at + left]);
        (self.plain, self.raw) = (0..0, 0..left);
        match failed {
            Some(e) if got == 0 => Err(e),
            _ => Ok(Some(got)),
        }
    }

    /// Decrypts the next record, if it has come whole and there is no end or error.
    fn decrypt(&mut self) -> io::Result<bool> {
        let (start, end) = (self.raw.start, self.raw.end);
        let Some(head) = self.room[start..end].first_chunk::<HEAD>().copied() else {
            return Ok(false);
        };
        if self.ended {
            return Ok(false);
        }
        let next = start + HEAD + self.length(&head)?;
        if next > end {
            return Ok(false);
        }
        let mut room = std::mem::take(&mut self.room);
        let memory = &mut room[start..next];
        let said = self.open(|half| half.open(&head, memory, HEAD).map(|n| (&*memory, n)));
        self.room = room;
        self.raw.start = next;
        match said? {
            Said::Data(n) => self.plain = start..start + n,
            Said::Idle { asks } => self.asks |= asks,
            Said::End => self.ended = true,
        }
        Ok(true)
    }

    /// How long a record's body is, by its head.
    fn length(&mut self, head: &[u8; HEAD]) -> io::Result<usize> {
        let [kind, _, _, high, low] = *head;
        let len = usize::from(u16::from_be_bytes([high, low]));
        if kind != TYPE_DATA || head[1..3] != [3, 3] {
            return self.fail("a record that is not encrypted");
        }
        if !(1 + TAG..=LONGEST_BODY).contains(&len) {
            return self.fail("a record of a length that there is not");
        }
        Ok(len)
    }

    /// Decrypts a record by `open`, which gives the memory whose start it fills, and how far; and
    /// sees what it says.
    fn open<'a>(
        &mut self,
        open: impl FnOnce(&mut Half) -> Option<(&'a [u8], usize)>,
    ) -> io::Result<Said> {
        let Some((memory, n)) = open(&mut self.half) else {
            return self.fail("a record was changed on its way, or is of another connection");
        };
        // Behind the text comes its type, and then zeros if the peer likes.
        let Some(at) = memory[..n].iter().rposition(|b| *b != 0) else {
            return self.fail("a record without a type");
        };
        let (text, kind) = (&memory[..at], memory[at]);
        if text.len() > LONGEST_TEXT {
            return self.fail("a record that is too long");
        }
        if kind == TYPE_DATA && !text.is_empty() {
            self.idle = 0;
            return Ok(Said::Data(text.len()));
        }
        self.idle += 1;
        if self.idle > MOST_IDLE {
            return self.fail("record after record that says nothing");
        }
        match (kind, text) {
            (TYPE_DATA, []) => Ok(Said::Idle { asks: false }),
            (TYPE_ALERT, [_, 0]) => Ok(Said::End),
            (TYPE_ALERT, [_, what]) => {
                let (kind, why) = words::alert(*what);
                self.failed = Some((kind, why.clone()));
                Err(io::Error::new(kind, why))
            }
            (TYPE_HANDSHAKE, [24, 0, 0, 1, asks @ (0 | 1)]) => {
                self.half.update();
                Ok(Said::Idle { asks: *asks == 1 })
            }
            _ => self.fail("a record of a kind that there is not"),
        }
    }

    fn fail<T>(&mut self, why: &str) -> io::Result<T> {
        let e = bad(&format!("the encrypted connection is broken: {why}"));
        self.failed = Some((e.kind(), e.to_string()));
        Err(e)
    }
}
