//! Programs and kernels. Compilers take their time, so they run on threads of their own and answer
//! from there; the client asks for nothing of a program before it has that answer.

use super::built::Program;
use super::cache;
use super::cl::make;
use super::describe;
use super::headers::Headers;
use super::objects::Object;
use super::prelude::*;
use crate::answer::{Always, Encoded};
use crate::content::{Content, Hash};
use busbar_wire::codec::Message;
use busbar_wire::limits::BULK_CHUNK;
use std::ffi::CString;

/// Keeps a fresh build for later sessions, given its binaries.
fn keep(p: &Program, content: &Content, binaries: &[Vec<u8>]) {
    if let Some((key, info)) = p.take_fresh() {
        cache::store(content, &key, binaries, &info);
    }
}

/// The most builds at a time.
const MOST_BUILDS: usize = 64;

/// Milliseconds before a build that failed for no reason is tried again.
const PAUSES: [u64; 3] = [10, 50, 200];

/// Whether a compiler or linker failed and has nothing to say of the source. PoCL's processes share
/// a store on disk, and one that puts a program there first removes what it finds under the same
/// name: two that build the same for the first time can each remove it once, and the second one's
/// build fails. By then the program is there to be loaded.
fn unexplained(cl: &Cl, program: Handle, devices: &[(u32, Handle)], code: i32) -> bool {
    let failed = matches!(
        code,
        CL_BUILD_PROGRAM_FAILURE | CL_COMPILE_PROGRAM_FAILURE | CL_LINK_PROGRAM_FAILURE
    );
    let says = |d: &(u32, Handle)| {
        let log = describe::build_info(cl, program, d.1, CL_PROGRAM_BUILD_LOG);
        let log = String::from_utf8_lossy(&log.unwrap_or_default()).to_lowercase();
        log.contains("error")
    };
    failed && (program.is_null() || !devices.iter().any(says))
}

/// Does something, and again while that is `in_vain`, a few times.
fn persist<T>(mut attempt: impl FnMut() -> T, in_vain: impl Fn(&T) -> bool) -> T {
    let mut made = attempt();
    for pause in PAUSES {
        if !in_vain(&made) {
            break;
        }
        std::thread::sleep(Duration::from_millis(pause));
        made = attempt();
    }
    made
}

impl OpenCl {
    /// What the client is told of a program.
    fn described(&self, p: Handle, devices: &[(u32, Handle)]) -> Vec<u8> {
        let mut info = Vec::new();
        describe::program(self.cl, p, devices, |l| l, &mut Writer::new(&mut info));
        info
    }

    fn keep_program(
        &mut self,
        id: u32,
        context: Handle,
        source: Option<Hash>,
        made: Result<(Handle, Vec<(u32, Handle)>), i32>,
    ) -> Result<(), Fail> {
        let cl = self.cl;
        let made = made.map(|(raw, devices)| {
            Object::Program(Arc::new(Program {
                cl,
                raw,
                context,
                devices,
                source,
                built: Mutex::default(),
                building: Mutex::default(),
            }))
        });
        self.keep(id, made)
    }

    pub fn create_program_with_source(
        &mut self,
        m: wire::CreateProgramWithSource<'_>,
    ) -> Result<(), Fail> {
        let data = self.data(m.blob, m.data)?;
        let context = self.objects.context(m.context);
        let source = *blake3::hash(data.bytes()).as_bytes();
        let made = context.and_then(|c| {
            let devices = self.objects.context_devices(m.context)?;
            let f = self.cl.clCreateProgramWithSource;
            // An empty source must not look like one whose length is unknown.
            let text = match data.bytes() {
                [] => b" ",
                text => text,
            };
            let (mut list, len) = (text.as_ptr().cast(), text.len());
            // SAFETY: a context of ours and one text with its length.
            let p = make(|code| unsafe { f(c, 1, &raw mut list, &raw const len, code) })?;
            Ok((p, devices))
        });
        self.keep_program(m.program, context.unwrap_or(null_mut()), Some(source), made)
    }

    pub fn create_program_with_binary(
        &mut self,
        m: wire::CreateProgramWithBinary,
    ) -> Result<Always<Encoded>, Fail> {
        let program = m.program;
        let m = wire::LoadProgram {
            program,
            context: m.context,
            devices: m.devices,
            lengths: m.lengths,
            blob: m.blob,
        };
        let (code, statuses) = self.load(m)?;
        let info = match code {
            CL_SUCCESS => {
                let p = self.objects.program(program)?;
                self.described(p.raw, &p.devices)
            }
            _ => Vec::new(),
        };
        let statuses = statuses.iter().map(|s| *s as u32).collect();
        let info = &info;
        let reply = Encoded::of(&wire::CreateProgramWithBinaryReply { statuses, info });
        Ok(Always(code, reply))
    }

    pub fn load_program(&mut self, m: wire::LoadProgram) -> Result<(), Fail> {
        self.load(m).map(drop)
    }

    /// Makes a program from binaries. Returns the library's code and each binary's.
    fn load(&mut self, m: wire::LoadProgram) -> Result<(i32, Vec<i32>), Fail> {
        if self.native {
            self.content.clients_code_runs();
        }
        let data = self.data(m.blob, &[])?;
        let c = self.objects.context(m.context)?;
        let devices = self.objects.devices(&m.devices)?;
        if m.lengths.len() != devices.len() {
            return Err(Fail::Wire(WireError::BadValue("number of binaries")));
        }
        let (mut rest, mut binaries) = (data.bytes(), Vec::new());
        for n in &m.lengths {
            let cut = rest.split_at_checked(*n as usize);
            let (b, after) = cut.ok_or(WireError::BadValue("length of a binary"))?;
            binaries.push(b);
            rest = after;
        }
        let raw: Vec<_> = devices.iter().map(|d| d.1).collect();
        let (made, statuses) = cache::from_binaries(self.cl, c, &raw, &binaries);
        let code = made.err().unwrap_or(CL_SUCCESS);
        let made = made.map(|p| (p, devices));
        self.keep_program(m.program, c, None, made)?;
        Ok((code, statuses))
    }

    pub fn create_program_with_built_in_kernels(
        &mut self,
        m: wire::CreateProgramWithBuiltInKernels<'_>,
    ) -> Result<Encoded, Fail> {
        let c = self.objects.context(m.context)?;
        let devices = self.objects.devices(&m.devices)?;
        let raw: Vec<_> = devices.iter().map(|d| d.1).collect();
        let names = CString::new(m.names).map_err(|_| CL_INVALID_VALUE)?;
        let f = self.cl.clCreateProgramWithBuiltInKernels;
        let (n, list) = (raw.len() as u32, raw.as_ptr());
        // SAFETY: a context and devices of ours, and a C string.
        let p = make(|code| unsafe { f(c, n, list, names.as_ptr(), code) })?;
        let info = self.described(p, &devices);
        let made = Ok((p, devices));
        self.keep_program(m.program, c, None, made)?;
        Ok(Encoded::of(&wire::CreateProgramWithBuiltInKernelsReply {
            info: &info,
        }))
    }

    pub fn create_program_with_il(
        &mut self,
        m: wire::CreateProgramWithIl,
    ) -> Result<Encoded, Fail> {
        let data = self.data(m.blob, &[])?;
        let c = self.objects.context(m.context)?;
        let devices = self.objects.context_devices(m.context)?;
        let (b, mut code) = (data.bytes(), CL_INVALID_OPERATION);
        // SAFETY: a context of ours and as many bytes as we say.
        let p = unsafe {
            (self.cl.clCreateProgramWithIL)(c, b.as_ptr().cast(), b.len(), &raw mut code)
        };
        ok(code)?;
        let info = self.described(p, &devices);
        self.keep_program(m.program, c, None, Ok((p, devices)))?;
        Ok(Encoded::of(&wire::CreateProgramWithIlReply { info: &info }))
    }

    /// Runs a compiler on a thread of its own; `f` gets the program's handle. What comes of it is
    /// kept under `key` if it has one.
    fn compile(
        &self,
        program: Arc<Program>,
        headers: Headers,
        key: Option<(Hash, CString)>,
        f: impl Fn(&Cl, Handle, &Headers) -> i32 + Send + 'static,
    ) -> Result<Answered, Fail> {
        let call = self.record.call;
        let (outbox, printed) = (self.outbox.clone(), self.printed.clone());
        if Arc::strong_count(&self.builds) > MOST_BUILDS {
            return Err(Fail::Code(CL_OUT_OF_HOST_MEMORY));
        }
        let counted = self.builds.clone();
        let content = self.content.clone();
        let work = move || {
            let _counted = counted;
            let _alone = program.alone();
            program.unbuild();
            let hit = key
                .as_ref()
                .and_then(|(key, options)| cache::load(&content, key, &program, options));
            if let Some((kept, info)) = hit {
                program.built().kept = kept;
                let reply = wire::BuildProgramReply { info: &info };
                outbox.reply(call, CL_SUCCESS, |w| reply.encode(w));
                return;
            }
            let code = persist(
                || f(program.cl, program.raw, &headers),
                |code| unexplained(program.cl, program.raw, &program.devices, *code),
            );
            let mut info = Vec::new();
            let mut w = Writer::new(&mut info);
            let log = |l| headers.log(l);
            describe::program(program.cl, program.raw, &program.devices, log, &mut w);
            printed.flush();
            if let (CL_SUCCESS, Some((key, _))) = (code, key) {
                program.built().fresh = Some((key, info.clone()));
            }
            let reply = wire::BuildProgramReply { info: &info };
            outbox.reply(call, code, |w| reply.encode(w));
            let fresh = program.built().fresh.is_some();
            if fresh
                && program
                    .devices
                    .iter()
                    .all(|d| cache::is_cheap(program.cl, d.1))
                && let Ok(binaries) = cache::binaries(program.cl, program.raw)
            {
                keep(&program, &content, &binaries);
            }
        };
        let started = std::thread::Builder::new().name("build".into()).spawn(work);
        match started {
            Ok(_) => Ok(Answered),
            Err(_) => Err(Fail::Code(CL_OUT_OF_HOST_MEMORY)),
        }
    }

    /// The devices of a build that the program is for.
    fn chosen(&self, p: &Program, ids: &[u32]) -> Result<Devices, Fail> {
        let all = ids.iter().all(|id| p.devices.iter().any(|d| d.0 == *id));
        refuse_if(!all || ids.is_empty(), CL_INVALID_DEVICE)?;
        let devices = self.objects.devices(ids)?;
        Ok(Devices(devices.iter().map(|d| d.1).collect()))
    }

    pub fn build_program(&mut self, m: wire::BuildProgram<'_>) -> Result<Answered, Fail> {
        let files = self.data(m.files, &[])?;
        let p = self.objects.program(m.program)?;
        let devices = self.chosen(&p, &m.devices)?;
        let mut headers = Headers::unpack(files.bytes(), &self.header_room)?;
        let options = c_string(headers.options(m.options)?)?;
        // Only a build for all devices at once, with all it was given, is one thing to keep.
        let all = devices.get().len() == p.devices.len() && headers.whole;
        let source = p.source.filter(|_| all);
        let key = source.map(|source| {
            let key = cache::key(self.cl, &source, files.bytes(), m.options, &p.devices);
            (key, options.clone())
        });
        self.compile(p, headers, key, move |cl, p, _| {
            let list = devices.get();
            let (n, list) = (list.len() as u32, list.as_ptr());
            // SAFETY: objects of ours and a C string.
            unsafe { (cl.clBuildProgram)(p, n, list, options.as_ptr(), null(), null_mut()) }
        })
    }

    /// Builds in the executor: the binaries are this driver's own, and what follows may use the
    /// program.
    pub fn build_loaded(&mut self, m: wire::BuildLoaded<'_>) -> Result<(), Fail> {
        let p = self.objects.program(m.program)?;
        if p.source.is_some() {
            // The answer of such a build is the first build's, which one from source has not had.
            return Err(Fail::Wire(WireError::BadValue("program from binaries")));
        }
        let options = c_string(m.options.to_string())?;
        let list: Vec<_> = p.devices.iter().map(|d| d.1).collect();
        let (n, list) = (list.len() as u32, list.as_ptr());
        let f = self.cl.clBuildProgram;
        // SAFETY: objects of ours and a C string.
        ok(unsafe { f(p.raw, n, list, options.as_ptr(), null(), null_mut()) })?;
        Ok(())
    }

    pub fn compile_program(&mut self, m: wire::CompileProgram<'_>) -> Result<Answered, Fail> {
        let files = self.data(m.files, &[])?;
        let p = self.objects.program(m.program)?;
        let devices = self.chosen(&p, &m.devices)?;
        let mut headers = Headers::unpack(files.bytes(), &self.header_room)?;
        let options = c_string(headers.options(m.options)?)?;
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
        self.compile(p, headers, None, move |cl, p, _| {
            let list = devices.get();
            let raw: Vec<_> = sources.iter().map(|s| s.raw).collect();
            let mut names: Vec<_> = names.iter().map(|n| n.as_ptr()).collect();
            let (raw_list, name_list) = match raw.is_empty() {
                true => (null(), null_mut()),
                false => (raw.as_ptr(), names.as_mut_ptr()),
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
    pub fn link_program(&mut self, m: wire::LinkProgram<'_>) -> Result<Always<Encoded>, Fail> {
        let c = self.objects.context(m.context)?;
        let devices = self.objects.devices(&m.devices)?;
        let raw: Vec<_> = devices.iter().map(|d| d.1).collect();
        let inputs: Vec<_> = m
            .inputs
            .iter()
            .map(|id| Ok(self.objects.program(*id)?.raw()))
            .collect::<Result<_, i32>>()?;
        let options = c_string(m.options.to_string())?;
        let cl = self.cl;
        let link = || {
            let mut code = CL_INVALID_OPERATION;
            // SAFETY: objects of ours and a C string, each list as long as we say.
            let p = unsafe {
                (cl.clLinkProgram)(
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
            (p, code)
        };
        let (p, code) = persist(link, |(p, code)| {
            let in_vain = unexplained(cl, *p, &devices, *code);
            if in_vain && !p.is_null() {
                // SAFETY: a program that nobody else knows of, and another takes its place.
                unsafe { (cl.clReleaseProgram)(*p) };
            }
            in_vain
        });
        let (info, made) = match p.is_null() {
            true => (Vec::new(), Err(code)),
            false => (self.described(p, &devices), Ok((p, devices))),
        };
        self.keep_program(m.program, c, None, made)?;
        let reply = Encoded::of(&wire::LinkProgramReply { info: &info });
        Ok(Always(code, reply))
    }

    pub fn program_binaries(&mut self, m: wire::ProgramBinaries) -> Result<Encoded, Fail> {
        let p = self.objects.program(m.program)?;
        let _alone = p.alone();
        let sizes = cache::binary_sizes(self.cl, p.raw())?;
        let mut data = Vec::new();
        if m.bytes == 0 && sizes.iter().sum::<u64>() <= BULK_CHUNK as u64 {
            // Who asks for sizes asks for the binaries next.
            if let Ok(binaries) = cache::binaries(self.cl, p.raw()) {
                data = binaries.concat();
                keep(&p, &self.content, &binaries);
            }
        }
        if m.bytes > 0 {
            if sizes.iter().sum::<u64>() != m.bytes {
                return Err(Fail::Code(CL_INVALID_VALUE));
            }
            let binaries = cache::binaries(self.cl, p.raw())?;
            let mut at = 0;
            for b in &binaries {
                self.outbox.chunk(self.record.call, at, b);
                at += b.len() as u64;
            }
            keep(&p, &self.content, &binaries);
        }
        let data = &data;
        Ok(Encoded::of(&wire::ProgramBinariesReply { sizes, data }))
    }

    pub fn set_specialization_constant(
        &mut self,
        m: wire::SetSpecializationConstant<'_>,
    ) -> Result<(), Fail> {
        let p = self.objects.program(m.program)?;
        let f = self.cl.clSetProgramSpecializationConstant;
        // SAFETY: a program of ours and as many bytes as we say.
        ok(unsafe { f(p.raw, m.id, m.value.len(), m.value.as_ptr().cast()) })?;
        Ok(())
    }

    pub fn create_kernel(&mut self, m: wire::CreateKernel<'_>) -> Result<(), Fail> {
        let made = self.objects.program(m.program).and_then(|p| {
            let name = CString::new(m.name).map_err(|_| CL_INVALID_KERNEL_NAME)?;
            // SAFETY: a program of ours and a C string.
            let k = make(|code| unsafe { (self.cl.clCreateKernel)(p.raw(), name.as_ptr(), code) })?;
            Ok(Object::Kernel(k, p))
        });
        self.keep(m.kernel, made)
    }

    pub fn clone_kernel(&mut self, m: wire::CloneKernel<'_>) -> Result<(), Fail> {
        let source = self.objects.kernel(m.source);
        if let Ok(k) = source {
            self.set_args(k, m.args)?;
        }
        let made = source.and_then(|k| {
            let program = self.objects.kernel_program(m.source)?;
            // SAFETY: a kernel of ours.
            let copy = make(|code| unsafe { (self.cl.clCloneKernel)(k, code) })?;
            Ok(Object::Kernel(copy, program))
        });
        self.keep(m.kernel, made)
    }

    pub fn sub_group_info(&mut self, m: wire::SubGroupInfo<'_>) -> Result<Encoded, Fail> {
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
            let (room, place) = (value.len(), value.as_mut_ptr().cast());
            f(k, d, m.param, m.input.len(), input, room, place, &raw mut n)
        })?;
        value.truncate(n);
        Ok(Encoded::of(&wire::SubGroupInfoReply { value: &value }))
    }

    pub fn suggested_local_size(
        &mut self,
        m: wire::SuggestedLocalSize<'_>,
    ) -> Result<wire::SuggestedLocalSizeReply, Fail> {
        type Sizes = *const usize;
        type Suggest = unsafe extern "C" fn(Handle, Handle, u32, Sizes, Sizes, *mut usize) -> i32;
        let (q, k) = (
            self.objects.queue(m.queue)?.raw,
            self.objects.kernel(m.kernel)?,
        );
        self.set_args(k, m.args)?;
        let platform = self.platforms.first().map_or(null_mut(), |p| p.0);
        let name = c"clGetKernelSuggestedLocalWorkSizeKHR".as_ptr();
        // SAFETY: a platform of the library and a C string.
        let f = unsafe { (self.cl.clGetExtensionFunctionAddressForPlatform)(platform, name) };
        refuse_if(f.is_null(), CL_INVALID_OPERATION)?;
        refuse_if(!(1..=3).contains(&m.dims), CL_INVALID_OPERATION)?;
        let (offset, global) = (m.offset.map(|v| v as usize), m.global.map(|v| v as usize));
        let mut local = [1usize; 3];
        // SAFETY: the extension gives the function this type; three sizes are more than enough.
        ok(unsafe {
            let f = std::mem::transmute::<*mut c_void, Suggest>(f);
            let (o, g, l) = (offset.as_ptr(), global.as_ptr(), local.as_mut_ptr());
            f(q, k, m.dims, o, g, l)
        })?;
        let local = local.map(|v| v as u64);
        Ok(wire::SuggestedLocalSizeReply { local })
    }
}

fn c_string(s: String) -> Result<CString, Fail> {
    CString::new(s).map_err(|_| Fail::Code(CL_INVALID_BUILD_OPTIONS))
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
