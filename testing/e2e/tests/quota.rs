//! Parts of a device's memory: asked for, promised, kept to, and shown.
//!
//! `BUSBAR_FUZZ=N` has the greedy program take N times as often; `./test quota` ten million times.

use busbar_e2e::guarded::refused;
use busbar_e2e::hostile::Raw;
use busbar_e2e::opencl;
use busbar_e2e::program::{Running, clear, finished, printed, remote_directly};
use busbar_e2e::quota::HIDDEN;
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::until;
use busbar_harness::rng::effort;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");
const MIB: u64 = 1 << 20;

/// A server of one simulated device with 2 GiB, whose driver loses memory of graphs with their
/// executable graphs, and whose NVML says what each worker has.
fn server() -> Server {
    options().start()
}

fn options() -> Options {
    let nvml = tree().fakenvml_library();
    let options = Options::default().env("FAKEDEV_MEMORY_MIB", "2048");
    let options = options.env("FAKEDEV_FRAIL", "1");
    options.arg("--nvml-library", nvml.to_str().expect("a path"))
}

/// `busbar run` with this part.
fn run(server: &Server, part: &str, args: &[&str]) -> Command {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(["run", "--server", &server.address]);
    if !part.is_empty() {
        c.args(["-m", part]);
    }
    c.args(["--", PROGRAM]).args(args);
    c
}

#[test]
fn what_is_promised_is_promised_once() {
    let server = server();
    let mut first = Running::start(&mut run(&server, "1.2GiB", &["hold", "1"]));
    first.line_with("holding");
    let said = "1.2 GiB of device memory wanted, and no device has more than 819.2 MiB that is not \
                promised";
    refused(&mut run(&server, "1.2GiB", &["work", "1"]), &[said, "-m"]);
    refused(
        &mut run(&server, "3GiB", &["work", "1"]),
        &["all that there is"],
    );
    let out = finished(&mut run(&server, "3GB", &["work", "1"]));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("say 3GiB"), "{said}");
    printed(&mut run(&server, "700MiB", &["work", "1"]));
    // Its session may end a moment after its process.
    server.wait_for_sessions(1);
    let session = server.sessions().remove(0);
    assert_eq!(session["memory_limit"], 1288490189u64 / 1024 * 1024 + 1024);
    assert_eq!(session["promised"], true);
    assert_eq!(
        server.status()["devices"][0]["promised"],
        session["memory_limit"]
    );
    first.goes_on_holding();
    // It is free again at once for the next.
    printed(&mut run(&server, "1.2GiB", &["work", "1"]));
    // A program in a container says it by a variable.
    let mut c = remote_directly(&server, Path::new(PROGRAM));
    let out = printed(c.env("BUSBAR_MEMORY", "1GiB").args(["quota", "1", "1"]));
    assert!(
        out.starts_with(&format!("total {0} device {0} ", 1024 * MIB)),
        "{out}"
    );
    let mut c = remote_directly(&server, Path::new(PROGRAM));
    let out = finished(
        c.envs([("BUSBAR_MEMORY", "1"), ("BUSBAR_LOG", "error")])
            .arg("devices"),
    );
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("BUSBAR_MEMORY: `1` of what?"), "{said}");
}

#[test]
fn sixteen_threads_never_have_a_byte_more_and_the_neighbour_notices_nothing() {
    let seed = 20_261_122;
    eprintln!("seed {seed}");
    // A worker that has a byte more for a moment ends; 512 MiB are the driver's own.
    let server = options().env("FAKEDEV_MOST_MIB", "512").start();
    let (seed, steps) = (seed.to_string(), effort(400).to_string());
    let long = Duration::from_secs(120 * effort(1));
    let mut neighbour = Running::start_for(&mut run(&server, "", &["turns", "2000"]), long);
    neighbour.line_with("turning");
    let mut greedy = run(&server, "1GiB", &["quota", &seed, &steps]);
    let mut greedy = Running::start_for(&mut greedy, long);
    let mut bytes = 0;
    let seen = until("the program's memory", || {
        let all = server.sessions();
        let s = all.iter().find(|s| s["memory_limit"] == 1024 * MIB)?;
        let kinds = s["memory"].as_object()?;
        bytes = kinds.values().filter_map(|m| m["bytes"].as_u64()).sum();
        (bytes > 900 * MIB).then_some(kinds.len())
    });
    assert!(seen > 3, "kinds of memory: {seen}");
    assert!(bytes <= 1024 * MIB, "{bytes}");
    printed(&mut run(&server, "1GiB", &["work", "2"]));
    printed(&mut run(&server, "", &["work", "2"]));
    let total = greedy.line_with("total");
    let (rest, status) = greedy.finish();
    assert!(status.success(), "{rest}");
    assert_eq!(
        total,
        format!("total {0} device {0} free {1}", 1024 * MIB, 512 * MIB)
    );
    let refused: u64 = rest
        .trim()
        .rsplit(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .expect("a number");
    assert!(refused > 100, "{rest}");
    eprintln!("{steps} steps of each of 16 threads, {refused} refused");
    // It has had no error in all that time.
    neighbour.go_on();
    neighbour.line_with("done");
    assert!(neighbour.wait().success());
}

#[test]
fn what_graphs_leave_behind_counts_and_what_is_kept_for_them_is_given_back() {
    let server = server();
    let out = printed(&mut run(&server, "1GiB", &["quota-graphs"]));
    assert_eq!(out, "[512, 192, 192, 192, 112]\n[384, 384, 384, 512]\n");
}

#[test]
fn what_a_driver_takes_by_itself_counts() {
    let server = server();
    let out = printed(&mut run(&server, "1GiB", &["quota-hidden"]));
    assert_eq!(out, HIDDEN);
}

/// Though nothing can be given back before the stream comes to where it is freed.
#[test]
fn what_a_stream_frees_it_can_have_again() {
    let server = options().env("FAKEDEV_MOST_MIB", "512").start();
    let out = printed(&mut run(&server, "1GiB", &["quota-again"]));
    assert_eq!(out, "[0, 0, 2] 211\n");
}

#[test]
fn a_stream_that_a_part_has_no_room_for_is_refused_when_it_is_made() {
    let server = options()
        .env("FAKEDEV_FAULTS", "cuStreamCreate@1=2")
        .start();
    let out = printed(&mut run(&server, "1GiB", &["quota-streams"]));
    assert_eq!(out, "[2, 0] 0\n");
    // Others do not wait for what they hardly ever are told.
    let out = printed(&mut run(&server, "", &["quota-streams"]));
    assert_eq!(out, "[0, 0] 2\n");
}

#[test]
fn a_policy_bounds_every_session_of_a_tenant() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("policy.toml");
    fs::write(&path, "[default]\nmemory = \"768MiB\"").expect("a file");
    let options = Options::default().env("FAKEDEV_MEMORY_MIB", "2048");
    let server = options.arg("--policy", &path.display().to_string()).start();
    let out = printed(&mut run(&server, "", &["quota", "1", "50"]));
    assert!(
        out.starts_with(&format!(
            "total {0} device {0} free {1}",
            768 * MIB,
            256 * MIB
        )),
        "{out}"
    );
    let out = printed(&mut run(&server, "600MiB", &["quota", "1", "50"]));
    assert!(out.starts_with(&format!("total {0} ", 600 * MIB)), "{out}");
    refused(
        &mut run(&server, "1GiB", &["work", "1"]),
        &["may ask for 768.0 MiB", "-m"],
    );
}

/// Memory that one has handed on and given up is there for as long as those have it who took it.
#[test]
fn memory_that_is_taken_over_counts_for_whoever_takes_it() {
    const PIECE: u64 = 256 * MIB;
    const FULL: i32 = 2;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("policy.toml");
    fs::write(&path, "[default]\nmemory = \"1GiB\"").expect("a file");
    let options = Options::default().env("FAKEDEV_MEMORY_MIB", "4096");
    let server = options.arg("--policy", &path.display().to_string()).start();
    let mut w = Raw::open(&server.address);
    let (mut had, mut ended) = (Vec::new(), 0);
    for own in (1..20).step_by(2) {
        ended = w.create(own, PIECE);
        if ended == 0 {
            let offer = w.offer(own);
            ended = w.take(own + 1, &offer);
            w.give_up(own);
        }
        if ended != 0 {
            break;
        }
        had.push(own + 1);
    }
    assert_eq!(ended, FULL, "{} pieces", had.len());
    assert!((1..4).contains(&had.len()), "{} pieces", had.len());
    // What is given up can be had again.
    w.give_up(had.pop().expect("a piece"));
    assert_eq!(w.create(100, PIECE), 0);
}

#[test]
fn opencl_has_its_part_too() {
    let program = opencl::compile("opencl_part");
    let server = opencl::Server::start();
    let out = opencl::run(server.command(&program).env("BUSBAR_MEMORY", "16MiB"));
    let said = opencl::text(&out);
    assert!(out.status.success(), "{said}");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(
        lines[0],
        format!("memory {0} at once {0}", 16 * MIB),
        "{said}"
    );
    let full = -4;
    assert_eq!(lines[1], format!("buffers 16 then {full}"), "{said}");
    assert_eq!(lines[2], "after one was given back 0", "{said}");
}
