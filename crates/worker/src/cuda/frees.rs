//! Memory that is to be unmapped once the work of its context is done, on a thread of its own: the
//! executor goes on meanwhile. One wait serves all that has come before it.

use super::completer::{Completer, Then};
use crate::lock::{lock, wait};
use busbar_abi::cuda::*;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A mapping to undo, unless its size is 0, and the call that is answered then.
#[derive(Clone, Copy)]
pub(super) struct Free {
    /// The context whose work may still use it.
    pub(super) context: u64,
    /// Where it begins.
    pub(super) va: u64,
    /// Its length.
    pub(super) size: u64,
    /// The call.
    pub(super) call: u32,
}

/// The most that wait at once; beyond that the executor waits itself.
const MOST: usize = 1 << 14;

#[derive(Default)]
struct State {
    list: Vec<Free>,
    /// Those of the list, and those that the thread has taken from it.
    left: usize,
    started: bool,
}

struct Shared {
    driver: &'static Driver,
    completer: Completer,
    state: Mutex<State>,
    changed: Condvar,
}

/// The list and its thread.
pub(super) struct Frees {
    shared: Arc<Shared>,
}

impl Frees {
    pub(super) fn new(driver: &'static Driver, completer: Completer) -> Self {
        let shared = Shared {
            driver,
            completer,
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Takes one on; false when there is no thread for it, or too much to do for that.
    pub(super) fn push(&self, f: Free) -> bool {
        let mut s = self.shared.lock();
        if s.left >= MOST {
            return false;
        }
        if !s.started {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("frees".into());
            s.started = thread.spawn(move || shared.run()).is_ok();
            if !s.started {
                return false;
            }
        }
        s.list.push(f);
        s.left += 1;
        self.shared.changed.notify_all();
        true
    }

    /// Waits until nothing is left. A wait for a context would void a capture that begins
    /// meanwhile; and to free memory is to wait for the device, so a program expects no less.
    pub(super) fn settle(&self) {
        let mut s = self.shared.lock();
        while s.left > 0 {
            let changed = self.shared.changed.wait(s);
            s = changed.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn run(&self) {
        super::driver::relax(self.driver);
        loop {
            let mut s = self.lock();
            while s.list.is_empty() {
                s = wait(&self.changed, s);
            }
            let list = std::mem::take(&mut s.list);
            drop(s);
            let mut contexts: Vec<u64> = list.iter().map(|f| f.context).collect();
            contexts.sort_unstable();
            contexts.dedup();
            for c in contexts {
                // A context that is lost or gone uses nothing any more.
                // SAFETY: a context that was live when the client asked; the driver says if not.
                unsafe {
                    if self.driver.cuCtxSetCurrent(c as CUcontext) == CUDA_SUCCESS {
                        self.driver.cuCtxSynchronize();
                    }
                }
            }
            for f in &list {
                let rc = match f.size {
                    0 => CUDA_SUCCESS,
                    // SAFETY: a mapping of ours that nobody names any more.
                    n => unsafe { self.driver.cuMemUnmap(f.va, n as usize) },
                };
                self.completer.now(rc, Then::Reply { call: f.call });
            }
            self.lock().left -= list.len();
            self.changed.notify_all();
        }
    }
}
