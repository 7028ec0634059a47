//! Random OpenCL commands give the same results natively and through a server, whatever the link
//! does.

use busbar_e2e::cut;
use busbar_e2e::opencl::{Server, compile, finish, native, remote, run, text};
use busbar_harness::rng::{Rng, seeds};
use busbar_relay::{LinkSpec, Options, Relay};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// What a program prints natively: a digest every few steps.
fn natively(program: &Path, args: &[&str]) -> String {
    let out = run(native(program).args(args));
    assert!(out.status.success(), "natively: {}", text(&out));
    text(&out)
}

#[test]
fn native_and_remote_runs_are_equal() {
    let program = compile("opencl_random");
    let server = Server::start();
    seeds(6, |seed| {
        let seed = seed.to_string();
        // Also two threads at once, each with a context of its own.
        for args in [&[&seed, "250"][..], &[&seed, "100", "2"]] {
            let wanted = natively(&program, args);
            let got = run(server.command(&program).args(args));
            assert_eq!(text(&got), wanted, "seed {seed}");
            assert!(got.status.success(), "seed {seed}: {}", got.status);
        }
    });
}

#[test]
fn a_link_that_is_cut_changes_nothing() {
    let program = compile("opencl_random");
    let server = Server::start();
    seeds(3, |seed| {
        let options = Options::new("127.0.0.1:0", &server.address, LinkSpec::default());
        let relay = Relay::start(options).expect("the relay starts");
        let (name, mut random) = ((seed + 100).to_string(), Rng::new(seed));
        let args = [&name, "250"];
        let wanted = natively(&program, &args);
        let mut c = remote(&relay.address().to_string(), &program);
        c.args(args).env("BUSBAR_RESUME_TIMEOUT", "60");
        let child = c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.expect("the program starts");
        for _ in 0..3 {
            let pause = Duration::from_micros(100_000 + random.below(300_000));
            std::thread::sleep(busbar_e2e::patient(pause));
            relay.cut(cut(1) / 4);
        }
        let got = finish(child);
        assert_eq!(text(&got), wanted, "seed {seed}");
        assert!(got.status.success(), "seed {seed}: {}", got.status);
    });
}
