//! The one way to sleep until something has happened, and to wake whoever sleeps.
//!
//! A [`Gate`] has a name, and each wait at it says who waits, and for how long at most. A wait for
//! something that is due and does not come is told to whoever listens ([`tell_of_long_waits`]), so
//! that a session that stands still says where. Whether to look before sleeping is the caller's
//! decision: see [`crate::look`].
//!
//! A gate protects nothing: what is waited for lies in atomic words or behind a lock of its own,
//! and is changed before the gate is opened. To open a gate at which nobody sleeps costs a fence
//! and a load.

use super::prelude::*;
use std::sync::atomic::AtomicU32;

/// After this long a wait is told of, after twice as long again, and so on.
const LONG: Duration = Duration::from_secs(10);

/// Who waits at a gate, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    who: &'static str,
    limit: Option<Duration>,
    is_due: bool,
    once: bool,
}

impl Wait {
    /// Somebody who has nothing to do until there is work.
    pub const fn idle(who: &'static str) -> Self {
        Self {
            who,
            limit: None,
            is_due: false,
            once: false,
        }
    }

    /// Somebody who cannot go on before it comes.
    pub const fn due(who: &'static str) -> Self {
        Self {
            is_due: true,
            ..Self::idle(who)
        }
    }

    /// For at most so long.
    pub const fn within(self, limit: Duration) -> Self {
        Self {
            limit: Some(limit),
            ..self
        }
    }

    /// Goes on when the gate is opened, whether it came or not: for a thread that stays awake for a
    /// while once it was woken.
    pub const fn once(self) -> Self {
        Self { once: true, ..self }
    }
}

/// A wait that takes long.
#[derive(Debug, Clone, Copy)]
pub struct LongWait {
    /// The gate.
    pub gate: &'static str,
    /// Who waits there.
    pub who: &'static str,
    /// For how long already.
    pub since: Duration,
}

static LISTENER: OnceLock<fn(&LongWait)> = OnceLock::new();

/// `f` is told of waits that take long, on the thread that waits. The first one that asks is. While
/// nobody asks, a wait without a limit costs no timer, which is some microseconds.
pub fn tell_of_long_waits(f: fn(&LongWait)) {
    let _ = LISTENER.set(f);
}

/// See the module.
#[derive(Debug)]
pub struct Gate {
    name: &'static str,
    /// How often it was opened while somebody slept. The futex.
    rounds: AtomicU32,
    /// Somebody sleeps, or is about to, until the next round.
    asleep: AtomicBool,
    /// Threads that wait here, those that have been woken and do not run yet included.
    inside: AtomicU32,
}

impl Gate {
    /// A gate, named after what is waited for there.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            rounds: AtomicU32::new(0),
            asleep: AtomicBool::new(false),
            inside: AtomicU32::new(0),
        }
    }

    /// Has everybody who waits here look again. What they wait for has been changed before.
    #[inline]
    pub fn open(&self) {
        // Pairs with the fence in `wait`: we see who sleeps, or they see what we have changed.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Whether somebody waits here, or was woken and has not gone on yet. Exact behind a `SeqCst`
    /// fence that follows what they wait for.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        self.inside.load(Ordering::Relaxed) != 0
    }

    #[cold]
    fn wake(&self) {
        // Of several that open it, one wakes. Whoever lies down after that is in the next round, or
        // finds that this one is over.
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.rounds.fetch_add(1, Ordering::SeqCst);
            // SAFETY: a futex wake on a live, aligned u32.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.rounds.as_ptr(),
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    i32::MAX,
                );
            }
        }
    }

    /// Sleeps until `came`, or until the limit. False when it has not come.
    pub fn wait(&self, wait: &Wait, mut came: impl FnMut() -> bool) -> bool {
        if came() {
            return true;
        }
        self.inside.fetch_add(1, Ordering::Relaxed);
        let did = self.wait_inside(wait, came);
        self.inside.fetch_sub(1, Ordering::Relaxed);
        did
    }

    fn wait_inside(&self, wait: &Wait, mut came: impl FnMut() -> bool) -> bool {
        let start = Instant::now();
        let mut long = LISTENER.get().filter(|_| wait.is_due).map(|f| (f, LONG));
        loop {
            let round = self.rounds.load(Ordering::SeqCst);
            self.asleep.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if came() {
                return true;
            }
            let waited = start.elapsed();
            if wait.limit.is_some_and(|limit| waited >= limit) {
                return false;
            }
            let ends = [wait.limit, long.map(|(_, at)| at)];
            let end = ends.into_iter().flatten().min();
            self.sleep(round, end.map(|end| end.saturating_sub(waited)));
            let opened = self.rounds.load(Ordering::Acquire) != round;
            if came() || opened && wait.once {
                return true;
            }
            let since = start.elapsed();
            if let Some((tell, at)) = &mut long
                && since >= *at
            {
                let (gate, who) = (self.name, wait.who);
                tell(&LongWait { gate, who, since });
                *at *= 2;
            }
        }
    }

    /// Sleeps unless `round` is over.
    fn sleep(&self, round: u32, limit: Option<Duration>) {
        let limit = limit.map(|d| libc::timespec {
            tv_sec: d.as_secs() as libc::time_t,
            tv_nsec: d.subsec_nanos().into(),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: a futex wait on a live, aligned u32; a live time, or none.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.rounds.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                round,
                limit,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_goes_on_when_it_has_come() {
        let (gate, turn) = (Gate::new("a turn"), AtomicU32::new(0));
        const TURNS: u32 = 2000;
        std::thread::scope(|s| {
            for me in 0..3 {
                let (gate, turn) = (&gate, &turn);
                s.spawn(move || {
                    let mine = || turn.load(Ordering::Acquire) % 3 == me;
                    for _ in 0..TURNS {
                        assert!(gate.wait(&Wait::due("a player"), mine));
                        turn.fetch_add(1, Ordering::Release);
                        gate.open();
                    }
                });
            }
        });
        assert_eq!(turn.into_inner(), 3 * TURNS);
        assert!(!gate.has_waiters());
    }

    #[test]
    fn a_wait_ends_at_its_limit_and_leaves_nothing_behind() {
        let gate = Gate::new("nothing");
        let short = Wait::due("a test").within(Duration::from_millis(2));
        assert!(!gate.wait(&short, || false));
        let none = Wait::due("a test").within(Duration::ZERO);
        assert!(!gate.wait(&none, || false) && gate.wait(&none, || true));
        assert!(!gate.has_waiters());
    }

    #[test]
    fn one_opening_wakes_all_and_is_seen_until_they_run() {
        let (gate, open) = (Gate::new("the start"), AtomicBool::new(false));
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| gate.wait(&Wait::idle("a runner"), || open.load(Ordering::Acquire)));
            }
            while gate.inside.load(Ordering::Acquire) < 4 {
                std::thread::yield_now();
            }
            assert!(gate.has_waiters());
            gate.open();
            open.store(true, Ordering::Release);
            gate.open();
        });
    }
}
