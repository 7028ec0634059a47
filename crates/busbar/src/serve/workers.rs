//! Worker processes: starting them, keeping one ready, noticing their end.

use super::config::Config;
use super::keeper::Keeper;
use super::refusals::Network;
use super::turns::Turns;
use super::voices::{Named, Voices};
use crate::confine::{self, User};
use crate::launch;
use anyhow::{Context, Result, bail};
use busbar_control::attach::{Report, scratch_prefix};
use busbar_control::device::Found;
use busbar_transport::handover;
use busbar_transport::lock::lock;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a worker may take to end once its control socket is closed.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long one may take to be ready.
const READY_TIME: Duration = Duration::from_secs(60);

/// How often is asked whether a worker is still wanted.
const LOOK: Duration = Duration::from_millis(100);
const GONE: &str = "the client went away while it waited for a worker";

/// A running worker.
pub(crate) struct Worker {
    pub control: OwnedFd,
    child: Mutex<Child>,
    pub pid: u32,
    /// The number of its user.
    uid: u32,
    /// The session that it serves.
    pub session: Named,
    /// It has said that it can serve one.
    ready: AtomicBool,
}

/// Starts workers.
#[derive(Clone)]
pub(crate) struct Workers {
    args: Vec<String>,
    apis: Vec<String>,
    spare: Arc<Mutex<Option<Worker>>>,
    /// Whether a spare one is being started.
    sparing: Arc<AtomicBool>,
    turns: Turns,
    user: Option<User>,
    spawner: Spawner,
    voices: Voices,
    keeper: Keeper,
}

/// Removes what a process of this user that has ended left behind. What others have put there under
/// such a name is theirs.
fn sweep(process: u32, user: u32) {
    let prefix = scratch_prefix(process);
    let all = std::fs::read_dir(std::env::temp_dir());
    for f in all.into_iter().flatten().flatten() {
        let name = f.file_name();
        let named = name.as_encoded_bytes().starts_with(prefix.as_bytes());
        if named && f.metadata().is_ok_and(|m| m.is_dir() && m.uid() == user) {
            // Follows no link: no more than what is in the folder goes.
            let _ = std::fs::remove_dir_all(f.path());
        }
    }
}

/// A command to start, and where what became of it goes.
type Order = (Command, Sender<std::io::Result<Child>>);

/// Why there is no worker, and what to do.
fn not_started(e: std::io::Error) -> anyhow::Error {
    let hint = match e.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => {
            "too many files are open there: try later, or give the server more (`ulimit -n`, a \
             service's LimitNOFILE)"
        }
        Some(libc::EAGAIN) => {
            "too many processes run there: try later, or give the server more (`ulimit -u`, a \
             service's TasksMax)"
        }
        Some(libc::ENOMEM) => "there is no memory left: try later",
        _ => "the server's log may say more",
    };
    anyhow::anyhow!("the server cannot start a worker process: {e} ({hint})")
}

/// The one thread that starts workers. It lasts as long as the server: a worker is killed when the
/// *thread* that started it ends.
#[derive(Clone)]
struct Spawner(Sender<Order>);

impl Spawner {
    fn start() -> Result<Self> {
        let (tx, rx) = channel::<Order>();
        let run = move || {
            for (mut c, back) in rx {
                let _ = back.send(c.spawn());
            }
        };
        std::thread::Builder::new()
            .name("spawner".into())
            .stack_size(256 << 10)
            .spawn(run)
            .context("cannot start a thread")?;
        Ok(Self(tx))
    }

    fn spawn(&self, c: Command) -> std::io::Result<Child> {
        let (tx, rx) = channel();
        let gone = |_| std::io::Error::other("the thread that starts workers is gone");
        self.0.send((c, tx)).map_err(|_| gone(()))?;
        rx.recv().map_err(|_| gone(()))?
    }
}

impl Worker {
    /// The next thing that it says, once it does; nothing when it is gone or makes no sense.
    pub fn report(&self) -> Option<Report> {
        let (said, _) = handover::recv(&self.control).ok()??;
        busbar_control::read("a worker's report", &said).ok()
    }

    /// Waits for the process to end and says how it did when that was not in good order.
    pub fn wait(&self) -> Option<String> {
        let status = lock(&self.child).wait().ok()?;
        sweep(self.pid, self.uid);
        match (status.signal(), status.code()) {
            (Some(s), _) => Some(format!("the worker was killed by signal {s}")),
            (None, Some(0)) => None,
            (None, code) => {
                let code = code.unwrap_or_default();
                Some(format!("the worker failed with exit status {code}"))
            }
        }
    }

    /// Waits for the process to end by itself for a while, then ends it; says how it did. A worker
    /// that has said its last word, or talks nonsense, has no reason to stay.
    pub fn finish(&self) -> Option<String> {
        let deadline = Instant::now() + LAST_WORDS;
        while !self.ended() {
            if Instant::now() > deadline {
                let _ = lock(&self.child).kill();
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.wait()
    }

    /// Whether the process has ended already.
    fn ended(&self) -> bool {
        !matches!(lock(&self.child).try_wait(), Ok(None))
    }

    /// Ends the process, and leaves it to others to see how.
    pub fn cut(&self) {
        let _ = lock(&self.child).kill();
    }

    /// Ends the process now.
    pub fn kill(&self) {
        let _ = lock(&self.child).kill();
        self.wait();
    }
}

impl Workers {
    pub fn new(c: &Config) -> Result<Self> {
        let mut args = Vec::new();
        let mut path = |flag: &str, p: &Option<std::path::PathBuf>| {
            if let Some(p) = p {
                args.push(format!("{flag}={}", p.display()));
            }
        };
        path("--cuda-library", &c.cuda_library);
        path("--opencl-library", &c.opencl_library);
        path("--nvml-library", &c.nvml_library);
        if c.sandbox {
            args.push("--sandbox".into());
        }
        Ok(Self {
            args,
            apis: c.apis.clone(),
            spare: Arc::default(),
            sparing: Arc::default(),
            turns: Turns::new(Turns::of_this_machine()),
            user: c.worker_user.clone(),
            spawner: Spawner::start()?,
            voices: Voices::start().context("cannot start a thread")?,
            keeper: Keeper::new(c),
        })
    }

    fn command(&self) -> Command {
        let mut c = Command::new("/proc/self/exe");
        c.arg0("busbar")
            .arg("worker")
            .args(&self.args)
            .stdin(Stdio::null());
        // SAFETY: only async-signal-safe calls between fork and exec.
        unsafe {
            c.pre_exec(|| {
                confine::take_all_signals();
                Ok(())
            });
        }
        // A server that was itself started through `busbar run` must not loop back to a shim.
        for (k, _) in std::env::vars_os() {
            if k.to_string_lossy().starts_with("BUSBAR_") {
                c.env_remove(k);
            }
        }
        if std::env::var_os("LD_LIBRARY_PATH").is_some()
            && let Ok(path) = std::env::join_paths(launch::other_folders())
        {
            c.env("LD_LIBRARY_PATH", path);
        }
        c
    }

    /// Lists the devices. Done in a process of its own: a vendor's library that crashes or hangs
    /// while it looks for devices must not take the server along.
    pub fn probe(&self) -> Result<Found> {
        let mut child = self
            .command()
            .arg(format!("--probe={}", self.apis.join(",")))
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the device probe")?;
        let deadline = Instant::now() + Duration::from_secs(60);
        while child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                let _ = child.kill();
                bail!("the search for devices did not end within 60 s: is a driver hanging?");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let out = child.wait_with_output()?;
        if !out.status.success() {
            bail!(
                "the search for devices failed ({}); is a driver broken?",
                out.status
            );
        }
        // Vendor libraries may print; the list is the last line.
        let text = String::from_utf8_lossy(&out.stdout);
        let line = text.lines().last().unwrap_or_default();
        busbar_control::read("the device probe", line.as_bytes()).map_err(anyhow::Error::msg)
    }

    /// The process that reads the GPUs, ready to be started.
    pub fn readings(&self) -> Command {
        let mut c = self.as_user(&[]);
        c.arg("--readings");
        c
    }

    /// Has the store opened before the first worker needs it. An error says why there is none.
    pub fn open_store(&self) -> Result<(), String> {
        self.keeper.open(|fd| self.as_user(&[fd]))
    }

    /// A command that runs as the workers' user, with no descriptors but the standard ones and
    /// these.
    fn as_user(&self, keep: &[i32]) -> Command {
        let mut c = self.command();
        let (user, keep) = (self.user.clone(), keep.to_vec());
        if let Some(u) = &user {
            // Vendors' libraries keep caches there.
            c.env("HOME", &u.home).env_remove("XDG_CACHE_HOME");
        }
        // SAFETY: only async-signal-safe calls between fork and exec.
        unsafe {
            c.pre_exec(move || {
                confine::close_the_rest();
                if let Some(u) = &user {
                    u.become_it()?;
                }
                match keep
                    .iter()
                    .all(|fd| libc::fcntl(*fd, libc::F_SETFD, 0) == 0)
                {
                    true => Ok(()),
                    false => Err(std::io::Error::last_os_error()),
                }
            });
        }
        c
    }

    fn start(&self) -> Result<Worker> {
        let (ours, theirs) = handover::pair().map_err(not_started)?;
        let fd = theirs.as_raw_fd();
        let store = self.keeper.connect(|fd| self.as_user(&[fd]));
        let keep: Vec<_> = std::iter::once(fd)
            .chain(store.as_ref().map(|s| s.as_raw_fd()))
            .collect();
        let mut c = self.as_user(&keep);
        c.arg(format!("--control-fd={fd}"));
        c.args(
            store
                .as_ref()
                .map(|s| format!("--store-fd={}", s.as_raw_fd())),
        );
        c.arg(format!("--warm={}", self.apis.join(",")));
        // Nothing a tenant prints may mix with the server's own stdout.
        c.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = self.spawner.spawn(c).map_err(not_started)?;
        let (pid, session) = (child.id(), Named::default());
        if let Some(pipe) = child.stderr.take() {
            self.voices.hear(pipe.into(), pid, session.clone());
        }
        Ok(Worker {
            control: ours,
            child: Mutex::new(child),
            pid,
            // SAFETY: no preconditions.
            uid: self
                .user
                .as_ref()
                .map_or(unsafe { libc::geteuid() }, |u| u.uid),
            session,
            ready: AtomicBool::new(false),
        })
    }

    /// A worker for a new session of a client of that network: the spare one if it is ready and
    /// wanted, else a fresh one. Asks all the time whether it is still wanted.
    pub fn take(
        &self,
        spare_wanted: bool,
        network: Network,
        still_wanted: impl Fn() -> bool,
    ) -> Result<Worker> {
        if !still_wanted() {
            bail!(GONE);
        }
        // One that died while it waited (a driver that was updated, a lack of memory) is no use.
        let spare = || {
            lock(&self.spare)
                .take_if(|_| spare_wanted)
                .filter(|w| !w.ended())
        };
        let (w, turn) = match spare() {
            Some(w) => (w, None),
            None => {
                let turn = self
                    .turns
                    .wait(network, LOOK, &still_wanted)
                    .context(GONE)?;
                (spare().map_or_else(|| self.start(), Ok)?, Some(turn))
            }
        };
        self.keep_spare();
        let deadline = Instant::now() + READY_TIME;
        handover::recv_timeout(&w.control, Some(LOOK))?;
        while !w.ready.load(Ordering::Relaxed) {
            match handover::recv(&w.control) {
                // A worker says first of all that it is ready.
                Ok(Some(_)) => w.ready.store(true, Ordering::Relaxed),
                Ok(None) => {
                    w.kill();
                    bail!("a worker process died while it started; the server's log says why");
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {}
                Err(e) => {
                    w.kill();
                    bail!("a worker process does not get ready ({e}); does a driver hang?");
                }
            }
            if !still_wanted() {
                // It has cost what it costs: the next client gets it.
                match &mut *lock(&self.spare) {
                    none @ None => *none = Some(w),
                    Some(_) => w.kill(),
                }
                bail!(GONE);
            }
        }
        drop(turn);
        handover::recv_timeout(&w.control, None)?;
        Ok(w)
    }

    /// Starts a worker ahead of need, from a thread of its own.
    pub fn keep_spare(&self) {
        if lock(&self.spare).is_some() || self.sparing.swap(true, Ordering::AcqRel) {
            return;
        }
        let me = self.clone();
        let run = move || {
            if lock(&me.spare).is_none()
                && let Ok(w) = me.start()
            {
                *lock(&me.spare) = Some(w);
            }
            me.sparing.store(false, Ordering::Release);
        };
        let spawned = std::thread::Builder::new()
            .name("spare".into())
            .stack_size(256 << 10)
            .spawn(run);
        if spawned.is_err() {
            self.sparing.store(false, Ordering::Release);
        }
    }
}
