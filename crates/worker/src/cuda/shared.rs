//! Memory that the program on this host and its worker both have mapped, at one address: the device
//! copies from and to the program's own pages, and kernels reach them.

use super::completer::Then;
use super::copy::here;
use super::{Cuda, attempt, check};
use crate::shared::Offers;
use busbar_abi::cuda::*;
use busbar_transport::shared::Segment;
use busbar_wire::WireError;
use busbar_wire::generated::cuda::{self as msg, contract};
use busbar_wire::record::Header;
use std::collections::BTreeMap;

/// Where the client puts such memory: a range that the driver has no part in.
const RANGE: std::ops::Range<u64> = contract::span(contract::SHARED);
const PAGE: u64 = 4096;
/// Segments of one session: each is a mapping, of which a process may not have very many.
const MOST: usize = 16 << 10;

/// What is mapped.
pub(super) struct Shared {
    offers: Option<Offers>,
    /// Length by address.
    segments: BTreeMap<u64, u64>,
    bytes: u64,
    /// Bytes that one session may share: half of the host's.
    most_bytes: u64,
}

impl Shared {
    pub(super) fn new(offers: Option<Offers>) -> Self {
        // SAFETY: plain questions to the system.
        let (pages, size) = unsafe {
            (
                libc::sysconf(libc::_SC_PHYS_PAGES),
                libc::sysconf(libc::_SC_PAGESIZE),
            )
        };
        Self {
            offers,
            segments: BTreeMap::new(),
            bytes: 0,
            most_bytes: pages.max(0) as u64 * size.max(0) as u64 / 2,
        }
    }

    /// Whether all of these bytes are in one segment.
    fn holds(&self, p: u64, len: u64) -> bool {
        let found = self.segments.range(..=p).next_back();
        found.is_some_and(|(at, n)| p - at < *n && len <= n - (p - at))
    }

    /// Maps what was handed over under a number.
    fn map(&mut self, va: u64, size: u64, number: u64) -> Result<(), CUresult> {
        let offers = self.offers.as_ref().ok_or(CUDA_ERROR_NOT_SUPPORTED)?;
        let (memory, len) = offers.take(number).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let whole = size > 0 && size <= len && (va | size).is_multiple_of(PAGE);
        if !whole || !RANGE.contains(&va) || size > RANGE.end - va {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if self.segments.len() >= MOST || self.bytes + size > self.most_bytes {
            return Err(CUDA_ERROR_OUT_OF_MEMORY);
        }
        // Nothing is replaced, be it ours or the driver's.
        memory.map(va, size).map_err(|_| CUDA_ERROR_OUT_OF_MEMORY)?;
        self.segments.insert(va, size);
        self.bytes += size;
        Ok(())
    }

    fn unmap(&mut self, va: u64) {
        if let Some(size) = self.segments.remove(&va) {
            self.bytes -= size;
            // SAFETY: mapped above, and neither the driver nor a copy uses it any more.
            unsafe { Segment::unmap(va, size) };
        }
    }
}

/// Makes mapped memory known to the driver. The program was promised that the device has it at the
/// same address.
fn register(d: &Driver, va: u64, size: u64) -> Result<(), CUresult> {
    const PORTABLE: u32 = 1;
    const MAPPED: u32 = 2;
    let mut there: CUdeviceptr = 0;
    // SAFETY: memory that stays mapped until it is unregistered, and a pointer to a live address.
    unsafe {
        let p = va as *mut std::ffi::c_void;
        check(d.cuMemHostRegister_v2(p, size as usize, PORTABLE | MAPPED))?;
        let known = check(d.cuMemHostGetDevicePointer_v2(&mut there, p, 0));
        if known.is_err() || there != va {
            d.cuMemHostUnregister(p);
            known?;
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
    }
    Ok(())
}

pub(super) fn share_host(w: &mut Cuda, h: &Header, m: msg::ShareHost) -> Result<(), WireError> {
    let rc = attempt(|| {
        w.shared.map(m.va, m.size, m.number)?;
        register(w.driver, m.va, m.size).inspect_err(|_| w.shared.unmap(m.va))
    });
    w.reply(h, rc, |_| {});
    Ok(())
}

pub(super) fn unshare_host(w: &mut Cuda, h: &Header, m: msg::UnshareHost) -> Result<(), WireError> {
    let rc = attempt(|| {
        if w.shared.segments.get(&m.va) != Some(&m.size) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // Copies and kernels that use it are waited for; those of a lost context are over.
        let _ = super::memory::settle(w);
        // SAFETY: memory that was registered. With its context the registration may be gone
        // already.
        unsafe { w.driver.cuMemHostUnregister(m.va as *mut _) };
        w.shared.unmap(m.va);
        Ok(())
    });
    w.done(h, rc);
    Ok(())
}

pub(super) fn copy_shared(w: &mut Cuda, h: &Header, m: msg::CopyShared) -> Result<(), WireError> {
    let (stream, ctx) = here(w, h, m.stream);
    let rc = attempt(|| {
        w.stream(m.stream)?;
        let (d, n) = (w.driver, m.len as usize);
        // SAFETY: the side on the host lies in a segment, which stays mapped and, since records run
        // in order, outlives the copy; the other is no address of this process, as far as it goes
        // the driver checks it.
        check(unsafe {
            if w.shared.holds(m.src, m.len) {
                d.cuMemcpyHtoDAsync_v2(w.address(m.dst)?, m.src as *const _, n, stream)
            } else if w.shared.holds(m.dst, m.len) {
                d.cuMemcpyDtoHAsync_v2(m.dst as *mut _, w.address(m.src)?, n, stream)
            } else {
                CUDA_ERROR_INVALID_VALUE
            }
        })
    });
    match (h.call, rc) {
        (0, rc) => w.done(h, rc),
        (call, CUDA_SUCCESS) => w.completer.after(stream, ctx, Then::Reply { call }),
        (call, rc) => w.completer.now(rc, Then::Reply { call }),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_control::hello::SHARED_PROOF;
    use busbar_transport::shared::hand_over;

    const VA: u64 = RANGE.start + (5 << 30);

    #[test]
    fn only_what_was_handed_over_is_mapped_and_only_where_it_belongs() {
        let offers = Offers::open("s").unwrap();
        let name = offers.name().to_string();
        let segment = Segment::new(4 * PAGE).unwrap();
        let proof = blake3::derive_key(SHARED_PROOF, b"s");
        let give = |number| hand_over(&name, number, 4 * PAGE, &proof, &segment).unwrap();
        let mut s = Shared::new(Some(offers));
        assert_eq!(
            s.map(VA, PAGE, 1),
            Err(CUDA_ERROR_INVALID_VALUE),
            "never given"
        );
        let wrong = [
            (VA, 5 * PAGE),
            (VA + 1, PAGE),
            (VA, PAGE + 1),
            (VA, 0),
            (RANGE.start - PAGE, PAGE),
            (RANGE.end - PAGE, 2 * PAGE),
            (u64::MAX - PAGE + 1, PAGE),
        ];
        for (i, (va, size)) in wrong.into_iter().enumerate() {
            give(i as u64);
            let refused = s.map(va, size, i as u64);
            assert_eq!(refused, Err(CUDA_ERROR_INVALID_VALUE), "{va:#x} {size:#x}");
        }
        give(10);
        assert_eq!(s.map(VA, 4 * PAGE, 10), Ok(()));
        give(11);
        let taken = s.map(VA + 3 * PAGE, PAGE, 11);
        assert_eq!(
            taken,
            Err(CUDA_ERROR_OUT_OF_MEMORY),
            "there is something already"
        );
        assert!(s.holds(VA, 4 * PAGE) && s.holds(VA + 5, 4 * PAGE - 5));
        assert!(!s.holds(VA, 4 * PAGE + 1) && !s.holds(VA - 1, 2) && !s.holds(VA, u64::MAX));
        s.unmap(VA);
        assert!(!s.holds(VA, 1) && s.bytes == 0);
    }

    #[test]
    fn a_session_shares_no_more_than_it_may() {
        let offers = Offers::open("s").unwrap();
        let name = offers.name().to_string();
        let mut s = Shared::new(Some(offers));
        let size = s.most_bytes.next_multiple_of(PAGE) + PAGE;
        let segment = Segment::new(size).unwrap();
        let proof = blake3::derive_key(SHARED_PROOF, b"s");
        hand_over(&name, 1, size, &proof, &segment).unwrap();
        assert_eq!(
            s.map(VA + (1 << 36), size, 1),
            Err(CUDA_ERROR_OUT_OF_MEMORY)
        );
    }
}
