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
}

/// For how long a session has done nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Still {
    /// How much it had done before.
    pub done: u64,
    /// For how long.
    pub time: Duration,
}

/// What was seen of sessions.
#[derive(Debug, Default)]
pub struct Idle {
    /// How much each had done, and since when that is so.
    seen: HashMap<String, (u64, Duration)>,
}

impl Idle {
    /// Looks at all sessions that may not do nothing for ever: for how long each has, and how much
    /// it had done before. Others are forgotten.
    pub fn look(&mut self, all: Vec<Look>, now: Duration) -> Vec<(String, Still)> {
        let before = std::mem::take(&mut self.seen);
        let each = all.into_iter().map(|look| {
            let old = before.get(&look.session).copied();
            let same = old.filter(|(done, _)| *done == look.done && !look.busy);
            let (_, since) = same.unwrap_or((look.done, now));
            self.seen.insert(look.session.clone(), (look.done, since));
            let (done, time) = (look.done, now.saturating_sub(since));
            (look.session, Still { done, time })
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_nothing_is_idle_until_it_does_something() {
        let mut idle = Idle::default();
        let mut at = |seconds: u64, done, busy| {
            let session = "one".into();
            let all = vec![Look {
                session,
                done,
                busy,
            }];
            let said = idle.look(all, Duration::from_secs(seconds));
            assert_eq!(said[0].1.done, done);
            said[0].1.time.as_secs()
        };
        assert_eq!(at(100, 1, false), 0, "from the first look on");
        assert_eq!(at(109, 1, false), 9);
        assert_eq!(at(160, 1, false), 60);
        assert_eq!(at(161, 2, false), 0);
        // One that computes for long makes no calls.
        assert_eq!(at(200, 2, true), 0);
        assert_eq!(at(209, 2, false), 9);
        // Whoever is not looked at is forgotten.
        assert!(idle.look(Vec::new(), Duration::from_secs(211)).is_empty());
        assert!(idle.seen.is_empty());
    }
}
