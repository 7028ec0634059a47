//! Threads of ours in a process of somebody else.

/// Starts a thread that blocks all signals.
pub(crate) fn spawn(name: String, f: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    // The program's signals are the program's: our threads must not be chosen to run its handlers.
    // A new thread inherits the mask, so it is set around the spawn.
    // SAFETY: both sets are live and initialised by sigfillset and pthread_sigmask.
    let old = unsafe {
        let mut all = std::mem::zeroed();
        let mut old = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        old
    };
    let r = std::thread::Builder::new()
        .name(name)
        .stack_size(1 << 20)
        .spawn(f)
        .map(drop);
    // SAFETY: restores the mask read above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut()) };
    r
}
