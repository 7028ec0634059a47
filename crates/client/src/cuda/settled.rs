//! What a call that waits promises, where ours does not wait.
//!
//! A copy from the program's memory returns at once here: its bytes are queued. In CUDA, once it
//! has returned, it and all work on its stream before it are done; and it has read its source
//! behind that work, which may have written it. Other streams are put behind it by the worker. Only
//! what the program itself can see of that work, without asking, is waited for.

use super::runtime::Cx;
use super::{copy, handles, shadow, shared};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Whether the program has queued work that does something in its own memory: host functions, and
/// copies that arrive by themselves.
static SEES: AtomicBool = AtomicBool::new(false);
/// Whether another process may look at device memory of this one's.
static OTHERS: AtomicBool = AtomicBool::new(false);

/// The context whose default stream has work that counts as waited for, and no mark behind it.
static OPEN: AtomicU32 = AtomicU32::new(0);

fn set(flag: &AtomicBool) {
    if !flag.load(Ordering::Relaxed) {
        flag.store(true, Ordering::Release);
    }
}

/// Queued work will do something in the program's own memory.
pub fn program_will_see() {
    set(&SEES);
}

/// Another process will see what this one does.
pub fn others_will_see() {
    set(&OTHERS);
}

fn wait(cx: Cx, stream: u32) -> Result<(), CUresult> {
    let (since, mark) = (cx.queued(), shadow::mark());
    if !cx.idle(stream) {
        cx.call(&msg::CuStreamSynchronize { h_stream: stream })?;
        cx.now_idle(stream, since);
    }
    shadow::waited(cx, cx.scope, Some(stream), mark);
    Ok(())
}

/// A copy that counts as having waited for `stream` is about to read `len` bytes of the program's
/// memory at `p`, which work before it may write. An error is of what was queued before: the copy
/// is made all the same.
pub fn before(cx: Cx, stream: u32, p: u64, len: usize) -> Result<(), CUresult> {
    // What is shared the device writes by itself.
    if shared::holds(p) || copy::is_due(p, len) {
        return wait(cx, stream);
    }
    Ok(())
}

/// Such a copy is queued.
pub fn after(cx: Cx, stream: u32) -> Result<(), CUresult> {
    // Then the program can see what was before, and is to find it done.
    let seen = || SEES.load(Ordering::Acquire) || OTHERS.load(Ordering::Acquire);
    if shadow::active() || seen() {
        return wait(cx, stream);
    }
    // With one context and its default stream there is nothing yet that could overtake. First the
    // word that there is work, then the look: another thread may make a stream meanwhile.
    OPEN.store(cx.scope, Ordering::SeqCst);
    std::sync::atomic::fence(Ordering::SeqCst);
    if handles::at_most(Kind::Stream, 0) && handles::at_most(Kind::Context, 1) {
        return Ok(());
    }
    OPEN.store(0, Ordering::SeqCst);
    cx.send(&msg::Settle { stream })
}

/// A context is gone, and its work with it.
pub fn forget_context(id: u32) {
    let _ = OPEN.compare_exchange(id, 0, Ordering::SeqCst, Ordering::SeqCst);
}

/// There is a stream or context more, which nothing has used yet: it comes after what the program
/// has waited for.
pub fn not_alone(cx: Cx) -> Result<(), CUresult> {
    std::sync::atomic::fence(Ordering::SeqCst);
    match OPEN.swap(0, Ordering::SeqCst) {
        0 => Ok(()),
        scope => Cx { scope, ..cx }.send(&msg::Settle { stream: 0 }),
    }
}
