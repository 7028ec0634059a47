//! CUPTI's functions, as Busbar's library of that name finds them: what profilers ask for calls
//! and for what devices do. What concerns counters of devices there is not.

use super::prelude::*;
use crate::cuda::call::thread;
use crate::cuda::engine::activity::{self, Of};
use crate::cuda::life;
use crate::cuda::state::profile;
use busbar_abi::cupti::*;

/// The interface of CUDA 13.0's.
const VERSION: u32 = 130_001;

/// The one subscriber there may be.
const SUBSCRIBER: *mut c_void = std::ptr::without_provenance_mut(1);

/// The domains of callbacks that there are.
const DOMAINS: &[u32; 3] = &[
    CUPTI_CB_DOMAIN_DRIVER_API,
    CUPTI_CB_DOMAIN_RUNTIME_API,
    CUPTI_CB_DOMAIN_RESOURCE,
];

type Code = std::result::Result<(), CUptiResult>;

/// See [`busbar_abi::cupti::Find`].
pub unsafe extern "C" fn find(name: *const c_char) -> *const c_void {
    // SAFETY: the caller's string.
    let name = unsafe { CStr::from_ptr(name) };
    match name.to_bytes() {
        b"cuptiGetVersion" => get_version as *const c_void,
        b"cuptiGetResultString" | b"cuptiGetErrorMessage" => get_result_string as *const c_void,
        b"cuptiGetTimestamp" => get_timestamp as *const c_void,
        b"cuptiGetCallbackName" => get_callback_name as *const c_void,
        b"cuptiGetContextId" => get_context_id as *const c_void,
        b"cuptiGetDeviceId" => get_device_id as *const c_void,
        b"cuptiGetGraphExecId" => get_graph_exec_id as *const c_void,
        b"cuptiGetGraphId" => get_graph_id as *const c_void,
        b"cuptiGetGraphNodeId" => get_graph_node_id as *const c_void,
        b"cuptiGetThreadIdType" => get_thread_id_type as *const c_void,
        b"cuptiSetThreadIdType" => set_thread_id_type as *const c_void,
        b"cuptiSupportedDomains" => supported_domains as *const c_void,
        b"cuptiSubscribe" => subscribe as *const c_void,
        b"cuptiUnsubscribe" => unsubscribe as *const c_void,
        b"cuptiEnableCallback" => enable_callback as *const c_void,
        b"cuptiEnableDomain" => enable_domain as *const c_void,
        b"cuptiEnableAllDomains" => enable_all_domains as *const c_void,
        b"cuptiGetCallbackState" => get_callback_state as *const c_void,
        b"cuptiActivityEnable" => activity_enable as *const c_void,
        b"cuptiActivityDisable" => activity_disable as *const c_void,
        b"cuptiActivityEnableDriverApi" => activity_enable_driver_api as *const c_void,
        b"cuptiActivityEnableRuntimeApi" => activity_enable_runtime_api as *const c_void,
        b"cuptiActivityRegisterCallbacks" => activity_register_callbacks as *const c_void,
        b"cuptiActivityRegisterTimestampCallback" => register_timestamp as *const c_void,
        b"cuptiActivityFlushAll" => activity_flush_all as *const c_void,
        b"cuptiActivityGetNextRecord" => activity_get_next_record as *const c_void,
        b"cuptiActivityGetNumDroppedRecords" => activity_get_dropped as *const c_void,
        b"cuptiActivityPushExternalCorrelationId" => push_external as *const c_void,
        b"cuptiActivityPopExternalCorrelationId" => pop_external as *const c_void,
        b"cuptiActivitySetAttribute" => activity_set_attribute as *const c_void,
        b"cuptiFinalize" => finalize as *const c_void,
        _ => std::ptr::null(),
    }
}

/// A function's body: no panic gets into the program.
fn body(f: impl FnOnce() -> Code) -> CUptiResult {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(Ok(())) => CUPTI_SUCCESS,
        Ok(Err(e)) => e,
        Err(_) => CUPTI_ERROR_UNKNOWN,
    }
}

/// Writes to a place of the program's.
///
/// # Safety
/// `to` is null, or there is room for a `T`.
unsafe fn give<T>(to: *mut T, value: T) -> Code {
    // SAFETY: passed on to the caller.
    unsafe { put(to, value) }.map_err(|_| CUPTI_ERROR_INVALID_PARAMETER)
}

unsafe extern "C" fn get_version(to: *mut u32) -> CUptiResult {
    // SAFETY: the program's pointer.
    body(|| unsafe { give(to, VERSION) })
}

unsafe extern "C" fn get_result_string(code: u32, to: *mut *const c_char) -> CUptiResult {
    let name = result_name(code);
    // SAFETY: the program's pointer.
    body(|| unsafe { give(to, name.ok_or(CUPTI_ERROR_INVALID_PARAMETER)?.as_ptr()) })
}

unsafe extern "C" fn get_timestamp(to: *mut u64) -> CUptiResult {
    // SAFETY: the program's pointer.
    body(|| unsafe { give(to, activity::now()) })
}

/// What is known of a context of the program's.
fn context<T>(
    raw: CUcontext,
    of: impl Fn(Cx, u32) -> Option<T>,
) -> std::result::Result<T, CUptiResult> {
    let raw = match raw.is_null() {
        true => thread::current_raw(),
        false => raw as u64,
    };
    let all = life::everyone().into_iter();
    let mut found = all.filter_map(|cx| of(cx, cx.state().handles.id(Kind::Context, raw)?));
    found.next().ok_or(CUPTI_ERROR_INVALID_CONTEXT)
}

/// The id of an object of the program's.
fn id_of(kind: Kind, raw: u64) -> std::result::Result<u32, CUptiResult> {
    let all = life::everyone().into_iter();
    let mut found = all.filter_map(|cx| cx.state().handles.id(kind, raw));
    found.next().ok_or(CUPTI_ERROR_INVALID_PARAMETER)
}

unsafe extern "C" fn get_graph_exec_id(exec: CUgraphExec, to: *mut u32) -> CUptiResult {
    // SAFETY: the program's pointer.
    body(|| unsafe { give(to, id_of(Kind::GraphExec, exec as u64)?) })
}

unsafe extern "C" fn get_graph_id(graph: CUgraph, to: *mut u32) -> CUptiResult {
    // SAFETY: the program's pointer.
    body(|| unsafe { give(to, id_of(Kind::Graph, graph as u64)?) })
}

unsafe extern "C" fn get_graph_node_id(node: CUgraphNode, to: *mut u64) -> CUptiResult {
    // SAFETY: the program's pointer.
    body(|| unsafe { give(to, id_of(Kind::GraphNode, node as u64)?.into()) })
}

unsafe extern "C" fn get_context_id(raw: CUcontext, to: *mut u32) -> CUptiResult {
    body(|| {
        let info = context(raw, |cx, id| cx.state().contexts.info(id))?;
        // SAFETY: the program's pointer.
        unsafe { give(to, info.serial as u32) }
    })
}

unsafe extern "C" fn get_device_id(raw: CUcontext, to: *mut u32) -> CUptiResult {
    body(|| {
        let device = context(raw, |cx, id| cx.state().contexts.device(id))?;
        // SAFETY: the program's pointer.
        unsafe { give(to, device as u32) }
    })
}

/// The domain of a number; none for those of which nobody is told.
fn domain(number: u32) -> std::result::Result<Option<Of>, CUptiResult> {
    match (1..=6).contains(&number) {
        true => Ok(Of::domain(number)),
        false => Err(CUPTI_ERROR_INVALID_PARAMETER),
    }
}

/// Has the subscriber told of something, or not. What there is nobody to tell of can be asked for,
/// as with NVIDIA's: profilers ask for all that they know, and end if they are refused.
fn tell_of(of: u32, number: Option<u32>, on: bool) -> Code {
    let known = domain(of)?.filter(|of| number.is_none_or(|n| of.has(n)));
    match known {
        Some(of) => activity::tell_of(of, number, on),
        None if on => {
            crate::log!(
                Info,
                "a profiler is not told of {number:?} of CUPTI's domain {of}"
            );
        }
        None => {}
    }
    Ok(())
}

unsafe extern "C" fn get_callback_name(of: u32, n: u32, to: *mut *const c_char) -> CUptiResult {
    body(|| {
        let name = domain(of)?.and_then(|of| of.name(n));
        let name = name.ok_or(CUPTI_ERROR_INVALID_PARAMETER)?;
        // SAFETY: the program's pointer.
        unsafe { give(to, name.as_ptr()) }
    })
}

/// The kernel's numbers of threads.
const SYSTEM: u32 = 1;

unsafe extern "C" fn get_thread_id_type(to: *mut u32) -> CUptiResult {
    let kind = u32::from(activity::system_threads(None)) * SYSTEM;
    // SAFETY: the program's pointer.
    body(|| unsafe { give(to, kind) })
}

unsafe extern "C" fn set_thread_id_type(kind: u32) -> CUptiResult {
    body(|| {
        if kind > SYSTEM {
            return Err(CUPTI_ERROR_INVALID_PARAMETER);
        }
        activity::system_threads(Some(kind == SYSTEM));
        Ok(())
    })
}

unsafe extern "C" fn supported_domains(n: *mut usize, all: *mut *const u32) -> CUptiResult {
    // SAFETY: the program's pointers.
    body(|| unsafe {
        give(n, DOMAINS.len())?;
        give(all, DOMAINS.as_ptr())
    })
}

unsafe extern "C" fn subscribe(
    to: *mut *mut c_void,
    f: Option<Callback>,
    data: *mut c_void,
) -> CUptiResult {
    body(|| {
        let f = f.ok_or(CUPTI_ERROR_INVALID_PARAMETER)?;
        if to.is_null() {
            return Err(CUPTI_ERROR_INVALID_PARAMETER);
        }
        if !activity::subscribe(f, data) {
            return Err(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
        }
        // SAFETY: the program's pointer.
        unsafe { give(to, SUBSCRIBER) }
    })
}

/// Refuses what is no subscriber.
fn subscriber(s: *mut c_void) -> Code {
    match s == SUBSCRIBER && activity::is_subscribed() {
        true => Ok(()),
        false => Err(CUPTI_ERROR_INVALID_PARAMETER),
    }
}

unsafe extern "C" fn unsubscribe(s: *mut c_void) -> CUptiResult {
    body(|| {
        subscriber(s)?;
        activity::unsubscribe();
        Ok(())
    })
}

unsafe extern "C" fn enable_callback(on: u32, s: *mut c_void, of: u32, n: u32) -> CUptiResult {
    body(|| {
        subscriber(s)?;
        tell_of(of, Some(n), on != 0)
    })
}

unsafe extern "C" fn enable_domain(on: u32, s: *mut c_void, of: u32) -> CUptiResult {
    body(|| {
        subscriber(s)?;
        tell_of(of, None, on != 0)
    })
}

unsafe extern "C" fn enable_all_domains(on: u32, s: *mut c_void) -> CUptiResult {
    body(|| {
        subscriber(s)?;
        for of in DOMAINS {
            tell_of(*of, None, on != 0)?;
        }
        Ok(())
    })
}

unsafe extern "C" fn get_callback_state(
    to: *mut u32,
    s: *mut c_void,
    of: u32,
    n: u32,
) -> CUptiResult {
    body(|| {
        subscriber(s)?;
        let on = domain(of)?.is_some_and(|of| activity::tells_of(of, n));
        // SAFETY: the program's pointer.
        unsafe { give(to, on.into()) }
    })
}

fn enable(kind: u32, on: bool) -> CUptiResult {
    body(|| activity::enable(&life::everyone(), kind, on))
}

unsafe extern "C" fn activity_enable(kind: u32) -> CUptiResult {
    enable(kind, true)
}

unsafe extern "C" fn activity_disable(kind: u32) -> CUptiResult {
    enable(kind, false)
}

unsafe extern "C" fn activity_enable_driver_api(n: u32, on: u8) -> CUptiResult {
    body(|| {
        activity::record_function(Of::Driver, n, on != 0);
        Ok(())
    })
}

unsafe extern "C" fn activity_enable_runtime_api(n: u32, on: u8) -> CUptiResult {
    body(|| {
        activity::record_function(Of::Runtime, n, on != 0);
        Ok(())
    })
}

unsafe extern "C" fn activity_register_callbacks(
    request: Option<Request>,
    complete: Option<Complete>,
) -> CUptiResult {
    body(|| {
        let both = request.zip(complete);
        let (request, complete) = both.ok_or(CUPTI_ERROR_INVALID_PARAMETER)?;
        activity::set_buffers(request, complete);
        Ok(())
    })
}

unsafe extern "C" fn register_timestamp(f: Option<Timestamp>) -> CUptiResult {
    body(|| {
        activity::set_clock(&life::everyone(), f);
        Ok(())
    })
}

unsafe extern "C" fn activity_flush_all(flag: u32) -> CUptiResult {
    const FORCED: u32 = 1;
    body(|| activity::flush(&life::everyone(), flag & FORCED != 0))
}

unsafe extern "C" fn activity_get_next_record(
    buffer: *const u8,
    valid: usize,
    record: *mut *const u8,
) -> CUptiResult {
    body(|| {
        if buffer.is_null() || record.is_null() {
            return Err(CUPTI_ERROR_INVALID_PARAMETER);
        }
        // SAFETY: the program's buffer, of which so many bytes are records, and its pointer to one.
        let (bytes, last) = unsafe { (std::slice::from_raw_parts(buffer, valid), record.read()) };
        let at = (!last.is_null()).then(|| (last as usize).wrapping_sub(buffer as usize));
        let next = profile::next(bytes, at).ok_or(CUPTI_ERROR_MAX_LIMIT_REACHED)?;
        // SAFETY: as above.
        unsafe { give(record, buffer.add(next)) }
    })
}

unsafe extern "C" fn activity_get_dropped(
    _context: CUcontext,
    _stream: u32,
    to: *mut usize,
) -> CUptiResult {
    // SAFETY: the program's pointer.
    body(|| unsafe { give(to, activity::dropped()) })
}

unsafe extern "C" fn push_external(kind: u32, number: u64) -> CUptiResult {
    body(|| {
        external(kind)?;
        activity::push_external(kind, number);
        Ok(())
    })
}

unsafe extern "C" fn pop_external(kind: u32, to: *mut u64) -> CUptiResult {
    body(|| {
        external(kind)?;
        let number = activity::pop_external(kind).ok_or(CUPTI_ERROR_QUEUE_EMPTY)?;
        // SAFETY: the program's pointer, if it has one.
        unsafe { put_opt(to, number) };
        Ok(())
    })
}

/// Refuses what is no kind of a program's numbers.
fn external(kind: u32) -> Code {
    const KINDS: std::ops::RangeInclusive<u32> = 1..=5;
    match KINDS.contains(&kind) {
        true => Ok(()),
        false => Err(CUPTI_ERROR_INVALID_PARAMETER),
    }
}

/// How large buffers at the device are, and the like: the server's own concern.
unsafe extern "C" fn activity_set_attribute(
    _attribute: u32,
    size: *mut usize,
    value: *mut c_void,
) -> CUptiResult {
    match size.is_null() || value.is_null() {
        true => CUPTI_ERROR_INVALID_PARAMETER,
        false => CUPTI_SUCCESS,
    }
}

unsafe extern "C" fn finalize() -> CUptiResult {
    body(|| {
        activity::finalize(&life::everyone());
        Ok(())
    })
}
