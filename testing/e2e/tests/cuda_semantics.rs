//! Mistakes, errors and what works after them: the same through a server as on the driver itself.

use busbar_e2e::program::{native, printed, remote};
use busbar_e2e::server::{Options, Server};
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_semantics_program");

/// Runs a program natively and through `server`; both must print the same, which is returned.
fn same(server: &Server, devices: &str, args: &[&str]) -> String {
    let program = Path::new(PROGRAM);
    let wanted = printed(native(program).args(args).env("FAKEDEV_DEVICES", devices));
    let got = printed(remote(server, program).args(args));
    assert_eq!(wanted, got, "{args:?}");
    got
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
}

#[test]
fn a_reset_gives_a_working_context() {
    let text = same(&Server::start(), "1", &["reset"]);
    for code in [719, 710, 700] {
        assert!(text.contains(&format!("cuMemAllocAsync: {code}")), "{text}");
    }
}

#[test]
fn empty_calls_and_missing_arguments_are_answered_alike() {
    same(&Server::start(), "1", &["nothing"]);
}

#[test]
fn memory_ends_with_its_context_and_can_be_had_again() {
    let text = same(&Server::start(), "1", &["lives"]);
    assert!(!text.contains("false"), "{text}");
}
