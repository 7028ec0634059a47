//! A new server takes the place of an old one: whoever has a session goes on, whoever comes is the
//! new one's, and nothing is promised twice.

use busbar_e2e::guarded::{Guarded, refused};
use busbar_e2e::program::{Running, clear, finished, native, printed, remote, remote_at};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::{guarded, proc, until};
use busbar_relay::{LinkSpec, Relay};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");
const TAKEN: &str = "another server has taken over";

fn program() -> &'static Path {
    Path::new(PROGRAM)
}

/// A server that was started by another one.
struct Heir(u32);

impl Drop for Heir {
    fn drop(&mut self) {
        proc::kill_all(vec![self.0]);
    }
}

fn heirs(log: &str) -> Vec<u32> {
    let lines = log
        .lines()
        .filter(|l| l.contains("a new server is started"));
    let pid = |l: &str| {
        let (_, rest) = l.split_once("pid=")?;
        rest.split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    };
    lines.filter_map(pid).collect()
}

/// Has the server that is there make room for another, the `n`th.
fn taken_over(server: &Server, pid: u32, n: usize) -> Heir {
    proc::signal(pid, libc::SIGUSR2);
    until(TAKEN, || {
        (server.log().matches(TAKEN).count() == n).then_some(())
    });
    Heir(*heirs(&server.log()).last().expect("its process"))
}

fn hold(c: &mut Command) -> Running {
    let mut client = Running::start(c.args(["hold", "1"]));
    client.line_with("holding");
    client
}

fn busbar(server: &Server, args: &[&str]) -> Command {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(args).args(["--server", &server.address]);
    c
}

fn workers(server: &Server) -> Vec<u64> {
    let all = server.sessions();
    let pid = |s: &Value| s["worker_pid"].as_u64();
    all.iter().filter_map(pid).collect()
}

#[test]
fn sessions_go_on_and_come_back_and_new_ones_are_the_new_servers() {
    let folder = tempfile::tempdir().expect("a folder");
    let audit = folder.path().join("audit").display().to_string();
    let server = Options::default().arg("--audit", &audit).start();
    let args = ["work", "400"];
    let wanted = printed(native(program()).args(args));
    let link = busbar_relay::Options::new("127.0.0.1:0", &server.address, LinkSpec::default());
    let relay = Relay::start(link).expect("the relay starts");
    let mut works = Running::start(remote_at(&relay.address().to_string(), program()).args(args));
    works.line_with("step 16");
    let old = hold(&mut remote(&server, program()));
    server.wait_for_sessions(2);
    let watched = proc::Watched::new(server.pid()).expect("it lives");
    let heir = taken_over(&server, server.pid(), 1);
    // Whoever has lost the connection finds the session again, by way of the new server.
    relay.cut(Duration::from_millis(100));
    let new = hold(&mut remote(&server, program()));
    let all = server.wait_for_sessions(3);
    let at_old = proc::children(server.pid());
    let theirs = |s: &&Value| at_old.contains(&(s["worker_pid"].as_u64().unwrap_or(0) as u32));
    assert_eq!(all.iter().filter(theirs).count(), 2, "{all:?}");
    let digest = works.line_with("digest");
    assert!(wanted.ends_with(&format!("{digest}\n")), "{digest}");
    assert!(works.finish().1.success());
    assert!(!watched.ends_within(Duration::ZERO), "a session is there");
    old.goes_on_holding();
    assert!(
        watched.ends_within(busbar_e2e::PATIENCE),
        "{}",
        server.log()
    );
    // What comes and goes is the new server's alone.
    new.goes_on_holding();
    printed(remote(&server, program()).args(args));
    server.wait_for_sessions(0);
    let heirs_end = proc::Watched::new(heir.0).expect("it lives");
    proc::signal(heir.0, libc::SIGTERM);
    assert!(heirs_end.ends_within(busbar_e2e::PATIENCE));
    // Both have written one chain.
    let mut verify = Command::new(&tree().busbar);
    printed(verify.args(["audit", "verify", &audit]));
    let text = std::fs::read_to_string(&audit).expect("it is there");
    let count = |event: &str| text.matches(&format!("\"event\":\"{event}\"")).count();
    let all = [
        "server begins",
        "session begins",
        "session ends",
        "server ends",
    ];
    assert_eq!(all.map(count), [2, 4, 4, 2], "{text}");
}

#[test]
fn what_is_promised_at_the_old_server_is_promised_to_nobody_at_the_new_one() {
    let server = Options::default().env("FAKEDEV_MEMORY_MIB", "2048").start();
    let mut part = hold(remote(&server, program()).env("BUSBAR_MEMORY", "1500MiB"));
    let heir = taken_over(&server, server.pid(), 1);
    let much = |server: &Server| {
        let mut c = remote(server, program());
        c.args(["work", "1"]).env("BUSBAR_MEMORY", "1GiB");
        finished(c.env("BUSBAR_LOG", "error"))
    };
    let out = much(&server);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && said.contains("promised"), "{said}");
    // Its owner can change it, by way of the new server, and end it.
    let name = server.wait_for_sessions(1)[0]["session"].clone();
    let name = name.as_str().expect("a name");
    printed(&mut busbar(&server, &["set", name, "-m", "512MiB"]));
    assert!(much(&server).status.success());
    let limit = &server.sessions()[0]["memory_limit"];
    assert_eq!(limit, 512 << 20, "the old server knows, too");
    // Its path is what no other server than its own can change, nor anything said with that.
    let mut set = busbar(&server, &["set", name, "--path", "tcp", "-m", "1GiB"]);
    refused(&mut set, &[name, "keep their paths until they end"]);
    assert_eq!(server.sessions()[0]["memory_limit"], 512 << 20);
    printed(&mut busbar(&server, &["kill", name]));
    server.wait_for_sessions(0);
    part.kill();
    until("the old server's end", || {
        let text = server.log();
        text.contains("the server before this one has ended")
            .then_some(())
    });
    drop(heir);
}

#[test]
fn leases_are_kept_and_whoever_waits_goes_on_waiting() {
    let server = Server::start();
    let run = |more: &[&str]| {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        c.args(["run", "--server", &server.address, "--gpus", "1"]);
        c.args(more).arg("--").arg(PROGRAM);
        c
    };
    let mut first = hold(&mut run(&[]));
    let said = server.path("waits");
    let stderr = std::fs::File::create(&said).expect("a file");
    let mut waits = run(&["--wait", "2m"]);
    let mut waits = Running::start(waits.args(["hold", "1"]).stderr(stderr));
    until("somebody in line", || {
        let text = std::fs::read_to_string(&said).unwrap_or_default();
        text.contains("place 1").then_some(())
    });
    let second = taken_over(&server, server.pid(), 1);
    let third = taken_over(&server, second.0, 2);
    let no = "not enough free GPUs";
    guarded::refused(run(&["--wait", "0s"]).args(["work", "1"]), &[no]);
    let leases = || server.status()["leases"].as_array().map_or(0, Vec::len);
    assert_eq!(leases(), 1);
    assert_eq!(workers(&server).len(), 1);
    first.go_on();
    first.line_with("after 0 [7, 7");
    assert!(first.finish().1.success());
    // Its turn comes at the newest.
    waits.line_with("holding");
    let at_third = proc::children(third.0);
    assert!(
        workers(&server)
            .iter()
            .all(|w| at_third.contains(&(*w as u32)))
    );
    waits.goes_on_holding();
    until("no lease", || (leases() == 0).then_some(()));
}

#[test]
fn a_new_server_that_does_not_start_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, "").expect("a file");
    let audit = folder.path().join("audit").display().to_string();
    let server = Options::default()
        .arg("--policy", &policy.display().to_string())
        .arg("--audit", &audit)
        .start();
    let client = hold(&mut remote(&server, program()));
    std::fs::write(&policy, "[default]\nsesions = 4\n").expect("a file");
    let goes_on = "the new server has not taken over, and this one goes on";
    for n in 1..3 {
        proc::signal(server.pid(), libc::SIGUSR2);
        until(goes_on, || {
            (server.log().matches(goes_on).count() == n).then_some(())
        });
    }
    assert!(server.log().contains("there is no key `sesions`"));
    printed(remote(&server, program()).args(["work", "1"]));
    client.goes_on_holding();
    server.wait_for_sessions(0);
    printed(Command::new(&tree().busbar).args(["audit", "verify", &audit]));
}

#[test]
fn a_new_server_that_dies_takes_its_own_sessions_along_and_no_others() {
    let server = Server::start();
    let link = busbar_relay::Options::new("127.0.0.1:0", &server.address, LinkSpec::default());
    let relay = Relay::start(link).expect("the relay starts");
    let old = hold(&mut remote_at(&relay.address().to_string(), program()));
    let heir = taken_over(&server, server.pid(), 1);
    drop(heir);
    until("the old one again", || {
        let text = server.log();
        text.contains("and this one goes on").then_some(())
    });
    relay.cut(Duration::from_millis(100));
    let out = finished(
        remote(&server, program())
            .args(["work", "1"])
            .env("BUSBAR_LOG", "error"),
    );
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("is being shut down"), "{said}");
    old.goes_on_holding();
}

/// A session that goes on at the old server has no more than others: its tenant's rules, as they
/// are now, are for it, and what it was opened with can be revoked. The key is the one that clients
/// know.
#[test]
fn the_rules_of_now_are_for_sessions_of_the_old_server() {
    let mut policy = std::path::PathBuf::new();
    let g = Guarded::start_with(|o, folder| {
        policy = folder.join("policy.toml");
        let text = "[default]\nsessions = 2\nmemory = \"1500MiB\"\n";
        std::fs::write(&policy, text).expect("a file");
        o.arg("--policy", &policy.display().to_string())
    });
    g.login(&g.line("ann", &["--tenant", "lab"]));
    let mut old = hold(&mut g.run(PROGRAM, &[]));
    let _heir = taken_over(&g.server, g.server.pid(), 1);
    let all = g.wait_for_sessions(1);
    let name = all[0]["session"].as_str().expect("a name");
    // More than its tenant may have it does not get by way of the new server.
    refused(
        &mut g.busbar(&["set", name, "-m", "2GiB"]),
        &["may ask for 1.5 GiB"],
    );
    printed(&mut g.busbar(&["set", name, "-m", "512MiB"]));
    let mut new = Running::start(&mut g.run(PROGRAM, &["until-error"]));
    new.line_with("calling");
    let another = |words: &str| {
        let out = finished(g.run(PROGRAM, &["work", "1"]).env("BUSBAR_LOG", "error"));
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && said.contains(words), "{said}");
    };
    another("may have 2 session(s) at a time");
    new.kill();
    g.wait_for_sessions(1);
    let text = "[default]\nsessions = 1\nmemory = \"1500MiB\"\n";
    std::fs::write(&policy, text).expect("a file");
    until("the new policy", || {
        let out = finished(g.run(PROGRAM, &["work", "1"]).env("BUSBAR_LOG", "error"));
        let said = String::from_utf8_lossy(&out.stderr);
        said.contains("may have 1 session(s) at a time")
            .then_some(())
    });
    g.token(&["revoke", "ann"]);
    until("the end of the old server's session", || {
        let log = g.server.log();
        // How its worker ends then depends on how fast it says goodbye.
        let mut ends = log.lines().filter(|l| l.contains("session is ended"));
        ends.any(|l| l.contains(name) && l.contains("revoked"))
            .then_some(())
    });
    old.kill();
}
