//! Dense sessions: the kernels of those of one login run at the same time, by NVIDIA's MPS. Each
//! login that has some has a daemon for them, in its cell; it ends with the last of them. A fault
//! in one ends them all: all hear that, and whoever comes later gets a new daemon.

use super::cells::Cell;
use crate::isolation::limits::Limited;
use crate::mps::Word;
use anyhow::{Context, Result, bail};
use busbar_control::text::one_line;
use busbar_transport::handover;
use busbar_transport::lock::lock;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long the daemon may take to take clients: longer than its keeper gives it.
const START: Duration = Duration::from_secs(15);
/// How long the keeper of the daemon may take to end it.
const END: Duration = Duration::from_secs(4);
/// The longest reason that is shown, in bytes: it is of a process of the tenant's cell.
const LONGEST: usize = 400;
const LOOK: Duration = Duration::from_millis(5);

/// A daemon, which ends with the last session that has it.
pub(crate) struct Dense {
    /// Where its sockets are, as its sessions see that.
    pub folder: PathBuf,
    keeper: Mutex<Child>,
    /// What its keeper says, and by whose end the keeper knows that it is to end.
    control: Mutex<Option<OwnedFd>>,
    /// It has ended its clients for the fault of one.
    broken: AtomicBool,
    /// Where it runs, and what it may take; both go after it.
    _cell: Option<Arc<Cell>>,
    _limited: Option<Limited>,
}

impl Dense {
    /// Waits until a daemon takes clients, whose keeper has just been started.
    pub(super) fn new(
        (keeper, control): (Child, OwnedFd),
        folder: PathBuf,
        cell: Option<Arc<Cell>>,
        limited: Option<Limited>,
    ) -> Result<Self> {
        let _ = handover::recv_timeout(&control, Some(START));
        let me = Self {
            folder,
            keeper: Mutex::new(keeper),
            control: Mutex::new(Some(control)),
            broken: AtomicBool::new(false),
            _cell: cell,
            _limited: limited,
        };
        match me.word() {
            Some(Word::Ready) => Ok(me),
            Some(Word::No(why)) => {
                let why = one_line(&why, LONGEST);
                bail!("MPS does not start ({why}), and --mode dense takes it")
            }
            _ => bail!("MPS does not start, and --mode dense takes it; the log may say why"),
        }
    }

    fn word(&self) -> Option<Word> {
        let control = lock(&self.control);
        let (said, _) = handover::recv(control.as_ref()?).ok()??;
        serde_json::from_slice(&said).ok()
    }

    /// It has ended its clients for the fault of one; whether that is heard for the first time.
    pub(super) fn breaks(&self) -> bool {
        !self.broken.swap(true, Ordering::AcqRel)
    }

    /// Whether new sessions may have it.
    pub(super) fn is_well(&self) -> bool {
        let ended = !matches!(lock(&self.keeper).try_wait(), Ok(None));
        !ended && !self.broken.load(Ordering::Acquire)
    }
}

impl Drop for Dense {
    fn drop(&mut self) {
        drop(lock(&self.control).take());
        let mut keeper = lock(&self.keeper);
        let mut left = END;
        while matches!(keeper.try_wait(), Ok(None)) && !left.is_zero() {
            std::thread::sleep(LOOK);
            left = left.saturating_sub(LOOK);
        }
        let _ = (keeper.kill(), keeper.wait());
    }
}

/// Why a session cannot be dense.
pub(super) fn program_of(known: Option<&Path>) -> Result<&Path> {
    known.context(
        "--mode dense takes NVIDIA's MPS, and this server has no nvidia-cuda-mps-control: say \
         where it is with `busbar serve --mps-control PATH`, or leave --mode away",
    )
}
