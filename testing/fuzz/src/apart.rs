//! A process for each input. What a worker or a client has opened it gives back by ending, and what
//! one input leaves behind must not be there for the next.
//!
//! The engine counts in memory of its own process which code has run. So the child hands its counts
//! back before it ends.

use std::arch::asm;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// Memory that parent and child share, for the counts.
static COUNTS: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

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

/// Ends this process, an input's own, in good order.
pub fn end() -> ! {
    let (first, len) = counters();
    // SAFETY: as many bytes are mapped as there are counters. Other threads may still count, which
    // changes single bytes.
    unsafe {
        ptr::copy_nonoverlapping(first, COUNTS.load(Ordering::Acquire), len);
        libc::_exit(0)
    }
}

extern "C" fn too_long(_: i32) {
    end()
}

/// Does something in a process of its own, and panics if that process is ended by anything but
/// [`end`]. One that has not ended by `limit` does: what waits for its client for ever is none of
/// a client's crimes.
pub fn run(limit: Duration, body: impl FnOnce()) {
    let (first, len) = counters();
    if COUNTS.load(Ordering::Acquire).is_null() {
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping.
        let memory = unsafe { libc::mmap(ptr::null_mut(), len, prot, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED, "no memory for the counters");
        COUNTS.store(memory.cast(), Ordering::Release);
    }
    // SAFETY: the engine runs inputs on a program's one thread.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process for an input");
    if child == 0 {
        // SAFETY: a handler that copies memory and ends the process.
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
    // SAFETY: as in `end`; the child has ended, and this process's thread is here.
    unsafe { ptr::copy_nonoverlapping(COUNTS.load(Ordering::Acquire), first, len) };
}
