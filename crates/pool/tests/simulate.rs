//! Many clients that gather devices of several servers, over messages that take their time: nobody
//! waits for ever, nothing is had twice, nothing is left.

mod servers;

use busbar_pool::choose::How;
use busbar_pool::gather::Goal;
use busbar_pool::queue::Want;
use servers::{Rng, Wish, World, pool};
use std::time::Duration;

const DEVICES: u32 = 3;

fn wish(rng: &mut Rng, most: u64) -> Wish {
    let least = 1 + rng.below(most) as usize;
    Wish {
        goal: Goal {
            least,
            most: least + rng.below(2) as usize,
            how: [How::Pack, How::Spread][rng.below(2) as usize],
        },
        want: match rng.below(3) {
            0 => Want::Part {
                memory: 20 + rng.below(70),
                share: rng.below(800) as u32,
            },
            _ => Want::Whole,
        },
        priority: rng.below(2) as i32,
    }
}

/// What leases have of each device is never more than there is.
fn nothing_is_had_twice(w: &World) {
    for p in &w.pools {
        let leases = p.leases(&busbar_pool::Asker::default(), Duration::ZERO);
        for d in 0..DEVICES {
            let own: Vec<_> = leases.iter().filter(|l| l.devices.contains(&d)).collect();
            assert!(own.len() == 1 || own.iter().all(|l| !l.whole), "{own:?}");
            assert!(own.iter().map(|l| l.memory).sum::<u64>() <= 100, "{own:?}");
            assert!(own.iter().map(|l| l.share).sum::<u32>() <= 1000, "{own:?}");
        }
    }
}

#[test]
fn everybody_gets_all_of_it_in_the_end() {
    for seed in 0..40 {
        let servers = 1 + seed as usize % 5;
        let pools = (0..servers).map(|_| pool(DEVICES, 100)).collect();
        let mut w = World::new(pools, seed, 1 + seed % 30);
        for _ in 0..60 {
            let own: Vec<_> = match w.rng.below(2) {
                0 => (0..servers).collect(),
                _ => {
                    let first = w.rng.below(servers as u64) as usize;
                    (first..servers).collect()
                }
            };
            let most = own.len() as u64 * u64::from(DEVICES);
            let wish = wish(&mut w.rng, most);
            let time = w.rng.below(500);
            w.add(time, wish, own, DEVICES);
        }
        let mut steps = 0;
        while w.step() {
            steps += 1;
            assert!(steps < 2_000_000, "seed {seed}: it goes round in circles");
            if steps % 16 == 0 {
                nothing_is_had_twice(&w);
            }
        }
        let late: Vec<_> = w.clients.iter().filter(|c| c.done.is_none()).collect();
        assert!(late.is_empty(), "seed {seed}: {} wait for ever", late.len());
        for p in &w.pools {
            let all = p.leases(&busbar_pool::Asker::default(), Duration::ZERO);
            assert!(all.is_empty(), "seed {seed}: {all:?}");
        }
    }
}

#[test]
fn nobody_waits_for_ever_where_the_first_server_has_gone() {
    for seed in 0..40 {
        let pools = (0..4).map(|_| pool(DEVICES, 100)).collect();
        let mut w = World::new(pools, seed, 30);
        // All have seen it a moment ago.
        w.down.push(0);
        for _ in 0..30 {
            let mut wish = wish(&mut w.rng, 3 * u64::from(DEVICES));
            // All of them the same: nothing but the time says who goes first.
            wish.priority = 0;
            wish.goal.least = 3 * DEVICES as usize;
            wish.goal.most = wish.goal.least;
            let time = w.rng.below(20);
            w.add(time, wish, (0..4).collect(), DEVICES);
        }
        while w.step() {}
        let late = w.clients.iter().filter(|c| c.done.is_none()).count();
        assert_eq!(late, 0, "seed {seed}: so many wait for ever");
    }
}

#[test]
fn who_came_first_at_one_server_is_served_first() {
    // All want the same one device, of one server.
    let mut w = World::new(vec![pool(1, 100)], 5, 10);
    let wish = Wish {
        goal: Goal {
            least: 1,
            most: 1,
            how: How::Pack,
        },
        want: Want::Whole,
        priority: 0,
    };
    for n in 0..20 {
        w.add(n * 20, wish, vec![0], 1);
    }
    while w.step() {}
    let times: Vec<_> = w.clients.iter().filter_map(|c| c.done).collect();
    assert!(times.len() == 20 && times.is_sorted(), "{times:?}");
}
