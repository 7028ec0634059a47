//! Servers: started on a free port, asked for their sessions, killed at the end.

use crate::tree::{clear, over_verbs, tree};
use crate::until;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// How many servers this process has started.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A running `busbar serve`.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: String,
    folder: TempDir,
}

/// How to start a server.
#[derive(Default, Clone)]
pub struct Options {
    /// More flags.
    pub args: Vec<String>,
    /// Settings of the simulated driver, and other variables.
    pub env: Vec<(String, String)>,
    /// Where it is started, if not where the test is.
    pub folder: Option<PathBuf>,
}

impl Options {
    /// Adds a flag and its value.
    #[must_use]
    pub fn arg(mut self, flag: &str, value: &str) -> Self {
        self.args.extend([flag.into(), value.into()]);
        self
    }

    /// Adds a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Has the simulated driver write to a place that one of its variables names. No cell has such
    /// a place, so there are none.
    ///
    /// # Panics
    /// When the place's name is no text.
    #[must_use]
    pub fn writes(self, variable: &str, place: &Path) -> Self {
        let place = place.to_str().expect("a name");
        self.arg("--isolation", "off").env(variable, place)
    }

    /// Starts a server on the simulated driver.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(&self) -> Server {
        self.try_start()
            .unwrap_or_else(|log| panic!("no address:\n{log}"))
    }

    /// Starts a server on the simulated driver, or gives what it logged when it did not start.
    pub fn try_start(&self) -> Result<Server, String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        c.arg("serve");
        if let Some(folder) = &self.folder {
            c.current_dir(folder);
        }
        let mut unless_told = |flag: &str, value: PathBuf| {
            if !self.args.iter().any(|a| a == flag) {
                c.arg(flag).arg(value);
            }
        };
        unless_told("--listen", "127.0.0.1:0".into());
        unless_told("--api", "cuda".into());
        unless_told("--cuda-library", tree().fakedev_library());
        unless_told("--cache-dir", folder.path().join("cache"));
        if over_verbs() {
            unless_told("--rdma", "auto".into());
        }
        c.args(&self.args);
        // What a machine's devices have as names no other machine's have.
        let machine = 1 + STARTED.fetch_add(1, Ordering::Relaxed) % 255;
        c.env("FAKEDEV_MACHINE", machine.to_string());
        c.envs(self.env.iter().map(|(k, v)| (k, v)));
        let log = std::fs::File::create(folder.path().join("log")).expect("a log");
        c.stdout(Stdio::piped()).stderr(log).stdin(Stdio::null());
        let mut child = c.spawn().expect("the server starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("its stdout is a pipe");
        BufReader::new(out).read_line(&mut line).expect("it prints");
        let address = line
            .trim()
            .strip_prefix("busbar: listening on ")
            .map(String::from);
        let server = Server {
            child,
            address: address.clone().unwrap_or_default(),
            folder,
        };
        match address {
            Some(_) => Ok(server),
            None => Err(server.log()),
        }
    }
}

impl Server {
    /// A server with one simulated device.
    pub fn start() -> Self {
        Options::default().start()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// A folder that lasts as long as the server.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What it says about itself.
    pub fn status(&self) -> Value {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        let out = c
            .args(["ps", "--json", "--server", &self.address])
            .output()
            .expect("ps runs");
        let text = String::from_utf8_lossy(&out.stdout);
        let list: Value = serde_json::from_str(&text).unwrap_or_default();
        list[0]["status"].clone()
    }

    /// The sessions that it has.
    pub fn sessions(&self) -> Vec<Value> {
        let status = self.status();
        status["sessions"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until it has `n` sessions, and returns them.
    pub fn wait_for_sessions(&self, n: usize) -> Vec<Value> {
        until(&format!("a server with {n} session(s)"), || {
            Some(self.sessions()).filter(|s| s.len() == n)
        })
    }

    /// Kills it, as a machine's failure would.
    pub fn kill(&mut self) {
        crate::proc::crash(&mut self.child);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}
