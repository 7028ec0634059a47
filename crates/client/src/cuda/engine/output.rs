//! What the device prints, and what its failed assertions say: written by a thread of its own, and
//! there before the call returns that has waited for the kernel.

use crate::cuda::state::State;
use crate::cuda::state::output::Text;
use crate::{stdio, threads};

fn submit(state: &'static State, text: Text) {
    let room = state.output.add(text, |texts| {
        let run = move || {
            for text in texts {
                let (Text::Out(b) | Text::Err(b)) = &text;
                match &text {
                    Text::Out(b) => stdio::print(b),
                    Text::Err(b) => stdio::complain(b),
                }
                let dropped = state.output.done(b.len());
                if dropped > 0 {
                    crate::log!(Warn, "{dropped} bytes that the device printed are lost");
                }
            }
        };
        let _ = threads::start("busbar-output", run);
    });
    if !room {
        crate::log!(
            Warn,
            "nobody reads what the program prints: what the device prints now is lost"
        );
    }
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
