//! Memory that the program on this host and its worker both have mapped, at one address: the device
//! copies from and to the program's own pages, and kernels reach them.

use super::completer::Then;
use super::copy::here;
use super::{Cuda, attempt, check};
use crate::shared::Offers;
use busbar_abi::cuda::*;
use busbar_transport::shared::Segment;
use busbar_wire::WireError;
use busbar_wire::generated::cuda as msg;
use busbar_wire::record::Header;
use std::collections::BTreeMap;

/// Where the client puts such memory: a range that the driver has no part in.
const RANGE: std::ops::Range<u64> = 0x5300_0000_0000..0x5400_0000_0000;
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
        // SAFETY: no arguments, then memory that was registered; copies and kernels that use it are
        // waited for. With its context the registration may be gone already.
        unsafe {
            w.driver.cuCtxSynchronize();
            w.driver.cuMemHostUnregister(m.va as *mut _);
        }
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
        // in order, outlives the copy; the driver checks the other.
        check(unsafe {
            if w.shared.holds(m.src, m.len) {
                d.cuMemcpyHtoDAsync_v2(m.dst, m.src as *const _, n, stream)
            } else if w.shared.holds(m.dst, m.len) {
                d.cuMemcpyDtoHAsync_v2(m.dst as *mut _, m.src, n, stream)
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
