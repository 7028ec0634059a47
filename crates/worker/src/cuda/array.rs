//! Arrays: what they take of the device's memory.

use super::prelude::*;
use super::taken::BLOCK;
use crate::answer::items;
use crate::memory::in_pieces;
use crate::objects::Creates;

const LAYERED: u32 = 0x01;
const CUBEMAP: u32 = 0x04;
/// Sparse ones, and those that are mapped later: their memory comes from elsewhere.
const WITHOUT_MEMORY: u32 = 0x40 | 0x80;

/// Bits of a texel. Formats that are not known here are taken for wide ones.
fn bits(format: CUarray_format, channels: u32) -> u64 {
    let of_channel = match format {
        0x01 | 0x08 | 0xc0..=0xc2 | 0xc6..=0xc8 => 8,
        0x02 | 0x09 | 0x10 | 0xc3..=0xc5 | 0xc9..=0xcb => 16,
        // Blocks of 16 texels.
        0x91 | 0x92 | 0x97 | 0x98 => return 4,
        0x93..=0x96 | 0x99..=0x9e => return 8,
        0xb0 => return 12,
        _ => 32,
    };
    // The formats whose names say how many channels they have say it here, too.
    of_channel * u64::from(channels.clamp(1, 4))
}

/// Bytes of an array with so many levels: as its shape says, and as many as a device may take at
/// most for what that is laid out in.
fn bytes(d: &CUDA_ARRAY3D_DESCRIPTOR, levels: u32) -> (u64, u64) {
    if d.Flags & WITHOUT_MEMORY != 0 {
        return (0, 0);
    }
    let bits = bits(d.Format, d.NumChannels);
    let layers = d.Flags & (LAYERED | CUBEMAP) != 0;
    let (mut exact, mut most) = (0u64, 0u64);
    for l in 0..levels.clamp(1, 32) {
        let at = |n: usize| (n as u64).checked_shr(l).unwrap_or(0).max(1);
        let (width, height) = (at(d.Width), at(d.Height));
        let depth = match layers {
            true => (d.Depth as u64).max(1),
            false => at(d.Depth),
        };
        let texels = width.saturating_mul(height).saturating_mul(depth);
        exact = exact.saturating_add(texels.saturating_mul(bits).div_ceil(8));
        let row = in_pieces(width.saturating_mul(bits).div_ceil(8), ROW);
        let rows = in_blocks(height, ROWS);
        let planes = if layers {
            depth
        } else {
            in_blocks(depth, PLANES)
        };
        most = most.saturating_add(row.saturating_mul(rows).saturating_mul(planes));
    }
    (exact, in_pieces(most, BLOCK))
}

/// Rows are laid out in pieces of so many bytes, in blocks of up to so many rows and planes.
const ROW: u64 = 64;
const ROWS: u64 = 128;
const PLANES: u64 = 32;

/// Rounded up to blocks of what there is, but no larger ones than that.
fn in_blocks(n: u64, largest: u64) -> u64 {
    let block = n.checked_next_power_of_two().unwrap_or(largest);
    in_pieces(n, block.min(largest))
}

fn destroy_array(d: &Driver, raw: u64) {
    // SAFETY: a live array, which nobody knows of.
    unsafe { d.cuArrayDestroy(raw as CUarray) };
}

fn destroy_levels(d: &Driver, raw: u64) {
    // SAFETY: as above.
    unsafe { d.cuMipmappedArrayDestroy(raw as CUmipmappedArray) };
}

/// Makes an array of so many levels.
fn create(
    w: &mut Cuda,
    m: &impl Creates<Kind>,
    (shape, levels): (&CUDA_ARRAY3D_DESCRIPTOR, u32),
    make: impl FnOnce(&Driver, &mut u64) -> CUresult,
    destroy: fn(&Driver, u64),
) -> Result<(), Fail> {
    let (bytes, most) = bytes(shape, levels);
    let charge = w.charge_of(Use::Array, w.current_device(), bytes, most)?;
    let mut raw = 0;
    check(make(w.driver, &mut raw))?;
    // Its rows and layers are as far apart as the device likes.
    w.afford(|d| destroy(d, raw))?;
    w.made_of(m, raw, charge);
    Ok(())
}

pub fn cu_array_create_v2(w: &mut Cuda, m: msg::CuArrayCreateV2) -> Result<(), Fail> {
    let d: CUDA_ARRAY_DESCRIPTOR = plain(&m.p_allocate_array)?;
    let mut shape: CUDA_ARRAY3D_DESCRIPTOR = busbar_abi::zeroed();
    (shape.Width, shape.Height) = (d.Width, d.Height);
    (shape.Format, shape.NumChannels) = (d.Format, d.NumChannels);
    let make = |driver: &Driver, raw: &mut u64| {
        // SAFETY: pointers to live values.
        unsafe { driver.cuArrayCreate_v2((&raw mut *raw).cast(), &d) }
    };
    create(w, &m, (&shape, 1), make, destroy_array)
}

pub fn cu_array3_d_create_v2(w: &mut Cuda, m: msg::CuArray3DCreateV2) -> Result<(), Fail> {
    let d: CUDA_ARRAY3D_DESCRIPTOR = plain(&m.p_allocate_array)?;
    let make = |driver: &Driver, raw: &mut u64| {
        // SAFETY: as above.
        unsafe { driver.cuArray3DCreate_v2((&raw mut *raw).cast(), &d) }
    };
    create(w, &m, (&d, 1), make, destroy_array)
}

pub fn cu_mipmapped_array_create(w: &mut Cuda, m: msg::CuMipmappedArrayCreate) -> Result<(), Fail> {
    let d: CUDA_ARRAY3D_DESCRIPTOR = plain(&m.p_mipmapped_array_desc)?;
    let levels = m.num_mipmap_levels;
    let make = |driver: &Driver, raw: &mut u64| {
        // SAFETY: as above.
        unsafe { driver.cuMipmappedArrayCreate((&raw mut *raw).cast(), &d, levels) }
    };
    create(w, &m, (&d, levels), make, destroy_levels)
}

/// The memory that tiles get counts for as long as the array is there, if not for longer: which
/// of it is taken from the array again nobody says.
pub fn arrays_map(w: &mut Cuda, m: msg::ArraysMap<'_>) -> Result<(), Fail> {
    let mut list: Vec<CUarrayMapInfo> = items(m.list)?;
    let mut charges = Vec::new();
    let id = |n: u64| u32::try_from(n).map_err(|_| CUDA_ERROR_INVALID_HANDLE);
    for entry in &mut list {
        let kind = match entry.resourceType {
            CU_RESOURCE_TYPE_ARRAY => Kind::Array,
            CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => Kind::MipmappedArray,
            _ => return Err(CUDA_ERROR_INVALID_VALUE.into()),
        };
        let array = id(entry.resource[0])?;
        entry.resource[0] = w.handle(kind, array)?;
        // No other kind of memory has ids.
        entry.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
        match entry.memOperationType {
            CU_MEM_OPERATION_TYPE_MAP => {
                let memory = id(entry.memHandle[0])?;
                entry.memHandle[0] = w.handle(Kind::Allocation, memory)?;
                let charge = w.handles.charged((Kind::Allocation, memory)).cloned();
                charges.extend(charge.map(|c| ((kind, array), memory, c)));
            }
            _ => entry.memHandle[0] = 0,
        }
    }
    let stream = w.stream(m.stream)?;
    let count = u32::try_from(list.len()).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: live handles, and as many structures as are said.
    check(unsafe { w.cuMemMapArrayAsync(list.as_mut_ptr(), count, stream as CUstream) })?;
    for (array, memory, charge) in charges {
        // Its own is of sort 0.
        w.handles.charge(array, memory.saturating_add(1), charge);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(size: [usize; 3], format: u32, channels: u32, flags: u32) -> CUDA_ARRAY3D_DESCRIPTOR {
        let mut d: CUDA_ARRAY3D_DESCRIPTOR = busbar_abi::zeroed();
        [d.Width, d.Height, d.Depth] = size;
        (d.Format, d.NumChannels, d.Flags) = (format as _, channels, flags);
        d
    }

    #[test]
    fn an_array_takes_what_its_texels_take() {
        const FLOAT: u32 = 0x20;
        assert_eq!(bytes(&shape([10, 0, 0], FLOAT, 4, 0), 1).0, 160);
        assert_eq!(bytes(&shape([10, 3, 0], 1, 1, 0), 1).0, 30);
        assert_eq!(bytes(&shape([4, 4, 5], 0x10, 2, 0), 1).0, 320);
        assert_eq!(
            bytes(&shape([16, 16, 0], 0x91, 4, 0), 1).0,
            128,
            "blocks of 8 bytes"
        );
        let full = shape([8, 8, 8], FLOAT, 1, 0);
        assert_eq!(bytes(&full, 4).0, 4 * (512 + 64 + 8 + 1));
        // Layers are not halved.
        assert_eq!(
            bytes(&shape([8, 8, 6], FLOAT, 1, LAYERED), 2).0,
            4 * 6 * (64 + 16)
        );
        assert_eq!(bytes(&shape([8, 8, 6], FLOAT, 1, 0x40), 2).0, 0);
        // What it is laid out in is more, and never less.
        assert_eq!(bytes(&full, 4).1, BLOCK);
        let flat = bytes(&shape([1, 65536, 0], 1, 1, 0), 1);
        assert_eq!(flat, (65536, 2 * BLOCK));
        let cube = bytes(&shape([64, 100, 33], 1, 1, 0), 1);
        assert_eq!(cube, (64 * 100 * 33, BLOCK));
        let huge = shape([usize::MAX, 2, 2], FLOAT, 4, 0);
        assert!(bytes(&huge, u32::MAX).0 >= u64::MAX / 8, "and no overflow");
    }
}
