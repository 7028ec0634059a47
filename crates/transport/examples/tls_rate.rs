//! How fast bytes go through encrypted connections on this machine, against the same in clear:
//! `cargo run --release -p busbar-transport --example tls_rate [CONNECTIONS [GIB [ROUNDS]]]`.
//!
//! Both ends are in this process, over loopback, and the two ways take turns. A line each:
//! GB/s over all connections together, and the seconds that processors worked for each GB.

use busbar_transport::Connection;
use busbar_transport::stream::Stream;
use busbar_transport::tcp::Tcp;
use busbar_transport::tls::{Client, Server, Trust};
use rustls::pki_types::PrivateKeyDer;
use std::io::IoSlice;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// As the channel sends and receives: pieces of a long copy.
const PIECE: usize = 1 << 20;

fn server() -> Server {
    let made = rcgen::generate_simple_self_signed(vec!["busbar".into()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("its key");
    Server::new((vec![made.cert.der().clone()], key), None).expect("a server")
}

fn pair(server: &Server, encrypted: bool) -> (Stream, Stream) {
    let l = TcpListener::bind("127.0.0.1:0").expect("a port");
    let a = TcpStream::connect(l.local_addr().expect("an address")).expect("a connection");
    let (a, b) = (Tcp::new(a), Tcp::new(l.accept().expect("its other end").0));
    let (a, b) = (a.expect("one end"), b.expect("the other"));
    if !encrypted {
        return (Stream::Clear(a), Stream::Clear(b));
    }
    let client = Client::new("localhost", Trust::Key(server.key()), None).expect("a client");
    let limit = Duration::from_secs(10);
    std::thread::scope(|s| {
        let there = s.spawn(|| server.accept(b, Instant::now() + limit, &mut |step| step()));
        let here = client.connect(a, limit).expect("a handshake");
        let there = there.join().expect("a thread").expect("a handshake").conn;
        (
            Stream::Encrypted(here.into()),
            Stream::Encrypted(there.into()),
        )
    })
}

/// Seconds that this process has worked.
fn worked() -> f64 {
    // SAFETY: zero is a valid value, and the pointer is to a live one.
    let t = unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut t);
        t
    };
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn measure(server: &Server, encrypted: bool, connections: usize, bytes: usize) -> (f64, f64) {
    let all: Vec<_> = (0..connections).map(|_| pair(server, encrypted)).collect();
    let pieces = bytes / PIECE / connections;
    let (begin, before) = (Instant::now(), worked());
    std::thread::scope(|s| {
        for (from, to) in &all {
            s.spawn(move || {
                let bytes = vec![7; PIECE];
                for _ in 0..pieces {
                    from.send(&mut [IoSlice::new(&[1; 24]), IoSlice::new(&bytes)])
                        .expect("it is sent");
                }
            });
            s.spawn(move || {
                let (mut head, mut bytes) = ([0; 24], vec![0; PIECE]);
                for _ in 0..pieces {
                    to.recv_exact(&mut head).expect("it comes");
                    to.recv_exact(&mut bytes).expect("it comes");
                }
            });
        }
    });
    let gb = (pieces * connections * PIECE) as f64 / 1e9;
    (gb / begin.elapsed().as_secs_f64(), (worked() - before) / gb)
}

fn main() {
    let number = |n, default| {
        let given = std::env::args().nth(n);
        given.map_or(default, |a| a.parse().expect("a number"))
    };
    let (connections, gib, rounds) = (number(1, 1), number(2, 4), number(3, 5));
    let server = server();
    for _ in 0..rounds {
        for (name, encrypted) in [("clear", false), ("tls", true)] {
            let (rate, work) = measure(&server, encrypted, connections, gib << 30);
            println!("{name:<6} {connections} connections {rate:6.2} GB/s {work:6.3} s/GB");
        }
    }
}
