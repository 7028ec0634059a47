//! Sets of events: what a program waits for, and how much of it has been told.

use busbar_control::gpu::Event;
use std::collections::{BTreeMap, BTreeSet};

/// What happened to each server's GPUs, by UUID.
pub type Told = BTreeMap<usize, BTreeMap<String, Vec<Event>>>;

/// A device of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Which of the program's servers has it.
    pub server: usize,
    /// 32 hexadecimal digits.
    pub uuid: String,
    /// What the program knows it by.
    pub handle: usize,
}

/// Types of events of a device that are told from a number on.
struct Registered {
    device: Device,
    types: u64,
    /// The last event that is not told any more.
    since: u64,
}

/// A process's sets. Their names are not given again, nor are those of a parent to its child.
#[derive(Default)]
pub struct Sets {
    last: u64,
    of_devices: BTreeMap<u64, Vec<Registered>>,
    of_machine: BTreeSet<u64>,
}

impl Sets {
    fn name(&mut self) -> u64 {
        self.last = self.last.max(u64::from(std::process::id()) << 32) + 1;
        self.last
    }

    /// A new set of events of devices.
    pub fn create(&mut self) -> u64 {
        let name = self.name();
        self.of_devices.insert(name, Vec::new());
        name
    }

    /// Ends one, and says whether it was there.
    pub fn free(&mut self, set: u64) -> bool {
        self.of_devices.remove(&set).is_some()
    }

    /// A new set of events of the machine, of which there are none.
    pub fn create_of_machine(&mut self) -> u64 {
        let name = self.name();
        self.of_machine.insert(name);
        name
    }

    /// Whether there is such a set.
    pub fn is_of_machine(&self, set: u64) -> bool {
        self.of_machine.contains(&set)
    }

    /// Ends one, and says whether it was there.
    pub fn free_of_machine(&mut self, set: u64) -> bool {
        self.of_machine.remove(&set)
    }

    /// The servers whose devices a set tells of; nothing where there is no such set.
    pub fn servers(&self, set: u64) -> Option<BTreeSet<usize>> {
        let all = self.of_devices.get(&set)?.iter();
        Some(all.map(|r| r.device.server).collect())
    }

    /// Tells events of these types of a device from now on: those behind `newest`. Says whether
    /// there is such a set.
    pub fn register(&mut self, set: u64, device: Device, types: u64, newest: u64) -> bool {
        let Some(all) = self.of_devices.get_mut(&set) else {
            return false;
        };
        let same = all.iter().filter(|r| r.device == device);
        let known = same.fold(0, |known, r| known | r.types);
        if types & !known != 0 {
            all.push(Registered {
                device,
                types: types & !known,
                since: newest,
            });
        }
        true
    }

    /// The oldest event that a set has not told yet, and the device that it is of; nothing where
    /// there is no such set.
    pub fn take(&mut self, set: u64, told: &Told) -> Option<Option<(usize, Event)>> {
        let all = self.of_devices.get_mut(&set)?;
        let of = |r: &Registered| {
            let events = told.get(&r.device.server)?.get(&r.device.uuid)?;
            let mut new = events.iter().filter(|e| e.number > r.since);
            new.find(|e| e.kind & r.types != 0).copied()
        };
        let found = all.iter().filter_map(|r| Some((of(r)?, r.device.clone())));
        let Some((event, device)) = found.min_by_key(|(e, _)| e.number) else {
            return Some(None);
        };
        for r in all.iter_mut().filter(|r| r.device == device) {
            r.since = r.since.max(event.number);
        }
        Some(Some((device.handle, event)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(server: usize, uuid: &str) -> Device {
        Device {
            server,
            uuid: uuid.into(),
            handle: 100 * server + uuid.len(),
        }
    }

    /// Events of devices as server, UUID, number and type.
    fn told(all: &[(usize, &str, u64, u64)]) -> Told {
        let mut told = Told::new();
        for (server, uuid, number, kind) in all {
            let gpus = told.entry(*server).or_default();
            gpus.entry(uuid.to_string()).or_default().push(Event {
                number: *number,
                kind: *kind,
                ..Event::default()
            });
        }
        told
    }

    fn number(sets: &mut Sets, set: u64, told: &Told) -> Option<u64> {
        sets.take(set, told).unwrap().map(|(_, e)| e.number)
    }

    #[test]
    fn events_come_once_and_in_order() {
        let mut sets = Sets::default();
        let set = sets.create();
        assert!(sets.register(set, device(0, "a"), 8, 1));
        assert!(sets.register(set, device(1, "bb"), 8 | 1, 2));
        let all = told(&[
            (0, "a", 1, 8),
            (0, "a", 3, 1),
            (0, "a", 5, 8),
            (1, "bb", 2, 8),
            (1, "bb", 4, 1),
            (1, "c", 3, 8),
        ]);
        assert_eq!(sets.servers(set), Some([0, 1].into()));
        assert_eq!(sets.take(set, &all).unwrap().unwrap().0, 102);
        assert_eq!(number(&mut sets, set, &all), Some(5));
        assert_eq!(number(&mut sets, set, &all), None);
        // A set that is made later has only what comes later.
        let later = sets.create();
        assert!(sets.register(later, device(0, "a"), 8, 5));
        assert_eq!(number(&mut sets, later, &all), None);
        let more = told(&[(0, "a", 5, 8), (0, "a", 6, 8)]);
        assert_eq!(number(&mut sets, later, &more), Some(6));
        assert_eq!(number(&mut sets, set, &more), Some(6));
    }

    #[test]
    fn a_clock_that_is_behind_hides_nothing() {
        let mut sets = Sets::default();
        let set = sets.create();
        for server in [0, 1] {
            assert!(sets.register(set, device(server, "a"), 8, 0));
        }
        assert_eq!(number(&mut sets, set, &told(&[(0, "a", 9, 8)])), Some(9));
        let both = told(&[(0, "a", 9, 8), (1, "a", 3, 8)]);
        assert_eq!(number(&mut sets, set, &both), Some(3));
    }

    #[test]
    fn further_types_are_told_from_then_on() {
        let mut sets = Sets::default();
        let set = sets.create();
        assert!(sets.register(set, device(0, "a"), 8, 0));
        let all = told(&[(0, "a", 1, 1), (0, "a", 2, 8), (0, "a", 3, 1)]);
        // The first type is as far as it was.
        assert!(sets.register(set, device(0, "a"), 8 | 1, 2));
        assert_eq!(number(&mut sets, set, &all), Some(2));
        assert_eq!(number(&mut sets, set, &all), Some(3));
        assert_eq!(number(&mut sets, set, &all), None);
    }

    #[test]
    fn sets_that_have_ended_are_known() {
        let mut sets = Sets::default();
        let (set, other) = (sets.create(), sets.create_of_machine());
        assert!(!sets.free(other) && !sets.free_of_machine(set));
        assert!(sets.is_of_machine(other) && !sets.is_of_machine(set));
        assert!(sets.free(set) && !sets.free(set));
        assert!(sets.free_of_machine(other) && !sets.free_of_machine(other));
        assert!(!sets.register(set, device(0, "a"), 8, 0));
        assert_eq!(sets.take(set, &Told::new()), None);
        assert_eq!(sets.servers(set), None);
        assert!(sets.create() > other && !sets.is_of_machine(other));
    }
}
