//! Calls of another of Busbar's libraries in this session: see [`crate::guest`].

use super::prelude::*;
use crate::cuda::engine::context as contexts;
use crate::cuda::generated::{context, memory};
use crate::cuda::life;
use crate::cuda::state::area::ANY;
use crate::guest::{API, Listener, Place, Table, Then};
use busbar_wire::record::RESERVED;

pub static TABLE: Table = Table {
    enter,
    home,
    stream,
    queue,
    call,
    listen,
    allocate: memory::cuMemAlloc_v2,
    free: memory::cuMemFree_v2,
};

/// Where a call is made.
fn place(cx: Cx) -> Place {
    Place {
        server: cx.client.server as u32,
        scope: cx.scope,
    }
}

/// A call, for a place.
fn at(cx: Cx, p: Place) -> Result<Cx> {
    let client = match cx.client.server == p.server as usize {
        true => Some(cx.client),
        false => cx.client.of_server(p.server as usize),
    };
    let client = client.ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
    Ok(Cx::of(client).in_context(p.scope))
}

unsafe extern "C" fn enter(to: *mut Place, device: *mut i32) -> CUresult {
    life::guard(|| {
        life::init()?;
        let mut cx = life::enter()?;
        if cx.scope == 0 {
            let mut first = std::ptr::null_mut();
            let all = cx.client.every_device();
            let own = all.into_iter().find(|d| !d.stand_in);
            let own = own.map_or(0, |d| d.ordinal);
            // SAFETY: a pointer to a live handle; the context is the device's own.
            let rc = unsafe {
                match context::cuDevicePrimaryCtxRetain(&mut first, own) {
                    CUDA_SUCCESS => context::cuCtxSetCurrent(first),
                    rc => rc,
                }
            };
            refuse_if(rc != CUDA_SUCCESS, rc)?;
            cx = life::enter()?;
        }
        let (_, ordinal) = cx.home()?;
        // SAFETY: the guest's pointers.
        unsafe {
            put(to, place(cx))?;
            put(device, ordinal)
        }
    })
}

unsafe extern "C" fn home(device: CUdevice, to: *mut Place) -> CUresult {
    life::guard(|| {
        life::init()?;
        let cx = life::enter_anywhere()?;
        let of = cx.client.with_device(device);
        let of = Cx::of(of.ok_or(CUDA_ERROR_INVALID_DEVICE)?);
        contexts::retain(of, device)?;
        let scope = contexts::primary_id(of, device)?;
        // SAFETY: the guest's pointer.
        unsafe { put(to, place(of.in_context(scope))) }
    })
}

unsafe extern "C" fn stream(p: Place, raw: CUstream, id: *mut u32) -> CUresult {
    // SAFETY: the guest's pointer.
    life::guard(|| unsafe { put(id, at(life::enter()?, p)?.stream(raw, false)?) })
}

/// The guest's number stands in its records, but not in the session's own.
fn numbered(op: u16) -> u32 {
    match op >= RESERVED {
        true => op.into(),
        false => API << 16 | u32::from(op),
    }
}

/// What the guest wants sent.
///
/// # Safety
/// So many bytes lie there.
unsafe fn bytes<'a>(fields: *const u8, len: usize) -> &'a [u8] {
    // SAFETY: passed on to the caller.
    unsafe { std::slice::from_raw_parts(fields, len) }
}

unsafe extern "C" fn queue(p: Place, op: u16, fields: *const u8, len: usize) -> CUresult {
    life::guard(|| {
        let cx = at(life::enter()?, p)?;
        let _sending = cx.work_if_shadowed(ANY, Touch::All)?;
        // SAFETY: the guest's bytes.
        let fields = unsafe { bytes(fields, len) };
        let write = |out: &mut Vec<u8>| out.extend_from_slice(fields);
        let sent = cx.client.session.queue_raw(numbered(op), cx.scope, write);
        sent.and_then(|()| cx.queued_one()).or_else(|_| cx.lost())
    })
}

unsafe extern "C" fn call(
    p: Place,
    op: u16,
    fields: *const u8,
    len: usize,
    then: Then,
    to: *mut c_void,
) -> CUresult {
    life::guard(|| {
        let cx = at(life::enter_anywhere()?, p)?;
        // SAFETY: the guest's bytes.
        let fields = unsafe { bytes(fields, len) };
        let write = |out: &mut Vec<u8>| out.extend_from_slice(fields);
        let answer = cx
            .client
            .session
            .call_raw(numbered(op), cx.scope, None, write);
        let answer = answer.or_else(|_| cx.lost())?;
        // SAFETY: the guest's function, and what it is for.
        unsafe { then(to, answer.status, answer.body.as_ptr(), answer.body.len()) };
        Ok(())
    })
}

unsafe extern "C" fn listen(server: u32, listener: Listener) -> CUresult {
    life::guard(|| {
        let cx = at(life::enter_anywhere()?, Place { server, scope: 0 })?;
        let _ = cx.client.guest.set(listener);
        Ok(())
    })
}
