//! Launches.

use super::prelude::*;
use crate::opencl::state::space::Space;

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

fn launch(
    q: &Object<Queue>,
    k: &Object<Kernel>,
    s: &Space,
    command: u32,
    events: Events<'_>,
) -> Result<()> {
    let d = &q.device;
    let group = s.check(&k.info, d.id, &d.table, d.version())?;
    let asked = group.filter(|g| !lock(&k.taken).contains(g));
    let (out, (event, waits)) = begin(q, command, events)?;
    lock(&k.args).ship_all(|packed| {
        let launch = wire::LaunchKernel {
            queue: q.id,
            kernel: k.id,
            event,
            dims: s.dims + if s.local.is_none() { 4 } else { 0 },
            offset: s.offset,
            global: s.global,
            local: s.local.unwrap_or([1; 3]),
            args: packed,
            waits,
        };
        q.server.queue_or_ask(asked.is_some(), &launch)
    })?;
    if let Some(group) = asked {
        lock(&k.taken).insert(group);
    }
    out.give();
    Ok(())
}

fn check_context(q: &Queue, k: &Kernel) -> Result<()> {
    refuse_if(!q.context.is(&k.program.context), CL_INVALID_CONTEXT)
}

/// `clEnqueueNDRangeKernel`.
pub unsafe fn clEnqueueNDRangeKernel(
    q: &Object<Queue>,
    k: &Object<Kernel>,
    dims: u32,
    offset: *const usize,
    global: *const usize,
    local: *const usize,
    events: Events<'_>,
) -> Result<()> {
    check_context(q, k)?;
    refuse_if(dims == 0 || dims > 3, CL_INVALID_WORK_DIMENSION)?;
    // SAFETY: the program's sizes, where it gives any.
    let space = unsafe {
        Space {
            dims,
            offset: sizes(offset, dims, 0),
            global: match global.is_null() {
                true => [0; 3],
                false => sizes(global, dims, 1),
            },
            local: (!local.is_null()).then(|| sizes(local, dims, 1)),
        }
    };
    if q.device.version() < (2, 1) && space.global[..dims as usize].contains(&0) {
        return Err(CL_INVALID_GLOBAL_WORK_SIZE);
    }
    launch(q, k, &space, CL_COMMAND_NDRANGE_KERNEL, events)
}

/// `clEnqueueTask`.
pub fn clEnqueueTask(q: &Object<Queue>, k: &Object<Kernel>, events: Events<'_>) -> Result<()> {
    check_context(q, k)?;
    let space = Space {
        dims: 1,
        offset: [0; 3],
        global: [1; 3],
        local: Some([1; 3]),
    };
    launch(q, k, &space, CL_COMMAND_TASK, events)
}

/// `clGetKernelSuggestedLocalWorkSizeKHR`.
pub unsafe fn clGetKernelSuggestedLocalWorkSizeKHR(
    q: &Object<Queue>,
    k: &Object<Kernel>,
    dims: u32,
    offset: *const usize,
    global: *const usize,
    local: *mut usize,
) -> Result<()> {
    refuse_if(dims == 0 || dims > 3, CL_INVALID_WORK_DIMENSION)?;
    refuse_if(global.is_null(), CL_INVALID_GLOBAL_WORK_SIZE)?;
    refuse_if(local.is_null(), CL_INVALID_VALUE)?;
    // SAFETY: the program's sizes, where it gives any.
    let (offset, global) = unsafe { (sizes(offset, dims, 0), sizes(global, dims, 1)) };
    let reply = lock(&k.args).ship_all(|packed| {
        q.server.reply_to(&wire::SuggestedLocalSize {
            queue: q.id,
            kernel: k.id,
            dims,
            offset,
            global,
            args: packed,
        })
    })?;
    for (i, n) in reply.local.iter().take(dims as usize).enumerate() {
        // SAFETY: the program has room for as many sizes as it gives.
        unsafe { local.add(i).write(*n as usize) };
    }
    Ok(())
}
