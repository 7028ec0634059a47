//! What the log says of clients that are refused.
//!
//! Anyone who reaches the server can make it refuse them, as often as they like. Each refusal is a
//! short line, and each network gets only so many of them in a while, as do all networks together;
//! the next line says how many were left out.

use super::budget::{Allowance, Budget};
use crate::audit::Audit;
use busbar_control::hello::Refusal;
use busbar_control::text::one_line;
use busbar_transport::lock::lock;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::time::Instant;

/// The longest reason in a line, in bytes.
const LONGEST: usize = 300;
/// Lines that one network has at once, and how many come back each second.
const OF_ONE: Allowance = (20.0, 1.0);
/// The same for all networks together.
const OF_ALL: Allowance = (100.0, 10.0);
/// The most networks that are told apart.
const NETWORKS: usize = 1024;

/// Addresses that count as one: an IPv4 network of 256, an IPv6 site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Network {
    V4([u8; 3]),
    V6([u8; 6]),
    /// No address that could be told.
    Unknown,
}

impl Network {
    /// The network of an address.
    pub(crate) fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(a) => Self::V4([a.octets()[0], a.octets()[1], a.octets()[2]]),
            IpAddr::V6(a) => a
                .octets()
                .first_chunk()
                .map_or(Self::Unknown, |c| Self::V6(*c)),
        }
    }

    /// The network of an address with its port, as text.
    pub(crate) fn of_peer(peer: &str) -> Self {
        let address = peer.parse::<SocketAddr>();
        address.map_or(Self::Unknown, |a| Self::of(a.ip()))
    }
}

#[derive(Default)]
struct State {
    all: Option<Budget>,
    networks: HashMap<Network, Budget>,
    left_out: u64,
    /// All of them, by code.
    counts: BTreeMap<String, u64>,
}

impl State {
    /// Whether a line may be written; if so, how many were left out before it.
    fn line(&mut self, from: Network, now: Instant) -> Option<u64> {
        if self.networks.len() >= NETWORKS && !self.networks.contains_key(&from) {
            self.networks.retain(|_, l| l.now(now, OF_ONE) < OF_ONE.0);
        }
        // Those that find no place of their own share one.
        let full = self.networks.len() >= NETWORKS && !self.networks.contains_key(&from);
        let from = if full { Network::Unknown } else { from };
        let one = *self
            .networks
            .entry(from)
            .or_insert(Budget::full(OF_ONE, now));
        let all = *self.all.get_or_insert(Budget::full(OF_ALL, now));
        if one.now(now, OF_ONE) < 1.0 || all.now(now, OF_ALL) < 1.0 {
            self.left_out += 1;
            return None;
        }
        self.networks.insert(from, one.spent(now, OF_ONE));
        self.all = Some(all.spent(now, OF_ALL));
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Keeps count of refusals.
pub(crate) struct Refusals {
    state: Mutex<State>,
    audit: Audit,
}

impl Refusals {
    pub(super) fn new(audit: Audit) -> Self {
        let state = Mutex::default();
        Self { state, audit }
    }

    /// How often anybody was refused, by code.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        lock(&self.state).counts.clone()
    }

    /// Logs that a client was refused, unless the log has heard enough of its like.
    pub(crate) fn log(&self, peer: &str, r: &Refusal) {
        let mut state = lock(&self.state);
        *state.counts.entry(r.code.clone()).or_default() += 1;
        let line = state.line(Network::of_peer(peer), Instant::now());
        drop(state);
        let Some(left_out) = line else { return };
        let left_out = Some(left_out).filter(|n| *n > 0);
        let why = one_line(&r.message, LONGEST);
        tracing::info!(peer, code = r.code, why, left_out, "refused");
        let note = json!({ "peer": peer, "code": r.code, "why": why, "left_out": left_out });
        let _ = self.audit.note("refused", note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn net(n: u16) -> Network {
        let [a, b] = n.to_be_bytes();
        Network::of(IpAddr::from([10, a, b, 7]))
    }

    #[test]
    fn a_network_has_its_lines_and_then_one_a_second() {
        let (mut s, start) = (State::default(), Instant::now());
        let all: Vec<_> = (0..1000).filter_map(|_| s.line(net(1), start)).collect();
        assert_eq!(all, [0; 20]);
        assert_eq!(s.line(net(2), start), Some(980), "others are heard");
        let later = start + Duration::from_millis(1100);
        assert_eq!(s.line(net(1), later), Some(0));
        assert_eq!(s.line(net(1), later), None);
        assert_eq!(s.line(net(2), later), Some(1));
    }

    #[test]
    fn many_networks_share_what_there_is() {
        let (mut s, start) = (State::default(), Instant::now());
        let lines = |s: &mut State, now| {
            let all = (0..60_000).filter_map(|n| s.line(net(n), now));
            all.count()
        };
        assert_eq!(lines(&mut s, start), 100);
        assert!(s.networks.len() <= NETWORKS + 1);
        assert_eq!(lines(&mut s, start + Duration::from_secs(2)), 20);
        let mapped: IpAddr = "::ffff:10.0.1.9".parse().unwrap();
        assert_eq!(Network::of(mapped), net(1));
        assert_eq!(
            Network::of_peer("[2001:db8::1]:7"),
            Network::of_peer("[2001:db8::2]:8")
        );
        assert_ne!(
            Network::of_peer("10.0.1.9:7"),
            Network::of_peer("10.0.2.9:7")
        );
    }
}
