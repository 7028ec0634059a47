//! Which servers a process has sessions at, of those that its program has, and which of the devices
//! that it sees are there: see [`crate::ranks`].

use crate::config::Config;
use crate::ranks::{Spot, used};

/// A device that a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The device that does its work, at one of the process's servers.
    pub spot: Spot,
    /// It stands for this one of the program's, at a server that the process has no session at.
    pub stands_for: Option<Spot>,
}

/// The servers of a configuration that a process has sessions at, and its program's devices.
pub struct Plan {
    /// With those servers alone.
    pub config: Config,
    /// Which of the program's servers they are, and on how many parts of devices a session draws
    /// there.
    pub at: Vec<(usize, u32)>,
    /// The devices that the program sees, with their servers' places in that configuration. Empty
    /// where all there is is the program's.
    pub seen: Vec<Seen>,
}

impl Plan {
    /// What a process opens.
    pub fn new(config: &Config, var: impl Fn(&str) -> Option<String>) -> Self {
        let all = || Self {
            config: config.clone(),
            at: (0..config.servers.len())
                .map(|n| (n, config.parts))
                .collect(),
            seen: Vec::new(),
        };
        let there = |s: &Spot| s.server < config.servers.len();
        if config.devices.is_empty() || !config.devices.iter().all(there) {
            return all();
        }
        let everything = || config.devices.clone();
        let used = match var("BUSBAR_RANKS").as_deref() {
            Some("0") => everything(),
            _ => used(&config.devices, var).unwrap_or_else(everything),
        };
        let mut servers: Vec<_> = used.iter().map(|s| s.server).collect();
        servers.sort_unstable();
        servers.dedup();
        let Some(own) = used.first() else {
            return all();
        };
        // A session that draws has the devices that are used, from the first on, and no others.
        let drawn = |server: usize| used.iter().filter(move |s| s.server == server);
        let place = |s: &Spot| {
            let server = servers.iter().position(|n| *n == s.server)?;
            let position = match config.drawn {
                true => drawn(s.server).position(|other| other == s)? as u32,
                false => s.position,
            };
            Some(Spot { server, position })
        };
        let see = |s: &Spot| {
            let found = place(s);
            Some(Seen {
                spot: found.or_else(|| place(own))?,
                stands_for: found.is_none().then_some(*s),
            })
        };
        let parts = |server: usize| match config.drawn {
            true => drawn(server).count() as u32,
            false => config.parts,
        };
        Self {
            seen: config.devices.iter().filter_map(see).collect(),
            config: Config {
                servers: servers.iter().map(|n| config.servers[*n].clone()).collect(),
                ..config.clone()
            },
            at: servers.iter().map(|n| (*n, parts(*n))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::tests::says;
    use crate::ranks::{parse, show};

    #[test]
    fn a_rank_has_a_session_at_the_server_of_its_device() {
        let spots = parse("0:0,0:1,1:0,1:1").unwrap();
        assert_eq!(show(&spots), "0:0,0:1,1:0,1:1");
        let servers = |env: &[(&str, &str)]| {
            let config = Config {
                servers: vec!["a".into(), "b".into()],
                devices: spots.clone(),
                ..Config::from_env()
            };
            let plan = Plan::new(&config, says(env));
            let spots: Vec<_> = plan.seen.iter().map(|s| s.spot).collect();
            (plan.config.servers.join(","), show(&spots))
        };
        let both = show(&spots);
        let rank = |n| [("LOCAL_RANK", n), ("LOCAL_WORLD_SIZE", "4")];
        // The rank's own stands in for those of the other server.
        let own = "0:0,0:1,0:1,0:1".to_string();
        assert_eq!(servers(&rank("1")), ("a".into(), own));
        let other = "0:0,0:0,0:0,0:1".to_string();
        assert_eq!(servers(&rank("2")), ("b".into(), other));
        assert_eq!(servers(&[]), ("a,b".into(), both.clone()));
        // Two ranks with two devices each have what they choose.
        let two = [("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "2")];
        assert_eq!(servers(&two), ("a,b".into(), both.clone()));
        let seen = [("CUDA_VISIBLE_DEVICES", "3,2")];
        assert_eq!(servers(&seen), ("b".into(), "0:1,0:1,0:0,0:1".into()));
        // By such a name nobody knows beforehand where it is.
        let by_name = [("CUDA_VISIBLE_DEVICES", "GPU-12")];
        assert_eq!(servers(&by_name), ("a,b".into(), both.clone()));
        // Of a lease of parts it draws on its own alone: all others are stand-ins.
        let drawn = |env: &[(&str, &str)]| {
            let config = Config {
                servers: vec!["a".into(), "b".into()],
                devices: spots.clone(),
                drawn: true,
                ..Config::from_env()
            };
            let plan = Plan::new(&config, says(env));
            let spots: Vec<_> = plan.seen.iter().map(|s| s.spot).collect();
            let own = plan.seen.iter().map(|s| s.stands_for.is_none());
            (plan.at, show(&spots), own.collect::<Vec<_>>())
        };
        let fourth = "0:0,0:0,0:0,0:0".to_string();
        let own = vec![false, false, false, true];
        assert_eq!(drawn(&rank("3")), (vec![(1, 1)], fourth, own));
        let all = vec![(0, 2), (1, 2)];
        assert_eq!(drawn(&[]), (all, both.clone(), vec![true; 4]));
        let mut off = rank("2").to_vec();
        off.push(("BUSBAR_RANKS", "0"));
        assert_eq!(servers(&off), ("a,b".into(), both));
    }
}
