//! Who stands in line for devices, and what of those each of them is offered.
//!
//! An **offer** is what somebody can have at this moment; nobody behind gets it meanwhile. It is no
//! lease: somebody who comes later and stands before (who came first at another server, or has a
//! higher priority) gets the offer instead, as long as it is not taken.
//!
//! Offers are why a program that waits for devices of two servers holds nothing at either until it
//! has both. All servers order those who stand in line by the same key, so whoever is first at one
//! is first wherever else, and gets what becomes free there: two that want the same two servers
//! never wait for each other, and nobody waits for ever.

use crate::timeshare::Share;
use busbar_control::share;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What is wanted of each device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// All of it.
    Whole,
    /// These bytes of its memory and these thousandths of its time; of either perhaps none.
    Part {
        /// See there.
        memory: u64,
        /// See there.
        share: Share,
    },
}

impl Want {
    /// The memory and the time that are wanted as a part.
    pub fn part(&self) -> (u64, Share) {
        match *self {
            Self::Whole => (0, 0),
            Self::Part { memory, share } => (memory, share),
        }
    }
}

/// What there is of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Nobody has any use of it.
    pub idle: bool,
    /// Nobody has it as a whole.
    pub open: bool,
    /// Bytes that are not promised.
    pub memory: u64,
    /// Thousandths of its time that are not.
    pub share: Share,
}

impl Room {
    /// A device of which nobody has anything.
    pub fn of(memory: u64) -> Self {
        Self {
            idle: true,
            open: true,
            memory,
            share: share::WHOLE,
        }
    }

    /// Whether there is as much.
    pub fn fits(&self, want: &Want) -> bool {
        match *want {
            Want::Whole => self.idle,
            Want::Part { memory, share } => {
                self.open && self.memory >= memory && self.share >= share
            }
        }
    }

    /// Takes it.
    pub fn take(&mut self, want: &Want) {
        match *want {
            Want::Whole => *self = Self::default(),
            Want::Part { memory, share } => {
                self.idle = false;
                self.memory = self.memory.saturating_sub(memory);
                self.share = self.share.saturating_sub(share);
            }
        }
    }
}

/// Somebody who wants devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The name of the lease that it is to become.
    pub name: String,
    /// Whose it is.
    pub tenant: String,
    /// Who waits, for people to read.
    pub holder: String,
    /// Who goes first, the higher.
    pub priority: i32,
    /// When it began to wait, in ms of any clock that is the same for all.
    pub since: u64,
    /// The devices that will do, by place, the best first.
    pub devices: Vec<usize>,
    /// The most of them.
    pub most: usize,
    /// What of each.
    pub want: Want,
}

impl Claim {
    fn key(&self) -> (Reverse<i32>, u64, &str) {
        (Reverse(self.priority), self.since, &self.name)
    }
}

/// What somebody hears who stands in line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// What can be had now, by ordinal.
    pub offer: Vec<u32>,
    /// The place in line, from 1.
    pub place: usize,
    /// Who stands before, and wants some of the same devices.
    pub ahead: Vec<String>,
    /// Who has those devices.
    pub holders: Vec<String>,
}

/// Those who stand in line, the first first.
#[derive(Debug, Default)]
pub struct Queue(Vec<Claim>);

impl Queue {
    /// Somebody joins, behind those who came before and above those of a lower priority.
    pub fn join(&mut self, claim: Claim) {
        let at = self.0.partition_point(|c| c.key() < claim.key());
        self.0.insert(at, claim);
    }

    /// Somebody leaves.
    pub fn leave(&mut self, name: &str) -> Option<Claim> {
        let at = self.0.iter().position(|c| c.name == name)?;
        Some(self.0.remove(at))
    }

    /// Somebody who stands in line, and the place from 1.
    pub fn find(&self, name: &str) -> Option<(usize, &Claim)> {
        let mut all = self.0.iter().enumerate();
        all.find(|(_, c)| c.name == name).map(|(i, c)| (i + 1, c))
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.0.iter()
    }

    /// Those before a place who want some of the same devices.
    pub fn ahead(&self, place: usize) -> impl Iterator<Item = &Claim> {
        let wanted = self.0.get(place - 1).map(|c| &c.devices[..]);
        let wanted = wanted.unwrap_or_default();
        let before = self.0.iter().take(place - 1);
        before.filter(move |c| c.devices.iter().any(|d| wanted.contains(d)))
    }

    /// Whether nobody stands in line.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What each can have of these rooms, which are those of the devices by place: the first as
    /// much as it wants, the next of what is left then. Rooms are left without it.
    pub fn offers(&self, rooms: &mut [Room]) -> BTreeMap<String, Vec<usize>> {
        let mut offers = BTreeMap::new();
        for c in &self.0 {
            let fits = c.devices.iter().copied();
            let fits = fits.filter(|d| rooms.get(*d).is_some_and(|r| r.fits(&c.want)));
            let offer: Vec<_> = fits.take(c.most).collect();
            for d in &offer {
                rooms[*d].take(&c.want);
            }
            if !offer.is_empty() {
                offers.insert(c.name.clone(), offer);
            }
        }
        offers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str, priority: i32, since: u64, devices: &[usize], most: usize) -> Claim {
        Claim {
            name: name.into(),
            tenant: String::new(),
            holder: name.into(),
            priority,
            since,
            devices: devices.to_vec(),
            most,
            want: Want::Whole,
        }
    }

    fn names<'a>(all: impl Iterator<Item = &'a Claim>) -> String {
        all.map(|c| c.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn who_came_first_is_first_among_those_of_a_priority() {
        let mut q = Queue::default();
        for (name, priority, since) in [("b", 0, 5), ("a", 0, 5), ("c", 0, 1), ("d", 1, 9)] {
            q.join(claim(name, priority, since, &[0], 1));
        }
        q.join(claim("low", -1, 0, &[1], 1));
        assert_eq!(names(q.iter()), "d c a b low");
        assert_eq!(q.find("a").map(|(place, _)| place), Some(3));
        assert_eq!(names(q.ahead(3)), "d c");
        assert_eq!(names(q.ahead(5)), "", "nobody wants the same");
        assert_eq!(q.leave("c").map(|c| c.since), Some(1));
        assert_eq!(q.leave("c"), None);
        assert_eq!(q.find("a").map(|(place, _)| place), Some(2));
    }

    #[test]
    fn what_the_first_can_use_is_kept_for_it() {
        let mut q = Queue::default();
        let mut rooms = [Room::of(8), Room::of(8), Room::of(8)];
        rooms[0].take(&Want::Whole);
        q.join(claim("two", 0, 1, &[0, 1], 2));
        q.join(claim("one", 0, 2, &[1, 0], 1));
        q.join(claim("other", 0, 3, &[2, 1], 1));
        let offers = q.offers(&mut rooms);
        // The first waits for 0, and has 1 kept for it; whoever can use neither need not wait.
        assert_eq!(offers["two"], [1]);
        assert!(!offers.contains_key("one"));
        assert_eq!(offers["other"], [2]);
        assert!(rooms.iter().all(|r| !r.idle));
    }

    #[test]
    fn parts_lie_beside_each_other_as_long_as_there_is_room() {
        let part = |memory, share| Want::Part { memory, share };
        let mut room = Room::of(10);
        for want in [part(6, 0), part(0, 400), part(4, 600)] {
            assert!(room.fits(&want));
            room.take(&want);
        }
        assert!(!room.fits(&part(1, 0)) && !room.fits(&part(0, 1)) && !room.fits(&Want::Whole));
        assert!(room.fits(&part(0, 0)), "it can be shared");
        room.take(&Want::Whole);
        assert!(!room.fits(&part(0, 0)));
    }
}
