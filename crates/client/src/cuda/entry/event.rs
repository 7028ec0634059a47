//! Events: recording them, and asking whether they have happened.

use crate::cuda::call::put;
use crate::cuda::engine::event;
use crate::cuda::life::{enter, guard};
use crate::cuda::state::events::Known;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};

/// Blocking synchronization, no timing, between processes.
const FLAGS: u32 = 7;
const NO_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

pub unsafe fn cuEventRecord(raw: CUevent, stream: CUstream, per_thread: bool) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_event = cx.handle(Kind::Event, raw as u64)?;
        let h_stream = cx.stream(stream, per_thread)?;
        event::record(cx, h_event, h_stream, || {
            cx.send(&msg::CuEventRecord { h_event, h_stream })
        })
    })
}

pub unsafe fn cuEventRecordWithFlags(
    raw: CUevent,
    stream: CUstream,
    flags: u32,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_event = cx.handle(Kind::Event, raw as u64)?;
        let h_stream = cx.stream(stream, per_thread)?;
        if flags != CU_EVENT_RECORD_DEFAULT {
            // It becomes a node of a graph.
            cx.state().events.recorded_unseen();
        }
        event::record(cx, h_event, h_stream, || {
            cx.send(&msg::CuEventRecordWithFlags {
                h_event,
                h_stream,
                flags,
            })
        })
    })
}

pub unsafe fn cuEventQuery(raw: CUevent) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_event = cx.handle(Kind::Event, raw as u64)?;
        let (known, record) = event::known(cx, h_event);
        match known {
            Known::Happened => return Ok(()),
            Known::Awaited => {
                cx.client.session.flush();
                // Who asks in a loop must not keep the word from being received; but a processor
                // that is given up may be away for long.
                if cx.state().events.too_early() {
                    std::thread::yield_now();
                }
                return Err(CUDA_ERROR_NOT_READY);
            }
            Known::Unknown => {}
        }
        cx.about_to_wait()?;
        cx.call(&msg::CuEventQuery { h_event })?;
        let events = &cx.state().events;
        events.heard(h_event, record, Known::Happened);
        cx.waited(0, None, 0);
        Ok(())
    })
}

pub unsafe fn cuEventSynchronize(raw: CUevent) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_event = cx.handle(Kind::Event, raw as u64)?;
        cx.about_to_wait()?;
        cx.call(&msg::CuEventSynchronize { h_event })?;
        // Whose work that was is not known here.
        cx.waited(0, None, 0);
        Ok(())
    })
}

pub unsafe fn cuEventCreate(out: *mut CUevent, flags: u32) -> CUresult {
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
        if flags & INTERPROCESS == 0 {
            cx.state().events.add(id);
        }
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::Event, id) as CUevent) }
    })
}
