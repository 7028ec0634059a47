//! Launches.

use super::entry::{self, Result};
use super::event::{self, Out};
use super::kernel::Kernel;
use super::object::{Object, get};
use super::queue::Queue;
use super::server::{decode, lock};
use busbar_abi::opencl::*;
use busbar_wire::generated::opencl as wire;

/// Index space of a launch.
struct Space {
    dims: u32,
    offset: [u64; 3],
    global: [u64; 3],
    local: Option<[u64; 3]>,
}

/// Reads up to three sizes.
///
/// # Safety
/// `p` is null or has `dims` readable items.
unsafe fn sizes(p: *const usize, dims: u32, rest: u64) -> [u64; 3] {
    let mut v = [rest; 3];
    if !p.is_null() {
        for (i, v) in v.iter_mut().enumerate().take(dims as usize) {
            // SAFETY: passed on to the caller.
            *v = unsafe { *p.add(i) } as u64;
        }
    }
    v
}

/// Whether the kernel can be launched so.
fn check(q: &Object<Queue>, k: &Object<Kernel>, s: &Space) -> Result<()> {
    let d = &q.device;
    if !k.info.is_for(d.id) {
        return Err(CL_INVALID_PROGRAM_EXECUTABLE);
    }
    let n = s.dims as usize;
    let space = d.number(CL_DEVICE_ADDRESS_BITS);
    let top = if space < 64 { 1u64 << space } else { u64::MAX };
    for i in 0..n {
        match s.offset[i].checked_add(s.global[i]) {
            Some(end) if end <= top => {}
            _ => return Err(CL_INVALID_GLOBAL_OFFSET),
        }
    }
    let required = k.info.sizes(d.id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE);
    let fixed = required.iter().any(|r| *r != 0);
    let Some(local) = s.local else {
        return match fixed {
            // Without a local size the kernel's own one would have to fit, which the device checks.
            true if d.version() < (2, 0) => Err(CL_INVALID_WORK_GROUP_SIZE),
            _ => Ok(()),
        };
    };
    if fixed && (0..3).any(|i| local[i] != required.get(i).copied().unwrap_or(1)) {
        return Err(CL_INVALID_WORK_GROUP_SIZE);
    }
    if local[..n].contains(&0) {
        return Err(CL_INVALID_WORK_GROUP_SIZE);
    }
    let most = d.sizes(CL_DEVICE_MAX_WORK_ITEM_SIZES);
    if (0..n).any(|i| local[i] > most.get(i).copied().unwrap_or(u64::MAX)) {
        return Err(CL_INVALID_WORK_ITEM_SIZE);
    }
    let all = local[..n].iter().try_fold(1u64, |a, b| a.checked_mul(*b));
    let limit = k.info.sizes(d.id, CL_KERNEL_WORK_GROUP_SIZE);
    let limit = limit.first().copied().unwrap_or(u64::MAX);
    if all.is_none_or(|a| a > limit) {
        return Err(CL_INVALID_WORK_GROUP_SIZE);
    }
    let uneven = (0..n).any(|i| !s.global[i].is_multiple_of(local[i]));
    if uneven
        && (d.version() < (2, 0)
            || d.number(CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT) == 0 && d.version() >= (3, 0))
    {
        return Err(CL_INVALID_WORK_GROUP_SIZE);
    }
    Ok(())
}

fn launch(
    q: &Object<Queue>,
    k: &Object<Kernel>,
    s: &Space,
    waits: Vec<u32>,
    out: Out<'_>,
) -> Result<()> {
    let mut args = lock(&k.args);
    if !args.complete() {
        return Err(CL_INVALID_KERNEL_ARGS);
    }
    args.ship(|packed| {
        q.server.queue(&wire::LaunchKernel {
            queue: q.id,
            kernel: k.id,
            event: out.id(),
            dims: s.dims + if s.local.is_none() { 4 } else { 0 },
            offset: s.offset,
            global: s.global,
            local: s.local.unwrap_or([1; 3]),
            args: packed,
            waits,
        })
    })?;
    out.give();
    Ok(())
}

/// `clEnqueueNDRangeKernel`.
pub unsafe extern "C" fn enqueue_nd_range_kernel(
    queue: Handle,
    kernel: Handle,
    dims: u32,
    offset: *const usize,
    global: *const usize,
    local: *const usize,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles, lists and sizes, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let k = get::<Kernel>(kernel)?;
        if !std::ptr::eq(&*q.context, &*k.program.context) {
            return Err(CL_INVALID_CONTEXT);
        }
        if dims == 0 || dims > 3 {
            return Err(CL_INVALID_WORK_DIMENSION);
        }
        let old = q.device.version() < (2, 1);
        if old && global.is_null() {
            return Err(CL_INVALID_GLOBAL_WORK_SIZE);
        }
        let space = Space {
            dims,
            offset: sizes(offset, dims, 0),
            global: if global.is_null() {
                [0; 3]
            } else {
                sizes(global, dims, 1)
            },
            local: (!local.is_null()).then(|| sizes(local, dims, 1)),
        };
        if old && space.global[..dims as usize].contains(&0) {
            return Err(CL_INVALID_GLOBAL_WORK_SIZE);
        }
        check(q, k, &space)?;
        let waits = event::waits(&q.context, n, list)?;
        launch(
            q,
            k,
            &space,
            waits,
            Out::new(q, CL_COMMAND_NDRANGE_KERNEL, out),
        )
    })
}

/// `clEnqueueTask`.
pub unsafe extern "C" fn enqueue_task(
    queue: Handle,
    kernel: Handle,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles and list.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let k = get::<Kernel>(kernel)?;
        if !std::ptr::eq(&*q.context, &*k.program.context) {
            return Err(CL_INVALID_CONTEXT);
        }
        let space = Space {
            dims: 1,
            offset: [0; 3],
            global: [1; 3],
            local: Some([1; 3]),
        };
        check(q, k, &space)?;
        let waits = event::waits(&q.context, n, list)?;
        launch(q, k, &space, waits, Out::new(q, CL_COMMAND_TASK, out))
    })
}

/// `clEnqueueNativeKernel`.
pub unsafe extern "C" fn enqueue_native_kernel(
    queue: Handle,
    _function: Handle,
    _args: Handle,
    _size: usize,
    _n_objects: u32,
    _objects: *const Handle,
    _places: *const Handle,
    _n: u32,
    _list: *const Handle,
    _out: *mut Handle,
) -> i32 {
    // A host function cannot run on the server, and the device says so in its capabilities.
    // SAFETY: the program's handle.
    entry::status(|| unsafe {
        get::<Queue>(queue)?;
        Err(CL_INVALID_OPERATION)
    })
}

/// `clGetKernelSuggestedLocalWorkSizeKHR`.
pub unsafe extern "C" fn get_kernel_suggested_local_work_size(
    queue: Handle,
    kernel: Handle,
    dims: u32,
    offset: *const usize,
    global: *const usize,
    local: *mut usize,
) -> i32 {
    // SAFETY: the program's handles and sizes.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let k = get::<Kernel>(kernel)?;
        if dims == 0 || dims > 3 {
            return Err(CL_INVALID_WORK_DIMENSION);
        }
        if global.is_null() {
            return Err(CL_INVALID_GLOBAL_WORK_SIZE);
        }
        if local.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let mut args = lock(&k.args);
        if !args.complete() {
            return Err(CL_INVALID_KERNEL_ARGS);
        }
        let body = args.ship(|packed| {
            q.server.call(&wire::SuggestedLocalSize {
                queue: q.id,
                kernel: k.id,
                dims,
                offset: sizes(offset, dims, 0),
                global: sizes(global, dims, 1),
                args: packed,
            })
        })?;
        let reply: wire::SuggestedLocalSizeReply = decode(&body)?;
        for (i, n) in reply.local.iter().take(dims as usize).enumerate() {
            local.add(i).write(*n as usize);
        }
        Ok(())
    })
}
