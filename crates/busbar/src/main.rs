//! The one binary: a server for machines with accelerators, and everything a user types.

mod audit;
mod beside;
mod checkpoint;
mod complaint;
mod confine;
mod discover;
mod doctor;
mod fabric;
mod filter;
mod folder;
mod health;
mod isolation;
mod job;
mod launch;
mod leases;
mod library;
mod login;
mod manual;
mod mps;
mod opencl;
mod policy;
mod program;
mod reserve;
mod serve;
mod servers;
mod signals;
mod smi;
mod status;
mod stub;
mod table;
mod token;
mod trial;
mod variables;
mod vault;
mod waiting;
mod words;
mod worker;

use clap::{CommandFactory as _, Parser, Subcommand};
use std::ffi::OsString;
use std::path::Path;

#[derive(Parser)]
#[command(
    name = "busbar",
    version,
    about = "Plugs any machine into any accelerator",
    long_about = "Busbar runs unmodified CUDA and OpenCL programs on accelerators in other \
                  machines.\n\nOn the machine with the accelerator:\n    busbar serve --listen \
                  0.0.0.0:7400\n\nOn any other machine, once the line that this prints, and \
                  then:\n    busbar run -- python train.py\n\n\
                  `busbar doctor` says what is wrong when it does not work."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Offer this machine's accelerators to other machines
    Serve(Box<serve::Args>),
    /// Make, list and revoke the tokens that this machine's server takes
    Token(token::Args),
    /// Check a file that says what tenants may do
    Policy(policy::Args),
    /// Check the file in which a server has noted sessions, leases and refusals
    Audit(audit::Args),
    /// Get to know a server, by the line that it printed
    Login(login::Args),
    /// Run a program on the accelerators of a server
    Run(launch::Args),
    /// Reserve GPUs for programs to come; prints the lease's id
    #[command(alias = "request_gpus")]
    Request(leases::RequestArgs),
    /// End a lease
    Release(leases::ReleaseArgs),
    /// List the leases of each server
    List(leases::ListArgs),
    /// Say whether each server is there
    Health(health::Args),
    /// List what each server has, and who uses it
    #[command(alias = "list_gpus")]
    Devices(status::Args),
    /// Show the GPUs of all servers as nvidia-smi shows those of one machine
    Smi(smi::Args),
    /// List the sessions of each server
    #[command(alias = "stats")]
    Ps(status::PsArgs),
    /// Change what a running session has of its devices
    Set(status::SetArgs),
    /// End sessions
    Kill(status::KillArgs),
    /// Have sessions wait in the server's memory, and give their GPUs back
    Checkpoint(checkpoint::Args),
    /// Have sessions that were checkpointed go on
    Restore(checkpoint::RestoreArgs),
    /// Find out why it does not work
    #[command(aliases = ["local-health", "localhealth"])]
    Doctor(doctor::Args),
    /// Check what RDMA devices servers have, and what lies between them
    Fabric(fabric::Args),
    /// Emulate a network link between two programs on this machine
    Link(busbar_relay::LinkArgs),
    /// Print what a shell takes to complete this program's commands
    Completions(manual::CompletionsArgs),
    /// Write the manual's pages into a folder, for packages
    #[command(hide = true)]
    Man(manual::ManArgs),
    /// Calls as a program makes them; started by `doctor`
    #[command(hide = true)]
    Calls(trial::Args),
    /// A job whose ranks reduce bytes; started by `fabric`
    #[command(hide = true)]
    Ring(fabric::ring::Args),
    /// The process behind one session; started by `serve`
    #[command(hide = true)]
    Worker(worker::Args),
}

/// Exit status of Busbar's own failures, as `docker run` and `env` use it: the program's own exit
/// statuses stay below. 126 and 127 are for programs that cannot be run or are not there.
const FAILED: i32 = 125;

/// The command line; that of `nvidia-smi`, where this program is called by that name, as our own.
fn words_of_command() -> Vec<OsString> {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    match Path::new(&name).file_name() {
        Some(n) if n == program::SMI => smi::words(words),
        _ => std::iter::once(name).chain(words).collect(),
    }
}

fn main() {
    let command = match Cli::try_parse_from(words_of_command()) {
        Ok(cli) => cli.command,
        Err(e) => {
            if let Some(why) = words::sentence(&e) {
                complaint::complain(why);
                std::process::exit(FAILED);
            }
            let _ = e.print();
            std::process::exit(if e.use_stderr() { FAILED } else { 0 });
        }
    };
    if !matches!(command, Command::Serve(_) | Command::Worker(_)) {
        // A closed pipe ends us quietly, as it does other command-line programs. It must not end
        // who serves others.
        // SAFETY: restores the default action before any thread exists.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    // `doctor` looks for these itself, and others do not read them.
    let reads = !matches!(
        command,
        Command::Worker(_) | Command::Link(_) | Command::Doctor(_)
    );
    for why in variables::mistakes().into_iter().filter(|_| reads) {
        complaint::complain(why);
    }
    let done = match command {
        Command::Serve(a) => serve::run(*a),
        Command::Run(a) => launch::run(a),
        Command::Token(a) => token::run(a),
        Command::Policy(a) => policy::run(&a),
        Command::Audit(a) => audit::run(&a),
        Command::Login(a) => login::run(a),
        Command::Request(a) => leases::request(&a),
        Command::Release(a) => leases::release(&a),
        Command::List(a) => leases::list(&a),
        Command::Health(a) => health::run(&a),
        Command::Devices(a) => status::devices(&a),
        Command::Smi(a) => smi::run(&a),
        Command::Ps(a) => status::ps(&a),
        Command::Set(a) => status::set(a),
        Command::Kill(a) => status::kill(a),
        Command::Checkpoint(a) => checkpoint::checkpoint(&a),
        Command::Restore(a) => checkpoint::restore(&a),
        Command::Doctor(a) => doctor::run(&a),
        Command::Fabric(a) => fabric::run(&a),
        Command::Link(a) => match busbar_relay::run(&a) {
            Ok(false) => std::process::exit(busbar_relay::cli::NOT_KEPT_UP),
            other => other.map(drop),
        },
        Command::Completions(a) => manual::completions(&a, Cli::command()),
        Command::Man(a) => manual::pages(&a, Cli::command()),
        Command::Calls(a) => trial::run(&a),
        Command::Ring(a) => fabric::ring::run(&a),
        Command::Worker(a) => worker::run(a),
    };
    if let Err(e) = done {
        complaint::complain(format_args!("{e:#}"));
        let unfit = e.downcast_ref::<program::Unfit>();
        std::process::exit(unfit.map_or(FAILED, |u| u.status));
    }
}
