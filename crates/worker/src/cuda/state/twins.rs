//! Memory of the worker's own that stands for page-locked memory of a program elsewhere, at the
//! address at which the program has it, or where kernels were told that it is.
//!
//! The driver has registered it, so that kernels and copies use it in place. What goes to it and
//! comes from it goes past the driver, whose calls may wait for one another.
//!
//! Of pieces that are open to the program here is also what the program has, as far as is known:
//! its client is told where devices have written something else. That compares bytes where they
//! are, and only what has changed travels.

use super::image::{Image, View};
use super::prelude::*;
use busbar_wire::changes::{Parts, changes};
use busbar_wire::generated::cuda as msg;
use busbar_wire::limits::BULK_CHUNK;
use busbar_wire::record::Heard;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

#[derive(Debug, Clone, Copy)]
struct Twin {
    view: View,
    /// The context in which the driver registered it; none of what the driver made and mapped.
    context: Option<u32>,
}

/// Pages that show at the program's own address what lies elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    /// Where they are.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// Where the twin is that they are of.
    pub of: u64,
    /// The context in which the driver registered that.
    pub context: u32,
}

/// A piece that is open to the program.
#[derive(Debug)]
struct Open {
    /// The program's address of its first byte.
    host: u64,
    /// What the program has, or is about to hear of.
    known: Vec<u8>,
}

impl Open {
    /// What it takes here.
    fn weight(&self) -> u64 {
        Self::weight_of(self.known.len() as u64)
    }

    fn weight_of(len: u64) -> u64 {
        len + size_of::<Self>() as u64
    }
}

/// Where a piece is, those of which the client hears soonest first.
type Place = (Heard, u64);

/// What devices have changed: where in a piece, and in the program.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    piece: Place,
    offset: usize,
    host: u64,
    new: Vec<u8>,
}

impl Change {
    /// What it takes, here and at the client.
    fn weight(&self) -> usize {
        size_of::<Self>() + self.new.len()
    }
}

/// A client has pieces open that weigh as many times as much as all that is mapped, at most: they
/// may lie over each other, and each is memory here.
const MOST_OFTEN: u64 = 4;
/// Bytes that differ so often in a row are taken as they are.
const PATIENCE: u32 = 4;
/// The client hears of about so much at once.
const MOST_AT_ONCE: usize = 16 * BULK_CHUNK;

#[derive(Debug, Default)]
struct State {
    all: BTreeMap<u64, Twin>,
    patches: BTreeMap<u64, (Patch, View)>,
    open: BTreeMap<Place, Open>,
    /// What all of either weigh.
    mapped: u64,
    opened: u64,
    /// What has come of the client's bytes, and of its words that something is open.
    heard: u64,
    /// The piece that the next look goes on with.
    next: Option<Place>,
}

/// What there is, by address. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Twins {
    state: Arc<Mutex<State>>,
    image: Image,
}

impl State {
    /// The client hears no more of what begins in some bytes.
    fn close(&mut self, at: u64, len: u64) {
        let inside = |p: &u64| *p >= at && p - at < len;
        self.open.retain(|(_, p), _| !inside(p));
        self.opened = self.open.values().map(Open::weight).sum();
    }

    /// Whether all of some addresses lie in one piece, which stays while this is locked.
    fn holds(&self, at: u64, len: u64) -> bool {
        let twin = self.all.range(..=at).next_back();
        twin.is_some_and(|(va, t)| {
            let offset = at - va;
            offset < t.view.len && len <= t.view.len - offset
        })
    }

    /// Writes bytes that are all in one piece.
    fn write(&mut self, at: u64, bytes: &[u8]) {
        words(at, bytes.len(), |p, offset, n| {
            let from = &bytes[offset..offset + n];
            let mut word = [0; 8];
            word[..n].copy_from_slice(from);
            let word = u64::from_le_bytes(word);
            // SAFETY: as in `load`.
            unsafe {
                match n {
                    8 => AtomicU64::from_ptr(p as _).store(word, Ordering::Release),
                    4 => AtomicU32::from_ptr(p as _).store(word as u32, Ordering::Release),
                    2 => AtomicU16::from_ptr(p as _).store(word as u16, Ordering::Release),
                    _ => AtomicU8::from_ptr(p as _).store(word as u8, Ordering::Release),
                }
            }
        });
        let end = at + bytes.len() as u64;
        for heard in Heard::ALL {
            for ((_, start), o) in self.open.range_mut((heard, 0)..(heard, end)).rev() {
                let (from, to) = (at.max(*start), end.min(start + o.known.len() as u64));
                if from >= to {
                    break;
                }
                let new = &bytes[(from - at) as usize..(to - at) as usize];
                o.known[(from - start) as usize..(to - start) as usize].copy_from_slice(new);
            }
        }
    }

    /// What is lacking, between two of the program's addresses, of what lies elsewhere.
    fn lacking(&self, from: u64, to: u64) -> Vec<Patch> {
        let lies_there = |v: &View| v.origin < to && from < v.origin + v.len;
        let mut elsewhere = self
            .all
            .iter()
            .filter(|(at, t)| **at != t.view.origin && lies_there(&t.view))
            .peekable();
        if elsewhere.peek().is_none() {
            return vec![];
        }
        let there = self.all.values().map(|t| t.view);
        let there = there.chain(self.patches.values().map(|(_, v)| *v));
        let mut there: Vec<_> = there
            .filter(|v| v.at == v.origin && lies_there(v))
            .map(|v| v.at..v.at + v.len)
            .collect();
        let mut lacking = Vec::new();
        for (of, Twin { view, context }) in elsewhere {
            let Some(context) = *context else {
                continue;
            };
            let asked = from.max(view.origin)..to.min(view.origin + view.len);
            let mut gaps: Vec<_> = std::iter::once(asked).collect();
            for r in &there {
                let around =
                    |g: Range<u64>| [g.start..g.end.min(r.start), g.start.max(r.end)..g.end];
                gaps = gaps.into_iter().flat_map(around).collect();
                gaps.retain(|g| g.start < g.end);
            }
            there.extend(gaps.iter().cloned());
            lacking.extend(gaps.into_iter().map(|g| Patch {
                at: g.start,
                len: g.end - g.start,
                of: *of,
                context,
            }));
        }
        lacking
    }

    fn load(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        words(at, len, |p, offset, n| {
            // SAFETY: an aligned word of mapped memory, which devices and nobody else use at the
            // same time.
            let word = unsafe {
                match n {
                    8 => AtomicU64::from_ptr(p as _).load(Ordering::Acquire),
                    4 => AtomicU32::from_ptr(p as _).load(Ordering::Acquire).into(),
                    2 => AtomicU16::from_ptr(p as _).load(Ordering::Acquire).into(),
                    _ => AtomicU8::from_ptr(p as _).load(Ordering::Acquire).into(),
                }
            };
            bytes[offset..offset + n].copy_from_slice(&word.to_le_bytes()[..n]);
        });
        bytes
    }

    /// Changes from a piece on, and the piece to go on with if there are too many for once.
    fn changes(&self, heard: Heard, from: Option<Place>) -> (Vec<Change>, Option<Place>) {
        let (mut all, mut weight) = (Vec::new(), 0);
        let from = from.unwrap_or((Heard::WithAnswers, 0));
        for (place, o) in self.open.range(from..=(heard, u64::MAX)) {
            if weight > MOST_AT_ONCE {
                return (all, Some(*place));
            }
            let now = self.load(place.1, o.known.len());
            let found = changes(&o.known, &now).map(|r| Change {
                piece: *place,
                offset: r.start,
                host: o.host + r.start as u64,
                new: now[r].to_vec(),
            });
            let before = all.len();
            all.extend(found);
            weight += all[before..].iter().map(Change::weight).sum::<usize>();
        }
        (all, None)
    }
}

impl Twins {
    /// Twins that show the program's memory as this image has it.
    pub fn of(image: Image) -> Self {
        let state = Arc::default();
        Self { state, image }
    }

    /// Maps `size` bytes, where nothing is yet, for what the program has at `origin`.
    pub fn map(&self, va: u64, size: u64, origin: u64, context: u32) -> io::Result<()> {
        let view = self.image.show(Some(va), origin, size)?;
        let mut s = lock(&self.state);
        s.mapped += view.len;
        let context = Some(context);
        s.all.insert(va, Twin { view, context });
        Ok(())
    }

    /// Takes memory that the driver has mapped, at the program's own address: it stands for the
    /// program's in the same way, but no other view shows it.
    pub fn adopt(&self, va: u64, len: u64) {
        let (at, origin) = (va, va);
        let view = View { at, origin, len };
        let mut s = lock(&self.state);
        let context = None;
        if s.all.insert(va, Twin { view, context }).is_none() {
            s.mapped += len;
        }
    }

    /// The length of what was mapped at an address.
    pub fn size(&self, va: u64) -> Option<u64> {
        lock(&self.state).all.get(&va).map(|t| t.view.len)
    }

    /// Unmaps what was mapped at an address, which the driver knows no longer; its length.
    pub fn unmap(&self, va: u64) -> Option<u64> {
        let mut s = lock(&self.state);
        let Twin { view, context } = s.all.remove(&va)?;
        s.close(va, view.len);
        s.mapped -= view.len;
        if context.is_some() {
            // SAFETY: mapped by `map`; whoever uses it has the lock.
            unsafe { self.image.hide(view) };
        }
        Some(view.len)
    }

    /// The pages of the program's, from and to, that a twin stands for.
    pub fn pages(&self, va: u64) -> Option<(u64, u64)> {
        let s = lock(&self.state);
        let view = s.all.get(&va).map(|t| t.view)?;
        Some((view.origin, view.origin + view.len))
    }

    /// Which pages between two of the program's addresses are shown elsewhere alone.
    pub fn lacking(&self, from: u64, to: u64) -> Vec<Patch> {
        lock(&self.state).lacking(from, to)
    }

    /// Shows such pages at the program's own address as well, if nothing is there.
    pub fn patch(&self, p: Patch) -> io::Result<()> {
        let view = self.image.show(Some(p.at), p.at, p.len)?;
        lock(&self.state).patches.insert(p.at, (p, view));
        Ok(())
    }

    /// The addresses at which a twin's pages are shown as well.
    pub fn patches(&self, of: u64) -> Vec<u64> {
        let s = lock(&self.state);
        let all = s.patches.values().filter(|(p, _)| p.of == of);
        all.map(|(p, _)| p.at).collect()
    }

    /// Pages, of which the driver knows no longer, are not shown there any more.
    pub fn unpatch(&self, at: u64) {
        let patch = lock(&self.state).patches.remove(&at);
        if let Some((_, view)) = patch {
            // SAFETY: mapped by `patch`; no device uses them any more.
            unsafe { self.image.hide(view) };
        }
    }

    /// What was registered in a context.
    pub fn of_context(&self, context: u32) -> Vec<u64> {
        let s = lock(&self.state);
        let of_it = s.all.iter().filter(|(_, t)| t.context == Some(context));
        of_it.map(|(va, _)| *va).collect()
    }

    /// Whether an address is of one.
    pub fn has(&self, at: u64) -> bool {
        lock(&self.state).holds(at, 1)
    }

    /// Writes the program's bytes, each aligned word of them at once, in the order of their
    /// addresses. False when they are not all in one piece.
    pub fn write(&self, at: u64, bytes: &[u8]) -> bool {
        let s = self.heard(at, bytes.len());
        s.map(|mut s| s.write(at, bytes)).is_some()
    }

    /// The same of runs of bytes that lie among others.
    pub fn write_parts(&self, at: u64, parts: &Parts<'_>) -> bool {
        let Some(mut s) = self.heard(at, parts.len) else {
            return false;
        };
        let mut rest = parts.bytes;
        for run in &parts.runs {
            let (own, behind) = rest.split_at(run.len());
            s.write(at + run.start as u64, own);
            rest = behind;
        }
        true
    }

    /// Counts bytes that have come, for one piece that they all lie in.
    fn heard(&self, at: u64, len: usize) -> Option<MutexGuard<'_, State>> {
        let mut s = lock(&self.state);
        s.heard += 1;
        s.holds(at, len as u64).then_some(s)
    }

    /// Reads bytes likewise; none when they are not all in one piece.
    pub fn read(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        let s = lock(&self.state);
        s.holds(at, len).then(|| s.load(at, len as usize))
    }

    /// As [`Twins::read`]; from now on the client is told of changes, with the program's addresses.
    pub fn open(&self, at: u64, len: u64, host: u64, heard: Heard) -> Option<Vec<u8>> {
        let mut s = lock(&self.state);
        s.heard += 1;
        if len > BULK_CHUNK as u64 || !s.holds(at, len) {
            return None;
        }
        let before = s.open.get(&(heard, at)).map_or(0, Open::weight);
        let opened = s.opened - before + Open::weight_of(len);
        if opened > s.mapped.saturating_mul(MOST_OFTEN) {
            return None;
        }
        s.opened = opened;
        let known = s.load(at, len as usize);
        let now = known.clone();
        s.open.insert((heard, at), Open { host, known });
        Some(now)
    }

    /// The client is told of changes of what begins in some bytes no longer.
    pub fn close(&self, at: u64, len: u64) {
        lock(&self.state).close(at, len);
    }

    /// Has `put` tell the client, in the order in which it is found, what devices have changed of
    /// what it hears of so soon. Whether there is more, which the client must ask for.
    pub fn tell(&self, heard: Heard, mut put: impl FnMut(&msg::MemoryTold<'_>)) -> bool {
        let mut s = lock(&self.state);
        let from = match heard {
            Heard::AtWaits => s.next.take(),
            _ => None,
        };
        // Kernels may be writing: who sees a word that was written last must see what was written
        // before it, and read here before.
        let (mut news, mut next) = s.changes(heard, from);
        for _ in 0..PATIENCE {
            if news.is_empty() {
                return false;
            }
            let last = std::mem::take(&mut news);
            (news, next) = s.changes(heard, from);
            if news == last {
                break;
            }
        }
        if heard == Heard::AtWaits {
            s.next = next;
        }
        let mut bytes = 0;
        let together = |_: &Change, next: &Change| {
            bytes += next.weight();
            let fits = bytes <= BULK_CHUNK;
            bytes = if fits { bytes } else { 0 };
            fits
        };
        for some in news.chunk_by(together) {
            let new: Vec<_> = some.iter().map(|c| &c.new[..]).collect();
            put(&msg::MemoryTold {
                heard: s.heard,
                at: some.iter().map(|c| c.host).collect(),
                lens: new.iter().map(|n| n.len() as u32).collect(),
                bytes: &new.concat(),
            });
        }
        for c in news {
            if let Some(o) = s.open.get_mut(&c.piece) {
                o.known[c.offset..c.offset + c.new.len()].copy_from_slice(&c.new);
            }
        }
        next.is_some()
    }
}

/// Calls `f` with the address, the offset and the length of each aligned word.
fn words(at: u64, len: usize, mut f: impl FnMut(u64, usize, usize)) {
    let mut offset = 0;
    while offset < len {
        let p = at + offset as u64;
        let aligned = 1 << p.trailing_zeros().min(3);
        let left = len - offset;
        let n = if left >= aligned {
            aligned
        } else {
            1 << left.ilog2()
        };
        f(p, offset, n);
        offset += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_wire::generated::cuda::contract;

    const VA: u64 = contract::span(contract::WINDOW).start + (7 << 30);

    #[test]
    fn words_are_aligned_and_cover_all() {
        for (at, len, wanted) in [
            (0, 17, vec![(0, 8), (8, 8), (16, 1)]),
            (5, 12, vec![(0, 1), (1, 2), (3, 8), (11, 1)]),
            (4, 4, vec![(0, 4)]),
            (2, 7, vec![(0, 2), (2, 4), (6, 1)]),
            (6, 0, vec![]),
        ] {
            let mut got = Vec::new();
            words(at, len, |p, offset, n| {
                assert_eq!((p, p % n as u64), (at + offset as u64, 0));
                got.push((offset, n));
            });
            assert_eq!(got, wanted);
        }
    }

    #[test]
    fn bytes_go_in_and_come_out_where_there_is_memory_and_nowhere_else() {
        let twins = Twins::default();
        twins.map(VA, 8192, 0x1000, 3).unwrap();
        let again = twins.map(VA + 4096, 4096, 0x9000, 3);
        assert!(again.is_err(), "there is something");
        assert!(twins.write(VA + 4090, &[1, 2, 3, 4, 5, 6, 7, 8, 9]));
        let read = twins.read(VA + 4089, 11).unwrap();
        assert_eq!(read, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
        for (at, len) in [
            (VA - 1, 2),
            (VA + 8191, 2),
            (VA + 8192, 0),
            (VA, u64::MAX),
            (0, 1),
        ] {
            assert!(twins.read(at, len).is_none(), "{at:#x} {len}");
        }
        assert_eq!(
            (twins.of_context(3), twins.of_context(4)),
            (vec![VA], vec![])
        );
        assert_eq!((twins.size(VA), twins.unmap(VA)), (Some(8192), Some(8192)));
        assert!(!twins.write(VA, &[1]) && twins.unmap(VA).is_none());
    }

    #[test]
    fn what_lies_elsewhere_is_lacking_where_nothing_else_shows_it() {
        const P: u64 = 4096;
        let twins = Twins::default();
        // Where this process has nothing.
        let own = VA + (1 << 30);
        let at = |n: u64| own + n * P;
        twins.map(at(0), 3 * P, at(0), 1).unwrap();
        // Its neighbour shares a page with it, and another one a page with that.
        twins.map(VA, 3 * P, at(2), 2).unwrap();
        twins.map(VA + 8 * P, 2 * P, at(4), 3).unwrap();
        let lacking = |from, to| {
            let all = twins.lacking(at(from), at(to));
            let pages = |p: &Patch| ((p.at - own) / P, p.len / P, p.of - VA, p.context);
            all.iter().map(pages).collect::<Vec<_>>()
        };
        let (second, third) = ((3, 2, 0, 2), (5, 1, 8 * P, 3));
        assert_eq!(lacking(0, 9), [second, third], "each page once");
        assert_eq!(lacking(2, 4), [(3, 1, 0, 2)], "of what is asked for");
        assert_eq!((lacking(0, 3), lacking(6, 9)), (vec![], vec![]));
        for p in twins.lacking(own, at(9)) {
            twins.patch(p).unwrap();
        }
        assert_eq!(lacking(0, 9), []);
        assert!(twins.write(VA + P, &[5]));
        // SAFETY: mapped by the patch.
        unsafe { assert_eq!(AtomicU8::from_ptr(at(3) as _).load(Ordering::Acquire), 5) };
        // Who stood there goes, and what its neighbours lack then is theirs.
        twins.unmap(at(0)).unwrap();
        assert_eq!(lacking(0, 9), [(2, 1, 0, 2)]);
        assert_eq!(twins.patches(VA), [at(3)]);
        twins.unpatch(at(3));
        twins.unmap(VA).unwrap();
        assert_eq!(lacking(0, 9), [(4, 1, 8 * P, 3)]);
        assert_eq!(twins.pages(VA + 8 * P), Some((at(4), at(6))));
    }

    type Told = (u64, Vec<(u64, Vec<u8>)>);

    /// What the client hears: how far the worker had come in what it sent, and the program's
    /// addresses with their bytes.
    fn told(t: &Twins, heard: Heard) -> Vec<Told> {
        let mut all = Vec::new();
        t.tell(heard, |m| {
            let mut rest = m.bytes;
            let pieces = m.at.iter().zip(&m.lens).map(|(at, len)| {
                let (new, behind) = rest.split_at(*len as usize);
                rest = behind;
                (*at, new.to_vec())
            });
            all.push((m.heard, pieces.collect()));
        });
        all
    }

    /// Writes as a device does.
    fn device(at: u64, byte: u8) {
        // SAFETY: memory that the test has mapped.
        unsafe { AtomicU8::from_ptr(at as _) }.store(byte, Ordering::Release);
    }

    #[test]
    fn the_client_hears_once_of_what_devices_change_and_never_of_its_own() {
        const HOST: u64 = 0x5000;
        let (twins, va) = (Twins::default(), VA + (1 << 30));
        twins.map(va, 8192, HOST, 3).unwrap();
        assert!(twins.write(va, &[1, 2, 3]));
        let open = twins.open(va, 64, HOST, Heard::WithAnswers).unwrap();
        assert_eq!(open[..4], [1, 2, 3, 0]);
        assert_eq!(told(&twins, Heard::AtWaits), []);
        device(va + 1, 9);
        device(va + 63, 8);
        device(va + 64, 7);
        let news = vec![(HOST + 1, vec![9]), (HOST + 63, vec![8])];
        assert_eq!(told(&twins, Heard::WithAnswers), [(2, news)]);
        assert_eq!(told(&twins, Heard::AtWaits), []);
        // The client's own bytes, some of them beyond what is open; a device changes one again.
        assert!(twins.write(va + 62, &[4; 4]));
        device(va + 62, 5);
        let news = vec![(HOST + 62, vec![5])];
        assert_eq!(told(&twins, Heard::WithAnswers), [(3, news)]);
        // Of what is closed it hears nothing, until that is opened again.
        twins.close(va, 63);
        device(va + 62, 6);
        assert_eq!(told(&twins, Heard::WithAnswers), []);
        twins.open(va, 64, HOST, Heard::WithAnswers).unwrap();
        device(va + 62, 5);
        let news = vec![(HOST + 62, vec![5])];
        assert_eq!(told(&twins, Heard::WithAnswers), [(4, news)]);
        // What it changes back the client hears of, too.
        device(va + 62, 4);
        let news = vec![(HOST + 62, vec![4])];
        assert_eq!(told(&twins, Heard::WithAnswers), [(4, news)]);
        device(va, 77);
        assert_eq!(twins.unmap(va), Some(8192));
        assert_eq!(told(&twins, Heard::AtWaits), [], "it is gone");
    }

    #[test]
    fn pieces_over_each_other_do_not_take_memory_without_end() {
        const LEN: u64 = 64 << 10;
        let (twins, va) = (Twins::default(), VA + (4 << 30));
        twins.map(va, LEN, 0x5000, 3).unwrap();
        let open = |at, len| {
            twins
                .open(va + at, len, 0x5000 + at, Heard::Watched)
                .is_some()
        };
        let opened = (0..1000).filter(|i| open(*i, LEN / 2)).count() as u64;
        assert!((1..=2 * MOST_OFTEN).contains(&opened), "{opened}");
        // Again the same one takes nothing, and what is gone makes room.
        assert!(open(0, LEN / 2) && !open(2000, LEN / 2));
        assert_eq!(twins.unmap(va), Some(LEN));
        twins.map(va, LEN, 0x5000, 3).unwrap();
        assert!(open(2000, LEN / 2));
    }

    #[test]
    fn what_is_heard_of_later_is_not_told_sooner() {
        let (twins, va) = (Twins::default(), VA + (2 << 30));
        twins.map(va, 4096, 0x5000, 3).unwrap();
        for (i, heard) in Heard::ALL.into_iter().enumerate() {
            let at = va + 64 * i as u64;
            twins.open(at, 64, 0x5000 + 64 * i as u64, heard).unwrap();
            device(at, 1);
        }
        let mut told = |heard| told(&twins, heard).into_iter().flat_map(|t| t.1).count();
        assert_eq!(Heard::ALL.map(&mut told), [1, 1, 1]);
        for (at, len) in [(va, u64::MAX), (va + 4095, 2), (0, 1)] {
            assert!(twins.open(at, len, 0, Heard::Watched).is_none());
        }
    }

    #[test]
    fn what_is_too_much_for_once_is_told_in_parts() {
        const LEN: u64 = 64 << 10;
        let (twins, va, n) = (Twins::default(), VA + (3 << 30), 600);
        twins.map(va, LEN * n, 0x10_0000, 3).unwrap();
        for i in 0..n {
            let at = va + LEN * i;
            twins
                .open(at, LEN, 0x10_0000 + LEN * i, Heard::AtWaits)
                .unwrap();
            // SAFETY: memory that the test has mapped.
            unsafe { std::ptr::write_bytes(at as *mut u8, 1, LEN as usize) };
        }
        let (mut bytes, mut calls) = (0, 0);
        loop {
            let mut most = 0;
            let more = twins.tell(Heard::AtWaits, |m| {
                most = most.max(m.bytes.len());
                bytes += m.bytes.len() as u64;
            });
            assert!(most <= 2 * BULK_CHUNK, "{most} bytes in a message");
            calls += 1;
            if !more {
                break;
            }
        }
        assert_eq!((bytes, calls), (LEN * n, 3));
        assert_eq!(told(&twins, Heard::AtWaits), []);
    }
}
