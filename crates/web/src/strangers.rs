//! Connections that nobody was let in over yet. When there is no place for another, one of them
//! makes room.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::AbortHandle;

/// Addresses that count as one.
pub(crate) type Network = [u8; 6];

#[derive(Debug, Default)]
struct State {
    next: u64,
    all: BTreeMap<u64, (Network, Option<AbortHandle>)>,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Strangers(Arc<Mutex<State>>);

/// One of them, until it is known or this is dropped.
#[derive(Debug)]
pub(crate) struct Stranger {
    home: Strangers,
    number: u64,
}

impl Strangers {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One more.
    pub fn enter(&self, of: Network) -> Arc<Stranger> {
        let number = self.change(|s| {
            s.next += 1;
            s.all.insert(s.next, (of, None));
            s.next
        });
        let home = self.clone();
        Arc::new(Stranger { home, number })
    }

    /// Ends the one that has been here longest of a network, or of the one that has the most;
    /// whether there was one.
    pub fn make_room(&self, of: Option<Network>) -> bool {
        self.change(|s| {
            let mut counts = HashMap::<Network, usize>::new();
            for (network, _) in s.all.values() {
                *counts.entry(*network).or_default() += 1;
            }
            let most = counts.values().max().copied();
            let goes = |(network, _): &(Network, _)| match of {
                Some(of) => *network == of,
                None => counts.get(network).copied() == most,
            };
            let number = s.all.iter().find(|(_, s)| goes(s)).map(|(n, _)| *n);
            let gone = number.and_then(|n| s.all.remove(&n));
            gone.is_some_and(|(_, task)| task.map(|t| t.abort()).is_some())
        })
    }
}

impl Stranger {
    /// By this its connection is ended.
    pub fn is_served_by(&self, task: AbortHandle) {
        self.home.change(|s| {
            if let Some((_, served)) = s.all.get_mut(&self.number) {
                *served = Some(task);
            }
        });
    }

    /// Somebody was let in over its connection, who keeps that.
    pub fn is_known(&self) {
        self.home.change(|s| s.all.remove(&self.number));
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.is_known();
    }
}
