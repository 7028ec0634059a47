//! Encrypted connections and who may have one: a listener, somebody in between, strangers, tokens
//! that end.

use busbar_client::config::Config;
use busbar_client::hello::{Failure, connect, introduce};
use busbar_client::servers;
use busbar_control::hello::{Hello, Intent};
use busbar_e2e::authority::Authority;
use busbar_e2e::guarded::{Guarded, refused};
use busbar_e2e::hostile::frame_of;
use busbar_e2e::program::{LIMIT, Running, clear, finished, native, printed};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::{patient, proc, until};
use busbar_transport::tcp::Address;
use busbar_wire::frame::Kind;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");
const TOKEN: &str = "a-token-of-many-letters";

/// What is done with the bytes that pass, counted in all, to the server or from it.
type Twist = dyn Fn(bool, usize, &mut [u8]) + Send + Sync;

/// Stands between a client and its server, keeps what passes, and may change it.
struct Between {
    address: String,
    seen: Arc<Mutex<[Vec<u8>; 2]>>,
}

impl Between {
    fn start(server: &str, twist: Box<Twist>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let seen = Arc::new(Mutex::new([vec![], vec![]]));
        let (kept, server, twist) = (seen.clone(), server.to_string(), Arc::new(twist));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(behind) = TcpStream::connect(&server) else {
                    continue;
                };
                for (up, from, to) in [(true, &client, &behind), (false, &behind, &client)] {
                    let (from, to) = (from.try_clone(), to.try_clone());
                    let (Ok(mut from), Ok(mut to)) = (from, to) else {
                        continue;
                    };
                    let (kept, twist) = (kept.clone(), twist.clone());
                    std::thread::spawn(move || {
                        let mut room = vec![0; 1 << 16];
                        while let Ok(n) = from.read(&mut room)
                            && n > 0
                        {
                            let bytes = &mut room[..n];
                            let mut all = kept.lock().expect("no carrier panics");
                            twist(up, all[usize::from(up)].len(), bytes);
                            all[usize::from(up)].extend_from_slice(bytes);
                            drop(all);
                            if to.write_all(bytes).is_err() {
                                break;
                            }
                        }
                        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                    });
                }
            }
        });
        Self { address, seen }
    }

    /// What went to the server, or came from it.
    fn seen(&self, up: bool) -> Vec<u8> {
        self.seen.lock().expect("no carrier panics")[usize::from(up)].clone()
    }

    fn has_seen(&self, what: &[u8]) -> bool {
        let has = |up| self.seen(up).windows(what.len()).any(|w| w == what);
        has(true) || has(false)
    }
}

#[test]
fn a_line_to_paste_is_all_that_it_takes() {
    let g = Guarded::start();
    refused(
        &mut g.run(PROGRAM, &["devices"]),
        &["--server HOST:PORT", "busbar login"],
    );
    let line = g.line("ann", &["--tenant", "lab"]);
    assert_eq!(line.address, g.server.address);
    // Without its key nothing is sent to it; without a token it says what is missing.
    let at = ["devices", "--server", &g.server.address];
    refused(
        &mut g.busbar(&at),
        &["talks to nobody in clear", "busbar login"],
    );
    let known = servers::Server {
        token: String::new(),
        ..line.clone()
    };
    let login = known.line();
    refused(
        &mut g.busbar(&["login", &login]),
        &["asks for a token", "busbar token new"],
    );
    assert!(
        !g.path("home/config.toml").exists(),
        "what does not work is not kept"
    );
    g.login(&line);
    let said = printed(&mut g.busbar(&["login", "--list"]));
    assert!(
        said.contains(&line.key) && !said.contains(&line.token),
        "{said}"
    );
    let remote = printed(&mut g.run(PROGRAM, &["work", "1"]));
    assert_eq!(
        remote,
        printed(native(Path::new(PROGRAM)).args(["work", "1"]))
    );
    assert!(printed(&mut g.busbar(&["devices"])).contains(&line.address));
    let mut held = Running::start(&mut g.run(PROGRAM, &["hold", "1"]));
    held.line_with("holding");
    let session = &g.wait_for_sessions(1)[0];
    assert_eq!(
        (&session["token"], &session["tenant"]),
        (&"ann".into(), &"lab".into())
    );
    assert_eq!(session["encrypted"], true);
    held.goes_on_holding();
    let log = g.server.log();
    assert!(log.contains("lab") && !log.contains(&line.token), "{log}");
    printed(&mut g.busbar(&["login", "--remove", &line.address]));
    refused(&mut g.busbar(&at), &["talks to nobody in clear"]);
    // Others are told of the token through the environment, and a program without `busbar run`.
    let mut c = Command::new(PROGRAM);
    clear(&mut c);
    c.env("LD_LIBRARY_PATH", &tree().cuda)
        .env("BUSBAR_SERVER", line.line());
    assert_eq!(printed(c.args(["work", "1"])), remote);
    let mut c = g.busbar(&["run", "--server", &known.line(), "--", PROGRAM, "work", "1"]);
    assert_eq!(printed(c.env("BUSBAR_TOKEN", &line.token)), remote);
}

#[test]
fn the_first_start_prints_the_line_and_later_ones_do_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = || {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        c.env_remove("JOURNAL_STREAM");
        c.args(["serve", "--tls", "--listen", "127.0.0.1:0", "--api", "cuda"]);
        c.arg("--cuda-library").arg(tree().fakedev_library());
        c.arg("--state-dir").arg(folder.path().join("state"));
        c.arg("--cache-dir").arg(folder.path().join("cache"));
        let mut server = Running::start(c.stderr(Stdio::null()));
        server.line_with("busbar: listening");
        let said = [server.line(), server.line_with("busbar")];
        (server, said)
    };
    let (mut first, said) = start();
    assert!(said[0].contains("paste this once"), "{said:?}");
    // Some shells take the line's question mark for a pattern, unless it is quoted.
    let line = said[1]
        .strip_prefix("busbar login '")
        .and_then(|l| l.strip_suffix('\''))
        .expect("a line to paste");
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.env("BUSBAR_CONFIG", folder.path().join("config.toml"));
    printed(c.args(["login", line]));
    first.kill();
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(["serve", "--tls", "--listen", "127.0.0.1:0", "--api", "cuda"]);
    c.arg("--cuda-library").arg(tree().fakedev_library());
    c.arg("--state-dir").arg(folder.path().join("state"));
    c.arg("--cache-dir").arg(folder.path().join("cache"));
    let mut second = Running::start(c.stderr(Stdio::null()));
    let said = second.line_with("busbar: its key is");
    let server: servers::Server = line.parse().expect("a line");
    assert!(
        said.contains(&server.key) && !said.contains(&server.token),
        "{said}"
    );
}

#[test]
fn a_listener_learns_nothing() {
    let wanted = printed(native(Path::new(PROGRAM)).args(["work", "2"]));
    let secrets = [
        TOKEN.as_bytes(),
        b"\"intent\"",
        b"driver_program",
        b"busbar-",
    ];
    // In clear all of it is there to be seen, or this test would see nothing either.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, TOKEN).expect("a file");
    let clear_one = Options::default().arg("--token-file", file.to_str().expect("a path"));
    let clear_one = clear_one.start();
    let ear = Between::start(&clear_one.address, Box::new(|_, _, _| ()));
    let mut c = busbar_e2e::program::remote_at(&ear.address, Path::new(PROGRAM));
    assert_eq!(
        printed(c.args(["work", "2"]).env("BUSBAR_TOKEN", TOKEN)),
        wanted
    );
    assert!(secrets[..3].iter().all(|s| ear.has_seen(s)));

    let g = Guarded::start_with(|o, _| o.arg("--token-file", file.to_str().expect("a path")));
    let ear = Between::start(&g.server.address, Box::new(|_, _, _| ()));
    let line = servers::Server {
        address: ear.address.clone(),
        token: TOKEN.into(),
        ..g.line("unused", &[])
    };
    g.login(&line);
    assert_eq!(printed(&mut g.run(PROGRAM, &["work", "2"])), wanted);
    assert!(!ear.seen(true).is_empty());
    for secret in secrets {
        assert!(!ear.has_seen(secret), "{}", String::from_utf8_lossy(secret));
    }
    // What was said once counts for nothing when it is said again.
    let (said, before) = (
        ear.seen(true),
        g.server.log().matches("session opens").count(),
    );
    let mut again = TcpStream::connect(&g.server.address).expect("it listens");
    let _ = again.set_read_timeout(Some(patient(LIMIT)));
    let _ = again.write_all(&said);
    let _ = again.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = again.read_to_end(&mut answer);
    assert_eq!(answer.first(), Some(&22), "a handshake is all it got");
    assert!(g.sessions().is_empty());
    assert_eq!(g.server.log().matches("session opens").count(), before);
}

#[test]
fn a_changed_byte_changes_nothing() {
    let wanted = printed(native(Path::new(PROGRAM)).args(["work", "2"]));
    let g = Guarded::start();
    let line = g.line("ann", &[]);
    for up in [true, false] {
        // Each once: in the handshake, in the hello, in what follows.
        for at in [7, 300, 1500, 6000, 20_000] {
            let once = AtomicUsize::new(0);
            let spoil = move |to_server, before, bytes: &mut [u8]| {
                let here = (before..before + bytes.len()).contains(&at);
                if to_server == up && here && once.fetch_add(1, Ordering::AcqRel) == 0 {
                    bytes[at - before] ^= 0x20;
                }
            };
            let between = Between::start(&g.server.address, Box::new(spoil));
            let line = servers::Server {
                address: between.address.clone(),
                ..line.clone()
            };
            let mut c = g.busbar(&["run", "--server", &line.line(), "--", PROGRAM, "work", "2"]);
            let out = finished(&mut c);
            let said = String::from_utf8_lossy(&out.stderr);
            match out.status.code() {
                Some(0) => assert_eq!(String::from_utf8_lossy(&out.stdout), wanted),
                // `busbar run` itself could not ask.
                Some(125) => assert_eq!(said.lines().count(), 1, "{said}"),
                // Nor could the program open its session.
                code => assert!(
                    !out.stdout.starts_with(wanted.as_bytes()),
                    "{code:?} {said}"
                ),
            }
        }
    }
    g.login(&line);
    assert_eq!(
        printed(&mut g.run(PROGRAM, &["work", "2"])),
        wanted,
        "the server is well"
    );
}

#[test]
fn another_servers_key_is_refused_and_nothing_is_sent_to_it() {
    let (g, other) = (Guarded::start(), Guarded::start());
    let line = g.line("ann", &[]);
    g.login(&line);
    let ear = Between::start(&other.server.address, Box::new(|_, _, _| ()));
    let twisted = servers::Server {
        address: ear.address.clone(),
        ..line
    };
    let at = ["run", "--server", &twisted.line(), "--", PROGRAM, "devices"];
    refused(&mut g.busbar(&at), &["another key", "busbar login"]);
    assert!(!ear.has_seen(twisted.token.as_bytes()));
    assert!(
        ear.seen(true).len() < 2000,
        "a handshake, and the reason for its end"
    );
}

#[test]
fn tokens_end_and_their_sessions_with_them() {
    let g = Guarded::start();
    let admin = g.line("admin", &[]);
    g.login(&admin);
    let soon = format!("{}s", busbar_e2e::patient(Duration::from_secs(4)).as_secs());
    for (name, ends) in [("revoked", "was revoked"), ("expiring", "has expired")] {
        let expires: &[&str] = match name {
            "expiring" => &["--expires", &soon],
            _ => &[],
        };
        let line = g.line(name, expires);
        let text = line.line();
        let run = |args: &[&str]| {
            let mut c = g.busbar(&[&["run", "--server", &text, "--", PROGRAM], args].concat());
            c.env("BUSBAR_LOG", "info");
            c
        };
        let mut held = Running::start(run(&["hold", "1"]).stderr(Stdio::piped()));
        held.line_with("holding");
        let session = g.wait_for_sessions(1).remove(0);
        assert_eq!(session["token"], name);
        if name == "revoked" {
            g.token(&["revoke", name]);
        }
        g.wait_for_sessions(0);
        let log = g.server.log();
        assert!(log.contains(&format!("`{name}` {ends}")), "{log}");
        let (rest, status) = held.finish();
        assert!(!status.success() || !rest.contains("after 0"), "{rest}");
        refused(
            &mut run(&["devices"]),
            &[&format!("`{name}` {ends}"), "busbar token new"],
        );
    }
    let list = g.token(&["list"]);
    assert!(
        list.contains("revoked") && list.contains("expired"),
        "{list}"
    );
    let list: Value = serde_json::from_str(&g.token(&["list", "--json"])).expect("JSON");
    assert!(!list.to_string().contains(&admin.token));
    // Nobody else has noticed.
    assert!(printed(&mut g.busbar(&["devices"])).contains(&admin.address));
}

#[test]
fn a_lease_ends_with_its_token() {
    let g = Guarded::start();
    g.login(&g.line("admin", &[]));
    let line = g.line("ann", &[]).line();
    let mut c = g.busbar(&[
        "run", "--gpus", "1", "--server", &line, "--", "sleep", "1000",
    ]);
    let mut held = Running::start(&mut c);
    let leased = || printed(&mut g.busbar(&["devices"])).contains("leased to");
    until("the lease", || leased().then_some(()));
    g.token(&["revoke", "ann"]);
    until("the lease's end", || (!leased()).then_some(()));
    held.kill();
}

#[test]
fn a_session_is_its_owners_alone() {
    let g = Guarded::start();
    let (ann, bob) = (g.line("ann", &[]), g.line("bob", &[]));
    let say = |who: &servers::Server, hello: Hello| {
        let config = Config {
            lines: vec![who.clone()],
            list: None,
            ..Config::from_env()
        };
        let hello = introduce(&config, &who.address, hello).expect("a hello");
        let route = config.route(Address::new(&who.address)).expect("a way");
        connect(&route, &hello, Duration::from_secs(20))
    };
    let mut hello = Hello::new(Intent::Open);
    hello.api = "cuda".into();
    let (conn, welcome) = say(&ann, hello).expect("a session");
    for intent in [Intent::Resume, Intent::Side] {
        let mut hello = Hello::new(intent);
        hello.session = welcome.session.clone();
        hello.secret = welcome.secret.clone();
        hello.epoch = 1;
        match say(&bob, hello) {
            Err(Failure::Refused(r)) => assert_eq!(r.code, "session", "{}", r.message),
            other => panic!("{}", other.is_ok()),
        }
    }
    let mut hello = Hello::new(Intent::Side);
    hello.session = welcome.session.clone();
    hello.secret = welcome.secret.clone();
    assert!(say(&ann, hello).is_ok(), "ann herself may");
    drop(conn);
}

#[test]
fn clear_text_and_tls_say_what_they_miss() {
    let g = Guarded::start();
    let line = g.line("ann", &[]);
    // A client of whatever age that talks in clear.
    let hello = serde_json::to_vec(&Hello::new(Intent::Status)).expect("JSON");
    let mut to = TcpStream::connect(&g.server.address).expect("it listens");
    to.write_all(&frame_of(Kind::Hello, 0, 0, &hello))
        .expect("it is sent");
    let mut answer = String::new();
    let _ = to.set_read_timeout(Some(patient(LIMIT)));
    to.read_to_string(&mut answer).unwrap_or_default();
    assert!(answer.contains("talks to nobody in clear"), "{answer}");
    let plain = Server::start();
    let wrong = servers::Server {
        address: plain.address.clone(),
        ..line
    };
    let at = ["devices", "--server", &wrong.line()];
    refused(
        &mut g.busbar(&at),
        &["answers in clear text", "--plaintext"],
    );
    // A word that one says does not make a known key unknown.
    let at = ["devices", "--plaintext", "--server", &wrong.line()];
    refused(&mut g.busbar(&at), &["answers in clear text"]);
    let at = ["devices", "--server", "192.0.2.1"];
    refused(&mut g.busbar(&at), &["is not known", "busbar login"]);
}

#[test]
fn an_organisation_has_certificates() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let g = Guarded::certified(&ours, |o| o);
    let ca = g.path("ca.pem").display().to_string();
    let login = |text: &str| {
        let path = g.path("me.pem");
        std::fs::write(&path, text).expect("a file");
        let path = path.display().to_string();
        g.busbar(&["login", "--ca", &ca, "--cert", &path, &g.server.address])
    };
    let bad = ours.sign("https://elsewhere/alice", 2100);
    refused(&mut login(&bad), &["busbar://TENANT/NAME"]);
    let old = ours.sign("busbar://lab/alice", 2001);
    refused(&mut login(&old), &["has expired"]);
    let stranger = theirs.sign("busbar://lab/alice", 2100);
    refused(
        &mut login(&stranger),
        &["nobody who is known there has signed it"],
    );
    refused(
        &mut g.busbar(&["login", "--ca", &ca, &g.server.address]),
        &["asks for a token"],
    );
    std::fs::write(g.path("other.pem"), &theirs.pem).expect("a file");
    let other = g.path("other.pem").display().to_string();
    refused(
        &mut g.busbar(&["login", "--ca", &other, &g.server.address]),
        &["signed by nobody who is known here"],
    );
    printed(&mut login(&ours.sign("busbar://lab/alice", 2100)));
    let mut held = Running::start(&mut g.run(PROGRAM, &["hold", "1"]));
    held.line_with("holding");
    let session = &g.wait_for_sessions(1)[0];
    assert_eq!(
        (&session["token"], &session["tenant"]),
        (&"alice".into(), &"lab".into())
    );
    held.goes_on_holding();
}

#[test]
fn half_handshakes_keep_nobody_out() {
    let g = Guarded::start();
    let line = g.line("ann", &[]);
    g.login(&line);
    let before = proc::descriptors(g.server.pid());
    // As many as strangers have places, and more: some silent, some in the midst of it.
    let half: Vec<_> = (0..600)
        .map(|i| {
            let mut s = TcpStream::connect(&g.server.address).expect("it listens");
            let begun: &[u8] = match i % 3 {
                0 => &[],
                1 => &[22, 3, 1],
                _ => &[22, 3, 1, 2, 0, 1, 0, 1, 252],
            };
            let _ = s.write_all(begun);
            s
        })
        .collect();
    let wanted = printed(native(Path::new(PROGRAM)).args(["work", "1"]));
    assert_eq!(printed(&mut g.run(PROGRAM, &["work", "1"])), wanted);
    drop(half);
    // Beside those there are a session's cell and the next worker's, with some descriptors each.
    until("the end of every handshake", || {
        (proc::descriptors(g.server.pid()) <= before + 32).then_some(())
    });
    // Handshakes that are begun and spoiled, again and again, meanwhile.
    let over = Arc::new(AtomicUsize::new(0));
    let flood: Vec<_> = (0..8)
        .map(|_| {
            let (over, line) = (over.clone(), line.clone());
            std::thread::spawn(move || {
                let wrong = servers::Server {
                    key: "0a".repeat(32),
                    ..line
                };
                let config = Config {
                    lines: vec![wrong.clone()],
                    list: None,
                    ..Config::from_env()
                };
                while over.load(Ordering::Acquire) == 0 {
                    assert!(busbar_client::hello::status(&config, &wrong.address, &[]).is_err());
                }
            })
        })
        .collect();
    assert_eq!(printed(&mut g.run(PROGRAM, &["work", "1"])), wanted);
    over.store(1, Ordering::Release);
    for f in flood {
        f.join().expect("no panic");
    }
}

#[test]
fn a_killed_relay_is_come_back_from() {
    let g = Guarded::start();
    let cut = Arc::new(AtomicUsize::new(0));
    let until_cut = cut.clone();
    // What passes after the word is spoiled, once: both ends see a broken connection.
    let spoil = move |_, _, bytes: &mut [u8]| {
        if until_cut
            .compare_exchange(1, 2, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            bytes.fill(0);
        }
    };
    let between = Between::start(&g.server.address, Box::new(spoil));
    let line = servers::Server {
        address: between.address.clone(),
        ..g.line("ann", &[])
    };
    g.login(&line);
    let mut held = Running::start(&mut g.run(PROGRAM, &["hold", "1"]));
    held.line_with("holding");
    cut.store(1, Ordering::Release);
    held.goes_on_holding();
    assert_eq!(cut.load(Ordering::Acquire), 2);
}
