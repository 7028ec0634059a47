//! Ranks that talk to each other, natively on the simulated NCCL and through a server that has it:
//! what they print is the same.

use busbar_e2e::proc::cells_reach_servers;
use busbar_e2e::program::{clear, finished, native, printed, remote};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// A program of that name.
fn made(name: &str) -> PathBuf {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");
    let cc = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&out)
        .args([&format!("{programs}/{name}.c"), "-ldl"])
        .status();
    assert!(cc.expect("cc runs").success(), "the program compiles");
    out
}

/// The program whose ranks are processes.
fn program() -> &'static PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| made("nccl_ranks"))
}

/// The one whose ranks are threads.
fn threads() -> &'static PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| made("nccl_threads"))
}

fn options(devices: u32) -> Options {
    let library = tree().fakedev.join("libnccl.so.2");
    Options::default()
        .arg("--nccl-library", library.to_str().expect("a path"))
        .env("FAKEDEV_DEVICES", &devices.to_string())
}

fn server(devices: u32) -> Server {
    options(devices).start()
}

/// The program through a server whose collectives it asks for.
fn asking(server: &Server) -> Command {
    let mut c = remote(server, program());
    c.env("BUSBAR_NCCL", "1");
    c
}

/// What the program prints natively and through a server.
fn both(mode: &str, ranks: u32, seed: u32) -> (String, String) {
    let args = [mode.to_string(), ranks.to_string(), seed.to_string()];
    let mut here = native(program());
    here.env("FAKEDEV_DEVICES", ranks.to_string());
    let here = printed(here.args(&args));
    let server = server(ranks);
    let there = printed(asking(&server).args(&args));
    (here, there)
}

fn same(mode: &str, ranks: u32, seed: u32) -> String {
    let (here, there) = both(mode, ranks, seed);
    assert_eq!(here, there, "mode {mode}, {ranks} ranks, seed {seed}");
    here
}

#[test]
fn random_collectives_of_two_and_of_four_ranks() {
    for (ranks, seed) in [(1, 1), (2, 2), (4, 3), (4, 4)] {
        let said = same("random", ranks, seed);
        assert_eq!(said.matches(": kind").count() as u32, 40 * ranks, "{said}");
    }
}

#[test]
fn communicators_that_nobody_waits_for() {
    let said = same("nonblocking", 2, 5);
    assert!(said.contains("init 7\nready: 0"), "{said}");
}

#[test]
fn a_process_with_all_devices() {
    let said = same("all", 2, 6);
    assert!(said.contains("version 22809"), "{said}");
}

/// The program on devices of some servers, as `busbar run` starts it with these flags.
fn launched(servers: &[&Server], flags: &[&str], args: &[&str]) -> Command {
    let at: Vec<_> = servers.iter().map(|s| s.address.as_str()).collect();
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(["run", "--server", &at.join(",")]).args(flags);
    c.arg("--").arg(program()).args(args);
    c
}

#[test]
fn a_process_with_devices_of_two_servers() {
    let [a, b] = ["a", "b"].map(|name| options(2).env("NCCL_HOSTID", name).start());
    let args = ["all", "4", "7"];
    let here = printed(native(program()).env("FAKEDEV_DEVICES", "4").args(args));
    let out = finished(&mut launched(&[&a, &b], &["-n", "4"], &args));
    let err = String::from_utf8_lossy(&out.stderr);
    if !cells_reach_servers() {
        let why = "workers of that server reach no other: jobs over several servers take";
        assert!(!out.status.success() && err.contains(why), "{err}");
        return;
    }
    assert_eq!(here, String::from_utf8_lossy(&out.stdout), "{err}");
}

/// What ranks that are threads print, natively and through a server.
fn same_of_threads(mode: &str, ranks: u32) -> String {
    let args = [mode.to_string(), ranks.to_string()];
    let mut here = native(threads());
    here.env("FAKEDEV_DEVICES", ranks.to_string());
    let here = printed(here.args(&args));
    let server = server(ranks);
    let mut there = remote(&server, threads());
    let there = printed(there.args(&args).env("BUSBAR_NCCL", "1"));
    assert_eq!(here, there, "mode {mode}, {ranks} ranks");
    here
}

#[test]
fn threads_of_a_process_send_to_each_other_without_a_group_around_them() {
    for (mode, ranks) in [("wait", 2), ("wait", 4), ("poll", 3), ("late", 2)] {
        let said = same_of_threads(mode, ranks);
        let of = |what: &str| said.matches(what).count() as u32;
        assert_eq!(
            (of("all to all: 0 0"), of("ring: 0 0")),
            (3 * ranks, ranks),
            "{said}"
        );
        assert_eq!(
            (of("one gets: 0 0"), of("scatter: 0 0")),
            (1, ranks),
            "{said}"
        );
    }
}

#[test]
fn who_waits_long_for_a_thread_says_for_which_rank() {
    let server = server(2);
    let mut c = remote(&server, threads());
    c.args(["late", "2"]).env("BUSBAR_NCCL", "1");
    let out = finished(c.env("BUSBAR_STALL", "0.2").env("BUSBAR_LOG", "lost"));
    let err = String::from_utf8_lossy(&out.stderr);
    let said = "rank 0 has waited for 0 s in its first message with rank 1 of the same process";
    assert_eq!(err.matches(said).count(), 1, "{err}");
}

#[test]
fn a_device_that_waits_for_a_thread_of_the_same_process_is_told_of() {
    let server = server(2);
    let mut c = remote(&server, threads());
    c.args(["lag", "2"]).env("BUSBAR_NCCL", "1");
    let out = finished(c.env("BUSBAR_STALL", "0.5"));
    let err = String::from_utf8_lossy(&out.stderr);
    let said = "keeps rank 0 of the same process, who has waited for";
    assert_eq!(err.matches(said).count(), 1, "{err}");
}

#[test]
fn a_thread_that_waits_for_another_rank_ends_with_its_communicator() {
    assert!(same_of_threads("never", 3).ends_with("rank 2:\ninit: 0\nended: 1\n"));
}

#[test]
fn a_program_that_shares_several_devices_has_collectives_unasked() {
    let args = ["all", "2", "8"];
    let here = printed(native(program()).env("FAKEDEV_DEVICES", "2").args(args));
    let there = printed(&mut launched(&[&server(2)], &[], &args));
    assert_eq!(here, there);
}

#[test]
fn devices_of_several_servers_that_are_not_reserved_cannot_meet_and_that_is_said_at_once() {
    let [a, b] = [1, 1].map(server);
    let out = finished(&mut launched(&[&a, &b], &[], &["all", "2", "8"]));
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains("all: 5"), "{said}");
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(
        err.contains("reserved: tell `busbar run` how many with -n"),
        "{err}"
    );
}

#[test]
fn an_abort_ends_the_wait_for_a_rank_that_never_comes() {
    let said = same("abort", 1, 7);
    assert!(said.contains("init 7, use 1, abort 0"), "{said}");
}

#[test]
fn an_abort_that_overtakes_what_makes_its_communicator_succeeds() {
    let said = same("early", 1, 11);
    assert!(said.contains("inits 200, aborts 200"), "{said}");
}

#[test]
fn a_group_may_name_a_communicator_more_than_once() {
    let said = same("together", 2, 12);
    assert_eq!(said.matches("destroyed: 0 0").count(), 2, "{said}");
}

#[test]
fn what_is_refused_is_refused_at_the_call_and_with_the_same_code() {
    for ranks in [1, 3] {
        let said = same("arguments", ranks, 14);
        let refused = said.matches(": 4\n").count() + said.matches(": 5\n").count();
        assert!(refused > 20 * ranks as usize, "{said}");
    }
}

#[test]
fn an_operator_that_did_not_come_to_be_is_no_other() {
    let library = tree().fakedev.join("libnccl.so.2");
    let server = Options::default()
        .arg("--nccl-library", library.to_str().expect("a path"))
        .env("FAKENCCL_FAULTS", "ncclRedOpCreatePreMulSum@1=1")
        .start();
    let said = printed(asking(&server).args(["operator", "1", "13"]));
    assert!(said.contains("got 0, error 1"), "{said}");
}

#[test]
fn a_rank_that_dies_is_an_error_of_the_others() {
    let said = same("death", 3, 8);
    assert_eq!(said.matches("error 6, abort 0").count(), 2, "{said}");
}

#[test]
fn a_failure_of_a_queued_collective_is_the_communicators() {
    let library = tree().fakedev.join("libnccl.so.2");
    let server = Options::default()
        .arg("--nccl-library", library.to_str().expect("a path"))
        .env("FAKENCCL_FAULTS", "ncclAllGather@1=3")
        .start();
    let out = finished(asking(&server).args(["random", "1", "9"]));
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(!out.status.success() && said.contains(": 3\n"), "{said}");
}

#[test]
fn a_server_without_nccl_says_so() {
    let server = Options::default()
        .arg("--nccl-library", "/bin/true")
        .env("FAKEDEV_DEVICES", "1")
        .start();
    let mut c = asking(&server);
    c.args(["random", "1", "10"]).env("BUSBAR_LOG", "warn");
    let out = finished(&mut c);
    let err = String::from_utf8_lossy(&out.stderr);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let wanted = format!("the server {} has no NCCL", host.trim());
    assert!(err.contains(&wanted), "{err}");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("id: 2"), "{said}");
}
