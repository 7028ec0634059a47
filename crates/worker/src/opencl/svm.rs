//! Shared virtual memory. Pointers are this process's own; the client tries to have the same ones.

use super::prelude::*;
use super::session::Svm;
use crate::memory::Use;

impl OpenCl {
    /// A range of shared memory that the session has.
    pub fn svm_range(&self, at: u64, size: u64) -> Result<*mut c_void, i32> {
        let inside = self.svm.iter().any(|(start, m)| {
            let len = m.len as u64;
            at >= *start && size <= len && at - start <= len - size
        });
        match inside {
            true => Ok(at as *mut c_void),
            false => Err(CL_INVALID_VALUE),
        }
    }

    pub fn svm_alloc(&mut self, m: wire::SvmAlloc) -> Result<wire::SvmAllocReply, Fail> {
        let c = self.objects.context(m.context)?;
        let charge = self.charge(Use::Svm, m.size)?;
        // SAFETY: a context of ours.
        let p = unsafe { (self.cl.clSVMAlloc)(c, m.flags, m.size as usize, m.align) };
        refuse_if(p.is_null(), CL_MEM_OBJECT_ALLOCATION_FAILURE)?;
        let svm = Svm {
            context: c,
            len: m.size as usize,
            _charge: charge,
        };
        self.svm.insert(p as u64, svm);
        Ok(wire::SvmAllocReply { pointer: p as u64 })
    }

    pub fn svm_free(&mut self, m: wire::SvmFree) -> Result<(), Fail> {
        if let Some(Svm { context: c, .. }) = &self.svm.remove(&m.pointer) {
            // SAFETY: allocated in this context and not freed yet.
            unsafe { (self.cl.clSVMFree)(*c, m.pointer as *mut c_void) };
        }
        Ok(())
    }

    pub fn svm_migrate(&mut self, m: wire::SvmMigrate) -> Result<(), Fail> {
        let pointers: Result<Vec<_>, _> = m
            .pointers
            .iter()
            .map(|p| self.svm_range(*p, 0).map(|p| p.cast_const()))
            .collect();
        let sizes: Vec<_> = m.sizes.iter().map(|s| *s as usize).collect();
        self.command(m.queue, m.event, &m.waits, |this, q, n, list, e| {
            let mut p = pointers?;
            refuse_if(p.len() != sizes.len(), CL_INVALID_VALUE)?;
            let (f, count) = (this.cl.clEnqueueSVMMigrateMem, p.len() as u32);
            // SAFETY: two lists of the same length.
            Ok(unsafe {
                f(
                    q,
                    count,
                    p.as_mut_ptr(),
                    sizes.as_ptr(),
                    m.flags,
                    n,
                    list,
                    e,
                )
            })
        })
    }

    pub fn kernel_exec_info(&mut self, m: wire::KernelExecInfo<'_>) -> Result<(), Fail> {
        let k = self.objects.kernel(m.kernel)?;
        let value = match m.value.is_empty() {
            true => std::ptr::null(),
            false => m.value.as_ptr().cast(),
        };
        // SAFETY: a kernel of ours; the library copies the value.
        ok(unsafe { (self.cl.clSetKernelExecInfo)(k, m.param, m.value.len(), value) })?;
        Ok(())
    }
}
