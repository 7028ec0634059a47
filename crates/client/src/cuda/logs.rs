//! The driver's log of errors: that of the driver at the server, of which each session has one.
//! What the client refuses itself, that driver never hears of.
//!
//! The driver calls functions that listen on the thread that has made the mistake, before its call
//! returns. Here a line comes before the error that it is about; whichever comes first runs the
//! function: the thread that is told of the error, or one that is there for this.

use super::fault;
use super::runtime::{decode, enter_anywhere, guard, put, put_opt};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda as msg;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Room for all that the driver keeps.
const WHOLE_LOG: u64 = 64 << 10;

/// A function of the program's that hears of lines.
#[derive(Clone, Copy)]
struct Listener {
    f: unsafe extern "C" fn(*mut c_void, CUlogLevel, *mut c_char, usize),
    /// An address that only the program understands.
    data: u64,
}

/// A line that a listener has not heard of yet.
struct Line {
    listener: u32,
    level: CUlogLevel,
    text: Vec<u8>,
}

static LISTENERS: Mutex<BTreeMap<u32, Listener>> = Mutex::new(BTreeMap::new());
static LINES: Mutex<VecDeque<Line>> = Mutex::new(VecDeque::new());
/// The way to the thread that tells of lines.
static TELLER: Mutex<Option<Sender<()>>> = Mutex::new(None);
/// Held by the thread that runs listeners: lines are told of in order.
static TELLING: Mutex<()> = Mutex::new(());
/// Whether anybody has ever listened: nobody else pays for it.
static USED: AtomicBool = AtomicBool::new(false);
static NEXT: AtomicU32 = AtomicU32::new(1);

thread_local! {
    /// Whether this thread is in a listener, whose own errors must not make it wait for itself.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether lines may come.
#[inline]
pub fn used() -> bool {
    USED.load(Ordering::Acquire)
}

/// Lines that may wait to be told of: a server cannot fill the program's memory with them.
const MOST_LINES: usize = 1 << 16;

/// A line has come. Called on the receiving thread. An error says what is wrong with the server.
pub fn arrived(m: &msg::LogLine<'_>) -> Result<(), String> {
    // One that has just been ignored may have been on its way.
    if !lock(&LISTENERS).contains_key(&m.listener) {
        return Ok(());
    }
    let mut lines = lock(&LINES);
    if lines.len() >= MOST_LINES {
        return Err(format!(
            "more than {MOST_LINES} lines that wait for the program to listen"
        ));
    }
    lines.push_back(Line {
        listener: m.listener,
        level: m.level,
        text: m.text.to_vec(),
    });
    drop(lines);
    if let Some(tx) = &*lock(&TELLER) {
        let _ = tx.send(());
    }
    Ok(())
}

/// Sees to it that lines are told of which come with no error that a thread waits for. A listener
/// may wait for functions of the program's, so it must not run on the thread that runs those.
fn start() -> Result<(), CUresult> {
    let mut teller = lock(&TELLER);
    if teller.is_some() {
        return Ok(());
    }
    let (tx, rx) = channel::<()>();
    let run = move || rx.iter().for_each(|()| tell());
    let named = std::thread::Builder::new().name("busbar-log".into());
    if let Err(e) = fault::quietly(|| named.spawn(run)) {
        crate::log!(Error, "cannot start the thread of listeners: {e}");
        return Err(CUDA_ERROR_OPERATING_SYSTEM);
    }
    *teller = Some(tx);
    Ok(())
}

/// Runs the listeners of what has come, unless this thread is in one.
pub fn tell() {
    if INSIDE.get() {
        return;
    }
    let _in_order = lock(&TELLING);
    loop {
        let next = lock(&LINES).pop_front();
        let Some(mut line) = next else { return };
        let listener = lock(&LISTENERS).get(&line.listener).copied();
        let Some(Listener { f, data }) = listener else {
            continue;
        };
        let length = line.text.len();
        line.text.push(0);
        let text = line.text.as_mut_ptr().cast();
        INSIDE.set(true);
        // SAFETY: the program's function, its data, and a string of that length.
        let call = || unsafe { f(data as *mut c_void, line.level, text, length) };
        let _ = catch_unwind(AssertUnwindSafe(call));
        INSIDE.set(false);
    }
}

pub(super) unsafe fn cuLogsRegisterCallback(
    f: CUlogsCallback,
    data: *mut c_void,
    out: *mut CUlogsCallbackHandle,
) -> CUresult {
    guard(|| {
        let cx = enter_anywhere()?;
        let f = f.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        start()?;
        let listener = NEXT.fetch_add(1, Ordering::Relaxed);
        let data = data as u64;
        // Lines may come before the answer.
        lock(&LISTENERS).insert(listener, Listener { f, data });
        USED.store(true, Ordering::Release);
        cx.call(&msg::LogsListen { listener })
            .inspect_err(|_| _ = lock(&LISTENERS).remove(&listener))?;
        // SAFETY: the program's pointer, which it need not give.
        unsafe { put_opt(out, listener as usize as CUlogsCallbackHandle) };
        Ok(())
    })
}

pub(super) unsafe fn cuLogsUnregisterCallback(handle: CUlogsCallbackHandle) -> CUresult {
    guard(|| {
        let cx = enter_anywhere()?;
        let listener = u32::try_from(handle as usize).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
        if !lock(&LISTENERS).contains_key(&listener) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        cx.call(&msg::LogsIgnore { listener })?;
        // It hears of all that came before, and of nothing when this has returned.
        tell();
        lock(&LISTENERS).remove(&listener);
        Ok(())
    })
}

pub(super) unsafe fn cuLogsCurrent(out: *mut CUlogIterator, flags: u32) -> CUresult {
    guard(|| {
        let cx = enter_anywhere()?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let reply = cx.call(&msg::CuLogsCurrent { flags })?;
        let now = decode::<msg::CuLogsCurrentReply>(&reply)?.iterator_out;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, now) }
    })
}

/// What a dump gave.
struct Dump {
    status: CUresult,
    iterator: CUlogIterator,
    size: u64,
    text: Vec<u8>,
}

/// Asks for what the log has from the program's iterator on.
unsafe fn dump(
    iterator: *const CUlogIterator,
    buffer: bool,
    size: u64,
    flags: u32,
) -> Result<Dump, CUresult> {
    let cx = enter_anywhere()?;
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

pub(super) unsafe fn cuLogsDumpToFile(
    iterator: *mut CUlogIterator,
    path: *const c_char,
    flags: u32,
) -> CUresult {
    guard(|| {
        if path.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: passed on to the caller.
        let d = unsafe { dump(iterator, true, WHOLE_LOG, flags)? };
        if d.status != CUDA_SUCCESS {
            return Err(d.status);
        }
        // SAFETY: checked for null above; the program's C string.
        let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
        std::fs::write(path, d.text).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the program's pointer, which it need not give.
        unsafe { put_opt(iterator, d.iterator) };
        Ok(())
    })
}

pub(super) unsafe fn cuLogsDumpToMemory(
    iterator: *mut CUlogIterator,
    buffer: *mut c_char,
    size: *mut usize,
    flags: u32,
) -> CUresult {
    guard(|| {
        if size.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: checked for null above; the program's pointer.
        let room = unsafe { size.read_unaligned() };
        // SAFETY: passed on to the caller.
        let d = unsafe { dump(iterator, !buffer.is_null(), room as u64, flags)? };
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
        match d.status {
            CUDA_SUCCESS => Ok(()),
            e => Err(e),
        }
    })
}
