//! Programs: their builds, their binaries and their kernels.

use super::headers;
use super::prelude::*;
use crate::calls::Answer;
use crate::opencl::arguments::OfObject;
use crate::opencl::call::{Context, Device, Kernel, Program, Ref, decode};
use crate::opencl::state::User;
use crate::opencl::state::args::Args;
use crate::opencl::state::builds::Outcome;
use crate::opencl::state::kernel::KernelInfo;
use busbar_wire::codec::Request;

/// The most bytes of a program's binaries, whatever the server says.
const MOST_BINARIES: u64 = 1 << 30;

/// Who hears of the end of a build: nobody, and the call waits; or a function of the program.
pub type Notified = Option<(OfObject, User)>;

/// Takes in what the worker says of a program.
pub fn learn(p: &Program, info: &[u8]) -> Result<()> {
    lock(&p.builds).learn(info).map_err(|_| LOST)
}

fn end(p: &Program, answer: Option<&Answer>) -> Result<()> {
    let (status, info) = match answer {
        Some(a) => (a.status, a.body.as_slice()),
        None => (LOST, &[][..]),
    };
    let learnt = decode::<wire::BuildProgramReply>(info).and_then(|r| learn(p, r.info));
    lock(&p.builds).end();
    match status {
        CL_SUCCESS => learnt,
        e => Err(e),
    }
}

/// Sends a build and waits for its end, or has the program told of its end.
fn run<'a, R: Request<'a>>(p: &Object<Program>, msg: &R, notify: Notified) -> Result<()> {
    let Some((f, user)) = notify else {
        let answer = p.server.session.call(0, msg, None);
        return end(p, answer.ok().as_ref());
    };
    let kept = p.keep();
    let done = move |answer: Option<Answer>| {
        let _ = end(&kept, answer.as_ref());
        let hub = &kept.server.hub;
        // SAFETY: the program's function with what it asked for; the object is kept alive.
        let tell = move || unsafe { f(kept.handle(), user.get()) };
        hub.runner.run(Box::new(tell));
    };
    // SAFETY: no memory is lent.
    unsafe { p.server.session.call_async(0, msg, None, done) }.map_err(|_| LOST)?;
    p.server.session.flush();
    Ok(())
}

/// Compiles and links.
pub fn build(
    p: &Object<Program>,
    devices: Vec<u32>,
    options: &str,
    notify: Notified,
) -> Result<()> {
    p.begin(&devices, options)?;
    let foreseen = lock(&p.builds).is_foreseen();
    if foreseen && notify.is_none() && devices.len() == p.devices.len() {
        let program = p.id;
        let queued = p.server.queue(&wire::BuildLoaded { program, options });
        if queued.is_err() {
            return end(p, None);
        }
        lock(&p.builds).fulfil();
        return Ok(());
    }
    let found = headers::collect(p.source.as_deref().unwrap_or_default(), options);
    let msg = wire::BuildProgram {
        program: p.id,
        devices,
        options: &found.options,
        files: p.server.blob(&found.packed)?,
    };
    run(p, &msg, notify)
}

/// Compiles, with programs as headers under `names`.
pub fn compile(
    p: &Object<Program>,
    devices: Vec<u32>,
    options: &str,
    (headers, names): (Vec<u32>, &[u8]),
    notify: Notified,
) -> Result<()> {
    p.begin(&devices, options)?;
    let found = headers::collect(p.source.as_deref().unwrap_or_default(), options);
    let msg = wire::CompileProgram {
        program: p.id,
        devices,
        options: &found.options,
        headers,
        names,
        files: p.server.blob(&found.packed)?,
    };
    run(p, &msg, notify)
}

/// Links compiled programs into a new one. A failure leaves the program to be asked for its log.
pub fn link(
    c: &Object<Context>,
    devices: Vec<Ref<Device>>,
    options: &str,
    inputs: Vec<u32>,
    notify: Notified,
) -> Result<(Handle, i32)> {
    let program = Object::new(c.server, c.server.id(), Program::new(c, devices));
    let devices = program.ids();
    program.begin(&devices, options)?;
    let msg = wire::LinkProgram {
        program: program.id,
        context: c.id,
        devices,
        options,
        inputs,
    };
    let code = match run(&program, &msg, notify) {
        Ok(()) => CL_SUCCESS,
        Err(e @ CL_LINK_PROGRAM_FAILURE) => e,
        Err(e) => return Err(e),
    };
    Ok((program.give(), code))
}

/// A program from one binary for each device, and how each of them was taken.
pub fn load(
    c: &Object<Context>,
    devices: Vec<Ref<Device>>,
    (lengths, all): (Vec<u64>, &[u8]),
    mut told: impl FnMut(usize, i32),
) -> Result<Handle> {
    let (id, context) = (c.server.id(), c.id);
    let program = Object::new(c.server, id, Program::new(c, devices));
    let (devices, blob) = (program.ids(), c.server.blob(all)?);
    let known = lock(&c.server.given).find(&lengths, all);
    if let Some(outcome) = known.filter(|o: &Arc<Outcome>| o.is_for(&devices)) {
        (0..devices.len()).for_each(|i| told(i, CL_SUCCESS));
        c.server.queue(&wire::LoadProgram {
            program: id,
            context,
            devices,
            lengths,
            blob,
        })?;
        lock(&program.builds).foresee(outcome);
        return Ok(program.give());
    }
    let msg = wire::CreateProgramWithBinary {
        program: id,
        context,
        devices,
        lengths,
        blob,
    };
    let answer = c.server.session.call(0, &msg, None).map_err(|_| LOST)?;
    let reply = decode::<wire::CreateProgramWithBinaryReply>(&answer.body);
    if let Ok(r) = &reply {
        let statuses = r.statuses.iter().take(program.devices.len());
        statuses.enumerate().for_each(|(i, s)| told(i, *s as i32));
    }
    match answer.status {
        CL_SUCCESS => learn(&program, reply?.info)?,
        e => return Err(e),
    }
    Ok(program.give())
}

/// The sizes of a program's binaries.
pub fn binary_sizes(p: &Object<Program>) -> Result<Vec<u64>> {
    if let Some(s) = &lock(&p.builds).sizes {
        return Ok(s.clone());
    }
    let (program, bytes) = (p.id, 0);
    let body = p.server.call(&wire::ProgramBinaries { program, bytes })?;
    let reply = decode::<wire::ProgramBinariesReply>(&body)?;
    let sizes = reply.sizes;
    let total = sizes.iter().try_fold(0u64, |all, n| all.checked_add(*n));
    let total = total.filter(|n| *n <= MOST_BINARIES).ok_or(LOST)?;
    refuse_if(sizes.len() != p.devices.len(), LOST)?;
    let mut s = lock(&p.builds);
    if total == reply.data.len() as u64 {
        s.binaries = reply.data.to_vec();
    }
    s.sizes = Some(sizes.clone());
    Ok(sizes)
}

/// A program's binaries, one after the other, and their sizes.
pub fn binaries(p: &Object<Program>) -> Result<(Vec<u64>, Vec<u8>)> {
    let sizes = binary_sizes(p)?;
    let total: u64 = sizes.iter().sum();
    let mut all = std::mem::take(&mut lock(&p.builds).binaries);
    if all.len() as u64 != total {
        all = vec![0u8; total as usize];
        let msg = wire::ProgramBinaries {
            program: p.id,
            bytes: total,
        };
        let place = (all.as_mut_ptr(), all.len());
        p.server.call_into(&msg, Some(place))?;
    }
    let outcome = lock(&p.builds).outcome();
    if let Some(outcome) = outcome {
        lock(&p.server.given).add(&sizes, &all, outcome);
    }
    Ok((sizes, all))
}

/// A kernel of a program.
pub fn create_kernel(p: &Object<Program>, info: Arc<KernelInfo>) -> Result<Ref<Kernel>> {
    let id = p.server.id();
    p.server.queue(&wire::CreateKernel {
        kernel: id,
        program: p.id,
        name: &info.name,
    })?;
    let args = Args::new(info.n_args);
    let kernel = Kernel::new(p.keep(), info, args);
    Ok(Object::new(p.server, id, kernel))
}
