//! Long frames over several connections at a time, of which any may break at any byte.

use busbar_channel::{Bulk, Channel};
use busbar_harness::link::{Weather, link};
use busbar_harness::rng::{Rng, seeds};
use busbar_harness::toy::{MEMORY, Model, Pair, Read, Sum, Write};
use busbar_transport::Connection;
use busbar_transport::fault::Fault;
use busbar_transport::mem;
use busbar_wire::codec::Reader;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Gives each of the session's connections one to three side connections, for as long as `on`. They
/// break after fewer than `most_bytes`, if that is not 0.
fn keep_aside(client: &Channel, worker: &Channel, rng: &mut Rng, most_bytes: u64, on: &AtomicBool) {
    let mut wanted = (u64::MAX, 0);
    while on.load(Ordering::Acquire) && client.closed().is_none() {
        let main = client.connection();
        if wanted.0 != main {
            wanted = (main, 1 + rng.below(3) as usize);
        }
        // The next one comes when the last is in use, and behind one that is lost there is none.
        if client.side_count().is_none_or(|n| n >= wanted.1) {
            std::thread::sleep(Duration::from_micros(100));
            continue;
        }
        let (a, b) = mem::pair();
        let budget = match most_bytes {
            0 => -1,
            n => rng.magnitude(n) as i64,
        };
        let ends: (Arc<dyn Connection>, Arc<dyn Connection>) = if rng.one_in(2) {
            (Arc::new(Fault::new(Arc::new(a), budget)), Arc::new(b))
        } else {
            (Arc::new(a), Arc::new(Fault::new(Arc::new(b), budget)))
        };
        let number = worker.offer_side(ends.1);
        // The client's connection may be another by now.
        let _ = client.attach_side(ends.0, number, main);
    }
}

/// Ends [`keep_aside`] when the test is through, or has failed.
struct Off<'a>(&'a AtomicBool);

impl Drop for Off<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Writes long pieces and reads them back; returns how many bytes went aside, and how often the
/// session was resumed.
fn one(seed: u64, weather: Weather, most_bytes: u64) -> (u64, u64) {
    let l = link(seed, weather);
    let pair = Pair::start(l.client, l.worker, None);
    let mut rng = Rng::new(seed);
    let mut model = Model::default();
    let s = &pair.session;
    s.call(0, &Sum { nonce: 1 }, None).unwrap();
    model.event(1);
    let worker = pair.worker_channel.get().expect("it has answered");
    let pinned = rng.bytes(MEMORY / 2);
    let on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let mut theirs = Rng::new(seed + 1);
        let on = &on;
        scope.spawn(move || keep_aside(s.channel(), worker, &mut theirs, most_bytes, on));
        let _off = Off(on);
        // The first pieces may be through before there is a side connection.
        let none = || s.counters().aside.load(Ordering::Relaxed) == 0;
        for _ in (0..400).take_while(|n| *n < 40 || none()) {
            let len = 200_000 + rng.below(848_000);
            let offset = rng.below(MEMORY as u64 - len);
            let from = rng.below(pinned.len() as u64 - len) as usize;
            let piece = &pinned[from..from + len as usize];
            let bulk = Bulk::Borrow(piece.as_ptr(), piece.len());
            s.queue_bulk(0, &Write { offset }, bulk).unwrap();
            model.write(offset, piece);
            if rng.one_in(4) {
                let (offset, len) = (rng.below(1 << 20), 1 + rng.below(3 << 20));
                let mut out = vec![0; len as usize];
                let place = Some((out.as_mut_ptr(), out.len()));
                let a = s.call(0, &Read { offset, len }, place).unwrap();
                assert!(out == model.read(offset, len), "bytes differ");
                assert_eq!(Reader::new(&a.body).u64(), Ok(model.digest()));
            }
        }
        s.drain().unwrap();
    });
    let a = s.call(0, &Sum { nonce: 2 }, None).unwrap();
    model.event(2);
    assert_eq!(Reader::new(&a.body).u64(), Ok(model.digest()));
    let c = s.counters();
    let counts = (
        c.aside.load(Ordering::Relaxed),
        c.resumed.load(Ordering::Relaxed),
    );
    assert_eq!(pair.finish(), "the program ended");
    counts
}

const STEADY: Weather = Weather {
    most_bytes: 0,
    cuts: 0,
};

#[test]
fn a_steady_side_connection_carries_its_part() {
    seeds(3, |seed| {
        let (aside, resumed) = one(seed, STEADY, 0);
        assert!(aside > 0, "nothing went aside");
        assert_eq!(resumed, 0);
    });
}

#[test]
fn a_side_connection_that_breaks_loses_nothing() {
    let (mut aside, mut resumed) = (0, 0);
    seeds(5, |seed| {
        let (a, r) = one(seed, STEADY, 1 << 22);
        aside += a;
        resumed += r;
    });
    assert!(aside > 0, "nothing went aside");
    assert!(resumed > 0, "no connection ever broke");
}

#[test]
fn both_connections_may_break() {
    seeds(5, |seed| {
        let weather = Weather {
            most_bytes: 1 << 22,
            cuts: 30,
        };
        one(seed, weather, 1 << 22);
    });
}
