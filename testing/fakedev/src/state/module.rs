//! Modules, which belong to a context, and libraries, which are loaded into each context as it
//! asks.

use super::context::{self, Context};
use super::function::{Attributes, ByDevice, FUNCTIONS, Function, KERNELS, KernelHandle};
use super::handle::{self, Table};
use super::image::{self, Image};
use super::memory::{self, Kind};
use crate::config;
use crate::ffi::*;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

/// What `cuModuleGetLoadingMode` says: code is loaded when it is first used, or with its module.
pub fn loading_mode() -> i32 {
    let told = config::get("CUDA_MODULE_LOADING");
    let eager = told.is_some_and(|v| v.eq_ignore_ascii_case("eager"));
    if eager { EAGER_LOADING } else { LAZY_LOADING }
}
pub const EAGER_LOADING: i32 = 1;
const LAZY_LOADING: i32 = 2;

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
    /// Where its globals are, and their sizes.
    globals: Mutex<BTreeMap<String, (u64, usize)>>,
    device: usize,
}

impl Module {
    /// Loads an image into a context.
    pub fn load(image: Arc<Image>, context: usize, device: usize) -> R<Arc<Module>> {
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
            globals: Mutex::new(globals),
            device,
        });
        MODULES.insert(handle, module.clone());
        Ok(module)
    }

    /// Where the global of a name is, and its size.
    pub fn global(&self, name: &str) -> R<(u64, usize)> {
        let mut globals = self.globals.lock().unwrap();
        if let Some(found) = globals.get(name) {
            return Ok(*found);
        }
        if !self.image.closed || name.is_empty() {
            return Err(NOT_FOUND);
        }
        let size = image::CLOSED_GLOBAL;
        let at = memory::allocate(Kind::Global, size, self.context, self.device, self.handle)?;
        globals.insert(name.to_owned(), (at, size));
        Ok((at, size))
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
            of: OnceLock::new(),
        });
        FUNCTIONS.insert(function.handle, function.clone());
        functions.insert(name.to_owned(), function.clone());
        Ok(function)
    }

    /// Ends it after what its context was given to do, which may still use it.
    pub fn unload(&self) {
        if let Ok(context) = context::by_handle(self.context) {
            let _ = context.synchronize();
        }
        self.end();
    }

    fn end(&self) {
        for function in std::mem::take(&mut *self.functions.lock().unwrap()).into_values() {
            let _ = FUNCTIONS.remove(function.handle);
        }
        free_globals(&std::mem::take(&mut *self.globals.lock().unwrap()));
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
    /// Its image, or what is wrong with it: whoever uses the library is told.
    pub image: R<Arc<Image>>,
    kernels: Mutex<BTreeMap<String, Arc<KernelHandle>>>,
    modules: Mutex<BTreeMap<usize, Arc<Module>>>,
}

impl Library {
    /// A new library.
    pub fn load(image: R<Arc<Image>>) -> Arc<Library> {
        let library = Arc::new(Library {
            handle: handle::fresh(),
            image,
            kernels: Mutex::default(),
            modules: Mutex::default(),
        });
        LIBRARIES.insert(library.handle, library.clone());
        library
    }

    /// Ends its kernels and modules.
    pub fn unload(&self) {
        for kernel in self.kernels.lock().unwrap().values() {
            let _ = KERNELS.remove(kernel.handle);
        }
        for module in self.modules.lock().unwrap().values() {
            if MODULES.remove(module.handle).is_ok() {
                module.unload();
            }
        }
    }

    /// The library's module in a context.
    pub fn module(&self, context: &Context) -> R<Arc<Module>> {
        let mut modules = self.modules.lock().unwrap();
        if let Some(module) = modules.get(&context.handle)
            && MODULES.get(module.handle).is_ok()
        {
            return Ok(module.clone());
        }
        // As the real one does where it loads code.
        let _ = context.synchronize();
        let module = Module::load(self.image.clone()?, context.handle, context.device)?;
        modules.insert(context.handle, module.clone());
        Ok(module)
    }

    /// The kernel of a name; always the same one.
    pub fn kernel(&self, name: &str) -> R<Arc<KernelHandle>> {
        let kernel = self.image.as_ref().map_err(|code| *code)?.kernel(name)?;
        let mut kernels = self.kernels.lock().unwrap();
        if let Some(kernel) = kernels.get(name) {
            return Ok(kernel.clone());
        }
        let object = Arc::new(KernelHandle {
            handle: handle::fresh(),
            name: CString::new(name).map_err(|_| NOT_FOUND)?,
            library: self.handle,
            kernel,
            attributes: ByDevice::default(),
            asked: AtomicBool::new(false),
        });
        KERNELS.insert(object.handle, object.clone());
        kernels.insert(name.to_owned(), object.clone());
        Ok(object)
    }
}

/// Ends a context's modules.
pub fn drop_context(context: usize) {
    for module in MODULES.drain(|module| module.context == context) {
        module.end();
    }
}

/// A kernel's function in a context.
pub fn function_of(kernel: &KernelHandle, context: &Context) -> R<Arc<Function>> {
    let module = LIBRARIES.get(kernel.library)?.module(context)?;
    let function = module.function(kernel.name.to_str().map_err(|_| NOT_FOUND)?)?;
    let _ = function.of.set(kernel.handle);
    // What was set on the kernel for this device holds for its function.
    function
        .attributes
        .extend(&kernel.attributes.of(context.device as CUdevice));
    Ok(function)
}

/// The function of a handle, which may be a kernel's: then it is the one in the current context.
pub fn resolve(handle: CUfunction) -> R<Arc<Function>> {
    resolve_in(handle, context::current)
}

/// As [`resolve`], in a context that is asked for if need be.
pub fn resolve_in(
    handle: CUfunction,
    context: impl FnOnce() -> R<Arc<Context>>,
) -> R<Arc<Function>> {
    match FUNCTIONS.get(handle) {
        Ok(function) => Ok(function),
        Err(_) => function_of(&*KERNELS.get(handle)?, &*context()?),
    }
}
