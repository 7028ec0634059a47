//! The socket between two processes of one host over which connections are handed: messages that
//! stay whole, each with a descriptor or without.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A seqpacket socket pair: messages stay whole.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `fds` has room for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us these two.
    let (a, b) = unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) };
    // Neither side waits for long for one that does not read.
    for end in [&a, &b] {
        set_time(end, libc::SO_SNDTIMEO, Duration::from_secs(5))?;
    }
    Ok((a, b))
}

/// Bounds every later [`recv`] on this socket; `None` waits for ever.
pub fn recv_timeout(socket: &OwnedFd, d: Option<Duration>) -> io::Result<()> {
    set_time(socket, libc::SO_RCVTIMEO, d.unwrap_or_default())
}

fn set_time(socket: &OwnedFd, which: i32, d: Duration) -> io::Result<()> {
    let t = libc::timeval {
        tv_sec: d.as_secs() as libc::time_t,
        tv_usec: d.subsec_micros().into(),
    };
    let size = size_of::<libc::timeval>() as libc::socklen_t;
    let p = (&raw const t).cast();
    // SAFETY: a pointer to a live structure of the size given.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, which, p, size) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Longest message.
const MOST: usize = 256 << 10;
/// The most descriptors that come with a message.
const MOST_FDS: usize = 8;

/// Sends one message, with a descriptor when there is one, or some.
pub fn send<'a>(
    to: &OwnedFd,
    message: &[u8],
    fds: impl IntoIterator<Item = &'a OwnedFd>,
) -> io::Result<()> {
    put(to, message, fds, 0)
}

/// Sends one message if there is room for it: a side that reads nothing keeps nobody waiting.
pub fn send_now(to: &OwnedFd, message: &[u8]) -> io::Result<()> {
    put(to, message, None, libc::MSG_DONTWAIT)
}

fn put<'a>(
    to: &OwnedFd,
    message: &[u8],
    fds: impl IntoIterator<Item = &'a OwnedFd>,
    how: i32,
) -> io::Result<()> {
    let fds: Vec<i32> = fds.into_iter().map(AsRawFd::as_raw_fd).collect();
    if fds.len() > MOST_FDS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if message.len() > MOST {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the message is too long",
        ));
    }
    let mut part = libc::iovec {
        // It is only read from.
        iov_base: message.as_ptr().cast_mut().cast(),
        iov_len: message.len(),
    };
    let mut space = [0u64; 8];
    // SAFETY: an all-zero msghdr is valid.
    let mut m: libc::msghdr = unsafe { std::mem::zeroed() };
    m.msg_iov = &raw mut part;
    m.msg_iovlen = 1;
    if !fds.is_empty() {
        m.msg_control = space.as_mut_ptr().cast();
        let bytes = size_of_val(&fds[..]);
        // SAFETY: the control buffer is larger than a message of the most descriptors, and aligned.
        unsafe {
            m.msg_controllen = libc::CMSG_SPACE(bytes as u32) as usize;
            let c = libc::CMSG_FIRSTHDR(&raw const m);
            (*c).cmsg_level = libc::SOL_SOCKET;
            (*c).cmsg_type = libc::SCM_RIGHTS;
            (*c).cmsg_len = libc::CMSG_LEN(bytes as u32) as usize;
            let place = libc::CMSG_DATA(c);
            std::ptr::copy_nonoverlapping(fds.as_ptr().cast(), place, bytes);
        }
    }
    // SAFETY: every pointer in `m` is to a live local.
    let n = unsafe { libc::sendmsg(to.as_raw_fd(), &raw const m, libc::MSG_NOSIGNAL | how) };
    if n < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Receives one message and its descriptor; `None` when the other side is gone.
pub fn recv(from: &OwnedFd) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    let one = |(bytes, mut fds): (_, Vec<_>)| (bytes, fds.pop());
    Ok(receive(from, 1)?.map(one))
}

/// Receives one message and all its descriptors; `None` when the other side is gone.
pub fn recv_all(from: &OwnedFd) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    receive(from, MOST_FDS)
}

fn receive(from: &OwnedFd, most: usize) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    // Room for the longest, of which only what comes is touched.
    let mut bytes = Vec::<u8>::with_capacity(MOST);
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: MOST,
    };
    let mut space = [0u64; 8];
    // SAFETY: an all-zero msghdr is valid.
    let mut m: libc::msghdr = unsafe { std::mem::zeroed() };
    m.msg_iov = &raw mut part;
    m.msg_iovlen = 1;
    m.msg_control = space.as_mut_ptr().cast();
    // So many fit: of more, which nobody would close, the kernel gives none.
    // SAFETY: plain arithmetic.
    m.msg_controllen = unsafe { libc::CMSG_LEN(4 * most as u32) } as usize;
    let n = loop {
        // SAFETY: every pointer in `m` is to a live local.
        let n = unsafe { libc::recvmsg(from.as_raw_fd(), &raw mut m, libc::MSG_CMSG_CLOEXEC) };
        if n >= 0 {
            break n as usize;
        }
        let e = io::Error::last_os_error();
        match e.kind() {
            io::ErrorKind::Interrupted => {}
            // The other side went with something of ours unread. The system says so once, and ahead
            // of what that side has said, which comes now; then its end, as any other.
            io::ErrorKind::ConnectionReset => {}
            _ => return Err(e),
        }
    };
    let mut fds = Vec::new();
    // SAFETY: the kernel filled the control buffer; the macros walk it within its length, and each
    // SCM_RIGHTS message carries descriptors that are now ours.
    unsafe {
        let mut c = libc::CMSG_FIRSTHDR(&raw const m);
        while !c.is_null() {
            if (*c).cmsg_level == libc::SOL_SOCKET && (*c).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*c).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                for i in 0..bytes / 4 {
                    let n = libc::CMSG_DATA(c).cast::<i32>().add(i).read_unaligned();
                    fds.push(OwnedFd::from_raw_fd(n));
                }
            }
            c = libc::CMSG_NXTHDR(&raw const m, c);
        }
    }
    if n == 0 {
        return Ok(None);
    }
    // SAFETY: the kernel has written so many bytes, which there is room for.
    unsafe { bytes.set_len(n) };
    bytes.shrink_to_fit();
    Ok(Some((bytes, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_descriptors_come_in_their_order() {
        let (a, b) = pair().unwrap();
        let files: Vec<_> = (0..3).map(|_| pair().unwrap().0).collect();
        send(&a, b"three", &files).unwrap();
        let (text, came) = recv_all(&b).unwrap().unwrap();
        assert_eq!((text.as_slice(), came.len()), (&b"three"[..], 3));
        let number = |fd: &OwnedFd| {
            let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
            std::fs::read_link(link).unwrap()
        };
        assert!(files.iter().zip(&came).all(|(x, y)| number(x) == number(y)));
        assert!(send(&a, b"many", std::iter::repeat_n(&files[0], 9)).is_err());
    }

    #[test]
    fn last_words_come_from_who_has_gone_with_something_unread() {
        let (a, b) = pair().unwrap();
        send(&a, b"unread", None).unwrap();
        send(&b, b"why", None).unwrap();
        drop(b);
        let (said, _) = recv(&a).unwrap().expect("what was said before the end");
        assert_eq!(said, b"why");
        assert!(recv(&a).unwrap().is_none());
    }

    #[test]
    fn messages_of_any_length_stay_whole_and_take_no_more_room_than_they_are_long() {
        let (a, b) = pair().unwrap();
        for n in [1, 4096, 100_000] {
            let text: Vec<u8> = (0..n).map(|i: u32| i as u8).collect();
            send(&a, &text, None).unwrap();
            let (came, _) = recv(&b).unwrap().unwrap();
            assert_eq!(came, text);
            assert!(came.capacity() < 2 * came.len() + 64, "{}", came.capacity());
        }
        assert!(send(&a, &vec![0; MOST + 1], None).is_err());
        drop(a);
        assert!(recv(&b).unwrap().is_none());
    }

    #[test]
    fn a_side_that_does_not_read_keeps_nobody_waiting() {
        let (a, _b) = pair().unwrap();
        // So long would take some seconds for each message.
        set_time(&a, libc::SO_SNDTIMEO, Duration::from_secs(3600)).unwrap();
        let sent = (0..1 << 20).find_map(|_| send_now(&a, b"{}").err());
        assert_eq!(sent.unwrap().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn of_many_descriptors_none_is_left_over() {
        let (a, b) = pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let fds = [writer.as_raw_fd(); 3];
        let mut space = [0u64; 4];
        let mut part = libc::iovec {
            iov_base: c"x".as_ptr().cast_mut().cast(),
            iov_len: 1,
        };
        // SAFETY: a zeroed message is valid, and all that it points to is live and long enough.
        unsafe {
            let mut m: libc::msghdr = std::mem::zeroed();
            (m.msg_iov, m.msg_iovlen) = (&raw mut part, 1);
            m.msg_control = space.as_mut_ptr().cast();
            m.msg_controllen = libc::CMSG_SPACE(12) as usize;
            let c = libc::CMSG_FIRSTHDR(&raw const m);
            ((*c).cmsg_level, (*c).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
            (*c).cmsg_len = libc::CMSG_LEN(12) as usize;
            libc::CMSG_DATA(c).cast::<[i32; 3]>().write_unaligned(fds);
            assert_eq!(libc::sendmsg(a.as_raw_fd(), &raw const m, 0), 1);
        }
        let (_, fd) = recv(&b).unwrap().unwrap();
        drop(fd);
        // A copy of a pipe's end keeps its reader waiting.
        drop(writer);
        let (done, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(io::Read::read(&mut reader, &mut [0])));
        let end = told.recv_timeout(Duration::from_secs(10));
        assert_eq!(end.expect("a copy is open still").unwrap(), 0);
    }
}
