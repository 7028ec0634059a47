//! What is said of arguments that are not there, and of calls without a context, is what a driver
//! says: the real one, as an H200 with driver 580 was heard in `null_arguments.h200`, or the
//! server's own, where that was asked.

use busbar_e2e::program::{native, printed, remote};
use busbar_e2e::server::Server;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../gpu/programs/null_arguments.c"
);
const H200: &str = include_str!("../programs/null_arguments.h200");
/// The driver looks at these handles before it looks where the result goes, and at a function
/// before it looks at a graph.
const IN_ANOTHER_ORDER: [&str; 4] = [
    "cuEventElapsedTime, null 0",
    "cuEventElapsedTime_v2, null 0",
    "cuGraphAddKernelNode_v2, null 0",
    "cuGraphAddKernelNode_v2, null 1",
];

/// What is said of each call, in the order of calls.
fn answers(text: &str) -> HashMap<&str, Vec<&str>> {
    let mut all = HashMap::<_, Vec<_>>::new();
    for line in text.lines() {
        let (call, said) = line.split_once(": ").expect("a call and what is said");
        all.entry(call).or_default().push(said);
    }
    all
}

#[test]
fn what_is_not_there_is_answered_as_a_driver_does() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("null_arguments");
    let built = Command::new("cc")
        .args(["-w", "-O1", SOURCE, "-o"])
        .arg(&program)
        .arg("-ldl")
        .status();
    assert!(built.expect("a C compiler").success());
    let simulated = printed(&mut native(&program));
    let through = printed(&mut remote(&Server::start(), &program));
    let (h200, simulated, through) = (answers(H200), answers(&simulated), answers(&through));
    let wrong: Vec<_> = through
        .iter()
        .filter(|(call, _)| !IN_ANOTHER_ORDER.contains(*call))
        .filter(|(call, said)| {
            let real = h200.get(*call).filter(|real| real.len() == said.len());
            real.is_some_and(|real| real != *said) && simulated.get(*call) != Some(*said)
        })
        .map(|(call, said)| format!("{call}: {said:?}, the driver {:?}", h200[call]))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(through.len() > 700, "{} calls", through.len());
}
