//! Counts what calls cost the program's thread: instructions inside the driver's function, by
//! callgrind, on the simulated driver. Prints a table, and fails where a call has become dearer.
//!
//! ```text
//! cargo run -p busbar-e2e --example instructions -- [CALL ...]
//! ```
//! `BUSBAR_TREE` names a tree of release builds: what debug builds cost says nothing. What other
//! threads do is left out, and so is the channel: how often its memory grows depends on how soon
//! another thread sends.

use busbar_e2e::program::{printed, remote_directly};
use busbar_e2e::server::Server;
use busbar_e2e::tree::built;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The calls, how often a step of ResNet-50 in bf16 makes each, and the most instructions that one
/// may take; `semantics_program/calls.rs` has their arguments.
const CALLS: &[(&str, u64, u64)] = &[
    ("cuLaunchKernel", 683, 530),
    ("cuLaunchKernel/12", 0, 600),
    ("cuLaunchKernel/0", 0, 480),
    ("cuLaunchKernelEx", 144, 590),
    ("cuCtxGetDevice", 6405, 65),
    ("cuKernelGetAttribute", 2774, 123),
    ("cuDevicePrimaryCtxGetState", 1996, 86),
    ("cuKernelGetFunction", 195, 165),
    ("cuMemsetD8Async", 21, 740),
    ("cuEventRecord", 0, 405),
    ("cuStreamWaitEvent", 0, 295),
    ("cuEventQuery", 0, 335),
    ("cuMemcpyDtoDAsync_v2", 0, 1320),
    ("cuMemcpyHtoDAsync_v2", 0, 1050),
    ("cuStreamIsCapturing", 0, 150),
];
/// Calls that are made before those that count, and these.
const TIMES: [u64; 2] = [500, 2500];

/// All instructions in the driver's function, of so many calls.
fn of(server: &Server, folder: &Path, call: &str, times: u64) -> u64 {
    let program = built().join("semantics_program");
    let there = remote_directly(server, &program);
    let out = folder.join("callgrind");
    let name = call.split('/').next().unwrap_or(call);
    let mut c = Command::new("valgrind");
    c.args(["--tool=callgrind", "--quiet", "--separate-threads=yes"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(format!("--toggle-collect={name}"))
        .args([
            "--toggle-collect=*Lane::put",
            "--toggle-collect=*notify_small",
        ])
        .arg(there.get_program())
        .args(["calls", &times.to_string(), call]);
    for (k, v) in there.get_envs() {
        match v {
            Some(v) => c.env(k, v),
            None => c.env_remove(k),
        };
    }
    printed(&mut c);
    // The program's own thread is the first.
    let said = std::fs::read_to_string(folder.join("callgrind-01")).expect("callgrind's file");
    let total = said.lines().find_map(|l| l.strip_prefix("totals: "));
    total.and_then(|t| t.trim().parse().ok()).expect("a total")
}

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let (server, folder) = (Server::start(), tempfile::tempdir().expect("a folder"));
    println!("| call | a step | instructions | at most |\n|---|---|---|---|");
    let (mut step, mut dearer) = (0, Vec::new());
    for (call, often, most) in CALLS {
        if !wanted.is_empty() && !wanted.iter().any(|w| w == call) {
            continue;
        }
        let [few, many] = TIMES.map(|n| of(&server, folder.path(), call, n));
        let each = (many - few) / (TIMES[1] - TIMES[0]);
        step += each * often;
        println!("| `{call}` | {often} | {each} | {most} |");
        if each > *most {
            dearer.push(*call);
        }
    }
    println!("| all of a step, in thousands | | {} | |", step / 1000);
    if dearer.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("dearer than they may be: {}", dearer.join(", "));
    ExitCode::FAILURE
}
