//! Events: asking whether they have happened.

use super::runtime::{enter, guard, put};
use super::shadow;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};

pub(super) unsafe fn cuEventQuery(event: CUevent) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_event = cx.handle(Kind::Event, event as u64)?;
        shadow::about_to_wait(cx)?;
        cx.call(&msg::CuEventQuery { h_event })?;
        shadow::waited(cx, 0, None, 0);
        Ok(())
    })
}

pub(super) unsafe fn cuEventSynchronize(event: CUevent) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_event = cx.handle(Kind::Event, event as u64)?;
        shadow::about_to_wait(cx)?;
        cx.call(&msg::CuEventSynchronize { h_event })?;
        // Whose work that was is not known here.
        shadow::waited(cx, 0, None, 0);
        Ok(())
    })
}

/// Blocking synchronization, no timing, between processes.
const FLAGS: u32 = 7;
const NO_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

pub(super) unsafe fn cuEventCreate(out: *mut CUevent, flags: u32) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let timed_abroad = flags & (INTERPROCESS | NO_TIMING) == INTERPROCESS;
        if out.is_null() || flags & !FLAGS != 0 || timed_abroad {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let id = cx.create(Kind::Event);
        cx.send(&msg::CuEventCreate {
            ph_event: id,
            flags,
        })
        .inspect_err(|_| cx.destroy(Kind::Event, id))?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::Event, id) as CUevent) }
    })
}
