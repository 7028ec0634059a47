//! Modules and their functions.

use super::library::cuLibraryGetModule;
pub use super::library::parameter;
use super::prelude::*;
use crate::cuda::engine::{launch, load};
use crate::cuda::state::loaded::Options;

pub unsafe fn cuModuleLoad(cx: Cx, path: *const c_char) -> Result<u32> {
    // SAFETY: the program's text; the file's bytes, with a NUL behind them.
    unsafe {
        let bytes = load::read_code(path)?;
        load::module(cx, bytes.as_ptr().cast(), &Options::default())
    }
}

pub fn cuModuleUnload(cx: Cx, id: u32) -> Result<()> {
    let scope = cx.state().handles.context(Kind::Module, id);
    let sent = cx.in_context(scope).send(&msg::ModuleUnload { module: id });
    cx.destroy(Kind::Module, id);
    sent
}

pub unsafe fn cuModuleEnumerateFunctions(
    cx: Cx,
    out: *mut CUfunction,
    n: u32,
    module: u32,
) -> Result<()> {
    refuse_if(out.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    for (i, f) in load::functions(cx, module)?
        .into_iter()
        .take(n as usize)
        .enumerate()
    {
        // SAFETY: the program's array of `n` handles.
        unsafe { put(out.add(i), f)? };
    }
    Ok(())
}

pub fn cuModuleGetLoadingMode(cx: Cx) -> Result<CUmoduleLoadingMode> {
    Ok(if cx.state().eager { 1 } else { 2 })
}

pub fn cuFuncGetModule(cx: Cx, f: CUfunction) -> Result<CUmodule> {
    refuse_if(f.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let (_, info) = launch::function(cx, f)?;
    let module = match info.module {
        0 => {
            cx.need_context()?;
            cuLibraryGetModule(cx, info.library)?
        }
        module => module,
    };
    Ok(cx.raw(Kind::Module, module) as CUmodule)
}

// The linker is part of this family.
pub use super::link::*;
