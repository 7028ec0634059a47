//! `cargo xtask dist`: the release build, laid out under `dist/` as it is installed.
//!
//! A plain `cargo build` needs the C library of the machine that built it, or a newer one. With
//! cargo-zigbuild and ziglang the tree runs on any system with the C library asked for.

use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask dist [--portable] [--glibc VERSION]";
/// The oldest C library that a portable build runs with, unless told otherwise.
const OLDEST_GLIBC: &str = "2.28";
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// What is built: the package, the file that comes of it, and its place in the tree.
const PARTS: [(&str, &str, &str); 5] = [
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
    (
        "busbar-fakedev",
        "libfakedev.so",
        "lib/fakedev/libcuda.so.1",
    ),
];

/// Builds the tree and says what is in it.
pub fn run(root: &Path, args: &[&str]) -> Result<()> {
    let mut glibc = std::env::var("BUSBAR_GLIBC").ok().filter(|v| !v.is_empty());
    let mut portable = false;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match *arg {
            "--portable" => portable = true,
            "--glibc" => glibc = Some(rest.next().context(USAGE)?.to_string()),
            other => bail!("{other}: unknown argument\n{USAGE}"),
        }
    }
    if let Some(v) = &glibc {
        ensure!(version(v).is_some(), "{v}: not a version such as 2.28");
    }

    let parts = parts(root)?;
    let target = target_folder(root);
    let built = if portable || glibc.is_some() {
        let tools = if portable {
            Zig::install(root)?
        } else {
            Zig::find(root).context(
                "a build for a given glibc needs cargo-zigbuild and ziglang; \
                 `cargo xtask dist --portable` installs them",
            )?
        };
        let triple = format!("{TRIPLE}.{}", glibc.as_deref().unwrap_or(OLDEST_GLIBC));
        let mut build = tools.build();
        build.args(["--target", &triple]);
        compile(build, root, &parts)?;
        target.join(TRIPLE).join("release")
    } else {
        let mut build = Command::new(cargo());
        build.args(["build", "--release"]);
        compile(build, root, &parts)?;
        target.join("release")
    };
    lay_out(&built, &root.join("dist"), &parts)
}

type Part = (&'static str, &'static str, &'static str);

/// The parts that this checkout has.
fn parts(root: &Path) -> Result<Vec<Part>> {
    let lock = root.join("Cargo.lock");
    let lock = fs::read_to_string(&lock).with_context(|| lock.display().to_string())?;
    let has = |package: &str| lock.contains(&format!("\nname = \"{package}\"\n"));
    Ok(PARTS.into_iter().filter(|(p, ..)| has(p)).collect())
}

fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

/// The folder that cargo builds into; a relative one is relative to where cargo was started.
fn target_folder(root: &Path) -> PathBuf {
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
fn done(command: &mut Command) -> Result<()> {
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
    fn find(root: &Path) -> Option<Self> {
        let zigbuild = in_path("cargo-zigbuild").or_else(|| {
            let ours = root.join(".cache/tools/bin/cargo-zigbuild");
            ours.is_file().then_some(ours)
        })?;
        let zig = std::env::var_os("CARGO_ZIGBUILD_ZIG_PATH")
            .map(PathBuf::from)
            .filter(|p| p.is_file())
            .or_else(|| ziglang(root))
            .or_else(|| in_path("zig"))?;
        Some(Self { zigbuild, zig })
    }

    /// Installs what is missing, inside the repository: ziglang in `.venv`, the rest in `.cache`.
    fn install(root: &Path) -> Result<Self> {
        if let Some(found) = Self::find(root) {
            return Ok(found);
        }
        if ziglang(root).is_none() {
            if !root.join(".venv/bin/python").exists() {
                done(
                    Command::new("python3")
                        .args(["-m", "venv"])
                        .arg(root.join(".venv")),
                )?;
            }
            let mut pip = Command::new(root.join(".venv/bin/python"));
            pip.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ]);
            done(pip.arg("ziglang"))?;
        }
        let tools = root.join(".cache/tools");
        if in_path("cargo-zigbuild").is_none() && !tools.join("bin/cargo-zigbuild").is_file() {
            let mut install = Command::new(cargo());
            install
                .args(["install", "--locked", "cargo-zigbuild", "--root"])
                .arg(&tools);
            // Apart from the workspace, whose target folder it would fill.
            install.env("CARGO_TARGET_DIR", tools.join("target"));
            done(install.current_dir(root))?;
        }
        Self::find(root).context("ziglang is installed, but brought no `zig`")
    }

    fn build(&self) -> Command {
        let mut build = Command::new(&self.zigbuild);
        build.env("CARGO_ZIGBUILD_ZIG_PATH", &self.zig);
        build.args(["zigbuild", "--release"]);
        build
    }
}

/// The `zig` that the Python package ziglang brings.
fn ziglang(root: &Path) -> Option<PathBuf> {
    let script = "import ziglang, os; print(os.path.dirname(ziglang.__file__))";
    [root.join(".venv/bin/python"), "python3".into()]
        .into_iter()
        .find_map(|python| {
            let out = Command::new(python).args(["-c", script]).output().ok()?;
            let zig = Path::new(String::from_utf8(out.stdout).ok()?.trim()).join("zig");
            (out.status.success() && zig.is_file()).then_some(zig)
        })
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Copies what was built to its places. A file may be in use, so a new one takes its name.
fn lay_out(built: &Path, dist: &Path, parts: &[Part]) -> Result<()> {
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
        println!("{:>9}  {}", fs::metadata(&to)?.len(), to_show(dist, place));
        needed.extend(glibc_versions(&to));
    }
    match needed.into_iter().max() {
        Some((major, minor, patch)) => {
            let patch = if patch > 0 {
                format!(".{patch}")
            } else {
                String::new()
            };
            println!("needs glibc {major}.{minor}{patch} or newer");
        }
        None => println!("the glibc that it needs is not known: objdump is missing"),
    }
    Ok(())
}

fn to_show(dist: &Path, place: &str) -> String {
    let dist = dist.file_name().unwrap_or_default().to_string_lossy();
    format!("{dist}/{place}")
}

/// The versions of the C library that a file's symbols ask for; none without `objdump`.
fn glibc_versions(file: &Path) -> Vec<(u32, u32, u32)> {
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

/// `2.28` or `2.2.5`.
fn version(text: &str) -> Option<(u32, u32, u32)> {
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
