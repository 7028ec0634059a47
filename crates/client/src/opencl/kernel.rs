//! Kernels: what is known of them, and their arguments, which stay on the client until a launch.

use super::device::Device;
use super::entry::{self, Plain, Result};
use super::memory::Memory;
use super::object::{self, Body, Object, find, get, get_opt};
use super::platform::{self, Table};
use super::program::Program;
use super::queue::Queue;
use super::sampler::Sampler;
use super::server::{decode, lock};
use busbar_abi::opencl::*;
use busbar_wire::generated::opencl as wire;
use busbar_wire::{Reader, WireError, Writer};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// What is known of one argument.
pub struct ArgInfo {
    address: u32,
    access: u32,
    qualifiers: u64,
    type_name: String,
    name: String,
}

/// What the library takes for an argument, where it tells no more.
#[derive(Clone)]
enum Probed {
    Unknown,
    Local,
    Memory,
    Sizes(Vec<usize>),
}

/// What is known of a kernel.
pub struct KernelInfo {
    /// Its name.
    pub name: String,
    n_args: u32,
    attributes: String,
    devices: Vec<(u32, Table)>,
    args: Option<Vec<ArgInfo>>,
    named: bool,
    probed: Vec<Probed>,
}

impl KernelInfo {
    /// Reads what the worker says of a kernel.
    pub fn parse(r: &mut Reader<'_>) -> std::result::Result<Self, WireError> {
        let name = r.str()?.to_string();
        let n_args = r.u32()?;
        let attributes = r.str()?.to_string();
        let n = r.count(4096, 8)?;
        let devices = (0..n)
            .map(|_| Ok((r.u32()?, platform::table(r)?)))
            .collect::<std::result::Result<_, WireError>>()?;
        let known = r.u8()?;
        let mut args = Vec::new();
        for _ in 0..if known > 0 { n_args } else { 0 } {
            args.push(ArgInfo {
                address: r.u32()?,
                access: r.u32()?,
                qualifiers: r.u64()?,
                type_name: r.str()?.to_string(),
                name: r.str()?.to_string(),
            });
        }
        let mut probed = Vec::new();
        for _ in 0..if known > 0 { 0 } else { n_args } {
            probed.push(match r.u8()? {
                1 => Probed::Local,
                2 => Probed::Memory,
                3 => {
                    let n = r.count(64, 4)?;
                    let sizes = (0..n).map(|_| Ok(r.u32()? as usize));
                    Probed::Sizes(sizes.collect::<std::result::Result<_, WireError>>()?)
                }
                _ => Probed::Unknown,
            });
        }
        Ok(Self {
            name,
            n_args,
            attributes,
            devices,
            args: (known > 0).then_some(args),
            named: known > 1,
            probed,
        })
    }

    fn expected(&self, i: u32) -> Expected {
        match (&self.args, self.probed.get(i as usize)) {
            (Some(args), _) => expected(&args[i as usize]),
            (None, Some(Probed::Local)) => Expected::Local,
            (None, Some(Probed::Memory)) => Expected::Memory,
            (None, Some(Probed::Sizes(n))) if n.contains(&size_of::<Handle>()) => Expected::Eight,
            (None, Some(Probed::Sizes(n))) => Expected::Plain(n.clone()),
            (None, _) => Expected::Unknown,
        }
    }

    fn is_local(&self, i: usize) -> bool {
        matches!(self.expected(i as u32), Expected::Local)
    }

    /// An answer about the kernel on a device.
    pub fn on(&self, device: u32, param: u32) -> Option<&[u8]> {
        let table = &self.devices.iter().find(|d| d.0 == device)?.1;
        table.get(&param).map(Vec::as_slice)
    }

    /// Sizes among the answers about the kernel on a device.
    pub fn sizes(&self, device: u32, param: u32) -> Vec<u64> {
        let bytes = self.on(device, param).unwrap_or_default();
        bytes
            .chunks_exact(8)
            .map(|c| c.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
            .collect()
    }

    /// Whether the kernel was built for a device.
    pub fn is_for(&self, device: u32) -> bool {
        self.devices.iter().any(|d| d.0 == device)
    }
}

/// An argument as it was set.
#[derive(Clone, PartialEq)]
enum Value {
    Unset,
    Bytes(Vec<u8>),
    Memory(u32),
    Sampler(u32),
    Queue(u32),
    /// No value but a size: local memory, or a null object.
    Size(u64),
    Svm(u64),
}

/// What an argument may be.
enum Expected {
    Unknown,
    Memory,
    Image,
    Sampler,
    Queue,
    Local,
    /// Eight bytes: a number, or an object that is no buffer.
    Eight,
    /// Bytes of one of these sizes, or of any if none is listed.
    Plain(Vec<usize>),
}

fn expected(a: &ArgInfo) -> Expected {
    match a.address {
        CL_KERNEL_ARG_ADDRESS_LOCAL => Expected::Local,
        CL_KERNEL_ARG_ADDRESS_GLOBAL | CL_KERNEL_ARG_ADDRESS_CONSTANT => match a.access {
            CL_KERNEL_ARG_ACCESS_NONE => Expected::Memory,
            _ => Expected::Image,
        },
        _ => match a.type_name.as_str() {
            "sampler_t" => Expected::Sampler,
            "queue_t" => Expected::Queue,
            t if t.starts_with("image") && t.ends_with("_t") => Expected::Image,
            t if a.qualifiers & CL_KERNEL_ARG_TYPE_PIPE != 0 || t.starts_with("pipe") => {
                Expected::Unknown
            }
            t => Expected::Plain(scalar(t)),
        },
    }
}

/// The sizes of a built-in type; none for a type of the program's own.
fn scalar(name: &str) -> Vec<usize> {
    let three = name.ends_with('3');
    let Some(n) = size(name) else {
        return Vec::new();
    };
    // A vector of three is as large as one of four, but libraries take it without the fourth, too.
    match three {
        true => vec![n, n / 4 * 3],
        false => vec![n],
    }
}

fn size(name: &str) -> Option<usize> {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let lanes = match &name[base.len()..] {
        "" => 1,
        "2" => 2,
        "3" | "4" => 4,
        "8" => 8,
        "16" => 16,
        _ => return None,
    };
    let one = match base {
        "char" | "uchar" | "unsigned char" => 1,
        "short" | "ushort" | "unsigned short" | "half" => 2,
        "int" | "uint" | "unsigned int" | "float" => 4,
        "long" | "ulong" | "unsigned long" | "double" => 8,
        _ => return None,
    };
    Some(one * lanes)
}

/// Arguments with a note on which ones the worker has not seen.
pub struct Args {
    values: Vec<(Value, bool)>,
    dirty: Vec<u32>,
    packed: Vec<u8>,
}

impl Args {
    fn set(&mut self, i: u32, value: Value) {
        let slot = &mut self.values[i as usize];
        // An object's id may be a new object's by now, so only plain values are known to be the
        // same.
        if slot.0 == value && matches!(value, Value::Bytes(_) | Value::Size(_)) {
            return;
        }
        slot.0 = value;
        if !slot.1 {
            slot.1 = true;
            self.dirty.push(i);
        }
    }

    /// Whether every argument is set.
    pub fn complete(&self) -> bool {
        !self.values.iter().any(|v| v.0 == Value::Unset)
    }

    fn local_bytes(&self, info: &KernelInfo) -> u64 {
        let local = |(i, v): (usize, &(Value, bool))| match v.0 {
            Value::Size(n) if info.is_local(i) => n,
            _ => 0,
        };
        self.values.iter().enumerate().map(local).sum()
    }

    /// What the worker has not seen yet; `f` gets it packed, and once sent it counts as seen.
    pub fn ship<T>(&mut self, f: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        self.packed.clear();
        let mut w = Writer::new(&mut self.packed);
        for i in &self.dirty {
            let (tag, n) = match &self.values[*i as usize].0 {
                Value::Unset => continue,
                Value::Bytes(b) => {
                    w.u32(*i);
                    w.u8(0);
                    w.bytes(b);
                    continue;
                }
                Value::Memory(id) => (1, u64::from(*id)),
                Value::Sampler(id) => (2, u64::from(*id)),
                Value::Queue(id) => (3, u64::from(*id)),
                Value::Size(n) => (4, *n),
                Value::Svm(p) => (5, *p),
            };
            w.u32(*i);
            w.u8(tag);
            w.u64(n);
        }
        let done = f(&self.packed)?;
        for i in self.dirty.drain(..) {
            self.values[i as usize].1 = false;
        }
        Ok(done)
    }
}

/// A kernel.
pub struct Kernel {
    /// Its program.
    pub program: Arc<Object<Program>>,
    /// What is known of it.
    pub info: Arc<KernelInfo>,
    /// Its arguments.
    pub args: Mutex<Args>,
}

impl Body for Kernel {
    const MAGIC: u32 = 0x6273_7008;
    const INVALID: i32 = CL_INVALID_KERNEL;

    fn retire(&mut self, _handle: Handle) {
        self.program.kernels.fetch_sub(1, Ordering::AcqRel);
    }
}

fn make(p: &Object<Program>, id: u32, info: Arc<KernelInfo>) -> Arc<Object<Kernel>> {
    p.kernels.fetch_add(1, Ordering::AcqRel);
    let values = vec![(Value::Unset, false); info.n_args as usize];
    let args = Args {
        values,
        dirty: Vec::new(),
        packed: Vec::new(),
    };
    let kernel = Kernel {
        program: p.keep(),
        info,
        args: Mutex::new(args),
    };
    Object::new(p.server, id, kernel)
}

fn create(p: &Object<Program>, info: Arc<KernelInfo>) -> Result<Arc<Object<Kernel>>> {
    let id = p.server.id();
    p.server.queue(&wire::CreateKernel {
        kernel: id,
        program: p.id,
        name: &info.name,
    })?;
    Ok(make(p, id, info))
}

/// `clCreateKernel`.
pub unsafe extern "C" fn create_kernel(
    program: Handle,
    name: *const libc::c_char,
    code: *mut i32,
) -> Handle {
    // SAFETY: the program's handle and text.
    let make = || unsafe {
        let p = get::<Program>(program)?;
        if name.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        Ok(create(p, p.kernel(&entry::text(name))?)?.give())
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clCreateKernelsInProgram`.
pub unsafe extern "C" fn create_kernels_in_program(
    program: Handle,
    room: u32,
    out: *mut Handle,
    count: *mut u32,
) -> i32 {
    // SAFETY: the program's handle and places.
    entry::status(|| unsafe {
        let p = get::<Program>(program)?;
        let all = p.all_kernels()?;
        if !out.is_null() {
            if (room as usize) < all.len() {
                return Err(CL_INVALID_VALUE);
            }
            for (i, info) in all.iter().enumerate() {
                out.add(i).write(create(p, info.clone())?.give());
            }
        }
        entry::put(count, all.len() as u32);
        Ok(())
    })
}

/// `clCloneKernel`.
pub unsafe extern "C" fn clone_kernel(source: Handle, code: *mut i32) -> Handle {
    // SAFETY: the program's handle.
    let make = || unsafe {
        let k = get::<Kernel>(source)?;
        let id = k.server.id();
        let mut args = lock(&k.args);
        args.ship(|packed| {
            k.server.queue(&wire::CloneKernel {
                kernel: id,
                source: k.id,
                args: packed,
            })
        })?;
        let copy = make(&k.program, id, k.info.clone());
        lock(&copy.args).values = args.values.clone();
        Ok(copy.give())
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clRetainKernel`.
pub unsafe extern "C" fn retain_kernel(kernel: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe { object::retain::<Kernel>(kernel) })
}

/// `clReleaseKernel`.
pub unsafe extern "C" fn release_kernel(kernel: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe { object::release::<Kernel>(kernel) })
}

/// The value of an argument, checked as far as the kernel is known.
///
/// # Safety
/// `value` is null or has `size` readable bytes.
unsafe fn value(k: &Kernel, i: u32, size: usize, value: *const u8) -> Result<Value> {
    let kind = k.info.expected(i);
    let handle = || {
        if size != size_of::<Handle>() {
            return Err(CL_INVALID_ARG_SIZE);
        }
        // SAFETY: checked for null by the callers below, and `size` bytes long.
        Ok(unsafe { value.cast::<Handle>().read_unaligned() })
    };
    // SAFETY: as the function says.
    let bytes = || Value::Bytes(unsafe { std::slice::from_raw_parts(value, size) }.to_vec());
    match kind {
        Expected::Local => match (value.is_null(), size) {
            (false, _) => Err(CL_INVALID_ARG_VALUE),
            (true, 0) => Err(CL_INVALID_ARG_SIZE),
            (true, n) => Ok(Value::Size(n as u64)),
        },
        Expected::Memory | Expected::Image => {
            let nullable = matches!(kind, Expected::Memory);
            if value.is_null() {
                return match (nullable, size == size_of::<Handle>()) {
                    (true, true) => Ok(Value::Size(size as u64)),
                    (true, false) => Err(CL_INVALID_ARG_SIZE),
                    (false, _) => Err(CL_INVALID_ARG_VALUE),
                };
            }
            // SAFETY: the program's handle.
            match unsafe { get_opt::<Memory>(handle()?) }? {
                Some(m) if !Arc::ptr_eq(&m.context, &k.program.context) => {
                    Err(CL_INVALID_MEM_OBJECT)
                }
                Some(m) => Ok(Value::Memory(m.id)),
                None if nullable => Ok(Value::Size(size as u64)),
                None => Err(CL_INVALID_MEM_OBJECT),
            }
        }
        _ if value.is_null() && matches!(kind, Expected::Unknown) => Ok(Value::Size(size as u64)),
        _ if value.is_null() => Err(CL_INVALID_ARG_VALUE),
        // SAFETY: the program's handle.
        Expected::Sampler => Ok(Value::Sampler(
            unsafe { get::<Sampler>(handle()?) }
                .map_err(|_| CL_INVALID_SAMPLER)?
                .id,
        )),
        // SAFETY: the program's handle.
        Expected::Queue => Ok(Value::Queue(
            unsafe { get::<Queue>(handle()?) }
                .map_err(|_| CL_INVALID_DEVICE_QUEUE)?
                .id,
        )),
        Expected::Plain(n) if !n.is_empty() && !n.contains(&size) => Err(CL_INVALID_ARG_SIZE),
        Expected::Plain(_) => Ok(bytes()),
        Expected::Eight if size != 8 => Err(CL_INVALID_ARG_SIZE),
        // Nothing is known of the argument: eight bytes that are a live handle are that object.
        Expected::Eight | Expected::Unknown if size == 8 => Ok(match find(handle()? as usize) {
            Some((Memory::MAGIC, id)) => Value::Memory(id),
            Some((Sampler::MAGIC, id)) => Value::Sampler(id),
            _ => bytes(),
        }),
        Expected::Eight | Expected::Unknown => Ok(bytes()),
    }
}

/// `clSetKernelArg`.
pub unsafe extern "C" fn set_kernel_arg(
    kernel: Handle,
    i: u32,
    size: usize,
    from: *const u8,
) -> i32 {
    // SAFETY: the program's handle and value.
    entry::status(|| unsafe {
        let k = get::<Kernel>(kernel)?;
        if i >= k.info.n_args {
            return Err(CL_INVALID_ARG_INDEX);
        }
        let v = value(k, i, size, from)?;
        lock(&k.args).set(i, v);
        Ok(())
    })
}

/// `clSetKernelArgSVMPointer`.
pub unsafe extern "C" fn set_kernel_arg_svm_pointer(kernel: Handle, i: u32, p: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe {
        let k = get::<Kernel>(kernel)?;
        if k.program.context.most(CL_DEVICE_SVM_CAPABILITIES) == 0 {
            return Err(CL_INVALID_OPERATION);
        }
        if i >= k.info.n_args {
            return Err(CL_INVALID_ARG_INDEX);
        }
        lock(&k.args).set(i, Value::Svm(p as u64));
        Ok(())
    })
}

/// `clSetKernelExecInfo`.
pub unsafe extern "C" fn set_kernel_exec_info(
    kernel: Handle,
    param: u32,
    size: usize,
    value: Handle,
) -> i32 {
    // SAFETY: the program's handle and value.
    entry::status(|| unsafe {
        let k = get::<Kernel>(kernel)?;
        if k.program.context.most(CL_DEVICE_SVM_CAPABILITIES) == 0 {
            return Err(CL_INVALID_OPERATION);
        }
        // No pointers at all take back those of an earlier call.
        if value.is_null() != (size == 0) || size == 0 && param != CL_KERNEL_EXEC_INFO_SVM_PTRS {
            return Err(CL_INVALID_VALUE);
        }
        let ok = match param {
            CL_KERNEL_EXEC_INFO_SVM_PTRS => size.is_multiple_of(8),
            CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM if size == 4 => {
                // No device of ours has it, so only switching it off is right.
                return match value.cast::<u32>().read_unaligned() {
                    0 => Ok(()),
                    _ => Err(CL_INVALID_OPERATION),
                };
            }
            _ => false,
        };
        if !ok {
            return Err(CL_INVALID_VALUE);
        }
        let value = match size {
            0 => &[][..],
            _ => std::slice::from_raw_parts(value.cast(), size),
        };
        let msg = wire::KernelExecInfo {
            kernel: k.id,
            param,
            value,
        };
        k.server.call(&msg).map(drop)
    })
}

/// `clGetKernelInfo`.
pub unsafe extern "C" fn get_kernel_info(
    kernel: Handle,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let k = unsafe { get::<Kernel>(kernel)? };
        let bytes = match param {
            CL_KERNEL_FUNCTION_NAME => k.info.name.as_str().plain(),
            CL_KERNEL_NUM_ARGS => k.info.n_args.plain(),
            CL_KERNEL_REFERENCE_COUNT => k.count().plain(),
            CL_KERNEL_CONTEXT => k.program.context.handle().plain(),
            CL_KERNEL_PROGRAM => k.program.handle().plain(),
            CL_KERNEL_ATTRIBUTES => k.info.attributes.as_str().plain(),
            _ => return Err(CL_INVALID_VALUE),
        };
        // SAFETY: the program's memory, as it says.
        unsafe { entry::answer(&bytes, size, value, ret) }
    })
}

/// `clGetKernelArgInfo`.
pub unsafe extern "C" fn get_kernel_arg_info(
    kernel: Handle,
    i: u32,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let k = unsafe { get::<Kernel>(kernel)? };
        if i >= k.info.n_args {
            return Err(CL_INVALID_ARG_INDEX);
        }
        let args = k
            .info
            .args
            .as_ref()
            .ok_or(CL_KERNEL_ARG_INFO_NOT_AVAILABLE)?;
        let a = &args[i as usize];
        let bytes = match param {
            CL_KERNEL_ARG_ADDRESS_QUALIFIER => a.address.plain(),
            CL_KERNEL_ARG_ACCESS_QUALIFIER => a.access.plain(),
            CL_KERNEL_ARG_TYPE_QUALIFIER => a.qualifiers.plain(),
            CL_KERNEL_ARG_TYPE_NAME if k.info.named => a.type_name.as_str().plain(),
            CL_KERNEL_ARG_NAME if k.info.named => a.name.as_str().plain(),
            CL_KERNEL_ARG_TYPE_NAME | CL_KERNEL_ARG_NAME => {
                return Err(CL_KERNEL_ARG_INFO_NOT_AVAILABLE);
            }
            _ => return Err(CL_INVALID_VALUE),
        };
        // SAFETY: the program's memory, as it says.
        unsafe { entry::answer(&bytes, size, value, ret) }
    })
}

/// The device that a query names; null will do where the kernel has only one.
///
/// # Safety
/// The program's handle.
unsafe fn device(k: &Kernel, device: Handle) -> Result<u32> {
    if device.is_null() {
        return match &k.info.devices[..] {
            [one] => Ok(one.0),
            _ => Err(CL_INVALID_DEVICE),
        };
    }
    // SAFETY: passed on to the caller.
    let d = unsafe { get::<Device>(device)? };
    match k.info.is_for(d.id) {
        true => Ok(d.id),
        false => Err(CL_INVALID_DEVICE),
    }
}

/// `clGetKernelWorkGroupInfo`.
pub unsafe extern "C" fn get_kernel_work_group_info(
    kernel: Handle,
    on: Handle,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    // SAFETY: the program's handles and memory.
    entry::status(|| unsafe {
        let k = get::<Kernel>(kernel)?;
        let d = device(k, on)?;
        let bytes = k.info.on(d, param).ok_or(CL_INVALID_VALUE)?;
        if param == CL_KERNEL_LOCAL_MEM_SIZE {
            let fixed = k.info.sizes(d, param).first().copied().unwrap_or(0);
            let all = fixed + lock(&k.args).local_bytes(&k.info);
            return entry::answer(&all.plain(), size, value, ret);
        }
        entry::answer(bytes, size, value, ret)
    })
}

/// `clGetKernelSubGroupInfo`.
pub unsafe extern "C" fn get_kernel_sub_group_info(
    kernel: Handle,
    on: Handle,
    param: u32,
    input_size: usize,
    input: Handle,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    // SAFETY: the program's handles and memory.
    entry::status(|| unsafe {
        let k = get::<Kernel>(kernel)?;
        let d = device(k, on)?;
        let input = match input.is_null() {
            true => &[][..],
            false => std::slice::from_raw_parts(input.cast::<u8>(), input_size),
        };
        let msg = wire::SubGroupInfo {
            kernel: k.id,
            device: d,
            param,
            input,
            most: if value.is_null() {
                24
            } else {
                size.min(4096) as u32
            },
        };
        let body = k.server.call(&msg)?;
        let reply: wire::SubGroupInfoReply = decode(&body)?;
        entry::answer(reply.value, size, value, ret)
    })
}
