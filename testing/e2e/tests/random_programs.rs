//! Random programs give the same results natively and through a server, whatever the link does.

use busbar_e2e::proc::thread_names;
use busbar_e2e::program::{Running, finished, native, printed, remote, remote_at, stats};
use busbar_e2e::server::{Options, Server};
use busbar_harness::rng::{Rng, seeds};
use busbar_relay::{LinkSpec, Relay};
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

fn random(seed: u64, steps: u64) -> [String; 3] {
    ["random".into(), seed.to_string(), steps.to_string()]
}

#[test]
fn native_and_remote_runs_are_equal() {
    let server = Server::start();
    let program = Path::new(PROGRAM);
    seeds(30, |seed| {
        let args = random(seed, 150);
        let wanted = printed(native(program).args(&args));
        // On the server's host, and as if elsewhere.
        let shared = (seed % 2).to_string();
        let mut c = remote(&server, program);
        let got = printed(c.args(&args).env("BUSBAR_SHM", shared));
        assert_eq!(wanted, got, "seed {seed}");
    });
    server.wait_for_sessions(0);
}

#[test]
fn threads_of_a_program_do_not_disturb_each_other() {
    let server = Server::start();
    let program = Path::new(PROGRAM);
    seeds(6, |seed| {
        let args = ["random-threads".to_string(), seed.to_string(), "60".into()];
        let wanted = printed(native(program).args(&args));
        let shared = (seed % 2).to_string();
        let mut c = remote(&server, program);
        let got = printed(c.args(&args).env("BUSBAR_SHM", shared));
        assert_eq!(wanted, got, "seed {seed}");
    });
    server.wait_for_sessions(0);
}

#[test]
fn launches_of_several_streams_are_submitted_side_by_side_in_the_order_of_each() {
    // So slow that lanes fill up.
    let options = Options::default().env("FAKEDEV_LAUNCH_NS", "20000");
    let server = options.arg("--submitters", "3").start();
    let program = Path::new(PROGRAM);
    seeds(8, |seed| {
        let args = ["random-rows".to_string(), seed.to_string(), "60".into()];
        let wanted = printed(native(program).args(&args));
        let got = printed(remote(&server, program).args(&args));
        assert_eq!(wanted, got, "seed {seed}");
    });
    server.wait_for_sessions(0);
}

#[test]
fn a_launch_that_is_refused_in_a_lane_is_told_as_any_other() {
    const NO_RESOURCES: u32 = 701;
    let faults = format!("cuLaunchKernel@3000={NO_RESOURCES}");
    let options = Options::default().env("FAKEDEV_FAULTS", &faults);
    let server = options.arg("--submitters", "3").start();
    let mut program = Running::start(remote(&server, PROGRAM.as_ref()).arg("rows-until-refused"));
    assert_eq!(program.line(), format!("refused {NO_RESOURCES}"));
    let worker = server.wait_for_sessions(1)[0]["worker_pid"].as_u64();
    let threads = thread_names(worker.expect("a process") as u32);
    assert!(threads.contains(&"submit-2".into()), "{threads:?}");
    program.go_on();
    assert!(program.wait().success());
    server.wait_for_sessions(0);
    let log = server.log();
    assert!(
        log.contains("a launch was refused: CUDA_ERROR_LAUNCH_OUT_OF_RES"),
        "{log}"
    );
}

/// Bytes that a program's copies moved through shared memory.
fn shared_bytes(out: &Output) -> u64 {
    stats(out)["bytes_shared"].as_u64().expect("a number")
}

#[test]
fn shared_memory_changes_the_way_of_the_bytes_and_nothing_else() {
    let server = Server::start();
    let program = Path::new(PROGRAM);
    let options = busbar_relay::Options::new("127.0.0.1:0", &server.address, LinkSpec::default());
    let relay = Relay::start(options).expect("the relay starts");
    let forwarded = relay.address().to_string();
    seeds(4, |seed| {
        let args = random(seed + 3000, 150);
        let wanted = printed(native(program).args(&args));
        // A link that somebody put in between is not gone around unless they say so.
        let ways = [
            (&server.address, "", true),
            (&server.address, "0", false),
            (&forwarded, "", false),
            (&forwarded, "1", true),
        ];
        for (address, sharing, shares) in ways {
            let mut c = remote_at(address, program);
            c.args(&args).env("BUSBAR_SHM", sharing);
            let out = busbar_e2e::program::finished(c.env("BUSBAR_STATS", "1"));
            assert_eq!(wanted, String::from_utf8_lossy(&out.stdout), "seed {seed}");
            let way = format!("BUSBAR_SHM={sharing} at {address}");
            assert_eq!(shared_bytes(&out) > 0, shares, "seed {seed}, {way}");
        }
    });
    server.wait_for_sessions(0);
}

#[test]
fn nothing_overtakes_a_copy_that_has_returned() {
    let server = Server::start();
    let wanted =
        "round 0 in order: true\nround 1 in order: true\nround 2 in order: true\nseen: true\n";
    for shared in ["0", "1"] {
        let mut c = remote(&server, Path::new(PROGRAM));
        let got = printed(c.arg("overtaking").env("BUSBAR_SHM", shared));
        assert_eq!(got, wanted, "BUSBAR_SHM={shared}");
    }
    assert_eq!(
        printed(native(Path::new(PROGRAM)).arg("overtaking")),
        wanted
    );
}

#[test]
fn programs_side_by_side_do_not_disturb_each_other() {
    let server = Server::start();
    let program = Path::new(PROGRAM);
    let wanted: Vec<_> = (100..104)
        .map(|seed| printed(native(program).args(random(seed, 120))))
        .collect();
    std::thread::scope(|s| {
        for (i, wanted) in wanted.iter().enumerate() {
            let server = &server;
            s.spawn(move || {
                let got = printed(remote(server, program).args(random(100 + i as u64, 120)));
                assert_eq!(*wanted, got);
            });
        }
    });
    server.wait_for_sessions(0);
}

/// Says that a test is through, also when it has failed: a scope waits for its threads then, too.
struct Through<'a>(&'a AtomicBool);

impl Drop for Through<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs one program natively and over a relay that `trouble` disturbs until the program has ended.
fn over_a_bad_link(
    seed: u64,
    steps: u64,
    sharing: &str,
    trouble: impl Fn(&Relay, &mut Rng) + Sync,
) {
    let server = Server::start();
    let program = Path::new(PROGRAM);
    let args = random(seed, steps);
    let wanted = printed(native(program).args(&args));
    let options = busbar_relay::Options::new("127.0.0.1:0", &server.address, LinkSpec::default());
    let relay = Relay::start(options).expect("the relay starts");
    let address = relay.address().to_string();
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut rng = Rng::new(seed);
            while !done.load(Ordering::Relaxed) {
                trouble(&relay, &mut rng);
            }
        });
        let _through = Through(&done);
        let mut tries = 0;
        let got = loop {
            let mut c = remote_at(&address, program);
            c.env("BUSBAR_CONNECT_TIMEOUT", "30");
            c.env("BUSBAR_SHM", sharing);
            let out = finished(c.args(&args));
            tries += 1;
            let err = String::from_utf8_lossy(&out.stderr).into_owned();
            // A cut while the first connection is made, by `busbar run` or by the program, is an
            // error that the user sees, and not what is tested here.
            let early = out.status.code() == Some(125) || err.contains("cuInit");
            if early && tries < 20 {
                continue;
            }
            assert!(out.status.success(), "{}: {err}", out.status);
            break String::from_utf8_lossy(&out.stdout).into_owned();
        };
        assert_eq!(wanted, got);
    });
}

#[test]
fn a_link_that_is_cut_again_and_again_changes_nothing() {
    seeds(3, |seed| {
        // Shared memory outlives the connections that its copies are ordered over.
        for sharing in ["", "1"] {
            over_a_bad_link(seed + 1000, 400, sharing, |relay, rng| {
                std::thread::sleep(Duration::from_millis(400 + rng.below(300)));
                relay.cut(Duration::from_millis(1 + rng.below(60)));
            });
        }
    });
}

#[test]
fn a_link_that_stalls_changes_nothing() {
    seeds(1, |seed| {
        over_a_bad_link(seed + 2000, 300, "", |relay, rng| {
            std::thread::sleep(Duration::from_millis(100));
            relay.stall(Duration::from_millis(rng.below(200)));
        });
    });
}

#[test]
fn a_link_cut_for_seconds_is_taken_up_again() {
    let server = Server::start();
    let program = Path::new(PROGRAM);
    let wanted = printed(native(program).args(["work", "400"]));
    let digest = |text: &str| text.lines().last().map(String::from);
    let options = busbar_relay::Options::new("127.0.0.1:0", &server.address, LinkSpec::default());
    let relay = Relay::start(options).expect("the relay starts");
    let mut c = remote_at(&relay.address().to_string(), program);
    let mut running = busbar_e2e::program::Running::start(c.args(["work", "400"]));
    running.line_with("step 32");
    relay.cut(busbar_e2e::cut(4));
    let (rest, status) = running.finish();
    assert!(status.success(), "{status}");
    assert_eq!(digest(&wanted), digest(&rest));
    assert!(
        server.log().contains("connected=false"),
        "the link was never lost"
    );
}

#[test]
fn several_devices_are_chosen_as_cuda_chooses_them() {
    // The same machine as without a server.
    let server = Options::default()
        .env("FAKEDEV_DEVICES", "4")
        .env("FAKEDEV_MACHINE", "0")
        .start();
    let program = Path::new(PROGRAM);
    for visible in [
        None,
        Some("2,0"),
        Some("3"),
        Some(""),
        Some("-1"),
        Some("1,9,2"),
        Some("1,1"),
    ] {
        let with = |c: &mut std::process::Command| {
            c.arg("devices");
            if let Some(v) = visible {
                c.env("CUDA_VISIBLE_DEVICES", v);
            }
            printed(c)
        };
        let mut n = native(program);
        n.env("FAKEDEV_DEVICES", "4");
        let got = with(&mut remote(&server, program));
        if visible.is_none_or(str::is_empty) {
            assert!(got.contains("init"), "{got}");
        }
        // The simulated driver itself does not know the variable: what CUDA documents is the
        // measure.
        let all = printed(n.arg("devices"));
        let devices: Vec<_> = all.lines().skip(1).collect();
        let wanted: Vec<usize> = match visible {
            None => vec![0, 1, 2, 3],
            Some("2,0") => vec![2, 0],
            Some("3") => vec![3],
            Some("1,9,2") => vec![1],
            _ => vec![],
        };
        let listed: Vec<_> = got.lines().skip(1).collect();
        let wanted: Vec<_> = wanted.iter().map(|i| devices[*i]).collect();
        assert_eq!(listed, wanted, "CUDA_VISIBLE_DEVICES={visible:?}");
    }
    server.wait_for_sessions(0);
}
