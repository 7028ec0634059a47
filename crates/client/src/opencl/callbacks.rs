//! Functions of the program, run on one thread of ours, in the order in which they came due.

use super::entry;
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};
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

/// A context's error callback: text, private bytes, their number, the program's pointer.
pub type Notify = unsafe extern "C" fn(*const c_char, *const c_void, usize, *mut c_void);

struct Listener {
    context: u32,
    f: Notify,
    user: User,
}

impl Listener {
    fn tell(&self, text: &str, info: &[u8]) {
        let (f, user, info) = (self.f, self.user, info.to_vec());
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        run(Box::new(move || {
            let bytes = match info.is_empty() {
                true => std::ptr::null(),
                false => info.as_ptr().cast(),
            };
            // SAFETY: the program's function with what it asked for; text and bytes outlive the
            // call.
            unsafe { f(text.as_ptr(), bytes, info.len(), user.get()) };
        }));
    }
}

/// Contexts whose creators gave a function for errors.
#[derive(Default)]
pub struct Listeners {
    list: Vec<Listener>,
    queues: HashMap<u32, u32>,
}

impl Listeners {
    /// A context with this id has a function.
    pub fn add(&mut self, context: u32, f: Notify, user: User) {
        self.list.push(Listener { context, f, user });
    }

    /// A context has one more queue.
    pub fn add_queue(&mut self, context: u32, queue: u32) {
        if self.list.iter().any(|l| l.context == context) {
            self.queues.insert(queue, context);
        }
    }

    /// A context is gone.
    pub fn remove(&mut self, context: u32) {
        self.list.retain(|l| l.context != context);
        self.queues.retain(|_, c| *c != context);
    }

    /// Something happened in a context.
    pub fn tell(&self, context: u32, text: &str, info: &[u8]) {
        for l in self.list.iter().filter(|l| l.context == context) {
            l.tell(text, info);
        }
    }

    /// A command of a queue failed; what belongs to no queue may be of interest to all.
    pub fn tell_of_queue(&self, queue: u32, text: &str) {
        match (queue, self.queues.get(&queue)) {
            (0, _) => self.tell_all(text),
            (_, Some(context)) => self.tell(*context, text, &[]),
            (_, None) => {}
        }
    }

    /// Something happened to all of them.
    pub fn tell_all(&self, text: &str) {
        self.list.iter().for_each(|l| l.tell(text, &[]));
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
