//! Words in memory that streams write and wait for.
//!
//! They may lie in the program's own memory: then it is the device that sees what the program
//! writes, even while a stream waits for just that. So what the program has written goes ahead of
//! each wait of its own, too; see [`shadow::about_to_wait`].

use super::prelude::*;
use crate::cuda::engine::{addresses, peer, stream};
use busbar_wire::limits::MAX_ITEMS;

/// What a word is for.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    Wait,
    Write,
}

/// The lowest two bits say what to wait for, the highest but one asks to flush what others wrote.
const WAIT_FLAGS: u32 = 3 | CU_STREAM_WAIT_VALUE_FLUSH;
/// Lets a write overtake those before it. Only the first version of these functions has it, and it
/// is a permission: a write that stays in order is right, too.
pub const NO_BARRIER: u32 = CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;

/// Whether a driver will take it: of anything else the program hears the driver's word at once.
fn is_usual(cx: Cx, p: u64, len: u64, what: Use, flags: u32) -> bool {
    let known = match what {
        Use::Wait => WAIT_FLAGS,
        Use::Write => 0,
    };
    let there = || {
        let state = cx.state();
        let n = len as usize;
        state.ranges.is_pinned(p, n) || state.must_be_on_device(p, n).is_ok()
    };
    p.is_multiple_of(len) && flags & !known == 0 && there()
}

/// Where the device finds a word.
fn place(cx: Cx, stream: u32, p: u64, what: Use) -> Result<u64> {
    refuse_if(p == 0, CUDA_ERROR_INVALID_VALUE)?;
    if !addresses::are_steady(cx, p) {
        // A graph may have it, and is refused when it is launched.
        let captured = cx.state().captures.any() && stream::captures(cx, stream)?;
        refuse_if(!captured, CUDA_ERROR_INVALID_VALUE)?;
        cx.state().graphs.launches_may_be_refused();
    }
    if what == Use::Write {
        peer::in_stream(cx, stream, peer::must_reach(cx, p))?;
    }
    let at = addresses::on_device(cx, p, "a stream")?;
    if what == Use::Wait && cx.state().shadows.active() {
        cx.state().shadows.streams_will_wait();
    }
    Ok(at)
}

/// The memory of the program's that such words may be in.
fn ahead(cx: Cx, stream: u32, what: Use) -> Result<Sending> {
    let touch = match what {
        Use::Wait => Touch::Nothing,
        _ => Touch::All,
    };
    cx.work_if_shadowed(stream, touch)
}

/// Functions with one word of a width.
macro_rules! words {
    ($($name:ident($t:ty, $use:expr) = $message:ident;)*) => {$(
        pub fn $name(
            cx: Cx,
            stream: u32,
            addr: CUdeviceptr,
            value: $t,
            flags: u32,
        ) -> Result<()> {
            let cx = cx.in_context(stream::context_of(cx, stream)?);
            let usual = is_usual(cx, addr, size_of::<$t>() as u64, $use, flags);
            let addr = place(cx, stream, addr, $use)?;
            let _sending = ahead(cx, stream, $use)?;
            cx.send_if(usual, &msg::$message { stream, addr, value, flags }, Touch::All)
        }
    )*};
}

words! {
    cuStreamWaitValue32_v2(u32, Use::Wait) = CuStreamWaitValue32V2;
    cuStreamWaitValue64_v2(u64, Use::Wait) = CuStreamWaitValue64V2;
    cuStreamWriteValue32_v2(u32, Use::Write) = CuStreamWriteValue32V2;
    cuStreamWriteValue64_v2(u64, Use::Write) = CuStreamWriteValue64V2;
}

/// A list has fewer operations.
const MANY: u32 = 256;

pub unsafe fn cuStreamBatchMemOp_v2(
    cx: Cx,
    stream: u32,
    count: u32,
    list: *mut CUstreamBatchMemOpParams,
    flags: u32,
) -> Result<()> {
    // SAFETY: passed on to the caller.
    unsafe { batch(cx, stream, count, list, flags, 0) }
}

/// Queues a list of operations, without those flags of its writes that are `needless`.
pub unsafe fn batch(
    cx: Cx,
    stream: u32,
    count: u32,
    list: *mut CUstreamBatchMemOpParams,
    flags: u32,
    needless: u32,
) -> Result<()> {
    let cx = cx.in_context(stream::context_of(cx, stream)?);
    if count == 0 {
        return Ok(());
    }
    refuse_if(list.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(count as usize > MAX_ITEMS, CUDA_ERROR_INVALID_VALUE)?;
    let mut usual = (1..MANY).contains(&count) && flags == 0;
    // SAFETY: the program's array of `count` operations.
    let mut ops = unsafe { std::slice::from_raw_parts(list, count as usize) }.to_vec();
    let mut all = Use::Wait;
    for op in &mut ops {
        // Kind, address, value, and flags in the lower half.
        let [kind, p, _, mut flags, ..] = op.u;
        let (what, len) = match kind as u32 {
            CU_STREAM_MEM_OP_WAIT_VALUE_32 => (Use::Wait, 4),
            CU_STREAM_MEM_OP_WAIT_VALUE_64 => (Use::Wait, 8),
            CU_STREAM_MEM_OP_WRITE_VALUE_32 => (Use::Write, 4),
            CU_STREAM_MEM_OP_WRITE_VALUE_64 => (Use::Write, 8),
            CU_STREAM_MEM_OP_BARRIER | CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES => continue,
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        };
        if what == Use::Write {
            all = what;
            flags &= !u64::from(needless);
            op.u[3] = flags;
        }
        usual &= is_usual(cx, p, len, what, flags as u32);
        op.u[1] = place(cx, stream, p, what)?;
    }
    let _sending = ahead(cx, stream, all)?;
    let m = msg::CuStreamBatchMemOpV2 {
        stream,
        count,
        param_array: busbar_abi::slice_bytes(&ops),
        flags,
    };
    cx.send_if(usual, &m, Touch::All)
}
