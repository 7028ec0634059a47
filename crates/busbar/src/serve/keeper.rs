//! The process that keeps the store: started before the first worker, and again when it has ended.

use super::config::Config;
use busbar_control::store::{Answer, Comes};
use busbar_transport::handover;
use busbar_transport::lock::lock;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long it may take to look through what it has.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long after a failure it is started again.
const PAUSE: Duration = Duration::from_secs(10);

struct Running {
    control: OwnedFd,
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    /// It is not started before this.
    rest: Option<Instant>,
    /// Another server keeps the folder.
    elsewhere: bool,
}

/// Starts the process, and connects workers with it.
#[derive(Clone)]
pub(crate) struct Keeper {
    args: Option<Arc<[String; 2]>>,
    state: Arc<Mutex<State>>,
}

impl Keeper {
    pub(crate) fn new(c: &Config) -> Self {
        let args = c.cache_dir.as_ref().map(|dir| {
            let limit = c.cache_limit;
            Arc::new([
                format!("--store={}", dir.display()),
                format!("--store-limit={limit}"),
            ])
        });
        let state = Arc::default();
        Self { args, state }
    }

    /// Starts the process, by a command that keeps a descriptor. An error says why there is none.
    pub(crate) fn open(&self, command: impl Fn(i32) -> Command) -> Result<(), String> {
        let Some(args) = &self.args else {
            return Ok(());
        };
        let mut state = lock(&self.state);
        if state.elsewhere {
            return Err("another server keeps the store".into());
        }
        let started = start(&**args, command);
        state.rest = started.is_err().then(|| Instant::now() + PAUSE);
        state.running = Some(started?);
        Ok(())
    }

    /// Ends the process, so that another server can keep the folder: workers do without.
    pub(crate) fn rest(&self) {
        let mut state = lock(&self.state);
        state.elsewhere = true;
        state.running = None;
    }

    /// Starts it again when it is needed: there is no other server.
    pub(crate) fn wake(&self) {
        let mut state = lock(&self.state);
        (state.elsewhere, state.rest) = (false, None);
    }

    /// A socket that leads a new worker of a tenant's to the store, if there is one.
    pub(crate) fn connect(
        &self,
        tenant: &str,
        command: impl Fn(i32) -> Command,
    ) -> Option<OwnedFd> {
        self.args.as_ref()?;
        let tenant = tenant.to_string();
        let comes = Comes { tenant }.to_json();
        let (ours, theirs) = handover::pair().ok()?;
        let given = || {
            let mut state = lock(&self.state);
            let to = state.running.as_ref()?;
            let sent = handover::send(&to.control, &comes, Some(&ours));
            sent.inspect_err(|_| state.running = None).ok()
        };
        if given().is_none() {
            let state = lock(&self.state);
            if state.elsewhere || state.rest.is_some_and(|t| Instant::now() < t) {
                return None;
            }
            drop(state);
            if let Err(why) = self.open(command) {
                tracing::warn!(why, "there is no store");
            }
            given()?;
        }
        Some(theirs)
    }
}

fn start(args: &[String], command: impl Fn(i32) -> Command) -> Result<Running, String> {
    let (control, theirs) = handover::pair().map_err(|e| e.to_string())?;
    let fd = theirs.as_raw_fd();
    let mut c = command(fd);
    c.args(args).arg(format!("--control-fd={fd}"));
    let child = c.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let child = child.map_err(|e| e.to_string())?;
    drop(theirs);
    let running = Running { control, child };
    let _ = handover::recv_timeout(&running.control, Some(PATIENCE));
    let said = handover::recv(&running.control).map_err(|e| e.to_string())?;
    let (said, _) = said.ok_or("the process that keeps the store has ended")?;
    let answer: Answer = busbar_control::read("the store's answer", &said)?;
    answer.error.map_or(Ok(running), Err)
}
