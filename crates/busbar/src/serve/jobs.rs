//! Ranks of one job, which are sessions of one lease or of one job's name: when one of them goes
//! while others may wait for it, they hear so, and so does whoever holds the lease, who tells the
//! other servers. In the same way those who wait for long ask which rank keeps them.

use super::entry::SessionEntry;
use super::groups::Group;
use super::state::Server;
use busbar_control::attach::Order;
use busbar_control::talk::{Loss, Talk, Waits, told};
use busbar_control::text::{host_name, one_line};
use busbar_transport::lock::lock;
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// The longest sentence that is passed on.
const LONGEST: usize = 400;
/// How long it takes at most to hear that a rank is gone for which communicators have failed.
const CAUSE: Duration = Duration::from_secs(1);
/// How a session ends in good order.
const BYE: &str = "the program ended";

/// A session has ended, and why: if others may wait for it, they are told.
pub(super) fn ended(server: &Server, gone: &SessionEntry, why: &str) {
    let Some(group) = gone.group.as_ref() else {
        return;
    };
    server.losses.change();
    // One that ends because it has heard of another is no news to those who have heard that, too.
    let (comms, follows) = gone.comms.end();
    if comms.is_empty() || why == BYE {
        return;
    }
    let text = format!("{} is gone: {why}", who(server, gone));
    let loss = Loss {
        text,
        comms: told(comms),
        follows,
    };
    lose(server, group, loss);
}

/// A session has become a member of a communicator, or is one no longer.
pub(super) fn member(server: &Server, session: &str, (comm, yes): (u64, bool)) {
    if let Some(s) = lock(&server.sessions).get_mut(session) {
        s.comms.set(comm, yes);
        server.losses.change();
    }
}

/// The communicators of a job's sessions here.
pub(super) fn comms(server: &Server, group: &Group) -> Vec<u64> {
    let sessions = lock(&server.sessions);
    let theirs = sessions
        .values()
        .filter(|s| s.group.as_ref() == Some(group));
    let all: BTreeSet<_> = theirs.flat_map(|s| s.comms.all()).collect();
    told(all.into_iter().collect())
}

/// A communicator of a session has failed, by what NCCL says. Ranks that it is not connected to
/// hear nothing of that. Where it failed because a rank is gone, that is soon told, and tells more.
pub(super) fn failed(server: &Arc<Server>, session: &str, (comm, why): (u64, &str)) {
    let found = {
        let sessions = lock(&server.sessions);
        let s = sessions.get(session);
        s.and_then(|s| Some((s.group.clone()?, who(server, s))))
    };
    let Some((group, who)) = found else {
        return;
    };
    let mut text = format!("{who} has lost others: {}", one_line(why, LONGEST));
    if let Some(why) = server.workers.isolation().strands() {
        text += "; workers of that server reach no other: ";
        text += why;
    }
    let server = server.clone();
    let run = move || {
        std::thread::sleep(CAUSE);
        // Those who wait may all be at other servers.
        if !server.losses.has(&group, comm) {
            let loss = Loss {
                text,
                comms: vec![comm],
                follows: false,
            };
            lose(&server, &group, loss);
        }
    };
    let _ = Builder::new().name("failed".into()).spawn(run);
}

/// A rank is lost.
fn lose(server: &Server, group: &Group, mut loss: Loss) {
    tracing::warn!(text = loss.text, "a rank is lost");
    loss.text = one_line(&loss.text, LONGEST);
    server.losses.note(group, &loss);
    tell_of(server, group, &loss);
}

/// What a session is called where people read of several.
fn who(server: &Server, s: &SessionEntry) -> String {
    let job = s.client.job.as_ref();
    let rank = job.and_then(|j| Some((j.rank?, j.ranks?)));
    let who = match rank {
        Some((rank, ranks)) => format!("rank {rank} of {ranks}"),
        None => format!("the rank of process {} at {}", s.client.pid, s.client.host),
    };
    format!("{who} at {}", name(server))
}

/// A session waits in a call of several ranks: the others are asked what keeps it. Those that are
/// to make a communicator with it have none yet, and it hears which of them are here.
pub(super) fn waits(server: &Server, session: &str, mut waits: Waits) {
    let (group, text) = {
        let mut sessions = lock(&server.sessions);
        let Some(s) = sessions.get(session) else {
            return;
        };
        let (group, who) = (s.group.clone(), who(server, s));
        if waits.number > 0 {
            waits.who = who;
            (group, None)
        } else {
            let text = missing(server, &sessions, &who, group.as_ref(), &waits);
            if let Some(s) = sessions.get_mut(session) {
                let text = text.clone();
                hears(s, &Talk::Late { text });
            }
            (group, Some(text))
        }
    };
    match (group, text) {
        (_, Some(text)) => note(server, session, &text),
        (Some(group), None) => talk(server, &group, Talk::Waits(waits)),
        // Ranks without a lease or a job's name do not know each other.
        (None, None) => {}
    }
}

/// Who waits for others to make a communicator with, and which of those are here.
fn missing(
    server: &Server,
    sessions: &HashMap<String, SessionEntry>,
    who: &str,
    group: Option<&Group>,
    w: &Waits,
) -> String {
    let (seconds, ranks) = (w.seconds, w.ranks);
    let text = format!(
        "{who} has waited for {seconds} s for the other ranks of its communicator of {ranks}"
    );
    let Some(group) = group else {
        return format!(
            "{text}: without a lease ranks at other servers do not reach it (`busbar run -n N` \
             reserves the devices of all)"
        );
    };
    let here = sessions
        .values()
        .filter(|s| s.group.as_ref() == Some(group));
    let here = here.filter_map(|s| s.client.job.as_ref()?.rank);
    let here: BTreeSet<_> = here.collect();
    let here: Vec<_> = here.iter().map(u32::to_string).collect();
    format!(
        "{text}; of the job {} has rank {}",
        name(server),
        here.join(", ")
    )
}

/// What a session lacks, or waits for.
pub(super) fn late(server: &Server, session: &str, what: &str) {
    let found = {
        let sessions = lock(&server.sessions);
        let s = sessions.get(session);
        s.map(|s| (s.group.clone(), who(server, s)))
    };
    let Some((group, who)) = found else {
        return;
    };
    let text = one_line(&format!("{who} {what}"), LONGEST);
    note(server, session, &text);
    match group {
        Some(group) => talk(server, &group, Talk::Late { text }),
        // Its ranks are all of this session.
        None => {
            if let Some(s) = lock(&server.sessions).get_mut(session) {
                hears(s, &Talk::Late { text });
            }
        }
    }
}

/// What stands still is in the log and in the audit.
fn note(server: &Server, session: &str, text: &str) {
    tracing::warn!(session, text, "ranks wait");
    let said = json!({ "session": session, "why": text });
    let _ = server.audit.note("ranks wait", said);
}

/// Tells all of a job something, here and at other servers.
fn talk(server: &Server, group: &Group, talk: Talk) {
    if server.talks.note(group, &talk, Instant::now()) {
        tell(server, group, talk);
    }
}

/// Tells those who are here.
pub(super) fn tell(server: &Server, group: &Group, talk: Talk) {
    let mut sessions = lock(&server.sessions);
    let theirs = sessions.values_mut();
    for s in theirs.filter(|s| s.group.as_ref() == Some(group) && s.comms.any()) {
        hears(s, &talk);
    }
}

/// A session hears something; `busbar ps` has what keeps it.
fn hears(s: &mut SessionEntry, talk: &Talk) {
    if let Talk::Late { text } = talk {
        s.stall.clone_from(text);
    }
    s.worker.tell(&Order::Talk(talk.clone()));
}

/// A rank is lost at another server.
pub(super) fn hear(server: &Server, group: &Group, loss: &Loss) {
    server.losses.hear(group, loss);
    tell_of(server, group, loss);
}

/// Tells the sessions of a job that have communicators of a loss.
fn tell_of(server: &Server, group: &Group, loss: &Loss) {
    let mut sessions = lock(&server.sessions);
    let theirs = sessions.values_mut();
    for s in theirs.filter(|s| s.group.as_ref() == Some(group) && s.comms.any()) {
        s.comms.hear(loss);
        s.worker.tell(&Order::Lost(loss.clone()));
    }
}

/// What the server is called where people read of several.
fn name(server: &Server) -> String {
    format!("{}:{}", host_name(), server.address.port())
}
