//! What tenants have of what they may have.

use crate::{Asker, Pool};
use busbar_policy::Rules;
use std::collections::BTreeMap;

/// What a tenant has, and may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// The tenant; empty where the server asks nobody who they are.
    pub tenant: String,
    /// What it may have.
    pub rules: Rules,
    /// Its sessions.
    pub sessions: u64,
    /// The devices that its leases hold.
    pub leased: u64,
}

impl Pool {
    /// Whether somebody sees what everybody does: an admin, and all where nobody is asked.
    pub fn sees_all(&self, asker: &Asker<'_>) -> bool {
        asker.tenant.is_empty() || self.is_admin(asker)
    }

    /// What tenants have that somebody sees: its own, an admin those of all that the policy names
    /// or that have something.
    pub fn quotas(&self, asker: &Asker<'_>) -> Vec<Quota> {
        let mut all = BTreeMap::<&str, (u64, u64)>::new();
        all.insert(asker.tenant, (0, 0));
        for (name, _) in self.policy.named() {
            all.entry(name).or_default();
        }
        for s in self.sessions.values() {
            all.entry(&s.tenant).or_default().0 += 1;
        }
        for l in self.leases.values() {
            all.entry(&l.claim.tenant).or_default().1 += l.devices.len() as u64;
        }
        let shown = all
            .into_iter()
            .filter(|(tenant, _)| self.shows(asker, tenant));
        let quota = |(tenant, (sessions, leased)): (&str, (u64, u64))| Quota {
            tenant: tenant.into(),
            rules: self.policy.of(tenant).clone(),
            sessions,
            leased,
        };
        shown.map(quota).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ask;
    use crate::queue::Want;
    use busbar_control::device::Device;

    #[test]
    fn a_tenant_sees_its_own_and_an_admin_all() {
        let device = |ordinal| Device {
            api: "cuda".into(),
            ordinal,
            ..Device::default()
        };
        let mut pool = Pool::new(vec![device(0), device(1)], None, 9).expect("a pool");
        let policy = busbar_policy::parse("[tenant.lab]\nsessions = 3\n[tenant.idle]\nleases = 0");
        pool.set_policy(policy.expect("a policy")).expect("fits");
        let of = |tenant| Asker {
            tenant,
            ..Asker::default()
        };
        pool.open("s", "cuda", &of("lab")).expect("a session");
        pool.close("s");
        let ask = Ask {
            name: "l",
            holder: "x@y",
            devices: &[],
            least: 1,
            most: 1,
            want: Want::Whole,
            since: 0,
        };
        pool.stand(&of("art"), &ask).expect("a place in line");
        pool.take("l", &[0]).expect("a lease");
        pool.open("s", "cuda", &of("lab")).expect("a session");
        let own = pool.quotas(&of("lab"));
        assert_eq!(own.len(), 1);
        assert_eq!((own[0].sessions, own[0].leased), (1, 0));
        assert_eq!(own[0].rules.sessions, Some(3));
        let admin = Asker {
            admin: true,
            ..of("ops")
        };
        let all = pool.quotas(&admin);
        let names: Vec<_> = all.iter().map(|q| q.tenant.as_str()).collect();
        assert_eq!(names, ["art", "idle", "lab", "ops"]);
        assert_eq!(all[0].leased, 1);
    }
}
