//! The end of a process: a session is closed in good order, and the counters are shown to who asked
//! for them. The C library tells of it, unless the program leaves at once (`_exit`), as children
//! of Python's `multiprocessing` do. Where counters are wanted these are to have them, too, so that
//! function is replaced then.

use crate::prelude::*;
use crate::replace::{AHEAD, LIBRARY, Next, Replacement, replace};
use libc::c_int;
use std::ffi::{CStr, c_void};
use std::sync::Once;

/// How this process ends.
struct End {
    /// The process that this is, and what is to be done at its end.
    process: AtomicI32,
    last: Mutex<Vec<extern "C" fn()>>,
    replaced: Once,
    /// Where ours lead to: the C library has two names for one function.
    next: [Next; 2],
}

static END: End = End {
    process: AtomicI32::new(0),
    last: Mutex::new(Vec::new()),
    replaced: Once::new(),
    next: [const { Next::new() }; 2],
};

const EXITS: [Replacement; 2] = [exit::<0>(c"_exit"), exit::<1>(c"_Exit")];

/// What comes in the place of one of them.
const fn exit<const NAME: usize>(name: &'static CStr) -> Replacement {
    Replacement {
        name,
        ours: [
            leave::<NAME, LIBRARY> as *const (),
            leave::<NAME, AHEAD> as *const (),
        ],
        next: &END.next[NAME],
    }
}

/// Has `f` run when the process ends.
pub fn at_exit(f: extern "C" fn()) {
    // SAFETY: a plain function that lives as long as the library, which is linked never to be
    // unloaded.
    unsafe { libc::atexit(f) };
    if crate::stats::asked() {
        lock(&END.last).push(f);
        END.process.store(here(), Ordering::Release);
        END.replaced.call_once(|| replace(&EXITS));
    }
}

fn here() -> libc::pid_t {
    // SAFETY: asks for a number.
    unsafe { libc::getpid() }
}

unsafe extern "C" fn leave<const NAME: usize, const PLACE: usize>(code: c_int) {
    // The child of a `vfork` has its parent's memory, and that of a `fork` a copy, in which locks
    // may be held for ever: both leave without doing anything there.
    if END.process.load(Ordering::Acquire) == here() {
        let last = std::mem::take(&mut *lock(&END.last));
        last.iter().rev().for_each(|f| f());
    }
    // SAFETY: whoever comes here was led here after it was looked up where that leads to.
    unsafe {
        type Real = unsafe extern "C" fn(c_int);
        std::mem::transmute::<*const c_void, Real>(END.next[NAME].of(PLACE))(code);
    }
}
