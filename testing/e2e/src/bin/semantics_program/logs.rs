//! The driver's log of errors: dumped to memory and to files, and told to who listens.

use super::api::{Api, at};
use std::ffi::{c_char, c_void};
use std::time::Duration;

/// Who listens, as the driver calls it back.
struct Listener<'a> {
    api: &'a Api,
    number: u32,
    stream: u64,
}

unsafe extern "C" fn slow(_: *mut c_void) {
    std::thread::sleep(Duration::from_millis(30));
}

unsafe extern "C" fn hear(data: *mut c_void, level: u32, message: *mut c_char, length: usize) {
    // SAFETY: passed on to the caller.
    unsafe { hear_alone(data, level, message, length) };
    // SAFETY: the programs below pass one that outlives its time as a listener.
    let l = unsafe { &*data.cast::<Listener<'_>>() };
    // A listener may call the driver, and wait for functions.
    l.api.call("cuStreamSynchronize", &[l.stream]);
}

/// As [`hear`], and calls nothing: the first call that waits takes the error of one that did not.
unsafe extern "C" fn hear_alone(
    data: *mut c_void,
    level: u32,
    message: *mut c_char,
    length: usize,
) {
    // SAFETY: as above.
    let l = unsafe { &*data.cast::<Listener<'_>>() };
    // SAFETY: the driver's message, of that length, with a zero behind it.
    let bytes = unsafe { std::slice::from_raw_parts(message.cast::<u8>(), length + 1) };
    let text = String::from_utf8_lossy(&bytes[..length]);
    println!("heard {}: {text}", l.number);
    assert_eq!((level, bytes[length]), (0, 0));
}

impl Listener<'_> {
    /// Listens; gives the handle.
    fn begin(&mut self) -> u64 {
        let mut handle = 0u64;
        let f = hear as *const () as u64;
        let args = [f, at(self), at(&mut handle)];
        self.api.tell("cuLogsRegisterCallback", &args);
        println!("a handle: {}", handle != 0);
        handle
    }
}

/// Lines without what is never the same: time and thread.
fn show(place: &str, text: &str) {
    for line in text.lines() {
        println!("{place}: {}", line.rsplit("] ").next().unwrap_or_default());
    }
}

fn dump(api: &Api, iterator: u64, room: usize) {
    let mut buffer = vec![b'x'; 25600];
    let mut size = room;
    let args = [iterator, buffer.as_mut_ptr() as u64, at(&mut size), 0];
    if api.tell("cuLogsDumpToMemory", &args) != 0 {
        println!("{size} bytes");
        return;
    }
    println!("zero at the end: {}", buffer[size] == 0);
    show("in memory", &String::from_utf8_lossy(&buffer[..size]));
}

/// Everything that there is to do with the log.
pub fn logs(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let mut l = Listener {
        api,
        number: 42,
        stream,
    };
    let handle = l.begin();
    api.tell("cuLaunchHostFunc", &[stream, slow as *const () as u64, 0]);
    let mut now = 0u32;
    let it = at(&mut now);
    let fail = || api.tell("cuCtxSetLimit", &[99, 1]);
    api.tell("cuLogsCurrent", &[it, 0]);
    dump(api, it, 25600);
    fail();
    dump(api, it, 25600);
    dump(api, it, 25600);
    let mut size = 1usize;
    api.tell("cuLogsDumpToMemory", &[it, 0, at(&mut size), 0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("log");
    let name = format!("{}\0", path.display());
    api.tell("cuLogsDumpToFile", &[it, name.as_ptr() as u64, 0]);
    let text = std::fs::read_to_string(&path).expect("a file");
    show("in a file", &text);
    dump(api, it, 25600);
    // All that there is, in too little room, and in none.
    fail();
    dump(api, 0, 140);
    dump(api, it, 10);
    api.tell("cuLogsUnregisterCallback", &[handle]);
    fail();
    api.tell("cuLogsUnregisterCallback", &[handle]);
    api.tell("cuLogsRegisterCallback", &[0, 0, 0]);
    api.tell("cuLogsCurrent", &[it, 1]);
    api.tell("cuLogsCurrent", &[0, 0]);
    api.tell("cuLogsDumpToFile", &[it, 0, 0]);
    api.tell(
        "cuLogsDumpToFile",
        &[it, c"/nowhere/log".as_ptr() as u64, 0],
    );
    api.tell("cuLogsDumpToMemory", &[it, 0, 0, 0]);
    // The log outlives what it tells of.
    let trap = api.kernel("trap");
    println!("launch: {}", api.launch(trap, 0, &[]));
    api.tell("cuCtxSynchronize", &[]);
    api.tell("cuLogsCurrent", &[it, 0]);
}

/// A call that nobody waits for is told of before its error shows.
pub fn of_queued(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let p = api.made("cuMemAlloc_v2", &[4096]);
    let mut l = Listener {
        api,
        number: 42,
        stream,
    };
    let f = hear_alone as *const () as u64;
    api.call("cuLogsRegisterCallback", &[f, at(&mut l), 0]);
    api.tell("cuMemsetD8Async", &[p, 0, 64, stream]);
    api.tell("cuStreamSynchronize", &[stream]);
}
