//! What a program waits for, and what it sends more than once: counted, natively the same.

use busbar_e2e::program::{self, Running, finished, remote, remote_at, stats};
use busbar_e2e::server::Server;
use busbar_e2e::tree::over_verbs;
use busbar_relay::{LinkSpec, Relay};
use std::path::Path;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_semantics_program");

/// What the program prints natively and through `server`.
fn same(server: &Server, devices: &str, args: &[&str]) -> String {
    program::same(Path::new(PROGRAM), server, devices, args)
}

fn same_both_ways(word: &str) -> String {
    program::same_both_ways(Path::new(PROGRAM), word)
}

/// How often a program that does so many rounds of something waits for which call.
fn trips_of(server: &Server, word: &str, rounds: u64) -> std::collections::BTreeMap<String, u64> {
    let mut c = remote(server, Path::new(PROGRAM));
    c.args([word, &rounds.to_string()]);
    let out = finished(c.env("BUSBAR_SHM", "0").env("BUSBAR_STATS", "1"));
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains(&format!(": {rounds}\n")), "{said}");
    let v = stats(&out);
    let calls = v["by_call"].as_array().expect("a list");
    let trips = calls.iter().map(|c| {
        let name = c["call"].as_str().expect("a name").to_string();
        (name, c["round_trips"].as_u64().expect("a counter"))
    });
    // While work is under way a thread of the client's looks, as often as it gets to it.
    trips
        .filter(|(name, _)| name != "(shadowed memory, watched)")
        .collect()
}

/// Has a program do a hundred rounds more: what it waits for then, beyond so much of `calls`, is
/// too much.
fn waits_for_no_more(word: &str, calls: &[(&str, u64)]) {
    let server = Server::start();
    let (few, many) = (trips_of(&server, word, 20), trips_of(&server, word, 120));
    for (name, n) in &many {
        let before = few.get(name).copied().unwrap_or(0);
        // A module tells of its functions for a millisecond: on a busy machine the others are asked
        // for, each once, and not in every round.
        if name == "ModuleFunction" {
            assert!(n.saturating_sub(before) < 10, "{few:?} {many:?}");
            continue;
        }
        let more = n - before;
        let wanted = calls.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
        assert_eq!(more, wanted, "{name}: {few:?} {many:?}");
    }
}

#[test]
fn a_program_that_hears_of_a_stream_asks_nothing_more() {
    waits_for_no_more("steady", &[("cuStreamSynchronize", 100)]);
}

#[test]
fn memory_that_a_stream_gave_back_it_has_again_without_asking() {
    let text = same(&Server::start(), "1", &["recycled", "20"]);
    assert!(text.ends_with("right: 20\n"), "{text}");
    waits_for_no_more("recycled", &[("CopyOut", 400)]);
    let text = same_both_ways("recycled_counts");
    assert_eq!(text.matches("in turn: 0 3145728\n").count(), 2, "{text}");
    let text = same_both_ways("recycled_ends");
    assert!(text.contains("\n2 nodes\n"), "{text}");
}

#[test]
fn a_copy_to_an_idle_device_waits_for_nothing() {
    let text = same(&Server::start(), "1", &["waiting_copies", "20"]);
    assert!(text.ends_with("right: 20\n"), "{text}");
    waits_for_no_more("waiting_copies", &[("CopyOut", 100)]);
}

#[test]
fn a_flag_for_each_measured_kernel_costs_one_wait() {
    let text = same(&Server::start(), "1", &["timed", "20"]);
    assert!(text.ends_with("written: 20\n"), "{text}");
    waits_for_no_more("timed", &[("cuEventSynchronize", 100)]);
}

#[test]
fn a_kernel_that_is_tried_out_costs_its_end_and_its_results() {
    let waits = [("cuEventSynchronize", 100), ("CopyOut", 200)];
    for word in ["tuned", "tuned_registered"] {
        let text = same(&Server::start(), "1", &[word, "20"]);
        assert!(text.ends_with("tried: 20\n"), "{text}");
        waits_for_no_more(word, &waits);
    }
}

#[test]
fn the_word_of_an_event_is_not_that_of_the_next_one_under_its_id() {
    let text = same_both_ways("event_ids");
    assert_eq!(text.matches("600 600 0").count(), 40, "{text}");
}

/// How often a program has made each call, which also says that nothing is wrong.
fn calls_of(word: &str, variables: &[(&str, &str)]) -> impl Fn(&str) -> u64 + use<> {
    let server = Server::start();
    let mut c = remote(&server, Path::new(PROGRAM));
    c.envs(variables.iter().copied());
    let out = finished(c.arg(word).env("BUSBAR_STATS", "1"));
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        said.contains("wrong: [0, 0]"),
        "{word}, {variables:?}: {said}"
    );
    let v = stats(&out);
    move |name| {
        let mut rows = v["by_call"].as_array().expect("rows").iter();
        let row = rows.find(|r| r["call"] == name);
        row.map_or(0, |r| r["calls"].as_u64().expect("a number"))
    }
}

#[test]
fn long_parameters_that_come_again_travel_once() {
    for (value, again, changed) in [("1", 4740..4760, 390..400), ("0", 0..1, 0..1)] {
        let of = calls_of("repeats", &[("BUSBAR_REPEAT", value)]);
        assert!(again.contains(&of("LaunchAgain")), "{}", of("LaunchAgain"));
        let rest = of("LaunchChanged");
        assert!(changed.contains(&rest), "{rest}");
        let all = of("LaunchKernel") + of("LaunchKept") + of("LaunchAgain") + rest;
        assert_eq!(all, 2 * 200 * 14);
    }
}

#[test]
fn parameters_that_change_are_right_where_connections_are_lost_meanwhile() {
    let server = Server::start();
    let link = LinkSpec {
        delay_ns: 300_000,
        ..LinkSpec::default()
    };
    let options = busbar_relay::Options::new("127.0.0.1:0", &server.address, link);
    let relay = Relay::start(options).expect("the relay starts");
    let mut c = remote_at(&relay.address().to_string(), Path::new(PROGRAM));
    let c = c.arg("repeats").env("BUSBAR_SHM", "0");
    let program = Running::start(c.env("BUSBAR_RDMA", "off"));
    server.wait_for_sessions(1);
    // A cut finds records on their way, executed and not.
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(120));
        relay.cut(Duration::from_millis(10));
    }
    let (said, status) = program.finish();
    assert!(status.success() && said.contains("wrong: [0, 0]"), "{said}");
}

#[test]
fn page_locked_bytes_that_come_again_travel_once() {
    if over_verbs() {
        // The worker reads them where they are.
        return;
    }
    for (value, again) in [("1", 480..510), ("0", 0..1)] {
        let of = calls_of(
            "copies_again",
            &[("BUSBAR_REPEAT", value), ("BUSBAR_SHM", "0")],
        );
        assert!(again.contains(&of("CopyInAgain")), "{}", of("CopyInAgain"));
        assert_eq!(of("CopyIn") + of("CopyInKept") + of("CopyInAgain"), 800);
    }
}

#[test]
fn a_word_of_the_devices_comes_with_the_wait_for_its_stream() {
    let half = [("cuStreamSynchronize", 50), ("CopyOut", 50)];
    waits_for_no_more("conditions", &half);
}

#[test]
fn a_graph_whose_nodes_get_other_arguments_asks_nothing_more() {
    same(&Server::start(), "1", &["changes", "20"]);
    waits_for_no_more("changes", &[("ContextSynchronize", 100), ("CopyOut", 100)]);
}

#[test]
fn what_a_stream_captures_is_asked_once_a_capture() {
    let text = same(&Server::start(), "1", &["asked", "20"]);
    assert!(text.ends_with("right: 20\n"), "{text}");
    let calls = [
        ("cuStreamBeginCapture_v2", 100),
        // Of each of three streams, of one again when it has joined; the graph when it is wanted.
        ("CaptureInfo", 600),
        // What would merge two captures is refused at the call.
        ("cuStreamWaitEvent", 200),
        ("CaptureEnd", 100),
        ("GraphNodes", 100),
    ];
    waits_for_no_more("asked", &calls);
}

#[test]
fn a_module_and_its_functions_cost_one_question() {
    let server = Server::start();
    same(&server, "1", &["loads", "20"]);
    let trips = trips_of(&server, "loads", 100);
    assert_eq!(trips["ModuleLoad"], 100);
    // And one for a function that is not there, of which the client knows nothing. A worker that is
    // interrupted says nothing of some that are, either; with all three of each it would be 400.
    let asked = trips["ModuleFunction"];
    assert!((100..200).contains(&asked), "{asked}");
}

#[test]
fn an_event_is_waited_for_and_not_what_was_queued_behind_it() {
    let text = same(&Server::start(), "1", &["ahead_timed", "200"]);
    let steps = "0 too early, of steps: 200\n";
    assert_eq!(text.matches(steps).count(), 2, "{text}");
    let held = "let go: true\ntime to itself: 0 0\n";
    assert_eq!(text.matches(held).count(), 4, "{text}");
    assert!(text.ends_with("cuEventSynchronize: 719\n"), "{text}");
    // Nothing is asked: a question would stand behind what was queued.
    waits_for_no_more("ahead", &[]);
}
