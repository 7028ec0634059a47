//! Tickets: by each a link to one session gets in, once and soon.

use busbar_transport::lock::lock;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long a ticket is good: its client hands it on at once.
const GOOD: Duration = Duration::from_secs(30);
/// The most tickets of a session at a time.
const MOST: usize = 64;

struct Ticket {
    session: String,
    number: u32,
    until: Instant,
}

/// Tickets that were given and not used, by their hash: a look-up tells nobody how much of a guess
/// was right.
#[derive(Default)]
pub(crate) struct Tickets(Mutex<HashMap<blake3::Hash, Ticket>>);

impl Tickets {
    /// Takes a new ticket in, for a link that its client calls `number`; false if the session has
    /// too many.
    pub(super) fn add(&self, ticket: &str, session: &str, number: u32, now: Instant) -> bool {
        let mut all = lock(&self.0);
        all.retain(|_, t| now < t.until);
        if all.values().filter(|t| t.session == session).count() >= MOST {
            return false;
        }
        let until = now + GOOD;
        let session = session.into();
        let ticket_for = Ticket {
            session,
            number,
            until,
        };
        all.insert(blake3::hash(ticket.as_bytes()), ticket_for);
        true
    }

    /// Uses a ticket up, whatever comes of it: the link's number, if it is good for the session.
    pub(super) fn take(&self, ticket: &str, session: &str, now: Instant) -> Option<u32> {
        let found = lock(&self.0).remove(&blake3::hash(ticket.as_bytes()))?;
        (found.session == session && now < found.until).then_some(found.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once_for_its_session_and_not_for_long() {
        let (tickets, now) = (Tickets::default(), Instant::now());
        let add = |ticket: &str| assert!(tickets.add(ticket, "mine", 7, now));
        let take = |ticket, session, at| tickets.take(ticket, session, now + at);
        add("one");
        assert_eq!(take("on", "mine", Duration::ZERO), None);
        assert_eq!(take("one", "mine", GOOD / 2), Some(7));
        assert_eq!(take("one", "mine", GOOD / 2), None, "used twice");
        add("other");
        assert_eq!(take("other", "another", Duration::ZERO), None);
        assert_eq!(take("other", "mine", Duration::ZERO), None, "it was tried");
        add("late");
        assert_eq!(take("late", "mine", GOOD), None);
        assert_eq!(take("", "mine", Duration::ZERO), None);
    }

    #[test]
    fn a_session_has_so_many_and_old_ones_make_room() {
        let (tickets, now) = (Tickets::default(), Instant::now());
        for i in 0..MOST {
            assert!(tickets.add(&i.to_string(), "mine", 0, now));
        }
        assert!(!tickets.add("more", "mine", 0, now));
        assert!(tickets.add("others", "another", 0, now));
        assert!(tickets.add("more", "mine", 0, now + GOOD));
    }
}
