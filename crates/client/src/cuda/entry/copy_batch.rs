//! Batches of copies: each is queued as a copy of its own, in order, which is one of the orders
//! that a batch allows.

use super::prelude::*;
use crate::cuda::engine::{array, copy, copy_rows};
use crate::cuda::state::rows;
use crate::cuda::state::rows::{End, Rows};

/// The stream of a batch, which must not be the legacy default one.
fn must_be_named(stream: u32) -> Result<()> {
    match stream {
        0 => Err(CUDA_ERROR_INVALID_VALUE),
        _ => Ok(()),
    }
}

/// Whether a source may be read in the order that the program says.
fn is_order(order: CUmemcpySrcAccessOrder) -> bool {
    (1..=3).contains(&order)
}

/// The source may be gone when the call has returned, wherever it lies.
const AT_ONCE: CUmemcpySrcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;

unsafe fn later(cx: Cx, dst: u64, src: u64, len: usize, stream: u32) -> Result<()> {
    // SAFETY: passed on to the caller.
    unsafe { copy::any(cx, dst, src, len, stream, true) }
}

unsafe fn list<'a, T>(p: *const T, n: usize) -> Result<&'a [T]> {
    refuse_if(p.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(n == 0 || n > 1 << 24, CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program says that `n` items lie there.
    Ok(unsafe { std::slice::from_raw_parts(p, n) })
}

pub unsafe fn cuMemcpyBatchAsync(
    cx: Cx,
    dsts: *mut CUdeviceptr,
    srcs: *mut CUdeviceptr,
    sizes: *mut usize,
    count: usize,
    attrs: *mut CUmemcpyAttributes,
    firsts: *mut usize,
    kinds: usize,
    failed: *mut usize,
    stream: u32,
) -> Result<()> {
    // SAFETY: the program's lists, of the lengths it says; `failed` may be null.
    let (dsts, srcs, sizes, attrs, firsts) = unsafe {
        put_opt(failed, usize::MAX);
        (
            list(dsts, count)?,
            list(srcs, count)?,
            list(sizes, count)?,
            list(attrs, kinds)?,
            list(firsts, kinds)?,
        )
    };
    let rising = firsts.windows(2).all(|w| w[0] < w[1]);
    let within = firsts[0] == 0 && firsts[kinds - 1] < count;
    if !rising || !within || sizes.contains(&0) || !attrs.iter().all(|a| is_order(a.srcAccessOrder))
    {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    must_be_named(stream)?;
    // The stream's device counts, not the current one.
    let cx = cx.for_itself();
    let mut kind = 0;
    for (i, n) in sizes.iter().enumerate() {
        if firsts.get(kind + 1).is_some_and(|next| *next <= i) {
            kind += 1;
        }
        let at_once = attrs[kind].srcAccessOrder == AT_ONCE;
        let copy = if at_once { copy::at_once } else { later };
        // SAFETY: the program's addresses; `failed` as above.
        unsafe {
            copy(cx, dsts[i], srcs[i], *n, stream).inspect_err(|_| put_opt(failed, i))?;
        }
    }
    Ok(())
}

const POINTER: u32 = CU_MEMCPY_OPERAND_TYPE_POINTER;
const ARRAY: u32 = CU_MEMCPY_OPERAND_TYPE_ARRAY;

/// Bytes of an element of an array.
fn element(cx: Cx, array: u64) -> Result<usize> {
    match array::shape(cx, cx.handle(Kind::Array, array)?)?.element {
        // Compressed and packed forms have no single element.
        0 => Err(CUDA_ERROR_NOT_SUPPORTED),
        n => Ok(n),
    }
}

/// One end of a copy, whose lengths are in elements of `wide` bytes.
fn end(cx: Cx, o: &CUmemcpy3DOperand, wide: usize) -> Result<End> {
    let [a, b, c, d] = o.op;
    let bytes = |n: u64| {
        (n as usize)
            .checked_mul(wide)
            .ok_or(CUDA_ERROR_INVALID_VALUE)
    };
    match o.r#type {
        POINTER => Ok(End {
            memory: if cx.state().on_host(a) {
                rows::HOST
            } else {
                rows::DEVICE
            },
            host: a,
            device: a,
            pitch: bytes(b)?,
            height: c as usize,
            ..End::default()
        }),
        ARRAY => Ok(End {
            memory: rows::ARRAY,
            array: a,
            x: bytes(b)?,
            y: c as usize,
            z: d as usize,
            ..End::default()
        }),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

fn one(cx: Cx, op: &CUDA_MEMCPY3D_BATCH_OP, stream: u32) -> Result<()> {
    let e = &op.extent;
    if e.width == 0 || e.height == 0 || e.depth == 0 || !is_order(op.srcAccessOrder) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let array = [&op.src, &op.dst].into_iter().find(|o| o.r#type == ARRAY);
    let wide = array.map_or(Ok(1), |o| element(cx, o.op[0]))?;
    let rows = Rows {
        src: end(cx, &op.src, wide)?,
        dst: end(cx, &op.dst, wide)?,
        width: e.width.checked_mul(wide).ok_or(CUDA_ERROR_INVALID_VALUE)?,
        height: e.height,
        depth: e.depth,
    };
    // SAFETY: the program's box.
    unsafe { copy_rows::copy_box(cx, rows, stream, false, true) }
}

pub unsafe fn cuMemcpy3DBatchAsync(
    cx: Cx,
    count: usize,
    ops: *mut CUDA_MEMCPY3D_BATCH_OP,
    failed: *mut usize,
    flags: u64,
    stream: u32,
) -> Result<()> {
    // SAFETY: the program's list, of the length it says; `failed` may be null.
    let ops = unsafe {
        put_opt(failed, usize::MAX);
        list(ops, count)?
    };
    refuse_if(flags != 0, CUDA_ERROR_INVALID_VALUE)?;
    must_be_named(stream)?;
    let cx = cx.for_itself();
    for (i, op) in ops.iter().enumerate() {
        // SAFETY: as above.
        one(cx, op, stream).inspect_err(|_| unsafe { put_opt(failed, i) })?;
    }
    Ok(())
}
