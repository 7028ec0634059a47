//! One process for all inputs: a session without threads ([`busbar_channel::alone`]) on a
//! simulated driver without threads, which is reset after each input. An input then costs next
//! to nothing but what it does, and the same input does the same whatever was before: [`Trace`].

use crate::sequence::{Record, write};
use busbar_channel::alone::{self, Receiving};
use busbar_transport::Connection;
use busbar_wire::frame::{self, Kind};
use busbar_wire::record::Records;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read};
use std::sync::{Arc, Mutex};

thread_local! {
    /// What receives for the session that was begun last.
    static RECEIVING: RefCell<Option<Receiving>> = const { RefCell::new(None) };
}

/// What one end has said: each record's number, call, result and content. In which order it says
/// what follows from one and the same record is left to its hash tables, so they are sorted.
#[derive(Default, PartialEq, Eq)]
pub struct Trace(Vec<Record>);

/// Has nothing get a thread from here on, and loads the driver.
pub fn begin() {
    // SAFETY: no thread but this one has begun.
    unsafe { std::env::set_var("FAKEDEV_THREADS", "0") };
    alone::set(|receiving| RECEIVING.set(Some(receiving)));
    crate::worker::warm("cuda");
}

/// How often an input is executed twice, and how many are known from the beginning.
const TWICE: u64 = 64;
const FIRST: usize = 64;

#[derive(Default)]
struct Known {
    executed: u64,
    first: Vec<(Vec<Record>, Trace)>,
}

/// Executes an input. One in so many is executed twice, and one of the first once more: each time
/// the same must come of it.
///
/// # Panics
/// When it does not.
pub fn check(input: Vec<Record>, execute: fn(Vec<Record>) -> Trace) {
    static KNOWN: Mutex<Known> = Mutex::new(Known {
        executed: 0,
        first: Vec::new(),
    });
    let mut known = KNOWN.lock().expect("one thread");
    known.executed += 1;
    let (n, keep) = (known.executed, known.first.len() < FIRST);
    if !keep && !n.is_multiple_of(TWICE) {
        execute(input);
        return;
    }
    let trace = execute(input.clone());
    trace.must_be(&execute(input.clone()), "the same input again");
    if keep {
        known.first.push((input, trace));
    }
    let (input, trace) = &known.first[(n / TWICE) as usize % known.first.len()];
    trace.must_be(&execute(input.clone()), "an input of the beginning");
}

impl Trace {
    fn must_be(&self, other: &Self, what: &str) {
        if self == other {
            return;
        }
        let mut both = self.0.iter().zip(&other.0);
        let at = both.position(|(a, b)| a != b);
        let at = at.unwrap_or(self.0.len().min(other.0.len()));
        panic!(
            "{what} had another outcome, from record {at} of {} and {} on: {:?} and now {:?}",
            self.0.len(),
            other.0.len(),
            self.0.get(at),
            other.0.get(at)
        );
    }
}

/// Answers what the end that is tested says.
pub trait Peer: Send {
    /// A record has come: what is said to it.
    fn hear(&mut self, r: &Record) -> Vec<Record>;
}

#[derive(Default)]
struct State {
    inbox: VecDeque<u8>,
    seq: u64,
    heard: u64,
    said: Vec<Record>,
}

/// The connection of a session without threads, to somebody who answers at once.
pub struct Line {
    state: Mutex<State>,
    peer: Mutex<Box<dyn Peer>>,
}

impl Line {
    /// One to this peer.
    pub fn new(peer: impl Peer + 'static) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            peer: Mutex::new(Box::new(peer)),
        })
    }

    /// Says some records, in a frame.
    pub fn say(&self, records: &[Record]) {
        let body = write(records);
        let mut s = self.state.lock().expect("one thread");
        s.seq += 1;
        let h = frame::Header {
            seq: s.seq,
            ack: s.heard,
            ..frame::Header::plain(Kind::Data, body.len())
        };
        s.inbox.extend(h.to_bytes());
        s.inbox.extend(body);
    }

    /// Has what was said be taken, unless somebody is at it, who then takes this, too.
    pub fn take(&self) {
        RECEIVING.with(|r| {
            if let Ok(mut r) = r.try_borrow_mut()
                && let Some(r) = &mut *r
            {
                r.take();
            }
        });
    }

    /// What the end that is tested has said so far.
    pub fn trace(&self) -> Trace {
        let mut all = std::mem::take(&mut self.state.lock().expect("one thread").said);
        all.sort_by_cached_key(|(h, payload)| (h.op, h.call, h.aux, payload.clone()));
        Trace(all)
    }
}

/// The session is over, and what received for it.
pub fn over() {
    RECEIVING.set(None);
}

impl Connection for Line {
    fn send(&self, bufs: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut all = Vec::new();
        bufs.iter().for_each(|b| all.extend_from_slice(b));
        let mut left = &all[..];
        while let Some((head, rest)) = left.split_first_chunk() {
            let h = frame::Header::parse(head).expect("its own frames are good");
            let (body, rest) = rest.split_at(h.len as usize);
            left = rest;
            if h.kind != Kind::Data {
                continue;
            }
            let mut answers = Vec::new();
            for (n, payload) in Records::new(body).map(|r| r.expect("its own records are good")) {
                let record = (n, payload.to_vec());
                let mut peer = self.peer.lock().expect("one thread");
                answers.extend(peer.hear(&record));
                drop(peer);
                let mut s = self.state.lock().expect("one thread");
                s.said.push(record);
            }
            let mut s = self.state.lock().expect("one thread");
            s.heard = h.seq;
            let ack = frame::Header {
                ack: h.seq,
                ..frame::Header::plain(Kind::Ack, 0)
            };
            s.inbox.extend(ack.to_bytes());
            drop(s);
            if !answers.is_empty() {
                self.say(&answers);
            }
        }
        self.take();
        Ok(())
    }

    fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.state.lock().expect("one thread").inbox.read(buf)
    }

    fn shutdown(&self) {
        RECEIVING.with(|r| {
            if let Ok(mut r) = r.try_borrow_mut()
                && let Some(r) = &mut *r
            {
                r.end();
            }
        });
    }

    fn peer(&self) -> String {
        "the same thread".into()
    }
}
