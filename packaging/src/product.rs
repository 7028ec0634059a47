//! What there is to install: the built tree, and what is told of it to shells and readers.

use crate::Needs;
use crate::files::{Files, Item, plain};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The libraries without which nothing works. Where a tree has more, they are packed, too.
const SHIMS: [&str; 3] = [
    "lib/cuda/libcuda.so.1",
    "lib/cuda/libnvidia-ml.so.1",
    "lib/opencl/libbusbar_opencl.so",
];
/// Folders of a tree that are not packed: simulated libraries, for tests alone, and those that
/// `busbar run` makes, which tell where the tree was.
const NOT_PACKED: [&str; 6] = [
    "fakedev",
    "loader",
    "names",
    "programs",
    "unnumbered",
    "vendors",
];

/// The same for all formats.
pub struct Product {
    /// Busbar's.
    pub version: String,
    /// What all files have, in seconds since 1970.
    pub time: u32,
    /// `bin/busbar`, and the libraries in `lib/`.
    pub tree: Files,
    /// What those need of the system.
    pub needs: Needs,
    /// What shells complete: by the name of the shell.
    pub completions: BTreeMap<&'static str, Vec<u8>>,
    /// Pages of the manual, by file name.
    pub pages: BTreeMap<String, Vec<u8>>,
    /// The licence.
    pub licence: Vec<u8>,
    /// The first page of the documents.
    pub readme: Vec<u8>,
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

impl Product {
    /// Reads a tree, and the texts of the repository at `root`.
    pub fn read(root: &Path, tree: &Path, time: u32) -> Result<Self> {
        let busbar = tree.join("bin/busbar");
        let busbar = fs::canonicalize(&busbar).with_context(|| {
            let tree = tree.display();
            format!("{tree} has no bin/busbar: `cargo xtask dist` makes a tree, `./test tree`, too")
        })?;
        let mut files = Files::from([("bin/busbar".into(), program(read(&busbar)?))]);
        libraries(&tree.join("lib"), "lib", &mut files)?;
        for shim in SHIMS {
            ensure!(
                files.contains_key(shim),
                "{} has no {shim}: build it anew",
                tree.display()
            );
        }
        let mut needs = Needs::default();
        for (path, item) in &files {
            if let Item::File(_, bytes) = item {
                needs.add(bytes).with_context(|| path.clone())?;
            }
        }
        let version = said(&busbar, &["--version"])?;
        let version = String::from_utf8(version)?;
        let version = version.trim().strip_prefix("busbar ");
        let version = version.context("bin/busbar says no version")?.to_string();
        ensure!(
            version == env!("CARGO_PKG_VERSION"),
            "the tree is of version {version}, and this is {}: build it anew",
            env!("CARGO_PKG_VERSION")
        );
        let mut completions = BTreeMap::new();
        for shell in ["bash", "fish", "zsh"] {
            completions.insert(shell, said(&busbar, &["completions", shell])?);
        }
        Ok(Self {
            version,
            time,
            tree: files,
            needs,
            completions,
            pages: pages(&busbar)?,
            licence: read(&root.join("LICENSE"))?,
            readme: read(&root.join("README.md"))?,
        })
    }
}

fn program(bytes: Vec<u8>) -> Item {
    Item::File(0o755, bytes)
}

/// All libraries in a folder and those below it.
fn libraries(folder: &Path, name: &str, files: &mut Files) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let own = entry.file_name();
        let own = own.to_str().context("a name that is no text")?;
        if NOT_PACKED.contains(&own) {
            continue;
        }
        let (path, name) = (entry.path(), format!("{name}/{own}"));
        if path.is_dir() {
            libraries(&path, &name, files)?;
        } else if own.contains(".so") {
            files.insert(name, plain(read(&path)?));
        }
    }
    Ok(())
}

/// What the program prints, whatever is set here.
fn said(busbar: &Path, args: &[&str]) -> Result<Vec<u8>> {
    let out = Command::new(busbar).args(args).env_clear().output();
    let out = out.with_context(|| format!("{} does not run", busbar.display()))?;
    if !out.status.success() {
        let why = String::from_utf8_lossy(&out.stderr);
        bail!("busbar {} failed: {}", args.join(" "), why.trim());
    }
    Ok(out.stdout)
}

/// The manual, one page for each command.
fn pages(busbar: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let folder = tempfile::tempdir()?;
    let to = folder.path().to_str().context("a path that is no text")?;
    said(busbar, &["man", to])?;
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(folder.path())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        pages.insert(name, read(&entry.path())?);
    }
    Ok(pages)
}
