//! Streams that stand still at gates, and calls for which a driver waits for all streams.
//!
//! While a driver waits in such a call (a module is loaded, memory is freed) until a stream of the
//! context goes on, it makes no other call in that context either. What opens a gate takes calls
//! there: a copy from another server lands by them. So a call of this kind is not made before all
//! gates are open. Natively it would wait for the same work.

use crate::prelude::*;
use busbar_wire::generated::cuda::op;

/// How often is looked whether the session is lost, and with it all gates.
const LOOK: Duration = Duration::from_millis(100);

/// Whether a driver may wait for all streams of a context in what a worker does for a call: it may
/// load code, and does so when a kernel is first asked about; or give something back.
pub const fn stops(op: u16) -> bool {
    let loads = matches!(
        op,
        op::CU_FUNC_LOAD
            | op::CU_FUNC_SET_CACHE_CONFIG
            | op::CU_FUNC_SET_SHARED_MEM_CONFIG
            | op::CU_LIBRARY_GET_KERNEL_COUNT
            | op::CU_MODULE_GET_FUNCTION_COUNT
            | op::CU_OCCUPANCY_AVAILABLE_DYNAMIC_S_MEM_PER_BLOCK
            | op::CU_OCCUPANCY_MAX_ACTIVE_BLOCKS_PER_MULTIPROCESSOR
            | op::CU_OCCUPANCY_MAX_ACTIVE_BLOCKS_PER_MULTIPROCESSOR_WITH_FLAGS
            | op::FUNCTION_SET_ATTRIBUTE
            | op::KERNEL_FUNCTION
            | op::LIBRARY_GLOBAL
            | op::LIBRARY_KERNEL
            | op::LIBRARY_KERNEL_NAMES
            | op::LIBRARY_LOAD
            | op::LIBRARY_LOAD_NOW
            | op::LIBRARY_MODULE
            | op::MODULE_FUNCTION
            | op::MODULE_FUNCTION_KNOWN
            | op::MODULE_FUNCTION_NAMES
            | op::MODULE_GLOBAL
            | op::MODULE_LOAD
    );
    let gives_back = matches!(
        op,
        op::CU_ARRAY_DESTROY
            | op::CU_CTX_SET_LIMIT
            | op::CU_DEVICE_GRAPH_MEM_TRIM
            | op::CU_GRAPH_EXEC_DESTROY
            | op::CU_MEM_POOL_DESTROY
            | op::CU_MEM_POOL_TRIM_TO
            | op::CU_MIPMAPPED_ARRAY_DESTROY
            | op::LIBRARY_UNLOAD
            | op::MEM_RETIRE
            | op::MODULE_UNLOAD
            | op::UNSHARE_HOST
            | op::VMM_RELEASE
            | op::VMM_UNMAP
    );
    loads || gives_back
}

/// What is done when a stream has come to a gate: it is told the server's number for that.
pub type Gate = Box<dyn FnOnce(u32) + Send>;

/// The gates of a session.
#[derive(Default)]
pub struct Gates {
    /// Those that no stream has come to, by number.
    pub ahead: Mutex<HashMap<u64, Gate>>,
    /// How many are not open.
    closed: Mutex<usize>,
    opened: Condvar,
}

/// A gate that is closed; open once this is dropped.
pub struct Closed(&'static Gates);

impl Drop for Closed {
    fn drop(&mut self) {
        *lock(&self.0.closed) -= 1;
        self.0.opened.notify_all();
    }
}

/// While this is there, no gate is closed.
pub struct Pass<'a>(#[expect(dead_code)] MutexGuard<'a, usize>);

impl Gates {
    /// A gate is about to be closed.
    pub fn close(&'static self) -> Closed {
        *lock(&self.closed) += 1;
        Closed(self)
    }

    /// Waits until all gates are open, unless the session is lost, and keeps them so.
    #[cold]
    pub fn pass(&self, lost: impl Fn() -> bool) -> Pass<'_> {
        let mut closed = lock(&self.closed);
        while *closed > 0 && !lost() {
            let waited = self.opened.wait_timeout(closed, LOOK);
            closed = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Pass(closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_for_gates_and_gates_for_a_call() {
        let gates: &'static Gates = Box::leak(Box::default());
        drop(gates.pass(|| false));
        let one = gates.close();
        drop(gates.pass(|| true));
        let waits = std::thread::spawn(|| drop(gates.pass(|| false)));
        assert!(!waits.is_finished());
        drop(one);
        waits.join().expect("no panic");
        let pass = gates.pass(|| false);
        let closes = std::thread::spawn(|| drop(gates.close()));
        assert!(!closes.is_finished());
        drop(pass);
        closes.join().expect("no panic");
        assert_eq!(*lock(&gates.closed), 0);
    }
}
