//! What a worker gives up before it serves anybody.
//!
//! A worker runs code for a client through a vendor's library, and on a CPU device the client's own
//! machine code. What it does not need it should not have, so that a flaw there is worth little.

use busbar_worker::signals;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Marks every descriptor but the standard ones to be closed by the next exec: what the server was
/// started with is none of a worker's business. Async-signal-safe.
pub fn close_the_rest() {
    const CLOEXEC: u32 = 4;
    // SAFETY: closes nothing yet; the kernel checks its arguments. Where the call does not exist,
    // descriptors of our own are marked already.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, CLOEXEC) };
}

/// Keeps what this process knows to itself: other processes of its user cannot look into it or
/// trace it, and a crash leaves no core file. The server does so before it reads its token, and
/// each process that it starts does so first of all.
pub fn keep_to_itself() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: plain system calls, and a pointer to a live structure.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
    }
}

/// Gives up, besides, what no process can need that serves clients: new rights through an exec, and
/// files that others can read.
pub fn give_up_rights() {
    keep_to_itself();
    // SAFETY: plain system calls.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::umask(0o077);
    }
}

/// Gives up what any worker can do without: all of that, and outliving the server.
pub fn harden() {
    // Not death at once: a worker that has to end tells its client first.
    signals::block();
    give_up_rights();
    // SAFETY: a plain system call.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signals::orphaned(), 0, 0, 0) };
}

// The kernel's interface for restricting oneself, from its documentation.
const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 1 << 1;
const SCOPE_SIGNAL: u64 = 1 << 1;
const VERSION: u32 = 1;
const PATH_BENEATH: u32 = 1;
const READING: u64 = EXECUTE | READ_FILE | READ_DIR;
/// What there is to allow of a file that is no folder.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;

#[repr(C)]
struct Ruleset {
    files: u64,
    net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    place: i32,
}

/// The version of the kernel's interface, or why there is none.
pub fn landlock() -> Result<i64, String> {
    let none = std::ptr::null::<Ruleset>();
    // SAFETY: asks for the version; no pointer is read.
    match unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION) } {
        abi if abi >= 1 => Ok(abi),
        _ => Err(
            "this kernel has no Landlock: Linux 5.13, and `landlock` in its list of security \
             modules"
                .into(),
        ),
    }
}

/// Whether a version of the kernel's interface keeps a process from TCP, as Linux 6.7 does: else a
/// socket that is handed over can be given another end.
pub fn keeps_from_tcp(abi: i64) -> bool {
    rules(abi).0.net != 0
}

/// Lets this process, from now on, write only below the folders `writable`, read only there and of
/// the files and below the folders `readable` (those that exist), and signal only itself, as far as
/// the kernel can see to it. It may not use TCP but over connections that it is handed, and these
/// lead where they led.
pub fn sandbox(writable: &[PathBuf], readable: &[PathBuf]) -> Result<(), String> {
    let (rules, size) = rules(landlock()?);
    // SAFETY: a pointer to a live structure of that size; the descriptor that comes is ours.
    let set = unsafe {
        let fd = libc::syscall(libc::SYS_landlock_create_ruleset, &raw const rules, size, 0);
        if fd < 0 {
            return Err(failed("cannot make a ruleset"));
        }
        OwnedFd::from_raw_fd(fd as i32)
    };
    for folder in writable {
        allow(&set, folder, rules.files)?;
    }
    for folder in readable {
        allow(&set, folder, READING)?;
    }
    // SAFETY: a plain system call on an open descriptor. It is for this thread and those it starts:
    // there is no other yet.
    if unsafe { libc::syscall(libc::SYS_landlock_restrict_self, set.as_raw_fd(), 0) } != 0 {
        return Err(failed("cannot restrict this process"));
    }
    Ok(())
}

/// What is to be restricted, as far as a version of the kernel's interface knows it, and the bytes
/// that this version has of the structure.
fn rules(abi: i64) -> (Ruleset, usize) {
    let since = |version, rights: u64| if abi >= version { rights } else { 0 };
    let rules = Ruleset {
        // Everything that makes, changes or removes, besides.
        files: READING
            | WRITE_FILE
            | ((REFER - 1) & !(REMOVE_DIR - 1))
            | since(2, REFER)
            | since(3, TRUNCATE),
        net: since(4, BIND_TCP | CONNECT_TCP),
        scoped: since(6, SCOPE_SIGNAL),
    };
    let size = match abi {
        1..=3 => 8,
        4..=5 => 16,
        _ => size_of::<Ruleset>(),
    };
    (rules, size)
}

/// Allows something of a file or below a folder, if there is one.
fn allow(set: &OwnedFd, place: &Path, allowed: u64) -> Result<(), String> {
    let Ok(path) = CString::new(place.as_os_str().as_encoded_bytes()) else {
        return Ok(());
    };
    // SAFETY: a C string; the descriptor that comes is ours.
    let opened = unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
        if fd < 0 {
            return Ok(());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let rule = Beneath {
        allowed: match place.is_dir() {
            true => allowed,
            false => allowed & OF_FILES,
        },
        place: opened.as_raw_fd(),
    };
    let (number, set) = (libc::SYS_landlock_add_rule, set.as_raw_fd());
    // SAFETY: a pointer to a live structure and descriptors that are open.
    match unsafe { libc::syscall(number, set, PATH_BENEATH, &raw const rule, 0) } {
        0 => Ok(()),
        _ => Err(failed(&format!("cannot allow {}", place.display()))),
    }
}

fn failed(what: &str) -> String {
    format!("{what}: {}", io::Error::last_os_error())
}

/// Where a worker writes: the devices, and what vendors' libraries keep and need for a moment.
pub fn writable() -> Vec<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let mut all: Vec<_> = ["/dev", "/proc/self", "/tmp", "/var/tmp"]
        .map(PathBuf::from)
        .into();
    let named_all = ["TMPDIR", "CUDA_CACHE_PATH", "POCL_CACHE_DIR"];
    all.extend(named_all.into_iter().filter_map(named));
    all.extend(named("HOME").map(|h| h.join(".nv")));
    all
}

/// What a worker reads of the system: its programs, libraries and settings. Not `/var/lib` and all
/// of `/run`: services keep their keys there, this one its own.
pub const SYSTEM: [&str; 14] = [
    "/usr",
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/opt",
    "/proc",
    "/sys",
    "/run/nvidia-persistenced",
    "/run/opengl-driver",
    "/run/current-system",
    "/nix",
    "/gnu",
];

/// What it reads besides: its own program, the libraries that it was given with those that lie
/// beside them, and the folders in which the loader looks. Whatever else lies beside a program or a
/// library, a token file for instance, is not for workers.
pub fn given(libraries: &[Option<&str>]) -> Vec<PathBuf> {
    let mut all: Vec<_> = std::env::current_exe().into_iter().collect();
    for library in libraries.iter().flatten().map(PathBuf::from) {
        let Ok(real) = library.canonicalize() else {
            continue;
        };
        all.extend(beside(&real));
        all.extend([library, real].into_iter().filter(|p| p.is_absolute()));
    }
    all.sort();
    all.dedup();
    for list in ["LD_LIBRARY_PATH", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"] {
        let value = std::env::var_os(list).unwrap_or_default();
        all.extend(std::env::split_paths(&value).filter(|p| p.is_absolute()));
    }
    all
}

/// The libraries in a library's folder.
fn beside(library: &Path) -> Vec<PathBuf> {
    let files = library.parent().and_then(|d| std::fs::read_dir(d).ok());
    let files = files.into_iter().flatten().flatten().map(|f| f.path());
    let is_library = |p: &PathBuf| {
        let name = p.file_name().unwrap_or_default().to_string_lossy();
        let numbered = name.split_once(".so.").map(|(_, n)| n);
        name.ends_with(".so")
            || numbered.is_some_and(|n| n.chars().all(|c| c == '.' || c.is_ascii_digit()))
    };
    files.filter(|p| is_library(p) && p.is_file()).collect()
}

/// Has a process that is about to begin take all signals, whatever this one holds back. Safe
/// between fork and exec.
pub fn take_all_signals() {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: a set that the first call makes whole.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const CHILD: &str = "BUSBAR_TEST_CONFINED";

    /// What a confined process can still do, one letter each.
    fn confined(allowed: &str, secret: &str, port: u16) -> String {
        harden();
        let file = Path::new(allowed).with_file_name("file");
        let mut readable = SYSTEM.map(PathBuf::from).to_vec();
        readable.push(file.clone());
        let have = sandbox(&[allowed.into(), "/dev".into()], &readable);
        if have.is_err() || crate::filter::install(false).is_err() {
            return "no Landlock".into();
        }
        let inside = std::fs::write(Path::new(allowed).join("x"), "x").is_ok();
        let outside = std::fs::write(Path::new(secret).with_extension("new"), "x").is_ok();
        let read = std::fs::read(secret).is_ok();
        let system = std::fs::read("/proc/self/status").is_ok() && std::fs::read(file).is_ok();
        let connected = std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
            || std::net::UdpSocket::bind("127.0.0.1:0").is_ok();
        let local = std::os::unix::net::UnixStream::pair().is_ok()
            && std::os::unix::net::UnixDatagram::unbound().is_ok();
        // SAFETY: kill with signal 0 only asks.
        let signal = unsafe { libc::kill(libc::getppid(), 0) } == 0;
        format!("{inside} {system} {local} | {outside} {read} {connected} {signal}")
    }

    #[test]
    fn what_lies_beside_a_program_or_a_library_is_not_for_workers() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let names = ["libx.so.1.2", "liby.so", "token", "server.key", "a.so.pem"];
        for name in names {
            std::fs::write(path(name), name).unwrap();
        }
        std::fs::create_dir(path("state.so")).unwrap();
        std::os::unix::fs::symlink("libx.so.1.2", path("libx.so.1")).unwrap();
        let asked = path("libx.so.1").display().to_string();
        let given = given(&[Some(&asked), None]);
        assert!(given.contains(&std::env::current_exe().unwrap()));
        let inside: Vec<_> = given.iter().filter(|p| p.starts_with(&dir)).collect();
        let wanted = ["libx.so.1", "libx.so.1.2", "liby.so"].map(path);
        assert_eq!(inside, wanted.iter().collect::<Vec<_>>());
        let folders = given.iter().filter(|p| p.is_dir());
        let lists = ["LD_LIBRARY_PATH", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"];
        let lists = lists.map(|l| std::env::var(l).unwrap_or_default());
        for f in folders {
            let f = f.display().to_string();
            assert!(lists.iter().any(|l| l.contains(&f)), "{f}");
        }
    }

    #[test]
    fn a_confined_process_reaches_only_what_it_may() {
        if let Ok(v) = std::env::var(CHILD) {
            let [allowed, secret, port] = v.split(':').collect::<Vec<_>>()[..] else {
                panic!("three parts");
            };
            println!("=[{}]", confined(allowed, secret, port.parse().unwrap()));
            std::io::stdout().flush().unwrap();
            return;
        }
        // Beside /tmp and the folders of the system: where this test program lies.
        let exe = std::env::current_exe().unwrap();
        let aside = exe.ancestors().nth(3).unwrap();
        let folder = aside.join(format!("confined-{}", std::process::id()));
        let allowed = folder.join("allowed");
        std::fs::create_dir_all(&allowed).unwrap();
        let secret = folder.join("secret");
        std::fs::write(&secret, "s").unwrap();
        std::fs::write(folder.join("file"), "f").unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let value = format!("{}:{}:{port}", allowed.display(), secret.display());
        let out = std::process::Command::new(&exe)
            .args([
                "--exact",
                "confine::tests::a_confined_process_reaches_only_what_it_may",
            ])
            .arg("--nocapture")
            .env(CHILD, value)
            .env_remove("LD_LIBRARY_PATH")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        std::fs::remove_dir_all(&folder).unwrap();
        let said = text.split("=[").nth(1).and_then(|t| t.split(']').next());
        match said {
            Some("no Landlock") => {}
            // Older kernels do not see to signals.
            Some(s) => {
                let (can, cannot) = s.split_once(" | ").unwrap();
                assert_eq!(can, "true true true");
                assert!(cannot.starts_with("false false false"), "{s}");
            }
            None => panic!("{text}{}", String::from_utf8_lossy(&out.stderr)),
        }
    }
}
