//! Killed clients, workers and servers; forks and exits; sessions opened and closed many times.

use busbar_e2e::proc::Held;
use busbar_e2e::program::{Running, native, printed, remote, stats};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::{proc, until};
use busbar_harness::rng::effort;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

fn program() -> &'static Path {
    Path::new(PROGRAM)
}

fn worker_of(session: &serde_json::Value) -> u32 {
    session["worker_pid"]
        .as_u64()
        .expect("a session has a worker") as u32
}

#[test]
fn a_killed_client_leaves_nothing_behind() {
    let server = Server::start();
    let mut client = Running::start(remote(&server, program()).args(["hold", "64"]));
    client.line_with("holding");
    let worker = worker_of(&server.wait_for_sessions(1)[0]);
    client.kill();
    server.wait_for_sessions(0);
    until("the worker's end", || (!proc::alive(worker)).then_some(()));
    assert!(server.log().contains("the client's process ended"));
}

#[test]
fn a_client_killed_with_a_deep_queue_is_not_waited_for() {
    let server = Server::start();
    let mut client = Running::start(remote(&server, program()).arg("deep-queue"));
    client.line_with("queued");
    client.kill();
    // The queue is a minute of work: whoever waits for it fails the test.
    server.wait_for_sessions(0);
}

#[test]
fn a_killed_worker_is_an_error_to_its_client_and_to_nobody_else() {
    let server = Server::start();
    let mut other = Running::start(remote(&server, program()).args(["hold", "1"]));
    other.line_with("holding");
    let bystander = worker_of(&server.wait_for_sessions(1)[0]);
    let mut client = Running::start(remote(&server, program()).arg("until-error"));
    client.line_with("calling");
    let sessions = server.wait_for_sessions(2);
    let worker = sessions.iter().map(worker_of).find(|w| *w != bystander);
    proc::signal(worker.expect("there are two"), libc::SIGKILL);
    assert!(client.line_with("error").ends_with("then an error"));
    assert!(client.finish().1.success());
    other.goes_on_holding();
}

#[test]
fn a_killed_server_ends_its_clients_with_an_error() {
    let mut server = Server::start();
    let mut client = Running::start(remote(&server, program()).arg("until-error"));
    let mut idle = Running::start(remote(&server, program()).args(["hold", "1"]));
    client.line_with("calling");
    idle.line_with("holding");
    let workers: Vec<_> = server.wait_for_sessions(2).iter().map(worker_of).collect();
    let spare = until("a spare worker", || {
        let all = proc::children(server.pid());
        // The process that reads the GPUs' values may be there, too.
        (all.len() >= 3).then_some(all)
    });
    server.kill();
    assert!(client.line_with("error").ends_with("then an error"));
    let (rest, _) = idle.finish();
    assert!(!rest.starts_with("after 0"), "{rest}");
    for w in workers.into_iter().chain(spare) {
        until("the end of every worker", || {
            (!proc::alive(w)).then_some(())
        });
    }
}

#[test]
fn a_fork_before_and_after_initialization() {
    let server = Server::start();
    assert_eq!(
        printed(remote(&server, program()).arg("fork-before")),
        "child 0\n"
    );
    let text = printed(remote(&server, program()).arg("fork-after"));
    assert_eq!(text.lines().count(), 4);
    for line in text.lines() {
        assert!(line.ends_with("child 33 parent true"), "{line}");
    }
    server.wait_for_sessions(0);
}

#[test]
fn an_exit_while_other_threads_call_is_an_exit() {
    let server = Server::start();
    for _ in 0..5 {
        let text = printed(remote(&server, program()).arg("exit-while-calling"));
        assert_eq!(text, "leaving\n");
    }
    server.wait_for_sessions(0);
}

#[test]
fn failing_to_initialize_again_and_again_holds_nothing() {
    let server = Server::start();
    let mut c = remote(&server, program());
    let c = c.args(["init-again", "5"]).env("CUDA_VISIBLE_DEVICES", "");
    let mut client = Running::start(c);
    assert_eq!(client.line_with("init"), "init Some(100)");
    server.wait_for_sessions(0);
}

#[test]
fn counters_are_printed_to_who_asks_for_them() {
    let server = Server::start();
    let mut c = remote(&server, program());
    let out = c
        .args(["random", "5", "50"])
        .env("BUSBAR_STATS", "1")
        .output()
        .unwrap();
    let v = stats(&out);
    let number = |k: &str| v[k].as_u64().unwrap_or(0);
    assert!(
        number("calls") > number("round_trips") && number("round_trips") > 0,
        "{v}"
    );
    assert!(
        number("bytes_sent") > 0 && number("bytes_received") > 0,
        "{v}"
    );
    assert_eq!(number("resumed"), 0);
    assert!(v["by_call"].as_array().is_some_and(|a| a.len() > 5), "{v}");
    // Each round trip is somebody's, and a function of the API waits for the program.
    let waits = v["by_function"].as_array().expect("a list");
    let trips = |w: &serde_json::Value| w["round_trips"].as_u64().expect("a counter");
    let named = |w: &&serde_json::Value| {
        let name = w["function"].as_str().expect("a name");
        name == "(the session opens)" || name.starts_with("cu") && !name.contains(':')
    };
    assert_eq!(waits.iter().map(trips).sum::<u64>(), number("round_trips"));
    let own = waits.iter().filter(named).map(trips).sum::<u64>();
    assert_eq!(own, number("program_round_trips"), "{v}");
    // Who does not ask gets nothing on either output.
    let quiet = remote(&server, program())
        .args(["random", "5", "50"])
        .output()
        .unwrap();
    let wanted = native(program())
        .args(["random", "5", "50"])
        .output()
        .unwrap();
    assert_eq!((quiet.stdout, quiet.stderr), (wanted.stdout, wanted.stderr));
}

#[test]
fn a_killed_program_under_a_lease_ends_the_lease() {
    let server = Options::default().env("FAKEDEV_DEVICES", "2").start();
    let mut c = std::process::Command::new(&busbar_e2e::tree::tree().busbar);
    busbar_e2e::program::clear(&mut c);
    c.args([
        "run",
        "--server",
        &server.address,
        "--gpus",
        "2",
        "--",
        PROGRAM,
        "hold",
        "1",
    ]);
    let mut client = Running::start(&mut c);
    client.line_with("holding");
    let leases = |s: &Server| s.status()["leases"].as_array().map_or(0, Vec::len);
    assert_eq!(leases(&server), 1);
    let child = proc::children(client.pid());
    client.kill();
    server.wait_for_sessions(0);
    until("the lease's end", || (leases(&server) == 0).then_some(()));
    for c in child {
        until("the program's end", || (!proc::alive(c)).then_some(()));
    }
}

#[test]
fn sessions_opened_and_closed_leave_nothing_behind() {
    let server = Server::start();
    let session = |n: u64| {
        for _ in 0..n {
            let out = remote(&server, program()).arg("devices").output().unwrap();
            assert!(out.status.success());
        }
        server.wait_for_sessions(0);
    };
    session(20);
    let before = Held::at_rest(server.pid());
    // `BUSBAR_FUZZ=100` makes it ten thousand.
    session(effort(100));
    before.comes_back(server.pid());
}
