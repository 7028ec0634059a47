//! The context that a copy is made in.
//!
//! A copy touches what the device of the *current* context may use, whichever stream it is put
//! into. Memory that is mapped where the client says is its own device's and its peers' alone, so
//! the driver would refuse copies that it makes of memory of `cuMemAlloc`, wherever that is. The
//! client has refused what the program's own driver would refuse; here each copy gets a context
//! that reaches both of its ends.

use super::driver::{has_no_capture, quietly};
use super::memory;
use super::prelude::*;

/// Where an end of a copy is.
#[derive(Clone, Copy)]
pub enum End {
    /// In this process's memory.
    Host(u64),
    /// At an address that the client has named.
    Device(u64),
}

impl End {
    fn named(self) -> Option<u64> {
        match self {
            Self::Host(_) => None,
            Self::Device(p) => Some(p),
        }
    }
}

/// How a copy is made.
enum Way {
    /// As any other.
    Here,
    /// With another context current.
    In(u64),
    /// Between these two contexts: the destination's and the source's.
    Peers([u64; 2]),
}

/// Whether a session has devices that may not reach each other's memory.
fn several(w: &Cuda) -> bool {
    w.devices.len() > 1
}

fn device(w: &Cuda) -> Result<i32> {
    let mut device = 0;
    // SAFETY: a pointer to a live number.
    check(unsafe { w.cuCtxGetDevice(&mut device) })?;
    Ok(device)
}

/// The session's contexts, each with its device.
fn contexts(w: &mut Cuda) -> Vec<(i32, u64)> {
    let all: Vec<u64> = w.handles.of(Kind::Context).collect();
    let with_device = |c| Some((w.within(c, |w| device(w)).ok()?.ok()?, c));
    all.into_iter().filter_map(with_device).collect()
}

/// Whether a copy in a context of a device may touch what lies at an address.
fn reaches(w: &Cuda, device: i32, p: u64) -> bool {
    if let Some(known) = memory::is_used_by(w, p, device) {
        return known;
    }
    let mut location = CUmemLocation {
        r#type: CU_MEM_LOCATION_TYPE_DEVICE,
        id: device,
    };
    // Asked about memory that no program has mapped, the driver says that nobody may use it.
    let before = w.physical.range(..=p).next_back();
    if before.is_some_and(|(at, m)| p - at < m.size) {
        let mut flags = 0;
        // SAFETY: pointers to live values.
        let rc = unsafe { w.cuMemGetAccess(&mut flags, &location, p) };
        return rc != CUDA_SUCCESS || flags != u64::from(CU_MEM_ACCESS_FLAGS_PROT_NONE);
    }
    let mut pool: CUmemoryPool = std::ptr::null_mut();
    let mut flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    // SAFETY: pointers to live values of the kinds that are asked for.
    quietly(|| unsafe {
        let at = (&raw mut pool).cast();
        let rc = w.cuPointerGetAttribute(at, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p);
        if rc != CUDA_SUCCESS || pool.is_null() {
            return true;
        }
        let rc = w.cuMemPoolGetAccess(&mut flags, pool, &mut location);
        rc != CUDA_SUCCESS || flags != CU_MEM_ACCESS_FLAGS_PROT_NONE
    })
}

/// A context of the session's whose device is good, and that: the context that is asked for, if its
/// device is.
fn find(w: &mut Cuda, first: u64, good: impl Fn(&Cuda, i32) -> bool) -> Option<(i32, u64)> {
    let mut all = contexts(w);
    all.sort_by_key(|(_, c)| *c != first);
    all.into_iter().find(|(d, _)| good(w, *d))
}

/// The same, of one whose device reaches some ends.
fn context_of(w: &mut Cuda, first: u64, ends: &[u64]) -> Option<u64> {
    let good = |w: &Cuda, d| ends.iter().all(|p| reaches(w, d, *p));
    find(w, first, good).map(|(_, c)| c)
}

/// The same, of one that is let in to those of the ends that its device does not reach and that are
/// no business of the program's.
fn let_in(w: &mut Cuda, first: u64, ends: &[u64]) -> Result<Option<u64>> {
    let may = |w: &Cuda, d, p| reaches(w, d, p) || memory::is_used_by(w, p, d).is_some();
    let good = |w: &Cuda, d| ends.iter().all(|p| may(w, d, *p));
    let Some((device, context)) = find(w, first, good) else {
        return Ok(None);
    };
    for p in ends {
        memory::let_in(w, device, *p)?;
    }
    Ok(Some(context))
}

fn way(w: &mut Cuda, stream: CUstream, ends: [Option<u64>; 2]) -> Result<Way> {
    if !several(w) {
        return Ok(Way::Here);
    }
    let here = device(w)?;
    if ends.iter().flatten().all(|p| reaches(w, here, *p)) {
        return Ok(Way::Here);
    }
    let ends: Vec<u64> = ends.into_iter().flatten().collect();
    if let Some(context) = context_of(w, 0, &ends) {
        return Ok(Way::In(context));
    }
    if !stream.is_null() && !has_no_capture(w.driver, stream) {
        // A copy between two contexts makes no node.
        return Ok(let_in(w, 0, &ends)?.map_or(Way::Here, Way::In));
    }
    let mut each = ends.iter().filter_map(|p| context_of(w, 0, &[*p]));
    // Where nothing is known to reach an end, the driver says so.
    Ok(match (each.next(), each.next()) {
        (Some(to), Some(from)) => Way::Peers([to, from]),
        _ => Way::Here,
    })
}

/// Makes a copy with another context current. Its default stream takes the place of that of the
/// context before, which has no name there, in the order of both.
fn within(
    w: &mut Cuda,
    context: u64,
    stream: CUstream,
    copy: impl FnOnce(&Cuda) -> CUresult,
) -> Result {
    if !stream.is_null() {
        return w.within(context, |w| check(copy(w)))?;
    }
    const DEFAULT: CUstream = std::ptr::null_mut();
    /// The end of what the current context's default stream has to do.
    fn mark(w: &Cuda) -> Result<CUevent> {
        const DISABLE_TIMING: u32 = 2;
        let mut event: CUevent = std::ptr::null_mut();
        // SAFETY: a pointer to a live handle; an event is recorded in its own context's stream.
        unsafe {
            check(w.cuEventCreate(&mut event, DISABLE_TIMING))?;
            check(w.cuEventRecord(event, DEFAULT))
                .inspect_err(|_| _ = w.cuEventDestroy_v2(event))?;
        }
        Ok(event)
    }
    /// The current context's default stream goes on behind a mark of another one's.
    fn wait(w: &Cuda, event: CUevent) -> Result {
        // SAFETY: a live event, which the driver keeps for what waits for it.
        unsafe {
            let rc = w.cuStreamWaitEvent(DEFAULT, event, 0);
            w.cuEventDestroy_v2(event);
            check(rc)
        }
    }
    let before = mark(w)?;
    let (rc, after) = w.within(context, |w| {
        wait(w, before)?;
        let rc = copy(w);
        Ok::<_, CUresult>((rc, mark(w)?))
    })??;
    wait(w, after)?;
    check(rc)
}

/// Copies bytes that lie one behind the other.
///
/// # Safety
/// An end on the host is that many bytes of this process's, and stays until the copy is done.
pub unsafe fn bytes(w: &mut Cuda, stream: CUstream, dst: End, src: End, n: usize) -> Result {
    // SAFETY: passed on to the caller; the driver checks what is a device's.
    let copy = |w: &Cuda| unsafe {
        match (dst, src) {
            (End::Device(d), End::Host(s)) => w.cuMemcpyHtoDAsync_v2(d, s as *const _, n, stream),
            (End::Host(d), End::Device(s)) => w.cuMemcpyDtoHAsync_v2(d as *mut _, s, n, stream),
            (End::Device(d), End::Device(s)) => w.cuMemcpyDtoDAsync_v2(d, s, n, stream),
            (End::Host(_), End::Host(_)) => CUDA_ERROR_INVALID_VALUE,
        }
    };
    match (way(w, stream, [dst.named(), src.named()])?, dst, src) {
        (Way::Here, ..) => check(copy(w)),
        (Way::In(context), ..) => within(w, context, stream, copy),
        (Way::Peers([to, from]), End::Device(d), End::Device(s)) => {
            // SAFETY: live contexts; the driver checks the addresses.
            check(unsafe {
                w.cuMemcpyPeerAsync(d, to as CUcontext, s, from as CUcontext, n, stream)
            })
        }
        (Way::Peers(_), ..) => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

/// The addresses of a box's ends that may be a device's.
fn named(c: &CUDA_MEMCPY3D) -> [Option<u64>; 2] {
    let on_device = |kind| matches!(kind, CU_MEMORYTYPE_DEVICE | CU_MEMORYTYPE_UNIFIED);
    [
        on_device(c.dstMemoryType).then_some(c.dstDevice),
        on_device(c.srcMemoryType).then_some(c.srcDevice),
    ]
}

/// Copies a box.
///
/// # Safety
/// As for [`bytes`]; arrays are live.
pub unsafe fn rows(w: &mut Cuda, stream: CUstream, c: &CUDA_MEMCPY3D) -> Result {
    // SAFETY: passed on to the caller.
    let copy = |w: &Cuda| unsafe { w.cuMemcpy3DAsync_v2(c, stream) };
    match way(w, stream, named(c))? {
        Way::Here => check(copy(w)),
        Way::In(context) => within(w, context, stream, copy),
        Way::Peers([to, from]) => {
            let mut p: CUDA_MEMCPY3D_PEER = busbar_abi::member(c);
            (p.dstContext, p.srcContext) = (to as CUcontext, from as CUcontext);
            // SAFETY: passed on to the caller, and live contexts.
            check(unsafe { w.cuMemcpy3DPeerAsync(&p, stream) })
        }
    }
}

/// The context that a copy between contexts names for an end, or one that reaches it in its place.
pub fn peer(w: &mut Cuda, context: u64, p: u64) -> u64 {
    let other = several(w) && context != 0;
    let found = other.then(|| context_of(w, context, &[p])).flatten();
    found.unwrap_or(context)
}

/// The context of a node that copies: the one that is asked for, if that reaches both ends.
pub fn node(w: &mut Cuda, context: CUcontext, c: &CUDA_MEMCPY3D) -> Result<CUcontext> {
    if !several(w) {
        return Ok(context);
    }
    let ends: Vec<u64> = named(c).into_iter().flatten().collect();
    if let Some(found) = context_of(w, context as u64, &ends) {
        return Ok(found as CUcontext);
    }
    let found = let_in(w, context as u64, &ends)?;
    Ok(found.map_or(context, |c| c as CUcontext))
}
