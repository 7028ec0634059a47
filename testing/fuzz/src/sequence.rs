//! Inputs that are sequences of records, and how they are changed: as records, and by what the spec
//! says of their fields. So objects are used before they are there, after they have gone, in the
//! place of others of another kind, twice.

use crate::lines::{Act, Line, Wire, find};
use busbar_harness::rng::Rng;
use busbar_wire::record::{HEADER, Header, OP_CONTENT, RESERVED, Records};

/// A record: of the header `op`, `api`, `call` and `aux` count.
pub type Record = (Header, Vec<u8>);

/// The records of an input, as far as it has whole ones.
pub fn read(input: &[u8]) -> Vec<Record> {
    let whole = Records::new(input).map_while(Result::ok);
    whole.map(|(h, p)| (h, p.to_vec())).collect()
}

/// The input of these records.
pub fn write(records: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    for (h, payload) in records {
        let len = (HEADER + payload.len()) as u32;
        out.extend(Header { len, ..*h }.to_bytes());
        out.extend(payload);
    }
    out
}

/// A record with such a header.
pub fn record(op: u16, call: u32, aux: u32, payload: &[u8]) -> Record {
    let h = Header {
        op,
        call,
        aux,
        ..Header::default()
    };
    (h, payload.to_vec())
}

/// An id in a record: where it stands, the kind of its object, and what becomes of that.
struct Place {
    at: usize,
    kind: u16,
    act: Act,
}

/// Where a record names objects.
fn places(line: &Line, payload: &[u8]) -> Vec<Place> {
    let (mut found, mut at) = (Vec::new(), 0);
    for f in line.fields {
        let (first, each, n) = match f.wire {
            Wire::Raw(n) => (at, n, 1),
            Wire::Counted(_) | Wire::Text => {
                let Some(count) = payload.get(at..).and_then(|p| p.first_chunk::<4>()) else {
                    break;
                };
                let each = if let Wire::Counted(each) = f.wire {
                    each
                } else {
                    1
                };
                (at + 4, each, u32::from_le_bytes(*count) as usize)
            }
            Wire::Rest => break,
        };
        let Some(end) = n.checked_mul(each).and_then(|n| first.checked_add(n)) else {
            break;
        };
        if end > payload.len() {
            break;
        }
        if let Some((kind, act)) = f.object {
            found.extend((0..n).map(|i| Place {
                at: first + each * i,
                kind,
                act,
            }));
        }
        at = end;
    }
    found
}

fn number_at(payload: &[u8], at: usize) -> u32 {
    payload
        .get(at..)
        .and_then(|p| p.first_chunk())
        .map_or(0, |b| u32::from_le_bytes(*b))
}

/// Numbers that are worth a try.
const NUMBERS: [u64; 22] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    16,
    64,
    4096,
    1 << 20,
    1 << 21,
    (1 << 31) - 1,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    1 << 47,
    i64::MAX as u64,
    u64::MAX - 4095,
    u64::MAX,
    0x3000_0000_0000,
    0x3000_0020_0000,
];

/// Changes sequences.
pub struct Mutator {
    lines: &'static [Line],
    rng: Rng,
    /// Changes bytes as the engine does.
    bytes: fn(&mut Vec<u8>, u64),
}

impl Mutator {
    /// One for records of these lines; none for what a server says.
    pub fn new(lines: &'static [Line], seed: u32, bytes: fn(&mut Vec<u8>, u64)) -> Self {
        Self {
            lines,
            rng: Rng::new(seed.into()),
            bytes,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.rng.below(n.max(1) as u64) as usize
    }

    fn number(&mut self) -> u64 {
        match self.rng.below(4) {
            0 => self.rng.next_u64(),
            1 => self.rng.below(64),
            _ => {
                let n = NUMBERS[self.below(NUMBERS.len())];
                n.wrapping_add(self.rng.below(8) / 7)
            }
        }
    }

    /// An id: most often one that an object of the kind has or had somewhere in the sequence.
    fn id(&mut self, all: &[Record], kind: u16) -> u32 {
        let same = !self.rng.one_in(6);
        let known: Vec<u32> = all
            .iter()
            .filter_map(|(h, p)| Some((find(self.lines, h.op)?, p)))
            .flat_map(|(l, p)| places(l, p).into_iter().map(move |f| (f, p)))
            .filter(|(f, _)| same == (f.kind == kind))
            .map(|(f, p)| number_at(p, f.at))
            .collect();
        match self.rng.below(8) {
            0 => self.rng.below(8) as u32,
            1 => self.number() as u32,
            _ if known.is_empty() => 1,
            _ => known[self.below(known.len())],
        }
    }

    /// A record of one of the lines.
    fn invent(&mut self, all: &[Record]) -> Option<Record> {
        let line = self.lines.get(self.below(self.lines.len()))?;
        Some(self.make(line, all))
    }

    fn make(&mut self, line: &'static Line, all: &[Record]) -> Record {
        let mut p = Vec::new();
        for f in line.fields {
            match (&f.wire, f.object) {
                (Wire::Raw(4), Some((kind, _))) => p.extend(self.id(all, kind).to_le_bytes()),
                (Wire::Raw(n), _) => self.raw(*n, &mut p),
                (Wire::Counted(each), object) => {
                    let n = self.rng.below(4) as u32 * if *each == 1 { 24 } else { 1 };
                    p.extend(n.to_le_bytes());
                    for _ in 0..n {
                        match object {
                            Some((kind, _)) => p.extend(self.id(all, kind).to_le_bytes()),
                            None => self.raw(*each, &mut p),
                        }
                    }
                }
                (Wire::Text, _) => {
                    let words = [
                        "",
                        "nop",
                        "copy",
                        "counter",
                        "scale",
                        "-cl-opt-disable",
                        "%s",
                    ];
                    let word = words[self.below(words.len())];
                    p.extend((word.len() as u32).to_le_bytes());
                    p.extend(word.as_bytes());
                }
                (Wire::Rest, _) => {
                    let n = self.rng.magnitude(256) as usize;
                    p.extend(self.rng.bytes(n));
                }
            }
        }
        let like = (!all.is_empty()).then(|| all[self.below(all.len())].0);
        let call = u32::from(line.waits || self.rng.one_in(4));
        record(line.op, call, like.map_or(1, |h| h.aux), &p)
    }

    fn raw(&mut self, mut n: usize, out: &mut Vec<u8>) {
        while n > 0 {
            let word = self.number().to_le_bytes();
            let now = n.min(8);
            out.extend(&word[..now]);
            n -= now;
        }
    }

    /// Another object in one of a record's places.
    fn exchange(&mut self, all: &mut [Record], at: usize) {
        let Some(line) = find(self.lines, all[at].0.op) else {
            return self.field(&mut all[at].1);
        };
        let places = places(line, &all[at].1);
        if places.is_empty() {
            return self.field(&mut all[at].1);
        }
        let place = &places[self.below(places.len())];
        let id = self.id(all, place.kind).to_le_bytes();
        if let Some(b) = all[at].1.get_mut(place.at..place.at + 4) {
            b.copy_from_slice(&id);
        }
    }

    /// Another number in a field, or what may be one.
    fn field(&mut self, payload: &mut [u8]) {
        let width = if self.rng.one_in(2) { 4 } else { 8 };
        if payload.len() >= width {
            let at = self.below(payload.len() - width + 1) & !3;
            let n = self.number().to_le_bytes();
            payload[at..at + width].copy_from_slice(&n[..width]);
        }
    }

    /// The end of an object that a record uses, near that record.
    fn destroy(&mut self, all: &mut Vec<Record>, at: usize) {
        let Some(line) = find(self.lines, all[at].0.op) else {
            return;
        };
        let places = places(line, &all[at].1);
        if places.is_empty() {
            return;
        }
        let place = &places[self.below(places.len())];
        let id = number_at(&all[at].1, place.at);
        let of = |l: &&'static Line| {
            let ends = |f: &crate::lines::Field| f.object == Some((place.kind, Act::Destroys));
            l.fields.iter().any(ends)
        };
        let ends: Vec<_> = self.lines.iter().filter(of).collect();
        if ends.is_empty() {
            return;
        }
        let line = ends[self.below(ends.len())];
        let mut end = self.make(line, all);
        end.0.aux = all[at].0.aux;
        for p in self::places(line, &end.1) {
            if p.act == Act::Destroys {
                end.1[p.at..p.at + 4].copy_from_slice(&id.to_le_bytes());
            }
        }
        let to = (at + self.below(4)).min(all.len());
        all.insert(to, end);
    }

    /// Changes a sequence once.
    pub fn once(&mut self, all: &mut Vec<Record>) {
        if all.is_empty() {
            return all.extend(self.invent(&[]));
        }
        let at = self.below(all.len());
        match self.rng.below(16) {
            0 => _ = all.remove(at),
            1 => {
                let to = self.below(all.len());
                all.insert(to, all[at].clone());
            }
            2 => {
                let to = self.below(all.len());
                all.swap(at, to);
            }
            3 => {
                let n = self.below((all.len() - at).min(16));
                let some: Vec<_> = all.drain(at..at + n).collect();
                let to = self.below(all.len());
                all.splice(to..to, some);
            }
            4 | 5 => {
                let new = self.invent(all);
                all.splice(at..at, new);
            }
            6..=8 => self.exchange(all, at),
            9 | 10 => self.destroy(all, at),
            11 | 12 => self.field(&mut all[at].1),
            13 => {
                let seed = self.rng.next_u64();
                (self.bytes)(&mut all[at].1, seed);
            }
            14 => match self.rng.below(4) {
                0 => all[at].0.aux = self.number() as u32,
                1 => all[at].0.call ^= 1,
                2 if !self.lines.is_empty() => {
                    all[at].0.op = self.lines[self.below(self.lines.len())].op;
                }
                _ => all[at].0.op = 1 + self.rng.below(10) as u16,
            },
            _ => {
                if self.rng.one_in(8) {
                    all.truncate(at + 1);
                }
            }
        }
    }

    /// Records of two sequences: the begin of the one, some of the other, and the rest.
    pub fn cross(&mut self, one: &[Record], other: &[Record]) -> Vec<Record> {
        let at = self.below(one.len() + 1);
        let from = self.below(other.len() + 1);
        let n = self.below((other.len() - from + 1).min(24));
        let mut all = one[..at].to_vec();
        all.extend_from_slice(&other[from..from + n]);
        all.extend_from_slice(&one[at..]);
        all
    }
}

/// Bytes of a piece of content before its own.
const BEFORE_CONTENT: usize = 48;

/// Content is known by its hash. Content that was changed gets the one that it now has, wherever
/// the sequence names it, or nothing would come of it.
pub fn settle_content(all: &mut [Record]) {
    let mut renamed = Vec::new();
    for (h, p) in all.iter_mut() {
        if h.op == OP_CONTENT && p.len() > BEFORE_CONTENT {
            let bytes = &p[BEFORE_CONTENT..];
            let hash = *blake3::hash(bytes).as_bytes();
            let len = (bytes.len() as u64).to_le_bytes();
            if p[..32] != hash {
                renamed.push((p[..32].to_vec(), hash));
            }
            p[..32].copy_from_slice(&hash);
            p[32..40].copy_from_slice(&len);
            p[40..48].fill(0);
        }
    }
    for (h, p) in all.iter_mut().filter(|r| r.0.op < RESERVED) {
        let _ = h;
        for (old, new) in &renamed {
            if let Some(at) = p.windows(32).position(|w| w == old) {
                p[at..at + 32].copy_from_slice(new);
            }
        }
    }
}
