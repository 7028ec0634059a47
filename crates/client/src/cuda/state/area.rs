//! One piece of shadowed memory: its blocks, who holds their valid bytes, and their protection.

mod claim;
mod images;

use self::claim::Claim;
pub use self::claim::Evidence;
pub use self::images::Beside;
use self::images::Images;
use super::ranges::Sort;
use busbar_abi::cuda::*;
use busbar_wire::changes::{CLOSE, changed, changes, ends, together};
use busbar_wire::limits::BULK_CHUNK;
use busbar_wire::record::Heard;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

const PAGE: u64 = 4096;
/// Bytes of a block: what a lone fault fetches.
const BLOCK: u64 = 64 << 10;
/// The most blocks that a sequence of faults moves at once, and the same after a prefetch.
const AHEAD: usize = 32;
const AHEAD_EAGER: usize = 512;

/// How many fetches bring all, at first and after one that compared for nothing.
const PLAIN: u32 = 15;

/// Who holds a block's valid bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The program has written it, or may have.
    Host,
    /// The program may read it.
    Both,
    /// The program may not touch it.
    Device,
}

impl State {
    fn rights(self) -> i32 {
        match self {
            Self::Host => libc::PROT_READ | libc::PROT_WRITE,
            Self::Both => libc::PROT_READ,
            Self::Device => libc::PROT_NONE,
        }
    }
}

/// The most bytes of an area that is not protected at all: flags and counters, by which a program
/// and a running kernel talk. The program never waits before it touches them.
pub const SMALL: u64 = 16 << 10;

/// How long an access waits for work, unless that was in vain before.
pub const PATIENCE: Duration = Duration::from_millis(20);

/// The most pages of an area that are opened because the program touches them while work runs.
const MOST_OPEN: usize = 16;

/// Bytes that are not protected: all of a small area, pages that the program touched while work was
/// under way, or those at an end of registered memory, in a page that holds other things as well.
/// Changes are found by comparing with what both sides last agreed on.
#[derive(Debug)]
pub struct Edge {
    host: u64,
    dev: u64,
    agreed: Option<Vec<u8>>,
    len: usize,
    stale: bool,
    heard: Heard,
    /// What may be on its way still.
    sent: Sent,
}

/// What was sent, and under which number last: what the device had there before is older. Pieces do
/// not overlap, so there are never more than bytes.
#[derive(Debug, Default)]
struct Sent(BTreeMap<usize, (usize, u64)>);

impl Sent {
    /// What lies in `r` was sent under a number, which is greater than all before.
    fn note(&mut self, number: u64, r: Range<usize>) {
        let reaching = |all: &BTreeMap<usize, (usize, u64)>| {
            let (start, (end, number)) = all.range(..r.end).next_back()?;
            (*end > r.start).then_some((*start, *end, *number))
        };
        while let Some((start, end, older)) = reaching(&self.0) {
            self.0.remove(&start);
            for rest in [start..r.start, r.end..end] {
                if rest.start < rest.end {
                    self.0.insert(rest.start, (rest.end, older));
                }
            }
        }
        if !r.is_empty() {
            self.0.insert(r.start, (r.end, number));
        }
    }

    /// The other side has heard all up to a number.
    fn heard(&mut self, number: u64) {
        self.0.retain(|_, (_, n)| *n > number);
    }

    /// Whether a byte is on its way still.
    fn has(&self, at: usize) -> bool {
        let before = self.0.range(..=at).next_back();
        before.is_some_and(|(_, (end, _))| at < *end)
    }
}

/// What the program has changed of an edge, or all of it when the device has nothing yet.
#[derive(Debug, PartialEq, Eq)]
pub struct News {
    /// The program's address.
    pub at: u64,
    /// The device's.
    pub dst: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The device has nothing yet.
    pub first: bool,
}

impl Edge {
    fn new(host: u64, dev: u64, len: usize) -> Self {
        Self {
            host,
            dev,
            agreed: None,
            len,
            stale: false,
            heard: Heard::AtWaits,
            sent: Sent::default(),
        }
    }

    /// Takes over what the device has changed, as far as it is newer than what was sent after
    /// `heard`: what that is.
    fn take(&mut self, heard: u64, change: &Change) -> Vec<Change> {
        let from = (change.at - self.host) as usize;
        let Some(agreed) = &mut self.agreed else {
            return Vec::new();
        };
        self.sent.heard(heard);
        let newer = |i: &usize| !self.sent.has(from + i);
        let all: Vec<_> = (0..change.new.len()).filter(newer).collect();
        let runs = all.chunk_by(|a, b| a + 1 == *b).map(|run| {
            let new = &change.new[run[0]..run[0] + run.len()];
            let at = from + run[0];
            agreed[at..at + new.len()].copy_from_slice(new);
            (self.host + at as u64, new.to_vec())
        });
        runs.map(|(at, new)| Change { at, new }).collect()
    }

    /// The bytes as they are now. Another thread may be writing: twice the same, so that what was
    /// written before a word that is seen is seen, too.
    fn stable(&self, pages: &impl Pages) -> Vec<u8> {
        const OFTEN: usize = 8;
        let mut last = pages.bytes(self.host, self.len).to_vec();
        for _ in 0..OFTEN {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            let now = pages.bytes(self.host, self.len);
            if now == last {
                break;
            }
            last.copy_from_slice(now);
        }
        last
    }
}

/// What the device has changed in the program's memory.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// The program's address.
    pub at: u64,
    /// What the device has.
    pub new: Vec<u8>,
}

/// Puts pieces in the order in which they travel: those that lie close together and are many bytes
/// first, a word that stands alone last. The word says that the others are there, as a rule.
pub fn longest_first<T>(pieces: &mut Vec<T>, place: impl Fn(&T) -> (u64, usize)) {
    pieces.sort_by_key(|p| place(p).0);
    let mut groups: Vec<(u64, Vec<T>)> = Vec::new();
    let mut end = 0;
    for piece in pieces.drain(..) {
        let (at, len) = place(&piece);
        match groups.last_mut() {
            Some((bytes, group)) if at < end + CLOSE => {
                *bytes += len as u64;
                group.push(piece);
            }
            _ => groups.push((len as u64, vec![piece])),
        }
        end = at + len as u64;
    }
    groups.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    pieces.extend(groups.into_iter().flat_map(|(_, group)| group));
}

/// A piece of shadowed memory.
#[derive(Debug)]
pub struct Area {
    /// What the program takes it for.
    pub sort: Sort,
    /// Its first byte in the program.
    pub start: u64,
    /// Its length in bytes.
    pub size: u64,
    /// The device's address of the first byte.
    dev: u64,
    /// The first page that is protected.
    pub host: u64,
    /// Bytes of protected pages.
    pub len: u64,
    /// What the device has of it, piece by piece: each variable is an allocation of its own, and no
    /// copy may go beyond one.
    pieces: Vec<Range<u64>>,
    /// It is a page of modules' variables, which the worker tells of.
    variables: bool,
    /// The context it was made in.
    pub context: u32,
    /// How much work there had been before any could use it.
    pub born: u64,
    /// What the program waits for where it touches this.
    pub attach: Attach,
    /// What says that kernels have its address.
    pub claim: Claim,
    /// The program is about to read a lot of it.
    pub eager: bool,
    /// How long an access waits for work that may use it.
    pub patience: Duration,
    rights: i32,
    blocks: Vec<State>,
    dirty: usize,
    shared: usize,
    next: usize,
    batch: usize,
    edges: Vec<Edge>,
    /// Pages that are not protected, though those around them are.
    opened: Vec<u64>,
    images: Images,
    /// How many fetches are to bring all, whether it has changed or not.
    plain: u32,
}

/// Work on a stream that the caller does not know.
pub const ANY: u32 = u32::MAX;

/// Whose managed memory is, as `cuStreamAttachMemAsync` says it. Any stream may use it all the
/// same, as on devices that have concurrent access; what it says is for which work the program
/// waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attach {
    /// Any stream's.
    Global,
    /// The program's.
    Host,
    /// One stream's.
    Single(u32),
}

impl Attach {
    /// Whether the program waits for work on a stream.
    fn waits_for(self, stream: u32) -> bool {
        match self {
            Self::Global => true,
            Self::Host => false,
            Self::Single(s) => s == stream || stream == ANY,
        }
    }
}

/// What an area needs done to the program's pages.
pub trait Pages {
    /// Sets what the program may do with whole pages.
    fn protect(&self, at: u64, len: u64, rights: i32) -> Result<()>;
    /// Bytes that may be read.
    fn bytes(&self, at: u64, len: usize) -> &[u8];
    /// Reads pages that may be closed to everybody; false where the system does not do that.
    fn peek(&self, at: u64, to: &mut [u8]) -> bool;
    /// Writes what the device has changed, each word of it at once, and leaves the rest of the word
    /// to whoever writes there at the same time.
    fn merge(&self, change: &Change);
    /// Writes to pages that are closed to everybody: other threads of the program see all of it or
    /// fault.
    fn fill(&self, at: u64, bytes: &[u8]) -> Result<()>;
    /// Has faults in pages brought here.
    fn watch(&self, at: u64, len: u64) -> Result<()>;
    /// Has them brought here no longer.
    fn unwatch(&self, at: u64, len: u64);
}

impl Area {
    /// Whole pages at `host`, which the program may read, and the device finds at `dev`.
    pub fn new(sort: Sort, host: u64, len: u64, dev: u64, context: u32) -> Self {
        let n = len.div_ceil(BLOCK) as usize;
        Self {
            sort,
            start: host,
            size: len,
            dev,
            host,
            len,
            pieces: std::iter::once(host..host + len).collect(),
            variables: false,
            context,
            born: 0,
            attach: Attach::Global,
            claim: Claim::of(Evidence::Sure),
            eager: false,
            patience: PATIENCE,
            rights: libc::PROT_READ | libc::PROT_WRITE,
            blocks: vec![State::Both; n],
            dirty: 0,
            shared: n,
            next: 0,
            batch: 1,
            edges: Vec::new(),
            opened: Vec::new(),
            images: Images::default(),
            plain: PLAIN,
        }
    }

    /// The first that says that kernels have its address. Of what they may not use at all most does
    /// not change.
    pub fn is_named(&mut self, e: Evidence) {
        self.claim = Claim::of(e);
        if self.claim.is_in_doubt() {
            self.compare_next();
        }
    }

    /// Registered memory: the whole pages inside it, and an edge at each end.
    pub fn registered(start: u64, size: u64, dev: u64, context: u32) -> Self {
        let end = start + size;
        let (host, to) = (start.next_multiple_of(PAGE), end & !(PAGE - 1));
        let (host, to) = if host < to { (host, to) } else { (end, end) };
        let mut a = Self::new(Sort::Registered, host, to - host, dev, context);
        (a.start, a.size) = (start, size);
        for (from, to) in [(start, host), (to, end)] {
            if from < to {
                let e = Edge::new(from, a.device_of(from), (to - from) as usize);
                a.edges.push(e);
            }
        }
        a
    }

    /// An area of which nothing is protected.
    pub fn open_wide(sort: Sort, start: u64, size: u64, dev: u64, context: u32) -> Self {
        let mut a = Self::new(sort, start + size, 0, dev, context);
        (a.start, a.size) = (start, size);
        let edge = |offset: u64| {
            let len = BLOCK.min(size - offset);
            Edge::new(start + offset, dev + offset, len as usize)
        };
        a.edges = (0..size).step_by(BLOCK as usize).map(edge).collect();
        a
    }

    /// Whether an address is of this area.
    pub fn covers(&self, p: u64) -> bool {
        p >= self.start && p - self.start < self.size
    }

    /// Whether the program or a device has this area at an address.
    pub fn is_at(&self, p: u64) -> bool {
        self.covers(p) || p >= self.dev && p - self.dev < self.size
    }

    /// Whether there are pages to protect.
    pub fn guarded(&self) -> bool {
        self.len > 0
    }

    /// Whether an address is in a protected page.
    pub fn guards(&self, p: u64) -> bool {
        p >= self.host && p - self.host < self.len
    }

    /// The device's address for one of the program's.
    pub fn device_of(&self, p: u64) -> u64 {
        p - self.start + self.dev
    }

    /// The block of an address.
    pub fn block_of(&self, p: u64) -> usize {
        ((p - self.host) / BLOCK) as usize
    }

    /// Whether the program must fetch a block.
    pub fn is_on_device(&self, block: usize) -> bool {
        self.blocks[block] == State::Device
    }

    /// Offset and length of some blocks.
    pub fn span(&self, first: usize, n: usize) -> (u64, u64) {
        let from = first as u64 * BLOCK;
        let to = ((first + n) as u64 * BLOCK).min(self.len);
        (from, to - from)
    }

    /// Offsets and lengths of what the device has of some blocks.
    pub fn pieces(&self, first: usize, n: usize) -> Vec<(u64, u64)> {
        let (offset, len) = self.span(first, n);
        let (from, to) = (self.host + offset, self.host + offset + len);
        let inside = self
            .pieces
            .iter()
            .map(|p| (p.start.max(from), p.end.min(to)));
        inside
            .filter(|(from, to)| from < to)
            .map(|(from, to)| (from - self.host, to - from))
            .collect()
    }

    /// Of this page, the device has the variables that it is told of.
    pub fn of_variables(&mut self) {
        self.variables = true;
        self.pieces.clear();
    }

    /// Whether it is such a page.
    pub fn has_variables(&self) -> bool {
        self.variables
    }

    /// A variable lies here, or part of it.
    pub fn add_variable(&mut self, from: u64, to: u64) {
        let piece = from.max(self.host)..to.min(self.host + self.len);
        self.pieces
            .retain(|p| p.end <= piece.start || p.start >= piece.end);
        self.pieces.push(piece);
    }

    /// What of the work that is under way the program waits for before it sees this.
    pub fn waits_for(&self, owed: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let all = owed.iter().copied();
        all.filter(|(_, s)| self.attach.waits_for(*s)).collect()
    }

    /// Whether work has something to do of it: to send it, to close it, to look for changes.
    pub fn is_lively(&self) -> bool {
        self.dirty > 0 || self.shared > 0 || self.has_edges()
    }

    /// Whether the program may have written in protected pages since the last push.
    pub fn has_news(&self) -> bool {
        self.dirty > 0
    }

    fn set(&mut self, pages: &impl Pages, first: usize, n: usize, to: State) -> Result<()> {
        let (offset, len) = self.span(first, n);
        let from = self.host + offset;
        pages.protect(from, len, to.rights() & self.rights)?;
        for page in &self.opened {
            if (from..from + len).contains(page) {
                pages.protect(*page, PAGE, self.rights)?;
            }
        }
        if to == State::Device {
            self.images.forget(first..first + n);
        }
        for b in &mut self.blocks[first..first + n] {
            self.dirty -= usize::from(*b == State::Host);
            self.shared -= usize::from(*b == State::Both);
            *b = to;
        }
        self.dirty += if to == State::Host { n } else { 0 };
        self.shared += if to == State::Both { n } else { 0 };
        Ok(())
    }

    /// The first run of blocks in a state, from one on, of at most `most`.
    fn run(&self, from: usize, state: State, most: usize) -> Option<(usize, usize)> {
        let first = from + self.blocks[from..].iter().position(|b| *b == state)?;
        let same = self.blocks[first..].iter().take_while(|b| **b == state);
        Some((first, same.take(most).count()))
    }

    /// The first run of blocks that the program would have to fetch.
    pub fn first_on_device(&self) -> Option<(usize, usize)> {
        self.run(0, State::Device, AHEAD_EAGER)
    }

    /// The program has written, or may have: nothing is protected yet.
    pub fn begin_on_host(&mut self, rights: i32) {
        self.rights = rights;
        self.blocks.fill(State::Host);
        (self.dirty, self.shared) = (self.blocks.len(), 0);
    }

    /// The device's bytes are the valid ones, and the pages are closed already.
    pub fn begin_on_device(&mut self) {
        self.blocks.fill(State::Device);
        (self.dirty, self.shared) = (0, 0);
    }

    /// Sends what the program has written in protected pages. They are closed to writes before they
    /// are read: what is written after that is news for the next time. Gives what the program has
    /// changed where it was let in beside work, and where that is to go.
    pub fn push(
        &mut self,
        pages: &impl Pages,
        mut send: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<Vec<Beside>> {
        let (mut at, mut beside) = (0, Vec::new());
        while let Some((first, n)) = self.run(at, State::Host, BULK_CHUNK / BLOCK as usize) {
            self.set(pages, first, n, State::Both)?;
            at = first + n;
            let mut block = first;
            while block < at {
                let whole = self.images.without(block, at);
                for (offset, len) in self.pieces(block, whole) {
                    let from = self.host + offset;
                    send(self.device_of(from), pages.bytes(from, len as usize))?;
                }
                block += whole;
                if let Some(image) = self.images.take(block) {
                    self.changes_of(pages, block, &image, &mut beside);
                    // The rest of what the program was let see may be old by now.
                    self.set(pages, block, 1, State::Device)?;
                    block += 1;
                }
            }
        }
        Ok(beside)
    }

    /// What the program has changed of a block since there was an image of it.
    fn changes_of(&self, pages: &impl Pages, block: usize, image: &[u8], to: &mut Vec<Beside>) {
        let first = self.span(block, 1).0;
        for (offset, len) in self.pieces(block, 1) {
            let from = self.host + offset;
            let old = &image[(offset - first) as usize..][..len as usize];
            let now = pages.bytes(from, len as usize);
            to.extend(together(changes(old, now)).into_iter().map(|mut runs| {
                // Whole words, which may be addresses.
                let (start, end) = ends(&runs);
                let (start, end) = (start & !7, end.next_multiple_of(8).min(now.len()));
                for r in &mut runs {
                    *r = r.start - start..r.end - start;
                }
                Beside {
                    dst: self.device_of(from + start as u64),
                    bytes: now[start..end].to_vec(),
                    runs,
                }
            }));
        }
    }

    /// The program was let in to blocks while work went on, which may write beside it.
    pub fn keep_images(&mut self, pages: &impl Pages, first: usize, n: usize) {
        for block in first..first + n {
            let (offset, len) = self.span(block, 1);
            let bytes = pages.bytes(self.host + offset, len as usize).to_vec();
            self.images.keep(block, bytes);
        }
    }

    /// Whether the program was let in somewhere while work went on.
    pub fn has_images(&self) -> bool {
        !self.images.is_empty()
    }

    /// Whether it was let in to all of these blocks.
    pub fn has_images_of(&self, first: usize, n: usize) -> bool {
        first + n <= self.blocks.len() && (first..first + n).all(|b| self.images.has(b))
    }

    /// What the program has changed where nothing is protected; both sides agree on it from now
    /// on. `note` hears of whole words, with the device's addresses.
    pub fn edge_news(&mut self, pages: &impl Pages, mut note: impl FnMut(u64, &[u8])) -> Vec<News> {
        let mut news = Vec::new();
        for e in &mut self.edges {
            // Nearly always: each launch looks here.
            if e.agreed.as_deref() == Some(pages.bytes(e.host, e.len)) {
                continue;
            }
            let now = e.stable(pages);
            let runs: Vec<_> = match &e.agreed {
                None => std::iter::once(0..e.len).collect(),
                Some(agreed) if e.stale => changes(agreed, &now).collect(),
                // The device has written nothing: one piece, however much of it has changed.
                Some(agreed) => changed(agreed, &now).into_iter().collect(),
            };
            for r in runs {
                let around = r.start.saturating_sub(7)..(r.end + 7).min(now.len());
                note(e.dev + around.start as u64, &now[around]);
                news.push(News {
                    at: e.host + r.start as u64,
                    dst: e.dev + r.start as u64,
                    bytes: now[r].to_vec(),
                    first: e.agreed.is_none(),
                });
            }
            e.agreed = Some(now);
        }
        news
    }

    /// The edge that has some of the program's bytes.
    fn edge(&mut self, at: u64, len: usize) -> Option<&mut Edge> {
        let behind = self.edges.partition_point(|e| e.host <= at);
        let e = self.edges.get_mut(behind.checked_sub(1)?)?;
        ((at - e.host) as usize + len <= e.len).then_some(e)
    }

    /// Some of the program's bytes were sent, under a number.
    pub fn went(&mut self, number: u64, at: u64, len: usize) {
        if let Some(e) = self.edge(at, len) {
            let from = (at - e.host) as usize;
            e.sent.note(number, from..from + len);
        }
    }

    /// The worker tells of changes of the edge at an address from now on; false when there is none.
    pub fn will_be_told(&mut self, number: u64, at: u64, len: usize, heard: Heard) -> bool {
        let Some(e) = self.edge(at, len) else {
            return false;
        };
        e.heard = heard;
        e.sent.note(number, 0..len);
        true
    }

    /// From now on the device's bytes are the valid ones.
    pub fn leave_to_device(&mut self, pages: &impl Pages) -> Result<()> {
        for e in &mut self.edges {
            e.stale = true;
        }
        let mut at = 0;
        while self.shared > 0
            && let Some((first, n)) = self.run(at, State::Both, usize::MAX)
        {
            self.set(pages, first, n, State::Device)?;
            at = first + n;
        }
        Ok(())
    }

    /// How many blocks to move for an access to one: more and more while accesses go upwards.
    pub fn ahead(&mut self, block: usize) -> usize {
        let most = if self.eager { AHEAD_EAGER } else { AHEAD };
        self.batch = if self.eager {
            most
        } else if block == self.next {
            (self.batch * 2).min(most)
        } else {
            1
        };
        let state = self.blocks[block];
        let n = self.run(block, state, self.batch).map_or(1, |(_, n)| n);
        self.next = block + n;
        n
    }

    /// Lets the program in to a block whose bytes it has.
    pub fn let_in(&mut self, pages: &impl Pages, block: usize, write: bool) -> Result<()> {
        match self.blocks[block] {
            State::Both if write => {
                if self.rights & libc::PROT_WRITE == 0 {
                    return Err(CUDA_ERROR_INVALID_VALUE);
                }
                let n = self.ahead(block);
                self.set(pages, block, n, State::Host)
            }
            // Another thread's fault was first.
            _ => Ok(()),
        }
    }

    /// Whether a fetch is to say what the program has, so that what has not changed does not come.
    /// What devices write all over is not worth that.
    pub fn compares(&mut self) -> bool {
        let compares = self.plain == 0;
        self.plain = self.plain.saturating_sub(1);
        compares
    }

    /// The next fetch says what the program has.
    pub fn compare_next(&mut self) {
        self.plain = 0;
    }

    /// So many bytes came of a piece of which the program had an older state.
    pub fn compared(&mut self, came: u64, len: u64) {
        if came > len / 2 {
            self.plain = PLAIN;
        }
    }

    /// Bytes of blocks have come from the device.
    pub fn arrived(&mut self, pages: &impl Pages, first: usize, n: usize) -> Result<()> {
        self.images.forget(first..first + n);
        self.set(pages, first, n, State::Both)
    }

    /// The page of an address, if it may be opened while work is under way.
    pub fn page_to_open(&self, p: u64) -> Option<u64> {
        let few = self.opened.len() < MOST_OPEN;
        (few && self.sort != Sort::Managed).then_some(p & !(PAGE - 1))
    }

    /// A page is open from now on; the device has these bytes there.
    pub fn open_page(&mut self, pages: &impl Pages, page: u64, bytes: &[u8]) -> Result<()> {
        pages.fill(page, bytes)?;
        pages.protect(page, PAGE, self.rights)?;
        let end = page + PAGE;
        let around = |r: &Range<u64>| [r.start..r.end.min(page), r.start.max(end)..r.end];
        let split = self.pieces.iter().flat_map(around);
        self.pieces = split.filter(|r| r.start < r.end).collect();
        let mut e = Edge::new(page, self.device_of(page), bytes.len());
        (e.agreed, e.stale) = (Some(bytes.to_vec()), true);
        let place = self.edges.partition_point(|e| e.host < page);
        self.edges.insert(place, e);
        self.opened.push(page);
        Ok(())
    }

    /// Lets the program in to a page that is open, which another thread may just have closed with
    /// those around it. Says whether it is one.
    pub fn reopen(&self, pages: &impl Pages, p: u64) -> bool {
        let page = p & !(PAGE - 1);
        self.opened.contains(&page) && pages.protect(page, PAGE, self.rights).is_ok()
    }

    /// Whether changes are looked for while work is under way: not in a long area that is not
    /// protected at all.
    pub fn is_watched(&self) -> bool {
        self.has_edges() && (self.guarded() || self.size <= SMALL)
    }

    /// Whether part of it, or all, is not protected.
    pub fn has_edges(&self) -> bool {
        !self.edges.is_empty()
    }

    /// How many bytes are not protected.
    pub fn open_bytes(&self) -> u64 {
        self.edges.iter().map(|e| e.len as u64).sum()
    }

    /// How many bytes the worker tells of unasked.
    pub fn told_bytes(&self) -> usize {
        let told = |e: &&Edge| e.heard == Heard::WithAnswers;
        self.edges.iter().filter(told).map(|e| e.len).sum()
    }

    /// How many bytes the device may have written where nothing is protected.
    pub fn stale_bytes(&self) -> usize {
        let stale = self.edges.iter().filter(|e| e.stale);
        stale.map(|e| e.len).sum()
    }

    /// Whether the worker must be asked for what the device has changed.
    pub fn must_ask(&self) -> bool {
        let asked = |e: &Edge| e.stale && e.heard != Heard::WithAnswers;
        self.edges.iter().any(asked)
    }

    /// The worker has told what the device has changed, when it had come so far in what was sent:
    /// what is to be written in the program.
    pub fn told(&mut self, heard: u64, change: &Change) -> Vec<Change> {
        let writable = self.rights & libc::PROT_WRITE != 0;
        let edge = self.edge(change.at, change.new.len());
        let mut changes = edge.map_or_else(Vec::new, |e| e.take(heard, change));
        changes.retain(|_| writable);
        changes
    }

    /// Nothing writes on the device any more, and what it wrote is here.
    pub fn edges_are_fresh(&mut self) {
        self.edges.iter_mut().for_each(|e| e.stale = false);
    }

    /// Gives the pages back to the program as they were.
    pub fn open(&mut self, pages: &impl Pages) {
        if self.len > 0 {
            let _ = pages.protect(self.host, self.len, self.rights);
        }
    }
}

#[cfg(test)]
pub mod tests;
