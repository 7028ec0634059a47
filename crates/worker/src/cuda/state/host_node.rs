//! Host nodes of graphs.

use super::prelude::*;
use crate::cuda::promised::Promised;
use crate::named::{self, Named};
use std::ffi::c_void;

/// Mirrors that copies before a host node fill, that copies behind it read, and that copies fill
/// while it may run.
pub type Around = [Vec<u32>; 3];

/// A host node's function: the program's, with the mirrors that it may care for.
///
/// The driver's nodes know it by a number that is looked up, and not by its address: whatever
/// becomes of a graph, a number finds nothing that is gone.
pub struct HostNode {
    pub number: usize,
    /// What runs.
    pub promised: Arc<Promised>,
    pub around: Mutex<Around>,
    told: AtomicBool,
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
            told: AtomicBool::new(false),
        })
    }

    /// Whether there is any.
    pub fn any() -> bool {
        HOST_NODES.any()
    }

    /// What the driver's node has for data.
    pub fn data(&self) -> *mut c_void {
        named::data(self.number)
    }

    /// What a node of the driver's is told, to have it.
    pub fn params(&self) -> CUDA_HOST_NODE_PARAMS {
        CUDA_HOST_NODE_PARAMS {
            r#fn: Some(host_node),
            userData: self.data(),
        }
    }

    /// The one that a node of the driver's has for data, unless it is gone.
    pub fn of(data: *mut c_void) -> Option<Arc<Self>> {
        HOST_NODES.get(data)?.upgrade()
    }

    /// Says which mirrors it may care for.
    pub fn set_around(&self, around: Around) {
        *lock(&self.around) = around;
        self.told.store(true, Ordering::Release);
    }

    /// Whether that has been said.
    pub fn is_told(&self) -> bool {
        self.told.load(Ordering::Acquire)
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
