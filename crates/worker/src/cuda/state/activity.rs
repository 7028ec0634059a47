//! What devices did, as CUPTI's records, until the client takes them.
//!
//! Of a record there is which call of the driver's it is for (its correlation), and of a call which
//! mark it had. What has no mark is the worker's own, and nobody hears of it.

use crate::prelude::*;
use busbar_abi::cupti::*;
use busbar_abi::{Plain, bytes_of, from_bytes, zeroed};
use std::mem::offset_of;

/// The most records that are kept: some hundred MiB.
const MOST: usize = 2_000_000;
/// The most calls whose marks are known. A device is never that far behind.
const MOST_LINKS: usize = 1 << 20;
/// The most names of kernels, and the longest. A name beyond that is not told.
const MOST_NAMES: usize = 1 << 17;
pub const LONGEST: usize = 32 << 10;
/// What marks are known to CUPTI as: a kind of number that it leaves to its user.
pub const MARKS: u32 = 3;

/// A record of the devices'.
#[derive(Debug, Clone, Copy)]
pub enum Record {
    Kernel(Kernel),
    Copy(Memcpy),
    Peer(MemcpyPeer),
    Fill(Memset),
}

/// A structure that begins with these bytes; the rest of it is zero.
fn begun<T: Plain>(bytes: &[u8]) -> T {
    let mut whole = vec![0; size_of::<T>()];
    let n = bytes.len().min(whole.len());
    whole[..n].copy_from_slice(&bytes[..n]);
    from_bytes(&whole).unwrap_or_else(zeroed)
}

/// How many bytes of a kind's records are told; none of other kinds.
pub fn length(kind: ActivityKind) -> Option<usize> {
    OF_CUDA_12
        .iter()
        .find(|(of, _)| *of == kind)
        .map(|(_, n)| *n)
}

/// What ties a call to its mark, if these bytes are that.
pub fn link(bytes: &[u8]) -> Option<(u32, u64)> {
    let whole = bytes.len() >= size_of::<ExternalCorrelation>();
    let e: ExternalCorrelation = begun(bytes);
    let is = whole && e.kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    (is && e.external_kind == MARKS).then_some((e.correlation, e.external))
}

/// Where a kernel's name is, of its record.
pub fn name_of(bytes: &[u8]) -> Option<u64> {
    let at = offset_of!(Kernel, name);
    let name = bytes.get(at..at + 8)?;
    Some(u64::from_ne_bytes(name.try_into().ok()?))
}

/// Whether records of a kind are of kernels.
pub fn is_kernel(kind: ActivityKind) -> bool {
    kind == CUPTI_ACTIVITY_KIND_KERNEL || kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
}

impl Record {
    /// What the library's bytes are; without what leads into this process's memory, and with a
    /// kernel's name's number.
    pub fn of(kind: ActivityKind, bytes: &[u8], name: u32) -> Option<Self> {
        let bytes = bytes.get(..length(kind)?)?;
        Some(match kind {
            CUPTI_ACTIVITY_KIND_MEMCPY => Self::Copy(Memcpy {
                reserved: 0,
                ..begun(bytes)
            }),
            CUPTI_ACTIVITY_KIND_MEMCPY2 => Self::Peer(MemcpyPeer {
                reserved: 0,
                ..begun(bytes)
            }),
            CUPTI_ACTIVITY_KIND_MEMSET => Self::Fill(Memset {
                reserved: 0,
                ..begun(bytes)
            }),
            _ => Self::Kernel(Kernel {
                name: name.into(),
                reserved: 0,
                access_policy: 0,
                ..begun(bytes)
            }),
        })
    }

    /// What is told of it.
    fn bytes(&self) -> (ActivityKind, &[u8]) {
        let (kind, all) = match self {
            Self::Kernel(r) => (r.kind, bytes_of(r)),
            Self::Copy(r) => (r.kind, bytes_of(r)),
            Self::Peer(r) => (r.kind, bytes_of(r)),
            Self::Fill(r) => (r.kind, bytes_of(r)),
        };
        (kind, &all[..length(kind).unwrap_or(0)])
    }

    fn correlation(&mut self) -> &mut u32 {
        match self {
            Self::Kernel(r) => &mut r.correlation,
            Self::Copy(r) => &mut r.correlation,
            Self::Peer(r) => &mut r.correlation,
            Self::Fill(r) => &mut r.correlation,
        }
    }

    fn name(&self) -> u32 {
        match self {
            Self::Kernel(r) => r.name as u32,
            _ => 0,
        }
    }

    /// Numbers devices as the program does, which sees these physical ones.
    fn number_devices(&mut self, devices: &[i32]) {
        let number = |device: &mut u32| {
            let at = devices
                .iter()
                .position(|d| u32::try_from(*d) == Ok(*device));
            *device = at.map_or(*device, |at| at as u32);
        };
        match self {
            Self::Kernel(r) => number(&mut r.device),
            Self::Copy(r) => number(&mut r.device),
            Self::Fill(r) => number(&mut r.device),
            Self::Peer(r) => [&mut r.device, &mut r.src_device, &mut r.dst_device]
                .into_iter()
                .for_each(number),
        }
    }

    /// Which copy of the program's it is a piece of, if it may be one.
    fn piece(&self, mark: u64) -> Option<Whole> {
        match self {
            Self::Copy(r) if r.graph_node == 0 => Some((mark, r.copy_kind, r.stream)),
            _ => None,
        }
    }

    /// Takes another piece of the same copy in.
    fn join(&mut self, other: &Self) {
        if let (Self::Copy(r), Self::Copy(more)) = (self, other) {
            // Without a time is what was not over when it was flushed by force.
            r.start = match (r.start, more.start) {
                (0, start) | (start, 0) => start,
                (one, other) => one.min(other),
            };
            r.end = r.end.max(more.end);
            r.bytes = r.bytes.saturating_add(more.bytes);
        }
    }
}

/// A copy of the program's: its mark, its kind, and its stream.
type Whole = (u64, u8, u32);

/// Names of kernels, by number from 1 on, and whether the client has been told of each.
#[derive(Default)]
struct Names {
    numbers: HashMap<Arc<[u8]>, u32>,
    all: Vec<(Arc<[u8]>, bool)>,
}

impl Names {
    /// The number of a name; 0 if it has none.
    fn number(&mut self, name: &[u8]) -> u32 {
        let name = &name[..name.len().min(LONGEST)];
        if name.is_empty() {
            return 0;
        }
        if let Some(n) = self.numbers.get(name) {
            return *n;
        }
        if self.all.len() >= MOST_NAMES {
            return 0;
        }
        let name: Arc<[u8]> = name.into();
        self.all.push((name.clone(), false));
        let n = self.all.len() as u32;
        self.numbers.insert(name, n);
        n
    }

    /// A name that the client does not know yet.
    fn news(&mut self, n: u32) -> Option<&mut (Arc<[u8]>, bool)> {
        let known = self.all.get_mut((n as usize).checked_sub(1)?)?;
        (!known.1).then_some(known)
    }
}

/// What a client gets at a time.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// There is more.
    pub more: bool,
    /// How many records were lost since that was last told.
    pub dropped: u64,
    /// Each is its kind, its length, and as many bytes.
    pub records: Vec<u8>,
    /// Each is its number, its length, and as many bytes.
    pub names: Vec<u8>,
}

/// How much has been flushed before records are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    Nothing,
    /// What was complete: the mark of a record that is here may not be.
    Complete,
    /// All there is of what is over: what has no mark will not get one.
    All,
}

/// The records that are kept.
#[derive(Default)]
pub struct Store {
    /// The marks of calls.
    links: BTreeMap<u32, u64>,
    /// What came, with the mark if that came before.
    came: Vec<(Option<u64>, Record)>,
    /// What is the client's to take.
    ready: VecDeque<Record>,
    names: Names,
    dropped: u64,
}

impl Store {
    /// A call had a mark.
    pub fn link(&mut self, (correlation, mark): (u32, u64)) {
        self.links.insert(correlation, mark);
        // The library counts calls, so the first ones are the oldest.
        if self.links.len() > MOST_LINKS {
            self.links.pop_first();
        }
    }

    /// The number of a kernel's name.
    pub fn name(&mut self, name: &[u8]) -> u32 {
        self.names.number(name)
    }

    /// A record has come.
    pub fn put(&mut self, mut record: Record) {
        if self.came.len() + self.ready.len() >= MOST {
            return self.lose(1);
        }
        let mark = self.links.get(record.correlation()).copied();
        self.came.push((mark, record));
    }

    /// Records were lost.
    pub fn lose(&mut self, n: u64) {
        self.dropped = self.dropped.saturating_add(n);
    }

    /// Sorts out what has come: what is the program's, and what is not, or not yet.
    fn sort(&mut self, flushed: Flushed) {
        let mut wholes: HashMap<Whole, usize> = HashMap::new();
        for (mark, mut record) in std::mem::take(&mut self.came) {
            let late = || self.links.get(&{ *record.correlation() }).copied();
            let Some(mark) = mark.or_else(late) else {
                if flushed != Flushed::All {
                    self.came.push((None, record));
                }
                continue;
            };
            *record.correlation() = mark as u32;
            let at = self.ready.len();
            if let Some(whole) = record.piece(mark) {
                let first = *wholes.entry(whole).or_insert(at);
                if let Some(first) = self.ready.get_mut(first) {
                    first.join(&record);
                    continue;
                }
            }
            self.ready.push_back(record);
        }
    }

    /// Takes as many as fit in so many bytes, names included; devices are told as the program
    /// numbers them.
    pub fn take(&mut self, flushed: Flushed, room: usize, devices: &[i32]) -> Taken {
        const HEAD: usize = 8;
        if flushed != Flushed::Nothing || self.ready.is_empty() {
            self.sort(flushed);
        }
        let mut taken = Taken {
            dropped: std::mem::take(&mut self.dropped),
            ..Taken::default()
        };
        while let Some(record) = self.ready.front_mut() {
            let name = self.names.news(record.name());
            let of_name = name.as_ref().map_or(0, |(name, _)| HEAD + name.len());
            let full = taken.records.len() + taken.names.len();
            let of_record = HEAD + record.bytes().1.len();
            if full > 0 && full + of_record + of_name > room {
                break;
            }
            if let Some((text, told)) = name {
                *told = true;
                put(&mut taken.names, record.name(), text);
            }
            record.number_devices(devices);
            let (kind, bytes) = record.bytes();
            put(&mut taken.records, kind, bytes);
            self.ready.pop_front();
        }
        taken.more = !self.ready.is_empty();
        taken
    }
}

/// A number, a length, and as many bytes.
fn put(to: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    to.extend(number.to_le_bytes());
    to.extend((bytes.len() as u32).to_le_bytes());
    to.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(correlation: u32, device: u32) -> Vec<u8> {
        let k = Kernel {
            kind: CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
            correlation,
            device,
            start: 10,
            end: 20,
            name: 0x7fff_1234,
            reserved: 0x7fff_0001,
            access_policy: 0x7fff_0002,
            ..Kernel::default()
        };
        bytes_of(&k).to_vec()
    }

    fn copy(correlation: u32, stream: u32, (start, end): (u64, u64), graph_node: u64) -> Record {
        let c = Memcpy {
            kind: CUPTI_ACTIVITY_KIND_MEMCPY,
            copy_kind: 1,
            bytes: 100,
            correlation,
            stream,
            start,
            end,
            graph_node,
            ..Memcpy::default()
        };
        Record::of(c.kind, bytes_of(&c), 0).expect("a copy")
    }

    fn marked(correlation: u32, mark: u64) -> (u32, u64) {
        let e = ExternalCorrelation {
            kind: CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
            external_kind: MARKS,
            external: mark,
            correlation,
            reserved: 0,
        };
        link(bytes_of(&e)).expect("a link")
    }

    fn items(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
            let word = |i: usize| u32::from_le_bytes(head[i..i + 4].try_into().expect("four"));
            let (body, rest) = rest.split_at(word(4) as usize);
            all.push((word(0), body.to_vec()));
            bytes = rest;
        }
        all
    }

    const ALL: usize = 1 << 20;

    #[test]
    fn a_kernel_is_told_with_its_mark_its_name_and_no_pointer() {
        let mut s = Store::default();
        assert_eq!(name_of(&kernel(7, 5)), Some(0x7fff_1234));
        s.link(marked(7, (9 << 32) | 77));
        for _ in 0..2 {
            let n = s.name(b"gemm");
            s.put(Record::of(10, &kernel(7, 5), n).expect("a kernel"));
        }
        s.put(Record::of(10, &kernel(8, 5), 0).expect("the worker's own"));
        let taken = s.take(Flushed::All, ALL, &[-1, 3, 5]);
        assert_eq!(items(&taken.names), [(1, b"gemm".to_vec())]);
        let told = items(&taken.records);
        assert_eq!(told.len(), 2);
        for (kind, bytes) in told {
            assert_eq!((kind, bytes.len()), (10, 208));
            let k: Kernel = begun(&bytes);
            assert_eq!((k.correlation, k.device, k.name), (77, 2, 1));
            assert_eq!((k.reserved, k.access_policy), (0, 0));
        }
        // A name is told once.
        let n = s.name(b"gemm");
        s.put(Record::of(10, &kernel(7, 4), n).expect("a kernel"));
        let taken = s.take(Flushed::All, ALL, &[5]);
        assert!(taken.names.is_empty());
        let k: Kernel = begun(&items(&taken.records)[0].1);
        assert_eq!(k.device, 4, "an unknown device stays as it is");
    }

    #[test]
    fn what_is_cut_short_or_unknown_is_no_record() {
        assert!(Record::of(10, &kernel(1, 0)[..207], 0).is_none());
        assert!(Record::of(CUPTI_ACTIVITY_KIND_DRIVER, &[0; 64], 0).is_none());
        assert!(link(&[0; 24]).is_none() && link(&[39, 0, 0, 0]).is_none());
    }

    #[test]
    fn a_mark_may_come_after_its_record_but_for_a_full_flush() {
        let mut s = Store::default();
        s.put(copy(1, 0, (1, 2), 0));
        s.put(copy(2, 0, (1, 2), 0));
        assert!(s.take(Flushed::Complete, ALL, &[]).records.is_empty());
        s.link(marked(1, 4));
        assert_eq!(items(&s.take(Flushed::All, ALL, &[]).records).len(), 1);
        s.link(marked(2, 5));
        assert!(s.take(Flushed::All, ALL, &[]).records.is_empty(), "dropped");
    }

    #[test]
    fn pieces_of_a_copy_are_one() {
        let mut s = Store::default();
        for correlation in 1..=6 {
            s.link(marked(correlation, if correlation < 6 { 50 } else { 51 }));
        }
        s.put(copy(2, 3, (30, 40), 0));
        s.put(copy(1, 3, (10, 20), 0));
        s.put(copy(3, 4, (1, 2), 0)); // another stream
        s.put(copy(4, 3, (1, 2), 8)); // of a graph, as is the next
        s.put(copy(5, 3, (1, 2), 9));
        s.put(copy(6, 3, (1, 2), 0)); // another call
        let taken = s.take(Flushed::All, ALL, &[]);
        let told = items(&taken.records);
        let copies: Vec<Memcpy> = told.iter().map(|(_, bytes)| begun(bytes)).collect();
        assert_eq!(copies.len(), 5);
        let first = copies[0];
        assert_eq!((first.start, first.end, first.bytes), (10, 40, 200));
        assert_eq!(first.correlation, 50);
        assert_eq!(copies[4].correlation, 51);
    }

    #[test]
    fn a_reply_has_room_for_so_many_and_what_is_too_much_is_counted() {
        let mut s = Store::default();
        s.link(marked(7, 1));
        for i in 0..10u8 {
            let n = s.name(&[b'a' + i; 100]);
            s.put(Record::of(10, &kernel(7, 0), n).expect("a kernel"));
        }
        s.lose(3);
        let one = 8 + 208 + 8 + 100;
        let taken = s.take(Flushed::All, 4 * one, &[]);
        assert!(taken.more && taken.dropped == 3);
        assert_eq!((taken.records.len(), taken.names.len()), (4 * 216, 432));
        // What does not fit at all goes alone.
        let taken = s.take(Flushed::Nothing, 1, &[]);
        assert_eq!((taken.records.len(), taken.dropped), (216, 0));
        let taken = s.take(Flushed::Nothing, ALL, &[]);
        assert!(!taken.more);
        assert_eq!(items(&taken.records).len(), 5);
        s.came = vec![(Some(1), copy(7, 0, (0, 1), 0)); MOST];
        s.put(copy(7, 0, (0, 1), 0));
        assert_eq!(s.take(Flushed::All, ALL, &[]).dropped, 1);
    }

    #[test]
    fn marks_of_the_oldest_calls_are_forgotten() {
        let mut s = Store::default();
        for n in 0..=MOST_LINKS as u32 {
            s.link((n, 1));
        }
        assert!(!s.links.contains_key(&0) && s.links.contains_key(&1));
        assert_eq!(s.name(b""), 0);
        assert_eq!(s.name(&[b'x'; LONGEST + 1]), s.name(&[b'x'; LONGEST + 2]));
    }
}
