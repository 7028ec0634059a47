//! The driver's log: who listens, and what they have not heard of yet.

use super::prelude::*;
use std::ffi::{c_char, c_void};
use std::sync::mpsc::Sender;

/// A function of the program's that hears of lines.
#[derive(Debug, Clone, Copy)]
pub struct Listener {
    /// The function.
    pub f: unsafe extern "C" fn(*mut c_void, CUlogLevel, *mut c_char, usize),
    /// An address that only the program understands.
    pub data: u64,
}

/// A line that a listener has not heard of yet.
#[derive(Debug)]
pub struct Line {
    /// The listener.
    pub listener: u32,
    /// How bad it is.
    pub level: CUlogLevel,
    /// What it says.
    pub text: Vec<u8>,
}

/// Lines that may wait to be told of: a server cannot fill the program's memory with them.
const MOST_LINES: usize = 1 << 16;

/// Listeners and lines of a client.
#[derive(Debug, Default)]
pub struct Logs {
    listeners: Mutex<BTreeMap<u32, Listener>>,
    lines: Mutex<VecDeque<Line>>,
    /// The way to the thread that tells of lines.
    pub teller: Mutex<Option<Sender<()>>>,
    /// Held by the thread that runs listeners: lines are told of in order.
    telling: Mutex<()>,
    /// Whether anybody has ever listened: nobody else pays for it.
    used: AtomicBool,
    ids: AtomicU32,
    /// Whether it goes to a file.
    to_file: AtomicBool,
}

impl Logs {
    /// Whether lines may come.
    #[inline]
    pub fn used(&self) -> bool {
        self.used.load(Ordering::Acquire)
    }

    /// It goes to a file from now on; whether that is new.
    pub fn goes_to_file(&self) -> bool {
        !self.to_file.swap(true, Ordering::AcqRel)
    }

    /// A listener from now on; its number.
    pub fn listen(&self, l: Listener) -> u32 {
        let id = self.ids.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&self.listeners).insert(id, l);
        self.used.store(true, Ordering::Release);
        id
    }

    /// The listener of a number.
    pub fn listener(&self, id: u32) -> Option<Listener> {
        lock(&self.listeners).get(&id).copied()
    }

    /// The numbers of all listeners.
    pub fn listeners(&self) -> Vec<u32> {
        lock(&self.listeners).keys().copied().collect()
    }

    /// A listener no longer.
    pub fn ignore(&self, id: u32) {
        lock(&self.listeners).remove(&id);
    }

    /// A line has come. An error says what is wrong with the server.
    pub fn add(&self, line: Line) -> Result<(), String> {
        let id = line.listener;
        if self.listener(id).is_none() {
            // One that has just been ignored may have been on its way.
            return Ok(());
        }
        let mut lines = lock(&self.lines);
        if lines.len() >= MOST_LINES {
            return Err(format!(
                "more than {MOST_LINES} lines that wait for the program to listen"
            ));
        }
        lines.push_back(line);
        drop(lines);
        if let Some(tx) = &*lock(&self.teller) {
            let _ = tx.send(());
        }
        Ok(())
    }

    /// The line to tell of next.
    pub fn next(&self) -> Option<Line> {
        lock(&self.lines).pop_front()
    }

    /// Keeps other threads from running listeners.
    pub fn telling(&self) -> MutexGuard<'_, ()> {
        lock(&self.telling)
    }
}
