//! What a server notes of those who come, and that nobody can change it unseen.

use busbar_e2e::guarded::Guarded;
use busbar_e2e::program::{clear, finished, printed};
use busbar_e2e::server::Options;
use busbar_e2e::tree::tree;
use busbar_e2e::until;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

fn verify(file: &Path) -> Output {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    finished(c.args(["audit", "verify"]).arg(file))
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("an audit");
    let json = |l: &str| serde_json::from_str(l.split_once(' ').expect("a hash").1).expect("JSON");
    text.lines().map(json).collect()
}

#[test]
fn each_session_lease_and_refusal_has_a_line_and_no_line_can_be_changed_unseen() {
    let g = Guarded::start_with(|o, folder| {
        o.arg("--audit", folder.join("audit").to_str().expect("a path"))
    });
    let file = g.path("audit");
    let ann = g.line("ann", &["--tenant", "lab"]);
    g.login(&ann);
    printed(&mut g.run(PROGRAM, &["random", "4", "10"]));
    printed(&mut g.busbar(&["run", "--gpus", "1", "--", "true"]));
    g.token(&["revoke", "ann"]);
    assert!(
        !finished(&mut g.run(PROGRAM, &["random", "4", "10"]))
            .status
            .success()
    );
    let wanted = [
        "server begins",
        "session begins",
        "session ends",
        "lease begins",
        "lease ends",
    ];
    let all = until("all lines", || {
        let all = lines(&file);
        let has = |event: &&str| all.iter().any(|l| l["event"] == **event);
        (wanted.iter().all(has) && has(&"refused")).then_some(all)
    });
    let of = |event: &str| {
        all.iter()
            .find(|l| l["event"] == event)
            .expect("it is there")
    };
    let begins = of("session begins");
    assert_eq!(
        (&begins["tenant"], &begins["token"]),
        (&"lab".into(), &"ann".into())
    );
    assert_eq!(begins["session"], of("session ends")["session"]);
    let refused = all.iter().filter(|l| l["event"] == "refused");
    assert!(refused.filter(|l| l["code"] == "token").count() > 0);
    let text = std::fs::read_to_string(&file).expect("an audit");
    assert!(!text.contains(&ann.token), "no secret is in it");
    let out = verify(&file);
    assert!(out.status.success(), "{out:?}");
    let copy = g.path("copy");
    std::fs::write(&copy, text.replacen("lab", "law", 1)).expect("room");
    let line = text
        .lines()
        .position(|l| l.contains("lab"))
        .expect("a line")
        + 1;
    let out = verify(&copy);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(125), "{said}");
    assert!(said.contains(&format!("line {line} ")), "{said}");
}

#[test]
fn what_cannot_be_noted_is_not_done() {
    // A disk that is full.
    let server = Options::default().arg("--audit", "/dev/full").try_start();
    let log = server.err().expect("it does not start");
    assert!(log.contains("audit"), "{log}");
}
