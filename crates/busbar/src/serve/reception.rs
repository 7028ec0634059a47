//! From a connection that has said nothing to somebody who is known: encryption, hello, token.

use super::greeting::{Guest, Hasty};
use super::identity::{Known, Who};
use super::refusals::Network;
use super::state::Server;
use busbar_channel::{recv_hello, send_hello};
use busbar_control::hello::{BUSY, ClientInfo, Hello, Intent, Refusal, Welcome};
use busbar_control::text::{is_plain, tidy};
use busbar_transport::Connection;
use busbar_transport::stream::Stream;
use busbar_transport::tcp::Tcp;
use busbar_transport::tls::{Certificate, begins_with_tls};
use busbar_wire::frame::Kind;
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long who was answered may take to read the answer.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(5);
/// How long a client that there is no room for may keep everybody else from being accepted.
const TURN_AWAY_TIME: Duration = Duration::from_millis(100);
/// How often somebody whose handshake waits for others' looks whether there is time left.
const LOOK: Duration = Duration::from_millis(50);
/// The longest name in a hello, in bytes.
const MOST_NAME: usize = 256;
/// The longest text about a client that is kept and shown, in bytes: a document with all sessions
/// must have room for them.
const MOST_TEXT: usize = 128;
/// TLS's way of saying that there is no room: the alert `internal_error`.
const NO_ROOM: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// Says a welcome, or the refusal in it.
pub(super) fn answer(conn: &dyn Connection, w: &Welcome) {
    let body = serde_json::to_vec(w).unwrap_or_default();
    let _ = send_hello(conn, Kind::Welcome, &body);
}

/// Says so to somebody whose connection could not be passed on.
pub(super) fn turned_back(server: &Server, passed: Result<(), Stream>) {
    if let Err(conn) = passed {
        let text = "the server is being replaced by another: try again";
        let r = Refusal::new(BUSY, text);
        server.refusals.log(&conn.peer(), &r);
        answer(&conn, &Welcome::refuse(r));
    }
}

/// Refuses a client that there is no room for, in the caller's thread: all that takes is a moment
/// of it.
pub(super) fn turn_away(stream: TcpStream, why: &str) {
    let Ok(conn) = Tcp::new(stream) else { return };
    let limit = Some(TURN_AWAY_TIME);
    let _ = (conn.recv_timeout(limit), conn.send_timeout(limit));
    if speaks_tls(&conn) == Some(true) {
        let _ = conn.send(&mut [io::IoSlice::new(&NO_ROOM)]);
        return conn.last_words(TURN_AWAY_TIME);
    }
    // Whatever the client has sent must have been read, or the answer would be lost with it.
    let _ = recv_hello(&Hasty::within(&conn, TURN_AWAY_TIME), Kind::Hello);
    answer(&conn, &Welcome::refuse(Refusal::new(BUSY, why)));
}

/// Whether a connection begins with TLS; nothing if it does not begin.
fn speaks_tls(conn: &Tcp) -> Option<bool> {
    let mut first = [0; 3];
    match conn.peek(&mut first) {
        Ok(n) if n > 0 => Some(begins_with_tls(&first[..n])),
        _ => None,
    }
}

/// Takes somebody in: encrypts, reads and checks the hello. Who is refused hears why.
pub(super) fn take_in(server: &Server, stream: TcpStream, guest: &Guest) -> Option<Known> {
    let conn = Tcp::new(stream).ok()?;
    let peer = conn.peer();
    conn.send_timeout(Some(ANSWER_TIME)).ok()?;
    let (conn, certificate) = match encrypt(server, conn, guest) {
        Ok(conn) => conn,
        Err(refusal) => {
            server.refusals.log(&peer, &refusal?);
            return None;
        }
    };
    conn.send_timeout(Some(ANSWER_TIME)).ok()?;
    let body = recv_hello(&Hasty::new(&conn, guest.until()), Kind::Hello).ok()?;
    conn.recv_timeout(None).ok()?;
    let checked = busbar_control::read::<Hello>("the hello", &body)
        .map_err(|e| Refusal::new("hello", e))
        .and_then(|mut h| {
            let who = match h.intent {
                // The ticket is another process's to check.
                Intent::Link if is_before(server, &h) => Who::default(),
                Intent::Link => server.admit_link(&mut h)?,
                _ => server.identities.admit(&h.token, certificate.as_ref())?,
            };
            // Nobody behind this needs it, least of all a worker.
            h.token.clear();
            check_texts(&mut h)?;
            Ok((h.negotiate()?, h, who))
        });
    match checked {
        // A worker's answers may take as long as they take.
        Ok((protocol, hello, who)) => Some(Known {
            conn,
            hello,
            protocol,
            who,
        }),
        Err(r) => {
            server.refusals.log(&peer, &r);
            answer(&conn, &Welcome::refuse(r));
            None
        }
    }
}

/// Whether a hello is for the server whose place this one has taken.
fn is_before(server: &Server, hello: &Hello) -> bool {
    let before = server.succession.predecessor.as_ref();
    before.is_some_and(|p| p.wants(hello))
}

/// Encrypts a connection where this server does, and refuses one that begins in another way than
/// this server does; `None` for one of which there is nothing to say.
fn encrypt(
    server: &Server,
    conn: Tcp,
    guest: &Guest,
) -> Result<(Stream, Option<Certificate>), Option<Refusal>> {
    let until = guest.until();
    let left = until.saturating_duration_since(Instant::now());
    conn.recv_timeout(Some(left)).map_err(|_| None)?;
    let encrypted = speaks_tls(&conn).ok_or(None)?;
    let refuse = |conn: &Tcp, why: &str| {
        let refusal = Refusal::new("tls", why);
        answer(conn, &Welcome::refuse(refusal.clone()));
        conn.last_words(TURN_AWAY_TIME);
        Err(Some(refusal))
    };
    let Some(tls) = &server.tls else {
        return match encrypted {
            false => Ok((Stream::Clear(conn), None)),
            true => refuse(&conn, "this server does not encrypt"),
        };
    };
    if !encrypted {
        // It has sent its hello already, and perhaps a token; nobody here looks at them.
        let _ = recv_hello(&Hasty::new(&conn, guest.until()), Kind::Hello);
        let why = "this server talks to nobody in clear: log in with the line that it prints \
                   (`busbar login busbar://...`), and leave --plaintext (BUSBAR_PLAINTEXT) away";
        return refuse(&conn, why);
    }
    let network = Network::of_peer(&conn.peer());
    // What a stranger has a processor do is done for few at a time, and for all networks in turn.
    let mut work = |step: &mut dyn FnMut()| {
        let in_time = || Instant::now() < until;
        if let Some(_turn) = server.handshakes.wait(network, LOOK, in_time) {
            step();
        }
    };
    match tls.accept(conn, until, &mut work) {
        Ok(stranger) => {
            let conn = Stream::Encrypted(Box::new(stranger.conn));
            Ok((conn, stranger.certificate))
        }
        Err(e) => match e.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidData => {
                Err(Some(Refusal::new("tls", e.to_string())))
            }
            _ => Err(None),
        },
    }
}

/// Checks the names in a hello, and tidies what is only shown. Each field has its place here: what
/// is kept of a client is short, and shows itself alone.
fn check_texts(h: &mut Hello) -> Result<(), Refusal> {
    let Hello {
        protocol_min: _,
        protocol_max: _,
        version,
        features,
        intent: _,
        api,
        // Gone by now.
        token: _,
        session,
        secret,
        last_received: _,
        epoch: _,
        off,
        driver,
        lease,
        memory: _,
        share: _,
        priority: _,
        mode: _,
        devices: _,
        idle: _,
        reserve,
        release,
        // Answered at once, by a process that knows what can be asked.
        ask: _,
        change: _,
        checkpoint: _,
        link,
        client,
    } = h;
    let ClientInfo {
        host,
        user,
        program,
        pid: _,
        start_time: _,
        stack: _,
        boot_id,
        pid_namespace: _,
        job,
    } = client;
    // Nothing else gets into a worker's environment.
    driver.retain(busbar_control::driver::is_known);
    let link = [&link.address, &link.key, &link.session, &link.ticket];
    let names = [&*api, &*session, &*secret, &*lease, &*release];
    let more = [
        reserve.as_ref().map(|r| &r.name),
        job.as_ref().map(|j| &j.name),
    ];
    for text in names
        .into_iter()
        .chain(link)
        .chain(more.into_iter().flatten())
    {
        if text.len() > MOST_NAME || !text.chars().all(is_plain) {
            let why = "the hello makes no sense: a name is too long, or does not show itself";
            return Err(Refusal::new("hello", why));
        }
    }
    for text in [version, host, user, program, boot_id] {
        tidy(text, MOST_TEXT);
    }
    for list in [features, off] {
        list.truncate(64);
        list.iter_mut().for_each(|f| tidy(f, MOST_TEXT));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_control::hello::Job;

    #[test]
    fn what_a_client_says_of_itself_is_short() {
        let mut hello = Hello::new(Intent::Open);
        let text = "\"\\".repeat(5000);
        hello.client.host = text.clone();
        hello.client.user = text;
        hello.client.program = format!("{}\u{1b}", "ä\"".repeat(5000));
        check_texts(&mut hello).expect("it is only shortened");
        let c = &hello.client;
        assert!(
            [&c.host, &c.user, &c.program]
                .iter()
                .all(|t| t.len() <= MOST_TEXT)
        );
        let long = "x".repeat(MOST_NAME + 1);
        for bad in [long.as_str(), "a\nb", "a\u{202e}b"] {
            let lease = Hello {
                lease: bad.into(),
                ..Hello::new(Intent::Open)
            };
            let mut job = Hello::new(Intent::Open);
            job.client.job = Some(Job {
                name: bad.into(),
                ..Job::default()
            });
            for mut hello in [lease, job] {
                assert!(check_texts(&mut hello).is_err(), "{bad:?}");
            }
        }
    }
}
