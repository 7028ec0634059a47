//! Where device memory lies that the client placed.

use crate::memory::{Charge, Use};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::contract;
use std::sync::Arc;

/// Memory that was mapped where the client said.
pub struct Mapped {
    pub size: u64,
    pub device: i32,
    /// What it takes, unless it is another worker's.
    pub charge: Option<Charge>,
}

/// Memory of a pool, or what a graph has left.
pub struct Pooled {
    /// The id of the context that it was taken in.
    pub context: u32,
    /// The pool's handle, if it is one of this session's.
    pub pool: u64,
    pub charge: Arc<Charge>,
}

/// Mapped memory that the program made itself.
pub struct Physical {
    pub size: u64,
    /// It is memory of this host.
    pub host: bool,
    /// What it takes: memory that is released lives as long as it is mapped.
    pub _charge: Option<Arc<Charge>>,
}

/// Whether what lies at an address all devices may use: it is managed.
pub fn is_of_all(va: u64) -> bool {
    contract::number(va) == Some(contract::MANAGED)
}

/// What device memory of a range is for; none is where the host's page-locked memory lies.
pub fn of_range(range: u32) -> Result<Use> {
    match range {
        contract::MANAGED => Ok(Use::Managed),
        n if n > contract::MANAGED => Err(CUDA_ERROR_INVALID_VALUE),
        _ => Ok(Use::Linear),
    }
}

/// Whether an address lies where sessions put device memory.
#[inline]
pub fn in_ranges(va: u64) -> bool {
    contract::number(va).is_some()
}

/// Checks that all of some addresses lie in one range, and says in which.
pub fn within(va: u64, size: u64) -> Result<u32> {
    let last = va.checked_add(size.max(1) - 1);
    let range = contract::number(va).filter(|n| last.and_then(contract::number) == Some(*n));
    range.ok_or(CUDA_ERROR_INVALID_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lie_in_one_range_or_are_refused() {
        let first = contract::span(0);
        assert_eq!(within(first.start, contract::RANGE), Ok(0));
        assert_eq!(within(first.end - 1, 1), Ok(0));
        assert!(
            within(first.end - 1, 2).is_err(),
            "the next range is another's"
        );
        assert!(within(contract::span(contract::SHARED).end, 1).is_err());
        assert!(within(u64::MAX, 2).is_err());
        let far = contract::span(contract::DEVICES.end - 1);
        assert_eq!(within(far.start, 8), Ok(63));
        let managed = contract::span(contract::MANAGED).start;
        assert!(is_of_all(managed) && !is_of_all(far.start));
        assert_eq!(of_range(contract::MANAGED), Ok(Use::Managed));
        for host in [contract::HOST, contract::WINDOW, contract::SHARED] {
            assert!(of_range(host).is_err(), "{host}");
        }
    }
}
