//! Whose turn a device is: words in memory that a server shares with one worker, and a bell.
//!
//! A [`Board`] has a [`Slot`] for each of a session's devices. Both sides change a slot's word, one
//! by one as the other has left it; the rest the worker writes and the server reads. A worker sees
//! its own board alone, and nothing in it is believed: the server divides time by its own clock.

use crate::shared::Segment;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// There are no turns: all may be submitted. What a board begins with.
pub const FREE: u32 = 0;
/// Another one's turn.
pub const NONE: u32 = 1;
/// This worker's turn, and nothing is under way.
pub const IDLE: u32 = 2;
/// This worker's turn, and work is under way.
pub const BUSY: u32 = 3;
/// As `BUSY`, but nothing more is to be submitted.
pub const STOP: u32 = 4;
/// As `NONE`, but the turn that is being handed over is to be this worker's.
pub const SOON: u32 = 5;

/// For so long it is worth it, where there are cores for that, to look instead of sleeping for the
/// end of a turn, for the beginning of the next one, and for room in it.
pub const HASTE: Duration = Duration::from_millis(3);

/// Devices of a board at most.
pub const SLOTS: usize = 64;

/// One device.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Slot {
    word: AtomicU32,
    /// Whether the worker has any use for the device.
    pub present: AtomicU32,
    /// Threads that want the turn.
    pub wants: AtomicU32,
    /// Pieces of work that are under way.
    pub under_way: AtomicU32,
    /// How often work was seen to be done.
    pub done: AtomicU32,
    /// How long work was under way until it was last idle, in ns.
    pub busy: AtomicU64,
    /// Since when it is busy or idle, by [`now`].
    pub since: AtomicU64,
    /// How long the device was behind what was submitted to it, in ns.
    pub behind: AtomicU64,
    /// From when on it is behind by what is under way, by [`now`]; 0 for nothing.
    pub behind_from: AtomicU64,
    /// How many have this turn together; the server writes it.
    pub holders: AtomicU32,
    /// How many sessions the server has; the server writes it, to the first slot alone.
    pub sessions: AtomicU32,
}

/// The memory.
#[derive(Debug)]
pub struct Board {
    at: u64,
}

const BYTES: u64 = (SLOTS * size_of::<Slot>()) as u64;

/// Time, as all processes of a machine count it, in ns.
pub fn now() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a pointer to a live structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

impl Board {
    /// A new one, on which everything is free, and the memory for the other side.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let memory = Segment::new(BYTES)?;
        let at = memory.map_anywhere(BYTES)?;
        Ok((Self { at }, memory.into_fd()))
    }

    /// The other side's.
    pub fn adopt(memory: OwnedFd) -> io::Result<Self> {
        let memory = Segment::adopt(memory, BYTES)?;
        let at = memory.map_anywhere(BYTES)?;
        Ok(Self { at })
    }

    /// A device's slot.
    pub fn slot(&self, i: usize) -> Option<&Slot> {
        // SAFETY: the mapping has as many slots, lasts as long as this, and any bytes are a slot.
        (i < SLOTS).then(|| unsafe { &*(self.at as *const Slot).add(i) })
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: our own mapping, to which nothing refers any more.
        unsafe { Segment::unmap(self.at, BYTES) };
    }
}

impl Slot {
    /// The word.
    #[inline]
    pub fn word(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// Whether nothing has to be asked.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.word.load(Ordering::Relaxed) == FREE
    }

    /// Changes the word, if it is `from`.
    pub fn change(&self, from: u32, to: u32) -> bool {
        let (ok, or) = (Ordering::AcqRel, Ordering::Acquire);
        self.word.compare_exchange(from, to, ok, or).is_ok()
    }

    /// Sets the word, and wakes who waits for that.
    pub fn set(&self, to: u32) {
        self.word.store(to, Ordering::Release);
        self.wake();
    }

    /// Wakes who waits for the word.
    pub fn wake(&self) {
        let all = i32::MAX;
        // SAFETY: a live word; the other side's threads wait for it, so it is not private.
        unsafe { libc::syscall(libc::SYS_futex, self.word.as_ptr(), libc::FUTEX_WAKE, all) };
    }

    /// Waits until the word is another one, but no longer than this.
    pub fn wait(&self, word: u32, most: Duration) {
        let t = libc::timespec {
            tv_sec: most.as_secs() as _,
            tv_nsec: most.subsec_nanos().into(),
        };
        let how = libc::FUTEX_WAIT;
        // SAFETY: a live word and a live time.
        unsafe { libc::syscall(libc::SYS_futex, self.word.as_ptr(), how, word, &raw const t) };
    }
}

/// What wakes a server. It is heard at one end of a pipe and rung at the other, which have flags of
/// their own: whoever rings cannot make the other side wait.
#[derive(Debug)]
pub struct Bell {
    hears: OwnedFd,
    rings: OwnedFd,
}

impl Bell {
    /// A new one, which is silent.
    pub fn new() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us these two.
        let [hears, rings] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(Self { hears, rings })
    }

    /// What another process rings it by. This side keeps it open: an end without another would be
    /// heard all the time.
    pub fn rope(&self) -> &OwnedFd {
        &self.rings
    }

    /// Rings.
    pub fn ring(&self) {
        ring(&self.rings);
    }

    /// Has it silent, or nearly so when it was rung very often.
    fn hush(&self) {
        let mut some = [0u8; 4096];
        // SAFETY: room for as many bytes; it does not block.
        unsafe { libc::read(self.hears.as_raw_fd(), some.as_mut_ptr().cast(), some.len()) };
    }
}

/// Rings a bell by its rope.
pub fn ring(rope: &OwnedFd) {
    // SAFETY: one live byte. A pipe that is full has been rung.
    unsafe { libc::write(rope.as_raw_fd(), c"".as_ptr().cast(), 1) };
}

/// How often somebody may ring: so many times at once, and then as the time passes.
#[derive(Debug)]
pub struct Patience {
    left: u32,
    at: Duration,
}

impl Patience {
    /// The most rings at once.
    pub const MOST: u32 = 64;
    /// How long it takes until another one is heard.
    pub const EACH: Duration = Duration::from_millis(1);

    /// With all that it has.
    pub fn new(now: Duration) -> Self {
        Self {
            left: Self::MOST,
            at: now,
        }
    }

    /// A ring was heard.
    pub fn heard(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Whether another one would be heard.
    pub fn listens(&mut self, now: Duration) -> bool {
        let past = now.saturating_sub(self.at).as_nanos() / Self::EACH.as_nanos();
        let more = u32::try_from(past).unwrap_or(Self::MOST).min(Self::MOST);
        if more > 0 {
            self.left = (self.left + more).min(Self::MOST);
            self.at = now;
        }
        self.left > 0
    }
}

/// Waits until one of these is rung, but no longer than this, and has them silent: which ones, by
/// their places.
pub fn await_rings<'a>(
    bells: impl Iterator<Item = &'a Bell>,
    most: Option<Duration>,
) -> io::Result<Vec<usize>> {
    let bells: Vec<_> = bells.collect();
    let of = |b: &&Bell| libc::pollfd {
        fd: b.hears.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut all: Vec<_> = bells.iter().map(of).collect();
    let t = most.map(|d| libc::timespec {
        tv_sec: d.as_secs() as _,
        tv_nsec: d.subsec_nanos().into(),
    });
    let t = t.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: as many live entries, and a live time or none.
    if unsafe { libc::ppoll(all.as_mut_ptr(), all.len() as _, t, std::ptr::null()) } < 0 {
        let e = io::Error::last_os_error();
        return match e.kind() {
            ErrorKind::Interrupted => Ok(Vec::new()),
            _ => Err(e),
        };
    }
    let rung = |(i, p): (usize, &libc::pollfd)| (p.revents != 0).then_some(i);
    let rung: Vec<_> = all.iter().enumerate().filter_map(rung).collect();
    rung.iter().for_each(|i| bells[*i].hush());
    Ok(rung)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_one_board() {
        let (ours, memory) = Board::new().unwrap();
        let theirs = Board::adopt(memory).unwrap();
        let (a, b) = (ours.slot(63).unwrap(), theirs.slot(63).unwrap());
        assert!(b.is_free() && ours.slot(64).is_none());
        a.set(IDLE);
        assert!(b.change(IDLE, BUSY) && !b.change(IDLE, BUSY));
        assert_eq!((a.word(), theirs.slot(0).unwrap().word()), (BUSY, FREE));
        // A word that is another one already is not waited for.
        b.wait(IDLE, Duration::from_secs(3600));
        let waiting = std::thread::scope(|s| {
            let waits = s.spawn(|| {
                while b.word() == BUSY {
                    b.wait(BUSY, Duration::from_secs(3600));
                }
            });
            a.set(STOP);
            waits.join()
        });
        assert!(waiting.is_ok());
    }

    #[test]
    fn memory_of_another_size_is_no_board() {
        let small = Segment::new(4096 / 2).unwrap();
        assert!(Board::adopt(small.into_fd()).is_err());
    }

    #[test]
    fn a_bell_is_heard_once() {
        let (a, b) = (Bell::new().unwrap(), Bell::new().unwrap());
        b.ring();
        ring(b.rope());
        let all = || [&a, &b].into_iter();
        assert_eq!(await_rings(all(), None).unwrap(), [1]);
        let start = std::time::Instant::now();
        let none = await_rings(all(), Some(Duration::from_millis(5))).unwrap();
        assert!(none.is_empty() && start.elapsed() >= Duration::from_millis(5));
    }

    #[test]
    fn whoever_rings_without_end_is_heard_a_thousand_times_a_second() {
        let at = Duration::from_micros;
        let mut p = Patience::new(at(0));
        // Rung every 10 us for two seconds.
        let mut heard = 0;
        for now in (0..2_000_000).step_by(10) {
            if p.listens(at(now)) {
                p.heard();
                heard += 1;
            }
        }
        assert!((2000..2100).contains(&heard), "{heard}");
        // A worker that hands over its turns is always heard.
        let mut p = Patience::new(at(0));
        for now in (0..2_000_000).step_by(4000) {
            for _ in 0..4 {
                assert!(p.listens(at(now)));
                p.heard();
            }
        }
    }

    #[test]
    fn whoever_rings_cannot_make_the_other_side_wait() {
        let bell = Bell::new().unwrap();
        // The other process has what this one has sent it, and changes what it can of that.
        let rope = bell.rope().try_clone().unwrap();
        assert_eq!(
            // SAFETY: it takes a descriptor, which lives, and a number.
            unsafe { libc::fcntl(rope.as_raw_fd(), libc::F_SETFL, 0) },
            0
        );
        ring(&rope);
        let (done, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            await_rings([&bell].into_iter(), None).unwrap();
            // It was heard, and somebody else has taken what was there.
            bell.hush();
            done.send(()).unwrap();
        });
        let waited = told.recv_timeout(Duration::from_secs(10));
        assert!(waited.is_ok(), "it waits for another ring");
    }
}
