//! Why somebody gets nothing, in a sentence that says what to do.

use crate::timeshare::Share;
use busbar_control::hello::Refusal;
use busbar_control::{share, size};
use busbar_policy::Forbidden;
use std::fmt;

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
    /// A lease that is to begin has the name of another.
    NameTaken,
    /// No lease of that name is the asker's.
    NoLease(String),
    /// All that the session's lease has is with others of its sessions: so much memory.
    Drawn(u64),
    /// The server has as many sessions as it takes.
    TooManySessions(usize),
    /// Likewise of leases.
    TooManyLeases(usize),
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
            Self::Late { .. } | Self::Drawn(_) | Self::NameTaken => true,
            Self::Few { wanted, all, .. } => wanted <= all,
            Self::Forbidden(f) => f.may_pass(),
            Self::NoDevice { .. }
            | Self::UnknownLease
            | Self::NoLease(_)
            | Self::TooManySessions(_)
            | Self::TooManyLeases(_)
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
                    "{wanted} GPUs wanted, but the server has {all}; ask for fewer with -n"
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
                     {who}; try again later or ask for fewer with -n"
                )
            }
            Self::UnknownLease => {
                write!(
                    f,
                    "the lease has ended: start the program through `busbar run` again"
                )
            }
            Self::NameTaken => write!(f, "there is a lease of that name: try again"),
            Self::NoLease(name) => write!(
                f,
                "there is no lease `{name}` that is yours: `busbar list` shows those that are"
            ),
            Self::Drawn(memory) => write!(
                f,
                "the {} of device memory that the lease has are with other programs of it: give \
                 each its part with -m (BUSBAR_MEMORY), or wait for their end",
                size::show(*memory)
            ),
            Self::TooManySessions(n) => {
                write!(
                    f,
                    "the server already has {n} sessions, as many as it takes; try later"
                )
            }
            Self::TooManyLeases(n) => write!(
                f,
                "the server already has {n} leases, as many as it takes; try later, or end some \
                  with `busbar release`"
            ),
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
            Refused::UnknownLease | Refused::NameTaken | Refused::NoLease(_) => "lease",
            Refused::TooManySessions(_) | Refused::TooManyLeases(_) => "limit",
            Refused::Full { .. } | Refused::Drawn(_) => "memory",
            Refused::Late { .. } | Refused::Few { .. } => "share",
            Refused::NoSession(_) => "session",
            Refused::Forbidden(_) => "policy",
        };
        Self::new(code, r.to_string())
    }
}
