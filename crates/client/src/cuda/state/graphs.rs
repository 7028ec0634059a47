//! Graphs: which nodes are in which, what they keep for the program, and what of the program's
//! memory they copy.

use super::prelude::*;
use super::rows::HostBox;

/// What a node's parameters point to, as the program was told: good as long as the node.
#[derive(Default)]
struct Kept {
    /// In words, for the alignment of what lies there.
    bytes: Box<[u64]>,
    /// Addresses of parameters.
    list: Box<[usize]>,
    graphs: Box<[usize]>,
}

#[derive(Default)]
struct Known {
    nodes: HashMap<u32, HashSet<u32>>,
    owner: HashMap<u32, u32>,
    inner: HashMap<u32, Vec<u32>>,
    kept: HashMap<u32, Kept>,
}

/// What an executable graph needs before and after each launch: ids of mirrors.
#[derive(Debug, Default, Clone)]
pub struct Lists {
    /// What the launch will read.
    pub sources: Vec<u32>,
    /// What it writes.
    pub destinations: Vec<u32>,
    /// A launch leaves memory behind, and the next one is refused until that is freed.
    pub keeps: bool,
}

/// What dies with a graph.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// Nodes.
    pub nodes: Vec<u32>,
    /// Graphs inside them.
    pub graphs: Vec<u32>,
}

/// What is known of nodes, by id.
type ByNode = HashMap<u32, Box<[u8]>>;

/// The graphs of a client.
#[derive(Default)]
pub struct Graphs {
    known: Mutex<Known>,
    /// What each mirror at the worker stands for, by id; and whether a graph writes it.
    mirrors: Mutex<HashMap<u32, (HostBox, bool)>>,
    mirror_ids: AtomicU32,
    /// Executable graphs that have to do with the program's memory.
    execs: Mutex<HashMap<u32, Arc<Lists>>>,
    /// How many those are: mostly none, and then a launch looks no further.
    count: AtomicUsize,
    /// Whether there may be a graph that a driver refuses to launch.
    doubtful: AtomicBool,
    /// Nodes of executable graphs that have been changed, and what a driver looked at then.
    changed: Mutex<HashMap<u32, ByNode>>,
}

impl Graphs {
    /// The graph that a node is known to belong to.
    pub fn owner(&self, node: u32) -> Option<u32> {
        lock(&self.known).owner.get(&node).copied()
    }

    /// Says that a node belongs to a graph.
    pub fn own(&self, graph: u32, node: u32) {
        let mut k = lock(&self.known);
        k.owner.insert(node, graph);
        k.nodes.entry(graph).or_default().insert(node);
    }

    /// Says that a graph lies inside a node.
    pub fn own_inner(&self, node: u32, graph: u32) {
        let mut k = lock(&self.known);
        if let Some(outer) = k.owner.get(&node).copied() {
            let list = k.inner.entry(outer).or_default();
            if !list.contains(&graph) {
                list.push(graph);
            }
        }
    }

    /// Keeps the handles of the graphs inside a node for the program, and says where.
    pub fn store_graphs(&self, node: u32, handles: Box<[usize]>) -> usize {
        let mut k = lock(&self.known);
        let kept = k.kept.entry(node).or_default();
        kept.graphs = handles;
        kept.graphs.as_ptr() as usize
    }

    /// Keeps bytes for as long as a node, and says where; 0 for none.
    pub fn store_bytes(&self, node: u32, bytes: &[u8]) -> usize {
        if bytes.is_empty() {
            return 0;
        }
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        for (w, b) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..b.len()].copy_from_slice(b);
            *w = u64::from_ne_bytes(whole);
        }
        let mut k = lock(&self.known);
        let kept = k.kept.entry(node).or_default();
        kept.bytes = words.into();
        kept.bytes.as_ptr() as usize
    }

    /// Keeps packed kernel parameters, and says where the array of their addresses is; 0 for none.
    pub fn store_params(&self, node: u32, packed: &[u8], layout: &[(u32, u32)]) -> usize {
        let fits = |(o, s): &(u32, u32)| o.saturating_add(*s) as usize <= packed.len();
        if layout.is_empty() || !layout.iter().all(fits) {
            return 0;
        }
        let base = self.store_bytes(node, packed);
        let mut k = lock(&self.known);
        let kept = k.kept.entry(node).or_default();
        kept.list = layout.iter().map(|(o, _)| base + *o as usize).collect();
        kept.list.as_ptr() as usize
    }

    /// A node is gone.
    pub fn forget_node(&self, node: u32) {
        let mut k = lock(&self.known);
        k.kept.remove(&node);
        if let Some(g) = k.owner.remove(&node)
            && let Some(all) = k.nodes.get_mut(&g)
        {
            all.remove(&node);
        }
    }

    /// A graph is gone; what dies with it.
    pub fn forget(&self, graph: u32) -> Gone {
        let mut k = lock(&self.known);
        let graphs = k.inner.remove(&graph).unwrap_or_default();
        let nodes = k.nodes.remove(&graph).into_iter().flatten().collect();
        Gone { nodes, graphs }
    }

    /// A mirror of the program's memory, which a graph may read, or write; gives its id.
    pub fn mirror(&self, b: HostBox, written: bool) -> u32 {
        let next = || self.mirror_ids.fetch_add(1, Ordering::Relaxed);
        let mut all = lock(&self.mirrors);
        // They come round after 2^32, and 0 stands for none.
        let mut id = next();
        while id == 0 || all.contains_key(&id) {
            id = next();
        }
        all.insert(id, (b, written));
        id
    }

    /// What a mirror stands for: the server may have it.
    pub fn mirrored(&self, id: u32) -> Option<HostBox> {
        lock(&self.mirrors).get(&id).map(|m| m.0)
    }

    /// The same, if the server may write it.
    pub fn destination(&self, id: u32) -> Option<HostBox> {
        let (b, written) = *lock(&self.mirrors).get(&id)?;
        written.then_some(b)
    }

    /// The worker has no use for a mirror any more.
    pub fn mirror_gone(&self, id: u32) {
        lock(&self.mirrors).remove(&id);
    }

    /// Sets what an executable graph reads and writes.
    pub fn learn(&self, exec: u32, sources: Vec<u32>, destinations: Vec<u32>) {
        self.change(exec, |l| {
            (l.sources, l.destinations) = (sources, destinations)
        });
    }

    /// Launches of an executable graph leave memory behind.
    pub fn keeps(&self, exec: u32) {
        self.change(exec, |l| l.keeps = true);
    }

    /// An executable graph is gone.
    pub fn forget_exec(&self, exec: u32) {
        self.change(exec, |l| *l = Lists::default());
        self.forget_changes(exec);
    }

    /// Whether a node of an executable graph was changed before to what a driver, which looks at
    /// `seen`, cannot tell from a change to come.
    pub fn was_changed(&self, exec: u32, node: u32, seen: &[u8]) -> bool {
        let all = lock(&self.changed);
        let before = all.get(&exec).and_then(|nodes| nodes.get(&node));
        before.is_some_and(|b| **b == *seen)
    }

    /// A driver has taken a change of a node; nothing is known of one with nothing to be seen.
    pub fn changed(&self, exec: u32, node: u32, seen: Option<Box<[u8]>>) {
        let mut all = lock(&self.changed);
        if let Some(seen) = seen {
            all.entry(exec).or_default().insert(node, seen);
        } else if let Some(nodes) = all.get_mut(&exec) {
            nodes.remove(&node);
        }
    }

    /// An executable graph has become another one.
    pub fn forget_changes(&self, exec: u32) {
        lock(&self.changed).remove(&exec);
    }

    fn change(&self, exec: u32, change: impl FnOnce(&mut Lists)) {
        let mut all = lock(&self.execs);
        let mut lists = all
            .remove(&exec)
            .map_or_else(Lists::default, |l| (*l).clone());
        change(&mut lists);
        if lists.keeps || !lists.sources.is_empty() || !lists.destinations.is_empty() {
            all.insert(exec, Arc::new(lists));
        }
        self.count.store(all.len(), Ordering::Release);
    }

    /// From now on, what a driver says of a launch is waited for.
    pub fn launches_may_be_refused(&self) {
        self.doubtful.store(true, Ordering::Release);
    }

    /// Whether a driver may refuse to launch a graph.
    pub fn may_refuse_launch(&self) -> bool {
        self.doubtful.load(Ordering::Acquire)
    }

    /// What an executable graph reads and writes, if anything.
    pub fn lists(&self, exec: u32) -> Option<Arc<Lists>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        lock(&self.execs).get(&exec).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Graphs {
        /// How much is known: nodes and what they keep, graphs with lists.
        pub fn len(&self) -> usize {
            let k = lock(&self.known);
            let changed: usize = lock(&self.changed).values().map(HashMap::len).sum();
            k.owner.len() + k.inner.len() + k.kept.len() + lock(&self.execs).len() + changed
        }
    }

    #[test]
    fn a_graph_takes_its_nodes_and_inner_graphs_along() {
        let g = Graphs::default();
        g.own(1, 10);
        g.own(1, 11);
        g.own(2, 20);
        g.own_inner(10, 5);
        g.own_inner(10, 5);
        g.forget_node(11);
        let (nodes, graphs) = (vec![10], vec![5]);
        assert_eq!(g.forget(1), Gone { nodes, graphs });
        assert_eq!(g.forget(1), Gone::default());
        assert_eq!(g.owner(20), Some(2));
    }

    #[test]
    fn what_a_node_keeps_stays_where_it_is_as_long_as_the_node() {
        let g = Graphs::default();
        g.own(1, 10);
        let at = g.store_bytes(10, &[1, 2, 3]);
        assert!(at != 0 && at.is_multiple_of(8));
        assert_eq!(g.store_bytes(10, &[]), 0);
        assert_ne!(g.store_params(10, &[0; 16], &[(0, 8), (8, 8)]), 0);
        assert_eq!(
            g.store_params(10, &[0; 16], &[(0, 8), (8, 9)]),
            0,
            "past the end"
        );
        assert_eq!(g.store_params(10, &[0; 16], &[(u32::MAX, 9)]), 0);
        g.forget_node(10);
        assert_eq!(g.len(), 0);
    }

    #[test]
    fn a_change_is_known_by_what_a_driver_sees_until_the_graph_is_another_one() {
        let g = Graphs::default();
        let seen = |b: &[u8]| Some(b.into());
        assert!(!g.was_changed(1, 10, b"a"));
        g.changed(1, 10, seen(b"a"));
        assert!(g.was_changed(1, 10, b"a"));
        assert!(!g.was_changed(1, 10, b"b") && !g.was_changed(1, 11, b"a"));
        assert!(!g.was_changed(2, 10, b"a"));
        g.changed(1, 10, None);
        assert!(!g.was_changed(1, 10, b"a"));
        for end in [Graphs::forget_exec, Graphs::forget_changes] {
            g.changed(1, 10, seen(b"a"));
            end(&g, 1);
            assert!(!g.was_changed(1, 10, b"a"));
            assert_eq!(g.len(), 0);
        }
    }

    #[test]
    fn launches_look_no_further_once_no_graph_has_to_do_with_the_programs_memory() {
        let g = Graphs::default();
        g.learn(3, vec![1], vec![]);
        assert_eq!(g.lists(3).map(|l| l.sources.clone()), Some(vec![1]));
        assert!(g.lists(4).is_none());
        g.learn(3, vec![], vec![]);
        assert!(g.lists(3).is_none() && g.count.load(Ordering::Relaxed) == 0);
    }
}
