//! How long a thread looks for work before it sleeps.
//!
//! A core that has gone idle takes long to come back: some 5 us on bare metal, 150 us in a virtual
//! machine, which is more than a round trip on a good network. A message that passes four sleeping
//! threads on its way would cost a program half a millisecond each time it waits for the device. So
//! threads of a session that has just been busy, or that somebody waits for, look for more instead,
//! where cores are free for it; a session at rest costs nothing.

use super::prelude::*;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicU32;

use crate::switches::Switch;
use busbar_transport::Alarm;
use busbar_wire::frame::SIDES;

/// Cores from which on threads may look for work for long.
const MANY_CORES: usize = 8;
/// Cores from which on they may look for work at all.
const SOME_CORES: usize = 5;

/// How many sessions there are on this machine, for who is told that.
static SESSIONS: OnceLock<Box<dyn Fn() -> u32 + Send + Sync>> = OnceLock::new();

/// From now on this process knows how many sessions share the machine's cores with its own.
pub fn know_sessions(count: impl Fn() -> u32 + Send + Sync + 'static) {
    let _ = SESSIONS.set(Box::new(count));
}

/// Whether there are too many sessions on this machine for all of them to look for work: each has
/// several threads that would. Together they would keep all cores busy while a device is the only
/// thing that they wait for.
pub fn is_crowded() -> bool {
    let sessions = SESSIONS.get().map_or(0, |count| count());
    sessions > crowd(Cores::get().all)
}

/// How many sessions are none yet, on a machine of so many cores.
fn crowd(cores: u32) -> u32 {
    cores.max(MANY_CORES as u32) / 2
}

/// How long to sleep, in a crowd, before the next look for what has not come for so long.
pub fn nap(since: Duration) -> Duration {
    (since / 16).clamp(Duration::from_micros(50), Duration::from_millis(2))
}

/// How long to look.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// After the last activity.
    pub after: Duration,
    /// While somebody waits for an answer. As long as most steps of a program take.
    pub waiting: Duration,
}

/// What suits this machine, its user, and how many sessions it has.
pub fn patience() -> Patience {
    static PATIENCE: OnceLock<[Patience; 2]> = OnceLock::new();
    let both = PATIENCE.get_or_init(|| {
        let off = !Switch::Poll.on();
        let cores = Cores::get().ours;
        [false, true].map(|crowded| {
            let (after, waiting) = match cores {
                _ if off => (0, 0),
                MANY_CORES.. if !crowded => (2_000, 200_000),
                SOME_CORES.. => (50, 200),
                _ => (0, 0),
            };
            Patience {
                after: Duration::from_micros(after),
                waiting: Duration::from_micros(waiting),
            }
        })
    });
    both[usize::from(is_crowded())]
}

/// How many side connections suit this machine: a connection keeps a thread at each end busy.
pub fn most_sides() -> usize {
    (Cores::get().ours / 4).clamp(2, 1 + usize::from(SIDES)) - 1
}

/// What is known of the machine's cores.
struct Cores {
    epoch: Instant,
    all: u32,
    /// Those that this process may use.
    ours: usize,
    /// The time of the last look in milliseconds, and in the lowest 16 bits how many threads ran.
    seen: AtomicU64,
    /// When somebody last began to wait, or had what it waited for, or a long frame went by, in
    /// milliseconds.
    hurried: AtomicU64,
}

impl Cores {
    /// So long a look is good for, and a hurry lasts: until then whoever has waited is likely to
    /// wait again.
    const LASTS_MS: u64 = 20;

    fn get() -> &'static Self {
        static CORES: OnceLock<Cores> = OnceLock::new();
        CORES.get_or_init(|| Self {
            epoch: Instant::now(),
            // SAFETY: no preconditions.
            all: unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) } as u32,
            ours: std::thread::available_parallelism().map_or(1, usize::from),
            seen: AtomicU64::new(0),
            hurried: AtomicU64::new(0),
        })
    }

    /// A time. Whatever happened at 0 is long ago.
    fn ms(&self, now: Instant) -> u64 {
        now.duration_since(self.epoch).as_millis() as u64 + Self::LASTS_MS
    }

    fn running(&self, now: u64) -> u32 {
        let seen = self.seen.load(Ordering::Relaxed);
        if now - (seen >> 16).min(now) < Self::LASTS_MS {
            return (seen & 0xffff) as u32;
        }
        let running = running().unwrap_or(0).min(0xffff);
        let seen = now << 16 | u64::from(running);
        self.seen.store(seen, Ordering::Relaxed);
        running
    }

    fn spare(&self, hurry: bool) -> bool {
        let now = self.ms(Instant::now());
        let hurry = hurry || now - self.hurried.load(Ordering::Relaxed).min(now) < Self::LASTS_MS;
        self.running(now) <= taken(self.all, hurry)
    }
}

/// How many threads of a machine may run for one of ours to look for work. On one of many cores
/// half of them are left alone, since two threads often share one, and what one of them burns the
/// other lacks; but not in a hurry: if somebody waits, or long frames are on their way, each thread
/// that sleeps between two ends costs its waking.
fn taken(cores: u32, hurry: bool) -> u32 {
    let most = if hurry { cores } else { cores / 2 };
    cores.min(most.max(MANY_CORES as u32))
}

/// Whether a core is free at the moment: looking for work must take it from nobody.
pub fn spare_core() -> bool {
    Cores::get().spare(false)
}

/// As [`spare_core`], for whoever looks for something that is a moment away and keeps a device from
/// its work until it is seen; never on machines of few cores, nor where the user wants no looking.
pub fn core_for_a_moment() -> bool {
    !patience().waiting.is_zero() && Cores::get().spare(true)
}

/// How many threads of the machine run or would like to.
fn running() -> Option<u32> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    load.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

/// Looks for something for up to `most`, politely. Returns whether `found` has.
pub fn look(most: Duration, found: impl FnMut() -> bool) -> bool {
    look_while(most, spare_core, found)
}

/// As [`look`], for what [`core_for_a_moment`] is for.
pub fn look_for_a_moment(most: Duration, found: impl FnMut() -> bool) -> bool {
    look_while(most, core_for_a_moment, found)
}

fn look_while(most: Duration, may: fn() -> bool, mut found: impl FnMut() -> bool) -> bool {
    if found() {
        return true;
    }
    if most.is_zero() || !may() {
        return false;
    }
    let start = Instant::now();
    loop {
        for _ in 0..16 {
            std::hint::spin_loop();
        }
        if found() {
            return true;
        }
        // Nothing for whoever has a core to himself, and a way in for others.
        std::thread::yield_now();
        if start.elapsed() >= most || !may() {
            return false;
        }
    }
}

/// What the receiving thread of a session goes by.
pub(crate) struct Watch {
    epoch: Instant,
    /// Nanoseconds after `epoch` at which something last happened.
    active: AtomicU64,
    /// Threads that wait for something to be received.
    waiting: AtomicU32,
    /// The receiving thread sleeps.
    asleep: AtomicBool,
    alarm: Alarm,
    /// Wakes those who work on what is received.
    on_wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Watch {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            epoch: Instant::now(),
            active: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            asleep: AtomicBool::new(false),
            alarm: Alarm::new()?,
            on_wake: OnceLock::new(),
        })
    }

    pub(crate) fn on_wake(&self, f: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_wake.set(Box::new(f));
    }

    pub(crate) fn alarm(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }

    /// The time, as the session is told it.
    pub(crate) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Somebody begins to wait, or has what it waited for; or a long frame has gone by, behind
    /// which the next one is likely to be.
    pub(crate) fn hurry(&self) {
        let (cores, now) = (Cores::get(), Instant::now());
        cores.hurried.store(cores.ms(now), Ordering::Relaxed);
        self.touched(now);
    }

    /// Something happened.
    pub(crate) fn touch(&self) {
        self.touched(Instant::now());
    }

    fn touched(&self, now: Instant) {
        let since = now.duration_since(self.epoch).as_nanos() as u64;
        self.active.store(since, Ordering::Relaxed);
    }

    /// Wakes the receiving thread if it sleeps. False where threads do not stay awake anyway.
    fn ring(&self) -> bool {
        if patience().after.is_zero() {
            return false;
        }
        // Pairs with the fence in `sleep`.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            self.alarm.ring();
        }
        true
    }

    /// Something is about to be received: the receiving thread had better be awake.
    pub(crate) fn rouse(&self) {
        self.touch();
        self.wake();
    }

    /// Wakes the receiving thread, and those who work on what it receives: others may sleep while
    /// it does not, and need not wait for it to wake.
    fn wake(&self) {
        if self.ring() {
            self.rouse_others();
        }
    }

    /// Wakes those who work on what is received.
    pub(crate) fn rouse_others(&self) {
        if let Some(f) = self.on_wake.get() {
            f();
        }
    }

    pub(crate) fn begin(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.hurry();
        self.wake();
    }

    /// As `begin`, by one of those who work on what is received: none of them need be woken.
    pub(crate) fn begin_awake(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.hurry();
        self.ring();
    }

    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How long after the last activity to look for more.
    pub(crate) fn patience(&self) -> Duration {
        let p = patience();
        if self.waiting.load(Ordering::Relaxed) > 0 {
            p.waiting
        } else {
            p.after
        }
    }

    pub(crate) fn end(&self) {
        // A client that breaks the protocol may be told something that it has not asked for.
        let one_less = |n: u32| n.checked_sub(1);
        let _ = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        self.hurry();
    }

    /// Whether the receiving thread should look for more.
    pub(crate) fn alert(&self) -> bool {
        let active = Duration::from_nanos(self.active.load(Ordering::Relaxed));
        self.epoch.elapsed().saturating_sub(active) < self.patience() && spare_core()
    }

    /// The receiving thread goes to sleep, by `block`, unless it has become alert.
    pub(crate) fn sleep(
        &self,
        block: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<bool>,
    ) -> std::io::Result<bool> {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let done = if self.alert() {
            Ok(true)
        } else {
            block(self.alarm())
        };
        self.asleep.store(false, Ordering::Relaxed);
        self.alarm.silence();
        self.touch();
        self.rouse_others();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_ends_when_something_is_found_or_patience_does() {
        let mut n = 0;
        let most = Duration::from_secs(60);
        // With no core to spare it does not look again; with one it does until it finds.
        let found = look(most, || {
            n += 1;
            n == 3
        });
        assert!(found || n < 3);
        assert!(!look(Duration::from_millis(1), || false));
        assert!(look(Duration::ZERO, || true));
    }

    #[test]
    fn half_of_many_cores_are_left_alone_but_in_a_hurry() {
        let rows = [(4, 4, 4), (8, 8, 8), (12, 8, 12), (16, 8, 16), (64, 32, 64)];
        for (cores, at_ease, hurry) in rows {
            assert_eq!((taken(cores, false), taken(cores, true)), (at_ease, hurry));
        }
    }

    #[test]
    fn in_a_crowd_nobody_looks_for_long_and_all_sleep_longer_the_longer_they_wait() {
        // Whatever else is tested here, it has no patience of seconds.
        let sessions = std::sync::Arc::new(AtomicU32::new(0));
        let told = sessions.clone();
        know_sessions(move || told.load(Ordering::Relaxed));
        let alone = patience();
        assert!(!is_crowded());
        sessions.store(crowd(Cores::get().all) + 1, Ordering::Relaxed);
        assert!(is_crowded());
        let crowded = patience();
        sessions.store(0, Ordering::Relaxed);
        assert!(crowded.waiting <= alone.waiting && crowded.after <= alone.after);
        assert!(crowded.waiting <= Duration::from_micros(200));
        assert_eq!([1, 8, 16].map(crowd), [4, 4, 8]);
        let naps = [10, 1_600, 16_000, 1_000_000].map(|us| nap(Duration::from_micros(us)));
        assert_eq!(naps.map(|d| d.as_micros()), [50, 100, 1_000, 2_000]);
    }

    #[test]
    fn a_rung_alarm_ends_the_sleep() {
        let w = Watch::new().unwrap();
        w.alarm.ring();
        let slept = w.sleep(|alarm| busbar_transport::wait_readable(&[alarm], None));
        assert!(slept.is_ok());
    }
}
