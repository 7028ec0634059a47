//! What the servers said of their GPUs, kept for the calls.
//!
//! It is in atomics and in memory that is never freed: there is no lock that a fork could catch in
//! another thread's hands, and a handle stays good after `nvmlShutdown`, as programs expect that
//! keep theirs over a second `nvmlInit`. What is the process's own alone has a lock for each
//! process (`own`).

use super::counters::{Counters, Key};
use super::own::Own;
use super::sets::Sets;
use crate::config::Config;
use crate::hello;
use crate::ranks::Spot;
use crate::servers::domain;
use busbar_abi::nvml::*;
use busbar_control::device;
use busbar_control::gpu::{Event, Gpus, Link, Number, Question, Said, plain_uuid};
use busbar_control::hello::{EVENTS, HOLDINGS, Hello, Intent, LAST_READINGS};
use busbar_control::status::{Session, Status};
use std::collections::BTreeMap;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// How old live readings may be.
const FRESH_MS: u64 = 1000;
/// How long the asking thread's claim lasts, should it end or be forked away while it asks.
const CLAIM_MS: u64 = 4000;
/// A number that the server does not know.
const UNKNOWN: u64 = u64::MAX;

/// What never changes about a GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Which of the program's servers has it.
    pub server: usize,
    /// What its vendor calls it.
    pub name: String,
    /// 32 hexadecimal digits.
    pub uuid: String,
    /// PCI domain, bus and device, where CUDA says that it is.
    pub pci: Option<[u32; 3]>,
    /// Its number at the server.
    pub ordinal: u32,
    /// Compute capability.
    pub compute: Option<[u32; 2]>,
    /// Multiprocessors.
    pub processors: Option<u32>,
    /// `serial`, `vbios`, `part`, `inforom`.
    pub texts: BTreeMap<String, String>,
    /// Other GPUs of the machine, by UUID.
    pub links: BTreeMap<String, Link>,
}

/// A GPU of a server. Programs hold pointers to these as handles.
pub struct Gpu {
    pub facts: Facts,
    numbers: [AtomicU64; Number::ALL.len()],
    /// Its server did not answer when it was last asked.
    lost: AtomicBool,
}

/// The servers' GPUs that this program may use, in CUDA's order: it sees one machine.
#[derive(Default)]
pub struct Machine {
    pub gpus: Vec<Gpu>,
    /// The first server's NVIDIA driver's version; empty when unknown.
    pub driver: String,
    /// NVML's version there; empty when unknown.
    pub nvml: String,
    /// The CUDA driver's version there.
    pub cuda: u32,
    /// Somebody was told of an NCCL of the program's own.
    pub told: AtomicBool,
}

/// What a program keeps in NVML.
#[derive(Default)]
pub struct Mine {
    /// What it waits for.
    pub sets: Sets,
    /// What it has cleared.
    pub counters: Counters,
}

/// What a process has one of.
struct Process {
    /// The machine, from the first `nvmlInit` on.
    machine: AtomicPtr<Machine>,
    /// Calls of `nvmlInit` without their `nvmlShutdown`.
    users: AtomicU32,
    /// When the servers were last asked, or will be given up on, in milliseconds as [`now`] counts.
    asked: AtomicU64,
    own: Own<Mine>,
}

static PROCESS: Process = Process {
    machine: AtomicPtr::new(null_mut()),
    users: AtomicU32::new(0),
    asked: AtomicU64::new(0),
    own: Own::new(),
};

/// Does something with what this process keeps. Nobody is asked meanwhile.
pub fn own<R>(f: impl FnOnce(&mut Mine) -> R) -> R {
    PROCESS.own.with(f)
}

fn now() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a pointer to a live structure. The standard library's clock counts from a start that
    // would have to be kept under a lock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1000 + t.tv_nsec as u64 / 1_000_000
}

/// What a server says, or why it says nothing.
fn tell(config: &Config, server: usize, hello: Hello) -> Result<Status, String> {
    let server = config.servers.get(server);
    let server = server.ok_or("BUSBAR_SERVER names no server")?;
    hello::tell(config, server, hello)
}

/// What one server says to a call that needs its answer.
fn answer(server: usize, hello: Hello) -> Result<Status> {
    tell(&Config::from_env(), server, hello).map_err(|why| {
        crate::log!(Warn, "NVML: {why}");
        NVML_ERROR_GPU_IS_LOST
    })
}

/// The sessions at a server that this program may see, and what they hold.
pub fn sessions(server: usize) -> Result<Vec<Session>> {
    let mut hello = Hello::new(Intent::Status);
    hello.features = vec![HOLDINGS.into(), LAST_READINGS.into()];
    Ok(answer(server, hello)?.sessions)
}

/// What happened to a server's GPUs of late, by UUID. An older server does not know.
pub fn events(server: usize) -> Result<BTreeMap<String, Vec<Event>>> {
    let mut hello = Hello::new(Intent::Status);
    hello.features = vec![EVENTS.into(), LAST_READINGS.into()];
    let all = answer(server, hello)?.gpus.gpus;
    Ok(all.into_iter().map(|(uuid, g)| (uuid, g.events)).collect())
}

/// Has a server's NVML answer a question. An older server does not know how.
pub fn ask(server: usize, question: Question) -> Result<Said> {
    let mut hello = Hello::new(Intent::Status);
    hello.ask = Some(question);
    answer(server, hello)?.said.ok_or(NVML_ERROR_NOT_SUPPORTED)
}

/// What all servers say of this program's GPUs: of those at these spots, if that is said.
fn machines(all: impl IntoIterator<Item = Machine>, spots: &[Spot]) -> Machine {
    let mut all: Vec<_> = all.into_iter().collect();
    let mut gpus: Vec<Vec<_>> = Vec::new();
    for m in &mut all {
        gpus.push(m.gpus.drain(..).map(Some).collect());
    }
    let at = |s: &Spot| gpus.get_mut(s.server)?.get_mut(s.position as usize)?.take();
    Machine {
        gpus: match spots {
            [] => gpus.into_iter().flatten().flatten().collect(),
            _ => spots.iter().filter_map(at).collect(),
        },
        ..all.into_iter().next().unwrap_or_default()
    }
}

/// What a server says of this program's GPUs.
fn machine(server: usize, status: Status) -> Machine {
    let Gpus {
        driver,
        nvml,
        gpus: mut known,
        ..
    } = status.gpus;
    let all = status.devices.into_iter();
    let cuda: Vec<_> = all.filter(|d| d.device.api == "cuda").collect();
    let version = cuda.iter().map(|d| d.device.cuda).find(|v| *v > 0);
    let mut gpu = |d: device::Device| {
        let uuid = plain_uuid(&d.uuid).unwrap_or_default();
        let read = known.remove(&uuid).unwrap_or_default();
        let g = Gpu {
            facts: Facts {
                server,
                name: d.name,
                pci: d
                    .pci
                    .map(|[own, bus, slot]| [domain(server, own), bus, slot]),
                ordinal: d.ordinal,
                compute: d.compute,
                processors: d.processors,
                uuid,
                texts: read.texts,
                links: read.links,
            },
            numbers: [const { AtomicU64::new(UNKNOWN) }; Number::ALL.len()],
            lost: AtomicBool::new(false),
        };
        g.update(&read.numbers);
        g
    };
    let ours = cuda.into_iter().filter(|d| d.yours);
    Machine {
        gpus: ours.map(|d| gpu(d.device)).collect(),
        driver,
        nvml,
        cuda: version.unwrap_or(0),
        told: AtomicBool::new(false),
    }
}

impl Machine {
    /// The GPU behind a handle.
    pub fn device(&self, handle: nvmlDevice_t) -> Result<&Gpu> {
        let mut gpus = self.gpus.iter();
        gpus.find(|g| g.handle() == handle)
            .ok_or(NVML_ERROR_INVALID_ARGUMENT)
    }

    fn same(&self, other: &Self) -> bool {
        let facts = |m: &Self| m.gpus.iter().map(|g| g.facts.clone()).collect::<Vec<_>>();
        self.driver == other.driver
            && self.nvml == other.nvml
            && self.cuda == other.cuda
            && facts(self) == facts(other)
    }
}

impl Gpu {
    /// What the program knows it by.
    pub fn handle(&self) -> nvmlDevice_t {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    fn update(&self, read: &BTreeMap<String, u64>) {
        for ((_, name), slot) in Number::ALL.iter().zip(&self.numbers) {
            slot.store(
                read.get(*name).copied().unwrap_or(UNKNOWN),
                Ordering::Relaxed,
            );
        }
    }

    /// What one of its counters is known by.
    pub fn counter(&self, field: u32, scope: u32) -> Key {
        (self.facts.server, self.facts.uuid.clone(), field, scope)
    }

    /// A number that does not change while programs run.
    pub fn fixed(&self, n: Number) -> Result<u64> {
        match self.numbers[n as usize].load(Ordering::Relaxed) {
            UNKNOWN => Err(NVML_ERROR_NOT_SUPPORTED),
            v => Ok(v),
        }
    }

    /// A number of now, or of a second ago at most.
    pub fn live(&self, n: Number) -> Result<u64> {
        refresh();
        refuse_if(self.lost.load(Ordering::Acquire), NVML_ERROR_GPU_IS_LOST)?;
        self.fixed(n)
    }
}

/// What the servers said is old from now on.
pub fn refresh_now() {
    PROCESS.asked.store(0, Ordering::Release);
}

/// Asks the servers again when what they said is old. One thread asks; the others go on with what
/// there is. The claim is the time itself, so that one who is gone, as after a fork, holds nobody
/// up for long.
fn refresh() {
    let (now_ms, asked) = (now(), PROCESS.asked.load(Ordering::Acquire));
    if now_ms < asked + FRESH_MS {
        return;
    }
    let (order, fetch) = (Ordering::AcqRel, Ordering::Acquire);
    let claim = PROCESS
        .asked
        .compare_exchange(asked, now_ms + CLAIM_MS, order, fetch);
    let Some(m) = current().filter(|_| claim.is_ok()) else {
        return;
    };
    let config = Config::from_env();
    let none = BTreeMap::new();
    for there in m.gpus.chunk_by(|a, b| a.facts.server == b.facts.server) {
        let said = tell(&config, there[0].facts.server, Hello::new(Intent::Status));
        if let Err(why) = &said {
            crate::log!(Warn, "NVML: {why}");
        }
        for g in there {
            if let Ok(status) = &said {
                let known = status.gpus.gpus.get(&g.facts.uuid);
                g.update(known.map_or(&none, |k| &k.numbers));
            }
            g.lost.store(said.is_err(), Ordering::Release);
        }
    }
    PROCESS.asked.store(now(), Ordering::Release);
}

fn current() -> Option<&'static Machine> {
    // SAFETY: what is stored there was leaked, and is never freed.
    unsafe { PROCESS.machine.load(Ordering::Acquire).as_ref() }
}

/// The machine, for a call.
pub fn get() -> Result<&'static Machine> {
    if PROCESS.users.load(Ordering::Acquire) == 0 {
        return Err(NVML_ERROR_UNINITIALIZED);
    }
    current().ok_or(NVML_ERROR_UNINITIALIZED)
}

/// `nvmlInit`: asks the servers what they have, unless that is known. What their GPUs do is asked
/// by the first call that wants to know.
pub fn init(without_gpus: bool) -> Result {
    let one_more = |n: u32| (n > 0).then_some(n + 1);
    let (order, fetch) = (Ordering::AcqRel, Ordering::Acquire);
    if PROCESS.users.fetch_update(order, fetch, one_more).is_ok() {
        return Ok(());
    }
    let config = Config::from_env();
    let one = |server| {
        let mut hello = Hello::new(Intent::Status);
        hello.features.push(LAST_READINGS.into());
        Ok(machine(server, tell(&config, server, hello)?))
    };
    // None at all is an error, too.
    let all: Result<Vec<_>, String> = (0..config.servers.len().max(1)).map(one).collect();
    let all = all.map_err(|why| {
        crate::log!(Warn, "NVML: {why}");
        NVML_ERROR_DRIVER_NOT_LOADED
    })?;
    let new = machines(all, &config.devices);
    if new.gpus.is_empty() && !without_gpus {
        crate::log!(Warn, "NVML: no server has a GPU for this program");
        return Err(NVML_ERROR_DRIVER_NOT_LOADED);
    }
    PROCESS.asked.store(0, Ordering::Release);
    publish(new);
    PROCESS.users.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// Makes `new` the machine, unless it is the one there is: handles into that one stay good.
fn publish(new: Machine) {
    let new = Box::into_raw(Box::new(new));
    loop {
        let old = PROCESS.machine.load(Ordering::Acquire);
        // SAFETY: `new` is ours until it is stored, and what is stored is never freed.
        let same = unsafe { old.as_ref() }.is_some_and(|o| unsafe { &*new }.same(o));
        if same {
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(new) });
            return;
        }
        let (order, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        if PROCESS
            .machine
            .compare_exchange(old, new, order, fetch)
            .is_ok()
        {
            return;
        }
    }
}

/// `nvmlShutdown`.
pub fn shutdown() -> Result {
    let one_less = |n: u32| n.checked_sub(1);
    PROCESS
        .users
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less)
        .map(drop)
        .map_err(|_| NVML_ERROR_UNINITIALIZED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(document: &serde_json::Value) -> Machine {
        machine(
            0,
            busbar_control::read("it", document.to_string().as_bytes()).unwrap(),
        )
    }

    #[test]
    fn gpus_of_all_servers_are_those_of_one_machine() {
        let device = |name: &str, n: u32| {
            json!({ "api": "cuda", "ordinal": n, "name": format!("{name}{n}"), "yours": true,
                    "pci": [0, 16 + n, 0] })
        };
        let status = |name| {
            let both = [device(name, 0), device(name, 1)];
            json!({ "devices": both, "gpus": { "driver": name } })
        };
        let all = || {
            let read = |s: serde_json::Value| busbar_control::read("it", s.to_string().as_bytes());
            let [a, b] = ["a", "b"].map(|name| read(status(name)).unwrap());
            [machine(0, a), machine(1, b)]
        };
        let found = |m: &Machine| {
            let of = m
                .gpus
                .iter()
                .map(|g| (g.facts.server, g.facts.name.clone()));
            of.map(|(server, name)| format!("{server}:{name}"))
                .collect::<Vec<_>>()
        };
        let m = machines(all(), &[]);
        assert_eq!(found(&m), ["0:a0", "0:a1", "1:b0", "1:b1"]);
        assert_eq!(m.driver, "a");
        // Both servers have theirs at the same places.
        let places = m.gpus.iter().filter_map(|g| g.facts.pci);
        let places: std::collections::BTreeSet<_> = places.collect();
        assert_eq!(places.len(), 4);
        // In the order of the program's ranks, and no others; one that is not there is none.
        let spots = crate::ranks::parse("1:1,0:0,1:7").unwrap();
        assert_eq!(found(&machines(all(), &spots)), ["1:b1", "0:a0"]);
    }

    #[test]
    fn a_document_of_an_older_server_gives_what_it_has() {
        let m = of(&json!({ "devices": [
            { "api": "cuda", "ordinal": 0, "name": "G", "uuid": "00".repeat(16), "lease": null },
            { "api": "opencl", "ordinal": 0, "name": "G" },
        ] }));
        assert_eq!(m.gpus.len(), 1);
        assert_eq!(m.gpus[0].facts.name, "G");
        assert_eq!(m.gpus[0].facts.pci, None);
        assert_eq!(
            m.gpus[0].fixed(Number::MemoryTotal),
            Err(NVML_ERROR_NOT_SUPPORTED)
        );
        assert!(m.driver.is_empty() && m.cuda == 0);
    }

    #[test]
    fn gpus_are_those_that_the_server_says_are_the_programs() {
        let device = |ordinal: u32, yours| {
            let name = ordinal.to_string();
            json!({ "api": "cuda", "ordinal": ordinal, "name": name, "yours": yours })
        };
        let all = [device(0, false), device(1, true), device(2, false)];
        let m = of(&json!({ "devices": all }));
        assert_eq!(m.gpus.len(), 1);
        assert_eq!(m.gpus[0].facts.name, "1");
    }
}
