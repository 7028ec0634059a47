//! What a client knows without asking: plain structures, each the owner of its piece, that know no
//! session, no thread and no other client.
//!
//! An object's death is [`State::retire`]: whatever is known of the object goes with its handle,
//! and so do its children. A context's is [`State::retire_context`].

#![forbid(unsafe_code)]

pub mod advice;
pub mod area;
pub mod bodies;
pub mod contexts;
pub mod devices;
pub mod dumps;
pub mod events;
pub mod functions;
pub mod graphs;
pub mod handles;
pub mod host_file;
pub mod host_pools;
pub mod loaded;
pub mod logs;
pub mod order;
pub mod output;
pub mod pace;
mod prelude;
pub mod profile;
pub mod promised;
pub mod ranges;
pub mod recycled;
pub mod repeats;
pub mod rows;
pub mod shadows;
pub mod space;
pub mod spares;
pub mod storage;
pub mod vmm;

use crate::chunks::Side;
use crate::prelude::*;
use advice::Advised;
use bodies::Bodies;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::Kind;
use contexts::Contexts;
use dumps::Settings as Dumps;
use events::Events;
use functions::{Function, Setup};
use graphs::Graphs;
use handles::Handles;
use host_file::Piece;
use host_pools::HostPool;
use loaded::{Library, Link, Module};
use logs::Logs;
use order::{Captures, Order};
use output::Output;
use promised::Promises;
use ranges::{Ranges, Sort, Spaces};
use recycled::Recycled;
use rows::{End, Rows, Shape};
use shadows::Shadows;
use space::Share;
use spares::Spares;
use std::ffi::CString;
use storage::Storage;
use vmm::{Import, Vmm};

/// A texture or surface object as the program described it.
#[derive(Debug, Clone)]
pub struct Described {
    /// Its `CUDA_RESOURCE_DESC`, as bytes.
    pub resource: Vec<u8>,
    /// The context it was made in.
    pub context: u32,
}

/// Whether page-locked memory can be had that a worker on this host has, too.
#[derive(Debug, Default)]
pub struct Sharing {
    /// The first attempt failed: there will be no other.
    pub failed: AtomicBool,
    /// An attempt has succeeded.
    pub works: AtomicBool,
    /// Held while memory comes or goes: its address is free only once both sides have unmapped it.
    pub gate: Mutex<()>,
}

/// Everything that a client knows.
#[derive(Default)]
pub struct State {
    /// Handles and ids.
    pub handles: Handles,
    /// Contexts.
    pub contexts: Contexts,
    /// Memory that CUDA knows.
    pub ranges: Ranges,
    /// Addresses that are given out.
    pub spaces: Spaces,
    /// What is done, and what is not.
    pub order: Order,
    /// What of the program's the server may ask for.
    pub promises: Promises,
    /// Captures in progress.
    pub captures: Captures,
    /// Events.
    pub events: Events,
    /// Memory that exists twice.
    pub shadows: Shadows,
    /// Freed memory of that kind.
    pub spares: Spares,
    /// What programs have advised about managed memory.
    pub advised: Mutex<Advised>,
    /// Where the worker keeps parameters of launches, and bytes that are copied.
    pub kept: repeats::Kept,
    /// Kernels and functions by id.
    pub functions: Side<Function>,
    /// What was set on functions for launches as before CUDA 4.
    pub setups: Bodies<u32, Setup>,
    /// Modules.
    pub modules: Bodies<u32, Module>,
    /// Libraries.
    pub libraries: Bodies<u32, Library>,
    /// Links in progress.
    pub links: Bodies<u32, Link>,
    /// Shapes of arrays that were copied to or from.
    pub arrays: Bodies<u32, Shape>,
    /// Graphs.
    pub graphs: Graphs,
    /// The device of each pool.
    pub pools: Bodies<u32, CUdevice>,
    /// Pools of host and of managed memory.
    pub host_pools: Bodies<u32, Arc<HostPool>>,
    /// Their memory that the program has, by address: the pool, and its length.
    pub host_pooled: Bodies<u64, (Arc<HostPool>, u64)>,
    /// Page-locked memory that lies in a file, by address.
    pub pieces: Bodies<u64, Piece>,
    /// Memory of such pools that are gone.
    pub host_left: Mutex<Vec<u64>>,
    /// Those of them that a program has by a place instead of by their handle.
    pub known_host_pools: Mutex<host_pools::Known>,
    /// The pool that each device allocates from, where it is not the default one.
    pub current_pools: Bodies<CUdevice, u32>,
    /// What devices may do with memory of pools of others: of a default pool by its device, of any
    /// other by its number alone.
    pub pool_users: Mutex<BTreeMap<(recycled::Pool, CUdevice), u32>>,
    /// Memory of pools that was freed and may be had again.
    pub recycled: Recycled,
    /// The contexts of green contexts.
    pub greens: Bodies<u32, u32>,
    /// Texture objects, by the driver's numbers.
    pub textures: Bodies<u64, Described>,
    /// Surface objects, by the driver's numbers.
    pub surfaces: Bodies<u64, Described>,
    /// Memory that the program makes and maps itself.
    pub vmm: Mutex<Vmm>,
    /// Memory of other processes, by the exporter's secret.
    pub imports: Bodies<[u8; 16], Import>,
    /// The worker that has this process's memory, once it was told in a handle.
    pub exporter: OnceLock<[u8; 8]>,
    /// Values that libraries have stored beside contexts.
    pub storage: Storage,
    /// The driver's log.
    pub logs: Logs,
    /// What is set of core dumps.
    pub dumps: Dumps,
    /// What the device prints.
    pub output: Output,
    /// Memory shared with a worker on this host.
    pub sharing: Sharing,
    /// What the server's driver calls errors that this client does not know, and their texts.
    pub error_texts: Mutex<BTreeMap<CUresult, &'static (CString, CString)>>,
    /// Whether modules are said to be loaded whole.
    pub eager: bool,
}

impl State {
    /// Nothing is known yet, of one of several servers.
    pub fn of(share: Share) -> Self {
        Self {
            handles: Handles::of(share.server),
            contexts: Contexts::of(share.server),
            ranges: Ranges::of(share.server),
            spaces: Spaces::of(share),
            vmm: Mutex::new(Vmm::of(share)),
            ..Self::default()
        }
    }

    /// Ends an object: what is known of it, its children, and last its handle, whose id another
    /// thread may use at once. So whatever is said of the object must be queued before.
    pub fn retire(&self, kind: Kind, id: u32) {
        match kind {
            Kind::Event => self.events.forget(id),
            Kind::Stream => self.captures.end(id),
            Kind::Function => {
                self.setups.take(&id);
                if let Some(f) = self.functions.get(id) {
                    let here = std::mem::take(&mut *lock(&f.here));
                    for (_, function) in here {
                        self.retire(kind, function);
                    }
                    if let Some(kernel) = self.functions.get(f.kernel) {
                        lock(&kernel.here).retain(|(_, function)| *function != id);
                    }
                }
            }
            Kind::Module => {
                let known = self.modules.take(&id).unwrap_or_default();
                self.retire_code(known.functions.into_values(), known.globals.into_values());
            }
            Kind::Library => {
                let known = self.libraries.take(&id).unwrap_or_default();
                self.retire_code(known.kernels.into_values(), known.globals.into_values());
            }
            Kind::Link => drop(self.links.take(&id)),
            Kind::Array => drop(self.arrays.take(&id)),
            Kind::Graph => {
                let gone = self.graphs.forget(id);
                for node in gone.nodes {
                    self.retire(Kind::GraphNode, node);
                }
                for graph in gone.graphs {
                    self.retire(Kind::Graph, graph);
                }
            }
            Kind::GraphNode => self.graphs.forget_node(id),
            Kind::GraphExec => self.graphs.forget_exec(id),
            Kind::MemoryPool => {
                if let Some(device) = self.pools.take(&id) {
                    self.recycled.forget((device, id));
                }
                lock(&self.pool_users).retain(|((_, pool), _), _| *pool != id);
                self.host_pools.take(&id);
                lock(&self.known_host_pools)
                    .current
                    .retain(|_, pool| *pool != id);
                self.current_pools.retain(|_, pool| *pool != id);
            }
            Kind::GreenContext => drop(self.greens.take(&id)),
            Kind::Allocation => drop(lock(&self.vmm).allocations.remove(&id)),
            Kind::Context => self.contexts.forget(id),
            Kind::MipmappedArray
            | Kind::ResourceDesc
            | Kind::SurfRef
            | Kind::TexRef
            | Kind::UserObject => {}
            // These have no handles that are chosen here.
            Kind::Device
            | Kind::Listener
            | Kind::Mapping
            | Kind::Memory
            | Kind::PoolMemory
            | Kind::SharedMemory
            | Kind::SurfObject
            | Kind::TexObject => {}
        }
        self.handles.destroy(kind, id);
    }

    /// Functions and variables of code that is unloaded.
    fn retire_code(
        &self,
        functions: impl Iterator<Item = u32>,
        variables: impl Iterator<Item = (u64, u64)>,
    ) {
        for f in functions {
            self.retire(Kind::Function, f);
        }
        for (va, _) in variables {
            let of_code = |s| matches!(s, Sort::Foreign | Sort::Managed);
            self.ranges.remove(va, of_code);
        }
    }

    /// Ends everything that was made in a context, but for its memory. Libraries, allocations and
    /// pools are the process's.
    pub fn retire_context(&self, id: u32) {
        const STAY: [Kind; 4] = [
            Kind::Context,
            Kind::Library,
            Kind::Allocation,
            Kind::MemoryPool,
        ];
        for kind in Kind::ALL {
            if !STAY.contains(&kind) {
                for object in self.handles.living(kind, id) {
                    self.retire(kind, object);
                }
            }
        }
        let variables_of = |l: &mut Library| l.globals.retain(|(_, context), _| *context != id);
        self.libraries.all().values_mut().for_each(variables_of);
        for objects in [&self.textures, &self.surfaces] {
            objects.retain(|_, object| object.context != id);
        }
        self.order.forget_context(id);
        self.dumps.forget(id);
        self.contexts.leave_peers(id);
    }

    /// Whether `len` bytes at `p` are page-locked memory that a worker on this host has, too.
    #[inline]
    pub fn is_shared(&self, p: u64, len: usize) -> bool {
        self.spaces.is_shared(p) && self.ranges.is_pinned(p, len)
    }

    /// Fails at once, as CUDA does, when the bytes are not all in memory that the device has. A
    /// mistake that only the worker noticed would be reported late.
    pub fn must_be_on_device(&self, p: u64, len: usize) -> Result<()> {
        let window = space::span(space::WINDOW);
        let shadowed = window.contains(&p) || self.shadows.device_side(p, len).is_some();
        // Page-locked memory that the worker has, too, is at the same address there.
        if shadowed || self.is_shared(p, len) || self.ranges.is_on_device(p, len) {
            Ok(())
        } else {
            Err(CUDA_ERROR_INVALID_VALUE)
        }
    }

    /// Whether an address is of memory that CUDA gave for a device.
    pub fn is_devices(&self, p: u64) -> bool {
        let found = self.ranges.find(p);
        found.is_some_and(|r| !r.sort.is_page_locked())
    }

    /// Whether an address is the program's own memory, as far as CUDA is concerned.
    pub fn on_host(&self, p: u64) -> bool {
        match self.ranges.find(p) {
            // What kernels see, the device can copy.
            Some(_) if self.shadows.device_side(p, 1).is_some() => false,
            Some(r) => r.sort.is_page_locked(),
            None => !space::holds(p),
        }
    }

    /// A copy with its ends resolved: what an address of unified memory is, and what a zero pitch
    /// means.
    pub fn resolved(&self, r: &Rows) -> Rows {
        let end = |mut e: End| {
            // What a program calls the host's may be a device's, or be where a device has written
            // last; the driver looks where it is.
            if e.memory == rows::HOST && e.host != 0 && !self.on_host(e.host) {
                (e.memory, e.device, e.host) = (rows::DEVICE, e.host, 0);
            }
            let p = e.device;
            // Page-locked memory has an address on the device, which is the program's own.
            let pinned = e.memory == rows::DEVICE && self.ranges.is_pinned(p, 1);
            if e.memory == rows::UNIFIED || pinned {
                e.memory = if self.on_host(p) {
                    rows::HOST
                } else {
                    rows::DEVICE
                };
                e.host = p;
            }
            if e.pitch == 0 {
                e.pitch = e.x.saturating_add(r.width);
            }
            if e.height == 0 {
                e.height = r.height;
            }
            e
        };
        Rows {
            src: end(r.src),
            dst: end(r.dst),
            ..*r
        }
    }

    /// Refuses an end of a copy that is not there, as the driver does.
    pub fn check_end(&self, e: &End, r: &Rows) -> Result<()> {
        const BAD: CUresult = CUDA_ERROR_INVALID_VALUE;
        let (first, last) = e.extent(r).ok_or(BAD)?;
        match e.memory {
            rows::HOST if e.host == 0 => Err(BAD),
            rows::HOST => {
                let (p, end) = (e.host.checked_add(first), e.host.checked_add(last));
                let (p, end) = (
                    p.ok_or(BAD)?,
                    end.and_then(|p| p.checked_add(r.width as u64)),
                );
                let len = (end.ok_or(BAD)? - p) as usize;
                self.ranges.may_be_end(p, len).then_some(()).ok_or(BAD)
            }
            rows::DEVICE => {
                for row in [first, last] {
                    let p = e.device.checked_add(row).ok_or(BAD)?;
                    self.must_be_on_device(p, r.width)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether the default stream of the first context is all that there has ever been.
    pub fn is_alone(&self) -> bool {
        self.handles.at_most(Kind::Stream, 0) && self.handles.at_most(Kind::Context, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rows::HostBox;
    use std::hash::Hash;

    impl<K: Eq + Hash, T> Bodies<K, T> {
        /// How many there are.
        fn len(&self) -> usize {
            self.all().len()
        }
    }

    /// Everything that is known of objects, counted.
    fn known(s: &State) -> usize {
        s.events.len()
            + usize::from(s.captures.any())
            + s.setups.len()
            + s.modules.len()
            + s.libraries.len()
            + s.links.len()
            + s.arrays.len()
            + s.graphs.len()
            + s.pools.len()
            + s.current_pools.len()
            + s.greens.len()
            + s.textures.len()
            + s.surfaces.len()
    }

    fn shape() -> Shape {
        rows::shape_of(&busbar_abi::zeroed())
    }

    /// An object of each kind in a context, with all that can be known of it.
    fn fill(s: &State, context: u32) -> Vec<(Kind, u64)> {
        let mut made = Vec::new();
        for kind in Kind::ALL {
            if kind == Kind::Context {
                continue;
            }
            let id = s.handles.create(kind, context);
            made.push((kind, s.handles.raw(kind, id)));
            match kind {
                Kind::Event => s.events.add(id, true),
                Kind::Stream => s.captures.begin(id, 0, || Ok(())).unwrap(),
                Kind::Link => s.links.insert(
                    id,
                    Link {
                        options: loaded::Options::default(),
                        image: vec![],
                    },
                ),
                Kind::Array => s.arrays.insert(id, shape()),
                Kind::Module => {
                    let f = s.handles.create(Kind::Function, context);
                    made.push((Kind::Function, s.handles.raw(Kind::Function, f)));
                    s.modules
                        .with_new(id, |m| m.functions.insert(c"f".into(), f));
                }
                Kind::Graph => {
                    let node = s.handles.create(Kind::GraphNode, context);
                    s.graphs.own(id, node);
                    s.graphs.store_bytes(node, &[1]);
                    // The worker chose this one's id.
                    let inner = handles::WORKER_IDS + context;
                    made.push((
                        Kind::Graph,
                        s.handles.adopt(Kind::Graph, inner, context).unwrap(),
                    ));
                    s.graphs.own_inner(node, inner);
                }
                Kind::GraphExec => {
                    let m = s.graphs.mirror(HostBox::default(), true);
                    s.graphs.learn(id, vec![m], vec![]);
                }
                Kind::GreenContext => s.greens.insert(id, 9),
                _ => {}
            }
        }
        let resource = vec![];
        s.textures.insert(5, Described { resource, context });
        made
    }

    #[test]
    fn a_contexts_death_takes_every_object_in_it_along() {
        let s = State::default();
        let stays = [Kind::Library, Kind::Allocation, Kind::MemoryPool];
        let before = fill(&s, 1);
        let other = fill(&s, 2);
        s.retire_context(1);
        for (kind, raw) in &before {
            let lives = s.handles.id(*kind, *raw).is_some();
            assert_eq!(lives, stays.contains(kind), "{kind:?}");
        }
        for (kind, raw) in &other {
            assert!(s.handles.id(*kind, *raw).is_some(), "{kind:?}");
        }
        s.retire_context(2);
        assert_eq!(known(&s), 0, "nothing is known of what is gone");
    }

    #[test]
    fn each_kinds_death_leaves_nothing_known() {
        for kind in Kind::ALL {
            let s = State::default();
            for (k, raw) in fill(&s, 1) {
                if k == kind
                    && let Some(id) = s.handles.id(k, raw)
                {
                    s.retire(k, id);
                    assert_eq!(s.handles.id(k, raw), None, "{kind:?}");
                }
            }
            s.retire_context(1);
            assert_eq!(known(&s), 0, "{kind:?}");
        }
    }

    #[test]
    fn a_capturing_stream_that_dies_captures_no_longer() {
        let s = State::default();
        let stream = s.handles.create(Kind::Stream, 1);
        s.captures.begin(stream, 0, || Ok(())).unwrap();
        s.retire(Kind::Stream, stream);
        assert!(!s.captures.any());
        let again = s.handles.create(Kind::Stream, 1);
        s.captures.begin(again, 0, || Ok(())).unwrap();
        s.retire_context(1);
        assert!(!s.captures.any());
    }

    #[test]
    fn what_a_library_knows_of_a_context_goes_with_the_context() {
        let s = State::default();
        let l = s.handles.create(Kind::Library, 0);
        s.libraries.with_new(l, |l| {
            l.globals.insert((c"v".into(), 1), (0x1000, 4));
            l.globals.insert((c"v".into(), 2), (0x2000, 4));
        });
        s.retire_context(1);
        assert_eq!(s.libraries.with(&l, |l| l.globals.len()), Some(1));
    }
}
