//! What a pool leaves to that of another server, which takes this one's place: what is promised
//! here must not be promised there once more.

use crate::lease::Lease;
use crate::queue::{Claim, Want};
use crate::timeshare::Part;
use crate::{Placed, Pool};
use busbar_control::succession;
use std::time::Duration;

impl Pool {
    /// What a session has.
    pub fn session(&self, name: &str) -> Option<succession::Session> {
        let p = self.sessions.get(name)?;
        let first = p.devices.first().map(|i| &self.places[*i].device);
        Some(succession::Session {
            session: name.into(),
            api: first.map(|d| d.api.clone()).unwrap_or_default(),
            tenant: p.tenant.clone(),
            devices: self.ordinals(&p.devices),
            lease: p.lease.clone(),
            memory: p.memory,
            promised: p.promised,
            share: p.part.share,
            priority: p.part.priority,
            drawn: p.drawn,
        })
    }

    /// What all sessions have.
    pub fn sessions(&self) -> Vec<succession::Session> {
        let names = self.sessions.keys();
        names.filter_map(|name| self.session(name)).collect()
    }

    /// Takes over a session of another pool over the same devices, or changes one that was.
    pub fn adopt_session(&mut self, s: &succession::Session) {
        let place = |n: &u32| {
            let mut all = self.places.iter();
            all.position(|p| p.device.api == s.api && p.device.ordinal == *n)
        };
        let placed = Placed {
            lease: s.lease.clone(),
            tenant: s.tenant.clone(),
            devices: s.devices.iter().filter_map(place).collect(),
            memory: s.memory,
            promised: s.promised,
            part: Part {
                share: s.share,
                priority: s.priority,
            },
            drawn: s.drawn,
            lent: false,
        };
        self.sessions.insert(s.session.clone(), placed);
        self.settle();
    }

    /// Whether nobody has anything.
    pub fn is_unused(&self) -> bool {
        self.sessions.is_empty() && self.leases.is_empty()
    }

    /// All leases; how long each lasts is counted from `now`.
    pub fn all_leases(&self, now: Duration) -> Vec<succession::Lease> {
        let one = |(name, l): (&String, &Lease)| {
            let (memory, share) = match l.claim.want {
                Want::Whole => (0, 0),
                Want::Part { memory, share } => (memory, share),
            };
            succession::Lease {
                name: name.clone(),
                tenant: l.claim.tenant.clone(),
                holder: l.claim.holder.clone(),
                priority: l.claim.priority,
                since: l.claim.since,
                devices: self.ordinals(&l.devices),
                whole: l.whole(),
                memory,
                share,
                seconds_left: l.until.map(|t| t.saturating_sub(now).as_secs()),
                kept: None,
            }
        };
        self.leases.iter().map(one).collect()
    }

    /// Takes over a lease.
    pub fn adopt_lease(&mut self, l: &succession::Lease, now: Duration) {
        let devices: Vec<_> = self
            .leaders()
            .filter(|i| l.devices.contains(&self.places[*i].device.ordinal))
            .collect();
        let want = match l.whole {
            true => Want::Whole,
            false => Want::Part {
                memory: l.memory,
                share: l.share,
            },
        };
        let claim = Claim {
            name: l.name.clone(),
            tenant: l.tenant.clone(),
            holder: l.holder.clone(),
            priority: l.priority,
            since: l.since,
            most: devices.len(),
            devices: devices.clone(),
            want,
        };
        let until = l.seconds_left.map(|s| now + Duration::from_secs(s));
        let lease = Lease {
            claim,
            devices,
            until,
        };
        self.leases.insert(l.name.clone(), lease);
        self.settle();
    }
}
