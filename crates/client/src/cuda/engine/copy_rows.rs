//! Copies of rows: pitched memory, arrays, boxes.
//!
//! What lies on the host travels packed, without the gaps between its rows.

use super::prelude::*;
use crate::cuda::call::Arriving;
use crate::cuda::engine::{
    across, addresses, callback, ends, graph_host, peer, settled, shadow, stream, transfer,
};
use crate::cuda::state::rows::{ARRAY, CHUNK, DEVICE, End, HOST, Rows, UNIFIED, shape};
use busbar_channel::Bulk;

fn array_id(cx: Cx, e: &End) -> Result<u32, CUresult> {
    if e.memory == ARRAY {
        cx.handle(Kind::Array, e.array)
    } else {
        Ok(0)
    }
}

/// Sends rows from the host.
unsafe fn rows_in(cx: Cx, r: &Rows, stream: u32) -> Result<(), CUresult> {
    for stripe in r.stripes(CHUNK) {
        // SAFETY: passed on to the caller.
        unsafe { stripe_in(cx, &stripe, stream)? };
    }
    Ok(())
}

/// Sends short rows from the host, as many in each record as fit.
unsafe fn stripe_in(cx: Cx, r: &Rows, stream: u32) -> Result<(), CUresult> {
    let array = array_id(cx, &r.dst)?;
    let at_once = (CHUNK / r.width).max(1);
    let mut packed = Vec::with_capacity(CHUNK.min(r.width * r.height));
    for z in 0..r.depth {
        let mut y = 0;
        while y < r.height {
            let n = at_once.min(r.height - y);
            packed.clear();
            for i in y..y + n {
                // SAFETY: a row of the program's box.
                packed.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(r.src.row(i, z) as *const u8, r.width)
                });
            }
            let mut part = Rows {
                height: n,
                depth: 1,
                ..*r
            };
            part.dst.y += y;
            part.dst.z += z;
            let s = shape(&part);
            let m = msg::CopyInRows {
                shape: busbar_abi::bytes_of(&s),
                array,
                stream,
                data: &[],
            };
            cx.send_bulk(&m, Bulk::Copy(&packed))?;
            y += n;
        }
    }
    Ok(())
}

/// Fetches rows. Those that go to page-locked memory arrive by themselves, if they may come
/// `later`.
unsafe fn rows_out(cx: Cx, r: &Rows, stream: u32, later: bool) -> Result<(), CUresult> {
    let (array, mark) = (array_id(cx, &r.src)?, cx.state().shadows.mark());
    for r in r.stripes(CHUNK).flat_map(Rows::boxes) {
        let s = shape(&r);
        let to = r.host(r.dst);
        let len = r.width * r.height * r.depth;
        let m = msg::CopyOutRows {
            shape: busbar_abi::bytes_of(&s),
            array,
            len: len as u64,
            stream,
        };
        let mut packed = vec![0u8; len];
        let place = (packed.as_mut_ptr(), len);
        let (start, span) = to.span();
        // The receiving thread must not meet a page that is closed to the program.
        let open = cx.state().ranges.is_pinned(start, span)
            && cx.state().shadows.device_side(start, 1).is_none();
        if later && open {
            let arriving = Arriving::of_box(cx, &to);
            // SAFETY: page-locked memory stays until it is freed, and freeing it waits for copies.
            let put = move || unsafe { transfer::scatter(&to, &packed) };
            // SAFETY: the closure keeps the bytes.
            unsafe { cx.later_by(&m, place, arriving, put)? };
            continue;
        }
        cx.call_into(&m, Some(place))?;
        // SAFETY: passed on to the caller.
        unsafe { transfer::scatter(&to, &packed) };
        cx.waited(cx.scope, Some(stream), mark);
    }
    Ok(())
}

/// Copies a box of bytes, `between` contexts that its ends name, if so asked. As the driver has it,
/// none of its rows ends outside of its end's own.
///
/// # Safety
/// What of the box lies on the host is the program's.
pub unsafe fn copy_box(
    cx: Cx,
    r: Rows,
    stream: u32,
    between: bool,
    later: bool,
) -> Result<(), CUresult> {
    if r.width == 0 || r.height == 0 || r.depth == 0 {
        return Ok(());
    }
    let crosses = [r.src, r.dst].iter().any(|e| ends::crosses(e, &r));
    refuse_if(crosses, CUDA_ERROR_INVALID_VALUE)?;
    let box_bytes = r
        .width
        .checked_mul(r.height)
        .and_then(|n| n.checked_mul(r.depth));
    box_bytes
        .filter(|n| *n < 1 << 46)
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: passed on to the caller.
    if let Some(done) = unsafe { across::rows(cx, &r, stream, later, copy_box) } {
        return done;
    }
    let named = r;
    let r = cx.state().resolved(&r);
    ends::pitches(&r)?;
    ends::check(cx, &r.src, &r)?;
    ends::check(cx, &r.dst, &r)?;
    for e in [&r.src, &r.dst].into_iter().filter(|e| e.memory == DEVICE) {
        let user = match between {
            true => cx.handle_opt(Kind::Context, e.context)?,
            false => peer::asks(cx),
        };
        peer::in_stream(cx, stream, peer::may_copy(cx, user, e.device))?;
    }
    let _sending = cx.work_if_shadowed(stream, Touch::All)?;
    let either = |r: &Rows, kind| r.src.memory == kind || r.dst.memory == kind;
    let host = either(&r, HOST);
    if (host || either(&named, UNIFIED)) && cx.state().captures.any() {
        if host && !later {
            stream::refuse_wait(cx, stream)?;
        } else if later && graph_host::capture(cx, &named, stream)? {
            return Ok(());
        }
    }
    if later && let Some(there) = in_place(cx, &r) {
        // Of memory that kernels see, what the program stores is looked through when it is sent.
        if r.src.memory == HOST && cx.state().is_shared(r.host(r.src).span().0, 1) {
            // SAFETY: passed on to the caller.
            unsafe { addresses::in_rows(cx, &r)? };
        }
        return on_device(cx, &there, stream, between);
    }
    // SAFETY: passed on to the caller.
    unsafe {
        match (r.src.memory, r.dst.memory) {
            (HOST, HOST) => {
                cx.synchronize(stream)?;
                for z in 0..r.depth {
                    for y in 0..r.height {
                        let (from, to) = (r.src.row(y, z), r.dst.row(y, z));
                        std::ptr::copy(from as *const u8, to as *mut u8, r.width);
                    }
                }
                Ok(())
            }
            (HOST, DEVICE | ARRAY) => {
                let (p, n) = r.host(r.src).span();
                addresses::in_rows(cx, &r)?;
                let written =
                    later && cx.state().ranges.is_pinned(p, n) && cx.may_still_write(p, n);
                let before = match later {
                    true => Ok(()),
                    false => settled::before(cx, stream, p, n),
                };
                match written && !cx.idle(stream) {
                    true => callback::read_in_order(cx, &r, array_id(cx, &r.dst)?, stream)?,
                    false => rows_in(cx, &r, stream)?,
                }
                if !later {
                    settled::after(cx, stream, None)?;
                }
                before
            }
            (DEVICE | ARRAY, HOST) => rows_out(cx, &r, stream, later),
            (DEVICE | ARRAY, DEVICE | ARRAY) => on_device(cx, &r, stream, between),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }
}

/// A copy between a device and page-locked memory that the worker has, too, for it is shared or
/// kernels see it: it is made there, in the order of its stream with all else that uses this
/// memory.
fn in_place(cx: Cx, r: &Rows) -> Option<Rows> {
    let mut there = *r;
    let (host, b) = match (r.src.memory, r.dst.memory) {
        (HOST, DEVICE | ARRAY) => (&mut there.src, r.host(r.src)),
        (DEVICE | ARRAY, HOST) => (&mut there.dst, r.host(r.dst)),
        _ => return None,
    };
    let (p, len) = b.span();
    if cx.state().is_shared(p, len) {
        cx.client.session.note_shared(b.len());
    } else {
        shadow::end_of_copy(cx, p, len)?;
    }
    (host.memory, host.device, host.host) = (DEVICE, host.host, 0);
    Some(there)
}

/// Queues the copy of a box that the host sees nothing of.
fn on_device(cx: Cx, r: &Rows, stream: u32, between: bool) -> Result<(), CUresult> {
    let there = |mut e: End| {
        let shadowed = cx.state().shadows.device_side(e.device, 1);
        e.device = shadowed.filter(|_| e.memory == DEVICE).unwrap_or(e.device);
        e
    };
    let r = &Rows {
        src: there(r.src),
        dst: there(r.dst),
        ..*r
    };
    let s = shape(r);
    let m = msg::CopyRowsOnDevice {
        shape: busbar_abi::bytes_of(&s),
        src_array: array_id(cx, &r.src)?,
        dst_array: array_id(cx, &r.dst)?,
        src_context: cx.handle_opt(Kind::Context, r.src.context)?,
        dst_context: cx.handle_opt(Kind::Context, r.dst.context)?,
        peer: u32::from(between),
        stream,
    };
    cx.send(&m)?;
    cx.has_begun(stream)
}
