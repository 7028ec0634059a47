//! Arrays: what they take of the device's memory.

use super::prelude::*;
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

/// Bytes of an array with so many levels.
fn bytes(d: &CUDA_ARRAY3D_DESCRIPTOR, levels: u32) -> u64 {
    if d.Flags & WITHOUT_MEMORY != 0 {
        return 0;
    }
    let bits = bits(d.Format, d.NumChannels);
    let layers = d.Flags & (LAYERED | CUBEMAP) != 0;
    let level = |l: u32| {
        let at = |n: usize| (n as u64).checked_shr(l).unwrap_or(0).max(1);
        let depth = if layers {
            (d.Depth as u64).max(1)
        } else {
            at(d.Depth)
        };
        let texels = at(d.Width).saturating_mul(at(d.Height));
        texels
            .saturating_mul(depth)
            .saturating_mul(bits)
            .div_ceil(8)
    };
    (0..levels.clamp(1, 32)).fold(0, |n: u64, l| n.saturating_add(level(l)))
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
    let charge = w.charge(Use::Array, w.current_device(), bytes(shape, levels))?;
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
        assert_eq!(bytes(&shape([10, 0, 0], FLOAT, 4, 0), 1), 160);
        assert_eq!(bytes(&shape([10, 3, 0], 1, 1, 0), 1), 30);
        assert_eq!(bytes(&shape([4, 4, 5], 0x10, 2, 0), 1), 320);
        assert_eq!(
            bytes(&shape([16, 16, 0], 0x91, 4, 0), 1),
            128,
            "blocks of 8 bytes"
        );
        let full = shape([8, 8, 8], FLOAT, 1, 0);
        assert_eq!(bytes(&full, 4), 4 * (512 + 64 + 8 + 1));
        // Layers are not halved.
        assert_eq!(
            bytes(&shape([8, 8, 6], FLOAT, 1, LAYERED), 2),
            4 * 6 * (64 + 16)
        );
        assert_eq!(bytes(&shape([8, 8, 6], FLOAT, 1, 0x40), 2), 0);
        let huge = shape([usize::MAX, 2, 2], FLOAT, 4, 0);
        assert!(bytes(&huge, u32::MAX) >= u64::MAX / 8, "and no overflow");
    }
}
