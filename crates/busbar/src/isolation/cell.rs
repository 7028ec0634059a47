//! The first process of a cell, which makes it, and what a worker does to enter one.

use super::root::{self, Adapters};
use super::{Have, Part, failed, is_privileged};
use crate::{confine, filter};
use busbar_control::attach::scratch_prefix;
use busbar_transport::handover;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long processes of a cell may go on without a server: they tell their clients.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How often is looked whether there are any.
const LOOK: Duration = Duration::from_millis(100);
/// The most processes and threads that a cell's user may have.
const MOST_PROCESSES: libc::rlim_t = 16384;

/// What a cell is to be.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Plan {
    /// What must be there; `None` says that this is to be found out.
    pub parts: Option<Vec<Part>>,
    /// The number of its user and group.
    pub user: Option<u32>,
    /// Files and folders that are read there, besides the system's.
    pub places: Vec<PathBuf>,
    /// Which of the machine's RDMA devices it has.
    #[serde(default)]
    pub adapters: Adapters,
    /// Why it is in no process namespace of its own, if it is in none.
    pub no_processes: Option<String>,
}

/// What a new cell says: what it has, or why there is none.
pub type Made = Result<Have, String>;

/// The order in which a cell's namespaces are handed over.
const NAMESPACES: [(Option<Part>, &str, i32); 4] = [
    (None, "user", libc::CLONE_NEWUSER),
    (Some(Part::Ipc), "ipc", libc::CLONE_NEWIPC),
    (Some(Part::Network), "net", libc::CLONE_NEWNET),
    (Some(Part::Folders), "mnt", libc::CLONE_NEWNS),
];

/// Whether any user can read a folder, or a file. What is not there keeps nobody out.
fn is_for_all(path: &Path) -> bool {
    let open = |p: &Path, mode| fs::metadata(p).is_ok_and(|m| m.mode() & mode == mode);
    let mode = if path.is_dir() { 0o005 } else { 0o004 };
    !path.exists() || (open(path, mode) && path.ancestors().skip(1).all(|p| open(p, 0o001)))
}

fn unshare(what: i32, name: &str) -> Result<(), String> {
    // SAFETY: this process has one thread.
    match unsafe { libc::unshare(what) } {
        0 => Ok(()),
        _ => Err(failed(format_args!("no {name} namespace"))),
    }
}

/// Without root, a user namespace gives the rights that the rest takes.
fn own_users() -> Result<(), String> {
    // SAFETY: no preconditions.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    unshare(libc::CLONE_NEWUSER, "user")?;
    // With these rights this process may be looked at, by itself, too.
    // SAFETY: a plain system call.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    let put = |name: &str, text: String| {
        let path = Path::new("/proc/self").join(name);
        fs::write(&path, text).map_err(|e| format!("no user namespace: {}: {e}", path.display()))
    };
    put("setgroups", "deny".into())?;
    put("gid_map", format!("{gid} {gid} 1"))?;
    put("uid_map", format!("{uid} {uid} 1"))?;
    confine::keep_to_itself();
    Ok(())
}

impl Plan {
    /// Does a part, if it is wanted: what must be there must succeed.
    fn part(
        &self,
        have: &mut Have,
        part: Part,
        what: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        match &self.parts {
            None => have.note(part, what()),
            Some(parts) if parts.contains(&part) => {
                what().map_err(|why| format!("{part}: {why}"))?;
                have.parts.push(part);
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Makes the cell around this process: what it has, and the way in.
    fn make(&self) -> Result<(Have, Vec<OwnedFd>), String> {
        let mut have = Have::default();
        // Before a user namespace gives all capabilities, which are good in it alone.
        let privileged = is_privileged();
        let rights = match privileged {
            true => Ok(()),
            false => own_users(),
        };
        let with = |what: i32, name: &'static str| {
            let rights = rights.clone();
            move || rights.and_then(|()| unshare(what, name))
        };
        self.part(&mut have, Part::Ipc, with(libc::CLONE_NEWIPC, "IPC"))?;
        self.part(&mut have, Part::Network, || {
            with(libc::CLONE_NEWNET, "network")()?;
            loopback();
            Ok(())
        })?;
        let processes = self.no_processes.is_none();
        let mut own_proc = false;
        self.part(&mut have, Part::Folders, || {
            with(libc::CLONE_NEWNS, "mount")()?;
            own_proc = root::build(&self.places, processes, &self.adapters)?;
            Ok(())
        })?;
        let folders = have.has(Part::Folders);
        self.part(&mut have, Part::Processes, || match &self.no_processes {
            Some(why) => Err(why.clone()),
            None if !folders => Err("that takes folders".into()),
            None if !own_proc => Err("no /proc of its own may be mounted".into()),
            None => Ok(()),
        })?;
        let ways = self.ways(&have, !privileged && rights.is_ok())?;
        self.part(&mut have, Part::User, || {
            let hidden = (self.places.iter()).find(|f| !folders && !is_for_all(f));
            match hidden {
                Some(f) => Err(format!("others cannot read {}", f.display())),
                None => self.become_user(),
            }
        })?;
        confine::give_up_rights();
        self.part(&mut have, Part::Landlock, || confine::landlock().map(drop))?;
        self.part(&mut have, Part::Calls, || {
            filter::install(false).map_err(|e| format!("the kernel takes no filter: {e}"))
        })?;
        Ok((have, ways))
    }

    /// The way into each namespace that there is.
    fn ways(&self, have: &Have, users: bool) -> Result<Vec<OwnedFd>, String> {
        let mut ways = Vec::new();
        for (part, name, _) in NAMESPACES {
            if part.map_or(users, |p| have.has(p)) {
                let file = File::open(format!("/proc/self/ns/{name}"));
                ways.push(file.map_err(|e| format!("{name}: {e}"))?.into());
            }
        }
        if have.has(Part::Processes) {
            let file = File::open("/proc/self/ns/pid");
            ways.push(file.map_err(|e| format!("pid: {e}"))?.into());
        }
        Ok(ways)
    }

    /// Becomes the cell's user, for good.
    fn become_user(&self) -> Result<(), String> {
        let Some(id) = self.user else {
            return Err("the server is not root, and has no capabilities for it".into());
        };
        let groups = root::groups(&self.adapters);
        let limit = libc::rlimit {
            rlim_cur: MOST_PROCESSES,
            rlim_max: MOST_PROCESSES,
        };
        // Root may lock as much memory as it likes; drivers do.
        let unlimited = libc::rlimit {
            rlim_cur: libc::RLIM_INFINITY,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: plain system calls; the list of groups is as long as said, the limit is live.
        let done = unsafe {
            libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit);
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const unlimited);
            for right in 0..64 {
                libc::prctl(libc::PR_CAPBSET_DROP, right, 0, 0, 0);
            }
            libc::setgroups(groups.len(), groups.as_ptr()) == 0
                && libc::setresgid(id, id, id) == 0
                && libc::setresuid(id, id, id) == 0
        };
        match done {
            true => Ok(()),
            false => Err(failed(format_args!("cannot become user {id}"))),
        }
    }
}

/// Gives up whatever rights there are: those that a user namespace gives, and root's.
pub fn drop_rights() {
    #[repr(C)]
    struct Header {
        version: u32,
        process: i32,
    }
    let header = Header {
        version: 0x2008_0522,
        process: 0,
    };
    let none = [0u32; 6];
    // SAFETY: pointers to live structures, of the sizes that this version has.
    unsafe {
        for right in 0..64 {
            libc::prctl(libc::PR_CAPBSET_DROP, right, 0, 0, 0);
        }
        libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr());
    }
}

/// Makes a cell, hands the server the ways in, and keeps it until the server lets go of it or ends.
pub fn keep(plan: &Plan, control: &OwnedFd) -> io::Result<()> {
    let (made, ways) = match plan.make() {
        Ok((have, ways)) => (Made::Ok(have), ways),
        Err(why) => (Made::Err(why), Vec::new()),
    };
    drop_rights();
    let text = serde_json::to_vec(&made)?;
    handover::send(control, &text, &ways)?;
    drop(ways);
    // Nothing is said here any more: this is the end.
    let _ = handover::recv(control);
    let end = Instant::now() + LAST_WORDS;
    let others = plan.no_processes.is_none();
    loop {
        std::thread::sleep(LOOK);
        // SAFETY: plain calls; signal 0 asks who is there, and whoever has ended is collected.
        let any = unsafe {
            while libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) > 0 {}
            others && libc::kill(-1, 0) == 0
        };
        if !any || Instant::now() > end {
            return Ok(());
        }
    }
}

/// Has the workers of a cell reach each other, in the network namespace that this process has just
/// made. Only collectives need that, and say so if they cannot.
fn loopback() {
    // SAFETY: numbers only, of which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as _;
    request.ifr_name[1] = b'o' as _;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as _;
    // SAFETY: plain calls with a live structure of the kernel's own.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if fd >= 0 {
            libc::ioctl(fd, libc::SIOCSIFFLAGS, &raw const request);
            libc::close(fd);
        }
    }
}

/// How a worker gets into its cell.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Entry {
    /// What is in force.
    pub have: Have,
    /// The cell.
    pub plan: Plan,
    /// The ways in, as descriptors.
    pub ways: Vec<i32>,
}

impl Entry {
    /// Enters the cell, with all its parts or not at all. `ways` are its descriptors. `collectives`
    /// need sockets, and may make them where there is nobody to talk to. Whether those are to be
    /// had from the server that lead somewhere.
    pub fn enter(
        &self,
        ways: &[OwnedFd],
        libraries: &[Option<&str>],
        collectives: bool,
    ) -> Result<bool, String> {
        let has = |part| self.have.has(part);
        // Before the root folder is another.
        let readable = [
            confine::SYSTEM.map(PathBuf::from).to_vec(),
            confine::given(libraries),
        ];
        let mut ways = ways.iter();
        let users =
            !is_privileged() && (has(Part::Ipc) || has(Part::Network) || has(Part::Folders));
        for (part, name, kind) in NAMESPACES {
            if !part.map_or(users, has) {
                continue;
            }
            let way = ways.next().ok_or("a way into the cell is missing")?;
            // SAFETY: an open descriptor; this process has one thread.
            if unsafe { libc::setns(way.as_raw_fd(), kind) } != 0 {
                return Err(failed(format_args!("cannot enter the {name} namespace")));
            }
        }
        if has(Part::Folders) {
            unshare(libc::CLONE_NEWNS, "mount")?;
            root::own_tmp(&self.plan.places)?;
        }
        if has(Part::User) {
            self.plan.become_user()?;
        }
        self.settle(has(Part::Folders) || has(Part::Landlock))
            .map_err(|e| format!("no folder for what compilers keep: {e}"))?;
        drop_rights();
        confine::harden();
        let network = collectives && has(Part::Network);
        if has(Part::Landlock) {
            confine::sandbox(&confine::writable(), &readable.concat())?;
        }
        if has(Part::Calls) {
            let installed = filter::install(network);
            installed.map_err(|e| format!("the kernel takes no filter: {e}"))?;
        }
        Ok(network && self.have.lends_sockets())
    }

    /// Has libraries keep what they keep where it is this session's alone.
    fn settle(&self, private: bool) -> io::Result<()> {
        if !private {
            return Ok(());
        }
        let own = self.have.has(Part::Folders);
        let home = match own {
            true => PathBuf::from("/tmp"),
            false => {
                // The server removes it: it knows the process in its name.
                let name = format!("{}home", scratch_prefix(std::process::id()));
                let home = std::env::temp_dir().join(name);
                fs::DirBuilder::new().mode(0o700).create(&home)?;
                home
            }
        };
        // What a compiler for the processor keeps is run by whoever finds it.
        let (pocl, cuda) = (home.join("pocl"), home.join("cuda"));
        for folder in [&pocl, &cuda] {
            fs::DirBuilder::new().mode(0o700).create(folder)?;
        }
        // SAFETY: there is no other thread yet.
        unsafe {
            std::env::set_var("HOME", &home);
            std::env::set_var("POCL_CACHE_DIR", pocl);
            std::env::set_var("CUDA_CACHE_PATH", cuda);
            std::env::remove_var("XDG_CACHE_HOME");
            if own {
                std::env::remove_var("TMPDIR");
            }
        }
        Ok(())
    }
}
