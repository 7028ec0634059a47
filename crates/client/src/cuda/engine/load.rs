//! Loading code, and asking for what is in it.

use super::prelude::*;
use crate::cuda::call::Client;
use crate::cuda::engine::{context, image, memory, output};
use crate::cuda::state::contexts::as_result;
use crate::cuda::state::devices::Device;
use crate::cuda::state::functions::Function;
use crate::cuda::state::loaded::{
    Described, ERROR_LOG, ERROR_LOG_SIZE, INFO_LOG, INFO_LOG_SIZE, Module, Options, WALL_TIME,
};
use crate::session::Offered;
use busbar_channel::switches::Switch;
use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;

/// Reads the program's two arrays.
///
/// # Safety
/// `keys` and `values` point at `n` items each, or `n` is 0.
pub unsafe fn options(
    keys: *mut CUjit_option,
    values: *mut *mut c_void,
    n: u32,
) -> Result<Options> {
    if n == 0 {
        return Ok(Options::default());
    }
    refuse_if(keys.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(values.is_null() || n > 256, CUDA_ERROR_INVALID_VALUE)?;
    let item = |i: usize| {
        // SAFETY: the program's arrays of `n` items.
        unsafe { (keys.add(i).read(), values.add(i).read() as u64) }
    };
    let list: Vec<_> = (0..n as usize).map(item).collect();
    let unknown = list.iter().any(|(key, _)| *key >= CU_JIT_NUM_OPTIONS);
    refuse_if(unknown, CUDA_ERROR_INVALID_VALUE)?;
    Ok(Options {
        list,
        values: values as usize,
    })
}

/// How many bytes of a log go into a buffer of so many, with a NUL behind them.
fn filled(text: &[u8], room: u64) -> usize {
    text.len().min((room as usize).saturating_sub(1))
}

/// Writes logs and time where the program wants them.
///
/// # Safety
/// The pointers among the options are valid, as the API asks.
pub unsafe fn fill(options: &Options, info: &[u8], error: &[u8], wall_ms: f32) {
    for (buffer, size, text) in [
        (INFO_LOG, INFO_LOG_SIZE, info),
        (ERROR_LOG, ERROR_LOG_SIZE, error),
    ] {
        let (Some(p), Some(room)) = (options.get(buffer), options.get(size)) else {
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
    // These two come back in the array of values itoptions.
    for (i, (k, v)) in options.list.iter().enumerate() {
        let back = match *k {
            // A log that had to be cut has filled all its room.
            INFO_LOG_SIZE => (info.len() as u64).min(*v),
            ERROR_LOG_SIZE => (error.len() as u64).min(*v),
            WALL_TIME => u64::from(wall_ms.to_bits()),
            _ => continue,
        };
        // SAFETY: the program's array, whose length `options` was given.
        unsafe { (options.values as *mut u64).add(i).write_unaligned(back) };
    }
}

/// Reads a file that the program names.
///
/// # Safety
/// `path` is null or a C string.
pub unsafe fn read_file(path: *const c_char) -> Result<Vec<u8>> {
    refuse_if(path.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: passed on to the caller.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    std::fs::read(path).map_err(|_| CUDA_ERROR_FILE_NOT_FOUND)
}

/// As [`read_file`], of code whose length nobody is told: there is a NUL behind it.
///
/// # Safety
/// As for [`read_file`].
pub unsafe fn read_code(path: *const c_char) -> Result<Vec<u8>> {
    // SAFETY: passed on to the caller.
    let mut bytes = unsafe { read_file(path)? };
    if bytes.len() < 64 {
        bytes.resize(64, 0);
    }
    bytes.push(0);
    Ok(bytes)
}

/// Splits a list of NUL-terminated names.
pub fn name_list(bytes: &[u8]) -> Result<Vec<CString>> {
    bytes
        .split_inclusive(|b| *b == 0)
        .map(|n| {
            CStr::from_bytes_with_nul(n)
                .map(CStr::to_owned)
                .map_err(|_| CUDA_ERROR_UNKNOWN)
        })
        .collect()
}

/// The architecture that code is chosen for: the current context's device, or the first.
pub fn arch(cx: Cx) -> u32 {
    let d = context::device_of(cx)
        .ok()
        .or_else(|| cx.client.devices.first());
    d.map_or(0, Device::arch)
}

/// Takes an image of the program's to be sent, and says whether it holds machine code for the
/// device.
///
/// # Safety
/// `code` is null or an image of device code.
pub unsafe fn offer(cx: Cx, code: *const c_void) -> Result<(Offered<'static>, bool)> {
    refuse_if(code.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: passed on to the caller.
    let image = unsafe { image::take(code, arch(cx)).unwrap_or_else(|| image::of_none(code)) };
    output::look_into(cx.state(), &image.bytes);
    Ok((cx.client.session.offer(image.bytes), image.native))
}

/// Loads a library. Where a process has several clients, all have it, under the same handle.
///
/// # Safety
/// `code` is null or an image of device code, and the pointers among the options are valid.
pub unsafe fn library(cx: Cx, code: *const c_void, options: &Options) -> Result<u32> {
    // SAFETY: passed on to the caller.
    let library = unsafe { one_library(cx, code, options)? };
    let mut loaded = vec![(cx, library)];
    for there in cx.rest().filter(|c| !c.client.devices.is_empty()) {
        // One whose devices this code is not for says so when it is used there.
        // SAFETY: passed on to the caller.
        if let Ok(id) = unsafe { one_library(there, code, &Options::default()) } {
            loaded.push((there, id));
        }
    }
    let raw = |(cx, id): (Cx, u32)| cx.raw(Kind::Library, id);
    for (i, of) in loaded.iter().enumerate() {
        for (j, (cx, id)) in loaded.iter().enumerate() {
            if i != j {
                cx.state().handles.alias(Kind::Library, raw(*of), *id);
            }
        }
    }
    Ok(library)
}

/// The kernel of a library that all clients have.
pub fn twin(
    (client, scope): (&'static Client, u32),
    there: &'static Client,
    id: u32,
) -> Option<u32> {
    let (cx, there) = (Cx::of(client).in_context(scope), Cx::of(there));
    let f = there.state().functions.get(id)?;
    if f.library == 0 || f.kernel != id {
        return None;
    }
    let library = there.raw(Kind::Library, f.library);
    let library = cx.state().handles.id(Kind::Library, library)?;
    let twin = kernel(cx, library, &f.name).ok()?;
    let raw = there.raw(Kind::Function, id);
    cx.state().handles.alias(Kind::Function, raw, twin);
    Some(twin)
}

/// Unloads a library, wherever it is.
pub fn unload(cx: Cx, library: u32) -> Result<()> {
    let raw = cx.raw(Kind::Library, library);
    for there in cx.rest() {
        if let Some(id) = there.state().handles.id(Kind::Library, raw) {
            let _ = there.send(&msg::LibraryUnload { library: id });
            there.destroy(Kind::Library, id);
        }
    }
    let sent = cx.send(&msg::LibraryUnload { library });
    cx.destroy(Kind::Library, library);
    sent
}

/// Loads a library at one server.
///
/// # Safety
/// As for [`library`].
unsafe fn one_library(cx: Cx, code: *const c_void, options: &Options) -> Result<u32> {
    // SAFETY: passed on to the caller.
    let (offered, native) = unsafe { offer(cx, code)? };
    let hash = offered.hash;
    let library = cx.create_in(Kind::Library, 0);
    let encoded = options.encode();
    let loaded = if native && encoded.is_empty() {
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
            // SAFETY: passed on to the caller.
            unsafe { fill(options, r.info_log, r.error_log, r.wall_ms) };
            as_result(status)
        })
    };
    loaded.inspect_err(|_| cx.destroy(Kind::Library, library))?;
    cx.state().libraries.insert(library, Default::default());
    Ok(library)
}

/// Loads a module into the current context.
///
/// # Safety
/// As for [`library`].
pub unsafe fn module(cx: Cx, code: *const c_void, options: &Options) -> Result<u32> {
    cx.need_context()?;
    // SAFETY: passed on to the caller.
    let (offered, _) = unsafe { offer(cx, code)? };
    let module = cx.create(Kind::Module);
    let encoded = options.encode();
    let m = msg::ModuleLoad {
        module,
        hash: offered.hash,
        options: &encoded,
    };
    let loaded = cx.call_any(&m).and_then(|(status, body)| {
        let r = decode::<msg::ModuleLoadReply<'_>>(&body)?;
        // SAFETY: passed on to the caller.
        unsafe { fill(options, r.info_log, r.error_log, r.wall_ms) };
        as_result(status)?;
        told(r.names, &r.functions)
    });
    let told = loaded.inspect_err(|_| cx.destroy(Kind::Module, module))?;
    let known = Module {
        told,
        ..Module::default()
    };
    cx.state().modules.insert(module, known);
    Ok(module)
}

/// What the worker says of a new module's functions: how many parameters each has, these, and
/// sixteen attributes.
fn told(names: &[u8], mut words: &[u32]) -> Result<HashMap<CString, Described>> {
    const ATTRIBUTES: usize = 16;
    let mut take = |n: usize| {
        let (these, rest) = words.split_at_checked(n).ok_or(CUDA_ERROR_UNKNOWN)?;
        words = rest;
        Ok::<_, CUresult>(these.to_vec())
    };
    let mut one = |name| {
        let params = take(1)?[0] as usize;
        let params = take(params.checked_mul(2).ok_or(CUDA_ERROR_UNKNOWN)?)?;
        Ok((name, (params, take(ATTRIBUTES)?)))
    };
    name_list(names)?.into_iter().map(&mut one).collect()
}

/// Makes a function known under an id, as the worker describes it.
fn learn(
    cx: Cx,
    id: u32,
    name: &CStr,
    (params, attributes): (&[u32], &[u32]),
    (library, module): (u32, u32),
) -> Result<()> {
    let f = Function::new(name.into(), params, attributes, id, library, module);
    let f = f.inspect_err(|_| {
        crate::log!(Error, "the worker says of {name:?} what cannot be");
    })?;
    cx.state().functions.set(id, f);
    Ok(())
}

/// The id of a library's kernel, made known when it is asked for the first time.
pub fn kernel(cx: Cx, library: u32, name: &CStr) -> Result<u32> {
    let libraries = &cx.state().libraries;
    let known = libraries.with(&library, |l| l.kernels.get(name).copied());
    if let Some(Some(id)) = known {
        return Ok(id);
    }
    let text = name.to_str().map_err(|_| CUDA_ERROR_NOT_FOUND)?;
    let first = || cx.client.devices.first().map_or(0, |d| d.ordinal);
    let device = cx.current_device().unwrap_or_else(|_| first());
    // Threads that have no context ask, too (PyTorch's backward pass does), but the driver
    // describes a kernel only inside one.
    let cx = match cx.scope {
        0 => cx.in_context(cx.device(device)?.primary),
        _ => cx,
    };
    let id = cx.create_in(Kind::Function, 0);
    let m = msg::LibraryKernel {
        library,
        name: text,
        function: id,
        device,
    };
    cx.reply_to(&m)
        .and_then(|r| learn(cx, id, name, (&r.params, &r.attributes), (library, 0)))
        .inspect_err(|_| cx.destroy(Kind::Function, id))?;
    // Another thread may have asked at the same time: one handle per kernel.
    Ok(libraries.with_new(library, |l| *l.kernels.entry(name.into()).or_insert(id)))
}

/// The id of a kernel's function in the current context, which is made when it is asked for first.
pub fn function_here(cx: Cx, f: &Function) -> Result<u32> {
    let mut here = lock(&f.here);
    if let Some((_, id)) = here.iter().find(|(context, _)| *context == cx.scope) {
        return Ok(*id);
    }
    let function = cx.create(Kind::Function);
    cx.state().functions.set(function, f.in_a_context());
    let (library, kernel) = (f.library, f.kernel);
    cx.send(&msg::KernelFunction {
        library,
        kernel,
        function,
    })
    .inspect_err(|_| cx.destroy(Kind::Function, function))?;
    here.push((cx.scope, function));
    Ok(function)
}

/// The id of a module's function, made known when it is asked for the first time.
pub fn function(cx: Cx, module: u32, name: &CStr) -> Result<u32> {
    let modules = &cx.state().modules;
    let known = modules.with(&module, |m| m.functions.get(name).copied());
    if let Some(Some(id)) = known {
        return Ok(id);
    }
    let text = name.to_str().map_err(|_| CUDA_ERROR_NOT_FOUND)?;
    let id = cx.create(Kind::Function);
    let told = modules.with(&module, |m| m.told.get(name).cloned());
    let found = match told.flatten().filter(|_| Switch::Local.on()) {
        Some(told) => {
            let m = msg::ModuleFunctionKnown {
                module,
                name: text,
                function: id,
            };
            cx.send(&m).map(|()| told)
        }
        None => {
            let m = msg::ModuleFunction {
                module,
                name: text,
                function: id,
            };
            cx.reply_to(&m).map(|r| (r.params, r.attributes))
        }
    };
    found
        .and_then(|(params, attributes)| learn(cx, id, name, (&params, &attributes), (0, module)))
        .inspect_err(|_| cx.destroy(Kind::Function, id))?;
    Ok(modules.with_new(module, |m| *m.functions.entry(name.into()).or_insert(id)))
}

/// The handles of all functions of a module.
pub fn functions(cx: Cx, module: u32) -> Result<Vec<CUfunction>> {
    let reply = cx.call(&msg::ModuleFunctionNames { module })?;
    let r = decode::<msg::ModuleFunctionNamesReply<'_>>(&reply)?;
    name_list(r.names)?
        .iter()
        .map(|n| Ok(cx.raw(Kind::Function, function(cx, module, n)?) as CUfunction))
        .collect()
}

/// Address and size of a module's variable.
pub fn module_variable(cx: Cx, id: u32, name: &CStr) -> Result<(u64, u64)> {
    let modules = &cx.state().modules;
    if let Some(Some(known)) = modules.with(&id, |m| m.globals.get(name).copied()) {
        return Ok(known);
    }
    let text = name.to_str().map_err(|_| CUDA_ERROR_NOT_FOUND)?;
    let r = cx.reply_to(&msg::ModuleGlobal {
        module: id,
        name: text,
    })?;
    let scope = cx.state().handles.context(Kind::Module, id);
    let of = (scope, cx.state().contexts.device(scope).unwrap_or(0));
    let at = (r.va, r.size);
    memory::add_variable(cx, at, r.is_managed != 0, of)?;
    modules.with_new(id, |m| m.globals.insert(name.into(), at));
    Ok(at)
}

/// Address and size of a library's variable in the current context; with `managed`, of one that
/// moves by itself, which needs no context.
pub fn library_variable(cx: Cx, id: u32, name: &CStr, managed: u32) -> Result<(u64, u64)> {
    let cx = match managed {
        0 => cx,
        _ => context::or_first(cx)?,
    };
    let of = cx.home()?;
    let (libraries, key) = (&cx.state().libraries, (name.to_owned(), of.0));
    match libraries.with(&id, |l| l.globals.get(&key).copied()) {
        Some(Some((va, _))) if managed != 0 && !cx.state().ranges.is_managed(va) => {
            return Err(CUDA_ERROR_NOT_FOUND);
        }
        Some(Some(known)) => return Ok(known),
        _ => {}
    }
    let text = name.to_str().map_err(|_| CUDA_ERROR_NOT_FOUND)?;
    let r = cx.reply_to(&msg::LibraryGlobal {
        library: id,
        name: text,
        managed,
    })?;
    let at = (r.va, r.size);
    memory::add_variable(cx, at, r.is_managed != 0, of)?;
    libraries.with_new(id, |l| l.globals.insert(key, at));
    Ok(at)
}
