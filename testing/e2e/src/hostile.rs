//! What a hostile client sends: sessions of real programs, recorded and then spoiled.
//!
//! A recording holds what a program's client sent, frame by frame. [`Spoiler`] makes frames and
//! records of it that a worker must survive: bits turned, lengths and counts that lie, ids that
//! were never given, addresses of the worker's own, records left out, doubled or in another's
//! place.

use busbar_control::hello::{Hello, RDMA, Welcome};
use busbar_harness::rng::Rng;
use busbar_wire::codec::{Message, Reader, Request, Writer};
use busbar_wire::frame;
use busbar_wire::generated::cuda;
use busbar_wire::record::{
    HEADER, Header, Notice, OP_CALLBACK_DONE, OP_CONTENT, OP_GOODBYE, Records,
};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What a client sent over its first connection.
#[derive(Clone, Default)]
pub struct Recording {
    /// The document of its hello.
    pub hello: Vec<u8>,
    /// The bodies of its data frames, in order.
    pub bodies: Vec<Vec<u8>>,
}

/// Does `one` with each of these seeds, on four threads at once.
pub fn with_seeds(seeds: std::ops::Range<u64>, one: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(seeds.start);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    one(seed);
                }
            });
        }
    });
}

/// A frame's header and body.
pub fn frame_of(kind: frame::Kind, seq: u64, ack: u64, body: &[u8]) -> Vec<u8> {
    let h = frame::Header {
        seq,
        ack,
        ..frame::Header::plain(kind, body.len())
    };
    let mut out = h.to_bytes().to_vec();
    out.extend_from_slice(body);
    out
}

/// A record's header and payload.
pub fn record_of(op: u16, call: u32, scope: u32, payload: &[u8]) -> Vec<u8> {
    let h = Header {
        len: (HEADER + payload.len()) as u32,
        op,
        api: 0,
        call,
        aux: scope,
    };
    let mut out = h.to_bytes().to_vec();
    out.extend_from_slice(payload);
    out
}

/// Reads a frame; `None` at the end of the connection.
pub fn read_frame(from: &mut impl Read) -> Option<(frame::Header, Vec<u8>)> {
    let mut h = [0; frame::HEADER];
    from.read_exact(&mut h).ok()?;
    let h = frame::Header::parse(&h).ok()?;
    let mut body = vec![0; h.len as usize];
    from.read_exact(&mut body).ok()?;
    Some((h, body))
}

/// Stands between a program and its server, and keeps what the program's client sends.
pub struct Tap {
    /// Where the program connects to.
    pub address: String,
    recordings: Arc<Mutex<Vec<Recording>>>,
}

impl Tap {
    /// A tap before the server at `address`. It lasts as long as the process. What it reads stays
    /// on this connection: sessions are not asked to move.
    pub fn start(address: &str) -> Self {
        Self::with(address, on_tcp)
    }

    /// One that changes nothing, and ends a connection that moves.
    pub fn that_bears_no_move(address: &str) -> Self {
        Self::with(address, <[u8]>::to_vec)
    }

    fn with(address: &str, hello: fn(&[u8]) -> Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let tap = Self {
            address: listener.local_addr().expect("it is bound").to_string(),
            recordings: Arc::default(),
        };
        let (server, recordings) = (address.to_string(), tap.recordings.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(behind) = TcpStream::connect(&server) else {
                    continue;
                };
                for s in [&client, &behind] {
                    let _ = s.set_nodelay(true);
                }
                let kept = recordings.clone();
                std::thread::spawn(move || carry(client, behind, hello, &kept));
            }
        });
        tap
    }

    /// What the sessions so far have sent. Their programs must have ended.
    pub fn recordings(&self) -> Vec<Recording> {
        let all = self.recordings.lock().expect("no carrier panics");
        all.iter()
            .filter(|r| !r.bodies.is_empty())
            .cloned()
            .collect()
    }
}

/// Stands between a program and its server, and changes what the server says.
pub struct Liar {
    /// Where the program connects to.
    pub address: String,
}

impl Liar {
    /// A liar before the server at `address`. It lasts as long as the process. `twist` changes the
    /// bodies of the server's data frames.
    pub fn start(address: &str, twist: impl Fn(&mut Vec<u8>) + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("it is bound").to_string();
        let server = address.to_string();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(behind) = TcpStream::connect(&server) else {
                    continue;
                };
                for s in [&client, &behind] {
                    let _ = s.set_nodelay(true);
                }
                let (mut from, mut to) = (
                    client.try_clone().expect("a copy"),
                    behind.try_clone().expect("a copy"),
                );
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                let twist = twist.clone();
                std::thread::spawn(move || lie(behind, client, &twist));
            }
        });
        Self { address: own }
    }
}

fn lie(mut server: TcpStream, mut client: TcpStream, twist: &impl Fn(&mut Vec<u8>)) {
    while let Some((mut h, mut body)) = read_frame(&mut server) {
        if h.kind == frame::Kind::Data {
            twist(&mut body);
            h.len = body.len() as u32;
        }
        let mut all = h.to_bytes().to_vec();
        all.extend(body);
        if client.write_all(&all).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

fn carry(
    mut client: TcpStream,
    server: TcpStream,
    hello: fn(&[u8]) -> Vec<u8>,
    kept: &Mutex<Vec<Recording>>,
) {
    let (mut from, mut to) = (
        server.try_clone().expect("a copy"),
        client.try_clone().expect("a copy"),
    );
    let back = std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut server = server;
    let mut r = Recording::default();
    while let Some((mut h, mut body)) = read_frame(&mut client) {
        if h.kind == frame::Kind::Hello {
            body = hello(&body);
            h.len = body.len() as u32;
        }
        let sent = server.write_all(&h.to_bytes()).is_ok() && server.write_all(&body).is_ok();
        match h.kind {
            frame::Kind::Hello => r.hello = of_elsewhere(&body),
            frame::Kind::Data => r.bodies.push(body),
            _ => {}
        }
        if !sent {
            break;
        }
    }
    kept.lock().expect("no carrier panics").push(r);
    let _ = server.shutdown(Shutdown::Both);
    let _ = back.join();
}

/// A hello as from another host. Here the worker would look for the program that was recorded, find
/// that it has ended, and end the session.
fn of_elsewhere(hello: &[u8]) -> Vec<u8> {
    changed(hello, |h| h.client.boot_id = "another".into())
}

/// A hello of one whose session is to stay on TCP.
fn on_tcp(hello: &[u8]) -> Vec<u8> {
    changed(hello, |h| h.features.retain(|f| f != RDMA))
}

fn changed(hello: &[u8], change: impl FnOnce(&mut Hello)) -> Vec<u8> {
    let mut hello: Hello = serde_json::from_slice(hello).expect("a hello");
    change(&mut hello);
    serde_json::to_vec(&hello).expect("JSON")
}

/// Takes bodies apart into records.
pub fn records(bodies: &[Vec<u8>]) -> Vec<(Header, Vec<u8>)> {
    let all = bodies.iter().flat_map(|b| Records::new(b));
    all.flatten().map(|(h, p)| (h, p.to_vec())).collect()
}

/// Spoils frames and records.
pub struct Spoiler {
    /// Where its choices come from.
    pub rng: Rng,
    /// Numbers that are worth a try: addresses that exist, ids.
    pub numbers: Vec<u64>,
}

impl Spoiler {
    /// A spoiler with a seed.
    pub fn new(seed: u64) -> Self {
        const DEVICE: u64 = 0x3000_0000_0000;
        const SHARED: u64 = DEVICE + (32 << 40);
        let numbers = vec![
            0,
            1,
            2,
            3,
            7,
            8,
            16,
            64,
            4096,
            1 << 20,
            (1 << 21) - 1,
            1 << 21,
            (1 << 21) + 1,
            1 << 31,
            u64::from(u32::MAX),
            1 << 32,
            1 << 40,
            1 << 47,
            i64::MAX as u64,
            1 << 63,
            u64::MAX - 4095,
            u64::MAX,
            DEVICE,
            DEVICE + (2 << 20),
            DEVICE + (1 << 40) - 1,
            SHARED,
            SHARED + (4 << 40) - 1,
            SHARED + (4 << 40),
        ];
        Self {
            rng: Rng::new(seed),
            numbers,
        }
    }

    /// A number worth a try.
    pub fn number(&mut self) -> u64 {
        match self.rng.below(4) {
            0 => self.rng.next_u64(),
            1 => self.rng.below(64),
            _ => {
                let n = self.numbers[self.rng.below(self.numbers.len() as u64) as usize];
                n.wrapping_add(self.rng.below(8) / 7)
            }
        }
    }

    fn place(&mut self, len: usize) -> usize {
        self.rng.below(len as u64) as usize
    }

    /// Changes some bytes.
    pub fn spoil_bytes(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self.rng.below(8) {
            0 => {
                let at = self.place(bytes.len());
                bytes[at] ^= 1 << self.rng.below(8);
            }
            1 => {
                let at = self.place(bytes.len());
                bytes[at] = self.rng.next_u64() as u8;
            }
            2 => {
                let n = self.place(bytes.len());
                bytes.truncate(n);
            }
            3 => {
                let n = self.rng.magnitude(4096) as usize;
                let more = self.rng.bytes(n);
                bytes.extend(more);
            }
            4 => {
                let (from, to) = (self.place(bytes.len()), self.place(bytes.len()));
                let n = self.place(bytes.len() - from.max(to));
                bytes.copy_within(from..from + n, to);
            }
            // A field of four or eight bytes, most often where fields lie.
            _ => {
                let width = if self.rng.one_in(2) { 4 } else { 8 };
                if bytes.len() >= width {
                    let mut at = self.place(bytes.len() - width + 1);
                    if !self.rng.one_in(4) {
                        at &= !3;
                    }
                    let n = self.number().to_le_bytes();
                    bytes[at..at + width].copy_from_slice(&n[..width]);
                }
            }
        }
    }

    /// A frame body made of these records: spoiled, left out, doubled, in another's place.
    pub fn spoil_body(&mut self, body: &[u8], others: &[(Header, Vec<u8>)]) -> Vec<u8> {
        let mut out = Vec::new();
        for r in Records::new(body) {
            let Ok((mut h, payload)) = r else { break };
            let mut payload = payload.to_vec();
            match self.rng.below(16) {
                0 => self.spoil_bytes(&mut payload),
                1 => continue,
                2 => out.extend(record_of(h.op, h.call, h.aux, &payload)),
                3 if !others.is_empty() => {
                    let i = self.place(others.len());
                    let (h, p) = &others[i];
                    out.extend(record_of(h.op, h.call, h.aux, p));
                }
                4 => h.op = self.rng.next_u64() as u16,
                5 => h.call = self.number() as u32,
                6 => h.aux = self.number() as u32,
                _ => {}
            }
            out.extend(record_of(h.op, h.call, h.aux, &payload));
        }
        // Now and then the lengths lie as well, which ends the session.
        if self.rng.one_in(24) {
            self.spoil_bytes(&mut out);
        }
        out.truncate(busbar_wire::limits::MAX_FRAME_BODY);
        out
    }
}

/// Memory that a session offers to others: what it takes to get it.
pub struct Offer {
    /// Where it is asked for.
    pub tag: [u8; 8],
    /// What opens it.
    pub secret: [u8; 16],
}

/// A CUDA client of a few lines that sends what records it is told to.
pub struct Raw {
    to: TcpStream,
    seq: u64,
    call: u32,
    answered: usize,
    /// Functions that have not returned.
    open: Vec<u32>,
    /// Functions that the worker asks for return at once; else never.
    pub obliging: bool,
    /// Content, as it is sent: behind its hash.
    contents: Vec<Vec<u8>>,
    /// Callbacks that came: their status and payload.
    pub callbacks: Vec<(i32, Vec<u8>)>,
}

impl Raw {
    /// Opens a session; context 1 is the first device's.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn open(address: &str) -> Self {
        let mut hello = Hello::new(busbar_control::hello::Intent::Open);
        hello.api = "cuda".into();
        hello.client.boot_id = "another".into();
        let hello = serde_json::to_vec(&hello).expect("JSON");
        let (to, welcome) = greet(address, &hello).expect("a welcome");
        assert!(welcome.refusal.is_none(), "{:?}", welcome.refusal);
        let mut raw = Self {
            to,
            seq: 0,
            call: 0,
            answered: 0,
            open: Vec::new(),
            obliging: true,
            contents: Vec::new(),
            callbacks: Vec::new(),
        };
        assert_eq!(raw.call(0, &cuda::OpenCuda {}).0, 0);
        raw.queue(0, &cuda::SelectDevices { devices: vec![0] });
        let retain = cuda::PrimaryRetain {
            context: 1,
            device: 0,
            flags: 0,
        };
        assert_eq!(raw.call(0, &retain).0, 0);
        raw
    }

    fn send(&mut self, record: &[u8]) {
        self.seq += 1;
        let frame = frame_of(frame::Kind::Data, self.seq, 0, record);
        // A session that is over shows at the next call.
        let _ = self.to.write_all(&frame);
    }

    /// Has content for the worker when it asks; its hash.
    pub fn content(&mut self, bytes: &[u8]) -> [u8; 32] {
        let hash = *blake3::hash(bytes).as_bytes();
        let mut payload = hash.to_vec();
        payload.extend((bytes.len() as u64).to_le_bytes());
        payload.extend(0u64.to_le_bytes());
        payload.extend(bytes);
        self.contents.push(payload);
        hash
    }

    /// Queues a message.
    pub fn queue<'a, R: Request<'a>>(&mut self, scope: u32, m: &R) {
        self.record(R::OP, 0, scope, m);
    }

    fn record<'a, M: Message<'a>>(&mut self, op: u16, call: u32, scope: u32, m: &M) {
        let mut payload = Vec::new();
        m.encode(&mut Writer::new(&mut payload));
        self.send(&record_of(op, call, scope, &payload));
    }

    /// Ends the session.
    pub fn goodbye(&mut self) {
        self.send(&record_of(OP_GOODBYE, 0, 0, &[]));
    }

    /// All functions that were asked for return.
    pub fn returns(&mut self) {
        for call in std::mem::take(&mut self.open) {
            self.send(&record_of(OP_CALLBACK_DONE, 0, 0, &call.to_le_bytes()));
        }
    }

    /// Asks for an answer and does not wait for it.
    pub fn ask<'a, R: Request<'a>>(&mut self, scope: u32, m: &R) {
        self.call += 1;
        self.record(R::OP, self.call, scope, m);
    }

    /// Waits until this many of what was asked have been answered, each with success.
    ///
    /// # Panics
    /// When one is not.
    pub fn answers(&mut self, n: usize) {
        while self.answered < n {
            assert!(self.receive(u32::MAX).is_some(), "the session lives");
        }
    }

    /// Makes a call: its status and reply. Functions that the worker asks for return at once.
    ///
    /// # Panics
    /// When the session ends instead.
    pub fn call<'a, R: Request<'a>>(&mut self, scope: u32, m: &R) -> (i32, Vec<u8>) {
        self.try_call(scope, m).expect("the session lives")
    }

    /// As [`Raw::call`]; `None` when the session ends instead.
    pub fn try_call<'a, R: Request<'a>>(&mut self, scope: u32, m: &R) -> Option<(i32, Vec<u8>)> {
        self.call += 1;
        self.record(R::OP, self.call, scope, m);
        loop {
            if let Some(answer) = self.receive(self.call)? {
                return Some(answer);
            }
        }
    }

    /// Makes calls at once, each an operation, a scope and a message; the status of each. `None`
    /// when the session ends instead.
    pub fn statuses(&mut self, calls: &[(u16, u32, Vec<u8>)]) -> Option<Vec<i32>> {
        let first = self.call + 1;
        let mut body = Vec::new();
        for (op, scope, payload) in calls {
            self.call += 1;
            body.extend(record_of(*op, self.call, *scope, payload));
        }
        self.send(&body);
        let mut all = vec![None; calls.len()];
        let mut left = calls.len();
        while left > 0 {
            let (h, body) = read_frame(&mut self.to)?;
            if h.kind != frame::Kind::Data {
                continue;
            }
            let ack = frame_of(frame::Kind::Ack, 0, h.seq, &[]);
            self.to.write_all(&ack).ok()?;
            for (n, _) in Records::new(&body).flatten() {
                match Notice::from_u16(n.op) {
                    Ok(Notice::Reply) => {
                        let at = n.call.checked_sub(first)? as usize;
                        left -= usize::from(all.get_mut(at)?.replace(n.aux as i32).is_none());
                    }
                    Ok(Notice::Goodbye) => return None,
                    _ => {}
                }
            }
        }
        Some(all.into_iter().flatten().collect())
    }

    /// Creates memory of the first device that can be handed on; what the driver says.
    pub fn create(&mut self, allocation: u32, size: u64) -> i32 {
        // Pinned, as a descriptor, of a device, of the first.
        let props = [1u32, 1, 1, 0, 0, 0, 0, 0].map(u32::to_le_bytes).concat();
        let create = cuda::VmmCreate {
            allocation,
            size,
            props: &props,
        };
        self.call(1, &create).0
    }

    /// Offers memory that was created.
    ///
    /// # Panics
    /// When there is none.
    pub fn offer(&mut self, allocation: u32) -> Offer {
        let (rc, reply) = self.call(1, &cuda::VmmExport { allocation });
        assert_eq!(rc, 0, "memory is offered");
        let r = cuda::VmmExportReply::decode(&mut Reader::new(&reply)).expect("a reply");
        Offer {
            tag: r.tag,
            secret: r.secret,
        }
    }

    /// Takes over what somebody offers; what comes of it.
    pub fn take(&mut self, allocation: u32, offer: &Offer) -> i32 {
        let import = cuda::VmmImport {
            allocation,
            tag: offer.tag,
            secret: offer.secret,
        };
        self.call(1, &import).0
    }

    /// Offers an event to whoever has what is given here.
    pub fn offer_event(&mut self, event: u32) -> Vec<u8> {
        let (rc, reply) = self.call(1, &cuda::IpcEventExport { event });
        assert_eq!(rc, 0, "an event is offered");
        let r = cuda::IpcEventExportReply::decode(&mut Reader::new(&reply)).expect("a reply");
        r.handle.to_vec()
    }

    /// Takes an event that somebody offers; what comes of it.
    pub fn take_event(&mut self, event: u32, handle: &[u8]) -> i32 {
        self.call(1, &cuda::IpcEventImport { event, handle }).0
    }

    /// Gives memory up.
    pub fn give_up(&mut self, allocation: u32) {
        self.queue(1, &cuda::VmmRelease { allocation });
    }

    /// Takes what comes next: the answer to `call`, if it is that; `None` at the end.
    fn receive(&mut self, call: u32) -> Option<Option<(i32, Vec<u8>)>> {
        loop {
            let (h, body) = read_frame(&mut self.to)?;
            if h.kind != frame::Kind::Data {
                continue;
            }
            let ack = frame_of(frame::Kind::Ack, 0, h.seq, &[]);
            self.to.write_all(&ack).ok()?;
            let mut answer = None;
            for (n, payload) in Records::new(&body).flatten() {
                match Notice::from_u16(n.op) {
                    Ok(Notice::Reply) if n.call == call => {
                        answer = Some((n.aux as i32, payload.to_vec()));
                    }
                    Ok(Notice::Reply) => {
                        assert_eq!(n.aux, 0);
                        self.answered += 1;
                    }
                    Ok(Notice::Callback) => {
                        self.callbacks.push((n.aux as i32, payload.to_vec()));
                        self.open
                            .extend((n.call != 0 && !self.obliging).then_some(n.call));
                        if n.call != 0 && self.obliging {
                            let done = record_of(OP_CALLBACK_DONE, 0, 0, &n.call.to_le_bytes());
                            self.send(&done);
                        }
                    }
                    Ok(Notice::NeedContent) => {
                        let mut known = self.contents.iter();
                        let found = known.find(|c| c.starts_with(payload)).cloned();
                        let found = found.expect("content that was offered");
                        self.send(&record_of(OP_CONTENT, 0, 0, &found));
                    }
                    Ok(Notice::Goodbye) => return None,
                    _ => {}
                }
            }
            return Some(answer);
        }
    }
}

/// Says hello with this document; the connection and the server's answer.
pub fn greet(address: &str, hello: &[u8]) -> Option<(TcpStream, Welcome)> {
    let mut to = TcpStream::connect(address).ok()?;
    let patience = Some(std::time::Duration::from_secs(20));
    to.set_read_timeout(patience).ok()?;
    to.set_write_timeout(patience).ok()?;
    to.set_nodelay(true).ok()?;
    to.write_all(&frame_of(frame::Kind::Hello, 0, 0, hello))
        .ok()?;
    let welcome = loop {
        match read_frame(&mut to)? {
            (h, _) if h.kind == frame::Kind::Ping => {}
            (_, body) => break body,
        }
    };
    Some((to, serde_json::from_slice(&welcome).ok()?))
}
