//! Libraries and their kernels.

use super::blame::is_fatal;
use super::compile::Compile;
use super::image::in_place_of;
use super::module::{describe, names_of};
use super::prelude::*;
use super::state::handles::{Body, Function};
use crate::answer::text;
use crate::objects::Creates;

fn load(w: &mut Cuda, (m, hash): (&impl Creates<Kind>, &[u8; 32]), c: &mut Compile) -> Result {
    // A driver looks at a library when it is used.
    let image = w.image(hash).map(|image| image.bytes);
    let image = image.unwrap_or_else(in_place_of);
    // It is on each device that it is used on.
    let charge = w.charge_image(None, &image)?;
    let mut library: CUlibrary = std::ptr::null_mut();
    let (keys, values) = c.arrays();
    // SAFETY: the image is as long as its own header says, or text that ends; the options' arrays
    // are of that length.
    let rc = unsafe {
        w.cuLibraryLoadData(
            &mut library,
            image.as_ptr().cast(),
            keys.as_mut_ptr(),
            values.as_mut_ptr(),
            keys.len() as u32,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
        )
    };
    check(rc)?;
    if w.gate.is_limited() {
        // Its variables come with the first use, when it is too late to refuse them.
        let mut module: CUmodule = std::ptr::null_mut();
        // SAFETY: a live library, and a pointer to a live handle.
        unsafe { w.cuLibraryGetModule(&mut module, library) };
        // SAFETY: a live library, which nobody knows of.
        w.afford(|d| _ = unsafe { d.cuLibraryUnload(library) })?;
    }
    w.made_of(m, library as u64, charge);
    Ok(())
}

pub fn library_load(w: &mut Cuda, m: msg::LibraryLoad<'_>) -> Result {
    let loaded = Compile::new(m.options).and_then(|mut c| load(w, (&m, &m.hash), &mut c));
    loaded.or_else(|rc| {
        if is_fatal(rc) {
            return Err(rc);
        }
        // For want of memory, say: whoever uses it is told, and nobody else.
        w.made(&m, Body::Unmade(rc));
        Ok(())
    })
}

pub fn library_load_now(w: &mut Cuda, m: msg::LibraryLoadNow<'_>) -> Result<Always<Encoded>> {
    let mut c = Compile::new(m.options).unwrap_or_default();
    let rc = attempt(|| load(w, (&m, &m.hash), &mut c));
    let reply = Encoded::of(&msg::LibraryLoadNowReply {
        info_log: c.info(),
        error_log: c.errors(),
        wall_ms: c.wall_ms(),
    });
    Ok(Always(rc, reply))
}

pub fn library_unload(w: &mut Cuda, m: msg::LibraryUnload) -> Result {
    let library = match w.handle(Kind::Library, m.library) {
        // It never was there.
        Err(e) if e != CUDA_ERROR_INVALID_HANDLE => return Ok(()),
        found => found?,
    };
    // SAFETY: a live library, which is not used again.
    check(unsafe { w.cuLibraryUnload(library as CUlibrary) })
}

pub fn library_module(w: &mut Cuda, m: msg::LibraryModule) -> Result {
    let library = w.handle(Kind::Library, m.library)?;
    let mut module: CUmodule = std::ptr::null_mut();
    // SAFETY: a live library and a pointer to a live handle.
    check(unsafe { w.cuLibraryGetModule(&mut module, library as CUlibrary) })?;
    w.made(&m, module as u64);
    Ok(())
}

pub fn library_kernel(
    w: &mut Cuda,
    m: msg::LibraryKernel<'_>,
) -> Result<msg::LibraryKernelReply, Fail> {
    let name = text(m.name)?;
    let library = w.handle(Kind::Library, m.library)?;
    let dev = w.device(m.device)?;
    let d = w.driver;
    if w.handle(Kind::Context, w.record.aux).is_err() {
        // Programs find their kernels before they have a context, but the driver describes them
        // only inside one: the one they are about to get, which stays for the session.
        let charge = w.primary(dev)?;
        let mut ctx: CUcontext = std::ptr::null_mut();
        // SAFETY: a pointer to a live handle, then that handle.
        unsafe {
            check(d.cuDevicePrimaryCtxRetain(&mut ctx, dev))?;
            w.retained.insert(dev, charge);
            check(d.cuCtxSetCurrent(ctx))?;
        }
        w.current = u32::MAX;
    }
    let mut kernel: CUkernel = std::ptr::null_mut();
    // SAFETY: a live library, a C string, a pointer to a live handle.
    check(unsafe { d.cuLibraryGetKernel(&mut kernel, library as CUlibrary, name.as_ptr()) })?;
    let (params, attributes) = describe(
        // SAFETY: a live kernel and pointers to live numbers.
        |i, offset, size| quietly(|| unsafe { d.cuKernelGetParamInfo(kernel, i, offset, size) }),
        // SAFETY: as above.
        |a, v| unsafe { d.cuKernelGetAttribute(v, a as _, kernel, dev) },
    );
    let f = Function::new(kernel as u64, true, &params);
    w.made(&m, Body::Function(f));
    Ok(msg::LibraryKernelReply { params, attributes })
}

pub fn kernel_function(w: &mut Cuda, m: msg::KernelFunction) -> Result {
    let raw = w.function_here(m.kernel)?;
    let f = w.handles.function(m.kernel)?.in_a_context(raw);
    w.made(&m, Body::Function(f));
    Ok(())
}

pub fn library_kernel_names(w: &mut Cuda, m: msg::LibraryKernelNames) -> Result<Encoded> {
    let library = w.handle(Kind::Library, m.library)? as CUlibrary;
    let d = w.driver;
    let names = names_of::<CUkernel>(
        // SAFETY: a live library and a pointer to a live number.
        |n| unsafe { d.cuLibraryGetKernelCount(n, library) },
        // SAFETY: the array has as many places as said.
        |list, n| unsafe { d.cuLibraryEnumerateKernels(list, n, library) },
        // SAFETY: a live kernel and a pointer to a live pointer.
        |p, k| unsafe { d.cuKernelGetName(p, k) },
    )?;
    Ok(Encoded::of(&msg::LibraryKernelNamesReply { names: &names }))
}

pub fn library_global(
    w: &mut Cuda,
    m: msg::LibraryGlobal<'_>,
) -> Result<msg::LibraryGlobalReply, Fail> {
    let name = text(m.name)?;
    let (mut va, mut size) = (0, 0);
    let library = w.handle(Kind::Library, m.library)? as CUlibrary;
    // SAFETY: a live library, a C string, pointers to live values.
    check(unsafe {
        if m.managed != 0 {
            w.cuLibraryGetManaged(&mut va, &mut size, library, name.as_ptr())
        } else {
            w.cuLibraryGetGlobal(&mut va, &mut size, library, name.as_ptr())
        }
    })?;
    w.given.memory(va, size as u64);
    Ok(msg::LibraryGlobalReply {
        va,
        size: size as u64,
        is_managed: super::driver::is_managed(w.driver, va),
    })
}
