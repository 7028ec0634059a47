//! Addresses that have not answered, as behind a wall that swallows what it does not let in: for a
//! while they are dialled by nobody, so that no program waits to find out what is known.

use busbar_transport::lock::lock;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// For how long an address is not dialled that has not answered, and how many such are known.
const KNOWN_SILENT: Duration = Duration::from_secs(60);
const MOST_SILENT: usize = 256;

/// These addresses.
#[derive(Default)]
pub(crate) struct Silent(Mutex<HashMap<SocketAddr, Instant>>);

impl Silent {
    /// Whether an address has not answered of late.
    pub fn holds(&self, a: SocketAddr, now: Instant) -> bool {
        let all = lock(&self.0);
        all.get(&a)
            .is_some_and(|t| now.duration_since(*t) < KNOWN_SILENT)
    }

    /// It has not answered.
    pub fn note(&self, a: SocketAddr, now: Instant) {
        let mut all = lock(&self.0);
        all.retain(|_, t| now.duration_since(*t) < KNOWN_SILENT);
        if all.len() < MOST_SILENT {
            all.insert(a, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_is_left_alone_for_a_while() {
        let silent = Silent::default();
        let a = |n: u8| SocketAddr::from(([10, 0, 0, n], 7400));
        let start = Instant::now();
        silent.note(a(1), start);
        assert!(silent.holds(a(1), start) && !silent.holds(a(2), start));
        let later = start + KNOWN_SILENT;
        assert!(!silent.holds(a(1), later), "it may answer again");
        for n in 0..2 * MOST_SILENT {
            silent.note(([10, 0, (n >> 8) as u8, n as u8], 1).into(), later);
        }
        assert_eq!(lock(&silent.0).len(), MOST_SILENT);
    }
}
