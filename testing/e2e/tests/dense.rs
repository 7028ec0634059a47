//! Dense sessions: what starts and ends the daemon that they share, their part of the processors,
//! a fault that ends them all, and what is said where there can be none.

use busbar_e2e::program::{Running, clear, printed};
use busbar_e2e::quota::HIDDEN;
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::until;
use std::fs;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");
/// Stands in for NVIDIA's.
const DAEMON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/mps_control.py");

fn server() -> Options {
    Options::default().arg("--mps-control", DAEMON)
}

/// `busbar run --mode dense` with these flags.
fn dense(server: &Server, flags: &[&str], args: &[&str]) -> Command {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(["run", "--server", &server.address, "--mode", "dense"]);
    c.args(flags).args(["--", PROGRAM]).args(args);
    c
}

/// A program that shares its device densely, and how many processors it sees.
fn sharing(server: &Server, flags: &[&str]) -> (Running, String) {
    let mut p = Running::start(&mut dense(server, flags, &["processors"]));
    let line = p.line_with("processors ");
    (p, line)
}

fn ends(mut p: Running) -> String {
    p.go_on();
    let line = p.line_with("after");
    p.finish();
    line
}

/// A program that gets no session: it is said why.
fn refused(mut c: Command, words: &[&str]) {
    let out = c.output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success(), "{said}");
    assert!(words.iter().all(|w| said.contains(w)), "{said}");
}

/// The daemons that a server has: processes below it.
fn daemons(server: &Server) -> Vec<u32> {
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?
            .1
            .split_whitespace()
            .nth(1)?
            .parse()
            .ok()
    };
    let below = |mut pid: u32| loop {
        match parent(pid) {
            Some(up) if up == server.pid() => break true,
            Some(up) if up > 1 => pid = up,
            _ => break false,
        }
    };
    let all = fs::read_dir("/proc").expect("processes").flatten();
    let all = all.filter_map(|f| f.file_name().to_str()?.parse::<u32>().ok());
    let is_one = |pid: &u32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.contains(&format!("{DAEMON}\0-f"))
    };
    all.filter(|pid| is_one(pid) && below(*pid)).collect()
}

/// At all levels: the daemon runs in its sessions' cell, where there is one.
fn sessions_share_a_daemon(isolation: &str) {
    let server = server().arg("--isolation", isolation).start();
    let mut plain = Command::new(&tree().busbar);
    clear(&mut plain);
    plain.args([
        "run",
        "--server",
        &server.address,
        "--",
        PROGRAM,
        "processors",
    ]);
    assert_eq!(printed(&mut plain), "processors 132\nafter 0\n");
    assert_eq!(daemons(&server).len(), 0, "nobody is dense");
    let (half, said) = sharing(&server, &["-p", "0.5"]);
    assert_eq!(said, "processors 66");
    let (whole, said) = sharing(&server, &[]);
    assert_eq!(said, "processors 132");
    assert_eq!(daemons(&server).len(), 1);
    assert_eq!(printed(&mut plain), "processors 132\nafter 0\n");
    assert_eq!(ends(half), "after 0");
    assert_eq!(daemons(&server).len(), 1, "one is left who has it");
    assert_eq!(ends(whole), "after 0");
    until("the daemon to end", || {
        daemons(&server).is_empty().then_some(())
    });
    assert_eq!(
        ends(sharing(&server, &[]).0),
        "after 0",
        "and there is another"
    );
}

#[test]
fn dense_sessions_of_a_login_share_a_daemon_that_ends_with_the_last() {
    sessions_share_a_daemon("best");
}

#[test]
fn without_isolation_they_do_so_too() {
    sessions_share_a_daemon("off");
}

#[test]
fn a_fault_is_said_to_all_who_share_it_and_whoever_comes_later_has_none_of_it() {
    let server = server()
        .env("FAKEDEV_FAULTS", "cuMemcpyDtoHAsync_v2@5=719s")
        .start();
    let mut idle = dense(&server, &[], &["processors"]);
    let told = server.path("told");
    idle.env("BUSBAR_LOG", format!("lost:{}", told.display()));
    let mut idle = Running::start(&mut idle);
    idle.line_with("processors ");
    let mut guilty = Running::start(&mut dense(&server, &[], &["until-error"]));
    guilty.line_with("calling");
    assert_eq!(guilty.line_with("error"), "error 719 then an error");
    let said = until("the server to say whose fault it was", || {
        let log = server.log();
        let line = log
            .lines()
            .find(|l| l.contains("a dense session had a fault"))?;
        Some(line.to_string())
    });
    assert!(
        said.contains("one of 2 sessions") && said.contains("driver_program"),
        "{said}"
    );
    until("the other one's user to hear of it", || {
        let told = fs::read_to_string(&told).unwrap_or_default();
        told.contains("one of 2 sessions").then_some(())
    });
    let (fresh, _) = sharing(&server, &[]);
    assert_eq!(
        daemons(&server).len(),
        2,
        "those who come later have a daemon of their own"
    );
    assert_eq!(ends(fresh), "after 0");
    assert_eq!(ends(idle), "after 0");
    guilty.finish();
    until("all daemons to end", || {
        daemons(&server).is_empty().then_some(())
    });
}

#[test]
fn a_daemon_that_has_died_is_had_by_nobody_else() {
    let server = server().start();
    let (first, _) = sharing(&server, &[]);
    let [daemon] = daemons(&server)[..] else {
        panic!("there is one daemon");
    };
    let killed = Command::new("kill")
        .args(["-9", &daemon.to_string()])
        .status();
    assert!(killed.is_ok_and(|s| s.success()));
    until("a session that has another daemon", || {
        let (p, _) = sharing(&server, &[]);
        let there = daemons(&server).len();
        ends(p);
        (there == 1).then_some(())
    });
    assert_eq!(ends(first), "after 0");
}

/// With the simulated driver's clock an hour is an hour: its kernel has to be taken off.
fn a_killed_clients_work_is_taken_off(isolation: &str) {
    let server = server().arg("--isolation", isolation).start();
    let (other, _) = sharing(&server, &[]);
    let mut killed = Running::start(&mut dense(&server, &[], &["endless"]));
    killed.line_with("busy");
    let [daemon] = daemons(&server)[..] else {
        panic!("there is one daemon");
    };
    let environment = fs::read_to_string(format!("/proc/{daemon}/environ")).expect("ours");
    let mut all = environment.split('\0');
    let folder = all.find_map(|v| v.strip_prefix("CUDA_MPS_PIPE_DIRECTORY="));
    let said = format!("/proc/{daemon}/root{}/said", folder.expect("its folder"));
    killed.kill();
    until("its work to be taken off", || {
        let said = fs::read_to_string(&said).unwrap_or_default();
        said.contains("terminate_client").then_some(())
    });
    until("its session to end", || {
        (server.sessions().len() == 1).then_some(())
    });
    assert_eq!(ends(other), "after 0");
}

#[test]
fn the_work_of_a_client_that_is_killed_is_taken_off_before_its_worker_ends() {
    a_killed_clients_work_is_taken_off("best");
}

#[test]
fn so_it_is_without_isolation() {
    a_killed_clients_work_is_taken_off("off");
}

/// NVML lists them apart from others.
#[test]
fn what_a_driver_takes_for_a_dense_session_by_itself_counts() {
    let nvml = tree().fakenvml_library();
    let options = server().env("FAKEDEV_MEMORY_MIB", "2048");
    let options = options.arg("--nvml-library", nvml.to_str().expect("a path"));
    let server = options.start();
    let out = printed(&mut dense(&server, &["-m", "1GiB"], &["quota-hidden"]));
    assert_eq!(out, HIDDEN);
}

#[test]
fn where_there_can_be_no_dense_session_a_sentence_says_why() {
    let none = Options::default().env("PATH", "/nowhere").start();
    let said = ["nvidia-cuda-mps-control", "--mps-control", "--mode"];
    refused(dense(&none, &[], &["processors"]), &said);
    let dies = Options::default()
        .arg("--mps-control", "/bin/false")
        .start();
    refused(
        dense(&dies, &[], &["processors"]),
        &["/bin/false does not start"],
    );
    let mut wrong = Command::new(&tree().busbar);
    clear(&mut wrong);
    wrong.args([
        "run",
        "--server",
        &none.address,
        "--mode",
        "sparse",
        "--",
        PROGRAM,
    ]);
    refused(wrong, &["--mode", "neither isolated nor dense"]);
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "[default]\ndense = false\n").expect("a policy");
    let policy = policy.to_str().expect("a path");
    let strict = server().arg("--policy", policy).start();
    refused(
        dense(&strict, &[], &["processors"]),
        &["policy", "no dense sessions"],
    );
}
