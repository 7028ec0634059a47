//! The driver's log of errors: that of the driver at the server, of which each session has one.
//! What the client refuses itself, that driver never hears of.
//!
//! The driver calls functions that listen on the thread that has made the mistake, before its call
//! returns. Here a line comes before the error that it is about; whichever comes first runs the
//! function: the thread that is told of the error, or one that is there for this.

use super::prelude::*;
use crate::cuda::call::thread;
use crate::cuda::state::State;
use crate::cuda::state::logs::{Line, Listener};
use crate::threads;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;

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
