//! Who gets which device: leases and the sessions under them. A pure state machine: no sockets, no
//! clock, no processes.
//!
//! A **lease** reserves whole devices for the programs of one `busbar run --gpus N`; while it lasts
//! nobody else is placed on them. A **session** without a lease shares every device that no lease
//! holds. What a session or lease holds is free again when it ends.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// A device of one API's list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    /// `cuda`, `opencl`.
    pub api: String,
    /// The ordinal the worker's library knows it by.
    pub ordinal: u32,
}

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
        }
    }
}

impl std::error::Error for Refused {}

#[derive(Debug, Clone)]
struct Lease {
    devices: Vec<DeviceId>,
    holder: String,
}

#[derive(Debug, Clone)]
struct Placed {
    api: String,
    lease: Option<String>,
    devices: Vec<u32>,
}

/// The pool of one server.
#[derive(Debug)]
pub struct Pool {
    devices: Vec<DeviceId>,
    twins: Vec<(DeviceId, DeviceId)>,
    leases: BTreeMap<String, Lease>,
    sessions: HashMap<String, Placed>,
    max_sessions: usize,
}

impl Pool {
    /// A pool over `devices` that takes up to `max_sessions` sessions.
    pub fn new(devices: Vec<DeviceId>, max_sessions: usize) -> Self {
        Self {
            devices,
            twins: Vec::new(),
            leases: BTreeMap::new(),
            sessions: HashMap::new(),
            max_sessions,
        }
    }

    /// Says that two APIs reach one and the same device, `leader` being the one that is leased.
    pub fn same(&mut self, leader: DeviceId, other: DeviceId) {
        self.twins.push((leader, other));
    }

    /// The API whose devices are leased: what else there is goes with them.
    fn leading(&self) -> &'static str {
        match self.devices.iter().any(|d| d.api == "cuda") {
            true => "cuda",
            false => "opencl",
        }
    }

    /// A device and what else reaches it.
    fn whole<'a>(&'a self, d: &'a DeviceId) -> impl Iterator<Item = &'a DeviceId> {
        let others = self.twins.iter().filter(move |t| t.0 == *d).map(|t| &t.1);
        std::iter::once(d).chain(others)
    }

    fn leased(&self, d: &DeviceId) -> bool {
        self.leases.values().any(|l| l.devices.contains(d))
    }

    fn load(&self, d: &DeviceId) -> usize {
        self.sessions
            .values()
            .filter(|s| s.api == d.api && s.devices.contains(&d.ordinal))
            .count()
    }

    /// Reserves `n` devices under the name `lease`: GPUs as CUDA counts them, or OpenCL's devices
    /// where there is no CUDA. Devices that sessions without a lease are using count as taken.
    pub fn lease(&mut self, lease: &str, n: usize, holder: &str) -> Result<Vec<u32>, Refused> {
        let all: Vec<_> = self
            .devices
            .iter()
            .filter(|d| d.api == self.leading())
            .cloned()
            .collect();
        if all.is_empty() {
            return Err(Refused::NoDevice { api: "cuda".into() });
        }
        let free: Vec<_> = all
            .iter()
            .filter(|d| !self.leased(d) && self.whole(d).all(|d| self.load(d) == 0))
            .cloned()
            .collect();
        if free.len() < n {
            let mut holders: Vec<_> = self.leases.values().map(|l| l.holder.clone()).collect();
            holders.dedup();
            return Err(Refused::Taken {
                wanted: n,
                all: all.len(),
                free: free.len(),
                holders,
            });
        }
        let chosen = &free[..n];
        let ordinals = chosen.iter().map(|d| d.ordinal).collect();
        let devices = chosen.iter().flat_map(|d| self.whole(d)).cloned().collect();
        self.leases.insert(
            lease.into(),
            Lease {
                devices,
                holder: holder.into(),
            },
        );
        Ok(ordinals)
    }

    /// Ends a lease. Its sessions go on until their programs end, but hold nothing exclusively.
    pub fn end_lease(&mut self, lease: &str) {
        self.leases.remove(lease);
    }

    /// Places a new session and says which devices it may use.
    pub fn open(&mut self, session: &str, api: &str, lease: &str) -> Result<Vec<u32>, Refused> {
        if self.sessions.len() >= self.max_sessions {
            return Err(Refused::TooManySessions(self.max_sessions));
        }
        let all: Vec<_> = self.devices.iter().filter(|d| d.api == api).collect();
        if all.is_empty() {
            return Err(Refused::NoDevice { api: api.into() });
        }
        let held = match lease.is_empty() {
            true => None,
            false => Some(self.leases.get(lease).ok_or(Refused::UnknownLease)?),
        };
        let held: Option<Vec<u32>> = held.map(|l| {
            let of_api = l.devices.iter().filter(|d| d.api == api);
            of_api.map(|d| d.ordinal).collect()
        });
        // Devices that go with no leased one, a CPU beside GPUs, are shared by all.
        let devices: Vec<u32> = if let Some(held) = held.filter(|h| !h.is_empty()) {
            held
        } else {
            let open: Vec<_> = all
                .iter()
                .filter(|d| !self.leased(d))
                .map(|d| d.ordinal)
                .collect();
            if open.is_empty() {
                let holders = self.leases.values().map(|l| l.holder.clone()).collect();
                return Err(Refused::Taken {
                    wanted: 1,
                    all: all.len(),
                    free: 0,
                    holders,
                });
            }
            open
        };
        self.sessions.insert(
            session.into(),
            Placed {
                api: api.into(),
                lease: Some(lease.to_string()).filter(|l| !l.is_empty()),
                devices: devices.clone(),
            },
        );
        Ok(devices)
    }

    /// A session is over.
    pub fn close(&mut self, session: &str) {
        self.sessions.remove(session);
    }

    /// Every lease: name, holder, device ordinals.
    pub fn leases(&self) -> impl Iterator<Item = (&str, &str, Vec<u32>)> {
        self.leases.iter().map(|(n, l)| {
            (
                n.as_str(),
                l.holder.as_str(),
                l.devices
                    .iter()
                    .filter(|d| d.api == self.leading())
                    .map(|d| d.ordinal)
                    .collect(),
            )
        })
    }

    /// Who holds a device.
    pub fn holder(&self, d: &DeviceId) -> Option<&str> {
        let lease = self.leases.values().find(|l| l.devices.contains(d))?;
        Some(&lease.holder)
    }

    /// The sessions that use a device.
    pub fn sessions_on(&self, d: &DeviceId) -> Vec<&str> {
        let uses = |p: &&Placed| p.api == d.api && p.devices.contains(&d.ordinal);
        let mut v: Vec<_> = self
            .sessions
            .iter()
            .filter(|(_, p)| uses(p))
            .map(|(n, _)| n.as_str())
            .collect();
        v.sort_unstable();
        v
    }

    /// The lease of a session.
    pub fn lease_of(&self, session: &str) -> Option<&str> {
        self.sessions.get(session)?.lease.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(n: u32) -> Pool {
        let d = |ordinal| DeviceId {
            api: "cuda".into(),
            ordinal,
        };
        Pool::new((0..n).map(d).collect(), 100)
    }

    #[test]
    fn a_lease_is_exclusive_until_it_ends() {
        let mut p = pool(2);
        assert_eq!(p.lease("a", 1, "ann").unwrap(), [0]);
        assert_eq!(p.open("s1", "cuda", "").unwrap(), [1]);
        assert_eq!(p.open("s2", "cuda", "a").unwrap(), [0]);
        let e = p.lease("b", 1, "bob").unwrap_err();
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
        assert_eq!(p.lease("b", 1, "bob").unwrap(), [1]);
        assert!(matches!(
            p.open("s3", "cuda", ""),
            Err(Refused::Taken { .. })
        ));
        p.end_lease("a");
        assert_eq!(p.open("s3", "cuda", "a"), Err(Refused::UnknownLease));
        assert_eq!(p.open("s3", "cuda", "").unwrap(), [0]);
    }

    #[test]
    fn what_is_not_there_is_said() {
        let mut p = pool(0);
        assert!(matches!(
            p.open("s", "cuda", ""),
            Err(Refused::NoDevice { .. })
        ));
        assert!(matches!(
            p.lease("l", 1, "x"),
            Err(Refused::NoDevice { .. })
        ));
        let mut p = Pool::new(
            vec![DeviceId {
                api: "opencl".into(),
                ordinal: 0,
            }],
            1,
        );
        p.lease("l", 1, "x").unwrap();
        assert!(matches!(
            p.open("s", "opencl", ""),
            Err(Refused::Taken { .. })
        ));
        p.end_lease("l");
        p.open("s", "opencl", "").unwrap();
        assert_eq!(p.open("t", "opencl", ""), Err(Refused::TooManySessions(1)));
        p.close("s");
        assert!(p.sessions.is_empty());
    }
    #[test]
    fn what_two_apis_reach_is_leased_for_both() {
        let d = |api: &str, ordinal| DeviceId {
            api: api.into(),
            ordinal,
        };
        // Two GPUs, which OpenCL counts the other way round, behind a CPU that CUDA does not know.
        let all = [
            ("cuda", 0),
            ("cuda", 1),
            ("opencl", 0),
            ("opencl", 1),
            ("opencl", 2),
        ];
        let mut p = Pool::new(all.map(|(a, o)| d(a, o)).to_vec(), 100);
        p.same(d("cuda", 0), d("opencl", 2));
        p.same(d("cuda", 1), d("opencl", 1));
        assert_eq!(p.lease("a", 1, "ann").unwrap(), [0]);
        assert_eq!(p.open("s1", "opencl", "a").unwrap(), [2]);
        assert_eq!(p.open("s2", "opencl", "").unwrap(), [0, 1]);
        assert_eq!(p.holder(&d("opencl", 2)), Some("ann"));
        assert_eq!(p.leases().next().unwrap().2, [0]);
        // Somebody uses the other GPU through OpenCL.
        assert!(matches!(p.lease("b", 1, "bob"), Err(Refused::Taken { .. })));
        p.close("s2");
        assert_eq!(p.lease("b", 1, "bob").unwrap(), [1]);
        assert_eq!(p.open("s3", "opencl", "").unwrap(), [0]);
        assert_eq!(p.open("s4", "opencl", "gone"), Err(Refused::UnknownLease));
    }
}
