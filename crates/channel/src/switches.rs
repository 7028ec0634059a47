//! Off switches: every optimisation can be done without, so that what it buys can be measured, and
//! so that it can be ruled out where something is wrong.
//!
//! A switch that is on costs one load of a word that is never written while a session runs. The
//! client reads its environment, and tells its worker in the hello what is off, so that one
//! variable switches both ends. The results of a program are the same with every switch in either
//! position.

use std::sync::atomic::{AtomicU32, Ordering};

/// An optimisation that can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Switch {
    /// Calls without an answer are queued. Off: each waits until the worker has received it.
    Queue,
    /// The client answers what it knows. Off: each such call waits for a round trip.
    Local,
    /// A wait for a stream known to be idle ends at once, and whether an event has happened the
    /// worker tells by itself. Off: it is asked.
    Idle,
    /// Records are gathered into frames, and frames into system calls. Off: one each.
    Gather,
    /// Each thread puts its records into a lane of its own. Off: all into one.
    Lanes,
    /// Threads of a busy session look for work for a while. Off: they sleep at once.
    Poll,
    /// Large pieces are sent from where they lie. Off: they are copied first.
    Borrow,
    /// The server keeps module images and program sources. Off: they are sent each time.
    Content,
    /// The worker's staging memory is page-locked. Off: the driver copies once more.
    Staging,
    /// Parts of long frames take side connections where the network is fast. Off: none.
    Side,
    /// A worker process is started ahead of need. Off: when the session begins.
    Spare,
    /// Copies between servers go from one to the other. Off: through the client.
    Links,
    /// Long parameters of launches, and page-locked bytes, that the worker has already are named.
    /// Off: sent each time.
    Repeat,
}

impl Switch {
    /// Every switch.
    pub const ALL: [Self; 13] = [
        Self::Queue,
        Self::Local,
        Self::Idle,
        Self::Gather,
        Self::Lanes,
        Self::Poll,
        Self::Borrow,
        Self::Content,
        Self::Staging,
        Self::Side,
        Self::Spare,
        Self::Links,
        Self::Repeat,
    ];

    /// Its name in a hello, and in lower case that of its variable: `BUSBAR_QUEUE=0`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Local => "local",
            Self::Idle => "idle",
            Self::Gather => "gather",
            Self::Lanes => "lanes",
            Self::Poll => "poll",
            Self::Borrow => "borrow",
            Self::Content => "content",
            Self::Staging => "staging",
            Self::Side => "side",
            Self::Spare => "spare",
            Self::Links => "links",
            Self::Repeat => "repeat",
        }
    }

    const fn bit(self) -> u32 {
        1 << self as u8
    }

    /// Whether it is on in this process.
    #[inline]
    pub fn on(self) -> bool {
        OFF.load(Ordering::Relaxed) & self.bit() == 0
    }
}

/// What is off in this process. One process is one client or one worker.
static OFF: AtomicU32 = AtomicU32::new(0);

/// Switches off what is named and everything else on. An unknown name, from a newer client, is none
/// of ours.
pub fn set_off<S: AsRef<str>>(names: &[S]) {
    let named = |s: &&Switch| names.iter().any(|n| n.as_ref() == s.name());
    let off = Switch::ALL.iter().filter(named).fold(0, |o, s| o | s.bit());
    OFF.store(off, Ordering::Relaxed);
}

/// The names of those that `value` (the environment, as a function) says `0`, `off` or `no` to.
pub fn read_off(value: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let off = |s: &&Switch| {
        let v = value(&format!("BUSBAR_{}", s.name().to_ascii_uppercase()));
        matches!(v.as_deref().map(str::trim), Some("0" | "off" | "no"))
    };
    let names = Switch::ALL.iter().filter(off);
    names.map(|s| s.name().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_no_switches_off() {
        let off = read_off(|name| match name {
            "BUSBAR_QUEUE" => Some("0".into()),
            "BUSBAR_POLL" => Some(" off ".into()),
            "BUSBAR_IDLE" => Some("1".into()),
            "BUSBAR_LOCAL" => Some(String::new()),
            _ => None,
        });
        assert_eq!(off, ["queue", "poll"]);
    }

    #[test]
    fn each_switch_has_a_bit_and_a_name_of_its_own() {
        for (i, a) in Switch::ALL.iter().enumerate() {
            for b in &Switch::ALL[i + 1..] {
                assert_ne!(a.bit(), b.bit());
                assert_ne!(a.name(), b.name());
            }
        }
    }

    #[test]
    fn a_name_of_a_newer_client_is_ignored() {
        set_off(&["idle", "teleport"]);
        assert!(!Switch::Idle.on());
        assert!(Switch::Queue.on());
        set_off::<&str>(&[]);
        assert!(Switch::Idle.on());
    }
}
