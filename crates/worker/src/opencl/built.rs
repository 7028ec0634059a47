//! A program, and what it was built into.

use super::prelude::*;
use crate::content::Hash;

/// A program of the library.
pub struct Program {
    pub cl: &'static Cl,
    pub raw: Handle,
    pub context: Handle,
    /// Its devices.
    pub devices: Vec<(u32, Handle)>,
    /// The hash of its source, if it came as such.
    pub source: Option<Hash>,
    pub built: Mutex<Built>,
    /// Held for the length of a build, and while what it gave is read: what is kept is the work of
    /// the build that it is kept for, whatever the client asks for in the meantime.
    pub building: Mutex<()>,
}

/// What a program was built into.
#[derive(Default)]
pub struct Built {
    /// The kept program that stands for the one from source, or null.
    pub kept: Handle,
    /// The name and the answer of a build that is not kept yet.
    pub fresh: Option<(Hash, Vec<u8>)>,
}

impl Program {
    pub fn built(&self) -> MutexGuard<'_, Built> {
        lock(&self.built)
    }

    /// Waits for the end of any build, and keeps the next one from beginning.
    pub fn alone(&self) -> MutexGuard<'_, ()> {
        lock(&self.building)
    }

    /// The library's program: what kernels are made from and queries are about.
    pub fn raw(&self) -> Handle {
        let kept = self.built().kept;
        if kept.is_null() { self.raw } else { kept }
    }

    /// The library.
    pub fn cl(&self) -> &'static Cl {
        self.cl
    }

    /// Its context.
    pub fn context(&self) -> Handle {
        self.context
    }

    /// Forgets what earlier builds gave.
    pub fn unbuild(&self) {
        let old = std::mem::take(&mut *self.built()).kept;
        if !old.is_null() {
            // SAFETY: the one reference that we have.
            unsafe { (self.cl.clReleaseProgram)(old) };
        }
    }

    /// The name and the answer of a build that is not kept yet, once.
    pub fn take_fresh(&self) -> Option<(Hash, Vec<u8>)> {
        self.built().fresh.take()
    }
}

// SAFETY: programs are reference-counted objects of a thread-safe API.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Drop for Program {
    fn drop(&mut self) {
        self.unbuild();
        // SAFETY: the one reference that we have.
        unsafe { (self.cl.clReleaseProgram)(self.raw) };
    }
}
