//! Mirrors: page-locked memory in the place of the program's, for the copies of graphs.

use crate::lock::lock;
use crate::outbox::Outbox;
use busbar_abi::cuda::*;
use busbar_wire::promise::Word;
use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Page-locked memory that is free, by size.
#[derive(Default)]
pub struct Pool {
    pub free: Mutex<HashMap<usize, Vec<u64>>>,
}

/// A mirror.
pub struct Mirror {
    /// The client's number for it; 0 where it has none.
    pub id: u32,
    /// Where it is.
    pub ptr: u64,
    pub len: usize,
    /// Launches under way that may read or write it.
    pub busy: AtomicU32,
    pub pool: Arc<Pool>,
    pub outbox: Outbox,
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // On whatever thread the driver chose, which may not call the driver: the memory is kept.
        let mut free = lock(&self.pool.free);
        free.entry(room(self.len)).or_default().push(self.ptr);
        drop(free);
        if self.id == 0 {
            return;
        }
        let id = self.id;
        self.outbox
            .callback(0, Word::MirrorGone as i32, |w| w.u32(id));
    }
}

pub fn room(len: usize) -> usize {
    len.max(4096).next_power_of_two()
}

/// Mirrors by the client's numbers: functions of the program's find them ahead of the queue.
pub type ById = Arc<Mutex<HashMap<u32, Weak<Mirror>>>>;

pub fn find(all: &ById, id: u32) -> Result<Arc<Mirror>, CUresult> {
    let m = lock(all).get(&id).and_then(Weak::upgrade);
    m.ok_or(CUDA_ERROR_INVALID_VALUE)
}

/// The session's mirrors.
#[derive(Default)]
pub struct Mirrors {
    pub by_id: ById,
    pub by_ptr: HashMap<u64, Weak<Mirror>>,
    pub pool: Arc<Pool>,
    /// Bytes of page-locked memory that were taken; they stay the session's.
    pub taken: usize,
}

/// The most page-locked memory that a session's mirrors take: a part of what the machine has, since
/// nothing else can use it meanwhile.
pub fn most_taken() -> usize {
    crate::host::memory() as usize / 4
}

impl Mirrors {
    /// Whether any mirror is alive.
    pub fn any(&self) -> bool {
        lock(&self.by_id).values().any(|m| m.strong_count() > 0)
    }

    /// A context is gone: page-locked memory that nobody uses may have gone with it.
    pub fn forget_free(&self) {
        let free = self.pool.free.lock();
        free.unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The mirror at an address.
    pub fn at(&self, ptr: u64) -> Option<Arc<Mirror>> {
        self.by_ptr.get(&ptr)?.upgrade()
    }

    pub fn get(&self, id: u32) -> Result<Arc<Mirror>, CUresult> {
        find(&self.by_id, id)
    }

    /// The list of them, to be looked at by another thread.
    pub fn by_id(&self) -> ById {
        self.by_id.clone()
    }
}

/// Checks that bytes lie within a mirror.
pub fn place(m: &Mirror, offset: u64, len: usize) -> Result<usize, CUresult> {
    let end = offset.checked_add(len as u64);
    match end {
        Some(e) if e <= m.len as u64 => Ok(offset as usize),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

/// The present bytes of a mirror.
pub fn read(all: &ById, id: u32) -> Result<Vec<u8>, CUresult> {
    let mirror = find(all, id)?;
    let mut bytes = vec![0; mirror.len];
    // SAFETY: the mirror has as many bytes.
    unsafe {
        let from = mirror.ptr as *const u8;
        std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), mirror.len);
    }
    Ok(bytes)
}

/// Writes to a mirror at once.
pub fn write(all: &ById, id: u32, offset: u64, bytes: &[u8]) -> Result<(), CUresult> {
    let mirror = find(all, id)?;
    let offset = place(&mirror, offset, bytes.len())?;
    // SAFETY: checked to lie within the mirror.
    unsafe {
        let to = (mirror.ptr as *mut u8).add(offset);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
    }
    Ok(())
}
