//! Long frames between memory that stays, over queue pairs that fail and other connections in turn.

use busbar_channel::Bulk;
use busbar_harness::link::{Weather, link_over};
use busbar_harness::rng::{Rng, seeds};
use busbar_harness::toy::{MEMORY, Model, Pair, Read, Sum, Write};
use busbar_transport::Memory;
use busbar_transport::rdma::soft::Fabric;
use busbar_wire::codec::Reader;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What went wrong on a fabric, and what it came to.
#[derive(Default)]
struct Told {
    in_place: [u64; 2],
    resumed: u64,
}

/// Something that happens to a fabric again and again.
type Trouble = fn(&Fabric, &mut Rng);

fn none(_: &Fabric, _: &mut Rng) {}

/// All queue pairs fail.
fn failures(fabric: &Fabric, rng: &mut Rng) {
    std::thread::sleep(Duration::from_micros(rng.below(20_000)));
    fabric.fail_all();
}

/// Memory cannot be registered, windows cannot be made, nothing goes, by turns.
fn shortages(fabric: &Fabric, rng: &mut Rng) {
    let on = rng.one_in(2);
    match rng.below(3) {
        0 => fabric.refuse_memory(on),
        1 => fabric.refuse_windows(on),
        _ => fabric.hold(on),
    }
    std::thread::sleep(Duration::from_millis(1));
    fabric.hold(false);
    if rng.one_in(8) {
        fabric.fail_all();
    }
}

/// Ends the trouble when the test is through, or has failed.
struct Off<'a>(&'a AtomicBool, &'a Fabric);

impl Drop for Off<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
        self.1.hold(false);
    }
}

/// Writes long pieces and reads some back into memory that comes and goes.
fn one(seed: u64, weather: Weather, trouble: Trouble) -> Told {
    let fabric = Fabric::default();
    let l = link_over(seed, weather, Some(fabric.clone()));
    let pair = Pair::start(l.client, l.worker, None);
    let mut rng = Rng::new(seed);
    let mut model = Model::default();
    let s = &pair.session;
    let pinned = rng.bytes(MEMORY / 2);
    let memory = |bytes: &[u8]| Memory {
        start: bytes.as_ptr().cast_mut(),
        len: bytes.len(),
    };
    // SAFETY: forgotten below, and never changed.
    unsafe { s.keep(memory(&pinned)) };
    let on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let mut theirs = Rng::new(seed + 1);
        scope.spawn({
            let (on, fabric) = (&on, &fabric);
            move || {
                while on.load(Ordering::Acquire) {
                    trouble(fabric, &mut theirs);
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let _off = Off(&on, &fabric);
        for _ in 0..60 {
            let len = 60_000 + rng.below(988_000);
            let offset = rng.below(MEMORY as u64 - len);
            let from = rng.below(pinned.len() as u64 - len) as usize;
            let piece = &pinned[from..from + len as usize];
            let bulk = Bulk::Borrow(piece.as_ptr(), piece.len());
            s.queue_bulk(0, &Write { offset }, bulk).unwrap();
            model.write(offset, piece);
            if rng.one_in(4) {
                let (offset, len) = (rng.below(1 << 20), 1 + rng.below(3 << 20));
                let mut out = vec![0; len as usize];
                // SAFETY: nothing is sent from it, and it is forgotten below.
                unsafe { s.keep(memory(&out)) };
                let place = Some((out.as_mut_ptr(), out.len()));
                let a = s.call(0, &Read { offset, len }, place).unwrap();
                s.forget(out.as_ptr() as u64);
                assert!(out == model.read(offset, len), "bytes differ");
                assert_eq!(Reader::new(&a.body).u64(), Ok(model.digest()));
            }
        }
        s.drain().unwrap();
    });
    let a = s.call(0, &Sum { nonce: 2 }, None).unwrap();
    model.event(2);
    assert_eq!(Reader::new(&a.body).u64(), Ok(model.digest()));
    s.forget(pinned.as_ptr() as u64);
    let worker = pair.worker_channel.get().expect("it has answered");
    let told = Told {
        in_place: [s.channel().kept().moved()[0], worker.kept().moved()[1]],
        resumed: s.counters().resumed.load(Ordering::Relaxed),
    };
    assert_eq!(pair.finish(), "the program ended");
    told
}

const STEADY: Weather = Weather {
    most_bytes: 0,
    cuts: 0,
};

/// Runs it with some seeds, and adds up what they came to.
fn some(weather: Weather, trouble: Trouble) -> Told {
    let mut all = Told::default();
    seeds(6, |seed| {
        let told = one(seed, weather, trouble);
        all.in_place[0] += told.in_place[0];
        all.in_place[1] += told.in_place[1];
        all.resumed += told.resumed;
    });
    assert!(all.in_place.iter().all(|n| *n > 0), "{:?}", all.in_place);
    all
}

#[test]
fn bytes_are_moved_in_place_and_come_as_they_were() {
    let told = some(STEADY, none);
    assert_eq!(told.in_place[0], told.in_place[1]);
    assert_eq!(told.resumed, 0);
}

#[test]
fn a_session_whose_queue_pairs_fail_in_a_transfer_loses_and_repeats_nothing() {
    assert!(some(STEADY, failures).resumed > 0);
}

#[test]
fn connections_that_end_at_any_byte_lose_and_repeat_nothing() {
    let weather = Weather {
        most_bytes: 1 << 22,
        cuts: 30,
    };
    assert!(some(weather, none).resumed > 0);
}

#[test]
fn what_cannot_be_registered_takes_the_ring_in_the_same_session() {
    some(STEADY, shortages);
}
