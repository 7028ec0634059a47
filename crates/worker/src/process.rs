//! The client's process, where it can be seen from here.
//!
//! A dead program must free its memory at once, a lost link must not. On one host that needs no
//! guess: the kernel tells when a process ends, whatever became of its connection. The server looks
//! for the process, since a worker may see no process but its own, and gives the worker what it
//! takes to see that one's end.

use busbar_control::attach::Place;
use busbar_control::hello::ClientInfo;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};

/// A client's process.
pub enum Process {
    /// It runs on another host, or in a container of its own.
    Elsewhere,
    /// It had ended before it was looked for.
    Gone,
    /// It runs here.
    Here {
        /// What the client said of it.
        client: ClientInfo,
        /// Its `/proc/PID/stat`, open; `None` where a system hides processes of other users.
        stat: Option<File>,
        /// Its `/proc/PID/maps`, open, of which there is nothing more to read once the process is
        /// another program. It says where all lies in the process, to whoever has the descriptor:
        /// `None` as above, and unless the process itself has the other end of the connection.
        maps: Option<File>,
        /// Readable once the process has ended; `None` from kernels that have no such thing.
        end: Option<OwnedFd>,
    },
}

impl Process {
    /// Looks for the process that a client says it is. `ends` are those of its connection, ours
    /// first.
    pub fn find(client: ClientInfo, ends: Option<[SocketAddr; 2]>) -> Self {
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
        let stat = match File::open(format!("/proc/{}/stat", client.pid)) {
            Err(e) if e.kind() == ErrorKind::NotFound && end.is_none() => return Self::Gone,
            stat => stat.ok(),
        };
        let speaks = ends.is_some_and(|ends| has_other_end(client.pid, ends));
        let maps = speaks.then(|| File::open(format!("/proc/{}/maps", client.pid)).ok());
        let maps = maps.flatten();
        let found = Self::Here {
            client,
            stat,
            maps,
            end,
        };
        match found.alive() {
            Some(false) => Self::Gone,
            _ => found,
        }
    }

    /// How it is handed to another process: what is known of it, and descriptors.
    pub fn hand_over(self) -> (Place, Vec<OwnedFd>) {
        match self {
            Self::Elsewhere => (Place::Elsewhere, Vec::new()),
            Self::Gone => (Place::Gone, Vec::new()),
            Self::Here {
                stat, maps, end, ..
            } => {
                let place = Place::Here {
                    stat: stat.is_some(),
                    maps: maps.is_some(),
                    end: end.is_some(),
                };
                let files = stat.into_iter().chain(maps).map(OwnedFd::from);
                (place, files.chain(end).collect())
            }
        }
    }

    /// What another process has found.
    pub(crate) fn taken_over(place: Place, fds: Vec<OwnedFd>, client: ClientInfo) -> Self {
        let mut fds = fds.into_iter();
        match place {
            Place::Elsewhere => Self::Elsewhere,
            Place::Gone => Self::Gone,
            Place::Here { stat, maps, end } => Self::Here {
                client,
                stat: stat.then(|| fds.next().map(File::from)).flatten(),
                maps: maps.then(|| fds.next().map(File::from)).flatten(),
                end: end.then(|| fds.next()).flatten(),
            },
        }
    }

    /// Whether the program that is the client still runs; `None` where that cannot be seen.
    pub(crate) fn alive(&self) -> Option<bool> {
        let (client, stat, maps, end) = match self {
            Self::Elsewhere => return None,
            Self::Gone => return Some(false),
            Self::Here {
                client,
                stat,
                maps,
                end,
            } => (client, stat, maps, end),
        };
        let over = |f: &File| match f.read_at(&mut [0], 0) {
            Ok(n) => n == 0,
            Err(e) => e.raw_os_error() == Some(libc::ESRCH),
        };
        if maps.as_ref().is_some_and(over) {
            return Some(false);
        }
        if end.as_ref().is_some_and(|fd| readable(fd, 0)) {
            return Some(false);
        }
        let Some(file) = stat else { return Some(true) };
        // The process may have become another program, which has nothing of the session.
        let mut text = [0; 1024];
        match file.read_at(&mut text, 0) {
            Ok(n) if n > 0 => {
                let stat = String::from_utf8_lossy(&text[..n]);
                Some(describes(&stat, client, end.is_none()))
            }
            // The file is of one process, whatever its number stands for by now.
            _ => Some(false),
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

/// Whether a process has the other end of a connection on this host: a client may say that it is
/// any process.
fn has_other_end(pid: i32, [ours, theirs]: [SocketAddr; 2]) -> bool {
    let read = |p: &str| std::fs::read_to_string(p).unwrap_or_default();
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(read);
    let socket = tables.iter().find_map(|t| inode(t, theirs, ours));
    let Some(socket) = socket.map(|inode| format!("socket:[{inode}]")) else {
        return false;
    };
    let all = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let mut all = all.into_iter().flatten().flatten();
    all.any(|f| std::fs::read_link(f.path()).is_ok_and(|to| to.as_os_str() == socket.as_str()))
}

/// The number of the socket with these ends, in the kernel's table of sockets.
fn inode(table: &str, from: SocketAddr, to: SocketAddr) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let is = |i: usize, wanted| fields.get(i).and_then(|f| end(f)) == Some(wanted);
        let number = fields.get(9).filter(|_| is(1, from) && is(2, to));
        number?.parse().ok().filter(|n| *n != 0)
    })
}

/// An address of that table: words in hexadecimal digits, as they lie in memory, and the port.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |i: usize| u32::from_str_radix(address.get(8 * i..8 * i + 8)?, 16).ok();
    let address = match address.len() {
        8 => IpAddr::from(word(0)?.to_ne_bytes()),
        32 => {
            let mut bytes = [0; 16];
            for (i, place) in bytes.chunks_exact_mut(4).enumerate() {
                place.copy_from_slice(&word(i)?.to_ne_bytes());
            }
            IpAddr::from(bytes)
        }
        _ => return None,
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(SocketAddr::new(address.to_canonical(), port))
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
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    /// A connection: the server's end and its addresses, and the client's end.
    fn connection(address: &str) -> (TcpStream, [SocketAddr; 2], TcpStream) {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, peer) = listener.accept().unwrap();
        let ends = [ours.local_addr().unwrap(), peer];
        (ours, ends, theirs)
    }

    fn child() -> (Child, ClientInfo) {
        child_with(Stdio::null())
    }

    fn child_with(stdin: Stdio) -> (Child, ClientInfo) {
        let mut c = Command::new("sleep");
        let child = c.arg("600").stdin(stdin).spawn().unwrap();
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        // Before it has become `sleep` it is another program, and where its stack is, the kernel
        // knows some time after its name: when it sleeps it has long begun.
        while !stat().contains("(sleep) S") {
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
        let (place, fds) = Process::find(client.clone(), None).hand_over();
        let p = Process::taken_over(place, fds, client.clone());
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
        assert_eq!(Process::find(client, None).alive(), Some(false));
    }

    #[test]
    fn a_process_that_is_another_program_is_not_the_client() {
        let (mut first, mut client) = child();
        first.kill().unwrap();
        first.wait().unwrap();
        let mut c = Command::new("sh");
        let (mut ours, ends, theirs) = connection("127.0.0.1");
        let child = c.args(["-c", "read _; exec sleep 600"]);
        let child = child.stdin(Stdio::from(OwnedFd::from(theirs)));
        let mut child = child.spawn().unwrap();
        let path = format!("/proc/{}/stat", child.id());
        let stat = || std::fs::read_to_string(&path).unwrap();
        while !stat().contains("(sh)") {
            std::thread::sleep(Duration::from_millis(1));
        }
        let started = stat().rsplit(')').next().unwrap().to_string();
        client.pid = child.id() as i32;
        client.start_time = started.split_whitespace().nth(19).unwrap().parse().unwrap();
        // As for a reader to whom the kernel does not tell where the stack is.
        client.stack = 0;
        let p = Process::find(client, Some(ends));
        assert_eq!(p.alive(), Some(true));
        ours.write_all(b"\n").unwrap();
        while !stat().contains("(sleep)") {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(p.alive(), Some(false));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn where_all_lies_in_a_process_is_told_of_nobody_but_the_client() {
        for address in ["127.0.0.1", "::1"] {
            if TcpListener::bind((address, 0)).is_err() {
                continue;
            }
            let (_ours, ends, theirs) = connection(address);
            let (mut other, says) = child();
            let (mut speaks, is) = child_with(Stdio::from(OwnedFd::from(theirs)));
            let maps = |client: &ClientInfo, ends| {
                let found = Process::find(client.clone(), ends);
                assert_eq!(found.alive(), Some(true));
                matches!(found, Process::Here { maps: Some(_), .. })
            };
            assert!(maps(&is, Some(ends)), "{address}: it has the other end");
            assert!(!maps(&is, None), "{address}: none is known");
            assert!(!maps(&says, Some(ends)), "{address}: that is another's");
            for child in [&mut other, &mut speaks] {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
    }

    #[test]
    fn a_number_that_is_anothers_by_now_is_not_the_client() {
        let (mut child, client) = child();
        let later = ClientInfo {
            start_time: client.start_time + 1,
            ..client.clone()
        };
        assert_eq!(Process::find(later, None).alive(), Some(false));
        let replaced = ClientInfo {
            stack: client.stack + 4096,
            ..client
        };
        let known = replaced.stack != 4096;
        assert_eq!(Process::find(replaced, None).alive(), Some(!known));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn of_another_host_or_namespace_nothing_is_known() {
        let (mut child, client) = child();
        let foreign = |change: fn(&mut ClientInfo)| {
            let mut c = client.clone();
            change(&mut c);
            Process::find(c, None)
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
