//! What profilers hear of calls and of devices, through a server that has CUPTI, and through one
//! that has none.

use busbar_e2e::program::{finished, printed, remote};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The program, which asks for CUPTI by its name.
fn program() -> &'static PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("activity");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/activity.c");
        let cc = Command::new("cc")
            .args(["-O1", "-o"])
            .arg(&out)
            .args([source, "-ldl"])
            .status();
        assert!(cc.expect("cc runs").success(), "the program compiles");
        out
    })
}

/// A server with such a library of CUPTI's.
fn server(library: &str) -> Server {
    Options::default().arg("--cupti-library", library).start()
}

fn with_cupti() -> Server {
    let library = tree().fakedev.join("libcupti.so.13");
    server(library.to_str().expect("a path"))
}

/// What the program says where there is CUPTI, as [`in_order`] has it.
const TOLD: &str = include_str!("../programs/activity.txt");

/// What is said with the lines of work in the order of its calls: that of two streams is done in
/// any order.
fn in_order(said: &str) -> String {
    let (mut all, mut work) = (String::new(), Vec::new());
    for line in said.lines().chain([""]) {
        if line.starts_with("for ") {
            work.push(line);
            continue;
        }
        work.sort_unstable();
        let both = work.drain(..).chain([line]);
        all.extend(both.flat_map(|l| [l, "\n"]));
    }
    all.pop();
    all
}

#[test]
fn calls_and_work_are_told_with_what_ties_them() {
    let server = with_cupti();
    for (shared, early) in [("1", "late"), ("0", "late"), ("1", "early")] {
        let mut c = remote(&server, program());
        let said = printed(c.arg(early).env("BUSBAR_SHM", shared));
        // Asked for early, it is asked for a second time, too.
        let said = match early {
            "early" => said.replacen("cuptiActivityEnable: 0\n", "", 1),
            _ => said,
        };
        assert_eq!(in_order(&said), TOLD, "BUSBAR_SHM={shared}, {early}");
    }
}

#[test]
fn without_cupti_there_are_calls_and_a_line_says_what_to_do() {
    let server = server("/bin/true");
    let mut c = remote(&server, program());
    let out = finished(c.env("BUSBAR_LOG", "warn"));
    let err = String::from_utf8_lossy(&out.stderr);
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}\n{err}");
    assert_eq!(err.matches("--cupti-library").count(), 1, "{err}");
    let of_work = |l: &&str| l.starts_with("for ");
    assert_eq!(said.lines().filter(of_work).count(), 0, "{said}");
    let calls = |text: &str| {
        let all = text.lines().filter(|l| l.starts_with("call "));
        all.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(calls(&said), calls(TOLD), "{said}");
}

#[test]
fn nobody_is_told_where_it_is_turned_off() {
    let server = with_cupti();
    let mut c = remote(&server, program());
    let out = finished(c.env("BUSBAR_CUPTI", "0"));
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(!said.contains("call "), "{said}");
}
