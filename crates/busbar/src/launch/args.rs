//! What the flags of `busbar run` say.

use crate::job;
use crate::reserve::{self, Wanted};
use crate::servers::{Servers, Which};
use anyhow::{Result, bail};
use busbar_client::config::Config;
use busbar_control::hello::Mode;
use busbar_control::{share, size, time};
use busbar_transport::rdma::ib::Choice;
use busbar_transport::rdma::{Settings, Wish};
use clap::builder::FalseyValueParser;
use std::ffi::OsString;
use std::time::Duration;

/// Flags of `busbar run`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar run -- python train.py                             # share a GPU
  busbar run --server gpu-host -n 2 -- python train.py      # have two to oneself
  busbar run -m 16GiB -- python train.py                    # have a part of one, and no more
  busbar run -p 0.25 -m 16GiB -- python train.py            # and a quarter of its time
  busbar run -n 2 --filter 'memory >= 80GiB' --wait 10m -- python train.py   # or wait for them
  busbar run --lease ID -- python train.py                  # what `busbar request` has reserved
  busbar run -n 2 -- torchrun --nproc_per_node 2 train.py   # ranks on the GPUs of servers
  BUSBAR_SERVER=gpu-host busbar run -- bash                 # a shell whose programs see the GPU
  BUSBAR_STATS=1 busbar run -- ./program                    # what was called, and what waited
  BUSBAR_LOG=warn busbar run -- ./program                   # what was refused, and why")]
pub struct Args {
    #[command(flatten)]
    servers: Servers,
    /// Have this much device memory promised to each process of the program, of one GPU (with -n,
    /// of each), and no more: 16GiB, 512MiB
    #[arg(short, long, value_name = "SIZE", env = "BUSBAR_MEMORY", value_parser = size::parse)]
    pub(super) memory: Option<u64>,
    /// Whether NCCL's collectives run at the servers, for ranks that talk to each other, as
    /// `torchrun` starts them: on or off. What a newer NCCL than 2.28 has more is refused [default:
    /// on where the program has several GPUs, and for jobs]
    #[arg(long, value_name = "WHEN", env = "BUSBAR_NCCL", value_parser = nccl)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    pub(super) nccl: Option<bool>,
    /// Have this share of one GPU's time promised to each process of the program: 0.25, 25%. What
    /// others leave is the program's, too
    #[arg(
        short = 'p',
        long,
        alias = "partial",
        value_name = "SHARE",
        env = "BUSBAR_SHARE"
    )]
    #[arg(value_parser = share::parse)]
    share: Option<u32>,
    /// Let others be promised that share of time while a process of the program has done nothing
    /// for so long: 10m, 2h. It is its own again when it works, as soon as nobody has it
    #[arg(long, value_name = "TIME", env = "BUSBAR_IDLE_TIMEOUT", value_parser = idle)]
    idle_timeout: Option<Duration>,
    #[command(flatten)]
    pub(super) which: reserve::Flags,
    /// Use what `busbar request` has reserved
    #[arg(long, value_name = "ID")]
    #[arg(conflicts_with_all = ["gpus", "filter", "spread", "pack", "wait"])]
    pub(super) lease: Option<String>,
    #[command(flatten)]
    pub(super) job: job::Flags,
    /// Go first: programs with a lower priority wait while this one has work, but for what they are
    /// promised
    #[arg(
        long,
        value_name = "N",
        env = "BUSBAR_PRIORITY",
        allow_hyphen_values = true
    )]
    priority: Option<i32>,
    /// How the program has its GPU beside others: `dense` has the kernels of all dense programs of
    /// this login run at the same time (by NVIDIA's MPS), and a fault in one ends them all; -p is
    /// then the most of the GPU's processors that it uses at a time [default: isolated]
    #[arg(long, value_name = "MODE", env = "BUSBAR_MODE")]
    mode: Option<Mode>,
    /// Whether the program's sessions move to RDMA: if both ends can, always or never: auto, on,
    /// off [default: auto]
    #[arg(long, value_name = "WHEN", env = "BUSBAR_RDMA")]
    rdma: Option<Wish>,
    /// Over which port, and how: DEVICE[:PORT[:GID]][,class=,level=,mtu=,timeout=,retries=]
    #[arg(long, value_name = "PORT", env = "BUSBAR_RDMA_DEVICE", value_parser = rdma_device)]
    rdma_device: Option<String>,
    /// Do not encrypt what goes over RDMA, if the server says so, too
    #[arg(long, env = "BUSBAR_RDMA_PLAINTEXT", value_parser = FalseyValueParser::new())]
    rdma_plaintext: bool,
    /// The program and its arguments; `bash` gives a shell whose programs see the accelerators
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

/// Whether there are collectives.
fn nccl(text: &str) -> Result<bool, String> {
    match text {
        "on" | "1" | "true" | "yes" => Ok(true),
        "off" | "0" | "false" | "no" | "" => Ok(false),
        _ => Err("say on or off".into()),
    }
}

/// Reads `10m`, or seconds, as the variable has them.
fn idle(text: &str) -> Result<Duration, String> {
    let time = match text.parse::<u32>() {
        Ok(seconds) => Duration::from_secs(seconds.into()),
        Err(_) => time::parse(text)?,
    };
    match time.is_zero() {
        true => Err("a process does nothing for no time all the time: say 10m or 2h".into()),
        false => Ok(time),
    }
}

/// Which port: checked here, and read by the program's own Busbar.
fn rdma_device(text: &str) -> Result<String, String> {
    text.parse::<Choice>().map(|_| text.into())
}

impl Args {
    /// Whether each process is to have a part of a device.
    pub(super) fn part(&self) -> bool {
        self.memory.is_some() || self.share.is_some()
    }

    /// Whether the devices are reserved already, or by another.
    pub(super) fn leased(&self) -> bool {
        self.lease.is_some() || self.joins()
    }

    /// Whether another machine of the job reserves the devices.
    pub(super) fn joins(&self) -> bool {
        self.job.joins() && self.lease.is_none()
    }

    /// The servers, and how they are talked to; what follows from the other flags is said to this
    /// process's libraries and to the program's.
    pub(super) fn settings(&self) -> Result<Config> {
        let lease = match self.joins() {
            true => self.job.lease(),
            false => self.lease.clone(),
        };
        // What is reserved, or a part, is chosen among all, as `busbar request` chooses.
        let among_all = lease.is_some() || self.which.any() || self.part();
        let which = if among_all { Which::All } else { Which::Last };
        let config = self.servers.known(which)?;
        if config.servers.is_empty() {
            bail!(
                "say which server: --server HOST:PORT, or set BUSBAR_SERVER, or log in with the \
                 line that it prints (`busbar login busbar://...`)"
            );
        }
        let parts = self.which.gpus.filter(|_| !self.joins());
        let said = [
            ("BUSBAR_LEASE", lease),
            // As the libraries count it.
            (
                "BUSBAR_MEMORY",
                self.memory.map(|m| format!("{}KiB", m.div_ceil(1024))),
            ),
            ("BUSBAR_SHARE", self.share.map(share::show)),
            ("BUSBAR_PARTS", parts.map(|n| n.to_string())),
            (
                "BUSBAR_IDLE_TIMEOUT",
                self.idle_timeout.map(|t| t.as_secs().to_string()),
            ),
            ("BUSBAR_PRIORITY", self.priority.map(|n| n.to_string())),
            ("BUSBAR_MODE", self.mode.map(|m| m.to_string())),
            ("BUSBAR_RDMA", self.rdma.map(|w| w.to_string())),
            ("BUSBAR_RDMA_DEVICE", self.rdma_device.clone()),
            (
                "BUSBAR_RDMA_PLAINTEXT",
                self.rdma_plaintext.then(|| "1".into()),
            ),
        ];
        for (name, value) in said {
            if let Some(value) = value {
                // SAFETY: there is no other thread yet.
                unsafe { std::env::set_var(name, value) };
            }
        }
        Ok(Config::from_env())
    }

    /// Refuses what would fail, or be passed over, in the program.
    pub(super) fn check(&self) -> Result<()> {
        let log = std::env::var("BUSBAR_LOG").unwrap_or_default();
        if busbar_client::log::parse(&log).is_none() {
            bail!(
                "BUSBAR_LOG={log}: say LEVEL or LEVEL:FILE, with error, warn, info, debug or off"
            );
        }
        if self.idle_timeout.is_some() && self.share.is_none() && self.lease.is_none() {
            bail!("--idle-timeout gives a share of time away: say which with -p");
        }
        let choice = self.rdma_device.as_deref().unwrap_or_default();
        let rdma = Settings {
            wish: self.rdma.unwrap_or_default(),
            choice: choice.parse().unwrap_or_default(),
            plain: self.rdma_plaintext,
        };
        if let (Wish::On, Err(why)) = (rdma.wish, rdma.port(None)) {
            bail!("--rdma on: {why}");
        }
        Ok(())
    }

    /// What is to be reserved, if anything is.
    pub(super) fn wanted(&self) -> Result<Option<Wanted>> {
        if self.joins() || !self.which.any() {
            return Ok(None);
        }
        let n = self.job.of_all(self.which.gpus);
        let words: Vec<_> = self.command.iter().map(|w| w.to_string_lossy()).collect();
        let program = words.join(" ");
        let mut wanted = Wanted::new(n, self.memory, self.share, &self.which, program)?;
        if let Some(lease) = self.job.lease() {
            wanted.name = lease;
        }
        Ok(Some(wanted))
    }
}
