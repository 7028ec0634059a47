//! Worker processes: starting them, keeping one ready, noticing their end.

use super::config::Config;
use super::lock;
use anyhow::{Context, Result, bail};
use busbar_worker::apis::Found;
use busbar_worker::control::{self, Report};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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
    pub fn new(c: &Config) -> Self {
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
        Self {
            args,
            apis: c.apis.clone(),
            spare: Arc::default(),
        }
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
        // SAFETY: only async-signal-safe calls between fork and exec.
        unsafe {
            c.pre_exec(move || {
                if libc::fcntl(fd, libc::F_SETFD, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = c.spawn().context("cannot start a worker process")?;
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
            // One that died while it waited (a driver that was updated, a lack of memory) is no use.
            Some(w) if !w.ended() => w,
            _ => self.start()?,
        };
        self.keep_spare();
        match control::recv::<Report>(&w.control) {
            Ok(Some((Report::Ready, _))) => Ok(w),
            _ => {
                w.kill();
                bail!("a worker process died while it started; the server's log says why");
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
