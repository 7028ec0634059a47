//! The functions on modules and libraries.

use crate::entry::api;
use crate::ffi::*;
use crate::state::image::Image;
use crate::state::module::{LIBRARIES, Library, MODULES, Module};
use crate::state::{capture, compiled, context, device};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

const MAX_FILE: u64 = 1 << 30;

/// Loads a module into the current context.
///
/// # Safety
/// `image` is null or an image.
pub unsafe fn load(out: *mut CUmodule, image: *const c_void) -> Res {
    let context = context::current()?;
    if out.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: by this function's contract.
    let image = Arc::new(unsafe { Image::read(image.cast())? });
    // The real one does so, too; what fails there shows elsewhere.
    let _ = context.synchronize();
    let module = Module::load(image, context.handle, context.device)?;
    // SAFETY: not null, and valid by the caller's contract.
    unsafe { put(out, module.handle) }
}

fn read_file(path: &str) -> R<Vec<u8>> {
    let about = std::fs::metadata(path).map_err(|_| FILE_NOT_FOUND)?;
    if !about.is_file() || about.len() > MAX_FILE {
        return Err(INVALID_IMAGE);
    }
    let mut bytes = std::fs::read(path).map_err(|_| FILE_NOT_FOUND)?;
    bytes.extend_from_slice(&[0; 16]);
    Ok(bytes)
}

unsafe fn load_library(out: *mut CUlibrary, image: *const c_void) -> Res {
    device::initialized()?;
    if out.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the driver gives an image.
    let image = unsafe { Image::read(image.cast()) }.map(Arc::new);
    if image == Err(INVALID_VALUE) {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and valid by the caller's contract.
    unsafe { put(out, Library::load(image).handle) }
}

api! {
    fn [cuModuleLoadData] (out: *mut CUmodule, image: *const c_void) {
        load(out, image)
    }

    fn [cuModuleLoadDataEx] (
        out: *mut CUmodule, image: *const c_void, n: u32, options: *mut i32, values: *mut usize,
    ) {
        load(out, image)?;
        compiled::load(image.cast(), n, options, values);
        Ok(())
    }

    fn [cuModuleLoadFatBinary] (out: *mut CUmodule, image: *const c_void) {
        load(out, image)
    }

    fn [cuModuleLoad] (out: *mut CUmodule, path: *const c_char) {
        context::current()?;
        let bytes = read_file(text(path)?)?;
        load(out, bytes.as_ptr().cast())
    }

    fn [cuModuleUnload] (module: CUmodule) {
        context::current()?;
        capture::check_unsafe()?;
        MODULES.remove(module)?.unload();
        Ok(())
    }

    fn [cuModuleGetFunction] (out: *mut CUfunction, module: CUmodule, name: *const c_char) {
        context::current()?;
        let module = MODULES.get(module)?;
        put(out, module.function(text(name)?)?.handle)
    }

    fn [cuModuleGetGlobal_v2] (
        out: *mut CUdeviceptr, size: *mut usize, module: CUmodule, name: *const c_char,
    ) {
        context::current()?;
        let (address, bytes) = MODULES.get(module)?.global(text(name)?)?;
        put_opt(out, address);
        put_opt(size, bytes);
        Ok(())
    }

    fn [cuModuleGetFunctionCount] (out: *mut u32, module: CUmodule) {
        let module = MODULES.get(module)?;
        put(out, module.image.kernels.as_ref().map_or(0, |kernels| kernels.len() as u32))
    }

    fn [cuModuleEnumerateFunctions] (out: *mut CUfunction, room: u32, module: CUmodule) {
        let module = MODULES.get(module)?;
        let kernels = module.image.kernels.iter().flatten();
        for (i, (name, _)) in kernels.take(room as usize).enumerate() {
            put(out.add(i), module.function(name)?.handle)?;
        }
        Ok(())
    }

    fn [cuLibraryLoadData] (
        out: *mut CUlibrary, image: *const c_void, _jit: *mut i32, _jit_values: *mut usize, _n: u32,
        _options: *mut i32, _values: *mut usize, _m: u32,
    ) {
        load_library(out, image)
    }

    fn [cuLibraryLoadFromFile] (
        out: *mut CUlibrary, path: *const c_char, _jit: *mut i32, _jit_values: *mut usize, _n: u32,
        _options: *mut i32, _values: *mut usize, _m: u32,
    ) {
        device::initialized()?;
        let bytes = read_file(text(path)?)?;
        load_library(out, bytes.as_ptr().cast())
    }

    fn [cuLibraryUnload] (library: CUlibrary) {
        LIBRARIES.remove(library)?.unload();
        Ok(())
    }

    fn [cuLibraryGetKernel] (out: *mut CUkernel, library: CUlibrary, name: *const c_char) {
        let library = LIBRARIES.get(library)?;
        put(out, library.kernel(text(name)?)?.handle)
    }

    fn [cuLibraryGetModule] (out: *mut CUmodule, library: CUlibrary) {
        put(out, LIBRARIES.get(library)?.module(&*context::current()?)?.handle)
    }

    fn [cuLibraryGetGlobal] (
        out: *mut CUdeviceptr, size: *mut usize, library: CUlibrary, name: *const c_char,
    ) {
        let module = LIBRARIES.get(library)?.module(&*context::current()?)?;
        let (address, bytes) = module.global(text(name)?)?;
        put_opt(out, address);
        put_opt(size, bytes);
        Ok(())
    }

    fn [cuLibraryGetManaged] (
        _out: *mut CUdeviceptr, _size: *mut usize, library: CUlibrary, _name: *const c_char,
    ) {
        LIBRARIES.get(library)?.image.as_ref().map_err(|code| *code)?;
        Err(NOT_FOUND)
    }

    fn [cuLibraryGetKernelCount] (out: *mut u32, library: CUlibrary) {
        let library = LIBRARIES.get(library)?;
        let kernels = library.image.as_ref().ok().and_then(|image| image.kernels.as_ref());
        put(out, kernels.map_or(0, |kernels| kernels.len() as u32))
    }

    fn [cuLibraryEnumerateKernels] (out: *mut CUkernel, room: u32, library: CUlibrary) {
        let library = LIBRARIES.get(library)?;
        let image = library.image.as_ref().map_err(|code| *code)?;
        let kernels = image.kernels.iter().flatten();
        for (i, (name, _)) in kernels.take(room as usize).enumerate() {
            put(out.add(i), library.kernel(name)?.handle)?;
        }
        Ok(())
    }
}
