//! Where Busbar's libraries are, and how a program is made to find them.

use crate::beside::{self, Item};
use crate::complaint::complain;
use crate::opencl::{self, Loader};
use crate::program;
use anyhow::{Context, Result, bail};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
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
    /// What has CUPTI's functions, likewise.
    pub cupti: Option<PathBuf>,
}

/// The folders of `LD_LIBRARY_PATH` that are not Busbar's own: it may have been set by
/// `busbar run` around this one.
pub(crate) fn other_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let shims = shims().ok();
    let ours = |d: &Path| {
        let of_shims = |s: &Shims| {
            let cupti = s.cupti.as_deref().is_some_and(|c| has_cupti(d, c));
            d == s.cuda || leads_to(d, &s.cuda) || cupti
        };
        shims.as_ref().is_some_and(of_shims) || opencl::holds_ours(d)
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
    let cupti = Some(lib.join("cupti/libbusbar_cupti.so.1")).filter(|p| p.exists());
    Ok(Shims {
        cuda,
        opencl,
        nccl,
        cupti,
    })
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

/// The names that programs load CUPTI by. Those that are linked with it bring NVIDIA's along, in a
/// folder that they name themselves: for them ours is preloaded.
const OF_CUPTI: [&str; 3] = ["libcupti.so", "libcupti.so.12", "libcupti.so.13"];
/// Where Triton's profiler looks for the first of them, and nowhere else.
const TRITON_CUPTI: &str = "TRITON_CUPTI_LIB_PATH";

/// A folder with CUPTI under those names. It is one of its own, so that there is none of it for
/// programs that are to have none, and compilers are not led there: what they link with ours would
/// need ours wherever it runs.
fn named_cupti(ours: &Path) -> Result<PathBuf> {
    let items = OF_CUPTI.map(|name| (name, Item::Link(ours.to_path_buf())));
    beside::folder(ours, "names", &items)
}

/// Whether a folder is one that [`named_cupti`] made for this one.
fn has_cupti(folder: &Path, ours: &Path) -> bool {
    std::fs::read_link(folder.join(OF_CUPTI[0])).is_ok_and(|to| to == ours)
}

/// Whether profilers are to be told of kernels: unless `BUSBAR_CUPTI` says no.
fn has_profilers() -> bool {
    let said = std::env::var("BUSBAR_CUPTI").unwrap_or_default();
    !matches!(said.trim(), "0" | "off" | "no")
}

/// Has a program find our CUPTI by name.
fn show_cupti(c: &mut Command, ours: &Path, dirs: &mut Vec<PathBuf>) {
    match named_cupti(ours) {
        Ok(names) => {
            if std::env::var_os(TRITON_CUPTI).is_none() {
                c.env(TRITON_CUPTI, &names);
            }
            // Behind all others: of what is linked with NVIDIA's, the loader says that versions are
            // missing if it meets ours by that name, and ours is preloaded anyway.
            dirs.push(names);
        }
        // Most programs are linked with it.
        Err(e) => complain(format_args!("{e:#}; programs find no {}", OF_CUPTI[0])),
    }
}

/// Takes from a program what a run around this one has told it of our CUPTI.
fn hide_cupti(c: &mut Command, ours: &Path) {
    if std::env::var_os(TRITON_CUPTI).is_some_and(|d| has_cupti(Path::new(&d), ours)) {
        c.env_remove(TRITON_CUPTI);
    }
}

/// The loader takes both marks between the names of `LD_PRELOAD`, so that no name has one.
fn is_mark(byte: &u8) -> bool {
    matches!(byte, b':' | b' ')
}

/// The libraries to be loaded ahead of a program's: those of ours that it is to have, and what it
/// was to have before. A run around this one may have put any of `ours` there.
fn preloads(wanted: &[&Path], ours: &[&Path], before: &OsStr) -> OsString {
    let mut all: Vec<_> = wanted.iter().map(|p| p.as_os_str().as_bytes()).collect();
    let is_ours = |name: &[u8]| ours.iter().any(|p| p.as_os_str().as_bytes() == name);
    let theirs = |name: &&[u8]| !name.is_empty() && !is_ours(name);
    all.extend(before.as_bytes().split(is_mark).filter(theirs));
    OsString::from_vec(all.join(&b':'))
}

/// What gcc's AddressSanitizer is told: it ends a program in which it is not the first library.
/// Ours take nobody's `malloc`, which is what it is afraid of.
fn sanitized(said: Option<OsString>) -> OsString {
    const ORDER: &str = "verify_asan_link_order";
    let mut all = said.unwrap_or_default();
    if !all.to_string_lossy().contains(ORDER) {
        if !all.is_empty() {
            all.push(":");
        }
        all.push(format!("{ORDER}=0"));
    }
    all
}

/// Has a program load these of our libraries ahead of its own.
fn preload(c: &mut Command, shims: &Shims, mut wanted: Vec<&Path>) {
    wanted.retain(|p| {
        let good = !p.as_os_str().as_bytes().iter().any(is_mark);
        if !good {
            let path = p.display();
            complain(format_args!(
                "{path} cannot be preloaded, since there is a space in it: programs do without it"
            ));
        }
        good
    });
    preload_exactly(c, preloads_with(shims, &wanted));
}

/// What is preloaded where these of our libraries are, and what was to be before.
fn preloads_with(shims: &Shims, wanted: &[&Path]) -> OsString {
    let ours = [&shims.nccl, &shims.cupti].into_iter().flatten();
    let ours: Vec<_> = ours.map(PathBuf::as_path).collect();
    let before = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    preloads(wanted, &ours, &before)
}

/// Has a program of the server's load nothing of ours ahead: it may have been set by `busbar run`
/// around this one.
pub(crate) fn preload_none_of_ours(c: &mut Command) {
    if let Ok(shims) = shims() {
        preload_exactly(c, preloads_with(&shims, &[]));
    }
}

/// Sets what is preloaded.
fn preload_exactly(c: &mut Command, all: OsString) {
    if !all.is_empty() {
        c.env("LD_PRELOAD", all);
        c.env("ASAN_OPTIONS", sanitized(std::env::var_os("ASAN_OPTIONS")));
    } else if std::env::var_os("LD_PRELOAD").is_some() {
        c.env_remove("LD_PRELOAD");
    }
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
/// talk to each other it gets our NCCL, unless `nccl` says otherwise. Profilers in it find our
/// CUPTI.
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
    let mut preloaded: Vec<&Path> = Vec::new();
    match &shims.cupti {
        Some(ours) if has_profilers() => {
            preloaded.push(ours);
            show_cupti(c, ours, &mut dirs);
        }
        Some(ours) => hide_cupti(c, ours),
        None => {}
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
            preloaded.push(ours);
            c.env("BUSBAR_NCCL", "1");
            if std::env::var_os("BUSBAR_STALL").is_none() {
                c.env("BUSBAR_STALL", STALL);
            }
        }
        _ => {}
    }
    preload(c, &shims, preloaded);
    // A folder with a mark in its name that no list can hold leaves the list as it is.
    if let Ok(path) = std::env::join_paths(folders(&shims.cuda)) {
        c.env("PATH", path);
    }
    // Triton looks for the driver by itself, in the loader's cache first, where a driver may be
    // listed that is gone.
    c.env("TRITON_LIBCUDA_PATH", &shims.cuda);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_loaded_first_and_once() {
        let [cupti, nccl, other] = ["/l/cupti.so", "/l/nccl.so", "/tmp/mine.so"].map(Path::new);
        let ours = [nccl, cupti];
        let list = |wanted: &[&Path], before: &str| {
            let all = preloads(wanted, &ours, OsStr::new(before));
            all.into_string().unwrap()
        };
        assert_eq!(list(&[], ""), "");
        assert_eq!(list(&[cupti], ""), "/l/cupti.so");
        assert_eq!(list(&[cupti, nccl], ""), "/l/cupti.so:/l/nccl.so");
        // What the program has stays, in its order.
        let both = format!("{} libc.so.6", other.display());
        assert_eq!(list(&[cupti], &both), "/l/cupti.so:/tmp/mine.so:libc.so.6");
        assert_eq!(list(&[], ":mine.so "), "mine.so");
        // A run inside another: its own choice holds.
        let around = list(&[cupti, nccl], "/tmp/mine.so");
        assert_eq!(list(&[cupti, nccl], &around), around);
        assert_eq!(list(&[cupti], &around), "/l/cupti.so:/tmp/mine.so");
        assert_eq!(list(&[], &around), "/tmp/mine.so");
    }

    #[test]
    fn a_sanitizer_takes_what_is_preloaded() {
        let said = |was: &str| sanitized(Some(was.into())).into_string().unwrap();
        assert_eq!(sanitized(None), "verify_asan_link_order=0");
        assert_eq!(said("log_path=x"), "log_path=x:verify_asan_link_order=0");
        // Who says something of it means it; and a run inside another says it once.
        assert_eq!(said("verify_asan_link_order=1"), "verify_asan_link_order=1");
    }

    #[test]
    fn cupti_has_a_folder_with_its_names() {
        let tree = tempfile::tempdir().unwrap();
        let ours = tree.path().join("libbusbar_cupti.so.1");
        let names = named_cupti(&ours).unwrap();
        assert_eq!(std::fs::read_dir(&names).unwrap().count(), OF_CUPTI.len());
        assert!(has_cupti(&names, &ours));
        assert!(!has_cupti(&names, &tree.path().join("other.so")));
        assert!(!has_cupti(tree.path(), &ours));
    }
}
