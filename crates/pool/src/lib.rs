//! Who sees which device: leases and the sessions under them. A pure state machine: no sockets, no
//! clock, no processes. What a session gets, what NVML and `busbar devices` show, and whether
//! `busbar run` may start a program are one answer, given here. What a tenant may have of it the
//! policy says, which is asked here and nowhere else.
//!
//! A **lease** reserves whole devices for the programs of one `busbar run --gpus N`; while it lasts
//! nobody else is placed on them. A **session** without a lease shares every device that no lease
//! holds. What a session or lease holds is free again when it ends.

#![forbid(unsafe_code)]

pub mod quota;
pub mod timeshare;

use busbar_control::device::Device;
use busbar_control::hello::Change;
use busbar_control::hello::Refusal;
use busbar_control::status::{self, Listed};
use busbar_control::{share, size};
use busbar_policy::{Forbidden, Policy, Rates};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
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
    /// On how many devices, if the session is to have a part.
    pub parts: usize,
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
    /// Whose turns its own are among, for each device: a number, and whether it is a processor.
    pub places: Vec<(usize, bool)>,
    /// Its lease, as others see it.
    pub lease: Option<String>,
}

/// What stands for the holder of a lease of another tenant's.
const ANOTHER: &str = "another tenant";

/// Why a request for devices is turned down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The server has no device of the kind at all.
    NoDevice {
        /// The API that was asked for.
        api: String,
    },
    /// There are devices, but not enough of them are free.
    Taken {
        /// How many were asked for.
        wanted: usize,
        /// How many there are.
        all: usize,
        /// How many are free.
        free: usize,
        /// Who holds the others.
        holders: Vec<String>,
    },
    /// The lease named is not held (any more).
    UnknownLease,
    /// The server has as many sessions as it takes.
    TooManySessions(usize),
    /// No device has as much memory that is not promised.
    Full {
        /// What was asked for.
        wanted: u64,
        /// The most that a device has.
        free: u64,
        /// The most that any has without promises.
        all: u64,
    },
    /// No device has as much time that is not promised.
    Late {
        /// What was asked for, in thousandths.
        wanted: Share,
        /// The most that a device has.
        free: Share,
    },
    /// There are not as many devices with such a part.
    Few {
        /// How many were asked for.
        wanted: usize,
        /// How many there are.
        free: usize,
        /// How many there are without promises.
        all: usize,
    },
    /// No session of that name is the asker's.
    NoSession(String),
    /// The tenant may not.
    Forbidden(Forbidden),
}

impl Refused {
    /// Whether the end of a program that is just ending changes it.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Taken { wanted, all, .. } => wanted <= all,
            Self::Full { wanted, all, .. } => wanted <= all,
            Self::Late { .. } => true,
            Self::Few { wanted, all, .. } => wanted <= all,
            Self::Forbidden(f) => f.may_pass(),
            Self::NoDevice { .. }
            | Self::UnknownLease
            | Self::TooManySessions(_)
            | Self::NoSession(_) => false,
        }
    }
}

impl From<Forbidden> for Refused {
    fn from(f: Forbidden) -> Self {
        Self::Forbidden(f)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice { api } if api == "cuda" => {
                write!(
                    f,
                    "the server has no GPU to offer; `busbar devices` shows what it has"
                )
            }
            Self::NoDevice { api } => write!(f, "the server has no {api} device to offer"),
            Self::Taken { wanted, all, .. } if wanted > all => {
                write!(
                    f,
                    "{wanted} GPUs wanted, but the server has {all}; ask for fewer with --gpus"
                )
            }
            Self::Taken {
                wanted,
                free,
                holders,
                ..
            } => {
                let who = if holders.is_empty() {
                    "programs that share them".into()
                } else {
                    holders.join(", ")
                };
                write!(
                    f,
                    "not enough free GPUs: {wanted} wanted, {free} free, the others are held by \
                     {who}; try again later or ask for fewer with --gpus"
                )
            }
            Self::UnknownLease => {
                write!(
                    f,
                    "the lease has ended: start the program through `busbar run` again"
                )
            }
            Self::TooManySessions(n) => {
                write!(
                    f,
                    "the server already has {n} sessions, as many as it takes; try later"
                )
            }
            Self::Full { wanted, free, all } => {
                let then = match wanted > all {
                    true => "as that is all that there is, ask for less with -m (BUSBAR_MEMORY)",
                    false => "ask for less with -m (BUSBAR_MEMORY), or try later",
                };
                write!(
                    f,
                    "{} of device memory wanted, and no device has more than {} that is not \
                     promised to others: {then}",
                    size::show(*wanted),
                    size::show(*free)
                )
            }
            Self::Late { wanted, free } => write!(
                f,
                "{} of a device's time wanted, and no device has more than {} that is not promised \
                 to others: ask for less with -p (BUSBAR_SHARE), or try later",
                share::show(*wanted),
                share::show(*free)
            ),
            Self::Few { wanted, free, all } => {
                let then = match wanted > all {
                    true => "ask for fewer with -n (BUSBAR_PARTS)",
                    false => "ask for fewer with -n (BUSBAR_PARTS) or for less, or try later",
                };
                write!(
                    f,
                    "parts of {wanted} devices wanted, and {free} has or have room for them: {then}"
                )
            }
            Self::NoSession(name) => write!(
                f,
                "there is no session `{name}` that is yours: `busbar ps` lists those that are"
            ),
            Self::Forbidden(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for Refused {}

impl From<Refused> for Refusal {
    fn from(r: Refused) -> Self {
        let code = match r {
            Refused::NoDevice { .. } => "no_device",
            Refused::Taken { .. } => "taken",
            Refused::UnknownLease => "lease",
            Refused::TooManySessions(_) => "limit",
            Refused::Full { .. } => "memory",
            Refused::Late { .. } | Refused::Few { .. } => "share",
            Refused::NoSession(_) => "session",
            Refused::Forbidden(_) => "policy",
        };
        Self::new(code, r.to_string())
    }
}

#[derive(Debug, Clone)]
struct Lease {
    /// Places of the leading API's devices.
    devices: Vec<usize>,
    holder: String,
    tenant: String,
}

#[derive(Debug, Clone)]
struct Placed {
    lease: Option<String>,
    tenant: String,
    /// Places of its devices.
    devices: Vec<usize>,
    /// The most memory that it may have.
    memory: Option<u64>,
    /// Whether that is promised to it, of its one device.
    promised: bool,
    /// What it has of its devices' time.
    part: Part,
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
        Ok(())
    }

    /// Counts that a tenant opens something, if it may do so as often.
    pub fn arrives(&mut self, tenant: &str, now: Duration) -> Result<(), Refused> {
        Ok(self.rates.open(&self.policy, tenant, now)?)
    }

    /// Whether somebody sees what a tenant does.
    pub fn shows(&self, asker: &Asker<'_>, tenant: &str) -> bool {
        asker.tenant == tenant || self.is_admin(asker)
    }

    fn is_admin(&self, asker: &Asker<'_>) -> bool {
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

    /// The lease that holds a device.
    fn held(&self, place: usize) -> Option<&Lease> {
        let leader = self.places[place].leader?;
        self.leases.values().find(|l| l.devices.contains(&leader))
    }

    /// How many sessions use a device.
    fn load(&self, place: usize) -> usize {
        let all = self.sessions.values();
        all.filter(|s| s.devices.contains(&place)).count()
    }

    /// The device memory that a session of somebody's gets at most, if it is not all.
    pub fn part(&self, asker: &Asker<'_>) -> Option<u64> {
        let said = self.policy.memory(asker.tenant, asker.memory);
        said.unwrap_or(asker.memory)
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

    /// What of a device's memory is promised to others than one session.
    fn promised(&self, place: usize, but: &str) -> u64 {
        let all = self.on(place, but).filter(|s| s.promised);
        all.filter_map(|s| s.memory).sum()
    }

    /// What of its time is, in thousandths.
    fn promised_share(&self, place: usize, but: &str) -> Share {
        self.on(place, but).filter_map(|s| s.part.share).sum()
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

    /// Whether nobody has any use of a device, through whatever API.
    fn idle(&self, leader: usize) -> bool {
        let mut same = (0..self.places.len()).filter(|i| self.places[*i].leader == Some(leader));
        self.held(leader).is_none() && same.all(|i| self.load(i) == 0)
    }

    /// Who holds a lease, as somebody sees it.
    fn holder(&self, asker: &Asker<'_>, l: &Lease) -> String {
        match self.shows(asker, &l.tenant) {
            true => l.holder.clone(),
            false => ANOTHER.into(),
        }
    }

    fn holders(&self, asker: &Asker<'_>) -> Vec<String> {
        let of = |l| self.holder(asker, l);
        let mut all: Vec<_> = self.leases.values().map(of).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Reserves `n` devices under the name `lease`: GPUs as CUDA counts them, or OpenCL's devices
    /// where there is no CUDA. Devices that sessions without a lease are using count as taken.
    pub fn lease(
        &mut self,
        lease: &str,
        n: usize,
        holder: &str,
        tenant: &str,
    ) -> Result<Vec<u32>, Refused> {
        if self.leaders().next().is_none() {
            return Err(Refused::NoDevice { api: "cuda".into() });
        }
        let mut devices: Vec<_> = self
            .leaders()
            .filter(|i| self.open_to(tenant, *i))
            .collect();
        let all = devices.len();
        if all == 0 {
            return Err(Policy::sees_none(tenant, "GPU").into());
        }
        let theirs = self.leases.values().filter(|l| l.tenant == tenant);
        let has = theirs.map(|l| l.devices.len()).sum::<usize>();
        self.policy.may_lease(tenant, has as u64, n as u64)?;
        devices.retain(|i| self.idle(*i));
        if devices.len() < n {
            let asker = Asker {
                tenant,
                ..Asker::default()
            };
            return Err(Refused::Taken {
                wanted: n,
                all,
                free: devices.len(),
                holders: self.holders(&asker),
            });
        }
        devices.truncate(n);
        let ordinals = self.ordinals(&devices);
        let (holder, tenant) = (holder.into(), tenant.into());
        let l = Lease {
            devices,
            holder,
            tenant,
        };
        self.leases.insert(lease.into(), l);
        Ok(ordinals)
    }

    /// Ends a lease. Its sessions go on until their programs end, but hold nothing exclusively.
    pub fn end_lease(&mut self, lease: &str) {
        self.leases.remove(lease);
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
            let held = self.leases.get(lease).filter(|l| l.tenant == tenant);
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
        if asker.asks() {
            devices = self.room(&devices, asker, "")?;
        }
        let placed = Placed {
            lease: Some(asker.lease.to_string()).filter(|l| !l.is_empty()),
            tenant: asker.tenant.into(),
            devices,
            memory,
            promised: asker.memory.is_some(),
            part,
        };
        self.sessions.insert(session.into(), placed);
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
        let mut why = None;
        for api in ["cuda", "opencl"] {
            let seen = self.seen(api, asker);
            match seen.and_then(|seen| self.room(&seen, asker, "")) {
                Err(Refused::NoDevice { .. }) => {}
                // Memory is asked of GPUs, where there are some.
                Err(no @ (Refused::Full { .. } | Refused::Late { .. } | Refused::Few { .. })) => {
                    return Some(no);
                }
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
        }
        Ok(self.placed(session))
    }

    /// A session is over.
    pub fn close(&mut self, session: &str) {
        self.sessions.remove(session);
    }

    /// The devices that somebody may see, and how.
    pub fn devices(&self, asker: &Asker<'_>) -> Vec<Listed> {
        let none = self.forbids(asker).is_some();
        let list = |(i, p): (usize, &Place)| Listed {
            device: p.device.clone(),
            used_by: self.load(i),
            promised: self.promised(i, ""),
            promised_share: self.promised_share(i, ""),
            lease: self.held(i).map(|l| self.holder(asker, l)),
            yours: !none
                && self
                    .seen(&p.device.api, asker)
                    .is_ok_and(|s| s.contains(&i)),
        };
        let all = self.places.iter().enumerate();
        let all = all.filter(|(i, _)| self.open_to(asker.tenant, *i) || self.is_admin(asker));
        all.map(list).collect()
    }

    /// Every lease that somebody may see, as others see it.
    pub fn leases(&self, asker: &Asker<'_>) -> Vec<status::Lease> {
        let shown = |(name, l): (&String, &Lease)| status::Lease {
            lease: status::shown(name).into(),
            holder: l.holder.clone(),
            devices: self.ordinals(&l.devices),
        };
        let all = self.leases.iter();
        let all = all.filter(|(_, l)| self.shows(asker, &l.tenant));
        all.map(shown).collect()
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
            part: p.part,
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
