//! What a call that waits promises, where ours does not wait.
//!
//! A copy from the program's memory returns at once here: its bytes are queued. In CUDA, once it
//! has returned, it and all work on its stream before it are done. Other streams are put behind it
//! by the worker. Only what the program itself can see of that work, without asking, is waited for.

use super::handles;
use super::runtime::Cx;
use super::shadow;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the program has queued work that does something in its own memory: host functions, and
/// copies that arrive by themselves.
static SEES: AtomicBool = AtomicBool::new(false);

/// Queued work will do something in the program's own memory.
pub fn program_will_see() {
    if !SEES.load(Ordering::Relaxed) {
        SEES.store(true, Ordering::Release);
    }
}

/// A call returns that counts as having waited for `stream`.
pub fn settle(cx: Cx, stream: u32) -> Result<(), CUresult> {
    if shadow::active() || SEES.load(Ordering::Acquire) {
        let (since, mark) = (cx.queued(), shadow::mark());
        cx.call(&msg::CuStreamSynchronize { h_stream: stream })?;
        cx.now_idle(stream, since);
        shadow::waited(cx, cx.scope, Some(stream), mark);
        return Ok(());
    }
    // With one context and its default stream there is nothing that could overtake.
    let alone = handles::at_most(Kind::Stream, 0) && handles::at_most(Kind::Context, 1);
    if alone {
        return Ok(());
    }
    cx.send(&msg::Settle { stream })
}
