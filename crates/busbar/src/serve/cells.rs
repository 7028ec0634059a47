//! The cells that sessions run in: one for each identity that has some, and the server's own, in
//! which devices are looked for and read.

use super::config::Config;
use super::held::Held;
use super::identity::Who;
use super::spawner::{Inside, Spawner};
use crate::confine;
use crate::isolation::cell::{Entry, Made, Plan};
use crate::isolation::limits::{Limited, Limits};
use crate::isolation::{Adapters, Have, Level, Part, device_memory, is_privileged};
use anyhow::{Context, Result, anyhow, bail};
use busbar_transport::handover;
use busbar_transport::lock::lock;
use busbar_transport::rdma::Wish;
use busbar_transport::rdma::ib::Choice;
use std::collections::HashSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// How long a cell may take to be made.
const PATIENCE: Duration = Duration::from_secs(20);

/// A cell. It ends when nobody has it any more, and what is left in it ends with it.
pub(crate) struct Cell {
    plan: Plan,
    have: Have,
    ways: Vec<OwnedFd>,
    /// Where its first process hears that it is to end.
    _control: OwnedFd,
    child: Mutex<Child>,
    /// Goes last: who is given it next must find nobody.
    _user: Option<User>,
}

impl Drop for Cell {
    fn drop(&mut self) {
        let mut child = lock(&self.child);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Users for cells.
struct Users {
    range: (u32, u32),
    taken: Mutex<HashSet<u32>>,
    /// Those that another server's cells have.
    others: Mutex<HashSet<u32>>,
}

/// A cell's user, which is another's once this is dropped.
struct User {
    users: Arc<Users>,
    number: u32,
}

impl Drop for User {
    fn drop(&mut self) {
        lock(&self.users.taken).remove(&self.number);
    }
}

impl Users {
    fn new(range: (u32, u32)) -> Arc<Self> {
        let (taken, others) = Default::default();
        Arc::new(Self {
            range,
            taken,
            others,
        })
    }

    /// One that no cell of this server has, and hardly any of another.
    fn take(self: &Arc<Self>) -> Option<User> {
        let (first, last) = self.range;
        let count = last - first + 1;
        let begin = std::process::id().wrapping_mul(257);
        let (mut taken, others) = (lock(&self.taken), lock(&self.others));
        let mut all = (0..count).map(|i| first + begin.wrapping_add(i) % count);
        let number = all.find(|u| !others.contains(u) && taken.insert(*u))?;
        drop((taken, others));
        let users = self.clone();
        Some(User { users, number })
    }
}

struct State {
    program: Box<dyn Fn() -> Command + Send + Sync>,
    spawner: Spawner,
    level: Level,
    libraries: Vec<PathBuf>,
    /// Whether sessions move to RDMA.
    rdma: Wish,
    users: Arc<Users>,
    limits: OnceLock<Limits>,
    have: OnceLock<Have>,
    /// The server's own.
    own: OnceLock<Arc<Cell>>,
    all: Held<Cell>,
}

/// Makes cells.
#[derive(Clone)]
pub(crate) struct Cells(Arc<State>);

/// Has the driver's own helper make its device files: a cell is made of those that there are.
fn make_device_files() {
    let gpus = std::fs::read_dir("/proc/driver/nvidia/gpus").map_or(0, Iterator::count);
    let there = |name: &str| Path::new("/dev").join(name).exists();
    let all = (0..gpus).all(|n| there(&format!("nvidia{n}")));
    if gpus == 0 || (all && there("nvidiactl") && there("nvidia-uvm")) {
        return;
    }
    let mut c = Command::new("nvidia-modprobe");
    c.args(["-u", "-c=0"])
        .args((0..gpus).map(|n| format!("-c={n}")));
    if let Err(e) = c.stdin(Stdio::null()).status() {
        let why = e.to_string();
        tracing::warn!(
            why,
            "nvidia-modprobe does not run: device files may be missing"
        );
    }
}

/// Those that sessions are to move to.
fn adapters(rdma: Wish, device: &str) -> Adapters {
    let named = device.parse::<Choice>().ok();
    match (rdma, named.and_then(|c| c.device)) {
        (Wish::Off, _) => Adapters::None,
        (_, None) => Adapters::All,
        (_, Some(name)) => Adapters::Named(name),
    }
}

impl Cells {
    /// Finds out what there is, and makes the server's own cell. `program` is what the first
    /// process of a cell and its workers are started with.
    pub(super) fn new(
        config: &Config,
        others: Vec<u32>,
        spawner: Spawner,
        program: impl Fn() -> Command + Send + Sync + 'static,
    ) -> Result<Self> {
        let libraries = [
            &config.cuda_library,
            &config.opencl_library,
            &config.nccl_library,
            &config.cupti_library,
            &config.nvml_library,
            &config.mps_control,
        ];
        let state = State {
            program: Box::new(program),
            spawner,
            level: config.isolation,
            rdma: config.rdma,
            libraries: libraries.into_iter().flatten().cloned().collect(),
            users: Users::new(config.worker_uids),
            limits: OnceLock::new(),
            have: OnceLock::new(),
            own: OnceLock::new(),
            all: Held::default(),
        };
        let me = Self(Arc::new(state));
        me.set_others(others);
        if config.isolation == Level::Off {
            let _ = me.0.have.set(Have::default());
            return Ok(me);
        }
        make_device_files();
        let cell = me.make(None, &config.rdma_device)?;
        let mut have = cell.have.clone();
        have.note(
            Part::Limits,
            Limits::new().map(|limits| drop(me.0.limits.set(limits))),
        );
        if let Ok(parameters) = std::fs::read_to_string("/proc/driver/nvidia/params") {
            have.note(Part::DeviceMemory, device_memory(&parameters));
        }
        if config.isolation == Level::Strict && !have.missing.is_empty() {
            bail!(
                "--isolation strict takes what this machine does not have: {}; mend that, or say \
                 --isolation best to go on without",
                have.lacks()
            );
        }
        let _ = (me.0.have.set(have), me.0.own.set(cell));
        Ok(me)
    }

    /// What there is.
    pub(super) fn have(&self) -> &Have {
        self.0.have.get_or_init(Have::default)
    }

    /// The users of all cells, here and elsewhere.
    pub(super) fn users(&self) -> Vec<u32> {
        let users = &self.0.users;
        let (here, others) = (lock(&users.taken), lock(&users.others));
        here.union(&others).copied().collect()
    }

    /// Users that another server's cells have, and no longer those that were said before.
    pub(super) fn set_others(&self, others: Vec<u32>) {
        *lock(&self.0.users.others) = others.into_iter().collect();
    }

    /// The server's own cell.
    pub(super) fn own(&self) -> Option<Arc<Cell>> {
        self.0.own.get().cloned()
    }

    /// The cell of somebody's sessions, if there are any. A new one has this RDMA device.
    pub(super) fn of(&self, owner: &Who, rdma_device: &str) -> Result<Option<Arc<Cell>>> {
        if self.0.level == Level::Off {
            return Ok(None);
        }
        let make = || self.make(self.0.have.get(), rdma_device);
        self.0.all.of(owner, |_| true, make).map(Some)
    }

    /// Groups for one worker, where there are any.
    pub(super) fn limited(&self) -> Result<Option<Limited>> {
        let limits = self.0.limits.get();
        let made = limits.map(Limits::limited).transpose();
        made.map_err(|why| anyhow!("the server cannot limit a worker process: {why}"))
    }

    /// A new cell; without `known` what there is of it is to be found out.
    fn make(&self, known: Option<&Have>, rdma_device: &str) -> Result<Arc<Cell>> {
        let s = &*self.0;
        let user = match is_privileged() {
            true => Some(s.users.take().context(
                "there is no user left for another session: give more with --worker-uids",
            )?),
            false => None,
        };
        let libraries: Vec<_> = s.libraries.iter().filter_map(|l| l.to_str()).collect();
        let libraries: Vec<_> = libraries.into_iter().map(Some).collect();
        let mut plan = Plan {
            parts: known.map(|h| h.parts.clone()),
            user: user.as_ref().map(|u| u.number),
            places: confine::given(&libraries),
            adapters: adapters(s.rdma, rdma_device),
            no_processes: None,
        };
        let wanted = is_privileged() && known.is_none_or(|h| h.has(Part::Processes));
        if !wanted {
            let why =
                "the server is not root and has no capabilities for it, or the machine has none";
            plan.no_processes = Some(why.into());
        }
        let (control, theirs) = handover::pair()?;
        let command = |plan: &Plan| -> Result<Command> {
            let mut c = (s.program)();
            let fd = theirs.as_raw_fd();
            c.arg(format!("--cell={}", serde_json::to_string(plan)?))
                .arg(format!("--control-fd={fd}"))
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            super::spawner::with_descriptors(&mut c, vec![fd]);
            Ok(c)
        };
        let mut started = match wanted {
            true => s.spawner.spawn(command(&plan)?, Inside::New),
            false => s.spawner.spawn(command(&plan)?, Inside::Here),
        };
        if let (true, None, Err(e)) = (wanted, known, &started) {
            plan.no_processes = Some(format!("no process namespace: {e}"));
            started = s.spawner.spawn(command(&plan)?, Inside::Here);
        }
        let mut child = started.context("cannot start a process for a cell")?;
        drop(theirs);
        handover::recv_timeout(&control, Some(PATIENCE))?;
        let said = handover::recv_all(&control).ok().flatten();
        let made = said.and_then(|(text, ways)| {
            let made: Made = serde_json::from_slice(&text).ok()?;
            Some(made.map(|have| (have, ways)))
        });
        let made = made.unwrap_or_else(|| Err("its process ended; the log may say why".into()));
        let (have, ways) = made.map_err(|why| {
            let _ = (child.kill(), child.wait());
            anyhow!("there is no isolation, so no session: {why}")
        })?;
        Ok(Arc::new(Cell {
            plan,
            have,
            ways,
            _control: control,
            child: Mutex::new(child),
            _user: user,
        }))
    }
}

impl Cell {
    /// What makes a command a process of this cell: the descriptors that it is to have besides, and
    /// the process namespace to start it in.
    pub(super) fn admit(&self, c: &mut Command) -> Result<(Vec<i32>, Inside)> {
        let entry = Entry {
            have: self.have.clone(),
            plan: self.plan.clone(),
            ways: self.ways.iter().map(AsRawFd::as_raw_fd).collect(),
        };
        c.arg(format!("--enter={}", serde_json::to_string(&entry)?));
        let inside = match self.ways.last().filter(|_| self.have.has(Part::Processes)) {
            Some(way) => Inside::Of(way.try_clone()?),
            None => Inside::Here,
        };
        Ok((entry.ways, inside))
    }

    /// Whether it has a root folder of its own.
    pub(super) fn has_folders(&self) -> bool {
        self.have.has(Part::Folders)
    }

    /// The number of its user.
    pub(super) fn user(&self) -> Option<u32> {
        self.plan.user.filter(|_| self.have.has(Part::User))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_anothers_once_its_cell_is_gone_or_has_not_come_to_be() {
        let users = Users::new((7, 8));
        let both = [users.take(), users.take()].map(Option::unwrap);
        let mut numbers = both.each_ref().map(|u| u.number);
        numbers.sort_unstable();
        assert_eq!(numbers, [7, 8]);
        assert!(users.take().is_none());
        drop(both);
        // Nor has a cell a user that another server's has.
        *lock(&users.others) = HashSet::from([7]);
        let one = users.take().unwrap();
        assert_eq!(one.number, 8);
        assert!(users.take().is_none());
    }
}
