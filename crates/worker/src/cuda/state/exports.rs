//! What a worker offers to the others of its server, and the socket where they get it.

use crate::lock::lock;
use busbar_abi::cuda::*;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What opens an offer.
pub type Secret = [u8; 16];

/// How long the other worker may take: it only hands out a descriptor.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Offered {
    /// What is given for a secret.
    files: HashMap<Secret, OwnedFd>,
}

/// Memory that may be offered.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Memory {
    /// Mapped by us, at an address.
    Mapping(u64),
    /// Not mapped by us: the client's id.
    Allocation(u32),
}

/// What this worker offers.
#[derive(Default)]
pub struct Exports {
    offered: Arc<Mutex<Offered>>,
    secrets: HashMap<Memory, Secret>,
    /// The socket's name, once it listens.
    tag: Option<[u8; 8]>,
}

fn random<const N: usize>() -> Result<[u8; N], CUresult> {
    let mut b = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut b));
    read.map(|()| b).map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)
}

fn address(tag: &[u8; 8]) -> std::io::Result<SocketAddr> {
    let mut name = b"busbar-ipc-".to_vec();
    for b in tag {
        name.extend_from_slice(format!("{b:02x}").as_bytes());
    }
    SocketAddr::from_abstract_name(&name)
}

/// A control message with room for one descriptor.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Sends one byte and a descriptor.
fn send(to: &UnixStream, fd: BorrowedFd<'_>) -> std::io::Result<()> {
    let mut byte = [1u8];
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut control = Control([0; 64]);
    // SAFETY: zero is a valid value of the structure; all pointers are to live values, and the
    // control message's room is larger than a header and a descriptor.
    let n = unsafe {
        let mut m: libc::msghdr = MaybeUninit::zeroed().assume_init();
        m.msg_iov = &raw mut part;
        m.msg_iovlen = 1;
        m.msg_control = (&raw mut control).cast();
        m.msg_controllen = libc::CMSG_SPACE(4) as _;
        let c = libc::CMSG_FIRSTHDR(&m);
        (*c).cmsg_level = libc::SOL_SOCKET;
        (*c).cmsg_type = libc::SCM_RIGHTS;
        (*c).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(c)
            .cast::<i32>()
            .write_unaligned(fd.as_raw_fd());
        libc::sendmsg(to.as_raw_fd(), &m, libc::MSG_NOSIGNAL)
    };
    if n == 1 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Receives what [`send`] sends; `None` when the other side has nothing to give.
fn receive(from: &UnixStream) -> std::io::Result<Option<OwnedFd>> {
    let mut byte = [0u8];
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut control = Control([0; 64]);
    // SAFETY: as in `send`; a descriptor that arrives is ours.
    unsafe {
        let mut m: libc::msghdr = MaybeUninit::zeroed().assume_init();
        m.msg_iov = &raw mut part;
        m.msg_iovlen = 1;
        m.msg_control = (&raw mut control).cast();
        m.msg_controllen = libc::CMSG_SPACE(4) as _;
        let n = libc::recvmsg(from.as_raw_fd(), &mut m, libc::MSG_CMSG_CLOEXEC);
        if n < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let c = libc::CMSG_FIRSTHDR(&m);
        if n == 0 || c.is_null() || (*c).cmsg_type != libc::SCM_RIGHTS {
            return Ok(None);
        }
        let fd = libc::CMSG_DATA(c).cast::<i32>().read_unaligned();
        Ok(Some(OwnedFd::from_raw_fd(fd)))
    }
}

/// Answers one worker: one secret, and what it opens.
fn answer(mut s: UnixStream, offered: &Mutex<Offered>) {
    let mut secret = [0; 16];
    let limits = s.set_read_timeout(Some(PATIENCE));
    if limits.is_err() || s.read_exact(&mut secret).is_err() {
        return;
    }
    let file = lock(offered)
        .files
        .get(&secret)
        .and_then(|f| f.try_clone().ok());
    if let Some(f) = file {
        use std::os::fd::AsFd;
        // A worker that has gone meanwhile does not need it.
        let _ = send(&s, f.as_fd());
    }
}

impl Exports {
    /// The name of the socket, which listens from the first export on.
    fn listen(&mut self) -> Result<[u8; 8], CUresult> {
        if let Some(tag) = self.tag {
            return Ok(tag);
        }
        let tag = random()?;
        let os = |_| CUDA_ERROR_OPERATING_SYSTEM;
        let listener = UnixListener::bind_addr(&address(&tag).map_err(os)?).map_err(os)?;
        let offered = self.offered.clone();
        let run = move || {
            for s in listener.incoming().flatten() {
                answer(s, &offered);
            }
        };
        std::thread::Builder::new()
            .name("ipc".into())
            .spawn(run)
            .map_err(os)?;
        self.tag = Some(tag);
        Ok(tag)
    }

    /// Offers memory, whose file `open` gives: the socket's name, and the secret.
    pub fn offer(
        &mut self,
        memory: Memory,
        open: impl FnOnce() -> Result<OwnedFd, CUresult>,
    ) -> Result<([u8; 8], Secret), CUresult> {
        let tag = self.listen()?;
        let secret = match self.secrets.get(&memory) {
            Some(s) => *s,
            None => {
                let file = open()?;
                let secret = random()?;
                lock(&self.offered).files.insert(secret, file);
                self.secrets.insert(memory, secret);
                secret
            }
        };
        Ok((tag, secret))
    }

    /// Memory is gone: who has not imported it comes too late.
    pub fn forget(&mut self, memory: Memory) {
        if let Some(secret) = self.secrets.remove(&memory) {
            lock(&self.offered).files.remove(&secret);
        }
    }
}

/// Asks the worker of that name for what the secret opens.
pub fn fetch(tag: &[u8; 8], secret: &Secret) -> Result<OwnedFd, CUresult> {
    let ask = || {
        let mut s = UnixStream::connect_addr(&address(tag)?)?;
        s.set_read_timeout(Some(PATIENCE))?;
        s.write_all(secret)?;
        receive(&s)
    };
    match ask() {
        Ok(Some(f)) => Ok(f),
        // The worker is gone, or of another server, or the memory was freed.
        Ok(None) | Err(_) => Err(CUDA_ERROR_INVALID_VALUE),
    }
}
