//! A session, and what is known of it.

use super::groups::Group;
use super::identity::Who;
use super::workers::Worker;
use busbar_control::hello::ClientInfo;
use busbar_control::holding::{Holding, Traffic};
use busbar_control::status::Time;
use busbar_web::Had;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// A session as the server sees it.
pub(crate) struct SessionEntry {
    pub api: String,
    pub secret: String,
    pub client: ClientInfo,
    /// Who opened it, as the server knows.
    pub who: Who,
    pub peer: String,
    pub encrypted: bool,
    /// What its bytes pass, once its worker has said so.
    pub path: String,
    pub since: Instant,
    pub opened: SystemTime,
    pub connected: bool,
    /// What it held when its worker last said so, and how often it has.
    pub holding: Holding,
    pub told: u64,
    /// What it has had of its devices, by ordinal, when that was last looked at.
    pub had: BTreeMap<u32, Had>,
    /// What it has in common with the other ranks of its job.
    pub group: Option<Group>,
    /// Whether it has communicators, and others may wait for it.
    pub joined: bool,
    /// Whether it has heard that one of those is gone, and has not ended its communicators yet.
    pub bereft: bool,
    pub worker: Arc<Worker>,
}

impl SessionEntry {
    /// Keeps what it has had of its devices; nothing of it is ever less than it was.
    pub(super) fn keep_time(&mut self, devices: &[u32], time: &[Option<Time>]) {
        for (device, t) in devices.iter().zip(time) {
            let Some(t) = t else { continue };
            let had = self.had.entry(*device).or_default();
            had.used_ms = had.used_ms.max(t.used_ms);
            had.waited_ms = had.waited_ms.max(t.waited_ms);
        }
    }

    /// Keeps what its worker says of it; nothing that is counted is ever less than it was.
    pub(super) fn keep_holding(&mut self, holding: Holding) {
        let (old, new) = (self.holding.traffic, holding.traffic);
        self.holding = holding;
        self.holding.traffic = Traffic {
            records: old.records.max(new.records),
            round_trips: old.round_trips.max(new.round_trips),
            bytes_in: old.bytes_in.max(new.bytes_in),
            bytes_out: old.bytes_out.max(new.bytes_out),
        };
    }
}
