//! Sessions over RDMA: equal to native runs, through a link that goes and comes, and back.
//!
//! `BUSBAR_TEST_RDMA` names a device that may be taken away: `./test rdma` has one in a virtual
//! machine. Tests that need one do nothing without. `BUSBAR_FUZZ=100` opens a thousand sessions.

use busbar_e2e::guarded::{Guarded, refused};
use busbar_e2e::hostile::Tap;
use busbar_e2e::program::{Running, clear, finished, native, printed, remote, remote_at, stats};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::{opencl, proc, until};
use busbar_harness::rng::{effort, seeds};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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

/// Has a session take a path, as an operator would.
fn to_path(server: &str, session: &Value, path: &str) -> Command {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    let session = session["session"].as_str().expect("a name");
    c.args(["set", session, "--server", server, "--path", path]);
    c
}

/// What `busbar fabric check` says of a server, as a command that `wrap` runs; and whether it is
/// content.
fn checked(wrap: &[&str], server: &Server, prepare: impl Fn(&mut Command)) -> (Value, bool) {
    let busbar = tree().busbar.to_str().expect("a path").to_string();
    let args = [
        "fabric",
        "check",
        "--json",
        "--least",
        "0",
        "--seconds",
        "0.1",
    ];
    let all = wrap.iter().copied().chain([&*busbar]).chain(args);
    let all: Vec<_> = all.chain([&*server.address]).collect();
    let mut c = Command::new(all[0]);
    clear(&mut c);
    prepare(c.args(&all[1..]));
    let out = finished(&mut c);
    let text = String::from_utf8_lossy(&out.stdout);
    let v = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    (v, out.status.success())
}

/// Those of its findings that are of one machine, or of all, with these words.
fn found(said: &Value, at: &str, what: &str, todo: &str) -> bool {
    let all = said["findings"].as_array().expect("a list");
    let has = |f: &Value, of: &str, words: &str| f[of].as_str().is_some_and(|s| s.contains(words));
    let is = |f: &&Value| has(f, "at", at) && has(f, "what", what) && has(f, "todo", todo);
    all.iter().any(|f| is(&f))
}

/// Runs what follows without the right to lock more memory than this, which root has.
const LITTLE_MEMORY: [&str; 6] = [
    "setpriv",
    "--bounding-set=-ipc_lock",
    "--inh-caps=-ipc_lock",
    "prlimit",
    "--memlock=65536:65536",
    "--",
];

/// A folder with a libibverbs that is none.
fn no_library() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("libibverbs.so.1"), "").expect("a file");
    folder
}

#[test]
fn a_check_of_the_fabric_finds_each_fault_and_says_what_to_do() {
    if !has_device() {
        return;
    }
    let server = server();
    let at = &*server.address;
    let as_it_is = |wrap: &[&str]| checked(wrap, &server, |_| ());
    let (good, content) = as_it_is(&[]);
    assert!(content, "{good:#}");
    let pairs = good["pairs"].as_array().expect("a list");
    assert_eq!(pairs.len(), 2, "{good:#}");
    for p in pairs {
        assert_eq!((&p["mtu"], &p["why_not"]), (&4096.into(), &Value::Null));
        assert!(p["write_gbps"].as_f64() > Some(0.0), "{p}");
        assert!(p["latency_us"].as_f64() > Some(0.0), "{p}");
    }
    let (small, content) = as_it_is(&LITTLE_MEMORY);
    assert!(
        !content
            && found(
                &small,
                "here",
                "64 KiB of memory can be locked",
                "ulimit -l"
            )
    );
    assert!(
        found(&small, "here", "memory cannot be locked", "both ends"),
        "{small:#}"
    );
    let folder = no_library();
    let (none, content) = checked(&[], &server, |c| {
        c.env("LD_LIBRARY_PATH", folder.path());
    });
    assert!(!content && found(&none, "here", "libibverbs.so.1", "ibverbs-providers"));
    // Two networks whose packets differ in size; this machine has the first one.
    system("ip address replace 10.9.1.1/24 dev v1");
    system("ip link set v1 mtu 1500");
    system("rdma link add rxe1 type rxe netdev v1");
    let other = Options::default()
        .arg("--rdma", "auto")
        .arg("--rdma-device", "rxe1");
    let other = other.start();
    let (differ, content) = checked(&[], &other, |c| {
        c.env("BUSBAR_RDMA_DEVICE", "rxe0");
    });
    let wanted = "its MTU is 1500, and that of here is 4200";
    assert!(
        !content && found(&differ, &other.address, wanted, "same MTU"),
        "{differ:#}"
    );
    drop(other);
    system("rdma link delete rxe1");
    system("ip link set v1 mtu 4200");
    system("ip link set v0 down");
    let (down, content) = as_it_is(&[]);
    system("ip link set v0 up");
    let named = found(&down, at, "port 1 of rxe0 is down", "ip link set v0 up");
    assert!(!content && named, "{down:#}");
    until("all is well again", || as_it_is(&[]).1.then_some(()));
}

#[test]
fn what_keeps_a_session_off_the_fabric_is_said_in_a_line_or_ends_it() {
    if !has_device() {
        return;
    }
    let server = server();
    let folder = no_library();
    let args = random(1, 20);
    let lib = folder.path().to_str().expect("a path");
    type Env<'a> = Option<(&'a str, &'a str)>;
    let cases: [(&[&str], Env<'_>, &str); 3] = [
        (
            &[],
            Some(("BUSBAR_RDMA_DEVICE", "rxe0:1:200")),
            "has no address 200",
        ),
        (&LITTLE_MEMORY, None, "ulimit -l"),
        (
            &[],
            Some(("LD_LIBRARY_PATH", lib)),
            "libibverbs.so.1 cannot be loaded",
        ),
    ];
    for (wrap, env, why) in cases {
        for wish in ["auto", "on"] {
            let all = [wrap, &[tree().busbar.to_str().expect("a path")]].concat();
            let mut c = Command::new(all[0]);
            clear(&mut c);
            c.args(&all[1..])
                .args(["run", "--server", &server.address, "--rdma", wish]);
            c.args(["--", PROGRAM])
                .args(&args)
                .env("BUSBAR_LOG", "info")
                .envs(env);
            let out = finished(&mut c);
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(said.contains(why), "{wish}: {said}");
            let on_tcp = said
                .lines()
                .filter(|l| l.contains("the session is on TCP: "))
                .count();
            let as_wished = if wish == "auto" {
                (true, 1)
            } else {
                (false, 0)
            };
            assert_eq!((out.status.success(), on_tcp), as_wished, "{wish}: {said}");
        }
    }
}

#[test]
fn a_session_that_changes_its_path_a_hundred_times_computes_what_it_would() {
    if !has_device() {
        return;
    }
    let server = server();
    let program = Path::new(PROGRAM);
    let limit = Duration::from_secs(900);
    let mut here = Running::start_for(native(program).arg("random-lines"), limit);
    let mut there = remote(&server, program);
    let there = there.arg("random-lines").env("BUSBAR_SHM", "0");
    let mut there = Running::start_for(there, limit);
    let on = |path| until(path, || is_on(path)(&server.wait_for_sessions(1)));
    let mut seed = 0;
    let mut works = |change: &dyn Fn()| {
        seed += 1;
        for p in [&mut here, &mut there] {
            p.say(&format!("{seed} 60 65536"));
        }
        change();
        assert_eq!(here.line(), there.line(), "program {seed}");
    };
    works(&|| ());
    on("rdma");
    let session = server.sessions().remove(0);
    let set = |path| {
        printed(&mut to_path(&server.address, &session, path));
        on(path);
    };
    // The kernel's device of software goes once nobody has it open, and tells nobody before: that
    // its port is down has the session let go of it.
    let lost = |meanwhile: &dyn Fn()| {
        system("ip link set v0 down");
        on("tcp");
        meanwhile();
        system("ip link set v0 up");
        on("rdma");
    };
    let made_anew = || {
        system("rdma link delete rxe0");
        system("rdma link add rxe0 type rxe netdev v0");
    };
    for round in 0..50 {
        match round {
            10 => works(&|| lost(&|| ())),
            30 => works(&|| lost(&made_anew)),
            _ => {
                works(&|| set("tcp"));
                works(&|| set("rdma"));
            }
        }
    }
    let traffic = &server.sessions()[0]["traffic"];
    let n = |of: &str| traffic[of].as_u64().unwrap_or(0);
    assert!(
        n("rdma_in") > 0 && n("rdma_in") < n("bytes_in"),
        "{traffic}"
    );
    there.go_on();
    assert!(there.wait().success());
    server.wait_for_sessions(0);
}

#[test]
fn a_training_that_changes_its_path_a_hundred_times_has_the_losses_it_would() {
    if !has_device() {
        return;
    }
    const CHANGES: usize = 100;
    let program = opencl::compile("opencl_train");
    let server = opencl::Server::start_with(|c| {
        c.args(["--rdma", "auto"]);
    });
    let limit = Duration::from_secs(900);
    let mut here = Running::start_for(&mut opencl::native(&program), limit);
    let mut there = server.command(&program);
    there
        .env("BUSBAR_SHM", "0")
        .env("BUSBAR_RESUME_TIMEOUT", "60");
    let mut steps = 0;
    let mut same = |losses: String| {
        let n = losses.split(' ').count();
        here.say(&n.to_string());
        assert_eq!(here.line(), losses, "after {steps} steps");
        steps += n;
    };
    let mut there = Running::start_for(&mut there, limit);
    there.say("1");
    same(there.line());
    let on = |path| {
        until(path, || {
            server.sessions().pop().filter(|s| s["path"] == path)
        })
    };
    let session = on("rdma");
    for path in ["tcp", "rdma"].repeat(CHANGES / 2) {
        // It trains until there is more to read.
        there.say("0");
        printed(&mut to_path(&server.address, &session, path));
        on(path);
        there.say("1");
        same(there.line());
        same(there.line());
    }
    assert!(steps > 2 * CHANGES + 1, "only {steps} steps");
    println!("{steps} steps, {CHANGES} changes");
    there.go_on();
    assert!(there.wait().success());
}

#[test]
fn a_server_without_rdma_sets_no_session_to_it() {
    let server = Server::start();
    let mut program = Running::start(remote(&server, Path::new(PROGRAM)).arg("until-error"));
    program.line_with("calling");
    let session = server.wait_for_sessions(1).remove(0);
    let set = |path| to_path(&server.address, &session, path);
    refused(&mut set("rdma"), &["--rdma auto"]);
    assert!(finished(&mut set("tcp")).status.success());
    assert_eq!(server.wait_for_sessions(1)[0]["path"], "tcp");
    program.kill();
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
fn page_locked_memory_is_read_and_written_in_place_unless_the_fabric_must_not_see_it() {
    if !has_device() {
        return;
    }
    const ROUNDS: u64 = 3;
    let server = server();
    let guarded = Guarded::start_with(|o, _| o.arg("--rdma", "auto"));
    guarded.login(&guarded.line("rdma", &[]));
    let program = Path::new(PROGRAM);
    let args = ["in-place".into(), ROUNDS.to_string()];
    let wanted = printed(native(program).args(&args));
    assert!(!wanted.contains("false"), "{wanted}");
    let before = system("rdma resource show");
    let clear = remote(&server, program);
    for (mut c, least) in [(clear, ROUNDS * (3 << 20)), (guarded.run(PROGRAM, &[]), 0)] {
        c.args(&args)
            .env("BUSBAR_RDMA", "on")
            .env("BUSBAR_SHM", "0");
        let out = finished(c.env("BUSBAR_STATS", "1"));
        assert_eq!(wanted, String::from_utf8_lossy(&out.stdout));
        let stats = stats(&out);
        for of in ["in_place_bytes_sent", "in_place_bytes_received"] {
            let moved = stats[of].as_u64().expect("a number");
            assert!(moved >= least && (moved > 0) == (least > 0), "{stats}");
        }
    }
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
fn a_port_that_is_down_for_half_a_minute_costs_a_session_nothing_but_its_path() {
    if !has_device() {
        return;
    }
    const DOWN: Duration = Duration::from_secs(30);
    let server = server();
    let program = Path::new(PROGRAM);
    let limit = Duration::from_secs(500);
    let mut here = Running::start_for(native(program).arg("random-lines"), limit);
    let mut there = remote(&server, program);
    let mut there = Running::start_for(there.arg("random-lines").env("BUSBAR_SHM", "0"), limit);
    let mut works = |seed: u64| {
        for p in [&mut here, &mut there] {
            p.say(&format!("{seed} 60 65536"));
        }
        assert_eq!(here.line(), there.line(), "program {seed}");
    };
    let on = |path| until(path, || is_on(path)(&server.wait_for_sessions(1)));
    works(1);
    on("rdma");
    system("ip link set v0 down");
    let since = Instant::now();
    works(2);
    on("tcp");
    // It tries again meanwhile, and each time finds that it cannot.
    for seed in 3.. {
        works(seed);
        if since.elapsed() > DOWN {
            break;
        }
    }
    on("tcp");
    system("ip link set v0 up");
    on("rdma");
    works(1);
    there.go_on();
    assert!(there.wait().success());
    server.wait_for_sessions(0);
}

/// A fabric that carries nothing yet does not cost a session the connection that it has.
#[test]
fn a_session_that_cannot_come_back_yet_keeps_its_connection() {
    if !has_device() {
        return;
    }
    let server = server();
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let said = || std::fs::read_to_string(&log).expect("a log");
    let busbar = tree().busbar.to_str().expect("a path").to_string();
    let mut c = Command::new(LITTLE_MEMORY[0]);
    clear(&mut c);
    // Without the right to lock more than it may, which is as much as it likes at first.
    c.args(&LITTLE_MEMORY[1..3]);
    c.args([&busbar, "run", "--server", &server.address, "--"]);
    c.args([PROGRAM, "random-lines"]);
    c.env("BUSBAR_SHM", "0").env("BUSBAR_STATS", "1");
    c.env("BUSBAR_LOG", "info");
    c.stderr(std::fs::File::create(&log).expect("a file"));
    let limit = Duration::from_secs(500);
    let mut here = Running::start_for(native(Path::new(PROGRAM)).arg("random-lines"), limit);
    let mut there = Running::start_for(&mut c, limit);
    let mut seed = 0;
    let mut works = || {
        seed += 1;
        for p in [&mut here, &mut there] {
            p.say(&format!("{seed} 60 65536"));
        }
        assert_eq!(here.line(), there.line(), "program {seed}");
    };
    let on = |path| until(path, || is_on(path)(&server.wait_for_sessions(1)));
    let may_lock = |pid: u32, limit: &str| {
        system(&format!("prlimit --pid {pid} --memlock={limit}:unlimited"));
    };
    works();
    on("rdma");
    let pid = server.sessions()[0]["pid"].as_u64();
    let pid = pid.expect("a process") as u32;
    system("ip link set v0 down");
    on("tcp");
    may_lock(pid, "65536");
    system("ip link set v0 up");
    let tries = || said().matches("RDMA was tried, and again in").count();
    for n in 1..=2 {
        until("it tries again", || (tries() >= n).then_some(()));
        works();
    }
    assert!(said().contains("ulimit -l"), "{}", said());
    assert_eq!(server.sessions()[0]["path"], "tcp");
    may_lock(pid, "unlimited");
    on("rdma");
    works();
    assert!(there.finish().1.success());
    let said = said();
    let line = said.lines().find_map(|l| l.strip_prefix("busbar-stats: "));
    let stats: Value = serde_json::from_str(line.expect("a line")).expect("JSON");
    // As the port went down, and to come back.
    assert_eq!(stats["resumed"], 2, "{said}");
}

/// A proxy that reads frames along, say, and ends a connection on which something else comes.
#[test]
fn what_bears_no_move_on_the_way_costs_a_session_one_connection() {
    if !has_device() {
        return;
    }
    let server = server();
    let tap = Tap::that_bears_no_move(&server.address);
    let wanted = printed(native(Path::new(PROGRAM)).args(random(5, 80)));
    let mut c = remote_at(&tap.address, Path::new(PROGRAM));
    c.args(random(5, 80)).env("BUSBAR_SHM", "0");
    let out = finished(c.env("BUSBAR_STATS", "1").env("BUSBAR_LOG", "info"));
    let log = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{log}");
    assert_eq!(String::from_utf8_lossy(&out.stdout), wanted);
    assert_eq!(stats(&out)["resumed"], 1, "{log}");
    let why = "tries RDMA again in 5 s: the last attempt lost its connection";
    assert!(log.contains(why), "{log}");
    server.wait_for_sessions(0);
}

/// Copies between devices of two servers take the fabric from the one to the other, in place where
/// it may see them, until an operator's word takes them off it.
#[test]
fn copies_between_two_servers_go_over_rdma() {
    if !has_device() {
        return;
    }
    let args = ["around".to_string(), (2 << 20).to_string(), 60.to_string()];
    let program = Path::new(PROGRAM);
    let devices = |o: Options| o.env("FAKEDEV_DEVICES", "2").arg("--rdma", "auto");
    let wanted = printed(native(program).env("FAKEDEV_DEVICES", "4").args(&args));
    let before = system("rdma resource show");
    let limit = Duration::from_secs(500);
    let linked = |sessions: &dyn Fn() -> Vec<Value>| {
        until("a link on RDMA", || {
            let session = sessions().pop()?;
            (session["objects"]["LinkOnRdma"] == 1).then_some(session)
        })
    };
    let ends = |program: Running| {
        let (got, status) = program.finish();
        assert!(status.success());
        assert_eq!(got, wanted);
    };

    let servers = [(); 2].map(|()| devices(Options::default()).start());
    let address = servers.each_ref().map(|s| s.address.clone()).join(",");
    let mut c = remote_at(&address, program);
    let there = Running::start_for(c.args(&args).env("BUSBAR_SHM", "0"), limit);
    let [session, _] = servers.each_ref().map(|s| linked(&|| s.sessions()));
    printed(&mut to_path(&servers[0].address, &session, "tcp"));
    until("no link on RDMA", || {
        let sessions = servers.iter().flat_map(Server::sessions);
        let mut on = sessions.filter(|s| s["objects"]["LinkOnRdma"] == 1);
        on.next().is_none().then_some(())
    });
    ends(there);

    let guarded = [(); 2].map(|()| Guarded::start_with(|o, _| devices(o)));
    let lines = guarded.each_ref().map(|g| g.line("rdma", &[]));
    for (g, line) in guarded.iter().zip(&lines) {
        g.login(line);
    }
    let mut c = guarded[0].run(PROGRAM, &args.each_ref().map(String::as_str));
    c.env(
        "BUSBAR_SERVER",
        lines.each_ref().map(|l| l.line()).join(","),
    );
    let there = Running::start_for(c.env("BUSBAR_SHM", "0"), limit);
    guarded.iter().for_each(|g| drop(linked(&|| g.sessions())));
    ends(there);
    for (server, g) in servers.iter().zip(&guarded) {
        server.wait_for_sessions(0);
        g.wait_for_sessions(0);
    }
    until("all that verbs had is free", || {
        (system("rdma resource show") == before).then_some(())
    });
}

/// Where tenants have adapters of their own, none of them sees another's.
#[test]
fn a_tenant_with_an_adapter_of_its_own_has_no_other() {
    if !has_device() {
        return;
    }
    system("ip address replace 10.9.1.1/24 dev v1");
    system("rdma link add rxe1 type rxe netdev v1");
    let guarded = Guarded::start_with(|o, folder| {
        let policy = folder.join("policy.toml");
        let entry = |tenant, device| format!("[tenant.{tenant}]\nrdma_device = \"{device}\"\n");
        let text = entry("lab", "rxe0") + &entry("school", "rxe1");
        std::fs::write(&policy, text).expect("a file");
        let policy = policy.display().to_string();
        o.arg("--rdma", "auto").arg("--policy", &policy)
    });
    let held = |tenant: &str| {
        guarded.login(&guarded.line(tenant, &["--tenant", tenant]));
        let mut c = guarded.run(PROGRAM, &["until-error"]);
        let mut program = Running::start(c.env("BUSBAR_SHM", "0"));
        program.line_with("calling");
        let session = guarded.wait_for_sessions(1).remove(0);
        let path = session["path"].as_str().expect("a path").to_string();
        let worker = session["worker_pid"].as_u64().expect("a process");
        let files = std::fs::read_dir(format!("/proc/{worker}/root/dev/infiniband"));
        let files = files
            .expect("a folder")
            .map(|f| f.expect("a file").file_name());
        let device = |file: std::ffi::OsString| {
            let of = Path::new("/sys/class/infiniband_verbs")
                .join(file)
                .join("ibdev");
            std::fs::read_to_string(of)
                .expect("a name")
                .trim()
                .to_string()
        };
        let devices: Vec<_> = files.map(device).collect();
        program.kill();
        guarded.wait_for_sessions(0);
        (path, devices)
    };
    let (path, devices) = held("lab");
    assert_eq!((&*path, devices), ("rdma", vec!["rxe0".to_string()]));
    let (_, devices) = held("school");
    assert_eq!(devices, ["rxe1"]);
    system("rdma link delete rxe1");
}

#[test]
fn sessions_that_end_and_such_that_are_killed_leave_nothing_on_the_device() {
    if !has_device() {
        return;
    }
    let sessions = effort(10);
    let server = server();
    let program = Path::new(PROGRAM);
    let before = system("rdma resource show");
    let gone = |what: &str| {
        server.wait_for_sessions(0);
        until(what, || {
            (system("rdma resource show") == before).then_some(())
        });
    };
    let mut on_rdma = 0;
    for seed in 0..sessions {
        let mut c = remote(&server, program);
        c.args(random(seed, 5)).env("BUSBAR_SHM", "0");
        let out = finished(c.env("BUSBAR_STATS", "1"));
        assert!(out.status.success(), "{out:?}");
        on_rdma += u64::from(stats(&out)["rdma_bytes_sent"].as_u64() > Some(0));
    }
    assert_eq!(on_rdma, sessions);
    gone("nothing is left of sessions that ended");
    println!("{sessions} sessions over RDMA, and then: {before}");
    for who in ["client", "worker"] {
        let mut c = remote(&server, program);
        let mut c = Running::start(c.arg("until-error").env("BUSBAR_SHM", "0"));
        c.line_with("calling");
        until("rdma", || is_on("rdma")(&server.wait_for_sessions(1)));
        assert_ne!(system("rdma resource show"), before);
        if who == "worker" {
            let pid = server.sessions()[0]["worker_pid"].as_u64();
            proc::signal(pid.expect("a process") as u32, libc::SIGKILL);
            server.wait_for_sessions(0);
        }
        c.kill();
        gone(who);
    }
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
