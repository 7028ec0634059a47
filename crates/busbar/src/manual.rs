//! What is told of the command line elsewhere: to shells, and in the manual.

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use std::io::Write as _;
use std::path::PathBuf;

/// Flags of `busbar completions`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar completions bash > ~/.local/share/bash-completion/completions/busbar
  busbar completions zsh > ~/.zfunc/_busbar           # a folder of fpath
  busbar completions fish > ~/.config/fish/completions/busbar.fish")]
pub struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Flags of `busbar man`.
#[derive(clap::Args)]
pub struct ManArgs {
    /// The folder, which is there
    folder: PathBuf,
}

/// Prints a script for a shell.
pub fn completions(a: &CompletionsArgs, mut command: Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(a.shell, &mut command, "busbar", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

/// Writes a page for each command.
pub fn pages(a: &ManArgs, command: Command) -> Result<()> {
    let command = command.disable_help_subcommand(true);
    clap_mangen::generate_to(command, &a.folder)
        .with_context(|| format!("cannot write to {}", a.folder.display()))
}
