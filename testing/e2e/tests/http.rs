//! The HTTP port: what it shows of real sessions, who is let in, and what happens to those who
//! misuse it.

use busbar_e2e::authority::Authority;
use busbar_e2e::guarded::Guarded;
use busbar_e2e::http::Caller;
use busbar_e2e::program::{Running, clear, printed, remote};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::{proc, until};
use serde_json::Value;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

/// A server with the port, in clear.
fn open() -> (Server, Caller) {
    let server = Options::default().arg("--http", "127.0.0.1:0").start();
    let caller = Caller::of(&server);
    (server, caller)
}

fn run(server: &Server, args: &[&str]) -> Command {
    let mut c = remote(server, Path::new(PROGRAM));
    c.args(args);
    c
}

fn holding(c: &mut Command) -> Running {
    let mut held = Running::start(c);
    held.line_with("holding");
    held
}

/// The sessions that somebody sees, once they are `n`.
fn sessions(caller: &Caller, n: usize) -> Vec<Value> {
    until(&format!("{n} session(s)"), || {
        let all = caller.get("/v1/sessions").json();
        all.as_array().cloned().filter(|all| all.len() == n)
    })
}

fn path(session: &Value) -> String {
    format!("/v1/sessions/{}", session["name"].as_str().expect("a name"))
}

#[test]
fn sessions_are_seen_changed_and_ended() {
    let (server, caller) = open();
    assert_eq!(sessions(&caller, 0), [0; 0]);
    let held = holding(&mut run(&server, &["hold", "1"]));
    let shown = sessions(&caller, 1).remove(0);
    let ps = server.wait_for_sessions(1).remove(0);
    for (name, same) in [
        ("name", "session"),
        ("pid", "pid"),
        ("user", "user"),
        ("program", "program"),
        ("host", "host"),
        ("opened", "opened"),
    ] {
        assert_eq!(shown[name], ps[same], "{shown} {ps}");
    }
    assert_eq!(shown["pid"], held.pid());
    assert_eq!(shown["devices"], serde_json::json!(["cuda:0"]));
    assert!(shown["memory"]["used"].as_u64() > Some(0), "{shown}");
    let device = caller.get("/v1/devices").json()[0].clone();
    assert_eq!(
        (&device["sessions"], &device["id"]),
        (&1.into(), &"cuda:0".into())
    );
    assert_eq!(caller.get("/v1/server").json()["sessions"], 1);
    let patch = r#"{"share":0.5,"memory":1073741824}"#;
    let changed = caller.call("PATCH", &path(&shown), patch).json();
    assert_eq!(
        (&changed["share"], &changed["memory"]["promised"]),
        (&0.5.into(), &true.into())
    );
    assert_eq!(server.sessions()[0]["share"], 500);
    assert_eq!(caller.get("/v1/devices").json()[0]["share_promised"], 0.5);
    let much = caller.call("PATCH", &path(&shown), r#"{"memory":1152921504606846976}"#);
    assert_eq!(much.status, 409, "{much:?}");
    let quota = caller.get("/v1/quotas").json()[0].clone();
    assert_eq!(quota["sessions"]["used"], 1, "{quota}");
    drop(held);
    sessions(&caller, 0);

    let mut calls = Running::start(&mut run(&server, &["until-error"]));
    calls.line_with("calling");
    let shown = sessions(&caller, 1).remove(0);
    assert_eq!(caller.call("DELETE", &path(&shown), "").status, 202);
    calls.line_with("error");
    calls.finish();
    sessions(&caller, 0);
    assert_eq!(caller.call("DELETE", &path(&shown), "").status, 404);
    assert!(
        server.log().contains("session is ended"),
        "{}",
        server.log()
    );
}

/// What a path lists, once there are `n`.
fn listed(caller: &Caller, path: &str, n: usize) -> Vec<Value> {
    until(&format!("{n} of {path}"), || {
        let all = caller.get(path).json();
        all.as_array().cloned().filter(|all| all.len() == n)
    })
}

#[test]
fn leases_show_their_parts_and_the_line_why_it_stands() {
    let (server, caller) = open();
    let busbar = |args: &[&str]| {
        let mut c = Command::new(&busbar_e2e::tree::tree().busbar);
        clear(&mut c);
        c.args([args, &["--server", &server.address]].concat());
        c
    };
    let wish = ["request", "-n", "1", "-m", "16MiB", "-p", "0.25"];
    let id = printed(&mut busbar(&wish));
    let lease = listed(&caller, "/v1/leases", 1).remove(0);
    let part = serde_json::json!({ "whole": false, "memory": 16 << 20, "share": 0.25 });
    assert_eq!(lease["part"], part, "{lease}");
    let ends = lease["ends"].as_u64().expect("it is kept for a time");
    assert!(ends > now() && ends < now() + 7200, "{lease}");
    let waits = ["request", "-n", "1", "--wait", "5m", "--for", "1m"];
    let mut waits = Running::start(&mut busbar(&waits));
    let w = listed(&caller, "/v1/waiting", 1).remove(0);
    assert_eq!((&w["place"], &w["wanted"]), (&1.into(), &1.into()), "{w}");
    assert_eq!(w["part"]["whole"], true, "{w}");
    let why = w["waits"].as_str().unwrap_or_default();
    let holder = lease["holder"].as_str().expect("a holder");
    assert_eq!(why, format!("held by {holder}"));
    assert_eq!(metric(&caller, "busbar_waiting"), 1.0);
    assert_eq!(metric(&caller, "busbar_leases"), 1.0);
    printed(&mut busbar(&["release", id.trim()]));
    assert!(waits.wait().success());
    listed(&caller, "/v1/waiting", 0);
    assert_eq!(listed(&caller, "/v1/leases", 1)[0]["part"]["whole"], true);
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| d.as_secs())
}

#[test]
fn a_tenant_sees_and_ends_its_own() {
    let g = Guarded::start_with(|o, _| o.arg("--http", "127.0.0.1:0"));
    let ann = g.line("ann", &["--tenant", "lab"]);
    g.login(&ann);
    let line = |name: &str, more: &[&str]| Caller::with(&g, &g.line(name, more));
    let (bob, ops) = (
        line("bob", &["--tenant", "art"]),
        line("ops", &["--tenant", "ops", "--admin"]),
    );
    let ann = Caller::with(&g, &ann);
    let held = holding(&mut g.run(PROGRAM, &["hold", "1"]));
    let shown = sessions(&ann, 1).remove(0);
    assert_eq!(
        (&shown["tenant"], &shown["token"]),
        (&"lab".into(), &"ann".into())
    );
    assert_eq!(sessions(&ops, 1)[0]["name"], shown["name"]);
    sessions(&bob, 0);
    for (method, body) in [("GET", ""), ("PATCH", r#"{"share":0.5}"#), ("DELETE", "")] {
        let said = bob.call(method, &path(&shown), body);
        assert_eq!(said.status, 404, "{said:?}");
        assert_eq!(said.json()["code"], "session");
    }
    let tenants = |of: &Caller| {
        let all = of.get("/v1/quotas").json();
        let all = all.as_array().cloned().unwrap_or_default();
        let names = all.iter().filter_map(|q| q["tenant"].as_str());
        names.map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(tenants(&bob), ["art"]);
    assert_eq!(tenants(&ops), ["lab", "ops"]);
    for token in ["", "a-token-that-nobody-has-made"] {
        let said = ann.clone().token(token).get("/v1/sessions");
        assert_eq!((said.status, &said.json()["code"]), (401, &"token".into()));
    }
    // In clear nobody is answered, whatever they show.
    let said = Caller::of(&g.server).get("/v1/sessions");
    assert_eq!((said.status, said.body.contains("https://")), (400, true));
    held.goes_on_holding();
    g.token(&["revoke", "ann"]);
    until("an end of the token", || {
        (ann.get("/v1/sessions").status == 401).then_some(())
    });
}

#[test]
fn a_certificate_says_who_somebody_is() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let g = Guarded::certified(&ours, |o| o.arg("--http", "127.0.0.1:0"));
    let line = g.line("ann", &["--tenant", "lab"]);
    let nobody = Caller::with(&g, &line).token("");
    assert_eq!(nobody.get("/v1/sessions").status, 401);
    let alice = nobody
        .clone()
        .certificate(ours.sign("busbar://lab/alice", 2100));
    assert_eq!(alice.get("/v1/quotas").json()[0]["tenant"], "lab");
    let other = nobody
        .clone()
        .certificate(ours.sign("https://elsewhere/x", 2100));
    assert_eq!(other.get("/v1/quotas").status, 401);
    let stranger = nobody.certificate(theirs.sign("busbar://lab/alice", 2100));
    let said = std::panic::catch_unwind(|| stranger.get("/v1/quotas"));
    assert!(said.is_err(), "the handshake ends: {said:?}");
}

#[test]
fn a_port_for_others_is_one_that_knows_them() {
    let said = Options::default().arg("--http", "0.0.0.0:0").try_start();
    let said = said.err().expect("it does not start");
    let last = said.lines().last().unwrap_or_default();
    assert!(
        last.contains("asks nobody who they are: add --tls"),
        "{said}"
    );
    let said = Options::default().arg("--http", "nowhere").try_start();
    let said = said.err().expect("it does not start");
    assert!(said.contains("say 127.0.0.1:7480"), "{said}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = taken.local_addr().expect("an address").to_string();
    let said = Options::default().arg("--http", &at).try_start();
    let said = said.err().expect("it does not start");
    assert!(said.contains("for HTTP (--http)"), "{said}");
}

#[test]
fn those_who_misuse_it_keep_no_session_waiting() {
    let (server, caller) = open();
    let held = holding(&mut run(&server, &["hold", "1"]));
    let threads = proc::threads(server.pid());
    let begun: [&[u8]; 4] = [
        b"",
        b"GET /v1/sess",
        b"\x16\x03\x01\x02\x00\x01",
        b"PATCH /v1/sessions/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n",
    ];
    let half: Vec<_> = (0..300)
        .filter_map(|i| {
            let mut s = TcpStream::connect(&caller.address).ok()?;
            s.write_all(begun[i % begun.len()]).ok()?;
            Some(s)
        })
        .collect();
    // They cost no threads: all are served by one, and four ask the server.
    until("a bounded number of threads", || {
        (proc::threads(server.pid()) <= threads + 8).then_some(())
    });
    held.goes_on_holding();
    let mut another = holding(&mut run(&server, &["hold", "1"]));
    drop(half);
    until("a place for another connection", || {
        let said = caller.ask("GET", "/v1/sessions", "")?;
        (said.json().as_array()?.len() == 1).then_some(())
    });
    another.kill();
    proc::signal(server.pid(), libc::SIGTERM);
    until("the port to be closed", || {
        TcpStream::connect(&caller.address).is_err().then_some(())
    });
}

/// The sum of a metric's samples, whatever their labels.
fn metric(caller: &Caller, name: &str) -> f64 {
    let said = caller.get("/metrics");
    assert_eq!(said.status, 200, "{said:?}");
    let lines = said.body.lines().filter(|l| {
        let rest = l.strip_prefix(name);
        rest.is_some_and(|r| r.starts_with(['{', ' ']))
    });
    let values = lines.filter_map(|l| l.rsplit_once(' ')?.1.parse::<f64>().ok());
    values.sum()
}

#[test]
fn metrics_count_what_sessions_do_and_have_done() {
    let (server, caller) = open();
    let m = |name: &str| metric(&caller, name);
    assert_eq!(m("busbar_sessions_opened_total"), 0.0);
    let mut held = holding(&mut run(&server, &["hold", "1"]));
    until("a session that is counted", || {
        (m("busbar_sessions") == 1.0 && m("busbar_records_total") > 0.0).then_some(())
    });
    assert!(m("busbar_session_memory_bytes") > 0.0);
    let names = [
        "busbar_records_total",
        "busbar_round_trips_total",
        "busbar_received_bytes_total",
        "busbar_sent_bytes_total",
    ];
    let before = names.map(m);
    assert!(before.iter().all(|n| *n > 0.0), "{before:?}");
    assert!(before[0] >= before[1], "{before:?}");
    held.kill();
    sessions(&caller, 0);
    // What has ended stays counted.
    let after = names.map(m);
    let less = before.iter().zip(&after).any(|(b, a)| a < b);
    assert!(!less, "{before:?} {after:?}");
    assert_eq!(m("busbar_sessions_ended_total"), 1.0);
    assert_eq!(m("busbar_sessions"), 0.0);
    assert_eq!(m("busbar_session_memory_bytes"), 0.0);
}

#[test]
fn metrics_are_a_tenants_own() {
    let g = Guarded::start_with(|o, _| o.arg("--http", "127.0.0.1:0"));
    let ann = g.line("ann", &["--tenant", "lab"]);
    g.login(&ann);
    let line = |name: &str, more: &[&str]| Caller::with(&g, &g.line(name, more));
    let (bob, ops) = (line("bob", &["--tenant", "art"]), line("ops", &["--admin"]));
    let held = holding(&mut g.run(PROGRAM, &["hold", "1"]));
    until("a session that is counted", || {
        (metric(&ops, "busbar_sessions") == 1.0).then_some(())
    });
    assert_eq!(metric(&bob, "busbar_sessions"), 0.0);
    assert!(!bob.get("/metrics").body.contains("\"lab\""));
    assert_eq!(bob.clone().token("").get("/metrics").status, 401);
    // What is shown is up to a second old.
    until("a refusal that is counted", || {
        (metric(&ops, "busbar_refusals_total") > 0.0).then_some(())
    });
    assert_eq!(metric(&bob, "busbar_refusals_total"), 0.0);
    held.goes_on_holding();
}
