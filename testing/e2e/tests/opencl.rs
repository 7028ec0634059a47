//! OpenCL on a real CPU device: the same program natively and through Busbar.

use busbar_e2e::opencl::{Server, compile, eventually, native, remote, run, text};
use busbar_e2e::proc;
use busbar_e2e::program::Running;

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
