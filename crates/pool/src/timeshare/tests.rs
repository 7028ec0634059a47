//! Programs on the virtual clock: what each has, and how long it waits.

use super::world::*;
use super::*;

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
fn whoever_comes_back_has_its_share_from_twenty_milliseconds_on() {
    let mut w = World::new(34);
    let gemm = Program {
        shortest: MS,
        longest: MS + 1,
        pause: 0,
        call: 0,
    };
    let asleep = Program {
        pause: i64::MAX / 2,
        ..gemm
    };
    w.join(1, Some(750), 0, gemm);
    w.join(2, Some(250), 0, asleep);
    w.run(4000);
    let from = w.now / MS;
    let now = w.now;
    (w.of(2).program, w.of(2).ready) = (gemm, now);
    w.run(600);
    let had = |ms| w.of_all(from, ms)[1] / 0.25;
    let least = (20..500).map(had).fold(1.0, f64::min);
    assert!(least > 0.93, "{least} of its share");
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
fn whoever_has_the_next_turn_knows_it_while_one_is_handed_over_and_nobody_else() {
    let mut share = Timeshare::new(None, true);
    (1..=3).for_each(|id| share.join(id, Part::default()));
    let (mut turn, mut under_way) = (BTreeMap::<u64, Use>::new(), None);
    let mut announced = 0;
    for i in 0..2000 {
        let now = at(i * STEP);
        let (words, _) = share.look(now, |id| Seen {
            turn: turn.get(&id).copied().unwrap_or_default(),
            present: true,
            wants: !turn.contains_key(&id),
            under_way: turn.contains_key(&id),
            // It keeps the device busy.
            behind: now,
            ..Seen::default()
        });
        let soon = || (1..=3).filter(|id| share.said(*id) == Some(Word::Soon));
        // It takes a while to hand over.
        let handing = turn.keys().any(|id| share.said(*id) == Some(Word::Stop));
        assert_eq!(soon().count(), usize::from(handing), "at {now:?}");
        assert_eq!(share.hands_over().is_some(), handing);
        for (id, word) in words {
            match word {
                Word::Go => {
                    assert!(
                        under_way.take().is_none_or(|told| told == id),
                        "another was told"
                    );
                    turn.insert(id, Use::Busy);
                }
                Word::Soon => {
                    announced += 1;
                    under_way = Some(id);
                }
                _ => {}
            }
        }
        if i % 7 == 0 {
            turn.retain(|id, _| share.said(*id) != Some(Word::Stop));
        }
    }
    assert!(announced > 5, "{announced}");
}

#[test]
fn whoever_has_just_handed_its_turn_over_is_not_one_that_begins() {
    let mut share = Timeshare::new(None, true);
    (1..=2).for_each(|id| share.join(id, Part::default()));
    let has = |turn, wants, under_way| Seen {
        present: true,
        turn,
        wants,
        under_way,
        ..Seen::default()
    };
    let none = has(Use::None, false, false);
    let waits = has(Use::None, true, false);
    let busy = has(Use::Busy, false, true);
    let tail = has(Use::None, false, true);
    let mut look = |ms: i64, seen: [Seen; 2]| share.look(at(ms * MS), |k| seen[k as usize - 1]).0;
    look(0, [waits, none]);
    // What begins waits for no gap.
    assert_eq!(look(1, [busy, waits]), [(1, Word::Stop), (2, Word::Soon)]);
    // It hands over with its last piece under way, and wants to go on a moment later.
    let over = [(1, Word::Wait), (2, Word::Go)];
    assert_eq!(look(2, [tail, waits]), over);
    look(3, [waits, busy]);
    assert_eq!(look(8, [waits, busy]), []);
    assert_eq!(look(20, [waits, busy]), [(1, Word::Soon), (2, Word::Stop)]);
}

#[test]
fn those_who_leave_the_device_idle_have_it_together() {
    let mut w = World::new(20);
    (0..4).for_each(|id| w.join(id, Some(250), 0, LAUNCH_BOUND));
    w.run(10_000);
    // Alone each has a quarter.
    let all = w.sum(1000, 9000);
    assert!(all > 4.0 * 0.25 * 0.9, "{all} of the device was used");
    w.kept((1000, 10_000), 1000, &[25.0; 4], 2.0);
    // They keep to their part beside one that always has work, and so does that.
    w.join(4, None, 0, SATURATING);
    (0..4).for_each(|id| {
        w.share.set(
            id,
            Part {
                share: Some(75),
                priority: 0,
            },
        )
    });
    w.run(500);
    let from = w.now / MS;
    w.run(10_000);
    let own = w.points(from, 10_000)[4] * w.sum(from, 10_000);
    assert!((own - 70.0).abs() < 2.5, "{own} points of 70");
}

#[test]
fn whoever_no_longer_leaves_the_device_idle_takes_turns() {
    let mut w = World::new(21);
    w.join(0, Some(100), 0, LAUNCH_BOUND);
    (1..4).for_each(|id| w.join(id, Some(300), 0, LAUNCH_BOUND));
    w.run(3000);
    w.turns_saturating(0);
    w.run(3000);
    assert!(w.share.members[&0].sparse.is_none());
    let from = w.now / MS;
    w.run(5000);
    let had = w.points(from, 5000)[0] * w.sum(from, 5000);
    assert!(had < 12.0, "{had} points of 10");
}

#[test]
fn who_leaves_the_device_idle_in_a_part_of_each_step_has_its_turns_alone() {
    let mut w = World::new(24);
    (0..2).for_each(|id| w.join(id, Some(500), 0, SATURATING));
    let mut together = 0;
    for _ in 0..10_000 {
        for worker in &mut w.workers {
            // 24 ms of a training step, and 2 ms of its optimizer.
            let long = worker.had.iter().sum::<i64>() / MS % 26 < 24;
            worker.program = if long { SATURATING } else { LAUNCH_BOUND };
            worker.ready = worker.ready.min(w.now + worker.program.call);
        }
        w.run(1);
        together += usize::from(w.share.holders(0) == 2);
    }
    assert!(together < 200, "{together} ms of 10 s");
}

#[test]
fn whoever_has_rested_and_had_less_than_its_part_does_not_wait_for_its_turn() {
    let gemm = Program {
        shortest: 2 * STEP,
        longest: 2 * STEP + 1,
        ..SATURATING
    };
    for others in [vec![900], vec![450, 450], vec![300, 300, 300]] {
        let mut w = World::new(22);
        w.join(0, Some(100), 0, SELDOM);
        for (id, share) in (1..).zip(&others) {
            w.join(id, Some(*share), 0, gemm);
        }
        w.run(2000);
        w.of(0).slowest = 0;
        w.run(20_000);
        // Its own millisecond, what others had under way, and a change or two.
        let slowest = w.of(0).slowest;
        assert!(slowest <= 2 * MS, "{slowest} ns beside {others:?}");
        let all = w.sum(2000, 20_000);
        assert!(all > 0.93, "{all} of the device was used");
    }
}

#[test]
fn whoever_only_hears_that_its_work_is_done_loses_nothing_that_it_is_owed() {
    let mut w = World::new(23);
    let waits = Program {
        shortest: 26 * STEP,
        longest: 26 * STEP + 1,
        pause: STEP,
        call: 0,
    };
    w.join(0, Some(700), 0, SATURATING);
    w.join(1, Some(200), 0, waits);
    w.join(2, Some(100), 0, SATURATING);
    w.run(31_000);
    w.kept((1000, 31_000), 1000, &[70.0, 20.0, 10.0], 2.1);
    w.kept((1000, 31_000), 30_000, &[70.0, 20.0, 10.0], 0.5);
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
    let holder = w.share.alone().expect("somebody has the turn");
    w.leave(holder);
    w.run(1);
    assert!(w.share.alone().is_some_and(|h| h != holder));
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
                    call: 0,
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
            let sparse = |id: &u64| w.share.members[id].sparse.is_some();
            let turns: Vec<_> = turns.map(|w| w.id).collect();
            let together = turns.len() <= 1 || turns.iter().all(sparse);
            assert!(together, "two have the turn that could have it one by one");
            let wanted = w.workers.iter().any(|w| w.program.pause == 0);
            let all = w.sum(from + 20, 50);
            // Of those who have one short kernel at a time each keeps it for a look or two.
            assert!(!wanted || all > 0.4, "{all} of the device was used");
            let sum: i64 = w.share.members.values().map(|m| m.balance.abs()).sum();
            assert!(sum <= MOST * w.workers.len() as i64);
        }
    }
}
