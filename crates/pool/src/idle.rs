//! Which sessions have done nothing for long. Pure: looks and the time go in.

use std::collections::HashMap;
use std::time::Duration;

/// What somebody sees of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Its name.
    pub session: String,
    /// How much it has done so far, in whatever unit.
    pub done: u64,
    /// Whether it is at something, or waits for its turn.
    pub busy: bool,
    /// For how long it may do nothing.
    pub limit: Duration,
}

/// What was seen of sessions.
#[derive(Debug, Default)]
pub struct Idle {
    /// How much each had done, and since when that is so.
    seen: HashMap<String, (u64, Duration)>,
}

impl Idle {
    /// Looks at all sessions that may not do nothing for ever: which of them have for as long as
    /// they may, and which not. Others are forgotten.
    pub fn look(&mut self, all: Vec<Look>, now: Duration) -> Vec<(String, bool)> {
        let before = std::mem::take(&mut self.seen);
        let each = all.into_iter().map(|look| {
            let old = before.get(&look.session).copied();
            let same = old.filter(|(done, _)| *done == look.done && !look.busy);
            let (_, since) = same.unwrap_or((look.done, now));
            self.seen.insert(look.session.clone(), (look.done, since));
            (look.session, now.saturating_sub(since) >= look.limit)
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_nothing_for_as_long_as_it_may_is_idle_until_it_does_something() {
        let mut idle = Idle::default();
        let mut at = |seconds: u64, done, busy| {
            let look = |name: &str, limit| Look {
                session: name.into(),
                done,
                busy,
                limit: Duration::from_secs(limit),
            };
            let all = vec![look("soon", 10), look("late", 60)];
            let said = idle.look(all, Duration::from_secs(seconds));
            [said[0].1, said[1].1]
        };
        assert_eq!(at(100, 1, false), [false, false], "from the first look on");
        assert_eq!(at(109, 1, false), [false, false]);
        assert_eq!(at(110, 1, false), [true, false]);
        assert_eq!(at(160, 1, false), [true, true]);
        assert_eq!(at(161, 2, false), [false, false]);
        // One that computes for long makes no calls.
        assert_eq!(at(200, 2, true), [false, false]);
        assert_eq!(at(209, 2, false), [false, false]);
        assert_eq!(at(210, 2, false), [true, false]);
        // Whoever is not looked at is forgotten.
        assert!(idle.look(Vec::new(), Duration::from_secs(211)).is_empty());
        assert!(idle.seen.is_empty());
    }
}
