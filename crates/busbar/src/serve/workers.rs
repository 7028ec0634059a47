//! Worker processes: starting them, keeping one ready, noticing their end.

use super::config::Config;
use super::lock;
use crate::confine::{self, User};
use crate::launch;
use anyhow::{Context, Result, bail};
use busbar_worker::apis::Found;
use busbar_worker::control::{self, Report};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a worker may take to end once its control socket is closed.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long one may take to be ready.
const READY_TIME: Duration = Duration::from_secs(60);

/// A running worker.
pub(crate) struct Worker {
    pub control: OwnedFd,
    child: Mutex<Child>,
    pub pid: u32,
}

/// Starts workers.
#[derive(Clone)]
pub(crate) struct Workers {
    args: Vec<String>,
    apis: Vec<String>,
    spare: Arc<Mutex<Option<Worker>>>,
    user: Option<User>,
    spawner: Spawner,
}

/// A command to start, and where what became of it goes.
type Order = (Command, Sender<std::io::Result<Child>>);

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
    /// Waits for the process to end and says how it did when that was not in good order.
    pub fn wait(&self) -> Option<String> {
        let status = lock(&self.child).wait().ok()?;
        match (status.signal(), status.code()) {
            (Some(s), _) => Some(format!("the worker was killed by signal {s}")),
            (None, Some(0)) => None,
            (None, code) => Some(format!("the worker failed with exit status {code:?}")),
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

    /// Ends the process now.
    pub fn kill(&self) {
        let _ = lock(&self.child).kill();
        let _ = lock(&self.child).wait();
    }
}

impl Workers {
    pub fn new(c: &Config) -> Result<Self> {
        let mut args = vec![format!("--cache-limit={}", c.cache_limit)];
        let mut path = |flag: &str, p: &Option<std::path::PathBuf>| {
            if let Some(p) = p {
                args.push(format!("{flag}={}", p.display()));
            }
        };
        path("--cache-dir", &c.cache_dir);
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
            user: c.worker_user.clone(),
            spawner: Spawner::start()?,
        })
    }

    fn command(&self) -> Command {
        let mut c = Command::new("/proc/self/exe");
        c.arg0("busbar")
            .arg("worker")
            .args(&self.args)
            .stdin(Stdio::null());
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
        serde_json::from_str(line).context("the device probe made no sense")
    }

    /// The process that reads the GPUs, ready to be started.
    pub fn readings(&self) -> Command {
        let mut c = self.command();
        c.arg("--readings");
        c
    }

    fn start(&self) -> Result<Worker> {
        let (ours, theirs) = control::pair()?;
        let fd = theirs.as_raw_fd();
        let mut c = self.command();
        c.arg(format!("--control-fd={fd}"));
        // Nothing a tenant prints may mix with the server's own stdout.
        c.stdout(Stdio::null());
        let user = self.user.clone();
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
                if libc::fcntl(fd, libc::F_SETFD, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = self
            .spawner
            .spawn(c)
            .context("cannot start a worker process")?;
        let pid = child.id();
        Ok(Worker {
            control: ours,
            child: Mutex::new(child),
            pid,
        })
    }

    /// A worker for a new session: the spare one if it is ready and wanted, else a fresh one.
    pub fn take(&self, spare_wanted: bool) -> Result<Worker> {
        let spare = if spare_wanted {
            lock(&self.spare).take()
        } else {
            None
        };
        let w = match spare {
            // One that died while it waited (a driver that was updated, a lack of memory) is no
            // use.
            Some(w) if !w.ended() => w,
            _ => self.start()?,
        };
        self.keep_spare();
        control::recv_timeout(&w.control, Some(READY_TIME))?;
        match control::recv::<Report>(&w.control) {
            Ok(Some((Report::Ready, _))) => {
                control::recv_timeout(&w.control, None)?;
                Ok(w)
            }
            Ok(_) => {
                w.kill();
                bail!("a worker process died while it started; the server's log says why");
            }
            Err(e) => {
                w.kill();
                bail!("a worker process does not get ready ({e}); does a driver hang?");
            }
        }
    }

    /// Starts a worker ahead of need, from a thread of its own.
    pub fn keep_spare(&self) {
        let me = self.clone();
        let run = move || {
            if lock(&me.spare).is_some() {
                return;
            }
            if let Ok(w) = me.start() {
                let old = lock(&me.spare).replace(w);
                if let Some(extra) = old {
                    extra.kill();
                }
            }
        };
        let _ = std::thread::Builder::new()
            .name("spare".into())
            .stack_size(256 << 10)
            .spawn(run);
    }
}
