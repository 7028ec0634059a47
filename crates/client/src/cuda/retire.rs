//! Memory that was freed while kernels may still use it.
//!
//! The worker says when all work from before is done; only then are the addresses given out again.
//! Nobody waits for that, except who needs the memory: a call that finds none left, and the
//! question how much there is.

use super::memory;
use super::runtime::Cx;
use super::space;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda as msg;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct State {
    /// Pieces that the worker has not answered for.
    left: usize,
    /// What no allocation uses any more and the worker has not unmapped yet.
    empty: Vec<(u64, u64)>,
}

static STATE: Mutex<State> = Mutex::new(State {
    left: 0,
    empty: Vec::new(),
});
static DONE: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A piece that the worker has not answered for, until it is dropped.
struct Left;

impl Left {
    fn new() -> Self {
        lock().left += 1;
        Self
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        lock().left -= 1;
        DONE.notify_all();
    }
}

/// Frees `size` bytes of device memory at `at`, in the range of a device, once all work of the
/// context `cx` is in is done.
pub fn retire(cx: Cx, range: u32, at: u64, size: u64) -> Result<(), CUresult> {
    let unmapped = memory::whole(size).unwrap_or(0);
    let m = msg::MemRetire {
        va: at,
        size: unmapped,
    };
    // Dropped once, with the answer or without one: a session may end at any moment.
    let left = Left::new();
    let done = move |_| {
        let gone = memory::unplace(range, at, size);
        if let (space::MANAGED, Some((at, bytes))) = (range, gone) {
            memory::unmap_host(at, bytes);
        }
        match gone {
            // The worker has unmapped it before it answered.
            Some((at, bytes)) if unmapped > 0 => memory::vacant(at, bytes),
            gone => lock().empty.extend(gone),
        }
        drop(left);
    };
    // SAFETY: there is no place for a bulk answer.
    let sent = unsafe { cx.rt.session.call_async(cx.scope, &m, None, done) };
    sent.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)?;
    give_back(cx)
}

/// Has the worker unmap what [`memory::unplace`] gave, once all work of the context `cx` is in is
/// done; until then the addresses are nobody's. It goes on with other calls meanwhile, as it must:
/// a function of the program's that this work waits for may need it.
pub fn unmap(cx: Cx, va: u64, size: u64) -> Result<(), CUresult> {
    let left = Left::new();
    let done = move |_| {
        memory::vacant(va, size);
        drop(left);
    };
    let m = msg::MemRetire { va, size };
    // SAFETY: there is no place for a bulk answer.
    let sent = unsafe { cx.rt.session.call_async(cx.scope, &m, None, done) };
    sent.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)
}

/// Has the worker unmap what is used no more.
fn give_back(cx: Cx) -> Result<(), CUresult> {
    let empty = std::mem::take(&mut lock().empty);
    for (va, size) in empty {
        unmap(cx, va, size)?;
    }
    Ok(())
}

/// Waits until all that was freed is free. False when there was nothing to wait for.
pub fn settle(cx: Cx) -> bool {
    let mut s = lock();
    if s.left == 0 && s.empty.is_empty() {
        return false;
    }
    while s.left > 0 || !s.empty.is_empty() {
        drop(s);
        if give_back(cx).is_err() {
            return false;
        }
        cx.rt.session.flush();
        s = lock();
        while s.left > 0 {
            s = DONE.wait(s).unwrap_or_else(PoisonError::into_inner);
        }
    }
    true
}
