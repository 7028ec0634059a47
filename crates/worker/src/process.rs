//! The client's process, where it can be seen from here.
//!
//! A dead program must free its memory at once, a lost link must not. On one host that needs no
//! guess: the kernel tells when a process ends, whatever became of its connection.

use busbar_control::hello::ClientInfo;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// A client's process.
pub(crate) enum Process {
    /// It runs on another host, or in a container of its own.
    Elsewhere,
    /// It had ended before it was looked for.
    Gone,
    /// It runs here.
    Here {
        /// What the client said of it.
        client: ClientInfo,
        /// Readable once the process has ended; `None` from kernels that have no such thing.
        end: Option<OwnedFd>,
    },
}

impl Process {
    /// Looks for the process that a client says it is.
    pub(crate) fn find(client: ClientInfo) -> Self {
        let read = |p: &str| std::fs::read_to_string(p).unwrap_or_default();
        let boot = read("/proc/sys/kernel/random/boot_id");
        let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino());
        let here = client.boot_id == boot.trim() && client.pid_namespace == namespace;
        if !here || client.boot_id.is_empty() || namespace == 0 || client.pid <= 0 {
            return Self::Elsewhere;
        }
        let end = match pidfd(client.pid) {
            Ok(fd) => Some(fd),
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => return Self::Gone,
            Err(_) => None,
        };
        let found = Self::Here { client, end };
        match found.alive() {
            Some(false) => Self::Gone,
            _ => found,
        }
    }

    /// Whether the program that is the client still runs; `None` where that cannot be seen.
    pub(crate) fn alive(&self) -> Option<bool> {
        let (client, end) = match self {
            Self::Elsewhere => return None,
            Self::Gone => return Some(false),
            Self::Here { client, end } => (client, end),
        };
        if end.as_ref().is_some_and(|fd| readable(fd, 0)) {
            return Some(false);
        }
        // The process may have become another program, which has nothing of the session.
        match std::fs::read_to_string(format!("/proc/{}/stat", client.pid)) {
            Ok(stat) => Some(describes(&stat, client, end.is_none())),
            // A system may hide processes of other users; what the descriptor says stands then.
            Err(e) if e.kind() == ErrorKind::NotFound && end.is_none() => Some(false),
            Err(_) => Some(true),
        }
    }

    /// Waits for the process's end. Returns at once, and `false`, where that cannot be seen.
    pub(crate) fn wait(&self) -> bool {
        match self {
            Self::Gone => true,
            Self::Here { end: Some(fd), .. } => readable(fd, -1),
            _ => false,
        }
    }
}

/// Whether a line of `/proc/PID/stat` is of the client's program. `strict` asks for a first thread
/// that lives, too; a program can go on without it.
fn describes(stat: &str, client: &ClientInfo, strict: bool) -> bool {
    let after = stat.rfind(')').map_or("", |i| &stat[i + 1..]);
    let mut fields = after.split_whitespace();
    let state = fields.next().unwrap_or("X");
    let mut number = |skip| fields.nth(skip).and_then(|f| f.parse::<u64>().ok());
    let (start, stack) = (number(18), number(5).unwrap_or(0));
    // Where the stack is, the kernel does not tell everybody, and forgets as the process ends.
    let same = stack == client.stack || stack == 0 || client.stack == 0;
    start == Some(client.start_time) && same && !(strict && matches!(state, "Z" | "X"))
}

/// A descriptor that stands for a process.
fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: no preconditions; a new descriptor is ours.
    unsafe {
        match libc::syscall(libc::SYS_pidfd_open, pid, 0) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd as i32)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Whether a descriptor can be read within so many milliseconds; -1 waits for ever.
fn readable(fd: &impl AsFd, patience: i32) -> bool {
    let mut polled = libc::pollfd {
        fd: fd.as_fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        // SAFETY: one live entry.
        match unsafe { libc::poll(&raw mut polled, 1, patience) } {
            n if n >= 0 => return n > 0,
            _ if io::Error::last_os_error().kind() == ErrorKind::Interrupted => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};
    use std::time::Duration;

    fn child() -> (Child, ClientInfo) {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        // Before it has become `sleep` it is another program.
        while !stat().contains("(sleep)") {
            std::thread::sleep(Duration::from_millis(1));
        }
        let field = |n: usize| {
            let stat = stat();
            let after = &stat[stat.rfind(')').unwrap() + 1..];
            after
                .split_whitespace()
                .nth(n - 3)
                .unwrap()
                .parse()
                .unwrap()
        };
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let client = ClientInfo {
            pid: child.id() as i32,
            start_time: field(22),
            stack: field(28),
            boot_id: boot.trim().into(),
            pid_namespace: std::fs::metadata("/proc/self/ns/pid").unwrap().ino(),
            ..ClientInfo::default()
        };
        (child, client)
    }

    #[test]
    fn a_process_of_this_host_is_seen_until_it_ends() {
        let (mut child, client) = child();
        let p = Process::find(client.clone());
        assert_eq!(p.alive(), Some(true));
        std::thread::scope(|s| {
            let waits = s.spawn(|| p.wait());
            child.kill().unwrap();
            assert!(waits.join().unwrap());
        });
        // Ended, and nobody has asked for its exit status yet.
        assert_eq!(p.alive(), Some(false));
        child.wait().unwrap();
        assert_eq!(p.alive(), Some(false));
        assert_eq!(Process::find(client).alive(), Some(false));
    }

    #[test]
    fn a_number_that_is_anothers_by_now_is_not_the_client() {
        let (mut child, client) = child();
        let later = ClientInfo {
            start_time: client.start_time + 1,
            ..client.clone()
        };
        assert_eq!(Process::find(later).alive(), Some(false));
        let replaced = ClientInfo {
            stack: client.stack + 4096,
            ..client
        };
        let known = replaced.stack != 4096;
        assert_eq!(Process::find(replaced).alive(), Some(!known));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn of_another_host_or_namespace_nothing_is_known() {
        let (mut child, client) = child();
        let foreign = |change: fn(&mut ClientInfo)| {
            let mut c = client.clone();
            change(&mut c);
            Process::find(c)
        };
        for p in [
            foreign(|c| c.boot_id = "another".into()),
            foreign(|c| c.boot_id.clear()),
            foreign(|c| c.pid_namespace += 1),
            foreign(|c| c.pid = -1),
        ] {
            assert_eq!(p.alive(), None);
            assert!(!p.wait());
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
