//! Which of the devices that there are for a program it gets. The same devices in the same order
//! give the same choice, whoever asks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// How devices are chosen where there are more than are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum How {
    /// Of as few servers as possible, and those first of which others have most already: what is
    /// left is left whole for whoever wants much.
    #[default]
    Pack,
    /// Of as many servers as possible, and those first of which others have least.
    Spread,
}

/// A device that somebody can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// Its server, by number.
    pub server: usize,
    /// How much of it others have, in a measure that is the same for all.
    pub taken: u64,
}

/// Chooses `n` of the spots, by their places in the list, in order; `None` if there are fewer.
pub fn choose(spots: &[Spot], n: usize, how: How) -> Option<Vec<usize>> {
    if spots.len() < n {
        return None;
    }
    let mut servers = BTreeMap::<usize, Vec<usize>>::new();
    for (i, s) in spots.iter().enumerate() {
        servers.entry(s.server).or_default().push(i);
    }
    for own in servers.values_mut() {
        match how {
            How::Pack => own.sort_by_key(|i| (Reverse(spots[*i].taken), *i)),
            How::Spread => own.sort_by_key(|i| (spots[*i].taken, *i)),
        }
    }
    let mut chosen = match how {
        How::Pack => pack(&servers, n),
        How::Spread => spread(&servers, n),
    };
    chosen.sort_unstable();
    Some(chosen)
}

/// All of one server that has just enough; else all that the one with most has, and so on.
fn pack(servers: &BTreeMap<usize, Vec<usize>>, n: usize) -> Vec<usize> {
    // By how many each has: those with as many are taken in their order.
    let mut by_size = BTreeMap::<usize, Vec<usize>>::new();
    for (server, own) in servers.iter().rev() {
        by_size.entry(own.len()).or_default().push(*server);
    }
    let mut chosen = Vec::with_capacity(n);
    while chosen.len() < n {
        let left = n - chosen.len();
        let enough = by_size.range(left..).next().map(|(size, _)| *size);
        let size = enough.or_else(|| by_size.keys().next_back().copied());
        let Some(size) = size else {
            break;
        };
        let same = by_size.get_mut(&size);
        let Some(server) = same.and_then(Vec::pop) else {
            by_size.remove(&size);
            continue;
        };
        chosen.extend(servers[&server].iter().take(left));
    }
    chosen
}

/// One of each server in turn, beginning with those that have most.
fn spread(servers: &BTreeMap<usize, Vec<usize>>, n: usize) -> Vec<usize> {
    // The one with the fewest chosen comes first, then the one that has most left.
    let mut turns: BinaryHeap<_> = servers
        .iter()
        .map(|(server, own)| (Reverse(0), own.len(), Reverse(*server)))
        .collect();
    let mut chosen = Vec::with_capacity(n);
    while chosen.len() < n {
        let Some((Reverse(had), left, Reverse(server))) = turns.pop() else {
            break;
        };
        chosen.push(servers[&server][had]);
        if left > 1 {
            turns.push((Reverse(had + 1), left - 1, Reverse(server)));
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers with so much taken of each of their devices, and which of those are chosen.
    fn of(servers: &[&[u64]], n: usize, how: How) -> Option<Vec<(usize, usize)>> {
        let mut spots = Vec::new();
        let mut names = Vec::new();
        for (server, own) in servers.iter().enumerate() {
            for (device, taken) in own.iter().enumerate() {
                let taken = *taken;
                spots.push(Spot { server, taken });
                names.push((server, device));
            }
        }
        choose(&spots, n, how).map(|all| all.into_iter().map(|i| names[i]).collect())
    }

    #[test]
    fn packing_takes_the_server_that_has_just_enough() {
        let servers: &[&[u64]] = &[&[0, 0, 0, 0], &[0, 0], &[0], &[0, 0]];
        let pack = |n| of(servers, n, How::Pack).unwrap();
        assert_eq!(pack(0), []);
        assert_eq!(pack(1), [(2, 0)]);
        assert_eq!(pack(2), [(1, 0), (1, 1)]);
        assert_eq!(pack(3), [(0, 0), (0, 1), (0, 2)]);
        // No server has five: the greatest, and one that has what is missing.
        assert_eq!(pack(5), [(0, 0), (0, 1), (0, 2), (0, 3), (2, 0)]);
        assert_eq!(pack(9).len(), 9);
        assert_eq!(of(servers, 10, How::Pack), None);
        // Parts go where there are parts already.
        assert_eq!(of(&[&[0, 7, 3]], 2, How::Pack).unwrap(), [(0, 1), (0, 2)]);
    }

    #[test]
    fn spreading_takes_one_of_each_in_turn() {
        let servers: &[&[u64]] = &[&[0, 0], &[0, 0, 0], &[0]];
        let spread = |n| of(servers, n, How::Spread).unwrap();
        assert_eq!(spread(1), [(1, 0)]);
        assert_eq!(spread(3), [(0, 0), (1, 0), (2, 0)]);
        assert_eq!(spread(4), [(0, 0), (1, 0), (1, 1), (2, 0)]);
        assert_eq!(spread(6).len(), 6);
        assert_eq!(of(servers, 7, How::Spread), None);
        assert_eq!(of(&[&[5, 0, 3]], 2, How::Spread).unwrap(), [(0, 1), (0, 2)]);
    }

    #[test]
    fn whatever_there_is_as_many_as_wanted_are_chosen_once_each() {
        let mut seed = 3u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % n
        };
        for _ in 0..2000 {
            let servers = 1 + below(6);
            let spots: Vec<_> = (0..below(20))
                .map(|_| Spot {
                    server: below(servers) as usize,
                    taken: below(4),
                })
                .collect();
            let n = below(20) as usize;
            for how in [How::Pack, How::Spread] {
                let got = choose(&spots, n, how);
                assert_eq!(got.is_some(), n <= spots.len());
                let Some(got) = got else { continue };
                assert_eq!(got.len(), n);
                assert!(got.windows(2).all(|w| w[0] < w[1]), "{got:?}");
                let used = |all: &[usize]| {
                    let mut s: Vec<_> = all.iter().map(|i| spots[*i].server).collect();
                    s.sort_unstable();
                    s.dedup();
                    s.len()
                };
                let most = used(&(0..spots.len()).collect::<Vec<_>>()).min(n);
                match how {
                    How::Spread => assert_eq!(used(&got), most),
                    How::Pack => assert!(used(&got) <= most),
                }
            }
        }
    }
}
