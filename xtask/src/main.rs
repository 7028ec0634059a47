//! Busbar: the one front door for repository chores.

mod dist;

use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<()> {
    // Cargo says at run time where the package lies; what was true at build time may not be now.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").context("run it as `cargo xtask`")?;
    let root = Path::new(&package)
        .parent()
        .context("xtask lies in the repository")?;
    match args {
        ["codegen"] => println!("codegen: {}", busbar_codegen::run(root, false)?),
        ["codegen", "--check"] => println!("codegen: {}", busbar_codegen::run(root, true)?),
        ["dist", rest @ ..] => dist::run(root, rest)?,
        _ => {
            bail!("usage: cargo xtask {{codegen [--check] | dist [--glibc VERSION]}}")
        }
    }
    Ok(())
}
