//! Modules, which belong to a context, and libraries, which are loaded into each context as it
//! asks.

use crate::context;
use crate::device;
use crate::entry::api;
use crate::ffi::*;
use crate::function::{Attributes, FUNCTIONS, Function, KERNELS, KernelHandle};
use crate::handle::{self, Table};
use crate::image::Image;
use crate::memory::{self, Kind};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Arc, Mutex};

/// What `cuModuleGetLoadingMode` says: code is loaded when it is first used.
pub const LAZY_LOADING: i32 = 2;

const MAX_FILE: u64 = 1 << 30;

/// All modules, by handle; those of libraries too.
pub static MODULES: Table<Module> = Table::new();
/// All libraries, by handle.
pub static LIBRARIES: Table<Library> = Table::new();

/// An image loaded into a context.
pub struct Module {
    /// Its handle.
    pub handle: usize,
    /// The context's handle.
    pub context: usize,
    /// Its image.
    pub image: Arc<Image>,
    functions: Mutex<BTreeMap<String, Arc<Function>>>,
    globals: BTreeMap<String, (u64, usize)>,
}

impl Module {
    fn load(image: Arc<Image>, context: usize, device: usize) -> R<Arc<Module>> {
        let handle = handle::fresh();
        let mut globals = BTreeMap::new();
        for (name, size) in &image.globals {
            match memory::allocate(Kind::Global, *size, context, device, handle) {
                Ok(address) => drop(globals.insert(name.clone(), (address, *size))),
                Err(code) => {
                    free_globals(&globals);
                    return Err(code);
                }
            }
        }
        let functions = Mutex::default();
        let module = Arc::new(Module {
            handle,
            context,
            image,
            functions,
            globals,
        });
        MODULES.insert(handle, module.clone());
        Ok(module)
    }

    /// The function of a name; always the same one.
    pub fn function(&self, name: &str) -> R<Arc<Function>> {
        let kernel = self.image.kernel(name)?;
        let mut functions = self.functions.lock().unwrap();
        if let Some(function) = functions.get(name) {
            return Ok(function.clone());
        }
        let function = Arc::new(Function {
            handle: handle::fresh(),
            name: CString::new(name).map_err(|_| NOT_FOUND)?,
            module: self.handle,
            context: self.context,
            kernel,
            attributes: Attributes::default(),
        });
        FUNCTIONS.insert(function.handle, function.clone());
        functions.insert(name.to_owned(), function.clone());
        Ok(function)
    }

    fn end(&self) {
        for function in std::mem::take(&mut *self.functions.lock().unwrap()).into_values() {
            let _ = FUNCTIONS.remove(function.handle);
        }
        free_globals(&self.globals);
    }
}

fn free_globals(globals: &BTreeMap<String, (u64, usize)>) {
    for (address, _) in globals.values() {
        if let Some(range) = memory::remove(*address, |range| range.kind == Kind::Global) {
            memory::release(&range);
        }
    }
}

/// An image that belongs to no context.
pub struct Library {
    /// Its handle.
    pub handle: usize,
    /// Its image.
    pub image: Arc<Image>,
    kernels: Mutex<BTreeMap<String, Arc<KernelHandle>>>,
    modules: Mutex<BTreeMap<usize, Arc<Module>>>,
}

impl Library {
    /// The library's module in the current context.
    pub fn module(&self) -> R<Arc<Module>> {
        let context = context::current()?;
        let mut modules = self.modules.lock().unwrap();
        if let Some(module) = modules.get(&context.handle)
            && MODULES.get(module.handle).is_ok()
        {
            return Ok(module.clone());
        }
        let module = Module::load(self.image.clone(), context.handle, context.device)?;
        modules.insert(context.handle, module.clone());
        Ok(module)
    }

    fn kernel(&self, name: &str) -> R<Arc<KernelHandle>> {
        let kernel = self.image.kernel(name)?;
        let mut kernels = self.kernels.lock().unwrap();
        if let Some(kernel) = kernels.get(name) {
            return Ok(kernel.clone());
        }
        let object = Arc::new(KernelHandle {
            handle: handle::fresh(),
            name: CString::new(name).map_err(|_| NOT_FOUND)?,
            library: self.handle,
            kernel,
            attributes: Attributes::default(),
        });
        KERNELS.insert(object.handle, object.clone());
        kernels.insert(name.to_owned(), object.clone());
        Ok(object)
    }
}

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
    let image = Arc::new(unsafe { Image::read(image.cast())? });
    let handle = handle::fresh();
    let (kernels, modules) = (Mutex::default(), Mutex::default());
    LIBRARIES.insert(
        handle,
        Arc::new(Library {
            handle,
            image,
            kernels,
            modules,
        }),
    );
    // SAFETY: not null, and valid by the caller's contract.
    unsafe { put(out, handle) }
}

fn unload(module: &Module) {
    // Launched kernels may still run: the context's work comes first.
    if let Ok(context) = context::by_handle(module.context) {
        let _ = context.synchronize();
    }
    module.end();
}

/// Ends a context's modules.
pub fn drop_context(context: usize) {
    for module in MODULES.drain(|module| module.context == context) {
        module.end();
    }
}

fn global(module: &Module, name: &str) -> R<(u64, usize)> {
    module.globals.get(name).copied().ok_or(NOT_FOUND)
}

api! {
    fn [cuModuleLoadData] (out: *mut CUmodule, image: *const c_void) {
        load(out, image)
    }

    fn [cuModuleLoadDataEx] (
        out: *mut CUmodule, image: *const c_void, _n: u32, _options: *mut i32, _values: *mut usize,
    ) {
        load(out, image)
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
        unload(&*MODULES.remove(module)?);
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
        let (address, bytes) = global(&*MODULES.get(module)?, text(name)?)?;
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
        let library = LIBRARIES.remove(library)?;
        for kernel in library.kernels.lock().unwrap().values() {
            let _ = KERNELS.remove(kernel.handle);
        }
        for module in library.modules.lock().unwrap().values() {
            if MODULES.remove(module.handle).is_ok() {
                unload(module);
            }
        }
        Ok(())
    }

    fn [cuLibraryGetKernel] (out: *mut CUkernel, library: CUlibrary, name: *const c_char) {
        let library = LIBRARIES.get(library)?;
        put(out, library.kernel(text(name)?)?.handle)
    }

    fn [cuLibraryGetModule] (out: *mut CUmodule, library: CUlibrary) {
        put(out, LIBRARIES.get(library)?.module()?.handle)
    }

    fn [cuLibraryGetGlobal] (
        out: *mut CUdeviceptr, size: *mut usize, library: CUlibrary, name: *const c_char,
    ) {
        let module = LIBRARIES.get(library)?.module()?;
        let (address, bytes) = global(&module, text(name)?)?;
        put_opt(out, address);
        put_opt(size, bytes);
        Ok(())
    }

    fn [cuLibraryGetManaged] (
        _out: *mut CUdeviceptr, _size: *mut usize, library: CUlibrary, _name: *const c_char,
    ) {
        LIBRARIES.get(library)?;
        Err(NOT_FOUND)
    }

    fn [cuLibraryGetKernelCount] (out: *mut u32, library: CUlibrary) {
        let library = LIBRARIES.get(library)?;
        put(out, library.image.kernels.as_ref().map_or(0, |kernels| kernels.len() as u32))
    }

    fn [cuLibraryEnumerateKernels] (out: *mut CUkernel, room: u32, library: CUlibrary) {
        let library = LIBRARIES.get(library)?;
        let kernels = library.image.kernels.iter().flatten();
        for (i, (name, _)) in kernels.take(room as usize).enumerate() {
            put(out.add(i), library.kernel(name)?.handle)?;
        }
        Ok(())
    }
}
