//! The driver's log of errors. A worker has one session, so its driver's log is the session's.

use super::prelude::*;

/// The most bytes of a dump. The driver's log has 25,600.
const MAX_DUMP: u64 = 1 << 20;

pub fn logs_listen(w: &mut Cuda, m: msg::LogsListen) -> Result {
    let outbox = w.outbox.clone();
    w.logs.listen(m.listener, outbox)
}

pub fn logs_ignore(w: &mut Cuda, m: msg::LogsIgnore) -> Result {
    w.logs.ignore(m.listener)
}

pub fn logs_dump(w: &mut Cuda, m: msg::LogsDump) -> Result<Always<Encoded>> {
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
    let rc = unsafe { w.cuLogsDumpToMemory(from, buffer, &mut size, m.flags) };
    // The size is without the zero at the end.
    let told = rc == CUDA_SUCCESS && m.buffer != 0;
    text.truncate(if told { size } else { 0 });
    let reply = Encoded::of(&msg::LogsDumpReply {
        next: iterator,
        written: size as u64,
        text: &text,
    });
    Ok(Always(rc, reply))
}

pub fn log_line(_w: &mut Cuda, _m: msg::LogLine) -> Result<(), WireError> {
    // It goes the other way only.
    Err(WireError::BadValue("direction"))
}
