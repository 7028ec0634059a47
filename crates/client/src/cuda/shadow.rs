//! Memory that both the program and kernels touch: managed memory, and page-locked memory whose
//! address reaches a kernel.
//!
//! Such memory exists twice: pages in the program, and device memory at the server, at the same
//! address wherever that can be. Each block of pages is valid on the host (the program may have
//! written it), on the device (kernels may have), or on both, and its protection makes the
//! program's first access that disagrees a fault, which [`super::fault`] brings here. Before
//! device work is queued, blocks that the program has written are pushed; from then on the
//! device's bytes are the valid ones, and the program's next access waits for that work and
//! fetches.
//!
//! Bytes go and come ahead of the queue: the worker may be in the middle of a call that waits for a
//! function of the program's, and that function may be what faults.
//!
//! Lock order: the list of areas here comes before the session's own locks, and nothing that holds
//! it touches memory that may fault, or waits for what the worker has queued.

use super::memory::{self, Sort};
use super::runtime::{Cx, enter_local};
use super::shadow_area::Area;
use super::{fault, shared, space, stream};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, op};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What launches have to look at: nothing, as long as it is 0.
static FLAGS: AtomicU32 = AtomicU32::new(0);
/// There is page-locked memory, whose address a parameter may hold.
const SCAN: u32 = 1;
/// There are shadowed areas.
const ACTIVE: u32 = 2;

/// Registered memory lies between these addresses.
static REGISTERED_FROM: AtomicU64 = AtomicU64::new(u64::MAX);
static REGISTERED_TO: AtomicU64 = AtomicU64::new(0);

/// Whether there has been memory of which changes are found at synchronizing calls alone.
static EDGES: AtomicBool = AtomicBool::new(false);

/// Whether a stream has ever been told to wait for what the program writes.
static STREAMS_WAIT: AtomicBool = AtomicBool::new(false);

/// Work on a stream that the caller does not know.
pub const ANY: u32 = u32::MAX;

/// Who may use managed memory, as `cuStreamAttachMemAsync` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attach {
    /// Any stream.
    Global,
    /// The program only.
    Host,
    /// One stream.
    Single(u32),
}

#[derive(Default)]
struct Shadows {
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

static SHADOWS: Mutex<Option<Shadows>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Shadows>> {
    SHADOWS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether anything is shadowed.
#[inline]
pub fn active() -> bool {
    FLAGS.load(Ordering::Relaxed) & ACTIVE != 0
}

/// Whether a launch has anything to do here: one load when it has not.
#[inline]
pub fn concerns_launches() -> bool {
    FLAGS.load(Ordering::Relaxed) != 0
}

/// Page-locked memory has come into being: launches look for its address from now on.
pub fn has_host_memory(registered: Option<(u64, u64)>) {
    if let Some((from, to)) = registered {
        REGISTERED_FROM.fetch_min(from, Ordering::AcqRel);
        REGISTERED_TO.fetch_max(to, Ordering::AcqRel);
    }
    FLAGS.fetch_or(SCAN, Ordering::AcqRel);
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

impl Shadows {
    /// The area that holds an address of the program's.
    fn at(&mut self, p: u64) -> Option<&mut Area> {
        let (_, a) = self.areas.range_mut(..=p).next_back()?;
        a.covers(p).then_some(a)
    }

    fn insert(&mut self, a: Area) -> Result<(), CUresult> {
        if a.has_edges() {
            EDGES.store(true, Ordering::Release);
        }
        if a.guarded() {
            fault::watch(a.host, a.len)?;
        }
        self.areas.insert(a.start, a);
        FLAGS.fetch_or(ACTIVE, Ordering::AcqRel);
        Ok(())
    }

    fn remove(&mut self, start: u64) -> Option<Area> {
        let a = self.areas.remove(&start)?;
        if a.guarded() {
            fault::unwatch(a.host);
        }
        if self.areas.is_empty() {
            FLAGS.fetch_and(!ACTIVE, Ordering::AcqRel);
        }
        Some(a)
    }

    /// Sends what the program has written of the areas that `stream` may use; what is queued from
    /// now on finds it. Where the device `writes`, its bytes are the valid ones from now on.
    fn push(&mut self, cx: Cx, stream: u32, writes: bool) -> Result<(), CUresult> {
        let (mut any, mut done) = (false, Ok(()));
        for a in self.areas.values_mut().filter(|a| a.reached_by(stream)) {
            if a.has_news() {
                let context = a.context;
                done = done.and(a.push(|dst, bytes| {
                    any = true;
                    let sent = cx.rt.session.memory_in(context, dst, bytes);
                    let sent = sent.and_then(|()| cx.queued_one());
                    sent.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)
                }));
            }
            if writes {
                a.leave_to_device();
            }
        }
        if any {
            done = done.and(cx.send(&msg::MemoryFence {}));
        }
        done
    }

    /// Reads device memory.
    fn read(&mut self, cx: Cx, src: u64, len: usize) -> Result<(), CUresult> {
        self.bounce.resize(len, 0);
        let answer = cx.rt.session.memory_out(cx.scope, src, &mut self.bounce);
        // Not `Cx::call`: an error that the program has not heard of yet stays its own to hear.
        match answer {
            Ok(a) if a.status == CUDA_SUCCESS => Ok(()),
            Ok(a) => Err(a.status),
            Err(_) => Err(CUDA_ERROR_DEVICE_UNAVAILABLE),
        }
    }

    /// Fetches blocks of the area that starts at `start`.
    fn fetch(&mut self, cx: Cx, start: u64, first: usize, n: usize) -> Result<(), CUresult> {
        let Some(a) = self.areas.get(&start) else {
            return Err(CUDA_ERROR_INVALID_VALUE);
        };
        let (pieces, scope) = (a.pieces(first, n), a.context);
        for (offset, len) in pieces {
            let Some(src) = self.areas.get(&start).map(|a| a.device_of(a.host + offset)) else {
                return Err(CUDA_ERROR_INVALID_VALUE);
            };
            self.read(Cx { scope, ..cx }, src, len as usize)?;
            if let Some(a) = self.areas.get(&start) {
                a.fill(offset, &self.bounce[..len as usize])?;
            }
        }
        let a = self.areas.get_mut(&start);
        a.ok_or(CUDA_ERROR_INVALID_VALUE)?.arrived(first, n)
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
    fn over(&mut self, scope: u32, stream: Option<u32>, upto: u64) {
        self.pending.retain(|(c, s), n| {
            *c != scope || *n > upto || stream.is_some_and(|stream| stream != *s)
        });
    }

    /// Brings the bytes home that pages cannot guard.
    fn fetch_edges(&mut self, cx: Cx) {
        let edges: Vec<(u64, usize, u32, u64, usize)> =
            self.areas.values().flat_map(|a| a.stale_edges()).collect();
        for (start, i, scope, src, len) in edges {
            let got = self.read(Cx { scope, ..cx }, src, len);
            if let (Ok(()), Some(a)) = (got, self.areas.get_mut(&start)) {
                a.edge_arrived(i, &self.bounce);
            }
        }
    }
}

/// Device work is about to be queued on `stream`: what the program has written goes ahead of it.
/// The work may write, unless it only `reads`.
#[cold]
pub fn work(cx: Cx, stream: u32, reads: bool) -> Result<(), CUresult> {
    let mut all = lock();
    let s = all.get_or_insert_default();
    s.push(cx, stream, !reads)?;
    if !reads {
        s.count += 1;
        s.pending.insert((cx.scope, stream), s.count);
    }
    Ok(())
}

/// How much work there has been: what a call that waits notes before it does.
#[inline]
pub fn mark() -> u64 {
    if active() {
        lock().as_ref().map_or(0, |s| s.count)
    } else {
        0
    }
}

/// A call has waited for a context (`stream` is `None`) or a stream, for all up to the mark.
#[inline]
pub fn waited(cx: Cx, scope: u32, stream: Option<u32>, mark: u64) {
    if active()
        && let Some(s) = lock().as_mut()
    {
        s.over(scope, stream, mark);
        s.fetch_edges(cx);
        // What the program has looked at meanwhile, it must look at again.
        if STREAMS_WAIT.load(Ordering::Acquire)
            && let Err(e) = s.push(cx, ANY, true)
        {
            crate::log!(Warn, "cannot send what the program has written: error {e}");
        }
    }
}

/// A stream will wait for what the program writes: from now on the program must never wait for a
/// stream before it can write.
pub fn streams_wait() {
    STREAMS_WAIT.store(true, Ordering::Release);
}

/// Whether something is to be done where the program hears that work is over: everywhere else its
/// next access does it.
#[inline]
pub fn needs_to_hear() -> bool {
    active() && (STREAMS_WAIT.load(Ordering::Acquire) || EDGES.load(Ordering::Acquire))
}

/// The program is about to wait for streams, which may wait for what it has written.
#[inline]
pub fn about_to_wait(cx: Cx) -> Result<(), CUresult> {
    if STREAMS_WAIT.load(Ordering::Relaxed) && active() {
        return prefetch_to_device(cx);
    }
    Ok(())
}

/// What becomes of a fault.
pub enum Outcome {
    /// The access may be tried again.
    Retry,
    /// This work must be waited for first; then [`fault`] is asked again.
    Wait {
        /// Contexts and streams.
        owed: Vec<(u32, u32)>,
        /// The mark that the waiting is up to.
        mark: u64,
    },
    /// The memory is not ours, or its bytes cannot be had.
    Refuse,
}

/// An access to `p` that the protection forbids. `write` says what it was, where the processor
/// tells. With `now`, nothing is waited for: a function that runs in stream order must not wait
/// for itself.
pub fn fault(p: u64, write: Option<bool>, now: bool) -> Outcome {
    let Ok(cx) = enter_local() else {
        return Outcome::Refuse;
    };
    let mut all = lock();
    let s = all.get_or_insert_default();
    let mark = s.count;
    let Some(a) = s.at(p).filter(|a| a.guards(p)) else {
        return Outcome::Refuse;
    };
    let (start, block) = (a.start, a.block_of(p));
    if !a.is_on_device(block) {
        return match a.let_in(block, write.unwrap_or(true)) {
            Ok(()) => Outcome::Retry,
            Err(_) => Outcome::Refuse,
        };
    }
    let n = a.ahead(block);
    let owed = s.areas.get(&start).map_or_else(Vec::new, |a| s.owed(a));
    // A capture must not be waited for; what it holds has not run.
    let now = now || STREAMS_WAIT.load(Ordering::Acquire);
    if !owed.is_empty() && !now && !stream::capturing() {
        return Outcome::Wait { owed, mark };
    }
    if let Err(e) = s.fetch(cx, start, block, n) {
        crate::log!(
            Error,
            "cannot fetch the memory at {p:#x} from the server: error {e}"
        );
        return Outcome::Refuse;
    }
    match s.areas.get_mut(&start) {
        Some(a) if write == Some(true) => match a.let_in(block, true) {
            Ok(()) => Outcome::Retry,
            Err(_) => Outcome::Refuse,
        },
        Some(_) => Outcome::Retry,
        None => Outcome::Refuse,
    }
}

/// Waits for work, outside the lock.
pub fn wait_for(owed: &[(u32, u32)], mark: u64) -> Result<(), CUresult> {
    let cx = enter_local()?;
    let mut scopes = BTreeSet::new();
    for (scope, stream) in owed {
        scopes.insert((*scope, if owed.len() == 1 { *stream } else { ANY }));
    }
    for (scope, stream) in scopes {
        let context = scope;
        let all = || {
            let m = msg::ContextSynchronize { context };
            cx.rt.session.call(scope, &m, None)
        };
        let answer = if stream == ANY || stream == 0 {
            all()
        } else {
            let m = msg::CuStreamSynchronize { h_stream: stream };
            match cx.rt.session.call(scope, &m, None) {
                // Another thread has destroyed the stream, whose work goes on.
                Ok(a) if a.status == CUDA_ERROR_INVALID_HANDLE => all(),
                answer => answer,
            }
        };
        match answer {
            Ok(a) if a.status == CUDA_SUCCESS => {}
            Ok(a) => return Err(a.status),
            Err(_) => return Err(CUDA_ERROR_DEVICE_UNAVAILABLE),
        }
        if let Some(s) = lock().as_mut() {
            let stream = Some(stream).filter(|s| *s != ANY && *s != 0);
            s.over(scope, stream, mark);
        }
    }
    Ok(())
}

/// A function of the program's that ran in stream order has returned: what it wrote goes to the
/// device before the work behind it, which was queued long ago and is the next to write. The worker
/// does that before it heeds the word that the function has returned, so nobody waits here.
pub fn function_ran(cx: Cx) {
    if active()
        && let Some(s) = lock().as_mut()
        && let Err(e) = s.push(cx, ANY, true)
    {
        crate::log!(Warn, "cannot send what a host function wrote: error {e}");
    }
}

/// Shadows new managed memory, whose pages the program may read already.
pub fn add_managed(at: u64, len: u64, context: u32, attach: Attach) -> Result<(), CUresult> {
    fault::start()?;
    crate::log!(Info, "{len} bytes of managed memory at {at:#x}");
    let mut a = Area::new(Sort::Managed, at, len, at, context);
    a.attach = attach;
    lock().get_or_insert_default().insert(a)
}

/// Shadows a managed variable that a module brought, at the address where the driver put it.
pub fn add_variable(at: u64, size: u64, context: u32) -> Result<(), CUresult> {
    const PAGE: u64 = 4096;
    /// More than a module's variables can have.
    const MOST: u64 = 4 << 30;
    if size > MOST {
        return Err(CUDA_ERROR_UNKNOWN);
    }
    let (from, to) = (at & !(PAGE - 1), (at + size.max(1)).next_multiple_of(PAGE));
    fault::start()?;
    crate::log!(Info, "a managed variable of {size} bytes at {at:#x}");
    let mut all = lock();
    let s = all.get_or_insert_default();
    let mut page = from;
    while page < to {
        // Variables share pages, and a module may come again.
        if s.at(page).is_none() {
            map_closed(page, PAGE)?;
            let mut a = Area::new(Sort::Managed, page, PAGE, page, context);
            a.of_variables();
            a.add_variable(at, at + size);
            a.begin_on_device();
            s.insert(a)?;
        } else if let Some(a) = s.at(page) {
            if !a.has_variables() {
                // The program's own memory does not become a variable's because the worker says so.
                return Err(CUDA_ERROR_UNKNOWN);
            }
            a.context = context;
            a.add_variable(at, at + size);
            a.leave_to_device();
        }
        page += PAGE;
    }
    Ok(())
}

/// Maps pages that may not be touched yet at an address of their own.
fn map_closed(at: u64, len: u64) -> Result<(), CUresult> {
    memory::map_fixed(at, len, libc::PROT_NONE).inspect_err(|_| {
        crate::log!(
            Error,
            "the address {at:#x} of a managed variable is taken in this program"
        );
    })
}

/// One thread at a time makes memory known; its calls may wait for what is queued.
static EXPOSING: Mutex<()> = Mutex::new(());

/// Makes a kernel see page-locked memory: gives its address on the device. The log hears `why`.
pub fn expose(
    cx: Cx,
    r: &memory::Range,
    p: u64,
    why: impl FnOnce() -> String,
) -> Result<u64, CUresult> {
    if shared::holds(p) {
        return Ok(p);
    }
    if let Some(known) = device_side(p, 1) {
        return Ok(known);
    }
    let (at, n) = (r.base, r.size);
    crate::log!(
        Info,
        "kernels see {n} bytes of page-locked memory at {at:#x}: {}",
        why()
    );
    // Copies under way into or out of it must not meet a closed page.
    memory::settle(cx);
    fault::start()?;
    let _one = EXPOSING.lock().unwrap_or_else(PoisonError::into_inner);
    // Another thread may have been first: what is valid where must not be forgotten.
    if let Some(known) = device_side(p, 1) {
        return Ok(known);
    }
    let area = if r.sort == Sort::Host {
        let first = r.base & !(space::GRANULE - 1);
        // Small allocations share a granule, which is mapped for the first of them.
        let known = lock().get_or_insert_default().granules.contains(&first);
        if !known {
            cx.call(&msg::MemMapAt {
                va: first,
                size: (r.base - first + r.size).next_multiple_of(space::GRANULE),
                device: r.device,
            })?;
            lock().get_or_insert_default().granules.insert(first);
        }
        let mut a = Area::new(Sort::Host, r.base, memory::pages(r.size), r.base, r.context);
        a.begin_on_host(libc::PROT_READ | libc::PROT_WRITE);
        a
    } else {
        const READ_ONLY: u32 = 8;
        let page = r.base & 4095;
        let window = memory::map_window(cx, page + r.size, r.device)?;
        let mut a = Area::registered(r.base, r.size, window + page, r.context);
        let rights = if r.flags & READ_ONLY != 0 {
            libc::PROT_READ
        } else {
            libc::PROT_READ | libc::PROT_WRITE
        };
        a.begin_on_host(rights);
        a
    };
    let dev = area.device_of(p);
    lock().get_or_insert_default().insert(area)?;
    Ok(dev)
}

/// The device's address of `len` bytes that are shadowed.
#[inline]
pub fn device_side(p: u64, len: usize) -> Option<u64> {
    if !active() {
        return None;
    }
    let mut all = lock();
    let a = all.as_mut()?.at(p)?;
    ((p - a.start).saturating_add(len as u64) <= a.size).then(|| a.device_of(p))
}

/// Whether there is page-locked memory, whose address a launch's parameters may hold.
#[inline]
pub fn is_host_memory_known() -> bool {
    FLAGS.load(Ordering::Relaxed) & SCAN != 0
}

/// Whether page-locked memory may be at an address.
#[inline]
pub fn may_be_host_memory(p: u64) -> bool {
    let host = space::span(space::HOST);
    let registered = REGISTERED_FROM.load(Ordering::Relaxed)..REGISTERED_TO.load(Ordering::Relaxed);
    host.contains(&p) || registered.contains(&p)
}

/// Page-locked memory is about to be freed.
pub fn forget_host(base: u64) {
    if let Some(s) = lock().as_mut()
        && let Some(mut a) = s.remove(base)
    {
        a.open();
    }
}

/// A granule that no page-locked memory is in any more is about to go. Says whether it has device
/// memory behind it.
pub fn forget_granule(granule: u64) -> bool {
    lock().as_mut().is_some_and(|s| s.granules.remove(&granule))
}

/// Managed memory is about to be freed.
pub fn forget_managed(base: u64) {
    if let Some(s) = lock().as_mut() {
        s.remove(base);
    }
}

/// Registered memory stays the program's: all of it comes home. Gives the window it was seen in.
pub fn forget_registered(cx: Cx, base: u64) -> Option<u64> {
    if !active() {
        return None;
    }
    loop {
        let mut all = lock();
        let s = all.as_mut()?;
        let a = s.areas.get(&base)?;
        let owed = s.owed(a);
        if owed.is_empty() {
            while let Some((first, n)) = s.areas.get(&base).and_then(Area::first_on_device) {
                if s.fetch(cx, base, first, n).is_err() {
                    break;
                }
            }
            s.fetch_edges(cx);
            let mut a = s.remove(base)?;
            a.open();
            return Some(a.device_of(base) & !4095);
        }
        let mark = s.count;
        drop(all);
        if wait_for(&owed, mark).is_err() {
            let mut a = lock().as_mut()?.remove(base)?;
            a.open();
            return Some(a.device_of(base) & !4095);
        }
    }
}

/// A context is gone, and with it the device's side of what was made in it.
pub fn forget_context(id: u32) {
    let mut all = lock();
    let Some(s) = all.as_mut() else {
        return;
    };
    let gone: Vec<u64> = s
        .areas
        .values()
        .filter(|a| a.context == id)
        .map(|a| a.start)
        .collect();
    for start in gone {
        if let Some(mut a) = s.remove(start) {
            if a.sort == Sort::Host {
                s.granules.remove(&(start & !(space::GRANULE - 1)));
            }
            if a.sort != Sort::Managed {
                a.open();
            }
        }
    }
    s.pending.retain(|(scope, _), _| *scope != id);
}

/// Runs `f` on each area that overlaps a range.
pub fn each(p: u64, len: u64, mut f: impl FnMut(&mut Area)) {
    if let Some(s) = lock().as_mut() {
        let end = p.saturating_add(len);
        for a in s.areas.values_mut() {
            if a.start < end && a.start + a.size > p {
                f(a);
            }
        }
    }
}

/// Sends what the program has written, before any work asks for it.
pub fn prefetch_to_device(cx: Cx) -> Result<(), CUresult> {
    lock().get_or_insert_default().push(cx, ANY, false)
}
