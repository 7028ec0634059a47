//! What profilers hear: the program's calls as they are made, and what devices did for their sake.
//!
//! The first is known here: entry points say so where somebody watches, and the runtime tells of
//! its own functions. The second the worker has from its own CUPTI: each record of a call carries
//! the call's number as its mark, and what was done for it comes back with that.

use super::prelude::*;
use crate::cuda::call::thread;
use crate::cuda::generated::callbacks;
use crate::cuda::state::profile::{Chosen, Clock, HostEnd, Moment, Names, Work};
use crate::cuda::state::profile::{fitting, next, numbered, records};
use crate::marks::{self, Inside};
use busbar_abi::cupti::*;
use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Whose function a call is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The driver's.
    Driver,
    /// The runtime's.
    Runtime,
    /// No function's: something is there, or is to go.
    Resource,
}

impl Of {
    const ALL: [Self; 3] = [Self::Driver, Self::Runtime, Self::Resource];

    /// The domain of that number.
    pub fn domain(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|of| of.number() == number)
    }

    fn number(self) -> u32 {
        match self {
            Self::Driver => CUPTI_CB_DOMAIN_DRIVER_API,
            Self::Runtime => CUPTI_CB_DOMAIN_RUNTIME_API,
            Self::Resource => CUPTI_CB_DOMAIN_RESOURCE,
        }
    }

    /// The kind of its records.
    fn kind(self) -> ActivityKind {
        match self {
            Self::Driver => CUPTI_ACTIVITY_KIND_DRIVER,
            Self::Runtime => CUPTI_ACTIVITY_KIND_RUNTIME,
            Self::Resource => CUPTI_ACTIVITY_KIND_INVALID,
        }
    }

    /// Whether a subscriber can be told of this.
    pub fn has(self, number: u32) -> bool {
        self != Self::Resource || Resource::ALL.into_iter().any(|r| r as u32 == number)
    }

    /// The name of a function.
    pub fn name(self, number: u32) -> Option<&'static CStr> {
        let all = match self {
            Self::Driver => callbacks::OWN,
            Self::Runtime => callbacks::RUNTIME,
            Self::Resource => &[],
        };
        let found = all.binary_search_by_key(&number, |(n, _)| *n);
        found.ok().map(|i| all[i].1)
    }
}

/// What becomes of a context or of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Resource {
    /// A context is there.
    ContextCreated = 1,
    /// One is to go.
    ContextDestroyStarting = 2,
    /// A stream is there.
    StreamCreated = 3,
}

impl Resource {
    const ALL: [Self; 3] = [
        Self::ContextCreated,
        Self::ContextDestroyStarting,
        Self::StreamCreated,
    ];
}

/// Kinds of records of devices' work, which workers keep.
const OF_WORK: u64 = bit(CUPTI_ACTIVITY_KIND_MEMCPY)
    | bit(CUPTI_ACTIVITY_KIND_MEMSET)
    | bit(CUPTI_ACTIVITY_KIND_KERNEL)
    | bit(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
    | bit(CUPTI_ACTIVITY_KIND_MEMCPY2);
/// Kinds that there are here.
const KNOWN: u64 = OF_WORK
    | bit(CUPTI_ACTIVITY_KIND_DRIVER)
    | bit(CUPTI_ACTIVITY_KIND_RUNTIME)
    | bit(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)
    | bit(CUPTI_ACTIVITY_KIND_OVERHEAD);

const fn bit(kind: ActivityKind) -> u64 {
    1 << kind
}

/// So many bytes of records of calls are given to the program before it asks.
const MANY: usize = 2 << 20;
/// Two moments of a clock are so far apart at least.
const APART: Duration = Duration::from_millis(2);

/// Who subscribes: a function, and what it is given.
#[derive(Clone, Copy)]
struct Subscriber {
    f: Callback,
    data: usize,
}

/// A buffer of the program's: where, how many bytes, and how many records at most.
struct Room {
    at: *mut u8,
    size: usize,
    most: usize,
}

// SAFETY: whoever has it may write there, on any thread.
unsafe impl Send for Room {}

#[derive(Default)]
struct Inner {
    kinds: u64,
    /// Of which functions there are records, and of which the subscriber hears.
    recorded: [Chosen; 3],
    told: [Chosen; 3],
    subscriber: Option<Subscriber>,
    buffers: Option<(Request, Complete)>,
    /// Records that the program has not got yet.
    pending: Vec<u8>,
    dropped: usize,
    names: Names,
    /// When keeping began, by server.
    began: HashMap<usize, Moment>,
    /// What is known of the host's ends of copies, by mark.
    ends: HashMap<u32, HostEnd>,
    /// Threads are known by the kernel's number of theirs.
    system_threads: bool,
    /// The log has a line of what a server lacks.
    said: bool,
}

/// What a process has once.
#[derive(Default)]
struct Activity {
    inner: Mutex<Inner>,
    /// Room that the program has given, for who puts records there: they go to it in one order.
    room: Mutex<Option<Room>>,
    /// Whether there is some.
    has_room: AtomicBool,
    /// The last call's number.
    last: AtomicU32,
    /// The program's clock, a [`Timestamp`]; 0 for the system's.
    clock: AtomicUsize,
    /// Counts changes of what is watched: calls of the runtime that had begun before are over.
    change: AtomicU32,
}

static ACTIVITY: LazyLock<Activity> = LazyLock::new(Activity::default);

/// How many functions of the runtime's there is a word for.
const FUNCTIONS: usize = 1024;

/// Where the runtime looks whether somebody wants to hear of its calls: a word of 32 bits for each
/// of its functions.
static RUNTIME: [AtomicU64; FUNCTIONS / 2] = [const { AtomicU64::new(0) }; FUNCTIONS / 2];

/// Where those words are, and how many.
pub fn runtime_words() -> (*const AtomicU64, usize) {
    (RUNTIME.as_ptr(), FUNCTIONS)
}

/// A call that somebody watches.
struct Begun {
    of: Of,
    number: u32,
    outer: Inside,
    mark: u64,
    start: u64,
    /// What the subscriber keeps from its beginning to its end.
    data: u64,
    change: u32,
}

thread_local! {
    /// Calls of the runtime's that the thread is in.
    static BEGUN: RefCell<Vec<Begun>> = const { RefCell::new(Vec::new()) };
    /// Numbers of the program's own for what the thread does, by kind.
    static EXTERNAL: RefCell<BTreeMap<u32, Vec<u64>>> = const { RefCell::new(BTreeMap::new()) };
    /// Records of a call of which it is not known yet whose it was.
    static HELD: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// A function of the profiler's is running: of what it calls it is not told, and records of
    /// that are not given to it meanwhile.
    static TELLING: Cell<bool> = const { Cell::new(false) };
}

/// What the runtime asks first in a function of its own, before it says that the function begins:
/// so it is known later whether that was the program's.
const CU_CTX_GET_CURRENT: u32 = 304;
/// What it may ask after that, when it first launches a kernel. NVIDIA's CUPTI tells of this one.
const CU_KERNEL_GET_NAME: u32 = 719;

/// What is told of a call's beginning or end.
#[derive(Clone, Copy)]
struct Told {
    site: u32,
    params: *const c_void,
    result: *const i32,
}

impl Activity {
    /// What time it is by the program's clock.
    fn now(&self) -> u64 {
        match self.clock.load(Ordering::Acquire) {
            0 => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                since.map_or(0, |since| since.as_nanos() as u64)
            }
            // SAFETY: a function of the program's that takes nothing; `set_clock` stored it.
            f => unsafe { std::mem::transmute::<usize, Timestamp>(f)() },
        }
    }

    fn begin(&self, of: Of, number: u32, params: *const c_void) -> Begun {
        let in_between = [CU_CTX_GET_CURRENT, CU_KERNEL_GET_NAME].contains(&number);
        if of == Of::Runtime || !in_between {
            let mut held = HELD.try_with(Cell::take).unwrap_or_default();
            if of == Of::Driver && !held.is_empty() {
                lock(&self.inner).pending.append(&mut held);
            }
        }
        let change = self.change.load(Ordering::Relaxed);
        let _ = BEGUN.try_with(|all| {
            let all = &mut *all.borrow_mut();
            // What had begun when something else was watched may have ended unheard.
            if let Some(old) = all.first().filter(|b| b.change != change) {
                marks::go(old.outer);
                all.clear();
            }
        });
        let outer = marks::inside();
        let mark = match outer.mark {
            0 => u64::from(self.last.fetch_add(1, Ordering::Relaxed)) + 1,
            mark => mark,
        };
        marks::go(Inside {
            mark,
            driver: outer.driver || of == Of::Driver,
        });
        let mut begun = Begun {
            of,
            number,
            outer,
            mark,
            start: 0,
            data: 0,
            change,
        };
        self.tell(
            &mut begun,
            Told {
                site: CUPTI_API_ENTER,
                params,
                result: std::ptr::null(),
            },
        );
        begun.start = self.now();
        begun
    }

    fn end(&self, mut begun: Begun, params: *const c_void, result: i32) {
        let end = self.now();
        let told = Told {
            site: CUPTI_API_EXIT,
            params,
            result: &result,
        };
        self.tell(&mut begun, told);
        marks::go(begun.outer);
        let mut inner = lock(&self.inner);
        if inner.kinds != 0 && !self.has_room.load(Ordering::Relaxed) && !TELLING.get() {
            drop(inner);
            self.provide();
            inner = lock(&self.inner);
        }
        // What the runtime calls of the driver is part of its own call.
        if begun.outer.mark != 0 || !inner.recorded[begun.of as usize].has(begun.number) {
            return;
        }
        let mut made: Vec<u8> = Vec::new();
        if inner.kinds & bit(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) != 0 {
            // At the end of a thread there are none any more.
            let _ = EXTERNAL.try_with(|all| {
                for (kind, numbers) in &*all.borrow() {
                    let Some(external) = numbers.last() else {
                        continue;
                    };
                    let record = ExternalCorrelation {
                        kind: CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                        external_kind: *kind,
                        external: *external,
                        correlation: begun.mark as u32,
                        reserved: 0,
                    };
                    made.extend_from_slice(busbar_abi::bytes_of(&record));
                }
            });
        }
        let record = ApiCall {
            kind: begun.of.kind(),
            cbid: begun.number,
            start: begun.start,
            end,
            process: std::process::id(),
            thread: this_thread(inner.system_threads),
            correlation: begun.mark as u32,
            result: result as u32,
        };
        made.extend_from_slice(busbar_abi::bytes_of(&record));
        let runtime_tells = inner.recorded[Of::Runtime as usize].any();
        if begun.of == Of::Driver && begun.number == CU_CTX_GET_CURRENT && runtime_tells {
            let more = |held: &Cell<Vec<u8>>| held.set([held.take(), made].concat());
            let _ = HELD.try_with(more);
            return;
        }
        inner.pending.append(&mut made);
        if inner.pending.len() > MANY && !TELLING.get() {
            let records = std::mem::take(&mut inner.pending);
            drop(inner);
            self.deliver(&records);
        }
    }

    /// Tells the subscriber of a call, if it wants to hear of it.
    fn tell(&self, begun: &mut Begun, told: Told) {
        let name = begun.of.name(begun.number).unwrap_or_default();
        let data = CallbackData {
            site: told.site,
            function: name.as_ptr(),
            params: told.params,
            result: told.result,
            symbol: std::ptr::null(),
            context: thread::current_raw() as *mut c_void,
            context_uid: 0,
            data: &raw mut begun.data,
            correlation: begun.mark as u32,
        };
        self.call_back(begun.of, begun.number, (&raw const data).cast());
    }

    /// Calls the subscriber, if it wants to hear of this.
    fn call_back(&self, of: Of, number: u32, told: *const c_void) {
        let inner = lock(&self.inner);
        let wanted = inner.told[of as usize].has(number);
        let Some(subscriber) = inner.subscriber.filter(|_| wanted && !TELLING.get()) else {
            return;
        };
        drop(inner);
        let data = subscriber.data as *mut c_void;
        // SAFETY: the subscriber's function and its data; what is told lives through the call.
        telling(|| unsafe { (subscriber.f)(data, of.number(), number, told) });
    }

    /// Asks the program for room, if it has said whom to ask. It may look whether anybody has asked
    /// before it flushes, so that this comes with the first record.
    fn ask_for_room(&self) -> Option<Room> {
        let (request, _) = lock(&self.inner).buffers?;
        let (mut at, mut size, mut most) = (std::ptr::null_mut(), 0, 0);
        // SAFETY: the program's function, and three places.
        telling(|| unsafe { request(&mut at, &mut size, &mut most) });
        (!at.is_null()).then_some(Room { at, size, most })
    }

    /// Sees to it that there is room.
    #[cold]
    fn provide(&self) {
        let mut room = lock(&self.room);
        if room.is_none() {
            *room = self.ask_for_room();
        }
        // One that gives none is not asked at every call.
        self.has_room.store(true, Ordering::Relaxed);
    }

    /// Puts records into buffers of the program's, which it gets back.
    fn deliver(&self, mut records: &[u8]) {
        let mut room = lock(&self.room);
        while !records.is_empty() {
            let complete = lock(&self.inner).buffers.map(|(_, complete)| complete);
            let here = room.take().or_else(|| self.ask_for_room());
            self.has_room.store(false, Ordering::Relaxed);
            let (Some(Room { at, size, most }), Some(complete)) = (here, complete) else {
                return self.lose(records);
            };
            let n = fitting(records, size, most);
            // SAFETY: the program's buffer, in which there is room for so many bytes.
            unsafe { at.copy_from_nonoverlapping(records.as_ptr(), n) };
            // SAFETY: the program's function, with a buffer that it has given.
            telling(|| unsafe { complete(std::ptr::null_mut(), 0, at, size, n) });
            if n == 0 {
                return self.lose(records);
            }
            records = &records[n..];
        }
    }

    /// Counts what the program has no room for.
    fn lose(&self, mut records: &[u8]) {
        let mut n = 0;
        while !records.is_empty() {
            let one = fitting(records, usize::MAX, 1);
            records = &records[one.max(1).min(records.len())..];
            n += 1;
        }
        lock(&self.inner).dropped += n;
    }

    /// Has calls watched as it should be now.
    fn settle(&self, inner: &Inner) {
        let wants = |of: Of| inner.recorded[of as usize].any() || inner.told[of as usize].any();
        self.change.fetch_add(1, Ordering::Relaxed);
        marks::watch(inner.kinds & OF_WORK != 0 || Of::ALL.into_iter().any(wants));
        let both = if wants(Of::Runtime) { 1 << 32 | 1 } else { 0 };
        for words in &RUNTIME {
            words.store(both, Ordering::Relaxed);
        }
    }
}

/// Runs a function of the profiler's.
fn telling(f: impl FnOnce()) {
    let before = TELLING.replace(true);
    f();
    TELLING.set(before);
}

/// The number of the calling thread, by which records of calls know it.
fn this_thread(system: bool) -> u32 {
    // SAFETY: neither has preconditions.
    unsafe {
        match system {
            true => libc::gettid() as u32,
            false => libc::pthread_self() as u32,
        }
    }
}

/// Something has become of a context, or of a stream in it.
#[cold]
pub fn resource(what: Resource, context: u64, stream: u64) {
    let data = ResourceData {
        context: context as *mut c_void,
        resource: stream as *mut c_void,
        descriptor: std::ptr::null_mut(),
    };
    ACTIVITY.call_back(Of::Resource, what as u32, (&raw const data).cast());
}

/// Makes a call of the driver's while somebody watches. Those that such a call makes itself are
/// none of the program's.
pub fn watch(number: u32, told: *const c_void, call: &dyn Fn() -> CUresult) -> CUresult {
    if marks::inside().driver {
        return call();
    }
    let begun = ACTIVITY.begin(Of::Driver, number, told);
    let result = call();
    ACTIVITY.end(begun, told, result);
    result
}

/// A function of the runtime's begins.
pub fn runtime_begins(number: u32, params: *const c_void) {
    let begun = ACTIVITY.begin(Of::Runtime, number, params);
    let _ = BEGUN.try_with(|all| all.borrow_mut().push(begun));
}

/// It ends.
pub fn runtime_ends(number: u32, params: *const c_void, result: i32) {
    let last = BEGUN.try_with(|all| {
        let ours = all.borrow().last().is_some_and(|b| b.number == number);
        ours.then(|| all.borrow_mut().pop()).flatten()
    });
    if let Ok(Some(begun)) = last {
        ACTIVITY.end(begun, params, result);
    }
}

/// What the program does to the host's memory with a copy of the present call.
#[cold]
pub fn know_end(cx: Cx, p: u64, later: bool) {
    let mark = marks::inside().mark as u32;
    let locked = cx.state().ranges.find_page_locked(p).is_some();
    let mut inner = lock(&ACTIVITY.inner);
    if mark != 0 && inner.kinds & bit(CUPTI_ACTIVITY_KIND_MEMCPY) != 0 {
        inner.ends.insert(mark, HostEnd { locked, later });
    }
}

/// Has records of a kind made, or not any more. An error is what CUPTI calls it.
pub fn enable(clients: &[Cx], kind: ActivityKind, on: bool) -> Result<(), CUptiResult> {
    if kind >= u64::BITS || bit(kind) & KNOWN == 0 {
        return Err(CUPTI_ERROR_NOT_SUPPORTED);
    }
    let mut inner = lock(&ACTIVITY.inner);
    let before = inner.kinds & OF_WORK;
    match on {
        true => inner.kinds |= bit(kind),
        false => inner.kinds &= !bit(kind),
    }
    for of in Of::ALL {
        if of.kind() == kind {
            inner.recorded[of as usize].set_all(on);
        }
    }
    let work = inner.kinds & OF_WORK;
    ACTIVITY.settle(&inner);
    drop(inner);
    if work != before {
        let kept = clients.iter().try_for_each(|cx| keep(*cx, work));
        return kept.inspect_err(|_| {
            let mut inner = lock(&ACTIVITY.inner);
            inner.kinds &= !bit(kind);
            ACTIVITY.settle(&inner);
        });
    }
    Ok(())
}

/// A session begins: what was asked for before is asked for there, too.
pub fn opened(cx: Cx) {
    let work = lock(&ACTIVITY.inner).kinds & OF_WORK;
    if work != 0 {
        let _ = keep(cx, work);
    }
}

/// Has a worker keep records of these kinds.
fn keep(cx: Cx, kinds: u64) -> Result<(), CUptiResult> {
    let lacks = |why: &str| {
        // For each kind that a profiler asks for there would be a line.
        if !std::mem::replace(&mut lock(&ACTIVITY.inner).said, true) {
            crate::log!(Warn, "profilers hear nothing of devices: {why}");
        }
        Err(CUPTI_ERROR_NOT_SUPPORTED)
    };
    if !cx.client.session.tells {
        return lacks("the server is older than this client");
    }
    let (rc, body) = cx
        .call_any(&msg::ActivityKeep { kinds })
        .map_err(|_| CUPTI_ERROR_UNKNOWN)?;
    let reply = decode::<msg::ActivityKeepReply<'_>>(&body).map_err(|_| CUPTI_ERROR_UNKNOWN)?;
    if rc != CUDA_SUCCESS {
        return lacks(&String::from_utf8_lossy(reply.why));
    }
    if kinds != 0 && !lock(&ACTIVITY.inner).began.contains_key(&cx.client.server) {
        let now = moment(cx)?;
        lock(&ACTIVITY.inner).began.insert(cx.client.server, now);
    }
    Ok(())
}

/// One moment by a server's clock and the program's: that of the shortest way there and back.
fn moment(cx: Cx) -> Result<Moment, CUptiResult> {
    let mut best: Option<(u64, Moment)> = None;
    for _ in 0..8 {
        let from = ACTIVITY.now();
        let reply = cx.reply_to(&msg::ActivityClock {});
        let (to, reply) = (ACTIVITY.now(), reply.map_err(|_| CUPTI_ERROR_UNKNOWN)?);
        let long = to.saturating_sub(from);
        if best.is_none_or(|(shortest, _)| long < shortest) {
            let here = from + long / 2;
            let there = reply.now;
            best = Some((long, Moment { there, here }));
        }
    }
    best.map(|(_, at)| at).ok_or(CUPTI_ERROR_UNKNOWN)
}

/// Gives the program all records that there are.
pub fn flush(clients: &[Cx], forced: bool) -> Result<(), CUptiResult> {
    let mut work = Vec::new();
    for cx in clients {
        take(*cx, forced, &mut work)?;
    }
    let mut inner = lock(&ACTIVITY.inner);
    if forced {
        // Of what is over by now there is no more to come.
        inner.ends.clear();
    }
    let mut all = std::mem::take(&mut inner.pending);
    drop(inner);
    all.extend(HELD.try_with(Cell::take).unwrap_or_default());
    // The clocks' difference is known to some microseconds: no work begins before its call.
    let late = lateness(&all, &work);
    for w in &mut work {
        w.retime(|t| t.wrapping_add(late));
        w.write(&mut all);
    }
    ACTIVITY.deliver(&all);
    Ok(())
}

/// By how much work begins before its call at most, by what is known of calls.
fn lateness(calls: &[u8], work: &[Work]) -> u64 {
    let (mut begun, mut at) = (HashMap::new(), None);
    while let Some(here) = next(calls, at) {
        let call = calls.get(here..here + size_of::<ApiCall>());
        let call = call.and_then(busbar_abi::from_bytes::<ApiCall>);
        if let Some(c) = call.filter(|c| Of::ALL.into_iter().any(|of| of.kind() == c.kind)) {
            begun.insert(c.correlation, c.start);
        }
        at = Some(here);
    }
    let early = |w: &Work| Some(begun.get(&w.correlation())?.saturating_sub(w.start()));
    work.iter().filter_map(early).max().unwrap_or(0)
}

/// Takes what a worker has kept.
fn take(cx: Cx, forced: bool, all: &mut Vec<Work>) -> Result<(), CUptiResult> {
    let server = cx.client.server;
    let Some(first) = lock(&ACTIVITY.inner).began.get(&server).copied() else {
        return Ok(());
    };
    let mut last = moment(cx)?;
    if last.there.saturating_sub(first.there) < APART.as_nanos() as u64 {
        std::thread::sleep(APART);
        last = moment(cx)?;
    }
    let clock = Clock::of(first, last);
    let (mut flush, mut known) = (1, HashSet::new());
    loop {
        let reply = cx.call(&msg::ActivityTake {
            flush,
            forced: forced.into(),
        });
        let reply = reply.map_err(|_| CUPTI_ERROR_UNKNOWN)?;
        let r = decode::<msg::ActivityTakeReply<'_>>(&reply).map_err(|_| CUPTI_ERROR_UNKNOWN)?;
        let mut inner = lock(&ACTIVITY.inner);
        inner.dropped += r.dropped as usize;
        let mut names = r.names;
        while !names.is_empty() {
            let (number, name) = numbered(&mut names).ok_or(CUPTI_ERROR_UNKNOWN)?;
            inner.names.know(server, number, name);
        }
        for mut w in records(r.records).ok_or(CUPTI_ERROR_UNKNOWN)? {
            w.retime(|t| clock.here(t));
            if let Some(end) = inner.ends.get(&w.correlation()) {
                w.know(*end);
                known.insert(w.correlation());
            }
            if let Work::Kernel(k) = &mut w {
                k.name = inner.names.of(server, k.name).as_ptr() as u64;
            }
            all.push(w);
        }
        if r.more == 0 {
            // Of what is over by now there is no more to come.
            inner
                .ends
                .retain(|mark, _| !forced && !known.contains(mark));
            return Ok(());
        }
        flush = 0;
    }
}

/// Has a single function recorded, or not.
pub fn record_function(of: Of, number: u32, on: bool) {
    let mut inner = lock(&ACTIVITY.inner);
    inner.recorded[of as usize].set(number, on);
    ACTIVITY.settle(&inner);
}

/// The functions that ask for room for records, and give it back.
pub fn set_buffers(request: Request, complete: Complete) {
    lock(&ACTIVITY.inner).buffers = Some((request, complete));
}

/// The program's clock. Moments by another one say nothing any more.
pub fn set_clock(clients: &[Cx], clock: Option<Timestamp>) {
    let clock = clock.map_or(0, |f| f as usize);
    if ACTIVITY.clock.swap(clock, Ordering::AcqRel) != clock {
        let began: Vec<_> = lock(&ACTIVITY.inner).began.drain().collect();
        for cx in clients {
            if began.iter().any(|(server, _)| *server == cx.client.server)
                && let Ok(now) = moment(*cx)
            {
                lock(&ACTIVITY.inner).began.insert(cx.client.server, now);
            }
        }
    }
}

/// What time it is by the clock of records.
pub fn now() -> u64 {
    ACTIVITY.now()
}

/// How many records were lost since this was asked last.
pub fn dropped() -> usize {
    std::mem::take(&mut lock(&ACTIVITY.inner).dropped)
}

/// How threads are known in records of calls: by the kernel's numbers, or by the C library's.
pub fn system_threads(set: Option<bool>) -> bool {
    let mut inner = lock(&ACTIVITY.inner);
    inner.system_threads = set.unwrap_or(inner.system_threads);
    inner.system_threads
}

/// From here on calls of this thread are of a number of the program's.
pub fn push_external(kind: u32, number: u64) {
    let _ = EXTERNAL.try_with(|all| all.borrow_mut().entry(kind).or_default().push(number));
}

/// Ends that.
pub fn pop_external(kind: u32) -> Option<u64> {
    let popped = EXTERNAL.try_with(|all| all.borrow_mut().get_mut(&kind)?.pop());
    popped.ok().flatten()
}

/// Has a function told of calls. False if there is one already.
pub fn subscribe(f: Callback, data: *mut c_void) -> bool {
    let mut inner = lock(&ACTIVITY.inner);
    let first = inner.subscriber.is_none();
    if first {
        inner.subscriber = Some(Subscriber {
            f,
            data: data as usize,
        });
    }
    first
}

/// Whether there is a subscriber.
pub fn is_subscribed() -> bool {
    lock(&ACTIVITY.inner).subscriber.is_some()
}

/// Ends that.
pub fn unsubscribe() {
    let mut inner = lock(&ACTIVITY.inner);
    inner.subscriber = None;
    inner.told = Default::default();
    ACTIVITY.settle(&inner);
}

/// Has the subscriber told of a function, or of all of a domain.
pub fn tell_of(of: Of, number: Option<u32>, on: bool) {
    let mut inner = lock(&ACTIVITY.inner);
    let told = &mut inner.told[of as usize];
    match number {
        Some(number) => told.set(number, on),
        None => told.set_all(on),
    }
    ACTIVITY.settle(&inner);
}

/// Whether the subscriber is told of a function.
pub fn tells_of(of: Of, number: u32) -> bool {
    lock(&ACTIVITY.inner).told[of as usize].has(number)
}

/// Ends everything that was begun.
pub fn finalize(clients: &[Cx]) {
    let mut inner = lock(&ACTIVITY.inner);
    let work = inner.kinds & OF_WORK;
    inner.kinds = 0;
    inner.recorded = Default::default();
    inner.told = Default::default();
    inner.subscriber = None;
    ACTIVITY.settle(&inner);
    drop(inner);
    if work != 0 {
        for cx in clients {
            let _ = keep(*cx, 0);
        }
    }
}
