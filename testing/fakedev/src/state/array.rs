//! Arrays and mipmapped arrays, and the texture and surface objects that are made of them. An array
//! is plain memory, row after row; nothing here samples a texture.

use super::context;
use super::handle::{self, Table};
use super::memory::{self, Kind};
use crate::ffi::*;
use std::sync::{Arc, Mutex};

/// All arrays, by handle.
pub static ARRAYS: Table<Array> = Table::new();
/// All mipmapped arrays, by handle.
pub static MIPMAPPED: Table<Mipmapped> = Table::new();
/// All texture objects, by handle.
pub static TEXTURES: Table<Texture> = Table::new();
/// All surface objects, by handle.
pub static SURFACES: Table<Texture> = Table::new();

/// The number of the next texture or surface object: they are small, as the driver's are.
static NEXT: Mutex<usize> = Mutex::new(1);

/// Forgets all of these.
pub fn reset() {
    *NEXT.lock().unwrap() = 1;
    TEXTURES.clear();
    SURFACES.clear();
    MIPMAPPED.clear();
    ARRAYS.clear();
}

const LAYERED: u32 = 1;
const CUBEMAP: u32 = 4;

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Elements in a row.
    pub width: usize,
    /// Rows; 0 in an array of one dimension.
    pub height: usize,
    /// Slices or layers; 0 in an array of fewer dimensions.
    pub depth: usize,
    /// What an element's channels are.
    pub format: u32,
    /// Channels of an element.
    pub channels: u32,
    /// What kind of array it is.
    pub flags: u32,
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
    /// What it was made of.
    pub descriptor: Descriptor,
    base: u64,
    /// The context that it was made in.
    context: usize,
    /// Whether it is part of a mipmapped array, which ends it.
    pub level: bool,
}

/// A mipmapped array: its levels' handles.
pub struct Mipmapped {
    /// The handles.
    pub levels: Vec<CUarray>,
    context: usize,
}

/// A texture or surface object: what it was made of, word for word.
pub struct Texture {
    /// What it reads.
    pub resource: Resource,
    /// How it reads.
    pub texture: Option<TextureDesc>,
    /// As what it reads.
    pub view: Option<View>,
    context: usize,
}

/// `CUarray` and its like are handles.
pub type CUarray = usize;
/// `CUDA_RESOURCE_DESC`.
pub type Resource = [u64; 18];
/// `CUDA_TEXTURE_DESC`.
pub type TextureDesc = [u32; 26];
/// `CUDA_RESOURCE_VIEW_DESC`.
pub type View = [u64; 14];

/// Where an array's bytes are: first byte, bytes of a row, rows of a slice, slices.
pub fn bytes(array: CUarray) -> R<(u64, usize, usize, usize)> {
    let a = ARRAYS.get(array)?;
    let d = &a.descriptor;
    let row = d.width * d.element()?;
    Ok((a.base, row, d.height.max(1), d.depth.max(1)))
}

/// Makes an array in the current context.
pub fn create(descriptor: Descriptor, level: bool) -> R<CUarray> {
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

/// Makes a mipmapped array in the current context.
pub fn create_mipmapped(d: &Descriptor, levels: u32) -> R<usize> {
    d.check()?;
    let context = context::current()?.handle;
    let most = usize::BITS - d.width.max(d.height).max(d.depth).leading_zeros();
    let all = (0..levels.clamp(1, most)).map(|n| create(d.level(n), true));
    let levels = all.collect::<R<Vec<_>>>()?;
    let handle = handle::fresh();
    MIPMAPPED.insert(handle, Arc::new(Mipmapped { levels, context }));
    Ok(handle)
}

/// Ends an array.
pub fn destroy(array: CUarray) -> Res {
    let a = ARRAYS.remove(array)?;
    if let Some(range) = memory::remove(a.base, |range| range.kind == Kind::Device) {
        memory::release(&range);
    }
    Ok(())
}

/// A texture or surface object of the current context's.
pub fn own(table: &'static Table<Texture>, object: u64) -> R<Arc<Texture>> {
    let context = context::current()?.handle;
    let found = table.get(object as usize).map_err(|_| INVALID_VALUE)?;
    if found.context == context {
        Ok(found)
    } else {
        Err(INVALID_VALUE)
    }
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

/// Makes a texture or a surface object.
pub fn object(
    table: &'static Table<Texture>,
    resource: Resource,
    texture: Option<TextureDesc>,
    view: Option<View>,
) -> R<u64> {
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
