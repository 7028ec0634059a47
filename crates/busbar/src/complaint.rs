//! What people are told on stderr. A line goes out in one piece: programs of one job share it, and
//! whoever looks for one of these lines must find it whole.

use std::fmt::Display;
use std::io::Write;

/// Says why something is as it is, in a line of ours.
pub fn complain(why: impl Display) {
    line(format_args!("busbar: {why}"));
}

/// Passes a line on.
pub fn line(text: impl Display) {
    // Nobody may be there to read it.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
