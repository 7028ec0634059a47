//! What of the program's a CUDA worker may ask for: functions, and bytes to read.
//!
//! The client names each by a token, and keeps to itself what the token stands for. The worker says
//! of every token what becomes of it: that it is to run, once or as often as a graph is launched,
//! and for one that may run often, or that never ran, that it is gone.

use crate::WireError;

/// `HostFunction.kind`: a function that runs once.
pub const HOST_FUNCTION: u32 = 0;
/// A stream's callback, which hears of the stream's error.
pub const STREAM_CALLBACK: u32 = 1;
/// A function that becomes a node of a graph if its stream captures. The worker says when it is
/// gone, whatever it became.
pub const MAYBE_CAPTURED: u32 = 2;

/// What a callback notice of a CUDA session is about: it is in the place of the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Word {
    /// What has a token is to run; the payload is a `RunPromised`.
    Run = 0,
    /// A token will not be used again; the payload is the token, a `u64`.
    Gone = 1,
    /// A line of the driver's log; the payload is a `LogLine`.
    LogLine = 2,
    /// A mirror is gone; the payload is its number, a `u32`.
    MirrorGone = 3,
    /// What devices have changed in memory that is open to the program; the payload is a
    /// `MemoryTold`.
    MemoryTold = 4,
}

impl Word {
    /// What a status means.
    pub fn from_status(status: i32) -> Result<Self, WireError> {
        [
            Self::Run,
            Self::Gone,
            Self::LogLine,
            Self::MirrorGone,
            Self::MemoryTold,
        ]
        .into_iter()
        .find(|w| *w as i32 == status)
        .ok_or(WireError::BadValue("kind of callback"))
    }
}
