//! A driver as it was when it was loaded, for programs that do much in one process and must find
//! the same each time. The only thread that may use it is the calling one.

use crate::state::array;
use crate::state::event::EVENTS;
use crate::state::exec::EXECS;
use crate::state::function::{FUNCTIONS, KERNELS};
use crate::state::graph::{GRAPHS, NODES};
use crate::state::module::{LIBRARIES, MODULES};
use crate::state::{
    advice, capture, context, device, graph_memory, handle, launch, logs, memory, pool, stream,
    user_object, vmm,
};

/// Does what streams could not do before, where they have no threads and something has happened
/// since that is no driver call.
#[unsafe(no_mangle)]
pub extern "C" fn fakedev_work_on() {
    stream::work_on();
}

/// Forgets everything but the settings and `cuInit`.
#[unsafe(no_mangle)]
pub extern "C" fn fakedev_reset() {
    // What works with others goes before them, memory last.
    stream::reset();
    capture::reset();
    super::capture::reset();
    super::graph::reset();
    super::tables::reset();
    EXECS.clear();
    GRAPHS.clear();
    NODES.clear();
    launch::reset();
    graph_memory::reset();
    user_object::reset();
    EVENTS.clear();
    array::reset();
    FUNCTIONS.clear();
    KERNELS.clear();
    LIBRARIES.clear();
    MODULES.clear();
    pool::reset();
    context::reset();
    vmm::reset();
    memory::reset();
    advice::reset();
    device::reset();
    logs::reset();
    handle::begin_again();
}
