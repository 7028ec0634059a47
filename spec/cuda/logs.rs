//! The driver's log of errors: that of the worker's driver, which is the session's own.

#[remark("of the server's driver: what the client refuses itself is not in it")]
#[id(0x1a01)] #[waits] #[by_hand(client)] #[cx(anywhere)] #[get_proc("cuLogsCurrent", 12090)]
fn cuLogsCurrent(#[out] iterator_out: *mut CUlogIterator, flags: u32) -> CUresult;

#[remark("the file is the client's; times and threads are the server's")]
#[custom] #[cx(anywhere)] #[get_proc("cuLogsDumpToFile", 12090)]
fn cuLogsDumpToFile(
    iterator: *mut CUlogIterator,
    #[cstr] pathToFile: *const c_char,
    flags: u32,
) -> CUresult;

#[remark("times and threads are the server's")]
#[custom] #[cx(anywhere)] #[get_proc("cuLogsDumpToMemory", 12090)]
fn cuLogsDumpToMemory(
    iterator: *mut CUlogIterator,
    buffer: *mut c_char,
    size: *mut usize,
    flags: u32,
) -> CUresult;

#[remark("called before the error shows, by the thread that it shows in or by another")]
#[custom] #[cx(anywhere)] #[get_proc("cuLogsRegisterCallback", 12090)]
fn cuLogsRegisterCallback(
    callbackFunc: CUlogsCallback,
    userData: *mut c_void,
    #[out(optional)] callback_out: *mut CUlogsCallbackHandle,
) -> CUresult;

#[custom] #[cx(anywhere)] #[get_proc("cuLogsUnregisterCallback", 12090)]
fn cuLogsUnregisterCallback(callback: CUlogsCallbackHandle) -> CUresult;
