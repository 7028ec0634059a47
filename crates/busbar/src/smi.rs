//! `busbar smi`: what NVIDIA's `nvidia-smi` shows, of the GPUs of all servers. Where this machine
//! has that program, it runs here and asks Busbar's NVML; else its most used forms are drawn from
//! what the servers say of their GPUs.

mod card;
mod clock;
mod fields;
mod long;
mod monitor;
mod not_told;
mod options;
mod own;
mod readings;
mod screen;
mod topology;
mod xml;

use crate::complaint::complain;
use crate::servers::{self, Said, Servers, told};
use crate::signals::Signals;
use crate::status::fail_with;
use crate::{launch, program, table};
use anyhow::{Result, bail};
use busbar_client::hello;
use busbar_control::hello::{HOLDINGS, Hello, Intent};
use busbar_control::status::Status;
use card::{Card, cards};
use options::{Form, Options};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command line of [`program::SMI`] as one of `busbar smi`.
pub fn words(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let ours = ["busbar", "smi", "--own"].map(OsString::from);
    ours.into_iter().chain(arguments).collect()
}

/// Flags of `busbar smi`.
#[derive(clap::Args)]
#[command(mut_arg("server", |a| a.short(None)))]
#[command(after_help = "Examples:
  busbar smi                                      # the GPUs of all servers, and who uses them
  busbar smi --server gpu-host -L
  busbar smi --query-gpu=index,server,name,memory.used --format=csv,noheader
  busbar smi -q -d MEMORY,POWER -i 0
  busbar smi -q -x                                # all that is known, in XML
  busbar smi topo -m                              # how the GPUs reach each other
  busbar smi dmon -s pum -c 10                    # a line a GPU, ten times, a second between
  busbar smi -l 5                                 # again every five seconds")]
pub struct Args {
    #[command(flatten)]
    servers: Servers,
    /// Draw the table here, even where this machine has nvidia-smi
    #[arg(long, env = "BUSBAR_SMI", value_parser = clap::builder::FalseyValueParser::new())]
    drawn: bool,
    /// Draw only the GPUs that a program gets here, with its part of their memory; in a program
    /// that `busbar run` has started, its own
    #[arg(long)]
    own: bool,
    /// What nvidia-smi takes: `-L`, `-q`, `-x`, `-d`, `-i`, `-l`, `--query-gpu`,
    /// `--query-compute-apps`, `--format`, `topo`, `dmon`, `pmon`; where this machine has
    /// nvidia-smi, all that it knows
    #[arg(allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Flags that NVIDIA's program does not have.
const OURS: [&str; 5] = [
    "--server",
    "--plaintext",
    "--token-file",
    "--drawn",
    "--own",
];

/// Runs the command.
pub fn run(a: &Args) -> Result<()> {
    // What begins with a hyphen is an argument from the first one on.
    let texts = a.arguments.iter().filter_map(|t| t.to_str());
    let flags: Vec<_> = texts.filter_map(|t| t.split('=').next()).collect();
    if let Some(flag) = OURS.iter().find(|f| flags.contains(f)) {
        bail!("{flag} goes before the arguments of nvidia-smi: busbar smi {flag} ... -l 5");
    }
    if a.own {
        asks_nvml(a)?;
    }
    // In a program that `busbar run` has started the one that is found may be this very one.
    let this = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    let other = |path: &PathBuf| std::fs::canonicalize(path).ok() != this;
    match program::real_smi(program::folders()).filter(other) {
        Some(path) if !a.drawn && !a.own => real_one(a, &path),
        _ => drawn(a),
    }
}

/// Has NVML, which reads the environment as in any program, ask these servers. A program that
/// `busbar run` has started is told of its own.
fn asks_nvml(a: &Args) -> Result<()> {
    let ours = ["BUSBAR_DEVICES", "BUSBAR_LEASE"];
    if ours.iter().any(|name| std::env::var_os(name).is_some()) {
        return Ok(());
    }
    let config = a.servers.all()?;
    let each = config.servers.iter().map(|s| told(&config, s));
    let servers = each.collect::<Vec<_>>().join(",");
    // SAFETY: before there are threads.
    unsafe { std::env::set_var("BUSBAR_SERVER", servers) };
    Ok(())
}

/// Runs NVIDIA's program on the GPUs of those servers that have some for it.
fn real_one(a: &Args, path: &Path) -> Result<()> {
    let config = a.servers.all()?;
    // Before there are threads.
    let signals = Signals::hold()?;
    let answers = servers::ask(&config, &[]);
    let has = |(server, said): &Said| {
        let gpus = |s: &Status| s.devices.iter().any(|d| d.device.api == "cuda" && d.yours);
        let has = said.as_ref().is_ok_and(gpus);
        has.then(|| told(&config, server))
    };
    let with: Vec<_> = answers.iter().filter_map(has).collect();
    if with.is_empty() {
        fail_with(errors(answers))?;
        bail!("no server has a GPU for you: `busbar devices` lists what there is, and who has it");
    }
    let mut c = Command::new(path);
    c.args(&a.arguments).env("BUSBAR_SERVER", with.join(","));
    // Somebody may have given Busbar's command this name.
    c.env("BUSBAR_SMI", "1");
    launch::show(&mut c, None, false)?;
    let started = signals.start(&mut c);
    let mut child = started.map_err(|e| program::not_started(path, &e))?;
    let status = child.wait()?;
    if !status.success() {
        std::process::exit(program::exit_status(status));
    }
    fail_with(errors(answers))
}

fn errors(answers: Vec<Said>) -> Vec<String> {
    answers.into_iter().filter_map(|(_, s)| s.err()).collect()
}

/// Draws what is asked for, again and again if that is wanted.
fn drawn(a: &Args) -> Result<()> {
    let options = Options::read(&a.arguments)?;
    if let Form::Help(text) = &options.form {
        table::print(text);
        return Ok(());
    }
    if let Form::Monitor(_) = options.form {
        ends_well();
    }
    let mut first = true;
    for done in 1u64.. {
        let config = a.servers.all()?;
        let answers = servers::ask(&config, &[HOLDINGS]);
        let up: Vec<_> = answers
            .iter()
            .filter_map(|(server, said)| Some((server.as_str(), said.as_ref().ok()?)))
            .collect();
        let own = a.own.then(own::own).transpose()?;
        let all = match &own {
            Some(own) => card::of_program(&cards(&up), own),
            None => cards(&up),
        };
        let chosen = options.chosen(all)?;
        if !up.is_empty() {
            let ask = |server: &str, question| {
                let mut hello = Hello::new(Intent::Status);
                hello.ask = Some(question);
                hello::tell(&config, server, hello).ok()?.said
            };
            table::print(&text(&options, &up, &chosen, (first, &ask)));
            first = false;
        }
        let nothing = chosen.is_empty() && !up.is_empty();
        let mut errors = errors(answers);
        if nothing {
            let why = "no server has an NVIDIA GPU: `busbar devices` lists what there is";
            errors.push(why.into());
        }
        let again = options.every.filter(|_| options.times != Some(done));
        let Some(every) = again else {
            return fail_with(errors);
        };
        // A server that is away may come back.
        for e in errors {
            complain(e);
        }
        std::thread::sleep(every);
    }
    Ok(())
}

/// Has Ctrl-C end samples as nvidia-smi does: there is no failure.
fn ends_well() {
    extern "C" fn end(_: libc::c_int) {
        // SAFETY: may be called at any moment.
        unsafe { libc::_exit(0) }
    }
    let end: extern "C" fn(libc::c_int) = end;
    // SAFETY: a function that a signal may call.
    unsafe { libc::signal(libc::SIGINT, end as libc::sighandler_t) };
}

/// What is shown of some servers and their GPUs; a list has its heading at `first` alone. `ask` is
/// for what the status does not say.
fn text(
    options: &Options,
    up: &[(&str, &Status)],
    cards: &[Card<'_>],
    (first, ask): (bool, topology::Ask<'_>),
) -> String {
    let list = |heading: Option<String>, lines: Vec<String>| {
        let heading = heading.filter(|_| first);
        heading.into_iter().chain(lines).collect()
    };
    match &options.form {
        Form::Screen => screen::drawn(up, cards),
        Form::List => cards.iter().map(Card::line).collect(),
        Form::Long(sections) => long::drawn(cards, sections),
        Form::Xml(sections) => xml::drawn(cards, sections),
        Form::Topology(topology) => topology.drawn(cards, ask),
        Form::Monitor(monitor) => list(Some(monitor.heading()), monitor.lines(cards)),
        Form::Gpus(csv) => {
            let lines = cards.iter().map(|c| csv.line(c, None));
            list(csv.heading(), lines.collect())
        }
        Form::Processes(csv) => {
            let all = cards.iter().flat_map(Card::processes);
            list(
                csv.heading(),
                all.map(|p| csv.line(p.card, Some(&p))).collect(),
            )
        }
        Form::Help(text) => text.clone(),
    }
}
