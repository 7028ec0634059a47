//! How often the worker is asked what kernels have changed in memory by which they may talk to the
//! program, and how long the thread that asks sleeps.

use std::time::Duration;

/// A change is likely as long as the last one is no older than this: the thread sleeps for nothing
/// but the answer.
const EAGER: Duration = Duration::from_millis(20);
/// How long the thread sleeps after that between two looks at what the program has changed, and
/// where no kernel and program talk.
const PAUSE: Duration = Duration::from_micros(200);
const LONG_PAUSE: Duration = Duration::from_millis(2);
/// The device is asked again after this part of the time in which nothing has changed, so that a
/// change is seen late by as much at most; and after [`LONG_PAUSE`] at the latest. A training step
/// that says nothing to anybody would fill the link with questions.
const PART: u32 = 100;
/// From so many bytes on there is a pause as long as the answer took: others wait for whoever
/// compares them.
const MANY: usize = 32 << 10;

/// What there is to ask for.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    /// Bytes that kernels may have changed.
    pub bytes: usize,
    /// A kernel and the program may talk by some of them.
    pub talk: bool,
}

/// The pace, over time in which work is under way.
#[derive(Debug, Default)]
pub struct Pace {
    /// How long nothing has changed.
    quiet: Duration,
    /// How long nothing was asked.
    unasked: Duration,
}

impl Pace {
    /// Whether to ask now. The program may just have changed something.
    pub fn asks(&self, sight: Sight, changed: bool) -> bool {
        let patience = match sight.talk {
            true => (self.quiet / PART).min(LONG_PAUSE),
            false => LONG_PAUSE,
        };
        sight.bytes > 0 && (changed || self.quiet < EAGER || self.unasked >= patience)
    }

    /// A look has taken so long, whether it `asked` or not, and something has `changed` or nothing:
    /// how long to sleep before the next.
    pub fn rest(&mut self, sight: Sight, took: Duration, asked: bool, changed: bool) -> Duration {
        let busy = if sight.bytes > MANY {
            took
        } else {
            Duration::ZERO
        };
        let rest = busy
            + match sight {
                Sight { bytes: 0, .. } => PAUSE,
                Sight { talk: false, .. } => LONG_PAUSE,
                _ if !changed && self.quiet > EAGER => PAUSE,
                _ => Duration::ZERO,
            };
        let time = took + rest;
        self.quiet = if changed {
            Duration::ZERO
        } else {
            self.quiet + time
        };
        self.unasked = if asked { rest } else { self.unasked + time };
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAG: Sight = Sight {
        bytes: 8,
        talk: true,
    };
    const TRIP: Duration = Duration::from_micros(160);

    /// Looks for so long on a clock of its own; how often the worker was asked, and how long the
    /// thread slept.
    fn looks(pace: &mut Pace, sight: Sight, long: Duration) -> (u32, Duration) {
        let (mut now, mut asked, mut slept) = (Duration::ZERO, 0, Duration::ZERO);
        while now < long {
            let asks = pace.asks(sight, false);
            let took = if asks { TRIP } else { Duration::from_micros(5) };
            let rest = pace.rest(sight, took, asks, false);
            (now, asked, slept) = (now + took + rest, asked + u32::from(asks), slept + rest);
        }
        (asked, slept)
    }

    #[test]
    fn after_a_change_the_thread_sleeps_for_nothing_but_the_answer() {
        let mut pace = Pace::default();
        assert_eq!(pace.rest(FLAG, TRIP, true, true), Duration::ZERO);
        let (asked, slept) = looks(&mut pace, FLAG, EAGER);
        assert_eq!((asked, slept), (125, Duration::ZERO));
    }

    #[test]
    fn the_longer_nothing_changes_the_less_is_asked() {
        let mut pace = Pace::default();
        let second = Duration::from_secs(1);
        let (first, _) = looks(&mut pace, FLAG, second);
        let (later, slept) = looks(&mut pace, FLAG, second);
        assert!(
            later < first && (400..=500).contains(&later),
            "{first} {later}"
        );
        assert!(slept > second / 2, "{slept:?}");
        // What is seen late is late by no more than two pauses.
        assert!(pace.asks(FLAG, true), "the program has changed something");
        pace.rest(FLAG, TRIP, true, true);
        assert!(pace.asks(FLAG, false));
    }

    #[test]
    fn memory_by_which_nobody_talks_is_asked_for_seldom() {
        let mut pace = Pace::default();
        let loss = Sight {
            talk: false,
            ..FLAG
        };
        let (asked, _) = looks(&mut pace, loss, Duration::from_secs(1));
        assert!((400..=500).contains(&asked), "{asked}");
    }

    #[test]
    fn nothing_is_asked_where_nothing_may_have_changed() {
        let mut pace = Pace::default();
        let none = Sight {
            bytes: 0,
            talk: false,
        };
        assert!(!pace.asks(none, true));
        let took = Duration::from_micros(5);
        assert_eq!(pace.rest(none, took, false, false), PAUSE);
    }

    #[test]
    fn many_bytes_have_a_pause_as_long_as_their_answer() {
        let many = Sight {
            bytes: MANY + 1,
            talk: true,
        };
        assert_eq!(Pace::default().rest(many, TRIP, true, true), TRIP);
    }
}
