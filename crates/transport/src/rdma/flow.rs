//! A ring as a connection: bytes go in and come out, gathered or lent.

use super::block::{RING, Reference};
use super::ring::{Input, LENDS, LOOKS, MOST, Out, Ring};
use crate::lock::lock;
use crate::{Connection, Held, Kept};
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Ring {
    fn send_all(&self, bufs: &[IoSlice<'_>], held: Option<&Held>) -> io::Result<()> {
        let mut out = lock(&self.out);
        let mut run: Vec<&[u8]> = Vec::with_capacity(bufs.len());
        for buf in bufs {
            let before: usize = run.iter().map(|b| b.len()).sum();
            match self.lend(buf, before, held)? {
                None => run.push(buf),
                Some((ahead, reference)) => {
                    let reference = reference.to_bytes();
                    let mut all = std::mem::take(&mut run);
                    all.extend([&buf[..ahead], &reference]);
                    self.gather(&mut out, &all, LENDS)?;
                }
            }
        }
        self.gather(&mut out, &run, 0)
    }

    /// Sends all of these bytes from the ring, which end with a reference if they lend.
    fn gather(&self, out: &mut Out, parts: &[&[u8]], lends: u32) -> io::Result<()> {
        let mut left: usize = parts.iter().map(|b| b.len()).sum();
        let mut parts = parts.iter().copied();
        let mut part: &[u8] = &[];
        while left > 0 {
            let at = self.sent.load(Ordering::Relaxed) as usize % RING;
            let mut n = left.min(MOST).min(RING - at);
            // A reference goes as a whole.
            if lends > 0 && n < left {
                n = n.min(left - Reference::SIZE);
            }
            self.wait_for_room(n)?;
            let mut done = 0;
            while done < n {
                if part.is_empty() {
                    part = parts.next().unwrap_or_default();
                    continue;
                }
                let now = part.len().min(n - done);
                // SAFETY: `n` bytes from `at` on are in the ring, and free: the
                // device reads others.
                unsafe {
                    let to = self.block.outgoing().add(at + done);
                    std::ptr::copy_nonoverlapping(part.as_ptr(), to, now);
                }
                part = &part[now..];
                done += now;
            }
            left -= n;
            self.write(out, n, if left == 0 { lends } else { 0 })?;
        }
        Ok(())
    }

    /// Takes bytes out of the ring.
    fn take(&self, input: &mut Input, buf: &mut [u8]) -> io::Result<usize> {
        let reference = |mark: &u64| mark - Reference::SIZE as u64;
        let end = input.marks.front().map_or(input.came, reference);
        if end == input.taken {
            return self.fetch(input, buf);
        }
        let there = (end - input.taken) as usize;
        let at = input.taken as usize % RING;
        let n = buf.len().min(there).min(RING - at);
        // SAFETY: `n` bytes from `at` on are in the ring. The peer should not write there
        // now; if it does, these bytes are any.
        unsafe {
            let from = self.block.incoming().add(at);
            std::ptr::copy_nonoverlapping(from, buf.as_mut_ptr(), n);
        }
        input.taken += n as u64;
        self.say(input)?;
        Ok(n)
    }

    fn try_take(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let mut input = lock(&self.input);
        if input.came == input.taken {
            self.look(&mut input)?;
        }
        if input.came > input.taken {
            input.looks = 0;
            return self.take(&mut input, buf).map(Some);
        }
        if self.ended.load(Ordering::Acquire) {
            return Ok(Some(0));
        }
        input.looks += 1;
        if input.looks.is_multiple_of(LOOKS) {
            self.hear(&mut input)?;
        }
        Ok(None)
    }

    /// Whether there is something to receive, the end included.
    fn ready(&self) -> bool {
        let input = lock(&self.input);
        input.came > input.taken || self.ended.load(Ordering::Acquire) || self.check().is_err()
    }
}

impl Connection for Ring {
    fn send(&self, bufs: &mut [IoSlice<'_>]) -> io::Result<()> {
        self.check()?;
        self.send_all(bufs, None).or_else(|e| self.fail(&e))
    }

    fn send_held(&self, bufs: &mut [IoSlice<'_>], held: Held) -> io::Result<()> {
        self.check()?;
        let sent = self.send_all(bufs, Some(&held));
        sent.or_else(|e| self.fail(&e))
    }

    fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        let limit = *lock(&self.limit);
        let until = limit.map(|d| Instant::now() + d);
        loop {
            if let Some(n) = self.try_recv(buf)? {
                return Ok(n);
            }
            let left = until.map(|u| u.saturating_duration_since(Instant::now()));
            if left.is_some_and(|d| d.is_zero()) {
                return Err(ErrorKind::TimedOut.into());
            }
            self.wait(None, left)?;
        }
    }

    fn try_recv(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        if buf.is_empty() {
            return Ok(Some(0));
        }
        self.check()?;
        self.try_take(buf).or_else(|e| self.fail(&e))
    }

    fn wait(&self, alarm: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> io::Result<bool> {
        self.asleep.receiver.store(true, Ordering::SeqCst);
        let ready = || Ok(self.ready());
        let slept = self.doze(&self.came, alarm, limit, ready);
        self.asleep.receiver.store(false, Ordering::SeqCst);
        slept.or_else(|e| self.fail(&e))?;
        Ok(self.ready())
    }

    fn recv_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        *lock(&self.limit) = limit;
        Ok(())
    }

    fn attend(&self, kept: &Arc<Kept>) {
        let _ = self.kept.set(kept.clone());
    }

    fn shutdown(&self) {
        self.over.store(true, Ordering::Release);
        self.control.shutdown();
        self.room.ring();
        self.came.ring();
    }

    fn hung_up(&self) -> bool {
        self.failed.get().is_some() || self.control.hung_up()
    }

    fn was_reset(&self) -> bool {
        self.control.was_reset()
    }

    fn round_trip(&self) -> Duration {
        self.control.round_trip()
    }

    fn ends(&self) -> Option<[SocketAddr; 2]> {
        self.control.ends()
    }

    fn path(&self) -> crate::Path {
        crate::Path::Rdma
    }

    fn peer(&self) -> String {
        self.control.peer()
    }
}
