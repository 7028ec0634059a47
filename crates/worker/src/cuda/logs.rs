//! The driver's log of errors. A worker has one session, so its driver's log is the session's.

use super::{Cuda, attempt, check};
use crate::named::{self, Named};
use crate::outbox::Outbox;
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::codec::Message;
use busbar_wire::generated::cuda as msg;
use busbar_wire::promise::Word;
use busbar_wire::record::Header;
use std::collections::HashMap;
use std::ffi::{c_char, c_void};

/// The longest line that is passed on whole; the driver's whole log is not much longer.
const MAX_LINE: usize = 16 << 10;
/// The most bytes of a dump. The driver's log has 25,600.
const MAX_DUMP: u64 = 1 << 20;

/// Who hears of lines.
static LISTENERS: Named<(Outbox, u32)> = Named::new();

/// What a session listens with, by the client's numbers: ours, and the driver's handle.
pub(super) struct Logs {
    driver: &'static Driver,
    open: HashMap<u32, (usize, CUlogsCallbackHandle)>,
}

// SAFETY: the handles are the driver's, which takes them from any thread.
unsafe impl Send for Logs {}

impl Logs {
    pub(super) fn new(driver: &'static Driver) -> Self {
        let open = HashMap::new();
        Self { driver, open }
    }

    fn listen(&mut self, listener: u32, outbox: Outbox) -> Result<(), CUresult> {
        if self.open.contains_key(&listener) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
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

    fn ignore(&mut self, listener: u32) -> Result<(), CUresult> {
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
    pub(super) fn close(&mut self) {
        let all: Vec<u32> = self.open.keys().copied().collect();
        for listener in all {
            let _ = self.ignore(listener);
        }
    }
}

/// Every listener's function. The driver calls it on whichever thread has made the mistake.
unsafe extern "C" fn line(
    data: *mut c_void,
    level: CUlogLevel,
    message: *mut c_char,
    length: usize,
) {
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

pub(super) fn logs_listen(w: &mut Cuda, h: &Header, m: msg::LogsListen) -> Result<(), WireError> {
    let outbox = w.outbox.clone();
    let rc = attempt(|| w.logs.listen(m.listener, outbox));
    w.reply(h, rc, |_| {});
    Ok(())
}

pub(super) fn logs_ignore(w: &mut Cuda, h: &Header, m: msg::LogsIgnore) -> Result<(), WireError> {
    let rc = attempt(|| w.logs.ignore(m.listener));
    w.reply(h, rc, |_| {});
    Ok(())
}

pub(super) fn logs_dump(w: &mut Cuda, h: &Header, m: msg::LogsDump) -> Result<(), WireError> {
    let mut iterator = m.iterator;
    let mut size = m.size.min(MAX_DUMP) as usize;
    // With room for a zero at the end even if the program has none.
    let mut text = vec![0u8; size + 1];
    let buffer = match m.buffer {
        0 => std::ptr::null_mut(),
        _ => text.as_mut_ptr().cast(),
    };
    let from = match m.from {
        0 => std::ptr::null_mut(),
        _ => &raw mut iterator,
    };
    // SAFETY: a live iterator or none, a live size, and a buffer of that size or none.
    let rc = unsafe {
        w.driver
            .cuLogsDumpToMemory(from, buffer, &mut size, m.flags)
    };
    // The size is without the zero at the end.
    let told = rc == CUDA_SUCCESS && m.buffer != 0;
    text.truncate(if told { size } else { 0 });
    let reply = msg::LogsDumpReply {
        next: iterator,
        written: size as u64,
        text: &text,
    };
    w.reply_always(h, rc, |wr| reply.encode(wr));
    Ok(())
}

pub(super) fn log_line(_w: &mut Cuda, _h: &Header, _m: msg::LogLine) -> Result<(), WireError> {
    // It goes the other way only.
    Err(WireError::BadValue("direction"))
}
