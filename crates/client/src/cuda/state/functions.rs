//! Functions and kernels: what launches know of them.

use super::prelude::*;
use std::ffi::CString;

/// How many attributes of a function there are.
pub const ATTRIBUTES: usize = 16;
/// Places in [`Function::attributes`].
pub const MAX_THREADS: usize = 0;
/// Bytes of static shared memory.
pub const STATIC_SHARED: usize = 1;
/// Registers of a thread.
pub const REGISTERS: usize = 4;
/// Most bytes of dynamic shared memory.
pub const MAX_DYNAMIC_SHARED: usize = 8;

/// The most bytes of parameters that any kernel has.
const MOST_PARAMS: u32 = 1 << 15;

/// How many bytes parameters (offset and size of each) take; `None` if no kernel has such. They lie
/// one behind the other, so that there are no more of them, and no more of the program's bytes are
/// read for them, than that.
fn extent(params: &[(u32, u32)]) -> Option<u32> {
    let end = params.iter().try_fold(0u32, |end, (offset, n)| {
        let fits = *offset >= end && *n > 0;
        fits.then(|| offset.checked_add(*n)).flatten()
    })?;
    (end <= MOST_PARAMS).then_some(end)
}

/// What the client knows of a kernel or function.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: CString,
    /// Offset and size of each parameter.
    pub params: Vec<(u32, u32)>,
    /// Bytes of the packed parameters.
    pub packed: u32,
    /// The attributes, as `cuFuncGetAttribute` numbers them.
    pub attributes: Arc<[AtomicI32; ATTRIBUTES]>,
    /// The id of the kernel that it is, or whose function in a context; of a module's function,
    /// its own.
    pub kernel: u32,
    /// The library it is a kernel of; 0 for a module's function.
    pub library: u32,
    /// The module it is a function of; 0 for a library's kernel.
    pub module: u32,
    /// Where its parameters have addresses of page-locked memory.
    pub places: Places,
    /// A kernel's functions: context and id.
    pub here: Mutex<Vec<(u32, u32)>>,
    /// The context that it was last launched in, where there are several servers.
    launched: AtomicU32,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            block: [1; 3],
            shared: 0,
            params: Vec::new(),
            size: 0,
        }
    }
}

impl Function {
    /// Whether it is a library's, and was launched last in another context than this one.
    pub fn is_first_in(&self, context: u32) -> bool {
        self.library != 0 && self.launched.swap(context, Ordering::AcqRel) != context
    }

    /// From the worker's description: parameters as offset and size in turn, and the attributes. An
    /// error when they make no sense: launches write what they say.
    pub fn new(
        name: CString,
        params: &[u32],
        attributes: &[u32],
        kernel: u32,
        library: u32,
        module: u32,
    ) -> Result<Self> {
        let params: Vec<_> = params.chunks_exact(2).map(|p| (p[0], p[1])).collect();
        let packed = extent(&params).ok_or(CUDA_ERROR_UNKNOWN)?;
        let value = |i: usize| AtomicI32::new(attributes.get(i).copied().unwrap_or(0) as i32);
        Ok(Self {
            name,
            params,
            packed,
            attributes: Arc::new(std::array::from_fn(value)),
            kernel,
            library,
            module,
            places: Places::default(),
            here: Mutex::default(),
            launched: AtomicU32::new(0),
        })
    }

    /// The function of this kernel in a context: what is set on one is set on the other.
    pub fn in_a_context(&self) -> Self {
        Self {
            name: self.name.clone(),
            params: self.params.clone(),
            attributes: self.attributes.clone(),
            places: Places::default(),
            here: Mutex::default(),
            launched: AtomicU32::new(0),
            ..*self
        }
    }

    /// An attribute's value.
    pub fn attribute(&self, i: usize) -> i32 {
        self.attributes[i].load(Ordering::Relaxed)
    }
}

/// Launches of a kernel after which no place is believed that has not been before.
const FIRST: u32 = 4;

/// What has been seen of a kernel's long parameters.
#[derive(Debug, Default)]
pub struct Places {
    launches: AtomicU32,
    /// Offsets in the packed parameters, and whether addresses there are believed.
    known: Mutex<BTreeSet<(usize, bool)>>,
}

impl Places {
    /// Whether this launch is one of the first.
    pub fn early(&self) -> bool {
        self.launches.load(Ordering::Relaxed) < FIRST
            && self.launches.fetch_add(1, Ordering::Relaxed) < FIRST
    }

    /// Whether the address at an offset is believed, as those of `early` launches are; and whether
    /// that was not known before.
    pub fn believes(&self, at: usize, early: bool) -> (bool, bool) {
        let mut known = lock(&self.known);
        if known.contains(&(at, true)) {
            return (true, false);
        }
        (early, known.insert((at, early)))
    }
}

/// What was set on a function for a launch as before CUDA 4.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// The parameters, packed.
    pub params: Vec<u8>,
    /// How many bytes of parameters there are, as the program says.
    pub size: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_of_a_program_than_a_kernel_can_have() {
        let most = MOST_PARAMS;
        for (params, bytes) in [
            (&[][..], Some(0)),
            (&[(0, 4), (8, 8)], Some(16)),
            (&[(0, most)], Some(most)),
            // Too long, also where the sum has no room, or begins anew.
            (&[(0, most), (most, 1)], None),
            (&[(most, 1)], None),
            (&[(4, u32::MAX)], None),
            (&[(u32::MAX, 1)], None),
            // The same bytes again and again, and parameters of nothing without end.
            (&[(0, 8), (0, 8)], None),
            (&[(0, 8), (4, 8)], None),
            (&[(0, 0)], None),
        ] {
            assert_eq!(extent(params), bytes, "{params:?}");
        }
    }

    #[test]
    fn a_place_is_believed_from_the_start_or_never() {
        let p = Places::default();
        let launches: Vec<bool> = (0..6).map(|_| p.early()).collect();
        assert_eq!(launches, [true, true, true, true, false, false]);
        assert_eq!(p.believes(96, true), (true, true));
        assert_eq!(p.believes(96, false), (true, false));
        assert_eq!(p.believes(104, false), (false, true));
        assert_eq!(p.believes(104, false), (false, false));
    }
}
