//! How starting a job grows with its size, on simulated devices with a simulated NCCL: servers of
//! eight devices each, a rank on each device. Prints how long `busbar run` takes to reserve all of
//! them, how long the job takes from its start to its end (ranks meet, add up, part), and how often
//! a rank waited for its server meanwhile.
//!
//! ```text
//! cargo run --release -p busbar-e2e --example job_sizes -- [SERVERS ...]
//! ```
//! 1, 4, 16 and 64 if left out. All processes run on this machine: times grow with what its cores
//! have to do, round trips do not. `BUSBAR_TREE` names the tree to test, as for the tests.

use busbar_e2e::program::{clear, finished};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use serde_json::Value;
use std::process::{Command, Output};
use std::time::Instant;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/job.py");
/// Devices of each server.
const EACH: usize = 8;
/// Devices that one program has room for.
const MOST: usize = 64;
/// Reservations of which the median counts.
const TIMES: usize = 5;

fn main() {
    let wanted: Vec<usize> = std::env::args().skip(1).flat_map(|a| a.parse()).collect();
    let wanted = match wanted.is_empty() {
        true => vec![1, 4, 16, 64],
        false => wanted,
    };
    println!(
        "{:>7} {:>6} {:>14} {:>9} {:>13} {:>11}",
        "servers", "ranks", "reserved in ms", "job in s", "trips, median", "trips, most"
    );
    for servers in wanted {
        measure(servers);
    }
}

fn measure(count: usize) {
    let library = tree().fakedev.join("libnccl.so.2");
    let start = |n: usize| {
        Options::default()
            .arg("--nccl-library", library.to_str().expect("a path"))
            .env("FAKEDEV_DEVICES", &EACH.to_string())
            .env("NCCL_HOSTID", &format!("host-{n}"))
            .start()
    };
    let servers: Vec<Server> = (0..count).map(start).collect();
    let (at, ranks) = (address(&servers), count * EACH);
    // One machine has room for so many: more come from several, as far as servers can tell. The
    // first reserves for all.
    let nodes = ranks.div_ceil(MOST);
    let reserve = |_| {
        let began = Instant::now();
        let mut c = run(&at, ranks / nodes);
        if nodes > 1 {
            c.args(["--job", "sizes", "--node", &format!("0/{nodes}")]);
        }
        done(c.args(["--", "true"]));
        began.elapsed()
    };
    let mut times: Vec<_> = (0..TIMES).map(reserve).collect();
    times.sort();
    let store = tempfile::tempdir().expect("a folder");
    let node = |k: usize| {
        let [n, of, k] = [ranks / nodes, nodes, k].map(|x| x.to_string());
        let mut c = run(&at, ranks / nodes);
        if nodes > 1 {
            c.args(["--job", "sizes", "--node", &format!("{k}/{of}")]);
        }
        c.args(["--", "python3", PROGRAM, "launch", "-n", &n]);
        c.args(["--nodes", &of, "--node", &k, "--store"]);
        done(c.arg(store.path()).arg("sum"))
    };
    let began = Instant::now();
    let outs: Vec<Output> = std::thread::scope(|scope| {
        let node = &node;
        let all: Vec<_> = (0..nodes).map(|k| scope.spawn(move || node(k))).collect();
        let ends = all.into_iter().map(|t| t.join().expect("a machine's part"));
        ends.collect()
    });
    let job = began.elapsed();
    let text = |of: fn(&Output) -> &[u8]| {
        let each = outs
            .iter()
            .map(|o| String::from_utf8_lossy(of(o)).into_owned());
        each.collect::<String>()
    };
    let (said, err) = (text(|o| &o.stdout), text(|o| &o.stderr));
    let sum = ranks * (ranks + 1) / 2;
    let right = said.matches(&format!("sums [{sum}.0")).count();
    assert_eq!(right, ranks, "{said}");
    let mut trips: Vec<u64> = err
        .lines()
        .filter_map(|l| l.strip_prefix("busbar-stats: "))
        .filter_map(|l| serde_json::from_str::<Value>(l).ok())
        .filter_map(|v| v["program_round_trips"].as_u64())
        .collect();
    trips.sort_unstable();
    println!(
        "{count:>7} {ranks:>6} {:>14.1} {:>9.1} {:>13} {:>11}",
        times[TIMES / 2].as_secs_f64() * 1e3,
        job.as_secs_f64(),
        trips[trips.len() / 2],
        trips[trips.len() - 1]
    );
}

fn address(servers: &[Server]) -> String {
    let all: Vec<_> = servers.iter().map(|s| s.address.as_str()).collect();
    all.join(",")
}

/// `busbar run` on so many devices.
fn run(at: &str, devices: usize) -> Command {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(["run", "--server", at, "-n", &devices.to_string()]);
    c.env("BUSBAR_STATS", "1");
    c
}

fn done(c: &mut Command) -> Output {
    let out = finished(c);
    assert!(out.status.success(), "{out:?}");
    out
}
