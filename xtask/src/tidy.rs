//! `cargo xtask tidy`: the habits of this repository that neither rustfmt nor clippy checks.
//!
//! Each check takes the repository and returns what it found, as `FILE:LINE: what is wrong`.

mod docs;
mod layers;
mod spec;
mod style;

use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of the repository: its path from the root, and its text.
struct File {
    path: String,
    text: String,
}

impl File {
    /// Whether codegen or a test wrote it.
    fn is_generated(&self) -> bool {
        let p = &self.path;
        p.contains("/generated/") || p.contains("/golden/") || p.starts_with("docs/coverage")
    }

    fn has_extension(&self, any: &[&str]) -> bool {
        let extension = Path::new(&self.path).extension();
        extension.is_some_and(|e| any.iter().any(|a| e == *a))
    }

    /// Rust that is compiled, as opposed to the lines of the spec.
    fn is_rust_code(&self) -> bool {
        let p = &self.path;
        self.has_extension(&["rs"]) && !p.starts_with("spec/") && !p.contains("/toy/")
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, l)| (i + 1, l))
    }
}

/// All text files that git knows or would add.
struct Repo {
    root: PathBuf,
    files: Vec<File>,
}

impl Repo {
    fn read(root: &Path) -> Result<Self> {
        let mut git = Command::new("git");
        git.args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        let out = git
            .current_dir(root)
            .output()
            .context("git did not start")?;
        ensure!(
            out.status.success(),
            "git does not list the files of {}",
            root.display()
        );
        let mut files = Vec::new();
        for path in String::from_utf8(out.stdout)?
            .split('\0')
            .filter(|p| !p.is_empty())
        {
            // A path that git still lists may be gone, and what is not text is not checked.
            if let Ok(text) = fs::read_to_string(root.join(path)) {
                files.push(File {
                    path: path.into(),
                    text,
                });
            }
        }
        // Git lists files that are new before the others.
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self {
            root: root.into(),
            files,
        })
    }

    fn code(&self) -> impl Iterator<Item = &File> {
        self.files
            .iter()
            .filter(|f| f.is_rust_code() && !f.is_generated())
    }
}

/// Runs every check; fails when one found something.
pub fn run(root: &Path) -> Result<()> {
    let repo = Repo::read(root)?;
    let mut found = style::check(&repo);
    found.extend(layers::check(&repo)?);
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
