//! Values that may be copied as bytes.

use std::mem::{MaybeUninit, size_of, size_of_val};

/// A type of which every pattern of bytes, all zero included, is a value.
///
/// # Safety
/// The type is `repr(C)` or primitive, and made of integers, floats, raw pointers and optional
/// function pointers only. (A function pointer made of foreign bytes must not be called.)
pub unsafe trait Plain: Copy {
    /// Bytes of a value that are no field's: offset and number. What they hold, C code may have
    /// left there from something else.
    const HOLES: &[(usize, usize)] = &[];
}

macro_rules! plain {
    ($($t:ty),*) => {$(
        // SAFETY: a number.
        unsafe impl Plain for $t {}
    )*};
}
plain!(u8, i8, u16, i16, u32, i32, u64, i64, usize, isize, f32, f64);

// SAFETY: an array has its items' bytes and nothing else.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}
// SAFETY: a raw pointer is a number until it is followed.
unsafe impl<T> Plain for *mut T {}
// SAFETY: as above.
unsafe impl<T> Plain for *const T {}

/// The value whose bytes are all zero.
#[inline]
pub fn zeroed<T: Plain>() -> T {
    // SAFETY: zero is a value of a plain type.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// A value from the bytes of another process; `None` when their number is wrong.
#[inline]
pub fn from_bytes<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() != size_of::<T>() {
        return None;
    }
    // SAFETY: the length was checked, the read need not be aligned, every pattern is a value.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Values from the bytes of another process; `None` when their number is wrong.
pub fn items_from_bytes<T: Plain>(bytes: &[u8]) -> Option<Vec<T>> {
    if size_of::<T>() == 0 || !bytes.len().is_multiple_of(size_of::<T>()) {
        return None;
    }
    bytes.chunks_exact(size_of::<T>()).map(from_bytes).collect()
}

/// The bytes of a value that [`zeroed`] or C code filled, padding included.
#[inline]
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    slice_bytes(std::slice::from_ref(value))
}

/// The bytes of such a value, which are `N`, for somebody else: zero where no field is.
#[inline]
pub fn to_array<T: Plain, const N: usize>(value: &T) -> [u8; N] {
    const { assert!(size_of::<T>() == N) };
    let mut out = [0; N];
    out.copy_from_slice(bytes_of(value));
    clear_holes::<T>(&mut out);
    out
}

/// The bytes of such a value for somebody else, as [`to_array`] has them.
pub fn to_vec<T: Plain>(value: &T) -> Vec<u8> {
    let mut out = bytes_of(value).to_vec();
    clear_holes::<T>(&mut out);
    out
}

fn clear_holes<T: Plain>(bytes: &mut [u8]) {
    for (from, n) in T::HOLES {
        bytes[*from..from + n].fill(0);
    }
}

/// The bytes of such values.
#[inline]
pub fn slice_bytes<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: the values lie there, and live as long as the result.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// What lies at the front of `from`: a member of a union whose bytes `from` is.
#[inline]
pub fn member<T: Plain, U: Plain>(from: &U) -> T {
    const { assert!(size_of::<T>() <= size_of::<U>()) };
    // SAFETY: `U` has that many bytes, the read need not be aligned, every pattern is a value.
    unsafe { std::ptr::from_ref(from).cast::<T>().read_unaligned() }
}

/// Writes a member of a union whose bytes `to` is; the bytes behind it stay.
#[inline]
pub fn set_member<T: Plain, U: Plain>(to: &mut U, value: T) {
    const { assert!(size_of::<T>() <= size_of::<U>()) };
    // SAFETY: `U` has that many bytes, and the write need not be aligned.
    unsafe { std::ptr::from_mut(to).cast::<T>().write_unaligned(value) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Holey {
        long: u64,
        short: u16,
        int: u32,
        byte: u8,
    }

    // SAFETY: `repr(C)`, and numbers.
    unsafe impl Plain for Holey {
        const HOLES: &[(usize, usize)] = &[(10, 2), (17, 7)];
    }

    #[test]
    fn what_lies_between_fields_is_nobody_elses() {
        let full = from_bytes::<Holey>(&[0xff; 24]).unwrap();
        let said: [u8; 24] = to_array(&full);
        let zero = |i: &usize| matches!(i, 10 | 11 | 17..24);
        let wanted: Vec<u8> = (0..24).map(|i| if zero(&i) { 0 } else { 0xff }).collect();
        assert_eq!((&said[..], to_vec(&full)), (&wanted[..], wanted.clone()));
        let Holey {
            long,
            short,
            int,
            byte,
        } = from_bytes(&said).unwrap();
        assert_eq!(
            (long, short, int, byte),
            (u64::MAX, u16::MAX, u32::MAX, 255)
        );
    }

    #[test]
    fn bytes_come_back_as_the_values_they_were() {
        let values = [1u32, 0xffff_fffe, 7];
        let bytes = slice_bytes(&values);
        assert_eq!(items_from_bytes::<u32>(bytes).as_deref(), Some(&values[..]));
        assert_eq!(from_bytes::<u64>(&bytes[..8]), Some(0xffff_fffe_0000_0001));
        assert_eq!(to_array(&values[2]), [7, 0, 0, 0]);
        assert_eq!(from_bytes::<u64>(bytes), None);
        assert_eq!(items_from_bytes::<u64>(bytes), None);
        assert_eq!(zeroed::<[u16; 3]>(), [0; 3]);
        let mut blob = [0u64, 5];
        set_member(&mut blob, [1u32, 2]);
        assert_eq!((member::<u64, _>(&blob), blob[1]), (0x2_0000_0001, 5));
    }
}
