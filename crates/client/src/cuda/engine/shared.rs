//! Page-locked memory that a worker on this host has mapped, too, at the same address: the device
//! copies from and to it without a detour, and kernels use it in place.
//!
//! It lies in a range of addresses of its own, by which it is known. Where it cannot be had, page-
//! locked memory is the program's alone, as it is with a worker elsewhere.

use super::prelude::*;
use crate::cuda::call::unmap_host;
use crate::cuda::state::order::ALL_STREAMS;
use crate::cuda::state::space;
use busbar_transport::shared::Segment;

/// From this size on a copy to the device that the program waits for goes through shared memory;
/// shorter ones are cheaper to queue than to wait for.
const WAIT_FROM: usize = 64 << 10;

/// Takes page-locked memory that is shared; `None` when there is none to be had.
pub fn alloc(cx: Cx, size: u64) -> Option<u64> {
    if cx.client.session.neighbour.is_none() || cx.state().sharing.failed.load(Ordering::Acquire) {
        return None;
    }
    let _gate = lock(&cx.state().sharing.gate);
    match cx
        .state()
        .spaces
        .place(space::SHARED, size, |at, len| share(cx, at, len))
    {
        Ok(at) => {
            cx.state().sharing.works.store(true, Ordering::Release);
            // Kernels use it in place.
            cx.state().order.program_will_see();
            Some(at)
        }
        Err(e) => {
            // One that is too large says nothing about others.
            if !cx.state().sharing.works.load(Ordering::Acquire) {
                cx.state().sharing.failed.store(true, Ordering::Release);
            }
            crate::log!(Info, "page-locked memory is not shared: error {e}");
            None
        }
    }
}

/// Maps new memory here and at the worker.
fn share(cx: Cx, va: u64, size: u64) -> Result<()> {
    let failed = |e: std::io::Error| {
        crate::log!(Info, "memory cannot be shared with the worker: {e}");
        CUDA_ERROR_OUT_OF_MEMORY
    };
    let neighbour = cx.client.session.neighbour.as_ref();
    let neighbour = neighbour.ok_or(CUDA_ERROR_NOT_SUPPORTED)?;
    let segment = Segment::new(size).map_err(failed)?;
    segment.map(va, size).map_err(failed)?;
    let shared = neighbour.give(&segment, size).map_err(failed);
    shared
        .and_then(|number| {
            let m = msg::ShareHost {
                va,
                size,
                number,
                origin: 0,
            };
            // Not `Cx::call`: an error that the program has not heard of yet is not this call's.
            match cx.call_any(&m)? {
                (CUDA_SUCCESS, _) => Ok(()),
                (e, _) => Err(e),
            }
        })
        .inspect_err(|_| unmap_host(va, size))
}

/// Gives memory back that [`alloc`] gave. As with the driver, work of its context is over on
/// return: the next allocation may be in the same place, and no copy must read or write that.
pub fn free(cx: Cx, base: u64, size: u64) {
    let_work_end(cx, base);
    let _gate = lock(&cx.state().sharing.gate);
    if let Some((va, size)) = cx.state().spaces.unplace(space::SHARED, base, size) {
        unmap_host(va, size);
        leave(cx, va, size);
        cx.state().spaces.vacant(va, size);
    }
}

/// Has the worker map memory of its own that stands for the program's at `origin`, which is not
/// shared with it; kernels find it at `va`.
pub fn stand_in(cx: Cx, va: u64, size: u64, origin: u64) -> Result<()> {
    let m = msg::ShareHost {
        va,
        size,
        number: 0,
        origin,
    };
    // As above: only what is said of this call counts.
    match cx.call_any(&m)? {
        (CUDA_SUCCESS, _) => Ok(()),
        (e, _) => Err(e),
    }
}

/// Waits until all work of the context is over. Functions of the program's that it waits for go on.
pub fn let_work_end(cx: Cx, va: u64) {
    if !cx.idle(ALL_STREAMS) {
        // Whatever the answer is: the memory goes. Errors are for other calls to tell.
        let _ = cx.call_any(&msg::MemRetire { va, size: 0 });
    }
}

/// The worker unmaps what it has for the program's memory.
pub fn leave(cx: Cx, va: u64, size: u64) {
    // Without a session there is nobody left to tell.
    let _ = cx.send(&msg::UnshareHost { va, size });
}

/// Queues a copy between the device and what may be shared memory, at `host`; says whether it did.
/// Unless it may be done `later`, it is done on return.
pub fn copy(
    cx: Cx,
    (dst, src): (u64, u64),
    host: u64,
    len: usize,
    stream: u32,
    later: bool,
) -> Result<bool> {
    if !cx.state().is_shared(host, len) || !later && host == src && len < WAIT_FROM {
        return Ok(false);
    }
    let m = msg::CopyShared {
        dst,
        src,
        len: len as u64,
        stream,
    };
    cx.client.session.note_shared(len);
    if later {
        cx.send(&m)?;
    } else {
        let since = cx.queued();
        cx.call(&m)?;
        // As any copy back, it tells of what went wrong before.
        if host == dst {
            cx.state().contexts.deferred(cx.scope)?;
        }
        cx.now_idle(stream, since);
    }
    Ok(true)
}
