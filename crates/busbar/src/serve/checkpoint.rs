//! Steps towards a checkpoint of a session and back, which a program of its tenant asks for.

use super::asking::{asker, is_patient};
use super::identity::Known;
use super::questions::Waiting;
use super::reception::answer;
use super::room::{fits, lacks};
use super::state::Server;
use super::swap;
use busbar_channel::send_hello;
use busbar_control::attach::{Answer, Question};
use busbar_control::checkpoint::{CHECKPOINTED, OUT_OF_MEMORY, Reached, Step};
use busbar_control::hello::{Refusal, Welcome};
use busbar_pool::Refused;
use busbar_transport::Connection;
use busbar_transport::lock::lock;
use busbar_transport::stream::Stream;
use busbar_wire::frame::Kind;
use std::sync::{Arc, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// How often whoever waits for a step is looked for, and hears that somebody is at work.
const NEWS: Duration = Duration::from_secs(1);
/// How long one that is restored keeps others from being restored.
const ALONE: Duration = Duration::from_secs(10);
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
    let mut alone = match step {
        Step::Restore => Some(alone(server, goes_on).ok_or_else(hung_up)?),
        _ => None,
    };
    if step == Step::Restore && state == CHECKPOINTED {
        let lacks = lacks(server, name);
        if !lacks.is_empty() {
            return Ok(Reached {
                lacks,
                ..Reached::without_driver(OUT_OF_MEMORY, state)
            });
        }
    }
    let none = || Refusal::from(Refused::NoSession(name.clone()));
    let asked = Waiting::ask(server, name, Question::Step(step)).ok_or_else(none)?;
    let since = Instant::now();
    let waits = || {
        // It has its memory by now, or will not answer: others go on.
        alone.take_if(|_| since.elapsed() >= ALONE);
        goes_on()
    };
    match asked.answer(NEWS, waits) {
        Some(Answer::Reached(reached)) => Ok(reached),
        _ if server.worker_of(name).is_none() => Err(none()),
        _ => Err(hung_up()),
    }
}
