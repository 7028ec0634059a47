//! The APIs this build offers, by name.

use crate::Open;
use crate::run::Options;
use serde::{Deserialize, Serialize};

/// Names, and the code that opens a session of each.
pub const APIS: &[(&str, Open)] = &[("cuda", crate::cuda::open), ("opencl", crate::opencl::open)];

/// A device as the probe found it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// The API that reaches it.
    pub api: String,
    /// Its number in that API's list.
    pub ordinal: u32,
    /// What its vendor calls it.
    pub name: String,
    /// Memory in bytes.
    pub memory: u64,
    /// A name for this very device that no other has, where it has one.
    pub uuid: String,
    /// The driver's version, and the platform's where there is one.
    pub driver: String,
    /// CUDA: the version of the driver's API, as `cuDriverGetVersion` says it.
    pub cuda: u32,
    /// CUDA: PCI domain, bus and device.
    pub pci: Option<[u32; 3]>,
    /// CUDA: compute capability.
    pub compute: Option<[u32; 2]>,
    /// CUDA: multiprocessors.
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

/// The devices of the APIs named, as JSON of [`Found`].
pub fn probe(apis: &[String], options: &Options) -> String {
    let mut found = Found::default();
    for api in apis {
        let r: Result<Vec<Device>, String> = match api.as_str() {
            "cuda" => crate::cuda::probe(options.cuda_library.as_deref()),
            "opencl" => crate::opencl::probe(options.opencl_library.as_deref()),
            _ => Err("this build does not know it".into()),
        };
        match r {
            Ok(d) => found.devices.extend(d),
            Err(why) => found.missing.push((api.clone(), why)),
        }
    }
    serde_json::to_string(&found).unwrap_or_default()
}

/// Does what can be done before a session's client is known, so that it need not wait for it.
pub fn warm(options: &Options) {
    // Starting the driver takes a good part of a second, and holds no device memory.
    let _ = crate::cuda::load(options.cuda_library.as_deref());
    crate::opencl::warm(options.opencl_library.as_deref());
}
