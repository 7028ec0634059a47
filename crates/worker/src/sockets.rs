//! TCP of libraries that are loaded here, in a cell whose network has nobody in it.
//!
//! NCCL opens sockets by itself. The functions of the C library that it does so by are therefore
//! this program's own: where the server makes sockets, `bind` and `connect` ask it for one, which
//! takes the place of the library's descriptor. A socket that listens becomes one over which the
//! server sends connections, and `accept` takes them from there (ADR 0038). Whoever goes around
//! these functions finds the kernel's, and a network without a way out.

use crate::lock::lock;
use busbar_control::attach::{Lent, Report, Wanted};
use busbar_transport::handover;
use std::collections::HashMap;
use std::ffi::{c_int, c_long};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// How long the server may take for a connection: two ends have their say.
const PATIENCE: Duration = Duration::from_secs(30);

/// A descriptor that stands for a socket at the server that listens: which file it is, for numbers
/// are given out again, and where others reach it.
type Listening = HashMap<c_int, (u64, SocketAddr)>;

struct Lender {
    control: Arc<OwnedFd>,
    listening: Mutex<Listening>,
}

static LENDER: OnceLock<Lender> = OnceLock::new();

/// From now on sockets come from the server at the other end of `control`.
pub(crate) fn lend_from(control: Arc<OwnedFd>) {
    let listening = Mutex::default();
    let _ = LENDER.set(Lender { control, listening });
}

/// Whether they do.
pub(crate) fn are_lent() -> bool {
    LENDER.get().is_some()
}

type Done<T> = Result<T, c_int>;

fn errno(e: &io::Error) -> c_int {
    e.raw_os_error().unwrap_or(libc::EIO)
}

/// What C is told.
fn told(done: Done<c_int>) -> c_int {
    done.unwrap_or_else(|errno| {
        // SAFETY: the calling thread's own place.
        unsafe { *libc::__errno_location() = errno };
        -1
    })
}

/// The kernel's own call.
macro_rules! kernel {
    ($number:ident $(, $arg:expr)*) => {
        // SAFETY: what the caller has given, as it has given it.
        unsafe { libc::syscall(libc::$number $(, $arg as c_long)*) as c_int }
    };
}

/// The file behind a descriptor.
fn inode(fd: c_int) -> Option<u64> {
    // SAFETY: it is only asked, and not closed; one that is not open says so.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    Some(file.metadata().ok()?.ino())
}

/// The address that C has given, if it is one of the two kinds that lead to other machines.
unsafe fn address(at: *const libc::sockaddr, len: libc::socklen_t) -> Option<SocketAddr> {
    let long = |n: usize| len as usize >= n && !at.is_null();
    if !long(size_of::<libc::sa_family_t>()) {
        return None;
    }
    // SAFETY: as many bytes as its length says, which are read as what its family says.
    unsafe {
        match c_int::from((*at).sa_family) {
            libc::AF_INET if long(size_of::<libc::sockaddr_in>()) => {
                let a = at.cast::<libc::sockaddr_in>().read_unaligned();
                let ip = IpAddr::from(a.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddr::new(ip, u16::from_be(a.sin_port)))
            }
            libc::AF_INET6 if long(size_of::<libc::sockaddr_in6>()) => {
                let a = at.cast::<libc::sockaddr_in6>().read_unaligned();
                let ip = IpAddr::from(a.sin6_addr.s6_addr);
                Some(SocketAddr::new(ip, u16::from_be(a.sin6_port)))
            }
            _ => None,
        }
    }
}

/// Writes an address where C wants it, as far as there is room.
unsafe fn write(from: SocketAddr, at: *mut libc::sockaddr, len: *mut libc::socklen_t) {
    if at.is_null() || len.is_null() {
        return;
    }
    // SAFETY: numbers only, of which zero is a value; the caller's place has room for what is said.
    unsafe {
        let put = |bytes: *const u8, n: usize| {
            let room = (*len as usize).min(n);
            std::ptr::copy_nonoverlapping(bytes, at.cast::<u8>(), room);
            *len = n as libc::socklen_t;
        };
        match from {
            SocketAddr::V4(a) => {
                let mut c: libc::sockaddr_in = std::mem::zeroed();
                c.sin_family = libc::AF_INET as _;
                c.sin_port = a.port().to_be();
                c.sin_addr.s_addr = u32::from_ne_bytes(a.ip().octets());
                put((&raw const c).cast(), size_of_val(&c));
            }
            SocketAddr::V6(a) => {
                let mut c: libc::sockaddr_in6 = std::mem::zeroed();
                c.sin6_family = libc::AF_INET6 as _;
                c.sin6_port = a.port().to_be();
                c.sin6_addr.s6_addr = a.ip().octets();
                put((&raw const c).cast(), size_of_val(&c));
            }
        }
    }
}

/// Whether a descriptor is of a stream: of others the server makes none.
fn streams(fd: c_int) -> bool {
    let mut kind = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: pointers to live numbers.
    let rc = unsafe {
        let to = (&raw mut kind).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_TYPE, to, &mut len)
    };
    rc == 0 && kind == libc::SOCK_STREAM
}

/// Has a descriptor of a library's stand for something else, with the flags that it has.
fn replace(fd: c_int, by: OwnedFd) -> Done<()> {
    // SAFETY: plain calls on descriptors.
    let done = unsafe {
        let (status, flags) = (
            libc::fcntl(fd, libc::F_GETFL),
            libc::fcntl(fd, libc::F_GETFD),
        );
        let close = match flags & libc::FD_CLOEXEC {
            0 => 0,
            _ => libc::O_CLOEXEC,
        };
        status >= 0
            && libc::fcntl(by.as_raw_fd(), libc::F_SETFL, status) >= 0
            && libc::dup3(by.as_raw_fd(), fd, close) >= 0
    };
    match done {
        true => Ok(()),
        false => Err(errno(&io::Error::last_os_error())),
    }
}

impl Lender {
    /// Asks the server for a socket: what it says first, and over what it says more.
    fn ask(&self, wanted: Wanted) -> Done<(Lent, Option<OwnedFd>, OwnedFd)> {
        let system = |e: io::Error| errno(&e);
        let (ours, theirs) = handover::pair().map_err(system)?;
        let report = Report::Socket(wanted).to_json();
        handover::send(&self.control, &report, [&theirs]).map_err(system)?;
        drop(theirs);
        handover::recv_timeout(&ours, Some(PATIENCE)).map_err(system)?;
        let said = handover::recv(&ours).map_err(|_| libc::ETIMEDOUT)?;
        let (said, fd) = said.ok_or(libc::ECONNREFUSED)?;
        handover::recv_timeout(&ours, None).map_err(system)?;
        match serde_json::from_slice(&said) {
            Ok(Lent::No { errno }) => Err(errno),
            Ok(lent) => Ok((lent, fd, ours)),
            Err(_) => Err(libc::EPROTO),
        }
    }

    fn listen(&self, fd: c_int) -> Done<()> {
        let (Lent::At(at), _, over) = self.ask(Wanted::Listen)? else {
            return Err(libc::EPROTO);
        };
        replace(fd, over)?;
        let mut listening = lock(&self.listening);
        listening.retain(|fd, (ino, _)| inode(*fd) == Some(*ino));
        listening.insert(fd, (inode(fd).ok_or(libc::EBADF)?, at));
        Ok(())
    }

    fn connect(&self, fd: c_int, to: SocketAddr) -> Done<()> {
        let (_, conn, _) = self.ask(Wanted::Connect(to))?;
        replace(fd, conn.ok_or(libc::EPROTO)?)
    }

    /// Where others reach a descriptor that stands for a socket at the server.
    fn reached(&self, fd: c_int) -> Option<SocketAddr> {
        let (ino, at) = lock(&self.listening).get(&fd).copied()?;
        (inode(fd) == Some(ino)).then_some(at)
    }

    /// The next connection to it.
    fn accept(&self, fd: c_int, flags: c_int) -> Done<OwnedFd> {
        // SAFETY: the caller's, which it keeps open.
        let over = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(fd) });
        let said = handover::recv(&over).map_err(|e| errno(&e))?;
        let conn = said.and_then(|(_, conn)| conn).ok_or(libc::EINVAL)?;
        let set = |how: c_int, to: c_int| {
            // SAFETY: a plain call on a descriptor of ours.
            match unsafe { libc::fcntl(conn.as_raw_fd(), how, to) } {
                0.. => Ok(()),
                _ => Err(errno(&io::Error::last_os_error())),
            }
        };
        set(libc::F_SETFL, flags & libc::SOCK_NONBLOCK)?;
        let closes = flags & libc::SOCK_CLOEXEC != 0;
        set(libc::F_SETFD, if closes { libc::FD_CLOEXEC } else { 0 })?;
        Ok(conn)
    }
}

/// As the C library has it.
///
/// # Safety
/// The address is as long as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, at: *const libc::sockaddr, len: libc::socklen_t) -> c_int {
    // SAFETY: as the caller says.
    match (LENDER.get(), unsafe { address(at, len) }) {
        (Some(lender), Some(_)) if streams(fd) => told(lender.listen(fd).map(|()| 0)),
        _ => kernel!(SYS_bind, fd, at, len),
    }
}

/// As the C library has it.
///
/// # Safety
/// The address is as long as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(
    fd: c_int,
    at: *const libc::sockaddr,
    len: libc::socklen_t,
) -> c_int {
    // SAFETY: as the caller says.
    match (LENDER.get(), unsafe { address(at, len) }) {
        (Some(lender), Some(to)) if streams(fd) => told(lender.connect(fd, to).map(|()| 0)),
        _ => kernel!(SYS_connect, fd, at, len),
    }
}

/// As the C library has it.
#[unsafe(no_mangle)]
pub extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    match LENDER.get().and_then(|l| l.reached(fd)) {
        Some(_) => 0,
        None => kernel!(SYS_listen, fd, backlog),
    }
}

/// As the C library has it.
///
/// # Safety
/// There is room for as many bytes as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(
    fd: c_int,
    at: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> c_int {
    match LENDER.get().and_then(|l| l.reached(fd)) {
        Some(reached) => {
            // SAFETY: as the caller says.
            unsafe { write(reached, at, len) };
            0
        }
        None => kernel!(SYS_getsockname, fd, at, len),
    }
}

/// As the C library has it.
///
/// # Safety
/// There is room for as many bytes as said, or none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(
    fd: c_int,
    at: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
    flags: c_int,
) -> c_int {
    let Some(lender) = LENDER.get().filter(|l| l.reached(fd).is_some()) else {
        return kernel!(SYS_accept4, fd, at, len, flags);
    };
    told(lender.accept(fd, flags).map(|conn| {
        let conn = conn.into_raw_fd();
        if !at.is_null() {
            kernel!(SYS_getpeername, conn, at, len);
        }
        conn
    }))
}

/// As the C library has it.
///
/// # Safety
/// As for [`accept4`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(
    fd: c_int,
    at: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { accept4(fd, at, len, 0) }
}
