//! Texture and surface objects, and the arrays of references.
//!
//! A kernel gets a texture object as a plain number among its parameters, so the program must hold
//! the driver's own number: these are the only objects whose handle is not chosen here.

use crate::cuda::call::{Cx, decode, put};
use crate::cuda::life::{enter, enter_local, guard};
use crate::cuda::state::bodies::Bodies;
use crate::cuda::state::{Described, State};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};

type Objects = Bodies<u64, Described>;

fn remember(objects: &Objects, object: u64, resource: &CUDA_RESOURCE_DESC, context: u32) {
    let resource = busbar_abi::bytes_of(resource).to_vec();
    objects.insert(object, Described { resource, context });
}

fn forget(objects: &Objects, object: u64) -> Result<(), CUresult> {
    let gone = objects.take(&object);
    gone.map(drop).ok_or(CUDA_ERROR_INVALID_VALUE)
}

const ARRAY: u32 = CU_RESOURCE_TYPE_ARRAY;
const MIPMAPPED_ARRAY: u32 = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
const LINEAR: u32 = CU_RESOURCE_TYPE_LINEAR;
const PITCH2D: u32 = CU_RESOURCE_TYPE_PITCH2D;

/// The program's description of a resource, and the same with an id in place of its handle.
unsafe fn resource(
    cx: Cx,
    p: *const CUDA_RESOURCE_DESC,
) -> Result<(CUDA_RESOURCE_DESC, CUDA_RESOURCE_DESC), CUresult> {
    if p.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the program's structure, of plain numbers.
    let (own, mut sent) = unsafe { (p.read(), p.read()) };
    let kind = match own.resType {
        ARRAY => Kind::Array,
        MIPMAPPED_ARRAY => Kind::MipmappedArray,
        LINEAR | PITCH2D => return Ok((own, sent)),
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    };
    // Both begin with the handle.
    let id = cx.handle(kind, busbar_abi::member(&own.res))?;
    busbar_abi::set_member(&mut sent.res, u64::from(id));
    Ok((own, sent))
}

pub unsafe fn cuTexObjectCreate(
    out: *mut CUtexObject,
    p: *const CUDA_RESOURCE_DESC,
    texture: *const CUDA_TEXTURE_DESC,
    view: *const CUDA_RESOURCE_VIEW_DESC,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let context = cx.need_context()?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the program's structures; the view may be null.
        let ((own, sent), texture, view) = unsafe {
            let texture = texture.as_ref().ok_or(CUDA_ERROR_INVALID_VALUE)?;
            (resource(cx, p)?, texture, view.as_ref())
        };
        let reply = cx.call(&msg::TexObject {
            resource: busbar_abi::bytes_of(&sent),
            texture: busbar_abi::bytes_of(texture),
            view: view.map_or(&[], busbar_abi::bytes_of),
        })?;
        let object = decode::<msg::TexObjectReply>(&reply)?.object;
        remember(&cx.state().textures, object, &own, context);
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, object as CUtexObject) }
    })
}

pub unsafe fn cuSurfObjectCreate(out: *mut CUsurfObject, p: *const CUDA_RESOURCE_DESC) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let context = cx.need_context()?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the program's structure.
        let (own, sent) = unsafe { resource(cx, p)? };
        if own.resType != ARRAY {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let reply = cx.call(&msg::SurfObject {
            resource: busbar_abi::bytes_of(&sent),
        })?;
        let object = decode::<msg::SurfObjectReply>(&reply)?.object;
        remember(&cx.state().surfaces, object, &own, context);
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, object as CUsurfObject) }
    })
}

pub unsafe fn cuTexObjectDestroy(object: CUtexObject) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if object == 0 {
            return Ok(());
        }
        forget(&cx.state().textures, object)?;
        cx.send(&msg::CuTexObjectDestroy { tex_object: object })
    })
}

pub unsafe fn cuSurfObjectDestroy(object: CUsurfObject) -> CUresult {
    guard(|| {
        let cx = enter()?;
        forget(&cx.state().surfaces, object)?;
        cx.send(&msg::CuSurfObjectDestroy {
            surf_object: object,
        })
    })
}

unsafe fn description(
    objects: fn(&State) -> &Objects,
    out: *mut CUDA_RESOURCE_DESC,
    object: u64,
) -> CUresult {
    guard(|| {
        let known = objects(enter_local()?.state()).get(&object);
        let bytes = known.ok_or(CUDA_ERROR_INVALID_VALUE)?.resource;
        let resource: CUDA_RESOURCE_DESC =
            busbar_abi::from_bytes(&bytes).ok_or(CUDA_ERROR_UNKNOWN)?;
        // SAFETY: the program's pointer.
        unsafe { put(out, resource) }
    })
}

pub unsafe fn cuTexObjectGetResourceDesc(
    out: *mut CUDA_RESOURCE_DESC,
    object: CUtexObject,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { description(|s| &s.textures, out, object) }
}

pub unsafe fn cuSurfObjectGetResourceDesc(
    out: *mut CUDA_RESOURCE_DESC,
    object: CUsurfObject,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { description(|s| &s.surfaces, out, object) }
}

pub const TEXTURE_ARRAY: u32 = 0;
pub const TEXTURE_MIPMAPPED_ARRAY: u32 = 1;
pub const SURFACE_ARRAY: u32 = 2;

/// The handle of the array that a reference is bound to.
///
/// # Safety
/// The pointer is as the API asks.
pub unsafe fn bound(out: *mut u64, reference: u64, which: u32) -> CUresult {
    // SAFETY: the program's pointer.
    guard(|| unsafe { put(out, array_of(reference, which)?) })
}

fn array_of(reference: u64, which: u32) -> Result<u64, CUresult> {
    let cx = enter()?;
    let (of, kind) = match which {
        TEXTURE_MIPMAPPED_ARRAY => (Kind::TexRef, Kind::MipmappedArray),
        SURFACE_ARRAY => (Kind::SurfRef, Kind::Array),
        _ => (Kind::TexRef, Kind::Array),
    };
    let reply = cx.call(&msg::ArrayOfReference {
        reference: cx.handle(of, reference)?,
        kind: which,
    })?;
    let id = decode::<msg::ArrayOfReferenceReply>(&reply)?.array;
    cx.adopt(kind, id)
}
