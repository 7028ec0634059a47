//! What a program's user reads when its session is lost: one line, and nothing else unasked.

use busbar_e2e::proc;
use busbar_e2e::program::{Running, clear, remote};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

fn worker_of(session: &serde_json::Value) -> u32 {
    let pid = session["worker_pid"].as_u64();
    pid.expect("a session has a worker") as u32
}

/// Starts a program that makes calls until one fails, or waits to be told to go on. What it has on
/// stderr goes to a file.
fn start(server: &Server, what: &[&str], env: &[(&str, &str)]) -> Running {
    let mut c = remote(server, Path::new(PROGRAM));
    let stderr = std::fs::File::create(server.path("stderr")).expect("a file");
    Running::start(c.args(what).envs(env.iter().copied()).stderr(stderr))
}

fn said(server: &Server) -> Vec<String> {
    let text = std::fs::read_to_string(server.path("stderr")).expect("it is there");
    text.lines().map(String::from).collect()
}

/// One line, of this process, with these words.
fn one_line(server: &Server, pid: u32, words: &[&str]) {
    let lines = said(server);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let start = format!(
        "busbar[{pid}]: the session with {} is over: ",
        server.address
    );
    assert!(lines[0].starts_with(&start), "{lines:?}");
    assert!(words.iter().all(|w| lines[0].contains(w)), "{lines:?}");
}

#[test]
fn a_killed_worker_is_told_of_once_and_a_program_that_ends_itself_is_not() {
    let server = Server::start();
    let mut client = start(&server, &["until-error"], &[]);
    client.line_with("calling");
    let pid = client.pid();
    proc::signal(worker_of(&server.wait_for_sessions(1)[0]), libc::SIGKILL);
    client.line_with("error");
    client.finish();
    one_line(&server, pid, &["signal 9"]);

    let mut client = start(&server, &["hold", "1"], &[]);
    client.line_with("holding");
    client.goes_on_holding();
    assert_eq!(said(&server), [""; 0]);
}

#[test]
fn silence_is_to_be_had_and_so_is_more() {
    let server = Server::start();
    for (level, lines) in [("off", 0), ("error", 1)] {
        let mut client = start(&server, &["until-error"], &[("BUSBAR_LOG", level)]);
        client.line_with("calling");
        proc::signal(worker_of(&server.wait_for_sessions(1)[0]), libc::SIGKILL);
        client.line_with("error");
        client.finish();
        let said = said(&server);
        let told = said.iter().filter(|l| l.contains(" is over: "));
        assert_eq!(told.count(), lines, "{level}: {said:?}");
        server.wait_for_sessions(0);
    }
}

#[test]
fn each_process_tells_of_its_own() {
    let server = Server::start();
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    let script = "\"$0\" until-error & \"$0\" until-error; wait";
    let stderr = std::fs::File::create(server.path("stderr")).expect("a file");
    c.args(["run", "--server", &server.address, "--", "sh", "-c", script]);
    let mut both = Running::start(c.arg(PROGRAM).stderr(stderr));
    both.line_with("calling");
    both.line_with("calling");
    for session in server.wait_for_sessions(2) {
        proc::signal(worker_of(&session), libc::SIGKILL);
    }
    both.finish();
    let lines = said(&server);
    let each: HashSet<_> = lines.iter().filter_map(|l| l.split_once("]: ")).collect();
    let whose: HashSet<_> = each.iter().map(|(who, _)| who).collect();
    assert_eq!((lines.len(), whose.len()), (2, 2), "{lines:?}");
}

#[test]
fn a_server_that_dies_or_is_ended_says_why() {
    let server = Options::default().arg("--drain", "0s").start();
    let mut client = start(&server, &["until-error"], &[]);
    client.line_with("calling");
    let pid = client.pid();
    proc::signal(server.pid(), libc::SIGTERM);
    client.line_with("error");
    client.finish();
    // By the server's word, or by the worker's, which notices the end of the server.
    one_line(&server, pid, &["the server "]);

    let mut server = Server::start();
    let mut client = start(&server, &["until-error"], &[("BUSBAR_RESUME_TIMEOUT", "1")]);
    client.line_with("calling");
    let pid = client.pid();
    server.kill();
    client.line_with("error");
    client.finish();
    // The worker may have had the time to say that its server ended; the link was gone, otherwise.
    one_line(&server, pid, &[]);
}
