//! Links between sessions of one client at two servers: this one dials the other, or is dialled by
//! it. Both hand the connection to the session's worker, whose cell has no network.
//!
//! A client makes a server dial, so what it can reach by that is kept small; see
//! [`may_be_dialled`]. What the other one says before it is known to be a Busbar server with the
//! right key gets to nobody, and one sentence stands for all ways in which it cannot be had.

use super::greeting::Hasty;
use super::identity::Known;
use super::reach::may_be_dialled;
use super::reception::answer;
use super::state::Server;
use busbar_channel::{recv_hello, send_hello};
use busbar_control::attach::{Attach, Hidden, Order};
use busbar_control::hello::{Hello, Intent, RDMA, Refusal, Ticket, Welcome};
use busbar_pool::Placing;
use busbar_transport::Connection;
use busbar_transport::handover;
use busbar_transport::rdma::Wish;
use busbar_transport::stream::{Route, Stream};
use busbar_transport::tcp::Address;
use busbar_transport::tls::{Client, Trust};
use busbar_wire::frame::Kind;
use serde_json::json;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long it may take to reach the other server, and then to hear from the session's worker
/// there.
const DIAL_TIME: Duration = Duration::from_secs(8);
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// The most addresses of a name that are tried.
const MOST_ADDRESSES: usize = 4;

const NOT_REACHED: &str = "this server does not reach the other one, or it is not the one that it \
                           should be: copies go through the client";

fn no(why: &str) -> Refusal {
    Refusal::new("link", why)
}

/// Gives a session's client a ticket.
pub(super) fn ticket(server: &Server, known: &Known, refuse: impl Fn(&Stream, Refusal)) {
    let Known {
        conn, hello, who, ..
    } = known;
    let given = || {
        server.may_link(who)?;
        if server.session_of(hello, who, conn.is_encrypted()).is_none() {
            return Err(server.over(&hello.session));
        }
        let ticket = crate::vault::random(32).map_err(|e| {
            let why = format!("the server has no random numbers: {}", e.root_cause());
            Refusal::new("internal", why)
        })?;
        let (session, number) = (&hello.session, hello.link.number);
        if !server.tickets.add(&ticket, session, number, Instant::now()) {
            return Err(no("the session has too many tickets that were not used"));
        }
        let key = server.tls.as_ref().map(|tls| tls.key().to_string());
        Ok(Ticket {
            ticket: ticket.to_string(),
            key: key.unwrap_or_default(),
        })
    };
    match given() {
        Ok(ticket) => answer(conn, &Welcome::with(known.protocol, &ticket)),
        Err(r) => refuse(conn, r),
    }
}

/// What a worker is told of the one who asks for a link, or has dialled one.
fn attach(server: &Server, hello: Hello, protocol: u32) -> Attach {
    let session = hello.session.clone();
    // The other server is not to know it, and who asked does.
    let hello = Hello {
        secret: String::new(),
        ..hello
    };
    server.attach(
        &session,
        String::new(),
        &hello,
        protocol,
        Placing::default(),
    )
}

/// Hands a link that has come from another server to its session's worker, which answers it.
pub(super) fn join(server: &Server, known: Known, refuse: impl Fn(&Stream, Refusal)) {
    let Known {
        conn,
        hello,
        protocol,
        ..
    } = known;
    let Some(worker) = server.worker_of(&hello.session) else {
        return refuse(&conn, server.over(&hello.session));
    };
    let note = json!({ "session": hello.session, "peer": conn.peer(), "dialled": false });
    if let Err(why) = server.audit.note("link", note) {
        return refuse(&conn, Refusal::new("internal", why));
    }
    let session = hello.session.clone();
    let attach = attach(server, hello, protocol);
    if let Err(Some(conn)) = worker.take_over(attach, conn) {
        refuse(&conn, server.over(&session));
    }
}

/// Dials another server for a session's client, and hands the link to the session's worker, which
/// answers the client.
pub(super) fn dial(server: &Server, known: Known, refuse: impl Fn(&Stream, Refusal)) {
    let Known {
        conn,
        hello,
        protocol,
        who,
    } = known;
    let Some((worker, _)) = server.session_of(&hello, &who, conn.is_encrypted()) else {
        return refuse(&conn, server.over(&hello.session));
    };
    let here = conn.ends().is_some_and(|[_, peer]| peer.ip().is_loopback());
    let link = server
        .may_link(&who)
        .and_then(|()| reach(server, &hello, &who.tenant, here));
    let (link, rdma) = match link {
        Ok(link) => link,
        Err(r) => return refuse(&conn, r),
    };
    let (session, to) = (&hello.session, &hello.link.address);
    let note = json!({ "session": session, "peer": link.peer(), "dialled": true, "address": to });
    if let Err(why) = server.audit.note("link", note) {
        return refuse(&conn, Refusal::new("internal", why));
    }
    tracing::info!(session, address = to, "a link is dialled");
    let _ = conn.send_timeout(None);
    let session = session.clone();
    let (client, link) = (conn.hand_over(), link.hand_over());
    let attach = Attach {
        keys: Hidden(client.keys.clone()),
        ..attach(server, hello, protocol)
    };
    let order = Order::Dialled {
        attach: Box::new(attach),
        keys: Hidden(link.keys.clone()),
        rdma,
    };
    let fds = [&client.fd, &link.fd];
    if handover::send(&worker.control, &order.to_json(), fds).is_err()
        && let Ok(conn) = client.take()
    {
        refuse(&conn, server.over(&session));
    }
}

/// Reaches the session at the other server that a client names, and whether that one would move to
/// RDMA; `here`: the client is on this very machine.
fn reach(
    server: &Server,
    hello: &Hello,
    tenant: &str,
    here: bool,
) -> Result<(Stream, bool), Refusal> {
    let link = &hello.link;
    let Some(_place) = server.dials.begin(tenant) else {
        return Err(no("this server dials too many others at the moment"));
    };
    let failed = |why: &dyn std::fmt::Display| {
        let (session, to) = (&hello.session, &link.address);
        tracing::info!(session, address = to, %why, "a link cannot be had");
        no(NOT_REACHED)
    };
    let all = link.address.to_socket_addrs().map_err(|e| failed(&e))?;
    let all = all.filter(|a| may_be_dialled(a.ip(), here));
    // In clear to this very machine, or where all is in clear anyway.
    let clear = link.key.is_empty();
    let all = all.filter(|a| !clear || a.ip().is_loopback() || server.tls.is_none());
    let mut last = None;
    for a in all.take(MOST_ADDRESSES) {
        if server.silent.holds(a, Instant::now()) {
            last = Some(io::Error::new(
                io::ErrorKind::TimedOut,
                "it did not answer of late",
            ));
            continue;
        }
        match knock(a, hello, server.config.rdma) {
            Ok(reached) => return Ok(reached),
            Err(e) => {
                if e.kind() == io::ErrorKind::TimedOut {
                    server.silent.note(a, Instant::now());
                }
                last = Some(e);
            }
        }
    }
    Err(match last {
        Some(e) => failed(&e),
        None => failed(&"it has no address that a client may have this server dial"),
    })
}

/// Greets the session at the other server. Says whether it waits to be moved to RDMA, too.
fn knock(to: SocketAddr, hello: &Hello, rdma: Wish) -> io::Result<(Stream, bool)> {
    let bad = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let link = &hello.link;
    let tls = match link.key.as_str() {
        "" => None,
        key => {
            let trust = Trust::Key(key.parse().map_err(bad)?);
            Some(Client::new(&to.ip().to_string(), trust, None).map_err(bad)?)
        }
    };
    let conn = Route::new(Address::new(&to.to_string()), tls).connect(DIAL_TIME)?;
    conn.send_timeout(Some(ANSWER_TIME))?;
    let mut ours = Hello::new(Intent::Link);
    ours.session = link.session.clone();
    ours.link.ticket = link.ticket.clone();
    if rdma != Wish::Off {
        ours.features.push(RDMA.into());
    }
    let body = serde_json::to_vec(&ours).unwrap_or_default();
    send_hello(&conn, Kind::Hello, &body)?;
    // All of it: one byte now and then would hold the place of another link.
    let said = recv_hello(&Hasty::within(&conn, ANSWER_TIME), Kind::Welcome)?;
    let said: Welcome = busbar_control::read("the other server's answer", &said).map_err(bad)?;
    if let Some(r) = said.refusal {
        return Err(bad(r.message));
    }
    conn.send_timeout(None)?;
    conn.recv_timeout(None)?;
    let moves = said.features.iter().any(|f| f == RDMA);
    Ok((conn, moves))
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_wire::frame::Header;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn an_answer_that_comes_byte_by_byte_holds_no_place_for_long() {
        let l = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = l.local_addr().unwrap();
        let other = std::thread::spawn(move || {
            let mut conn = l.accept().unwrap().0;
            let head = Header::plain(Kind::Welcome, 60_000).to_bytes();
            // Each receive ends with a byte, for as long as somebody listens.
            let _ = conn.write_all(&head);
            while conn.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        assert!(knock(to, &Hello::new(Intent::Dial), Wish::Off).is_err());
        other.join().unwrap();
    }
}
