//! Times between events, which the client wants to hear of once both have happened.
//!
//! They are told on whatever thread finds that out, and the client may destroy an event before: so
//! who asks the driver has the list locked, and an event leaves it before it is destroyed.

use super::prelude::*;
use crate::outbox::Outbox;
use busbar_wire::codec::Message as _;

/// What is wanted.
pub struct Asked {
    pub start: u64,
    pub stop: u64,
    pub context: u64,
}

/// What is wanted, by the call that is answered with it. Cheap to clone.
#[derive(Clone)]
pub struct Times {
    driver: &'static Driver,
    outbox: Outbox,
    asked: Arc<Mutex<HashMap<u32, Asked>>>,
}

impl Times {
    pub fn new(driver: &'static Driver, outbox: Outbox) -> Self {
        Self {
            driver,
            outbox,
            asked: Arc::default(),
        }
    }

    pub fn ask(&self, call: u32, asked: Asked) {
        lock(&self.asked).insert(call, asked);
    }

    /// An event has happened: what is wanted up to it is told ahead of what comes next.
    pub fn at(&self, stop: u64) {
        self.tell(CUDA_SUCCESS, |_, a| a.stop == stop);
    }

    /// What is wanted for a call can be told now, if it has not been.
    pub fn over(&self, call: u32, rc: CUresult) {
        self.tell(rc, |of, _| *of == call);
    }

    /// An event is about to go.
    pub fn forget(&self, event: u64) {
        let gone = |_: &u32, a: &mut Asked| a.start == event || a.stop == event;
        self.tell(CUDA_ERROR_INVALID_HANDLE, |c, a| gone(c, a));
    }

    fn tell(&self, rc: CUresult, which: impl Fn(&u32, &mut Asked) -> bool) {
        for (call, a) in lock(&self.asked).extract_if(which) {
            let mut ms = 0.0;
            let rc = match rc {
                CUDA_SUCCESS => self.between(&a, &mut ms),
                rc => rc,
            };
            let reply = msg::TimeBetweenReply { ms };
            self.outbox.put_reply(call, rc, |w| reply.encode(w));
        }
    }

    fn between(&self, a: &Asked, ms: &mut f32) -> CUresult {
        let d = self.driver;
        // SAFETY: a context that lives as long as its events, live events and a live number. The
        // thread has the context that it had.
        unsafe {
            match d.cuCtxPushCurrent_v2(a.context as CUcontext) {
                CUDA_SUCCESS => {
                    let rc = d.cuEventElapsedTime(ms, a.start as CUevent, a.stop as CUevent);
                    d.cuCtxPopCurrent_v2(&mut std::ptr::null_mut());
                    rc
                }
                rc => rc,
            }
        }
    }
}
