//! What happened to the GPUs of late, as the process that reads NVML told it.

use busbar_control::gpu::{Event, Gpu, Happening};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most events of a GPU that are kept.
const MOST: usize = 64;

/// The last events of each GPU, by UUID.
#[derive(Default)]
pub(super) struct Events {
    newest: u64,
    of: BTreeMap<String, Vec<Event>>,
}

impl Events {
    /// One more, which gets its number: the time in microseconds since 1970, so that numbers also
    /// grow where another server takes over.
    pub fn add(&mut self, happening: Happening) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |t| t.as_micros() as u64);
        self.newest = now.max(self.newest + 1);
        let list = self.of.entry(happening.gpu).or_default();
        list.push(Event {
            number: self.newest,
            ..happening.event
        });
        if list.len() > MOST {
            list.remove(oldest_of_most(list));
        }
    }

    /// What happened to these GPUs.
    pub fn of(&self, gpus: impl Iterator<Item = String>) -> BTreeMap<String, Gpu> {
        let all = gpus.map(|uuid| {
            let events = self.of.get(&uuid).cloned().unwrap_or_default();
            let gpu = Gpu {
                events,
                ..Gpu::default()
            };
            (uuid, gpu)
        });
        all.collect()
    }
}

/// Where the oldest event is of the type that there are most of: what happens all the time does not
/// make one forget what is rare.
fn oldest_of_most(list: &[Event]) -> usize {
    let of_kind = |kind| list.iter().filter(|e| e.kind == kind).count();
    let most = list.iter().map(|e| of_kind(e.kind)).max();
    let mut each = list.iter();
    each.position(|e| Some(of_kind(e.kind)) == most)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(events: &mut Events, gpu: &str, kind: u64, data: u64) {
        let event = Event {
            kind,
            data,
            ..Event::default()
        };
        events.add(Happening {
            gpu: gpu.into(),
            event,
        });
    }

    fn told(events: &Events) -> BTreeMap<String, Gpu> {
        events.of(["a", "b", "c"].map(String::from).into_iter())
    }

    #[test]
    fn numbers_grow_over_all_gpus() {
        let mut events = Events::default();
        for n in 0..10 {
            add(&mut events, ["a", "b"][n % 2], 8, n as u64);
        }
        let gpus = told(&events);
        let mut all: Vec<_> = gpus.values().flat_map(|g| g.events.clone()).collect();
        all.sort_by_key(|e| e.number);
        assert_eq!(
            all.iter().map(|e| e.data).collect::<Vec<_>>(),
            (0..10).collect::<Vec<_>>()
        );
        assert!(all.windows(2).all(|two| two[0].number < two[1].number));
        assert_eq!(gpus["c"].events, []);
        // One that begins later goes on behind it.
        std::thread::sleep(std::time::Duration::from_millis(1));
        let mut later = Events::default();
        add(&mut later, "a", 8, 10);
        assert!(told(&later)["a"].events[0].number > all[9].number);
    }

    #[test]
    fn what_is_rare_is_kept_the_longest() {
        let mut events = Events::default();
        add(&mut events, "a", 8, 79);
        for n in 0..200 {
            add(&mut events, "a", 16, n);
        }
        let list = told(&events).remove("a").unwrap().events;
        assert_eq!(list.len(), MOST);
        assert_eq!((list[0].kind, list[0].data), (8, 79));
        let clocks: Vec<_> = list[1..].iter().map(|e| e.data).collect();
        assert_eq!(clocks, (201 - MOST as u64..200).collect::<Vec<_>>());
    }
}
