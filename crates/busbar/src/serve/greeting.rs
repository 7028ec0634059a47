//! Connections that have not said yet who they are.
//!
//! A stranger costs a thread and a descriptor until it is known, so there is a most of them, and
//! each has a deadline for all it has to say. When there are too many, one of the network that has
//! the most of them makes room: the one that has said nothing for longest, for a client says hello
//! at once. Anyone who keeps connections open only to hold places loses those, and not others'.

use super::refusals::Network;
use busbar_transport::Connection;
use busbar_transport::lock::lock;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, IoSlice};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a stranger may take to say hello, from the first byte to the last.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// The most strangers at a time.
const MOST: usize = 256;

#[derive(Default)]
struct State {
    next: u64,
    present: BTreeMap<u64, Stranger>,
}

struct Stranger {
    stream: TcpStream,
    network: Network,
    /// Whether a part of its hello has been read.
    spoke: Arc<AtomicBool>,
}

impl Stranger {
    /// Whether nothing has come from it, read or not.
    fn is_silent(&self) -> bool {
        let (mut byte, how) = (0u8, libc::MSG_PEEK | libc::MSG_DONTWAIT);
        // SAFETY: a live socket and room for one byte.
        let waiting = unsafe {
            let place = (&raw mut byte).cast();
            libc::recv(self.stream.as_raw_fd(), place, 1, how) > 0
        };
        !self.spoke.load(Ordering::Relaxed) && !waiting
    }
}

impl State {
    /// Who makes room for the next.
    fn who_goes(&self) -> Option<u64> {
        let mut counts = HashMap::<Network, usize>::new();
        for s in self.present.values() {
            *counts.entry(s.network).or_default() += 1;
        }
        // Of networks with as many, the one that has been here longest.
        let most = counts.values().max().copied()?;
        let crowd = self.present.values().find(|s| counts[&s.network] == most)?;
        let mut of_crowd = self
            .present
            .iter()
            .filter(|(_, s)| s.network == crowd.network);
        let oldest = *of_crowd.clone().next()?.0;
        let silent = of_crowd.find(|(_, s)| s.is_silent());
        Some(silent.map_or(oldest, |(n, _)| *n))
    }
}

/// The strangers that are here.
#[derive(Clone, Default)]
pub(crate) struct Greetings {
    state: Arc<Mutex<State>>,
}

/// One stranger's place, free again when this is dropped.
pub(crate) struct Guest {
    number: u64,
    spoke: Arc<AtomicBool>,
    until: Instant,
    home: Greetings,
}

impl Guest {
    /// By when it must have said all it has to say.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// Something has come from it.
    pub(crate) fn speaks(&self) {
        self.spoke.store(true, Ordering::Relaxed);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        lock(&self.home.state).present.remove(&self.number);
    }
}

impl Greetings {
    /// Gives a new connection a place; `None` when the machine has no more descriptors.
    pub(crate) fn enter(&self, stream: &TcpStream) -> Option<Guest> {
        let network = stream
            .peer_addr()
            .map_or(Network::Unknown, |a| Network::of(a.ip()));
        self.enter_from(stream, network)
    }

    fn enter_from(&self, stream: &TcpStream, network: Network) -> Option<Guest> {
        let stream = stream.try_clone().ok()?;
        let mut s = lock(&self.state);
        while s.present.len() >= MOST {
            let number = s.who_goes()?;
            let gone = s.present.remove(&number)?;
            let _ = gone.stream.shutdown(Shutdown::Both);
        }
        let number = s.next;
        s.next += 1;
        let spoke = Arc::new(AtomicBool::new(false));
        let stranger = Stranger {
            stream,
            network,
            spoke: spoke.clone(),
        };
        s.present.insert(number, stranger);
        drop(s);
        Some(Guest {
            number,
            spoke,
            until: Instant::now() + HELLO_TIME,
            home: self.clone(),
        })
    }
}

/// A connection whose every receive ends at one deadline.
pub(crate) struct Hasty<'a> {
    conn: &'a dyn Connection,
    until: Instant,
    /// Who hears that something came.
    guest: Option<&'a Guest>,
}

impl<'a> Hasty<'a> {
    /// Bounds what a stranger may take.
    pub(crate) fn new(conn: &'a dyn Connection, guest: &'a Guest) -> Self {
        Self {
            conn,
            until: guest.until,
            guest: Some(guest),
        }
    }

    /// Bounds it to less.
    pub(crate) fn within(conn: &'a dyn Connection, time: Duration) -> Self {
        Self {
            conn,
            until: Instant::now() + time,
            guest: None,
        }
    }
}

impl Connection for Hasty<'_> {
    fn send(&self, bufs: &mut [IoSlice<'_>]) -> io::Result<()> {
        self.conn.send(bufs)
    }

    fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.conn.recv_timeout(Some(left))?;
        let n = self.conn.recv(buf)?;
        if let Some(g) = self.guest {
            g.speaks();
        }
        Ok(n)
    }

    fn shutdown(&self) {
        self.conn.shutdown();
    }

    fn peer(&self) -> String {
        self.conn.peer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_transport::tcp::Tcp;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn pair(l: &TcpListener) -> (TcpStream, TcpStream) {
        let a = TcpStream::connect(l.local_addr().unwrap()).unwrap();
        (a, l.accept().unwrap().0)
    }

    #[test]
    fn the_oldest_stranger_makes_room_and_a_known_one_keeps_its_connection() {
        let l = TcpListener::bind("127.0.0.1:0").unwrap();
        let g = Greetings::default();
        let (mut known, here) = pair(&l);
        drop(g.enter(&here).unwrap());
        let all: Vec<_> = (0..=MOST)
            .map(|_| {
                let (a, b) = pair(&l);
                let guest = g.enter(&b).unwrap();
                (a, b, guest)
            })
            .collect();
        assert_eq!(lock(&g.state).present.len(), MOST);
        let mut byte = [0];
        let mut first = &all[0].0;
        assert_eq!(first.read(&mut byte).unwrap(), 0);
        for mut to in [&all[1].1, &here] {
            to.write_all(b"x").unwrap();
        }
        let mut second = &all[1].0;
        assert_eq!(second.read(&mut byte).unwrap(), 1);
        assert_eq!(known.read(&mut byte).unwrap(), 1);
        drop(all);
        assert!(lock(&g.state).present.is_empty());
    }

    #[test]
    fn silent_ones_push_out_each_other_and_none_that_greets() {
        let l = TcpListener::bind("127.0.0.1:0").unwrap();
        let g = Greetings::default();
        // One has said a part of its hello, one's lies unread, one is of another network.
        let speaks: Vec<_> = (0..3)
            .map(|i| {
                let (mut a, b) = pair(&l);
                let network = match i {
                    2 => Network::Unknown,
                    _ => Network::of([127, 0, 0, 1].into()),
                };
                let guest = g.enter_from(&b, network).unwrap();
                if i < 2 {
                    a.write_all(b"part").unwrap();
                }
                let conn = Tcp::new(b).unwrap();
                if i == 0 {
                    Hasty::new(&conn, &guest).recv(&mut [0; 4]).unwrap();
                }
                (a, conn, guest)
            })
            .collect();
        // A byte on this host needs a moment to arrive.
        conn_has(&speaks[1].1);
        let crowd: Vec<_> = (0..3 * MOST)
            .map(|_| {
                let (a, b) = pair(&l);
                let guest = g.enter(&b).unwrap();
                (a, b, guest)
            })
            .collect();
        for (a, conn, _) in &speaks {
            conn.send(&mut [IoSlice::new(b"x")]).unwrap();
            let mut a: &TcpStream = a;
            assert_eq!(a.read(&mut [0]).unwrap(), 1, "it is still here");
        }
        let mut first = &crowd[0].0;
        assert_eq!(first.read(&mut [0]).unwrap(), 0);
        // Not even a crowd that speaks pushes out other networks' clients.
        let loud: Vec<_> = (0..2 * MOST)
            .map(|_| {
                let (mut a, b) = pair(&l);
                let guest = g.enter(&b).unwrap();
                guest.spoke.store(true, Ordering::Relaxed);
                a.write_all(b"part").unwrap();
                (a, b, guest)
            })
            .collect();
        assert!(lock(&g.state).present.contains_key(&speaks[2].2.number));
        drop((loud, crowd, speaks));
        assert!(lock(&g.state).present.is_empty());
    }

    fn conn_has(conn: &Tcp) {
        assert!(conn.wait(None, Some(Duration::from_secs(10))).unwrap());
    }

    #[test]
    fn a_hello_that_comes_byte_by_byte_has_one_deadline() {
        let l = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut slow, here) = pair(&l);
        let conn = Tcp::new(here).unwrap();
        let hasty = Hasty {
            conn: &conn,
            until: Instant::now() + Duration::from_millis(200),
            guest: None,
        };
        let writer = std::thread::spawn(move || {
            while slow.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        assert!(hasty.recv_exact(&mut [0; 4096]).is_err());
        conn.shutdown();
        drop(conn);
        writer.join().unwrap();
    }
}
