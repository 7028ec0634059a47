//! Threads inside somebody else's program.

use std::io;
use std::thread::Builder;

/// Runs `start`; threads that it starts take no signals, which are an affair of the program's own
/// threads, but for those of their own faults: what they read and write may be shadowed memory.
pub fn quietly<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are live, and initialised by sigfillset and pthread_sigmask.
    let old = unsafe {
        let mut set = std::mem::zeroed();
        let mut old = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        libc::sigdelset(&raw mut set, libc::SIGSEGV);
        libc::sigdelset(&raw mut set, libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut old);
        old
    };
    let started = start();
    // SAFETY: restores the mask read above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut()) };
    started
}

/// Starts a thread quietly; that it cannot be started is logged.
pub fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let started = quietly(|| Builder::new().name(name.into()).spawn(run));
    started
        .map(drop)
        .inspect_err(|e| crate::log!(Error, "cannot start the thread {name}: {e}"))
}
