//! How soon what a killed program held is free again: programs that are in the middle of all kinds
//! of things, killed at random moments.

use crate::program::{Running, remote_at};
use crate::server::Server;
use crate::{opencl, proc, until};
use busbar_harness::rng::Rng;
use busbar_relay::{LinkSpec, Options, Relay};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How a program reaches its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Directly; the server can look at its process.
    Here,
    /// Over a link that carries nothing any more when the program is killed.
    Stalled,
    /// From processes that the server cannot see, as those of another host.
    Elsewhere,
}

/// A program to kill.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What it is doing when it is killed.
    pub doing: &'static str,
    /// How it reaches its server.
    pub way: Way,
    /// Its arguments.
    words: &'static [&'static str],
    /// How its first line begins; empty when it is killed at whatever point it has come to.
    says: &'static str,
}

const fn case(
    doing: &'static str,
    way: Way,
    words: &'static [&'static str],
    says: &'static str,
) -> Case {
    Case {
        doing,
        way,
        words,
        says,
    }
}

/// Of `driver_program`, on the simulated driver.
pub const CUDA: &[Case] = &[
    case("starting", Way::Here, &["hold", "64"], ""),
    case("idle, holding 512 MiB", Way::Here, &["hold", "512"], "hold"),
    case("copying", Way::Here, &["copies"], "busy"),
    case("allocating", Way::Here, &["allocations"], "busy"),
    case("launching graphs", Way::Here, &["graphs"], "busy"),
    case(
        "computing in steps",
        Way::Here,
        &["work", "1000000"],
        "step",
    ),
    case("a kernel of an hour", Way::Here, &["long-kernel"], "busy"),
    case(
        "copies behind such a kernel",
        Way::Here,
        &["clogged"],
        "busy",
    ),
    case("3,000 kernels queued", Way::Here, &["deep-queue"], "queued"),
    case("idle", Way::Stalled, &["hold", "512"], "hold"),
    case("copying", Way::Stalled, &["copies"], "busy"),
    case(
        "copies behind a long kernel",
        Way::Stalled,
        &["clogged"],
        "busy",
    ),
    case("idle", Way::Elsewhere, &["hold", "512"], "hold"),
    case("copying", Way::Elsewhere, &["copies"], "busy"),
    case("launching graphs", Way::Elsewhere, &["graphs"], "busy"),
    case(
        "a kernel of an hour",
        Way::Elsewhere,
        &["long-kernel"],
        "busy",
    ),
    case(
        "copies behind a long kernel",
        Way::Elsewhere,
        &["clogged"],
        "busy",
    ),
];

/// Of `opencl_faults`, on this machine's own devices.
pub const OPENCL: &[Case] = &[
    case("starting", Way::Here, &["idle"], ""),
    case("idle, holding 1 MiB", Way::Here, &["idle"], "idle"),
    case("copying", Way::Here, &["work"], "working"),
    case(
        "computing in steps",
        Way::Here,
        &["steps", "1000000"],
        "step",
    ),
    case("a kernel of an hour", Way::Here, &["long-kernel"], "busy"),
    case(
        "copies behind such a kernel",
        Way::Here,
        &["clogged"],
        "busy",
    ),
    case("copying", Way::Stalled, &["work"], "working"),
    case("copying", Way::Elsewhere, &["work"], "working"),
    case(
        "a kernel of an hour",
        Way::Elsewhere,
        &["long-kernel"],
        "busy",
    ),
    case(
        "copies behind a long kernel",
        Way::Elsewhere,
        &["clogged"],
        "busy",
    ),
];

/// What serves the program that is killed.
pub trait Serves {
    /// Its address.
    fn address(&self) -> &str;
    /// The sessions that it lists.
    fn sessions(&self) -> Vec<Value>;
    /// A command that runs the program through the server at `address`.
    fn program(&self, address: &str) -> Command;
}

/// `driver_program` on the simulated driver.
pub struct Cuda<'a>(pub &'a Server, pub &'a Path);

impl Serves for Cuda<'_> {
    fn address(&self) -> &str {
        &self.0.address
    }
    fn sessions(&self) -> Vec<Value> {
        self.0.sessions()
    }
    fn program(&self, address: &str) -> Command {
        remote_at(address, self.1)
    }
}

/// `opencl_faults` on this machine's own devices.
pub struct OpenCl<'a>(pub &'a opencl::Server, pub &'a Path);

impl Serves for OpenCl<'_> {
    fn address(&self) -> &str {
        &self.0.address
    }
    fn sessions(&self) -> Vec<Value> {
        self.0.sessions()
    }
    fn program(&self, address: &str) -> Command {
        opencl::remote(address, self.1)
    }
}

/// How long after its kill a program's device memory was free, and its session listed no more.
#[derive(Debug, Clone, Copy)]
pub struct Freed {
    /// The process ended that held the memory. Of that the kernel leaves nothing.
    pub memory: Duration,
    /// `busbar ps` listed no session.
    pub listed: Duration,
}

/// Those that can be tried here: not every system lets its users hide a process.
pub fn possible(cases: &[Case]) -> Vec<Case> {
    let mut c = hidden(Command::new("true"));
    let hide = c.stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    let mut cases = cases.to_vec();
    cases.retain(|c| hide || c.way != Way::Elsewhere);
    cases
}

/// The command, with a process namespace of its own.
fn hidden(c: Command) -> Command {
    let mut h = Command::new("unshare");
    h.args(["--user", "--pid", "--fork", "--kill-child"]);
    h.arg(c.get_program()).args(c.get_args());
    for (name, value) in c.get_envs() {
        match value {
            Some(v) => h.env(name, v),
            None => h.env_remove(name),
        };
    }
    h
}

/// Runs a program until a moment that the seed names, kills it, and waits until nothing is left.
/// The server must have no other session.
pub fn kill(on: &impl Serves, case: &Case, rng: &mut Rng) -> Freed {
    let nap = |rng: &mut Rng, most_ms: u64| {
        std::thread::sleep(Duration::from_micros(rng.below(most_ms * 1000)));
    };
    let options = Options::new("127.0.0.1:0", on.address(), LinkSpec::default());
    let relay =
        (case.way == Way::Stalled).then(|| Relay::start(options).expect("the relay starts"));
    let address = relay.as_ref().map(|r| r.address().to_string());
    let mut c = on.program(address.as_deref().unwrap_or(on.address()));
    c.args(case.words);
    if case.way == Way::Elsewhere {
        c = hidden(c);
    }
    // What it says when it dies is not for the test's own output.
    let mut client = Running::start(c.stderr(Stdio::null()));
    if !case.says.is_empty() {
        client.line_with(case.says);
    }
    nap(rng, 200);
    if let Some(r) = &relay {
        r.stall(Duration::from_secs(3600));
        nap(rng, 50);
    }
    let pid = match case.way {
        Way::Elsewhere => until("the program's process", || {
            proc::children(client.pid()).first().copied()
        }),
        _ => client.pid(),
    };
    let workers: Vec<_> = on
        .sessions()
        .iter()
        .filter_map(|s| proc::Watched::new(s["worker_pid"].as_u64()? as u32))
        .collect();
    assert!(case.says.is_empty() || !workers.is_empty(), "{case:?}");

    let killed = Instant::now();
    proc::signal(pid, libc::SIGKILL);
    for w in &workers {
        assert!(w.ends_within(crate::PATIENCE), "{case:?}: its worker lives");
    }
    let memory = killed.elapsed();
    // A session that was just being opened may come to be listed only now.
    let settled = Duration::from_millis(if case.says.is_empty() { 400 } else { 0 });
    let mut free_since = None;
    until("a server without sessions", || {
        let now = killed.elapsed();
        if !on.sessions().is_empty() {
            free_since = None;
            return None;
        }
        let since = *free_since.get_or_insert(killed.elapsed());
        (now.saturating_sub(since) >= settled).then_some(())
    });
    client.kill();
    Freed {
        memory,
        listed: free_since.unwrap_or(memory),
    }
}
