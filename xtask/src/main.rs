//! Busbar: the one front door for repository chores.

mod dist;
mod release;
mod tidy;

use anyhow::{Context as _, Result, bail, ensure};
use std::path::Path;
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask COMMAND
    codegen [--check]         write what comes of spec/, or say what is stale
    tidy                      check layering, line lengths, links, and other habits
    circles TREE              what makes the circles of modules in this folder
    ci [STEP ...]             every check that needs no GPU (./test runs the same)
    dist [--glibc VERSION]    the release tree, in dist/; for glibc 2.28 unless told otherwise
    release [--tree DIR] [FORMAT ...]
                              packages of that tree: tarball, wheel, deb, rpm, oci";

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
        ["tidy"] => tidy::run(root)?,
        ["circles", tree] => tidy::circles(root, tree)?,
        ["ci", steps @ ..] => ci(root, steps)?,
        ["dist", rest @ ..] => dist::run(root, rest)?,
        ["release", rest @ ..] => release::run(root, rest)?,
        _ => bail!("{USAGE}"),
    }
    Ok(())
}

/// Runs `./test`, in which the steps are.
fn ci(root: &Path, steps: &[&str]) -> Result<()> {
    let status = Command::new(root.join("test")).args(steps).status();
    ensure!(
        status.context("./test did not start")?.success(),
        "not all steps passed"
    );
    Ok(())
}
