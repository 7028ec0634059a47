//! NCCL's ring over the GPUs of servers. It is an ordinary job of `busbar run`, whose ranks are
//! this very program: what is measured is what jobs have, with their workers, cells, sockets and
//! adapters.
//!
//! Three processes deep: [`measure`] has `busbar run` reserve the GPUs, that starts `busbar ring`,
//! which starts itself as each rank, as a launcher does, and takes the name that the first rank has
//! got from NCCL to the others.

use crate::complaint;
use crate::library::Library;
use crate::program;
use crate::servers::{self, told};
use crate::trial::{ended, last_words};
use anyhow::{Context, Result, bail};
use busbar_client::config::Config;
use busbar_control::size;
use busbar_control::text::to_hex;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, c_char, c_void};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long all of one ring may take.
const MOST: Duration = Duration::from_secs(120);
/// Reductions before anything is measured: NCCL connects its ranks in the first.
const COLD: u32 = 3;
/// Most reductions that are measured.
const ROUNDS: u32 = 10_000;
/// What the job says once its ranks are started; what fails before that was refused.
const BEGUN: &str = "begun";
/// What a line of a rank's begins with, as NCCL says things on the same output (NCCL_DEBUG).
const MARK: &str = "ring: ";

/// Flags of the processes that reduce bytes. Not for people.
#[derive(clap::Args)]
pub struct Args {
    /// How many ranks
    #[arg(long)]
    ranks: u32,
    /// The one that this process is; without it all are started
    #[arg(long)]
    rank: Option<u32>,
    /// What the job is called
    #[arg(long, default_value = "")]
    job: String,
    /// Bytes that are reduced at a time
    #[arg(long)]
    bytes: usize,
    /// How long is measured, in ms
    #[arg(long)]
    ms: u32,
}

/// What a ring has done, over the servers that are named.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ring {
    /// Each rank's server.
    pub servers: Vec<String>,
    /// How it goes from server to server, as `busbar ps` has it: `ib`, `socket`; empty within one.
    pub network: String,
    /// Bytes that are reduced at a time.
    pub bytes: u64,
    /// How long that takes, in us.
    pub time_us: Option<f64>,
    /// What each rank sends meanwhile, in Gb/s: what NCCL's tests call bus bandwidth.
    pub bus_gbps: Option<f64>,
    /// What the slowest port of these servers can do, where each has one.
    pub line_gbps: Option<f64>,
    /// Words whose sum was wrong.
    pub wrong: u64,
    /// Why it was not run.
    pub refused: Option<String>,
    /// Why it failed.
    pub why_not: Option<String>,
}

impl Ring {
    /// Its servers, each once.
    pub fn names(&self) -> String {
        let mut names = self.servers.clone();
        names.dedup();
        names.join(", ")
    }
}

/// What a rank says at its end.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Ran {
    ns: u64,
    wrong: u64,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Amount {
    /// Bytes at a time.
    pub bytes: u64,
    /// How long, in ms.
    pub ms: u32,
}

/// Runs a ring over so many GPUs, of as many of these servers as possible.
pub fn measure(config: &Config, servers: &[&str], gpus: usize, amount: Amount) -> Ring {
    let mut ring = Ring {
        servers: servers.iter().map(ToString::to_string).collect(),
        bytes: amount.bytes,
        ..Ring::default()
    };
    let (begun, said) = match job(config, servers, gpus, amount) {
        Ok(done) => done,
        Err(e) => (true, Err(format!("{e:#}"))),
    };
    match said {
        Ok(ran) if ran.servers.is_empty() => {
            ring = Ring {
                servers: ring.servers,
                ..ran
            }
        }
        // Others have what there is at a server, so there were two ranks at another.
        Ok(ran) if let Some(none) = ring.servers.iter().find(|s| !ran.servers.contains(s)) => {
            ring.refused = Some(format!("{none} has no GPU that is free"));
        }
        Ok(ran) => ring = ran,
        Err(why) if begun => ring.why_not = Some(why),
        Err(why) => ring.refused = Some(why),
    }
    ring
}

/// Whether the job has begun, and what it says or why it says nothing.
type Said = (bool, Result<Ring, String>);

fn job(config: &Config, servers: &[&str], gpus: usize, amount: Amount) -> Result<Said> {
    let ourselves = std::env::current_exe()?;
    let job = format!("fabric-check-{}", std::process::id());
    let gpus = gpus.to_string();
    let mut c = Command::new(&ourselves);
    c.args([
        "run",
        "--nccl=on",
        "--spread",
        "--job",
        &job,
        "-n",
        &gpus,
        "--",
    ]);
    c.arg(&ourselves).args(["ring", "--job", &job]);
    c.args(["--ranks", &gpus, "--bytes", &amount.bytes.to_string()]);
    c.args(["--ms", &amount.ms.to_string()]);
    let named: Vec<_> = servers.iter().map(|s| told(config, s)).collect();
    c.env("BUSBAR_SERVER", named.join(","));
    for other in [
        "CUDA_VISIBLE_DEVICES",
        "LD_PRELOAD",
        "BUSBAR_LEASE",
        "BUSBAR_PARTS",
        "BUSBAR_MEMORY",
        "BUSBAR_SHARE",
    ] {
        c.env_remove(other);
    }
    let Some(out) = ended(&mut c, MOST)? else {
        bail!("it has no end: NCCL waits for a rank that it does not reach");
    };
    if std::env::var_os("NCCL_DEBUG").is_some() {
        std::io::stderr().write_all(&out.stderr)?;
    }
    let said = String::from_utf8_lossy(&out.stdout);
    let (begun, rest) = said.split_once('\n').unwrap_or((&said, ""));
    let ring = match out.status.success() {
        true => serde_json::from_str(rest).map_err(|e| format!("its ranks say nothing: {e}")),
        false => {
            let last = last_words(&out);
            Err(last.trim_start_matches("busbar: ").to_string())
        }
    };
    Ok((begun == BEGUN, ring))
}

/// The job, or one of its ranks.
pub fn run(a: &Args) -> Result<()> {
    match a.rank {
        Some(rank) => self::rank(a, rank),
        None => launch(a),
    }
}

/// The ranks, as the process that has started them sees them.
struct Ranks {
    all: Vec<Child>,
    /// Lines that they say; none at a rank's end.
    says: Receiver<Option<String>>,
}

impl Ranks {
    fn start(a: &Args) -> Result<Self> {
        let (say, says) = channel();
        let mut all = Vec::new();
        for rank in 0..a.ranks {
            let mut child = command(a, rank)?.spawn()?;
            let out = child.stdout.take().context("a rank has no output")?;
            let say = say.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    match line.strip_prefix(MARK) {
                        Some(line) => drop(say.send(Some(line.into()))),
                        None => complaint::line(line),
                    }
                }
                let _ = say.send(None);
            });
            all.push(child);
        }
        Ok(Self { all, says })
    }

    /// The next line of any rank. None may end before it is told to.
    fn next(&self) -> Result<String> {
        // It has said why itself, on the stderr that all have, and nothing goes on without it.
        let ended = || std::process::exit(1);
        Ok(self.says.recv()?.unwrap_or_else(ended))
    }

    fn hear(&mut self, line: &str) -> Result<()> {
        for rank in &mut self.all[1..] {
            let to = rank.stdin.as_mut().context("a rank has no input")?;
            writeln!(to, "{line}")?;
        }
        Ok(())
    }

    /// They may end now, all at once: in NCCL each waits for the others.
    fn end(mut self) -> Result<()> {
        for rank in &mut self.all {
            drop(rank.stdin.take());
        }
        for mut rank in self.all {
            rank.wait()?;
        }
        Ok(())
    }
}

/// A rank, told which one it is as launchers do, that ends with this process.
fn command(a: &Args, rank: u32) -> Result<Command> {
    let (ranks, number) = (a.ranks.to_string(), rank.to_string());
    let mut c = Command::new(std::env::current_exe()?);
    c.args(["ring", "--ranks", &ranks, "--rank", &number]);
    c.args(["--bytes", &a.bytes.to_string(), "--ms", &a.ms.to_string()]);
    for name in ["RANK", "LOCAL_RANK"] {
        c.env(name, &number);
    }
    for name in ["WORLD_SIZE", "LOCAL_WORLD_SIZE"] {
        c.env(name, &ranks);
    }
    program::told_of_our_end(&mut c, libc::SIGKILL);
    c.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(c)
}

fn launch(a: &Args) -> Result<()> {
    let mut ranks = Ranks::start(a)?;
    println!("{BEGUN}");
    let name = ranks.next()?;
    ranks.hear(&name)?;
    let mut all = Ran::default();
    for _ in 0..a.ranks {
        let ran: Ran = serde_json::from_str(&ranks.next()?)?;
        all.ns = all.ns.max(ran.ns);
        all.wrong += ran.wrong;
    }
    // They are still there, to be asked for.
    let (servers, network) = places(&a.job);
    let across = servers.iter().any(|s| *s != servers[0]);
    let (bytes, n) = (a.bytes as f64, f64::from(a.ranks));
    let ring = Ring {
        servers,
        network: network.filter(|_| across).unwrap_or_default(),
        bytes: a.bytes as u64,
        time_us: Some(all.ns as f64 / 1e3),
        bus_gbps: Some(8.0 * bytes / all.ns.max(1) as f64 * 2.0 * (n - 1.0) / n),
        wrong: all.wrong,
        ..Ring::default()
    };
    println!("{}", serde_json::to_string(&ring)?);
    ranks.end()
}

/// Where a job's ranks are, and how they reach each other.
fn places(job: &str) -> (Vec<String>, Option<String>) {
    let mut ranks = Vec::new();
    for (server, status) in servers::ask(&Config::from_env(), &[]) {
        let sessions = status.map(|s| s.sessions).unwrap_or_default();
        for s in sessions {
            let of = s.job.as_ref().filter(|j| j.name == job);
            if let Some(rank) = of.and_then(|j| j.rank) {
                ranks.push((rank, server.clone(), s.network));
            }
        }
    }
    ranks.sort();
    let network = ranks.first().map(|(_, _, network)| network.clone());
    (ranks.into_iter().map(|(_, s, _)| s).collect(), network)
}

type Handle = *mut c_void;
/// What NCCL calls a unique id.
#[derive(Clone, Copy)]
#[repr(C)]
struct Name([u8; 128]);

impl Name {
    fn shown(&self) -> String {
        to_hex(&self.0)
    }

    fn read(text: &str) -> Option<Self> {
        let mut name = [0; 128];
        for (i, byte) in name.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
        }
        Some(Self(name))
    }
}

const FLOAT: i32 = 7;
const DOUBLE: i32 = 8;
const SUM: i32 = 0;
const MAX: i32 = 2;

/// One rank: it sums floats that are 1, for so long as all ranks agree on.
fn rank(a: &Args, rank: u32) -> Result<()> {
    let cuda = Library::open(Path::new("libcuda.so.1"))?;
    let nccl = Library::open(Path::new("libnccl.so.2"))?;
    let count = (a.bytes / 4).max(1);
    let bytes = 4 * count;
    // SAFETY: the signatures are those of the driver's API and of NCCL; every pointer is to a live
    // place that is as large as it is said to be.
    unsafe {
        let error: unsafe extern "C" fn(Handle) -> *const c_char =
            nccl.function(c"ncclGetLastError")?;
        let done = |what: &str, rc: i32| match rc {
            0 => Ok(()),
            rc if what.starts_with("nccl") => {
                let why = CStr::from_ptr(error(std::ptr::null_mut())).to_string_lossy();
                match why.trim() {
                    "" => bail!("{what} fails with error {rc}"),
                    why => bail!("{what} fails: {why}"),
                }
            }
            rc => bail!("{what} fails with error {rc}"),
        };
        let init: unsafe extern "C" fn(u32) -> i32 = cuda.function(c"cuInit")?;
        let retain: unsafe extern "C" fn(*mut Handle, i32) -> i32 =
            cuda.function(c"cuDevicePrimaryCtxRetain")?;
        let current: unsafe extern "C" fn(Handle) -> i32 = cuda.function(c"cuCtxSetCurrent")?;
        let alloc: unsafe extern "C" fn(*mut u64, usize) -> i32 =
            cuda.function(c"cuMemAlloc_v2")?;
        let fill: unsafe extern "C" fn(u64, u32, usize) -> i32 =
            cuda.function(c"cuMemsetD32_v2")?;
        let up: unsafe extern "C" fn(u64, *const c_void, usize) -> i32 =
            cuda.function(c"cuMemcpyHtoD_v2")?;
        let down: unsafe extern "C" fn(*mut c_void, u64, usize) -> i32 =
            cuda.function(c"cuMemcpyDtoH_v2")?;
        let settle: unsafe extern "C" fn() -> i32 = cuda.function(c"cuCtxSynchronize")?;
        let name_of: unsafe extern "C" fn(*mut Name) -> i32 = nccl.function(c"ncclGetUniqueId")?;
        let join: unsafe extern "C" fn(*mut Handle, i32, Name, i32) -> i32 =
            nccl.function(c"ncclCommInitRank")?;
        let reduce: unsafe extern "C" fn(u64, u64, usize, i32, i32, Handle, Handle) -> i32 =
            nccl.function(c"ncclAllReduce")?;
        let leave: unsafe extern "C" fn(Handle) -> i32 = nccl.function(c"ncclCommDestroy")?;

        let (mut context, mut from, mut to) = (std::ptr::null_mut(), 0, 0);
        done("cuInit", init(0))?;
        done(
            "cuDevicePrimaryCtxRetain",
            retain(&raw mut context, rank as i32),
        )?;
        done("cuCtxSetCurrent", current(context))?;
        done("cuMemAlloc", alloc(&raw mut from, bytes))?;
        done("cuMemAlloc", alloc(&raw mut to, bytes.max(8)))?;
        done("cuMemsetD32", fill(from, 1f32.to_bits(), count))?;

        let mut name = Name([0; 128]);
        if rank == 0 {
            done("ncclGetUniqueId", name_of(&raw mut name))?;
            println!("{MARK}{}", name.shown());
        } else {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line)?;
            name = Name::read(&line).context("the first rank has said no name")?;
        }
        let (mut comm, none) = (std::ptr::null_mut(), std::ptr::null_mut());
        let ranks = a.ranks as i32;
        let joined = join(&raw mut comm, ranks, name, rank as i32);
        done("ncclCommInitRank", joined)?;
        let sum = || {
            let rc = reduce(from, to, count, FLOAT, SUM, comm, none);
            done("ncclAllReduce", rc)
        };
        let timed = |rounds: u32| -> Result<Duration> {
            let start = Instant::now();
            for _ in 0..rounds {
                sum()?;
            }
            done("cuCtxSynchronize", settle())?;
            Ok(start.elapsed() / rounds)
        };
        timed(COLD)?;
        // As many rounds as all do: the slowest decides.
        let mut each = timed(COLD)?.as_secs_f64();
        done("cuMemcpyHtoD", up(to, (&raw const each).cast(), 8))?;
        let rc = reduce(to, to, 1, DOUBLE, MAX, comm, none);
        done("ncclAllReduce", rc)?;
        done("cuMemcpyDtoH", down((&raw mut each).cast(), to, 8))?;
        let rounds = f64::from(a.ms) / 1e3 / each.max(1e-9);
        let time = timed((rounds as u32).clamp(1, ROUNDS))?;

        let mut sums = vec![0f32; count];
        done("cuMemcpyDtoH", down(sums.as_mut_ptr().cast(), to, bytes))?;
        let wrong = sums.iter().filter(|s| **s != a.ranks as f32).count() as u64;
        let ns = time.as_nanos() as u64;
        println!("{MARK}{}", serde_json::to_string(&Ran { ns, wrong })?);
        // Until everybody has been asked for.
        let _ = std::io::stdin().read_line(&mut String::new());
        done("ncclCommDestroy", leave(comm))
    }
}

/// What `--ring` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// No ring.
    Off,
    /// One of so many bytes at a time.
    Bytes(u64),
}

impl std::str::FromStr for Wish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let most = 1 << 34;
        match size::parse(text) {
            Ok(n) if (4..=most).contains(&n) => Ok(Self::Bytes(n)),
            _ => Err(format!(
                "`{text}` is neither a size, up to {}, nor `off`",
                size::show(most)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_it_is_shown_as() {
        let mut name = Name([0; 128]);
        name.0.iter_mut().zip(0..).for_each(|(b, i)| *b = i * 2);
        assert_eq!(Name::read(&name.shown()).map(|n| n.0), Some(name.0));
        assert!(Name::read("00ff").is_none());
        assert!(Name::read(&"zz".repeat(128)).is_none());
    }

    #[test]
    fn a_ring_has_a_size_or_is_off() {
        assert_eq!("off".parse(), Ok(Wish::Off));
        assert_eq!("1MiB".parse(), Ok(Wish::Bytes(1 << 20)));
        for bad in ["", "on", "0", "1TiB"] {
            let why = bad.parse::<Wish>().unwrap_err();
            assert!(why.contains("16 GiB") || why.contains("16.0 GiB"), "{why}");
        }
    }
}
