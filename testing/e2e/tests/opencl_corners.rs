//! Calls at the edge of what OpenCL allows: the driver has the last word, natively and through a
//! server.

use busbar_e2e::opencl::{Server, compile, compile_library, launcher, native, run, text};
use std::path::Path;

/// That the program says the same through this server.
fn answers_as(expected: &str, program: &Path, server: &Server) {
    let mut c = launcher(&server.address);
    let said = text(&run(c.arg(program)));
    for (a, b) in said.lines().zip(expected.lines()) {
        assert_eq!(a, b);
    }
    assert_eq!(said.len(), expected.len());
}

#[test]
fn calls_at_the_edge_are_answered_as_natively() {
    let program = compile("opencl_corners");
    let expected = text(&run(&mut native(&program)));
    assert!(expected.ends_with("done\n"), "{expected}");
    answers_as(&expected, &program, &Server::start());
}

#[test]
fn a_driver_takes_more_than_it_says() {
    let (program, library) = (compile("opencl_corners"), compile_library("opencl_modest"));
    let expected = text(&run(native(&program).env("LD_PRELOAD", &library)));
    assert!(expected.contains("the kernel of 64\n"), "{expected}");
    assert!(expected.contains("groups of 1024: 0, "), "{expected}");
    let server = Server::start_with(|c| {
        c.arg("--opencl-library").arg(&library);
    });
    answers_as(&expected, &program, &server);
}
