//! Graphs: nodes of work and what each depends on.

use super::handle::{self, Table};
use super::user_object;
use super::work::Work;
use crate::ffi::*;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// All graphs, by handle.
pub static GRAPHS: Table<Graph> = Table::new();
/// The graph of each node, by the node's handle.
pub static NODES: Table<Graph> = Table::new();

/// A graph.
pub struct Graph {
    /// Its handle.
    pub handle: usize,
    nodes: Mutex<BTreeMap<CUgraphNode, Node>>,
}

/// A node.
#[derive(Clone)]
pub struct Node {
    /// What it does.
    pub work: Work,
    /// What comes before it.
    pub after: Vec<CUgraphNode>,
    /// The graph that a child node was made from: a copy, that the node owns.
    pub child: Option<Arc<Graph>>,
}

impl Graph {
    /// An empty graph, live in the table.
    pub fn new() -> Arc<Graph> {
        let graph = Arc::new(Graph {
            handle: handle::fresh(),
            nodes: Mutex::default(),
        });
        GRAPHS.insert(graph.handle, graph.clone());
        graph
    }

    /// Adds a node after others.
    pub fn add(self: &Arc<Self>, work: Work, after: &[CUgraphNode]) -> R<CUgraphNode> {
        self.add_node(Node {
            work,
            after: after.to_vec(),
            child: None,
        })
    }

    /// Adds a node as it is.
    pub fn add_node(self: &Arc<Self>, node: Node) -> R<CUgraphNode> {
        let mut nodes = self.nodes.lock().unwrap();
        let distinct: HashSet<_> = node.after.iter().collect();
        if distinct.len() != node.after.len() || !node.after.iter().all(|n| nodes.contains_key(n)) {
            return Err(INVALID_VALUE);
        }
        let handle = handle::fresh();
        nodes.insert(handle, node);
        NODES.insert(handle, self.clone());
        Ok(handle)
    }

    /// Whether a node is the graph's.
    pub fn contains(&self, node: CUgraphNode) -> bool {
        self.nodes.lock().unwrap().contains_key(&node)
    }

    /// A node.
    pub fn node(&self, node: CUgraphNode) -> R<Node> {
        self.nodes
            .lock()
            .unwrap()
            .get(&node)
            .cloned()
            .ok_or(INVALID_VALUE)
    }

    /// All nodes, in the order of their making.
    pub fn nodes(&self) -> Vec<(CUgraphNode, Node)> {
        self.nodes
            .lock()
            .unwrap()
            .iter()
            .map(|(handle, node)| (*handle, node.clone()))
            .collect()
    }

    /// Replaces what a node does; it stays the same kind of node.
    pub fn set_work(&self, node: CUgraphNode, work: Work) -> Res {
        let mut nodes = self.nodes.lock().unwrap();
        let node = nodes.get_mut(&node).ok_or(INVALID_VALUE)?;
        if kind(&node.work) != kind(&work) {
            return Err(INVALID_VALUE);
        }
        node.work = work;
        Ok(())
    }

    /// The nodes and all that comes before them.
    pub fn ancestors(&self, of: &[CUgraphNode]) -> HashSet<CUgraphNode> {
        let nodes = self.nodes.lock().unwrap();
        let mut found = HashSet::new();
        let mut left = of.to_vec();
        while let Some(node) = left.pop() {
            if found.insert(node) {
                left.extend(nodes.get(&node).iter().flat_map(|node| &node.after));
            }
        }
        found
    }

    /// Adds or takes away edges, from one node to another each.
    pub fn change_edges(&self, edges: &[(CUgraphNode, CUgraphNode)], add: bool) -> Res {
        let mut nodes = self.nodes.lock().unwrap();
        let there = |nodes: &BTreeMap<usize, Node>, from: &usize, to: &usize| {
            nodes.get(to).is_some_and(|node| node.after.contains(from))
        };
        for (from, to) in edges {
            let known = nodes.contains_key(from) && nodes.contains_key(to) && from != to;
            if !known || there(&nodes, from, to) == add {
                return Err(INVALID_VALUE);
            }
        }
        for (from, to) in edges {
            let Some(node) = nodes.get_mut(to) else {
                return Err(INVALID_VALUE);
            };
            if add {
                node.after.push(*from);
            } else {
                node.after.retain(|node| node != from);
            }
        }
        Ok(())
    }

    /// Takes a node and its edges away.
    pub fn remove(&self, node: CUgraphNode) -> Res {
        let mut nodes = self.nodes.lock().unwrap();
        let gone = nodes.remove(&node).ok_or(INVALID_VALUE)?;
        for other in nodes.values_mut() {
            other.after.retain(|after| *after != node);
        }
        drop(nodes);
        if let Some(child) = gone.child {
            destroy(&child);
        }
        NODES.remove(node).map(drop)
    }

    /// A copy with nodes of its own.
    pub fn copy(&self) -> R<(Arc<Graph>, HashMap<CUgraphNode, CUgraphNode>)> {
        let copy = Graph::new();
        user_object::share(self.handle, copy.handle);
        let mut names = HashMap::new();
        for (handle, node) in self.sorted()? {
            let after: Vec<_> = node.after.iter().map(|after| names[after]).collect();
            let child = match &node.child {
                Some(child) => Some(child.copy()?.0),
                None => None,
            };
            names.insert(
                handle,
                copy.add_node(Node {
                    work: node.work,
                    after,
                    child,
                })?,
            );
        }
        Ok((copy, names))
    }

    /// The nodes, each after all that it depends on. A ring of nodes is an error.
    pub fn sorted(&self) -> R<Vec<(CUgraphNode, Node)>> {
        let mut left = self.nodes();
        let mut done = HashSet::new();
        let mut sorted = Vec::new();
        while !left.is_empty() {
            let before = sorted.len();
            let mut later = Vec::new();
            for (handle, node) in left {
                if node.after.iter().all(|after| done.contains(after)) {
                    done.insert(handle);
                    sorted.push((handle, node));
                } else {
                    later.push((handle, node));
                }
            }
            if sorted.len() == before {
                return Err(INVALID_VALUE);
            }
            left = later;
        }
        Ok(sorted)
    }
}

/// Ends a graph's life; what was instantiated from it lives on.
pub fn destroy(graph: &Graph) {
    let _ = GRAPHS.remove(graph.handle);
    user_object::drop_graph(graph.handle);
    for (handle, node) in std::mem::take(&mut *graph.nodes.lock().unwrap()) {
        let _ = NODES.remove(handle);
        if let Some(child) = node.child {
            destroy(&child);
        }
    }
}

/// The graph of a handle.
pub fn by_handle(graph: CUgraph) -> R<Arc<Graph>> {
    GRAPHS.get(graph).map_err(|_| INVALID_VALUE)
}

/// The number of a node's kind in the C interface.
pub fn kind(work: &Work) -> u32 {
    match work {
        Work::Kernel(_) => 0,
        Work::Copy(_) => 1,
        Work::Fill(_) => 2,
        Work::Host(_) => 3,
        Work::All(_) => 4,
        Work::WaitNode(_) | Work::Wait(_) => 6,
        Work::RecordNode(_) | Work::Record(_) => 7,
        Work::Allocate(_) => 10,
        Work::Free(_) => 11,
        Work::WaitValue(_) | Work::WriteValue(_) => 12,
        Work::Empty | Work::Callback(..) | Work::FreeAsync(_) => 5,
    }
}

/// A node and its graph.
pub fn find(node: CUgraphNode) -> R<(Arc<Graph>, Node)> {
    let graph = NODES.get(node).map_err(|_| INVALID_VALUE)?;
    let found = graph.node(node)?;
    Ok((graph, found))
}
