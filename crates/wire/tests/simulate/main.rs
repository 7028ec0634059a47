//! Client, link and worker of `wire::session` on a virtual clock, over random schedules.
//!
//! A seed decides everything: sizes, delays, where connections break (in the middle of a frame as
//! well), what each end notices of it and when, hellos that overtake each other or come twice,
//! links that swallow bytes or repeat frames, side connections, a worker whose queue is full.
//! [`world`] says which properties hold at each step. A failure prints its schedule and its seed:
//!     BUSBAR_SEED=N cargo test -p busbar-wire --test simulate
//! `BUSBAR_SEEDS=N` runs as many; `./test simulate` a million.

#[path = "../../../../testing/harness/src/rng.rs"]
#[allow(dead_code)]
mod rng;
mod sums;
mod world;

use rng::Rng;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use sums::Sums;
use world::World;

/// A run of one seed: what happened in it, or which property failed.
fn run(seed: u64, tell: bool) -> Result<Sums, String> {
    let outcome = std::panic::catch_unwind(|| World::new(Rng::new(seed), tell).run());
    outcome.unwrap_or_else(|_| Err("the machine panicked".into()))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn report(seed: u64) {
    let Err(why) = run(seed, true) else { return };
    panic!(
        "{why}\nBUSBAR_SEED={seed} cargo test -p busbar-wire --test simulate prints this schedule"
    );
}

#[test]
fn no_schedule_loses_or_repeats_a_call() {
    if let Some(seed) = number("BUSBAR_SEED") {
        return report(seed);
    }
    let count = number("BUSBAR_SEEDS").unwrap_or(5_000);
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let sums = Mutex::new(Sums::default());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut mine = Sums::default();
        while failed.load(Ordering::Relaxed) == u64::MAX {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                break;
            }
            match run(seed, false) {
                Ok(s) => mine.add(&s),
                Err(_) => _ = failed.fetch_min(seed, Ordering::Relaxed),
            }
        }
        sums.lock().unwrap().add(&mine);
    };
    std::thread::scope(|scope| (0..cores).for_each(|_| _ = scope.spawn(work)));
    match failed.into_inner() {
        u64::MAX => {}
        seed => report(seed),
    }
    let sums = sums.into_inner().unwrap();
    println!("{count} schedules: {sums:?}");
    if count >= 1000 {
        sums.check();
    }
}

/// A peer that says anything at all: it may end the session, and nothing else comes of it.
#[test]
fn a_wrong_peer_is_found_out() {
    use busbar_wire::frame::{Header, Kind};
    use busbar_wire::session::{self, Arriving, Bounds, Stop};
    let mut refused = [0u32; 3];
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let (mut tx, mut rx) = session::new::<u64>(Bounds::default(), Default::default());
        let (mut pushed, mut given, mut got, mut freed, mut epoch) = (0, 0, 0, 0, 0);
        for _ in 0..60 {
            let near = |rng: &mut Rng, n: u64| (n + rng.below(4)).saturating_sub(rng.below(3));
            match rng.below(8) {
                0 => {
                    pushed += 1;
                    tx.push(pushed, 300 << 10, true);
                }
                1 => {
                    while let Some(t) = tx.poll() {
                        assert!(t.header.ack <= got);
                        given = given.max(t.frame.map_or(0, |f| *f));
                    }
                }
                2 => {
                    let (e, last) = (near(&mut rng, epoch), near(&mut rng, freed));
                    match tx.attach(e, last, |id, _, _| freed = freed.max(id)) {
                        Ok(()) => {
                            assert!(e > epoch && last <= pushed);
                            (epoch, given) = (e, last.max(given));
                            rx.attach(e);
                        }
                        Err(Stop::Stale) => assert!(e <= epoch),
                        Err(Stop::Broken(_)) => {
                            refused[0] += 1;
                            break;
                        }
                    }
                }
                _ => {
                    let flags = if rng.one_in(4) {
                        1 + rng.below(4) as u8
                    } else {
                        0
                    };
                    let ack = near(&mut rng, freed);
                    let h = Header {
                        len: [0, 10, 1 << 20][rng.below(3) as usize],
                        kind: [Kind::Data, Kind::Ping, Kind::Ack][rng.below(3) as usize],
                        flags,
                        behind: 0,
                        seq: near(&mut rng, got),
                        ack,
                    };
                    let Ok(h) = Header::parse(&h.to_bytes()) else {
                        continue;
                    };
                    let arriving = match rx.header(epoch, &h) {
                        Ok(a) => a,
                        Err(stop) => {
                            assert_ne!(stop, Stop::Stale);
                            refused[1] += 1;
                            break;
                        }
                    };
                    if let Arriving::NamesSide(n) = arriving {
                        let _ = tx.side_named(epoch, n);
                    }
                    if let Arriving::Data { aside, .. } = arriving
                        && aside.sides > 0
                    {
                        // There is no side connection.
                        let expected = tx.sides_expected(epoch, aside.sides);
                        assert!(matches!(expected, Err(Stop::Broken(_))));
                        break;
                    }
                    if rx.complete(epoch, &h).unwrap() {
                        got += 1;
                        assert_eq!(h.seq, got);
                    }
                    rx.done(&h);
                    match tx.acknowledged(epoch, h.ack, |id, _, _| freed = freed.max(id)) {
                        Ok(()) => assert!(h.ack <= given),
                        Err(stop) => {
                            assert!(stop != Stop::Stale && h.ack > freed);
                            refused[2] += 1;
                            break;
                        }
                    }
                }
            }
            assert!(freed <= given && given <= pushed);
            assert_eq!(tx.bytes() as u64, (pushed - freed) * (300 << 10));
        }
    }
    assert!(refused.iter().all(|n| *n > 100), "{refused:?}");
}
