//! A root folder with nothing but what drivers and compilers need, read only, and an empty `/tmp`.

use super::failed;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Where the new root is put together. Every system has it.
const AT: &str = "/tmp";
/// What is there of the system. Links among them, like `/bin`, stay links.
const SYSTEM: [&str; 14] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/sys",
    "/run/nvidia-persistenced",
    "/run/opengl-driver",
];
/// Device files that any program needs.
const PLAIN: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// Folders of `/dev` that drivers of accelerators have.
const DRIVERS: [&str; 2] = ["dri", "nvidia-caps"];

/// The kernel's `struct mount_attr`.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}
const READ_ONLY: u64 = 1;
const NO_SETUID: u64 = 2;
const RECURSIVE: i32 = 0x8000;

fn c(path: &Path) -> Result<CString, String> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| "a path with a zero in it".into())
}

/// `mount(2)`.
fn mount(
    from: &CStr,
    to: &Path,
    kind: &CStr,
    flags: libc::c_ulong,
    data: &CStr,
) -> Result<(), String> {
    let target = c(to)?;
    // SAFETY: C strings.
    let rc = unsafe {
        libc::mount(
            from.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            flags,
            data.as_ptr().cast(),
        )
    };
    match rc {
        0 => Ok(()),
        _ => Err(failed(format_args!("cannot mount {}", to.display()))),
    }
}

/// A place in the tree as it is now, to be mounted somewhere else.
struct Source {
    path: PathBuf,
    fd: OwnedFd,
    folder: bool,
}

/// Opens what is at a path, if there is something; a last link is followed.
fn open(path: &Path) -> Option<Source> {
    let folder = fs::metadata(path).ok()?.is_dir();
    let name = c(path).ok()?;
    // SAFETY: a C string; the descriptor that comes is ours.
    let fd = unsafe {
        let fd = libc::open(name.as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
        if fd < 0 {
            return None;
        }
        OwnedFd::from_raw_fd(fd)
    };
    let path = path.to_path_buf();
    Some(Source { path, fd, folder })
}

impl Source {
    /// Shows it below `root` at its own path.
    fn bind(&self, root: &Path, read_only: bool) -> Result<(), String> {
        let below = self.path.strip_prefix("/").unwrap_or(&self.path);
        let to = root.join(below);
        let made = match (self.folder, to.parent()) {
            (true, _) => fs::create_dir_all(&to),
            (false, Some(folder)) => fs::create_dir_all(folder).and_then(|()| fs::write(&to, [])),
            (false, None) => Ok(()),
        };
        made.map_err(|e| format!("cannot make {}: {e}", to.display()))?;
        let from = CString::new(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
            .map_err(|e| e.to_string())?;
        let flags = libc::MS_BIND | libc::MS_REC;
        mount(&from, &to, c"", flags, c"")?;
        if !read_only {
            return Ok(());
        }
        let attributes = Attributes {
            set: READ_ONLY | NO_SETUID,
            clear: 0,
            propagation: 0,
            user_namespace: 0,
        };
        let (name, size) = (c(&to)?, size_of::<Attributes>());
        // SAFETY: a C string and a pointer to a live structure of the size given.
        let rc = unsafe {
            let call = libc::SYS_mount_setattr;
            let place = (name.as_ptr(), &raw const attributes);
            libc::syscall(call, libc::AT_FDCWD, place.0, RECURSIVE, place.1, size)
        };
        if rc == 0 {
            return Ok(());
        }
        // Kernels before 5.12 change one mount at a time.
        let flags = libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY | libc::MS_NOSUID;
        mount(c"", &to, c"", flags, c"")
    }
}

/// Which of the machine's RDMA devices a cell has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Adapters {
    /// None.
    #[default]
    None,
    /// All: their folder, in which one that goes and comes back is there again.
    All,
    /// The one of this name, as it is when the cell is made, and nothing of the others: they may be
    /// other tenants' (virtual functions).
    Named(String),
}

impl Adapters {
    /// The files by which they are used.
    fn files(&self, root: &Path) -> Vec<PathBuf> {
        let folder = Path::new("infiniband");
        let dev = root.join("dev");
        match self {
            Self::None => Vec::new(),
            Self::All => vec![dev.join(folder)],
            Self::Named(name) => {
                let all = fs::read_dir(root.join("sys/class/infiniband_verbs"));
                let all = all.into_iter().flatten().flatten();
                let is_it = |f: &fs::DirEntry| {
                    fs::read_to_string(f.path().join("ibdev")).is_ok_and(|of| of.trim() == name)
                };
                let its = all.filter(is_it).map(|f| folder.join(f.file_name()));
                its.map(|file| dev.join(file)).collect()
            }
        }
    }
}

/// The device files of accelerators, and those of adapters that are wanted.
fn devices(adapters: &Adapters) -> Vec<PathBuf> {
    let dev = Path::new("/dev");
    let all = fs::read_dir(dev).into_iter().flatten().flatten();
    let names = all.map(|f| f.file_name());
    let ours = names.filter(|n| {
        let n = n.to_string_lossy();
        n.starts_with("nvidia") || n == "kfd" || n == "dxg" || DRIVERS.contains(&&*n)
    });
    let accelerators = ours.map(|n| dev.join(n));
    accelerators.chain(adapters.files(Path::new("/"))).collect()
}

/// The groups that may use device files which are not for everybody.
pub(super) fn groups(adapters: &Adapters) -> Vec<u32> {
    use std::os::unix::fs::MetadataExt;
    let inside = |p: PathBuf| match p.is_dir() {
        true => fs::read_dir(p)
            .into_iter()
            .flatten()
            .flatten()
            .map(|f| f.path())
            .collect(),
        false => vec![p],
    };
    let files = devices(adapters).into_iter().flat_map(inside);
    let mut groups: Vec<_> = files
        .filter_map(|p| fs::metadata(p).ok())
        .filter(|m| m.mode() & 0o006 != 0o006 && m.mode() & 0o060 == 0o060 && m.gid() != 0)
        .map(|m| m.gid())
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// The places among these that lie in no other of them, nor in what all roots have.
fn outermost(places: &[PathBuf]) -> Vec<PathBuf> {
    let mut all: Vec<_> = places.iter().filter(|f| f.is_absolute()).collect();
    all.sort();
    let mut out = Vec::<PathBuf>::new();
    for f in all {
        let known = SYSTEM.map(Path::new);
        let whole = ["/", "/proc", "/dev", "/tmp", "/var", "/var/tmp", "/run"];
        let covered = out
            .iter()
            .map(PathBuf::as_path)
            .chain(known)
            .any(|c| f.starts_with(c));
        if !covered && !whole.iter().any(|w| f == Path::new(w)) {
            out.push(f.clone());
        }
    }
    out
}

/// Gives this process a root folder of its own, in a mount namespace that is its own already. The
/// files and folders `places` are to be read there besides; `processes` says that the process
/// namespace is its own, `adapters` which of these it has. Returns whether `/proc` is that
/// namespace's: a container may be allowed none but its own.
pub(super) fn build(
    places: &[PathBuf],
    processes: bool,
    adapters: &Adapters,
) -> Result<bool, String> {
    let root = Path::new("/");
    mount(c"", root, c"", libc::MS_REC | libc::MS_PRIVATE, c"")?;
    // Before anything lies on top of them.
    let mut links = Vec::new();
    let mut sources = Vec::new();
    for path in SYSTEM.map(Path::new) {
        match fs::read_link(path) {
            Ok(to) if path.parent() == Some(root) => links.push((path, to)),
            _ => sources.extend(open(path)),
        }
    }
    sources.extend(outermost(places).iter().filter_map(|p| open(p)));
    let plain = PLAIN.map(|n| Path::new("/dev").join(n));
    let devices: Vec<_> = plain.into_iter().chain(devices(adapters)).collect();
    let devices: Vec<_> = devices.iter().filter_map(|p| open(p)).collect();
    let old_proc = open(Path::new("/proc")).ok_or("there is no /proc")?;

    let new = Path::new(AT);
    let safe = libc::MS_NOSUID;
    mount(c"busbar", new, c"tmpfs", safe, c"mode=755,size=16m")?;
    for s in &sources {
        s.bind(new, true)?;
    }
    let at = |name: &str| new.join(name);
    let io = |e: io::Error| format!("cannot put a root folder together: {e}");
    for name in ["proc", "dev", "tmp", "var", "run"] {
        fs::create_dir_all(at(name)).map_err(io)?;
    }
    for (link, to) in links {
        let below = link.strip_prefix("/").unwrap_or(link);
        symlink(to, new.join(below)).map_err(io)?;
    }
    if fs::symlink_metadata(at("var/tmp")).is_err() {
        symlink("../tmp", at("var/tmp")).map_err(io)?;
    }
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let named = |data: &&CStr| mount(c"proc", &at("proc"), c"proc", flags, data).is_ok();
    let own_proc = processes && [c"hidepid=invisible", c"hidepid=2", c""].iter().any(named);
    if !own_proc {
        old_proc.bind(new, false)?;
    }
    mount(c"busbar", &at("dev"), c"tmpfs", safe, c"mode=755,size=1m")?;
    for d in &devices {
        d.bind(new, false)?;
    }
    fs::create_dir_all(at("dev/shm")).map_err(io)?;
    let shm = c"mode=1777,size=50%";
    mount(
        c"busbar",
        &at("dev/shm"),
        c"tmpfs",
        safe | libc::MS_NODEV,
        shm,
    )?;
    symlink("/proc/self/fd", at("dev/fd")).map_err(io)?;
    fs::set_permissions(at("tmp"), PermissionsExt::from_mode(0o755)).map_err(io)?;
    let flags = libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY | libc::MS_NOSUID;
    mount(c"", new, c"", flags, c"")?;
    change_to(new).map(|()| own_proc)
}

/// Makes a folder this process's root, and lets go of the old one.
fn change_to(new: &Path) -> Result<(), String> {
    let name = c(new)?;
    let here = c".".as_ptr();
    // SAFETY: C strings. The old root is mounted over the new one for a moment, and taken away.
    let done = unsafe {
        libc::chdir(name.as_ptr()) == 0
            && libc::syscall(libc::SYS_pivot_root, here, here) == 0
            && libc::umount2(here, libc::MNT_DETACH) == 0
            && libc::chdir(c"/".as_ptr()) == 0
    };
    match done {
        true => Ok(()),
        false => Err(failed("cannot change the root folder")),
    }
}

/// Gives this process an empty `/tmp` of its own, in a mount namespace that is its own already;
/// those of `places` that lie there stay.
pub(super) fn own_tmp(places: &[PathBuf]) -> Result<(), String> {
    let kept = outermost(places);
    let kept = kept.iter().filter(|p| p.starts_with(AT));
    let kept: Vec<_> = kept.filter_map(|p| open(p)).collect();
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    let data = c"mode=1777,size=25%";
    mount(c"busbar", Path::new(AT), c"tmpfs", flags, data)?;
    kept.iter().try_for_each(|s| s.bind(Path::new("/"), true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_adapters_there_is_what_was_named_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/class/infiniband_verbs");
        for (file, name) in [
            ("uverbs0", "mlx5_0"),
            ("uverbs1", "mlx5_1"),
            ("uverbs7", "mlx5_10"),
        ] {
            fs::create_dir_all(folder.join(file)).unwrap();
            fs::write(folder.join(file).join("ibdev"), format!("{name}\n")).unwrap();
        }
        fs::write(folder.join("abi_version"), "6\n").unwrap();
        let dev = |file: &str| root.path().join("dev/infiniband").join(file);
        let named = |name: &str| Adapters::Named(name.into()).files(root.path());
        assert_eq!(named("mlx5_1"), [dev("uverbs1")]);
        assert!(named("mlx5_2").is_empty());
        assert_eq!(Adapters::All.files(root.path()), [dev("")]);
        assert!(Adapters::None.files(root.path()).is_empty());
    }

    #[test]
    fn what_lies_in_another_folder_is_not_named_again() {
        let all = [
            "/usr/lib/x",
            "/a/b",
            "/a",
            "/a/c",
            "rel",
            "/",
            "/tmp",
            "/tmp/x",
        ];
        let out = outermost(&all.map(PathBuf::from));
        assert_eq!(out, ["/a", "/tmp/x"].map(PathBuf::from));
    }
}
