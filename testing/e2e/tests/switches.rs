//! A program's results are the same with each optimisation on and off.

use busbar_channel::switches::Switch;
use busbar_e2e::program::{native, printed, remote, stats};
use busbar_e2e::server::Server;
use busbar_harness::rng::seeds;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

#[test]
fn results_do_not_depend_on_any_switch() {
    let server = Server::start();
    let program = Path::new(PROGRAM);
    seeds(2, |seed| {
        let args = ["random".into(), seed.to_string(), "60".into()];
        let wanted = printed(native(program).args(&args));
        for s in Switch::ALL {
            let variable = format!("BUSBAR_{}", s.name().to_ascii_uppercase());
            let mut c = remote(&server, program);
            let got = printed(c.args(&args).env(&variable, "0"));
            assert_eq!(wanted, got, "seed {seed}, {variable}=0");
        }
        let mut c = remote(&server, program);
        for s in Switch::ALL {
            c.env(format!("BUSBAR_{}", s.name().to_ascii_uppercase()), "0");
        }
        assert_eq!(wanted, printed(c.args(&args)), "seed {seed}, all off");
    });
    server.wait_for_sessions(0);
}

/// What is counted shows that the switch did something, where that does not depend on time.
#[test]
fn a_switch_that_is_off_changes_what_is_sent() {
    let server = Server::start();
    let program = Path::new(PROGRAM);
    let counted = |variable: &str| {
        let mut c = remote(&server, program);
        c.args(["random", "7", "80"]).env("BUSBAR_STATS", "1");
        if !variable.is_empty() {
            c.env(variable, "0");
        }
        let out = c.output().expect("the program starts");
        let err = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{err}");
        let v = stats(&out);
        move |field: &str| v[field].as_u64().expect("a counter")
    };
    let plain = counted("");
    // Each wait for the worker to have a record is a ping more, each question a round trip.
    assert!(counted("BUSBAR_QUEUE")("bytes_sent") > plain("bytes_sent"));
    assert!(counted("BUSBAR_LOCAL")("round_trips") > plain("round_trips"));
}
