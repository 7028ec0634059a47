//! Whole connections: between two ends of ours, with rustls at the other end, and with somebody in
//! between.

use super::words::*;
use super::*;
use crate::wait_readable;
use rustls::pki_types::PrivateKeyDer;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;

const LONG: Duration = Duration::from_secs(20);

fn own() -> Own {
    let made = rcgen::generate_simple_self_signed(vec!["busbar".into()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    (vec![made.cert.der().clone()], key)
}

/// Two ends of a TCP connection.
fn pair() -> (TcpStream, TcpStream) {
    let l = TcpListener::bind("127.0.0.1:0").unwrap();
    let a = TcpStream::connect(l.local_addr().unwrap()).unwrap();
    (a, l.accept().unwrap().0)
}

fn accept(server: &Server, stream: TcpStream) -> io::Result<Stranger> {
    let tcp = Tcp::new(stream).unwrap();
    server.accept(tcp, Instant::now() + LONG, &mut |step| step())
}

/// A client and a server that have greeted.
pub(crate) fn greeted() -> (Tls, Tls) {
    let server = Server::new(own(), None).unwrap();
    let client = Client::new("localhost", Trust::Key(server.key()), None).unwrap();
    let (a, b) = pair();
    std::thread::scope(|s| {
        let there = s.spawn(|| accept(&server, b).unwrap().conn);
        let here = client.connect(Tcp::new(a).unwrap(), LONG).unwrap();
        (here, there.join().unwrap())
    })
}

/// Two ends with keys that are known, and no handshake.
fn keyed(a: TcpStream, b: TcpStream) -> (Tls, Tls) {
    let half = |n: u8| Half::new(Suite::Aes128Gcm, Zeroizing::new([n; SECRET]), 0);
    let end = |s, tx, rx| Tls::new(Tcp::new(s).unwrap(), half(tx), half(rx), &[], &[]);
    (end(a, 1, 2), end(b, 2, 1))
}

/// Numbers that look random, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % n
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.below(256) as u8).collect()
    }
}

fn seed() -> u64 {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let seed = now.as_nanos() as u64 | 1;
    println!("seed {seed}");
    seed
}

/// Sends `bytes` in slices of random lengths.
fn send_all(to: &Tls, bytes: &[u8], rng: &mut Random) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut slices = Vec::new();
        for _ in 0..=rng.below(4) {
            let most = [1, 100, 20_000, 300_000][rng.below(4)];
            let (now, after) = rest.split_at(rng.below(most + 1).min(rest.len()));
            slices.push(IoSlice::new(now));
            rest = after;
        }
        to.send(&mut slices).unwrap();
    }
}

/// Receives `n` bytes in every way there is.
fn recv_all(from: &Tls, n: usize, rng: &mut Random) -> Vec<u8> {
    let mut all = Vec::new();
    let mut room = vec![0; 400_000];
    while all.len() < n {
        let most = [1, 50, 5_000, 70_000, 400_000][rng.below(5)].min(n - all.len());
        let room = &mut room[..most];
        let got = match rng.below(3) {
            0 => from.recv(room).unwrap(),
            _ => match from.try_recv(room).unwrap() {
                Some(got) => got,
                None => {
                    assert!(
                        from.wait(None, Some(LONG)).unwrap(),
                        "bytes are there or come"
                    );
                    continue;
                }
            },
        };
        assert!(got > 0, "it has not ended");
        all.extend_from_slice(&room[..got]);
    }
    all
}

#[test]
fn what_is_sent_arrives_whatever_the_sizes_and_the_keys() {
    let seed = seed();
    let (here, there) = greeted();
    lock(&here.tx).update_after(50);
    lock(&there.tx).update_after(7);
    let mut rng = Random(seed);
    let (up, down) = (rng.bytes(5 << 20), rng.bytes(3 << 20));
    std::thread::scope(|s| {
        s.spawn(|| send_all(&here, &up, &mut Random(seed ^ 1)));
        s.spawn(|| send_all(&there, &down, &mut Random(seed ^ 2)));
        let got = s.spawn(|| recv_all(&here, down.len(), &mut Random(seed ^ 4)));
        assert!(recv_all(&there, up.len(), &mut Random(seed ^ 8)) == up);
        assert!(got.join().unwrap() == down);
    });
    here.shutdown();
    assert_eq!(there.recv(&mut [0; 10]).unwrap(), 0);
    assert!(there.wait(None, None).unwrap());
    assert_eq!(there.try_recv(&mut [0; 10]).unwrap(), Some(0));
}

#[test]
fn a_connection_goes_on_in_another_process() {
    let (here, there) = greeted();
    lock(&here.tx).update_after(3);
    let mut rng = Random(seed());
    let bytes = rng.bytes(100_000);
    here.send(&mut [IoSlice::new(&bytes)]).unwrap();
    // Some of it has been received, some decrypted, some neither.
    let mut got = vec![0; 30];
    there.recv_exact(&mut got).unwrap();
    there.send(&mut [IoSlice::new(b"one")]).unwrap();
    let handed = there.hand_over();
    let there = Tls::take_over(Tcp::from_fd(handed.fd).unwrap(), &handed.keys).unwrap();
    got.extend(recv_all(&there, bytes.len() - 30, &mut rng));
    assert!(got == bytes);
    there.send(&mut [IoSlice::new(b"two")]).unwrap();
    let mut six = [0; 6];
    here.recv_exact(&mut six).unwrap();
    assert_eq!(&six, b"onetwo");
    for n in 0..handed.keys.len().min(100) {
        let (a, _b) = pair();
        assert!(Tls::take_over(Tcp::new(a).unwrap(), &handed.keys[..n]).is_err());
    }
}

/// With rustls at the other end: bytes both ways, and new keys when either side likes.
fn talk(ours: &Tls, theirs: &mut rustls::Connection, socket: &mut TcpStream, seed: u64) {
    let mut rng = Random(seed);
    lock(&ours.tx).update_after(4);
    for round in 0..40 {
        let up = rng.bytes(1 + round * 997);
        send_all(ours, &up, &mut rng);
        let mut got = vec![0; up.len()];
        let mut at = 0;
        while at < got.len() {
            match theirs.reader().read(&mut got[at..]) {
                Ok(n) => at += n,
                Err(_) => {
                    theirs.read_tls(socket).unwrap();
                    theirs.process_new_packets().unwrap();
                }
            }
        }
        assert!(got == up, "round {round}");
        if round % 5 == 4 {
            // Theirs, and they want one of ours.
            theirs.refresh_traffic_keys().unwrap();
        }
        let down = rng.bytes(1 + round * 499);
        theirs.writer().write_all(&down).unwrap();
        while theirs.wants_write() {
            theirs.write_tls(socket).unwrap();
        }
        assert!(
            recv_all(ours, down.len(), &mut rng) == down,
            "round {round}"
        );
    }
    theirs.send_close_notify();
    theirs.write_tls(socket).unwrap();
    assert_eq!(ours.recv(&mut [0; 10]).unwrap(), 0);
}

#[test]
fn rustls_understands_our_client() {
    let seed = seed();
    let own = own();
    let server = Server::new((own.0.clone(), own.1.clone_key()), None).unwrap();
    let client = Client::new("localhost", Trust::Key(server.key()), None).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(own.0, own.1)
        .unwrap();
    config.send_tls13_tickets = 0;
    let (a, mut b) = pair();
    std::thread::scope(|s| {
        let here = s.spawn(|| client.connect(Tcp::new(a).unwrap(), LONG).unwrap());
        let mut theirs = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        while theirs.is_handshaking() || theirs.wants_write() {
            theirs.complete_io(&mut b).unwrap();
        }
        talk(&here.join().unwrap(), &mut theirs.into(), &mut b, seed);
    });
}

#[test]
fn rustls_understands_our_server() {
    let seed = seed();
    let own = own();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(own.0[0].clone()).unwrap();
    let server = Server::new(own, None).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (mut a, b) = pair();
    std::thread::scope(|s| {
        let there = s.spawn(|| accept(&server, b).unwrap().conn);
        let name = "busbar".try_into().unwrap();
        let mut theirs = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        while theirs.is_handshaking() || theirs.wants_write() {
            theirs.complete_io(&mut a).unwrap();
        }
        talk(&there.join().unwrap(), &mut theirs.into(), &mut a, seed);
    });
}

/// What an end sends for `bytes`, as it is on the wire.
fn records(send: impl FnOnce(&Tls)) -> Vec<u8> {
    let ((a, mut wire), (b, _c)) = (pair(), pair());
    let (here, _there) = keyed(a, b);
    send(&here);
    let socket = here.hand_over().fd;
    TcpStream::from(socket)
        .shutdown(std::net::Shutdown::Write)
        .unwrap();
    let mut all = Vec::new();
    wire.read_to_end(&mut all).unwrap();
    all
}

/// What the other end makes of it: what arrives, and how that ends.
fn received(wire: &[u8], room: usize) -> (Vec<u8>, io::Result<usize>) {
    let ((a, _c), (mut from, b)) = (pair(), pair());
    let (_here, there) = keyed(a, b);
    let (mut all, mut room) = (Vec::new(), vec![0; room]);
    std::thread::scope(|s| {
        s.spawn(move || {
            // An end that has seen enough reads no more.
            let _ = from.write_all(wire);
            drop(from);
        });
        loop {
            match there.recv(&mut room) {
                Ok(n) if n > 0 => all.extend_from_slice(&room[..n]),
                end => {
                    let again = there.try_recv(&mut [0; 8]);
                    assert_eq!(end.is_err(), again.is_err(), "an end is an end");
                    return (all, end);
                }
            }
        }
    })
}

#[test]
fn no_byte_can_be_changed_and_none_be_cut_out() {
    let text = Random(5).bytes(100);
    let wire = records(|t| {
        for part in text.chunks(40) {
            t.send(&mut [IoSlice::new(part)]).unwrap();
        }
    });
    assert_eq!(received(&wire, 1000).0, text);
    let record = 40 + HEAD + 1 + 16;
    for at in 0..wire.len() {
        let mut changed = wire.clone();
        changed[at] ^= 1 << (at % 8);
        let (got, end) = received(&changed, 1000);
        // All before it, nothing of it.
        assert_eq!(got, text[..at / record * 40], "byte {at}");
        // A length that grew may have its end outstanding.
        let in_length = (3..HEAD).contains(&(at % record));
        assert!(end.is_err() || in_length, "byte {at}: {end:?}");
        let (got, end) = received(&wire[..at], 1000);
        assert_eq!(got, text[..at / record * 40]);
        assert_eq!(end.unwrap(), 0, "a cut is an end");
    }
    // One again, one left out, two in another order.
    let (one, two) = (&wire[..record], &wire[record..2 * record]);
    for (what, right) in [
        ([one, one].concat(), &text[..40]),
        ([two, one].concat(), &[]),
        (two.to_vec(), &[]),
    ] {
        let (got, end) = received(&what, 1000);
        assert_eq!(got, right);
        let why = end.unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::InvalidData);
        assert!(why.to_string().contains("changed on its way"), "{why}");
    }
}

#[test]
fn a_spoiled_record_is_found_where_bytes_are_received_directly_too() {
    let seed = seed();
    let mut rng = Random(seed);
    let text = rng.bytes(300_000);
    let wire = records(|t| t.send(&mut [IoSlice::new(&text)]).unwrap());
    let whole = LONGEST_TEXT + HEAD + 1 + 16;
    for _ in 0..60 {
        let mut changed = wire.clone();
        let at = rng.below(wire.len());
        changed[at] ^= 1 << rng.below(8);
        let (got, end) = received(&changed, [1 << 20, 100_000, 70_000, 10][rng.below(4)]);
        assert!(got == text[..at / whole * LONGEST_TEXT], "byte {at}");
        let in_length = (3..HEAD).contains(&(at % whole));
        assert!(end.is_err() || in_length, "byte {at}");
    }
}

/// A record of this type and text, encrypted as the first end's `number`th.
fn record(number: u64, kind: u8, text: &[u8], zeros: usize) -> Vec<u8> {
    let mut half = Half::new(Suite::Aes128Gcm, Zeroizing::new([1; SECRET]), number);
    let mut body = [text, &[kind], &vec![0; zeros]].concat();
    let [high, low] = ((body.len() + 16) as u16).to_be_bytes();
    let head = [TYPE_DATA, 3, 3, high, low];
    let tag = half.seal(&head, &mut body);
    [&head[..], &body, &tag].concat()
}

#[test]
fn records_that_make_no_sense_end_the_connection_with_one_sentence() {
    let long = vec![7; LONGEST_TEXT];
    let longer = vec![7; LONGEST_TEXT + 1];
    for (what, right) in [
        (record(0, TYPE_DATA, b"padded", 100), &b"padded"[..]),
        (record(0, TYPE_DATA, &long, 239), &long),
        (
            [record(0, TYPE_DATA, &[], 0), record(1, TYPE_DATA, b"x", 0)].concat(),
            b"x",
        ),
        (record(0, TYPE_ALERT, &CLOSE, 0), b""),
    ] {
        let (got, end) = received(&what, 100_000);
        assert_eq!((&got[..], end.unwrap()), (right, 0));
    }
    let flood: Vec<u8> = (0..40).flat_map(|n| record(n, TYPE_DATA, &[], 9)).collect();
    let mut clear = record(0, TYPE_DATA, b"x", 0);
    clear[0] = TYPE_ALERT;
    for (what, why) in [
        (record(0, TYPE_DATA, &longer, 0), "too long"),
        (record(0, 0, &[0; 50], 50), "without a type"),
        (record(0, 20, &[1], 0), "of a kind"),
        (record(0, TYPE_HANDSHAKE, &[1, 0, 0, 0], 0), "of a kind"),
        (record(0, TYPE_HANDSHAKE, &[24, 0, 0, 1, 2], 0), "of a kind"),
        (record(0, TYPE_HANDSHAKE, &[24, 0, 0], 0), "of a kind"),
        (record(0, TYPE_ALERT, &[2], 0), "of a kind"),
        (record(0, TYPE_ALERT, &[2, 40], 0), "alert 40"),
        (record(0, TYPE_ALERT, &[2, 45], 0), "has expired"),
        (flood, "says nothing"),
        (clear, "not encrypted"),
        (
            b"\x17\x03\x03\x00\x10 and more behind it".to_vec(),
            "of a length",
        ),
        (
            b"\x17\x03\x03\x41\x01 and more behind it".to_vec(),
            "of a length",
        ),
    ] {
        for room in [10, 100_000] {
            let (got, end) = received(&what, room);
            let said = end.unwrap_err().to_string();
            assert!(got.is_empty() && said.contains(why), "{said}");
        }
    }
}

#[test]
fn whoever_has_another_key_is_refused_with_one_sentence() {
    let server = Server::new(own(), None).unwrap();
    let other = Server::new(own(), None).unwrap().key();
    let client = Client::new("localhost", Trust::Key(other), None).unwrap();
    let (a, b) = pair();
    std::thread::scope(|s| {
        let there = s.spawn(|| accept(&server, b).err().unwrap());
        let e = client.connect(Tcp::new(a).unwrap(), LONG).err().unwrap();
        assert_eq!(e.kind(), io::ErrorKind::PermissionDenied);
        assert!(e.to_string().contains("another key"), "{e}");
        let e = there.join().unwrap();
        assert!(e.to_string().contains("does not know the key"), "{e}");
    });
}

/// An authority, and a certificate that it has signed for this URI, valid until then.
fn signed(uri: &str, until: (i32, u8, u8)) -> (CertificateDer, Own) {
    let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let root = params.self_signed(&key).unwrap();
    let issuer = rcgen::Issuer::new(params, key);
    let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    let name = rcgen::string::Ia5String::try_from(uri).unwrap();
    params.subject_alt_names.push(rcgen::SanType::URI(name));
    params.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
    let key = rcgen::KeyPair::generate().unwrap();
    let made = params.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    (root.der().clone(), (vec![made.der().clone()], key))
}

type CertificateDer = rustls::pki_types::CertificateDer<'static>;

/// What the server says of a client with this certificate, and the client of the server.
fn shows(
    authority: &CertificateDer,
    own: Option<Own>,
) -> (io::Result<Option<Certificate>>, io::Result<usize>) {
    let server = Server::new(super::tests::own(), Some(std::slice::from_ref(authority))).unwrap();
    let client = Client::new("localhost", Trust::Key(server.key()), own).unwrap();
    let (a, b) = pair();
    std::thread::scope(|s| {
        let there = s.spawn(|| {
            let stranger = accept(&server, b)?;
            stranger.conn.send(&mut [IoSlice::new(b"in")])?;
            Ok(stranger.certificate)
        });
        let here = client.connect(Tcp::new(a).unwrap(), LONG).unwrap();
        let got = here.recv(&mut [0; 9]);
        (there.join().unwrap(), got)
    })
}

#[test]
fn certificates_of_clients_are_told_apart() {
    let (root, own) = signed("busbar://research/alice", (2100, 1, 1));
    let (seen, got) = shows(&root, Some((own.0.clone(), own.1.clone_key())));
    let seen = seen.unwrap().expect("it has shown one");
    assert_eq!(seen.uris, ["busbar://research/alice"]);
    assert_eq!(seen.key, Fingerprint::of(&own.0[0]).unwrap());
    assert_eq!(got.unwrap(), 2);
    assert!(matches!(shows(&root, None), (Ok(None), Ok(2))));
    let (stranger, _) = signed("busbar://research/alice", (2100, 1, 1));
    let (_, old) = {
        let (root, own) = signed("busbar://research/bob", (2001, 1, 1));
        let (seen, got) = shows(&root, Some((own.0.clone(), own.1.clone_key())));
        assert!(seen.unwrap_err().to_string().contains("has expired"));
        let said = got.unwrap_err().to_string();
        assert!(
            said.contains("does not take this client's certificate"),
            "{said}"
        );
        assert!(said.contains("has expired"), "{said}");
        (root, own)
    };
    drop(old);
    let (seen, got) = shows(&stranger, Some(own));
    assert!(seen.unwrap_err().to_string().contains("signed by nobody"));
    let said = got.unwrap_err();
    assert_eq!(said.kind(), io::ErrorKind::PermissionDenied, "{said}");
}

#[test]
fn a_server_may_be_known_by_its_name() {
    let (root, own) = signed("busbar://servers/one", (2100, 1, 1));
    let server = Server::new(own, None).unwrap();
    for (name, right) in [("localhost", ""), ("elsewhere", "another name")] {
        let client = Client::new(name, Trust::Authority(vec![root.clone()]), None).unwrap();
        let (a, b) = pair();
        std::thread::scope(|s| {
            let there = s.spawn(|| accept(&server, b).is_ok());
            let said = client.connect(Tcp::new(a).unwrap(), LONG).err();
            let said = said.map_or_else(String::new, |e| e.to_string());
            assert!(
                said.contains(right) && said.is_empty() == right.is_empty(),
                "{said}"
            );
            assert_eq!(there.join().unwrap(), right.is_empty());
        });
    }
}

#[test]
fn a_peer_in_clear_is_recognized_from_both_sides() {
    assert!(begins_with_tls(&[22, 3, 1]) && begins_with_tls(&[22, 3, 3, 7]));
    // A hello of 790 bytes begins so.
    let hello = &[22, 3, 0, 0, 4][..];
    for clear in [hello, &b"{\"x"[..], &[22, 1, 0], &[22, 3], &[22, 3, 5], &[]] {
        assert!(!begins_with_tls(clear));
    }
    let client = Client::new(
        "x",
        Trust::Key(Server::new(own(), None).unwrap().key()),
        None,
    );
    let (a, mut b) = pair();
    b.write_all(b"\x40\0\0\0\x05, a welcome in clear").unwrap();
    let e = client
        .unwrap()
        .connect(Tcp::new(a).unwrap(), LONG)
        .err()
        .unwrap();
    assert!(e.to_string().contains("answers in clear text"), "{e}");
    // What it was sent tells it as much.
    let mut first = [0; 3];
    wait_readable(&[b.as_fd()], Some(LONG)).unwrap();
    assert_eq!(Tcp::new(b).unwrap().peek(&mut first).unwrap(), 3);
    assert!(begins_with_tls(&first));
}

#[test]
fn half_a_handshake_has_one_deadline() {
    let server = Server::new(own(), None).unwrap();
    let (mut slow, b) = pair();
    let drip = std::thread::spawn(move || {
        for byte in [22, 3, 1, 2, 0].into_iter().chain(std::iter::repeat(1)) {
            if slow.write_all(&[byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let until = Instant::now() + Duration::from_millis(200);
    let end = server.accept(Tcp::new(b).unwrap(), until, &mut |step| step());
    assert!(end.is_err());
    drip.join().unwrap();
    // What is not worked on in time ends, too.
    let (mut a, b) = pair();
    a.write_all(&[22, 3, 1, 0, 1, 1]).unwrap();
    let tcp = Tcp::new(b).unwrap();
    let end = server.accept(tcp, Instant::now() + LONG, &mut |_| {});
    assert_eq!(end.err().unwrap().kind(), io::ErrorKind::TimedOut);
}

#[test]
fn a_record_that_comes_byte_by_byte_has_one_deadline() {
    let ((mut from, a), (b, _c)) = (pair(), pair());
    let (here, _there) = keyed(a, b);
    here.recv_timeout(Some(Duration::from_millis(200))).unwrap();
    let drip = std::thread::spawn(move || {
        for byte in [TYPE_DATA, 3, 3, 0x40, 0]
            .into_iter()
            .chain(std::iter::repeat(1))
        {
            if from.write_all(&[byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let e = here.recv(&mut [0; 10]).unwrap_err();
    let over = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
    assert!(over.contains(&e.kind()), "{e}");
    drop(here);
    drip.join().unwrap();
}
