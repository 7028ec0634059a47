//! What the device prints, and what its failed assertions say: written by a thread of its own, and
//! there before the call returns that has waited for the kernel.
//!
//! It goes through the C library's own streams, as the driver's would: a program that prints with
//! them, too, sees both in order.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

enum Text {
    Out(Vec<u8>),
    Err(Vec<u8>),
}

unsafe extern "C" {
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
}

#[derive(Default)]
struct State {
    writer: Option<Sender<Text>>,
    /// Texts that are not written yet.
    left: usize,
}

static STATE: Mutex<State> = Mutex::new(State {
    writer: None,
    left: 0,
});
static WRITTEN: Condvar = Condvar::new();
/// Whether kernels of this program print, as far as is known.
static PRINTS: AtomicBool = AtomicBool::new(false);

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(text: &Text) {
    // SAFETY: the C library's own streams; the text is as long as said.
    unsafe {
        let (to, bytes) = match text {
            Text::Out(b) => (stdout, b),
            Text::Err(b) => (stderr, b),
        };
        libc::fwrite(bytes.as_ptr().cast::<c_void>(), 1, bytes.len(), to);
        libc::fflush(to);
    }
}

fn submit(text: Text) {
    let mut s = lock();
    let tx = s.writer.get_or_insert_with(|| {
        let (tx, rx) = channel::<Text>();
        let run = move || {
            for text in rx {
                write(&text);
                lock().left -= 1;
                WRITTEN.notify_all();
            }
        };
        let named = std::thread::Builder::new().name("busbar-output".into());
        if let Err(e) = named.spawn(run) {
            crate::log!(Error, "cannot start the thread that prints: {e}");
        }
        tx
    });
    if tx.send(text).is_ok() {
        s.left += 1;
    }
}

/// The device printed something. Called on the receiving thread.
pub fn print(text: &[u8]) {
    PRINTS.store(true, Ordering::Release);
    submit(Text::Out(text.to_vec()));
}

/// An assertion failed. Called on the receiving thread.
pub fn complain(text: &[u8]) {
    PRINTS.store(true, Ordering::Release);
    submit(Text::Err(text.to_vec()));
}

/// Waits until all that has come is written.
pub fn settle() {
    if !PRINTS.load(Ordering::Acquire) {
        return;
    }
    let mut s = lock();
    while s.left > 0 {
        s = WRITTEN.wait(s).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Whether kernels of this program may print: then a copy that waits for them must also fetch what
/// they have printed.
pub fn expected() -> bool {
    PRINTS.load(Ordering::Acquire)
}

/// Code is loaded: does it print?
pub fn look_into(image: &[u8]) {
    const CALL: &[u8] = b"vprintf";
    if expected() {
        return;
    }
    // SAFETY: both pieces of memory are as long as said.
    let found = unsafe {
        libc::memmem(
            image.as_ptr().cast(),
            image.len(),
            CALL.as_ptr().cast(),
            CALL.len(),
        )
    };
    if !found.is_null() {
        PRINTS.store(true, Ordering::Release);
    }
}
