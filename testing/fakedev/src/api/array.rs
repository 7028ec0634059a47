//! The functions on arrays, textures and surfaces.

use crate::engine::copies;
use crate::entry::api;
use crate::ffi::*;
use crate::state::array::*;
use crate::state::capture;
use crate::state::stream::Flavour;

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Descriptor2D {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

/// A row of an array, or a row in plain memory.
fn row(params: &mut Memcpy3D, array: CUarray, at: usize, to: bool) {
    if to {
        (params.dst_type, params.dst_array, params.dst_x) = (MEMORYTYPE_ARRAY, array, at);
    } else {
        (params.src_type, params.src_array, params.src_x) = (MEMORYTYPE_ARRAY, array, at);
    }
}

fn one_row(n: usize) -> Memcpy3D {
    Memcpy3D {
        width: n,
        height: 1,
        depth: 1,
        ..Memcpy3D::default()
    }
}

fn from_array(array: CUarray, at: usize, kind: u32, to: u64, n: usize) -> Memcpy3D {
    let mut p = one_row(n);
    row(&mut p, array, at, false);
    (p.dst_type, p.dst_host, p.dst_device) = (kind, to as usize, to);
    p
}

fn to_array(array: CUarray, at: usize, kind: u32, from: u64, n: usize) -> Memcpy3D {
    let mut p = one_row(n);
    row(&mut p, array, at, true);
    (p.src_type, p.src_host, p.src_device) = (kind, from as usize, from);
    p
}

fn copy(p: &Memcpy3D, stream: CUstream, flavour: Flavour, wait: bool) -> Res {
    copies::copy(copies::from_3d(p)?, stream, flavour, wait)
}

api! {
    fn [cuArray3DCreate_v2] (out: *mut CUarray, descriptor: *const Descriptor) {
        capture::check_unsafe()?;
        put(out, create(get(descriptor)?, false)?)
    }

    fn [cuArrayCreate_v2] (out: *mut CUarray, descriptor: *const Descriptor2D) {
        capture::check_unsafe()?;
        let d = get(descriptor)?;
        let descriptor = Descriptor {
            width: d.width,
            height: d.height,
            depth: 0,
            format: d.format,
            channels: d.channels,
            flags: 0,
        };
        put(out, create(descriptor, false)?)
    }

    fn [cuArrayDestroy] (array: CUarray) {
        if ARRAYS.get(array)?.level {
            return Err(INVALID_HANDLE);
        }
        destroy(array)
    }

    fn [cuArray3DGetDescriptor_v2] (out: *mut Descriptor, array: CUarray) {
        put(out, ARRAYS.get(array)?.descriptor)
    }

    fn [cuArrayGetDescriptor_v2] (out: *mut Descriptor2D, array: CUarray) {
        let d = ARRAYS.get(array)?.descriptor;
        put(out, Descriptor2D {
            width: d.width,
            height: d.height,
            format: d.format,
            channels: d.channels,
        })
    }

    fn [cuMipmappedArrayCreate] (out: *mut usize, descriptor: *const Descriptor, levels: u32) {
        capture::check_unsafe()?;
        put(out, create_mipmapped(&get(descriptor)?, levels)?)
    }

    fn [cuMipmappedArrayGetLevel] (out: *mut CUarray, mipmapped: usize, level: u32) {
        let m = MIPMAPPED.get(mipmapped)?;
        put(out, *m.levels.get(level as usize).ok_or(INVALID_VALUE)?)
    }

    fn [cuMipmappedArrayDestroy] (mipmapped: usize) {
        MIPMAPPED.remove(mipmapped)?.levels.iter().try_for_each(|level| destroy(*level))
    }

    fn [cuTexObjectCreate] (
        out: *mut u64, resource: *const Resource, texture: *const TextureDesc, view: *const View,
    ) {
        let view = if view.is_null() { None } else { Some(get(view)?) };
        put(out, object(&TEXTURES, get(resource)?, Some(get(texture)?), view)?)
    }

    fn [cuTexObjectDestroy] (object: u64) {
        if object == 0 {
            return Ok(());
        }
        TEXTURES.remove(object as usize).map(drop).map_err(|_| INVALID_VALUE)
    }

    fn [cuTexObjectGetResourceDesc] (out: *mut Resource, object: u64) {
        put(out, own(&TEXTURES, object)?.resource)
    }

    fn [cuTexObjectGetTextureDesc] (out: *mut TextureDesc, object: u64) {
        put(out, own(&TEXTURES, object)?.texture.ok_or(INVALID_VALUE)?)
    }

    fn [cuTexObjectGetResourceViewDesc] (out: *mut View, object: u64) {
        put(out, own(&TEXTURES, object)?.view.ok_or(INVALID_VALUE)?)
    }

    fn [cuSurfObjectCreate] (out: *mut u64, resource: *const Resource) {
        put(out, object(&SURFACES, get(resource)?, None, None)?)
    }

    fn [cuSurfObjectDestroy] (object: u64) {
        SURFACES.remove(object as usize).map(drop).map_err(|_| INVALID_VALUE)
    }

    fn [cuSurfObjectGetResourceDesc] (out: *mut Resource, object: u64) {
        put(out, own(&SURFACES, object)?.resource)
    }

    fn [cuMemcpyAtoA_v2; cuMemcpyAtoA_v2_ptds] (
        dst: CUarray, dst_at: usize, src: CUarray, src_at: usize, n: usize,
    ) {
        let mut p = one_row(n);
        row(&mut p, src, src_at, false);
        row(&mut p, dst, dst_at, true);
        copy(&p, 0, FLAVOUR, false)
    }

    fn [cuMemcpyAtoD_v2; cuMemcpyAtoD_v2_ptds] (dst: u64, src: CUarray, at: usize, n: usize) {
        copy(&from_array(src, at, MEMORYTYPE_DEVICE, dst, n), 0, FLAVOUR, false)
    }

    fn [cuMemcpyDtoA_v2; cuMemcpyDtoA_v2_ptds] (dst: CUarray, at: usize, src: u64, n: usize) {
        copy(&to_array(dst, at, MEMORYTYPE_DEVICE, src, n), 0, FLAVOUR, false)
    }

    fn [cuMemcpyAtoH_v2; cuMemcpyAtoH_v2_ptds] (dst: u64, src: CUarray, at: usize, n: usize) {
        copy(&from_array(src, at, MEMORYTYPE_HOST, dst, n), 0, FLAVOUR, true)
    }

    fn [cuMemcpyHtoA_v2; cuMemcpyHtoA_v2_ptds] (dst: CUarray, at: usize, src: u64, n: usize) {
        copy(&to_array(dst, at, MEMORYTYPE_HOST, src, n), 0, FLAVOUR, true)
    }

    fn [cuMemcpyAtoHAsync_v2; cuMemcpyAtoHAsync_v2_ptsz] (
        dst: u64, src: CUarray, at: usize, n: usize, stream: CUstream,
    ) {
        copy(&from_array(src, at, MEMORYTYPE_HOST, dst, n), stream, FLAVOUR, false)
    }

    fn [cuMemcpyHtoAAsync_v2; cuMemcpyHtoAAsync_v2_ptsz] (
        dst: CUarray, at: usize, src: u64, n: usize, stream: CUstream,
    ) {
        copy(&to_array(dst, at, MEMORYTYPE_HOST, src, n), stream, FLAVOUR, false)
    }
}
