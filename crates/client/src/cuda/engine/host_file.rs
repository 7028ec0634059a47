//! Host memory in files that several processes map.
//!
//! Nobody sees another process's accesses, so all that kernels may use of such memory is compared,
//! as of registered memory that others have mapped.

use super::prelude::*;
use crate::cuda::call::unmap_host;
use crate::cuda::engine::place::map_at;
use crate::cuda::state::host_file::{FIRST, HEAD, Head, HostFile, MEMORY, Piece};
use crate::cuda::state::ranges::pages;
use crate::cuda::state::space::{self, GRANULE};
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Sets the length of a file.
fn grow(fd: i32, len: u64) -> Result<()> {
    let len = i64::try_from(len).map_err(|_| CUDA_ERROR_OUT_OF_MEMORY)?;
    // SAFETY: a live descriptor.
    let done = unsafe { libc::ftruncate(fd, len) };
    refuse_if(done != 0, CUDA_ERROR_OUT_OF_MEMORY)
}

/// Makes a file, which nobody can make shorter: of an allocation, as long as that is.
pub fn create(what: [u8; 8], size: u64, props: [u8; 32]) -> Result<Arc<HostFile>> {
    let failed = |_| CUDA_ERROR_OPERATING_SYSTEM;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a C string; the descriptor that comes is ours.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"busbar-host-memory".as_ptr(), flags);
        refuse_if(fd < 0, CUDA_ERROR_OPERATING_SYSTEM)?;
        File::from_raw_fd(fd)
    };
    let mut tag = [0; 16];
    // SAFETY: room for as many bytes.
    let n = unsafe { libc::getrandom(tag.as_mut_ptr().cast(), tag.len(), 0) };
    refuse_if(n != tag.len() as isize, CUDA_ERROR_OPERATING_SYSTEM)?;
    let head = Head {
        what,
        tag,
        size,
        props,
    };
    file.write_all(&head.bytes()).map_err(failed)?;
    let end = FIRST + size;
    grow(file.as_raw_fd(), end)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: a live descriptor.
    let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    refuse_if(sealed != 0, CUDA_ERROR_OPERATING_SYSTEM)?;
    Ok(Arc::new(HostFile {
        fd: file.into(),
        head,
        is_own: true,
        end: Mutex::new(end),
    }))
}

/// The file of a program's descriptor, if it is one for such a thing; the descriptor stays the
/// program's.
pub fn open(fd: i32, what: [u8; 8]) -> Option<Arc<HostFile>> {
    if fd < 0 {
        return None;
    }
    // SAFETY: it is not closed.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    let mut b = [0; HEAD];
    file.read_exact_at(&mut b, 0).ok()?;
    let head = Head::parse(&b, what)?;
    // SAFETY: no pointers.
    let seals = unsafe { libc::fcntl(fd, libc::F_GET_SEALS) };
    let len = file.metadata().ok()?.len();
    let whole = seals >= 0
        && seals & libc::F_SEAL_SHRINK != 0
        && (what != MEMORY || head.size > 0 && len >= FIRST.saturating_add(head.size));
    Some(Arc::new(HostFile {
        fd: file.try_clone().ok().filter(|_| whole)?.into(),
        head,
        is_own: false,
        end: Mutex::new(len),
    }))
}

/// A descriptor of a file for the program, which closes it.
pub fn descriptor(file: &HostFile) -> Result<i32> {
    let copy = file.fd.try_clone();
    copy.map(OwnedFd::into_raw_fd)
        .map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)
}

/// How long a file is.
fn len(file: &HostFile) -> Result<u64> {
    // SAFETY: a structure of plain numbers.
    let mut told: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a live descriptor and room for the answer.
    let done = unsafe { libc::fstat(file.fd.as_raw_fd(), &mut told) };
    refuse_if(done != 0, CUDA_ERROR_OPERATING_SYSTEM)?;
    Ok(told.st_size as u64)
}

/// Maps a part of a file, where nothing is mapped yet.
pub fn map(file: &HostFile, offset: u64, at: u64, len: u64, rights: i32) -> Result<()> {
    let from = i64::try_from(offset).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    // The file does not get shorter.
    map_at(at, len, rights, libc::MAP_SHARED, file.fd.as_raw_fd(), from)
}

/// A new piece of a pool's file.
pub fn piece(file: &Arc<HostFile>, size: u64) -> Result<Piece> {
    let mut end = lock(&file.end);
    let offset = *end;
    let after = offset.checked_add(pages(size));
    let after = after.ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
    grow(file.fd.as_raw_fd(), after)?;
    *end = after;
    let file = file.clone();
    Ok(Piece { file, offset, size })
}

/// Maps a piece in our range for page-locked memory, in granules of its own.
pub fn place(cx: Cx, piece: &Piece) -> Result<u64> {
    // Another process may say what it likes.
    let (len, most) = (len(&piece.file)?, u64::MAX - GRANULE);
    let end = piece.offset.checked_add(pages(piece.size.min(most)));
    refuse_if(end.is_none_or(|end| end > len), CUDA_ERROR_INVALID_VALUE)?;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let room = piece.size.next_multiple_of(GRANULE);
    cx.state().spaces.place(space::HOST, room, |at, _| {
        map(&piece.file, piece.offset, at, pages(piece.size), rights)
    })
}

/// Unmaps a piece. Of one's own file its bytes are gone.
pub fn leave(cx: Cx, base: u64, piece: &Piece) {
    let spaces = &cx.state().spaces;
    let room = piece.size.next_multiple_of(GRANULE);
    if let Some((va, room)) = spaces.unplace(space::HOST, base, room) {
        unmap_host(va, room);
        spaces.vacant(va, room);
    }
    if !piece.file.is_own {
        return;
    }
    let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let (fd, from, n) = (
        piece.file.fd.as_raw_fd(),
        piece.offset as i64,
        pages(piece.size) as i64,
    );
    // SAFETY: a live descriptor, and a part that nothing else lies in.
    unsafe { libc::fallocate(fd, hole, from, n) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::state::host_file::POOL;

    #[test]
    fn a_file_is_found_again_and_no_other_is() {
        let file = create(MEMORY, GRANULE, [5; 32]).expect("a file");
        let fd = file.fd.as_raw_fd();
        let again = open(fd, MEMORY).expect("the same");
        assert_eq!(again.head, file.head);
        assert!(file.is_own && !again.is_own);
        assert!(open(fd, POOL).is_none() && open(-1, POOL).is_none());
        assert!(grow(fd, FIRST).is_err(), "nobody makes it shorter");
        let other = File::open("/dev/zero").expect("a file");
        assert!(open(other.as_raw_fd(), MEMORY).is_none());
    }

    #[test]
    fn pieces_of_a_pool_do_not_meet() {
        let file = create(POOL, 0, [0; 32]).expect("a file");
        let all = [100, FIRST, FIRST + 1].map(|n| piece(&file, n).expect("a piece").offset);
        assert_eq!(all, [FIRST, 2 * FIRST, 3 * FIRST]);
        assert_eq!(*lock(&file.end), 5 * FIRST);
    }
}
