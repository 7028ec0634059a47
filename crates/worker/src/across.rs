//! Links to sessions at other servers: bytes of copies between devices of two servers go over them,
//! and not through the client.
//!
//! The client numbers a link, and each piece that goes over it. It has the one end read a piece
//! ([`Link::send`]) and the other expect it ([`Link::expect`]); what has come waits there until the
//! client says where it goes ([`Link::take`]). So nothing is written to a device before all of a
//! piece is here, and what a link that is lost has not brought, the client sends itself. ADR 0031
//! has the reasons.
//!
//! Two threads move the bytes, and know no API: whatever waits for a device is somebody else's.
//! Where both servers have an adapter the link moves to it first, as a session's connection does
//! ([`Mover`]): the memory for pieces stays, so one end's adapter reads them from the other's.

use crate::inventory::Counter;
use crate::prelude::*;
use crate::staging::Arena;
use busbar_transport::{Connection, Held, Kept, Path};
use busbar_wire::limits::{LINK_PIECE, LINK_PIECES};
use busbar_wire::link::{Came, HEAD, Head};
use std::any::Any;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::mpsc::{Receiver, Sender, channel};

/// The most links of a session.
const MOST_LINKS: usize = 32;
/// Slabs for pieces on their way, of all links. When none is free a piece goes through the client:
/// what has come may have to wait for the work of others, which may wait for what is to come.
const SLABS: usize = 128;
/// How long the client may take to say that a piece is to come which has: the word may be behind
/// others in the queue, or its own link may be lost.
const LATE: Duration = Duration::from_secs(60);

/// Memory for a piece.
pub struct Room {
    at: u64,
    len: usize,
    _kept: Arc<dyn Any + Send + Sync>,
}

impl Room {
    /// Memory that `kept` keeps.
    ///
    /// # Safety
    /// `len` bytes at `at` are nobody else's, and stay readable and writable until `kept` is
    /// dropped.
    pub unsafe fn new(at: u64, len: usize, kept: Arc<dyn Any + Send + Sync>) -> Self {
        let _kept = kept;
        Self { at, len, _kept }
    }

    /// Where it is.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the promise of `new`; nobody writes while this is borrowed.
        unsafe { std::slice::from_raw_parts(self.at as *const u8, self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the promise of `new`.
        unsafe { std::slice::from_raw_parts_mut(self.at as *mut u8, self.len) }
    }
}

/// Has a link's connection take another path, if there is one; it may wait for the other end.
pub type Mover = Box<dyn FnOnce(Arc<dyn Connection>) -> Arc<dyn Connection> + Send>;

/// Hears what has become of a piece, once.
pub type Told = Box<dyn FnOnce(Came) + Send>;

/// A piece that the client has said is to come.
enum Piece {
    /// Nobody wants the bytes of one without a room.
    Expected(Option<Room>, Told),
    /// Its bytes are being received.
    Coming,
    Here(Room),
}

#[derive(Default)]
struct State {
    pieces: HashMap<u64, Piece>,
    over: bool,
}

/// What is to be sent.
enum Out {
    Bytes(u64, Room),
    Unread(u64),
}

/// How many links there are of a session, and how many of them are on RDMA.
#[derive(Clone, Default)]
pub struct Counters {
    /// All.
    pub links: Counter,
    /// See [`Path::Rdma`].
    pub on_rdma: Counter,
}

/// One end of a link.
pub struct Link {
    /// Until the link is lost.
    conn: Mutex<Option<Arc<dyn Connection>>>,
    state: Mutex<State>,
    expects: Condvar,
    out: Mutex<Option<Sender<Out>>>,
    counters: Counters,
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.into());
    thread.stack_size(256 << 10).spawn(run).map(drop)
}

impl Link {
    /// An end of a link, over a connection whose hello is done, and its threads. What pieces lie in
    /// is told to it as `kept`.
    pub fn start(
        conn: Arc<dyn Connection>,
        mover: Option<Mover>,
        kept: Arc<Kept>,
        counters: Counters,
    ) -> io::Result<Arc<Self>> {
        let (tx, rx) = channel();
        counters.links.up();
        let link = Arc::new(Self {
            conn: Mutex::new(Some(conn.clone())),
            state: Mutex::default(),
            expects: Condvar::new(),
            out: Mutex::new(Some(tx)),
            counters,
        });
        let end = link.clone();
        let run = move || {
            // Whatever it was that ended it: the client hears of it, and goes on without.
            let _ = end.run(conn, mover, &kept, rx);
            end.fail();
        };
        thread("link-in", run).inspect_err(|_| link.fail())?;
        Ok(link)
    }

    /// Moves the connection, and goes on with it until it ends.
    fn run(
        self: &Arc<Self>,
        conn: Arc<dyn Connection>,
        mover: Option<Mover>,
        kept: &Arc<Kept>,
        out: Receiver<Out>,
    ) -> io::Result<()> {
        let conn = match mover {
            Some(mover) => mover(conn),
            None => conn,
        };
        {
            let mut place = lock(&self.conn);
            if place.is_none() {
                // Lost meanwhile.
                conn.shutdown();
                return Ok(());
            }
            *place = Some(conn.clone());
            if conn.path() == Path::Rdma {
                self.counters.on_rdma.up();
            }
        }
        conn.attend(kept);
        let (me, to) = (self.clone(), conn.clone());
        thread("link-out", move || me.pass_on(&*to, &out))?;
        self.receive_all(&*conn)
    }

    /// What its bytes pass.
    fn path(&self) -> Path {
        let conn = lock(&self.conn);
        conn.as_ref().map_or(Path::Tcp, |c| c.path())
    }

    /// Sends a piece; whether the link lives, as far as is known.
    pub fn send(&self, piece: u64, room: Room) -> bool {
        self.put(Out::Bytes(piece, room))
    }

    /// Says that a piece could not be read.
    pub fn unread(&self, piece: u64) -> bool {
        self.put(Out::Unread(piece))
    }

    fn put(&self, out: Out) -> bool {
        let tx = lock(&self.out);
        tx.as_ref().is_some_and(|tx| tx.send(out).is_ok())
    }

    /// A piece is to come, and to be put into this room, if there is one. `told` is called once.
    pub fn expect(&self, piece: u64, room: Option<Room>, told: Told) {
        let mut s = lock(&self.state);
        if s.over || s.pieces.len() >= LINK_PIECES || s.pieces.contains_key(&piece) {
            drop(s);
            return told(Came::Lost);
        }
        s.pieces.insert(piece, Piece::Expected(room, told));
        self.expects.notify_all();
    }

    /// Takes a piece that has come.
    pub fn take(&self, piece: u64) -> Option<Room> {
        let mut s = lock(&self.state);
        match s.pieces.remove(&piece)? {
            Piece::Here(room) => Some(room),
            other => {
                s.pieces.insert(piece, other);
                None
            }
        }
    }

    /// The link is lost, or is not to be used any more. What has come stays.
    pub fn fail(&self) {
        // With it go the places of pieces that the other end has not taken.
        let conn = lock(&self.conn).take();
        if let Some(conn) = conn {
            conn.shutdown();
            if conn.path() == Path::Rdma {
                self.counters.on_rdma.down();
            }
        }
        *lock(&self.out) = None;
        let mut s = lock(&self.state);
        if !std::mem::replace(&mut s.over, true) {
            self.counters.links.down();
        }
        let lost = s.pieces.extract_if(|_, p| matches!(p, Piece::Expected(..)));
        let lost: Vec<_> = lost.collect();
        drop(s);
        self.expects.notify_all();
        for (_, p) in lost {
            if let Piece::Expected(_, told) = p {
                told(Came::Lost);
            }
        }
    }

    /// Whether it is lost, and nothing that has come is left.
    fn is_spent(&self) -> bool {
        let s = lock(&self.state);
        s.over && s.pieces.is_empty()
    }

    fn receive_all(&self, conn: &dyn Connection) -> io::Result<()> {
        loop {
            let mut head = [0; HEAD];
            conn.recv_exact(&mut head)?;
            let head = Head::parse(&head).map_err(bad)?;
            let (mut room, told) = self.expected(head.piece)?;
            let received = match (head.len, &mut room) {
                (None, _) => Ok(Came::Unread),
                (Some(len), Some(room)) if len == room.len => {
                    let received = conn.recv_exact(room.bytes_mut());
                    received.map(|()| Came::Whole)
                }
                (Some(len), None) => {
                    let received = conn.recv_exact(&mut vec![0; len]);
                    received.map(|()| Came::NoRoom)
                }
                _ => Err(bad("a piece of another length")),
            };
            let mut s = lock(&self.state);
            s.pieces.remove(&head.piece);
            if let (Ok(Came::Whole), Some(room)) = (&received, room) {
                s.pieces.insert(head.piece, Piece::Here(room));
            }
            drop(s);
            told(*received.as_ref().unwrap_or(&Came::Lost));
            received?;
        }
    }

    /// Waits for the client to say that a piece is to come, and gives its room: while its bytes are
    /// received nobody else has that.
    fn expected(&self, piece: u64) -> io::Result<(Option<Room>, Told)> {
        let until = Instant::now() + LATE;
        let mut s = lock(&self.state);
        loop {
            match s.pieces.get(&piece) {
                Some(Piece::Expected(..)) => break,
                Some(_) => return Err(bad("a piece that has come")),
                None if s.over => return Err(ErrorKind::ConnectionAborted.into()),
                None => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            let waited = self.expects.wait_timeout(s, left);
            s = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        match s.pieces.insert(piece, Piece::Coming) {
            Some(Piece::Expected(room, told)) => Ok((room, told)),
            _ => Err(bad("a piece that nobody expects")),
        }
    }

    fn pass_on(&self, to: &dyn Connection, all: &Receiver<Out>) {
        for out in all {
            let sent = match out {
                Out::Bytes(piece, room) => {
                    let len = Some(room.len);
                    let head = Head { piece, len }.to_bytes();
                    // The piece's place is another's when its bytes have left it.
                    let room = Arc::new(room);
                    let mut parts = [IoSlice::new(&head), IoSlice::new(room.bytes())];
                    to.send_held(&mut parts, room.clone() as Held)
                }
                Out::Unread(piece) => {
                    let head = Head { piece, len: None }.to_bytes();
                    to.send(&mut [IoSlice::new(&head)])
                }
            };
            if sent.is_err() {
                break;
            }
        }
        self.fail();
    }
}

fn bad(why: impl ToString) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.to_string())
}

/// The links of a session. Cheap to clone.
#[derive(Clone)]
pub struct Links {
    all: Arc<Mutex<HashMap<u32, Arc<Link>>>>,
    arena: Arena,
    known: Arc<Known>,
    counters: Counters,
}

/// The memory for pieces, as connections know it, for as long as there are links.
struct Known {
    kept: Arc<Kept>,
    arena: Arena,
}

impl Known {
    fn new(arena: Arena) -> Self {
        let kept = Arc::<Kept>::default();
        // SAFETY: forgotten below, before the arena goes. A slab is another piece's when nobody
        // holds it any more, which `send_held` waits for.
        unsafe { kept.keep(arena.memory()) };
        Self { kept, arena }
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        self.kept.forget(self.arena.memory().start as usize);
    }
}

impl Links {
    /// None yet; those that live are counted.
    pub fn new(counters: Counters) -> io::Result<Self> {
        let arena = Arena::new(SLABS)?;
        Ok(Self {
            all: Arc::default(),
            known: Arc::new(Known::new(arena.clone())),
            arena,
            counters,
        })
    }

    /// A link under the client's number, which no other has, over a connection whose hello is done.
    pub fn add(
        &self,
        number: u32,
        conn: Arc<dyn Connection>,
        mover: Option<Mover>,
    ) -> io::Result<()> {
        let mut all = lock(&self.all);
        all.retain(|_, link| !link.is_spent());
        if all.len() >= MOST_LINKS || all.contains_key(&number) {
            return Err(bad("the session has such a link, or too many"));
        }
        let (kept, counters) = (self.known.kept.clone(), self.counters.clone());
        all.insert(number, Link::start(conn, mover, kept, counters)?);
        Ok(())
    }

    /// Ends those that are on RDMA: their sessions open others.
    pub fn leave_rdma(&self) {
        let links: Vec<_> = lock(&self.all).values().cloned().collect();
        let on = links.iter().filter(|l| l.path() == Path::Rdma);
        on.for_each(|l| l.fail());
    }

    /// The link of a number.
    pub fn get(&self, number: u32) -> Option<Arc<Link>> {
        lock(&self.all).get(&number).cloned()
    }

    /// Ends a link; what has come over it and has not been taken is gone.
    pub fn end(&self, number: u32) {
        let link = lock(&self.all).remove(&number);
        if let Some(link) = link {
            link.fail();
        }
    }

    /// The memory for pieces, for an API that makes it known to its driver.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// A slab of that memory for a piece of `len` bytes, if one is free.
    pub fn room(&self, len: usize) -> Option<Room> {
        let slab = self.arena.try_take().filter(|_| len <= LINK_PIECE)?;
        let at = slab.ptr() as u64;
        // SAFETY: a slab has at least as many bytes as a piece, and is one owner's while it lasts.
        Some(unsafe { Room::new(at, len, Arc::new(slab)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_transport::mem;
    use busbar_transport::rdma::soft::Fabric;
    use busbar_transport::rdma::{Means, Outcome, offer, take};
    use busbar_transport::tcp::Tcp;

    /// Two ends, and room for pieces.
    fn ends() -> ([Arc<Link>; 2], Links) {
        let (a, b) = mem::pair();
        let all = links();
        ([start(Arc::new(a), &all), start(Arc::new(b), &all)], all)
    }

    fn links() -> Links {
        Links::new(Counters::default()).unwrap()
    }

    fn start(conn: Arc<dyn Connection>, of: &Links) -> Arc<Link> {
        Link::start(conn, None, of.known.kept.clone(), Counters::default()).unwrap()
    }

    fn filled(all: &Links, len: usize, with: u8) -> Room {
        let mut room = all.room(len).unwrap();
        room.bytes_mut().fill(with);
        room
    }

    /// Has a piece expected; what becomes of it comes here.
    fn expect(link: &Link, all: &Links, piece: u64, len: usize) -> Receiver<Came> {
        let (tx, rx) = channel();
        let told = Box::new(move |came| tx.send(came).unwrap());
        link.expect(piece, Some(all.room(len).unwrap()), told);
        rx
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn pieces_come_whole_in_whatever_order_they_are_expected() {
        let ([a, b], all) = ends();
        assert!(a.send(1, filled(&all, 5000, 1)));
        assert!(a.unread(2));
        assert!(a.send(3, filled(&all, LINK_PIECE, 3)));
        let third = expect(&b, &all, 3, LINK_PIECE);
        let second = expect(&b, &all, 2, 10);
        let first = expect(&b, &all, 1, 5000);
        assert_eq!(first.recv_timeout(LONG), Ok(Came::Whole));
        assert_eq!(second.recv_timeout(LONG), Ok(Came::Unread));
        assert_eq!(third.recv_timeout(LONG), Ok(Came::Whole));
        assert!(b.take(2).is_none());
        for (piece, len) in [(1, 5000), (3, LINK_PIECE)] {
            let room = b.take(piece).unwrap();
            assert!(room.len() == len && room.bytes().iter().all(|x| *x == piece as u8));
            assert!(b.take(piece).is_none(), "it is taken once");
        }
        // The other way over the same link.
        let back = expect(&a, &all, 1, 1);
        assert!(b.send(1, filled(&all, 1, 9)));
        assert_eq!(back.recv_timeout(LONG), Ok(Came::Whole));
        assert_eq!(a.take(1).unwrap().bytes(), [9]);
    }

    #[test]
    fn what_a_lost_link_has_not_brought_is_said_to_be_lost() {
        let ([a, b], all) = ends();
        let first = expect(&b, &all, 1, 100);
        let second = expect(&b, &all, 2, 100);
        assert!(a.send(1, filled(&all, 100, 1)));
        assert_eq!(first.recv_timeout(LONG), Ok(Came::Whole));
        a.fail();
        assert_eq!(second.recv_timeout(LONG), Ok(Came::Lost));
        let late = expect(&b, &all, 3, 100);
        assert_eq!(late.recv_timeout(LONG), Ok(Came::Lost));
        assert!(!a.send(3, filled(&all, 100, 1)));
        assert_eq!(b.take(1).unwrap().bytes(), [1; 100], "what has come stays");
        assert!(b.take(2).is_none());
    }

    #[test]
    fn a_peer_that_says_what_nobody_expects_loses_the_link() {
        let head = |piece, len| Head { piece, len }.to_bytes().to_vec();
        let mut of_no_sense = head(1, Some(100));
        of_no_sense[12] = 7;
        let longer = head(1, Some(101));
        let twice = [head(1, Some(100)), vec![5; 100], head(1, Some(100))].concat();
        let cut = [head(1, Some(100)), vec![5; 50]].concat();
        for (says, came) in [
            (of_no_sense, Came::Lost),
            (longer, Came::Lost),
            (twice, Came::Whole),
            (cut, Came::Lost),
        ] {
            let (a, b) = mem::pair();
            let all = links();
            let b = start(Arc::new(b), &all);
            let told = expect(&b, &all, 1, 100);
            let other = expect(&b, &all, 2, 100);
            a.send(&mut [IoSlice::new(&says)]).unwrap();
            if came == Came::Lost && says.len() == HEAD + 50 {
                a.shutdown();
            }
            assert_eq!(told.recv_timeout(LONG), Ok(came));
            assert_eq!(other.recv_timeout(LONG), Ok(Came::Lost));
        }
    }

    #[test]
    fn a_piece_without_room_keeps_no_other_back() {
        let ([a, b], all) = ends();
        let (tx, without) = channel();
        b.expect(1, None, Box::new(move |came| tx.send(came).unwrap()));
        let other = expect(&b, &all, 2, 10);
        assert!(a.send(1, filled(&all, 100, 1)) && a.send(2, filled(&all, 10, 2)));
        assert_eq!(without.recv_timeout(LONG), Ok(Came::NoRoom));
        assert_eq!(other.recv_timeout(LONG), Ok(Came::Whole));
        assert!(b.take(1).is_none() && b.take(2).is_some());
    }

    #[test]
    fn a_session_has_so_many_links_and_each_number_once() {
        let all = links();
        let mut kept = Vec::new();
        let mut add = |n| {
            let (a, b) = mem::pair();
            kept.push(a);
            all.add(n, Arc::new(b), None).is_ok()
        };
        assert!(add(7) && !add(7));
        assert!((100..).take(MOST_LINKS - 1).all(&mut add));
        assert!(!add(8));
        all.end(7);
        assert!(add(8));
        assert!(all.get(7).is_none() && all.get(8).is_some());
    }

    /// The two ends of a connection that both say `mover`s for, as two servers' workers have them.
    fn moving(fabric: &Fabric) -> [(Arc<dyn Connection>, Option<Mover>); 2] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let here = Tcp::connect(&at, LONG).unwrap();
        let there = Tcp::new(listener.accept().unwrap().0).unwrap();
        type Part = fn(Arc<dyn Connection>, &Means<'_>) -> Outcome;
        let mover = |run: Part| -> Option<Mover> {
            let device = fabric.device();
            Some(Box::new(move |conn| {
                let (device, plain) = (Ok(&*device), false);
                run(conn, &Means { device, plain }).conn
            }))
        };
        [
            (Arc::new(here), mover(offer)),
            (Arc::new(there), mover(take)),
        ]
    }

    #[test]
    fn pieces_are_read_in_place_where_both_ends_have_an_adapter() {
        let fabric = Fabric::default();
        // Each end is a worker of its own.
        let workers = [(); 2].map(|()| links());
        let mut ends = moving(&fabric).into_iter();
        for w in &workers {
            let (conn, mover) = ends.next().unwrap();
            w.add(1, conn, mover).unwrap();
        }
        let [a, b] = workers.each_ref().map(|w| w.get(1).unwrap());
        // Far more than there are slabs, so that each is used again and again; both ways.
        let pieces = 3 * SLABS as u64;
        let filled = |w: &Links, len, with| loop {
            if let Some(mut room) = w.room(len) {
                room.bytes_mut().fill(with);
                return room;
            }
            std::thread::yield_now();
        };
        let way = |from: &Link, [mine, theirs]: [&Links; 2], to: &Link| {
            for piece in 0..pieces {
                let len = LINK_PIECE - piece as usize;
                let came = expect(to, theirs, piece, len);
                assert!(from.send(piece, filled(mine, len, piece as u8)));
                assert_eq!(came.recv_timeout(LONG), Ok(Came::Whole), "piece {piece}");
                let room = to.take(piece).unwrap();
                assert!(room.len() == len && room.bytes().iter().all(|x| *x == piece as u8));
            }
        };
        let [one, other] = &workers;
        std::thread::scope(|s| {
            s.spawn(|| way(&a, [one, other], &b));
            s.spawn(|| way(&b, [other, one], &a));
        });
        for w in &workers {
            let all = pieces * (LINK_PIECE as u64 - pieces);
            assert!(
                w.known.kept.moved().iter().all(|n| *n > all),
                "not in place"
            );
            assert_eq!(w.counters.on_rdma.count(), 1);
            // Each place is free again, though nothing more is sent.
            let free = || (0..SLABS).map_while(|_| w.room(1)).count();
            while free() < SLABS {
                std::thread::yield_now();
            }
        }
        one.leave_rdma();
        let lost = expect(&b, other, 7, 10);
        assert_eq!(lost.recv_timeout(LONG), Ok(Came::Lost));
        assert!(!a.send(8, filled(one, 10, 1)));
        drop((a, b, workers));
        while fabric.pairs() + fabric.registered() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_link_that_cannot_move_goes_on_over_tcp() {
        let fabric = Fabric::default();
        fabric.cut(true);
        let all = links();
        let kept = || all.known.kept.clone();
        let ends = moving(&fabric)
            .map(|(conn, mover)| Link::start(conn, mover, kept(), all.counters.clone()).unwrap());
        let [a, b] = ends;
        let came = expect(&b, &all, 1, LINK_PIECE);
        assert!(a.send(1, filled(&all, LINK_PIECE, 5)));
        assert_eq!(came.recv_timeout(LONG), Ok(Came::Whole));
        assert!(b.take(1).unwrap().bytes().iter().all(|x| *x == 5));
        assert_eq!(
            (all.counters.links.count(), all.counters.on_rdma.count()),
            (2, 0)
        );
        a.fail();
        let lost = expect(&b, &all, 2, 10);
        assert_eq!(lost.recv_timeout(LONG), Ok(Came::Lost));
        assert_eq!(all.counters.links.count(), 0);
    }
}
