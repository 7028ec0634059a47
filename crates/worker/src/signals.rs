//! Signals that tell a worker to end. Its client is told first: it would take a worker that just
//! dies for a link that was lost, and try for a minute to get it back.
//!
//! The signals are blocked and waited for. Handlers would not do: libraries set their own (LLVM,
//! which is in OpenCL drivers, takes all that end a process).

use crate::outbox::Outbox;
use std::mem::MaybeUninit;

/// What the kernel sends when the server has died; see `PR_SET_PDEATHSIG`. One that nobody else
/// uses.
pub fn orphaned() -> i32 {
    libc::SIGRTMAX() - 4
}

/// Those that end a process, from a terminal or a service manager that signals all of a service's
/// processes, and the server's death.
fn set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set; the numbers are valid.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for s in [
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGHUP,
            libc::SIGQUIT,
            orphaned(),
        ] {
            libc::sigaddset(set.as_mut_ptr(), s);
        }
        set.assume_init()
    }
}

/// Blocks the signals, in this thread and in all that it starts from now on.
pub fn block() {
    let set = set();
    // SAFETY: the set is initialised.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Ends the session and the process when one of the signals comes. They must be blocked.
pub(crate) fn obey(outbox: Outbox) -> std::io::Result<()> {
    let wait = move || {
        let (set, mut signal) = (set(), 0);
        // SAFETY: the set is initialised, and the number's place is live.
        if unsafe { libc::sigwait(&raw const set, &raw mut signal) } != 0 {
            return;
        }
        outbox.leave(match signal == orphaned() {
            true => "the server ended",
            false => "the server's worker was told to end",
        });
    };
    std::thread::Builder::new()
        .name("signals".into())
        .stack_size(256 << 10)
        .spawn(wait)
        .map(drop)
}
