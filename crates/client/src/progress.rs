//! What is said of a long upload where somebody sits at a terminal: how much of it is done, how
//! fast it goes, and how long the rest takes. `busbar run` asks for it (`BUSBAR_PROGRESS=1`).

use crate::prelude::*;
use busbar_control::size;
use std::io::Write;

/// Bytes of what is worth a word.
const LEAST: usize = 100_000_000;
/// What is over within this time needs none.
const QUIET: Duration = Duration::from_secs(2);
/// How often there is a new one.
const STEP: Duration = Duration::from_millis(500);
/// To the beginning of the line, and clear it.
const CLEAR: &str = "\r\x1b[K";

/// An upload that is under way, until this is dropped.
pub struct Progress {
    total: usize,
    done: usize,
    begun: Instant,
    next: Instant,
    told: bool,
}

impl Progress {
    /// An upload of so many bytes begins; nothing is said of a short one, or unasked.
    pub fn of(total: usize) -> Option<Self> {
        let begun = Instant::now();
        (total >= LEAST && crate::config::var("BUSBAR_PROGRESS").is_some_and(|v| v == "1")).then(
            || Self {
                total,
                done: 0,
                begun,
                next: begun + QUIET,
                told: false,
            },
        )
    }

    /// So many bytes more are on their way.
    pub fn add(&mut self, bytes: usize) {
        self.done += bytes;
        let now = Instant::now();
        if now < self.next {
            return;
        }
        (self.told, self.next) = (true, now + STEP);
        say(&line(self.done, self.total, now - self.begun));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.told {
            say("");
        }
    }
}

fn say(text: &str) {
    // A program may have closed its stderr; that is no reason to fail.
    let _ = std::io::stderr().write_all(format!("{CLEAR}{text}").as_bytes());
}

fn line(done: usize, total: usize, since: Duration) -> String {
    let rate = done as f64 / since.as_secs_f64().max(1e-3);
    let left = total.saturating_sub(done) as f64 / rate.max(1.0);
    format!(
        "busbar: upload: {} of {}, {:.2} GB/s, {left:.0} s left",
        size::show(done as u64),
        size::show(total as u64),
        rate / 1e9,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_much_how_fast_and_how_long_yet() {
        let half = line(1 << 30, 2 << 30, Duration::from_secs(4));
        assert_eq!(
            half,
            "busbar: upload: 1.0 GiB of 2.0 GiB, 0.27 GB/s, 4 s left"
        );
        let nothing = line(0, 1 << 30, Duration::ZERO);
        assert!(nothing.contains("0.00 GB/s"), "{nothing}");
    }
}
