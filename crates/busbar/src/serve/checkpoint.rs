//! Steps towards a checkpoint of a session and back, which a program of its tenant asks for.

use super::asking::{asker, is_patient};
use super::entry::SessionEntry;
use super::identity::Known;
use super::questions::Waiting;
use super::reception::answer;
use super::report;
use super::state::Server;
use super::swap;
use crate::isolation::limits::memory_of_machine;
use busbar_channel::send_hello;
use busbar_control::attach::{Answer, Question};
use busbar_control::checkpoint::{OUT_OF_MEMORY, Reached, Step};
use busbar_control::hello::{Refusal, Welcome};
use busbar_pool::Refused;
use busbar_transport::Connection;
use busbar_transport::lock::lock;
use busbar_transport::stream::Stream;
use busbar_wire::frame::Kind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, TryLockError};
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
pub(super) struct Copied<'a>(&'a AtomicU64, u64);

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

/// What a session has on devices, if there is room for it, and for all that comes beside it:
/// without, the system would end the worker, and all that it has would be lost.
pub(super) fn fits<'a>(server: &'a Server, session: &str) -> Option<Copied<'a>> {
    let Some(worker) = server.worker_of(session) else {
        return Some(Copied::new(&server.leaving, 0));
    };
    report::ask_workers(server, |s| Arc::ptr_eq(&s.worker, &worker));
    let has = |s: &SessionEntry| s.holding.bytes();
    let bytes = lock(&server.sessions).get(session).map_or(0, has);
    let copied = Copied::new(&server.leaving, bytes);
    (server.leaving.load(Ordering::Acquire) <= room()).then_some(copied)
}

/// The state of a session that is theirs, if it may take one more step.
fn may_step(server: &Server, known: &Known) -> Result<u32, Refusal> {
    let (name, asker) = (&known.hello.session, asker(&known.who, &known.hello));
    let pool = lock(&server.pool);
    let sessions = lock(&server.sessions);
    let theirs = sessions
        .get(name)
        .filter(|s| pool.shows(&asker, &s.who.tenant));
    let s = theirs.ok_or_else(|| Refused::NoSession(name.clone()))?;
    if s.questions.steps() >= MOST {
        let text = format!("session {name} has {MOST} steps to take already: try later");
        return Err(Refusal::new("limit", text));
    }
    Ok(s.checkpoint)
}

/// Has nobody else restored meanwhile, as long as somebody waits for it.
fn alone(server: &Server, goes_on: impl Fn() -> bool) -> Option<MutexGuard<'_, ()>> {
    const LOOK: Duration = Duration::from_millis(50);
    loop {
        match server.swaps.try_lock() {
            Ok(alone) => return Some(alone),
            Err(TryLockError::Poisoned(broken)) => return Some(broken.into_inner()),
            Err(TryLockError::WouldBlock) if !goes_on() => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
        }
    }
}

fn taken(server: &Arc<Server>, known: &Known) -> Result<Reached, Refusal> {
    let Known { conn, hello, .. } = known;
    let (name, step) = (&hello.session, hello.checkpoint);
    let goes_on = || {
        let pinged = || !is_patient(hello) || send_hello(conn, Kind::Ping, &[]).is_ok();
        !conn.hung_up() && pinged()
    };
    let hung_up = || Refusal::new("hello", "whoever asked for the step has hung up");
    let state = may_step(server, known)?;
    // To other programs one that has given way runs.
    if swap::is_out(&lock(&server.sessions), name) {
        if step == Step::State {
            return Ok(Reached::default());
        }
        if !swap::have_back(server, name, NEWS, goes_on) {
            return Err(hung_up());
        }
    }
    let _copied = match step {
        Step::Checkpoint => match fits(server, name) {
            Some(copied) => Some(copied),
            None => return Ok(Reached::without_driver(OUT_OF_MEMORY, state)),
        },
        _ => None,
    };
    let _alone = match step {
        Step::Restore => Some(alone(server, goes_on).ok_or_else(hung_up)?),
        _ => None,
    };
    let none = || Refusal::from(Refused::NoSession(name.clone()));
    let asked = Waiting::ask(server, name, Question::Step(step)).ok_or_else(none)?;
    match asked.answer(NEWS, goes_on) {
        Some(Answer::Reached(reached)) => Ok(reached),
        _ if server.worker_of(name).is_none() => Err(none()),
        _ => Err(hung_up()),
    }
}
