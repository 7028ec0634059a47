//! Memory that two processes of one host share, and the socket over which its owner hands it out.
//!
//! A [`Segment`] is a file in memory that can neither shrink nor grow, so that whoever maps it can
//! rely on all of its pages. Its descriptor travels over a socket in the abstract namespace, which
//! every process of the same network namespace reaches, whatever file systems it sees. A connection
//! carries one segment and is closed again: neither side keeps a descriptor.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Bytes of what proves the right to hand a segment over.
pub const PROOF: usize = 32;
/// The fixed part of a message: number, length, proof.
const MESSAGE: usize = 16 + PROOF;
/// How long either side waits for the other's next step.
const PATIENCE: Duration = Duration::from_secs(2);
/// The seals that a segment must have: its pages stay.
const SEALS: i32 = libc::F_SEAL_SHRINK;

/// A segment that was offered, and who offered it says so.
#[derive(Debug)]
pub struct Offer {
    /// The number that its owner gave it.
    pub number: u64,
    /// Bytes that it has at least.
    pub len: u64,
    /// What the owner proves its right with.
    pub proof: [u8; PROOF],
    /// The memory; checked.
    pub memory: Segment,
}

/// Memory that can be mapped by several processes.
#[derive(Debug)]
pub struct Segment {
    fd: OwnedFd,
}

fn check(rc: i32) -> io::Result<i32> {
    if rc < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(rc)
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

impl Segment {
    /// New memory of `len` bytes, which takes pages as they are touched.
    pub fn new(len: u64) -> io::Result<Self> {
        let size = i64::try_from(len).map_err(|_| bad("a segment too long"))?;
        // SAFETY: an all-zero limit is valid, and the pointer is to a live one.
        let limit = unsafe {
            let mut l: libc::rlimit = std::mem::zeroed();
            check(libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut l))?;
            l.rlim_cur
        };
        // Files in memory count, and going beyond would be a signal to the program.
        if limit != libc::RLIM_INFINITY && limit < len {
            return Err(bad("the program's files may not be that long"));
        }
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let make = |more: u32| {
            // SAFETY: a C string that lives on.
            check(unsafe { libc::memfd_create(c"busbar".as_ptr(), flags | more) })
        };
        // Some systems demand that it be said whether such a file may be run; old ones do not know
        // the flag.
        let fd = make(libc::MFD_NOEXEC_SEAL).or_else(|_| make(0))?;
        // SAFETY: the kernel just gave us this descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: a descriptor of ours.
        check(unsafe { libc::ftruncate(fd.as_raw_fd(), size) })?;
        let seals = SEALS | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: as above.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
        Ok(Self { fd })
    }

    /// Takes memory that somebody else made, if it has `len` bytes that cannot go away: a file that
    /// its owner can cut short would be a fault at any later access.
    pub fn adopt(fd: OwnedFd, len: u64) -> io::Result<Self> {
        let n = fd.as_raw_fd();
        // SAFETY: a descriptor of ours; only files in memory have seals at all.
        let seals = check(unsafe { libc::fcntl(n, libc::F_GET_SEALS) })?;
        if seals & SEALS != SEALS {
            return Err(bad("a segment that can shrink"));
        }
        // SAFETY: pointers to live structures of the kernel's own types.
        let (file, system) = unsafe {
            let mut file: libc::stat = std::mem::zeroed();
            let mut system: libc::statfs = std::mem::zeroed();
            check(libc::fstat(n, &raw mut file))?;
            check(libc::fstatfs(n, &raw mut system))?;
            (file, system)
        };
        // Huge pages that were not set aside fault when there are none left.
        if system.f_type != libc::TMPFS_MAGIC {
            return Err(bad("a segment that is not ordinary memory"));
        }
        if u64::try_from(file.st_size).unwrap_or(0) < len {
            return Err(bad("a segment that is shorter than it is said to be"));
        }
        Ok(Self { fd })
    }

    /// The memory, for another process.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Maps its first `len` bytes at `at`, where nothing may lie yet.
    pub fn map(&self, at: u64, len: u64) -> io::Result<()> {
        self.map_part(at, 0, len)
    }

    /// Maps `len` bytes from `offset` on at `at`, where nothing may lie yet.
    pub fn map_part(&self, at: u64, offset: u64, len: u64) -> io::Result<()> {
        let p = self.mapped(at, offset, len, libc::MAP_FIXED_NOREPLACE)?;
        if p != at {
            // Kernels that do not know the flag take the address as a hint.
            // SAFETY: the mapping just made.
            unsafe { Self::unmap(p, len) };
            return Err(ErrorKind::AlreadyExists.into());
        }
        Self::wish(at, len);
        Ok(())
    }

    /// Maps `len` bytes from `offset` on at `at`, in the place of what is mapped there.
    ///
    /// # Safety
    /// Nobody uses what is there.
    pub unsafe fn map_over(&self, at: u64, offset: u64, len: u64) -> io::Result<()> {
        self.mapped(at, offset, len, libc::MAP_FIXED)?;
        Self::wish(at, len);
        Ok(())
    }

    /// Only a wish: fewer, larger pages where the system allows them.
    fn wish(at: u64, len: u64) {
        // SAFETY: a mapping just made.
        unsafe { libc::madvise(at as *mut libc::c_void, len as usize, libc::MADV_HUGEPAGE) };
    }

    /// Maps its first `len` bytes anywhere, and says where.
    pub fn map_anywhere(&self, len: u64) -> io::Result<u64> {
        self.map_part_anywhere(0, len)
    }

    /// Maps `len` bytes from `offset` on anywhere, and says where.
    pub fn map_part_anywhere(&self, offset: u64, len: u64) -> io::Result<u64> {
        self.mapped(0, offset, len, 0)
    }

    fn mapped(&self, at: u64, offset: u64, len: u64, how: i32) -> io::Result<u64> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let (to, fd) = (at as *mut libc::c_void, self.fd.as_raw_fd());
        let offset = offset.try_into().map_err(|_| bad("no such part"))?;
        // SAFETY: a new mapping that replaces nothing, or what the caller has said may go.
        let p = unsafe { libc::mmap(to, len as usize, rights, libc::MAP_SHARED | how, fd, offset) };
        match p == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(p as u64),
        }
    }

    /// Gives the pages of a part back to the system: they read as zeros from now on.
    pub fn clear(&self, offset: u64, len: u64) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        if let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) {
            // SAFETY: a descriptor of ours. Where the system cannot, the pages stay.
            unsafe { libc::fallocate(self.fd.as_raw_fd(), mode, offset, len) };
        }
    }

    /// Unmaps what was mapped.
    ///
    /// # Safety
    /// Nobody uses the memory any more.
    pub unsafe fn unmap(at: u64, len: u64) {
        // SAFETY: passed on to the caller.
        unsafe { libc::munmap(at as *mut libc::c_void, len as usize) };
    }
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; the descriptor is ours.
    Ok(unsafe { OwnedFd::from_raw_fd(check(libc::socket(libc::AF_UNIX, kind, 0))?) })
}

/// The abstract address of a name.
fn address(name: &str) -> io::Result<(libc::sockaddr_un, u32)> {
    // SAFETY: an all-zero address is valid.
    let mut a: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    a.sun_family = libc::AF_UNIX as _;
    if name.is_empty() || name.len() >= a.sun_path.len() {
        return Err(bad("not a name of a socket"));
    }
    for (to, from) in a.sun_path[1..].iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    let len = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    Ok((a, len as u32))
}

fn set_patience(fd: RawFd) {
    let t = libc::timeval {
        tv_sec: PATIENCE.as_secs() as _,
        tv_usec: 0,
    };
    for which in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let size = size_of::<libc::timeval>() as u32;
        // SAFETY: the pointer is to a live timeval of the size given.
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, which, (&raw const t).cast(), size) };
    }
}

/// Where a process takes segments.
#[derive(Debug)]
pub struct Door {
    socket: OwnedFd,
    name: String,
}

/// A segment's owner, waiting to hear what became of it.
#[derive(Debug)]
pub struct Caller {
    socket: OwnedFd,
}

impl Door {
    /// Opens one under a name that nobody can guess.
    pub fn open() -> io::Result<Self> {
        let mut random = [0u8; 16];
        // SAFETY: room for as many bytes as are asked for.
        let n = unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) };
        if n != random.len() as isize {
            return Err(io::Error::last_os_error());
        }
        let hex: String = random.iter().map(|b| format!("{b:02x}")).collect();
        let name = format!("busbar-{hex}");
        let socket = socket()?;
        let (a, len) = address(&name)?;
        // SAFETY: a live address of the length given.
        check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const a).cast(), len) })?;
        // SAFETY: a socket of ours.
        check(unsafe { libc::listen(socket.as_raw_fd(), 16) })?;
        Ok(Self { socket, name })
    }

    /// One that another process has opened for this one.
    pub fn taken_over(socket: OwnedFd) -> io::Result<Self> {
        // SAFETY: an all-zero address is valid, and both pointers are to live values.
        let (a, len) = unsafe {
            let mut a: libc::sockaddr_un = std::mem::zeroed();
            let mut len = size_of::<libc::sockaddr_un>() as u32;
            let place = (&raw mut a).cast();
            check(libc::getsockname(socket.as_raw_fd(), place, &raw mut len))?;
            (a, len as usize)
        };
        let begin = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1;
        let name = a.sun_path.get(1..).zip(len.checked_sub(begin));
        let name = name.and_then(|(all, n)| all.get(..n));
        let name = name.ok_or(bad("not a door"))?;
        let name = name.iter().map(|c| char::from(*c as u8)).collect();
        Ok(Self { socket, name })
    }

    /// Its name, for those who may use it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its socket, for another process to take over.
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Waits for the next caller and what it offers. An error concerns that caller alone, unless it
    /// is of the kind `Other`.
    pub fn next(&self) -> io::Result<(Offer, Caller)> {
        let null = std::ptr::null_mut();
        // SAFETY: no address is asked for.
        let rc = unsafe {
            let flags = libc::SOCK_CLOEXEC;
            libc::accept4(self.socket.as_raw_fd(), null, std::ptr::null_mut(), flags)
        };
        if rc < 0 {
            let e = io::Error::last_os_error();
            let passing = matches!(
                e.raw_os_error(),
                Some(libc::EINTR | libc::ECONNABORTED | libc::EMFILE | libc::ENFILE)
            );
            return Err(if passing { e } else { io::Error::other(e) });
        }
        // SAFETY: the kernel just gave us this descriptor.
        let socket = unsafe { OwnedFd::from_raw_fd(rc) };
        set_patience(rc);
        let (bytes, fd) = receive(&socket)?;
        let (number, rest) = bytes.split_first_chunk::<8>().ok_or(bad("no message"))?;
        let (len, rest) = rest.split_first_chunk::<8>().ok_or(bad("no message"))?;
        let proof = rest.try_into().map_err(|_| bad("no message"))?;
        let len = u64::from_le_bytes(*len);
        let offer = Offer {
            number: u64::from_le_bytes(*number),
            len,
            proof,
            memory: Segment::adopt(fd.ok_or(bad("no segment"))?, len)?,
        };
        Ok((offer, Caller { socket }))
    }
}

impl Caller {
    /// Tells the owner that its segment was taken. Hearing nothing, it knows that it was not.
    pub fn accept(self) {
        // SAFETY: one live byte.
        unsafe {
            let fd = self.socket.as_raw_fd();
            libc::send(fd, [1u8].as_ptr().cast(), 1, libc::MSG_NOSIGNAL);
        }
    }
}

/// One message and the first descriptor that came with it.
fn receive(socket: &OwnedFd) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut bytes = vec![0u8; MESSAGE];
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut space = [0u64; 4];
    // SAFETY: an all-zero msghdr is valid.
    let mut m: libc::msghdr = unsafe { std::mem::zeroed() };
    m.msg_iov = &raw mut part;
    m.msg_iovlen = 1;
    m.msg_control = space.as_mut_ptr().cast();
    m.msg_controllen = size_of_val(&space) as _;
    // SAFETY: every pointer in `m` is to a live local.
    let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut m, libc::MSG_CMSG_CLOEXEC) };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut fds = Vec::new();
    // SAFETY: the kernel filled the control buffer; the macros walk it within its length, and every
    // descriptor in it is ours now, also those that nobody asked for.
    unsafe {
        let mut c = libc::CMSG_FIRSTHDR(&raw const m);
        while !c.is_null() {
            if (*c).cmsg_level == libc::SOL_SOCKET && (*c).cmsg_type == libc::SCM_RIGHTS {
                let n = ((*c).cmsg_len as usize - libc::CMSG_LEN(0) as usize) / 4;
                for i in 0..n {
                    let fd = libc::CMSG_DATA(c).cast::<i32>().add(i).read_unaligned();
                    fds.push(OwnedFd::from_raw_fd(fd));
                }
            }
            c = libc::CMSG_NXTHDR(&raw const m, c);
        }
    }
    bytes.truncate(n as usize);
    Ok((bytes, fds.into_iter().next()))
}

/// Hands a segment of `len` bytes to the process whose door is called `name`; returns once that has
/// taken it.
pub fn hand_over(
    name: &str,
    number: u64,
    len: u64,
    proof: &[u8; PROOF],
    segment: &Segment,
) -> io::Result<()> {
    let socket = socket()?;
    let fd = socket.as_raw_fd();
    set_patience(fd);
    let (a, size) = address(name)?;
    // SAFETY: a live address of the length given.
    check(unsafe { libc::connect(fd, (&raw const a).cast(), size) })?;
    let mut bytes = Vec::with_capacity(MESSAGE);
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(proof);
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut space = [0u64; 4];
    // SAFETY: an all-zero msghdr is valid; the control buffer is larger than one descriptor's
    // message, and aligned; every pointer in `m` is to a live local.
    let sent = unsafe {
        let mut m: libc::msghdr = std::mem::zeroed();
        m.msg_iov = &raw mut part;
        m.msg_iovlen = 1;
        m.msg_control = space.as_mut_ptr().cast();
        m.msg_controllen = libc::CMSG_SPACE(4) as _;
        let c = libc::CMSG_FIRSTHDR(&raw const m);
        (*c).cmsg_level = libc::SOL_SOCKET;
        (*c).cmsg_type = libc::SCM_RIGHTS;
        (*c).cmsg_len = libc::CMSG_LEN(4) as _;
        let raw = segment.fd.as_raw_fd();
        libc::CMSG_DATA(c).cast::<i32>().write_unaligned(raw);
        libc::sendmsg(fd, &raw const m, libc::MSG_NOSIGNAL)
    };
    if sent != MESSAGE as isize {
        return Err(io::Error::last_os_error());
    }
    let mut answer = [0u8; 1];
    // SAFETY: room for one byte.
    let n = unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), 1, 0) };
    match n {
        1 if answer[0] == 1 => Ok(()),
        0 | 1 => Err(bad("the segment was refused")),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x1234_0000_0000;
    const LEN: u64 = 1 << 20;

    #[test]
    fn both_sides_see_one_memory() {
        let door = Door::open().unwrap();
        let name = door.name().to_string();
        let door = Door::taken_over(door.into_socket()).unwrap();
        assert_eq!(door.name(), name);
        let taker = std::thread::spawn(move || {
            let (offer, caller) = door.next().unwrap();
            assert_eq!((offer.number, offer.len, offer.proof), (7, LEN, [3; PROOF]));
            offer.memory.map(AT, LEN).unwrap();
            caller.accept();
        });
        let s = Segment::new(LEN).unwrap();
        hand_over(&name, 7, LEN, &[3; PROOF], &s).unwrap();
        taker.join().unwrap();
        s.map(AT + LEN, LEN).unwrap();
        assert!(s.map(AT, LEN).is_err(), "a mapping must not replace one");
        // SAFETY: both were just mapped, and nobody else knows of them.
        unsafe {
            ((AT + LEN + 5) as *mut u8).write_volatile(9);
            assert_eq!(((AT + 5) as *const u8).read_volatile(), 9);
            Segment::unmap(AT, 2 * LEN);
        }
    }

    #[test]
    fn a_segment_that_can_shrink_or_is_too_short_is_refused() {
        let file = |seals: i32, len: i64| {
            // SAFETY: a C string that lives on, and a descriptor that the kernel just gave.
            unsafe {
                let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
                let fd = OwnedFd::from_raw_fd(libc::memfd_create(c"t".as_ptr(), flags));
                assert_eq!(libc::ftruncate(fd.as_raw_fd(), len), 0);
                assert_eq!(libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals), 0);
                fd
            }
        };
        assert!(Segment::adopt(file(libc::F_SEAL_SHRINK, 4096), 4096).is_ok());
        assert!(Segment::adopt(file(libc::F_SEAL_SHRINK, 4096), 4097).is_err());
        assert!(Segment::adopt(file(libc::F_SEAL_GROW, 4096), 4096).is_err());
        let disk = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Segment::adopt(disk.into(), 1).is_err());
        let ours = Segment::new(4096).unwrap();
        // SAFETY: a descriptor of ours.
        assert_eq!(unsafe { libc::ftruncate(ours.fd.as_raw_fd(), 0) }, -1);
    }

    #[test]
    fn a_caller_who_says_nothing_sensible_is_turned_away() {
        let door = Door::open().unwrap();
        let name = door.name().to_string();
        let stranger = std::thread::spawn(move || {
            let s = socket().unwrap();
            let (a, len) = address(&name).unwrap();
            // SAFETY: a live address and live bytes.
            unsafe {
                assert_eq!(libc::connect(s.as_raw_fd(), (&raw const a).cast(), len), 0);
                libc::send(s.as_raw_fd(), [0u8; 48].as_ptr().cast(), 48, 0);
            }
        });
        assert!(door.next().is_err());
        stranger.join().unwrap();
        let s = Segment::new(4096).unwrap();
        assert!(hand_over("busbar-nobody", 1, 4096, &[0; PROOF], &s).is_err());
    }
}
