//! Where Busbar's libraries are, and how a program is made to find them.

use crate::beside::{self, Item};
use crate::complaint::complain;
use crate::opencl::{self, Loader};
use crate::program;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// After how many seconds ranks that wait for another say for which.
const STALL: &str = "60";

/// Where the shims are.
pub(crate) struct Shims {
    /// The folder with `libcuda.so.1`.
    pub cuda: PathBuf,
    /// The OpenCL driver, when this tree has it.
    pub opencl: Option<PathBuf>,
    /// `libnccl.so.2`, likewise.
    pub nccl: Option<PathBuf>,
}

/// The folders of `LD_LIBRARY_PATH` that are not Busbar's own: it may have been set by
/// `busbar run` around this one.
pub(crate) fn other_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let cuda = shims().ok().map(|s| s.cuda);
    let ours = |d: &Path| {
        let is_cuda = |cuda: &Path| d == cuda || leads_to(d, cuda);
        cuda.as_deref().is_some_and(is_cuda) || opencl::holds_ours(d)
    };
    let given = std::env::split_paths(&path).filter(|d| !d.as_os_str().is_empty());
    given.filter(|d| !ours(d)).collect()
}

/// Finds the shims: `BUSBAR_LIB_DIR`, or `../lib` of where this program lies.
pub(crate) fn shims() -> Result<Shims> {
    let lib = match std::env::var_os("BUSBAR_LIB_DIR") {
        Some(d) => PathBuf::from(d),
        None => {
            let exe = std::env::current_exe().context("cannot find out where busbar lies")?;
            let tree = exe.parent().and_then(Path::parent);
            tree.unwrap_or(Path::new("/")).join("lib")
        }
    };
    let lib = std::path::absolute(&lib).unwrap_or(lib);
    let cuda = lib.join("cuda");
    if !cuda.join("libcuda.so.1").exists() {
        bail!(
            "{} is missing: this tree of Busbar is not whole (`cargo xtask dist` makes one; \
             BUSBAR_LIB_DIR names its lib folder)",
            cuda.join("libcuda.so.1").display()
        );
    }
    let opencl = Some(lib.join("opencl/libbusbar_opencl.so")).filter(|p| p.exists());
    let nccl = Some(lib.join("nccl/libnccl.so.2")).filter(|p| p.exists());
    Ok(Shims { cuda, opencl, nccl })
}

/// The names that programs load CUDA's driver and NVML by, as the driver's own packages have them.
const NAMES: [&str; 2] = ["libcuda.so", "libnvidia-ml.so"];

/// A folder with the libraries under the names without a number, which programs that load them by
/// themselves often ask for. Links: one library under two names is loaded once.
fn unnumbered(cuda: &Path) -> Result<PathBuf> {
    let items = NAMES.map(|name| (name, Item::Link(cuda.join(format!("{name}.1")))));
    beside::folder(&cuda.join("libcuda.so.1"), "unnumbered", &items)
}

/// Whether a folder is one that [`unnumbered`] made for this one.
fn leads_to(folder: &Path, cuda: &Path) -> bool {
    std::fs::read_link(folder.join(NAMES[0])).is_ok_and(|to| to == cuda.join("libcuda.so.1"))
}

/// `LIBRARY_PATH`, in which compilers look for what is linked by `-lcuda`, with this folder at its
/// end: what a program compiles may be for the driver itself.
fn linked_from(links: &Path) -> Result<OsString> {
    let path = std::env::var_os("LIBRARY_PATH").unwrap_or_default();
    let given = std::env::split_paths(&path);
    let others = given.filter(|d| !d.as_os_str().is_empty() && d != links);
    Ok(std::env::join_paths(others.chain([links.to_path_buf()]))?)
}

/// The libraries to be loaded ahead of a program's: ours, and those that it was to have before.
fn preloads(ours: &Path) -> OsString {
    let before = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let before = before.to_string_lossy();
    let mut all = vec![ours.to_string_lossy()];
    // The loader takes both marks between names.
    let names = before.split([':', ' ']).filter(|n| !n.is_empty());
    all.extend(names.filter(|n| Path::new(n) != ours).map(Into::into));
    all.join(":").into()
}

/// The folders of `PATH`, and those with what programs look for there and this machine lacks: this
/// very program, and `nvidia-smi`, which is this one by another name. That goes first, where a
/// script may have the name.
pub(super) fn folders(cuda: &Path) -> Vec<PathBuf> {
    let mut all = program::folders();
    let Ok(exe) = std::env::current_exe() else {
        return all;
    };
    if !all.iter().any(|d| d.join("busbar").is_file()) {
        all.extend(exe.parent().map(Into::into));
    }
    if program::real_smi(all.clone()).is_none() {
        let items = [(program::SMI, Item::Link(exe))];
        match beside::folder(&cuda.join("libcuda.so.1"), "programs", &items) {
            Ok(folder) => all.insert(0, folder),
            Err(e) => complain(format_args!("{e:#}; programs find no {}", program::SMI)),
        }
    }
    all
}

/// Has a program find our libraries, and no others of their names. Where there may be `ranks` that
/// talk to each other it gets our NCCL, unless `nccl` says otherwise.
pub(crate) fn show(c: &mut Command, nccl: Option<bool>, ranks: bool) -> Result<()> {
    let shims = shims()?;
    let mut dirs = other_folders();
    if let Some(driver) = &shims.opencl {
        c.env("OCL_ICD_VENDORS", opencl::vendors(driver)?);
        // Loaders take the drivers that this names beside those of the folder, and before them: a
        // program that takes the first platform would run on this machine's processor.
        c.env_remove("OCL_ICD_FILENAMES");
        if !matches!(Loader::find(&dirs), Loader::Machine(_)) {
            dirs.insert(0, opencl::loader(driver)?);
        }
    }
    match unnumbered(&shims.cuda) {
        Ok(links) => {
            c.env("LIBRARY_PATH", linked_from(&links)?);
            dirs.insert(0, links);
        }
        // Most programs ask for the names with a number.
        Err(e) => complain(format_args!(
            "{e:#}; programs find no {}",
            NAMES.join(", no ")
        )),
    }
    dirs.insert(0, shims.cuda.clone());
    c.env("LD_LIBRARY_PATH", std::env::join_paths(dirs)?);
    // Programs say where their own copy of NCCL lies, so that no path comes before it. That one
    // would not work here, with devices that are elsewhere. But a program that is made for a newer
    // one lacks functions with ours and would not start: where there is one rank, ours is left out.
    match (&shims.nccl, nccl) {
        (_, Some(false)) => drop(c.env("BUSBAR_NCCL", "0")),
        (None, Some(true)) => bail!("--nccl: this tree of Busbar has no lib/nccl/libnccl.so.2"),
        (Some(ours), wanted) if wanted.unwrap_or(ranks) => {
            c.env("LD_PRELOAD", preloads(ours)).env("BUSBAR_NCCL", "1");
            if std::env::var_os("BUSBAR_STALL").is_none() {
                c.env("BUSBAR_STALL", STALL);
            }
        }
        _ => {}
    }
    // A folder with a mark in its name that no list can hold leaves the list as it is.
    if let Ok(path) = std::env::join_paths(folders(&shims.cuda)) {
        c.env("PATH", path);
    }
    // Triton looks for the driver by itself, in the loader's cache first, where a driver may be
    // listed that is gone.
    c.env("TRITON_LIBCUDA_PATH", &shims.cuda);
    Ok(())
}
