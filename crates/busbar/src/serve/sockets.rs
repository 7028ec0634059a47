//! Sockets between the ranks of a job, which its servers make: a worker's cell has a network in
//! which there is nobody, and a worker is handed connections that are open already (ADR 0038).
//!
//! Each connection begins with a few bytes between the two servers, by which each knows that the
//! other serves the same job. What a worker says is where to, and no byte gets there of its own
//! before that. Afterwards the servers have no part in it.

use super::reach::may_be_dialled;
use busbar_control::attach::{Lent, Wanted};
use busbar_transport::handover;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use zeroize::Zeroizing;

/// The first bytes of a connection, from whoever takes it.
const MAGIC: &[u8; 16] = b"busbar socket 1\n";
/// What the names of leases are made into keys with.
const OF_A_LEASE: &str = "busbar 2026 the sockets of a lease's ranks";
/// And who somebody is, where there is no lease.
const OF_A_TENANT: &str = "busbar 2026 the sockets of a tenant's ranks at one server";
/// The two proofs.
const DIALS: u8 = 1;
const TAKES: u8 = 2;
/// How long it may take to reach the other server, and for that one to say a word.
const DIAL_TIME: Duration = Duration::from_secs(8);
/// A peer that says nothing for so long is asked whether it is there, so often, so many times; what
/// was sent and is not acknowledged for as long as that takes is lost, too.
const IDLE: i32 = 5;
const PROBES: i32 = 3;
const LOST_MS: i32 = 20_000;
/// The most sockets that listen and connections that begin, of a session.
const MOST: usize = 1024;
/// The stack of a thread that only waits.
const STACK: usize = 256 << 10;

type Nonce = [u8; 32];

/// What only this server knows.
pub(crate) struct Secret(Zeroizing<String>);

impl Secret {
    /// A new one.
    pub(super) fn new() -> anyhow::Result<Self> {
        crate::vault::random(32).map(Self)
    }
}

/// What a session's sockets are made with.
pub(crate) struct Sockets {
    key: [u8; 32],
    /// Where other servers reach this one's workers.
    at: IpAddr,
    busy: AtomicUsize,
}

/// A place among those of a session that are at work.
struct Place(Arc<Sockets>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
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

fn read<const N: usize>(conn: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    conn.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn refused() -> io::Error {
    ErrorKind::ConnectionRefused.into()
}

impl Sockets {
    /// That of the sessions of a lease, at all its servers.
    pub(super) fn of_lease(lease: &str, at: IpAddr) -> Arc<Self> {
        Self::new(blake3::derive_key(OF_A_LEASE, lease.as_bytes()), at)
    }

    /// That of somebody's sessions at this server.
    pub(super) fn of_tenant(secret: &Secret, who: &str) -> Arc<Self> {
        let all = Zeroizing::new([secret.0.as_bytes(), who.as_bytes()].concat());
        let key = blake3::derive_key(OF_A_TENANT, &all);
        Self::new(key, IpAddr::from([127, 0, 0, 1]))
    }

    fn new(key: [u8; 32], at: IpAddr) -> Arc<Self> {
        let (at, busy) = (at.to_canonical(), AtomicUsize::new(0));
        Arc::new(Self { key, at, busy })
    }

    /// By this one of the two shows that it has the key.
    fn proof(&self, what: u8, taker: &Nonce, dialler: &Nonce) -> blake3::Hash {
        let mut hash = blake3::Hasher::new_keyed(&self.key);
        hash.update(&[what]).update(taker).update(dialler);
        hash.finalize()
    }

    /// Whoever has dialled shows that it serves the job.
    fn take(&self, conn: &mut TcpStream) -> io::Result<()> {
        let ours = nonce()?;
        conn.set_read_timeout(Some(DIAL_TIME))?;
        conn.write_all(&[&MAGIC[..], &ours].concat())?;
        let (theirs, shown) = (read::<32>(conn)?, read::<32>(conn)?);
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
        if !may_be_dialled(to.ip(), self.at.is_loopback()) && to.ip() != self.at {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let mut conn = TcpStream::connect_timeout(&to, DIAL_TIME)?;
        conn.set_read_timeout(Some(DIAL_TIME))?;
        if read::<16>(&mut conn)? != *MAGIC {
            return Err(refused());
        }
        let (theirs, ours) = (read::<32>(&mut conn)?, nonce()?);
        let shown = self.proof(DIALS, &theirs, &ours);
        conn.write_all(&[&ours[..], shown.as_bytes()].concat())?;
        let back = read::<32>(&mut conn)?;
        if self.proof(TAKES, &theirs, &ours) != blake3::Hash::from(back) {
            return Err(refused());
        }
        conn.set_read_timeout(None)?;
        bounded(&conn)?;
        Ok(conn)
    }

    fn enter(self: &Arc<Self>) -> Option<Place> {
        let place = Place(self.clone());
        (self.busy.fetch_add(1, Ordering::AcqRel) < MOST).then_some(place)
    }

    /// Runs `f` on a thread of its own, if there is a place for it.
    fn begin(self: &Arc<Self>, f: impl FnOnce(&Self) + Send + 'static) -> bool {
        let Some(place) = self.enter() else {
            return false;
        };
        let thread = std::thread::Builder::new().name("sockets".into());
        thread.stack_size(STACK).spawn(move || f(&place.0)).is_ok()
    }

    /// Does what a worker asks for, and says so over `to`.
    pub(super) fn serve(self: &Arc<Self>, wanted: Wanted, to: OwnedFd) {
        let no = |e: &io::Error| Lent::No {
            errno: e.raw_os_error().unwrap_or(libc::ECONNREFUSED),
        };
        let to = Arc::new(to);
        let (me, ours) = (self.clone(), to.clone());
        let begun = self.begin(move |sockets| match wanted {
            Wanted::Listen => match TcpListener::bind((sockets.at, 0)) {
                Ok(listener) => me.listen(&listener, &ours),
                Err(e) => drop(handover::send(&ours, &no(&e).to_json(), None)),
            },
            Wanted::Connect(address) => {
                let done = match sockets.dial(address) {
                    Ok(conn) => {
                        handover::send(&ours, &Lent::Connected.to_json(), &[OwnedFd::from(conn)])
                    }
                    Err(e) => handover::send(&ours, &no(&e).to_json(), None),
                };
                drop(done);
            }
        });
        if !begun {
            let errno = libc::EAGAIN;
            let _ = handover::send(&to, &Lent::No { errno }.to_json(), None);
        }
    }

    /// Takes connections for a worker until that closes its end.
    fn listen(self: &Arc<Self>, listener: &TcpListener, to: &Arc<OwnedFd>) {
        let Ok(at) = listener.local_addr() else {
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
            // Somebody may have come and gone again.
            if listener.set_nonblocking(true).is_err() {
                return;
            }
            let Ok((mut conn, _)) = listener.accept() else {
                continue;
            };
            let to = to.clone();
            self.begin(move |sockets| {
                let known = conn.set_nonblocking(false);
                if known.and_then(|()| sockets.take(&mut conn)).is_ok() {
                    let conn = [OwnedFd::from(conn)];
                    let _ = handover::send(&to, &Lent::Connected.to_json(), &conn);
                }
            });
        }
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
        let (a, b) = (
            Sockets::of_lease("one", here()),
            Sockets::of_lease("one", here()),
        );
        let other = Sockets::of_lease("two", here());
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
        assert_eq!(read::<1>(&mut taken).unwrap(), *b"x");
        // Nobody listens any more once the worker has closed its end.
        drop(door);
        while TcpStream::connect(at).is_ok() {
            std::thread::yield_now();
        }
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
        let sockets = Sockets::of_lease("one", here());
        assert_eq!(connect(&sockets, at).err(), Some(libc::ECONNREFUSED));
        assert_eq!(heard.join().unwrap(), b"");
    }

    #[test]
    fn nothing_is_dialled_that_no_client_may_have_dialled() {
        let far = Sockets::of_lease("one", IpAddr::from([192, 0, 2, 1]));
        for bad in ["127.0.0.1:22", "169.254.169.254:80", "0.0.0.0:1"] {
            assert!(connect(&far, bad.parse().unwrap()).is_err(), "{bad}");
        }
    }
}
