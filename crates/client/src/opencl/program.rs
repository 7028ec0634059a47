//! Programs: sources, binaries, builds and what is known of them.

use super::callbacks::{self, User};
use super::context::{Context, Goodbye, Goodbyes};
use super::device::Device;
use super::entry::{self, Plain, Result};
use super::given::Outcome;
use super::headers;
use super::kernel::KernelInfo;
use super::object::{self, Body, Object, get};
use super::server::{LOST, decode, lock};
use crate::calls::Answer;
use busbar_abi::opencl::*;
use busbar_wire::codec::{Reader, Request};
use busbar_wire::generated::opencl as wire;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// What is known of a program on one device.
#[derive(Clone, Default)]
pub struct Build {
    /// `CL_BUILD_*`.
    pub status: i32,
    pub(super) options: String,
    pub(super) log: Vec<u8>,
    /// `CL_PROGRAM_BINARY_TYPE_*`.
    pub kind: u32,
    /// Bytes of variables at program scope.
    pub globals: u64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) builds: Vec<Build>,
    kernels: Option<Vec<Arc<KernelInfo>>>,
    pub(super) names: String,
    pub(super) sizes: Option<Vec<u64>>,
    /// The binaries, if they came with their sizes and nobody has asked for them yet.
    pub(super) binaries: Vec<u8>,
    /// What building these binaries, which this session has given out, will come to.
    foreseen: Option<Arc<Outcome>>,
}

/// A program.
pub struct Program {
    /// Its context.
    pub context: Arc<Object<Context>>,
    /// The devices that it is for.
    pub devices: Vec<Arc<Object<Device>>>,
    pub(super) source: Vec<u8>,
    pub(super) il: Vec<u8>,
    pub(super) state: Mutex<State>,
    /// Kernels that the program's owner has of it: while there are any it cannot be built again.
    pub kernels: AtomicU32,
    goodbyes: Goodbyes,
}

impl Body for Program {
    const MAGIC: u32 = 0x6273_7007;
    const INVALID: i32 = CL_INVALID_PROGRAM;

    fn retire(&mut self, handle: Handle) {
        self.goodbyes.say(handle);
    }
}

const NEVER_BUILT: i32 = CL_BUILD_NONE;

impl Program {
    fn new(context: &Object<Context>, devices: Vec<Arc<Object<Device>>>) -> Self {
        let fresh = Build {
            status: NEVER_BUILT,
            ..Build::default()
        };
        let state = State {
            builds: vec![fresh; devices.len()],
            ..State::default()
        };
        Self {
            context: context.keep(),
            devices,
            source: Vec::new(),
            il: Vec::new(),
            state: Mutex::new(state),
            kernels: AtomicU32::new(0),
            goodbyes: Goodbyes::default(),
        }
    }

    /// Takes in what the worker says of the program after a build or a load.
    fn learn(&self, info: &[u8]) -> Result<()> {
        let mut r = Reader::new(info);
        let mut parse = || {
            let n = r.count(4096, 8)?;
            let mut builds = Vec::new();
            for _ in 0..n {
                let id = r.u32()?;
                let build = Build {
                    status: r.i32()?,
                    kind: r.u32()?,
                    globals: r.u64()?,
                    log: r.bytes()?.to_vec(),
                    options: String::new(),
                };
                builds.push((id, build));
            }
            let kernels = match r.u8()? {
                0 => None,
                _ => {
                    let names = r.str()?.to_string();
                    let n = r.count(1 << 16, 8)?;
                    let list = (0..n).map(|_| KernelInfo::parse(&mut r).map(Arc::new));
                    Some((names, list.collect::<std::result::Result<Vec<_>, _>>()?))
                }
            };
            Ok::<_, busbar_wire::WireError>((builds, kernels))
        };
        let (builds, kernels) = parse().map_err(|_| LOST)?;
        let mut s = lock(&self.state);
        for (id, mut b) in builds {
            if let Some(i) = self.devices.iter().position(|d| d.id == id) {
                b.options = std::mem::take(&mut s.builds[i].options);
                s.builds[i] = b;
            }
        }
        s.sizes = None;
        s.binaries = Vec::new();
        s.foreseen = None;
        if let Some((names, list)) = kernels {
            s.names = names;
            s.kernels = Some(list);
        } else {
            s.kernels = None;
            s.names.clear();
        }
        Ok(())
    }

    /// What is known of a kernel, or why there is no such kernel.
    pub fn kernel(&self, name: &str) -> Result<Arc<KernelInfo>> {
        let s = lock(&self.state);
        let list = s.kernels.as_ref().ok_or(CL_INVALID_PROGRAM_EXECUTABLE)?;
        list.iter()
            .find(|k| k.name == name)
            .cloned()
            .ok_or(CL_INVALID_KERNEL_NAME)
    }

    /// All kernels, or why there are none.
    pub fn all_kernels(&self) -> Result<Vec<Arc<KernelInfo>>> {
        let s = lock(&self.state);
        s.kernels.clone().ok_or(CL_INVALID_PROGRAM_EXECUTABLE)
    }

    fn begin(&self, chosen: &[u32], options: &str) -> Result<()> {
        if self.kernels.load(Ordering::Acquire) > 0 {
            return Err(CL_INVALID_OPERATION);
        }
        let mut s = lock(&self.state);
        for (d, b) in self.devices.iter().zip(&mut s.builds) {
            if chosen.contains(&d.id) {
                if b.status == CL_BUILD_IN_PROGRESS {
                    return Err(CL_INVALID_OPERATION);
                }
                *b = Build {
                    status: CL_BUILD_IN_PROGRESS,
                    options: options.into(),
                    ..Build::default()
                };
            }
        }
        Ok(())
    }

    /// What the last build came to, if that was a success on all devices.
    pub(super) fn outcome(&self) -> Option<Arc<Outcome>> {
        let s = lock(&self.state);
        let builds = self.devices.iter().map(|d| d.id).zip(s.builds.clone());
        let builds: Vec<_> = builds.filter(|b| b.1.status == CL_BUILD_SUCCESS).collect();
        (builds.len() == self.devices.len()).then_some(())?;
        let kernels = s.kernels.clone()?;
        let names = s.names.clone();
        Some(Arc::new(Outcome {
            builds,
            kernels,
            names,
        }))
    }

    /// The build of binaries that were given out by this session: nothing needs to be waited for.
    fn finish_foreseen(&self, o: &Outcome) {
        let mut s = lock(&self.state);
        for (b, (_, made)) in s.builds.iter_mut().zip(&o.builds) {
            b.status = CL_BUILD_SUCCESS;
            b.kind = made.kind;
            b.globals = made.globals;
        }
        s.kernels = Some(o.kernels.clone());
        s.names.clone_from(&o.names);
    }

    fn end(&self, answer: Option<&Answer>) -> Result<()> {
        let (status, info) = match answer {
            Some(a) => (a.status, a.body.as_slice()),
            None => (LOST, &[][..]),
        };
        let learnt = decode::<wire::BuildProgramReply>(info).and_then(|r| self.learn(r.info));
        let mut s = lock(&self.state);
        for b in s.builds.iter_mut() {
            if b.status == CL_BUILD_IN_PROGRESS {
                b.status = CL_BUILD_ERROR;
            }
        }
        match status {
            CL_SUCCESS => learnt,
            e => Err(e),
        }
    }
}

/// The devices of a call: those listed, or all.
///
/// # Safety
/// The program's list.
unsafe fn chosen(
    have: &[Arc<Object<Device>>],
    n: u32,
    list: *const Handle,
) -> Result<Vec<Arc<Object<Device>>>> {
    if (n == 0) != list.is_null() {
        return Err(CL_INVALID_VALUE);
    }
    if n == 0 {
        return Ok(have.to_vec());
    }
    // SAFETY: passed on to the caller.
    unsafe { entry::list(n, list) }
        .iter()
        .map(|h| {
            have.iter()
                .find(|d| d.handle() == *h)
                .cloned()
                .ok_or(CL_INVALID_DEVICE)
        })
        .collect()
}

fn ids(devices: &[Arc<Object<Device>>]) -> Vec<u32> {
    devices.iter().map(|d| d.id).collect()
}

/// `clCreateProgramWithSource`.
pub unsafe extern "C" fn create_program_with_source(
    context: Handle,
    n: u32,
    strings: *const *const libc::c_char,
    lengths: *const usize,
    code: *mut i32,
) -> Handle {
    // SAFETY: the program's handle, strings and lengths.
    let make = || unsafe {
        let c = get::<Context>(context)?;
        if n == 0 || strings.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let mut source = Vec::new();
        for (i, s) in entry::list(n, strings).iter().enumerate() {
            if s.is_null() {
                return Err(CL_INVALID_VALUE);
            }
            let len = match lengths.is_null() {
                true => 0,
                false => *lengths.add(i),
            };
            let len = if len == 0 { libc::strlen(*s) } else { len };
            source.extend_from_slice(std::slice::from_raw_parts(s.cast::<u8>(), len));
        }
        let id = c.server.id();
        c.server
            .send(&source, |blob, data| wire::CreateProgramWithSource {
                program: id,
                context: c.id,
                blob,
                data,
            })?;
        let mut program = Program::new(c, c.devices.clone());
        program.source = source;
        Ok(Object::new(c.server, id, program).give())
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clCreateProgramWithBinary`.
pub unsafe extern "C" fn create_program_with_binary(
    context: Handle,
    n: u32,
    devices: *const Handle,
    lengths: *const usize,
    binaries: *const *const u8,
    statuses: *mut i32,
    code: *mut i32,
) -> Handle {
    // SAFETY: the program's handles and lists.
    let make = || unsafe {
        let c = get::<Context>(context)?;
        if n == 0 || devices.is_null() || lengths.is_null() || binaries.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let devices = chosen(&c.devices, n, devices)?;
        let (mut all, mut sizes) = (Vec::new(), Vec::new());
        for (i, (len, b)) in entry::list(n, lengths)
            .iter()
            .zip(entry::list(n, binaries))
            .enumerate()
        {
            if *len == 0 || b.is_null() {
                if !statuses.is_null() {
                    *statuses.add(i) = CL_INVALID_VALUE;
                }
                return Err(CL_INVALID_VALUE);
            }
            all.extend_from_slice(std::slice::from_raw_parts(*b, *len));
            sizes.push(*len as u64);
        }
        let id = c.server.id();
        let blob = c.server.blob(&all)?;
        let known = lock(&c.server.given).find(&sizes, &all);
        let same = |o: &Arc<Outcome>| {
            let made = o.builds.iter().map(|b| b.0);
            made.eq(devices.iter().map(|d| d.id))
        };
        if let Some(outcome) = known.filter(same) {
            c.server.queue(&wire::LoadProgram {
                program: id,
                context: c.id,
                devices: ids(&devices),
                lengths: sizes,
                blob,
            })?;
            let program = Program::new(c, devices);
            {
                let mut s = lock(&program.state);
                for (i, (b, (_, made))) in s.builds.iter_mut().zip(&outcome.builds).enumerate() {
                    b.kind = made.kind;
                    if !statuses.is_null() {
                        *statuses.add(i) = CL_SUCCESS;
                    }
                }
                s.foreseen = Some(outcome);
            }
            return Ok(Object::new(c.server, id, program).give());
        }
        let msg = wire::CreateProgramWithBinary {
            program: id,
            context: c.id,
            devices: ids(&devices),
            lengths: sizes,
            blob,
        };
        let program = Object::new(c.server, id, Program::new(c, devices));
        let answer = c.server.session.call(0, &msg, None).map_err(|_| LOST)?;
        let reply = decode::<wire::CreateProgramWithBinaryReply>(&answer.body);
        if let Ok(r) = &reply
            && !statuses.is_null()
        {
            for (i, s) in r.statuses.iter().take(n as usize).enumerate() {
                *statuses.add(i) = *s as i32;
            }
        }
        match answer.status {
            CL_SUCCESS => program.learn(reply?.info)?,
            e => return Err(e),
        }
        Ok(program.give())
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clCreateProgramWithBuiltInKernels`.
pub unsafe extern "C" fn create_program_with_built_in_kernels(
    context: Handle,
    n: u32,
    devices: *const Handle,
    names: *const libc::c_char,
    code: *mut i32,
) -> Handle {
    // SAFETY: the program's handles, list and text.
    let make = || unsafe {
        let c = get::<Context>(context)?;
        if n == 0 || devices.is_null() || names.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let devices = chosen(&c.devices, n, devices)?;
        let id = c.server.id();
        let program = Object::new(c.server, id, Program::new(c, devices));
        let body = c.server.call(&wire::CreateProgramWithBuiltInKernels {
            program: id,
            context: c.id,
            devices: ids(&program.devices),
            names: &entry::text(names),
        })?;
        program.learn(decode::<wire::CreateProgramWithBuiltInKernelsReply>(&body)?.info)?;
        Ok(program.give())
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// `clCreateProgramWithIL`.
pub unsafe extern "C" fn create_program_with_il(
    context: Handle,
    il: Handle,
    size: usize,
    code: *mut i32,
) -> Handle {
    // SAFETY: the program's handle and bytes.
    let make = || unsafe {
        let c = get::<Context>(context)?;
        if !c.any(|d| d.takes_il()) {
            return Err(CL_INVALID_OPERATION);
        }
        if il.is_null() || size == 0 {
            return Err(CL_INVALID_VALUE);
        }
        let bytes = std::slice::from_raw_parts(il.cast::<u8>(), size);
        let id = c.server.id();
        let mut program = Program::new(c, c.devices.clone());
        program.il = bytes.to_vec();
        let program = Object::new(c.server, id, program);
        let blob = c.server.blob(bytes)?;
        let msg = wire::CreateProgramWithIl {
            program: id,
            context: c.id,
            blob,
        };
        let body = c.server.call(&msg)?;
        program.learn(decode::<wire::CreateProgramWithIlReply>(&body)?.info)?;
        Ok(program.give())
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

type Built = unsafe extern "C" fn(Handle, Handle);

/// Sends a build and waits for its end, or has `notify` called at its end.
fn build<'a, R: Request<'a>>(
    p: &Object<Program>,
    msg: &R,
    notify: Option<Built>,
    user: Handle,
) -> Result<()> {
    let Some(notify) = notify else {
        let answer = p.server.session.call(0, msg, None);
        return p.end(answer.ok().as_ref());
    };
    let (kept, user) = (p.keep(), User(user));
    let done = move |answer: Option<Answer>| {
        let _ = kept.end(answer.as_ref());
        // SAFETY: the program's function with what it asked for; the object is kept alive.
        callbacks::run(Box::new(move || unsafe {
            notify(kept.handle(), user.get())
        }));
    };
    // SAFETY: no memory is lent.
    unsafe { p.server.session.call_async(0, msg, None, done) }.map_err(|_| LOST)?;
    p.server.session.flush();
    Ok(())
}

/// `clBuildProgram`.
pub unsafe extern "C" fn build_program(
    program: Handle,
    n: u32,
    devices: *const Handle,
    options: *const libc::c_char,
    notify: Option<Built>,
    user: Handle,
) -> i32 {
    // SAFETY: the program's handles, list and text.
    entry::status(|| unsafe {
        let p = get::<Program>(program)?;
        if notify.is_none() && !user.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let devices = ids(&chosen(&p.devices, n, devices)?);
        let options = entry::text(options);
        p.begin(&devices, &options)?;
        let foreseen = lock(&p.state).foreseen.clone();
        if let Some(outcome) = foreseen
            && notify.is_none()
            && devices.len() == p.devices.len()
        {
            let (program, options) = (p.id, options.as_str());
            let queued = p.server.queue(&wire::BuildLoaded { program, options });
            if queued.is_err() {
                return p.end(None);
            }
            p.finish_foreseen(&outcome);
            return Ok(());
        }
        let found = headers::collect(&p.source, &options);
        let msg = wire::BuildProgram {
            program: p.id,
            devices,
            options: &found.options,
            files: p.server.blob(&found.packed)?,
        };
        build(p, &msg, notify, user)
    })
}

/// `clCompileProgram`.
pub unsafe extern "C" fn compile_program(
    program: Handle,
    n: u32,
    devices: *const Handle,
    options: *const libc::c_char,
    n_headers: u32,
    headers: *const Handle,
    names: *const *const libc::c_char,
    notify: Option<Built>,
    user: Handle,
) -> i32 {
    // SAFETY: the program's handles, lists and texts.
    entry::status(|| unsafe {
        let p = get::<Program>(program)?;
        if notify.is_none() && !user.is_null()
            || (n_headers == 0) != headers.is_null()
            || headers.is_null() != names.is_null()
        {
            return Err(CL_INVALID_VALUE);
        }
        let devices = ids(&chosen(&p.devices, n, devices)?);
        let mut header_ids = Vec::new();
        let mut packed_names = Vec::new();
        for (h, name) in entry::list(n_headers, headers)
            .iter()
            .zip(entry::list(n_headers, names))
        {
            header_ids.push(get::<Program>(*h)?.id);
            packed_names.extend(entry::text(*name).plain());
        }
        if p.source.is_empty() && p.il.is_empty() {
            return Err(CL_INVALID_OPERATION);
        }
        let options = entry::text(options);
        p.begin(&devices, &options)?;
        let found = headers::collect(&p.source, &options);
        let msg = wire::CompileProgram {
            program: p.id,
            devices,
            options: &found.options,
            headers: header_ids,
            names: &packed_names,
            files: p.server.blob(&found.packed)?,
        };
        build(p, &msg, notify, user)
    })
}

/// `clLinkProgram`.
pub unsafe extern "C" fn link_program(
    context: Handle,
    n: u32,
    devices: *const Handle,
    options: *const libc::c_char,
    n_inputs: u32,
    inputs: *const Handle,
    notify: Option<Built>,
    user: Handle,
    code: *mut i32,
) -> Handle {
    let mut linked = CL_SUCCESS;
    // SAFETY: the program's handles, lists and text.
    let make = || unsafe {
        let c = get::<Context>(context)?;
        if n_inputs == 0 || inputs.is_null() || notify.is_none() && !user.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let devices = chosen(&c.devices, n, devices)?;
        let mut list = Vec::new();
        for h in entry::list(n_inputs, inputs) {
            list.push(get::<Program>(*h)?.id);
        }
        let options = entry::text(options);
        let id = c.server.id();
        let program = Object::new(c.server, id, Program::new(c, devices));
        let chosen = ids(&program.devices);
        program.begin(&chosen, &options)?;
        let msg = wire::LinkProgram {
            program: id,
            context: c.id,
            devices: chosen,
            options: &options,
            inputs: list,
        };
        match build(&program, &msg, notify, user) {
            // The program is there to be asked for its log.
            Err(e @ CL_LINK_PROGRAM_FAILURE) => linked = e,
            other => other?,
        }
        Ok(program.give())
    };
    // SAFETY: null or the program's.
    unsafe {
        let p = entry::object(code, make);
        if linked != CL_SUCCESS {
            entry::put(code, linked);
        }
        p
    }
}

/// `clRetainProgram`.
pub unsafe extern "C" fn retain_program(program: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe { object::retain::<Program>(program) })
}

/// `clReleaseProgram`.
pub unsafe extern "C" fn release_program(program: Handle) -> i32 {
    // SAFETY: the program's handle.
    entry::status(|| unsafe { object::release::<Program>(program) })
}

/// `clSetProgramReleaseCallback`.
pub unsafe extern "C" fn set_program_release_callback(
    program: Handle,
    f: Option<Goodbye>,
    user: Handle,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let p = unsafe { get::<Program>(program)? };
        // Only version 2.2 had constructors and destructors in programs.
        if !p.context.any(|d| d.version() == (2, 2)) {
            return Err(CL_INVALID_OPERATION);
        }
        p.goodbyes.add(f.ok_or(CL_INVALID_VALUE)?, user);
        Ok(())
    })
}

/// `clSetProgramSpecializationConstant`.
pub unsafe extern "C" fn set_program_specialization_constant(
    program: Handle,
    id: u32,
    size: usize,
    value: Handle,
) -> i32 {
    // SAFETY: the program's handle and value.
    entry::status(|| unsafe {
        let p = get::<Program>(program)?;
        if p.il.is_empty() {
            return Err(CL_INVALID_PROGRAM);
        }
        if value.is_null() || size == 0 {
            return Err(CL_INVALID_VALUE);
        }
        let value = std::slice::from_raw_parts(value.cast(), size);
        let msg = wire::SetSpecializationConstant {
            program: p.id,
            id,
            value,
        };
        p.server.call(&msg).map(drop)
    })
}
