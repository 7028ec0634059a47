//! Host memory at one address here and in the program. A program on this host shares it: the device
//! copies from and to the program's own pages, and kernels reach them. For a program elsewhere the
//! worker has memory that stands for it, for kernels to reach.

use super::done::reply;
use super::prelude::*;
use super::reach::{self, End};
use super::state::segments::is_the_programs;

/// Makes mapped memory known to the driver. The program was promised that the device has it at the
/// same address.
fn register(d: &Driver, va: u64, size: u64) -> Result {
    const FLAGS: u32 = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    let mut there: CUdeviceptr = 0;
    // SAFETY: memory that stays mapped until it is unregistered, and a pointer to a live address.
    unsafe {
        let p = va as *mut std::ffi::c_void;
        check(d.cuMemHostRegister_v2(p, size as usize, FLAGS))?;
        let known = check(d.cuMemHostGetDevicePointer_v2(&mut there, p, 0));
        if known.is_err() || there != va {
            d.cuMemHostUnregister(p);
            known?;
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
    }
    Ok(())
}

/// Where something is at the program's address already, what stands for its memory lies elsewhere:
/// as a rule that is its neighbour, which shares a page with it. A kernel that finds a pointer in
/// memory goes by the program's address. So pages at which nothing is are shown there as well.
fn patch(w: &mut Cuda, (from, to): (u64, u64)) {
    for p in w.shared.twins.lacking(from, to) {
        let context = w.handle(Kind::Context, p.context);
        let (true, Ok(context)) = (is_the_programs(p.at, p.at + p.len), context) else {
            continue;
        };
        // Where that cannot be, the pages are where a parameter says, alone.
        let _ = w.within(context, |w| {
            w.shared.twins.patch(p).ok()?;
            let known = register(w.driver, p.at, p.len);
            known.inspect_err(|_| w.shared.twins.unpatch(p.at)).ok()
        });
    }
}

/// Takes away what stands for a program's memory, or is that memory, which the driver knows in the
/// current context. No work uses it.
fn forget(w: &mut Cuda, va: u64) {
    for at in w.shared.twins.patches(va) {
        // SAFETY: memory that was registered.
        unsafe { w.cuMemHostUnregister(at as *mut _) };
        w.shared.twins.unpatch(at);
    }
    let pages = w.shared.twins.pages(va);
    // SAFETY: memory that was registered. With its context the registration may be gone
    // already.
    unsafe { w.cuMemHostUnregister(va as *mut _) };
    w.shared.unmap(va);
    if let Some(pages) = pages {
        patch(w, pages);
    }
}

pub fn share_host(w: &mut Cuda, m: msg::ShareHost) -> Result {
    match m.number {
        0 => w.shared.map_twin((m.va, m.size), m.origin, w.record.aux)?,
        number => w.shared.map(m.va, m.size, number)?,
    }
    register(w.driver, m.va, m.size).inspect_err(|_| w.shared.unmap(m.va))?;
    w.shared.registered(m.va, w.record.aux);
    if m.number == 0 && m.va != m.origin {
        patch(w, (m.origin, m.origin.saturating_add(m.size)));
    }
    Ok(())
}

pub fn unshare_host(w: &mut Cuda, m: msg::UnshareHost) -> Result {
    if w.shared.size(m.va) != Some(m.size) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // Copies and kernels that use it are waited for; those of a lost context are over.
    let _ = super::memory::wait_for_streams(w);
    forget(w, m.va);
    Ok(())
}

/// A context is about to go, and with it what stands for a program's memory there.
pub fn leave_context(w: &mut Cuda, context: u32) {
    for va in w.shared.twins.of_context(context) {
        forget(w, va);
    }
    let lost = w.shared.lose(context);
    if !lost.is_empty() {
        // Any of them may be copying.
        let all: Vec<u64> = w.handles.of(Kind::Context).collect();
        for context in all {
            // What is told of an error is no concern here.
            let _ = w.within(context, |w| super::memory::wait_for_streams(w));
        }
    }
    for va in lost {
        // SAFETY: as above.
        unsafe { w.cuMemHostUnregister(va as *mut _) };
    }
}

/// Registers in a context what lost the one that it was registered in: the program shares a segment
/// between contexts, and goes on to use it.
pub fn adopt(w: &mut Cuda, context: u64) {
    let lost = w.shared.lost();
    if lost.is_empty() {
        return;
    }
    let id = w.known(Kind::Context, context);
    // A context that is lost takes nothing; then the next one may have it.
    let _ = w.within(context, |w| {
        for (va, size) in lost {
            if register(w.driver, va, size).is_ok() {
                w.shared.registered(va, id);
            }
        }
    });
}

/// The same in any of the contexts that are left.
pub fn adopt_anywhere(w: &mut Cuda) {
    let left = w.handles.of(Kind::Context).next();
    if let Some(context) = left {
        adopt(w, context);
    }
}

pub fn copy_shared(w: &mut Cuda, m: msg::CopyShared) -> Result<Answered, Fail> {
    let (stream, ctx) = w.here(m.stream);
    let call = w.record.call;
    let rc = attempt(|| {
        w.running_stream(m.stream)?;
        let (dst, src) = if w.shared.holds(m.src, m.len) {
            (End::Device(w.address(m.dst)?), End::Host(m.src))
        } else if w.shared.holds(m.dst, m.len) {
            (End::Host(m.dst), End::Device(w.address(m.src)?))
        } else {
            return Err(CUDA_ERROR_INVALID_VALUE);
        };
        // SAFETY: the side on the host lies in a segment, which stays mapped and, since records run
        // in order, outlives the copy; the other is no address of this process, as far as it goes
        // the driver checks it.
        unsafe { reach::bytes(w, stream, dst, src, m.len as usize) }
    });
    match (call, rc) {
        (0, CUDA_SUCCESS) => {}
        (0, rc) => return Err(Fail::Code(rc)),
        (call, CUDA_SUCCESS) => w.completer.after(stream, ctx, reply(call)),
        (_, rc) => return Err(Fail::Behind(rc)),
    }
    Ok(Answered)
}
