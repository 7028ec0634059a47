//! Bytes on their way out: cut into records, encrypted, several to a system call.

use super::schedule::{Half, MOST_RECORDS, TAG};
use super::words::{HEAD, KEY_UPDATE, LONGEST_TEXT, TYPE_ALERT, TYPE_DATA, TYPE_HANDSHAKE};
use crate::Connection;
use std::io::{self, IoSlice};

/// Bytes of a whole record: its head, its text, the type of that, the tag.
const RECORD: usize = HEAD + LONGEST_TEXT + 1 + TAG;
/// Whole records in one system call: what fits a core's own cache.
const BATCH: usize = 8;
/// Records after which there is a new key.
const UPDATE_AFTER: u64 = 1 << 22;
const _: () = assert!(UPDATE_AFTER < MOST_RECORDS);

/// What is being sent.
pub(super) struct Output {
    half: Half,
    /// Records that are ready. All of it is made at once, and of it only what is used costs memory.
    batch: Box<[u8]>,
    filled: usize,
    update_after: u64,
    /// The stream is torn: a record may have gone out in part, or was the last.
    over: bool,
}

impl Output {
    pub(super) fn new(half: Half) -> Self {
        Self {
            half,
            batch: vec![0; BATCH * RECORD].into_boxed_slice(),
            filled: 0,
            update_after: UPDATE_AFTER,
            over: false,
        }
    }

    pub(super) fn half(&self) -> &Half {
        &self.half
    }

    /// Changes keys more often.
    #[cfg(test)]
    pub(super) fn update_after(&mut self, records: u64) {
        self.update_after = records;
    }

    /// Sends every byte of every slice; before that a new key, if the peer asks for one.
    pub(super) fn send(
        &mut self,
        to: &dyn Connection,
        bufs: &[IoSlice<'_>],
        update: bool,
    ) -> io::Result<()> {
        if update {
            self.update(to)?;
        }
        let mut text = 0;
        for mut bytes in bufs.iter().map(|b| &**b) {
            while !bytes.is_empty() {
                let n = bytes.len().min(LONGEST_TEXT - text);
                let at = self.filled + HEAD + text;
                self.batch[at..at + n].copy_from_slice(&bytes[..n]);
                bytes = &bytes[n..];
                text += n;
                if text == LONGEST_TEXT {
                    self.seal(TYPE_DATA, std::mem::take(&mut text));
                    self.make_room(to)?;
                }
            }
        }
        if text > 0 {
            self.seal(TYPE_DATA, text);
        }
        self.flush(to)?;
        if self.half.records >= self.update_after {
            self.update(to)?;
        }
        Ok(())
    }

    /// Sends an alert, as far as that can be done without waiting: the last record.
    pub(super) fn alert(&mut self, level: u8, what: u8, to: impl FnOnce(&[u8])) {
        if !std::mem::replace(&mut self.over, true) {
            self.filled = 0;
            self.batch[HEAD..HEAD + 2].copy_from_slice(&[level, what]);
            self.seal(TYPE_ALERT, 2);
            to(&self.batch[..self.filled]);
        }
    }

    /// Tells the peer that what follows has the next key.
    fn update(&mut self, to: &dyn Connection) -> io::Result<()> {
        let at = self.filled + HEAD;
        self.batch[at..at + KEY_UPDATE.len()].copy_from_slice(&KEY_UPDATE);
        self.seal(TYPE_HANDSHAKE, KEY_UPDATE.len());
        self.half.update();
        self.flush(to)
    }

    /// Makes a record of the `text` bytes that are in their place.
    fn seal(&mut self, kind: u8, text: usize) {
        let record = &mut self.batch[self.filled..];
        let (head, body) = record.split_at_mut(HEAD);
        let len = text + 1 + TAG;
        let [high, low] = (len as u16).to_be_bytes();
        head.copy_from_slice(&[TYPE_DATA, 3, 3, high, low]);
        body[text] = kind;
        let tag = self.half.seal(head, &mut body[..=text]);
        body[text + 1..len].copy_from_slice(&tag);
        self.filled += HEAD + len;
    }

    /// Sees to it that there is room for a record, and a key for more.
    fn make_room(&mut self, to: &dyn Connection) -> io::Result<()> {
        if self.filled + RECORD > self.batch.len() {
            self.flush(to)?;
        }
        if self.half.records >= self.update_after {
            self.update(to)?;
        }
        Ok(())
    }

    fn flush(&mut self, to: &dyn Connection) -> io::Result<()> {
        if self.over {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let ready = std::mem::take(&mut self.filled);
        let sent = to.send(&mut [IoSlice::new(&self.batch[..ready])]);
        self.over = sent.is_err();
        sent
    }
}
