//! Loads a private copy of the simulated driver, with settings of its own, and calls it as C does.

// Each test file uses its part of this.
#![allow(dead_code, non_snake_case)]

use libloading::Library;
use std::ffi::{CString, c_char, c_void};
use std::path::PathBuf;
use std::{env, fs, ptr};

/// Declares the driver functions that tests call, as methods of [`Driver`].
macro_rules! functions {
    ($( $name:ident ( $($arg:ident : $type:ty),* $(,)? ); )*) => {
        impl Driver {
            $(
                pub fn $name(&self, $($arg: $type),*) -> i32 {
                    // SAFETY: the declaration is the C function's, and tests give valid pointers.
                    unsafe {
                        let f = self
                            .library
                            .get::<unsafe extern "C" fn($($type),*) -> i32>(
                                stringify!($name).as_bytes(),
                            )
                            .expect("the driver exports the function");
                        f($($arg),*)
                    }
                }
            )*
        }
    };
}

functions! {
    cuInit(flags: u32);
    cuDriverGetVersion(out: &mut i32);
    cuDeviceGetCount(out: &mut i32);
    cuDeviceGet(out: &mut i32, ordinal: i32);
    cuDeviceGetName(out: *mut u8, room: i32, device: i32);
    cuDeviceGetUuid_v2(out: &mut [u8; 16], device: i32);
    cuDeviceGetAttribute(out: &mut i32, which: i32, device: i32);
    cuDeviceGetPCIBusId(out: *mut u8, room: i32, device: i32);
    cuDeviceGetByPCIBusId(out: &mut i32, text: *const u8);
    cuDevicePrimaryCtxRetain(out: &mut usize, device: i32);
    cuDevicePrimaryCtxRelease_v2(device: i32);
    cuDevicePrimaryCtxReset_v2(device: i32);
    cuDevicePrimaryCtxGetState(device: i32, flags: &mut u32, active: &mut i32);
    cuCtxCreate_v2(out: &mut usize, flags: u32, device: i32);
    cuCtxCreate_v4(out: &mut usize, params: *const c_void, flags: u32, device: i32);
    cuCtxDestroy_v2(context: usize);
    cuCtxPushCurrent_v2(context: usize);
    cuCtxPopCurrent_v2(out: &mut usize);
    cuCtxSetCurrent(context: usize);
    cuCtxGetCurrent(out: &mut usize);
    cuCtxGetDevice(out: &mut i32);
    cuCtxSynchronize();
    cuCtxGetLimit(out: &mut usize, limit: u32);
    cuCtxSetLimit(limit: u32, value: usize);
    cuMemAlloc_v2(out: &mut u64, size: usize);
    cuMemAllocPitch_v2(out: &mut u64, pitch: &mut usize, width: usize, height: usize, element: u32);
    cuMemAllocManaged(out: &mut u64, size: usize, flags: u32);
    cuMemFree_v2(address: u64);
    cuMemGetInfo_v2(free: &mut usize, total: &mut usize);
    cuMemGetAddressRange_v2(base: &mut u64, size: &mut usize, address: u64);
    cuMemHostAlloc(out: &mut u64, size: usize, flags: u32);
    cuMemFreeHost(address: u64);
    cuMemHostRegister_v2(address: u64, size: usize, flags: u32);
    cuMemHostUnregister(address: u64);
    cuMemHostGetDevicePointer_v2(out: &mut u64, address: u64, flags: u32);
    cuPointerGetAttribute(data: *mut c_void, which: i32, address: u64);
    cuMemcpy(dst: u64, src: u64, n: usize);
    cuMemcpyHtoD_v2(dst: u64, src: *const c_void, n: usize);
    cuMemcpyDtoH_v2(dst: *mut c_void, src: u64, n: usize);
    cuMemcpyDtoDAsync_v2(dst: u64, src: u64, n: usize, stream: usize);
    cuMemcpyHtoDAsync_v2(dst: u64, src: *const c_void, n: usize, stream: usize);
    cuMemcpyDtoHAsync_v2(dst: *mut c_void, src: u64, n: usize, stream: usize);
    cuMemcpyPeer(dst: u64, dst_context: usize, src: u64, src_context: usize, n: usize);
    cuMemcpy2D_v2(params: *const Memcpy2D);
    cuMemcpy3D_v2(params: *const Memcpy3D);
    cuMemsetD8_v2(dst: u64, value: u8, n: usize);
    cuMemsetD16_v2(dst: u64, value: u16, n: usize);
    cuMemsetD32_v2(dst: u64, value: u32, n: usize);
    cuMemsetD32Async(dst: u64, value: u32, n: usize, stream: usize);
    cuMemsetD2D8_v2(dst: u64, pitch: usize, value: u8, width: usize, height: usize);
    cuMemGetAllocationGranularity(out: &mut usize, prop: &AllocationProp, option: i32);
    cuMemAddressReserve(out: &mut u64, size: usize, align: usize, hint: u64, flags: u64);
    cuMemAddressFree(address: u64, size: usize);
    cuMemCreate(out: &mut u64, size: usize, prop: &AllocationProp, flags: u64);
    cuMemRelease(handle: u64);
    cuMemMap(address: u64, size: usize, offset: usize, handle: u64, flags: u64);
    cuMemUnmap(address: u64, size: usize);
    cuMemSetAccess(address: u64, size: usize, desc: &[i32; 3], count: usize);
    cuMemRetainAllocationHandle(out: &mut u64, address: u64);
    cuMemExportToShareableHandle(out: &mut i32, handle: u64, kind: i32, flags: u64);
    cuMemImportFromShareableHandle(out: &mut u64, file: usize, kind: i32);
    cuMemAllocAsync(out: &mut u64, size: usize, stream: usize);
    cuMemFreeAsync(address: u64, stream: usize);
    cuDeviceGetDefaultMemPool(out: &mut usize, device: i32);
    cuMemPoolGetAttribute(pool: usize, which: i32, out: *mut u64);
    cuStreamCreate(out: &mut usize, flags: u32);
    cuStreamCreateWithPriority(out: &mut usize, flags: u32, priority: i32);
    cuStreamGetPriority(stream: usize, out: &mut i32);
    cuStreamDestroy_v2(stream: usize);
    cuStreamSynchronize(stream: usize);
    cuStreamQuery(stream: usize);
    cuStreamWaitEvent(stream: usize, event: usize, flags: u32);
    cuStreamWaitValue32_v2(stream: usize, address: u64, value: u32, flags: u32);
    cuStreamWriteValue32_v2(stream: usize, address: u64, value: u32, flags: u32);
    cuStreamBeginCapture_v2(stream: usize, mode: u32);
    cuStreamEndCapture(stream: usize, out: &mut usize);
    cuStreamIsCapturing(stream: usize, out: &mut i32);
    cuLaunchHostFunc(stream: usize, f: HostFn, user: *mut c_void);
    cuStreamAddCallback(stream: usize, f: Callback, user: *mut c_void, flags: u32);
    cuEventCreate(out: &mut usize, flags: u32);
    cuEventDestroy_v2(event: usize);
    cuEventRecord(event: usize, stream: usize);
    cuEventQuery(event: usize);
    cuEventSynchronize(event: usize);
    cuEventElapsedTime(out: &mut f32, start: usize, end: usize);
    cuModuleLoadData(out: &mut usize, image: *const c_void);
    cuModuleUnload(module: usize);
    cuModuleGetFunction(out: &mut usize, module: usize, name: *const c_char);
    cuModuleGetGlobal_v2(out: &mut u64, size: &mut usize, module: usize, name: *const c_char);
    cuLibraryLoadData(
        out: &mut usize, image: *const c_void, a: usize, b: usize, c: u32, d: usize, e: usize,
        f: u32,
    );
    cuLibraryUnload(library: usize);
    cuLibraryGetKernel(out: &mut usize, library: usize, name: *const c_char);
    cuKernelGetFunction(out: &mut usize, kernel: usize);
    cuKernelGetParamInfo(kernel: usize, index: usize, offset: &mut usize, size: &mut usize);
    cuFuncSetAttribute(function: usize, which: i32, value: i32);
    cuFuncGetAttribute(out: &mut i32, which: i32, function: usize);
    cuLaunchKernel(
        function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32,
        stream: usize, params: *mut *mut c_void, extra: *mut *mut c_void,
    );
    cuLaunchKernelEx(
        config: &LaunchConfig, function: usize, params: *mut *mut c_void, extra: *mut *mut c_void,
    );
    cuGraphAddMemcpyNode(
        out: &mut usize, graph: usize, after: *const usize, n: usize, params: &Memcpy3D, ctx: usize,
    );
    cuGraphCreate(out: &mut usize, flags: u32);
    cuGraphDestroy(graph: usize);
    cuGraphAddKernelNode_v2(
        out: &mut usize, graph: usize, after: *const usize, n: usize, params: &KernelNode,
    );
    cuGraphAddMemsetNode(
        out: &mut usize, graph: usize, after: *const usize, n: usize, params: &MemsetNode,
        ctx: usize,
    );
    cuGraphAddHostNode(
        out: &mut usize, graph: usize, after: *const usize, n: usize, params: &HostNode,
    );
    cuGraphAddEmptyNode(out: &mut usize, graph: usize, after: *const usize, n: usize);
    cuGraphAddChildGraphNode(
        out: &mut usize, graph: usize, after: *const usize, n: usize, child: usize,
    );
    cuGraphAddDependencies(graph: usize, from: *const usize, to: *const usize, n: usize);
    cuGraphGetNodes(graph: usize, out: *mut usize, n: &mut usize);
    cuGraphNodeGetType(node: usize, out: &mut u32);
    cuGraphInstantiateWithFlags(out: &mut usize, graph: usize, flags: u64);
    cuGraphLaunch(exec: usize, stream: usize);
    cuGraphExecDestroy(exec: usize);
    cuGraphExecKernelNodeSetParams_v2(exec: usize, node: usize, params: &KernelNode);
    cuGraphExecUpdate_v2(exec: usize, graph: usize, info: &mut [usize; 3]);
    cuGraphNodeSetEnabled(exec: usize, node: usize, enabled: u32);
    cuUserObjectCreate(out: &mut usize, value: *mut c_void, f: HostFn, count: u32, flags: u32);
    cuGraphRetainUserObject(graph: usize, object: usize, count: u32, flags: u32);
    cuGetProcAddress_v2(
        name: *const c_char, out: &mut usize, version: i32, flags: u64, status: &mut i32,
    );
    cuGetErrorName(code: i32, out: &mut *const c_char);
    cuGreenCtxDestroy(green: usize);
}

/// A host function.
pub type HostFn = unsafe extern "C" fn(*mut c_void);
/// A stream callback.
pub type Callback = unsafe extern "C" fn(usize, i32, *mut c_void);

/// One end of a `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Default)]
pub struct End2D {
    pub x: usize,
    pub y: usize,
    pub kind: u32,
    pub host: usize,
    pub device: u64,
    pub array: usize,
    pub pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
pub struct Memcpy2D {
    pub src: End2D,
    pub dst: End2D,
    pub width: usize,
    pub height: usize,
}

/// One end of a `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Default)]
pub struct End3D {
    pub x: usize,
    pub y: usize,
    pub z: usize,
    pub lod: usize,
    pub kind: u32,
    pub host: usize,
    pub device: u64,
    pub array: usize,
    pub reserved: usize,
    pub pitch: usize,
    pub height: usize,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Default)]
pub struct Memcpy3D {
    pub src: End3D,
    pub dst: End3D,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

/// `CUmemAllocationProp`.
#[repr(C)]
pub struct AllocationProp {
    pub kind: i32,
    pub handle_types: i32,
    pub location: [i32; 2],
    pub rest: [u64; 2],
}

impl AllocationProp {
    /// Memory of a device that can be shared by a file descriptor.
    pub fn device(ordinal: i32) -> AllocationProp {
        AllocationProp {
            kind: 1,
            handle_types: 1,
            location: [1, ordinal],
            rest: [0; 2],
        }
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
pub struct LaunchConfig {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub stream: usize,
    pub attributes: *const LaunchAttribute,
    pub count: u32,
}

/// `CUlaunchAttribute`.
#[repr(C)]
pub struct LaunchAttribute {
    pub id: u32,
    pub pad: u32,
    pub value: [u32; 16],
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
pub struct KernelNode {
    pub func: usize,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub params: *mut *mut c_void,
    pub extra: *mut *mut c_void,
    pub kern: usize,
    pub ctx: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
pub struct MemsetNode {
    pub dst: u64,
    pub pitch: usize,
    pub value: u32,
    pub element: u32,
    pub width: usize,
    pub height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
pub struct HostNode {
    pub f: HostFn,
    pub user: *mut c_void,
}

/// A kernel's parameters: each value as the bytes of one word.
pub struct Params {
    words: Vec<u64>,
    pointers: Vec<*mut c_void>,
}

impl Params {
    /// Parameters of at most eight bytes each; narrower ones are the low bytes.
    pub fn new(words: &[u64]) -> Params {
        let mut params = Params {
            words: words.to_vec(),
            pointers: Vec::new(),
        };
        params.pointers = params
            .words
            .iter_mut()
            .map(|word| ptr::from_mut(word).cast())
            .collect();
        params
    }

    /// The list as the driver takes it.
    pub fn list(&mut self) -> *mut *mut c_void {
        self.pointers.as_mut_ptr()
    }
}

/// All builtins under their own names, and a global.
pub const IMAGE: &str = "fakedev-module 1\n\
    kernel nop nop\nkernel fill_u32 fill_u32 ptr u32 u64\nkernel iota iota\nkernel add add_f32\n\
    kernel saxpy saxpy\nkernel copy copy\nkernel reduce reduce_u32\nkernel scramble scramble\n\
    kernel spin spin\nkernel flag flag\nkernel trap trap\nkernel assert assert\n\
    kernel probe probe\n\
    global counter 64\n\0";

/// A loaded copy of the driver.
pub struct Driver {
    library: Library,
}

/// Where cargo put the library: next to the test program.
fn built() -> PathBuf {
    let test = env::current_exe().expect("a test program has a path");
    test.with_file_name("libfakedev.so")
}

impl Driver {
    /// A copy with settings: a state of its own, so tests do not disturb each other.
    pub fn bare(settings: &[(&str, &str)]) -> Driver {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let copy = folder.path().join("libfakedev.so");
        fs::copy(built(), &copy).expect("the library can be copied");
        // SAFETY: the library's constructors are Rust's own.
        let library = unsafe { Library::new(&copy) }.expect("the library loads");
        for (name, value) in settings {
            let (name, value) = (CString::new(*name).unwrap(), CString::new(*value).unwrap());
            // SAFETY: the declaration is the function's, and both are C strings.
            unsafe {
                let set = library
                    .get::<unsafe extern "C" fn(*const i8, *const i8)>(b"fakedev_set")
                    .expect("the library exports its own setter");
                set(name.as_ptr(), value.as_ptr());
            }
        }
        Driver { library }
    }

    /// As [`Driver::bare`], initialised and with the first device's primary context current.
    pub fn with(settings: &[(&str, &str)]) -> Driver {
        let driver = Driver::bare(settings);
        assert_eq!(driver.cuInit(0), 0);
        let mut context = 0;
        assert_eq!(driver.cuDevicePrimaryCtxRetain(&mut context, 0), 0);
        assert_eq!(driver.cuCtxSetCurrent(context), 0);
        driver
    }

    /// With no settings.
    pub fn new() -> Driver {
        Driver::with(&[])
    }

    /// One of the library's own counts.
    pub fn stat(&self, place: u32) -> u64 {
        // SAFETY: the declaration is the function's.
        unsafe {
            let stat = self
                .library
                .get::<unsafe extern "C" fn(u32) -> u64>(b"fakedev_stat")
                .expect("the library exports its own counts");
            stat(place)
        }
    }

    /// All counts of live things.
    pub fn live(&self) -> Vec<u64> {
        (2..17).map(|place| self.stat(place)).collect()
    }

    /// The bytes free on the current device.
    pub fn free(&self) -> usize {
        let (mut free, mut total) = (0, 0);
        assert_eq!(self.cuMemGetInfo_v2(&mut free, &mut total), 0);
        free
    }

    /// Allocates device memory.
    pub fn alloc(&self, size: usize) -> u64 {
        let mut address = 0;
        assert_eq!(self.cuMemAlloc_v2(&mut address, size), 0);
        address
    }

    /// Makes a stream.
    pub fn stream(&self, flags: u32) -> usize {
        let mut stream = 0;
        assert_eq!(self.cuStreamCreate(&mut stream, flags), 0);
        stream
    }

    /// Makes an event.
    pub fn event(&self) -> usize {
        let mut event = 0;
        assert_eq!(self.cuEventCreate(&mut event, 0), 0);
        event
    }

    /// Loads the module of all builtins.
    pub fn module(&self) -> usize {
        let mut module = 0;
        assert_eq!(self.cuModuleLoadData(&mut module, IMAGE.as_ptr().cast()), 0);
        module
    }

    /// A function of a module; the name ends in NUL.
    pub fn function(&self, module: usize, name: &str) -> usize {
        let mut function = 0;
        assert_eq!(
            self.cuModuleGetFunction(&mut function, module, name.as_ptr().cast()),
            0
        );
        function
    }

    /// Launches a kernel with one thread.
    pub fn launch(&self, function: usize, stream: usize, words: &[u64]) -> i32 {
        let mut params = Params::new(words);
        let list = params.list();
        self.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, list, ptr::null_mut())
    }

    /// Reads words from the device.
    pub fn read(&self, address: u64, n: usize) -> Vec<u32> {
        let mut words = vec![0; n];
        assert_eq!(
            self.cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), address, n * 4),
            0
        );
        words
    }

    /// Writes words to the device.
    pub fn write(&self, address: u64, words: &[u32]) {
        assert_eq!(
            self.cuMemcpyHtoD_v2(address, words.as_ptr().cast(), words.len() * 4),
            0
        );
    }
}
