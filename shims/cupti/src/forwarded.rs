//! The functions that the session answers. The signatures are those of CUDA 12 and 13, which are
//! the same; enumerations are 32 bits wide.

use crate::place::Place;
use busbar_abi::cupti::{CUPTI_ERROR_INVALID_PARAMETER, CUPTI_ERROR_NOT_INITIALIZED};
use busbar_abi::cupti::{CUPTI_SUCCESS, CUptiResult};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;

/// A context, a stream, a subscriber, a function: what the session looks into, and this does not.
type Handle = *mut c_void;

/// A name as C has it.
const fn c_name(with_nul: &str) -> &CStr {
    match CStr::from_bytes_with_nul(with_nul.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends with the only zero"),
    }
}

macro_rules! call {
    ($name:ident($($arg:ident: $of:ty),*)) => {{
        static PLACE: Place = Place::new();
        match PLACE.find(const { c_name(concat!(stringify!($name), "\0")) }) {
            Ok(there) => {
                // SAFETY: what has this name has this signature.
                let there = unsafe {
                    transmute::<*const c_void, unsafe extern "C" fn($($of),*) -> CUptiResult>(there)
                };
                // SAFETY: the arguments are the program's.
                unsafe { there($($arg),*) }
            }
            Err(why) => why,
        }
    }};
}

macro_rules! forwarded {
    ($($name:ident($($arg:ident: $of:ty),*);)*) => {$(
        // SAFETY: the name is the API's own.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $of),*) -> CUptiResult {
            call!($name($($arg: $of),*))
        }
    )*};
}

forwarded! {
    cuptiActivityDisable(kind: u32);
    cuptiActivityDisableContext(context: Handle, kind: u32);
    cuptiActivityEnable(kind: u32);
    cuptiActivityEnableAllSyncRecords(enable: u8);
    cuptiActivityEnableAllocationSource(enable: u8);
    cuptiActivityEnableAndDump(kind: u32);
    cuptiActivityEnableContext(context: Handle, kind: u32);
    cuptiActivityEnableDriverApi(cbid: u32, enable: u8);
    cuptiActivityEnableLatencyTimestamps(enable: u8);
    cuptiActivityEnableLaunchAttributes(enable: u8);
    cuptiActivityEnableRawTimestamps(enable: u8);
    cuptiActivityEnableRuntimeApi(cbid: u32, enable: u8);
    cuptiActivityFlush(context: Handle, stream: u32, flag: u32);
    cuptiActivityFlushAll(flag: u32);
    cuptiActivityFlushPeriod(time: u32);
    cuptiActivityGetAttribute(attribute: u32, size: *mut usize, value: *mut c_void);
    cuptiActivityGetNextRecord(buffer: *mut u8, size: usize, record: *mut *mut c_void);
    cuptiActivityGetNumDroppedRecords(context: Handle, stream: u32, dropped: *mut usize);
    cuptiActivityPopExternalCorrelationId(kind: u32, last: *mut u64);
    cuptiActivityPushExternalCorrelationId(kind: u32, id: u64);
    cuptiActivityRegisterCallbacks(requested: Handle, completed: Handle);
    cuptiActivityRegisterTimestampCallback(timestamp: Handle);
    cuptiActivitySetAttribute(attribute: u32, size: *mut usize, value: *mut c_void);
    cuptiComputeCapabilitySupported(major: c_int, minor: c_int, support: *mut c_int);
    cuptiDeviceSupported(device: c_int, support: *mut c_int);
    cuptiEnableAllDomains(enable: u32, subscriber: Handle);
    cuptiEnableCallback(enable: u32, subscriber: Handle, domain: u32, cbid: u32);
    cuptiEnableDomain(enable: u32, subscriber: Handle, domain: u32);
    cuptiFinalize();
    cuptiGetCallbackName(domain: u32, cbid: u32, name: *mut *const c_char);
    cuptiGetCallbackState(enable: *mut u32, subscriber: Handle, domain: u32, cbid: u32);
    cuptiGetContextId(context: Handle, id: *mut u32);
    cuptiGetDeviceId(context: Handle, id: *mut u32);
    cuptiGetGraphExecId(exec: Handle, id: *mut u32);
    cuptiGetGraphId(graph: Handle, id: *mut u32);
    cuptiGetGraphNodeId(node: Handle, id: *mut u64);
    cuptiGetLastError();
    cuptiGetStreamId(context: Handle, stream: Handle, id: *mut u32);
    cuptiGetStreamIdEx(context: Handle, stream: Handle, per_thread: u8, id: *mut u32);
    cuptiGetThreadIdType(of: *mut u32);
    cuptiGetTimestamp(timestamp: *mut u64);
    cuptiGetVersion(version: *mut u32);
    cuptiSetThreadIdType(of: u32);
    cuptiSubscribe(subscriber: *mut Handle, callback: Handle, userdata: *mut c_void);
    cuptiSupportedDomains(count: *mut usize, domains: *mut *mut u32);
    cuptiUnsubscribe(subscriber: Handle);
}

/// Programs print what they get here without a look at the result. So there is always a text.
macro_rules! texts {
    ($($name:ident: $without:literal;)*) => {$(
        // SAFETY: the name is the API's own.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(result: u32, text: *mut *const c_char) -> CUptiResult {
            let said = call!($name(result: u32, text: *mut *const c_char));
            if said != CUPTI_ERROR_NOT_INITIALIZED {
                return said;
            }
            if text.is_null() {
                return CUPTI_ERROR_INVALID_PARAMETER;
            }
            // SAFETY: the program's, and not null.
            unsafe { text.write($without.as_ptr()) };
            CUPTI_SUCCESS
        }
    )*};
}

// Without a session all else returns the one error.
texts! {
    cuptiGetErrorMessage: c"this process has no CUDA of Busbar's";
    cuptiGetResultString: c"CUPTI_ERROR_NOT_INITIALIZED";
}
