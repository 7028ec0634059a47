//! The APIs this build offers, by name.

use crate::Offered;
use crate::run::Options;
use busbar_control::device::{Device, Found};

/// What a session may be of.
pub const APIS: &[Offered] = &[
    Offered {
        name: "cuda",
        open: crate::cuda::open,
        beside: |with| vec![Box::new(crate::nccl::Nccl::new(with))],
    },
    Offered {
        name: "opencl",
        open: crate::opencl::open,
        beside: |_| Vec::new(),
    },
];

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

/// Does what can be done for these APIs before a session's client is known, so that it need not
/// wait for it.
pub fn warm(apis: &[String], options: &Options) {
    for api in apis {
        match api.as_str() {
            // Starting the driver takes a good part of a second, and holds no device memory.
            "cuda" => drop(crate::cuda::load(options.cuda_library.as_deref())),
            "opencl" => crate::opencl::warm(options.opencl_library.as_deref()),
            _ => {}
        }
    }
}
