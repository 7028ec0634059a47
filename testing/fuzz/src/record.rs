//! The corpora to begin with, a folder for each target. Programs run through a real client and a
//! real worker, and what passes between them is kept.

use crate::programs::{self, cuda, opencl};
use crate::sequence::{self, Record};
use crate::wire::{receive, send};
use crate::{apart, seeds, server, worker};
use busbar_control::hello::{Hello, Intent};
use busbar_transport::Connection;
use busbar_wire::frame::Kind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Said = Arc<Mutex<Vec<Record>>>;

/// Carries frames one way, and keeps the records.
fn carry(from: &dyn Connection, to: &dyn Connection, said: &Said) {
    while let Some((h, body)) = receive(from) {
        if h.kind == Kind::Data {
            said.lock()
                .expect("no carrier panics")
                .extend(sequence::read(&body));
        }
        if send(to, h.kind, h.seq, h.ack, &body).is_err() {
            break;
        }
    }
    to.shutdown();
}

/// A server for one session, which keeps what is said, first by the client and then by the worker.
fn tapped(api: &'static str, said: [Said; 2]) -> String {
    server::listen(move |client| {
        let Some((_, hello)) = receive(&client) else {
            return;
        };
        let hello: Hello = serde_json::from_slice(&hello).unwrap_or_default();
        if hello.intent != Intent::Open {
            return;
        }
        let welcome = serde_json::to_vec(&server::welcome()).unwrap_or_default();
        let _ = send(&client, Kind::Welcome, 0, 0, &welcome);
        let (ours, theirs) = busbar_transport::mem::pair();
        let (client, ours): (Arc<dyn Connection>, Arc<dyn Connection>) =
            (Arc::new(client), Arc::new(ours));
        std::thread::spawn(move || worker::attend(api, Arc::new(theirs)));
        let ([one, other], [from, to]) = (said.clone(), [client.clone(), ours.clone()]);
        std::thread::spawn(move || carry(&*from, &*to, &one));
        carry(&*ours, &*client, &other);
    })
}

fn keep(folder: &Path, target: &str, name: &str, bytes: &[u8]) {
    let folder = folder.join(target);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(name), bytes).expect("room for a recording");
}

/// Records a session of a program, in a process of its own.
fn session(folder: &Path, api: &'static str, name: &str, program: impl FnOnce()) {
    apart::run(Duration::from_secs(60), || {
        let said: [Said; 2] = Default::default();
        programs::use_server(&tapped(api, said.clone()));
        program();
        for (target, said) in [
            (format!("{api}_worker"), &said[0]),
            (format!("{api}_client"), &said[1]),
        ] {
            let said = said.lock().expect("no carrier panics");
            let calls = said.iter().filter(|r| r.0.op < 0xff00).count();
            println!(
                "{target}/{name}: {} records, {calls} of the API",
                said.len()
            );
            keep(folder, &target, name, &sequence::write(&said));
        }
    });
}

/// The variable that has a target record instead of being fuzzed: the folder.
const FOLDER: &str = "FUZZ_RECORD";

/// Records and ends the process, if it is asked to.
///
/// # Panics
/// When a session does not end as it should.
pub fn if_asked() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    for (target, all) in [
        ("documents", seeds::documents()),
        ("images", seeds::images()),
        ("http", seeds::requests()),
    ] {
        for (i, one) in all.iter().enumerate() {
            keep(&folder, target, &i.to_string(), one);
        }
    }
    for api in ["cuda", "opencl"] {
        worker::warm(api);
    }
    for family in cuda::ALL {
        session(&folder, "cuda", family.0, || cuda::run(&[family]));
    }
    session(&folder, "cuda", "all", || cuda::run(&cuda::ALL));
    for family in opencl::ALL {
        session(&folder, "opencl", family.0, || opencl::run(&[family]));
    }
    std::process::exit(0);
}
