//! A port with a server of the tests' own behind it, and somebody who calls.

#![allow(dead_code, reason = "each test file uses some of it")]

use busbar_control::device::Device;
use busbar_control::gpu::{Gpu, Number};
use busbar_control::hello::{Change, Refusal};
use busbar_control::holding::{Holding, Memory, Traffic};
use busbar_control::status::{Lease, Listed, Session, Status, Time, Waiting};
use busbar_web::api::{Quota, Used};
use busbar_web::{Gate, Had, Overview, Port, Row, View, start};
use rustls_pki_types::CertificateDer;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The token that lets somebody in.
pub const TOKEN: &str = "0123456789abcdef";

/// A server of which everything is known.
#[derive(Default)]
pub struct Known {
    pub overview: Mutex<Overview>,
    /// What it was asked to do.
    pub done: Mutex<Vec<String>>,
    /// Whether it asks for the token.
    pub asks: bool,
}

/// Somebody who was let in.
struct Seen(Arc<Known>, String);

pub struct Door(pub Arc<Known>);

impl Gate for Door {
    fn admit(&self, token: &str, _: Option<&CertificateDer<'_>>) -> Result<Arc<dyn View>, Refusal> {
        match !self.0.asks || token == TOKEN {
            true => Ok(Arc::new(Seen(self.0.clone(), token.into()))),
            false => Err(Refusal::new("token", "the server knows another token")),
        }
    }

    fn own(&self) -> Arc<dyn View> {
        Arc::new(Seen(self.0.clone(), String::new()))
    }

    fn refused(&self, _: &str, why: &Refusal) {
        self.0.note(format!("refused {}", why.code));
    }
}

impl Known {
    fn note(&self, what: String) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.push(what);
    }

    pub fn edit(&self, f: impl FnOnce(&mut Overview)) {
        f(&mut self.overview.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl View for Seen {
    fn key(&self) -> String {
        self.1.clone()
    }

    fn over(&self) -> Option<String> {
        None
    }

    fn overview(&self) -> Overview {
        let all = self.0.overview.lock();
        all.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, session: &str, change: Change) -> Result<(), Refusal> {
        if change.share == Some(1000) {
            return Err(Refusal::new("share", "others have it"));
        }
        self.0.note(format!("change {session}"));
        Ok(())
    }

    fn end(&self, session: &str) -> Result<(), Refusal> {
        if session != "abc" {
            return Err(Refusal::new("session", "there is none"));
        }
        self.0.note(format!("end {session}"));
        Ok(())
    }
}

/// A server that has one of each, with every field that can be there.
pub fn full() -> Overview {
    let mut gpu = Gpu::default();
    for (number, name) in Number::ALL {
        gpu.numbers.insert((*name).into(), *number as u64 + 1);
    }
    let device = Device {
        api: "cuda".into(),
        kind: "gpu".into(),
        name: "Simulated".into(),
        memory: 1 << 30,
        uuid: "ab".into(),
        ..Device::default()
    };
    let memory = Memory {
        pieces: 1,
        bytes: 4096,
        most: 4096,
    };
    let session = Session {
        session: "abc".into(),
        api: "cuda".into(),
        devices: vec![0],
        connected: true,
        tenant: "lab".into(),
        user: "ann".into(),
        host: "<script>alert(1)</script>".into(),
        program: "train".into(),
        lease: Some("l".into()),
        memory_limit: Some(1 << 20),
        share: Some(250),
        time: vec![Some(Time {
            second: 500,
            used_ms: 1500,
            waits: true,
            ..Time::default()
        })],
        holding: Holding {
            memory: [("Device".to_string(), memory)].into(),
            ..Holding::default()
        },
        ..Session::default()
    };
    let lost = Session {
        session: "def".into(),
        connected: false,
        time: Vec::new(),
        ..session.clone()
    };
    let mut status = Status {
        version: "0".into(),
        devices: vec![Listed {
            device,
            used_by: 2,
            lease: Some("ann".into()),
            ..Listed::default()
        }],
        forbidden: Some("no".into()),
        sessions: vec![session, lost],
        leases: vec![Lease {
            lease: "l".into(),
            holder: "ann".into(),
            devices: vec![0],
            tenant: "lab".into(),
            memory: 1 << 20,
            share: 250,
            sessions: 1,
            until: Some(90),
            ..Lease::default()
        }],
        waiting: vec![Waiting {
            lease: "w".into(),
            holder: "bob".into(),
            tenant: "lab".into(),
            place: 2,
            since: 7000,
            devices: vec![0, 1],
            wanted: 2,
            memory: 1 << 20,
            share: 250,
            offer: vec![1],
            ahead: vec!["eve".into()],
            holders: vec!["ann".into()],
            ..Waiting::default()
        }],
        missing: vec![("opencl".into(), "none".into())],
        ..Status::default()
    };
    status.gpus.driver = "570".into();
    status.gpus.gpus.insert("ab".into(), gpu);
    let most = |n| Used {
        used: 1,
        most: Some(n),
    };
    Overview {
        status,
        quotas: vec![Quota {
            tenant: "lab".into(),
            sessions: most(2),
            leases: most(3),
            memory: most(4),
            share: Some(0.5),
            priority: Some(1),
            opens: Some(9),
            apis: Some(vec!["cuda".into()]),
            devices: Some(vec![0]),
            ..Quota::default()
        }],
        host: "here".into(),
        rows: vec![Row {
            tenant: "la\"b\\\n{x=\"1\"}".into(),
            api: "cuda".into(),
            opened: 3,
            ended: 1,
            connected: 1,
            disconnected: 1,
            memory: 8192,
            traffic: Traffic {
                records: 1 << 60,
                round_trips: 7,
                bytes_in: 11,
                bytes_out: 13,
                ..Traffic::default()
            },
            time: [(
                "cuda:0".to_string(),
                Had {
                    used_ms: 1500,
                    waited_ms: 1,
                },
            )]
            .into(),
            ..Row::default()
        }],
        refusals: [("token".to_string(), 2)].into(),
        ..Overview::default()
    }
}

/// A port, where it is, and what is behind it.
pub fn port(asks: bool) -> (SocketAddr, Arc<Known>) {
    let known = Arc::new(Known {
        overview: Mutex::new(full()),
        asks,
        ..Known::default()
    });
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let gate = Arc::new(Door(known.clone()));
    let tls = None;
    start(Port {
        listener,
        tls,
        gate,
    })
    .expect("it starts");
    (at, known)
}

/// Waits for something to be so: what is shown may be a second old.
pub fn until(so: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !so() {
        assert!(start.elapsed() < PATIENCE, "it does not become so");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What came back.
#[derive(Debug)]
pub struct Said {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Said {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|l| l.split_once(':'));
        let found = lines.find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, v)| v.trim())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }
}

/// Sends something, and reads until the other side closes.
pub fn raw(at: SocketAddr, request: &[u8]) -> String {
    let mut s = TcpStream::connect(at).expect("it listens");
    s.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // It may have been refused before all of it was sent.
    let _ = s.write_all(request);
    let mut said = Vec::new();
    let _ = s.read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

/// Asks with these lines in the head, and a body.
pub fn call(at: SocketAddr, method: &str, path: &str, head: &[&str], body: &str) -> Said {
    let own = head.iter().any(|l| l.starts_with("host:"));
    let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !own {
        text += &format!("host: {at}\r\n");
    }
    for line in head {
        text += &format!("{line}\r\n");
    }
    text += &format!("content-length: {}\r\n\r\n{body}", body.len());
    let said = raw(at, text.as_bytes());
    let (head, body) = said.split_once("\r\n\r\n").unwrap_or((&said, ""));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
    Said {
        status: status.unwrap_or_else(|| panic!("no answer: {said}")),
        head: head.into(),
        body: body.into(),
    }
}

pub fn get(at: SocketAddr, path: &str) -> Said {
    call(at, "GET", path, &[], "")
}
