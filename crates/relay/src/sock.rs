//! The socket calls that the standard library lacks.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use crate::shaper::Nanos;

fn clock(id: libc::clockid_t) -> Nanos {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(id, &mut time) };
    nanos(&time)
}

fn nanos(time: &libc::timespec) -> Nanos {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The time since boot.
pub fn now() -> Nanos {
    clock(libc::CLOCK_MONOTONIC)
}

/// Wakes this thread's timed waits on time instead of up to 50 us later.
pub fn exact_timers() {
    // SAFETY: this option takes a plain number and changes only the calling thread's timer slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1usize) };
}

fn set<T>(fd: RawFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `value`.
    let rc = unsafe { libc::setsockopt(fd, level, name, std::ptr::from_ref(value).cast(), len) };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Bytes each socket of the relay may hold in the kernel.
const SOCKET_BUFFER: i32 = 8 << 20;

/// Makes a socket fit for relaying: no Nagle, arrival times, large buffers where that is allowed.
pub fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let fd = socket.as_raw_fd();
    // Each of these only makes the relay better: without arrival times it uses the time of the
    // read. The plain SO_RCVBUF is no substitute: it would pin the buffer below what the kernel
    // grows it to by itself.
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32);
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &SOCKET_BUFFER);
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SOCKET_BUFFER);
    Ok(())
}

fn linger(socket: &TcpStream, on: i32) {
    let linger = libc::linger {
        l_onoff: on,
        l_linger: 0,
    };
    // It fails only on something that is not a socket.
    let _ = set(
        socket.as_raw_fd(),
        libc::SOL_SOCKET,
        libc::SO_LINGER,
        &linger,
    );
}

/// Makes the close of this socket a reset.
pub fn reset_on_close(socket: &TcpStream) {
    linger(socket, 1);
}

/// Undoes [`reset_on_close`].
pub fn close_normally(socket: &TcpStream) {
    linger(socket, 0);
}

/// Room for one control message with a timestamp, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Reads into `buffer`; returns the length and when the last byte reached this machine.
/// Without `wait`, fails with `WouldBlock` when nothing is there.
pub fn receive(socket: &TcpStream, buffer: &mut [u8], wait: bool) -> io::Result<(usize, Nanos)> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all zeros is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    let flags = if wait { 0 } else { libc::MSG_DONTWAIT };
    // SAFETY: the message describes `buffer` and `control`, which outlive the call.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) };
    if len < 0 {
        return Err(io::Error::last_os_error());
    }
    let now = now();
    Ok((len as usize, now - arrival_age(&message).unwrap_or(0)))
}

/// How long ago the kernel stamped what was just read.
fn arrival_age(message: &libc::msghdr) -> Option<Nanos> {
    // SAFETY: the kernel filled the control buffer and its length; the macros stay within it.
    let stamp = unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        if header.is_null()
            || (*header).cmsg_level != libc::SOL_SOCKET
            || (*header).cmsg_type != libc::SCM_TIMESTAMPNS
        {
            return None;
        }
        libc::CMSG_DATA(header)
            .cast::<libc::timespec>()
            .read_unaligned()
    };
    // The stamp is on the wall clock. Beyond a second it is the clock that was set, not the age.
    let age = clock(libc::CLOCK_REALTIME).saturating_sub(nanos(&stamp));
    (age < 1_000_000_000).then_some(age)
}

/// Writes what the socket takes now.
pub fn send(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let (start, len) = (bytes.as_ptr().cast(), bytes.len());
    // SAFETY: the pointer and length describe `bytes`.
    let sent = unsafe { libc::send(socket.as_raw_fd(), start, len, flags) };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(sent as usize)
    }
}

/// Waits until one of the descriptors has an event; true if so, false after `timeout`.
pub fn wait_for(descriptors: &[RawFd], events: i16, timeout: Duration) -> bool {
    let mut polls: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|&fd| libc::pollfd {
            fd,
            events,
            revents: 0,
        })
        .collect();
    let ms = timeout.as_millis().min(1 << 30) as i32;
    // SAFETY: the pointer and length describe `polls`.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as _, ms) > 0 }
}

/// Waits until the socket takes more bytes.
pub fn wait_writable(socket: &TcpStream, timeout: Duration) -> bool {
    wait_for(&[socket.as_raw_fd()], libc::POLLOUT, timeout)
}
