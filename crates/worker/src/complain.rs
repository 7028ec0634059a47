//! Lines for the server's log, which is a worker's stderr. Where it cannot be written to, because
//! the disk is full or the reader is gone, a session must not end for it, as it would with
//! `eprintln!`.
//!
//! Much of a line may be a client's own words: each line is one line, of text, and has a most.

use busbar_control::text::one_line;
use std::fmt::Arguments;
use std::io::Write;

/// The longest line, in bytes.
const LONGEST: usize = 1000;
/// How each line of a worker begins.
pub(crate) const START: &str = "busbar worker: ";

/// Writes one line, if it can be written.
pub fn complain(line: Arguments<'_>) {
    say(&mut std::io::stderr(), &line.to_string());
}

/// Writes one line to what is the server's log.
pub(crate) fn say(log: &mut impl Write, line: &str) {
    let text = format!("{START}{}\n", one_line(line, LONGEST));
    let _ = log.write_all(text.as_bytes());
}

/// Writes one line for the server's log: `complain!("{what} failed")`.
#[macro_export]
macro_rules! complain {
    ($($arg:tt)*) => { $crate::complain::complain(format_args!($($arg)*)) };
}

#[cfg(test)]
mod tests {
    use super::say;

    #[test]
    fn a_line_is_one_line_whatever_it_says() {
        let mut log = Vec::new();
        say(
            &mut log,
            "the driver says x\n2026 INFO session opens\u{1b}[2J\r",
        );
        let log = String::from_utf8(log).unwrap();
        assert_eq!(
            log,
            "busbar worker: the driver says x\\n2026 INFO session opens\\u{1b}[2J\\r\n"
        );
    }
}
