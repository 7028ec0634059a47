//! Managed memory: allocation, hints, prefetch, attachment. How both sides see it is the business
//! of [`crate::cuda::state::shadows`].

use super::prelude::*;
use crate::cuda::engine::{host_pool, managed, stream};
use crate::cuda::state::advice::{CPU, NOWHERE, Place, common};
use crate::cuda::state::area::{Area, Attach};
use crate::cuda::state::ranges::{Range, Sort};

const ATTACH_GLOBAL: u32 = 1;
const ATTACH_HOST: u32 = 2;
const ATTACH_SINGLE: u32 = 4;

/// The managed allocation that holds all of a range.
fn range(cx: Cx, p: u64, len: usize) -> Result<Range> {
    cx.state()
        .ranges
        .find(p)
        .filter(|r| r.sort == Sort::Managed && r.holds(p, len))
        .ok_or(CUDA_ERROR_INVALID_VALUE)
}

/// A device, or the host.
pub fn place_of(cx: Cx, dev: CUdevice) -> Result<Place> {
    if dev != CPU {
        cx.device(dev)?;
    }
    Ok(Place::of(dev))
}

pub fn place_at(cx: Cx, l: &CUmemLocation) -> Result<Place> {
    match l.r#type {
        CU_MEM_LOCATION_TYPE_DEVICE => cx.device(l.id).map(drop)?,
        CU_MEM_LOCATION_TYPE_HOST
        | CU_MEM_LOCATION_TYPE_HOST_NUMA
        | CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => {}
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    }
    Ok(Place {
        kind: l.r#type,
        id: l.id,
    })
}

/// A place that advice names.
pub fn advised_at(cx: Cx, l: &CUmemLocation) -> Result<Place> {
    place_at(cx, l).map_err(|_| CUDA_ERROR_INVALID_VALUE)
}

pub fn advise(
    cx: Cx,
    p: u64,
    len: usize,
    advice: CUmem_advise,
    place: impl Fn() -> Result<Place>,
) -> Result<()> {
    refuse_if(len == 0, CUDA_ERROR_INVALID_VALUE)?;
    let r = range(cx, p, len)?;
    refuse_if(host_pool::is_managed(&r), CUDA_ERROR_NOT_SUPPORTED)?;
    let place = match advice {
        CU_MEM_ADVISE_SET_PREFERRED_LOCATION
        | CU_MEM_ADVISE_SET_ACCESSED_BY
        | CU_MEM_ADVISE_UNSET_ACCESSED_BY => Some(place()?),
        CU_MEM_ADVISE_SET_READ_MOSTLY
        | CU_MEM_ADVISE_UNSET_READ_MOSTLY
        | CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION => None,
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    };
    let device = place.map_or(NOWHERE, Place::device);
    lock(&cx.state().advised).change(p, len as u64, |a| match advice {
        CU_MEM_ADVISE_SET_READ_MOSTLY => a.read_mostly = true,
        CU_MEM_ADVISE_UNSET_READ_MOSTLY => a.read_mostly = false,
        CU_MEM_ADVISE_SET_ACCESSED_BY => _ = a.accessed_by.insert(device),
        CU_MEM_ADVISE_UNSET_ACCESSED_BY => _ = a.accessed_by.remove(&device),
        _ => a.preferred = place,
    });
    Ok(())
}

/// Prefetches to the device push at once. Those to the host make the program's next access, which
/// is when the bytes are known to be final, fetch in large pieces.
pub fn prefetch(cx: Cx, p: u64, len: usize, place: Place, stream: u32) -> Result<()> {
    refuse_if(len == 0, CUDA_ERROR_INVALID_VALUE)?;
    range(cx, p, len)?;
    stream::not_captured(cx, stream)?;
    let to_host = place.device() == CPU;
    lock(&cx.state().advised).change(p, len as u64, |a| a.prefetched = Some(place));
    let eager = |a: &mut Area| a.eager = to_host;
    cx.state().shadows.areas().each(p, len as u64, eager);
    if to_host {
        Ok(())
    } else {
        cx.push_written(false)
    }
}

/// The ranges of a batch, all of them managed.
unsafe fn ranges(
    cx: Cx,
    p: *mut CUdeviceptr,
    sizes: *mut usize,
    n: usize,
) -> Result<Vec<(u64, usize)>> {
    refuse_if(p.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(sizes.is_null() || n == 0, CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program's arrays of `n` items.
    let all = (0..n).map(|i| unsafe { (p.add(i).read(), sizes.add(i).read()) });
    all.map(|(p, len)| range(cx, p, len).map(|_| (p, len)))
        .collect()
}

/// Writes an attribute of a range into the program's memory.
pub unsafe fn range_attribute(
    cx: Cx,
    data: *mut c_void,
    size: usize,
    which: CUmem_range_attribute,
    p: u64,
    len: usize,
) -> Result<()> {
    cx.need_context()?;
    refuse_if(data.is_null() || len == 0, CUDA_ERROR_INVALID_VALUE)?;
    range(cx, p, len)?;
    let all = lock(&cx.state().advised).of(p, len as u64);
    let preferred = common(all.iter().map(|a| a.preferred));
    let prefetched = common(all.iter().map(|a| a.prefetched));
    let device = |place: Option<Place>| place.map_or(NOWHERE, Place::device);
    let kind = |place: Option<Place>| place.map_or(CU_MEM_LOCATION_TYPE_INVALID, |p| p.kind) as i32;
    let id = |place: Option<Place>| place.map_or(0, |p| p.id);
    let value = match which {
        CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY => i32::from(all.iter().all(|a| a.read_mostly)),
        CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION => device(preferred),
        CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION => device(prefetched),
        CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE => kind(preferred),
        CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID => id(preferred),
        CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE => kind(prefetched),
        CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID => id(prefetched),
        CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY if size >= 4 && size.is_multiple_of(4) => {
            let (first, rest) = all.split_first().ok_or(CUDA_ERROR_INVALID_VALUE)?;
            let everywhere = |d: &&i32| rest.iter().all(|a| a.accessed_by.contains(d));
            let mut who: Vec<i32> = first
                .accessed_by
                .iter()
                .filter(everywhere)
                .copied()
                .collect();
            // Devices come first, the processor last.
            who.sort_by_key(|device| (*device < 0, *device));
            let list = who.into_iter().chain(std::iter::repeat(NOWHERE));
            for (i, v) in list.take(size / 4).enumerate() {
                // SAFETY: the program's array of `size` bytes.
                unsafe { data.cast::<i32>().add(i).write_unaligned(v) };
            }
            return Ok(());
        }
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    };
    refuse_if(size != 4, CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program's place of `size` bytes.
    unsafe { put(data.cast(), value) }
}

pub fn cuMemAllocManaged(cx: Cx, size: usize, flags: u32) -> Result<CUdeviceptr> {
    cx.home()?;
    if size == 0 || !matches!(flags, ATTACH_GLOBAL | ATTACH_HOST) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let at = managed::alloc(cx, size as u64, flags)?;
    if flags == ATTACH_HOST {
        attach(cx, (at, size as u64), Attach::Host);
    }
    Ok(at as CUdeviceptr)
}

pub fn cuMemPrefetchAsync_v2(
    cx: Cx,
    p: CUdeviceptr,
    len: usize,
    location: CUmemLocation,
    flags: u32,
    stream: u32,
) -> Result<()> {
    refuse_if(flags != 0, CUDA_ERROR_INVALID_VALUE)?;
    prefetch(cx, p, len, place_at(cx, &location)?, stream)
}

#[expect(clippy::too_many_arguments, reason = "the API's own")]
pub unsafe fn cuMemPrefetchBatchAsync(
    cx: Cx,
    p: *mut CUdeviceptr,
    sizes: *mut usize,
    n: usize,
    locations: *mut CUmemLocation,
    indices: *mut usize,
    n_locations: usize,
    flags: u64,
    stream: CUstream,
    per_thread: bool,
) -> Result<()> {
    let stream = cx.stream(stream, per_thread)?;
    let cx = cx.at_stream(stream);
    // SAFETY: the program's arrays.
    let all = unsafe { ranges(cx, p, sizes, n)? };
    let bad = flags != 0 || locations.is_null() || indices.is_null();
    refuse_if(bad || n_locations == 0, CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program's array.
    let begins = unsafe { std::slice::from_raw_parts(indices, n_locations) };
    // SAFETY: as above.
    let locations = unsafe { std::slice::from_raw_parts(locations, n_locations) };
    // A location holds from its index on, up to the next one's.
    let good = begins[0] == 0 && begins.is_sorted_by(|a, b| a < b);
    let good = good && begins.iter().all(|begin| *begin < n);
    refuse_if(!good, CUDA_ERROR_INVALID_VALUE)?;
    for (i, (p, len)) in all.into_iter().enumerate() {
        let at = begins.partition_point(|begin| *begin <= i) - 1;
        let place = place_at(cx, &locations[at])?;
        prefetch(cx, p, len, place, stream)?;
    }
    Ok(())
}

pub unsafe fn cuMemDiscardBatchAsync(
    cx: Cx,
    p: *mut CUdeviceptr,
    sizes: *mut usize,
    n: usize,
    flags: u64,
    stream: CUstream,
    per_thread: bool,
) -> Result<()> {
    stream::not_captured(cx, cx.stream(stream, per_thread)?)?;
    refuse_if(flags != 0, CUDA_ERROR_INVALID_VALUE)?;
    // What is discarded may read as anything, its old bytes among them.
    // SAFETY: the program's arrays.
    unsafe { ranges(cx, p, sizes, n) }.map(drop)
}

pub unsafe fn cuMemRangeGetAttributes(
    cx: Cx,
    data: *mut *mut c_void,
    sizes: *mut usize,
    which: *mut CUmem_range_attribute,
    n: usize,
    p: CUdeviceptr,
    len: usize,
) -> Result<()> {
    refuse_if(data.is_null() || sizes.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(which.is_null() || n == 0, CUDA_ERROR_INVALID_VALUE)?;
    for i in 0..n {
        // SAFETY: the program's arrays of `n` items, and the places that they name.
        unsafe {
            range_attribute(
                cx,
                data.add(i).read(),
                sizes.add(i).read(),
                which.add(i).read(),
                p,
                len,
            )?;
        }
    }
    Ok(())
}

fn attach(cx: Cx, (at, size): (u64, u64), whose: Attach) {
    let mut areas = cx.state().shadows.areas();
    areas.each(at, size, |a| a.attach = whose);
}

pub fn cuStreamAttachMemAsync(
    cx: Cx,
    stream: u32,
    p: CUdeviceptr,
    len: usize,
    flags: u32,
) -> Result<()> {
    let r = range(cx, p, len)?;
    // All of an allocation, or nothing; 0 stands for all.
    refuse_if(p != r.base, CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(len != 0 && len as u64 != r.size, CUDA_ERROR_INVALID_VALUE)?;
    stream::not_captured(cx, stream)?;
    let whose = match flags {
        ATTACH_GLOBAL => Attach::Global,
        ATTACH_HOST => Attach::Host,
        ATTACH_SINGLE if stream != 0 => Attach::Single(stream),
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    };
    attach(cx, (r.base, r.size), whose);
    Ok(())
}
