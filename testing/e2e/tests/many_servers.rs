//! Devices of several servers in one program: what it computes is what one server with all of the
//! devices gives, and between servers there is what CUDA has for devices that do not know another.

use busbar_e2e::program::{clear, finished, native, printed, remote_at};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_harness::rng::{Rng, seeds};
use busbar_relay::{LinkSpec, Relay};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

fn server(devices: &str) -> Server {
    Options::default().env("FAKEDEV_DEVICES", devices).start()
}

fn two() -> ([Server; 2], String) {
    let servers = [server("2"), server("2")];
    let both = servers.each_ref().map(|s| s.address.clone()).join(",");
    (servers, both)
}

fn random(seed: u64, steps: u64) -> [String; 4] {
    let most = if seed % 4 == 3 { 12 << 20 } else { 200_000 };
    [
        "random-devices".into(),
        seed.to_string(),
        steps.to_string(),
        most.to_string(),
    ]
}

fn wanted(args: &[String]) -> String {
    let mut c = native(Path::new(PROGRAM));
    printed(c.env("FAKEDEV_DEVICES", "4").args(args))
}

#[test]
fn two_servers_of_two_devices_are_as_one_of_four() {
    let (servers, both) = two();
    let one = server("4");
    seeds(16, |seed| {
        let args = random(seed, 200);
        let wanted = wanted(&args);
        assert!(wanted.starts_with("devices 4\n"), "{wanted}");
        let shared = (seed % 2).to_string();
        for address in [&one.address, &both] {
            let mut c = remote_at(address, Path::new(PROGRAM));
            let got = printed(c.args(&args).env("BUSBAR_SHM", &shared));
            assert_eq!(wanted, got, "seed {seed}, {address}");
        }
    });
    for s in &servers {
        s.wait_for_sessions(0);
    }
}

#[test]
fn links_to_two_servers_that_are_cut_again_and_again_change_nothing() {
    seeds(3, |seed| {
        let (servers, _) = two();
        let relays = servers.each_ref().map(|s| {
            let o = busbar_relay::Options::new("127.0.0.1:0", &s.address, LinkSpec::default());
            Relay::start(o).expect("the relay starts")
        });
        let both = relays.each_ref().map(|r| r.address().to_string()).join(",");
        let args = random(seed + 500, 600);
        let wanted = wanted(&args);
        let done = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                let mut rng = Rng::new(seed);
                for cuts in 1_u32.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    // Where a machine is so busy that to come back takes longer than it is from
                    // one cut to the next, a session comes back in the calm after some.
                    let calm = if cuts.is_multiple_of(8) { 4000 } else { 0 };
                    let pause = Duration::from_millis(200 + rng.below(200) + calm);
                    std::thread::sleep(busbar_e2e::patient(pause));
                    let relay = &relays[rng.below(2) as usize];
                    relay.cut(Duration::from_millis(1 + rng.below(60)));
                }
            });
            let got = (0..20).find_map(|_| {
                let mut c = remote_at(&both, Path::new(PROGRAM));
                c.env("BUSBAR_CONNECT_TIMEOUT", "30");
                let out = finished(c.args(&args));
                let text = String::from_utf8_lossy(&out.stdout).into_owned();
                let err = String::from_utf8_lossy(&out.stderr).into_owned();
                // A cut while the first connections are made is an error that the user sees, and
                // not what is tested here.
                let early = out.status.code() == Some(125)
                    || err.contains("cuInit")
                    || text.starts_with("devices 2");
                if !early && !out.status.success() {
                    return Some(Err(format!("{}: {err}", out.status)));
                }
                (!early).then_some(Ok(text))
            });
            done.store(true, Ordering::Relaxed);
            assert_eq!(Some(Ok(wanted)), got, "seed {seed}");
        });
    });
}

#[test]
fn between_servers_there_is_what_cuda_has_for_devices_apart() {
    let (_servers, both) = two();
    let mut c = remote_at(&both, Path::new(PROGRAM));
    let got = printed(c.arg("apart"));
    let wanted = "devices 4\nNVML: 4\nplaces differ: true\nfound by place: true\n\
        peers: 0-1 1 0-2 0 2-3 1 3-1 0\nenable: 217\nelapsed: 400\nrecord: 400\n\
        pointer: 2 3\nnamed: 0 0 0\nstack: 3 0 2\n";
    assert_eq!(got, wanted);
}

#[test]
fn a_server_that_dies_takes_its_own_devices_along() {
    let (mut servers, both) = two();
    let mut c = remote_at(&both, Path::new(PROGRAM));
    c.env("BUSBAR_RESUME_TIMEOUT", "1");
    let mut running = busbar_e2e::program::Running::start(c.arg("one-dies"));
    running.line_with("ready");
    servers[0].kill();
    let (rest, status) = running.finish();
    assert!(status.success(), "{status}: {rest}");
    assert_eq!(rest, "first: 46\nlater: 46\nother: 0 true\n");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let alive = server("2");
    let dead = {
        let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        gone.local_addr().expect("its address").to_string()
    };
    let both = format!("{dead},{}", alive.address);
    let out = finished(remote_at(&both, Path::new(PROGRAM)).args(random(1, 10)));
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && err.contains(&dead), "{err}");
    assert_eq!(err.trim().lines().count(), 1, "{err}");
}

#[test]
fn gpus_are_reserved_over_all_servers_or_not_at_all() {
    let (servers, both) = two();
    let with = |n: &str| {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        c.args(["run", "--server", &both, "--gpus", n, "--"]);
        c.arg(PROGRAM).args(random(1, 20));
        c
    };
    for n in ["1", "3", "4"] {
        let got = printed(&mut with(n));
        assert!(got.starts_with(&format!("devices {n}\n")), "{got}");
        for s in &servers {
            s.wait_for_sessions(0);
        }
    }
    let out = finished(&mut with("5"));
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        !out.status.success() && err.contains("5 GPUs wanted, but the servers have 4"),
        "{err}"
    );
}
