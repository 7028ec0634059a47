//! The one way in: every exported function runs under [`call`], which logs, counts and injects.

use crate::config;
use crate::faults::{self, Action};
use crate::ffi::{CUresult, INVALID_CONTEXT, NOT_PERMITTED, Res};
use crate::state::{checkpoint, context, live, logs};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, Once};
use std::time::{Duration, Instant};

/// One exported function: its name and how often it was called.
pub struct Site {
    name: &'static str,
    count: AtomicU64,
}

impl Site {
    /// A site that was never called.
    pub const fn new(name: &'static str) -> Site {
        Site {
            name,
            count: AtomicU64::new(0),
        }
    }
}

static CALLS: AtomicU64 = AtomicU64::new(0);
static SITES: Mutex<BTreeMap<&'static str, &'static Site>> = Mutex::new(BTreeMap::new());
static AT_EXIT: Once = Once::new();

/// Files that calls are written to.
struct Files {
    /// Each.
    log: Option<File>,
    /// Those that fail, but for questions about a pointer: those may be about any.
    refused: Option<File>,
}

static FILES: LazyLock<Files> = LazyLock::new(|| {
    let open = |name| {
        let path = config::get(name)?;
        OpenOptions::new().create(true).append(true).open(path).ok()
    };
    Files {
        log: open("FAKEDEV_LOG"),
        refused: open("FAKEDEV_REFUSED"),
    }
});

static COST: LazyLock<Duration> =
    LazyLock::new(|| Duration::from_nanos(config::number("FAKEDEV_LAUNCH_NS").unwrap_or(0)));

/// What a driver permits in a function that a stream waits for, where there is no context for what
/// takes the current one: what needs no driver, and what names a stream or an event, but for
/// launches, copies and memory.
const IN_FUNCTIONS: [&str; 49] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorString",
    "cuGetErrorName",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuThreadExchangeStreamCaptureMode",
    "cuLaunchHostFunc",
    "cuGraphLaunch",
    "cuMemsetD8Async",
    "cuMemsetD16Async",
    "cuMemsetD32Async",
    "cuMemsetD2D8Async",
    "cuMemsetD2D16Async",
    "cuMemsetD2D32Async",
    "cuStreamAddCallback",
    "cuStreamAttachMemAsync",
    "cuStreamBatchMemOp",
    "cuStreamBatchMemOp_v2",
    "cuStreamBeginCapture_v2",
    "cuStreamBeginCaptureToGraph",
    "cuStreamCopyAttributes",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamGetAttribute",
    "cuStreamGetCaptureInfo_v2",
    "cuStreamGetCaptureInfo_v3",
    "cuStreamGetCtx",
    "cuStreamGetCtx_v2",
    "cuStreamGetDevice",
    "cuStreamGetFlags",
    "cuStreamGetGreenCtx",
    "cuStreamGetId",
    "cuStreamGetPriority",
    "cuStreamIsCapturing",
    "cuStreamQuery",
    "cuStreamSetAttribute",
    "cuStreamSynchronize",
    "cuStreamUpdateCaptureDependencies_v2",
    "cuStreamWaitEvent",
    "cuStreamWaitValue32_v2",
    "cuStreamWriteValue32_v2",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventElapsedTime_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventRecordWithFlags",
    "cuEventSynchronize",
];

fn permitted(name: &str) -> bool {
    let plain = || name.trim_end_matches("_ptsz");
    !context::in_function() || !name.starts_with("cu") || IN_FUNCTIONS.contains(&plain())
}

/// Runs one driver function: log, count, injected failure, then the function itself.
pub fn call(site: &'static Site, f: impl FnOnce() -> Res) -> CUresult {
    checkpoint::enter(site.name);
    let nth = site.count.fetch_add(1, Ordering::Relaxed) + 1;
    let total = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
    if let Some(log) = &FILES.log {
        log_call(log, site, nth);
    }
    let code = if let Some(code) = faults::lost(site.name, total) {
        code
    } else if !permitted(site.name) {
        NOT_PERMITTED
    } else {
        match faults::at(site.name, nth) {
            Some(Action::Fail(code)) => code,
            Some(Action::FailSticky(code)) => {
                context::poison_current(code);
                code
            }
            Some(Action::Slow(time)) => {
                std::thread::sleep(time);
                f().err().unwrap_or(0)
            }
            None => f().err().unwrap_or(0),
        }
    };
    // No context is current there.
    let code = match code {
        INVALID_CONTEXT if context::in_function() => NOT_PERMITTED,
        code => code,
    };
    if code != 0 {
        logs::failed(site.name, code);
        if let Some(mut file) = FILES.refused.as_ref()
            && !site.name.starts_with("cuPointerGet")
        {
            let _ = file.write_all(format!("{} {code}\n", site.name).as_bytes());
        }
    }
    live::keep();
    code
}

/// Burns the time that a real driver would take to issue a launch, where that was asked for.
pub fn launch_cost() {
    if !COST.is_zero() {
        let until = Instant::now() + *COST;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}

fn log_call(mut log: &File, site: &'static Site, nth: u64) {
    if nth == 1 {
        SITES.lock().unwrap().insert(site.name, site);
        AT_EXIT.call_once(|| {
            // SAFETY: the handler touches only statics, which live until the process is gone.
            unsafe { libc::atexit(write_counts) };
        });
    }
    // One write a line: lines of several processes that share the file stay whole. A log that
    // cannot be written must not change what the program sees.
    let _ = log.write_all(format!("{}\n", site.name).as_bytes());
}

extern "C" fn write_counts() {
    let Some(mut log) = FILES.log.as_ref() else {
        return;
    };
    let pid = std::process::id();
    let mut text = String::new();
    for (name, site) in SITES.lock().unwrap().iter() {
        text.push_str(&format!(
            "#count {pid} {name} {}\n",
            site.count.load(Ordering::Relaxed)
        ));
    }
    let _ = log.write_all(text.as_bytes());
}

/// Defines exported driver functions.
///
/// `fn [names] (args) { body }`: one C function for each name, all with this body. Names after a
/// `;` are the per-thread-default-stream forms; the body sees which it is in the constant
/// `FLAVOUR`.
macro_rules! api {
    ($( fn [$($name:ident)+ $(; $($thread:ident)+)?] $args:tt $body:tt )*) => {
        $(
            $( $crate::entry::api!(@one Legacy $name $args $body); )+
            $( $( $crate::entry::api!(@one PerThread $thread $args $body); )+ )?
        )*
    };
    (@one $flavour:ident $name:ident $args:tt $body:tt) => {
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, unused_braces, dead_code)]
        pub unsafe extern "C" fn $name $args -> $crate::ffi::CUresult {
            use $crate::state::stream::Flavour;
            const FLAVOUR: Flavour = Flavour::$flavour;
            static SITE: $crate::entry::Site = $crate::entry::Site::new(stringify!($name));
            // SAFETY: a program that calls the driver gives pointers that are valid as its header
            // says.
            $crate::entry::call(&SITE, || unsafe { $body })
        }
    };
}
pub(crate) use api;
