//! What ranks of one job have in common, what was said of those that it has lost, and what they say
//! to each other.

use busbar_control::hello::Hello;
use busbar_control::talk::Talk;
use busbar_transport::lock::lock;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
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

    /// The lease, or what the job is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// That of a lease.
    pub(super) fn named(tenant: &str, name: &str) -> Self {
        let (tenant, name) = (tenant.into(), name.into());
        Self { tenant, name }
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

/// What was said last of lost ranks, by job, until its lease ends.
#[derive(Default)]
pub(crate) struct Losses(Mutex<BTreeMap<Group, String>>);

impl Losses {
    /// What whoever holds the lease is to hear.
    pub(super) fn last(&self, group: &Group) -> String {
        lock(&self.0).get(group).cloned().unwrap_or_default()
    }

    /// A rank is lost.
    pub(super) fn note(&self, group: &Group, text: &str) {
        lock(&self.0).insert(group.clone(), text.into());
    }

    /// The lease has ended.
    pub(super) fn forget(&self, lease: &str) {
        lock(&self.0).retain(|group, _| group.name != lease);
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
