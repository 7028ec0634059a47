//! How long it takes to place a lease among many servers: to choose among all of their devices, and
//! to have the pools of those that were chosen reserve them.
//!
//!     cargo run --release -p busbar-placement [-- SERVERS LEASES]
//!
//! Then jobs that want every device of 1 to 64 servers, 8 to 512 ranks, as one lease.

#[path = "../../../crates/pool/tests/servers/mod.rs"]
#[allow(dead_code)]
mod servers;

use busbar_control::lease::Standing;
use busbar_pool::choose::{How, Spot, choose};
use busbar_pool::gather::{Gather, Goal, Outcome};
use busbar_pool::queue::Want;
use servers::{Rng, Wish, pool, say, stand, standing};
use std::time::{Duration, Instant};

const DEVICES: u32 = 8;
const MEMORY: u64 = 80 << 30;

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let servers = numbers.first().copied().unwrap_or(1000);
    let leases = numbers.get(1).copied().unwrap_or(10_000);
    let mut pools: Vec<_> = (0..servers).map(|_| pool(DEVICES, MEMORY)).collect();
    // What is promised of each device, as the servers' answers say it.
    let mut promised = vec![[0u64; DEVICES as usize]; servers];
    let mut rng = Rng(1);
    let (mut times, mut full) = (Vec::with_capacity(leases), 0);
    for n in 0..leases {
        let name = format!("{n:032x}");
        let devices = 1 + rng.below(4) as usize;
        let memory = (1 + rng.below(8)) << 32;
        let wish = Wish {
            goal: Goal {
                least: devices,
                most: devices,
                how: [How::Pack, How::Spread][n % 2],
            },
            want: Want::Part { memory, share: 0 },
            priority: 0,
        };
        let start = Instant::now();
        let done = place(&mut pools, &promised, &name, &wish, memory);
        times.push(start.elapsed());
        match done {
            None => full += 1,
            Some(got) => {
                for (server, devices) in got {
                    devices
                        .iter()
                        .for_each(|d| promised[server][*d as usize] += memory);
                }
            }
        }
    }
    times.sort();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    let ms = |t: Duration| t.as_secs_f64() * 1000.0;
    println!(
        "{leases} leases on {servers} servers of {DEVICES} devices, {full} of them found no room"
    );
    println!(
        "placement: median {:.3} ms, p99 {:.3} ms, longest {:.3} ms",
        ms(at(0.5)),
        ms(at(0.99)),
        ms(at(1.0))
    );
    jobs();
}

/// The most servers that a job is tried on.
const MOST: usize = 64;
/// How often each is placed.
const TIMES: u32 = 20;

/// Places jobs that want all that there is.
fn jobs() {
    for servers in (0..).map(|n| 1 << n).take_while(|n| *n <= MOST) {
        let ranks = servers * DEVICES as usize;
        let wish = Wish {
            goal: Goal {
                least: ranks,
                most: ranks,
                how: How::Pack,
            },
            want: Want::Whole,
            priority: 0,
        };
        let promised = vec![[0u64; DEVICES as usize]; servers];
        let mut longest = Duration::ZERO;
        for n in 0..TIMES {
            let mut pools: Vec<_> = (0..servers).map(|_| pool(DEVICES, MEMORY)).collect();
            let start = Instant::now();
            let got = place(&mut pools, &promised, &format!("{n:032x}"), &wish, 0);
            longest = longest.max(start.elapsed());
            let got = got.expect("all of them are free");
            assert_eq!(got.iter().map(|(_, own)| own.len()).sum::<usize>(), ranks);
        }
        println!(
            "a job of {ranks} ranks on {servers} servers: placed in {:.3} ms at most, without the \
             network; {} round trips behind each other",
            longest.as_secs_f64() * 1000.0,
            servers + 2
        );
    }
}

type Got = Vec<(usize, Vec<u32>)>;

/// Places one lease as `busbar run` does: by what all servers say they have.
fn place(
    pools: &mut [busbar_pool::Pool],
    promised: &[[u64; DEVICES as usize]],
    name: &str,
    wish: &Wish,
    memory: u64,
) -> Option<Got> {
    let (mut spots, mut all) = (Vec::new(), Vec::new());
    for (server, devices) in promised.iter().enumerate() {
        for (d, taken) in devices.iter().enumerate() {
            if MEMORY - taken >= memory {
                let taken = *taken;
                spots.push(Spot { server, taken });
                all.push((server, d as u32, taken));
            }
        }
    }
    let chosen = choose(&spots, wish.goal.least, wish.goal.how)?;
    let mut plan: Vec<(usize, Vec<(u32, u64)>)> = Vec::new();
    for i in chosen {
        let (server, d, taken) = all[i];
        match plan.last_mut() {
            Some((s, own)) if *s == server => own.push((d, taken)),
            _ => plan.push((server, vec![(d, taken)])),
        }
    }
    let mut gather = Gather::new(wish.goal, plan.iter().map(|(_, own)| own.clone()).collect());
    let mut answers = vec![0; plan.len()];
    for (i, (server, own)) in plan.iter().enumerate() {
        let devices: Vec<_> = own.iter().map(|(d, _)| *d).collect();
        assert!(stand(&mut pools[*server], name, wish, &devices, 0));
        let said: Option<Standing> = standing(&pools[*server], name, 0);
        gather.hear(i, said?);
    }
    while let Some((i, word)) = gather.next_word() {
        let pool = &mut pools[plan[i].0];
        say(pool, name, &word);
        answers[i] += 1;
        gather.hear(i, standing(pool, name, answers[i])?);
    }
    match gather.outcome() {
        Some(Outcome::All(got)) => Some(got.into_iter().map(|(i, own)| (plan[i].0, own)).collect()),
        other => panic!("what was chosen can be had: {other:?}"),
    }
}
