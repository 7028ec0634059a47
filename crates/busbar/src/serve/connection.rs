//! One connection, from its hello to whatever looks after it.

use super::asking::is_patient;
use super::busy::Busy;
use super::change;
use super::checkpoint;
use super::desk;
use super::fabric;
use super::greeting::Guest;
use super::heritage;
use super::identity::Known;
use super::link;
use super::reception::{answer, take_in, turned_back};
use super::report;
use super::sessions;
use super::state::Server;
use busbar_channel::send_hello;
use busbar_control::hello::{BUSY, Intent, Refusal, Welcome};
use busbar_transport::Connection;
use busbar_transport::lock::lock;
use busbar_transport::stream::Stream;
use busbar_wire::frame::Kind;
use busbar_wire::limits::MAX_WELCOME;
use std::net::TcpStream;
use std::sync::Arc;

/// Serves one connection; runs on a thread of its own.
pub(super) fn serve(server: &Arc<Server>, stream: TcpStream, guest: Guest) {
    let known = take_in(server, stream, &guest);
    drop(guest);
    let Some(known) = known else {
        return;
    };
    let own = lock(&server.sessions).contains_key(&known.hello.session);
    let heir = server.succession.yields() && !(own && heritage::is_of_a_session(&known.hello));
    let before = server.succession.predecessor.as_ref();
    match before.filter(|p| p.wants(&known.hello)) {
        Some(before) => turned_back(server, before.pass(known)),
        None if heir => turned_back(server, server.succession.pass_to_heir(known)),
        None => attend(server, known, true),
    }
}

/// Serves one that another server's process has passed on: what is not for this one it passes on to
/// the next, and never back.
pub(super) fn serve_passed(server: &Arc<Server>, mut known: Known, from_heir: bool) {
    let before = server.succession.predecessor.as_ref();
    let before = before.filter(|p| from_heir && p.wants(&known.hello));
    if let Some(before) = before {
        return turned_back(server, before.pass(known));
    }
    if !from_heir && server.succession.yields() {
        return turned_back(server, server.succession.pass_to_heir(known));
    }
    if known.hello.intent == Intent::Link {
        match server.admit_link(&mut known.hello) {
            Ok(who) => known.who = who,
            Err(r) => {
                server.refusals.log(&known.conn.peer(), &r);
                return answer(&known.conn, &Welcome::refuse(r));
            }
        }
    }
    attend(server, known, false);
}

/// Serves somebody who is known; `fresh` if nobody has heard the hello before.
fn attend(server: &Arc<Server>, known: Known, fresh: bool) {
    let Known { conn, hello, .. } = &known;
    let peer = conn.peer();
    let refuse = |conn: &Stream, r: Refusal| {
        server.refusals.log(&peer, &r);
        answer(conn, &Welcome::refuse(r));
    };
    // By this it knows that somebody is at work here.
    if fresh && is_patient(hello) && send_hello(conn, Kind::Ping, &[]).is_err() {
        return;
    }
    if matches!(hello.intent, Intent::Open | Intent::Lease) && server.drains() {
        let text = "the server is being shut down and takes nothing new: try another one, or this \
                    one later";
        return refuse(conn, Refusal::new("draining", text));
    }
    let Some(busy) = Busy::enter(&server.busy, hello.intent) else {
        let text = "the server is busy with other clients; try later";
        return refuse(conn, Refusal::new(BUSY, text));
    };
    match hello.intent {
        Intent::Open => sessions::open(server, known, refuse, busy),
        Intent::Resume | Intent::Side | Intent::Try => sessions::resume(server, known, refuse),
        Intent::Status => {
            let mut said = report::status(server, hello, &known.who);
            said.fit(MAX_WELCOME);
            answer(conn, &Welcome::with(known.protocol, &said));
        }
        Intent::Lease => {
            if let Some(since) = desk::lease(server, &known, refuse) {
                drop(busy);
                let mut known = known;
                if let Some(r) = &mut known.hello.reserve {
                    r.since = Some(since);
                }
                turned_back(server, server.succession.pass_to_heir(known));
            }
        }
        Intent::Release => desk::release(server, &known, refuse),
        Intent::Set => change::set(server, &known, refuse),
        Intent::Kill => change::kill(server, &known, refuse),
        Intent::Checkpoint => checkpoint::step(server, &known, refuse),
        Intent::Ticket => link::ticket(server, &known, refuse),
        Intent::Dial => link::dial(server, known, refuse),
        Intent::Link => link::join(server, known, refuse),
        Intent::Fabric => fabric::check(server, &known, refuse),
    }
}
