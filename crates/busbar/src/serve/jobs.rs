//! Ranks of one job, which are sessions of one lease or of one job's name: when one of them goes
//! while others may wait for it, they hear so, and so does whoever holds the lease, who tells the
//! other servers.

use super::entry::SessionEntry;
use super::groups::Group;
use super::state::Server;
use busbar_control::attach::Order;
use busbar_control::text::one_line;
use busbar_transport::lock::lock;

/// The longest sentence that is passed on.
const LONGEST: usize = 400;
/// How a session ends in good order.
const BYE: &str = "the program ended";

/// A session has ended, and why: if others may wait for it, they are told.
pub(super) fn ended(server: &Server, gone: &SessionEntry, why: &str) {
    let Some(group) = gone.group.as_ref() else {
        return;
    };
    // One that ends because it has heard of another is no news.
    if !gone.joined || gone.bereft || why == BYE {
        return;
    }
    let job = gone.client.job.as_ref();
    let rank = job.and_then(|j| Some((j.rank?, j.ranks?)));
    let who = match rank {
        Some((rank, ranks)) => format!("rank {rank} of {ranks}"),
        None => format!(
            "the rank of process {} at {}",
            gone.client.pid, gone.client.host
        ),
    };
    let text = format!("{who} at {} is gone: {why}", name(server));
    tracing::warn!(text, "a rank is lost");
    // Only a lease has somebody who listens, and an end.
    if lock(&server.pool).has_lease(group.name()) {
        server.losses.note(group, &text);
    }
    spread(server, group, &text);
}

/// Tells the sessions of a job that have communicators.
pub(super) fn spread(server: &Server, group: &Group, text: &str) {
    let text = one_line(text, LONGEST);
    let mut sessions = lock(&server.sessions);
    let theirs = sessions.values_mut();
    for s in theirs.filter(|s| s.group.as_ref() == Some(group) && s.joined) {
        s.bereft = true;
        let text = text.clone();
        s.worker.tell(&Order::Lost { text });
    }
}

/// What the server is called where people read of several.
fn name(server: &Server) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), server.address.port())
}
