//! Hostile servers: what a server says may spoil a program's results, and must not reach into the
//! program. It runs no function that the program has not given, and none more often than promised.

use busbar_e2e::hostile::{Liar, record_of};
use busbar_e2e::opencl;
use busbar_e2e::program::{Running, remote_at};
use busbar_e2e::server::Server;
use busbar_wire::codec::{Message, Writer};
use busbar_wire::generated::cuda::RunPromised;
use busbar_wire::promise::Word;
use busbar_wire::record::{Notice, Records};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

fn callback(status: i32, payload: &[u8]) -> Vec<u8> {
    record_of(Notice::Callback as u16, 0, status as u32, payload)
}

fn run(token: u64) -> Vec<u8> {
    let m = RunPromised {
        token,
        error: 0,
        before: vec![],
        after: vec![],
        beside: vec![],
    };
    let mut out = Vec::new();
    m.encode(&mut Writer::new(&mut out));
    callback(Word::Run as i32, &out)
}

/// As a server said before there were tokens: a kind, a function, its argument.
fn untyped(kind: u32, function: u64, data: u64) -> Vec<u8> {
    let mut p = 0u32.to_le_bytes().to_vec();
    p.extend(kind.to_le_bytes());
    p.extend(function.to_le_bytes());
    p.extend(data.to_le_bytes());
    callback(0, &p)
}

/// Runs the program against a server that says this once it knows where the function is that the
/// program has given to nobody; what the program says last, and its log.
fn attacked(twist: impl Fn(u64, &mut Vec<u8>) + Clone + Send + 'static) -> (String, String) {
    let server = Server::start();
    let secret = Arc::new(AtomicU64::new(0));
    let told = secret.clone();
    let liar = Liar::start(&server.address, move |body| {
        match told.load(Ordering::Acquire) {
            0 => {}
            at => twist(at, body),
        }
    });
    let log = server.path("client.log");
    let mut c = remote_at(&liar.address, Path::new(PROGRAM));
    c.arg("host-functions");
    c.env("BUSBAR_LOG", format!("info:{}", log.display()));
    let mut program = Running::start(&mut c);
    let line = program.line_with("secret ");
    let at = line["secret ".len()..].parse().expect("an address");
    secret.store(at, Ordering::Release);
    let (rest, status) = program.finish();
    assert!(status.success(), "{status}: {rest}");
    (rest, std::fs::read_to_string(log).unwrap_or_default())
}

/// The session is over, with one sentence, and nothing of the program's has run without right.
fn refused((said, log): &(String, String), sentence: &str) {
    assert!(!said.contains("secret"), "{said}");
    assert!(said.contains("too often 0"), "{said}");
    assert!(!said.contains("error 0"), "the session goes on: {said}");
    let told = log.lines().filter(|l| l.contains(" is over: "));
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains(sentence), "{}", told[0]);
}

#[test]
fn a_function_that_the_program_gave_to_nobody_does_not_run() {
    for kind in 0..5 {
        let r = attacked(move |at, body| body.extend(untyped(kind, at, at)));
        refused(&r, "makes no sense");
    }
    let r = attacked(|at, body| body.extend(run(at)));
    refused(&r, "not to be trusted");
    let gone = |at: u64, body: &mut Vec<u8>| {
        body.extend(callback(Word::Gone as i32, &at.to_le_bytes()));
    };
    refused(&attacked(gone), "not to be trusted");
}

#[test]
fn a_function_that_was_promised_once_runs_once() {
    let r = attacked(|_, body| {
        let asks = Records::new(&body.clone())
            .flatten()
            .filter(|(h, _)| h.op == Notice::Callback as u16)
            .flat_map(|(h, p)| record_of(h.op, h.call, h.aux, p))
            .collect::<Vec<_>>();
        body.extend(asks);
    });
    refused(&r, "not to be trusted");
}

#[test]
fn an_opencl_callback_that_was_not_registered_ends_the_session() {
    let program = opencl::compile("opencl_features");
    let server = opencl::Server::start();
    let before = opencl::text(&opencl::run(&mut opencl::remote(&server.address, &program)));
    assert!(!before.is_empty());
    let frames = AtomicU64::new(0);
    let frames = Arc::new(frames);
    let liar = Liar::start(&server.address, move |body| {
        if frames.fetch_add(1, Ordering::AcqRel) == 40 {
            body.extend(callback(0, &(1u64 << 40).to_le_bytes()));
        }
    });
    let log = tempfile::NamedTempFile::new().expect("a file");
    let mut c = opencl::remote(&liar.address, &program);
    c.env("BUSBAR_LOG", format!("info:{}", log.path().display()));
    let out = c.output().expect("it starts");
    assert!(!out.status.success(), "the session goes on");
    let log = std::fs::read_to_string(log.path()).expect("a log");
    assert!(log.contains("not to be trusted"), "{log}");
}
