//! Sockets between the ranks of a job, which its servers make: a worker's cell has a network in
//! which there is nobody, and a worker is handed connections that are open already (ADR 0038).
//!
//! Each connection begins with a few bytes between the two servers, by which each knows that the
//! other serves the same job. What a worker says is where to, and no byte gets there of its own
//! before that. Afterwards the servers have no part in it.

use super::greeting::Greetings;
use super::reach::may_be_dialled;
use busbar_control::attach::{Lent, Wanted};
use busbar_transport::{handover, tcp};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The first bytes of a connection, from whoever takes it.
const MAGIC: &[u8; 16] = b"busbar socket 1\n";
/// What the names of leases are made into keys with.
const OF_A_LEASE: &str = "busbar 2026 the sockets of a lease's ranks";
/// And what ranks have in common that reach none at other servers.
const OF_ONE_SERVER: &str = "busbar 2026 the sockets of ranks at one server";
/// The two proofs.
const DIALS: u8 = 1;
const TAKES: u8 = 2;
/// How long it may take to reach the other server, and for the two to have their say.
const DIAL_TIME: Duration = Duration::from_secs(8);
/// A peer that says nothing for so long is asked whether it is there, so often, so many times; what
/// was sent and is not acknowledged for as long as that takes is lost, too.
const IDLE: i32 = 5;
const PROBES: i32 = 3;
const LOST_MS: i32 = 20_000;
/// The most sockets that listen and connections that begin, of a session and of all.
const MOST: usize = 1024;
const MOST_OF_ALL: usize = 4096;
/// How long nothing is accepted after that has failed.
const PAUSE: Duration = Duration::from_millis(50);
/// The stack of a thread that only waits.
const STACK: usize = 256 << 10;

type Nonce = [u8; 32];

/// What the sockets of all sessions are made with.
pub(crate) struct Exchange {
    /// What only this server knows.
    secret: Zeroizing<String>,
    /// Who connects is a stranger until it has shown that it serves the job: as at the server's
    /// own address.
    strangers: Greetings,
    busy: Arc<AtomicUsize>,
}

/// What a session's sockets are made with.
pub(crate) struct Sockets {
    key: [u8; 32],
    /// Where other servers reach this one's workers.
    at: IpAddr,
    /// Whether they are connected to workers of this server alone.
    near: bool,
    strangers: Greetings,
    /// How many are at work, of the session's and of all.
    busy: [Arc<AtomicUsize>; 2],
}

/// A place among those that are at work.
struct Place(Arc<Sockets>);

impl Drop for Place {
    fn drop(&mut self) {
        for busy in &self.0.busy {
            busy.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A socket of the kernel's, with the bounds that each has.
fn bounded(conn: &TcpStream) -> io::Result<()> {
    conn.set_nodelay(true)?;
    let set = |level: i32, name: i32, value: i32| {
        let size = size_of::<i32>() as libc::socklen_t;
        // SAFETY: an open socket, and a pointer to a live number.
        let done = unsafe {
            let value = (&raw const value).cast();
            libc::setsockopt(conn.as_raw_fd(), level, name, value, size)
        };
        match done {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, IDLE)?;
    set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, IDLE)?;
    set(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, PROBES)?;
    set(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, LOST_MS)
}

fn nonce() -> io::Result<Nonce> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| io::Error::other(e.to_string()))?;
    Ok(bytes)
}

/// Reads so many bytes, which have come by then however they come.
fn read<const N: usize>(conn: &mut TcpStream, until: Instant) -> io::Result<[u8; N]> {
    let (mut bytes, mut there) = ([0; N], 0);
    while there < N {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        conn.set_read_timeout(Some(left))?;
        match conn.read(&mut bytes[there..])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => there += n,
        }
    }
    Ok(bytes)
}

fn refused() -> io::Error {
    ErrorKind::ConnectionRefused.into()
}

fn no(to: &OwnedFd, errno: i32) {
    let _ = handover::send(to, &Lent::No { errno }.to_json(), None);
}

/// Does what a worker asks for with its session's sockets, and says so over `to`. A worker that may
/// have none is not believed that it may.
pub(super) fn serve(sockets: Option<Arc<Sockets>>, wanted: Wanted, to: OwnedFd) {
    match sockets {
        Some(sockets) => sockets.serve(wanted, to),
        None => no(&to, libc::EPERM),
    }
}

impl Exchange {
    /// A new one; `strangers` are all that the server has.
    pub(super) fn new(strangers: Greetings) -> anyhow::Result<Self> {
        Ok(Self {
            secret: crate::vault::random(32)?,
            strangers,
            busy: Arc::default(),
        })
    }

    /// For the sessions of a lease, at all its servers.
    pub(super) fn of_lease(&self, lease: &str, at: IpAddr) -> Arc<Sockets> {
        self.with(blake3::derive_key(OF_A_LEASE, lease.as_bytes()), Some(at))
    }

    /// For sessions at this server that have something in common.
    pub(super) fn of_here(&self, common: &str) -> Arc<Sockets> {
        let all = Zeroizing::new([self.secret.as_bytes(), common.as_bytes()].concat());
        let key = blake3::derive_key(OF_ONE_SERVER, &all);
        self.with(key, None)
    }

    fn with(&self, key: [u8; 32], at: Option<IpAddr>) -> Arc<Sockets> {
        Arc::new(Sockets {
            key,
            at: at.unwrap_or(Ipv4Addr::LOCALHOST.into()).to_canonical(),
            near: at.is_none(),
            strangers: self.strangers.clone(),
            busy: [Arc::default(), self.busy.clone()],
        })
    }
}

impl Sockets {
    /// By this one of the two shows that it has the key.
    fn proof(&self, what: u8, taker: &Nonce, dialler: &Nonce) -> blake3::Hash {
        let mut hash = blake3::Hasher::new_keyed(&self.key);
        hash.update(&[what]).update(taker).update(dialler);
        hash.finalize()
    }

    /// Whoever has dialled shows that it serves the job.
    fn take(&self, conn: &mut TcpStream, until: Instant) -> io::Result<()> {
        let ours = nonce()?;
        conn.write_all(&[&MAGIC[..], &ours].concat())?;
        let (theirs, shown) = (read::<32>(conn, until)?, read::<32>(conn, until)?);
        // Equality of hashes takes the same time whatever they are.
        if self.proof(DIALS, &ours, &theirs) != blake3::Hash::from(shown) {
            return Err(refused());
        }
        conn.write_all(self.proof(TAKES, &ours, &theirs).as_bytes())?;
        conn.set_read_timeout(None)?;
        bounded(conn)
    }

    /// A connection to a worker of the job.
    fn dial(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let far = || !self.near && may_be_dialled(to.ip(), self.at.is_loopback());
        if to.ip() != self.at && !far() {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let until = Instant::now() + DIAL_TIME;
        let mut conn = TcpStream::connect_timeout(&to, DIAL_TIME)?;
        if read::<16>(&mut conn, until)? != *MAGIC {
            return Err(refused());
        }
        let (theirs, ours) = (read::<32>(&mut conn, until)?, nonce()?);
        let shown = self.proof(DIALS, &theirs, &ours);
        conn.write_all(&[&ours[..], shown.as_bytes()].concat())?;
        let back = read::<32>(&mut conn, until)?;
        if self.proof(TAKES, &theirs, &ours) != blake3::Hash::from(back) {
            return Err(refused());
        }
        conn.set_read_timeout(None)?;
        bounded(&conn)?;
        Ok(conn)
    }

    fn enter(self: &Arc<Self>) -> Option<Place> {
        let place = Place(self.clone());
        let limits = self.busy.iter().zip([MOST, MOST_OF_ALL]);
        let full = limits.filter(|(busy, most)| busy.fetch_add(1, Ordering::AcqRel) >= *most);
        (full.count() == 0).then_some(place)
    }

    /// Runs `f` on a thread of its own, if there is a place for it.
    fn begin(self: &Arc<Self>, f: impl FnOnce(&Self) + Send + 'static) -> bool {
        let Some(place) = self.enter() else {
            return false;
        };
        let thread = std::thread::Builder::new().name("sockets".into());
        thread.stack_size(STACK).spawn(move || f(&place.0)).is_ok()
    }

    fn serve(self: &Arc<Self>, wanted: Wanted, to: OwnedFd) {
        let failed = |to: &OwnedFd, e: &io::Error| {
            no(to, e.raw_os_error().unwrap_or(libc::ECONNREFUSED));
        };
        let to = Arc::new(to);
        let (me, ours) = (self.clone(), to.clone());
        let begun = self.begin(move |sockets| match wanted {
            Wanted::Listen => match TcpListener::bind((sockets.at, 0)) {
                Ok(listener) => me.listen(&listener, &ours),
                Err(e) => failed(&ours, &e),
            },
            Wanted::Connect(address) => match sockets.dial(address) {
                Ok(conn) => {
                    let conn = [OwnedFd::from(conn)];
                    let _ = handover::send(&ours, &Lent::Connected.to_json(), &conn);
                }
                Err(e) => failed(&ours, &e),
            },
        });
        if !begun {
            no(&to, libc::EAGAIN);
        }
    }

    /// Takes connections for a worker until that closes its end.
    fn listen(self: &Arc<Self>, listener: &TcpListener, to: &Arc<OwnedFd>) {
        tcp::hold_many(listener);
        // Somebody may have come and gone again.
        let at = listener.set_nonblocking(true);
        let Ok(at) = at.and_then(|()| listener.local_addr()) else {
            return;
        };
        if handover::send(to, &Lent::At(at).to_json(), None).is_err() {
            return;
        }
        loop {
            let _ = busbar_transport::wait_readable(&[listener.as_fd(), to.as_fd()], None);
            if is_closed(to) {
                return;
            }
            match listener.accept() {
                Ok((conn, _)) => self.welcome(conn, to),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                // It would be asked without end: whoever waits is there still.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Hands a connection to the worker if whoever has made it shows that it serves the job.
    fn welcome(self: &Arc<Self>, mut conn: TcpStream, to: &Arc<OwnedFd>) {
        let Some(guest) = self.strangers.enter(&conn, Instant::now() + DIAL_TIME) else {
            return;
        };
        let to = to.clone();
        self.begin(move |sockets| {
            let known = sockets.take(&mut conn, guest.until());
            drop(guest);
            if known.is_ok() {
                let conn = [OwnedFd::from(conn)];
                let _ = handover::send(&to, &Lent::Connected.to_json(), &conn);
            }
        });
    }
}

/// Whether the other end is closed: a worker says nothing here.
fn is_closed(to: &OwnedFd) -> bool {
    let mut byte = 0u8;
    // SAFETY: an open socket, and a pointer to a live byte.
    let n = unsafe {
        let at = (&raw mut byte).cast();
        libc::recv(to.as_raw_fd(), at, 1, libc::MSG_DONTWAIT)
    };
    n >= 0 || io::Error::last_os_error().kind() != ErrorKind::WouldBlock
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> IpAddr {
        IpAddr::from([127, 0, 0, 1])
    }

    fn exchange() -> Exchange {
        Exchange::new(Greetings::default()).unwrap()
    }

    fn of_lease(lease: &str, at: IpAddr) -> Arc<Sockets> {
        exchange().of_lease(lease, at)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn listening(sockets: &Arc<Sockets>) -> (OwnedFd, SocketAddr) {
        let (ours, theirs) = handover::pair().unwrap();
        sockets.serve(Wanted::Listen, theirs);
        let (said, _) = handover::recv(&ours).unwrap().unwrap();
        match serde_json::from_slice(&said).unwrap() {
            Lent::At(at) => (ours, at),
            other => panic!("{other:?}"),
        }
    }

    fn connect(sockets: &Arc<Sockets>, to: SocketAddr) -> Result<TcpStream, i32> {
        let (ours, theirs) = handover::pair().unwrap();
        sockets.serve(Wanted::Connect(to), theirs);
        let (said, fd) = handover::recv(&ours).unwrap().unwrap();
        match serde_json::from_slice(&said).unwrap() {
            Lent::Connected => Ok(TcpStream::from(fd.unwrap())),
            Lent::No { errno } => Err(errno),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn those_of_a_lease_reach_each_other_and_nobody_else() {
        let (a, b) = (of_lease("one", here()), of_lease("one", here()));
        let other = of_lease("two", here());
        let (door, at) = listening(&a);
        assert!(connect(&other, at).is_err(), "of another lease");
        let mut conn = connect(&b, at).unwrap();
        let (said, fd) = handover::recv(&door).unwrap().unwrap();
        assert_eq!(
            serde_json::from_slice::<Lent>(&said).unwrap(),
            Lent::Connected
        );
        let mut taken = TcpStream::from(fd.unwrap());
        conn.write_all(b"x").unwrap();
        assert_eq!(read::<1>(&mut taken, soon()).unwrap(), *b"x");
        // Nobody listens any more once the worker has closed its end.
        drop(door);
        while TcpStream::connect(at).is_ok() {
            std::thread::yield_now();
        }
    }

    /// A communicator's ranks all dial the one that has made its id. Who is sent away, for so many
    /// are strangers at once, comes again, as NCCL does.
    #[test]
    fn all_ranks_of_a_large_job_reach_one_at_once() {
        const RANKS: usize = 512;
        let (root, others) = (of_lease("one", here()), of_lease("one", here()));
        let (door, at) = listening(&root);
        let came = std::thread::spawn(move || {
            let each = (0..RANKS).map(|_| handover::recv(&door).unwrap().unwrap());
            each.filter(|(_, fd)| fd.is_some()).count()
        });
        let start = Instant::now();
        std::thread::scope(|s| {
            let dial = || {
                while let Err(errno) = connect(&others, at) {
                    assert_eq!(errno, libc::ECONNREFUSED);
                    std::thread::yield_now();
                }
            };
            (0..RANKS).for_each(|_| drop(s.spawn(dial)));
        });
        assert_eq!(came.join().unwrap(), RANKS);
        println!("{RANKS} ranks: {:?}", start.elapsed());
    }

    #[test]
    fn a_stranger_gets_no_byte_of_whoever_dials_it() {
        let stranger = TcpListener::bind((here(), 0)).unwrap();
        let at = stranger.local_addr().unwrap();
        let heard = std::thread::spawn(move || {
            let (mut conn, _) = stranger.accept().unwrap();
            conn.write_all(b"220 some other service, at your service, at any time it is")
                .unwrap();
            let mut all = Vec::new();
            let _ = conn.read_to_end(&mut all);
            all
        });
        let sockets = of_lease("one", here());
        assert_eq!(connect(&sockets, at).err(), Some(libc::ECONNREFUSED));
        assert_eq!(heard.join().unwrap(), b"");
    }

    #[test]
    fn nothing_is_dialled_that_no_client_may_have_dialled() {
        let far = of_lease("one", IpAddr::from([192, 0, 2, 1]));
        for bad in ["127.0.0.1:22", "169.254.169.254:80", "0.0.0.0:1"] {
            assert!(connect(&far, bad.parse().unwrap()).is_err(), "{bad}");
        }
    }

    #[test]
    fn who_may_have_no_link_reaches_its_own_server_alone() {
        let elsewhere = TcpListener::bind(("127.0.0.2", 0)).unwrap();
        elsewhere.set_nonblocking(true).unwrap();
        let to = elsewhere.local_addr().unwrap();
        let (ours, others) = (exchange(), exchange());
        let sockets = ours.of_here("a");
        assert_eq!(connect(&sockets, to).err(), Some(libc::ECONNREFUSED));
        let came = elsewhere.accept().map_err(|e| e.kind());
        assert_eq!(came.err(), Some(ErrorKind::WouldBlock), "it was dialled");
        let (_door, at) = listening(&sockets);
        connect(&ours.of_here("a"), at).unwrap();
        assert!(connect(&ours.of_here("b"), at).is_err());
        assert!(connect(&others.of_here("a"), at).is_err(), "another server");
    }

    #[test]
    fn bytes_that_come_one_by_one_have_one_deadline() {
        let listener = TcpListener::bind((here(), 0)).unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut conn = listener.accept().unwrap().0;
        let over = std::thread::spawn(move || {
            // Each of its receives ends with a byte.
            while slow.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let until = Instant::now() + Duration::from_millis(200);
        assert!(read::<4096>(&mut conn, until).is_err());
        drop(conn);
        over.join().unwrap();
    }

    #[test]
    fn strangers_who_say_nothing_do_not_keep_a_rank_out() {
        let (a, b) = (of_lease("one", here()), of_lease("one", here()));
        let (_door, at) = listening(&a);
        let silent: Vec<_> = (0..MOST + 200)
            .map(|_| TcpStream::connect(at).unwrap())
            .collect();
        connect(&b, at).unwrap();
        assert!(a.busy[0].load(Ordering::Acquire) < MOST);
        drop(silent);
    }

    #[test]
    fn a_worker_that_may_have_no_sockets_gets_none() {
        for wanted in [Wanted::Listen, Wanted::Connect((here(), 1).into())] {
            let (ours, theirs) = handover::pair().unwrap();
            serve(None, wanted, theirs);
            let (said, fd) = handover::recv(&ours).unwrap().unwrap();
            let no = serde_json::from_slice::<Lent>(&said).unwrap();
            assert_eq!((no, fd.is_none()), (Lent::No { errno: libc::EPERM }, true));
        }
    }
}
