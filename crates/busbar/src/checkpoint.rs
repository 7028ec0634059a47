//! `busbar checkpoint` and `busbar restore`: a program waits, and has nothing of its devices.

use crate::servers::Servers;
use crate::status::{fail_with, server_of};
use anyhow::{Result, anyhow, bail};
use busbar_client::config::Config;
use busbar_client::hello;
use busbar_control::checkpoint::{
    CHECKPOINTED, ILLEGAL_STATE, LOCKED, NOT_READY, NOT_SUPPORTED, OUT_OF_MEMORY, Reached, Step,
    TAKEN,
};
use busbar_control::hello::{Hello, Intent};
use busbar_control::size;

/// Flags of `busbar checkpoint`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar checkpoint 0123456789ab        # what it has on the GPU is in the server's memory now
  busbar restore 0123456789ab           # and on the GPU again: its program goes on")]
pub struct Args {
    /// The sessions, as `busbar ps` names them
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<String>,
    /// How long what a program has submitted may take to end; it goes on if that is too short
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u32,
    #[command(flatten)]
    servers: Servers,
}

/// Flags of `busbar restore`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar restore 0123456789ab           # its program goes on where it waits")]
pub struct RestoreArgs {
    /// The sessions, as `busbar ps` names them
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<String>,
    #[command(flatten)]
    servers: Servers,
}

/// A session, where it is.
struct Session<'a> {
    config: &'a Config,
    server: String,
    name: &'a str,
}

impl Session<'_> {
    /// What becomes of a step.
    fn take(&self, step: Step) -> Result<Reached> {
        let hello = Hello {
            session: self.name.into(),
            checkpoint: step,
            ..Hello::new(Intent::Checkpoint)
        };
        hello::ask(self.config, &self.server, hello).map_err(anyhow::Error::msg)
    }

    /// Takes it, or says why not.
    fn must(&self, step: Step) -> Result<()> {
        let Reached {
            status,
            state,
            lacks,
            ..
        } = self.take(step)?;
        let why = match (status, state) {
            (OUT_OF_MEMORY, _) if step == Step::Checkpoint => {
                "its server has no memory for what it has on its GPUs"
            }
            (TAKEN, _) => return Ok(()),
            (NOT_READY, _) => {
                "what it has submitted did not end in time, and it goes on: try again with a \
                 longer --timeout"
            }
            (NOT_SUPPORTED, _) => {
                "it cannot be checkpointed: it has managed memory, or memory of another process, \
                 or is no CUDA session, or its driver is too old"
            }
            (OUT_OF_MEMORY, _) => {
                let each = lacks.iter();
                let each =
                    each.map(|on| format!(" (GPU {} lacks {})", on.device, size::show(on.bytes)));
                bail!(
                    "session {}: there is no room for it{}: end or checkpoint another session \
                     there, and try again",
                    self.name,
                    each.collect::<String>()
                )
            }
            (ILLEGAL_STATE, CHECKPOINTED) => {
                "it is checkpointed already: `busbar restore` has it go on"
            }
            (ILLEGAL_STATE, LOCKED) => {
                "another program has locked it: that one, or `busbar restore`, has it go on"
            }
            (ILLEGAL_STATE, _) => "it is not checkpointed",
            (other, _) => bail!(
                "session {}: the driver refuses it (error {other})",
                self.name
            ),
        };
        Err(anyhow!("session {}: {why}", self.name))
    }

    fn checkpoint(&self, timeout_ms: u32) -> Result<()> {
        self.must(Step::Lock { timeout_ms })?;
        self.must(Step::Checkpoint).inspect_err(|_| {
            let _ = self.take(Step::Unlock);
        })
    }

    /// One that is only locked goes on, too: whoever has locked it may be gone.
    fn restore(&self) -> Result<()> {
        if self.take(Step::State)?.state != LOCKED {
            self.must(Step::Restore)?;
        }
        self.must(Step::Unlock)
    }
}

/// Does it to each; one that refuses keeps no other.
fn each(
    servers: &Servers,
    sessions: &[String],
    with: impl Fn(&Session<'_>) -> Result<()>,
) -> Result<()> {
    let config = &servers.all()?;
    let one = |name: &String| {
        let server = server_of(config, name)?;
        with(&Session {
            config,
            server,
            name,
        })
    };
    let errors = sessions.iter().filter_map(|s| one(s).err());
    fail_with(errors.map(|e| format!("{e:#}")).collect())
}

/// `busbar checkpoint`.
pub fn checkpoint(a: &Args) -> Result<()> {
    let timeout_ms = a.timeout.saturating_mul(1000).max(1);
    each(&a.servers, &a.sessions, |s| s.checkpoint(timeout_ms))
}

/// `busbar restore`.
pub fn restore(a: &RestoreArgs) -> Result<()> {
    each(&a.servers, &a.sessions, |s| s.restore())
}
