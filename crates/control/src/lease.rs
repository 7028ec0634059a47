//! Leases: what somebody asks for whose hello says [`Intent::Lease`](crate::hello::Intent::Lease),
//! and what is said afterwards over the same connection.
//!
//! The client stands in line as long as the connection lasts. The server says how it stands
//! ([`Standing`], in a welcome), now and whenever that changes; the client takes what is on offer,
//! or gives it back, or lets go of it ([`Word`]), and each word is answered. What is taken lasts as
//! long as the connection, unless it is kept.

use crate::talk::{Loss, Talk};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a program that has ended may take to give back what it had: for so long whoever comes
/// next waits unasked for what is taken.
pub const SETTLE_TIME: Duration = Duration::from_secs(2);

/// What is to be reserved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reserve {
    /// The lease's name, which the client makes of random letters: it is a secret, and the same at
    /// all servers that have a part of the lease.
    pub name: String,
    /// The devices that will do, by ordinal, the best first; none for all.
    pub devices: Vec<u32>,
    /// The fewest that are of any use.
    pub least: u32,
    /// The most that are.
    pub most: u32,
    /// Whole devices; else what follows of each.
    pub whole: bool,
    /// The bytes of memory that are to be promised.
    pub memory: u64,
    /// The thousandths of time.
    pub share: u32,
    /// Since when it waits, in ms since 1970, if it has begun to at another server.
    pub since: Option<u64>,
    /// How many seconds it is going to wait.
    pub wait: u64,
    /// Take what is on offer at once, if that is enough: nothing is wanted of another server.
    pub take: bool,
}

/// What a client says that stands in line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// It takes these devices, which are on offer.
    Take(Vec<u32>),
    /// It gives back what it has, and stands where it stood.
    Back,
    /// What it has lasts for so many seconds, whether its connection does or not.
    Keep(u64),
    /// A rank of its job is gone, at another server: those here are to hear which one, and why.
    Lost(String),
    /// The same, with what it was a member of.
    Loss(Loss),
    /// What a rank of its job says at another server, for those here.
    Talk(Talk),
}

/// How it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Standing {
    /// How many words have been answered.
    pub answers: u64,
    /// Since when the client waits, as all servers are to count it.
    pub since: u64,
    /// What it has.
    pub has: Vec<u32>,
    /// What it can take.
    pub offer: Vec<u32>,
    /// Its place in line, from 1.
    pub place: usize,
    /// Who stands before it and wants some of the same devices.
    pub ahead: Vec<String>,
    /// Who has them.
    pub holders: Vec<String>,
    /// What was said last of a rank here that its job has lost; empty for nothing.
    pub lost: String,
    /// The last of these, each with its number, and with what it was a member of; absent from a
    /// server that does not know [`Word::Loss`].
    pub losses: Option<Vec<(u64, Loss)>>,
    /// The communicators that ranks here have: what is lost with the server.
    pub comms: Vec<u64>,
    /// What ranks here have said last for those at other servers, each with its number; absent from
    /// a server that does not know [`Word::Talk`].
    pub talk: Option<Vec<(u64, Talk)>>,
}
