//! Sessions over RDMA: equal to native runs, through a link that goes and comes, and back.
//!
//! `BUSBAR_TEST_RDMA` names a device that may be taken away: `./test rdma` has one in a virtual
//! machine. Tests that need one do nothing without.

use busbar_e2e::guarded::{Guarded, refused};
use busbar_e2e::program::{Running, clear, finished, native, printed, remote, stats};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::until;
use busbar_harness::rng::seeds;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

fn has_device() -> bool {
    std::env::var_os("BUSBAR_TEST_RDMA").is_some()
}

fn random(seed: u64, steps: u64) -> [String; 3] {
    ["random".into(), seed.to_string(), steps.to_string()]
}

/// A server whose sessions move to RDMA if they can.
fn server() -> Server {
    Options::default().arg("--rdma", "auto").start()
}

/// Runs a program of the system.
fn system(line: &str) -> String {
    let mut words = line.split(' ');
    printed(Command::new(words.next().expect("a name")).args(words))
}

fn is_on(path: &'static str) -> impl Fn(&[Value]) -> Option<()> {
    move |all| all.iter().all(|s| s["path"] == path).then_some(())
}

#[test]
fn without_a_device_sessions_are_on_tcp_and_say_why_or_there_is_none() {
    let server = server();
    let mut c = remote(&server, Path::new(PROGRAM));
    let args = random(1, 20);
    let c = c.args(&args).env("BUSBAR_RDMA_DEVICE", "none0");
    let out = finished(c.env("BUSBAR_LOG", "info").env("BUSBAR_STATS", "1"));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{said}");
    let told = "the session is on TCP: this machine has no RDMA device";
    assert!(said.contains(told), "{said}");
    assert_eq!(stats(&out)["rdma_bytes_sent"], 0);
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(["run", "--server", &server.address, "--rdma", "on"]);
    c.args(["--rdma-device", "none0", "--", PROGRAM])
        .args(&args);
    refused(&mut c, &["--rdma on", "no RDMA device"]);
    for (flags, words) in [
        (
            ["--rdma", "on", "--rdma-device", "a:b"],
            &["--rdma-device", "`b`"][..],
        ),
        (["--rdma", "often", "--rdma-device", ""], &["often", "auto"]),
    ] {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        let out = finished(c.args(["serve", "--check"]).args(flags));
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success(), "{said}");
        let known = words.iter().all(|w| said.contains(w));
        assert!(known || said.contains("no RDMA device"), "{said}");
    }
}

#[test]
fn one_end_that_has_it_switched_off_is_enough() {
    let off = Server::start();
    let auto = server();
    for (server, rdma) in [(&off, "auto"), (&auto, "off")] {
        let mut c = remote(server, Path::new(PROGRAM));
        let c = c.args(random(1, 20)).env("BUSBAR_RDMA", rdma);
        let out = finished(c.env("BUSBAR_STATS", "1"));
        assert!(out.status.success());
        assert_eq!(stats(&out)["rdma_bytes_sent"], 0);
    }
}

#[test]
fn runs_over_rdma_equal_native_ones_encrypted_or_not() {
    if !has_device() {
        return;
    }
    let server = server();
    let guarded = Guarded::start_with(|o, _| o.arg("--rdma", "auto"));
    guarded.login(&guarded.line("rdma", &[]));
    let program = Path::new(PROGRAM);
    let before = system("rdma resource show");
    seeds(4, |seed| {
        let args = random(seed, 60);
        let wanted = printed(native(program).args(&args));
        let clear = remote(&server, program);
        for mut c in [clear, guarded.run(PROGRAM, &[])] {
            c.args(&args)
                .env("BUSBAR_RDMA", "on")
                .env("BUSBAR_SHM", "0");
            let out = finished(c.env("BUSBAR_STATS", "1"));
            assert_eq!(wanted, String::from_utf8_lossy(&out.stdout), "seed {seed}");
            let stats = stats(&out);
            for (of, all) in [
                ("rdma_bytes_sent", "bytes_sent"),
                ("rdma_bytes_received", "bytes_received"),
            ] {
                assert!(
                    stats[of].as_u64() > Some(0) && stats[of] == stats[all],
                    "{stats}"
                );
            }
        }
    });
    server.wait_for_sessions(0);
    guarded.wait_for_sessions(0);
    until("all that verbs had is free", || {
        (system("rdma resource show") == before).then_some(())
    });
}

#[test]
fn a_session_goes_on_over_tcp_when_the_port_goes_down_and_comes_back() {
    if !has_device() {
        return;
    }
    let server = server();
    let mut program = Running::start_for(
        remote(&server, Path::new(PROGRAM)).arg("until-error"),
        Duration::from_secs(500),
    );
    program.line_with("calling");
    let on = |path| until(path, || is_on(path)(&server.wait_for_sessions(1)));
    on("rdma");
    for _ in 0..2 {
        system("ip link set v0 down");
        on("tcp");
        system("ip link set v0 up");
        on("rdma");
    }
    assert_eq!(server.wait_for_sessions(1).len(), 1);
    program.kill();
    server.wait_for_sessions(0);
}

#[test]
fn runs_equal_native_ones_whatever_becomes_of_the_link() {
    if !has_device() {
        return;
    }
    let server = server();
    let program = Path::new(PROGRAM);
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(700));
                system("ip link set v0 down");
                std::thread::sleep(Duration::from_millis(300));
                system("ip link set v0 up");
            }
        });
        seeds(3, |seed| {
            let args = random(seed, 400);
            let wanted = printed(native(program).args(&args));
            let mut c = remote(&server, program);
            let got = printed(c.args(&args).env("BUSBAR_SHM", "0"));
            assert_eq!(wanted, got, "seed {seed}");
        });
        over.store(true, Ordering::SeqCst);
    });
    server.wait_for_sessions(0);
}
