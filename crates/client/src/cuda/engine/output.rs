//! What the device prints, and what its failed assertions say: written by a thread of its own, and
//! there before the call returns that has waited for the kernel.
//!
//! It goes through the C library's own streams, as the driver's would: a program that prints with
//! them, too, sees both in order.

use crate::cuda::state::State;
use crate::cuda::state::output::Text;
use std::ffi::c_void;

unsafe extern "C" {
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
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

fn submit(state: &'static State, text: Text) {
    state.output.add(text, |texts| {
        let run = move || {
            for text in texts {
                write(&text);
                state.output.done();
            }
        };
        let named = std::thread::Builder::new().name("busbar-output".into());
        if let Err(e) = named.spawn(run) {
            crate::log!(Error, "cannot start the thread that prints: {e}");
        }
    });
}

/// The device printed something. Called on the receiving thread.
pub fn print(state: &'static State, text: &[u8]) {
    submit(state, Text::Out(text.to_vec()));
}

/// An assertion failed. Called on the receiving thread.
pub fn complain(state: &'static State, text: &[u8]) {
    submit(state, Text::Err(text.to_vec()));
}

/// Code is loaded: does it print?
pub fn look_into(state: &State, image: &[u8]) {
    const CALL: &[u8] = b"vprintf";
    if state.output.expected() {
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
        state.output.expect();
    }
}
