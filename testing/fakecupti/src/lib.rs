//! A simulated `libcupti.so.13` for the devices of `libfakedev.so`: what a worker loads in tests
//! (`--cupti-library PATH`), and what the same program uses natively.
//!
//! It makes the records of copies, fills and kernels that the simulated driver tells of, and one
//! for each call of that driver's that handed work in; of other calls none. All work is over when
//! it has a record.

// Functions of the API keep their C names.
#![allow(
    missing_docs,
    non_snake_case,
    non_upper_case_globals,
    clippy::missing_safety_doc
)]

use busbar_abi::cupti::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Complete = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// The version of CUDA 13.0's.
const VERSION: u32 = 130000;

/// What the driver tells of work, as `fakedev`'s `state/watch.rs` has it.
#[repr(C)]
struct Done {
    kind: u32,
    copy_kind: u32,
    call: u32,
    device: u32,
    context: u32,
    stream: u32,
    start: u64,
    end: u64,
    bytes: u64,
    value: u32,
    shared: u32,
    grid: [u32; 3],
    block: [u32; 3],
    name: *const c_char,
}

/// A buffer of the program's.
struct Buffer {
    start: *mut u8,
    size: usize,
    used: usize,
}

#[derive(Default)]
struct State {
    functions: Option<(Request, Complete)>,
    buffer: Option<Buffer>,
    /// Names of kernels, which stay.
    names: HashMap<Vec<u8>, CString>,
    dropped: usize,
    watching: bool,
}

// SAFETY: a buffer belongs to whoever has the state.
unsafe impl Send for State {}

static STATE: Mutex<Option<State>> = Mutex::new(None);
/// The kinds of records that are made, as bits.
static KINDS: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// What the program has pushed on this thread, by kind.
    static PUSHED: RefCell<Vec<(u32, u64)>> = const { RefCell::new(Vec::new()) };
}

fn state() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn makes(kind: ActivityKind) -> bool {
    kind < 64 && KINDS.load(Ordering::Relaxed) >> kind & 1 != 0
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Puts a record of this kind into a buffer, if such are made. A buffer that is full goes back.
fn put<T: Copy>(kind: ActivityKind, record: T) {
    if !makes(kind) {
        return;
    }
    let mut held = state();
    let s = held.get_or_insert_default();
    let Some((request, complete)) = s.functions else {
        return;
    };
    let n = size_of::<T>();
    let full = match &s.buffer {
        Some(b) if b.used + n > b.size => s.buffer.take(),
        _ => None,
    };
    if s.buffer.is_none() {
        let (mut start, mut size, mut most) = (std::ptr::null_mut(), 0, 0);
        request(&mut start, &mut size, &mut most);
        match start.is_null() || size < n {
            true => s.dropped += 1,
            false => {
                let used = 0;
                s.buffer = Some(Buffer { start, size, used });
            }
        }
    }
    if let Some(b) = &mut s.buffer {
        // SAFETY: the program's buffer has room for it; sizes of records are multiples of 8.
        unsafe { b.start.add(b.used).cast::<T>().write_unaligned(record) };
        b.used += n;
    }
    drop(held);
    give(full, complete);
}

/// Gives a buffer back. The program may call us meanwhile.
fn give(buffer: Option<Buffer>, complete: Complete) {
    if let Some(b) = buffer {
        complete(std::ptr::null_mut(), 0, b.start, b.size, b.used);
    }
}

/// A call hands work in: its number.
extern "C" fn called() -> u32 {
    if KINDS.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    let correlation = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
    if makes(CUPTI_ACTIVITY_KIND_DRIVER) {
        let kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
        let pushed = PUSHED.with_borrow(Clone::clone);
        let mut seen = Vec::new();
        // Of each kind the last one.
        for (external_kind, external) in pushed.into_iter().rev() {
            if !seen.contains(&external_kind) {
                seen.push(external_kind);
                let link = ExternalCorrelation {
                    kind,
                    external_kind,
                    external,
                    correlation,
                    reserved: 0,
                };
                put(kind, link);
            }
        }
        let (kind, at) = (CUPTI_ACTIVITY_KIND_DRIVER, now());
        let call = ApiCall {
            kind,
            start: at,
            end: at,
            process: std::process::id(),
            correlation,
            ..ApiCall::default()
        };
        put(kind, call);
    }
    correlation
}

/// Work is done.
extern "C" fn told(done: *const Done) {
    // SAFETY: the driver's, which lives through the call.
    let d = unsafe { &*done };
    let (device, context, stream, correlation) = (d.device, d.context, d.stream, d.call);
    let (start, end, bytes) = (d.start, d.end, d.bytes);
    match d.kind {
        1 => {
            let (kind, copy_kind) = (CUPTI_ACTIVITY_KIND_MEMCPY, d.copy_kind as u8);
            const PAGEABLE: u8 = 1;
            const DEVICE: u8 = 3;
            let (src_kind, dst_kind) = match copy_kind {
                1 => (PAGEABLE, DEVICE),
                2 => (DEVICE, PAGEABLE),
                8 => (DEVICE, DEVICE),
                _ => (PAGEABLE, PAGEABLE),
            };
            let copy = Memcpy {
                kind,
                copy_kind,
                src_kind,
                dst_kind,
                bytes,
                start,
                end,
                device,
                context,
                stream,
                correlation,
                copy_count: 1,
                ..Memcpy::default()
            };
            put(kind, copy);
        }
        2 => {
            let kind = CUPTI_ACTIVITY_KIND_MEMSET;
            let fill = Memset {
                kind,
                value: d.value,
                bytes,
                start,
                end,
                device,
                context,
                stream,
                correlation,
                memory_kind: 3,
                ..Memset::default()
            };
            put(kind, fill);
        }
        _ => {
            let kind = match makes(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
                true => CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                false => CUPTI_ACTIVITY_KIND_KERNEL,
            };
            let kernel = Kernel {
                kind,
                registers_per_thread: 32,
                start,
                end,
                completed: end,
                device,
                context,
                stream,
                grid: d.grid.map(|n| n as i32),
                block: d.block.map(|n| n as i32),
                dynamic_shared: d.shared as i32,
                correlation,
                // SAFETY: the driver's name of it, a C string or none.
                name: unsafe { kept(d.name) },
                // As the real one, whose records lead into its process's memory.
                reserved: done as u64,
                ..Kernel::default()
            };
            put(kind, kernel);
        }
    }
}

/// A name's copy, which stays: where it is.
unsafe fn kept(name: *const c_char) -> u64 {
    if name.is_null() {
        return 0;
    }
    // SAFETY: by this function's contract.
    let name = unsafe { CStr::from_ptr(name) };
    let mut held = state();
    let names = &mut held.get_or_insert_default().names;
    let kept = names.entry(name.to_bytes().into());
    kept.or_insert_with(|| name.into()).as_ptr() as u64
}

/// Has the driver of this process tell what it does.
fn watch() -> Option<()> {
    type Watch = extern "C" fn(extern "C" fn() -> u32, extern "C" fn(*const Done));
    // SAFETY: the library is loaded already, and stays; the function with its type.
    unsafe {
        let lib = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        if lib.is_null() {
            return None;
        }
        let found = libc::dlsym(lib, c"fakedev_watch".as_ptr());
        std::mem::transmute::<*mut c_void, Option<Watch>>(found)?(called, told);
    }
    Some(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetVersion(version: *mut u32) -> CUptiResult {
    // SAFETY: the caller's place.
    unsafe { set(version, VERSION) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetTimestamp(timestamp: *mut u64) -> CUptiResult {
    // SAFETY: the caller's place.
    unsafe { set(timestamp, now()) }
}

/// Puts a value into a place of the caller's.
unsafe fn set<T>(place: *mut T, value: T) -> CUptiResult {
    if place.is_null() {
        return CUPTI_ERROR_INVALID_PARAMETER;
    }
    // SAFETY: by this function's contract.
    unsafe { place.write(value) };
    CUPTI_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityRegisterCallbacks(
    request: Option<Request>,
    complete: Option<Complete>,
) -> CUptiResult {
    let (Some(request), Some(complete)) = (request, complete) else {
        return CUPTI_ERROR_INVALID_PARAMETER;
    };
    state().get_or_insert_default().functions = Some((request, complete));
    CUPTI_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityEnable(kind: ActivityKind) -> CUptiResult {
    if size_of_kind(kind).is_none() {
        return CUPTI_ERROR_INVALID_KIND;
    }
    let mut held = state();
    let s = held.get_or_insert_default();
    if !s.watching {
        if watch().is_none() {
            return CUPTI_ERROR_NOT_INITIALIZED;
        }
        s.watching = true;
    }
    KINDS.fetch_or(1 << kind, Ordering::Relaxed);
    CUPTI_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityDisable(kind: ActivityKind) -> CUptiResult {
    if kind >= 64 {
        return CUPTI_ERROR_INVALID_KIND;
    }
    KINDS.fetch_and(!(1 << kind), Ordering::Relaxed);
    CUPTI_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityFlushAll(_flag: u32) -> CUptiResult {
    let mut held = state();
    let s = held.get_or_insert_default();
    let Some((_, complete)) = s.functions else {
        return CUPTI_ERROR_INVALID_OPERATION;
    };
    let buffer = s.buffer.take();
    drop(held);
    give(buffer, complete);
    CUPTI_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityGetNextRecord(
    buffer: *mut u8,
    valid: usize,
    record: *mut *mut u8,
) -> CUptiResult {
    if buffer.is_null() || record.is_null() {
        return CUPTI_ERROR_INVALID_PARAMETER;
    }
    // SAFETY: a buffer that was given back, and the record before, which lies in it.
    unsafe {
        let next = match *record {
            last if last.is_null() => buffer,
            last => match size_of_kind(last.cast::<ActivityKind>().read_unaligned()) {
                Some(n) => last.add(n),
                None => return CUPTI_ERROR_INVALID_KIND,
            },
        };
        if next as usize >= buffer as usize + valid {
            return CUPTI_ERROR_MAX_LIMIT_REACHED;
        }
        *record = next;
    }
    CUPTI_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityGetNumDroppedRecords(
    _context: *mut c_void,
    _stream: u32,
    dropped: *mut usize,
) -> CUptiResult {
    let n = std::mem::take(&mut state().get_or_insert_default().dropped);
    // SAFETY: the caller's place.
    unsafe { set(dropped, n) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityPushExternalCorrelationId(kind: u32, id: u64) -> CUptiResult {
    PUSHED.with_borrow_mut(|all| all.push((kind, id)));
    CUPTI_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityPopExternalCorrelationId(
    kind: u32,
    last: *mut u64,
) -> CUptiResult {
    let popped = PUSHED.with_borrow_mut(|all| {
        let at = all.iter().rposition(|(of, _)| *of == kind)?;
        Some(all.remove(at).1)
    });
    let Some(id) = popped else {
        return CUPTI_ERROR_QUEUE_EMPTY;
    };
    if !last.is_null() {
        // SAFETY: the caller's place.
        unsafe { *last = id };
    }
    CUPTI_SUCCESS
}
