//! Worker processes: starting them, keeping one ready, noticing their end.

use super::cells::{Cell, Cells};
use super::config::Config;
use super::dense::{self, Dense};
use super::held::Held;
use super::identity::Who;
use super::keeper::Keeper;
use super::refusals::Network;
use super::spawner::{Inside, Spawner, with_descriptors};
use super::turns::{Asks, Turns};
use super::voices::{Named, Voices};
use crate::confine;
use crate::isolation::Have;
use crate::isolation::cell::Entry;
use crate::isolation::limits::Limited;
use crate::launch;
use anyhow::{Context, Result, bail};
use busbar_control::attach::{Attach, Hidden, Order, Report, scratch_prefix};
use busbar_control::device::Found;
use busbar_control::hello::Mode;
use busbar_control::share::WHOLE;
use busbar_transport::handover;
use busbar_transport::lock::lock;
use busbar_transport::shared::Door;
use busbar_transport::stream::Stream;
use busbar_transport::tls::Handed;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long a worker may take to end once its control socket is closed.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long one may take to be ready.
const READY_TIME: Duration = Duration::from_secs(60);

/// How often is asked whether a worker is still wanted.
const LOOK: Duration = Duration::from_millis(100);
/// The most workers that wait for a session.
const MOST_SPARE: usize = 4;
const GONE: &str = "the client went away while it waited for a worker";

/// A running worker.
pub(crate) struct Worker {
    pub control: OwnedFd,
    child: Mutex<Child>,
    pub pid: u32,
    /// The number of its user.
    uid: u32,
    /// Who it is for.
    owner: Who,
    /// The RDMA device that it may use.
    rdma_device: String,
    /// What its session has its devices with, if that is dense; goes after it.
    pub dense: Option<Arc<Dense>>,
    /// Where it runs, and what it may take; both go after it.
    _cell: Option<Arc<Cell>>,
    _limited: Option<Limited>,
    /// The session that it serves.
    pub session: Named,
    /// It has said that it can serve one.
    ready: AtomicBool,
}

/// How the worker of a new session is started: how it has its devices beside others, and what its
/// driver is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Manner {
    pub mode: Mode,
    /// The share of a device's time, in thousandths, if it is to have one.
    pub share: Option<u32>,
    /// What the driver is told by the environment that it starts with.
    pub driver: Vec<(String, String)>,
}

impl Manner {
    /// Whether a spare worker will do, whose driver has started with nothing said to it.
    fn is_usual(&self) -> bool {
        self.mode == Mode::Isolated && self.driver.is_empty()
    }
}

/// Knows the RDMA device of a tenant, where it is to have one of its own.
pub(crate) type DeviceOf = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Starts workers.
#[derive(Clone)]
pub(crate) struct Workers {
    args: Vec<String>,
    /// The RDMA device that is used, and what knows those of tenants that have their own.
    rdma_device: String,
    of_tenants: Arc<OnceLock<DeviceOf>>,
    apis: Vec<String>,
    /// Workers that are ready for a next session, at most one for each owner; that of whoever came
    /// last is the last.
    spares: Arc<Mutex<VecDeque<Worker>>>,
    /// Whether a spare one is being started.
    sparing: Arc<AtomicBool>,
    /// None is to be started.
    resting: Arc<AtomicBool>,
    turns: Turns,
    cells: Cells,
    /// What starts MPS, where there is one.
    mps: Option<PathBuf>,
    /// What dense sessions have their devices with, by whose they are.
    dense: Arc<Held<Dense>>,
    /// How many of those there have been.
    daemons: Arc<AtomicU32>,
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

/// Why there is no worker, and what to do, if that is the system's word.
fn without(e: anyhow::Error) -> anyhow::Error {
    match e.downcast::<std::io::Error>() {
        Ok(e) => not_started(e),
        Err(e) => e,
    }
}

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

impl Worker {
    /// The next thing that it says, once it does, and what comes along; nothing when it is gone or
    /// makes no sense.
    pub fn report(&self) -> Option<(Report, Option<OwnedFd>)> {
        let (said, fd) = handover::recv(&self.control).ok()??;
        let mut report: Report = busbar_control::read("a worker's report", &said).ok()?;
        report.tame();
        Some((report, fd))
    }

    /// Hands it a connection, with what tells of its client's process.
    pub fn hand(&self, attach: Attach, conn: &Handed, process: &[OwnedFd]) -> std::io::Result<()> {
        let attach = Attach {
            keys: Hidden(conn.keys.clone()),
            ..attach
        };
        let order = Order::Attach(Box::new(attach)).to_json();
        let fds = std::iter::once(&conn.fd).chain(process);
        handover::send(&self.control, &order, fds)
    }

    /// Has it take a client's connection over; if it does not, the connection is given back, as far
    /// as there is still one.
    pub fn take_over(&self, attach: Attach, conn: Stream) -> Result<(), Option<Stream>> {
        let _ = conn.send_timeout(None);
        let handed = conn.hand_over();
        let done = self.hand(attach, &handed, &[]);
        done.map_err(|_| handed.take().ok())
    }

    /// Tells it something. One that does not listen, and whose socket is full of what it was told,
    /// is told nothing more: nobody waits for it.
    pub fn tell(&self, order: &Order) {
        if let Err(e) = handover::send_now(&self.control, &order.to_json()) {
            let why = e.to_string();
            tracing::debug!(worker = self.pid, why, "a worker does not listen");
        }
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
    /// What starts workers. `users` are those of another server's cells.
    pub fn new(c: &Config, users: Vec<u32>) -> Result<Self> {
        let mut args = Vec::new();
        let mut path = |flag: &str, p: &Option<std::path::PathBuf>| {
            if let Some(p) = p {
                args.push(format!("{flag}={}", p.display()));
            }
        };
        path("--cuda-library", &c.cuda_library);
        path("--opencl-library", &c.opencl_library);
        path("--nccl-library", &c.nccl_library);
        path("--cupti-library", &c.cupti_library);
        path("--nvml-library", &c.nvml_library);
        args.extend(c.submitters.map(|n| format!("--submitters={n}")));
        args.push(format!("--rdma={}", c.rdma));
        args.extend(c.rdma_plaintext.then(|| "--rdma-plaintext".into()));
        let spawner = Spawner::start()?;
        let cells = Cells::new(c, users, spawner.clone(), command)?;
        Ok(Self {
            args,
            rdma_device: c.rdma_device.clone(),
            of_tenants: Arc::default(),
            apis: c.apis.clone(),
            spares: Arc::default(),
            sparing: Arc::default(),
            resting: Arc::default(),
            turns: Turns::new(Turns::of_this_machine()),
            cells,
            mps: c.mps_control.clone(),
            dense: Arc::default(),
            daemons: Arc::default(),
            spawner,
            voices: Voices::start().context("cannot start a thread")?,
            keeper: Keeper::new(c),
        })
    }

    /// Asks this from now on.
    pub fn set_devices(&self, of_tenants: DeviceOf) {
        let _ = self.of_tenants.set(of_tenants);
    }

    /// The RDMA device of a tenant's sessions.
    fn rdma_device(&self, tenant: &str) -> String {
        let own = self.of_tenants.get().and_then(|of| of(tenant));
        own.unwrap_or_else(|| self.rdma_device.clone())
    }

    /// No session comes any more: ends what waits for one, and the store's process.
    pub fn rest(&self) {
        self.resting.store(true, Ordering::Release);
        self.keeper.rest();
        let spares: Vec<_> = lock(&self.spares).drain(..).collect();
        spares.iter().for_each(Worker::kill);
    }

    /// Sessions come again.
    pub fn wake(&self) {
        self.keeper.wake();
        self.resting.store(false, Ordering::Release);
    }

    /// The users of all cells, here and at other servers.
    pub fn users(&self) -> Vec<u32> {
        self.cells.users()
    }

    /// These users are those of other servers' cells now.
    pub fn set_others(&self, users: Vec<u32>) {
        self.cells.set_others(users);
    }

    /// What keeps sessions apart.
    pub fn isolation(&self) -> &Have {
        self.cells.have()
    }

    /// A command that does the server's own work, in the server's own cell, with these descriptors.
    fn helper(&self, more: &[i32]) -> Result<(Command, Inside)> {
        let mut c = command();
        c.args(&self.args);
        c.arg(format!("--rdma-device={}", self.rdma_device));
        let own = self.cells.own().map(|cell| cell.admit(&mut c));
        let (mut keep, inside) = own.transpose()?.unwrap_or((Vec::new(), Inside::Here));
        keep.extend(more);
        with_descriptors(&mut c, keep);
        Ok((c, inside))
    }

    /// Lists the devices. Done in a process of its own: a vendor's library that crashes or hangs
    /// while it looks for devices must not take the server along.
    pub fn probe(&self) -> Result<Found> {
        let (mut c, inside) = self.helper(&[])?;
        c.arg(format!("--probe={}", self.apis.join(",")))
            .stdout(Stdio::piped());
        let mut child = self
            .spawner
            .spawn(c, inside)
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

    /// Starts the process that reads the GPUs.
    pub fn readings(&self) -> Option<Child> {
        let (mut c, inside) = self.helper(&[]).ok()?;
        c.arg("--readings");
        c.stdin(Stdio::piped()).stdout(Stdio::piped());
        self.spawner.spawn(c, inside).ok()
    }

    /// Starts the process that is one end of a measurement, as it is told over a socket. `near` is
    /// this machine's address.
    pub fn fabric(&self, socket: &impl AsRawFd, near: Option<IpAddr>) -> Result<Child> {
        let fd = socket.as_raw_fd();
        let (mut c, inside) = self.helper(&[fd])?;
        c.arg(format!("--fabric-fd={fd}"));
        c.args(near.map(|near| format!("--fabric-near={near}")));
        c.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(self.spawner.spawn(c, inside)?)
    }

    /// Has the store opened before the first worker needs it. An error says why there is none.
    pub fn open_store(&self) -> Result<(), String> {
        self.keeper.open(|fd| self.store(fd))
    }

    /// What keeps the store: as the server's user, for what it keeps is that user's, and with no
    /// more rights than that takes.
    fn store(&self, fd: i32) -> Command {
        let mut c = command();
        let have = self.cells.have();
        if !have.parts.is_empty() {
            let entry = Entry {
                have: have.clone(),
                ..Entry::default()
            };
            let entry = serde_json::to_string(&entry).unwrap_or_default();
            c.arg(format!("--enter={entry}"));
        }
        with_descriptors(&mut c, vec![fd]);
        c
    }

    /// What an owner's dense sessions have their devices with: that of those which are there, or a
    /// new one.
    fn dense(&self, owner: &Who) -> Result<Arc<Dense>> {
        let program = dense::program_of(self.mps.as_deref())?;
        let make = || self.start_dense(owner, program);
        self.dense.of(owner, Dense::is_well, make)
    }

    fn start_dense(&self, owner: &Who, program: &Path) -> Result<Arc<Dense>> {
        let rdma_device = self.rdma_device(&owner.tenant);
        let cell = self.cells.of(owner, &rdma_device).map_err(without)?;
        if cell.as_ref().is_some_and(|c| !c.has_folders()) {
            bail!(
                "--mode dense takes sessions with folders of their own, or --isolation off: this \
                 server says at its start why it has neither"
            );
        }
        let limited = self.cells.limited()?;
        let (ours, theirs) = handover::pair().map_err(not_started)?;
        // The folder for memory is the cell's own, and `/tmp` each process's, where there are any.
        let base = match cell {
            Some(_) => "/dev/shm".into(),
            None => std::env::temp_dir(),
        };
        let number = self.daemons.fetch_add(1, Ordering::Relaxed);
        let folder = base.join(format!("busbar-{}-mps-{number}", std::process::id()));
        let fd = theirs.as_raw_fd();
        let mut c = command();
        c.arg(format!("--mps={}", folder.display()))
            .arg(format!("--keep-mps={}", program.display()))
            .arg(format!("--control-fd={fd}"))
            .stdout(Stdio::null());
        let (child, _) = self.spawn(c, cell.as_deref(), limited.as_ref(), vec![fd])?;
        drop(theirs);
        Ok(Arc::new(Dense::new((child, ours), folder, cell, limited)?))
    }

    /// Starts a process of a cell's.
    fn spawn(
        &self,
        mut c: Command,
        cell: Option<&Cell>,
        limited: Option<&Limited>,
        mut keep: Vec<i32>,
    ) -> Result<(Child, u32)> {
        let admitted = cell.map(|cell| cell.admit(&mut c));
        let admitted = admitted.transpose().map_err(without)?;
        let (ways, inside) = admitted.unwrap_or((Vec::new(), Inside::Here));
        keep.extend(ways);
        with_descriptors(&mut c, keep);
        let mut child = self.spawner.spawn(c, inside).map_err(not_started)?;
        let pid = child.id();
        if let Err(why) = limited.map_or(Ok(()), |l| l.hold(pid)) {
            let _ = (child.kill(), child.wait());
            bail!("the server cannot limit a worker process: {why}");
        }
        Ok((child, pid))
    }

    fn start(&self, owner: &Who, manner: &Manner) -> Result<Worker> {
        let dense = match manner.mode {
            Mode::Isolated => None,
            Mode::Dense => Some(self.dense(owner)?),
        };
        let rdma_device = self.rdma_device(&owner.tenant);
        let cell = self.cells.of(owner, &rdma_device).map_err(without)?;
        let limited = self.cells.limited()?;
        let (ours, theirs) = handover::pair().map_err(not_started)?;
        let store = self.keeper.connect(&owner.tenant, |fd| self.store(fd));
        let door = Door::open().ok().map(Door::into_socket);
        let mut c = command();
        c.args(&self.args);
        c.arg(format!("--rdma-device={rdma_device}"));
        let mut keep = vec![theirs.as_raw_fd()];
        c.arg(format!("--control-fd={}", theirs.as_raw_fd()));
        for (flag, fd) in [("--store-fd", &store), ("--door-fd", &door)] {
            if let Some(fd) = fd {
                c.arg(format!("{flag}={}", fd.as_raw_fd()));
                keep.push(fd.as_raw_fd());
            }
        }
        c.arg(format!("--warm={}", self.apis.join(",")));
        c.envs(manner.driver.iter().map(|(name, value)| (name, value)));
        if let Some(dense) = &dense {
            c.arg(format!("--mps={}", dense.folder.display()));
            // Of a hundredth there is none smaller.
            let part = manner.share.map(|s| (s * 100 / WHOLE).max(1));
            c.args(part.map(|p| format!("--mps-part={p}")));
        }
        // Nothing a tenant prints may mix with the server's own stdout.
        c.stdout(Stdio::null()).stderr(Stdio::piped());
        let (mut child, pid) = self.spawn(c, cell.as_deref(), limited.as_ref(), keep)?;
        let session = Named::default();
        if let Some(pipe) = child.stderr.take() {
            self.voices.hear(pipe.into(), pid, session.clone());
        }
        let user = cell.as_ref().and_then(|c| c.user());
        Ok(Worker {
            control: ours,
            child: Mutex::new(child),
            pid,
            // SAFETY: no preconditions.
            uid: user.unwrap_or_else(|| unsafe { libc::geteuid() }),
            owner: owner.clone(),
            rdma_device,
            dense,
            _cell: cell,
            _limited: limited,
            session,
            ready: AtomicBool::new(false),
        })
    }

    /// The spare worker of an owner, if it lives.
    fn spare(&self, owner: &Who) -> Option<Worker> {
        let mut spares = lock(&self.spares);
        // One that died while it waited (a driver that was updated, a lack of memory) is no use.
        spares.retain(|w| !w.ended());
        let at = spares.iter().position(|w| w.owner == *owner)?;
        let spare = spares.remove(at)?;
        drop(spares);
        // The policy may have changed.
        match spare.rdma_device == self.rdma_device(&owner.tenant) {
            true => Some(spare),
            false => {
                spare.kill();
                None
            }
        }
    }

    /// Keeps a worker as a spare one, and ends those that are too many.
    fn keep(&self, w: Worker) {
        let mut spares = lock(&self.spares);
        if self.resting.load(Ordering::Acquire) {
            drop(spares);
            return w.kill();
        }
        if !spares.iter().any(|other| other.owner == w.owner) {
            spares.push_back(w);
        }
        let many = spares.len().saturating_sub(MOST_SPARE);
        let old: Vec<_> = spares.drain(..many).collect();
        drop(spares);
        old.iter().for_each(Worker::kill);
    }

    /// A worker for a new session of that owner, by a client of that network: a spare one if it is
    /// ready and wanted, else a fresh one. Asks all the time whether it is still wanted.
    pub fn take(
        &self,
        owner: &Who,
        manner: Manner,
        spare_wanted: bool,
        network: Network,
        still_wanted: impl Fn() -> bool,
    ) -> Result<Worker> {
        if !still_wanted() {
            bail!(GONE);
        }
        // A spare one has its driver loaded, and is isolated for good.
        let usual = manner.is_usual();
        let spare_wanted = spare_wanted && usual;
        let spare = || spare_wanted.then(|| self.spare(owner)).flatten();
        let (w, turn) = match spare() {
            Some(w) => (w, None),
            None => {
                let asks = Asks::of(&owner.tenant, network);
                let turn = self.turns.wait(asks, LOOK, &still_wanted);
                let turn = turn.context(GONE)?;
                (
                    spare().map_or_else(|| self.start(owner, &manner), Ok)?,
                    Some(turn),
                )
            }
        };
        if usual {
            self.keep_spare(owner);
        }
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
                match usual {
                    true => self.keep(w),
                    false => w.kill(),
                }
                bail!(GONE);
            }
        }
        drop(turn);
        handover::recv_timeout(&w.control, None)?;
        Ok(w)
    }

    /// Starts a worker ahead of need, for whoever came last, from a thread of its own.
    pub fn keep_spare(&self, owner: &Who) {
        let has = lock(&self.spares).iter().any(|w| w.owner == *owner);
        if has || self.sparing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (me, owner) = (self.clone(), owner.clone());
        let run = move || {
            if let Ok(w) = me.start(&owner, &Manner::default()) {
                me.keep(w);
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

/// What every process of the server's is started with.
fn command() -> Command {
    let mut c = Command::new("/proc/self/exe");
    c.arg0("busbar").arg("worker").stdin(Stdio::null());
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe {
        c.pre_exec(|| {
            confine::take_all_signals();
            Ok(())
        });
    }
    // A server that was itself started through `busbar run` must not loop back to a shim.
    for (k, _) in std::env::vars_os() {
        // What a service manager has told the server is not for them either.
        let k_text = k.to_string_lossy();
        let service = [
            "NOTIFY_SOCKET",
            "LISTEN_FDS",
            "LISTEN_PID",
            "LISTEN_FDNAMES",
        ];
        if k_text.starts_with("BUSBAR_") || service.contains(&&*k_text) {
            c.env_remove(k);
        }
    }
    if std::env::var_os("LD_LIBRARY_PATH").is_some()
        && let Ok(path) = std::env::join_paths(launch::other_folders())
    {
        c.env("LD_LIBRARY_PATH", path);
    }
    launch::preload_none_of_ours(&mut c);
    c
}
