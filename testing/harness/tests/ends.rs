//! How sessions end: in good order, by a lost peer, by one that breaks the protocol.

use busbar_channel::{
    Bulk, Channel, Closed, Counters, Keeper, Lost, Sink, Verdict, recv_hello, send_hello,
};
use busbar_harness::link::{Weather, link};
use busbar_harness::toy::{Fail, Pair, Read, Sum, Write};
use busbar_transport::Connection;
use busbar_transport::mem;
use busbar_wire::frame;
use busbar_wire::record::Notice;
use busbar_wire::session::Execution;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Gives a session up at once.
struct Never;

impl Keeper for Never {
    fn detached(&mut self, lost: &Lost) -> Verdict {
        Verdict::End(format!("the link ended: {:?}", lost.how))
    }
}

const STEADY: Weather = Weather {
    most_bytes: 0,
    cuts: 0,
};

#[test]
fn a_lost_worker_ends_every_waiting_call() {
    let (a, b) = mem::pair();
    let pair = Pair::start((Arc::new(a), Never), (Arc::new(b), Never), None);
    pair.session.call(0, &Sum { nonce: 1 }, None).unwrap();
    let worker = loop {
        if let Some(c) = pair.worker_channel.get() {
            break c.clone();
        }
        std::thread::yield_now();
    };
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let s = pair.session.clone();
            std::thread::spawn(move || {
                while s.call(0, &Sum { nonce: 2 }, None).is_ok() {}
                s.queue(0, &Sum { nonce: 3 }).is_err()
            })
        })
        .collect();
    worker.disconnect();
    for c in callers {
        assert!(c.join().unwrap(), "a call was queued after the end");
    }
    assert!(pair.session.closed().is_some());
    assert!(pair.told.lock().unwrap().closed.is_some());
    assert_eq!(pair.worker_ended(), "the link ended: Eof");
}

#[test]
fn what_breaks_the_protocol_is_named_to_the_client() {
    let l = link(1, STEADY);
    let pair = Pair::start(l.client, l.worker, None);
    pair.session.queue_raw(0x7777_u16, 0, |_| {}).unwrap();
    let e = pair.session.call(0, &Sum { nonce: 1 }, None).unwrap_err();
    assert!(e.to_string().contains("0x7777"), "{e}");
    assert!(pair.worker_ended().contains("0x7777"));
}

#[test]
fn bytes_after_the_last_field_end_the_session() {
    let l = link(1, STEADY);
    let pair = Pair::start(l.client, l.worker, None);
    let more = |out: &mut Vec<u8>| out.extend_from_slice(&[0; 9]);
    pair.session.queue_raw(4_u16, 0, more).unwrap();
    assert!(pair.session.call(0, &Sum { nonce: 1 }, None).is_err());
    assert!(pair.worker_ended().contains("after its last field"));
}

#[test]
fn closing_while_others_call_wakes_them() {
    for seed in 0..20 {
        let weather = Weather {
            most_bytes: 2000,
            cuts: 1000,
        };
        let l = link(seed, weather);
        let pair = Pair::start(l.client, l.worker, None);
        let callers: Vec<_> = (0..3)
            .map(|_| {
                let s = pair.session.clone();
                std::thread::spawn(move || while s.call(0, &Sum { nonce: 2 }, None).is_ok() {})
            })
            .collect();
        std::thread::sleep(Duration::from_millis(seed));
        pair.session.close();
        for c in callers {
            c.join().unwrap();
        }
    }
}

#[test]
fn a_worker_that_closes_first_after_a_goodbye_is_not_lost() {
    for nonce in 0..300 {
        let (a, b) = mem::pair();
        let pair = Pair::start((Arc::new(a), Never), (Arc::new(b), Never), None);
        pair.session.call(0, &Sum { nonce }, None).unwrap();
        let session = pair.session.clone();
        assert_eq!(pair.finish(), "the program ended");
        let why = session.closed().map(ToString::to_string);
        assert!(!why.unwrap_or_default().contains("the link ended"));
    }
}

#[test]
fn each_call_is_awaited_until_it_is_answered() {
    let l = link(1, STEADY);
    let pair = Pair::start(l.client, l.worker, None);
    for nonce in 0..100 {
        pair.session.call(0, &Sum { nonce }, None).unwrap();
        // One that fails and one that nobody waits for.
        pair.session.queue(0, &Fail { status: 7 }).unwrap();
        let mut out = [0; 64];
        let place = Some((out.as_mut_ptr(), out.len()));
        let read = Read { offset: 0, len: 64 };
        pair.session.call(0, &read, place).unwrap();
    }
    let worker = pair.worker_channel.get().expect("it has answered").clone();
    assert_eq!(pair.session.channel().awaited(), 0);
    assert_eq!(pair.finish(), "the program ended");
    // The last answer is on its way before it is counted.
    assert_eq!(worker.awaited(), 0);
}

#[test]
fn a_hello_in_mid_session_is_refused() {
    let (a, b) = mem::pair();
    let raw: Arc<dyn Connection> = Arc::new(a);
    let pair = Pair::start((raw.clone(), Never), (Arc::new(b), Never), None);
    pair.session.call(0, &Sum { nonce: 1 }, None).unwrap();
    // The worker may hang up before the whole of it is sent.
    let _ = send_hello(&*raw, frame::Kind::Hello, b"{}");
    assert!(pair.session.call(0, &Sum { nonce: 1 }, None).is_err());
    assert!(pair.worker_ended().contains("does not belong here"));
}

#[test]
fn pings_ahead_of_a_welcome_say_only_that_it_is_coming() {
    let (client, server) = mem::pair();
    for _ in 0..3 {
        send_hello(&server, frame::Kind::Ping, &[]).unwrap();
    }
    send_hello(&server, frame::Kind::Welcome, b"{}").unwrap();
    assert_eq!(recv_hello(&client, frame::Kind::Welcome).unwrap(), b"{}");
    // A server takes none ahead of a hello, and a client takes nothing else.
    send_hello(&client, frame::Kind::Ping, &[]).unwrap();
    assert!(recv_hello(&server, frame::Kind::Hello).is_err());
    send_hello(&server, frame::Kind::Ack, &[]).unwrap();
    assert!(recv_hello(&client, frame::Kind::Welcome).is_err());
}

#[test]
fn a_frame_in_parts_needs_a_connection_for_each_and_length() {
    let short = "short frame in so many parts";
    let none = "no connection for one of them";
    for (len, parts, why) in [
        (4096, 1, short),
        (256 << 10, 1, none),
        (256 << 10, 2, short),
        (1 << 20, 1, none),
        (1 << 20, 3, none),
        (1 << 20, 4, "flag of a frame"),
    ] {
        let (a, b) = mem::pair();
        let raw: Arc<dyn Connection> = Arc::new(a);
        let pair = Pair::start((raw.clone(), Never), (Arc::new(b), Never), None);
        pair.session.call(0, &Sum { nonce: 1 }, None).unwrap();
        let h = frame::Header {
            flags: parts,
            seq: 2,
            ..frame::Header::plain(frame::Kind::Data, len)
        };
        // The worker may hang up before the whole of it is sent.
        let _ = raw.send(&mut [std::io::IoSlice::new(&h.to_bytes())]);
        assert!(pair.session.call(0, &Sum { nonce: 1 }, None).is_err());
        assert!(pair.worker_ended().contains(why), "{why}");
    }
}

#[test]
fn a_side_connection_that_nobody_knows_is_none() {
    let (a, b) = mem::pair();
    let raw: Arc<dyn Connection> = Arc::new(a);
    let pair = Pair::start((raw.clone(), Never), (Arc::new(b), Never), None);
    pair.session.call(0, &Sum { nonce: 1 }, None).unwrap();
    let worker = pair.worker_channel.get().expect("it has answered");
    let offer = || worker.offer_side(Arc::new(mem::pair().0));
    let (forgotten, present) = (offer(), offer());
    let name = |seq| {
        let h = frame::Header {
            flags: frame::SIDE,
            seq,
            ..frame::Header::plain(frame::Kind::Ping, 0)
        };
        raw.send(&mut [std::io::IoSlice::new(&h.to_bytes())])
            .unwrap();
    };
    name(forgotten);
    name(present + 1);
    pair.session.call(0, &Sum { nonce: 2 }, None).unwrap();
    let long = vec![7; 1 << 20];
    let bulk = Bulk::Borrow(long.as_ptr(), long.len());
    pair.session
        .queue_bulk(0, &Write { offset: 0 }, bulk)
        .unwrap();
    pair.session.drain().unwrap();
    let aside = |c: &Counters| c.aside.load(Ordering::Relaxed);
    assert_eq!(aside(pair.session.counters()), 0);
    assert_eq!(pair.finish(), "the program ended");
}

#[test]
fn a_write_outside_of_memory_reaches_nothing() {
    let l = link(1, STEADY);
    let pair = Pair::start(l.client, l.worker, None);
    let m = Write { offset: u64::MAX };
    pair.session.queue(0, &m).unwrap();
    assert!(pair.session.call(0, &Sum { nonce: 1 }, None).is_err());
    assert!(pair.worker_ended().contains("stretch of memory"));
}

/// Memory that was sent from where it lies may belong to something that has a last word.
struct LastWord {
    bytes: Vec<u8>,
    channel: Channel,
    said: Arc<AtomicBool>,
}

impl Drop for LastWord {
    fn drop(&mut self) {
        let output = Notice::Output as u16;
        self.channel.push(output, 0, 0, |_| {}).unwrap();
        self.channel.flush();
        self.said.store(true, Ordering::Release);
    }
}

#[test]
fn what_is_given_back_may_speak() {
    let l = link(1, STEADY);
    let pair = Pair::start(l.client, l.worker, None);
    pair.session.call(0, &Sum { nonce: 1 }, None).unwrap();
    let channel = pair.worker_channel.get().expect("it has answered").clone();
    let said = Arc::new(AtomicBool::new(false));
    let word = LastWord {
        bytes: vec![b'x'; 64 << 10],
        channel: channel.clone(),
        said: said.clone(),
    };
    let (p, n) = (word.bytes.as_ptr(), word.bytes.len());
    let keep: Arc<dyn std::any::Any + Send + Sync> = Arc::new(word);
    let bulk = Bulk::Shared(p, n, &keep);
    let output = Notice::Output as u16;
    channel.push_bulk(output, 0, 0, |_| {}, bulk).unwrap();
    drop(keep);
    // Each brings the worker the word of what has arrived.
    while !said.load(Ordering::Acquire) {
        pair.session.call(0, &Sum { nonce: 2 }, None).unwrap();
    }
    pair.session.call(0, &Sum { nonce: 3 }, None).unwrap();
    pair.finish();
}

/// Takes frames, which wait to be executed.
struct Waits(Arc<Execution>);

impl Sink for Waits {
    fn place(&mut self, _: usize, _: &[u8]) -> Option<(*mut u8, usize)> {
        None
    }

    fn deliver(&mut self, seq: u64, _: &mut Vec<u8>) -> Result<(), String> {
        self.0.stages[0].enter(seq);
        Ok(())
    }

    fn execution(&self) -> Arc<Execution> {
        self.0.clone()
    }

    fn closed(&mut self, _: &Closed) {}
}

#[test]
fn what_is_received_is_not_yet_executed() {
    let (a, b) = mem::pair();
    let end = |name, conn, execution: &Arc<Execution>| {
        let sink = Box::new(Waits(execution.clone()));
        Channel::start(name, Arc::new(conn), sink, Box::new(Never)).expect("threads start")
    };
    let execution = Arc::<Execution>::default();
    let client = end("client", a, &Arc::default());
    let worker = end("worker", b, &execution);
    let mut marks = Vec::new();
    for _ in 0..3 {
        client.push(1_u16, 0, 0, |_| {}).unwrap();
        client.received(client.mark()).unwrap();
        marks.push(client.mark());
    }
    assert!(marks.iter().all(|m| !client.executed(*m)));
    execution.stages[0].leave(2);
    // Each frame that it sends brings the client the word.
    while !client.executed(marks[1]) {
        worker.push(1_u16, 0, 0, |_| {}).unwrap();
        worker.received(worker.mark()).unwrap();
    }
    assert!(client.executed(marks[0]) && !client.executed(marks[2]));
    worker.close("done", Duration::ZERO);
}
