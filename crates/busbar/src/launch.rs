//! `busbar run`: starts a program so that it finds Busbar's libraries and, through them, a server.

use crate::opencl::{self, Loader};
use crate::{login, program, status};
use anyhow::{Context, Result, bail};
use busbar_client::config::Config;
use busbar_client::hello;
use busbar_control::hello::{Hello, Intent};
use busbar_control::size;
use busbar_control::status::Grant;
use busbar_transport::Connection;
use busbar_transport::tcp::Address;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a part is waited for that is promised to others.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// Flags of `busbar run`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar run -- python train.py                             # share a GPU
  busbar run --server gpu-host --gpus 2 -- python train.py  # have two to oneself
  busbar run -m 16GiB -- python train.py                    # have a part of one, and no more
  BUSBAR_SERVER=gpu-host busbar run -- bash                 # a shell whose programs see the GPU
  BUSBAR_STATS=1 busbar run -- ./program                    # what was called, and what waited
  BUSBAR_LOG=warn busbar run -- ./program                   # what was refused, and why")]
pub struct Args {
    /// Server whose accelerators the program uses; several with commas, side by side
    /// [default: the one of the last `busbar login`]
    #[arg(long, value_name = "HOST:PORT", env = "BUSBAR_SERVER")]
    server: Option<String>,
    /// Talk in clear to servers whose key is not known: everybody on the way reads and changes it
    #[arg(long)]
    plaintext: bool,
    /// Reserve N whole GPUs for this program; without it the program shares those that are free
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    gpus: Option<u32>,
    /// Have this much device memory promised to each process of the program, of one GPU, and no
    /// more: 16GiB, 512MiB
    #[arg(short, long, value_name = "SIZE", env = "BUSBAR_MEMORY", value_parser = size::parse)]
    #[arg(conflicts_with = "gpus")]
    memory: Option<u64>,
    /// The program and its arguments; `bash` gives a shell whose programs see the accelerators
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Where the shims are.
pub(crate) struct Shims {
    /// The folder with `libcuda.so.1`.
    pub cuda: PathBuf,
    /// The OpenCL driver, when this tree has it.
    pub opencl: Option<PathBuf>,
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
    Ok(Shims { cuda, opencl })
}

/// Runs the program. Returns only when it could not be started.
pub fn run(a: Args) -> Result<()> {
    let config = login::choose(a.server.as_deref(), a.plaintext, false)?;
    let servers = config.servers.clone();
    if servers.is_empty() {
        bail!(
            "say which server: --server HOST:PORT, or set BUSBAR_SERVER, or log in with the line \
             that it prints (`busbar login busbar://...`)"
        );
    }
    // The libraries live in the program and complain of nothing there.
    if let Ok(v) = std::env::var("BUSBAR_LOG")
        && busbar_client::log::parse(&v).is_none()
    {
        bail!("BUSBAR_LOG={v}: say LEVEL or LEVEL:FILE, with error, warn, info or debug");
    }
    let shims = shims()?;
    let path = program::find(&a.command[0])?;
    let note = program::check(&path, 0)?;
    if let Some(bytes) = a.memory {
        // The libraries read it, and so do we when we ask what there is.
        // SAFETY: there is no other thread yet.
        unsafe { std::env::set_var("BUSBAR_MEMORY", format!("{}KiB", bytes.div_ceil(1024))) };
    }
    // A program that has just ended gives its part back in a moment.
    let deadline = Instant::now() + SETTLE_TIME;
    while let Err(e) = look(&servers, a.gpus.is_none()) {
        if a.memory.is_none() || Instant::now() > deadline {
            return Err(e);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    if let Some(note) = note {
        eprintln!("busbar: {note}");
    }
    let lease = match a.gpus {
        None => None,
        Some(n) => Some(reserve(&config, &servers[0], n, &a.command)?),
    };

    let mut c = Command::new(&a.command[0]);
    c.args(&a.command[1..]);
    // As it was said where there is more in it, for it may be nowhere else.
    if config
        .lines
        .iter()
        .all(|s| s.key.is_empty() && s.token.is_empty())
    {
        c.env("BUSBAR_SERVER", servers.join(","));
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
    // Triton looks for the driver by itself, in the loader's cache first, where a driver may be
    // listed that is gone.
    c.env("TRITON_LIBCUDA_PATH", &shims.cuda);
    let Some((lease, _conn)) = lease else {
        // Nothing is left to do here: the program takes this process's place, and so its signals,
        // its terminal and its exit status are its own.
        return Err(program::not_started(&path, &c.exec()));
    };
    c.env("BUSBAR_LEASE", lease);
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
    let mut child = c.spawn().map_err(|e| program::not_started(&path, &e))?;
    // The terminal signals the whole group; the program decides what to make of it.
    // SAFETY: ignoring a signal has no preconditions.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGQUIT, libc::SIG_IGN);
    }
    let status = child.wait()?;
    std::process::exit(
        status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
    );
}

/// Fails unless the servers have devices, of which a program that shares them finds one: the
/// servers say which those are.
fn look(servers: &[String], shares: bool) -> Result<()> {
    let given = servers.join(",");
    let (mut devices, mut forbidden) = (Vec::new(), None);
    for s in servers {
        let said = status::ask(s)?;
        devices.extend(said.devices);
        forbidden = forbidden.or(said.forbidden);
    }
    if let Some(why) = forbidden.filter(|_| !devices.iter().any(|d| d.yours)) {
        bail!("{why}");
    }
    if devices.is_empty() {
        bail!("{given} has no accelerator to offer; `busbar devices` shows what servers have");
    }
    if shares && !devices.iter().any(|d| d.yours) {
        let mut holders: Vec<_> = devices.into_iter().filter_map(|d| d.lease).collect();
        holders.dedup();
        match holders.join(", ") {
            who if who.is_empty() => bail!("the lease of this shell has ended: leave it"),
            who => bail!("every accelerator of {given} is leased, to {who}; try again later"),
        }
    }
    Ok(())
}

/// Reserves GPUs; the lease lasts as long as the connection.
fn reserve(
    config: &Config,
    server: &str,
    n: u32,
    command: &[OsString],
) -> Result<(String, Arc<dyn Connection>)> {
    let mut h =
        hello::introduce(config, server, Hello::new(Intent::Lease)).map_err(anyhow::Error::msg)?;
    h.devices = n;
    // Who waits for the devices is to read what holds them.
    let words: Vec<_> = command.iter().map(|w| w.to_string_lossy()).collect();
    h.client.program = words.join(" ").chars().take(120).collect();
    let route = config
        .route(Address::new(server))
        .map_err(anyhow::Error::msg)?;
    match hello::connect(&route, &h, config.connect_timeout) {
        Ok((conn, w)) => {
            let grant: Grant = w.read(server).map_err(anyhow::Error::msg)?;
            Ok((grant.lease, conn))
        }
        Err(e) => bail!("{e}"),
    }
}
