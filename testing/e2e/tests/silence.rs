//! Peers that say nothing while their connections stay open.

use busbar_e2e::proc;
use busbar_e2e::program::{Running, native, printed, remote, remote_at};
use busbar_e2e::server::Server;
use busbar_e2e::until;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

fn program() -> &'static Path {
    Path::new(PROGRAM)
}

fn worker_of(server: &Server) -> u32 {
    let pid = server.wait_for_sessions(1)[0]["worker_pid"].as_u64();
    pid.expect("a session has a worker") as u32
}

/// A process that is stopped, until it is told to go on; it does not outlive this.
struct Stopped(u32);

impl Stopped {
    fn new(pid: u32) -> Self {
        proc::signal(pid, libc::SIGSTOP);
        Self(pid)
    }

    fn goes_on(self) {
        proc::signal(self.0, libc::SIGCONT);
        std::mem::forget(self);
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        proc::signal(self.0, libc::SIGKILL);
    }
}

/// A client that is soon impatient, and says what it sees to a file.
fn impatient<'c>(c: &'c mut Command, log: &Path, silence: &str, resume: &str) -> &'c mut Command {
    c.env("BUSBAR_LOG", format!("info:{}", log.display()))
        .env("BUSBAR_SILENCE_TIMEOUT", silence)
        .env("BUSBAR_RESUME_TIMEOUT", resume)
}

fn text(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}

fn wait_for_loss(log: &Path) {
    until("a link that counts as lost", || {
        text(log).contains("(Silent)").then_some(())
    });
}

#[test]
fn a_stopped_worker_is_an_error_in_the_end() {
    let server = Server::start();
    let log = server.path("client");
    let mut c = remote(&server, program());
    let mut client = Running::start(impatient(c.arg("until-error"), &log, "1", "1"));
    client.line_with("calling");
    let _stopped = Stopped::new(worker_of(&server));
    assert!(client.line_with("error").ends_with("then an error"));
    assert!(client.finish().1.success());
    let why = "the session's worker does not: it may have been stopped";
    assert!(text(&log).contains(why), "{}", text(&log));
}

#[test]
fn a_worker_that_goes_on_in_time_has_lost_nothing() {
    let server = Server::start();
    let log = server.path("client");
    let args = ["work", "300"];
    let wanted = printed(native(program()).args(args));
    let mut c = remote(&server, program());
    let mut client = Running::start(impatient(c.args(args), &log, "1", "60"));
    client.line_with("step 16");
    let stopped = Stopped::new(worker_of(&server));
    wait_for_loss(&log);
    stopped.goes_on();
    let digest = client.line_with("digest");
    assert!(wanted.ends_with(&format!("{digest}\n")), "{digest}");
    assert!(client.finish().1.success());
    assert!(text(&log).contains("the session goes on"));
}

#[test]
fn a_worker_that_is_busy_is_not_silent() {
    let server = Server::start();
    // One waits for a kernel; the other has sent more than the worker can take in meanwhile.
    for word in ["long-kernel", "clogged"] {
        let log = server.path(word);
        let mut c = remote(&server, program());
        let c = c.env("BUSBAR_SHM", "0");
        let mut client = Running::start(impatient(c.arg(word), &log, "1", "60"));
        client.line_with("busy");
        std::thread::sleep(Duration::from_secs(5));
        client.kill();
        assert!(!text(&log).contains("was lost"), "{word}: {}", text(&log));
    }
    server.wait_for_sessions(0);
}

#[test]
fn a_client_that_is_stopped_keeps_its_session() {
    let server = Server::start();
    let log = server.path("client");
    let args = ["work", "100"];
    let wanted = printed(native(program()).args(args));
    let mut c = remote(&server, program());
    let mut client = Running::start(impatient(c.args(args), &log, "1", "60"));
    client.line_with("step 16");
    let stopped = Stopped::new(client.pid());
    std::thread::sleep(Duration::from_secs(4));
    server.wait_for_sessions(1);
    stopped.goes_on();
    let digest = client.line_with("digest");
    assert!(wanted.ends_with(&format!("{digest}\n")), "{digest}");
    assert!(!text(&log).contains("was lost"), "{}", text(&log));
}

/// A proxy whose connections swallow what they get once they are told.
struct Swallower {
    address: String,
    /// What connections that are open are to do, and what later ones are.
    deaf: Arc<AtomicBool>,
    always: Arc<AtomicBool>,
}

fn pass(mut from: TcpStream, mut to: TcpStream, deaf: &AtomicBool) {
    let mut buf = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buf) {
        if !deaf.load(Ordering::Acquire) && to.write_all(&buf[..n]).is_err() {
            break;
        }
    }
    // A connection that has been swallowed stays open at its other end, too.
    if !deaf.load(Ordering::Acquire) {
        let _ = to.shutdown(Shutdown::Both);
    }
}

impl Swallower {
    fn before(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let to = server.address.clone();
        let (deaf, always) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (first, later) = (deaf.clone(), always.clone());
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let Ok(there) = TcpStream::connect(&to) else {
                    continue;
                };
                let told = first.load(Ordering::Acquire);
                let deaf = if told { later.clone() } else { first.clone() };
                let ends = [(&from, &there), (&there, &from)];
                for (a, b) in ends.map(|(a, b)| (a.try_clone(), b.try_clone())) {
                    let deaf = deaf.clone();
                    let (Ok(a), Ok(b)) = (a, b) else { continue };
                    std::thread::spawn(move || pass(a, b, &deaf));
                }
            }
        });
        Self {
            address,
            deaf,
            always,
        }
    }

    /// A program whose session stays on this way.
    fn client(&self, args: &[&str], log: &Path, resume: &str) -> Running {
        let mut c = remote_at(&self.address, program());
        c.env("BUSBAR_RDMA", "off");
        Running::start(impatient(c.args(args), log, "1", resume))
    }
}

#[test]
fn a_link_that_swallows_what_it_gets_is_replaced() {
    let server = Server::start();
    let proxy = Swallower::before(&server);
    let log = server.path("client");
    let args = ["work", "300"];
    let wanted = printed(native(program()).args(args));
    let mut client = proxy.client(&args, &log, "60");
    client.line_with("step 16");
    proxy.deaf.store(true, Ordering::Release);
    let digest = client.line_with("digest");
    assert!(wanted.ends_with(&format!("{digest}\n")), "{digest}");
    assert!(client.finish().1.success());
    assert!(text(&log).contains("(Silent)"), "{}", text(&log));
}

#[test]
fn links_that_all_swallow_are_an_error_in_the_end() {
    let server = Server::start();
    let proxy = Swallower::before(&server);
    let log = server.path("client");
    let mut client = proxy.client(&["until-error"], &log, "1");
    client.line_with("calling");
    proxy.always.store(true, Ordering::Release);
    proxy.deaf.store(true, Ordering::Release);
    assert!(client.line_with("error").ends_with("then an error"));
    assert!(client.finish().1.success());
    assert!(text(&log).contains("no answer in time"), "{}", text(&log));
}
