//! Idle sessions give way to one that lacks device memory, come back when they have something to
//! do, and lose nothing on the way.

use busbar_e2e::guarded::refused;
use busbar_e2e::program::{Running, native, printed, remote};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::{clear, tree};
use busbar_e2e::until;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");
/// What a program has: two of them do not fit.
const GIB: &str = "1073741824";

/// A machine with one device of 2 GiB.
struct Machine {
    server: Server,
    _together: TempDir,
}

/// Its server, where sessions give way once they have done nothing for a second, or never.
fn machine(swap: bool) -> Machine {
    let together = tempfile::tempdir().expect("a folder");
    let nvml = tree().fakenvml_library();
    let mut o = Options::default()
        .writes("FAKEDEV_TOGETHER", together.path())
        .arg("--nvml-library", nvml.to_str().expect("a path"))
        .env("FAKEDEV_MEMORY_MIB", "2048");
    if swap {
        o = o.arg("--swap-idle", "1s");
    }
    Machine {
        server: o.start(),
        _together: together,
    }
}

impl Machine {
    /// A program that says what it has on the device whenever it is asked.
    fn answering(&self, env: &[(&str, &str)]) -> Running {
        let mut c = remote(&self.server, Path::new(PROGRAM));
        c.args(["answers", GIB]).envs(env.iter().copied());
        let mut p = Running::start_for(&mut c, Duration::from_secs(120));
        p.line_with("ready");
        p
    }

    /// One that works without a pause.
    fn working(&self) -> Running {
        let mut c = remote(&self.server, Path::new(PROGRAM));
        c.args(["works", GIB]);
        Running::start_for(&mut c, Duration::from_secs(120))
    }

    fn session(&self, pid: u32) -> Value {
        let all = self.server.sessions();
        let theirs = all.into_iter().find(|s| s["pid"] == pid);
        theirs.expect("its session")
    }

    fn wait_until(&self, pid: u32, state: &str) {
        until(state, || {
            (self.session(pid)["checkpoint"] == state).then_some(())
        });
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        c.args(words).args(["--server", &self.server.address]);
        c
    }
}

fn ask(p: &mut Running, n: u32) {
    p.say("");
    assert_eq!(p.line(), format!("had {n} true"));
}

/// Longer than it takes to be idle, and for the server to have looked.
fn rest() {
    std::thread::sleep(Duration::from_millis(3500));
}

#[test]
fn an_idle_session_gives_way_and_comes_back_with_all_that_it_had() {
    let m = machine(true);
    let mut a = m.answering(&[]);
    ask(&mut a, 0);
    rest();
    let had = &m.session(a.pid())["device_memory"][0]["bytes"];
    assert!(had.as_u64() > Some(1 << 30), "{had}");
    let mut b = m.answering(&[]);
    assert_eq!(m.session(a.pid())["checkpoint"], "swapped");
    let shown = printed(&mut m.command(&["ps"]));
    assert!(shown.contains("swapped: what it has"), "{shown}");
    ask(&mut b, 0);
    // Back and forth: each is idle while the other is asked.
    for n in 1..4 {
        rest();
        ask(&mut a, n);
        m.wait_until(b.pid(), "swapped");
        rest();
        ask(&mut b, n);
        m.wait_until(a.pid(), "swapped");
    }
    // Where there is room both are there.
    b.kill();
    m.server.wait_for_sessions(1);
    ask(&mut a, 4);
    m.wait_until(a.pid(), "");
    assert!(a.finish().1.success());
}

#[test]
fn nobody_gives_way_who_works_or_was_promised_memory_or_where_it_is_off() {
    let fails = |m: &Machine| {
        let mut c = remote(&m.server, Path::new(PROGRAM));
        c.args(["answers", GIB]);
        let out = c.output().expect("it runs");
        assert!(!out.status.success());
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(!text.contains("ready"), "{text}");
    };
    let off = machine(false);
    let mut a = off.answering(&[]);
    rest();
    fails(&off);
    ask(&mut a, 0);

    let on = machine(true);
    let mut promised = on.answering(&[("BUSBAR_MEMORY", "1638MiB")]);
    rest();
    fails(&on);
    ask(&mut promised, 0);
    promised.kill();
    on.server.wait_for_sessions(0);

    let mut busy = on.working();
    busy.line_with("worked");
    rest();
    fails(&on);
    busy.line_with("worked");
    assert_eq!(on.session(busy.pid())["checkpoint"], "");
}

#[test]
fn sessions_that_are_all_at_work_have_the_device_by_turns() {
    let m = machine(true);
    let mut a = m.answering(&[]);
    ask(&mut a, 0);
    rest();
    // What an idle one would give up is free.
    let mut b = m.working();
    let free = b.line();
    let mib = free.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok());
    assert!(mib > Some(1536), "{free}");
    b.line_with("worked");
    for n in 1..3 {
        a.say("");
        assert_eq!(a.line(), format!("had {n} true"), "while the other works");
        b.line_with("worked");
    }
    assert!(
        m.server.log().contains("by_turns=true"),
        "{}",
        m.server.log()
    );
}

#[test]
fn programs_that_are_moved_in_the_middle_of_anything_print_what_they_print_natively() {
    const PROGRAMS: &str = "150";
    let args = ["random-large", GIB, PROGRAMS];
    let mut c = native(Path::new(PROGRAM));
    let mut alone = Running::start(c.args(args));
    alone.line_with("ready");
    alone.say("");
    let (wanted, status) = alone.finish();
    assert!(
        status.success() && wanted.lines().count() == 150,
        "{wanted}"
    );
    let m = machine(true);
    let start = || {
        let mut c = remote(&m.server, Path::new(PROGRAM));
        let mut p = Running::start_for(c.args(args), Duration::from_secs(180));
        p.line_with("ready");
        p
    };
    let mut a = start();
    rest();
    let mut b = start();
    a.say("");
    b.say("");
    for p in [a, b] {
        let (said, status) = p.finish();
        assert!(status.success() && said == wanted, "{said}");
    }
    let turns = m.server.log().matches("by_turns=true").count();
    assert!(turns > 0, "{}", m.server.log());
}

#[test]
fn one_that_has_given_way_ends_as_others_do() {
    let m = machine(true);
    for kill in [true, false] {
        let mut a = m.answering(&[]);
        rest();
        let b = m.answering(&[]);
        m.wait_until(a.pid(), "swapped");
        let name = m.session(a.pid())["session"].clone();
        let since = Instant::now();
        if kill {
            a.kill();
        } else {
            printed(&mut m.command(&["kill", name.as_str().expect("a name")]));
        }
        m.server.wait_for_sessions(1);
        assert!(since.elapsed() < Duration::from_secs(8));
        drop(b);
        m.server.wait_for_sessions(0);
    }
}

#[test]
fn to_other_programs_one_that_has_given_way_runs() {
    let m = machine(true);
    let mut a = m.answering(&[]);
    rest();
    let b = m.answering(&[]);
    m.wait_until(a.pid(), "swapped");
    let steps = |words: &[&str]| {
        let mut c = remote(&m.server, Path::new(PROGRAM));
        c.args(["checkpoint", &a.pid().to_string()]).args(words);
        printed(&mut c)
    };
    assert_eq!(steps(&["unlock"]), "unlock 401, state 0 0\n");
    drop(b);
    let said = steps(&["lock", "checkpoint", "restore", "unlock"]);
    let wanted = "lock 0, state 1 0\ncheckpoint 0, state 2 0\nrestore 0, state 1 0\n\
                  unlock 0, state 0 0\n";
    assert_eq!(said, wanted);
    ask(&mut a, 0);
}

#[test]
fn a_checkpoint_is_restored_only_where_there_is_room() {
    let m = machine(false);
    let mut a = m.answering(&[]);
    let session = m.session(a.pid())["session"].clone();
    let session = session.as_str().expect("a name");
    printed(&mut m.command(&["checkpoint", session]));
    let mut b = m.answering(&[]);
    // A driver that is asked now loses all that the session has.
    for _ in 0..2 {
        refused(
            &mut m.command(&["restore", session]),
            &["there is no room for it", "GPU 0 lacks"],
        );
    }
    b.kill();
    m.server.wait_for_sessions(1);
    printed(&mut m.command(&["restore", session]));
    ask(&mut a, 0);
}
