//! What somebody wants to have reserved, and what comes of it.

use super::filter::Filter;
use super::news::News;
use crate::words;
use anyhow::{Result, anyhow, bail};
use busbar_control::status::Listed;
use busbar_control::{share, size, time};
use busbar_pool::choose::How;
use busbar_pool::queue::Want;
use busbar_transport::Connection;
use std::sync::Arc;
use std::time::Duration;

/// Letters of a lease's name: 128 bits.
const NAME: usize = 16;

/// Flags that say which devices are reserved.
#[derive(clap::Args)]
pub struct Flags {
    /// Reserve N GPUs of the servers, all or none of them: whole ones, or with -m and -p a part of
    /// each
    #[arg(
        short = 'n',
        long,
        alias = "num_gpus",
        value_name = "N",
        env = "BUSBAR_PARTS",
        value_parser = count
    )]
    pub gpus: Option<u32>,
    /// Of the GPUs that there are use only those that this is true of (CEL): 'memory >= 80GiB &&
    /// name ~ "H200" && driver >= 580 && server != "b"'; of several all have to be true
    #[arg(long, value_name = "EXPR")]
    pub filter: Vec<String>,
    /// Choose GPUs of as many servers as possible, and those that are used least
    #[arg(long, conflicts_with = "pack")]
    pub spread: bool,
    /// Choose GPUs of as few servers as possible, and those that are used most; so it is unless
    /// --spread is said
    #[arg(long)]
    pub pack: bool,
    /// Stand in line for so long if there are not enough free GPUs, first come first served by
    /// priority: 90s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub wait: Option<Duration>,
}

/// Reads a number of GPUs.
fn count(text: &str) -> Result<u32, String> {
    let n = text.trim().parse().ok().filter(|n| (1..=1024).contains(n));
    n.ok_or_else(|| format!("`{text}` is no number of GPUs: say one from 1 to 1024"))
}

impl Flags {
    /// Whether any of them is there: then devices are reserved.
    pub fn any(&self) -> bool {
        self.gpus.is_some()
            || !self.filter.is_empty()
            || self.spread
            || self.pack
            || self.wait.is_some()
    }
}

/// What is to be reserved.
pub struct Wanted {
    /// The lease's name.
    pub name: String,
    /// The fewest devices.
    pub least: usize,
    /// The most.
    pub most: usize,
    /// What of each.
    pub want: Want,
    /// Which will do.
    pub filter: Option<Filter>,
    /// How they are chosen.
    pub how: How,
    /// How long to wait.
    pub wait: Option<Duration>,
    /// How long it lasts without whoever has asked for it.
    pub keep: Option<Duration>,
    /// What it is for, for people to read.
    pub program: String,
}

impl Wanted {
    /// `n` devices, whole unless there is a part; without a number those that will do, shared.
    pub fn new(
        n: Option<u32>,
        memory: Option<u64>,
        share: Option<u32>,
        flags: &Flags,
        program: String,
    ) -> Result<Self> {
        let part = memory.is_some() || share.is_some();
        if n.is_none() && !part && (flags.spread || flags.pack) {
            bail!(
                "--spread and --pack choose among more GPUs than are wanted: say how many with -n"
            );
        }
        let (least, most) = match n {
            Some(n) => (n as usize, n as usize),
            None if part => (1, 1),
            None => (1, u32::MAX as usize),
        };
        let want = match (n, part) {
            (Some(_), false) => Want::Whole,
            _ => Want::Part {
                // As the programs say it, in KiB.
                memory: memory.map_or(0, |m| m.div_ceil(1024) * 1024),
                share: share.unwrap_or(0),
            },
        };
        for text in &flags.filter {
            if let Some(why) = words::filter(text) {
                bail!("--filter: {why}");
            }
        }
        let filter = match &flags.filter[..] {
            [] => None,
            [one] => Some(one.clone()),
            several => {
                let each: Vec<_> = several.iter().map(|f| format!("({f})")).collect();
                Some(each.join(" && "))
            }
        };
        let filter = filter.as_deref().map(Filter::parse).transpose();
        Ok(Self {
            name: crate::vault::random(NAME)?.to_string(),
            least,
            most,
            want,
            filter: filter.map_err(|e| anyhow!("--filter: {e}"))?,
            how: if flags.spread { How::Spread } else { How::Pack },
            wait: flags.wait,
            keep: None,
            program: program.chars().take(120).collect(),
        })
    }

    /// For people to read: `2 GPUs`, `16.0 GiB of 2 GPUs each`.
    pub(super) fn count(&self) -> String {
        let gpus = match self.least {
            1 => "1 GPU".into(),
            n => format!("{n} GPUs"),
        };
        match self.want {
            Want::Part { memory, share } if (memory, share) != (0, 0) => {
                let memory = (memory > 0).then(|| size::show(memory));
                let time = (share > 0).then(|| format!("{} of the time", share::show(share)));
                let parts: Vec<_> = memory.into_iter().chain(time).collect();
                format!("{} of {gpus}", parts.join(" and "))
            }
            _ => gpus,
        }
    }

    /// Whether there is as much of a device, or would be if nobody had any of it.
    pub(super) fn fits(&self, d: &Listed, now: bool) -> bool {
        let taken = match now {
            true => (d.promised, d.promised_share),
            false => (0, 0),
        };
        match self.want {
            Want::Whole => !now || d.lease.is_none() && d.used_by == 0 && taken == (0, 0),
            Want::Part { memory, share } => {
                let left = d.device.memory.saturating_sub(taken.0);
                let time = share::WHOLE.saturating_sub(taken.1);
                left >= memory && time >= share && !(now && d.lease.is_some())
            }
        }
    }
}

/// A lease, at all servers that have a part of it.
pub struct Reserved {
    /// Its name.
    pub name: String,
    /// What of which server.
    pub at: Vec<(String, Vec<u32>)>,
    /// What it lasts as long as, unless it is kept.
    pub conns: Vec<Arc<dyn Connection>>,
    /// What the servers say of it later.
    pub news: News,
}
