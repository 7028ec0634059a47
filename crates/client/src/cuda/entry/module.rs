//! Modules and their functions.

use super::library::{cuKernelGetName, cuLibraryGetModule};
use crate::cuda::call::{put, put_opt};
use crate::cuda::engine::{attributes, launch, load};
use crate::cuda::life::{enter, enter_local, guard};
use crate::cuda::state::loaded::Options;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::ffi::{CStr, c_char, c_void};

/// Loads a module into the current context.
unsafe fn load(out: *mut CUmodule, code: *const c_void, options: &Options) -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.need_context()?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the program's image; the pointer was checked for null.
        unsafe { put(out, load::module(cx, code, options)?) }
    })
}

pub unsafe fn cuModuleLoadDataEx(
    out: *mut CUmodule,
    image: *const c_void,
    n: u32,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
) -> CUresult {
    // SAFETY: the program's arrays.
    match unsafe { load::options(options, values, n) } {
        // SAFETY: passed on to the caller.
        Ok(o) => unsafe { load(out, image, &o) },
        Err(e) => e,
    }
}

pub unsafe fn cuModuleLoad(out: *mut CUmodule, path: *const c_char) -> CUresult {
    // SAFETY: the program's text.
    match unsafe { load::read_file(path) } {
        // SAFETY: the file's bytes, with a NUL behind them.
        Ok(bytes) => unsafe { load(out, bytes.as_ptr().cast(), &Options::default()) },
        Err(e) => e,
    }
}

pub unsafe fn cuModuleUnload(module: CUmodule) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let id = cx.handle(Kind::Module, module as u64)?;
        let scope = cx.state().handles.context(Kind::Module, id);
        let sent = cx.in_context(scope).send(&msg::ModuleUnload { module: id });
        cx.destroy(Kind::Module, id);
        sent
    })
}

pub unsafe fn cuModuleGetFunction(
    out: *mut CUfunction,
    module: CUmodule,
    name: *const c_char,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let module = cx.handle(Kind::Module, module as u64)?;
        if out.is_null() || name.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the program's C string.
        let id = load::function(cx, module, unsafe { CStr::from_ptr(name) })?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::Function, id) as CUfunction) }
    })
}

pub unsafe fn cuModuleEnumerateFunctions(
    out: *mut CUfunction,
    n: u32,
    module: CUmodule,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let module = cx.handle(Kind::Module, module as u64)?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        for (i, f) in load::functions(cx, module)?
            .into_iter()
            .take(n as usize)
            .enumerate()
        {
            // SAFETY: the program's array of `n` handles.
            unsafe { put(out.add(i), f)? };
        }
        Ok(())
    })
}

pub unsafe fn cuModuleGetGlobal_v2(
    dptr: *mut CUdeviceptr,
    bytes: *mut usize,
    module: CUmodule,
    name: *const c_char,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let id = cx.handle(Kind::Module, module as u64)?;
        if name.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the program's C string.
        let name = unsafe { CStr::from_ptr(name) };
        let (va, size) = load::module_variable(cx, id, name)?;
        // SAFETY: the program's pointers; either may be null.
        unsafe {
            put_opt(dptr, va as CUdeviceptr);
            put_opt(bytes, size as usize);
        }
        Ok(())
    })
}

pub unsafe fn cuModuleGetLoadingMode(out: *mut CUmoduleLoadingMode) -> CUresult {
    guard(|| {
        enter_local()?;
        let eager = std::env::var("CUDA_MODULE_LOADING").is_ok_and(|v| v == "EAGER");
        // SAFETY: the program's pointer.
        unsafe { put(out, if eager { 1 } else { 2 }) }
    })
}

pub unsafe fn cuFuncGetAttribute(
    out: *mut i32,
    which: CUfunction_attribute,
    f: CUfunction,
) -> CUresult {
    guard(|| {
        let v = attributes::attribute(enter()?, f, which)?;
        // SAFETY: the program's pointer.
        unsafe { put(out, v) }
    })
}

pub unsafe fn cuFuncSetAttribute(
    f: CUfunction,
    which: CUfunction_attribute,
    value: i32,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        attributes::set_attribute(cx, f, which, value, cx.current_device()?)
    })
}

pub unsafe fn cuFuncGetName(out: *mut *const c_char, f: CUfunction) -> CUresult {
    // SAFETY: as above.
    unsafe { cuKernelGetName(out, f as CUkernel) }
}

pub unsafe fn cuFuncGetModule(out: *mut CUmodule, f: CUfunction) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let (_, info) = launch::function(cx, f)?;
        if info.module == 0 {
            let l = cx.raw(Kind::Library, info.library) as CUlibrary;
            // SAFETY: the program's pointer.
            return match unsafe { cuLibraryGetModule(out, l) } {
                CUDA_SUCCESS => Ok(()),
                e => Err(e),
            };
        }
        // SAFETY: the program's pointer.
        unsafe { put(out, cx.raw(Kind::Module, info.module) as CUmodule) }
    })
}

// The linker is part of this family.
pub use super::link::*;
