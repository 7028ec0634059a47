//! Tests that run on the device in memory, and those of them that need no faults of it on any
//! other: `BUSBAR_TEST_RDMA` names the device, as [`super::ib::Choice`] has it.

mod hostile;

use super::soft::Fabric;
use super::verbs::Device;
use super::{Means, Outcome, ib, offer, ring, take};
use crate::tcp::Tcp;
use crate::{Connection, Kept, Memory, Path};
use std::io::IoSlice;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

type Conn = Arc<dyn Connection>;

/// What is tested: a device of this machine, if there is to be one.
fn device() -> Arc<dyn Device> {
    match std::env::var("BUSBAR_TEST_RDMA") {
        Ok(name) => Arc::new(ib::find(&name.parse().unwrap(), None).unwrap()),
        Err(_) => Fabric::default().device(),
    }
}

fn means(device: &Arc<dyn Device>) -> Means<'_> {
    Means {
        device: Ok(&**device),
        plain: false,
    }
}

fn sockets() -> (Conn, Conn) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let here = Tcp::connect(&at, Duration::from_secs(60)).unwrap();
    // As a client's is.
    here.reset_on_death(true);
    let there = Tcp::new(listener.accept().unwrap().0).unwrap();
    (Arc::new(here), Arc::new(there))
}

fn encrypted() -> (Conn, Conn) {
    let (a, b) = crate::tls::tests::greeted();
    (Arc::new(a), Arc::new(b))
}

/// Moves two ends of a connection: the client's, the worker's.
fn moved((client, worker): (Conn, Conn), [c, w]: [&Means<'_>; 2]) -> (Outcome, Outcome) {
    std::thread::scope(|s| {
        let worker = s.spawn(|| offer(worker, w));
        (take(client, c), worker.join().unwrap())
    })
}

fn pair_on(device: &Arc<dyn Device>) -> (Conn, Conn) {
    let m = means(device);
    let (c, w) = moved(sockets(), [&m, &m]);
    assert_eq!((c.why_not, w.why_not), (None, None));
    assert!(c.conn.path() == Path::Rdma && w.conn.path() == Path::Rdma);
    (c.conn, w.conn)
}

fn pattern(n: usize, seed: u64) -> Vec<u8> {
    let mut x = seed | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    (0..n).map(|_| next()).collect()
}

fn send(conn: &Conn, bytes: &[u8]) -> std::io::Result<()> {
    conn.send(&mut [IoSlice::new(bytes)])
}

fn echo(from: &Conn, to: &Conn, what: &[u8]) {
    send(from, what).unwrap();
    let mut got = vec![0; what.len()];
    to.recv_exact(&mut got).unwrap();
    assert_eq!(got, what);
}

/// Sends `bytes` in pieces of all sizes, and receives them so, both ways at a time.
fn both_ways(a: &Conn, b: &Conn, n: usize) {
    let there = pattern(n, 1);
    let back = pattern(n, 2);
    let give = |conn: &Conn, bytes: &[u8], sizes: &[usize]| {
        let (mut rest, mut i) = (bytes, 0);
        while !rest.is_empty() {
            let (now, after) = rest.split_at(sizes[i % sizes.len()].min(rest.len()));
            let (x, y) = now.split_at(now.len() / 3);
            conn.send(&mut [IoSlice::new(x), IoSlice::new(&[]), IoSlice::new(y)])
                .unwrap();
            (rest, i) = (after, i + 1);
        }
    };
    let get = |conn: &Conn, bytes: &[u8], sizes: &[usize]| {
        let (mut got, mut i) = (vec![0; bytes.len()], 0);
        let mut at = 0;
        while at < got.len() {
            let most = sizes[i % sizes.len()].min(got.len() - at);
            at += conn.recv(&mut got[at..at + most]).unwrap();
            i += 1;
        }
        assert!(got == bytes, "other bytes came");
    };
    std::thread::scope(|s| {
        s.spawn(|| give(a, &there, &[1, 40, 3_000_000, 17, 70_000, 5]));
        s.spawn(|| give(b, &back, &[600_000, 12, 4096]));
        s.spawn(|| get(a, &back, &[1 << 20, 3, 100_000]));
        s.spawn(|| get(b, &there, &[7, 65_536, 2_500_000]));
    });
}

#[test]
fn bytes_of_any_size_come_as_they_were_sent_both_ways() {
    let d = device();
    let (a, b) = pair_on(&d);
    echo(&a, &b, b"x");
    echo(&b, &a, b"and back");
    both_ways(&a, &b, 20 << 20);
    assert_eq!(a.try_recv(&mut [0; 8]).unwrap(), None);
    assert!(!a.wait(None, Some(Duration::from_millis(1))).unwrap());
}

#[test]
fn a_sender_waits_for_room_and_goes_on_when_there_is() {
    // As few bytes as there are writes for, and as many as there is room for.
    for (piece, pieces) in [(1, 2000), (1 << 20, 9)] {
        let d = device();
        let (a, b) = pair_on(&d);
        let what = pattern(piece, 7);
        let sent = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                (0..pieces).for_each(|_| send(&a, &what).unwrap());
                sent.store(true, Ordering::SeqCst);
            });
            // Nobody receives: this cannot be sent, however long it is waited for.
            std::thread::sleep(Duration::from_millis(100));
            assert!(!sent.load(Ordering::SeqCst));
            let mut got = vec![0; piece];
            for _ in 0..pieces {
                b.recv_exact(&mut got).unwrap();
                assert!(got == what);
            }
        });
        assert!(sent.load(Ordering::SeqCst));
        assert_eq!(b.try_recv(&mut [0]).unwrap(), None);
    }
}

#[test]
fn a_sleeper_is_woken_by_bytes_by_an_alarm_and_by_the_end() {
    let d = device();
    let (a, b) = pair_on(&d);
    let long = Some(Duration::from_secs(600));
    let alarm = crate::Alarm::new().unwrap();
    // It may wake early.
    let ready = |alarm| while !b.wait(alarm, long).unwrap() {};
    std::thread::scope(|s| {
        let waits = s.spawn(|| ready(None));
        send(&a, b"x").unwrap();
        waits.join().unwrap();
        assert_eq!(b.recv(&mut [0; 4]).unwrap(), 1);
        let waits = s.spawn(|| b.wait(Some(alarm.as_fd()), long).unwrap());
        alarm.ring();
        assert!(!waits.join().unwrap());
        let ends = s.spawn(|| b.recv(&mut [0; 4]));
        drop(a);
        assert!(!matches!(ends.join().unwrap(), Ok(n) if n > 0));
    });
}

#[test]
fn what_was_sent_before_the_end_is_received_and_then_the_end() {
    let d = device();
    for orderly in [true, false] {
        let (a, b) = pair_on(&d);
        echo(&b, &a, b"first");
        send(&a, b"last words").unwrap();
        let mut got = [0; 4];
        b.recv_exact(&mut got).unwrap();
        if orderly {
            a.shutdown();
            assert!(send(&a, b"more").is_err());
        }
        drop(a);
        let mut rest = [0; 6];
        b.recv_exact(&mut rest).unwrap();
        assert_eq!(&rest, b" words");
        assert!(!matches!(b.recv(&mut got), Ok(n) if n > 0));
        // One that has just gone is one that has died.
        assert_eq!(b.was_reset(), !orderly);
        assert!((0..).any(|_| send(&b, b"x").is_err()));
    }
}

#[test]
fn two_hundred_connections_leave_nothing_behind() {
    let fabric = Fabric::default();
    let d = match std::env::var_os("BUSBAR_TEST_RDMA") {
        Some(_) => device(),
        None => fabric.device(),
    };
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    drop(pair_on(&d));
    let before = open();
    for i in 0..200 {
        let (a, b) = pair_on(&d);
        echo(&a, &b, &pattern(1 + 997 * i, i as u64));
    }
    assert_eq!((fabric.pairs(), fabric.registered()), (0, 0));
    // Other tests have some open, and come and go.
    assert!(
        open() < before + 150,
        "{before} were open before, {} are",
        open()
    );
}

#[test]
fn a_device_that_is_missing_at_one_end_is_said_at_both() {
    let d = device();
    let none = || Means {
        device: Err("no device here".into()),
        plain: false,
    };
    let have = means(&d);
    for (c, w) in [(&have, &none()), (&none(), &have), (&none(), &none())] {
        let (client, worker) = moved(sockets(), [c, w]);
        for (o, own) in [(&client, c), (&worker, w)] {
            let why = o.why_not.as_deref().unwrap();
            assert!(why.ends_with("no device here"), "{why}");
            let told = why.starts_with("at the other end");
            assert!(!told || own.device.is_ok() || c.device.is_err() && w.device.is_err());
            assert_eq!((o.conn.path(), o.lost), (Path::Tcp, false));
        }
        echo(&client.conn, &worker.conn, b"goes on");
        echo(&worker.conn, &client.conn, b"both ways");
    }
}

#[test]
fn a_fabric_that_does_not_carry_is_found_out_before_anything_is_lost() {
    let fabric = Fabric::default();
    let d = fabric.device();
    fabric.cut(true);
    let (c, w) = moved(sockets(), [&means(&d), &means(&d)]);
    let why = c.why_not.unwrap();
    assert!(why.contains("do not reach each other"), "{why}");
    assert!(w.why_not.unwrap().contains("do not reach each other"));
    echo(&c.conn, &w.conn, b"goes on");
    assert_eq!((fabric.pairs(), fabric.registered()), (0, 0));
    // Two devices that are not of one fabric are no better.
    let other = Fabric::default().device();
    let (c, w) = moved(sockets(), [&means(&fabric.device()), &means(&other)]);
    assert!(c.why_not.is_some() && w.why_not.is_some());
    echo(&w.conn, &c.conn, b"goes on");
}

#[test]
fn memory_that_cannot_be_registered_leaves_the_connection_as_it_is() {
    let fabric = Fabric::default();
    let d = fabric.device();
    fabric.refuse_memory(true);
    let (c, w) = moved(sockets(), [&means(&d), &means(&d)]);
    assert!(w.why_not.unwrap().contains("`ulimit -l`"));
    assert!(c.why_not.unwrap().contains("at the other end"));
    echo(&c.conn, &w.conn, b"goes on");
    assert_eq!((fabric.pairs(), fabric.registered()), (0, 0));
}

#[test]
fn a_queue_pair_that_fails_ends_the_connection_at_both_ends_and_neither_has_died() {
    let fabric = Fabric::default();
    let d = fabric.device();
    // One waits, for bytes or for room; the other finds out by itself or is told.
    for waits_for_room in [false, true] {
        let (a, b) = pair_on(&d);
        echo(&a, &b, b"before");
        std::thread::scope(|s| {
            let waits = s.spawn(|| match waits_for_room {
                true => (0..).find_map(|_| send(&b, &[0; 1 << 20]).err()).unwrap(),
                false => b.recv(&mut [0; 9]).unwrap_err(),
            });
            std::thread::sleep(Duration::from_millis(20));
            fabric.fail_all();
            assert!(!waits.join().unwrap().to_string().is_empty());
        });
        assert!((0..).any(|_| send(&a, b"x").is_err()));
        assert!(a.recv(&mut [0]).is_err() && a.hung_up());
        assert!(!a.was_reset() && !b.was_reset());
    }
    assert_eq!((fabric.pairs(), fabric.registered()), (0, 0));
}

#[test]
fn a_link_that_is_cut_is_told_to_the_peer_by_the_other_connection() {
    let fabric = Fabric::default();
    let d = fabric.device();
    let (a, b) = pair_on(&d);
    fabric.cut(true);
    // The first write fails, and this end sees it with its next.
    assert!((0..).any(|_| send(&a, b"x").is_err()));
    let e = b.recv(&mut [0]).unwrap_err();
    assert!(e.to_string().contains("given it up"), "{e}");
    assert!(!b.was_reset());
}

#[test]
fn small_pieces_go_together_and_nobody_waits_for_completions() {
    let fabric = Fabric::default();
    let d = fabric.device();
    let (a, b) = pair_on(&d);
    let before = fabric.did();
    let records: Vec<_> = (0..32u8).map(|i| [i; 120]).collect();
    let mut slices: Vec<_> = records.iter().map(|r| IoSlice::new(r)).collect();
    fabric.hold(true);
    // Nothing is executed meanwhile, so nothing is completed.
    (0..8).for_each(|_| a.send(&mut slices).unwrap());
    fabric.hold(false);
    assert_eq!((fabric.did() - before).writes, 8);
    let mut got = vec![0; 8 * 32 * 120];
    b.recv_exact(&mut got).unwrap();
    assert!(got == records.concat().repeat(8));
}

#[test]
fn what_is_encrypted_on_the_connection_is_so_in_the_ring_unless_both_say_otherwise() {
    let secret = b"nobody is to see these words in the ring";
    for (client, worker) in [(false, false), (true, false), (false, true), (true, true)] {
        let fabric = Fabric::default();
        let d = fabric.device();
        let [c, w] = [client, worker].map(|plain| Means { plain, ..means(&d) });
        let (c, w) = moved(encrypted(), [&c, &w]);
        assert_eq!((c.why_not, w.why_not), (None, None));
        fabric.tap();
        echo(&c.conn, &w.conn, secret);
        echo(&w.conn, &c.conn, secret);
        let seen = fabric.tapped();
        let clear = seen.windows(secret.len()).any(|s| s == secret);
        assert_eq!(clear, client && worker);
        both_ways(&c.conn, &w.conn, 5 << 20);
    }
}

#[test]
fn bytes_that_are_changed_in_an_encrypted_ring_end_the_connection() {
    let fabric = Fabric::default();
    let d = fabric.device();
    let (c, w) = moved(encrypted(), [&means(&d), &means(&d)]);
    fabric.spoil();
    send(&c.conn, b"text").unwrap();
    assert!(w.conn.recv(&mut [0; 8]).is_err());
}

/// Memory that stays.
struct Stays {
    bytes: Vec<u8>,
    kept: Arc<Kept>,
}

impl Stays {
    fn new(bytes: Vec<u8>) -> Self {
        let kept = Arc::new(Kept::default());
        let mut it = Self { bytes, kept };
        let memory = it.all();
        // SAFETY: it is forgotten when it is dropped; tests change it when all has been received.
        unsafe { it.kept.keep(memory) };
        it
    }

    fn all(&mut self) -> Memory {
        Memory {
            start: self.bytes.as_mut_ptr(),
            len: self.bytes.len(),
        }
    }
}

impl Drop for Stays {
    fn drop(&mut self) {
        self.kept.forget(self.bytes.as_ptr() as usize);
    }
}

/// Sends slices of `from` behind some bytes each, and receives them in the same places of `to`.
fn slices(a: &Conn, b: &Conn, from: &[u8], to: &mut [u8], sizes: &[usize]) {
    std::thread::scope(|s| {
        s.spawn(|| {
            let (mut rest, mut i) = (from, 0);
            while !rest.is_empty() {
                let head = [i as u8; 41];
                let (now, after) = rest.split_at(sizes[i % sizes.len()].min(rest.len()));
                a.send(&mut [IoSlice::new(&head), IoSlice::new(now)])
                    .unwrap();
                (rest, i) = (after, i + 1);
            }
        });
        let (mut rest, mut i) = (&mut *to, 0);
        while !rest.is_empty() {
            let mut head = [0; 41];
            b.recv_exact(&mut head).unwrap();
            assert_eq!(head, [i as u8; 41]);
            let now;
            (now, rest) = rest.split_at_mut(sizes[i % sizes.len()].min(rest.len()));
            b.recv_exact(now).unwrap();
            i += 1;
        }
    });
    assert!(from == to, "other bytes came");
}

/// Takes what has come to this end: words, for there is nothing else.
fn looks(conn: &Conn, until: impl Fn() -> bool) {
    while !until() {
        assert_eq!(conn.try_recv(&mut [0]).unwrap(), None);
        std::thread::yield_now();
    }
}

/// Sizes that are lent, and some that are not; together they meet the ring's end in many ways.
const SIZES: &[usize] = &[ring::LEND, 1 << 20, 7, ring::LEND + 13, 3_300_001, 65_000];

#[test]
fn long_slices_of_memory_that_stays_are_moved_in_place() {
    let d = device();
    let (a, b) = pair_on(&d);
    let n = 24 << 20;
    let (from, mut to) = (Stays::new(pattern(n, 3)), Stays::new(vec![0; n]));
    a.attend(&from.kept);
    b.attend(&to.kept);
    slices(&a, &b, &from.bytes, &mut to.bytes, SIZES);
    let ([sent, _], [_, received]) = (from.kept.moved(), to.kept.moved());
    // All but what is short, and a few bytes where the ring ends.
    assert!(sent > n as u64 * 9 / 10, "{sent}");
    assert_eq!(sent, received);
    // The other way over the same connection, and as bytes beside it.
    to.bytes.fill(1);
    let mut back = vec![0; n];
    slices(&b, &a, &to.bytes, &mut back, SIZES);
    both_ways(&a, &b, 5 << 20);
}

#[test]
fn where_one_end_does_not_know_the_memory_bytes_come_all_the_same() {
    let d = device();
    let n = 9 << 20;
    for (sender, receiver) in [(true, false), (false, true), (false, false)] {
        let (a, b) = pair_on(&d);
        let (from, mut to) = (Stays::new(pattern(n, 3)), Stays::new(vec![0; n]));
        if sender {
            a.attend(&from.kept);
        }
        if receiver {
            b.attend(&to.kept);
        }
        slices(&a, &b, &from.bytes, &mut to.bytes, SIZES);
        assert_eq!(from.kept.moved()[0] > 0, sender);
        assert_eq!(to.kept.moved()[1], 0);
    }
}

#[test]
fn memory_and_windows_that_cannot_be_had_leave_the_bytes_to_the_ring() {
    let n = 5 << 20;
    type Refuse = fn(&Fabric, bool);
    for refuse in [Fabric::refuse_memory as Refuse, Fabric::refuse_windows] {
        let fabric = Fabric::default();
        let (a, b) = pair_on(&fabric.device());
        let (from, mut to) = (Stays::new(pattern(n, 3)), Stays::new(vec![0; n]));
        a.attend(&from.kept);
        b.attend(&to.kept);
        refuse(&fabric, true);
        slices(&a, &b, &from.bytes, &mut to.bytes, SIZES);
        assert_eq!((from.kept.moved()[0], fabric.did().reads), (0, 0));
    }
}

#[test]
fn memory_that_cannot_be_locked_is_moved_in_place_by_a_device_that_pages() {
    let n = 5 << 20;
    for pages in [false, true] {
        let fabric = Fabric::default();
        let (a, b) = pair_on(&fabric.device());
        let (from, mut to) = (Stays::new(pattern(n, 3)), Stays::new(vec![0; n]));
        a.attend(&from.kept);
        b.attend(&to.kept);
        fabric.refuse_memory(true);
        fabric.page(pages);
        slices(&a, &b, &from.bytes, &mut to.bytes, SIZES);
        assert_eq!(fabric.did().reads > 0, pages);
        let ([sent, _], [_, received]) = (from.kept.moved(), to.kept.moved());
        assert_eq!((sent > 0, received > 0), (pages, pages));
        drop((a, b));
        assert_eq!((fabric.pairs(), fabric.registered()), (0, 0));
    }
}

#[test]
fn what_is_lent_is_so_until_it_was_read_and_registered_until_it_is_forgotten() {
    let fabric = Fabric::default();
    let (a, b) = pair_on(&fabric.device());
    let before = fabric.registered();
    let n = 2 << 20;
    let (from, mut to) = (Stays::new(pattern(n, 3)), Stays::new(vec![0; n]));
    a.attend(&from.kept);
    b.attend(&to.kept);
    send(&a, &from.bytes).unwrap();
    assert_eq!((fabric.lent(), fabric.registered()), (n, before + n));
    // The memory goes meanwhile, as far as it is asked: what is lent of it is so for its reader.
    from.kept.forget(from.bytes.as_ptr() as usize);
    assert_eq!(fabric.registered(), before + n);
    b.recv_exact(&mut to.bytes).unwrap();
    assert!(from.bytes == to.bytes);
    looks(&a, || fabric.lent() == 0);
    // Whoever sends next finds it closed.
    send(&a, b"x").unwrap();
    assert_eq!(fabric.registered(), before + n);
    drop(to);
    assert_eq!(fabric.registered(), before);
    // Not of memory that stays any more.
    send(&a, &from.bytes[..n / 2]).unwrap();
    assert_eq!(fabric.lent(), 0);
    drop((a, b));
    assert_eq!((fabric.pairs(), fabric.registered()), (0, 0));
}

#[test]
fn what_is_held_for_a_slice_is_so_until_the_peer_has_read_it() {
    let d = device();
    let (a, b) = pair_on(&d);
    let n = 1 << 20;
    let (from, mut got) = (Stays::new(pattern(n, 3)), vec![0; n]);
    a.attend(&from.kept);
    let send_held = |bytes: &[u8]| {
        let held: Arc<()> = Arc::default();
        a.send_held(
            &mut [IoSlice::new(b"head"), IoSlice::new(bytes)],
            held.clone(),
        )
        .unwrap();
        held
    };
    let [first, second] = [(); 2].map(|()| send_held(&from.bytes));
    let is_held = |held: &Arc<()>| Arc::strong_count(held) > 1;
    for held in [&first, &second] {
        assert!(is_held(&first) == std::ptr::eq(held, &first) && is_held(&second));
        b.recv_exact(&mut got[..4]).unwrap();
        b.recv_exact(&mut got).unwrap();
        assert!(got == from.bytes);
        looks(&a, || !is_held(held));
    }
    // What is copied is free at once, and what is lent as a connection ends is so with it.
    assert!(!is_held(&send_held(&pattern(n, 4))));
    let last = send_held(&from.bytes);
    assert!(is_held(&last));
    drop(a);
    assert!(!is_held(&last));
}

#[test]
fn a_connection_that_ends_leaves_nothing_registered_of_memory_that_stays() {
    let fabric = Fabric::default();
    let (a, b) = pair_on(&fabric.device());
    let (from, mut to) = (
        Stays::new(pattern(1 << 20, 3)),
        Stays::new(vec![0; 1 << 20]),
    );
    a.attend(&from.kept);
    b.attend(&to.kept);
    fabric.hold(true);
    send(&a, &from.bytes).unwrap();
    std::thread::scope(|s| {
        let reads = s.spawn(|| b.recv_exact(&mut to.bytes));
        fabric.hold(false);
        fabric.fail_all();
        let _ = reads.join().unwrap();
    });
    drop((a, b));
    assert_eq!((fabric.pairs(), fabric.registered()), (0, 0));
    // Another connection registers it anew.
    let (a, b) = pair_on(&fabric.device());
    a.attend(&from.kept);
    b.attend(&to.kept);
    slices(&a, &b, &from.bytes, &mut to.bytes, &[1 << 20]);
    assert!(to.kept.moved()[1] >= 1 << 20);
}

#[test]
fn a_link_that_is_cut_within_a_read_fails_it_and_nothing_is_written_later() {
    let fabric = Fabric::default();
    let (a, b) = pair_on(&fabric.device());
    let (from, mut to) = (Stays::new(vec![7; 1 << 20]), Stays::new(vec![0; 1 << 20]));
    a.attend(&from.kept);
    b.attend(&to.kept);
    send(&a, &from.bytes).unwrap();
    // It has come, and what it says can be taken, but nothing be read.
    fabric.hold(true);
    std::thread::scope(|s| {
        let reads = s.spawn(|| b.recv_exact(&mut to.bytes).unwrap_err());
        b.shutdown();
        reads.join().unwrap();
    });
    fabric.hold(false);
    assert!(to.bytes.iter().all(|b| *b == 0));
    assert_eq!(fabric.did().reads, 0);
}

#[test]
fn a_read_that_the_peer_does_not_live_to_answer_ends_with_it() {
    let fabric = Fabric::default();
    let (a, b) = pair_on(&fabric.device());
    let (from, mut to) = (Stays::new(vec![7; 1 << 20]), Stays::new(vec![0; 1 << 20]));
    a.attend(&from.kept);
    b.attend(&to.kept);
    send(&a, &from.bytes).unwrap();
    // A device that never says how a read has ended.
    fabric.hold(true);
    std::thread::scope(|s| {
        let reads = s.spawn(|| b.recv_exact(&mut to.bytes).unwrap_err());
        drop(a);
        reads.join().unwrap();
    });
    drop(b);
    fabric.hold(false);
    assert!(to.bytes.iter().all(|b| *b == 0));
}

#[test]
fn what_comes_instead_of_a_message_ends_the_connection_and_is_taken_for_nothing() {
    let fabric = Fabric::default();
    let device = fabric.device();
    // As frames begin: a length, of which the first byte is any.
    for first in 0..4 {
        let (client, server) = sockets();
        server
            .send(&mut [IoSlice::new(&[first, 0, 0, 0, 1]), IoSlice::new(&[5; 40])])
            .unwrap();
        let outcome = take(client, &means(&device));
        assert!(outcome.why_not.is_some() && outcome.lost);
        assert!(!matches!(outcome.conn.recv(&mut [0; 64]), Ok(n) if n > 0));
    }
    assert_eq!(fabric.pairs(), 0);
}

/// What a copy and what launches cost, by counting.
#[test]
fn a_piece_in_place_costs_three_requests_here_and_two_there_and_launches_one_for_many() {
    let fabric = Fabric::default();
    let (a, b) = pair_on(&fabric.device());
    let (piece, pieces) = (1 << 20, 24);
    let (from, mut to) = (
        Stays::new(pattern(piece * pieces, 3)),
        Stays::new(vec![0; piece]),
    );
    a.attend(&from.kept);
    b.attend(&to.kept);
    let before = fabric.did();
    for part in from.bytes.chunks(piece) {
        let mut head = [5; 40];
        a.send(&mut [IoSlice::new(&head), IoSlice::new(part)])
            .unwrap();
        b.recv_exact(&mut head).unwrap();
        b.recv_exact(&mut to.bytes).unwrap();
        assert!(to.bytes == part);
    }
    looks(&a, || fabric.lent() == 0);
    let did = fabric.did() - before;
    let pieces = pieces as u64;
    // The window opened, the write with the reference, the window closed; the read, and the word.
    assert_eq!((did.requests, did.reads), (5 * pieces, pieces));
    // Each end registers its memory once, and takes completions of no more than it must.
    assert_eq!(did.registrations, 2);
    assert!(did.completions <= 4 * pieces, "{did:?}");
    // No byte of a piece took the ring: what a processor copied is what is written into it.
    assert_eq!(from.kept.moved()[0], (piece as u64) * pieces);

    // Launches: 32 gathered into one call are one request, and nobody waits for its completion.
    let records: Vec<_> = (0..32u8).map(|i| [i; 120]).collect();
    let mut launches: Vec<_> = records.iter().map(|r| IoSlice::new(r)).collect();
    fabric.hold(true);
    let before = fabric.did();
    (0..8).for_each(|_| a.send(&mut launches).unwrap());
    let did = fabric.did() - before;
    assert_eq!((did.requests, did.registrations, did.writes), (8, 0, 0));
    fabric.hold(false);
    let mut got = vec![0; 8 * 32 * 120];
    b.recv_exact(&mut got).unwrap();
    assert!(got == records.concat().repeat(8));
}
