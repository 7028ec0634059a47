//! What ranks of one job have in common, what was said of those that it has lost, and what they say
//! to each other.

use busbar_control::hello::Hello;
use busbar_control::talk::{Loss, Talk};
use busbar_transport::lock::lock;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the sessions of a job have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    tenant: String,
    /// The lease, or what the job is called.
    name: String,
}

impl Group {
    /// That of a session; nothing without a lease and a job.
    pub(super) fn of(hello: &Hello, tenant: &str) -> Option<Self> {
        let job = hello.client.job.as_ref().map(|j| j.name.as_str());
        let name = match hello.lease.is_empty() {
            false => Some(hello.lease.as_str()),
            true => job.filter(|j| !j.is_empty()),
        };
        name.map(|name| Self::named(tenant, name))
    }

    /// That of a lease.
    pub(super) fn named(tenant: &str, name: &str) -> Self {
        let (tenant, name) = (tenant.into(), name.into());
        Self { tenant, name }
    }
}

/// The most communicators of a session, and of a job that has lost members of them.
const MOST: usize = 4096;

/// The communicators that a session is a member of, by the numbers that all their ranks have for
/// them, and whether it has heard that another member is lost.
#[derive(Debug, Default)]
pub(crate) struct Memberships(BTreeMap<u64, bool>);

impl Memberships {
    /// It becomes a member of one, or is one no longer.
    pub(super) fn set(&mut self, comm: u64, yes: bool) {
        if !yes {
            self.0.remove(&comm);
        } else if self.0.len() < MOST {
            self.0.entry(comm).or_insert(false);
        }
    }

    /// Whether others may wait for it.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// It hears of a loss.
    pub(super) fn hear(&mut self, loss: &Loss) {
        let all = loss.comms.is_empty();
        for (comm, heard) in &mut self.0 {
            *heard |= all || loss.comms.contains(comm);
        }
    }

    /// What its own end is news to; and whether it has heard of another, which may be why it ends.
    pub(super) fn end(&self) -> (Vec<u64>, bool) {
        let news = self.0.iter().filter(|(_, heard)| !**heard);
        let news: Vec<_> = news.map(|(comm, _)| *comm).collect();
        let follows = news.len() < self.0.len();
        (news, follows)
    }
}

/// How many words are kept for those at other servers, and the most of a group in a minute.
const KEPT: usize = 16;
const MINUTE: Duration = Duration::from_secs(60);
/// For how long words are kept of jobs whose end is nowhere told.
const OLD: Duration = Duration::from_secs(3600);

/// What ranks say to those at other servers, by job, until its lease ends.
#[derive(Default)]
pub(crate) struct Talks(Mutex<Words>);

/// See [`Talks`].
#[derive(Default)]
struct Words {
    /// Of all jobs.
    number: u64,
    of: BTreeMap<Group, Said>,
}

struct Said {
    list: VecDeque<(u64, Talk)>,
    /// When words of this minute began, and how many there were.
    since: Instant,
    count: usize,
}

impl Talks {
    /// The last of them, each with its number.
    pub(super) fn last(&self, group: &Group) -> Vec<(u64, Talk)> {
        let all = lock(&self.0);
        let said = all.of.get(group).map(|s| s.list.iter().cloned());
        said.into_iter().flatten().collect()
    }

    /// A rank says something; whether it may: when all of many lack something, some words tell it.
    pub(super) fn note(&self, group: &Group, talk: &Talk, now: Instant) -> bool {
        let mut all = lock(&self.0);
        all.of.retain(|_, s| now.duration_since(s.since) < OLD);
        all.number += 1;
        let number = all.number;
        let said = all.of.entry(group.clone()).or_insert(Said {
            list: VecDeque::new(),
            since: now,
            count: 0,
        });
        if now.duration_since(said.since) >= MINUTE {
            (said.since, said.count) = (now, 0);
        }
        said.count += 1;
        if said.count > KEPT {
            return false;
        }
        said.list.push_back((number, talk.clone()));
        if said.list.len() > KEPT {
            said.list.pop_front();
        }
        true
    }

    /// The lease has ended.
    pub(super) fn forget(&self, lease: &str) {
        lock(&self.0).of.retain(|group, _| group.name != lease);
    }
}

/// How many losses are kept for those who hold the lease: with what they say of communicators they
/// fit into a welcome.
const LOSSES: usize = 32;

/// What was said last of lost ranks, by job, until its lease ends, or for long if it has none.
#[derive(Default)]
pub(crate) struct Losses {
    of: Mutex<Lost>,
    /// How often sessions have become members of communicators, or have left them.
    changes: AtomicU64,
}

/// See [`Losses`].
#[derive(Default)]
struct Lost {
    /// Of all jobs.
    number: u64,
    of: BTreeMap<Group, Known>,
}

/// What is known of a job's losses.
struct Known {
    /// Those that are told to whoever holds the lease: they were here.
    here: VecDeque<(u64, Loss)>,
    /// The communicators that have lost members, wherever those were.
    comms: BTreeSet<u64>,
    last: Instant,
}

impl Lost {
    fn of(&mut self, group: &Group, loss: &Loss) -> &mut Known {
        let now = Instant::now();
        self.of.retain(|_, k| now.duration_since(k.last) < OLD);
        let known = self.of.entry(group.clone()).or_insert_with(|| Known {
            here: VecDeque::new(),
            comms: BTreeSet::new(),
            last: now,
        });
        known.last = now;
        if known.comms.len() > MOST {
            known.comms.clear();
        }
        known.comms.extend(&loss.comms);
        known
    }
}

impl Losses {
    /// What whoever holds the lease is to hear, each with its number.
    pub(super) fn last(&self, group: &Group) -> Vec<(u64, Loss)> {
        let lost = lock(&self.of);
        let here = lost.of.get(group).map(|k| k.here.iter().cloned());
        here.into_iter().flatten().collect()
    }

    /// A rank is lost here.
    pub(super) fn note(&self, group: &Group, loss: &Loss) {
        let mut lost = lock(&self.of);
        lost.number += 1;
        let number = lost.number;
        let here = &mut lost.of(group, loss).here;
        here.push_back((number, loss.clone()));
        if here.len() > LOSSES {
            here.pop_front();
        }
    }

    /// A rank is lost at another server.
    pub(super) fn hear(&self, group: &Group, loss: &Loss) {
        lock(&self.of).of(group, loss);
    }

    /// Whether members of a communicator are known to be lost.
    pub(super) fn has(&self, group: &Group, comm: u64) -> bool {
        let lost = lock(&self.of);
        lost.of.get(group).is_some_and(|k| k.comms.contains(&comm))
    }

    /// The lease has ended.
    pub(super) fn forget(&self, lease: &str) {
        lock(&self.of).of.retain(|group, _| group.name != lease);
    }

    /// Some session has another communicator than before.
    pub(super) fn change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// How often that was said.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_control::hello::{Intent, Job};

    #[test]
    fn ranks_of_a_lease_or_of_a_job_belong_together_and_to_their_tenant() {
        let of = |lease: &str, job: &str, tenant: &str| {
            let mut hello = Hello::new(Intent::Open);
            hello.lease = lease.into();
            hello.client.job = Some(Job {
                name: job.into(),
                ..Job::default()
            });
            Group::of(&hello, tenant)
        };
        assert_eq!(of("", "", "a"), None);
        assert_eq!(of("l", "", "a"), of("l", "j", "a"));
        assert_eq!(of("l", "", "a"), Some(Group::named("a", "l")));
        assert_ne!(of("", "j", "a"), of("", "j", "b"));
        assert_ne!(of("", "j", "a"), of("", "k", "a"));
    }

    #[test]
    fn the_end_of_a_rank_is_news_to_those_who_have_not_heard_of_another() {
        let mut of = Memberships::default();
        let loss = |comms: &[u64]| Loss {
            comms: comms.into(),
            ..Loss::default()
        };
        assert_eq!(of.end(), (vec![], false));
        of.set(1, true);
        of.set(2, true);
        of.hear(&loss(&[3]));
        assert_eq!(of.end(), (vec![1, 2], false));
        of.hear(&loss(&[1]));
        of.set(1, true);
        assert_eq!(of.end(), (vec![2], true));
        of.set(1, false);
        of.set(4, true);
        assert_eq!(of.end(), (vec![2, 4], false), "it has gone on");
        of.hear(&loss(&[]));
        assert_eq!(of.end(), (vec![], true), "nobody knows of which");
    }

    #[test]
    fn a_loss_like_the_one_before_is_another() {
        let (losses, group) = (Losses::default(), Group::named("a", "l"));
        let loss = Loss::default();
        for _ in 0..2 * LOSSES {
            losses.note(&group, &loss);
        }
        let last = losses.last(&group);
        let numbers: Vec<_> = last.iter().map(|(n, _)| *n as usize).collect();
        assert_eq!(numbers, (LOSSES + 1..=2 * LOSSES).collect::<Vec<_>>());
        let comms = vec![7];
        losses.hear(&group, &Loss { comms, ..loss });
        assert!(losses.has(&group, 7) && !losses.has(&group, 8));
        assert_eq!(losses.last(&group).len(), LOSSES, "not told back");
        losses.forget("l");
        assert!(losses.last(&group).is_empty() && !losses.has(&group, 7));
    }

    #[test]
    fn a_job_of_which_all_ranks_lack_something_is_not_talked_to_death() {
        let (talks, group) = (Talks::default(), Group::named("a", "l"));
        let now = Instant::now();
        let say = |n: usize, at| {
            let text = n.to_string();
            talks.note(&group, &Talk::Late { text }, at)
        };
        let said = (0..100).filter(|n| say(*n, now)).count();
        assert_eq!(said, KEPT);
        assert!(say(100, now + MINUTE), "later there is more to say");
        let last = talks.last(&group);
        let numbers: Vec<_> = last.iter().map(|(n, _)| *n).collect();
        assert_eq!(numbers.len(), KEPT);
        assert!(
            numbers.is_sorted() && numbers.ends_with(&[101]),
            "{numbers:?}"
        );
        talks.forget("l");
        assert!(talks.last(&group).is_empty());
    }
}
