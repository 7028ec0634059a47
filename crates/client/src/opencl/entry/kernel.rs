//! Kernels: creation, arguments and queries.

use super::prelude::*;
use crate::opencl::engine::program::create_kernel;
use crate::opencl::state::args::Value;
use crate::opencl::state::kernel::Expected;
use crate::opencl::state::object::{Body, Owner, get};

/// `clCreateKernel`.
pub fn clCreateKernel(p: &Object<Program>, name: Option<String>) -> Result<Handle> {
    let name = name.ok_or(CL_INVALID_VALUE)?;
    let info = lock(&p.builds).kernel(&name)?;
    Ok(create_kernel(p, info)?.give())
}

/// `clCreateKernelsInProgram`.
pub fn clCreateKernelsInProgram(p: &Object<Program>, room: Room<Handle>) -> Result<()> {
    let all = lock(&p.builds).kernels()?.to_vec();
    let mut made = Vec::new();
    if let Some(n) = room.wanted() {
        refuse_if(n < all.len(), CL_INVALID_VALUE)?;
        for info in &all {
            made.push(create_kernel(p, info.clone())?);
        }
    }
    room.give(all.len(), made.into_iter().map(|k| k.give()));
    Ok(())
}

/// `clCloneKernel`.
pub fn clCloneKernel(k: &Object<Kernel>) -> Result<Handle> {
    let id = k.server.id();
    let mut args = lock(&k.args);
    args.ship(|packed| {
        k.server.queue(&wire::CloneKernel {
            kernel: id,
            source: k.id,
            args: packed,
        })
    })?;
    let copy = Kernel::new(k.program.clone(), k.info.clone(), args.copy());
    Ok(Object::new(k.server, id, copy).give())
}

/// The value of an argument, checked as far as the kernel is known.
///
/// # Safety
/// `value` is null or has `size` readable bytes.
unsafe fn value(k: &Object<Kernel>, i: u32, size: usize, value: *const u8) -> Result<Value> {
    let kind = k.info.expected(i);
    let handle = || match size == size_of::<Handle>() {
        // SAFETY: null is looked for before this is called, and there are as many bytes.
        true => Ok(unsafe { value.cast::<Handle>().read_unaligned() }),
        false => Err(CL_INVALID_ARG_SIZE),
    };
    // SAFETY: as the function says.
    let bytes = || Value::Bytes(unsafe { std::slice::from_raw_parts(value, size) }.to_vec());
    match kind {
        Expected::Local => match (value.is_null(), size) {
            (false, _) => Err(CL_INVALID_ARG_VALUE),
            (true, 0) => Err(CL_INVALID_ARG_SIZE),
            (true, n) => Ok(Value::Size(n as u64)),
        },
        Expected::Memory if value.is_null() => match size == size_of::<Handle>() {
            true => Ok(Value::Size(size as u64)),
            false => Err(CL_INVALID_ARG_SIZE),
        },
        Expected::Unknown if value.is_null() => Ok(Value::Size(size as u64)),
        _ if value.is_null() => Err(CL_INVALID_ARG_VALUE),
        Expected::Memory | Expected::Image => {
            let handle = handle()?;
            if handle.is_null() && kind == Expected::Memory {
                return Ok(Value::Size(size as u64));
            }
            // SAFETY: the program's handle.
            let m = unsafe { get::<Memory>(handle)? };
            match m.context.is(&k.program.context) {
                true => Ok(Value::Memory(m.id)),
                false => Err(CL_INVALID_MEM_OBJECT),
            }
        }
        // SAFETY: the program's handle.
        Expected::Sampler => Ok(Value::Sampler(unsafe { get::<Sampler>(handle()?)? }.id)),
        Expected::Queue => {
            // SAFETY: the program's handle.
            let q = unsafe { get::<Queue>(handle()?) };
            Ok(Value::Queue(q.map_err(|_| CL_INVALID_DEVICE_QUEUE)?.id))
        }
        Expected::Plain(n) if !n.is_empty() && !n.contains(&size) => Err(CL_INVALID_ARG_SIZE),
        Expected::Eight if size != 8 => Err(CL_INVALID_ARG_SIZE),
        Expected::Plain(_) => Ok(bytes()),
        Expected::Eight | Expected::Unknown if size != 8 => Ok(bytes()),
        // Nothing is known of the argument: eight bytes that are a live handle are that object.
        Expected::Eight | Expected::Unknown => Ok(match k.server.ids().find(handle()? as usize) {
            Some((Memory::MAGIC, id)) => Value::Memory(id),
            Some((Sampler::MAGIC, id)) => Value::Sampler(id),
            _ => bytes(),
        }),
    }
}

fn check_index(k: &Kernel, i: u32) -> Result<()> {
    refuse_if(i >= k.info.n_args, CL_INVALID_ARG_INDEX)
}

/// `clSetKernelArg`.
pub unsafe fn clSetKernelArg(
    k: &Object<Kernel>,
    i: u32,
    size: usize,
    from: *const c_void,
) -> Result<()> {
    check_index(k, i)?;
    // SAFETY: the program's value.
    let v = unsafe { value(k, i, size, from.cast())? };
    lock(&k.args).set(i, v);
    Ok(())
}

fn check_svm(k: &Kernel) -> Result<()> {
    match k.program.context.has(CL_DEVICE_SVM_CAPABILITIES) {
        true => Ok(()),
        false => Err(CL_INVALID_OPERATION),
    }
}

/// `clSetKernelArgSVMPointer`.
pub fn clSetKernelArgSVMPointer(k: &Object<Kernel>, i: u32, p: *const c_void) -> Result<()> {
    check_svm(k)?;
    check_index(k, i)?;
    lock(&k.args).set(i, Value::Svm(p as u64));
    Ok(())
}

/// `clSetKernelExecInfo`.
pub unsafe fn clSetKernelExecInfo(
    k: &Object<Kernel>,
    param: u32,
    size: usize,
    value: *const c_void,
) -> Result<()> {
    check_svm(k)?;
    // No pointers at all take back those of an earlier call.
    if value.is_null() != (size == 0) || size == 0 && param != CL_KERNEL_EXEC_INFO_SVM_PTRS {
        return Err(CL_INVALID_VALUE);
    }
    match param {
        CL_KERNEL_EXEC_INFO_SVM_PTRS if size.is_multiple_of(8) => {}
        CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM if size == 4 => {
            // No device of ours has it, so only switching it off is right.
            // SAFETY: the program's four bytes.
            return match unsafe { value.cast::<u32>().read_unaligned() } {
                0 => Ok(()),
                _ => Err(CL_INVALID_OPERATION),
            };
        }
        _ => return Err(CL_INVALID_VALUE),
    }
    let value = match size {
        0 => &[][..],
        // SAFETY: the program's bytes.
        _ => unsafe { std::slice::from_raw_parts(value.cast(), size) },
    };
    let msg = wire::KernelExecInfo {
        kernel: k.id,
        param,
        value,
    };
    k.server.call(&msg).map(drop)
}

/// `clGetKernelInfo`.
pub fn clGetKernelInfo(k: &Object<Kernel>, param: u32, to: Answer) -> Result<()> {
    to.give(&match param {
        CL_KERNEL_FUNCTION_NAME => k.info.name.as_str().plain(),
        CL_KERNEL_NUM_ARGS => k.info.n_args.plain(),
        CL_KERNEL_REFERENCE_COUNT => k.count().plain(),
        CL_KERNEL_CONTEXT => k.program.context.handle().plain(),
        CL_KERNEL_PROGRAM => k.program.handle().plain(),
        CL_KERNEL_ATTRIBUTES => k.info.attributes.as_str().plain(),
        _ => return Err(CL_INVALID_VALUE),
    })
}

/// `clGetKernelArgInfo`.
pub fn clGetKernelArgInfo(k: &Object<Kernel>, i: u32, param: u32, to: Answer) -> Result<()> {
    to.give(&k.info.arg_info(i, param)?)
}

/// The device that a query names; none will do where the kernel has only one.
fn device(k: &Kernel, d: Option<&Object<Device>>) -> Result<u32> {
    let id = d.map_or_else(|| k.info.only_device(), |d| Some(d.id));
    let its = id.filter(|id| k.info.is_for(*id));
    its.ok_or(CL_INVALID_DEVICE)
}

/// `clGetKernelWorkGroupInfo`.
pub fn clGetKernelWorkGroupInfo(
    k: &Object<Kernel>,
    d: Option<&Object<Device>>,
    param: u32,
    to: Answer,
) -> Result<()> {
    let d = device(k, d)?;
    let bytes = k.info.on(d, param).ok_or(CL_INVALID_VALUE)?;
    if param != CL_KERNEL_LOCAL_MEM_SIZE {
        return to.give(bytes);
    }
    let fixed = k.info.sizes(d, param).first().copied().unwrap_or(0);
    to.give(&(fixed + lock(&k.args).local_bytes(&k.info)).plain())
}

/// `clGetKernelSubGroupInfo`.
pub unsafe fn clGetKernelSubGroupInfo(
    k: &Object<Kernel>,
    d: Option<&Object<Device>>,
    param: u32,
    input_size: usize,
    input: *const c_void,
    to: Answer,
) -> Result<()> {
    let device = device(k, d)?;
    let input = match input.is_null() {
        true => &[][..],
        // SAFETY: the program's bytes.
        false => unsafe { std::slice::from_raw_parts(input.cast::<u8>(), input_size) },
    };
    let body = k.server.call(&wire::SubGroupInfo {
        kernel: k.id,
        device,
        param,
        input,
        most: match to.value.is_null() {
            true => 24,
            false => to.size.min(4096) as u32,
        },
    })?;
    to.give(decode::<wire::SubGroupInfoReply>(&body)?.value)
}
