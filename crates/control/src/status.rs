//! What a server has, who uses it, and what it gives to whom.

use crate::device::Device;
use crate::gpu::{Gpus, Said};
use crate::hello::Job;
use crate::holding::Holding;
use serde::{Deserialize, Serialize};

/// Letters of a lease's name that are shown. Whole it is a secret: anyone who knows it is in the
/// lease.
const SHOWN: usize = 8;
/// Bytes of a document that are kept free for what it travels in.
const ENVELOPE: usize = 4096;

/// The answer to a hello that asks for the status: what `busbar devices` and `busbar ps` show, and
/// what NVML is answered from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The server's release.
    pub version: String,
    /// How long it has been running.
    pub uptime_seconds: u64,
    /// The devices that it offers.
    pub devices: Vec<Listed>,
    /// What its policy has against any session of whoever asks.
    pub forbidden: Option<String>,
    /// Its sessions that whoever asks may see, the oldest first.
    pub sessions: Vec<Session>,
    /// How many more there are, for which the document has no room.
    pub sessions_left_out: usize,
    /// What is reserved.
    pub leases: Vec<Lease>,
    /// Who stands in line for devices, the first first.
    pub waiting: Vec<Waiting>,
    /// How many more do, for which the document has no room.
    pub waiting_left_out: usize,
    /// For each API without devices, why.
    pub missing: Vec<(String, String)>,
    /// What NVML says of its GPUs.
    pub gpus: Gpus,
    /// What its NVML said to the one question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<Said>,
}

/// A device that a server offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The device.
    #[serde(flatten)]
    pub device: Device,
    /// How many sessions use it.
    #[serde(default)]
    pub used_by: usize,
    /// The bytes of its memory that are promised to sessions.
    #[serde(default)]
    pub promised: u64,
    /// The thousandths of its time that are.
    #[serde(default)]
    pub promised_share: u32,
    /// Who has leased it, if anyone has.
    #[serde(default)]
    pub lease: Option<String>,
    /// Whether a session of whoever asks gets it.
    #[serde(default = "yes")]
    pub yours: bool,
}

/// An older server does not say whose its devices are; a session that cannot have one is refused.
fn yes() -> bool {
    true
}

/// A session, as others see it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its public name.
    pub session: String,
    /// Its API.
    #[serde(default)]
    pub api: String,
    /// The devices that it may use, by ordinal.
    #[serde(default)]
    pub devices: Vec<u32>,
    /// Whether it has a connection at the moment.
    #[serde(default)]
    pub connected: bool,
    /// Where that comes from.
    #[serde(default)]
    pub peer: String,
    /// Whether that is encrypted.
    #[serde(default)]
    pub encrypted: bool,
    /// What the bytes of its connection pass: `tcp`, `rdma`.
    #[serde(default)]
    pub path: String,
    /// The name of the token or certificate that was shown, and whose it is.
    #[serde(default)]
    pub token: String,
    /// See `token`.
    #[serde(default)]
    pub tenant: String,
    /// The client's host, user, process and program, as it says.
    #[serde(default)]
    pub host: String,
    /// See `host`.
    #[serde(default)]
    pub user: String,
    /// See `host`.
    #[serde(default)]
    pub pid: i32,
    /// Whether its process is one of the asking program's machine, where `pid` means it.
    #[serde(default)]
    pub here: bool,
    /// See `host`.
    #[serde(default)]
    pub program: String,
    /// The job that it is of, and which rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
    /// How its collectives go to other servers: `socket` or `ib`; empty where it is of no job.
    #[serde(default)]
    pub network: String,
    /// What was said last of calls of its job that stand still; empty once they have gone on.
    #[serde(default)]
    pub stall: String,
    /// Where another program has left it by CUDA's checkpoint functions: `locked`, `checkpointed`,
    /// `failed`; `swapped` where it has given way to others; empty while it runs.
    #[serde(default)]
    pub checkpoint: String,
    /// The worker's process.
    #[serde(default)]
    pub worker_pid: u32,
    /// The lease that it belongs to, as far as that is shown.
    #[serde(default)]
    pub lease: Option<String>,
    /// The most bytes of device memory that it may have, if there is a most; whether they are
    /// promised to it.
    #[serde(default)]
    pub memory_limit: Option<u64>,
    /// See `memory_limit`.
    #[serde(default)]
    pub promised: bool,
    /// The thousandths of its devices' time that are promised to it, if any are.
    #[serde(default)]
    pub share: Option<u32>,
    /// That is others' at the moment: it has done nothing for long.
    #[serde(default)]
    pub lent: bool,
    /// Who goes first, the higher.
    #[serde(default)]
    pub priority: i32,
    /// Whether its kernels run beside those of its login's other dense sessions.
    #[serde(default)]
    pub dense: bool,
    /// What it has had of the time of each of its devices; `None` of one without turns.
    #[serde(default)]
    pub time: Vec<Option<Time>>,
    /// How long it has lasted.
    #[serde(default)]
    pub seconds: u64,
    /// When it was opened, in seconds since 1970, by the server's clock.
    #[serde(default)]
    pub opened: u64,
    /// Bytes a second that came and went since somebody asked last, a second ago at least, if that
    /// was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// What it holds, if that was asked for.
    #[serde(default, flatten)]
    pub holding: Holding,
}

/// What a session has had of a device's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Time {
    /// Of the last second, in thousandths.
    pub second: u32,
    /// Of the last minute.
    pub minute: u32,
    /// In all, in ms.
    pub used_ms: u64,
    /// How long it has waited for its turn, in ms.
    pub waited_ms: u64,
    /// Whether it waits for its turn now.
    pub waits: bool,
}

/// A lease, as others see it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its name, as far as that is shown.
    pub lease: String,
    /// Who holds it.
    #[serde(default)]
    pub holder: String,
    /// Whose it is.
    #[serde(default)]
    pub tenant: String,
    /// What is reserved, by ordinal.
    #[serde(default)]
    pub devices: Vec<u32>,
    /// Whether it has these as a whole.
    #[serde(default)]
    pub whole: bool,
    /// Else the bytes of memory that are promised to it, of each.
    #[serde(default)]
    pub memory: u64,
    /// And the thousandths of time.
    #[serde(default)]
    pub share: u32,
    /// How many sessions it has.
    #[serde(default)]
    pub sessions: usize,
    /// How long it lasts still if no session is there; absent where it lasts as long as the command
    /// that has it.
    #[serde(default)]
    pub seconds_left: Option<u64>,
    /// How long the server will have been running then.
    #[serde(default)]
    pub until: Option<u64>,
    /// Whether it is the one that the hello names.
    #[serde(default)]
    pub yours: bool,
}

/// Somebody who stands in line, as others see it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// The name of the lease to be, as far as that is shown.
    pub lease: String,
    /// Who waits.
    pub holder: String,
    /// Whose it is.
    pub tenant: String,
    /// The place in line, from 1, among all who stand there.
    pub place: usize,
    /// Who goes first, the higher.
    pub priority: i32,
    /// Since when it waits, in ms since 1970.
    pub since: u64,
    /// The devices that will do, by ordinal.
    pub devices: Vec<u32>,
    /// How many of them are wanted.
    pub wanted: usize,
    /// Whether as a whole.
    pub whole: bool,
    /// Else the bytes of memory, of each.
    pub memory: u64,
    /// And the thousandths of time.
    pub share: u32,
    /// What can be had at the moment, by ordinal.
    pub offer: Vec<u32>,
    /// Some of those who stand before and want some of the same devices.
    pub ahead: Vec<String>,
    /// Some of those who have them.
    pub holders: Vec<String>,
}

/// What of a lease's name may be shown.
pub fn shown(lease: &str) -> &str {
    &lease[..lease.floor_char_boundary(SHOWN)]
}

fn size(part: &impl Serialize) -> usize {
    serde_json::to_vec(part).map_or(0, |v| v.len() + 1)
}

impl Status {
    /// Leaves out sessions for which there is no room in `most` bytes, and says how many.
    pub fn fit(&mut self, most: usize) {
        let all = std::mem::take(&mut self.sessions);
        let mut room = most.saturating_sub(ENVELOPE + size(self));
        let fits = all.iter().take_while(|s| {
            let left = room.checked_sub(size(s));
            room = left.unwrap_or(0);
            left.is_some()
        });
        let n = fits.count();
        self.sessions_left_out = all.len() - n;
        self.sessions = all;
        self.sessions.truncate(n);
    }
}
