//! The server's part in `busbar fabric check`: says what devices there are, and has a process
//! beside its workers do the steps of a measurement, which is all that passes here.

use super::asking::asker;
use super::identity::Known;
use super::reception::answer;
use super::state::Server;
use crate::fabric::{end, sysfs::Sources};
use anyhow::Context;
use busbar_channel::recv_hello;
use busbar_control::fabric::{Reply, Step};
use busbar_control::hello::{BUSY, Refusal, Welcome};
use busbar_transport::Connection;
use busbar_transport::lock::lock;
use busbar_transport::stream::Stream;
use busbar_wire::frame::Kind;
use std::io::BufReader;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a client may say nothing: it has other machines to measure meanwhile.
const SILENCE: Duration = Duration::from_secs(600);
/// How long a step may take.
const STEP: Duration = Duration::from_secs(40);

/// The process that does the steps, of which there is one at a time.
struct Measuring<'a> {
    taken: &'a AtomicBool,
    child: Child,
    socket: UnixStream,
    replies: BufReader<UnixStream>,
}

impl<'a> Measuring<'a> {
    fn start(server: &'a Server, near: Option<IpAddr>) -> Result<Self, Refusal> {
        let taken = &server.measuring;
        if taken.swap(true, Ordering::AcqRel) {
            let text = "somebody else is checking the fabric of this server: try again later";
            return Err(Refusal::new(BUSY, text));
        }
        let start = || {
            let (socket, theirs) = UnixStream::pair()?;
            socket.set_read_timeout(Some(STEP))?;
            let replies = BufReader::new(socket.try_clone()?);
            let child = server.workers.fabric(&theirs, near)?;
            Ok::<_, anyhow::Error>(Self {
                taken,
                child,
                socket,
                replies,
            })
        };
        start().context("cannot start what measures").map_err(|e| {
            taken.store(false, Ordering::Release);
            Refusal::new("internal", format!("{e:#}"))
        })
    }

    fn tell(&mut self, step: &Step) -> Reply {
        let said = end::say(&mut self.socket, step).ok();
        let reply = said.and_then(|()| end::hear(&mut self.replies));
        reply.unwrap_or_else(|| Reply::Failed {
            why: "the process that measures has ended, or does not answer".into(),
        })
    }
}

impl Drop for Measuring<'_> {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
        self.taken.store(false, Ordering::Release);
    }
}

/// Serves somebody who checks the fabric, until that one goes.
pub(super) fn check(server: &Server, known: &Known, refuse: impl Fn(&Stream, Refusal)) {
    let conn = &known.conn;
    // Without tokens nobody is more than anyone else.
    let admin =
        !server.identities.asks() || lock(&server.pool).is_admin(&asker(&known.who, &known.hello));
    if !admin {
        let text = "only admins may check a fabric: it is measured with all that it can carry";
        return refuse(conn, Refusal::new("policy", text));
    }
    let machine = Sources::here().machine(server.config.rdma.to_string());
    answer(conn, &Welcome::with(known.protocol, &machine));
    let near = conn.ends().map(|[near, _]| near.ip());
    let _ = conn.recv_timeout(Some(SILENCE));
    let mut measuring = None;
    while let Ok(body) = recv_hello(conn, Kind::Hello) {
        let step = match busbar_control::read("the step", &body) {
            Ok(step) => step,
            Err(why) => return refuse(conn, Refusal::new("hello", why)),
        };
        if measuring.is_none() {
            match Measuring::start(server, near) {
                Ok(started) => measuring = Some(started),
                Err(r) => return refuse(conn, r),
            }
        }
        if let Some(m) = &mut measuring {
            answer(conn, &Welcome::with(known.protocol, &m.tell(&step)));
        }
    }
}
