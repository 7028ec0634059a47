//! Workers on a virtual clock. Every test prints its seed.

use super::*;

const MS: i64 = 1_000_000;

/// Random numbers of a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n.max(1) as u64) as i64
    }
}

/// What a program does: it has a kernel ready so long after the one before, of random length.
#[derive(Clone, Copy)]
struct Program {
    shortest: i64,
    longest: i64,
    /// From one kernel's end to the next one's call; 0 for a program that is always ahead.
    pause: i64,
    /// What a call takes of a program that is ahead, or would like to be.
    call: i64,
}

const SATURATING: Program = Program {
    shortest: 10_000,
    longest: 3 * MS,
    pause: 0,
    call: 0,
};

/// A program that leaves the device idle for three quarters of the time.
const LAUNCH_BOUND: Program = Program {
    shortest: STEP,
    longest: STEP + 1,
    call: 4 * STEP,
    ..SATURATING
};

/// A millisecond's work, twenty times a second.
const SELDOM: Program = Program {
    shortest: MS,
    longest: MS + 1,
    pause: 49 * MS,
    call: 0,
};

/// A worker with its program, as the page shows it.
struct Worker {
    id: u64,
    program: Program,
    turn: Use,
    stop: bool,
    free: bool,
    ended: bool,
    /// When the next kernel is there to be submitted.
    ready: i64,
    dry: bool,
    /// What is left of kernels that are under way.
    queue: Vec<i64>,
    busy: i64,
    /// Since when it waits, and the longest wait.
    waits: Option<i64>,
    longest: i64,
    done: u32,
    /// Device time that it had, in ms of the clock.
    had: Vec<i64>,
}

impl Worker {
    /// What part of the time it had from `from` on for `ms`.
    fn part(&self, from: i64, ms: i64) -> f64 {
        let had = self.had.iter().skip(from as usize).take(ms as usize);
        had.sum::<i64>() as f64 / (ms * MS) as f64
    }
}

/// Kernels that a program is ahead of the device at most, if it is not always ahead.
const AHEAD: i64 = 100;
/// Kernels that are under way at most.
const DEPTH: usize = 2;
/// What a worker takes to hear a word.
const STEP: i64 = 100_000;

struct World {
    share: Timeshare,
    workers: Vec<Worker>,
    now: i64,
    /// When to look, if no bell rings.
    look: i64,
    /// What each showed when it last had reason to ring: that it wants a turn, that it has none,
    /// that nothing is under way, and that it has run dry.
    shown: BTreeMap<u64, [bool; 4]>,
    dice: Dice,
    words: usize,
}

fn at(ns: i64) -> Duration {
    Duration::from_nanos(ns as u64)
}

impl World {
    fn new(seed: u64) -> Self {
        eprintln!("seed {seed}");
        Self {
            share: Timeshare::new(Some(Duration::from_secs(30)), true),
            workers: Vec::new(),
            now: 0,
            look: 0,
            shown: BTreeMap::new(),
            dice: Dice(seed),
            words: 0,
        }
    }

    fn join(&mut self, id: u64, share: Option<Share>, priority: i32, program: Program) {
        self.share.join(id, Part { share, priority });
        self.workers.push(Worker {
            id,
            program,
            turn: Use::None,
            stop: false,
            free: true,
            ended: false,
            ready: self.now,
            dry: false,
            queue: Vec::new(),
            busy: 0,
            waits: None,
            longest: 0,
            done: 0,
            had: vec![0; (self.now / MS) as usize],
        });
    }

    fn leave(&mut self, id: u64) {
        self.share.leave(id);
        self.workers.retain(|w| w.id != id);
    }

    fn of(&mut self, id: u64) -> &mut Worker {
        let found = self.workers.iter_mut().find(|w| w.id == id);
        found.expect("a worker")
    }

    /// A program that was seldom there always is.
    fn turns_saturating(&mut self, id: u64) {
        let now = self.now;
        let w = self.of(id);
        (w.program, w.ready) = (SATURATING, now);
    }

    /// One step of the clock.
    fn step(&mut self) {
        let now = at(self.now);
        let wants = |w: &Worker| w.ready <= ns(now) && w.turn == Use::None && !w.free && !w.ended;
        let shows = |w: &Worker| {
            let none = w.turn == Use::None;
            (w.id, [wants(w), none, w.queue.is_empty(), w.dry])
        };
        let shown: BTreeMap<_, _> = self.workers.iter().map(shows).collect();
        let rings = |(id, is): (&u64, &[bool; 4])| {
            let was = self.shown.get(id);
            was.is_none_or(|was| {
                let began = |i: usize| is[i] && !was[i];
                began(0) || began(3) || is[1] && (!was[1] || began(2))
            })
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
                    done: w.done,
                    dry: w.dry,
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
                Word::Go => (w.turn, w.stop, w.dry) = (Use::Idle(now), false, false),
                Word::Stop => w.stop = true,
                Word::End => w.ended = true,
                Word::Wait => w.turn = Use::None,
                Word::Free => {}
            }
        }
        // The device divides itself among those whose work is under way.
        let running = self.workers.iter().filter(|w| !w.queue.is_empty()).count();
        for w in &mut self.workers {
            let may = w.free || w.turn != Use::None && !w.stop;
            while may && w.ready <= self.now && w.queue.len() < DEPTH {
                let p = w.program;
                w.queue
                    .push(p.shortest + self.dice.below(p.longest - p.shortest));
                w.ready = match (p.pause, p.call) {
                    (0, 0) => self.now,
                    // It was made while others had the turn: so many are collected at most.
                    (0, call) => (w.ready + call).max(self.now - AHEAD * call),
                    _ => i64::MAX,
                };
                if let Some(from) = w.waits.take() {
                    w.longest = w.longest.max(self.now - from);
                }
            }
            let collected = w.ready <= self.now;
            w.dry = w.turn != Use::None && !collected && (w.dry || w.queue.is_empty());
            if !may && w.ready <= self.now && w.waits.is_none() {
                w.waits = Some(self.now);
            }
            let mut left = STEP / running.max(1) as i64;
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
                    }
                }
            }
            w.had.resize((self.now / MS) as usize + 1, 0);
            *w.had.last_mut().expect("a place") += before - left;
            w.busy += before - left;
            if w.turn != Use::None {
                w.turn = match (w.queue.is_empty(), w.stop, w.turn) {
                    (true, true, _) => Use::None,
                    (true, false, _) if left < before => Use::Idle(at(self.now)),
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

    fn run(&mut self, ms: i64) {
        let until = self.now + ms * MS;
        while self.now < until {
            self.step();
        }
    }

    /// What part of all device time each had from `from` on for `ms`, in points.
    fn points(&self, from: i64, ms: i64) -> Vec<f64> {
        let of = |w: &Worker| {
            w.had
                .iter()
                .skip(from as usize)
                .take(ms as usize)
                .sum::<i64>()
        };
        let had: Vec<_> = self.workers.iter().map(of).collect();
        let all = had.iter().sum::<i64>().max(1);
        had.iter().map(|h| 100.0 * *h as f64 / all as f64).collect()
    }

    /// Checks what each had in every window.
    fn kept(&self, (from, to): (i64, i64), window: i64, wanted: &[f64], points: f64) {
        for start in (from..=to - window).step_by(7) {
            for (had, wanted) in self.points(start, window).iter().zip(wanted) {
                assert!(
                    (had - wanted).abs() <= points,
                    "{had:.2} points of {wanted} in the {window} ms from {start} on"
                );
            }
        }
    }

    fn sum(&self, from: i64, ms: i64) -> f64 {
        self.workers.iter().map(|w| w.part(from, ms)).sum()
    }

    fn sum_of(&self, id: u64, from: i64, ms: i64) -> f64 {
        let w = self.workers.iter().find(|w| w.id == id);
        w.expect("a worker").part(from, ms)
    }
}

#[test]
fn a_session_alone_is_never_told_anything() {
    let mut w = World::new(1);
    w.join(1, Some(250), 0, SATURATING);
    w.run(2000);
    assert_eq!(w.words, 0);
    assert!(w.sum(0, 2000) > 0.99);
}

#[test]
fn nobody_takes_turns_unless_somebody_asks() {
    let mut w = World::new(14);
    w.share = Timeshare::new(None, false);
    w.join(1, None, 0, SATURATING);
    w.join(2, None, 0, SATURATING);
    w.run(1000);
    assert_eq!(w.words, 0);
    assert!(w.share.had(1).is_none(), "nobody counts");
    for part in [
        Part {
            share: Some(750),
            priority: 0,
        },
        Part {
            share: None,
            priority: 1,
        },
    ] {
        w.share.set(2, part);
        w.run(600);
        let from = w.now / MS;
        w.run(2000);
        assert!(w.points(from, 2000)[1] > 70.0);
        assert!(w.share.had(1).is_some() && !w.of(1).free);
        w.share.set(2, Part::default());
        w.run(1);
        assert!(w.workers.iter().all(|w| w.free));
        let words = w.words;
        w.run(1000);
        assert_eq!(w.words, words);
    }
}

#[test]
fn whatever_is_promised_and_whoever_goes_first_nobody_waits_for_ever() {
    for (seed, all, wanted) in [
        (
            15,
            vec![(Some(700), 0), (Some(300), 0), (None, 0)],
            vec![69.3, 29.7, 1.0],
        ),
        (
            16,
            vec![(Some(700), 5), (Some(300), 5), (None, 0)],
            vec![69.5, 29.5, 1.0],
        ),
        (17, vec![(None, 5), (None, 0)], vec![99.0, 1.0]),
        // What who goes first has beyond its promise is of what nobody is promised.
        (
            18,
            vec![(None, 5), (Some(300), 0), (None, 0), (None, -1)],
            vec![68.5, 29.5, 1.0, 1.0],
        ),
        (
            19,
            vec![(Some(200), 5), (Some(300), 0), (None, 0)],
            vec![69.5, 29.5, 1.0],
        ),
    ] {
        let mut w = World::new(seed);
        for (id, (share, priority)) in all.iter().enumerate() {
            w.join(id as u64, *share, *priority, SATURATING);
        }
        w.run(10_000);
        let had = w.points(1000, 9000);
        for (had, wanted) in had.iter().zip(wanted) {
            assert!((had - wanted).abs() < 2.0, "{had} points of {wanted}");
        }
        let last = w.workers.len() - 1;
        assert!(had[last] > 0.2, "{had:?}");
        let longest = w.of(last as u64).longest;
        assert!(longest < 1200 * MS, "{longest} ns");
    }
}

#[test]
fn weights_are_kept_in_every_second_and_better_in_thirty() {
    for (seed, shares) in [
        (2, vec![None, None]),
        (3, vec![Some(750), Some(250)]),
        (4, vec![Some(700), Some(200), Some(100)]),
        (5, vec![Some(250), None]),
        (6, vec![Some(100), None, None, None]),
    ] {
        let mut w = World::new(seed);
        for (id, share) in shares.iter().enumerate() {
            w.join(id as u64, *share, 0, SATURATING);
        }
        w.run(31_000);
        let promised: u32 = shares.iter().flatten().sum();
        let others = shares.iter().filter(|s| s.is_none()).count() as f64;
        let rest = f64::from(WHOLE - promised) / others.max(1.0);
        let wanted = shares.iter().map(|s| s.map_or(rest, f64::from) / 10.0);
        let wanted: Vec<_> = wanted.collect();
        w.kept((500, 31_000), 1000, &wanted, 2.0);
        w.kept((500, 31_000), 30_000, &wanted, 0.5);
        let all = w.sum(500, 30_000);
        assert!(all > 0.985, "{all} of the device was used");
        // What is shown is what was.
        for (id, wanted) in wanted.iter().enumerate() {
            let had = w.share.had(id as u64).expect("it is counted");
            assert!(
                (f64::from(had.second) / 10.0 - wanted).abs() < 4.0,
                "{had:?}"
            );
        }
    }
}

#[test]
fn sixteen_have_a_sixteenth_each() {
    let mut w = World::new(7);
    (0..16).for_each(|id| w.join(id, None, 0, SATURATING));
    w.run(20_500);
    w.kept((500, 20_500), 20_000, &[6.25; 16], 0.6);
}

#[test]
fn what_is_idle_is_lent_at_once_and_comes_back_within_a_turn() {
    let mut w = World::new(8);
    w.join(1, Some(250), 0, SATURATING);
    w.join(2, Some(750), 0, SELDOM);
    w.run(20_000);
    let had = w.points(1000, 19_000);
    assert!(had[1] < 2.6 && w.sum(1000, 19_000) > 0.96, "{had:?}");
    // The longest kernel of the other's, twice, for two are under way.
    let longest = w.of(2).longest;
    assert!(longest < 20 * MS, "{longest} ns");
    // It begins to want all that it may have, and has it from the next turn on.
    w.turns_saturating(2);
    let from = w.now / MS + 70;
    w.run(5000);
    w.kept((from, from + 4800), 1000, &[25.0, 75.0], 2.0);
}

#[test]
fn programs_that_leave_the_device_idle_fill_it_together() {
    let alone = {
        let mut w = World::new(20);
        w.join(1, None, 0, LAUNCH_BOUND);
        w.run(1000);
        w.sum(100, 900)
    };
    assert!((0.24..0.26).contains(&alone), "{alone}");
    let mut w = World::new(21);
    (0..4).for_each(|id| w.join(id, Some(250), 0, LAUNCH_BOUND));
    w.run(10_000);
    w.kept((500, 10_000), 1000, &[25.0; 4], 2.0);
    let all = w.sum(500, 9500) / alone;
    assert!(all > 3.8, "{all} times one alone");
}

#[test]
fn whoever_runs_dry_takes_nothing_from_who_does_not() {
    // It waits for each kernel, and is neither ahead nor idle for long.
    let steps = Program {
        shortest: MS,
        longest: MS + 1,
        pause: 2 * STEP,
        call: 0,
    };
    for (seed, light, share) in [
        (22, LAUNCH_BOUND, 250),
        (23, LAUNCH_BOUND, 900),
        (24, steps, 250),
        (25, steps, 750),
        (26, SELDOM, 500),
    ] {
        let mut w = World::new(seed);
        w.join(1, Some(WHOLE - share), 0, SATURATING);
        w.join(2, Some(share), 0, light);
        w.run(10_000);
        for from in (500..9000).step_by(7) {
            // Of all time, what turns cost included.
            let least = f64::from(WHOLE - share) / 10.0 - 3.0;
            let had = 100.0 * w.sum_of(1, from, 1000);
            assert!(had >= least, "{had} of {least} points from {from} ms on");
        }
    }
}

#[test]
fn who_seldom_wants_little_waits_for_the_kernels_under_way_alone() {
    let mut w = World::new(27);
    let short = Program {
        shortest: 2 * STEP,
        longest: 2 * STEP + 1,
        ..SATURATING
    };
    w.join(1, Some(900), 0, short);
    w.join(2, Some(100), 0, SELDOM);
    w.run(1000);
    w.of(2).longest = 0;
    w.run(20_000);
    let longest = w.of(2).longest;
    assert!(longest <= MS, "{longest} ns");
}

#[test]
fn what_one_had_while_it_was_alone_is_not_owed_to_whoever_comes_back() {
    let mut w = World::new(12);
    w.join(1, Some(750), 0, SATURATING);
    let asleep = Program {
        pause: i64::MAX / 2,
        ..SATURATING
    };
    w.join(2, Some(250), 0, asleep);
    w.run(4000);
    w.turns_saturating(2);
    let from = w.now / MS + 20;
    w.run(4000);
    w.kept((from, from + 3900), 1000, &[75.0, 25.0], 2.0);
}

#[test]
fn priority_goes_first_at_the_next_border_and_promises_hold_against_it() {
    let mut w = World::new(9);
    w.join(1, None, 0, SATURATING);
    w.join(2, None, 5, SELDOM);
    w.run(10_000);
    let longest = w.of(2).longest;
    assert!(longest <= 2 * 3 * MS + MS, "{longest} ns");
    // One that always wants something leaves the others what they were promised.
    w.turns_saturating(2);
    w.join(3, Some(300), 0, SATURATING);
    w.run(500);
    let from = w.now / MS;
    w.run(10_000);
    // Whoever waits for long has one point at most.
    w.kept((from, from + 10_000), 1000, &[0.0, 70.0, 30.0], 3.0);
}

#[test]
fn a_kernel_of_ten_seconds_holds_up_nobody_and_is_repaid() {
    let mut w = World::new(10);
    w.join(1, None, 0, SATURATING);
    w.join(2, None, 0, SATURATING);
    w.run(1000);
    w.of(1).queue.push(10_000 * MS);
    let from = w.now / MS;
    w.run(10_000);
    // It runs beside others' work, as the driver has it.
    let other = w.points(from, 10_000)[1];
    assert!((45.0..55.0).contains(&other), "{other}");
    let longest = w.of(2).longest;
    assert!(longest < 100 * MS, "{longest}");
    // One of 600 ms while nobody else wants anything is not the others' loss, one that keeps them
    // from running would be: what it had too much is bounded, and comes back.
    w.run(12_000);
    let end = w.now / MS;
    w.run(5000);
    w.kept((end, end + 5000), 1000, &[50.0, 50.0], 2.0);
}

#[test]
fn a_kernel_without_an_end_ends_its_session_alone() {
    let mut w = World::new(11);
    w.join(1, None, 0, SATURATING);
    w.join(2, None, 0, SATURATING);
    w.run(500);
    w.of(1).queue.insert(0, i64::MAX);
    w.run(29_000);
    assert!(!w.of(1).ended);
    w.run(2000);
    assert!(w.of(1).ended && !w.of(2).ended);
    // Alone, nobody minds.
    let mut w = World::new(12);
    w.join(1, None, 0, SATURATING);
    w.of(1).queue.push(100_000 * MS);
    w.run(60_000);
    assert!(!w.of(1).ended);
}

#[test]
fn the_turn_of_a_worker_that_is_killed_is_anothers_at_once() {
    let mut w = World::new(13);
    (1..4).for_each(|id| w.join(id, None, 0, SATURATING));
    w.run(1000);
    let holder = w.share.holder().expect("somebody has the turn");
    w.leave(holder);
    w.run(1);
    assert!(w.share.holder().is_some_and(|h| h != holder));
    w.run(1);
    let from = w.now / MS;
    w.run(3000);
    w.kept((from, from + 3000), 1000, &[50.0, 50.0], 2.0);
    // The last one has a free pass again.
    let one = w.workers[0].id;
    w.leave(one);
    w.run(1);
    assert!(w.workers[0].free);
}

#[test]
fn whatever_comes_and_goes_the_device_is_never_idle_while_somebody_wants_it() {
    for seed in 100..130 {
        let mut w = World::new(seed);
        let mut next = 0;
        for _ in 0..60 {
            let r = w.dice.below(10);
            if r < 5 && w.workers.len() < 6 {
                let share = [None, Some(100), Some(50)][w.dice.below(3) as usize];
                let pause = [0, 0, 5 * MS, 50 * MS][w.dice.below(4) as usize];
                let longest = [MS, 3 * MS, 30 * MS][w.dice.below(3) as usize];
                let program = Program {
                    shortest: STEP,
                    longest,
                    pause,
                    call: [0, 0, 300_000][w.dice.below(3) as usize],
                };
                w.join(next, share, w.dice.0 as i32 % 3, program);
                next += 1;
            } else if r < 7 && !w.workers.is_empty() {
                let i = w.dice.below(w.workers.len() as i64) as usize;
                let id = w.workers[i].id;
                w.leave(id);
            } else if let Some(m) = w.workers.first() {
                let part = Part {
                    share: Some(1 + (seed as u32 % 200)),
                    priority: 0,
                };
                let id = m.id;
                w.share.set(id, part);
                w.look = 0;
            }
            let from = w.now / MS;
            w.run(50 + 20);
            let turns = w.workers.iter().filter(|w| w.turn != Use::None && !w.stop);
            assert!(turns.count() <= 1, "two have the turn");
            let wanted = w.workers.iter().any(|w| w.program.pause == 0);
            let all = w.sum(from + 20, 50);
            // Of those who have one short kernel at a time each keeps it for a look or two.
            assert!(!wanted || all > 0.4, "{all} of the device was used");
            let sum: i64 = w.share.members.values().map(|m| m.balance.abs()).sum();
            assert!(sum <= MOST * w.workers.len() as i64);
        }
    }
}
