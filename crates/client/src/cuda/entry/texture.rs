//! Texture and surface objects, and the arrays of references.
//!
//! A kernel gets a texture object as a plain number among its parameters, so the program must hold
//! the driver's own number: these are the only objects whose handle is not chosen here.

use super::prelude::*;
use crate::cuda::state::Described;
use crate::cuda::state::bodies::Bodies;

type Objects = Bodies<u64, Described>;

fn remember(objects: &Objects, object: u64, resource: &CUDA_RESOURCE_DESC, context: u32) {
    let resource = busbar_abi::bytes_of(resource).to_vec();
    objects.insert(object, Described { resource, context });
}

fn forget(objects: &Objects, object: u64) -> Result<()> {
    let gone = objects.take(&object);
    gone.map(drop).ok_or(CUDA_ERROR_INVALID_VALUE)
}

const ARRAY: u32 = CU_RESOURCE_TYPE_ARRAY;
const MIPMAPPED_ARRAY: u32 = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
const LINEAR: u32 = CU_RESOURCE_TYPE_LINEAR;
const PITCH2D: u32 = CU_RESOURCE_TYPE_PITCH2D;

/// The program's description of a resource, and the same with an id in place of its handle.
fn resource(cx: Cx, own: &CUDA_RESOURCE_DESC) -> Result<CUDA_RESOURCE_DESC> {
    let mut sent = *own;
    let kind = match own.resType {
        ARRAY => Kind::Array,
        MIPMAPPED_ARRAY => Kind::MipmappedArray,
        LINEAR | PITCH2D => return Ok(sent),
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    };
    // Both begin with the handle.
    let id = cx.handle(kind, busbar_abi::member(&own.res))?;
    busbar_abi::set_member(&mut sent.res, u64::from(id));
    Ok(sent)
}

pub unsafe fn cuTexObjectCreate(
    cx: Cx,
    own: &CUDA_RESOURCE_DESC,
    texture: &CUDA_TEXTURE_DESC,
    view: *const CUDA_RESOURCE_VIEW_DESC,
) -> Result<CUtexObject> {
    let context = cx.need_context()?;
    let sent = resource(cx, own)?;
    // SAFETY: the program's structure, which may be null.
    let view = unsafe { view.as_ref() };
    let object = cx
        .reply_to(&msg::TexObject {
            resource: busbar_abi::bytes_of(&sent),
            texture: busbar_abi::bytes_of(texture),
            view: view.map_or(&[], busbar_abi::bytes_of),
        })?
        .object;
    remember(&cx.state().textures, object, own, context);
    Ok(object as CUtexObject)
}

pub fn cuSurfObjectCreate(cx: Cx, own: &CUDA_RESOURCE_DESC) -> Result<CUsurfObject> {
    let context = cx.need_context()?;
    let sent = resource(cx, own)?;
    refuse_if(own.resType != ARRAY, CUDA_ERROR_INVALID_VALUE)?;
    let object = cx
        .reply_to(&msg::SurfObject {
            resource: busbar_abi::bytes_of(&sent),
        })?
        .object;
    remember(&cx.state().surfaces, object, own, context);
    Ok(object as CUsurfObject)
}

pub fn cuTexObjectDestroy(cx: Cx, object: CUtexObject) -> Result<()> {
    if object == 0 {
        return Ok(());
    }
    forget(&cx.state().textures, object)?;
    cx.send(&msg::CuTexObjectDestroy { tex_object: object })
}

pub fn cuSurfObjectDestroy(cx: Cx, object: CUsurfObject) -> Result<()> {
    forget(&cx.state().surfaces, object)?;
    cx.send(&msg::CuSurfObjectDestroy {
        surf_object: object,
    })
}

pub fn description(cx: Cx, objects: &Objects, object: u64) -> Result<CUDA_RESOURCE_DESC> {
    cx.need_context()?;
    // Another context's is none here.
    let known = objects.get(&object).filter(|o| o.context == cx.scope);
    let known = known.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    busbar_abi::from_bytes(&known.resource).ok_or(CUDA_ERROR_UNKNOWN)
}

pub const TEXTURE_ARRAY: u32 = 0;
pub const TEXTURE_MIPMAPPED_ARRAY: u32 = 1;
pub const SURFACE_ARRAY: u32 = 2;

/// The handle of the array that a reference is bound to.
pub fn bound(cx: Cx, reference: u32, which: u32) -> Result<*mut c_void> {
    let kind = match which {
        TEXTURE_MIPMAPPED_ARRAY => Kind::MipmappedArray,
        _ => Kind::Array,
    };
    let id = cx
        .reply_to(&msg::ArrayOfReference {
            reference,
            kind: which,
        })?
        .array;
    Ok(cx.adopt(kind, id)? as *mut c_void)
}
