//! Mapping memory of the program's in our own ranges of addresses.

use super::prelude::*;
use crate::cuda::call::unmap_host;
use crate::cuda::engine::shared;
use crate::cuda::state::ranges::{Spaces, pages, whole};
use crate::cuda::state::space;
use std::ffi::c_void;
use std::os::fd::RawFd;

/// Maps fresh memory of the program's at an address of one of our ranges.
pub fn map_fixed(at: u64, len: u64, rights: i32) -> Result<()> {
    map_at(
        at,
        len,
        rights,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        -1,
        0,
    )
}

/// Maps memory, of a file or fresh, at an address where nothing is.
pub fn map_at(at: u64, len: u64, rights: i32, kind: i32, file: RawFd, offset: i64) -> Result<()> {
    let flags = kind | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let want = at as *mut c_void;
    // SAFETY: a new mapping that replaces nothing.
    let p = unsafe { libc::mmap(want, len as usize, rights, flags, file, offset) };
    // A kernel that does not know the flag takes the address for a wish.
    if p != want && p != libc::MAP_FAILED {
        unmap_host(p as u64, len);
    }
    refuse_if(p != want, CUDA_ERROR_OUT_OF_MEMORY)
}

/// Maps fresh memory of the program's where there is room.
pub fn map_anywhere(len: u64) -> Result<u64> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping that replaces nothing.
    let p = unsafe { libc::mmap(std::ptr::null_mut(), len as usize, rights, flags, -1, 0) };
    refuse_if(p == libc::MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY)?;
    Ok(p as u64)
}

/// Sets what the program may do with pages of ours.
pub fn protect(at: u64, len: u64, rights: i32) -> Result<()> {
    // SAFETY: whole pages of ours.
    let done = unsafe { libc::mprotect(at as *mut c_void, len as usize, rights) };
    refuse_if(done != 0, CUDA_ERROR_OPERATING_SYSTEM)
}

/// Moves pages, which may be read and written, to where a mapping of ours of the same length is.
///
/// # Safety
/// Nobody uses either.
pub unsafe fn move_pages(from: u64, to: u64, len: u64) -> Result<()> {
    let (old, new, n) = (from as *mut c_void, to as *mut c_void, len as usize);
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: passed on to the caller.
    let moved = unsafe { libc::mremap(old, n, n, flags, new) };
    if moved == libc::MAP_FAILED {
        // Pages that were guarded one by one may be several mappings to the kernel.
        protect(to, len, libc::PROT_READ | libc::PROT_WRITE)?;
        // SAFETY: passed on to the caller.
        unsafe { std::ptr::copy_nonoverlapping(old.cast::<u8>(), new.cast(), n) };
        unmap_host(from, len);
    }
    Ok(())
}

/// Maps memory through which kernels see whole pages that lie elsewhere in the program.
pub fn map_window(cx: Cx, origin: u64, size: u64) -> Result<u64> {
    // Whole granules, so that a window can be freed by its address and size alone.
    let room = size.next_multiple_of(space::GRANULE);
    cx.state().spaces.place(space::WINDOW, room, |va, _| {
        shared::stand_in(cx, va, size, origin)
    })
}

/// Gives the room of such a window back.
pub fn leave_window(spaces: &Spaces, va: u64, size: u64) {
    let room = size.next_multiple_of(space::GRANULE);
    if let Some((va, room)) = spaces.unplace(space::WINDOW, va, room) {
        spaces.vacant(va, room);
    }
}

/// Maps page-locked memory of the program's.
pub fn host_map(spaces: &Spaces, size: usize) -> Result<u64> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // In a range that is free in the worker as well: a kernel finds it at the same address.
    spaces.place(space::HOST, size as u64, |at, len| {
        map_fixed(at, len, rights)
    })
}

/// Gives the room of page-locked memory back, as [`Spaces::unplace`] does, and its pages to the
/// system.
pub fn leave_host(spaces: &Spaces, at: u64, size: u64) -> Option<(u64, u64)> {
    // First the pages: once the room is given back it may be another thread's, with its bytes in
    // it. What has a mapping of its own is unmapped as a whole.
    if whole(size).is_none() {
        // SAFETY: pages of ours that nobody uses any more, and that nobody else is given yet.
        unsafe {
            libc::madvise(at as *mut c_void, pages(size) as usize, libc::MADV_DONTNEED);
        }
    }
    spaces.unplace(space::HOST, at, size)
}

/// Whether the program has memory at all of these addresses.
pub fn is_mapped(start: u64, size: usize) -> bool {
    let page = start & !4095;
    let len = (start - page) as usize + size;
    // SAFETY: nothing is changed; the kernel says whether a page is missing.
    unsafe { libc::msync(page as *mut c_void, len, libc::MS_ASYNC) == 0 }
}

/// Whether the program may do everything on this machine.
pub fn is_root() -> bool {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() == 0 }
}

/// The words at both ends of some memory.
fn ends(start: u64, size: usize) -> [u64; 2] {
    [start, start + size as u64 - 1].map(|p| p & !3)
}

/// Whether the program may write at both ends of memory that it has: the kernel adds nothing to a
/// word, which fails where it must not be written.
pub fn may_write(start: u64, size: usize) -> bool {
    const ADD_NOTHING: u32 = 1 << 28;
    let adds = |word: u64| {
        let nobody = AtomicU32::new(0);
        // SAFETY: wakes nobody, and changes no value.
        let done = unsafe {
            libc::syscall(
                libc::SYS_futex,
                nobody.as_ptr(),
                libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG,
                0,
                std::ptr::null::<libc::timespec>(),
                word,
                ADD_NOTHING,
            )
        };
        done >= 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
    };
    ends(start, size).into_iter().all(adds)
}

/// Whether memory of the program's has other mappings, or may have: it is a file's, or shared with
/// other processes. The kernel maps no other once more.
pub fn is_seen_by_others(start: u64, size: u64) -> bool {
    ends(start, size as usize).into_iter().any(|p| {
        let page = (p & !4095) as *mut c_void;
        // SAFETY: of no bytes of the old mapping anything is moved: there is a new one, or none.
        let other = unsafe { libc::mremap(page, 0, 4096, libc::MREMAP_MAYMOVE) };
        let shared = other != libc::MAP_FAILED;
        if shared {
            unmap_host(other as u64, 4096);
        }
        shared
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// While no room is given out or taken back, freed memory is nobody's: that is when it must be
    /// emptied. Emptied later it could be another thread's by then.
    #[test]
    fn freed_page_locked_memory_is_empty_before_it_is_anybodys() {
        let spaces = Spaces::default();
        let at = host_map(&spaces, 100).expect("there is room");
        let first = at as *mut u8;
        // SAFETY: memory that was just mapped.
        unsafe { first.write_volatile(0xaa) };
        let (gate, ours) = (spaces.stop(), &spaces);
        let left = std::thread::scope(|s| {
            s.spawn(move || leave_host(ours, at, 100));
            let end = Instant::now() + Duration::from_secs(10);
            // SAFETY: its granule stays mapped.
            let look = || unsafe { (at as *const u8).read_volatile() };
            while look() != 0 && Instant::now() < end {
                std::thread::yield_now();
            }
            let left = look();
            drop(gate);
            left
        });
        assert_eq!(left, 0, "emptied only after it was given back");
        assert_eq!(host_map(&spaces, 100), Ok(at), "it is given out again");
    }
}
