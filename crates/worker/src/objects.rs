//! The objects of a session: what a client's ids stand for, whose child each is, and what dies with
//! it.
//!
//! A record names objects by kind and id; what is not in the table does not reach a vendor's
//! library. An object dies with each of its parents: [`Objects::retire`] takes the children along,
//! the last first, so that nothing is found of which a part has gone.

#![forbid(unsafe_code)]

use crate::inventory::Counter;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;

/// The kinds of an API.
pub trait Sort: Copy + Ord + Debug {
    /// How many there are.
    const COUNT: usize;
    /// The number of one, below that.
    fn index(self) -> usize;
}

/// A kind and an id.
pub type Key<K> = (K, u32);

/// The most parents of an object.
pub const PARENTS: usize = 2;

/// Values by id. Ids that clients choose in turn lie one behind the other; any others cost as much
/// room as they are many, whatever their numbers.
#[derive(Debug)]
struct Slots<T> {
    dense: Vec<Option<T>>,
    sparse: HashMap<u32, T>,
    /// How many there are.
    live: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            dense: Vec::new(),
            sparse: HashMap::new(),
            live: 0,
        }
    }
}

impl<T> Slots<T> {
    /// How far ahead of what there is the dense part reaches.
    const AHEAD: usize = 4096;

    #[inline]
    fn get(&self, id: u32) -> Option<&T> {
        match self.dense.get(id as usize) {
            Some(slot) => slot.as_ref(),
            None if self.sparse.is_empty() => None,
            None => self.sparse.get(&id),
        }
    }

    fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        match self.dense.get_mut(id as usize) {
            Some(slot) => slot.as_mut(),
            None => self.sparse.get_mut(&id),
        }
    }

    /// Puts a value where there is none.
    fn insert(&mut self, id: u32, value: T) {
        self.live += 1;
        let i = id as usize;
        if i >= self.dense.len() {
            if i > 2 * self.live + Self::AHEAD {
                self.sparse.insert(id, value);
                return;
            }
            let end = (i + 1 + i / 2).min(2 * self.live + Self::AHEAD + 1);
            let had = self.dense.len();
            self.dense.resize_with(end, || None);
            if !self.sparse.is_empty() {
                for i in had..end {
                    self.dense[i] = self.sparse.remove(&(i as u32));
                }
            }
        }
        self.dense[i] = Some(value);
    }

    fn remove(&mut self, id: u32) -> Option<T> {
        let gone = match self.dense.get_mut(id as usize) {
            Some(slot) => slot.take(),
            None => self.sparse.remove(&id),
        };
        self.live -= usize::from(gone.is_some());
        gone
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let dense = self.dense.iter().enumerate();
        let dense = dense.filter_map(|(i, v)| Some((i as u32, v.as_ref()?)));
        dense.chain(self.sparse.iter().map(|(id, v)| (*id, v)))
    }
}

#[derive(Debug)]
struct Entry<K, B> {
    body: B,
    parents: [Option<Key<K>>; PARENTS],
    children: BTreeSet<Key<K>>,
}

/// A call that makes an object: the spec says whose child that is.
pub trait Creates<K> {
    /// Gives `put` the object's key and its parents. `scope` is what the call is executed in.
    fn created<R>(&self, scope: u32, put: impl FnOnce(Key<K>, &[Key<K>]) -> R) -> R;
}

/// What has died: the last children first.
pub type Dead<K, B> = Vec<(Key<K>, B)>;

/// All objects of a session.
#[derive(Debug)]
pub struct Objects<K, B> {
    tables: Vec<Slots<Entry<K, B>>>,
    /// How many there are of each kind, for others to see.
    counters: Vec<Counter>,
}

impl<K: Sort, B> Default for Objects<K, B> {
    fn default() -> Self {
        Self {
            tables: (0..K::COUNT).map(|_| Slots::default()).collect(),
            counters: vec![Counter::default(); K::COUNT],
        }
    }
}

impl<K: Sort, B> Objects<K, B> {
    /// None yet, counted by these, one for each kind.
    pub fn counted(counters: Vec<Counter>) -> Self {
        Self {
            counters,
            ..Self::default()
        }
    }

    fn table(&self, kind: K) -> &Slots<Entry<K, B>> {
        &self.tables[kind.index()]
    }

    fn entry(&mut self, (kind, id): Key<K>) -> Option<&mut Entry<K, B>> {
        self.tables[kind.index()].get_mut(id)
    }

    /// An object.
    #[inline]
    pub fn get(&self, kind: K, id: u32) -> Option<&B> {
        self.table(kind).get(id).map(|e| &e.body)
    }

    /// An object, to change.
    pub fn get_mut(&mut self, kind: K, id: u32) -> Option<&mut B> {
        self.entry((kind, id)).map(|e| &mut e.body)
    }

    /// Puts an object under an id, as a child of these parents; of a parent that is not there it is
    /// no child. What had the id before is dead, and is given back.
    pub fn put(&mut self, key: Key<K>, body: B, parents: &[Key<K>]) -> Dead<K, B> {
        let dead = self.retire(key);
        let mut own = [None; PARENTS];
        let mut free = own.iter_mut();
        for parent in parents.iter().filter(|p| **p != key) {
            if let Some(e) = self.entry(*parent)
                && let Some(place) = free.next()
            {
                e.children.insert(key);
                *place = Some(*parent);
            }
        }
        let entry = Entry {
            body,
            parents: own,
            children: BTreeSet::new(),
        };
        self.tables[key.0.index()].insert(key.1, entry);
        self.counters[key.0.index()].up();
        dead
    }

    /// Ends an object and all its children: they are given back, the last of them first.
    pub fn retire(&mut self, key: Key<K>) -> Dead<K, B> {
        let mut dead = Vec::new();
        // Not by recursion: a client decides how deep this goes.
        let mut left = vec![key];
        while let Some(next) = left.pop() {
            let Some(e) = self.tables[next.0.index()].remove(next.1) else {
                continue;
            };
            self.counters[next.0.index()].down();
            for parent in e.parents.into_iter().flatten() {
                if let Some(p) = self.entry(parent) {
                    p.children.remove(&next);
                }
            }
            left.extend(e.children);
            dead.push((next, e.body));
        }
        dead.reverse();
        dead
    }

    /// The parents of an object.
    pub fn parents(&self, kind: K, id: u32) -> impl Iterator<Item = Key<K>> {
        let own = self.table(kind).get(id).map(|e| e.parents);
        own.into_iter().flatten().flatten()
    }

    /// The objects of a kind.
    pub fn of(&self, kind: K) -> impl Iterator<Item = (u32, &B)> {
        self.table(kind).iter().map(|(id, e)| (id, &e.body))
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: K) -> usize {
        self.table(kind).live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Toy::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Toy {
        House,
        Room,
        Lamp,
    }

    impl Sort for Toy {
        const COUNT: usize = 3;
        fn index(self) -> usize {
            self as usize
        }
    }

    fn keys(dead: Dead<Toy, u32>) -> Vec<Key<Toy>> {
        dead.into_iter().map(|(k, _)| k).collect()
    }

    /// Two houses with rooms and lamps; lamp 9 is also of house 2.
    fn street() -> Objects<Toy, u32> {
        let mut o = Objects::default();
        o.put((House, 1), 10, &[]);
        o.put((House, 2), 20, &[]);
        for room in 1..=3 {
            o.put((Room, room), room, &[(House, 1 + room / 3)]);
        }
        o.put((Lamp, 1), 1, &[(Room, 1)]);
        o.put((Lamp, 2), 2, &[(Room, 2)]);
        o.put((Lamp, 9), 9, &[(Room, 1), (House, 2)]);
        o
    }

    #[test]
    fn an_object_takes_its_children_along_the_last_first() {
        let mut o = street();
        let dead = keys(o.retire((House, 1)));
        assert_eq!(dead.last(), Some(&(House, 1)));
        let at = |k| dead.iter().position(|d| *d == k).expect("it is dead");
        for (child, parent) in [
            ((Lamp, 1), (Room, 1)),
            ((Lamp, 2), (Room, 2)),
            ((Lamp, 9), (Room, 1)),
            ((Room, 1), (House, 1)),
        ] {
            assert!(at(child) < at(parent), "{child:?} before {parent:?}");
        }
        assert_eq!(dead.len(), 6);
        assert_eq!((o.count(House), o.count(Room), o.count(Lamp)), (1, 1, 0));
        assert!(o.get(Lamp, 1).is_none() && o.get(Room, 3).is_some());
        assert!(keys(o.retire((House, 1))).is_empty(), "once");
    }

    #[test]
    fn others_see_how_many_there_are_of_each_kind() {
        let inventory = crate::inventory::Inventory::default();
        let counters = ["house", "room", "lamp"].map(|k| inventory.counter(k));
        let mut o: Objects<Toy, u32> = Objects::counted(counters.to_vec());
        let seen = || inventory.holding().objects.into_values();
        o.put((House, 1), 1, &[]);
        for room in 1..=3 {
            o.put((Room, room), 0, &[(House, 1)]);
        }
        // An id that comes again is one object.
        o.put((Room, 3), 0, &[(House, 1)]);
        assert!(seen().eq([1, 3]));
        o.retire((Room, 2));
        o.retire((Room, 2));
        assert!(seen().eq([1, 2]));
        o.retire((House, 1));
        assert_eq!(seen().count(), 0, "children are not left");
    }

    #[test]
    fn an_object_dies_with_each_of_its_parents() {
        let mut o = street();
        assert_eq!(
            keys(o.retire((House, 2))),
            [(Room, 3), (Lamp, 9), (House, 2)]
        );
        assert_eq!(keys(o.retire((Room, 1))), [(Lamp, 1), (Room, 1)]);
    }

    #[test]
    fn an_id_that_comes_again_is_another_object() {
        let mut o = street();
        assert_eq!(keys(o.put((Room, 1), 77, &[(House, 2)])).len(), 3);
        assert_eq!(o.get(Room, 1), Some(&77));
        assert!(o.get(Lamp, 1).is_none());
        // It died as a child of the first house, and does not die with that.
        assert_eq!(keys(o.retire((House, 1))).len(), 3);
        assert_eq!(o.get(Room, 1), Some(&77));
        assert!(o.parents(Room, 1).eq([(House, 2)]));
    }

    #[test]
    fn nothing_is_the_child_of_what_is_not_there_or_of_itself() {
        let mut o: Objects<Toy, u32> = Objects::default();
        o.put((Room, 1), 1, &[(House, 5), (Room, 1)]);
        assert_eq!(o.parents(Room, 1).count(), 0);
        o.put((House, 5), 5, &[]);
        assert_eq!(keys(o.retire((House, 5))), [(House, 5)]);
        assert_eq!(keys(o.retire((Room, 1))), [(Room, 1)]);
    }

    #[test]
    fn a_long_line_of_children_ends_without_a_deep_stack() {
        let mut o: Objects<Toy, u32> = Objects::default();
        o.put((Room, 0), 0, &[]);
        for id in 1..200_000 {
            o.put((Room, id), id, &[(Room, id - 1)]);
        }
        let dead = o.retire((Room, 0));
        assert_eq!(dead.len(), 200_000);
        assert!(dead.windows(2).all(|w| w[0].1 > w[1].1));
    }

    #[test]
    fn one_far_id_costs_no_room_and_near_ones_are_found_as_they_come() {
        let mut s: Slots<u32> = Slots::default();
        for id in [u32::MAX, 1 << 24, (1 << 24) - 1, 100_000] {
            s.insert(id, id);
        }
        assert_eq!(s.dense.capacity(), 0);
        for id in 0..150_000 {
            if id != 100_000 {
                s.insert(id, id);
            }
        }
        assert!(s.dense.len() >= 100_000 && s.dense.len() < 2 * 150_000 + 5000);
        for id in (0..150_000).chain([u32::MAX, 1 << 24, (1 << 24) - 1]) {
            assert_eq!(s.get(id), Some(&id));
        }
        assert_eq!(s.iter().count(), s.live);
        for id in 0..150_000 {
            assert_eq!(s.remove(id), Some(id));
        }
        assert_eq!((s.live, s.remove(5)), (3, None));
    }

    #[test]
    fn random_lives_agree_with_a_model() {
        let mut seed = 7u64;
        let mut next = |n: u64| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        let kinds = [House, Room, Lamp];
        let mut o: Objects<Toy, u64> = Objects::default();
        type Model = Vec<(Key<Toy>, u64, Vec<Key<Toy>>)>;
        let mut model = Model::new();
        fn kill(model: &mut Model, key: Key<Toy>) -> usize {
            let before = model.len();
            if model.iter().any(|m| m.0 == key) {
                model.retain(|m| m.0 != key);
                let children: Vec<_> = model
                    .iter()
                    .filter(|m| m.2.contains(&key))
                    .map(|m| m.0)
                    .collect();
                children.into_iter().for_each(|c| _ = kill(model, c));
            }
            before - model.len()
        }
        for step in 0..20_000u64 {
            let key = (kinds[next(3) as usize], next(12) as u32);
            if next(4) == 0 {
                assert_eq!(o.retire(key).len(), kill(&mut model, key), "step {step}");
            } else {
                let lower = |k: Toy| kinds[..k.index()].to_vec();
                let mut parents = Vec::new();
                for k in lower(key.0) {
                    parents.push((k, next(12) as u32));
                }
                assert_eq!(o.put(key, step, &parents).len(), kill(&mut model, key));
                parents.retain(|p| model.iter().any(|m| m.0 == *p));
                model.push((key, step, parents));
            }
            for k in kinds {
                let alive = model.iter().filter(|m| m.0.0 == k);
                assert_eq!(o.count(k), alive.clone().count());
                assert!(alive.into_iter().all(|m| o.get(k, m.0.1) == Some(&m.1)));
            }
        }
    }
}
