//! What profilers get: records in the program's buffers, and times by the program's clock.

use super::prelude::*;
use busbar_abi::cupti::*;
use std::ffi::CStr;

/// One moment by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The server's, in nanoseconds.
    pub there: u64,
    /// The program's, in units of its own.
    pub here: u64,
}

/// How times of a server's become the program's: by a line through two moments.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    first: Moment,
    last: Moment,
}

impl Clock {
    /// From a first moment and a later one.
    pub fn of(first: Moment, last: Moment) -> Self {
        Self { first, last }
    }

    /// A time of the server's by the program's clock.
    pub fn here(&self, there: u64) -> u64 {
        let since = |a: u64, b: u64| b.wrapping_sub(a) as i64;
        let (wide, long) = (
            since(self.first.here, self.last.here),
            since(self.first.there, self.last.there),
        );
        let past = since(self.first.there, there);
        let step = match long > 0 {
            true => (i128::from(past) * i128::from(wide) / i128::from(long)) as i64,
            false => past,
        };
        self.first.here.wrapping_add(step as u64)
    }
}

/// Which functions somebody wants to hear of.
#[derive(Default)]
pub struct Chosen {
    all: bool,
    others: HashMap<u32, bool>,
}

impl Chosen {
    /// All of them, or none.
    pub fn set_all(&mut self, on: bool) {
        self.all = on;
        self.others.clear();
    }

    /// This one, or not.
    pub fn set(&mut self, number: u32, on: bool) {
        self.others.insert(number, on);
    }

    /// Whether it is one of them.
    pub fn has(&self, number: u32) -> bool {
        self.others.get(&number).copied().unwrap_or(self.all)
    }

    /// Whether there is any.
    pub fn any(&self) -> bool {
        self.all || self.others.values().any(|on| *on)
    }
}

/// What is known of the host's end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostEnd {
    /// Whether the memory is page-locked.
    pub locked: bool,
    /// Whether the program need not wait for it.
    pub later: bool,
}

/// CUPTI's kinds of memory.
const PAGEABLE: u8 = 1;
const PINNED: u8 = 2;
/// Of a copy, that the program need not wait.
const ASYNC: u8 = 1;
/// Kinds of copies, as CUPTI numbers them.
const TO_DEVICE: u8 = 1;
const TO_HOST: u8 = 2;

/// A record of a device's work.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// A kernel.
    Kernel(Kernel),
    /// A copy.
    Copy(Memcpy),
    /// A copy between devices.
    Peer(MemcpyPeer),
    /// A fill.
    Fill(Memset),
}

impl Work {
    /// A record as a server sends it: a kernel's name is a number still.
    pub fn read(kind: ActivityKind, bytes: &[u8]) -> Option<Self> {
        let mut whole = vec![0; size_of_kind(kind)?];
        whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(match kind {
            CUPTI_ACTIVITY_KIND_KERNEL | CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL => {
                Self::Kernel(busbar_abi::from_bytes(&whole)?)
            }
            CUPTI_ACTIVITY_KIND_MEMCPY => Self::Copy(busbar_abi::from_bytes(&whole)?),
            CUPTI_ACTIVITY_KIND_MEMCPY2 => Self::Peer(busbar_abi::from_bytes(&whole)?),
            CUPTI_ACTIVITY_KIND_MEMSET => Self::Fill(busbar_abi::from_bytes(&whole)?),
            _ => return None,
        })
    }

    /// The number of the call that it was done for.
    pub fn correlation(&self) -> u32 {
        match self {
            Self::Kernel(r) => r.correlation,
            Self::Copy(r) => r.correlation,
            Self::Peer(r) => r.correlation,
            Self::Fill(r) => r.correlation,
        }
    }

    fn span(&mut self) -> (&mut u64, &mut u64) {
        match self {
            Self::Kernel(r) => (&mut r.start, &mut r.end),
            Self::Copy(r) => (&mut r.start, &mut r.end),
            Self::Peer(r) => (&mut r.start, &mut r.end),
            Self::Fill(r) => (&mut r.start, &mut r.end),
        }
    }

    /// When it began.
    pub fn start(mut self) -> u64 {
        *self.span().0
    }

    /// Has its times by another clock; zero is no time.
    pub fn retime(&mut self, by: impl Fn(u64) -> u64) {
        let change = |t: &mut u64| *t = if *t == 0 { 0 } else { by(*t) };
        if let Self::Kernel(k) = self {
            change(&mut k.completed);
            change(&mut k.queued);
            change(&mut k.submitted);
        }
        let (start, end) = self.span();
        change(start);
        change(end);
    }

    /// What only the client knows of a copy: the server's own went from memory of ours.
    pub fn know(&mut self, of: HostEnd) {
        let Self::Copy(c) = self else {
            return;
        };
        let kind = if of.locked { PINNED } else { PAGEABLE };
        match c.copy_kind {
            TO_DEVICE => c.src_kind = kind,
            TO_HOST => c.dst_kind = kind,
            _ => {}
        }
        c.flags = if of.later { ASYNC } else { 0 };
    }

    /// Puts it behind other records.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Kernel(r) => out.extend_from_slice(busbar_abi::bytes_of(r)),
            Self::Copy(r) => out.extend_from_slice(busbar_abi::bytes_of(r)),
            Self::Peer(r) => out.extend_from_slice(busbar_abi::bytes_of(r)),
            Self::Fill(r) => out.extend_from_slice(busbar_abi::bytes_of(r)),
        }
    }
}

/// The records of a server's answer, each behind its kind and its length.
pub fn records(mut bytes: &[u8]) -> Option<Vec<Work>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (kind, record) = numbered(&mut bytes)?;
        all.push(Work::read(kind, record)?);
    }
    Some(all)
}

/// The next of bytes that stand behind a number and their length.
pub fn numbered<'a>(bytes: &mut &'a [u8]) -> Option<(u32, &'a [u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (one, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *bytes = rest;
    Some((u32::from_le_bytes(*number), one))
}

/// The length of the record that bytes begin with.
fn length(bytes: &[u8]) -> Option<usize> {
    let kind = bytes
        .first_chunk()
        .copied()
        .map(ActivityKind::from_ne_bytes)?;
    size_of_kind(kind).filter(|n| *n <= bytes.len())
}

/// How many bytes of `records` are whole records that there is room for.
pub fn fitting(records: &[u8], room: usize, most: usize) -> usize {
    let (mut n, mut at) = (0, 0);
    while let Some(len) = length(&records[at..]) {
        if at + len > room || (most != 0 && n == most) {
            break;
        }
        (n, at) = (n + 1, at + len);
    }
    at
}

/// Where the record behind the one at `at` begins, among so many bytes of records.
pub fn next(bytes: &[u8], at: Option<usize>) -> Option<usize> {
    let next = match at {
        None => 0,
        Some(at) => at + length(bytes.get(at..)?)?,
    };
    length(bytes.get(next..)?).map(|_| next)
}

/// The names of kernels, which stay where they are as long as the process lives: programs keep
/// pointers to them.
#[derive(Default)]
pub struct Names {
    /// By server, and the number there.
    numbers: HashMap<(usize, u64), &'static CStr>,
    all: HashMap<Vec<u8>, &'static CStr>,
}

impl Names {
    /// A server says what a number stands for.
    pub fn know(&mut self, server: usize, number: u32, name: &[u8]) {
        let text = match self.all.get(name) {
            Some(text) => *text,
            None => {
                let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
                let text = std::ffi::CString::new(&name[..end]).unwrap_or_default();
                let text: &'static CStr = Box::leak(text.into_boxed_c_str());
                self.all.insert(name.to_vec(), text);
                text
            }
        };
        self.numbers.insert((server, u64::from(number)), text);
    }

    /// The name that a number of a server's stands for.
    pub fn of(&self, server: usize, number: u64) -> &'static CStr {
        let known = self.numbers.get(&(server, number));
        known.copied().unwrap_or(c"unknown")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_lie_on_the_line_through_two_moments() {
        let moment = |there, here| Moment { there, here };
        let clock = Clock::of(moment(1_000, 50_000), moment(2_000, 52_000));
        assert_eq!(clock.here(1_000), 50_000);
        assert_eq!(clock.here(1_500), 51_000);
        assert_eq!(clock.here(2_000), 52_000);
        assert_eq!(clock.here(900), 49_800, "before the first, too");
        let once = Clock::of(moment(1_000, 50_000), moment(1_000, 50_000));
        assert_eq!(once.here(1_007), 50_007, "of one moment: the same pace");
    }

    #[test]
    fn buffers_hold_whole_records() {
        let call = ApiCall {
            kind: CUPTI_ACTIVITY_KIND_RUNTIME,
            ..ApiCall::default()
        };
        let fill = Memset {
            kind: CUPTI_ACTIVITY_KIND_MEMSET,
            ..Memset::default()
        };
        let mut all = busbar_abi::bytes_of(&call).to_vec();
        Work::Fill(fill).write(&mut all);
        assert_eq!(all.len(), 40 + 104);
        assert_eq!(fitting(&all, 1 << 20, 0), 144);
        assert_eq!(fitting(&all, 143, 0), 40);
        assert_eq!(fitting(&all, 1 << 20, 1), 40);
        assert_eq!(fitting(&all, 39, 0), 0);
        assert_eq!(next(&all, None), Some(0));
        assert_eq!(next(&all, Some(0)), Some(40));
        assert_eq!(next(&all, Some(40)), None);
        assert_eq!(next(&[], None), None);
        assert_eq!(next(&all[..100], Some(0)), None, "a piece is no record");
    }

    #[test]
    fn what_a_server_sends_is_looked_at() {
        let fill = Memset {
            kind: CUPTI_ACTIVITY_KIND_MEMSET,
            bytes: 7,
            ..Memset::default()
        };
        let sent = |kind: u32, len: u32, bytes: &[u8]| {
            let mut out = kind.to_le_bytes().to_vec();
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(bytes);
            out
        };
        // An older CUPTI's records are shorter.
        let old = &busbar_abi::bytes_of(&fill)[..88];
        let read = records(&sent(CUPTI_ACTIVITY_KIND_MEMSET, 88, old)).expect("a record");
        assert!(matches!(&read[..], [Work::Fill(f)] if f.bytes == 7));
        assert!(records(&sent(CUPTI_ACTIVITY_KIND_MEMSET, 89, old)).is_none());
        assert!(
            records(&sent(77, 88, old)).is_none(),
            "of a kind that nobody asks for"
        );
        assert!(records(&sent(CUPTI_ACTIVITY_KIND_MEMSET, 200, &[0; 200])).is_none());
        assert!(records(&[1, 2, 3]).is_none());
    }

    #[test]
    fn a_function_may_be_chosen_for_itself() {
        let mut chosen = Chosen::default();
        assert!(!chosen.any() && !chosen.has(7));
        chosen.set(7, true);
        assert!(chosen.any() && chosen.has(7) && !chosen.has(8));
        chosen.set_all(true);
        chosen.set(8, false);
        assert!(chosen.has(7) && chosen.has(9) && !chosen.has(8));
        chosen.set_all(false);
        assert!(!chosen.any());
    }

    #[test]
    fn a_name_stays_where_it_is() {
        let mut names = Names::default();
        names.know(0, 3, b"gemm");
        names.know(1, 3, b"fill\0rest");
        names.know(1, 4, b"gemm");
        assert_eq!(names.of(0, 3), c"gemm");
        assert_eq!(names.of(1, 3), c"fill");
        assert!(std::ptr::eq(names.of(0, 3), names.of(1, 4)));
        assert_eq!(names.of(0, 9), c"unknown");
    }

    #[test]
    fn of_a_copy_the_client_knows_the_hosts_end() {
        let mut copy = Work::Copy(Memcpy {
            copy_kind: TO_HOST,
            src_kind: 3,
            dst_kind: PINNED,
            flags: 1,
            ..Memcpy::default()
        });
        copy.know(HostEnd {
            locked: false,
            later: false,
        });
        let Work::Copy(c) = copy else {
            panic!("it is a copy");
        };
        assert_eq!((c.src_kind, c.dst_kind, c.flags), (3, PAGEABLE, 0));
    }
}
