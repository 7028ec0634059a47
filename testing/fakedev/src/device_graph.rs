//! What kernels do to graphs: they launch them, and change other kernels in them. They know both
//! by the driver's own names; any other number is an illegal address to them, as on a device.

use crate::entry::api;
use crate::ffi::*;
use crate::graph::{self, EXECS};
use crate::handle::{self, Table};
use crate::launch::Launch;
use crate::work::Work;
use std::sync::Arc;

/// The launch attribute of a kernel that others may change.
pub const UPDATABLE: u32 = 13;

/// Kernels that others may change, by the name that these know.
static NAMED: Table<Launch> = Table::new();

/// Runs an executable graph from within a kernel, all of it: that is one of the orders in which a
/// device may do it.
pub fn start(exec: u64) -> Res {
    let exec = EXECS.get(exec as usize).map_err(|_| ILLEGAL_ADDRESS)?;
    exec.run_on_device()
}

/// Changes a parameter of a kernel from within another.
pub fn change(node: u64, offset: usize, value: u32) -> Res {
    let launch = NAMED.get(node as usize).map_err(|_| ILLEGAL_ADDRESS)?;
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

fn kernel_of(node: CUgraphNode) -> R<Arc<Launch>> {
    match graph::find(node)?.1.work {
        Work::Kernel(launch) => Ok(launch),
        _ => Err(INVALID_VALUE),
    }
}

/// The value of the attribute: whether, and the name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Updatable {
    on: u32,
    pad: u32,
    name: usize,
}

api! {
    // The value is constant by its type alone: the name comes back in it.
    fn [cuGraphKernelNodeSetAttribute] (node: CUgraphNode, attribute: u32, value: *mut Updatable) {
        let launch = kernel_of(node)?;
        match (attribute, get(value)?.on) {
            (UPDATABLE, 1) => {
                let name = make_updatable(&launch);
                put(value, Updatable { on: 1, pad: 0, name })
            }
            (UPDATABLE, _) => Err(INVALID_VALUE),
            _ => Err(NOT_SUPPORTED),
        }
    }

    fn [cuGraphKernelNodeGetAttribute] (node: CUgraphNode, attribute: u32, value: *mut Updatable) {
        let launch = kernel_of(node)?;
        if attribute != UPDATABLE {
            return Err(NOT_SUPPORTED);
        }
        let name = launch.name.get().copied();
        put(value, Updatable { on: name.is_some().into(), pad: 0, name: name.unwrap_or(0) })
    }
}
