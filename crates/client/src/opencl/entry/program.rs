//! Programs: sources, binaries, builds and what can be asked of them.

use super::prelude::*;
use crate::opencl::engine::program::{self, Notified};
use std::ffi::{CStr, c_char};

/// The devices of a call: those listed, or all.
fn chosen(have: &[Ref<Device>], list: Handles<'_>) -> Result<Vec<Ref<Device>>> {
    let list = list.any::<Device>(CL_INVALID_VALUE)?;
    if list.len() == 0 {
        return Ok(have.to_vec());
    }
    let mut found = Vec::new();
    for d in list {
        let d = d?;
        let its = have.iter().find(|h| h.is(d));
        found.push(its.cloned().ok_or(CL_INVALID_DEVICE)?);
    }
    Ok(found)
}

fn ids(devices: &[Ref<Device>]) -> Vec<u32> {
    devices.iter().map(|d| d.id).collect()
}

/// The function that is to hear of the end of a build, with its pointer.
fn notified(f: Option<OfObject>, user: User) -> Result<Notified> {
    match f {
        None if !user.get().is_null() => Err(CL_INVALID_VALUE),
        f => Ok(f.map(|f| (f, user))),
    }
}

/// `clCreateProgramWithSource`.
pub unsafe fn clCreateProgramWithSource(
    c: &Object<Context>,
    n: u32,
    strings: *mut *const c_char,
    lengths: *const usize,
) -> Result<Handle> {
    refuse_if(n == 0 || strings.is_null(), CL_INVALID_VALUE)?;
    let mut source = Vec::new();
    for i in 0..n as usize {
        // SAFETY: the program gives as many texts, which end in a zero where they have no length.
        unsafe {
            let text = strings.add(i).read();
            refuse_if(text.is_null(), CL_INVALID_VALUE)?;
            let len = match lengths.is_null() {
                true => 0,
                false => lengths.add(i).read(),
            };
            let len = if len == 0 { libc::strlen(text) } else { len };
            source.extend_from_slice(std::slice::from_raw_parts(text.cast::<u8>(), len));
        }
    }
    let (id, context) = (c.server.id(), c.id);
    c.server
        .send(&source, |blob, data| wire::CreateProgramWithSource {
            program: id,
            context,
            blob,
            data,
        })?;
    let mut program = Program::new(c, c.devices.clone());
    program.source = Some(source);
    Ok(Object::new(c.server, id, program).give())
}

/// `clCreateProgramWithBinary`.
pub unsafe fn clCreateProgramWithBinary(
    c: &Object<Context>,
    devices: Handles<'_>,
    lengths: *const usize,
    binaries: *mut *const u8,
    statuses: *mut i32,
) -> Result<Handle> {
    devices.check()?;
    refuse_if(lengths.is_null() || binaries.is_null(), CL_INVALID_VALUE)?;
    let devices = chosen(&c.devices, devices)?;
    let (mut all, mut sizes) = (Vec::new(), Vec::new());
    let told = |i: usize, status: i32| {
        if !statuses.is_null() {
            // SAFETY: the program has room for one of each device.
            unsafe { statuses.add(i).write(status) };
        }
    };
    for i in 0..devices.len() {
        // SAFETY: the program gives one binary for each device.
        unsafe {
            let (len, b) = (lengths.add(i).read(), binaries.add(i).read());
            if len == 0 || b.is_null() {
                told(i, CL_INVALID_VALUE);
                return Err(CL_INVALID_VALUE);
            }
            all.extend_from_slice(std::slice::from_raw_parts(b, len));
            sizes.push(len as u64);
        }
    }
    program::load(c, devices, (sizes, &all), told)
}

/// `clCreateProgramWithBuiltInKernels`.
pub fn clCreateProgramWithBuiltInKernels(
    c: &Object<Context>,
    devices: Handles<'_>,
    names: Option<String>,
) -> Result<Handle> {
    devices.check()?;
    let names = names.ok_or(CL_INVALID_VALUE)?;
    let devices = chosen(&c.devices, devices)?;
    let program = Object::new(c.server, c.server.id(), Program::new(c, devices));
    let body = c.server.call(&wire::CreateProgramWithBuiltInKernels {
        program: program.id,
        context: c.id,
        devices: program.ids(),
        names: &names,
    })?;
    let reply = decode::<wire::CreateProgramWithBuiltInKernelsReply>(&body)?;
    program::learn(&program, reply.info)?;
    Ok(program.give())
}

/// `clCreateProgramWithIL`.
pub unsafe fn clCreateProgramWithIL(
    c: &Object<Context>,
    il: *const c_void,
    size: usize,
) -> Result<Handle> {
    refuse_if(!c.any(Device::takes_il), CL_INVALID_OPERATION)?;
    refuse_if(il.is_null() || size == 0, CL_INVALID_VALUE)?;
    let mut program = Program::new(c, c.devices.clone());
    // SAFETY: the program's bytes.
    program.il = unsafe { std::slice::from_raw_parts(il.cast::<u8>(), size) }.to_vec();
    let program = Object::new(c.server, c.server.id(), program);
    let msg = wire::CreateProgramWithIl {
        program: program.id,
        context: c.id,
        blob: c.server.blob(&program.il)?,
    };
    let body = c.server.call(&msg)?;
    let reply = decode::<wire::CreateProgramWithIlReply>(&body)?;
    program::learn(&program, reply.info)?;
    Ok(program.give())
}

/// `clBuildProgram`.
pub fn clBuildProgram(
    p: &Object<Program>,
    devices: Handles<'_>,
    options: Option<String>,
    f: Option<OfObject>,
    user: User,
) -> Result<()> {
    let notify = notified(f, user)?;
    let devices = ids(&chosen(&p.devices, devices)?);
    program::build(p, devices, &options.unwrap_or_default(), notify)
}

/// `clCompileProgram`.
pub unsafe fn clCompileProgram(
    p: &Object<Program>,
    devices: Handles<'_>,
    options: Option<String>,
    headers: Handles<'_>,
    names: *mut *const c_char,
    f: Option<OfObject>,
    user: User,
) -> Result<()> {
    let notify = notified(f, user)?;
    let headers = headers.any::<Program>(CL_INVALID_VALUE)?;
    refuse_if((headers.len() == 0) != names.is_null(), CL_INVALID_VALUE)?;
    let devices = ids(&chosen(&p.devices, devices)?);
    let (mut header_ids, mut packed) = (Vec::new(), Vec::new());
    for (i, h) in headers.enumerate() {
        header_ids.push(h?.id);
        // SAFETY: the program gives a name for each header.
        let name = unsafe { CStr::from_ptr(names.add(i).read()) };
        packed.extend(name.to_string_lossy().plain());
    }
    refuse_if(p.source.is_none() && p.il.is_empty(), CL_INVALID_OPERATION)?;
    let options = options.unwrap_or_default();
    program::compile(p, devices, &options, (header_ids, &packed), notify)
}

/// `clLinkProgram`.
pub fn clLinkProgram(
    c: &Object<Context>,
    devices: Handles<'_>,
    options: Option<String>,
    inputs: Handles<'_>,
    f: Option<OfObject>,
    user: User,
) -> Result<(Handle, i32)> {
    inputs.check()?;
    let notify = notified(f, user)?;
    let devices = chosen(&c.devices, devices)?;
    let inputs = inputs.some::<Program>()?.iter().map(|p| p.id).collect();
    program::link(c, devices, &options.unwrap_or_default(), inputs, notify)
}

/// `clSetProgramReleaseCallback`.
pub fn clSetProgramReleaseCallback(
    p: &Object<Program>,
    f: Option<OfObject>,
    user: User,
) -> Result<()> {
    // Only version 2.2 had constructors and destructors in programs.
    if !p.context.any(|d| d.version() == (2, 2)) {
        return Err(CL_INVALID_OPERATION);
    }
    p.goodbyes.add(farewell(f, user)?);
    Ok(())
}

/// `clSetProgramSpecializationConstant`.
pub unsafe fn clSetProgramSpecializationConstant(
    p: &Object<Program>,
    id: u32,
    size: usize,
    value: *const c_void,
) -> Result<()> {
    refuse_if(p.il.is_empty(), CL_INVALID_PROGRAM)?;
    refuse_if(value.is_null() || size == 0, CL_INVALID_VALUE)?;
    let msg = wire::SetSpecializationConstant {
        program: p.id,
        id,
        // SAFETY: the program's bytes.
        value: unsafe { std::slice::from_raw_parts(value.cast(), size) },
    };
    p.server.call(&msg).map(drop)
}

/// Stores the binaries where the program's pointers say.
///
/// # Safety
/// `to` has a pointer for each device, null or with room for that device's binary.
unsafe fn store(p: &Object<Program>, to: *const *mut u8) -> Result<()> {
    let (sizes, all) = program::binaries(p)?;
    let mut rest = &all[..];
    for (i, n) in sizes.iter().enumerate() {
        let binary;
        (binary, rest) = rest.split_at(*n as usize);
        // SAFETY: passed on to the caller.
        unsafe {
            let place = to.add(i).read();
            if !place.is_null() {
                std::ptr::copy_nonoverlapping(binary.as_ptr(), place, binary.len());
            }
        }
    }
    Ok(())
}

/// `clGetProgramInfo`.
pub unsafe fn clGetProgramInfo(p: &Object<Program>, param: u32, to: Answer) -> Result<()> {
    to.give(&match param {
        CL_PROGRAM_REFERENCE_COUNT => p.count().plain(),
        CL_PROGRAM_CONTEXT => p.context.handle().plain(),
        CL_PROGRAM_NUM_DEVICES => (p.devices.len() as u32).plain(),
        CL_PROGRAM_DEVICES => p.devices.iter().flat_map(|d| d.handle().plain()).collect(),
        CL_PROGRAM_SOURCE => match p.source.as_deref().unwrap_or_default() {
            text @ [.., 0] => text.to_vec(),
            text => [text, &[0]].concat(),
        },
        CL_PROGRAM_IL => p.il.clone(),
        CL_PROGRAM_BINARY_SIZES => program::binary_sizes(p)?.plain(),
        CL_PROGRAM_BINARIES => {
            let bytes = p.devices.len() * size_of::<usize>();
            if !to.value.is_null() {
                refuse_if(to.size < bytes, CL_INVALID_VALUE)?;
                // SAFETY: the program's pointers, as many as there are devices.
                unsafe { store(p, to.value.cast())? };
            }
            to.length(bytes);
            return Ok(());
        }
        CL_PROGRAM_NUM_KERNELS => lock(&p.builds).kernels()?.len().plain(),
        CL_PROGRAM_KERNEL_NAMES => lock(&p.builds).names()?.plain(),
        CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT | CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT => {
            false.plain()
        }
        _ => return Err(CL_INVALID_VALUE),
    })
}

/// `clGetProgramBuildInfo`.
pub fn clGetProgramBuildInfo(
    p: &Object<Program>,
    d: &Object<Device>,
    param: u32,
    to: Answer,
) -> Result<()> {
    let answer = lock(&p.builds).info(d.id, param)?;
    to.give(&answer)
}
