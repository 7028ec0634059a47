//! What `--json` prints, held against the schemas of docs/schemas.

use busbar_e2e::guarded::Guarded;
use busbar_e2e::opencl::root;
use busbar_e2e::program::{Running, clear, finished, printed, remote};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::until;
use serde_json::{Map, Value};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

/// What the schemas of this folder say, as far as they use a word: another one is an error.
fn words(schema: &Map<String, Value>) {
    const KNOWN: [&str; 12] = [
        "$schema",
        "$defs",
        "$ref",
        "title",
        "description",
        "type",
        "enum",
        "anyOf",
        "required",
        "properties",
        "items",
        "additionalProperties",
    ];
    let other = schema
        .keys()
        .find(|k| *k != "minimum" && !KNOWN.contains(&&***k));
    assert_eq!(other, None, "this test does not know that word");
}

fn read(file: &str) -> Value {
    let path = root().join("docs/schemas").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path:?}: {e}"))
}

fn is(kind: &str, v: &Value) -> bool {
    match kind {
        "null" => v.is_null(),
        "boolean" => v.is_boolean(),
        "integer" => v.is_i64() || v.is_u64(),
        "number" => v.is_number(),
        "string" => v.is_string(),
        "array" => v.is_array(),
        "object" => v.is_object(),
        other => panic!("no type {other}"),
    }
}

/// Whether a value is what a schema of a file says; `at` is where it was found.
fn fits(file: &str, schema: &Value, v: &Value, at: &str) -> Result<(), String> {
    let s = schema.as_object().expect("a schema is an object");
    words(s);
    if let Some(to) = s.get("$ref") {
        let (other, place) = to
            .as_str()
            .and_then(|r| r.split_once('#'))
            .expect("a place");
        let other = if other.is_empty() { file } else { other };
        let whole = read(other);
        let there = whole
            .pointer(place)
            .unwrap_or_else(|| panic!("nothing is at {to}"));
        return fits(other, there, v, at);
    }
    if let Some(any) = s.get("anyOf") {
        let any = any.as_array().expect("a list");
        let all: Vec<_> = any.iter().map(|s| fits(file, s, v, at)).collect();
        return match all.iter().any(Result::is_ok) {
            true => Ok(()),
            false => Err(format!("{at}: none of {all:?}")),
        };
    }
    if let Some(few) = s.get("enum")
        && !few.as_array().expect("a list").contains(v)
    {
        return Err(format!("{at}: {v} is none of {few}"));
    }
    let kinds: Vec<_> = match s.get("type") {
        None => Vec::new(),
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        Some(one) => one.as_str().into_iter().collect(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|k| is(k, v)) {
        return Err(format!("{at}: {v} is no {kinds:?}"));
    }
    if let (Some(least), Some(n)) = (s.get("minimum"), v.as_f64())
        && n < least.as_f64().expect("a number")
    {
        return Err(format!("{at}: {v} is less than {least}"));
    }
    for (i, one) in v.as_array().into_iter().flatten().enumerate() {
        if let Some(items) = s.get("items") {
            fits(file, items, one, &format!("{at}/{i}"))?;
        }
    }
    let Some(object) = v.as_object() else {
        return Ok(());
    };
    let required = s.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(name) {
            return Err(format!("{at}: {name} is missing"));
        }
    }
    let none = Value::Null;
    let known = s.get("properties").unwrap_or(&none);
    for (name, one) in object {
        let of = known.get(name).or(s.get("additionalProperties"));
        if let Some(of) = of {
            fits(file, of, one, &format!("{at}/{name}"))?;
        }
    }
    Ok(())
}

/// What a command prints is what its schema says.
fn holds(file: &str, text: &str) -> Value {
    let v: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    if let Err(why) = fits(file, &read(file), &v, "") {
        panic!("{file}: {why}: {text}");
    }
    v
}

fn busbar(args: &[&str]) -> Command {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(args);
    c
}

#[test]
fn what_servers_say_is_what_the_schemas_say() {
    let server = Options::default().env("FAKEDEV_DEVICES", "2").start();
    let mut lease = Running::start(&mut busbar(&[
        "run",
        "--server",
        &server.address,
        "--gpus",
        "1",
        "--",
        "cat",
    ]));
    until("the lease", || {
        let leases = server.status()["leases"].as_array().map_or(0, Vec::len);
        (leases == 1).then_some(())
    });
    let mut held = Running::start(remote(&server, Path::new(PROGRAM)).args(["hold", "1"]));
    held.line_with("holding");
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    let nobody = nobody.expect("a free port").to_string();
    let both = format!("{},{nobody}", server.address);
    for (command, file) in [("devices", "devices.json"), ("ps", "ps.json")] {
        let out = finished(&mut busbar(&[command, "--json", "--server", &both]));
        let v = holds(file, &String::from_utf8_lossy(&out.stdout));
        let status = &v[0]["status"];
        assert_eq!(status["devices"].as_array().map(Vec::len), Some(2));
        assert_eq!(status["sessions"].as_array().map(Vec::len), Some(1));
        assert_eq!(status["leases"].as_array().map(Vec::len), Some(1));
        let memory = &status["sessions"][0]["memory"]["linear"]["bytes"];
        assert_eq!(memory.is_u64(), command == "ps", "{status}");
        assert!(v[1]["error"].is_string());
        // And a schema that nothing fits would be found out.
        for (place, wrong) in [("/0/status/devices/0/memory", "16"), ("/0/server", "[]")] {
            let mut v = v.clone();
            *v.pointer_mut(place).expect("it is there") = wrong.into();
            if place == "/0/server" {
                *v.pointer_mut(place).expect("it is there") = Value::Array(Vec::new());
            }
            assert!(fits(file, &read(file), &v, "").is_err(), "{place}");
        }
    }
    lease.go_on();
    assert!(lease.wait().success());
    held.goes_on_holding();
}

#[test]
fn leases_the_line_and_health_are_what_the_schemas_say() {
    let server = Options::default().env("FAKEDEV_DEVICES", "2").start();
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    let nobody = nobody.expect("a free port").to_string();
    let both = format!("{},{nobody}", server.address);
    let at = ["--server", &server.address];
    let wish = ["request", "-n", "1", "-m", "16MiB", "-p", "0.25", "--json"];
    let v = holds("request.json", &printed(busbar(&wish).args(at)));
    let id = v["lease"].as_str().expect("an id").to_string();
    // Two whole ones are not to be had as long as that lasts.
    let waits = ["run", "-n", "2", "--wait", "5m", "--", "true"];
    let mut waits = busbar(&[&waits[..1], &at[..], &waits[1..]].concat());
    let mut waits = Running::start(&mut waits);
    until("somebody in line", || {
        let n = server.status()["waiting"].as_array().map_or(0, Vec::len);
        (n == 1).then_some(())
    });
    // One of two does not answer: what the other says is there, and the command fails.
    let failed = |command: &str, more: &[&str]| {
        let out = finished(busbar(&[command, "--server", &both]).args(more));
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(125), "{said}");
        assert!(said.contains(&nobody), "{said}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let of = |v: &Value, server: &str| {
        let mut all = v.as_array().into_iter().flatten();
        all.find(|s| s["server"] == server).expect("it").clone()
    };
    let v = holds("list.json", &failed("list", &["--json"]));
    let own = of(&v, &server.address);
    assert_eq!(own["leases"][0]["memory"], 16 << 20, "{own}");
    assert_eq!(own["leases"][0]["share"], 250, "{own}");
    let w = &own["waiting"][0];
    assert_eq!((&w["wanted"], &w["place"]), (&2.into(), &1.into()), "{own}");
    assert_eq!(w["offer"], serde_json::json!([1]), "{own}");
    assert!(of(&v, &nobody)["error"].is_string(), "{v}");
    let mut wrong = v.clone();
    let first = if v[0]["waiting"].is_array() { 0 } else { 1 };
    wrong[first]["waiting"][0]["place"] = "first".into();
    assert!(fits("list.json", &read("list.json"), &wrong, "").is_err());
    let text = failed("list", &[]);
    for said in ["16.0 MiB, 0.25 of the time", "all of 2 among 0,1", "PLACE"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let v = holds("health.json", &failed("health", &["--json"]));
    assert_eq!(of(&v, &server.address)["reachable"], true);
    assert_eq!(of(&v, &nobody)["reachable"], false);
    let text = failed("health", &[]);
    let line = |address: &str| {
        let mut lines = text.lines();
        lines.find(|l| l.starts_with(address)).expect("a line")
    };
    assert!(line(&server.address).contains(" up "), "{text}");
    assert!(line(&nobody).contains(" down "), "{text}");
    let v = holds(
        "release.json",
        &printed(busbar(&["release", &id, "--json"]).args(at)),
    );
    assert_eq!(
        v[0]["released"][0]["devices"].as_array().map(Vec::len),
        Some(1)
    );
    assert!(waits.wait().success());
}

#[test]
fn doctor_makes_calls_and_says_what_they_cost() {
    let server = Server::start();
    let at = ["--server", &server.address];
    let text = printed(busbar(&["doctor", "--json"]).args(at));
    let v = holds("doctor.json", &text);
    let calls = v
        .as_array()
        .into_iter()
        .flatten()
        .find(|c| c["check"] == "calls");
    let measured = &calls.expect("it makes calls")["measured"];
    for name in ["round_trip_us", "up", "down"] {
        assert!(measured[name].as_f64().is_some_and(|n| n > 0.0), "{text}");
    }
    let text = printed(busbar(&["doctor"]).args(at));
    assert!(
        text.contains("a call that waits for its answer takes "),
        "{text}"
    );
    // Of two servers it says how copies go between them.
    let mut without = Options::default();
    without.args.push("--no-links".into());
    let (other, alone) = (Server::start(), without.start());
    let links = |second: &Server| {
        let both = format!("{},{}", server.address, second.address);
        let text = printed(&mut busbar(&["doctor", "--json", "--server", &both]));
        let v = holds("doctor.json", &text);
        let mut all = v.as_array().into_iter().flatten();
        let check = all.find(|c| c["check"] == "links").expect("it copies");
        (check["measured"].clone(), check["found"].to_string())
    };
    let (measured, found) = links(&other);
    assert_eq!(measured["straight"], true, "{found}");
    assert!(
        measured["rate"].as_f64().is_some_and(|n| n > 0.0),
        "{found}"
    );
    let (measured, found) = links(&alone);
    assert_eq!(measured["straight"], false, "{found}");
    assert!(found.contains("--no-links"), "{found}");
    // Somebody else has the device: there is nothing to call.
    let mut lease = busbar(&["run", "--gpus", "1"]);
    let mut lease = Running::start(lease.args(at).args(["--", "cat"]));
    until("the lease", || {
        let leases = server.status()["leases"].as_array().map_or(0, Vec::len);
        (leases == 1).then_some(())
    });
    let text = printed(busbar(&["doctor"]).args(at));
    assert!(!text.contains("a call that waits"), "{text}");
    lease.go_on();
    assert!(lease.wait().success());
}

#[test]
fn what_a_check_of_a_fabric_says_is_what_the_schema_says() {
    let server = Server::start();
    let mut c = busbar(&[
        "fabric",
        "check",
        "--json",
        "--seconds",
        "0",
        &server.address,
    ]);
    let out = finished(&mut c);
    let v = holds("fabric-check.json", &String::from_utf8_lossy(&out.stdout));
    assert_eq!(v["ok"], out.status.success());
    let machines = v["machines"].as_array().expect("a list");
    assert_eq!(machines[1]["name"], server.address);
    for m in &machines[1..] {
        let devices = m["machine"]["devices"].as_array().expect("a list");
        let findings = v["findings"].as_array().expect("a list");
        let named = findings.iter().any(|f| {
            f["at"] == m["name"]
                && f["what"]
                    .as_str()
                    .expect("words")
                    .contains("no RDMA device")
        });
        assert_eq!(devices.is_empty(), named, "{v}");
    }
}

#[test]
fn tokens_settings_and_links_are_what_the_schemas_say() {
    let g = Guarded::start();
    g.line("ann", &["--tenant", "lab", "--expires", "30d"]);
    g.line("ops", &["--admin"]);
    g.token(&["revoke", "ann"]);
    let v = holds("tokens.json", &g.token(&["list", "--json"]));
    assert!(v.as_array().is_some_and(|all| all.len() >= 2), "{v}");
    for more in [&[][..], &["--devices", "0,1", "--tls"]] {
        let args = [&["serve", "--check", "--json"], more].concat();
        holds("serve-check.json", &printed(&mut busbar(&args)));
    }
    let mut link = busbar(&["link", "--json", "--listen", "127.0.0.1:0"]);
    let mut link = Running::start(link.args(["--to", &g.server.address, "--delay", "1ms"]));
    let v = holds("link.json", &link.line());
    assert!(v["listening"].is_string(), "{v}");
}
