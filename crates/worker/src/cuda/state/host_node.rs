//! Host nodes of graphs.

use crate::cuda::promised::Promised;
use crate::lock::lock;
use crate::named::{self, Named};
use busbar_abi::cuda::*;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, Weak};

/// A host node's function: the program's, with the mirrors that it may care for.
///
/// The driver's nodes know it by a number that is looked up, and not by its address: whatever
/// becomes of a graph, a number finds nothing that is gone.
pub struct HostNode {
    pub number: usize,
    /// What runs.
    pub promised: Arc<Promised>,
    /// Mirrors that copies before it fill, and mirrors that copies behind it read.
    pub around: Mutex<(Vec<u32>, Vec<u32>)>,
}

/// Host nodes by number: a process has one session.
static HOST_NODES: Named<Weak<HostNode>> = Named::new();

impl HostNode {
    /// A call of what the program promised.
    pub fn new(promised: Arc<Promised>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            number: HOST_NODES.add(this.clone()),
            promised,
            around: Mutex::default(),
        })
    }

    /// What the driver's node has for data.
    pub fn data(&self) -> *mut c_void {
        named::data(self.number)
    }

    /// The one that a node of the driver's has for data, unless it is gone.
    pub fn of(data: *mut c_void) -> Option<Arc<Self>> {
        HOST_NODES.get(data)?.upgrade()
    }

    /// Says which mirrors it may care for.
    pub fn set_around(&self, before: Vec<u32>, after: Vec<u32>) {
        *lock(&self.around) = (before, after);
    }
}

impl Drop for HostNode {
    fn drop(&mut self) {
        HOST_NODES.remove(self.number);
    }
}

/// The function of every host node here.
pub unsafe extern "C" fn host_node(data: *mut c_void) {
    if let Some(n) = HostNode::of(data) {
        let around = lock(&n.around);
        let with = (CUDA_SUCCESS, around.clone());
        drop(around);
        n.promised.run(with);
    }
}
