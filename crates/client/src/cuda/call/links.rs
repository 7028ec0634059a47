//! The links between the servers of a process's clients, by which bytes go from device to device.

use crate::link::Linker;
use crate::prelude::*;
use crate::session::Session;
use crate::threads;
use busbar_channel::switches::Switch;
use busbar_wire::generated::cuda as msg;

/// The most pieces that are on their way over a link in each direction, of all copies: the workers
/// have room for some more.
const MOST_PIECES: usize = 32;
/// How long to wait before a link that could not be had is tried again: at first, and at most.
const PAUSE: Duration = Duration::from_secs(1);
const MOST_PAUSE: Duration = Duration::from_secs(60);
/// How long the first copies wait for the link to be opened. Servers that reach each other need a
/// few round trips; those behind a wall that swallows what it does not let in need far longer to
/// find out.
const FIRST: Duration = Duration::from_secs(3);

/// The session of a client, and the number of its server.
pub type End = (usize, &'static Session);

/// A link.
pub struct Link {
    /// What both workers know it by.
    pub number: u32,
    ends: [End; 2],
    piece: AtomicU64,
    lost: AtomicBool,
    /// Places for pieces that are free, by the end that they go to.
    free: Mutex<[usize; 2]>,
    freed: Condvar,
}

impl Link {
    fn new(number: u32, ends: [End; 2]) -> Self {
        Self {
            number,
            ends,
            piece: AtomicU64::new(1),
            lost: AtomicBool::new(false),
            free: Mutex::new([MOST_PIECES; 2]),
            freed: Condvar::new(),
        }
    }

    /// The number of the next piece.
    pub fn next_piece(&self) -> u64 {
        self.piece.fetch_add(1, Ordering::Relaxed)
    }

    /// It is not to be used any more. What has come over it can still be taken.
    pub fn lose(&self) {
        if !self.lost.swap(true, Ordering::AcqRel) {
            let [a, b] = names(self.ends);
            crate::log!(Info, "the link between {a} and {b} is lost");
        }
    }

    /// Whether it is.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// A place for a piece that goes to a server, waiting as long for one to be free.
    pub fn place(self: &Arc<Self>, to: usize, patience: Duration) -> Option<Place> {
        let way = usize::from(self.ends[1].0 == to);
        let free = lock(&self.free);
        let none = |free: &mut [usize; 2]| free[way] == 0;
        let waited = self.freed.wait_timeout_while(free, patience, none);
        let mut free = waited.unwrap_or_else(PoisonError::into_inner).0;
        free[way] = free[way].checked_sub(1)?;
        drop(free);
        let link = self.clone();
        Some(Place { link, way })
    }
}

impl Drop for Link {
    /// Nobody uses it any more: the workers let it go, and what has come over it unasked.
    fn drop(&mut self) {
        end(self.number, self.ends);
    }
}

/// The servers, for people to read.
fn names(ends: [End; 2]) -> [String; 2] {
    let name = |(_, s): End| s.linker.as_ref().map(Linker::server);
    ends.map(|e| name(e).unwrap_or_default())
}

/// Has both workers forget a link.
fn end(link: u32, ends: [End; 2]) {
    for (_, session) in ends {
        let _ = session.queue(0, &msg::LinkEnd { link });
    }
}

/// A piece's place on a link, until it is dropped.
pub struct Place {
    link: Arc<Link>,
    way: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.link.free)[self.way] += 1;
        self.link.freed.notify_all();
    }
}

/// What is known of the link between two servers.
#[derive(Default)]
struct Way {
    link: Option<Arc<Link>>,
    /// Somebody has waited for the first try; whoever comes later does without.
    waited: bool,
    /// A thread is at it.
    opening: bool,
    /// It is not tried before this, and how long was waited last.
    rest: Option<(Instant, Duration)>,
    /// Somebody has read in the log that there is none.
    told: bool,
}

impl Way {
    /// A link was opened, or could not be.
    fn opened(&mut self, opened: Result<Arc<Link>, String>, ends: [End; 2]) {
        self.opening = false;
        let why = match opened {
            Ok(link) => {
                (self.link, self.rest) = (Some(link), None);
                return;
            }
            Err(why) => why,
        };
        let pause = self
            .rest
            .map_or(PAUSE, |(_, last)| MOST_PAUSE.min(2 * last));
        self.rest = Some((Instant::now() + pause, pause));
        if !std::mem::replace(&mut self.told, true) {
            let [a, b] = names(ends);
            crate::log!(
                Warn,
                "copies between {a} and {b} go through this machine: {why}"
            );
        }
    }
}

/// The same, for whoever waits for the first try.
#[derive(Default)]
struct Known {
    way: Mutex<Way>,
    settled: Condvar,
}

/// The links of a process, by the numbers of their servers.
#[derive(Default)]
pub struct Links {
    ways: Mutex<HashMap<[usize; 2], Arc<Known>>>,
    last: AtomicU32,
}

impl Links {
    /// The link between two servers. A thread opens it; the first copies wait a little for that,
    /// and others do without until it is there. Where none can be had, or one is lost, that is
    /// tried again.
    pub fn between(&'static self, mut ends: [End; 2]) -> Option<Arc<Link>> {
        if !Switch::Links.on() || ends.iter().any(|(_, s)| s.linker.is_none()) {
            return None;
        }
        ends.sort_by_key(|(server, _)| *server);
        let key = ends.map(|(server, _)| server);
        let known = lock(&self.ways).entry(key).or_default().clone();
        let mut way = lock(&known.way);
        if way.link.as_ref().is_some_and(|link| !link.is_lost()) {
            return way.link.clone();
        }
        way.link = None;
        if !way.opening && way.rest.is_none_or(|(t, _)| Instant::now() >= t) {
            let later = known.clone();
            let open = move || {
                let opened = self.open(ends);
                lock(&later.way).opened(opened, ends);
                later.settled.notify_all();
            };
            way.opening = threads::start("busbar-link", open).is_ok();
        }
        if way.opening && !way.waited {
            let opening = |way: &mut Way| way.opening;
            let waited = known.settled.wait_timeout_while(way, FIRST, opening);
            way = waited.unwrap_or_else(PoisonError::into_inner).0;
            way.waited = true;
        }
        way.link.clone()
    }

    /// Has one of the servers dial the other: either may be behind something that lets nobody in.
    fn open(&self, ends: [End; 2]) -> Result<Arc<Link>, String> {
        let [Some(a), Some(b)] = ends.map(|(_, s)| s.linker.as_ref()) else {
            return Err("the sessions cannot be linked".into());
        };
        let mut first = None;
        for (from, to) in [(a, b), (b, a)] {
            let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
            match from.dial(to, number) {
                Ok(()) => {
                    let (from, to) = (from.server(), to.server());
                    crate::log!(Info, "copies between {from} and {to} go straight");
                    return Ok(Arc::new(Link::new(number, ends)));
                }
                Err(why) => first = first.or(Some(why)),
            }
            // One of the two may have it.
            end(number, ends);
        }
        Err(first.unwrap_or_default())
    }
}
