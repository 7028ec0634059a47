//! Lines for the server's log, which is a worker's stderr. Where it cannot be written to, because
//! the disk is full or the reader is gone, a session must not end for it, as it would with
//! `eprintln!`.

use std::fmt::Arguments;
use std::io::Write;

/// Writes one line, if it can be written.
pub fn complain(line: Arguments<'_>) {
    let text = format!("busbar worker: {line}\n");
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Writes one line for the server's log: `complain!("{what} failed")`.
#[macro_export]
macro_rules! complain {
    ($($arg:tt)*) => { $crate::complain::complain(format_args!($($arg)*)) };
}
