//! The functions on streams, but for events, copies, launches and captures.

use crate::engine::reach;
use crate::engine::submit::{resolve, submit};
use crate::entry::api;
use crate::ffi::*;
use crate::state::context::Context;
use crate::state::stream::{Flavour, NON_BLOCKING, STREAMS, Stream};
use crate::state::work::{HostCall, Value, Work};
use crate::state::{capture, context, memory};

const WAIT_KINDS: u32 = 3;
const WAIT_FLUSH: u32 = 1 << 30;

fn value(addr: u64, value: u64, wide: bool, how: u32) -> R<Value> {
    let size = if wide { 8 } else { 4 };
    if !addr.is_multiple_of(size) || !memory::usable(addr, size as usize) {
        return Err(INVALID_VALUE);
    }
    Ok(Value {
        addr,
        value,
        wide,
        how,
    })
}

fn wait_value(
    (stream, flavour): (CUstream, Flavour),
    addr: u64,
    what: u64,
    wide: bool,
    flags: u32,
) -> Res {
    if flags & !(WAIT_KINDS | WAIT_FLUSH) != 0 {
        return Err(INVALID_VALUE);
    }
    let value = value(addr, what, wide, flags & WAIT_KINDS)?;
    submit(stream, flavour, Work::WaitValue(value))
}

/// Lets a write overtake those before it: known to the first versions of these functions alone.
const NO_BARRIER: u32 = 1;

fn write_value(
    (stream, flavour): (CUstream, Flavour),
    addr: u64,
    what: u64,
    wide: bool,
    flags: u32,
) -> Res {
    let (_, context) = resolve(stream, flavour)?;
    let n = if wide { 8 } else { 4 };
    if flags != 0 || !reach::may_write(addr, n, &context) {
        return Err(INVALID_VALUE);
    }
    submit(
        stream,
        flavour,
        Work::WriteValue(value(addr, what, wide, 0)?),
    )
}

/// One operation of a batch: 48 bytes, of which the first 32 matter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BatchOp {
    kind: u32,
    pad: u32,
    addr: u64,
    value: u64,
    flags: u32,
    pad2: u32,
    alias: u64,
    rest: u64,
}

fn batch(stream: CUstream, flavour: Flavour, ops: Vec<BatchOp>, allowed: u32) -> Res {
    for op in &ops {
        if matches!(op.kind, 2 | 5) && op.flags & !allowed != 0 {
            return Err(INVALID_VALUE);
        }
        match op.kind {
            1 | 2 => drop(value(op.addr, op.value, false, 0)?),
            4 | 5 => drop(value(op.addr, op.value, true, 0)?),
            3 | 6 => {}
            _ => return Err(INVALID_VALUE),
        }
    }
    let on = (stream, flavour);
    for op in ops {
        match op.kind {
            1 => wait_value(on, op.addr, op.value & 0xffff_ffff, false, op.flags)?,
            2 => write_value(
                on,
                op.addr,
                op.value & 0xffff_ffff,
                false,
                op.flags & !allowed,
            )?,
            4 => wait_value(on, op.addr, op.value, true, op.flags)?,
            5 => write_value(on, op.addr, op.value, true, op.flags & !allowed)?,
            // A barrier or a flush: one stream's work is in order already.
            _ => {}
        }
    }
    Ok(())
}

/// Refuses a call that waits for a stream, or asks whether it must, if a capture minds that.
fn minded(stream: &Stream, context: &Context) -> Res {
    capture::refuse(stream)?;
    if stream.is_legacy() {
        capture::refuse_implicit(&context.order.lock().unwrap())?;
    }
    capture::check_unsafe()
}

api! {
    fn [cuStreamCreate] (out: *mut CUstream, flags: u32) {
        let context = context::current()?;
        if out.is_null() || flags & !NON_BLOCKING != 0 {
            return Err(INVALID_VALUE);
        }
        put(out, context.create_stream(flags, 0).handle)
    }

    fn [cuStreamCreateWithPriority] (out: *mut CUstream, flags: u32, priority: i32) {
        let context = context::current()?;
        if out.is_null() || flags & !NON_BLOCKING != 0 {
            return Err(INVALID_VALUE);
        }
        put(out, context.create_stream(flags, priority).handle)
    }

    fn [cuStreamDestroy_v2 cuStreamDestroy] (stream: CUstream) {
        let stream = STREAMS.remove(stream)?;
        capture::leave(&stream);
        stream.destroy();
        Ok(())
    }

    fn [cuStreamSynchronize; cuStreamSynchronize_ptsz] (stream: CUstream) {
        let (stream, context) = resolve(stream, FLAVOUR)?;
        minded(&stream, &context)?;
        let _awaits = stream.awaits();
        context.synchronize_stream(&stream)
    }

    fn [cuStreamQuery; cuStreamQuery_ptsz] (stream: CUstream) {
        let (stream, context) = resolve(stream, FLAVOUR)?;
        minded(&stream, &context)?;
        if stream.idle() { Ok(()) } else { Err(NOT_READY) }
    }

    fn [cuStreamGetPriority; cuStreamGetPriority_ptsz] (stream: CUstream, out: *mut i32) {
        put(out, resolve(stream, FLAVOUR)?.0.priority)
    }

    fn [cuStreamGetFlags; cuStreamGetFlags_ptsz] (stream: CUstream, out: *mut u32) {
        put(out, resolve(stream, FLAVOUR)?.0.flags)
    }

    fn [cuStreamGetId; cuStreamGetId_ptsz] (stream: CUstream, out: *mut u64) {
        put(out, resolve(stream, FLAVOUR)?.0.id)
    }

    fn [cuStreamGetCtx; cuStreamGetCtx_ptsz] (stream: CUstream, out: *mut CUcontext) {
        put(out, resolve(stream, FLAVOUR)?.1.handle)
    }

    fn [cuStreamGetCtx_v2; cuStreamGetCtx_v2_ptsz] (
        stream: CUstream, out: *mut CUcontext, green: *mut usize,
    ) {
        let (_, context) = resolve(stream, FLAVOUR)?;
        put_opt(green, 0);
        put(out, context.handle)
    }

    fn [cuStreamGetGreenCtx] (stream: CUstream, green: *mut usize) {
        resolve(stream, FLAVOUR)?;
        put(green, 0)
    }

    fn [cuStreamGetDevice; cuStreamGetDevice_ptsz] (stream: CUstream, out: *mut CUdevice) {
        put(out, resolve(stream, FLAVOUR)?.1.device as CUdevice)
    }

    fn [cuStreamGetAttribute; cuStreamGetAttribute_ptsz] (
        stream: CUstream, which: u32, out: *mut [u32; 16],
    ) {
        let (stream, _) = resolve(stream, FLAVOUR)?;
        let mut value = stream.attributes.lock().unwrap().get(&which).copied();
        if which == 8 && value.is_none() {
            let mut priority = [0; 16];
            priority[0] = stream.priority as u32;
            value = Some(priority);
        }
        put(out, value.unwrap_or_default())
    }

    fn [cuStreamSetAttribute; cuStreamSetAttribute_ptsz] (
        stream: CUstream, which: u32, value: *const [u32; 16],
    ) {
        let (stream, _) = resolve(stream, FLAVOUR)?;
        if !matches!(which, 1 | 3 | 8 | 9 | 10) {
            return Err(INVALID_VALUE);
        }
        stream.attributes.lock().unwrap().insert(which, get(value)?);
        Ok(())
    }

    fn [cuStreamCopyAttributes; cuStreamCopyAttributes_ptsz] (dst: CUstream, src: CUstream) {
        let (dst, _) = resolve(dst, FLAVOUR)?;
        let (src, _) = resolve(src, FLAVOUR)?;
        let attributes = src.attributes.lock().unwrap().clone();
        *dst.attributes.lock().unwrap() = attributes;
        Ok(())
    }

    fn [cuLaunchHostFunc; cuLaunchHostFunc_ptsz] (
        stream: CUstream, f: Option<CUhostFn>, user: usize,
    ) {
        let call = HostCall { f: f.ok_or(INVALID_VALUE)?, user };
        submit(stream, FLAVOUR, Work::Host(call))
    }

    fn [cuStreamAddCallback; cuStreamAddCallback_ptsz] (
        stream: CUstream, f: Option<CUstreamCallback>, user: usize, flags: u32,
    ) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        submit(stream, FLAVOUR, Work::Callback(f.ok_or(INVALID_VALUE)?, user))
    }

    fn [
        cuStreamWaitValue32 cuStreamWaitValue32_v2;
        cuStreamWaitValue32_ptsz cuStreamWaitValue32_v2_ptsz
    ] (stream: CUstream, addr: CUdeviceptr, value: u32, flags: u32) {
        wait_value((stream, FLAVOUR), addr, value.into(), false, flags)
    }

    fn [
        cuStreamWaitValue64 cuStreamWaitValue64_v2;
        cuStreamWaitValue64_ptsz cuStreamWaitValue64_v2_ptsz
    ] (stream: CUstream, addr: CUdeviceptr, value: u64, flags: u32) {
        wait_value((stream, FLAVOUR), addr, value, true, flags)
    }

    fn [cuStreamWriteValue32; cuStreamWriteValue32_ptsz] (
        stream: CUstream, addr: CUdeviceptr, value: u32, flags: u32,
    ) {
        write_value((stream, FLAVOUR), addr, value.into(), false, flags & !NO_BARRIER)
    }

    fn [cuStreamWriteValue32_v2; cuStreamWriteValue32_v2_ptsz] (
        stream: CUstream, addr: CUdeviceptr, value: u32, flags: u32,
    ) {
        write_value((stream, FLAVOUR), addr, value.into(), false, flags)
    }

    fn [cuStreamWriteValue64; cuStreamWriteValue64_ptsz] (
        stream: CUstream, addr: CUdeviceptr, value: u64, flags: u32,
    ) {
        write_value((stream, FLAVOUR), addr, value, true, flags & !NO_BARRIER)
    }

    fn [cuStreamWriteValue64_v2; cuStreamWriteValue64_v2_ptsz] (
        stream: CUstream, addr: CUdeviceptr, value: u64, flags: u32,
    ) {
        write_value((stream, FLAVOUR), addr, value, true, flags)
    }

    fn [cuStreamBatchMemOp; cuStreamBatchMemOp_ptsz] (
        stream: CUstream, count: u32, ops: *const BatchOp, flags: u32,
    ) {
        if flags != 0 || count > 256 {
            return Err(INVALID_VALUE);
        }
        batch(stream, FLAVOUR, list(ops, count as usize)?, NO_BARRIER)
    }

    fn [cuStreamBatchMemOp_v2; cuStreamBatchMemOp_v2_ptsz] (
        stream: CUstream, count: u32, ops: *const BatchOp, flags: u32,
    ) {
        if flags != 0 || count > 256 {
            return Err(INVALID_VALUE);
        }
        batch(stream, FLAVOUR, list(ops, count as usize)?, 0)
    }
}
