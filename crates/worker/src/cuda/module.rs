//! Modules and their functions.

use super::compile::Compile;
use super::prelude::*;
use super::state::handles::{Body, Function};
use crate::answer::text;
use busbar_channel::alone;
use std::ffi::{CStr, c_char};

pub use super::link::*;

/// Parameters (offset and size in turn) and attributes of a function, as the client wants them.
pub fn describe(
    param: impl Fn(usize, *mut usize, *mut usize) -> CUresult,
    attribute: impl Fn(u32, *mut i32) -> CUresult,
) -> (Vec<u32>, Vec<u32>) {
    let mut params = Vec::new();
    const MOST: usize = 4096;
    for i in 0..MOST {
        let (mut offset, mut size) = (0, 0);
        match param(i, &mut offset, &mut size) {
            CUDA_SUCCESS => {}
            // So the driver says that there are no more.
            CUDA_ERROR_INVALID_VALUE => break,
            rc => {
                let why = super::driver::name_of(rc);
                crate::complain!("the driver does not describe a function: {why}");
                break;
            }
        }
        params.extend([offset as u32, size as u32]);
    }
    let value = |a: u32| {
        let mut v = 0;
        if attribute(a, &mut v) == CUDA_SUCCESS {
            v as u32
        } else {
            0
        }
    };
    (params, (0..16).map(value).collect())
}

/// Of a module with more functions the client asks for those that it needs.
const FEW: u32 = 32;

/// For so long a module's functions are looked at when it is loaded: what it costs to be asked for
/// a few. A driver that loads lazily has a function's code go to the device when somebody looks at
/// it, which takes long where that is much, and nobody may ever launch it.
const LOOK: Duration = Duration::from_millis(1);

/// The names of a module's functions, if they are few, and what the client wants to know of them;
/// of as many as there is time for.
fn described(d: &Driver, module: CUmodule) -> (Vec<u8>, Vec<u32>) {
    let few = |n: *mut u32| {
        // SAFETY: a live module and a pointer to a live number.
        unsafe {
            let rc = d.cuModuleGetFunctionCount(n, module);
            *n = if *n > FEW { 0 } else { *n };
            rc
        }
    };
    // Of a driver that cannot list them the client hears of each by its name.
    let names = function_names(d, module, few).unwrap_or_default();
    let (mut told, mut all, begin) = (Vec::new(), Vec::new(), Instant::now());
    for name in names.split_inclusive(|b| *b == 0) {
        if begin.elapsed() > LOOK && !alone::is_set() {
            break;
        }
        let found = CStr::from_bytes_with_nul(name).map_err(|_| CUDA_ERROR_NOT_FOUND);
        let Ok((_, params, attributes)) = found.and_then(|n| find(d, module, n)) else {
            return Default::default();
        };
        told.extend_from_slice(name);
        all.push(params.len() as u32 / 2);
        all.extend(params.into_iter().chain(attributes));
    }
    (told, all)
}

pub fn module_load(w: &mut Cuda, m: msg::ModuleLoad<'_>) -> Result<Always<Encoded>> {
    let mut c = Compile::new(m.options).unwrap_or_default();
    let (mut names, mut functions) = Default::default();
    let rc = attempt(|| {
        let image = w.image(&m.hash)?.bytes;
        let charge = w.charge_image(w.current_device(), &image)?;
        let mut module: CUmodule = std::ptr::null_mut();
        let (keys, values) = c.arrays();
        // SAFETY: the image is as long as its own header says, or text that ends; the options'
        // arrays are of that length.
        check(unsafe {
            w.cuModuleLoadDataEx(
                &mut module,
                image.as_ptr().cast(),
                keys.len() as u32,
                keys.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        })?;
        // SAFETY: a live module, which nobody knows of.
        w.afford(|d| _ = unsafe { d.cuModuleUnload(module) })?;
        (names, functions) = described(w.driver, module);
        w.made_of(&m, module as u64, charge);
        Ok(())
    });
    let reply = Encoded::of(&msg::ModuleLoadReply {
        info_log: c.info(),
        error_log: c.errors(),
        wall_ms: c.wall_ms(),
        names: &names,
        functions,
    });
    Ok(Always(rc, reply))
}

pub fn module_unload(w: &mut Cuda, m: msg::ModuleUnload) -> Result {
    let module = w.handle(Kind::Module, m.module)?;
    // SAFETY: a live module, which is not used again.
    check(unsafe { w.cuModuleUnload(module as CUmodule) })
}

/// A function of a module, its parameters and its attributes.
fn find(d: &Driver, module: CUmodule, name: &CStr) -> Result<(CUfunction, Vec<u32>, Vec<u32>)> {
    let mut f: CUfunction = std::ptr::null_mut();
    // SAFETY: a live module, a C string, a pointer to a live handle.
    check(unsafe { d.cuModuleGetFunction(&mut f, module, name.as_ptr()) })?;
    let (params, attributes) = describe(
        // SAFETY: a live function and pointers to live numbers.
        |i, offset, size| quietly(|| unsafe { d.cuFuncGetParamInfo(f, i, offset, size) }),
        // SAFETY: as above.
        |a, v| unsafe { d.cuFuncGetAttribute(v, a as _, f) },
    );
    Ok((f, params, attributes))
}

pub fn module_function(
    w: &mut Cuda,
    m: msg::ModuleFunction<'_>,
) -> Result<msg::ModuleFunctionReply, Fail> {
    let name = text(m.name)?;
    let module = w.handle(Kind::Module, m.module)? as CUmodule;
    let (f, params, attributes) = find(w.driver, module, &name)?;
    let f = Function::new(f as u64, false, &params);
    w.made(&m, Body::Function(f));
    Ok(msg::ModuleFunctionReply { params, attributes })
}

pub fn module_function_known(w: &mut Cuda, m: msg::ModuleFunctionKnown<'_>) -> Result<(), Fail> {
    let name = text(m.name)?;
    let module = w.handle(Kind::Module, m.module)? as CUmodule;
    let (f, params, _) = find(w.driver, module, &name)?;
    w.made(&m, Body::Function(Function::new(f as u64, false, &params)));
    Ok(())
}

/// The names of all functions of something, each with the zero at its end.
pub fn names_of<F: Copy>(
    count: impl FnOnce(*mut u32) -> CUresult,
    list: impl FnOnce(*mut F, u32) -> CUresult,
    name: impl Fn(*mut *const c_char, F) -> CUresult,
) -> Result<Vec<u8>> {
    let (mut n, mut names) = (0, Vec::new());
    check(count(&mut n))?;
    if n == 0 {
        // A library that is no image has none, and no list of them.
        return Ok(names);
    }
    let mut all = Vec::<F>::with_capacity(n as usize);
    check(list(all.as_mut_ptr(), n))?;
    // SAFETY: the driver has filled as many places as it said that there are.
    unsafe { all.set_len(n as usize) };
    for f in all {
        let mut p = std::ptr::null();
        check(name(&mut p, f))?;
        if !p.is_null() {
            // SAFETY: the driver's text, which ends in a zero.
            names.extend_from_slice(unsafe { CStr::from_ptr(p) }.to_bytes_with_nul());
        }
    }
    Ok(names)
}

fn function_names(
    d: &Driver,
    module: CUmodule,
    count: impl FnOnce(*mut u32) -> CUresult,
) -> Result<Vec<u8>> {
    names_of::<CUfunction>(
        count,
        // SAFETY: the array has as many places as said.
        |list, n| unsafe { d.cuModuleEnumerateFunctions(list, n, module) },
        // SAFETY: a live function and a pointer to a live pointer.
        |p, f| unsafe { d.cuFuncGetName(p, f) },
    )
}

pub fn module_function_names(w: &mut Cuda, m: msg::ModuleFunctionNames) -> Result<Encoded> {
    let module = w.handle(Kind::Module, m.module)? as CUmodule;
    let d = w.driver;
    // SAFETY: a live module and a pointer to a live number.
    let all = |n: *mut u32| unsafe { d.cuModuleGetFunctionCount(n, module) };
    let names = function_names(d, module, all)?;
    Ok(Encoded::of(&msg::ModuleFunctionNamesReply {
        names: &names,
    }))
}

pub fn module_global(
    w: &mut Cuda,
    m: msg::ModuleGlobal<'_>,
) -> Result<msg::ModuleGlobalReply, Fail> {
    let name = text(m.name)?;
    let (mut va, mut size) = (0, 0);
    let module = w.handle(Kind::Module, m.module)? as CUmodule;
    // SAFETY: a live module, a C string, pointers to live values.
    check(unsafe { w.cuModuleGetGlobal_v2(&mut va, &mut size, module, name.as_ptr()) })?;
    w.given.memory(va, size as u64);
    Ok(msg::ModuleGlobalReply {
        va,
        size: size as u64,
        is_managed: super::driver::is_managed(w.driver, va),
    })
}

pub fn function_set_attribute(w: &mut Cuda, m: msg::FunctionSetAttribute) -> Result {
    let f = w.handles.function(m.function)?.clone();
    let dev = w.device(m.device)?;
    let a = m.attribute as CUfunction_attribute;
    // SAFETY: a live kernel or function.
    check(unsafe {
        if f.kernel {
            w.cuKernelSetAttribute(a, m.value, f.raw as CUkernel, dev)
        } else {
            w.cuFuncSetAttribute(f.raw as CUfunction, a, m.value)
        }
    })
}
