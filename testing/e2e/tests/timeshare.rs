//! Shares of a device's time: asked for, promised, kept, changed, and shown.

use busbar_e2e::guarded::refused;
use busbar_e2e::proc;
use busbar_e2e::program::{Running, clear, finished, printed};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::until;
use serde_json::Value;
use std::fs;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

/// `busbar run` with these flags.
fn run(server: &Server, flags: &[&str], args: &[&str]) -> Command {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(["run", "--server", &server.address]).args(flags);
    c.args(["--", PROGRAM]).args(args);
    c
}

/// A program that always has kernels to run, once it runs some.
fn turning(server: &Server, flags: &[&str]) -> Running {
    let mut p = Running::start(&mut run(server, flags, &["turns", "2000"]));
    p.line_with("turning");
    p
}

/// The session of a program.
fn session(server: &Server, p: &Running) -> Value {
    until("the program's session", || {
        let all = server.sessions();
        all.into_iter().find(|s| s["pid"] == p.pid())
    })
}

/// What a session has used of its device, in ms, if anybody counts.
fn used(s: &Value) -> Option<u64> {
    s["time"][0]["used_ms"].as_u64()
}

/// Waits until two sessions have had turns, both, from now on.
fn both_have_turns(server: &Server, a: &Running, b: &Running) {
    let both = || Some((used(&session(server, a))?, used(&session(server, b))?));
    let (a0, b0) = until("both to be counted", both);
    until("both to have turns", || {
        both().filter(|(a, b)| *a > a0 && *b > b0)
    });
}

/// Waits until nobody counts what a session uses.
fn nobody_counts(server: &Server, p: &Running) {
    until("nobody to count", || {
        (session(server, p)["time"] == serde_json::json!([null])).then_some(())
    });
}

fn ends(mut p: Running) -> u64 {
    p.go_on();
    let line = p.line_with("done");
    let (_, status) = p.finish();
    assert!(status.success());
    line["done ".len()..].parse().expect("a number")
}

#[test]
fn shares_are_promised_once_and_kept() {
    let server = Server::start();
    let a = turning(&server, &["-p", "0.75"]);
    let alone = session(&server, &a);
    assert_eq!(alone["share"], 750);
    assert_eq!(alone["time"], serde_json::json!([null]), "nobody counts");
    let b = turning(&server, &["-p", "25%", "--priority", "0"]);
    both_have_turns(&server, &a, &b);
    assert_eq!(server.status()["devices"][0]["promised_share"], 1000);
    let said = "0.1 of a device's time wanted, and no device has more than 0 that is not promised";
    refused(
        &mut run(&server, &["-p", "0.1"], &["work", "1"]),
        &[said, "-p"],
    );
    refused(
        &mut run(&server, &["-n", "2"], &["work", "1"]),
        &["2 GPUs wanted, but the server has 1", "-n"],
    );
    // One without a promise has what is left over, and is not kept from it for ever.
    printed(&mut run(&server, &[], &["work", "3"]));
    let shown = session(&server, &b);
    assert!(shown["time"][0]["waited_ms"].as_u64() > Some(0), "{shown}");
    assert!(ends(a) > 0 && ends(b) > 0);
    let out = finished(&mut run(&server, &["-p", "1.5"], &["work", "1"]));
    assert!(String::from_utf8_lossy(&out.stderr).contains("say 0.25 or 25%"));
}

#[test]
fn a_server_that_is_asked_writes_down_whose_turn_it_is() {
    let server = Options::default().env("BUSBAR_LOG", "trace").start();
    let a = turning(&server, &["-p", "0.75"]);
    let b = turning(&server, &["-p", "0.25"]);
    both_have_turns(&server, &a, &b);
    ends(a);
    ends(b);
    let said = server.log();
    assert!(said.contains("turn=") && said.contains(" ends; "), "{said}");
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/../turns.py");
    let table = printed(Command::new("python3").arg(tool).arg(server.path("log")));
    let two = table
        .lines()
        .map(|l| l.split_whitespace().collect::<Vec<_>>());
    let two: Vec<_> = two.filter(|l| l.get(1) == Some(&"2")).collect();
    let turns = |line: &Vec<&str>| line[3].parse::<u32>().expect("a number");
    assert!(two.iter().any(|line| turns(line) > 1), "{table}");
}

#[test]
fn a_running_session_is_changed() {
    let server = Server::start();
    let (a, b) = (turning(&server, &[]), turning(&server, &[]));
    // Nobody has asked for turns: the driver divides the device.
    nobody_counts(&server, &a);
    nobody_counts(&server, &b);
    let name = session(&server, &b)["session"].as_str().map(String::from);
    let name = name.expect("a name");
    let set = |args: &[&str]| {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        c.args(["set", "--server", &server.address]).args(args);
        c
    };
    printed(&mut set(&[&name, "-p", "0.8", "-m", "1GiB"]));
    let b_now = session(&server, &b);
    assert_eq!(
        (&b_now["share"], &b_now["promised"]),
        (&800.into(), &true.into())
    );
    both_have_turns(&server, &a, &b);
    printed(&mut set(&[&name, "-p", "none", "-m", "none"]));
    assert_eq!(session(&server, &b)["share"], Value::Null);
    nobody_counts(&server, &a);
    nobody_counts(&server, &b);
    printed(&mut set(&[&name, "--priority", "1"]));
    both_have_turns(&server, &a, &b);
    printed(&mut set(&[&name, "--priority", "0"]));
    nobody_counts(&server, &b);
    refused(
        &mut set(&["nobody", "-p", "0.5"]),
        &["no session `nobody`", "busbar ps"],
    );
    refused(&mut set(&[&name]), &["say what is to change"]);
    ends(a);
    ends(b);
}

#[test]
fn the_share_of_an_idle_program_is_others_until_it_works_again() {
    let server = Server::start();
    let lent = |p: &Running| session(&server, p)["lent"].as_bool();
    let promised = || server.status()["devices"][0]["promised_share"].as_u64();
    let a = turning(&server, &["-p", "0.75", "--idle-timeout", "1s"]);
    let half = ["-p", "0.5"];
    refused(
        &mut run(&server, &half, &["work", "1"]),
        &["more than 0.25"],
    );
    proc::signal(a.pid(), libc::SIGSTOP);
    until("the idle program's share to be lent", || {
        (lent(&a) == Some(true)).then_some(())
    });
    assert_eq!(
        (promised(), &session(&server, &a)["share"]),
        (Some(0), &750.into())
    );
    let listed = printed(Command::new(&tree().busbar).args(["ps", "--server", &server.address]));
    assert!(listed.contains("0.75 lent"), "{listed}");
    let b = turning(&server, &half);
    // What is promised to the other stays that one's.
    proc::signal(a.pid(), libc::SIGCONT);
    both_have_turns(&server, &a, &b);
    assert_eq!((promised(), lent(&a)), (Some(500), Some(true)));
    assert!(ends(b) > 0);
    until("the share to be the program's again", || {
        (lent(&a) == Some(false) && promised() == Some(750)).then_some(())
    });
    assert!(ends(a) > 0);
    let says = |flags: &[&str]| {
        let out = finished(&mut run(&server, flags, &["work", "1"]));
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    assert!(says(&["--idle-timeout", "10m"]).contains("say which with -p"));
    assert!(says(&["-p", "0.5", "--idle-timeout", "1.5h"]).contains("say 90s, 10m, 2h or 7d"));
    assert!(says(&["-p", "0.5", "--idle-timeout", "0s"]).contains("say 10m or 2h"));
}

#[test]
fn a_policy_says_how_long_an_idle_program_keeps_its_share() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "[default]\nidle_timeout = \"1s\"\n").expect("a file");
    let server = Options::default()
        .arg("--policy", &policy.display().to_string())
        .start();
    // What the program asks for itself is longer.
    let a = turning(&server, &["-p", "0.75", "--idle-timeout", "1h"]);
    proc::signal(a.pid(), libc::SIGSTOP);
    until("the idle program's share to be lent", || {
        (session(&server, &a)["lent"] == true).then_some(())
    });
    proc::signal(a.pid(), libc::SIGCONT);
    assert!(ends(a) > 0);
}

#[test]
fn a_server_may_always_have_turns() {
    let server = Options::default().arg("--turns", "always").start();
    let (a, b) = (turning(&server, &[]), turning(&server, &[]));
    both_have_turns(&server, &a, &b);
    assert!(ends(a) > 0);
    nobody_counts(&server, &b);
    assert!(ends(b) > 0);
}

#[test]
fn the_turn_of_a_worker_that_is_killed_is_anothers() {
    let server = Server::start();
    let (mut a, b) = (turning(&server, &["-p", "0.9"]), turning(&server, &[]));
    both_have_turns(&server, &a, &b);
    let worker = session(&server, &a)["worker_pid"]
        .as_i64()
        .expect("a worker");
    // SAFETY: a process of this test's server.
    unsafe { libc::kill(worker as i32, libc::SIGKILL) };
    assert!(!a.wait().success());
    nobody_counts(&server, &b);
    assert!(ends(b) > 0);
}

#[test]
fn a_kernel_without_an_end_is_its_own_programs_error_alone() {
    let options = Options::default().arg("--kernel-limit", "2s");
    let server = options.arg("--turns", "always").start();
    let mut a = Running::start(&mut run(&server, &[], &["endless"]));
    a.line_with("busy");
    let b = turning(&server, &[]);
    let timeout = 702;
    assert_eq!(
        a.line_with("ended"),
        format!("ended {timeout} then {timeout}")
    );
    assert!(a.wait().success());
    assert!(ends(b) > 0);
}

#[test]
fn a_policy_bounds_shares_and_priorities() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("policy.toml");
    fs::write(&path, "[default]\nshare = 0.5\npriority = 1").expect("a file");
    let options = Options::default().arg("--policy", &path.display().to_string());
    let server = options.start();
    printed(&mut run(
        &server,
        &["-p", "0.5", "--priority", "1"],
        &["work", "1"],
    ));
    refused(
        &mut run(&server, &["-p", "0.6"], &["work", "1"]),
        &["may ask for 0.5 of a device's time", "-p"],
    );
    refused(
        &mut run(&server, &["--priority", "2"], &["work", "1"]),
        &["priority 1 at most", "--priority"],
    );
}
