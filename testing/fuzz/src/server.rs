//! A server that says what it is told to. Its script is records: first its welcome, if it has one
//! of its own, and then notices. Answers go to the calls in the order in which these come.

use crate::sequence::{self, Record};
use crate::wire::{receive, send};
use busbar_control::hello::{Hello, Intent, PROTOCOL_MAX, Welcome};
use busbar_transport::tcp::Tcp;
use busbar_wire::frame::Kind;
use busbar_wire::record::{Notice, OP_GOODBYE, Records};
use std::collections::VecDeque;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Of a script: the record that is the welcome's document.
pub const OP_WELCOME: u16 = 0xfffe;
/// Of a script: a notice with this number keeps it; that of any other answer becomes the call's.
const FORGED: u32 = u32::MAX;

/// The welcome of a server that has nothing against its client.
pub fn welcome() -> Welcome {
    Welcome {
        protocol: PROTOCOL_MAX,
        version: env!("CARGO_PKG_VERSION").into(),
        session: "session".into(),
        secret: "secret".into(),
        resume_seconds: 1,
        ..Welcome::default()
    }
}

/// Takes clients, and does with each connection what `each` does, on a thread of its own.
///
/// # Panics
/// When there is no port.
pub fn listen(each: impl Fn(Tcp) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let each = each.clone();
            std::thread::spawn(move || Tcp::new(client).map(each));
        }
    });
    address
}

/// Starts a server with this script; where it listens.
pub fn start(mut script: VecDeque<Record>) -> String {
    let own = script.pop_front_if(|r| r.0.op == OP_WELCOME);
    let greeting = own.map(|r| r.1);
    let script = Arc::new(Mutex::new(script));
    listen(move |conn| {
        let Some((_, hello)) = receive(&conn) else {
            return;
        };
        let hello: Hello = serde_json::from_slice(&hello).unwrap_or_default();
        let said = match (&greeting, hello.intent) {
            (Some(document), _) => document.clone(),
            (None, Intent::Open | Intent::Side | Intent::Status) => {
                serde_json::to_vec(&welcome()).unwrap_or_default()
            }
            (None, _) => return,
        };
        let _ = send(&conn, Kind::Welcome, 0, 0, &said);
        let mut seq = 0;
        while let Some((h, body)) = receive(&conn) {
            if h.kind != Kind::Data {
                let _ = send(&conn, Kind::Ack, 0, 0, &[]);
                continue;
            }
            let mut script = script.lock().expect("nobody panics with it");
            let mut said = Vec::new();
            for (r, _) in Records::new(&body).flatten() {
                if r.op == OP_GOODBYE {
                    return;
                }
                if r.call != 0 {
                    said.extend(answer(r.call, &mut script));
                }
            }
            drop(script);
            let sent = if said.is_empty() {
                send(&conn, Kind::Ack, 0, h.seq, &[])
            } else {
                seq += 1;
                send(&conn, Kind::Data, seq, h.seq, &sequence::write(&said))
            };
            if sent.is_err() {
                return;
            }
        }
    })
}

/// What is said next, up to the next answer, which is that of this call.
fn answer(call: u32, script: &mut VecDeque<Record>) -> Vec<Record> {
    let mut said = Vec::new();
    while let Some(mut r) = script.pop_front() {
        let answers = r.0.op == Notice::Reply as u16;
        if (answers || r.0.op == Notice::Chunk as u16) && r.0.call != FORGED {
            r.0.call = call;
        }
        said.push(r);
        if answers {
            return said;
        }
    }
    // Nothing more is said: the program's calls fail and it comes to its end.
    said.push(sequence::record(Notice::Goodbye as u16, 0, 0, b"over"));
    said
}
