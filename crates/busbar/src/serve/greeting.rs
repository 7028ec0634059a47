//! Connections that have begun to say who they are, and are not known yet.
//!
//! Each costs a thread and two descriptors until it is known, so there is a most of them, and each
//! has a deadline for all it has to say. When there are too many, one of the network that has the
//! most of them makes room: the one that has been here longest.

use super::refusals::Network;
use busbar_transport::Connection;
use busbar_transport::lock::lock;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, IoSlice};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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
        let mut all = self.present.iter();
        all.find(|(_, s)| counts[&s.network] == most)
            .map(|(n, _)| *n)
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
    until: Instant,
    home: Greetings,
}

impl Guest {
    /// By when it must have said all it has to say.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        lock(&self.home.state).present.remove(&self.number);
    }
}

impl Greetings {
    /// Gives a connection a place; `None` when the machine has no more descriptors.
    pub(crate) fn enter(&self, stream: &TcpStream, until: Instant) -> Option<Guest> {
        let network = stream
            .peer_addr()
            .map_or(Network::Unknown, |a| Network::of(a.ip()));
        self.enter_from(stream, network, until)
    }

    fn enter_from(&self, stream: &TcpStream, network: Network, until: Instant) -> Option<Guest> {
        let stream = stream.try_clone().ok()?;
        let mut s = lock(&self.state);
        while s.present.len() >= MOST {
            let number = s.who_goes()?;
            let gone = s.present.remove(&number)?;
            let _ = gone.stream.shutdown(Shutdown::Both);
        }
        let number = s.next;
        s.next += 1;
        s.present.insert(number, Stranger { stream, network });
        drop(s);
        let home = self.clone();
        Some(Guest {
            number,
            until,
            home,
        })
    }
}

/// A connection whose every receive ends at one deadline.
pub(crate) struct Hasty<'a> {
    conn: &'a dyn Connection,
    until: Instant,
}

impl<'a> Hasty<'a> {
    /// Bounds what a stranger may take.
    pub(crate) fn new(conn: &'a dyn Connection, until: Instant) -> Self {
        Self { conn, until }
    }

    /// Bounds it to so long from now.
    pub(crate) fn within(conn: &'a dyn Connection, time: Duration) -> Self {
        Self::new(conn, Instant::now() + time)
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
        self.conn.recv(buf)
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
    fn the_oldest_stranger_of_a_crowd_makes_room_and_a_known_one_keeps_its_connection() {
        let l = TcpListener::bind("127.0.0.1:0").unwrap();
        let (g, until) = (Greetings::default(), Instant::now());
        let (mut known, here) = pair(&l);
        drop(g.enter(&here, until).unwrap());
        let (_far, there) = pair(&l);
        let other = g.enter_from(&there, Network::Unknown, until).unwrap();
        let all: Vec<_> = (0..2 * MOST)
            .map(|_| {
                let (a, b) = pair(&l);
                let guest = g.enter(&b, until).unwrap();
                (a, b, guest)
            })
            .collect();
        assert_eq!(lock(&g.state).present.len(), MOST);
        assert!(lock(&g.state).present.contains_key(&other.number));
        let mut byte = [0];
        let mut first = &all[0].0;
        assert_eq!(first.read(&mut byte).unwrap(), 0);
        let last = all.last().unwrap();
        for mut to in [&last.1, &here] {
            to.write_all(b"x").unwrap();
        }
        let mut last = &last.0;
        assert_eq!(last.read(&mut byte).unwrap(), 1);
        assert_eq!(known.read(&mut byte).unwrap(), 1);
        drop((all, other));
        assert!(lock(&g.state).present.is_empty());
    }

    #[test]
    fn a_hello_that_comes_byte_by_byte_has_one_deadline() {
        let l = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut slow, here) = pair(&l);
        let conn = Tcp::new(here).unwrap();
        let hasty = Hasty::within(&conn, Duration::from_millis(200));
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
