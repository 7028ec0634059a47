//! Memory that a program and kernels, or two programs, share: on the simulated driver.

use busbar_channel::most_sides;
use busbar_e2e::program::{finished, native, printed, remote};
use busbar_e2e::server::{Options, Server};
use std::path::{Path, PathBuf};
use std::process::Command;

fn python() -> &'static Path {
    Path::new("python3")
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("programs")
        .join(name)
}

#[test]
fn managed_mapped_and_registered_memory_read_as_they_do_natively() {
    let server = Server::start();
    let program = script("cuda_shadow.py");
    let expected = printed(native(python()).arg(&program));
    assert!(expected.ends_with("done\n"), "{expected}");
    // On one host page-locked memory is shared; elsewhere it exists twice.
    for sharing in ["", "0", "", "0"] {
        let mut c = remote(&server, python());
        let got = printed(c.arg(&program).env("BUSBAR_SHM", sharing));
        assert_eq!(got, expected, "BUSBAR_SHM={sharing}");
    }
}

#[test]
fn programs_and_kernels_use_managed_memory_at_the_same_time() {
    let server = Server::start();
    let program = Path::new(env!("CARGO_BIN_EXE_semantics_program"));
    let expected = printed(native(program).arg("talks_beside"));
    assert_eq!(expected.matches("rounds: 50").count(), 2, "{expected}");
    assert_eq!(expected.matches("met: 40").count(), 2, "{expected}");
    let all = "262144 of 262144";
    assert_eq!(expected.matches(all).count(), 10, "{expected}");
    assert_eq!(expected.matches("answered: true").count(), 20, "{expected}");
    for sharing in ["0", "1"] {
        let mut c = remote(&server, program);
        let got = printed(c.arg("talks_beside").env("BUSBAR_SHM", sharing));
        assert_eq!(got, expected, "BUSBAR_SHM={sharing}");
    }
}

#[test]
fn programs_and_kernels_change_the_same_word_at_the_same_time() {
    same_with_and_without_shared_memory("atomics");
}

/// The simulated driver has no such pools; what an H200's says is in `testing/gpu/programs`.
#[test]
fn a_pool_may_have_managed_memory() {
    let server = Server::start();
    let program = Path::new(env!("CARGO_BIN_EXE_semantics_program"));
    let mut c = remote(&server, program);
    let text = printed(c.arg("managed_pools"));
    let times = |what: &str| text.matches(what).count();
    assert!(text.starts_with("default: 0\nagain: true\n"), "{text}");
    assert_eq!(times("another: 0 true\n"), 3, "{text}");
    assert!(text.contains("none: 1\n"), "{text}");
    assert_eq!(times("the program sees it: true true\n"), 3, "{text}");
    assert_eq!(times("of the pool: true, 1, 0\n"), 3, "{text}");
    assert_eq!(times("cuMemAdvise: 801\n"), 3, "{text}");
    assert_eq!(times("cuMemPrefetchAsync: 0\n"), 3, "{text}");
    let twice = "cuMemFreeAsync: 0\ncuMemFreeAsync: 1\ncuMemFree_v2: 0\n";
    assert_eq!(times(twice), 3, "{text}");
    assert_eq!(times("used: 0\n"), 3, "{text}");
    assert!(text.contains("the next one: 9\n"), "{text}");
    assert!(text.contains("cuMemPoolDestroy: 1\n"), "{text}");
    assert_eq!(times("cuMemPoolCreate: 1\n"), 2, "{text}");
    assert!(text.contains("mine: true\n") && text.contains("mine: false\n"));
    assert!(text.ends_with("cuMemFreeAsync: 0\ncuStreamSynchronize: 0\n"));
}

#[test]
fn the_system_reads_and_writes_memory_that_kernels_use() {
    let server = Server::start();
    let program = script("cuda_system.py");
    let expected = printed(native(python()).arg(&program));
    assert!(expected.ends_with("done\n"), "{expected}");
    for sharing in ["0", "1"] {
        let mut c = remote(&server, python());
        let got = printed(c.arg(&program).env("BUSBAR_SHM", sharing));
        assert_eq!(got, expected, "BUSBAR_SHM={sharing}");
    }
}

#[test]
fn the_system_does_so_for_programs_with_libraries_ahead_of_the_c_library() {
    let server = Server::start();
    let (program, folder) = (
        script("cuda_system.py"),
        tempfile::tempdir().expect("a folder"),
    );
    let expected = printed(native(python()).arg(&program));
    // Profilers and sanitizers look up what is behind them when they are loaded, or when needed.
    for lazy in ["0", "1"] {
        let library = folder.path().join(format!("ahead{lazy}.so"));
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-shared", "-fPIC"])
            .arg(format!("-DLAZY={lazy}"));
        cc.arg("-o")
            .arg(&library)
            .arg(script("interposer.c"))
            .arg("-ldl");
        assert!(cc.status().expect("cc runs").success());
        let mut c = native(python());
        c.arg(&program).env("LD_PRELOAD", &library);
        assert_eq!(printed(&mut c), expected, "natively, LAZY={lazy}");
        for sharing in ["0", "1"] {
            let mut c = remote(&server, python());
            c.arg(&program).env("LD_PRELOAD", &library);
            let got = printed(c.env("BUSBAR_SHM", sharing));
            assert_eq!(got, expected, "LAZY={lazy} BUSBAR_SHM={sharing}");
        }
    }
}

#[test]
fn graphs_copy_out_and_in_again_through_the_programs_memory() {
    same_with_and_without_shared_memory("host_graphs");
}

#[test]
fn kernels_find_host_memory_wherever_its_address_is() {
    same_with_and_without_shared_memory("host_memory");
}

#[test]
fn registered_memory_is_what_the_driver_says_of_it() {
    same_with_and_without_shared_memory("registered");
}

#[test]
fn two_processes_and_their_kernels_have_the_same_host_memory() {
    same_with_and_without_shared_memory("host_pools_shared");
}

#[test]
fn host_memory_that_is_created_and_mapped_is_the_hosts_and_the_devices() {
    same_with_and_without_shared_memory("created");
}

fn same_with_and_without_shared_memory(word: &str) {
    let server = Server::start();
    let program = Path::new(env!("CARGO_BIN_EXE_semantics_program"));
    let expected = printed(native(program).arg(word));
    assert!(expected.ends_with("done\n"), "{expected}");
    for sharing in ["0", "1"] {
        let mut c = remote(&server, program);
        let got = printed(c.arg(word).env("BUSBAR_SHM", sharing));
        assert_eq!(got, expected, "BUSBAR_SHM={sharing}");
    }
    server.wait_for_sessions(0);
}

#[test]
fn a_session_has_as_many_connections_as_it_is_told_to() {
    let server = Server::start();
    for many in 0..=4 {
        let mut c = remote(&server, python());
        c.arg(script("cuda_pinned.py")).env("BUSBAR_SHM", "0");
        c.env("BUSBAR_SIDE", many.to_string());
        let out = finished(c.env("BUSBAR_LOG", "info"));
        assert!(out.status.success());
        let err = String::from_utf8_lossy(&out.stderr);
        let opened = err.matches("long copies use one more connection").count();
        // Three are the most, and come by themselves where there are cores for them.
        let least = many.min(3);
        let most = if many > 0 { most_sides().max(least) } else { 0 };
        assert!((least..=most).contains(&opened), "{many}: {err}");
        assert!(!err.contains("no more connections"), "{err}");
    }
}

#[test]
fn copies_of_any_host_memory_read_as_they_do_natively() {
    let server = Server::start();
    let program = script("cuda_pinned.py");
    let ordered = |c: &mut std::process::Command, sharing: &str| {
        // Only where memory is shared does the device read it in stream order.
        let order = if sharing == "0" { "" } else { "in-order" };
        printed(c.arg(&program).arg(order).env("BUSBAR_SHM", sharing))
    };
    for (sharing, side) in [("", "0"), ("0", "0"), ("0", "1"), ("0", "3")] {
        let expected = ordered(&mut native(python()), sharing);
        assert!(expected.ends_with("done\n"), "{expected}");
        let got = ordered(remote(&server, python()).env("BUSBAR_SIDE", side), sharing);
        assert_eq!(got, expected, "BUSBAR_SHM={sharing} BUSBAR_SIDE={side}");
    }
    server.wait_for_sessions(0);
}

#[test]
fn page_locked_memory_of_a_thread_keeps_its_bytes_while_others_free_theirs() {
    let server = Server::start();
    let program = Path::new(env!("CARGO_BIN_EXE_driver_program"));
    let args = ["page-locked", "1000"];
    let expected = "bytes of others: 0\n";
    assert_eq!(printed(native(program).args(args)), expected);
    // What is not shared has neighbours of other threads.
    let mut c = remote(&server, program);
    assert_eq!(printed(c.args(args).env("BUSBAR_SHM", "0")), expected);
    server.wait_for_sessions(0);
}

#[test]
fn two_processes_share_memory_by_handle_and_nobody_without_one() {
    let server = Server::start();
    let got = printed(remote(&server, python()).arg(script("cuda_ipc.py")));
    let part = |first: u32, size: usize| {
        format!(
            "same True\nchild reads [{first}, {first}, {first}, {first}] True {size}\n\
             closed twice 1\nmade up 1\nwrong secret 1\nwrong worker 1\n  0\n\
             parent reads [42, 42, {first}, {first}]\n"
        )
    };
    let expected = part(1000, 1000) + &part(3 << 20, 3 << 20) + "not ours 1\n";
    assert_eq!(got, expected);
}

#[test]
fn what_other_processes_may_look_at_has_reached_the_driver_when_a_call_returns() {
    let dir = tempfile::tempdir().expect("a folder");
    let log = dir.path().join("calls");
    let server = Options::default().writes("FAKEDEV_LOG", &log).start();
    let mut program = remote(&server, python());
    let got = printed(program.arg(script("cuda_abroad.py")).arg(&log));
    let all = "records of an event True\nwaits for it True\nrecords of another's True\n\
               waits for that True\ncopies to such memory True\n";
    assert_eq!(got, all);
}

#[test]
fn much_memory_is_free_for_other_processes_when_the_call_that_frees_it_returns() {
    let together = tempfile::tempdir().expect("a folder");
    let server = Options::default()
        .writes("FAKEDEV_TOGETHER", together.path())
        .env("FAKEDEV_MEMORY_MIB", "1024")
        .start();
    for how in ["alloc", "map"] {
        let mut program = remote(&server, python());
        let got = printed(program.arg(script("cuda_hand_over.py")).arg(how));
        assert_eq!(got, "parent: none 0 times; child: 0\n", "{how}");
    }
}

#[test]
fn copies_fills_and_nodes_touch_what_the_device_that_counts_for_each_may() {
    let server = Options::default().env("FAKEDEV_DEVICES", "2").start();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu/programs/reach.py");
    for (world, sharing) in [("apart", "0"), ("1 let in", "1")] {
        let words = [&program, Path::new(world)];
        let mut alone = native(python());
        let expected = printed(alone.args(words).env("FAKEDEV_DEVICES", "2"));
        // 71 calls of ten kinds of memory on either device, as two H200s say it.
        assert_eq!(expected.lines().count(), 71 * 10 * 2);
        let mut c = remote(&server, python());
        let got = printed(c.args(words).env("BUSBAR_SHM", sharing));
        let mut both = expected.lines().zip(got.lines());
        let odd = both.find(|(wanted, got)| wanted != got);
        assert_eq!(odd, None, "{world}, BUSBAR_SHM={sharing}");
    }
}

#[test]
fn executable_graphs_take_rows_in_the_place_of_the_same_ones() {
    let server = Server::start();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu/programs/exec_copies.py");
    // Memory that has a mirror at the server, and memory that is shared.
    for (to, sharing) in [("pageable", "1"), ("pinned", "0"), ("pinned", "1")] {
        let words = [&program, Path::new(to)];
        let expected = printed(native(python()).args(words));
        let taken = "['0 0, right', '0 0, right']";
        // As an H200 says it: lines of any length to any place, and all shapes as they were.
        let places = expected.lines().count() / 80;
        assert_eq!(
            expected.matches(taken).count(),
            places * (8 + 2 + 2 * 2),
            "{expected}"
        );
        let mut c = remote(&server, python());
        let got = printed(c.args(words).env("BUSBAR_SHM", sharing));
        assert_eq!(got, expected, "{to}, BUSBAR_SHM={sharing}");
    }
}
