//! Listening to the driver's log, and reading it.

use super::prelude::*;
use crate::cuda::engine::logs;
use crate::cuda::life::log_is_used;
use crate::cuda::state::contexts::as_result;
use crate::cuda::state::logs::Listener;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Room for all that the driver keeps.
const WHOLE_LOG: u64 = 64 << 10;

/// What a dump gave.
struct Dump {
    status: CUresult,
    iterator: CUlogIterator,
    size: u64,
    text: Vec<u8>,
}

/// Asks for what the log has from the program's iterator on.
unsafe fn dump(
    cx: Cx,
    iterator: *const CUlogIterator,
    buffer: bool,
    size: u64,
    flags: u32,
) -> Result<Dump> {
    let m = msg::LogsDump {
        from: u32::from(!iterator.is_null()),
        iterator: if iterator.is_null() {
            0
        } else {
            // SAFETY: the program's pointer, which is not null.
            unsafe { iterator.read_unaligned() }
        },
        buffer: u32::from(buffer),
        size,
        flags,
    };
    let (status, body) = cx.call_any(&m)?;
    let r = decode::<msg::LogsDumpReply<'_>>(&body)?;
    Ok(Dump {
        status,
        iterator: r.next,
        size: r.written,
        text: r.text.to_vec(),
    })
}

pub unsafe fn cuLogsRegisterCallback(
    cx: Cx,
    f: CUlogsCallback,
    data: *mut c_void,
) -> Result<CUlogsCallbackHandle> {
    let f = f.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    logs::start(cx.state())?;
    log_is_used();
    let data = data as u64;
    // Lines may come before the answer.
    let all = &cx.state().logs;
    let listener = all.listen(Listener { f, data });
    cx.call(&msg::LogsListen { listener })
        .inspect_err(|_| all.ignore(listener))?;
    Ok(listener as usize as CUlogsCallbackHandle)
}

pub fn cuLogsUnregisterCallback(cx: Cx, handle: CUlogsCallbackHandle) -> Result<()> {
    let listener = u32::try_from(handle as usize).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    if cx.state().logs.listener(listener).is_none() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    cx.call(&msg::LogsIgnore { listener })?;
    // It hears of all that came before, and of nothing when this has returned.
    logs::tell(cx.state());
    cx.state().logs.ignore(listener);
    Ok(())
}

pub fn cuLogsCurrent(cx: Cx, flags: u32) -> Result<CUlogIterator> {
    let now = cx.reply_to(&msg::CuLogsCurrent { flags })?.iterator_out;
    Ok(now)
}

pub unsafe fn cuLogsDumpToFile(
    cx: Cx,
    iterator: *mut CUlogIterator,
    path: &CStr,
    flags: u32,
) -> Result<()> {
    // SAFETY: passed on to the caller.
    let d = unsafe { dump(cx, iterator, true, WHOLE_LOG, flags)? };
    if d.status != CUDA_SUCCESS {
        return Err(d.status);
    }
    let path = OsStr::from_bytes(path.to_bytes());
    std::fs::write(path, d.text).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program's pointer, which it need not give.
    unsafe { put_opt(iterator, d.iterator) };
    Ok(())
}

pub unsafe fn cuLogsDumpToMemory(
    cx: Cx,
    iterator: *mut CUlogIterator,
    buffer: *mut c_char,
    size: *mut usize,
    flags: u32,
) -> Result<()> {
    refuse_if(size.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: checked for null above; the program's pointer.
    let room = unsafe { size.read_unaligned() };
    // SAFETY: passed on to the caller.
    let d = unsafe { dump(cx, iterator, !buffer.is_null(), room as u64, flags)? };
    if d.status == CUDA_SUCCESS && !buffer.is_null() && room > 0 {
        let n = d.text.len().min(room - 1);
        // SAFETY: the program's buffer of that size, and a text that is shorter.
        unsafe {
            std::ptr::copy_nonoverlapping(d.text.as_ptr(), buffer.cast(), n);
            buffer.add(n).write(0);
        }
    }
    // SAFETY: the program's pointers, the first of which it need not give.
    unsafe {
        put_opt(iterator, d.iterator);
        put(size, (d.size as usize).min(room))?;
    }
    as_result(d.status)
}
