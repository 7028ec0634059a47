//! The links between the servers of a process's clients, by which bytes go from device to device.

use crate::link::Linker;
use crate::prelude::*;
use crate::session::Session;
use busbar_channel::switches::Switch;
use busbar_wire::generated::cuda as msg;

/// The most pieces that are on their way over a link in each direction, of all copies: the workers
/// have room for some more.
const MOST_PIECES: usize = 32;
/// How long to wait before a link that could not be had is tried again: at first, and at most.
const PAUSE: Duration = Duration::from_secs(1);
const MOST_PAUSE: Duration = Duration::from_secs(60);

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
            let [a, b] = self.names();
            crate::log!(Info, "the link between {a} and {b} is lost");
        }
    }

    /// Whether it is.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    fn names(&self) -> [String; 2] {
        let name = |(_, s): End| s.linker.as_ref().map(Linker::server);
        self.ends.map(|e| name(e).unwrap_or_default())
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
    /// It is not tried before this, and how long was waited last.
    rest: Option<(Instant, Duration)>,
    /// Somebody has read in the log that there is none.
    told: bool,
}

/// The links of a process, by the numbers of their servers.
#[derive(Default)]
pub struct Links {
    ways: Mutex<HashMap<[usize; 2], Arc<Mutex<Way>>>>,
    last: AtomicU32,
}

impl Links {
    /// The link between two servers. The first who asks has it opened, and others wait for that;
    /// where none can be had, that is said once, and it is tried again after a while.
    pub fn between(&self, mut ends: [End; 2]) -> Option<Arc<Link>> {
        if !Switch::Links.on() {
            return None;
        }
        ends.sort_by_key(|(server, _)| *server);
        let [(_, a), (_, b)] = ends;
        let (a, b) = (a.linker.as_ref()?, b.linker.as_ref()?);
        let key = ends.map(|(server, _)| server);
        let way = lock(&self.ways).entry(key).or_default().clone();
        let mut way = lock(&way);
        if let Some(link) = &way.link
            && !link.is_lost()
        {
            return Some(link.clone());
        }
        way.link = None;
        if way.rest.is_some_and(|(t, _)| Instant::now() < t) {
            return None;
        }
        // Either may be behind something that lets nobody in.
        let mut why = String::new();
        for (from, to) in [(a, b), (b, a)] {
            let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
            match from.dial(to, number) {
                Ok(()) => {
                    let (from, to) = (from.server(), to.server());
                    crate::log!(Info, "copies between {from} and {to} go straight");
                    way.rest = None;
                    let link = Arc::new(Link::new(number, ends));
                    return Some(way.link.insert(link).clone());
                }
                Err(e) if why.is_empty() => why = e,
                Err(_) => {}
            }
            // One of the two may have it.
            end(number, ends);
        }
        let pause = way.rest.map_or(PAUSE, |(_, last)| MOST_PAUSE.min(2 * last));
        way.rest = Some((Instant::now() + pause, pause));
        if !std::mem::replace(&mut way.told, true) {
            let (a, b) = (a.server(), b.server());
            crate::log!(
                Warn,
                "copies between {a} and {b} go through this machine: {why}"
            );
        }
        None
    }
}
