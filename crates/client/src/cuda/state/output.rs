//! What the device prints: texts that have come and are not written yet.

use crate::lock::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};

/// A text, and where it goes.
#[derive(Debug)]
pub enum Text {
    /// To the standard output.
    Out(Vec<u8>),
    /// To the standard error.
    Err(Vec<u8>),
}

#[derive(Debug, Default)]
struct State {
    writer: Option<Sender<Text>>,
    /// Texts that are not written yet.
    left: usize,
}

/// Texts of a client.
#[derive(Debug, Default)]
pub struct Output {
    state: Mutex<State>,
    written: Condvar,
    /// Whether kernels of this program print, as far as is known.
    prints: AtomicBool,
}

impl Output {
    /// A text has come, for the writer, whom `start` starts where there is none.
    pub fn add(&self, text: Text, start: impl FnOnce(Receiver<Text>)) {
        self.expect();
        let mut s = lock(&self.state);
        let tx = s.writer.get_or_insert_with(|| {
            let (tx, rx) = channel();
            start(rx);
            tx
        });
        if tx.send(text).is_ok() {
            s.left += 1;
        }
    }

    /// A text is written.
    pub fn done(&self) {
        lock(&self.state).left -= 1;
        self.written.notify_all();
    }

    /// Waits until all that has come is written.
    pub fn settle(&self) {
        if !self.expected() {
            return;
        }
        let mut s = lock(&self.state);
        while s.left > 0 {
            s = self.written.wait(s).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether kernels of this program may print: then a copy that waits for them must also fetch
    /// what they have printed.
    pub fn expected(&self) -> bool {
        self.prints.load(Ordering::Acquire)
    }

    /// They may, from now on.
    pub fn expect(&self) {
        self.prints.store(true, Ordering::Release);
    }
}
