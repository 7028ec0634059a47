//! `cargo xtask dist`: the release build, laid out under `dist/` as it is installed.
//!
//! A plain `cargo build` needs the C library of the machine that built it, or a newer one. The tree
//! is to run elsewhere, so it is linked with zig, which has the symbols of every glibc; the host's
//! own linker serves only where zig cannot be had.

use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask dist [--glibc VERSION | --glibc host]";
/// The oldest C library that the tree runs with, unless told otherwise.
pub const OLDEST_GLIBC: &str = "2.28";
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// What is built: the package, the file that comes of it, and its place in the tree.
const PARTS: [(&str, &str, &str); 9] = [
    ("busbar", "busbar", "bin/busbar"),
    ("busbar-shim-cuda", "libcuda.so", "lib/cuda/libcuda.so.1"),
    (
        "busbar-shim-nvml",
        "libnvidia_ml.so",
        "lib/cuda/libnvidia-ml.so.1",
    ),
    (
        "busbar-shim-opencl",
        "libbusbar_opencl.so",
        "lib/opencl/libbusbar_opencl.so",
    ),
    ("busbar-shim-nccl", "libnccl.so", "lib/nccl/libnccl.so.2"),
    (
        "busbar-shim-cupti",
        "libcupti.so",
        "lib/cupti/libbusbar_cupti.so.1",
    ),
    (
        "busbar-fakenccl",
        "libfakenccl.so",
        "lib/fakedev/libnccl.so.2",
    ),
    (
        "busbar-fakecupti",
        "libfakecupti.so",
        "lib/fakedev/libcupti.so.13",
    ),
    (
        "busbar-fakedev",
        "libfakedev.so",
        "lib/fakedev/libcuda.so.1",
    ),
];

/// Builds the tree and says what is in it.
pub fn run(root: &Path, args: &[&str]) -> Result<()> {
    let asked = match args {
        [] => None,
        ["--glibc", v] => Some(*v),
        _ => bail!("{USAGE}"),
    };
    let oldest = asked.unwrap_or(OLDEST_GLIBC);
    let zig = if oldest == "host" {
        None
    } else {
        ensure!(
            version(oldest).is_some(),
            "{oldest}: not a version such as {OLDEST_GLIBC}"
        );
        match Zig::find_or_install(root) {
            Ok(zig) => Some(zig),
            Err(e) if asked.is_some() => {
                return Err(e.context(format!("a build for glibc {oldest} needs ziglang")));
            }
            Err(e) => {
                eprintln!(
                    "dist: no zig ({e:#}), so the tree is linked against this machine's glibc and \
                     will not run with an older one"
                );
                None
            }
        }
    };

    let parts = parts(root)?;
    let target = target_folder(root);
    let (build, built, bound) = match &zig {
        Some(zig) => {
            let mut build = zig.build();
            build.args(["--target", &format!("{TRIPLE}.{oldest}")]);
            (build, target.join(TRIPLE).join("release"), version(oldest))
        }
        None => {
            let mut build = Command::new(cargo());
            build.args(["build", "--release"]);
            (build, target.join("release"), None)
        }
    };
    compile(build, root, &parts)?;
    lay_out(&built, &root.join("dist"), &parts, bound)
}

type Part = (&'static str, &'static str, &'static str);

/// The parts that this checkout has.
fn parts(root: &Path) -> Result<Vec<Part>> {
    let lock = root.join("Cargo.lock");
    let lock = fs::read_to_string(&lock).with_context(|| lock.display().to_string())?;
    let has = |package: &str| lock.contains(&format!("\nname = \"{package}\"\n"));
    Ok(PARTS.into_iter().filter(|(p, ..)| has(p)).collect())
}

/// The cargo that has started this.
pub fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

/// The folder that cargo builds into; a relative one is relative to where cargo was started.
pub fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .filter(|v| !v.is_empty())
        .map_or_else(|| root.join("target"), PathBuf::from)
}

fn compile(mut build: Command, root: &Path, parts: &[Part]) -> Result<()> {
    for (package, ..) in parts {
        build.args(["-p", package]);
    }
    build.arg("--target-dir").arg(target_folder(root));
    done(build.current_dir(root))
}

/// Runs a command that must succeed.
pub fn done(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("{name} did not start"))?;
    ensure!(status.success(), "{name} failed: {status}");
    Ok(())
}

/// cargo-zigbuild and the compiler that it links with.
struct Zig {
    zigbuild: PathBuf,
    zig: PathBuf,
}

impl Zig {
    /// Both from `.venv`, where they are installed if they are missing: the packages bring
    /// binaries.
    fn find_or_install(root: &Path) -> Result<Self> {
        if let Some(found) = Self::find(root) {
            return Ok(found);
        }
        eprintln!("dist: installing ziglang and cargo-zigbuild in .venv (some 100 MB, once)");
        done(Command::new(root.join("testing/venv.sh")).args(["ziglang", "cargo-zigbuild"]))?;
        Self::find(root).context("the packages are installed, but hold no zig")
    }

    fn find(root: &Path) -> Option<Self> {
        let zigbuild = root.join(".venv/bin/cargo-zigbuild");
        let script = "import ziglang, os; print(os.path.dirname(ziglang.__file__))";
        let python = root.join(".venv/bin/python");
        let out = Command::new(python).args(["-c", script]).output().ok()?;
        let zig = Path::new(String::from_utf8(out.stdout).ok()?.trim()).join("zig");
        (zigbuild.is_file() && zig.is_file()).then_some(Self { zigbuild, zig })
    }

    fn build(&self) -> Command {
        let mut build = Command::new(&self.zigbuild);
        build.env("CARGO_ZIGBUILD_ZIG_PATH", &self.zig);
        build.args(["zigbuild", "--release"]);
        build
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Copies what was built to its places, and says what each file needs of the C library: no more
/// than `bound`. A file may be in use, so a new one takes its name.
fn lay_out(built: &Path, dist: &Path, parts: &[Part], bound: Option<Version>) -> Result<()> {
    let strip = in_path("strip");
    let mut needed = Vec::new();
    for (_, from, place) in parts {
        let (from, to) = (built.join(from), dist.join(place));
        let folder = to.parent().context("a place in the tree has a folder")?;
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let aside = to.with_extension("new");
        fs::copy(&from, &aside).with_context(|| from.display().to_string())?;
        if let Some(strip) = &strip {
            done(Command::new(strip).arg("--strip-unneeded").arg(&aside))?;
        }
        fs::rename(&aside, &to).with_context(|| to.display().to_string())?;
        let newest = glibc_versions(&to).into_iter().max();
        let needs = newest.map_or("?".into(), show_version);
        println!(
            "{:>9}  glibc {needs:<7} {}",
            fs::metadata(&to)?.len(),
            to_show(dist, place)
        );
        needed.extend(newest);
    }
    match (needed.into_iter().max(), bound) {
        (Some(v), Some(bound)) if v > bound => bail!(
            "the tree needs glibc {}, but was to run with {}",
            show_version(v),
            show_version(bound)
        ),
        (Some(v), _) => println!("runs with glibc {} or newer", show_version(v)),
        (None, _) => println!("the glibc that it needs is not known: objdump is missing"),
    }
    Ok(())
}

fn to_show(dist: &Path, place: &str) -> String {
    let dist = dist.file_name().unwrap_or_default().to_string_lossy();
    format!("{dist}/{place}")
}

/// The versions of the C library that a file's symbols ask for; none without `objdump`.
fn glibc_versions(file: &Path) -> Vec<Version> {
    let Ok(out) = Command::new("objdump").arg("-T").arg(file).output() else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&out.stdout);
    text.split("GLIBC_")
        .skip(1)
        .filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
            version(&rest[..end.unwrap_or(rest.len())])
        })
        .collect()
}

/// Major, minor, patch.
type Version = (u32, u32, u32);

fn show_version((major, minor, patch): Version) -> String {
    match patch {
        0 => format!("{major}.{minor}"),
        _ => format!("{major}.{minor}.{patch}"),
    }
}

/// `2.28` or `2.2.5`.
fn version(text: &str) -> Option<Version> {
    let numbers: Vec<u32> = text
        .split('.')
        .map(|n| n.parse().ok())
        .collect::<Option<_>>()?;
    match numbers[..] {
        [major, minor] => Some((major, minor, 0)),
        [major, minor, patch] => Some((major, minor, patch)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_compare_by_number() {
        assert!(version("2.28") > version("2.4"));
        assert!(version("2.2.5") < version("2.3"));
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "2", "2.", "2.x", "PRIVATE", "2.28.1.4"] {
            assert_eq!(version(text), None, "{text}");
        }
    }
}
