//! What a call that waits promises, where ours does not wait.
//!
//! A copy from the program's memory returns at once here: its bytes are queued. In CUDA, once it
//! has returned, it and all work on its stream before it are done; and it has read its source
//! behind that work, which may have written it. Other streams are put behind it by the worker. Only
//! what the program itself can see of that work, without asking, is waited for.

use super::prelude::*;

/// A copy that counts as having waited for `stream` is about to read `len` bytes of the program's
/// memory at `p`, which work before it may write. An error is of what was queued before: the copy
/// is made all the same.
pub fn before(cx: Cx, stream: u32, p: u64, len: usize) -> Result<()> {
    // What is shared the device writes by itself.
    if cx.state().spaces.is_shared(p) || cx.may_still_write(p, len) {
        return cx.synchronize(stream);
    }
    Ok(())
}

/// How many records were queued when nothing was under way, of which a copy that is not queued yet
/// would have to wait for its end so that the program sees it done. It then need not wait for
/// itself either: what it writes is on the device.
pub fn quiet(cx: Cx, stream: u32) -> Option<u64> {
    let state = cx.state();
    if !state.order.is_seen() || state.order.others_see() || state.shadows.active() {
        return None;
    }
    let queued = cx.queued();
    cx.idle(stream).then_some(queued)
}

/// Such a copy is queued; before it all was `quiet`, or not.
pub fn after(cx: Cx, stream: u32, quiet: Option<u64>) -> Result<()> {
    let state = cx.state();
    // Then the program can see what was before, and is to find it done.
    if quiet.is_none() && (state.shadows.active() || state.order.is_seen()) {
        return cx.synchronize(stream);
    }
    let mut own = 1;
    if state.order.may_be_overtaken(cx.scope, || state.is_alone()) {
        cx.send(&msg::Settle { stream })?;
        own += 1;
    }
    // Nothing but this copy was queued, by any thread: the next one finds it as quiet.
    if let Some(before) = quiet
        && cx.queued() == before + own
    {
        cx.now_idle(stream, before + own - 1);
    }
    Ok(())
}

/// There is a stream or context more, which nothing has used yet: it comes after what the program
/// has waited for.
pub fn not_alone(cx: Cx) -> Result<()> {
    match cx.state().order.not_alone() {
        None => Ok(()),
        Some(scope) => cx.in_context(scope).send(&msg::Settle { stream: 0 }),
    }
}
