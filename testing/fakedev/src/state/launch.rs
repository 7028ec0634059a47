//! Launches: a kernel and all that it needs to run.

use super::function::{self, Function};
use super::handle::{self, Table};
use super::kernels::Asks;
use crate::ffi::*;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
const MAX_THREADS: u64 = 1024;
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
const MAX_COOPERATIVE_BLOCKS: u64 = 132 * 2;
const PARAM_END: usize = 0;
const PARAM_BUFFER: usize = 1;
const PARAM_SIZE: usize = 2;
const MAX_PARAMS: usize = 32 << 10;

/// Launches that were accepted outside of a graph, or captured.
pub static LAUNCHED: AtomicU64 = AtomicU64::new(0);
/// Kernels that ran.
pub static RAN: AtomicU64 = AtomicU64::new(0);

/// A kernel and all that it needs to run.
pub struct Launch {
    /// The function.
    pub function: Arc<Function>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads in a block.
    pub block: [u32; 3],
    /// Dynamic shared memory.
    pub shared: u32,
    /// The packed parameters.
    pub params: Mutex<Vec<u8>>,
    /// The name by which other kernels may change them.
    pub name: OnceLock<usize>,
    /// The address of each parameter, as a node's getter gives them; they point into `params`.
    pub pointers: Vec<usize>,
}

impl Launch {
    /// Checks a launch and copies its parameters.
    ///
    /// # Safety
    /// `params` and `extra` are as `cuLaunchKernel` takes them.
    pub unsafe fn new(
        function: Arc<Function>,
        (grid, block): ([u32; 3], [u32; 3]),
        shared: u32,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> R<Launch> {
        let product = |n: u64, m: &u32| n.saturating_mul(u64::from(*m));
        let threads = block.iter().fold(1, product);
        let fits = |size: &[u32; 3], max: &[u32; 3]| {
            size.iter().zip(max).all(|(n, max)| (1..=*max).contains(n))
        };
        let most_threads = function.attributes.get(0, &function.kernel)? as u64;
        if !fits(&grid, &MAX_GRID)
            || !fits(&block, &MAX_BLOCK)
            || threads > MAX_THREADS.min(most_threads)
            || i64::from(shared) > i64::from(function.attributes.get(8, &function.kernel)?)
        {
            return Err(INVALID_VALUE);
        }
        // SAFETY: by this function's contract.
        let params = unsafe { packed(&function, params, extra)? };
        let layout = function
            .kernel
            .params
            .as_ref()
            .map(function::layout)
            .unwrap_or_default();
        let start = params.as_ptr() as usize;
        let pointers = layout.iter().map(|(offset, _)| start + offset).collect();
        Ok(Launch {
            function,
            grid,
            block,
            shared,
            params: Mutex::new(params),
            name: OnceLock::new(),
            pointers,
        })
    }

    /// Runs the kernel, and tells what it asks for.
    pub fn run(&self) -> R<Asks> {
        RAN.fetch_add(1, Ordering::Relaxed);
        match &self.function.kernel.builtin {
            Some(builtin) => {
                let params = self.params.lock().unwrap().clone();
                builtin.run(&params)
            }
            None => Ok(Asks::Nothing),
        }
    }

    /// Refuses a grid whose blocks cannot all run at once.
    pub fn check_cooperative(&self) -> Res {
        let product = |n: u64, m: &u32| n.saturating_mul(u64::from(*m));
        let blocks = self.grid.iter().fold(1, product);
        if blocks > MAX_COOPERATIVE_BLOCKS {
            Err(COOPERATIVE_LAUNCH_TOO_LARGE)
        } else {
            Ok(())
        }
    }
}

/// Packs the parameters, from one pointer each or from the caller's own buffer.
unsafe fn packed(
    function: &Function,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> R<Vec<u8>> {
    let layout = function.kernel.params.as_ref().map(function::layout);
    let total = layout
        .iter()
        .flatten()
        .last()
        .map_or(0, |(offset, size)| offset + size);
    if !extra.is_null() {
        if !params.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: by the caller's contract.
        let mut buffer = unsafe { extra_buffer(extra)? };
        // Fewer bytes are taken, neither none nor more.
        if buffer.is_empty() && total > 0 {
            return Err(INVALID_VALUE);
        }
        if buffer.len() > total {
            return Err(LAUNCH_OUT_OF_RESOURCES);
        }
        buffer.resize(total, 0);
        return Ok(buffer);
    }
    let mut buffer = vec![0; total];
    if total != 0 && params.is_null() {
        return Err(INVALID_VALUE);
    }
    for (i, (offset, size)) in layout.iter().flatten().enumerate() {
        // SAFETY: there is one pointer for each parameter, and each points to that parameter.
        unsafe {
            let from = *params.add(i);
            if from.is_null() {
                return Err(INVALID_VALUE);
            }
            let to = buffer.as_mut_ptr().add(*offset);
            to.copy_from_nonoverlapping(from.cast(), *size);
        }
    }
    Ok(buffer)
}

unsafe fn extra_buffer(extra: *mut *mut c_void) -> R<Vec<u8>> {
    let (mut start, mut size) = (None, None);
    for i in 0..8 {
        // SAFETY: the list ends with PARAM_END, and each other key has a value after it.
        let (key, value) = unsafe {
            let key = *extra.add(2 * i) as usize;
            if key == PARAM_END {
                break;
            }
            (key, *extra.add(2 * i + 1))
        };
        match key {
            PARAM_BUFFER => start = Some(value.cast::<u8>()),
            // SAFETY: the value of this key is the address of a size.
            PARAM_SIZE => size = Some(unsafe { get(value.cast::<usize>())? }),
            _ => return Err(INVALID_VALUE),
        }
    }
    let (start, size) = (start.ok_or(INVALID_VALUE)?, size.ok_or(INVALID_VALUE)?);
    if start.is_null() || size > MAX_PARAMS {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's buffer has the size that it says.
    Ok(unsafe { std::slice::from_raw_parts(start, size) }.to_vec())
}

/// The launch attribute of a kernel that others may change.
pub const UPDATABLE: u32 = 13;

/// Kernels that others may change, by the name that these know.
static NAMED: Table<Launch> = Table::new();

/// Forgets kernels that others may change.
pub fn reset() {
    NAMED.clear();
}

/// Changes a parameter of a kernel from within another.
pub fn change(name: usize, offset: usize, value: u32) -> Res {
    let launch = NAMED.get(name).map_err(|_| ILLEGAL_ADDRESS)?;
    let mut params = launch.params.lock().unwrap();
    let to = params.get_mut(offset..offset + 4).ok_or(INVALID_VALUE)?;
    to.copy_from_slice(&value.to_le_bytes());
    Ok(())
}

/// Lets other kernels change one, and gives the name that they know it by.
pub fn make_updatable(launch: &Arc<Launch>) -> usize {
    *launch.name.get_or_init(|| {
        let name = handle::fresh();
        NAMED.insert(name, launch.clone());
        name
    })
}
