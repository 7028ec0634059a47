//! Launches: what is checked when the call comes, and what runs later.

use crate::capture;
use crate::context;
use crate::device_graph;
use crate::entry::{self, Flavour, api};
use crate::event::EVENTS;
use crate::ffi::*;
use crate::function::{self, Function};
use crate::stats;
use crate::stream;
use crate::work::Work;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock};

const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
const MAX_THREADS: u64 = 1024;
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
const MAX_COOPERATIVE_BLOCKS: u64 = 132 * 2;
const PARAM_END: usize = 0;
const PARAM_BUFFER: usize = 1;
const PARAM_SIZE: usize = 2;
const MAX_PARAMS: usize = 32 << 10;
const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;
const PROGRAMMATIC_EVENT: u32 = 7;
const COMPLETION_EVENT: u32 = 12;
const MAX_CLUSTER: u32 = 8;

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
        function: CUfunction,
        (grid, block): ([u32; 3], [u32; 3]),
        shared: u32,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> R<Launch> {
        let function = function::resolve(function)?;
        let product = |n: u64, m: &u32| n.saturating_mul(u64::from(*m));
        let threads = block.iter().fold(1, product);
        let fits = |size: &[u32; 3], max: &[u32; 3]| {
            size.iter().zip(max).all(|(n, max)| (1..=*max).contains(n))
        };
        let most_threads = function.attributes.get(0)? as u64;
        if !fits(&grid, &MAX_GRID)
            || !fits(&block, &MAX_BLOCK)
            || threads > MAX_THREADS.min(most_threads)
            || i64::from(shared) > i64::from(function.attributes.get(8)?)
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

    /// Runs the kernel.
    pub fn run(&self) -> Res {
        stats::ran();
        match &self.function.kernel.builtin {
            Some(builtin) => {
                let params = self.params.lock().unwrap().clone();
                builtin.run(&params)
            }
            None => Ok(()),
        }
    }

    fn check_cooperative(&self) -> Res {
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
        let buffer = unsafe { extra_buffer(extra)? };
        return if buffer.len() < total {
            Err(INVALID_VALUE)
        } else {
            Ok(buffer)
        };
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

/// What a driver refuses of an attribute: clusters that do not fill the grid or are too large, and
/// events that keep time.
fn check_attribute(a: &LaunchAttribute, grid: [u32; 3]) -> Res {
    match a.id {
        CLUSTER => {
            let cluster = &a.value[..3];
            let fills = (0..3).all(|i| cluster[i] > 0 && grid[i].is_multiple_of(cluster[i]));
            if fills && cluster.iter().product::<u32>() <= MAX_CLUSTER {
                Ok(())
            } else {
                Err(INVALID_CLUSTER_SIZE)
            }
        }
        PROGRAMMATIC_EVENT | COMPLETION_EVENT => {
            let handle = u64::from(a.value[1]) << 32 | u64::from(a.value[0]);
            if EVENTS.get(handle as CUevent)?.keeps_time() {
                Err(NOT_SUPPORTED)
            } else {
                Ok(())
            }
        }
        _ => Ok(()),
    }
}

unsafe fn launch(
    (stream, flavour): (CUstream, Flavour),
    function: CUfunction,
    shape: ([u32; 3], [u32; 3]),
    shared: u32,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    (cooperative, updatable): (bool, Option<*mut LaunchAttribute>),
) -> Res {
    if function == 0 {
        return Err(INVALID_HANDLE);
    }
    let (stream, context) = stream::resolve(stream, flavour)?;
    entry::launch_cost();
    // SAFETY: by the caller's contract.
    let launch = unsafe { Launch::new(function, shape, shared, params, extra)? };
    if launch.function.context != context.handle {
        return Err(INVALID_HANDLE);
    }
    if cooperative {
        launch.check_cooperative()?;
    }
    if updatable.is_some() && capture::of(&stream)?.is_none() {
        return Err(INVALID_VALUE);
    }
    stats::launched();
    let launch = Arc::new(launch);
    stream::submit_to(&stream, &context, Work::Kernel(launch.clone()))?;
    if let Some(attribute) = updatable {
        let name = device_graph::make_updatable(&launch) as u64;
        // SAFETY: the caller's attribute, in which the name comes back.
        unsafe {
            (*attribute).value[2] = name as u32;
            (*attribute).value[3] = (name >> 32) as u32;
        }
    }
    Ok(())
}

api! {
    fn [cuLaunchKernel; cuLaunchKernel_ptsz] (
        function: CUfunction, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32,
        stream: CUstream, params: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        let shape = ([gx, gy, gz], [bx, by, bz]);
        launch((stream, FLAVOUR), function, shape, shared, params, extra, (false, None))
    }

    fn [cuLaunchCooperativeKernel; cuLaunchCooperativeKernel_ptsz] (
        function: CUfunction, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32,
        stream: CUstream, params: *mut *mut c_void,
    ) {
        let shape = ([gx, gy, gz], [bx, by, bz]);
        let none = std::ptr::null_mut();
        launch((stream, FLAVOUR), function, shape, shared, params, none, (true, None))
    }

    fn [cuLaunchKernelEx; cuLaunchKernelEx_ptsz] (
        config: *const LaunchConfig, function: CUfunction, params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        context::current()?;
        let c = get(config)?;
        let attributes = list(c.attrs, c.num_attrs as usize)?;
        if attributes.iter().any(|attribute| attribute.id > 15) {
            return Err(INVALID_VALUE);
        }
        for attribute in &attributes {
            check_attribute(attribute, c.grid)?;
        }
        let cooperative = attributes.iter().any(|a| a.id == COOPERATIVE && a.value[0] != 0);
        let shape = (c.grid, c.block);
        let updatable = attributes.iter().position(|a| a.id == device_graph::UPDATABLE);
        let how = (cooperative, updatable.map(|i| c.attrs.add(i)));
        launch((c.stream, FLAVOUR), function, shape, c.shared, params, extra, how)
    }
}
