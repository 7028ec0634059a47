//! A connection inside one process: two bounded byte queues.

use crate::lock::{lock, wait};
use crate::{Acceptor, Connection, Dialer};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const CAPACITY: usize = 4 << 20;

#[derive(Default)]
struct Pipe {
    state: Mutex<(VecDeque<u8>, bool)>,
    changed: Condvar,
}

impl Pipe {
    fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        let mut s = lock(&self.state);
        while !bytes.is_empty() {
            if s.1 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let n = bytes.len().min(CAPACITY - s.0.len());
            if n == 0 {
                s = wait(&self.changed, s);
                continue;
            }
            s.0.extend(&bytes[..n]);
            bytes = &bytes[n..];
            self.changed.notify_all();
        }
        Ok(())
    }

    fn recv(&self, buf: &mut [u8]) -> usize {
        let mut s = lock(&self.state);
        while s.0.is_empty() && !s.1 {
            s = wait(&self.changed, s);
        }
        let n = buf.len().min(s.0.len());
        for (to, from) in buf.iter_mut().zip(s.0.drain(..n)) {
            *to = from;
        }
        self.changed.notify_all();
        n
    }

    fn close(&self) {
        lock(&self.state).1 = true;
        self.changed.notify_all();
    }
}

/// One end of an in-process connection.
pub struct Mem {
    out: Arc<Pipe>,
    inn: Arc<Pipe>,
}

/// The two ends of a new connection.
pub fn pair() -> (Mem, Mem) {
    let (a, b) = (Arc::new(Pipe::default()), Arc::new(Pipe::default()));
    let end = |out, inn| Mem { out, inn };
    (end(a.clone(), b.clone()), end(b, a))
}

/// Dials inside one process.
pub struct Caller(Sender<Mem>);

/// Takes what a [`Caller`] dials.
pub struct Callee(Mutex<Receiver<Mem>>);

/// The two ends of a new address.
pub fn address() -> (Caller, Callee) {
    let (to, from) = channel();
    (Caller(to), Callee(Mutex::new(from)))
}

impl Dialer for Caller {
    fn dial(&self, _: Duration) -> io::Result<Arc<dyn Connection>> {
        let (ours, theirs) = pair();
        let gone = |_| io::ErrorKind::ConnectionRefused;
        self.0.send(theirs).map_err(gone)?;
        Ok(Arc::new(ours))
    }

    fn peer(&self) -> String {
        "memory".into()
    }
}

impl Acceptor for Callee {
    fn accept(&self, limit: Duration) -> io::Result<Arc<dyn Connection>> {
        let from = lock(&self.0);
        match from.recv_timeout(limit) {
            Ok(conn) => Ok(Arc::new(conn)),
            Err(RecvTimeoutError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Connection for Mem {
    fn send(&self, bufs: &mut [IoSlice<'_>]) -> io::Result<()> {
        bufs.iter().try_for_each(|b| self.out.send(b))
    }

    fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(self.inn.recv(buf))
    }

    fn shutdown(&self) {
        self.out.close();
        self.inn.close();
    }

    fn peer(&self) -> String {
        "the same process".into()
    }
}

impl Drop for Mem {
    fn drop(&mut self) {
        self.shutdown();
    }
}
