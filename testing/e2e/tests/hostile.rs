//! Hostile clients: spoiled records, frames and hellos. Nothing of it may crash a worker or the
//! server, reach another session, or leave anything behind.
//!
//! `BUSBAR_FUZZ=N` does N times as much; `BUSBAR_FUZZ=10` of the first test is a million records.

use busbar_control::hello::{Hello, Intent};
use busbar_e2e::hostile::{Recording, Spoiler, Tap, frame_of, greet, record_of, with_seeds};
use busbar_e2e::opencl;
use busbar_e2e::proc::Held;
use busbar_e2e::program::{LIMIT, Running, clear, native, printed, remote, remote_at};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::{proc, until};
use busbar_harness::rng::effort;
use busbar_wire::frame::Kind;
use busbar_wire::record::OP_GOODBYE;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");
const FED: &str = env!("CARGO_BIN_EXE_hostile_worker");

/// Sessions of programs, as their clients sent them.
fn recordings(server: &Server) -> Vec<Recording> {
    let tap = Tap::start(&server.address);
    for seed in ["1", "2", "3"] {
        printed(remote_at(&tap.address, Path::new(PROGRAM)).args(["random", seed, "150"]));
    }
    printed(remote_at(&tap.address, Path::new(PROGRAM)).args(["work", "3"]));
    until("the end of what was recorded", || {
        Some(tap.recordings()).filter(|r| r.len() == 4)
    })
}

#[test]
fn a_worker_that_is_fed_spoiled_records_stands() {
    const EACH: u64 = 25_000;
    let server = Server::start();
    let file = server.path("recording");
    let bodies: Vec<u8> = recordings(&server)
        .into_iter()
        .flat_map(|r| r.bodies)
        .flatten()
        .collect();
    std::fs::write(&file, bodies).expect("room for the recording");
    for seed in 0..effort(4) {
        let mut c = Command::new(FED);
        clear(&mut c);
        c.arg(tree().fakedev_library())
            .arg(&file)
            .args([seed.to_string(), EACH.to_string()]);
        c.env("FAKEDEV_SPIN_US", "50")
            .env("FAKEDEV_MEMORY_MIB", "512");
        let log = std::fs::File::create(server.path("fed")).expect("a log");
        let mut child = c
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("it starts");
        let start = Instant::now();
        let mut most = 0;
        let status = loop {
            if let Some(s) = child.try_wait().expect("a child") {
                break s;
            }
            most = most.max(proc::resident_kib(child.id()));
            if start.elapsed() > Duration::from_secs(300) {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let log = std::fs::read_to_string(server.path("fed")).unwrap_or_default();
        let end: Vec<_> = log.lines().rev().take(12).collect();
        let fed = status.success() && log.ends_with("fed\n");
        // One that waits for ever, since its client said so.
        let waits = seed % 8 == 7 && status.code() == Some(4);
        assert!(fed || waits, "seed {seed}: {status}\n{end:#?}");
        // The simulated device's memory is this process's, and so are the staging slabs.
        assert!(most < 2 << 20, "seed {seed}: {most} KiB");
        let said = log.lines().rfind(|l| l.starts_with("understood"));
        println!(
            "seed {seed}: {status}, {} ({most} KiB)",
            said.unwrap_or_default()
        );
    }
}

/// One hostile session; returns how many frames it sent.
fn session(address: &str, r: &Recording, all: &[Recording], s: &mut Spoiler) -> u64 {
    let Some((mut to, welcome)) = greet(address, &r.hello) else {
        return 0;
    };
    // Someone must read, or the worker waits.
    let mut from = to.try_clone().expect("a copy");
    let reader = std::thread::spawn(move || {
        let mut buf = [0; 65536];
        while matches!(from.read(&mut buf), Ok(n) if n > 0) {}
    });
    let other = &all[s.rng.below(all.len() as u64) as usize];
    let others = busbar_e2e::hostile::records(&other.bodies);
    let (mut seq, mut sent) = (0, 0);
    for body in r.bodies.iter().take(200) {
        let body = if s.rng.one_in(2) {
            s.spoil_body(body, &others)
        } else {
            body.clone()
        };
        seq += 1;
        let mut bytes = frame_of(Kind::Data, seq, 0, &body);
        match s.rng.below(200) {
            0 => s.spoil_bytes(&mut bytes),
            1 => bytes = frame_of(Kind::Data, s.number(), s.number(), &body),
            2 => bytes = frame_of(Kind::Ack, s.number(), s.number(), &[]),
            3 => bytes = frame_of(Kind::Hello, 0, 0, &r.hello),
            4 => bytes = s.rng.bytes(4096),
            5..15 => bytes.extend(frame_of(Kind::Ping, 0, 0, &[])),
            15..25 => bytes.extend(frame_of(Kind::Data, seq, 0, &body)),
            _ => {}
        }
        if to.write_all(&bytes).is_err() {
            break;
        }
        sent += 1;
        // A connection that comes back, with or without the right to.
        if s.rng.one_in(300) {
            let mut hello: Hello = serde_json::from_slice(&r.hello).unwrap_or_default();
            hello.intent = Intent::Resume;
            hello.session = welcome.session.clone();
            hello.secret = match s.rng.below(3) {
                0 => String::new(),
                _ => welcome.secret.clone(),
            };
            hello.last_received = s.number();
            hello.epoch = s.number();
            let hello = serde_json::to_vec(&hello).expect("JSON");
            if let Some((mut again, _)) = greet(address, &hello) {
                let _ = again.write_all(&bytes);
                sent += 2;
            }
        }
    }
    match s.rng.below(3) {
        0 => {
            let bye = record_of(OP_GOODBYE, 0, 0, &[]);
            let _ = to.write_all(&frame_of(Kind::Data, seq + 1, 0, &bye));
        }
        1 => _ = to.write_all(&[0; 11]),
        _ => {}
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
    let _ = reader.join();
    sent
}

/// Fails when a worker ended otherwise than by its own decision.
fn check_log(server: &Server) {
    let log = server.log();
    for word in ["killed by signal", "panicked", "failed with exit status"] {
        if let Some(line) = log.lines().find(|l| l.contains(word)) {
            panic!("{line}");
        }
    }
}

#[test]
fn a_server_with_hostile_clients_stands_and_its_other_sessions_too() {
    let server = Options::default()
        .env("FAKEDEV_SPIN_US", "50")
        .env("FAKEDEV_MEMORY_MIB", "512")
        .start();
    let all = recordings(&server);
    // It stays for as long as the attack takes.
    let mut bystander = Running::start_for(
        remote(&server, Path::new(PROGRAM)).args(["hold", "1"]),
        LIMIT * 5 * effort(1) as u32,
    );
    bystander.line_with("holding");
    let frames = AtomicU64::new(0);
    let attack = |seeds: std::ops::Range<u64>| {
        with_seeds(seeds, |seed| {
            let r = &all[seed as usize % all.len()];
            let n = session(&server.address, r, &all, &mut Spoiler::new(seed));
            frames.fetch_add(n, Ordering::Relaxed);
        });
    };
    attack(0..20);
    server.wait_for_sessions(1);
    let before = Held::at_rest(server.pid());
    attack(20..20 + effort(120));
    server.wait_for_sessions(1);
    let after = before.comes_back(server.pid());
    println!(
        "{} frames: before {before:?}, after {after:?}",
        frames.load(Ordering::Relaxed)
    );
    check_log(&server);
    bystander.goes_on_holding();
    let args = ["random", "9", "100"];
    assert_eq!(
        printed(remote(&server, Path::new(PROGRAM)).args(args)),
        printed(native(Path::new(PROGRAM)).args(args))
    );
    server.wait_for_sessions(0);
}

/// A connection that says this and then waits for the other side to close it.
fn say(address: &str, bytes: &[u8], patience: Duration) -> Vec<u8> {
    let mut to = TcpStream::connect(address).expect("the server listens");
    let _ = to.set_read_timeout(Some(patience));
    let _ = to.write_all(bytes);
    let mut back = Vec::new();
    let _ = to.read_to_end(&mut back);
    back
}

fn guarded() -> (Server, std::path::PathBuf) {
    let folder = std::env::temp_dir().join(format!("busbar-hostile-{}", std::process::id()));
    std::fs::write(&folder, "a-token-of-many-letters\n").expect("a token");
    let path = folder.to_str().expect("a path").to_string();
    let server = Options::default().arg("--token-file", &path).start();
    (server, folder)
}

#[test]
fn strangers_get_nowhere_and_leave_nothing() {
    let (server, token) = guarded();
    let good = serde_json::to_vec(&Hello::new(Intent::Open)).expect("JSON");
    let mut hello = Hello::new(Intent::Open);
    hello.token = "a-token-of-many-letterz".into();
    let wrong = serde_json::to_vec(&hello).expect("JSON");
    let mut s = Spoiler::new(7);
    for (hello, word) in [(&good, "asks for a token"), (&wrong, "knows another token")] {
        let answer = say(
            &server.address,
            &frame_of(Kind::Hello, 0, 0, hello),
            Duration::from_secs(20),
        );
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.contains(word), "{answer}");
    }
    let many = "[".repeat(60_000);
    let odd: Vec<Vec<u8>> = vec![
        vec![],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        frame_of(Kind::Data, 1, 0, b"x"),
        frame_of(Kind::Hello, 0, 0, b""),
        frame_of(Kind::Hello, 0, 0, many.as_bytes()),
        frame_of(Kind::Hello, 0, 0, &vec![b' '; 2 << 20]),
        frame_of(Kind::Hello, 0, 0, br#"{"features":5}"#),
        frame_of(Kind::Hello, 0, 0, "{\"version\":\"\u{1b}[2J\"}".as_bytes()),
    ];
    for n in 0..effort(400) {
        let mut bytes = if n < odd.len() as u64 {
            odd[n as usize].clone()
        } else {
            let mut b = frame_of(Kind::Hello, 0, 0, if n % 2 == 0 { &good } else { &wrong });
            for _ in 0..s.rng.below(4) + 1 {
                s.spoil_bytes(&mut b);
            }
            b
        };
        bytes.truncate(3 << 20);
        let mut to = TcpStream::connect(&server.address).expect("the server listens");
        let _ = to.set_write_timeout(Some(Duration::from_secs(5)));
        let _ = to.write_all(&bytes);
    }
    let mut c = remote(&server, Path::new(PROGRAM));
    let c = c.arg("devices").env("BUSBAR_TOKEN_FILE", &token);
    assert!(c.output().expect("it runs").status.success());
    // Those that live as long as the server, the listener (named as the program) among them.
    let stay = [
        "busbar", "readings", "revoke", "signals", "spawner", "time", "voices",
    ];
    until("the end of every greeting", || {
        let mut left = proc::thread_names(server.pid());
        for name in stay {
            left.iter().position(|n| n == name).map(|i| left.remove(i));
        }
        left.is_empty().then_some(())
    });
    check_log(&server);
    let _ = std::fs::remove_file(token);
}

#[test]
fn an_opencl_server_with_hostile_clients_stands() {
    let program = opencl::compile("opencl_features");
    let server = opencl::Server::start();
    let tap = Tap::start(&server.address);
    let expected = opencl::text(&opencl::run(&mut opencl::native(&program)));
    let got = opencl::run(&mut opencl::remote(&tap.address, &program));
    assert_eq!(opencl::text(&got), expected);
    let all = until("the end of what was recorded", || {
        Some(tap.recordings()).filter(|r| !r.is_empty())
    });
    let mut frames = 0;
    for seed in 0..effort(3) {
        // A CPU device runs kernels in the worker itself: spoiled arguments may crash that worker,
        // and must crash nothing else.
        let r = &all[seed as usize % all.len()];
        frames += session(&server.address, r, &all, &mut Spoiler::new(seed));
    }
    println!("{frames} frames");
    let got = opencl::run(&mut server.command(&program));
    assert_eq!(opencl::text(&got), expected);
    // The store's process, those of its cell and of the sessions', and the spare worker.
    until("the end of all workers but the spare one", || {
        (server.workers().len() <= 4).then_some(())
    });
}
