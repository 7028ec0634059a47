//! The driver: how it is loaded, what its results mean, and what it says of addresses.

use busbar_abi::Plain;
use busbar_abi::cuda::*;
use std::cell::Cell;

/// What a context takes of its device. The driver does not say; this is about what one takes of a
/// GPU of today.
pub const CONTEXT: u64 = 512 << 20;

thread_local! {
    /// Whether this thread asks what is none of the program's business.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Asks the driver what may well fail, though the program has made no mistake: who listens to its
/// log does not hear of that.
pub fn quietly<T>(ask: impl FnOnce() -> T) -> T {
    let before = QUIET.replace(true);
    let told = ask();
    QUIET.set(before);
    told
}

/// Whether this thread does so.
pub fn is_quiet() -> bool {
    QUIET.get()
}

/// The driver, loaded once per process.
pub fn load(path: Option<&str>) -> Result<&'static Driver, String> {
    static LOADED: std::sync::OnceLock<Result<Driver, String>> = std::sync::OnceLock::new();
    LOADED
        .get_or_init(|| {
            // What it maps must not be where programs have their memory.
            super::vacant::keep();
            let name = path.unwrap_or("libcuda.so.1");
            // SAFETY: loading the driver runs its initializers, as any CUDA program does.
            let lib = unsafe { libloading::Library::new(name) }
                .map_err(|e| format!("no NVIDIA driver here ({e})"))?;
            // The driver has threads of its own: it must never be unloaded.
            let lib = std::mem::ManuallyDrop::new(lib);
            let find = |symbol: &std::ffi::CStr| {
                // SAFETY: the symbol's type is the table's business, taken from the API.
                unsafe { lib.get::<*mut std::ffi::c_void>(symbol.to_bytes_with_nul()) }
                    .map_or(std::ptr::null_mut(), |s| *s)
            };
            // SAFETY: the names are the driver's own, with the signatures of its API.
            let driver = unsafe { Driver::load(find) };
            // SAFETY: the first call of the API.
            match unsafe { driver.cuInit(0) } {
                CUDA_SUCCESS => Ok(driver),
                rc => Err(format!("the NVIDIA driver does not start: {}", name_of(rc))),
            }
        })
        .as_ref()
        .map_err(Clone::clone)
}

/// A result code's name, for people.
pub fn name_of(rc: CUresult) -> String {
    error_name(rc).map_or_else(
        || format!("error {rc}"),
        |n| n.to_string_lossy().into_owned(),
    )
}

/// Runs fallible steps and gives their result code.
pub fn attempt(f: impl FnOnce() -> Result) -> CUresult {
    f().err().unwrap_or(CUDA_SUCCESS)
}

/// A result code as a `Result`.
pub fn check(rc: CUresult) -> Result {
    if rc == CUDA_SUCCESS { Ok(()) } else { Err(rc) }
}

/// Every capture is relaxed here: this process's threads serve many of the program's, and what one
/// of those may not do during a capture is not for the others to suffer from.
pub const RELAXED: CUstreamCaptureMode = CU_STREAM_CAPTURE_MODE_RELAXED;

/// Makes calls of the calling thread harmless to captures that are under way.
pub fn relax(d: &Driver) {
    let mut mode = RELAXED;
    // SAFETY: a pointer to a live number. Before its first capture no thread minds if this fails.
    unsafe { d.cuThreadExchangeStreamCaptureMode(&mut mode) };
}

/// Whether the driver says that an address is a device's, or of memory that moves by itself.
pub fn of_device(d: &Driver, va: u64) -> bool {
    kind_of(d, va) == Some(CU_MEMORYTYPE_DEVICE) || is_managed(d, va) != 0
}

/// The kind of memory that lies at an address, if the driver knows it.
pub fn kind_of(d: &Driver, va: u64) -> Option<CUmemorytype> {
    let mut kind: CUmemorytype = 0;
    let which = CU_POINTER_ATTRIBUTE_MEMORY_TYPE as _;
    // SAFETY: a pointer to room for the attribute, a number.
    let rc = quietly(|| unsafe { d.cuPointerGetAttribute((&raw mut kind).cast(), which, va) });
    (rc == CUDA_SUCCESS).then_some(kind)
}

/// Whether the driver calls what lies at an address managed memory: 1 if so.
pub fn is_managed(d: &Driver, va: u64) -> u32 {
    let mut managed = 0u32;
    let which = CU_POINTER_ATTRIBUTE_IS_MANAGED as _;
    // SAFETY: a pointer to room for the attribute, a boolean.
    match quietly(|| unsafe { d.cuPointerGetAttribute((&raw mut managed).cast(), which, va) }) {
        CUDA_SUCCESS => u32::from(managed & 0xff != 0),
        _ => 0,
    }
}

/// Whether the driver says that a stream captures, or has a capture that was voided.
pub fn is_capturing(d: &Driver, stream: CUstream) -> bool {
    capture_status(d, stream).is_ok_and(|s| s != CU_STREAM_CAPTURE_STATUS_NONE)
}

/// Whether the driver says that a stream has no capture.
pub fn has_no_capture(d: &Driver, stream: CUstream) -> bool {
    capture_status(d, stream).is_ok_and(|s| s == CU_STREAM_CAPTURE_STATUS_NONE)
}

fn capture_status(d: &Driver, stream: CUstream) -> Result<CUstreamCaptureStatus> {
    let mut status = CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: a live stream and a pointer to a live number.
    check(unsafe { d.cuStreamIsCapturing(stream, &mut status) })?;
    Ok(status)
}

/// Whether a stream captures, into which graph, and the capture's number, which no other ever has.
pub fn capture(d: &Driver, stream: CUstream) -> Result<(CUstreamCaptureStatus, CUgraph, u64)> {
    let (mut status, mut id, mut graph) = (CU_STREAM_CAPTURE_STATUS_NONE, 0, std::ptr::null_mut());
    let (s, i, g, null) = (&mut status, &mut id, &mut graph, std::ptr::null_mut());
    // SAFETY: a live stream and pointers to live values.
    check(unsafe { d.cuStreamGetCaptureInfo_v2(stream, s, i, g, null, null.cast()) })?;
    Ok((status, graph, id))
}

/// A list that the driver gives in two steps: first how long it is. `ask` is told of an array with
/// as many places as the number says, or of none.
pub fn list<T: Plain>(mut ask: impl FnMut(*mut T, *mut usize) -> CUresult) -> Result<Vec<T>> {
    let mut n = 0;
    check(ask(std::ptr::null_mut(), &mut n))?;
    let mut list = vec![busbar_abi::zeroed(); n];
    if n > 0 {
        check(ask(list.as_mut_ptr(), &mut n))?;
        list.truncate(n);
    }
    Ok(list)
}
