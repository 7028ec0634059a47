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

/// Whether a call has met memory that is closed.
fn is_fault(r: isize) -> bool {
    // SAFETY: this thread's own.
    r == -1 && unsafe { *libc::__errno_location() } == libc::EFAULT
}

/// Functions of ours, and where each leads to: `next`, one of the same kind. They are listed under
/// a name.
macro_rules! gates {
    ($vis:vis $list:ident: $(
        $name:ident($($a:ident: $t:ty),* $(,)?) -> $r:ty, $next:ident => $does:expr;
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
                    if !met || !is_fault(r as isize) {
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
    sendto(fd: c_int, p: At, n: size_t, flags: c_int, to: At, len: socklen_t) -> ssize_t {
        meets(p, n, false)
    }
    sendmsg(fd: c_int, m: *const msghdr, flags: c_int) -> ssize_t { meet_message(m, false) }
    sendmmsg(fd: c_int, list: *mut mmsghdr, n: u32, flags: c_int) -> c_int {
        meet_messages(list, n, false)
    }
    recv(fd: c_int, p: To, n: size_t, flags: c_int) -> ssize_t { meets(p, n, true) }
    recvfrom(fd: c_int, p: To, n: size_t, flags: c_int, from: To, len: To) -> ssize_t {
        meets(p, n, true)
    }
    getrandom(p: To, n: size_t, flags: u32) -> ssize_t { meets(p, n, true) }
    recvmsg(fd: c_int, m: *mut msghdr, flags: c_int) -> ssize_t { meet_message(m, true) }
    recvmmsg(fd: c_int, list: *mut mmsghdr, n: u32, flags: c_int, limit: To) -> c_int {
        meet_messages(list, n, true)
    }
    __recv_chk(fd: c_int, p: To, n: size_t, room: size_t, flags: c_int) -> ssize_t {
        meets(p, n, true)
    }
}

/// So often is what goes to a file or comes from one tried before a page of it takes a detour.
const FEW: usize = 4;
const PAGE: usize = 4096;

/// A call that may do only part of what it is asked for: `call` gets what is left, and how much is
/// done. `met` opens memory first, and says whether kernels may use it. Where another thread's work
/// closes it again in the middle, the system stops there, as it would stop at the end of a file; so
/// the rest is tried unless `call` says that nothing more comes, or it `may_wait` for more than it
/// would have. Work may close it as often as it is opened: then some of it goes by a `detour`, if
/// there is one.
fn whole(
    n: usize,
    met: impl Fn(usize) -> bool,
    may_wait: impl Fn() -> bool,
    call: impl Fn(usize) -> ssize_t,
    detour: impl Fn(usize) -> Option<ssize_t>,
) -> ssize_t {
    let (mut done, mut tries) = (0, 0);
    loop {
        let met = met(done);
        let mut r = call(done);
        if met && is_fault(r) && tries < OFTEN {
            tries += 1;
            let around = if tries < FEW { None } else { detour(done) };
            match around {
                Some(some) => r = some,
                None => continue,
            }
        }
        if r <= 0 {
            return if done > 0 { done as ssize_t } else { r };
        }
        done += r as usize;
        if !met || done >= n || may_wait() {
            return done as ssize_t;
        }
    }
}

/// What is left of a page at `p` that the system finds closed, of `n` bytes that it may have, and
/// memory of our own for as much: of files alone, where it is the same in how many pieces something
/// goes.
fn aside(fd: c_int, p: At, n: usize) -> Option<Vec<u8>> {
    let n = n.min(PAGE - p as usize % PAGE);
    (n > 0 && fault::is_watched(p as u64) && is_file(fd)).then(|| vec![0; n])
}

/// As [`whole`], from memory at `p`: whoever takes some of it takes the rest, or says that it must
/// wait.
fn write_whole(fd: c_int, p: At, n: usize, call: impl Fn(At, usize, usize) -> ssize_t) -> ssize_t {
    let rest = |done| p.wrapping_byte_add(done);
    let met = |done| meets(rest(done), n - done, false);
    let detour = |done| {
        let mut some = aside(fd, rest(done), n - done)?;
        // SAFETY: the program's memory, which this thread's own accesses open.
        unsafe { some.as_mut_ptr().copy_from(rest(done).cast(), some.len()) };
        Some(call(some.as_ptr().cast(), some.len(), done))
    };
    let straight = |done| call(rest(done), n - done, done);
    whole(n, met, || false, straight, detour)
}

/// As [`whole`], to memory at `p`. What a pipe has no more of it may have later.
fn read_whole(fd: c_int, p: To, n: usize, call: impl Fn(To, usize, usize) -> ssize_t) -> ssize_t {
    let rest = |done| p.wrapping_byte_add(done);
    let met = |done| meets(rest(done), n - done, true);
    let detour = |done| {
        let mut some = aside(fd, rest(done), n - done)?;
        let r = call(some.as_mut_ptr().cast(), some.len(), done);
        let got = some.len().min(r.max(0) as usize);
        // SAFETY: as above.
        unsafe { rest(done).cast::<u8>().copy_from(some.as_ptr(), got) };
        Some(r)
    };
    let straight = |done| call(rest(done), n - done, done);
    whole(n, met, || !is_file(fd), straight, detour)
}

/// What is left of some pieces when so much of them is done.
fn rest_of(list: &[iovec], mut done: usize) -> Vec<iovec> {
    let left = list.iter().filter_map(|v| {
        let gone = v.iov_len.min(done);
        done -= gone;
        (gone < v.iov_len).then(|| iovec {
            iov_base: v.iov_base.wrapping_byte_add(gone),
            iov_len: v.iov_len - gone,
        })
    });
    left.collect()
}

/// As [`whole`], of several pieces.
///
/// # Safety
/// A list of `n` pieces.
unsafe fn list_whole(
    (fd, list, n): (c_int, *const iovec, c_int),
    writes: bool,
    call: impl Fn(*const iovec, c_int, usize) -> ssize_t,
) -> ssize_t {
    if !fault::is_active() || list.is_null() || n <= 0 {
        return call(list, n, 0);
    }
    // SAFETY: passed on to the caller.
    let list = unsafe { std::slice::from_raw_parts(list, n as usize) };
    let all = list
        .iter()
        .map(|v| v.iov_len)
        .fold(0, usize::saturating_add);
    // Nothing is allocated unless it must be: a program may write from a signal handler.
    let left = |done, f: &dyn Fn(&[iovec]) -> ssize_t| match done {
        0 => f(list),
        _ => f(&rest_of(list, done)),
    };
    // SAFETY: a list of that length.
    let meet = |l: &[iovec]| unsafe { meet_all(l.as_ptr(), l.len(), writes) };
    let met = |done| left(done, &|l| meet(l).into()) != 0;
    let straight = |done| left(done, &|l| call(l.as_ptr(), l.len() as c_int, done));
    let detour = |done| {
        let first = *rest_of(list, done).first()?;
        let one = |p: To, n| {
            let v = iovec {
                iov_base: p,
                iov_len: n,
            };
            call(&raw const v, 1, done)
        };
        let mut some = aside(fd, first.iov_base, first.iov_len)?;
        let (p, len) = (some.as_mut_ptr(), some.len());
        // SAFETY: the program's memory, which this thread's own accesses open.
        Some(unsafe {
            if writes {
                let r = one(p.cast(), len);
                let got = len.min(r.max(0) as usize);
                first.iov_base.cast::<u8>().copy_from(p, got);
                r
            } else {
                p.copy_from(first.iov_base.cast(), len);
                one(p.cast(), len)
            }
        })
    };
    whole(all, met, || writes && !is_file(fd), straight, detour)
}

/// As [`list_whole`], at a place of the file's.
///
/// # Safety
/// As for [`list_whole`].
unsafe fn list_at(
    whole: (c_int, *const iovec, c_int),
    at: off_t,
    writes: bool,
    call: impl Fn(*const iovec, c_int, off_t) -> ssize_t,
) -> ssize_t {
    // SAFETY: passed on to the caller.
    unsafe {
        list_whole(whole, writes, |list, n, done| {
            call(list, n, behind(at, done))
        })
    }
}

/// Where the next piece of a file begins that was asked for from `at` on: those below zero mean
/// that the file says where.
fn behind(at: off_t, done: usize) -> off_t {
    if at < 0 { at } else { at + done as off_t }
}

fn is_file(fd: c_int) -> bool {
    // SAFETY: zero is a valid value of it, and it is written to.
    unsafe {
        let mut s: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &mut s) == 0 && s.st_mode & libc::S_IFMT == libc::S_IFREG
    }
}

/// So much of a stream of the C library's goes at once.
const STREAM: usize = 64 << 10;

unsafe extern "C" {
    fn flockfile(f: To);
    fn funlockfile(f: To);
}

/// `fread` and `fwrite`. The C library takes a closed page for an error of the stream's, so where
/// kernels may use the memory, all of it goes through memory of our own. Gives the items that are
/// whole; `call` moves items of a size between the stream, which is locked, and what it is given.
///
/// # Safety
/// `n` items of `size` bytes at `p`, and a stream.
unsafe fn stream_whole(
    (p, size, n): (To, usize, usize),
    f: To,
    writes: bool,
    call: impl Fn(To, usize, usize) -> usize,
) -> usize {
    let (all, mut done) = (size.saturating_mul(n), 0);
    if !meets(p, all, writes) {
        return call(p, size, n);
    }
    let mut some = vec![0u8; all.min(STREAM)];
    let own: *mut u8 = some.as_mut_ptr();
    // SAFETY: passed on to the caller; the program's memory is opened by this thread's accesses.
    unsafe {
        flockfile(f);
        while done < all {
            let (rest, len) = (p.cast::<u8>().wrapping_add(done), STREAM.min(all - done));
            if !writes {
                own.copy_from(rest, len);
            }
            let moved = call(own.cast(), 1, len);
            if writes {
                rest.copy_from(own, moved.min(len));
            }
            done += moved;
            if moved < len {
                break;
            }
        }
        funlockfile(f);
    }
    done / size
}

mod files {
    use super::*;

    gates! { pub WHOLE:
        write(fd: c_int, p: At, n: size_t) -> ssize_t, next => {
            write_whole(fd, p, n, |p, n, _| next(fd, p, n))
        };
        __write(fd: c_int, p: At, n: size_t) -> ssize_t, next => {
            write_whole(fd, p, n, |p, n, _| next(fd, p, n))
        };
        pwrite(fd: c_int, p: At, n: size_t, at: off_t) -> ssize_t, next => {
            write_whole(fd, p, n, |p, n, done| next(fd, p, n, behind(at, done)))
        };
        pwrite64(fd: c_int, p: At, n: size_t, at: off_t) -> ssize_t, next => {
            write_whole(fd, p, n, |p, n, done| next(fd, p, n, behind(at, done)))
        };
        __pwrite64(fd: c_int, p: At, n: size_t, at: off_t) -> ssize_t, next => {
            write_whole(fd, p, n, |p, n, done| next(fd, p, n, behind(at, done)))
        };
        send(fd: c_int, p: At, n: size_t, flags: c_int) -> ssize_t, next => {
            write_whole(fd, p, n, |p, n, _| next(fd, p, n, flags))
        };
        __send(fd: c_int, p: At, n: size_t, flags: c_int) -> ssize_t, next => {
            write_whole(fd, p, n, |p, n, _| next(fd, p, n, flags))
        };
        read(fd: c_int, p: To, n: size_t) -> ssize_t, next => {
            read_whole(fd, p, n, |p, n, _| next(fd, p, n))
        };
        __read(fd: c_int, p: To, n: size_t) -> ssize_t, next => {
            read_whole(fd, p, n, |p, n, _| next(fd, p, n))
        };
        pread(fd: c_int, p: To, n: size_t, at: off_t) -> ssize_t, next => {
            read_whole(fd, p, n, |p, n, done| next(fd, p, n, behind(at, done)))
        };
        pread64(fd: c_int, p: To, n: size_t, at: off_t) -> ssize_t, next => {
            read_whole(fd, p, n, |p, n, done| next(fd, p, n, behind(at, done)))
        };
        __read_chk(fd: c_int, p: To, n: size_t, room: size_t) -> ssize_t, next => {
            read_whole(fd, p, n, |p, n, _| next(fd, p, n, room))
        };
        __pread_chk(fd: c_int, p: To, n: size_t, at: off_t, room: size_t) -> ssize_t, next => {
            let some = |p, n, done| next(fd, p, n, behind(at, done), room);
            read_whole(fd, p, n, some)
        };
        __pread64_chk(fd: c_int, p: To, n: size_t, at: off_t, room: size_t) -> ssize_t, next => {
            let some = |p, n, done| next(fd, p, n, behind(at, done), room);
            read_whole(fd, p, n, some)
        };
        writev(fd: c_int, list: *const iovec, n: c_int) -> ssize_t, next => {
            list_whole((fd, list, n), false, |list, n, _| next(fd, list, n))
        };
        readv(fd: c_int, list: *const iovec, n: c_int) -> ssize_t, next => {
            list_whole((fd, list, n), true, |list, n, _| next(fd, list, n))
        };
        pwritev(fd: c_int, list: *const iovec, n: c_int, at: off_t) -> ssize_t, next => {
            list_at((fd, list, n), at, false, |list, n, at| next(fd, list, n, at))
        };
        pwritev64(fd: c_int, list: *const iovec, n: c_int, at: off_t) -> ssize_t, next => {
            list_at((fd, list, n), at, false, |list, n, at| next(fd, list, n, at))
        };
        preadv(fd: c_int, list: *const iovec, n: c_int, at: off_t) -> ssize_t, next => {
            list_at((fd, list, n), at, true, |list, n, at| next(fd, list, n, at))
        };
        preadv64(fd: c_int, list: *const iovec, n: c_int, at: off_t) -> ssize_t, next => {
            list_at((fd, list, n), at, true, |list, n, at| next(fd, list, n, at))
        };
        pwritev2(
            fd: c_int, list: *const iovec, n: c_int, at: off_t, flags: c_int
        ) -> ssize_t, next => {
            list_at((fd, list, n), at, false, |list, n, at| next(fd, list, n, at, flags))
        };
        pwritev64v2(
            fd: c_int, list: *const iovec, n: c_int, at: off_t, flags: c_int
        ) -> ssize_t, next => {
            list_at((fd, list, n), at, false, |list, n, at| next(fd, list, n, at, flags))
        };
        preadv2(
            fd: c_int, list: *const iovec, n: c_int, at: off_t, flags: c_int
        ) -> ssize_t, next => {
            list_at((fd, list, n), at, true, |list, n, at| next(fd, list, n, at, flags))
        };
        preadv64v2(
            fd: c_int, list: *const iovec, n: c_int, at: off_t, flags: c_int
        ) -> ssize_t, next => {
            list_at((fd, list, n), at, true, |list, n, at| next(fd, list, n, at, flags))
        };
        fwrite(p: At, size: size_t, n: size_t, f: To) -> size_t, next => {
            let call = |p: To, size, n| next(p, size, n, f);
            stream_whole((p.cast_mut(), size, n), f, false, call)
        };
        fwrite_unlocked(p: At, size: size_t, n: size_t, f: To) -> size_t, next => {
            let call = |p: To, size, n| next(p, size, n, f);
            stream_whole((p.cast_mut(), size, n), f, false, call)
        };
        fread(p: To, size: size_t, n: size_t, f: To) -> size_t, next => {
            stream_whole((p, size, n), f, true, |p, size, n| next(p, size, n, f))
        };
        fread_unlocked(p: To, size: size_t, n: size_t, f: To) -> size_t, next => {
            stream_whole((p, size, n), f, true, |p, size, n| next(p, size, n, f))
        };
        __fread_chk(p: To, room: size_t, size: size_t, n: size_t, f: To) -> size_t, next => {
            let call = |p, size, n| next(p, room, size, n, f);
            match size.saturating_mul(n) <= room {
                true => stream_whole((p, size, n), f, true, call),
                // The C library ends the program.
                false => call(p, size, n),
            }
        };
    }
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
    replace(&[ACCESSES, files::WHOLE, signals::SIGNALS].concat());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const FAULT: ssize_t = -1;

    /// What becomes of ten bytes where the system does so much each time, and how far it was each
    /// time.
    fn of_ten(steps: &[ssize_t], met: bool, may_wait: bool) -> (ssize_t, Vec<usize>) {
        let (left, seen) = (RefCell::new(steps.iter()), RefCell::new(Vec::new()));
        let call = |done| {
            seen.borrow_mut().push(done);
            let r = *left.borrow_mut().next().expect("no more calls");
            if r == FAULT {
                // SAFETY: this thread's own.
                unsafe { *libc::__errno_location() = libc::EFAULT };
            }
            r
        };
        let r = whole(10, |_| met, || may_wait, call, |_| None);
        (r, seen.into_inner())
    }

    #[test]
    fn what_was_closed_in_the_middle_of_a_call_is_done_all_the_same() {
        assert_eq!(of_ten(&[10], true, false), (10, vec![0]));
        assert_eq!(of_ten(&[4, 6], true, false), (10, vec![0, 4]));
        assert_eq!(of_ten(&[FAULT, 4, FAULT, 6], true, false).0, 10);
        assert_eq!(of_ten(&[4, 0], true, false), (4, vec![0, 4]), "its end");
        assert_eq!(of_ten(&[4], true, true), (4, vec![0]), "a pipe's");
        assert_eq!(of_ten(&[4], false, false), (4, vec![0]), "other memory");
        assert_eq!(of_ten(&[FAULT], false, false), (-1, vec![0]));
        let always = vec![FAULT; OFTEN + 1];
        assert_eq!(of_ten(&always, true, false).0, -1);
    }

    /// What a call says that meets closed memory.
    fn closed() -> ssize_t {
        // SAFETY: this thread's own.
        unsafe { *libc::__errno_location() = libc::EFAULT };
        -1
    }

    #[test]
    fn what_other_work_closes_again_and_again_is_moved_all_the_same() {
        let tries = Cell::new(0);
        // The system has the first page, and then finds the next one closed each time.
        let call = |done| {
            tries.set(tries.get() + 1);
            if done == 0 { 256 } else { closed() }
        };
        let of = |met, may_wait, detour: fn(usize) -> Option<ssize_t>| {
            tries.set(0);
            let r = whole(1000, |_| met, || may_wait, call, detour);
            (r, tries.get())
        };
        assert_eq!(
            of(true, false, |done| Some(1000 - done as ssize_t)),
            (1000, 1 + FEW)
        );
        assert_eq!(
            of(true, false, |done| Some(100.min(1000 - done as ssize_t))).0,
            1000,
            "a page, and the next"
        );
        assert_eq!(
            of(true, false, |done| Some(if done < 500 { 244 } else { 0 })).0,
            500
        );
        assert_eq!(of(true, false, |_| None), (256, 2 + OFTEN), "no way around");
        assert_eq!(
            of(true, true, |_| Some(744)),
            (256, 1),
            "more may come later"
        );
        assert_eq!(
            of(false, false, |_| Some(744)),
            (256, 1),
            "nobody closes it"
        );
        let wrong = whole(8, |_| true, || false, |_| closed(), |_| None);
        assert!(is_fault(wrong), "nothing was moved");
    }

    #[test]
    fn what_is_left_of_a_list_begins_in_the_midst_of_a_piece() {
        let v = [(0x1000, 100), (0x2000, 0), (0x3000, 50)].map(|(p, iov_len)| iovec {
            iov_base: p as To,
            iov_len,
        });
        let rest = |done| {
            let rest = rest_of(&v, done);
            rest.iter()
                .map(|v| (v.iov_base as usize, v.iov_len))
                .collect::<Vec<_>>()
        };
        assert_eq!(rest(0), [(0x1000, 100), (0x3000, 50)]);
        assert_eq!(rest(30), [(0x101e, 70), (0x3000, 50)]);
        assert_eq!(rest(100), [(0x3000, 50)]);
        assert_eq!(rest(149), [(0x3031, 1)]);
        assert_eq!(rest(150), []);
    }
}
