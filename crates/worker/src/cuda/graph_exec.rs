//! Executable graphs, and which mirrors each reads and writes.

use super::done::Then;
use super::driver::is_capturing;
use super::graph_host::attach;
use super::graph_memory;
use super::graph_node::{build, host};
use super::graph_walk::{edges, ends, inside, kind, nodes};
use super::prelude::*;
use super::state::execs::{Entry, Exec, Ids};
use super::state::host_node::{Around, HostNode};
use std::any::Any;

/// Which graph a node belongs to: this one, or one inside it.
fn owner_within(w: &Cuda, graph: CUgraph, node: CUgraphNode) -> Option<CUgraph> {
    let all = nodes(w, graph).ok()?;
    if all.contains(&node) {
        return Some(graph);
    }
    let mut inner = all.iter().flat_map(|n| inside(w, *n).0);
    inner.find_map(|g| owner_within(w, g, node))
}

/// The id of a node that the driver names in a complaint about a graph; 0 for another graph's.
fn adopt_within(w: &mut Cuda, graph: CUgraph, node: CUgraphNode) -> u32 {
    let owner = owner_within(w, graph, node).filter(|_| !node.is_null());
    match owner.map_or(0, |g| w.known(Kind::Graph, g as u64)) {
        0 => w.known(Kind::GraphNode, node as u64),
        owner => w.adopt_node(owner, node),
    }
}

/// Finds the copy nodes with mirrors, down to the innermost graph.
fn find(w: &Cuda, graph: CUgraph, unsure: bool, out: &mut Vec<Entry>) -> Result<Ids> {
    let (mut sources, mut destinations) = (vec![], vec![]);
    for node in nodes(w, graph)? {
        if kind(w, node) == CU_GRAPH_NODE_TYPE_MEMCPY {
            let mut c: CUDA_MEMCPY3D = busbar_abi::zeroed();
            // SAFETY: a live node and a pointer to a live structure.
            if unsafe { w.cuGraphMemcpyNodeGetParams(node, &mut c) } != CUDA_SUCCESS {
                continue;
            }
            let (src, dst) = ends(w, &c);
            sources.extend(src.as_ref().map(|m| m.id));
            destinations.extend(dst.as_ref().map(|m| m.id));
            if src.is_some() || dst.is_some() {
                out.push(Entry {
                    node: node as u64,
                    src,
                    dst,
                    unsure,
                    on: true,
                });
            }
        }
        let (graphs, maybe) = inside(w, node);
        for g in graphs {
            let (s, d) = find(w, g, unsure || maybe, out)?;
            sources.extend(s);
            destinations.extend(d);
        }
    }
    Ok((sources, destinations))
}

/// Everything that can be reached from a node.
fn reach(from: u64, next: &HashMap<u64, Vec<u64>>) -> HashSet<u64> {
    let mut seen = HashSet::new();
    let mut left = vec![from];
    while let Some(n) = left.pop() {
        for m in next.get(&n).into_iter().flatten() {
            if seen.insert(*m) {
                left.push(*m);
            }
        }
    }
    seen
}

/// A host node, what it calls, and the mirrors around it.
type Host = (CUgraphNode, Arc<HostNode>, Around);

/// Tells the host nodes of a graph which mirrors are filled before them, read behind them, and
/// filled beside them. Gives the graph's own; those of graphs inside it are added to `inner`.
fn tell_hosts(
    w: &Cuda,
    graph: CUgraph,
    outer: &Around,
    inner: &mut Vec<Arc<HostNode>>,
) -> Result<Vec<Host>> {
    let mut own_hosts = Vec::new();
    let all = nodes(w, graph)?;
    let special =
        |n: &&CUgraphNode| kind(w, **n) == CU_GRAPH_NODE_TYPE_HOST || !inside(w, **n).0.is_empty();
    if !all.iter().any(|n| special(&n)) {
        return Ok(own_hosts);
    }
    let mut own: HashMap<u64, Ids> = HashMap::new();
    for n in &all {
        let mut ids = (vec![], vec![]);
        if kind(w, *n) == CU_GRAPH_NODE_TYPE_MEMCPY {
            let mut c: CUDA_MEMCPY3D = busbar_abi::zeroed();
            // SAFETY: a live node and a pointer to a live structure.
            unsafe { w.cuGraphMemcpyNodeGetParams(*n, &mut c) };
            let (src, dst) = ends(w, &c);
            ids.0.extend(src.map(|m| m.id));
            ids.1.extend(dst.map(|m| m.id));
        }
        for g in inside(w, *n).0 {
            let (s, d) = find(w, g, false, &mut Vec::new())?;
            ids.0.extend(s);
            ids.1.extend(d);
        }
        own.insert(*n as u64, ids);
    }
    let (from, to, _) = edges(w, graph)?;
    let (mut down, mut up) = (HashMap::new(), HashMap::new());
    for (f, t) in from.iter().zip(&to) {
        down.entry(*f as u64)
            .or_insert_with(Vec::new)
            .push(*t as u64);
        up.entry(*t as u64).or_insert_with(Vec::new).push(*f as u64);
    }
    for n in all.iter().filter(special) {
        let mut around = outer.clone();
        let (before, behind) = (reach(*n as u64, &up), reach(*n as u64, &down));
        for (m, (sources, destinations)) in own.iter().filter(|(m, _)| **m != *n as u64) {
            match (before.contains(m), behind.contains(m)) {
                (true, _) => around[0].extend(destinations),
                (_, true) => around[1].extend(sources),
                _ => around[2].extend(destinations),
            }
        }
        if kind(w, *n) == CU_GRAPH_NODE_TYPE_HOST {
            if let Some(h) = host(w, *n)? {
                h.set_around(around.clone());
                own_hosts.push((*n, h, around));
            }
        } else {
            for g in inside(w, *n).0 {
                let own = tell_hosts(w, g, &around, inner)?;
                inner.extend(own.into_iter().map(|(_, h, _)| h));
            }
        }
    }
    Ok(own_hosts)
}

/// Gives host nodes of graphs inside a graph a call of their own where another node has the same: a
/// graph may be inside others, or inside one several times, and what is around each is not the
/// same.
fn set_apart(w: &mut Cuda, graph: CUgraph) -> Result {
    if !HostNode::any() {
        return Ok(());
    }
    let mut keep = Vec::new();
    set_apart_within(w, graph, false, &mut HashSet::new(), &mut keep)?;
    attach(w, graph, keep)
}

fn set_apart_within(
    w: &Cuda,
    graph: CUgraph,
    inner: bool,
    seen: &mut HashSet<usize>,
    keep: &mut Vec<Box<dyn Any + Send>>,
) -> Result {
    for node in nodes(w, graph)? {
        for g in inside(w, node).0 {
            set_apart_within(w, g, true, seen, keep)?;
        }
        if kind(w, node) != CU_GRAPH_NODE_TYPE_HOST {
            continue;
        }
        let Some(h) = host(w, node)? else {
            continue;
        };
        // An executable graph's own nodes get calls of their own anyway.
        let first = seen.insert(h.number) && !h.is_told();
        if first || !inner {
            continue;
        }
        let own = HostNode::new(h.promised.clone());
        // SAFETY: a live node; the outermost graph, and what is made of it, keep what it calls.
        check(unsafe { w.cuGraphHostNodeSetParams(node, &own.params()) })?;
        seen.insert(own.number);
        keep.push(Box::new(own));
    }
    Ok(())
}

/// Sets what is known of an executable graph from the graph that it was made from.
fn learn(w: &mut Cuda, exec: u32, graph: CUgraph, fresh: Option<CUgraphExec>) -> Result<Ids> {
    if !w.graphs.mirrors.any() && !HostNode::any() {
        return Ok((vec![], vec![]));
    }
    let mut entries = Vec::new();
    find(w, graph, false, &mut entries)?;
    let mut inner = Vec::new();
    let told = tell_hosts(w, graph, &Around::default(), &mut inner)?;
    let nothing = entries.is_empty() && told.is_empty() && inner.is_empty();
    if nothing && !w.graphs.execs.contains_key(&exec) {
        return Ok((vec![], vec![]));
    }
    // One that is new gets host nodes of its own: its copies may be changed for it alone. An update
    // knows nodes by names that the new graph does not have: then the graph's must do.
    // Launches under way need these, too, when graph and all are destroyed.
    let mut hosts = Vec::new();
    for (node, host, ids) in told {
        inner.push(host.clone());
        let Some(raw) = fresh else { continue };
        let own = HostNode::new(host.promised.clone());
        // SAFETY: live handles; the record of the executable graph keeps what the node calls.
        if unsafe { w.cuGraphExecHostNodeSetParams(raw, node, &own.params()) } == CUDA_SUCCESS {
            hosts.push((node as u64, own, ids));
        }
    }
    let e = w.graphs.execs.entry(exec).or_default();
    let former = std::mem::replace(&mut e.hosts, hosts);
    let former = former.into_iter().map(|(_, h, _)| h);
    let former = former.chain(inner);
    e.keep
        .extend(former.map(|h| Box::new(h) as Box<dyn Any + Send>));
    // An update keeps which nodes are disabled, under names that the new graph does not have.
    let unsure = e.entries.iter().any(|e| !e.on || e.unsure);
    entries.iter_mut().for_each(|n| n.unsure |= unsure);
    // Launches under way still use the old ones; freed with the executable graph.
    let old = std::mem::replace(&mut e.entries, entries);
    let old = old.into_iter().flat_map(|e| [e.src, e.dst]).flatten();
    let new = e.mirrors();
    let gone = old.filter(|m| !new.iter().any(|n| n.id == m.id));
    let gone: Vec<_> = gone.map(|m| Box::new(m) as Box<dyn Any + Send>).collect();
    e.keep.extend(gone);
    e.refresh();
    Ok(e.lists())
}

pub fn graph_instantiate(
    w: &mut Cuda,
    m: msg::GraphInstantiate,
) -> Result<Always<msg::GraphInstantiateReply>> {
    const AUTO_FREE: u64 = 1;
    const UPLOAD: u64 = 2;
    const DEVICE_LAUNCH: u64 = 4;
    let mut reply = msg::GraphInstantiateReply {
        result: 1,
        node: 0,
        handle: 0,
        keeps: 0,
        sources: vec![],
        destinations: vec![],
    };
    let rc = attempt(|| {
        let graph = w.handle(Kind::Graph, m.graph)? as CUgraph;
        let mut p: CUDA_GRAPH_INSTANTIATE_PARAMS = busbar_abi::zeroed();
        p.flags = m.flags;
        if m.flags & UPLOAD != 0 {
            p.hUploadStream = w.stream(m.stream)? as CUstream;
        }
        set_apart(w, graph)?;
        let (charge, leaves) = graph_memory::Nodes::of(w, graph)?.charge(w)?;
        let keeps = leaves.as_ref().is_some_and(|l| !l.memory.is_empty());
        reply.keeps = u32::from(m.flags & AUTO_FREE == 0 && keeps);
        let mut exec: CUgraphExec = std::ptr::null_mut();
        // SAFETY: a live graph and pointers to live values.
        let rc = unsafe { w.cuGraphInstantiateWithParams(&mut exec, graph, &mut p) };
        reply.result = p.result_out;
        reply.node = adopt_within(w, graph, p.hErrNode_out);
        check(rc)?;
        // SAFETY: a live handle, which nobody knows of.
        w.afford(|d| _ = unsafe { d.cuGraphExecDestroy(exec) })?;
        w.made_of(&m, exec as u64, charge);
        if let Some(leaves) = leaves {
            w.graphs.leaves.insert(m.exec, Arc::new(leaves));
        }
        if m.flags & DEVICE_LAUNCH != 0 {
            reply.handle = exec as u64;
        }
        (reply.sources, reply.destinations) = learn(w, m.exec, graph, Some(exec))?;
        Ok(())
    });
    Ok(Always(rc, reply))
}

pub fn graph_exec_update(
    w: &mut Cuda,
    m: msg::GraphExecUpdate,
) -> Result<Always<msg::GraphExecUpdateReply>> {
    let mut reply = msg::GraphExecUpdateReply {
        result: 1,
        node: 0,
        from: 0,
        sources: vec![],
        destinations: vec![],
    };
    let rc = attempt(|| {
        let exec = w.handle(Kind::GraphExec, m.exec)? as CUgraphExec;
        let graph = w.handle(Kind::Graph, m.graph)? as CUgraph;
        set_apart(w, graph)?;
        let mut info: CUgraphExecUpdateResultInfo = busbar_abi::zeroed();
        // SAFETY: live graphs and a pointer to a live structure.
        let rc = unsafe { w.cuGraphExecUpdate_v2(exec, graph, &mut info) };
        reply.result = info.result;
        reply.node = adopt_within(w, graph, info.errorNode);
        reply.from = adopt_within(w, graph, info.errorFromNode);
        check(rc)?;
        (reply.sources, reply.destinations) = learn(w, m.exec, graph, None)?;
        Ok(())
    });
    Ok(Always(rc, reply))
}

pub fn graph_exec_set_node(
    w: &mut Cuda,
    m: msg::GraphExecSetNode<'_>,
) -> Result<msg::GraphExecSetNodeReply> {
    let exec = w.handle(Kind::GraphExec, m.exec)? as CUgraphExec;
    let node = w.handle(Kind::GraphNode, m.node)? as CUgraphNode;
    let mut b = build(w, m.params, m.extra, m.mirrors)?;
    // SAFETY: live handles; what the parameters point to lives through the call.
    check(unsafe { w.cuGraphExecNodeSetParams(exec, node, &mut b.p) })?;
    let e = w.graphs.execs.entry(m.exec).or_default();
    if let Some(k) = b.keep.first()
        && let Some(new) = (**k).downcast_ref::<Arc<HostNode>>()
        && let Some(h) = e.hosts.iter_mut().find(|h| h.0 == node as u64)
    {
        // It may look at the same memory as the one in whose place it comes.
        let old = std::mem::replace(&mut h.1, new.clone());
        e.keep.push(Box::new(old));
        e.refresh();
    }
    e.keep.append(&mut b.keep);
    match b.p.r#type {
        CU_GRAPH_NODE_TYPE_MEMCPY => {
            let c: CUDA_MEMCPY_NODE_PARAMS = busbar_abi::member(&b.p.u);
            let (src, dst) = ends(w, &c.copyParams);
            let e = w.graphs.execs.entry(m.exec).or_default();
            let old = e.entries.iter().position(|n| n.node == node as u64);
            let old = old.map(|i| e.entries.swap_remove(i));
            if let Some(o) = &old {
                e.replace(&o.src, &src);
                e.replace(&o.dst, &dst);
            }
            if src.is_some() || dst.is_some() {
                e.entries.push(Entry {
                    node: node as u64,
                    src,
                    dst,
                    unsure: old.as_ref().is_some_and(|o| o.unsure),
                    on: old.as_ref().is_none_or(|o| o.on),
                });
            }
            let old = old.into_iter().flat_map(|o| [o.src, o.dst]).flatten();
            let old = old.map(|m| Box::new(m) as Box<dyn Any + Send>);
            e.keep.extend(old);
            e.refresh();
        }
        CU_GRAPH_NODE_TYPE_GRAPH => {
            // The former child's copies keep their mirrors: harmless, if they are not launched.
            let (mut entries, mut inner) = (Vec::new(), Vec::new());
            let child = b.p.u[0] as CUgraph;
            find(w, child, true, &mut entries)?;
            let own = tell_hosts(w, child, &Around::default(), &mut inner)?;
            inner.extend(own.into_iter().map(|(_, h, _)| h));
            let e = w.graphs.execs.entry(m.exec).or_default();
            e.entries.iter_mut().for_each(|n| n.unsure = true);
            e.entries.extend(entries);
            let inner = inner.into_iter();
            e.keep
                .extend(inner.map(|h| Box::new(h) as Box<dyn Any + Send>));
        }
        _ => {}
    }
    let lists = w.graphs.execs.get(&m.exec).map(Exec::lists);
    let (sources, destinations) = lists.unwrap_or_default();
    Ok(msg::GraphExecSetNodeReply {
        sources,
        destinations,
    })
}

pub fn cu_graph_node_set_enabled(w: &mut Cuda, m: msg::CuGraphNodeSetEnabled) -> Result {
    let exec = w.handle(Kind::GraphExec, m.h_graph_exec)? as CUgraphExec;
    let node = w.handle(Kind::GraphNode, m.h_node)?;
    // SAFETY: live handles.
    check(unsafe { w.cuGraphNodeSetEnabled(exec, node as CUgraphNode, m.is_enabled) })?;
    let e = w.graphs.execs.get_mut(&m.h_graph_exec);
    for n in e.into_iter().flat_map(|e| &mut e.entries) {
        if n.node == node {
            n.on = m.is_enabled != 0;
        }
    }
    if let Some(e) = w.graphs.execs.get(&m.h_graph_exec) {
        e.refresh();
    }
    Ok(())
}

pub fn graph_exec_lists(w: &mut Cuda, m: msg::GraphExecLists) -> Result<msg::GraphExecListsReply> {
    let lists = w.graphs.execs.get(&m.exec).map(Exec::lists);
    let (sources, destinations) = lists.unwrap_or_default();
    Ok(msg::GraphExecListsReply {
        sources,
        destinations,
    })
}

pub fn cu_graph_launch(w: &mut Cuda, m: msg::CuGraphLaunch) -> Result {
    let rc = attempt(|| {
        let exec = w.handle(Kind::GraphExec, m.h_graph)? as CUgraphExec;
        w.turns.about(m.h_graph);
        let stream = w.stream(m.h_stream)? as CUstream;
        // SAFETY: live handles.
        check(unsafe { w.cuGraphLaunch(exec, stream) })?;
        graph_memory::launched(w, m.h_graph, stream);
        Ok(())
    });
    if let Some(mut e) = w.graphs.execs.remove(&m.h_graph) {
        let (stream, ctx) = w.here(m.h_stream);
        e.launched = rc;
        // A launch that was captured has not begun.
        let keeps = !(e.entries.is_empty() && e.hosts.is_empty() && e.keep.is_empty());
        if rc == CUDA_SUCCESS && keeps && !is_capturing(w.driver, stream) {
            busy(w, (stream, ctx), &e);
        }
        w.graphs.execs.insert(m.h_graph, e);
    }
    check(rc)
}

pub fn cu_graph_exec_destroy(w: &mut Cuda, m: msg::CuGraphExecDestroy) -> Result {
    let rc = attempt(|| {
        let exec = w.handle(Kind::GraphExec, m.h_graph_exec)?;
        if graph_memory::lingers(w, m.h_graph_exec, exec) {
            return Ok(());
        }
        // SAFETY: a live handle, which is not used again.
        check(unsafe { w.cuGraphExecDestroy(exec as CUgraphExec) })
    });
    if let Some(e) = w.graphs.execs.remove(&m.h_graph_exec) {
        e.running.clone().leave(e);
    }
    check(rc)
}

/// The mirrors of an executable graph that is launched are in use until the launch is done.
fn busy(w: &Cuda, (stream, ctx): (CUstream, u64), e: &Exec) {
    let all = e.mirrors();
    for m in &all {
        m.busy.fetch_add(1, Ordering::AcqRel);
    }
    let running = e.running.clone();
    running.begin();
    let free = move |_| {
        running.end();
        for m in &all {
            m.busy.fetch_sub(1, Ordering::AcqRel);
        }
    };
    w.completer.after(stream, ctx, Then::Run(Box::new(free)));
}
