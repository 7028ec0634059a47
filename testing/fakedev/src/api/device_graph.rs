//! The functions that let kernels change other kernels in graphs.

use crate::entry::api;
use crate::ffi::*;
use crate::state::graph;
use crate::state::launch::{Launch, UPDATABLE, make_updatable};
use crate::state::work::Work;
use std::sync::Arc;

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
