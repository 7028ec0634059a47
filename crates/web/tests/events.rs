//! What changes is told as it changes, and whoever does not listen is not waited for.

mod common;

use common::{PATIENCE, get, port};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

/// A request to be told, by somebody who shows this.
fn request(at: SocketAddr, token: &str) -> String {
    let head = format!("GET /v1/events HTTP/1.1\r\nhost: {at}\r\n");
    match token {
        "" => head + "\r\n",
        token => format!("{head}authorization: Bearer {token}\r\n\r\n"),
    }
}

/// A listener's stream, behind the head, if there is a place for it.
fn try_listen(at: SocketAddr, token: &str) -> Option<BufReader<TcpStream>> {
    let mut s = TcpStream::connect(at).ok()?;
    s.set_read_timeout(Some(PATIENCE)).ok()?;
    s.write_all(request(at, token).as_bytes()).ok()?;
    let mut s = BufReader::new(s);
    let mut line = String::new();
    s.read_line(&mut line).ok()?;
    let place = line.starts_with("HTTP/1.1 200");
    while line != "\r\n" {
        line.clear();
        s.read_line(&mut line).ok().filter(|n| *n > 0)?;
    }
    place.then_some(s)
}

fn listen(at: SocketAddr) -> BufReader<TcpStream> {
    try_listen(at, "").expect("there is a place")
}

/// The next change.
fn change(s: &mut BufReader<TcpStream>) -> Value {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(s.read_line(&mut line).expect("it goes on") > 0);
        if let Some(json) = line.strip_prefix("data: ") {
            return serde_json::from_str(json).expect("JSON");
        }
    }
}

#[test]
fn a_listener_hears_what_changes_and_nothing_else() {
    let (at, known) = port(false);
    let mut s = listen(at);
    let all = change(&mut s);
    for kind in [
        "server", "devices", "sessions", "leases", "waiting", "quotas",
    ] {
        assert!(
            all[kind].as_object().is_some_and(|o| !o.is_empty()),
            "{all}"
        );
    }
    assert_eq!(all["sessions"]["abc"], get(at, "/v1/sessions/abc").json());
    known.edit(|o| {
        o.status.sessions[0].priority = 7;
        o.status.sessions.truncate(1);
    });
    let some = change(&mut s);
    assert_eq!(some["sessions"]["abc"]["priority"], 7);
    assert_eq!(some["sessions"]["def"], Value::Null);
    assert!(some.get("devices").is_none(), "{some}");
    // A tenant's memory is that of its sessions.
    assert!(some.get("quotas").is_some(), "{some}");
}

#[test]
fn there_are_places_for_so_many_and_whoever_goes_leaves_its_own() {
    let (at, known) = port(false);
    // As many connections as one network may have, some of them for those who ask.
    let all: Vec<_> = ["", "b", "c"]
        .iter()
        .flat_map(|who| (0..20).filter_map(|_| try_listen(at, who)))
        .collect();
    assert_eq!(
        all.len(),
        3 * 16,
        "one who listens often leaves places for others"
    );
    assert_eq!(get(at, "/v1/server").status, 200);
    drop(all);
    for round in 0..3 {
        let mut again: Vec<_> = (0..60)
            .filter_map(|_| TcpStream::connect(at).ok())
            .collect();
        for s in &mut again {
            // Nobody reads what is said here.
            let _ = s.write_all(request(at, "").as_bytes());
        }
        known.edit(|o| o.status.sessions[0].priority = round);
        drop(again);
    }
    let start = std::time::Instant::now();
    let mut again = loop {
        if let Some(s) = try_listen(at, "") {
            break s;
        }
        assert!(start.elapsed() < PATIENCE, "places come back");
    };
    change(&mut again);
}

#[test]
fn the_page_has_no_code_but_its_own() {
    let (at, _) = port(true);
    let page = get(at, "/");
    assert_eq!(page.status, 200, "whoever comes is asked for a token by it");
    let csp = page.header("content-security-policy").unwrap_or_default();
    assert!(
        csp.contains("script-src 'self'") && !csp.contains("unsafe"),
        "{csp}"
    );
    for bad in [
        "<script>", "style=", "onclick=", "onload=", "http://", "https://",
    ] {
        assert!(!page.body.contains(bad), "{bad}");
    }
    let script = get(at, "/page.js");
    assert_eq!(script.header("content-type"), Some("text/javascript"));
    for bad in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
    ] {
        assert!(!script.body.contains(bad), "{bad}");
    }
    assert_eq!(
        get(at, "/page.css").header("content-type"),
        Some("text/css")
    );
    assert_eq!(get(at, "/v1/events").status, 401);
}
