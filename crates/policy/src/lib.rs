//! What tenants may do at a server: a file says it, and this answers questions about it. Pure: no
//! I/O, and whoever asks says what time it is.
//!
//! The file has an entry for each tenant that is named and one, `[default]`, for all others. What a
//! named entry leaves out is as in `[default]`; what that leaves out has no limit.

#![forbid(unsafe_code)]

mod file;
mod policy;
mod rates;

pub use file::{Mistake, parse};
pub use policy::{Forbidden, Policy, Rules, What};
pub use rates::Rates;
