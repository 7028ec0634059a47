//! Functions and kernels: what launches know of them.

use super::prelude::*;
use std::ffi::CString;

/// How many attributes of a function there are.
pub const ATTRIBUTES: usize = 16;
/// The first of those that can be set: dynamic shared memory, carve-out, and the cluster's.
pub const SETTABLE: usize = 8;
/// Attributes by their number.
pub const MAX_THREADS: usize = 0;
/// Bytes of static shared memory.
pub const STATIC_SHARED: usize = 1;
/// Bytes of local memory of a thread.
pub const LOCAL: usize = 3;
/// Registers of a thread.
pub const REGISTERS: usize = 4;
/// Most bytes of dynamic shared memory.
pub const MAX_DYNAMIC_SHARED: usize = 8;

/// Bytes of local memory that each thread has in any context.
const USUAL_LOCAL: i32 = 1024;

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

/// The attributes of a function, as `cuFuncGetAttribute` numbers them. Each device has a library's
/// kernel for itself, with what was set for that device; a module's function has one device, and
/// [`Function`] calls that number 0.
#[derive(Debug)]
pub struct Attributes {
    /// As the worker has described them.
    initial: [i32; ATTRIBUTES],
    /// The device that one was set for before any other device, plus 1; 0 while none is set.
    home: AtomicU32,
    /// That device's.
    own: [AtomicI32; ATTRIBUTES],
    /// What was set for other devices.
    others: Mutex<BTreeMap<(CUdevice, usize), i32>>,
}

impl Attributes {
    fn new(initial: [i32; ATTRIBUTES]) -> Self {
        Self {
            initial,
            home: AtomicU32::new(0),
            own: initial.map(AtomicI32::new),
            others: Mutex::default(),
        }
    }

    fn get(&self, i: usize, device: CUdevice) -> i32 {
        match self.home.load(Ordering::Acquire) {
            0 => self.initial[i],
            h if h == device as u32 + 1 => self.own[i].load(Ordering::Relaxed),
            _ => {
                let set = lock(&self.others).get(&(device, i)).copied();
                set.unwrap_or(self.initial[i])
            }
        }
    }

    /// Several of a device's. Most kernels have none that was set: those are not to pay for this.
    #[inline(never)]
    fn several<const N: usize>(&self, which: [usize; N], device: CUdevice) -> [i32; N] {
        which.map(|i| self.get(i, device))
    }

    /// Sets one; the value before.
    fn set(&self, i: usize, device: CUdevice, value: i32) -> i32 {
        let number = device as u32 + 1;
        let first = self
            .home
            .compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire);
        if first.is_ok() || first == Err(number) {
            return self.own[i].swap(value, Ordering::Relaxed);
        }
        let old = lock(&self.others).insert((device, i), value);
        old.unwrap_or(self.initial[i])
    }
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
    attributes: Arc<Attributes>,
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
    /// Whether it may take local memory of which there is too little: it has not been launched yet.
    deep: AtomicBool,
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
    /// Whether the driver has to be asked whether there is local memory enough to launch it.
    #[inline]
    pub fn is_deep(&self) -> bool {
        self.deep.load(Ordering::Relaxed)
    }

    /// There was.
    pub fn has_local_memory(&self) {
        self.deep.store(false, Ordering::Relaxed);
    }

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
        let value = |i: usize| attributes.get(i).copied().unwrap_or(0) as i32;
        let deep = AtomicBool::new(value(LOCAL) > USUAL_LOCAL);
        Ok(Self {
            name,
            params,
            packed,
            attributes: Arc::new(Attributes::new(std::array::from_fn(value))),
            kernel,
            library,
            module,
            places: Places::default(),
            here: Mutex::default(),
            launched: AtomicU32::new(0),
            deep,
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
            deep: AtomicBool::new(self.is_deep()),
            ..*self
        }
    }

    /// The value of an attribute that nobody sets.
    #[inline]
    pub fn attribute(&self, i: usize) -> i32 {
        debug_assert!(i < SETTABLE, "attribute {i} is a device's own");
        self.attributes.initial[i]
    }

    /// The value of any attribute on a device, which is asked for if need be.
    #[inline]
    pub fn attribute_on(&self, i: usize, device: impl FnOnce() -> CUdevice) -> i32 {
        if i < SETTABLE || self.attributes.home.load(Ordering::Acquire) == 0 {
            return self.attributes.initial[i];
        }
        self.attributes.get(i, self.number(device))
    }

    /// The values of several, as [`Function::attribute_on`] gives each.
    #[inline]
    pub fn attributes_on<const N: usize>(
        &self,
        which: [usize; N],
        device: impl FnOnce() -> CUdevice,
    ) -> [i32; N] {
        if self.attributes.home.load(Ordering::Acquire) == 0 {
            return which.map(|i| self.attributes.initial[i]);
        }
        self.attributes.several(which, self.number(device))
    }

    /// Sets an attribute for a device; the value before.
    pub fn set_attribute(&self, i: usize, device: CUdevice, value: i32) -> i32 {
        self.attributes.set(i, self.number(|| device), value)
    }

    fn number(&self, device: impl FnOnce() -> CUdevice) -> CUdevice {
        match self.library {
            0 => 0,
            _ => device(),
        }
    }
}

/// Launches of a kernel after which no place is taken for one of addresses that has not been
/// before.
const FIRST: u32 = 4;

/// What has been seen of a kernel's long parameters.
#[derive(Debug, Default)]
pub struct Places {
    launches: AtomicU32,
    /// Offsets in the packed parameters where addresses are meant.
    known: Mutex<BTreeSet<usize>>,
}

impl Places {
    /// Whether this launch is one of the first.
    pub fn early(&self) -> bool {
        self.launches.load(Ordering::Relaxed) < FIRST
            && self.launches.fetch_add(1, Ordering::Relaxed) < FIRST
    }

    /// Whether the address at an offset is meant, as those of `early` launches are.
    pub fn means(&self, at: usize, early: bool) -> bool {
        let mut known = lock(&self.known);
        early && known.insert(at) || known.contains(&at)
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
    fn each_device_has_the_attributes_of_a_kernel_for_itself() {
        let make = |library, module| {
            let described: [u32; ATTRIBUTES] = std::array::from_fn(|i| 100 + i as u32);
            Function::new(CString::default(), &[], &described, 1, library, module).unwrap()
        };
        let value = |f: &Function, device| f.attribute_on(MAX_DYNAMIC_SHARED, || device);
        let kernel = make(1, 0);
        assert_eq!((value(&kernel, 0), value(&kernel, 1)), (108, 108));
        assert_eq!(kernel.set_attribute(MAX_DYNAMIC_SHARED, 1, 7), 108);
        assert_eq!((value(&kernel, 0), value(&kernel, 1)), (108, 7));
        // The same value for another device is another thing to say.
        assert_eq!(kernel.set_attribute(MAX_DYNAMIC_SHARED, 0, 7), 108);
        assert_eq!(kernel.set_attribute(MAX_DYNAMIC_SHARED, 0, 9), 7);
        let here = kernel.in_a_context();
        assert_eq!(
            (value(&here, 0), value(&here, 1), value(&here, 2)),
            (9, 7, 108)
        );
        assert_eq!(here.set_attribute(MAX_DYNAMIC_SHARED, 1, 8), 7);
        assert_eq!((value(&kernel, 1), kernel.attribute(MAX_THREADS)), (8, 100));
        // A module's function is one device's, whichever is current.
        let function = make(0, 1);
        assert_eq!(function.set_attribute(MAX_DYNAMIC_SHARED, 1, 7), 108);
        assert_eq!((value(&function, 0), value(&function, 1)), (7, 7));
    }

    #[test]
    fn a_place_has_addresses_from_the_start_or_never() {
        let p = Places::default();
        let launches: Vec<bool> = (0..6).map(|_| p.early()).collect();
        assert_eq!(launches, [true, true, true, true, false, false]);
        assert!(p.means(96, true) && p.means(96, false));
        assert!(!p.means(104, false) && !p.means(104, false));
    }
}
