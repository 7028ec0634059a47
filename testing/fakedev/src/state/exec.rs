//! Executable graphs.

use super::context::Context;
use super::graph::{self, Graph};
use super::graph_memory::{self, Live};
use super::handle::{self, Table};
use super::user_object;
use super::work::{Copy, Plane, Work};
use crate::config;
use crate::ffi::*;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// All executable graphs, by handle.
pub static EXECS: Table<Exec> = Table::new();

const AUTO_FREE: u64 = 1;
const UPLOAD: u64 = 2;
const DEVICE_LAUNCH: u64 = 4;

/// Why an update fails.
const UPDATE_ERROR: i32 = 1;
const UPDATE_TOPOLOGY: i32 = 2;
const UPDATE_NODE_TYPE: i32 = 3;
const UPDATE_PARAMETERS: i32 = 5;

/// A list of work, ready to run.
pub type Plan = Vec<(CUgraphNode, Work)>;

/// An executable graph.
pub struct Exec {
    /// The flags that it was made with.
    pub flags: u64,
    plan: Mutex<Arc<Plan>>,
    /// Nodes that a launch leaves out.
    pub disabled: Mutex<HashSet<CUgraphNode>>,
    /// Whether a kernel finds it on the device already.
    pub uploaded: AtomicBool,
    /// Where it was made, and so where kernels run it.
    context: Weak<Context>,
    /// For each node in the plan, how many nodes it waits for: an update must match it.
    shape: Vec<usize>,
}

/// Turns a graph into its work, in an order that its edges allow.
pub fn plan(graph: &Graph) -> R<(Plan, Vec<usize>)> {
    let mut plan = Vec::new();
    let mut shape = Vec::new();
    for (handle, node) in graph.sorted()? {
        let work = match &node.child {
            Some(child) => Work::All(Arc::new(self::plan(child)?.0)),
            None => node.work,
        };
        shape.push(node.after.len());
        plan.push((handle, work));
    }
    Ok((plan, shape))
}

/// Lets an executable graph hold what a graph and those inside it hold.
pub fn share(graph: &Graph, exec: CUgraphExec) {
    user_object::share(graph.handle, exec);
    for (_, node) in graph.nodes() {
        if let Some(child) = &node.child {
            share(child, exec);
        }
    }
}

/// The first node that a graph for devices to launch may not have: they copy, fill and run kernels.
fn not_for_devices(plan: &Plan) -> Option<CUgraphNode> {
    let bad = |(_, work): &&(CUgraphNode, Work)| match work {
        Work::All(child) => not_for_devices(child).is_some(),
        work => graph::kind(work) > 2,
    };
    plan.iter().find(bad).map(|(node, _)| *node)
}

impl Exec {
    /// Makes a graph executable; an error may come with the node whose fault it is.
    pub fn create(
        graph: &Graph,
        flags: u64,
        context: &Arc<Context>,
    ) -> Result<CUgraphExec, (CUresult, CUgraphNode)> {
        let (plan, shape) = plan(graph).map_err(|code| (code, 0))?;
        if flags & DEVICE_LAUNCH != 0
            && let Some(node) = not_for_devices(&plan)
        {
            return Err((INVALID_VALUE, node));
        }
        let handle = handle::fresh();
        share(graph, handle);
        let exec = Exec {
            flags,
            plan: Mutex::new(Arc::new(plan)),
            disabled: Mutex::default(),
            uploaded: AtomicBool::new(flags & UPLOAD != 0),
            context: Arc::downgrade(context),
            shape,
        };
        EXECS.insert(handle, Arc::new(exec));
        Ok(handle)
    }

    /// What a kernel runs that launches it, and where.
    pub fn on_device(&self) -> R<(Arc<Plan>, Arc<Context>)> {
        if self.flags & DEVICE_LAUNCH == 0 || !self.uploaded.load(Ordering::Acquire) {
            return Err(ILLEGAL_ADDRESS);
        }
        let context = self.context.upgrade().ok_or(ILLEGAL_ADDRESS)?;
        Ok((self.plan.lock().unwrap().clone(), context))
    }

    /// What a launch runs: its memory is counted as there, and its events as recorded. And whether
    /// the launch waits for it, as the real driver does for copies to pageable memory.
    pub fn launch(&self) -> R<(Arc<Plan>, bool)> {
        self.uploaded.store(true, Ordering::Release);
        let mut plan = self.plan.lock().unwrap().clone();
        let disabled = self.disabled.lock().unwrap();
        if !disabled.is_empty() {
            Arc::make_mut(&mut plan).retain(|(node, _)| !disabled.contains(node));
        }
        drop(disabled);
        let free_first = self.flags & AUTO_FREE != 0;
        graph_memory::change(|live| allocate(&plan, free_first, live))?;
        arm(&plan);
        let mut written = Vec::new();
        stage(&mut plan, &mut written);
        Ok((plan, !written.is_empty()))
    }

    /// With `FAKEDEV_FRAIL` memory of a graph that is there is lost with its executable graph, as
    /// drivers of version 580 lose it.
    pub fn lose_memory(&self) {
        if config::number("FAKEDEV_FRAIL") == Some(1) {
            for (_, work) in self.plan.lock().unwrap().iter() {
                if let Work::Allocate(memory) = work {
                    let _ = graph_memory::take(memory.address());
                }
            }
        }
    }

    /// Waits for a launch that may use streams beside its own, which end with this.
    pub fn leave_streams(&self) {
        let branches = self.shape.iter().filter(|before| **before == 0).count();
        if branches > 1
            && self.uploaded.load(Ordering::Acquire)
            && let Some(context) = self.context.upgrade()
        {
            let _ = context.drain();
        }
    }

    /// Takes over another graph's work; an error comes with the reason and a node.
    pub fn update(&self, graph: &Graph) -> Result<(), (i32, CUgraphNode)> {
        let (new, shape) = plan(graph).map_err(|_| (UPDATE_ERROR, 0))?;
        let mut plan = self.plan.lock().unwrap();
        if shape != self.shape {
            return Err((UPDATE_TOPOLOGY, 0));
        }
        let differs =
            |((_, a), (_, b)): &(&(usize, Work), &(usize, Work))| graph::kind(a) != graph::kind(b);
        if let Some((_, (node, _))) = plan.iter().zip(&new).find(differs) {
            return Err((UPDATE_NODE_TYPE, *node));
        }
        let refused = |((_, a), (_, b)): &(&(usize, Work), &(usize, Work))| !takes_place(b, a);
        if let Some((_, (node, _))) = plan.iter().zip(&new).find(refused) {
            return Err((UPDATE_PARAMETERS, *node));
        }
        // The nodes keep the names by which the program knows them.
        let names: Vec<_> = plan.iter().map(|(node, _)| *node).collect();
        let works = new.into_iter().map(|(_, work)| work);
        *plan = Arc::new(names.into_iter().zip(works).collect());
        Ok(())
    }

    /// Replaces what a node does.
    pub fn set(&self, node: CUgraphNode, work: Work) -> Res {
        let mut plan = self.plan.lock().unwrap();
        let place = plan
            .iter()
            .position(|(name, _)| *name == node)
            .ok_or(INVALID_VALUE)?;
        if graph::kind(&plan[place].1) != graph::kind(&work) {
            return Err(INVALID_VALUE);
        }
        // A fill stays in its context.
        if let (Work::Fill(old), Work::Fill(new)) = (&plan[place].1, &work)
            && old.context != new.context
        {
            return Err(INVALID_VALUE);
        }
        if !takes_place(&work, &plan[place].1) {
            return Err(INVALID_VALUE);
        }
        Arc::make_mut(&mut plan)[place].1 = work;
        Ok(())
    }

    /// Whether a node is one of those that can be left out: kernels, copies and fills.
    pub fn switchable(&self, node: CUgraphNode) -> Res {
        let plan = self.plan.lock().unwrap();
        let found = plan
            .iter()
            .find(|(name, _)| *name == node)
            .ok_or(INVALID_VALUE)?;
        if graph::kind(&found.1) <= 2 {
            Ok(())
        } else {
            Err(INVALID_VALUE)
        }
    }
}

/// Whether a driver takes what a node does in the place of something else: of rows, only a copy of
/// the same.
fn takes_place(new: &Work, old: &Work) -> bool {
    let (Work::Copy(new), Work::Copy(old)) = (new, old) else {
        return true;
    };
    let is_line = |c: &Copy| c.height <= 1 && c.depth <= 1;
    let end = |p: &Plane| (p.addr, p.pitch, p.slice);
    let whole = |c: &Copy| (end(&c.dst), end(&c.src), c.width, c.height, c.depth);
    is_line(new) && is_line(old) || whole(new) == whole(old)
}

/// Takes the bytes of copies from pageable memory now, as the real driver does when a graph is
/// launched, but for what a copy of the graph leaves there first.
fn stage(plan: &mut Arc<Plan>, written: &mut Vec<(u64, u64)>) {
    for i in 0..plan.len() {
        if let Work::All(child) = &plan[i].1 {
            let mut child = child.clone();
            stage(&mut child, written);
            Arc::make_mut(plan)[i].1 = Work::All(child);
            continue;
        }
        let Work::Copy(copy) = &plan[i].1 else {
            continue;
        };
        let met = |from: u64, to: u64| written.iter().any(|(a, b)| *a < to && from < *b);
        let target = copy.pageable(&copy.dst);
        if copy.staged.is_none()
            && let Some((from, to)) = copy.pageable(&copy.src)
            && !met(from, to)
        {
            let mut copy = Copy::clone(copy);
            copy.stage();
            Arc::make_mut(plan)[i].1 = Work::Copy(Arc::new(copy));
        }
        written.extend(target);
    }
}

/// Begins a new recording for each event that the plan records.
fn arm(plan: &Plan) {
    for (_, work) in plan {
        match work {
            Work::RecordNode(event) => drop(event.arm()),
            Work::All(plan) => arm(plan),
            _ => {}
        }
    }
}

/// Counts what a plan allocates and frees: what it allocates must not be there yet, unless the
/// launch frees that first, and what it frees must.
fn allocate(plan: &Plan, free_first: bool, live: &mut Live) -> Res {
    for (_, work) in plan {
        match work {
            Work::Allocate(memory) => live.insert(memory, free_first)?,
            Work::Free(memory) => drop(live.remove(memory.address())?),
            Work::All(plan) => allocate(plan, free_first, live)?,
            _ => {}
        }
    }
    Ok(())
}
