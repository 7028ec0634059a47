//! OpenCL on a real CPU device: the same program natively and through Busbar.

use busbar_e2e::opencl::{Server, compile, eventually, native, remote, run, text};
use busbar_e2e::program::Running;
use busbar_e2e::{cut, proc};
use busbar_harness::rng::{Rng, seeds};
use busbar_relay::{LinkSpec, Options, Relay};
use std::time::Duration;

#[test]
fn every_family_gives_what_it_gives_natively() {
    let program = compile("opencl_features");
    let server = Server::start();
    let expected = run(&mut native(&program));
    assert!(expected.status.success(), "{}", text(&expected));
    for _ in 0..3 {
        let got = run(&mut server.command(&program));
        assert_eq!(text(&got), text(&expected));
        assert_eq!(got.status.code(), expected.status.code());
    }
}

#[test]
fn clinfo_differs_only_where_memory_and_host_cannot_be_shared() {
    let server = Server::start();
    let lines = |c: &mut std::process::Command| -> Vec<String> {
        let out = run(c.arg("--raw"));
        assert!(out.status.success());
        text(&out).lines().map(str::to_string).collect()
    };
    let here = lines(&mut native("clinfo"));
    let there = lines(&mut server.command("clinfo"));
    let allowed = [
        "_EXTENSIONS",
        "CL_DEVICE_SVM_CAPABILITIES",
        "CL_DEVICE_EXECUTION_CAPABILITIES",
        "CL_DEVICE_COMMAND_BUFFER",
        // Memory that is free at the moment.
        "CL_DEVICE_GLOBAL_MEM_SIZE",
        "CL_DEVICE_MAX_MEM_ALLOC_SIZE",
    ];
    let strict = |l: &&String| !allowed.iter().any(|a| l.contains(a)) && !l.starts_with("   ");
    let here: Vec<_> = here.iter().filter(strict).collect();
    let there: Vec<_> = there.iter().filter(strict).collect();
    assert!(here.len() > 80, "clinfo lists the device");
    assert_eq!(there, here);
}

#[test]
fn without_a_server_there_is_no_platform_and_the_log_says_why() {
    let program = compile("opencl_faults");
    let out = run(remote("127.0.0.1:9", &program).env("BUSBAR_LOG", "error"));
    assert_eq!(text(&out), "clGetPlatformIDs gave -1001\n");
    let log = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(log.contains("127.0.0.1:9"), "{log}");
}

#[test]
fn a_killed_worker_or_server_is_an_error_and_no_hang() {
    let program = compile("opencl_faults");
    for kill_server in [false, true] {
        let mut server = Server::start();
        let mut client = Running::start(&mut server.command(&program));
        client.line_with("working");
        if kill_server {
            server.kill();
        } else {
            for p in server.workers() {
                proc::signal(p, libc::SIGKILL);
            }
        }
        let (text, status) = client.finish();
        assert!(text.contains("gave -2"), "{text}");
        assert_eq!(status.code(), Some(3));
    }
}

#[test]
fn a_killed_client_frees_its_worker() {
    let program = compile("opencl_faults");
    let server = Server::start();
    let mut client = Running::start(&mut server.command(&program));
    client.line_with("working");
    let busy = server.workers();
    client.kill();
    eventually("the session's worker ends", || {
        let now = server.workers();
        busy.iter().any(|p| !now.contains(p))
    });
    let again = run(server.command(&program).arg("exit"));
    assert!(again.status.success(), "the server serves on");
}

#[test]
fn a_forked_child_fails_cleanly_and_its_parent_goes_on() {
    let program = compile("opencl_faults");
    let server = Server::start();
    let out = run(server.command(&program).arg("fork"));
    assert_eq!(text(&out), "child: 7\nparent: 0\n");
}

#[test]
fn releasing_after_main_does_no_harm() {
    let program = compile("opencl_faults");
    let server = Server::start();
    let out = run(server.command(&program).arg("exit"));
    assert_eq!(text(&out), "leaving\n");
    assert!(out.status.success());
}

#[test]
fn data_that_waits_for_an_event_does_not_keep_the_event_from_coming() {
    let program = compile("opencl_faults");
    let server = Server::start();
    let out = run(server.command(&program).arg("gate"));
    assert_eq!(text(&out), "gate: 0 5\n");
}

/// What the same steps give natively.
fn steps_natively(program: &std::path::Path, steps: &str) -> String {
    let out = run(native(program).args(["steps", steps]));
    assert!(out.status.success());
    text(&out)
}

#[test]
fn a_worker_killed_at_any_moment_leaves_other_sessions_alone() {
    let program = compile("opencl_faults");
    let wanted = steps_natively(&program, "200");
    seeds(3, |seed| {
        let server = Server::start();
        let mut other = Running::start(server.command(&program).args(["steps", "200"]));
        let first = other.line();
        let mut victim = Running::start(&mut server.command(&program));
        victim.line_with("working");
        std::thread::sleep(Duration::from_micros(Rng::new(seed).below(100_000)));
        let pid = u64::from(victim.pid());
        let sessions = server.sessions();
        let its = sessions.iter().find(|s| s["pid"].as_u64() == Some(pid));
        let worker = its
            .and_then(|s| s["worker_pid"].as_u64())
            .expect("it has a worker");
        proc::signal(worker as u32, libc::SIGKILL);
        let (said, status) = victim.finish();
        assert!(said.contains("gave -"), "{said}");
        assert_eq!(status.code(), Some(3));
        let (rest, status) = other.finish();
        assert!(status.success());
        assert_eq!(format!("{first}\n{rest}"), wanted);
    });
}

/// `BUSBAR_CUT=30` cuts for half a minute.
#[test]
fn a_link_cut_at_any_moment_and_restored_changes_nothing() {
    let program = compile("opencl_faults");
    let wanted = steps_natively(&program, "400");
    let server = Server::start();
    seeds(2, |seed| {
        let options = Options::new("127.0.0.1:0", &server.address, LinkSpec::default());
        let relay = Relay::start(options).expect("the relay starts");
        let mut c = remote(&relay.address().to_string(), &program);
        c.env("BUSBAR_RESUME_TIMEOUT", "60");
        let mut client = Running::start(c.args(["steps", "400"]));
        let first = client.line();
        std::thread::sleep(Duration::from_micros(Rng::new(seed).below(200_000)));
        relay.cut(cut(3));
        let (rest, status) = client.finish();
        assert!(status.success(), "{status}");
        assert_eq!(format!("{first}\n{rest}"), wanted);
    });
}
