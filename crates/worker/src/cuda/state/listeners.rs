//! Who listens to the driver's log.

use super::prelude::*;
use crate::cuda::driver::{check, is_quiet};
use crate::named::{self, Named};
use crate::outbox::Outbox;
use busbar_wire::codec::Message;
use busbar_wire::generated::cuda as msg;
use busbar_wire::promise::Word;
use std::ffi::{c_char, c_void};

/// The longest line that is passed on whole; the driver's whole log is not much longer.
const MAX_LINE: usize = 16 << 10;
/// Who hears of lines.
static LISTENERS: Named<(Outbox, u32)> = Named::new();

/// What a session listens with, by the client's numbers: ours, and the driver's handle.
pub struct Logs {
    pub driver: &'static Driver,
    pub open: HashMap<u32, (usize, CUlogsCallbackHandle)>,
}

// SAFETY: the handles are the driver's, which takes them from any thread.
unsafe impl Send for Logs {}

impl Logs {
    pub fn new(driver: &'static Driver) -> Self {
        let open = HashMap::new();
        Self { driver, open }
    }

    pub fn listen(&mut self, listener: u32, outbox: Outbox) -> Result {
        refuse_if(self.open.contains_key(&listener), CUDA_ERROR_INVALID_VALUE)?;
        let number = LISTENERS.add((outbox, listener));
        let mut handle = std::ptr::null_mut();
        let data = named::data(number);
        // SAFETY: the function takes what is no number of a listener's, so it may be called after
        // the end; a pointer to a live handle.
        let rc = unsafe {
            self.driver
                .cuLogsRegisterCallback(Some(line), data, &mut handle)
        };
        if let Err(e) = check(rc) {
            LISTENERS.remove(number);
            return Err(e);
        }
        self.open.insert(listener, (number, handle));
        Ok(())
    }

    pub fn ignore(&mut self, listener: u32) -> Result {
        let (number, handle) = self
            .open
            .remove(&listener)
            .ok_or(CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: a handle that the driver gave and that was not given back.
        let rc = unsafe { self.driver.cuLogsUnregisterCallback(handle) };
        LISTENERS.remove(number);
        check(rc)
    }

    /// Ends all of it.
    pub fn close(&mut self) {
        let all: Vec<u32> = self.open.keys().copied().collect();
        for listener in all {
            let _ = self.ignore(listener);
        }
    }
}

/// Every listener's function. The driver calls it on whichever thread has made the mistake.
pub unsafe extern "C" fn line(
    data: *mut c_void,
    level: CUlogLevel,
    message: *mut c_char,
    length: usize,
) {
    if is_quiet() {
        return;
    }
    let Some((outbox, listener)) = LISTENERS.get(data) else {
        return;
    };
    let text = if message.is_null() {
        &[]
    } else {
        // SAFETY: the driver's message, of at least that length.
        unsafe { std::slice::from_raw_parts(message.cast(), length.min(MAX_LINE)) }
    };
    let m = msg::LogLine {
        listener,
        level,
        text,
    };
    outbox.callback(0, Word::LogLine as i32, |w| m.encode(w));
}
