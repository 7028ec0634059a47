//! What the program has promised, as the client's tokens: functions to run, bytes to read.
//!
//! The client hears of each token what becomes of it, whatever that is: one that has not run when
//! its last owner here is gone will not run, and one that may run often will not run again.

use super::done::{Completer, Then};
use super::prelude::*;
use crate::callback::Callbacks;
use crate::outbox::Outbox;
use busbar_wire::codec::Message;
use busbar_wire::promise::Word;

/// The way to the client.
#[derive(Clone)]
pub struct Promises {
    callbacks: Callbacks,
    completer: Completer,
    outbox: Outbox,
}

impl Promises {
    pub fn new(callbacks: Callbacks, completer: Completer, outbox: Outbox) -> Self {
        Self {
            callbacks,
            completer,
            outbox,
        }
    }

    /// Takes a token over, first of all: from here on it is sure that the client hears of it.
    pub fn take(&self, token: u64, once: bool) -> Promised {
        Promised {
            token,
            once,
            used: AtomicBool::new(false),
            to: self.clone(),
        }
    }
}

/// A token.
pub struct Promised {
    token: u64,
    /// It is good once.
    once: bool,
    used: AtomicBool,
    to: Promises,
}

/// Bytes that streams wait for and that the client is still to send, by context. Cheap to clone.
#[derive(Clone, Default)]
pub struct Reads(Arc<Mutex<Vec<u64>>>);

/// One of them, until it is dropped.
pub struct Read {
    context: u64,
    all: Reads,
}

impl Reads {
    /// One more.
    pub fn begin(&self, context: u64) -> Read {
        lock(&self.0).push(context);
        Read {
            context,
            all: self.clone(),
        }
    }

    /// Whether any stream of a context waits for some.
    pub fn any(&self, context: u64) -> bool {
        lock(&self.0).contains(&context)
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        let mut all = lock(&self.all.0);
        if let Some(at) = all.iter().position(|c| *c == self.context) {
            all.swap_remove(at);
        }
    }
}

/// What else a function needs: the error of its stream, and the mirrors to fetch before it, to send
/// after it, and those that copies write meanwhile.
pub type With = (CUresult, [Vec<u32>; 3]);

impl Promised {
    /// The token.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Has the client run the function, and waits until it has.
    pub fn run(&self, with: With) {
        self.ask(self.to.callbacks.begin(), with);
    }

    /// Has the client send its bytes to `len` bytes at `room`. `then` is done when they are there,
    /// or will not come.
    ///
    /// # Safety
    /// That memory stays writable until then.
    pub unsafe fn read(&self, room: (u64, usize), then: impl FnOnce() + Send + 'static) {
        // SAFETY: passed on to the caller.
        let n = unsafe { self.to.callbacks.begin_with(room, then) };
        if self.used.swap(true, Ordering::AcqRel) {
            return self.to.callbacks.done(n);
        }
        let m = self.asked((CUDA_SUCCESS, Default::default()));
        self.to
            .outbox
            .callback(n, Word::Run as i32, |w| m.encode(w));
    }

    fn asked(&self, (error, [before, after, beside]): With) -> msg::RunPromised {
        msg::RunPromised {
            token: self.token,
            error: error as u32,
            before,
            after,
            beside,
        }
    }

    fn ask(&self, n: u32, with: With) {
        if self.once && self.used.swap(true, Ordering::AcqRel) {
            return self.to.callbacks.done(n);
        }
        let m = self.asked(with);
        let outbox = self.to.outbox.clone();
        // Behind the copies that were complete before: the function may look at their bytes.
        let ask = move |_| outbox.callback(n, Word::Run as i32, |w| m.encode(w));
        self.to
            .completer
            .now(CUDA_SUCCESS, Then::Run(Box::new(ask)));
        self.to.callbacks.wait(n, &self.to.outbox);
    }

    /// Has the client run the function, and does not wait.
    pub fn run_some_time(&self) {
        if self.used.swap(true, Ordering::AcqRel) {
            return;
        }
        let m = self.asked(Default::default());
        self.to
            .outbox
            .callback(0, Word::Run as i32, |w| m.encode(w));
    }
}

impl Drop for Promised {
    fn drop(&mut self) {
        if !self.once || !*self.used.get_mut() {
            let token = self.token;
            self.to
                .outbox
                .callback(0, Word::Gone as i32, |w| w.u64(token));
        }
    }
}
