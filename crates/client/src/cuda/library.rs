//! Libraries and their kernels.

use super::context;
use super::handles;
use super::image;
use super::launch::{ATTRIBUTES, FUNCTIONS, Function, function};
use super::memory::{self, Sort};
use super::module::{Options, name_list, read_file};
use super::runtime::{Cx, decode, enter, enter_local, guard, put, put_opt};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the client knows of a library.
#[derive(Default)]
struct Library {
    kernels: HashMap<CString, u32>,
    globals: HashMap<(CString, u32), (u64, u64)>,
}

static LIBRARIES: Mutex<Option<HashMap<u32, Library>>> = Mutex::new(None);

fn libraries() -> MutexGuard<'static, Option<HashMap<u32, Library>>> {
    LIBRARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The architecture that code is chosen for: the current context's device, or the first.
pub fn arch(cx: Cx) -> u32 {
    let d = context::device_of(cx)
        .ok()
        .or_else(|| cx.rt.devices.first());
    d.map_or(0, super::device::Device::arch)
}

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
    let image = unsafe { image::take(code, arch(cx)) }.ok_or(CUDA_ERROR_INVALID_IMAGE)?;
    super::output::look_into(&image.bytes);
    let hash = cx.rt.session.offer(image.bytes);
    let library = handles::create(Kind::Library, 0);
    let encoded = options.encode();
    let loaded = if image.native && encoded.is_empty() {
        cx.send(&msg::LibraryLoad {
            library,
            hash,
            options: &[],
        })
    } else {
        let m = msg::LibraryLoadNow {
            library,
            hash,
            options: &encoded,
        };
        cx.call_any(&m).and_then(|(status, body)| {
            let r = decode::<msg::LibraryLoadNowReply<'_>>(&body)?;
            // SAFETY: the program's buffers, as it described them.
            unsafe { options.fill(r.info_log, r.error_log, r.wall_ms) };
            if status == CUDA_SUCCESS {
                Ok(())
            } else {
                Err(status)
            }
        })
    };
    if let Err(e) = loaded {
        handles::destroy(Kind::Library, library);
        return Err(e);
    }
    libraries()
        .get_or_insert_default()
        .insert(library, Library::default());
    // SAFETY: checked for null above; the program's pointer.
    unsafe { put(out, handles::raw(Kind::Library, library) as CUlibrary) }
}

pub(super) unsafe fn cuLibraryLoadData(
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
        let options = unsafe { Options::read(jit_options, jit_values, jit_n)? };
        // SAFETY: the program's image and pointer.
        unsafe { load(cx, out, code, &options) }
    })
}

pub(super) unsafe fn cuLibraryLoadFromFile(
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
                Options::read(jit_options, jit_values, jit_n)?,
                read_file(path)?,
            )
        };
        // SAFETY: the file's bytes, with a NUL behind them.
        unsafe { load(cx, out, bytes.as_ptr().cast(), &options) }
    })
}

pub(super) unsafe fn cuLibraryUnload(library: CUlibrary) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let id = cx.handle(Kind::Library, library as u64)?;
        let known = libraries()
            .get_or_insert_default()
            .remove(&id)
            .unwrap_or_default();
        for kernel in known.kernels.values() {
            handles::destroy(Kind::Function, *kernel);
        }
        for (va, _) in known.globals.values() {
            memory::remove(*va, |s| matches!(s, Sort::Foreign | Sort::Managed));
        }
        let sent = cx.send(&msg::LibraryUnload { library: id });
        // Not before: another thread may use the id again, and must come behind this.
        handles::destroy(Kind::Library, id);
        sent
    })
}

/// The id of a library's kernel, made known when it is asked for the first time.
fn kernel(cx: Cx, library: u32, name: &CStr) -> Result<u32, CUresult> {
    let known = libraries()
        .get_or_insert_default()
        .get(&library)
        .and_then(|l| l.kernels.get(name).copied());
    if let Some(id) = known {
        return Ok(id);
    }
    let text = name.to_str().map_err(|_| CUDA_ERROR_NOT_FOUND)?;
    let device = context::current_device(cx).unwrap_or(0);
    // Threads that have no context ask, too (PyTorch's backward pass does), but the driver
    // describes a kernel only inside one.
    let scope = match cx.scope {
        0 => super::device::get(cx, device)?.primary,
        scope => scope,
    };
    let cx = Cx { scope, ..cx };
    let id = handles::create(Kind::Function, 0);
    let made = cx
        .call(&msg::LibraryKernel {
            library,
            name: text,
            function: id,
            device,
        })
        .and_then(|reply| {
            let r = decode::<msg::LibraryKernelReply>(&reply)?;
            FUNCTIONS.set(
                id,
                Function::new(name.into(), &r.params, &r.attributes, library, 0)?,
            );
            Ok(())
        });
    if let Err(e) = made {
        handles::destroy(Kind::Function, id);
        return Err(e);
    }
    let mut all = libraries();
    let l = all.get_or_insert_default().entry(library).or_default();
    // Another thread may have asked at the same time: one handle per kernel.
    Ok(*l.kernels.entry(name.into()).or_insert(id))
}

pub(super) unsafe fn cuLibraryGetKernel(
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
        let id = kernel(cx, library, unsafe { CStr::from_ptr(name) })?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, handles::raw(Kind::Function, id) as CUkernel) }
    })
}

pub(super) unsafe fn cuLibraryEnumerateKernels(
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
        for (i, name) in name_list(r.names)?.iter().take(n as usize).enumerate() {
            let id = kernel(cx, library, name)?;
            // SAFETY: the program's array of `n` handles.
            unsafe { put(out.add(i), handles::raw(Kind::Function, id) as CUkernel)? };
        }
        Ok(())
    })
}

pub(super) unsafe fn cuLibraryGetModule(out: *mut CUmodule, library: CUlibrary) -> CUresult {
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

unsafe fn global(
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
        let cx = if managed == 0 {
            cx
        } else {
            context::or_first(cx)?
        };
        let context = cx.need_context()?;
        let device = context::current_device(cx)?;
        // SAFETY: the program's C string.
        let name = unsafe { CStr::from_ptr(name) };
        let key = (name.to_owned(), context);
        let known = libraries()
            .get_or_insert_default()
            .get(&id)
            .and_then(|l| l.globals.get(&key).copied());
        let (va, size) = match known {
            Some((va, _)) if managed != 0 && !memory::is_managed(va) => {
                return Err(CUDA_ERROR_NOT_FOUND);
            }
            Some(k) => k,
            None => {
                let text = name.to_str().map_err(|_| CUDA_ERROR_NOT_FOUND)?;
                let reply = cx.call(&msg::LibraryGlobal {
                    library: id,
                    name: text,
                    managed,
                })?;
                let r = decode::<msg::LibraryGlobalReply>(&reply)?;
                memory::add_variable(r.va, r.size, r.is_managed != 0, context, device)?;
                let mut all = libraries();
                let l = all.get_or_insert_default().entry(id).or_default();
                l.globals.insert(key, (r.va, r.size));
                (r.va, r.size)
            }
        };
        // SAFETY: the program's pointers; either may be null.
        unsafe {
            put_opt(dptr, va as CUdeviceptr);
            put_opt(bytes, size as usize);
        }
        Ok(())
    })
}

pub(super) unsafe fn cuLibraryGetGlobal(
    dptr: *mut CUdeviceptr,
    bytes: *mut usize,
    library: CUlibrary,
    name: *const c_char,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { global(dptr, bytes, library, name, 0) }
}

pub(super) unsafe fn cuLibraryGetManaged(
    dptr: *mut CUdeviceptr,
    bytes: *mut usize,
    library: CUlibrary,
    name: *const c_char,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { global(dptr, bytes, library, name, 1) }
}

pub(super) unsafe fn cuKernelGetFunction(out: *mut CUfunction, kernel: CUkernel) -> CUresult {
    guard(|| {
        let cx = enter()?;
        // A kernel's handle serves as its function's: the worker knows which the driver wants.
        cx.handle(Kind::Function, kernel as u64)?;
        // SAFETY: the program's pointer.
        unsafe { put(out, kernel as CUfunction) }
    })
}

pub(super) unsafe fn cuKernelGetLibrary(out: *mut CUlibrary, kernel: CUkernel) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let (_, f) = function(cx, kernel as CUfunction)?;
        if f.library == 0 {
            return Err(CUDA_ERROR_INVALID_HANDLE);
        }
        // SAFETY: the program's pointer.
        unsafe { put(out, handles::raw(Kind::Library, f.library) as CUlibrary) }
    })
}

pub(super) unsafe fn cuKernelGetName(out: *mut *const c_char, kernel: CUkernel) -> CUresult {
    guard(|| {
        let (_, f) = function(enter_local()?, kernel as CUfunction)?;
        // SAFETY: the program's pointer; the name lives as long as the process.
        unsafe { put(out, f.name.as_ptr()) }
    })
}

pub(super) unsafe fn cuKernelGetParamInfo(
    kernel: CUkernel,
    index: usize,
    offset: *mut usize,
    size: *mut usize,
) -> CUresult {
    guard(|| {
        let (_, f) = function(enter_local()?, kernel as CUfunction)?;
        let (o, s) = f.params.get(index).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the program's pointers; the size's may be null.
        unsafe {
            put(offset, *o as usize)?;
            put_opt(size, *s as usize);
        }
        Ok(())
    })
}

/// The value of an attribute.
pub fn attribute(cx: Cx, f: CUfunction, which: CUfunction_attribute) -> Result<i32, CUresult> {
    let (_, f) = function(cx, f)?;
    let i = which as usize;
    if i < ATTRIBUTES {
        Ok(f.attribute(i))
    } else {
        Err(CUDA_ERROR_INVALID_VALUE)
    }
}

const MAX_DYNAMIC_SHARED: usize = 8;

/// Sets an attribute, here and at the worker.
pub fn set_attribute(
    cx: Cx,
    raw: CUfunction,
    which: CUfunction_attribute,
    value: i32,
    device: CUdevice,
) -> Result<(), CUresult> {
    let (id, f) = function(cx, raw)?;
    let i = which as usize;
    // Only these can be set: dynamic shared memory, carve-out, and the cluster's.
    if !(8..ATTRIBUTES).contains(&i) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if i == MAX_DYNAMIC_SHARED {
        let d = super::device::get(cx, device)?;
        let most = d
            .attributes
            .get(&(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN as i32))
            .copied()
            .unwrap_or(i32::MAX);
        if value < 0 || value > most - super::launch::static_shared(f) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
    }
    // Setting what is set already is common (once before each launch), and nothing to send.
    let old = f.attributes[i].swap(value, Ordering::Relaxed);
    if old == value {
        return Ok(());
    }
    cx.send(&msg::FunctionSetAttribute {
        function: id,
        attribute: i as i32,
        value,
        device,
    })
    .inspect_err(|_| f.attributes[i].store(old, Ordering::Relaxed))
}

pub(super) unsafe fn cuKernelGetAttribute(
    out: *mut i32,
    which: CUfunction_attribute,
    kernel: CUkernel,
    dev: CUdevice,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        super::device::get(cx, dev)?;
        let v = attribute(cx, kernel as CUfunction, which)?;
        // SAFETY: the program's pointer.
        unsafe { put(out, v) }
    })
}

pub(super) unsafe fn cuKernelSetAttribute(
    which: CUfunction_attribute,
    value: i32,
    kernel: CUkernel,
    dev: CUdevice,
) -> CUresult {
    guard(|| set_attribute(enter()?, kernel as CUfunction, which, value, dev))
}

pub(super) unsafe fn cuKernelSetCacheConfig(
    kernel: CUkernel,
    _config: CUfunc_cache,
    _dev: CUdevice,
) -> CUresult {
    // A hint, and one that no architecture since Volta takes.
    guard(|| function(enter()?, kernel as CUfunction).map(drop))
}
