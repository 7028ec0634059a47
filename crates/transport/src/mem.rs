//! A connection inside one process: two bounded byte queues.

use crate::Connection;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

const CAPACITY: usize = 4 << 20;

#[derive(Default)]
struct Pipe {
    state: Mutex<(VecDeque<u8>, bool)>,
    changed: Condvar,
}

impl Pipe {
    fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        let mut s = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !bytes.is_empty() {
            if s.1 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let n = bytes.len().min(CAPACITY - s.0.len());
            if n == 0 {
                s = self.changed.wait(s).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            s.0.extend(&bytes[..n]);
            bytes = &bytes[n..];
            self.changed.notify_all();
        }
        Ok(())
    }

    fn recv(&self, buf: &mut [u8]) -> usize {
        let mut s = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while s.0.is_empty() && !s.1 {
            s = self.changed.wait(s).unwrap_or_else(PoisonError::into_inner);
        }
        let n = buf.len().min(s.0.len());
        for (to, from) in buf.iter_mut().zip(s.0.drain(..n)) {
            *to = from;
        }
        self.changed.notify_all();
        n
    }

    fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
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
    (
        Mem {
            out: a.clone(),
            inn: b.clone(),
        },
        Mem { out: b, inn: a },
    )
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
