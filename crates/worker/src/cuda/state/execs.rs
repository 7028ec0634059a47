//! Executable graphs, and which mirrors each reads and writes.

use super::host_node::{Around, HostNode};
use super::mirrors::{Mirror, Mirrors};
use super::prelude::*;
use crate::memory::Charge;
use std::any::Any;

/// The mirrors that nodes of a graph read and write.
pub type Ids = (Vec<u32>, Vec<u32>);

/// What is known of the session's graphs.
#[derive(Default)]
pub struct Graphs {
    /// Executable graphs that have anything to do with the program's memory or functions, by id.
    pub execs: HashMap<u32, Exec>,
    pub mirrors: Mirrors,
    /// What graphs allocate, and its length, by address. The driver says nothing of it before the
    /// first launch.
    pub allocated: BTreeMap<u64, (u64, Allocator)>,
    /// Executable graphs that allocate or free memory, by id.
    pub leaves: HashMap<u32, Arc<Leaves>>,
    /// Executable graphs that the program has destroyed, and that outlive memory of theirs.
    pub lingering: Vec<Lingering>,
    /// How many bytes launches have left; what else is charged is still to come.
    pub there: u64,
    /// What devices keep for graphs.
    pub kept: Vec<Charge>,
    /// One of `leaves` is gone, and what devices keep has not been counted since.
    pub uncounted: bool,
    /// The graphs in a conditional node: the driver does not say them again.
    pub bodies: HashMap<u64, Vec<u64>>,
}

/// What allocates memory of a graph.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Allocator {
    /// A node, which has this id.
    Node(u32),
    /// A capture, which has this number, as no other ever has.
    Capture(u64),
}

/// What launches of an executable graph do to memory that is not theirs alone.
#[derive(Default)]
pub struct Leaves {
    /// What they leave behind, by address.
    pub memory: Vec<(u64, Arc<Charge>)>,
    /// What they free that others have allocated.
    pub frees: Vec<u64>,
}

/// An executable graph that is to be destroyed when nothing of this memory is there any more:
/// drivers end the process that destroys one before (580 does, in a launch or free much later).
pub struct Lingering {
    pub exec: u64,
    /// The context that its memory is gone with.
    pub context: u32,
    pub memory: Vec<u64>,
}

/// A copy node with a mirror.
pub struct Entry {
    pub node: u64,
    pub src: Option<Arc<Mirror>>,
    pub dst: Option<Arc<Mirror>>,
    /// Whether a launch may leave it out: then its destination must hold what the program has
    /// there.
    pub unsure: bool,
    pub on: bool,
}

/// An executable graph.
#[derive(Default)]
pub struct Exec {
    pub entries: Vec<Entry>,
    /// Its own host nodes, with the mirrors around each.
    pub hosts: Vec<(u64, Arc<HostNode>, Around)>,
    pub keep: Vec<Box<dyn Any + Send>>,
    /// The result of the last launch.
    pub launched: CUresult,
    /// Launches under way.
    pub running: Arc<Running>,
}

/// How many launches of an executable graph are under way, and the graph once it is destroyed: then
/// the last of them ends it. Its stream may be gone by then.
#[derive(Default)]
pub struct Running(Mutex<(usize, Option<Exec>)>);

impl Running {
    /// A launch has begun.
    pub fn begin(&self) {
        lock(&self.0).0 += 1;
    }

    /// A launch has ended.
    pub fn end(&self) {
        let gone = {
            let mut now = lock(&self.0);
            now.0 -= 1;
            if now.0 == 0 { now.1.take() } else { None }
        };
        drop(gone);
    }

    /// The graph is destroyed: it goes with the last launch.
    pub fn leave(&self, e: Exec) {
        let mut now = lock(&self.0);
        if now.0 > 0 {
            now.1 = Some(e);
        }
    }
}

impl Exec {
    /// Tells its host nodes what has changed: a mirror in another's place, a node left out.
    pub fn refresh(&self) {
        let on = || self.entries.iter().filter(|e| e.on);
        let id = |m: &Option<Arc<Mirror>>| m.as_ref().map(|m| m.id);
        let destinations: HashSet<_> = on().filter_map(|e| id(&e.dst)).collect();
        let sources: HashSet<_> = on().filter_map(|e| id(&e.src)).collect();
        let pick = |ids: &[u32], of: &HashSet<u32>| {
            let there = ids.iter().filter(|i| of.contains(i));
            there.copied().collect()
        };
        for (_, host, [before, behind, beside]) in &self.hosts {
            let (before, beside) = (pick(before, &destinations), pick(beside, &destinations));
            host.set_around([before, pick(behind, &sources), beside]);
        }
    }

    /// One mirror takes another's place, at a node that is no entry now. Others may have the same.
    pub fn replace(&mut self, old: &Option<Arc<Mirror>>, new: &Option<Arc<Mirror>>) {
        let (Some(old), Some(new)) = (old, new) else {
            return;
        };
        let stays = self.mirrors().iter().any(|m| m.id == old.id);
        let lists = self.hosts.iter_mut().flat_map(|(_, _, around)| around);
        for list in lists.filter(|list| list.contains(&old.id)) {
            list.retain(|id| *id != new.id && (stays || *id != old.id));
            list.push(new.id);
        }
    }

    /// All its mirrors.
    pub fn mirrors(&self) -> Vec<Arc<Mirror>> {
        let both = self.entries.iter().flat_map(|e| [&e.src, &e.dst]);
        both.flatten().cloned().collect()
    }

    /// The mirrors to fill before a launch and those to fetch after it.
    pub fn lists(&self) -> (Vec<u32>, Vec<u32>) {
        let on = || self.entries.iter().filter(|e| e.on);
        let filled = |e: &Entry| if e.unsure { e.dst.clone() } else { None };
        let sources = on()
            .flat_map(|e| [e.src.clone(), filled(e)])
            .flatten()
            .map(|m| m.id);
        let destinations = on().filter_map(|e| e.dst.as_ref().map(|m| m.id));
        (once(sources), once(destinations))
    }
}

/// Each once, where it is first: copies of the same memory have one mirror.
fn once(ids: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut seen = HashSet::new();
    ids.filter(|id| seen.insert(*id)).collect()
}
