//! Which sessions give way to one that lacks device memory. Pure: what is seen of them goes in.

use crate::Pool;
use std::time::Duration;

/// What a session has of a device beyond all that is counted of it, at least.
const UNCOUNTED: u64 = 64 << 20;

/// A session that may give way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub session: String,
    /// What it has of the device.
    pub bytes: u64,
    /// For how long it has done nothing; or has had its memory, where others wait for theirs.
    pub time: Duration,
}

/// Those that give way for so many bytes: whoever has had the longest time goes first, and nobody
/// goes without need. Nobody does where all together have too little, unless `even_so`.
pub fn give_way(mut all: Vec<Candidate>, bytes: u64, even_so: bool) -> Vec<Candidate> {
    all.sort_by(|a, b| {
        let longest = b.time.cmp(&a.time);
        longest.then_with(|| a.session.cmp(&b.session))
    });
    let mut sum = 0u64;
    let enough = all.iter().position(|c| {
        sum = sum.saturating_add(c.bytes);
        sum >= bytes
    });
    let uncounted = all.len() as u64 * UNCOUNTED;
    match enough {
        _ if bytes == 0 => return Vec::new(),
        Some(last) => all.truncate(last + 1),
        None if even_so || sum.saturating_add(uncounted) >= bytes => return all,
        None => return Vec::new(),
    }
    // What the later ones have may be enough without an earlier one.
    let mut chosen = Vec::new();
    for c in all {
        match sum.saturating_sub(c.bytes) >= bytes {
            true => sum -= c.bytes,
            false => chosen.push(c),
        }
    }
    chosen
}

impl Pool {
    /// After how long a session of a tenant's that does nothing gives way to others.
    pub fn swap_idle(&self, tenant: &str) -> Option<Duration> {
        self.policy.of(tenant).swap_idle
    }

    /// Whether the policy has any session give way.
    pub fn swaps(&self) -> bool {
        self.policy.all().any(|rules| rules.swap_idle.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of sessions, each with so many GiB and seconds, those that give way for so many GiB.
    fn chosen(all: &[(&str, u64, u64)], gib: u64, even_so: bool) -> Vec<String> {
        let candidate = |(session, gib, seconds): &(&str, u64, u64)| Candidate {
            session: (*session).into(),
            bytes: gib << 30,
            time: Duration::from_secs(*seconds),
        };
        let all = all.iter().map(candidate).collect();
        let chosen = give_way(all, gib << 30, even_so).into_iter();
        chosen.map(|c| c.session).collect()
    }

    #[test]
    fn the_longest_idle_go_first_and_nobody_without_need() {
        let all = [("a", 10, 5), ("b", 40, 9), ("c", 100, 7), ("d", 3, 9)];
        let of = |gib| chosen(&all, gib, false);
        assert_eq!(of(20), ["b"]);
        assert_eq!(of(42), ["b", "d"]);
        assert_eq!(of(60), ["c"], "b would not have been enough, c is");
        assert_eq!(of(141), ["b", "d", "c"]);
        assert_eq!(of(153), ["b", "d", "c", "a"]);
        assert!(of(154).is_empty(), "all are not enough");
        assert_eq!(chosen(&all, 154, true), ["b", "d", "c", "a"]);
        assert!(of(0).is_empty());
        assert!(chosen(&[], 1, true).is_empty());
    }

    #[test]
    fn a_session_has_more_than_what_is_counted() {
        const GIB: u64 = 1 << 30;
        let goes = |bytes| {
            let (session, time) = ("a".into(), Duration::ZERO);
            let all = vec![Candidate {
                session,
                bytes,
                time,
            }];
            !give_way(all, GIB, false).is_empty()
        };
        assert!(goes(GIB - UNCOUNTED));
        assert!(!goes(GIB - UNCOUNTED - 1));
    }
}
