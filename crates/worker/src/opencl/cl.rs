//! The server's OpenCL library, loaded at run time.

use super::prelude::*;

/// A code as a result.
pub fn ok(code: i32) -> Result<(), i32> {
    match code {
        CL_SUCCESS => Ok(()),
        e => Err(e),
    }
}

type Callback = extern "C" fn(Handle, i32, *mut c_void);
/// A context's error callback: text, private bytes and their number.
pub type Notify = extern "C" fn(*const c_char, *const c_void, usize, *mut c_void);
type Lists = *const Handle;
type Sizes = *const usize;

// SAFETY: platforms are handles that any thread may use, and live as long as the library.
unsafe impl Send for Cl {}
// SAFETY: as above.
unsafe impl Sync for Cl {}

macro_rules! library {
    ($($name:ident($($t:ty),*) -> $r:ty;)*) => {
        /// Functions of the library. One that it lacks answers `CL_INVALID_OPERATION`.
        #[allow(non_snake_case, missing_docs)]
        pub struct Cl {
            /// All platforms that there are.
            pub platforms: Vec<Handle>,
            $(pub $name: unsafe extern "C" fn($($t),*) -> $r,)*
        }

        impl Cl {
            /// The functions that `find` finds by their names, and `platforms`.
            pub fn new(find: impl Fn(&CStr) -> *const c_void, platforms: Vec<Handle>) -> Self {
                Self {
                    platforms,
                    $($name: {
                        let f = find(const {
                            match CStr::from_bytes_with_nul(
                                concat!(stringify!($name), "\0").as_bytes(),
                            ) {
                                Ok(name) => name,
                                Err(_) => panic!("a name ends in a zero"),
                            }
                        });
                        let f = if f.is_null() { missing as *const c_void } else { f };
                        // SAFETY: a function of the API has the type that the standard gives it;
                        // the stand-in takes any arguments and leaves them alone.
                        unsafe {
                            std::mem::transmute::<
                                *const c_void,
                                unsafe extern "C" fn($($t),*) -> $r,
                            >(f)
                        }
                    },)*
                }
            }
        }
    };
}

/// Stands for a function that the library lacks. As a pointer its answer is never used: callers
/// look at the code first, which is an error from the start.
unsafe extern "C" fn missing() -> isize {
    CL_INVALID_OPERATION as isize
}

/// A C string; empty for null.
///
/// # Safety
/// `p` is null or a C string.
pub unsafe fn text(p: *const c_char) -> String {
    if p.is_null() {
        return String::new();
    }
    // SAFETY: passed on to the caller.
    unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned()
}

library! {
    clGetPlatformIDs(u32, *mut Handle, *mut u32) -> i32;
    clGetPlatformInfo(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    clGetDeviceIDs(Handle, u64, u32, *mut Handle, *mut u32) -> i32;
    clGetDeviceInfo(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    clCreateSubDevices(Handle, *const isize, u32, *mut Handle, *mut u32) -> i32;
    clReleaseDevice(Handle) -> i32;
    clGetDeviceAndHostTimer(Handle, *mut u64, *mut u64) -> i32;
    clCreateContext(*const isize, u32, Lists, Option<Notify>, *mut c_void, *mut i32) -> Handle;
    clReleaseContext(Handle) -> i32;
    clGetSupportedImageFormats(Handle, u64, u32, u32, *mut ImageFormat, *mut u32) -> i32;
    clCreateCommandQueue(Handle, Handle, u64, *mut i32) -> Handle;
    clCreateCommandQueueWithProperties(Handle, Handle, *const u64, *mut i32) -> Handle;
    clReleaseCommandQueue(Handle) -> i32;
    clSetDefaultDeviceCommandQueue(Handle, Handle, Handle) -> i32;
    clFlush(Handle) -> i32;
    clEnqueueMarkerWithWaitList(Handle, u32, Lists, *mut Handle) -> i32;
    clEnqueueBarrierWithWaitList(Handle, u32, Lists, *mut Handle) -> i32;
    clCreateBuffer(Handle, u64, usize, *mut c_void, *mut i32) -> Handle;
    clCreateSubBuffer(Handle, u64, u32, *const BufferRegion, *mut i32) -> Handle;
    clCreateImage(
        Handle, u64, *const ImageFormat, *const ImageDesc, *mut c_void, *mut i32
    ) -> Handle;
    clReleaseMemObject(Handle) -> i32;
    clGetMemObjectInfo(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    clGetImageInfo(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    clCreateSampler(Handle, u32, u32, u32, *mut i32) -> Handle;
    clReleaseSampler(Handle) -> i32;
    clCreateProgramWithSource(Handle, u32, *const *const u8, Sizes, *mut i32) -> Handle;
    clCreateProgramWithBinary(
        Handle, u32, Lists, Sizes, *const *const u8, *mut i32, *mut i32
    ) -> Handle;
    clCreateProgramWithBuiltInKernels(Handle, u32, Lists, *const c_char, *mut i32) -> Handle;
    clCreateProgramWithIL(Handle, *const c_void, usize, *mut i32) -> Handle;
    clReleaseProgram(Handle) -> i32;
    clBuildProgram(Handle, u32, Lists, *const c_char, *const c_void, *mut c_void) -> i32;
    clCompileProgram(
        Handle, u32, Lists, *const c_char, u32, Lists, *const *const c_char, *const c_void,
        *mut c_void
    ) -> i32;
    clLinkProgram(
        Handle, u32, Lists, *const c_char, u32, Lists, *const c_void, *mut c_void, *mut i32
    ) -> Handle;
    clSetProgramSpecializationConstant(Handle, u32, usize, *const c_void) -> i32;
    clGetProgramInfo(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    clGetProgramBuildInfo(Handle, Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    clCreateKernel(Handle, *const c_char, *mut i32) -> Handle;
    clCreateKernelsInProgram(Handle, u32, *mut Handle, *mut u32) -> i32;
    clCloneKernel(Handle, *mut i32) -> Handle;
    clReleaseKernel(Handle) -> i32;
    clSetKernelArg(Handle, u32, usize, *const c_void) -> i32;
    clSetKernelArgSVMPointer(Handle, u32, *const c_void) -> i32;
    clSetKernelExecInfo(Handle, u32, usize, *const c_void) -> i32;
    clGetKernelInfo(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    clGetKernelArgInfo(Handle, u32, u32, usize, *mut c_void, *mut usize) -> i32;
    clGetKernelWorkGroupInfo(Handle, Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    clGetKernelSubGroupInfo(
        Handle, Handle, u32, usize, *const c_void, usize, *mut c_void, *mut usize
    ) -> i32;
    clGetExtensionFunctionAddressForPlatform(Handle, *const c_char) -> *mut c_void;
    clEnqueueNDRangeKernel(
        Handle, Handle, u32, Sizes, Sizes, Sizes, u32, Lists, *mut Handle
    ) -> i32;
    clEnqueueReadBuffer(
        Handle, Handle, u32, usize, usize, *mut c_void, u32, Lists, *mut Handle
    ) -> i32;
    clEnqueueWriteBuffer(
        Handle, Handle, u32, usize, usize, *const c_void, u32, Lists, *mut Handle
    ) -> i32;
    clEnqueueCopyBuffer(
        Handle, Handle, Handle, usize, usize, usize, u32, Lists, *mut Handle
    ) -> i32;
    clEnqueueReadBufferRect(
        Handle, Handle, u32, Sizes, Sizes, Sizes, usize, usize, usize, usize, *mut c_void, u32,
        Lists, *mut Handle
    ) -> i32;
    clEnqueueWriteBufferRect(
        Handle, Handle, u32, Sizes, Sizes, Sizes, usize, usize, usize, usize, *const c_void, u32,
        Lists, *mut Handle
    ) -> i32;
    clEnqueueCopyBufferRect(
        Handle, Handle, Handle, Sizes, Sizes, Sizes, usize, usize, usize, usize, u32, Lists,
        *mut Handle
    ) -> i32;
    clEnqueueFillBuffer(
        Handle, Handle, *const c_void, usize, usize, usize, u32, Lists, *mut Handle
    ) -> i32;
    clEnqueueReadImage(
        Handle, Handle, u32, Sizes, Sizes, usize, usize, *mut c_void, u32, Lists, *mut Handle
    ) -> i32;
    clEnqueueWriteImage(
        Handle, Handle, u32, Sizes, Sizes, usize, usize, *const c_void, u32, Lists, *mut Handle
    ) -> i32;
    clEnqueueCopyImage(Handle, Handle, Handle, Sizes, Sizes, Sizes, u32, Lists, *mut Handle) -> i32;
    clEnqueueCopyImageToBuffer(
        Handle, Handle, Handle, Sizes, Sizes, usize, u32, Lists, *mut Handle
    ) -> i32;
    clEnqueueCopyBufferToImage(
        Handle, Handle, Handle, usize, Sizes, Sizes, u32, Lists, *mut Handle
    ) -> i32;
    clEnqueueFillImage(Handle, Handle, *const c_void, Sizes, Sizes, u32, Lists, *mut Handle) -> i32;
    clEnqueueMigrateMemObjects(Handle, u32, Lists, u64, u32, Lists, *mut Handle) -> i32;
    clCreateUserEvent(Handle, *mut i32) -> Handle;
    clSetUserEventStatus(Handle, i32) -> i32;
    clRetainEvent(Handle) -> i32;
    clReleaseEvent(Handle) -> i32;
    clGetEventInfo(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    clGetEventProfilingInfo(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    clSetEventCallback(Handle, i32, Callback, *mut c_void) -> i32;
    clSVMAlloc(Handle, u64, usize, u32) -> *mut c_void;
    clSVMFree(Handle, *mut c_void) -> ();
    clEnqueueSVMMemcpy(
        Handle, u32, *mut c_void, *const c_void, usize, u32, Lists, *mut Handle
    ) -> i32;
    clEnqueueSVMMemFill(
        Handle, *mut c_void, *const c_void, usize, usize, u32, Lists, *mut Handle
    ) -> i32;
    clEnqueueSVMMigrateMem(
        Handle, u32, *const *const c_void, Sizes, u64, u32, Lists, *mut Handle
    ) -> i32;
}

/// Asks in two steps: for the size, then for the value.
pub fn ask(most: usize, f: impl Fn(usize, *mut c_void, *mut usize) -> i32) -> Result<Vec<u8>, i32> {
    let mut n = 0;
    match f(0, std::ptr::null_mut(), &raw mut n) {
        CL_SUCCESS if n <= most => {}
        CL_SUCCESS => return Err(CL_OUT_OF_HOST_MEMORY),
        e => return Err(e),
    }
    let mut v = vec![0u8; n];
    if n == 0 {
        return Ok(v);
    }
    match f(n, v.as_mut_ptr().cast(), &raw mut n) {
        CL_SUCCESS => {
            v.truncate(n);
            Ok(v)
        }
        e => Err(e),
    }
}

impl Cl {
    /// How far an event has come; an event that cannot be asked counts as failed.
    pub fn status(&self, event: Handle) -> i32 {
        let mut s = 0i32;
        let (param, at) = (CL_EVENT_COMMAND_EXECUTION_STATUS, (&raw mut s).cast());
        // SAFETY: the caller holds the event.
        let code = unsafe { (self.clGetEventInfo)(event, param, 4, at, std::ptr::null_mut()) };
        match code {
            CL_SUCCESS => s,
            e => e,
        }
    }

    /// When a command was queued, submitted, started, ended, and all that it started had ended.
    pub fn times(&self, event: Handle) -> Result<[u64; 5], i32> {
        let mut times = [0u64; 5];
        for (i, t) in times.iter_mut().enumerate() {
            let param = CL_PROFILING_COMMAND_QUEUED + i as u32;
            let at = std::ptr::from_mut(t).cast();
            // SAFETY: the caller holds the event; the place is ours.
            let code = unsafe {
                (self.clGetEventProfilingInfo)(event, param, 8, at, std::ptr::null_mut())
            };
            // The last one came with OpenCL 2.0.
            if i < 4 && code != CL_SUCCESS {
                return Err(code);
            }
        }
        if times[4] == 0 {
            times[4] = times[3];
        }
        Ok(times)
    }
}

/// Makes an object, unless the library says why not.
pub fn make(f: impl FnOnce(*mut i32) -> Handle) -> Result<Handle, i32> {
    let mut code = CL_INVALID_OPERATION;
    let made = f(&raw mut code);
    ok(code).map(|()| made)
}
