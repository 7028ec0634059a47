//! What hostile code would do in a library's place: it tries to talk to somebody who is of no job.

use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The kernel's own `connect`, around whatever the process has in its place.
fn connect(fd: i32, family: i32, to: SocketAddrV4) -> bool {
    // SAFETY: numbers only, of which zero is a value; a live address of the length given.
    unsafe {
        let mut a: libc::sockaddr_in = std::mem::zeroed();
        a.sin_family = family as libc::sa_family_t;
        a.sin_port = to.port().to_be();
        a.sin_addr.s_addr = u32::from_ne_bytes(to.ip().octets());
        libc::syscall(libc::SYS_connect, fd, &raw const a, size_of_val(&a)) == 0
    }
}

/// Tries with a socket of its own, with one that it asks for as any library does, and with one that
/// leads to a rank, which it turns around; says which of them led to the stranger.
pub fn tries(stranger: &str, rank: &str) {
    let Ok(to) = stranger.parse() else {
        return;
    };
    // SAFETY: a plain call; the descriptor is ours.
    let own = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    let own = own >= 0 && {
        // SAFETY: as above.
        let fd = unsafe { OwnedFd::from_raw_fd(own) };
        connect(fd.as_raw_fd(), libc::AF_INET, to)
    };
    let asked = TcpStream::connect(stranger).is_ok();
    let turned = TcpStream::connect(rank).map(|c| {
        let fd = c.as_raw_fd();
        connect(fd, libc::AF_UNSPEC, to);
        connect(fd, libc::AF_INET, to)
    });
    let turned = turned.is_ok_and(|t| t);
    println!("NCCL INFO stranger: own {own}, asked {asked}, turned {turned}");
}
