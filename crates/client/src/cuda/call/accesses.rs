//! The system's own accesses to shadowed memory, on behalf of the program.
//!
//! A fault in a system call is no signal: the call fails. So functions of the C library that hand
//! memory to the system have ours in front of them, once there is something that they may meet:
//! those open what is closed of that memory first. What a system call is made with past the C
//! library they do not see.
//!
//! A program may also take the signal away that the rest needs: its handler comes behind ours, and
//! a thread that blocks the signal only believes so.

use super::fault;
use crate::replace::{AHEAD, LIBRARY, Next, Replacement, replace};
use libc::{c_int, c_void, iovec, mmsghdr, msghdr, off_t, sigset_t, size_t, socklen_t, ssize_t};
use std::cell::Cell;

/// Memory of the program's that the system is about to read, or to write; whether kernels may use
/// it.
fn meets(p: *const c_void, len: usize, writes: bool) -> bool {
    fault::open(p as u64, len as u64, writes)
}

/// The same of several pieces.
///
/// # Safety
/// A list of `n` pieces.
unsafe fn meet_all(list: *const iovec, n: usize, writes: bool) -> bool {
    if !fault::is_active() || list.is_null() {
        return false;
    }
    // SAFETY: passed on to the caller.
    let list = unsafe { std::slice::from_raw_parts(list, n) };
    let meet = |any, v: &iovec| meets(v.iov_base, v.iov_len, writes) || any;
    list.iter().fold(false, meet)
}

/// The same of a message.
///
/// # Safety
/// Null, or a message.
unsafe fn meet_message(m: *const msghdr, writes: bool) -> bool {
    // SAFETY: passed on to the caller.
    let m = unsafe { m.as_ref() };
    // SAFETY: as above.
    m.is_some_and(|m| unsafe { meet_all(m.msg_iov, m.msg_iovlen, writes) })
}

/// The same of several messages.
///
/// # Safety
/// A list of `n` messages.
unsafe fn meet_messages(list: *const mmsghdr, n: u32, writes: bool) -> bool {
    // SAFETY: passed on to the caller.
    let one = |i| unsafe { meet_message(&raw const (*list.add(i)).msg_hdr, writes) };
    (0..n as usize).filter(|i| one(*i)).count() > 0
}

/// Work of another thread's may close again what was just opened: so often it is tried again.
const OFTEN: usize = 100;

/// Functions of ours, and where each leads to: `next`, one of the same kind. They are listed under
/// a name.
macro_rules! gates {
    ($vis:vis $list:ident: $(
        $name:ident($($a:ident: $t:ty),*) -> $r:ty, $next:ident => $does:expr;
    )*) => {
        $(
            unsafe extern "C" fn $name<const PLACE: usize>($($a: $t),*) -> $r {
                // SAFETY: what the program says of its own memory, and its own call; whoever comes
                // here was led here after it was looked up where that leads to.
                #[allow(unused_unsafe)]
                unsafe {
                    type Real = unsafe extern "C" fn($($t),*) -> $r;
                    let $next: Real = std::mem::transmute(next::$name.of(PLACE));
                    $does
                }
            }
        )*
        mod next {
            $(
                #[allow(non_upper_case_globals)]
                pub static $name: super::Next = super::Next::new();
            )*
        }
        $vis const $list: &[Replacement] = &[$(Replacement {
            // The name ends where a C string does.
            name: match std::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            },
            ours: [$name::<LIBRARY> as *const (), $name::<AHEAD> as *const ()],
            next: &next::$name,
        }),*];
    };
}

/// Functions that open what they are about to meet.
macro_rules! before {
    ($list:ident: $($name:ident($($a:ident: $t:ty),*) -> $r:ty { $first:expr })*) => {
        gates! { $list: $(
            $name($($a: $t),*) -> $r, next => {
                for _ in 0..OFTEN {
                    let met = $first;
                    let r = next($($a),*);
                    let failed = r as isize == -1 && *libc::__errno_location() == libc::EFAULT;
                    if !met || !failed {
                        return r;
                    }
                }
                next($($a),*)
            };
        )* }
    };
}

type At = *const c_void;
type To = *mut c_void;

before! { ACCESSES:
    write(fd: c_int, p: At, n: size_t) -> ssize_t { meets(p, n, false) }
    pwrite(fd: c_int, p: At, n: size_t, at: off_t) -> ssize_t { meets(p, n, false) }
    pwrite64(fd: c_int, p: At, n: size_t, at: off_t) -> ssize_t { meets(p, n, false) }
    send(fd: c_int, p: At, n: size_t, flags: c_int) -> ssize_t { meets(p, n, false) }
    sendto(fd: c_int, p: At, n: size_t, flags: c_int, to: At, len: socklen_t) -> ssize_t {
        meets(p, n, false)
    }
    writev(fd: c_int, list: *const iovec, n: c_int) -> ssize_t {
        meet_all(list, n.max(0) as usize, false)
    }
    pwritev(fd: c_int, list: *const iovec, n: c_int, at: off_t) -> ssize_t {
        meet_all(list, n.max(0) as usize, false)
    }
    pwritev64(fd: c_int, list: *const iovec, n: c_int, at: off_t) -> ssize_t {
        meet_all(list, n.max(0) as usize, false)
    }
    pwritev2(fd: c_int, list: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t {
        meet_all(list, n.max(0) as usize, false)
    }
    pwritev64v2(fd: c_int, list: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t {
        meet_all(list, n.max(0) as usize, false)
    }
    sendmsg(fd: c_int, m: *const msghdr, flags: c_int) -> ssize_t { meet_message(m, false) }
    sendmmsg(fd: c_int, list: *mut mmsghdr, n: u32, flags: c_int) -> c_int {
        meet_messages(list, n, false)
    }
    fwrite(p: At, size: size_t, n: size_t, f: To) -> size_t {
        meets(p, size.saturating_mul(n), false)
    }
    fwrite_unlocked(p: At, size: size_t, n: size_t, f: To) -> size_t {
        meets(p, size.saturating_mul(n), false)
    }
    read(fd: c_int, p: To, n: size_t) -> ssize_t { meets(p, n, true) }
    pread(fd: c_int, p: To, n: size_t, at: off_t) -> ssize_t { meets(p, n, true) }
    pread64(fd: c_int, p: To, n: size_t, at: off_t) -> ssize_t { meets(p, n, true) }
    recv(fd: c_int, p: To, n: size_t, flags: c_int) -> ssize_t { meets(p, n, true) }
    recvfrom(fd: c_int, p: To, n: size_t, flags: c_int, from: To, len: To) -> ssize_t {
        meets(p, n, true)
    }
    readv(fd: c_int, list: *const iovec, n: c_int) -> ssize_t {
        meet_all(list, n.max(0) as usize, true)
    }
    preadv(fd: c_int, list: *const iovec, n: c_int, at: off_t) -> ssize_t {
        meet_all(list, n.max(0) as usize, true)
    }
    preadv64(fd: c_int, list: *const iovec, n: c_int, at: off_t) -> ssize_t {
        meet_all(list, n.max(0) as usize, true)
    }
    preadv2(fd: c_int, list: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t {
        meet_all(list, n.max(0) as usize, true)
    }
    preadv64v2(fd: c_int, list: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t {
        meet_all(list, n.max(0) as usize, true)
    }
    getrandom(p: To, n: size_t, flags: u32) -> ssize_t { meets(p, n, true) }
    recvmsg(fd: c_int, m: *mut msghdr, flags: c_int) -> ssize_t { meet_message(m, true) }
    recvmmsg(fd: c_int, list: *mut mmsghdr, n: u32, flags: c_int, limit: To) -> c_int {
        meet_messages(list, n, true)
    }
    fread(p: To, size: size_t, n: size_t, f: To) -> size_t {
        meets(p, size.saturating_mul(n), true)
    }
    fread_unlocked(p: To, size: size_t, n: size_t, f: To) -> size_t {
        meets(p, size.saturating_mul(n), true)
    }
    __read_chk(fd: c_int, p: To, n: size_t, room: size_t) -> ssize_t { meets(p, n, true) }
    __pread_chk(fd: c_int, p: To, n: size_t, at: off_t, room: size_t) -> ssize_t {
        meets(p, n, true)
    }
    __pread64_chk(fd: c_int, p: To, n: size_t, at: off_t, room: size_t) -> ssize_t {
        meets(p, n, true)
    }
    __recv_chk(fd: c_int, p: To, n: size_t, room: size_t, flags: c_int) -> ssize_t {
        meets(p, n, true)
    }
    __fread_chk(p: To, room: size_t, size: size_t, n: size_t, f: To) -> size_t {
        meets(p, size.saturating_mul(n), true)
    }
    __write(fd: c_int, p: At, n: size_t) -> ssize_t { meets(p, n, false) }
    __read(fd: c_int, p: To, n: size_t) -> ssize_t { meets(p, n, true) }
    __send(fd: c_int, p: At, n: size_t, flags: c_int) -> ssize_t { meets(p, n, false) }
    __pwrite64(fd: c_int, p: At, n: size_t, at: off_t) -> ssize_t { meets(p, n, false) }
}

type Action = libc::sigaction;
type SetAction = unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int;
type SetHandler = unsafe extern "C" fn(c_int, usize) -> usize;

/// `sigaction`: what concerns our signal is kept for later.
///
/// # Safety
/// A function of the C library's kind; null, or structures of the program's, which may be the same
/// one.
unsafe fn action(real: SetAction, signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe {
        if signal != libc::SIGSEGV {
            return real(signal, new, old);
        }
        let before = fault::behind(new.as_ref().copied());
        if let Some(old) = old.as_mut() {
            *old = before;
        }
    }
    0
}

/// `signal`, and its other names.
///
/// # Safety
/// A function of the C library's kind.
unsafe fn handle(real: SetHandler, signal: c_int, handler: usize) -> usize {
    if signal != libc::SIGSEGV {
        // SAFETY: the program's own call.
        return unsafe { real(signal, handler) };
    }
    // SAFETY: zero is a valid value of it.
    let mut new: Action = unsafe { std::mem::zeroed() };
    (new.sa_sigaction, new.sa_flags) = (handler, libc::SA_RESTART);
    fault::behind(Some(new)).sa_sigaction
}

thread_local! {
    /// Whether the program has blocked our signal in this thread, as far as it knows.
    static BLOCKED: Cell<bool> = const { Cell::new(false) };
    /// Whether that of the thread's first days was looked at.
    static SEEN: Cell<bool> = const { Cell::new(false) };
}

/// Sees to it that faults of this thread are signals, whatever it has blocked before anything was
/// shadowed. Threads that it makes from now on have that from it.
pub fn unblock() {
    if !SEEN.replace(true) {
        // SAFETY: sets of signals that are made before they are used.
        unsafe {
            let (mut ours, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&mut ours);
            libc::sigaddset(&mut ours, libc::SIGSEGV);
            if fault::set_mask(libc::SIG_UNBLOCK, &ours, Some(&mut before)) == 0
                && libc::sigismember(&before, libc::SIGSEGV) == 1
            {
                BLOCKED.set(true);
            }
        }
    }
}

type Mask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;

/// Sets a thread's mask without our signal, and keeps what the program believes of that.
unsafe fn mask(real: Mask, how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    unblock();
    let was = BLOCKED.get();
    // SAFETY: null, or sets of the program's, which may be the same one.
    unsafe {
        let mut wanted = set.as_ref().copied();
        let named = wanted.is_some_and(|s| libc::sigismember(&s, libc::SIGSEGV) == 1);
        if let Some(s) = wanted.as_mut().filter(|_| how != libc::SIG_UNBLOCK) {
            libc::sigdelset(s, libc::SIGSEGV);
        }
        let wanted = wanted.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let rc = real(how, wanted, old);
        if rc != 0 {
            return rc;
        }
        if was && !old.is_null() {
            libc::sigaddset(old, libc::SIGSEGV);
        }
        if !wanted.is_null() {
            BLOCKED.set(match how {
                libc::SIG_BLOCK => was || named,
                libc::SIG_UNBLOCK => was && !named,
                _ => named,
            });
        }
        0
    }
}

mod signals {
    use super::*;

    gates! { pub SIGNALS:
        sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int, next => {
            action(next, signal, new, old)
        };
        __sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int, next => {
            action(next, signal, new, old)
        };
        signal(signal: c_int, handler: usize) -> usize, next => {
            handle(next, signal, handler)
        };
        bsd_signal(signal: c_int, handler: usize) -> usize, next => {
            handle(next, signal, handler)
        };
        ssignal(signal: c_int, handler: usize) -> usize, next => {
            handle(next, signal, handler)
        };
        __sysv_signal(signal: c_int, handler: usize) -> usize, next => {
            handle(next, signal, handler)
        };
        pthread_sigmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int, next => {
            mask(next, how, set, old)
        };
        sigprocmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int, next => {
            mask(next, how, set, old)
        };
    }
}

/// Puts ours in front.
pub fn come_first() {
    // At once: all that is loaded is looked through.
    replace(&[ACCESSES, signals::SIGNALS].concat());
}
