//! Questions that the server's NVML answers: the program's arguments go there, and what is behind
//! its pointers comes back.

use super::machine::{self, Gpu};
use busbar_abi::nvml::*;
use busbar_control::gpu::{self, Question};
use busbar_control::text::{from_hex, to_hex};

/// The most bytes of one argument.
const MOST: usize = 32 << 10;

/// An argument of the program's.
pub enum Arg {
    /// The GPU that is asked about.
    Device,
    /// A number.
    Value(u64),
    /// A place, and what is there; none for a null pointer.
    Place(*mut u8, Option<Vec<u8>>),
}

/// So many values come back. What is there goes in, as it does where the function is called: of
/// some it is read, and what a function leaves alone stays as it was.
///
/// # Safety
/// `p` is null, or they are there.
pub unsafe fn out_array<T>(p: *mut T, n: Result<usize>) -> Result<Arg> {
    let len = n?.checked_mul(size_of::<T>()).filter(|n| *n <= MOST);
    let len = len.ok_or(NVML_ERROR_INVALID_ARGUMENT)?;
    // SAFETY: passed on to the caller.
    let bytes = || unsafe { std::slice::from_raw_parts(p.cast::<u8>(), len) }.to_vec();
    Ok(Arg::Place(p.cast(), (!p.is_null()).then(bytes)))
}

/// One value comes back, as in [`out_array`].
///
/// # Safety
/// `p` is null, or it is there.
pub unsafe fn out<T>(p: *mut T) -> Result<Arg> {
    // SAFETY: passed on to the caller.
    unsafe { out_array(p, Ok(1)) }
}

/// How many values a list has, as the program says in a place.
///
/// # Safety
/// `p` is null, or it is there.
pub unsafe fn length(p: *const u32) -> Result<usize> {
    refuse_if(p.is_null(), NVML_ERROR_INVALID_ARGUMENT)?;
    // SAFETY: passed on to the caller.
    Ok(unsafe { p.read() } as usize)
}

/// A structure whose first word says its version, and in its lower bits its size.
///
/// # Safety
/// `p` is null, or what its first word says is there.
pub unsafe fn versioned<T>(p: *mut T) -> Result<Arg> {
    // SAFETY: passed on to the caller.
    let version = unsafe { length(p.cast())? };
    let (size, number) = (version & 0xff_ffff, version >> 24);
    let known = (8..=MOST).contains(&size) && number > 0;
    refuse_if(!known, NVML_ERROR_ARGUMENT_VERSION_MISMATCH)?;
    // SAFETY: passed on to the caller.
    unsafe { out_array(p.cast::<u8>(), Ok(size)) }
}

/// Asks the server's NVML.
///
/// # Safety
/// The places are the program's.
pub unsafe fn ask(of: Option<&Gpu>, function: &str, args: &[Arg]) -> Result {
    let told = |a: &Arg| match a {
        Arg::Device => gpu::Arg::Gpu,
        Arg::Value(n) => gpu::Arg::Value(*n),
        Arg::Place(_, bytes) => gpu::Arg::Bytes(bytes.as_deref().map(to_hex)),
    };
    let question = Question {
        function: function.into(),
        gpu: of.map(|g| g.facts.uuid.clone()).unwrap_or_default(),
        args: args.iter().map(told).collect(),
    };
    let said = machine::ask(of.map_or(0, |g| g.facts.server), question)?;
    let places = args.iter().filter_map(|a| match a {
        Arg::Place(p, Some(bytes)) => Some((*p, bytes.len())),
        _ => None,
    });
    for ((p, n), bytes) in places.zip(&said.bytes) {
        let bytes = from_hex(bytes).filter(|b| b.len() == n);
        let bytes = bytes.ok_or(NVML_ERROR_UNKNOWN)?;
        // SAFETY: the caller's promise: that many bytes are there.
        unsafe { p.copy_from(bytes.as_ptr(), n) };
    }
    refuse_if(said.code != NVML_SUCCESS, said.code)
}
