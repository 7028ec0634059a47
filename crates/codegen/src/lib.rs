//! Turns the spec of a forwarded API into the files of both sides.
//!
//! `spec/<api>/` holds one file per object family, in Rust syntax that is parsed and never
//! compiled: a line per C function or message, with attributes that say how it travels.
//! `spec/<api>/api.toml` says what the API calls its result codes and handles; `spec/<api>/abi/`
//! holds its C types.
//! [`spec`] parses; [`resolve`] makes the [`model`] of it line by line, [`role`] parameter by
//! parameter, [`effect`] object by object; [`check`] refuses what does not fit together, [`emit`]
//! writes.
//!
//! Everything generated is checked in, so that it can be reviewed and built without the generator;
//! [`run`] with `check` fails when a checked-in file is not what the spec gives.

pub mod abi;
pub mod check;
pub mod condition;
pub mod contract;
pub mod effect;
pub mod emit;
pub mod file;
pub mod model;
pub mod resolve;
pub mod role;
pub mod spec;

use anyhow::{Context, Result, bail};
use file::Files;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Generates every API below `root/spec`. With `check`, writes nothing and fails when anything on
/// disk differs.
pub fn run(root: &Path, check: bool) -> Result<String> {
    let mut files = Files::new();
    let mut apis = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(root.join("spec"))
        .context("spec/ cannot be read")?
        .map(|e| e.map(|e| e.path()))
        .collect::<std::io::Result<_>>()?;
    entries.sort();
    for dir in entries {
        if dir.join("api.toml").is_file() {
            let api = model::Api::load(&dir)?;
            emit::api(&api, &mut files);
            apis.push(api);
        }
    }
    emit::roots(&apis, &mut files);
    for (path, text) in &mut files {
        if path.extension().is_some_and(|e| e == "rs") {
            *text = rustfmt(root, text).with_context(|| path.display().to_string())?;
        }
    }
    settle(root, &files, check)
}

/// Compares `files` with the disk, and writes them unless `check`.
fn settle(root: &Path, files: &Files, check: bool) -> Result<String> {
    let mut folders = BTreeSet::new();
    for path in files.keys() {
        let parts: Vec<_> = path.components().collect();
        if let Some(i) = parts.iter().position(|c| c.as_os_str() == "generated") {
            folders.insert(parts[..=i].iter().collect::<PathBuf>());
        }
    }
    let mut on_disk = BTreeSet::new();
    for folder in &folders {
        walk(root, folder, &mut on_disk)?;
    }
    let mut changes = Vec::new();
    for (path, text) in files {
        let old = fs::read_to_string(root.join(path)).ok();
        if old.as_deref() == Some(text) {
            continue;
        }
        changes.push(match &old {
            None => format!("{}: missing", path.display()),
            Some(old) => format!("{}: {}", path.display(), difference(old, text)),
        });
        if !check {
            let full = root.join(path);
            if let Some(parent) = full.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&full, text).with_context(|| full.display().to_string())?;
        }
    }
    for path in on_disk {
        if !files.contains_key(&path) {
            changes.push(format!("{}: no longer generated", path.display()));
            if !check {
                fs::remove_file(root.join(&path))?;
            }
        }
    }
    if check && !changes.is_empty() {
        bail!(
            "generated files are stale; run `cargo xtask codegen`:\n  {}",
            changes.join("\n  ")
        );
    }
    Ok(format!("{} files, {} changed", files.len(), changes.len()))
}

fn walk(root: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) -> Result<()> {
    let Ok(entries) = fs::read_dir(root.join(folder)) else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            walk(root, &path, found)?;
        } else {
            found.insert(path);
        }
    }
    Ok(())
}

/// One line on the first place where two texts part.
fn difference(old: &str, new: &str) -> String {
    let line = old
        .lines()
        .zip(new.lines())
        .take_while(|(a, b)| a == b)
        .count();
    let show = |t: &str| {
        t.lines()
            .nth(line)
            .unwrap_or("(end of file)")
            .trim()
            .to_owned()
    };
    format!(
        "line {}: has `{}`, should have `{}`",
        line + 1,
        show(old),
        show(new)
    )
}

/// Formats one file with the repository's settings.
pub fn rustfmt(root: &Path, text: &str) -> Result<String> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--emit", "stdout", "--config-path"])
        .arg(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("rustfmt cannot be started")?;
    let mut stdin = child.stdin.take().context("rustfmt has no stdin")?;
    let input = text.to_owned();
    let feeder = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let out = child.wait_with_output()?;
    if feeder.join().is_err() || !out.status.success() {
        bail!(
            "rustfmt refuses the text: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    Ok(String::from_utf8(out.stdout)?)
}
