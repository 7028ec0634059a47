//! The C types of the forwarded APIs, and tables of their functions. No logic.

pub mod cupti;
pub mod generated;
pub mod opencl;
mod plain;

pub use generated::*;
pub use plain::{
    Plain, bytes_of, from_bytes, items_from_bytes, member, set_member, slice_bytes, to_array,
    to_vec, zeroed,
};

/// An argument's check: fails with `why` if the argument is `bad`.
#[inline(always)]
pub fn refuse_if<E>(bad: bool, why: E) -> Result<(), E> {
    if bad { Err(why) } else { Ok(()) }
}
