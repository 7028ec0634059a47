//! Context-independent libraries and kernels.

#[custom] #[cx] #[get_proc("cuKernelGetAttribute", 12000)]
fn cuKernelGetAttribute(
    #[out] pi: *mut i32,
    attrib: CUfunction_attribute,
    kernel: CUkernel,
    dev: CUdevice,
) -> CUresult;

#[custom] #[cx(context)] #[get_proc("cuKernelGetFunction", 12000)]
fn cuKernelGetFunction(#[new] pFunc: *mut CUfunction, kernel: CUkernel) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuKernelGetLibrary", 12050)]
fn cuKernelGetLibrary(#[gives(one)] pLib: *mut CUlibrary, kernel: CUkernel) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuKernelGetName", 12030)]
fn cuKernelGetName(#[out] name: *mut *const c_char, hfunc: CUkernel) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuKernelGetParamInfo", 12040)]
fn cuKernelGetParamInfo(
    kernel: CUkernel,
    paramIndex: usize,
    #[out] paramOffset: *mut usize,
    #[out(optional)] paramSize: *mut usize,
) -> CUresult;

#[cx] #[is(engine::attributes::set_attribute(kernel, attrib, val, dev))] #[get_proc("cuKernelSetAttribute", 12000)]
fn cuKernelSetAttribute(
    attrib: CUfunction_attribute,
    val: i32,
    kernel: CUkernel,
    dev: CUdevice,
) -> CUresult;

#[local] #[cx] #[get_proc("cuKernelSetCacheConfig", 12000)]
fn cuKernelSetCacheConfig(kernel: CUkernel, config: CUfunc_cache, dev: CUdevice) -> CUresult;

#[custom] #[cx] #[get_proc("cuLibraryEnumerateKernels", 12040)]
fn cuLibraryEnumerateKernels(
    #[gives] kernels: *mut CUkernel,
    numKernels: u32,
    #[handle] lib: CUlibrary,
) -> CUresult;

#[cx] #[is(engine::load::library_variable(library, name, 0))] #[get_proc("cuLibraryGetGlobal", 12000)]
fn cuLibraryGetGlobal(
    #[out(optional)] dptr: *mut CUdeviceptr,
    #[out(optional)] bytes: *mut usize,
    #[handle] library: CUlibrary,
    #[cstr] name: *const c_char,
) -> CUresult;

#[cx] #[is(engine::load::kernel(library, name))] #[get_proc("cuLibraryGetKernel", 12000)]
fn cuLibraryGetKernel(
    #[new] pKernel: *mut CUkernel,
    #[handle] library: CUlibrary,
    #[cstr] name: *const c_char,
) -> CUresult;

#[id(0x0501)] #[cached] #[get_proc("cuLibraryGetKernelCount", 12040)]
fn cuLibraryGetKernelCount(#[out] count: *mut u32, #[handle] lib: CUlibrary) -> CUresult;

#[cx] #[is(engine::load::library_variable(library, name, 1))] #[get_proc("cuLibraryGetManaged", 12000)]
fn cuLibraryGetManaged(
    #[out(optional)] dptr: *mut CUdeviceptr,
    #[out(optional)] bytes: *mut usize,
    #[handle] library: CUlibrary,
    #[cstr] name: *const c_char,
) -> CUresult;

#[custom] #[cx(context)] #[get_proc("cuLibraryGetModule", 12000)]
fn cuLibraryGetModule(#[new] pMod: *mut CUmodule, #[handle] library: CUlibrary) -> CUresult;

#[unsupported("a function that runs on both processors needs the device in the same machine")]
#[get_proc("cuLibraryGetUnifiedFunction", 12000)]
fn cuLibraryGetUnifiedFunction(
    fptr: *mut *mut c_void,
    library: CUlibrary,
    symbol: *const c_char,
) -> CUresult;

#[cx] #[is(engine::load::library(code, &engine::load::options(jitOptions, jitOptionsValues, numJitOptions)?))] #[get_proc("cuLibraryLoadData", 12000)]
fn cuLibraryLoadData(
    #[new] library: *mut CUlibrary,
    code: *const c_void,
    jitOptions: *mut CUjit_option,
    jitOptionsValues: *mut *mut c_void,
    numJitOptions: u32,
    libraryOptions: *mut CUlibraryOption,
    libraryOptionValues: *mut *mut c_void,
    numLibraryOptions: u32,
) -> CUresult;

#[cx] #[is(library_file(fileName, &engine::load::options(jitOptions, jitOptionsValues, numJitOptions)?))] #[get_proc("cuLibraryLoadFromFile", 12000)]
fn cuLibraryLoadFromFile(
    #[new] library: *mut CUlibrary,
    fileName: *const c_char,
    jitOptions: *mut CUjit_option,
    jitOptionsValues: *mut *mut c_void,
    numJitOptions: u32,
    libraryOptions: *mut CUlibraryOption,
    libraryOptionValues: *mut *mut c_void,
    numLibraryOptions: u32,
) -> CUresult;

#[cx(local)] #[is(engine::load::unload(library))] #[get_proc("cuLibraryUnload", 12000)]
fn cuLibraryUnload(#[handle] library: CUlibrary) -> CUresult;
