//! What ranks of one job have in common, and what was said of those that it has lost.

use busbar_control::hello::Hello;
use busbar_transport::lock::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;

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
}
