//! How many clients are served at a time.

use busbar_control::hello::Intent;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most clients that are served at a time other than by a worker.
const MOST_BUSY: usize = 1024;
/// As many more of those that come back to a session: new ones must not keep them out.
const KEPT_FOR_OLD: usize = 256;

/// Counts a client that is served.
pub(super) struct Busy(Arc<AtomicUsize>);

impl Busy {
    /// A place for a client, if there is one for those that want the same.
    pub(super) fn enter(all: &Arc<AtomicUsize>, intent: Intent) -> Option<Self> {
        let most = match intent {
            Intent::Resume | Intent::Side => MOST_BUSY + KEPT_FOR_OLD,
            _ => MOST_BUSY,
        };
        let place = Self(all.clone());
        (all.fetch_add(1, Ordering::AcqRel) < most).then_some(place)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_come_back_find_room_where_new_ones_do_not() {
        let all = Arc::default();
        let enter = |intent| Busy::enter(&all, intent);
        let mut inside: Vec<_> = (0..MOST_BUSY).map(|_| enter(Intent::Open)).collect();
        assert!(inside.iter().all(Option::is_some));
        for intent in [Intent::Open, Intent::Status, Intent::Lease] {
            assert!(enter(intent).is_none());
        }
        inside.extend((0..KEPT_FOR_OLD).map(|_| enter(Intent::Resume)));
        assert!(inside.iter().all(Option::is_some));
        assert!(enter(Intent::Side).is_none());
        drop(inside);
        assert!(enter(Intent::Open).is_some());
    }
}
