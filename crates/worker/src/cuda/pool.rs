//! Stream-ordered memory.

use super::{Cuda, attempt, check};
use crate::memory::Use;
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::codec::Message;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::record::Header;

/// Whether a stream captures.
fn captures(w: &Cuda, stream: CUstream) -> bool {
    let mut status = CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: a live stream and a pointer to a live number.
    !w.captures.is_empty()
        && unsafe { w.driver.cuStreamIsCapturing(stream, &mut status) } == CUDA_SUCCESS
        && status != CU_STREAM_CAPTURE_STATUS_NONE
}

pub(super) fn pool_alloc(w: &mut Cuda, h: &Header, m: msg::PoolAlloc) -> Result<(), WireError> {
    let mut va: CUdeviceptr = 0;
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        let size = m.size as usize;
        let pool = match m.pool {
            0 => None,
            id => Some(w.handle(Kind::MemoryPool, id)? as CUmemoryPool),
        };
        // What a capture allocates is its graph's.
        let captured = captures(w, stream);
        w.graphs.allocate |= captured;
        let charge = w.charge(Use::Pool, if captured { 0 } else { m.size })?;
        // SAFETY: a live stream, a live pool if there is one, and a pointer to a live address.
        check(unsafe {
            match pool {
                None => w.driver.cuMemAllocAsync(&mut va, size, stream),
                Some(p) => w.driver.cuMemAllocFromPoolAsync(&mut va, size, p, stream),
            }
        })?;
        w.given.memory(va, m.size);
        if !captured {
            w.pooled.insert(va, (h.aux, charge));
        }
        Ok(())
    });
    w.reply(h, rc, |wr| msg::PoolAllocReply { va }.encode(wr));
    Ok(())
}

pub(super) fn pool_free(w: &mut Cuda, h: &Header, m: msg::PoolFree) -> Result<(), WireError> {
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        let va = w.address(m.va)?;
        // SAFETY: an address that the driver checks, and a live stream.
        check(unsafe { w.driver.cuMemFreeAsync(va, stream) })?;
        w.pooled.remove(&va);
        Ok(())
    });
    w.done(h, rc);
    Ok(())
}

pub(super) fn pool_free_now(
    w: &mut Cuda,
    h: &Header,
    m: msg::PoolFreeNow,
) -> Result<(), WireError> {
    let rc = attempt(|| {
        let va = w.address(m.va)?;
        // SAFETY: an address that the driver checks.
        check(unsafe { w.driver.cuMemFree_v2(va) })?;
        w.pooled.remove(&va);
        Ok(())
    });
    w.reply(h, rc, |_| {});
    Ok(())
}

pub(super) fn pool_of_device(
    w: &mut Cuda,
    h: &Header,
    m: msg::PoolOfDevice,
) -> Result<(), WireError> {
    let mut id = 0;
    let rc = attempt(|| {
        let dev = w.device(m.device)?;
        let mut pool: CUmemoryPool = std::ptr::null_mut();
        // SAFETY: a pointer to a live handle.
        check(unsafe {
            if m.default != 0 {
                w.driver.cuDeviceGetDefaultMemPool(&mut pool, dev)
            } else {
                w.driver.cuDeviceGetMemPool(&mut pool, dev)
            }
        })?;
        id = w.adopt(Kind::MemoryPool, pool as u64, &[]);
        Ok(())
    });
    w.reply(h, rc, |wr| msg::PoolOfDeviceReply { pool: id }.encode(wr));
    Ok(())
}

/// Attributes that are an int; the others are 64 bits wide.
fn is_int(attribute: u32) -> bool {
    const REUSE_INTERNAL: u32 = CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
    attribute <= REUSE_INTERNAL
}

pub(super) fn pool_attribute(
    w: &mut Cuda,
    h: &Header,
    m: msg::PoolAttribute,
) -> Result<(), WireError> {
    // Room for either width: an int fills the lower half.
    let mut value = 0u64;
    let rc = attempt(|| {
        let pool = w.handle(Kind::MemoryPool, m.pool)? as CUmemoryPool;
        let p = (&raw mut value).cast();
        // SAFETY: a live pool, and room for any attribute.
        check(unsafe { w.driver.cuMemPoolGetAttribute(pool, m.attribute, p) })
    });
    w.reply(h, rc, |wr| msg::PoolAttributeReply { value }.encode(wr));
    Ok(())
}

pub(super) fn pool_set_attribute(
    w: &mut Cuda,
    h: &Header,
    m: msg::PoolSetAttribute,
) -> Result<(), WireError> {
    let rc = attempt(|| {
        let pool = w.handle(Kind::MemoryPool, m.pool)? as CUmemoryPool;
        let (mut wide, mut int) = (m.value, m.value as u32);
        let p = if is_int(m.attribute) {
            (&raw mut int).cast()
        } else {
            (&raw mut wide).cast()
        };
        // SAFETY: a live pool, and a value as wide as the attribute.
        check(unsafe { w.driver.cuMemPoolSetAttribute(pool, m.attribute, p) })
    });
    w.reply(h, rc, |_| {});
    Ok(())
}

pub(super) fn pool_create(
    w: &mut Cuda,
    h: &Header,
    m: msg::PoolCreate<'_>,
) -> Result<(), WireError> {
    let mut props: CUmemPoolProps =
        busbar_abi::from_bytes(m.props).ok_or(WireError::BadValue("structure"))?;
    let rc = attempt(|| {
        w.locate(&mut props.location)?;
        props.win32SecurityAttributes = std::ptr::null_mut();
        let mut pool: CUmemoryPool = std::ptr::null_mut();
        // SAFETY: pointers to live values.
        check(unsafe { w.driver.cuMemPoolCreate(&mut pool, &props) })?;
        w.made(h, &m, pool as u64);
        Ok(())
    });
    w.reply(h, rc, |_| {});
    Ok(())
}
