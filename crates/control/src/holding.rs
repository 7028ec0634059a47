//! What a session holds at its worker.

use crate::text::is_plain;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most kinds of anything, the longest name of one, and the most bytes or pieces of one: of
/// that many kinds and sessions the sum is a number still.
const MOST_KINDS: usize = 64;
const MOST_NAME: usize = 64;
/// The most devices of which something is said.
pub(crate) const MOST_DEVICES: usize = 256;
const MOST: u64 = 1 << 47;
/// The most that connections carry.
const MOST_CARRIED: u64 = 1 << 53;

/// How many objects of each kind live, and how much device memory there is by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holding {
    /// Objects by kind, without kinds of which there are none.
    pub objects: BTreeMap<String, u64>,
    /// Device memory by kind, without kinds of which there never was any.
    pub memory: BTreeMap<String, Memory>,
    /// What of it is on which device.
    pub device_memory: Vec<OnDevice>,
    /// Page-locked memory of the host by kind, likewise.
    pub host_memory: BTreeMap<String, Memory>,
    /// What has gone over its connections.
    pub traffic: Traffic,
}

/// What a session's connections have carried since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Records that were executed: calls, launches, copies.
    pub records: u64,
    /// Those that the program waited for.
    pub round_trips: u64,
    /// Bytes that came.
    pub bytes_in: u64,
    /// Bytes that went out.
    pub bytes_out: u64,
    /// How many of those that came took a queue pair.
    pub rdma_in: u64,
    /// How many of those that went out did.
    pub rdma_out: u64,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, mut o: Self) {
        for (mine, theirs) in self.each().into_iter().zip(o.each()) {
            *mine = mine.saturating_add(*theirs);
        }
    }
}

/// Memory of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Pieces that there are.
    pub pieces: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The most bytes that there were at a time.
    pub most: u64,
}

/// Memory of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnDevice {
    /// The device's ordinal.
    pub device: u32,
    /// How much it is.
    pub bytes: u64,
}

impl Traffic {
    fn each(&mut self) -> [&mut u64; 6] {
        [
            &mut self.records,
            &mut self.round_trips,
            &mut self.bytes_in,
            &mut self.bytes_out,
            &mut self.rdma_in,
            &mut self.rdma_out,
        ]
    }

    /// Bytes that came and went, over everything and over queue pairs.
    pub fn bytes(&self) -> (u64, u64) {
        let both = |a: u64, b| a.saturating_add(b);
        (
            both(self.bytes_in, self.bytes_out),
            both(self.rdma_in, self.rdma_out),
        )
    }
}

/// Leaves so many kinds whose names can be shown.
fn tame<T>(kinds: &mut BTreeMap<String, T>, mut number: impl FnMut(&mut T)) {
    kinds.retain(|name, _| name.len() <= MOST_NAME && name.chars().all(is_plain));
    while kinds.len() > MOST_KINDS {
        kinds.pop_last();
    }
    kinds.values_mut().for_each(&mut number);
}

impl Holding {
    /// Bytes of all kinds.
    pub fn bytes(&self) -> u64 {
        let all = self.memory.values().map(|m| m.bytes);
        all.fold(0, u64::saturating_add)
    }

    /// Bytes on one device.
    pub fn bytes_on(&self, device: u32) -> u64 {
        let on = self.device_memory.iter().find(|on| on.device == device);
        on.map_or(0, |on| on.bytes)
    }

    /// Makes of what somebody says what can be kept, added up and shown.
    pub(crate) fn tame(&mut self) {
        let memory = |m: &mut Memory| {
            for n in [&mut m.pieces, &mut m.bytes, &mut m.most] {
                *n = MOST.min(*n);
            }
        };
        tame(&mut self.objects, |n| *n = MOST.min(*n));
        tame(&mut self.memory, memory);
        tame(&mut self.host_memory, memory);
        self.device_memory.truncate(MOST_DEVICES);
        for on in &mut self.device_memory {
            on.bytes = MOST.min(on.bytes);
        }
        for n in self.traffic.each() {
            *n = MOST_CARRIED.min(*n);
        }
    }
}

/// `12 Event, 3 Stream`, and so of bytes; what is none is `none`.
pub fn list(objects: &BTreeMap<String, u64>) -> String {
    if objects.is_empty() {
        return "none".into();
    }
    let each = objects.iter().map(|(kind, n)| format!("{n} {kind}"));
    each.collect::<Vec<_>>().join(", ")
}
