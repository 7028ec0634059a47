//! What devices print. It goes through the C library's own streams, as a driver's would: a program
//! that prints with them, too, sees both in order.

unsafe extern "C" {
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
}

fn write(to: *mut libc::FILE, text: &[u8]) {
    // SAFETY: a stream of the C library's own; the text is as long as said.
    unsafe {
        libc::fwrite(text.as_ptr().cast(), 1, text.len(), to);
        libc::fflush(to);
    }
}

/// Writes what a kernel prints.
pub fn print(text: &[u8]) {
    // SAFETY: it is set before any thread is there.
    write(unsafe { stdout }, text);
}

/// Writes what an assertion says that failed.
pub fn complain(text: &[u8]) {
    // SAFETY: as above.
    write(unsafe { stderr }, text);
}
