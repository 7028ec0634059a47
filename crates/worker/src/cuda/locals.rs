//! Local memory: so many bytes of a device for each thread that may run there. A driver takes them
//! with the first launch of a kernel that needs as many, and keeps them: they are counted, and
//! refused, before that.

use super::prelude::*;
use super::state::handles::Function;
use crate::memory::{Charge, in_pieces};

/// What each thread that may run has of a context from the beginning.
const STACK: u64 = 1024;
/// Drivers round that up to so many bytes.
const STEP: u64 = 16;

/// The most threads that run at a time on a device.
fn threads(d: &Driver, dev: i32) -> Result<u64> {
    let (mut each, mut processors) = (0, 0);
    let most = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;
    let number = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    // SAFETY: pointers to live numbers.
    unsafe {
        check(d.cuDeviceGetAttribute(&mut each, most, dev))?;
        check(d.cuDeviceGetAttribute(&mut processors, number, dev))?;
    }
    Ok(each.max(0) as u64 * processors.max(0) as u64)
}

/// Bytes of local memory of a kernel, for each thread.
fn local(d: &Driver, f: &Function, dev: i32) -> u64 {
    let mut bytes = 0;
    let which = CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;
    // SAFETY: a live function or kernel, and a pointer to a live number.
    let rc = unsafe {
        match f.kernel {
            true => d.cuKernelGetAttribute(&mut bytes, which, f.raw as CUkernel, dev),
            false => d.cuFuncGetAttribute(&mut bytes, which, f.raw as CUfunction),
        }
    };
    if rc == CUDA_SUCCESS {
        bytes.max(0) as u64
    } else {
        0
    }
}

impl Cuda {
    /// Takes what each thread of the current context is to have from now on; it goes with the
    /// context.
    pub fn charge_stacks(&mut self, each: u64) -> Result<Option<Arc<Charge>>> {
        let on = self.current_device();
        let more = in_pieces(each, STEP).saturating_sub(STACK);
        let bytes = more.saturating_mul(threads(self.driver, on.unwrap_or(0))?);
        // In the place of what it had, which is given back if there is enough.
        let key = ((Kind::Context, self.record.aux), 1 + CU_LIMIT_STACK_SIZE);
        let had = self.handles.uncharge(key.0, key.1);
        let charge = self.charge(Use::Heap, on, bytes);
        if let (Err(_), Some(had)) = (&charge, had) {
            self.handles.charge(key.0, key.1, had);
        }
        Ok(Some(charge?).filter(|_| bytes > 0).map(Arc::new))
    }

    /// A kernel is to be launched, or gets into a graph: its local memory is there with the first
    /// that needs as much.
    pub fn charge_locals(&mut self, function: u32) -> Result {
        let f = self.handles.function(function)?;
        let dev = match f.kernel {
            true => self.current_device().unwrap_or(0),
            false => 0,
        };
        let wants = local(self.driver, f, dev);
        // As mostly: this is on the way of each launch.
        if wants <= STACK {
            return Ok(());
        }
        let mut has = 0usize;
        // SAFETY: a pointer to a live number.
        check(unsafe { self.cuCtxGetLimit(&mut has, CU_LIMIT_STACK_SIZE) })?;
        if wants <= has as u64 {
            return Ok(());
        }
        let charge = self.charge_stacks(wants)?;
        if let Some(charge) = charge {
            let key = (Kind::Context, self.record.aux);
            self.handles.charge(key, 1 + CU_LIMIT_STACK_SIZE, charge);
        }
        Ok(())
    }
}
