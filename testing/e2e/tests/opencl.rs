//! OpenCL on a real CPU device: the same program natively and through Busbar.

use busbar_e2e::guarded::Guarded;
use busbar_e2e::kills::{self, OpenCl};
use busbar_e2e::opencl::{Server, compile, finish, native, remote, run, text};
use busbar_e2e::program::{Running, printed, stats};
use busbar_e2e::{cut, proc, until};
use busbar_harness::rng::{Rng, seeds};
use busbar_relay::{LinkSpec, Options, Relay};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, SystemTime};

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
fn several_devices_and_parts_of_them_are_as_natively() {
    let program = compile("opencl_devices");
    let twice = |c: &mut std::process::Command| {
        c.env("POCL_DEVICES", "pthread pthread");
    };
    let server = Server::start_with(twice);
    let mut alone = native(&program);
    twice(&mut alone);
    // With parts of devices PoCL itself dies in one run of a hundred, natively, too.
    let best_of_three = |c: &mut std::process::Command| {
        let mut runs = (0..3).map(|_| run(c));
        let first = runs.next().expect("a run");
        if first.status.success() {
            return first;
        }
        runs.find(|o| o.status.success()).unwrap_or(first)
    };
    let expected = best_of_three(&mut alone);
    assert!(expected.status.success(), "{}", text(&expected));
    let got = best_of_three(&mut server.command(&program));
    assert_eq!(text(&got), text(&expected));
    assert_eq!(got.status.code(), expected.status.code());
}

#[test]
fn several_servers_are_several_platforms_and_one_that_ends_harms_no_other() {
    let program = compile("opencl_faults");
    let (first, mut second) = (Server::start(), Server::start());
    let both = format!("{},{}", first.address, second.address);
    let listed = text(&run(remote(&both, "clinfo")
        .arg("-l")
        .env_remove("BUSBAR_DEVICE_NAMES")));
    let platforms: Vec<_> = listed.lines().filter(|l| l.starts_with("Plat")).collect();
    assert_eq!(platforms.len(), 2, "{listed}");
    for (line, server) in platforms.iter().zip([&first, &second]) {
        assert!(line.ends_with(&format!("@ {}", server.address)), "{line}");
    }
    let wanted = steps_natively(&program, "200");
    let mut client = Running::start(remote(&both, &program).args(["steps", "200"]));
    let line = client.line();
    second.kill();
    let (rest, status) = client.finish();
    assert!(status.success(), "{status}");
    assert_eq!(format!("{line}\n{rest}"), wanted);
}

#[test]
fn switches_change_what_waits_and_nothing_else() {
    let program = compile("opencl_features");
    let server = Server::start();
    let wanted = text(&run(&mut native(&program)));
    let trips = |switch: &str| {
        let mut c = server.command(&program);
        let out = run(c.env("BUSBAR_STATS", "1").env(switch, "0"));
        assert_eq!(text(&out), wanted, "{switch}=0");
        stats(&out)["round_trips"].as_u64().expect("a counter")
    };
    let plain = trips("NO_SWITCH");
    assert!(trips("BUSBAR_IDLE") > plain);
    trips("BUSBAR_QUEUE");
}

#[test]
fn an_event_is_waited_for_and_not_what_was_queued_behind_it() {
    let program = compile("opencl_ahead");
    let server = Server::start();
    let trips = |steps: &str| {
        let wanted = text(&run(native(&program).arg(steps)));
        assert!(wanted.starts_with("too early: 0, "), "{wanted}");
        assert_eq!(wanted.matches("held: 1\n").count(), 4, "{wanted}");
        let mut c = server.command(&program);
        let out = run(c.arg(steps).env("BUSBAR_STATS", "1"));
        assert_eq!(text(&out), wanted);
        stats(&out)["round_trips"].as_u64().expect("a counter")
    };
    // Nothing is asked: a question would stand behind what was queued.
    let (few, many) = (trips("50"), trips("450"));
    assert!(many <= few + 4, "{few} and {many} round trips");
}

#[test]
fn programs_that_ask_for_a_share_have_a_device_in_turns() {
    let program = compile("opencl_ahead");
    let steps = "8000";
    let wanted = text(&run(native(&program).arg(steps)));
    let server = Server::start();
    let begin = || {
        let mut c = server.command(&program);
        c.arg(steps).env("BUSBAR_SHARE", "0.5");
        c.stdout(Stdio::piped()).spawn().expect("it starts")
    };
    let both = [begin(), begin()];
    // Whose user events stand still for a while, and fail.
    until("both to have used the device", || {
        let all = server.sessions();
        let used = all.iter().filter_map(|s| s["time"][0]["used_ms"].as_u64());
        (used.filter(|ms| *ms > 0).count() == 2).then_some(())
    });
    for child in both {
        let out = child.wait_with_output().expect("it ends");
        assert_eq!(text(&out), wanted);
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
            proc::kill_all(server.workers());
        }
        let (text, status) = client.finish();
        assert!(text.contains("gave -2"), "{text}");
        assert_eq!(status.code(), Some(3));
    }
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

/// Files of built programs in a server's store.
fn kept(cache: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(cache).into_iter().flatten().flatten();
    let files = folders.flat_map(|f| std::fs::read_dir(f.path()).into_iter().flatten().flatten());
    let mut list: Vec<_> = files.map(|f| f.path()).collect();
    list.retain(|p| p.extension().is_some_and(|e| e == "made"));
    list
}

#[test]
fn a_built_program_is_kept_for_later_sessions() {
    let program = compile("opencl_faults");
    let server = Server::start();
    let expected = text(&run(native(&program).arg("build")));
    assert_eq!(expected, "binary: 0, kernels: 1\nn: 0 42\n");
    let remote = || text(&run(server.command(&program).arg("build")));
    assert_eq!(remote(), expected);
    let files = kept(&server.cache());
    let [file] = &files[..] else {
        panic!("one program is kept, not {files:?}");
    };
    // A use shows in the time of the file.
    let open = || std::fs::File::options().write(true).open(file);
    let past = SystemTime::now() - Duration::from_secs(3600);
    let touched = || {
        std::fs::metadata(file)
            .expect("a file")
            .modified()
            .expect("a time")
            > past
    };
    let age = || open().and_then(|f| f.set_modified(past)).expect("a time");
    age();
    assert_eq!(remote(), expected);
    assert!(touched(), "the second session built the program again");
    // Damage is a miss, and the next build takes its place.
    let good = std::fs::read(file).expect("a file");
    let mut bad = good.clone();
    *bad.last_mut().expect("bytes") ^= 1;
    for damaged in [&bad[..], &good[..40], &[]] {
        std::fs::write(file, damaged).expect("a file");
        assert_eq!(remote(), expected);
        assert!(std::fs::metadata(file).expect("a file").len() > 1000);
    }
}

#[test]
fn what_one_tenant_has_built_is_no_other_ones() {
    let program = compile("opencl_faults");
    let g = Guarded::start_with(|o, folder| {
        let cache = folder.join("cache").display().to_string();
        o.arg("--api", "opencl").arg("--cache-dir", &cache)
    });
    let expected = text(&run(native(&program).arg("build")));
    // Two of one tenant have the same, others their own.
    let lab = |name| (name, "lab");
    for ((name, tenant), files) in [lab("ann"), lab("ben"), ("cid", "fab")]
        .into_iter()
        .zip([1, 1, 2])
    {
        g.login(&g.line(name, &["--tenant", tenant]));
        let program = program.display().to_string();
        assert_eq!(printed(&mut g.run(&program, &["build"])), expected);
        assert_eq!(kept(&g.path("cache")).len(), files, "after {name}'s");
    }
}

/// A library to be loaded first: it tells a process once that a program is in PoCL's store which is
/// not, as when another process has just removed it to put its own there.
const STORE_RACE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
int access(const char *path, int mode) {
    static int looks;
    int (*real)(const char *, int) = (int (*)(const char *, int))dlsym(RTLD_NEXT, "access");
    const char *name = strrchr(path, '/');
    int lie = name && !strcmp(name, "/program.bc") && __sync_add_and_fetch(&looks, 1) == 2;
    return lie ? 0 : real(path, mode);
}
"#;

#[test]
fn workers_that_build_one_program_at_a_time_do_not_fail_each_others_builds() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, race) = (dir.path().join("race.c"), dir.path().join("race.so"));
    std::fs::write(&source, STORE_RACE).expect("a file");
    let mut c = std::process::Command::new("cc");
    c.args(["-shared", "-fPIC", "-o"]).arg(&race).arg(source);
    assert!(c.arg("-ldl").status().expect("cc runs").success());
    let program = compile("opencl_dlopen");
    let alone = run(native(&program)
        .env("LD_PRELOAD", &race)
        .env("POCL_CACHE_DIR", dir.path().join("native")));
    assert_eq!(text(&alone), "build: -11\n", "the race is PoCL's own");
    let server = Server::start_with(|c| {
        c.env("LD_PRELOAD", &race)
            .env("POCL_CACHE_DIR", dir.path().join("remote"));
    });
    let got = run(&mut server.command(&program));
    assert_eq!(text(&got), "read: 0, answer: 42\n");
}

#[test]
fn a_client_killed_while_it_builds_leaves_no_headers_behind() {
    let program = compile("opencl_faults");
    let (headers, scratch) = (tempfile::tempdir(), tempfile::tempdir());
    let (headers, scratch) = (headers.expect("a folder"), scratch.expect("a folder"));
    // A compiler has seconds of work with these.
    let function = |i| format!("int f{i}(int x) {{ return x % {i} + x / (x & {i}); }}\n");
    let text: String = (1..30_000).map(function).collect();
    std::fs::write(headers.path().join("slow.h"), text).expect("a file");
    // In a cell the folder would go with its session anyway.
    let server = Server::start_with(|c| {
        c.args(["--isolation", "off"]).env("TMPDIR", scratch.path());
    });
    let there = || std::fs::read_dir(scratch.path()).expect("a folder").count();
    let include = format!("-I {}", headers.path().display());
    let mut client = Running::start(server.command(&program).args(["include", &include]));
    client.line_with("building");
    until("the build", || (there() > 0).then_some(()));
    client.kill();
    until("the end of the headers", || (there() == 0).then_some(()));
}

/// Starts a program and waits for its first line.
fn started(command: &mut std::process::Command) -> (Child, BufReader<ChildStdout>, String) {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = pipes.spawn().expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("text");
    (child, out, line)
}

#[test]
fn a_context_hears_why_its_session_ended() {
    let program = compile("opencl_faults");
    let server = Server::start();
    let (child, mut out, line) = started(server.command(&program).arg("listen"));
    assert_eq!(line, "working\n");
    proc::kill_all(server.workers());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).expect("text");
    assert!(rest.contains("told: the session is over"), "{rest}");
    assert!(rest.contains("gave -2"), "{rest}");
    assert_eq!(finish(child).status.code(), Some(3));
}

/// Kilobytes of memory that a process has in use.
fn memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:"));
    let number = line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok());
    number.unwrap_or(0)
}

#[test]
fn objects_that_come_and_go_leave_nothing_behind() {
    let program = compile("opencl_faults");
    let server = Server::start();
    let (mut child, mut out, mut line) = started(server.command(&program).arg("churn"));
    assert_eq!(line, "warm\n");
    let client = child.id();
    let all = || -> Vec<(u32, u64)> {
        let processes = server.workers().into_iter().chain([client]);
        processes.map(|p| (p, memory(p))).collect()
    };
    let before = all();
    let mut go = child.stdin.take().expect("piped");
    std::io::Write::write_all(&mut go, b"\n").expect("it listens");
    line.clear();
    out.read_line(&mut line).expect("text");
    assert_eq!(line, "done\n");
    for (p, kb) in all() {
        let Some((_, was)) = before.iter().find(|b| b.0 == p) else {
            continue;
        };
        // 5000 times six objects: one that is kept would show as many times its size.
        assert!(kb < was + 8192, "process {p} grew from {was} to {kb} KiB");
    }
    std::io::Write::write_all(&mut go, b"\n").expect("it listens");
    drop(go);
    let end = child.wait().expect("it ends");
    assert!(end.success());
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

/// How soon, `cargo run -p busbar-e2e --example killed_clients` says.
#[test]
fn a_client_killed_at_any_moment_leaves_nothing_behind() {
    let program = compile("opencl_faults");
    let server = Server::start();
    let cases = kills::possible(kills::OPENCL);
    seeds(cases.len() as u64, |seed| {
        let case = &cases[seed as usize % cases.len()];
        kills::kill(&OpenCl(&server, &program), case, &mut Rng::new(seed));
    });
    let again = run(server.command(&program).arg("exit"));
    assert!(again.status.success(), "the server serves on");
}

#[test]
fn a_server_killed_at_any_moment_ends_its_clients() {
    let program = compile("opencl_faults");
    seeds(3, |seed| {
        let mut server = Server::start();
        let start = |words: &[&str]| {
            let mut c = server.command(&program);
            Running::start(c.args(words).stderr(Stdio::null()))
        };
        let clients = [start(&["work"]), start(&["steps", "1000000"])];
        std::thread::sleep(Duration::from_micros(Rng::new(seed).below(800_000)));
        let workers = server.workers();
        server.kill();
        for c in clients {
            let (said, status) = c.finish();
            assert!(said.contains("gave -"), "{said}");
            assert_eq!(status.code(), Some(3));
        }
        for w in workers {
            until("the worker's end", || (!proc::alive(w)).then_some(()));
        }
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
