//! Memory that was freed while kernels may still use it.
//!
//! The worker says when all work from before is done; only then are the addresses given out again.
//! Nobody waits for that, except who needs the memory: a call that finds none left, and the
//! question how much there is. But where it is much the call that frees it waits, as the driver's
//! does: another process may be told next that the memory is free, and take it.

use super::cx::Cx;
use super::host::unmap_host;
use crate::cuda::state::ranges::{Spaces, whole};
use crate::cuda::state::space;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda as msg;

/// A piece that the worker has not answered for, until it is dropped: once, with the answer or
/// without one, since a session may end at any moment.
struct Left(&'static Spaces);

impl Left {
    fn new(cx: Cx) -> Self {
        cx.state().spaces.freeing();
        Self(&cx.state().spaces)
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        self.0.freed();
    }
}

/// Asks the worker to unmap `size` bytes, if any, once all work of the context `cx` is in is done;
/// `then` runs when it has.
fn ask(cx: Cx, va: u64, size: u64, then: impl FnOnce(&Spaces) + Send + 'static) -> Result<()> {
    let left = Left::new(cx);
    let done = move |_| {
        then(left.0);
        drop(left);
    };
    let m = msg::MemRetire { va, size };
    // SAFETY: there is no place for a bulk answer.
    let sent = unsafe { cx.client.session.call_async(cx.scope, &m, None, done) };
    sent.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)
}

/// Frees `size` bytes of device memory at `at`, in the range of a device, once all work of the
/// context `cx` is in is done.
pub fn retire(cx: Cx, range: u32, at: u64, size: u64) -> Result<()> {
    let unmapped = whole(size).unwrap_or(0);
    ask(cx, at, unmapped, move |spaces| {
        match spaces.unplace(range, at, size) {
            // The worker has unmapped it before it answered.
            Some((at, bytes)) if unmapped > 0 => {
                if range == space::MANAGED {
                    unmap_host(at, bytes);
                }
                spaces.vacant(at, bytes);
            }
            gone => empty(spaces, range, gone),
        }
    })?;
    give_back(cx)?;
    be_seen(cx, size);
    Ok(())
}

/// Waits for what was freed if so much more is much.
fn be_seen(cx: Cx, size: u64) {
    if cx.state().spaces.adds_up_to_much(size) {
        wait(cx);
    }
}

/// Has the worker unmap what [`Spaces::unplace`] gave, once all work of the context `cx` is in is
/// done; until then the addresses are nobody's. It goes on with other calls meanwhile, as it must:
/// a function of the program's that this work waits for may need it.
pub fn unmap(cx: Cx, va: u64, size: u64) -> Result<()> {
    ask(cx, va, size, move |spaces| spaces.vacant(va, size))
}

/// Has the worker unmap what is used no more.
fn give_back(cx: Cx) -> Result<()> {
    for (va, size) in cx.state().spaces.take_empty() {
        unmap(cx, va, size)?;
    }
    Ok(())
}

/// Waits until all that was freed is free. False when there was nothing to wait for.
pub fn wait(cx: Cx) -> bool {
    let spaces = &cx.state().spaces;
    if !spaces.owes() {
        return false;
    }
    while spaces.owes() {
        if give_back(cx).is_err() {
            return false;
        }
        cx.client.session.flush();
        spaces.wait_freed();
    }
    true
}

/// Frees pieces of memory, each in its range, once all work of the context `cx` is in is done; then
/// also the granules of `trimmed` ranges that nothing lives in.
pub fn retire_all(cx: Cx, pieces: Vec<(u32, u64, u64)>, trimmed: [u32; 2]) -> Result<()> {
    let spaces = &cx.state().spaces;
    let mut small = Vec::new();
    let all = pieces.iter().map(|(_, _, size)| size).sum();
    for (range, at, size) in pieces {
        if whole(size).is_none() {
            small.push((range, at, size));
        } else if let Some((at, bytes)) = spaces.unplace(range, at, size) {
            if range == space::MANAGED {
                unmap_host(at, bytes);
            }
            unmap(cx, at, bytes)?;
        }
    }
    ask(cx, 0, 0, move |spaces| {
        for (range, at, size) in small {
            empty(spaces, range, spaces.unplace(range, at, size));
        }
        for range in trimmed {
            for gone in spaces.trim(range) {
                empty(spaces, range, Some(gone));
            }
        }
    })?;
    be_seen(cx, all);
    Ok(())
}

/// Nothing lives any more in what [`Spaces::unplace`] gave, and the worker is to unmap it.
fn empty(spaces: &Spaces, range: u32, gone: Option<(u64, u64)>) {
    if let (space::MANAGED, Some((at, bytes))) = (range, gone) {
        unmap_host(at, bytes);
    }
    spaces.empty(gone);
}
