//! Limits of what a session takes of its machine: control groups, of either version.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The most processes and threads of a session.
const MOST_TASKS: u64 = 4096;
/// How much likelier than others a worker is to be ended when the machine has no memory left.
const FIRST_TO_GO: &str = "500";

/// Where a server itself is, in version 2.
const ASIDE: &str = "busbar-server";

/// A file of a group, and what is put there.
type Setting = (&'static str, String);

/// Where groups are made, and what each is to have.
#[derive(Debug)]
struct Place {
    folder: PathBuf,
    settings: Vec<Setting>,
}

/// The groups of this server's sessions.
#[derive(Debug, Default)]
pub struct Limits {
    places: Vec<Place>,
    next: AtomicU64,
}

/// One session's groups, which go with it.
#[derive(Debug)]
pub struct Limited(Vec<PathBuf>);

/// What the system says of the machine's memory, in bytes: `MemTotal:`, `MemAvailable:`.
pub fn memory_of_machine(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    let kib = line.split_whitespace().next()?.parse::<u64>().ok()?;
    Some(kib << 10)
}

/// The most memory of a session: it must not take the whole machine along.
fn most_memory() -> u64 {
    memory_of_machine("MemTotal:").map_or(u64::MAX >> 1, |all| all / 4 * 3)
}

fn put(folder: &Path, file: &str, text: &str) -> Result<(), String> {
    let path = folder.join(file);
    fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn make(folder: &Path) -> Result<(), String> {
    match fs::create_dir(folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            Err(format!("{}: {e}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Where hierarchies of groups are mounted: the controllers of each; none are named for version 2.
fn mounts(text: &str) -> Vec<(Vec<String>, PathBuf)> {
    let one = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let (kind, _, options) = (right.next()?, right.next()?, right.next()?);
        let path = PathBuf::from(left.split(' ').nth(4)?);
        match kind {
            "cgroup" => Some((options.split(',').map(String::from).collect(), path)),
            "cgroup2" => Some((Vec::new(), path)),
            _ => None,
        }
    };
    text.lines().filter_map(one).collect()
}

/// In which group of a controller a process is; `""` stands for version 2.
fn group(text: &str, controller: &str) -> Option<PathBuf> {
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let named = controllers.split(',').any(|c| c == controller);
        named.then(|| path.trim_start_matches('/').into())
    })
}

/// What groups of this server begin with: processes have their numbers within a namespace, and
/// containers may share a tree of groups.
fn own_name() -> String {
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino());
    format!("busbar-{namespace}-{}", std::process::id())
}

/// The server that a group is of, if it is of this namespace.
fn server_of(group: &str) -> Option<u32> {
    let ours = own_name();
    let (ours, _) = ours.rsplit_once('-')?;
    let rest = group.strip_prefix(ours)?.strip_prefix('-')?;
    rest.split('-').next()?.parse().ok()
}

/// Removes the groups of servers that have ended without doing so.
fn sweep(folder: &Path) {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    for f in all.filter(|f| f.path().is_dir()) {
        let server = server_of(&f.file_name().to_string_lossy());
        if server.is_some_and(|p| !Path::new("/proc").join(p.to_string()).exists()) {
            sweep(&f.path());
            // One that still holds somebody stays.
            let _ = fs::remove_dir(f.path());
        }
    }
}

impl Limits {
    /// Makes room for groups. An error says what is missing.
    pub fn new() -> Result<Self, String> {
        let read = |p: &str| fs::read_to_string(p).unwrap_or_default();
        let (mounted, ours) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
        let mounts = mounts(&mounted);
        let memory = most_memory().to_string();
        let v2 = mounts.iter().find(|(names, _)| names.is_empty());
        if let Some((_, at)) = v2
            && fs::read_to_string(at.join("cgroup.controllers"))
                .is_ok_and(|c| c.split_whitespace().any(|c| c == "memory"))
        {
            let own = at.join(group(&ours, "").ok_or("this process is in no control group")?);
            // One that another server has started is where that one has moved.
            let aside = own.file_name().is_some_and(|n| n == ASIDE);
            let own = own.parent().filter(|_| aside).unwrap_or(&own).to_path_buf();
            return Self::version_2(&own, memory);
        }
        let name = own_name();
        let wanted: [(&str, Setting); 3] = [
            ("memory", ("memory.limit_in_bytes", memory)),
            ("pids", ("pids.max", MOST_TASKS.to_string())),
            ("cpu", ("cpu.shares", "1024".into())),
        ];
        let mut all = Self::default();
        for (controller, setting) in wanted {
            let mount = mounts
                .iter()
                .find(|(n, _)| n.iter().any(|n| n == controller));
            let (_, at) = mount.ok_or(format!("no control groups for {controller}"))?;
            let own = group(&ours, controller).unwrap_or_default();
            // In a container the path is the host's, and its end is where it is mounted.
            let own = Some(at.join(own))
                .filter(|p| p.exists())
                .unwrap_or(at.clone());
            sweep(&own);
            let folder = own.join(&name);
            make(&folder)?;
            all.places.push(Place {
                folder,
                settings: vec![setting],
            });
        }
        drop(all.limited()?);
        Ok(all)
    }

    /// In version 2 a group has processes or groups below it: the server moves aside.
    fn version_2(own: &Path, memory: String) -> Result<Self, String> {
        sweep(own);
        let aside = own.join(ASIDE);
        make(&aside)?;
        let moved = fs::read_to_string(own.join("cgroup.procs")).unwrap_or_default();
        for process in moved.split_whitespace() {
            // Only its own: what else is in there keeps the group from having others below it.
            if process == std::process::id().to_string() {
                put(&aside, "cgroup.procs", process)?;
            }
        }
        put(own, "cgroup.subtree_control", "+memory +pids +cpu")?;
        let all = Self {
            places: vec![Place {
                folder: own.into(),
                settings: vec![
                    ("memory.max", memory),
                    ("pids.max", MOST_TASKS.to_string()),
                    ("cpu.weight", "100".into()),
                ],
            }],
            next: AtomicU64::new(0),
        };
        drop(all.limited()?);
        Ok(all)
    }

    /// Groups for one session.
    pub fn limited(&self) -> Result<Limited, String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", own_name());
        let mut groups = Limited(Vec::new());
        for place in &self.places {
            let folder = place.folder.join(&name);
            make(&folder)?;
            groups.0.push(folder.clone());
            for (file, text) in &place.settings {
                put(&folder, file, text)?;
            }
        }
        Ok(groups)
    }
}

impl Limited {
    /// Has them hold a process.
    pub fn hold(&self, process: u32) -> Result<(), String> {
        let add = |g: &PathBuf| put(g, "cgroup.procs", &process.to_string());
        self.0.iter().try_for_each(add)?;
        let path = format!("/proc/{process}/oom_score_adj");
        // It may be less already, and then this is not ours to change.
        let _ = fs::write(path, FIRST_TO_GO);
        Ok(())
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        for group in &self.0 {
            let _ = fs::remove_dir(group);
        }
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        for place in &self.places {
            let _ = fs::remove_dir(&place.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_in_either_version() {
        let text = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n\
                    31 23 0:27 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                    32 23 0:28 / /proc rw - proc proc rw\n";
        let found = mounts(text);
        assert_eq!(found.len(), 2);
        assert!(found[0].0.is_empty() && found[0].1 == Path::new("/sys/fs/cgroup"));
        assert!(found[1].0.contains(&"cpu".into()));
        let ours = "4:memory:/a/b\n1:cpu,cpuacct:/\n0::/user.slice\n";
        assert_eq!(group(ours, "memory"), Some("a/b".into()));
        assert_eq!(group(ours, "cpu"), Some("".into()));
        assert_eq!(group(ours, ""), Some("user.slice".into()));
        assert_eq!(group(ours, "pids"), None);
    }

    #[test]
    fn groups_of_servers_elsewhere_are_left_alone() {
        let own = own_name();
        assert_eq!(server_of(&own), Some(std::process::id()));
        assert_eq!(server_of(&format!("{own}-7")), Some(std::process::id()));
        for other in ["busbar-1", "busbar-1-2-3", "busbar-server", "system.slice"] {
            assert_eq!(server_of(other), None, "{other}");
        }
        let folder = std::env::temp_dir().join(format!("limits-{}", std::process::id()));
        let (namespace, _) = own.rsplit_once('-').expect("two numbers");
        // No process has such a number.
        let (dead, elsewhere) = (format!("{namespace}-4194305"), "busbar-1-4194305");
        for group in [&own, &dead, elsewhere] {
            fs::create_dir_all(folder.join(group)).expect("a folder");
        }
        sweep(&folder);
        let left = |group: &str| folder.join(group).exists();
        assert!(left(&own) && !left(&dead) && left(elsewhere));
        fs::remove_dir_all(folder).expect("it can go");
    }

    #[test]
    fn what_a_machine_lacks_is_said() {
        match Limits::new() {
            Ok(limits) => {
                let groups = limits.limited().unwrap();
                assert!(groups.0.iter().all(|g| g.is_dir()));
                let kept = groups.0.clone();
                drop(groups);
                assert!(!kept.iter().any(|g| g.exists()), "they go with the session");
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
}
