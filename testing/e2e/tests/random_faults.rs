//! Faults at random moments: of clients, workers, servers and links. A seed says which moment;
//! `BUSBAR_SEED` repeats one, `BUSBAR_SEEDS` runs so many of each.

use busbar_e2e::kills::{self, Cuda};
use busbar_e2e::program::{Running, finished, native, printed, remote, remote_at};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::{cut, proc, until};
use busbar_harness::rng::{Rng, seeds};
use busbar_relay::{LinkSpec, Relay};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A server that keeps a session without a connection for longer than any test waits: what ends
/// sooner was noticed, and did not just run out.
fn patient_server() -> Server {
    Options::default().arg("--resume-timeout", "3600").start()
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_driver_program"))
}

/// Steps enough that no moment of a test comes after the last.
const ENDLESS: &str = "1000000";

fn random(seed: u64, steps: &str) -> [String; 3] {
    ["random".into(), seed.to_string(), steps.into()]
}

fn nap(rng: &mut Rng, most_ms: u64) {
    std::thread::sleep(Duration::from_micros(rng.below(most_ms * 1000)));
}

fn workers(server: &Server) -> Vec<u32> {
    let pid = |s: &serde_json::Value| s["worker_pid"].as_u64().unwrap_or(0) as u32;
    server.sessions().iter().map(pid).collect()
}

/// Starts one of the programs, at a seed's choice.
fn some_program(rng: &mut Rng, c: &mut Command) -> Running {
    let c = match rng.below(4) {
        0 => c.args(["work", ENDLESS]),
        1 => c.args(["hold", "512"]),
        2 => c.arg("deep-queue"),
        _ => c.args(random(rng.next_u64() >> 1, ENDLESS)),
    };
    // What it says when it dies is not for the test's own output.
    Running::start(c.stderr(std::process::Stdio::null()))
}

/// How soon, `cargo run -p busbar-e2e --example killed_clients` says.
#[test]
fn a_client_killed_at_any_moment_leaves_nothing_behind() {
    let server = patient_server();
    let cases = kills::possible(kills::CUDA);
    seeds(cases.len() as u64, |seed| {
        let case = &cases[seed as usize % cases.len()];
        kills::kill(&Cuda(&server, program()), case, &mut Rng::new(seed));
    });
}

#[test]
fn a_worker_killed_at_any_moment_fails_its_client_and_nobody_else() {
    let server = patient_server();
    seeds(6, |seed| {
        let mut rng = Rng::new(seed);
        let args = random(seed + 50, "400");
        let wanted = printed(native(program()).args(&args));
        // Else the next one that is listed need not be the victim's.
        server.wait_for_sessions(0);
        std::thread::scope(|s| {
            let other = s.spawn(|| printed(remote(&server, program()).args(&args)));
            let before = until("the other's session", || {
                let all = workers(&server);
                (!all.is_empty() || other.is_finished()).then_some(all)
            });
            let mut c = remote(&server, program());
            let victim = Running::start(c.arg("until-error"));
            let worker = until("the session", || {
                let all = workers(&server);
                all.into_iter().find(|w| !before.contains(w))
            });
            nap(&mut rng, 200);
            proc::signal(worker, libc::SIGKILL);
            let (text, status) = victim.finish();
            // Before its first call it learns of it from `cuInit`, and stops there.
            let told = text.contains("then an error") || !status.success();
            assert!(told, "{status}: {text}");
            assert_eq!(other.join().expect("the other goes on"), wanted);
        });
    });
    server.wait_for_sessions(0);
}

#[test]
fn a_server_killed_at_any_moment_ends_its_clients() {
    seeds(6, |seed| {
        let mut rng = Rng::new(seed);
        let mut server = patient_server();
        let mut a = remote(&server, program());
        let a = Running::start(a.arg("until-error").stderr(std::process::Stdio::null()));
        let b = some_program(&mut rng, &mut remote(&server, program()));
        nap(&mut rng, 400);
        let busy = workers(&server);
        server.kill();
        let (text, status) = a.finish();
        let told = text.contains("then an error") || !status.success();
        assert!(told, "{status}: {text}");
        // Its calls fail or it is told at its start; what it makes of that is its own affair.
        b.finish();
        for w in busy {
            until("the worker's end", || (!proc::alive(w)).then_some(()));
        }
    });
}

/// As a terminal and some service managers do it: every process of the server gets the signal.
#[test]
fn a_server_that_is_told_to_end_tells_its_clients() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // Drivers of both APIs are loaded, and all that they do to signals is done.
        let server = Options::default().arg("--api", "cuda,opencl").start();
        let mut c = remote(&server, program());
        let log = server.path("client.log");
        c.env("BUSBAR_LOG", format!("info:{}", log.display()));
        let mut client = Running::start(c.args(["hold", "1"]));
        client.line_with("holding");
        let workers = workers(&server);
        for w in workers.iter().chain([&server.pid()]) {
            proc::signal(*w, signal);
        }
        let said = until("the session's end", || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            text.contains(" is over: ").then_some(text)
        });
        assert!(!said.contains("was lost"), "{said}");
        for w in workers {
            until("the worker's end", || (!proc::alive(w)).then_some(()));
        }
    }
}

/// `BUSBAR_CUT=30` cuts for half a minute.
#[test]
fn a_link_cut_at_any_moment_and_restored_changes_nothing() {
    let server = patient_server();
    seeds(3, |seed| {
        let mut rng = Rng::new(seed);
        let args = random(seed + 300, "1200");
        let wanted = printed(native(program()).args(&args));
        let options =
            busbar_relay::Options::new("127.0.0.1:0", &server.address, LinkSpec::default());
        let relay = Relay::start(options).expect("the relay starts");
        let mut c = remote_at(&relay.address().to_string(), program());
        c.args(&args)
            .env("BUSBAR_SIDE", ["3", "0", "1"][seed as usize % 3]);
        let mut client = Running::start(&mut c);
        let first = client.line();
        nap(&mut rng, 300);
        relay.cut(cut(3));
        let (rest, status) = client.finish();
        assert!(status.success(), "{status}");
        assert_eq!(wanted, format!("{first}\n{rest}"));
    });
    server.wait_for_sessions(0);
}

#[test]
fn a_process_that_becomes_another_program_holds_nothing() {
    let server = patient_server();
    let mut c = remote(&server, program());
    let mut client =
        Running::start(c.args(["exec-after", "sh", "-c", "echo other; exec sleep 600"]));
    client.line_with("holding");
    server.wait_for_sessions(1);
    client.go_on();
    client.line_with("other");
    server.wait_for_sessions(0);
    assert!(proc::alive(client.pid()));
}

#[test]
fn a_child_that_outlives_its_parent_holds_nothing() {
    let server = patient_server();
    for command in [&["leave-child"][..], &["leave-child", "sleep", "600"]] {
        for kill in [false, true] {
            let mut client = Running::start(remote(&server, program()).args(command));
            let line = client.line_with("child ");
            let child: u32 = line["child ".len()..].parse().expect("a number");
            server.wait_for_sessions(1);
            if kill {
                client.kill();
            } else {
                client.go_on();
                assert!(client.wait().success());
            }
            server.wait_for_sessions(0);
            assert!(proc::alive(child));
            proc::signal(child, libc::SIGKILL);
        }
    }
    // And one that ends first ends nothing.
    let mut parent = Running::start(remote(&server, program()).args(["leave-child", "true"]));
    let line = parent.line_with("child ");
    let child: u32 = line["child ".len()..].parse().expect("a number");
    until("the child's end", || (!proc::alive(child)).then_some(()));
    assert_eq!(server.wait_for_sessions(1)[0]["connected"], true);
    let out = finished(remote(&server, program()).args(["random", "3", "60"]));
    assert!(out.status.success());
    parent.go_on();
    assert!(parent.wait().success());
    server.wait_for_sessions(0);
}
