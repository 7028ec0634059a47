//! Stream-ordered memory.

use super::{Cuda, attempt, check};
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::codec::Message;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::record::Header;

pub(super) fn pool_alloc(w: &mut Cuda, h: &Header, m: msg::PoolAlloc) -> Result<(), WireError> {
    let mut va: CUdeviceptr = 0;
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        let size = m.size as usize;
        if m.pool == 0 {
            // SAFETY: a live stream and a pointer to a live address.
            return check(unsafe { w.driver.cuMemAllocAsync(&mut va, size, stream) });
        }
        let pool = w.handle(Kind::MemoryPool, m.pool)? as CUmemoryPool;
        // SAFETY: as above, and a live pool.
        check(unsafe {
            w.driver
                .cuMemAllocFromPoolAsync(&mut va, size, pool, stream)
        })
    });
    w.reply(h, rc, |wr| msg::PoolAllocReply { va }.encode(wr));
    Ok(())
}

pub(super) fn pool_free(w: &mut Cuda, h: &Header, m: msg::PoolFree) -> Result<(), WireError> {
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        // SAFETY: an address that the driver checks, and a live stream.
        check(unsafe { w.driver.cuMemFreeAsync(m.va, stream) })
    });
    w.done(h, rc);
    Ok(())
}

pub(super) fn pool_free_now(
    w: &mut Cuda,
    h: &Header,
    m: msg::PoolFreeNow,
) -> Result<(), WireError> {
    // SAFETY: an address that the driver checks.
    let rc = unsafe { w.driver.cuMemFree_v2(m.va) };
    w.reply(h, rc, |_| {});
    Ok(())
}

pub(super) fn pool_of_device(
    w: &mut Cuda,
    h: &Header,
    m: msg::PoolOfDevice,
) -> Result<(), WireError> {
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
        w.store(Kind::MemoryPool, m.pool, pool as u64);
        Ok(())
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
        props.location.id = w.device(props.location.id as i32)? as _;
        let mut pool: CUmemoryPool = std::ptr::null_mut();
        // SAFETY: pointers to live values.
        check(unsafe { w.driver.cuMemPoolCreate(&mut pool, &props) })?;
        w.store(Kind::MemoryPool, m.pool, pool as u64);
        Ok(())
    });
    w.reply(h, rc, |_| {});
    Ok(())
}
