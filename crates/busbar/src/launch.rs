//! `busbar run`: starts a program so that it finds Busbar's libraries and, through them, a server.

mod args;
mod devices;
mod libraries;

pub use args::Args;
pub(crate) use libraries::{other_folders, preload_none_of_ours, shims, show};

use crate::complaint::complain;
use crate::reserve::Reserved;
use crate::signals::Signals;
use crate::waiting::Waiting;
use crate::{job, program};
use anyhow::Result;
use busbar_client::config::Config;
use devices::Devices;
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Runs the program. Returns only when it could not be started.
pub fn run(a: Args) -> Result<()> {
    a.job.check(a.which.gpus, a.part(), a.lease.is_some())?;
    let config = a.settings()?;
    a.check()?;
    // A tree that is not whole is said to be that, before anything is asked for.
    let shims = shims()?;
    let path = program::find_in(&a.command[0], libraries::folders(&shims.cuda))?;
    let note = program::check(&path, 0)?;
    let wanted = a.wanted()?;
    // Before there are threads; a program that takes this process's place gets its own.
    let signals = wanted.is_some().then(Signals::hold).transpose()?;
    let waiting = Waiting::begin(format!("waiting for {}", config.servers.join(", ")));
    let devices = devices::find(&a, &config, wanted)?;
    drop(waiting);
    if let Some(note) = note {
        complain(note);
    }
    let mut c = command(&a, &config, &devices)?;
    let (Some(signals), Some(reserved)) = (signals, devices.reserved) else {
        // Nothing is left to do here: the program takes this process's place, and so its signals,
        // its terminal and its exit status are its own.
        return Err(program::not_started(&path, &c.exec()));
    };
    stay(&path, &mut c, signals, reserved)
}

/// The program with all that it finds in its environment.
fn command(a: &Args, config: &Config, devices: &Devices) -> Result<Command> {
    let mut c = Command::new(&a.command[0]);
    c.args(&a.command[1..]);
    if std::env::var_os("BUSBAR_LOG").is_none_or(|log| log.is_empty()) {
        // The libraries live in the program and say nothing there unasked.
        c.env("BUSBAR_LOG", "lost");
    }
    if std::io::stderr().is_terminal() && std::env::var_os("BUSBAR_PROGRESS").is_none() {
        c.env("BUSBAR_PROGRESS", "1");
    }
    c.env("BUSBAR_SERVER", devices.servers(config));
    // What a run around this one has said is of other devices.
    for (name, value) in [
        ("BUSBAR_DEVICES", devices.own.clone()),
        ("BUSBAR_DRAWN", devices.drawn.then(|| "1".into())),
    ] {
        match value {
            Some(value) => c.env(name, value),
            None if devices.reserved.is_some() || a.leased() => c.env_remove(name),
            None => &mut c,
        };
    }
    if let Some(job) = &a.job.job {
        c.env("BUSBAR_JOB", job);
    }
    if let Some(reserved) = &devices.reserved {
        // The lease says on how many devices it is.
        c.env("BUSBAR_LEASE", &reserved.name);
    }
    if devices.reserved.is_some() || a.joins() {
        c.env_remove("BUSBAR_PARTS");
    }
    libraries::show(&mut c, a.nccl, devices.ranks)?;
    Ok(c)
}

/// Runs a program beside this process, whose end is that of the lease.
fn stay(path: &Path, c: &mut Command, signals: Signals, reserved: Reserved) -> Result<()> {
    let Reserved {
        at, conns, news, ..
    } = reserved;
    // The lease ends with this process, so the program is told when this process is killed.
    program::told_of_our_end(c, libc::SIGTERM);
    let started = signals.start(c);
    let mut child = started.map_err(|e| program::not_started(path, &e))?;
    job::watch(&at, conns.clone(), news);
    let status = child.wait()?;
    drop(conns);
    std::process::exit(program::exit_status(status));
}
