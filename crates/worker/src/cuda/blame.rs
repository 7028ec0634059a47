//! Which context an error has lost.
//!
//! The error of a lost context is the answer of every call that touches it, also when another one
//! is current: a stream or an event says to the driver whose it is. So each context is asked, and
//! the client is told once of each that is lost, before it sees the failure itself.

use super::prelude::*;
use crate::outbox::Outbox;
use crate::peers::Peers;
use busbar_control::attach::Report;

/// Whether a result means that a context is lost.
pub fn is_fatal(rc: CUresult) -> bool {
    matches!(
        rc,
        CUDA_ERROR_ECC_UNCORRECTABLE
            | CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUDA_ERROR_CONTAINED
            | CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_ASSERT
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_MISALIGNED_ADDRESS
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_TENSOR_MEMORY_LEAK
            | CUDA_ERROR_MPS_RPC_FAILURE
            | CUDA_ERROR_MPS_CLIENT_TERMINATED
    )
}

struct Known {
    id: u32,
    /// The error that has lost it, and that the client has heard of; 0 for none.
    lost: CUresult,
}

struct Shared {
    driver: &'static Driver,
    outbox: Outbox,
    peers: Peers,
    /// The session's contexts, by handle.
    contexts: Mutex<HashMap<u64, Known>>,
}

/// The session's contexts, and which of them are lost. Cheap to clone; any thread may ask.
#[derive(Clone)]
pub struct Blame {
    shared: Arc<Shared>,
}

impl Blame {
    pub fn new(driver: &'static Driver, outbox: Outbox, peers: Peers) -> Self {
        let shared = Shared {
            driver,
            outbox,
            peers,
            contexts: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// A context is there, under an id of the client's.
    pub fn add(&self, context: u64, id: u32) {
        self.lock().insert(context, Known { id, lost: 0 });
    }

    /// A context is gone.
    pub fn remove(&self, context: u64) {
        self.lock().remove(&context);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Known>> {
        let contexts = self.shared.contexts.lock();
        contexts.unwrap_or_else(PoisonError::into_inner)
    }

    /// A call has failed with `rc` while `near` was current. Tells the client which contexts are
    /// lost, if that is what it means; says whether the client knows of the failure now.
    pub fn failed(&self, rc: CUresult, op: u16, near: u64) -> bool {
        if !is_fatal(rc) {
            return false;
        }
        // Others are concerned by what this session has done, and not by what was done to it.
        if rc != CUDA_ERROR_MPS_CLIENT_TERMINATED && !self.shared.outbox.closed() {
            self.shared.peers.say(Report::Faulted);
        }
        let mut contexts = self.lock();
        if contexts.get(&near).is_some_and(|k| k.lost != 0) {
            return true;
        }
        let mut found = false;
        for (context, k) in contexts.iter_mut().filter(|(_, k)| k.lost == 0) {
            k.lost = self.ask(*context);
            if k.lost != 0 {
                self.tell(k, op);
                found = true;
            }
        }
        if !found && let Some(k) = contexts.get_mut(&near) {
            k.lost = rc;
            self.tell(k, op);
            found = true;
        }
        found || contexts.values().any(|k| k.lost != 0)
    }

    /// Every context is lost, whatever the driver says of it.
    pub fn lose_all(&self, rc: CUresult) {
        for k in self.lock().values_mut().filter(|k| k.lost == 0) {
            k.lost = rc;
            self.tell(k, 0);
        }
    }

    /// The error that has lost a context; 0 for none.
    fn ask(&self, context: u64) -> CUresult {
        let d = self.shared.driver;
        let (mut free, mut total) = (0, 0);
        // SAFETY: a live context, which is popped again at once; pointers to live numbers.
        let rc = unsafe {
            match d.cuCtxPushCurrent_v2(context as CUcontext) {
                CUDA_SUCCESS => {
                    let rc = d.cuMemGetInfo_v2(&mut free, &mut total);
                    d.cuCtxPopCurrent_v2(&mut std::ptr::null_mut());
                    rc
                }
                rc => rc,
            }
        };
        if is_fatal(rc) { rc } else { CUDA_SUCCESS }
    }

    fn tell(&self, k: &Known, op: u16) {
        self.shared.outbox.error(k.lost, |w| {
            w.u16(op);
            w.u32(k.id);
            w.u8(1);
        });
    }
}
