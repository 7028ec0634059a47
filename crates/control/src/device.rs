//! Devices, as the probe that looks for them describes them.

use serde::{Deserialize, Serialize};

/// A device of one API's list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The API that reaches it: `cuda`, `opencl`.
    pub api: String,
    /// The number that the API's library knows it by.
    pub ordinal: u32,
    /// `gpu`, or `cpu` where its kernels run on the machine's processors.
    #[serde(default)]
    pub kind: String,
    /// What its vendor calls it.
    #[serde(default)]
    pub name: String,
    /// Memory in bytes.
    #[serde(default)]
    pub memory: u64,
    /// A name for this very device that no other has, where it has one.
    #[serde(default)]
    pub uuid: String,
    /// The driver's version, and the platform's where there is one.
    #[serde(default)]
    pub driver: String,
    /// CUDA: the version of the driver's API, as `cuDriverGetVersion` says it.
    #[serde(default)]
    pub cuda: u32,
    /// CUDA: PCI domain, bus and device.
    #[serde(default)]
    pub pci: Option<[u32; 3]>,
    /// CUDA: compute capability.
    #[serde(default)]
    pub compute: Option<[u32; 2]>,
    /// CUDA: multiprocessors.
    #[serde(default)]
    pub processors: Option<u32>,
}

/// What a probe found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The devices.
    pub devices: Vec<Device>,
    /// For each API without devices, why.
    pub missing: Vec<(String, String)>,
}
