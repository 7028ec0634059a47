//! Memory and events that the workers of one server share.
//!
//! A worker that exports memory listens on a socket of the abstract namespace. Whoever connects
//! says a secret, which only the exporting client has been told, and gets the memory's file
//! descriptor.

use super::memory::{mapping, note, reserve};
use super::{Cuda, attempt, check};
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::codec::Message;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::record::Header;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Secret = [u8; 16];

/// How long the other worker may take: it only hands out a descriptor.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Offered {
    /// What is given for a secret.
    files: HashMap<Secret, OwnedFd>,
}

/// What this worker offers.
#[derive(Default)]
pub(super) struct Exports {
    offered: Arc<Mutex<Offered>>,
    /// Secrets by the mapping's address.
    secrets: HashMap<u64, Secret>,
    /// Secrets of memory that is not mapped by us, by the client's id.
    allocations: HashMap<u32, Secret>,
    /// The socket's name, once it listens.
    tag: Option<[u8; 8]>,
}

fn lock(m: &Mutex<Offered>) -> MutexGuard<'_, Offered> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The name of the socket, which listens from the first export on.
fn listen(e: &mut Exports) -> Result<[u8; 8], CUresult> {
    if let Some(tag) = e.tag {
        return Ok(tag);
    }
    let tag = random()?;
    let os = |_| CUDA_ERROR_OPERATING_SYSTEM;
    let listener = UnixListener::bind_addr(&address(&tag).map_err(os)?).map_err(os)?;
    let offered = e.offered.clone();
    let run = move || {
        for s in listener.incoming().flatten() {
            answer(s, &offered);
        }
    };
    std::thread::Builder::new()
        .name("ipc".into())
        .spawn(run)
        .map_err(os)?;
    e.tag = Some(tag);
    Ok(tag)
}

const DESCRIPTOR: CUmemAllocationHandleType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// A descriptor of memory.
fn descriptor(d: &Driver, memory: CUmemGenericAllocationHandle) -> Result<OwnedFd, CUresult> {
    let mut fd = -1i32;
    let out = (&raw mut fd).cast();
    // SAFETY: live memory and a pointer to a live value; the descriptor that comes is ours.
    unsafe {
        check(d.cuMemExportToShareableHandle(out, memory, DESCRIPTOR, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn export(d: &Driver, va: u64) -> Result<OwnedFd, CUresult> {
    let mut memory = 0;
    // SAFETY: a mapped address, a pointer to a live value; what is retained is released.
    unsafe {
        check(d.cuMemRetainAllocationHandle(&mut memory, va as *mut _))?;
        let fd = descriptor(d, memory);
        d.cuMemRelease(memory);
        fd
    }
}

/// Offers memory: the socket's name, and the secret.
pub(super) fn offer(
    w: &mut Cuda,
    id: u32,
    memory: CUmemGenericAllocationHandle,
) -> Result<([u8; 8], Secret), CUresult> {
    let tag = listen(&mut w.exports)?;
    let secret = match w.exports.allocations.get(&id) {
        Some(s) => *s,
        None => {
            let file = descriptor(w.driver, memory)?;
            let secret = random()?;
            lock(&w.exports.offered).files.insert(secret, file);
            w.exports.allocations.insert(id, secret);
            secret
        }
    };
    Ok((tag, secret))
}

/// Memory is released here: who has not imported it comes too late.
pub(super) fn forget_allocation(w: &mut Cuda, id: u32) {
    if let Some(secret) = w.exports.allocations.remove(&id) {
        lock(&w.exports.offered).files.remove(&secret);
    }
}

/// Memory that another worker offers.
pub(super) fn taken(
    w: &Cuda,
    tag: &[u8; 8],
    secret: &Secret,
) -> Result<CUmemGenericAllocationHandle, CUresult> {
    let file = fetch(tag, secret)?;
    let mut memory = 0;
    let os_handle = std::ptr::without_provenance_mut(file.as_raw_fd() as usize);
    // SAFETY: a pointer to a live value, and a descriptor that lives through the call.
    check(unsafe {
        w.driver
            .cuMemImportFromShareableHandle(&mut memory, os_handle, DESCRIPTOR)
    })?;
    Ok(memory)
}

pub(super) fn ipc_export(w: &mut Cuda, h: &Header, m: msg::IpcExport) -> Result<(), WireError> {
    let mut reply = msg::IpcExportReply {
        tag: [0; 8],
        secret: [0; 16],
        base: 0,
        size: 0,
    };
    let rc = attempt(|| {
        (reply.base, reply.size) = mapping(w, m.va).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        reply.tag = listen(&mut w.exports)?;
        // One mapping has one secret, so that the same memory always has the same handle.
        reply.secret = match w.exports.secrets.get(&reply.base) {
            Some(s) => *s,
            None => {
                let file = export(w.driver, reply.base)?;
                let secret = random()?;
                lock(&w.exports.offered).files.insert(secret, file);
                w.exports.secrets.insert(reply.base, secret);
                secret
            }
        };
        Ok(())
    });
    w.reply(h, rc, |wr| reply.encode(wr));
    Ok(())
}

/// A mapping is gone: what it held can be imported no longer.
pub(super) fn forget(w: &mut Cuda, va: u64) {
    if let Some(secret) = w.exports.secrets.remove(&va) {
        lock(&w.exports.offered).files.remove(&secret);
    }
}

/// Asks the worker of that name for what the secret opens.
fn fetch(tag: &[u8; 8], secret: &Secret) -> Result<OwnedFd, CUresult> {
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

pub(super) fn ipc_import(w: &mut Cuda, h: &Header, m: msg::IpcImport) -> Result<(), WireError> {
    let rc = attempt(|| {
        let dev = w.device(m.device)?;
        if mapping(w, m.va).is_some() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        reserve(w, m.va, m.size)?;
        let memory = taken(w, &m.tag, &m.secret)?;
        let users = super::memory::users(w, dev);
        super::memory::map(w.driver, m.va, m.size as usize, memory, &users)?;
        note(w, m.va, m.size, dev);
        Ok(())
    });
    w.reply(h, rc, |_| {});
    Ok(())
}

pub(super) fn ipc_event_export(
    w: &mut Cuda,
    h: &Header,
    m: msg::IpcEventExport,
) -> Result<(), WireError> {
    let mut handle: CUipcEventHandle = busbar_abi::zeroed();
    let rc = attempt(|| {
        let event = w.handle(Kind::Event, m.event)? as CUevent;
        // SAFETY: a live event and a pointer to a live value.
        check(unsafe { w.driver.cuIpcGetEventHandle(&mut handle, event) })
    });
    let reply = msg::IpcEventExportReply {
        handle: busbar_abi::bytes_of(&handle),
    };
    w.reply(h, rc, |wr| reply.encode(wr));
    Ok(())
}

pub(super) fn ipc_event_import(
    w: &mut Cuda,
    h: &Header,
    m: msg::IpcEventImport<'_>,
) -> Result<(), WireError> {
    let mut event: CUevent = std::ptr::null_mut();
    let rc = attempt(|| {
        let known: Option<Vec<CUipcEventHandle>> = busbar_abi::items_from_bytes(m.handle);
        let handle = known
            .and_then(|k| k.into_iter().next())
            .ok_or(CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: a pointer to a live handle.
        check(unsafe { w.driver.cuIpcOpenEventHandle(&mut event, handle) })
    });
    if rc == CUDA_SUCCESS {
        w.store(
            Kind::Event,
            m.event,
            event as u64,
            &[(Kind::Context, h.aux)],
        );
    }
    w.reply(h, rc, |_| {});
    Ok(())
}
