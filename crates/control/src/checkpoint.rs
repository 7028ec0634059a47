//! What a program asks of another one's session by CUDA's checkpoint functions.

use crate::holding::{MOST_DEVICES, OnDevice};
use serde::{Deserialize, Serialize};

/// A step on the way to a checkpoint and back. Each is a function of the driver's, which says in
/// which state the session must be for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// None: how far it is.
    #[default]
    State,
    /// Let what was submitted end, and no call of the driver's begin.
    Lock {
        /// For so long it may take; 0 for however long.
        timeout_ms: u32,
    },
    /// Bring what is on the devices to host memory, and give the devices back.
    Checkpoint,
    /// Have it on the devices again.
    Restore,
    /// Let calls go on.
    Unlock,
}

impl Step {
    /// What undoes it.
    pub fn undone_by(self) -> Option<Self> {
        match self {
            Self::Lock { .. } => Some(Self::Unlock),
            Self::Checkpoint => Some(Self::Restore),
            Self::State | Self::Restore | Self::Unlock => None,
        }
    }
}

/// Of [`Reached::state`]: its calls wait.
pub const LOCKED: u32 = 1;
/// And it has nothing of its devices.
pub const CHECKPOINTED: u32 = 2;
/// It could not be restored.
pub const FAILED: u32 = 3;

/// Of [`Reached::status`]: the step was taken.
pub const TAKEN: i32 = 0;
/// There is no room on a device.
pub const OUT_OF_MEMORY: i32 = 2;
/// The session is not in the state for it.
pub const ILLEGAL_STATE: i32 = 401;
/// What was submitted did not end in time.
pub const NOT_READY: i32 = 600;
/// The session has what cannot be checkpointed.
pub const NOT_SUPPORTED: i32 = 801;

/// What one is called that has given way to others, and comes back by itself.
pub const SWAPPED: &str = "swapped";

/// What a session's state is called where people read it; nothing while it runs.
pub fn name_of(state: u32) -> &'static str {
    match state {
        LOCKED => "locked",
        CHECKPOINTED => "checkpointed",
        FAILED => "failed",
        _ => "",
    }
}

/// Which way what a session has on its devices goes when its server has it give way to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Swap {
    /// To host memory: the session is locked and checkpointed, or neither.
    Out {
        /// Only if it has executed so many records and there is nothing to do; otherwise it stays.
        idle_since: Option<u64>,
    },
    /// Back: it is restored and unlocked, or neither.
    In,
}

/// What became of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reached {
    /// What the driver said: a `CUresult`.
    pub status: i32,
    /// In which state the session is: a `CUprocessState`.
    pub state: u32,
    /// What it had of its devices when it was locked, as far as that is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub had: Vec<OnDevice>,
    /// What devices lack, where there is no room to restore it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<OnDevice>,
}

impl Reached {
    /// What became of a step that nobody asked a driver for.
    pub fn without_driver(status: i32, state: u32) -> Self {
        Self {
            status,
            state,
            ..Self::default()
        }
    }

    /// Makes of what somebody says what can be kept.
    pub(crate) fn tame(&mut self) {
        self.had.truncate(MOST_DEVICES);
        self.lacks.truncate(MOST_DEVICES);
    }
}
