//! Flags of memory objects.
#![forbid(unsafe_code)]

use super::prelude::*;

/// What kernels may do with an object.
pub const ACCESS: u64 = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
const HOST_ACCESS: u64 = CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;
/// What the program's own memory is to an object.
pub const POINTER: u64 = CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;
/// Flags that the worker's object has. Host pointers are the client's affair, and the worker reads
/// and writes on behalf of maps even where the program may not.
const SENT: u64 = ACCESS | CL_MEM_COPY_HOST_PTR | CL_MEM_KERNEL_READ_AND_WRITE;

fn check_access(flags: u64, known: u64) -> Result<()> {
    let one = |group: u64| (flags & group).count_ones() <= 1;
    match flags & !known == 0 && one(ACCESS) && one(HOST_ACCESS) {
        true => Ok(()),
        false => Err(CL_INVALID_VALUE),
    }
}

/// Checks flags against each other and against whether there is a host pointer.
pub fn check_flags(flags: u64, host: bool) -> Result<()> {
    check_access(
        flags,
        ACCESS | HOST_ACCESS | POINTER | CL_MEM_KERNEL_READ_AND_WRITE,
    )?;
    let uses = flags & CL_MEM_USE_HOST_PTR != 0;
    if uses && flags & (CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR) != 0 {
        return Err(CL_INVALID_VALUE);
    }
    let wants = flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR) != 0;
    refuse_if(wants != host, CL_INVALID_HOST_PTR)
}

/// The flags of a part of a buffer, given those asked for and those of the buffer: what the former
/// leave open is as with the buffer.
pub fn part_flags(parent: u64, flags: u64) -> Result<u64> {
    check_access(flags, ACCESS | HOST_ACCESS)?;
    let clash = |p: u64, child: u64| parent & p != 0 && flags & child != 0;
    if clash(CL_MEM_WRITE_ONLY, CL_MEM_READ_WRITE | CL_MEM_READ_ONLY)
        || clash(CL_MEM_READ_ONLY, CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY)
        || clash(CL_MEM_HOST_WRITE_ONLY, CL_MEM_HOST_READ_ONLY)
        || clash(CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY)
        || clash(
            CL_MEM_HOST_NO_ACCESS,
            CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY,
        )
    {
        return Err(CL_INVALID_VALUE);
    }
    let mut all = flags | parent & POINTER;
    for group in [ACCESS, HOST_ACCESS] {
        if all & group == 0 {
            all |= parent & group;
        }
    }
    Ok(all)
}

/// The flags to send, given the program's: contents travel in either case that has them.
pub fn sent_flags(flags: u64) -> u64 {
    let copies = match flags & CL_MEM_USE_HOST_PTR {
        0 => 0,
        _ => CL_MEM_COPY_HOST_PTR,
    };
    (flags | copies) & SENT
}

/// Flags as queries give them: access is read-write where the program said nothing.
pub fn with_default(flags: u64) -> u64 {
    match flags & ACCESS {
        0 => flags | CL_MEM_READ_WRITE,
        _ => flags,
    }
}

/// Fails when the host may not read (or write) an object with these flags.
pub fn host_may(flags: u64, write: bool) -> Result<()> {
    let denied = match write {
        true => CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_READ_ONLY,
        false => CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_WRITE_ONLY,
    };
    match flags & denied {
        0 => Ok(()),
        _ => Err(CL_INVALID_OPERATION),
    }
}

/// Fails when a range does not lie in `whole` bytes.
pub fn check_range(whole: usize, offset: usize, size: usize) -> Result<()> {
    match offset.checked_add(size) {
        Some(end) if end <= whole => Ok(()),
        _ => Err(CL_INVALID_VALUE),
    }
}

/// Whether a pattern may fill `size` bytes at `offset`.
pub fn check_pattern(pattern: usize, offset: usize, size: usize) -> Result<()> {
    let fits = |n: usize| n.is_multiple_of(pattern);
    match pattern.is_power_of_two() && pattern <= 128 && fits(offset) && fits(size) {
        true => Ok(()),
        false => Err(CL_INVALID_VALUE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_pointer_comes_with_the_flags_that_want_one_and_no_others() {
        assert_eq!(check_flags(CL_MEM_USE_HOST_PTR, true), Ok(()));
        assert_eq!(
            check_flags(CL_MEM_USE_HOST_PTR, false),
            Err(CL_INVALID_HOST_PTR)
        );
        assert_eq!(
            check_flags(CL_MEM_READ_WRITE, true),
            Err(CL_INVALID_HOST_PTR)
        );
        let both = CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR;
        assert_eq!(check_flags(both, true), Err(CL_INVALID_VALUE));
        let two = CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY;
        assert_eq!(check_flags(two, false), Err(CL_INVALID_VALUE));
        assert_eq!(check_flags(1 << 50, false), Err(CL_INVALID_VALUE));
    }

    #[test]
    fn a_part_may_do_no_more_than_the_whole() {
        let whole = CL_MEM_READ_ONLY | CL_MEM_HOST_NO_ACCESS | CL_MEM_USE_HOST_PTR;
        assert_eq!(part_flags(whole, 0), Ok(whole));
        assert_eq!(part_flags(whole, CL_MEM_READ_WRITE), Err(CL_INVALID_VALUE));
        assert_eq!(
            part_flags(whole, CL_MEM_HOST_READ_ONLY),
            Err(CL_INVALID_VALUE)
        );
        assert_eq!(
            part_flags(whole, CL_MEM_COPY_HOST_PTR),
            Err(CL_INVALID_VALUE)
        );
    }

    #[test]
    fn memory_of_the_programs_is_copied_to_the_worker() {
        let sent = sent_flags(CL_MEM_USE_HOST_PTR | CL_MEM_READ_ONLY | CL_MEM_HOST_NO_ACCESS);
        assert_eq!(sent, CL_MEM_COPY_HOST_PTR | CL_MEM_READ_ONLY);
        assert_eq!(with_default(0), CL_MEM_READ_WRITE);
        assert_eq!(host_may(CL_MEM_HOST_READ_ONLY, false), Ok(()));
        assert!(host_may(CL_MEM_HOST_READ_ONLY, true).is_err());
    }

    #[test]
    fn ranges_and_patterns_fit_or_fail() {
        assert_eq!(check_range(8, 4, 4), Ok(()));
        assert!(check_range(8, 5, 4).is_err() && check_range(8, usize::MAX, 2).is_err());
        assert_eq!(check_pattern(16, 32, 64), Ok(()));
        for (pattern, offset, size) in [(0, 0, 0), (3, 3, 3), (256, 0, 256), (4, 2, 4), (4, 4, 6)] {
            assert!(check_pattern(pattern, offset, size).is_err());
        }
    }
}
