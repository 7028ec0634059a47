//! Who sees which device: leases and the sessions under them. A pure state machine: no sockets, no
//! clock, no processes. What a session gets, what NVML and `busbar devices` show, and whether
//! `busbar run` may start a program are one answer, given here. What a tenant may have of it the
//! policy says, which is asked here and nowhere else.
//!
//! A **lease** reserves whole devices, or parts of them, for programs that name it. Nobody else is
//! placed on a whole one while the lease lasts, and a part is promised to nobody else. A
//! **session** without a lease shares every device that no lease holds. What a session or lease
//! holds is free again when it ends. Leases begin as **claims**, which stand in line ([`queue`]).

#![forbid(unsafe_code)]

pub mod choose;
mod claims;
mod estate;
pub mod gather;
pub mod idle;
mod lease;
pub mod queue;
pub mod quota;
mod refused;
pub mod swap;
pub mod timeshare;

pub use lease::{Ask, Ended, State};

use busbar_control::device::Device;
use busbar_control::hello::Change;
use busbar_control::share;
use busbar_control::status::{self, Listed};
use busbar_policy::{Policy, Rates};
use lease::{Drawn, Lease};
use queue::{Queue, Room, Want};
pub use refused::Refused;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use timeshare::{Part, Share};

/// Whoever asks for something.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asker<'a> {
    /// The tenant; empty where the server asks nobody who they are.
    pub tenant: &'a str,
    /// The lease that is named; empty for none.
    pub lease: &'a str,
    /// What was shown gives a look at all tenants.
    pub admin: bool,
    /// The device memory that a session is to have for itself, of one device.
    pub memory: Option<u64>,
    /// The thousandths of a device's time.
    pub share: Option<Share>,
    /// Who goes first, the higher.
    pub priority: i32,
    /// On how many devices, if the session is to have a part; 0 for one, or for all that its lease
    /// has.
    pub parts: usize,
    /// Its process has a session here: what it asks for is there.
    pub served: bool,
}

impl Asker<'_> {
    /// Whether a part is asked for, of devices of its own choice.
    fn asks(&self) -> bool {
        self.memory.is_some() || self.share.is_some() || self.parts > 1
    }
}

/// What a session gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placing {
    /// Its devices, by ordinal.
    pub devices: Vec<u32>,
    /// The most bytes of their memory.
    pub memory: Option<u64>,
    /// Whether those are promised to it.
    pub promised: bool,
    /// What it has of their time.
    pub part: Part,
    /// The share of it that is promised to it, and others' as long as it does nothing.
    pub lent: Option<Share>,
    /// Whose turns its own are among, for each device: a number, and whether it is a processor.
    pub places: Vec<(usize, bool)>,
    /// Its lease, as others see it.
    pub lease: Option<String>,
}

/// What stands for the holder of a lease of another tenant's.
const ANOTHER: &str = "another tenant";
/// What stands for sessions without a lease.
const SHARERS: &str = "programs that share it";

#[derive(Debug, Clone)]
struct Placed {
    lease: Option<String>,
    tenant: String,
    /// Places of its devices.
    devices: Vec<usize>,
    /// The most memory that it may have.
    memory: Option<u64>,
    /// Whether that is promised to it, of each of its devices.
    promised: bool,
    /// What it has of its devices' time.
    part: Part,
    /// Whether what is promised to it is of what its lease has.
    drawn: bool,
    /// Whether its share is others' meanwhile: it has done nothing for long.
    lent: bool,
}

impl Placed {
    /// What it has of its devices' time now.
    fn part(&self) -> Part {
        Part {
            share: self.part.share.filter(|_| !self.lent),
            ..self.part
        }
    }
}

/// A device of the pool.
#[derive(Debug)]
struct Place {
    device: Device,
    /// The place of the device that is leased for this one: itself, or the same device as the
    /// leading API lists it. A device without one, a CPU beside GPUs, is shared by all.
    leader: Option<usize>,
}

/// The pool of one server.
#[derive(Debug)]
pub struct Pool {
    places: Vec<Place>,
    leases: BTreeMap<String, Lease>,
    queue: Queue,
    /// What those who stand in line can have at the moment, by the names of their leases.
    offers: BTreeMap<String, Vec<usize>>,
    sessions: HashMap<String, Placed>,
    max_sessions: usize,
    policy: Policy,
    rates: Rates,
}

impl Pool {
    /// A pool over those of the devices `found` that are to be offered, by ordinal (`None`: all),
    /// that takes up to `max_sessions` sessions. Devices are numbered as CUDA does, or as OpenCL
    /// does where there is no CUDA: that API leads, and what else reaches a device of it goes with
    /// it. Fails with the number of a device that is to be offered and is not there.
    pub fn new(
        found: Vec<Device>,
        offered: Option<&[u32]>,
        max_sessions: usize,
    ) -> Result<Self, u32> {
        let cuda = found.iter().any(|d| d.api == "cuda");
        let leads = |d: &Device| d.api == if cuda { "cuda" } else { "opencl" };
        let leading: Vec<_> = found.iter().filter(|d| leads(d)).cloned().collect();
        let missing = |o: &&u32| !leading.iter().any(|d| d.ordinal == **o);
        if let Some(bad) = offered.into_iter().flatten().find(missing) {
            return Err(*bad);
        }
        let wanted = |d: &Device| offered.is_none_or(|l| l.contains(&d.ordinal));
        let twin = |d: &Device| {
            leading
                .iter()
                .find(|l| !d.uuid.is_empty() && l.uuid == d.uuid)
        };
        let of = |d: &Device| {
            if leads(d) {
                Some(d.clone())
            } else {
                twin(d).cloned()
            }
        };
        let with_leaders = found.into_iter().map(|d| (of(&d), d));
        let kept: Vec<_> = with_leaders
            .filter(|(leader, _)| leader.as_ref().is_none_or(wanted))
            .collect();
        let place = |leader: &Device| kept.iter().position(|(_, d)| d == leader);
        let places = kept.iter().map(|(leader, d)| Place {
            device: d.clone(),
            leader: leader.as_ref().and_then(place),
        });
        Ok(Self {
            places: places.collect(),
            leases: BTreeMap::new(),
            queue: Queue::default(),
            offers: BTreeMap::new(),
            sessions: HashMap::new(),
            max_sessions,
            policy: Policy::default(),
            rates: Rates::default(),
        })
    }

    /// What tenants may have from now on; what they have already stays theirs. An error names a
    /// device that the policy speaks of and that there is not: the tenant and the number.
    pub fn set_policy(&mut self, policy: Policy) -> Result<(), (String, u32)> {
        let leaders: Vec<_> = self.leaders().collect();
        let numbers = self.ordinals(&leaders);
        let others = std::iter::once(("default", policy.others()));
        for (name, rules) in others.chain(policy.named()) {
            let mut listed = rules.devices.iter().flatten();
            if let Some(bad) = listed.find(|n| !numbers.contains(n)) {
                return Err((name.into(), *bad));
            }
        }
        self.policy = policy;
        self.settle();
        Ok(())
    }

    /// Counts that a tenant opens something, if it may do so as often.
    pub fn arrives(&mut self, tenant: &str, now: Duration) -> Result<(), Refused> {
        Ok(self.rates.open(&self.policy, tenant, now)?)
    }

    /// Whether a tenant's sessions may share their devices densely.
    pub fn may_be_dense(&self, tenant: &str) -> Result<(), Refused> {
        Ok(self.policy.may_be_dense(tenant)?)
    }

    /// How long a session of a tenant's keeps what it is promised while it does nothing.
    pub fn idle_timeout(&self, tenant: &str) -> Option<Duration> {
        self.policy.of(tenant).idle
    }

    /// The RDMA device of a tenant's sessions, if the policy names one.
    pub fn rdma_device(&self, tenant: &str) -> Option<String> {
        self.policy.of(tenant).rdma_device.clone()
    }

    /// Whether a tenant's sessions may be linked to others at another server.
    pub fn may_link(&self, tenant: &str) -> Result<(), Refused> {
        Ok(self.policy.may_link(tenant)?)
    }

    /// Whether somebody sees what a tenant does.
    pub fn shows(&self, asker: &Asker<'_>, tenant: &str) -> bool {
        asker.tenant == tenant || self.is_admin(asker)
    }

    /// Whether somebody sees what all tenants do.
    pub fn is_admin(&self, asker: &Asker<'_>) -> bool {
        asker.admin || self.policy.of(asker.tenant).admin
    }

    /// Whether a tenant may see a device.
    fn open_to(&self, tenant: &str, place: usize) -> bool {
        let p = &self.places[place];
        let number = p.leader.map(|l| self.places[l].device.ordinal);
        self.policy.sees(tenant, number, p.device.kind == "cpu")
    }

    /// Whether there is no device.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether there is a device of an API.
    pub fn has(&self, api: &str) -> bool {
        self.places.iter().any(|p| p.device.api == api)
    }

    /// The UUID of a device of an API, by its ordinal.
    pub fn uuid(&self, api: &str, ordinal: u32) -> Option<&str> {
        let mut all = self.places.iter().map(|p| &p.device);
        let device = all.find(|d| d.api == api && d.ordinal == ordinal);
        device.map(|d| d.uuid.as_str())
    }

    /// The places of the leading API's devices, which are what is leased.
    fn leaders(&self) -> impl Iterator<Item = usize> {
        (0..self.places.len()).filter(|i| self.places[*i].leader == Some(*i))
    }

    fn ordinals(&self, places: &[usize]) -> Vec<u32> {
        places
            .iter()
            .map(|i| self.places[*i].device.ordinal)
            .collect()
    }

    /// Who has a device as a whole, or is about to: the holder and its tenant.
    fn held(&self, place: usize) -> Option<(&str, &str)> {
        let leader = self.places[place].leader?;
        let lease = self
            .leases
            .values()
            .find(|l| l.whole() && l.devices.contains(&leader));
        let lease = lease.map(|l| &l.claim);
        let offered = || {
            let mut all = self.queue.iter().filter(|c| c.want == Want::Whole);
            all.find(|c| {
                let offer = self.offers.get(&c.name);
                offer.is_some_and(|o| o.contains(&leader))
            })
        };
        let claim = lease.or_else(offered)?;
        Some((&claim.holder, &claim.tenant))
    }

    /// How many sessions use a device.
    fn load(&self, place: usize) -> usize {
        let all = self.sessions.values();
        all.filter(|s| s.devices.contains(&place)).count()
    }

    /// The device memory that a session of somebody's gets at most, if it is not all.
    pub fn part(&self, asker: &Asker<'_>) -> Option<u64> {
        let said = self.policy.memory(asker.tenant, asker.memory);
        let lease = self.leases.get(asker.lease).map(|l| l.claim.want);
        let leased = match lease {
            Some(Want::Part { memory, .. }) if memory > 0 => Some(memory),
            _ => None,
        };
        asker.memory.or(leased).or(said.unwrap_or(None))
    }

    /// The sessions on a device, through whatever API, but for one.
    fn on<'a>(&'a self, place: usize, but: &'a str) -> impl Iterator<Item = &'a Placed> {
        let of = self.clock(place);
        let others = self.sessions.iter().filter(move |(name, _)| *name != but);
        let all = others.map(|(_, s)| s);
        all.filter(move |s| s.devices.iter().any(|p| self.clock(*p) == of))
    }

    /// The number of the device whose time is a device's, however it is reached.
    fn clock(&self, place: usize) -> usize {
        self.places[place].leader.unwrap_or(place)
    }

    /// Whether what a session has is counted with its lease, which has as much or more.
    fn counted(&self, s: &Placed) -> bool {
        let lease = s.lease.as_ref();
        s.drawn && lease.is_some_and(|l| self.leases.contains_key(l))
    }

    /// What a lease keeps from others: its share is theirs while all of its sessions are idle.
    fn kept(&self, name: &str, lease: &Lease) -> Want {
        let drawn = self.sessions.values();
        let mut drawn = drawn.filter(|s| s.drawn && s.lease.as_deref() == Some(name));
        let (some, lent) = (drawn.clone().next().is_some(), drawn.all(|s| s.lent));
        match lease.claim.want {
            Want::Part { memory, .. } if some && lent => Want::Part { memory, share: 0 },
            want => want,
        }
    }

    /// The parts of a device that leases have, and those that are on offer.
    fn parts(&self, place: usize) -> impl Iterator<Item = (u64, Share)> {
        let of = self.clock(place);
        let leases = self.leases.iter();
        let leases = leases.filter(move |(_, l)| l.devices.contains(&of));
        let offers = self.queue.iter().filter(move |c| {
            let offer = self.offers.get(&c.name);
            offer.is_some_and(|o| o.contains(&of))
        });
        let leases = leases.map(|(name, l)| self.kept(name, l));
        let all = leases.chain(offers.map(|c| c.want));
        all.filter_map(|want| match want {
            Want::Part { memory, share } => Some((memory, share)),
            Want::Whole => None,
        })
    }

    /// What of a device's memory is promised to others than one session.
    fn promised(&self, place: usize, but: &str) -> u64 {
        let all = self.on(place, but);
        let all = all.filter(|s| s.promised && !self.counted(s));
        let own: u64 = all.filter_map(|s| s.memory).sum();
        own + self.parts(place).map(|(memory, _)| memory).sum::<u64>()
    }

    /// What of its time is, in thousandths.
    fn promised_share(&self, place: usize, but: &str) -> Share {
        let all = self.on(place, but).filter(|s| !self.counted(s));
        let own: Share = all.filter_map(|s| s.part().share).sum();
        own + self.parts(place).map(|(_, share)| share).sum::<Share>()
    }

    /// The first of these devices that have as much to promise as somebody asks for, beside what
    /// others than one session have.
    fn room(&self, devices: &[usize], asker: &Asker<'_>, but: &str) -> Result<Vec<usize>, Refused> {
        let (wanted, time) = (asker.memory.unwrap_or(0), asker.share.unwrap_or(0));
        let all = |p: usize| self.places[p].device.memory;
        let free = |p: usize| all(p).saturating_sub(self.promised(p, but));
        let left = |p: usize| share::WHOLE.saturating_sub(self.promised_share(p, but));
        let (mut fits, parts) = (devices.to_vec(), asker.parts.max(1));
        fits.retain(|p| free(*p) >= wanted);
        if fits.is_empty() {
            return Err(Refused::Full {
                wanted,
                free: devices.iter().map(|p| free(*p)).max().unwrap_or(0),
                all: devices.iter().map(|p| all(*p)).max().unwrap_or(0),
            });
        }
        let most = fits.iter().map(|p| left(*p)).max().unwrap_or(0);
        fits.retain(|p| left(*p) >= time);
        if fits.is_empty() {
            return Err(Refused::Late {
                wanted: time,
                free: most,
            });
        }
        if fits.len() < parts {
            return Err(Refused::Few {
                wanted: parts,
                free: fits.len(),
                all: devices.len(),
            });
        }
        fits.truncate(parts);
        Ok(fits)
    }

    /// What somebody asks for that a lease has not got left: on as many devices as that has.
    fn beside<'a>(&self, devices: &[usize], asker: &Asker<'a>) -> Asker<'a> {
        let leased = self.leases.contains_key(asker.lease) && asker.memory.is_none();
        Asker {
            parts: if leased { devices.len() } else { asker.parts },
            ..*asker
        }
    }

    /// Whether sessions use a device, through whatever API.
    fn used(&self, leader: usize) -> bool {
        let mut same = (0..self.places.len()).filter(|i| self.places[*i].leader == Some(leader));
        same.any(|i| self.load(i) > 0)
    }

    /// A name, as somebody sees it.
    fn named(&self, asker: &Asker<'_>, holder: &str, tenant: &str) -> String {
        match self.shows(asker, tenant) {
            true => holder.into(),
            false => ANOTHER.into(),
        }
    }

    fn holders(&self, asker: &Asker<'_>) -> Vec<String> {
        let leases = self.leases.values().map(|l| &l.claim);
        let offered = self.queue.iter();
        let offered = offered.filter(|c| self.offers.contains_key(&c.name));
        let all = leases.chain(offered);
        let mut all: Vec<_> = all
            .map(|c| self.named(asker, &c.holder, &c.tenant))
            .collect();
        all.sort();
        all.dedup();
        all
    }

    /// What of each device, by place, nobody has yet; offers are not counted.
    fn rooms(&self) -> Vec<Room> {
        let room = |i: usize| {
            if self.places[i].leader != Some(i) {
                return Room::default();
            }
            let leases = self.leases.iter();
            let leases: Vec<_> = leases.filter(|(_, l)| l.devices.contains(&i)).collect();
            let sessions = self.on(i, "").filter(|s| !self.counted(s));
            let (mut memory, mut share) = (0, 0);
            for s in sessions {
                memory += s.memory.filter(|_| s.promised).unwrap_or(0);
                share += s.part().share.unwrap_or(0);
            }
            let mut room = Room::of(self.places[i].device.memory);
            room.take(&Want::Part { memory, share });
            for (name, l) in &leases {
                room.take(&self.kept(name, l));
            }
            room.idle = leases.is_empty() && !self.used(i);
            room
        };
        (0..self.places.len()).map(room).collect()
    }

    /// Makes new offers to those who stand in line: something has changed.
    fn settle(&mut self) {
        self.offers = match self.queue.is_empty() {
            true => BTreeMap::new(),
            false => self.queue.offers(&mut self.rooms()),
        };
    }

    /// The devices of an API that somebody sees.
    fn seen(&self, api: &str, asker: &Asker<'_>) -> Result<Vec<usize>, Refused> {
        let of_api = |i: &usize| self.places[*i].device.api == api;
        let all: Vec<_> = (0..self.places.len()).filter(of_api).collect();
        if all.is_empty() {
            return Err(Refused::NoDevice { api: api.into() });
        }
        let Asker { tenant, lease, .. } = *asker;
        self.policy.may_use(tenant, api)?;
        let all: Vec<_> = all
            .into_iter()
            .filter(|i| self.open_to(tenant, *i))
            .collect();
        if all.is_empty() {
            return Err(Policy::sees_none(tenant, api).into());
        }
        if !lease.is_empty() {
            // A lease is good for those of the tenant who has it.
            let held = self.leases.get(lease);
            let held = held.filter(|l| l.claim.tenant == tenant);
            let held = &held.ok_or(Refused::UnknownLease)?.devices;
            let ours = |i: &usize| self.places[*i].leader.is_some_and(|l| held.contains(&l));
            let ours: Vec<_> = all.iter().copied().filter(ours).collect();
            if !ours.is_empty() {
                return Ok(ours);
            }
        }
        let open = all.iter().copied().filter(|i| self.held(*i).is_none());
        let open: Vec<_> = open.collect();
        match open.is_empty() {
            false => Ok(open),
            true => Err(Refused::Taken {
                wanted: 1,
                all: all.len(),
                free: 0,
                holders: self.holders(asker),
            }),
        }
    }

    /// What a session gets of what its lease has: what others of it have left of each device, or of
    /// as many as it asks for, of which most is left. Nothing where the lease has no part, or where
    /// the session asks for more than is left, which has to be found beside the lease.
    fn draw(&self, seen: &[usize], asker: &Asker<'_>) -> Result<Option<Drawn>, Refused> {
        let lease = self.leases.get(asker.lease);
        let Some((lease, Want::Part { memory, share })) = lease.map(|l| (l, l.claim.want)) else {
            return Ok(None);
        };
        let ours = seen.iter().copied();
        let ours: Vec<_> = ours
            .filter(|d| lease.devices.contains(&self.clock(*d)))
            .collect();
        if ours.is_empty() || (memory, share) == (0, 0) {
            return Ok(None);
        }
        let left = |d: usize| {
            let drawn = self.on(d, "").filter(|s| {
                let same = s.lease.as_deref() == Some(asker.lease);
                s.drawn && same
            });
            let (mut m, mut t) = (memory, share);
            for s in drawn {
                m = m.saturating_sub(s.memory.filter(|_| s.promised).unwrap_or(0));
                t = t.saturating_sub(s.part.share.unwrap_or(0));
            }
            (m, t)
        };
        let fits = |(m, t): (u64, Share)| {
            let some = memory == 0 || m > 0;
            some && m >= asker.memory.unwrap_or(0) && t >= asker.share.unwrap_or(0)
        };
        let mut devices: Vec<_> = ours.into_iter().filter(|d| fits(left(*d))).collect();
        devices.sort_by_key(|d| std::cmp::Reverse(left(*d)));
        if asker.parts > 0 {
            devices.truncate(asker.parts);
        }
        let least = |of: fn((u64, Share)) -> u64| devices.iter().map(|d| of(left(*d))).min();
        let Some(all) = least(|l| l.0) else {
            return match asker.memory {
                None if memory > 0 => Err(Refused::Drawn(memory)),
                _ => Ok(None),
            };
        };
        let share = asker.share.or(least(|l| l.1.into()).map(|n| n as Share));
        let memory = Some(asker.memory.unwrap_or(all)).filter(|n| *n > 0);
        // What the tenant may have is of all devices of a session together.
        if let (Some(each), Ok(Some(most))) = (memory, self.policy.memory(asker.tenant, None)) {
            devices.truncate((most / each).max(1) as usize);
        }
        devices.sort_unstable();
        Ok(Some(Drawn {
            devices,
            memory,
            share: share.filter(|n| *n > 0),
        }))
    }

    /// Places a new session and says what it gets.
    pub fn open(
        &mut self,
        session: &str,
        api: &str,
        asker: &Asker<'_>,
    ) -> Result<Placing, Refused> {
        if self.sessions.len() >= self.max_sessions {
            return Err(Refused::TooManySessions(self.max_sessions));
        }
        let mut devices = self.seen(api, asker)?;
        let theirs = self.sessions.values().filter(|s| s.tenant == asker.tenant);
        self.policy.may_open(asker.tenant, theirs.count() as u64)?;
        let memory = self.policy.memory(asker.tenant, asker.memory)?;
        let part = Part {
            share: asker.share,
            priority: asker.priority,
        };
        self.policy.time(asker.tenant, part.share, part.priority)?;
        let drawn = self.draw(&devices, asker)?;
        let placed = match drawn {
            Some(of) => Placed {
                lease: None,
                tenant: asker.tenant.into(),
                memory: of.memory.or(memory),
                promised: of.memory.is_some(),
                part: Part {
                    share: of.share,
                    ..part
                },
                devices: of.devices,
                drawn: true,
                lent: false,
            },
            None => {
                if asker.asks() {
                    devices = self.room(&devices, &self.beside(&devices, asker), "")?;
                }
                Placed {
                    lease: None,
                    tenant: asker.tenant.into(),
                    devices,
                    memory,
                    promised: asker.memory.is_some(),
                    part,
                    drawn: false,
                    lent: false,
                }
            }
        };
        let lease = Some(asker.lease.to_string()).filter(|l| !l.is_empty());
        self.sessions
            .insert(session.into(), Placed { lease, ..placed });
        self.settle();
        Ok(self.placed(session))
    }

    /// What keeps somebody from every session, but for leases: the policy, or memory that is
    /// promised.
    pub fn forbids(&self, asker: &Asker<'_>) -> Option<Refused> {
        let may = self.policy.may_open(asker.tenant, 0);
        let memory = || self.policy.memory(asker.tenant, asker.memory);
        let time = |_| {
            let Asker {
                tenant,
                share,
                priority,
                ..
            } = *asker;
            self.policy.time(tenant, share, priority)
        };
        if let Err(no) = may.and_then(|()| memory()).and_then(time) {
            return Some(no.into());
        }
        if asker.served {
            return None;
        }
        let mut why = None;
        for api in ["cuda", "opencl"] {
            let seen = self.seen(api, asker);
            let room = |seen: Vec<usize>| match self.draw(&seen, asker)? {
                Some(drawn) => Ok(drawn.devices),
                None => self.room(&seen, &self.beside(&seen, asker), ""),
            };
            match seen.and_then(room) {
                Err(Refused::NoDevice { .. }) => {}
                // Memory is asked of GPUs, where there are some.
                Err(
                    no @ (Refused::Full { .. }
                    | Refused::Late { .. }
                    | Refused::Few { .. }
                    | Refused::Drawn(_)),
                ) => return Some(no),
                Err(no @ Refused::Forbidden(_)) => why = why.or(Some(no)),
                _ => return None,
            }
        }
        why
    }

    /// Changes what a running session has, and says what that is.
    pub fn set(
        &mut self,
        session: &str,
        asker: &Asker<'_>,
        change: Change,
    ) -> Result<Placing, Refused> {
        let unknown = || Refused::NoSession(session.into());
        let p = self.sessions.get(session).ok_or_else(unknown)?;
        if !self.shows(asker, &p.tenant) {
            return Err(unknown());
        }
        let part = Part {
            share: match change.share {
                None => p.part.share,
                said => said.filter(|n| *n > 0),
            },
            priority: change.priority.unwrap_or(p.part.priority),
        };
        let memory = match change.memory {
            None => p.memory.filter(|_| p.promised),
            said => said.filter(|n| *n > 0),
        };
        let most = self.policy.memory(&p.tenant, memory)?;
        self.policy.time(&p.tenant, part.share, part.priority)?;
        let wanted = Asker {
            memory,
            share: part.share,
            parts: p.devices.len(),
            ..Asker::default()
        };
        // A promise is one of certain devices.
        if memory.is_some() || part.share.is_some() {
            self.room(&p.devices, &wanted, session)?;
        }
        if let Some(p) = self.sessions.get_mut(session) {
            (p.part, p.memory, p.promised) = (part, most, memory.is_some());
            // From now on it has what it has by itself.
            (p.drawn, p.lent) = (false, false);
        }
        self.settle();
        Ok(self.placed(session))
    }

    /// A session has done nothing for long, and its share is others' from now on; or it works
    /// again, and has its share back as soon as there is room. Whether anything changes.
    pub fn lend(&mut self, session: &str, idle: bool) -> bool {
        let Some(p) = self.sessions.get_mut(session) else {
            return false;
        };
        if p.part.share.is_none() || p.lent == idle {
            return false;
        }
        p.lent = idle;
        let devices = p.devices.clone();
        let fits = |d: &usize| self.promised_share(*d, "") <= share::WHOLE;
        let fits = idle || devices.iter().all(fits);
        if let Some(p) = self.sessions.get_mut(session).filter(|_| !fits) {
            p.lent = true;
        }
        self.settle();
        fits
    }

    /// A session is over.
    pub fn close(&mut self, session: &str) {
        self.sessions.remove(session);
        self.settle();
    }

    /// The devices that somebody may see, and how.
    pub fn devices(&self, asker: &Asker<'_>) -> Vec<Listed> {
        let none = self.forbids(asker).is_some();
        let list = |(i, p): (usize, &Place)| Listed {
            device: p.device.clone(),
            used_by: self.load(i),
            promised: self.promised(i, ""),
            promised_share: self.promised_share(i, ""),
            lease: self
                .held(i)
                .map(|(holder, tenant)| self.named(asker, holder, tenant)),
            yours: !none
                && self
                    .seen(&p.device.api, asker)
                    .is_ok_and(|s| s.contains(&i)),
        };
        let all = self.places.iter().enumerate();
        let all = all.filter(|(i, _)| self.open_to(asker.tenant, *i) || self.is_admin(asker));
        all.map(list).collect()
    }

    /// What a session got.
    pub fn placed(&self, session: &str) -> Placing {
        let Some(p) = self.sessions.get(session) else {
            return Placing::default();
        };
        let lease = p.lease.as_deref().map(status::shown);
        Placing {
            devices: self.ordinals(&p.devices),
            memory: p.memory,
            promised: p.promised,
            part: p.part(),
            lent: p.part.share.filter(|_| p.lent),
            places: p
                .devices
                .iter()
                .map(|d| (self.clock(*d), self.places[*d].device.kind == "cpu"))
                .collect(),
            lease: lease.map(String::from),
        }
    }
}

#[cfg(test)]
mod tests;
