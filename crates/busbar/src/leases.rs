//! `busbar request`, `busbar release` and `busbar list`: leases that last longer than one command.

use crate::complaint::complain;
use crate::reserve::{self, Wanted};
use crate::servers::{Said, Servers};
use crate::status::fail_with;
use crate::table::{self, Column, Mood, Table};
use anyhow::{Result, bail};
use busbar_client::config::Config;
use busbar_client::hello;
use busbar_control::hello::{Hello, Intent};
use busbar_control::status::{self, Lease};
use busbar_control::{share, size, time};
use serde_json::json;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a lease lasts unless something else is said.
const LASTS: &str = "1h";

/// Flags of `busbar request`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar request -n 2                                # two whole GPUs, for an hour
  busbar request -n 1 -m 16GiB -p 0.25 --for 2h      # a part of one
  ID=$(busbar request -n 4 --filter 'memory >= 80GiB' --wait 10m)
  busbar run --lease $ID -- python train.py
  busbar release $ID")]
pub struct RequestArgs {
    #[command(flatten)]
    servers: Servers,
    /// Of each this much device memory, and not all of it: 16GiB, 512MiB
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,
    /// Of each this share of the time, and not all of it: 0.25, 25%
    #[arg(short = 'p', long, alias = "partial", value_name = "SHARE")]
    #[arg(value_parser = share::parse)]
    share: Option<u32>,
    /// Go first among those who wait
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    priority: Option<i32>,
    #[command(flatten)]
    which: reserve::Flags,
    /// How long the lease lasts, and longer while a program uses it: 90s, 10m, 2h, 7d
    #[arg(long = "for", value_name = "TIME", value_parser = time::parse)]
    #[arg(default_value = LASTS)]
    lasts: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `busbar request`.
pub fn request(a: &RequestArgs) -> Result<()> {
    let config = Config {
        priority: a.priority.unwrap_or(0),
        ..a.servers.all()?
    };
    let program = "busbar request".into();
    let mut wanted = Wanted::new(
        Some(a.which.gpus.unwrap_or(1)),
        a.memory,
        a.share,
        &a.which,
        program,
    )?;
    wanted.keep = Some(a.lasts);
    let reserved = match reserve::reserve(&config, &wanted) {
        Ok(reserved) => reserved,
        Err(e) => {
            // One server may have begun to keep it when another went away.
            for server in &config.servers {
                let _ = release_at(&config, server, &wanted.name);
            }
            return Err(e);
        }
    };
    if a.json {
        let each = reserved.at.iter();
        let of = each.map(|(server, own)| json!({ "server": server, "devices": own }));
        let at: Vec<_> = of.collect();
        let seconds = a.lasts.as_secs();
        table::print_json(&json!({ "lease": reserved.name, "servers": at, "seconds": seconds }));
    } else {
        println!("{}", reserved.name);
    }
    Ok(())
}

/// Flags of `busbar release`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar release 0123abcd    # as `busbar list` shows it, or whole
  busbar release --all       # all of one's own")]
pub struct ReleaseArgs {
    #[command(flatten)]
    servers: Servers,
    /// The lease, whole or as `busbar list` shows it
    #[arg(value_name = "ID", required_unless_present = "all")]
    lease: Option<String>,
    /// All leases of one's own
    #[arg(long, conflicts_with = "lease")]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn release_at(config: &Config, server: &str, lease: &str) -> Result<Vec<Lease>, String> {
    let mut h = Hello::new(Intent::Release);
    h.release = lease.into();
    hello::ask(config, server, h)
}

/// `busbar release`.
pub fn release(a: &ReleaseArgs) -> Result<()> {
    let config = a.servers.all()?;
    let name = a.lease.as_deref().unwrap_or_default();
    if name.is_empty() && !a.all {
        bail!("say which lease, or --all: `busbar list` shows them");
    }
    let each = config.servers.iter();
    let said: Vec<_> = each.map(|s| (s, release_at(&config, s, name))).collect();
    // One of several servers knows a lease, and the others say that they do not.
    let done = a.all || said.iter().any(|(_, r)| r.is_ok());
    let mut errors: Vec<_> = said.iter().filter_map(|(_, r)| r.as_ref().err()).collect();
    errors.dedup();
    if !done || a.all && errors.len() == said.len() {
        let all: Vec<_> = errors.into_iter().cloned().collect();
        bail!("{}", all.join("; "));
    }
    if a.json {
        let of = |(server, r): &(&String, Result<Vec<Lease>, String>)| match r {
            Ok(leases) => {
                let each = leases.iter();
                let ended = each
                    .map(|l| json!({ "lease": l.lease, "holder": l.holder, "devices": l.devices }));
                json!({ "server": server, "released": ended.collect::<Vec<_>>() })
            }
            Err(e) => json!({ "server": server, "error": e }),
        };
        let all: Vec<_> = said.iter().map(of).collect();
        table::print_json(&all);
        return Ok(());
    }
    for (server, r) in &said {
        for l in r.iter().flatten() {
            let n = l.devices.len();
            let gpus = if n == 1 {
                "1 GPU is"
            } else {
                &format!("{n} GPUs are")
            };
            println!("{server}: lease {} has ended, {gpus} free", l.lease);
        }
    }
    if a.all {
        errors.iter().for_each(complain);
    }
    Ok(())
}

/// Flags of `busbar list`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar list                  # one's own leases, and one's programs in line; an admin's has all
  busbar list --json | jq '.[].leases[].lease'")]
pub struct ListArgs {
    #[command(flatten)]
    servers: Servers,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `busbar list`.
pub fn list(a: &ListArgs) -> Result<()> {
    let config = a.servers.all()?;
    let answers = reserve::survey(&config);
    if a.json {
        let of = |(server, said): &Said| match said {
            Ok(s) => json!({ "server": server, "leases": s.leases, "waiting": s.waiting }),
            Err(e) => json!({ "server": server, "error": e }),
        };
        let all: Vec<_> = answers.iter().map(of).collect();
        table::print_json(&all);
    } else if answers.iter().any(|(_, r)| r.is_ok()) {
        table::print(&shown(&answers));
    }
    let errors = answers.into_iter().filter_map(|(_, r)| r.err());
    fail_with(errors.collect())
}

/// The leases of servers, and those who wait for some.
fn shown(answers: &[Said]) -> String {
    let mut leases = Table::new(&[
        Column::text("SERVER"),
        Column::text("LEASE"),
        Column::text("DEVICES"),
        Column::text("OF EACH"),
        Column::number("SESSIONS"),
        Column::number("LEFT"),
        Column::text("HOLDER"),
    ]);
    let mut waiting = Table::new(&[
        Column::text("SERVER"),
        Column::text("LEASE"),
        Column::number("PLACE"),
        Column::text("WANTS"),
        Column::number("FOR"),
        Column::text("BEHIND"),
        Column::text("HELD BY"),
        Column::text("WHO WAITS"),
    ]);
    let numbers = |all: &[u32]| {
        let all: Vec<_> = all.iter().map(ToString::to_string).collect();
        all.join(",")
    };
    let names = |all: &[String]| match all.is_empty() {
        true => "-".into(),
        false => all.join(", "),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |d| d.as_secs());
    let known = |(server, said): &Said| Some((server.clone(), said.as_ref().ok()?.clone()));
    let mut lines = 0;
    for (server, status) in answers.iter().filter_map(known) {
        for l in &status.leases {
            let row = [
                server.clone(),
                l.lease.clone(),
                numbers(&l.devices),
                part(l.whole, l.memory, l.share),
                l.sessions.to_string(),
                l.seconds_left.map_or("-".into(), table::age),
                l.holder.clone(),
            ];
            leases.row(row, Mood::Plain);
        }
        for w in &status.waiting {
            lines += 1;
            let of = part(w.whole, w.memory, w.share);
            let row = [
                server.clone(),
                w.lease.clone(),
                w.place.to_string(),
                format!("{of} of {} among {}", w.wanted, numbers(&w.devices)),
                table::age(now.saturating_sub(w.since / 1000)),
                names(&w.ahead),
                names(&w.holders),
                w.holder.clone(),
            ];
            waiting.row(row, Mood::Taken);
        }
        if status.waiting_left_out > 0 {
            waiting.note(format!("{server}: and {} more", status.waiting_left_out));
        }
    }
    match lines {
        0 => leases.text(),
        _ => format!("{}\n{}", leases.text(), waiting.text()),
    }
}

/// What somebody has, or wants, of each device.
fn part(whole: bool, memory: u64, time: u32) -> String {
    let memory = (memory > 0).then(|| size::show(memory));
    let time = (time > 0).then(|| format!("{} of the time", share::show(time)));
    let parts: Vec<_> = memory.into_iter().chain(time).collect();
    match (whole, parts.is_empty()) {
        (true, _) => "all".into(),
        (_, true) => "shared".into(),
        _ => parts.join(", "),
    }
}

/// The servers at which a lease has something.
pub fn servers_of(config: &Config, lease: &str) -> Result<Vec<String>> {
    let mut errors = Vec::new();
    let mut at = Vec::new();
    for (server, said) in reserve::survey(config) {
        match said {
            Ok(s) if s.leases.iter().any(|l| l.yours) => at.push(server),
            Ok(_) => {}
            Err(e) => errors.push(e),
        }
    }
    if at.is_empty() {
        let mut text = format!(
            "there is no lease `{}` (any more), or it is not yours: `busbar list` shows leases, \
             and `busbar request` makes one and prints the whole of its id",
            status::shown(lease)
        );
        errors.iter().for_each(|e| text += &format!("; {e}"));
        bail!("{text}");
    }
    Ok(at)
}

/// How many devices the lease that the configuration names has at each server, if it does not just
/// share them; and whether it has parts of them.
pub fn counts(config: &Config) -> (Vec<(String, usize)>, bool) {
    let said = reserve::survey(config).into_iter();
    let mut parts = false;
    let has = |(server, said): Said| {
        let lease = said.ok()?.leases.into_iter().find(|l| l.yours)?;
        let part = (lease.memory, lease.share) != (0, 0);
        parts |= part;
        (lease.whole || part).then_some((server, lease.devices.len()))
    };
    (said.filter_map(has).collect(), parts)
}
