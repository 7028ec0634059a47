//! What keeps the sessions of one tenant from those of another, and from the machine.
//!
//! All sessions of one identity (a tenant's token or certificate) run in one **cell**: a user of
//! its own, a root folder with nothing but what drivers need, and namespaces of its own for
//! processes, System V IPC and the network. CUDA's memory and events go between processes of one
//! program by ways of the driver's that end where a cell does, so a cell cannot be smaller. Each
//! worker in it has its own `/tmp`, its own limits, and a filter on its system calls and files.
//!
//! The first process of a cell makes it; workers enter it before they do anything else. What the
//! machine has of all this is found out once, when the server makes its own cell. From then on each
//! part that is in force must succeed, or there is no worker.

pub mod cell;
pub mod limits;
mod root;

pub use root::Adapters;

use crate::confine;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How much isolation there must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// All of it, or the server does not start
    Strict,
    /// What this machine has of it
    #[default]
    Best,
    /// None
    Off,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Strict => "strict",
            Self::Best => "best",
            Self::Off => "off",
        })
    }
}

/// One thing that keeps sessions apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A user of its own.
    User,
    /// A root folder of its own.
    Folders,
    /// A process namespace.
    Processes,
    /// An IPC namespace.
    Ipc,
    /// A network namespace in which there is nothing.
    Network,
    /// A filter of system calls.
    Calls,
    /// Landlock's rules for files and signals.
    Landlock,
    /// Limits of memory, processes and time.
    Limits,
    /// What a session leaves in device memory is cleared before anybody has it.
    DeviceMemory,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "users",
            Self::Folders => "folders",
            Self::Processes => "processes",
            Self::Ipc => "ipc",
            Self::Network => "network",
            Self::Calls => "system calls",
            Self::Landlock => "landlock",
            Self::Limits => "limits",
            Self::DeviceMemory => "device memory",
        })
    }
}

/// What there is, and for the rest why there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Have {
    /// In force.
    pub parts: Vec<Part>,
    /// What is missing, and why.
    pub missing: Vec<(Part, String)>,
}

/// What it takes for workers to reach those of other servers.
const OVER_SERVERS: &str = "jobs over several servers take network and landlock of Linux 6.7, or \
                            --isolation off";

impl Have {
    /// Whether a part is in force.
    pub fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// Notes what came of a part.
    pub fn note(&mut self, part: Part, done: Result<(), String>) {
        match done {
            Ok(()) => self.parts.push(part),
            Err(why) => self.missing.push((part, why)),
        }
    }

    /// Whether what is in force shields others from all that a worker could do to them through
    /// files: what it builds need not be trusted less for that.
    pub fn confines(&self) -> bool {
        self.has(Part::Folders) || self.has(Part::Landlock)
    }

    /// Whether workers are handed sockets that lead to other servers: only where they can do
    /// nothing else with them.
    pub fn lends_sockets(&self) -> bool {
        let kept = || confine::landlock().is_ok_and(confine::keeps_from_tcp);
        self.has(Part::Network) && self.has(Part::Landlock) && kept()
    }

    /// What keeps workers from those of other servers, in words, if anything does.
    pub fn strands(&self) -> Option<&'static str> {
        let network = self.has(Part::Network) && !self.lends_sockets();
        network.then_some(OVER_SERVERS)
    }

    /// What is missing, in words.
    pub fn lacks(&self) -> String {
        let one = |(part, why): &(Part, String)| format!("{part} ({why})");
        self.missing.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// The line that a server says at its start.
    pub fn line(&self, level: Level) -> String {
        if level == Level::Off {
            return "isolation off: what a session's code does, it does as the server".into();
        }
        let names: Vec<_> = self.parts.iter().map(ToString::to_string).collect();
        let mut line = format!("isolation {level}: {}", names.join(", "));
        if self.parts.is_empty() {
            line += "nothing";
        }
        if !self.missing.is_empty() {
            line += &format!("; missing: {}", self.lacks());
        }
        if !self.parts.is_empty() && !self.lends_sockets() {
            line += "; ";
            line += OVER_SERVERS;
        }
        line
    }
}

/// Whether what a session leaves in device memory is cleared, by what NVIDIA's kernel driver says
/// of its parameters: it does so with all that is freed, and what a process has is freed at its
/// end, unless it was told otherwise.
pub fn device_memory(parameters: &str) -> Result<(), String> {
    const OFF: &str = "RMDisableScrubOnFree";
    let line = parameters
        .lines()
        .find_map(|l| l.strip_prefix("RegistryDwords:"));
    let words = line.unwrap_or_default().trim().trim_matches('"');
    let off = words.split(';').filter_map(|w| w.trim().split_once('='));
    let mut off = off.filter(|(name, value)| *name == OFF && value.trim() != "0");
    match off.next() {
        None => Ok(()),
        Some(_) => Err(format!(
            "the driver is told not to clear what is freed: {OFF}"
        )),
    }
}

/// The capabilities that isolation takes, by the kernel's numbers: to become any user and group,
/// and to make and enter namespaces.
const RIGHTS: [u32; 4] = [6, 7, 18, 21];

/// Whether this process may isolate others: as root, as far as that one may, or as another user
/// with the capabilities that a service manager has given it.
pub fn is_privileged() -> bool {
    #[repr(C)]
    struct Header {
        version: u32,
        process: i32,
    }
    let mut header = Header {
        version: 0x2008_0522,
        process: 0,
    };
    // Effective, permitted and inheritable ones, the first 32 and the rest.
    let mut sets = [0u32; 6];
    // SAFETY: pointers to live structures, of the sizes that this version has.
    unsafe {
        let read = libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) == 0;
        libc::geteuid() == 0 || (read && RIGHTS.iter().all(|r| sets[0] & 1 << r != 0))
    }
}

/// Says what failed, with the system's reason.
fn failed(what: impl fmt::Display) -> String {
    format!("{what}: {}", std::io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_does_not_clear_memory_is_noticed() {
        let with = |words: &str| format!("EnableMSI: 1\nRegistryDwords: \"{words}\"\nX: 0\n");
        for good in ["", "A=1", "A=1;RMDisableScrubOnFree=0"] {
            assert_eq!(device_memory(&with(good)), Ok(()));
        }
        for bad in ["RMDisableScrubOnFree=1", "A=1; RMDisableScrubOnFree=0x1"] {
            let why = device_memory(&with(bad)).unwrap_err();
            assert!(why.contains("not to clear"), "{why}");
        }
        assert_eq!(device_memory(""), Ok(()));
    }

    #[test]
    fn the_line_says_what_there_is_and_what_is_missing_and_why() {
        let mut have = Have::default();
        have.note(Part::User, Ok(()));
        have.note(Part::Landlock, Err("the kernel has none".into()));
        let line = have.line(Level::Best);
        assert_eq!(
            line,
            "isolation best: users; missing: landlock (the kernel has none); jobs over several \
             servers take network and landlock of Linux 6.7, or --isolation off"
        );
        assert!(!have.confines() && have.has(Part::User));
        assert_eq!(have.strands(), None, "they have the machine's network");
        have.note(Part::Network, Ok(()));
        assert!(have.strands().is_some_and(|why| line.ends_with(why)));
        assert!(have.line(Level::Off).starts_with("isolation off"));
        let none = Have::default().line(Level::Best);
        assert_eq!(none, "isolation best: nothing");
    }
}
