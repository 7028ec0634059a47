//! Idle sessions give way to one that lacks device memory: what they have is in this machine's
//! memory until they have something to do again (ADR 0055).
//!
//! A session that comes back needs room, too, and has others give way for it. Where none of those
//! is idle it waits, and after as long as a session here may be idle they have the device by turns.

use super::change::end;
use super::entry::SessionEntry;
use super::questions::Waiting;
use super::report::ask_workers;
use super::room::{self, fits};
use super::state::Server;
use busbar_control::attach::{Answer, Freed, Lacking, Order, Question};
use busbar_control::checkpoint::{CHECKPOINTED, Reached, Swap, TAKEN};
use busbar_control::holding::OnDevice;
use busbar_control::size;
use busbar_pool::idle::Still;
use busbar_pool::swap::{Candidate, give_way};
use busbar_transport::handover;
use busbar_transport::lock::lock;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a session that cannot come back tries again.
const LOOK: Duration = Duration::from_millis(500);
/// How long one that could not give way is left alone.
const PAUSE: Duration = Duration::from_secs(30);
/// How long a session may take to give way or to come back, and how much longer for each byte. An
/// H200 takes 0.45 s for 1 GB out, and 0.15 s back.
const LONGEST: Duration = Duration::from_secs(60);
const BYTES_A_SECOND: u64 = 256 << 20;
/// What a session has it says itself.
const MOST_SECONDS: u64 = 600;
/// After how long of waiting a session's user hears of it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Who gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// Whoever has done nothing for long.
    Idle,
    /// Whoever has had the device for long.
    Turn,
}

/// A session lacks device memory: others give way, and it hears how much has come free.
///
/// One that asks again before it has heard is not one of ours, and hears nothing.
pub(super) fn lacks(server: &Arc<Server>, session: &str, lacking: Lacking, to: OwnedFd) {
    let asks = |yes: bool| {
        let mut sessions = lock(&server.sessions);
        let s = sessions.get_mut(session);
        s.is_some_and(|s| std::mem::replace(&mut s.swap.asks, yes) != yes)
    };
    if !asks(true) {
        return;
    }
    let (s, name) = (server.clone(), session.to_string());
    let run = move || {
        let has = lock(&s.pool).placed(&name).devices;
        let bytes = match has.contains(&lacking.device) {
            true if lacking.now => {
                let _alone = lock(&s.swaps);
                let Lacking { device, bytes, .. } = lacking;
                free_up(&s, &name, OnDevice { device, bytes }, Who::Idle, false)
            }
            true => would_free(&s, &name, lacking.device),
            false => 0,
        };
        if let Some(s) = lock(&s.sessions).get_mut(&name) {
            s.swap.asks = false;
        }
        let _ = handover::send(&to, &Freed { bytes }.to_json(), None);
    };
    let thread = std::thread::Builder::new().name("room".into());
    // Without one the worker sees that its socket is closed.
    if thread.stack_size(256 << 10).spawn(run).is_err() {
        asks(false);
    }
}

/// A session that has given way has something to do.
pub(super) fn wanted(server: &Arc<Server>, session: &str) {
    if let Some(s) = lock(&server.sessions).get_mut(session) {
        s.swap.wanted = true;
    }
    come_back(server, session);
}

/// Has a session come back if it has given way, as long as somebody waits for it; whether it is
/// here.
pub(super) fn have_back(
    server: &Arc<Server>,
    session: &str,
    each: Duration,
    goes_on: impl Fn() -> bool,
) -> bool {
    wanted(server, session);
    loop {
        let sessions = lock(&server.sessions);
        let out = |all: &mut HashMap<String, SessionEntry>| is_out(all, session);
        let waited = server.told.wait_timeout_while(sessions, each, out);
        if waited.is_ok_and(|(_, timer)| !timer.timed_out()) {
            return true;
        }
        if !goes_on() {
            return false;
        }
    }
}

/// Whether a session has given way.
pub(super) fn is_out(sessions: &HashMap<String, SessionEntry>, session: &str) -> bool {
    sessions.get(session).is_some_and(|s| s.swap.out)
}

/// Who may give way to a session, of a device.
fn candidates(server: &Server, session: &str, device: u32, who: Who) -> Vec<Candidate> {
    let pool = lock(&server.pool);
    let sessions = lock(&server.sessions);
    let now = Instant::now();
    let candidate = |(name, s): (&String, &SessionEntry)| {
        let bytes = s.holding.bytes_on(device);
        let time = match who {
            Who::Idle => s.still.time,
            Who::Turn => now.duration_since(s.swap.back.unwrap_or(s.since)),
        };
        let may = time >= s.swap.after?
            && name != session
            && bytes > 0
            && !s.swap.out
            // Another program has it wait, or is about to.
            && s.checkpoint == 0
            && s.questions.steps() == 0
            && s.swap.not_before.is_none_or(|t| t <= now)
            // Others wait for what it does, or have their device with it.
            && !s.comms.any()
            && s.worker.dense.is_none()
            && !pool.placed(name).promised;
        may.then(|| Candidate {
            session: name.clone(),
            bytes,
            time,
        })
    };
    sessions.iter().filter_map(candidate).collect()
}

/// How many bytes of a device idle sessions would give up for one, if there is room for them here.
fn would_free(server: &Server, session: &str, device: u32) -> u64 {
    let all = candidates(server, session, device, Who::Idle);
    let bytes = all.iter().fold(0u64, |sum, c| sum.saturating_add(c.bytes));
    bytes.min(room::of_machine())
}

/// Has others give way to a session, `even_so` if all that they have is too little; says how many
/// bytes of a device have come free.
fn free_up(server: &Arc<Server>, session: &str, lacks: OnDevice, who: Who, even_so: bool) -> u64 {
    let OnDevice { device, bytes } = lacks;
    ask_workers(server, |s| s.swap.after.is_some());
    let chosen = give_way(candidates(server, session, device, who), bytes, even_so);
    let gone = chosen.iter().filter(|c| swap_out(server, c, session, who));
    gone.map(|c| c.bytes).sum()
}

/// Has a session give way or come back, and waits for however long its memory may take. `None` if
/// it ends. One that takes longer is ended: others wait for what it has.
fn swap(server: &Server, session: &str, way: Swap) -> Option<Reached> {
    let asked = Waiting::ask(server, session, Question::Swap(way))?;
    let of = |s: &SessionEntry| s.holding.bytes() / BYTES_A_SECOND;
    let seconds = lock(&server.sessions).get(session).map_or(0, of);
    let longest = LONGEST + Duration::from_secs(seconds.min(MOST_SECONDS));
    match asked.answer(longest, || false) {
        Some(Answer::Reached(reached)) => Some(reached),
        _ => {
            let why = "its worker did not give way to others, or come back, in time: start its \
                       program again";
            end(server, session, why.into());
            None
        }
    }
}

/// Has one session give way to another; whether it has.
fn swap_out(server: &Arc<Server>, c: &Candidate, to: &str, who: Who) -> bool {
    let by_turns = who == Who::Turn;
    let copied = fits(server, &c.session);
    let done = |s: &mut SessionEntry| {
        s.swap.wanted = false;
        s.still.done
    };
    let still = lock(&server.sessions).get_mut(&c.session).map(done);
    let idle_since = still.filter(|_| !by_turns);
    let way = Swap::Out { idle_since };
    let reached = copied.is_some().then(|| swap(server, &c.session, way));
    let reached = reached.flatten().unwrap_or_default();
    let gone = (reached.status, reached.state) == (TAKEN, CHECKPOINTED);
    tracing::info!(
        session = c.session,
        to,
        device_memory = c.bytes,
        by_turns,
        gone,
        fits = copied.is_some(),
        status = reached.status,
        "session gives way"
    );
    if let Some(s) = lock(&server.sessions).get_mut(&c.session) {
        s.swap.out = gone;
        // One that was at work goes on as soon as it can. Of what came to one that stays it needs
        // nobody's help.
        s.swap.wanted = gone && (s.swap.wanted || by_turns);
        s.swap.not_before = (!gone).then(|| Instant::now() + PAUSE);
    }
    if gone {
        come_back(server, &c.session);
    }
    gone
}

/// Sees to it that a session comes back, if it has given way and has something to do.
fn come_back(server: &Arc<Server>, session: &str) {
    {
        let mut sessions = lock(&server.sessions);
        let waits = |s: &&mut SessionEntry| s.swap.out && s.swap.wanted && !s.swap.coming;
        let Some(s) = sessions.get_mut(session).filter(waits) else {
            return;
        };
        s.swap.coming = true;
    }
    let (s, name) = (server.clone(), session.to_string());
    let run = move || bring_back(&s, &name);
    let thread = std::thread::Builder::new().name("swap".into());
    if let Err(e) = thread.stack_size(256 << 10).spawn(run) {
        tracing::warn!(session, error = %e, "a session that has given way stays where it is");
        if let Some(s) = lock(&server.sessions).get_mut(session) {
            s.swap.coming = false;
        }
    }
}

/// Brings a session back, once there is room for it.
fn bring_back(server: &Arc<Server>, session: &str) {
    let since = Instant::now();
    let mut told = false;
    loop {
        let alone = lock(&server.swaps);
        let all_lacks = room::lacks(server, session);
        if all_lacks.is_empty() {
            match swap(server, session, Swap::In).map(|reached| reached.status) {
                Some(TAKEN) => is_back(server, session, since, told),
                Some(status) => is_lost(server, session, status),
                // It has ended.
                None => {}
            }
            return;
        }
        let mut freed = 0;
        let its_turn = turn_of(server, session).is_some_and(|t| since.elapsed() >= t);
        for lacks in &all_lacks {
            freed += free_up(server, session, *lacks, Who::Idle, its_turn);
            if freed == 0 && its_turn {
                freed += free_up(server, session, *lacks, Who::Turn, true);
            }
        }
        drop(alone);
        if freed > 0 {
            continue;
        }
        if !told && since.elapsed() >= PATIENCE {
            told = true;
            let lacks = size::show(all_lacks.iter().map(|on| on.bytes).sum());
            let text = format!(
                "it has given way to other sessions, and waits for its device memory: {lacks} of \
                 it are theirs until they are idle, end, or have had their turn"
            );
            say(server, session, text);
        }
        std::thread::sleep(LOOK);
    }
}

/// For how long it may wait for others that are at work.
fn turn_of(server: &Server, session: &str) -> Option<Duration> {
    lock(&server.sessions).get(session)?.swap.after
}

fn is_back(server: &Server, session: &str, since: Instant, told: bool) {
    let ms = since.elapsed().as_millis() as u64;
    tracing::info!(session, ms, "session is back");
    if let Some(s) = lock(&server.sessions).get_mut(session) {
        s.swap.out = false;
        s.swap.wanted = false;
        s.swap.coming = false;
        s.swap.back = Some(Instant::now());
        s.still = Still::default();
    }
    server.told.notify_all();
    if told {
        say(server, session, "it has its device memory again".into());
    }
}

/// What a session had cannot be brought back: it ends, and its user hears why.
fn is_lost(server: &Server, session: &str, status: i32) {
    tracing::error!(session, status, "the driver does not restore a session");
    let why = format!(
        "what it had on its devices could not be brought back (the driver's error {status}): start \
         its program again"
    );
    end(server, session, why);
}

/// Says a sentence to a session's user.
fn say(server: &Server, session: &str, text: String) {
    if let Some(worker) = server.worker_of(session) {
        let loss = true;
        worker.tell(&Order::News { text, loss });
    }
}
