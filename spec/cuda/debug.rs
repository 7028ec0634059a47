//! Debugger hooks, core dumps and checkpoints.

#[unsupported("the driver checkpoints processes of its own machine only")]
#[get_proc("cuCheckpointProcessCheckpoint", 12080)]
fn cuCheckpointProcessCheckpoint(pid: i32, args: *mut CUcheckpointCheckpointArgs) -> CUresult;

#[unsupported("the driver checkpoints processes of its own machine only")]
#[get_proc("cuCheckpointProcessGetRestoreThreadId", 12080)]
fn cuCheckpointProcessGetRestoreThreadId(pid: i32, tid: *mut i32) -> CUresult;

#[unsupported("the driver checkpoints processes of its own machine only")]
#[get_proc("cuCheckpointProcessGetState", 12080)]
fn cuCheckpointProcessGetState(pid: i32, state: *mut CUprocessState) -> CUresult;

#[unsupported("the driver checkpoints processes of its own machine only")]
#[get_proc("cuCheckpointProcessLock", 12080)]
fn cuCheckpointProcessLock(pid: i32, args: *mut CUcheckpointLockArgs) -> CUresult;

#[unsupported("the driver checkpoints processes of its own machine only")]
#[get_proc("cuCheckpointProcessRestore", 12080)]
fn cuCheckpointProcessRestore(pid: i32, args: *mut CUcheckpointRestoreArgs) -> CUresult;

#[unsupported("the driver checkpoints processes of its own machine only")]
#[get_proc("cuCheckpointProcessUnlock", 12080)]
fn cuCheckpointProcessUnlock(pid: i32, args: *mut CUcheckpointUnlockArgs) -> CUresult;

#[unsupported("core dumps are written on the machine of the device")]
#[get_proc("cuCoredumpGetAttribute", 12010)]
fn cuCoredumpGetAttribute(
    attrib: CUcoredumpSettings,
    value: *mut c_void,
    size: *mut usize,
) -> CUresult;

#[unsupported("core dumps are written on the machine of the device")]
#[get_proc("cuCoredumpGetAttributeGlobal", 12010)]
fn cuCoredumpGetAttributeGlobal(
    attrib: CUcoredumpSettings,
    value: *mut c_void,
    size: *mut usize,
) -> CUresult;

#[unsupported("core dumps are written on the machine of the device")]
#[get_proc("cuCoredumpSetAttribute", 12010)]
fn cuCoredumpSetAttribute(
    attrib: CUcoredumpSettings,
    value: *mut c_void,
    size: *mut usize,
) -> CUresult;

#[unsupported("core dumps are written on the machine of the device")]
#[get_proc("cuCoredumpSetAttributeGlobal", 12010)]
fn cuCoredumpSetAttributeGlobal(
    attrib: CUcoredumpSettings,
    value: *mut c_void,
    size: *mut usize,
) -> CUresult;

#[unsupported("for a debugger on the machine of the device")]
fn cudbgApiAttach() -> CUresult;

#[unsupported("for a debugger on the machine of the device")]
static cudbgApiClientPid: u32;

#[unsupported("for a debugger on the machine of the device")]
static cudbgApiClientRevision: u32;

#[unsupported("for a debugger on the machine of the device")]
fn cudbgApiDetach() -> CUresult;

#[unsupported("for a debugger on the machine of the device")]
fn cudbgApiInit() -> CUresult;

#[unsupported("for a debugger on the machine of the device")]
static cudbgAttachHandlerAvailable: u32;

#[unsupported("for a debugger on the machine of the device")]
static cudbgDebuggerCapabilities: u32;

#[unsupported("for a debugger on the machine of the device")]
static cudbgDebuggerInitialized: u32;

#[unsupported("for a debugger on the machine of the device")]
static cudbgDetachSuspendedDevicesMask: u32;

#[unsupported("for a debugger on the machine of the device")]
static cudbgEnableIntegratedMemcheck: u32;

#[unsupported("for a debugger on the machine of the device")]
static cudbgEnableLaunchBlocking: u32;

#[unsupported("for a debugger on the machine of the device")]
static cudbgEnablePreemptionDebugging: u32;

#[unsupported("for a debugger on the machine of the device")]
fn cudbgGetAPI() -> CUresult;

#[unsupported("for a debugger on the machine of the device")]
fn cudbgGetAPIVersion() -> CUresult;

#[unsupported("for a debugger on the machine of the device")]
static cudbgInjectionPath: [u8; 4096];

#[unsupported("for a debugger on the machine of the device")]
static cudbgIpcFlag: u32;

#[unsupported("for a debugger on the machine of the device")]
fn cudbgMain() -> CUresult;

#[unsupported("for a debugger on the machine of the device")]
fn cudbgReportDriverApiError() -> CUresult;

#[unsupported("for a debugger on the machine of the device")]
static cudbgReportDriverApiErrorFlags: u32;

#[unsupported("for a debugger on the machine of the device")]
fn cudbgReportDriverInternalError() -> CUresult;

#[unsupported("for a debugger on the machine of the device")]
static cudbgReportedDriverApiErrorCode: u64;

#[unsupported("for a debugger on the machine of the device")]
static cudbgReportedDriverApiErrorFuncNameAddr: u64;

#[unsupported("for a debugger on the machine of the device")]
static cudbgReportedDriverApiErrorFuncNameSize: u64;

#[unsupported("for a debugger on the machine of the device")]
static cudbgReportedDriverApiErrorNameAddr: u64;

#[unsupported("for a debugger on the machine of the device")]
static cudbgReportedDriverApiErrorNameSize: u64;

#[unsupported("for a debugger on the machine of the device")]
static cudbgReportedDriverApiErrorSource: u32;

#[unsupported("for a debugger on the machine of the device")]
static cudbgReportedDriverApiErrorStringAddr: u64;

#[unsupported("for a debugger on the machine of the device")]
static cudbgReportedDriverApiErrorStringSize: u64;

#[unsupported("for a debugger on the machine of the device")]
static cudbgReportedDriverInternalErrorCode: u64;

#[unsupported("for a debugger on the machine of the device")]
static cudbgResumeForAttachDetach: u32;

#[unsupported("for a debugger on the machine of the device")]
static cudbgRpcEnabled: u32;

#[unsupported("for a debugger on the machine of the device")]
static cudbgSessionId: u32;

#[unsupported("for a debugger on the machine of the device")]
static cudbgUseExternalDebugger: u32;
