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

mod atomics;
mod beside;
mod doubts;
mod far;
mod faults;
mod late;
mod mistakes;
mod pending;
mod sends;
mod suspects;
use doubts::Doubts;
pub use doubts::Touch;
pub use far::Far;
pub use faults::{Outcome, Waits};
use late::Late;
use pending::Pending;
pub use suspects::{MOST_SCANNED, Suspects, words};

use super::area::{Area, Change, Pages, longest_first};
use super::prelude::*;
use super::ranges::Sort;
use super::space;
use busbar_wire::generated::cuda as msg;
use busbar_wire::record::Heard;
use std::thread::ThreadId;
use std::time::Instant;

/// The most areas of which something is not protected, without those that cannot be.
const MOST_OPEN: usize = 64;
/// The most bytes of small areas that are not protected.
const MOST_OPEN_BYTES: u64 = 64 << 10;
/// The most bytes that the worker compares ahead of every answer.
const MOST_TOLD: usize = 64 << 10;
/// The most bytes of changes that wait: the thread that watches looks after them all the time.
const MOST_WAITING: usize = 256 << 20;
const PAGE: usize = 4096;

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
    /// Somebody watches what is not protected, and is woken when there is work.
    watched: AtomicBool,
    woken: Arc<Condvar>,
    /// Woken when something is to be closed before long.
    late: Arc<Condvar>,
    closed: AtomicBool,
    inbox: Inbox,
}

impl Default for Shadows {
    fn default() -> Self {
        let woken = Arc::<Condvar>::default();
        let inbox = Inbox::default();
        let areas = Areas {
            woken: woken.clone(),
            inbox: inbox.clone(),
            ..Areas::default()
        };
        Self {
            glance: Glance {
                flags: AtomicU32::new(0),
                registered_from: AtomicU64::new(u64::MAX),
                registered_to: AtomicU64::new(0),
                edges: AtomicBool::new(false),
                streams_wait: AtomicBool::new(false),
            },
            late: areas.late.woken.clone(),
            areas: Mutex::new(areas),
            exposing: Mutex::default(),
            watched: AtomicBool::new(false),
            woken,
            closed: AtomicBool::new(false),
            inbox,
        }
    }
}

/// What the worker has told and nobody has taken. Locked after the areas, by who needs both: who
/// hears that work is over takes what was told, and never the thread that receives it.
type Inbox = Arc<Mutex<Came>>;

#[derive(Debug, Default)]
struct Came {
    bytes: usize,
    told: Vec<(u64, Vec<Change>)>,
}

/// The areas, while they are locked.
#[derive(Debug, Default)]
pub struct Areas {
    /// By the host address at which the program sees them.
    areas: BTreeMap<u64, Area>,
    /// Those of which the next work has to do something: there may be many more.
    lively: BTreeSet<u64>,
    /// Work that nobody has been seen to wait for.
    pending: Pending,
    /// Work queued so far.
    count: u64,
    /// Which work may write memory that is in doubt.
    doubts: Doubts,
    /// What the program sees beside work that lasts.
    late: Late,
    /// Words that were sent and may be addresses of page-locked memory.
    found: Vec<u64>,
    /// Areas with edges that are watched.
    open: usize,
    /// The number of what was sent last of those that [`Far::push`] and [`Far::open`] send.
    sent: u64,
    /// Bytes that the worker compares ahead of every answer.
    told: usize,
    inbox: Inbox,
    woken: Arc<Condvar>,
    bounce: Vec<u8>,
}

/// How soon the program hears of changes of an edge, when so many bytes are told already.
fn soon(told: usize, len: usize, watched: bool) -> Heard {
    match watched {
        true if told + len <= MOST_TOLD => Heard::WithAnswers,
        true => Heard::Watched,
        false => Heard::AtWaits,
    }
}

/// What the worker has of page-locked memory that kernels see no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// The context that the driver knows it in.
    pub context: u32,
    /// Where kernels found it.
    pub start: u64,
    /// All work that may have used it is over.
    pub over: bool,
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
        self.suspects().have(p)
    }

    /// Where page-locked memory may be now.
    #[inline]
    pub fn suspects(&self) -> Suspects {
        let g = &self.glance;
        let host = space::span(space::HOST);
        let from = g.registered_from.load(Ordering::Relaxed);
        let to = g.registered_to.load(Ordering::Relaxed);
        Suspects {
            host: (host.start, host.end - host.start),
            registered: (from.min(to), to.saturating_sub(from)),
        }
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
        let all = self.areas();
        let (_, a) = all.areas.range(..=p).next_back()?;
        let a = a.covers(p).then_some(a)?;
        ((p - a.start).saturating_add(len as u64) <= a.size).then(|| a.device_of(p))
    }

    /// Shadows an area.
    pub fn insert(&self, pages: &impl Pages, a: Area) -> Result<()> {
        let mut all = self.areas();
        self.insert_into(&mut all, pages, a)
    }

    fn insert_into(&self, all: &mut Areas, pages: &impl Pages, mut a: Area) -> Result<()> {
        a.born = all.count;
        if a.guarded() {
            pages.watch(a.host, a.len)?;
        }
        if a.has_edges() {
            self.note_edges();
        }
        all.open += usize::from(a.is_watched());
        all.lively.insert(a.start);
        all.doubts.begins(&a);
        all.areas.insert(a.start, a);
        self.glance.flags.fetch_or(ACTIVE, Ordering::AcqRel);
        Ok(())
    }

    fn remove(&self, all: &mut Areas, pages: &impl Pages, start: u64) -> Option<Area> {
        let a = all.areas.remove(&start)?;
        all.lively.remove(&start);
        all.open -= usize::from(a.is_watched());
        all.told -= a.told_bytes();
        all.doubts.gone(start);
        if a.guarded() {
            pages.unwatch(a.host, a.len);
        }
        if all.areas.is_empty() {
            self.glance.flags.fetch_and(!ACTIVE, Ordering::AcqRel);
        }
        Some(a)
    }

    /// Whether there is room for one more area of which nothing is protected: work looks at all of
    /// them, and while it is under way they are asked for.
    pub fn has_room_for_small(&self, size: u64) -> bool {
        let all = self.areas();
        let watched = all.lively.iter().filter_map(|start| all.areas.get(start));
        let watched = watched.filter(|a| a.is_watched()).map(Area::open_bytes);
        all.open < MOST_OPEN && watched.sum::<u64>() + size <= MOST_OPEN_BYTES
    }

    /// Part of some area is not protected: where the program hears that work is over, changes are
    /// looked for.
    pub fn note_edges(&self) {
        self.glance.edges.store(true, Ordering::Release);
    }

    /// The worker tells what devices have changed. Called on the receiving thread.
    pub fn told(&self, m: &msg::MemoryTold<'_>) -> Result<(), String> {
        let mut came = lock(&self.inbox);
        let (mut rest, mut changes) = (m.bytes, Vec::new());
        for (at, len) in m.at.iter().zip(&m.lens) {
            let (new, behind) = rest.split_at_checked(*len as usize).unwrap_or_default();
            changes.extend((!new.is_empty()).then(|| Change {
                at: *at,
                new: new.to_vec(),
            }));
            (rest, came.bytes) = (behind, came.bytes + size_of::<Change>() + new.len());
        }
        came.told.push((m.heard, changes));
        match came.bytes {
            0..MOST_WAITING => Ok(()),
            n => Err(format!("the server tells of {n} bytes that have changed")),
        }
    }

    /// The caller watches what is not protected, from now on; unless somebody does already.
    pub fn begin_watch(&self) -> bool {
        !self.watched.swap(true, Ordering::AcqRel)
    }

    /// Waits until there is work that may be under way, and memory that is not protected.
    pub fn due(&self) -> MutexGuard<'_, Areas> {
        let mut all = self.areas();
        while all.open == 0 || all.pending.is_empty() {
            all = wait(&self.woken, all);
        }
        all
    }

    /// The caller closes what the program sees beside work that lasts, from now on; unless somebody
    /// does already.
    pub fn begin_to_close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    /// Waits until such memory is to be closed.
    pub fn late(&self) -> MutexGuard<'_, Areas> {
        let mut all = self.areas();
        loop {
            let Some(closes) = all.late.closes else {
                all = wait(&self.late, all);
                continue;
            };
            let left = closes.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return all;
            }
            drop(all);
            std::thread::sleep(left);
            all = self.areas();
        }
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
        refuse_if(size > MOST, CUDA_ERROR_UNKNOWN)?;
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
                a.leave_to_device(pages)?;
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

    /// Whether no work is under way that may use shadowed memory, as far as is known.
    pub fn is_over(&self) -> bool {
        !self.streams_wait() && self.areas().pending.is_empty()
    }

    /// The address of an area has come to where work finds it that is under way already.
    pub fn reaches_running_work(&self, p: u64) {
        if let Some(a) = self.areas().at(p) {
            a.born = 0;
        }
    }

    /// Page-locked memory is about to be freed: its pages are the program's again. What the worker
    /// has of it, if kernels saw it.
    pub fn forget_host(&self, pages: &impl Pages, base: u64) -> Option<Left> {
        let mut all = self.areas();
        let mut a = self.remove(&mut all, pages, base)?;
        a.open(pages);
        Some(self.left(&all, &a))
    }

    fn left(&self, all: &Areas, a: &Area) -> Left {
        Left {
            context: a.context,
            start: a.device_of(a.start),
            over: !self.streams_wait() && all.owed(a.born).is_empty(),
        }
    }

    /// Managed memory is about to be freed.
    pub fn forget_managed(&self, pages: &impl Pages, base: u64) {
        self.remove(&mut self.areas(), pages, base);
    }

    /// The same of registered memory, which stays the program's: all of it comes home, once what is
    /// owed is waited for by `wait`.
    pub fn forget_registered(
        &self,
        pages: &impl Pages,
        far: &impl Far,
        base: u64,
        wait: impl Fn(&[(u32, u32)], u64) -> Result<()>,
    ) -> Option<Left> {
        if !self.active() {
            return None;
        }
        loop {
            let mut all = self.areas();
            let a = all.areas.get(&base)?;
            let owed = all.owed(a.born);
            let home = owed.is_empty();
            if home {
                let _ = all.bring_home(pages, far, base);
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
            return Some(self.left(&all, &a));
        }
    }

    /// A context is gone, and with it the device's side of what was made in it.
    pub fn forget_context(&self, pages: &impl Pages, id: u32) {
        let mut all = self.areas();
        let in_it = all.areas.values().filter(|a| a.context == id);
        let gone: Vec<u64> = in_it.map(|a| a.start).collect();
        for start in gone {
            let removed = self.remove(&mut all, pages, start);
            if let Some(mut a) = removed.filter(|a| a.sort != Sort::Managed) {
                a.open(pages);
            }
        }
        let in_it = |(context, _): (u32, u32), _| context == id;
        all.pending.over(in_it);
        all.late.over(in_it);
        all.doubts.over(in_it);
    }
}

impl Areas {
    /// The area that holds an address of the program's.
    pub fn at(&mut self, p: u64) -> Option<&mut Area> {
        let (start, a) = self.areas.range_mut(..=p).next_back()?;
        a.covers(p).then(|| {
            self.lively.insert(*start);
            a
        })
    }

    /// Runs `f` on each area of which work has something to do.
    fn each_lively(&mut self, mut f: impl FnMut(&mut Area)) {
        for start in &self.lively {
            if let Some(a) = self.areas.get_mut(start) {
                f(a);
            }
        }
    }

    /// Runs `f` on each area that overlaps a range.
    pub fn each(&mut self, p: u64, len: u64, mut f: impl FnMut(&mut Area)) {
        let end = p.saturating_add(len);
        let hit = self.areas.values_mut();
        let hit = hit.filter(|a| a.start < end && a.start + a.size > p);
        for a in hit {
            self.lively.insert(a.start);
            f(a);
        }
    }

    /// Words that were sent since the last time and may be addresses of page-locked memory.
    pub fn take_found(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.found)
    }

    /// Device work is about to be queued on a context's stream: what the program has written goes
    /// ahead of it.
    pub fn work(
        &mut self,
        pages: &impl Pages,
        far: &impl Far,
        work: (u32, u32),
        touch: Touch<'_>,
    ) -> Result<()> {
        let writes = !matches!(touch, Touch::Nothing);
        if writes {
            self.count += 1;
            self.doubts.work(&self.areas, touch, work, self.count);
        }
        self.push(pages, far, writes)?;
        if writes {
            if self.open > 0 && self.pending.is_empty() {
                self.woken.notify_one();
            }
            self.pending.note(work, self.count);
        }
        Ok(())
    }

    /// A thread sends such work until it says that it has [`Areas::sent`] it.
    pub fn sends(&mut self, who: ThreadId, work: (u32, u32)) {
        self.pending.sends(who, work);
    }

    /// Work that was noted has been sent.
    pub fn sent(&mut self, who: ThreadId, work: (u32, u32)) {
        self.count += 1;
        if self.pending.sent(who, work, self.count) {
            self.doubts.sent(work, self.count);
        }
    }

    /// The worker was asked to tell of an edge of an area, if it has become one.
    fn opened(&mut self, start: u64, at: u64, len: usize, heard: Heard) {
        self.sent += 1;
        let area = self.areas.get_mut(&start);
        if area.is_some_and(|a| a.will_be_told(self.sent, at, len, heard))
            && heard == Heard::WithAnswers
        {
            self.told += len;
        }
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
        self.bring(pages, far, start, (first, n), false)?;
        let a = self.areas.get_mut(&start);
        a.ok_or(CUDA_ERROR_INVALID_VALUE)?.arrived(pages, first, n)
    }

    /// Fills such blocks, which stay closed. Where they are `filled` already, only what has changed
    /// since comes: how many bytes that is, as far as is known.
    fn bring(
        &mut self,
        pages: &impl Pages,
        far: &impl Far,
        start: u64,
        (first, n): (usize, usize),
        filled: bool,
    ) -> Result<u64> {
        let a = self.areas.get_mut(&start);
        let a = a.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        self.lively.insert(start);
        let mut changed = 0;
        for (offset, len) in a.pieces(first, n) {
            let at = a.host + offset;
            self.bounce.resize(len as usize, 0);
            let older = (filled || a.compares()) && pages.peek(at, &mut self.bounce);
            let came = far.read(a.context, a.device_of(at), &mut self.bounce, older)?;
            match older {
                true if filled => changed += came,
                true => a.compared(came, len),
                false => {}
            }
            if came > 0 {
                pages.fill(at, &self.bounce)?;
            }
        }
        Ok(changed)
    }

    /// All of an area comes to the program.
    fn bring_home(&mut self, pages: &impl Pages, far: &impl Far, base: u64) -> Result<()> {
        let mut done = Ok(());
        while let Some((first, n)) = self.areas.get(&base).and_then(Area::first_on_device) {
            done = self.fetch(pages, far, base, first, n);
            if done.is_err() {
                break;
            }
        }
        self.hear(pages, far);
        done
    }

    /// The areas that are watched and that the device may have changed: where each begins, and how
    /// many of its bytes that are.
    pub fn looks(&self) -> Vec<(u64, usize)> {
        let watched = self.lively().filter(|a| a.is_watched());
        let looks = watched.map(|a| (a.start, a.stale_bytes()));
        looks.filter(|(_, bytes)| *bytes > 0).collect()
    }

    fn lively(&self) -> impl Iterator<Item = &Area> {
        let lively = self.lively.iter();
        lively.filter_map(|start| self.areas.get(start))
    }

    /// What the worker has told is written; long pieces first, as they are sent. Says whether there
    /// was anything.
    pub fn arrive(&mut self, pages: &impl Pages) -> bool {
        let came = std::mem::take(&mut *lock(&self.inbox));
        let mut any = false;
        for (heard, told) in came.told {
            let mut changes = Vec::new();
            for c in &told {
                if let Some((_, a)) = self.areas.range_mut(..=c.at).next_back() {
                    changes.extend(a.told(heard, c));
                }
            }
            any |= !changes.is_empty();
            longest_first(&mut changes, |c| (c.at, c.new.len()));
            changes.iter().for_each(|c| pages.merge(c));
        }
        any
    }

    /// The program hears that work is over: what devices have changed where pages do not guard it
    /// is written. What the worker tells unasked has come already.
    pub fn hear(&mut self, pages: &impl Pages, far: &impl Far) {
        // What a function of the program's was let see ahead of work may be old by now.
        if self.lively().any(Area::has_images)
            && let Err(e) = self.push(pages, far, true)
        {
            crate::log!(
                Warn,
                "cannot send what a host function has written: error {e}"
            );
        }
        let mut more = self.lively().any(Area::must_ask);
        while more {
            let Ok(left) = far.look(true) else {
                return;
            };
            more = left;
            self.arrive(pages);
        }
        self.arrive(pages);
        // Other streams may go on writing.
        if self.pending.is_empty() {
            self.each_lively(Area::edges_are_fresh);
        }
    }

    /// What of the work since a count the program must wait for before it sees memory.
    fn owed(&self, since: u64) -> Vec<(u32, u32)> {
        self.pending.since(since)
    }

    /// A thread has seen that work up to the count `upto` is over, of a context or of one of its
    /// streams.
    pub fn over(&mut self, who: ThreadId, scope: u32, stream: Option<u32>, upto: u64) {
        let unsent = self.pending.unsent(who);
        let over = |work: (u32, u32), n| {
            let (c, s) = work;
            let it = c == scope && stream.is_none_or(|stream| stream == s);
            it && n <= upto && !unsent.contains(&work)
        };
        self.pending.over(over);
        self.late.over(over);
        self.doubts.over(over);
    }

    /// Whether part of some area is not protected.
    pub fn has_open(&self) -> bool {
        self.open > 0
    }
}

#[cfg(test)]
mod tests;
