//! Questions to the workers of sessions, and what is waited for until they are answered.

use super::entry::SessionEntry;
use super::state::Server;
use busbar_control::attach::{Answer, Order, Question};
use busbar_transport::lock::lock;
use std::collections::HashMap;
use std::time::Duration;

/// A question that waits for its answer. Dropped, nobody waits any more.
pub(super) struct Waiting<'a> {
    server: &'a Server,
    session: String,
    number: u64,
}

impl<'a> Waiting<'a> {
    /// Asks a session's worker, if there is the session.
    pub(super) fn ask(server: &'a Server, session: &str, question: Question) -> Option<Self> {
        let mut sessions = lock(&server.sessions);
        let s = sessions.get_mut(session)?;
        let (number, worker) = (s.questions.put(question), s.worker.clone());
        drop(sessions);
        worker.tell(&Order::Ask { number, question });
        let session = session.into();
        Some(Self {
            server,
            session,
            number,
        })
    }

    /// Whether there is still an answer to wait for.
    pub(super) fn is_open(&self, sessions: &HashMap<String, SessionEntry>) -> bool {
        let session = sessions.get(&self.session);
        session.is_some_and(|s| s.questions.is_open(self.number))
    }

    /// The answer, once there is one; `None` if the session ends first, or `goes_on`, which is
    /// called each time so much time has passed, says that nobody waits.
    pub(super) fn answer(
        &self,
        each: Duration,
        mut goes_on: impl FnMut() -> bool,
    ) -> Option<Answer> {
        loop {
            let sessions = lock(&self.server.sessions);
            let open = |all: &mut HashMap<_, _>| self.is_open(all);
            let waited = self.server.told.wait_timeout_while(sessions, each, open);
            let (mut sessions, timer) = waited.unwrap_or_else(|broken| broken.into_inner());
            if !timer.timed_out() {
                return sessions.get_mut(&self.session)?.questions.take(self.number);
            }
            drop(sessions);
            if !goes_on() {
                return None;
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(s) = lock(&self.server.sessions).get_mut(&self.session) {
            s.questions.take(self.number);
        }
    }
}
