//! How far a communicator has come: which calls this rank has made, and which of them its device is
//! in. So one rank can say what it waits for, and another what it lacks.
//!
//! Marks stand in the stream before a call and behind it: a device that has passed the first and
//! not the second is in the call, and one that has not come to the first computes.

use crate::cuda::Mark;
use busbar_control::talk::{Side, Waits};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Calls whose marks are kept at most: of more nobody knows whether they are done.
const MOST: usize = 1024;
/// Calls on one stream that follow each other by less than this have one mark between them.
const CLOSE: Duration = Duration::from_millis(1);

/// How long ranks that make a communicator wait for each other before one says so.
const MEETING: Duration = Duration::from_secs(10);
/// In the place of a stream: the call itself waits for other ranks.
pub const HOST: u64 = u64::MAX;

/// A call, or a group of them on one stream.
struct Step {
    name: &'static str,
    /// Its sides, each with how many there have been.
    sides: Vec<(Side, u64)>,
    stream: u64,
    begun: Instant,
    /// Until the device comes to it.
    before: Option<Mark>,
    /// Since when the device is in it.
    since: Option<Instant>,
    /// Until the device has done it; none while the library has not returned.
    after: Option<Mark>,
    /// Others were asked, or have asked.
    told: bool,
}

/// The last call that took part in something.
struct Last {
    count: u64,
    name: &'static str,
    at: Instant,
}

/// See the module.
pub struct Steps {
    /// What the communicator is called by all its ranks.
    key: u64,
    place: (u32, u32),
    /// How many communicators have come of this one.
    children: u32,
    made: HashMap<Side, Last>,
    ahead: VecDeque<Step>,
    /// Marks that were passed.
    free: Vec<Mark>,
    /// The last question that was answered.
    answered: Option<(Side, u64)>,
}

impl Steps {
    pub fn new(key: u64, place: (u32, u32)) -> Self {
        Self {
            key,
            place,
            children: 0,
            made: HashMap::new(),
            ahead: VecDeque::new(),
            free: Vec::new(),
            answered: None,
        }
    }

    /// What the communicator is called by all its ranks.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// What the next communicator is called that comes of this one.
    pub fn child(&mut self, color: i32) -> u64 {
        self.children += 1;
        key(format!("{:x} {} {color}", self.key, self.children).as_bytes())
    }

    /// Whether this is a rank of the communicator that somebody waits for others in.
    pub fn is_of(&self, w: &Waits) -> bool {
        self.key == w.comm
    }

    /// Which rank this is.
    pub fn found(&mut self, rank: u32, ranks: u32) {
        self.place = (rank, ranks);
    }

    /// A mark that can be put somewhere again.
    pub fn spare(&mut self) -> Option<Mark> {
        self.free.pop()
    }

    /// Whether a call on this stream needs a mark before it, for the one behind the last call is
    /// too far away.
    pub fn is_far(&self, stream: u64, now: Instant) -> bool {
        let near = |s: &Step| s.stream == stream && now.duration_since(s.begun) < CLOSE;
        !self.ahead.back().is_some_and(near)
    }

    /// A call begins. One that takes part in nothing makes the communicator.
    pub fn begins(
        &mut self,
        name: &'static str,
        sides: &[Side],
        (stream, before): (u64, Option<Mark>),
        now: Instant,
    ) {
        let mut counted: Vec<(Side, u64)> = Vec::new();
        for side in sides {
            let (count, at) = (0, now);
            let last = self.made.entry(*side).or_insert(Last { count, name, at });
            *last = Last {
                count: last.count + 1,
                name,
                at,
            };
            counted.retain(|(s, _)| s != side);
            counted.push((*side, last.count));
        }
        let since = before.is_none().then_some(now);
        self.ahead.push_back(Step {
            name,
            sides: counted,
            stream,
            begun: now,
            before,
            since,
            after: None,
            told: false,
        });
    }

    /// The call that began last on this stream has returned, and has this mark behind it, or is
    /// done.
    pub fn ends(&mut self, stream: u64, after: Option<Mark>) {
        let of = |s: &Step| s.stream == stream && s.after.is_none();
        let Some(at) = self.ahead.iter().rposition(of) else {
            return;
        };
        match after {
            Some(mark) if self.ahead.len() <= MOST => self.ahead[at].after = Some(mark),
            // A mark that is not looked at can be put elsewhere at once.
            mark => {
                self.ahead.remove(at);
                self.free.extend(mark);
            }
        }
    }

    /// Looks how far the device has come; whether it has come further in what others know of.
    pub fn look(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(step) = self.ahead.front_mut() {
            if step.before.as_ref().is_some_and(|m| !m.is_passed()) {
                break;
            }
            if let Some(mark) = step.before.take() {
                self.free.push(mark);
            }
            step.since.get_or_insert(now);
            match step.after.take() {
                Some(mark) if mark.is_passed() => {
                    moved |= step.told;
                    self.free.push(mark);
                    self.ahead.pop_front();
                    if let Some(next) = self.ahead.front_mut()
                        && next.before.is_none()
                    {
                        next.since = Some(now);
                    }
                }
                not_yet => {
                    step.after = not_yet;
                    break;
                }
            }
        }
        let made = |(side, n): (Side, u64)| self.made.get(&side).is_some_and(|l| l.count >= n);
        if self.answered.is_some_and(made) {
            self.answered = None;
            moved = true;
        }
        moved
    }

    /// The call that the device has been in for so long, if nobody was asked for it yet. Ranks that
    /// have come late to it ask a little later: one is enough.
    pub fn waits(&mut self, limit: Duration, now: Instant) -> Option<Waits> {
        let (rank, ranks) = self.place;
        let turn = Duration::from_millis(500) * rank.min(8);
        let step = self.ahead.front_mut()?;
        let waited = now.duration_since(step.since?);
        // Whoever never comes to a communicator is not there to be asked.
        let limit = match step.sides.is_empty() {
            true => limit.min(MEETING),
            false => limit + turn,
        };
        if step.told || step.before.is_some() || waited < limit {
            return None;
        }
        step.told = true;
        let first = step.sides.first().copied();
        let (side, number) = first.unwrap_or((Side::All, 0));
        Some(Waits {
            comm: self.key,
            rank,
            ranks,
            call: step.name.into(),
            side,
            number,
            seconds: waited.as_secs(),
            who: String::new(),
        })
    }

    /// Somebody waits: what this rank lacks of it, in words that follow its name, if it lacks
    /// anything.
    pub fn lacks(&mut self, w: &Waits, now: Instant) -> Option<String> {
        let (rank, _) = self.place;
        let (mine, concerned) = match w.side {
            Side::All => (Side::All, w.rank != rank),
            Side::From(peer) => (Side::To(w.rank), peer == rank),
            Side::To(peer) => (Side::From(w.rank), peer == rank),
        };
        if !self.is_of(w) {
            return None;
        }
        // It waits as well, or makes others wait: it need not ask.
        for step in &mut self.ahead {
            step.told |= match w.number {
                0 => step.sides.is_empty(),
                n => step.sides.contains(&(w.side, n)),
            };
        }
        // Whoever knows the communicator has come to make it.
        let has_come = w.number == 0;
        if has_come || !concerned || self.answered == Some((mine, w.number)) {
            return None;
        }
        let last = self.made.get(&mine);
        if last.is_none_or(|l| l.count < w.number) {
            self.answered = Some((mine, w.number));
            let ago = |l: &Last| {
                let s = now.duration_since(l.at).as_secs();
                format!("its last was number {}, {}, {s} s ago", l.count, l.name)
            };
            let last = last.map_or("it has called none yet".into(), ago);
            return Some(format!("has not called it: {last}"));
        }
        let ahead = |s: &&Step| s.sides.contains(&(mine, w.number)) && s.before.is_some();
        self.ahead.iter().find(ahead)?;
        Some("has called it, and its device still computes what comes before".into())
    }
}

/// A number for what all ranks of a communicator have alike.
pub fn key(of: &[u8]) -> u64 {
    let hash = blake3::hash(of);
    u64::from_le_bytes(*hash.as_bytes().first_chunk().unwrap_or(&[0; 8]))
}

/// What a call is, to those who wait in it.
pub fn named(w: &Waits) -> String {
    match w.side {
        Side::All => format!("{} (number {})", w.call, w.number),
        Side::From(peer) => format!("{} (number {} from rank {peer})", w.call, w.number),
        Side::To(peer) => format!("{} (number {} to rank {peer})", w.call, w.number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn of(rank: u32) -> Steps {
        Steps::new(7, (rank, 3))
    }

    /// A call that waits on the host.
    fn call(s: &mut Steps, sides: &[Side], now: Instant) {
        s.begins("ncclSomething", sides, (HOST, None), now);
    }

    #[test]
    fn a_rank_asks_once_and_only_who_lacks_the_call_answers_once() {
        let (mut waits, mut lacks, mut also) = (of(0), of(1), of(2));
        let start = Instant::now();
        call(&mut waits, &[Side::All], start);
        call(&mut also, &[Side::All], start);
        let almost = start + MINUTE - Duration::from_millis(1);
        assert_eq!(waits.waits(MINUTE, almost), None);
        let asked = waits
            .waits(MINUTE, start + MINUTE)
            .expect("a minute is over");
        assert_eq!((asked.number, asked.seconds), (1, 60));
        let later = start + 2 * MINUTE;
        assert_eq!(waits.waits(MINUTE, later), None, "it has asked");
        assert_eq!(also.lacks(&asked, later), None, "it waits as well");
        assert_eq!(also.waits(MINUTE, later), None, "and need not ask");
        let said = lacks.lacks(&asked, later).expect("it has not called");
        assert!(said.contains("it has called none yet"), "{said}");
        assert_eq!(lacks.lacks(&asked, later), None, "it has said so");
        assert!(!lacks.look(later));
        call(&mut lacks, &[Side::All], later);
        assert!(lacks.look(later), "it has gone on, which others know of");
        let other = Waits { comm: 8, ..asked };
        assert_eq!(of(1).lacks(&other, later), None, "another communicator");
    }

    #[test]
    fn a_message_is_lacked_by_its_other_end_alone() {
        let start = Instant::now();
        let mut waits = of(0);
        call(&mut waits, &[Side::From(1), Side::From(1)], start);
        let asked = waits
            .waits(MINUTE, start + MINUTE)
            .expect("a minute is over");
        assert_eq!((asked.side, asked.number), (Side::From(1), 2));
        let (mut sends, mut other) = (of(1), of(2));
        assert_eq!(other.lacks(&asked, start), None);
        call(&mut sends, &[Side::To(0)], start);
        let said = sends.lacks(&asked, start).expect("one of two is missing");
        assert!(said.contains("its last was number 1"), "{said}");
        call(&mut sends, &[Side::To(0)], start);
        assert_eq!(sends.lacks(&asked, start), None);
    }

    #[test]
    fn who_makes_a_communicator_says_soon_that_others_are_missing() {
        let start = Instant::now();
        let mut waits = of(0);
        call(&mut waits, &[], start);
        let asked = waits
            .waits(MINUTE, start + MEETING)
            .expect("they have not come");
        assert_eq!(asked.number, 0);
        let mut also = of(1);
        assert_eq!(also.lacks(&asked, start), None, "it has come");
        call(&mut also, &[], start);
        assert_eq!(also.lacks(&asked, start), None, "it waits as well");
        assert_eq!(
            also.waits(MINUTE, start + 2 * MINUTE),
            None,
            "and need not ask"
        );
        waits.ends(HOST, None);
        call(&mut waits, &[Side::All], start + MINUTE);
        let next = waits.waits(MINUTE, start + 2 * MINUTE).expect("of a call");
        assert_eq!(next.number, 1, "what makes a communicator does not count");
    }

    #[test]
    fn children_of_one_communicator_differ_and_are_alike_at_all_ranks() {
        let (mut a, mut b) = (of(0), of(1));
        let first = a.child(0);
        assert_eq!(first, b.child(0));
        assert_ne!(first, b.child(0));
        assert_ne!(a.child(1), of(2).child(1), "of the second split");
    }
}
