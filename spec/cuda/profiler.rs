//! The profiler's switch.

#[unsupported("writes profiles of the local process; deprecated, and a no-op in current drivers")]
#[get_proc("cuProfilerInitialize", 4000)]
fn cuProfilerInitialize(
    configFile: *const c_char,
    outputFile: *const c_char,
    outputMode: CUoutput_mode,
) -> CUresult;

#[id(0x1901)] #[queued] #[cx(context)] #[get_proc("cuProfilerStart", 4000)]
fn cuProfilerStart() -> CUresult;

#[id(0x1902)] #[queued] #[cx(context)] #[get_proc("cuProfilerStop", 4000)]
fn cuProfilerStop() -> CUresult;
