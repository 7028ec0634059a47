//! A session, and what is known of it.

use super::groups::{Group, Memberships};
use super::identity::Who;
use super::sockets::Sockets;
use super::workers::Worker;
use busbar_control::attach::{Answer, Question};
use busbar_control::hello::ClientInfo;
use busbar_control::holding::{Holding, OnDevice, Traffic};
use busbar_control::status::Time;
use busbar_pool::idle::Still;
use busbar_web::Had;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// How fast a session's bytes come and go.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When that was looked at, and how many bytes there had been.
    last: Option<(Instant, u64)>,
    /// Bytes a second between the last two looks.
    pub rate: Option<u64>,
}

impl Pace {
    /// Takes another look, unless there was one less than a second ago.
    fn look(&mut self, since: Instant, now: Instant, bytes: u64) {
        let (then, had) = self.last.unwrap_or((since, 0));
        let ms = now.duration_since(then).as_millis();
        if ms >= 1000 {
            let more = u128::from(bytes.saturating_sub(had));
            self.rate = u64::try_from(more * 1000 / ms).ok();
            self.last = Some((now, bytes));
        }
    }
}

/// Questions that wait for their answers, by the server's numbers, with what was said.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: BTreeMap<u64, (Question, Option<Answer>)>,
    last: u64,
}

impl Questions {
    /// One more; its number.
    pub(super) fn put(&mut self, question: Question) -> u64 {
        self.last += 1;
        self.open.insert(self.last, (question, None));
        self.last
    }

    /// How many of them are of steps that somebody asked for.
    pub(super) fn steps(&self) -> usize {
        let steps = |(question, _): &&(Question, _)| matches!(question, Question::Step(_));
        self.open.values().filter(steps).count()
    }

    /// Whether there is still an answer to wait for.
    pub(super) fn is_open(&self, number: u64) -> bool {
        self.open
            .get(&number)
            .is_some_and(|(_, said)| said.is_none())
    }

    /// What was said, if somebody waits for it.
    pub(super) fn answered(&mut self, number: u64, answer: Answer) {
        if let Some((_, said)) = self.open.get_mut(&number) {
            *said = Some(answer);
        }
    }

    /// Forgets one: the answer, if there is any.
    pub(super) fn take(&mut self, number: u64) -> Option<Answer> {
        self.open.remove(&number)?.1
    }
}

/// How a session gives way to others that lack device memory, and where it is.
#[derive(Debug, Default)]
pub(crate) struct Swap {
    /// When it has done nothing for so long.
    pub after: Option<Duration>,
    /// It has given way: what it had is in this machine's memory.
    pub out: bool,
    /// It has something to do meanwhile.
    pub wanted: bool,
    /// Somebody sees to it that it comes back.
    pub coming: bool,
    /// It lacks memory, and others are asked for it.
    pub asks: bool,
    /// When it last came back.
    pub back: Option<Instant>,
    /// It is not asked before this: it could not give way.
    pub not_before: Option<Instant>,
}

/// A session as the server sees it.
pub(crate) struct SessionEntry {
    pub api: String,
    pub secret: String,
    pub client: ClientInfo,
    /// Who opened it, as the server knows.
    pub who: Who,
    pub peer: String,
    pub encrypted: bool,
    /// What its bytes pass, once its worker has said so.
    pub path: String,
    pub since: Instant,
    pub opened: SystemTime,
    pub connected: bool,
    /// What it held when its worker last said so.
    pub holding: Holding,
    pub pace: Pace,
    /// What its worker is asked.
    pub questions: Questions,
    /// In which state it was after the last step towards a checkpoint or back.
    pub checkpoint: u32,
    /// What it had of its devices when it was locked, until it is unlocked.
    pub locked: Vec<OnDevice>,
    /// How it gives way to others.
    pub swap: Swap,
    /// What it has had of its devices, by ordinal, when that was last looked at.
    pub had: BTreeMap<u32, Had>,
    /// What it has in common with the other ranks of its job.
    pub group: Option<Group>,
    /// What its sockets are made with; none where it may have none.
    pub sockets: Option<Arc<Sockets>>,
    /// Its communicators: others may wait for it.
    pub comms: Memberships,
    /// What was said last of calls of its job that stand still; empty once they have gone on.
    pub stall: String,
    /// For how long it may do nothing and keep its share of time from others.
    pub idle: Option<Duration>,
    /// For how long it has done nothing, when that was last looked at.
    pub still: Still,
    pub worker: Arc<Worker>,
}

impl SessionEntry {
    /// Keeps what it has had of its devices; nothing of it is ever less than it was.
    pub(super) fn keep_time(&mut self, devices: &[u32], time: &[Option<Time>]) {
        for (device, t) in devices.iter().zip(time) {
            let Some(t) = t else { continue };
            let had = self.had.entry(*device).or_default();
            had.used_ms = had.used_ms.max(t.used_ms);
            had.waited_ms = had.waited_ms.max(t.waited_ms);
        }
    }

    /// Keeps what its worker says of it; nothing that is counted is ever less than it was.
    pub(super) fn keep_holding(&mut self, holding: Holding) {
        let (old, new) = (self.holding.traffic, holding.traffic);
        self.holding = holding;
        self.holding.traffic = Traffic {
            records: old.records.max(new.records),
            round_trips: old.round_trips.max(new.round_trips),
            bytes_in: old.bytes_in.max(new.bytes_in),
            bytes_out: old.bytes_out.max(new.bytes_out),
            rdma_in: old.rdma_in.max(new.rdma_in),
            rdma_out: old.rdma_out.max(new.rdma_out),
        };
        let bytes = self.holding.traffic.bytes().0;
        self.pace.look(self.since, Instant::now(), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_what_came_since_the_look_before() {
        let since = Instant::now();
        let at = |ms| since + Duration::from_millis(ms);
        let mut pace = Pace::default();
        pace.look(since, at(500), 10);
        assert_eq!(pace.rate, None);
        pace.look(since, at(2000), 3000);
        assert_eq!(pace.rate, Some(1500));
        pace.look(since, at(2900), 9000);
        assert_eq!(pace.rate, Some(1500));
        pace.look(since, at(4000), 13_000);
        assert_eq!(pace.rate, Some(5000));
    }
}
