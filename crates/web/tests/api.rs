//! The API over a real connection: what it says, that its document says the same, and who is let
//! in.

mod common;

use common::{TOKEN, call, get, port, raw, until};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

/// Holds a value against a schema of the document: every field of the one is in the other.
fn hold(document: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let found = document.pointer(name.trim_start_matches('#'));
        let found = found.unwrap_or_else(|| panic!("{at}: there is no {name}"));
        return hold(document, found, value, at);
    }
    if let Some(all) = schema["allOf"].as_array() {
        return all.iter().for_each(|s| hold(document, s, value, at));
    }
    if value.is_null() {
        assert_eq!(schema["nullable"], true, "{at} is null");
        return;
    }
    if let Some(all) = schema["anyOf"].as_array() {
        let some = all.iter().find(|s| s["$ref"].is_string());
        return hold(document, some.expect("one that is not null"), value, at);
    }
    if let Some(all) = schema["enum"].as_array() {
        assert!(all.contains(value), "{at}: {value} is none of {all:?}");
        return;
    }
    if let Some(all) = schema["oneOf"].as_array() {
        let named = all.iter().flat_map(|s| s["enum"].as_array());
        assert!(named.flatten().any(|v| v == value), "{at}: {value}");
        return;
    }
    match schema["type"].as_str().unwrap_or_default() {
        "object" => {
            let fields = value.as_object().unwrap_or_else(|| panic!("{at}: {value}"));
            let known = schema["properties"].as_object().expect("properties");
            for (name, value) in fields {
                let schema = known.get(name);
                let schema = schema.unwrap_or_else(|| panic!("{at}: {name} is not described"));
                hold(document, schema, value, &format!("{at}.{name}"));
            }
            // What is full says all that there is to say.
            for name in known.keys() {
                assert!(fields.contains_key(name), "{at}: nothing says {name}");
            }
        }
        "array" => {
            let all = value.as_array().unwrap_or_else(|| panic!("{at}: {value}"));
            assert!(!all.is_empty(), "{at}: nothing is shown");
            let each = all.iter();
            each.for_each(|v| hold(document, &schema["items"], v, &format!("{at}[]")));
        }
        "string" => assert!(value.is_string(), "{at}: {value}"),
        "boolean" => assert!(value.is_boolean(), "{at}: {value}"),
        "integer" => assert!(value.is_i64() || value.is_u64(), "{at}: {value}"),
        "number" => assert!(value.is_number(), "{at}: {value}"),
        other => panic!("{at}: a schema of {other:?}: {schema}"),
    }
}

#[test]
fn what_is_answered_is_what_the_document_says() {
    let (at, _) = port(false);
    let document = get(at, "/v1/openapi.json").json();
    let paths = document["paths"].as_object().expect("paths");
    // The first minute is kept at the start, and that may be yet to come.
    while get(at, "/v1/history").json()["times"] == serde_json::json!([]) {}
    assert!(paths.len() > 5);
    for (path, methods) in paths {
        for (method, said) in methods.as_object().expect("methods") {
            if path == "/v1/events" {
                continue; // It has no end: tests/events.rs reads it.
            }
            let method = method.to_ascii_uppercase();
            let body = if method == "PATCH" {
                "{\"priority\":1}"
            } else {
                ""
            };
            let answer = call(at, &method, &path.replace("{name}", "abc"), &[], body);
            let described = &said["responses"][answer.status.to_string()];
            assert!(described.is_object(), "{method} {path}: {answer:?}");
            let schema = &described["content"]["application/json"]["schema"];
            if schema.is_null() {
                assert_eq!(answer.body, "", "{method} {path}");
            } else {
                // A session that has lost its connection has no turns.
                let mut value = answer.json();
                if let Some(all) = value.as_array_mut() {
                    all.retain(|v| v["state"] != "disconnected");
                }
                hold(&document, schema, &value, path);
            }
        }
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            if methods[method.to_ascii_lowercase()].is_null() {
                let path = path.replace("{name}", "abc");
                let answer = call(at, method, &path, &[], "");
                assert_eq!(answer.status, 405, "{method} {path}");
                let problem = &document["components"]["schemas"]["Problem"];
                hold(&document, problem, &answer.json(), &path);
            }
        }
    }
}

/// `WRITE_OPENAPI=1` writes the document instead.
#[test]
fn the_document_in_the_tree_is_the_one_that_is_served() {
    let (at, _) = port(false);
    let said = get(at, "/v1/openapi.json").body;
    if std::env::var_os("WRITE_OPENAPI").is_some() {
        std::fs::write(DOCUMENT, &said).expect("docs can be written to");
    }
    let kept = std::fs::read_to_string(DOCUMENT).unwrap_or_default();
    assert!(kept == said, "docs/openapi.json: WRITE_OPENAPI=1 writes it");
}

#[test]
fn sessions_say_why_they_wait() {
    let (at, _) = port(false);
    let all = get(at, "/v1/sessions").json();
    let waits = |i: usize| all[i]["waits"].as_str().unwrap_or_default().to_string();
    assert!(waits(0).contains("its turn"), "{all}");
    assert!(waits(1).contains("connect again"), "{all}");
    assert_eq!(all[0]["memory"]["used"], 4096);
    assert_eq!(all[0]["share"], 0.25);
    assert_eq!(get(at, "/v1/quotas").json()[0]["memory"]["used"], 8192);
}

#[test]
fn leases_say_their_parts_and_who_stands_in_line_why() {
    let (at, known) = port(false);
    let lease = get(at, "/v1/leases").json()[0].clone();
    let part = serde_json::json!({ "whole": false, "memory": 1 << 20, "share": 0.25 });
    assert_eq!((&lease["part"], &lease["ends"]), (&part, &90.into()));
    let waits = || {
        let all = get(at, "/v1/waiting").json();
        assert_eq!((&all[0]["place"], &all[0]["part"]), (&2.into(), &part));
        all[0]["waits"].as_str().unwrap_or_default().to_string()
    };
    assert_eq!(waits(), "behind eve; held by ann");
    // What it can have here it has not got elsewhere.
    known.edit(|o| o.status.waiting[0].offer = vec![0, 1]);
    until(|| waits().contains("other servers"));
    known.edit(|o| {
        let w = &mut o.status.waiting[0];
        w.offer.clear();
        w.ahead.clear();
        w.holders.clear();
    });
    until(|| waits().contains("on offer to others"));
}

#[test]
fn sessions_are_changed_and_ended() {
    let (at, known) = port(false);
    let patch = |name: &str, body: &str| {
        let path = format!("/v1/sessions/{name}");
        call(at, "PATCH", &path, &[], body)
    };
    assert_eq!(patch("abc", "{\"priority\":3}").json()["name"], "abc");
    let taken = patch("abc", "{\"share\":1}");
    assert_eq!(
        (taken.status, taken.json()["code"].clone()),
        (409, "share".into())
    );
    for bad in [
        "",
        "{}",
        "[]",
        "{\"priority\":1e99}",
        "{\"nothing\":1}",
        "{\"share\":2}",
    ] {
        assert_eq!(patch("abc", bad).status, 400, "{bad}");
    }
    let long = format!("{{\"priority\":1{}}}", " ".repeat(1 << 20));
    assert_eq!(patch("abc", &long).status, 413);
    assert_eq!(call(at, "DELETE", "/v1/sessions/abc", &[], "").status, 202);
    let none = call(at, "DELETE", "/v1/sessions/xyz", &[], "");
    assert_eq!(none.status, 404);
    assert_eq!(
        none.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(get(at, "/v1/sessions/xyz").status, 404);
    assert_eq!(
        *known.done.lock().expect("no panic"),
        ["change abc", "end abc"]
    );
}

#[test]
fn nobody_is_let_in_without_the_token() {
    let (at, known) = port(true);
    let with = |line: &str| call(at, "GET", "/v1/sessions", &[line], "").status;
    assert_eq!(with(&format!("authorization: Bearer {TOKEN}")), 200);
    assert_eq!(with("authorization: Bearer other"), 401);
    assert_eq!(with(&format!("authorization: Basic {TOKEN}")), 401);
    assert_eq!(with(&format!("cookie: token={TOKEN}")), 401);
    let none = get(at, &format!("/v1/sessions?token={TOKEN}"));
    assert_eq!(none.status, 401);
    assert!(none.header("www-authenticate").is_some());
    let end = call(at, "DELETE", "/v1/sessions/abc", &[], "");
    assert_eq!(end.status, 401);
    let done = known.done.lock().expect("no panic");
    assert!(done.iter().all(|d| d == "refused token"), "{done:?}");
}

#[test]
fn pages_of_others_ask_in_vain() {
    let (at, known) = port(false);
    let end = |lines: &[&str]| call(at, "DELETE", "/v1/sessions/abc", lines, "").status;
    assert_eq!(end(&["host: evil.example"]), 421);
    assert_eq!(end(&["origin: http://evil.example"]), 403);
    assert_eq!(end(&["sec-fetch-site: cross-site"]), 403);
    assert_eq!(end(&["host: localhost", "host: evil.example"]), 400);
    assert!(known.done.lock().expect("no panic").is_empty());
    let said = get(at, "/v1/sessions");
    assert_eq!(said.header("access-control-allow-origin"), None);
    assert_eq!(said.header("set-cookie"), None);
    let csp = said.header("content-security-policy").unwrap_or_default();
    assert!(csp.contains("default-src 'none'"), "{csp}");
    assert_eq!(said.header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn what_is_no_request_ends_its_connection_alone() {
    let (at, _) = port(false);
    let many = "x: y\r\n".repeat(1000);
    let long = "y".repeat(1 << 20);
    for bad in [
        "\0\0\0\0\r\n\r\n".to_string(),
        "GET / HTTP/9.9\r\n\r\n".into(),
        "GET /\r\nhost: localhost\r\n\r\n".into(),
        format!("GET /v1/server HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"),
        format!("GET /v1/server HTTP/1.1\r\nhost: localhost\r\nx: {long}\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ] {
        let said = raw(at, bad.as_bytes());
        assert!(!said.starts_with("HTTP/1.1 2"), "{said}");
    }
    assert_eq!(get(at, "/v1/server").status, 200);
    for odd in [
        "/v1",
        "/v1/sessions/",
        "/v1/%2e%2e/x",
        "//v1/server",
        "/../etc/passwd",
    ] {
        assert_eq!(get(at, odd).status, 404, "{odd}");
    }
    assert!(get(at, "/v1/sessions/%ff").status >= 400);
}

#[test]
fn whoever_says_half_a_request_is_not_waited_for() {
    let (at, _) = port(false);
    let open = |text: &[u8]| {
        let mut s = TcpStream::connect(at).expect("it listens");
        s.set_read_timeout(Some(common::PATIENCE))
            .expect("a timeout");
        s.write_all(text).expect("a part");
        s
    };
    let slow = [
        open(b""),
        open(b"GET /v1/server HTTP/1.1\r\nhost: loc"),
        open(b"PATCH /v1/sessions/abc HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{"),
    ];
    // Others are served meanwhile.
    assert_eq!(get(at, "/v1/server").status, 200);
    for mut s in slow {
        let mut said = Vec::new();
        let end = s.read_to_end(&mut said);
        assert!(end.is_ok(), "it is closed: {end:?}");
        let said = String::from_utf8_lossy(&said);
        assert!(!said.starts_with("HTTP/1.1 2"), "{said}");
    }
}

#[test]
fn silent_connections_make_room_and_one_that_was_let_in_does_not() {
    let (at, _) = port(false);
    let mut known = TcpStream::connect(at).expect("it listens");
    let ask = |s: &mut TcpStream| {
        let request = format!("GET /v1/leases HTTP/1.1\r\nhost: {at}\r\n\r\n");
        let _ = s.write_all(request.as_bytes());
        let mut head = [0; 12];
        s.read_exact(&mut head).map(|()| head)
    };
    assert_eq!(&ask(&mut known).expect("an answer"), b"HTTP/1.1 200");
    let silent: Vec<_> = (0..200)
        .filter_map(|_| TcpStream::connect(at).ok())
        .collect();
    assert_eq!(get(at, "/v1/server").status, 200);
    // What was not read of the first answer is there still, and the second one behind it.
    let mut all = Vec::new();
    let request = format!("GET /v1/leases HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\r\n");
    known.write_all(request.as_bytes()).expect("it is open");
    known.read_to_end(&mut all).expect("an answer");
    let answers = String::from_utf8_lossy(&all)
        .matches("HTTP/1.1 200")
        .count();
    assert_eq!(answers, 1);
    drop(silent);
}

/// Two that read a request's length differently, a proxy and this port, must not be had to take a
/// part of it for another request.
#[test]
fn nothing_is_smuggled_in_behind_a_request() {
    let hidden = "DELETE /v1/sessions/abc HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let whole = hidden.len();
    for lengths in [
        format!(
            "content-length: {}\r\ntransfer-encoding: chunked",
            whole + 5
        ),
        format!(
            "transfer-encoding: chunked\r\ncontent-length: {}",
            whole + 5
        ),
        format!(
            "transfer-encoding: xchunked\r\ncontent-length: {}",
            whole + 5
        ),
        format!(
            "transfer-encoding: chunked, identity\r\ncontent-length: {}",
            whole + 5
        ),
        format!(
            "transfer-encoding : chunked\r\ncontent-length: {}",
            whole + 5
        ),
        format!(
            "x: y\r\n transfer-encoding: chunked\r\ncontent-length: {}",
            whole + 5
        ),
        format!("content-length: 5\r\ncontent-length: {}", whole + 5),
        format!("content-length: 5, {}", whole + 5),
        "content-length: +5".into(),
        "content-length: 0x5".into(),
        "content-length: -1".into(),
        "content-length: 18446744073709551621".into(),
        "transfer-encoding: chunked".into(),
    ] {
        let (at, known) = port(false);
        let head =
            format!("PATCH /v1/sessions/abc HTTP/1.1\r\nhost: localhost\r\n{lengths}\r\n\r\n");
        let said = raw(at, format!("{head}0\r\n\r\n{hidden}").as_bytes());
        assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{lengths}: {said}");
        assert!(!said.starts_with("HTTP/1.1 2"), "{lengths}: {said}");
        assert!(known.done.lock().expect("no panic").is_empty(), "{lengths}");
    }
}
