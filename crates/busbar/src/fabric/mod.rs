//! `busbar fabric check`: what an operator of an RDMA fabric needs to see, from one place.
//!
//! [`sysfs`] reads what a machine's kernel tells, [`end`] is one end of a measurement, [`probe`]
//! tells two of them what to do, [`ring`] has NCCL try the same, and [`judge`] knows what is wrong
//! with what came of it.

pub mod end;
mod judge;
mod probe;
pub mod ring;
mod shown;
pub mod sysfs;

use crate::servers::{self, Servers};
use crate::table;
use anyhow::{Result, bail};
use busbar_client::config::Config;
use busbar_client::hello;
use busbar_control::fabric::{Machine, Reply, Step};
use busbar_control::hello::{Hello, Intent};
use busbar_transport::tcp::Address;
use judge::Seen;
use probe::{Amount, Between, Here, Measured, Remote, Station};
use ring::Ring;
use serde_json::json;
use std::time::Duration;

/// Round trips of which the latency is that of half.
const TRIPS: u32 = 1000;

/// Flags of `busbar fabric`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar fabric check                             # every server of `busbar login`, and this machine
  busbar fabric check gpu-a gpu-b --least 80      # these two
  busbar fabric check --json | jq '.findings[] | select(.fails)'")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Look at the RDMA devices of servers, and measure between each two of them
    Check(CheckArgs),
}

/// Flags of `busbar fabric check`.
#[derive(clap::Args)]
struct CheckArgs {
    /// Servers to check, in place of --server
    #[arg(value_name = "HOST")]
    hosts: Vec<String>,
    #[command(flatten)]
    servers: Servers,
    /// Fail below so many hundredths of the line rate
    #[arg(long, value_name = "PERCENT", default_value = "92", value_parser = percent)]
    least: f64,
    /// Write for so long between each two, each way
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    seconds: f64,
    /// Bytes that NCCL's ring over the servers' GPUs sums up at a time, or `off` for no ring
    #[arg(long, value_name = "SIZE", default_value = "128MiB")]
    ring: ring::Wish,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn within(text: &str, most: f64) -> Result<f64, String> {
    let n = text.parse().ok().filter(|n| (0.0..=most).contains(n));
    n.ok_or_else(|| format!("`{text}` is no number from 0 to {most}"))
}

fn percent(text: &str) -> Result<f64, String> {
    within(text, 100.0)
}

fn seconds(text: &str) -> Result<f64, String> {
    within(text, 10.0)
}

/// `busbar fabric`.
pub fn run(a: &Args) -> Result<()> {
    let What::Check(a) = &a.what;
    check(a)
}

/// A machine, and what does steps there.
type Known = (Seen, Option<Box<dyn Station>>);

fn check(a: &CheckArgs) -> Result<()> {
    let config = a.servers.instead(&a.hosts).all()?;
    let mut known = vec![here(&config)];
    known.extend(config.servers.iter().map(|s| server(&config, s)));
    let amount = Amount {
        ms: (a.seconds * 1000.0) as u32,
        trips: TRIPS,
    };
    let pairs = measured(&mut known, amount);
    let mut machines: Vec<_> = known.into_iter().map(|(seen, _)| seen).collect();
    let rings = match a.ring {
        ring::Wish::Off => Vec::new(),
        ring::Wish::Bytes(bytes) => rings(&config, &machines, bytes, amount.ms),
    };
    for m in machines.iter_mut().filter(|m| m.error.is_none()) {
        let after = match m.here {
            true => Ok(sysfs::Sources::here().machine(String::new())),
            false => ask(&config, &m.name).map(|(machine, _)| machine),
        };
        match after {
            Ok(after) => m.compare(after),
            Err(why) => m.error = Some(why),
        }
    }
    let findings = judge::all(&machines, &pairs, &rings, a.least);
    let failed = findings.iter().filter(|f| f.fails).count();
    match a.json {
        true => table::print_json(&json!({
            "ok": failed == 0,
            "least_percent": a.least,
            "machines": machines,
            "pairs": pairs,
            "rings": rings,
            "findings": findings,
        })),
        false => table::print(&shown::text(&machines, &pairs, &rings, &findings)),
    }
    match failed {
        0 => Ok(()),
        1 => bail!("the fabric has a fault"),
        n => bail!("the fabric has {n} faults"),
    }
}

fn here(config: &Config) -> Known {
    let mut seen = Seen {
        name: "here".into(),
        machine: sysfs::Sources::here().machine("auto".into()),
        here: true,
        ..Seen::default()
    };
    let mut station = Here::start(config.rdma.clone()).ok();
    look(&mut seen, station.as_mut().map(|s| s as &mut dyn Station));
    (seen, station.map(|s| Box::new(s) as Box<dyn Station>))
}

/// Begins the conversation with a server.
fn ask(config: &Config, server: &str) -> Result<(Machine, Remote), String> {
    let hello = hello::introduce(config, server, Hello::new(Intent::Fabric))?;
    let timeout = config.connect_timeout.max(Duration::from_millis(1));
    let route = config.route(Address::new(server))?;
    let met = hello::connect(&route, &hello, timeout).map_err(|e| e.to_string())?;
    let (conn, welcome) = met;
    let server = server.to_string();
    Ok((welcome.read(&server)?, Remote { server, conn }))
}

fn server(config: &Config, server: &str) -> Known {
    let mut seen = Seen {
        name: server.into(),
        ..Seen::default()
    };
    match ask(config, server) {
        Ok((machine, mut station)) => {
            seen.machine = machine;
            look(&mut seen, Some(&mut station));
            (seen, Some(Box::new(station)))
        }
        Err(why) => {
            seen.error = Some(why);
            (seen, None)
        }
    }
}

/// Asks what a session would find there.
fn look(seen: &mut Seen, station: Option<&mut dyn Station>) {
    // Nothing is loaded where there is nothing to use it.
    if seen.machine.devices.is_empty() {
        return;
    }
    let said = station.map(|s| s.tell(&Step::Look));
    match said {
        Some(Ok(Reply::Sees(sight))) => seen.sight = sight,
        Some(Ok(Reply::Failed { why }) | Err(why)) => seen.error = Some(why),
        _ => seen.error = Some(format!("{} does not look at its devices", seen.name)),
    }
}

/// Measures from each machine with a port to each other one.
fn measured(known: &mut [Known], amount: Amount) -> Vec<Measured> {
    let mut pairs = Vec::new();
    for from in 0..known.len() {
        for to in 0..known.len() {
            let Ok([a, b]) = known.get_disjoint_mut([from, to]) else {
                continue;
            };
            let ((a, Some(one)), (b, Some(other))) = (a, b) else {
                continue;
            };
            let (Some(near), Some(far)) = (a.port(), b.port()) else {
                continue;
            };
            let line = near.rate.zip(far.rate).map(|(a, b)| a.min(b));
            let mut between = Between {
                names: [&a.name, &b.name],
                ends: [&mut **one, &mut **other],
            };
            let mut done = between.measure(amount);
            done.line_gbps = line;
            pairs.push(done);
        }
    }
    pairs
}

/// Has NCCL sum up bytes within each server that has several GPUs, and over one GPU of each server
/// that has any. Those that others have are refused, which is said.
fn rings(config: &Config, machines: &[Seen], bytes: u64, ms: u32) -> Vec<Ring> {
    let amount = ring::Amount { bytes, ms };
    let mut gpus = Vec::new();
    for (server, status) in servers::ask(config, &[]) {
        let devices = status.map(|s| s.devices).unwrap_or_default();
        match devices.iter().filter(|d| d.device.api == "cuda").count() {
            0 => {}
            n => gpus.push((server, n)),
        }
    }
    let several = gpus.iter().filter(|(_, n)| *n > 1);
    let within = several.map(|(server, n)| ring::measure(config, &[server], *n, amount));
    let mut rings: Vec<_> = within.collect();
    if gpus.len() > 1 {
        let all: Vec<_> = gpus.iter().map(|(server, _)| &**server).collect();
        let mut ring = ring::measure(config, &all, all.len(), amount);
        let rate = |s: &&str| machines.iter().find(|m| m.name == **s)?.port()?.rate;
        let rates: Option<Vec<_>> = all.iter().map(rate).collect();
        ring.line_gbps = rates.and_then(|r| r.into_iter().reduce(f64::min));
        rings.push(ring);
    }
    rings
}
