//! Order: what the program may take for done, and what may still be under way.
//!
//! The client answers before the device has done anything, so it has to know what a program can see
//! of that: which stream is known to be idle, which copies still arrive in the program's memory,
//! which of its functions have yet to run, which streams capture.

use super::prelude::*;
use crate::landing::Landing;
use busbar_wire::generated::cuda::op;
use std::sync::atomic::{AtomicUsize, fence};
use std::thread::ThreadId;

/// In the place of a stream: every stream of the context.
pub const ALL_STREAMS: u32 = u32::MAX;

/// Whether a queued call fills memory.
pub const fn is_fill(o: u16) -> bool {
    matches!(
        o,
        op::CU_MEMSET_D8_ASYNC
            | op::CU_MEMSET_D16_ASYNC
            | op::CU_MEMSET_D32_ASYNC
            | op::CU_MEMSET_D2_D8_ASYNC
            | op::CU_MEMSET_D2_D16_ASYNC
            | op::CU_MEMSET_D2_D32_ASYNC
    )
}

/// Whether a queued call may read or write shadowed memory on the device.
pub const fn is_work(o: u16) -> bool {
    is_fill(o)
        || matches!(
            o,
            op::CU_MEMCPY_DTO_D_ASYNC_V2
                | op::CU_MEMCPY_PEER_ASYNC
                | op::CU_GRAPH_LAUNCH
                | op::COPY_ROWS_ON_DEVICE
                | op::COPY_IN_ROWS
        )
}

fn set(flag: &AtomicBool) {
    if !flag.load(Ordering::Relaxed) {
        flag.store(true, Ordering::Release);
    }
}

fn one_less(n: &AtomicUsize) {
    let less = |n: usize| n.checked_sub(1);
    let _ = n.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
}

fn key(scope: u32, stream: u32) -> u64 {
    u64::from(scope) << 32 | u64::from(stream)
}

/// Where bytes are to arrive.
struct Place {
    landing: Arc<Landing>,
    /// The worker has an image of this memory, which has them.
    in_image: bool,
}

impl Place {
    fn meets(&self, p: u64, len: usize) -> bool {
        self.landing.meets(p as usize, len)
    }
}

/// What is done, and what is not.
#[derive(Default)]
pub struct Order {
    /// The stream that a waiting call has last seen idle, and how many records had been queued
    /// then, plus 1. While none is queued after it, the stream is idle still, and waiting for it
    /// again needs no round trip. One pair, under one lock: half of one thread's and half of
    /// another's would be a lie.
    idle: Mutex<(u64, u64)>,
    /// Whether the program has queued work that does something in its own memory: host functions,
    /// and copies that arrive by themselves.
    sees: AtomicBool,
    /// Whether another process may look at device memory of this one's.
    others: AtomicBool,
    /// The context whose default stream has work that counts as waited for, and no mark behind it.
    open: AtomicU32,
    /// Copies to page-locked memory whose bytes have not all arrived.
    arriving: AtomicUsize,
    /// Where they go, by number.
    places: Mutex<BTreeMap<u64, Place>>,
    /// How many of them are put aside when they come, for kernels see the memory by now.
    aside: AtomicUsize,
    /// How many of those have come, and are not in their places.
    coming: Mutex<usize>,
    brought: Condvar,
    /// Functions that are queued and have not returned.
    due: AtomicUsize,
    /// Graphs hold functions, too: how often those run is not known here.
    in_graphs: AtomicBool,
    /// Reads of the program's memory that are to come: first address and end, and how many.
    reads: Mutex<HashMap<(u64, u64), usize>>,
    numbers: AtomicU64,
}

impl Order {
    /// Whether nothing has been queued since a waiting call has seen this stream idle. `alone` says
    /// whether no stream but the default one was ever made.
    #[inline]
    pub fn idle(&self, scope: u32, stream: u32, queued: u64, alone: impl Fn() -> bool) -> bool {
        let (seen, since) = *lock(&self.idle);
        let covers = || {
            // Without any other stream the default one has all of the context's work.
            seen == key(scope, ALL_STREAMS)
                || (stream == ALL_STREAMS && seen == key(scope, 0) && alone())
        };
        since == queued + 1 && (seen == key(scope, stream) || covers())
    }

    /// A waiting call has seen this stream idle. `since` is how many records had been queued before
    /// that call, which was one more.
    pub fn now_idle(&self, scope: u32, stream: u32, since: u64) {
        *lock(&self.idle) = (key(scope, stream), since + 2);
    }

    /// Queued work will do something in the program's own memory.
    pub fn program_will_see(&self) {
        set(&self.sees);
    }

    /// Another process will see what this one does.
    pub fn others_will_see(&self) {
        set(&self.others);
    }

    /// Whether another process may see it.
    pub fn others_see(&self) -> bool {
        self.others.load(Ordering::Acquire)
    }

    /// Whether anybody could see that work before a copy is not done when the copy has returned.
    pub fn is_seen(&self) -> bool {
        self.sees.load(Ordering::Acquire) || self.others_see()
    }

    /// A copy that counts as waited for is queued. Says whether something could overtake it, so
    /// that the worker must put it in order; without another stream or context there is nothing yet
    /// that could.
    pub fn may_be_overtaken(&self, scope: u32, alone: impl FnOnce() -> bool) -> bool {
        // First the word that there is work, then the look: another thread may make a stream
        // meanwhile.
        self.open.store(scope, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if alone() {
            return false;
        }
        self.open.store(0, Ordering::SeqCst);
        true
    }

    /// There is a stream or context more, which nothing has used yet. The context whose default
    /// stream it must come behind, if there is one.
    pub fn not_alone(&self) -> Option<u32> {
        fence(Ordering::SeqCst);
        match self.open.swap(0, Ordering::SeqCst) {
            0 => None,
            scope => Some(scope),
        }
    }

    /// A context is gone, and its work with it.
    pub fn forget_context(&self, id: u32) {
        let _ = self
            .open
            .compare_exchange(id, 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Bytes will arrive somewhere in a place, until [`Order::arrived`] is told. With `in_image`
    /// those are all of its bytes, and the worker's image of the program's memory has them.
    pub fn arrives(&self, landing: Arc<Landing>, in_image: bool) -> u64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let place = Place { landing, in_image };
        lock(&self.places).insert(number, place);
        self.arriving.fetch_add(1, Ordering::AcqRel);
        number
    }

    /// They have arrived, or never will.
    pub fn arrived(&self, number: u64) {
        let mut places = lock(&self.places);
        if places.remove(&number).is_some_and(|p| p.landing.is_aside()) {
            self.aside.fetch_sub(1, Ordering::AcqRel);
        }
        drop(places);
        self.arriving.fetch_sub(1, Ordering::AcqRel);
    }

    /// What is still to arrive in `len` bytes at `p` is put aside when it comes, from now on. False
    /// while some of it is being received in its place.
    pub fn put_aside(&self, p: u64, len: usize) -> bool {
        let mut all = true;
        for place in lock(&self.places).values().filter(|a| a.meets(p, len)) {
            match place.landing.put_aside() {
                Some(new) => _ = self.aside.fetch_add(usize::from(new), Ordering::AcqRel),
                None => all = false,
            }
        }
        all
    }

    /// Whether anything that is to arrive is put aside then.
    #[inline]
    pub fn has_aside(&self) -> bool {
        self.aside.load(Ordering::Acquire) > 0
    }

    /// Something that was put aside has come. Until [`Order::brought`] is told, whoever hears that
    /// work is over waits for that.
    pub fn coming(&self) {
        *lock(&self.coming) += 1;
    }

    /// It is in its place.
    pub fn brought(&self) {
        *lock(&self.coming) -= 1;
        self.brought.notify_all();
    }

    /// Waits until all that was put aside and has come is in its place.
    pub fn wait_until_brought(&self) {
        let mut coming = lock(&self.coming);
        while *coming > 0 {
            coming = wait(&self.brought, coming);
        }
    }

    /// Whether any copy has yet to write to `len` bytes of the program's memory at `p`, or to read
    /// them.
    pub fn has_copies(&self, p: u64, len: u64) -> bool {
        let end = p.saturating_add(len);
        let reaches = |(from, to): &(u64, u64)| *from < end && p < *to;
        let meets = |a: &Place| reaches(&a.landing.span());
        self.arriving.load(Ordering::Acquire) > 0 && lock(&self.places).values().any(meets)
            || lock(&self.reads).keys().any(reaches)
    }

    /// Whether work that is queued may still write `len` bytes of the program's memory at `p`: what
    /// is read of it now would be too old for a copy behind that work.
    pub fn may_still_write(&self, p: u64, len: usize) -> bool {
        let arriving = || lock(&self.places).values().any(|a| a.meets(p, len));
        self.functions_may_run() || self.arriving.load(Ordering::Acquire) > 0 && arriving()
    }

    fn functions_may_run(&self) -> bool {
        self.due.load(Ordering::Acquire) > 0 || self.graphs_have_functions()
    }

    /// What of `len` bytes at `p` is newer in the worker's image than here. None where something
    /// else may still write them.
    pub fn in_images(&self, p: u64, len: usize) -> Option<Vec<(u64, u64)>> {
        match self.functions_may_run() {
            true => None,
            false => self.newer_in_images(p, len, u64::MAX),
        }
    }

    /// The number that what is to arrive has next.
    pub fn next_arrival(&self) -> u64 {
        self.numbers.load(Ordering::Relaxed)
    }

    /// The same, whatever functions may write, of what was to arrive `before` a number. None where
    /// a copy may write that no image has.
    pub fn newer_in_images(&self, p: u64, len: usize, before: u64) -> Option<Vec<(u64, u64)>> {
        let places = lock(&self.places);
        let met = places.range(..before).map(|(_, a)| a);
        let met = met.filter(|a| a.meets(p, len));
        met.map(|a| a.in_image.then(|| a.landing.span())).collect()
    }

    /// A function of the program is about to be queued.
    pub fn function_due(&self) {
        self.due.fetch_add(1, Ordering::AcqRel);
    }

    /// It has run, or never will.
    pub fn function_ran(&self) {
        one_less(&self.due);
    }

    /// Whether any graph has had a node with a function.
    pub fn graphs_have_functions(&self) -> bool {
        self.in_graphs.load(Ordering::Acquire)
    }

    /// A graph gets a node with a function.
    pub fn functions_in_graphs(&self) {
        set(&self.in_graphs);
    }

    /// The worker will ask for bytes of the program's: where they lie, and how many they are.
    pub fn read_due(&self, (p, len): (u64, usize)) {
        let end = p.saturating_add(len as u64);
        *lock(&self.reads).entry((p, end)).or_default() += 1;
    }

    /// They are read, or never will be.
    pub fn read_done(&self, (p, len): (u64, usize)) {
        let mut reads = lock(&self.reads);
        let place = (p, p.saturating_add(len as u64));
        if let Some(n) = reads.get_mut(&place) {
            *n -= 1;
            if *n == 0 {
                reads.remove(&place);
            }
        }
    }
}

/// A capture's mode, and the thread that began it.
pub type Begun = (CUstreamCaptureMode, ThreadId);

/// Nodes, as handles, and edges.
type Told = (Vec<u64>, Vec<CUgraphEdgeData>);

/// Captures in progress, by stream. While there are none, every question about captures has the
/// same answer, and frameworks ask it thousands of times a second.
#[derive(Default)]
pub struct Captures {
    begun: Mutex<HashMap<u32, Begun>>,
    /// How many those are, and how many are about to begin.
    count: AtomicU32,
    /// Whether something has been refused during them: one of them may be void.
    doubt: AtomicBool,
    /// The nodes, as handles, and edges that the program was last told of, by stream.
    told: Mutex<HashMap<u32, Told>>,
    /// What the worker has said of streams since a capture last began or ended.
    known: Mutex<Known>,
}

/// What is known of streams while some capture. An answer belongs here only if nothing has come
/// between the question and it that may have changed it: each such thing is a new `age`.
#[derive(Default)]
struct Known {
    age: u64,
    streams: HashMap<u32, Capturing>,
}

impl Known {
    fn grow_old(&mut self) {
        self.age += 1;
        self.streams.clear();
    }
}

/// What a stream's capture is called, and whether it has one at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capturing {
    /// None, or active: of one that is void the worker has to be asked.
    pub status: CUstreamCaptureStatus,
    /// The capture's id; 0 where there is none.
    pub id: u64,
    /// The id of its graph's handle, if anyone has asked for it; 0 otherwise.
    pub graph: u32,
}

impl Capturing {
    /// A stream that captures nothing.
    pub const NONE: Self = Self {
        status: CU_STREAM_CAPTURE_STATUS_NONE,
        id: 0,
        graph: 0,
    };
}

impl Captures {
    /// Whether any stream of the process may be capturing.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether one of them may be void.
    #[inline]
    pub fn in_doubt(&self) -> bool {
        self.doubt.load(Ordering::Relaxed)
    }

    /// A call has been refused for what it means to a capture. Says whether it has: the end of that
    /// capture tells, so nothing else must.
    pub fn spoils(&self, error: CUresult) -> bool {
        let of_capture = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED..=CUDA_ERROR_CAPTURED_EVENT;
        let hit = of_capture.contains(&error);
        if hit && self.any() {
            self.doubt.store(true, Ordering::Release);
        }
        hit
    }

    /// What is known of a stream, as long as no capture may be void.
    pub fn recall(&self, stream: u32) -> Option<Capturing> {
        let known = lock(&self.known);
        let found = known.streams.get(&stream).copied();
        found.filter(|_| !self.in_doubt())
    }

    /// To be had before the worker is asked, for [`Captures::learn`].
    pub fn age(&self) -> u64 {
        lock(&self.known).age
    }

    /// The worker has said this of a stream; it was asked at `age`.
    pub fn learn(&self, stream: u32, says: Capturing, age: u64) {
        let lasts = matches!(
            says.status,
            CU_STREAM_CAPTURE_STATUS_NONE | CU_STREAM_CAPTURE_STATUS_ACTIVE
        );
        let mut known = lock(&self.known);
        if lasts && known.age == age {
            known.streams.insert(stream, says);
        }
    }

    /// A stream waits for an event: it may be part of that one's capture from now on.
    #[inline]
    pub fn joins(&self, stream: u32) {
        if self.any() {
            self.has_joined(stream);
        }
    }

    #[cold]
    fn has_joined(&self, stream: u32) {
        let mut known = lock(&self.known);
        known.age += 1;
        known.streams.remove(&stream);
    }

    /// Begins a capture by `begin`. It is counted before it begins: another thread must not miss
    /// it.
    pub fn begin<T>(
        &self,
        stream: u32,
        mode: CUstreamCaptureMode,
        begin: impl FnOnce() -> Result<T>,
    ) -> Result<()> {
        self.count.fetch_add(1, Ordering::AcqRel);
        let begun = begin();
        lock(&self.known).grow_old();
        begun.inspect_err(|_| self.one_less())?;
        let old = lock(&self.begun).insert(stream, (mode, std::thread::current().id()));
        if old.is_some() {
            self.one_less();
        }
        Ok(())
    }

    /// A stream captures no longer, or is gone.
    pub fn end(&self, stream: u32) {
        if lock(&self.begun).remove(&stream).is_some() {
            self.one_less();
        }
        lock(&self.told).remove(&stream);
        lock(&self.known).grow_old();
    }

    /// Keeps lists for the program, as the driver does: until the next such call for that stream,
    /// or the end of all captures. Where they lie; null for edges that are none.
    pub fn tell(
        &self,
        stream: u32,
        nodes: Vec<u64>,
        edges: Vec<CUgraphEdgeData>,
    ) -> (*const CUgraphNode, *const CUgraphEdgeData) {
        let mut all = lock(&self.told);
        let told = all.entry(stream).insert_entry((nodes, edges)).into_mut();
        let edges = match told.1.is_empty() {
            true => std::ptr::null(),
            false => told.1.as_ptr(),
        };
        (told.0.as_ptr().cast(), edges)
    }

    fn one_less(&self) {
        let less = |n: u32| n.checked_sub(1);
        let old = self
            .count
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
        if old == Ok(1) {
            self.doubt.store(false, Ordering::Release);
            lock(&self.told).clear();
        }
    }

    /// Whether another thread has begun a stream's capture, which only that may end.
    pub fn is_anothers(&self, stream: u32) -> bool {
        let here = std::thread::current().id();
        const RELAXED: CUstreamCaptureMode = CU_STREAM_CAPTURE_MODE_RELAXED;
        matches!(lock(&self.begun).get(&stream), Some((m, t)) if *m != RELAXED && *t != here)
    }

    /// The captures that a call could disturb, as an allocation may, from a thread with this mode.
    pub fn minding(&self, mine: CUstreamCaptureMode) -> Vec<u32> {
        const GLOBAL: CUstreamCaptureMode = CU_STREAM_CAPTURE_MODE_GLOBAL;
        const RELAXED: CUstreamCaptureMode = CU_STREAM_CAPTURE_MODE_RELAXED;
        if mine == RELAXED {
            return Vec::new();
        }
        let me = std::thread::current().id();
        let minds = |(mode, thread): &Begun| {
            mine == GLOBAL && *mode == GLOBAL || *mode != RELAXED && *thread == me
        };
        let begun = lock(&self.begun);
        let hit = begun.iter().filter(|(_, b)| minds(b));
        hit.map(|(s, _)| *s).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELAXED: CUstreamCaptureMode = CU_STREAM_CAPTURE_MODE_RELAXED;
    const GLOBAL: CUstreamCaptureMode = CU_STREAM_CAPTURE_MODE_GLOBAL;

    #[test]
    fn a_stream_is_idle_until_something_is_queued() {
        let o = Order::default();
        let (yes, no) = (|| true, || false);
        assert!(!o.idle(0, 0, 0, yes), "nobody has waited yet");
        // The waiting call was record 11: 10 before it, and itself.
        o.now_idle(1, 5, 10);
        assert!(o.idle(1, 5, 11, no));
        assert!(!o.idle(1, 5, 12, no), "one more");
        assert!(!o.idle(2, 5, 11, no), "another context");
        assert!(!o.idle(1, 6, 11, no) && !o.idle(1, ALL_STREAMS, 11, yes));
        o.now_idle(1, ALL_STREAMS, 20);
        assert!(o.idle(1, 6, 21, no), "all streams are this one, too");
        o.now_idle(1, 0, 30);
        assert!(o.idle(1, ALL_STREAMS, 31, yes), "there is no other stream");
        assert!(!o.idle(1, ALL_STREAMS, 31, no));
    }

    #[test]
    fn what_counts_as_waited_for_is_put_in_order_once_it_could_be_overtaken() {
        let o = Order::default();
        assert!(!o.may_be_overtaken(3, || true), "nothing could overtake");
        assert_eq!(o.not_alone(), Some(3), "the first stream comes behind");
        assert_eq!(o.not_alone(), None, "once");
        assert!(o.may_be_overtaken(3, || false));
        assert_eq!(o.not_alone(), None);
        assert!(!o.may_be_overtaken(3, || true));
        o.forget_context(4);
        assert_eq!(o.not_alone(), Some(3));
        assert!(!o.may_be_overtaken(3, || true));
        o.forget_context(3);
        assert_eq!(o.not_alone(), None, "its work is gone");
    }

    #[test]
    fn memory_may_be_written_by_copies_that_reach_it_and_by_any_function() {
        let o = Order::default();
        assert!(!o.may_still_write(0, usize::MAX) && !o.has_copies(0, u64::MAX));
        let place = |p: usize| Arc::new(Landing::new(p, 0x100));
        let n = o.arrives(place(0x1000), false);
        assert!(o.may_still_write(0x10ff, 1) && o.may_still_write(0xfff, 2));
        assert!(!o.may_still_write(0x1100, 9) && !o.may_still_write(0xff0, 16));
        assert!(o.has_copies(0x10ff, 9) && !o.has_copies(0x1100, 9));
        let graphs = o.arrives(place(0x2000), true);
        assert_eq!(o.in_images(0x2080, 1), Some(vec![(0x2000, 0x2100)]));
        assert_eq!(o.in_images(0x10ff, 0x2000), None, "a copy of no graph");
        assert_eq!(o.in_images(0x1100, 0xf00), Some(vec![]));
        let later = o.newer_in_images(0x2080, 1, graphs);
        assert_eq!(later, Some(vec![]), "it came to be known later");
        assert_eq!(o.next_arrival(), graphs + 1);
        o.arrived(graphs);
        o.arrived(n);
        assert!(!o.may_still_write(0x1000, 1) && !o.has_copies(0, u64::MAX));
        o.function_due();
        assert!(o.may_still_write(0x9000, 1));
        o.function_ran();
        o.function_ran();
        assert!(!o.may_still_write(0x9000, 1));
        o.functions_in_graphs();
        assert!(o.may_still_write(0x9000, 1), "a graph may run at any time");
    }

    #[test]
    fn what_is_put_aside_counts_until_it_has_arrived() {
        let o = Order::default();
        let landing = Arc::new(Landing::new(0x1000, 0x100));
        let n = o.arrives(landing.clone(), false);
        assert!(
            o.put_aside(0x1100, 8) && !o.has_aside(),
            "it lies elsewhere"
        );
        landing.place(0, 1);
        assert!(!o.put_aside(0x10ff, 1) && !o.has_aside(), "it is arriving");
        landing.received();
        assert!(o.put_aside(0x10ff, 1) && o.has_aside());
        assert!(o.put_aside(0x1000, 1), "again");
        o.arrived(n);
        assert!(!o.has_aside());
        let (one, two) = (Arc::new(o), std::sync::mpsc::channel());
        one.coming();
        let waits = {
            let (one, said) = (one.clone(), two.0);
            std::thread::spawn(move || {
                one.wait_until_brought();
                said.send(()).unwrap();
            })
        };
        assert!(two.1.recv_timeout(Duration::from_millis(20)).is_err());
        one.brought();
        waits.join().unwrap();
    }

    #[test]
    fn a_read_that_is_to_come_counts_until_it_is_done() {
        let o = Order::default();
        o.read_due((0x1000, 8));
        o.read_due((0x1000, 8));
        assert!(o.has_copies(0x1007, 1) && !o.has_copies(0x1008, 8));
        assert!(!o.may_still_write(0x1000, 8));
        o.read_done((0x1000, 8));
        assert!(o.has_copies(0x1000, 1), "one of two");
        o.read_done((0x1000, 8));
        o.read_done((0x1000, 8));
        assert!(!o.has_copies(0, u64::MAX));
    }

    #[test]
    fn a_capture_ends_once_by_whichever_way() {
        let c = Captures::default();
        assert!(
            c.begin(1, GLOBAL, || Err::<(), _>(CUDA_ERROR_UNKNOWN))
                .is_err()
        );
        assert!(!c.any(), "it has not begun");
        c.begin(1, GLOBAL, || Ok(())).unwrap();
        c.begin(2, RELAXED, || Ok(())).unwrap();
        assert!(c.spoils(CUDA_ERROR_STREAM_CAPTURE_ISOLATION) && c.in_doubt());
        assert!(!c.spoils(CUDA_ERROR_INVALID_VALUE));
        c.end(1);
        c.end(1);
        assert!(c.any() && c.in_doubt(), "the other one captures");
        c.end(2);
        assert!(!c.any() && !c.in_doubt());
    }

    #[test]
    fn what_is_known_of_a_stream_lasts_until_something_may_have_changed_it() {
        let c = Captures::default();
        let active = Capturing {
            status: CU_STREAM_CAPTURE_STATUS_ACTIVE,
            id: 7,
            graph: 3,
        };
        let learn = |stream, says| c.learn(stream, says, c.age());
        c.begin(1, GLOBAL, || Ok(())).unwrap();
        learn(1, active);
        learn(2, Capturing::NONE);
        assert_eq!(c.recall(1), Some(active));
        assert_eq!(c.recall(2), Some(Capturing::NONE));
        c.joins(2);
        assert_eq!((c.recall(1), c.recall(2)), (Some(active), None));
        // Asked before something happened, answered after it.
        let asked = c.age();
        c.joins(3);
        c.learn(2, Capturing::NONE, asked);
        assert_eq!(c.recall(2), None);
        let status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
        learn(4, Capturing { status, ..active });
        assert_eq!(c.recall(4), None, "of one that is void the worker is asked");
        c.begin(5, GLOBAL, || Ok(())).unwrap();
        assert_eq!(c.recall(1), None);
        learn(1, active);
        assert!(c.spoils(CUDA_ERROR_STREAM_CAPTURE_ISOLATION));
        assert_eq!(c.recall(1), None);
        c.end(5);
        c.end(1);
        c.begin(1, GLOBAL, || Ok(())).unwrap();
        assert_eq!(c.recall(1), None, "another capture");
    }

    #[test]
    fn a_capture_that_did_not_ask_for_less_care_minds_calls_that_could_disturb_it() {
        let c = Captures::default();
        c.begin(1, GLOBAL, || Ok(())).unwrap();
        c.begin(2, RELAXED, || Ok(())).unwrap();
        c.begin(3, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, || Ok(()))
            .unwrap();
        let mut here = c.minding(GLOBAL);
        here.sort_unstable();
        assert_eq!(here, [1, 3]);
        assert!(c.minding(RELAXED).is_empty());
        std::thread::scope(|s| {
            let there = s.spawn(|| (c.minding(GLOBAL), c.is_anothers(1), c.is_anothers(2)));
            assert_eq!(there.join().unwrap(), (vec![1], true, false));
        });
        assert!(!c.is_anothers(1) && !c.is_anothers(9));
    }
}
