//! Memory that reads fill. Pieces of full size are kept for the next read: fresh memory costs a
//! page fault for every page, which is slower than the copy itself.

use busbar_abi::opencl::CL_OUT_OF_HOST_MEMORY;
use busbar_wire::limits::BULK_CHUNK;
use std::sync::{Arc, Mutex, PoisonError};

/// Pieces kept.
const KEPT: usize = 48;

/// Pieces for reuse.
#[derive(Clone, Default)]
pub struct Pool {
    free: Arc<Mutex<Vec<Box<[u8]>>>>,
}

/// Memory of one read.
pub struct Landing {
    memory: Box<[u8]>,
    home: Pool,
}

impl Pool {
    /// Memory of `n` bytes, of unknown contents: the read fills all of it before anybody looks.
    pub fn take(&self, n: usize) -> Result<Landing, i32> {
        let home = self.clone();
        if n == BULK_CHUNK {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(memory) = free.pop() {
                return Ok(Landing { memory, home });
            }
        }
        let mut memory = Vec::new();
        memory
            .try_reserve_exact(n)
            .map_err(|_| CL_OUT_OF_HOST_MEMORY)?;
        memory.resize(n, 0);
        let memory = memory.into_boxed_slice();
        Ok(Landing { memory, home })
    }
}

impl Landing {
    /// The memory.
    pub fn bytes(&self) -> &[u8] {
        &self.memory
    }

    /// The memory, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        if self.memory.len() != BULK_CHUNK {
            return;
        }
        let mut free = self
            .home
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            free.push(std::mem::take(&mut self.memory));
        }
    }
}
