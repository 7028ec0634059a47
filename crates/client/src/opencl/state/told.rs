//! What a worker says unasked: failures of queued calls, and messages for contexts. Functions of
//! the program that are due are handed back as jobs.

use super::{Job, User};
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};

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
    fn tell(&self, text: &str, info: &[u8]) -> Job {
        let (f, user, info) = (self.f, self.user, info.to_vec());
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        Box::new(move || {
            let bytes = match info.is_empty() {
                true => std::ptr::null(),
                false => info.as_ptr().cast(),
            };
            // SAFETY: the program's function with what it asked for; text and bytes outlive the
            // call.
            unsafe { f(text.as_ptr(), bytes, info.len(), user.get()) };
        })
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
    pub fn tell(&self, context: u32, text: &str, info: &[u8]) -> Vec<Job> {
        let its = self.list.iter().filter(|l| l.context == context);
        its.map(|l| l.tell(text, info)).collect()
    }

    /// A command of a queue failed; a failure that belongs to no queue may be of interest to all.
    pub fn tell_of_queue(&self, queue: u32, text: &str) -> Vec<Job> {
        match (queue, self.queues.get(&queue)) {
            (0, _) => self.tell_all(text),
            (_, Some(context)) => self.tell(*context, text, &[]),
            (_, None) => Vec::new(),
        }
    }

    /// Something happened to all of them.
    pub fn tell_all(&self, text: &str) -> Vec<Job> {
        self.list.iter().map(|l| l.tell(text, &[])).collect()
    }
}

/// Failures of queued calls, by queue, until a call on that queue waits.
#[derive(Default)]
pub struct Failures(HashMap<u32, i32>);

impl Failures {
    /// A call on a queue failed; the first failure is the one that is told.
    pub fn add(&mut self, queue: u32, status: i32) {
        self.0.entry(queue).or_insert(status);
    }

    /// The failure of an earlier call on a queue, which is told once.
    pub fn take(&mut self, queue: u32) -> Result<(), i32> {
        self.0.remove(&queue).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;
    use std::sync::mpsc::{Sender, channel};

    unsafe extern "C" fn note(text: *const c_char, p: *const c_void, n: usize, user: *mut c_void) {
        // SAFETY: what the test below gives.
        unsafe {
            let text = CStr::from_ptr(text).to_string_lossy().into_owned();
            let say = &*user.cast::<Sender<(String, usize, bool)>>();
            say.send((text, n, p.is_null())).unwrap();
        }
    }

    #[test]
    fn a_context_hears_of_itself_and_of_its_queues_until_it_is_gone() {
        let (mut say, hear) = channel::<(String, usize, bool)>();
        let mut l = Listeners::default();
        l.add(1, note, User((&raw mut say).cast()));
        l.add_queue(1, 10);
        l.add_queue(2, 20);
        let run = |jobs: Vec<Job>| jobs.into_iter().for_each(|job| job());
        run(l.tell(1, "a\0b", &[1, 2]));
        run(l.tell(2, "another's", &[]));
        run(l.tell_of_queue(10, "q"));
        run(l.tell_of_queue(20, "another's"));
        run(l.tell_of_queue(0, "nobody's"));
        l.remove(1);
        run(l.tell_all("too late"));
        run(l.tell_of_queue(10, "too late"));
        let all: Vec<_> = hear.try_iter().collect();
        let said = |t: &str, n| (t.to_string(), n, n == 0);
        assert_eq!(all, [said("a b", 2), said("q", 0), said("nobody's", 0)]);
    }

    #[test]
    fn the_first_failure_of_a_queue_is_told_once() {
        let mut f = Failures::default();
        f.add(1, -5);
        f.add(1, -6);
        f.add(2, -7);
        assert_eq!((f.take(1), f.take(1)), (Err(-5), Ok(())));
        assert_eq!((f.take(3), f.take(2)), (Ok(()), Err(-7)));
    }
}
