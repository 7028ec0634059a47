//! Where threads put their records down: each in a lane of its own.
//!
//! One queue for all would be one lock for all. Eight threads that launch at once would hand its
//! cache line from core to core for each record, which takes a microsecond and a half; a launch
//! costs a twentieth of that. So a thread appends to memory that nobody else touches, and whoever
//! sends merges what has gathered.
//!
//! # Order
//! The peer must see the records of all threads in an order that a program can rely on: if one
//! thread's call returned before another thread's began, its record comes first. So each record is
//! given the time ([`now`]), read while its lane is locked. [`Lanes::collect`] reads the time as
//! well, *before* it locks the lanes one after the other, and takes only records older than that:
//!
//! - Every older record is found: its thread held the lane's lock when it read its time, so the
//!   record is there by the time that the collector gets that lock.
//! - Sorted by time they are in order, and all come after what was collected earlier.
//!
//! Newer records stay for the next time: a record in a lane looked at late might otherwise pass one
//! that it depends on, in a lane looked at early.

use super::prelude::*;
use crate::switches::Switch;
use std::cell::RefCell;

/// A thread that has this many bytes in its lane waits until they are collected.
pub(crate) const FULL: usize = 256 << 10;
/// Batches of up to this size become part of a frame without being copied.
const WHOLE: usize = 64 << 10;

/// A record in a lane: when it was put there, and where it ends.
#[derive(Clone, Copy)]
struct Mark {
    time: u64,
    end: usize,
}

/// Records of one thread, not collected yet.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
}

impl Batch {
    fn clear(&mut self) {
        self.bytes.clear();
        self.marks.clear();
    }
}

/// One thread's records. On cache lines of its own, and nobody else's but the collector's.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Lane {
    batch: Mutex<Batch>,
    /// Records ever put here that wait for their turn at the peer. Written under the lock.
    records: AtomicU64,
}

impl Lane {
    /// Appends a record, which `write` appends to the bytes, and which is `counted` or not. Returns
    /// how many bytes are here.
    #[inline]
    fn put(&self, counted: bool, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let mut batch = soon(&self.batch);
        let time = now();
        let batch = &mut *batch;
        write(&mut batch.bytes);
        let end = batch.bytes.len();
        batch.marks.push(Mark { time, end });
        let n = self.records.load(Ordering::Relaxed);
        self.records
            .store(n + u64::from(counted), Ordering::Relaxed);
        end
    }

    /// Moves what is older than `time` to `out`, which is empty. Returns whether anything is left.
    fn take(&self, time: u64, out: &mut Batch) -> bool {
        let mut batch = soon(&self.batch);
        let old = batch.marks.partition_point(|m| older(m.time, time));
        if old == 0 {
            return !batch.marks.is_empty();
        }
        std::mem::swap(&mut *batch, out);
        if old == out.marks.len() {
            return false;
        }
        let from = out.marks[old - 1].end;
        batch.bytes.extend_from_slice(&out.bytes[from..]);
        let rest = out.marks.drain(old..);
        batch.marks.extend(rest.map(|m| Mark {
            end: m.end - from,
            ..m
        }));
        out.bytes.truncate(from);
        true
    }

    fn len(&self) -> usize {
        soon(&self.batch).bytes.len()
    }
}

/// Whether `a` is before `b`. A time far ahead of the present was read before the machine slept and
/// its clock began anew: it must not wait for the clock to get there once more.
fn older(a: u64, b: u64) -> bool {
    const FAR: u64 = 1 << 40;
    a < b || a - b > FAR
}

/// Takes a lock that is never held for long: going to sleep for it would cost far more.
#[inline]
pub fn soon<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    let mut pause = 1;
    for _ in 0..64 {
        if let Ok(g) = m.try_lock() {
            return g;
        }
        for _ in 0..pause {
            std::hint::spin_loop();
        }
        pause = (pause * 2).min(32);
    }
    lock(m)
}

thread_local! {
    /// The calling thread's lanes, by channel; the one used last comes first.
    static MINE: RefCell<Vec<(u64, Arc<Lane>)>> = const { RefCell::new(Vec::new()) };
}

/// The lanes of a channel.
pub(crate) struct Lanes {
    /// Tells channels apart in a thread's list.
    id: u64,
    /// For threads that have none: they are ending, or lanes are switched off.
    common: Arc<Lane>,
    list: Mutex<List>,
}

/// Aligned, so that threads can read what lies beside it while a collector locks it.
#[derive(Default)]
#[repr(align(128))]
struct List {
    lanes: Vec<Arc<Lane>>,
    /// Records of lanes whose threads have ended.
    departed: u64,
    /// One for each lane, with whatever memory they have.
    batches: Vec<Batch>,
}

impl Lanes {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let common = Arc::new(Lane::default());
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            list: Mutex::new(List {
                lanes: vec![common.clone()],
                ..List::default()
            }),
            common,
        }
    }

    /// Puts a record, which `write` appends, into the calling thread's lane; [`Lanes::records`]
    /// counts it or not. Returns how many bytes are in it now.
    #[inline]
    pub(crate) fn put(&self, counted: bool, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let mut write = Some(write);
        if Switch::Lanes.on()
            && let Ok(Some(n)) = MINE.try_with(|mine| {
                let mut mine = mine.borrow_mut();
                if mine.first().is_none_or(|(id, _)| *id != self.id) {
                    self.bring_forward(&mut mine);
                }
                Some(mine.first()?.1.put(counted, write.take()?))
            })
        {
            return n;
        }
        write.map_or(0, |w| self.common.put(counted, w))
    }

    /// Makes the thread's lane of this channel the first of its list.
    #[cold]
    fn bring_forward(&self, mine: &mut Vec<(u64, Arc<Lane>)>) {
        if let Some(i) = mine.iter().position(|(id, _)| *id == self.id) {
            mine.swap(0, i);
            return;
        }
        // Nobody else has them: their channels are gone.
        mine.retain(|(_, lane)| Arc::strong_count(lane) > 1);
        let lane = Arc::new(Lane::default());
        lock(&self.list).lanes.push(lane.clone());
        mine.insert(0, (self.id, lane));
    }

    /// Hands over everything put down before the call, in order: `whole` takes a buffer of records
    /// and leaves an empty one, or refuses it by returning false; `one` takes a single record.
    /// Returns whether newer records are waiting.
    ///
    /// Calls must not overlap: the caller holds the lock under which what it is given is queued.
    pub(crate) fn collect(
        &self,
        mut whole: impl FnMut(&mut Vec<u8>) -> bool,
        mut one: impl FnMut(&[u8]),
    ) -> bool {
        let mut list = lock(&self.list);
        let list = &mut *list;
        let time = now_before_what_follows();
        let mut left = false;
        list.batches.resize_with(list.lanes.len(), Batch::default);
        for (lane, batch) in list.lanes.iter().zip(&mut list.batches) {
            left |= lane.take(time, batch);
        }
        let mut filled = list.batches.iter_mut().filter(|b| !b.marks.is_empty());
        if let Some(first) = filled.next() {
            let mut all = vec![first];
            all.extend(filled);
            if let [only] = all.as_mut_slice()
                && only.bytes.len() <= WHOLE
                && whole(&mut only.bytes)
            {
                only.clear();
            } else {
                merge(&mut all, &mut one);
            }
        }
        list.forget_the_departed();
        left
    }

    /// How many counted records have been put down so far, by all threads.
    pub(crate) fn records(&self) -> u64 {
        let list = lock(&self.list);
        let each = list.lanes.iter().map(|l| l.records.load(Ordering::Relaxed));
        each.sum::<u64>() + list.departed
    }

    /// How many bytes wait to be collected.
    pub(crate) fn len(&self) -> usize {
        lock(&self.list).lanes.iter().map(|l| l.len()).sum()
    }
}

impl List {
    /// Drops the lanes whose threads have ended, once they are empty.
    fn forget_the_departed(&mut self) {
        let departed = &mut self.departed;
        self.lanes.retain(|lane| {
            let held = Arc::strong_count(lane) > 1;
            // What the thread put down before it let go is seen from here on.
            fence(Ordering::Acquire);
            let stays = held || lane.len() > 0;
            if !stays {
                *departed += lane.records.load(Ordering::Relaxed);
            }
            stays
        });
        self.batches.truncate(self.lanes.len());
    }
}

/// Gives the records of several batches, each in order, to `one` in the order of all. Empties them.
fn merge(batches: &mut [&mut Batch], one: &mut impl FnMut(&[u8])) {
    // For each batch the next record, and where it begins.
    let mut at = vec![(0, 0); batches.len()];
    loop {
        let head = |i: usize| batches[i].marks.get(at[i].0).map(|m| m.time);
        // The oldest record, and the time of the oldest of any other batch: up to there its batch
        // goes on undisturbed.
        let mut first: Option<(u64, usize)> = None;
        let mut second = u64::MAX;
        for i in 0..batches.len() {
            let Some(time) = head(i) else { continue };
            match first {
                Some((least, _)) if time >= least => second = second.min(time),
                _ => {
                    second = first.map_or(second, |(least, _)| second.min(least));
                    first = Some((time, i));
                }
            }
        }
        let Some((_, i)) = first else { break };
        let (next, begin) = &mut at[i];
        while let Some(m) = batches[i].marks.get(*next)
            && m.time <= second
        {
            one(&batches[i].bytes[*begin..m.end]);
            *begin = m.end;
            *next += 1;
        }
    }
    for b in batches {
        b.clear();
    }
}

/// The time, as [`Lane::put`] needs it: never the same or earlier for a thread that has learnt of
/// another's reading. Not before anything that precedes it in the program.
#[inline]
fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if tsc::trusted() {
        return tsc::read();
    }
    ticket()
}

/// As [`now`], and not after anything that follows it in the program either.
fn now_before_what_follows() -> u64 {
    let time = now();
    #[cfg(target_arch = "x86_64")]
    tsc::hold_back_what_follows();
    time
}

/// Where there is no clock that all cores share, a counter is the time.
fn ticket() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

/// The processor's time stamp counter.
#[cfg(target_arch = "x86_64")]
mod tsc {
    use std::arch::x86_64::{__rdtscp, _mm_lfence};
    use std::sync::OnceLock;

    /// Whether it shows the same on every core. The kernel has checked that if it keeps its own
    /// time by it, and goes on checking.
    #[inline]
    pub(super) fn trusted() -> bool {
        static TRUSTED: OnceLock<bool> = OnceLock::new();
        *TRUSTED.get_or_init(|| {
            let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
            let source = std::fs::read_to_string(path).unwrap_or_default();
            source.trim() == "tsc" && has_rdtscp()
        })
    }

    fn has_rdtscp() -> bool {
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let flags = flags.lines().find(|l| l.starts_with("flags"));
        flags.is_some_and(|f| f.split(' ').any(|f| f == "rdtscp"))
    }

    /// Reads it once everything before has been executed and every load before is done.
    #[inline]
    pub(super) fn read() -> u64 {
        let mut core = 0;
        // SAFETY: the processor has the instruction, or it would not be trusted.
        unsafe { __rdtscp(&raw mut core) }
    }

    /// Nothing after this is executed before it.
    #[inline]
    pub(super) fn hold_back_what_follows() {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { _mm_lfence() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn number(record: &[u8]) -> u64 {
        u64::from_le_bytes(record[..8].try_into().unwrap())
    }

    /// Collects everything, as single numbers.
    fn numbers(lanes: &Lanes) -> Vec<u64> {
        let out = RefCell::new(Vec::new());
        lanes.collect(
            |bytes| {
                out.borrow_mut().extend(bytes.chunks(8).map(number));
                bytes.clear();
                true
            },
            |record| out.borrow_mut().push(number(record)),
        );
        out.into_inner()
    }

    #[test]
    fn what_one_thread_puts_down_comes_out_as_it_went_in() {
        let lanes = Lanes::new();
        for i in 0..1000u64 {
            lanes.put(true, |b| b.extend_from_slice(&i.to_le_bytes()));
        }
        assert_eq!(lanes.records(), 1000);
        assert_eq!(lanes.len(), 8000);
        assert_eq!(numbers(&lanes), (0..1000).collect::<Vec<_>>());
        assert_eq!(lanes.len(), 0);
        assert!(numbers(&lanes).is_empty());
        lanes.put(false, |b| b.extend_from_slice(&7u64.to_le_bytes()));
        assert_eq!((numbers(&lanes), lanes.records()), (vec![7], 1000));
    }

    /// Each thread draws a number and puts it down under one lock: numbers must come out ascending,
    /// however threads and collector meet.
    #[test]
    fn a_record_never_passes_one_that_it_depends_on() {
        let lanes = Arc::new(Lanes::new());
        let turn = Arc::new(Mutex::new(0u64));
        let done = Arc::new(AtomicBool::new(false));
        let each = 20_000;
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let (lanes, turn) = (lanes.clone(), turn.clone());
                std::thread::spawn(move || {
                    for _ in 0..each {
                        let mut next = soon(&turn);
                        lanes.put(true, |b| b.extend_from_slice(&next.to_le_bytes()));
                        *next += 1;
                    }
                })
            })
            .collect();
        let collector = {
            let (lanes, done) = (lanes.clone(), done.clone());
            std::thread::spawn(move || {
                let mut all = Vec::new();
                loop {
                    let last = done.load(Ordering::Acquire);
                    all.extend(numbers(&lanes));
                    if last {
                        return all;
                    }
                }
            })
        };
        for w in workers {
            w.join().unwrap();
        }
        done.store(true, Ordering::Release);
        let all = collector.join().unwrap();
        assert_eq!(all.len(), 4 * each);
        let wrong = all.iter().zip(0..).position(|(a, b)| *a != b);
        assert_eq!(wrong, None, "out of order");
        assert_eq!(lanes.records(), 4 * each as u64);
    }

    #[test]
    fn lanes_end_with_their_threads_and_lose_nothing() {
        let lanes = Arc::new(Lanes::new());
        for i in 0..10u64 {
            let lanes = lanes.clone();
            let put = move || lanes.put(true, |b| b.extend_from_slice(&i.to_le_bytes()));
            std::thread::spawn(put).join().unwrap();
        }
        assert_eq!(numbers(&lanes), (0..10).collect::<Vec<_>>());
        numbers(&lanes);
        assert_eq!(lock(&lanes.list).lanes.len(), 1, "the common one stays");
        assert_eq!(lanes.records(), 10);
    }

    #[test]
    fn batches_are_merged_by_time() {
        let batch = |times: &[u64]| {
            let mut b = Batch::default();
            for t in times {
                b.bytes.extend_from_slice(&t.to_le_bytes());
                let end = b.bytes.len();
                b.marks.push(Mark { time: *t, end });
            }
            b
        };
        let (mut a, mut b, mut c) = (batch(&[1, 4, 5, 9]), batch(&[2, 3, 10]), batch(&[6]));
        let mut out = Vec::new();
        merge(&mut [&mut a, &mut b, &mut c], &mut |r: &[u8]| {
            out.push(number(r))
        });
        assert_eq!(out, [1, 2, 3, 4, 5, 6, 9, 10]);
        assert!(a.bytes.is_empty() && b.marks.is_empty());
    }

    #[test]
    fn a_record_from_before_the_clock_began_anew_does_not_wait() {
        assert!(older(1, 2) && !older(2, 2) && !older(3, 2));
        assert!(older(u64::MAX, 2));
    }
}
