//! Reserving devices of the servers that somebody has: all are asked what they have, those devices
//! that will do are chosen among, and the lease is made at the servers that have them, or at none.

pub mod filter;
mod line;
mod news;
mod wanted;

pub use line::pass_on;
pub use news::{Event, News};
pub use wanted::{Flags, Reserved, Wanted};

use crate::complaint::complain;
use crate::servers::{self, Said};
use anyhow::{Result, anyhow, bail};
use busbar_client::config::Config;
use busbar_control::hello::LAST_READINGS;
use busbar_control::lease::SETTLE_TIME;
use busbar_control::status::Listed;
use busbar_pool::choose::{Spot, choose};
use line::{End, Line, Site};

/// What each server says it has, or why it says nothing; by the servers' names.
pub fn survey(config: &Config) -> Vec<Said> {
    let mut config = config.clone();
    config.servers.sort();
    config.servers.dedup();
    servers::ask(&config, &[LAST_READINGS])
}

/// A device that will do.
struct Candidate {
    server: usize,
    device: Listed,
    taken: u64,
}

/// Reserves what is wanted: all of it, or nothing.
pub fn reserve(config: &Config, wanted: &Wanted) -> Result<Reserved> {
    // What the servers have, and not what is left of it for a program with a part.
    let config = &Config {
        memory: 0,
        share: 0,
        parts: 0,
        lease: String::new(),
        ..config.clone()
    };
    let answers = survey(config);
    let mut unanswered = Vec::new();
    let (mut all, mut candidates) = (0, Vec::new());
    for (i, (server, said)) in answers.iter().enumerate() {
        let status = match said {
            Ok(s) => s,
            Err(e) => {
                unanswered.push(e.clone());
                continue;
            }
        };
        let cuda = status.devices.iter().any(|d| d.device.api == "cuda");
        let leads = |d: &&Listed| d.device.api == if cuda { "cuda" } else { "opencl" };
        for d in status.devices.iter().filter(leads) {
            all += 1;
            let good = wanted.filter.as_ref();
            let good = good.map(|f| f.holds(server, &status.gpus.driver, d));
            let good = good.transpose().map_err(|e| anyhow!("--filter: {e}"))?;
            if good.unwrap_or(true) && wanted.fits(d, false) {
                let memory = d.device.memory.max(1);
                let parts = d.promised.saturating_mul(1000) / memory;
                candidates.push(Candidate {
                    server: i,
                    device: d.clone(),
                    taken: parts + u64::from(d.promised_share) + d.used_by as u64,
                });
            }
        }
    }
    if answers.len() == unanswered.len() {
        bail!("{}", unanswered.join("; "));
    }
    if candidates.len() < wanted.least {
        bail!(
            "{}",
            too_few(wanted, &answers, all, candidates.len(), &unanswered)
        );
    }
    for e in &unanswered {
        complain(format_args!("without one server: {e}"));
    }
    // By what they say it can be had at once, of few servers.
    if let Some(plan) = plan(wanted, &candidates) {
        let sites = sites(&answers, plan.iter().map(|i| &candidates[*i]));
        if let End::Reserved(r) = Line::new(config, wanted, &sites).wait(None)? {
            return Ok(r);
        }
    }
    let sites = sites(&answers, candidates.iter());
    let long = wanted.wait.unwrap_or(SETTLE_TIME).max(SETTLE_TIME);
    match Line::new(config, wanted, &sites).wait(Some(long))? {
        End::Reserved(r) => Ok(r),
        End::Taken(free, holders) => {
            let who = match holders.is_empty() {
                true => "programs that share them".into(),
                false => holders.join(", "),
            };
            let then = match wanted.wait {
                Some(_) => "that is as long as --wait says",
                None => "wait for them with --wait 10m, or ask for fewer or for less",
            };
            bail!(
                "not enough free GPUs: {} wanted, {free} free, the others are held by {who}; \
                 {then}",
                wanted.least
            )
        }
    }
}

/// Which of the candidates are to be had at once.
fn plan(wanted: &Wanted, candidates: &[Candidate]) -> Option<Vec<usize>> {
    let free = candidates.iter().enumerate();
    let free: Vec<_> = free.filter(|(_, c)| wanted.fits(&c.device, true)).collect();
    let spot = |(_, c): &(usize, &Candidate)| Spot {
        server: c.server,
        taken: c.taken,
    };
    let spots: Vec<_> = free.iter().map(spot).collect();
    let n = spots.len().min(wanted.most).max(wanted.least);
    let chosen = choose(&spots, n, wanted.how)?;
    Some(chosen.into_iter().map(|i| free[i].0).collect())
}

/// Candidates by server, in the order that all clients have them in.
fn sites<'a>(answers: &[Said], candidates: impl Iterator<Item = &'a Candidate>) -> Vec<Site> {
    let mut sites: Vec<Site> = Vec::new();
    for c in candidates {
        let server = &answers[c.server].0;
        let device = (c.device.device.ordinal, c.taken);
        match sites.last_mut() {
            Some(s) if s.server == *server => s.devices.push(device),
            _ => sites.push(Site {
                server: server.clone(),
                devices: vec![device],
            }),
        }
    }
    sites
}

fn too_few(
    wanted: &Wanted,
    answers: &[Said],
    all: usize,
    fit: usize,
    unanswered: &[String],
) -> String {
    let have = match answers.len() {
        1 => "the server has",
        _ => "the servers have",
    };
    let forbidden = answers
        .iter()
        .find_map(|(_, s)| s.as_ref().ok()?.forbidden.clone());
    let mut text = match (forbidden, &wanted.filter) {
        (Some(why), _) if all == 0 => why,
        (_, Some(f)) => format!(
            "{} wanted, but of the {all} that {have} {fit} will do by the filter `{}`; `busbar \
             devices` lists them",
            wanted.count(),
            f.text()
        ),
        (_, None) if fit < all => format!(
            "{} wanted, but only {fit} of the {all} GPUs that {have} have as much: ask for less \
             with -m",
            wanted.count()
        ),
        (_, None) => format!(
            "{} wanted, but {have} {all}; ask for fewer with -n",
            wanted.count()
        ),
    };
    for e in unanswered {
        text += &format!("; {e}");
    }
    text
}
