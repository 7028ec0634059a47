//! Arrays and mipmapped arrays, and the texture and surface objects that are made of them. An array
//! is plain memory, row after row; nothing here samples a texture.

use crate::context;
use crate::entry::{Flavour, api};
use crate::ffi::*;
use crate::handle::{self, Table};
use crate::memory::{self, Kind};
use std::sync::{Arc, Mutex};

static ARRAYS: Table<Array> = Table::new();
static MIPMAPPED: Table<Mipmapped> = Table::new();
static TEXTURES: Table<Texture> = Table::new();
static SURFACES: Table<Texture> = Table::new();

const LAYERED: u32 = 1;
const CUBEMAP: u32 = 4;

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    width: usize,
    height: usize,
    depth: usize,
    format: u32,
    channels: u32,
    flags: u32,
}

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Descriptor2D {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

impl Descriptor {
    fn element(&self) -> R<usize> {
        let wide = match self.format {
            0x01 | 0x08 => 1,
            0x02 | 0x09 | 0x10 => 2,
            0x03 | 0x0a | 0x20 => 4,
            _ => return Err(INVALID_VALUE),
        };
        match self.channels {
            1 | 2 | 4 => Ok(wide * self.channels as usize),
            _ => Err(INVALID_VALUE),
        }
    }

    fn check(&self) -> Res {
        let layered = self.flags & (LAYERED | CUBEMAP) != 0;
        let flat = self.height == 0 && self.depth != 0 && !layered;
        if self.width == 0 || flat {
            return Err(INVALID_VALUE);
        }
        self.element().map(drop)
    }

    /// The descriptor of a level of a mipmapped array.
    fn level(&self, n: u32) -> Descriptor {
        let less = |size: usize| if size == 0 { 0 } else { (size >> n).max(1) };
        let layered = self.flags & LAYERED != 0;
        Descriptor {
            width: less(self.width),
            height: less(self.height),
            depth: if layered {
                self.depth
            } else {
                less(self.depth)
            },
            ..*self
        }
    }
}

/// An array.
pub struct Array {
    descriptor: Descriptor,
    base: u64,
    /// The context that it was made in.
    context: usize,
    /// Whether it is part of a mipmapped array, which ends it.
    level: bool,
}

/// A mipmapped array: its levels' handles.
struct Mipmapped {
    levels: Vec<CUarray>,
    context: usize,
}

/// A texture or surface object: what it was made of, word for word.
struct Texture {
    resource: Resource,
    texture: Option<TextureDesc>,
    view: Option<View>,
    context: usize,
}

/// `CUarray` and its like are handles.
type CUarray = usize;
/// `CUDA_RESOURCE_DESC`.
type Resource = [u64; 18];
/// `CUDA_TEXTURE_DESC`.
type TextureDesc = [u32; 26];
/// `CUDA_RESOURCE_VIEW_DESC`.
type View = [u64; 14];

/// Where an array's bytes are: first byte, bytes of a row, rows of a slice, slices.
pub fn bytes(array: CUarray) -> R<(u64, usize, usize, usize)> {
    let a = ARRAYS.get(array)?;
    let d = &a.descriptor;
    let row = d.width * d.element()?;
    Ok((a.base, row, d.height.max(1), d.depth.max(1)))
}

fn create(descriptor: Descriptor, level: bool) -> R<CUarray> {
    let context = context::current()?;
    descriptor.check()?;
    let size = [descriptor.height.max(1), descriptor.depth.max(1)]
        .iter()
        .try_fold(descriptor.width * descriptor.element()?, |n, m| {
            n.checked_mul(*m)
        })
        .ok_or(OUT_OF_MEMORY)?;
    let base = memory::allocate(Kind::Device, size, context.handle, context.device, 0)?;
    let handle = handle::fresh();
    let array = Array {
        descriptor,
        base,
        context: context.handle,
        level,
    };
    ARRAYS.insert(handle, Arc::new(array));
    Ok(handle)
}

fn destroy(array: CUarray) -> Res {
    let a = ARRAYS.remove(array)?;
    if let Some(range) = memory::remove(a.base, |range| range.kind == Kind::Device) {
        memory::release(&range);
    }
    Ok(())
}

/// Forgets what a context owns; its memory goes with the context's other memory.
pub fn drop_context(context: usize) {
    ARRAYS.drain(|a| a.context == context);
    MIPMAPPED.drain(|m| m.context == context);
    TEXTURES.drain(|t| t.context == context);
    SURFACES.drain(|t| t.context == context);
}

/// Whether a resource is of something that is there.
fn check(resource: &Resource) -> Res {
    match resource[0] as u32 {
        0 => ARRAYS.get(resource[1] as usize).map(drop),
        1 => MIPMAPPED.get(resource[1] as usize).map(drop),
        2 | 3 if memory::find(resource[1]).is_some() => Ok(()),
        _ => Err(INVALID_VALUE),
    }
}

fn object(
    table: &'static Table<Texture>,
    resource: Resource,
    texture: Option<TextureDesc>,
    view: Option<View>,
) -> R<u64> {
    /// Objects are small numbers, as the driver's are.
    static NEXT: Mutex<usize> = Mutex::new(1);
    let context = context::current()?;
    check(&resource)?;
    let mut next = NEXT.lock().unwrap();
    let number = *next;
    *next += 1;
    let object = Texture {
        resource,
        texture,
        view,
        context: context.handle,
    };
    table.insert(number, Arc::new(object));
    Ok(number as u64)
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
    crate::copy_api::copy(crate::copy_api::from_3d(p)?, stream, flavour, wait)
}

api! {
    fn [cuArray3DCreate_v2] (out: *mut CUarray, descriptor: *const Descriptor) {
        put(out, create(get(descriptor)?, false)?)
    }

    fn [cuArrayCreate_v2] (out: *mut CUarray, descriptor: *const Descriptor2D) {
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
        let d = get(descriptor)?;
        d.check()?;
        let context = context::current()?.handle;
        let most = usize::BITS - d.width.max(d.height).max(d.depth).leading_zeros();
        let all = (0..levels.clamp(1, most)).map(|n| create(d.level(n), true));
        let levels = all.collect::<R<Vec<_>>>()?;
        let handle = handle::fresh();
        MIPMAPPED.insert(handle, Arc::new(Mipmapped { levels, context }));
        put(out, handle)
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
        TEXTURES.remove(object as usize).map(drop)
    }

    fn [cuTexObjectGetResourceDesc] (out: *mut Resource, object: u64) {
        put(out, TEXTURES.get(object as usize)?.resource)
    }

    fn [cuTexObjectGetTextureDesc] (out: *mut TextureDesc, object: u64) {
        put(out, TEXTURES.get(object as usize)?.texture.ok_or(INVALID_VALUE)?)
    }

    fn [cuTexObjectGetResourceViewDesc] (out: *mut View, object: u64) {
        put(out, TEXTURES.get(object as usize)?.view.ok_or(INVALID_VALUE)?)
    }

    fn [cuSurfObjectCreate] (out: *mut u64, resource: *const Resource) {
        put(out, object(&SURFACES, get(resource)?, None, None)?)
    }

    fn [cuSurfObjectDestroy] (object: u64) {
        SURFACES.remove(object as usize).map(drop)
    }

    fn [cuSurfObjectGetResourceDesc] (out: *mut Resource, object: u64) {
        put(out, SURFACES.get(object as usize)?.resource)
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
