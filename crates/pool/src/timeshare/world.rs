//! Workers on a virtual clock, for tests. Every test prints its seed.

use super::*;

pub(super) const MS: i64 = 1_000_000;

/// Random numbers of a seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, n: i64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n.max(1) as u64) as i64
    }
}

/// What a program does: it has a kernel ready so long after the one before, of random length.
#[derive(Clone, Copy)]
pub(super) struct Program {
    pub(super) shortest: i64,
    pub(super) longest: i64,
    /// From one kernel's end to the next one's call; 0 for a program that is always ahead.
    pub(super) pause: i64,
    /// From one call to the next, for a program that would be ahead.
    pub(super) call: i64,
}

pub(super) const SATURATING: Program = Program {
    shortest: 10_000,
    longest: 3 * MS,
    pause: 0,
    call: 0,
};

/// It leaves the device idle for three quarters of the time.
pub(super) const LAUNCH_BOUND: Program = Program {
    shortest: STEP,
    longest: STEP + 1,
    pause: 0,
    call: 4 * STEP,
};

/// A millisecond of work, twenty times a second.
pub(super) const SELDOM: Program = Program {
    shortest: MS,
    longest: MS + 1,
    pause: 49 * MS,
    call: 0,
};

/// A worker with its program, as the page shows it.
pub(super) struct Worker {
    pub(super) id: u64,
    pub(super) program: Program,
    pub(super) turn: Use,
    pub(super) stop: bool,
    pub(super) free: bool,
    pub(super) ended: bool,
    /// When the next kernel is there to be submitted.
    pub(super) ready: i64,
    /// What is left of kernels that are under way.
    pub(super) queue: Vec<i64>,
    pub(super) busy: i64,
    pub(super) behind: i64,
    /// How long something has been under way.
    pub(super) full: i64,
    /// Since when it waits, and the longest wait.
    pub(super) waits: Option<i64>,
    pub(super) longest: i64,
    pub(super) called: i64,
    /// Of a program that pauses: the longest time from a call to the end of its kernel.
    pub(super) slowest: i64,
    pub(super) done: u32,
    /// Device time that it had, in ms of the clock.
    pub(super) had: Vec<i64>,
}

/// Kernels that are under way at most.
pub(super) const DEPTH: usize = 2;
/// What a worker takes to hear a word.
pub(super) const STEP: i64 = 100_000;
/// After so long the driver lets another context have the device, if that has work.
pub(super) const SLICE: i64 = 2 * MS;
/// What it takes to see that work is done.
pub(super) const LAG: i64 = 2 * STEP;

pub(super) struct World {
    pub(super) share: Timeshare,
    pub(super) workers: Vec<Worker>,
    pub(super) now: i64,
    /// When to look, if no bell rings.
    pub(super) look: i64,
    /// Whose work the device runs, and how much longer while others have some.
    pub(super) slice: (u64, i64),
    /// What each showed when it last had reason to ring: that it wants a turn, that it has none,
    /// and that nothing is under way.
    pub(super) shown: BTreeMap<u64, [bool; 3]>,
    pub(super) dice: Dice,
    pub(super) words: usize,
}

pub(super) fn at(ns: i64) -> Duration {
    Duration::from_nanos(ns as u64)
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        eprintln!("seed {seed}");
        Self {
            share: Timeshare::new(Some(Duration::from_secs(30)), true),
            workers: Vec::new(),
            now: 0,
            look: 0,
            slice: (0, 0),
            shown: BTreeMap::new(),
            dice: Dice(seed),
            words: 0,
        }
    }

    pub(super) fn join(&mut self, id: u64, share: Option<Share>, priority: i32, program: Program) {
        self.share.join(id, Part { share, priority });
        self.workers.push(Worker {
            id,
            program,
            turn: Use::None,
            stop: false,
            free: true,
            ended: false,
            ready: self.now,
            queue: Vec::new(),
            busy: 0,
            behind: 0,
            full: 0,
            waits: None,
            longest: 0,
            called: 0,
            slowest: 0,
            done: 0,
            had: vec![0; (self.now / MS) as usize],
        });
    }

    pub(super) fn leave(&mut self, id: u64) {
        self.share.leave(id);
        self.workers.retain(|w| w.id != id);
    }

    pub(super) fn of(&mut self, id: u64) -> &mut Worker {
        let found = self.workers.iter_mut().find(|w| w.id == id);
        found.expect("a worker")
    }

    /// A program that was seldom there always is.
    pub(super) fn turns_saturating(&mut self, id: u64) {
        let now = self.now;
        let w = self.of(id);
        (w.program, w.ready) = (SATURATING, now);
    }

    /// One step of the clock.
    pub(super) fn step(&mut self) {
        let now = at(self.now);
        let wants = |w: &Worker| w.ready <= ns(now) && w.turn == Use::None && !w.free && !w.ended;
        let shows = |w: &Worker| (w.id, [wants(w), w.turn == Use::None, w.queue.is_empty()]);
        let shown: BTreeMap<_, _> = self.workers.iter().map(shows).collect();
        let rings = |(id, is): (&u64, &[bool; 3])| {
            let was = self.shown.get(id);
            was.is_none_or(|was| is[0] && !was[0] || is[1] && (!was[1] || is[2] && !was[2]))
        };
        let rung = shown.iter().any(rings) || shown.len() != self.shown.len();
        self.shown = shown;
        let words = if rung || self.now >= self.look {
            let workers = &self.workers;
            let (words, again) = self.share.look(now, |id| {
                let w = workers.iter().find(|w| w.id == id).expect("a worker");
                Seen {
                    turn: w.turn,
                    present: true,
                    wants: wants(w),
                    under_way: !w.queue.is_empty(),
                    busy: at(w.busy),
                    behind: at(w.behind),
                    done: w.done,
                }
            });
            self.look = again.map_or(i64::MAX, |d| self.now + ns(d));
            words
        } else {
            Vec::new()
        };
        for (id, word) in words {
            self.words += 1;
            let w = self.of(id);
            if w.free || word == Word::Free {
                w.turn = Use::None;
            }
            w.free = word == Word::Free;
            match word {
                Word::Go => (w.turn, w.stop) = (Use::Idle(now), false),
                Word::Stop => w.stop = true,
                Word::End => w.ended = true,
                Word::Wait => w.turn = Use::None,
                Word::Free | Word::Soon => {}
            }
        }
        let runs = self.runs();
        for w in &mut self.workers {
            let may = w.free || w.turn != Use::None && !w.stop;
            let depth = DEPTH.max((MS / w.program.longest) as usize);
            while may && w.ready <= self.now && w.queue.len() < depth {
                let p = w.program;
                w.queue
                    .push(p.shortest + self.dice.below(p.longest - p.shortest));
                w.ready = if p.pause > 0 {
                    i64::MAX
                } else {
                    self.now + p.call
                };
                w.called = w.waits.unwrap_or(self.now);
                if let Some(from) = w.waits.take() {
                    w.longest = w.longest.max(self.now - from);
                }
            }
            if !may && w.ready <= self.now && w.waits.is_none() {
                w.waits = Some(self.now);
            }
            w.full = if w.queue.is_empty() { 0 } else { w.full + STEP };
            w.behind += if w.full > LAG { STEP } else { 0 };
            let mut left = if runs == Some(w.id) { STEP } else { 0 };
            let before = left;
            while left > 0
                && let Some(k) = w.queue.first_mut()
            {
                let part = left.min(*k);
                (*k, left) = (*k - part, left - part);
                if *k == 0 {
                    w.queue.remove(0);
                    w.done += 1;
                    if w.program.pause > 0 {
                        w.ready = self.now + w.program.pause;
                        w.slowest = w.slowest.max(self.now + STEP - w.called);
                    }
                }
            }
            w.had.resize((self.now / MS) as usize + 1, 0);
            *w.had.last_mut().expect("a place") += before - left;
            w.busy += before - left;
            if w.turn != Use::None {
                w.turn = match (w.queue.is_empty(), w.stop, w.turn) {
                    (true, true, _) => Use::None,
                    (true, false, Use::Busy) => Use::Idle(at(self.now)),
                    (true, false, other) => other,
                    (false, ..) => Use::Busy,
                };
            }
            if w.ended {
                w.queue.clear();
                w.turn = Use::None;
            }
        }
        self.now += STEP;
    }

    /// Whose work runs in this step. The driver gives the contexts that have work slices in turn,
    /// and takes a part of each to change from one to the next: two have 0.95 of what one has.
    pub(super) fn runs(&mut self) -> Option<u64> {
        let (of, left) = self.slice;
        let ready: Vec<u64> = self
            .workers
            .iter()
            .filter(|w| !w.queue.is_empty())
            .map(|w| w.id)
            .collect();
        if ready.contains(&of) && (left > 0 || ready.len() == 1) {
            self.slice.1 = left.max(STEP) - STEP;
            return Some(of);
        }
        let next = ready.iter().find(|k| **k > of).or(ready.first()).copied()?;
        self.slice = (next, SLICE - STEP);
        // It finds the device idle.
        (!ready.contains(&of)).then_some(next)
    }

    pub(super) fn run(&mut self, ms: i64) {
        let until = self.now + ms * MS;
        while self.now < until {
            self.step();
        }
    }

    /// What part of all device time each had from `from` on for `ms`, in points.
    pub(super) fn points(&self, from: i64, ms: i64) -> Vec<f64> {
        let had = self.of_all(from, ms);
        let all = had.iter().sum::<f64>().max(f64::EPSILON);
        had.iter().map(|h| 100.0 * h / all).collect()
    }

    /// What part of the time each had the device from `from` on for `ms`.
    pub(super) fn of_all(&self, from: i64, ms: i64) -> Vec<f64> {
        let of = |w: &Worker| {
            let had = w.had.iter().skip(from as usize).take(ms as usize);
            had.sum::<i64>() as f64 / (ms * MS) as f64
        };
        self.workers.iter().map(of).collect()
    }

    /// Checks what each had in every window.
    pub(super) fn kept(&self, (from, to): (i64, i64), window: i64, wanted: &[f64], points: f64) {
        for start in (from..=to - window).step_by(7) {
            for (had, wanted) in self.points(start, window).iter().zip(wanted) {
                assert!(
                    (had - wanted).abs() <= points,
                    "{had:.2} points of {wanted} in the {window} ms from {start} on"
                );
            }
        }
    }

    /// What part of the time somebody had it.
    pub(super) fn sum(&self, from: i64, ms: i64) -> f64 {
        self.of_all(from, ms).iter().sum()
    }
}
