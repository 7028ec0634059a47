//! NVML, the library that monitoring tools and frameworks ask about GPUs, answered from the status
//! of a Busbar server. No session is opened.
//!
//! `spec/nvml` says of each function whether it is answered. `machine` holds what the server said
//! and asks again, `entry` has the functions that are answered, `life` is what every call goes
//! through. What the server does not know is answered with `NVML_ERROR_NOT_SUPPORTED`; nothing is
//! made up.

// Functions of the API keep their C names.
#![allow(non_snake_case)]

mod ask;
mod counters;
mod entry;
pub mod generated;
mod life;
mod machine;
mod own;
mod place;
mod sets;
mod strangers;
