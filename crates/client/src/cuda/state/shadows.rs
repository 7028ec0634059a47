//! Memory that both the program and kernels touch: managed memory, and page-locked memory whose
//! address reaches a kernel.
//!
//! Such memory exists twice: pages in the program, and device memory at the server, at the same
//! address wherever that can be. Each block of pages is valid on the host (the program may have
//! written it), on the device (kernels may have), or on both, and its protection makes the
//! program's first access that disagrees a fault. Before device work is queued, blocks that the
//! program has written are pushed; from then on the device's bytes are the valid ones, and the
//! program's next access waits for that work and fetches.
//!
//! Lock order: the list of areas here comes before the session's own locks, and nothing that holds
//! it touches memory that may fault, or waits for what the worker has queued.

use super::area::{ANY, Area, Attach, Pages};
use super::ranges::Sort;
use super::space;
use crate::lock::lock;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::op;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The device's side of shadowed memory.
pub trait Far {
    /// Sends bytes for device memory, ahead of the queue.
    fn push(&self, context: u32, dst: u64, bytes: &[u8]) -> Result<()>;
    /// What is queued from now on finds what was pushed.
    fn fence(&self) -> Result<()>;
    /// Reads device memory, ahead of the queue.
    fn read(&self, context: u32, src: u64, to: &mut [u8]) -> Result<()>;
}

/// There is page-locked memory, whose address a parameter may hold.
const SCAN: u32 = 1;
/// There are shadowed areas.
const ACTIVE: u32 = 2;

/// What launches look at: plain words that are read without the lock.
#[derive(Debug)]
struct Glance {
    /// What launches have to look at: nothing, as long as it is 0.
    flags: AtomicU32,
    /// Registered memory lies between these addresses.
    registered_from: AtomicU64,
    registered_to: AtomicU64,
    /// Whether there has been memory of which changes are found at synchronizing calls alone.
    edges: AtomicBool,
    /// Whether a stream has ever been told to wait for what the program writes.
    streams_wait: AtomicBool,
}

/// Shadowed memory of a client.
#[derive(Debug)]
pub struct Shadows {
    glance: Glance,
    areas: Mutex<Areas>,
    /// One thread at a time makes memory known; its calls may wait for what is queued.
    exposing: Mutex<()>,
}

impl Default for Shadows {
    fn default() -> Self {
        Self {
            glance: Glance {
                flags: AtomicU32::new(0),
                registered_from: AtomicU64::new(u64::MAX),
                registered_to: AtomicU64::new(0),
                edges: AtomicBool::new(false),
                streams_wait: AtomicBool::new(false),
            },
            areas: Mutex::default(),
            exposing: Mutex::default(),
        }
    }
}

/// The areas, while they are locked.
#[derive(Debug, Default)]
pub struct Areas {
    /// By the host address at which the program sees them.
    areas: BTreeMap<u64, Area>,
    /// The latest work of each context and stream that nobody has been seen to wait for.
    pending: HashMap<(u32, u32), u64>,
    /// Work queued so far.
    count: u64,
    /// Granules of page-locked memory that have device memory at their address.
    granules: BTreeSet<u64>,
    bounce: Vec<u8>,
}

/// Whether a queued call may read or write shadowed memory on the device.
pub const fn is_work(o: u16) -> bool {
    matches!(
        o,
        op::CU_MEMSET_D8_ASYNC
            | op::CU_MEMSET_D16_ASYNC
            | op::CU_MEMSET_D32_ASYNC
            | op::CU_MEMSET_D2_D8_ASYNC
            | op::CU_MEMSET_D2_D16_ASYNC
            | op::CU_MEMSET_D2_D32_ASYNC
            | op::CU_MEMCPY_DTO_D_ASYNC_V2
            | op::CU_MEMCPY_PEER_ASYNC
            | op::CU_GRAPH_LAUNCH
            | op::COPY_ROWS_ON_DEVICE
            | op::COPY_IN_ROWS
    )
}

/// What becomes of a fault.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The access may be tried again.
    Retry,
    /// This work must be waited for first; then [`Areas::fault`] is asked again.
    Wait {
        /// Contexts and streams.
        owed: Vec<(u32, u32)>,
        /// The mark that the waiting is up to.
        mark: u64,
    },
    /// The memory is not ours, or its bytes cannot be had.
    Refuse,
}

impl Shadows {
    /// The areas, locked.
    pub fn areas(&self) -> MutexGuard<'_, Areas> {
        lock(&self.areas)
    }

    /// Keeps other threads from making memory known.
    pub fn exposing(&self) -> MutexGuard<'_, ()> {
        lock(&self.exposing)
    }

    /// Whether anything is shadowed.
    #[inline]
    pub fn active(&self) -> bool {
        self.glance.flags.load(Ordering::Relaxed) & ACTIVE != 0
    }

    /// Whether a launch has anything to do here: one load when it has not.
    #[inline]
    pub fn concerns_launches(&self) -> bool {
        self.glance.flags.load(Ordering::Relaxed) != 0
    }

    /// Page-locked memory has come into being: launches look for its address from now on.
    pub fn has_host_memory(&self, registered: Option<(u64, u64)>) {
        let g = &self.glance;
        if let Some((from, to)) = registered {
            g.registered_from.fetch_min(from, Ordering::AcqRel);
            g.registered_to.fetch_max(to, Ordering::AcqRel);
        }
        g.flags.fetch_or(SCAN, Ordering::AcqRel);
    }

    /// Whether there is page-locked memory, whose address a launch's parameters may hold.
    #[inline]
    pub fn is_host_memory_known(&self) -> bool {
        self.glance.flags.load(Ordering::Relaxed) & SCAN != 0
    }

    /// Whether page-locked memory may be at an address.
    #[inline]
    pub fn may_be_host_memory(&self, p: u64) -> bool {
        let g = &self.glance;
        let host = space::span(space::HOST);
        let from = g.registered_from.load(Ordering::Relaxed);
        let to = g.registered_to.load(Ordering::Relaxed);
        host.contains(&p) || (from..to).contains(&p)
    }

    /// A stream will wait for what the program writes: from now on the program must never wait for
    /// a stream before it can write.
    pub fn streams_will_wait(&self) {
        self.glance.streams_wait.store(true, Ordering::Release);
    }

    /// Whether a stream has ever been told to wait for what the program writes.
    #[inline]
    pub fn streams_wait(&self) -> bool {
        self.glance.streams_wait.load(Ordering::Acquire)
    }

    /// Whether something is to be done where the program hears that work is over: everywhere else
    /// its next access does it.
    #[inline]
    pub fn needs_to_hear(&self) -> bool {
        self.active() && (self.streams_wait() || self.glance.edges.load(Ordering::Acquire))
    }

    /// How much work there has been: what a call that waits notes before it does.
    #[inline]
    pub fn mark(&self) -> u64 {
        if self.active() { self.areas().count } else { 0 }
    }

    /// The device's address of `len` bytes that are shadowed.
    #[inline]
    pub fn device_side(&self, p: u64, len: usize) -> Option<u64> {
        if !self.active() {
            return None;
        }
        let mut all = self.areas();
        let a = all.at(p)?;
        ((p - a.start).saturating_add(len as u64) <= a.size).then(|| a.device_of(p))
    }

    /// Shadows an area.
    pub fn insert(&self, pages: &impl Pages, a: Area) -> Result<()> {
        let mut all = self.areas();
        self.insert_into(&mut all, pages, a)
    }

    fn insert_into(&self, all: &mut Areas, pages: &impl Pages, a: Area) -> Result<()> {
        if a.has_edges() {
            self.glance.edges.store(true, Ordering::Release);
        }
        if a.guarded() {
            pages.watch(a.host, a.len)?;
        }
        all.areas.insert(a.start, a);
        self.glance.flags.fetch_or(ACTIVE, Ordering::AcqRel);
        Ok(())
    }

    fn remove(&self, all: &mut Areas, pages: &impl Pages, start: u64) -> Option<Area> {
        let a = all.areas.remove(&start)?;
        if a.guarded() {
            pages.unwatch(a.host);
        }
        if all.areas.is_empty() {
            self.glance.flags.fetch_and(!ACTIVE, Ordering::AcqRel);
        }
        Some(a)
    }

    /// Shadows a managed variable that a module brought, at the address where the driver put it.
    /// `map` maps a closed page there.
    pub fn add_variable(
        &self,
        pages: &impl Pages,
        (at, size): (u64, u64),
        context: u32,
        map: impl Fn(u64, u64) -> Result<()>,
    ) -> Result<()> {
        const PAGE: u64 = 4096;
        /// More than a module's variables can have.
        const MOST: u64 = 4 << 30;
        if size > MOST {
            return Err(CUDA_ERROR_UNKNOWN);
        }
        let (from, to) = (at & !(PAGE - 1), (at + size.max(1)).next_multiple_of(PAGE));
        let mut all = self.areas();
        for page in (from..to).step_by(PAGE as usize) {
            // Variables share pages, and a module may come again.
            if let Some(a) = all.at(page) {
                if !a.has_variables() {
                    // The program's own memory does not become a variable's because the worker
                    // says so.
                    return Err(CUDA_ERROR_UNKNOWN);
                }
                a.context = context;
                a.add_variable(at, at + size);
                a.leave_to_device(pages);
                continue;
            }
            map(page, PAGE)?;
            let mut a = Area::new(Sort::Managed, page, PAGE, page, context);
            a.of_variables();
            a.add_variable(at, at + size);
            a.begin_on_device();
            self.insert_into(&mut all, pages, a)?;
        }
        Ok(())
    }

    /// Page-locked memory is about to be freed: its pages are the program's again.
    pub fn forget_host(&self, pages: &impl Pages, base: u64) {
        if let Some(mut a) = self.remove(&mut self.areas(), pages, base) {
            a.open(pages);
        }
    }

    /// A granule that no page-locked memory is in any more is about to go. Says whether it has
    /// device memory behind it.
    pub fn forget_granule(&self, granule: u64) -> bool {
        self.areas().granules.remove(&granule)
    }

    /// Managed memory is about to be freed.
    pub fn forget_managed(&self, pages: &impl Pages, base: u64) {
        self.remove(&mut self.areas(), pages, base);
    }

    /// Registered memory stays the program's: all of it comes home, once what is owed is waited
    /// for by `wait`. Gives the window it was seen in.
    pub fn forget_registered(
        &self,
        pages: &impl Pages,
        far: &impl Far,
        base: u64,
        wait: impl Fn(&[(u32, u32)], u64) -> Result<()>,
    ) -> Option<u64> {
        if !self.active() {
            return None;
        }
        loop {
            let mut all = self.areas();
            let owed = all.owed(all.areas.get(&base)?);
            let home = owed.is_empty();
            if home {
                while let Some((first, n)) = all.areas.get(&base).and_then(Area::first_on_device) {
                    if all.fetch(pages, far, base, first, n).is_err() {
                        break;
                    }
                }
                all.fetch_edges(pages, far);
            } else {
                let mark = all.count;
                drop(all);
                if wait(&owed, mark).is_ok() {
                    continue;
                }
                all = self.areas();
            }
            let mut a = self.remove(&mut all, pages, base)?;
            a.open(pages);
            return Some(a.device_of(base) & !4095);
        }
    }

    /// A context is gone, and with it the device's side of what was made in it.
    pub fn forget_context(&self, pages: &impl Pages, id: u32) {
        let mut all = self.areas();
        let of_it = all.areas.values().filter(|a| a.context == id);
        let gone: Vec<u64> = of_it.map(|a| a.start).collect();
        for start in gone {
            if let Some(mut a) = self.remove(&mut all, pages, start) {
                if a.sort == Sort::Host {
                    all.granules.remove(&(start & !(space::GRANULE - 1)));
                }
                if a.sort != Sort::Managed {
                    a.open(pages);
                }
            }
        }
        all.pending.retain(|(scope, _), _| *scope != id);
    }
}

impl Areas {
    /// The area that holds an address of the program's.
    pub fn at(&mut self, p: u64) -> Option<&mut Area> {
        let (_, a) = self.areas.range_mut(..=p).next_back()?;
        a.covers(p).then_some(a)
    }

    /// Runs `f` on each area that overlaps a range.
    pub fn each(&mut self, p: u64, len: u64, f: impl FnMut(&mut Area)) {
        let end = p.saturating_add(len);
        let hit = self.areas.values_mut();
        hit.filter(|a| a.start < end && a.start + a.size > p)
            .for_each(f);
    }

    /// A granule of page-locked memory has device memory at its address from now on.
    pub fn add_granule(&mut self, granule: u64) {
        self.granules.insert(granule);
    }

    /// Whether a granule of page-locked memory has device memory at its address.
    pub fn has_granule(&self, granule: u64) -> bool {
        self.granules.contains(&granule)
    }

    /// How many areas there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.areas.len()
    }

    /// Device work is about to be queued on `stream`: what the program has written goes ahead of
    /// it. The work may write, unless it only `reads`.
    pub fn work(
        &mut self,
        pages: &impl Pages,
        far: &impl Far,
        (context, stream): (u32, u32),
        reads: bool,
    ) -> Result<()> {
        self.push(pages, far, stream, !reads)?;
        if !reads {
            self.count += 1;
            self.pending.insert((context, stream), self.count);
        }
        Ok(())
    }

    /// Sends what the program has written of the areas that `stream` may use; what is queued from
    /// now on finds it. Where the device `writes`, its bytes are the valid ones from now on.
    pub fn push(
        &mut self,
        pages: &impl Pages,
        far: &impl Far,
        stream: u32,
        writes: bool,
    ) -> Result<()> {
        let (mut any, mut done) = (false, Ok(()));
        for a in self.areas.values_mut().filter(|a| a.reached_by(stream)) {
            if a.has_news() {
                let context = a.context;
                done = done.and(a.push(pages, |dst, bytes| {
                    any = true;
                    far.push(context, dst, bytes)
                }));
            }
            if writes {
                a.leave_to_device(pages);
            }
        }
        if any {
            done = done.and(far.fence());
        }
        done
    }

    /// Fetches blocks of the area that starts at `start`.
    fn fetch(
        &mut self,
        pages: &impl Pages,
        far: &impl Far,
        start: u64,
        first: usize,
        n: usize,
    ) -> Result<()> {
        let a = self.areas.get_mut(&start);
        let a = a.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        for (offset, len) in a.pieces(first, n) {
            let at = a.host + offset;
            self.bounce.resize(len as usize, 0);
            far.read(a.context, a.device_of(at), &mut self.bounce)?;
            pages.fill(at, &self.bounce)?;
        }
        a.arrived(pages, first, n)
    }

    /// Brings the bytes home that pages cannot guard.
    pub fn fetch_edges(&mut self, pages: &impl Pages, far: &impl Far) {
        let stale: Vec<_> = self.areas.values().flat_map(Area::stale_edges).collect();
        for (start, i, context, src, len) in stale {
            self.bounce.resize(len, 0);
            let got = far.read(context, src, &mut self.bounce);
            if let (Ok(()), Some(a)) = (got, self.areas.get_mut(&start)) {
                a.edge_arrived(pages, i, &self.bounce);
            }
        }
    }

    /// What the program must wait for before it sees an area.
    fn owed(&self, a: &Area) -> Vec<(u32, u32)> {
        let of_it = |(_, stream): &&(u32, u32)| match a.attach {
            Attach::Single(s) => *stream == s || *stream == ANY,
            _ => true,
        };
        self.pending.keys().filter(of_it).copied().collect()
    }

    /// Work up to the count `upto` is over, of a context or of one of its streams.
    pub fn over(&mut self, scope: u32, stream: Option<u32>, upto: u64) {
        self.pending.retain(|(c, s), n| {
            *c != scope || *n > upto || stream.is_some_and(|stream| stream != *s)
        });
    }

    /// An access to `p` that the protection forbids. `write` says what it was, where the processor
    /// tells. With `now`, nothing is waited for: a function that runs in stream order must not wait
    /// for itself.
    pub fn fault(
        &mut self,
        pages: &impl Pages,
        far: &impl Far,
        p: u64,
        write: Option<bool>,
        now: bool,
    ) -> Outcome {
        let retry = |r: Result<()>| match r {
            Ok(()) => Outcome::Retry,
            Err(_) => Outcome::Refuse,
        };
        let Some(a) = self.at(p).filter(|a| a.guards(p)) else {
            return Outcome::Refuse;
        };
        let (start, block) = (a.start, a.block_of(p));
        if !a.is_on_device(block) {
            return retry(a.let_in(pages, block, write.unwrap_or(true)));
        }
        let n = a.ahead(block);
        let owed = self
            .areas
            .get(&start)
            .map_or_else(Vec::new, |a| self.owed(a));
        if !owed.is_empty() && !now {
            let mark = self.count;
            return Outcome::Wait { owed, mark };
        }
        let fetched = self.fetch(pages, far, start, block, n);
        match self.areas.get_mut(&start) {
            Some(a) if fetched.is_ok() && write == Some(true) => {
                retry(a.let_in(pages, block, true))
            }
            _ => retry(fetched),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::area::ram::Ram;
    use super::*;
    use std::cell::RefCell;

    const AT: u64 = 0x10_0000;
    const LEN: u64 = 128 << 10;

    #[derive(Default)]
    struct Wire(RefCell<Vec<String>>);

    impl Far for Wire {
        fn push(&self, context: u32, dst: u64, bytes: &[u8]) -> Result<()> {
            let said = format!("push {context} {dst:#x} {} {}", bytes.len(), bytes[0]);
            self.0.borrow_mut().push(said);
            Ok(())
        }
        fn fence(&self) -> Result<()> {
            self.0.borrow_mut().push("fence".into());
            Ok(())
        }
        fn read(&self, context: u32, src: u64, to: &mut [u8]) -> Result<()> {
            to.fill(9);
            let said = format!("read {context} {src:#x} {}", to.len());
            self.0.borrow_mut().push(said);
            Ok(())
        }
    }

    fn said(w: &Wire) -> Vec<String> {
        std::mem::take(&mut w.0.borrow_mut())
    }

    fn managed() -> (Ram, Wire, Shadows) {
        let (ram, wire, s) = (
            Ram::new(AT, LEN as usize),
            Wire::default(),
            Shadows::default(),
        );
        s.insert(&ram, Area::new(Sort::Managed, AT, LEN, AT, 3))
            .unwrap();
        (ram, wire, s)
    }

    #[test]
    fn what_the_program_writes_goes_ahead_of_work_and_comes_back_after_it() {
        let (ram, wire, s) = managed();
        assert!(s.active());
        let fault = |now| s.areas().fault(&ram, &wire, AT + 5, Some(true), now);
        assert_eq!(fault(false), Outcome::Retry);
        ram.write(AT, &[7]);
        s.areas().work(&ram, &wire, (3, 1), false).unwrap();
        assert_eq!(
            said(&wire),
            [format!("push 3 {AT:#x} 131072 7"), "fence".into()]
        );
        let (owed, mark) = (vec![(3, 1)], 1);
        assert_eq!(fault(false), Outcome::Wait { owed, mark });
        s.areas().over(3, Some(2), mark);
        assert_ne!(fault(false), Outcome::Retry, "another stream");
        s.areas().over(3, Some(1), mark);
        assert_eq!(fault(false), Outcome::Retry);
        assert_eq!(said(&wire), [format!("read 3 {AT:#x} 65536")]);
        assert_eq!(ram.get(AT), 9);
        // Written, so that it is pushed again.
        s.areas().work(&ram, &wire, (3, 1), true).unwrap();
        assert_eq!(said(&wire).len(), 2);
    }

    #[test]
    fn a_function_in_stream_order_does_not_wait_for_itself() {
        let (ram, wire, s) = managed();
        s.areas().work(&ram, &wire, (3, 1), false).unwrap();
        let got = s.areas().fault(&ram, &wire, AT, Some(false), true);
        assert_eq!(got, Outcome::Retry);
        assert_eq!(said(&wire), [format!("read 3 {AT:#x} 131072")]);
    }

    #[test]
    fn memory_of_one_stream_owes_nothing_to_another() {
        let (ram, wire, s) = managed();
        s.areas().each(AT, 1, |a| a.attach = Attach::Single(5));
        s.areas().work(&ram, &wire, (3, 4), false).unwrap();
        let fault = || s.areas().fault(&ram, &wire, AT, Some(false), false);
        assert_eq!(fault(), Outcome::Retry, "it is the program's still");
        s.areas().work(&ram, &wire, (3, 5), false).unwrap();
        let (owed, mark) = (vec![(3, 5)], 2);
        assert_eq!(fault(), Outcome::Wait { owed, mark });
    }

    #[test]
    fn nothing_is_left_of_a_context_that_is_gone() {
        let (ram, wire, s) = managed();
        s.areas().work(&ram, &wire, (3, 1), false).unwrap();
        s.forget_context(&ram, 4);
        assert!(s.active());
        s.forget_context(&ram, 3);
        assert!(!s.active() && s.areas().len() == 0 && s.areas().pending.is_empty());
        assert_eq!(
            s.areas().fault(&ram, &wire, AT, None, false),
            Outcome::Refuse
        );
    }

    #[test]
    fn registered_memory_comes_home_before_it_is_forgotten() {
        let (ram, wire, s) = (
            Ram::new(AT, LEN as usize),
            Wire::default(),
            Shadows::default(),
        );
        let mut a = Area::registered(AT + 8, LEN - 16, 0x9_0008, 2);
        a.begin_on_host(libc::PROT_READ | libc::PROT_WRITE);
        s.insert(&ram, a).unwrap();
        s.areas().work(&ram, &wire, (2, 0), false).unwrap();
        said(&wire);
        let waited = RefCell::new(Vec::new());
        let wait = |owed: &[(u32, u32)], mark| {
            waited.borrow_mut().extend_from_slice(owed);
            s.areas().over(2, None, mark);
            Ok(())
        };
        let window = s.forget_registered(&ram, &wire, AT + 8, wait);
        assert_eq!(
            (window, &waited.borrow()[..]),
            (Some(0x9_0000), &[(2, 0)][..])
        );
        let reads = said(&wire);
        assert!(reads.len() >= 3 && reads.iter().all(|r| r.starts_with("read 2 ")));
        assert_eq!(
            [AT + 8, AT + 5000, AT + LEN - 9].map(|p| ram.get(p)),
            [9; 3]
        );
        assert_eq!([AT + 7, AT + LEN - 8].map(|p| ram.get(p)), [0; 2]);
        assert!(!s.active());
    }
}
