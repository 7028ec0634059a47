//! What a server does when it runs short: of room in its log and its cache, of descriptors, of
//! memory of the device. Sessions go on, who comes hears in one sentence what there is too little
//! of, and all is well again once there is room. And servers that stand still.

use busbar_e2e::proc::{self, Watchdog};
use busbar_e2e::program::{self, Running, finished, native, printed, remote, remote_at};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use busbar_e2e::{PATIENCE, until};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_driver_program"))
}

fn semantics() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_semantics_program"))
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let full = || {
        File::options()
            .write(true)
            .open("/dev/full")
            .expect("a device")
    };
    let mut c = Command::new(&tree().busbar);
    program::clear(&mut c);
    c.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--api",
        "cuda",
        "--cuda-library",
    ]);
    c.arg(tree().fakedev_library()).stdin(Stdio::null());
    let cache = tempfile::tempdir().expect("a folder");
    c.arg("--cache-dir").arg(cache.path());
    let mut server = c
        .stderr(full())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let watchdog = Watchdog::start(server.id(), PATIENCE);
    let mut line = String::new();
    let out = server.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("it prints");
    let address = line.trim().strip_prefix("busbar: listening on ");
    let args = ["random", "3", "60"];
    let wanted = printed(native(program()).args(args));
    let got = address.map(|a| finished(remote_at(a, program()).args(args)));
    let alive = proc::alive(server.id());
    let _ = server.kill();
    let _ = server.wait();
    drop(watchdog);
    let got = got.unwrap_or_else(|| panic!("no address: {line:?}"));
    assert_eq!(String::from_utf8_lossy(&got.stdout), wanted);
    assert!(alive);
}

#[test]
fn a_cache_that_cannot_be_written_is_done_without_and_named_once_a_session() {
    let cache = tempfile::tempdir().expect("a folder");
    // Every folder that an image could go to is a file.
    for i in 0..256 {
        std::fs::write(cache.path().join(format!("{i:02x}")), "").expect("a file");
    }
    let dir = cache.path().display().to_string();
    let server = Options::default().arg("--cache-dir", &dir).start();
    let wanted = printed(native(program()).args(["work", "3"]));
    assert_eq!(
        printed(remote(&server, program()).args(["work", "3"])),
        wanted
    );
    server.wait_for_sessions(0);
    let log = server.log();
    assert_eq!(log.matches("cannot write to the cache").count(), 1, "{log}");
}

/// Gives a process so much of something, or as much as it may have.
fn allow(pid: u32, what: libc::__rlimit_resource_t, n: u64) {
    let mut l = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let pid = pid as i32;
    // SAFETY: pointers to a live structure.
    unsafe {
        assert_eq!(libc::prlimit(pid, what, std::ptr::null(), &raw mut l), 0);
        l.rlim_cur = n.min(l.rlim_max);
        assert_eq!(
            libc::prlimit(pid, what, &raw const l, std::ptr::null_mut()),
            0
        );
    }
}

#[test]
fn a_server_out_of_descriptors_says_so_and_recovers() {
    let server = Server::start();
    let mut other = Running::start(remote(&server, program()).args(["hold", "1"]));
    other.line_with("holding");
    server.wait_for_sessions(1);
    until("a spare worker", || {
        (server.log().contains("listening") && proc::children(server.pid()).len() >= 2)
            .then_some(())
    });
    let fd = |n: u64| Path::new("/proc").join(format!("{}/fd/{n}", server.pid()));
    let first_free = (0..).find(|n| !fd(*n).exists()).expect("one is free");
    // A limit is one of numbers, and what the server has in reserve has some, too.
    let null = |n: &u64| std::fs::read_link(fd(*n)).is_ok_and(|to| to == Path::new("/dev/null"));
    let reserve = (0..1000).filter(null).max().expect("there is a reserve");
    let first_free = first_free.max(reserve + 1);
    let mut turned_away = 0;
    for room in 0..8 {
        allow(server.pid(), libc::RLIMIT_NOFILE, first_free + room);
        let mut c = remote(&server, program());
        let out = finished(c.arg("devices").env("BUSBAR_LOG", "error"));
        let text = String::from_utf8_lossy(&out.stdout);
        let err = String::from_utf8_lossy(&out.stderr);
        if !text.starts_with("init 0 ") {
            turned_away += 1;
            let said =
                err.contains("too many files open") || err.contains("too many files are open");
            assert!(said, "{err}");
            assert_eq!(err.lines().count(), 1, "{err}");
        }
    }
    assert!(turned_away > 0);
    allow(server.pid(), libc::RLIMIT_NOFILE, u64::MAX);
    let text = printed(remote(&server, program()).arg("devices"));
    assert!(text.starts_with("init 0 "), "{text}");
    other.goes_on_holding();
    server.wait_for_sessions(0);
}

#[test]
fn a_full_device_is_one_to_the_program_and_has_room_as_soon_as_memory_is_freed() {
    let server = Options::default().env("FAKEDEV_MEMORY_MIB", "256").start();
    let mut here = native(semantics());
    let wanted = printed(here.arg("full").env("FAKEDEV_MEMORY_MIB", "256"));
    assert!(wanted.contains("full: 2\ncuMemAllocAsync: 2\n"), "{wanted}");
    assert!(wanted.contains("cuModuleUnload: 0\ncuMemAllocAsync: 0\n"));
    assert_eq!(printed(remote(&server, semantics()).arg("full")), wanted);
}

#[test]
fn a_device_without_memory_for_a_context_is_an_error_to_who_asks_for_one() {
    let fault = ("FAKEDEV_FAULTS", "cuDevicePrimaryCtxRetain@1=2");
    let server = Options::default().env(fault.0, fault.1).start();
    let wanted = printed(native(semantics()).arg("primary").env(fault.0, fault.1));
    assert!(wanted.starts_with("cuDevicePrimaryCtxRetain: 2\n"));
    assert!(wanted.ends_with("cuMemAlloc_v2: 0\n"), "{wanted}");
    assert_eq!(printed(remote(&server, semantics()).arg("primary")), wanted);
}

#[test]
fn a_library_that_finds_no_memory_says_so_where_it_is_used() {
    let wanted = printed(native(semantics()).arg("library"));
    assert!(wanted.lines().all(|l| l.ends_with(": 0")), "{wanted}");
    let fault = "cuLibraryLoadData@1=2";
    let server = Options::default().env("FAKEDEV_FAULTS", fault).start();
    // It is loaded while the program goes on.
    let late = wanted.replacen("cuLibraryGetKernel: 0", "cuLibraryGetKernel: 2", 1);
    assert_eq!(printed(remote(&server, semantics()).arg("library")), late);
}

#[test]
fn a_worker_without_memory_for_events_answers_all_the_same() {
    let copies = |fault: &str| {
        let server = Options::default().env("FAKEDEV_FAULTS", fault).start();
        // Through its own memory, not through some that both have.
        printed(
            remote(&server, semantics())
                .arg("copies")
                .env("BUSBAR_SHM", "0"),
        )
    };
    let wanted = printed(native(semantics()).arg("copies"));
    let events: Vec<_> = (1..9).map(|n| format!("cuEventCreate@{n}=2")).collect();
    assert_eq!(copies(&events.join(",")), wanted);
    // A copy that fails half-way: what is there of it is not sent after the news.
    let half = wanted.replacen("cuMemcpyDtoH_v2: 0", "cuMemcpyDtoH_v2: 2", 1);
    assert_ne!(half, wanted);
    assert_eq!(copies("cuMemcpyDtoHAsync_v2@3=2"), half);
}

/// Lets a stopped process go on, also when a test fails.
struct Stopped(u32);

impl Stopped {
    fn now(pid: u32) -> Self {
        proc::signal(pid, libc::SIGSTOP);
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: kill has no preconditions.
        unsafe { libc::kill(self.0 as i32, libc::SIGCONT) };
    }
}

#[test]
fn a_server_that_stands_still_is_an_error_to_who_comes_and_to_nobody_else() {
    let server = Server::start();
    let mut other = Running::start(remote(&server, program()).args(["hold", "1"]));
    other.line_with("holding");
    let stopped = Stopped::now(server.pid());
    // Its system takes the connection, and nobody answers. Not by `busbar run`, which asks first.
    let mut c = native(program());
    c.env("LD_LIBRARY_PATH", &tree().cuda);
    c.env("BUSBAR_SERVER", &server.address);
    c.env("BUSBAR_LOG", "error")
        .env("BUSBAR_CONNECT_TIMEOUT", "1");
    c.stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .arg("devices");
    let client = c.spawn().expect("the program starts");
    // It would wait for a server at work for half a minute.
    let watchdog = Watchdog::start(client.id(), Duration::from_secs(15));
    let out = client.wait_with_output().expect("it can be waited for");
    drop(watchdog);
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(err.contains("no answer in time"), "{err}");
    // A session has a worker of its own.
    other.goes_on_holding();
    drop(stopped);
    server.wait_for_sessions(0);
    let text = printed(remote(&server, program()).arg("devices"));
    assert!(text.starts_with("init 0 "), "{text}");
}

#[test]
fn a_worker_that_stands_still_for_a_while_is_waited_for() {
    let server = Server::start();
    let mut client = Running::start(remote(&server, program()).args(["hold", "1"]));
    client.line_with("holding");
    let sessions = server.wait_for_sessions(1);
    let worker = sessions[0]["worker_pid"].as_u64().expect("a number") as u32;
    let stopped = Stopped::now(worker);
    client.go_on();
    // Its call waits; how long is of no matter.
    std::thread::sleep(Duration::from_millis(300));
    drop(stopped);
    client.goes_on_holding();
    server.wait_for_sessions(0);
}

#[test]
fn workers_without_memory_say_so_and_later_ones_work() {
    let server = Server::start();
    let mut other = Running::start(remote(&server, program()).args(["hold", "1"]));
    other.line_with("holding");
    // What the server has itself, and a little; a worker inherits the limit, and reserves far more.
    let own = proc::reserved_kib(server.pid()) << 10;
    allow(server.pid(), libc::RLIMIT_AS, own + (64 << 20));
    let open = || {
        let mut c = remote(&server, program());
        let out = finished(c.arg("devices").env("BUSBAR_LOG", "error"));
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        (text(&out.stdout), text(&out.stderr))
    };
    // The spare one is from before.
    let turned_away = until("a client that is turned away", || {
        Some(open()).filter(|(text, _)| !text.starts_with("init 0 "))
    });
    let why = turned_away.1;
    let words = ["no memory", "cannot", "no thread", "died while it started"];
    assert!(words.iter().any(|w| why.contains(w)), "{why}");
    allow(server.pid(), libc::RLIMIT_AS, u64::MAX);
    until("a client that is taken", || {
        open().0.starts_with("init 0 ").then_some(())
    });
    other.goes_on_holding();
    server.wait_for_sessions(0);
}

#[test]
fn a_link_that_carries_nothing_is_an_error_to_who_comes_and_a_wait_to_who_is_there() {
    let server = Server::start();
    let options = busbar_relay::Options::new("127.0.0.1:0", &server.address, Default::default());
    let relay = busbar_relay::Relay::start(options).expect("the relay starts");
    let address = relay.address().to_string();
    let mut other = Running::start(remote_at(&address, program()).args(["hold", "1"]));
    other.line_with("holding");
    relay.stall(Duration::from_secs(3600));
    other.go_on();
    let mut c = remote_at(&address, program());
    let out = finished(c.arg("devices").env("BUSBAR_CONNECT_TIMEOUT", "1"));
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(125));
    assert!(err.contains("no answer in time"), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    relay.resume();
    other.goes_on_holding();
    server.wait_for_sessions(0);
}

#[test]
fn a_stopped_worker_that_is_killed_is_an_error_to_its_client() {
    let server = Server::start();
    let mut client = Running::start(remote(&server, program()).arg("until-error"));
    client.line_with("calling");
    let sessions = server.wait_for_sessions(1);
    let worker = sessions[0]["worker_pid"].as_u64().expect("a number") as u32;
    proc::signal(worker, libc::SIGSTOP);
    proc::signal(worker, libc::SIGKILL);
    assert!(client.line_with("error").ends_with("then an error"));
    assert!(client.finish().1.success());
    server.wait_for_sessions(0);
}

#[test]
fn a_stopped_program_keeps_what_it_has_until_it_ends() {
    let server = Server::start();
    let mut c = Command::new(&tree().busbar);
    program::clear(&mut c);
    c.args(["run", "--server", &server.address, "--gpus", "1", "--"]);
    let mut holder = Running::start(c.arg(program()).args(["hold", "64"]));
    holder.line_with("holding");
    let pid = proc::children(holder.pid())[0];
    proc::signal(pid, libc::SIGSTOP);
    let refused = finished(remote(&server, program()).arg("devices"));
    let err = String::from_utf8_lossy(&refused.stderr);
    assert!(err.contains("is leased, to"), "{err}");
    proc::signal(pid, libc::SIGKILL);
    server.wait_for_sessions(0);
    until("the lease's end", || {
        let text = finished(remote(&server, program()).arg("devices")).stdout;
        text.starts_with(b"init 0 ").then_some(())
    });
    holder.wait();
}

#[test]
fn a_server_that_is_killed_is_in_nobodys_way() {
    let mut server = Server::start();
    let mut client = Running::start(remote(&server, program()).arg("until-error"));
    client.line_with("calling");
    server.kill();
    client.finish();
    // Its port has connections yet that are being closed, and another may have it for a moment.
    let options = Options::default().arg("--listen", &server.address);
    let next = until("a server at the same address", || options.try_start().ok());
    assert_eq!(next.address, server.address);
    printed(remote(&next, program()).args(["work", "1"]));
}
