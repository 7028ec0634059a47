//! A lease: what is asked for, how it stands with that, and what is reserved in the end.

use crate::queue::{Claim, Standing, Want};
use crate::timeshare::Share;
use std::time::Duration;

/// A lease of devices, or of parts of them.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    /// What it began as: its tenant, its holder, what it has of each device.
    pub claim: Claim,
    /// Places of the leading API's devices.
    pub devices: Vec<usize>,
    /// When it ends, unless a session of it is still there; `None` if it lasts as long as whoever
    /// has it is there.
    pub until: Option<Duration>,
}

impl Lease {
    /// Whether it has whole devices.
    pub fn whole(&self) -> bool {
        self.claim.want == Want::Whole
    }
}

/// Devices that somebody wants to have reserved.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The name of the lease: a secret, which nobody else can guess.
    pub name: &'a str,
    /// Who it is, for people to read.
    pub holder: &'a str,
    /// The devices that will do, by the leading API's ordinals, the best first; none for all.
    pub devices: &'a [u32],
    /// The fewest that are of any use.
    pub least: usize,
    /// The most of them.
    pub most: usize,
    /// What of each.
    pub want: Want,
    /// When it began to wait, in ms of a clock that is the same for all.
    pub since: u64,
}

/// How it stands with a lease that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// In line.
    Waits(Standing),
    /// It has these devices, by ordinal.
    Has(Vec<u32>),
    /// It has ended.
    Over,
}

/// A lease that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its whole name.
    pub name: String,
    /// Who had it.
    pub holder: String,
    /// What it had, by ordinal.
    pub devices: Vec<u32>,
}

/// What a session gets of what its lease has.
pub(crate) struct Drawn {
    pub devices: Vec<usize>,
    pub memory: Option<u64>,
    pub share: Option<Share>,
}
