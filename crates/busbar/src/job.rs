//! Jobs: programs of many ranks, on one machine or several, that have their devices together.
//!
//! The first machine of a job reserves the devices of all, under a name that follows from the
//! job's; the others wait until that is there, and each has its piece of it. Which devices a
//! program has, in the order of its ranks, its libraries learn from `BUSBAR_DEVICES`.

use crate::complaint::complain;
use crate::leases;
use crate::reserve::{self, Event, News};
use anyhow::{Result, bail};
use busbar_client::config::Config;
use busbar_client::ranks::{self, Spot};
use busbar_control::lease::Word;
use busbar_control::talk::Loss;
use busbar_control::text::to_hex;
use busbar_transport::Connection;
use busbar_wire::generated::cuda::contract::DEVICES;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a machine waits for the first one of its job unless somebody says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(200);
/// What names of jobs are made into names of leases with.
const CONTEXT: &str = "busbar 2026 the lease of a job";

/// So manieth of so many machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// From 0.
    pub number: usize,
    /// How many there are.
    pub of: usize,
}

/// Reads `0/2`.
fn node(text: &str) -> Result<Node, String> {
    let wrong = || format!("`{text}` is no machine of a job: say 0/2 for the first of two");
    let (number, of) = text.split_once('/').ok_or_else(wrong)?;
    let read = |n: &str| n.trim().parse::<usize>().map_err(|_| wrong());
    let (number, of) = (read(number)?, read(of)?);
    match number < of && of <= 1024 {
        true => Ok(Node { number, of }),
        false => Err(wrong()),
    }
}

/// Flags of `busbar run` that say what job a program is of.
#[derive(clap::Args)]
#[group(id = "job_flags")]
pub struct Flags {
    /// The job that the program is of: `busbar ps` shows it. Machines that name the same job with
    /// --node have their GPUs together
    #[arg(long, value_name = "NAME", env = "BUSBAR_JOB")]
    pub job: Option<String>,
    /// This is the K-th, from 0, of M machines that share the GPUs of the --job or --lease. With
    /// --job each has -n of them, and the first reserves all
    #[arg(long, value_name = "K/M", value_parser = node)]
    pub node: Option<Node>,
}

impl Flags {
    /// How many devices the whole job has, if each machine has so many.
    pub fn of_all(&self, n: Option<u32>) -> Option<u32> {
        let of = self.node.map_or(1, |n| n.of as u32);
        n.map(|n| n.saturating_mul(of))
    }

    /// The name of the lease that this machine's first one makes.
    pub fn lease(&self) -> Option<String> {
        let (Some(job), Some(_)) = (&self.job, self.node) else {
            return None;
        };
        let name = blake3::derive_key(CONTEXT, job.as_bytes());
        Some(to_hex(&name[..16]))
    }

    /// Whether another machine reserves the devices.
    pub fn joins(&self) -> bool {
        self.job.is_some() && self.node.is_some_and(|n| n.number > 0)
    }

    /// Whether the program is of a job.
    pub fn any(&self) -> bool {
        self.job.is_some() || self.node.is_some()
    }

    /// What does not go together.
    pub fn check(&self, n: Option<u32>, part: bool, lease: bool) -> Result<()> {
        if self.node.is_none() {
            return Ok(());
        }
        if self.job.is_none() && !lease {
            bail!("--node: say which --job NAME the machines share, or which --lease ID");
        }
        if part {
            bail!("--node is for whole GPUs: leave -m and -p out");
        }
        if n.is_none() && !lease {
            bail!("--node: say with -n how many GPUs each machine has");
        }
        Ok(())
    }

    /// Waits for the first machine of the job to have the devices of all, of which each machine
    /// has `n`: the servers at which they are. It takes them at one server after the other.
    pub fn wait(&self, config: &Config, n: u32, most: Option<Duration>) -> Result<Vec<String>> {
        let most = most.unwrap_or(PATIENCE);
        let until = Instant::now() + most;
        let (of, all) = (self.node.map_or(1, |n| n.of), self.of_all(Some(n)));
        loop {
            let (has, _) = leases::counts(config);
            let there: usize = has.iter().map(|(_, n)| n).sum();
            if Some(there as u32) == all {
                return Ok(has.into_iter().map(|(server, _)| server).collect());
            }
            if Instant::now() >= until {
                bail!(
                    "the first machine of the job {} has not reserved {} GPUs within {} s: is it \
                     started with --node 0/{of} and the same -n, at the same servers, and by the \
                     same tenant?",
                    self.job.as_deref().unwrap_or_default(),
                    all.unwrap_or(0),
                    most.as_secs()
                );
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Listens to the servers that have a lease for as long as the command lasts: which ranks are gone
/// at one of them the others are told, that a server is gone, and what ranks ask each other.
pub fn watch(at: &[(String, Vec<u32>)], conns: Vec<Arc<dyn Connection>>, mut news: News) {
    let names: Vec<_> = at.iter().map(|(server, _)| server.clone()).collect();
    let run = move || {
        while let Some((i, event)) = news.next() {
            let word = match event {
                Event::Says(talk) => Word::Talk(talk),
                Event::Lost(loss) => Word::Loss(loss),
                Event::Gone(why, comms) => Word::Loss(Loss {
                    text: format!("the server {} is gone: {why}", names[i]),
                    comms,
                    follows: false,
                }),
            };
            if let Word::Loss(loss) = &word
                && !loss.follows
            {
                complain(&loss.text);
            }
            let others = conns.iter().enumerate().filter(|(n, _)| *n != i);
            for (n, conn) in others {
                if let Some(word) = news.takes(n, &word) {
                    reserve::pass_on(&**conn, &word);
                }
            }
        }
    };
    let _ = std::thread::Builder::new().name("job".into()).spawn(run);
}

/// The devices of this machine's ranks, of those that a lease has at each server, in the order in
/// which the servers are named: the servers that have some, and the devices.
pub fn piece(
    servers: &[String],
    has: &[(String, usize)],
    node: Option<Node>,
) -> Result<(Vec<String>, Vec<Spot>)> {
    let count = |s: &String| has.iter().find(|(of, _)| of == s).map_or(0, |(_, n)| *n);
    let each = |(server, s): (usize, &String)| {
        (0..count(s) as u32).map(move |position| Spot { server, position })
    };
    let all: Vec<Spot> = servers.iter().enumerate().flat_map(each).collect();
    let Node { number, of } = node.unwrap_or(Node { number: 0, of: 1 });
    if all.len() < of || !all.len().is_multiple_of(of) {
        bail!(
            "{} GPUs cannot be shared evenly by {of} machines",
            all.len()
        );
    }
    let size = all.len() / of;
    let most = DEVICES.len();
    if size > most {
        bail!(
            "a program has room for {most} GPUs and would have {size}: share them among several \
             machines, each with `--job NAME --node K/N`, or take fewer with -n"
        );
    }
    let mut own = all[number * size..][..size].to_vec();
    let mut at: Vec<_> = own.iter().map(|s| s.server).collect();
    at.dedup();
    for s in &mut own {
        s.server = at.iter().position(|n| *n == s.server).unwrap_or(0);
    }
    let names = at.into_iter().map(|n| servers[n].clone()).collect();
    Ok((names, own))
}

/// What a program's libraries are told of its devices; nothing where they have all of one server's.
pub fn told(at: &[String], own: &[Spot], has: &[(String, usize)]) -> Option<String> {
    let all = match at {
        [one] => has.iter().any(|(s, n)| s == one && *n == own.len()),
        _ => false,
    };
    (!all).then(|| ranks::show(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_share_devices_in_the_order_of_their_ranks() {
        let many = |of| {
            piece(
                &["a".into()],
                &[("a".into(), 128)],
                Some(Node { number: 1, of }),
            )
        };
        assert!(many(1).is_err_and(|e| e.to_string().contains("room for 64 GPUs")));
        assert!(many(2).is_ok_and(|(_, own)| own.len() == 64));
        let servers = ["b".to_string(), "none".into(), "a".into()];
        let has = [("a".to_string(), 2), ("b".to_string(), 4)];
        let of = |number, of| {
            let (at, own) = piece(&servers, &has, Some(Node { number, of })).unwrap();
            (
                at.join(","),
                ranks::show(&own),
                told(&at, &own, &has).is_some(),
            )
        };
        let all = "0:0,0:1,0:2,0:3,1:0,1:1".to_string();
        assert_eq!(of(0, 1), ("b,a".into(), all, true));
        assert_eq!(of(0, 3), ("b".into(), "0:0,0:1".into(), true));
        assert_eq!(of(2, 3), ("a".into(), "0:0,0:1".into(), false));
        assert_eq!(of(1, 2), ("b,a".into(), "0:3,1:0,1:1".into(), true));
        assert!(piece(&servers, &has, Some(Node { number: 0, of: 4 })).is_err());
    }

    #[test]
    fn a_machine_is_one_of_those_there_are() {
        assert_eq!(node("1/2"), Ok(Node { number: 1, of: 2 }));
        for bad in ["", "1", "2/2", "-1/2", "0/0", "a/b"] {
            assert!(node(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_job_has_one_lease_at_all_machines_and_another_job_another() {
        let lease = |job: &str, node| {
            let (job, node) = (Some(job.into()), node);
            Flags { job, node }.lease()
        };
        let (first, second) = (node("0/2").ok(), node("1/2").ok());
        assert_eq!(lease("a", first), lease("a", second));
        assert_ne!(lease("a", first), lease("b", first));
        assert_eq!(lease("a", first).map(|l| l.len()), Some(32));
        assert_eq!(lease("a", None), None, "a name alone reserves nothing");
    }
}
