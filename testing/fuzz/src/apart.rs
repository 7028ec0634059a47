//! A process for each input. What a worker or a client has opened it gives back by ending, and what
//! one input leaves behind must not be there for the next.
//!
//! The engine counts in memory of its own process which code has run. So that memory is one that
//! parent and child share.

use std::arch::asm;
use std::sync::Once;
use std::time::Duration;

const PAGE: usize = 4096;

/// Where the linker has put the counters of this program's code, and how many bytes they are. The
/// compiler puts in declarations of these names itself, and knows of no others.
fn counters() -> (*mut u8, usize) {
    let (first, end): (*mut u8, *mut u8);
    // SAFETY: takes two addresses.
    unsafe {
        asm!(
            "lea {first}, [rip + __start___sancov_cntrs]",
            "lea {end}, [rip + __stop___sancov_cntrs]",
            first = out(reg) first,
            end = out(reg) end,
            options(nomem, nostack, preserves_flags)
        );
    }
    (first, end as usize - first as usize)
}

/// Has children count where this process does, but for what lies on a page with something else.
fn share_counters() {
    let (first, len) = counters();
    let start = (first as usize).next_multiple_of(PAGE);
    let end = (first as usize + len) & !(PAGE - 1);
    let len = end.saturating_sub(start);
    let (prot, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
    );
    // SAFETY: whole pages of counters, which are but numbers: what was counted so far is gone.
    let memory = unsafe { libc::mmap(start as *mut libc::c_void, len, prot, flags, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED, "no memory for the counters");
}

/// Ends this process, an input's own, in good order.
pub fn end() -> ! {
    // SAFETY: no preconditions; nothing is buffered.
    unsafe { libc::_exit(0) }
}

extern "C" fn too_long(_: i32) {
    end()
}

/// A process like this one, whose one thread goes on here: 0 in the new one.
///
/// The C library's own call would have AddressSanitizer take and give back locks that are spread
/// over 4 MiB, in both processes: two thousand pages that each has to have for itself then, more
/// than an input needs. Where there is one thread nobody holds a lock.
fn fork() -> libc::pid_t {
    // SAFETY: the engine runs inputs on a program's one thread.
    unsafe { libc::syscall(libc::SYS_fork) as libc::pid_t }
}

/// Does something in a process of its own, and panics if that process is ended by anything but
/// [`end`]. One that has not ended by `limit` does: what waits for its client for ever is none of
/// a client's crimes.
pub fn run(limit: Duration, body: impl FnOnce()) {
    static SHARED: Once = Once::new();
    SHARED.call_once(share_counters);
    let child = fork();
    assert!(child >= 0, "no process for an input");
    if child == 0 {
        // SAFETY: a handler that ends the process.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::signal(libc::SIGALRM, too_long as *const () as usize);
            libc::alarm(limit.as_secs() as u32);
        }
        body();
        end();
    }
    let mut status = 0;
    // SAFETY: a child of this process. The engine's own signals interrupt.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {}
    assert_eq!(
        status, 0,
        "the process of this input ended with {status:#x}"
    );
}
