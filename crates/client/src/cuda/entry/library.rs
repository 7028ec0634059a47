//! Libraries and their kernels.

use crate::cuda::call::{Cx, decode, put, put_opt};
use crate::cuda::engine::{attributes, launch, load};
use crate::cuda::life::{enter, enter_local, guard};
use crate::cuda::state::loaded::Options;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::ffi::{CStr, c_char, c_void};

unsafe fn load(
    cx: Cx,
    out: *mut CUlibrary,
    code: *const c_void,
    options: &Options,
) -> Result<(), CUresult> {
    if out.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the program's image.
    let library = unsafe { load::library(cx, code, options)? };
    // SAFETY: checked for null above; the program's pointer.
    unsafe { put(out, cx.raw(Kind::Library, library) as CUlibrary) }
}

pub unsafe fn global(
    dptr: *mut CUdeviceptr,
    bytes: *mut usize,
    library: CUlibrary,
    name: *const c_char,
    managed: u32,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let id = cx.handle(Kind::Library, library as u64)?;
        if name.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the program's C string.
        let name = unsafe { CStr::from_ptr(name) };
        let (va, size) = load::library_variable(cx, id, name, managed)?;
        // SAFETY: the program's pointers; either may be null.
        unsafe {
            put_opt(dptr, va as CUdeviceptr);
            put_opt(bytes, size as usize);
        }
        Ok(())
    })
}

pub unsafe fn cuLibraryLoadData(
    out: *mut CUlibrary,
    code: *const c_void,
    jit_options: *mut CUjit_option,
    jit_values: *mut *mut c_void,
    jit_n: u32,
    _library_options: *mut CUlibraryOption,
    _library_values: *mut *mut c_void,
    _library_n: u32,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        // SAFETY: the program's arrays.
        let options = unsafe { load::options(jit_options, jit_values, jit_n)? };
        // SAFETY: the program's image and pointer.
        unsafe { load(cx, out, code, &options) }
    })
}

pub unsafe fn cuLibraryLoadFromFile(
    out: *mut CUlibrary,
    path: *const c_char,
    jit_options: *mut CUjit_option,
    jit_values: *mut *mut c_void,
    jit_n: u32,
    _library_options: *mut CUlibraryOption,
    _library_values: *mut *mut c_void,
    _library_n: u32,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        // SAFETY: the program's arrays and text.
        let (options, bytes) = unsafe {
            (
                load::options(jit_options, jit_values, jit_n)?,
                load::read_file(path)?,
            )
        };
        // SAFETY: the file's bytes, with a NUL behind them.
        unsafe { load(cx, out, bytes.as_ptr().cast(), &options) }
    })
}

pub unsafe fn cuLibraryUnload(library: CUlibrary) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let id = cx.handle(Kind::Library, library as u64)?;
        let sent = cx.send(&msg::LibraryUnload { library: id });
        cx.destroy(Kind::Library, id);
        sent
    })
}

pub unsafe fn cuLibraryGetKernel(
    out: *mut CUkernel,
    library: CUlibrary,
    name: *const c_char,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let library = cx.handle(Kind::Library, library as u64)?;
        if out.is_null() || name.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the program's C string.
        let id = load::kernel(cx, library, unsafe { CStr::from_ptr(name) })?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::Function, id) as CUkernel) }
    })
}

pub unsafe fn cuLibraryEnumerateKernels(
    out: *mut CUkernel,
    n: u32,
    library: CUlibrary,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let library = cx.handle(Kind::Library, library as u64)?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
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
    })
}

pub unsafe fn cuLibraryGetModule(out: *mut CUmodule, library: CUlibrary) -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.need_context()?;
        let library = cx.handle(Kind::Library, library as u64)?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let module = cx.create(Kind::Module);
        cx.call(&msg::LibraryModule { library, module })
            .inspect_err(|_| cx.destroy(Kind::Module, module))?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::Module, module) as CUmodule) }
    })
}

pub unsafe fn cuKernelGetFunction(out: *mut CUfunction, kernel: CUkernel) -> CUresult {
    guard(|| {
        let cx = enter()?;
        // A kernel's handle serves as its function's: the worker knows which the driver wants.
        cx.handle(Kind::Function, kernel as u64)?;
        // SAFETY: the program's pointer.
        unsafe { put(out, kernel as CUfunction) }
    })
}

pub unsafe fn cuKernelGetLibrary(out: *mut CUlibrary, kernel: CUkernel) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let (_, f) = launch::function(cx, kernel as CUfunction)?;
        if f.library == 0 {
            return Err(CUDA_ERROR_INVALID_HANDLE);
        }
        // SAFETY: the program's pointer.
        unsafe { put(out, cx.raw(Kind::Library, f.library) as CUlibrary) }
    })
}

pub unsafe fn cuKernelGetName(out: *mut *const c_char, kernel: CUkernel) -> CUresult {
    guard(|| {
        let (_, f) = launch::function(enter_local()?, kernel as CUfunction)?;
        // SAFETY: the program's pointer; the name lives as long as the process.
        unsafe { put(out, f.name.as_ptr()) }
    })
}

pub unsafe fn cuKernelGetParamInfo(
    kernel: CUkernel,
    index: usize,
    offset: *mut usize,
    size: *mut usize,
) -> CUresult {
    guard(|| {
        let (_, f) = launch::function(enter_local()?, kernel as CUfunction)?;
        let (o, s) = f.params.get(index).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the program's pointers; the size's may be null.
        unsafe {
            put(offset, *o as usize)?;
            put_opt(size, *s as usize);
        }
        Ok(())
    })
}

pub unsafe fn cuKernelGetAttribute(
    out: *mut i32,
    which: CUfunction_attribute,
    kernel: CUkernel,
    dev: CUdevice,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.device(dev)?;
        let v = attributes::attribute(cx, kernel as CUfunction, which)?;
        // SAFETY: the program's pointer.
        unsafe { put(out, v) }
    })
}

pub unsafe fn cuKernelSetAttribute(
    which: CUfunction_attribute,
    value: i32,
    kernel: CUkernel,
    dev: CUdevice,
) -> CUresult {
    guard(|| attributes::set_attribute(enter()?, kernel as CUfunction, which, value, dev))
}

pub unsafe fn cuKernelSetCacheConfig(
    kernel: CUkernel,
    _config: CUfunc_cache,
    _dev: CUdevice,
) -> CUresult {
    // A hint, and one that no architecture since Volta takes.
    guard(|| launch::function(enter()?, kernel as CUfunction).map(drop))
}
