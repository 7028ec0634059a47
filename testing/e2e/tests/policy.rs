//! What tenants may do: what the file says, who sees what, and what happens when the file changes.

use busbar_e2e::guarded::{Guarded, refused};
use busbar_e2e::program::{Running, clear, finished, printed, remote};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::until;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

/// A server for programs of this machine, with a policy.
fn with_policy(text: &str) -> (Server, tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("policy.toml");
    fs::write(&path, text).expect("a file");
    let options = Options::default().arg("--policy", &path.display().to_string());
    (options.start(), folder, path)
}

fn run(server: &Server, args: &[&str]) -> Command {
    let mut c = remote(server, Path::new(PROGRAM));
    c.args(args);
    c
}

#[test]
fn a_file_that_is_not_good_is_one_sentence_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("policy.toml").display().to_string();
    fs::write(&path, "[default]\n\n  sesions = 4\n").expect("a file");
    let options = Options::default().arg("--policy", &path);
    let said = options.try_start().err().expect("it does not start");
    let last = said.lines().last().unwrap_or_default();
    for words in [
        &path,
        "line 3, column 3",
        "there is no key `sesions`: choose from `admin`",
    ] {
        assert!(last.contains(words), "{said}");
    }
    fs::write(&path, "[tenant.lab]\nrdma_device = \"a:b\"").expect("a file");
    let said = options.try_start().err().expect("it does not start");
    assert!(said.contains("is not valid: rdma_device: `b`"), "{said}");
    fs::write(&path, "[tenant.lab]\ndevices = [0, 5]").expect("a file");
    let said = options.try_start().err().expect("it does not start");
    assert!(
        said.contains("gives `lab` GPU 5, which this server does not offer"),
        "{said}"
    );
}

/// The program fails, and says these words.
fn fails(c: &mut Command, words: &str) {
    let out = finished(c.env("BUSBAR_LOG", "error"));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && said.contains(words), "{said}");
}

#[test]
fn a_new_policy_holds_within_a_second_and_a_bad_one_not_at_all() {
    let (server, _folder, path) = with_policy("[default]\nsessions = 1\n");
    let say = |text: &str| fs::write(&path, text).expect("a file");
    let logged = |words: &str, n: usize| {
        until(words, || {
            (server.log().matches(words).count() == n).then_some(())
        });
    };
    let work = || run(&server, &["work", "1"]);
    let mut held = Running::start(&mut run(&server, &["hold", "1"]));
    held.line_with("holding");
    fails(
        &mut work(),
        "may have 1 session(s) at a time, and has them: end one",
    );
    say("[default]\nsessions = 2\n");
    logged("a new policy is in force", 1);
    printed(&mut work());
    say("[default]\nsessions = no\n");
    logged("the policy stays as it was", 1);
    printed(&mut work());
    // At a signal it is read whether it has changed or not.
    // SAFETY: a process that this test has started.
    assert_eq!(unsafe { libc::kill(server.pid() as i32, libc::SIGHUP) }, 0);
    logged("the policy stays as it was", 2);
    assert!(
        server.log().contains("line 2, column 12"),
        "{}",
        server.log()
    );
    say("[default]\nsessions = 0\n");
    logged("a new policy is in force", 2);
    // This is known before the program begins.
    refused(
        &mut work(),
        &["may open no session: ask the server's operator"],
    );
    // What is open stays open.
    held.goes_on_holding();
}

#[test]
fn sessions_are_opened_as_often_as_the_policy_says() {
    let (server, _folder, _) = with_policy("[default]\nopens_per_minute = 2\n");
    printed(&mut run(&server, &["work", "1"]));
    printed(&mut run(&server, &["work", "1"]));
    fails(
        &mut run(&server, &["work", "1"]),
        "may open 2 session(s) a minute: try again in ",
    );
}

#[test]
fn one_program_after_the_other_finds_the_place_free() {
    let (server, _folder, _) = with_policy("[default]\nsessions = 1\nleases = 1\n");
    for share in [&[][..], &["--gpus", "1"]] {
        for _ in 0..3 {
            let mut c = Command::new(&tree().busbar);
            clear(&mut c);
            c.args(["run", "--server", &server.address]).args(share);
            printed(c.args(["--", PROGRAM, "work", "1"]));
        }
    }
}

#[test]
fn tenants_see_their_own_and_an_admin_sees_all() {
    let policy = "[default]\napi = [\"opencl\"]\n[tenant.lab]\napi = [\"cuda\"]\nleases = 0\n\
                  [tenant.school]\napi = [\"cuda\"]\ndevices = [1]\n[tenant.ops]\nadmin = true\n";
    let g = Guarded::start_with(|options, folder| {
        let path = folder.join("policy.toml");
        fs::write(&path, policy).expect("a file");
        let path = path.display().to_string();
        options.env("FAKEDEV_DEVICES", "2").arg("--policy", &path)
    });
    let line = |name: &str, more: &[&str]| g.line(name, more).line();
    let ann = line("ann", &["--tenant", "lab"]);
    let bob = line("bob", &["--tenant", "school"]);
    let [ops, root] = [
        line("olga", &["--tenant", "ops"]),
        line("root", &["--admin"]),
    ];
    let eve = line("eve", &[]);
    assert!(g.token(&["list"]).contains("good, admin"));
    let run = |who: &str, more: &[&str], words: &[&str]| {
        g.busbar(&[&["run", "--server", who], more, &["--", PROGRAM], words].concat())
    };
    let mut bobs = Running::start(&mut run(&bob, &["--gpus", "1"], &["hold", "1"]));
    bobs.line_with("holding");
    let mut anns = Running::start(&mut run(&ann, &[], &["hold", "1"]));
    anns.line_with("holding");
    let status = |who: &str| {
        let out = printed(&mut g.busbar(&["ps", "--json", "--server", who]));
        let list: Value = serde_json::from_str(&out).expect("JSON");
        list[0]["status"].clone()
    };
    let tokens = |who: &str| {
        let all = status(who)["sessions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let mut all: Vec<_> = all.iter().map(|s| s["token"].to_string()).collect();
        all.sort();
        all.join(" ")
    };
    assert_eq!(tokens(&ann), "\"ann\"");
    assert_eq!(tokens(&bob), "\"bob\"");
    assert_eq!(tokens(&eve), "");
    for admin in [&ops, &root] {
        assert_eq!(tokens(admin), "\"ann\" \"bob\"");
        assert_eq!(status(admin)["leases"].as_array().map(Vec::len), Some(1));
    }
    // Bob sees the one device that he may use; ann sees that the other is taken, and not by whom.
    let numbers = |who: &str| {
        let all = status(who)["devices"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let each = all
            .iter()
            .map(|d| (d["ordinal"].clone(), d["lease"].clone()));
        each.collect::<Vec<_>>()
    };
    assert_eq!(numbers(&bob).len(), 1);
    assert_eq!(numbers(&bob)[0].0, 1);
    assert_eq!(numbers(&ann)[1].1, "another tenant");
    assert!(numbers(&root)[1].1.to_string().contains("driver_program"));
    assert!(status(&ann)["leases"].as_array().is_none_or(Vec::is_empty));
    refused(
        &mut run(&eve, &[], &["work", "1"]),
        &["tenant `default` may not use cuda"],
    );
    refused(
        &mut run(&ann, &["--gpus", "1"], &["work", "1"]),
        &["`lab` may reserve no GPU"],
    );
    bobs.goes_on_holding();
    anns.goes_on_holding();
}

#[test]
fn a_session_is_ended_by_its_tenant_or_an_admin_and_by_nobody_else() {
    let g = Guarded::start_with(|o, folder| {
        o.arg("--audit", folder.join("audit").to_str().expect("a path"))
    });
    let ann = g.line("ann", &["--tenant", "lab"]);
    let bob = g.line("bob", &["--tenant", "other"]);
    let ops = g.line("ops", &["--tenant", "ops", "--admin"]);
    let kill = |line: &busbar_client::servers::Server, sessions: &[&str]| {
        let mut c = g.busbar(&["kill", "--server", &line.line()]);
        c.args(sessions);
        c
    };
    let name = |s: &Value| s["session"].as_str().expect("a name").to_string();
    for by in [&ann, &ops] {
        g.login(&ann);
        let mut c = g.run(PROGRAM, &["hold", "1"]);
        let mut held = Running::start(c.env("BUSBAR_LOG", "error"));
        held.line_with("holding");
        let session = name(&g.wait_for_sessions(1)[0]);
        refused(
            &mut kill(&bob, &[&session]),
            &["there is no session", "that is yours"],
        );
        assert_eq!(name(&g.wait_for_sessions(1)[0]), session);
        // One that is not there keeps no other.
        let out = finished(&mut kill(by, &["0123456789ab", &session]));
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(125), "{said}");
        assert!(
            said.contains("0123456789ab") && said.lines().count() == 1,
            "{said}"
        );
        assert!(g.sessions().is_empty(), "it has ended when that is said");
        let (rest, _) = held.finish();
        assert!(!rest.starts_with("after 0"), "its calls fail: {rest}");
    }
    let log = g.server.log();
    assert!(
        log.matches("has ended it (`busbar kill`)").count() >= 2,
        "{log}"
    );
    let audit = fs::read_to_string(g.path("audit")).expect("an audit");
    assert_eq!(audit.matches("session killed").count(), 2, "{audit}");
}
