//! Who may have a worker started: so many clients at a time, in a fair order.

use super::refusals::Network;
use busbar_transport::lock::lock;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Whose turn it is to be: a tenant, where one is known, and a network.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Asks {
    tenant: u64,
    network: Network,
}

impl Asks {
    /// Somebody who is known.
    pub(crate) fn of(tenant: &str, network: Network) -> Self {
        let tenant = BuildHasherDefault::<DefaultHasher>::default().hash_one(tenant);
        Self { tenant, network }
    }
}

impl From<Network> for Asks {
    fn from(network: Network) -> Self {
        Self { tenant: 0, network }
    }
}

#[derive(Default)]
struct Line {
    free: usize,
    next: u64,
    waiting: BTreeMap<u64, Asks>,
    /// Whoever has a place and may not know.
    called: HashSet<u64>,
    /// Who has places.
    taken: Vec<Asks>,
}

impl Line {
    /// Gives free places to those who wait: of the tenants with the fewest places, and of their
    /// networks with the fewest, to whoever has waited longest.
    fn call(&mut self) {
        while self.free > 0 && !self.waiting.is_empty() {
            let (mut tenants, mut networks) = (HashMap::new(), HashMap::new());
            for t in &self.taken {
                *tenants.entry(t.tenant).or_insert(0usize) += 1;
                *networks.entry(*t).or_insert(0usize) += 1;
            }
            let places = |(number, a): &(&u64, &Asks)| {
                let of_tenant = tenants.get(&a.tenant).copied().unwrap_or(0);
                (of_tenant, networks.get(a).copied().unwrap_or(0), **number)
            };
            let Some((&number, &asks)) = self.waiting.iter().min_by_key(places) else {
                return;
            };
            self.waiting.remove(&number);
            self.called.insert(number);
            self.free -= 1;
            self.taken.push(asks);
        }
    }
}

/// Places for something that only so many may do at a time.
#[derive(Clone)]
pub(crate) struct Turns(Arc<(Mutex<Line>, Condvar)>);

/// A place; free again when this is dropped.
pub(crate) struct Turn(Turns, Asks);

impl Turns {
    pub(crate) fn new(places: usize) -> Self {
        let line = Line {
            free: places,
            ..Line::default()
        };
        Self(Arc::new((Mutex::new(line), Condvar::new())))
    }

    /// How many workers may be starting at a time. Drivers keep a core busy while they start: more
    /// of them at a time would not be ready any sooner, and all of them late.
    pub(crate) fn of_this_machine() -> usize {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        (2 * cores).max(4)
    }

    /// How many handshakes may be worked on at a time: strangers get a quarter of the processors.
    pub(crate) fn of_strangers() -> usize {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        (cores / 4).max(1)
    }

    /// Waits for a place for somebody; `None` once it is no longer wanted, which is
    /// asked `every` so often, and before a place is used.
    pub(crate) fn wait(
        &self,
        asks: impl Into<Asks>,
        every: Duration,
        still_wanted: impl Fn() -> bool,
    ) -> Option<Turn> {
        let (line, changed) = &*self.0;
        let asks = asks.into();
        let mut l = lock(line);
        let number = l.next;
        l.next += 1;
        l.waiting.insert(number, asks);
        l.call();
        loop {
            if l.called.remove(&number) {
                drop(l);
                let turn = Turn(self.clone(), asks);
                return still_wanted().then_some(turn);
            }
            let (next, timer) = match changed.wait_timeout(l, every) {
                Ok((next, timer)) => (next, timer.timed_out()),
                Err(broken) => (broken.into_inner().0, true),
            };
            l = next;
            if timer && !l.called.contains(&number) {
                drop(l);
                let wanted = still_wanted();
                l = lock(line);
                if !wanted && l.waiting.remove(&number).is_some() {
                    return None;
                }
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (line, changed) = &*self.0.0;
        let mut l = lock(line);
        l.free += 1;
        if let Some(at) = l.taken.iter().position(|t| *t == self.1) {
            l.taken.swap_remove(at);
        }
        l.call();
        changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const LONG: Duration = Duration::from_secs(5);
    const HERE: Network = Network::Unknown;

    #[test]
    fn only_so_many_have_a_place_at_a_time_and_all_get_their_turn() {
        let turns = Turns::new(3);
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|s| {
            for _ in 0..40 {
                s.spawn(|| {
                    let _turn = turns.wait(HERE, LONG, || true).expect("it is wanted");
                    let now = inside.fetch_add(1, Ordering::AcqRel) + 1;
                    most.fetch_max(now, Ordering::AcqRel);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::AcqRel);
                });
            }
        });
        assert!((1..=3).contains(&most.load(Ordering::Acquire)));
        let place = || turns.wait(HERE, LONG, || true);
        let all: Vec<_> = (0..3).filter_map(|_| place()).collect();
        assert_eq!(all.len(), 3, "every place is free again");
        let soon = Duration::from_millis(10);
        assert!(turns.wait(HERE, soon, || false).is_none(), "nobody waits");
        let line = lock(&turns.0.0);
        assert!(line.waiting.is_empty() && line.called.is_empty());
    }

    #[test]
    fn a_tenant_with_many_networks_does_not_keep_others_waiting() {
        let turns = Turns::new(3);
        let of = |tenant, n| Asks::of(tenant, Network::V4([n; 3]));
        let mut held: Vec<_> = (0..3)
            .map(|n| turns.wait(of("many", n), LONG, || true))
            .collect();
        std::thread::scope(|s| {
            let (told, tell) = std::sync::mpsc::channel();
            // The others have waited longer, from networks that have nothing yet.
            let many: Vec<_> = (3..9).map(|n| of("many", n)).collect();
            for asks in many.into_iter().chain([of("one", 0)]) {
                let (t, told) = (turns.clone(), told.clone());
                s.spawn(move || {
                    let turn = t.wait(asks, LONG, || true);
                    // The first one counts.
                    let _ = told.send(asks.tenant);
                    drop(turn);
                });
                let waits = || lock(&turns.0.0).waiting.values().any(|a| *a == asks);
                while !waits() {
                    std::thread::yield_now();
                }
            }
            held.pop();
            let first = tell.recv().expect("one has its turn");
            assert!(first == of("one", 0).tenant, "it has none yet");
            drop(held);
        });
    }

    /// In which order clients of these networks get the one place.
    fn order(networks: &[u8], gone: &[usize]) -> Vec<usize> {
        let turns = Turns::new(1);
        let first = turns.wait(Network::V4([9; 3]), LONG, || true);
        let served = Mutex::new(Vec::new());
        std::thread::scope(|s| {
            for (i, n) in networks.iter().enumerate() {
                let (turns, served) = (&turns, &served);
                s.spawn(move || {
                    let network = Network::V4([*n; 3]);
                    let wanted = || !gone.contains(&i);
                    if let Some(_turn) = turns.wait(network, LONG, wanted) {
                        lock(served).push(i);
                    }
                });
                while lock(&turns.0.0).waiting.len() <= i {
                    std::thread::yield_now();
                }
            }
            drop(first);
        });
        served.into_inner().expect("no panic")
    }

    #[test]
    fn whoever_came_first_is_first_and_whoever_has_gone_costs_nothing() {
        assert_eq!(order(&[1, 1, 1, 1], &[]), [0, 1, 2, 3]);
        assert_eq!(order(&[1, 1, 1, 1], &[0, 2]), [1, 3]);
    }

    #[test]
    fn a_network_that_asks_often_does_not_keep_others_waiting() {
        let turns = Turns::new(2);
        let (many, one) = (Network::V4([1; 3]), Network::V4([2; 3]));
        let mut held: Vec<_> = (0..2).map(|_| turns.wait(many, LONG, || true)).collect();
        std::thread::scope(|s| {
            for _ in 0..10 {
                s.spawn(|| turns.wait(many, Duration::from_millis(5), || false));
            }
            let (told, tell) = std::sync::mpsc::channel();
            let t = turns.clone();
            s.spawn(move || drop(tell_of(&t, one, &told)));
            while !lock(&turns.0.0).waiting.values().any(|a| a.network == one) {
                std::thread::yield_now();
            }
            held.pop();
            assert_eq!(tell.recv(), Ok(one), "it is next, with a place still taken");
            drop(held);
        });
    }

    fn tell_of(t: &Turns, of: Network, told: &std::sync::mpsc::Sender<Network>) -> Option<Turn> {
        let turn = t.wait(of, LONG, || true);
        told.send(of).expect("somebody hears it");
        turn
    }
}
