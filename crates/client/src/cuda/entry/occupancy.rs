//! Occupancy: what no single question to the driver answers.

use super::prelude::*;
use crate::cuda::engine::launch;
use crate::cuda::state::functions::MAX_THREADS;

const WARP: i32 = 32;

/// How many clusters of a launch fit the device, or how large a cluster may be.
///
/// # Safety
/// The pointers are as the API asks.
pub unsafe fn clusters(cx: Cx, f: CUfunction, c: &CUlaunchConfig, largest: u32) -> Result<i32> {
    let (id, _) = launch::function(cx, f)?;
    let shape = vec![
        c.gridDimX,
        c.gridDimY,
        c.gridDimZ,
        c.blockDimX,
        c.blockDimY,
        c.blockDimZ,
        c.sharedMemBytes,
    ];
    // SAFETY: as above.
    let attrs = unsafe { launch::attributes(cx, c)? };
    let reply = cx.cached(&msg::Clusters {
        function: id,
        largest,
        shape,
        attrs: busbar_abi::slice_bytes(&attrs),
    })?;
    Ok(decode::<msg::ClustersReply>(&reply)?.value)
}

pub fn cuOccupancyMaxPotentialBlockSizeWithFlags(
    cx: Cx,
    f: CUfunction,
    shared: CUoccupancyB2DSize,
    fixed: usize,
    limit: i32,
    flags: u32,
) -> Result<(i32, i32)> {
    let (id, info) = launch::function(cx, f)?;
    let d = cx.device(cx.current_device()?)?;
    let get = |a| d.attributes.get(&(a as i32)).copied().unwrap_or(0);
    let threads = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    let processors = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    let most = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK).min(info.attribute(MAX_THREADS));
    let most = if limit > 0 { most.min(limit) } else { most };
    let (mut best, mut best_blocks, mut best_threads) = (0, 0, 0);
    let mut aligned = (most + WARP - 1) / WARP * WARP;
    while aligned > 0 {
        let size = aligned.min(most);
        // SAFETY: the program's function.
        let bytes = shared.map_or(fixed, |of| unsafe { of(size) });
        let active = msg::CuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags {
            func: id,
            block_size: size,
            dynamic_s_mem_size: bytes as u64,
            flags,
        };
        let bytes = cx.cached(&active)?;
        let reply: msg::CuOccupancyMaxActiveBlocksPerMultiprocessorWithFlagsReply = decode(&bytes)?;
        let blocks = reply.num_blocks;
        if size * blocks > best_threads {
            (best, best_blocks, best_threads) = (size, blocks, size * blocks);
        }
        if best_threads == threads {
            break;
        }
        aligned -= WARP;
    }
    Ok((best_blocks * processors, best))
}
