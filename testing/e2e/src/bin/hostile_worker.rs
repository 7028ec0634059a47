//! A worker in this process, on the simulated driver, that is fed spoiled records without end:
//! `hostile_worker LIBRARY RECORDING SEED COUNT`. What is real here: the intake, the decoders, the
//! CUDA side, its threads; the client is a few lines that answer what the worker asks.
//!
//! It ends with status 4 when a stream waits for a value that does not come, and 3 when it is stuck
//! without such a reason, with status 0 when all records are fed, nothing has written to memory of
//! this process that is none of a client's business, and nothing has sent it to the client.

use anyhow::{Result, bail};
use busbar_channel::{Keeper, Lost, Verdict};
use busbar_e2e::hostile::{Spoiler, frame_of, record_of, records};
use busbar_transport::{Connection, mem};
use busbar_wire::WireError;
use busbar_wire::frame::{self, Kind};
use busbar_wire::generated::cuda;
use busbar_wire::record::{Header, Notice, OP_CALLBACK_DONE, OP_CONTENT, RESERVED, Records};
use busbar_worker::ahead::Ahead;
use busbar_worker::callback::Callbacks;
use busbar_worker::content::Content;
use busbar_worker::outbox::Outbox;
use busbar_worker::run::{Ends, serve};
use busbar_worker::staging::{Arena, Hold};
use busbar_worker::{Api, Setup};
use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Memory of this process that a client must neither see nor change.
static CANARY: LazyLock<Vec<u8>> = LazyLock::new(|| CANARY_WORD.repeat(16 << 10));
const CANARY_WORD: &[u8; 16] = b"none-of-yours-42";

/// Pieces of code by hash: what the program had, and spoiled ones.
type Images = HashMap<[u8; 32], Vec<u8>>;

/// The CUDA side, fed by itself.
struct Fed {
    inner: Box<dyn Api>,
    spoiler: Spoiler,
    corpus: Vec<(Header, Vec<u8>)>,
    hashes: Vec<[u8; 32]>,
    ops: Vec<u16>,
    /// Payloads that were understood, by op.
    shapes: HashMap<u16, Vec<Vec<u8>>>,
    scopes: Vec<u32>,
    left: u64,
    at: usize,
    understood: u64,
}

/// Sizes that structures of the API have.
const SIZES: [u64; 16] = [
    0, 4, 8, 12, 16, 24, 32, 40, 56, 64, 88, 96, 104, 144, 200, 256,
];

impl Fed {
    fn header(&mut self, op: u16, len: usize) -> Header {
        let r = &mut self.spoiler.rng;
        let scope = match r.below(16) {
            0 => r.next_u64() as u32,
            1 => 0,
            _ => self.scopes[r.below(self.scopes.len() as u64) as usize],
        };
        Header {
            len: (busbar_wire::record::HEADER + len) as u32,
            op,
            api: 0,
            call: if r.one_in(2) { r.next_u64() as u32 } else { 0 },
            aux: scope,
        }
    }

    fn feed(&mut self, h: &Header, payload: &[u8], hold: &mut Hold<'_>) -> Result<(), WireError> {
        CURRENT.store(u64::from(h.op) << 32 | self.left, Ordering::Relaxed);
        self.left = self.left.saturating_sub(1);
        let r = self.inner.execute(h, payload, hold);
        self.understood += u64::from(r.is_ok());
        self.inner.poll(self.left.is_multiple_of(2));
        r
    }

    /// The next record of the program, as it was or spoiled.
    fn replay(&mut self, hold: &mut Hold<'_>) {
        if self.spoiler.rng.one_in(50) {
            self.at = self.spoiler.rng.below(self.corpus.len() as u64) as usize;
        }
        let (mut h, mut payload) = self.corpus[self.at % self.corpus.len()].clone();
        self.at += 1;
        if self.spoiler.rng.one_in(2) {
            self.spoiler.spoil_bytes(&mut payload);
        }
        if self.spoiler.rng.one_in(20) {
            h.aux = self.spoiler.number() as u32;
        }
        h.len = (busbar_wire::record::HEADER + payload.len()) as u32;
        let _ = self.feed(&h, &payload, hold);
    }

    /// A field whose meaning nobody knows yet.
    fn field(&mut self, n: usize) -> Vec<u8> {
        let r = &mut self.spoiler.rng;
        let v = match (n, r.below(3)) {
            (4, 0 | 1) => SIZES[r.below(SIZES.len() as u64) as usize],
            (..=8, _) => self.spoiler.number(),
            _ => {
                let mut all = Vec::new();
                while all.len() < n {
                    all.extend(self.spoiler.number().to_le_bytes());
                }
                all.truncate(n);
                return all;
            }
        };
        let mut b = v.to_le_bytes().to_vec();
        b.resize(n, 0);
        b
    }

    /// A record of any kind: its shape is found by what the decoder says is missing.
    fn invent(&mut self, hold: &mut Hold<'_>) {
        let op = self.ops[self.spoiler.rng.below(self.ops.len() as u64) as usize];
        let known = self.shapes.get(&op).filter(|k| !k.is_empty());
        let mut payload = match known {
            Some(k) if !self.spoiler.rng.one_in(4) => {
                let i = self.spoiler.rng.below(k.len() as u64) as usize;
                let mut p = k[i].clone();
                // Fields of this one, not its shape.
                for _ in 0..self.spoiler.rng.below(4) {
                    if p.len() >= 4 {
                        let at = self.spoiler.rng.below((p.len() / 4) as u64) as usize * 4;
                        let n = if p.len() - at >= 8 { 8 } else { 4 };
                        let v = self.spoiler.number().to_le_bytes();
                        p[at..at + n].copy_from_slice(&v[..n]);
                    }
                }
                p
            }
            _ => Vec::new(),
        };
        // Loads name code by hash, behind an id.
        let loads = cuda::name(op).is_some_and(|n| n.contains("Load"));
        for _ in 0..24 {
            if loads && payload.len() >= 36 && !self.spoiler.rng.one_in(4) {
                let i = self.spoiler.rng.below(self.hashes.len() as u64) as usize;
                payload[4..36].copy_from_slice(&self.hashes[i]);
            }
            let h = self.header(op, payload.len());
            match self.feed(&h, &payload, hold) {
                Ok(()) => {
                    let k = self.shapes.entry(op).or_default();
                    if k.len() < 64 {
                        k.push(payload);
                    }
                    return;
                }
                Err(WireError::Truncated { wanted, left }) if wanted - left <= 4096 => {
                    let more = self.field(wanted - left);
                    payload.extend(more);
                }
                Err(WireError::Trailing(n)) => payload.truncate(payload.len() - n),
                Err(_) if !payload.is_empty() => {
                    let n = self.spoiler.rng.below(payload.len() as u64) as usize;
                    payload.truncate(n & !3);
                }
                Err(_) => return,
            }
            if self.left == 0 {
                return;
            }
        }
    }
}

impl Api for Fed {
    fn execute(&mut self, _: &Header, _: &[u8], hold: &mut Hold<'_>) -> Result<(), WireError> {
        while self.left > 0 {
            if self.spoiler.rng.one_in(2) {
                self.replay(hold);
            } else {
                self.invent(hold);
            }
        }
        DONE.store(true, Ordering::Release);
        // Not to stdout: the CUDA side takes that over for what kernels print.
        eprintln!("understood {} kinds {}", self.understood, self.shapes.len());
        Ok(())
    }

    fn poll(&mut self, leisure: bool) -> bool {
        self.inner.poll(leisure)
    }

    fn close(&mut self) {
        self.inner.close();
    }
}

/// What is being executed: the op, and how many records are left.
static CURRENT: AtomicU64 = AtomicU64::new(0);
/// Frames that the client has had: a long answer is no standstill.
static HAD: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicBool = AtomicBool::new(false);
static LEAKED: AtomicBool = AtomicBool::new(false);

/// Ends the session when its connection ends.
struct Once;

impl Keeper for Once {
    fn detached(&mut self, _: &Lost) -> Verdict {
        Verdict::End("over".into())
    }
}

/// The client: acknowledges, gives the code it is asked for, says that its functions have returned.
fn client(conn: &dyn Connection, images: &Images) {
    let mut seq = 1;
    let say = |kind, seq, ack, body: &[u8]| {
        let _ = conn.send(&mut [IoSlice::new(&frame_of(kind, seq, ack, body))]);
    };
    // Any record sets the worker off.
    say(Kind::Data, seq, 0, &record_of(1, 0, 0, &[]));
    loop {
        let mut h = [0; frame::HEADER];
        if conn.recv_exact(&mut h).is_err() {
            return;
        }
        let Ok(h) = frame::Header::parse(&h) else {
            return;
        };
        let mut body = vec![0; h.len as usize];
        if conn.recv_exact(&mut body).is_err() {
            return;
        }
        if h.kind != Kind::Data {
            continue;
        }
        // Where code of one's own lies in memory is no secret to its sender; these bytes never
        // left.
        if body.windows(16).any(|w| w == CANARY_WORD) {
            LEAKED.store(true, Ordering::Release);
        }
        say(Kind::Ack, 0, h.seq, &[]);
        HAD.fetch_add(1, Ordering::Relaxed);
        for (n, payload) in Records::new(&body).flatten() {
            let answer = match Notice::from_u16(n.op) {
                Ok(Notice::NeedContent) => {
                    let mut hash = [0; 32];
                    hash.copy_from_slice(&payload[..32]);
                    let bytes = images.get(&hash).cloned().unwrap_or_default();
                    let mut p = hash.to_vec();
                    p.extend((bytes.len() as u64).to_le_bytes());
                    p.extend(0u64.to_le_bytes());
                    p.extend(bytes);
                    record_of(OP_CONTENT, 0, 0, &p)
                }
                Ok(Notice::Callback) if n.call != 0 => {
                    record_of(OP_CALLBACK_DONE, 0, 0, &n.call.to_le_bytes())
                }
                _ => continue,
            };
            seq += 1;
            say(Kind::Data, seq, h.seq, &answer);
        }
    }
}

/// The program's code, and spoiled forms of it and of other images.
fn images(corpus: &[(Header, Vec<u8>)], spoiler: &mut Spoiler) -> Images {
    let content = corpus.iter().filter(|(h, _)| h.op == OP_CONTENT);
    let mut all: Vec<Vec<u8>> = content.map(|(_, p)| p[48..].to_vec()).collect();
    let mut elf = vec![0; 256];
    elf[..5].copy_from_slice(b"\x7fELF\x02");
    all.push(elf);
    let mut fat = vec![0; 128];
    fat[..8].copy_from_slice(&[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0]);
    fat[8] = 96;
    all.push(fat);
    let mut wrapper = vec![0; 24];
    wrapper[..4].copy_from_slice(&0x4662_43b1u32.to_le_bytes());
    wrapper[8..16].copy_from_slice(&(CANARY.as_ptr() as u64).to_le_bytes());
    all.push(wrapper);
    for i in 0..200 {
        let mut b = all[i % all.len()].clone();
        for _ in 0..3 {
            spoiler.spoil_bytes(&mut b);
        }
        all.push(b);
    }
    let hash = |b: &Vec<u8>| *blake3::hash(b).as_bytes();
    all.into_iter().map(|b| (hash(&b), b)).collect()
}

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().collect();
    let [_, library, recording, seed, count] = &args[..] else {
        bail!("usage: hostile_worker LIBRARY RECORDING SEED COUNT");
    };
    let seed: u64 = seed.parse()?;
    let mut spoiler = Spoiler::new(seed);
    let corpus = records(&[std::fs::read(recording)?]);
    let local = 0u64;
    let heap = CANARY.as_ptr() as u64;
    for address in [
        heap,
        heap + 64,
        &raw const local as u64,
        main as *const () as u64,
    ] {
        spoiler.numbers.extend([address, address]);
    }
    let images = images(&corpus, &mut spoiler);
    let outbox = Outbox::default();
    let content = Content::new(None, false, outbox.clone());
    let callbacks = Callbacks::default();
    let ahead = Ahead::default();
    let (incoming, outgoing) = (Arena::new(48)?, Arena::new(48)?);
    let links = busbar_worker::across::Links::new(Default::default())?;
    let setup = Setup {
        outbox: outbox.clone(),
        content: content.clone(),
        callbacks: callbacks.clone(),
        ahead: ahead.clone(),
        incoming: incoming.clone(),
        outgoing: outgoing.clone(),
        inventory: busbar_worker::inventory::Inventory::default(),
        turn: busbar_worker::turn::Turn::default(),
        submitters: None,
        peers: busbar_worker::peers::Peers::default(),
        checkpoints: Default::default(),
        neighbours: Default::default(),
        dense: false,
        devices: None,
        library: Some(library.clone()),
        nvml: None,
        cupti: None,
        confined: false,
        shared: None,
        links: links.clone(),
    };
    let inner = busbar_worker::cuda::open(setup).map_err(|r| anyhow::anyhow!(r.message))?;
    let corpus: Vec<_> = corpus.into_iter().filter(|c| c.0.op < RESERVED).collect();
    if corpus.is_empty() {
        bail!("the recording is empty");
    }
    // A stream that waits for a value stops all that waits for the stream, so few runs have them.
    let waits = seed % 8 == 7;
    let fits = |op: &u16| cuda::name(*op).is_some_and(|n| waits || !n.contains("WaitValue"));
    let mut fed = Fed {
        inner,
        spoiler,
        hashes: images.keys().copied().collect(),
        ops: (0..RESERVED).filter(fits).collect(),
        shapes: HashMap::new(),
        scopes: corpus.iter().map(|c| c.0.aux).collect(),
        corpus,
        left: count.parse()?,
        at: 0,
        understood: 0,
    };
    fed.hashes.sort_unstable();
    let (ours, theirs) = mem::pair();
    std::thread::spawn(move || client(&theirs, &images));
    // A call that never returns shows by its name.
    std::thread::spawn(move || {
        let mut before = (0, 0);
        loop {
            std::thread::sleep(Duration::from_secs(20));
            let now = CURRENT.load(Ordering::Relaxed);
            let step = (now, HAD.load(Ordering::Relaxed));
            if step == before && !DONE.load(Ordering::Acquire) {
                let name = cuda::name((now >> 32) as u16);
                eprintln!("stuck in {name:?} with {} records left", now as u32);
                // A thread of the CUDA side's has to pass that on.
                std::thread::sleep(Duration::from_millis(200));
                std::process::exit(if waits { 4 } else { 3 });
            }
            before = step;
        }
    });
    let ends = Ends {
        outbox,
        content,
        callbacks,
        ahead,
        incoming,
        outgoing,
        at_once: busbar_worker::at_once::AtOnce::default(),
        links,
        tally: Arc::default(),
        checkpoints: Default::default(),
    };
    let ours: Arc<dyn Connection> = Arc::new(ours);
    let end = ours.clone();
    std::thread::spawn(move || {
        while !DONE.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(20));
        }
        end.shutdown();
    });
    serve(ours, Box::new(Once), (ends, None), &mut [&mut fed], |_| {
        Ok(())
    })?;
    if CANARY.chunks(16).any(|c| c != CANARY_WORD) {
        bail!("the worker's own memory was written to");
    }
    if LEAKED.load(Ordering::Acquire) {
        bail!("the worker's own memory was sent to the client");
    }
    eprintln!("fed");
    // SAFETY: _exit has no preconditions. The driver's threads may be at work.
    unsafe { libc::_exit(0) }
}
