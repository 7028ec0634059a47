//! A client that gathers devices of several servers: it stands in line at all of them, takes what
//! it needs once their offers suffice, server by server in their order, and gives all back if one
//! has not got it any more. Pure: what servers say goes in, what is to be said to them comes out.
//!
//! It holds nothing while it waits, and takes in one order, so two clients never wait for each
//! other with half of what both need. It has the same place in line at all servers, as one of them
//! says since when it waits, and the others are told: the first in the order that is there.

use crate::choose::{How, Spot, choose};
use busbar_control::lease::{Standing, Word};
use std::collections::VecDeque;

/// What somebody wants of all servers together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goal {
    /// The fewest devices that will do.
    pub least: usize,
    /// The most.
    pub most: usize,
    /// How they are chosen.
    pub how: How,
}

/// A server, as the client knows it.
#[derive(Debug, Default)]
struct Site {
    /// The devices that will do, and how much of each others have.
    devices: Vec<(u32, u64)>,
    /// How many words it was told.
    told: u64,
    /// What it said last.
    said: Option<Standing>,
    /// What is to be taken of it.
    picks: Vec<u32>,
    lost: bool,
}

impl Site {
    fn answered(&self) -> bool {
        self.lost || self.said.as_ref().is_some_and(|s| s.answers >= self.told)
    }

    fn offer(&self) -> &[u32] {
        match &self.said {
            Some(s) if !self.lost => &s.offer,
            _ => &[],
        }
    }

    fn has(&self) -> &[u32] {
        match &self.said {
            Some(s) if !self.lost => &s.has,
            _ => &[],
        }
    }
}

/// What has come of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All that was wanted is there: what of which server.
    All(Vec<(usize, Vec<u32>)>),
    /// The servers that are left have not got as many devices: so many.
    TooFew(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    /// Taking; this server was told last.
    Taking(usize),
    /// Giving back.
    Returning,
    Done,
}

/// The client's side of a reservation.
#[derive(Debug)]
pub struct Gather {
    goal: Goal,
    sites: Vec<Site>,
    phase: Phase,
    out: VecDeque<(usize, Word)>,
    /// The server that says since when we wait.
    leader: usize,
    /// What it has said.
    since: Option<u64>,
    /// Where to stand in line, and since when, if that is known.
    stands: VecDeque<(usize, Option<u64>)>,
}

impl Gather {
    /// Begins with the devices of each server that will do, by ordinal, and how much of each others
    /// have. The servers' order is the same for all clients.
    pub fn new(goal: Goal, servers: Vec<Vec<(u32, u64)>>) -> Self {
        let site = |devices| Site {
            devices,
            ..Site::default()
        };
        Self {
            goal,
            sites: servers.into_iter().map(site).collect(),
            phase: Phase::Waiting,
            out: VecDeque::new(),
            leader: 0,
            since: None,
            stands: [(0, None)].into(),
        }
    }

    /// The server to stand in line at next, and since when, unless it is to say that itself.
    pub fn next_stand(&mut self) -> Option<(usize, Option<u64>)> {
        self.stands.pop_front()
    }

    /// Since when we wait, once a server has said so.
    pub fn since(&self) -> Option<u64> {
        self.since
    }

    /// A server says how it stands.
    pub fn hear(&mut self, server: usize, said: Standing) {
        if server == self.leader && self.since.is_none() {
            self.since = Some(said.since);
            let others = self.leader + 1..self.sites.len();
            self.stands.extend(others.map(|i| (i, self.since)));
        }
        if let Some(s) = self.sites.get_mut(server) {
            s.said = Some(said);
        }
        self.go_on();
    }

    /// A server is not there any more, or will have nothing to do with it.
    pub fn lose(&mut self, server: usize) {
        if let Some(s) = self.sites.get_mut(server) {
            s.lost = true;
        }
        // The next one says it then: each by itself would have us at another place.
        if server == self.leader && self.since.is_none() {
            self.leader += 1;
            if self.leader < self.sites.len() {
                self.stands.push_back((self.leader, None));
            }
        }
        self.go_on();
    }

    /// What is to be said next, and to which server.
    pub fn next_word(&mut self) -> Option<(usize, Word)> {
        self.out.pop_front()
    }

    /// What has come of it, if it is over.
    pub fn outcome(&self) -> Option<Outcome> {
        let there = self.sites.iter().filter(|s| !s.lost);
        let there: usize = there.map(|s| s.devices.len()).sum();
        if there < self.goal.least {
            return Some(Outcome::TooFew(there));
        }
        let all = self.sites.iter().enumerate();
        let all = all.filter(|(_, s)| !s.has().is_empty());
        (self.phase == Phase::Done).then(|| {
            let own = all.map(|(i, s)| (i, s.has().to_vec()));
            Outcome::All(own.collect())
        })
    }

    /// Whether there is nothing to do but to wait for offers.
    pub fn waits(&self) -> bool {
        self.phase == Phase::Waiting
    }

    /// How many devices are on offer.
    pub fn offered(&self) -> usize {
        self.sites.iter().map(|s| s.offer().len()).sum()
    }

    /// What each server said last, of those that are there.
    pub fn said(&self) -> impl Iterator<Item = (usize, &Standing)> {
        let all = self.sites.iter().enumerate().filter(|(_, s)| !s.lost);
        all.filter_map(|(i, s)| Some((i, s.said.as_ref()?)))
    }

    fn tell(&mut self, server: usize, word: Word) {
        self.sites[server].told += 1;
        self.out.push_back((server, word));
    }

    fn go_on(&mut self) {
        loop {
            let before = self.phase;
            match self.phase {
                Phase::Waiting => self.begin(),
                Phase::Taking(server) => self.took(server),
                Phase::Returning => {
                    if self.sites.iter().all(Site::answered) {
                        self.phase = Phase::Waiting;
                    }
                }
                Phase::Done => return self.check(),
            }
            if self.phase == before {
                return;
            }
        }
    }

    /// Takes what is on offer, if that suffices.
    fn begin(&mut self) {
        // The one server was told to take it at once.
        if let [only] = &mut self.sites[..]
            && !only.has().is_empty()
        {
            only.picks = only.has().to_vec();
            self.phase = Phase::Done;
            return;
        }
        let (mut spots, mut devices) = (Vec::new(), Vec::new());
        for (server, s) in self.sites.iter().enumerate() {
            for d in s.offer() {
                let known = s.devices.iter().find(|(n, _)| n == d);
                let taken = known.map_or(0, |(_, taken)| *taken);
                spots.push(Spot { server, taken });
                devices.push((server, *d));
            }
        }
        // More than the least are those of all servers, not of the first that answers.
        let unheard = self.sites.iter().any(|s| !s.lost && s.said.is_none());
        if spots.len() < self.goal.least || spots.len() < self.goal.most && unheard {
            return;
        }
        let n = spots.len().min(self.goal.most);
        self.sites.iter_mut().for_each(|s| s.picks.clear());
        for i in choose(&spots, n, self.goal.how).unwrap_or_default() {
            let (server, d) = devices[i];
            self.sites[server].picks.push(d);
        }
        self.take_from(0);
    }

    /// Takes what is to be taken of the first server from this one on that has something.
    fn take_from(&mut self, first: usize) {
        let next = (first..self.sites.len()).find(|i| !self.sites[*i].picks.is_empty());
        self.phase = match next {
            None => Phase::Done,
            Some(i) => {
                let picks = self.sites[i].picks.clone();
                self.tell(i, Word::Take(picks));
                Phase::Taking(i)
            }
        };
    }

    fn took(&mut self, server: usize) {
        let s = &self.sites[server];
        if !s.answered() {
            return;
        }
        match s.has().is_empty() || !self.whole(server) {
            true => self.give_back(),
            false => self.take_from(server + 1),
        }
    }

    /// Whether all servers up to one have given what was to be taken of them.
    fn whole(&self, server: usize) -> bool {
        let mut up_to = self.sites.iter().take(server + 1);
        up_to.all(|s| s.has().len() == s.picks.len())
    }

    /// One of the servers has gone with what was taken of it, or has ended the lease.
    fn check(&mut self) {
        if !self.whole(self.sites.len()) {
            self.give_back();
            self.go_on();
        }
    }

    fn give_back(&mut self) {
        for i in 0..self.sites.len() {
            if !self.sites[i].has().is_empty() {
                self.tell(i, Word::Back);
            }
        }
        self.phase = Phase::Returning;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(least: usize) -> Goal {
        Goal {
            least,
            most: least,
            how: How::Pack,
        }
    }

    fn says(answers: u64, has: &[u32], offer: &[u32]) -> Standing {
        Standing {
            answers,
            has: has.to_vec(),
            offer: offer.to_vec(),
            ..Standing::default()
        }
    }

    fn two() -> Gather {
        let devices = vec![(0, 0), (1, 0)];
        Gather::new(goal(3), vec![devices.clone(), devices])
    }

    #[test]
    fn nothing_is_taken_until_all_of_it_can_be_had() {
        let mut g = two();
        g.hear(0, says(0, &[], &[0, 1]));
        g.hear(1, says(0, &[], &[]));
        assert_eq!((g.next_word(), g.offered()), (None, 2));
        g.hear(1, says(0, &[], &[1]));
        assert_eq!(g.next_word(), Some((0, Word::Take(vec![0, 1]))));
        assert_eq!(g.next_word(), None, "one server after the other");
        g.hear(0, says(1, &[0, 1], &[]));
        assert_eq!(g.next_word(), Some((1, Word::Take(vec![1]))));
        assert_eq!(g.outcome(), None);
        g.hear(1, says(1, &[1], &[]));
        let all = vec![(0, vec![0, 1]), (1, vec![1])];
        assert_eq!(
            (g.next_word(), g.outcome()),
            (None, Some(Outcome::All(all)))
        );
    }

    #[test]
    fn as_many_as_there_are_is_known_when_all_have_said_theirs() {
        let most = usize::MAX;
        let goal = Goal { most, ..goal(1) };
        let devices = vec![(0, 0), (1, 0)];
        let mut g = Gather::new(goal, vec![devices.clone(), devices.clone(), devices]);
        g.hear(0, says(0, &[], &[0, 1]));
        g.hear(2, says(0, &[], &[0]));
        assert_eq!(g.next_word(), None);
        g.lose(1);
        assert_eq!(g.next_word(), Some((0, Word::Take(vec![0, 1]))));
        g.hear(0, says(1, &[0, 1], &[]));
        assert_eq!(g.next_word(), Some((2, Word::Take(vec![0]))));
    }

    #[test]
    fn the_only_server_takes_at_once_if_it_was_told_to() {
        let mut g = Gather::new(goal(2), vec![vec![(0, 0), (1, 0), (2, 0)]]);
        g.hear(0, says(0, &[1, 2], &[]));
        let all = vec![(0, vec![1, 2])];
        assert_eq!(
            (g.next_word(), g.outcome()),
            (None, Some(Outcome::All(all)))
        );
        // It goes with what it had.
        g.lose(0);
        assert_eq!(g.outcome(), Some(Outcome::TooFew(0)));
    }

    #[test]
    fn one_server_says_since_when_it_waits_and_the_others_are_told() {
        let mut g = Gather::new(goal(1), vec![vec![(0, 0)]; 4]);
        assert_eq!(g.next_stand(), Some((0, None)));
        assert_eq!(g.next_stand(), None, "that one has to answer first");
        g.lose(0);
        assert_eq!((g.next_stand(), g.since()), (Some((1, None)), None));
        let said = Standing {
            since: 7,
            ..says(0, &[], &[])
        };
        g.hear(1, said);
        let told = [(2, Some(7)), (3, Some(7))];
        assert_eq!([g.next_stand(), g.next_stand()], told.map(Some));
        g.lose(1);
        assert_eq!((g.next_stand(), g.since()), (None, Some(7)));
        g.lose(2);
        g.lose(3);
        assert_eq!(g.outcome(), Some(Outcome::TooFew(0)));
    }

    #[test]
    fn what_was_taken_is_given_back_when_something_is_missing() {
        let mut g = two();
        g.hear(0, says(0, &[], &[0, 1]));
        g.hear(1, says(0, &[], &[0]));
        assert_eq!(g.next_word(), Some((0, Word::Take(vec![0, 1]))));
        g.hear(0, says(1, &[0, 1], &[]));
        assert_eq!(g.next_word(), Some((1, Word::Take(vec![0]))));
        // Somebody who stands before has got that offer; what is said before the answer counts for
        // nothing.
        g.hear(1, says(0, &[], &[]));
        assert_eq!(g.next_word(), None);
        g.hear(1, says(1, &[], &[]));
        assert_eq!(g.next_word(), Some((0, Word::Back)));
        g.hear(1, says(1, &[], &[1]));
        assert_eq!(g.next_word(), None);
        g.hear(0, says(2, &[], &[0, 1]));
        assert_eq!(g.next_word(), Some((0, Word::Take(vec![0, 1]))));
        // A server that goes takes what it had along.
        g.hear(0, says(3, &[0, 1], &[]));
        assert_eq!(g.next_word(), Some((1, Word::Take(vec![1]))));
        g.lose(1);
        assert_eq!(g.next_word(), Some((0, Word::Back)));
        assert_eq!(g.outcome(), Some(Outcome::TooFew(2)));
    }
}
