//! Checkpoints of this process, by its driver.
//!
//! The driver takes steps of its own process as it does of others, and lets every other call wait
//! while it is locked: records that come are executed once it is unlocked.

use super::prelude::*;
use crate::checkpoint::Checkpoints;
use crate::turn::Turn;
use busbar_control::checkpoint::{Reached, Step};
use std::ptr::null_mut;

/// What takes the steps of a session.
pub struct Steps {
    driver: &'static Driver,
    checkpoints: Checkpoints,
    turn: Turn,
    /// Devices that are others' meanwhile.
    left: Mutex<Vec<usize>>,
}

impl Steps {
    /// Has `checkpoints` take them.
    pub fn serve(driver: &'static Driver, checkpoints: Checkpoints, turn: Turn) {
        let taken = checkpoints.clone();
        let steps = Self {
            driver,
            checkpoints,
            turn,
            left: Mutex::default(),
        };
        taken.on_step(move |step| steps.take(step));
    }

    fn take(&self, step: Step) -> Reached {
        let (w, pid) = (self.driver, std::process::id() as i32);
        // SAFETY: plain values, null where the driver takes nothing, and a live structure.
        let status = unsafe {
            match step {
                Step::State => CUDA_SUCCESS,
                Step::Lock { timeout_ms } => {
                    let mut args = CUcheckpointLockArgs {
                        timeoutMs: timeout_ms,
                        reserved0: 0,
                        reserved1: [0; 7],
                    };
                    w.cuCheckpointProcessLock(pid, &mut args)
                }
                Step::Checkpoint => w.cuCheckpointProcessCheckpoint(pid, null_mut()),
                Step::Restore => w.cuCheckpointProcessRestore(pid, null_mut()),
                Step::Unlock => w.cuCheckpointProcessUnlock(pid, null_mut()),
            }
        };
        match (step, status) {
            // All that was submitted has ended: nobody waits for this session's turn to end.
            (Step::Lock { .. }, CUDA_SUCCESS) => {
                self.checkpoints.lock(true);
                *lock(&self.left) = self.turn.leave();
            }
            (Step::Unlock, CUDA_SUCCESS) => {
                self.checkpoints.lock(false);
                let left = std::mem::take(&mut *lock(&self.left));
                left.into_iter().for_each(|device| self.turn.come(device));
            }
            _ => {}
        }
        let mut state = 0;
        // SAFETY: a live integer.
        let said = unsafe { w.cuCheckpointProcessGetState(pid, &mut state) };
        let status = if status == CUDA_SUCCESS { said } else { status };
        Reached { status, state }
    }
}
