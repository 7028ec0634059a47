//! Modules and their functions, and what loading code has in common.

use super::context;
use super::handles;
use super::image;
use super::launch::{FUNCTIONS, Function, function};
use super::library::{self, arch};
use super::memory::{self, Sort};
use super::runtime::{Cx, decode, enter, enter_local, guard, put, put_opt};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

const WALL_TIME: u32 = 2;
const INFO_LOG: u32 = 3;
const INFO_LOG_SIZE: u32 = 4;
const ERROR_LOG: u32 = 5;
const ERROR_LOG_SIZE: u32 = 6;
/// Options whose value is a pointer to a list.
const SYMBOLS: [u32; 3] = [17, 18, 19];

/// Options of the compiler, as the program gave them.
#[derive(Default)]
pub struct Options {
    list: Vec<(u32, u64)>,
    values: usize,
}

impl Options {
    /// Reads the program's two arrays.
    ///
    /// # Safety
    /// `keys` and `values` point at `n` items each, or `n` is 0.
    pub unsafe fn read(
        keys: *mut CUjit_option,
        values: *mut *mut c_void,
        n: u32,
    ) -> Result<Self, CUresult> {
        if n == 0 {
            return Ok(Self::default());
        }
        if keys.is_null() || values.is_null() || n > 256 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let item = |i: usize| {
            // SAFETY: the program's arrays of `n` items.
            unsafe { (keys.add(i).read(), values.add(i).read() as u64) }
        };
        Ok(Self {
            list: (0..n as usize).map(item).collect(),
            values: values as usize,
        })
    }

    fn get(&self, key: u32) -> Option<u64> {
        self.list.iter().find(|o| o.0 == key).map(|o| o.1)
    }

    /// What the worker must know: numbers, and how long the logs may be. Empty when there is
    /// nothing.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let here = [WALL_TIME, INFO_LOG, ERROR_LOG];
        for (k, v) in &self.list {
            if !here.contains(k) && !SYMBOLS.contains(k) {
                out.extend_from_slice(&k.to_le_bytes());
                out.extend_from_slice(&(*v as u32).to_le_bytes());
            }
        }
        out
    }

    /// Writes logs and time where the program wants them.
    ///
    /// # Safety
    /// The pointers among the options are valid, as the API asks.
    pub unsafe fn fill(&self, info: &[u8], error: &[u8], wall_ms: f32) {
        for (buffer, size, text) in [
            (INFO_LOG, INFO_LOG_SIZE, info),
            (ERROR_LOG, ERROR_LOG_SIZE, error),
        ] {
            let (Some(p), Some(room)) = (self.get(buffer), self.get(size)) else {
                continue;
            };
            if p == 0 || room == 0 {
                continue;
            }
            let n = filled(text, room);
            // SAFETY: the program says that `room` bytes lie there.
            unsafe {
                std::ptr::copy_nonoverlapping(text.as_ptr(), p as *mut u8, n);
                (p as *mut u8).add(n).write(0);
            }
        }
        // These two come back in the array of values itself.
        for (i, (k, v)) in self.list.iter().enumerate() {
            let back = match *k {
                // A log that had to be cut has filled all its room.
                INFO_LOG_SIZE => (info.len() as u64).min(*v),
                ERROR_LOG_SIZE => (error.len() as u64).min(*v),
                WALL_TIME => u64::from(wall_ms.to_bits()),
                _ => continue,
            };
            // SAFETY: the program's array, whose length `read` was given.
            unsafe { (self.values as *mut u64).add(i).write_unaligned(back) };
        }
    }
}

/// How many bytes of a log go into a buffer of so many, with a NUL behind them.
fn filled(text: &[u8], room: u64) -> usize {
    text.len().min((room as usize).saturating_sub(1))
}

/// Reads a file of device code, with a NUL behind it in case it is text.
///
/// # Safety
/// `path` is null or a C string.
pub unsafe fn read_file(path: *const c_char) -> Result<Vec<u8>, CUresult> {
    if path.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: passed on to the caller.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    let mut bytes = std::fs::read(path).map_err(|_| CUDA_ERROR_FILE_NOT_FOUND)?;
    if bytes.len() < 64 {
        bytes.resize(64, 0);
    }
    bytes.push(0);
    Ok(bytes)
}

/// Splits a list of NUL-terminated names.
pub fn name_list(bytes: &[u8]) -> Result<Vec<CString>, CUresult> {
    bytes
        .split_inclusive(|b| *b == 0)
        .map(|n| {
            CStr::from_bytes_with_nul(n)
                .map(CStr::to_owned)
                .map_err(|_| CUDA_ERROR_UNKNOWN)
        })
        .collect()
}

/// What the client knows of a module.
#[derive(Default)]
struct Module {
    functions: HashMap<CString, u32>,
    globals: HashMap<CString, (u64, u64)>,
}

static MODULES: Mutex<Option<HashMap<u32, Module>>> = Mutex::new(None);

fn modules() -> MutexGuard<'static, Option<HashMap<u32, Module>>> {
    MODULES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loads a module into the current context.
///
/// # Safety
/// `out` is null or writable, `code` null or an image of device code.
pub unsafe fn load(
    out: *mut CUmodule,
    code: *const c_void,
    _options: &[u8],
    jit: Option<&Options>,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.need_context()?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the program's image.
        let image = unsafe { image::take(code, arch(cx)) }.ok_or(CUDA_ERROR_INVALID_IMAGE)?;
        super::output::look_into(&image.bytes);
        let hash = cx.rt.session.offer(image.bytes);
        let module = cx.create(Kind::Module);
        let encoded = jit.map(Options::encode).unwrap_or_default();
        let m = msg::ModuleLoad {
            module,
            hash,
            options: &encoded,
        };
        let loaded = cx.call_any(&m).and_then(|(status, body)| {
            let r = decode::<msg::ModuleLoadReply<'_>>(&body)?;
            if let Some(o) = jit {
                // SAFETY: the program's buffers, as it described them.
                unsafe { o.fill(r.info_log, r.error_log, r.wall_ms) };
            }
            if status == CUDA_SUCCESS {
                Ok(())
            } else {
                Err(status)
            }
        });
        if let Err(e) = loaded {
            cx.destroy(Kind::Module, module);
            return Err(e);
        }
        modules()
            .get_or_insert_default()
            .insert(module, Module::default());
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::Module, module) as CUmodule) }
    })
}

pub(super) unsafe fn cuModuleLoadData(out: *mut CUmodule, image: *const c_void) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { load(out, image, &[], None) }
}

pub(super) unsafe fn cuModuleLoadFatBinary(out: *mut CUmodule, image: *const c_void) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { load(out, image, &[], None) }
}

pub(super) unsafe fn cuModuleLoadDataEx(
    out: *mut CUmodule,
    image: *const c_void,
    n: u32,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
) -> CUresult {
    // SAFETY: the program's arrays.
    match unsafe { Options::read(options, values, n) } {
        // SAFETY: passed on to the caller.
        Ok(o) => unsafe { load(out, image, &[], Some(&o)) },
        Err(e) => e,
    }
}

pub(super) unsafe fn cuModuleLoad(out: *mut CUmodule, path: *const c_char) -> CUresult {
    // SAFETY: the program's text.
    match unsafe { read_file(path) } {
        // SAFETY: the file's bytes, with a NUL behind them.
        Ok(bytes) => unsafe { load(out, bytes.as_ptr().cast(), &[], None) },
        Err(e) => e,
    }
}

pub(super) unsafe fn cuModuleUnload(module: CUmodule) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let id = cx.handle(Kind::Module, module as u64)?;
        let known = modules()
            .get_or_insert_default()
            .remove(&id)
            .unwrap_or_default();
        for f in known.functions.values() {
            handles::destroy(Kind::Function, *f);
        }
        for (va, _) in known.globals.values() {
            memory::remove(*va, |s| matches!(s, Sort::Foreign | Sort::Managed));
        }
        let scope = handles::context(Kind::Module, id);
        let cx = Cx { scope, ..cx };
        let sent = cx.send(&msg::ModuleUnload { module: id });
        // Not before: another thread may use the id again, and must come behind this.
        handles::destroy(Kind::Module, id);
        sent
    })
}

/// The id of a module's function, made known when it is asked for the first time.
fn function_id(cx: Cx, module: u32, name: &CStr) -> Result<u32, CUresult> {
    let known = modules()
        .get_or_insert_default()
        .get(&module)
        .and_then(|m| m.functions.get(name).copied());
    if let Some(id) = known {
        return Ok(id);
    }
    let text = name.to_str().map_err(|_| CUDA_ERROR_NOT_FOUND)?;
    let id = cx.create(Kind::Function);
    let made = cx
        .call(&msg::ModuleFunction {
            module,
            name: text,
            function: id,
        })
        .and_then(|reply| {
            let r = decode::<msg::ModuleFunctionReply>(&reply)?;
            FUNCTIONS.set(
                id,
                Function::new(name.into(), &r.params, &r.attributes, 0, module)?,
            );
            Ok(())
        });
    if let Err(e) = made {
        handles::destroy(Kind::Function, id);
        return Err(e);
    }
    let mut all = modules();
    let m = all.get_or_insert_default().entry(module).or_default();
    Ok(*m.functions.entry(name.into()).or_insert(id))
}

/// The handles of all functions of a module.
pub fn functions(cx: Cx, module: u32) -> Result<Vec<CUfunction>, CUresult> {
    let reply = cx.call(&msg::ModuleFunctionNames { module })?;
    let r = decode::<msg::ModuleFunctionNamesReply<'_>>(&reply)?;
    name_list(r.names)?
        .iter()
        .map(|n| Ok(handles::raw(Kind::Function, function_id(cx, module, n)?) as CUfunction))
        .collect()
}

pub(super) unsafe fn cuModuleGetFunction(
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
        let id = function_id(cx, module, unsafe { CStr::from_ptr(name) })?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, handles::raw(Kind::Function, id) as CUfunction) }
    })
}

pub(super) unsafe fn cuModuleEnumerateFunctions(
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
        for (i, f) in functions(cx, module)?
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

pub(super) unsafe fn cuModuleGetGlobal_v2(
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
        let known = modules()
            .get_or_insert_default()
            .get(&id)
            .and_then(|m| m.globals.get(name).copied());
        let (va, size) = match known {
            Some(k) => k,
            None => {
                let text = name.to_str().map_err(|_| CUDA_ERROR_NOT_FOUND)?;
                let reply = cx.call(&msg::ModuleGlobal {
                    module: id,
                    name: text,
                })?;
                let r = decode::<msg::ModuleGlobalReply>(&reply)?;
                let scope = handles::context(Kind::Module, id);
                let device = context::info(scope).map_or(0, |i| i.device);
                memory::add_variable(r.va, r.size, r.is_managed != 0, scope, device)?;
                let mut all = modules();
                let m = all.get_or_insert_default().entry(id).or_default();
                m.globals.insert(name.into(), (r.va, r.size));
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

pub(super) unsafe fn cuModuleGetLoadingMode(out: *mut CUmoduleLoadingMode) -> CUresult {
    guard(|| {
        enter_local()?;
        let eager = std::env::var("CUDA_MODULE_LOADING").is_ok_and(|v| v == "EAGER");
        // SAFETY: the program's pointer.
        unsafe { put(out, if eager { 1 } else { 2 }) }
    })
}

pub(super) unsafe fn cuFuncGetAttribute(
    out: *mut i32,
    which: CUfunction_attribute,
    f: CUfunction,
) -> CUresult {
    guard(|| {
        let v = library::attribute(enter()?, f, which)?;
        // SAFETY: the program's pointer.
        unsafe { put(out, v) }
    })
}

pub(super) unsafe fn cuFuncSetAttribute(
    f: CUfunction,
    which: CUfunction_attribute,
    value: i32,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        library::set_attribute(cx, f, which, value, context::current_device(cx)?)
    })
}

pub(super) unsafe fn cuFuncGetParamInfo(
    f: CUfunction,
    index: usize,
    offset: *mut usize,
    size: *mut usize,
) -> CUresult {
    // SAFETY: passed on to the caller; kernels and functions share their handles.
    unsafe { library::cuKernelGetParamInfo(f as CUkernel, index, offset, size) }
}

pub(super) unsafe fn cuFuncGetName(out: *mut *const c_char, f: CUfunction) -> CUresult {
    // SAFETY: as above.
    unsafe { library::cuKernelGetName(out, f as CUkernel) }
}

pub(super) unsafe fn cuFuncGetModule(out: *mut CUmodule, f: CUfunction) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let (_, info) = function(cx, f)?;
        if info.module == 0 {
            let l = handles::raw(Kind::Library, info.library) as CUlibrary;
            // SAFETY: the program's pointer.
            return match unsafe { library::cuLibraryGetModule(out, l) } {
                CUDA_SUCCESS => Ok(()),
                e => Err(e),
            };
        }
        // SAFETY: the program's pointer.
        unsafe { put(out, handles::raw(Kind::Module, info.module) as CUmodule) }
    })
}

// The linker is part of this family.
pub(super) use super::link::*;
