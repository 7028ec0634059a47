//! What a session holds at its worker.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many objects of each kind live, and how much device memory there is by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holding {
    /// Objects by kind, without kinds of which there are none.
    pub objects: BTreeMap<String, u64>,
    /// Device memory by kind, without kinds of which there never was any.
    pub memory: BTreeMap<String, Memory>,
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
    fn add_assign(&mut self, o: Self) {
        self.records += o.records;
        self.round_trips += o.round_trips;
        self.bytes_in += o.bytes_in;
        self.bytes_out += o.bytes_out;
        self.rdma_in += o.rdma_in;
        self.rdma_out += o.rdma_out;
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

impl Traffic {
    /// Bytes that came and went, over everything and over queue pairs.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes_in + self.bytes_out, self.rdma_in + self.rdma_out)
    }
}

impl Holding {
    /// Bytes of all kinds.
    pub fn bytes(&self) -> u64 {
        self.memory.values().map(|m| m.bytes).sum()
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
