//! The driver's log of errors: that of the driver at the server, of which each session has one.
//! What the client refuses itself, that driver never hears of, and a dump of its log does not have
//! it; who listens hears of it from here.
//!
//! The driver calls functions that listen on the thread that has made the mistake, before its call
//! returns. Here a line comes before the error that it is about; whichever comes first runs the
//! function: the thread that is told of the error, or one that is there for this.

use super::prelude::*;
use crate::cuda::call::thread;
use crate::cuda::state::State;
use crate::cuda::state::logs::{Line, Listener};
use crate::{stats, threads};
use std::ffi::{CStr, c_char};
use std::fs::OpenOptions;
use std::os::fd::IntoRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::time::{SystemTime, UNIX_EPOCH};

/// A line has come. Called on the receiving thread. An error says what is wrong with the server.
pub fn arrived(state: &State, m: &msg::LogLine<'_>) -> Result<(), String> {
    state.logs.add(Line {
        listener: m.listener,
        level: m.level,
        text: m.text.to_vec(),
    })
}

/// Sees to it that lines are told of which come with no error that a thread waits for. A listener
/// may wait for functions of the program's, so it must not run on the thread that runs those.
pub fn start(state: &'static State) -> Result<()> {
    let mut teller = lock(&state.logs.teller);
    if teller.is_some() {
        return Ok(());
    }
    let (tx, rx) = channel::<()>();
    let run = move || rx.iter().for_each(|()| tell(state));
    threads::start("busbar-log", run).map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)?;
    *teller = Some(tx);
    Ok(())
}

/// A call has failed: listeners hear of it before the program does.
pub fn failed(state: &State, error: CUresult) {
    let theirs = thread::take_answered() == error;
    let name = stats::function().filter(|n| n.starts_with("cu"));
    if let Some(name) = name.filter(|_| !theirs && error != CUDA_ERROR_NOT_READY) {
        let code = error_name(error).map_or("?".into(), CStr::to_string_lossy);
        let text = format!("Returning {error} ({code}) from {name}").into_bytes();
        for listener in state.logs.listeners() {
            let _ = state.logs.add(Line {
                listener,
                level: CU_LOG_LEVEL_ERROR,
                text: text.clone(),
            });
        }
    }
    tell(state);
}

/// `CUDA_LOG_FILE`: has the log written to the program's output, or to the end of a file.
pub fn to_file(cx: Cx, path: &str) {
    let file = match path {
        "stdout" => libc::STDOUT_FILENO,
        "stderr" => libc::STDERR_FILENO,
        _ => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let Ok(file) = file.map(IntoRawFd::into_raw_fd) else {
                return crate::log!(Warn, "CUDA_LOG_FILE: cannot write to {path}");
            };
            file
        }
    };
    let (f, data) = (write as _, file as u64);
    if start(cx.state()).is_ok() {
        let listener = cx.state().logs.listen(Listener { f, data });
        // A driver without a log has nothing to add.
        let _ = cx.call(&msg::LogsListen { listener });
    }
}

/// Writes a line, as the driver does.
unsafe extern "C" fn write(
    file: *mut c_void,
    level: CUlogLevel,
    message: *mut c_char,
    length: usize,
) {
    // SAFETY: a text of that length, as every listener gets.
    let text = unsafe { std::slice::from_raw_parts(message.cast::<u8>(), length) };
    let text = String::from_utf8_lossy(text);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let ms = now.map_or(0, |t| t.as_millis() % 86_400_000);
    let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    // SAFETY: no preconditions.
    let thread = unsafe { libc::pthread_self() };
    let level = if level == CU_LOG_LEVEL_ERROR {
        'E'
    } else {
        'W'
    };
    let ms = ms % 1000;
    let line = format!("[{h:02}:{m:02}:{s:02}.{ms:03}][{thread}][CUDA][{level}] {text}\n");
    // SAFETY: a descriptor of this process's, and bytes that are there. Whoever has closed it hears
    // nothing.
    unsafe { libc::write(file as i32, line.as_ptr().cast(), line.len()) };
}

/// Runs the listeners of what has come, unless this thread is in one.
pub fn tell(state: &State) {
    if thread::is_listening() {
        return;
    }
    let _in_order = state.logs.telling();
    loop {
        let Some(mut line) = state.logs.next() else {
            return;
        };
        let Some(Listener { f, data }) = state.logs.listener(line.listener) else {
            continue;
        };
        let length = line.text.len();
        line.text.push(0);
        let text = line.text.as_mut_ptr().cast();
        // SAFETY: the program's function, its data, and a string of that length.
        let call = || unsafe { f(data as *mut c_void, line.level, text, length) };
        let _ = thread::listen(|| catch_unwind(AssertUnwindSafe(call)));
    }
}
