//! Memory that processes share by descriptors.
//!
//! The driver's own descriptors stay on their machine. What a program gets is a sealed file that
//! says which worker offers the memory, and the secret that it gives it for: processes pass it on
//! as they would the driver's, and whoever has it may import.

use super::prelude::*;
use crate::cuda::engine::{host_file, host_pool, vmm};
use crate::cuda::life::unsupported;
use crate::cuda::state::host_file::{self as files, HostFile};
use crate::cuda::state::host_pools::Of;
use crate::cuda::state::space::GRANULE;
use crate::cuda::state::vmm::Pages;
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// How the files begin that stand for memory, and for pools.
const MEMORY: [u8; 8] = *b"busbar\0\x02";
const POOL: [u8; 8] = *b"busbar\0\x03";

const DESCRIPTOR: CUmemAllocationHandleType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// What such a file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticket {
    what: [u8; 8],
    tag: [u8; 8],
    secret: [u8; 16],
    size: u64,
}

impl Ticket {
    fn bytes(&self) -> [u8; 40] {
        let mut b = [0; 40];
        b[..8].copy_from_slice(&self.what);
        b[8..16].copy_from_slice(&self.tag);
        b[16..32].copy_from_slice(&self.secret);
        b[32..].copy_from_slice(&self.size.to_le_bytes());
        b
    }

    /// What a file says that stands for such a thing.
    fn parse(b: &[u8; 40], what: [u8; 8]) -> Option<Self> {
        let part = |from: usize| b[from..].first_chunk().copied();
        let size = u64::from_le_bytes(part(32)?);
        let t = Self {
            what,
            tag: part(8)?,
            secret: b[16..].first_chunk().copied()?,
            size,
        };
        let fits = what == POOL || size > 0 && size.is_multiple_of(GRANULE);
        (b[..8] == what && fits).then_some(t)
    }

    /// Writes a descriptor of a file that says so.
    ///
    /// # Safety
    /// `out` is the program's pointer to a descriptor.
    unsafe fn give(&self, out: *mut c_void) -> Result<()> {
        let file = sealed(&self.bytes()).map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)?;
        // SAFETY: passed on to the caller.
        unsafe { put(out.cast::<i32>(), file.into_raw_fd()) }
    }

    /// What the file of a descriptor says, which stays the program's.
    fn of(fd: i32, what: [u8; 8]) -> Result<Self> {
        refuse_if(fd < 0, CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: it is not closed.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
        let mut b = [0; 40];
        let whole = file.read_exact_at(&mut b, 0);
        whole.map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
        Self::parse(&b, what).ok_or(CUDA_ERROR_INVALID_VALUE)
    }
}

/// A file without a name that nobody can change any more.
fn sealed(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a C string; the descriptor that comes is ours.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"busbar-memory".as_ptr(), flags);
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        File::from_raw_fd(fd)
    };
    file.write_all(bytes)?;
    let all = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    // SAFETY: a live descriptor.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, all) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(file.into())
}

pub unsafe fn cuMemExportToShareableHandle(
    cx: Cx,
    out: *mut c_void,
    id: u32,
    kind: CUmemAllocationHandleType,
    flags: u64,
) -> Result<()> {
    if matches!(
        kind,
        CU_MEM_HANDLE_TYPE_FABRIC | CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT
    ) {
        let why = "memory is shared by descriptors, between processes of one server";
        return Err(unsupported("cuMemExportToShareableHandle", why));
    }
    let (size, props) = vmm::known(cx, id)?;
    if out.is_null()
        || kind != DESCRIPTOR
        || flags != 0
        || props.requestedHandleTypes & DESCRIPTOR == 0
    {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let pages = lock(&cx.state().vmm)
        .allocations
        .get(&id)
        .map(|a| a.pages.clone());
    if let Some(Pages::In(file)) = pages {
        // SAFETY: checked for null above; the program's pointer to a descriptor.
        return unsafe { put(out.cast::<i32>(), host_file::descriptor(&file)?) };
    }
    cx.state().order.others_will_see();
    let r = cx.reply_to(&msg::VmmExport { allocation: id })?;
    let t = Ticket {
        what: MEMORY,
        tag: r.tag,
        secret: r.secret,
        size,
    };
    // SAFETY: checked for null above; the program's pointer to a descriptor.
    unsafe { t.give(out) }
}

pub unsafe fn cuMemPoolExportToShareableHandle(
    cx: Cx,
    out: *mut c_void,
    pool: u32,
    kind: CUmemAllocationHandleType,
    flags: u64,
) -> Result<()> {
    if out.is_null() || kind != DESCRIPTOR || flags != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if let Some(host) = host_pool::find(cx, pool) {
        let file = host.file.as_ref().filter(|file| file.is_own);
        let file = file.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: checked for null above; the program's pointer to a descriptor.
        return unsafe { put(out.cast::<i32>(), host_file::descriptor(file)?) };
    }
    cx.state().order.others_will_see();
    let r = cx.reply_to(&msg::PoolExport { pool })?;
    let t = Ticket {
        what: POOL,
        tag: r.tag,
        secret: r.secret,
        size: 0,
    };
    // SAFETY: checked for null above; the program's pointer to a descriptor.
    unsafe { t.give(out) }
}

pub unsafe fn cuMemPoolImportFromShareableHandle(
    cx: Cx,
    handle: *mut c_void,
    kind: CUmemAllocationHandleType,
    flags: u64,
) -> Result<u32> {
    refuse_if(kind != DESCRIPTOR || flags != 0, CUDA_ERROR_INVALID_VALUE)?;
    let fd = i32::try_from(handle as usize).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    if let Some(file) = host_file::open(fd, files::POOL) {
        return Ok(host_pool::create(cx, Of::Host, 0, Some(file)));
    }
    let of_none = |e| if fd < 0 { e } else { CUDA_ERROR_UNKNOWN };
    let t = Ticket::of(fd, POOL).map_err(of_none)?;
    cx.state().order.others_will_see();
    let pool = cx.create(Kind::MemoryPool);
    let m = msg::PoolImport {
        pool,
        tag: t.tag,
        secret: t.secret,
    };
    cx.call(&m)
        .inspect_err(|_| cx.destroy(Kind::MemoryPool, pool))?;
    Ok(pool)
}

pub unsafe fn cuMemImportFromShareableHandle(
    cx: Cx,
    os_handle: *mut c_void,
    kind: CUmemAllocationHandleType,
) -> Result<u32> {
    let fd = i32::try_from(os_handle as usize).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(kind != DESCRIPTOR, CUDA_ERROR_INVALID_VALUE)?;
    if let Some(file) = host_file::open(fd, files::MEMORY) {
        return import_of_host(cx, file);
    }
    let t = Ticket::of(fd, MEMORY)?;
    cx.state().order.others_will_see();
    let allocation = cx.create_in(Kind::Allocation, 0);
    let m = msg::VmmImport {
        allocation,
        tag: t.tag,
        secret: t.secret,
    };
    let fail = |_: &CUresult| cx.destroy(Kind::Allocation, allocation);
    let reply = cx.call(&m).inspect_err(fail)?;
    let r = decode::<msg::VmmImportReply<'_>>(&reply).inspect_err(fail)?;
    let props = busbar_abi::from_bytes(r.props);
    let props = props.ok_or(CUDA_ERROR_UNKNOWN).inspect_err(fail)?;
    vmm::add(cx, allocation, t.size, &props, Pages::None);
    Ok(allocation)
}

/// Takes another process's host memory: the worker makes some that stands for it.
fn import_of_host(cx: Cx, file: Arc<HostFile>) -> Result<u32> {
    let props = busbar_abi::from_bytes::<CUmemAllocationProp>(&file.head.props);
    let right = |p: &CUmemAllocationProp| {
        vmm::is_host(&p.location) && file.head.size.is_multiple_of(GRANULE)
    };
    let mut props = props.filter(right).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    // It is not given on.
    props.requestedHandleTypes = 0;
    vmm::create(cx, file.head.size, &props, Pages::In(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_says_what_was_put_in_and_cannot_be_changed() {
        let t = Ticket {
            what: MEMORY,
            tag: [1; 8],
            secret: [2; 16],
            size: 2 * GRANULE,
        };
        assert_eq!(Ticket::parse(&t.bytes(), MEMORY), Some(t));
        assert_eq!(Ticket::parse(&t.bytes(), POOL), None);
        assert_eq!(Ticket::parse(&[0; 40], MEMORY), None);
        assert_eq!(
            Ticket::parse(&Ticket { size: 5, ..t }.bytes(), MEMORY),
            None
        );
        assert_eq!(
            Ticket::parse(&Ticket { size: 0, ..t }.bytes(), MEMORY),
            None
        );
        let file = File::from(sealed(&t.bytes()).expect("a file"));
        let mut b = [0; 40];
        file.read_exact_at(&mut b, 0).expect("all of it");
        assert_eq!(b, t.bytes());
        assert!(file.write_at(&[9], 0).is_err());
    }
}
