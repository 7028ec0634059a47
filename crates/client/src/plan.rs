//! Which servers a process has sessions at, of those that its program has, and which of the devices
//! that it sees are there: see [`crate::ranks`].

use crate::config::Config;
use crate::ranks::{Spot, used};

/// A device that a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The device.
    pub spot: Spot,
    /// It stands for one at a server that the process has no session at.
    pub stand_in: bool,
}

/// The servers of a configuration that a process has sessions at, and its program's devices.
pub struct Plan {
    /// With those servers alone.
    pub config: Config,
    /// The devices that the program sees, with their servers' places in that configuration. Empty
    /// where all there is is the program's.
    pub seen: Vec<Seen>,
}

impl Plan {
    /// What a process opens.
    pub fn new(config: &Config, var: impl Fn(&str) -> Option<String>) -> Self {
        let all = || Self {
            config: config.clone(),
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
        let place = |s: &Spot| servers.iter().position(|n| *n == s.server);
        let see = |s: &Spot| {
            let server = place(s);
            let spot = if server.is_some() { s } else { own };
            Seen {
                spot: Spot {
                    server: place(spot).unwrap_or(0),
                    position: spot.position,
                },
                stand_in: server.is_none(),
            }
        };
        Self {
            seen: config.devices.iter().map(see).collect(),
            config: Config {
                servers: servers.iter().map(|n| config.servers[*n].clone()).collect(),
                ..config.clone()
            },
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
        let mut off = rank("2").to_vec();
        off.push(("BUSBAR_RANKS", "0"));
        assert_eq!(servers(&off), ("a,b".into(), both));
    }
}
