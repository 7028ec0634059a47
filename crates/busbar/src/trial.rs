//! What a server costs: a few calls as a program makes them, through the very library that a
//! program gets, in a process of their own.

use crate::library::Library;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::ffi::c_void;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long all of it may take.
const MOST: Duration = Duration::from_secs(45);
/// A first copy between servers that takes so long has waited for a link in vain.
const SLOW: Duration = Duration::from_secs(2);
/// How long it takes at most to find out that there is none.
const FOUND_OUT: Duration = Duration::from_secs(20);
/// How often a call that waits is made.
const ROUNDS: usize = 50;
/// Bytes that are copied each way.
const BYTES: usize = 32 << 20;

/// Flags of the process that makes the calls. Not for people.
#[derive(clap::Args)]
pub struct Args {
    /// The library
    library: PathBuf,
    /// Copies from the first device to this one, instead of calls
    #[arg(long)]
    to: Option<i32>,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// How long a call takes that waits for its answer, in us: the median.
    pub round_trip_us: f64,
    /// Bytes a second to the device.
    pub up: f64,
    /// And back.
    pub down: f64,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gib = f64::from(1 << 30);
        write!(
            f,
            "a call that waits for its answer takes {:.2} ms; 1 GiB takes {:.1} s to the device \
             ({:.2} GB/s) and {:.1} s back ({:.2} GB/s)",
            self.round_trip_us / 1e3,
            gib / self.up,
            self.up / 1e9,
            gib / self.down,
            self.down / 1e9,
        )
    }
}

/// What a copy from one server to another costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Across {
    /// How long a copy of one word takes, in us: the median.
    pub round_trip_us: f64,
    /// Bytes a second.
    pub rate: f64,
    /// Whether they go straight, and not through this machine.
    #[serde(default)]
    pub straight: bool,
    /// Why not.
    #[serde(default, skip)]
    pub why: String,
}

impl std::fmt::Display for Across {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.straight, self.why.as_str()) {
            (true, _) => write!(f, "copies go straight")?,
            (_, "") => write!(f, "copies go through this machine")?,
            (_, why) => write!(f, "copies go through this machine: {why}")?,
        }
        let (ms, gib) = (self.round_trip_us / 1e3, f64::from(1 << 30) / self.rate);
        let rate = self.rate / 1e9;
        write!(
            f,
            "; a small one takes {ms:.2} ms, 1 GiB {gib:.1} s ({rate:.2} GB/s)"
        )
    }
}

/// Makes the calls at a server, named as `BUSBAR_SERVER` has it.
pub fn cost(server: &str, library: &Path) -> Result<Cost> {
    let (said, _) = child(server, library, None)?;
    serde_json::from_slice(&said).context("test calls at the server say nothing")
}

/// Copies between two servers, from the first device to another.
pub fn across(servers: &str, library: &Path, to: usize) -> Result<Across> {
    let (said, log) = child(servers, library, Some(to))?;
    let cost: Across =
        serde_json::from_slice(&said).context("test copies between the servers say nothing")?;
    let why = log.lines().find_map(|l| {
        let (_, why) = l.split_once("go through this machine: ")?;
        Some(why.trim().to_string())
    });
    Ok(Across {
        straight: log.contains("go straight"),
        why: why.unwrap_or_default(),
        ..cost
    })
}

/// Runs the calls in a process of their own: what it prints, and what the library says.
fn child(server: &str, library: &Path, to: Option<usize>) -> Result<(Vec<u8>, String)> {
    let mut c = Command::new(std::env::current_exe()?);
    c.arg("calls").arg(library);
    let log = match to {
        Some(to) => {
            c.arg("--to").arg(to.to_string());
            "info"
        }
        None => "error",
    };
    c.env("BUSBAR_SERVER", server).env("BUSBAR_LOG", log);
    for hides in ["CUDA_VISIBLE_DEVICES", "LD_PRELOAD"] {
        c.env_remove(hides);
    }
    let Some(out) = ended(&mut c, MOST)? else {
        bail!("test calls at the server have no end: it answers, but does not get on");
    };
    if !out.status.success() {
        bail!("test calls at the server fail: {}", last_words(&out));
    }
    let log = String::from_utf8_lossy(&out.stderr).into_owned();
    Ok((out.stdout, log))
}

/// Runs a command, and hears what it prints; `None` if it does not end in that time.
pub fn ended(c: &mut Command, most: Duration) -> Result<Option<Output>> {
    c.stdin(Stdio::null());
    let mut child = c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (out, err) = (hear(child.stdout.take()), hear(child.stderr.take()));
    let end = Instant::now() + most;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() > end => {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    Ok(Some(Output {
        status,
        stdout: out.join().unwrap_or_default(),
        stderr: err.join().unwrap_or_default(),
    }))
}

/// Reads all of a pipe, whose writer would wait once it is full.
fn hear(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut all);
        }
        all
    })
}

/// What a command of ours has said last of why it fails; libraries may say things behind it.
pub fn last_words(out: &Output) -> String {
    let said = String::from_utf8_lossy(&out.stderr);
    let ours = said.lines().rfind(|l| l.starts_with("busbar: "));
    let last = ours.or_else(|| said.lines().rfind(|l| !l.trim().is_empty()));
    last.unwrap_or("nothing is said of why").to_string()
}

/// How long something takes, in us: the median of some times.
fn median(mut does: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        does()?;
        rounds.push(start.elapsed());
    }
    rounds.sort_unstable();
    Ok(rounds[ROUNDS / 2].as_secs_f64() * 1e6)
}

/// The process that makes the calls.
pub fn run(a: &Args) -> Result<()> {
    type Handle = *mut c_void;
    let l = Library::open(&a.library)?;
    let done = |what: &str, rc: i32| match rc {
        0 => Ok(()),
        rc => bail!("{what} fails with error {rc}"),
    };
    // SAFETY: the signatures are those of the driver's API; every pointer is to a live place that
    // is as large as it is said to be.
    unsafe {
        let init: unsafe extern "C" fn(u32) -> i32 = l.function(c"cuInit")?;
        let retain: unsafe extern "C" fn(*mut Handle, i32) -> i32 =
            l.function(c"cuDevicePrimaryCtxRetain")?;
        let current: unsafe extern "C" fn(Handle) -> i32 = l.function(c"cuCtxSetCurrent")?;
        let alloc: unsafe extern "C" fn(*mut u64, usize) -> i32 = l.function(c"cuMemAlloc_v2")?;
        let up: unsafe extern "C" fn(u64, *const c_void, usize) -> i32 =
            l.function(c"cuMemcpyHtoD_v2")?;
        let down: unsafe extern "C" fn(*mut c_void, u64, usize) -> i32 =
            l.function(c"cuMemcpyDtoH_v2")?;
        let peer: unsafe extern "C" fn(u64, Handle, u64, Handle, usize) -> i32 =
            l.function(c"cuMemcpyPeer")?;
        let settle: unsafe extern "C" fn() -> i32 = l.function(c"cuCtxSynchronize")?;
        let (mut context, mut at) = (std::ptr::null_mut(), 0);
        let mut bytes: Vec<u8> = (0..BYTES).map(|i| (i >> 12) as u8).collect();
        done("cuInit", init(0))?;
        done("cuDevicePrimaryCtxRetain", retain(&raw mut context, 0))?;
        done("cuCtxSetCurrent", current(context))?;
        done("cuMemAlloc", alloc(&raw mut at, BYTES))?;
        let copy_up = |bytes: &[u8]| -> Result<()> {
            done("cuMemcpyHtoD", up(at, bytes.as_ptr().cast(), bytes.len()))?;
            done("cuCtxSynchronize", settle())
        };
        let copy_down = |bytes: &mut [u8]| {
            let rc = down(bytes.as_mut_ptr().cast(), at, bytes.len());
            done("cuMemcpyDtoH", rc)
        };
        if let Some(to) = a.to {
            let (mut other, mut there) = (std::ptr::null_mut(), 0);
            done("cuDevicePrimaryCtxRetain", retain(&raw mut other, to))?;
            done("cuCtxSetCurrent", current(other))?;
            done("cuMemAlloc", alloc(&raw mut there, BYTES))?;
            let copy = |bytes: usize| -> Result<()> {
                done("cuMemcpyPeer", peer(there, other, at, context, bytes))?;
                done("cuCtxSynchronize", settle())
            };
            let start = Instant::now();
            copy(1 << 20)?;
            if start.elapsed() > SLOW {
                std::thread::sleep(FOUND_OUT);
            }
            let round_trip_us = median(|| copy(4))?;
            let start = Instant::now();
            copy(BYTES)?;
            let cost = Across {
                round_trip_us,
                rate: BYTES as f64 / start.elapsed().as_secs_f64().max(1e-9),
                straight: false,
                why: String::new(),
            };
            println!("{}", serde_json::to_string(&cost)?);
            return Ok(());
        }
        // The first ones find everything cold.
        copy_up(&bytes[..1 << 20])?;
        let mut word = [0; 4];
        let round_trip_us = median(|| copy_down(&mut word))?;
        let rate = |start: Instant| BYTES as f64 / start.elapsed().as_secs_f64().max(1e-9);
        let start = Instant::now();
        copy_up(&bytes)?;
        let up = rate(start);
        let sent = bytes.clone();
        let start = Instant::now();
        copy_down(&mut bytes)?;
        let down = rate(start);
        if bytes != sent {
            bail!("what comes back from the device is not what was sent there");
        }
        let cost = Cost {
            round_trip_us,
            up,
            down,
        };
        println!("{}", serde_json::to_string(&cost)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_said_in_what_a_program_notices() {
        let cost = Cost {
            round_trip_us: 170.0,
            up: 0.5e9,
            down: 1.25e9,
        };
        assert_eq!(
            cost.to_string(),
            "a call that waits for its answer takes 0.17 ms; 1 GiB takes 2.1 s to the device \
             (0.50 GB/s) and 0.9 s back (1.25 GB/s)"
        );
    }
}
