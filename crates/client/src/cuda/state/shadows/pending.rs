//! Work that nobody has been seen to wait for.
//!
//! Work is noted before it is sent, since what the program has written goes ahead of it. A wait of
//! another thread that begins in between ends too soon to say anything of it.

use std::collections::HashMap;
use std::thread::ThreadId;

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

    /// A thread is about to send what it has noted.
    pub fn sends(&mut self, who: ThreadId, place: Place) {
        self.0.entry(place).or_default().unsent.push(who);
    }

    /// It has sent it: a wait that has begun before says nothing of it. False where the thread has
    /// waited for it meanwhile.
    pub fn sent(&mut self, who: ThreadId, place: Place, count: u64) -> bool {
        let Some(latest) = self.0.get_mut(&place) else {
            return false;
        };
        let Some(mine) = latest.unsent.iter().position(|t| *t == who) else {
            return false;
        };
        latest.unsent.swap_remove(mine);
        latest.count = count;
        true
    }

    /// Where others than this thread have noted work that they have not sent.
    pub fn unsent(&self, who: ThreadId) -> Vec<Place> {
        let others = |l: &Latest| l.unsent.iter().any(|t| *t != who);
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
    use std::thread;

    #[test]
    fn a_wait_says_nothing_of_what_another_thread_has_not_sent_yet() {
        let (mut p, at) = (Pending::default(), (1, 2));
        let me = thread::current().id();
        let other = thread::spawn(|| ()).thread().id();
        p.note(at, 5);
        p.sends(me, at);
        assert_eq!(p.unsent(me), [], "a thread sends before it waits");
        assert_eq!(p.unsent(other), [at]);
        assert!(p.sent(me, at, 6));
        assert_eq!(p.unsent(other), []);
        assert_eq!((p.since(5), p.since(6)), (vec![at], vec![]));
        p.sends(me, at);
        p.over(|_, _| true);
        assert!(!p.sent(me, at, 7) && p.is_empty(), "it was waited for");
    }
}
