//! Which devices a program gets: those that it reserves, those of a lease or of a job, or those
//! that it shares with others.

use super::args::Args;
use crate::complaint::complain;
use crate::reserve::{self, Reserved, Wanted};
use crate::servers::{Said, told};
use crate::{job, leases};
use anyhow::{Result, bail};
use busbar_client::config::Config;
use busbar_client::hello;
use busbar_client::ranks;
use busbar_control::lease::SETTLE_TIME;
use busbar_control::status::Status;
use std::time::{Duration, Instant};

/// How long it is between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// What a program has.
pub(super) struct Devices {
    /// Servers where it has some.
    at: Vec<String>,
    /// Which of them are its own, and in which order, if not all of one server as they come.
    pub own: Option<String>,
    /// Whether it has parts of them, of which each session draws those that its process uses.
    pub drawn: bool,
    /// Whether there are several devices, and so may be ranks that talk to each other.
    pub ranks: bool,
    /// What lasts as long as the program.
    pub reserved: Option<Reserved>,
}

impl Devices {
    /// Their servers for the program, in the order in which they were named.
    pub fn servers(&self, config: &Config) -> String {
        let at = config.servers.iter().filter(|s| self.at.contains(s));
        at.map(|s| told(config, s)).collect::<Vec<_>>().join(",")
    }
}

/// Finds what a program is to have; with `wanted` it is reserved.
pub(super) fn find(a: &Args, config: &Config, wanted: Option<Wanted>) -> Result<Devices> {
    let n = a.which.gpus;
    let mut found = Devices {
        at: Vec::new(),
        own: None,
        drawn: false,
        ranks: n.is_some_and(|n| n > 1) || a.job.any(),
        reserved: None,
    };
    let leased = a.leased();
    let ask = Ask {
        memory: a.memory,
        part: a.part(),
        leased: !config.lease.is_empty(),
    };
    if let Some(wanted) = wanted {
        let reserved = reserve::reserve(config, &wanted)?;
        found.at = reserved.at.iter().map(|(s, _)| s.clone()).collect();
        found.reserved = Some(reserved);
    } else if leased {
        let at = match a.joins() {
            true => a.job.wait(config, n.unwrap_or(0), a.which.wait)?,
            false => leases::servers_of(config, &config.lease)?,
        };
        found.at = shared(ask, config, &at)?.at;
    } else {
        let some = shared(ask, config, &config.servers)?;
        found.at = some.at;
        if found.at.len() > 1 && !ask.leased && a.nccl.unwrap_or(found.ranks) {
            // They would look for each other for minutes: a lease is what servers know ranks by.
            bail!(
                "ranks at several servers reach each other only with GPUs that are reserved: say \
                 how many with -n, or leave NCCL's collectives out with --nccl=off"
            );
        }
        // A program that sees several devices may use them all unasked, as trainers do.
        found.ranks |= some.devices > 1 && !ask.one();
    }
    if leased || found.reserved.is_some() && (n.is_some() || a.part()) {
        found.order(a, config)?;
    }
    Ok(found)
}

impl Devices {
    /// Takes this machine's piece of the devices of a lease, or of its parts of devices.
    fn order(&mut self, a: &Args, config: &Config) -> Result<()> {
        let (has, parts): (Vec<_>, _) = match &self.reserved {
            Some(r) => {
                let each = r.at.iter().map(|(s, d)| (s.clone(), d.len()));
                (each.collect(), a.part())
            }
            None => leases::counts(config),
        };
        if a.part() && !parts {
            // A part of one of the devices that it has as a whole.
            return Ok(());
        }
        self.ranks |= has.iter().map(|(_, n)| n).sum::<usize>() > 1;
        if !has.is_empty() || a.job.node.is_some() {
            let order = config.servers.iter().filter(|s| self.at.contains(s));
            let order: Vec<_> = order.cloned().collect();
            let (at, own) = job::piece(&order, &has, a.job.node)?;
            let shown = || parts.then(|| ranks::show(&own));
            self.own = job::told(&at, &own, &has).or_else(shown);
            self.drawn = parts;
            self.at = at;
        }
        Ok(())
    }
}

/// What a program that shares asks of servers.
#[derive(Clone, Copy)]
struct Ask {
    memory: Option<u64>,
    /// Whether it is to have a part.
    part: bool,
    /// Of a lease, or beside others.
    leased: bool,
}

impl Ask {
    /// Whether one server is enough: a part is of one device, unless a lease says of how many.
    fn one(self) -> bool {
        self.part && !self.leased
    }
}

/// Servers of which a program shares devices, and how many those are.
struct Shared {
    at: Vec<String>,
    devices: usize,
}

/// Those of some servers: with a part the first that has room for it, else all that have any for
/// the program. What is left out is said.
fn shared(ask: Ask, config: &Config, servers: &[String]) -> Result<Shared> {
    // A program that has just ended gives back what it had in a moment.
    let deadline = Instant::now() + SETTLE_TIME;
    loop {
        let said = survey(ask, config, servers);
        let (found, notes) = match choose(ask, &said) {
            Look::Found(found, notes) => (found, notes),
            Look::Later(_) if Instant::now() < deadline => {
                std::thread::sleep(LOOK);
                continue;
            }
            Look::Later(why) | Look::Never(why) => bail!("{why}"),
        };
        notes.iter().for_each(complain);
        return Ok(found);
    }
}

/// What servers say that they have for the program: those up to the first that will do, if one is
/// enough.
fn survey(ask: Ask, config: &Config, servers: &[String]) -> Vec<Said> {
    if !ask.one() {
        let all = Config {
            servers: servers.to_vec(),
            ..config.clone()
        };
        return reserve::survey(&all);
    }
    let mut said: Vec<Said> = Vec::new();
    for server in servers {
        let answer = hello::status(config, server, &[]);
        let good = answer.as_ref().is_ok_and(offers);
        said.push((server.clone(), answer));
        if good {
            break;
        }
    }
    said
}

/// Whether a server has a device for the program.
fn offers(status: &Status) -> bool {
    its(status) > 0
}

/// How many it has.
fn its(status: &Status) -> usize {
    status.devices.iter().filter(|d| d.yours).count()
}

/// What comes of what servers have said.
enum Look {
    /// Servers with devices for the program; what is to be said of the others.
    Found(Shared, Vec<String>),
    /// None, and why; it may pass.
    Later(String),
    /// It does not.
    Never(String),
}

fn choose(ask: Ask, said: &[Said]) -> Look {
    let (mut found, mut notes, mut down) = (Vec::new(), Vec::new(), Vec::new());
    let mut devices = 0;
    for (server, answer) in said {
        match answer {
            Ok(status) if offers(status) => {
                devices += its(status);
                found.push(server.clone());
            }
            Ok(_) if ask.one() => {}
            Ok(status) => notes.push(format!("without one server: {}", why_none(server, status))),
            Err(e) => down.push(e.clone()),
        }
    }
    // Whoever shares the devices of several servers has named them, and is to have all of them.
    if !found.is_empty() && (ask.one() || down.is_empty()) {
        let down = down.iter().map(|e| format!("without one server: {e}"));
        notes.extend(down);
        return Look::Found(Shared { at: found, devices }, notes);
    }
    if !found.is_empty() {
        return Look::Never(down.join("; "));
    }
    let up: Vec<_> = said
        .iter()
        .filter_map(|(s, a)| Some((s, a.as_ref().ok()?)))
        .collect();
    let mut why: Vec<_> = up
        .iter()
        .map(|(server, status)| why_none(server, status))
        .collect();
    why.dedup();
    why.extend(down);
    let why = why.join("; ");
    let devices = up.iter().flat_map(|(_, status)| &status.devices);
    let most = devices.clone().map(|d| d.device.memory).max();
    let hopeless = ask
        .memory
        .is_some_and(|m| most.is_some_and(|most| m > most));
    let taken = devices.clone().any(|d| d.lease.is_some());
    match !hopeless && (taken || ask.part || ask.leased) {
        true => Look::Later(why),
        false => Look::Never(why),
    }
}

/// Why a server has nothing for the program.
fn why_none(server: &str, status: &Status) -> String {
    if let Some(why) = &status.forbidden {
        return why.clone();
    }
    if status.devices.is_empty() {
        return format!(
            "{server} has no accelerator to offer; `busbar devices` shows what servers have"
        );
    }
    let mut holders: Vec<_> = status
        .devices
        .iter()
        .filter_map(|d| d.lease.clone())
        .collect();
    holders.sort();
    holders.dedup();
    match holders.join(", ") {
        who if who.is_empty() => "the lease of this shell has ended: leave it".into(),
        who => format!("every accelerator of {server} is leased, to {who}; try again later"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_control::device::Device;
    use busbar_control::status::Listed;

    fn device(memory: u64, yours: bool) -> Listed {
        let device = Device {
            memory,
            ..Device::default()
        };
        Listed {
            device,
            yours,
            lease: (!yours).then(|| "ann".into()),
            ..Listed::default()
        }
    }

    fn up(server: &str, devices: Vec<Listed>) -> Said {
        let status = Status {
            devices,
            ..Status::default()
        };
        (server.into(), Ok(status))
    }

    const SHARES: Ask = Ask {
        memory: None,
        part: false,
        leased: false,
    };

    fn part(memory: u64) -> Ask {
        Ask {
            memory: Some(memory),
            part: true,
            ..SHARES
        }
    }

    fn down() -> Said {
        ("c".into(), Err("cannot reach c".into()))
    }

    #[test]
    fn a_server_whose_devices_others_have_is_left_out_and_named() {
        let said = [
            up("a", vec![device(4, true)]),
            up("b", vec![device(4, false)]),
        ];
        let Look::Found(found, notes) = choose(SHARES, &said) else {
            panic!("a has a device");
        };
        assert_eq!(found.at, ["a"]);
        assert!(
            notes.concat().contains("of b is leased, to ann"),
            "{notes:?}"
        );
        assert_eq!(found.devices, 1);
        let Look::Later(why) = choose(SHARES, &said[1..]) else {
            panic!("b's devices may be given back");
        };
        assert!(why.contains("to ann"), "{why}");
        assert!(matches!(choose(SHARES, &[up("d", vec![])]), Look::Never(_)));
    }

    #[test]
    fn a_server_that_does_not_answer_is_missed_where_one_is_not_enough() {
        let said = [down(), up("a", vec![device(4, true)])];
        assert!(matches!(choose(SHARES, &said), Look::Never(why) if why == "cannot reach c"));
        let Look::Found(found, notes) = choose(part(4), &said) else {
            panic!("a has a device");
        };
        assert_eq!(found.at, ["a"]);
        assert!(notes.concat().contains("cannot reach c"), "{notes:?}");
        assert!(matches!(choose(SHARES, &[down()]), Look::Never(_)));
    }

    #[test]
    fn a_part_that_no_device_has_is_not_waited_for() {
        let said = [
            up("a", vec![device(4, false)]),
            up("b", vec![device(8, false)]),
        ];
        assert!(matches!(choose(part(8), &said), Look::Later(_)));
        assert!(matches!(choose(part(9), &said), Look::Never(_)));
    }
}
