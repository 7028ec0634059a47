//! Mistakes, errors and what works after them: the same through a server as on the driver itself.

use busbar_e2e::program::{self, finished, native, printed, remote, stats};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::over_verbs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_semantics_program");

/// What the program prints natively and through `server`.
fn same(server: &Server, devices: &str, args: &[&str]) -> String {
    program::same(Path::new(PROGRAM), server, devices, args)
}

#[test]
fn an_error_is_kept_by_the_context_that_it_lost() {
    let server = Options::default().env("FAKEDEV_DEVICES", "2").start();
    let text = same(&server, "2", &["contexts"]);
    assert!(text.contains("a cuCtxSynchronize: 719"), "{text}");
    assert!(text.contains("b cuCtxSynchronize: 0"), "{text}");
    assert!(!text.contains("b cuCtxSynchronize: 719"), "{text}");
}

#[test]
fn a_context_that_another_thread_destroyed_is_not_used_again() {
    let server = Server::start();
    let text = same(&server, "1", &["destroyed"]);
    assert!(text.starts_with("cuMemAlloc_v2: 709\n"), "{text}");
    let taken =
        "cuCtxSetCurrent: 0\ncuMemAlloc_v2: 709\ncuCtxSetCurrent: 0\ncuCtxSetCurrent: 201\n";
    assert!(text.contains(taken), "{text}");
}

#[test]
fn a_reset_gives_a_working_context() {
    let text = same(&Server::start(), "1", &["reset"]);
    for code in [719, 710, 700] {
        assert!(text.contains(&format!("cuMemAllocAsync: {code}")), "{text}");
    }
}

#[test]
fn what_captures_does_so_no_longer_than_its_stream_and_context_live() {
    let text = same(&Server::start(), "1", &["dead_captures"]);
    assert!(!text.contains("cuMemAlloc_v2: 9"), "{text}");
}

#[test]
fn an_id_of_a_context_does_not_come_back() {
    let text = same(&Server::start(), "1", &["dead_ids"]);
    assert_eq!(text.matches("new: true").count(), 5, "{text}");
}

#[test]
fn a_running_graph_may_be_destroyed_from_another_context() {
    let text = same(&Server::start(), "1", &["dead_others"]);
    assert!(text.contains("[7, 7]"), "{text}");
    assert!(text.ends_with("one after another: true\n"), "{text}");
}

#[test]
fn empty_calls_and_missing_arguments_are_answered_alike() {
    same(&Server::start(), "1", &["nothing"]);
}

#[test]
fn what_is_refused_is_refused_at_the_call() {
    let text = same(&Server::start(), "1", &["refused"]);
    for line in [
        "4 cuLaunchKernelEx: 912",
        "12 cuLaunchKernelEx: 801",
        "cuMemMap: 801",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.ends_with("cuCtxSynchronize: 0\n"), "{text}");
}

#[test]
fn a_mistake_is_told_at_the_call_and_never_late() {
    let text = same(&Server::start(), "1", &["mistakes"]);
    assert!(text.ends_with("[7, 7, 7, 7]\ndone\n"), "{text}");
    none_is_late(&text);
}

/// Numbered calls end with what a wait said after them.
fn none_is_late(text: &str) {
    let late = |line: &&str| line.contains(": ") && line.ends_with(char::is_numeric);
    for line in text.lines().filter(late) {
        let numbered = line.starts_with(char::is_numeric);
        assert!(!numbered || line.ends_with(" 0"), "late: {line}");
    }
}

#[test]
fn mistakes_beside_calls_that_are_none_are_told_as_soon() {
    let text = same(&Server::start(), "1", &["mistakes_beside_calls"]);
    let (pitches, others) = text.split_once("== rows\n").expect("both");
    assert!(pitches.contains(", 3: 1 0\n"), "{pitches}");
    assert!(pitches.contains(", 4: 2 512\n"), "{pitches}");
    none_is_late(others);
    for line in [
        "2 cuMemcpy2D_v2: 1",
        "3 cuMemcpy2D_v2: 0",
        "cuLaunchKernel: 701",
    ] {
        assert!(others.contains(&format!("{line} 0\n")), "{others}");
    }
}

#[test]
fn memory_ends_with_its_context_and_can_be_had_again() {
    let text = same(&Server::start(), "1", &["lives"]);
    assert!(!text.contains("false"), "{text}");
}

#[test]
fn memory_can_be_handed_on_as_a_descriptor() {
    let text = same(&Server::start(), "1", &["descriptors"]);
    assert!(text.contains("a descriptor: true"), "{text}");
    assert!(text.contains("[77, 77, 77, 77]"), "{text}");
}

#[test]
fn streams_wait_for_words_that_the_program_writes() {
    let server = Server::start();
    let program = Path::new(PROGRAM);
    let wanted = printed(native(program).arg("words"));
    assert!(wanted.contains("\n6 21\n"), "{wanted}");
    for shared in ["1", "0"] {
        let got = printed(
            remote(&server, program)
                .arg("words")
                .env("BUSBAR_SHM", shared),
        );
        assert_eq!(wanted, got, "BUSBAR_SHM={shared}");
    }
}

#[test]
fn corners_are_as_the_driver_has_them() {
    let text = same(&Server::start(), "1", &["corners"]);
    assert!(text.contains("late: 0\n"), "{text}");
    for line in [
        // This client has never heard of it: the server's driver is asked.
        "990: 0 FAKEDEV_ERROR_OF_A_LATER_VERSION 0 true",
        "917: 1 none 1 false",
        "\"cuMemAlloc\" 13000 128: 1 7 false",
        "\"cuMemAlloc\" 0 0: 0 2 false",
        "\"cuMemAlloc\" 0 0: 0, 500",
        "\"cuMemAlloc\" 99000 0: 1 7 false",
        "the same function: true",
        "rights 0",
        // As an H200's driver of CUDA 13.0 does.
        "in a function: [0, 800, 800, 800, 800, 800, 800, 800, 800, 800, 800, 800, 800, 800, \
         0, 0, 0, 0, 600, 0, 400, 800, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]",
        "cuEventRecord: 400",
        "flags 1: 3",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
}

fn same_both_ways(word: &str) -> String {
    program::same_both_ways(Path::new(PROGRAM), word)
}

#[test]
fn advice_about_managed_memory_is_told_of_each_range() {
    let text = same(&Server::start(), "1", &["advice"]);
    assert!(text.contains("[-2, -2, -1, 0]"), "two places: {text}");
}

#[test]
fn any_stream_uses_managed_memory_whatever_it_is_attached_to() {
    let text = same_both_ways("attached");
    assert!(text.contains("2 None: 0 1 30000"), "{text}");
    assert!(text.contains("1 Some(4): 10 2 70000"), "{text}");
}

#[test]
fn processes_share_pools() {
    let server = Options::default().env("FAKEDEV_DEVICES", "2").start();
    let text = same(&server, "2", &["pools"]);
    let copies = "cuMemcpyDtoH_v2: 1\ncuMemPoolSetAccess: 0\ncuMemcpyDtoH_v2: 0\n\
                  cuMemPoolSetAccess: 0\ncuMemcpyDtoH_v2: 1\n";
    assert!(text.contains(copies), "{text}");
    assert!(text.contains("77 true"), "{text}");
    assert!(text.contains("the other: Ok(Some(0))"), "{text}");
    assert!(text.contains("88 true"), "{text}");
}

#[test]
fn a_pool_may_have_memory_of_the_host() {
    let text = same_both_ways("host_pools");
    let seen = text.matches("the program sees it: true true").count();
    assert_eq!(seen, 3, "{text}");
}

#[test]
fn a_stream_that_stands_still_holds_no_other_and_no_call() {
    let text = same_both_ways("held");
    assert!(!text.contains("stood still: false"), "{text}");
}

#[test]
fn kernels_see_memory_whose_copies_stand_still() {
    let text = same_both_ways("in_the_way");
    assert!(!text.contains("stood still: false"), "{text}");
    assert!(!text.contains("came: false"), "{text}");
    assert_eq!(text.matches("found 5242880\n").count(), 12, "{text}");
}

#[test]
fn rows_of_any_length_are_copied() {
    let text = same_both_ways("rows");
    assert!(text.contains("5242880x2 in: 0"), "{text}");
    assert!(text.contains("the same: true"), "{text}");
}

#[test]
fn copies_find_what_was_left_for_them() {
    let text = same_both_ways("ordered");
    for v in 2..9 {
        assert!(text.contains(&format!("[{v}, {v}]")), "{text}");
    }
}

#[test]
fn a_context_goes_under_its_copies_and_others_go_on() {
    let text = same_both_ways("left");
    assert_eq!(text.matches("[3, 3, 3, 3]").count(), 4, "{text}");
}

#[test]
fn what_a_batch_reads_during_the_call_is_free_after_it() {
    // The simulated driver knows no such order, and reads when the stream gets there.
    let server = Server::start();
    for shared in ["1", "0"] {
        let mut c = remote(&server, Path::new(PROGRAM));
        let text = printed(c.arg("at_once").env("BUSBAR_SHM", shared));
        assert!(text.ends_with("[1, 1]\n"), "BUSBAR_SHM={shared}: {text}");
    }
}

#[test]
fn a_threads_own_stream_is_of_the_present_context() {
    let text = same_both_ways("own_streams");
    assert!(!text.contains("its context: false"), "{text}");
    assert_eq!(text.matches("[7, 7, 7, 7]").count(), 4, "{text}");
}

#[test]
fn threads_may_have_little_stack() {
    let text = same_both_ways("small_stacks");
    assert_eq!(text.matches("cuCtxSynchronize: 0").count(), 3, "{text}");
}

#[test]
fn files_meet_all_of_memory_while_other_threads_work() {
    let text = same_both_ways("files");
    assert_eq!(text, "in part: [0, 0, 0, 0, 0, 0], stale: [0, 0, 0]\n");
}

#[test]
fn memory_that_is_not_there_ends_the_session_and_not_in_a_loop() {
    let server = Server::start();
    for word in ["hole_in", "hole_out"] {
        let mut c = remote(&server, Path::new(PROGRAM));
        let out = finished(c.arg(word).env("BUSBAR_SHM", "0"));
        let killed = out.status.signal() == Some(libc::SIGSEGV);
        // Without a socket the program's memory is touched as the driver itself touches it.
        if !(over_verbs() && killed) {
            let text = String::from_utf8_lossy(&out.stdout);
            assert_eq!(text, "refused: true\nover: true\n", "{word}: {out:?}");
        }
    }
    server.wait_for_sessions(0);
}

#[test]
fn page_locked_memory_is_freed_behind_its_copies() {
    let text = same_both_ways("freed");
    assert!(!text.contains("to the device: [2"), "{text}");
    assert!(!text.contains("from it: 1"), "{text}");
}

#[test]
fn what_is_not_to_be_freed_stays() {
    let text = same_both_ways("globals");
    assert!(text.contains("[5, 5, 5, 5]"), "{text}");
}

#[test]
fn memory_of_graphs_is_freed_once() {
    let text = same(&Server::start(), "1", &["graph_memory"]);
    let freed = text.matches("cuMemFreeAsync: 0").count();
    let refused = text.matches("cuMemFreeAsync: 1").count();
    assert_eq!((freed, refused), (4, 4), "{text}");
    for v in ["[31, 31]", "[32, 32]", "[35, 36]", "[34, 33]"] {
        assert!(text.contains(v), "{v}: {text}");
    }
    assert!(text.ends_with("cuCtxSynchronize: 0\n"), "{text}");
}

#[test]
fn kernels_launch_graphs_and_change_them() {
    let text = same(&Server::start(), "1", &["device_graphs"]);
    let read = |l: &str| l.strip_prefix("then ").and_then(|n| n.parse::<u32>().ok());
    let seen: Vec<u32> = text.lines().filter_map(read).collect();
    assert_eq!(seen, [41, 41, 42, 50, 51, 52, 60, 61, 71], "{text}");
    assert!(text.contains("result 3, that node: true"), "{text}");
    assert!(text.contains("outside: false\nc"), "{text}");
    assert!(text.ends_with("cuStreamSynchronize: 700\n"), "{text}");
}

#[test]
fn a_function_of_a_kernel_is_its_contexts() {
    let text = same_both_ways("kernels");
    assert!(text.contains("kernel: [0, 0, 0]"), "{text}");
    assert!(
        text.contains("first is current, first: [0, 400, 0]"),
        "{text}"
    );
    assert!(
        text.contains("first is current, second: [400, 0, 400]"),
        "{text}"
    );
}

#[test]
fn a_kernel_is_each_devices_own() {
    let server = Options::default().env("FAKEDEV_DEVICES", "2").start();
    let text = same(&server, "2", &["kernels_of_devices"]);
    assert!(
        text.contains("of 1: [49152, 102400] [(1, 0), (0, 0)]"),
        "{text}"
    );
    assert!(
        text.contains("of 0: [102400, 102400] [(0, 0), (0, 0)]"),
        "{text}"
    );
}

#[test]
fn a_program_with_an_nccl_of_its_own_is_told_of_once() {
    let server = Server::start();
    for (nccl, told) in [("1", 1), ("0", 0)] {
        let mut c = remote(&server, Path::new(PROGRAM));
        c.envs([("BUSBAR_NCCL", nccl), ("BUSBAR_LOG", "lost")]);
        let out = finished(c.arg("with_itself"));
        let [said, err] =
            [out.stdout, out.stderr].map(|t| String::from_utf8_lossy(&t).into_owned());
        assert!(said.contains("P2PStatus: 0\n0\n"), "{said}");
        let line = "this program has an NCCL of its own";
        assert_eq!(err.matches(line).count(), told, "{err}");
    }
}

#[test]
fn nvml_tells_of_the_programs_own_process() {
    let server = Server::start();
    let text = printed(remote(&server, Path::new(PROGRAM)).arg("processes"));
    assert!(text.contains("67108864 bytes more"), "{text}");
    assert!(text.contains("_v3: 7\n1 and [0, 0, 0]"), "{text}");
}

#[test]
fn functions_have_their_memory_while_the_driver_waits_for_them() {
    let text = same_both_ways("functions");
    assert_eq!(text.matches("[7, 5, 9, 5]").count(), 5, "{text}");
    assert_eq!(text.matches("[7, 6, 9, 6]").count(), 5, "{text}");
    assert!(text.ends_with("the function saw 250000\ncuMemcpyDtoH_v2: 0\n[7, 5, 5, 5]\n"));
}

#[test]
fn devices_of_one_process_reach_each_other() {
    let server = Options::default().env("FAKEDEV_DEVICES", "2").start();
    same(&server, "2", &["peers"]);
}

#[test]
fn a_device_may_do_with_anothers_memory_what_the_program_says() {
    let server = Options::default().env("FAKEDEV_DEVICES", "2").start();
    let text = same(&server, "2", &["neighbours"]);
    let mut apart = remote(&server, Path::new(PROGRAM));
    assert_eq!(
        printed(apart.arg("neighbours").env("BUSBAR_SHM", "0")),
        text
    );
    let tells = |part: &str| text.matches(part).count();
    // Memory that is allocated is copied anyway; what is mapped, or of a pool, is not.
    assert_eq!((tells("0 0 0: 1\n"), tells("1 1 0: 0\n")), (1, 2), "{text}");
    assert_eq!(tells("its pointer: 1 false, its range: 500\n"), 6, "{text}");
    assert_eq!(tells("its pointer: 0 true, its range: 0\n"), 4, "{text}");
    for value in 4..9 {
        assert_eq!(tells(&format!("0 0 0: {value}\n")), 1, "{value}: {text}");
    }
    assert_eq!(tells("meanwhile it stood still: true\n"), 2, "{text}");
    assert_eq!(tells("rows in order: 40\n"), 2, "{text}");
    for value in [21, 22] {
        let elsewhere = format!("by a graph: {value}\n0 0 0 0: {value} {value}\n");
        assert!(text.contains(&elsewhere), "{value}: {text}");
    }
    assert!(
        text.contains("[5]\n") && text.contains("0 0: 7\n"),
        "{text}"
    );
    assert!(text.contains("0 0: 8\ncuMemHostUnregister: 0\n"), "{text}");
}

#[test]
fn a_program_uses_64_devices() {
    let server = Options::default().env("FAKEDEV_DEVICES", "64").start();
    let text = same(&server, "64", &["devices"]);
    assert!(text.ends_with("63: 0 63, 0 [64, 64], 0\n"), "{text}");
}

#[test]
fn a_capture_survives_what_happens_beside_it() {
    let text = same(&Server::start(), "1", &["capture"]);
    assert!(text.contains("[42]") && text.contains("[41]") && text.contains("[40]"));
}

#[test]
fn a_capture_is_minded_by_each_call_as_the_driver_does() {
    let text = same(&Server::start(), "1", &["calls_in_captures"]);
    // By another thread's leave, the capturing thread's own and everybody's it is refused.
    let line = "query another | 0 0 1 0 0 | 0 900 2 901 0 | 0 900 2 901 0 | 0 900 2 901 0 |";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("cuStreamWaitEvent: 902\n"), "{text}");
}

#[test]
fn the_program_chooses_among_the_devices() {
    let server = Options::default()
        .env("FAKEDEV_DEVICES", "4")
        .env("FAKEDEV_MACHINE", "0")
        .start();
    let seen = |list: &str, order: &str| {
        let mut c = remote(&server, Path::new(PROGRAM));
        let c = c
            .arg("visible")
            .env("CUDA_VISIBLE_DEVICES", list)
            .env("CUDA_DEVICE_ORDER", order);
        let out = finished(c);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let ids = text.lines().filter_map(|l| l.strip_prefix("device "));
        ids.filter_map(|n| n.parse().ok()).collect::<Vec<u32>>()
    };
    let none = Vec::<u32>::new();
    assert_eq!(seen("0,1,2,3", "PCI_BUS_ID"), [0, 1, 2, 3]);
    assert_eq!(seen("3,1", "PCI_BUS_ID"), [3, 1]);
    assert_eq!(
        seen("2,9,0", "FASTEST_FIRST"),
        [2],
        "up to what is not there"
    );
    assert_eq!(seen("1,-1,2", ""), [1]);
    assert_eq!(seen("", ""), none);
    assert_eq!(seen("-1", ""), none);
    assert_eq!(seen("1,1", ""), none, "twice the same");
    let uuid = "GPU-62757362-6172-2d66-616b-656465760002";
    assert_eq!(seen(uuid, ""), [2]);
    assert_eq!(
        seen(&format!("3,{}", &uuid[..12]), ""),
        [3],
        "four begin so"
    );
    assert_eq!(seen("MIG-0011", ""), none);
}

#[test]
fn what_the_device_prints_and_asserts_reaches_the_program() {
    let server = Server::start();
    let program = Path::new(PROGRAM);
    let run = |c: &mut std::process::Command| {
        let out = finished(c.arg("prints"));
        assert!(out.status.success());
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let device: Vec<String> = text
            .lines()
            .filter(|l| l.starts_with("device"))
            .map(String::from)
            .collect();
        (device, String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let wanted = run(&mut native(program));
    assert_eq!(wanted.0.len(), 60_004);
    let got = run(&mut remote(&server, program));
    assert!(wanted.0 == got.0, "{} lines", got.0.len());
    // The message is there before the call has returned that reports the error.
    assert!(got.1.contains("Assertion `holds` failed.\nafter the error"));
    assert_eq!(wanted.1, got.1);
}

#[test]
fn what_the_device_prints_is_there_when_an_event_behind_it_is() {
    let text = same(&Server::start(), "1", &["prints_last"]);
    assert_eq!(text.matches("device line 2 of 3").count(), 5, "{text}");
}

#[test]
fn events_are_known_without_asking() {
    let text = same_both_ways("events");
    assert_eq!(text.matches("asked 200 times: [600]").count(), 20, "{text}");
    assert!(text.ends_with("asked 2 times: [719]\n"), "{text}");
    let server = Server::start();
    let mut c = remote(&server, Path::new(PROGRAM));
    let v = stats(&finished(c.arg("events").env("BUSBAR_STATS", "1")));
    let trips = v["round_trips"].as_u64().expect("a counter");
    // It asks more than 4,000 times.
    assert!(trips < 300, "{v}");
}

#[test]
fn the_time_between_two_events_is_that_of_their_last_records() {
    let text = same_both_ways("times");
    assert_eq!(text.matches("the pause: true").count(), 3, "{text}");
}

#[test]
fn words_of_structures_are_addresses_until_copies_alone_use_the_memory() {
    let text = same_both_ways("tables");
    let came = "[0, 1, 2, 3, 4, 5, 6, 7, 8] 8 8\n";
    let right = (text.matches("0 7 7\n").count(), text.matches(came).count());
    assert_eq!(right, (3, 3), "{text}");
    let server = Server::start();
    let mut c = remote(&server, Path::new(PROGRAM));
    c.arg("tables").env("BUSBAR_SHM", "0");
    c.env("BUSBAR_LOG", "info").env("BUSBAR_STATS", "1");
    let out = finished(&mut c);
    assert_eq!(String::from_utf8_lossy(&out.stdout), text);
    // What is given up comes home as far as it has changed: twice 1 MiB has not.
    let received = stats(&out)["bytes_received"].as_u64().expect("a number");
    assert!(received < 5 << 19, "{received}");
    let log = String::from_utf8_lossy(&out.stderr).into_owned();
    let seen = log.lines().filter(|l| l.contains("kernels see"));
    let seen: Vec<_> = seen
        .map(|l| l.contains("no longer").then_some("no longer"))
        .collect();
    // A word of a long parameter, or at a place that has had none before, may be what was left on
    // the stack; one at a place that has had one from the start is meant.
    let doubted = [None, Some("no longer"), None];
    assert_eq!(
        seen,
        [&doubted[..], &doubted[..], &[None]].concat(),
        "{log}"
    );
    let last = log.lines().rfind(|l| l.contains("kernels see"));
    let last = last.expect("some");
    assert!(
        last.ends_with("\"some\" has it in parameter 3 at byte 0"),
        "{last}"
    );
}

#[test]
fn a_copy_that_has_returned_is_done_for_the_first_stream_too() {
    // With one device there is one context, and at first nothing that could overtake.
    let server = Options::default().env("FAKEDEV_DEVICES", "1").start();
    for shared in ["1", "0"] {
        let mut c = remote(&server, Path::new(PROGRAM));
        let text = printed(c.arg("first").env("BUSBAR_SHM", shared));
        assert!(text.ends_with("2 2\n"), "{text}");
    }
}

#[test]
fn what_compilers_in_a_program_made_is_kept() {
    let server = Server::start();
    let dir = tempfile::tempdir().expect("a folder");
    let run = |name: &str, value: &std::ffi::OsStr| {
        let mut program = remote(&server, Path::new(PROGRAM));
        printed(program.arg("compiled").env(name, value))
    };
    let path = dir.path().as_os_str();
    let first = run("CUDA_CACHE_PATH", path);
    let wanted = printed(native(Path::new(PROGRAM)).arg("compiled"));
    assert_eq!(wanted, first);
    assert_eq!(first.matches("find: 500").count(), 4, "{first}");
    assert!(first.contains("300000 bytes"), "{first}");
    // The next program finds all of it at once.
    let second = run("CUDA_CACHE_PATH", path);
    assert_eq!(second.matches("find: 0").count(), 5, "{second}");
    let without = run("CUDA_CACHE_DISABLE", "1".as_ref());
    assert_eq!(without.matches("find: 500").count(), 5, "{without}");
}

#[test]
fn a_program_talks_to_kernels_that_run_through_host_memory() {
    let server = Server::start();
    let wanted = printed(native(Path::new(PROGRAM)).arg("talks"));
    assert_eq!(wanted.matches("rounds: 50").count(), 4, "{wanted}");
    assert!(wanted.contains("answer: 8888"), "{wanted}");
    for shared in ["0", "1"] {
        let mut program = remote(&server, Path::new(PROGRAM));
        let got = printed(program.arg("talks").env("BUSBAR_SHM", shared));
        assert_eq!(wanted, got, "shared memory: {shared}");
    }
}

#[test]
fn what_kernels_wrote_is_there_when_the_program_hears_that_they_are_done() {
    let text = same_both_ways("hears");
    assert_eq!(text.matches("20 heard, 20 kept").count(), 9, "{text}");
}

#[test]
fn a_process_that_leaves_at_once_has_counters_and_a_session_that_has_ended() {
    let server = Server::start();
    let native = finished(native(Path::new(PROGRAM)).arg("leaves"));
    assert_eq!(native.status.code(), Some(3));
    for counts in ["0", "1"] {
        let mut c = remote(&server, Path::new(PROGRAM));
        let out = finished(c.arg("leaves").env("BUSBAR_STATS", counts));
        assert_eq!((&out.stdout, out.status.code()), (&native.stdout, Some(3)));
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(
            said.matches("busbar-stats: ").count(),
            usize::from(counts == "1"),
            "{said}"
        );
        if counts == "1" {
            // Made after the child has left.
            let calls = stats(&out)["by_call"].to_string();
            assert!(calls.contains("ContextSynchronize"), "{calls}");
        }
        server.wait_for_sessions(0);
    }
}
