//! Sessions opened and ended in every way, many times over: what the server held before it holds
//! after, and nothing else.
//!
//! `BUSBAR_FUZZ=34 cargo test -p busbar-e2e --test soak -- --nocapture` opens ten thousand.

use busbar_control::hello::Hello;
use busbar_e2e::hostile::{Recording, Tap, frame_of, greet, record_of, with_seeds};
use busbar_e2e::proc::Held;
use busbar_e2e::program::{Running, printed, remote, remote_at};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::until;
use busbar_harness::rng::{Rng, effort};
use busbar_wire::frame::Kind;
use busbar_wire::record::OP_GOODBYE;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");
const TOKEN: &str = "a-token-of-many-letters";

/// How a session ends.
const WAYS: [&str; 6] = [
    "clean exit",
    "cut between calls",
    "cut within a call",
    "refused token",
    "program that exits",
    "program that is killed",
];

/// One session; says how it ended.
fn one(server: &Server, token: &Path, all: &[Recording], rng: &mut Rng) -> usize {
    // The dear ones less often, but often enough for a leak of theirs to be seen.
    let way = match rng.below(20) {
        0 => 4,
        1 => 5,
        n => n as usize % 4,
    };
    let program = |arg: &str| {
        let mut c = remote(server, Path::new(PROGRAM));
        c.args([arg, "4"]).env("BUSBAR_TOKEN_FILE", token);
        c
    };
    match way {
        4 => {
            printed(&mut program("work"));
            return way;
        }
        5 => {
            let mut c = Running::start(&mut program("hold"));
            c.line_with("holding");
            c.kill();
            return way;
        }
        _ => {}
    }
    let r = &all[rng.below(all.len() as u64) as usize];
    let mut hello: Hello = serde_json::from_slice(&r.hello).expect("a hello");
    hello.token = if way == 3 {
        "another-token-altogether".into()
    } else {
        TOKEN.into()
    };
    let hello = serde_json::to_vec(&hello).expect("JSON");
    let (mut to, welcome) = greet(&server.address, &hello).expect("the server answers");
    assert_eq!(welcome.refusal.is_some(), way == 3, "{:?}", welcome.refusal);
    if way == 3 {
        return way;
    }
    let mut from = to.try_clone().expect("a copy");
    let reader = std::thread::spawn(move || {
        let mut buf = [0; 65536];
        while matches!(from.read(&mut buf), Ok(n) if n > 0) {}
    });
    let n = if way == 0 {
        r.bodies.len()
    } else {
        rng.below(r.bodies.len() as u64) as usize
    };
    let mut sent = true;
    for (i, body) in r.bodies[..n].iter().enumerate() {
        sent = sent
            && to
                .write_all(&frame_of(Kind::Data, i as u64 + 1, 0, body))
                .is_ok();
    }
    if way == 0 {
        assert!(sent, "the worker takes all of it");
        // What was recorded ends with a goodbye of its own.
        let bye = record_of(OP_GOODBYE, 0, 0, &[]);
        let _ = to.write_all(&frame_of(Kind::Data, n as u64 + 1, 0, &bye));
        let _ = reader.join();
        return way;
    }
    if way == 2 {
        let whole = frame_of(Kind::Data, n as u64 + 1, 0, &r.bodies[n]);
        let _ = to.write_all(&whole[..rng.below(whole.len() as u64) as usize]);
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = reader.join();
    way
}

#[test]
fn sessions_that_end_in_every_way_leave_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    std::fs::write(&token, format!("{TOKEN}\n")).expect("a token");
    let path = token.to_str().expect("a path").to_string();
    let server = Options::default()
        .arg("--token-file", &path)
        .env("FAKEDEV_MEMORY_MIB", "256")
        // What an allocator keeps for each thread that there has been at once is no leak.
        .env("MALLOC_ARENA_MAX", "2")
        .start();
    let tap = Tap::start(&server.address);
    for seed in ["1", "2"] {
        let mut c = remote_at(&tap.address, Path::new(PROGRAM));
        printed(
            c.args(["random", seed, "40"])
                .env("BUSBAR_TOKEN_FILE", &token),
        );
    }
    let all = until("the end of what was recorded", || {
        Some(tap.recordings()).filter(|r| r.len() == 2)
    });
    let ways: [AtomicU64; WAYS.len()] = Default::default();
    let run = |seeds: std::ops::Range<u64>| {
        with_seeds(seeds, |seed| {
            let way = one(&server, &token, &all, &mut Rng::new(seed));
            ways[way].fetch_add(1, Ordering::Relaxed);
        });
    };
    run(0..60);
    let before = Held::at_rest(server.pid());
    let n = effort(300);
    let start = Instant::now();
    run(60..60 + n);
    let seconds = start.elapsed().as_secs();
    println!("{n} sessions in {seconds} s (and 60 before them):");
    for (way, count) in WAYS.iter().zip(&ways) {
        println!("  {way}: {}", count.load(Ordering::Relaxed));
    }
    let after = before.comes_back(server.pid());
    println!("before: {before:?}, after: {after:?}");
    let log = server.log();
    assert!(!log.contains("killed by signal") && !log.contains("panicked"));
}
