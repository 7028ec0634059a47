//! Long slices of memory that stays: lent by one end of a ring, and read by the other.

use super::block::{BUFFER, READS, RING, Reference, STEP};
use super::ring::{
    Input, LEND, LENDS_NOTHING, LONGEST_SLEEP, LOOK, Lending, Queue, READ_ID, Ring, WINDOWS,
};
use super::verbs::{Access, Loan, Read, Region};
use crate::lock::lock;
use crate::{Held, Memory, wait_any};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Ring {
    /// What is registered of memory that stays, if these bytes are of such.
    pub(super) fn region(&self, bytes: Memory) -> Option<Arc<Region>> {
        let register = |whole| {
            // SAFETY: it stays until it is forgotten, and with it the registration; what is lent of
            // it keeps that until the peer has read it.
            let how = |access| unsafe { self.pair.register(whole, access) };
            // Locked it is faster, and where it cannot be, the device may do without.
            how(Access::Lent).or_else(|_| how(Access::Paged)).ok()
        };
        self.kept.get()?.made(bytes, &self.me, register)
    }

    /// Lends bytes that are to be sent behind `before` others, if that can be done: how many of the
    /// first go ahead as they are, and what takes the place of the rest.
    pub(super) fn lend(
        &self,
        buf: &[u8],
        before: usize,
        held: Option<&Held>,
    ) -> io::Result<Option<(usize, Reference)>> {
        // Only whoever sends moves on.
        let sent = self.sent.load(Ordering::Relaxed) + before as u64;
        // The reference lies in one piece.
        let ahead = match RING - sent as usize % RING {
            n if n < Reference::SIZE => n,
            _ => 0,
        };
        let (start, len) = (buf.as_ptr().wrapping_add(ahead), buf.len());
        if len < LEND || u32::try_from(len).is_err() {
            return Ok(None);
        }
        let (start, len) = (start.cast_mut(), len - ahead);
        let Some(region) = self.region(Memory { start, len }) else {
            return Ok(None);
        };
        let mut queue = lock(&self.queue);
        let Some(window) = self.window(&mut queue)? else {
            return Ok(None);
        };
        let loan = Loan { at: start, len };
        // SAFETY: of our device, with these bytes; kept until the window is closed.
        let key = unsafe { self.pair.open(window, &region, loan)? };
        queue.windows[window] = Some(region);
        let end = sent + (ahead + Reference::SIZE) as u64;
        queue.loans.push_back(Lending {
            end,
            window,
            _held: held.cloned(),
        });
        self.lent.fetch_add(1, Ordering::Release);
        if let Some(kept) = self.kept.get() {
            kept.count_sent(len);
        }
        let (at, len) = (start as u64, len as u32);
        Ok(Some((ahead, Reference { at, key, len })))
    }

    /// A window that is closed.
    fn window(&self, queue: &mut Queue) -> io::Result<Option<usize>> {
        if queue.closed.is_empty() {
            self.settle(queue)?;
        }
        if let Some(window) = queue.closed.pop() {
            return Ok(Some(window));
        }
        if queue.no_more || queue.windows.len() == WINDOWS {
            return Ok(None);
        }
        let made = self.pair.window().ok();
        queue.no_more = made.is_none();
        if made.is_some() {
            queue.windows.push(None);
        }
        Ok(made)
    }

    /// What came there instead of bytes.
    fn reference(&self, at: usize) -> io::Result<Reference> {
        let mut bytes = [0; Reference::SIZE];
        // SAFETY: they are in the ring in one piece, as `mark` has seen to.
        unsafe {
            let from = self.block.incoming().add(at);
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
        }
        let it = Reference::of(bytes);
        match it.len {
            0 => Err(io::Error::new(ErrorKind::InvalidData, LENDS_NOTHING)),
            _ => Ok(it),
        }
    }

    /// Reads bytes that the peer has lent, as many as `buf` has room for.
    pub(super) fn fetch(&self, input: &mut Input, buf: &mut [u8]) -> io::Result<usize> {
        let from = match input.rest.take() {
            Some(rest) => rest,
            None => self.reference(input.taken as usize % RING)?,
        };
        let n = buf.len().min(from.len as usize);
        let read = self.read_lent(input, from, &mut buf[..n]);
        // The memory is the caller's again, whatever the device was about to do with it.
        read.inspect_err(|_| self.pair.stop())?;
        let left = from.len - n as u32;
        if left > 0 {
            input.rest = Some(Reference {
                at: from.at.wrapping_add(n as u64),
                len: left,
                ..from
            });
        } else {
            input.marks.pop_front();
            input.taken += Reference::SIZE as u64;
            self.say_now(input)?;
        }
        Ok(n)
    }

    /// Reads to where the bytes belong, or to the ring's buffer and copies them.
    fn read_lent(&self, input: &mut Input, from: Reference, buf: &mut [u8]) -> io::Result<()> {
        let (start, len) = (buf.as_mut_ptr(), buf.len());
        if let Some(region) = self.region(Memory { start, len }) {
            self.read(input, &from, 0, (start, region.keys.local), len)?;
            self.wait_for_reads(input, 0)?;
            if let Some(kept) = self.kept.get() {
                kept.count_received(len);
            }
            return Ok(());
        }
        let mut asked = 0;
        for (i, place) in buf.chunks_mut(STEP).enumerate() {
            while asked < len && asked < (i + READS as usize) * STEP {
                let to = self.block.buffer().wrapping_add(asked % BUFFER);
                let n = STEP.min(len - asked);
                let local = self.regions.buffer.keys.local;
                self.read(input, &from, asked, (to, local), n)?;
                asked += n;
            }
            let behind = asked.div_ceil(STEP) - i - 1;
            self.wait_for_reads(input, behind as u64)?;
            // SAFETY: bytes that have been read there, and that are not read again before this.
            unsafe {
                let here = self.block.buffer().add(i * STEP % BUFFER);
                std::ptr::copy_nonoverlapping(here, place.as_mut_ptr(), place.len());
            }
        }
        Ok(())
    }

    /// Asks for bytes that are lent.
    fn read(
        &self,
        input: &mut Input,
        lent: &Reference,
        offset: usize,
        (to, local): (*mut u8, u32),
        len: usize,
    ) -> io::Result<()> {
        let _queue = lock(&self.queue);
        // SAFETY: registered memory of which nobody else knows until the read is done, or the queue
        // pair has been stopped.
        unsafe {
            self.pair.read(&Read {
                id: READ_ID,
                to,
                len,
                local,
                from: lent.at.wrapping_add(offset as u64),
                remote: lent.key,
            })?;
        }
        input.reads += 1;
        Ok(())
    }

    /// Waits until no more than so many reads are under way.
    fn wait_for_reads(&self, input: &mut Input, most: u64) -> io::Result<()> {
        let wanted = input.reads - most;
        let done = || -> io::Result<bool> {
            self.check()?;
            let mut queue = lock(&self.queue);
            self.settle(&mut queue)?;
            Ok(queue.reads >= wanted)
        };
        let begin = Instant::now();
        while begin.elapsed() < LOOK {
            if done()? {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        loop {
            self.pair.arm_sent()?;
            if done()? {
                return Ok(());
            }
            // A peer that has ended answers no read, and not every device ends one by itself.
            if self.ended.load(Ordering::Acquire) {
                return Err(ErrorKind::BrokenPipe.into());
            }
            let fds = [
                Some(self.pair.events()),
                Some(self.came.as_fd()),
                self.control.socket(),
            ];
            let [event, told, control] = wait_any(fds, Some(LONGEST_SLEEP))?;
            if control {
                self.hear(input)?;
            }
            if told {
                self.came.silence();
            }
            if event {
                self.pair.clear_events()?;
                // As in `doze`: the event may have been for another.
                self.pair.arm()?;
                self.look(input)?;
            }
        }
    }
}
