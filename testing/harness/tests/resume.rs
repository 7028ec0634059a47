//! Random programs over links that break at random bytes: every call is executed once, in order.

use busbar_channel::Bulk;
use busbar_harness::link::{Weather, link};
use busbar_harness::rng::{Rng, seeds};
use busbar_harness::toy::{Call, Fail, Load, MEMORY, Mix, Model, Pair, Read, Sum, Write};
use busbar_wire::codec::{Message, Reader, Request, Writer};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a random program expects to have been told at its end.
#[derive(Default)]
struct Expected {
    errors: Vec<i32>,
    called: Vec<u64>,
}

/// Runs `steps` random calls, and checks every answer against the model.
fn program(pair: &Pair, rng: &mut Rng, model: &mut Model, steps: u64) -> Expected {
    let s = &pair.session;
    let mut expected = Expected::default();
    let asynchronous = Arc::new(AtomicU64::new(0));
    let mut waiting = 0;
    // Lent to the channel: it must stay as it is until `drain` has returned.
    let pinned = rng.bytes(MEMORY / 2);
    for step in 0..steps {
        match rng.below(12) {
            0..=3 => {
                let len = rng.magnitude((MEMORY / 2) as u64);
                let offset = rng.below(MEMORY as u64 - len);
                let from = rng.below((pinned.len() as u64) - len) as usize;
                let bytes = &pinned[from..from + len as usize];
                for (i, piece) in bytes.chunks(busbar_client::session::CHUNK).enumerate() {
                    let offset = offset + (i * busbar_client::session::CHUNK) as u64;
                    let keep: Arc<dyn Any + Send + Sync> = Arc::new(piece.to_vec());
                    let bulk = match rng.below(3) {
                        0 => Bulk::Copy(piece),
                        1 => Bulk::Borrow(piece.as_ptr(), piece.len()),
                        _ => {
                            let v = keep.downcast_ref::<Vec<u8>>().expect("made above");
                            Bulk::Shared(v.as_ptr(), v.len(), &keep)
                        }
                    };
                    s.queue_bulk(0, &Write { offset }, bulk).unwrap();
                    model.write(offset, piece);
                }
            }
            4..=6 => {
                let len = rng.magnitude(4096);
                let offset = rng.below(MEMORY as u64 - len);
                let seed = rng.next_u64();
                let m = Mix { offset, len, seed };
                s.queue(0, &m).unwrap();
                model.mix(&m);
            }
            7 => {
                let len = rng.magnitude(MEMORY as u64);
                let offset = rng.below(MEMORY as u64 - len);
                let mut out = vec![0; len as usize];
                let place = Some((out.as_mut_ptr(), out.len()));
                let a = s.call(0, &Read { offset, len }, place).unwrap();
                assert!(out == model.read(offset, len), "step {step}: bytes differ");
                assert_eq!(
                    Reader::new(&a.body).u64(),
                    Ok(model.digest()),
                    "step {step}"
                );
            }
            8 => {
                let len = rng.magnitude(300_000);
                let offset = rng.below(MEMORY as u64 - len);
                let mut out = vec![0u8; len as usize];
                let place = Some((out.as_mut_ptr(), out.len()));
                let wanted = model.read(offset, len).to_vec();
                let digest = model.digest();
                let good = asynchronous.clone();
                waiting += 1;
                let then = move |a: Option<busbar_client::calls::Answer>| {
                    let body = a.map(|a| a.body).unwrap_or_default();
                    let same = out == wanted && Reader::new(&body).u64() == Ok(digest);
                    good.fetch_add(same.into(), Ordering::Relaxed);
                };
                // SAFETY: the buffer belongs to the function that is called at the end.
                unsafe { s.call_async(0, &Read { offset, len }, place, then) }.unwrap();
            }
            9 => {
                let nonce = rng.next_u64();
                let a = s.call(0, &Sum { nonce }, None).unwrap();
                model.event(nonce);
                assert_eq!(
                    Reader::new(&a.body).u64(),
                    Ok(model.digest()),
                    "step {step}"
                );
            }
            10 if rng.one_in(3) => {
                let offset = rng.below(MEMORY as u64 / 2);
                let len = 1 + rng.magnitude((MEMORY / 2) as u64 - 1) as usize;
                let bytes: Arc<[u8]> = rng.bytes(len).into();
                let offered = s.offer(bytes.clone());
                let fields = |out: &mut Vec<u8>| {
                    Load { offset }.encode(&mut Writer::new(out));
                    out.extend_from_slice(&offered.hash);
                };
                s.queue_raw(Load::OP, 0, fields).unwrap();
                model.write(offset, &bytes);
            }
            10 => {
                let status = 1 + rng.below(1000);
                s.queue(0, &Fail { status }).unwrap();
                model.event(status);
                expected.errors.push(status as i32);
            }
            _ => {
                let number = rng.next_u64();
                s.queue(0, &Call { number }).unwrap();
                model.event(number);
                expected.called.push(number);
            }
        }
    }
    s.drain().unwrap();
    let nonce = rng.next_u64();
    let a = s.call(0, &Sum { nonce }, None).unwrap();
    model.event(nonce);
    assert_eq!(Reader::new(&a.body).u64(), Ok(model.digest()), "at the end");
    assert_eq!(asynchronous.load(Ordering::Relaxed), waiting);
    assert_eq!(s.open_calls(), 0);
    expected
}

fn one(seed: u64, weather: Weather, steps: u64) -> u64 {
    let l = link(seed, weather);
    let pair = Pair::start(l.client, l.worker, None);
    let mut rng = Rng::new(seed);
    let expected = program(&pair, &mut rng, &mut Model::default(), steps);
    let resumed = pair.session.counters().resumed.load(Ordering::Relaxed);
    {
        let told = pair.told.lock().unwrap();
        assert_eq!(told.errors, expected.errors);
        assert_eq!(told.called, expected.called);
        assert_eq!(told.closed, None);
    }
    assert_eq!(pair.finish(), "the program ended");
    resumed
}

#[test]
fn a_steady_link_carries_every_call_once() {
    let weather = Weather {
        most_bytes: 0,
        cuts: 0,
    };
    seeds(6, |seed| assert_eq!(one(seed, weather, 300), 0));
}

#[test]
fn a_link_that_breaks_at_random_bytes_carries_every_call_once() {
    let mut resumed = 0;
    seeds(24, |seed| {
        let most_bytes = 1 << (8 + seed % 14);
        let weather = Weather {
            most_bytes,
            cuts: 60,
        };
        resumed += one(seed, weather, 200);
    });
    assert!(resumed > 0, "no connection ever broke");
}

#[test]
fn many_threads_share_a_session_over_a_breaking_link() {
    seeds(6, |seed| {
        let weather = Weather {
            most_bytes: 1 << 16,
            cuts: 40,
        };
        let l = link(seed, weather);
        let pair = Pair::start(l.client, l.worker, None);
        std::thread::scope(|scope| {
            for t in 0..4u64 {
                let s = &pair.session;
                scope.spawn(move || {
                    let mut rng = Rng::new(seed * 4 + t);
                    let quarter = (MEMORY / 4) as u64;
                    for _ in 0..60 {
                        let len = 1 + rng.magnitude(quarter / 2);
                        let offset = t * quarter + rng.below(quarter - len);
                        let bytes = rng.bytes(len as usize);
                        s.queue_bulk(0, &Write { offset }, Bulk::Copy(&bytes))
                            .unwrap();
                        let mut out = vec![0; len as usize];
                        let place = Some((out.as_mut_ptr(), out.len()));
                        s.call(0, &Read { offset, len }, place).unwrap();
                        assert!(out == bytes, "thread {t}: bytes differ");
                    }
                });
            }
        });
        assert_eq!(pair.finish(), "the program ended");
    });
}

#[test]
fn all_that_was_drained_is_accounted_for() {
    seeds(8, |seed| {
        let weather = Weather {
            most_bytes: 4096,
            cuts: 10,
        };
        let l = link(seed, weather);
        let pair = Pair::start(l.client, l.worker, None);
        let bytes = Rng::new(seed).bytes(100_000);
        for i in 0..20 {
            let m = Write { offset: i * 1000 };
            pair.session.queue_bulk(0, &m, Bulk::Copy(&bytes)).unwrap();
        }
        pair.session.drain().unwrap();
        assert_eq!(pair.session.unacknowledged(), 0);
        pair.finish();
    });
}

#[test]
fn a_full_window_holds_the_sender_up_until_the_link_is_back() {
    let weather = Weather {
        most_bytes: 1 << 20,
        cuts: 12,
    };
    let l = link(7, weather);
    let pair = Pair::start(l.client, l.worker, None);
    let mut model = Model::default();
    let bytes = Rng::new(7).bytes(1 << 20);
    // Three windows' worth.
    for i in 0..96 {
        let m = Write { offset: i * 1024 };
        pair.session.queue_bulk(0, &m, Bulk::Copy(&bytes)).unwrap();
        model.write(m.offset, &bytes);
    }
    let a = pair.session.call(0, &Sum { nonce: 1 }, None).unwrap();
    model.event(1);
    assert_eq!(Reader::new(&a.body).u64(), Ok(model.digest()));
    assert_eq!(pair.finish(), "the program ended");
}
