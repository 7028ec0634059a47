//! Questions, and answers.

use busbar_control::{share, size};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What one tenant may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// See what all tenants do.
    pub admin: bool,
    /// The APIs of its sessions; `None` for all.
    pub apis: Option<Vec<String>>,
    /// The devices that it sees, as the server counts them; `None` for all.
    pub devices: Option<Vec<u32>>,
    /// Use the processors of the server's machine as an OpenCL device.
    pub cpu: bool,
    /// The most sessions at a time.
    pub sessions: Option<u64>,
    /// The most devices that its leases hold at a time.
    pub leases: Option<u64>,
    /// The most bytes of device memory of one session.
    pub memory: Option<u64>,
    /// The most thousandths of a device's time that one session is promised.
    pub share: Option<u32>,
    /// The highest priority of a session.
    pub priority: Option<i32>,
    /// The longest that a session which does nothing keeps what it is promised of a device's time.
    pub idle: Option<Duration>,
    /// The longest that a session which does nothing keeps its device memory from one that lacks
    /// some.
    pub swap_idle: Option<Duration>,
    /// The most sessions and leases that it opens in a minute.
    pub opens: Option<u64>,
    /// Have this server dial others, or be dialled, for copies between its sessions.
    pub links: bool,
    /// Have sessions that share their devices densely.
    pub dense: bool,
    /// The RDMA device of its sessions, in the words of the server's `--rdma-device`, in place of
    /// that one's.
    pub rdma_device: Option<String>,
}

impl Default for Rules {
    /// Everything but to see others.
    fn default() -> Self {
        Self {
            admin: false,
            apis: None,
            devices: None,
            cpu: true,
            sessions: None,
            leases: None,
            memory: None,
            share: None,
            priority: None,
            idle: None,
            swap_idle: None,
            opens: None,
            links: true,
            dense: true,
            rdma_device: None,
        }
    }
}

/// What all tenants may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    others: Rules,
    tenants: BTreeMap<String, Rules>,
}

/// Why a tenant may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forbidden {
    /// The tenant; empty where the server asks nobody who they are.
    pub tenant: String,
    /// What it asked for.
    pub what: What,
}

/// What a tenant may not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Use an API.
    Api(String),
    /// Use any device of an API.
    Devices(String),
    /// Have more sessions than these.
    Sessions(u64),
    /// Have more devices reserved than the first number; it has the second.
    Leases(u64, u64),
    /// Ask for more device memory than this.
    Memory(u64),
    /// Be promised more of a device's time than this, in thousandths.
    Share(u32),
    /// Have a higher priority than this.
    Priority(i32),
    /// Open more than so many in a minute; after so many seconds it may again.
    Opens(u64, u64),
    /// Have links between servers.
    Links,
    /// Have dense sessions.
    Dense,
}

impl Forbidden {
    /// Whether the end of a program of the tenant's changes it.
    pub fn may_pass(&self) -> bool {
        match self.what {
            What::Sessions(most) | What::Leases(most, _) => most > 0,
            What::Api(_)
            | What::Devices(_)
            | What::Memory(_)
            | What::Share(_)
            | What::Priority(_)
            | What::Opens(..)
            | What::Links
            | What::Dense => false,
        }
    }
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ASK: &str = "ask the server's operator";
        match self.tenant.as_str() {
            "" => write!(f, "by this server's policy programs "),
            name => write!(f, "by this server's policy the tenant `{name}` "),
        }?;
        match &self.what {
            What::Api(api) => write!(f, "may not use {api}: {ASK} if it should"),
            What::Devices(api) => write!(f, "may use no {api} device: {ASK} for one"),
            What::Sessions(0) => write!(f, "may open no session: {ASK} if it should"),
            What::Sessions(n) => write!(
                f,
                "may have {n} session(s) at a time, and has them: end one (`busbar ps` lists \
                 them), or {ASK} for more"
            ),
            What::Leases(0, _) => write!(
                f,
                "may reserve no GPU: share one by leaving -n away, or {ASK}"
            ),
            What::Leases(most, has) => write!(
                f,
                "may have {most} GPU(s) reserved at a time, and has {has}: ask for fewer with \
                 -n, or end a program that holds some"
            ),
            What::Memory(most) => write!(
                f,
                "may ask for {} of device memory: ask for less with -m (BUSBAR_MEMORY)",
                size::show(*most)
            ),
            What::Share(most) => write!(
                f,
                "may ask for {} of a device's time: ask for less with -p (BUSBAR_SHARE)",
                share::show(*most)
            ),
            What::Priority(most) => write!(
                f,
                "may have priority {most} at most: ask for less with --priority (BUSBAR_PRIORITY)"
            ),
            What::Links => write!(f, "may have no links between servers: {ASK} if it should"),
            What::Dense => write!(
                f,
                "may have no dense sessions: leave --mode (BUSBAR_MODE) away, or {ASK}"
            ),
            What::Opens(0, _) => write!(f, "may open nothing: {ASK} if it should"),
            What::Opens(n, again) => write!(
                f,
                "may open {n} session(s) a minute: try again in {again} s, or {ASK} for more"
            ),
        }
    }
}

impl std::error::Error for Forbidden {}

/// Whether there may be one more than `now`.
fn below(now: u64, most: Option<u64>) -> Result<(), u64> {
    match most {
        Some(most) if now >= most => Err(most),
        _ => Ok(()),
    }
}

impl Policy {
    /// What these tenants may do, and all others.
    pub(crate) fn new(others: Rules, tenants: BTreeMap<String, Rules>) -> Self {
        Self { others, tenants }
    }

    /// What a tenant may do.
    pub fn of(&self, tenant: &str) -> &Rules {
        self.tenants.get(tenant).unwrap_or(&self.others)
    }

    /// What all may do, named or not.
    pub fn all(&self) -> impl Iterator<Item = &Rules> {
        self.tenants.values().chain([&self.others])
    }

    /// The tenants that are named, and what they may do.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Rules)> {
        self.tenants.iter().map(|(name, r)| (name.as_str(), r))
    }

    /// What all others may do.
    pub fn others(&self) -> &Rules {
        &self.others
    }

    pub(crate) fn no(tenant: &str, what: What) -> Forbidden {
        let tenant = tenant.into();
        Forbidden { tenant, what }
    }

    /// Whether a tenant may use an API at all.
    pub fn may_use(&self, tenant: &str, api: &str) -> Result<(), Forbidden> {
        match &self.of(tenant).apis {
            Some(all) if !all.iter().any(|a| a == api) => {
                Err(Self::no(tenant, What::Api(api.into())))
            }
            _ => Ok(()),
        }
    }

    /// Whether a tenant sees a device: `number` as the server counts its GPUs, if it does; whether
    /// it is the machine's processors.
    pub fn sees(&self, tenant: &str, number: Option<u32>, cpu: bool) -> bool {
        let r = self.of(tenant);
        let listed = match (&r.devices, number) {
            (Some(all), Some(n)) => all.contains(&n),
            _ => true,
        };
        listed && (r.cpu || !cpu)
    }

    /// What a tenant hears that sees no device of an API.
    pub fn sees_none(tenant: &str, api: &str) -> Forbidden {
        Self::no(tenant, What::Devices(api.into()))
    }

    /// Whether a tenant that has so many sessions may have another.
    pub fn may_open(&self, tenant: &str, has: u64) -> Result<(), Forbidden> {
        below(has, self.of(tenant).sessions).map_err(|n| Self::no(tenant, What::Sessions(n)))
    }

    /// The most device memory that a session of a tenant gets, which asks for so much, or for none
    /// in particular.
    pub fn memory(&self, tenant: &str, asked: Option<u64>) -> Result<Option<u64>, Forbidden> {
        match (self.of(tenant).memory, asked) {
            (Some(most), Some(n)) if n > most => Err(Self::no(tenant, What::Memory(most))),
            (most, asked) => Ok(asked.or(most)),
        }
    }

    /// Whether a session of a tenant may be promised so much of a device's time, with a priority.
    pub fn time(&self, tenant: &str, share: Option<u32>, priority: i32) -> Result<(), Forbidden> {
        let rules = self.of(tenant);
        match (rules.share, share) {
            (Some(most), Some(n)) if n > most => return Err(Self::no(tenant, What::Share(most))),
            _ => {}
        }
        match rules.priority {
            Some(most) if priority > most.max(0) => Err(Self::no(tenant, What::Priority(most))),
            _ => Ok(()),
        }
    }

    /// Whether a tenant's sessions may be linked to others at another server.
    pub fn may_link(&self, tenant: &str) -> Result<(), Forbidden> {
        match self.of(tenant).links {
            true => Ok(()),
            false => Err(Self::no(tenant, What::Links)),
        }
    }

    /// Whether a tenant's sessions may share their devices densely.
    pub fn may_be_dense(&self, tenant: &str) -> Result<(), Forbidden> {
        match self.of(tenant).dense {
            true => Ok(()),
            false => Err(Self::no(tenant, What::Dense)),
        }
    }

    /// Whether a tenant that has so many devices reserved may have some more.
    pub fn may_lease(&self, tenant: &str, has: u64, more: u64) -> Result<(), Forbidden> {
        match self.of(tenant).leases {
            Some(most) if has.saturating_add(more) > most => {
                Err(Self::no(tenant, What::Leases(most, has)))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [default]
        sessions = 2
        cpu = false
        leases = 0
        memory = "1.5GiB"
        share = 0.25
        priority = 2
        idle_timeout = "10m"
        swap_idle = "5m"

        [tenant.lab]
        api = ["cuda"]
        devices = [0, 2]
        sessions = "unlimited"
        memory = "unlimited"
        share = "unlimited"
        priority = "unlimited"
        idle_timeout = "unlimited"
        swap_idle = "unlimited"
        leases = 3
        links = false
        rdma_device = "mlx5_3"

        [tenant."ops@home"]
        admin = true
    "#;

    #[test]
    fn what_an_entry_leaves_out_is_the_defaults() {
        let p = crate::parse(FILE).unwrap();
        let (lab, ops) = (p.of("lab"), p.of("ops@home"));
        assert_eq!((lab.sessions, lab.cpu, lab.admin), (None, false, false));
        assert_eq!(
            (ops.sessions, ops.leases, ops.admin),
            (Some(2), Some(0), true)
        );
        let minutes = |n: u64| Some(Duration::from_secs(60 * n));
        assert_eq!((lab.idle, ops.idle), (None, minutes(10)));
        assert_eq!((lab.swap_idle, ops.swap_idle), (None, minutes(5)));
        let adapter = |tenant| p.of(tenant).rdma_device.as_deref();
        assert_eq!((adapter("lab"), adapter("x")), (Some("mlx5_3"), None));
        assert_eq!(p.of("anybody"), p.others());
        assert_eq!(p.named().count(), 2);
        assert_eq!(crate::parse("").unwrap().of("x"), &Rules::default());
    }

    #[test]
    fn questions_are_answered_in_sentences_that_say_what_to_do() {
        let p = crate::parse(FILE).unwrap();
        assert_eq!(p.may_use("lab", "cuda"), Ok(()));
        let said = p.may_use("lab", "opencl").unwrap_err().to_string();
        assert!(said.contains("`lab` may not use opencl"), "{said}");
        assert!(p.sees("lab", Some(2), false) && !p.sees("lab", Some(1), false));
        assert!(p.sees("lab", None, false) && !p.sees("lab", None, true));
        assert_eq!(p.may_open("lab", 1 << 40), Ok(()));
        assert_eq!(p.may_open("x", 1), Ok(()));
        let e = p.may_open("x", 2).unwrap_err();
        assert!(e.may_pass() && e.to_string().contains("busbar ps"), "{e}");
        assert_eq!(p.may_lease("lab", 1, 2), Ok(()));
        let e = p.may_lease("lab", 2, 2).unwrap_err();
        assert!(e.may_pass() && e.to_string().contains("fewer"), "{e}");
        let e = p.may_lease("", 0, 1).unwrap_err();
        assert!(
            !e.may_pass() && e.to_string().contains("programs may reserve no GPU"),
            "{e}"
        );
        assert!(p.may_lease("lab", u64::MAX, u64::MAX).is_err());
        assert_eq!(p.memory("lab", Some(1 << 40)), Ok(Some(1 << 40)));
        assert_eq!(p.memory("x", None), Ok(Some(3 << 29)));
        assert_eq!(p.memory("x", Some(7)), Ok(Some(7)));
        let said = p.memory("x", Some(1 << 31)).unwrap_err().to_string();
        assert!(said.contains("1.5 GiB of device memory"), "{said}");
        assert_eq!(p.time("lab", Some(1000), 99), Ok(()));
        assert_eq!(p.time("x", Some(250), 2), Ok(()));
        assert_eq!(p.time("x", None, -5), Ok(()));
        let said = p.time("x", Some(251), 0).unwrap_err().to_string();
        assert!(
            said.contains("may ask for 0.25 of a device's time"),
            "{said}"
        );
        let said = p.time("x", None, 3).unwrap_err().to_string();
        assert!(said.contains("priority 2 at most"), "{said}");
        assert_eq!(p.may_link("x"), Ok(()));
        let said = p.may_link("lab").unwrap_err().to_string();
        assert!(said.contains("may have no links between servers"), "{said}");
        let said = Policy::sees_none("lab", "opencl").to_string();
        assert!(said.contains("may use no opencl device"), "{said}");
    }
}
