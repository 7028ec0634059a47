//! The environment, as far as it may be heeded: see [`crate::config`].

/// A variable of the environment, if that is to be trusted.
pub fn var(name: &str) -> Option<String> {
    // SAFETY: reads what the kernel told the process as it started.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    std::env::var(name).ok().filter(|_| !secure)
}
