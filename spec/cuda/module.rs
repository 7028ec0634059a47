//! Modules, their functions, and the linker.

#[cx] #[is(engine::attributes::attribute(hfunc, attrib))] #[get_proc("cuFuncGetAttribute", 2020)]
fn cuFuncGetAttribute(
    #[out] pi: *mut i32,
    attrib: CUfunction_attribute,
    hfunc: CUfunction,
) -> CUresult;

#[local] #[cx] #[get_proc("cuFuncGetModule", 11000)]
fn cuFuncGetModule(#[gives(one)] hmod: *mut CUmodule, hfunc: CUfunction) -> CUresult;

#[is(cuKernelGetName)] #[get_proc("cuFuncGetName", 12030)]
fn cuFuncGetName(name: *mut *const c_char, hfunc: CUfunction) -> CUresult;

#[cx(local)] #[is(parameter(func, paramIndex))] #[get_proc("cuFuncGetParamInfo", 12040)]
fn cuFuncGetParamInfo(
    func: CUfunction,
    paramIndex: usize,
    #[out] paramOffset: *mut usize,
    #[out(optional)] paramSize: *mut usize,
) -> CUresult;

#[id(0x0401)] #[waits] #[get_proc("cuFuncIsLoaded", 12040)]
fn cuFuncIsLoaded(
    #[out] state: *mut CUfunctionLoadingState,
    #[handle] function: CUfunction,
) -> CUresult;

#[id(0x0402)] #[waits] #[get_proc("cuFuncLoad", 12040)]
#[changes(Function, "whether it is loaded")]
fn cuFuncLoad(#[handle] function: CUfunction) -> CUresult;

#[cx] #[is(engine::attributes::set_here(hfunc, attrib, value))] #[get_proc("cuFuncSetAttribute", 9000)]
fn cuFuncSetAttribute(hfunc: CUfunction, attrib: CUfunction_attribute, value: i32) -> CUresult;

#[id(0x0403)] #[queued_if(config <= CU_FUNC_CACHE_PREFER_EQUAL)] #[get_proc("cuFuncSetCacheConfig", 3000)]
#[changes(Function, "cache preference")]
fn cuFuncSetCacheConfig(#[handle] hfunc: CUfunction, config: CUfunc_cache) -> CUresult;

#[id(0x0404)] #[waits] #[get_proc("cuFuncSetSharedMemConfig", 4020)]
#[changes(Function, "shared memory banks")]
fn cuFuncSetSharedMemConfig(#[handle] hfunc: CUfunction, config: CUsharedconfig) -> CUresult;

#[is(cuLinkAddData_v2)] #[get_proc("cuLinkAddData", 5050)]
fn cuLinkAddData(
    state: CUlinkState,
    r#type: CUjitInputType,
    data: *mut c_void,
    size: usize,
    name: *const c_char,
    numOptions: u32,
    options: *mut CUjit_option,
    optionValues: *mut *mut c_void,
) -> CUresult;

#[cx] #[is(link_data(state, r#type, (data, size), name, engine::load::options(options, optionValues, numOptions)?))] #[get_proc("cuLinkAddData", 6050)]
fn cuLinkAddData_v2(
    #[handle] state: CUlinkState,
    r#type: CUjitInputType,
    data: *mut c_void,
    size: usize,
    name: *const c_char,
    numOptions: u32,
    options: *mut CUjit_option,
    optionValues: *mut *mut c_void,
) -> CUresult;

#[is(cuLinkAddFile_v2)] #[get_proc("cuLinkAddFile", 5050)]
fn cuLinkAddFile(
    state: CUlinkState,
    r#type: CUjitInputType,
    path: *const c_char,
    numOptions: u32,
    options: *mut CUjit_option,
    optionValues: *mut *mut c_void,
) -> CUresult;

#[cx] #[is(link_file(state, r#type, path, engine::load::options(options, optionValues, numOptions)?))] #[get_proc("cuLinkAddFile", 6050)]
fn cuLinkAddFile_v2(
    #[handle] state: CUlinkState,
    r#type: CUjitInputType,
    path: *const c_char,
    numOptions: u32,
    options: *mut CUjit_option,
    optionValues: *mut *mut c_void,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuLinkComplete", 5050)]
fn cuLinkComplete(
    #[handle] state: CUlinkState,
    #[out] cubinOut: *mut *mut c_void,
    #[out(optional)] sizeOut: *mut usize,
) -> CUresult;

#[is(cuLinkCreate_v2)] #[get_proc("cuLinkCreate", 5050)]
fn cuLinkCreate(
    numOptions: u32,
    options: *mut CUjit_option,
    optionValues: *mut *mut c_void,
    stateOut: *mut CUlinkState,
) -> CUresult;

#[cx(context)] #[is(link(engine::load::options(options, optionValues, numOptions)?))] #[get_proc("cuLinkCreate", 6050)]
fn cuLinkCreate_v2(
    numOptions: u32,
    options: *mut CUjit_option,
    optionValues: *mut *mut c_void,
    #[new] stateOut: *mut CUlinkState,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuLinkDestroy", 5050)]
fn cuLinkDestroy(#[handle] state: CUlinkState) -> CUresult;

#[custom] #[cx] #[get_proc("cuModuleEnumerateFunctions", 12040)]
fn cuModuleEnumerateFunctions(
    #[gives] functions: *mut CUfunction,
    numFunctions: u32,
    #[handle] r#mod: CUmodule,
) -> CUresult;

#[cx] #[is(engine::load::function(hmod, name))] #[get_proc("cuModuleGetFunction", 2000)]
fn cuModuleGetFunction(
    #[new] hfunc: *mut CUfunction,
    #[handle] hmod: CUmodule,
    #[cstr] name: *const c_char,
) -> CUresult;

#[id(0x0405)] #[cached] #[get_proc("cuModuleGetFunctionCount", 12040)]
fn cuModuleGetFunctionCount(#[out] count: *mut u32, #[handle] r#mod: CUmodule) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")]
#[get_proc("cuModuleGetGlobal", 2000)]
fn cuModuleGetGlobal(
    dptr: *mut CUdeviceptr_v1,
    bytes: *mut u32,
    hmod: CUmodule,
    name: *const c_char,
) -> CUresult;

#[cx] #[is(engine::load::module_variable(hmod, name))] #[get_proc("cuModuleGetGlobal", 3020)]
fn cuModuleGetGlobal_v2(
    #[out(optional)] dptr: *mut CUdeviceptr,
    #[out(optional)] bytes: *mut usize,
    #[handle] hmod: CUmodule,
    #[cstr] name: *const c_char,
) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuModuleGetLoadingMode", 11070)]
fn cuModuleGetLoadingMode(#[out] mode: *mut CUmoduleLoadingMode) -> CUresult;

#[id(0x0406)] #[waits] #[get_proc("cuModuleGetSurfRef", 3000)]
fn cuModuleGetSurfRef(
    #[new] pSurfRef: *mut CUsurfref,
    #[handle] hmod: CUmodule,
    #[cstr] name: *const c_char,
) -> CUresult;

#[id(0x0407)] #[waits] #[get_proc("cuModuleGetTexRef", 2000)]
fn cuModuleGetTexRef(
    #[new] pTexRef: *mut CUtexref,
    #[handle] hmod: CUmodule,
    #[cstr] name: *const c_char,
) -> CUresult;

#[custom] #[cx(context)] #[get_proc("cuModuleLoad", 2000)]
fn cuModuleLoad(#[new] module: *mut CUmodule, fname: *const c_char) -> CUresult;

#[is(cuModuleLoadDataEx(module, image, 0, null, null))] #[get_proc("cuModuleLoadData", 2000)]
fn cuModuleLoadData(#[new] module: *mut CUmodule, image: *const c_void) -> CUresult;

#[cx(context)] #[is(engine::load::module(image, &engine::load::options(options, optionValues, numOptions)?))] #[get_proc("cuModuleLoadDataEx", 2010)]
fn cuModuleLoadDataEx(
    #[new] module: *mut CUmodule,
    image: *const c_void,
    numOptions: u32,
    options: *mut CUjit_option,
    optionValues: *mut *mut c_void,
) -> CUresult;

#[is(cuModuleLoadDataEx(module, fatCubin, 0, null, null))] #[get_proc("cuModuleLoadFatBinary", 2000)]
fn cuModuleLoadFatBinary(#[new] module: *mut CUmodule, fatCubin: *const c_void) -> CUresult;

#[custom] #[cx(local)] #[disturbs] #[get_proc("cuModuleUnload", 2000)]
fn cuModuleUnload(#[handle] hmod: CUmodule) -> CUresult;
