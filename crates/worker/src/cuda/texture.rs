//! Texture and surface objects, and the arrays of references.

use super::prelude::*;

const ARRAY: CUresourcetype = CU_RESOURCE_TYPE_ARRAY;
const MIPMAPPED_ARRAY: CUresourcetype = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;

/// Puts the driver's handle where the client put an id.
fn translate(w: &mut Cuda, r: &mut CUDA_RESOURCE_DESC) -> Result {
    let kind = match r.resType {
        ARRAY => Kind::Array,
        MIPMAPPED_ARRAY => Kind::MipmappedArray,
        CU_RESOURCE_TYPE_LINEAR | CU_RESOURCE_TYPE_PITCH2D => {
            let va: u64 = busbar_abi::member(&r.res);
            return w.address(va).map(drop);
        }
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    };
    let id: u64 = busbar_abi::member(&r.res);
    let raw = w.handle(kind, id as u32)?;
    busbar_abi::set_member(&mut r.res, raw);
    Ok(())
}

pub fn tex_object(w: &mut Cuda, m: msg::TexObject<'_>) -> Result<msg::TexObjectReply, Fail> {
    let mut resource: CUDA_RESOURCE_DESC = plain(m.resource)?;
    let texture: CUDA_TEXTURE_DESC = plain(m.texture)?;
    let view: Option<CUDA_RESOURCE_VIEW_DESC> = match m.view {
        [] => None,
        bytes => Some(plain(bytes)?),
    };
    let mut object = 0;
    translate(w, &mut resource)?;
    let view = view.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: pointers to live values; addresses inside are the driver's to check.
    check(unsafe { w.cuTexObjectCreate(&mut object, &resource, &texture, view) })?;
    w.gave_object(object);
    Ok(msg::TexObjectReply { object })
}

pub fn surf_object(w: &mut Cuda, m: msg::SurfObject<'_>) -> Result<msg::SurfObjectReply, Fail> {
    let mut resource: CUDA_RESOURCE_DESC = plain(m.resource)?;
    let mut object = 0;
    translate(w, &mut resource)?;
    // SAFETY: pointers to live values.
    check(unsafe { w.cuSurfObjectCreate(&mut object, &resource) })?;
    w.gave_object(object);
    Ok(msg::SurfObjectReply { object })
}

const TEXTURE_ARRAY: u32 = 0;
const TEXTURE_MIPMAPPED_ARRAY: u32 = 1;
const SURFACE_ARRAY: u32 = 2;

pub fn array_of_reference(
    w: &mut Cuda,
    m: msg::ArrayOfReference,
) -> Result<msg::ArrayOfReferenceReply> {
    let mut raw = std::ptr::null_mut();
    // SAFETY: a live reference and a pointer to a live handle.
    let kind = unsafe {
        match m.kind {
            TEXTURE_ARRAY => {
                let r = w.handle(Kind::TexRef, m.reference)? as CUtexref;
                check(w.cuTexRefGetArray(&mut raw, r))?;
                Kind::Array
            }
            TEXTURE_MIPMAPPED_ARRAY => {
                let r = w.handle(Kind::TexRef, m.reference)? as CUtexref;
                check(w.cuTexRefGetMipmappedArray(&mut raw, r))?;
                Kind::MipmappedArray
            }
            SURFACE_ARRAY => {
                let r = w.handle(Kind::SurfRef, m.reference)? as CUsurfref;
                check(w.cuSurfRefGetArray(&mut raw, r))?;
                Kind::Array
            }
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        }
    };
    refuse_if(raw.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let array = w.adopt(kind, raw as u64, &[(Kind::Context, w.record.aux)]);
    Ok(msg::ArrayOfReferenceReply { array })
}
