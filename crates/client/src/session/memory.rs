//! Bytes that go and come ahead of the queue: memory that a device and the program both see.

use super::Session;
use crate::calls::Answer;
use busbar_channel::{Bulk, Closed};
use busbar_wire::atomics::Atomic;
use busbar_wire::changes::{ends, map};
use busbar_wire::record::{
    self, Heard, OP_MEMORY_APART, OP_MEMORY_ATOMIC, OP_MEMORY_CLOSE, OP_MEMORY_IN, OP_MEMORY_LOOK,
    OP_MEMORY_OPEN, OP_MEMORY_OUT, OP_MEMORY_PARTS, OP_MEMORY_WATCH, OP_MIRROR_IN, OP_MIRROR_OUT,
};
use busbar_wire::sums::sums;
use std::ops::Range;

/// Writes which piece of the device's memory is wanted.
fn piece(src: u64, len: usize) -> impl FnOnce(&mut Vec<u8>) {
    move |out| {
        out.extend_from_slice(&src.to_le_bytes());
        out.extend_from_slice(&(len as u64).to_le_bytes());
    }
}

impl Session {
    /// Sends bytes for the device's memory, ahead of what is queued.
    pub fn memory_in(&self, scope: u32, dst: u64, bytes: &[u8]) -> Result<(), Closed> {
        self.ahead(OP_MEMORY_IN, scope, bytes, |out| {
            out.extend_from_slice(&dst.to_le_bytes());
        })
    }

    /// Sends those of some bytes that lie in these runs, ahead of what is queued. Says in how many
    /// records.
    pub fn memory_parts(
        &self,
        scope: u32,
        dst: u64,
        bytes: &[u8],
        runs: &[Range<usize>],
    ) -> Result<u64, Closed> {
        if !self.takes_parts || runs.len() == 1 {
            for r in runs {
                self.memory_in(scope, dst + r.start as u64, &bytes[r.clone()])?;
            }
            return Ok(runs.len() as u64);
        }
        let among: Vec<u8> = runs
            .iter()
            .flat_map(|r| &bytes[r.clone()])
            .copied()
            .collect();
        self.ahead(OP_MEMORY_PARTS, scope, &among, |out| {
            out.extend_from_slice(&(dst + ends(runs).0 as u64).to_le_bytes());
            map(runs, out);
        })?;
        Ok(1)
    }

    /// Has bytes of the device's memory go by a way that no work holds which waits for the program.
    pub fn memory_apart(&self) -> Result<(), Closed> {
        match self.takes_parts {
            true => self.ahead(OP_MEMORY_APART, 0, &[], |_| {}),
            false => Ok(()),
        }
    }

    /// Has an atomic operation done on the device's memory; the answer says what the word was.
    /// `None` where the worker does no such thing.
    pub fn memory_atomic(&self, scope: u32, atomic: &Atomic) -> Option<Result<Answer, Closed>> {
        let asked = || self.ask(OP_MEMORY_ATOMIC, scope, None, |out| atomic.encode(out));
        self.takes_atomics.then(asked)
    }

    /// Sends bytes for a mirror, ahead of what is queued.
    pub fn mirror_in(&self, id: u32, offset: u64, bytes: &[u8]) -> Result<(), Closed> {
        self.ahead(OP_MIRROR_IN, 0, bytes, |out| {
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&offset.to_le_bytes());
        })
    }

    /// Sends bytes behind `fields` in a record that is executed ahead of what is queued.
    fn ahead(
        &self,
        op: u16,
        scope: u32,
        bytes: &[u8],
        fields: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Closed> {
        if let Some(s) = &self.stats {
            s.queued(op, bytes.len() + record::HEADER);
        }
        self.channel
            .push_bulk(op, 0, scope, fields, Bulk::Copy(bytes))
    }

    /// Has all bytes of a mirror, ahead of what is queued.
    pub fn mirror_out(&self, id: u32, to: &mut [u8]) -> Result<Answer, Closed> {
        let place = (to.as_mut_ptr(), to.len());
        self.ask(OP_MIRROR_OUT, 0, Some(place), |out| {
            out.extend_from_slice(&id.to_le_bytes());
        })
    }

    /// Has bytes of the device's memory, ahead of what is queued. Where `to` is an older state of
    /// them, only blocks that have changed come. The answer says how many bytes did; an older
    /// worker's says nothing, and all came.
    pub fn memory_out(
        &self,
        scope: u32,
        src: u64,
        to: &mut [u8],
        older: bool,
    ) -> Result<Answer, Closed> {
        let known = if older { sums(to) } else { Vec::new() };
        let place = (to.as_mut_ptr(), to.len());
        let fields = |out: &mut Vec<u8>| {
            piece(src, to.len())(out);
            out.extend_from_slice(&known);
        };
        self.ask(OP_MEMORY_OUT, scope, Some(place), fields)
    }

    /// Has the worker tell of changes of the device's memory from now on, which the program has at
    /// an address. `to` gets the bytes of now, if they are wanted.
    pub fn memory_open(
        &self,
        (src, len): (u64, usize),
        (host, heard): (u64, Heard),
        to: Option<&mut [u8]>,
    ) -> Result<Answer, Closed> {
        let fields = |out: &mut Vec<u8>| {
            piece(src, len)(out);
            out.extend_from_slice(&host.to_le_bytes());
            out.push(heard as u8);
        };
        match to {
            Some(to) => {
                let place = (to.as_mut_ptr(), to.len());
                self.ask(OP_MEMORY_OPEN, 0, Some(place), fields)
            }
            None => {
                let sent = self.ahead(OP_MEMORY_OPEN, 0, &[], fields);
                sent.map(|()| Answer::default())
            }
        }
    }

    /// Has the worker tell of changes of the device's memory no longer.
    pub fn memory_close(&self, at: u64, len: u64) -> Result<(), Closed> {
        self.ahead(OP_MEMORY_CLOSE, 0, &[], piece(at, len as usize))
    }

    /// Asks what devices have changed, of `all` or of what is watched: the word comes first.
    pub fn memory_look(&self, all: bool) -> Result<Answer, Closed> {
        let op = if all { OP_MEMORY_LOOK } else { OP_MEMORY_WATCH };
        self.ask(op, 0, None, |_| {})
    }
}
