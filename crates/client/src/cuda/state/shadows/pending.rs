//! Work that nobody has been seen to wait for.
//!
//! Work is noted before it is sent, since what the program has written goes ahead of it. A wait of
//! another thread that begins in between ends too soon to say anything of it.

use std::collections::HashMap;
use std::thread::{self, ThreadId};

/// A context and a stream.
pub type Place = (u32, u32);

#[derive(Debug, Default)]
struct Latest {
    /// The count of the latest work there.
    count: u64,
    /// Threads that have noted work, and not sent it yet.
    unsent: Vec<ThreadId>,
}

/// The latest work of each context and stream.
#[derive(Debug, Default)]
pub struct Pending(HashMap<Place, Latest>);

impl Pending {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, place: &Place) -> bool {
        self.0.contains_key(place)
    }

    /// Where there is work that was noted after a count.
    pub fn since(&self, count: u64) -> Vec<Place> {
        let since = self.0.iter().filter(|(_, l)| l.count > count);
        since.map(|(place, _)| *place).collect()
    }

    /// Work is noted.
    pub fn note(&mut self, place: Place, count: u64) {
        self.0.entry(place).or_default().count = count;
    }

    /// The calling thread is about to send what it has noted.
    pub fn sends(&mut self, place: Place) {
        let me = thread::current().id();
        self.0.entry(place).or_default().unsent.push(me);
    }

    /// It has sent it: a wait that has begun before says nothing of it. False where the thread has
    /// waited for it meanwhile.
    pub fn sent(&mut self, place: Place, count: u64) -> bool {
        let me = thread::current().id();
        let Some(latest) = self.0.get_mut(&place) else {
            return false;
        };
        let Some(mine) = latest.unsent.iter().position(|t| *t == me) else {
            return false;
        };
        latest.unsent.swap_remove(mine);
        latest.count = count;
        true
    }

    /// Where another thread than the caller has noted work that it has not sent.
    pub fn unsent(&self) -> Vec<Place> {
        let me = thread::current().id();
        let others = |l: &Latest| l.unsent.iter().any(|t| *t != me);
        let places = self.0.iter().filter(|(_, l)| others(l));
        places.map(|(place, _)| *place).collect()
    }

    /// Work is over.
    pub fn over(&mut self, is_over: impl Fn(Place, u64) -> bool) {
        self.0.retain(|place, l| !is_over(*place, l.count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_says_nothing_of_what_another_thread_has_not_sent_yet() {
        let (mut p, all) = (Pending::default(), |_: Place, _: u64| true);
        p.note((1, 2), 5);
        p.sends((1, 2));
        assert_eq!(p.unsent(), [], "a thread sends before it waits");
        thread::scope(|s| {
            s.spawn(|| assert_eq!(p.unsent(), [(1, 2)]));
        });
        assert!(p.sent((1, 2), 6));
        thread::scope(|s| {
            s.spawn(|| assert_eq!(p.unsent(), []));
        });
        assert_eq!((p.since(5), p.since(6)), (vec![(1, 2)], vec![]));
        p.sends((1, 2));
        p.over(all);
        assert!(!p.sent((1, 2), 7) && p.is_empty(), "it was waited for");
    }
}
