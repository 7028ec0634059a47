//! Leases from their beginning to their end: somebody stands in line for devices, is offered some,
//! takes them, and has them until the end of whoever has them, a time, or a word.

use crate::lease::{Ask, Ended, Lease, State};
use crate::queue::{Claim, Standing, Want};
use crate::{Asker, Pool, Refused};
use busbar_control::status;
use busbar_policy::Policy;
use std::time::Duration;

/// The most leases: one that is kept needs nobody who is there, and each costs all that is asked of
/// the pool a little.
const MOST: usize = 1024;
/// How many of those who stand in line are shown at a time.
const SHOWN: usize = 100;
/// And how many names of those for whom one of them waits.
const NAMED: usize = 8;

impl Pool {
    /// How many devices a tenant's leases have.
    fn reserved(&self, tenant: &str) -> u64 {
        let theirs = self.leases.values().filter(|l| l.claim.tenant == tenant);
        theirs.map(|l| l.devices.len() as u64).sum()
    }

    /// Somebody stands in line for devices. What cannot be had whatever others do is refused.
    pub fn stand(&mut self, asker: &Asker<'_>, ask: &Ask<'_>) -> Result<(), Refused> {
        let tenant = asker.tenant;
        if self.leases.contains_key(ask.name) || self.queue.find(ask.name).is_some() {
            return Err(Refused::NameTaken);
        }
        let Some(leader) = self.leaders().next() else {
            return Err(Refused::NoDevice { api: "cuda".into() });
        };
        self.policy
            .may_use(tenant, &self.places[leader].device.api)?;
        let seen: Vec<_> = self
            .leaders()
            .filter(|i| self.open_to(tenant, *i))
            .collect();
        if seen.is_empty() {
            return Err(Policy::sees_none(tenant, "GPU").into());
        }
        let has = self.reserved(tenant);
        self.policy.may_lease(tenant, has, ask.least as u64)?;
        let mut devices = seen;
        if !ask.devices.is_empty() {
            let at = |i: &usize| {
                let ordinal = self.places[*i].device.ordinal;
                ask.devices.iter().position(|d| *d == ordinal)
            };
            devices.retain(|i| at(i).is_some());
            devices.sort_by_key(at);
        }
        if let Want::Part { memory, share } = ask.want {
            let asked = |n| Some(n).filter(|n| *n > 0);
            self.policy.memory(tenant, asked(memory))?;
            let share = Some(share).filter(|n| *n > 0);
            self.policy.time(tenant, share, asker.priority)?;
            let most = devices.iter().map(|i| self.places[*i].device.memory).max();
            devices.retain(|i| self.places[*i].device.memory >= memory);
            if devices.is_empty() {
                let all = most.unwrap_or(0);
                return Err(Refused::Full {
                    wanted: memory,
                    free: all,
                    all,
                });
            }
        } else {
            self.policy.time(tenant, None, asker.priority)?;
        }
        if devices.len() < ask.least {
            return Err(Refused::Taken {
                wanted: ask.least,
                all: devices.len(),
                free: 0,
                holders: Vec::new(),
            });
        }
        self.queue.join(Claim {
            name: ask.name.into(),
            tenant: tenant.into(),
            holder: ask.holder.into(),
            priority: asker.priority,
            since: ask.since,
            devices,
            most: ask.most,
            want: ask.want,
        });
        self.settle();
        Ok(())
    }

    /// Whether there is a lease of that name.
    pub fn has_lease(&self, name: &str) -> bool {
        self.leases.contains_key(name)
    }

    /// How it stands with a lease, as its own tenant sees it.
    pub fn state(&self, name: &str) -> State {
        if let Some(l) = self.leases.get(name) {
            return State::Has(self.ordinals(&l.devices));
        }
        let Some((place, claim)) = self.queue.find(name) else {
            return State::Over;
        };
        let asker = Asker {
            tenant: &claim.tenant,
            ..Asker::default()
        };
        let offer = self.offers.get(name);
        let ahead = self.queue.ahead(place);
        let ahead = ahead.map(|c| self.named(&asker, &c.holder, &c.tenant));
        State::Waits(Standing {
            offer: offer.map(|o| self.ordinals(o)).unwrap_or_default(),
            place,
            ahead: ahead.collect(),
            holders: self.in_the_way(claim, &asker),
        })
    }

    /// Who has what a claim waits for.
    fn in_the_way(&self, claim: &Claim, asker: &Asker<'_>) -> Vec<String> {
        let offered = self.offers.get(&claim.name);
        let missing = claim.devices.iter();
        let missing = missing.filter(|d| offered.is_none_or(|o| !o.contains(d)));
        let mut all = Vec::new();
        for d in missing {
            let leases = self.leases.values().filter(|l| l.devices.contains(d));
            all.extend(leases.map(|l| {
                let of = &l.claim;
                self.named(asker, &of.holder, &of.tenant)
            }));
            // They are known to whoever looks after sessions.
            if self.on(*d, "").any(|s| s.lease.is_none()) {
                all.push(super::SHARERS.into());
            }
        }
        all.sort();
        all.dedup();
        all
    }

    /// Who stands in line gives it up.
    pub fn leave(&mut self, name: &str) {
        if self.queue.leave(name).is_some() {
            self.settle();
        }
    }

    /// Takes devices that are on offer: the lease begins. Where they are on offer no more, it is
    /// said what is, and nothing has changed.
    pub fn take(&mut self, name: &str, ordinals: &[u32]) -> Result<State, Refused> {
        let Some((_, claim)) = self.queue.find(name) else {
            return Ok(self.state(name));
        };
        let offer = self.offers.get(name).cloned().unwrap_or_default();
        let all = ordinals.iter().map(|n| {
            let mut offered = offer.iter().copied();
            offered.find(|d| self.places[*d].device.ordinal == *n)
        });
        let Some(mut devices) = all.collect::<Option<Vec<usize>>>() else {
            return Ok(self.state(name));
        };
        devices.sort_unstable();
        devices.dedup();
        if devices.is_empty() {
            return Ok(self.state(name));
        }
        if self.leases.len() >= MOST {
            return Err(Refused::TooManyLeases(MOST));
        }
        let has = self.reserved(&claim.tenant);
        self.policy
            .may_lease(&claim.tenant, has, devices.len() as u64)?;
        if let Some(claim) = self.queue.leave(name) {
            let lease = Lease {
                claim,
                devices,
                until: None,
            };
            self.leases.insert(name.into(), lease);
        }
        self.settle();
        Ok(self.state(name))
    }

    /// Gives devices back and stands in line again, where it was.
    pub fn give_back(&mut self, name: &str) -> State {
        if let Some(l) = self.leases.remove(name) {
            self.queue.join(l.claim);
            self.settle();
        }
        self.state(name)
    }

    /// From now on a lease lasts until then, whoever is there; or as long as its sessions.
    pub fn keep(&mut self, name: &str, until: Duration) -> State {
        if let Some(l) = self.leases.get_mut(name) {
            l.until = Some(until);
        }
        self.state(name)
    }

    /// Ends a lease, or gives up a claim. Its sessions go on until their programs end, and keep
    /// what is promised to them, but hold nothing exclusively.
    pub fn end_lease(&mut self, name: &str) -> Option<Ended> {
        self.queue.leave(name);
        let ended = self.leases.remove(name).map(|l| Ended {
            name: name.into(),
            devices: self.ordinals(&l.devices),
            holder: l.claim.holder,
        });
        self.settle();
        ended
    }

    /// Ends the leases whose time is over and that have no session.
    pub fn expire(&mut self, now: Duration) -> Vec<Ended> {
        let late = |l: &Lease| l.until.is_some_and(|t| t <= now);
        let over = self.leases.iter().filter(|(_, l)| late(l));
        let over = over.filter(|(name, _)| self.sessions_of(name) == 0);
        let over: Vec<_> = over.map(|(name, _)| name.clone()).collect();
        over.iter().filter_map(|n| self.end_lease(n)).collect()
    }

    /// Ends a lease by its name or the beginning of it that is shown; an empty one stands for all
    /// of the asker's own.
    pub fn release(&mut self, asker: &Asker<'_>, name: &str) -> Result<Vec<Ended>, Refused> {
        let all = self.leases.iter();
        let meant: Vec<_> = all
            .filter(|(n, l)| match name {
                "" => l.claim.tenant == asker.tenant,
                _ => {
                    let named = *n == name || status::shown(n) == name;
                    named && self.shows(asker, &l.claim.tenant)
                }
            })
            .map(|(n, _)| n.clone())
            .collect();
        if meant.is_empty() && !name.is_empty() {
            return Err(Refused::NoLease(status::shown(name).into()));
        }
        Ok(meant.iter().filter_map(|n| self.end_lease(n)).collect())
    }

    fn sessions_of(&self, lease: &str) -> usize {
        let all = self.sessions.values();
        all.filter(|s| s.lease.as_deref() == Some(lease)).count()
    }

    /// Those who stand in line that somebody may see, the first first, and how many more there are.
    pub fn waiting(&self, asker: &Asker<'_>) -> (Vec<status::Waiting>, usize) {
        let all = self.queue.iter().enumerate();
        let all: Vec<_> = all.filter(|(_, c)| self.shows(asker, &c.tenant)).collect();
        let few = |names: Vec<String>| names.into_iter().take(NAMED).collect();
        let shown = |(at, c): (usize, &Claim)| {
            let (memory, share) = c.want.part();
            let ahead = self.queue.ahead(at + 1).take(NAMED);
            let offer = self.offers.get(&c.name);
            status::Waiting {
                lease: status::shown(&c.name).into(),
                holder: c.holder.clone(),
                tenant: c.tenant.clone(),
                place: at + 1,
                priority: c.priority,
                since: c.since,
                devices: self.ordinals(&c.devices),
                wanted: c.most,
                whole: c.want == Want::Whole,
                memory,
                share,
                offer: offer.map(|o| self.ordinals(o)).unwrap_or_default(),
                ahead: ahead
                    .map(|c| self.named(asker, &c.holder, &c.tenant))
                    .collect(),
                holders: few(self.in_the_way(c, asker)),
            }
        };
        let left = all.len().saturating_sub(SHOWN);
        (all.into_iter().take(SHOWN).map(shown).collect(), left)
    }

    /// Every lease that somebody may see, as others see it.
    pub fn leases(&self, asker: &Asker<'_>, now: Duration) -> Vec<status::Lease> {
        let shown = |(name, l): (&String, &Lease)| {
            let (memory, share) = l.claim.want.part();
            status::Lease {
                lease: status::shown(name).into(),
                holder: l.claim.holder.clone(),
                tenant: l.claim.tenant.clone(),
                devices: self.ordinals(&l.devices),
                whole: l.whole(),
                memory,
                share,
                sessions: self.sessions_of(name),
                seconds_left: l.until.map(|t| t.saturating_sub(now).as_secs()),
                until: l.until.map(|t| t.as_secs()),
                yours: name == asker.lease,
            }
        };
        let all = self.leases.iter();
        let all = all.filter(|(_, l)| self.shows(asker, &l.claim.tenant));
        all.map(shown).collect()
    }
}
