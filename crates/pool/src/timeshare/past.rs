//! Device time that one session has had of late, in steps.

use super::part::{Share, WHOLE};
use std::time::Duration;

const STEP: Duration = Duration::from_millis(100);
const STEPS: usize = 600;
/// How many steps a second has.
pub const SECOND: usize = 10;
/// All steps that are whole.
pub const MINUTE: usize = STEPS - 1;

fn step(now: Duration) -> usize {
    (now.as_nanos() / STEP.as_nanos()) as usize
}

/// What is remembered; nothing is allocated for who has had nothing.
#[derive(Debug, Default)]
pub struct Past {
    /// The number of the newest step.
    newest: usize,
    /// Device time in each of the last steps, by number.
    steps: Vec<u32>,
}

impl Past {
    /// Notes device time that was used up to now.
    pub fn remember(&mut self, now: Duration, used: Duration) {
        let last = step(now);
        if self.steps.is_empty() {
            (self.newest, self.steps) = (last, vec![0; STEPS]);
        }
        for i in self.newest + 1..=last.min(self.newest + STEPS) {
            self.steps[i % STEPS] = 0;
        }
        self.newest = self.newest.max(last);
        // A long piece belongs to the steps before, too.
        let (mut left, mut at) = (used.as_nanos() as u64, now.as_nanos() as u64);
        let long = STEP.as_nanos() as u64;
        for _ in 0..STEPS {
            if left == 0 {
                break;
            }
            let i = at.saturating_sub(1) / long;
            let part = left.min(at - i * long);
            if let Some(s) = self.steps.get_mut(i as usize % STEPS) {
                *s = s.saturating_add(part as u32);
            }
            (left, at) = (left - part, at - part);
            if at == 0 {
                break;
            }
        }
    }

    /// What was had of the last so many steps that are whole, in thousandths.
    pub fn share(&self, now: Duration, steps: usize) -> Share {
        let last = step(now);
        let all = (last.saturating_sub(steps)..last).filter_map(|i| self.at_step(i, last));
        let time: u64 = all.map(u64::from).sum();
        let whole = STEP.as_nanos() as u64 * steps as u64;
        ((time * u64::from(WHOLE) + whole / 2) / whole) as Share
    }

    /// The time of a step, if it is remembered.
    fn at_step(&self, i: usize, last: usize) -> Option<u32> {
        let there = i <= self.newest && i + STEPS > self.newest.max(last);
        self.steps.get(i % STEPS).filter(|_| there).copied()
    }
}
