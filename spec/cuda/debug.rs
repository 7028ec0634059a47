//! Debugger hooks, and what is set of core dumps.

#[remark("core dumps are written on the machine of the device alone, so there are none: to enable \
          them is refused; other settings are kept")]
#[local] #[cx(context)] #[get_proc("cuCoredumpGetAttribute", 12010)]
fn cuCoredumpGetAttribute(
    attrib: CUcoredumpSettings,
    value: *mut c_void,
    size: *mut usize,
) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuCoredumpGetAttributeGlobal", 12010)]
fn cuCoredumpGetAttributeGlobal(
    attrib: CUcoredumpSettings,
    value: *mut c_void,
    size: *mut usize,
) -> CUresult;

#[local] #[cx(context)] #[get_proc("cuCoredumpSetAttribute", 12010)]
fn cuCoredumpSetAttribute(
    attrib: CUcoredumpSettings,
    value: *mut c_void,
    size: *mut usize,
) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuCoredumpSetAttributeGlobal", 12010)]
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
