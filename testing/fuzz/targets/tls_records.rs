//! The records of an encrypted connection: whatever is changed, left out, doubled or put in another
//! order on the way, nothing comes out that was not sent, and nothing behind a change.
#![no_main]

use busbar_transport::Connection;
use busbar_transport::tcp::Tcp;
use busbar_transport::tls::Tls;
use libfuzzer_sys::fuzz_target;
use std::io::{IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

/// Two ends of a connection.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let one = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    (one, listener.accept().expect("it has connected").0)
}

/// A connection with keys that both ends know: they send with one and receive with the other. Each
/// input has keys of its own: the engine sees what is compared, and would learn good records of one
/// input for another.
fn tls(stream: TcpStream, suite: u8, first: bool, input: &[u8]) -> Tls {
    let mut keys = vec![suite];
    for own in [first, !first] {
        let mut secret = blake3::Hasher::new();
        secret.update(&[u8::from(own)]).update(input);
        keys.extend(secret.finalize().as_bytes());
        keys.extend(0u64.to_le_bytes());
    }
    keys.extend(0u64.to_le_bytes());
    Tls::take_over(Tcp::new(stream).expect("a connection"), &keys).expect("good keys")
}

fuzz_target!(|data: &[u8]| {
    let [how, many, rest @ ..] = data else { return };
    let suite = 1 + how % 2;
    let sent: Vec<u8> = (0..u16::from(*many) * 7 + 1).map(|n| n as u8).collect();
    let mut wire = Vec::new();
    if how & 2 == 0 {
        let (ours, mut theirs) = pair();
        let from = tls(ours, suite, true, data);
        for piece in sent.chunks(1 + usize::from(*how >> 3) * 20) {
            from.send(&mut [IoSlice::new(piece)])
                .expect("room in the socket");
        }
        drop(from);
        theirs.read_to_end(&mut wire).expect("what was sent");
    }
    let whole = wire.clone();
    spoil(&mut wire, rest, how & 2 != 0);
    let same = whole.iter().zip(&wire).take_while(|(a, b)| a == b).count();
    let (mut ours, theirs) = pair();
    ours.write_all(&wire).expect("room in the socket");
    ours.shutdown(Shutdown::Write).expect("it is open");
    let to = tls(theirs, suite, false, data);
    let (mut got, mut buf) = (Vec::new(), [0; 500]);
    while let Ok(n @ 1..) = to.recv(&mut buf) {
        got.extend(&buf[..n]);
    }
    assert!(
        sent.starts_with(&got),
        "it has come out otherwise than it was sent"
    );
    assert!(
        got.len() <= same,
        "it has come out of records that were changed"
    );
    if wire.starts_with(&whole) && !whole.is_empty() {
        assert_eq!(got, sent, "it has not come out though nothing was changed");
    }
});

/// Does to the bytes on the way what the input says; or they are the input.
fn spoil(wire: &mut Vec<u8>, how: &[u8], all: bool) {
    if all {
        return wire.extend(how);
    }
    for [what, a, b, with] in how.as_chunks().0 {
        if wire.is_empty() {
            return;
        }
        let at = (usize::from(*a) << 8 | usize::from(*b)) % wire.len();
        match what % 5 {
            0 => wire[at] ^= with,
            1 => wire.truncate(at),
            2 => _ = wire.drain(at..(at + usize::from(*with)).min(wire.len())),
            3 => {
                let some = wire[at..(at + usize::from(*with)).min(wire.len())].to_vec();
                wire.splice(at..at, some);
            }
            _ => wire.rotate_left(at),
        }
    }
}
