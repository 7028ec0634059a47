//! The files of the repository, as git lists them, and its packages, as cargo does.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of the repository: its path from the root, and its text.
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    /// Whether codegen or a test wrote it.
    pub fn is_generated(&self) -> bool {
        let p = &self.path;
        p.contains("/generated/") || p.contains("/golden/") || p.starts_with("docs/coverage")
    }

    pub fn has_extension(&self, any: &[&str]) -> bool {
        let extension = Path::new(&self.path).extension();
        extension.is_some_and(|e| any.iter().any(|a| e == *a))
    }

    /// Rust that is compiled, as opposed to the lines of the spec.
    pub fn is_rust_code(&self) -> bool {
        let p = &self.path;
        self.has_extension(&["rs"]) && !p.starts_with("spec/") && !p.contains("/toy/")
    }

    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, l)| (i + 1, l))
    }
}

/// All text files that git knows or would add.
pub struct Repo {
    pub root: PathBuf,
    pub files: Vec<File>,
}

impl Repo {
    pub fn read(root: &Path) -> Result<Self> {
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

    /// What cargo knows of each package, those of others included.
    pub fn packages(&self) -> Result<Vec<Value>> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["metadata", "--format-version=1", "--locked"]);
        cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
        let out = cargo
            .current_dir(&self.root)
            .output()
            .context("cargo did not start")?;
        ensure!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let metadata: Value = serde_json::from_slice(&out.stdout)?;
        let packages = metadata["packages"].as_array();
        Ok(packages.context("cargo names no packages")?.clone())
    }

    pub fn code(&self) -> impl Iterator<Item = &File> {
        self.files
            .iter()
            .filter(|f| f.is_rust_code() && !f.is_generated())
    }
}

/// Those packages that are part of the repository.
pub fn ours(packages: &[Value]) -> impl Iterator<Item = &Value> {
    packages.iter().filter(|p| p["source"].is_null())
}
