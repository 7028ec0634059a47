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
            Self::Taken {
                wanted,
                free,
                holders,
            } => {
                let who = if holders.is_empty() {
                    "others".into()
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
    leases: BTreeMap<String, Lease>,
    sessions: HashMap<String, Placed>,
    max_sessions: usize,
}

impl Pool {
    /// A pool over `devices` that takes up to `max_sessions` sessions.
    pub fn new(devices: Vec<DeviceId>, max_sessions: usize) -> Self {
        Self {
            devices,
            leases: BTreeMap::new(),
            sessions: HashMap::new(),
            max_sessions,
        }
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

    /// Reserves `n` CUDA devices under the name `lease`, the least used first. Devices that
    /// sessions without a lease are using count as taken.
    pub fn lease(&mut self, lease: &str, n: usize, holder: &str) -> Result<Vec<u32>, Refused> {
        let all: Vec<_> = self
            .devices
            .iter()
            .filter(|d| d.api == "cuda")
            .cloned()
            .collect();
        if all.is_empty() {
            return Err(Refused::NoDevice { api: "cuda".into() });
        }
        let free: Vec<_> = all
            .iter()
            .filter(|d| !self.leased(d) && self.load(d) == 0)
            .cloned()
            .collect();
        if free.len() < n {
            let mut holders: Vec<_> = self.leases.values().map(|l| l.holder.clone()).collect();
            holders.dedup();
            return Err(Refused::Taken {
                wanted: n,
                free: free.len(),
                holders,
            });
        }
        let devices: Vec<_> = free.into_iter().take(n).collect();
        let ordinals = devices.iter().map(|d| d.ordinal).collect();
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
        let devices: Vec<u32> = if lease.is_empty() || api != "cuda" {
            let open: Vec<_> = all
                .iter()
                .filter(|d| !self.leased(d))
                .map(|d| d.ordinal)
                .collect();
            if open.is_empty() {
                let holders = self.leases.values().map(|l| l.holder.clone()).collect();
                return Err(Refused::Taken {
                    wanted: 1,
                    free: 0,
                    holders,
                });
            }
            open
        } else {
            let held = self.leases.get(lease).ok_or(Refused::UnknownLease)?;
            held.devices
                .iter()
                .filter(|d| d.api == api)
                .map(|d| d.ordinal)
                .collect()
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
                l.devices.iter().map(|d| d.ordinal).collect(),
            )
        })
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

    /// How many sessions there are.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
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
        p.open("s", "opencl", "").unwrap();
        assert_eq!(p.open("t", "opencl", ""), Err(Refused::TooManySessions(1)));
        p.close("s");
        assert_eq!(p.session_count(), 0);
    }
}
