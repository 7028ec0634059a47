//! `busbar run`: starts a program so that it finds Busbar's libraries and, through them, a server.

use crate::opencl::{self, Loader};
use crate::reserve::{self, Reserved, Wanted};
use crate::servers::{Servers, Which};
use crate::signals::Signals;
use crate::waiting::Waiting;
use crate::{job, leases, program, status};
use anyhow::{Context, Result, bail};
use busbar_client::servers::Server;
use busbar_control::lease::SETTLE_TIME;
use busbar_control::{share, size};
use busbar_transport::rdma::ib::Choice;
use busbar_transport::rdma::{Settings, Wish};
use clap::builder::FalseyValueParser;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

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
    /// Have this much device memory promised to each process of the program, of one GPU, and no
    /// more: 16GiB, 512MiB
    #[arg(short, long, value_name = "SIZE", env = "BUSBAR_MEMORY", value_parser = size::parse)]
    memory: Option<u64>,
    /// Whether NCCL's collectives run at the servers, for ranks that talk to each other, as
    /// `torchrun` starts them: on or off. A program that wants a newer NCCL than 2.28 may not start
    /// with it [default: on for several GPUs, and for jobs]
    #[arg(long, value_name = "WHEN", env = "BUSBAR_NCCL", value_parser = nccl)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    nccl: Option<bool>,
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
    #[command(flatten)]
    which: reserve::Flags,
    /// Use what `busbar request` has reserved
    #[arg(long, value_name = "ID")]
    #[arg(conflicts_with_all = ["gpus", "filter", "spread", "pack", "wait"])]
    lease: Option<String>,
    #[command(flatten)]
    job: job::Flags,
    /// Go first: programs with a lower priority wait while this one has work, but for what they are
    /// promised
    #[arg(
        long,
        value_name = "N",
        env = "BUSBAR_PRIORITY",
        allow_hyphen_values = true
    )]
    priority: Option<i32>,
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
    command: Vec<OsString>,
}

/// Whether there are collectives.
fn nccl(text: &str) -> Result<bool, String> {
    match text {
        "on" | "1" | "true" | "yes" => Ok(true),
        "off" | "0" | "false" | "no" | "" => Ok(false),
        _ => Err("say on or off".into()),
    }
}

/// Which port: checked here, and read by the program's own Busbar.
fn rdma_device(text: &str) -> Result<String, String> {
    text.parse::<Choice>().map(|_| text.into())
}

/// Where the shims are.
pub(crate) struct Shims {
    /// The folder with `libcuda.so.1`.
    pub cuda: PathBuf,
    /// The OpenCL driver, when this tree has it.
    pub opencl: Option<PathBuf>,
    /// `libnccl.so.2`, likewise.
    pub nccl: Option<PathBuf>,
}

/// The folders of `LD_LIBRARY_PATH` that are not Busbar's own: it may have been set by
/// `busbar run` around this one.
pub(crate) fn other_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let cuda = shims().ok().map(|s| s.cuda);
    let ours = |d: &Path| cuda.as_deref() == Some(d) || opencl::holds_ours(d);
    let given = std::env::split_paths(&path).filter(|d| !d.as_os_str().is_empty());
    given.filter(|d| !ours(d)).collect()
}

/// Finds the shims: `BUSBAR_LIB_DIR`, or `../lib` of where this program lies.
pub(crate) fn shims() -> Result<Shims> {
    let lib = match std::env::var_os("BUSBAR_LIB_DIR") {
        Some(d) => PathBuf::from(d),
        None => {
            let exe = std::env::current_exe().context("cannot find out where busbar lies")?;
            let tree = exe.parent().and_then(Path::parent);
            tree.unwrap_or(Path::new("/")).join("lib")
        }
    };
    let lib = std::path::absolute(&lib).unwrap_or(lib);
    let cuda = lib.join("cuda");
    if !cuda.join("libcuda.so.1").exists() {
        bail!(
            "{} is missing: this tree of Busbar is not whole (`cargo xtask dist` makes one; \
             BUSBAR_LIB_DIR names its lib folder)",
            cuda.join("libcuda.so.1").display()
        );
    }
    let opencl = Some(lib.join("opencl/libbusbar_opencl.so")).filter(|p| p.exists());
    let nccl = Some(lib.join("nccl/libnccl.so.2")).filter(|p| p.exists());
    Ok(Shims { cuda, opencl, nccl })
}

/// The libraries to be loaded ahead of a program's: ours, and those that it was to have before.
fn preloads(ours: &Path) -> OsString {
    let before = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let before = before.to_string_lossy();
    let mut all = vec![ours.to_string_lossy()];
    // The loader takes both marks between names.
    let names = before.split([':', ' ']).filter(|n| !n.is_empty());
    all.extend(names.filter(|n| Path::new(n) != ours).map(Into::into));
    all.join(":").into()
}

impl Args {
    /// What is to be reserved, if anything is.
    fn wanted(&self) -> Result<Option<Wanted>> {
        let n = self.job.of_all(self.which.gpus);
        if !self.which.any() {
            return Ok(None);
        }
        let words: Vec<_> = self.command.iter().map(|w| w.to_string_lossy()).collect();
        let program = words.join(" ");
        let mut wanted = Wanted::new(n, self.memory, self.share, &self.which, program)?;
        if let Some(lease) = self.job.lease() {
            wanted.name = lease;
        }
        Ok(Some(wanted))
    }

    /// Looks whether a program that shares devices finds any.
    fn settle(&self, servers: &[String]) -> Result<()> {
        let part = self.memory.is_some() || self.share.is_some() || self.lease.is_some();
        // A program that has just ended gives back what it had in a moment.
        let deadline = Instant::now() + SETTLE_TIME;
        loop {
            match look(servers)? {
                Look::Good => return Ok(()),
                Look::Taken(_) if Instant::now() < deadline => {}
                Look::Not(_) if part && Instant::now() < deadline => {}
                Look::Taken(why) | Look::Not(why) => bail!("{why}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// `PATH` with the folder of this very program at its end, unless it finds one of that name.
fn with_ourselves() -> Option<OsString> {
    let folders = program::folders();
    if folders.iter().any(|d| d.join("busbar").is_file()) {
        return None;
    }
    let ours = std::env::current_exe().ok()?.parent()?.to_path_buf();
    std::env::join_paths(folders.into_iter().chain([ours])).ok()
}

/// Runs the program. Returns only when it could not be started.
pub fn run(mut a: Args) -> Result<()> {
    let part = a.memory.is_some() || a.share.is_some();
    let n = a.which.gpus;
    a.job.check(n, part, a.lease.is_some())?;
    let joins = a.job.joins() && a.lease.is_none();
    if joins {
        (a.lease, a.which.gpus) = (a.job.lease(), None);
    }
    if let Some(lease) = &a.lease {
        // SAFETY: there is no other thread yet.
        unsafe { std::env::set_var("BUSBAR_LEASE", lease) };
    }
    // What is reserved is chosen among all, as `busbar request` chooses.
    let which = match a.lease.is_some() || a.which.any() {
        true => Which::All,
        false => Which::Last,
    };
    let mut config = a.servers.known(which)?;
    config.priority = a.priority.unwrap_or(0);
    let servers = config.servers.clone();
    if servers.is_empty() {
        bail!(
            "say which server: --server HOST:PORT, or set BUSBAR_SERVER, or log in with the line \
             that it prints (`busbar login busbar://...`)"
        );
    }
    let log = std::env::var("BUSBAR_LOG").unwrap_or_default();
    if busbar_client::log::parse(&log).is_none() {
        bail!("BUSBAR_LOG={log}: say LEVEL or LEVEL:FILE, with error, warn, info, debug or off");
    }
    let rdma = Settings {
        wish: a.rdma.unwrap_or_default(),
        choice: a
            .rdma_device
            .as_deref()
            .unwrap_or("")
            .parse()
            .unwrap_or_default(),
        plain: a.rdma_plaintext,
    };
    if let (Wish::On, Err(why)) = (rdma.wish, rdma.port(None)) {
        bail!("--rdma on: {why}");
    }
    let shims = shims()?;
    let path = program::find(&a.command[0])?;
    let note = program::check(&path, 0)?;
    if let Some(bytes) = a.memory {
        // The libraries read it, and so do we when we ask what there is.
        // SAFETY: there is no other thread yet.
        unsafe { std::env::set_var("BUSBAR_MEMORY", format!("{}KiB", bytes.div_ceil(1024))) };
    }
    let parts = [
        ("BUSBAR_SHARE", a.share.map(share::show)),
        ("BUSBAR_PARTS", a.which.gpus.map(|n| n.to_string())),
        ("BUSBAR_PRIORITY", a.priority.map(|n| n.to_string())),
        ("BUSBAR_RDMA", a.rdma.map(|w| w.to_string())),
        ("BUSBAR_RDMA_DEVICE", a.rdma_device.clone()),
        (
            "BUSBAR_RDMA_PLAINTEXT",
            a.rdma_plaintext.then(|| "1".into()),
        ),
    ];
    for (name, value) in &parts {
        if let Some(value) = value {
            // SAFETY: as above.
            unsafe { std::env::set_var(name, value) };
        }
    }
    let wanted = if joins { None } else { a.wanted()? };
    // Before there are threads; a program that takes this process's place gets its own.
    let signals = wanted.is_some().then(Signals::hold).transpose()?;
    let waiting = Waiting::begin(format!("waiting for {}", servers.join(", ")));
    let reserved = match wanted {
        Some(wanted) => Some(reserve::reserve(&config, &wanted)?),
        None => None,
    };
    let mut held = match (&a.lease, &reserved) {
        (Some(lease), _) => {
            let held = match joins {
                true => a.job.wait(&config, n.unwrap_or(0), a.which.wait)?,
                false => leases::servers_of(&config, lease)?,
            };
            a.settle(&held)?;
            held
        }
        (_, Some(reserved)) => reserved.at.iter().map(|(s, _)| s.clone()).collect(),
        (None, None) => {
            a.settle(&servers)?;
            Vec::new()
        }
    };
    drop(waiting);
    let mut devices = None;
    // Where there may be ranks that talk to each other.
    let mut ranks = n.is_some_and(|n| n > 1) || a.job.any();
    if !held.is_empty() && !part && (n.is_some() || a.lease.is_some()) {
        let has = match &reserved {
            Some(r) => r.at.iter().map(|(s, d)| (s.clone(), d.len())).collect(),
            None => leases::counts(&config),
        };
        let has: Vec<_> = has;
        ranks |= has.iter().map(|(_, n)| n).sum::<usize>() > 1;
        // One of parts is drawn on session by session.
        if !has.is_empty() || a.job.node.is_some() {
            let order = servers.iter().filter(|s| held.contains(s));
            let order: Vec<_> = order.cloned().collect();
            let (at, own) = job::piece(&order, &has, a.job.node)?;
            devices = job::told(&at, &own, &has);
            held = at;
        }
    }
    if let Some(note) = note {
        eprintln!("busbar: {note}");
    }

    let mut c = Command::new(&a.command[0]);
    c.args(&a.command[1..]);
    if log.is_empty() {
        // The libraries live in the program and say nothing there unasked.
        c.env("BUSBAR_LOG", "lost");
    }
    // As it was said where there is more in it, for it may be nowhere else.
    if config
        .lines
        .iter()
        .all(|s| s.key.is_empty() && s.token.is_empty())
    {
        c.env("BUSBAR_SERVER", servers.join(","));
    }
    if !held.is_empty() && held.len() < servers.len() {
        // Of the others it has nothing.
        let of = held.iter().map(|l| {
            let known = config.lines.iter().find(|s| s.address == *l);
            let more = |s: &&Server| !s.key.is_empty() || !s.token.is_empty();
            let line = known.filter(more).map(|s| s.line());
            line.unwrap_or_else(|| l.clone())
        });
        c.env("BUSBAR_SERVER", of.collect::<Vec<_>>().join(","));
    }
    if let Some(devices) = devices {
        c.env("BUSBAR_DEVICES", devices);
    }
    if let Some(job) = &a.job.job {
        c.env("BUSBAR_JOB", job);
    }
    let mut dirs = other_folders();
    if let Some(driver) = &shims.opencl {
        c.env("OCL_ICD_VENDORS", opencl::vendors(driver)?);
        if !matches!(Loader::find(&dirs), Loader::Machine(_)) {
            dirs.insert(0, opencl::loader(driver)?);
        }
    }
    dirs.insert(0, shims.cuda.clone());
    c.env("LD_LIBRARY_PATH", std::env::join_paths(dirs)?);
    // Programs say where their own copy of NCCL lies, so that no path comes before it. That one
    // would not work here, with devices that are elsewhere. But a program that is made for a newer
    // one lacks functions with ours and would not start: where there is one rank, ours is left out.
    match (&shims.nccl, a.nccl) {
        (_, Some(false)) => drop(c.env("BUSBAR_NCCL", "0")),
        (None, Some(true)) => bail!("--nccl: this tree of Busbar has no lib/nccl/libnccl.so.2"),
        (Some(nccl), wanted) if wanted.unwrap_or(ranks) => {
            c.env("LD_PRELOAD", preloads(nccl)).env("BUSBAR_NCCL", "1");
        }
        _ => {}
    }
    if let Some(path) = with_ourselves() {
        c.env("PATH", path);
    }
    // Triton looks for the driver by itself, in the loader's cache first, where a driver may be
    // listed that is gone.
    c.env("TRITON_LIBCUDA_PATH", &shims.cuda);
    if joins {
        c.env_remove("BUSBAR_PARTS");
    }
    let (Some(signals), Some(reserved)) = (signals, reserved) else {
        // Nothing is left to do here: the program takes this process's place, and so its signals,
        // its terminal and its exit status are its own.
        return Err(program::not_started(&path, &c.exec()));
    };
    let Reserved {
        name,
        at,
        conns,
        news,
    } = reserved;
    // The lease says on how many devices it is.
    c.env("BUSBAR_LEASE", name).env_remove("BUSBAR_PARTS");
    // The lease ends with this process, so the program is told when this process is killed.
    // SAFETY: prctl is safe between fork and exec.
    unsafe {
        c.pre_exec(
            || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            },
        );
    }
    let started = signals.start(&mut c);
    let mut child = started.map_err(|e| program::not_started(&path, &e))?;
    job::watch(&at, conns.clone(), news);
    let status = child.wait()?;
    drop(conns);
    std::process::exit(
        status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
    );
}

/// Whether a program that shares devices finds any.
enum Look {
    Good,
    /// Others have all of them, or why there is none.
    Taken(String),
    Not(String),
}

/// Asks the servers what they have for a program: they say which devices it may share.
fn look(servers: &[String]) -> Result<Look> {
    let given = servers.join(",");
    let (mut devices, mut forbidden) = (Vec::new(), None);
    for s in servers {
        let said = status::ask(s)?;
        devices.extend(said.devices);
        forbidden = forbidden.or(said.forbidden);
    }
    if devices.iter().any(|d| d.yours) {
        return Ok(Look::Good);
    }
    if let Some(why) = forbidden {
        return Ok(Look::Not(why));
    }
    if devices.is_empty() {
        return Ok(Look::Not(format!(
            "{given} has no accelerator to offer; `busbar devices` shows what servers have"
        )));
    }
    let mut holders: Vec<_> = devices.into_iter().filter_map(|d| d.lease).collect();
    holders.dedup();
    Ok(match holders.join(", ") {
        who if who.is_empty() => Look::Not("the lease of this shell has ended: leave it".into()),
        who => Look::Taken(format!(
            "every accelerator of {given} is leased, to {who}; try again later"
        )),
    })
}
