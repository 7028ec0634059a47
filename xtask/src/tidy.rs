//! `cargo xtask tidy`: the habits of this repository that neither rustfmt nor clippy checks.
//!
//! Each check takes the repository and returns what it found, as `FILE:LINE: what is wrong`.

mod docs;
mod layers;
mod modules;
mod packages;
mod paths;
mod repo;
mod rooms;
mod spec;
mod style;

use anyhow::{Result, bail};
use repo::Repo;
use std::path::Path;

/// Runs every check; fails when one found something.
pub fn run(root: &Path) -> Result<()> {
    let repo = Repo::read(root)?;
    let packages = repo.packages()?;
    let mut found = style::check(&repo);
    found.extend(layers::check(&repo, &packages));
    found.extend(rooms::check(&repo, &packages)?);
    found.extend(packages::check(&repo, &packages)?);
    found.extend(docs::check(&repo));
    found.extend(spec::check(&repo));
    for line in &found {
        println!("{line}");
    }
    match found.len() {
        0 => println!("tidy: {} files, nothing to mend", repo.files.len()),
        n => bail!("tidy: {n} things to mend"),
    }
    Ok(())
}

/// Says what makes each circle of modules in `tree` one.
pub fn circles(root: &Path, tree: &str) -> Result<()> {
    let repo = Repo::read(root)?;
    for line in rooms::circles(&repo, &repo.packages()?, tree)? {
        println!("{line}");
    }
    Ok(())
}
