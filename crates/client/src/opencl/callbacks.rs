//! Functions of the program, run on one thread of ours, in the order in which they came due.

use super::entry;
use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

/// A function of the program with its arguments.
pub type Job = Box<dyn FnOnce() + Send>;

/// Runs `job` on the callback thread. Callbacks may call the API, so no lock is held.
pub fn run(job: Job) {
    static QUEUE: OnceLock<Option<Mutex<Sender<Job>>>> = OnceLock::new();
    let queue = QUEUE.get_or_init(|| {
        let (to, from) = channel::<Job>();
        let work = move || {
            while let Ok(job) = from.recv() {
                job();
            }
        };
        std::thread::Builder::new()
            .name("busbar-callback".into())
            .spawn(work)
            .map_err(|e| crate::log!(Error, "cannot start the callback thread: {e}"))
            .ok()
            .map(|_| Mutex::new(to))
    });
    if let Some(q) = queue
        && !entry::is_forked()
    {
        let _ = super::server::lock(q).send(job);
    }
}

/// A pointer of the program's that only its own function looks at.
#[derive(Clone, Copy)]
pub struct User(pub *mut std::ffi::c_void);

// SAFETY: we never look behind the pointer; the API says that callbacks run on any thread.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl User {
    /// The pointer. A method, so that closures capture the whole wrapper.
    pub fn get(self) -> *mut std::ffi::c_void {
        self.0
    }
}

/// Called with the status that came.
pub type Due = Box<dyn FnOnce(i32) + Send>;

/// Callbacks that wait for the worker's word.
#[derive(Default)]
pub struct Waiting {
    next: u64,
    list: HashMap<u64, Due>,
}

impl Waiting {
    /// Keeps `due` until its token comes.
    pub fn add(&mut self, due: Due) -> u64 {
        self.next += 1;
        self.list.insert(self.next, due);
        self.next
    }

    /// The token has come.
    pub fn fire(&mut self, token: u64, status: i32) {
        if let Some(due) = self.list.remove(&token) {
            run(Box::new(move || due(status)));
        }
    }

    /// No token will come any more.
    pub fn end(&mut self, status: i32) {
        let mut all: Vec<_> = self.list.drain().collect();
        all.sort_by_key(|d| d.0);
        for (_, due) in all {
            run(Box::new(move || due(status)));
        }
    }
}

unsafe extern "C" {
    static stdout: *mut libc::FILE;
}

/// Prints what a kernel printed, through the program's own buffered stdout, so that its order with
/// the program's text is the native one.
pub fn print(text: &[u8]) {
    // SAFETY: `stdout` is libc's own stream, and `text` is readable.
    unsafe {
        libc::fwrite(text.as_ptr().cast(), 1, text.len(), stdout);
        libc::fflush(stdout);
    }
}
