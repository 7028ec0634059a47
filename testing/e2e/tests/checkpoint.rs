//! Checkpoints of programs, as CUDA's functions take them: of a program's own session, of another
//! program's, beside others, and of nobody else's.

use busbar_client::config::Config;
use busbar_client::hello::ask;
use busbar_client::servers::Server as Line;
use busbar_control::checkpoint::{Reached, Step};
use busbar_control::hello::{Hello, Intent};
use busbar_e2e::guarded::{Guarded, refused};
use busbar_e2e::program::{Running, printed, remote, same_both_ways};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::{clear, tree};
use busbar_e2e::until;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

/// A program that says what it has on the device whenever it is asked.
fn answering(server: &Server, share: Option<&str>) -> Running {
    let mut c = remote(server, Path::new(PROGRAM));
    c.arg("answers");
    if let Some(share) = share {
        c.env("BUSBAR_SHARE", share);
    }
    let mut p = Running::start(&mut c);
    p.line_with("ready");
    p
}

/// What becomes of steps of a process.
fn steps(server: &Server, pid: u32, words: &[&str]) -> Vec<String> {
    let mut c = remote(server, Path::new(PROGRAM));
    c.args(["checkpoint", &pid.to_string()]).args(words);
    printed(&mut c).lines().map(str::to_owned).collect()
}

#[test]
fn a_program_takes_its_own_steps_as_a_driver_has_it() {
    let text = same_both_ways(Path::new(PROGRAM), "checkpoint-own");
    for line in [
        "unlock 401, state 0 0",
        "null 1, state 0 0",
        "lock 0, state 1 0",
        "checkpoint 0, state 2 0",
        "restore 0, state 1 0",
        "unlock 0, state 0 0",
        "lock-reserved 1, state 0 0",
        "0, all there: true",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
}

#[test]
fn another_program_waits_while_it_is_locked_and_has_everything_afterwards() {
    let server = Server::start();
    let mut p = answering(&server, None);
    p.say("");
    assert_eq!(p.line(), "had 0 true");
    let pid = p.pid();
    let said = steps(&server, pid, &["lock=2000", "checkpoint"]);
    assert_eq!(said, ["lock=2000 0, state 1 0", "checkpoint 0, state 2 0"]);
    let shown = |state: Value| {
        let all = server.sessions();
        let theirs = all.iter().find(|s| s["pid"] == pid).expect("its session");
        assert_eq!(theirs["checkpoint"], state);
    };
    shown("checkpointed".into());
    // What it asks for now it gets when it is unlocked, and its server answers others meanwhile.
    p.say("");
    let mut other = answering(&server, None);
    other.say("");
    assert_eq!(other.line(), "had 0 true");
    let said = steps(&server, pid, &["unlock", "restore", "unlock"]);
    assert_eq!(
        said,
        [
            "unlock 401, state 2 0",
            "restore 0, state 1 0",
            "unlock 0, state 0 0"
        ]
    );
    assert_eq!(p.line(), "had 1 true");
    shown("".into());
    assert!(p.finish().1.success());
    // Of what has ended, or was never there, nothing is locked.
    assert_eq!(
        steps(&server, pid, &["lock"]),
        ["lock 304, state 4294967295 304"]
    );
    let own = std::process::id();
    assert_eq!(
        steps(&server, own, &["lock"]),
        ["lock 3, state 4294967295 3"]
    );
}

#[test]
fn a_session_that_is_locked_ends_with_its_program() {
    let server = Server::start();
    for words in [&["lock"][..], &["lock", "checkpoint"]] {
        for asks in [false, true] {
            let mut p = answering(&server, None);
            steps(&server, p.pid(), words);
            if asks {
                p.say("");
            }
            p.kill();
            server.wait_for_sessions(0);
        }
    }
}

#[test]
fn others_have_the_device_while_a_program_with_a_share_of_it_is_locked() {
    let server = Server::start();
    let (mut a, mut b) = (
        answering(&server, Some("0.5")),
        answering(&server, Some("0.5")),
    );
    let ask = |p: &mut Running, n: u32| {
        p.say("");
        assert_eq!(p.line(), format!("had {n} true"));
    };
    for n in 0..3 {
        ask(&mut a, n);
        ask(&mut b, n);
    }
    steps(&server, a.pid(), &["lock", "checkpoint"]);
    a.say("");
    for n in 3..9 {
        ask(&mut b, n);
    }
    steps(&server, a.pid(), &["restore", "unlock"]);
    assert_eq!(a.line(), "had 3 true");
    ask(&mut b, 9);
    ask(&mut a, 4);
}

#[test]
fn the_command_has_a_session_wait_and_go_on() {
    let server = Server::start();
    let mut p = answering(&server, None);
    let all = server.wait_for_sessions(1);
    let session = all[0]["session"].as_str().expect("a name");
    let command = |words: &[&str]| {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        c.args(words).args(["--server", &server.address, session]);
        c
    };
    refused(&mut command(&["restore"]), &["it is not checkpointed"]);
    assert_eq!(printed(&mut command(&["checkpoint"])), "");
    let again = ["it is checkpointed already", "`busbar restore`"];
    refused(&mut command(&["checkpoint"]), &again);
    let mut ps = Command::new(&tree().busbar);
    clear(&mut ps);
    let shown = printed(ps.args(["ps", "--server", &server.address]));
    assert!(shown.contains("checkpointed: it waits until"), "{shown}");
    p.say("");
    assert_eq!(printed(&mut command(&["restore"])), "");
    assert_eq!(p.line(), "had 0 true");
    // One that a program has locked, and left so, goes on as well.
    steps(&server, p.pid(), &["lock"]);
    refused(
        &mut command(&["checkpoint"]),
        &["another program has locked it"],
    );
    assert_eq!(printed(&mut command(&["restore"])), "");
    p.say("");
    assert_eq!(p.line(), "had 1 true");
}

/// As many bytes as this machine has, in whole MiB.
fn much() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("it can be read");
    let all = text.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib = all.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    (kib.expect("a number") >> 10) << 20
}

#[test]
fn what_a_servers_memory_has_no_room_for_stays_where_it_is() {
    let more = much();
    let mib = (more >> 20) + 4096;
    let o = Options::default().env("FAKEDEV_MEMORY_MIB", &mib.to_string());
    let server = o.start();
    let mut c = remote(&server, Path::new(PROGRAM));
    let mut p = Running::start(c.args(["answers", &more.to_string()]));
    p.line_with("ready");
    let said = steps(&server, p.pid(), &["lock", "checkpoint", "unlock"]);
    let wanted = [
        "lock 0, state 1 0",
        "checkpoint 2, state 1 0",
        "unlock 0, state 0 0",
    ];
    assert_eq!(said, wanted);
    let all = server.sessions();
    let session = all[0]["session"].as_str().expect("a name");
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(["checkpoint", "--server", &server.address, session]);
    refused(&mut c, &["its server has no memory for what it has"]);
    p.say("");
    assert_eq!(p.line(), "had 0 true");
}

#[test]
fn a_session_takes_steps_for_its_tenant_and_for_nobody_else() {
    let g = Guarded::start_with(|o, _| o);
    let ann = g.line("ann", &["--tenant", "lab"]);
    let bob = g.line("bob", &["--tenant", "other"]);
    g.login(&ann);
    let mut c = g.run(PROGRAM, &["answers"]);
    let mut p = Running::start(c.env("BUSBAR_LOG", "error"));
    p.line_with("ready");
    let name = |s: &Value| s["session"].as_str().expect("a name").to_string();
    let session = name(&g.wait_for_sessions(1)[0]);
    let step = |line: &Line, session: &str, step| -> Result<Reached, String> {
        let mut hello = Hello::new(Intent::Checkpoint);
        hello.session = session.into();
        hello.checkpoint = step;
        let lines = vec![line.clone()];
        let config = Config {
            lines,
            ..Config::from_env()
        };
        ask(&config, &line.address, hello)
    };
    let lock = Step::Lock { timeout_ms: 1000 };
    for said in [step(&bob, &session, lock), step(&ann, "0123456789ab", lock)] {
        let why = said.expect_err("it is not theirs");
        assert!(why.contains("there is no session"), "{why}");
    }
    p.say("");
    assert_eq!(p.line(), "had 0 true");
    let locked = step(&ann, &session, lock).expect("it is theirs");
    assert_eq!((locked.status, locked.state), (0, 1));
    step(&ann, &session, Step::Unlock).expect("it is theirs");
    p.say("");
    assert_eq!(p.line(), "had 1 true");
    until("the server to have said so", || {
        g.server
            .log()
            .contains("session takes a step")
            .then_some(())
    });
}

#[test]
fn what_is_set_of_core_dumps_is_kept_and_none_is_begun() {
    let server = Server::start();
    let mut c = remote(&server, Path::new(PROGRAM));
    let text = printed(c.arg("dumps"));
    let lines: Vec<_> = text.lines().collect();
    for line in [
        "get 2 for all true: 0, 1, [1, 0, 0, 0, 0, 0, 0, 0]",
        "get 5 for all true: 0, 100, [0, 0, 0, 0, 0, 0, 0, 0]",
        "get 2 for all true: 1, 8, [0, 0, 0, 0, 0, 0, 0, 0]",
        "get 0 for all true: 1, 1, [0, 0, 0, 0, 0, 0, 0, 0]",
        "get 8 for all true: 1, 1, [0, 0, 0, 0, 0, 0, 0, 0]",
        "get 4 for all true: 0, 1, [0, 0, 0, 0, 0, 0, 0, 0]",
        "get 4 for all false: 1, 1, [0, 0, 0, 0, 0, 0, 0, 0]",
        // The context was there before anything was set for all.
        "after get 5 for all false: 0, 100, [0, 0, 0, 0, 0, 0, 0, 0]",
        "after get 7 for all false: 0, 4, [0, 0, 0, 0, 0, 0, 0, 0]",
        "after get 7 for all true: 0, 4, [1, 0, 0, 0, 0, 0, 0, 0]",
        // The flags say the same, and were set last.
        "after get 2 for all true: 0, 1, [1, 0, 0, 0, 0, 0, 0, 0]",
        "after get 3 for all true: 0, 1, [0, 0, 0, 0, 0, 0, 0, 0]",
        "mine get 5 for all false: 0, 5, [109, 105, 110, 101, 0, 0, 0, 0]",
        "mine get 5 for all true: 0, 4, [99, 111, 114, 101, 0, 0, 0, 0]",
        "mine get 5 for all false: 1, 3, [0, 0, 0, 0, 0, 0, 0, 0]",
        "new get 5 for all false: 0, 5, [99, 111, 114, 101, 0, 0, 0, 0]",
        "mine set 1 for all true: 0, 1, [0, 0, 0, 0, 0, 0, 0, 0]",
    ] {
        assert!(lines.contains(&line), "{line}: {text}");
    }
}
