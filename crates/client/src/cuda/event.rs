//! Events: asking whether they have happened.

use super::runtime::{enter, guard};
use super::shadow;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};

pub(super) unsafe fn cuEventQuery(event: CUevent) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_event = cx.handle(Kind::Event, event as u64)?;
        cx.call(&msg::CuEventQuery { h_event })?;
        shadow::waited(cx, 0, None, 0);
        Ok(())
    })
}

pub(super) unsafe fn cuEventSynchronize(event: CUevent) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_event = cx.handle(Kind::Event, event as u64)?;
        cx.call(&msg::CuEventSynchronize { h_event })?;
        // Whose work that was is not known here.
        shadow::waited(cx, 0, None, 0);
        Ok(())
    })
}
