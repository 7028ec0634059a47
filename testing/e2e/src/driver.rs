//! The driver API as a program calls it: `libcuda.so.1` by name, functions by their exported names.

#![allow(non_snake_case, missing_docs)]

use libloading::Library;
use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::OnceLock;

macro_rules! functions {
    ($( $name:ident ( $($arg:ident : $type:ty),* $(,)? ); )*) => {
        impl Driver {
            $(
                pub fn $name(&self, $($arg: $type),*) -> i32 {
                    type F = unsafe extern "C" fn($($type),*) -> i32;
                    static F: OnceLock<F> = OnceLock::new();
                    let f = F.get_or_init(|| {
                        // SAFETY: the declaration is the C function's.
                        unsafe { self.library.get::<F>(stringify!($name).as_bytes()) }
                            .map(|f| *f)
                            .expect("the driver exports the function")
                    });
                    // SAFETY: callers give valid pointers.
                    unsafe { f($($arg),*) }
                }
            )*
        }
    };
}

functions! {
    cuInit(flags: u32);
    cuDeviceGetCount(out: &mut i32);
    cuDeviceGet(out: &mut i32, ordinal: i32);
    cuDeviceGetAttribute(out: &mut i32, which: i32, dev: i32);
    cuDeviceGetUuid_v2(out: &mut [u8; 16], device: i32);
    cuDevicePrimaryCtxRetain(out: &mut usize, device: i32);
    cuCtxSetCurrent(context: usize);
    cuCtxCreate_v2(out: &mut usize, flags: u32, device: i32);
    cuCtxSynchronize();
    cuCtxGetDevice(out: &mut i32);
    cuCtxPushCurrent_v2(context: usize);
    cuCtxPopCurrent_v2(out: &mut usize);
    cuCtxEnablePeerAccess(peer: usize, flags: u32);
    cuDeviceCanAccessPeer(out: &mut i32, device: i32, peer: i32);
    cuDeviceGetPCIBusId(out: &mut [u8; 16], len: i32, device: i32);
    cuDeviceGetByPCIBusId(out: &mut i32, place: *const c_char);
    cuPointerGetAttribute(out: &mut u32, which: i32, address: u64);
    cuMemcpy(dst: u64, src: u64, n: usize);
    cuMemcpyAsync(dst: u64, src: u64, n: usize, stream: usize);
    cuMemcpyPeer(dst: u64, dst_context: usize, src: u64, src_context: usize, n: usize);
    cuMemcpyPeerAsync(
        dst: u64, dst_context: usize, src: u64, src_context: usize, n: usize, stream: usize,
    );
    cuEventElapsedTime(out: &mut f32, start: usize, end: usize);
    cuLibraryLoadData(
        out: &mut usize, image: *const c_void, keys: *mut c_void, values: *mut c_void, n: u32,
        library_keys: *mut c_void, library_values: *mut c_void, library_n: u32,
    );
    cuLibraryGetKernel(out: &mut usize, library: usize, name: *const c_char);
    cuKernelGetFunction(out: &mut usize, kernel: usize);
    cuLibraryUnload(library: usize);
    cuArray3DCreate_v2(out: &mut usize, descriptor: &[u64; 5]);
    cuMipmappedArrayCreate(out: &mut usize, descriptor: &[u64; 5], levels: u32);
    cuMipmappedArrayDestroy(array: usize);
    cuMemPoolCreate(out: &mut usize, props: &[u64; 11]);
    cuMemPoolDestroy(pool: usize);
    cuMemAllocFromPoolAsync(out: &mut u64, size: usize, pool: usize, stream: usize);
    cuMemAlloc_v2(out: &mut u64, size: usize);
    cuMemFree_v2(address: u64);
    cuMemGetInfo_v2(free: &mut usize, total: &mut usize);
    cuCtxSetLimit(limit: u32, value: usize);
    cuDeviceTotalMem_v2(out: &mut usize, device: i32);
    cuMemAllocPitch_v2(out: &mut u64, pitch: &mut usize, width: usize, height: usize, unit: u32);
    cuMemCreate(out: &mut u64, size: usize, properties: &[u32; 8], flags: u64);
    cuMemRelease(memory: u64);
    cuArrayCreate_v2(out: &mut usize, shape: &[u64; 3]);
    cuArrayDestroy(array: usize);
    cuMemHostAlloc(out: &mut u64, size: usize, flags: u32);
    cuMemFreeHost(address: u64);
    cuMemcpyHtoD_v2(dst: u64, src: *const c_void, n: usize);
    cuMemcpyDtoH_v2(dst: *mut c_void, src: u64, n: usize);
    cuMemcpyDtoD_v2(dst: u64, src: u64, n: usize);
    cuMemcpyDtoDAsync_v2(dst: u64, src: u64, n: usize, stream: usize);
    cuMemcpyHtoDAsync_v2(dst: u64, src: *const c_void, n: usize, stream: usize);
    cuMemcpyDtoHAsync_v2(dst: *mut c_void, src: u64, n: usize, stream: usize);
    cuMemcpy2D_v2(shape: &[u64; 16]);
    cuMemcpy2DAsync_v2(shape: &[u64; 16], stream: usize);
    cuMemcpy3DPeerAsync(shape: &[u64; 25], stream: usize);
    cuMemAllocManaged(out: &mut u64, size: usize, flags: u32);
    cuDeviceGraphMemTrim(device: i32);
    cuGraphCreate(out: &mut usize, flags: u32);
    cuGraphAddMemAllocNode(
        out: &mut usize, graph: usize, after: *const usize, n: usize, params: &mut [u64; 15],
    );
    cuGraphAddMemFreeNode(
        out: &mut usize, graph: usize, after: *const usize, n: usize, address: u64,
    );
    cuGraphExecDestroy(exec: usize);
    cuGraphDestroy(graph: usize);
    cuMemsetD8_v2(dst: u64, value: u8, n: usize);
    cuMemsetD8Async(dst: u64, value: u8, n: usize, stream: usize);
    cuMemsetD32Async(dst: u64, value: u32, n: usize, stream: usize);
    cuMemAllocAsync(out: &mut u64, size: usize, stream: usize);
    cuMemFreeAsync(address: u64, stream: usize);
    cuStreamCreate(out: &mut usize, flags: u32);
    cuStreamDestroy_v2(stream: usize);
    cuStreamSynchronize(stream: usize);
    cuStreamQuery(stream: usize);
    cuStreamWaitEvent(stream: usize, event: usize, flags: u32);
    cuEventCreate(out: &mut usize, flags: u32);
    cuEventDestroy_v2(event: usize);
    cuEventRecord(event: usize, stream: usize);
    cuEventQuery(event: usize);
    cuEventSynchronize(event: usize);
    cuModuleLoadData(out: &mut usize, image: *const c_void);
    cuModuleUnload(module: usize);
    cuModuleGetFunction(out: &mut usize, module: usize, name: *const c_char);
    cuModuleGetGlobal_v2(out: &mut u64, size: &mut usize, module: usize, name: *const c_char);
    cuStreamBeginCapture_v2(stream: usize, mode: i32);
    cuStreamEndCapture(stream: usize, graph: &mut usize);
    cuGraphInstantiateWithFlags(out: &mut usize, graph: usize, flags: u64);
    cuGraphLaunch(graph: usize, stream: usize);
    cuCheckpointProcessGetState(pid: i32, state: *mut u32);
    cuCheckpointProcessGetRestoreThreadId(pid: i32, thread: *mut i32);
    cuCheckpointProcessLock(pid: i32, args: *const u64);
    cuCheckpointProcessCheckpoint(pid: i32, args: *const u64);
    cuCheckpointProcessRestore(pid: i32, args: *const u64);
    cuCheckpointProcessUnlock(pid: i32, args: *const u64);
    cuCoredumpGetAttribute(which: i32, value: *mut c_void, size: *mut usize);
    cuCoredumpGetAttributeGlobal(which: i32, value: *mut c_void, size: *mut usize);
    cuCoredumpSetAttribute(which: i32, value: *const c_void, size: *mut usize);
    cuCoredumpSetAttributeGlobal(which: i32, value: *const c_void, size: *mut usize);
    cuLaunchHostFunc(stream: usize, f: unsafe extern "C" fn(*mut c_void), user: *mut c_void);
    cuLaunchKernel(
        function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32,
        stream: usize, params: *mut *mut c_void, extra: *mut *mut c_void,
    );
}

/// All of the simulated driver's kernels that compute something, and a global.
pub const IMAGE: &str = "fakedev-module 1\n\
    kernel nop nop\nkernel fill_u32 fill_u32\nkernel iota iota\nkernel add add_f32\n\
    kernel saxpy saxpy\nkernel copy copy\nkernel reduce reduce_u32\nkernel scramble scramble\n\
    kernel spin spin\nkernel trap trap\nglobal counter 64\n\0";

/// The driver.
pub struct Driver {
    library: Library,
    module: Cell<usize>,
    context: OnceLock<usize>,
}

// SAFETY: the driver's functions may be called from any thread; the module's cell is filled by the
// thread that loads the program's kernels, before it starts others.
unsafe impl Sync for Driver {}

impl Driver {
    /// Loads the driver that the loader finds.
    pub fn load() -> Self {
        // SAFETY: loading it runs its initializers, as in any CUDA program.
        let library = unsafe { Library::new("libcuda.so.1") }.expect("libcuda.so.1 can be loaded");
        Self {
            library,
            module: Cell::new(0),
            context: OnceLock::new(),
        }
    }

    /// Initializes, and makes the first device's primary context current.
    pub fn begin(&self) {
        assert_eq!(self.cuInit(0), 0, "cuInit");
        let mut context = 0;
        assert_eq!(self.cuDevicePrimaryCtxRetain(&mut context, 0), 0);
        let _ = self.context.set(context);
        self.make_current();
    }

    /// Makes that context current to the calling thread.
    pub fn make_current(&self) {
        let context = *self.context.get().expect("`begin` was called");
        assert_eq!(self.cuCtxSetCurrent(context), 0);
    }

    /// Takes device memory.
    pub fn alloc(&self, n: usize) -> u64 {
        let mut p = 0;
        assert_eq!(self.cuMemAlloc_v2(&mut p, n), 0, "cuMemAlloc");
        p
    }

    /// A kernel by name; the name ends in NUL.
    pub fn function(&self, name: &str) -> usize {
        if self.module.get() == 0 {
            let mut m = 0;
            assert_eq!(self.cuModuleLoadData(&mut m, IMAGE.as_ptr().cast()), 0);
            self.module.set(m);
        }
        let module = self.module.get();
        let mut f = 0;
        assert_eq!(
            self.cuModuleGetFunction(&mut f, module, name.as_ptr().cast()),
            0
        );
        f
    }

    /// Loads code once more, as a module and as a library's, and unloads it.
    pub fn load_again(&self) {
        let (mut m, mut l, mut k, none) = (0, 0, 0, std::ptr::null_mut::<c_void>);
        let image = IMAGE.as_ptr().cast();
        assert_eq!(self.cuModuleLoadData(&mut m, image), 0);
        assert_eq!(self.cuModuleUnload(m), 0);
        let rc = self.cuLibraryLoadData(&mut l, image, none(), none(), 0, none(), none(), 0);
        assert_eq!(rc, 0);
        assert_eq!(self.cuLibraryGetKernel(&mut k, l, c"fill_u32".as_ptr()), 0);
        assert_eq!(self.cuLibraryUnload(l), 0);
    }

    /// Unloads the module that [`Driver::function`] has loaded.
    pub fn unload(&self) {
        assert_eq!(self.cuModuleUnload(self.module.replace(0)), 0);
    }

    /// Launches a kernel whose parameters are words.
    pub fn launch(&self, function: usize, stream: usize, words: &[u64]) -> i32 {
        let mut words = words.to_vec();
        let mut list: Vec<*mut c_void> =
            words.iter_mut().map(|w| ptr::from_mut(w).cast()).collect();
        let list = list.as_mut_ptr();
        self.cuLaunchKernel(
            function,
            1,
            1,
            1,
            32,
            1,
            1,
            0,
            stream,
            list,
            ptr::null_mut(),
        )
    }

    /// Writes and reads back.
    pub fn check_memory(&self) {
        let p = self.alloc(1000);
        assert_eq!(
            self.cuMemcpyHtoD_v2(p, [5u8; 1000].as_ptr().cast(), 1000),
            0
        );
        let mut back = [0u8; 1000];
        assert_eq!(self.cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), p, 1000), 0);
        assert_eq!(back, [5; 1000]);
        assert_eq!(self.cuMemFree_v2(p), 0);
    }
}
