//! Steps towards a checkpoint of a session and back, which a program of its tenant asks for.

use super::asking::{asker, is_patient};
use super::entry::SessionEntry;
use super::identity::Known;
use super::reception::answer;
use super::report;
use super::state::Server;
use super::workers::Worker;
use crate::isolation::limits::memory_of_machine;
use busbar_channel::send_hello;
use busbar_control::attach::Order;
use busbar_control::checkpoint::{OUT_OF_MEMORY, Reached, Step};
use busbar_control::hello::{Refusal, Welcome};
use busbar_pool::Refused;
use busbar_transport::Connection;
use busbar_transport::lock::lock;
use busbar_transport::stream::Stream;
use busbar_wire::frame::Kind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often whoever waits for a step is looked for, and hears that somebody is at work.
const NEWS: Duration = Duration::from_secs(1);
/// Steps of a session that may be on their way at a time. A driver takes one after the other.
const MOST: usize = 16;

/// Has a session take a step, and answers when it has: after however long what was submitted takes
/// to end, and all that is on a device to be copied.
pub(super) fn step(server: &Arc<Server>, known: &Known, refuse: impl Fn(&Stream, Refusal)) {
    let Known { conn, hello, .. } = known;
    match taken(server, known) {
        Ok(reached) => {
            if hello.checkpoint != Step::State {
                tracing::info!(
                    session = hello.session,
                    token = known.who.name,
                    step = ?hello.checkpoint,
                    status = reached.status,
                    "session takes a step to a checkpoint"
                );
            }
            answer(conn, &Welcome::with(known.protocol, &reached));
        }
        Err(r) => refuse(conn, r),
    }
}

/// Bytes that are being copied from devices to this machine's memory, until they are there.
struct Copied<'a>(&'a AtomicU64, u64);

impl<'a> Copied<'a> {
    fn new(all: &'a AtomicU64, bytes: u64) -> Self {
        all.fetch_add(bytes, Ordering::AcqRel);
        Self(all, bytes)
    }
}

impl Drop for Copied<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::AcqRel);
    }
}

/// How many bytes of this machine's memory may be taken: some is left, lest the system ends
/// something for it.
fn room() -> u64 {
    let of = memory_of_machine;
    match (of("MemAvailable:"), of("MemTotal:")) {
        (Some(free), Some(all)) => free.saturating_sub(all / 16).min(all / 3 * 2),
        _ => u64::MAX,
    }
}

/// What a session has on devices, if there is room for it, and for all that comes beside it.
fn fits<'a>(server: &'a Server, name: &str, worker: &Arc<Worker>) -> Option<Copied<'a>> {
    report::ask_workers(server, |s| Arc::ptr_eq(&s.worker, worker));
    let has = |s: &SessionEntry| s.holding.bytes();
    let bytes = lock(&server.sessions).get(name).map_or(0, has);
    let copied = Copied::new(&server.leaving, bytes);
    (server.leaving.load(Ordering::Acquire) <= room()).then_some(copied)
}

fn taken(server: &Server, known: &Known) -> Result<Reached, Refusal> {
    let Known { conn, hello, .. } = known;
    let (asker, name) = (asker(&known.who, hello), &hello.session);
    let none = || Refusal::from(Refused::NoSession(name.clone()));
    let (worker, number) = {
        let pool = lock(&server.pool);
        let mut sessions = lock(&server.sessions);
        let found = sessions.get_mut(name);
        let theirs = found.filter(|s| pool.shows(&asker, &s.who.tenant));
        let s = theirs.ok_or_else(none)?;
        if s.steps.len() >= MOST {
            let text = format!("session {name} has {MOST} steps to take already: try later");
            return Err(Refusal::new("limit", text));
        }
        s.last_step += 1;
        s.steps.insert(s.last_step, None);
        (s.worker.clone(), s.last_step)
    };
    let step = hello.checkpoint;
    // Without room the system would end the worker, and all that it has would be lost.
    let copied = match step {
        Step::Checkpoint => fits(server, name, &worker),
        _ => Some(Copied::new(&server.leaving, 0)),
    };
    let Some(_copied) = copied else {
        let mut sessions = lock(&server.sessions);
        let s = sessions.get_mut(name).ok_or_else(none)?;
        s.steps.remove(&number);
        return Ok(Reached {
            status: OUT_OF_MEMORY,
            state: s.checkpoint,
        });
    };
    worker.tell(&Order::Checkpoint { number, step });
    let mut sessions = lock(&server.sessions);
    loop {
        let s = sessions.get_mut(name).ok_or_else(none)?;
        if let Some(Some(reached)) = s.steps.get(&number) {
            let reached = *reached;
            s.steps.remove(&number);
            return Ok(reached);
        }
        let waited = server.told.wait_timeout(sessions, NEWS);
        let (there, timer) = waited.unwrap_or_else(|broken| broken.into_inner());
        sessions = there;
        if !timer.timed_out() {
            continue;
        }
        drop(sessions);
        let gone =
            conn.hung_up() || is_patient(hello) && send_hello(conn, Kind::Ping, &[]).is_err();
        sessions = lock(&server.sessions);
        if gone {
            if let Some(s) = sessions.get_mut(name) {
                s.steps.remove(&number);
            }
            let text = "whoever asked for the step has hung up";
            return Err(Refusal::new("hello", text));
        }
    }
}
