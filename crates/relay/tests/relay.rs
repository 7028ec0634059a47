//! The relay between real sockets: what goes in comes out, and endings arrive as what they were.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use busbar_relay::units::parse_planned;
use busbar_relay::{LinkSpec, Options, Relay};

/// A test that hangs fails instead.
const PATIENCE: Duration = Duration::from_secs(30);

fn quick() -> LinkSpec {
    LinkSpec {
        delay_ns: 200_000,
        rate_bps: Some(4_750_000_000),
        jitter_ns: 0,
    }
}

struct Pair {
    relay: Relay,
    listener: TcpListener,
}

impl Pair {
    fn new(link: LinkSpec) -> Pair {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap().to_string();
        let relay = Relay::start(Options::new("127.0.0.1:0", &to, link)).unwrap();
        Pair { relay, listener }
    }

    fn address(&self) -> SocketAddr {
        self.relay.address()
    }

    /// The client's and the server's end of a new connection.
    fn connect(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.address()).unwrap();
        let server = self.listener.accept().unwrap().0;
        for socket in [&client, &server] {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.set_write_timeout(Some(PATIENCE)).unwrap();
        }
        (client, server)
    }
}

/// Closes with a reset.
fn reset(socket: TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let len = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `linger`.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            std::ptr::from_ref(&linger).cast(),
            len,
        )
    };
    assert_eq!(rc, 0);
}

fn assert_reset(socket: &mut TcpStream) {
    let mut rest = Vec::new();
    let error = socket
        .read_to_end(&mut rest)
        .expect_err("a reset is not an orderly end");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

/// Bytes that depend on their place, so that a lost, doubled or swapped byte shows.
fn pattern(at: usize, seed: usize) -> u8 {
    ((at ^ (at >> 8) ^ (at >> 16)).wrapping_mul(31) + seed) as u8
}

fn send_pattern(mut to: TcpStream, total: usize, seed: usize) {
    let mut sent = 0;
    let mut size = 1;
    while sent < total {
        size = (size * 7 + 13) % 100_000 + 1;
        let len = size.min(total - sent);
        let block: Vec<u8> = (sent..sent + len).map(|at| pattern(at, seed)).collect();
        to.write_all(&block).unwrap();
        sent += len;
    }
    to.shutdown(Shutdown::Write).unwrap();
}

fn check_pattern(mut from: TcpStream, total: usize, seed: usize) {
    let mut buffer = vec![0; 70_001];
    let mut got = 0;
    loop {
        let len = from.read(&mut buffer).unwrap();
        if len == 0 {
            break;
        }
        for (index, &byte) in buffer[..len].iter().enumerate() {
            assert_eq!(byte, pattern(got + index, seed), "at byte {}", got + index);
        }
        got += len;
    }
    assert_eq!(got, total);
}

#[test]
fn bytes_arrive_whole_and_in_order_on_many_connections_both_ways() {
    let pair = Pair::new(LinkSpec {
        jitter_ns: 100_000,
        ..quick()
    });
    let mut threads = Vec::new();
    for seed in 0..12 {
        let (client, server) = pair.connect();
        let total = 1_500_000 + seed * 1000;
        for (from, to) in [(&client, &server), (&server, &client)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            threads.push(thread::spawn(move || send_pattern(from, total, seed)));
            threads.push(thread::spawn(move || check_pattern(to, total, seed)));
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
    let report = pair.relay.report();
    let total: u64 = (0..12).map(|seed| 1_500_000 + seed * 1000).sum();
    assert_eq!(report.forward.bytes, total);
    assert_eq!(report.backward.bytes, total);
    assert_eq!(report.connections, 12);
}

#[test]
fn a_half_closed_connection_still_carries_the_other_way() {
    let pair = Pair::new(quick());
    let (mut client, mut server) = pair.connect();
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut question = String::new();
    server.read_to_string(&mut question).unwrap();
    assert_eq!(question, "question");
    server.write_all(b"answer").unwrap();
    drop(server);
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "answer");
}

#[test]
fn a_reset_arrives_as_a_reset_from_either_side() {
    let pair = Pair::new(quick());
    let (client, mut server) = pair.connect();
    reset(client);
    assert_reset(&mut server);

    let (mut client, server) = pair.connect();
    reset(server);
    assert_reset(&mut client);

    // Also when the other direction has ended already.
    let (mut client, mut server) = pair.connect();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
    reset(server);
    assert_reset(&mut client);
}

#[test]
fn a_sender_learns_that_its_receiver_is_gone() {
    let pair = Pair::new(quick());
    let (mut client, server) = pair.connect();
    drop(server);
    let block = vec![0; 100_000];
    let error = (0..10_000)
        .find_map(|_| client.write_all(&block).err())
        .expect("writes fail");
    let kind = error.kind();
    assert!(
        matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        "{error}"
    );
}

#[test]
fn a_receiver_that_does_not_read_holds_its_sender_back() {
    let pair = Pair::new(quick());
    let (mut client, mut server) = pair.connect();
    client.set_nonblocking(true).unwrap();
    let block = vec![5; 1 << 20];
    let mut sent = 0;
    let mut quiet = Instant::now();
    while quiet.elapsed() < Duration::from_millis(500) {
        match client.write(&block) {
            Ok(len) => {
                sent += len;
                quiet = Instant::now();
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        // Bounded by socket buffers and the ring, far below this.
        assert!(sent < 200 << 20, "no back-pressure after {sent} bytes");
        thread::sleep(Duration::from_millis(1));
    }
    client.set_nonblocking(false).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    server.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), sent);
}

#[test]
fn a_stall_carries_nothing_and_breaks_nothing() {
    let pair = Pair::new(quick());
    let (mut client, mut server) = pair.connect();
    let mut byte = [0];
    client.write_all(b"a").unwrap();
    server.read_exact(&mut byte).unwrap();
    pair.relay.stall(Duration::from_secs(3600));
    client.write_all(b"b").unwrap();
    server
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let error = server.read(&mut byte).expect_err("the link is stalled");
    assert!(
        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{error}"
    );
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    pair.relay.resume();
    server.read_exact(&mut byte).unwrap();
    assert_eq!(byte, *b"b");
}

#[test]
fn a_cut_resets_connections_and_refuses_new_ones_until_it_ends() {
    let pair = Pair::new(quick());
    let (mut client, mut server) = pair.connect();
    client.write_all(b"a").unwrap();
    server.read_exact(&mut [0]).unwrap();
    pair.relay.cut(Duration::from_secs(3600));
    assert_reset(&mut client);
    assert_reset(&mut server);
    let error = TcpStream::connect(pair.address()).expect_err("the link is cut");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    pair.relay.resume();
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(pair.address()).is_err() {
        assert!(Instant::now() < deadline, "the link does not come back");
        thread::sleep(Duration::from_millis(5));
    }
    let (mut server, _) = pair.listener.accept().unwrap();
    server.write_all(b"back").unwrap();
}

#[test]
fn planned_interruptions_happen() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let mut options = Options::new("127.0.0.1:0", &to, quick());
    options.cuts = vec![parse_planned("200ms+60m").unwrap()];
    let relay = Relay::start(options).unwrap();
    let mut client = TcpStream::connect(relay.address()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let _server = listener.accept().unwrap();
    assert_reset(&mut client);
}

#[test]
fn a_refused_far_side_resets_the_near_one() {
    let to = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    // The listener is gone, so nobody answers at that address.
    let relay = Relay::start(Options::new("127.0.0.1:0", &to, quick())).unwrap();
    let mut client = TcpStream::connect(relay.address()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_reset(&mut client);
}

#[test]
fn bad_addresses_are_refused_at_the_start() {
    let start = |listen, to| {
        Relay::start(Options::new(listen, to, quick()))
            .err()
            .unwrap()
    };
    assert!(format!("{:#}", start("127.0.0.1:0", "nonsense")).contains("nonsense"));
    assert!(format!("{:#}", start("203.0.113.7:1", "127.0.0.1:1")).contains("203.0.113.7"));
}
