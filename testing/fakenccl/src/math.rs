//! Reductions of values of the types that are simulated.

use busbar_abi::nccl::*;

/// Bytes of a value of each type; none for what is not simulated.
pub fn size(datatype: ncclDataType_t) -> Option<usize> {
    match datatype {
        0 | 1 => Some(1),
        2 | 3 | 7 => Some(4),
        4 | 5 | 8 => Some(8),
        _ => None,
    }
}

macro_rules! typed {
    ($datatype:expr, $f:ident, $($args:expr),*) => {
        match $datatype {
            0 => $f::<i8>($($args),*),
            1 => $f::<u8>($($args),*),
            2 => $f::<i32>($($args),*),
            3 => $f::<u32>($($args),*),
            4 => $f::<i64>($($args),*),
            5 => $f::<u64>($($args),*),
            7 => $f::<f32>($($args),*),
            _ => $f::<f64>($($args),*),
        }
    };
}

trait Value: busbar_abi::Plain + PartialOrd {
    fn add(self, o: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    fn over(self, n: usize) -> Self;
}

macro_rules! values {
    ($($t:ty: $add:expr, $mul:expr;)*) => {$(
        impl Value for $t {
            fn add(self, o: Self) -> Self {
                $add(self, o)
            }
            fn mul(self, o: Self) -> Self {
                $mul(self, o)
            }
            fn over(self, n: usize) -> Self {
                self / n as Self
            }
        }
    )*};
}
values! {
    i8: i8::wrapping_add, i8::wrapping_mul;
    u8: u8::wrapping_add, u8::wrapping_mul;
    i32: i32::wrapping_add, i32::wrapping_mul;
    u32: u32::wrapping_add, u32::wrapping_mul;
    i64: i64::wrapping_add, i64::wrapping_mul;
    u64: u64::wrapping_add, u64::wrapping_mul;
    f32: |a, b| a + b, |a, b| a * b;
    f64: |a, b| a + b, |a, b| a * b;
}

fn map<T: Value>(bytes: &mut [u8], mut f: impl FnMut(usize, T) -> T) {
    for (i, place) in bytes.chunks_exact_mut(size_of::<T>()).enumerate() {
        // SAFETY: as many bytes as a value has; every pattern of bytes is one.
        unsafe {
            let p = place.as_mut_ptr().cast::<T>();
            p.write_unaligned(f(i, p.read_unaligned()));
        }
    }
}

fn at<T: Value>(bytes: &[u8], i: usize) -> T {
    let n = size_of::<T>();
    busbar_abi::from_bytes(&bytes[i * n..][..n]).unwrap_or_else(busbar_abi::zeroed)
}

fn fold<T: Value>(parts: &[&[u8]], op: ncclRedOp_t) -> Vec<u8> {
    let mut sum = parts[0].to_vec();
    for part in &parts[1..] {
        map::<T>(&mut sum, |i, a| {
            let b = at::<T>(part, i);
            match op {
                1 => a.mul(b),
                2 => {
                    if b > a {
                        b
                    } else {
                        a
                    }
                }
                3 => {
                    if b < a {
                        b
                    } else {
                        a
                    }
                }
                _ => a.add(b),
            }
        });
    }
    if op == 4 {
        map::<T>(&mut sum, |_, a| a.over(parts.len()));
    }
    sum
}

fn times<T: Value>(bytes: &mut [u8], by: &[u8]) {
    let by = at::<T>(by, 0);
    map::<T>(bytes, |_, a| a.mul(by));
}

/// All parts as one, in the order of the ranks: 0 sum, 1 product, 2 maximum, 3 minimum, 4 average.
pub fn reduce(datatype: ncclDataType_t, op: ncclRedOp_t, parts: &[&[u8]]) -> Vec<u8> {
    typed!(datatype, fold, parts, op)
}

/// Multiplies each value.
pub fn scale(datatype: ncclDataType_t, bytes: &mut [u8], by: &[u8]) {
    typed!(datatype, times, bytes, by);
}
