//! Programs that have nothing in common but the device, on a virtual clock: workers with marks and
//! a bound on what is under way, and a server that looks no more often than the real one. What
//! each had is what the device did, not what was counted. Every test prints its seed.

use super::*;
use std::collections::VecDeque;

const US: i64 = 1_000;
const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
/// What the clock goes on by.
const TICK: i64 = 10 * US;
/// From a word or a bell to whoever sleeps until then.
const WAKE: i64 = 150 * US;
/// The same for whoever has stayed awake.
const AWAKE: i64 = 10 * US;
/// From the end of work to the worker's seeing it.
const LAG: i64 = 30 * US;
/// What one submission takes.
const SUBMIT: i64 = 5 * US;
/// As in the worker: device time from one mark to the next, how many are under way, and how little
/// may be left of a turn that is handed over.
const MARK: i64 = 250 * US;
const MARKS: usize = 3;
const TAIL: i64 = 150 * US;
/// A mark that takes longer than this finds the device behind.
const BEHIND: i64 = 200 * US;
/// The driver's slices among contexts that have work, and what a change costs.
const SLICE: i64 = 2 * MS;
const CHANGE: i64 = 100 * US;

/// What a program does: steps of kernels, whose lengths are cut from here; then the host waits for
/// them and goes on after a pause, or is always ahead.
#[derive(Clone, Copy, Debug)]
struct Program {
    kernels: i64,
    shortest: i64,
    longest: i64,
    pause: Option<i64>,
}

const GEMM: Program = Program {
    kernels: 5,
    shortest: 200 * US,
    longest: 210 * US,
    pause: None,
};
const LONG_GEMM: Program = Program {
    kernels: 1,
    shortest: MS,
    longest: 2 * MS,
    pause: None,
};
const RESNET: Program = Program {
    kernels: 200,
    shortest: 10 * US,
    longest: 300 * US,
    pause: Some(150 * US),
};
const DECODE: Program = Program {
    kernels: 1,
    shortest: 2 * MS,
    longest: 2 * MS + 1,
    pause: Some(200 * US),
};

struct Mark {
    pieces: usize,
    /// How many pieces were submitted before it, of all time.
    upto: u64,
    since: i64,
    /// When its last piece was done.
    over: Option<i64>,
}

struct Worker {
    program: Program,
    dice: super::tests::Dice,
    /// Kernels of the step that are to be submitted yet, and when the next one may be.
    left: i64,
    ready: i64,
    /// The last word as the worker knows it, and what the board shows.
    word: Word,
    hears: i64,
    turn: Use,
    /// Pieces on the device, and marks behind them.
    queue: VecDeque<i64>,
    submitted: u64,
    completed: u64,
    under_way: usize,
    unmarked: usize,
    every: usize,
    marks: VecDeque<Mark>,
    marked: i64,
    busy: (i64, i64),
    behind: i64,
    done: u32,
    /// Device time that it had, by step of the record.
    had: Vec<i64>,
}

impl Worker {
    fn new(id: u64, program: Program, seed: u64) -> Self {
        Self {
            program,
            dice: super::tests::Dice(seed ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            left: program.kernels,
            ready: 0,
            word: Word::Free,
            hears: 0,
            turn: Use::None,
            queue: VecDeque::new(),
            submitted: 0,
            completed: 0,
            under_way: 0,
            unmarked: 0,
            every: 1,
            marks: VecDeque::new(),
            marked: 0,
            busy: (0, 0),
            behind: 0,
            done: 0,
            had: Vec::new(),
        }
    }

    /// It has something to submit.
    fn has_work(&self, now: i64) -> bool {
        self.left > 0 && self.ready <= now
    }

    fn may(&self, now: i64) -> bool {
        self.word == Word::Free || self.word == Word::Go && self.hears <= now
    }

    fn wants(&self, now: i64) -> bool {
        self.has_work(now) && self.turn == Use::None && self.word != Word::Free
    }

    fn behind_from(&self) -> Option<i64> {
        Some((self.marks.front()?.since + BEHIND).max(self.marked))
    }

    fn mark(&mut self, now: i64) {
        if self.unmarked > 0 {
            let pieces = std::mem::take(&mut self.unmarked);
            self.marks.push_back(Mark {
                pieces,
                upto: self.submitted,
                since: now,
                over: (self.completed >= self.submitted).then_some(now),
            });
        }
    }

    /// Submits what it may in a tick.
    fn submit(&mut self, now: i64) {
        let mut time = TICK;
        while self.may(now) && self.has_work(now) && time > 0 {
            if self.word != Word::Free && self.under_way >= MARKS * self.every {
                return;
            }
            let p = self.program;
            self.queue
                .push_back(p.shortest + self.dice.below(p.longest - p.shortest));
            self.submitted += 1;
            self.under_way += 1;
            self.unmarked += 1;
            self.left -= 1;
            time -= SUBMIT;
            if matches!(self.turn, Use::Idle(_)) {
                (self.turn, self.busy.1) = (Use::Busy, now);
            }
            if self.left == 0 && p.pause.is_none() {
                self.left = p.kernels;
            }
            if self.unmarked >= self.every {
                self.mark(now);
            }
        }
        if !self.has_work(now) || !self.may(now) {
            self.mark(now);
        }
    }

    /// Marks whose work has been done for long enough are seen. Whether the bell rings.
    fn see(&mut self, now: i64) -> bool {
        let mut rings = false;
        while let Some(m) = self
            .marks
            .pop_front_if(|m| m.over.is_some_and(|t| t + LAG <= now))
        {
            let from = (m.since + BEHIND).max(self.marked);
            self.behind += (now - from).max(0);
            let long = (now - m.since.max(self.marked)).max(1);
            self.marked = now;
            let fit = (m.pieces as i64 * MARK / long).clamp(1, 4096) as usize;
            self.every = (self.every + fit).div_ceil(2);
            self.under_way -= m.pieces;
            self.done += 1;
            let left = long * self.under_way as i64 / m.pieces as i64;
            let stop = self.word == Word::Stop;
            if self.under_way == 0 || stop && left <= TAIL {
                rings |= self.rest(now);
            }
            if let Some(pause) = self.program.pause
                && self.left == 0
                && self.under_way == 0
            {
                (self.left, self.ready) = (self.program.kernels, now + pause);
            }
        }
        rings
    }

    fn rest(&mut self, now: i64) -> bool {
        match (self.turn, self.word) {
            (Use::Busy, Word::Stop) => self.turn = Use::None,
            (Use::Busy, _) => self.turn = Use::Idle(at(now)),
            _ => return self.turn == Use::None,
        }
        self.busy.0 += now - self.busy.1;
        self.turn == Use::None
    }

    fn shows(&self, now: i64) -> Seen {
        let busy = match self.turn {
            Use::Busy => now - self.busy.1,
            _ => 0,
        };
        let behind = self.behind_from().map_or(0, |from| (now - from).max(0));
        Seen {
            turn: self.turn,
            present: true,
            wants: self.wants(now),
            under_way: self.under_way > 0,
            busy: at(self.busy.0 + busy),
            behind: at(self.behind + behind),
            done: self.done,
        }
    }

    fn hear(&mut self, now: i64, word: Word) {
        match word {
            Word::Go => {
                let awake = self.word == Word::Soon;
                self.hears = now + if awake { AWAKE } else { WAKE };
                self.turn = Use::Idle(at(now));
            }
            Word::Stop if matches!(self.turn, Use::Idle(_)) => self.turn = Use::None,
            Word::Stop => {}
            _ => self.turn = Use::None,
        }
        self.word = word;
    }
}

fn at(ns: i64) -> Duration {
    Duration::from_nanos(ns as u64)
}

struct World {
    share: Timeshare,
    workers: Vec<Worker>,
    asked: Vec<f64>,
    now: i64,
    look: i64,
    wanted: Vec<bool>,
    /// Whose context the device has, for how much longer, and what of a change is left.
    context: (usize, i64, i64),
}

/// What each had is recorded by this.
const RECORD: i64 = 10 * MS;

impl World {
    fn new(seed: u64, parts: &[(Share, Program)]) -> Self {
        eprintln!("seed {seed}: {parts:?}");
        let mut share = Timeshare::new(None, true);
        let mut workers = Vec::new();
        for (id, (of, program)) in (0..).zip(parts) {
            let part = Part {
                share: Some(*of),
                priority: 0,
            };
            share.join(id, part);
            workers.push(Worker::new(id, *program, seed));
        }
        Self {
            share,
            wanted: vec![false; workers.len()],
            workers,
            asked: parts.iter().map(|p| f64::from(p.0) / 10.0).collect(),
            now: 0,
            look: 0,
            context: (0, 0, 0),
        }
    }

    fn look(&mut self) {
        let (now, workers) = (self.now, &self.workers);
        let (words, again) = self
            .share
            .look(at(now), |id| workers[id as usize].shows(now));
        self.look = again.map_or(i64::MAX, |d| now + ns(d));
        let mut changed = false;
        for (id, word) in words {
            let w = &mut self.workers[id as usize];
            w.hear(now, word);
            changed |= word == Word::Stop && w.turn == Use::None;
        }
        if changed {
            self.look = now;
        }
    }

    fn tick(&mut self) {
        let now = self.now;
        if now >= self.look {
            self.look();
        }
        let mut rings = false;
        for (w, wanted) in self.workers.iter_mut().zip(&mut self.wanted) {
            rings |= w.see(now);
            w.submit(now);
            let wants = w.wants(now);
            rings |= wants && !std::mem::replace(wanted, wants);
            *wanted = wants;
        }
        if rings {
            self.look = self.look.min(now + WAKE);
        }
        self.run_device();
        self.now += TICK;
    }

    /// The device in one tick; whoever holds an idle device has it, too.
    fn run_device(&mut self) {
        let (now, record) = (self.now, (self.now / RECORD) as usize);
        let n = self.workers.len();
        let (mut of, mut slice, mut change) = self.context;
        let ready = |i: usize| !self.workers[i].queue.is_empty();
        if !ready(of) || slice <= 0 {
            let next = (1..=n).map(|i| (of + i) % n).find(|i| ready(*i));
            if let Some(next) = next {
                let moved = next != of;
                (of, slice) = (next, SLICE);
                change = if moved { CHANGE } else { change };
            }
        }
        let holders = self.workers.iter().filter(|w| w.turn != Use::None).count() as i64;
        let runs = ready(of).then_some(of);
        for (i, w) in self.workers.iter_mut().enumerate() {
            w.had.resize(record + 1, 0);
            let idle = runs.is_none() && w.turn != Use::None;
            w.had[record] += match runs {
                Some(of) if of == i => TICK,
                _ if idle => TICK / holders,
                _ => 0,
            };
        }
        if let Some(of) = runs {
            slice -= TICK;
            let w = &mut self.workers[of];
            let mut time = TICK - change.min(TICK);
            change -= change.min(TICK);
            while time > 0
                && let Some(k) = w.queue.front_mut()
            {
                let part = time.min(*k);
                (*k, time) = (*k - part, time - part);
                if *k == 0 {
                    w.queue.pop_front();
                    w.completed += 1;
                    let completed = w.completed;
                    let over = w.marks.iter_mut().filter(|m| m.over.is_none());
                    over.filter(|m| m.upto <= completed)
                        .for_each(|m| m.over = Some(now + TICK));
                }
            }
        }
        self.context = (of, slice, change);
    }

    fn run(&mut self, until: i64) {
        while self.now < until {
            self.tick();
        }
    }

    /// How far the worst share of a window is from what was asked, in points, and which part of the
    /// device's time all had.
    fn off(&self, (from, to): (i64, i64), window: i64) -> (f64, f64) {
        let (from, to, long) = (from / RECORD, to / RECORD, window / RECORD);
        let (mut worst, mut least) = (0f64, 1f64);
        for start in from..=to - long {
            let of = |w: &Worker| {
                let all = w.had.iter().skip(start as usize).take(long as usize);
                all.sum::<i64>() as f64
            };
            let had: Vec<f64> = self.workers.iter().map(of).collect();
            let all: f64 = had.iter().sum();
            for (had, asked) in had.iter().zip(&self.asked) {
                worst = worst.max((100.0 * had / all - asked).abs());
            }
            least = least.min(all / window as f64);
        }
        (worst, least)
    }
}

/// Shares hold in each second and better in thirty.
fn holds(seed: u64, parts: &[(Share, Program)]) {
    let mut w = World::new(seed, parts);
    w.run(31 * SECOND);
    let span = (SECOND / 2, 31 * SECOND - SECOND / 2);
    let (second, least) = w.off(span, SECOND);
    let (whole, all) = w.off(span, 30 * SECOND);
    eprintln!("off {second:.2} in a second, {whole:.2} in thirty; {all:.4} and {least:.4} used");
    assert!(second <= 2.0 && whole <= 0.5, "{second} {whole}");
}

#[test]
fn unlike_programs_have_their_time() {
    holds(1, &[(750, GEMM), (250, RESNET)]);
    holds(2, &[(700, GEMM), (200, RESNET), (100, DECODE)]);
    holds(3, &[(500, RESNET), (500, DECODE)]);
    holds(4, &[(250, GEMM); 4]);
    holds(5, &[(750, LONG_GEMM), (250, DECODE)]);
    holds(6, &[(700, LONG_GEMM), (200, DECODE), (100, RESNET)]);
}

#[test]
fn whatever_mixture_has_its_time() {
    for seed in 1012..1020 {
        let mut dice = super::tests::Dice(seed);
        let n = 2 + dice.below(3);
        let mut left = i64::from(WHOLE);
        let mut parts = Vec::new();
        for i in 0..n {
            // What is left for the others is enough for as many tenths.
            let most = left - 100 * (n - 1 - i);
            let share = if i == n - 1 {
                left
            } else {
                100 + dice.below(most - 99)
            };
            left -= share;
            let shortest = 10 * US + dice.below(MS);
            let program = Program {
                kernels: 1 + dice.below(200),
                shortest,
                longest: shortest + 1 + dice.below(MS),
                pause: [None, Some(100 * US), Some(300 * US)][dice.below(3) as usize],
            };
            parts.push((share as Share, program));
        }
        holds(seed, &parts);
    }
}
