//! Connections that have not said yet who they are.
//!
//! A stranger costs a thread and a descriptor until it is known, so there is a most of them, and
//! each has a deadline for all it has to say. When there are too many, the one that has taken
//! longest makes room: a client says hello at once, and who keeps connections open only to hold
//! places loses them.

use super::lock;
use busbar_transport::Connection;
use busbar_transport::tcp::Tcp;
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a stranger may take to say hello, from the first byte to the last.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// The most strangers at a time.
const MOST: usize = 256;

#[derive(Default)]
struct State {
    next: u64,
    present: BTreeMap<u64, TcpStream>,
}

/// The strangers that are here.
#[derive(Clone, Default)]
pub(crate) struct Greetings {
    state: Arc<Mutex<State>>,
}

/// One stranger's place, free again when this is dropped.
pub(crate) struct Guest {
    number: u64,
    home: Greetings,
}

impl Drop for Guest {
    fn drop(&mut self) {
        lock(&self.home.state).present.remove(&self.number);
    }
}

impl Greetings {
    /// Gives a new connection a place; `None` when the machine has no more descriptors.
    pub(crate) fn enter(&self, stream: &TcpStream) -> Option<Guest> {
        let copy = stream.try_clone().ok()?;
        let mut s = lock(&self.state);
        while s.present.len() >= MOST {
            let (_, oldest) = s.present.pop_first()?;
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let number = s.next;
        s.next += 1;
        s.present.insert(number, copy);
        drop(s);
        Some(Guest {
            number,
            home: self.clone(),
        })
    }
}

/// A connection whose every receive ends at one deadline.
pub(crate) struct Hasty<'a> {
    conn: &'a Tcp,
    until: Instant,
}

impl<'a> Hasty<'a> {
    /// Bounds what a stranger may take.
    pub(crate) fn new(conn: &'a Tcp) -> Self {
        Self::within(conn, HELLO_TIME)
    }

    /// Bounds it to less.
    pub(crate) fn within(conn: &'a Tcp, time: Duration) -> Self {
        Self {
            conn,
            until: Instant::now() + time,
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
    fn a_hello_that_comes_byte_by_byte_has_one_deadline() {
        let l = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut slow, here) = pair(&l);
        let conn = Tcp::new(here).unwrap();
        let hasty = Hasty {
            conn: &conn,
            until: Instant::now() + Duration::from_millis(200),
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
