//! Programs and kernels. Compilers take their time, so they run on threads of their own and answer
//! from there; the client asks for nothing of a program before it has that answer.

use super::cl::{Cl, ask};
use super::describe;
use super::objects::Object;
use super::{Fail, OpenCl, ok};
use busbar_abi::opencl::*;
use busbar_wire::codec::Message;
use busbar_wire::generated::opencl as wire;
use busbar_wire::limits::BULK_CHUNK;
use busbar_wire::{Reader, WireError, Writer};
use std::ffi::{CString, OsString, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// A program of the library.
pub struct Program {
    cl: &'static Cl,
    raw: Handle,
    /// Its devices.
    pub devices: Vec<(u32, Handle)>,
}

// SAFETY: programs are reference-counted objects of a thread-safe API.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the one reference that we have.
        unsafe { (self.cl.clReleaseProgram)(self.raw) };
    }
}

/// The most builds at a time.
const MOST_BUILDS: usize = 64;

/// Headers of the client's in a folder of this machine, for the length of a build.
struct Headers(Option<PathBuf>);

impl Drop for Headers {
    fn drop(&mut self) {
        if let Some(d) = &self.0 {
            let _ = std::fs::remove_dir_all(d);
        }
    }
}

/// A path of the client's below a folder of ours, and nowhere else.
fn below(root: &Path, path: &str) -> PathBuf {
    let mut out = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(p) => out.push(p),
            Component::ParentDir => {
                out.pop();
            }
            _ => {}
        }
    }
    root.join(out)
}

impl Headers {
    fn unpack(files: &[u8]) -> Result<Self, Fail> {
        if files.is_empty() {
            return Ok(Self(None));
        }
        // A new folder that is ours alone: nobody can have put a link in its place.
        let name = std::env::temp_dir().join("busbar-headers-XXXXXX");
        let mut name = name.into_os_string().into_encoded_bytes();
        name.push(0);
        // SAFETY: a C string that ends in six X, to be written to.
        if unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) }.is_null() {
            return Err(Fail::Cl(CL_OUT_OF_HOST_MEMORY));
        }
        name.pop();
        let root = PathBuf::from(OsString::from_vec(name));
        let this = Self(Some(root.clone()));
        let mut r = Reader::new(files);
        for _ in 0..r.count(1 << 16, 8)? {
            let (path, contents) = (r.str()?, r.bytes()?);
            let to = below(&root, path);
            let written = to
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| std::fs::write(&to, contents));
            // A header that cannot be stored shows as a missing one in the build's log.
            if written.is_err() {
                break;
            }
        }
        Ok(this)
    }

    /// The options with include folders where the headers are now.
    fn options(&self, options: &str) -> String {
        let mut out = String::new();
        let mut rest = options;
        while let Some(i) = rest.find("-I\"") {
            out.push_str(&rest[..i]);
            rest = &rest[i + 3..];
            let end = rest.find('"').unwrap_or(rest.len());
            let mut dir = rest[..end].to_string();
            if let Some(root) = &self.0 {
                let here = below(root, &dir);
                let _ = std::fs::create_dir_all(&here);
                dir = here.display().to_string();
            }
            // Some drivers split options at blanks and know no quotes.
            match dir.contains(' ') {
                true => out.push_str(&format!("-I\"{dir}\"")),
                false => out.push_str(&format!("-I{dir}")),
            }
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        out.push_str(rest);
        out
    }

    /// A log without the folder that only this machine has.
    fn log(&self, log: Vec<u8>) -> Vec<u8> {
        match &self.0 {
            None => log,
            Some(root) => String::from_utf8_lossy(&log)
                .replace(&root.display().to_string(), "")
                .into_bytes(),
        }
    }
}

impl OpenCl {
    fn keep_program(
        &mut self,
        id: u32,
        op: u16,
        made: Result<(Handle, Vec<(u32, Handle)>), i32>,
    ) -> Result<(), Fail> {
        let cl = self.cl;
        let made =
            made.map(|(raw, devices)| Object::Program(Arc::new(Program { cl, raw, devices })));
        self.keep(id, op, made)
    }

    pub(super) fn create_program_with_source(
        &mut self,
        m: wire::CreateProgramWithSource<'_>,
    ) -> Result<(), Fail> {
        let data = self.data(m.blob, m.data)?;
        let made = self.objects.context(m.context).and_then(|c| {
            let devices = self.objects.context_devices(m.context)?;
            let (text, len) = (data.bytes().as_ptr(), data.bytes().len());
            let mut code = CL_INVALID_OPERATION;
            let f = self.cl.clCreateProgramWithSource;
            // An empty source must not look like one whose length is unknown.
            let (text, len) = if len == 0 {
                (c" ".as_ptr().cast(), 1)
            } else {
                (text, len)
            };
            // SAFETY: a context of ours and one text with its length.
            let p = unsafe { f(c, 1, &raw const text, &raw const len, &raw mut code) };
            ok(code).map(|()| (p, devices))
        });
        self.keep_program(m.program, wire::op::CREATE_PROGRAM_WITH_SOURCE, made)
    }

    pub(super) fn create_program_with_binary(
        &mut self,
        m: wire::CreateProgramWithBinary,
        call: u32,
    ) -> Result<(), Fail> {
        let data = self.data(m.blob, &[])?;
        let c = self.objects.context(m.context)?;
        let devices = self.objects.devices(&m.devices)?;
        if m.lengths.len() != devices.len() {
            return Err(Fail::Wire(WireError::BadValue("number of binaries")));
        }
        let (mut at, mut binaries, mut lengths) = (0, Vec::new(), Vec::new());
        for n in &m.lengths {
            let n = *n as usize;
            let Some(b) = data.bytes().get(at..).and_then(|b| b.get(..n)) else {
                return Err(Fail::Wire(WireError::BadValue("length of a binary")));
            };
            binaries.push(b.as_ptr());
            lengths.push(n);
            at += n;
        }
        let raw: Vec<_> = devices.iter().map(|d| d.1).collect();
        let mut statuses = vec![CL_INVALID_VALUE; raw.len()];
        let mut code = CL_INVALID_OPERATION;
        // SAFETY: lists of one length, each binary with its own.
        let p = unsafe {
            (self.cl.clCreateProgramWithBinary)(
                c,
                raw.len() as u32,
                raw.as_ptr(),
                lengths.as_ptr(),
                binaries.as_ptr(),
                statuses.as_mut_ptr(),
                &raw mut code,
            )
        };
        let mut info = Vec::new();
        if code == CL_SUCCESS {
            describe::program(self.cl, p, &devices, |l| l, &mut Writer::new(&mut info));
        }
        let made = ok(code).map(|()| (p, devices));
        self.keep_program(m.program, wire::op::CREATE_PROGRAM_WITH_BINARY, made)?;
        let statuses = statuses.iter().map(|s| *s as u32).collect();
        let reply = wire::CreateProgramWithBinaryReply {
            statuses,
            info: &info,
        };
        self.outbox.reply(call, code, |w| reply.encode(w));
        Ok(())
    }

    pub(super) fn create_program_with_built_in_kernels(
        &mut self,
        m: wire::CreateProgramWithBuiltInKernels<'_>,
        call: u32,
    ) -> Result<(), Fail> {
        let c = self.objects.context(m.context)?;
        let devices = self.objects.devices(&m.devices)?;
        let raw: Vec<_> = devices.iter().map(|d| d.1).collect();
        let names = CString::new(m.names).map_err(|_| CL_INVALID_VALUE)?;
        let mut code = CL_INVALID_OPERATION;
        let f = self.cl.clCreateProgramWithBuiltInKernels;
        // SAFETY: a context and devices of ours, and a C string.
        let p = unsafe {
            f(
                c,
                raw.len() as u32,
                raw.as_ptr(),
                names.as_ptr(),
                &raw mut code,
            )
        };
        ok(code)?;
        let mut info = Vec::new();
        describe::program(self.cl, p, &devices, |l| l, &mut Writer::new(&mut info));
        let made = Ok((p, devices));
        self.keep_program(
            m.program,
            wire::op::CREATE_PROGRAM_WITH_BUILT_IN_KERNELS,
            made,
        )?;
        self.answer(
            call,
            &wire::CreateProgramWithBuiltInKernelsReply { info: &info },
        );
        Ok(())
    }

    pub(super) fn create_program_with_il(
        &mut self,
        m: wire::CreateProgramWithIl,
        call: u32,
    ) -> Result<(), Fail> {
        let data = self.data(m.blob, &[])?;
        let c = self.objects.context(m.context)?;
        let devices = self.objects.context_devices(m.context)?;
        let (b, mut code) = (data.bytes(), CL_INVALID_OPERATION);
        // SAFETY: a context of ours and as many bytes as we say.
        let p = unsafe {
            (self.cl.clCreateProgramWithIL)(c, b.as_ptr().cast(), b.len(), &raw mut code)
        };
        ok(code)?;
        let mut info = Vec::new();
        describe::program(self.cl, p, &devices, |l| l, &mut Writer::new(&mut info));
        self.keep_program(
            m.program,
            wire::op::CREATE_PROGRAM_WITH_IL,
            Ok((p, devices)),
        )?;
        self.answer(call, &wire::CreateProgramWithIlReply { info: &info });
        Ok(())
    }

    /// Runs a compiler on a thread of its own; `f` gets the program's handle.
    fn compile(
        &self,
        program: Arc<Program>,
        call: u32,
        headers: Headers,
        f: impl FnOnce(&Cl, Handle, &Headers) -> i32 + Send + 'static,
    ) -> Result<(), Fail> {
        let (outbox, output) = (self.outbox.clone(), self.output.clone());
        if Arc::strong_count(&self.builds) > MOST_BUILDS {
            return Err(Fail::Cl(CL_OUT_OF_HOST_MEMORY));
        }
        let counted = self.builds.clone();
        let work = move || {
            let _counted = counted;
            let code = f(program.cl, program.raw, &headers);
            let mut info = Vec::new();
            let mut w = Writer::new(&mut info);
            let log = |l| headers.log(l);
            describe::program(program.cl, program.raw, &program.devices, log, &mut w);
            output.drain();
            let reply = wire::BuildProgramReply { info: &info };
            outbox.reply(call, code, |w| reply.encode(w));
        };
        let started = std::thread::Builder::new()
            .name("busbar-build".into())
            .spawn(work);
        match started {
            Ok(_) => Ok(()),
            Err(_) => Err(Fail::Cl(CL_OUT_OF_HOST_MEMORY)),
        }
    }

    /// The devices of a build that the program is for.
    fn chosen(&self, p: &Program, ids: &[u32]) -> Result<Devices, Fail> {
        let all = ids.iter().all(|id| p.devices.iter().any(|d| d.0 == *id));
        if !all || ids.is_empty() {
            return Err(Fail::Cl(CL_INVALID_DEVICE));
        }
        let devices = self.objects.devices(ids)?;
        Ok(Devices(devices.iter().map(|d| d.1).collect()))
    }

    pub(super) fn build_program(
        &mut self,
        m: wire::BuildProgram<'_>,
        call: u32,
    ) -> Result<(), Fail> {
        let files = self.data(m.files, &[])?;
        let p = self.objects.program(m.program)?;
        let devices = self.chosen(&p, &m.devices)?;
        let headers = Headers::unpack(files.bytes())?;
        let options = c_string(headers.options(m.options))?;
        self.compile(p, call, headers, move |cl, p, _| {
            let list = devices.get();
            let (n, list) = (list.len() as u32, list.as_ptr());
            // SAFETY: objects of ours and a C string.
            unsafe { (cl.clBuildProgram)(p, n, list, options.as_ptr(), null(), null_mut()) }
        })
    }

    pub(super) fn compile_program(
        &mut self,
        m: wire::CompileProgram<'_>,
        call: u32,
    ) -> Result<(), Fail> {
        let files = self.data(m.files, &[])?;
        let p = self.objects.program(m.program)?;
        let devices = self.chosen(&p, &m.devices)?;
        let headers = Headers::unpack(files.bytes())?;
        let options = c_string(headers.options(m.options))?;
        let sources: Vec<_> = m
            .headers
            .iter()
            .map(|id| self.objects.program(*id))
            .collect::<Result<_, _>>()?;
        let names: Vec<_> = m
            .names
            .split(|b| *b == 0)
            .take(sources.len())
            .map(|n| CString::new(n).map_err(|_| CL_INVALID_VALUE))
            .collect::<Result<_, _>>()?;
        if names.len() != sources.len() {
            return Err(Fail::Wire(WireError::BadValue("number of header names")));
        }
        self.compile(p, call, headers, move |cl, p, _| {
            let list = devices.get();
            let raw: Vec<_> = sources.iter().map(|s| s.raw).collect();
            let names: Vec<_> = names.iter().map(|n| n.as_ptr()).collect();
            let (raw_list, name_list) = match raw.is_empty() {
                true => (null(), null()),
                false => (raw.as_ptr(), names.as_ptr()),
            };
            // SAFETY: objects of ours and C strings, each list as long as we say.
            unsafe {
                (cl.clCompileProgram)(
                    p,
                    list.len() as u32,
                    list.as_ptr(),
                    options.as_ptr(),
                    raw.len() as u32,
                    raw_list,
                    name_list,
                    null(),
                    null_mut(),
                )
            }
        })
    }

    /// Links in the executor: the new program must be there for messages that follow at once.
    pub(super) fn link_program(&mut self, m: wire::LinkProgram<'_>, call: u32) -> Result<(), Fail> {
        let c = self.objects.context(m.context)?;
        let devices = self.objects.devices(&m.devices)?;
        let raw: Vec<_> = devices.iter().map(|d| d.1).collect();
        let inputs: Vec<_> = m
            .inputs
            .iter()
            .map(|id| Ok(self.objects.program(*id)?.raw))
            .collect::<Result<_, i32>>()?;
        let options = c_string(m.options.to_string())?;
        let mut code = CL_INVALID_OPERATION;
        // SAFETY: objects of ours and a C string, each list as long as we say.
        let p = unsafe {
            (self.cl.clLinkProgram)(
                c,
                raw.len() as u32,
                raw.as_ptr(),
                options.as_ptr(),
                inputs.len() as u32,
                inputs.as_ptr(),
                null(),
                null_mut(),
                &raw mut code,
            )
        };
        let mut info = Vec::new();
        if !p.is_null() {
            describe::program(self.cl, p, &devices, |l| l, &mut Writer::new(&mut info));
        }
        let made = match p.is_null() {
            true => Err(code),
            false => Ok((p, devices)),
        };
        self.keep_program(m.program, wire::op::LINK_PROGRAM, made)?;
        let reply = wire::LinkProgramReply { info: &info };
        self.outbox.reply(call, code, |w| reply.encode(w));
        Ok(())
    }

    pub(super) fn program_binaries(
        &mut self,
        m: wire::ProgramBinaries,
        call: u32,
    ) -> Result<(), Fail> {
        let p = self.objects.program(m.program)?;
        let info = |param, n, v: *mut c_void, r: *mut usize| {
            // SAFETY: a program of ours; the callers below give matching sizes.
            unsafe { (self.cl.clGetProgramInfo)(p.raw, param, n, v, r) }
        };
        let sizes = ask(|n, v, r| info(CL_PROGRAM_BINARY_SIZES, n, v, r), 1 << 20)?;
        let sizes: Vec<u64> = sizes
            .chunks_exact(8)
            .map(|c| c.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
            .collect();
        if m.bytes > 0 {
            let total: u64 = sizes.iter().sum();
            if total != m.bytes {
                return Err(Fail::Cl(CL_INVALID_VALUE));
            }
            let mut all = vec![0u8; total as usize];
            let (mut at, mut places) = (0, Vec::new());
            for n in &sizes {
                places.push(all[at..].as_mut_ptr());
                at += *n as usize;
            }
            let bytes = places.len() * size_of::<usize>();
            ok(info(
                CL_PROGRAM_BINARIES,
                bytes,
                places.as_mut_ptr().cast(),
                null_mut(),
            ))?;
            for (i, piece) in all.chunks(BULK_CHUNK).enumerate() {
                self.outbox.chunk(call, (i * BULK_CHUNK) as u64, piece);
            }
        }
        self.answer(call, &wire::ProgramBinariesReply { sizes });
        Ok(())
    }

    pub(super) fn set_specialization_constant(
        &mut self,
        m: wire::SetSpecializationConstant<'_>,
        call: u32,
    ) -> Result<(), Fail> {
        let p = self.objects.program(m.program)?;
        let f = self.cl.clSetProgramSpecializationConstant;
        // SAFETY: a program of ours and as many bytes as we say.
        ok(unsafe { f(p.raw, m.id, m.value.len(), m.value.as_ptr().cast()) })?;
        self.done(call);
        Ok(())
    }

    pub(super) fn create_kernel(&mut self, m: wire::CreateKernel<'_>) -> Result<(), Fail> {
        let made = self.objects.program(m.program).and_then(|p| {
            let name = CString::new(m.name).map_err(|_| CL_INVALID_KERNEL_NAME)?;
            let mut code = CL_INVALID_OPERATION;
            // SAFETY: a program of ours and a C string.
            let k = unsafe { (self.cl.clCreateKernel)(p.raw, name.as_ptr(), &raw mut code) };
            ok(code).map(|()| Object::Kernel(k, p))
        });
        self.keep(m.kernel, wire::op::CREATE_KERNEL, made)
    }

    pub(super) fn clone_kernel(&mut self, m: wire::CloneKernel<'_>) -> Result<(), Fail> {
        let source = self.objects.kernel(m.source);
        if let Ok(k) = source {
            self.set_args(k, m.args)?;
        }
        let made = source.and_then(|k| {
            let program = self.objects.kernel_program(m.source)?;
            let mut code = CL_INVALID_OPERATION;
            // SAFETY: a kernel of ours.
            let copy = unsafe { (self.cl.clCloneKernel)(k, &raw mut code) };
            ok(code).map(|()| Object::Kernel(copy, program))
        });
        self.keep(m.kernel, wire::op::CLONE_KERNEL, made)
    }

    pub(super) fn sub_group_info(
        &mut self,
        m: wire::SubGroupInfo<'_>,
        call: u32,
    ) -> Result<(), Fail> {
        let (k, d) = (
            self.objects.kernel(m.kernel)?,
            self.objects.device(m.device)?,
        );
        let mut value = vec![0u8; m.most.min(4096) as usize];
        let mut n = 0;
        let input = if m.input.is_empty() {
            null()
        } else {
            m.input.as_ptr().cast()
        };
        let f = self.cl.clGetKernelSubGroupInfo;
        // SAFETY: objects of ours; both memories have the sizes given.
        ok(unsafe {
            let place = value.as_mut_ptr().cast();
            f(
                k,
                d,
                m.param,
                m.input.len(),
                input,
                value.len(),
                place,
                &raw mut n,
            )
        })?;
        value.truncate(n);
        self.answer(call, &wire::SubGroupInfoReply { value: &value });
        Ok(())
    }

    pub(super) fn suggested_local_size(
        &mut self,
        m: wire::SuggestedLocalSize<'_>,
        call: u32,
    ) -> Result<(), Fail> {
        type Suggest = unsafe extern "C" fn(
            Handle,
            Handle,
            u32,
            *const usize,
            *const usize,
            *mut usize,
        ) -> i32;
        let (q, k) = (
            self.objects.queue(m.queue)?.raw,
            self.objects.kernel(m.kernel)?,
        );
        self.set_args(k, m.args)?;
        let platform = self.platforms.first().map_or(null_mut(), |p| p.0);
        let name = c"clGetKernelSuggestedLocalWorkSizeKHR".as_ptr();
        // SAFETY: a platform of the library and a C string.
        let f = unsafe { (self.cl.clGetExtensionFunctionAddressForPlatform)(platform, name) };
        if f.is_null() || !(1..=3).contains(&m.dims) {
            return Err(Fail::Cl(CL_INVALID_OPERATION));
        }
        let (offset, global) = (m.offset.map(|v| v as usize), m.global.map(|v| v as usize));
        let mut local = [1usize; 3];
        // SAFETY: the extension gives the function this type; three sizes are more than enough.
        ok(unsafe {
            let f = std::mem::transmute::<*mut c_void, Suggest>(f);
            f(
                q,
                k,
                m.dims,
                offset.as_ptr(),
                global.as_ptr(),
                local.as_mut_ptr(),
            )
        })?;
        let local = local.map(|v| v as u64);
        self.answer(call, &wire::SuggestedLocalSizeReply { local });
        Ok(())
    }
}

fn c_string(s: String) -> Result<CString, Fail> {
    CString::new(s).map_err(|_| Fail::Cl(CL_INVALID_BUILD_OPTIONS))
}

/// Devices for another thread.
struct Devices(Vec<Handle>);

// SAFETY: devices are objects of a thread-safe API.
unsafe impl Send for Devices {}

impl Devices {
    fn get(&self) -> &[Handle] {
        &self.0
    }
}
