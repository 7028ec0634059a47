//! Checkpoints of this process, by its driver.
//!
//! The driver takes steps of its own process as it does of others, and lets every other call wait
//! while it is locked: records that come are executed once it is unlocked.
//!
//! A driver that finds no room when it is to restore a process says so, and can never restore it
//! again (580): what the process had is lost. So it is asked only where NVML says that there is
//! room for what this process had.

use super::prelude::*;
use super::taken::named;
use crate::Setup;
use crate::checkpoint::Checkpoints;
use crate::nvml::own::{Device, Own};
use crate::turn::Turn;
use busbar_control::checkpoint::{OUT_OF_MEMORY, Reached, Step};
use busbar_control::holding::OnDevice;
use std::ptr::null_mut;

/// What must be free of a device beyond what the process had of it: a driver takes it in larger
/// pieces, and neighbours take some meanwhile.
const MARGIN: u64 = 64 << 20;

/// A device of the session's, as NVML knows it.
struct Place {
    ordinal: u32,
    device: Device,
    /// What the process had of it when it was checkpointed.
    had: u64,
}

/// What takes the steps of a session.
pub struct Steps {
    driver: &'static Driver,
    checkpoints: Checkpoints,
    turn: Turn,
    devices: Vec<i32>,
    /// NVML's library, if it is another than the system's; and NVML once it was asked for.
    library: Option<String>,
    nvml: OnceLock<Option<Own>>,
    places: Mutex<Vec<Place>>,
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
            nvml: OnceLock::new(),
            places: Mutex::default(),
            left: Mutex::default(),
        };
        setup.checkpoints.on_step(move |step| steps.take(step));
    }

    fn nvml(&self) -> Option<&Own> {
        let load = || Own::load(self.library.as_deref());
        self.nvml.get_or_init(load).as_ref()
    }

    /// Learns what NVML calls the devices, while the driver still answers.
    fn find_places(&self) {
        let mut places = lock(&self.places);
        let Some(nvml) = self.nvml().filter(|_| places.is_empty()) else {
            return;
        };
        let place = |dev: &i32| {
            Some(Place {
                ordinal: u32::try_from(*dev).ok()?,
                device: named(self.driver, nvml, *dev)?,
                had: 0,
            })
        };
        places.extend(self.devices.iter().filter_map(place));
    }

    /// Notes what the process has of each device.
    fn note(&self) {
        for p in lock(&self.places).iter_mut() {
            let had = self.nvml().and_then(|nvml| nvml.bytes(p.device));
            p.had = had.unwrap_or(0);
        }
    }

    /// What each device lacks for what the process had of it, as far as NVML says.
    fn lacks(&self) -> Vec<OnDevice> {
        let places = lock(&self.places);
        let each = places.iter().filter(|p| p.had > 0).filter_map(|p| {
            let free = self.nvml()?.free(p.device)?;
            let (device, bytes) = (p.ordinal, (p.had + MARGIN).saturating_sub(free));
            Some(OnDevice { device, bytes })
        });
        each.filter(|on| on.bytes > 0).collect()
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
        match (step, before) {
            (Step::Lock { .. }, CU_PROCESS_STATE_RUNNING) => self.find_places(),
            (Step::Checkpoint, CU_PROCESS_STATE_LOCKED) => self.note(),
            (Step::Restore, CU_PROCESS_STATE_CHECKPOINTED) => {
                let lacks = self.lacks();
                if !lacks.is_empty() {
                    return Reached {
                        lacks,
                        ..Reached::without_driver(OUT_OF_MEMORY, before)
                    };
                }
            }
            _ => {}
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
        Reached::without_driver(status, state)
    }
}
