//! How many lines of the log somebody may have written.

use std::time::Instant;

/// How many at once, and how many come back each second.
pub(crate) type Allowance = (f64, f64);

/// Lines that may still be written.
#[derive(Clone, Copy)]
pub(crate) struct Budget {
    lines: f64,
    at: Instant,
}

impl Budget {
    /// All of an allowance.
    pub(crate) fn full((most, _): Allowance, now: Instant) -> Self {
        Self {
            lines: most,
            at: now,
        }
    }

    /// How many there are by now.
    pub(crate) fn now(self, now: Instant, (most, back): Allowance) -> f64 {
        let waited = now.saturating_duration_since(self.at).as_secs_f64();
        (self.lines + back * waited).min(most)
    }

    /// One less.
    pub(crate) fn spent(self, now: Instant, allowance: Allowance) -> Self {
        Self {
            lines: self.now(now, allowance) - 1.0,
            at: now,
        }
    }

    /// Takes one, if there is one.
    pub(crate) fn spend(&mut self, now: Instant, allowance: Allowance) -> bool {
        let some = self.now(now, allowance) >= 1.0;
        if some {
            *self = self.spent(now, allowance);
        }
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn lines_that_were_spent_come_back_with_time() {
        let (begin, two) = (Instant::now(), (2.0, 0.5));
        let mut budget = Budget::full(two, begin);
        let at = |s| begin + Duration::from_secs(s);
        let said = [0, 0, 0, 1, 2, 3, 9, 9, 9].map(|s| budget.spend(at(s), two));
        let wanted = [true, true, false, false, true, false, true, true, false];
        assert_eq!(said, wanted);
    }
}
