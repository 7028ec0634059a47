//! Who sees which device: leases and the sessions under them. A pure state machine: no sockets, no
//! clock, no processes. What a session gets, what NVML and `busbar devices` show, and whether
//! `busbar run` may start a program are one answer, given here. What a tenant may have of it the
//! policy says, which is asked here and nowhere else.
//!
//! A **lease** reserves whole devices for the programs of one `busbar run --gpus N`; while it lasts
//! nobody else is placed on them. A **session** without a lease shares every device that no lease
//! holds. What a session or lease holds is free again when it ends.

#![forbid(unsafe_code)]

use busbar_control::device::Device;
use busbar_control::hello::Refusal;
use busbar_control::status::{self, Listed};
use busbar_policy::{Forbidden, Policy, Rates};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

/// Whoever asks for something.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asker<'a> {
    /// The tenant; empty where the server asks nobody who they are.
    pub tenant: &'a str,
    /// The lease that is named; empty for none.
    pub lease: &'a str,
    /// What was shown gives a look at all tenants.
    pub admin: bool,
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
    /// The tenant may not.
    Forbidden(Forbidden),
}

impl Refused {
    /// Whether the end of a program that is just ending changes it.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Taken { wanted, all, .. } => wanted <= all,
            Self::Forbidden(f) => f.may_pass(),
            Self::NoDevice { .. } | Self::UnknownLease | Self::TooManySessions(_) => false,
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

    /// Places a new session and says which devices it may use.
    pub fn open(
        &mut self,
        session: &str,
        api: &str,
        asker: &Asker<'_>,
    ) -> Result<Vec<u32>, Refused> {
        if self.sessions.len() >= self.max_sessions {
            return Err(Refused::TooManySessions(self.max_sessions));
        }
        let devices = self.seen(api, asker)?;
        let theirs = self.sessions.values().filter(|s| s.tenant == asker.tenant);
        self.policy.may_open(asker.tenant, theirs.count() as u64)?;
        let ordinals = self.ordinals(&devices);
        let placed = Placed {
            lease: Some(asker.lease.to_string()).filter(|l| !l.is_empty()),
            tenant: asker.tenant.into(),
            devices,
        };
        self.sessions.insert(session.into(), placed);
        Ok(ordinals)
    }

    /// What the policy has against every session that somebody could open, if it has.
    pub fn forbids(&self, asker: &Asker<'_>) -> Option<Forbidden> {
        let none = self.policy.may_open(asker.tenant, 0).err();
        if none.is_some() {
            return none;
        }
        let mut why = None;
        for api in ["cuda", "opencl"] {
            match self.seen(api, asker) {
                Err(Refused::NoDevice { .. }) => {}
                Err(Refused::Forbidden(f)) => why = why.or(Some(f)),
                _ => return None,
            }
        }
        why
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

    /// The devices of a session, and its lease as others see it.
    pub fn placed(&self, session: &str) -> (Vec<u32>, Option<String>) {
        let Some(p) = self.sessions.get(session) else {
            return (Vec::new(), None);
        };
        let lease = p.lease.as_deref().map(status::shown);
        (self.ordinals(&p.devices), lease.map(String::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(api: &str, ordinal: u32, uuid: &str) -> Device {
        Device {
            api: api.into(),
            ordinal,
            uuid: uuid.into(),
            ..Device::default()
        }
    }

    fn pool(n: u32) -> Pool {
        let all = (0..n).map(|i| device("cuda", i, ""));
        Pool::new(all.collect(), None, 100).unwrap()
    }

    fn of(lease: &str) -> Asker<'_> {
        Asker {
            lease,
            ..Asker::default()
        }
    }

    fn tenant(tenant: &str) -> Asker<'_> {
        Asker {
            tenant,
            ..Asker::default()
        }
    }

    /// The devices that are a lease's, as every command and library shows them.
    fn yours(p: &Pool, api: &str, lease: &str) -> Vec<u32> {
        let listed = p.devices(&of(lease)).into_iter();
        let ours = listed.filter(|l| l.yours && l.device.api == api);
        ours.map(|l| l.device.ordinal).collect()
    }

    #[test]
    fn a_lease_is_exclusive_until_it_ends() {
        let mut p = pool(2);
        assert_eq!(p.lease("a", 1, "ann", "").unwrap(), [0]);
        assert_eq!(p.open("s1", "cuda", &of("")).unwrap(), [1]);
        assert_eq!(p.open("s2", "cuda", &of("a")).unwrap(), [0]);
        let e = p.lease("b", 1, "bob", "").unwrap_err();
        assert_eq!(
            e,
            Refused::Taken {
                wanted: 1,
                all: 2,
                free: 0,
                holders: vec!["ann".into()]
            }
        );
        p.close("s1");
        assert_eq!(p.lease("b", 1, "bob", "").unwrap(), [1]);
        assert!(matches!(
            p.open("s3", "cuda", &of("")),
            Err(Refused::Taken { .. })
        ));
        p.end_lease("a");
        assert_eq!(p.open("s3", "cuda", &of("a")), Err(Refused::UnknownLease));
        assert_eq!(p.open("s3", "cuda", &of("")).unwrap(), [0]);
    }

    #[test]
    fn what_is_not_there_is_said() {
        let mut p = pool(0);
        assert!(matches!(
            p.open("s", "cuda", &of("")),
            Err(Refused::NoDevice { .. })
        ));
        assert!(matches!(
            p.lease("l", 1, "x", ""),
            Err(Refused::NoDevice { .. })
        ));
        let mut p = Pool::new(vec![device("opencl", 0, "")], None, 1).unwrap();
        p.lease("l", 1, "x", "").unwrap();
        assert!(matches!(
            p.open("s", "opencl", &of("")),
            Err(Refused::Taken { .. })
        ));
        p.end_lease("l");
        p.open("s", "opencl", &of("")).unwrap();
        assert_eq!(
            p.open("t", "opencl", &of("")),
            Err(Refused::TooManySessions(1))
        );
        p.close("s");
        assert!(p.sessions.is_empty());
    }

    /// Two GPUs, which OpenCL counts the other way round, behind a CPU that CUDA does not know.
    fn twins() -> Vec<Device> {
        vec![
            device("cuda", 0, "x"),
            device("cuda", 1, "y"),
            device("opencl", 0, ""),
            device("opencl", 1, "y"),
            device("opencl", 2, "x"),
        ]
    }

    #[test]
    fn what_two_apis_reach_is_leased_for_both() {
        let mut p = Pool::new(twins(), None, 100).unwrap();
        assert_eq!(p.lease("a", 1, "ann", "").unwrap(), [0]);
        assert_eq!(p.open("s1", "opencl", &of("a")).unwrap(), [2]);
        assert_eq!(p.open("s2", "opencl", &of("")).unwrap(), [0, 1]);
        let listed = p.devices(&of(""));
        assert_eq!(listed[4].lease.as_deref(), Some("ann"));
        assert_eq!(listed[3].used_by, 1);
        assert_eq!(p.leases(&of(""))[0].devices, [0]);
        assert_eq!(p.placed("s1"), (vec![2], Some("a".into())));
        // Somebody uses the other GPU through OpenCL.
        assert!(matches!(
            p.lease("b", 1, "bob", ""),
            Err(Refused::Taken { .. })
        ));
        p.close("s2");
        assert_eq!(p.lease("b", 1, "bob", "").unwrap(), [1]);
        assert_eq!(p.open("s3", "opencl", &of("")).unwrap(), [0]);
        assert_eq!(
            p.open("s4", "opencl", &of("gone")),
            Err(Refused::UnknownLease)
        );
    }

    #[test]
    fn only_what_is_offered_is_there() {
        let p = Pool::new(twins(), Some(&[1]), 100).unwrap();
        assert_eq!(yours(&p, "cuda", ""), [1]);
        assert_eq!(yours(&p, "opencl", ""), [0, 1], "the CPU and its twin");
        assert_eq!(Pool::new(twins(), Some(&[1, 7]), 100).err(), Some(7));
        let opencl = Pool::new(twins().split_off(2), Some(&[2]), 100).unwrap();
        assert_eq!(yours(&opencl, "opencl", ""), [2], "without CUDA it leads");
    }

    #[test]
    fn what_is_shown_is_what_a_session_gets() {
        // All of few devices, APIs and leases, in orders that a generator gives.
        let mut seed = 7u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % n
        };
        let mut p = Pool::new(twins(), None, 4).unwrap();
        let mut opened = 0;
        for step in 0..20_000 {
            let (name, lease) = (
                format!("s{}", below(5)),
                ["", "a", "b", "gone"][below(4) as usize],
            );
            match below(4) {
                0 => drop(p.lease(
                    ["a", "b"][below(2) as usize],
                    below(2) as usize + 1,
                    "h",
                    "",
                )),
                1 => p.end_lease(lease),
                2 => p.close(&name),
                _ => {
                    let api = ["cuda", "opencl"][below(2) as usize];
                    let shown = yours(&p, api, lease);
                    p.close(&name);
                    let shown_after = yours(&p, api, lease);
                    assert_eq!(shown, shown_after, "sessions share, they do not hide");
                    match p.open(&name, api, &of(lease)) {
                        Ok(got) => {
                            assert_eq!(got, shown, "step {step}");
                            opened += 1;
                        }
                        Err(Refused::TooManySessions(_)) => {}
                        Err(_) => assert!(shown.is_empty(), "step {step}"),
                    }
                }
            }
        }
        assert!(opened > 1000, "{opened}");
    }

    #[test]
    fn a_server_with_64_devices_has_room() {
        let both = |i| {
            let uuid = format!("{i:032x}");
            [device("cuda", i, &uuid), device("opencl", i, &uuid)]
        };
        let mut p = Pool::new((0..64).flat_map(both).collect(), None, 2000).unwrap();
        for n in 0..2000 {
            let got = p.open(&format!("s{n}"), "cuda", &of("")).unwrap();
            assert_eq!(got.len(), 64);
        }
        assert!(p.devices(&of("")).iter().all(|d| d.yours));
        for n in 0..2000 {
            p.close(&format!("s{n}"));
        }
        assert_eq!(p.lease("all", 64, "ann", "").unwrap().len(), 64);
        assert_eq!(yours(&p, "opencl", "all").len(), 64);
        assert!(yours(&p, "opencl", "").is_empty());
    }

    #[test]
    fn a_tenant_gets_what_the_policy_says_and_sees_its_own() {
        let mut found = twins();
        found[2].kind = "cpu".into();
        let mut p = Pool::new(found, None, 100).unwrap();
        p.open("before", "cuda", &tenant("lab")).unwrap();
        let text = "[default]\nsessions = 0\n[tenant.lab]\ndevices = [1]\nsessions = 2\n\
                    leases = 1\ncpu = false\n[tenant.cpu]\nsessions = 9\ndevices = []\n\
                    [tenant.ops]\nadmin = true";
        p.set_policy(busbar_policy::parse(text).unwrap()).unwrap();
        let lab = tenant("lab");
        assert_eq!(p.placed("before").0, [0, 1], "what it had it keeps");
        assert_eq!(p.open("s1", "cuda", &lab).unwrap(), [1]);
        let e = p.open("s2", "opencl", &lab).unwrap_err();
        assert!(
            e.may_pass() && e.to_string().contains("2 session(s)"),
            "{e}"
        );
        p.close("before");
        assert_eq!(
            p.open("s2", "opencl", &lab).unwrap(),
            [1],
            "no CPU, and the one GPU"
        );
        let said = p.open("s3", "cuda", &tenant("x")).unwrap_err();
        assert!(
            !said.may_pass() && said.to_string().contains("no session"),
            "{said}"
        );
        assert_eq!(p.open("s3", "opencl", &tenant("cpu")).unwrap(), [0]);
        let said = p.open("s4", "cuda", &tenant("cpu")).unwrap_err();
        assert!(said.to_string().contains("no cuda device"), "{said}");
        let said = p.lease("b", 1, "bob", "cpu").unwrap_err();
        assert!(said.to_string().contains("no GPU device"), "{said}");
        p.close("s1");
        p.close("s2");
        assert_eq!(p.lease("a", 1, "ann", "lab").unwrap(), [1]);
        let e = p.lease("a2", 1, "ann", "lab").unwrap_err();
        assert!(e.to_string().contains("has 1"), "{e}");
        // Another tenant neither is in the lease nor learns whose it is.
        let thief = Asker {
            lease: "a",
            ..tenant("other")
        };
        p.set_policy(busbar_policy::parse("[tenant.ops]\nadmin = true").unwrap())
            .unwrap();
        assert_eq!(p.open("s5", "cuda", &thief), Err(Refused::UnknownLease));
        let listed = |asker: &Asker<'_>| p.devices(asker)[1].lease.clone().unwrap();
        assert_eq!(listed(&tenant("other")), ANOTHER);
        assert_eq!(
            (listed(&lab), listed(&tenant("ops"))),
            ("ann".into(), "ann".into())
        );
        assert!(p.leases(&tenant("other")).is_empty() && p.leases(&lab).len() == 1);
        let token = Asker {
            admin: true,
            ..tenant("other")
        };
        assert!(p.shows(&token, "lab") && !p.shows(&tenant("other"), "lab"));
        let e = p.lease("c", 2, "eve", "other").unwrap_err();
        assert!(
            e.to_string().contains(ANOTHER) && !e.to_string().contains("ann"),
            "{e}"
        );
        assert_eq!((p.forbids(&lab), p.forbids(&thief)), (None, None));
        let unknown = busbar_policy::parse("[tenant.z]\ndevices = [7]").unwrap();
        assert_eq!(p.set_policy(unknown), Err(("z".into(), 7)));
        p.set_policy(busbar_policy::parse("[default]\napi = []").unwrap())
            .unwrap();
        let said = p.forbids(&lab).unwrap().to_string();
        assert!(said.contains("may not use cuda"), "{said}");
    }
}
