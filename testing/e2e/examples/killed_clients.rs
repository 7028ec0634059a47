//! Kills programs at random moments, and prints how many milliseconds later what they held was
//! free: the server's device memory, and then their place in `busbar ps`.
//!
//! ```text
//! cargo run -p busbar-e2e --example killed_clients -- [N] [cuda|opencl]
//! ```
//! Each kind of program is killed N times (20 if left out). `BUSBAR_TREE` names the tree to test,
//! as for the tests; OpenCL programs run on this machine's own devices.

use busbar_e2e::kills::{self, Case, Cuda, OpenCl, Serves, Way};
use busbar_e2e::{opencl, server};
use busbar_harness::rng::Rng;
use std::path::PathBuf;
use std::time::Duration;

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let times = args.iter().find_map(|a| a.parse().ok()).unwrap_or(20);
    let wanted = |api: &str| !args.iter().any(|a| a.parse::<u64>().is_err() && a != api);
    if wanted("cuda") {
        let server = patient().start();
        let program = beside("driver_program");
        measure(&Cuda(&server, &program), "CUDA", kills::CUDA, times);
    }
    if wanted("opencl") {
        let program = opencl::compile("opencl_faults");
        let server = opencl::Server::start();
        measure(&OpenCl(&server, &program), "OpenCL", kills::OPENCL, times);
    }
}

/// A server that keeps a session without a connection for an hour: what ends sooner was noticed.
fn patient() -> server::Options {
    server::Options::default().arg("--resume-timeout", "3600")
}

/// A program that cargo has built beside this one.
fn beside(name: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("this program has a path");
    let target = exe.ancestors().nth(2).expect("it lies in examples/");
    let program = target.join(name);
    assert!(
        program.exists(),
        "`cargo build -p busbar-e2e --bins` builds {}",
        program.display()
    );
    program
}

fn measure(on: &impl Serves, api: &str, cases: &[Case], times: u64) {
    println!(
        "{:<43} {:>5} {:>21} {:>21}",
        format!("{api}: killed while"),
        "times",
        "memory free (ms)",
        "not listed (ms)"
    );
    println!(
        "{:>70} {:>21}",
        "median    95 %   most", "median    95 %   most"
    );
    for c in &kills::possible(cases) {
        let way = match c.way {
            Way::Here => "",
            Way::Stalled => ", link stalled",
            Way::Elsewhere => ", unseen",
        };
        let all: Vec<_> = (0..times)
            .map(|i| kills::kill(on, c, &mut Rng::new(i)))
            .collect();
        println!(
            "{:<43} {times:>5} {} {}",
            format!("{}{way}", c.doing),
            spread(all.iter().map(|f| f.memory)),
            spread(all.iter().map(|f| f.listed)),
        );
    }
}

fn spread(times: impl Iterator<Item = Duration>) -> String {
    let mut ms: Vec<_> = times.map(|d| d.as_secs_f64() * 1e3).collect();
    ms.sort_by(f64::total_cmp);
    let at = |share: f64| ms[((ms.len() - 1) as f64 * share).round() as usize];
    format!("{:>7.0} {:>6.0} {:>6.0}", at(0.5), at(0.95), at(1.0))
}
