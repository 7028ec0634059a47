//! Checkpoints of this process, by its driver.
//!
//! The driver takes steps of its own process as it does of others, and lets every other call wait
//! while it is locked: records that come are executed once it is unlocked.
//!
//! NVML's calls wait as well: what the process has of its devices, which the server has to know
//! before it has it restored, is asked before the driver is locked.

use super::prelude::*;
use super::taken::named;
use crate::Setup;
use crate::checkpoint::Checkpoints;
use crate::nvml::own::{Device, Own};
use crate::turn::Turn;
use busbar_control::checkpoint::{Reached, Step};
use busbar_control::holding::OnDevice;
use std::ptr::null_mut;

/// NVML, and what it calls the session's devices.
struct Places {
    nvml: Own,
    devices: Vec<(u32, Device)>,
}

/// What takes the steps of a session.
pub struct Steps {
    driver: &'static Driver,
    checkpoints: Checkpoints,
    turn: Turn,
    devices: Vec<i32>,
    /// NVML's library, if it is another than the system's.
    library: Option<String>,
    /// What NVML calls the devices, once it was asked.
    places: OnceLock<Option<Places>>,
    /// What the process had of them when it was locked.
    had: Mutex<Vec<OnDevice>>,
    /// Devices that are others' meanwhile.
    left: Mutex<Vec<usize>>,
}

impl Steps {
    /// Has the session's checkpoints take them.
    pub fn serve(driver: &'static Driver, setup: &Setup, devices: &[i32]) {
        let steps = Self {
            driver,
            checkpoints: setup.checkpoints.clone(),
            turn: setup.turn.clone(),
            devices: devices.to_vec(),
            library: setup.nvml.clone(),
            places: OnceLock::new(),
            had: Mutex::default(),
            left: Mutex::default(),
        };
        setup.checkpoints.on_step(move |step| steps.take(step));
    }

    fn find_places(&self) -> Option<Places> {
        let nvml = Own::load(self.library.as_deref())?;
        let place = |dev: &i32| {
            let ordinal = u32::try_from(*dev).ok()?;
            Some((ordinal, named(self.driver, &nvml, *dev)?))
        };
        let devices = self.devices.iter().filter_map(place).collect();
        Some(Places { nvml, devices })
    }

    /// What the process has of each device, as far as NVML says, while driver and NVML answer.
    fn has(&self) -> Vec<OnDevice> {
        let places = self.places.get_or_init(|| self.find_places());
        let each = places
            .iter()
            .flat_map(|p| p.devices.iter().zip(std::iter::repeat(&p.nvml)));
        let has = each.filter_map(|((device, known), nvml)| {
            let (device, bytes) = (*device, nvml.bytes(*known)?);
            Some(OnDevice { device, bytes })
        });
        has.collect()
    }

    fn ask(&self, step: Step) -> i32 {
        let (w, pid) = (self.driver, std::process::id() as i32);
        // SAFETY: plain values, null where the driver takes nothing, and a live structure.
        unsafe {
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
        }
    }

    fn state(&self) -> (i32, u32) {
        let (pid, mut state) = (std::process::id() as i32, 0);
        // SAFETY: a live integer.
        let said = unsafe { self.driver.cuCheckpointProcessGetState(pid, &mut state) };
        (said, state)
    }

    fn take(&self, step: Step) -> Reached {
        let (_, before) = self.state();
        if before == CU_PROCESS_STATE_RUNNING && matches!(step, Step::Lock { .. }) {
            *lock(&self.had) = self.has();
        }
        let status = self.ask(step);
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
        let (said, state) = self.state();
        let status = if status == CUDA_SUCCESS { said } else { status };
        let had = match state {
            CU_PROCESS_STATE_RUNNING => Vec::new(),
            _ => lock(&self.had).clone(),
        };
        Reached {
            had,
            ..Reached::without_driver(status, state)
        }
    }
}
