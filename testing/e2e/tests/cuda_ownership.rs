//! Whose memory is, natively and through a server: on the server's host, and as if elsewhere.

use busbar_e2e::program::same_both_ways;

const PROGRAM: &str = env!("CARGO_BIN_EXE_semantics_program");

#[test]
fn rows_and_what_is_behind_them_in_their_stream_are_in_that_order() {
    let text = same_both_ways(PROGRAM.as_ref(), "rows_behind");
    assert_eq!(
        text.matches("[60, 50, 4, 100]\n[50, 4]").count(),
        4,
        "{text}"
    );
}

#[test]
fn what_a_graphs_function_changes_stays_and_goes_along() {
    let text = same_both_ways(PROGRAM.as_ref(), "function_in_graph");
    assert!(text.contains("[20, 21, 21, 4, 0]\n[20, 21]"), "{text}");
}

#[test]
fn devices_reach_page_locked_memory_after_a_context_has_ended() {
    let text = same_both_ways(PROGRAM.as_ref(), "after_a_reset");
    assert_eq!(text.matches("waited: 0\n[2, 2]").count(), 12, "{text}");
}

#[test]
fn memory_is_what_it_is_whatever_it_is_called() {
    let text = same_both_ways(PROGRAM.as_ref(), "named");
    for line in [
        "cuMemcpyHtoD_v2 from device to locked: 0 [3, 3]",
        "cuMemcpyHtoD_v2 from locked to plain: 1",
        "kinds 4 4",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
