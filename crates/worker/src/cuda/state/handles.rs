//! The session's objects as the driver knows them, by the client's ids.

use super::prelude::*;
use crate::cuda::compile::Compile;
use crate::inventory::Inventory;
use crate::memory::Charge;
use crate::objects::{Dead, Key, Objects, Sort};
use busbar_wire::generated::cuda::Kind;
use busbar_wire::generated::cuda::contract::WORKER_IDS;
use std::ffi::c_void;

impl Sort for Kind {
    const COUNT: usize = Kind::COUNT;

    fn index(self) -> usize {
        self as usize
    }
}

/// A kernel or function.
#[derive(Clone)]
pub struct Function {
    /// The driver's handle.
    pub raw: u64,
    /// Whether that is a `CUkernel`.
    pub kernel: bool,
    /// Offset of each parameter in the packed ones, and the end of the last.
    params: Arc<[u32]>,
}

impl Function {
    /// `params`: offset and size of each, in turn.
    pub fn new(raw: u64, kernel: bool, params: &[u32]) -> Self {
        let pairs = params.chunks_exact(2);
        let end = pairs.clone().map(|p| p[0] + p[1]).max().unwrap_or(0);
        let params = pairs.map(|p| p[0]).chain([end]).collect();
        Self {
            raw,
            kernel,
            params,
        }
    }

    /// The function of this kernel in a context.
    pub fn in_a_context(&self, raw: u64) -> Self {
        Self {
            raw,
            kernel: false,
            params: self.params.clone(),
        }
    }

    /// What [`pointers`] takes of it.
    pub fn layout(&self) -> &[u32] {
        &self.params
    }
}

/// Pointers to packed parameters, one each; none when they are not packed as this function's layout
/// is. The driver is particular about how long a packed buffer is, and not about pointers.
#[inline]
pub fn pointers(layout: &[u32], packed: &[u8], out: &mut Vec<*mut c_void>) -> bool {
    out.clear();
    let Some((end, offsets)) = layout.split_last() else {
        return false;
    };
    if packed.len() < *end as usize {
        return false;
    }
    let at = |o: &u32| packed[*o as usize..].as_ptr().cast_mut().cast();
    out.extend(offsets.iter().map(at));
    true
}

/// A link in progress.
pub struct Link {
    /// The driver's handle.
    pub state: CUlinkState,
    /// The options, and the buffers that the linker writes its logs to as long as it lives.
    pub compile: Compile,
}

/// What an id stands for.
pub enum Body {
    /// A handle of the driver's.
    Handle(u64),
    /// A kernel or function.
    Function(Function),
    /// A link in progress.
    Link(Link),
    /// Something that could not be made, for this reason: whoever uses it is told.
    Unmade(CUresult),
}

impl From<u64> for Body {
    fn from(raw: u64) -> Self {
        Self::Handle(raw)
    }
}

/// The objects, and the id of each handle.
pub struct Handles {
    objects: Objects<Kind, Body>,
    ids: [HashMap<u64, u32>; Kind::COUNT],
    /// The next id that is chosen here.
    next: u32,
    /// The function of a kernel in a context, by both ids.
    in_context: BTreeMap<(u32, u32), u64>,
    /// Device memory that goes with an object; one may have some of several kinds.
    charges: BTreeMap<(Kind, u32, u32), Arc<Charge>>,
}

impl Handles {
    /// None yet.
    pub fn new(inventory: &Inventory) -> Self {
        let counters = Kind::ALL.iter().map(|k| inventory.counter(k.name()));
        Self {
            objects: Objects::counted(counters.collect()),
            ids: std::array::from_fn(|_| HashMap::new()),
            next: 0,
            in_context: BTreeMap::new(),
            charges: BTreeMap::new(),
        }
    }

    /// Device memory goes with an object from now on, in the place of what went with it of the
    /// same sort.
    pub fn charge(&mut self, (kind, id): Key<Kind>, sort: u32, charge: Arc<Charge>) {
        self.charges.insert((kind, id, sort), charge);
    }

    /// Takes device memory of a sort from an object.
    pub fn uncharge(&mut self, (kind, id): Key<Kind>, sort: u32) -> Option<Arc<Charge>> {
        self.charges.remove(&(kind, id, sort))
    }

    /// The device memory that goes with an object.
    pub fn charged(&self, (kind, id): Key<Kind>) -> Option<&Arc<Charge>> {
        self.charges.get(&(kind, id, 0))
    }

    /// The handle of an id.
    #[inline]
    pub fn get(&self, kind: Kind, id: u32) -> Result<u64> {
        match self.objects.get(kind, id) {
            Some(Body::Handle(raw)) => Ok(*raw),
            Some(Body::Unmade(rc)) => Err(*rc),
            _ => Err(CUDA_ERROR_INVALID_HANDLE),
        }
    }

    /// A kernel or function.
    #[inline]
    pub fn function(&self, id: u32) -> Result<&Function> {
        match self.objects.get(Kind::Function, id) {
            Some(Body::Function(f)) => Ok(f),
            _ => Err(CUDA_ERROR_INVALID_HANDLE),
        }
    }

    /// A link.
    pub fn link(&self, id: u32) -> Result<&Link> {
        match self.objects.get(Kind::Link, id) {
            Some(Body::Link(link)) => Ok(link),
            _ => Err(CUDA_ERROR_INVALID_HANDLE),
        }
    }

    /// Puts what was made under an id, as a child of these. What was there before is dead.
    pub fn put(&mut self, key: Key<Kind>, body: Body, parents: &[Key<Kind>]) -> Dead<Kind, Body> {
        let raw = match &body {
            Body::Handle(raw) => Some(*raw),
            _ => None,
        };
        if raw.is_some() && self.get(key.0, key.1).ok() == raw {
            // It has been named once more.
            return Vec::new();
        }
        let dead = self.objects.put(key, body, parents);
        self.forget(&dead);
        if let Some(raw) = raw {
            self.ids[key.0.index()].insert(raw, key.1);
        }
        dead
    }

    /// Ends an object, and its children.
    pub fn retire(&mut self, key: Key<Kind>) -> Dead<Kind, Body> {
        let dead = self.objects.retire(key);
        self.forget(&dead);
        dead
    }

    fn forget(&mut self, dead: &Dead<Kind, Body>) {
        for ((kind, id), body) in dead {
            if !self.charges.is_empty() {
                let own = (*kind, *id, 0)..=(*kind, *id, u32::MAX);
                let own: Vec<_> = self.charges.range(own).map(|(k, _)| *k).collect();
                own.iter().for_each(|k| _ = self.charges.remove(k));
            }
            match body {
                Body::Handle(raw) => {
                    let ids = &mut self.ids[kind.index()];
                    // The driver may have given the same handle to a newer object.
                    if ids.get(raw) == Some(id) {
                        ids.remove(raw);
                    }
                }
                Body::Function(_) => {
                    let all = self.in_context.range((*id, 0)..=(*id, u32::MAX));
                    for key in all.map(|(k, _)| *k).collect::<Vec<_>>() {
                        self.in_context.remove(&key);
                    }
                }
                Body::Link(_) | Body::Unmade(_) => {}
            }
            if *kind == Kind::Context {
                self.in_context.retain(|(_, c), _| c != id);
            }
        }
    }

    /// The id of a handle; 0 if it has none.
    pub fn known(&self, kind: Kind, raw: u64) -> u32 {
        self.ids[kind.index()].get(&raw).copied().unwrap_or(0)
    }

    /// The id of a handle that came into being here; a new one if it has none.
    pub fn adopt(&mut self, kind: Kind, raw: u64, parents: &[Key<Kind>]) -> u32 {
        match self.known(kind, raw) {
            0 => {}
            id => return id,
        }
        let id = loop {
            let id = WORKER_IDS + self.next;
            self.next = (self.next + 1) % (WORKER_IDS - 1);
            if self.objects.get(kind, id).is_none() {
                break id;
            }
        };
        self.put((kind, id), Body::Handle(raw), parents);
        id
    }

    /// The parents of an object.
    pub fn parents(&self, kind: Kind, id: u32) -> impl Iterator<Item = Key<Kind>> {
        self.objects.parents(kind, id)
    }

    /// Objects of a kind that die with another, by id.
    pub fn children(&self, kind: Kind, of: Key<Kind>) -> impl Iterator<Item = u32> {
        let all = self.objects.of(kind).map(|(id, _)| id);
        all.filter(move |id| self.objects.parents(kind, *id).any(|p| p == of))
    }

    /// The handles of a kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = u64> {
        self.objects.of(kind).filter_map(|(_, b)| match b {
            Body::Handle(raw) => Some(*raw),
            _ => None,
        })
    }

    /// The function of a kernel in a context, if the driver has said it.
    pub fn in_context(&self, function: u32, context: u32) -> Option<u64> {
        self.in_context.get(&(function, context)).copied()
    }

    /// The driver has said the function of a kernel in a context.
    pub fn told(&mut self, function: u32, context: u32, raw: u64) {
        self.in_context.insert((function, context), raw);
    }

    /// The id of the function with these handles: a launch by kernel handle may name the kernel as
    /// its function. 0 if there is none.
    pub fn function_id(&self, function: u64, kernel: u64) -> u32 {
        let own = |raw: u64, is_kernel: bool| {
            let mut all = self.objects.of(Kind::Function);
            let same =
                |b: &Body| matches!(b, Body::Function(f) if f.raw == raw && f.kernel == is_kernel);
            all.find(|(_, b)| raw != 0 && same(b)).map(|(id, _)| id)
        };
        let here = || {
            let mut all = self.in_context.iter();
            all.find(|(_, raw)| function != 0 && **raw == function)
                .map(|((id, _), _)| *id)
        };
        own(kernel, true)
            .or_else(|| own(function, false))
            .or_else(here)
            .or_else(|| own(function, true))
            .unwrap_or(0)
    }
}
