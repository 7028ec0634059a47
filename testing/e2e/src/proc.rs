//! What `/proc` says of processes.

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Child;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// A process's children.
pub fn children(pid: u32) -> Vec<u32> {
    let mut all = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(
            text.split_whitespace()
                .filter_map(|w| w.parse::<u32>().ok()),
        );
    }
    all
}

/// A process's children, and theirs.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut all = children(pid);
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        all.extend(children(*pid));
        next += 1;
    }
    all
}

/// How many descriptors a process has open.
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// How many threads a process has.
pub fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// The names of a process's threads, sorted.
pub fn thread_names(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    let mut all: Vec<_> = tasks.flatten().filter_map(name).collect();
    for n in &mut all {
        n.truncate(n.trim_end().len());
    }
    all.sort();
    all
}

/// What a server holds, for a test to see that sessions leave nothing behind.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    descriptors: usize,
    threads: usize,
    processes: usize,
    resident_kib: u64,
}

/// What comes and goes with no session at fault: the spare worker with its cell, and the process
/// that reads the GPUs' values with the thread that listens to it. A test that looks for leaks
/// opens so many sessions that a leak is more than this.
const COMES_AND_GOES: Held = Held {
    descriptors: 12,
    threads: 2,
    processes: 3,
    // The server remembers why its last thousand sessions ended. What is remembered lies between
    // what was freed, which therefore stays with the process: 12 MiB, at a thousand sessions as at
    // ten thousand.
    resident_kib: 16384,
};

impl Held {
    /// What a process holds now.
    pub fn of(pid: u32) -> Self {
        Self {
            descriptors: descriptors(pid),
            threads: threads(pid),
            processes: children(pid).len(),
            resident_kib: resident_kib(pid),
        }
    }

    /// What a process holds once that has stayed the same for a second.
    pub fn at_rest(pid: u32) -> Self {
        let counts = |h: &Self| (h.descriptors, h.threads, h.processes);
        let mut last = Self::of(pid);
        let mut since = Instant::now();
        crate::until("a second without changes", || {
            let now = Self::of(pid);
            if counts(&now) != counts(&last) {
                since = Instant::now();
            }
            last = now;
            (since.elapsed() > Duration::from_secs(1)).then_some(now)
        })
    }

    fn within(&self, limit: &Self) -> bool {
        self.descriptors <= limit.descriptors + COMES_AND_GOES.descriptors
            && self.threads <= limit.threads + COMES_AND_GOES.threads
            && self.processes <= limit.processes + COMES_AND_GOES.processes
            && self.resident_kib <= limit.resident_kib + COMES_AND_GOES.resident_kib
    }

    /// Waits until a process holds no more than this, but for what comes and goes: what belongs to
    /// sessions that have just ended may take its time.
    ///
    /// # Panics
    /// When it goes on holding more.
    pub fn comes_back(&self, pid: u32) -> Self {
        let mut last = Self::of(pid);
        let done = crate::is_so(|| {
            last = Self::of(pid);
            last.within(self).then_some(())
        });
        assert!(done.is_some(), "before: {self:?}, and now: {last:?}");
        last
    }
}

/// A process's resident memory in KiB.
pub fn resident_kib(pid: u32) -> u64 {
    status_kib(pid, "VmRSS:")
}

/// What a process has reserved of its address space, in KiB.
pub fn reserved_kib(pid: u32) -> u64 {
    status_kib(pid, "VmSize:")
}

fn status_kib(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix(name))
        .unwrap_or("");
    line.split_whitespace()
        .next()
        .and_then(|w| w.parse().ok())
        .unwrap_or(0)
}

/// Whether a process is there and not merely waiting to be collected.
pub fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rfind(')').map_or("", |i| &stat[i + 1..]);
    !matches!(after.split_whitespace().next(), None | Some("Z" | "X"))
}

/// A process that is watched for its end; its number may be another's afterwards.
pub struct Watched(OwnedFd);

impl Watched {
    /// Watches a process; `None` when it is not there.
    pub fn new(pid: u32) -> Option<Self> {
        // SAFETY: no preconditions; a new descriptor is ours.
        unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            (fd >= 0).then(|| Self(OwnedFd::from_raw_fd(fd as i32)))
        }
    }

    /// Waits for its end, and returns whether it came in time.
    pub fn ends_within(&self, limit: Duration) -> bool {
        let limit = crate::patient(limit);
        let mut polled = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live entry.
        unsafe { libc::poll(&raw mut polled, 1, limit.as_millis() as i32) > 0 }
    }
}

/// Sends a signal.
pub fn signal(pid: u32, signal: i32) {
    // SAFETY: kill has no preconditions.
    let rc = unsafe { libc::kill(pid as i32, signal) };
    assert_eq!(rc, 0, "process {pid} is not there");
}

/// Kills processes, of which one may take others along: those that are gone are as wanted.
pub fn kill_all(pids: Vec<u32>) {
    assert!(!pids.is_empty(), "there is nobody to kill");
    for pid in pids {
        // SAFETY: kill has no preconditions.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
    }
}

/// Kills a server as a machine's failure would. Its workers end on its death, which takes them a
/// moment: a test that did not wait for that would find them still answering.
pub fn crash(server: &mut Child) {
    let below = descendants(server.id());
    let below: Vec<_> = below.into_iter().filter_map(Watched::new).collect();
    let _ = (server.kill(), server.wait());
    let until = Instant::now() + Duration::from_secs(10);
    for one in below {
        one.ends_within(until.saturating_duration_since(Instant::now()));
    }
}

/// What a process is, and where in the system each of its threads is: why it hangs, if it does.
fn standing(pid: u32) -> String {
    let read = |name: String| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let mut text = read("cmdline".into()).replace('\0', " ");
    for task in fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let of = |what: &str| read(format!("task/{}/{what}", task.file_name().display()));
        text += &format!("\n  {} in {}", of("comm").trim_end(), of("wchan"));
    }
    text
}

/// Kills a process that is not done in time: what reads from it, or waits for it, goes on then.
pub struct Watchdog(#[expect(dead_code, reason = "its end is what counts")] Sender<()>);

impl Watchdog {
    /// Watches a process until it is dropped, which must be before its number can be another's.
    pub fn start(pid: u32, limit: Duration) -> Self {
        let limit = crate::patient(limit);
        let (tx, rx) = channel::<()>();
        std::thread::spawn(move || {
            if rx.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let stuck = standing(pid);
                eprintln!("not done after {limit:?}, and killed: {stuck}");
                // SAFETY: kill has no preconditions.
                unsafe { libc::kill(pid as i32, libc::SIGKILL) };
            }
        });
        Self(tx)
    }
}

/// Whether this kernel keeps a process from TCP, and so lets a cell have sockets that lead to other
/// servers: Linux 6.7.
pub fn cells_reach_servers() -> bool {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
    let mut numbers = text.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
    let mut number = || numbers.next().unwrap_or(0);
    (number(), number()) >= (6, 7)
}
