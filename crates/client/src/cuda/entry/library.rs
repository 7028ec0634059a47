//! Libraries and their kernels.

use super::prelude::*;
use crate::cuda::engine::{attributes, launch, load};
use crate::cuda::state::loaded::Options;

pub unsafe fn library_file(cx: Cx, path: *const c_char, options: &Options) -> Result<u32> {
    // SAFETY: the program's text; the file's bytes, with a NUL behind them.
    unsafe {
        let bytes = load::read_code(path)?;
        load::library(cx, bytes.as_ptr().cast(), options)
    }
}

pub unsafe fn cuLibraryEnumerateKernels(
    cx: Cx,
    out: *mut CUkernel,
    n: u32,
    library: u32,
) -> Result<()> {
    refuse_if(out.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let reply = cx.call(&msg::LibraryKernelNames { library })?;
    let r = decode::<msg::LibraryKernelNamesReply<'_>>(&reply)?;
    for (i, name) in load::name_list(r.names)?
        .iter()
        .take(n as usize)
        .enumerate()
    {
        let id = load::kernel(cx, library, name)?;
        // SAFETY: the program's array of `n` handles.
        unsafe { put(out.add(i), cx.raw(Kind::Function, id) as CUkernel)? };
    }
    Ok(())
}

pub fn cuLibraryGetModule(cx: Cx, library: u32) -> Result<u32> {
    let module = cx.create(Kind::Module);
    cx.call(&msg::LibraryModule { library, module })
        .inspect_err(|_| cx.destroy(Kind::Module, module))?;
    Ok(module)
}

pub fn cuKernelGetFunction(cx: Cx, kernel: CUkernel) -> Result<u32> {
    let (id, f) = launch::function(cx, kernel as CUfunction)?;
    refuse_if(f.kernel != id, CUDA_ERROR_INVALID_HANDLE)?;
    load::function_here(cx, f)
}

pub fn cuKernelGetLibrary(cx: Cx, kernel: CUkernel) -> Result<CUlibrary> {
    let (_, f) = launch::function(cx, kernel as CUfunction)?;
    refuse_if(f.library == 0, CUDA_ERROR_INVALID_HANDLE)?;
    Ok(cx.raw(Kind::Library, f.library) as CUlibrary)
}

pub fn cuKernelGetName(cx: Cx, kernel: CUkernel) -> Result<*const c_char> {
    refuse_if(kernel.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    Ok(launch::function(cx, kernel as CUfunction)?.1.name.as_ptr())
}

pub fn cuKernelGetParamInfo(cx: Cx, kernel: CUkernel, index: usize) -> Result<(usize, usize)> {
    cx.need_context()?;
    parameter(cx, kernel as CUfunction, index)
}

/// Where a parameter of a function lies, and how long it is.
pub fn parameter(cx: Cx, function: CUfunction, index: usize) -> Result<(usize, usize)> {
    refuse_if(function.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let (_, f) = launch::function(cx, function)?;
    let (offset, size) = f.params.get(index).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    Ok((*offset as usize, *size as usize))
}

pub fn cuKernelGetAttribute(
    cx: Cx,
    which: CUfunction_attribute,
    kernel: CUkernel,
    dev: CUdevice,
) -> Result<i32> {
    cx.device(dev)?;
    attributes::attribute_on(cx, kernel as CUfunction, which, || dev)
}

pub fn cuKernelSetCacheConfig(
    cx: Cx,
    kernel: CUkernel,
    _config: CUfunc_cache,
    _dev: CUdevice,
) -> Result<()> {
    // A hint, and one that no architecture since Volta takes.
    launch::function(cx, kernel as CUfunction).map(drop)
}
