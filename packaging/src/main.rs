//! Packs a built tree for those who install it: `cargo xtask release` builds one and starts this.

use anyhow::{Context as _, Result, ensure};
use busbar_packaging::{Format, Product, pack};
use clap::Parser;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Parser)]
struct Args {
    /// The tree, as `cargo xtask dist` lays it out
    #[arg(long)]
    tree: PathBuf,
    /// Where the packages go
    #[arg(long)]
    out: PathBuf,
    /// The repository, for its texts and the time of its commit
    #[arg(long)]
    root: PathBuf,
    /// The newest glibc that the tree may need
    #[arg(long)]
    glibc: Option<String>,
    /// What to make; everything if none is named
    formats: Vec<Format>,
}

fn main() -> std::process::ExitCode {
    match run(&Args::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("release: {e:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(a: &Args) -> Result<()> {
    let product = Product::read(&a.root, &a.tree, time(&a.root)?)?;
    if let Some(most) = &a.glibc {
        product.needs.check(most)?;
    }
    fs::create_dir_all(&a.out).with_context(|| a.out.display().to_string())?;
    let all = Format::all();
    let formats = if a.formats.is_empty() {
        &all
    } else {
        &a.formats
    };
    for made in pack(&product, &a.out, formats)? {
        println!("{:>9}  {}", fs::metadata(&made)?.len(), made.display());
    }
    println!("runs with glibc {} or newer", product.needs.glibc);
    Ok(())
}

/// The time that all files in packages have: `SOURCE_DATE_EPOCH`, else that of the commit.
fn time(root: &Path) -> Result<u32> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            let mut git = Command::new("git");
            git.args(["log", "-1", "--format=%ct"]).current_dir(root);
            let out = git.output().context("git does not start")?;
            ensure!(
                out.status.success(),
                "this is no checkout of git: say in SOURCE_DATE_EPOCH what time packages are to \
                 have, in seconds since 1970"
            );
            String::from_utf8(out.stdout)?
        }
    };
    let text = text.trim();
    text.parse()
        .with_context(|| format!("SOURCE_DATE_EPOCH={text}: no seconds since 1970"))
}
