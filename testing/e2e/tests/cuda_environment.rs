//! What variables of the driver's change, and the log of errors that one of them asks for.

use busbar_e2e::program::{self, finished, printed, remote};
use busbar_e2e::server::{Options, Server};
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_semantics_program");

/// What the program prints natively and through `server`.
fn same(server: &Server, devices: &str, args: &[&str]) -> String {
    program::same(Path::new(PROGRAM), server, devices, args)
}

#[test]
fn a_launch_that_is_to_block_has_waited_and_says_what_was_wrong() {
    let server = Server::start();
    let text = same(&server, "1", &["blocking", "1"]);
    let line = |what: &str| text.lines().any(|l| l == what);
    for waited in [
        "kernel",
        "in the default stream",
        "beside a capture",
        "graph",
        "fill",
        "fill of rows",
        "copy",
        "copy of either",
        "beside a function",
    ] {
        assert!(line(&format!("{waited}: 0, then 0")), "{waited}\n{text}");
    }
    for goes_on in ["function", "copy in", "copy out"] {
        assert!(
            line(&format!("{goes_on}: 0, then 600")),
            "{goes_on}\n{text}"
        );
    }
    assert!(line("captured: 0") && line("a fault: 719"), "{text}");
    // Nothing else asks for it.
    let text = same(&server, "1", &["blocking", "2"]);
    assert!(!text.contains("beside a function: 0, then 0"), "{text}");
    assert!(text.contains("a fault: 0\n"), "{text}");
}

#[test]
fn the_drivers_log_is_the_programs() {
    let text = same(&Server::start(), "1", &["logs"]);
    let limit = "Returning 215 (CUDA_ERROR_UNSUPPORTED_LIMIT) from cuCtxSetLimit";
    let no_buffer = "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuLogsDumpToMemory";
    for line in [
        format!("heard 42: {limit}"),
        format!("heard 42: {no_buffer}"),
        format!("in memory: {limit}"),
        format!("in a file: {no_buffer}"),
        "in memory: Older messages are left out.".to_owned(),
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    assert_eq!(text.matches("heard").count(), 4, "{text}");
    assert!(
        text.ends_with("cuCtxSynchronize: 719\ncuLogsCurrent: 0\n"),
        "{text}"
    );
}

#[test]
fn the_log_is_written_where_the_program_wants_it() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let program = || {
        let mut c = remote(&server, Path::new(PROGRAM));
        c.arg("mistakes");
        c
    };
    let quiet = printed(&mut program());
    let to_file = printed(program().env("CUDA_LOG_FILE", &path));
    assert_eq!(quiet, to_file);
    let log = std::fs::read_to_string(&path).expect("a log");
    let lines: Vec<_> = log.lines().collect();
    assert!(!lines.is_empty());
    for line in &lines {
        let head = line.split("][").count();
        let says = line.contains("][CUDA][E] Returning ") && line.contains(" from cu");
        assert!(head == 4 && says, "{line}");
    }
    // A line for each mistake: what the client refuses, and what the server's driver does.
    let mut mistakes = 0;
    for line in quiet.lines() {
        let row = line.split_once(" cu").and_then(|(_, c)| c.split_once(": "));
        let Some((name, rcs)) = row else { continue };
        let rc = rcs.split(' ').next().unwrap_or_default();
        let (of, from) = (format!("Returning {rc} "), format!(" from cu{name}"));
        let said = lines.iter().any(|l| l.contains(&of) && l.contains(&from));
        assert!(rc == "0" || said, "{line}\n{log}");
        mistakes += usize::from(rc != "0");
    }
    assert!(mistakes > 50, "{quiet}");
    let err = finished(program().env("CUDA_LOG_FILE", "stderr")).stderr;
    assert_eq!(
        String::from_utf8_lossy(&err).matches("[CUDA][E]").count(),
        lines.len()
    );
}

#[test]
fn the_log_tells_of_queued_calls() {
    let server = Options::default()
        .env("FAKEDEV_FAULTS", "cuMemsetD8Async@1=1")
        .start();
    let text = printed(remote(&server, Path::new(PROGRAM)).arg("log_of_queued"));
    // When it is heard of is open, but for this: not after the error.
    let (before, after) = text
        .split_once("cuStreamSynchronize: 1\n")
        .expect("the error");
    assert!(before.contains("cuMemsetD8Async: 0\n"), "{text}");
    let heard = "heard 42: Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemsetD8Async\n";
    assert!(before.contains(heard), "{text}");
    assert_eq!(after, "");
}
