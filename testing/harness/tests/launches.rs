//! What launches that are queued cost a session over RDMA, by counting.

use busbar_channel::{Bulk, Keeper, Lost, Verdict};
use busbar_harness::link::queue_pairs;
use busbar_harness::toy::{Mix, Model, Pair, Sum, Write};
use busbar_transport::rdma::soft::Fabric;
use busbar_transport::{Memory, Path};
use busbar_wire::codec::{Message, Reader, Request, Writer};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Gives a session up at once.
struct Never;

impl Keeper for Never {
    fn detached(&mut self, lost: &Lost) -> Verdict {
        Verdict::End(format!("the link ended: {:?}", lost.how))
    }
}

/// Launches that cost a request at most, beside which something may be acknowledged, where twice as
/// many have been gathered. (One alone goes at once if nobody is sending at the moment.)
const BAR: u64 = 32;
const GATHERED: u64 = 2 * BAR;

/// A session that is on a fabric, on which one call has been answered.
fn session(fabric: &Fabric) -> (Pair, Model) {
    let (client, worker) = queue_pairs(fabric);
    assert!(client.path() == Path::Rdma && worker.path() == Path::Rdma);
    let pair = Pair::start((client, Never), (worker, Never), None);
    pair.session.call(0, &Sum { nonce: 1 }, None).unwrap();
    let mut model = Model::default();
    model.event(1);
    (pair, model)
}

/// Ends a session whose memory is to be as the model has it.
fn finish(pair: Pair, mut model: Model) {
    let a = pair.session.call(0, &Sum { nonce: 2 }, None).unwrap();
    model.event(2);
    assert_eq!(Reader::new(&a.body).u64(), Ok(model.digest()));
    assert_eq!(pair.finish(), "the program ended");
}

#[test]
fn launches_that_are_gathered_are_one_request_and_nobody_waits_for_completions() {
    let fabric = Fabric::default();
    let (pair, mut model) = session(&fabric);
    let channel = pair.session.channel();
    pair.session.drain().unwrap();
    // Nothing is executed meanwhile, so that nothing is completed. If somebody waits for that all
    // the same, this lets them go.
    fabric.hold(true);
    let (done, over) = mpsc::channel::<()>();
    let held = fabric.clone();
    let guard = thread::spawn(move || {
        let waits = over.recv_timeout(Duration::from_secs(60)).is_err();
        held.hold(false);
        waits
    });
    let before = fabric.did();
    let rounds = 100;
    for round in 0..rounds {
        for seed in round * GATHERED..(round + 1) * GATHERED {
            let launch = Mix {
                offset: 64 * seed,
                len: 64,
                seed,
            };
            let fields = |out: &mut Vec<u8>| launch.encode(&mut Writer::new(out));
            channel.put(Mix::OP, 0, 0, fields).unwrap();
            model.mix(&launch);
        }
        channel.flush();
    }
    let did = fabric.did() - before;
    let _ = done.send(());
    assert!(!guard.join().unwrap(), "somebody waits for a completion");
    let launches = rounds * GATHERED;
    println!("{launches} launches: {did:?}");
    assert!(
        did.requests > 0 && did.requests * BAR <= launches,
        "{did:?}"
    );
    assert_eq!((did.completions, did.registrations), (0, 0), "{did:?}");
    finish(pair, model);
}

#[test]
fn bulk_bytes_of_memory_that_stays_are_copied_by_nobody() {
    let fabric = Fabric::default();
    let (pair, mut model) = session(&fabric);
    let s = &pair.session;
    // Bytes of memory that stays are taken from where they lie, once that memory is registered.
    let bytes = vec![7; 1 << 20];
    let (start, len) = (bytes.as_ptr().cast_mut(), bytes.len());
    // SAFETY: forgotten below, and never changed.
    unsafe { s.keep(Memory { start, len }) };
    let before = fabric.did();
    let copies = 8;
    for _ in 0..copies {
        let bulk = Bulk::Borrow(bytes.as_ptr(), bytes.len());
        s.queue_bulk(0, &Write { offset: 0 }, bulk).unwrap();
        model.write(0, &bytes);
    }
    s.drain().unwrap();
    let did = fabric.did() - before;
    println!("{copies} copies of 1 MiB: {did:?}");
    assert_eq!(did.reads, copies, "the worker's device reads each at once");
    assert_eq!(s.channel().kept().moved()[0], copies * (1 << 20));
    assert!(did.registrations <= 2, "{did:?}");
    s.forget(bytes.as_ptr() as u64);
    finish(pair, model);
}
