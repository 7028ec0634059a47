//! What a server says of its RDMA devices, and the steps by which two machines measure what lies
//! between them: the conversation behind [`Intent::Fabric`](crate::hello::Intent::Fabric).
//!
//! The server's welcome has a [`Machine`]. Each [`Step`] that the client then says gets one
//! [`Reply`], both as frames of the hello's kind and the welcome's. Two servers never talk to each
//! other: the client takes each one's [`Card`] to the other.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What can be read about the RDMA devices of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Its name for itself.
    pub host: String,
    /// Whether the server moves sessions to RDMA: `auto`, `on`, `off`.
    pub rdma: String,
    /// Its devices.
    pub devices: Vec<Device>,
}

/// An RDMA device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// As the kernel calls it.
    pub name: String,
    /// What follows is absent where it cannot be read.
    pub driver: Option<String>,
    /// Of the driver.
    pub version: Option<String>,
    /// Of the device.
    pub firmware: Option<String>,
    /// Virtual functions (SR-IOV) that there are, and that there can be.
    pub functions: Option<[u32; 2]>,
    /// Its ports.
    pub ports: Vec<Port>,
}

/// A port of one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
    /// From 1.
    pub number: u32,
    /// `ACTIVE`, `DOWN`, ...
    pub state: String,
    /// `LinkUp`, `Polling`, `Disabled`, ...
    pub physical: String,
    /// `Ethernet`, `InfiniBand`.
    pub link: String,
    /// Gb/s.
    pub rate: Option<f64>,
    /// Its addresses.
    pub gids: Vec<Gid>,
    /// The network device that it belongs to.
    pub net: Option<Net>,
    /// What it has counted, by name; what its network device has of pauses and losses begins with
    /// `net.`.
    pub counters: BTreeMap<String, u64>,
}

/// An address of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gid {
    /// Which one.
    pub index: u32,
    /// As an IPv6 address.
    pub gid: String,
    /// `IB/RoCE v1`, `RoCE v2`.
    pub kind: String,
}

/// The network device of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Net {
    /// Its name.
    pub name: String,
    /// The most bytes of a packet of IP.
    pub mtu: Option<u32>,
    /// Priorities with flow control (PFC), as `dcb` says them; absent where it cannot be read.
    pub pfc: Option<String>,
    /// Priorities with notices of congestion (ECN), of the receiver and the sender; likewise.
    pub ecn: Option<String>,
    /// Which priority packets get, by their DSCP; likewise.
    pub dscp: Option<String>,
}

/// What a process at one end is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// Say what a session's worker would find.
    Look,
    /// Make a queue pair with packets of at most so many bytes, in the place of the one before.
    Open {
        /// `None` for as many as the port takes.
        mtu: Option<u16>,
    },
    /// Connect it to the other end's, which may write from now on.
    Connect {
        /// The other end's.
        card: Card,
    },
    /// Write to the other end for so long, and at least once.
    Write {
        /// In ms.
        ms: u32,
    },
    /// As [`Step::Write`], by reads of what the other end has.
    Read {
        /// In ms.
        ms: u32,
    },
    /// Write a word and wait for one, so many times.
    RoundTrips {
        /// How often.
        count: u32,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// See [`Step::Look`].
    Sees(Sight),
    /// The queue pair is there.
    Opened {
        /// What the other end has to know of it.
        card: Card,
    },
    /// It is connected.
    Connected,
    /// So much was written, or read.
    Wrote {
        /// Bytes.
        bytes: u64,
        /// In so many ns.
        ns: u64,
    },
    /// How long the way there and back takes, in ns.
    Took {
        /// Half of them took no longer.
        median: u64,
        /// 99 of 100 took no longer.
        p99: u64,
    },
    /// It cannot be done.
    Failed {
        /// Why.
        why: String,
    },
}

/// What a session's worker would find.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sight {
    /// The most bytes of memory that it may lock; absent for no limit.
    pub memlock: Option<u64>,
    /// Why it has no libibverbs.
    pub no_library: Option<String>,
    /// The port that it would use: device, number, index of the address.
    pub port: Option<(String, u32, u32)>,
    /// Why it has none.
    pub no_port: Option<String>,
}

/// What the other end has to know of a queue pair.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The port's address.
    pub gid: [u8; 16],
    /// Its short address; 0 on Ethernet.
    pub lid: u16,
    /// The queue pair's number.
    pub pair: u32,
    /// The first packet's.
    pub packet: u32,
    /// The largest packet, as verbs count: 1 for 256 bytes to 5 for 4096.
    pub mtu: u8,
    /// Where the memory begins that may be written.
    pub at: u64,
    /// Its key.
    pub key: u32,
}
