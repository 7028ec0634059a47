//! `cargo xtask release`: what people install, made of the release tree.
//!
//! The formats are the business of the package `busbar-packaging`, which takes libraries that no
//! other chore needs: it is built only for this.

use crate::dist;
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask release [--tree DIR] [--out DIR] [FORMAT ...]
    --tree DIR    pack a tree that is built, such as target/test-tree; without it one is built
    --out DIR     where packages go; target/packages unless told otherwise
    FORMAT        tarball, wheel, deb, rpm or oci; all unless told otherwise";

/// Builds a tree, unless there is one, and packs it.
pub fn run(root: &Path, mut args: &[&str]) -> Result<()> {
    let mut tree = None;
    let mut out = dist::target_folder(root).join("packages");
    let mut formats = Vec::new();
    loop {
        args = match args {
            [] => break,
            ["--tree", dir, rest @ ..] => {
                tree = Some(PathBuf::from(dir));
                rest
            }
            ["--out", dir, rest @ ..] => {
                out = PathBuf::from(dir);
                rest
            }
            [flag, ..] if flag.starts_with('-') => bail!("{USAGE}"),
            [format, rest @ ..] => {
                formats.push(*format);
                rest
            }
        };
    }
    let mut pack = Command::new(dist::cargo());
    pack.args(["run", "--quiet", "--package", "busbar-packaging"])
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        .arg("--");
    let tree = match tree {
        Some(tree) => tree,
        None => {
            dist::run(root, &["--glibc", dist::OLDEST_GLIBC])?;
            pack.args(["--glibc", dist::OLDEST_GLIBC]);
            root.join("dist")
        }
    };
    for (flag, value) in [("--root", root), ("--tree", &tree), ("--out", &out)] {
        pack.arg(flag).arg(value);
    }
    dist::done(pack.args(formats)).context("no packages")
}
