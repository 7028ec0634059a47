//! Events: asking whether they have happened.

use super::runtime::{enter, guard};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};

pub(super) unsafe fn cuEventQuery(event: CUevent) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_event = cx.handle(Kind::Event, event as u64)?;
        cx.call(&msg::CuEventQuery { h_event }).map(drop)
    })
}

pub(super) unsafe fn cuEventSynchronize(event: CUevent) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_event = cx.handle(Kind::Event, event as u64)?;
        cx.call(&msg::CuEventSynchronize { h_event }).map(drop)
    })
}
